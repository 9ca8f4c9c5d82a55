"""Quantiles of a numerical variable from the estimated frequencies of bins, with intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from ..common.text import number_texts
from ..domains import ends_of
from ..queries import check_spread, prefixes
from ._confidence import confidence_interval
from ._covariances import Estimate, covariances_of_rows
from ._intervals import warn_of_heaps


class Quantiles(NamedTuple):
    """Estimated quantiles and the ends of their intervals, in the units of the bins.

    Parameters
    ----------
    value, low, high : ndarray of shape (n_estimates, n_quantiles)
        The quantiles, and the lower and upper ends of their intervals.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def quantiles(
    estimate: Estimate,
    probabilities: ArrayLike,
    level: float = 0.95,
    *,
    simultaneous: bool = False,
    of: str = "users",
    spread: str = "any",
) -> Quantiles:
    """Return quantiles of a numerical variable, such as its median, with intervals.

    A quantile is the point at which the distribution function reaches a probability. Its interval
    contains all points at which the intervals of the distribution function contain this
    probability.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate
        An estimate of bins between bounds, such as ``Domain.bins(64, bounds=(0, 100))``. The values
        may be post-processed. The intervals belong to the raw estimate.
    probabilities : array-like of shape (n_quantiles,)
        The probabilities of the quantiles, each in (0, 1). 0.5 is the median.
    level : float, default=0.95
        Probability that a single interval covers its quantile. With `simultaneous`, the probability
        that all intervals cover their quantiles, for any number of quantiles.
    simultaneous : bool, default=False
        Whether the level is simultaneous for all quantiles.
    of : {"users", "population"}, default="users"
        Whether the quantiles are about the users or their population. See
        :mod:`sklearn_ldp.inference`.
    spread : {"any", "even"}, default="any"
        The distribution of users within a bin that the intervals assume. With "any", intervals are
        valid for any distribution within bins, because they consist of whole bins. With "even",
        intervals assume an even distribution and are about a bin shorter. If users round their
        numbers (heaping, such as whole years in bins of one and a half years), the "even" intervals
        miss more often than stated, and a warning appears if the estimate shows this. The
        quantiles themselves always assume an even distribution.

    Returns
    -------
    Quantiles
        `value`, `low` and `high`, each of shape (n_estimates, n_quantiles). The estimated
        distribution function is replaced by the closest nondecreasing function. A value is the
        point at which this function reaches the probability, by linear interpolation within a bin.

    Raises
    ------
    ValueError
        If the categories are not bins between bounds, if a probability is not in (0, 1), if the
        noise of the raw estimate is not known, or if `spread` is not one of the two values.

    Examples
    --------
    >>> from sklearn_ldp import Domain, HadamardResponse
    >>> from sklearn_ldp.inference import quantiles
    >>> ages = Domain.bins(20, bounds=(0, 99), integers=True)
    >>> oracle = HadamardResponse(2.0, categories=ages, random_state=0)
    >>> median = quantiles(oracle.fit_transform([20, 30, 42, 50, 80] * 4000), [0.5])
    >>> [end.round(1).item() for end in median]
    [42.0, 40.0, 44.0]
    """
    ends, targets = _checked(estimate, probabilities)
    check_spread(spread, "quantiles")
    raw = estimate.as_raw()
    if spread == "even":
        warn_of_heaps(covariances_of_rows(raw, of, "confidence interval"), 3)
    low, high = confidence_interval(raw, level, prefixes(), simultaneous, of, "each")
    value = quantile_values(estimate, targets)
    invert = _crossings if spread == "even" else _bins
    intervals = []
    for start, stop in zip(low, high, strict=True):
        if simultaneous:  # the nondecreasing function lies within the whole band
            start = np.maximum.accumulate(start)
            stop = np.minimum.accumulate(stop[::-1])[::-1]
        intervals.append(invert(start, stop, ends, targets))
    low, high = (np.stack(each) for each in zip(*intervals, strict=True))
    if estimate.domain.integers:
        low = np.floor(low + 0.5)
        high = np.ceil(high - 0.5)
    return Quantiles(value, np.minimum(low, value), np.maximum(high, value))


