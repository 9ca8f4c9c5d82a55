"""Plans for the estimation of tables: questions, their probabilities, and the expected error.

A table contains the frequency of each combination of some columns' categories. A question asks for
the user's combination in a table, or for a parity of binary columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from .._core.common.locks import cached_property
from ._components import Components, Subset, subsets

# Limits for questions about more columns than a requested table has. Chosen by hand, not measured.
_MAX_VIEW_CELLS = 1 << 14  # cells of one such table
_MAX_COMPONENTS = 1 << 18  # components of all such tables
#: A plan is safe if the expected number of requested tables without users is at most this number.
#: Chosen by hand, not measured.
MAX_RISK = 1e-3


@dataclass(frozen=True, eq=False)
class TablePlan:
    """The questions that users may be asked, and the expected error of the requested tables."""

    # "split" asks each user about one table, "fourier" about the parity of some of their binary
    # columns, "joint" about all columns together.
    method: str
    views: list[Subset]  # the columns of each question
    probabilities: np.ndarray  # (n_views,): probability of each question
    # Number of users times the expected sum of squared errors of a requested table: the mean
    # over these tables, with the best linear combination of all reports and under uniform
    # frequencies.
    squared_error: float
    # Approximate upper bound of the expected number of requested tables without users.
    n_empty: float = 0.0


def table_cells(sizes: Sequence[int], columns: Subset) -> int:
    """Return the number of cells of the table over some columns.

    sizes: number of categories of each column. columns: positions of the table's columns.
    """
    return math.prod(sizes[j] for j in columns)


def noise_per_dimension(total_variance: float, size: int) -> float:
    """Return n times the variance of a table's estimate, per degree of freedom, for n reports.

    total_variance: n times the sum of the variances of all cells, without the variance of drawing
    the users. size: number of cells.
    """
    # The variance of the reports and of the drawing of the users, under uniform frequencies, is
    # spread over size - 1 directions, because the sum of the cells is known to be 1.
    # total_variance: n times the total variance of the oracle over the cells.
    return (total_variance + 1 - 1 / size) / (size - 1)


@dataclass(frozen=True, eq=False)
class TableRequest:
    """The requested tables. The methods return plans of questions from which they are estimated."""

    sizes: Sequence[int]  # number of categories of each column
    tables: Sequence[Subset]  # the columns of each requested table, rising; each table once
    # Returns n times the total variance of the oracle over a number of categories, under uniform
    # frequencies.
    total_variance: Callable[[int], float]
    # Weight of the errors of each table; None means equal weights.
    weights: Sequence[float] | None = None
    # Expected number of users. The number of users of a table is random, so the error of a table
    # with few users is more than proportionally larger.
    n_users: float = math.inf

    # -- the plans ----------------------------------------------------------------------------
    def split(self, order: int | None = None, *, column_share: float = 0.0) -> TablePlan:
        """Return the plan in which each user is asked about one randomly drawn table.

        column_share: the proportion of users who are asked for a single column instead.
        """
        # order: users are asked about all tables with this number of columns. If None, users are
        # asked about the requested tables.
        views = list(self.tables if order is None else combinations(range(len(self.sizes)), order))
        # A large table needs more users, but other tables contain its components as well.
        # Therefore half of the users are split evenly.
        roots = np.sqrt([self._noise(view) * self._n_free(view) for view in views])
        probabilities = 0.5 / len(views) + 0.5 * roots / roots.sum()
        factors = np.sqrt(self._weights_within(views))
        probabilities *= factors / (probabilities @ factors)
        if column_share:
            columns = [(j,) for j in sorted({j for table in self.tables for j in table})]
            column_roots = np.sqrt([self.total_variance(self.sizes[j]) for (j,) in columns])
            column_probabilities = column_share * column_roots / column_roots.sum()
            probabilities = np.append(column_probabilities, (1 - column_share) * probabilities)
            views = columns + views
        return self._plan("split", views, probabilities)

    def joint(self) -> TablePlan:
        """Return the plan in which each user is asked for the combination of all columns."""
        return self._plan("joint", [tuple(range(len(self.sizes)))], np.ones(1))

    def fourier(self) -> TablePlan:
        """Return the plan in which each user is asked for one parity of some binary columns."""
        # The error of a table is the sum of the errors of its coefficients, divided by its
        # number of cells (Parseval). Therefore a coefficient is drawn in proportion to the square
        # root of the number of tables that use it. Cormode, Kulkarni and Srivastava (SIGMOD 2018,
        # :doi:`10.1145/3183713.3196906`) draw all coefficients with the same probability.
        used: dict[Subset, float] = {}
        for table, weight in zip(self.tables, self._shares.tolist(), strict=True):
            for subset in subsets(table):
                used[subset] = used.get(subset, 0.0) + 0.5 ** len(table) * weight
        uses = np.array(list(used.values()))
        probabilities = np.sqrt(uses) / np.sqrt(uses).sum()
        # theta = 1 - 2 f has four times the variance of f, and f has two cells.
        variance = 4 * (self.total_variance(2) / 2 + 0.25)
        n_asked = self.n_users * probabilities
        error = float(uses @ (variance / probabilities * (1 + 1 / n_asked) - 1))
        return TablePlan("fourier", list(used), probabilities, error, float(np.exp(-n_asked).sum()))

    def candidates(self) -> list[TablePlan]:
        """Return the plans from which ``method="auto"`` of MarginalOracle chooses.

        In the first plan, users are split among the requested tables. In further plans, users are
        split among all tables of a larger number of columns, if these are few and small. If the
        table of all columns is small, one plan asks for all columns. If all columns are binary, one
        plan asks for parities.
        """
        plans = [self.split()]
        n_columns = len(self.sizes)
        largest = sorted(self.sizes)
        tables = set(self.tables)
        for order in range(max(map(len, self.tables)), n_columns):
            if tables.issuperset(combinations(range(n_columns), order)):
                continue  # the first plan asks for these tables
            n_components = math.comb(n_columns, order) << order
            n_cells = math.prod(largest[-order:])
            if n_components <= _MAX_COMPONENTS and n_cells <= _MAX_VIEW_CELLS:
                plans.append(self.split(order))
        if math.prod(self.sizes) <= _MAX_VIEW_CELLS:
            plans.append(self.joint())
        if set(self.sizes) == {2}:
            plans.append(self.fourier())
        return plans

    # -- the noise of the tables --------------------------------------------------------------
    def noise_index(self, n_samples: float) -> float:
        """Return the weighted mean of the expected squared errors of the requested tables.

        The users are split optimally among the tables, and each table is estimated only from its
        own users. n_samples: number of users.
        """
        roots = 0.0
        for table, weight in zip(self.tables, self._shares.tolist(), strict=True):
            roots += math.sqrt(weight * self._noise(table) * self._n_free(table))
        return roots**2 / n_samples

    def _n_free(self, columns: Subset) -> int:
        return math.prod(self.sizes[j] - 1 for j in columns)

    def _plan(self, method: str, views: list[Subset], probabilities: np.ndarray) -> TablePlan:
        """Return the plan with the given questions, and compute its error.

        views: the columns of each question. probabilities: the probability of each question. The
        error is computed for the best linear combination of the answers to all questions.
        """
        variances = np.array([self._noise(view) for view in views]) / probabilities
        components = Components.of_tables(self.sizes, views, None, variances)
        errors = np.array([components.squared_error(table) for table in self.tables])
        n_cells = np.array([table_cells(self.sizes, table) for table in self.tables])
        view_positions, table_positions = self._within(views)
        table_probabilities = np.bincount(
            table_positions, probabilities[view_positions], len(self.tables)
        )
        n_users = self.n_users * table_probabilities
        # The errors are errors of the frequencies among the users, so the variance of drawing all
        # users from a population is subtracted.
        errors = errors * (1 + 1 / n_users) - (1 - 1 / n_cells)
        error = float(self._shares @ errors)
        n_empty = float(np.exp(-n_users).sum())
        return TablePlan(method, views, probabilities, error, n_empty)

    def _noise(self, columns: Subset) -> float:
        n_cells = table_cells(self.sizes, columns)
        return noise_per_dimension(self.total_variance(n_cells), n_cells)

    @cached_property
    def _shares(self) -> np.ndarray:
        """The weights of the requested tables, divided by their sum; shape (n_tables,)."""
        weights = np.ones(len(self.tables)) if self.weights is None else np.asarray(self.weights)
        return weights / weights.sum()

    def _within(self, views: Sequence[Subset]) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs of a view and a requested table that the view contains.

        A view is a set of columns that users may be asked about. It contains a table if it contains
        all columns of the table. Returns two arrays with one entry per pair: the position of the
        view, and the position of the table.
        """
        places = {table: i for i, table in enumerate(self.tables)}
        orders = sorted({len(table) for table in self.tables})
        pairs = []
        for j, view in enumerate(views):
            within = chain.from_iterable(combinations(view, order) for order in orders)
            pairs += [(j, places[subset]) for subset in within if subset in places]
        view_positions, table_positions = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        return view_positions, table_positions

    def _weights_within(self, views: Sequence[Subset]) -> np.ndarray:
        """Return a weight for each view, of shape (n_views,).

        A view is a set of columns that users may be asked about. Its weight is the mean weight of
        the requested tables whose columns it contains. If there is no such table, its weight is the
        minimum weight of all tables.
        """
        if np.ptp(self._shares) == 0:
            return np.ones(len(views))
        view_positions, table_positions = self._within(views)
        n_tables = np.bincount(view_positions, minlength=len(views))
        total = np.bincount(view_positions, self._shares[table_positions], len(views))
        return np.where(n_tables, total / np.maximum(n_tables, 1), self._shares.min())


