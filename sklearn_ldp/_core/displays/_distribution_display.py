"""Display of the distribution of numbers: the density and the cumulative distribution function."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.text import number_texts
from ..domains import ends_of, is_log
from ..queries import ranges
from ..statistics import Estimate
from ..statistics import quantiles as quantiles_of
from ._base import COLORS, LINES, MARKERS, EstimateDisplay, merged, usual_name

_MOST_RANGES = 16  # the number of ranges of bins whose densities have a band
_MOST_STEPS = 256  # the number of points at which the distribution function has its band


@dataclass(eq=False, repr=False)
class DistributionDisplay(EstimateDisplay):
    """The density and the distribution function of numbers in bins, with bands and quantiles.

    The upper axes show the density of each bin, with a band of intervals. The band is for the mean
    densities of (by default) 16 ranges of bins, because intervals of single bins would be too long
    to show the shape. The lower axes show the distribution function (the share of users up to each
    number) with its band, and quantiles with their intervals. If bins grow by about the same factor
    (``Domain.bins(.., scale="log")``), the axis is logarithmic, and a density is the share of users
    per factor of 10. All bands are computed from the raw estimate, even if the estimate is
    post-processed. The intervals of each band are simultaneous.

    Use :meth:`from_estimate` or :meth:`from_estimator` to create a display. Pass
    ``ax=display.ax_`` to draw a second estimate on the same axes.

    Parameters
    ----------
    ends : array-like of shape (d + 1,)
        The ends of the bins, in rising order.
    frequencies : array-like of shape (d,)
        The estimated frequencies of the bins.
    density_band : tuple of three array-like or None, default=None
        Three arrays: the ends of k ranges of bins, of shape (k + 1,); the lower ends, and the upper
        ends, of the intervals of their mean densities, each of shape (k,).
    distribution_band : tuple of three array-like of shape (k,) or None, default=None
        Three arrays: numbers; the lower ends, and the upper ends, of the intervals of the share of
        users up to each number.
    quantiles : tuple of four array-like of shape (n_quantiles,) or None, default=None
        Four arrays: probabilities, the quantiles, and the lower and upper ends of their intervals.
    level : float, default=0.95
        Simultaneous coverage of each band.
    truth : array-like of shape (d,) or None, default=None
        True frequencies of the bins.
    name : str or None, default=None
        Name of the estimate in the legend.

    Attributes
    ----------
    ax_ : ndarray of two matplotlib Axes
        The axes of the density, and the axes of the distribution function.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    lines_ : list of two matplotlib Line2D
        The density and the distribution function.
    bands_ : list of matplotlib PolyCollection
        The bands of both functions; empty if there are none.
    errorbar_ : matplotlib ErrorbarContainer or None
        The quantiles with their intervals; None if there are none.

    See Also
    --------
    FrequencyDisplay : The frequencies of categories without an order.
    sklearn_ldp.inference.quantiles : Estimates of quantiles, with intervals.

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
    [170, 168, 172]
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
            The estimate, raw or post-processed. The bands are computed from its raw values and from
            the covariances of their noise. If these are unknown, there are no bands.
        quantiles : array-like of shape (n_quantiles,), default=(0.25, 0.5, 0.75)
            Probabilities of the quantiles to mark; an empty list marks none.
        level : float, default=0.95
            Simultaneous coverage of each band, and of the intervals of all quantiles.
        truth : array-like of shape (d,), or mapping, default=None
            True frequencies of the bins. A mapping from bins to frequencies, or a pandas Series
            indexed by bin, may be in any order.
        name : str, default=None
            Name of the estimate in the legend. If None, use the names of its post-processors.
        ax : sequence of two matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        DistributionDisplay
            The display, already drawn.

        Raises
        ------
        ValueError
            If the categories are not bins between bounds, there are several estimates, or another
            parameter is not valid.
        """
        truth = cls._check(estimate, truth, level)
        ends = ends_of(estimate.domain, "DistributionDisplay")
        raw = estimate.as_raw()
        d = len(ends) - 1
        density = distribution = marked = None
        n_ranges = min(_MOST_RANGES, d)
        edges = np.arange(n_ranges + 1) * d // n_ranges
        widths = _widths(ends)(ends[edges])
        probabilities = np.ravel(np.asarray(quantiles, dtype=float))
        # There are no bands if raw values, their noise or its covariances are unknown.
        with suppress(ValueError):
            low, high = _band(raw, level, edges[:-1], edges[1:])
            density = (ends[edges], low / widths, high / widths)
            stops = np.unique(np.linspace(1, d, min(d, _MOST_STEPS)).astype(int))[:-1]
            low, high = _band(raw, level, np.zeros_like(stops), stops)
            low = np.maximum.accumulate(np.clip(low, 0, 1))  # no decrease
            high = np.minimum.accumulate(np.clip(high, 0, 1)[::-1])[::-1]
            distribution = (ends[np.r_[0, stops, d]], np.r_[0.0, low, 1.0], np.r_[0.0, high, 1.0])
        if density is not None and probabilities.size:
            intervals = quantiles_of(estimate, quantiles, level, simultaneous=True)
            marked = (probabilities, intervals.value[0], intervals.low[0], intervals.high[0])
        return cls(
            ends,
            estimate.values[0],
            density_band=density,
            distribution_band=distribution,
            quantiles=marked,
            level=level,
            truth=truth,
            name=usual_name(estimate) if name is None else name,
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> DistributionDisplay:
        """Draw the distribution.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
            Axes to draw on, which may already show other displays. If None, create a new figure.
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
                f"DistributionDisplay needs two axes, got ax={ax!r:.80}. Pass a pair of axes, such "
                "as ax=display.ax_, or omit ax=."
            )
        n_others = sum(hasattr(line, "display") for line in axes[0].lines)
        color = COLORS[n_others % len(COLORS)]
        look = {"color": color, "linestyle": LINES[n_others % len(LINES)], "label": self.name}
        look = merged(look, kwargs)
        if self.truth is not None:
            self._draw(axes, self.truth, {"color": "black", "linewidth": 1, "label": "truth"})
        self.lines_: list[Any] = self._draw(axes, self.frequencies, look)
        self.lines_[0].display = self
        self._draw_bands(axes, look["color"], is_first=not n_others)
        self.errorbar_: Any = None
        if self.quantiles is not None:
            self.errorbar_ = self._mark_quantiles(axes[1], look["color"], n_others)
        axes[0].axhline(0, color="grey", linewidth=0.8, zorder=0)
        axes[0].set_ylabel("density")
        if is_log(self.ends):
            axes[0].set(xscale="log", ylabel="share per factor of 10")
        if self.ends[-1] >= 1e4:
            axes[1].xaxis.set_major_formatter("{x:,.12g}")
        axes[1].set(ylabel="share of users up to here", ylim=(-0.02, 1.02))
        axes[1].set_xlim(self.ends[0], self.ends[-1])
        for ax in axes:
            ax.grid(True, color="0.93", linewidth=0.6)
            ax.set_axisbelow(True)
            if ax.get_legend_handles_labels()[0]:
                ax.legend(fontsize="small")
        return self

    def _draw(self, axes: Any, frequencies: Any, look: dict[str, Any]) -> list[Any]:
        """Draw two lines, the density and the distribution function, and return them.

        axes: the axes of the density, and the axes of the distribution function.
        frequencies: the frequencies of the bins, of shape (d,).
        look: matplotlib keywords of both lines.
        """
        heights = np.repeat(np.asarray(frequencies) / _widths(self.ends)(self.ends), 2)
        look = {"marker": "none", **look}  # the user's cycle of styles may have markers
        density = axes[0].plot(np.repeat(self.ends, 2)[1:-1], heights, **look)
        shares = np.append(0.0, np.cumsum(frequencies))
        return density + axes[1].plot(self.ends, shares, **{**look, "label": None})

    def _draw_bands(self, axes: Any, color: Any, *, is_first: bool) -> None:
        """Draw the bands of the density and of the distribution function, if there are any.

        is_first: whether no other display is on the axes; only then the legends mention the bands.
        """
        self.bands_: list[Any] = []
        look = {"color": color, "alpha": 0.2, "linewidth": 0, "zorder": 1}
        drawn = []
        if self.density_band is not None:
            ends, low, high = map(np.asarray, self.density_band)
            steps = (np.repeat(ends, 2)[1:-1], np.repeat(low, 2), np.repeat(high, 2))
            drawn.append((axes[0], steps, f"{len(ends) - 1} ranges"))
        if self.distribution_band is not None:
            drawn.append((axes[1], self.distribution_band, "everywhere"))
        for ax, band, where in drawn:
            label = f"{100 * self.level:g} %, simultaneous, {where}" if is_first else None
            self.bands_.append(ax.fill_between(*band, label=label, **look))

    def _mark_quantiles(self, ax: Any, color: Any, n_others: int) -> Any:
        places, values, low, high = map(np.asarray, self.quantiles or ())
        texts = number_texts(values, 4, self.ends)
        beside = {"xytext": (7, -11 - 11 * n_others), "textcoords": "offset points"}
        for place, value, text in zip(places, values, texts, strict=True):
            ax.annotate(text, (value, place), fontsize="small", color=color, **beside)
        look = {"color": color, "marker": MARKERS[n_others % len(MARKERS)], "markersize": 5}
        look["label"] = None if n_others else "quantiles, simultaneous intervals"
        bars = [values - low, high - values]
        return ax.errorbar(values, places, xerr=bars, linestyle="none", capsize=3, **look)


def _widths(ends: Any) -> Any:
    """Return a function that computes the widths of bins from their ends.

    If the bins have a logarithmic scale, a width is the logarithm to base 10 of the factor between
    the two ends.
    """
    return (lambda x: np.diff(np.log10(x))) if is_log(ends) else np.diff


def _band(
    raw: Estimate, level: float, starts: np.ndarray, stops: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper ends of simultaneous intervals of the frequencies of ranges.

    raw: a raw estimate of bins. starts, stops: where each range begins and ends.
    """
    bins = ranges(np.column_stack([starts, stops]))
    low, high = raw.confidence_interval(level, bins, simultaneous=True)
    return low[0], high[0]
