"""Displays of what changed: between two estimates, and over several in a row."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from .._core.domains.values import places_among
from .._core.statements import EstimateDifference, if_normal
from ._base import BaseDisplay, legend_outside, merged, name_rows, name_ticks, styles

_CHANGED, _OPEN = "#d55e00", "0.55"
_MOST_LINES = 7  # as many colours as can be told apart
_MOST_TICKS = 12  # rows that each get a tick of their own


@dataclass(eq=False, repr=False)
class DifferenceDisplay(BaseDisplay):
    """Differences of frequencies, with intervals that hold for all categories at once.

    A category is marked where its interval leaves 0 out. As the intervals of all categories of the
    domain hold at once, so do all the marks, whichever categories are shown.

    Use :meth:`from_difference` to create a display.

    Parameters
    ----------
    categories : array-like of shape (k,)
        The categories to show, from top to bottom.
    differences : array-like of shape (k,)
        The differences of their estimated frequencies.
    interval : tuple of two array-like of shape (k,)
        Lower and upper ends of the intervals.
    level : float
        Probability that the intervals of all `n_categories` categories hold at once.
    n_categories : int or None, default=None
        Number of categories in the domain, of which `categories` are all or some; with None the
        axes do not mention it.
    condition : str, default=""
        The condition of the level, such as ", if noise is normal".

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the differences.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    changed_, open_ : matplotlib ErrorbarContainer or None
        The categories whose interval leaves 0 out, and the others; None if there are none.

    See Also
    --------
    sklearn_ldp.inference.EstimateDifference : What it draws.

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.inspection import DifferenceDisplay
    >>> oracle = OUE(2.0, categories=["a", "b", "c"], random_state=0)
    >>> may = oracle.fit_transform(["a", "b", "b", "c"] * 5000)
    >>> june = oracle.fit_transform(["a", "b", "c", "c"] * 5000)
    >>> display = DifferenceDisplay.from_difference(june - may)
    >>> display.is_changed.tolist()
    [False, True, True]
    """

    categories: Any
    differences: Any
    _: KW_ONLY
    interval: Any
    level: float
    n_categories: int | None = None
    condition: str = ""

    @property
    def is_changed(self) -> np.ndarray:
        """Whether the interval of each category that is shown leaves 0 out, of shape (k,)."""
        low, high = (np.asarray(end) for end in self.interval)
        return (low > 0) | (high < 0)

    @classmethod
    def from_difference(
        cls,
        difference: Any,
        *,
        k: int | None = 30,
        level: float = 0.95,
        of: str = "population",
        ax: Any = None,
        **kwargs: Any,
    ) -> DifferenceDisplay:
        """Draw a difference of two estimates.

        Parameters
        ----------
        difference : EstimateDifference of shape (1, d)
            For example ``june - may``.
        k : int or None, default=30
            Number of categories: those that are the most standard deviations away from 0; they are
            drawn in the order of the domain. None shows all.
        level : float, default=0.95
            Probability that the intervals of all d categories hold at once.
        of : {"population", "users"}, default="population"
            Whom the differences are between.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        DifferenceDisplay
            The display, already drawn.

        Raises
        ------
        TypeError
            If it is no difference of estimates.
        ValueError
            If there are several differences, or k is not positive.
        """
        if not hasattr(difference, "changed"):
            raise TypeError(
                f"DifferenceDisplay needs estimate_a - estimate_b, got {type(difference).__name__}."
            )
        if len(difference) != 1:
            raise ValueError(
                f"DifferenceDisplay draws one difference, got {len(difference)}: subtract two rows."
            )
        if k is not None and k < 1:
            raise ValueError(f"Argument k must be None or an integer >= 1, got {k!r}.")
        ends = difference.confidence_interval(level, simultaneous=True, of=of)
        low, high = (end[0] for end in ends)
        values, d = difference.values[0], difference.shape[1]
        shown = np.arange(d)
        if k is not None and k < d:
            score = np.abs(values) / np.maximum(high - low, np.finfo(float).tiny)
            shown = np.sort(np.argsort(-score, kind="stable")[:k])
        return cls(
            difference.categories[shown],
            values[shown],
            interval=(low[shown], high[shown]),
            level=level,
            n_categories=d,
            condition=if_normal(difference.one, difference.other),
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> DifferenceDisplay:
        """Draw the differences, one row per category.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.errorbar`.

        Returns
        -------
        DifferenceDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        n, d = len(self.categories), self.n_categories
        ax = self._axes(ax, (6.5, 1.2 + 0.22 * n))
        ax.axvline(0, color="black", linewidth=0.8, zorder=0)
        place = name_rows(ax, self.categories, grid="y", fontsize="small")
        marks = self.is_changed
        self.changed_: Any = self._draw(ax, place, marks, _CHANGED, "o", "changed", kwargs)
        self.open_: Any = self._draw(ax, place, ~marks, _OPEN, "s", "may be unchanged", kwargs)
        ends = f"intervals\nthat hold at once ({self.level:.0%}){self.condition}"
        ax.set_xlabel(f"difference of frequencies, with {ends}")
        if d is not None:
            few = "" if n == d else ", the clearest differences"
            ax.set_ylabel((f"all {n:,}" if n == d else f"{n:,} of {d:,}") + f" categories{few}")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize="small", frameon=False)
        return self

    def _draw(
        self, ax: Any, place: Any, mask: Any, color: str, marker: str, label: str, kwargs: Any
    ) -> Any:
        if not mask.any():
            return None
        x = np.asarray(self.differences)[mask]
        low, high = (np.asarray(end)[mask] for end in self.interval)
        look = {"color": color, "marker": marker, "linestyle": "none", "markersize": 4}
        look = merged({**look, "label": label}, kwargs)
        return ax.errorbar(x, place[mask], xerr=[x - low, high - x], **look)


EstimateDifference.drawn_by = DifferenceDisplay.from_difference


@dataclass(eq=False, repr=False)
class TrendDisplay(BaseDisplay):
    """Frequencies of some categories over several estimates, with bands that hold at once.

    If the estimates themselves selected the categories, the bands hold for all categories of the
    domain in all estimates at once; if somebody named them, for those that are drawn. The title
    says which.

    Use :meth:`from_estimate` to create a display.

    Parameters
    ----------
    rows : array-like of shape (n_estimates,)
        What each estimate is about, such as a week.
    frequencies : dict of str to array-like of shape (n_estimates,)
        The estimated frequencies of each category that is drawn.
    interval : dict of str to tuple of two array-like of shape (n_estimates,)
        Lower and upper ends of the intervals.
    level : float
        Probability that all intervals hold at once.
    description : str, default=""
        Title of the axes: what is shown, and what the bands hold for.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the lines.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    lines_ : dict of str to matplotlib Line2D
        The line of each category; its markers alone if the rows follow no order, such as groups.
    bands_ : dict of str to matplotlib PolyCollection or LineCollection
        Its intervals.

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.inspection import TrendDisplay
    >>> from sklearn_ldp.oracles import estimate_by_group
    >>> oracle = OUE(2.0, categories=["a", "b", "c"], random_state=0)
    >>> users, week = ["a", "b", "b", "c", "a", "c"] * 5000, [1, 1, 1, 2, 2, 2] * 5000
    >>> weeks = estimate_by_group(oracle, users, week)
    >>> display = TrendDisplay.from_estimate(weeks, categories=["a", "b"])
    >>> display.rows.tolist(), list(display.frequencies)
    ([1, 2], ['a', 'b'])
    """

    rows: Any
    frequencies: dict[str, Any]
    _: KW_ONLY
    interval: dict[str, Any]
    level: float
    description: str = ""

    @classmethod
    def from_estimate(
        cls,
        estimate: Any,
        *,
        categories: Any = None,
        k: int = 5,
        level: float = 0.95,
        of: str = "population",
        ax: Any = None,
        **kwargs: Any,
    ) -> TrendDisplay:
        """Draw the rows of an estimate, such as one per week.

        Parameters
        ----------
        estimate : FrequencyEstimate of shape (n_estimates, d)
            A raw estimate of two or more groups of different users, see
            :func:`~sklearn_ldp.oracles.estimate_by_group`, or what :class:`~sklearn_ldp.Trend`
            makes of it. Its `row_names` are the groups.
        categories : array-like, default=None
            The categories to draw (at most 7), named without a look at the estimate; None takes the
            `k` that are the most frequent over all rows.
        k : int, default=5
            Number of categories to draw if none are named, at most 7.
        level : float, default=0.95
            Probability that all intervals hold at once.
        of : {"population", "users"}, default="population"
            Whom the intervals are about.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        TrendDisplay
            The display, already drawn.

        Raises
        ------
        ValueError
            If there is a single estimate, a category is not known, there are too many, or the
            estimate is post-processed.
        """
        n_rows, d = estimate.shape
        if n_rows < 2:
            raise ValueError(
                "TrendDisplay needs several estimates, got one: estimate.plot() draws a single "
                "one, and estimate_by_group makes one per week."
            )
        if categories is None:
            places = np.argsort(-estimate.values.mean(axis=0), kind="stable")[:k]
            how, which = "the largest estimates", "all"
        else:
            names = np.asarray(categories, dtype=object).tolist()
            places, missing = places_among(names, estimate.categories.tolist())
            if missing:
                raise ValueError(f"TrendDisplay knows no category {missing[0]!r} of the estimate.")
            how, which = "as named", "these"
        if not 1 <= len(places) <= _MOST_LINES:
            raise ValueError(
                f"TrendDisplay draws 1 to {_MOST_LINES} categories, got {len(places)}."
            )
        # The rows are of different users, hence independent; for those of a trend it is Sidak's
        # inequality.
        each = level ** (1 / n_rows)
        chosen = None if categories is None else sparse.eye_array(d, format="csr")[places]
        ends = estimate.confidence_interval(each, chosen, simultaneous=True, of=of)
        low, high = (end[:, places] if chosen is None else end for end in ends)
        rows = np.arange(n_rows) if estimate.row_names is None else estimate.row_names
        labels = [str(category) for category in estimate.categories[places].tolist()]
        return cls(
            rows,
            {label: estimate.values[:, p] for label, p in zip(labels, places, strict=True)},
            interval={label: (low[:, i], high[:, i]) for i, label in enumerate(labels)},
            level=level,
            description=f"{len(places):,} of {d:,} categories, {how}; intervals hold for {which} "
            f"categories and rows at once ({level:.0%})",
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> TrendDisplay:
        """Draw the lines and their bands.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        TrendDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = self._axes(ax, (8.0, 4.5))
        rows = np.asarray(self.rows)
        is_ordered = rows.dtype.kind in "iufM" or all(isinstance(x, Real) for x in rows.tolist())
        x = rows if is_ordered else np.arange(len(rows))
        # Such as "week 1" and "week 2", and not "women" and "men".
        is_series = is_ordered or len({re.sub(r"\d+", "", str(row)) for row in rows}) == 1
        looks = styles(self.frequencies)
        self.lines_: dict[Any, Any] = {}
        self.bands_: dict[Any, Any] = {}
        for label, values in self.frequencies.items():
            look = {**looks[label], "label": label, "markersize": 4}
            look = merged(look | ({} if is_series else {"linestyle": "none"}), kwargs)
            place = x if is_series else x + 0.06 * (len(self.lines_) - (len(looks) - 1) / 2)
            (self.lines_[label],) = ax.plot(place, values, **look)
            if is_series:
                band = {"color": look["color"], "alpha": 0.15, "linewidth": 0}
                self.bands_[label] = ax.fill_between(x, *self.interval[label], **band)
            else:
                self.bands_[label] = ax.vlines(place, *self.interval[label], look["color"])
        if is_ordered and len(rows) <= _MOST_TICKS:
            ax.set_xticks(x)
        if not is_ordered:
            name_ticks(ax.xaxis, x, rows, rotation=30, fontsize="small")
        ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
        ax.set_ylabel("frequency")
        ax.set_title(self.description, fontsize="small")
        legend_outside(ax)
        return self
