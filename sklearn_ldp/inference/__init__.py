"""Statements that hold: intervals, differences of estimates, tests, discoveries and ranks.

Whom a statement is about is said by the parameter `of`, everywhere with the same rule. A statement
about the people who reported (an interval, a discovery, a rank) has the default ``of="users"``:
the only randomness is that of their reports. A statement that compares collections or tests a
hypothesis (a difference, a test, a picture of these) has the default ``of="population"``: the users
are a random sample of those whom it is about, as two collections have different users, and a
hypothesis is rarely about those who happened to report.
"""

from ._combined import combine
from ._confidence import confidence_interval as confidence_interval
from ._confidence import table_intervals as table_intervals
from ._covariances import Estimate as Estimate
from ._covariances import EstimateCovariances as EstimateCovariances
from ._covariances import refuse_without_law as refuse_without_law
from ._difference import EstimateDifference
from ._discoveries import Discoveries
from ._discoveries import adjusted_p_values as adjusted_p_values
from ._discoveries import detected as detected
from ._intervals import ConfidenceInterval
from ._intervals import answer_range as answer_range
from ._quantiles import Quantiles, quantiles
from ._quantiles import quartiles as quartiles
from ._ranks import RankInterval, TopCategories, ranks, top_categories
from ._statements import at_level as at_level
from ._statements import check_level as check_level
from ._statements import check_of as check_of
from ._tests import WaldTest, goodness_of_fit, independence
from ._tests import as_table as as_table
from ._tests import departures as departures
from ._tests import from_independence as from_independence

__all__ = [
    "ConfidenceInterval",
    "Discoveries",
    "EstimateDifference",
    "Quantiles",
    "RankInterval",
    "TopCategories",
    "WaldTest",
    "combine",
    "goodness_of_fit",
    "independence",
    "quantiles",
    "ranks",
    "top_categories",
]
