"""The survey of RangeOracle over a grid: cells, blocks of cells and margins, each asked of some."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from .._core.mechanisms.several import shares_over_2_64
from .._core.numerics.nested_waves import nested_waves
from .._core.support.locks import cached_property
from ._range_oracle import TreeChannel, short_channel

# Shares of users for the candidates, chosen by hand; the margins together have 1.
_SHARES = list(product((0.5, 1.0, 2.0), repeat=2))


class GridChannel(TreeChannel, tag="grid-channel"):
    """A survey whose questions are coarser and coarser grids over the cells of two numbers."""

    # A level's cell is a block of cells, `widths[0]` by `widths[1]` of them; a margin has the
    # width of the whole grid. All widths of an axis are the whole or powers of two that divide it.
    # The levels' normal equations then are diagonal in the product of two bases.

    _is_of, _fewer = "the grid", "larger cells"

    def __init__(
        self,
        mechanisms: Sequence[Any],
        shares: Sequence[int],
        shape: tuple[int, ...],
        widths: Sequence[Sequence[int]],
    ) -> None:
        super().__init__(mechanisms, shares, shape[0] * shape[1], np.array(widths).tolist())
        self._shape = tuple(shape)

    def __check_state__(self) -> None:
        widths = np.asarray(self._widths)
        are_sizes = len(self._shape) == 2 and all(isinstance(n, int) for n in self._shape)
        if not are_sizes or self._shape[0] * self._shape[1] != self.n_categories:
            raise ValueError(f"a grid of {self._shape!r:.80} with {self.n_categories!r:.80} cells")
        is_fine = widths.shape == (len(self.mechanisms), 2) and widths.min() >= 1
        if not is_fine or np.any(np.array(self._shape) % widths):
            raise ValueError("the levels of a grid do not divide it")

    @property
    def configuration(self) -> dict[str, Any]:
        widths = ",".join(f"{x}x{y}" for x, y in self._widths.tolist())
        shape = "x".join(map(str, self._shape))
        return {**super().configuration, "widths": widths, "shape": shape}

    def for_enumeration(self) -> GridChannel:
        small = [one.for_enumeration() for one in self.mechanisms]
        return GridChannel(small, self.shares, self._shape, self._widths.tolist())

    def looked_at(self, codes: np.ndarray, questions: np.ndarray) -> np.ndarray:
        x_widths, y_widths = self._widths[questions].T
        x, y = np.divmod(codes, self._shape[1])
        return x // x_widths * (self._shape[1] // y_widths) + y // y_widths

    def _on_level(self, values: np.ndarray, j: int) -> np.ndarray:
        x_width, y_width = self._widths[j].tolist()
        n_x, n_y = self._shape
        blocks = (n_x // x_width, x_width, n_y // y_width, y_width)
        sums = values.reshape(*values.shape[:-1], *blocks).sum(axis=(-3, -1))
        return sums.reshape(*values.shape[:-1], -1)

    def _from_level(self, values: np.ndarray, j: int) -> np.ndarray:
        x_width, y_width = self._widths[j].tolist()
        cells = values.reshape(*values.shape[:-1], self._shape[0] // x_width, -1)
        spread = np.repeat(np.repeat(cells, x_width, axis=-2), y_width, axis=-1)
        return spread.reshape(*values.shape[:-1], -1)

    @cached_property
    def _waves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Two bases, and the precision of each product of their waves under uniform frequencies."""
        (left, x_constant), (right, y_constant) = map(nested_waves, self._shape)
        total = np.zeros(self._shape)
        for (x_width, y_width), precision in zip(self._widths, self._precisions, strict=True):
            seen = np.outer(x_constant >= x_width, y_constant >= y_width)
            total += precision * x_width * y_width * seen
        return left, right, total

    def _fitted(self, levels: Sequence[Any], total: float) -> np.ndarray:
        together = zip(self._precisions, levels, strict=True)
        right = sum(self._from_level(p * level, j) for j, (p, level) in enumerate(together))
        return self._solved(right) + total / self.n_categories

    def _solved(self, rows: np.ndarray) -> np.ndarray:
        left, right, precision = self._waves
        rows = np.asarray(rows, dtype=float)
        waves = left @ rows.reshape(*rows.shape[:-1], *self._shape) @ right.T / precision
        waves[..., 0, 0] = 0.0
        return (left.T @ waves @ right).reshape(rows.shape)

    @property
    def rectangle_variance(self) -> float:
        """The mean variance of random rectangles, per user and under uniform frequencies."""
        left, right, precision = self._waves
        variances = 1 / precision
        variances[0, 0] = 0.0  # of the whole, which is known
        return float(_squares_of_ranges(left) @ variances @ _squares_of_ranges(right))


def _squares_of_ranges(basis: np.ndarray) -> np.ndarray:
    """The mean square of each wave's coefficient over all ranges of an axis."""
    n = basis.shape[1]
    starts, stops = np.triu_indices(n + 1, 1)
    sums = np.pad(np.cumsum(basis, axis=1), ((0, 0), (1, 0)))
    return np.mean((sums[:, stops] - sums[:, starts]) ** 2, axis=1)


@lru_cache(maxsize=64)
def best_grid(epsilon: float, shape: tuple[int, ...]) -> GridChannel:
    """Return the split over resolutions with the least expected error of random rectangles."""
    n_x, n_y = shape
    margins = [(1, n_y), (n_x, 1)]
    splits = [([(1, 1)], [1.0])]
    splits += [([*margins, (1, 1)], [0.5, 0.5, fine]) for fine in (0.5, 1.0, 2.0)]
    width = 2
    while n_x % width == n_y % width == 0 and min(shape) > width:
        blocks = [*margins, (width, width), (1, 1)]
        strips = [*margins, (width, 1), (1, width), (width, width), (1, 1)]
        for block, fine in _SHARES:
            splits.append((blocks, [0.5, 0.5, block, fine]))
            splits.append((strips, [0.5, 0.5, block / 2, block / 2, block, fine]))
        width *= 2
    candidates = [grid_channel(epsilon, shape, *split) for split in splits]
    return min(candidates, key=lambda channel: channel.rectangle_variance)


def grid_channel(
    epsilon: float, shape: tuple[int, ...], widths: Sequence[tuple[int, int]], shares: Any
) -> GridChannel:
    """Return the survey of some resolutions, each with its most accurate short reports."""
    levels = [short_channel(epsilon, shape[0] // x * (shape[1] // y)) for x, y in widths]
    return GridChannel(levels, shares_over_2_64(shares), shape, widths)
