"""What a client and a server agree on, and what a server has added up so far.

The public name is :class:`sklearn_ldp.collection.Protocol`.
"""

from ._clients import privatize as privatize
from ._counts import Counts as Counts
from ._counts import Shards as Shards
from ._protocol import Protocol as Protocol
from ._protocol import as_protocol as as_protocol
from ._protocol import configuration_difference as configuration_difference
from ._users import MAX_USERS as MAX_USERS
from ._users import check_counts as check_counts
from ._users import check_total as check_total
from ._users import expand as expand
