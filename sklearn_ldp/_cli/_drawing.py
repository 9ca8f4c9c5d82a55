"""Writing of plots to files, for the command line."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._core.common.files import make_folder


def check_matplotlib() -> None:
    """Raise ValueError if matplotlib is not installed. Commands call it before other work."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(
            "--plot needs matplotlib, which is not installed. Run pip install 'sklearn_ldp[plot]'."
        )


def draw(
    estimate: Any,
    path: Path,
    level: float,
    *,
    by_frequency: bool,
    title: str,
    axis_names: Sequence[str] | None = None,
) -> None:
    """Write a plot of an estimate to a file. The suffix of the path selects the format.

    by_frequency: whether the most frequent categories come first, unless they are bins.
    axis_names: for a map, the names of its axes.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    from .._core.estimates import FrequencyEstimate

    mpl.use("agg")  # a backend that needs no screen
    options: dict[str, Any] = {"level": level}
    if by_frequency and _has_bars(estimate):
        options["order"] = "frequency"
    if axis_names is not None and isinstance(estimate, FrequencyEstimate) and len(estimate) == 1:
        options["names"] = axis_names
    drawn = estimate.plot(**options)
    display = next(iter(drawn.values())) if isinstance(drawn, Mapping) else drawn
    figure = display.figure_
    if title:
        figure.suptitle(title)
    make_folder(path)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _has_bars(estimate: Any) -> bool:
    """Return whether plots show categories whose order may change: no change, trend or map.

    A single column of bins is a curve. In a set of several columns, its bins are bars.
    """
    from .._core.domains import has_cells
    from .._core.estimates import FrequencyEstimate, display_class
    from ..inspection import FrequencyDisplay

    if isinstance(estimate, Mapping):
        return not any(has_cells(part.domain) for part in estimate.values())
    is_estimate = isinstance(estimate, FrequencyEstimate)
    return is_estimate and display_class(estimate, {}) is FrequencyDisplay
