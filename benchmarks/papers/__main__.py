"""The papers' experiments: ``python -m benchmarks.papers [FIGURE ...]``, or ``make study``.

The command writes one tidy CSV file and one picture per figure, and report.md, which has the
papers' statements beside our measurements. Without names, it computes every figure.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from .._command import add_data_argument, command
from . import calibrate, paper2019, paper2020
from ._figure import Figure, Settings, write_csv
from ._populations import missing_data
from ._report import write_report

FIGURES: dict[str, Figure] = {
    **paper2020.FIGURES.figures,
    **paper2019.FIGURES.figures,
    **calibrate.FIGURES.figures,
}


def main(arguments: list[str] | None = None) -> int:
    """Compute figures, write them and the report."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(f"{name:<22} {figure.title}" for name, figure in FIGURES.items()))
        return 0
    unknown = [name for name in options.figures if name not in FIGURES]
    if unknown:
        parser.error(f"there is no figure {unknown[0]!r}; --list shows the names")
    if options.repeats is not None and options.repeats < 2:
        parser.error(f"--repeats must be 2 or more, got {options.repeats}")
    settings = Settings(options.data, options.quick, options.repeats, options.n_jobs, options.seed)
    options.output.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    lacking: set[str] = set()
    names = list(dict.fromkeys(options.figures)) or list(FIGURES)
    for i, name in enumerate(names, start=1):
        figure = FIGURES[name]
        missing = figure.missing(settings)
        if missing and len(missing) == len(figure.data):
            print(f"[{i}/{len(names)}] {name}: left out, no data ({', '.join(missing)})")
            lacking.update(missing)
            continue
        start = time.perf_counter()
        results[name] = figure.compute(settings)
        write_csv(results[name], options.output / f"{name}.csv")
        if figure.draw is not None:
            figure.draw(results[name]).savefig(options.output / f"{name}.png", dpi=110)
        seconds[name] = time.perf_counter() - start
        lacking.update(missing)
        without = f", without the panels of {', '.join(missing)}" if missing else ""
        print(f"[{i}/{len(names)}] {name}: {seconds[name]:.1f} s{without}", flush=True)
    if lacking:
        print(missing_data(lacking, options.data))
    if not results:
        print(f"nothing was computed: {options.data} has none of the data", file=sys.stderr)
        return 1
    shown = {name: FIGURES[name] for name in results}
    print(write_report(options.output, shown, results, settings, seconds, not options.figures))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command(__doc__, __spec__, n_jobs=2, seed=0)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="names; all by default")
    parser.add_argument("--list", action="store_true", help="show the names and stop")
    parser.add_argument("--quick", action="store_true", help="fewer points and repeats")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("benchmarks/results/papers"),
        metavar="DIR",
        help="(default: benchmarks/results/papers)",
    )
    parser.add_argument("--repeats", type=int, help="simulated collections (default: 30, quick 8)")
    add_data_argument(parser)
    return parser


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main())
