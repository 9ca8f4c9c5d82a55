"""Lists of categories and of values as one array, without conversion of any element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._typing import Column


def as_vector(values: Column | Mapping[Any, Any]) -> np.ndarray:
    """Return a 1-D array of unconverted values: tuples stay whole, 1 and "1" stay different.

    Parameters
    ----------
    values : array-like of shape (n,), or of shape (n, k) whose rows become tuples
        Categories, or one column of users' values.

    Returns
    -------
    ndarray of shape (n,)
        Of dtype object unless all values are of one type that NumPy knows.

    Raises
    ------
    ValueError
        If `values` is not a list of values.
    """
    if isinstance(values, (list, tuple, range, dict)):
        values = list(values)
        if any(isinstance(v, (tuple, list)) for v in values) or not is_uniform(values):
            return objects([tuple(v) if isinstance(v, list) else v for v in values])
    array = exact_array(values)
    if array.ndim == 2:
        return objects([tuple(row) for row in array.tolist()])
    if array.ndim != 1:
        raise ValueError(
            f"Expected a list of categories or values, got an array of shape {array.shape}."
        )
    return array


def is_uniform(values: Sequence[Any]) -> bool:
    """Return whether NumPy finds one dtype for all values without converting any.

    It does not for 1 and "1", for 1 and True, or for 1 and 1.5; nor for text or bytes that end
    with NUL, which NumPy would cut off.

    Parameters
    ----------
    values : list
        Values, or rows of values.

    Returns
    -------
    bool
        True if all are of one type.
    """
    types = {type(v) for v in values}
    if types and types <= {list, tuple, np.ndarray}:
        values = [u for v in values for u in v]
        types = {type(u) for u in values}
    return len(types) <= 1 and not _ends_with_nul(values, types)


def _ends_with_nul(values: Sequence[Any], types: set) -> bool:
    if not types <= {str, bytes} or not types:
        return False
    empty: Any = "" if types == {str} else b""
    nul: Any = "\0" if types == {str} else b"\0"
    # Joining them is ten times as quick as looking at each.
    return nul in empty.join(values) and any(value.endswith(nul) for value in values)


def exact_array(values: Any) -> np.ndarray:
    """Return any container as an array, of objects if NumPy's text would cut off a final NUL.

    Parameters
    ----------
    values : array-like
        A list, ndarray, or a Series of pandas, polars or Arrow.

    Returns
    -------
    ndarray
        The values.
    """
    array = np.asarray(values)
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
        listed = values.to_list() if hasattr(values, "to_list") else list(values)
        if not is_uniform(listed):
            return objects(listed)
    return array


def is_missing(value: object) -> bool:
    """Return whether a value is a missing one: None, NaN, pandas' NA or NaT.

    Parameters
    ----------
    value : object
        A value of any type.

    Returns
    -------
    bool
        True if it is missing, or a tuple with a missing part.
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, tuple):
        return any(is_missing(part) for part in value)
    return isinstance(value, (float, np.floating)) and value != value


def sorted_values(values: Iterable[Any]) -> list:
    """Return sorted values; if they cannot be compared, sort by type name and `repr`.

    Parameters
    ----------
    values : iterable
        Values of any types.

    Returns
    -------
    list
        The sorted values.
    """
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda v: (type(v).__name__, repr(v)))


def group_codes(labels: Column, name: str, each: str) -> tuple[list, np.ndarray]:
    """Return the distinct labels in order, and the index of each label among them.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The group of each item, such as a row.
    name, each : str
        For error messages: the name of the caller, and what has a label, as in "for each row".

    Returns
    -------
    names : list
        The sorted labels.
    codes : ndarray of shape (n,)
        Indices into `names`.

    Raises
    ------
    ValueError
        If there are no labels, or if one is missing.
    """
    shape = np.asarray(labels).shape
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"{name} needs one label {each}, got an array of shape {shape}.")
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biuU":  # none of them is missing
        distinct, codes = np.unique(labels, return_inverse=True)
        return distinct.tolist(), codes
    items = as_vector(labels).tolist()
    if any(is_missing(label) for label in items):
        raise ValueError(
            f"{name} got a missing label (None or NaN); give items without a label a group of "
            "their own."
        )
    names = sorted_values(set(items))
    place = {label: i for i, label in enumerate(names)}
    return names, np.array([place[label] for label in items])


def objects(items: list) -> np.ndarray:
    """Return a 1-D array of objects, in which tuples and lists stay whole.

    Parameters
    ----------
    items : list of length n
        Objects of any types.

    Returns
    -------
    ndarray of shape (n,)
        Of dtype object.
    """
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array
