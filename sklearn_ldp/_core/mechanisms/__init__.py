"""Mechanisms: how a client randomizes a value, and how a server adds up reports, in integers.

A :class:`Protocol` is the common configuration of client and server, and :class:`Counts` are the
sums that the server has computed. :mod:`sklearn_ldp.oracles.channels` contains the parts for
building your own oracle.
"""

from .coins import CoinStreams
from .counts import MAX_USERS, Counts, Shards, Users, check_counts, check_total, expand
from .mechanism import privatize
from .protocol import OracleOrProtocol, Protocol, Reports, as_protocol, configuration_difference
