"""Tables as CSV or Parquet, on standard output or in a file that appears whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._files._atomic import replacing

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")


def write_table(columns: Mapping[str, Any], path: Path | None) -> None:
    """Write columns as CSV or Parquet, depending on the suffix of `path`; None is CSV on stdout."""
    if path is None:
        sys.stdout.write(_as_csv(columns))
        return
    if path.name.lower().endswith(".parquet"):
        check_parquet(path)
        _write_parquet(columns, path)
        return
    content = _as_csv(columns).encode("utf-8")
    if path.name.lower().endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    with replacing(path) as file:
        file.write(content)


def check_parquet(path: Path) -> None:
    """Raise ImportError if a Parquet file cannot be written."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"--output {path}: Parquet needs pyarrow, which is not installed; install it with "
            "pip install 'sklearn_ldp[data]', or name a .csv file."
        ) from error


def _write_parquet(columns: Mapping[str, Any], path: Path) -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table as write_parquet

    table = pa.table({name: pa.array(column.tolist()) for name, column in columns.items()})
    with replacing(path) as file:
        write_parquet(table, file)


def _as_csv(columns: Mapping[str, Any]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_as_text(column) for column in columns.values()), strict=True))
    return text.getvalue()


def _as_text(column: np.ndarray) -> list:
    """Integers and text as they are, other numbers with ten digits: far more than noise leaves."""
    return [f"{x:.10g}" for x in column] if column.dtype.kind == "f" else column.tolist()
