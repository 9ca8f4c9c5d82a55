"""What a megabyte of hostile reports can cost: ``python -m benchmarks.security.hostile_files``.

Each row is an oracle at an epsilon. *Honest* is a Parquet file that `write_reports` wrote. *Worst*
is the most that a collector reads of a file before it refuses it: as many reports as the limits
allow (see `sklearn_ldp._core.aggregation.formats`), each at the cost of an honest one. *Bomb* is
measured: a file of equal reports that is filled up to that limit. Below stand files with as many
pages and messages as fit into a megabyte.

With ``--estimates 100000``, so many mutated files of estimates are read instead. Each must be
refused by a ValueError within a second, or load equal. Where the mutant has no digest (version 1)
or a renewed one, as anybody can make it, it may also load as another estimate whose parts agree.
No file may appear, and nothing may be imported or executed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    ColumnOracle,
    Domain,
    HadamardResponse,
    LocalMean,
    MarginalOracle,
    MatrixOracle,
    ProjectiveGeometryResponse,
    RangeOracle,
    StringOracle,
    SubsetSelection,
)
from sklearn_ldp._core.aggregation import formats
from sklearn_ldp._core.aggregation.containers import report_fields, row_bytes, to_batch, to_columns
from sklearn_ldp._core.common.text import format_table
from sklearn_ldp.collection import RefusedBatchError, tally_file, write_reports

from .._command import command
from .._timing import seconds
from ._mutants import read_mutants

EVERY = (
    GRR(),
    SUE(),
    OUE(),
    BLH(),
    OLH(),
    HadamardResponse(),
    HadamardResponse(n_blocks="auto"),
    ProjectiveGeometryResponse(),
    SubsetSelection(),
)
MEGABYTE = 1_000_000
N_HONEST = 20_000


def written(oracle: Any, reports: np.ndarray, form: str = "parquet") -> bytes:
    """Return a file of reports."""
    file = io.BytesIO()
    write_reports(file, reports, oracle, batch_id="x", format=form, random_state=0)
    return file.getvalue()


def taken(content: bytes, oracle: Any, form: str = "parquet", repeats: int = 3) -> float:
    """Return the least seconds of one core that a collector takes to count or refuse a file."""

    def count() -> None:
        with contextlib.suppress(RefusedBatchError):
            tally_file(content, oracle, format=form)

    return seconds(count, repeats, time.process_time)


def most_reports(oracle: Any, n_bytes: int) -> int:
    """Return how many reports a file of that size may promise."""
    n_group = formats.n_group(report_fields(oracle.protocol()))
    return formats.most_reports(n_bytes, oracle.protocol().mechanism.report_entropy(), n_group)


def promising(oracle: Any, n: int, padding: int = 0) -> tuple[Any, Any]:
    """Return the schema of a file that promises n reports, and a batch of one report."""
    one = oracle.privatize(values(oracle, 1))
    schema = pq.read_schema(io.BytesIO(written(oracle, one)))
    header = json.loads(schema.metadata[b"sklearn_ldp"])
    header["batch"]["n_samples"] = n
    metadata = {b"sklearn_ldp": json.dumps(header).encode()}
    metadata |= {b"%d" % i: b"x" * 100_000 for i in range(padding // 100_000)}
    return schema.with_metadata(metadata), to_columns(one, report_fields(oracle.protocol()))


def values(oracle: Any, n: int) -> np.ndarray:
    """Return values of users, one row each for a survey."""
    columns = getattr(oracle, "domains", None)
    if isinstance(oracle, LocalMean):
        return np.linspace(*oracle.bounds, n)
    if isinstance(oracle, StringOracle):
        return np.resize(["".join(oracle.alphabet[i:]) for i in range(26)], n)
    if getattr(oracle.protocol().domain, "grid_ends", None) is not None:
        return np.column_stack([np.arange(n) % 16 + 0.5, np.arange(n) % 15 + 0.5])
    if columns is None:
        return np.arange(n) % oracle.protocol().domain.size
    return np.column_stack([np.arange(n) % size for size in columns.values()])


def bomb(oracle: Any, n_bytes: int) -> bytes:
    """Return a Parquet file of equal reports, as many as a file of this size may hold."""
    n = most_reports(oracle, n_bytes)
    schema, columns = promising(oracle, n, n_bytes)
    size = min(n, formats.n_group(report_fields(oracle.protocol())))
    batch = to_batch([np.repeat(column, size, axis=0) for column in columns], schema)
    file = io.BytesIO()
    with pq.ParquetWriter(file, schema, compression="zstd", write_statistics=False) as writer:
        for start in range(0, n, size):
            piece = batch.slice(0, min(size, n - start))
            writer.write_batch(piece, row_group_size=len(piece))
    return file.getvalue()


def name_of(oracle: Any) -> str:
    """Return the name of an oracle with what makes it another mechanism."""
    parameters = oracle.get_params(deep=False)
    told = [parameters.get(name) for name in ("hash_family", "n_blocks", "oracle")]
    more = [str(one) for one in told if one not in (None, "linear", 1, "best")]
    return " ".join([type(oracle).__name__, *more])


def row_of(oracle: Any, bomb_bytes: int) -> list[str]:
    """Return the cells of an oracle's row."""
    domain = oracle.protocol().domain
    size = "" if isinstance(oracle, LocalMean | StringOracle) else f", d = {domain.size:,}"
    honest = written(oracle, oracle.privatize(values(oracle, N_HONEST)))
    spent = taken(honest, oracle)
    hostile = bomb(oracle, bomb_bytes)
    most = most_reports(oracle, MEGABYTE)
    return [
        f"{name_of(oracle)}, epsilon {oracle.epsilon:g}{size}",
        f"{row_bytes(report_fields(oracle.protocol())):,}",
        f"{spent / N_HONEST * 1e9:,.0f}",
        f"{N_HONEST / len(honest) * MEGABYTE:,.0f}",
        f"{spent / len(honest) * MEGABYTE:.2f}",
        f"{most:,}",
        f"{spent / N_HONEST * most:.2f}",
        f"{taken(hostile, oracle, repeats=1) / len(hostile) * MEGABYTE:.2f}",
    ]


