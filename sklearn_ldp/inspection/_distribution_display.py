"""Display of the distribution of a number: its density and its distribution function."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._utils.fitted import estimate_of
from ..inference import Estimate, check_level, quantiles
from ..queries import ranges
from ._base import COLORS, LINES, MARKERS, BaseDisplay, merged

_MOST_STEPS = 256  # places at which the distribution function has its band


@dataclass(eq=False, repr=False)
class DistributionDisplay(BaseDisplay):
    """The density and the distribution function of a number in bins, with bands and quantiles.

    The upper axes show the density of each bin, and the band of the mean density of (by default)
    16 ranges of bins, as the noise of single bins hides most. The lower axes show the share of
    users up to each number, with its band, and quantiles with their intervals. All bands are those
    of the raw estimate, also for a post-processed one; each holds everywhere at once.

    Use :meth:`from_estimate` or :meth:`from_estimator` to create a display. Another estimate is
    drawn on the same axes with ``ax=display.ax_``.

    Parameters
    ----------
    ends : array-like of shape (d + 1,)
        Where the bins begin and end.
    frequencies : array-like of shape (d,)
        Their estimated frequencies.
    density_band : tuple of three array-like or None, default=None
        The ends of k ranges, of shape (k + 1,), and the lower and upper ends of the intervals of
        their mean densities, of shape (k,).
    distribution_band : tuple of three array-like of shape (k,) or None, default=None
        Numbers, and the lower and upper ends of the intervals of the share of users up to them.
    quantiles : tuple of four array-like of shape (n_quantiles,) or None, default=None
        Probabilities, the quantiles, and the ends of their intervals.
    level : float, default=0.95
        Probability that a band holds everywhere.
    truth : array-like of shape (d,) or None, default=None
        True frequencies of the bins.
    name : str or None, default=None
        Name of the estimate in the legend.

    Attributes
    ----------
    ax_ : ndarray of two matplotlib Axes
        The axes of the density, and those of the distribution function.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    lines_ : list of two matplotlib Line2D
        The density and the distribution function.
    bands_ : list of matplotlib PolyCollection
        Their bands, if there are any.
    errorbar_ : matplotlib ErrorbarContainer or None
        The quantiles with their intervals; None if there are none.

    See Also
    --------
    FrequencyDisplay : The frequencies of categories without an order.
    sklearn_ldp.inference.quantiles : The quantiles themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import Domain, MonotoneCDF, RangeOracle
    >>> from sklearn_ldp.inspection import DistributionDisplay
    >>> heights = np.random.default_rng(0).normal(170, 10, size=20_000)
    >>> bins = Domain.bins(32, bounds=(130, 210), clip=True)
    >>> raw = RangeOracle(1.0, categories=bins, random_state=0).fit_transform(heights)
    >>> estimate = MonotoneCDF().fit_transform(raw)
    >>> display = DistributionDisplay.from_estimate(estimate, quantiles=[0.5])
    >>> _, median, low, high = display.quantiles
    >>> [round(float(one[0])) for one in (median, low, high)]
    [170, 169, 171]
    """

    ends: Any
    frequencies: Any
    _: KW_ONLY
    density_band: tuple[Any, Any, Any] | None = None
    distribution_band: tuple[Any, Any, Any] | None = None
    quantiles: tuple[Any, Any, Any, Any] | None = None
    level: float = 0.95
    truth: Any = None
    name: str | None = None

    @classmethod
    def from_estimate(
        cls,
        estimate: Estimate,
        *,
        quantiles: ArrayLike = (0.25, 0.5, 0.75),
        n_ranges: int = 16,
        level: float = 0.95,
        truth: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> DistributionDisplay:
        """Draw an estimate of bins between bounds.

        Parameters
        ----------
        estimate : FrequencyEstimate of shape (1, d)
            The estimate, raw or post-processed. Its raw values and their noise give the bands; if
            they are not known, there are none.
        quantiles : array-like of shape (n_quantiles,), default=(0.25, 0.5, 0.75)
            Probabilities of the quantiles to mark; an empty list marks none.
        n_ranges : int, default=16
            Number of ranges whose densities have a band; at most as many as there are bins.
        level : float, default=0.95
            Probability that a band holds everywhere, and that all intervals of quantiles hold.
        truth : array-like of shape (d,), default=None
            True frequencies of the bins.
        name : str, default=None
            Name of the estimate in the legend; None takes the names of its post-processors.
        ax : sequence of two matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        DistributionDisplay
            The display, already drawn.

        Raises
        ------
        ValueError
            If the categories are no bins between bounds, there are several estimates, or another
            parameter is not as described.
        """
        ends = _checked_ends(estimate, level, n_ranges, truth)
        raw, marked = estimate.as_raw(), None
        has_noise = raw.is_raw and raw.noise is not None
        if has_noise and np.size(quantiles):
            marked = _quantiles(estimate, quantiles, level)
        return cls(
            ends,
            estimate.values[0],
            density_band=_density_band(raw, ends, n_ranges, level) if has_noise else None,
            distribution_band=_distribution_band(raw, ends, level) if has_noise else None,
            quantiles=marked,
            level=level,
            truth=truth,
            name=" + ".join(estimate.postprocessors) or "raw estimate" if name is None else name,
        ).plot(ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, **kwargs: Any) -> DistributionDisplay:
        """Draw the estimate of a fitted oracle, post-processor, search or Pipeline.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted estimator.
        **kwargs : dict
            Passed to :meth:`from_estimate`.

        Returns
        -------
        DistributionDisplay
            The display, already drawn.
        """
        return cls.from_estimate(estimate_of(estimator), **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> DistributionDisplay:
        """Draw the distribution.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
            Axes to draw on, beside what other displays have drawn there; None creates a new
            figure.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.plot`, to change the look of both lines.

        Returns
        -------
        DistributionDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If `ax` is not two axes.
        """
        axes = self._axes(ax, (7.0, 6.0), nrows=2, sharex=True)
        if np.shape(axes) != (2,):
            raise ValueError(
                "DistributionDisplay draws on two axes, one for the density and one for the "
                "distribution function: give both, as ax=display.ax_, or leave out ax."
            )
        n_others = sum(hasattr(line, "display") for line in axes[0].lines)
        color = COLORS[n_others % len(COLORS)]
        look = merged(
            {"color": color, "linestyle": LINES[n_others % len(LINES)], "label": self.name}, kwargs
        )
        if self.truth is not None:
            self._draw(axes, self.truth, {"color": "black", "linewidth": 1, "label": "truth"})
        self.lines_: list[Any] = self._draw(axes, self.frequencies, look)
        self.lines_[0].display = self
        self._draw_bands(axes, look["color"], n_others)
        self._mark_quantiles(axes[1], look["color"], n_others)
        axes[0].axhline(0, color="grey", linewidth=0.8, zorder=0)
        axes[0].set_ylabel("density")
        axes[1].set_ylabel("share of users up to here")
        axes[1].set_ylim(-0.02, 1.02)
        axes[1].set_xlim(self.ends[0], self.ends[-1])
        for one in axes:
            one.grid(True, color="0.93", linewidth=0.6)
            one.set_axisbelow(True)
            if one.get_legend_handles_labels()[0]:
                one.legend(fontsize="small")
        return self

    def _draw(self, axes: Any, frequencies: Any, look: dict[str, Any]) -> list[Any]:
        """Draw the density and the distribution function of frequencies of the bins."""
        frequencies, widths = np.asarray(frequencies), np.diff(self.ends)
        heights = np.repeat(frequencies / widths, 2)
        (density,) = axes[0].plot(np.repeat(self.ends, 2)[1:-1], heights, **look)
        shares = np.append(0.0, np.cumsum(frequencies))
        (distribution,) = axes[1].plot(self.ends, shares, **{**look, "label": None})
        return [density, distribution]

    def _draw_bands(self, axes: Any, color: Any, n_others: int) -> None:
        self.bands_: list[Any] = []
        look = {"color": color, "alpha": 0.2, "linewidth": 0, "zorder": 1}
        percent = f"{100 * self.level:g} %"
        if self.density_band is not None:
            ends, low, high = (np.asarray(one) for one in self.density_band)
            label = None if n_others else f"{percent}, {len(low)} ranges at once"
            xs = np.repeat(ends, 2)[1:-1]
            low, high = np.repeat(low, 2), np.repeat(high, 2)
            self.bands_.append(axes[0].fill_between(xs, low, high, label=label, **look))
        if self.distribution_band is not None:
            label = None if n_others else f"{percent}, everywhere at once"
            self.bands_.append(axes[1].fill_between(*self.distribution_band, label=label, **look))

    def _mark_quantiles(self, ax: Any, color: Any, n_others: int) -> None:
        self.errorbar_: Any = None
        if self.quantiles is None:
            return
        places, values, low, high = (np.asarray(one) for one in self.quantiles)
        label = None if n_others else "quantiles, their intervals at once"
        self.errorbar_ = ax.errorbar(
            values,
            places,
            xerr=[values - low, high - values],
            color=color,
            marker=MARKERS[n_others % len(MARKERS)],
            markersize=5,
            linestyle="none",
            capsize=3,
            label=label,
        )
        for place, value in zip(places, values, strict=True):
            ax.annotate(
                f"{value:.3g}",
                (value, place),
                xytext=(7, -11 - 11 * n_others),
                textcoords="offset points",
                fontsize="small",
                color=color,
            )


def _checked_ends(estimate: Estimate, level: float, n_ranges: int, truth: Any) -> np.ndarray:
    """Return the ends of the bins, or say what is wrong."""
    ends = getattr(estimate.domain, "ends", None)
    if ends is None:
        raise ValueError(
            "DistributionDisplay needs an estimate whose categories are bins between bounds, such "
            "as Domain.bins(64, bounds=(0, 100)): draw other categories by FrequencyDisplay."
        )
    check_level(level)
    n_estimates, d = np.shape(estimate.values)
    if n_estimates != 1:
        raise ValueError(
            f"DistributionDisplay draws one estimate, got {n_estimates} rows; select one: "
            "estimate[0]."
        )
    if not isinstance(n_ranges, int) or n_ranges < 1:
        raise ValueError(f"Argument n_ranges must be an integer >= 1, got {n_ranges!r}.")
    if truth is not None and np.shape(truth) != (d,):
        raise ValueError(
            f"Argument truth must have shape ({d},), one frequency per bin, got {np.shape(truth)}."
        )
    return np.asarray(ends)


def _quantiles(estimate: Estimate, probabilities: ArrayLike, level: float) -> tuple:
    """Return probabilities, quantiles and the ends of their intervals, which hold at once."""
    value, low, high = quantiles(estimate, probabilities, level, simultaneous=True)
    return np.ravel(np.asarray(probabilities, dtype=float)), value[0], low[0], high[0]


def _density_band(raw: Estimate, ends: np.ndarray, n_ranges: int, level: float) -> tuple:
    """Return the ends of ranges, and the intervals of their mean densities."""
    d = len(ends) - 1
    edges = np.arange(min(n_ranges, d) + 1) * d // min(n_ranges, d)
    asked = ranges(np.column_stack([edges[:-1], edges[1:]]))
    low, high = raw.confidence_interval(level, asked, simultaneous=True)
    widths = np.diff(ends[edges])
    return ends[edges], low[0] / widths, high[0] / widths


def _distribution_band(raw: Estimate, ends: np.ndarray, level: float) -> tuple:
    """Return numbers, and the intervals of the share of users up to each of them."""
    d = len(ends) - 1
    stops = np.unique(np.linspace(1, d, min(d, _MOST_STEPS)).astype(int))[:-1]
    asked = ranges(np.column_stack([np.zeros_like(stops), stops]))
    low, high = raw.confidence_interval(level, asked, simultaneous=True)
    low = np.maximum.accumulate(np.clip(low[0], 0, 1))
    high = np.minimum.accumulate(np.clip(high[0], 0, 1)[::-1])[::-1]
    return ends[np.r_[0, stops, d]], np.r_[0.0, low, 1.0], np.r_[0.0, high, 1.0]
