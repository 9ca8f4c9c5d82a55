"""A picture of estimates."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .._estimate import FrequencyEstimate
from .._released import estimate_of
from ._style import COLORS, LINES, MARKERS, new_axes


@dataclass
class _Canvas:
    """What displays have drawn on some axes, so that the next one lies on it."""

    categories: list
    by: str
    has_truth: bool = False
    names: list[str] = field(default_factory=list)


_canvases: WeakKeyDictionary[Any, _Canvas] = WeakKeyDictionary()


class FrequencyDisplay:
    """Estimated frequencies of the largest categories, with intervals and the truth.

    Use :meth:`from_estimate` or :meth:`from_estimator` to make one. Another estimate of the same
    categories goes on the same axes by ``ax=display.ax_``: it keeps the order of the categories
    that are there, stands beside the first one and gets a colour and a marker of its own.

    Parameters
    ----------
    categories : ndarray of shape (k,)
        What is shown, in the order of the picture.
    frequencies : ndarray of shape (k,)
        Their estimates.
    interval : tuple of two ndarray of shape (k,) or None, default=None
        Lower and upper ends of confidence intervals.
    truth : ndarray of shape (k,) or None, default=None
        True frequencies.
    name : str or None, default=None
        What the legend calls the estimate.
    by : {"category", "rank"}, default="category"
        What the x axis shows: the names of the categories, or their ranks.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure around it.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate, NormSub
    >>> from sklearn_ldp.inspection import FrequencyDisplay
    >>> estimate = FrequencyEstimate([[0.6, 0.5, -0.1]], ["red", "green", "blue"])
    >>> display = FrequencyDisplay.from_estimate(estimate, truth=[0.5, 0.4, 0.1])
    >>> consistent = NormSub().fit_transform(estimate)
    >>> both = FrequencyDisplay.from_estimate(consistent, ax=display.ax_)
    """

    def __init__(
        self,
        categories: Any,
        frequencies: Any,
        *,
        interval: Any = None,
        truth: Any = None,
        name: str | None = None,
        by: str = "category",
    ) -> None:
        self.categories = categories
        self.frequencies = frequencies
        self.interval = interval
        self.truth = truth
        self.name = name
        self.by = by

    @classmethod
    def from_estimate(
        cls,
        estimate: FrequencyEstimate,
        *,
        k: int | None = 30,
        truth: Any = None,
        level: float = 0.95,
        name: str | None = None,
        by: str = "category",
        ax: Any = None,
    ) -> FrequencyDisplay:
        """Draw the k largest categories of an estimate.

        Parameters
        ----------
        estimate : FrequencyEstimate of shape (1, d)
            What to draw. A raw one with a known noise level gets intervals.
        k : int or None, default=30
            How many categories; the largest by the truth, if it is given, else by the estimate.
            None takes all. On axes that show an estimate already, the categories are those.
        truth : array-like of shape (d,), default=None
            True frequencies.
        level : float, default=0.95
            Coverage of the intervals.
        name : str, default=None
            What the legend calls the estimate; None is the post-processor's name.
        by : {"category", "rank"}, default="category"
            What the x axis shows: the names of the categories, or for many of them their ranks.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        FrequencyDisplay
            Drawn.
        """
        _check(estimate, k, truth, by)
        canvas = _canvas(ax)
        if canvas is None:
            order_by = estimate.values[0] if truth is None else np.asarray(truth)
            shown = np.argsort(-order_by, kind="stable")[:k]
        else:
            shown = _places(canvas, estimate.categories.tolist())
            by = canvas.by
        interval = None
        if estimate.is_raw and estimate.noise is not None:
            low, high = estimate.confidence_interval(level)
            interval = low[0, shown], high[0, shown]
        if name is None:
            name = " + ".join(estimate.postprocessors) or "raw estimate"
        display = cls(
            estimate.categories[shown],
            estimate.values[0, shown],
            interval=interval,
            truth=None if truth is None else np.asarray(truth)[shown],
            name=name,
            by=by,
        )
        return display.plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, **kwargs: Any) -> FrequencyDisplay:
        """Draw the estimate of a fitted oracle, post-processor, search or Pipeline.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted.
        **kwargs : dict
            As for :meth:`from_estimate`.

        Returns
        -------
        FrequencyDisplay
            Drawn.
        """
        return cls.from_estimate(estimate_of(estimator), **kwargs)

    def plot(self, ax: Any = None) -> FrequencyDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw, beside what another display has drawn there; None makes a new figure.

        Returns
        -------
        FrequencyDisplay
            Itself, with `ax_` and `figure_`.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If other categories are on the axes already.
        """
        if ax is None:
            ax = new_axes("FrequencyDisplay", (8.0, 4.5))
        canvas = _canvas(ax)
        if canvas is None:
            canvas = _Canvas(np.asarray(self.categories).tolist(), self.by)
            self._prepare(ax)
        order = _places(canvas, np.asarray(self.categories).tolist())
        n_before = len(canvas.names)
        place = np.arange(1.0, len(order) + 1)
        if self.truth is not None and not canvas.has_truth:
            self._draw_truth(ax, place, np.asarray(self.truth)[order])
            canvas.has_truth = True
        if self.by == "category" and n_before:
            place += 0.22 * ((n_before + 1) // 2) * (-1) ** n_before
        self._draw_estimate(ax, place, order, n_before)
        canvas.names.append(str(self.name))
        _canvases[ax] = canvas
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _prepare(self, ax: Any) -> None:
        ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
        ax.set_ylabel("frequency")
        if self.by == "rank":
            ax.set_xlabel("rank")
            return
        texts = [str(c) for c in self.categories]
        ax.set_xticks(np.arange(1, len(texts) + 1), texts, rotation=90, fontsize="small")
        for label in ax.get_xticklabels():
            label.set_parse_math(False)  # a category may hold dollar signs

    def _draw_truth(self, ax: Any, place: np.ndarray, truth: np.ndarray) -> None:
        if self.by == "rank":
            ax.plot(place, truth, "-", color="black", linewidth=1.2, label="truth", zorder=3)
        else:
            ax.plot(place, truth, "_", color="black", markersize=9, label="truth", zorder=3)

    def _draw_estimate(self, ax: Any, place: np.ndarray, order: np.ndarray, i: int) -> None:
        color, marker = COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]
        frequencies = np.asarray(self.frequencies)[order]
        size = 4 if self.by == "category" else 3
        ax.plot(
            place, frequencies, marker, linestyle="", color=color, markersize=size, label=self.name
        )
        if self.interval is None:
            return
        low, high = (np.asarray(end)[order] for end in self.interval)
        if self.by == "rank":
            ax.fill_between(place, low, high, color=color, alpha=0.2, linewidth=0, zorder=1)
            return
        bars = ax.errorbar(
            place,
            frequencies,
            np.array([frequencies - low, high - frequencies]),
            fmt="none",
            ecolor=color,
            alpha=0.4,
            zorder=1,
        )
        bars[2][0].set_linestyle(LINES[i % len(LINES)])


