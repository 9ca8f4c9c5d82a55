"""Frequency estimation under local differential privacy, the scikit-learn way."""

from ._estimate import FrequencyEstimate, NoiseModel
from .model_selection import HeldOutSearch, SyntheticSearch
from .oracles import GRR, OLH, OUE, PrivacyWarning
from .postprocessing import (
    Base,
    BaseCut,
    BasePos,
    Norm,
    NormCut,
    NormMul,
    NormSub,
    PostPos,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "GRR",
    "OLH",
    "OUE",
    "Base",
    "BaseCut",
    "BasePos",
    "FrequencyEstimate",
    "HeldOutSearch",
    "NoiseModel",
    "Norm",
    "NormCut",
    "NormMul",
    "NormSub",
    "PostPos",
    "PrivacyWarning",
    "SyntheticSearch",
]
