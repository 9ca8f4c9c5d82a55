"""Displays of errors: of a simulation study, a grid search, or the candidates of a search."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..common.fitted import mean_errors, metric_names, standard_errors
from ..common.typing import Axes, Table
from ._base import COLORS, BaseDisplay, legend_outside, merged, name_rows, styles

_FEW_DECADES = 50.0  # an axis whose ends have at most this ratio has room for labels within decades

_MOST_LETTERS = 34  # the longest line of a candidate's name beside its row

# The columns of a study that identify a row; the other columns are numbers.
_VARIED = ("population", "n_samples", "oracle", "epsilon", "postprocessor", "queries", "metric")


class ErrorCurve(NamedTuple):
    """The points of one curve of an `ErrorCurveDisplay`.

    If x is a name instead of a number, they are the dots of one setting, such as an oracle.
    """

    x: np.ndarray  # (n_points,): positions on the x axis, in rising order, or names of rows
    error: np.ndarray  # (n_points,): mean errors
    spread: np.ndarray | None = None  # (n_points,): half lengths of the error bars; None draws none


@dataclass(eq=False, repr=False)
class ErrorCurveDisplay(BaseDisplay):
    """Errors of several methods against x: curves if x is numeric, rows of dots if x is a name.

    If x is a number, such as epsilon, the size of sets, k or the number of users, each method has a
    curve. If x is a name, such as the name of a post-processor, each name has a row of dots, with
    one kind of dot per setting, such as an oracle.

    Each method has its own color, line style and marker, which are the same in every plot. The
    legend is outside of the axes. A ring can mark one point of each curve, such as the point that a
    search has chosen. Use :meth:`from_results` to draw a study, and :meth:`from_grid_search` to
    draw a search of scikit-learn and its choice.

    Parameters
    ----------
    curves : dict of str to ErrorCurve
        The curves, keyed by their names in the legend.
    rows : list of str or None, default=None
        The names of the rows, from top to bottom, which include every x of the curves. None if x is
        a number.
    x_name : str, default="epsilon"
        Label of the x axis; unused if x is a name.
    error_name : str, default="error"
        Label of the axis of the errors.
    chosen : dict of str to float or str, or None, default=None
        The points to mark by a ring: for the name of a curve, the x of its point. If None, mark
        none.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the curves.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    errorbars_ : dict of str to matplotlib ErrorbarContainer
        The line, markers and error bars of each curve, with the keys of `curves`.
    chosen_ : matplotlib Line2D or None
        The rings around the marked points; None if there are none.

    Examples
    --------
    >>> from sklearn_ldp import GRR, OLH, OUE
    >>> from sklearn_ldp.datasets import make_zipf
    >>> from sklearn_ldp.inspection import ErrorCurveDisplay
    >>> from sklearn_ldp.model_selection import simulate_errors
    >>> counts = make_zipf(10_000, 64, return_counts=True, random_state=0)
    >>> study = simulate_errors(OLH(), "all", counts, epsilons=[0.5, 1, 2], n_repeats=5)
    >>> display = ErrorCurveDisplay.from_results(study, x="epsilon")
    >>> display.curves["NormSub"].x
    array([0.5, 1. , 2. ])

    Post-processors are names, so each post-processor has a row, with a dot for each oracle:

    >>> study = simulate_errors([GRR(), OLH(), OUE()], "all", counts, n_repeats=5)
    >>> display = ErrorCurveDisplay.from_results(
    ...     study, x="postprocessor", by="oracle", chosen={"OLH": "NormSub"}
    ... )
    >>> list(display.curves), display.rows[:2]
    (['GRR', 'OLH', 'OUE'], ['Base', 'Norm'])
    """

    curves: Mapping[str, ErrorCurve]
    _: KW_ONLY
    rows: Sequence[str] | None = None
    x_name: str = "epsilon"
    error_name: str = "error"
    chosen: Mapping[str, Any] | None = None

    @classmethod
    def from_results(
        cls,
        results: Table,
        *,
        x: str = "epsilon",
        by: str | Sequence[str] = "postprocessor",
        error: str = "error",
        spread: str | None = "standard_error",
        chosen: Mapping[str, Any] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ErrorCurveDisplay:
        """Draw the errors of a study.

        Parameters
        ----------
        results : ErrorStudy, DataFrame or dict of arrays
            A tidy table, such as the result of
            :func:`~sklearn_ldp.model_selection.simulate_errors`.
        x : str, default="epsilon"
            Column of the x axis: "epsilon", "n_samples", or "queries" if their names are numbers
            (``queries={10: random_sets(0.1), ..}``). If the column contains names, such as
            "postprocessor", each name has a row of dots.
        by : str or list of str, default="postprocessor"
            Column that separates the curves, or the kinds of dots. With several columns there is
            one curve for each combination of their values.
        error : str, default="error"
            Column of the errors.
        spread : str or None, default="standard_error"
            Column of the half lengths of the error bars. If None, draw no bars.
        chosen : dict of str to float or str, or None, default=None
            The points to mark: for the name of a curve, the value of `x` of its point. If None,
            mark none.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
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
            If a curve has several errors at the same x, or a point in `chosen` does not exist.
        """
        by = [by] if isinstance(by, str) else list(by)
        used = [x, *by]
        table = {name: _column(results, name) for name in [*used, error]}
        bars = None if spread is None else _column(results, spread).astype(float)
        rows = None
        try:
            place = table[x].astype(float)
        except (TypeError, ValueError):  # names
            names = [str(value) for value in table[x].tolist()]
            rows = list(dict.fromkeys(names))
            place = np.array([float(rows.index(name)) for name in names])

        def ambiguous(name: str, points: np.ndarray) -> ValueError:
            """Return the exception for a curve with several points at the same x.

            Its message names the columns in which these points differ.
            """
            columns: Any = getattr(results, "columns", results)
            others = [key for key in _VARIED if key in columns and key not in used]
            varied = [key for key in others if len(set(_column(results, key)[points])) > 1]
            return ValueError(
                f"ErrorCurveDisplay found several errors at the same x on the curve {name!r}, "
                f"which differ in {' and '.join(varied) or 'no column'}. Name the column in by=, "
                "or select one of its values: "
                f"study.select({varied[0] if varied else 'column'}=..)."
            )

        keys = zip(*(table[name].tolist() for name in by), strict=True)
        names = [", ".join(map(str, key)) for key in keys]
        curves = _curves(names, place, table[error].astype(float), bars, ambiguous)
        if rows is not None:
            named = np.array(rows, dtype=object)
            curves = {
                key: curve._replace(x=named[curve.x.astype(int)]) for key, curve in curves.items()
            }
        error = _error_name(results, error)
        display = cls(curves, rows=rows, x_name=x, error_name=error, chosen=chosen)
        return display.plot(ax, **kwargs)

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
        """Draw the errors of a fitted search of scikit-learn, and mark its choice.

        There is one curve for each combination of the searched parameters other than `x`, such as
        the post-processor. The error bars are one standard error of the mean over the splits.
        Different splits share users, so their scores are dependent and the bars are only a rough
        guide.

        Parameters
        ----------
        search : GridSearchCV, HalvingGridSearchCV or similar
            A fitted search whose scores are negated errors, such as the scores of
            :func:`~sklearn_ldp.metrics.make_frequency_scorer`, of
            :func:`~sklearn_ldp.metrics.make_held_out_scorer` and scikit-learn's ``"neg_..."``.
            A halving search has a curve for each iteration, because errors from different numbers
            of users do not belong on the same curve.
        x : str or None, default=None
            Parameter of the x axis, such as ``"oracle__epsilon"`` or ``"param_oracle__epsilon"``,
            which must be a number. If None, use the epsilon among the parameters of the search. A
            candidate that does not set this parameter is drawn at the parameter's value in the
            original estimator.
        metric : str or None, default=None
            The score to draw, if the search has several. If None, use the score named in
            ``refit=``. The ring always marks the candidate that the search has chosen, even if it
            used another metric.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`plot`. The scale of the errors is linear if some are not positive;
            unbiased estimates of an error may be negative.

        Returns
        -------
        ErrorCurveDisplay
            The display, already drawn.

        Raises
        ------
        NotFittedError
            If the search is not fitted.
        TypeError
            If `search` is not a search with `cv_results_`.
        ValueError
            If no parameter or several parameters could be the x axis, if its values are not
            numbers, if the metric is unknown, or if a curve has several errors at the same x.

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
        (['Base', 'NormSub'], {'NormSub': 2.0})
        """
        fitted: Any = search
        if not hasattr(fitted, "cv_results_"):
            if all(hasattr(fitted, name) for name in ("scoring", "refit", "fit")):
                check_is_fitted(fitted, "cv_results_")
            raise TypeError(
                "ErrorCurveDisplay.from_grid_search needs a fitted search such as GridSearchCV, "
                f"got {type(search).__name__}. Fit the search first. For SyntheticSearch and "
                "HeldOutSearch use SearchDisplay."
            )
        candidates = fitted.cv_results_["params"]
        parameter = _x_parameter(candidates, x)
        # A candidate may set the parameter itself, or replace the step that has the parameter.
        set_up = (clone(fitted.estimator).set_params(**clone(c, safe=False)) for c in candidates)
        values = [estimator.get_params()[parameter] for estimator in set_up]
        try:
            place = np.asarray(values).astype(float)
        except (TypeError, ValueError):
            raise ValueError(
                f"ErrorCurveDisplay needs numbers on the x axis, but {parameter!r} has the value "
                f"{values[0]!r}. Pass a parameter with numbers as x=, as in "
                'from_grid_search(search, x="oracle__epsilon").'
            ) from None

        def repeated(name: str, points: np.ndarray) -> ValueError:
            return ValueError(
                f"ErrorCurveDisplay found several candidates called {name!r} with the same "
                f"{parameter}. Search each combination of parameters only once; values of "
                "parameters must have different repr."
            )

        errors, bars, error_name = _grid_search_errors(fitted, metric)
        names = _candidate_names(fitted, parameter)
        curves = _curves(names, place, errors, bars, repeated)
        best = getattr(fitted, "best_index_", None)  # missing with refit=False and several metrics
        if not np.nanmin(errors, initial=np.inf) > 0:
            kwargs = {"error_scale": "linear", **kwargs}
        chosen = None if best is None else {names[best]: float(place[best])}
        x = parameter.rpartition("__")[2]
        return cls(curves, x_name=x, error_name=error_name, chosen=chosen).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        x_scale: str = "linear",
        error_scale: str = "log",
        legend: bool = True,
        **kwargs: Any,
    ) -> ErrorCurveDisplay:
        """Draw the curves, or the rows of dots.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        x_scale : {"linear", "log"}, default="linear"
            Scale of the x axis; ignored if there are rows.
        error_scale : {"linear", "log"}, default="log"
            Scale of the errors.
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
            If a point in `chosen` does not exist.
        """
        chosen = self._chosen_points()
        n_rows = 0 if self.rows is None else len(self.rows)
        ax = self._axes(ax, (8.0, 1.2 + 0.45 * n_rows if n_rows else 4.5))
        looks = self._looks()
        self.errorbars_: dict[Any, Any] = {}
        for i, (name, curve) in enumerate(self.curves.items()):
            bars = None if curve.spread is None else np.nan_to_num(curve.spread)
            place = self._places(i)
            look = merged(looks[name], kwargs)
            points: dict[str, Any] = {"x": place, "y": curve.error, "yerr": bars}
            if self.rows is not None:
                points = {"x": curve.error, "y": place, "xerr": bars}
            self.errorbars_[name] = ax.errorbar(**points, label=name, **look)
        self.chosen_: Any = None
        if chosen:
            ring: dict[str, Any] = {"marker": "o", "markersize": 14, "markerfacecolor": "none"}
            ring |= {"color": "0.3", "linestyle": "none", "label": "chosen"}
            (self.chosen_,) = ax.plot(*zip(*chosen, strict=True), **ring)
        # Bars that reach below 0 are clipped, because matplotlib would omit them and their point.
        clipped = {"nonpositive": "clip"} if error_scale == "log" else {}
        if self.rows is None:
            ax.set_xscale(x_scale)
            ax.set_yscale(error_scale, **clipped)
            ax.set_xlabel(self.x_name)
            ax.set_ylabel(self.error_name)
            ax.grid(True, which="major", color="0.9", linewidth=0.6)
            ax.set_axisbelow(True)
        else:
            for edge in range(1, n_rows):
                ax.axhline(edge - 0.5, color="0.9", linewidth=0.8, zorder=0)
            ax.set_xscale(error_scale, **clipped)
            name_rows(ax, self.rows)
            low, high = ax.get_xlim()
            if error_scale == "log" and high < _FEW_DECADES * low:
                _label_within_decades(ax.xaxis)
            ax.set_xlabel(self.error_name)
        if legend:
            legend_outside(ax)
        return self

    def _places(self, i: int) -> np.ndarray:
        """Return the positions of the points of the i-th curve.

        They are on the x axis or, if the display has rows of dots, on the y axis.
        """
        x = list(self.curves.values())[i].x
        if self.rows is None:
            return np.asarray(x)
        # The dots of a row are one below the other, in the order of the legend.
        n = len(self.curves)
        rows = list(self.rows)
        return np.array([rows.index(name) for name in x]) + (i - (n - 1) / 2) * 0.8 / n

    def _looks(self) -> dict[str, dict[str, Any]]:
        """Return, for each curve or each kind of dot, its color, line style and marker."""
        looks = styles(self.curves)
        colors = []
        for look in looks.values():
            if self.rows is None:
                look |= {"markersize": 5, "markerfacecolor": "none", "linewidth": 1.2, "capsize": 2}
            else:
                fill = "none" if look["color"] in colors else "full"  # hollow if the color repeats
                look |= {"markersize": 7, "fillstyle": fill, "linestyle": "none"}
            look["elinewidth"] = 0.8
            colors.append(look["color"])
        return looks

    def _chosen_points(self) -> list[tuple[float, float]]:
        """Return the x and y coordinates of the points in `chosen` (see the class).

        Raises ValueError if a point is not on its curve.
        """
        points = []
        for name, x in (self.chosen or {}).items():
            if name not in self.curves or x not in list(self.curves[name].x):
                raise ValueError(
                    f"ErrorCurveDisplay got chosen={{{name!r}: {x!r}}}, which is not a point of a "
                    f"curve. Use the name of a curve, one of {list(self.curves)}, and an x of its "
                    "points" + ("." if self.rows is None else f", one of {list(self.rows)}.")
                )
            at = list(self.curves[name].x).index(x)
            i = list(self.curves).index(name)
            point = self._places(i)[at], self.curves[name].error[at]
            points.append(point if self.rows is None else point[::-1])
        return points


@dataclass(eq=False, repr=False)
class SearchDisplay(BaseDisplay):
    """Mean errors of the candidates of a search, sorted with the best at the top.

    Use :meth:`from_estimator` to create a display.

    Parameters
    ----------
    candidates : array-like of str of shape (n_candidates,)
        Names of the candidates.
    mean_error : array-like of shape (n_candidates,)
        Mean errors of the candidates.
    standard_error : array-like of shape (n_candidates,) or None, default=None
        Standard errors of the mean errors. If None, draw no error bars.
    best_index : int or None, default=None
        Index of the candidate that was chosen. If None, mark none.
    error_name : str, default="mean error"
        Label of the x axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the errors.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    errorbar_ : matplotlib ErrorbarContainer
        The errors of the candidates, the best first.
    chosen_ : matplotlib Line2D or None
        The mark of the chosen candidate; None if none was chosen.

    Examples
    --------
    >>> from sklearn_ldp import OLH, SyntheticSearch
    >>> from sklearn_ldp.datasets import load_us_states
    >>> from sklearn_ldp.inspection import SearchDisplay
    >>> states = load_us_states(n_samples=100_000, random_state=0)
    >>> oracle = OLH(categories=states.categories, random_state=0)
    >>> estimate = oracle.fit_transform(states.categories, sample_weight=states.counts)
    >>> search = SyntheticSearch(n_repeats=5).fit(estimate)
    >>> display = SearchDisplay.from_estimator(search)
    >>> display.candidates[display.best_index] == search.results_["candidate"][search.best_index_]
    True
    """

    candidates: Any
    mean_error: Any
    _: KW_ONLY
    standard_error: Any = None
    best_index: int | None = None
    error_name: str = "mean error"

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | None = None, **kwargs: Any
    ) -> SearchDisplay:
        """Draw the candidates of a fitted search.

        Parameters
        ----------
        estimator : search, or Pipeline that ends with one
            A fitted SyntheticSearch, SyntheticStack or HeldOutSearch.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        SearchDisplay
            The display, already drawn.

        Raises
        ------
        NotFittedError
            If the search is not fitted.
        TypeError
            If the estimator is not a search.
        """
        search: Any = estimator
        # Ends: because pipelines are nested finitely often.
        while hasattr(search, "steps"):
            search = search.steps[-1][1]
        searches = getattr(search, "estimators_", None)
        if isinstance(searches, dict) and searches:
            raise TypeError(
                "SearchDisplay draws a search that was fitted to one estimate, but this "
                f"{type(search).__name__} was fitted to a set of estimates. Pass the search of one "
                f"estimate: search.estimators_[{next(iter(searches))!r}]."
            )
        if not hasattr(search, "results_"):
            if hasattr(search, "candidates") and hasattr(search, "fit"):
                check_is_fitted(search, "results_")
            raise TypeError(
                f"SearchDisplay.from_estimator needs a fitted search, got {type(search).__name__}. "
                "Pass a SyntheticSearch or HeldOutSearch, or a Pipeline that ends with one."
            )
        results = search.results_
        names = results["candidate"]
        if "weight" in results:  # a weighted mean of all candidates, so none was chosen
            names = [f"{n} (weight {w:.2f})" for n, w in zip(names, results["weight"], strict=True)]
        return cls(
            names,
            mean_errors(results, "score"),
            standard_error=standard_errors(results, "score")[0],
            best_index=getattr(search, "best_index_", None),
            error_name=search._error_name,
        ).plot(ax, **kwargs)

    def plot(
        self, ax: Axes | None = None, *, error_scale: str | None = None, **kwargs: Any
    ) -> SearchDisplay:
        """Draw the errors of the candidates.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        error_scale : {"linear", "log"}, default=None
            Scale of the errors. If None, use "log" if they differ by more than a factor of 10.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.errorbar` for the errors.

        Returns
        -------
        SearchDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        error = np.asarray(self.mean_error, dtype=float)
        names = [
            textwrap.fill(str(name), _MOST_LETTERS, break_long_words=False)
            for name in self.candidates
        ]
        longest = max(len(line) for name in names for line in name.splitlines())
        ax = self._axes(ax, (5.5 + 0.08 * max(longest - 10, 0), 1.2 + 0.3 * len(error)))
        order = np.argsort(error, kind="stable")
        place = name_rows(ax, [names[i] for i in order])
        bars = None
        if self.standard_error is not None:
            bars = np.nan_to_num(np.asarray(self.standard_error, dtype=float)[order])
        look = {"marker": "o", "linestyle": "none", "color": COLORS[0], "capsize": 3}
        self.errorbar_: Any = ax.errorbar(error[order], place, xerr=bars, **merged(look, kwargs))
        self.chosen_: Any = None
        if self.best_index is not None:
            chosen = np.flatnonzero(order == self.best_index)
            mark: dict[str, Any] = {"markersize": 9, "color": COLORS[1], "label": "chosen"}
            (self.chosen_,) = ax.plot(error[order[chosen]], chosen, "D", **mark)
            ax.legend(loc="best")
        if error_scale is None:
            spans = error.min() > 0 and error.max() > 10 * error.min()
            error_scale = "log" if spans else "linear"
        ax.set_xscale(error_scale)
        if error_scale == "linear":
            ax.locator_params(axis="x", nbins=5)
            ax.xaxis.set_major_formatter("{x:.3g}")
        ax.set_xlabel(textwrap.fill(self.error_name, 40))
        return self


# -- tables of errors -----------------------------------------------------------------------------
def _column(results: Table, name: str) -> np.ndarray:
    """Return the column of a table of errors with this name, or raise KeyError."""
    try:
        return np.asarray(results[name])
    except (KeyError, TypeError, IndexError) as error:
        raise KeyError(
            f"ErrorCurveDisplay.from_results found no column {name!r} in the table. Pass the "
            "result of simulate_errors, or pass the names of your columns as x=, by=, error= and "
            "spread=."
        ) from error


def _error_name(results: Table, error: str) -> str:
    """Return the label of the axis of errors.

    It is the metric if the table contains errors of only one metric, otherwise the column's name.
    """
    try:
        metrics = set(np.asarray(results["metric"]).tolist())
    except (KeyError, TypeError, IndexError):
        return error
    return metrics.pop().upper() if error == "error" and len(metrics) == 1 else error


def _curves(
    names: Sequence[str], x: np.ndarray, errors: np.ndarray, bars: np.ndarray | None, several: Any
) -> dict[str, ErrorCurve]:
    """Return a dict of curves, one for each name of a curve.

    names: for each point, the name of its curve. x, errors, bars: for each point, its coordinates
    and the half length of its error bar.
    several: a function that returns the exception for a curve with several points at the same x.
    """
    curves = {}
    for name in dict.fromkeys(names):
        mine = np.flatnonzero([other == name for other in names])
        mine = mine[np.argsort(x[mine], kind="stable")]
        if len(np.unique(x[mine])) < len(mine):
            raise several(name, mine)
        curves[name] = ErrorCurve(x[mine], errors[mine], None if bars is None else bars[mine])
    return curves


def _label_within_decades(axis: Any) -> None:
    """Add labels such as 1.5, 2 and 3 to a log axis that spans less than a few factors of 10."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 8)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


# -- searches of scikit-learn ---------------------------------------------------------------------
def _x_parameter(candidates: list[dict[str, Any]], x: str | None) -> str:
    """Return the name of the parameter on the x axis, as `set_params` of the estimator uses it.

    candidates: the parameters of each candidate of a grid search.
    x: the user's choice; if None, the result is the only searched epsilon.
    """
    names = list(dict.fromkeys(name for candidate in candidates for name in candidate))
    if x is None:
        epsilons = [name for name in names if name.rpartition("__")[2] == "epsilon"]
        if not epsilons:  # oracles with several budgets
            oracles = [
                name
                for name in names
                if all(hasattr(candidate.get(name), "epsilon") for candidate in candidates)
            ]
            epsilons = [f"{name}__epsilon" for name in oracles]
        if len(epsilons) != 1:
            raise ValueError(
                "ErrorCurveDisplay needs exactly one epsilon among the searched parameters, but "
                f"found {len(epsilons)} in {names}. Pass the parameter of the x axis, as in "
                'from_grid_search(search, x="oracle__epsilon").'
            )
        return epsilons[0]
    name = x if x in names else x.removeprefix("param_")
    if name not in names:
        raise ValueError(f"Argument x must be a searched parameter, got {x!r}. Use one of {names}.")
    return name


def _grid_search_errors(
    search: Any, metric: str | None
) -> tuple[np.ndarray, np.ndarray | None, str]:
    """Return the results of a grid search: mean errors, standard errors, and the axis label.

    Shapes: -> (n_candidates,), (n_candidates,).
    metric: the name of the score; if None, the score named in ``refit=``.
    """
    results = search.cv_results_
    metrics = metric_names(results)
    refit = search.refit if isinstance(search.refit, str) else None
    key = metric or (metrics[0] if len(metrics) == 1 else refit)
    if key not in metrics:
        raise ValueError(
            f"Argument metric must be a score of the search, got {metric!r}. Use one of {metrics}."
        )
    bars, n_splits = standard_errors(results, key)
    name = key if key != "score" else getattr(search.scoring, "metric", search.scoring)
    name = name.removeprefix("neg_").replace("_", " ") if isinstance(name, str) else "error"
    if name in ("mse", "mae", "rmse"):
        name = name.upper()
    return mean_errors(results, key), bars, f"{name}, mean of {n_splits} splits"


def _candidate_names(search: Any, x: str) -> list[str]:
    """Return, for each candidate of a grid search, the name of its curve.

    The name contains the values of all searched parameters that vary, except the parameter x.
    """
    candidates = search.cv_results_["params"]
    words: list[list[str]] = [[] for _ in candidates]
    for key in dict.fromkeys(key for candidate in candidates for key in candidate if key != x):
        labels = _labels(key, [candidate.get(key, "") for candidate in candidates], x)
        if len(set(labels)) > 1:
            for name, label in zip(words, labels, strict=True):
                name.extend([label] if label else [])
    rounds = search.cv_results_.get("iter", np.zeros(len(candidates), dtype=int))
    if len(set(rounds)) > 1:
        sizes = search.cv_results_["n_resources"]
        for name, i, size in zip(words, rounds, sizes, strict=True):
            name.append(f"iteration {i} ({search.resource} = {size:,})")
    return [", ".join(name) or "error" for name in words]


def _labels(key: str, values: list[Any], x: str) -> list[str]:
    """Return a label for each value of a searched parameter.

    An estimator has its repr as label, such as "NormSub". Other values have "name = value"."""
    # The parameter on the x axis is left out, and so is a domain that all candidates share.
    parameters = [value.get_params(deep=False) for value in values if hasattr(value, "get_params")]
    domains = {repr(own.get("categories")) for own in parameters}
    labels = []
    for value in values:
        if not hasattr(value, "get_params"):
            labels.append(f"{key} = {value}" if value != "" else "")
            continue
        defaults = signature(type(value)).parameters
        hidden = {x.removeprefix(f"{key}__")} | ({"categories"} if len(domains) == 1 else set())
        shown = {k: defaults[k].default for k in hidden if k in value.get_params(deep=False)}
        labels.append(" ".join(repr(clone(value).set_params(**shown)).split()).removesuffix("()"))
    return labels
