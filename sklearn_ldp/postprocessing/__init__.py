"""Post-processors: from an estimate to a better one, free of privacy cost."""

from ._base import BasePostProcessor
from ._baseline import Base, BaseCut, BasePos, PostPos, base_cut, base_pos, significance_threshold
from ._calibrate import Power, PowerNS, power, power_law_exponent, power_law_likelihood
from ._likelihood import MLEApx, mle_apx
from ._normalization import (
    CLS,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    norm,
    norm_cut,
    norm_hyb,
    norm_mul,
    norm_sub,
)

__all__ = [
    "CLS",
    "Base",
    "BaseCut",
    "BasePos",
    "BasePostProcessor",
    "MLEApx",
    "Norm",
    "NormCut",
    "NormHyb",
    "NormMul",
    "NormSub",
    "PostPos",
    "Power",
    "PowerNS",
    "base_cut",
    "base_pos",
    "mle_apx",
    "norm",
    "norm_cut",
    "norm_hyb",
    "norm_mul",
    "norm_sub",
    "power",
    "power_law_exponent",
    "power_law_likelihood",
    "significance_threshold",
]
