"""Frequency estimation under local differential privacy, the scikit-learn way."""

import importlib
from typing import Any

from ._estimate import FrequencyEstimate
from ._noise import NoiseModel
from ._version import __version__ as __version__
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

_SUBMODULES = ("collection", "datasets", "inspection", "metrics", "queries", "utils")


def __getattr__(name: str) -> Any:
    # As in scikit-learn: ``import sklearn_ldp; sklearn_ldp.datasets`` imports what is asked for.
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
