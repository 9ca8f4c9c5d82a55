"""Files of the commands: reading of users' values, and writing of tables."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import sklearn_ldp as ldp

from .._core.common.files import (
    Source,
    are_cells_hidden,
    listed_columns,
    make_folder,
    replacing,
    shorten,
)
from .._core.common.text import as_array, counted, format_table, is_category, printable

#: Values of shape (n,) or (n, n_columns), and the number of users of each value.
Users = tuple[np.ndarray, np.ndarray]

_OTHER_MARKS = ";\t"  # marks that some spreadsheets write between columns
_SHOWN = 3  # maximum number of values in an error
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


def read_users(arguments: Any, codes: Codes | None) -> Users:
    """Return the values in a file of one column, and the number of users of each value.

    The file is CSV or lines of text, possibly compressed by gzip, or Parquet. `-` is standard
    input, which may contain values but no histogram. A first line that is a category in `codes` is
    never treated as a header.

    Shapes: -> (d,).

    Returns: two arrays, in the order of the file for a histogram, otherwise sorted by value.
    """
    path = arguments.file
    kind = arguments.input_kind
    value_column = arguments.value_column
    count_column = arguments.count_column
    source = source_of(path)
    header = read_header(source)
    if arguments.no_header:
        if source.is_parquet:
            raise ValueError(
                f"--no-header can be used only with a text file, but {source.name} is a Parquet "
                "file. Leave out --no-header."
            )
        if kind == "histogram" or count_column is not None:
            raise ValueError(
                "--no-header can be used only with a file of values, because a histogram has a "
                "header. Leave out --no-header."
            )
        _check_one_column(source, header, kind)
        return _as_histogram(source, Counter(_lines(source, codes)))
    value = value_column or "value"
    count = count_column or "count"
    spaced = [name for name in header if name.strip() in (value, count) and name != name.strip()]
    if spaced and kind == "auto":
        raise ValueError(
            f"{source.name}: the header has spaces around the name {spaced[0]!r}. Remove the "
            "spaces, or pass --input-kind values if each row is one user."
        )
    has_counts = kind == "auto" and (count_column is not None or {value, count} <= set(header))
    if kind == "histogram" or has_counts:
        _check_columns(source, header, [value, count])
        if str(path) == "-":
            raise ValueError(
                "Standard input can contain values, but not a histogram. Save the histogram to a "
                "file, and pass its name."
            )
        if codes is not None and codes.find("") is not None:  # an empty cell is a missing answer
            read = _parquet_columns if source.is_parquet else _csv_columns
            named = {value: Codes(source.name, value, codes.domain)}
            places, counts = read(source, header, named, count)
            return np.array([text_of(x) for x in codes.categories[places].tolist()]), counts
        histogram = ldp.datasets.read_histogram(path, value_column=value, count_column=count)
        return histogram.categories, histogram.counts
    if source.is_parquet:
        _check_columns(source, header, [value])
        tally = _tally_parquet(source, value, codes)
    elif value in header or value_column is not None:
        _check_columns(source, header, [value])
        tally = Counter(_cells(source, header.index(value), codes))
        if value_column is None:
            _check_default_header(source, tally, codes)
    else:
        _check_one_column(source, header, kind)
        tally = Counter(_lines(source, codes))
        _check_first_line(source, tally, codes)
    return _as_histogram(source, tally)


def read_categories(path: Path) -> Any:
    """Return the public domain in a file: categories, or a Domain of bins or of a grid."""
    # One category per line, or JSON with the domain of a column as in `read_domains`, or with a
    # grid. Blank lines at the end are ignored.
    if path.name.lower().endswith(".json"):
        if (columns := read_grid(path)) is not None:
            return ldp.Domain.grid(*columns.values())
        domain = _read_json(path)
        if isinstance(domain, dict) and "bins" not in domain and len(domain) == 1:
            (domain,) = domain.values()
        if isinstance(domain, dict) and "bins" not in domain:
            raise ValueError(
                f"--categories {path} contains domains of several columns. Pass the file as "
                "--domains instead of --categories."
            )
        return _read_domain(domain, f"--categories {path}")
    if path.name.lower().endswith((*TABLE_SUFFIXES, ".tsv")):
        raise ValueError(
            f"--categories {path} is a table by its name, so its header would become a category. "
            "Write one category per line without a header into a .txt file, or a list into a "
            ".json file."
        )
    source = source_of(path)
    lines = [line.rstrip("\r\n") for line in source.lines()]
    # Ends: each pass removes a line.
    while lines and not lines[-1]:
        lines.pop()
    categories = [_not_empty(line, source, i, None) for i, line in enumerate(lines, start=1)]
    repeated = [category for category, n in Counter(categories).items() if n > 1]
    if not categories or repeated:
        fault = "is empty"
        if repeated:  # not shown, because the file may contain values of users by mistake
            first = categories.index(repeated[0])
            second = categories.index(repeated[0], first + 1)
            fault = f"repeats line {first + 1} in line {second + 1}"
        raise ValueError(
            f"--categories {path} {fault}. List each category once, with one category per line."
        )
    return as_array(categories, parse=True)


def declared_users(arguments: Any, oracle: Any) -> Users:
    """Return the values in a file as categories of the oracle, and each value's number of users."""
    # Values are compared with the domain as text.
    if arguments.domains is not None:
        columns = ldp.surveys.RecordDomain.declared(oracle.domains, "--domains")
        return read_rows(arguments, columns)
    if (grid := read_grid(arguments.categories)) is not None:
        return read_rows(arguments, ldp.surveys.RecordDomain.declared(grid, "--categories"))
    if arguments.strings is not None:
        values, numbers = read_users(arguments, None)
        return values.astype(str).astype(object), numbers
    domain = ldp.Domain.of(oracle.categories, "--categories")
    codes = Codes(str(arguments.file), "", domain)
    counts = np.zeros(len(codes.categories), dtype=np.int64)
    values, numbers = read_users(arguments, codes)
    unknown = []
    for value, n in zip(values.astype(str).tolist(), numbers.tolist(), strict=True):
        place = codes.find(value)
        if place is None and n > 0:
            users = "" if are_cells_hidden() else f" ({counted(n, 'user')})"
            unknown.append(f"{shown_value(value)}{users}")
        if place is not None:
            counts[place] += n
    if unknown:
        shown = list(dict.fromkeys(unknown))  # hidden values have the same text
        more = f", and {len(shown) - _SHOWN:,} other values" * (len(shown) > _SHOWN)
        raise ValueError(
            f"{arguments.file} contains {', '.join(shown[:_SHOWN])}{more}, which is not in the "
            "domain of --categories. Add it to the domain, or correct the data. Spaces and capital "
            "letters are significant."
        )
    return codes.categories, counts


