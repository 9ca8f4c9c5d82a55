"""The categories of one column, listed or bins of a number, and the codes of values in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import InvalidParameterError

from .._utils.state import Uncached
from .values import as_vector, declared_levels, is_missing, sorted_values


class CategoryList(Uncached):
    """A read-only list of distinct categories, and the map from values to their positions."""

    def __init__(self, categories: np.ndarray):
        self.categories = categories.copy()
        self.categories.flags.writeable = False
        self.size = len(categories)
        self._first: int | None = None
        if self.size and categories.dtype.kind in "iu":
            first = int(categories[0])
            if int(categories[-1]) == first + self.size - 1 and np.all(np.diff(categories) == 1):
                self._first = first

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.categories.flags.writeable = False

    @cached_property
    def listed(self) -> list:
        """The categories as a list in which missing ones are None, and so equal."""
        return comparable(self.categories)

    @cached_property
    def _codes(self) -> dict[Any, int]:
        """The place of each category."""
        return {category: i for i, category in enumerate(self.listed)}

    @property
    def shown(self) -> str:
        """The first categories, for errors and representations."""
        first = ", ".join(repr(c) for c in self.categories[:3].tolist())
        return first if self.size <= 3 else f"{first}, ..."

    def encode(self, values: np.ndarray, name: str, where: str = "") -> np.ndarray:
        """Return the codes of values; raise ValueError if one is not a category."""
        is_range = self._first is not None and values.dtype.kind in "iu"
        if not is_range and None not in self._codes:
            refuse_infinite(values, name)
        codes = self.places(values)
        unknown = int(np.argmin(codes)) if len(codes) else 0
        if len(codes) and codes[unknown] < 0:
            self._refuse(values[unknown : unknown + 1].tolist()[0], name, where)
        return codes

    def places(self, values: np.ndarray) -> np.ndarray:
        """Return the codes of values, int64; -1 for a value that is no category."""
        if self._first is not None and values.dtype.kind in "iu":
            # Of consecutive integers, by subtraction.
            is_one = (values >= self._first) & (values <= self._first + self.size - 1)
            codes = values.astype(np.int64, copy=False) - self._first
            return codes if is_one.all() else np.where(is_one, codes, -1)
        rows, code_of = values.tolist(), self._codes.get
        codes = np.fromiter((code_of(row, -1) for row in rows), np.int64, len(rows))
        for i in np.flatnonzero(codes < 0):
            codes[i] = code_of(_without_nan(rows[i]), -1)
        return codes

    def _refuse(self, value, name, where):
        if is_missing(value):
            raise ValueError(
                f"Input X contains NaN (or another missing value){where}, and {name} has no "
                "category for it: drop those users, or give missing answers a category of their "
                "own."
            )
        raise ValueError(
            f"{name} got the unknown category {value!r}{where}; its {self.size} categories are "
            f"{self.shown}. The domain is public: list every category in categories=, one of them "
            "for all others."
        )


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


def _shortest(number: float) -> str:
    """The shortest text that stands for the number: 40 and not 40.0."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


# -- what a list of categories may be --------------------------------------------------------------
def lists_of(categories: Any, name: str) -> list[CategoryList]:
    """The list of categories of each column that a specification stands for."""
    is_list = isinstance(categories, (list, tuple))
    if is_list and categories and all(_is_column(column) for column in categories):
        return [one_list(column, name) for column in categories]
    return [one_list(categories, name)]


def _is_column(column: Any) -> bool:
    """Whether an element of a list holds a column's categories and is not itself a category."""
    return declared_levels(column) is not None or (hasattr(column, "shape") and np.ndim(column) > 0)


def one_list(categories: Any, name: str) -> CategoryList:
    """The list of categories of one column."""
    if hasattr(categories, "encode_columns"):  # a Domain
        parts: Any = getattr(categories, "_parts", ())
        return parts[0] if len(parts) == 1 else CategoryList(categories.categories)
    if isinstance(categories, AbstractSet):
        raise InvalidParameterError(
            f"{name} needs categories in an order that is the same in every process, but a "
            f"{type(categories).__name__} has no such order: a client and a server would number "
            "them differently. Give a list, such as sorted(categories)."
        )
    levels = declared_levels(categories)
    if levels is not None:
        array = as_vector(levels)
    elif getattr(categories, "name", None) == "category" and hasattr(categories, "ordered"):
        raise ValueError(
            f"{name} got a CategoricalDtype without categories: declare them, as in "
            "CategoricalDtype(['red', 'green'])."
        )
    elif isinstance(categories, Integral) and not isinstance(categories, bool):
        array = np.arange(max(int(categories), 0))
    else:
        array = as_vector(categories)
    return CategoryList(distinct(array, name))


def distinct(array: np.ndarray, name: str) -> np.ndarray:
    """Return the categories; raise ValueError if they are not distinct, or fewer than two."""
    if len(array) >= 2 and array.dtype.kind in "iu":  # quicker, and most large domains are numbers
        in_order = array if _is_rising(array) else np.sort(array)
        if _is_rising(in_order):
            return array
    items = comparable(array)
    try:
        counted = Counter(items)
    except TypeError as error:
        raise ValueError(f"{name} needs hashable categories, got an element of {error}.") from None
    if len(counted) < len(items):
        twice = counted.most_common(1)[0][0]
        raise ValueError(f"{name} needs distinct categories, got {twice!r} more than once.")
    if len(items) < 2:
        refuse_size(len(items), name)
    return array


def _is_rising(array: np.ndarray) -> bool:
    return bool(np.all(array[1:] > array[:-1]))


def _without_nan(value: Any) -> Any:
    """Return the value with None for what is missing in it, as NaN does not equal itself."""
    if isinstance(value, tuple):
        return tuple(_without_nan(part) for part in value)
    return None if is_missing(value) else value


def comparable(categories: np.ndarray) -> list:
    """Return the categories as a list in which missing ones are equal."""
    items = categories.tolist()
    return items if categories.dtype.kind in "iuUSb" else [_without_nan(item) for item in items]


def refuse_size(size: int, name: str, where: str = "") -> None:
    raise ValueError(
        f"{name} needs at least 2 categories, got {size}{where}: with a single one there "
        "is nothing to protect and nothing to learn. Declare the whole domain in categories=."
    )


def occurring(values: np.ndarray, name: str) -> np.ndarray:
    """The distinct values in order; a missing one is refused."""
    is_object = values.dtype == object
    array = as_vector(sorted_values(set(values.tolist()))) if is_object else np.unique(values)
    if any(is_missing(c) for c in array.tolist()):
        raise ValueError(
            f"Input X contains NaN (or another missing value), and {name} has no category for it: "
            "drop those users, or give missing answers a category of their own."
        )
    return array


def refuse_infinite(values: np.ndarray, name: str) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(
            f"Input X contains NaN or infinity, and {name} has no category for it: drop those "
            "users, or give missing answers a category of their own."
        )
