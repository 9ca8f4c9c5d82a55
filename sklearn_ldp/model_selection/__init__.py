"""Searches that choose a post-processor, simulations of errors, and the choice of an epsilon."""

from ._base import candidate_name, default_candidates
from ._expected_error import ExpectedError
from ._held_out_search import HeldOutSearch
from ._least_epsilon import least_epsilon
from ._simulation import ErrorStudy, simulate_errors
from ._synthetic_search import SyntheticSearch
from ._synthetic_stack import SyntheticStack

__all__ = [
    "ErrorStudy",
    "ExpectedError",
    "HeldOutSearch",
    "SyntheticSearch",
    "SyntheticStack",
    "candidate_name",
    "default_candidates",
    "least_epsilon",
    "simulate_errors",
]
