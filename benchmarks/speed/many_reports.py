"""Many reports through a cluster: ``python -m benchmarks.speed.many_reports``.

Writes files of OLH reports, and adds them up by `aggregate_dask` on workers of this machine. Prints
the time, the processor time and the peak memory of the client process and of the workers.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from sklearn_ldp import OLH
from sklearn_ldp._core.common.text import format_table
from sklearn_ldp.collection import aggregate_dask, write_reports

from .._command import command
from .._timing import mebibytes


def usage() -> tuple[float, float]:
    """Return this process's processor time in seconds, and its peak memory in MiB."""
    return time.process_time(), mebibytes()


def main() -> None:
    """Print one row for each process."""
    from distributed import Client, LocalCluster

    parser = command(__doc__, __spec__)
    parser.add_argument("--reports", type=int, default=100_000_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--categories", type=int, default=1024)
    options = parser.parse_args()
    oracle = OLH(1.0, categories=options.categories)
    n_in_file = options.reports // options.files
    with tempfile.TemporaryDirectory() as folder:
        values = np.arange(n_in_file) % options.categories
        start = time.process_time()
        for number in range(options.files):
            write_reports(f"{folder}/{number:05}.parquet", oracle.privatize(values), oracle)
        written = time.process_time() - start
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        cluster = LocalCluster(
            n_workers=options.workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        )
        with cluster, Client(cluster) as client:
            before = usage()[0]
            start = time.perf_counter()
            server = aggregate_dask(client, folder, oracle, checkpoint=f"{folder}/state.npz")
            seconds = time.perf_counter() - start
            used, peak = usage()
            workers = client.run(usage)
        checkpoint = Path(f"{folder}/state.npz").stat().st_size
    assert server.n_samples == n_in_file * options.files
    rows = [["client and scheduler", f"{used - before:.1f}", f"{peak:.0f}"]]
    for number, (used, peak) in enumerate(workers.values()):
        rows.append([f"worker {number}", f"{used:.1f}", f"{peak:.0f}"])
    print(
        f"{server.n_samples:,} reports in {options.files:,} files ({size / 1e6:,.0f} MB): "
        f"{seconds:.1f} s. Randomizing and writing took {written:.0f} s of one processor. The "
        f"checkpoint has {checkpoint / 1e3:.0f} kB."
    )
    print(format_table(["process", "CPU seconds", "peak MiB"], rows))


if __name__ == "__main__":
    main()
