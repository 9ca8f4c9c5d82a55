"""A display of several estimates in a row: weeks, regions, treatment arms."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from ..domains.values import places_among
from ._style import legend_outside, merged, name_ticks, new_axes, styles

_MOST_LINES = 7  # as many colours as can be told apart
_MOST_TICKS = 12  # rows that each get a tick of their own


class TrendDisplay:
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
        The line of each category.
    bands_ : dict of str to matplotlib PolyCollection or ErrorbarContainer
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

    ax_: Any
    figure_: Any
    lines_: dict[str, Any]
    bands_: dict[str, Any]

    def __init__(
        self,
        rows: Any,
        frequencies: dict[str, Any],
        *,
        interval: dict[str, Any],
        level: float,
        description: str = "",
    ) -> None:
        self.rows = rows
        self.frequencies = frequencies
        self.interval = interval
        self.level = level
        self.description = description

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
            :func:`~sklearn_ldp.oracles.estimate_by_group`. Its `row_names` are the groups.
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
                "TrendDisplay needs several estimates, got one: see FrequencyDisplay for a single "
                "one, and estimate_by_group for one per week."
            )
        if categories is None:
            places = np.argsort(-estimate.values.mean(axis=0), kind="stable")[:k]
            description = f"{len(places):,} of {d:,} categories, the largest estimates"
            holds = "for all categories"
        else:
            names = np.asarray(categories, dtype=object).tolist()
            places, missing = places_among(names, estimate.categories.tolist())
            if missing:
                raise ValueError(f"TrendDisplay knows no category {missing[0]!r} of the estimate.")
            description = f"{len(places):,} of {d:,} categories, as named"
            holds = "for these categories"
        if not 1 <= len(places) <= _MOST_LINES:
            raise ValueError(
                f"TrendDisplay draws 1 to {_MOST_LINES} categories, got {len(places)}: draw "
                "several displays."
            )
        # The rows are of different users, hence independent.
        each = level ** (1 / n_rows)
        if categories is None:
            low, high = estimate.confidence_interval(each, simultaneous=True, of=of)
            low, high = low[:, places], high[:, places]
        else:
            chosen = sparse.eye_array(d, format="csr")[places]
            low, high = estimate.confidence_interval(each, chosen, simultaneous=True, of=of)
        rows = np.arange(n_rows) if estimate.row_names is None else estimate.row_names
        labels = [str(category) for category in estimate.categories[places].tolist()]
        display = cls(
            rows,
            {label: estimate.values[:, p] for label, p in zip(labels, places, strict=True)},
            interval={label: (low[:, i], high[:, i]) for i, label in enumerate(labels)},
            level=level,
            description=f"{description}; bands hold {holds} and rows at once ({level:.0%})",
        )
        return display.plot(ax, **kwargs)

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
        if ax is None:
            ax = new_axes("TrendDisplay", (8.0, 4.5))
        rows = np.asarray(self.rows)
        is_ordered = rows.dtype.kind in "iufM" or all(isinstance(x, Real) for x in rows.tolist())
        x = rows if is_ordered else np.arange(len(rows))
        looks = styles(self.frequencies)
        self.lines_, self.bands_ = {}, {}
        for label, values in self.frequencies.items():
            look = merged({**looks[label], "label": label, "markersize": 4}, kwargs)
            (self.lines_[label],) = ax.plot(x, values, **look)
            low, high = self.interval[label]
            self.bands_[label] = ax.fill_between(
                x, low, high, color=look["color"], alpha=0.15, linewidth=0
            )
        if is_ordered and len(rows) <= _MOST_TICKS:
            ax.set_xticks(x)
        if not is_ordered:
            name_ticks(ax.xaxis, x, rows, rotation=30, fontsize="small")
        ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
        ax.set_ylabel("frequency")
        ax.set_title(self.description, fontsize="small")
        legend_outside(ax)
        for text in ax.get_legend().get_texts():
            text.set_parse_math(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