def source_of(path: Path) -> Source:
    """Return the file as a Source. For ``-``, return the content of standard input."""
    if str(path) == "-":
        return Source(sys.stdin.buffer.read(), "standard input")
    if path.name.lower().endswith(".npz"):
        n_bytes = path.stat().st_size
        raise ValueError(
            f"{path} ({counted(n_bytes, 'byte')}) cannot be read as values: it is either a "
            "damaged checkpoint or estimate, or another file with the suffix .npz. Copy a "
            "checkpoint again, and rename a file of values."
        )
    return Source(path, str(path))


def read_header(source: Source) -> list[str]:
    """Return the column names of a Parquet file, or the cells in the first line of a text file."""
    if source.is_parquet:
        return source.parquet_header()
    if next(source.lines(), None) is None:
        raise ValueError(
            f"{source.name} is empty, but must contain a value per line, or CSV with a header. "
            "Pass another file."
        )
    return source.first_cells()


def _check_columns(source: Source, header: list[str], names: list[str]) -> None:
    missing = [name for name in names if name not in header]
    if missing and len(header) == 1 and any(mark in header[0] for mark in _OTHER_MARKS):
        raise ValueError(
            f"{source.name} has no column {missing[0]!r}, because the columns are not separated by "
            "commas. Save the file as CSV with commas."
        )
    if missing:
        raise ValueError(
            f"{source.name} has no column {' and no column '.join(map(repr, missing))}; it has "
            f"{listed_columns(header)}. Pass the names of the columns as --value-column and "
            "--count-column."
        )
    repeated = [name for name in names if header.count(name) > 1]
    if repeated:
        raise ValueError(
            f"{source.name} has {header.count(repeated[0])} columns with the name "
            f"{repeated[0]!r}, so the column is ambiguous. Rename the other columns, or pass the "
            "name of another column as --value-column or --count-column."
        )


