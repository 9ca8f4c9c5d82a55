"""Statements that hold: differences of estimates, tests, discoveries and ranks."""

from ._difference import EstimateDifference
from ._discoveries import Discoveries
from ._hypotheses import as_table as as_table  # for the picture of a table of two columns
from ._hypotheses import departures as departures
from ._hypotheses import from_independence as from_independence
from ._hypotheses import goodness_of_fit, independence
from ._ranks import RankInterval, TopCategories, ranks, top_categories
from ._wald import WaldTest

__all__ = [
    "Discoveries",
    "EstimateDifference",
    "RankInterval",
    "TopCategories",
    "WaldTest",
    "goodness_of_fit",
    "independence",
    "ranks",
    "top_categories",
]