def quantile_values(estimate: Estimate, probabilities: ArrayLike) -> np.ndarray:
    """Return quantiles of the values of an estimate, without intervals.

    Shapes: probabilities (n_quantiles,) -> (n_estimates, n_quantiles).
    """
    ends, targets = _checked(estimate, probabilities)
    sums = np.cumsum(estimate.values, axis=1)
    sums = np.maximum(sums, 0) if getattr(estimate, "clip_answers", False) else sums
    rows = [isotonic_regression(row[:-1]).x for row in sums]
    values = np.array([_reached(rising, ends, targets) for rising in rows])
    values = values.reshape(len(rows), len(targets))
    # The interval from a - 1/2 to a + 1/2 belongs to the whole number a.
    return np.ceil(values - 0.5) if estimate.domain.integers else values


def _checked(estimate: Estimate, probabilities: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Check the arguments of `quantiles`; return the ends of the bins and the probabilities.

    Shapes: -> (d + 1,), (n_quantiles,).
    """
    ends = ends_of(estimate.domain, "quantiles")
    targets = np.atleast_1d(np.asarray(probabilities, dtype=float))
    if targets.ndim != 1 or not targets.size or not np.all((targets > 0) & (targets < 1)):
        raise ValueError(
            f"Argument probabilities must be numbers in (0, 1), got {probabilities!r}. Pass a list "
            "such as [0.25, 0.5, 0.75]."
        )
    return ends, targets


def quartiles(estimate: Estimate) -> str:
    """Return a text with the three quartiles of an estimate, for example for its summary.

    The text is empty unless the categories are bins between bounds and the estimate has one row.
    """
    ends = getattr(estimate.domain, "ends", None)
    if ends is None or len(estimate) != 1:
        return ""
    values = quantile_values(estimate, [0.25, 0.5, 0.75])[0]
    first, median, third = number_texts(values, 4, ends)
    return f"median {median}, quartiles {first} and {third}"


def _reached(rising: np.ndarray, ends: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the points at which a piecewise linear distribution function reaches probabilities.

    rising: the function at the inner ends of the bins, nondecreasing, of shape (d - 1,).
    ends: the ends of the bins, of shape (d + 1,).
    targets: the probabilities, of shape (n_quantiles,).
    """
    shares = np.concatenate([[0.0], np.clip(rising, 0, 1), [1.0]])
    after = np.searchsorted(shares, targets, side="left")
    start, stop = shares[after - 1], shares[after]
    inside = (targets - start) / (stop - start)
    return ends[after - 1] + inside * (ends[after] - ends[after - 1])


def _crossings(
    low: np.ndarray, high: np.ndarray, ends: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return intervals of quantiles for an even distribution of users within bins.

    A quantile is between the point at which the upper ends of the distribution function reach its
    probability and the point at which the lower ends reach it.
    Shapes: low, high (d,), ends (d + 1,), targets (n_quantiles,) -> two ends (n_quantiles,).
    low, high: the intervals of the distribution function at the upper end of each bin.
    """
    last = np.minimum.accumulate(low[-2::-1])[::-1]
    return _reached(np.maximum.accumulate(high[:-1]), ends, targets), _reached(last, ends, targets)


def _bins(
    low: np.ndarray, high: np.ndarray, ends: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return intervals of quantiles for any distribution of users within bins.

    The interval of a quantile reaches from the start of the first bin that may contain the quantile
    to the end of the last such bin.
    Shapes: low, high (d,), ends (d + 1,), targets (n_quantiles,) -> two ends (n_quantiles,).
    low, high: the intervals of the distribution function at the upper end of each bin.
    """
    # A quantile is in bin j if the distribution function is below its probability at the beginning
    # of the bin, and not below it at the end of the bin. A bin is possible if the intervals of
    # the distribution function allow both.
    is_below = np.r_[0.0, low[:-1]] < targets[:, None]
    is_reached = np.r_[high[:-1], 1.0] >= targets[:, None]
    is_possible = is_below & is_reached
    # If no bin is possible, the interval is the value alone.
    is_any = is_possible.any(axis=1)
    first = np.where(is_any, ends[is_possible.argmax(axis=1)], np.inf)
    last = np.where(is_any, ends[::-1][is_possible[:, ::-1].argmax(axis=1)], -np.inf)
    return first, last
