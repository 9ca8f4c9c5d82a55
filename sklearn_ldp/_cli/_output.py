"""Files that are either written whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")


def check_writable(path: Path) -> None:
    """Raise OSError if no file can be put there: before long work, and before users report."""
    with open_atomically(path, keep=False):
        pass


@contextmanager
def open_atomically(path: Path, *, keep: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name only when all of it is written.

    Parameters
    ----------
    path : Path
        Its name; a file that is there already is replaced.
    keep : bool, default=True
        False throws the file away in any case.
    """
    path = path.resolve()  # what a link points to is replaced, not the link
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no file that could be replaced; name another --output.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with _create(temporary, path) as file:
            yield file
        if keep:
            os.replace(temporary, path)
    finally:
        with suppress(OSError):  # such as a folder that is none: nothing was made then
            temporary.unlink(missing_ok=True)


def _create(temporary: Path, path: Path) -> IO[bytes]:
    """Open the temporary file; an error names the file that was asked for, not its stand-in."""
    try:
        return open(temporary, "xb")
    except OSError as error:
        raise OSError(error.errno, f"cannot write here ({error.strerror})", str(path)) from error


def write_table(columns: Mapping[str, Any], path: Path | None) -> None:
    """Write columns as CSV or Parquet, by the suffix of the name; without one, CSV on stdout."""
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
    with open_atomically(path) as file:
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
    with open_atomically(path) as file:
        write_parquet(table, file)


def _as_csv(columns: Mapping[str, Any]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_as_text(column) for column in columns.values()), strict=True))
    return text.getvalue()


def _as_text(column: np.ndarray) -> list:
    """Integers and text as they are, frequencies with far more digits than noise leaves true."""
    return [f"{x:.10g}" for x in column] if column.dtype.kind == "f" else column.tolist()
