"""Frequency oracles: how users randomise their values, and how reports become an estimate."""

from ._base import BaseOracle, PrivacyWarning
from ._direct import GRR
from ._local_hashing import OLH
from ._unary import OUE

__all__ = ["GRR", "OLH", "OUE", "BaseOracle", "PrivacyWarning"]
