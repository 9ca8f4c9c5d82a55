"""The public domain of an oracle: from users' values in any container to category codes.

Integers never pass through float64, so 2**53 and 2**53 + 1 stay apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array

from .._categories import as_vector, is_missing, is_uniform, sorted_values


class Domain:
    """A list of categories and the map from values to their codes ``0 .. d-1``.

    Parameters
    ----------
    categories : ndarray of shape (d,)
        Distinct categories; tuples when values have several columns.
    """

    def __init__(self, categories: np.ndarray):
        self.categories = categories
        d = len(categories)
        self.dtype = np.min_scalar_type(d - 1)
        self._first: int | None = None
        if categories.dtype.kind in "iu":
            first = int(categories[0])
            if int(categories[-1]) == first + d - 1 and np.all(np.diff(categories) == 1):
                self._first = first
        self._codes: dict[Any, int] | None = None

    @property
    def size(self) -> int:
        """Number d of categories."""
        return len(self.categories)

    def encode(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        """Return the code of each value as the smallest unsigned integers.

        Parameters
        ----------
        columns : list of ndarray of shape (n,)
            One array a column, as `as_columns` gives them.
        name : str
            The class to name in errors.

        Returns
        -------
        ndarray of shape (n,)
            Codes.

        Raises
        ------
        ValueError
            If a value is no category.
        """
        values = columns[0]
        if len(columns) == 1 and self._first is not None and values.dtype.kind in "iu":
            return self._encode_range(values, self._first, name)
        rows = values.tolist() if len(columns) == 1 else _tuples(columns)
        if self._codes is None:
            self._codes = {category: i for i, category in enumerate(self.categories.tolist())}
        code_of = self._codes.get
        codes = np.fromiter((code_of(row, -1) for row in rows), np.int64, len(rows))
        if codes.size and codes.min() < 0:
            self._refuse(rows[int(np.argmax(codes < 0))], name)
        return codes.astype(self.dtype)

    def _encode_range(self, values, first, name):
        """Codes over consecutive integers, by subtraction."""
        outside = (values < first) | (values > first + self.size - 1)
        if outside.any():
            self._refuse(values[int(np.argmax(outside))].item(), name)
        return (values.astype(np.int64, copy=False) - first).astype(self.dtype)

    def _refuse(self, value, name):
        if is_missing(value):
            raise ValueError(
                f"Input X contains NaN (or another missing value), and {name} has no category for "
                "it: drop those users, or give missing answers a category of their own."
            )
        shown = ", ".join(repr(c) for c in self.categories[:3].tolist())
        raise ValueError(
            f"{name} got the unknown category {value!r}; its {len(self.categories)} categories are "
            f"{shown}, ... The domain is public: list every category in categories=, one of them "
            "for all others."
        )


def _tuples(columns):
    return list(zip(*(column.tolist() for column in columns), strict=True))


def declared_domain(categories: Any, name: str) -> Domain:
    """The domain that a user declares.

    Parameters
    ----------
    categories : int or array-like of shape (d,)
        The categories; an int d stands for ``0 .. d-1``; tuples for values of several columns.
    name : str
        The class to name in errors.

    Returns
    -------
    Domain
        The domain.

    Raises
    ------
    ValueError
        If there are fewer than two categories, duplicates, or missing ones.
    """
    if isinstance(categories, str):  # "auto" and "open" stand for no list
        raise ValueError(
            f"{name} does not know its domain yet: declare it in categories=, since clients and "
            'servers must share it before any report is made (categories="auto" learns it from '
            "the raw values in fit, which is for simulations)."
        )
    if isinstance(categories, Integral) and not isinstance(categories, bool):
        array = np.arange(max(int(categories), 0))
    else:
        array = as_vector(categories)
    _check_size(array, name)
    items = array.tolist()
    unhashable = next((c for c in items if not isinstance(c, Hashable)), None)
    if unhashable is not None:
        raise ValueError(f"{name} needs hashable categories, got {unhashable!r}.")
    if any(is_missing(c) for c in items):
        raise ValueError(f"{name} got a missing value (None or NaN) among its categories.")
    if len(set(items)) < len(items):
        twice = Counter(items).most_common(1)[0][0]
        raise ValueError(f"{name} needs distinct categories, got {twice!r} more than once.")
    return Domain(array)


def learned_domain(columns: list[np.ndarray], name: str) -> Domain:
    """The domain of the values that occur: leaks which ones do, so for simulation only."""
    if len(columns) > 1:
        rows = _tuples(columns)
        array = as_vector(sorted_values(set(rows)))
    elif columns[0].dtype == object:
        array = as_vector(sorted_values(set(columns[0].tolist())))
    else:
        array = np.unique(columns[0])
    if any(is_missing(c) for c in array.tolist()):
        raise ValueError(
            f"Input X contains NaN (or another missing value), and {name} has no category for it: "
            "drop those users, or give missing answers a category of their own."
        )
    _check_size(array, name, f" in {len(columns[0])} sample(s)")
    return Domain(array)


def _check_size(array, name, where=""):
    if len(array) < 2:
        raise ValueError(
            f"{name} needs at least 2 categories, got {len(array)}{where}: with a single one there "
            "is nothing to protect and nothing to learn. Declare the whole domain in categories=."
        )


def as_columns(X: Any, name: str) -> list[np.ndarray]:
    """Split users' values into columns, each in a dtype of its own.

    Parameters
    ----------
    X : array-like of shape (n_samples,) or (n_samples, n_columns)
        A list, ndarray, or a Series / DataFrame / array / table of pandas, polars or Arrow.
    name : str
        The class to name in errors.

    Returns
    -------
    list of ndarray of shape (n_samples,)
        The columns.

    Raises
    ------
    ValueError
        If X is empty, has NaN or infinite numbers, or another number of dimensions.
    """
    columns = _table_columns(X)
    if columns is None:
        array = _as_array(X)
        if array.dtype.kind not in "OUS":
            array = check_array(
                array, dtype=None, ensure_2d=False, allow_nd=True, input_name="X", estimator=name
            )
        if array.ndim not in (1, 2):
            raise ValueError(
                f"{name} expects X of shape (n_samples,) or (n_samples, n_columns), found array "
                f"with dim {array.ndim} and shape {array.shape}."
            )
        columns = [array] if array.ndim == 1 else list(array.T)
    columns = [as_vector(column) for column in columns]
    n_samples = len(columns[0]) if columns else 0
    if n_samples == 0 or not columns:
        what = "sample(s)" if columns else "feature(s)"
        raise ValueError(
            f"Found array with 0 {what} (shape=({n_samples}, {len(columns)})) while a minimum of 1 "
            f"is required by {name}."
        )
    for column in columns:
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            raise ValueError(
                f"Input X contains NaN or infinity, and {name} has no category for it: drop those "
                "users, or give missing answers a category of their own."
            )
    return columns


def _table_columns(X):
    """Columns of a pandas or polars DataFrame or an Arrow table; None for anything else."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return [X.iloc[:, i] for i in range(X.shape[1])]
    if hasattr(X, "get_columns"):
        return list(X.get_columns())
    if hasattr(X, "column_names") and hasattr(X, "itercolumns"):
        return list(X.itercolumns())
    return None


