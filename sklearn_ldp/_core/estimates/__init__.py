"""Estimates: what oracles return, and what post-processors take and return."""

from ._estimate import OR_LONGER, FrequencyEstimate
from ._load import load_estimate
from ._set import EstimateSet
from .origins import remember_values, remembered_values
