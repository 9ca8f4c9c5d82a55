"""Writing of plots to files, for the command line."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._core.common.files import make_folder


def check_matplotlib() -> None:
    """Raise ValueError if matplotlib is not installed. Commands call it before other work."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(
            "--plot needs matplotlib, which is not installed. Run pip install 'sklearn_ldp[plot]'."
        )


def draw(estimate: Any, path: Path, level: float, *, by_frequency: bool, title: str) -> None:
    """Write a plot of an estimate to a file. The suffix of the path selects the format.

    by_frequency: whether the most frequent categories come first, unless they are bins.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    from ..inspection import FrequencyDisplay

    mpl.use("agg")  # a backend that needs no screen
    displays = _displays(estimate.plot(level=level))
    if by_frequency and all(isinstance(display, FrequencyDisplay) for display in displays):
        plt.close(displays[0].figure_)
        displays = _displays(estimate.plot(level=level, order="frequency"))
    figure = displays[0].figure_
    if title:
        figure.suptitle(title)
    make_folder(path)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _displays(drawn: Any) -> list[Any]:
    """Return the displays that the method `plot` of an estimate or of a set returned."""
    return list(drawn.values()) if isinstance(drawn, Mapping) else [drawn]
