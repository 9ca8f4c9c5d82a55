"""Adding up on a Dask cluster: ``python -m benchmarks.speed.dask_throughput``.

Writes Parquet files of reports, and adds them up with `aggregate` in one process and with
`aggregate_dask` on 1, 2 and 4 worker processes of one thread each on this machine. Seconds are
those of the best run; the first run of a cluster, in which its workers import the package, is left
out. The runs of `aggregate` and of a cluster alternate, and the ratio is the median over these
pairs, so that a busy machine harms both alike.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sklearn_ldp import GRR, OLH, OUE
from sklearn_ldp._core.support.text import format_table
from sklearn_ldp.collection import aggregate, aggregate_dask, write_reports

from .._command import command
from .._timing import seconds

ORACLES: dict[str, Callable[..., Any]] = {"grr": GRR, "olh": OLH, "oue": OUE}


def write_files(folder: Path, oracle: Any, n_files: int, n_reports: int) -> None:
    """Write files of new reports of the same users; equal batches would be refused as copies."""
    rng = np.random.default_rng(0)
    users = rng.integers(oracle.categories, size=n_reports)
    oracle = clone(oracle).set_params(random_state=rng)
    for i in range(n_files):
        reports = oracle.privatize(users)
        write_reports(folder / f"{i:05}.parquet", reports, oracle, batch_id=f"b{i}", random_state=0)


def measure(
    folder: Path, oracle: Any, processes: list[int], repeats: int
) -> dict[int, tuple[float, float]]:
    """Return the best seconds for each number of worker processes, and the speed to `aggregate`.

    The number 0 stands for `aggregate`.
    """
    from distributed import Client, LocalCluster

    expected = aggregate(folder, oracle).tally().tallies

    def run(add_up: Callable[[], Any]) -> float:
        def checked() -> None:
            assert np.array_equal(add_up().tally().tallies, expected)

        return seconds(checked, 1)

    alone, found = [], {}
    for n_workers in processes:
        with (
            LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
            ) as cluster,
            Client(cluster) as client,
        ):
            aggregate_dask(client, folder, oracle)
            pairs = [
                (
                    run(lambda: aggregate(folder, oracle)),
                    run(lambda client=client: aggregate_dask(client, folder, oracle)),
                )
                for _ in range(repeats)
            ]
        here, there = np.array(pairs).T
        found[n_workers] = (there.min(), np.median(here / there))
        alone.append(here.min())
    return {0: (min(alone), 1.0), **found}


def rows_of(
    name: str, found: dict[int, tuple[float, float]], n: int, cores: int
) -> list[list[str]]:
    """Return the rows of one oracle: `aggregate` first, then the clusters."""
    rows = []
    for n_workers, (took, ratio) in sorted(found.items()):
        rate = n / took / 1e6
        by = f"aggregate_dask, {n_workers}" if n_workers else "aggregate"
        numbers = [took, rate, rate / max(n_workers, 1), ratio]
        remark = "more workers than cores" if n_workers > cores else ""
        rows.append([name, by, *(f"{number:.2f}" for number in numbers), remark])
    return rows


def main() -> None:
    """Run the whole benchmark."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--oracles", choices=sorted(ORACLES), nargs="+", default=["grr", "olh"])
    parser.add_argument("--categories", type=int, default=1000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--reports", type=int, default=1_000_000, help="reports in each file")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts")
    arguments = parser.parse_args()
    cores = os.cpu_count() or 1
    rows = []
    with threadpool_limits(limits=1):
        for name in arguments.oracles:
            oracle = ORACLES[name](1.0, categories=arguments.categories, random_state=0)
            with tempfile.TemporaryDirectory() as folder:
                write_files(Path(folder), oracle, arguments.files, arguments.reports)
                found = measure(Path(folder), oracle, arguments.processes, arguments.repeats)
            n = arguments.files * arguments.reports
            rows += rows_of(type(oracle).__name__, found, n, cores)
    print(
        f"{arguments.files} Parquet files of {arguments.reports:,} reports over "
        f"{arguments.categories:,} categories; os.cpu_count() is {cores}."
    )
    header = ["oracle", "by, worker\nprocesses", "seconds", "million reports\na second"]
    header += ["million reports a\nsecond and worker", "speed to\naggregate", ""]
    print(format_table(header, rows))


if __name__ == "__main__":
    main()
