"""Errors of estimates, expected errors of planned collections, and scorers for searches."""

from ._audit import AuditResult, audit_epsilon
from ._epsilon_scorer import make_epsilon_scorer
from ._errors import (
    BiasVariance,
    HeavyHitterScores,
    bias_variance,
    frequency_mae,
    frequency_mse,
    heavy_hitter_scores,
    query_errors,
)
from ._planning import (
    detection_threshold,
    equivalent_n_samples,
    expected_error,
    required_n_samples,
)
from ._power import expected_power
from ._scorer import BaseScorer as BaseScorer
from ._scorer import held_out_score, make_frequency_scorer, make_held_out_scorer

__all__ = [
    "AuditResult",
    "BiasVariance",
    "HeavyHitterScores",
    "audit_epsilon",
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
