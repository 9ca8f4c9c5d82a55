"""Parts for your own oracle: the base of its mechanism, coins and private thresholds.

:class:`Channel` is the mechanism inside an oracle, :class:`Mechanism` is the part of it that
collecting reports needs, :class:`Coins` is the source of its randomness, and the thresholds are the
integers that keep a mechanism within epsilon. The guide's page on extending builds an oracle from
these parts, and ``sklearn_ldp.utils.estimator_checks`` proves its epsilon.
"""

from ..mechanisms._channel import Channel, randomised_response
from ..mechanisms._coins import (
    TWO_64,
    Coins,
    direct_threshold,
    group_threshold,
    symmetric_threshold,
    zero_bit_threshold,
)
from ..mechanisms._laws import JointSupport, PublicPart, ReportLaw
from ..mechanisms._mechanism import Mechanism, ReportField
from ..mechanisms._reports import bits_for, expect
from ..mechanisms._support import fixed_size, independent_sizes, independent_support

__all__ = [
    "TWO_64",
    "Channel",
    "Coins",
    "JointSupport",
    "Mechanism",
    "PublicPart",
    "ReportField",
    "ReportLaw",
    "bits_for",
    "direct_threshold",
    "expect",
    "fixed_size",
    "group_threshold",
    "independent_sizes",
    "independent_support",
    "randomised_response",
    "symmetric_threshold",
    "zero_bit_threshold",
]
