"""Confidence intervals of raw estimates, for categories and for answers to linear queries."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, stats
from scipy.special import ndtr, ndtri

from ..common.text import MOST_LINES, labelled_lines
from ..noise import as_rows, every_category
from ..queries import QuerySet, as_query_set
from ._covariances import Estimate, EstimateCovariances, SupportCounts, refuse_sums
from ._discoveries import tails_of_sum

_MANY_ANSWERS = 500  # above it, Sidak's critical value replaces the value with covariances
_MANY_CATEGORIES = 100  # single categories are nearly uncorrelated, unless they are few
_DRAWS = 10_000  # of the Gaussian maximum
# Thresholds above which bins look heaped: in standard deviations, and as a proportion of the
# squares of equal frequencies. Chosen by hand.
# `benchmarks.accuracy.numeric_data --sections spread` measures the rates of warnings.
_SURE = 5.0
_ROUGH = 0.03
Ends = tuple[np.ndarray, np.ndarray]


class _Pair(NamedTuple):
    low: np.ndarray
    high: np.ndarray


class ConfidenceInterval(_Pair):
    """Lower and upper ends of confidence intervals.

    You can unpack this pair into two arrays: ``low, high = estimate.confidence_interval()``. If
    printed, it lists each interval with the name of its category or query.

    Parameters
    ----------
    low, high : ndarray of shape (n_estimates, n_queries)
        The lower ends and the upper ends.
    names : sequence of length n_queries or None, default=None
        The categories or queries that the intervals belong to, by name. If None, they have no
        names.
    """

    names: Any

    def __new__(cls, low: np.ndarray, high: np.ndarray, names: Any = None) -> ConfidenceInterval:
        self = super().__new__(cls, low, high)
        self.names = names
        return self

    def __mul__(self, factor: Any) -> ConfidenceInterval:
        """Return the intervals in another unit, as numbers of users: ``10_000 * interval``."""
        if not isinstance(factor, Real):
            return NotImplemented
        return ConfidenceInterval(self.low * factor, self.high * factor, self.names)

    def __rmul__(self, factor: Any) -> ConfidenceInterval:
        return self * factor

    def __repr__(self) -> str:
        if self.names is None or len(self.low) != 1:
            return super().__repr__()
        # In the order of the queries, because a list of the largest would need simultaneous
        # intervals.
        ends = zip(self.low[0, :MOST_LINES], self.high[0], strict=False)
        lines = labelled_lines(self.names, [" to ".join(map(_four_digits, pair)) for pair in ends])
        n = self.low.shape[1]
        return "\n  ".join([f"ConfidenceInterval of {n:,} answer{'s' * (n != 1)}", *lines])


def _four_digits(x: float) -> str:
    """Return a number as text with four digits, or all digits of its integer part."""
    return f"{x: .4g}" if abs(x) < 10_000 else f"{x: ,.0f}"


def within(
    low: np.ndarray, high: np.ndarray, half_width: Any, minimum: Any = 0.0, maximum: Any = 1.0
) -> Ends:
    """Clip intervals to the range of possible answers.

    Each clipped interval covers at least a quarter of its half width, so it does not look exact.
    Shapes: low, high (n,), half_width (n,), minimum, maximum (n,) -> two ends (n,).
    """
    # An estimate far outside of the range would leave an interval that is a single point, such as
    # [0, 0], and that looks more accurate than any other. So an interval covers at least a quarter
    # of its half width within the range (or the whole range, if the range is shorter).
    low = np.minimum(low, maximum - half_width / 4)
    high = np.maximum(high, minimum + half_width / 4)
    return np.clip(low, minimum, maximum), np.clip(high, minimum, maximum)


def stacked(ends: list[Ends], n_queries: int) -> Ends:
    """Combine the ends of the intervals of each row into two arrays for all rows.

    Shapes: ends: for each row, low and high (n_queries,) -> low, high (n_estimates, n_queries).
    If queries have a lower and an upper limit, each row has the ends for the lower limits, followed
    by the ends for the upper limits. One interval from both is returned for each query.
    """
    # The interval of a query with limits reaches from the lower end of the lower limit to the upper
    # end of the upper limit.
    n_limits = ends[0][0].size // n_queries if ends and n_queries else 1
    both: np.ndarray = np.reshape(ends, (len(ends), 2, n_limits, n_queries))
    return both[:, 0].min(axis=1), both[:, 1].max(axis=1)


def names_of(queries: Any, estimate: Estimate) -> Any:
    """Return the names of queries, or None if they have no names.

    queries: the queries. If None, each category is a query, and the result is the categories.
    """
    if queries is None:
        return estimate.categories
    return as_query_set(queries).aligned(estimate.categories, estimate.domain).names


def query_rows(queries: Any, estimate: Estimate) -> tuple[sparse.csr_array, int, bool]:
    """Return the matrix of queries for the categories of an estimate, and two facts about them.

    The matrix has one row per query and one column per category. A query that covers a part of a
    bin has a lower and an upper limit. The matrix then has a row for each lower limit, followed by
    a row for each upper limit.
    Returns: the matrix, the number of queries, and whether the queries assume that users are spread
    evenly within bins.
    """
    d = estimate.shape[1]
    if queries is None:
        return every_category(d), d, False
    query_set = as_query_set(queries)
    refuse_selected(query_set, estimate)
    query_set = query_set.aligned(estimate.categories, estimate.domain)
    if query_set.limits is not None:
        rows = as_rows(sparse.vstack(query_set.limits, format="csr"))
        return rows, rows.shape[0] // 2, query_set.assumes_even
    rows = as_rows(query_set.matrix(d))
    refuse_sums(estimate, rows, repr(query_set))
    return rows, rows.shape[0], query_set.assumes_even


def refuse_selected(queries: QuerySet, estimate: Estimate) -> None:
    """Raise ValueError if the same raw estimate has selected the categories of the queries."""
    selections = [query_set.selected_by for query_set in (queries, *queries.parts)]
    rows = estimate.as_raw().values
    if any(np.array_equal(x, row) for x in selections if x is not None for row in rows):
        raise ValueError(
            f"Intervals are not valid for {queries!r}, because the same estimate has selected "
            "these categories. Use the estimate of other users, such as of_shards(range(5)) for "
            "the selection and of_shards(range(5, 10)) for the interval."
        )


def warn_of_heaps(estimated: list[tuple[np.ndarray, EstimateCovariances]], depth: int) -> None:
    """Warn if the differences of neighboring bins are too large for noise around a smooth curve.

    estimated: for each row of an estimate, its values and the covariances of its errors.
    depth: the stack level of the warning.
    """
    # Fourth differences of a smooth curve are nearly 0. If they are pure noise with the covariance
    # matrix C, the sum of their squares has the mean trace(C) and the variance 2 trace(C**2).
    for values, covariances in estimated:
        if not 5 <= len(values) <= _MANY_ANSWERS:
            continue
        rows = as_rows(sparse.csr_array(np.diff(np.eye(len(values)), 4, axis=0) / np.sqrt(70)))
        covariance = covariances.covariance(rows)
        heaped = np.sum((rows @ values) ** 2) - np.trace(covariance)
        if heaped > max(_SURE * np.sqrt(2 * np.sum(covariance**2)), _ROUGH / len(values)):
            warnings.warn(
                "Neighboring bins differ by more than noise explains, so users seem to have "
                "rounded their numbers (heaping), and intervals that assume an even spread within "
                'bins miss too often. Use spread="any", or wider bins.',
                UserWarning,
                stacklevel=depth,
            )
            return


def intervals(
    values: np.ndarray,
    covariances: EstimateCovariances,
    rows: sparse.csr_array | None,
    level: float,
    simultaneous: bool,
) -> Ends:
    """Return the ends of confidence intervals of linear queries for one row of a raw estimate.

    Shapes: values (d,), rows (n_queries, d) -> two ends (n_queries,).
    rows: the weights of the categories in each query; if None, every category is a query.
    level: the probability that a single interval covers the truth. If `simultaneous`, the
    probability that all intervals cover the truth.
    """
    if rows is not None:
        return answer_intervals(values, covariances, rows, level, simultaneous)
    if not (simultaneous and len(values)):
        return category_intervals(values, covariances, two_sided(level))
    d = len(values)
    critical = sidak(d, level)
    if d <= _MANY_CATEGORIES:
        critical, _ = band(covariances, every_category(d), level)
    return tail_intervals(values, covariances, float(ndtr(-critical)))


# -- critical values --------------------------------------------------------------------------
def two_sided(level: float) -> float:
    """Return u so that a standard normal variable is in [-u, u] with the probability `level`."""
    return float(ndtri(0.5 + level / 2))


def sidak(n: int, level: float) -> float:
    """Return Sidak's bound for the absolute values of n standard normal variables.

    All n variables meet the bound with a probability of at least `level`, for any correlations.
    """
    return two_sided(level ** (1 / n))


def band(
    covariances: EstimateCovariances,
    rows: sparse.csr_array,
    level: float,
    simultaneous: bool = True,
) -> tuple[float, np.ndarray]:
    """Return the critical value of confidence intervals, and the standard errors of the answers.

    Shapes: rows (n_queries, d) -> a number, and (n_queries,).
    rows: the weights of the categories in each query.
    Returns: the half width of each interval in standard errors, and the standard error of each
    answer. For single intervals, the half width is a quantile of a normal variable. For
    simultaneous intervals, it is a quantile of the maximum of correlated normal variables; for many
    answers, Sidak's bound replaces this quantile.
    """
    if not simultaneous:
        return two_sided(level), np.sqrt(covariances.answer_variances(rows))
    maximum, std = maximum_error(covariances, rows)
    return maximum.quantile(level), std


def maximum_error(
    covariances: EstimateCovariances, rows: sparse.csr_array
) -> tuple[MaximumStatistic, np.ndarray]:
    """Return the distribution of the largest error of several answers, and their standard errors.

    Shapes: rows (n_queries, d) -> a MaximumStatistic, and (n_queries,).
    rows: the weights of the categories in each query.
    Returns: the distribution of the largest absolute error in standard errors, and the standard
    error of each answer. For many answers, Sidak's bound replaces the distribution.
    """
    n_queries = rows.shape[0]
    n_terms = int(np.diff(rows.indptr).max(initial=0))
    if n_queries <= (_MANY_ANSWERS if n_terms > 1 else _MANY_CATEGORIES):
        try:
            covariance = covariances.covariance(rows)
        except ValueError:
            if n_terms > 1:
                raise  # Sidak's inequality needs no covariances, but the variances of sums do
        else:
            return gaussian_maximum(covariance), np.sqrt(np.maximum(np.diag(covariance), 0))
    return MaximumStatistic(n_queries), np.sqrt(covariances.answer_variances(rows))


class MaximumStatistic(NamedTuple):
    """The distribution of the maximum of the absolute values of n standard normal variables."""

    n: int  # number of statistics
    # (n_draws,): drawn maxima in increasing order. For any draws the quantiles are clipped to the
    # range from the quantile of a single statistic to Sidak's. The default selects Sidak's.
    drawn: np.ndarray = np.array([1e300])

    def quantile(self, level: float) -> float:
        """Return the bound that all n absolute values meet with the probability `level`."""
        drawn = float(np.quantile(self.drawn, level))
        return min(max(drawn, two_sided(level)), sidak(self.n, level))

    def p_values(self, statistics: np.ndarray) -> np.ndarray:
        """Return, for each statistic, the probability that the maximum is at least as large.

        Shapes: statistics (d,) -> (d,).
        """
        single = 2 * ndtr(-statistics)
        upper = -np.expm1(self.n * np.log1p(-np.minimum(single, 1 - 1e-16)))
        levels = np.linspace(0, 1, len(self.drawn))
        return np.clip(1 - np.interp(statistics, self.drawn, levels), single, upper)


def gaussian_maximum(covariance: np.ndarray) -> MaximumStatistic:
    """Return the distribution of the maximum of the absolute values of correlated normal variables.

    Each variable is divided by its standard deviation. The distribution comes from simulated
    vectors with a fixed seed. Variables with a variance of 0 are left out.
    Shapes: covariance (n, n).
    """
    variances = np.diag(covariance)
    kept = np.flatnonzero(variances > 1e-12 * max(variances.max(initial=0.0), 1e-300))
    if len(kept) <= 1:
        return MaximumStatistic(1)
    std = np.sqrt(variances[kept])
    correlation = covariance[np.ix_(kept, kept)] / np.outer(std, std)
    scale, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    root = vectors * np.sqrt(np.maximum(scale, 0))
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(kept)))
    return MaximumStatistic(len(kept), np.sort(np.abs(draws @ root.T).max(axis=1)))


# -- one category -----------------------------------------------------------------------------
def category_intervals(
    values: np.ndarray, covariances: EstimateCovariances, critical: float
) -> Ends:
    """Return confidence intervals of the categories: exact ones if available, else score intervals.

    Shapes: values (d,) -> two ends (d,).
    critical: the half width of an interval for a normal error, in standard errors.
    """
    if covariances.is_of_counts:
        half_width = covariances.critical(critical) * np.sqrt(covariances.variances())
        return within(values - half_width, values + half_width, half_width)
    exact = covariances.counts
    if exact is None:
        return score_intervals(values, covariances, critical)
    counts = np.rint(exact.n * (exact.q + (exact.p - exact.q) * values)).clip(0, exact.n)
    tail = float(ndtr(-critical))
    if exact.is_sampled:
        low, high = _population_ends(counts, exact, tail)
    else:
        fewest = np.empty(len(values))
        most = np.empty(len(values))
        for p, q in set(zip(exact.p.tolist(), exact.q.tolist(), strict=True)):
            own = np.flatnonzero((exact.p == p) & (exact.q == q))
            fewest[own] = _fewest_users(counts[own], exact.n, p, q, tail)
            most[own] = exact.n - _fewest_users(exact.n - counts[own], exact.n, 1 - q, 1 - p, tail)
        low, high = fewest / exact.n, most / exact.n
    constant, *_ = covariances.quadratic()
    half_width = critical * np.sqrt(np.maximum(constant, 0))
    return within(low, high, np.maximum(half_width, 2 / exact.n))  # at least half a user


def _fewest_users(counts: np.ndarray, n: int, p: float, q: float, tail: float) -> np.ndarray:
    """Return, for each support count, the smallest plausible number of users with the category.

    A number of users is plausible if the probability of a support count at least as large as the
    observed one exceeds `tail`.
    Shapes: counts (d,) -> (d,).
    n: the number of all users.
    p, q: the probabilities that a report supports the user's own category, and another category.
    """
    # The probability grows with the number m of these users. Bisection needs log2(n) + 1 steps.
    distinct, places = np.unique(counts, return_inverse=True)
    low = np.zeros(len(distinct), dtype=int)
    high = np.full(len(distinct), n)
    for _ in range(n.bit_length() + 1):
        middle = (low + high) // 2
        chances = np.empty(len(distinct))
        for m in np.unique(middle).tolist():
            chances[middle == m] = tails_of_sum(distinct[middle == m], (m, p), (n - m, q))
        is_enough = chances > tail
        high = np.where(is_enough, middle, high)
        low = np.where(is_enough, low, np.minimum(middle + 1, high))
    return high[places]


def _population_ends(counts: np.ndarray, exact: SupportCounts, tail: float) -> Ends:
    """Return the ends of Clopper-Pearson intervals for users drawn at random from a population.

    Shapes: counts (d,) -> two ends (d,). counts: the support counts.
    exact: the parameters of their distribution. tail: the error probability of each end.
    """
    n, p, q = exact.n, exact.p, exact.q
    with np.errstate(invalid="ignore"):
        low = np.where(counts > 0, stats.beta.ppf(tail, counts, n - counts + 1), 0.0)
        high = np.where(counts < n, stats.beta.isf(tail, counts + 1, n - counts), 1.0)
    return (low - q) / (p - q), (high - q) / (p - q)


def score_intervals(values: np.ndarray, covariances: EstimateCovariances, critical: Any) -> Ends:
    """Return score intervals of the categories, with a continuity correction.

    Shapes: values (d,), critical (d,) or a number -> two ends (d,).
    critical: the half width of each interval in standard errors.
    """
    # An end is the frequency T with `|x -+ k - T| = u sqrt(A + b T - c T**2)`: the estimate x has
    # the largest distance from T that the level allows, with its variance if T were the truth.
    # The continuity correction k is half a count, because estimates lie on a grid.
    constant, slope, square = covariances.quadratic()
    squared = critical**2

    def end(t: np.ndarray, sign: int) -> np.ndarray:
        middle = 2 * t + squared * slope
        scale = 1 + squared * square
        root = np.maximum(middle**2 - 4 * scale * (t**2 - squared * constant), 0)
        return (middle + sign * np.sqrt(root)) / (2 * scale)

    step = covariances.half_count
    low, high = end(values - step, -1), end(values + step, 1)
    # For an estimate far below 0 the equation may only have a solution at a larger frequency,
    # which is no evidence for such a frequency. The same applies to estimates above 1.
    low = np.minimum(low, np.maximum(values - step, 0))
    high = np.maximum(high, np.minimum(values + step, 1))
    return within(low, high, critical * np.sqrt(np.maximum(constant, 0)) + step)


def _exact_intervals(values: np.ndarray, covariances: EstimateCovariances, critical: float) -> Ends:
    """Return Clopper-Pearson intervals of the categories, clipped to the range from 0 to 1.

    They are exact if the users are drawn at random, and too long if the users are fixed.
    Shapes: values (d,) -> two ends (d,).
    """
    # With fixed users the count varies less than a binomial count, so the intervals are too long.
    law: Any = covariances.binomial
    counts = SupportCounts(round(covariances.n_samples), law.p, law.q, True)
    ends = _population_ends(covariances.support_counts(values), counts, float(ndtr(-critical)))
    return within(*ends, critical * float(np.ravel(covariances.noise.std)[0]))


def tail_intervals(values: np.ndarray, covariances: EstimateCovariances, tail: float) -> Ends:
    """Return confidence intervals of the categories with a separate error probability of each end.

    Shapes: values (d,) -> two ends (d,).
    tail: the probability that the lower end exceeds the true frequency; also the probability that
    the upper end is less than the true frequency. It is less than 1/2.
    """
    # The tails of a count of few reports are not normal. The score interval accounts for the
    # skewness of the count (Cornish and Fisher). In each of 39,000 settings its ends missed at most
    # as often as stated (a test enumerates some). The ends of Clopper and Pearson also miss at most
    # as often as stated. All ends are monotone in the count, so the inner ends do not miss more
    # often.
    critical: Any = -ndtri(tail)
    if covariances.counts is not None or covariances.is_of_counts:
        return category_intervals(values, covariances, critical)
    law = covariances.binomial
    if law is None:
        if covariances.noise.support_law is not None:
            return _signed_tails(values, covariances, critical)
        return score_intervals(values, covariances, critical)
    # Users with other categories, who seldom support the category (q), skew the count to the right.
    # Users with the category, who mostly support it (p), skew the count to the left.
    spread = np.sqrt(covariances.n_samples * min(law.p * (1 - law.p), law.q * (1 - law.q)))
    growth = max(critical**2 - 1, 0) / 6 / max(spread, 1e-9)
    low, _ = score_intervals(values, covariances, critical + growth * max(1 - 2 * law.q, 0))
    _, high = score_intervals(values, covariances, critical + growth * max(2 * law.p - 1, 0))
    exact = _exact_intervals(values, covariances, critical)
    return np.maximum(low, exact[0]), np.minimum(high, exact[1])


def _signed_tails(values: np.ndarray, covariances: EstimateCovariances, critical: float) -> Ends:
    """Return the intervals of `tail_intervals` for an oracle with signed counts.

    A signed count is the number of reports for a category minus the number of reports against it.
    Shapes: values (d,) -> two ends (d,).
    """
    # The variance grows with the frequency of the block. With few users the estimate of this
    # frequency is poor, so each block is assumed to be as frequent as the largest block. Users
    # without the category report for it as often as against it. All odd cumulants of their part of
    # the count are 0, and all even cumulants are its variance V. A user with the category adds
    # `skew` times the user's variance to the third cumulant. By Cornish and Fisher a quantile then
    # changes by at most `more` reports. If V is small, the change is at most that with only
    # reports for the category, or only reports against it, which have the tails of a Poisson
    # distribution. (No end misses more often than stated, by enumeration with 30 to 1,500 users at
    # epsilon 2 to 10, 2, 8 and 64 blocks of one category, and tails down to 1e-5.)
    law: Any = covariances.noise.support_law
    n = covariances.n_samples
    p = float(law.p)
    # Probability that a user with the category reports for or against it.
    either = p + float(np.ravel(covariances.noise.std)[0]) ** 2 * n * p**2
    skew = (p - 3 * p * either + 2 * p**3) / max(either - p**2, 1e-300)
    constant, *_ = covariances.quadratic()
    # At a large epsilon the variance of a block without reports is 0 up to rounding.
    constant = np.maximum(constant, 1e-9 * max(constant.max(), 1e-290))
    third = max(critical**2 - 1, 0) / 6
    fourth = max(critical**3 - 3 * critical, 0) / 24
    fourth /= max(n * p * np.sqrt(constant.max()), 1e-300)
    wider = critical * np.sqrt(constant.max() / constant)
    limit = max(1, abs(skew)) * third
    more = np.minimum(np.maximum([skew, -skew], 0) * third + fourth, limit) / (n * p)
    low, _ = score_intervals(values - more[0], covariances, wider)
    _, high = score_intervals(values + more[1], covariances, wider)
    return low, high


# -- linear answers ---------------------------------------------------------------------------
def answer_intervals(
    values: np.ndarray,
    covariances: EstimateCovariances,
    rows: sparse.csr_array,
    level: float,
    simultaneous: bool,
) -> Ends:
    """Return confidence intervals of the answers to linear queries.

    A query about a single category has a score interval, and any other query has a Wald interval.
    Shapes: values (d,), rows (n_queries, d) -> two ends (n_queries,).
    rows: the weights of the categories in each query.
    """
    critical, std = band(covariances, rows, level, simultaneous)
    half_width = covariances.critical(critical, rows) * std
    low, high = wald_intervals(values, rows, half_width, covariances.half_count)
    single = np.flatnonzero(np.diff(rows.indptr) == 1)
    if single.size:
        places = rows.indptr[single]
        category_ends = np.array(category_intervals(values, covariances, critical))
        ends = category_ends[:, rows.indices[places]] * rows.data[places]
        low[single], high[single] = ends.min(axis=0), ends.max(axis=0)
    return within(low, high, half_width, *answer_range(rows, covariances.sums_to_one))


def answer_range(rows: sparse.csr_array, sums_to_one: bool = True) -> Ends:
    """Return the smallest and the largest possible answer to each query.

    They are the smallest and the largest weight of a category if frequencies sum to 1. Otherwise
    users may have none of the categories, which is a category with the weight 0.
    Shapes: rows (n_queries, d) -> two arrays (n_queries,).
    """
    has_zeros = (np.diff(rows.indptr) < rows.shape[1]) | (not sums_to_one)
    smallest = _extreme_weights(np.minimum, rows, rows.data)
    largest = _extreme_weights(np.maximum, rows, rows.data)
    smallest = np.where(has_zeros, np.minimum(smallest, 0), smallest)
    return smallest, np.where(has_zeros, np.maximum(largest, 0), largest)


def wald_intervals(
    values: np.ndarray, rows: sparse.csr_array, half_width: np.ndarray, half_count: float
) -> Ends:
    """Return Wald intervals: the answers to linear queries, plus and minus their half widths.

    The continuity correction widens each end by `half_count` times the smallest weight of the
    query.
    Shapes: values (d,), rows (n_queries, d), half_width (n_queries,) -> two ends (n_queries,).
    half_count: the correction for a query with the weight 1.
    """
    step = _extreme_weights(np.minimum, rows, abs(rows.data))
    answers = rows @ values
    width = half_width + step * half_count
    return answers - width, answers + width


def _extreme_weights(pick: Any, rows: sparse.csr_array, data: np.ndarray) -> np.ndarray:
    """Return the minimum or the maximum of the stored entries of each sparse row; 0 if it has none.

    pick: np.minimum or np.maximum. data: the entries of `rows`, or their absolute values.
    Shapes: rows (n_queries, d) -> (n_queries,).
    """
    result = np.zeros(rows.shape[0])
    filled = np.flatnonzero(np.diff(rows.indptr))
    result[filled] = pick.reduceat(data, rows.indptr[filled])
    return result
