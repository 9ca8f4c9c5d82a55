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


def draw(estimate: Any, path: Path, level: float) -> None:
    """Write a plot of an estimate to a file. The suffix of the path selects the format."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("agg")  # a backend that needs no screen
    display = estimate.plot(level=level)
    parts = list(display.values()) if isinstance(display, Mapping) else [display]
    figure = parts[0].figure_
    make_folder(path)
    figure.savefig(path, dpi=150)
    plt.close(figure)
