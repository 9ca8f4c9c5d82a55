"""Frequency estimation under local differential privacy, the scikit-learn way."""

from ._estimate import FrequencyEstimate
from ._noise import NoiseModel
from .domains import Domain
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
    NPMLE,
    Base,
    BaseCut,
    BasePos,
    Calibrate,
    EmpiricalBayes,
    ExactMLE,
    MLEApx,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    PostPos,
    Power,
    PowerNS,
    Smooth,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "BLH",
    "CLS",
    "GRR",
    "NPMLE",
    "OLH",
    "OUE",
    "SUE",
    "Base",
    "BaseCut",
    "BasePos",
    "Calibrate",
    "Domain",
    "EmpiricalBayes",
    "ExactMLE",
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
    "Smooth",
    "SubsetSelection",
    "SyntheticSearch",
    "best_oracle",
]
