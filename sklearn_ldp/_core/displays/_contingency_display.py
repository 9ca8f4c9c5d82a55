"""Display of the contingency table of two columns as a heat map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..statistics import as_table, check_level, departures, from_independence, independence
from ._base import BaseDisplay, name_ticks, refuse_truth

_MOST_CELLS = 2_500
_MOST_NUMBERS = 64  # the largest number of cells in which the numbers still fit
_LONG_NAME = 4  # characters that fit side by side under a narrow column

#: The quantity that each choice of `color` shows: the label of the color scale, and the color map.
_COLORS = {
    "difference": ("frequency, minus frequency\nif columns were independent", "RdBu_r"),
    "deviation": ("standard deviations\nfrom independence", "RdBu_r"),
    "frequency": ("frequency", "Blues"),
}


@dataclass(eq=False, repr=False)
class ContingencyDisplay(BaseDisplay):
    """The contingency table of two columns as a heat map, in which insignificant cells are hatched.

    By default the color of a cell shows its frequency minus the frequency that it would have if the
    columns were independent. A cell is hatched if this difference is within the noise, so that its
    true difference may be 0. If the columns are independent, all cells are hatched with the
    probability `level`. With ``color="frequency"``, colors show frequencies, and a cell is hatched
    if its true frequency may be 0.

    Use :meth:`from_estimate` to create a display.

    Parameters
    ----------
    frequencies : array-like of shape (n_rows, n_columns)
        The frequencies of the cells.
    categories : tuple of two array-like
        The categories of the rows, and the categories of the columns.
    names : tuple of two str, default=("", "")
        Labels of the rows and of the columns of the plot.
    color : {"difference", "deviation", "frequency"}, default="difference"
        The quantity that the colors show, see :meth:`from_estimate`.
    shown : array-like of shape (n_rows, n_columns), default=None
        The value of each cell that its color shows. If None, use the frequencies.
    within_noise : array-like of bool of shape (n_rows, n_columns), default=None
        The cells to hatch. If None, the noise is unknown and no cell is hatched.
    noise_level : float, default=None
        The absolute value in `shown` up to which a typical cell is hatched. The color scale marks
        this value.
    level : float, default=0.95
        The probability that all cells are hatched if all true differences (or frequencies) are 0.
    p_value : float, default=None
        The p-value of the test of independence.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the table.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    image_ : matplotlib AxesImage
        The colored cells.
    colorbar_ : matplotlib Colorbar
        The color scale.
    hatches_ : matplotlib PatchCollection or None
        The cells within the noise; None if there are none.
    texts_ : list of matplotlib Text
        The frequencies that are written into the cells, for tables of up to 64 cells.

    See Also
    --------
    sklearn_ldp.surveys.TableSet.independence : The test whose p-value the title shows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import MarginalOracle
    >>> from sklearn_ldp.inspection import ContingencyDisplay
    >>> rng = np.random.default_rng(0)
    >>> smokes, sex = rng.integers(0, 2, (2, 30_000))
    >>> users = np.column_stack([smokes, sex, rng.binomial(2, 0.3 + 0.3 * smokes)])
    >>> domains = {"smokes": 2, "sex": 2, "visits": 3}
    >>> tables = MarginalOracle(2.0, domains=domains, random_state=0).fit_transform(users)
    >>> display = ContingencyDisplay.from_estimate(tables, "smokes", "visits")
    >>> display.within_noise
    array([[False,  True, False],
            [False,  True, False]])
    >>> bool(ContingencyDisplay.from_estimate(tables, "smokes", "sex").within_noise.all())
    True
    """

    frequencies: Any
    categories: tuple[Any, Any]
    _: KW_ONLY
    names: tuple[str, str] = ("", "")
    color: str = "difference"
    shown: Any = None
    within_noise: Any = None
    noise_level: float | None = None
    level: float = 0.95
    p_value: float | None = None

    @classmethod
    def from_estimate(
        cls,
        tables: Any,
        first: Any = None,
        second: Any = None,
        *,
        color: str = "difference",
        level: float = 0.95,
        of: str = "population",
        ax: Any = None,
        **kwargs: Any,
    ) -> ContingencyDisplay:
        """Draw the contingency table of two columns.

        Parameters
        ----------
        tables : TableSet, or FrequencyEstimate of shape (1, n_rows * n_columns)
            The tables of a :class:`~sklearn_ldp.MarginalOracle`, or an estimate whose categories
            are pairs.
        first, second : str, default=None
            The column of the data in the rows of the plot, and the column of the data in its
            columns. For an estimate of pairs, labels of the first and of the second element of a
            pair.
        color : {"difference", "deviation", "frequency"}, default="difference"
            The quantity that the colors show. "difference" is the frequency minus the frequency
            that independent columns with the same margins would have. "deviation" is the same
            difference in standard deviations of the raw estimate. "frequency" is the estimated
            frequency.
        level : float, default=0.95
            Probability that all cells are within the noise if the columns are independent. With
            ``color="frequency"``, the simultaneous coverage of the intervals of all cells.
        of : {"population", "users"}, default="population"
            Target of the inference: the population, from which the users are a random sample, or
            the users themselves.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        ContingencyDisplay
            The display, already drawn.

        Raises
        ------
        ValueError
            If `tables` has no table of these two columns, if the table has several estimates or
            more than 2,500 cells, if its categories are not all pairs of two values, or if a
            parameter is not valid.

        Notes
        -----
        The raw estimate decides which cells are within the noise, even if the colors show a
        post-processed estimate. If the raw estimate or its noise is unknown, no cell is hatched,
        and the title states that the noise is unknown.
        """
        refuse_truth(cls.__name__, kwargs)
        if color not in _COLORS:
            raise ValueError(
                f"Argument color must be one of {list(_COLORS)}, got {color!r}. Use the default "
                '"difference" to compare with independent columns.'
            )
        check_level(level)
        table, is_turned = _table_of(tables, first, second)
        order, categories = as_table(table.labels)

        def laid_out(values: Any) -> np.ndarray:
            """Arrange one value per category as a table with the rows and columns of the plot."""
            cells = np.empty((len(categories[0]), len(categories[1])), dtype=values.dtype)
            cells.ravel()[order] = values
            return cells.T if is_turned else cells

        raw = table.as_raw()
        frequencies = laid_out(table.values[0])
        shown = frequencies if color == "frequency" else from_independence(frequencies)
        within_noise = noise_level = p_value = None
        if raw.is_raw and raw.noise is not None:
            p_value = float(independence(raw, of=of).p_value[0])
            if color == "frequency":
                low, _ = raw.confidence_interval(level, simultaneous=True, of=of)
                within_noise = laid_out(low[0] <= 0)
            else:
                differences, std, critical = departures(raw, level, of)
                std, differences = (x.T if is_turned else x for x in (std, differences))
                within_noise = np.abs(differences) <= critical * std
                noise_level = critical
                if color == "deviation":
                    shown = shown / np.maximum(std, np.finfo(float).tiny)
                else:
                    noise_level *= float(np.median(std))
        elif color == "deviation":
            raise ValueError(
                'ContingencyDisplay with color="deviation" needs the noise of the raw estimate, '
                "which is unknown. Pass the tables of a MarginalOracle, or use "
                'color="difference".'
            )
        return cls(
            frequencies,
            categories[::-1] if is_turned else categories,
            names=("" if first is None else str(first), "" if second is None else str(second)),
            color=color,
            shown=shown,
            within_noise=within_noise,
            noise_level=noise_level,
            level=level,
            p_value=p_value,
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ContingencyDisplay:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, create a new figure.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.imshow`.

        Returns
        -------
        ContingencyDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        frequencies = np.asarray(self.frequencies)
        n_rows, n_columns = frequencies.shape
        size = (3.0 + max(0.42 * n_columns, 2.2), 1.5 + max(0.34 * n_rows, 1.2))
        ax = self._axes(ax, (min(size[0], 14.0), min(size[1], 12.0)))
        label, colors = _COLORS[self.color]
        values = frequencies if self.shown is None else np.asarray(self.shown)
        # 0 is in the middle of the color scale, or at its lower end for frequencies.
        largest = max(float(np.abs(values).max()), np.finfo(float).tiny)
        ends = (0.0, largest)
        if self.color != "frequency":
            largest = max(largest, 1.1 * (self.noise_level or 0.0))
            ends = (-largest, largest)
        look = {"cmap": colors, "aspect": "auto", "vmin": ends[0], "vmax": ends[1]}
        self.image_: Any = ax.imshow(values, **{**look, **kwargs})
        self.colorbar_: Any = ax.figure.colorbar(self.image_, ax=ax)
        if self.noise_level is not None:
            label += "\n(dashed: the noise)"
        self.colorbar_.set_label(label, fontsize="small")
        self.colorbar_.ax.tick_params(labelsize="small")
        self._mark_noise(ax)
        self._write_numbers(ax, frequencies)
        rows, columns = self.categories
        is_long = max(len(str(name)) for name in columns) > _LONG_NAME and n_columns > 2
        name_ticks(ax.yaxis, np.arange(n_rows), rows, fontsize="small")
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if is_long else {}
        name_ticks(ax.xaxis, np.arange(n_columns), columns, fontsize="small", **turned)
        ax.tick_params(length=0)
        ax.set_ylabel(self.names[0], parse_math=False)
        ax.set_xlabel(self.names[1], parse_math=False)
        ax.set_title(self._title(), fontsize="small")
        return self

    def _title(self) -> str:
        if self.within_noise is None:
            return "noise unknown"
        level = f"{100 * self.level:g} %"
        interval = f"its simultaneous {level} interval contains 0"
        title = f"hatched: the cell may have no users\n({interval})"
        if self.color != "frequency":
            title = f"hatched: the difference may be 0 (simultaneous test, {level})"
            title = f"numbers: frequencies; colors: differences from independence\n{title}"
        if self.p_value is None:
            return title
        p_value = "< 0.001" if self.p_value < 0.001 else f"= {self.p_value:.3f}"
        return f"{title}\ntest of independence: p {p_value}"

    def _mark_noise(self, ax: Any) -> None:
        """Hatch the cells within the noise, and mark `noise_level` on the color scale."""
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Rectangle

        self.hatches_: Any = None
        if self.within_noise is not None and np.any(self.within_noise):
            cells = [Rectangle((j - 0.5, i - 0.5), 1, 1) for i, j in np.argwhere(self.within_noise)]
            look: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.5", "hatch": "////"}
            self.hatches_ = ax.add_collection(PatchCollection(cells, linewidth=0, **look))
            places = zip(cells, np.argwhere(self.within_noise), strict=True)
            dark = [cell for cell, (i, j) in places if self._is_dark(i, j)]
            if dark:  # gray hatching would be invisible on these cells
                look["edgecolor"] = "0.9"
                ax.add_collection(PatchCollection(dark, linewidth=0, **look))
        if self.noise_level is not None:
            for end in (-self.noise_level, self.noise_level):
                self.colorbar_.ax.axhline(end, color="black", linewidth=1, linestyle=(0, (3, 2)))

    def _is_dark(self, i: int, j: int) -> bool:
        """Return whether the cell in row i and column j has a dark color and needs white text."""
        red, green, blue, _ = self.image_.to_rgba(self.image_.get_array()[i, j])
        return 0.3 * red + 0.6 * green + 0.1 * blue < 0.5

    def _write_numbers(self, ax: Any, frequencies: np.ndarray) -> None:
        """Write the frequency of each cell into the cell, if the table has at most 64 cells."""
        self.texts_: list[Any] = []
        if frequencies.size > _MOST_NUMBERS:
            return
        look = {"ha": "center", "va": "center", "fontsize": "small"}
        for (i, j), frequency in np.ndenumerate(frequencies):
            fill = self.image_.to_rgba(self.image_.get_array()[i, j])
            box = {"facecolor": fill, "edgecolor": "none", "pad": 1.5}
            color = "white" if self._is_dark(i, j) else "black"
            text = ax.text(j, i, f"{frequency:.3f}", color=color, bbox=box, **look)
            self.texts_.append(text)


def _table_of(tables: Any, first: Any, second: Any) -> tuple[Any, bool]:
    """Return the estimate of a table of two columns, and whether its pairs must be swapped.

    They must be swapped if the stored pairs begin with the value of the column `second`.
    """
    table = tables
    is_turned = False
    if isinstance(tables, Mapping):
        if first is None or second is None:
            raise ValueError(
                "ContingencyDisplay needs the names of two columns, got "
                f"first={first!r} and second={second!r}. Pass both, as in "
                'ContingencyDisplay.from_estimate(tables, "sex", "age").'
            )
        if not hasattr(tables, "pair"):
            raise ValueError(
                "ContingencyDisplay needs tables of two columns, got a set of estimates of "
                f"{', '.join(map(repr, tables))}. Pass the result of a MarginalOracle."
            )
        table_set: Any = tables
        table = table_set.pair(first, second)
        columns = list(table_set.domain.columns)
        is_turned = columns.index(first) > columns.index(second)
    if len(table) != 1:
        raise ValueError(
            f"ContingencyDisplay draws one estimate of a table, got {len(table)} rows. Select one "
            "row, as in estimate[0]."
        )
    if table.shape[1] > _MOST_CELLS:
        raise ValueError(
            f"ContingencyDisplay draws up to {_MOST_CELLS:,} cells, got {table.shape[1]:,} cells. "
            "Merge categories before the collection, or use to_frame."
        )
    return table, is_turned
