"""Plans for tables: what users are asked about, with which probabilities, and the error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from .._core.support.locks import cached_property
from ._components import Components, Subset, subsets

# Of tables that are larger than those that are asked for: cells, and components of all of them.
_MAX_VIEW_CELLS, _MAX_COMPONENTS = 1 << 14, 1 << 18
# Chosen by hand, not measured.
#: A plan is safe if fewer of the tables asked for than this are expected to have no users.
MAX_RISK = 1e-3


@dataclass(frozen=True, eq=False)
class TablePlan:
    """A way to collect tables."""

    # What users are asked about, and the error of the tables asked for.

    # "split" asks each user about one table, "fourier" about the parity of some of their binary
    # columns, "joint" about all columns at once.
    method: str
    views: list[Subset]  # the columns that a user may be asked about
    probabilities: np.ndarray  # (n_views,): probability of each of them
    # Number of users times the expected sum of squared errors of a table asked for, the mean
    # over these tables, with the best linear combination of all reports and under uniform
    # frequencies.
    squared_error: float
    # At most about how many of these tables are expected to lack users who tell about them.
    n_untold: float = 0.0


def table_cells(sizes: Sequence[int], columns: Subset) -> int:
    """Return the number of cells of a table."""
    return math.prod(sizes[j] for j in columns)


def noise_per_dimension(total_variance: float, size: int) -> float:
    """Return n times the variance that the reports on a table add along one direction."""
    # It is that of the reports and of the drawing of the users, under uniform frequencies,
    # spread over the directions in which the frequencies of the cells can move: their sum is
    # known.
    # total_variance: that of the oracle over the cells, times the users.
    return (total_variance + 1 - 1 / size) / (size - 1)


@dataclass(frozen=True, eq=False)
class TableRequest:
    """The tables that are asked for, and their columns: it knows the ways to collect them."""

    sizes: Sequence[int]  # number of categories of each column
    tables: Sequence[Subset]  # the columns of each table asked for, rising; each table once
    # Returns the total variance of the oracle over a number of categories under uniform
    # frequencies, times its users.
    total_variance: Callable[[int], float]
    # How much the errors of each table count; None counts them alike.
    weights: Sequence[float] | None = None
    # Number of users who are expected. Which of them are asked what is drawn, so with fewer of
    # them for a table its error is more than proportionally larger.
    n_users: float = math.inf

    # -- the ways -----------------------------------------------------------------------------
    def split(self, order: int | None = None, *, column_share: float = 0.0) -> TablePlan:
        """Return the plan that splits the users among tables."""
        # order: number of columns of the tables that users are asked about: all tables of
        # this order. None asks about the tables asked for.
        views = list(self.tables if order is None else combinations(range(len(self.sizes)), order))
        # A large table needs more users, but its components are seen in other tables, too: so half
        # of the users are split evenly.
        roots = np.sqrt([self._noise(view) * self._n_free(view) for view in views])
        probabilities = 0.5 / len(views) + 0.5 * roots / roots.sum()
        wanted = np.sqrt(self._weights_within(views))
        probabilities *= wanted / (probabilities @ wanted)
        if column_share:
            columns = [(j,) for j in sorted({j for table in self.tables for j in table})]
            of_columns = np.sqrt([self.total_variance(self.sizes[j]) for (j,) in columns])
            of_columns = column_share * of_columns / of_columns.sum()
            probabilities = np.append(of_columns, (1 - column_share) * probabilities)
            views = columns + views
        return self._plan("split", views, probabilities)

    def joint(self) -> TablePlan:
        """Return the plan that asks each user about all columns."""
        return self._plan("joint", [tuple(range(len(self.sizes)))], np.ones(1))

    def fourier(self) -> TablePlan:
        """Return the plan that asks each user for one parity of binary columns."""
        # The error of a table is the sum of those of its coefficients, divided by its
        # number of cells (Parseval), so a coefficient is drawn in proportion to the square
        # root of how many tables use it; Cormode, Kulkarni and Srivastava (SIGMOD 2018,
        # :doi:`10.1145/3183713.3196906`) draw all alike.
        used: dict[Subset, float] = {}
        for table, weight in zip(self.tables, self._shares.tolist(), strict=True):
            for subset in subsets(table):
                used[subset] = used.get(subset, 0.0) + 0.5 ** len(table) * weight
        uses = np.array(list(used.values()))
        probabilities = np.sqrt(uses) / np.sqrt(uses).sum()
        # theta = 1 - 2 f has four times the variance of f, and f two cells.
        variance = 4 * (self.total_variance(2) / 2 + 0.25)
        n_asked = self.n_users * probabilities
        error = float(uses @ (variance / probabilities * (1 + 1 / n_asked) - 1))
        return TablePlan("fourier", list(used), probabilities, error, float(np.exp(-n_asked).sum()))

    def candidates(self) -> list[TablePlan]:
        """Return the plans that ``method="auto"`` chooses from.

        Returns: splits among the tables asked for and among all tables of higher orders,
        as long as these are few and small enough; all columns at once under the same
        condition; and parities if all columns are binary.
        """
        plans, n_columns, largest = [self.split()], len(self.sizes), sorted(self.sizes)
        tables = set(self.tables)
        for order in range(max(map(len, self.tables)), n_columns):
            if tables.issuperset(combinations(range(n_columns), order)):
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

        Returns: the mean over the tables, if the users are split in the best way among
        tables of which none tells anything about another.
        """
        roots = 0.0
        for table, weight in zip(self.tables, self._shares.tolist(), strict=True):
            roots += math.sqrt(weight * self._noise(table) * self._n_free(table))
        return roots**2 / n_samples

    def _n_free(self, columns: Subset) -> int:
        return math.prod(self.sizes[j] - 1 for j in columns)

    def _plan(self, method: str, views: list[Subset], probabilities: np.ndarray) -> TablePlan:
        """A plan with the error of the best linear combination of its tables."""
        variances = np.array([self._noise(view) for view in views]) / probabilities
        components = Components.of_tables(self.sizes, views, None, variances)
        # The users themselves are not a sample: what they have in common is no error.
        errors = np.array([components.squared_error(table) for table in self.tables])
        n_cells = np.array([table_cells(self.sizes, table) for table in self.tables])
        of_view, of_table = self._within(views)
        told = self.n_users * np.bincount(of_table, probabilities[of_view], len(self.tables))
        errors = errors * (1 + 1 / told) - (1 - 1 / n_cells)
        error, n_untold = float(self._shares @ errors), float(np.exp(-told).sum())
        return TablePlan(method, views, probabilities, error, n_untold)

    def _noise(self, columns: Subset) -> float:
        n_cells = table_cells(self.sizes, columns)
        return noise_per_dimension(self.total_variance(n_cells), n_cells)

    @cached_property
    def _shares(self) -> np.ndarray:
        """The weights of the tables, with the sum 1."""
        given = np.ones(len(self.tables)) if self.weights is None else np.asarray(self.weights)
        return given / given.sum()

    def _within(self, views: Sequence[Subset]) -> tuple[np.ndarray, np.ndarray]:
        """The views and the tables that follow from them, as two arrays of positions."""
        places = {table: i for i, table in enumerate(self.tables)}
        orders = sorted({len(table) for table in self.tables})
        pairs = []
        for j, view in enumerate(views):
            within = chain.from_iterable(combinations(view, order) for order in orders)
            pairs += [(j, places[subset]) for subset in within if subset in places]
        of_view, of_table = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        return of_view, of_table

    def _weights_within(self, views: Sequence[Subset]) -> np.ndarray:
        """The mean weight of the tables that follow from each view, at least a little."""
        if np.ptp(self._shares) == 0:
            return np.ones(len(views))
        of_view, of_table = self._within(views)
        number = np.bincount(of_view, minlength=len(views))
        total = np.bincount(of_view, self._shares[of_table], len(views))
        return np.where(number, total / np.maximum(number, 1), self._shares.min())


def best_plans(request: TableRequest) -> list[TablePlan]:
    """Return the plans that will tell about all tables, the one with the least error first."""
    # Where none is safe, those that leave out the fewest tables.
    candidates = request.candidates()
    fewest = max(min(plan.n_untold for plan in candidates), MAX_RISK)
    safe = [plan for plan in candidates if plan.n_untold <= fewest]
    return sorted(safe, key=lambda plan: plan.squared_error)


def column_share(index: float) -> float:
    """Return the share of users who are asked for a single column: the more, the more noise."""
    # Where tables are so noisy that a model can hardly tell more than the columns alone, most
    # users are worth asking for these. Where it can, all are worth asking for tables. Halves
    # are worse than both. The thresholds were chosen on flights, incomes and diamonds, which
    # benchmarks/accuracy/_real_tables.py writes, on four surveys with latent traits, and on
    # Adult and five surveys of people: with nine in ten, columns are hardly worse than those of
    # all users.
    shares = {0.07: 0.9, 0.035: 0.75, 0.012: 0.25}
    return next((share for least, share in shares.items() if index > least), 0.0)
