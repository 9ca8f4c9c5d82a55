"""Raw values in files, read as a histogram: how many users hold which value."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..datasets import read_histogram
from ..datasets._readers import _as_array, _decoded_lines


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
        CSV or lines of text, plain or gzip, or Parquet.
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
    if path.exists() and not path.is_file():
        # It is opened more than once; a pipe would have lost its first lines by then.
        raise ValueError(f"{path} is no regular file; save what it gives, and name that file.")
    header = _read_header(path)
    value, count = value_column or "value", count_column or "count"
    has_counts = kind == "auto" and (count_column is not None or {value, count} <= set(header))
    if kind == "histogram" or has_counts:
        _check_columns(path, header, [value, count])
        histogram = read_histogram(path, value_column=value, count_column=count)
        return Histogram(histogram.categories, histogram.counts)
    if _is_parquet(path):
        _check_columns(path, header, [value])
        tally = _tally_parquet(path, value)
    elif value in header or value_column is not None:
        _check_columns(path, header, [value])
        tally = Counter(_cells(path, value))
    elif kind == "auto" and len(header) > 1:
        raise ValueError(
            f"{path}: the first line has {len(header)} columns, none of them 'value': {header}. "
            "Name yours with --value-column (and --count-column, if it is a histogram), or say "
            "--input-kind values if each line as a whole is a value."
        )
    else:
        tally = Counter(_lines(path))
    return _as_histogram(path, tally)


def read_categories(path: Path) -> np.ndarray:
    """Read a public domain, one category a line."""
    categories = list(_lines(path))
    repeated = [category for category, n in Counter(categories).items() if n > 1]
    if not categories or repeated:
        what = f"repeats {repeated[0]!r}" if repeated else "is empty"
        raise ValueError(f"--categories {path} {what}; expected each category once, one a line.")
    return _as_array(categories, parse=True, dtype=None)


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


def _is_parquet(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _read_header(path: Path) -> list[str]:
    """Names of the columns of a Parquet file, cells of the first line of another one."""
    if _is_parquet(path):
        return list(_parquet_file(path).schema_arrow.names)
    first = next(_text_lines(path), None)
    if first is None:
        raise ValueError(f"{path} is empty: expected one value a line, or a CSV with a header.")
    return next(csv.reader([first]), [])


def _check_columns(path: Path, header: list[str], names: list[str]) -> None:
    missing = [name for name in names if name not in header]
    if missing:
        raise ValueError(
            f"{path} has no column {' and no column '.join(map(repr, missing))}; its columns are "
            f"{header}. Name yours with --value-column and --count-column."
        )


def _text_lines(path: Path) -> Iterator[str]:
    """Lines of a text file, plain or gzip."""
    with open(path, "rb") as file:
        compressed = file.peek(2)[:2] == b"\x1f\x8b"
        try:
            yield from _decoded_lines(gzip.GzipFile(fileobj=file) if compressed else file, path)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{path} is a truncated or damaged gzip file ({error}). Copy or download it again."
            ) from error


def _lines(path: Path) -> Iterator[str]:
    """Whole lines as values: neither commas nor quotes mean anything."""
    for number, line in enumerate(_text_lines(path), start=1):
        yield _not_empty(line.rstrip("\r\n"), path, number)


def _cells(path: Path, column: str) -> Iterator[str]:
    """Cells of one column of a CSV with a header."""
    reader = csv.reader(_text_lines(path), strict=True)
    try:
        header = next(reader)
        place = header.index(column)
        for cells in reader:
            cells = cells or [""]  # in a file of one column, a missing value is a blank line
            if len(cells) != len(header):
                raise ValueError(
                    f"{path}, line {reader.line_num}: expected {len(header)} columns as in the "
                    f"header, got {len(cells)}. Put a value that contains a comma in double quotes."
                )
            yield _not_empty(cells[place], path, reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: no proper CSV ({error}).") from error


def _not_empty(value: str, path: Path, number: int) -> str:
    if not value:
        raise ValueError(
            f"{path}, line {number}: the value is empty. Give a missing value a name, such as "
            "unknown, or leave its line out."
        )
    return value


def _parquet_file(path: Path) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError(
            f"{path} is a Parquet file, which needs pyarrow, which is not installed; install it "
            "with pip install 'sklearn_ldp[data]', or convert the file to CSV."
        ) from error
    try:
        return ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise ValueError(
            f"{path} is a truncated or damaged Parquet file ({error}). Copy or download it again."
        ) from error


def _tally_parquet(path: Path, column: str) -> Counter:
    pairs = _parquet_file(path).read(columns=[column]).column(0).value_counts().to_pylist()
    tally = Counter({pair["values"]: pair["counts"] for pair in pairs})
    odd = [value for value in tally if type(value) not in (str, int) or value == ""]
    if odd:
        raise ValueError(
            f"{path}: values must be text or integers, got {odd[0]!r}. Give a missing value a "
            "name, such as unknown; cast other types to text."
        )
    return tally


def _as_histogram(path: Path, tally: Counter) -> Histogram:
    if not tally:
        raise ValueError(f"{path} has a header but no values.")
    values = _as_array(list(tally), parse=not _is_parquet(path), dtype=None)
    counts = np.array(list(tally.values()), dtype=np.int64)
    order = np.argsort(values)
    return Histogram(values[order], counts[order])
