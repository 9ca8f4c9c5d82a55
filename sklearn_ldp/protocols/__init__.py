"""What a client and a server agree on, and what a server has added up so far."""

from ._counts import Counts, Shards
from ._protocol import Protocol, as_protocol
from ._users import check_counts, expand

__all__ = ["Counts", "Protocol", "Shards", "as_protocol", "check_counts", "expand"]
