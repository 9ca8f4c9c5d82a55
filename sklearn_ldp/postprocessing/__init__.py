"""Post-processors, which improve an estimate at no privacy cost."""

from ._base import BasePostProcessor
from ._baseline import Base, BaseCut, BasePos, PostPos, base_cut, base_pos, significance_threshold
from ._calibrate import Calibrate, calibrate, power_law_exponent
from ._empirical_bayes import EmpiricalBayes
from ._exact_likelihood import ExactMLE, direct_mle, exact_mle
from ._grouped import GroupTotals
from ._known_noise import resolve_noise
from ._learnt_prior import average_prior, g_model_prior, npmle_prior, posterior_mean
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
from ._npmle import NPMLE
from ._power_law import Power, PowerNS, power, power_law_likelihood
from ._smooth import Smooth, smooth, smooth_average, smooth_risk

__all__ = [
    "CLS",
    "NPMLE",
    "Base",
    "BaseCut",
    "BasePos",
    "BasePostProcessor",
    "Calibrate",
    "EmpiricalBayes",
    "ExactMLE",
    "GroupTotals",
    "MLEApx",
    "Norm",
    "NormCut",
    "NormHyb",
    "NormMul",
    "NormSub",
    "PostPos",
    "Power",
    "PowerNS",
    "Smooth",
    "average_prior",
    "base_cut",
    "base_pos",
    "calibrate",
    "direct_mle",
    "exact_mle",
    "g_model_prior",
    "mle_apx",
    "norm",
    "norm_cut",
    "norm_hyb",
    "norm_mul",
    "norm_sub",
    "npmle_prior",
    "posterior_mean",
    "power",
    "power_law_exponent",
    "power_law_likelihood",
    "resolve_noise",
    "significance_threshold",
    "smooth",
    "smooth_average",
    "smooth_risk",
]
