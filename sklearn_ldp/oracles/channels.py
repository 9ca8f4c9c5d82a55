"""Parts for your own oracle: base classes of its mechanism, random bits, and private thresholds.

:class:`Channel` is the base class of an oracle's mechanism, which randomizes values into reports
and decodes the reports. Its base class :class:`Mechanism` contains the methods that the collection
of reports needs. :class:`Coins` is the source of random bits. The thresholds are integers t for
draws with probability t / 2**64; they are chosen such that a mechanism satisfies epsilon exactly.
The guide's page on extending the package builds an oracle from these parts, and
``sklearn_ldp.utils.estimator_checks`` proves its epsilon.
"""

from .._core.mechanisms.channel import Channel, LinearMechanism, randomised_response
from .._core.mechanisms.coins import (
    PROBABILITY_UNIT,
    Coins,
    direct_threshold,
    group_threshold,
    symmetric_threshold,
    zero_bit_threshold,
)
from .._core.mechanisms.laws import (
    JointSupport,
    ReportLaw,
    fixed_support_size,
    independent_sizes,
    independent_support,
)
from .._core.mechanisms.matrix import MatrixChannel, integer_channel
from .._core.mechanisms.mechanism import (
    Mechanism,
    PublicPart,
    ReportField,
    bit_width,
    require_reports,
)
from .._core.noise import Noise

__all__ = [
    "PROBABILITY_UNIT",
    "Channel",
    "Coins",
    "JointSupport",
    "LinearMechanism",
    "MatrixChannel",
    "Mechanism",
    "Noise",
    "PublicPart",
    "ReportField",
    "ReportLaw",
    "bit_width",
    "direct_threshold",
    "fixed_support_size",
    "group_threshold",
    "independent_sizes",
    "independent_support",
    "integer_channel",
    "randomised_response",
    "require_reports",
    "symmetric_threshold",
    "zero_bit_threshold",
]
