"""Tables of several columns as sums of components, and the least-squares fit to noisy tables.

A table contains the frequency of each combination of some columns' categories. A table over a set M
of columns is the sum of one *component* for each subset S of M. The component of S is the table
over S, from which the mean along each of its columns is subtracted, and which is then distributed
evenly over the categories of the other columns of M. The component of S is the same in every table
that contains the columns S. The best linear estimate of a component is therefore an average over
all noisy tables that contain it, weighted by their precisions (inverse variances). No system of
equations needs to be solved.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

import numpy as np

from .._core.common.tags import Tagged

Subset = tuple[int, ...]
Subsets = Sequence[Subset]
Arrays = Sequence[np.ndarray]

#: A component of all tables of a block: its axes in the tables, its shape, and its positions among
#: the components of this shape, one for each table.
BlockComponent = tuple[Subset, tuple[int, ...], np.ndarray]


def subsets(columns: Subset) -> Iterator[Subset]:
    """Yield all nonempty subsets of the columns as tuples, in the order of their sizes."""
    return chain.from_iterable(combinations(columns, order) for order in range(1, len(columns) + 1))


@dataclass(frozen=True, eq=False)
class Block(Tagged, tag="block"):
    """A group of tables whose columns have the same numbers of categories.

    The arrays of such tables can be stacked.
    """

    shape: tuple[int, ...]  # number of categories of each column
    columns: np.ndarray  # (n_tables, len(shape)): positions of the columns of each table
    places: np.ndarray  # (n_tables,): position of each table among the arguments


@dataclass(eq=False)
class Components(Tagged, tag="components"):
    """The estimated components of tables, with their precisions (inverse variances).

    Components are additive parts of tables, one for each set of columns. The top of this file
    defines them.
    """

    sizes: tuple[int, ...]  # number of categories of each column
    _index: dict[Subset, int] = field(default_factory=dict)
    _sums: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)
    _precisions: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)
    _tables: list[tuple[Block, list[BlockComponent]]] = field(default_factory=list)
    _variances: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __check_state__(self) -> None:
        for shape, precisions in self._precisions.items():
            sums = self._sums[shape]
            shapes_match = precisions.ndim == 1 and sums.shape == (len(precisions), *shape)
            are_finite = np.isfinite(sums).all() and np.isfinite(precisions).all()
            if not shapes_match or not are_finite or precisions.min(initial=1) <= 0:
                raise ValueError(
                    f"the components of columns with {shape} categories need finite values and "
                    f"positive finite precisions, got an array of shape {sums.shape}"
                )
        for subset, place in self._index.items():
            if not 0 <= place < len(self._precisions[self._shape(subset)]):
                raise ValueError(f"the component of the columns {subset!r:.80} is missing")
        # Only `fitted` and `own_tables` use these, and no code calls them on loaded components.
        self._tables = []
        self._variances = np.empty(0)

    # -- construction -------------------------------------------------------------------------
    @classmethod
    def of_tables(
        cls, sizes: Sequence[int], tables: Subsets, values: Arrays | None, variances: Any
    ) -> Components:
        """Estimate the components (additive parts) of noisy tables by least squares.

        sizes: number of categories of each column.
        tables: the positions of the columns of each table.
        values: the cells of each table in C order, of shape (n_cells,). If None, only the
        precisions of the components are computed.
        variances: variance of a cell of each table.
        """
        # This is generalized least squares if the errors are independent and have the same
        # variance in all cells of a table. The sum of each table is known to be 1.
        components = cls(tuple(map(int, sizes)))
        components._allocate(chain.from_iterable(map(subsets, tables)))
        components._tables = components._prepared(tables)
        components._variances = np.asarray(variances, dtype=float)
        for block, block_components in components._tables:
            for _, shape, where in block_components:
                weights = components._weights(block, shape)
                np.add.at(components._precisions[shape], where, weights)
        return components if values is None else components.fitted(values)

    def fitted(self, values: Sequence[np.ndarray]) -> Components:
        """Estimate the components (additive parts) from new values of the same tables.

        Return a new Components object.
        values: the cells of each table in C order, of shape (n_cells,).
        """
        other = copy.copy(self)
        other._sums = {shape: np.zeros((len(p), *shape)) for shape, p in self._precisions.items()}
        for block, block_components in self._tables:
            stacked = np.stack([np.reshape(values[i], block.shape) for i in block.places])
            for axes, shape, where in block_components:
                weights = self._weights(block, shape) / self._precisions[shape][where]
                component = weights.reshape(-1, *[1] * len(shape)) * centered(stacked, axes)
                np.add.at(other._sums[shape], where, component)
        return other

    def _weights(self, block: Block, shape: tuple[int, ...]) -> np.ndarray:
        """Return the precisions with which the tables of a block estimate one component.

        A component is an additive part of tables, see the top of this file.
        shape: number of categories of each column of the component. Returns: one precision for each
        table of the block.
        """
        return math.prod(shape) / math.prod(block.shape) / self._variances[block.places]

    def _shape(self, columns: Subset) -> tuple[int, ...]:
        return tuple(self.sizes[j] for j in columns)

    def _allocate(self, wanted: Iterable[Subset]) -> None:
        numbers: dict[tuple[int, ...], int] = {}
        for subset in wanted:
            if subset not in self._index:
                shape = self._shape(subset)
                self._index[subset] = numbers.get(shape, 0)
                numbers[shape] = self._index[subset] + 1
        self._precisions = {shape: np.zeros(number) for shape, number in numbers.items()}

    def _prepared(self, tables: Sequence[Subset]) -> list[tuple[Block, list[BlockComponent]]]:
        """Group the tables by shape.

        Return a list with one pair for each shape. The pair contains the block of the tables with
        this shape, and the list of their components from `_block_components`.
        """
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for i, columns in enumerate(tables):
            by_shape.setdefault(self._shape(columns), []).append(i)
        prepared = []
        for shape, places in by_shape.items():
            positions = np.array([tables[i] for i in places], dtype=np.intp)
            block = Block(shape, positions, np.array(places))
            prepared.append((block, list(self._block_components(block))))
        return prepared

    def _block_components(self, block: Block) -> Iterator[BlockComponent]:
        """Yield the components that the tables of a block contain.

        For each subset of the tables' axes, yield the axes, the number of categories along them,
        and for each table the position of its component among all components of this shape.
        """
        for axes in subsets(tuple(range(len(block.shape)))):
            shape = tuple(block.shape[a] for a in axes)
            chosen = map(tuple, block.columns[:, axes].tolist())
            yield axes, shape, np.array([self._index[subset] for subset in chosen], dtype=np.intp)

    @classmethod
    def from_values(
        cls, sizes: Sequence[int], subsets: Subsets, values: Arrays, precisions: Sequence[float]
    ) -> Components:
        """Return a Components object with the given values and precisions.

        subsets: the columns of each component. values: each component in C order, of shape
        (n_cells,). precisions: the precision of each component.
        """
        components = cls(tuple(map(int, sizes)))
        components._allocate(subsets)
        components._sums = {
            shape: np.zeros((len(zeros), *shape)) for shape, zeros in components._precisions.items()
        }
        for subset, value, precision in zip(subsets, values, precisions, strict=True):
            shape = components._shape(subset)
            where = components._index[subset]
            components._sums[shape][where] = np.reshape(value, shape)
            components._precisions[shape][where] = precision
        return components

    # -- results ------------------------------------------------------------------------------
    def __contains__(self, columns: object) -> bool:
        return columns in self._index

    def precision(self, columns: Subset) -> float:
        """Return the precision of the estimated component that belongs to a set of columns.

        A component is an additive part of tables, see the top of this file. The precision is the
        inverse of its variance per degree of freedom, or 0 if there is no such component.
        """
        if columns not in self._index:
            return 0.0
        return float(self._precisions[self._shape(columns)][self._index[columns]])

    def squared_error(self, table: Subset) -> float:
        """Return the expected sum of squared errors of a table that is computed from components.

        table: positions of the table's columns. The result is inf if a component of the table is
        missing. It has the same unit as the variances from which the precisions were computed.
        """
        total = 0.0
        for subset in subsets(table):
            precision = self.precision(subset)
            if precision == 0:
                return math.inf
            free = math.prod(self.sizes[j] - 1 for j in subset)
            total += free / precision / math.prod(self.sizes[j] for j in set(table) - set(subset))
        return total

    def tables(self, tables: Sequence[Subset]) -> list[np.ndarray]:
        """Return the requested tables, each as the sum of its components, of shape (n_cells,).

        tables: the positions of the columns of each table.
        """
        return self._made(self._prepared(tables), len(tables))

    def own_tables(self) -> list[np.ndarray]:
        """Return the tables over the same columns as the noisy tables that were passed.

        Each table is the sum of its estimated components. The result is a list of arrays of shape
        (n_cells,).
        """
        return self._made(self._tables, len(self._variances))

    def _made(
        self, prepared: list[tuple[Block, list[BlockComponent]]], n_tables: int
    ) -> list[np.ndarray]:
        made: list[np.ndarray] = [np.empty(0)] * n_tables
        for block, block_components in prepared:
            n_cells = math.prod(block.shape)
            values = np.full((len(block.places), *block.shape), 1 / n_cells)
            for axes, shape, where in block_components:
                full = [block.shape[a] if a in axes else 1 for a in range(len(block.shape))]
                component = self._sums[shape][where].reshape(-1, *full)
                values += component * (math.prod(shape) / n_cells)
            for i, table in zip(block.places.tolist(), values, strict=True):
                made[i] = table.ravel()
        return made


def centered(values: np.ndarray, axes: Subset) -> np.ndarray:
    """Sum tables over some axes, and center the result along each of the other axes.

    axes: the axes that remain, as positions of the columns within a table. For each table, the
    result is the component of these columns (see the top of this file).
    Shapes: values (n_tables, ..) -> (n_tables, ..), where only the axes in `axes` remain.
    """
    others = tuple(1 + a for a in range(values.ndim - 1) if a not in axes)
    component = values.sum(axis=others)
    for axis in range(1, component.ndim):
        component = component - component.mean(axis=axis, keepdims=True)
    return component
