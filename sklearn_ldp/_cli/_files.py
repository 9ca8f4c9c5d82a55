"""Files of the commands: raw values of one column or of several to read, and tables to write."""

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

from .._core.support.files import (
    Source,
    are_cells_hidden,
    listed_columns,
    make_folder,
    replacing,
    shorten,
)
from .._core.support.text import as_array, counted, format_table, is_category, printable

#: Values of users, of shape (n,) or (n, n_columns), and how many users have each.
Users = tuple[np.ndarray, np.ndarray]

_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


def read_users(arguments: Any, codes: Codes | None) -> Users:
    """Read a file of values or a histogram.

    Shapes: -> (d,).
    Returns: in the order of the file if it is a histogram, otherwise sorted by value.
    `file` is CSV or lines of text, plain or gzip, or Parquet (`-` is standard input, which may
    hold values but no histogram). Categories in `codes` are never taken for a header.
    """
    path, kind = arguments.file, arguments.input_kind
    value_column, count_column = arguments.value_column, arguments.count_column
    source = source_of(path)
    header = read_header(source)
    if arguments.no_header:
        if source.is_parquet:
            raise ValueError(f"--no-header is for text; {source.name} is Parquet: leave it out.")
        if kind == "histogram" or count_column is not None:
            raise ValueError("--no-header is for values, and a histogram needs a header.")
        _check_one_column(source, header, kind)
        return _as_histogram(source, Counter(_lines(source, codes)))
    value, count = value_column or "value", count_column or "count"
    has_counts = kind == "auto" and (count_column is not None or {value, count} <= set(header))
    if kind == "histogram" or has_counts:
        _check_columns(source, header, [value, count])
        if str(path) == "-":
            raise ValueError("A histogram is read from a file; standard input takes values.")
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
    """Read a public domain."""
    # One category per line, or in JSON what `read_domains` has of a column.
    # Blank lines at the end are none.
    if path.name.lower().endswith(".json"):
        found = _read_json(path)
        if isinstance(found, dict) and "bins" not in found:
            raise ValueError(f"--categories {path} has domains of columns: give it with --domains.")
        return _read_domain(found, f"--categories {path}")
    source = source_of(path)
    lines = [line.rstrip("\r\n") for line in source.lines()]
    # Ends: each pass removes a line.
    while lines and not lines[-1]:
        lines.pop()
    categories = [_not_empty(line, source, i, None) for i, line in enumerate(lines, start=1)]
    repeated = [category for category, n in Counter(categories).items() if n > 1]
    if not categories or repeated:
        what = "is empty"
        if repeated:  # which is not shown: the values of users may have been given by mistake
            first = categories.index(repeated[0])
            second = categories.index(repeated[0], first + 1)
            what = f"repeats line {first + 1} in line {second + 1}"
        raise ValueError(f"--categories {path} {what}; expected each category once, one per line.")
    return as_array(categories, parse=True)


def declared_users(arguments: Any, oracle: Any) -> Users:
    """Return the values in the file, over the domain of the oracle, and their numbers of users."""
    # Values are compared with the domain as text.
    if arguments.domains is not None:
        columns = ldp.surveys.RecordDomain.declared(oracle.domains, "--domains")
        return read_rows(arguments, columns)
    if arguments.strings is not None:
        values, numbers = read_users(arguments, None)
        return values.astype(str).astype(object), numbers
    domain = ldp.Domain.of(oracle.categories, "--categories")
    codes = Codes(str(arguments.file), "", domain)
    counts = np.zeros(len(codes.categories), dtype=np.int64)
    values, numbers = read_users(arguments, codes)
    for value, n in zip(values.astype(str).tolist(), numbers.tolist(), strict=True):
        place = codes.find(value)
        if place is None and n > 0:
            users = "" if are_cells_hidden() else f" ({counted(n, 'user')})"
            raise ValueError(
                f"{arguments.file} has {shown_value(value)}{users}, which is not in the domain "
                "that --categories gives; add it there, or correct the data."
            )
        if place is not None:
            counts[place] += n
    return codes.categories, counts


