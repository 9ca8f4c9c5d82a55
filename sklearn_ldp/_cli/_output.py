"""Tables: aligned on a terminal, CSV in a pipe, and CSV or Parquet in a file."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._utils.files import make_folder, replacing
from .._utils.text import format_table, printable

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")


# What Excel, LibreOffice and Google Sheets evaluate, half and full width; spaces may come before.
_FORMULA = re.compile(r"\s*[=+\-@\t\r\uff0b\uff0d\uff1d\uff20]")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


def is_csv(path: Path | None) -> bool:
    """Whether `write_table` writes CSV, which a spreadsheet may open."""
    if path is None:
        return not sys.stdout.isatty()
    return not path.name.lower().endswith(".parquet")


def first_formula(column: np.ndarray) -> str | None:
    """The first text in a column that a spreadsheet would evaluate."""
    texts = (str(value) for value in column.tolist()) if column.dtype.kind in "OU" else ()
    return next((text for text in texts if _is_formula(text)), None)


def without_formulas(column: np.ndarray) -> np.ndarray:
    """The column with an apostrophe before what a spreadsheet would evaluate: it shows that."""
    if first_formula(column) is None:
        return column
    texts = [str(value) for value in column.tolist()]
    return np.array([f"'{t}" if _is_formula(t) else t for t in texts], dtype=object)


def _is_formula(text: str) -> bool:
    return bool(_FORMULA.match(text)) and not _NUMBER.fullmatch(text)


def write_table(columns: Mapping[str, Any], path: Path | None) -> None:
    """Write columns to a file, whose folder is created if missing, or to standard output.

    Parameters
    ----------
    columns : mapping of str to ndarray
        The columns, by their names.
    path : Path or None
        Its suffix says the format. None is standard output, where a person at a terminal gets an
        aligned table with a few digits, and a program behind a pipe gets CSV with all of them.
    """
    if path is None:
        is_terminal = sys.stdout.isatty()
        sys.stdout.write(f"{_as_table(columns)}\n" if is_terminal else _as_csv(columns))
        return
    if path.name.lower().endswith(".parquet"):
        check_parquet(path)
        _write_parquet(columns, path)
        return
    content = _as_csv(columns).encode("utf-8")
    if path.name.lower().endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    make_folder(path)
    with replacing(path) as file:
        file.write(content)


def write_tables(tables: Mapping[Any, Mapping[str, Any]], path: Path | None, key: str) -> None:
    """Write tables of the same columns: one below the other on a terminal, otherwise as one.

    Parameters
    ----------
    tables : mapping of str to mapping of str to ndarray
        The tables by name.
    path : Path or None
        As for `write_table`.
    key : str
        What the column of their names is called, if they are written as one.
    """
    if path is None and sys.stdout.isatty():
        shown = (f"{printable(name)}\n{_as_table(table)}" for name, table in tables.items())
        sys.stdout.write("\n\n".join(shown) + "\n")
        return
    first, *_ = tables.values()
    sizes = [len(next(iter(table.values()))) for table in tables.values()]
    whole: dict[str, Any] = {key: np.repeat(np.array(list(tables), dtype=object), sizes)}
    for name in first:
        cells = [table[name] for table in tables.values()]
        # Categories may be text in one table and integers in another.
        one_kind = len({column.dtype.kind for column in cells}) == 1
        cells = cells if one_kind else [column.astype(str).astype(object) for column in cells]
        whole[name] = np.concatenate(cells)
    write_table(whole, path)


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
    make_folder(path)
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


def _as_table(columns: Mapping[str, Any]) -> str:
    cells = [_as_cells(column) for column in columns.values()]
    left = [i for i, column in enumerate(columns.values()) if column.dtype.kind not in "iuf"]
    return format_table(list(columns), list(zip(*cells, strict=True)), left=left)


def _as_cells(column: np.ndarray) -> list[str]:
    if column.dtype.kind != "f":
        # What would break the line, or steer the terminal, is shown as Python writes it.
        return [text if text.isprintable() else repr(text) for text in map(str, column.tolist())]
    decimals = _decimals(column)
    cells = [f"{x:.{decimals}f}" for x in column]
    surplus = min(len(cell) - len(cell.rstrip("0")) for cell in cells) if decimals else 0
    # A column of whole numbers loses its decimal points, too.
    return [cell[: len(cell) - surplus].rstrip(".") for cell in cells]


def _decimals(column: np.ndarray) -> int:
    """Decimals that show three digits of half of the numbers, and more of the larger ones."""
    sizes = np.abs(column[np.isfinite(column) & (column != 0)])
    return int(np.clip(2 - np.floor(np.log10(np.median(sizes))), 0, 12)) if sizes.size else 0
