"""A picture of an estimate."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from .._estimate import FrequencyEstimate, estimate_of


class FrequencyDisplay:
    """Estimated frequencies of the largest categories, with intervals and the truth.

    Use :meth:`from_estimate` or :meth:`from_estimator` to make one.

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

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure around it.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate
    >>> from sklearn_ldp.inspection import FrequencyDisplay
    >>> estimate = FrequencyEstimate([[0.6, 0.5, -0.1]], ["red", "green", "blue"])
    >>> display = FrequencyDisplay.from_estimate(estimate, truth=[0.5, 0.4, 0.1])
    """

    def __init__(self, categories, frequencies, *, interval=None, truth=None, name=None):
        self.categories = categories
        self.frequencies = frequencies
        self.interval = interval
        self.truth = truth
        self.name = name

    @classmethod
    def from_estimate(
        cls,
        estimate: FrequencyEstimate,
        *,
        k: int = 30,
        truth: Any = None,
        level: float = 0.95,
        name: str | None = None,
        ax: Any = None,
    ) -> FrequencyDisplay:
        """Draw the k largest categories of an estimate.

        Parameters
        ----------
        estimate : FrequencyEstimate of shape (1, d)
            What to draw. A raw one with a known noise level gets intervals.
        k : int, default=30
            How many categories; the largest by the truth, if it is given, else by the estimate.
        truth : array-like of shape (d,), default=None
            True frequencies.
        level : float, default=0.95
            Coverage of the intervals.
        name : str, default=None
            What the legend calls the estimate; None is the post-processor's name.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        FrequencyDisplay
            Drawn.
        """
        if not isinstance(estimate, FrequencyEstimate):
            raise TypeError(
                "FrequencyDisplay.from_estimate needs a FrequencyEstimate, got "
                f"{type(estimate).__name__}; wrap an array: FrequencyEstimate(values, categories)."
            )
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(f"Argument k must be an integer >= 1, got {k!r}.")
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
        order_by = estimate.values[0] if truth is None else np.asarray(truth)
        shown = np.argsort(-order_by, kind="stable")[:k]
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
            Where to draw; None makes a new figure.

        Returns
        -------
        FrequencyDisplay
            Itself, with `ax_` and `figure_`.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError(
                    "FrequencyDisplay needs matplotlib: pip install 'sklearn_ldp[plot]'."
                ) from error
            _, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
        place = np.arange(len(self.categories))
        if self.truth is not None:
            ax.plot(place, self.truth, "_", color="black", markersize=9, label="truth", zorder=3)
        if self.interval is not None:
            low, high = self.interval
            spread = np.array([self.frequencies - low, high - self.frequencies])
            ax.errorbar(
                place, self.frequencies, spread, fmt="none", ecolor="#0072b2", alpha=0.4, zorder=1
            )
        ax.plot(place, self.frequencies, "o", color="#0072b2", markersize=4, label=self.name)
        ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
        ax.set_xticks(place, [str(c) for c in self.categories], rotation=90, fontsize="small")
        for label in ax.get_xticklabels():
            label.set_parse_math(False)  # a category may hold dollar signs
        ax.set_ylabel("frequency")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self
