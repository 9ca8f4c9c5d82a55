"""Frequency estimation under local differential privacy, the scikit-learn way."""

from ._estimate import FrequencyEstimate, NoiseModel
from .model_selection import HeldOutSearch, SyntheticSearch
from .oracles import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    HadamardResponse,
    PrivacyWarning,
    ProjectiveGeometryResponse,
    SubsetSelection,
    best_oracle,
)
from .postprocessing import (
    CLS,
    Base,
    BaseCut,
    BasePos,
    MLEApx,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    PostPos,
    Power,
    PowerNS,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "BLH",
    "CLS",
    "GRR",
    "OLH",
    "OUE",
    "SUE",
    "Base",
    "BaseCut",
    "BasePos",
    "FrequencyEstimate",
    "HadamardResponse",
    "HeldOutSearch",
    "MLEApx",
    "NoiseModel",
    "Norm",
    "NormCut",
    "NormHyb",
    "NormMul",
    "NormSub",
    "PostPos",
    "Power",
    "PowerNS",
    "PrivacyWarning",
    "ProjectiveGeometryResponse",
    "SubsetSelection",
    "SyntheticSearch",
    "best_oracle",
]
