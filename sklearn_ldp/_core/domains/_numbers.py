"""The public domain of numbers between two bounds, which are rounded to a fine grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.text import number_texts
from ._domain import UnlistedDomain
from ._lists import checked_bounds, refuse_missing, refuse_outside, warn_of_clipped
from .canonical import list_digest
from .values import is_missing

_BINS = (
    "Use RangeOracle(categories=Domain.bins(.., missing=True)) and the mean of its "
    'estimate.answered(), or set missing="report", so that clients send the middle of the bounds'
)


class NumberDomain(UnlistedDomain, tag="number-domain"):
    """The domain of numbers between two bounds.

    The code of a number is the index of the nearest point of a grid between the bounds.
    """

    # bounds: the smallest and the largest number.
    # n_levels: number of points of the grid; the first and the last point are the bounds.
    # name: the class to name in errors.
    # is_stood_in: whether `stand_in` replaces missing values, values that are no numbers, and
    # numbers outside of the bounds.
    # clip: whether a number outside of the bounds becomes the nearest bound.

    clip = False  # files from before the option do not contain it
    _why = "A domain of numbers between bounds has no list of categories. Use Domain.bins."

    def __init__(
        self,
        bounds: Any,
        n_levels: int,
        name: str = "NumberDomain",
        is_stood_in: bool = False,
        clip: bool = False,
    ) -> None:
        self.bounds: tuple[float, float] = checked_bounds(bounds, name)
        self.size: int = n_levels
        self.is_stood_in = is_stood_in
        self.clip = clip

    @property
    def stand_in(self) -> float:
        """Return the middle of the bounds, which replaces an invalid or missing number."""
        return self.bounds[0] / 2 + self.bounds[1] / 2

    @property
    def digest(self) -> str:
        """Return the SHA-256 hash of the bounds and the number of grid points.

        It is the same on every machine.
        """
        return list_digest([("numbers", *self._key)])

    @property
    def _key(self) -> tuple[float, float, int]:
        return *self.bounds, self.size

    def __repr__(self) -> str:
        return f"NumberDomain({self.bounds!r}, {self.size})"

    def _n_clipped(self, columns: list[np.ndarray]) -> int | None:
        if not self.clip:
            return None
        numbers = _as_floats(columns[0], type(self).__name__, True)
        return int(np.count_nonzero((numbers < self.bounds[0]) | (numbers > self.bounds[1])))

    def _check_raw_values(self, columns: list[np.ndarray], name: str) -> None:
        bounds = " to ".join(number_texts(self.bounds))
        warn_of_clipped(self._n_clipped(columns) or 0, len(columns[0]), bounds, name)

    def _encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        if len(columns) != 1:
            raise ValueError(
                f"{name} expects one number per user, got {len(columns)} columns. Pass a single "
                f"column, and use one {name} for each column."
            )
        low, high = self.bounds
        numbers = _as_floats(columns[0], name, self.is_stood_in)
        numbers = np.clip(numbers, low, high) if self.clip else numbers
        if self.is_stood_in:
            numbers = np.where((low <= numbers) & (numbers <= high), numbers, self.stand_in)
        if np.isnan(numbers).any():
            refuse_missing(name, remedy=_BINS)
        outside = np.flatnonzero((numbers < low) | (numbers > high))
        if outside.size:
            row = int(outside[0])
            refuse_outside(columns[0][row : row + 1].tolist()[0], row, name, low, high)
        return np.rint((numbers - low) / (high - low) * (self.size - 1)).astype(np.int64)


def _as_floats(column: np.ndarray, name: str, is_any: bool) -> np.ndarray:
    """Return a column of numbers as floats.

    Missing values become NaN. If `is_any` is true, other values that are not numbers also become
    NaN; otherwise they raise ValueError.
    """
    if column.dtype.kind in "iuf":
        return column.astype(float)
    numbers = [_as_float(value) for value in column.tolist()]
    if None in numbers and not is_any:
        raise ValueError(
            f"{name} expects one number per user, got a value that is not a number (not shown, "
            "because errors of clients are logged). Convert the values to numbers first."
        )
    return np.array(numbers, dtype=float)


def _as_float(value: Any) -> float | None:
    try:
        return float("nan" if is_missing(value) else value)
    except (TypeError, ValueError, OverflowError):  # its text shows a value; clients are logged
        return None