def _check_one_column(source: Source, header: list[str], kind: str) -> None:
    if kind == "auto" and len(header) > 1:
        raise ValueError(
            f"{source.name}: the first line has {listed_columns(header)}, none of them 'value'. "
            "Pass the name of the column as --value-column (and as --count-column for a "
            "histogram). If each whole line is a value, pass --input-kind values."
        )


def _check_first_line(source: Source, tally: Counter, codes: Codes | None) -> None:
    """Raise ValueError if the first line is probably a header and would be counted as a value."""
    first = next(_lines(source, codes))
    if tally[first] > 1:
        return
    cells = source.first_cells()
    is_shown = len(cells) == 1 and not are_cells_hidden()
    column = f"--value-column {shlex.quote(cells[0]) if is_shown else 'NAME'}"
    where = f"{source.name}, line 1: {shorten(first)}"
    if any(mark in first for mark in _OTHER_MARKS):
        column = "NAME after saving the file as CSV with commas between the columns"
    if codes is not None:
        if codes.find(first) is None:
            raise ValueError(
                f"{where} is not in the domain of --categories. If it is a header, pass {column}. "
                "Otherwise pass --no-header, and add the value to the domain or correct it."
            )
    elif _is_unlike_the_rest(first, tally):
        raise ValueError(
            f"{where} looks like a header, because no other line repeats it. If it is a header, "
            f"pass {column}. If it is a user's value, pass --no-header."
        )


def _check_default_header(source: Source, tally: Counter, codes: Codes | None) -> None:
    """Raise ValueError if the header "value" may also be the value of a user."""
    if "value" in tally or (codes is not None and codes.find("value") is not None):
        raise ValueError(
            f"{source.name}, line 1: 'value' may be either the header or a user's value, because "
            "it is also a category. If it is the header, pass --value-column value. If it is a "
            "user's value, pass --no-header."
        )


def _is_unlike_the_rest(first: str, tally: Counter) -> bool:
    """Return whether the first line probably is a header.

    It is one if it occurs once, other lines are repeated, and it is not a number like other lines.
    """
    if tally.total() == len(tally):  # all lines are distinct, so a header cannot be recognized
        return False
    others = (value for value in tally if value != first)
    return not (_NUMBER.fullmatch(first) and any(map(_NUMBER.fullmatch, others)))


def _lines(source: Source, codes: Codes | None) -> Iterator[str]:
    """Yield each line of a file as a value. Commas and quotes are part of the value."""
    for number, line in enumerate(source.lines(), start=1):
        text = line.rstrip("\r\n")
        # Writers of CSV mark a missing value in the only column by two quotes.
        is_missing = text == '""' and (codes is None or codes.find(text) is None)
        yield _not_empty("" if is_missing else text, source, number, codes)


def _cells(source: Source, column: int, codes: Codes | None) -> Iterator[str]:
    """Yield the cells of one column of a CSV file with a header.

    `column` is the position of the column.
    """
    rows = source.csv_rows()
    next(rows)
    for number, cells in rows:
        # In a file of one column a missing value is a blank line.
        yield _not_empty(cells[column] if cells else "", source, number, codes)


def _not_empty(value: str, source: Source, number: int, codes: Codes | None) -> str:
    if not value and (codes is None or codes.find(value) is None):
        raise ValueError(f"{source.name}, line {number}: the value is empty. {_NO_VALUE}.")
    return value


def _tally_parquet(source: Source, column: str, codes: Codes | None) -> Counter:
    values = source.parquet_table([column]).column(0)
    _refuse_nested(source, column, values.type)
    tally: Counter = Counter()
    for pair in values.value_counts().to_pylist():
        value = pair["values"]
        # The domain determines the category of a missing value or a number, as for text.
        is_known = codes is not None and codes.find(text_of(value)) is not None
        tally[text_of(value) if is_known and not is_category(value) else value] += pair["counts"]
    has_empty = codes is not None and codes.find("") is not None
    odd = [x for x in tally if not (is_category(x) or (x == "" and has_empty))]
    if odd:
        raise ValueError(
            f"{source.name}: values must be text without NUL or integers, got {shorten(odd[0])}. "
            f"{_NO_VALUE}. Cast other types to text."
        )
    return tally


