"""A display of a search: the error of each candidate."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._released import refuse_fitted_to_set
from .._typing import Axes, Column
from ._style import COLORS, merged, name_ticks, new_axes


class SearchDisplay:
    """Errors of the candidates of a search, the best at the top.

    Use :meth:`from_estimator` to create a display.

    Parameters
    ----------
    candidates : array-like of str of shape (n_candidates,)
        Names of the candidates.
    mean_error : array-like of shape (n_candidates,)
        Mean errors of the candidates.
    standard_error : array-like of shape (n_candidates,) or None, default=None
        Standard errors of the mean errors; None draws no error bars.
    best_index : int or None, default=None
        Index of the candidate that was chosen; None marks none.
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
    >>> search = SyntheticSearch(n_repeats=5, random_state=0).fit(estimate)
    >>> display = SearchDisplay.from_estimator(search)
    >>> display.candidates[display.best_index] == search.results_["candidate"][search.best_index_]
    True
    """

    candidates: Any
    mean_error: Any
    standard_error: Any
    ax_: Any
    figure_: Any
    errorbar_: Any
    chosen_: Any

    def __init__(
        self,
        candidates: Column,
        mean_error: ArrayLike,
        *,
        standard_error: ArrayLike | None = None,
        best_index: int | None = None,
        error_name: str = "mean error",
    ) -> None:
        self.candidates = candidates
        self.mean_error = mean_error
        self.standard_error = standard_error
        self.best_index = best_index
        self.error_name = error_name

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | None = None, **kwargs: Any
    ) -> SearchDisplay:
        """Draw the candidates of a fitted search.

        Parameters
        ----------
        estimator : search or Pipeline that ends with one
            A fitted SyntheticSearch, HeldOutSearch or BootstrapSearch.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
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
        search = estimator
        while hasattr(search, "steps"):
            search = search.steps[-1][1]
        refuse_fitted_to_set(search, "SearchDisplay")
        if not hasattr(search, "results_"):
            if hasattr(search, "candidates") and hasattr(search, "fit"):
                check_is_fitted(search, "results_")
            raise TypeError(
                "SearchDisplay.from_estimator needs a fitted SyntheticSearch, HeldOutSearch or "
                f"BootstrapSearch, or a Pipeline that ends with one, got {type(search).__name__}."
            )
        results = search.results_
        display = cls(
            results["candidate"],
            results["mean_error"],
            standard_error=results["standard_error"],
            best_index=search.best_index_,
            error_name=search._error_name,
        )
        return display.plot(ax, **kwargs)

    def plot(
        self, ax: Axes | None = None, *, x_scale: str | None = None, **kwargs: Any
    ) -> SearchDisplay:
        """Draw the errors of the candidates.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        x_scale : {"linear", "log"}, default=None
            Scale of the errors; None chooses "log" if they differ by more than a factor of 10.
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
        if ax is None:
            longest = max(len(str(name)) for name in self.candidates)
            width = 5.5 + 0.08 * max(longest - 10, 0)
            ax = new_axes("SearchDisplay", (width, 1.2 + 0.3 * len(error)))
        order = np.argsort(error, kind="stable")
        place = np.arange(len(order))
        bars = None
        if self.standard_error is not None:
            bars = np.nan_to_num(np.asarray(self.standard_error, dtype=float)[order])
        look = merged(
            {"marker": "o", "linestyle": "none", "color": COLORS[0], "capsize": 3}, kwargs
        )
        self.errorbar_ = ax.errorbar(error[order], place, xerr=bars, **look)
        self.chosen_ = None
        if self.best_index is not None:
            chosen = int(np.flatnonzero(order == self.best_index)[0])
            mark: dict[str, Any] = {
                "marker": "D",
                "markersize": 9,
                "color": COLORS[1],
                "label": "chosen",
            }
            (self.chosen_,) = ax.plot(error[order[chosen]], chosen, linestyle="none", **mark)
            ax.legend(loc="best")
        name_ticks(ax.yaxis, place, [self.candidates[i] for i in order])
        if not ax.yaxis_inverted():
            ax.invert_yaxis()
        if x_scale is None:
            spans = error.min() > 0 and error.max() > 10 * error.min()
            x_scale = "log" if spans else "linear"
        ax.set_xscale(x_scale)
        if x_scale == "linear":
            ax.locator_params(axis="x", nbins=5)
            ax.ticklabel_format(axis="x", style="sci", scilimits=(-2, 4))
        ax.set_xlabel(textwrap.fill(self.error_name, 40))
        ax.grid(True, axis="x", color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        self.ax_, self.figure_ = ax, ax.figure
        return self
