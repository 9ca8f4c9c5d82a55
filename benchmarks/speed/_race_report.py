"""The report of the race: tables in Markdown, and a figure."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._tables import markdown
from ._contest import OURS, PEERS, Result
from ._race_targets import Check

BEGIN, END = "<!-- race: begin, written by make race -->", "<!-- race: end -->"
SYMBOLS = {"n": "n", "d": "d", "epsilon": "ε"}
STYLES = {
    OURS: ("#c0392b", "o"),
    "pure-ldp": ("#2c7fb8", "s"),
    "multi-freq-ldpy": ("#7a5195", "D"),
    "ldp-toolbox": ("#d95f0e", "v"),
    "opendp": ("#8a8d00", "^"),
}


@dataclass
class Growth:
    """Best times of one oracle while one of n, d and epsilon is varied."""

    oracle: str
    varied: str
    at: list[float]
    seconds: list[float]

    @property
    def exponent(self) -> float:
        """Slope of the straight line through the logarithms, by least squares."""
        return float(np.polyfit(np.log(self.at), np.log(self.seconds), 1)[0])


def progress(result: Result) -> str:
    """Return the line of text for one result."""
    return (
        f"{result.oracle:27}{result.package:16} n = {result.n_samples:9,}  d = "
        f"{result.n_categories:6,} {seconds(result):>9} s  squared error {result.raw:.2f} of Eq. 5"
    )


# -- text ---------------------------------------------------------------------------------------
def page(
    results: list[Result],
    growth: list[Growth],
    checks: list[Check],
    epsilon: float,
    seconds: float,
) -> str:
    """Return all tables as text."""
    parts = [
        f"Measured with ε = {epsilon:g} on one core ({platform.machine()}), Python "
        f"{platform.python_version()}, NumPy {np.__version__}; extrapolated beyond "
        f"{seconds:g} s."
    ]
    sizes = dict.fromkeys((r.n_samples, r.n_categories) for r in results)
    for size in sizes:
        here = [r for r in results if (r.n_samples, r.n_categories) == size]
        parts += [f"## n = {size[0]:,}, d = {size[1]:,}", size_table(here)]
    if growth:
        parts += ["## How our cost grows", growth_table(growth)]
    if checks:
        rows = [[*texts, "yes" if is_met else "**no**"] for *texts, is_met in checks]
        parts += ["## Targets", markdown(["target", "measured", "met"], rows)]
    return "\n\n".join(parts) + "\n"


def size_table(results: list[Result]) -> str:
    """Return the table of one size: one row per oracle of each package, ours first."""
    own = {r.oracle: r for r in results if r.package == OURS}
    rows = []
    for r in results:
        is_ours = r.package == OURS
        rows.append(
            [
                r.oracle if is_ours else "",
                f"**{r.package}**" if is_ours else r.package,
                seconds(r),
                "1" if is_ours else _three_digits(r.total / own[r.oracle].total),
                f"{r.n_timed:,}",
                f"{r.peak_mib:,.0f}" if r.peak_mib >= 1 else "< 1",
                f"{r.raw:.2g}" if r.raw < 0.1 else f"{r.raw:.2f}",
                f"{r.projected:.2g}",
            ]
        )
    header = ["oracle", "package", "s", "times ours", "users timed", "peak MiB", "MSE / Eq. 5"]
    return markdown([*header, "after Norm-Sub"], rows)


def seconds(result: Result) -> str:
    """Return the seconds as text, with a star if they are extrapolated."""
    return _three_digits(result.total) + ("\\*" if result.is_extrapolated else "")


def _three_digits(x: float) -> str:
    """Return a number with three digits, such as 1,930 for 1.93e+03."""
    rounded = float(f"{x:.3g}")
    return f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:.3g}"


def growth_table(growth: list[Growth]) -> str:
    """Return the table of exponents, one row per oracle."""
    header: dict[str, str] = {}
    rows: dict[str, list[str]] = {}
    for one in growth:
        header[one.varied] = f"{SYMBOLS[one.varied]} from {one.at[0]:,g} to {one.at[-1]:,g}"
        first, last = (_three_digits(1e3 * s) for s in (one.seconds[0], one.seconds[-1]))
        rows.setdefault(one.oracle, []).append(f"{one.exponent:.2f} ({first} to {last} ms)")
    return markdown(["oracle", *header.values()], [[name, *cells] for name, cells in rows.items()])


# -- figure -------------------------------------------------------------------------------------
def draw(results: list[Result], path: Path) -> None:
    """Draw the seconds of every oracle and package, one panel per size; hollow: extrapolated."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    sizes = list(dict.fromkeys((r.n_samples, r.n_categories) for r in results))
    oracles = list(dict.fromkeys(r.oracle for r in results))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "race", "font.size": 9}):
        figure = Figure(figsize=(3.1 * len(sizes) + 1.6, 3.6), layout="constrained")
        for ax, size in zip(
            figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0], sizes, strict=True
        ):
            _panel(ax, [r for r in results if (r.n_samples, r.n_categories) == size], oracles)
            ax.set_title(f"n = {size[0]:,}, d = {size[1]:,}", fontsize=9)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, metadata={"Date": None})


def _panel(ax, results: list[Result], oracles: list[str]) -> None:
    for package in [OURS, *PEERS]:
        own = [r for r in results if r.package == package]
        style = dict(zip(("color", "marker"), STYLES[package], strict=True))
        ax.plot([], [], linestyle="none", label=package, **style)
        for r in own:
            face = "white" if r.is_extrapolated else style["color"]
            ax.plot(r.total, oracles.index(r.oracle), markerfacecolor=face, **style)
    ax.set_xscale("log")
    ax.set_yticks(range(len(oracles)), oracles)
    ax.set_ylim(len(oracles) - 0.5, -0.5)
    ax.set_xlabel("seconds")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
