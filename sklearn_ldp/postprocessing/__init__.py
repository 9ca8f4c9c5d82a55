"""Post-processors: transformers that make an estimate more accurate at no privacy cost."""

from .._core.numerics.deconvolution import average_prior, g_model_prior, npmle_prior, posterior_mean
from .._core.numerics.simplex import norm, norm_sub
from ._base import BasePostProcessor, resolve_noise
from ._baseline import Base, BaseCut, BasePos, PostPos, base_cut, base_pos, significance_threshold
from ._calibrate import (
    Calibrate,
    Power,
    PowerNS,
    calibrate,
    power,
    power_law_exponent,
    power_law_likelihood,
)
from ._empirical_bayes import NPMLE, EmpiricalBayes, GroupTotals
from ._likelihood import ExactMLE, MLEApx, direct_mle, exact_mle, mle_apx
from ._normalization import (
    CLS,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    norm_cut,
    norm_hyb,
    norm_mul,
)
from ._smooth import MonotoneCDF, Smooth, monotone_cdf, smooth, smooth_average, smooth_risk
from ._smooth_likelihood import SmoothFit, SmoothMLE, smooth_mle
from ._trend import LocalLevel, Trend, local_level

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
    "LocalLevel",
    "MLEApx",
    "MonotoneCDF",
    "Norm",
    "NormCut",
    "NormHyb",
    "NormMul",
    "NormSub",
    "PostPos",
    "Power",
    "PowerNS",
    "Smooth",
    "SmoothFit",
    "SmoothMLE",
    "Trend",
    "average_prior",
    "base_cut",
    "base_pos",
    "calibrate",
    "direct_mle",
    "exact_mle",
    "g_model_prior",
    "local_level",
    "mle_apx",
    "monotone_cdf",
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
    "smooth_mle",
    "smooth_risk",
]
