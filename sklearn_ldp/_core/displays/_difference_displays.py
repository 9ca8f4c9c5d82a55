"""Displays of differences between two estimates, and of trends over several estimates."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from ..domains.values import places_among
from ..statistics import EstimateDifference, compared, if_normal
from ._base import (
    BaseDisplay,
    has_natural_order,
    legend_outside,
    merged,
    name_rows,
    name_ticks,
    of_users,
    percent_axis,
    refuse_truth,
    styles,
)

_CHANGED = "#d55e00"
_OPEN = "0.55"
_MOST_LINES = 7  # the number of colors that readers can distinguish
_MOST_TICKS = 12  # the largest number of rows that all have a tick


@dataclass(eq=False, repr=False)
class DifferenceDisplay(BaseDisplay):
    """Differences of the frequencies of two estimates, with simultaneous intervals.

    A category is marked as changed if its interval does not contain 0. The intervals of all
    categories of the domain are simultaneous, so the marks are valid whichever categories are
    shown.

    Use :meth:`from_difference` to create a display.

    Parameters
    ----------
    categories : array-like of shape (k,)
        The categories to show, from top to bottom.
    differences : array-like of shape (k,)
        The differences between the estimated frequencies of these categories.
    interval : tuple of two array-like of shape (k,)
        Lower and upper ends of the intervals.
    level : float
        Simultaneous coverage of the intervals of all `n_categories` categories.
    n_categories : int or None, default=None
        Number of categories in the domain; `categories` are some or all of them. If None, the axes
        do not mention the number.
    condition : str, default=""
        A condition under which the level is valid, such as ", if noise is normal".

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the differences.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    changed_, open_ : matplotlib ErrorbarContainer or None
        The markers of categories whose intervals exclude 0, and of the other categories; each is
        None if there are no such categories.

    See Also
    --------
    sklearn_ldp.inference.EstimateDifference : The differences that the display draws.

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.inspection import DifferenceDisplay
    >>> oracle = OUE(2.0, categories=["a", "b", "c"], random_state=0)
    >>> may = oracle.fit_transform(["a", "b", "b", "c"] * 5000)
    >>> june = oracle.fit_transform(["a", "b", "c", "c"] * 5000)
    >>> display = DifferenceDisplay.from_difference(june - may)
    >>> display.categories.tolist(), display.is_changed.tolist()
    (['c', 'a', 'b'], [True, False, True])
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
        """A Boolean array of shape (k,): whether the interval of each shown category excludes 0."""
        low, high = (np.asarray(end) for end in self.interval)
        return (low > 0) | (high < 0)

    @classmethod
    def from_difference(
        cls,
        difference: Any,
        *,
        k: int | None = 30,
        level: float = 0.95,
        of: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> DifferenceDisplay:
        """Draw a difference of two estimates.

        Parameters
        ----------
        difference : EstimateDifference of shape (1, d)
            For example ``june - may``.
        k : int or None, default=30
            Number of categories to show: those whose differences are the most standard deviations
            away from 0. If None, show all. The largest difference is at the top; bins, and numbers
            or dates in rising order, keep the order of the domain.
        level : float, default=0.95
            Simultaneous coverage of the intervals of all d categories.
        of : {"population", "users"}, default=None
            Whether the intervals are for differences between the populations of which the users are
            random samples, or between the users themselves; None as for
            :class:`~sklearn_ldp.inference.EstimateDifference`.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        DifferenceDisplay
            The display, already drawn.

        Raises
        ------
        TypeError
            If `difference` is not a difference of estimates.
        ValueError
            If there are several differences, or k is not positive.
        """
        refuse_truth(cls.__name__, kwargs)
        if not hasattr(difference, "changed"):
            raise TypeError(
                "DifferenceDisplay needs a difference of two estimates, got "
                f"{type(difference).__name__}. Pass estimate_a - estimate_b."
            )
        if len(difference) != 1:
            raise ValueError(
                f"DifferenceDisplay draws one difference, got {len(difference)}. Subtract two "
                "single estimates."
            )
        if k is not None and k < 1:
            raise ValueError(f"Argument k must be None or an integer >= 1, got {k!r}.")
        ends = difference.confidence_interval(level, simultaneous=True, of=of)
        low, high = (end[0] for end in ends)
        values = difference.values[0]
        d = difference.shape[1]
        shown = np.arange(d)
        if k is not None and k < d:
            score = np.abs(values) / np.maximum(high - low, np.finfo(float).tiny)
            shown = np.sort(np.argsort(-score, kind="stable")[:k])
        if not has_natural_order(difference.one.domain, difference.categories):
            shown = shown[np.argsort(-values[shown], kind="stable")]
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
            Axes to draw on. If None, create a new figure.
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
        n = len(self.categories)
        d = self.n_categories
        ax = self._axes(ax, (6.5, 1.2 + 0.22 * n))
        ax.axvline(0, color="black", linewidth=0.8, zorder=0)
        place = name_rows(ax, self.categories, grid="y", fontsize="small")
        marks = self.is_changed
        self.changed_: Any = self._draw(ax, place, marks, _CHANGED, "o", "changed", kwargs)
        self.open_: Any = self._draw(ax, place, ~marks, _OPEN, "s", "may be unchanged", kwargs)
        ends = f"simultaneous\n{100 * self.level:g} % intervals{self.condition}"
        ax.set_xlabel(f"difference in percentage points, with {ends}")
        percent_axis(ax.xaxis, unit="")
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
    """Frequencies of some categories over several estimates (such as weeks), with intervals.

    Bands show the intervals. If you pass the categories, the intervals are simultaneous for these
    categories in all estimates. If the display selects the largest categories, the intervals are
    simultaneous for all categories of the domain in all estimates. The title states which case
    applies.

    Use :meth:`from_estimate` to create a display.

    Parameters
    ----------
    rows : array-like of shape (n_estimates,)
        The label of each estimate, such as a week.
    frequencies : dict of str to array-like of shape (n_estimates,)
        The estimated frequencies of each category that is drawn.
    interval : dict of str to tuple of two array-like of shape (n_estimates,)
        Lower and upper ends of the intervals.
    level : float
        Simultaneous coverage of all intervals.
    description : str, default=""
        Title of the axes, which states the quantity and the coverage of the bands.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the lines.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    lines_ : dict of str to matplotlib Line2D
        The line of each category. There are only markers if the rows have no order, such as groups.
    bands_ : dict of str to matplotlib PolyCollection or LineCollection
        The intervals of each category.

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
        of: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> TrendDisplay:
        """Draw the frequencies of categories over the rows of an estimate, such as weeks.

        Parameters
        ----------
        estimate : FrequencyEstimate of shape (n_estimates, d)
            A raw estimate of two or more groups of different users (see
            :func:`~sklearn_ldp.oracles.estimate_by_group`), or such an estimate after
            :class:`~sklearn_ldp.Trend`. Its `row_names` are the groups.
        categories : array-like, default=None
            The categories to draw, at most 7, chosen without looking at the estimate. If None, draw
            the `k` categories that are the most frequent over all rows.
        k : int, default=5
            Number of categories to draw if `categories` is None, at most 7.
        level : float, default=0.95
            Simultaneous coverage of all intervals.
        of : {"population", "users"}, default=None
            Whether the intervals are for the populations of which the users are random samples, or
            for the users themselves. If None, it is the users for noisy counts of all users (see
            :meth:`FrequencyEstimate.from_counts`), and otherwise the populations.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        TrendDisplay
            The display, already drawn.

        Raises
        ------
        ValueError
            If there is a single estimate, a category is unknown, there are too many categories, or
            the estimate is post-processed.
        """
        refuse_truth(cls.__name__, kwargs)
        n_rows, d = estimate.shape
        if n_rows < 2:
            raise ValueError(
                "TrendDisplay needs an estimate with several rows, got 1 row. Draw a single row "
                "with estimate.plot(), or create an estimate with one row per week by "
                "estimate_by_group."
            )
        if categories is None:
            places = np.argsort(-estimate.values.mean(axis=0), kind="stable")[:k]
            how = "the largest estimates"
            which = "all"
        else:
            names = np.asarray(categories, dtype=object).tolist()
            places, missing = places_among(names, estimate.categories.tolist())
            if missing:
                raise ValueError(
                    f"TrendDisplay got the category {missing[0]!r}, which is not a category of the "
                    "estimate. Pass elements of estimate.categories."
                )
            how = "as named"
            which = "these"
        if not 1 <= len(places) <= _MOST_LINES:
            raise ValueError(
                f"TrendDisplay draws 1 to {_MOST_LINES} categories, got {len(places)}. Pass 1 to "
                f"{_MOST_LINES} categories as categories=, or a number from 1 to {_MOST_LINES} as "
                "k=."
            )
        # The rows are independent because their users differ. For the rows of a trend, Sidak's
        # inequality gives the same bound.
        each = level ** (1 / n_rows)
        chosen = None if categories is None else sparse.eye_array(d, format="csr")[places]
        of = compared(of, estimate)
        ends = estimate.confidence_interval(each, chosen, simultaneous=True, of=of)
        low, high = (end[:, places] if chosen is None else end for end in ends)
        rows = np.arange(n_rows) if estimate.row_names is None else estimate.row_names
        labels = [str(category) for category in estimate.categories[places].tolist()]
        return cls(
            rows,
            {label: estimate.values[:, p] for label, p in zip(labels, places, strict=True)},
            interval={label: (low[:, i], high[:, i]) for i, label in enumerate(labels)},
            level=level,
            description=f"{len(places):,} of {d:,} categories, {how}{of_users(estimate)}; "
            f"intervals are simultaneous for {which} categories and rows ({100 * level:g} %)",
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> TrendDisplay:
        """Draw the lines and their bands.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
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
        # "week 1" and "week 2" have an order, "women" and "men" do not.
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
        elif rows.dtype.kind in "iu":
            ax.xaxis.get_major_locator().set_params(integer=True)
        if is_ordered and rows.dtype.kind != "M" and not ax.get_xlabel():
            ax.set_xlabel("row of the estimate")
        if not is_ordered:
            name_ticks(ax.xaxis, x, rows, rotation=30, fontsize="small")
        ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
        ax.set_ylabel("frequency")
        percent_axis(ax.yaxis)
        ax.set_title(self.description, fontsize="small")
        legend_outside(ax)
        return self
