"""Errors of estimates, and scorers for searches."""

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
from ._scorer import make_frequency_scorer, make_held_out_scorer

__all__ = [
    "BiasVariance",
    "HeavyHitterScores",
    "bias_variance",
    "equivalent_n_samples",
    "frequency_mae",
    "frequency_mse",
    "heavy_hitter_scores",
    "held_out_score",
    "make_frequency_scorer",
    "make_held_out_scorer",
    "query_errors",
]
