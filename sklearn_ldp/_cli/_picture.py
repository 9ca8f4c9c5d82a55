"""The demo's picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from .._files._atomic import replacing
from ..postprocessing import NormSub

if TYPE_CHECKING:
    from ._study import Study

# Okabe and Ito's colours, told apart by all; each with a marker of its own for print.
_STYLES = [
    ("#0072b2", "o"),
    ("#e69f00", "s"),
    ("#009e73", "^"),
    ("#cc79a7", "D"),
    ("#56b4e9", "v"),
    ("#d55e00", "P"),
    ("#000000", "X"),
    ("#7f7f7f", "*"),
]


def draw_demo(studies: list[Study], states: Any, path: Path) -> None:
    """Draw estimates beside the truth, and the errors of all post-processors; write the file."""
    figure = Figure(figsize=(13, 9), layout="constrained")
    left, right = figure.subplots(1, 2)
    shown = next((study for study in studies if study.oracle == "OLH"), studies[0])
    _draw_states(left, shown, states)
    _draw_errors(right, studies, next(name for name in studies[0].mse if "divisions" in name))
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=120)


def _draw_states(ax: Any, study: Study, states: Any) -> None:
    order = np.argsort(-states.frequencies, kind="stable")
    place = np.arange(len(order))
    above, below = place - 0.17, place + 0.17
    raw = study.estimate
    low, high = raw.confidence_interval(0.95)
    processed = NormSub().fit_transform(raw)
    blue, orange = _STYLES[0][0], _STYLES[5][0]
    raw_drawn = ax.errorbar(
        100 * raw.values[0, order],
        above,
        xerr=100 * np.array([raw.values[0] - low[0], high[0] - raw.values[0]])[:, order],
        fmt="o",
        color=blue,
        ecolor="#99c7e0",
        ms=4,
        label="raw estimate, 95 % interval",
    )
    (post_drawn,) = ax.plot(
        100 * processed.values[0, order], below, "D", color=orange, ms=4, label="NormSub"
    )
    (truth_drawn,) = ax.plot(
        100 * states.frequencies[order], place, "k|", ms=11, mew=1.6, label="truth"
    )
    ax.axvline(0, color="grey", lw=0.8, zorder=0)
    ax.set_yticks(place, states.categories[order], fontsize="small")
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.grid(axis="y", color="0.93", lw=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel("share of residents, in %")
    n_samples, epsilon = states.n_samples, raw.oracle.epsilon
    ax.set_title(f"{study.oracle}, epsilon = {epsilon:g}, {n_samples:,} reports")
    ax.legend(handles=[truth_drawn, raw_drawn, post_drawn], loc="lower right", frameon=False)


def _draw_errors(ax: Any, studies: list[Study], queries: str) -> None:
    posts = list(studies[0].mse[queries])
    offsets = (np.arange(len(studies)) - (len(studies) - 1) / 2) * 0.8 / len(studies)
    for study, offset, (color, marker) in zip(studies, offsets, _STYLES, strict=False):
        errors = [study.rmse(queries, post) for post in posts]
        place = np.arange(len(posts)) + offset
        ax.plot(errors, place, marker, color=color, ms=8, label=study.oracle)
        i = posts.index(study.picks[queries]["SyntheticSearch"])
        ax.plot(errors[i], place[i], "o", ms=15, mfc="none", mec=color, mew=1.2)
    ax.plot([], [], "o", ms=12, mfc="none", mec="0.3", mew=1.2, label="picked by SyntheticSearch")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 8)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_yticks(range(len(posts)), posts)
    ax.set_ylim(len(posts) - 0.5, -0.5)
    for i in range(1, len(posts)):
        ax.axhline(i - 0.5, color="0.9", lw=0.8, zorder=0)
    ax.grid(axis="x", color="0.93", lw=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel("RMSE in percentage points, log scale")
    ax.set_title(f"Error on the {queries}, by post-processor")
