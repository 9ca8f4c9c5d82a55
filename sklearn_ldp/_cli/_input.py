"""Raw values in files, read as a histogram: how many users hold which value."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._files._text import as_array, decoded_lines
from ..datasets import read_histogram


class Source:
    """A file, or standard input, which is read once and kept in memory.

    Parameters
    ----------
    path : Path
        The file; ``-`` is standard input.
    """

    def __init__(self, path: Path):
        self.is_stdin = str(path) == "-"
        self.path = path
        if self.is_stdin:
            self._content = sys.stdin.buffer.read()
        elif path.exists() and not path.is_file():
            # It is opened more than once; a pipe would have lost its first lines by then.
            raise ValueError(f"{path} is no regular file; save what it gives, or give it to -.")

    def open(self) -> io.BufferedReader:
        """Open it from its beginning."""
        if self.is_stdin:
            return io.BufferedReader(io.BytesIO(self._content))
        return open(self.path, "rb")

    def starts_with(self, magic: bytes) -> bool:
        """Whether its first bytes are these."""
        with self.open() as file:
            return file.read(len(magic)) == magic

    def __str__(self) -> str:
        return "standard input" if self.is_stdin else str(self.path)


class Histogram(NamedTuple):
    """Categories, int64 or text of shape (d,), and the number of users of each, of shape (d,)."""

    categories: np.ndarray
    counts: np.ndarray


def read_users(
    path: Path, *, kind: str, value_column: str | None, count_column: str | None
) -> Histogram:
    """Read a file of values or a histogram.

    Parameters
    ----------
    path : Path
        CSV or lines of text, plain or gzip, or Parquet; ``-`` is standard input, of values only.
    kind : {"auto", "values", "histogram"}
        What it holds.
    value_column, count_column : str or None
        Names of columns; None is "value" and "count" where the file has them.

    Returns
    -------
    Histogram
        In the order of the file if that is a histogram, else sorted.

    Raises
    ------
    ValueError
        If the file is malformed or is not what was said.
    """
    source = Source(path)
    header = _read_header(source)
    value, count = value_column or "value", count_column or "count"
    has_counts = kind == "auto" and (count_column is not None or {value, count} <= set(header))
    if kind == "histogram" or has_counts:
        _check_columns(source, header, [value, count])
        if source.is_stdin:
            raise ValueError("A histogram is read from a file; standard input takes values.")
        histogram = read_histogram(path, value_column=value, count_column=count)
        return Histogram(histogram.categories, histogram.counts)
    if _is_parquet(source):
        _check_columns(source, header, [value])
        tally = _tally_parquet(source, value)
    elif value in header or value_column is not None:
        _check_columns(source, header, [value])
        tally = Counter(_cells(source, value))
    elif kind == "auto" and len(header) > 1:
        raise ValueError(
            f"{source}: the first line has {len(header)} columns, none of them 'value': {header}. "
            "Name yours with --value-column (and --count-column, if it is a histogram), or say "
            "--input-kind values if each line as a whole is a value."
        )
    else:
        tally = Counter(_lines(source))
    return _as_histogram(source, tally)


def read_categories(path: Path) -> np.ndarray:
    """Read a public domain, one category a line."""
    categories = list(_lines(Source(path)))
    repeated = [category for category, n in Counter(categories).items() if n > 1]
    if not categories or repeated:
        what = f"repeats {repeated[0]!r}" if repeated else "is empty"
        raise ValueError(f"--categories {path} {what}; expected each category once, one a line.")
    return as_array(categories, parse=True)


def over_domain(users: Histogram, categories: np.ndarray, path: Path) -> Histogram:
    """Return the same users over a given domain; values are compared as text, digit for digit."""
    place = {category: i for i, category in enumerate(categories.astype(str).tolist())}
    counts = np.zeros(len(categories), dtype=np.int64)
    for value, n in zip(users.categories.astype(str).tolist(), users.counts.tolist(), strict=True):
        if value not in place and n > 0:
            raise ValueError(
                f"{path} has the value {value!r} ({n:,} users), which is not in the domain that "
                "--categories gives; add it there, or correct the data."
            )
        if n > 0:
            counts[place[value]] = n
    return Histogram(categories, counts)


def _is_parquet(source: Source) -> bool:
    return source.starts_with(b"PAR1")


def _read_header(source: Source) -> list[str]:
    """Names of the columns of a Parquet file, cells of the first line of another one."""
    if _is_parquet(source):
        return list(_parquet_file(source).schema_arrow.names)
    first = next(_text_lines(source), None)
    if first is None:
        raise ValueError(f"{source} is empty: expected one value a line, or a CSV with a header.")
    return next(csv.reader([first]), [])


def _check_columns(source: Source, header: list[str], names: list[str]) -> None:
    missing = [name for name in names if name not in header]
    if missing:
        raise ValueError(
            f"{source} has no column {' and no column '.join(map(repr, missing))}; its columns are "
            f"{header}. Name yours with --value-column and --count-column."
        )


def _text_lines(source: Source) -> Iterator[str]:
    """Lines of a text file, plain or gzip."""
    with source.open() as file:
        compressed = file.peek(2)[:2] == b"\x1f\x8b"
        try:
            yield from decoded_lines(gzip.GzipFile(fileobj=file) if compressed else file, source)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{source} is a truncated or damaged gzip file ({error}). Copy or download it "
                "again."
            ) from error


def _lines(source: Source) -> Iterator[str]:
    """Whole lines as values: neither commas nor quotes mean anything."""
    for number, line in enumerate(_text_lines(source), start=1):
        yield _not_empty(line.rstrip("\r\n"), source, number)


def _cells(source: Source, column: str) -> Iterator[str]:
    """Cells of one column of a CSV with a header."""
    reader = csv.reader(_text_lines(source), strict=True)
    try:
        header = next(reader)
        place = header.index(column)
        for cells in reader:
            cells = cells or [""]  # in a file of one column, a missing value is a blank line
            if len(cells) != len(header):
                raise ValueError(
                    f"{source}, line {reader.line_num}: expected {len(header)} columns as in the "
                    f"header, got {len(cells)}. Put a value that contains a comma in double quotes."
                )
            yield _not_empty(cells[place], source, reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{source}, line {reader.line_num}: no proper CSV ({error}).") from error


def _not_empty(value: str, source: Source, number: int) -> str:
    if not value:
        raise ValueError(
            f"{source}, line {number}: the value is empty. Give a missing value a name, such as "
            "unknown, or leave its line out."
        )
    return value


def _parquet_file(source: Source) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError(
            f"{source} is a Parquet file, which needs pyarrow, which is not installed; install it "
            "with pip install 'sklearn_ldp[data]', or convert the file to CSV."
        ) from error
    try:
        return ParquetFile(source.open() if source.is_stdin else source.path)
    except (ArrowException, OSError) as error:
        raise ValueError(
            f"{source} is a truncated or damaged Parquet file ({error}). Copy or download it again."
        ) from error


def _tally_parquet(source: Source, column: str) -> Counter:
    pairs = _parquet_file(source).read(columns=[column]).column(0).value_counts().to_pylist()
    tally = Counter({pair["values"]: pair["counts"] for pair in pairs})
    odd = [value for value in tally if type(value) not in (str, int) or value == ""]
    if odd:
        raise ValueError(
            f"{source}: values must be text or integers, got {odd[0]!r}. Give a missing value a "
            "name, such as unknown; cast other types to text."
        )
    return tally


def _as_histogram(source: Source, tally: Counter) -> Histogram:
    if not tally:
        raise ValueError(f"{source} has a header but no values.")
    values = as_array(list(tally), parse=not _is_parquet(source))
    counts = np.array(list(tally.values()), dtype=np.int64)
    order = np.argsort(values)
    return Histogram(values[order], counts[order])
