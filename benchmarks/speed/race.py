"""Compare our oracles with those of public packages, on the same users: ``make race``.

Each oracle collects one value per user end to end (privatize, aggregate, estimate) and projects the
estimate on the simplex (Norm-Sub), on one core and in a separate process, ours with secure
randomness. If a measurement would need more than a minute, or more memory than allowed, it uses
fewer users, and the result is extrapolated and marked. Two more tables contain the growth of our
cost with the number of users, and the targets of the design.

The other packages need a separate environment, which `make race` builds::

    python -m venv peers && peers/bin/pip install -r benchmarks/peers.txt
    python -m benchmarks.speed.race --peers-python peers/bin/python
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

import sklearn_ldp
from sklearn_ldp.datasets import make_zipf

from .._command import DATA, command
from .._tables import markdown, refresh
from .._timing import seconds
from ..accuracy import items, strings, table_models
from . import _race_report as report
from ._contest import ORACLES, OURS, PEERS, SECONDS, SIZES, race, race_one_value
from ._race_targets import check_targets

# How our cost grows: one parameter is varied, the others stay fixed.
GROWTH = {
    "n": [50_000, 100_000, 200_000, 400_000, 800_000],
    "d": [256, 1_024, 4_096, 16_384, 131_072, 1_000_000],
    "epsilon": [0.5, 1.0, 2.0, 4.0],
}
LONG_REPORTS, LONG_REPORTS_BITS = ("SUE", "OUE", "SubsetSelection"), 10**9
N_OF_DEVICE = 1_024
GROWTH_BASE = {"n": 100_000, "d": 1_024, "epsilon": 1.0}


def main() -> None:
    """Race, and write the table, the figures and, on request, the page of the notes."""
    arguments = _parse_arguments()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the processes it starts inherit it
    sizes = SIZES[:1] if arguments.quick else SIZES
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = []
    for result in race(arguments.peers_python, sizes, arguments.epsilon, arguments.seconds):
        results.append(result)
        table = pd.DataFrame(results)
        table.to_csv(arguments.output / "race.csv", index=False)  # in case it is interrupted
        print(report.progress(result), flush=True)
    with threadpool_limits(limits=1):
        growth = [] if arguments.quick else list(measure_growth())
        checks = [] if arguments.quick else check_targets(results)
    page = report.page(results, growth, checks, arguments.epsilon, arguments.seconds)
    one_value = race_one_value(arguments.peers_python, N_OF_DEVICE, arguments.epsilon)
    page += f"\n## One value on a device, d = {N_OF_DEVICE:,}\n\nMicroseconds of one value, as a "
    page += f"client randomises it.\n\n{markdown(['oracle', OURS, *PEERS], one_value)}\n"
    if arguments.peers_python and not arguments.quick:
        peers = {"Strings": strings, "Sets of items": items}
        if DATA.exists():
            peers["Tables of two columns"] = table_models
        for heading, peer in peers.items():
            rows = peer.peer_rows(arguments.peers_python)
            page += f"\n## {heading}\n\n{markdown(peer.PEER_HEADER, rows)}\n"
    (arguments.output / "race.md").write_text(page, encoding="utf-8")
    report.draw(results, arguments.output / "race.svg")
    if arguments.page:
        refresh(arguments.page, (report.BEGIN, report.END), page)
        report.draw(results, arguments.page.parents[1] / "_static" / "race.svg")
    print("\n" + page)


def _parse_arguments() -> argparse.Namespace:
    parser = command(__doc__, __spec__, whole=True)
    parser.add_argument("--peers-python", metavar="PATH", help="interpreter with the packages")
    parser.add_argument("--epsilon", type=float, default=1.0, help="(default: 1)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="longer measurements are extrapolated"
    )
    parser.add_argument("--quick", action="store_true", help="the first size and no growth")
    parser.add_argument(
        "--output", type=Path, default=Path("benchmarks/results/race"), metavar="DIR"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="page to refresh, and its figure")
    return parser.parse_args()


def measure_growth() -> Iterator[report.Growth]:
    """Time our oracles while the numbers of users and categories, and the budget, are varied."""
    for name in ORACLES:
        for varied, at in GROWTH.items():
            took = []
            for x in at:
                setting = {**GROWTH_BASE, varied: x}
                n, d = int(setting["n"]), int(setting["d"])
                values = make_zipf(n, d, exponent=1.1, random_state=0)
                if name in LONG_REPORTS:  # each user takes in proportion to d, so fewer will do
                    values = values[: max(LONG_REPORTS_BITS // d, 1_000)]
                oracle = getattr(sklearn_ldp, name)(setting["epsilon"], categories=d)
                took.append(seconds(partial(oracle.fit_transform, values)) * n / len(values))
            yield report.Growth(name, varied, list(map(float, at)), took)


if __name__ == "__main__":
    main()
