"""Errors of estimates, expected errors of planned collections, and scorers for searches."""

from ._epsilon_scorer import make_epsilon_scorer
from ._errors import frequency_mae, frequency_mse, query_errors
from ._frequency_scorer import make_frequency_scorer
from ._held_out_score import held_out_score, make_held_out_scorer
from ._planning import (
    detection_threshold,
    equivalent_n_samples,
    expected_error,
    required_n_samples,
)
from ._power import expected_power
from ._scores import BiasVariance, HeavyHitterScores, bias_variance, heavy_hitter_scores

__all__ = [
    "BiasVariance",
    "HeavyHitterScores",
    "bias_variance",
    "detection_threshold",
    "equivalent_n_samples",
    "expected_error",
    "expected_power",
    "frequency_mae",
    "frequency_mse",
    "heavy_hitter_scores",
    "held_out_score",
    "make_epsilon_scorer",
    "make_frequency_scorer",
    "make_held_out_scorer",
    "query_errors",
    "required_n_samples",
]
