"""Many small batches: ``python -m benchmarks.speed.small_batches``.

Adds batches of one report each to an `Aggregator` of every oracle, and then batches of as many
reports as ``--large`` says. Run it with another version on the path to compare::

    PYTHONPATH=/path/to/other/version python /path/to/benchmarks/speed/small_batches.py
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_ldp import OLH, HadamardResponse, ProjectiveGeometryResponse
from sklearn_ldp._core.support.text import format_table
from sklearn_ldp.collection import Aggregator
from sklearn_ldp.utils.discovery import all_estimators

# Beside the default of each oracle: larger tallies, other families, blocks.
OTHERS = [
    OLH(4.0),
    OLH(hash_family="mixing"),
    HadamardResponse(4.0, n_blocks="auto"),
    ProjectiveGeometryResponse(4.0),
]


def a_second(oracle: Any, size: int, n_batches: int, n_categories: int) -> tuple[float, int]:
    """Return how many batches of a size are added in a second, and how many counts are kept."""
    oracle = oracle.set_params(categories=n_categories, random_state=np.random.default_rng(0))
    rng = np.random.default_rng(1)
    server, spent = Aggregator(oracle).add(oracle.privatize([0]), "first"), 0.0
    done = 0
    while done < n_batches:
        # No two batches are the same; they are made while the clock stands still.
        n_made = min(n_batches - done, max(10_000 // size, 1))
        reports = oracle.privatize(rng.integers(n_categories, size=n_made * size))
        start = time.process_time()
        for i in range(n_made):
            server.add(reports[i * size : (i + 1) * size], f"batch {done + i}")
        spent += time.process_time() - start
        done += n_made
    start = time.process_time()
    tally = server.tally()  # sums that nobody has read would be no work
    assert tally.n_samples == size * done + 1
    return done / (spent + time.process_time() - start), tally.tallies.size


def main() -> None:
    """Run the benchmark on one core."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.small_batches", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--categories", type=int, default=1000)
    parser.add_argument("--large", type=int, default=10_000, help="reports in a large batch")
    parser.add_argument("--batches", type=int, default=10_000, help="batches of one report")
    parser.add_argument("--large-batches", type=int, default=30)
    arguments = parser.parse_args()
    rows = []
    with threadpool_limits(limits=1):
        for oracle in [cls() for _, cls in all_estimators("oracle")] + OTHERS:
            name = str(oracle)
            small, n_counts = a_second(oracle, 1, arguments.batches, arguments.categories)
            large = a_second(
                oracle, arguments.large, arguments.large_batches, arguments.categories
            )[0]
            cells = f"{n_counts:,}", f"{small:,.0f}", f"{large * arguments.large / 1e6:.2f}"
            rows.append([name, *cells])
    header = ["oracle", "counts", "batches of one\na second", "million reports a second\nin large"]
    print(format_table(header, rows))


if __name__ == "__main__":
    main()
