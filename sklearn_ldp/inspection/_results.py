"""Tables of errors, as displays read them: studies, data frames or dicts of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._typing import Table

# The columns of a study that say what a row is about; the others are numbers.
_VARIED = ("population", "n_samples", "oracle", "epsilon", "postprocessor", "queries", "metric")


def column(results: Table, name: str, display: str) -> np.ndarray:
    """Return a column of a table of errors, or raise an error that says what a table is."""
    try:
        return np.asarray(results[name])
    except (KeyError, TypeError, IndexError) as error:
        raise KeyError(
            f"{display}.from_results needs a table with a column {name!r}, such as "
            "simulate_errors returns."
        ) from error


def numbers(values: ArrayLike, name: str, remedy: str) -> np.ndarray:
    """Return positions on the x axis, or raise an error that says what to do."""
    try:
        return np.asarray(values).astype(float)
    except (TypeError, ValueError):
        raise ValueError(
            f"ErrorCurveDisplay needs numbers on the x axis, and {name!r} holds "
            f"{np.asarray(values).tolist()[0]!r}; {remedy}"
        ) from None


def ambiguous(
    results: Any, rows: np.ndarray, used: list[str], display: str, where: str
) -> ValueError:
    """Return the error for rows that would be drawn at the same place.

    Parameters
    ----------
    results : ErrorStudy, DataFrame or dict of arrays
        The table.
    rows : ndarray of int
        Rows of which some would be drawn at the same place.
    used : list of str
        The columns that decide on the place.
    display : str
        The class that draws.
    where : str
        The place, as the error says it.

    Returns
    -------
    ValueError
        It names the columns that tell the rows apart, which the picture does not show.
    """
    columns = results.columns if isinstance(getattr(results, "columns", None), Mapping) else results
    varied = [
        name
        for name in _VARIED
        if name in columns and name not in used and len(set(np.asarray(results[name])[rows])) > 1
    ]
    return ValueError(
        f"{display} found several errors {where}; {' and '.join(varied) or 'nothing'} tells them "
        f"apart. Name it in by=, or select one: study.select({varied[0] if varied else 'column'}"
        "=..)."
    )


def error_name(results: Table, error: str) -> str:
    """Return what an axis calls the errors: the metric, if the table has a single one."""
    try:
        metrics = set(np.asarray(results["metric"]).tolist())
    except (KeyError, TypeError, IndexError):
        return error
    return metrics.pop().upper() if error == "error" and len(metrics) == 1 else error