def _check(estimate: Any, k: Any, truth: Any, by: str) -> None:
    if not isinstance(estimate, FrequencyEstimate):
        raise TypeError(
            "FrequencyDisplay.from_estimate needs a FrequencyEstimate, got "
            f"{type(estimate).__name__}; wrap an array: FrequencyEstimate(values, categories)."
        )
    if k is not None and (not isinstance(k, Integral) or k < 1):
        raise ValueError(f"Argument k must be an integer >= 1 or None, got {k!r}.")
    if by not in ("category", "rank"):
        raise ValueError(f'Argument by must be "category" or "rank", got {by!r}.')
    if truth is not None and np.shape(truth) != (estimate.shape[1],):
        raise ValueError(
            f"Argument truth must have shape ({estimate.shape[1]},), one frequency a category, "
            f"got {np.shape(truth)}."
        )
    if len(estimate) != 1:
        raise ValueError(
            f"FrequencyDisplay draws one estimate, got {len(estimate)} rows; select one: "
            "estimate[0]."
        )


def _canvas(ax: Any) -> _Canvas | None:
    """What is on the axes, unless they are new or have been cleared."""
    return _canvases.get(ax) if ax is not None and ax.lines else None


def _places(canvas: _Canvas, categories: list) -> np.ndarray:
    """Where the categories of the axes are among these."""
    where = {category: i for i, category in enumerate(categories)}
    missing = [category for category in canvas.categories if category not in where]
    if missing:
        raise ValueError(
            f"FrequencyDisplay cannot draw beside what is on these axes: {missing[0]!r} is there "
            "and not in this estimate; give other axes."
        )
    return np.array([where[category] for category in canvas.categories])
