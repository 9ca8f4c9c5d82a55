"""A display of errors by two names: one row per post-processor, one kind of dot per oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._typing import Axes, Column, Table
from ._results import ambiguous, column, error_name
from ._style import RING, legend_outside, merged, name_ticks, new_axes, styles


class ErrorDotDisplay:
    """Errors of several methods in several settings: one row per method, one dot per setting.

    The dots of a setting, such as an oracle, have the same colour and marker in all rows, and a
    ring can mark one dot of each setting, such as the one that a search has picked. Use
    :meth:`from_results` to create a display.

    Parameters
    ----------
    rows : list of str
        Names of the rows, from top to bottom.
    errors : dict of str to array-like of shape (n_rows,)
        The errors of each setting, keyed by its name in the legend; NaN leaves a dot out.
    picks : dict of str to str or None, default=None
        The row to mark for some or all of the settings.
    pick_name : str, default="picked"
        What the legend calls the marks.
    error_name : str, default="error"
        Label of the x axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the dots.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    lines_ : dict of str to matplotlib Line2D
        The dots of each setting, keyed as `errors`.
    picks_ : matplotlib Line2D or None
        The rings around the picks; None without picks.

    See Also
    --------
    ErrorCurveDisplay : Errors against a number, such as epsilon.

    Examples
    --------
    >>> from sklearn_ldp import GRR, OLH, OUE
    >>> from sklearn_ldp.datasets import make_zipf
    >>> from sklearn_ldp.inspection import ErrorDotDisplay
    >>> from sklearn_ldp.model_selection import simulate_errors
    >>> counts = make_zipf(10_000, 64, return_counts=True, random_state=0)
    >>> study = simulate_errors([GRR(), OLH(), OUE()], "all", counts, n_repeats=5)
    >>> display = ErrorDotDisplay.from_results(study, picks={"OLH": "NormSub"})
    >>> list(display.errors), display.rows[:2]
    (['GRR', 'OLH', 'OUE'], ['Base', 'Norm'])
    """

    rows: Any
    errors: Any
    ax_: Any
    figure_: Any
    lines_: dict[str, Any]
    picks_: Any

    def __init__(
        self,
        rows: Sequence[str],
        errors: Mapping[str, Column],
        *,
        picks: Mapping[str, str] | None = None,
        pick_name: str = "picked",
        error_name: str = "error",
    ) -> None:
        self.rows = rows
        self.errors = errors
        self.picks = picks
        self.pick_name = pick_name
        self.error_name = error_name

    @classmethod
    def from_results(
        cls,
        results: Table,
        *,
        rows: str = "postprocessor",
        by: str = "oracle",
        error: str = "error",
        picks: Mapping[str, str] | None = None,
        pick_name: str = "picked",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ErrorDotDisplay:
        """Draw the errors of a study.

        Parameters
        ----------
        results : ErrorStudy, DataFrame or dict of arrays
            A tidy table such as :func:`~sklearn_ldp.model_selection.simulate_errors` returns.
        rows : str, default="postprocessor"
            Column with one row of the picture for each of its values.
        by : str, default="oracle"
            Column with one colour and marker for each of its values.
        error : str, default="error"
            Column of the x axis.
        picks : dict of str to str or None, default=None
            The values of `rows` to mark, keyed by values of `by`.
        pick_name : str, default="picked"
            What the legend calls the marks.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        ErrorDotDisplay
            The display, already drawn.

        Raises
        ------
        KeyError
            If a column is missing.
        ValueError
            If several errors belong to the same dot.
        """
        table = {name: column(results, name, cls.__name__) for name in (rows, by, error)}
        keys = [[str(value) for value in table[name].tolist()] for name in (rows, by)]
        places = {name: i for i, name in enumerate(dict.fromkeys(keys[0]))}
        errors = {name: np.full(len(places), np.nan) for name in dict.fromkeys(keys[1])}
        for row, name, value in zip(*keys, table[error].tolist(), strict=True):
            if not np.isnan(errors[name][places[row]]):
                same = (table[rows].astype(str) == row) & (table[by].astype(str) == name)
                where = f"for {row} with {name}"
                raise ambiguous(results, np.flatnonzero(same), [rows, by], cls.__name__, where)
            errors[name][places[row]] = value
        display = cls(
            list(places),
            errors,
            picks=picks,
            pick_name=pick_name,
            error_name=error_name(results, error),
        )
        return display.plot(ax, **kwargs)

    def plot(
        self, ax: Axes | None = None, *, x_scale: str = "log", legend: bool = True, **kwargs: Any
    ) -> ErrorDotDisplay:
        """Draw the dots.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        x_scale : {"linear", "log"}, default="log"
            Scale of the errors.
        legend : bool, default=True
            Whether to put a legend beside the axes.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.plot` for the dots of every setting.

        Returns
        -------
        ErrorDotDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If a pick is not among the rows, or belongs to none of the settings.
        """
        place = np.arange(len(self.rows), dtype=float)
        # The dots of a row stand one below the other, in the order of the legend.
        shifts = (np.arange(len(self.errors)) - (len(self.errors) - 1) / 2) * 0.8 / len(self.errors)
        places = {name: place + s for name, s in zip(self.errors, shifts, strict=True)}
        picked = self._picked(places)
        if ax is None:
            ax = new_axes("ErrorDotDisplay", (8.0, 1.2 + 0.45 * len(place)))
        self.lines_ = {}
        colors = set()
        for name, look in styles(self.errors).items():
            fill = "none" if look["color"] in colors else "full"  # hollow if the colour comes again
            colors.add(look["color"])
            look = {"markersize": 7, "fillstyle": fill, **look, "linestyle": "none"}
            (self.lines_[name],) = ax.plot(
                self.errors[name], places[name], label=name, **merged(look, kwargs)
            )
        self.picks_ = None
        if picked:
            (self.picks_,) = ax.plot(*zip(*picked, strict=True), label=self.pick_name, **RING)
        for edge in place[1:] - 0.5:
            ax.axhline(edge, color="0.9", linewidth=0.8, zorder=0)
        name_ticks(ax.yaxis, place, self.rows)
        ax.set_ylim(len(place) - 0.5, -0.5)
        ax.set_xscale(x_scale)
        if x_scale == "log":
            _label_within_decades(ax.xaxis)
        ax.set_xlabel(self.error_name)
        ax.grid(True, axis="x", color="0.93", linewidth=0.6)
        ax.set_axisbelow(True)
        if legend:
            legend_outside(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _picked(self, places: dict[str, np.ndarray]) -> list[tuple[float, float]]:
        """Where the picks are."""
        rows, picked = list(self.rows), []
        for name, row in (self.picks or {}).items():
            if name not in places or row not in rows:
                raise ValueError(
                    f"ErrorDotDisplay has no dot of {row!r} with {name!r} to mark as picked; its "
                    f"rows are {rows}, its settings {list(places)}."
                )
            i = rows.index(row)
            picked.append((self.errors[name][i], places[name][i]))
        return picked


def _label_within_decades(axis: Any) -> None:
    """Errors that differ by less than a factor of 10 would get no labels otherwise."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 8)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
