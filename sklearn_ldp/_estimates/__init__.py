"""Estimates: what oracles return, and what post-processors take and return."""

from ._errors import (
    METRICS,
    BiasVariance,
    HeavyHitterScores,
    bias_variance,
    equivalent_n_samples,
    frequency_mae,
    frequency_mse,
    heavy_hitter_scores,
    query_errors,
)
from ._estimate import FrequencyEstimate
from ._held_out import held_out_score, mean_of_parts
from ._set import EstimateSet
