"""How methods look: a colour, a line style and a marker each, the same in every picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Okabe and Ito's colours without the yellow one, which is hard to see on white: told apart by all.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00")
LINES: tuple = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1.2, 1, 1.2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", "h", ">", "p", "d", "1", "2", "3", "4")

# The first six, the last of them with the next five, and so on share a panel: neighbours differ.
_METHODS = (
    "Base",
    "BasePos",
    "PostPos",
    "Norm",
    "NormMul",
    "NormSub",
    "MLEApx",
    "BaseCut",
    "NormCut",
    "Power",
    "PowerNS",
    "NormHyb",
)


def styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what to pass to ``ax.plot`` for each name.

    A post-processor of the papers, in either spelling ("NormSub", "Norm-Sub"), looks the same
    everywhere; other names take the looks that are left, in their order.

    Parameters
    ----------
    names : iterable of str
        What is drawn on the same axes.

    Returns
    -------
    dict of dict
        By name: "color", "linestyle", "marker".
    """
    known = {_plain(method): i for i, method in enumerate(_METHODS)}
    names = list(dict.fromkeys(names))
    places = {name: known[_plain(name)] for name in names if _plain(name) in known}
    taken = set(places.values())
    free = (i for i in range(len(names) + len(_METHODS)) if i not in taken)
    for name in names:
        if name not in places:
            places[name] = next(free)
    return {name: _style(places[name]) for name in names}


def _plain(name: str) -> str:
    return name.replace("-", "").replace(" ", "").casefold()


def _style(i: int) -> dict[str, Any]:
    # 7 colours, 4 lines and 17 markers have no common divisor: 476 looks before one comes again.
    return {
        "color": COLORS[i % len(COLORS)],
        "linestyle": LINES[i % len(LINES)],
        "marker": MARKERS[i % len(MARKERS)],
    }


def new_axes(name: str, figsize: tuple[float, float]) -> Any:
    """Axes of a new figure.

    Parameters
    ----------
    name : str
        The display, for the error.
    figsize : tuple of float
        Width and height in inches.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"{name} needs matplotlib: pip install 'sklearn_ldp[plot]'.") from error
    _, ax = plt.subplots(figsize=figsize, layout="constrained")
    return ax


def legend_outside(ax: Any) -> None:
    """Put the legend on the right of the axes, where it covers nothing."""
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, fontsize="small")