def _refuse_nested(source: Source, column: str, kind: Any) -> None:
    """Raise ValueError if a Parquet column contains lists, structs or maps."""
    from pyarrow.types import is_nested, is_struct

    if is_nested(kind):
        content = "structs" if is_struct(kind) else "lists"
        raise ValueError(
            f"{source.name}: the column {column!r} contains {content}, but each user must have one "
            "value. Randomize sets of items in Python (ItemOracle), or with `client --max-items`."
        )


def _as_histogram(source: Source, tally: Counter) -> Users:
    if not tally:
        raise ValueError(
            f"{source.name} has a header but no values. Add one value per user, or pass another "
            "file."
        )
    values = as_array(list(tally), parse=not source.is_parquet)
    counts = np.array(list(tally.values()), dtype=np.int64)
    order = np.argsort(values)
    return values[order], counts[order]


# -- several columns ---------------------------------------------------------------------------
_NO_VALUE = (
    'For missing answers, pass --categories FILE.json with null in its list, such as ["yes", "no", '
    'null] (for bins "missing": true), or fill the cells with a name such as unknown'
)
_EXAMPLE = '{"sex": ["F", "M"], "age": 10}'
_GRID = (
    '{"grid": {"lon": {"bins": 16, "bounds": [8, 13]}, "lat": {"bins": 16, "bounds": [47, 50]}}}'
)
_BIN_KEYS = {"bins", "bounds", "clip", "integers", "labels", "missing", "scale"}
_LARGEST = 2**63 - 1
_MAX_DIGITS = 1000  # with leading zeros; Python refuses to convert more than 4,300 digits
_MAX_CATEGORIES = 10**6  # of all columns of a survey
_MAX_CHARACTERS = 1 << 26


def read_domains(path: Path) -> dict[str, Any]:
    """Return the public domain of each column in a JSON file, as a dict."""
    # An object whose keys are the columns, and whose values are lists of categories (text or
    # integers, and null for a missing answer), numbers of categories, or bins of a number: {"bins":
    # [18, 65], "labels": ["young", "middle", "old"], "missing": true} or {"bins": 64, "bounds": [0,
    # 100], "clip": true}.
    domains = _read_json(path)
    if not isinstance(domains, dict) or not domains:
        raise ValueError(
            f"{path}: expected a JSON object with the domain of each column, got "
            f"{shorten(domains)}. Write for example {_EXAMPLE}."
        )
    where = f"{path}: the domain of the column"
    checked = {
        name: _read_domain(domain, f"{where} {shorten(name)}") for name, domain in domains.items()
    }
    n = sum(domain if isinstance(domain, int) else len(domain) for domain in checked.values())
    if n > _MAX_CATEGORIES:
        raise ValueError(
            f"{path} has {shorten(n)} categories in total, but at most {_MAX_CATEGORIES:,} are "
            "supported. Use fewer or coarser categories."
        )
    return checked


def read_grid(path: Path | None) -> dict[str, ldp.Domain] | None:
    """Read the bins of both columns of a grid; None if the file contains another domain."""
    if path is None or not path.name.lower().endswith(".json"):
        return None
    content = _read_json(path)
    if not isinstance(content, dict) or content.keys() != {"grid"}:
        return None
    columns = content["grid"]
    if not isinstance(columns, dict) or len(columns) != 2:
        raise ValueError(
            f"{path} must contain a grid with bins for exactly two columns, got "
            f"{shorten(columns)}. Write the grid for example as {_GRID}."
        )
    where = f"{path}: the domain of the column"
    return {name: _read_domain(bins, f"{where} {shorten(name)}") for name, bins in columns.items()}


def _read_json(path: Path) -> Any:
    text = "".join(Source(path, str(path)).lines())
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(
            f"{path} has more than {_MAX_CHARACTERS:,} characters, which is the maximum. Declare "
            "fewer or coarser domains."
        )
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, path))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: not well-formed JSON ({error.msg}). Write the domain "
            f"of each column, such as {_EXAMPLE}."
        ) from error
    except RecursionError:
        raise ValueError(
            f"{path} contains JSON with too many nested lists or objects. Write the domain of "
            f"each column, such as {_EXAMPLE}."
        ) from None


