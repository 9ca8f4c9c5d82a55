"""Which categories are surely more frequent than a threshold: exact tests of their counts."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from scipy import stats
from scipy.signal import fftconvolve

from .._statements import check_level
from ._discoveries import Discoveries, check_error_rate, discoveries
from ._estimates import spreads
from ._spread import Spread

_WINDOW = 12.0  # standard deviations of a count outside of which its probabilities are left out


def detected(
    estimate: Any, level: float, threshold: float, error_rate: str, of: str
) -> Discoveries:
    """Return the result of `FrequencyEstimate.detected`, whose arguments these are."""
    check_level(level)
    check_error_rate(error_rate)
    if not (isinstance(threshold, Real) and 0 <= float(threshold) < 1):
        raise ValueError(f"Argument threshold must fulfil 0 <= threshold < 1, got {threshold!r}.")
    rows = spreads(estimate, of, "detection")
    p_values = [_p_values(row, spread, float(threshold)) for row, spread in rows]
    what = f"above {threshold:g}"
    stacked = np.reshape(p_values, estimate.shape)
    return discoveries(estimate.categories, stacked, what, level, error_rate)


def _p_values(values: np.ndarray, spread: Spread, threshold: float) -> np.ndarray:
    law = spread.binomial
    if law is None:
        raise ValueError(
            "Detection needs reports that support a category or do not, each with a known "
            "probability (p and q), which this estimate does not have. Use another oracle, or one "
            "block of HadamardResponse; confidence_interval(simultaneous=True) works for all."
        )
    n, counts = round(spread.n_samples), spread.support_counts(values)
    # Of all frequencies up to the threshold, the threshold itself makes large counts most likely.
    n_above = math.floor(threshold * n + 1e-9)
    if spread.is_sampled:
        # The count of a part of the users is a sum of independent draws of unequal chances, whose
        # tails are lighter than these (Hoeffding 1956).
        return stats.binom.sf(counts - 1, n, law.q + (law.p - law.q) * threshold)
    if n_above == 0:
        return stats.binom.sf(counts - 1, n, law.q)
    return _tails_of_sum(counts, (n_above, law.p), (n - n_above, law.q))


def _tails_of_sum(counts: np.ndarray, *laws: tuple[int, float]) -> np.ndarray:
    """Return the probabilities that the sum of two binomial counts reaches these counts."""
    first, probabilities = 0, np.ones(1)
    for n, p in laws:
        radius = _WINDOW * math.sqrt(n * p * (1 - p)) + _WINDOW**2
        start, stop = max(0, math.floor(n * p - radius)), min(n, math.ceil(n * p + radius))
        of_one = stats.binom.pmf(np.arange(start, stop + 1), n, p)
        probabilities = (
            np.convolve(probabilities, of_one)
            if min(len(of_one), len(probabilities)) < 1_000
            else np.maximum(fftconvolve(probabilities, of_one), 0)
        )
        first += start
    tails = np.r_[np.cumsum(probabilities[::-1])[::-1], 0.0]
    places = np.clip(counts - first, 0, len(probabilities)).astype(np.int64)
    return np.clip(tails[places], 0, 1)
