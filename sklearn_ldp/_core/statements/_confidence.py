"""Confidence intervals of estimates: for each category, or for those that lead a list."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import lambertw, ndtr

from ..numerics.simplex import norm_sub
from ..queries import as_query_set
from ._covariances import EstimateCovariances, covariances_of_rows, refuse_unknown_tails
from ._intervals import (
    ConfidenceInterval,
    Ends,
    answer_range,
    intervals,
    names_of,
    query_rows,
    sidak,
    stacked,
    tail_intervals,
    two_sided,
    warn_of_heaps,
    within,
)
from ._statements import check_level, check_of

_NARROWEST = 1_000  # users, if `at_all_times` is True


def confidence_interval(
    estimate: Any,
    level: float,
    queries: Any,
    simultaneous: bool,
    of: str,
    coverage: str,
    at_all_times: bool | int = False,
) -> ConfidenceInterval:
    """Return the result of `FrequencyEstimate.confidence_interval`, whose arguments these are."""
    check_level(level)
    n_narrowest = narrowest(at_all_times)
    if n_narrowest is not None:
        if coverage != "each" or estimate.standard_errors is not None:
            raise ValueError(
                "at_all_times is only available for intervals of each category or query of a raw "
                'estimate. Leave out coverage="selected", or pass simultaneous=True instead.'
            )
        refuse_unknown_tails(estimate.noise, "intervals at all times")
    if simultaneous or coverage == "selected":
        refuse_unknown_tails(estimate.noise, "simultaneous intervals")
    if coverage == "each" and estimate.standard_errors is not None:
        return _stated_intervals(estimate, level, queries, simultaneous, of)
    if coverage == "each":
        other = ', or ask for coverage="selected" (the intervals of those that lead)'
        of_rows = covariances_of_rows(estimate, of, "confidence interval", other)
        asked, n_queries, assumes_even = query_rows(queries, estimate)
        if assumes_even:
            warn_of_heaps(of_rows, 4)
        rows = None if queries is None else asked
        if n_narrowest is None:
            ends = [intervals(*row, rows, level, simultaneous) for row in of_rows]
        else:
            each = 1 - (1 - level) / (asked.shape[0] if simultaneous else 1)  # Bonferroni
            ends = []
            for values, covariances in of_rows:
                critical = critical_of_look(each, covariances.n_samples, n_narrowest)
                of_look = float(1 - 2 * ndtr(-critical))  # the level of an interval as wide
                ends.append(intervals(values, covariances, rows, of_look, False))
        return ConfidenceInterval(*stacked(ends, n_queries), names_of(queries, estimate))
    if coverage != "selected":
        raise ValueError(f'Argument coverage must be "each" or "selected", got {coverage!r}.')
    k = None if queries is None else as_query_set(queries).top
    if k is None:
        raise ValueError(
            'coverage="selected" is about the categories that lead the list: say how many, as in '
            'confidence_interval(0.95, top_k(10), coverage="selected").'
        )
    of_rows = covariances_of_rows(estimate.as_raw(), of, "confidence interval")
    listed = [as_query_set(queries).matrix(len(row), row).indices for row in estimate.values]
    found = [leading_intervals(*row, k, level) for row in of_rows]
    ends = [(low[i], high[i]) for (low, high), i in zip(found, listed, strict=True)]
    return ConfidenceInterval(*stacked(ends, k), estimate.categories[listed[0]] if listed else None)


def narrowest(at_all_times: bool | int) -> int | None:
    """Return the number of users at which intervals at all times are narrowest, or None."""
    if at_all_times is False:
        return None
    if at_all_times is True:
        return _NARROWEST
    if not isinstance(at_all_times, Integral) or at_all_times < 1:
        raise ValueError(
            "Argument at_all_times must be True, False or an integer >= 1, the number of users at "
            f"which the intervals are narrowest, got {at_all_times!r}."
        )
    return int(at_all_times)


def critical_of_look(level: float, n_users: float, n_narrowest: int) -> float:
    """Return the number of standard errors of an interval of a confidence sequence.

    level: the probability that the intervals of all looks cover the truth.
    n_users: the number of users so far.
    n_narrowest: the number of users at which the intervals are narrowest, chosen before any look.
    """
    # I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy, A. Ramdas, "Time-uniform central limit
    # theory and asymptotic confidence sequences", Annals of Statistics 52(6), 2024,
    # arXiv:2103.06476, theorem 2.2. After n users the interval has c(n) standard errors with
    # c**2 = (1 + 1 / x) log((1 + x) / alpha**2), where x = n rho**2. At x = log((1 + x) / alpha**2)
    # its derivative in x is 0. This equation has the solution 1 + x = -W(-alpha**2 / e) with the
    # lower branch of Lambert's function.
    squared = (1 - level) ** 2
    best = -float(lambertw(-squared / np.e, -1).real) - 1
    x = n_users * best / n_narrowest
    return float(np.sqrt((1 + 1 / x) * np.log((1 + x) / squared)))


def _stated_intervals(
    estimate: Any, level: float, queries: Any, simultaneous: bool, of: str
) -> ConfidenceInterval:
    """Normal intervals of an estimate whose post-processor knows its standard errors."""
    check_of(of)
    variances, noise = estimate.standard_errors**2, estimate.noise
    if of == "users" and noise is not None and noise.n_users is not None:
        # Let the week's users be drawn from the population with the variance S, and let V be that
        # of the week's estimate about the population. The smoothed value, of variance P, weighs
        # this estimate by P / V. So P / V is how much of the users' own deviation it follows, and
        # its error about them has the variance P + S (1 - 2 P / V).
        f = norm_sub(estimate.values)
        whole = noise.of_population().variance(f)
        drawn = whole - noise.variance(f)
        variances = np.maximum(variances + drawn * (1 - 2 * variances / whole), 0)
    rows, n_queries, _ = query_rows(queries, estimate)
    answers = (rows @ estimate.values.T).T
    # Standard errors add up at most, however the errors of the categories go together.
    critical = sidak(rows.shape[0], level) if simultaneous else two_sided(level)
    width = critical * (abs(rows) @ np.sqrt(variances).T).T
    low, high = within(answers - width, answers + width, width, *answer_range(rows))
    ends = stacked(list(zip(low, high, strict=True)), n_queries)
    return ConfidenceInterval(*ends, names_of(queries, estimate))


def table_intervals(estimate: Any, level: float, queries: Any = None) -> ConfidenceInterval:
    """Return the simultaneous intervals of tables and pictures, for all rows and categories."""
    # Readers sort a table, cut it, and look at the largest: only simultaneous intervals
    # may be read like that. They are those of the raw estimate, which lies outside of them
    # where noise has put it outside of what is possible. Noise of which only the standard
    # deviation is known may have any tails, so its intervals are those of single categories.
    # queries: the queries; None asks for every category.
    raw = estimate if estimate.states_errors else estimate.as_raw()
    if raw.noise is not None and raw.noise.presumes_normal:
        return confidence_interval(raw, level, queries, False, "users", "each")
    each = level_of_each(level, len(raw))
    return confidence_interval(raw, each, queries, True, "users", "each")


def level_of_each(level: float, n: int) -> float:
    """Return the level of each of n bands that are simultaneous at a level (Sidak)."""
    # Errors of tables are independent, or nearly normal: their symmetric bands are then positively
    # dependent (Royen 2014), so that the product of the levels is a bound.
    check_level(level)
    return level ** (1 / max(n, 1))


def table_columns(estimate: Any, level: float) -> dict[str, np.ndarray]:
    """Return the numbers that tables have: raw estimates, their intervals, what was made of them.

    Shapes: (n_estimates, d) each. The interval stands beside what it is of, and numbers of users
    beside the frequencies that they are of.
    """
    answers, ends = np.asarray(estimate.answer()), table_intervals(estimate, level)
    columns = {"estimate": np.asarray(estimate.as_raw().answer())}
    columns |= {"frequency": answers} if not estimate.is_raw and estimate.states_errors else {}
    columns |= {"low": ends.low, "high": ends.high}
    columns |= {} if estimate.is_raw else {"frequency": answers}
    n_users, is_weighted = estimate.noise.n_users, estimate.noise.is_weighted
    if n_users is not None and not is_weighted:  # shares of no number of users
        columns["count"] = np.round(answers * np.reshape(n_users, (-1, 1)), 1)
    return columns


def leading_intervals(
    values: np.ndarray, covariances: EstimateCovariances, k: int, level: float
) -> Ends:
    """Intervals that hold at once for whatever leads a list, made for one of k categories.

    Shapes: values (d,) -> (d,).
    """
    # Theorem: let `low[v]` exceed the frequency of v with a probability of at most (1 - level)
    # / (2 d), and `high[v]` be less than it with at most (1 - level) / (2 k), whatever v is.
    # Then with a probability of at least `level`, and however the errors depend on each other,
    # all d intervals from `low[v]` to the larger of `high[v]` and the k-th largest of all
    # `high` hold at once. So they hold for any categories that are picked after the estimate
    # was seen.
    # Proof: all d lower ends hold but for (1 - level) / 2 (Bonferroni). Let T be the k most
    # frequent categories. All their upper ends hold but for (1 - level) / 2. Any other category
    # is at most as frequent as each member of T, hence at most the least upper end in T; which
    # is at most the k-th largest of all, as T has k members. (Unpublished; that a winner's
    # upper end needs no correction is well known.)
    # So the winner's curse costs the lower ends alone, and upper ends are as of k categories
    # that were named beforehand.
    tail = (1 - level) / 2
    low, _ = tail_intervals(values, covariances, tail / len(values))
    _, high = tail_intervals(values, covariances, tail / k)
    return low, np.maximum(high, np.partition(high, -k)[-k])
