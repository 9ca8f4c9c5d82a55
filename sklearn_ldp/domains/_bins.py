"""Bins of a number, by public edges."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._category_list import CategoryList


class BinList(CategoryList):
    """The bins between edges; a number's code is that of the bin it is in.

    Parameters
    ----------
    edges : array-like of shape (n_bins - 1,)
        Inner edges, rising; each belongs to the bin above it.

    Raises
    ------
    ValueError
        If they are not finite numbers that rise.
    """

    def __init__(self, edges: ArrayLike) -> None:
        try:
            array = np.asarray(edges, dtype=float)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.ndim != 1 or not array.size or not np.isfinite(array).all():
            raise ValueError(f"Domain.bins needs a list of finite edges, got {edges!r}.")
        if np.any(np.diff(array) <= 0):
            raise ValueError(f"Domain.bins needs edges that rise, got {edges!r}.")
        shown = [_shortest(float(edge)) for edge in array]
        between = [f"[{low}, {high})" for low, high in pairwise(shown)]
        super().__init__(np.array([f"< {shown[0]}", *between, f">= {shown[-1]}"], dtype=object))
        self.edges = array
        self.edges.flags.writeable = False

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "edges": self.edges}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.edges.flags.writeable = False

    def encode(self, values: np.ndarray, name: str, where: str = "") -> np.ndarray:
        if values.dtype.kind in "OUS":
            try:
                values = values.astype(float)
            except (TypeError, ValueError):  # names of bins, or no numbers
                return super().encode(values, name, where)
        if values.dtype.kind == "f" and np.isnan(values).any():
            self._refuse(None, name, where)
        return np.searchsorted(self.edges, values, side="right")

    encode.__doc__ = CategoryList.encode.__doc__


def _shortest(number: float) -> str:
    """The shortest text that stands for the number: 40 and not 40.0."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)