def fragments(oracle: Any) -> list[list[str]]:
    """Return rows for files with as many row groups, pages and messages as fit into a megabyte."""
    rows = []
    schema, columns = promising(oracle, 5_000)
    for name, size in (("Arrow, messages of one report", 1), ("Arrow, empty messages", 0)):
        file = io.BytesIO()
        with pa.ipc.new_stream(file, schema) as writer:
            for _ in range(5_000):
                writer.write_batch(to_batch(columns, schema).slice(0, size))
        rows.append([name, file.getvalue(), "arrow"])
    reports = oracle.privatize(np.zeros(N_HONEST, int))
    rows.append(["Arrow, honest", written(oracle, reports, "arrow"), "arrow"])
    rows.append(["JSON lines, honest", written(oracle, reports, "jsonl"), "jsonl"])
    return [
        [name, f"{len(content):,}", f"{taken(content, oracle, form) / len(content) * 1e6:.2f}"]
        for name, content, form in rows
    ]


def mutated_estimates(n_mutants: int, seed: int) -> int:
    """Print how reading mutated files of estimates ends, and return the number of failures."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        outcomes, failures, longest = read_mutants(n_mutants, seed, Path(os.curdir))
    rows = [[kind, end, f"{n:,}"] for (kind, end), n in sorted(outcomes.items())]
    print(format_table(["mutated", "reading it", "files"], rows))
    print(f"{n_mutants:,} files, the longest {longest:.2f} s; {len(failures)} failures")
    print(*failures, sep="\n")
    return len(failures)


def main() -> None:
    """Print both tables, measured on one core."""
    parser = command(__doc__, __spec__, seed=0)
    parser.add_argument("--estimates", type=int, help="read so many mutated estimates instead")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 8.0])
    parser.add_argument("--categories", type=int, default=1000)
    parser.add_argument("--bytes", type=int, default=200_000, help="about the size of a bomb")
    arguments = parser.parse_args()
    if arguments.estimates:
        raise SystemExit(min(mutated_estimates(arguments.estimates, arguments.seed), 1))
    d = arguments.categories
    columns = {"a": d, "b": 2, "c": 10}
    oracles = [one.set_params(categories=d) for one in (*EVERY, OLH(hash_family="mixing"))]
    oracles += [ColumnOracle(domains=columns), ColumnOracle(domains=columns, oracle=OUE())]
    oracles.append(MarginalOracle(domains={**columns, "a": 20}))
    oracles += [LocalMean(bounds=(0, 100)), MatrixOracle(categories=64)]
    oracles += [RangeOracle(categories=256), RangeOracle(categories=d)]
    axis = Domain.bins(16, bounds=(0, 16))
    oracles.append(RangeOracle(categories=Domain.grid(axis, axis)))
    oracles.append(StringOracle(alphabet="abcdefghijklmnopqrstuvwxyz"))
    with threadpool_limits(limits=1):
        rows = [
            row_of(oracle.set_params(epsilon=epsilon), arguments.bytes)
            for epsilon in arguments.epsilon
            for oracle in oracles
        ]
        rows.append(row_of(GRR(20.0, categories=2), arguments.bytes))
        other = fragments(GRR(1.0, categories=d))
    header = ["oracle", "bytes\na report", "ns\na report", "honest\nreports/MB", "honest\ns/MB"]
    print(format_table([*header, "most\nreports/MB", "worst\ns/MB", "bomb\ns/MB"], rows))
    print()
    print(format_table(["GRR(1), in many pieces", "bytes", "s/MB"], other))


if __name__ == "__main__":
    main()
