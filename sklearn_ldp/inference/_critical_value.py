"""The critical value of robust empirical-Bayes intervals."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr, ndtri

_CONCAVE = np.sqrt(3.0)  # up to this critical value, the chance of a miss is concave in bias^2


def critical_value(m: Any, level: float = 0.95) -> np.ndarray:
    """Return the critical value that holds for any bias of a given second moment.

    A normal variable of variance 1, whose mean (the bias) is itself random, is at most this large
    with the probability `level`, if the second moment of the bias is at most m. The worst bias
    takes two values at most: its square is 0 or where the chance of a miss touches its least
    concave majorant [1]_.

    Parameters
    ----------
    m : array-like
        Second moments, at least 0.
    level : float, default=0.95
        The probability.

    Returns
    -------
    ndarray
        Critical values, of the shape of m. They are interpolated, with a relative error of less
        than 1e-5.

    References
    ----------
    .. [1] T. B. Armstrong, M. Kolesár, M. Plagborg-Møller, "Robust empirical Bayes confidence
       intervals", Econometrica 90 (2022), :doi:`10.3982/ECTA18597`.

    Examples
    --------
    >>> from sklearn_ldp.inference._critical_value import critical_value
    >>> critical_value([0, 0.25, 1, 4]).round(3)
    array([1.96 , 2.227, 3.259, 7.216])
    """
    m = np.asarray(m, dtype=np.float64)
    logs, curve = _curve(level)
    with np.errstate(divide="ignore"):
        log_m = np.log(m)
    least = ndtri(0.5 + level / 2)
    result = least + np.exp(curve(np.clip(log_m, logs[0], logs[-1])))
    result = np.where(log_m < logs[0], least, result)
    # Chebyshev's inequality is attained in the limit.
    return np.where(log_m > logs[-1], np.sqrt(m / (1 - level)), result)


@lru_cache(maxsize=16)
def _curve(level: float) -> tuple[np.ndarray, CubicSpline]:
    above = np.geomspace(1e-9, 1e7, 1000)
    logs = np.log(_largest_moment(ndtri(0.5 + level / 2) + above, 1 - level))
    return logs, CubicSpline(logs, np.log(above))


def _largest_moment(critical, alpha):
    """Return the second moment of the bias at which the worst chance of a miss is alpha."""
    null = _miss(critical, 0.0)

    def before_touching(bias):
        return bias * _slope(critical, bias) >= 2 * (_miss(critical, bias) - null)

    touching = np.where(critical <= _CONCAVE, 0.0, _bisect(before_touching, critical + 10))
    rise = _miss(critical, touching) - null
    on_curve = _bisect(lambda bias: _miss(critical, bias) <= alpha, critical + 40) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        on_line = touching**2 * (alpha - null) / rise
    return np.where(null + rise >= alpha, on_line, on_curve)


def _miss(critical, bias):
    """Return the chance that a normal variable of mean `bias` is larger than the critical value."""
    return ndtr(bias - critical) + ndtr(-bias - critical)


def _slope(critical, bias):
    """Return the derivative of the chance of a miss in the bias."""
    densities = (np.exp(-((critical + sign * bias) ** 2) / 2) for sign in (-1, 1))
    return (next(densities) - next(densities)) / np.sqrt(2 * np.pi)


def _bisect(is_below, high):
    low = np.zeros_like(high)
    for _ in range(60):
        middle = (low + high) / 2
        below = is_below(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low
