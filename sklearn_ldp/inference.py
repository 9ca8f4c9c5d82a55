"""Inference: intervals, differences of estimates, tests, discoveries and ranks.

The parameter `of` of all functions specifies the people whose frequencies a result refers to:

- ``of="users"`` (finite population): the people who reported. The randomness of the reports is the
  only source of error. This is the default of intervals, discoveries and ranks.
- ``of="population"`` (superpopulation): a larger population, of which the users are a random
sample.
  The error of this sample is included. This is the default of differences, tests and their plots,
  because two collections have different users, and a hypothesis is rarely about the sample.
  Exception: for noisy counts of all users, who are no sample, the default of differences and their
  plots is the users.
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
