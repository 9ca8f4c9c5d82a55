"""Domains of millions of categories: ``python -m benchmarks.speed.large_domains``.

Each row is measured in a separate process, which randomizes the values of the users, adds up the
reports, and estimates all frequencies. For some oracles the work is proportional to the number of
users times the number of categories. These oracles have fewer users and a separate table, with
millions of pairs (user, category) per second.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

import sklearn_ldp
from sklearn_ldp._core.common.text import format_table

from .._command import command
from .._timing import mebibytes

ORACLES = [
    "GRR(1.0)",
    "HadamardResponse(1.0)",
    "HadamardResponse(4.0)",
    "OLH(1.0)",
    "OLH(4.0)",
    "ProjectiveGeometryResponse(1.0)",
    "ProjectiveGeometryResponse(4.0)",
]
PAIRWISE = ["SUE(1.0)", "OUE(1.0)", "SubsetSelection(1.0)", "OLH(1.0, mixing)"]


def measure(name: str, d: int, n: int) -> list[str]:
    """Return the seconds of the three steps and the peak memory, or why there are none."""
    kind, epsilon, *family = name.rstrip(")").replace(", ", "(").split("(")
    options = {"hash_family": family[0]} if family else {}
    oracle = getattr(sklearn_ldp, kind)(float(epsilon), categories=d, **options)
    users, laps = np.random.default_rng(0).integers(d, size=n), [time.process_time()]
    try:
        reports = oracle.privatize(users)
    except ValueError:
        return ["refused", "", "", ""]
    laps.append(time.process_time())
    oracle.aggregate(reports)
    laps.append(time.process_time())
    assert len(oracle.frequencies_) == d
    laps.append(time.process_time())
    return [*(f"{took:.1f}" for took in np.diff(laps)), f"{mebibytes():.0f}"]


def main() -> None:
    """Print a table in Markdown's columns."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--categories", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--few-users", type=int, default=20)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(*measure(arguments.measure, arguments.categories[0], arguments.users), sep=";")
        return
    header = ["oracle", "categories", "privatize\ns", "aggregate\ns", "estimate\ns", "peak\nMB"]
    rows = [_row(name, d, arguments.users) for d in arguments.categories for name in ORACLES]
    print(format_table(header, rows))
    rows = [_row(name, d, arguments.few_users) for d in arguments.categories for name in PAIRWISE]
    for row, d in zip(rows, np.repeat(arguments.categories, len(PAIRWISE)), strict=True):
        row.append(f"{d * arguments.few_users / 1e6 / max(sum(map(float, row[2:5])), 0.1):.0f}")
    print(f"\n{format_table([*header, 'million pairs/s'], rows)}")


def _row(name: str, d: int, n: int) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.speed.large_domains", "--measure", name]
    command += ["--categories", str(d), "--users", str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [name, f"{d:,}", *done.stdout.strip().split(";")]


if __name__ == "__main__":
    main()
