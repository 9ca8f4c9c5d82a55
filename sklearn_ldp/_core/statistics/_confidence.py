"""Confidence intervals of an estimate, for each category or for the largest estimates."""

from __future__ import annotations

import math
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
    """Return the result of `FrequencyEstimate.confidence_interval` for the same arguments."""
    check_level(level)
    n_narrowest = narrowest(at_all_times)
    if n_narrowest is not None:
        if coverage != "each" or estimate.standard_errors is not None:
            raise ValueError(
                'at_all_times= is only available for a raw estimate and coverage="each". Use the '
                'raw estimate without coverage="selected", or leave out at_all_times=.'
            )
        refuse_unknown_tails(estimate.noise, "intervals at all times")
    if simultaneous or coverage == "selected":
        refuse_unknown_tails(estimate.noise, "simultaneous intervals")
    if coverage == "each" and estimate.standard_errors is not None:
        return _stated_intervals(estimate, level, queries, simultaneous, of)
    if coverage == "each":
        other = ', or pass top_k(k) with coverage="selected" (intervals of the largest estimates)'
        estimated = covariances_of_rows(estimate, of, "confidence interval", other)
        matrix, n_queries, assumes_even = query_rows(queries, estimate)
        if assumes_even:
            warn_of_heaps(estimated, 4)
        rows = None if queries is None else matrix
        if n_narrowest is None:
            ends = [intervals(*row, rows, level, simultaneous) for row in estimated]
        else:
            each = 1 - (1 - level) / (matrix.shape[0] if simultaneous else 1)  # Bonferroni
            ends = []
            for values, covariances in estimated:
                critical = critical_of_look(each, covariances.n_samples, n_narrowest)
                # The level of a single interval with this width.
                level_at_look = float(1 - 2 * ndtr(-critical))
                ends.append(intervals(values, covariances, rows, level_at_look, False))
        return ConfidenceInterval(*stacked(ends, n_queries), names_of(queries, estimate))
    if coverage != "selected":
        raise ValueError(
            f'Argument coverage must be "each" or "selected", got {coverage!r}. Use "selected" '
            "only with top_k(k) as the query."
        )
    k = None if queries is None else as_query_set(queries).top
    if k is None:
        raise ValueError(
            'coverage="selected" needs the number of selected categories. Pass top_k(k) as '
            'the query, as in confidence_interval(0.95, top_k(10), coverage="selected").'
        )
    estimated = covariances_of_rows(estimate.as_raw(), of, "confidence interval")
    listed = [as_query_set(queries).matrix(len(row), row).indices for row in estimate.values]
    leading = [leading_intervals(*row, k, level) for row in estimated]
    ends = [(low[i], high[i]) for (low, high), i in zip(leading, listed, strict=True)]
    return ConfidenceInterval(*stacked(ends, k), estimate.categories[listed[0]] if listed else None)


def narrowest(at_all_times: bool | int) -> int | None:
    """Return the number of users at which confidence sequences are to be narrowest.

    at_all_times: True for the default number, an integer for this number, False for None.
    """
    if at_all_times is False:
        return None
    if at_all_times is True:
        return _NARROWEST
    if not isinstance(at_all_times, Integral) or at_all_times < 1:
        raise ValueError(
            f"Argument at_all_times must be True, False or an integer >= 1, got {at_all_times!r}. "
            "Pass the number of users at which the intervals should be narrowest."
        )
    return int(at_all_times)


def critical_at_all_times(level: float, n_users: Any, at_all_times: bool | int) -> Any:
    """Return the number of standard errors of an interval, at one look or at all looks."""
    n_narrowest = narrowest(at_all_times)
    if n_narrowest is None:
        return two_sided(level)
    return critical_of_look(level, np.maximum(n_users, 1), n_narrowest)


