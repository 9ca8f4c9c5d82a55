"""Frequency oracles: how users randomise their values, and how reports become an estimate."""

from ._base import BaseOracle, PrivacyWarning
from ._direct import GRR
from ._hadamard import HadamardResponse
from ._local_hashing import BLH, OLH
from ._projective import ProjectiveGeometryResponse
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
    "PrivacyWarning",
    "ProjectiveGeometryResponse",
    "SubsetSelection",
]
