"""Tables as plain, aligned text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest


def format_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)
) -> str:
    """Return a table as text, with two blanks between its columns.

    Parameters
    ----------
    header : sequence of str
        One text per column, which may have several lines.
    rows : sequence of sequences of str
        The cells of each row.
    left : sequence of int, default=(0,)
        The columns that are aligned on the left; the others, such as numbers, on the right.

    Returns
    -------
    str
        The lines of the table, without a line break at the end.
    """
    heads = [text.split("\n")[::-1] for text in header]
    head_rows = [list(cells) for cells in zip_longest(*heads, fillvalue="")][::-1]
    widths = [max(map(len, cells)) for cells in zip(*head_rows, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([*map(line, head_rows), rule, *map(line, rows)])


def narrow(name: str) -> str:
    """Return the name of a class, broken into several lines if it is long."""
    return name if len(name) <= 10 else re.sub("(?<=[a-z])(?=[A-Z])", "\n", name)
