"""Display of the joint distribution of two numbers, such as coordinates of places, as a map."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..statistics import Estimate
from ._base import EstimateDisplay


@dataclass(eq=False, repr=False)
class MapDisplay(EstimateDisplay):
    """A heat map of the estimated joint distribution of two numbers, such as coordinates of places.

    Each number is in bins, and a cell is a pair of bins. A cell is hatched if its frequency is
    within the noise, so that the true frequency may be 0. The axes are in the units of the numbers,
    so you can draw a geographic map on the same axes. If cells have different sizes, colors show
    the frequency per area, otherwise the frequency.

    Use :meth:`from_estimate` to create a display.

    Parameters
    ----------
    frequencies : array-like of shape (n_x, n_y)
        The frequencies of the cells.
    ends : tuple of two array-like, of shapes (n_x + 1,) and (n_y + 1,)
        Where the bins of both numbers begin and end.
    within_noise : array-like of bool of shape (n_x, n_y), default=None
        The cells to hatch. If None, the noise is unknown and no cell is hatched.
    level : float, default=0.95
        The simultaneous coverage of the intervals of all cells.

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

    See Also
    --------
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

    @classmethod
    def from_estimate(
        cls,
        estimate: Estimate,
        *,
        level: float = 0.95,
        of: str = "users",
        extent: tuple[float, float, float, float] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> MapDisplay:
        """Draw an estimate whose categories are a grid.

        Parameters
        ----------
        estimate : FrequencyEstimate of shape (1, d)
            The estimate, raw or post-processed.
        level : float, default=0.95
            The simultaneous coverage of the intervals of all cells.
        of : {"users", "population"}, default="users"
            Target of the inference: the users, or the population that the users are a sample of.
        extent : (float, float, float, float), default=None
            Left, right, lower and upper end of the grid in the units of the axes. If None, the
            bounds of the grid.
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
            If the categories are not the cells of a grid (``Domain.grid``), or there are several
            estimates.

        Notes
        -----
        The raw estimate decides which cells are within the noise, even if the colors show a
        post-processed estimate.
        """
        cls._check(estimate, None, level)
        grid: Any = getattr(estimate, "domain", None)
        if grid is None or grid.grid_ends is None:
            raise ValueError(
                "MapDisplay needs an estimate whose categories are the cells of a grid. Declare "
                "categories=Domain.grid(x_bins, y_bins) in the oracle, or use ContingencyDisplay."
            )
        raw, within_noise = estimate.as_raw(), None
        if raw.is_raw and raw.noise is not None:
            low, _ = raw.confidence_interval(level, simultaneous=True, of=of)
            within_noise = (low[0] <= 0).reshape(grid.shape)
        ends = grid.grid_ends
        if extent is not None:
            ends = tuple(
                first + (end - end[0]) / (end[-1] - end[0]) * (last - first)
                for end, first, last in zip(ends, extent[::2], extent[1::2], strict=True)
            )
        frequencies = estimate.values[0].reshape(grid.shape)
        return cls(frequencies, ends, within_noise=within_noise, level=level).plot(ax, **kwargs)

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
        ax = self._axes(ax, (6.5, 5.0))
        x_ends, y_ends = map(np.asarray, self.ends)
        values = np.asarray(self.frequencies)
        areas = np.abs(np.outer(np.diff(x_ends), np.diff(y_ends)))
        label = "frequency"
        if areas.max() > (1 + 1e-9) * areas.min():
            values = values / areas
            label = "frequency per area"
        look = {"cmap": "Blues", "vmin": 0.0, **kwargs}
        self.mesh_: Any = ax.pcolormesh(x_ends, y_ends, values.T, **look)
        self.colorbar_: Any = ax.figure.colorbar(self.mesh_, ax=ax)
        self.colorbar_.set_label(label, fontsize="small")
        self.hatches_: Any = None
        title = "noise unknown"
        if self.within_noise is not None:
            title = f"hatched: may be 0, simultaneously for all cells ({100 * self.level:g} %)"
            self._hatch(ax, x_ends, y_ends)
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
            look: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.6", "hatch": "////"}
            self.hatches_ = ax.add_collection(PatchCollection(cells, linewidth=0, **look))
