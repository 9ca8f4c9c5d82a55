"""A picture of errors: one curve a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._style import legend_outside, new_axes, styles

# What a study may vary; the rest of its columns are numbers.
_VARIED = ("population", "n_samples", "oracle", "epsilon", "postprocessor", "queries", "metric")


class ErrorCurve(NamedTuple):
    """A curve of an `ErrorCurveDisplay`, its points in rising order of x.

    Attributes
    ----------
    x : ndarray of shape (n_points,)
        Where.
    error : ndarray of shape (n_points,)
        Mean errors.
    spread : ndarray of shape (n_points,) or None
        Half lengths of the error bars.
    """

    x: np.ndarray
    error: np.ndarray
    spread: np.ndarray | None = None


class ErrorCurveDisplay:
    """Errors of many methods against epsilon, the size of sets, k or the number of users.

    Each method has a colour, a line style and a marker of its own, the same in every picture, and
    the legend stands outside. Use :meth:`from_results` to make one.

    Parameters
    ----------
    curves : dict of str to ErrorCurve
        By the name in the legend, in its order.
    x_name : str, default="epsilon"
        What the x axis says.
    error_name : str, default="error"
        What the y axis says.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure around it.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.datasets import make_zipf
    >>> from sklearn_ldp.inspection import ErrorCurveDisplay
    >>> from sklearn_ldp.model_selection import simulate_errors
    >>> counts = make_zipf(10_000, 64, return_counts=True, random_state=0)
    >>> study = simulate_errors(OLH(), "all", counts, epsilons=[0.5, 1, 2], n_repeats=5)
    >>> display = ErrorCurveDisplay.from_results(study, x="epsilon")
    >>> display.curves["NormSub"].x
    array([0.5, 1. , 2. ])
    """

    def __init__(self, curves: Any, *, x_name: str = "epsilon", error_name: str = "error") -> None:
        self.curves = curves
        self.x_name = x_name
        self.error_name = error_name

    @classmethod
    def from_results(
        cls,
        results: Any,
        *,
        x: str = "epsilon",
        by: str | Sequence[str] = "postprocessor",
        error: str = "error",
        spread: str | None = "standard_error",
        ax: Any = None,
        **kwargs: Any,
    ) -> ErrorCurveDisplay:
        """Draw the errors of a study.

        Parameters
        ----------
        results : ErrorStudy, DataFrame or dict of arrays
            A tidy table, such as :func:`~sklearn_ldp.model_selection.simulate_errors` gives it.
        x : str, default="epsilon"
            Column of the x axis: "epsilon", "n_samples", or "queries" whose names are numbers
            (``queries={10: random_sets(0.1), ..}``).
        by : str or list of str, default="postprocessor"
            Column whose values are the curves; several make one curve a combination.
        error : str, default="error"
            Column of the y axis.
        spread : str or None, default="standard_error"
            Column of the error bars; None draws none.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs : dict
            As for :meth:`plot`.

        Returns
        -------
        ErrorCurveDisplay
            Drawn.

        Raises
        ------
        KeyError
            If a column is missing.
        ValueError
            If the x values are no numbers, or a curve has several errors at the same x.
        """
        by = [by] if isinstance(by, str) else list(by)
        table = {name: _column(results, name) for name in [x, *by, error]}
        bars = None if spread is None else np.asarray(_column(results, spread), dtype=float)
        place = _numbers(table[x], x)
        values = np.asarray(table[error], dtype=float)
        rows = list(zip(*(table[name].tolist() for name in by), strict=True))
        curves = {}
        for key in dict.fromkeys(rows):
            mine = np.array([i for i, row in enumerate(rows) if row == key])
            mine = mine[np.argsort(place[mine], kind="stable")]
            name = ", ".join(map(str, key))
            _refuse_twins(results, place[mine], mine, name, [x, *by])
            bar = None if bars is None else bars[mine]
            curves[name] = ErrorCurve(place[mine], values[mine], bar)
        return cls(curves, x_name=x, error_name=_error_name(results, error)).plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        x_scale: str = "linear",
        y_scale: str = "log",
        legend: bool = True,
    ) -> ErrorCurveDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        x_scale : {"linear", "log"}, default="linear"
            Scale of the x axis.
        y_scale : {"linear", "log"}, default="log"
            Scale of the y axis.
        legend : bool, default=True
            Whether to put a legend beside the axes.

        Returns
        -------
        ErrorCurveDisplay
            Itself, with `ax_` and `figure_`.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        if ax is None:
            ax = new_axes("ErrorCurveDisplay", (8.0, 4.5))
        looks = styles(self.curves)
        for name, curve in self.curves.items():
            ax.errorbar(
                curve.x,
                curve.error,
                None if curve.spread is None else np.nan_to_num(curve.spread),
                label=name,
                markersize=5,
                markerfacecolor="none",
                linewidth=1.2,
                elinewidth=0.8,
                capsize=2,
                **looks[name],
            )
        ax.set_xscale(x_scale)
        # Bars that reach below 0 are clipped, not left out with their point.
        ax.set_yscale(y_scale, **({"nonpositive": "clip"} if y_scale == "log" else {}))
        ax.set_xlabel(self.x_name)
        ax.set_ylabel(self.error_name)
        ax.grid(True, which="major", color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        if legend:
            legend_outside(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _column(results: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(results[name])
    except (KeyError, TypeError, IndexError) as error:
        raise KeyError(
            f"ErrorCurveDisplay.from_results needs a table with a column {name!r}, such as "
            "simulate_errors returns."
        ) from error


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    try:
        return values.astype(float)
    except (TypeError, ValueError):
        raise ValueError(
            f"ErrorCurveDisplay needs numbers on the x axis, and column {name!r} holds "
            f"{values.tolist()[0]!r}; queries get numbers for names by a dict: "
            "queries={10: random_sets(0.1)}."
        ) from None


def _refuse_twins(
    results: Any, place: np.ndarray, rows: np.ndarray, curve: str, used: list[str]
) -> None:
    """Several errors at one place of a curve: something varies that the picture does not show."""
    if len(np.unique(place)) == len(place):
        return
    columns = results.columns if isinstance(getattr(results, "columns", None), Mapping) else results
    varied = [
        name
        for name in _VARIED
        if name in columns and name not in used and len(set(_column(results, name)[rows])) > 1
    ]
    raise ValueError(
        f"ErrorCurveDisplay found several errors at the same x on the curve {curve!r}; "
        f"{' and '.join(varied) or 'nothing'} tells them apart. Name it in by=, or select one: "
        f"study.select({varied[0] if varied else 'column'}=..)."
    )


def _error_name(results: Any, error: str) -> str:
    """The metric for the y axis, where there is one."""
    try:
        metrics = set(np.asarray(results["metric"]).tolist())
    except (KeyError, TypeError, IndexError):
        return error
    return metrics.pop().upper() if error == "error" and len(metrics) == 1 else error
