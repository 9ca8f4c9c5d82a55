"""Values that say which category each of them is of: a pandas Series by its index, a dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def own_categories(values: Any) -> list | None:
    """Return the categories that values are labelled with.

    Parameters
    ----------
    values : object
        A pandas Series, a DataFrame with one column per category, or a mapping by category.

    Returns
    -------
    list or None
        None if the values have no labels; the default index 0, 1, 2, .. of pandas counts as none.
    """
    if isinstance(values, Mapping):
        return list(values)
    if not hasattr(values, "iloc"):
        return None
    index = values.columns if hasattr(values, "columns") else values.index
    is_default = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    return None if is_default else index.tolist()


def places_among(wanted: list, labels: list) -> tuple[np.ndarray, list]:
    """Return where values are in a list of labels.

    Parameters
    ----------
    wanted : list
        The values to look for.
    labels : list
        Where to look; of equal ones the last counts.

    Returns
    -------
    (ndarray of shape (n_found,), list)
        Indices into `labels` of the values that are there, and those that are missing.
    """
    place = {label: i for i, label in enumerate(labels)}
    missing = [value for value in wanted if value not in place]
    places = [place[value] for value in wanted if value in place]
    return np.array(places, dtype=np.int64), missing


def order_of(labels: list, categories: np.ndarray, what: str) -> np.ndarray:
    """Return where each category is among labels.

    Parameters
    ----------
    labels : list
        The categories that values are labelled with, each once.
    categories : ndarray of shape (d,)
        The order to bring the values into.
    what : str
        How errors name the values.

    Returns
    -------
    ndarray of shape (d,)
        Indices into `labels`.

    Raises
    ------
    ValueError
        If a category is missing among the labels, is there twice, or one too many is there.
    """
    wanted = categories.tolist()
    known = set(wanted)
    order, missing = places_among(wanted, labels)
    extra = [label for label in labels if label not in known]
    if missing or extra or len(order) < len(labels):
        if missing:
            problem = f"has no label for the category {missing[0]!r}"
        elif extra:
            problem = f"has the label {extra[0]!r}, which is not a category"
        else:
            problem = "has a label more than once"
        raise ValueError(
            f"{what} is labelled by category (by its index or its keys), but {problem}. Label each "
            "of the categories once, or drop the labels and keep the order of the categories: "
            "labels.reindex(categories).to_numpy()."
        )
    return order


def in_order(values: Any, categories: np.ndarray, what: str) -> Any:
    """Return values in the order of the categories, or as they are if they have no labels.

    Parameters
    ----------
    values : array-like of shape (d,), or mapping by category
        One value per category.
    categories : ndarray of shape (d,)
        The order to bring the values into.
    what : str
        How errors name the values.

    Returns
    -------
    array-like of shape (d,)
        The values.
    """
    labels = own_categories(values)
    if labels is None:
        return values
    plain = list(values.values()) if isinstance(values, Mapping) else values.to_numpy()
    return np.asarray(plain)[order_of(labels, categories, what)]
