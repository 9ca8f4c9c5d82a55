"""Text in files: lines of UTF-8, and columns that become integers where that loses nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

# What str(int) writes: each integer has one text, so "007" or "1.0" never turn into another name.
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64_MAX = 2**63 - 1


def decoded_lines(file: Iterable[bytes], where: object) -> Iterator[str]:
    """Decode the lines one by one, unlike a text wrapper, so that an error can name its line.

    Parameters
    ----------
    file : iterable of bytes
        The lines of a file.
    where : str or path-like
        What an error calls the file.

    Yields
    ------
    str
        The lines, with their line ends.
    """
    encoding = "utf-8-sig"  # a byte-order mark may open the file
    for number, line in enumerate(file, start=1):
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{where}, line {number}: expected text in UTF-8, got the byte "
                f"0x{line[error.start]:02x}. Save the file as UTF-8, for instance with "
                "iconv -f latin1 -t utf-8."
            ) from error
        if "\0" in text:
            raise ValueError(
                f"{where}, line {number}: expected text in UTF-8, got a NUL character. The file "
                "is binary or UTF-16: save it as CSV in UTF-8."
            )
        yield text
        encoding = "utf-8"


def as_array(cells: Sequence, *, parse: bool, dtype: type[str] | None = None) -> np.ndarray:
    """Convert a column to int64 if that loses nothing, otherwise to text.

    Parameters
    ----------
    cells : sequence of str, int or None
        The column; None becomes the empty text.
    parse : bool
        Whether text that is a canonical integer counts as an integer.
    dtype : {None, str}, default=None
        With ``str``, the column always becomes text.

    Returns
    -------
    ndarray of shape (n,), of int64 or str
        The converted column.
    """
    if dtype is None and all(
        type(cell) is int or (parse and _CANONICAL_INTEGER.fullmatch(cell)) for cell in cells
    ):
        integers = [int(cell) for cell in cells]
        if min(integers) >= -_INT64_MAX - 1 and max(integers) <= _INT64_MAX:
            return np.array(integers, dtype=np.int64)
    return np.array(["" if cell is None else str(cell) for cell in cells])
