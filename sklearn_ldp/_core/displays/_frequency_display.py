"""Display of the estimated frequencies of categories, or of groups of categories."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.typing import Axes
from ..domains import has_bins, has_missing_numbers
from ..domains.values import places_among
from ..queries import Queries, as_query_set
from ..statistics import Estimate, table_intervals
from ._base import (
    EstimateDisplay,
    has_natural_order,
    look_of,
    merged,
    name_ticks,
    percent_axis,
    usual_name,
)

# Limits for categories drawn in order, and for names beside the axis of a figure of usual size.
_MOST_DRAWN = 256
_MOST_NAMES = 64
# The letters from which a name is turned, the inches of a row, and the letters that fit side by
# side; all chosen by eye.
_LONG = 10
_ROW = 0.16
_MOST_LETTERS = 40
# Shifts of the first, second, .. estimate from its category, in parts of the distance between
# categories; the first few are far apart. If categories are farther apart than `_MOST_STEP` points,
# the shifts do not grow with their distance.
_SHIFTS = (0.0, 0.32, -0.32, 0.16, -0.16, 0.48, -0.48)
_MOST_STEP = 20.0


@dataclass(eq=False, repr=False)
class FrequencyDisplay(EstimateDisplay):
    """Estimated frequencies of all or the largest categories, with intervals and the truth.

    With `queries` the display shows the answers to the queries, such as the total frequencies of
    groups. Then "category" means a query in the following text.

    The intervals are simultaneous for all categories of the domain. Intervals that are valid for
    each category alone would mislead, because the largest of many noisy estimates are large partly
    by their noise, and most of their intervals would miss the truth. ``estimate.summary()`` shows
    the same intervals. The labels of the axes state that the intervals are simultaneous, whether
    they belong to the raw estimate, and how many categories are shown.

    Use :meth:`from_estimate` or :meth:`from_estimator` to create a display. Pass
    ``ax=display.ax_`` to draw a second estimate of the same categories on the same axes. The second
    estimate keeps the order of the categories that are there, appears beside the first estimate,
    and has its own color and marker.

    Parameters
    ----------
    categories : array-like of shape (k,)
        The categories, or the groups, to show, in the order of the plot.
    frequencies : array-like of shape (k,)
        The estimated frequencies of these categories.
    interval : tuple of two array-like of shape (k,) or None, default=None
        Lower and upper ends of confidence intervals. If None, draw no intervals.
    level : float or None, default=None
        Simultaneous coverage of the intervals of all categories. If None, the axes do not mention
        it.
    is_raw : bool, default=True
        Whether the intervals are of this estimate. If False, they are of the raw estimate from
        which a post-processor computed this estimate.
    n_categories : int or None, default=None
        Number of categories in the domain; `categories` are some or all of them. If None, the axes
        do not mention the number.
    order : {"domain", "frequency"} or None, default=None
        The order of the categories, which the axes mention: the order of the domain, or the largest
        frequency first (the true frequency if `truth` is passed). If None, the axes do not mention
        it.
    truth : array-like of shape (k,) or None, default=None
        True frequencies. If None, draw none.
    name : str or None, default=None
        Name of the estimate in the legend.
    by : {"category", "rank"}, default="category"
        Whether the axis of the categories shows their names, or their ranks (1 for the largest).
    orientation : {"vertical", "horizontal"}, default="vertical"
        Direction in which the frequencies grow: upwards, or to the right with one row per
        category, which leaves room for long names.
    noun : str, default="categories"
        The word that the axes use for the categories.
    simultaneous : bool, default=True
        Whether the level applies to all intervals together. If False, it applies to each interval
        separately, and the intervals assume normal noise.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the estimate.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    errorbar_ : matplotlib ErrorbarContainer
        The markers of the estimate, and its intervals if they are drawn as bars.
    band_ : matplotlib PolyCollection or None
        The intervals, if they are drawn as a band (with ``by="rank"``).
    truth_ : matplotlib Line2D or None
        The true frequencies; None if there are none, or if an earlier display has drawn them.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate, NormSub
    >>> from sklearn_ldp.inspection import FrequencyDisplay
    >>> estimate = FrequencyEstimate([[0.6, 0.5, -0.1]], ["red", "green", "blue"])
    >>> display = FrequencyDisplay.from_estimate(estimate, truth=[0.5, 0.4, 0.1])
    >>> consistent = NormSub().fit_transform(estimate)
    >>> both = FrequencyDisplay.from_estimate(consistent, ax=display.ax_)

    Totals of groups:

    >>> from sklearn_ldp.queries import groups
    >>> kinds = groups(["warm", "cold", "cold"])
    >>> display = FrequencyDisplay.from_estimate(estimate, queries=kinds, truth=[0.5, 0.4, 0.1])
    >>> display.categories.tolist(), display.frequencies.tolist()
    (['cold', 'warm'], [0.4, 0.6])
    """

    categories: Any
    frequencies: Any
    _: KW_ONLY
    interval: tuple[ArrayLike, ArrayLike] | None = None
    level: float | None = None
    is_raw: bool = True
    n_categories: int | None = None
    order: str | None = None
    truth: Any = None
    name: str | None = None
    by: str = "category"
    orientation: str = "vertical"
    noun: str = "categories"
    simultaneous: bool = True

    @classmethod
    def from_estimate(
        cls,
        estimate: Estimate,
        *,
        queries: Queries | None = None,
        k: int | str | None = "auto",
        truth: ArrayLike | None = None,
        level: float = 0.95,
        order: str = "auto",
        name: str | None = None,
        by: str = "category",
        orientation: str = "auto",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> FrequencyDisplay:
        """Draw all categories of an estimate, or the k largest.

        Parameters
        ----------
        estimate : FrequencyEstimate of shape (1, d)
            The estimate to draw. It has intervals if its noise is known. After post-processing, the
            intervals belong to the raw estimate, and are not drawn beside another estimate.
        queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
            The queries whose answers to draw, such as ``groups(labels)`` of
            :mod:`sklearn_ldp.queries`. If None, draw the categories. For another estimate on the
            same axes, pass the same queries.
        k : int, None or "auto", default="auto"
            Number of categories to show: the largest by the truth if `truth` is passed, otherwise
            by the estimate. If None, show all. "auto" shows all of up to 256 bins, numbers or dates
            that are in the order of the domain, because readers could not see that some were left
            out. Otherwise "auto" shows 30 categories. Axes that already show an estimate keep their
            categories.
        truth : array-like of shape (d,), or mapping, default=None
            True frequencies of the categories, also with `queries`. A mapping from categories to
            frequencies, or a pandas Series indexed by category, may be in any order.
        level : float, default=0.95
            Simultaneous coverage of the intervals of all categories (or queries), including the
            categories that are not shown.
        order : {"auto", "domain", "frequency"}, default="auto"
            Order of the categories: the order of the domain, or the largest first, by the truth if
            `truth` is passed and otherwise by the estimate. "auto" uses the order of the domain,
            which the noise cannot change, if there is no truth and if all categories are shown or
            the categories are bins, or numbers or dates in rising order. Otherwise the largest are
            first. Axes that already show an estimate keep their order.
        name : str, default=None
            Name of the estimate in the legend. If None, use the names of its post-processors.
        by : {"category", "rank"}, default="category"
            Whether the axis of the categories shows their names or, for many categories, their
            ranks, which are always in the order of the frequencies. Axes that already show an
            estimate do not change.
        orientation : {"auto", "vertical", "horizontal"}, default="auto"
            Direction in which the frequencies grow. "auto" chooses horizontal bars if names are
            long (more than 10 letters), categories have no order, and there is room for their rows.
            Axes that already show an estimate keep their direction.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        FrequencyDisplay
            The display, already drawn.

        Raises
        ------
        TypeError
            If `estimate` is not an estimate.
        ValueError
            If there are several estimates, or another parameter is not valid.
        """
        truth = cls._check(estimate, truth, level)
        _check_options(k, order, by, orientation)
        categories = estimate.labels
        values = estimate.values[0]
        noun = "categories"
        query = None
        if queries is not None:
            query = as_query_set(queries).aligned(estimate.categories, estimate.domain)
            truth = None if truth is None else query.matrix(len(categories)) @ truth
            values = estimate.answer(query)[0]
            noun = "queries" if query.names is None else "groups"
            categories = np.asarray(range(len(values)) if query.names is None else query.names)
        first = next(iter(_displays_on(ax)), None)
        described = None  # only the first display on the axes describes the order
        if first is None:
            is_bins = query is None and has_bins(estimate.domain)
            is_line = has_natural_order(estimate.domain if query is None else None, categories)
            shown, described = _shown(is_line, values, k, truth, order, by)
            if orientation == "auto":
                is_turned = by == "category" and not is_line and _are_long(categories[shown], ax)
                orientation = "horizontal" if is_turned else "vertical"
            if is_bins:
                noun = "bins"
                if has_missing_numbers(estimate.domain):
                    noun = "bins, to scale with estimate.answered()"
                elif estimate.domain.ends is None:
                    noun = "bins, not to scale without bounds="
        else:
            shown = first._places_among(categories)
            by, orientation = first.by, first.orientation
        ends = None
        if estimate.noise is not None and (estimate.states_errors or first is None):
            ends = _interval(estimate, level, query)
        if name is None:
            name = usual_name(estimate)
        return cls(
            categories[shown],
            values[shown],
            interval=None if ends is None else (ends[0][shown], ends[1][shown]),
            level=None if ends is None else level,
            is_raw=estimate.states_errors,
            n_categories=len(categories),
            order=described,
            truth=None if truth is None else truth[shown],
            name=name,
            by=by,
            orientation=orientation,
            noun=noun,
            simultaneous=estimate.noise is None or not estimate.noise.presumes_normal,
        ).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> FrequencyDisplay:
        """Draw the estimate.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, which may already show other displays. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.errorbar`, to change the look of the estimate.

        Returns
        -------
        FrequencyDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the axes already show other categories.
        """
        others = _displays_on(ax)
        first = others[0] if others else self
        order = first._places_among(self.categories)
        size = (8.0, 4.5)
        if self.orientation == "horizontal":
            longest = max(len(str(name)) for name in self.categories)
            size = (5.2 + 0.08 * min(longest, 60), 1.2 + 0.22 * len(order))
        ax = self._axes(ax, size)
        if not others:
            self._prepare(ax)
        values = ax.yaxis if first.orientation == "vertical" else ax.xaxis
        if values.get_label_text() == _values_label(others):  # keep a label that the user wrote
            values.set_label_text(_values_label([*others, self]))
        place = np.arange(1.0, len(order) + 1)
        self.truth_: Any = None
        if self.truth is not None and all(other.truth is None for other in others):
            self.truth_ = first._draw_truth(ax, place, np.asarray(self.truth)[order])
        if first.by == "category":
            place += _SHIFTS[len(others) % len(_SHIFTS)] * min(1.0, _MOST_STEP / first._step(ax))
        self._draw_estimate(ax, place, order, first, len(others), kwargs)
        self.errorbar_.display = self  # for the next display on these axes
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
        return self

    def _step(self, ax: Any) -> float:
        """Return the distance between neighboring categories on the axes, in points (1/72 inch)."""
        box = ax.get_window_extent()
        extent = box.width if self.orientation == "vertical" else box.height
        return 72 * extent / ax.figure.dpi / len(self.categories)

    def _prepare(self, ax: Any) -> None:
        """Set the ticks, labels and limits of empty axes before the first display is drawn."""
        is_vertical = self.orientation == "vertical"
        values, names = (ax.yaxis, ax.xaxis) if is_vertical else (ax.xaxis, ax.yaxis)
        (ax.axhline if is_vertical else ax.axvline)(0, color="grey", linewidth=0.8, zorder=0)
        values.set_label_text(_values_label([]))
        percent_axis(values)
        names.set_label_text(self._names_label())
        if self.by == "category":
            n = len(self.categories)
            named = np.arange(0, n, -(-n // _MOST_NAMES))
            texts = [_cell_name(self.categories[i]) for i in named]
            is_crowded = sum(len(text) + 2 for text in texts) > _MOST_LETTERS
            look = {"rotation": 90 if is_vertical and is_crowded else 0, "fontsize": "small"}
            name_ticks(names, named + 1, texts, **look)
            (ax.set_xlim if is_vertical else ax.set_ylim)(0.4, n + 0.6)
            names.grid(True, color="0.93", linewidth=0.6)
            ax.set_axisbelow(True)
        if not is_vertical:
            ax.invert_yaxis()  # the first category at the top

    def _names_label(self) -> str:
        """Return the label of the category axis, with the number and the order of categories."""
        k, d = len(self.categories), self.n_categories
        if self.by == "rank":
            return "rank" if d in (k, None) else f"rank, the first {k:,} of {d:,} {self.noun}"
        if d is None:
            return ""
        kind = "estimates" if self.truth is None else "true frequencies"
        order = {"frequency": f"largest {kind} first"}
        if k < d:
            order["domain"] = f"only the largest {kind}"
        number = (f"all {k:,}" if k == d else f"{k:,} of {d:,}") + f" {self.noun}"
        # A label beside few rows has little room, so it is split into two lines.
        comma = ",\n" if self.orientation == "horizontal" and k < 15 else ", "
        return comma.join([number, order[self.order]] if self.order in order else [number])

    def _draw_truth(self, ax: Any, place: np.ndarray, truth: np.ndarray) -> Any:
        look: dict[str, Any] = {"linewidth": 1.2, "marker": "none"}
        if self.by == "category":
            marker = "_" if self.orientation == "vertical" else "|"
            look = {"linestyle": "none", "marker": marker, "markersize": 10, "markeredgewidth": 1.5}
        points = (place, truth) if self.orientation == "vertical" else (truth, place)
        (line,) = ax.plot(*points, color="black", label="truth", zorder=3, **look)
        return line

    def _draw_estimate(
        self, ax: Any, place: np.ndarray, order: np.ndarray, first: Any, i: int, kwargs: Any
    ) -> None:
        """Draw the markers and intervals of this estimate.

        i: the number of estimates that the axes already show. first: the display that drew the
        first.
        place: the positions of the categories on the axes. order: the category at each position.
        """
        from matplotlib.colors import to_rgba

        is_vertical = first.orientation == "vertical"
        is_bars = first.by == "category"
        usual = look_of(i)
        markers = {"linestyle": "none", "markersize": 4 if is_bars else 3, "label": self.name}
        look = merged(usual | markers, kwargs)
        self.band_: Any = None
        frequencies = np.asarray(self.frequencies)[order]
        bars = None
        if self.interval is not None:
            low, high = (np.asarray(end)[order] for end in self.interval)
            if is_bars:
                # An estimate below 0 is outside of its interval; its bar begins at its marker.
                bars = np.maximum([frequencies - low, high - frequencies], 0)
                # The caps are too small to see. The search for a place for the legend avoids caps
                # but not bars.
                look = {"ecolor": to_rgba(look["color"], 0.4), "capsize": 0.1, **look}
            else:
                fill = ax.fill_between if is_vertical else ax.fill_betweenx
                band = {"color": look["color"], "alpha": 0.2, "linewidth": 0}
                self.band_ = fill(place, low, high, zorder=1, **band)
        points = (place, frequencies) if is_vertical else (frequencies, place)
        look["yerr" if is_vertical else "xerr"] = bars
        self.errorbar_: Any = ax.errorbar(*points, **look)
        for bar in self.errorbar_.lines[2]:
            bar.set_linestyle(usual["linestyle"])

    def _places_among(self, categories: Any) -> np.ndarray:
        """Return, for each category of this display, its position in a list of categories."""
        mine, known = (np.asarray(names).tolist() for names in (self.categories, categories))
        places, missing = places_among(mine, known)
        if missing:
            raise ValueError(
                "FrequencyDisplay cannot draw on these axes: they show the category "
                f"{missing[0]!r}, which this estimate lacks. Pass other axes."
            )
        return places


def _displays_on(ax: Any) -> list[FrequencyDisplay]:
    """Return the displays whose estimates are on the axes, in the order of drawing."""
    containers = [] if ax is None else [item for item in ax.containers if hasattr(item, "display")]
    # Matplotlib before 3.11 keeps a container in the list after it has been removed.
    return [item.display for item in containers if any(part.axes for part in item.get_children())]


def _interval(estimate: Estimate, level: float, query: Any) -> Any:
    """Return the simultaneous intervals of the categories, or of the queries.

    The result is None if the noise of the estimate is unknown, so that there are no intervals.
    """
    try:
        low, high = table_intervals(estimate, level, query)
    except ValueError:
        if query is None and estimate.is_raw:
            raise
        return None  # the noise is known only for single categories, or raw values are missing
    return low[0], high[0]


def _shown(
    is_line: bool, values: np.ndarray, k: Any, truth: Any, order: str, by: str
) -> tuple[np.ndarray, str]:
    """Choose the categories that the display shows.

    is_line: whether the categories are bins, or numbers or dates in increasing order.
    Returns: the indices of the chosen categories in their order on the axis; and the name of this
    order, "domain" or "frequency".
    """
    largest = np.argsort(-(values if truth is None else truth), kind="stable")
    may_follow = order == "auto" and truth is None and by != "rank"
    if k == "auto":
        k = None if is_line and may_follow and len(largest) <= _MOST_DRAWN else 30
    shown = largest[:k]
    if order == "auto":
        order = "domain" if may_follow and (is_line or len(shown) == len(largest)) else "frequency"
    return (np.sort(shown) if order == "domain" else shown), order


def _are_long(names: np.ndarray, ax: Any) -> bool:
    """Return whether horizontal bars are better.

    They are if the names are long and the axes have room for one row per category.
    """
    height = np.inf if ax is None else ax.get_window_extent().height / ax.figure.dpi
    fits = len(names) <= _MOST_NAMES and height > _ROW * len(names)
    return bool(fits and max(len(str(name)) for name in names.tolist()) > _LONG)


def _values_label(displays: list[FrequencyDisplay]) -> str:
    """Return the label of the axis of frequencies, with a description of the intervals.

    displays: the displays on these axes.
    """
    drawn = [
        display
        for display in displays
        if display.interval is not None and display.level and display.n_categories
    ]
    if not drawn:
        return "frequency"
    levels = [f"{100 * display.level:.4g} %" for display in drawn if display.level]
    level = " and ".join(dict.fromkeys(levels))
    subject = "" if all(display.is_raw for display in drawn) else " of raw estimates"
    scope = f"all {drawn[0].n_categories:,} {displays[0].noun.partition(',')[0]}"
    if not all(display.simultaneous for display in drawn):
        return f"frequency, with {level}\nintervals{subject} of each category,\nif noise is normal"
    # The label has three lines because the axes are low if names are long.
    return f"frequency, with simultaneous\n{level} intervals{subject}\nfor {scope}"


def _check_options(k: Any, order: str, by: str, orientation: str) -> None:
    if k not in (None, "auto") and (not isinstance(k, Integral) or k < 1):
        raise ValueError(
            f'Argument k must be an integer >= 1, "auto" or None, got {k!r}. Use None to show all '
            "categories."
        )
    if order not in ("auto", "domain", "frequency"):
        raise ValueError(
            f'Argument order must be "auto", "domain" or "frequency", got {order!r}. Use '
            '"frequency" to show the largest first.'
        )
    if by == "rank" and order == "domain":
        raise ValueError(
            'FrequencyDisplay got by="rank" and order="domain", but ranks are in the order of the '
            'frequencies. Use by="category", or leave out order=.'
        )
    if by not in ("category", "rank"):
        raise ValueError(
            f'Argument by must be "category" or "rank", got {by!r}. Use "rank" only for many '
            "categories."
        )
    if orientation not in ("auto", "vertical", "horizontal"):
        known = '"auto", "vertical" or "horizontal"'
        raise ValueError(
            f"Argument orientation must be {known}, got {orientation!r}. Use "
            '"horizontal" for long names.'
        )


def _cell_name(category: Any) -> str:
    """Return the text for a category on an axis. The elements of a tuple are joined."""
    return ", ".join(map(str, category)) if isinstance(category, tuple) else str(category)
