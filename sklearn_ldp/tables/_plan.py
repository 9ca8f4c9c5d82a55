"""Which tables users are asked about, with which probabilities, and the error to be expected."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ._components import Components, Subset, subsets

# Of tables that are larger than those that are asked for: cells, and components of all of them.
_MAX_VIEW_CELLS, _MAX_COMPONENTS = 1 << 14, 1 << 18

#: Total variance of an oracle over d categories under uniform frequencies, times its users.
TotalVariance = Callable[[int], float]


@dataclass(frozen=True, eq=False)
class TablePlan:
    """A way to collect tables: what users are asked about, and the error of the tables asked for.

    Parameters
    ----------
    method : {"split", "fourier", "joint"}
        "split" asks each user about one table, "fourier" about the parity of some of her binary
        columns, "joint" about all columns at once.
    views : list of tuple of int
        The columns that a user may be asked about.
    probabilities : ndarray of shape (n_views,)
        Probability of each of them.
    squared_error : float
        Number of users times the expected sum of squared errors of a table asked for, the mean over
        these tables, with the best linear combination of all reports and under uniform frequencies.
    """

    method: str
    views: list[Subset]
    probabilities: np.ndarray
    squared_error: float


def noise_per_dimension(total_variance: float, size: int) -> float:
    """Return n times the variance that the reports on a table add along one direction.

    It is that of the reports and of the drawing of the users, under uniform frequencies, spread
    over the directions in which the frequencies of the cells can move: their sum is known.

    Parameters
    ----------
    total_variance : float
        Total variance of the oracle over the cells, times the users.
    size : int
        Number of cells.

    Returns
    -------
    float
        ``(total_variance + 1 - 1 / size) / (size - 1)``.
    """
    return (total_variance + 1 - 1 / size) / (size - 1)


def split_plan(
    sizes: Sequence[int],
    tables: Sequence[Subset],
    order: int | None,
    total_variance: TotalVariance,
    *,
    weights: Sequence[float] | None = None,
    column_share: float = 0.0,
) -> TablePlan:
    """Return the plan that splits the users among tables.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    tables : sequence of tuple of int
        The tables asked for.
    order : int or None
        Number of columns of the tables that users are asked about: all tables of this order. None
        asks about the tables asked for.
    total_variance : callable
        Returns the total variance of the oracle over a number of categories.
    weights : sequence of float, default=None
        How much the errors of each table asked for count; None counts them alike.
    column_share : float, default=0.0
        Share of the users who are asked for a single column.

    Returns
    -------
    TablePlan
        The plan.
    """
    views = list(dict.fromkeys(tables))
    if order is not None:
        views = list(combinations(range(len(sizes)), order))
    cells = [math.prod(sizes[j] for j in view) for view in views]
    noise = {size: noise_per_dimension(total_variance(size), size) for size in set(cells)}
    free = [math.prod(sizes[j] - 1 for j in view) for view in views]
    # A large table needs more users, but its components are seen in other tables, too: so half of
    # the users are split evenly.
    roots = np.sqrt([noise[size] * number for size, number in zip(cells, free, strict=True)])
    probabilities = 0.5 / len(views) + 0.5 * roots / roots.sum()
    counted = _weights(tables, weights)
    wanted = np.sqrt([_weight_within(view, tables, counted) for view in views])
    probabilities *= wanted / (probabilities @ wanted)
    if column_share:
        columns = [(j,) for j in sorted({j for table in tables for j in table})]
        of_columns = np.sqrt([total_variance(sizes[j]) for (j,) in columns])
        probabilities = np.concatenate(
            [column_share * of_columns / of_columns.sum(), (1 - column_share) * probabilities]
        )
        views = columns + views
        cells = [math.prod(sizes[j] for j in view) for view in views]
    variances = [
        noise_per_dimension(total_variance(size), size) / pi
        for size, pi in zip(cells, probabilities.tolist(), strict=True)
    ]
    components = Components.of_tables(sizes, views, None, variances)
    errors = [components.squared_error(t) - _spread(sizes, t) for t in tables]
    return TablePlan("split", views, probabilities, float(counted @ errors))


def _weights(tables: Sequence[Subset], weights: Sequence[float] | None) -> np.ndarray:
    """The weights of the tables, with the sum 1."""
    given = np.ones(len(tables)) if weights is None else np.asarray(weights, dtype=float)
    return given / given.sum()


def _weight_within(view: Subset, tables: Sequence[Subset], weights: np.ndarray) -> float:
    """The mean weight of the tables that follow from a view, at least a little."""
    columns = set(view)
    within = [w for table, w in zip(tables, weights, strict=True) if columns.issuperset(table)]
    return float(np.mean(within)) if within else float(weights.min())


def joint_plan(
    sizes: Sequence[int],
    tables: Sequence[Subset],
    total_variance: TotalVariance,
    weights: Sequence[float] | None = None,
) -> TablePlan:
    """Return the plan that asks each user about all columns; see `split_plan`.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    tables : sequence of tuple of int
        The tables asked for.
    total_variance : callable
        Returns the total variance of the oracle over a number of categories.
    weights : sequence of float, default=None
        How much the errors of each table asked for count; None counts them alike.

    Returns
    -------
    TablePlan
        The plan.
    """
    whole = tuple(range(len(sizes)))
    plan = split_plan(sizes, [whole], None, total_variance)
    n_cells = math.prod(sizes)
    noise = noise_per_dimension(total_variance(n_cells), n_cells)
    components = Components.of_tables(sizes, [whole], None, [noise])
    errors = [components.squared_error(t) - _spread(sizes, t) for t in tables]
    error = float(_weights(tables, weights) @ errors)
    return TablePlan("joint", plan.views, plan.probabilities, error)


def fourier_plan(
    sizes: Sequence[int],
    tables: Sequence[Subset],
    total_variance: TotalVariance,
    weights: Sequence[float] | None = None,
) -> TablePlan:
    """Return the plan that asks each user for one parity of binary columns.

    The error of a table is the sum of those of its coefficients, divided by its number of cells
    (Parseval), so a coefficient is drawn in proportion to the square root of how many tables use
    it; Cormode, Kulkarni and Srivastava (SIGMOD 2018, :doi:`10.1145/3183713.3196906`) draw all
    alike.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column: 2.
    tables : sequence of tuple of int
        The tables asked for.
    total_variance : callable
        Returns the total variance of the oracle over a number of categories.
    weights : sequence of float, default=None
        How much the errors of each table asked for count; None counts them alike.

    Returns
    -------
    TablePlan
        The plan.
    """
    used: dict[Subset, float] = {}
    for table, weight in zip(tables, _weights(tables, weights).tolist(), strict=True):
        for subset in subsets(table):
            used[subset] = used.get(subset, 0.0) + 0.5 ** len(table) * weight
    uses = np.array(list(used.values()))
    probabilities = np.sqrt(uses) / np.sqrt(uses).sum()
    # theta = 1 - 2 f has four times the variance of f, and f two cells.
    of_one = 4 * (total_variance(2) / 2 + 0.25)
    error = float(uses @ (of_one / probabilities - 1))
    return TablePlan("fourier", list(used), probabilities, error)


def _spread(sizes: Sequence[int], table: Subset) -> float:
    """The share of the error that is not there, as the users themselves are not a sample."""
    return 1 - 1 / math.prod(sizes[j] for j in table)


def candidate_plans(
    sizes: Sequence[int],
    tables: Sequence[Subset],
    total_variance: TotalVariance,
    weights: Sequence[float] | None = None,
) -> list[TablePlan]:
    """Return the plans that ``method="auto"`` chooses from.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    tables : sequence of tuple of int
        The tables asked for.
    total_variance : callable
        Returns the total variance of the oracle over a number of categories.
    weights : sequence of float, default=None
        How much the errors of each table asked for count; None counts them alike.

    Returns
    -------
    list of TablePlan
        Splits among the tables asked for and among all tables of higher orders, as long as these
        are few and small enough; all columns at once under the same condition; and parities if all
        columns are binary.
    """
    plans = [split_plan(sizes, tables, None, total_variance, weights=weights)]
    largest = sorted(sizes)
    asked = set(tables)
    for order in range(max(map(len, tables)), len(sizes)):
        if asked.issuperset(combinations(range(len(sizes)), order)):
            continue  # it is the first plan
        n_cells = math.prod(largest[-order:])
        n_components = math.comb(len(sizes), order) << order
        if n_components <= _MAX_COMPONENTS and n_cells <= _MAX_VIEW_CELLS:
            plans.append(split_plan(sizes, tables, order, total_variance, weights=weights))
    if math.prod(sizes) <= _MAX_VIEW_CELLS:
        plans.append(joint_plan(sizes, tables, total_variance, weights))
    if set(sizes) == {2}:
        plans.append(fourier_plan(sizes, tables, total_variance, weights))
    return plans


def noise_index(
    sizes: Sequence[int],
    tables: Sequence[Subset],
    total_variance: TotalVariance,
    n_samples: float,
    weights: Sequence[float] | None = None,
) -> float:
    """Return how noisy tables are: the squared error to be expected without any model.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    tables : sequence of tuple of int
        The tables asked for.
    total_variance : callable
        Returns the total variance of the oracle over a number of categories.
    n_samples : float
        Number of users.
    weights : sequence of float, default=None
        How much the errors of each table asked for count; None counts them alike.

    Returns
    -------
    float
        The mean over the tables, if the users are split in the best way among tables of which none
        tells anything about another.
    """
    roots = 0.0
    for table, weight in zip(tables, _weights(tables, weights).tolist(), strict=True):
        n_cells = math.prod(sizes[j] for j in table)
        free = math.prod(sizes[j] - 1 for j in table)
        noise = noise_per_dimension(total_variance(n_cells), n_cells)
        roots += math.sqrt(weight * noise * free)
    return roots**2 / n_samples


def column_share(index: float) -> float:
    """Return the share of users who are asked for a single column: the more, the more noise.

    Where tables are so noisy that a model can hardly tell more than the columns alone, the columns
    are worth asking for. The error is flat around the best share. The thresholds were chosen on
    flights, incomes and diamonds, which benchmarks/_real_tables.py writes.

    Parameters
    ----------
    index : float
        The `noise_index` of the tables.

    Returns
    -------
    float
        In [0, 1).
    """
    for threshold, share in ((0.1, 0.75), (0.02, 0.5), (0.005, 0.25)):
        if index > threshold:
            return share
    return 0.0