def source_of(path: Path) -> Source:
    """Return the file, or what is on standard input for ``-``."""
    if str(path) == "-":
        return Source(sys.stdin.buffer.read(), "standard input")
    if path.name.lower().endswith(".npz"):
        n_bytes = path.stat().st_size
        raise ValueError(
            f"{path} is a damaged checkpoint or estimate of {counted(n_bytes, 'byte')}, or none at "
            "all. Copy it again; a file of values must not be named .npz."
        )
    return Source(path, str(path))


def read_header(source: Source) -> list[str]:
    """Return the columns of a Parquet file, or the cells in the first line of another one."""
    if source.is_parquet:
        return source.parquet_header()
    if next(source.lines(), None) is None:
        raise ValueError(f"{source.name} is empty: expected a value per line or CSV with a header.")
    return source.first_cells()


def _check_columns(source: Source, header: list[str], names: list[str]) -> None:
    missing = [name for name in names if name not in header]
    if missing:
        raise ValueError(
            f"{source.name} has no column {' and no column '.join(map(repr, missing))}; it has "
            f"{listed_columns(header)}. Name yours with --value-column and --count-column."
        )
    repeated = [name for name in names if header.count(name) > 1]
    if repeated:
        raise ValueError(
            f"{source.name} has {header.count(repeated[0])} columns {repeated[0]!r}, so it is "
            "ambiguous which holds the values. Rename the others, or name another column with "
            "--value-column or --count-column."
        )


def _check_one_column(source: Source, header: list[str], kind: str) -> None:
    if kind == "auto" and len(header) > 1:
        raise ValueError(
            f"{source.name}: the first line has {listed_columns(header)}, none of "
            "them 'value'. Name yours with --value-column (and --count-column, if it is a "
            "histogram), or say --input-kind values if each line as a whole is a value."
        )


def _check_first_line(source: Source, tally: Counter, codes: Codes | None) -> None:
    """Refuse a header that would be counted as the value of a user."""
    first = next(_lines(source, codes))
    if tally[first] > 1:
        return
    cells = source.first_cells()
    is_shown = len(cells) == 1 and not are_cells_hidden()
    column = f"--value-column {shlex.quote(cells[0]) if is_shown else 'NAME'}"
    where = f"{source.name}, line 1: {shorten(first)}"
    if codes is not None:
        if codes.find(first) is None:
            raise ValueError(
                f"{where} is not in the domain of --categories. Say {column} if it is a header; if "
                "it is a user's value, say --no-header, and add it to the domain or correct it."
            )
    elif _is_unlike_the_rest(first, tally):
        raise ValueError(
            f"{where} looks like a header, because no other line repeats it: say {column} if it "
            "is one, or --no-header if it is a user's value."
        )


def _check_default_header(source: Source, tally: Counter, codes: Codes | None) -> None:
    """Refuse a header that may be the value of a user, because nobody has named its column."""
    if "value" in tally or (codes is not None and codes.find("value") is not None):
        raise ValueError(
            f"{source.name}, line 1: 'value' may be the header or a user's value, because it is "
            "also a category. Say --value-column value if line 1 is the header, or --no-header if "
            "line 1 is a user's value."
        )


def _is_unlike_the_rest(first: str, tally: Counter) -> bool:
    """Whether a line that occurs once stands above values that repeat and are not of its kind."""
    if tally.total() == len(tally):  # all are distinct, so nothing can be told
        return False
    others = (value for value in tally if value != first)
    return not (_NUMBER.fullmatch(first) and any(map(_NUMBER.fullmatch, others)))


def _lines(source: Source, codes: Codes | None) -> Iterator[str]:
    """Whole lines as values: neither commas nor quotes mean anything."""
    for number, line in enumerate(source.lines(), start=1):
        yield _not_empty(line.rstrip("\r\n"), source, number, codes)


