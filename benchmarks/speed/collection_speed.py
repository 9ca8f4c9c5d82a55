"""Collecting from files: ``python -m benchmarks.speed.collection_speed``.

Counts 10 to 800 million GRR reports in a mapped file, and alternately runs a bare ``np.bincount``
over the same file, in pieces of the size that suits it best. Then counts as many reports in a
folder of Parquet files. Every row is measured in a separate process, so that its peak memory is its
own. The files are made in a temporary folder (up to 2.5 GB) and removed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_ldp import GRR
from sklearn_ldp._core.support.text import format_table
from sklearn_ldp.collection import aggregate, write_reports

from .._command import command

BARE_PIECE = 1 << 18  # all pieces of 2**14 to 2**22 reports are equally quick
N_DRAWN = 10_000_000  # repeated up to the requested size
N_FILES = 20


def make_oracle(n_categories: int) -> GRR:
    """Return the oracle of all rows."""
    return GRR(1.0, categories=n_categories, random_state=0)


def make_file(path: Path, n: int, n_categories: int) -> None:
    """Write the reports of n users as raw integers of the smallest type."""
    users = np.random.default_rng(0).integers(n_categories, size=min(n, N_DRAWN))
    reports = make_oracle(n_categories).privatize(users).astype(np.min_scalar_type(n_categories))
    with path.open("wb") as file:
        for start in range(0, n, len(reports)):
            reports[: n - start].tofile(file)


def mapped(path: Path, n_categories: int) -> np.ndarray:
    """Return the file as a mapped array."""
    return np.memmap(path, np.min_scalar_type(n_categories), mode="r")


def bare(path: Path, n_categories: int) -> np.ndarray:
    """Do the least possible work: count unchecked reports into one total."""
    reports, counts = mapped(path, n_categories), np.zeros(n_categories, dtype=np.int64)
    for start in range(0, len(reports), BARE_PIECE):
        piece = reports[start : start + BARE_PIECE]
        counts += np.bincount(piece, minlength=n_categories)
    return counts


def timed(function) -> tuple[float, Any]:
    """Return the seconds of a call, and its result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def megabytes() -> float:
    """Return the peak memory of this process, including mapped files."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    # getrusage would not do: it may return the peak of the process that started this one.
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) / 1024


def measure(path: Path, n_categories: int, repeats: int) -> dict[str, float]:
    """Measure the seconds and memory of one file or folder, in this process."""
    oracle = make_oracle(n_categories)
    before = megabytes()
    if path.is_dir():
        seconds, result = timed(lambda: aggregate(path, oracle))
        return {"seconds": seconds, "peak": megabytes(), "before": before, "n": result.n_samples}
    _, result = timed(lambda: aggregate(mapped(path, n_categories), oracle))
    peak = megabytes()
    runs = []
    for _ in range(repeats):
        ours, result = timed(lambda: aggregate(mapped(path, n_categories), oracle))
        least, counts = timed(lambda: bare(path, n_categories))
        runs.append((ours, least))
    assert np.array_equal(counts, result.oracle_.support_counts_)
    seconds, bare_seconds = (min(column) for column in zip(*runs, strict=True))
    return {
        "seconds": seconds,
        "bare": bare_seconds,
        "peak": peak,
        "before": before,
        "n": result.n_samples,
    }


def measured_apart(path: Path, n_categories: int, repeats: int) -> dict[str, float]:
    """Run `measure` in a new process."""
    command = [sys.executable, "-m", "benchmarks.speed.collection_speed", "--measure", str(path)]
    command += ["--categories", str(n_categories), "--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    """Run the whole benchmark on one core."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--millions", type=int, nargs="+", default=[10, 100, 800])
    parser.add_argument("--categories", type=int, nargs="+", default=[200, 1024])
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with threadpool_limits(limits=1):
        if arguments.measure:
            row = measure(arguments.measure, arguments.categories[0], arguments.repeats)
            print(json.dumps(row))
            return
        rows = [
            row
            for n_categories in arguments.categories
            for millions in arguments.millions
            for row in rows_of(millions * 1_000_000, n_categories, arguments.repeats)
        ]
    header = ["source", "categories", "million\nreports", "ns a\nreport", "bare\nbincount"]
    header += ["throughput\nto bare", "peak\nMB", "before\nMB"]
    print(format_table(header, rows))


def rows_of(n: int, n_categories: int, repeats: int) -> list[list[str]]:
    """Return one row for the mapped file and one for the folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports"
        make_file(path, n, n_categories)
        rows = [cells("mapped file", measured_apart(path, n_categories, repeats), n_categories)]
        path.unlink()
        oracle = make_oracle(n_categories)
        reports = oracle.privatize(
            np.random.default_rng(0).integers(n_categories, size=min(n // N_FILES, N_DRAWN))
        )
        parquet = Path(folder) / "parquet"
        parquet.mkdir()
        for start in range(0, n, len(reports)):
            name = f"{start:012}"
            write_reports(parquet / f"{name}.parquet", reports[: n - start], oracle, random_state=0)
        rows.append(cells("Parquet", measured_apart(parquet, n_categories, 1), n_categories))
    return rows


def cells(name: str, row: dict[str, float], n_categories: int) -> list[str]:
    """Return the cells of a row of the table."""
    each = 1e9 / row["n"]
    bare_ns, ratio = "", ""
    if "bare" in row:
        bare_ns, ratio = f"{row['bare'] * each:.2f}", f"{row['bare'] / row['seconds']:.2f}"
    numbers = [f"{row['n'] // 1_000_000}", f"{row['seconds'] * each:.2f}", bare_ns, ratio]
    return [name, str(n_categories), *numbers, f"{row['peak']:.0f}", f"{row['before']:.0f}"]


if __name__ == "__main__":
    main()
