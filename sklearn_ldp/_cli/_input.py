"""Files of raw values, read as a histogram: how many users hold which value."""

from __future__ import annotations

import csv
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._files._source import Source, shorten
from .._files._text import as_array
from ..datasets import read_histogram


class Histogram(NamedTuple):
    """Categories, of int64 or text, and the number of users of each, both of shape (d,)."""

    categories: np.ndarray
    counts: np.ndarray


_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


def read_users(arguments: Any, domain: np.ndarray | None) -> Histogram:
    """Read a file of values or a histogram.

    Parameters
    ----------
    arguments : Namespace
        With `file`, which is CSV or lines of text, plain or gzip, or Parquet (``-`` is standard
        input, which may hold values but no histogram), and with the options of
        `add_value_options`.
    domain : ndarray of shape (d,) or None
        The public categories, which are never taken for a header.

    Returns
    -------
    Histogram
        In the order of the file if it is a histogram, otherwise sorted by value.

    Raises
    ------
    ValueError
        If the file is malformed, does not hold what the options say, or begins with what looks
        like a header.
    """
    path, kind = arguments.file, arguments.input_kind
    value_column, count_column = arguments.value_column, arguments.count_column
    source = source_of(path)
    header = read_header(source)
    if arguments.no_header:
        _check_no_header(source, header, kind, count_column)
        return _as_histogram(source, Counter(_lines(source)))
    value, count = value_column or "value", count_column or "count"
    has_counts = kind == "auto" and (count_column is not None or {value, count} <= set(header))
    if kind == "histogram" or has_counts:
        _check_columns(source, header, [value, count])
        if str(path) == "-":
            raise ValueError("A histogram is read from a file; standard input takes values.")
        histogram = read_histogram(path, value_column=value, count_column=count)
        return Histogram(histogram.categories, histogram.counts)
    if source.is_parquet:
        _check_columns(source, header, [value])
        tally = _tally_parquet(source, value)
    elif value in header or value_column is not None:
        _check_columns(source, header, [value])
        tally = Counter(_cells(source, header.index(value)))
    else:
        _check_one_column(source, header, kind)
        tally = Counter(_lines(source))
        _check_first_line(source, tally, domain)
    return _as_histogram(source, tally)


def read_categories(path: Path) -> np.ndarray:
    """Read a public domain, one category per line."""
    categories = list(_lines(source_of(path)))
    repeated = [category for category, n in Counter(categories).items() if n > 1]
    if not categories or repeated:
        what = f"repeats {repeated[0]!r}" if repeated else "is empty"
        raise ValueError(f"--categories {path} {what}; expected each category once, one per line.")
    return as_array(categories, parse=True)


def over_domain(users: Histogram, categories: np.ndarray, path: Path) -> Histogram:
    """Return the same users over the given domain; values are compared as text."""
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


def source_of(path: Path) -> Source:
    """Return the file, or what is on standard input for ``-``."""
    if str(path) == "-":
        return Source(sys.stdin.buffer.read(), "standard input")
    return Source(path, str(path))


def read_header(source: Source) -> list[str]:
    """Return the columns of a Parquet file, or the cells in the first line of another one."""
    if source.is_parquet:
        return source.parquet_header()
    first = next(source.lines(), None)
    if first is None:
        raise ValueError(
            f"{source.name} is empty: expected one value per line, or a CSV with a header."
        )
    return next(csv.reader([first]), [])


def _check_columns(source: Source, header: list[str], names: list[str]) -> None:
    missing = [name for name in names if name not in header]
    if missing:
        raise ValueError(
            f"{source.name} has no column {' and no column '.join(map(repr, missing))}; its "
            f"columns are {header}. Name yours with --value-column and --count-column."
        )


def _check_no_header(source: Source, header: list[str], kind: str, count: str | None) -> None:
    if source.is_parquet:
        raise ValueError(f"--no-header is for text; {source.name} is Parquet: leave it out.")
    if kind == "histogram" or count is not None:
        raise ValueError(
            "--no-header is for values, one per line; a histogram needs a header that names its "
            "columns."
        )
    _check_one_column(source, header, kind)


def _check_one_column(source: Source, header: list[str], kind: str) -> None:
    if kind == "auto" and len(header) > 1:
        raise ValueError(
            f"{source.name}: the first line has {len(header)} columns, none of them 'value': "
            f"{header}. Name yours with --value-column (and --count-column, if it is a "
            "histogram), or say --input-kind values if each line as a whole is a value."
        )


def _check_first_line(source: Source, tally: Counter, domain: np.ndarray | None) -> None:
    """Refuse a header that would be counted as the value of a user."""
    first = next(_lines(source))
    if tally[first] > 1:
        return
    cells = next(csv.reader([first]), [])
    column = f"--value-column {shlex.quote(cells[0]) if len(cells) == 1 else 'NAME'}"
    where = f"{source.name}, line 1: {shorten(first)}"
    if domain is not None:
        if first not in domain.astype(str):
            raise ValueError(
                f"{where} is not in the domain that --categories gives. Say {column} if it is a "
                "header; if it is a user's value, say --no-header, and add it to the domain or "
                "correct it."
            )
    elif _is_unlike_the_rest(first, tally):
        raise ValueError(
            f"{where} looks like a header, because no other line repeats it: say {column} if it "
            "is one, or --no-header if it is a user's value."
        )


def _is_unlike_the_rest(first: str, tally: Counter) -> bool:
    """Whether a line that occurs once stands above values that repeat and are not of its kind."""
    if tally.total() == len(tally):  # all are distinct, so nothing can be told
        return False
    others = (value for value in tally if value != first)
    return not (_NUMBER.fullmatch(first) and any(map(_NUMBER.fullmatch, others)))


def _lines(source: Source) -> Iterator[str]:
    """Whole lines as values: neither commas nor quotes mean anything."""
    for number, line in enumerate(source.lines(), start=1):
        yield _not_empty(line.rstrip("\r\n"), source, number)


def _cells(source: Source, column: int) -> Iterator[str]:
    """Cells of one column of a CSV with a header."""
    rows = source.csv_rows()
    next(rows)
    for number, cells in rows:
        # In a file of one column a missing value is a blank line.
        yield _not_empty(cells[column] if cells else "", source, number)


def _not_empty(value: str, source: Source, number: int) -> str:
    if not value:
        raise ValueError(
            f"{source.name}, line {number}: the value is empty. Give a missing value a name, such "
            "as unknown, or leave its line out."
        )
    return value


def _tally_parquet(source: Source, column: str) -> Counter:
    pairs = source.parquet_table([column]).column(0).value_counts().to_pylist()
    tally = Counter({pair["values"]: pair["counts"] for pair in pairs})
    odd = [
        value
        for value in tally
        if type(value) not in (str, int) or value == "" or (type(value) is str and "\0" in value)
    ]
    if odd:
        raise ValueError(
            f"{source.name}: values must be text without NUL or integers, got {odd[0]!r}. Give a "
            "missing value a name, such as unknown; cast other types to text."
        )
    return tally


def _as_histogram(source: Source, tally: Counter) -> Histogram:
    if not tally:
        raise ValueError(f"{source.name} has a header but no values.")
    values = as_array(list(tally), parse=not source.is_parquet)
    counts = np.array(list(tally.values()), dtype=np.int64)
    order = np.argsort(values)
    return Histogram(values[order], counts[order])
