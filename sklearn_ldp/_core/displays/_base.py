"""Base classes of the displays, and functions for axes, names and styles that displays share."""

from __future__ import annotations

import itertools
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..common.fitted import estimate_of
from ..common.typing import Axes
from ..domains import has_bins
from ..domains.values import as_true_frequencies
from ..statistics import Estimate, check_level, has_increasing_numbers

# The palette of Okabe and Ito, which color-blind readers can distinguish. Its yellow is left out
# because it is hard to see on white.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00")
LINES: tuple = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1.2, 1, 1.2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", "h", ">", "p", "d", "1", "2", "3", "4")

# Methods that are often drawn in the same panel have different colors: a color repeats after seven.
_METHODS = "Base BasePos NormSub Norm NormMul PostPos MLEApx NormCut BaseCut Power PowerNS NormHyb"


class BaseDisplay:
    """Base class of all displays, which creates the axes if the user passes none."""

    def _axes(self, ax: Any, figsize: tuple[float, float], **layout: Any) -> Any:
        """Store and return the axes. If `ax` is None, create them in a new figure.

        figsize: the width and the height of a new figure in inches.
        """
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                text = f"{type(self).__name__} needs matplotlib"
                raise ImportError(f"{text}. Run: pip install 'sklearn_ldp[plot]'.") from error
            _, ax = plt.subplots(figsize=figsize, layout="constrained", **layout)
        self.ax_: Any = ax  # the axes with the plot
        self.figure_: Any = np.ravel(ax)[0].figure  # the figure that contains the axes
        return ax


class EstimateDisplay(BaseDisplay):
    """Base class of displays that draw a single estimate."""

    @classmethod
    @abstractmethod
    def from_estimate(cls, estimate: Any, **kwargs: Any) -> Self:
        """Draw an estimate."""

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, **kwargs: Any) -> Self:
        """Draw the estimate of a fitted oracle, post-processor, search or Pipeline.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted estimator.
        **kwargs : dict
            Passed to :meth:`from_estimate`.

        Returns
        -------
        display
            The display, already drawn.
        """
        options = {**cls._options_of(estimator), **kwargs}
        return cls.from_estimate(estimate_of(estimator), **options)

    @classmethod
    def _options_of(cls, estimator: Any) -> dict[str, Any]:
        """Return parameters of `from_estimate` that the estimator determines."""
        return {}

    @classmethod
    def _check(cls, estimate: Any, truth: Any, level: Any) -> np.ndarray | None:
        """Raise an error unless the estimate, the truth and the level are valid for a display.

        Returns: the true frequencies in the order of the categories; None if `truth` is None.
        """
        name = cls.__name__
        if isinstance(estimate, Mapping):  # a set of estimates
            raise TypeError(
                f"{name} draws one estimate, but got a set of estimates. Select one estimate, as "
                f"in estimates[{next(iter(estimate), None)!r}], or draw all of them with "
                "estimates.plot()."
            )
        if not isinstance(estimate, Estimate):
            raise TypeError(
                f"{name}.from_estimate needs a FrequencyEstimate, got {type(estimate).__name__}. "
                "Convert an array with FrequencyEstimate(values, categories)."
            )
        check_level(level)
        if truth is not None:
            truth = as_true_frequencies(truth, estimate.categories, "Argument truth")
        n_estimates = len(estimate.values)
        if n_estimates != 1:
            raise ValueError(
                f"{name} draws one estimate, got {n_estimates} rows. Select one row with "
                "estimate[0], or draw all rows with estimate.plot(), if they have row_names."
            )
        return truth


def refuse_truth(display: str, options: Mapping[str, Any]) -> None:
    """Raise TypeError if the keywords of a display that draws no truth contain one."""
    if "truth" in options:
        raise TypeError(
            f"{display} draws no true frequencies, but got truth=. Draw one estimate, as in "
            "FrequencyDisplay.from_estimate(estimate[0], truth=truth), or draw the truth on "
            "display.ax_ with matplotlib."
        )


def styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return, for each name of a method, its color, line style and marker as matplotlib keywords.

    A method has the same style in all plots.
    """
    # A post-processor of the papers, in either spelling ("NormSub", "Norm-Sub"), has the same style
    # in every plot. The other names get the remaining styles, in their order.
    known = {method.casefold(): i for i, method in enumerate(_METHODS.split())}
    places = {name: known.get(re.sub("[- ]", "", name).casefold()) for name in names}
    free = (i for i in itertools.count() if i not in places.values())
    return {name: look_of(next(free) if i is None else i) for name, i in places.items()}


def look_of(i: int) -> dict[str, Any]:
    """Return the color, line style and marker of the i-th method of a plot, counted from 0."""
    # 7, 4 and 17 are pairwise coprime, so a style repeats only after 476 methods.
    looks = {"color": COLORS, "linestyle": LINES, "marker": MARKERS}
    return {key: known[i % len(known)] for key, known in looks.items()}


def merged(defaults: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a display's default keywords, replaced by the user's keywords of the same meaning.

    The user's keywords may be matplotlib aliases, such as "ms" for "markersize".
    """
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**defaults, **normalize_kwargs(kwargs, Line2D)}


def of_users(estimate: Any) -> str:
    """Return a text about the users of an estimate, such as ", of users who answered".

    The text is empty if the estimate is about all users.
    """
    among = "" if estimate.noise is None else estimate.noise.among
    return f", of users{among}" if among else ""


def usual_name(estimate: Any) -> str:
    """Return the name of an estimate in a legend: its post-processors, and its users if not all."""
    return (" + ".join(estimate.postprocessors) or "raw estimate") + of_users(estimate)


def name_ticks(axis: Any, places: Iterable[float], names: Iterable[Any], **kwargs: Any) -> None:
    """Write names on an axis as plain text, so that dollar signs do not start a formula."""
    axis.set_ticks(places, labels=[str(name) for name in names], **kwargs)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)


def has_natural_order(domain: Any, names: Any) -> bool:
    """Return whether the categories are bins, or numbers or dates in increasing order."""
    return has_bins(domain) or has_increasing_numbers(np.asarray(names))


def percent_axis(axis: Any, unit: str = " %") -> None:
    """Format the tick labels of an axis of frequencies as percent.

    unit: the text after each number, such as " %"; empty for differences.
    """
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, symbol=unit))


def name_rows(ax: Any, names: Sequence[Any], grid: str = "x", **kwargs: Any) -> np.ndarray:
    """Write names on the y axis, the first name at the top; return the y positions of the names."""
    places = np.arange(len(names), dtype=float)
    name_ticks(ax.yaxis, places, names, **kwargs)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(True, axis=grid, color="0.92", linewidth=0.6)
    ax.set_axisbelow(True)
    return places


def legend_outside(ax: Axes) -> None:
    """Draw the legend to the right of the axes, with its names as plain text."""
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
    for text in ax.legend(borderaxespad=0.0, fontsize="small", **place).get_texts():
        text.set_parse_math(False)
