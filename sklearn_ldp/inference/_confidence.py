"""Confidence intervals of estimates: for each category, for the leading ones, or on average.

An estimate that is shrunken towards what the others show is biased, so no interval around it covers
every category's frequency with the stated probability. Intervals that hold on average cover the
stated share of the categories of a collection instead. Large estimates are an exception: where x is
above two null standard deviations, the interval includes Wald's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.special import betaincinv, ndtr, ndtri

from ..numerics.deconvolution import average_prior, posterior_quantiles
from ..queries import as_query_set
from ._covariances import EstimateCovariances, covariances_of_rows, refuse_without_law
from ._intervals import (
    ConfidenceInterval,
    Ends,
    intervals,
    names_of,
    query_rows,
    score_intervals,
    stacked,
    tail_intervals,
    two_sided,
    within,
)
from ._statements import check_level

_LEAST_VARIANCE = 20.0  # of the count of an empty category; below, its noise is not normal
_LARGE = 2.0  # null standard deviations above which an interval includes Wald's
_TINY = 0.05  # null standard deviations below which the posterior does not tell a frequency from 0
_MOMENT_LEVEL = 0.95  # of the upper bound on the second moment of the frequencies
_CONCAVE = np.sqrt(3.0)  # up to this critical value, the chance of a miss is concave in bias^2
_FARTHEST = 2.0  # standard deviations that ends of the posterior move outwards at most
_STEPS = 5  # of the search for how far they move
_TOP = 8.0  # null standard deviations: larger frequencies and estimates count as that large
_CONFIDENCE = 0.95  # that the true distribution is among the plausible ones
_STEP = 0.05  # of the estimates at which intervals are tried
_CUTS = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)


def confidence_interval(
    estimate: Any, level: float, queries: Any, simultaneous: bool, of: str, coverage: str
) -> ConfidenceInterval:
    """Return the result of `FrequencyEstimate.confidence_interval`, whose arguments these are."""
    check_level(level)
    if coverage == "each":
        other = ', or ask for coverage="average" (on average) or "selected" (those that lead)'
        of_rows = covariances_of_rows(estimate, of, "confidence interval", other)
        rows = None if queries is None else query_rows(queries, estimate)
        n_queries = estimate.shape[1] if rows is None else rows.shape[0]
        ends = [intervals(*row, rows, level, simultaneous) for row in of_rows]
        return ConfidenceInterval(*stacked(ends, n_queries), names_of(queries, estimate))
    if coverage not in ("average", "selected"):
        known = '"each", "average", "selected"'
        raise ValueError(f"Argument coverage must be one of {known}, got {coverage!r}.")
    k = None if queries is None else as_query_set(queries).top
    if coverage == "selected" and k is None:
        raise ValueError(
            'coverage="selected" is about the categories that lead the list: say how many, as in '
            'confidence_interval(0.95, top_k(10), coverage="selected").'
        )
    if coverage == "average" and (queries is not None or simultaneous):
        raise ValueError(
            "Intervals that hold on average are those of single categories, each by itself: for "
            'sums of categories, or all at once, ask the raw estimate with coverage="each", and '
            'for the largest estimates coverage="selected".'
        )
    if estimate.raw_values is None:
        refuse_without_law(estimate, "confidence interval")
    of_rows = covariances_of_rows(estimate.as_raw(), of, "confidence interval")
    if k is None:
        ends = [average_intervals(*row, level) for row in of_rows]
        return ConfidenceInterval(*stacked(ends, estimate.shape[1]), estimate.categories)
    listed = [as_query_set(queries).matrix(len(row), row).indices for row in estimate.values]
    found = [leading_intervals(*row, k, level) for row in of_rows]
    ends = [(low[i], high[i]) for (low, high), i in zip(found, listed, strict=True)]
    return ConfidenceInterval(*stacked(ends, k), estimate.categories[listed[0]] if listed else None)


def leading_intervals(
    values: np.ndarray, covariances: EstimateCovariances, k: int, level: float
) -> Ends:
    """Return intervals that hold at once for whatever leads a list, made for one of k categories.

    Theorem: let ``low[v]`` exceed the frequency of v with a probability of at most
    (1 - level) / (2 d), and ``high[v]`` be less than it with at most (1 - level) / (2 k), whatever
    v is. Then with a probability of at least `level`, and however the errors depend on each other,
    all d intervals from ``low[v]`` to the larger of ``high[v]`` and the k-th largest of all `high`
    hold at once. So they hold for any categories that are picked after the estimate was seen.

    Proof: all d lower ends hold but for (1 - level) / 2 (Bonferroni). Let T be the k most frequent
    categories. All their upper ends hold but for (1 - level) / 2. Any other category is at most as
    frequent as each member of T, hence at most the least upper end in T; which is at most the k-th
    largest of all, as T has k members. (Unpublished; that a winner's upper end needs no correction
    is well known.)

    So the winner's curse costs the lower ends alone, and upper ends are as of k categories that
    were named beforehand.

    Parameters
    ----------
    values : ndarray of shape (d,)
        The raw estimate.
    covariances : EstimateCovariances
        Its covariances.
    k : int
        For how many categories the upper ends are as short as they can be.
    level : float
        Probability that all intervals hold at once.

    Returns
    -------
    low, high : ndarray of shape (d,)
        The ends of the intervals of all categories, in [0, 1].
    """
    tail = (1 - level) / 2
    low, _ = tail_intervals(values, covariances, tail / len(values))
    _, high = tail_intervals(values, covariances, tail / k)
    return low, np.maximum(high, np.partition(high, -k)[-k])


def average_intervals(values: np.ndarray, covariances: EstimateCovariances, level: float) -> Ends:
    """Return intervals that cover a share of all categories, by the method that fits the noise.

    Parameters
    ----------
    values : ndarray of shape (d,)
        The raw estimate.
    covariances : EstimateCovariances
        Its covariances.
    level : float
        Share of the categories to be covered.

    Returns
    -------
    low, high : ndarray of shape (d,)
        The ends of the intervals, in [0, 1].
    """
    if covariances.empty_variance < _LEAST_VARIANCE:
        # Then intervals that hold for each category are the shortest honest ones.
        return score_intervals(values, covariances, two_sided(level))
    std = np.sqrt(covariances.variances())
    null_std = float(np.ravel(covariances.noise.std)[0])
    if covariances.binomial is None:
        return robust_interval(values, std, null_std, level)
    return localized_interval(values, std, null_std, covariances.quadratic()[1], level)


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
    half_width = critical_value(s**2 / moment, level) * weight * s
    # As in `within`: what is far outside of [0, 1] counts as 3 / 4 of a half width outside.
    reach = 0.75 * two_sided(level) * s
    low = centre + weight * (np.minimum(x, 1 + reach) - centre) - half_width
    high = centre + weight * (np.maximum(x, -reach) - centre) + half_width
    return _with_wald(low, high, x, s, null_std, level)


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
    prior = average_prior(x, null_std, growth)
    plausible = PlausiblePriors(x, null_std, growth)

    nodes = plausible.nodes * null_std
    tried = posterior_quantiles(nodes, null_std, *prior, growth, level)
    stds = np.sqrt(null_std**2 + growth * np.clip(nodes, 0, 1))

    def misses(outwards):
        low, high = _moved(tried, outwards, nodes, stds, null_std, level)
        return plausible.worst_miss(low / null_std, high / null_std) > 1 - level

    half_width = two_sided(level) * s
    wald = within(x - half_width, x + half_width, half_width)
    if misses(_FARTHEST):
        return wald
    too_near, enough = 0.0, _FARTHEST
    for _ in range(_STEPS):
        middle = (too_near + enough) / 2
        too_near, enough = (middle, enough) if misses(middle) else (too_near, middle)
    ends = posterior_quantiles(x, null_std, *prior, growth, level)
    moved = _moved(ends, enough, x, s, null_std, level)
    return min(moved, wald, key=lambda ends: np.mean(ends[1] - ends[0]))


def _moved(ends, outwards, x, s, null_std, level):
    """Move the ends of the posterior outwards, in standard deviations; a low end of 0 stays."""
    low, high = ends
    low = np.where(low < _TINY * null_std, 0.0, low - outwards * s)
    return _with_wald(low, high + outwards * s, x, s, null_std, level)


def _with_wald(low, high, x, s, null_std, level):
    """Clip the intervals to [0, 1], after large estimates' were joined with Wald's."""
    half_width = two_sided(level) * s
    large = x > _LARGE * null_std
    low = np.where(large, np.minimum(low, x - half_width), low)
    high = np.where(large, np.maximum(high, x + half_width), high)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


# -- the worst bias ---------------------------------------------------------------------------
def critical_value(m: ArrayLike, level: float = 0.95) -> np.ndarray:
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


# -- the worst prior --------------------------------------------------------------------------
class PlausiblePriors:
    """The distributions of frequencies that agree with statistics of an estimate.

    The statistics are means over the categories: of the indicators that an estimate is below some
    values, and of first and second moments of estimates clipped at some values. Under the true
    distribution of the frequencies, all of them are within their sampling errors with a
    probability of about 95 % (Bonferroni). Besides, the mean frequency is exactly 1 / d. All
    lengths are in null standard deviations.

    Parameters
    ----------
    x : ndarray of shape (d,)
        Raw estimate; the errors of its categories are taken as independent and normal.
    null_std : float
        Standard deviation of the estimate of a category that nobody has.
    growth : float
        How much the variance grows with the frequency.

    Attributes
    ----------
    nodes : ndarray of shape (n_nodes,)
        Estimates at which intervals are tried.
    theta : ndarray of shape (n_theta,)
        Frequencies that the distributions may have. The last ones stand for all larger ones.
    """

    def __init__(self, x: np.ndarray, null_std: float, growth: float) -> None:
        d, mean = len(x), 1 / (len(x) * null_std)
        z = np.clip(x / null_std, -_TOP, None)
        self.nodes = np.arange(-6, 2 * _TOP, _STEP)
        grid = [np.arange(0, 2, 0.05), np.arange(2, 4, 0.1), np.arange(4, 1.5 * _TOP + 0.1, 0.5)]
        theta = np.unique(np.concatenate([*grid, [mean]]))
        self.theta = theta[theta <= 1 / null_std]
        std = np.sqrt(np.maximum(1 + growth / null_std * self.theta, 1e-4))

        def below(values):
            return ndtr((values - self.theta[:, None]) / std[:, None])

        edges = below(self.nodes[1:] - _STEP / 2)
        self._chances = np.diff(edges, axis=1, prepend=0.0, append=1.0)
        moments = [lambda z, top=top: (np.minimum(z, top) - mean) ** 2 for top in (2, 4, _TOP)]
        moments += [lambda z, top=top: np.minimum(z, top) for top in (2, 4)]
        cuts = np.array(_CUTS)
        found = np.array([moment(z) for moment in moments])
        tail = (1 - _CONFIDENCE) / 2 / (len(moments) + len(cuts))
        spread = ndtri(1 - tail) * found.std(axis=1) / np.sqrt(d)
        least, most = _mean_chance(np.sum(z <= cuts[:, None], axis=1), d, tail)
        middle = np.append(found.mean(axis=1), (least + most) / 2)
        spread = np.append(spread, (most - least) / 2)
        expected = [self._chances @ moment(self.nodes) for moment in moments]
        rows = np.vstack([*expected, below(cuts).T])
        scale = np.where(spread > 0, spread, 1.0)
        last = [np.minimum(self.theta, _TOP), np.ones(len(self.theta))]
        self._constraints = LinearConstraint(
            np.vstack([rows / scale[:, None], *last]),
            np.concatenate([(middle - spread) / scale, [-np.inf, 1]]),
            np.concatenate([(middle + spread) / scale, [mean * (1 + 1e-9), 1]]),
        )

    def worst_miss(self, low: np.ndarray, high: np.ndarray) -> float:
        """Return the largest share of categories that intervals miss on average.

        Parameters
        ----------
        low, high : ndarray of shape (n_nodes,)
            The ends of the intervals of categories whose estimates are the `nodes`.

        Returns
        -------
        float
            The maximum over the plausible distributions; 1 if there are none.
        """
        theta = self.theta[:, None]
        missed = (theta < low - 1e-9) | (theta > high + 1e-9)
        chance = np.sum(self._chances * missed, axis=1)
        # A linear program; of SciPy's two ways to HiGHS this one has far less overhead.
        found = milp(
            -chance,
            constraints=self._constraints,
            bounds=Bounds(0, 1),
            options={"presolve": False},
        )
        return -found.fun if found.status == 0 else 1.0


def _mean_chance(counts, d, tail):
    """Return exact limits of the mean chance of d events, of which `counts` happened.

    They are those of Clopper and Pearson, which only get safer if the chances differ (Hoeffding
    1956).
    """
    with np.errstate(invalid="ignore"):
        least = betaincinv(counts, d - counts + 1.0, tail)
        most = betaincinv(counts + 1.0, d - counts, 1 - tail)
    return np.where(counts > 0, least, 0.0), np.where(counts < d, most, 1.0)
