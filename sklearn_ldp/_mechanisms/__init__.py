"""Mechanisms: what a client does with a value and a server with a report, in integers.

A :class:`Protocol` is what the two agree on, and :class:`Counts` is what the server has added up.
What an oracle of one's own is made of is in :mod:`sklearn_ldp.oracles.channels`.
"""

from .coins import CoinStreams as CoinStreams
from .counts import MAX_USERS as MAX_USERS
from .counts import Counts as Counts
from .counts import Shards as Shards
from .counts import check_counts as check_counts
from .counts import check_total as check_total
from .counts import expand as expand
from .mechanism import privatize as privatize
from .protocol import OracleOrProtocol as OracleOrProtocol
from .protocol import Protocol as Protocol
from .protocol import Reports as Reports
from .protocol import as_protocol as as_protocol
from .protocol import configuration_difference as configuration_difference