def _cells(source: Source, column: int, codes: Codes | None) -> Iterator[str]:
    """Cells of one column of a CSV with a header."""
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
    found = source.parquet_table([column]).column(0)
    _refuse_nested(source, column, found.type)
    tally: Counter = Counter()
    for pair in found.value_counts().to_pylist():
        value = pair["values"]
        # The domain says what a missing value or a number is, as it does of text.
        is_known = codes is not None and codes.find(text_of(value)) is not None
        tally[text_of(value) if is_known and not is_category(value) else value] += pair["counts"]
    knows_empty = codes is not None and codes.find("") is not None
    odd = [one for one in tally if not (is_category(one) or (one == "" and knows_empty))]
    if odd:
        raise ValueError(
            f"{source.name}: values must be text without NUL or integers, got {shorten(odd[0])}. "
            f"{_NO_VALUE}; cast other types to text."
        )
    return tally


def _refuse_nested(source: Source, column: str, kind: Any) -> None:
    """Refuse a column of lists, structs or maps."""
    from pyarrow.types import is_nested, is_struct

    if is_nested(kind):
        what = "structs" if is_struct(kind) else "lists"
        raise ValueError(
            f"{source.name}: the column {column!r} holds {what}, and a user has one value here: "
            "sets of items are randomised in Python (ItemOracle), or by `client --max-items`."
        )


def _as_histogram(source: Source, tally: Counter) -> Users:
    if not tally:
        raise ValueError(f"{source.name} has a header but no values.")
    values = as_array(list(tally), parse=not source.is_parquet)
    counts = np.array(list(tally.values()), dtype=np.int64)
    order = np.argsort(values)
    return values[order], counts[order]


# -- several columns ---------------------------------------------------------------------------
_NO_VALUE = (
    "Give a missing value a category, which is null in a domain in JSON, or a name such as unknown"
)
_EXAMPLE = '{"sex": ["F", "M"], "age": 10}'
_BIN_KEYS = {"bins", "bounds", "clip", "labels", "missing", "scale"}
_LARGEST = 2**63 - 1
_MAX_DIGITS = 1000  # zeros may lead; Python refuses to convert more than 4,300 digits
_MAX_CATEGORIES, _MAX_CHARACTERS = 10**6, 1 << 26  # of all columns of a survey


def read_domains(path: Path) -> dict[str, Any]:
    """Read the public domain of each column."""
    # An object whose keys are the columns, and whose values are lists of categories (text or
    # integers, and null for a missing answer), numbers of categories, or bins of a number: {"bins":
    # [18, 65], "labels": ["young", "middle", "old"], "missing": true} or {"bins": 64, "bounds": [0,
    # 100], "clip": true}.
    domains = _read_json(path)
    if not isinstance(domains, dict) or not domains:
        raise ValueError(
            f"{path}: expected an object with the domain of each column, such as {_EXAMPLE}, got "
            f"{shorten(domains)}."
        )
    where = f"{path}: the domain of the column"
    read = {name: _read_domain(one, f"{where} {shorten(name)}") for name, one in domains.items()}
    n = sum(domain if isinstance(domain, int) else len(domain) for domain in read.values())
    if n > _MAX_CATEGORIES:
        raise ValueError(
            f"{path} has {shorten(n)} categories in all, more than {_MAX_CATEGORIES:,}: use "
            "coarser ones."
        )
    return read


def _read_json(path: Path) -> Any:
    text = "".join(Source(path, str(path)).lines())
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"{path} has more than {_MAX_CHARACTERS:,} characters, too many domains.")
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, path))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: not well-formed JSON ({error.msg}); expected the "
            f"domain of each column, such as {_EXAMPLE}."
        ) from error
    except RecursionError:
        raise ValueError(f"{path}: expected {_EXAMPLE} or the like, got JSON in JSON.") from None


