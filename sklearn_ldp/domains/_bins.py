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

    def places(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind in "OUS":
            try:
                values = values.astype(float)
            except (TypeError, ValueError):  # names of bins, or no numbers
                return super().places(values)
        places = np.searchsorted(self.edges, values, side="right")
        return np.where(np.isnan(values), -1, places) if values.dtype.kind == "f" else places

    places.__doc__ = CategoryList.places.__doc__


def bins_or_list(categories: np.ndarray) -> CategoryList:
    """Return the bins that the categories are the names of, or else their list.

    So estimates, encoders and files, which know the names alone, take numbers as well.

    Parameters
    ----------
    categories : ndarray of shape (d,)
        Distinct categories.

    Returns
    -------
    CategoryList
        Bins if the names are exactly those that `BinList` gives.
    """
    names = categories.tolist()
    if not all(isinstance(name, str) for name in (names[0], names[-1])):
        return CategoryList(categories)
    if not (names[0].startswith("< ") and names[-1].startswith(">= ")):
        return CategoryList(categories)
    lower = [names[0][2:], *(str(name)[1:].partition(",")[0] for name in names[2:-1])]
    try:
        bins = BinList(np.unique([float(edge) for edge in [*lower, names[-1][3:]]]))
    except ValueError:
        return CategoryList(categories)
    return bins if bins.categories.tolist() == names else CategoryList(categories)


def _shortest(number: float) -> str:
    """The shortest text that stands for the number: 40 and not 40.0."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)
