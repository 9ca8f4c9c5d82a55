"""Statements that hold: intervals, differences of estimates, tests, discoveries and ranks.

Whom a statement is about is said by the parameter `of`, everywhere with the same rule. A statement
about the people who reported (an interval, a discovery, a rank) has the default ``of="users"``:
the only randomness is that of their reports. A statement that compares collections or tests a
hypothesis (a difference, a test, a picture of these) has the default ``of="population"``: the users
are a random sample of those whom it is about, as two collections have different users, and a
hypothesis is rarely about those who happened to report.
"""

from ._core.statements import (
    ConfidenceInterval,
    Discoveries,
    EstimateDifference,
    MeanDifference,
    MeansByAnswer,
    Quantiles,
    RankInterval,
    TopCategories,
    WaldTest,
    combine,
    goodness_of_fit,
    homogeneity,
    independence,
    mean_by_answer,
    poststratify,
    quantiles,
    rake,
    ranks,
    reconcile,
    top_categories,
)

__all__ = [
    "ConfidenceInterval",
    "Discoveries",
    "EstimateDifference",
    "MeanDifference",
    "MeansByAnswer",
    "Quantiles",
    "RankInterval",
    "TopCategories",
    "WaldTest",
    "combine",
    "goodness_of_fit",
    "homogeneity",
    "independence",
    "mean_by_answer",
    "poststratify",
    "quantiles",
    "rake",
    "ranks",
    "reconcile",
    "top_categories",
]
