"""Quantiles of a number whose bins were estimated, with intervals that hold within bins, too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from ..queries import prefixes
from ._confidence import confidence_interval
from ._covariances import Estimate


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
) -> Quantiles:
    """Return quantiles of a number, such as its median, with intervals.

    A quantile is where the distribution function reaches a probability. Its interval is made of all
    bins in which the intervals of the distribution function allow that: the band turned on its
    side. So it holds however the users are spread within the bins, and its ends are ends of bins.

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

    Returns
    -------
    Quantiles
        `value`, `low` and `high`. A value is where the closest distribution function that does not
        fall reaches the probability, on a straight line within a bin.

    Raises
    ------
    ValueError
        If the categories are no bins between bounds, if a probability is not in (0, 1), or if the
        noise of the raw estimate is not known.

    Examples
    --------
    >>> from sklearn_ldp import Domain, HadamardResponse
    >>> from sklearn_ldp.inference import quantiles
    >>> ages = Domain.bins(20, bounds=(0, 100))
    >>> oracle = HadamardResponse(2.0, categories=ages, random_state=0)
    >>> median = quantiles(oracle.fit_transform([20, 30, 42, 50, 80] * 4000), [0.5])
    >>> [end.round(1).item() for end in median]
    [42.9, 40.0, 45.0]
    """
    ends = getattr(estimate.domain, "ends", None)
    if ends is None:
        raise ValueError(
            "Quantiles need an estimate whose categories are bins between bounds, such as "
            "Domain.bins(64, bounds=(0, 100)), as only these have an order and ends."
        )
    asked = np.atleast_1d(np.asarray(probabilities, dtype=float))
    if asked.ndim != 1 or not asked.size or not np.all((asked > 0) & (asked < 1)):
        raise ValueError(f"Quantiles need probabilities in (0, 1), got {probabilities!r}.")
    raw = estimate.as_raw()
    low, high = confidence_interval(raw, level, prefixes(), simultaneous, of, "each")
    found = [
        (quantile_values(row, ends, asked), *_inverted(start, stop, ends, asked, simultaneous))
        for row, start, stop in zip(estimate.answer(prefixes()), low, high, strict=True)
    ]
    value, low, high = (np.reshape(one, (-1, asked.size)) for one in zip(*found, strict=True))
    return Quantiles(value, np.minimum(low, value), np.maximum(high, value))


def quantile_values(cumulated: np.ndarray, ends: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return where the nearest distribution function that does not fall reaches probabilities.

    Parameters
    ----------
    cumulated : ndarray of shape (d,)
        The estimated share of users up to the end of each bin.
    ends : ndarray of shape (d + 1,)
        Where the bins begin and end.
    asked : ndarray of shape (n_quantiles,)
        Probabilities, in (0, 1).

    Returns
    -------
    ndarray of shape (n_quantiles,)
        The quantiles.
    """
    rising = np.clip(isotonic_regression(cumulated[:-1]).x, 0, 1)
    shares = np.concatenate([[0.0], rising, [1.0]])
    after = np.searchsorted(shares, asked, side="left")
    start, stop = shares[after - 1], shares[after]
    inside = (asked - start) / (stop - start)
    return ends[after - 1] + inside * (ends[after] - ends[after - 1])


def _inverted(
    low: np.ndarray, high: np.ndarray, ends: np.ndarray, asked: np.ndarray, is_band: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the bins that may hold each quantile.

    A quantile is in bin j if the distribution function is below its probability where the bin
    begins, and not below it where the bin ends. Both are allowed unless their intervals say no.
    """
    at_start, at_end = np.r_[0.0, low[:-1]], np.r_[high[:-1], 1.0]
    if is_band:  # the function lies within it everywhere, and does not fall
        at_start = np.maximum.accumulate(at_start)
        at_end = np.minimum.accumulate(at_end[::-1])[::-1]
    may_hold = (at_start < asked[:, None]) & (at_end >= asked[:, None])
    # Where no bin may, the value alone is left.
    first = np.where(may_hold.any(axis=1), ends[may_hold.argmax(axis=1)], np.inf)
    last = np.where(may_hold.any(axis=1), ends[::-1][may_hold[:, ::-1].argmax(axis=1)], -np.inf)
    return first, last
