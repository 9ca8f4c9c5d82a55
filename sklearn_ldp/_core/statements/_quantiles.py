"""Quantiles of a number whose bins were estimated, with intervals that hold within bins, too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from ..domains import ends_of
from ..queries import check_spread, prefixes
from ..support.text import number_texts
from ._confidence import confidence_interval
from ._covariances import Estimate, covariances_of_rows
from ._intervals import warn_of_heaps


class Quantiles(NamedTuple):
    """Quantiles and the ends of their intervals, in the units of the bins.

    Parameters
    ----------
    value, low, high : ndarray of shape (n_estimates, n_quantiles)
        The quantiles, and the ends.
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
    """Return quantiles of a number, such as its median, with intervals.

    A quantile is where the distribution function reaches a probability. Its interval is where the
    intervals of the distribution function allow that: the band turned on its side.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate
        An estimate of bins between bounds, such as ``Domain.bins(64, bounds=(0, 100))``. The values
        may be post-processed; the intervals are those of the raw estimate.
    probabilities : array-like of shape (n_quantiles,)
        Which quantiles, each in (0, 1); 0.5 is the median.
    level : float, default=0.95
        Probability that an interval covers its quantile; with `simultaneous`, that all do at once,
        whatever their number.
    simultaneous : bool, default=False
        Whether the level is that of all quantiles at once.
    of : {"users", "population"}, default="users"
        Whose quantiles these are, see :mod:`sklearn_ldp.inference`.
    spread : {"any", "even"}, default="any"
        How users may be spread within a bin. Values always assume that it is evenly. Intervals of
        "any" hold in any case: they are made of whole bins. Those of "even" assume what values do,
        and are about a bin shorter. Where numbers are heaped (whole years in bins of one and a
        half) they miss more often than they say; heaps that can be seen make a warning.

    Returns
    -------
    Quantiles
        `value`, `low` and `high`. A value is where the closest distribution function that does not
        fall reaches the probability, on a straight line within a bin.

    Raises
    ------
    ValueError
        If the categories are no bins between bounds, if a probability is not in (0, 1), if the
        noise of the raw estimate is not known, or if `spread` is neither.

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
    ends, wanted = _checked(estimate, probabilities)
    check_spread(spread, "quantiles")
    raw = estimate.as_raw()
    if spread == "even":
        warn_of_heaps(covariances_of_rows(raw, of, "confidence interval"), 3)
    low, high = confidence_interval(raw, level, prefixes(), simultaneous, of, "each")
    value, found = quantile_values(estimate, wanted), []
    for start, stop in zip(low, high, strict=True):
        if simultaneous:  # the function lies within the band everywhere, and does not fall
            start, stop = np.maximum.accumulate(start), np.minimum.accumulate(stop[::-1])[::-1]
        found.append((_crossings if spread == "even" else _bins)(start, stop, ends, wanted))
    low, high = (np.stack(each) for each in zip(*found, strict=True))
    if estimate.domain.integers:
        low, high = np.floor(low + 0.5), np.ceil(high - 0.5)
    return Quantiles(value, np.minimum(low, value), np.maximum(high, value))


def quantile_values(estimate: Estimate, probabilities: ArrayLike) -> np.ndarray:
    """Return quantiles of the values of an estimate as they are.

    Shapes: probabilities (n_quantiles,) -> (n_estimates, n_quantiles).
    """
    ends, wanted = _checked(estimate, probabilities)
    sums = np.cumsum(estimate.values, axis=1)
    sums = np.maximum(sums, 0) if getattr(estimate, "clip_answers", False) else sums
    rows = [isotonic_regression(row[:-1]).x for row in sums]
    values = np.array([_reached(rising, ends, wanted) for rising in rows])
    values = values.reshape(len(rows), len(wanted))
    # A whole number a reaches from a - 1/2 to a + 1/2.
    return np.ceil(values - 0.5) if estimate.domain.integers else values


def _checked(estimate: Estimate, probabilities: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the bins, and the probabilities as an array."""
    ends = ends_of(estimate.domain, "quantiles")
    wanted = np.atleast_1d(np.asarray(probabilities, dtype=float))
    if wanted.ndim != 1 or not wanted.size or not np.all((wanted > 0) & (wanted < 1)):
        raise ValueError(f"Quantiles need probabilities in (0, 1), got {probabilities!r}.")
    return ends, wanted


def quartiles(estimate: Estimate) -> str:
    """Return the quartiles of a single estimate of bins between bounds as text; else ""."""
    ends = getattr(estimate.domain, "ends", None)
    if ends is None or len(estimate) != 1:
        return ""
    found = quantile_values(estimate, [0.25, 0.5, 0.75])[0]
    first, median, third = number_texts(found, 4, ends)
    return f"median {median}, quartiles {first} and {third}"


def _reached(rising: np.ndarray, ends: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Where a function that rises from 0 to 1, straight within a bin, reaches probabilities."""
    shares = np.concatenate([[0.0], np.clip(rising, 0, 1), [1.0]])
    after = np.searchsorted(shares, asked, side="left")
    start, stop = shares[after - 1], shares[after]
    inside = (asked - start) / (stop - start)
    return ends[after - 1] + inside * (ends[after] - ends[after - 1])


def _crossings(
    low: np.ndarray, high: np.ndarray, ends: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return where the upper ends first reach each probability, and the lower ends last do."""
    last = np.minimum.accumulate(low[-2::-1])[::-1]
    return _reached(np.maximum.accumulate(high[:-1]), ends, asked), _reached(last, ends, asked)


def _bins(
    low: np.ndarray, high: np.ndarray, ends: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the bins that may hold each quantile."""
    # A quantile is in bin j if the distribution function is below its probability where the bin
    # begins, and not below it where the bin ends. Both are allowed unless their intervals say
    # no.
    may_hold = (np.r_[0.0, low[:-1]] < asked[:, None]) & (np.r_[high[:-1], 1.0] >= asked[:, None])
    # Where no bin may, the value alone is left.
    first = np.where(may_hold.any(axis=1), ends[may_hold.argmax(axis=1)], np.inf)
    last = np.where(may_hold.any(axis=1), ends[::-1][may_hold[:, ::-1].argmax(axis=1)], -np.inf)
    return first, last
