"""Views: independent estimates of tables, or of parities, and the noise of combining them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..domains import RecordDomain
from ..estimates import FrequencyEstimate
from ..noise import Noise, SampledNoise, as_rows
from ._components import Components, Subset, subsets
from ._plan import noise_per_dimension


@dataclass(frozen=True, eq=False)
class TableView:
    """What the users who were asked about one table, or one parity, have said.

    Parameters
    ----------
    columns : tuple of int
        Positions of the columns, rising.
    values : ndarray of shape (n_cells,)
        Raw estimates of the cells in C order; of the two values of the parity.
    noise : Noise
        The noise of this estimate.
    total_variance : float
        Sum of the variances of all cells under uniform frequencies, times those who were asked.
    is_parity : bool, default=False
        Whether users were asked for the parity of the columns.
    """

    columns: Subset
    values: np.ndarray
    noise: Noise
    total_variance: float
    is_parity: bool = False

    @property
    def of_reports(self) -> Noise:
        """The noise of the reports alone, without the drawing of the users."""
        return self.noise.noise if isinstance(self.noise, SampledNoise) else self.noise

    @cached_property
    def variance(self) -> float:
        """Variance of the estimate in each direction, under uniform frequencies."""
        size = len(self.values)
        return noise_per_dimension(self.total_variance, size) / float(self.noise.n_samples)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "variance"}


def best_components(sizes: Sequence[int], views: Sequence[TableView]) -> Components:
    """Return the components that fit all views best.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    views : sequence of TableView
        Independent estimates: all of tables, or all of parities.

    Returns
    -------
    Components
        The components of all tables that they tell about.
    """
    if not views[0].is_parity:
        columns, values = [v.columns for v in views], [v.values for v in views]
        return Components.of_tables(sizes, columns, values, [v.variance for v in views])
    signs = [parity_signs(len(view.columns)) for view in views]
    both = list(zip(signs, views, strict=True))
    return Components.given(
        sizes,
        [view.columns for view in views],
        [sign * (view.values[0] - view.values[1]) for sign, view in both],
        # A component has 2^|S| cells of theta / 2^|S|, and theta is the difference of two cells.
        [len(sign) / (2 * view.variance) for sign, view in both],
    )


def parity_signs(order: int) -> np.ndarray:
    """Return what a coefficient adds to each cell of a table of binary columns.

    Parameters
    ----------
    order : int
        Number of columns.

    Returns
    -------
    ndarray of shape (2 ** order,)
        Plus or minus ``2 ** -order``, by the parity of the cell.
    """
    signs = np.ones(1)
    for _ in range(order):
        signs = np.outer(signs, [0.5, -0.5]).ravel()
    return signs


def combined_tables(
    domain: RecordDomain,
    wanted: Mapping[Any, Subset],
    views: Sequence[TableView],
    components: Components,
    n_users: int,
) -> dict[Any, FrequencyEstimate]:
    """Return the best linear combinations of all views.

    Parameters
    ----------
    domain : RecordDomain
        The domains of all columns.
    wanted : mapping of names to tuple of int
        The columns of each table.
    views : sequence of TableView
        Independent estimates.
    components : Components
        Their `best_components`.
    n_users : int
        Number of all users.

    Returns
    -------
    dict of FrequencyEstimate
        The tables by name; one that nobody has told about has no rows.
    """
    told = [own for own in wanted.values() if components.squared_error(own) < math.inf]
    made, parts = dict(zip(told, components.tables(told), strict=True)), {}
    for name, own in wanted.items():
        joint, noise = domain.joint(own), None
        if own in made:
            noise = CombinedNoise(components.sizes, own, views, components, n_users)
        values = [made[own]] if own in made else np.empty((0, joint.size))
        parts[name] = FrequencyEstimate(values, joint, noise)
    return parts


class CombinedNoise(Noise):
    """The noise of a table that is the best linear combination of independent views.

    An answer is a sum over the views, and so is its variance. The frequencies of the views' own
    cells, on which it depends, are taken from the best tables.

    The users of each view are a random part of all users. As a sample of a population, their
    frequencies have the variance of a multinomial law; of that, what all users have in common is no
    error. Both are exact, up to a factor n / (n - 1).

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    table : tuple of int
        The columns of the table.
    views : sequence of TableView
        What it is a combination of.
    components : Components
        The best components, with their precisions.
    n_users : int
        Number of all users.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        table: Subset,
        views: Sequence[TableView],
        components: Components,
        n_users: int,
    ) -> None:
        self._sizes, self._table = tuple(sizes), tuple(table)
        self._all_views = views
        self._components = components
        self._n_users = int(n_users)

    def __repr__(self) -> str:
        return f"CombinedNoise(of {len(self._all_views)} views, n_samples={self._n_users})"

    @cached_property
    def _views(self) -> list[TableView]:
        """The views that tell about the table."""
        within = set(self._table)
        return [view for view in self._all_views if within.intersection(view.columns)]

    # -- the answers, view by view ------------------------------------------------------------
    def _of_components(self, rows: np.ndarray) -> dict[Subset, np.ndarray]:
        """What the answers take of each component, spread over the cells of its own table."""
        shape = tuple(self._sizes[j] for j in self._table)
        cells = rows.reshape(len(rows), *shape)
        weights = {}
        for subset in subsets(self._table):
            others = tuple(1 + i for i, j in enumerate(self._table) if j not in subset)
            weight = cells.mean(axis=others)
            for axis in range(1, weight.ndim):
                weight = weight - weight.mean(axis=axis, keepdims=True)
            weights[subset] = weight / self._components.precision(subset)
        return weights

    def _on_view(self, view: TableView, weights: dict[Subset, np.ndarray]) -> np.ndarray | None:
        """The answers as rows over the cells of a view; None if it does not matter to them."""
        if view.is_parity:
            weight = weights.get(view.columns)
            if weight is None:
                return None
            signs = parity_signs(len(view.columns))
            precision = self._components.precision(view.columns)
            of_theta = weight.reshape(len(weight), -1) @ signs * precision
            return np.outer(of_theta, [1.0, -1.0])
        total: np.ndarray | None = None
        shape = tuple(self._sizes[j] for j in view.columns)
        for subset in subsets(tuple(j for j in view.columns if j in self._table)):
            weight = weights[subset]
            kept = [size if j in subset else 1 for j, size in zip(view.columns, shape, strict=True)]
            spread = math.prod(self._sizes[j] for j in subset) / math.prod(shape) / view.variance
            row = weight.reshape(len(weight), *kept) * spread
            total = row + (0 if total is None else total)
        if total is None:
            return None
        return np.broadcast_to(total, (len(total), *shape)).reshape(len(total), -1)

    @cached_property
    def _frequencies(self) -> list[np.ndarray]:
        """Plausible frequencies of the cells of each view."""
        best = []
        for view in self._views:
            table = view.values
            if not view.is_parity:
                (table,) = self._components.tables([view.columns])
            table = np.maximum(table, 0)
            best.append(table / table.sum())
        return best

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        def of_reports(noise: Noise, own: np.ndarray, f: np.ndarray) -> np.ndarray:
            return noise._covariance(as_rows(own), f)

        return self._sum_over_views(rows, frequencies, of_reports, _drawn)

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        def of_reports(noise: Noise, own: np.ndarray, f: np.ndarray) -> np.ndarray:
            return noise._answer_variance(as_rows(own), f)

        return self._sum_over_views(rows, frequencies, of_reports, _drawn_alone)

    def _sum_over_views(
        self, rows: sparse.csr_array, frequencies: np.ndarray, of_reports: Any, drawn: Any
    ) -> np.ndarray:
        """What the reports of each view add, and the drawing of its users."""
        dense = rows.toarray()
        weights = self._of_components(dense)
        total = -drawn(dense, frequencies) / self._n_users
        for view, f in zip(self._views, self._frequencies, strict=True):
            own = self._on_view(view, weights)
            if own is not None:
                total += of_reports(view.of_reports, own, f)
                total += drawn(own, f) / float(view.noise.n_samples)
        return total

    # -- its level ----------------------------------------------------------------------------
    @property
    def n_samples(self) -> int:
        """Number of users: all of them tell about the table, if only a little."""
        return self._n_users

    @cached_property
    def std(self) -> float:
        """Standard deviation of the estimate of a cell that nobody has, the mean over cells."""
        size = math.prod(self._sizes[j] for j in self._table)
        error = self._components.squared_error(self._table)
        return math.sqrt(error / size)

    growth = 0.0

    def __getstate__(self) -> dict[str, Any]:
        cached = ("std", "_frequencies", "_views")
        return {name: value for name, value in vars(self).items() if name not in cached}


def _drawn(rows: np.ndarray, f: np.ndarray) -> np.ndarray:
    """The covariance of answers to one draw from a distribution."""
    means = rows @ f
    return (rows * f) @ rows.T - np.outer(means, means)


def _drawn_alone(rows: np.ndarray, f: np.ndarray) -> np.ndarray:
    """The variances alone."""
    return (rows**2) @ f - (rows @ f) ** 2