def _object(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(
            f"{path} contains the key {twice!r} twice. Declare one domain for each column."
        )
    return entries


def _read_domain(domain: Any, where: str) -> Any:
    if type(domain) is int and domain >= 1:
        return domain
    if isinstance(domain, dict):
        if "bins" not in domain or not set(domain) <= _BIN_KEYS:
            raise ValueError(
                f'{where} must have the key "bins" and no other keys than "bounds", "clip", '
                f'"integers", "labels", "missing" and "scale", got {shorten(domain)}. Rename or '
                "remove the other keys."
            )
        options = {key: value for key, value in domain.items() if key != "bins"}
        try:
            return ldp.Domain.bins(domain["bins"], **options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from None
    if not isinstance(domain, list) or not domain:
        raise ValueError(
            f"{where} must be a list of categories or a number of categories >= 1, got "
            f"{shorten(domain)}. Write for example {_EXAMPLE}."
        )
    named = [x for x in domain if x is not None]
    large = [x for x in named if type(x) is int and not -_LARGEST <= x < 1 << 64]
    odd = [x for x in named if not is_category(x)] + large
    if odd:
        raise ValueError(
            f"{where} must list non-empty texts without NUL, integers, or null for a missing "
            f"answer, got {shorten(odd[0])}. Write other categories in double quotes, with the "
            "same text as in the data."
        )
    (text, n), *_ = Counter(map(text_of, domain)).most_common(1)
    if n > 1:
        raise ValueError(f"{where} repeats {shorten(text)}. List each category once.")
    return domain


def read_rows(arguments: Any, domain: ldp.surveys.RecordDomain) -> Users:
    """Return the values in a file of several columns, and the number of users of each row.

    Each row is one user, or a record with a column for the number of its users.

    domain: the public domains of the columns. Other columns of the file are not read.

    Returns: the values of shape (n, n_columns), in the order of the domain's columns; and the
    numbers of users of shape (n,).
    """
    if arguments.no_header or arguments.value_column is not None:
        option = "--no-header" if arguments.no_header else "--value-column"
        raise ValueError(
            f"{option} can be used only for a file of one column. Leave it out with --domains or "
            "a grid, because the header names the columns."
        )
    source = source_of(arguments.file)
    header = read_header(source)
    names = list(domain.columns)
    count = _count_column(arguments, header, domain)
    wanted = names if count is None else [*names, count]
    for name in wanted:
        if header.count(name) != 1:
            fault = (
                f"has the column {name!r} twice" if name in header else f"has no column {name!r}"
            )
            raise ValueError(
                f"{source.name} {fault}; the header has {listed_columns(header)}. Pass a file in "
                "which every column with a domain occurs exactly once."
            )
    read = _parquet_columns if source.is_parquet else _csv_columns
    columns = domain.columns.items()
    codes = {name: Codes(source.name, name, column) for name, column in columns}
    cells = read(source, header, codes, count)
    if not len(cells[-1]):
        raise ValueError(
            f"{source.name} has a header but no rows. Add one row per user, or pass another file."
        )
    values = np.empty((len(cells[-1]), len(names)), dtype=object)
    for j, column in enumerate(codes.values()):
        values[:, j] = column.categories[cells[j]]
    return values, cells[-1]


def _count_column(
    arguments: Any, header: list[str], domain: ldp.surveys.RecordDomain
) -> str | None:
    """Return the name of the column with the numbers of users.

    Return None if each row is one user.
    """
    kind = arguments.input_kind
    name = arguments.count_column or "count"
    is_declared = kind == "histogram" or arguments.count_column is not None
    is_present = name in header and name not in domain.columns
    return name if kind != "values" and (is_declared or is_present) else None


def text_of(value: object) -> str:
    """Return the text of a value as in a text file. The text of a missing value is empty."""
    from .._core.domains.values import is_missing

    return "" if is_missing(value) else str(value)


def shown_value(value: object) -> str:
    """Return a text for errors that contains a user's value.

    In errors of clients, the value is hidden.
    """
    return "a value" if are_cells_hidden() else f"the value {shorten(value)}"


class Codes:
    """Converts the text of a value in one column to the position of its category (its code)."""

    # file, column: for error messages.
    # domain: the categories.

    def __init__(self, file: str, column: str, domain: ldp.Domain) -> None:
        self.file = file
        self.column = column
        self.domain = domain
        self.categories = domain.categories
        self.places = {text_of(x): i for i, x in enumerate(self.categories.tolist())}

    def find(self, value: str) -> int | None:
        """Return the code of a value. Return None if the domain does not contain the value."""
        place = self.places.get(value)
        # Python reads 18_25 as 1825.
        if place is None and self.domain.edges is not None and "_" not in value:
            try:
                return self.domain.bin_of(float(value))
            except ValueError:
                return None
        return place

    def of(self, value: str, where: str) -> int:
        """Return the code of a value.

        Raise ValueError if the domain does not contain it. `where` is the line for the error.
        """
        place = self.find(value)
        if place is not None:
            return place
        shown = shown_value(value)
        remedy = "Add it to the domain, or correct the data"
        if not value:
            shown = "an empty value"
            remedy = "Add null to the domain, for missing values, or leave out the row"
        raise ValueError(
            f"{self.file}{where}: {shown} in the column {self.column!r} is not in the domain of "
            f"the column. {remedy}."
        )


def _csv_columns(
    source: Source, header: list[str], codes: dict[str, Codes], count: str | None
) -> list[np.ndarray]:
    """Return the codes of each column of a CSV file, followed by the numbers of users."""
    places = [header.index(name) for name in codes]
    n_place = None if count is None else header.index(count)
    columns: list[list[int]] = [[] for _ in codes]
    numbers: list[int] = []
    rows = source.csv_rows()
    next(rows)
    for number, cells in rows:
        row = cells or [""] * len(header)
        where = f", line {number}"
        for column, place, code in zip(columns, places, codes.values(), strict=True):
            column.append(code.of(row[place], where))
        numbers.append(1 if n_place is None else _number(row[n_place], f"{source.name}{where}"))
    return [np.array(column, dtype=np.int64) for column in (*columns, numbers)]


def _number(text: str, where: str) -> int:
    is_whole = text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS
    if not is_whole or int(text) > _LARGEST:
        raise ValueError(
            f"{where}: the number of users must be a whole number >= 0, got {shorten(text)}. "
            "Correct it, or pass --input-kind values if each row is one user."
        )
    return int(text)


def _parquet_columns(
    source: Source, header: list[str], codes: dict[str, Codes], count: str | None
) -> list[np.ndarray]:
    table = source.parquet_table([*codes, *([] if count is None else [count])])
    columns = []
    for name, code in codes.items():
        _refuse_nested(source, name, table.column(name).type)
        different, places = _factorised(table.column(name))
        columns.append(np.array([code.of(x, "") for x in different], dtype=np.int64)[places])
    if count is None:
        return [*columns, np.ones(table.num_rows, dtype=np.int64)]
    _refuse_nested(source, count, table.column(count).type)
    different, places = _factorised(table.column(count))
    numbers = [_number(value, f"{source.name}, column {count!r}") for value in different]
    return [*columns, np.array(numbers, dtype=np.int64)[places]]


def _factorised(column: Any) -> tuple[Iterator[str], np.ndarray]:
    """Return an Arrow column's distinct values as text, and for each row the index of its value."""
    import pyarrow as pa

    whole = column.combine_chunks()
    whole = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode(null_encoding="encode")
    values = [*whole.dictionary.to_pylist(), None]
    places = whole.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False).astype(int)
    used = np.flatnonzero(np.bincount(places, minlength=len(values)))
    return (text_of(values[i]) for i in used), np.searchsorted(used, places)


# -- tables: aligned on a terminal, CSV in a pipe, and CSV or Parquet in a file -------------------
TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")


# Beginnings of texts that Excel, LibreOffice and Google Sheets evaluate, in half and full width.
# Spaces may precede them.
_FORMULA = re.compile(r"\s*[=+\-@\t\r\uff0b\uff0d\uff1d\uff20]")


def is_csv(path: Path | None) -> bool:
    """Return whether `write_table` writes CSV to this path. The path None is standard output."""
    if path is None:
        return not sys.stdout.isatty()
    return not path.name.lower().endswith(".parquet")


def first_formula(column: np.ndarray) -> str | None:
    """Return the first text in a column that a spreadsheet would run as a formula.

    Return None if there is none.
    """
    texts = (str(value) for value in column.tolist()) if column.dtype.kind in "OU" else ()
    return next((text for text in texts if _is_formula(text)), None)


def without_formulas(column: np.ndarray) -> np.ndarray:
    """Return a column with an apostrophe before each text that a spreadsheet would evaluate."""
    if first_formula(column) is None:
        return column
    texts = [text_of(value) for value in column.tolist()]
    return np.array([f"'{t}" if _is_formula(t) else t for t in texts], dtype=object)


def _is_formula(text: str) -> bool:
    return bool(_FORMULA.match(text)) and not _NUMBER.fullmatch(text)


def write_table(columns: Mapping[str, Any], path: Path | None) -> None:
    """Write a table to a file, or to standard output if `path` is None.

    `columns` maps the names of the columns to arrays. A missing folder is created.
    """
    # path: its suffix determines the format. None is standard output: an aligned table with few
    # digits on a terminal, and CSV with all digits in a pipe.
    if path is None:
        is_terminal = sys.stdout.isatty()
        sys.stdout.write(f"{_as_table(columns)}\n" if is_terminal else _as_csv(columns))
        return
    make_folder(path)
    with replacing(path) as file:
        if not is_csv(path):
            import pyarrow as pa
            from pyarrow import parquet

            arrays = {name: _arrow_array(column.tolist()) for name, column in columns.items()}
            parquet.write_table(pa.table(arrays), file)
            return
        content = _as_csv(columns).encode("utf-8")
        is_packed = path.name.lower().endswith(".gz")
        file.write(gzip.compress(content, mtime=0) if is_packed else content)


def _arrow_array(values: list) -> Any:
    import pyarrow as pa

    for kind in (None, pa.uint64()):  # Arrow does not infer uint64
        with suppress(OverflowError):
            return pa.array(values, kind)
    return pa.array([None if value is None else str(value) for value in values])


def write_tables(
    tables: Mapping[Any, Mapping[str, Any]], path: Path | None, by: str = "column"
) -> None:
    """Write several tables with the same columns.

    On a terminal they are written one after the other. Otherwise they are joined to a single table
    with another column `by`, which contains the names of the tables.
    """
    if path is None and sys.stdout.isatty():
        shown = (f"{printable(name)}\n{_as_table(table)}" for name, table in tables.items())
        sys.stdout.write("\n\n".join(shown) + "\n")
        return
    first, *_ = tables.values()
    sizes = [len(next(iter(table.values()))) for table in tables.values()]
    whole: dict[str, Any] = {by: np.repeat(np.array(list(tables), dtype=object), sizes)}
    for name in first:
        cells = [table[name] for table in tables.values()]
        # Categories may be text in one table and integers in another.
        one_kind = len({column.dtype.kind for column in cells}) == 1
        if not one_kind or cells[0].dtype.kind == "O":
            cells = [np.array([*map(text_of, column)], dtype=object) for column in cells]
        whole[name] = np.concatenate(cells)
    write_table(whole, path)


def check_parquet(path: Path) -> None:
    """Raise ImportError if pyarrow, which writes Parquet files, is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"--output {path} needs pyarrow. Run pip install 'sklearn_ldp[data]', or pass the "
            "name of a .csv file."
        ) from error


def _as_csv(columns: Mapping[str, Any]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_as_text(column) for column in columns.values()), strict=True))
    return text.getvalue()


def _as_text(column: np.ndarray) -> list:
    """Return the cells of a column for CSV. Numbers that are not integers have ten digits."""
    # Noise is far larger than the omitted digits.
    return [f"{x:.10g}" for x in column] if column.dtype.kind == "f" else column.tolist()


def _as_table(columns: Mapping[str, Any]) -> str:
    cells = [_as_cells(column) for column in columns.values()]
    left = [i for i, column in enumerate(columns.values()) if column.dtype.kind not in "iuf"]
    return format_table(list(columns), list(zip(*cells, strict=True)), left=left)


def _as_cells(column: np.ndarray) -> list[str]:
    from .._core.domains.values import is_missing

    if column.dtype.kind != "f":
        # Text that would break the line, or control the terminal, is shown as its repr.
        texts = ("(missing)" if is_missing(x) else str(x) for x in column.tolist())
        return [text if text.isprintable() else repr(text) for text in texts]
    decimals = _decimals(column)
    cells = [f"{x:.{decimals}f}" for x in column]
    surplus = min(len(cell) - len(cell.rstrip("0")) for cell in cells) if decimals else 0
    # A column of whole numbers also loses its decimal points.
    return [cell[: len(cell) - surplus].rstrip(".") for cell in cells]


def _decimals(column: np.ndarray) -> int:
    """Return the number of decimals with which at least half of the numbers show three digits."""
    sizes = np.abs(column[np.isfinite(column) & (column != 0)])
    return int(np.clip(2 - np.floor(np.log10(np.median(sizes))), 0, 12)) if sizes.size else 0
