"""Users' values from any container, one array per column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_array

from .._typing import Values
from ._values import as_vector, exact_array, is_uniform


def as_columns(X: Values, name: str) -> list[np.ndarray]:
    """Split users' values into columns, each with a dtype of its own.

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
        If X is empty, or has another number of dimensions.
    """
    columns = table_columns(X)
    if columns is None:
        _refuse_unread(X, name)
        array = _as_array(X)
        if array.dtype.kind not in "OUS":
            array = check_array(
                array,
                dtype=None,
                ensure_2d=False,
                ensure_all_finite=False,  # a domain may list a missing answer
                allow_nd=True,
                input_name="X",
                estimator=name,
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
    return columns


def read_once(X: Values) -> Values:
    """Return X, or a table of what it streams, which may be streamed only once.

    Parameters
    ----------
    X : object
        A container of users' values.

    Returns
    -------
    object
        An Arrow table if X only streams Arrow columns, as a DuckDB relation or a reader of record
        batches does; otherwise X itself.
    """
    is_held = any(hasattr(X, name) for name in ("iloc", "get_columns", "itercolumns", "__array__"))
    if is_held or not hasattr(X, "__arrow_c_stream__"):
        return X
    import pyarrow as pa

    return pa.table(X)


def table_columns(X: Any) -> list | None:
    """Return the columns of a data frame or table unchanged; None for anything else.

    Parameters
    ----------
    X : object
        A pandas or polars DataFrame, an Arrow table, anything that streams Arrow columns (such as
        a DuckDB relation), or something else.

    Returns
    -------
    list or None
        One series or array per column.
    """
    X = read_once(X)
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return [X.iloc[:, i] for i in range(X.shape[1])]
    if hasattr(X, "get_columns"):
        return list(X.get_columns())
    if hasattr(X, "column_names") and hasattr(X, "itercolumns"):
        return list(X.itercolumns())
    return None


def column_names(X: Any) -> list | None:
    """Return the names of the columns of a data frame or table; None for anything else.

    Parameters
    ----------
    X : object
        As for `table_columns`.

    Returns
    -------
    list or None
        The names in their order.
    """
    X = read_once(X)
    if table_columns(X) is None:
        return None
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _refuse_unread(X: Any, name: str) -> None:
    """Raise ValueError for what has still to be read before there are values."""
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise ValueError(
            f"{name} got a lazy data frame ({type(X).__name__}), which holds no values yet: pass "
            "X.collect(), of the columns that are asked for."
        )
    if isinstance(X, Iterator):
        raise ValueError(
            f"{name} got a {type(X).__name__}, which can be read only once: pass list(X), or add "
            "users piece by piece with partial_fit."
        )


def _as_array(X):
    """An array in which elements of a list that differ in type stay different."""
    if not isinstance(X, (list, tuple)):
        return X if hasattr(X, "toarray") else exact_array(X)
    return np.asarray(X) if is_uniform(X) else np.asarray(X, dtype=object)
