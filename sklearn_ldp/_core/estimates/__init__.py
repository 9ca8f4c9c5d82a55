"""Estimates, which oracles return, and which post-processors convert to new estimates."""

from ._estimate import OR_LONGER, FrequencyEstimate, display_class
from ._load import load_estimate
from ._set import EstimateSet
from .origins import remember_values, remembered_values
