"""Views, and tables that are computed from several views.

A view is the raw estimate of one table, or of one parity of binary columns, from the users who were
asked about it. Different views come from different users.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from .._core.common.locks import cached_property
from .._core.common.state import Uncached
from .._core.common.tags import Tagged
from .._core.domains import RecordDomain
from .._core.estimates import FrequencyEstimate
from .._core.noise import MULTINOMIAL, Covariances, Noise, Term, every_category
from ._components import Components, Subset, centered, subsets
from ._plan import noise_per_dimension


@dataclass(frozen=True, eq=False)
class TableView(Tagged, tag="table-view"):
    """The raw estimate of one table or parity, from the users who were asked about it."""

    columns: Subset  # positions of the columns, rising
    # (n_cells,): raw estimates of the cells in C order, or of the two values of the parity.
    values: np.ndarray
    noise: Noise  # the noise of this estimate
    # Sum of the variances of all cells under uniform frequencies, times the number of users of
    # this view.
    total_variance: float
    is_parity: bool = False  # whether users were asked for the parity of the columns

    @property
    def population_noise(self) -> Noise:
        """The noise of the reports, plus the error of sampling users from a population."""
        return self.noise.of_reports().of_population()

    @cached_property
    def variance(self) -> float:
        """The variance of this estimate per degree of freedom, if all frequencies are equal."""
        size = len(self.values)
        return noise_per_dimension(self.total_variance, size) / float(self.noise.n_samples)

    def __check_state__(self) -> None:
        is_list = self.values.ndim == 1 and len(self.values) >= 2
        if not is_list or not 0 < self.total_variance < math.inf or np.ndim(self.noise.n_samples):
            raise ValueError(
                "a view needs at least two cells, a positive total variance and one number of "
                f"users, got cells of shape {self.values.shape}, the total variance "
                f"{self.total_variance!r:.80} and the noise {self.noise!r:.80}"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in dict(vars(self)).items() if name != "variance"}


def best_components(sizes: Sequence[int], views: Sequence[TableView]) -> Components:
    """Return the least-squares estimates of all components of tables, from all views.

    `_components.py` defines components. A view is the raw estimate of a table or parity from the
    users who were asked about it. sizes: number of categories of each column.
    """
    columns = [view.columns for view in views]
    values = [view.values for view in views]
    if not views[0].is_parity:
        return Components.of_tables(sizes, columns, values, [view.variance for view in views])
    cells = [parity_signs(len(v.columns)) * (v.values[0] - v.values[1]) for v in views]
    # A component has 2^|S| cells of theta / 2^|S|, and theta is the difference of two cells.
    precisions = [len(own) / (2 * view.variance) for own, view in zip(cells, views, strict=True)]
    return Components.from_values(sizes, columns, cells, precisions)


def parity_signs(order: int) -> np.ndarray:
    """Return the contribution of a Fourier coefficient of 1 to each cell of a table.

    The table has `order` binary columns. The contribution is `2 ** -order` if an even number of
    columns has the second category in this cell, and minus this number otherwise.
    Shapes: -> (2 ** order,).
    """
    return reduce(np.kron, [[0.5, -0.5]] * order, np.ones(1))


def combined_tables(
    domain: RecordDomain,
    wanted: Mapping[Any, Subset],
    views: Sequence[TableView],
    components: Components,
    n_users: int,
    caveats: tuple[str, ...] = (),
) -> dict[Any, FrequencyEstimate]:
    """Return a dict from names to the requested tables.

    Each table is the best linear combination of all views. A view is the raw estimate of a table or
    parity from the users who were asked about it. A table has no rows if the views do not determine
    it.
    wanted: for each name, the positions of the table's columns.
    components: the components of the views, from `best_components`.
    """
    covered = [
        columns for columns in wanted.values() if components.squared_error(columns) < math.inf
    ]
    cells = dict(zip(covered, components.tables(covered), strict=True))
    tables = {}
    for name, columns in wanted.items():
        joint = domain.joint(columns)
        if columns in cells:
            law = TableLaw(components.sizes, columns, views, components, n_users)
            tables[name] = FrequencyEstimate(
                [cells[columns]], joint, Noise([Term(law)], n_users), caveats=caveats
            )
        else:
            tables[name] = FrequencyEstimate(np.empty((0, joint.size)), joint, caveats=caveats)
    return tables


@dataclass(eq=False)
class TableLaw(Uncached, tag="table-law"):
    """The noise of a table that is computed from several views.

    A view is the raw estimate of a table or parity from the users who were asked about it. The
    table is the best linear combination of the views, whose errors are independent.
    """

    # An answer is a sum over the views, and its variance is the sum of the variances of the views.
    # These depend on the frequencies of the views' own cells, which the best tables provide.
    # The users of each view are a random part of all users. As a sample of a population, their
    # frequencies have the variance of a multinomial distribution. The variance of the frequencies
    # among all users is subtracted, because these frequencies are the ones to be estimated. Both
    # variances are exact, up to a factor n / (n - 1).
    # For a set S of columns let C_S map a table to its component of S: the means over all other
    # columns, centered along each column of S. Let n_S be the number of cells over the columns of
    # S, and n_V the number of cells of a view V of variance v. An answer with weights a on the
    # table T has on V the weights `sum over S in both of n_S / (n_V v precision_S) C_S a`, which
    # are equal for all cells that differ in other columns only. Means and centering are symmetric,
    # so the transpose is the same map with T and V exchanged: see `_transferred`.

    _sizes: tuple[int, ...]  # number of categories of each column
    _table: Subset  # the columns of the table
    _all_views: Sequence[TableView]  # the views that the table combines
    _components: Components  # the best components, with their precisions
    _n_users: int  # number of all users

    slope = curvature = half_count = 0.0
    of_all_users = True  # its variances refer to all users, and not to a single user

    def __check_state__(self) -> None:
        if self._n_users < 1 or self._components.sizes != self._sizes:
            raise ValueError(
                "a table needs at least one user and components for its own columns, got "
                f"{self._n_users!r:.80} users and components for columns with "
                f"{self._components.sizes!r:.80} categories instead of {self._sizes!r:.80}"
            )
        for view in self._all_views:
            if len(view.values) != (2 if view.is_parity else self._n_cells(view.columns)):
                raise ValueError(
                    f"the view of the columns {view.columns!r:.80} has {len(view.values)} cells, "
                    "which is not the number of combinations of the columns' categories"
                )
        self._n_cells(self._table)

    @cached_property
    def null_variance(self) -> float:
        """The variance of a cell's estimate, as a mean over all cells of the table.

        The noise model uses this mean as the variance of a cell with frequency 0.
        """
        return self._components.squared_error(self._table) / self._n_cells(self._table)

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        """Return the variance of the estimate of each cell, as an array like `frequencies`.

        frequencies: true frequencies of the cells in the last axis.
        """
        every = every_category(frequencies.shape[-1])
        each = np.reshape(frequencies, (-1, frequencies.shape[-1]))
        return np.reshape([self.covariance(f).variances(every) for f in each], frequencies.shape)

    def covariance(self, frequencies: np.ndarray) -> Covariances:
        """Return an object that computes covariances of linear queries on the table.

        frequencies: the true frequencies of the cells.
        """
        drawing = MULTINOMIAL.covariance(frequencies)
        summands = [(1.0, self._view_covariances), (-1 / self._n_users, drawing)]
        return Covariances(summands, single=lambda: self.variances(frequencies))

    @cached_property
    def _view_covariances(self) -> Covariances:
        summands = []
        for view in self._views:
            table = view.values
            if not view.is_parity:
                (table,) = self._components.tables([view.columns])
            plausible = np.maximum(table, 0)
            summands.append((1.0, view.population_noise.at(plausible / plausible.sum())))
        return Covariances(summands, self)

    @cached_property
    def _views(self) -> list[TableView]:
        """The raw estimates (views) from which the table is computed.

        They are the views that share at least one component with the table.
        """
        within = set(self._table)
        return [
            view
            for view in self._all_views
            if (within.issuperset if view.is_parity else within.intersection)(view.columns)
        ]

    # -- the answers, view by view ------------------------------------------------------------
    def _n_cells(self, columns: Subset) -> int:
        return math.prod(self._sizes[j] for j in columns)

    def _shared_components(self, rows: np.ndarray, columns: Subset) -> dict[Subset, np.ndarray]:
        """Return those components of several tables over `columns` that this table also has.

        `_components.py` defines components. rows: the cells of the tables, of shape (n_rows,
        n_cells). Returns: a dict from the columns of each component to an array of the n_rows
        components.
        """
        cells = rows.reshape(-1, *(self._sizes[j] for j in columns))
        components = {}
        for subset in subsets(tuple(j for j in columns if j in self._table)):
            axes = tuple(i for i, j in enumerate(columns) if j in subset)
            n_others = self._n_cells(columns) // self._n_cells(subset)
            components[subset] = centered(cells, axes) / n_others
        return components

    def _transferred(
        self, components: dict[Subset, np.ndarray], columns: Subset, variance: float
    ) -> np.ndarray:
        """Return weights of the cells of a table over `columns`, from the components of queries.

        components: components of the queries' weights on another table, from `_shared_components`.
        variance: the variance per degree of freedom of the view between the two tables.
        Returns: an array of shape (n_queries, n_cells).
        """
        shape = tuple(self._sizes[j] for j in columns)
        total = np.zeros(())
        for subset in subsets(tuple(j for j in columns if j in self._table)):
            if subset not in components:
                continue
            kept = [size if j in subset else 1 for j, size in zip(columns, shape, strict=True)]
            spread = self._n_cells(subset) / self._n_cells(columns) / variance
            row = components[subset] * (spread / self._components.precision(subset))
            total = row.reshape(len(row), *kept) + total
        return np.broadcast_to(total, (len(total), *shape)).reshape(len(total), -1)

    def pull(self, rows: Any) -> list[np.ndarray]:
        """Convert the weights of queries on the table to weights on the cells of each view.

        The answer to a query is the weighted sum over the cells of all views. A view is the raw
        estimate of a table or parity from the users who were asked about it.
        Shapes: rows (n_queries, d) or (d,) -> for each view (n_queries, n_cells) or (n_cells,).
        """
        dense = rows.toarray() if sparse.issparse(rows) else rows
        components = self._shared_components(dense, self._table)
        answers = []
        for view in self._views:
            if view.is_parity:
                signs = parity_signs(len(view.columns))
                cells = components[view.columns].reshape(-1, len(signs))
                own = np.outer(cells @ signs, [1.0, -1.0])
            else:
                own = self._transferred(components, view.columns, view.variance)
            answers.append(own.reshape(*dense.shape[:-1], -1))
        return answers

    def push(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        """Multiply one vector for each view by the transpose of the map `pull`; return the sum.

        Shapes: vectors (n_cells,) for each view -> (d,).
        """
        total = np.zeros(self._n_cells(self._table))
        for view, vector in zip(self._views, vectors, strict=True):
            if view.is_parity:
                theta = parity_signs(len(view.columns)) * (vector[0] - vector[1])
                shape = [self._sizes[j] if j in view.columns else 1 for j in self._table]
                own = theta.reshape(shape) * (len(theta) / len(total))
                total += np.broadcast_to(own, [self._sizes[j] for j in self._table]).ravel()
            else:
                components = self._shared_components(vector, view.columns)
                total += self._transferred(components, self._table, view.variance)[0]
        return total
