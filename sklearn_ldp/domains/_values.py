"""Lists of categories and of values: one array of whatever they are, nothing converted."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_vector(values: Any) -> np.ndarray:
    """Return a 1-D array of values, each as it came: tuples whole, 1 and "1" apart.

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
        If it is no list of values.
    """
    if isinstance(values, (list, tuple, range, dict)):
        values = list(values)
        if any(isinstance(v, (tuple, list)) for v in values) or not is_uniform(values):
            return _objects([tuple(v) if isinstance(v, list) else v for v in values])
    array = np.asarray(values)
    if array.ndim == 2:
        return _objects([tuple(row) for row in array.tolist()])
    if array.ndim != 1:
        raise ValueError(
            f"Expected a list of categories or values, got an array of shape {array.shape}."
        )
    return array


def is_uniform(values: Any) -> bool:
    """Whether NumPy finds one dtype without converting (not so: 1 and "1", 1 and True, 1 and 1.5).

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
        return len({type(u) for v in values for u in v}) <= 1
    return len(types) <= 1


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one: None, NaN, pandas' NA or NaT.

    Parameters
    ----------
    value : object
        Anything.

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


def sorted_values(values: Any) -> list:
    """Return values in order; types that do not compare, in the order of their types' names.

    Parameters
    ----------
    values : iterable
        Anything.

    Returns
    -------
    list
        Sorted.
    """
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda v: (type(v).__name__, repr(v)))


def group_codes(labels: Any, name: str, each: str) -> tuple[list, np.ndarray]:
    """Return the distinct labels in order, and which of them each is.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The group of each of something.
    name, each : str
        Who asks, and what has one label each: for errors.

    Returns
    -------
    names : list
        Sorted.
    codes : ndarray of shape (n,)
        Indices into `names`.

    Raises
    ------
    ValueError
        If there are none, or one is missing.
    """
    shape = np.shape(labels)
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"{name} needs one label {each}, got an array of shape {shape}.")
    items = as_vector(labels).tolist()
    if any(is_missing(label) for label in items):
        raise ValueError(
            f"{name} got a missing label (None or NaN); give what has none a group of its own."
        )
    names = sorted_values(set(items))
    place = {label: i for i, label in enumerate(names)}
    return names, np.array([place[label] for label in items])


def _objects(items: list) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array