def _as_array(X):
    """An array that keeps the types of a list's elements apart."""
    if not isinstance(X, (list, tuple)):
        return X if hasattr(X, "toarray") else np.asarray(X)
    array = np.asarray(X) if is_uniform(X) else np.asarray(X, dtype=object)
    return array


def check_counts(counts: Any, what: str) -> np.ndarray:
    """Return numbers of users as int64 of shape (n,).

    Parameters
    ----------
    counts : array-like of shape (n,)
        Non-negative integers (in any numeric dtype), not all zero.
    what : str
        How errors name them.

    Returns
    -------
    ndarray of shape (n,)
        The counts.

    Raises
    ------
    ValueError
        If they are anything else.
    """
    array = np.asarray(counts)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{what} must be a 1D array of numbers of users, got an array of dtype {array.dtype} "
            f"and shape {array.shape}."
        )
    if array.dtype.kind == "f":
        odd = ~np.isfinite(array) | (array != np.floor(array))
        if odd.any():
            raise ValueError(
                f"{what} must be whole numbers of users, got {array[np.argmax(odd)]}; a user "
                "cannot count in part."
            )
    if array.size and array.min() < 0:
        raise ValueError(f"{what} must not be negative, got {array.min()}.")
    array = array.astype(np.int64)
    if array.sum() == 0:
        raise ValueError(f"{what} are all zero: there is no user.")
    return array
