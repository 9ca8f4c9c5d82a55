"""Domains of millions of categories: ``python -m benchmarks.large_domains``.

Each row is a process of its own: it makes the reports of some users, adds them up, and estimates
all frequencies. Oracles whose work is the product of users and categories are left out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import sklearn_ldp
from sklearn_ldp._table import format_table

ORACLES = [
    "GRR(1.0)",
    "HadamardResponse(1.0)",
    "HadamardResponse(4.0)",
    "OLH(1.0)",
    "OLH(4.0)",
    "ProjectiveGeometryResponse(1.0)",
    "ProjectiveGeometryResponse(4.0)",
]


def measure(name: str, d: int, n: int) -> list[str]:
    """Return the seconds of the three steps and the peak memory, or why there are none."""
    kind, epsilon = name.rstrip(")").split("(")
    oracle = getattr(sklearn_ldp, kind)(float(epsilon), categories=d)
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
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) / 1024
    return [*(f"{took:.1f}" for took in np.diff(laps)), f"{peak:.0f}"]


def main() -> None:
    """Print a table in Markdown's columns."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large_domains", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--categories", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(*measure(arguments.measure, arguments.categories[0], arguments.users), sep=";")
        return
    rows = []
    for d in arguments.categories:
        for name in ORACLES:
            command = [sys.executable, "-m", "benchmarks.large_domains", "--measure", name]
            command += ["--categories", str(d), "--users", str(arguments.users)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append([name, f"{d:,}", *done.stdout.strip().split(";")])
    header = ["oracle", "categories", "privatize\ns", "aggregate\ns", "estimate\ns", "peak\nMB"]
    print(format_table(header, rows))


if __name__ == "__main__":
    main()
