"""Frequency estimation under local differential privacy, with the API of scikit-learn."""

from typing import TYPE_CHECKING

from ._core.common.lazy import lazy_names as _lazy_names
from ._version import __version__ as __version__

# The modules of the names, which are imported at their first use; type checkers read the imports
# below.
_HOMES = {
    "_core.domains": "Domain",
    "_core.estimates": "EstimateSet FrequencyEstimate load_estimate",
    "_core.noise": "NoiseModel",
    "model_selection": "HeldOutSearch SyntheticSearch SyntheticStack",
    "oracles": """
        BLH GRR OLH OUE SUE HadamardResponse ItemOracle KeyValueOracle LocalMean MatrixOracle
        ProjectiveGeometryResponse StringOracle SubsetSelection best_oracle
    """,
    "postprocessing": """
        CLS NPMLE Base BaseCut BasePos Calibrate EmpiricalBayes ExactMLE MLEApx MonotoneCDF Norm
        NormCut NormHyb NormMul NormSub PostPos Power PowerNS Smooth SmoothMLE
        Trend
    """,
    "privacy": "PrivacyWarning",
    "surveys": "ColumnOracle Consistent LatentClasses MarginalOracle RangeOracle",
}
__all__ = sorted(name for names in _HOMES.values() for name in names.split())

if TYPE_CHECKING:
    from . import collection as collection
    from . import datasets as datasets
    from . import inference as inference
    from . import inspection as inspection
    from . import learning as learning
    from . import metrics as metrics
    from . import planning as planning
    from . import privacy as privacy
    from . import queries as queries
    from . import robustness as robustness
    from . import surveys as surveys
    from . import utils as utils
    from ._core.domains import Domain as Domain
    from ._core.estimates import EstimateSet as EstimateSet
    from ._core.estimates import FrequencyEstimate as FrequencyEstimate
    from ._core.estimates import load_estimate as load_estimate
    from ._core.noise import NoiseModel as NoiseModel
    from .model_selection import HeldOutSearch as HeldOutSearch
    from .model_selection import SyntheticSearch as SyntheticSearch
    from .model_selection import SyntheticStack as SyntheticStack
    from .oracles import BLH as BLH
    from .oracles import GRR as GRR
    from .oracles import OLH as OLH
    from .oracles import OUE as OUE
    from .oracles import SUE as SUE
    from .oracles import HadamardResponse as HadamardResponse
    from .oracles import ItemOracle as ItemOracle
    from .oracles import KeyValueOracle as KeyValueOracle
    from .oracles import LocalMean as LocalMean
    from .oracles import MatrixOracle as MatrixOracle
    from .oracles import ProjectiveGeometryResponse as ProjectiveGeometryResponse
    from .oracles import StringOracle as StringOracle
    from .oracles import SubsetSelection as SubsetSelection
    from .oracles import best_oracle as best_oracle
    from .postprocessing import CLS as CLS
    from .postprocessing import NPMLE as NPMLE
    from .postprocessing import Base as Base
    from .postprocessing import BaseCut as BaseCut
    from .postprocessing import BasePos as BasePos
    from .postprocessing import Calibrate as Calibrate
    from .postprocessing import EmpiricalBayes as EmpiricalBayes
    from .postprocessing import ExactMLE as ExactMLE
    from .postprocessing import MLEApx as MLEApx
    from .postprocessing import MonotoneCDF as MonotoneCDF
    from .postprocessing import Norm as Norm
    from .postprocessing import NormCut as NormCut
    from .postprocessing import NormHyb as NormHyb
    from .postprocessing import NormMul as NormMul
    from .postprocessing import NormSub as NormSub
    from .postprocessing import PostPos as PostPos
    from .postprocessing import Power as Power
    from .postprocessing import PowerNS as PowerNS
    from .postprocessing import Smooth as Smooth
    from .postprocessing import SmoothMLE as SmoothMLE
    from .postprocessing import Trend as Trend
    from .privacy import PrivacyWarning as PrivacyWarning
    from .surveys import ColumnOracle as ColumnOracle
    from .surveys import Consistent as Consistent
    from .surveys import LatentClasses as LatentClasses
    from .surveys import MarginalOracle as MarginalOracle
    from .surveys import RangeOracle as RangeOracle
else:
    __getattr__, __dir__ = _lazy_names(__name__, _HOMES)
