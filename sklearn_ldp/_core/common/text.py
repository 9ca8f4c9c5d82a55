"""Functions for text: decoding of lines, conversion of columns to integers, and aligned tables."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

import numpy as np

# The output of str(int): each integer has one text, so "007" or "1.0" never become another name.
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}")  # up to 2**64
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte-order marks
# Files that users may pass instead of text, by their first bytes.
_BINARY = {
    b"PK\3\4": "a zip archive, such as an .xlsx or .npz file",
    b"ARROW1": "an Arrow file",
    b"\xff\xff\xff\xff": "an Arrow stream",
    b"PAR1": "a Parquet file",
}
MOST_LINES = 20  # maximum in a representation
_DAY_FIRST = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}")  # such as 05.01.2026
_FIRST_YEAR = 1000  # a larger number in a name is a year, and larger units precede smaller units
_MONTHS = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if name
}
_JOINERS = "\u200c\u200d"  # in emojis, and in words of many languages


def order_by_number(names: Sequence[Any]) -> list[str] | None:
    """Return texts such as "week 2" in the order of their numbers, if sorting moved them apart.

    Months and dates such as 05.01.2026 are also numbers. Returns: None if the names are not texts,
    if they are not in the order of text (the order of sorting, or of files in a shell), or if both
    orders are equal.
    """
    if not all(isinstance(name, str) for name in names) or list(names) != sorted(names):
        return None
    by_number = sorted(names, key=_numbers_of)
    return None if by_number == list(names) else by_number


def _numbers_of(name: str) -> list[int]:
    """Return the numbers and months in a text in the order of their units: years precede days."""
    words = re.findall(r"\d+|[^\W\d_]+", name.lower())
    numbers = [
        _MONTHS.get(word) or int(word) for word in words if word in _MONTHS or word.isdecimal()
    ]
    if _DAY_FIRST.fullmatch(name):
        return numbers[::-1]
    return sorted(numbers, key=lambda number: number < _FIRST_YEAR)


def kind_of(value: Any) -> str:
    """Return the type and the length of a value as text, for errors that must not show it."""
    length = f" of length {len(value)}" if hasattr(value, "__len__") else ""
    return f"{type(value).__name__}{length}"


def few(values: Any) -> str:
    """Return a number, or the first three of several numbers, as a single line of text."""
    if np.ndim(values) == 0:
        return f"{values!r:.80}"
    numbers = np.ravel(np.asarray(values))
    more = ", ..." * (len(numbers) > 3)
    return f"[{', '.join(map(str, numbers[:3].tolist()))}{more}]"


def decoded_lines(file: Iterable[bytes], where: object) -> Iterator[str]:
    """Yield the lines of a binary file as text.

    Each line is decoded separately, so that an error can contain the line number. `where` is the
    name of the file in errors.
    """
    encoding = "utf-8-sig"  # the first line may begin with a byte-order mark
    kind = ""
    for number, line in enumerate(file, start=1):
        if number == 1 and line.startswith(_UTF_16):
            raise ValueError(
                f"{where} is text in UTF-16, which some spreadsheets write. Save the file as "
                "UTF-8, for instance with iconv -f utf-16 -t utf-8."
            )
        if number == 1:
            kind = next((kind for magic, kind in _BINARY.items() if line.startswith(magic)), "")
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError:  # its message would show the line
            text = None
        if kind and (text is None or "\0" in text):
            raise ValueError(f"{where} is {kind}, not text. Save its content as CSV in UTF-8.")
        if text is None:
            raise ValueError(
                f"{where}, line {number}: expected text in UTF-8, got other bytes. Save the file "
                "as UTF-8, for instance with iconv -f latin1 -t utf-8."
            )
        if "\0" in text:
            raise ValueError(
                f"{where}, line {number}: expected text in UTF-8, got a NUL character. The file "
                "is binary or UTF-16. Save it as CSV in UTF-8."
            )
        yield text
        encoding = "utf-8"


def is_category(cell: object) -> bool:
    """Return whether a cell of a file can be a category.

    A category is an integer, or a non-empty text without NUL.
    """
    # NumPy drops trailing NULs, so "a" and "a\0" would become one category.
    return type(cell) is int or (type(cell) is str and cell != "" and "\0" not in cell)


def as_array(cells: Sequence, *, parse: bool, dtype: type[str] | None = None) -> np.ndarray:
    """Return a column as integers of 64 bits if no information is lost, otherwise as text.

    cells: the column; None becomes the empty text. parse: whether texts may be converted to
    integers.

    Shapes: -> (n,).
    """
    if dtype is None and all(
        type(cell) is int or (parse and _CANONICAL_INTEGER.fullmatch(cell)) for cell in cells
    ):
        integers = integer_array([int(cell) for cell in cells])
        if integers.dtype != object:
            return integers
    texts = ["" if cell is None else str(cell) for cell in cells]
    # NumPy's text drops NULs at the end.
    return np.array(texts, dtype=object if any(t.endswith("\0") for t in texts) else None)


def integer_array(integers: Sequence) -> np.ndarray:
    """Return integers as an int64 or uint64 array, or as objects if they do not fit."""
    for dtype in (np.int64, np.uint64):
        with suppress(OverflowError):
            return np.array(integers, dtype=dtype)
    return np.array(integers, dtype=object)


def printable(text: object) -> str:
    """Return a name as a single line of text, without control characters."""
    # text: text or a path. In a path, bytes that are not UTF-8 are surrogates.
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else repr(c)[1:-1] for c in text)


def format_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)
) -> str:
    """Return an aligned table as text, with two spaces between the columns.

    The columns whose positions are in `left` are left-aligned.
    """
    heads = [text.split("\n")[::-1] for text in header]
    head_rows = [list(cells) for cells in zip_longest(*heads, fillvalue="")][::-1]
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*head_rows, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([*map(line, head_rows), rule, *map(line, rows)])


def rounded_up(x: float) -> str:
    """Return a positive number as text, rounded up to two decimals; from 10 on, to an integer."""
    return f"{math.ceil(100 * x) / 100:.2f}" if x < 10 else f"{math.ceil(x):,}"


def grouped_digits(n: float) -> str:
    """Return a number of users as text with at most one decimal: "5,000" or "2,297.2"."""
    return f"{round(n, 1):,}".removesuffix(".0")


def counted(n: float, noun: str) -> str:
    """Return a number with a noun, such as "1 user", "5,000 users" or "2,297.2 users"."""
    return f"{grouped_digits(n)} {noun}{'' if n == 1 else 's'}"


def labelled_lines(names: Sequence[object], *columns: Sequence[str]) -> list[str]:
    """Return one line for each name, with the name and the cells in its row.

    Returns: the lines. Line breaks in names become spaces. If there are more than 20 names, the
    other lines are replaced by "...".
    """
    shown = [printable(" ".join(str(name).split())) for name in names[:MOST_LINES]]
    width = max(map(len, shown), default=0)
    lines = [
        " ".join([name.ljust(width), *cells]) for name, *cells in zip(shown, *columns, strict=False)
    ]
    return lines if len(names) == len(shown) else [*lines, "..."]


def number_texts(
    numbers: Iterable[float], digits: int = 6, among: Iterable[float] = ()
) -> list[str]:
    """Return numbers as texts, such as "0.25", "40" or "8,300".

    A number that is not an integer has `digits` significant digits.
    """
    # among: other numbers in the same place. There are commas only if a number has five digits
    # before the point, because years have no commas.
    listed = [float(number) for number in numbers]
    comma = "," * any(1e4 <= abs(x) < math.inf for x in [*listed, *among])

    def text(x: float) -> str:
        x = x if digits >= 6 and x.is_integer() else float(f"{x:.{digits}g}")
        if 1e-4 <= abs(x) < 1e15:
            return f"{x:{comma}.9f}".rstrip("0").rstrip(".")
        return f"{x:g}"

    return [text(x) for x in listed]


def narrow(name: str) -> str:
    """Return the name of a class, broken into several lines if it is long."""
    return name if len(name) <= 10 else re.sub("(?<=[a-z])(?=[A-Z])", "\n", name)
