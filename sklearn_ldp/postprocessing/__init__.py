"""Post-processors: from an estimate to a better one, free of privacy cost."""

from ._base import BasePostProcessor
from ._baseline import Base, BaseCut, BasePos, PostPos, base_cut, base_pos, significance_threshold
from ._normalization import Norm, NormCut, NormMul, NormSub, norm, norm_cut, norm_mul, norm_sub

__all__ = [
    "Base",
    "BaseCut",
    "BasePos",
    "BasePostProcessor",
    "Norm",
    "NormCut",
    "NormMul",
    "NormSub",
    "PostPos",
    "base_cut",
    "base_pos",
    "norm",
    "norm_cut",
    "norm_mul",
    "norm_sub",
    "significance_threshold",
]
