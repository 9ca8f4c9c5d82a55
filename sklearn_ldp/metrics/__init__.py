"""Errors of estimates, scorers for searches, and the privacy gain from shuffling reports."""

from .._core.estimates.errors import (
    BiasVariance,
    HeavyHitterScores,
    bias_variance,
    equivalent_n_samples,
    frequency_mae,
    frequency_mse,
    heavy_hitter_scores,
    held_out_score,
    query_errors,
)
from ._repetition import repeated_collection_risk
from ._scorer import make_frequency_scorer, make_held_out_scorer
from ._shuffling import local_epsilon, shuffled_epsilon

__all__ = [
    "BiasVariance",
    "HeavyHitterScores",
    "bias_variance",
    "equivalent_n_samples",
    "frequency_mae",
    "frequency_mse",
    "heavy_hitter_scores",
    "held_out_score",
    "local_epsilon",
    "make_frequency_scorer",
    "make_held_out_scorer",
    "query_errors",
    "repeated_collection_risk",
    "shuffled_epsilon",
]
