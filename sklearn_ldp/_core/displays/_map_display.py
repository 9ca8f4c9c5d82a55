"""Display of the joint distribution of two numbers, such as coordinates of places, as a map."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..domains import bin_widths, has_cells, is_log
from ..queries import densest
from ..statistics import Estimate, check_of
from ._base import COLORS, LINES, EstimateDisplay, percent_axis, refuse_truth


@dataclass(eq=False, repr=False)
class MapDisplay(EstimateDisplay):
    """A heat map of the estimated joint distribution of two numbers, such as coordinates of places.

    The axes are in the units of the numbers, so that the cells lie on top of a map that is drawn on
    the same axes. An axis is logarithmic if its bins grow by about the same factor. The color of a
    cell is its frequency; if cells have different sizes, it is the frequency of a cell of the mean
    size and of the same density. A cell is hatched if its interval contains 0, so that the cell may
    have no users. Hatched cells have estimates as well, which their colors show.

    Use :meth:`from_estimate` to create a display.

    Parameters
    ----------
    frequencies : array-like of shape (n_x, n_y)
        The frequencies of the cells.
    ends : tuple of two array-like, of shapes (n_x + 1,) and (n_y + 1,)
        The ends of the bins of both numbers.
    within_noise : array-like of bool of shape (n_x, n_y), default=None
        The cells to hatch. If None, the noise is unknown and no cell is hatched.
    level : float, default=0.95
        The simultaneous coverage of the intervals of all cells, and of all bins of a margin.
    margins : tuple of two array-like, of shapes (3, n_x) and (3, n_y), default=None
        For each number, the frequencies of its bins, and the lower and the upper ends of their
        intervals (NaN if the noise is unknown). If None, no margins are drawn.
    areas : mapping of str to array-like of bool of shape (n_x, n_y), default=None
        Areas to outline: the name of each area in the legend, and its cells.
    names : tuple of two str, default=None
        The labels of the axes. If None, "x" and "y" in a new figure, and no change of other axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the map.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    mesh_ : matplotlib QuadMesh
        The colored cells.
    colorbar_ : matplotlib Colorbar
        The color scale.
    hatches_ : matplotlib PatchCollection or None
        The cells within the noise; None if there are none.
    margins_ : list of matplotlib Axes
        The axes above the map and to its right, with the margins; empty if there are none.
    outlines_ : list of matplotlib LineCollection
        The outlines of the areas.

    See Also
    --------
    sklearn_ldp.queries.densest : The areas of `contours`, and intervals of their shares.
    ContingencyDisplay : Two columns of categories without order.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import Domain, RangeOracle
    >>> from sklearn_ldp.inspection import MapDisplay
    >>> places = np.random.default_rng(0).normal([2, 48], 0.5, (20_000, 2))
    >>> grid = Domain.grid(
    ...     Domain.bins(8, bounds=(0, 4), clip=True), Domain.bins(8, bounds=(46, 50), clip=True)
    ... )
    >>> estimate = RangeOracle(2.0, categories=grid, random_state=0).fit_transform(places)
    >>> display = MapDisplay.from_estimate(estimate)
    >>> display.within_noise.shape, bool(display.within_noise[0, 0])
    ((8, 8), True)
    """

    frequencies: Any
    ends: tuple[Any, Any]
    _: KW_ONLY
    within_noise: Any = None
    level: float = 0.95
    margins: tuple[Any, Any] | None = None
    areas: Any = None
    names: Any = None

    @classmethod
    def from_estimate(
        cls,
        estimate: Estimate,
        *,
        level: float = 0.95,
        of: str = "users",
        extent: tuple[float, float, float, float] | None = None,
        margins: bool | None = None,
        contours: ArrayLike = (),
        names: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> MapDisplay:
        """Draw an estimate whose categories are a grid.

        Parameters
        ----------
        estimate : FrequencyEstimate of shape (1, d)
            The estimate, raw or post-processed.
        level : float, default=0.95
            The simultaneous coverage of the intervals of all cells, and of all bins of a margin.
        of : {"users", "population"}, default="users"
            Target of the inference: the users, or the population that the users are a sample of.
        extent : (float, float, float, float), default=None
            Left, right, lower and upper end of the grid in the units of the axes. If None, the
            bounds of the grid.
        margins : bool, default=None
            Whether to draw the distributions of both numbers beside the map, with bands of the
            intervals of the raw estimate. If None, draw them in a new figure only.
        contours : array-like of shape (n_contours,), default=()
            Shares of the estimate, such as 0.5. For each share, outline the smallest area that
            contains it, see :func:`~sklearn_ldp.queries.densest`.
        names : tuple of two str, default=None
            The labels of the axes, such as ``("longitude", "latitude")``. If None,
            :meth:`from_estimator` uses the names of the columns that the estimator was fitted to.
        ax : matplotlib Axes, default=None
            Axes to draw on, such as those of a map. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        MapDisplay
            The display, already drawn.

        Raises
        ------
        ValueError
            If the categories are not a grid, or there are several estimates. With `contours`, if a
            frequency is negative, as in a raw estimate.

        Notes
        -----
        The raw estimate determines the hatched cells and the bands, also after post-processing. A
        contour is an estimate without an interval.
        """
        refuse_truth(cls.__name__, kwargs)
        cls._check(estimate, None, level)
        grid: Any = estimate.domain
        if not has_cells(grid):
            raise ValueError(
                "MapDisplay needs an estimate whose categories are the cells of a grid. Declare "
                "categories=Domain.grid(x_bins, y_bins) in the oracle, or use ContingencyDisplay."
            )
        check_of(of)
        low, _ = _intervals(estimate, None, level, of)
        within_noise = None if np.isnan(low).any() else (low <= 0).reshape(grid.shape)
        ends = grid.grid_ends
        if extent is not None:
            sides = zip(ends, extent[::2], extent[1::2], strict=True)
            ends = tuple(np.interp(x, x[[0, -1]], (first, last)) for x, first, last in sides)
        has_margins = ax is None if margins is None else margins
        sums = None
        if has_margins:
            sums = _margin(estimate, 0, level, of), _margin(estimate, 1, level, of)
        areas = {}
        if np.size(contours):
            queries = densest(estimate, contours).aligned(estimate.categories)
            matrix = queries.matrix(grid.size).toarray()
            for share, row in zip(np.ravel(contours), matrix.astype(bool), strict=True):
                areas[f"densest {100 * share:g} %, estimated"] = row.reshape(grid.shape)
        return cls(
            estimate.values[0].reshape(grid.shape),
            ends,
            within_noise=within_noise,
            level=level,
            margins=sums,
            areas=areas,
            names=names,
        ).plot(ax, **kwargs)

    @classmethod
    def _options_of(cls, estimator: Any) -> dict[str, Any]:
        columns = getattr(estimator, "feature_names_in_", ())
        return {"names": tuple(columns)} if len(columns) == 2 else {}

    def plot(self, ax: Any = None, **kwargs: Any) -> MapDisplay:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.pcolormesh`, such as ``alpha=0.6``.

        Returns
        -------
        MapDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        names = ("x", "y") if ax is None and self.names is None else self.names
        ax = self._axes(ax, (6.5, 5.0))
        if names is not None:
            x_name, y_name = names
            ax.set(xlabel=x_name, ylabel=y_name)
        x_ends, y_ends = map(np.asarray, self.ends)
        sizes = np.abs(np.outer(bin_widths(x_ends), bin_widths(y_ends)))
        label = "frequency"
        if sizes.max() > (1 + 1e-9) * sizes.min():
            label = "frequency, for a cell of the mean size"
        values = np.asarray(self.frequencies) * (sizes.mean() / sizes)
        look = {"cmap": "Blues", "vmin": 0.0, **kwargs}
        self.mesh_: Any = ax.pcolormesh(x_ends, y_ends, values.T, **look)
        if is_log(x_ends):
            ax.set_xscale("log")
        if is_log(y_ends):
            ax.set_yscale("log")
        self.colorbar_: Any = ax.figure.colorbar(self.mesh_, ax=ax)
        self.colorbar_.set_label(label, fontsize="small")
        percent_axis(self.colorbar_.ax.yaxis)
        self.hatches_: Any = None
        title = "noise unknown"
        if self.within_noise is not None:
            interval = f"its simultaneous {100 * self.level:g} % interval"
            title = f"hatched: the cell may have no users\n({interval} contains 0)"
            self._hatch(ax, x_ends, y_ends)
        self.outlines_: list[Any] = self._outline(ax, x_ends, y_ends)
        self.margins_: list[Any] = []
        if self.margins is not None:
            self._draw_margins(ax, x_ends, y_ends)
        ax.set_title(title, fontsize="small")
        return self

    def _hatch(self, ax: Any, x_ends: np.ndarray, y_ends: np.ndarray) -> None:
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Rectangle

        cells = [
            Rectangle((x_ends[i], y_ends[j]), x_ends[i + 1] - x_ends[i], y_ends[j + 1] - y_ends[j])
            for i, j in np.argwhere(self.within_noise)
        ]
        if cells:
            look: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.6", "hatch": "///"}
            self.hatches_ = ax.add_collection(PatchCollection(cells, linewidth=0, **look))

    def _outline(self, ax: Any, x_ends: np.ndarray, y_ends: np.ndarray) -> list[Any]:
        """Draw the outline of each area, and the legend.

        The outline consists of the sides that separate a cell in the area from a cell outside.
        """
        from matplotlib.collections import LineCollection

        outlines = []
        for k, (name, cells) in enumerate((self.areas or {}).items()):
            padded = np.pad(np.asarray(cells, dtype=bool), 1)
            x_sides = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
            y_sides = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
            lines = [[(x_ends[i], y_ends[j]), (x_ends[i], y_ends[j + 1])] for i, j in x_sides]
            lines += [[(x_ends[i], y_ends[j]), (x_ends[i + 1], y_ends[j])] for i, j in y_sides]
            look = {"color": COLORS[(k + 1) % len(COLORS)], "linestyle": LINES[k % len(LINES)]}
            outlines.append(ax.add_collection(LineCollection(lines, label=name, **look)))
        if outlines:
            ax.legend(fontsize="small")
        return outlines

    def _draw_margins(self, ax: Any, x_ends: np.ndarray, y_ends: np.ndarray) -> None:
        """Draw the distribution of the first number above the map, and of the second beside it."""
        top = ax.inset_axes((0, 1.06, 1, 0.2), sharex=ax)
        side = ax.inset_axes((1.06, 0, 0.2, 1), sharey=ax)
        self.margins_ = [top, side]
        top.tick_params(labelbottom=False)
        side.tick_params(labelleft=False)
        side.xaxis.tick_top()  # below, its labels would overlap with the labels of the map
        side.tick_params(axis="x", labelrotation=90)
        percent_axis(top.yaxis)
        percent_axis(side.xaxis)
        orientations = ("vertical", "horizontal")
        axes = zip(self.margins_, (x_ends, y_ends), self.margins or (), orientations, strict=True)
        for inset, ends, margin, orientation in axes:
            widths = np.abs(bin_widths(ends))
            values, low, high = np.asarray(margin) * (widths.mean() / widths)
            look = {"orientation": orientation, "color": COLORS[0]}
            inset.stairs(values, ends, **look)
            inset.stairs(high, ends, baseline=low, fill=True, alpha=0.2, linewidth=0, **look)


def _margin(estimate: Any, axis: int, level: float, of: str) -> np.ndarray:
    """Return the frequencies of the bins of one number, and the ends of their intervals.

    Shapes: -> (3, n_bins).
    """
    shape = estimate.domain.shape
    factors = [np.ones((1, n)) if i != axis else sparse.eye_array(n) for i, n in enumerate(shape)]
    sums = sparse.kron(*factors, format="csr")
    return np.array([sums @ estimate.values[0], *_intervals(estimate, sums, level, of)])


def _intervals(estimate: Any, queries: Any, level: float, of: str) -> list[np.ndarray]:
    """Return the ends of simultaneous intervals of the raw estimate; NaN if they are unknown."""
    raw = estimate.as_raw()
    try:
        return [end[0] for end in raw.confidence_interval(level, queries, simultaneous=True, of=of)]
    except ValueError:  # the raw values, the noise or its covariances are unknown
        return [np.full(raw.shape[1] if queries is None else queries.shape[0], np.nan)] * 2
