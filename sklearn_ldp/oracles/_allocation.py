"""How many columns users are asked for, and what is spent on each: closed forms, no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from ..mechanisms._coins import TWO_64
from ..mechanisms._split import shares_over_2_64
from ._choice import minimax_bound

#: Total variance of each column at a budget, times the number of users.
TotalVariances = Callable[[float], np.ndarray]

_FIRST_UNITS = 1 << 6  # that the budget is split into, at least
_HALVINGS = 4  # of these units


@lru_cache(maxsize=1 << 14)
def least_variance(epsilon: float, n_categories: int) -> float:
    """Return the total variance of the best oracle: `minimax_bound`, remembered."""
    return minimax_bound(epsilon, n_categories)


def budget_share(epsilon: float, share: Fraction) -> float:
    """Return a part of a budget, rounded down, so that parts do not add up to more than it.

    Parameters
    ----------
    epsilon : float
        The whole budget.
    share : Fraction
        The part of it, at most 1.

    Returns
    -------
    float
        The largest number that is not above ``share * epsilon``.
    """
    exact = Fraction(float(epsilon)) * share
    rounded = float(exact)
    return rounded if Fraction(rounded) <= exact else math.nextafter(rounded, 0)


def sampling_shares(weights: np.ndarray, totals: np.ndarray, n_sampled: int) -> list[int]:
    """Return the probability of asking for each column, over 2**64.

    In proportion to ``sqrt(weight * total)``, and at most 1, which minimises the sum of
    ``weight * total / probability``.

    Parameters
    ----------
    weights : ndarray of shape (n_columns,)
        How much the errors of each column count.
    totals : ndarray of shape (n_columns,)
        Total variance of each column's oracle at the budget of one answer.
    n_sampled : int
        Number of columns that each user is asked for.

    Returns
    -------
    list of int
        Their sum is ``n_sampled * 2**64``.
    """
    return shares_over_2_64(np.sqrt(weights * totals), n_sampled)


def sampled_error(
    weights: np.ndarray, sizes: np.ndarray, totals: np.ndarray, n_sampled: int
) -> float:
    """Return n times the expected squared error of all columns, under uniform frequencies.

    .. math:: \\sum_j w_j \\Big(\\frac{V_j}{\\pi_j} +
              \\Big(1 - \\frac 1{d_j}\\Big) \\Big(\\frac 1{\\pi_j} - 1\\Big)\\Big),

    the noise of the reports and that of drawing whom to ask.

    Parameters
    ----------
    weights, totals : ndarray of shape (n_columns,)
        As for `sampling_shares`.
    sizes : ndarray of shape (n_columns,)
        Number of categories of each column.
    n_sampled : int
        Number of columns that each user is asked for.

    Returns
    -------
    float
        The weighted sum over all columns and categories.
    """
    pis = np.array(sampling_shares(weights, totals, n_sampled), dtype=float) / TWO_64
    return float(np.sum(weights * (totals / pis + (1 - 1 / sizes) * (1 / pis - 1))))


def best_n_sampled(
    epsilon: float, weights: np.ndarray, sizes: np.ndarray, totals_at: TotalVariances
) -> int:
    """Return the number of columns to ask each user for that has the least expected error.

    It is 1 for epsilon up to about 2, and about ``epsilon / 2.2`` for many binary columns at large
    epsilon; it falls with the number of categories.

    Parameters
    ----------
    epsilon : float
        Budget of all answers of a user.
    weights, sizes : ndarray of shape (n_columns,)
        As for `sampled_error`.
    totals_at : callable
        Returns the total variance of each column's oracle at a budget.

    Returns
    -------
    int
        From 1 to n_columns.
    """
    errors = []
    for n_sampled in range(1, len(sizes) + 1):
        totals = totals_at(budget_share(epsilon, Fraction(1, n_sampled)))
        if not np.all(np.isfinite(totals)):
            break
        errors.append(sampled_error(weights, sizes, totals, n_sampled))
    # Machines whose floats differ in the last digits agree: a later one must be clearly better.
    best = 0
    for i, error in enumerate(errors):
        if error < errors[best] * (1 - 1e-9):
            best = i
    return best + 1


def split_budget(
    epsilon: float, weights: np.ndarray, total_at: Sequence[Callable[[float], float]]
) -> list[float]:
    """Return the budget of each column, if all users answer for all of them.

    The sum of ``weight * V(budget)`` is least among the budgets that are multiples of epsilon / n,
    with n at least 1024. V is convex, so that a division which no exchange of one unit makes better
    is the best: machines agree on it, as nothing depends on where an optimiser has stopped.

    Parameters
    ----------
    epsilon : float
        The whole budget.
    weights : ndarray of shape (n_columns,)
        How much the errors of each column count.
    total_at : sequence of callable
        For each column, its total variance at a budget.

    Returns
    -------
    list of float
        Their exact sum is at most epsilon.
    """
    n_columns = len(weights)
    n_units = max(_FIRST_UNITS, 4 * n_columns)

    @cache
    def error(j: int, share: Fraction) -> float:
        return float(weights[j] * total_at[j](budget_share(epsilon, share)))

    def of_units(j: int, units: int) -> float:
        return error(j, Fraction(units, n_units)) if units else math.inf

    given = [1] * n_columns
    for _ in range(n_units - n_columns):
        losses = [
            _change(of_units(j, given[j] + 1), of_units(j, given[j])) for j in range(n_columns)
        ]
        given[int(np.argmin(losses))] += 1
    for _ in range(_HALVINGS):
        n_units, given = 2 * n_units, [2 * units for units in given]
        while True:
            now = [of_units(j, given[j]) for j in range(n_columns)]
            more = [_change(of_units(j, given[j] + 1), now[j]) for j in range(n_columns)]
            less = [_change(of_units(j, given[j] - 1), now[j]) for j in range(n_columns)]
            to, since = int(np.argmin(more)), int(np.argmin(less))
            if more[to] + less[since] >= -1e-12 * abs(more[to]):
                break
            given[to] += 1
            given[since] -= 1
    return [budget_share(epsilon, Fraction(units, n_units)) for units in given]


def _change(after: float, before: float) -> float:
    """What a unit more or less changes; without limit where the error has none before."""
    return -math.inf if math.isinf(before) else after - before
