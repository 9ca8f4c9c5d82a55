"""Plain aligned tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest


def format_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)
) -> str:
    """Return a table as text, its columns two blanks apart.

    Parameters
    ----------
    header : sequence of str
        A text a column, of several lines if need be.
    rows : sequence of sequences of str
        The cells.
    left : sequence of int, default=(0,)
        The columns aligned on the left; the others are numbers.

    Returns
    -------
    str
        Lines without a last line break.
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
    """Return the name of a class on several lines, if it is a long one."""
    return name if len(name) <= 10 else re.sub("(?<=[a-z])(?=[A-Z])", "\n", name)
