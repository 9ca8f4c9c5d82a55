"""Plans for tables: what users are asked about, with which probabilities, and the error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
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


def table_cells(sizes: Sequence[int], columns: Subset) -> int:
    """Return the number of cells of a table.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    columns : tuple of int
        Positions of the columns.

    Returns
    -------
    int
        Their product.
    """
    return math.prod(sizes[j] for j in columns)


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


@dataclass(frozen=True, eq=False)
class TableRequest:
    """What tables are asked for, of what columns: it knows the ways to collect them.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    tables : sequence of tuple of int
        The columns of each table asked for, rising.
    total_variance : callable
        Returns the total variance of the oracle over a number of categories, times its users.
    weights : sequence of float, default=None
        How much the errors of each table count; None counts them alike.
    """

    sizes: Sequence[int]
    tables: Sequence[Subset]
    total_variance: TotalVariance
    weights: Sequence[float] | None = None

    # -- the ways -----------------------------------------------------------------------------
    def split(self, order: int | None = None, *, column_share: float = 0.0) -> TablePlan:
        """Return the plan that splits the users among tables.

        Parameters
        ----------
        order : int, default=None
            Number of columns of the tables that users are asked about: all tables of this order.
            None asks about the tables asked for.
        column_share : float, default=0.0
            Share of the users who are asked for a single column.

        Returns
        -------
        TablePlan
            The plan.
        """
        views = list(dict.fromkeys(self.tables))
        if order is not None:
            views = list(combinations(range(len(self.sizes)), order))
        free = [math.prod(self.sizes[j] - 1 for j in view) for view in views]
        # A large table needs more users, but its components are seen in other tables, too: so half
        # of the users are split evenly.
        roots = np.sqrt([self._noise(v) * number for v, number in zip(views, free, strict=True)])
        probabilities = 0.5 / len(views) + 0.5 * roots / roots.sum()
        wanted = np.sqrt([self._weight_within(view) for view in views])
        probabilities *= wanted / (probabilities @ wanted)
        if column_share:
            columns = [(j,) for j in sorted({j for table in self.tables for j in table})]
            of_columns = np.sqrt([self.total_variance(self.sizes[j]) for (j,) in columns])
            probabilities = np.concatenate(
                [column_share * of_columns / of_columns.sum(), (1 - column_share) * probabilities]
            )
            views = columns + views
        return self._plan("split", views, probabilities)

    def joint(self) -> TablePlan:
        """Return the plan that asks each user about all columns."""
        return self._plan("joint", [tuple(range(len(self.sizes)))], np.ones(1))

    def fourier(self) -> TablePlan:
        """Return the plan that asks each user for one parity of binary columns.

        The error of a table is the sum of those of its coefficients, divided by its number of cells
        (Parseval), so a coefficient is drawn in proportion to the square root of how many tables
        use it; Cormode, Kulkarni and Srivastava (SIGMOD 2018, :doi:`10.1145/3183713.3196906`) draw
        all alike.
        """
        used: dict[Subset, float] = {}
        for table, weight in zip(self.tables, self._shares.tolist(), strict=True):
            for subset in subsets(table):
                used[subset] = used.get(subset, 0.0) + 0.5 ** len(table) * weight
        uses = np.array(list(used.values()))
        probabilities = np.sqrt(uses) / np.sqrt(uses).sum()
        # theta = 1 - 2 f has four times the variance of f, and f two cells.
        of_one = 4 * (self.total_variance(2) / 2 + 0.25)
        error = float(uses @ (of_one / probabilities - 1))
        return TablePlan("fourier", list(used), probabilities, error)

    def candidates(self) -> list[TablePlan]:
        """Return the plans that ``method="auto"`` chooses from.

        Returns
        -------
        list of TablePlan
            Splits among the tables asked for and among all tables of higher orders, as long as
            these are few and small enough; all columns at once under the same condition; and
            parities if all columns are binary.
        """
        plans, n_columns, largest = [self.split()], len(self.sizes), sorted(self.sizes)
        asked = set(self.tables)
        for order in range(max(map(len, self.tables)), n_columns):
            if asked.issuperset(combinations(range(n_columns), order)):
                continue  # it is the first plan
            n_components = math.comb(n_columns, order) << order
            n_cells = math.prod(largest[-order:])
            if n_components <= _MAX_COMPONENTS and n_cells <= _MAX_VIEW_CELLS:
                plans.append(self.split(order))
        if math.prod(self.sizes) <= _MAX_VIEW_CELLS:
            plans.append(self.joint())
        if set(self.sizes) == {2}:
            plans.append(self.fourier())
        return plans

    # -- how noisy they are -------------------------------------------------------------------
    def noise_index(self, n_samples: float) -> float:
        """Return how noisy tables are: the squared error to be expected without any model.

        Parameters
        ----------
        n_samples : float
            Number of users.

        Returns
        -------
        float
            The mean over the tables, if the users are split in the best way among tables of which
            none tells anything about another.
        """
        roots = 0.0
        for table, weight in zip(self.tables, self._shares.tolist(), strict=True):
            free = math.prod(self.sizes[j] - 1 for j in table)
            roots += math.sqrt(weight * self._noise(table) * free)
        return roots**2 / n_samples

    def _plan(self, method: str, views: list[Subset], probabilities: np.ndarray) -> TablePlan:
        """A plan with the error of the best linear combination of its tables."""
        both = zip(views, probabilities.tolist(), strict=True)
        variances = [self._noise(view) / pi for view, pi in both]
        components = Components.of_tables(self.sizes, views, None, variances)
        # The users themselves are not a sample: what they have in common is no error.
        errors = [
            components.squared_error(table) - (1 - 1 / table_cells(self.sizes, table))
            for table in self.tables
        ]
        return TablePlan(method, views, probabilities, float(self._shares @ errors))

    def _noise(self, columns: Subset) -> float:
        n_cells = table_cells(self.sizes, columns)
        return noise_per_dimension(self.total_variance(n_cells), n_cells)

    @cached_property
    def _shares(self) -> np.ndarray:
        """The weights of the tables, with the sum 1."""
        given = np.ones(len(self.tables)) if self.weights is None else np.asarray(self.weights)
        return given / given.sum()

    def _weight_within(self, view: Subset) -> float:
        """The mean weight of the tables that follow from a view, at least a little."""
        columns, both = set(view), zip(self.tables, self._shares.tolist(), strict=True)
        within = [weight for table, weight in both if columns.issuperset(table)]
        return float(np.mean(within)) if within else float(self._shares.min())


def column_share(index: float) -> float:
    """Return the share of users who are asked for a single column: the more, the more noise.

    Where tables are so noisy that a model can hardly tell more than the columns alone, the columns
    are worth asking for. The error is flat around the best share. The thresholds were chosen on
    flights, incomes and diamonds, which benchmarks/accuracy/_real_tables.py writes.

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
