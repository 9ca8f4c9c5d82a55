"""Choosing a post-processor: from a synthetic data set, or from the reports themselves."""

from ._held_out import HeldOutSearch
from ._search import default_candidates
from ._synthetic import SyntheticSearch

__all__ = ["HeldOutSearch", "SyntheticSearch", "default_candidates"]
