"""Levels (categories) that a container or a dtype of pandas, polars or Arrow declares."""

from __future__ import annotations

import numpy as np

from ._values import objects


def declared_levels(column: object) -> np.ndarray | None:
    """Return the levels that a column or a dtype declares, in their order.

    Parameters
    ----------
    column : object
        A pandas Categorical, a Series or Index of categorical dtype, or `CategoricalDtype`; a
        polars Series of dtype `Enum`, or that dtype; an Arrow dictionary array.

    Returns
    -------
    ndarray of shape (n_levels,) or None
        The levels; None if the object declares none.
    """
    dtype = getattr(column, "dtype", column)
    if hasattr(dtype, "categories") and hasattr(dtype, "ordered"):  # pandas' CategoricalDtype
        return None if dtype.categories is None else np.asarray(dtype.categories)
    if type(dtype).__name__ == "Enum" and hasattr(dtype, "categories"):  # polars' Enum
        return np.array(list(dtype.categories), dtype=object)
    if hasattr(column, "dictionary") and hasattr(column, "indices"):  # Arrow's DictionaryArray
        return objects(column.dictionary.to_pylist())
    if hasattr(column, "chunks") and hasattr(column, "unify_dictionaries"):  # Arrow's ChunkedArray
        chunks = column.unify_dictionaries().chunks
        return declared_levels(chunks[0]) if chunks and hasattr(chunks[0], "dictionary") else None
    return None
