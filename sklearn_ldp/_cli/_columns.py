"""Files of several columns: their public domains as JSON, and users as rows of CSV or Parquet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._files._source import Source, shorten
from ..domains import RecordDomain
from ._input import over_domain, read_header, read_users, source_of

_EXAMPLE = '{"sex": ["F", "M"], "age": 10}'
_LARGEST = 2**63 - 1


class Rows(NamedTuple):
    """Categories of users in each column, of shape (n_rows, n_columns), and their numbers."""

    values: np.ndarray
    counts: np.ndarray


def read_domains(path: Path) -> dict[str, Any]:
    """Read the public domain of each column.

    Parameters
    ----------
    path : Path
        JSON: an object whose keys are the columns, and whose values are lists of categories (text
        or integers) or numbers of categories.

    Returns
    -------
    dict of str to (list or int)
        The domains in their order.

    Raises
    ------
    ValueError
        If the file is no such JSON.
    """
    text = "".join(Source(path, str(path)).lines())
    try:
        domains = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, path))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: not well-formed JSON ({error.msg}); expected the "
            f"domain of each column, such as {_EXAMPLE}."
        ) from error
    if not isinstance(domains, dict) or not domains:
        raise ValueError(
            f"{path}: expected an object with the domain of each column, such as {_EXAMPLE}, got "
            f"{shorten(domains)}."
        )
    for name, domain in domains.items():
        _check_domain(domain, f"{path}: the domain of the column {name!r}")
    return domains


def _object(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{path} has the key {twice!r} twice: give each column one domain.")
    return found


def _check_domain(domain: Any, where: str) -> None:
    if type(domain) is int and domain >= 1:
        return
    is_list = isinstance(domain, list) and bool(domain)
    if not is_list:
        raise ValueError(
            f"{where} must be a list of categories or a number of them >= 1, got {shorten(domain)}."
        )
    odd = [one for one in domain if not _is_text(one) and not _is_integer(one)]
    if odd:
        raise ValueError(
            f"{where} must list text without NUL, which is not empty, or integers, got "
            f"{shorten(odd[0])}: put it in double quotes, as in the data."
        )
    (text, n), *_ = Counter(map(str, domain)).most_common(1)
    if n > 1:
        raise ValueError(f"{where} repeats {shorten(text)}: list each category once.")


def _is_text(value: Any) -> bool:
    return type(value) is str and value != "" and "\0" not in value


def _is_integer(value: Any) -> bool:
    return type(value) is int and -_LARGEST <= value <= _LARGEST


def read_rows(arguments: Any, domain: RecordDomain) -> Rows:
    """Read one row per user, or per combination of values with its number of users.

    Parameters
    ----------
    arguments : Namespace
        With `file`, which is CSV, plain or gzip, or Parquet (``-`` is standard input), and with the
        options of `add_value_options`.
    domain : RecordDomain
        The public domains of the columns. Other columns of the file are not read.

    Returns
    -------
    Rows
        The categories themselves, in the order of the domain's columns.

    Raises
    ------
    ValueError
        If a column is missing, or a value is not in its domain.
    """
    if arguments.no_header or arguments.value_column is not None:
        option = "--no-header" if arguments.no_header else "--value-column"
        raise ValueError(
            f"{option} is for files of one column; with --domains the header names the columns."
        )
    source = source_of(arguments.file)
    header = read_header(source)
    names, count = list(domain.columns), _count_column(arguments, header, domain)
    wanted = names if count is None else [*names, count]
    for name in wanted:
        if header.count(name) != 1:
            what = f"has the column {name!r} twice" if name in header else f"has no column {name!r}"
            raise ValueError(
                f"{source.name} {what}; its columns are {header}. Every column of --domains must "
                "be there once."
            )
    read = _parquet_columns if source.is_parquet else _csv_columns
    codes = {
        name: _Codes(source.name, name, of_one.categories)
        for name, of_one in domain.columns.items()
    }
    cells = read(source, header, codes, count)
    if not len(cells[-1]):
        raise ValueError(f"{source.name} has a header but no rows.")
    values = np.empty((len(cells[-1]), len(names)), dtype=object)
    for j, one in enumerate(codes.values()):
        values[:, j] = one.categories[cells[j]]
    return Rows(values, cells[-1])


def declared_users(arguments: Any, oracle: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the values in the file, over the domain of the oracle, and their numbers of users."""
    if arguments.domains is not None:
        return read_rows(arguments, RecordDomain.declared(oracle.domains, "--domains"))
    categories = oracle.categories
    return over_domain(read_users(arguments, categories), categories, arguments.file)


