"""Many small batches: ``python -m benchmarks.small_batches``.

Adds batches of one report each to an `Aggregator` of every oracle, and then batches of as many
reports as ``--large`` says. Run it with another version on the path to compare::

    PYTHONPATH=/path/to/other/version python /path/to/benchmarks/small_batches.py
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_ldp import OLH, HadamardResponse, ProjectiveGeometryResponse
from sklearn_ldp._table import format_table
from sklearn_ldp.collection import Aggregator
from sklearn_ldp.utils.discovery import all_estimators

# Beside the default of each oracle: larger tallies, other families, blocks.
OTHERS = [
    OLH(4.0),
    OLH(hash_family="mixing"),
    HadamardResponse(4.0, n_blocks="auto"),
    ProjectiveGeometryResponse(4.0),
]


def a_second(oracle: Any, size: int, n_categories: int, seconds: float) -> tuple[float, int]:
    """Return how many batches of a size are added in a second, and how many counts are kept."""
    oracle = oracle.set_params(categories=n_categories, random_state=0)
    n = min(max(64 * size, 1000), 10**6)
    reports = oracle.privatize(np.random.default_rng(0).integers(n_categories, size=n))
    # The copies are those of a reader that decodes one batch after the other.
    batches = [reports[i : i + size].copy() for i in range(0, n - size + 1, size)]
    server = Aggregator(oracle).add(batches[0], "first")
    done, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        server.add(batches[done % len(batches)], f"batch {done}")
        done += 1
    tally = server.tally()  # sums that nobody has read would be no work
    assert tally.n_samples == size * done + len(batches[0])
    spent = time.perf_counter() - start
    return done / spent, tally.tallies.size


def main() -> None:
    """Run the benchmark on one core."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small_batches", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--categories", type=int, default=1000)
    parser.add_argument("--large", type=int, default=10_000, help="reports in a large batch")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each measurement")
    arguments = parser.parse_args()
    rows = []
    with threadpool_limits(limits=1):
        for oracle in [cls() for _, cls in all_estimators("oracle")] + OTHERS:
            name = str(oracle)
            small, n_counts = a_second(oracle, 1, arguments.categories, arguments.seconds)
            large = a_second(oracle, arguments.large, arguments.categories, arguments.seconds)[0]
            cells = f"{n_counts:,}", f"{small:,.0f}", f"{large * arguments.large / 1e6:.2f}"
            rows.append([name, *cells])
    header = ["oracle", "counts", "batches of one\na second", "million reports a second\nin large"]
    print(format_table(header, rows))


if __name__ == "__main__":
    main()
