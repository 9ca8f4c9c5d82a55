"""Choosing a post-processor from an estimate, and studying them on known frequencies."""

from ._candidates import candidate_name, default_candidates
from ._held_out import HeldOutSearch
from ._simulation import simulate_errors
from ._study import ErrorStudy
from ._synthetic import SyntheticSearch

__all__ = [
    "ErrorStudy",
    "HeldOutSearch",
    "SyntheticSearch",
    "candidate_name",
    "default_candidates",
    "simulate_errors",
]
