"""What an oracle of one's own is made of: the base of all channels, coins, and private thresholds.

:class:`Channel` is the mechanism inside an oracle, :class:`Coins` where its randomness comes from,
and the thresholds are the integers that keep a mechanism within epsilon. The guide's page on
extending builds an oracle of them; ``sklearn_ldp.utils.estimator_checks`` proves it.
"""

from ._channel import Channel, ReportField, randomised_response
from ._reports import bits_for, expect
from ._sampling import (
    TWO_64,
    Coins,
    direct_threshold,
    group_threshold,
    symmetric_threshold,
    zero_bit_threshold,
)
from ._support import independent_support

__all__ = [
    "TWO_64",
    "Channel",
    "Coins",
    "ReportField",
    "bits_for",
    "direct_threshold",
    "expect",
    "group_threshold",
    "independent_support",
    "randomised_response",
    "symmetric_threshold",
    "zero_bit_threshold",
]
