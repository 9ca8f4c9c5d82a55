"""A display of what changed between two estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._style import merged, name_ticks, new_axes

_CHANGED, _OPEN = "#d55e00", "0.55"


class DifferenceDisplay:
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
    of : {"population", "users"}, default="population"
        Whom the differences are between.
    name : str, default="difference of frequencies"
        Label of the axis of the differences.

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

    ax_: Any
    figure_: Any
    changed_: Any
    open_: Any

    def __init__(
        self,
        categories: Any,
        differences: Any,
        *,
        interval: Any,
        level: float,
        n_categories: int | None = None,
        of: str = "population",
        name: str = "difference of frequencies",
    ) -> None:
        self.categories = categories
        self.differences = differences
        self.interval = interval
        self.level = level
        self.n_categories = n_categories
        self.of = of
        self.name = name

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
        name: str = "difference of frequencies",
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
        name : str, default="difference of frequencies"
            Label of the axis of the differences.
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
                "DifferenceDisplay needs a difference of two estimates (estimate_a - estimate_b), "
                f"got {type(difference).__name__}."
            )
        if len(difference) != 1:
            raise ValueError(
                f"DifferenceDisplay shows a single difference, got {len(difference)}: select a "
                "row of each estimate before you subtract them."
            )
        if k is not None and k < 1:
            raise ValueError(f"Argument k must be None or an integer >= 1, got {k!r}.")
        low, high = (
            end[0] for end in difference.confidence_interval(level, simultaneous=True, of=of)
        )
        values, d = difference.values[0], difference.shape[1]
        shown = np.arange(d)
        if k is not None and k < d:
            score = np.abs(values) / np.maximum(high - low, np.finfo(float).tiny)
            shown = np.sort(np.argsort(-score, kind="stable")[:k])
        display = cls(
            difference.categories[shown],
            values[shown],
            interval=(low[shown], high[shown]),
            level=level,
            n_categories=d,
            of=of,
            name=name,
        )
        return display.plot(ax, **kwargs)

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
        n = len(self.categories)
        if ax is None:
            ax = new_axes("DifferenceDisplay", (6.5, 1.2 + 0.22 * n))
        place = np.arange(1, n + 1)
        ax.axvline(0, color="black", linewidth=0.8, zorder=0)
        marks = self.is_changed
        self.changed_ = self._draw(ax, place, marks, _CHANGED, "o", "changed", kwargs)
        self.open_ = self._draw(ax, place, ~marks, _OPEN, "s", "may be unchanged", kwargs)
        name_ticks(ax.yaxis, place, self.categories, fontsize="small")
        ax.set_ylim(n + 0.6, 0.4)  # the first category at the top
        ax.yaxis.grid(True, color="0.93", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.set_xlabel(f"{self.name}, with intervals\nthat hold at once ({self.level:.0%})")
        d = self.n_categories
        if d is not None:
            few = "" if n == d else ", the clearest differences"
            ax.set_ylabel((f"all {n:,}" if n == d else f"{n:,} of {d:,}") + f" categories{few}")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize="small", frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(
        self, ax: Any, place: Any, mask: Any, color: str, marker: str, label: str, kwargs: Any
    ) -> Any:
        if not mask.any():
            return None
        x = np.asarray(self.differences)[mask]
        low, high = (np.asarray(end)[mask] for end in self.interval)
        look = {"color": color, "marker": marker, "linestyle": "none", "markersize": 4}
        return ax.errorbar(
            x, place[mask], xerr=[x - low, high - x], label=label, **merged(look, kwargs)
        )
