"""A display of errors against a number, such as epsilon: one curve per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._typing import Axes, Table
from ._grid_search import curves_of
from ._results import ambiguous, column, error_name, numbers
from ._style import RING, legend_outside, merged, new_axes, styles


class ErrorCurve(NamedTuple):
    """A curve of an `ErrorCurveDisplay`, its points in rising order of x.

    Attributes
    ----------
    x : ndarray of shape (n_points,)
        Positions on the x axis.
    error : ndarray of shape (n_points,)
        Mean errors.
    spread : ndarray of shape (n_points,) or None
        Half lengths of the error bars; None draws none.
    """

    x: np.ndarray
    error: np.ndarray
    spread: np.ndarray | None = None


class ErrorCurveDisplay:
    """Errors of several methods against epsilon, the size of sets, k or the number of users.

    Each method has its own colour, line style and marker, the same in every picture, and the
    legend stands outside of the axes. Use :meth:`from_results` to draw a study, and
    :meth:`from_grid_search` to draw a search of scikit-learn with its choice.

    Parameters
    ----------
    curves : dict of str to ErrorCurve
        The curves, keyed by their names in the legend.
    x_name : str, default="epsilon"
        Label of the x axis.
    error_name : str, default="error"
        Label of the y axis.
    chosen : tuple of (str, float) or None, default=None
        The point to mark as chosen: the name of its curve and its x; None marks none.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the curves.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    errorbars_ : dict of str to matplotlib ErrorbarContainer
        The line, markers and error bars of each curve, keyed as `curves`.
    chosen_ : matplotlib Line2D or None
        The ring around the chosen point; None if there is none.

    See Also
    --------
    ErrorDotDisplay : Errors of methods that no number puts in an order.

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

    ax_: Any
    figure_: Any
    errorbars_: dict[str, Any]
    chosen_: Any

    def __init__(
        self,
        curves: Mapping[str, ErrorCurve],
        *,
        x_name: str = "epsilon",
        error_name: str = "error",
        chosen: tuple[str, float] | None = None,
    ) -> None:
        self.curves = curves
        self.x_name = x_name
        self.error_name = error_name
        self.chosen = chosen

    @classmethod
    def from_results(
        cls,
        results: Table,
        *,
        x: str = "epsilon",
        by: str | Sequence[str] = "postprocessor",
        error: str = "error",
        spread: str | None = "standard_error",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ErrorCurveDisplay:
        """Draw the errors of a study.

        Parameters
        ----------
        results : ErrorStudy, DataFrame or dict of arrays
            A tidy table such as :func:`~sklearn_ldp.model_selection.simulate_errors` returns.
        x : str, default="epsilon"
            Column of the x axis: "epsilon", "n_samples", or "queries" if their names are numbers
            (``queries={10: random_sets(0.1), ..}``).
        by : str or list of str, default="postprocessor"
            Column with one curve for each of its values; with several columns there is one curve
            for each combination of their values.
        error : str, default="error"
            Column of the y axis.
        spread : str or None, default="standard_error"
            Column of the half lengths of the error bars; None draws none.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        ErrorCurveDisplay
            The display, already drawn.

        Raises
        ------
        KeyError
            If a column is missing.
        ValueError
            If the x values are not numbers, or a curve has several errors at the same x.
        """
        by = [by] if isinstance(by, str) else list(by)
        table = {name: column(results, name, cls.__name__) for name in [x, *by, error]}
        bars = None if spread is None else column(results, spread, cls.__name__).astype(float)
        place = numbers(
            table[x], x, "queries get numbers for names by a dict: queries={10: random_sets(0.1)}."
        )
        values = np.asarray(table[error], dtype=float)
        rows = list(zip(*(table[name].tolist() for name in by), strict=True))
        curves = {}
        for key in dict.fromkeys(rows):
            mine = np.array([i for i, row in enumerate(rows) if row == key])
            mine = mine[np.argsort(place[mine], kind="stable")]
            name = ", ".join(map(str, key))
            if len(np.unique(place[mine])) < len(mine):
                where = f"at the same x on the curve {name!r}"
                raise ambiguous(results, mine, [x, *by], cls.__name__, where)
            bar = None if bars is None else bars[mine]
            curves[name] = ErrorCurve(place[mine], values[mine], bar)
        return cls(curves, x_name=x, error_name=error_name(results, error)).plot(ax, **kwargs)

    @classmethod
    def from_grid_search(
        cls,
        search: BaseEstimator,
        *,
        x: str | None = None,
        metric: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ErrorCurveDisplay:
        """Draw the errors that a search of scikit-learn has found, and mark its choice.

        There is one curve for each combination of the other parameters, such as the
        post-processor. The bars are one standard error of the mean over the splits. Splits share
        users, so their scores depend on each other and the bars are only a rough guide.

        Parameters
        ----------
        search : GridSearchCV, HalvingGridSearchCV or similar
            A fitted search whose scores are negated errors, as those of
            :func:`~sklearn_ldp.metrics.make_frequency_scorer`,
            :func:`~sklearn_ldp.metrics.make_held_out_scorer` and scikit-learn's ``"neg_..."`` are.
            A halving search gets a curve for each iteration, because errors from different
            numbers of users do not belong on the same curve.
        x : str or None, default=None
            Parameter of the x axis, such as ``"oracle__epsilon"`` or ``"param_oracle__epsilon"``,
            which must be a number. None takes the epsilon among the parameters of the search. A
            candidate that does not set it has the value of the estimator that was searched.
        metric : str or None, default=None
            The score to draw, if the search has several; None takes the one of ``refit=``. The
            mark is on what the search has chosen, by whichever metric.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`plot`. The scale of the errors is linear if some are not above 0, as
            unbiased estimates of an error may be.

        Returns
        -------
        ErrorCurveDisplay
            The display, already drawn.

        Raises
        ------
        NotFittedError
            If the search is not fitted.
        TypeError
            If it is not such a search.
        ValueError
            If no parameter or several could be the x axis, if its values are not numbers, if
            the metric is unknown, or if a curve has several errors at the same x.

        Examples
        --------
        >>> from sklearn.model_selection import GridSearchCV
        >>> from sklearn.pipeline import Pipeline
        >>> from sklearn_ldp import GRR, Base, NormSub
        >>> from sklearn_ldp.datasets import make_zipf
        >>> from sklearn_ldp.inspection import ErrorCurveDisplay
        >>> from sklearn_ldp.metrics import make_frequency_scorer
        >>> users = make_zipf(n_samples=2_000, n_categories=16, random_state=0)
        >>> oracle = GRR(categories=16, random_state=0)
        >>> pipe = Pipeline([("oracle", oracle), ("post", Base())])
        >>> grid = {"oracle__epsilon": [0.5, 1, 2], "post": [Base(), NormSub()]}
        >>> search = GridSearchCV(pipe, grid, cv=3, scoring=make_frequency_scorer("mse"))
        >>> display = ErrorCurveDisplay.from_grid_search(search.fit(users))
        >>> list(display.curves), display.chosen
        (['Base', 'NormSub'], ('NormSub', 2.0))
        """
        found = curves_of(search, x, metric)
        curves = {name: ErrorCurve(*points) for name, points in found.curves.items()}
        errors = np.concatenate([curve.error for curve in curves.values()])
        if not np.nanmin(errors, initial=np.inf) > 0:
            kwargs = {"y_scale": "linear", **kwargs}
        display = cls(curves, x_name=found.x, error_name=found.error, chosen=found.chosen)
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        x_scale: str = "linear",
        y_scale: str = "log",
        legend: bool = True,
        **kwargs: Any,
    ) -> ErrorCurveDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        x_scale : {"linear", "log"}, default="linear"
            Scale of the x axis.
        y_scale : {"linear", "log"}, default="log"
            Scale of the y axis.
        legend : bool, default=True
            Whether to put a legend beside the axes.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.errorbar` for every curve.

        Returns
        -------
        ErrorCurveDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the chosen point is on none of the curves.
        """
        chosen = self._chosen_point()
        if ax is None:
            ax = new_axes("ErrorCurveDisplay", (8.0, 4.5))
        defaults = {
            "markersize": 5,
            "markerfacecolor": "none",
            "linewidth": 1.2,
            "elinewidth": 0.8,
            "capsize": 2,
        }
        looks = styles(self.curves)
        self.errorbars_ = {
            name: ax.errorbar(
                curve.x,
                curve.error,
                None if curve.spread is None else np.nan_to_num(curve.spread),
                label=name,
                **merged({**defaults, **looks[name]}, kwargs),
            )
            for name, curve in self.curves.items()
        }
        self.chosen_ = None
        if chosen is not None:
            (self.chosen_,) = ax.plot(*chosen, label="chosen", **RING)
        ax.set_xscale(x_scale)
        # Bars that reach below 0 are clipped; otherwise they would be left out with their point.
        ax.set_yscale(y_scale, **({"nonpositive": "clip"} if y_scale == "log" else {}))
        ax.set_xlabel(self.x_name)
        ax.set_ylabel(self.error_name)
        ax.grid(True, which="major", color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        if legend:
            legend_outside(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _chosen_point(self) -> tuple[float, float] | None:
        """Where the chosen point is."""
        if self.chosen is None:
            return None
        name, x = self.chosen
        if name not in self.curves or x not in self.curves[name].x:
            raise ValueError(
                f"ErrorCurveDisplay has no point of {name!r} at {x!r} to mark as chosen; its "
                f"curves are {list(self.curves)}."
            )
        curve = self.curves[name]
        return x, curve.error[list(curve.x).index(x)]