def _object(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{path} has the key {twice!r} twice: give each column one domain.")
    return found


def _read_domain(domain: Any, where: str) -> Any:
    if type(domain) is int and domain >= 1:
        return domain
    if isinstance(domain, dict):
        if "bins" not in domain or not set(domain) <= _BIN_KEYS:
            raise ValueError(
                f'{where} must have the key "bins", and may have "bounds", "clip", "labels", '
                f'"missing" and "scale", got {shorten(domain)}.'
            )
        options = {key: value for key, value in domain.items() if key != "bins"}
        try:
            return ldp.Domain.bins(domain["bins"], **options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from None
    if not isinstance(domain, list) or not domain:
        raise ValueError(
            f"{where} must be a list of categories or a number of them >= 1, got {shorten(domain)}."
        )
    named = [one for one in domain if one is not None]
    large = [x for x in named if type(x) is int and not -_LARGEST <= x < 1 << 64]
    odd = [x for x in named if not is_category(x)] + large
    if odd:
        raise ValueError(
            f"{where} must list text without NUL, which is not empty, integers, or null for a "
            f"missing answer, got {shorten(odd[0])}: put it in double quotes, as in the data."
        )
    (text, n), *_ = Counter(map(text_of, domain)).most_common(1)
    if n > 1:
        raise ValueError(f"{where} repeats {shorten(text)}: list each category once.")
    return domain


def read_rows(arguments: Any, domain: ldp.surveys.RecordDomain) -> Users:
    """Read one row per user, or per combination of values with its number of users.

    domain: the public domains of the columns. Other columns of the file are not read.
    Returns: the categories themselves, in the order of the domain's columns.
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
                f"{source.name} {what}; the header has {listed_columns(header)}. Every column of "
                "--domains must be there once."
            )
    read = _parquet_columns if source.is_parquet else _csv_columns
    columns = domain.columns.items()
    codes = {name: Codes(source.name, name, column) for name, column in columns}
    cells = read(source, header, codes, count)
    if not len(cells[-1]):
        raise ValueError(f"{source.name} has a header but no rows.")
    values = np.empty((len(cells[-1]), len(names)), dtype=object)
    for j, one in enumerate(codes.values()):
        values[:, j] = one.categories[cells[j]]
    return values, cells[-1]


def _count_column(
    arguments: Any, header: list[str], domain: ldp.surveys.RecordDomain
) -> str | None:
    """The column of the numbers of users, if the rows are those of a histogram."""
    kind, name = arguments.input_kind, arguments.count_column or "count"
    is_told = kind == "histogram" or arguments.count_column is not None
    is_there = name in header and name not in domain.columns
    return name if kind != "values" and (is_told or is_there) else None


def text_of(value: object) -> str:
    """Return the text of a value in a file; that of a missing one is empty."""
    from .._core.domains.values import is_missing

    return "" if is_missing(value) else str(value)


def shown_value(value: object) -> str:
    """Return how an error names the value of a user."""
    return "a value" if are_cells_hidden() else f"the value {shorten(value)}"


class Codes:
    """The place of each category of a column by its text, or by a number that is in its bin."""

    # file, column: for error messages.
    # domain: the categories.

    def __init__(self, file: str, column: str, domain: ldp.Domain) -> None:
        self.file, self.column, self.domain = file, column, domain
        self.categories = domain.categories
        self.places = {text_of(one): i for i, one in enumerate(self.categories.tolist())}

    def find(self, value: str) -> int | None:
        """Return the place of a value; None if it has none."""
        place = self.places.get(value)
        # Python reads 18_25 as 1825.
        if place is None and self.domain.edges is not None and "_" not in value:
            try:
                return self.domain.bin_of(float(value))
            except ValueError:
                return None
        return place

    def of(self, value: str, where: str) -> int:
        """Return the place of a value, or raise an error that says where it is."""
        place = self.find(value)
        if place is not None:
            return place
        what = shown_value(value)
        remedy = "add it there, or correct the data"
        if not value:
            what = "an empty value"
            remedy = "give a missing value a category there, which is null, or leave its row out"
        raise ValueError(
            f"{self.file}{where}: {what} in the column {self.column!r}, which is not in the domain "
            f"that --domains gives; {remedy}."
        )


def _csv_columns(
    source: Source, header: list[str], codes: dict[str, Codes], count: str | None
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
    is_whole = text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS
    if not is_whole or int(text) > _LARGEST:
        raise ValueError(
            f"{where}: a number of users must be a whole number >= 0, got {shorten(text)}. Say "
            "--input-kind values if each row is one user."
        )
    return int(text)


def _parquet_columns(
    source: Source, header: list[str], codes: dict[str, Codes], count: str | None
) -> list[np.ndarray]:
    table = source.parquet_table([*codes, *([] if count is None else [count])])
    found = []
    for name, one in codes.items():
        _refuse_nested(source, name, table.column(name).type)
        different, places = _factorised(table.column(name))
        found.append(np.array([one.of(value, "") for value in different], dtype=np.int64)[places])
    if count is None:
        return [*found, np.ones(table.num_rows, dtype=np.int64)]
    _refuse_nested(source, count, table.column(count).type)
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
    values = [*whole.dictionary.to_pylist(), None]
    places = whole.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False).astype(int)
    used = np.flatnonzero(np.bincount(places, minlength=len(values)))
    return (text_of(values[i]) for i in used), np.searchsorted(used, places)


# -- tables: aligned on a terminal, CSV in a pipe, and CSV or Parquet in a file -------------------
TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")


# What Excel, LibreOffice and Google Sheets evaluate, half and full width; spaces may come before.
_FORMULA = re.compile(r"\s*[=+\-@\t\r\uff0b\uff0d\uff1d\uff20]")


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
    texts = [text_of(value) for value in column.tolist()]
    return np.array([f"'{t}" if _is_formula(t) else t for t in texts], dtype=object)


def _is_formula(text: str) -> bool:
    return bool(_FORMULA.match(text)) and not _NUMBER.fullmatch(text)


def write_table(columns: Mapping[str, Any], path: Path | None) -> None:
    """Write columns to a file, whose folder is created if missing, or to standard output."""
    # path: its suffix says the format. None is standard output, where a person at a terminal
    # gets an aligned table with a few digits, and a program behind a pipe gets CSV with all of
    # them.
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

    for kind in (None, pa.uint64()):  # which Arrow does not infer
        with suppress(OverflowError):
            return pa.array(values, kind)
    return pa.array([None if value is None else str(value) for value in values])


def write_tables(
    tables: Mapping[Any, Mapping[str, Any]], path: Path | None, by: str = "column"
) -> None:
    """Write tables of the same columns: one below the other on a terminal, otherwise as one."""
    # tables: the tables by name, which stands in the column `by` if they are written as one.
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
    """Raise ImportError if a Parquet file cannot be written."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"--output {path} needs pyarrow: pip install 'sklearn_ldp[data]', or name a .csv file."
        ) from error


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
    from .._core.domains.values import is_missing

    if column.dtype.kind != "f":
        # What would break the line, or steer the terminal, is shown as Python writes it.
        texts = ("(missing)" if is_missing(one) else str(one) for one in column.tolist())
        return [text if text.isprintable() else repr(text) for text in texts]
    decimals = _decimals(column)
    cells = [f"{x:.{decimals}f}" for x in column]
    surplus = min(len(cell) - len(cell.rstrip("0")) for cell in cells) if decimals else 0
    # A column of whole numbers loses its decimal points, too.
    return [cell[: len(cell) - surplus].rstrip(".") for cell in cells]


def _decimals(column: np.ndarray) -> int:
    """Decimals that show three digits of half of the numbers, and more of the larger ones."""
    sizes = np.abs(column[np.isfinite(column) & (column != 0)])
    return int(np.clip(2 - np.floor(np.log10(np.median(sizes))), 0, 12)) if sizes.size else 0
