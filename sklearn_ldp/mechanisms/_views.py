"""What the parts of a split collection look at: one column, several columns at once, a parity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class View:
    """What a part of a split collection looks at: a code that is made of a record's codes.

    It is the sum of the codes of some columns, each times a stride, modulo the number of values.

    Parameters
    ----------
    columns : tuple of int
        Positions of the columns.
    strides : tuple of int
        The factor of each of them.
    n_values : int
        Number of values of the code.
    """

    columns: tuple[int, ...]
    strides: tuple[int, ...]
    n_values: int

    @property
    def is_parity(self) -> bool:
        """Whether it is the parity of several columns."""
        return self.n_values == 2 and len(self.columns) > 1

    @classmethod
    def joint(cls, columns: Sequence[int], sizes: Sequence[int]) -> View:
        """Return the view of the joint category of several columns, in C order.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns.
        sizes : sequence of int
            Number of categories of each of them.

        Returns
        -------
        View
            The view.
        """
        strides = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
        return cls(tuple(columns), strides, math.prod(sizes))

    @classmethod
    def parity(cls, columns: Sequence[int]) -> View:
        """Return the view of the parity of the codes of several binary columns.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns.

        Returns
        -------
        View
            The view.
        """
        return cls(tuple(columns), (1,) * len(columns), 2)


class Views:
    """Several views, which are looked at together.

    Parameters
    ----------
    views : sequence of View
        The views.
    """

    def __init__(self, views: Sequence[View]) -> None:
        self.views = tuple(views)
        width = max(len(view.columns) for view in views)
        # Shorter ones are filled up with a column that does not count.
        self._columns = np.zeros((len(views), width), dtype=np.intp)
        self._strides = np.zeros((len(views), width), dtype=np.int64)
        for i, view in enumerate(views):
            self._columns[i, : len(view.columns)] = view.columns
            self._strides[i, : len(view.columns)] = view.strides
        self._n_values = np.array([view.n_values for view in views], dtype=np.int64)

    def codes(self, records: np.ndarray, views: np.ndarray) -> np.ndarray:
        """Return the code of each record in a view of its own.

        Parameters
        ----------
        records : ndarray of shape (n, n_columns)
            One code for each column.
        views : ndarray of shape (n,)
            The number of the view of each record.

        Returns
        -------
        ndarray of shape (n,)
            int64.
        """
        codes = np.zeros(len(records), dtype=np.int64)
        rows = np.arange(len(records))
        for columns, strides in zip(self._columns.T, self._strides.T, strict=True):
            codes += records[rows, columns[views]] * strides[views]
        return codes % self._n_values[views]
