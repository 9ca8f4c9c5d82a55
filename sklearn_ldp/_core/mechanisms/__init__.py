"""Mechanisms: what a client does with a value and a server with a report, in integers.

A :class:`Protocol` is what the two agree on, and :class:`Counts` is what the server has added up.
What an oracle of one's own is made of is in :mod:`sklearn_ldp.oracles.channels`.
"""

from .coins import CoinStreams
from .counts import MAX_USERS, Counts, Shards, Users, check_counts, check_total, expand
from .mechanism import privatize
from .protocol import OracleOrProtocol, Protocol, Reports, as_protocol, configuration_difference
