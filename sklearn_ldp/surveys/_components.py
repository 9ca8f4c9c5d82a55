"""Tables of several columns as sums of components, and the least-squares fit to noisy tables.

A table over the columns M is the sum of one *component* for each subset S of M: the table of S,
centered along each of its columns and spread evenly over the cells of the other columns. Every
table that contains S has the same component of S. Tables that share columns therefore share
components, and the best linear estimate of a component is the mean over all tables that contain
it, weighted by precision. No system of equations needs to be solved.
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
    """Yield all nonempty subsets of columns, small subsets first."""
    return chain.from_iterable(combinations(columns, order) for order in range(1, len(columns) + 1))


@dataclass(frozen=True, eq=False)
class Block(Tagged, tag="block"):
    """Tables of the same shape, which are processed together."""

    shape: tuple[int, ...]  # number of categories of each column
    columns: np.ndarray  # (n_tables, len(shape)): positions of the columns of each table
    places: np.ndarray  # (n_tables,): position of each table among the arguments


@dataclass(eq=False)
class Components(Tagged, tag="components"):
    """The components of tables, with their precisions."""

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
                raise ValueError(f"components of shape {sums.shape}, or without a precision")
        for subset, place in self._index.items():
            if not 0 <= place < len(self._precisions[self._shape(subset)]):
                raise ValueError(f"no component of {subset!r:.80}")
        # Only `fitted` and `own_tables` use these, and no code calls them on loaded components.
        self._tables = []
        self._variances = np.empty(0)

    # -- construction -------------------------------------------------------------------------
    @classmethod
    def of_tables(
        cls, sizes: Sequence[int], tables: Subsets, values: Arrays | None, variances: Any
    ) -> Components:
        """Return the least-squares components of noisy tables.

        Shapes: values (n_cells,).
        values: the cells of each table in C order. If None, only the precisions are computed.
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
        """Return the least-squares components of new cell values for the same tables.

        Shapes: values (n_cells,).
        values: the cells of each table in C order.
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
        """Return the precision of a component in each table of a block."""
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
        """Group the tables by shape; return a block for each shape, and the block's components."""
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
        """Yield the axes, the shape, and the positions of each component of a block's tables."""
        for axes in subsets(tuple(range(len(block.shape)))):
            shape = tuple(block.shape[a] for a in axes)
            chosen = map(tuple, block.columns[:, axes].tolist())
            yield axes, shape, np.array([self._index[subset] for subset in chosen], dtype=np.intp)

    @classmethod
    def from_values(
        cls, sizes: Sequence[int], subsets: Subsets, values: Arrays, precisions: Sequence[float]
    ) -> Components:
        """Make components from their values and precisions.

        Shapes: values (n_cells,).
        values: the components, in C order.
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
        """Return 1 / (variance of a component per degree of freedom)."""
        if columns not in self._index:
            return 0.0
        return float(self._precisions[self._shape(columns)][self._index[columns]])

    def squared_error(self, table: Subset) -> float:
        """Return the expected sum of squared errors of a table that is made of the components.

        Returns: in units of the variances; infinite if one of the components is missing.
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
        """Return tables that are made of the components.

        Shapes: -> (n_cells,).
        """
        return self._made(self._prepared(tables), len(tables))

    def own_tables(self) -> list[np.ndarray]:
        """Return the tables that the components were fitted to, computed from the components.

        Shapes: -> (n_cells,).
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
    """For each of several tables of the same shape, return the component of these axes."""
    others = tuple(1 + a for a in range(values.ndim - 1) if a not in axes)
    component = values.sum(axis=others)
    for axis in range(1, component.ndim):
        component = component - component.mean(axis=axis, keepdims=True)
    return component
