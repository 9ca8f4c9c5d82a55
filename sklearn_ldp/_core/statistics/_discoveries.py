"""Discoveries: categories with a significant result, and the error rate of the results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr

from ._covariances import (
    Estimate,
    EstimateCovariances,
    covariances_of_rows,
    refuse_unknown_tails,
)
from ._statements import check_level

_WINDOW = 12.0  # standard deviations of a count outside of which its probabilities are left out

_MOST_NAMES = 10  # of categories in a representation

_STATEMENTS = {
    "fdr": "false-discovery rate",
    "fdr_any": "false-discovery rate under any dependence",
    "fwer": "probability of any false one",
}


def check_error_rate(error_rate: Any) -> None:
    """Raise ValueError unless `error_rate` is the name of a known error rate."""
    if error_rate not in _STATEMENTS:
        known = ", ".join(f'"{name}"' for name in _STATEMENTS)
        raise ValueError(
            f"Argument error_rate must be one of {known}, got {error_rate!r}. Use the default "
            '"fdr" if you are not sure.'
        )


def adjusted_p_values(p_values: np.ndarray, error_rate: str) -> np.ndarray:
    """Return adjusted p-values, separately for each row of hypotheses.

    An adjusted p-value is the smallest error rate at which the hypothesis is rejected.
    Shapes: p_values (n_estimates, d) -> (n_estimates, d).
    error_rate: the name of the error rate.
    """
    if error_rate != "fwer":
        method = "bh" if error_rate == "fdr" else "by"
        return stats.false_discovery_control(p_values, axis=1, method=method)
    order = np.argsort(p_values, axis=1, kind="stable")
    factors = np.arange(p_values.shape[1], 0, -1)
    steps = np.maximum.accumulate(np.take_along_axis(p_values, order, axis=1) * factors, axis=1)
    result = np.empty_like(p_values)
    np.put_along_axis(result, order, np.minimum(steps, 1), axis=1)
    return result


@dataclass(frozen=True, eq=False, repr=False)
class Discoveries:
    """Categories with a significant test result, and the error rate of these results.

    Parameters
    ----------
    categories : ndarray of shape (d,)
        All categories.
    mask : ndarray of shape (n_estimates, d)
        For each estimate, True for the discovered categories.
    p_values : ndarray of shape (n_estimates, d)
        Adjusted p-values: the smallest error rate at which a category is discovered.
    what : str
        The property of the discovered categories, such as "above 0".
    level : float
        One minus the bound for the error rate.
    error_rate : {"fdr", "fdr_any", "fwer"}
        The error rate that is at most ``1 - level``: the false-discovery rate ("fdr" assumes that
        errors are not strongly dependent, "fdr_any" does not), or the probability of any false
        discovery ("fwer").

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> oracle = OUE(3.0, categories=["a", "b", "c", "d"], random_state=0)
    >>> discoveries = oracle.fit_transform(["a"] * 9000 + ["b"] * 1000).detected(0.99)
    >>> discoveries
    2 of 4 categories are above 0 (false-discovery rate at most 0.01): a, b
    >>> discoveries[0].tolist()
    ['a', 'b']
    """

    categories: np.ndarray
    mask: np.ndarray
    p_values: np.ndarray
    what: str
    level: float
    error_rate: str

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, i: int) -> np.ndarray:
        """Return the discovered categories of the i-th estimate, in the order of the domain."""
        return self.categories[self.mask[i]]

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,}" for count in self.mask.sum(axis=1))
        text = (
            f"{counts} of {len(self.categories):,} categories are {self.what} "
            f"({_STATEMENTS[self.error_rate]} at most {1 - self.level:.3g})"
        )
        if len(self) != 1 or not self.mask.any():
            return text
        surest = np.argsort(self.p_values[0], kind="stable")[: self.mask.sum()]
        names = ", ".join(str(category) for category in self.categories[surest[:_MOST_NAMES]])
        return f"{text}: {names}{', ...' * (len(surest) > _MOST_NAMES)}"


def discoveries(
    categories: np.ndarray, p_values: np.ndarray, statement: str, level: float, error_rate: str
) -> Discoveries:
    """Return the categories with significant p-values as Discoveries.

    Shapes: categories (d,), p_values (n_estimates, d).
    p_values: before the adjustment for multiple tests.
    statement: the property of the discovered categories, such as "changed".
    """
    adjusted = adjusted_p_values(p_values, error_rate)
    mask = adjusted <= 1 - level
    return Discoveries(categories, mask, adjusted, statement, level, error_rate)


# -- exact tests of counts --------------------------------------------------------------------
def detected(
    estimate: Estimate, level: float, threshold: float, error_rate: str, of: str
) -> Discoveries:
    """Return the result of `FrequencyEstimate.detected` for the same arguments."""
    check_level(level)
    check_error_rate(error_rate)
    if not (isinstance(threshold, Real) and 0 <= float(threshold) < 1):
        raise ValueError(
            f"Argument threshold must satisfy 0 <= threshold < 1, got {threshold!r}. Pass a "
            "frequency, such as 0.01 for 1 % of the users."
        )
    rows = covariances_of_rows(estimate, of, "detection")
    refuse_unknown_tails(estimate.noise, "detection")
    p_values = [_p_values(*row, float(threshold)) for row in rows]
    statement = f"above {threshold:g}"
    stacked = np.reshape(p_values, estimate.shape)
    return discoveries(estimate.categories, stacked, statement, level, error_rate)


def _p_values(values: np.ndarray, covariances: EstimateCovariances, threshold: float) -> np.ndarray:
    if covariances.is_of_counts:
        std = np.sqrt(np.maximum(covariances.variances(), np.finfo(float).tiny))
        deviations = np.maximum(values - threshold, 0) / std
        return ndtr(-covariances.normal_statistics(deviations))
    law = covariances.binomial
    if law is None:
        raise ValueError(
            "Detection needs an oracle whose estimate follows from two probabilities p and q, such "
            "as OLH or HadamardResponse with one block, which this oracle is not. Use "
            "confidence_interval(simultaneous=True), which is available for all oracles."
        )
    n = round(covariances.n_samples)
    counts = covariances.support_counts(values)
    # Among all frequencies up to the threshold, the threshold itself makes large counts most
    # likely.
    n_above = math.floor(threshold * n + 1e-9)
    if covariances.is_sampled:
        # The count of a part of the users is a sum of independent draws with unequal probabilities.
        # Its tails are lighter than these (Hoeffding 1956).
        return stats.binom.sf(counts - 1, n, law.q + (law.p - law.q) * threshold)
    if n_above == 0:
        return stats.binom.sf(counts - 1, n, law.q)
    return tails_of_sum(counts, (n_above, law.p), (n - n_above, law.q))


def tails_of_sum(counts: np.ndarray, *binomials: tuple[int, float]) -> np.ndarray:
    """Return, for each count, the probability of a sum of binomial variables at least as large.

    Shapes: counts (d,) -> (d,).
    binomials: the parameters (n, p) of the independent variables.
    """
    from scipy.signal import fftconvolve  # slow to import, and rarely needed

    first = 0
    probabilities = np.ones(1)
    for n, p in binomials:
        radius = _WINDOW * math.sqrt(n * p * (1 - p)) + _WINDOW**2
        start = max(0, math.floor(n * p - radius))
        stop = min(n, math.ceil(n * p + radius))
        added = stats.binom.pmf(np.arange(start, stop + 1), n, p)
        probabilities = (
            np.convolve(probabilities, added)
            if min(len(added), len(probabilities)) < 1_000
            else np.maximum(fftconvolve(probabilities, added), 0)
        )
        first += start
    tails = np.r_[np.cumsum(probabilities[::-1])[::-1], 0.0]
    places = np.clip(counts - first, 0, len(probabilities)).astype(np.int64)
    return np.clip(tails[places], 0, 1)
