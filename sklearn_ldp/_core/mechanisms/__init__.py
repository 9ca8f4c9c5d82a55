"""Mechanisms: a client randomizes a user's value to a report, and a server counts reports.

All computations use integers. A :class:`Protocol` is the common configuration of clients and
server. :class:`Counts` contain the counts of reports that the server has computed. To build your
own oracle, use the classes of :mod:`sklearn_ldp.oracles.channels`.
"""

from .coins import CoinStreams
from .counts import MAX_USERS, Counts, Shards, Users, check_counts, check_total, expand
from .mechanism import privatize
from .protocol import OracleOrProtocol, Protocol, Reports, as_protocol, configuration_difference
