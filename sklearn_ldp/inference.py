"""Inference: intervals, differences of estimates, tests, discoveries and ranks.

The parameter `of` specifies the people a statement refers to, with the same rule in all functions.
A statement about the people who reported (an interval, a discovery, a rank) has the default
``of="users"`` (finite population): the reports are the only source of randomness. A statement that
compares collections or tests a hypothesis (a difference, a test, a plot of these) has the default
``of="population"`` (superpopulation): the users are a random sample of a larger population. The
reason is that two collections have different users, and a hypothesis is rarely about the sample.
"""

from ._core.statistics import (
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