def _count_column(arguments: Any, header: list[str], domain: RecordDomain) -> str | None:
    """The column of the numbers of users, if the rows are those of a histogram."""
    kind, name = arguments.input_kind, arguments.count_column or "count"
    if kind == "values":
        return None
    if kind == "histogram" or arguments.count_column is not None:
        return name
    return name if name in header and name not in domain.columns else None


class _Codes:
    """The place of each category of a column, by its text."""

    def __init__(self, file: str, column: str, categories: np.ndarray) -> None:
        self.file, self.column = file, column
        self.categories = np.array(categories.tolist(), dtype=object)
        self.places = {str(one): i for i, one in enumerate(self.categories)}

    def of(self, value: str, where: str) -> int:
        """Return the place of a value, or raise an error that says where it is."""
        place = self.places.get(value)
        if place is not None:
            return place
        what = "an empty value" if not value else f"the value {shorten(value)}"
        remedy = (
            "give a missing value a name, such as unknown, or leave its row out"
            if not value
            else "add it there, or correct the data"
        )
        raise ValueError(
            f"{self.file}{where}: {what} in the column {self.column!r}, which is not in the domain "
            f"that --domains gives; {remedy}."
        )


def _csv_columns(
    source: Source, header: list[str], codes: dict[str, _Codes], count: str | None
) -> list[np.ndarray]:
    """The codes of each column, and the numbers of users."""
    places = [header.index(name) for name in codes]
    n_place = None if count is None else header.index(count)
    found: list[list[int]] = [[] for _ in range(len(codes) + 1)]
    rows = source.csv_rows()
    next(rows)
    for number, cells in rows:
        row, where = cells or [""] * len(header), f", line {number}"
        for column, place, one in zip(found, places, codes.values(), strict=False):
            column.append(one.of(row[place], where))
        found[-1].append(1 if n_place is None else _number(row[n_place], f"{source.name}{where}"))
    return [np.array(column, dtype=np.int64) for column in found]


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= _LARGEST):
        raise ValueError(
            f"{where}: a number of users must be a whole number >= 0, got {shorten(text)}. Say "
            "--input-kind values if each row is one user."
        )
    return int(text)


def _parquet_columns(
    source: Source, header: list[str], codes: dict[str, _Codes], count: str | None
) -> list[np.ndarray]:
    table = source.parquet_table([*codes, *([] if count is None else [count])])
    found = []
    for name, one in codes.items():
        different, places = _factorised(table.column(name))
        found.append(np.array([one.of(value, "") for value in different], dtype=np.int64)[places])
    if count is None:
        return [*found, np.ones(table.num_rows, dtype=np.int64)]
    different, places = _factorised(table.column(count))
    numbers = [_number(value, f"{source.name}, column {count!r}") for value in different]
    return [*found, np.array(numbers, dtype=np.int64)[places]]


def _factorised(column: Any) -> tuple[Iterator[str], np.ndarray]:
    """The different values of a column of Arrow as text, and the place of each row's value."""
    import pyarrow as pa

    whole = column.combine_chunks()
    whole = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode(null_encoding="encode")
    values = whole.dictionary.to_pylist()
    places = whole.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    used = np.zeros(len(values) + 1, dtype=bool)
    used[places] = True
    texts = ["" if value is None else str(value) for value in [*values, None]]
    kept = np.cumsum(used) - 1
    return (text for text, one in zip(texts, used, strict=True) if one), kept[places]