def critical_of_look(level: float, n_users: Any, n_narrowest: int) -> Any:
    """Return the number of standard errors of an interval of a confidence sequence.

    A confidence sequence has one interval for each number of users, and all of them cover the
    truth simultaneously. So an analyst may look at a growing collection at any time.

    level: the probability that all intervals of the sequence cover the truth.
    n_users: the number of users so far.
    n_narrowest: the number of users at which the intervals are narrowest. The analyst chooses it
    before the first look at the data.
    """
    # I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy, A. Ramdas, "Time-uniform central limit
    # theory and asymptotic confidence sequences", Annals of Statistics 52(6), 2024,
    # arXiv:2103.06476, theorem 2.2. After n users the interval has c(n) standard errors with
    # c**2 = (1 + 1 / x) log((1 + x) / alpha**2), where x = n rho**2. At x = log((1 + x) / alpha**2)
    # its derivative in x is 0. This equation has the solution 1 + x = -W(-alpha**2 / e) with the
    # lower branch of Lambert's function.
    squared = (1 - level) ** 2
    best = -float(lambertw(-squared / math.e, -1).real) - 1
    x = n_users * best / n_narrowest
    return np.sqrt((1 + 1 / x) * np.log((1 + x) / squared))


def level_of_look(level: float, n_categories: int, n_users: float, n_narrowest: int) -> float:
    """Return the simultaneous level that a description at one look at the data must use.

    With this level at each look, all statements at all looks at the growing collection are true
    with the probability `level`.

    n_users: the number of users at this look.
    n_narrowest: the number of users at which the intervals are narrowest.
    """
    # A report is about categories, pairs of categories and ranges of bins: at most d**2 statements.
    # By Bonferroni's inequality each of them has a part of the error probability.
    n_statements = n_categories**2
    critical = critical_of_look(1 - (1 - level) / n_statements, n_users, n_narrowest)
    return 1 - n_statements * 2 * float(ndtr(-critical))


def _stated_intervals(
    estimate: Any, level: float, queries: Any, simultaneous: bool, of: str
) -> ConfidenceInterval:
    """Return normal confidence intervals of an estimate with its own standard errors.

    A post-processor such as Trend sets these standard errors in `estimate.standard_errors`.
    """
    check_of(of)
    variances = estimate.standard_errors**2
    noise = estimate.noise
    if of == "users" and noise is not None and noise.n_users is not None:
        # Let the week's users be drawn from the population with the variance S, and let V be that
        # of the week's estimate about the population. The smoothed value, of variance P, weighs
        # this estimate by P / V. So the estimate follows the users' own deviation by the factor
        # P / V, and its error about the users has the variance P + S (1 - 2 P / V).
        f = norm_sub(estimate.values)
        whole = noise.of_population().variance(f)
        drawn = whole - noise.variance(f)
        variances = np.maximum(variances + drawn * (1 - 2 * variances / whole), 0)
    rows, n_queries, _ = query_rows(queries, estimate)
    answers = (rows @ estimate.values.T).T
    # The standard error of a sum is at most the sum of the standard errors, for any correlations.
    critical = sidak(rows.shape[0], level) if simultaneous else two_sided(level)
    width = critical * (abs(rows) @ np.sqrt(variances).T).T
    possible = answer_range(rows, estimate.sums_to_one)
    low, high = within(answers - width, answers + width, width, *possible)
    ends = stacked(list(zip(low, high, strict=True)), n_queries)
    return ConfidenceInterval(*ends, names_of(queries, estimate))


def table_intervals(estimate: Any, level: float, queries: Any = None) -> ConfidenceInterval:
    """Return simultaneous intervals for all rows and categories, for use in tables and plots."""
    # Readers sort a table, cut it, and look at the largest estimates. Only simultaneous intervals
    # stay valid after such a selection. The intervals belong to the raw estimate. A raw estimate
    # outside of the possible range lies outside of its interval. If only the standard deviation
    # of the noise is known, its tails are unknown, so the intervals are those of single
    # categories.
    # queries: the queries; if None, every category.
    raw = estimate if estimate.states_errors else estimate.as_raw()
    if raw.noise is not None and raw.noise.presumes_normal:
        return confidence_interval(raw, level, queries, False, "users", "each")
    each = level_of_each(level, len(raw))
    return confidence_interval(raw, each, queries, True, "users", "each")


