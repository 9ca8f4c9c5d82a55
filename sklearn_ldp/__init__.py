"""Frequency estimation under local differential privacy, the scikit-learn way."""

from typing import TYPE_CHECKING

from ._utils.lazy import lazy_submodules
from ._version import __version__ as __version__
from .domains import Domain
from .estimates import EstimateSet, FrequencyEstimate
from .model_selection import BootstrapSearch, HeldOutSearch, SyntheticSearch
from .noise import NoiseModel
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
from .surveys import ColumnOracle, Consistent, LatentClasses, MarginalOracle

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
    "BootstrapSearch",
    "Calibrate",
    "ColumnOracle",
    "Consistent",
    "Domain",
    "EmpiricalBayes",
    "EstimateSet",
    "ExactMLE",
    "FrequencyEstimate",
    "HadamardResponse",
    "HeldOutSearch",
    "LatentClasses",
    "MLEApx",
    "MarginalOracle",
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
]

if TYPE_CHECKING:
    from . import collection as collection
    from . import datasets as datasets
    from . import inference as inference
    from . import inspection as inspection
    from . import learning as learning
    from . import metrics as metrics
    from . import planning as planning
    from . import queries as queries
    from . import robustness as robustness
    from . import surveys as surveys
    from . import utils as utils
else:
    __getattr__, __dir__ = lazy_submodules(
        __name__,
        (
            "collection",
            "datasets",
            "inference",
            "inspection",
            "learning",
            "metrics",
            "planning",
            "queries",
            "robustness",
            "surveys",
            "utils",
        ),
    )
