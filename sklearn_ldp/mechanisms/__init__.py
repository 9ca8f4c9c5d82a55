"""Mechanisms: what a client does with a value and a server with a report, in integers.

A :class:`Protocol` is what the two agree on, and :class:`Counts` is what the server has added up.
What an oracle of one's own is made of is in :mod:`sklearn_ldp.oracles.channels`.
"""

from .counts import MAX_USERS, Counts, Shards, check_counts, check_total, expand
from .protocol import Protocol, as_protocol

__all__ = [
    "MAX_USERS",
    "Counts",
    "Protocol",
    "Shards",
    "as_protocol",
    "check_counts",
    "check_total",
    "expand",
]
