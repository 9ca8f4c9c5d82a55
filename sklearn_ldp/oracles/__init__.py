"""Frequency oracles: the client randomizes each user's value, and the server estimates
frequencies."""

from .._core.fitting import estimate_by_group
from ._base import BaseOracle
from ._choice import OracleProfile, best_oracle, compare_oracles, minimax_bound, profile_oracle
from ._direct import GRR
from ._hadamard import HadamardResponse
from ._items import ItemOracle
from ._key_values import KeyValueOracle
from ._local_hashing import BLH, OLH
from ._local_mean import LocalMean, MeanEstimate
from ._matrix import MatrixOracle
from ._projective import ProjectiveGeometryResponse
from ._strings import StringOracle
from ._subset import SubsetSelection
from ._unary import OUE, SUE

__all__ = [
    "BLH",
    "GRR",
    "OLH",
    "OUE",
    "SUE",
    "BaseOracle",
    "HadamardResponse",
    "ItemOracle",
    "KeyValueOracle",
    "LocalMean",
    "MatrixOracle",
    "MeanEstimate",
    "OracleProfile",
    "ProjectiveGeometryResponse",
    "StringOracle",
    "SubsetSelection",
    "best_oracle",
    "compare_oracles",
    "estimate_by_group",
    "minimax_bound",
    "profile_oracle",
]