def level_of_each(level: float, n: int) -> float:
    """Return the level of each of n confidence bands that are simultaneous at `level`.

    A band consists of the simultaneous intervals of one estimate. Sidak's formula gives the level.
    """
    # Errors of tables are independent or nearly normal. Symmetric bands of normal errors are
    # positively dependent (Royen 2014), so the product of the levels is a bound.
    check_level(level)
    return level ** (1 / max(n, 1))


def table_columns(estimate: Any, level: float) -> dict[str, np.ndarray]:
    """Return the columns of the table of an estimate, by name, in the order of the table.

    The columns are "estimate" (raw values), "low" and "high" (ends of simultaneous intervals),
    "frequency" (post-processed values, if there are any) and "count" (numbers of users, if known).
    If the post-processor provides standard errors, "frequency" comes before its interval.
    Shapes: (n_estimates, d) each.
    """
    answers = np.asarray(estimate.answer())
    ends = table_intervals(estimate, level)
    columns = {"estimate": np.asarray(estimate.as_raw().answer())}
    columns |= {"frequency": answers} if not estimate.is_raw and estimate.states_errors else {}
    columns |= {"low": ends.low, "high": ends.high}
    columns |= {} if estimate.is_raw else {"frequency": answers}
    n_users = estimate.noise.n_users
    # Weighted shares are not shares of a number of users.
    if n_users is not None and not estimate.noise.is_weighted:
        columns["count"] = np.round(answers * np.reshape(n_users, (-1, 1)), 1)
    return columns


def display_order(domain: Any, scores: np.ndarray) -> np.ndarray:
    """Return the positions of categories in a table: in each row, the largest scores first.

    Bins and ordered scales keep their order.
    Shapes: scores (n_estimates, d) -> (n_estimates, d).
    """
    if domain is not None and domain.is_ordered:
        return np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    return np.argsort(-scores, axis=1, kind="stable")


def sorted_table(frame: Any, domain: Any, scores: np.ndarray) -> Any:
    """Return the rows of a table of all estimates and categories in the order of `display_order`.

    Shapes: frame n_estimates * d rows, scores (n_estimates, d).
    """
    starts = np.arange(len(scores))[:, None] * scores.shape[1]
    return frame.iloc[(starts + display_order(domain, scores)).ravel()]


def leading_intervals(
    values: np.ndarray, covariances: EstimateCovariances, k: int, level: float
) -> Ends:
    """Return an interval for each category, for an analyst who selects categories by the estimate.

    Simultaneously, with the probability `level`, all intervals cover the true frequencies. They are
    narrowest if the analyst selects the k categories with the largest estimates.
    Shapes: values (d,) -> (d,).
    """
    # Theorem: For each category v, let `low[v]` exceed the frequency of v with a probability of at
    # most (1 - level) / (2 d), and let `high[v]` be less than the frequency with a probability of
    # at most (1 - level) / (2 k). The errors may depend on each other in any way. Then all d
    # intervals from `low[v]` to the larger of `high[v]` and the k-th largest of all `high` cover
    # their frequencies simultaneously, with a probability of at least `level`. So the intervals
    # are also valid for categories that are selected after the estimate was seen.
    # Proof: By Bonferroni all d lower ends are valid, except with probability (1 - level) / 2. Let
    # T be the k most frequent categories. All upper ends in T are valid, except with probability
    # (1 - level) / 2. Any other category is at most as frequent as each member of T, so its
    # frequency is at most the smallest upper end in T. This end is at most the k-th largest of
    # all upper ends, because T has k members. (Unpublished. It is well known that the upper end
    # of a winner needs no correction.)
    # So only the lower ends are wider because of the winner's curse. The upper ends are as narrow
    # as for k categories that were named before the collection.
    tail = (1 - level) / 2
    low, _ = tail_intervals(values, covariances, tail / len(values))
    _, high = tail_intervals(values, covariances, tail / k)
    return low, np.maximum(high, np.partition(high, -k)[-k])
