"""The papers' layout: two panels a row, a row a data set."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from sklearn_ldp.inspection import ErrorCurveDisplay

from ._methods import LEFT

mpl.use("Agg")


def rows_of_panels(n_rows: int, n_columns: int = 2) -> tuple[Figure, np.ndarray]:
    """A figure with this many panels."""
    figure = Figure(figsize=(6.0 * n_columns, 3.4 * n_rows), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False)


def error_panels(
    study: Any,
    right: list[str],
    *,
    x: str,
    x_label: str,
    y_label: str = "MSE",
    row: str = "population",
    left: list[str] = LEFT,
    **kwargs: Any,
) -> Figure:
    """Curves of errors: a row a population (or value of another column)."""
    values = list(dict.fromkeys(np.asarray(study[row]).tolist()))
    figure, axes = rows_of_panels(len(values))
    for value, pair in zip(values, axes, strict=True):
        for ax, methods in zip(pair, (left, right), strict=True):
            part = study.select(**{row: value, "postprocessor": methods})
            display = ErrorCurveDisplay.from_results(part, x=x, ax=ax, **kwargs)
            display.ax_.set(title=value, xlabel=x_label, ylabel=y_label)
    return figure
