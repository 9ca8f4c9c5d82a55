"""Intervals after post-processing, which cover the stated share of the categories on average.

An estimate that is shrunken towards what the others show is biased, so no interval around it covers
every category's frequency with the stated probability. These intervals cover the stated share of
the categories of a collection instead. Large estimates are an exception: where x is above two null
standard deviations, the interval includes Wald's.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ..postprocessing import average_prior
from ._critical_value import critical_value
from ._intervals import score_intervals, two_sided
from ._plausible_priors import PlausiblePriors
from ._spread import Spread

LEAST_CATEGORIES = 400  # below, the posterior without a proof is not honest
_LEAST_VARIANCE = 20.0  # of the count of an empty category; below, its noise is not normal
_LARGE = 2.0  # null standard deviations above which an interval includes Wald's
_TINY = 0.05  # null standard deviations below which the posterior does not tell a frequency from 0
_MOMENT_LEVEL = 0.95  # of the upper bound on the second moment of the frequencies
_FARTHEST = 2.0  # standard deviations that ends of the posterior move outwards at most
_STEPS = 5  # of the search for how far they move
_LENIENCE = 3.0  # how much more may be missed in the worst case if no proof is asked for
_NODE = 1 / 50  # null standard deviations between estimates whose quantiles are interpolated ..
_ALL_EXACT = 500  # .. if there are more distinct estimates than this

Ends = tuple[np.ndarray, np.ndarray]


def average_intervals(values: np.ndarray, spread: Spread, level: float, coverage: str) -> Ends:
    """Return intervals that cover a share of all categories, by the method that fits the noise.

    Parameters
    ----------
    values : ndarray of shape (d,)
        The raw estimate.
    spread : Spread
        Its covariances.
    level : float
        Share of the categories to be covered.
    coverage : {"average", "posterior"}
        Whether there is to be a theorem behind it.

    Returns
    -------
    low, high : ndarray of shape (d,)
        The ends of the intervals, in [0, 1].

    Raises
    ------
    ValueError
        With "posterior", if there are fewer than 400 categories or the noise is not normal.
    """
    std = np.sqrt(spread.variances())
    null_std = float(np.ravel(spread.noise.std)[0])
    is_normal = spread.empty_variance >= _LEAST_VARIANCE
    if coverage == "posterior" and (spread.binomial is None or not is_normal):
        raise ValueError(
            "Posterior intervals need normal noise that depends on a category's own frequency: "
            'ask for coverage="average", or collect from more users.'
        )
    if not is_normal:  # then intervals that hold for each category are the shortest honest ones
        return score_intervals(values, spread, two_sided(level))
    if spread.binomial is None:
        return robust_interval(values, std, null_std, level)
    make = posterior_interval if coverage == "posterior" else localized_interval
    return make(values, std, null_std, spread.quadratic()[1], level)


def robust_interval(x: np.ndarray, s: np.ndarray, null_std: float, level: float = 0.95) -> Ends:
    """Return robust empirical-Bayes intervals, from the second moment of the frequencies alone.

    An estimate is shrunken towards 1 / d as under a normal prior. The half width makes up for the
    worst distribution of the frequencies with the same second moment [1]_, of which an upper bound
    is taken. The average coverage is at least the level, apart from the error of that bound,
    whatever the frequencies are, and however the errors of the estimates are correlated.

    Parameters
    ----------
    x : ndarray of shape (d,)
        Raw estimate.
    s : ndarray of shape (d,)
        Its standard deviations.
    null_std : float
        Standard deviation of the estimate of a category that nobody has.
    level : float, default=0.95
        Share of the categories to be covered.

    Returns
    -------
    low, high : ndarray of shape (d,)
        The ends of the intervals, in [0, 1].

    See Also
    --------
    localized_interval : Shorter, for errors that are hardly correlated.

    References
    ----------
    .. [1] T. B. Armstrong, M. Kolesár, M. Plagborg-Møller, "Robust empirical Bayes confidence
       intervals", Econometrica 90 (2022), :doi:`10.3982/ECTA18597`.
    """
    centre = 1 / len(x)
    excess = np.mean((x - centre) ** 2 - s**2)
    error = np.sqrt(2 * np.mean(s**4) / len(x))
    moment = max(excess, 0.0) + ndtri(_MOMENT_LEVEL) * error
    weight = moment / (moment + s**2)
    middle = centre + weight * (x - centre)
    half_width = critical_value(s**2 / moment, level) * weight * s
    return _with_wald(middle - half_width, middle + half_width, x, s, null_std, level)


def localized_interval(
    x: np.ndarray, s: np.ndarray, null_std: float, growth: float, level: float = 0.95
) -> Ends:
    """Return posterior intervals, widened until no plausible prior makes them miss too much.

    The ends of the posterior under the learnt prior move outwards until the average coverage is at
    least the level under *every* distribution of the frequencies that the estimate does not
    contradict (at a confidence of 95 %, whatever the frequencies are). If that is longer than
    Wald's interval clipped to [0, 1], or impossible, it is Wald's. This is the localization of
    [1]_, applied to the coverage of intervals (unpublished).

    Parameters
    ----------
    x : ndarray of shape (d,)
        Raw estimate; the errors of its categories are taken as independent and normal.
    s : ndarray of shape (d,)
        Its standard deviations.
    null_std : float
        Standard deviation of the estimate of a category that nobody has.
    growth : float
        How much the variance grows with the frequency.
    level : float, default=0.95
        Share of the categories to be covered.

    Returns
    -------
    low, high : ndarray of shape (d,)
        The ends of the intervals, in [0, 1].

    References
    ----------
    .. [1] N. Ignatiadis, S. Wager, "Confidence intervals for nonparametric empirical Bayes
       analysis", JASA 117 (2022), :doi:`10.1080/01621459.2021.2008403`.
    """
    return _widened_posterior(x, s, null_std, growth, level, 1 - level)


def posterior_interval(
    x: np.ndarray, s: np.ndarray, null_std: float, growth: float, level: float = 0.95
) -> Ends:
    """Return posterior intervals that are widened less, without a proof.

    They are made like :func:`localized_interval`, but the worst plausible prior may make them miss
    three times as much, because the true one is never the worst.

    Parameters
    ----------
    x : ndarray of shape (d,)
        Raw estimate of at least 400 categories.
    s : ndarray of shape (d,)
        Its standard deviations.
    null_std : float
        Standard deviation of the estimate of a category that nobody has.
    growth : float
        How much the variance grows with the frequency.
    level : float, default=0.95
        Share of the categories to be covered.

    Returns
    -------
    low, high : ndarray of shape (d,)
        The ends of the intervals, in [0, 1].

    Raises
    ------
    ValueError
        If there are fewer than 400 categories.
    """
    if len(x) < LEAST_CATEGORIES:
        raise ValueError(
            f"Posterior intervals need at least {LEAST_CATEGORIES} categories to learn the prior "
            f"from, got {len(x)}; take the robust ones, which hold for any number."
        )
    return _widened_posterior(x, s, null_std, growth, level, _LENIENCE * (1 - level))


def _widened_posterior(x, s, null_std, growth, level, most_missed):
    prior = average_prior(x, null_std, growth)
    plausible = PlausiblePriors(x, null_std, growth)

    def posterior(x):
        return posterior_quantiles(x, *prior, null_std, growth, level)

    nodes = plausible.nodes * null_std
    tried = posterior(nodes)
    stds = np.sqrt(null_std**2 + growth * np.clip(nodes, 0, 1))

    def misses(outwards):
        low, high = _moved(tried, outwards, nodes, stds, null_std, level)
        return plausible.worst_miss(low / null_std, high / null_std) > most_missed

    wald = _clipped_wald(x, s, level)
    if misses(_FARTHEST):
        return wald
    too_near, enough = 0.0, _FARTHEST
    for _ in range(_STEPS):
        middle = (too_near + enough) / 2
        too_near, enough = (middle, enough) if misses(middle) else (too_near, middle)
    moved = _moved(posterior(x), enough, x, s, null_std, level)
    return min(moved, wald, key=lambda ends: np.mean(ends[1] - ends[0]))


def _moved(ends, outwards, x, s, null_std, level):
    """Move the ends of the posterior outwards, in standard deviations; a low end of 0 stays."""
    low, high = ends
    low = np.where(low < _TINY * null_std, 0.0, low - outwards * s)
    return _with_wald(low, high + outwards * s, x, s, null_std, level)


def posterior_quantiles(
    x: np.ndarray,
    support: np.ndarray,
    weights: np.ndarray,
    null_std: float,
    growth: float,
    level: float,
) -> Ends:
    """Return equal-tailed intervals of the posterior under a discrete prior.

    Parameters
    ----------
    x : ndarray of shape (d,)
        Raw estimate.
    support, weights : ndarray of shape (n_support,)
        The prior: frequencies in increasing order, and their probabilities.
    null_std : float
        Standard deviation of the estimate of a category that nobody has.
    growth : float
        How much the variance grows with the frequency.
    level : float
        Posterior probability of the intervals.

    Returns
    -------
    low, high : ndarray of shape (d,)
        The ends of the intervals. They are interpolated if there are many estimates.
    """
    z, back = np.unique(x / null_std, return_inverse=True)
    nodes = z
    if len(z) > _ALL_EXACT:
        lattice = np.floor(z / _NODE)
        nodes = np.unique(np.concatenate([lattice, lattice + 1])) * _NODE
    theta = support / null_std
    variance = np.maximum(1 + growth * support / null_std**2, 1e-4)
    log_weights = np.log(weights) - np.log(variance) / 2
    ends = np.empty((2, len(nodes)))
    for start in range(0, len(nodes), 128):
        block = slice(start, start + 128)
        log = log_weights - (nodes[block, None] - theta) ** 2 / (2 * variance)
        below = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
        for end, tail in zip(ends, ((1 - level) / 2, (1 + level) / 2), strict=True):
            end[block] = support[np.argmax(below >= tail * below[:, -1:], axis=1)]
    low, high = (np.interp(z, nodes, end)[back] for end in ends)
    return low, high


def _clipped_wald(x, s, level):
    half_width = ndtri(0.5 + level / 2) * s
    return np.clip(x - half_width, 0, 1), np.clip(x + half_width, 0, 1)


def _with_wald(low, high, x, s, null_std, level):
    """Clip the intervals to [0, 1], after large estimates' were joined with Wald's."""
    half_width = ndtri(0.5 + level / 2) * s
    large = x > _LARGE * null_std
    low = np.where(large, np.minimum(low, x - half_width), low)
    high = np.where(large, np.maximum(high, x + half_width), high)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)