def best_plans(request: TableRequest) -> list[TablePlan]:
    """Return the plans that are expected to leave no table without users, by ascending error.

    If there is no such plan, return the plans that leave the fewest tables without users.
    """
    # If no plan is safe, the plans that leave the fewest tables without users.
    candidates = request.candidates()
    fewest = max(min(plan.n_empty for plan in candidates), MAX_RISK)
    safe = [plan for plan in candidates if plan.n_empty <= fewest]
    return sorted(safe, key=lambda plan: plan.squared_error)


def column_share(index: float) -> float:
    """Return the proportion of users for ``column_share="auto"`` of MarginalOracle.

    These users are asked for a single column, and all other users for a table.
    index: the expected squared error of a table, from `TableRequest.noise_index`. The proportion
    grows with this error.
    """
    # If tables are so noisy that a model can hardly detect dependence, most users are asked for
    # single columns. Otherwise all users are asked for tables. One half is worse than both. The
    # thresholds were chosen on flights, incomes and diamonds, which
    # benchmarks/accuracy/_real_tables.py writes, on four surveys with latent traits, and on
    # Adult and five surveys of people. With nine in ten users, columns are hardly worse than
    # with all users.
    shares = {0.07: 0.9, 0.035: 0.75, 0.012: 0.25}
    return next((share for threshold, share in shares.items() if index > threshold), 0.0)
