"""Reader of histograms in files."""

import re
from os import PathLike, fspath

import numpy as np
from sklearn.utils import Bunch

from .._core.common.files import Source, listed_columns, shorten
from .._core.common.text import as_array, is_category
from .._core.mechanisms import MAX_USERS

_COUNT = re.compile(r"[0-9]{1,19}")
_INT64_MAX = 2**63 - 1


def read_histogram(
    path: str | PathLike[str],
    *,
    value_column: str = "value",
    count_column: str = "count",
    dtype: type[str] | None = None,
) -> Bunch:
    r"""Read a histogram: one row per category, with its number of users.

    The content determines the format: Parquet (which needs pyarrow), otherwise CSV in UTF-8 with a
    header and commas, plain or gzip. All further columns are read as labels of groups.

    Parameters
    ----------
    path : str or os.PathLike
        The file to read.

    value_column : str, default="value"
        Column of the categories. Each category may occur once.

    count_column : str, default="count"
        Column of the number of users: non-negative whole numbers, written without a decimal point.

    dtype : {None, str}, default=None
        If None, a CSV column becomes int64 (or uint64, from 2**63 on) if each of its entries is a
        canonical integer of that type, that is, if converting it to an int and back to text changes
        nothing. Otherwise the whole column stays text. So "7" is a number, "007", "1.0" and "+7"
        are text, and identifiers above 2**53 keep all their digits. A Parquet column already has a
        type: integers stay integers, and text stays text. If ``str``, categories and groups are
        always text.

    Returns
    -------
    histogram : Bunch
        A dictionary-like object with

        categories : ndarray of shape (n_categories,), of int64, uint64 or str
            The categories, in the order of the file. Categories with count 0 are kept.
        counts : ndarray of shape (n_categories,), dtype int64
            Number of users in each category.
        frequencies : ndarray of shape (n_categories,), dtype float64
            ``counts / n_samples``.
        n_samples : int
            Number of users in all categories together.
        groups : Bunch
            For each further column, an ndarray of shape (n_categories,) with its labels,
            integers or str by the same rule. A missing label is the empty text.

    Raises
    ------
    ValueError
        If the file is empty, truncated or not UTF-8, if it lacks a column or rows, if a category
        is missing or repeated, or if a count is not a non-negative whole number. The message names
        the line (in CSV, where the header is line 1) or the row (in Parquet, counted from 1), and
        the remedy.
    ImportError
        If the file is Parquet and pyarrow is not installed.
    OSError
        If the file cannot be opened.

    See Also
    --------
    load_us_states : A histogram that comes with the package.

    Notes
    -----
    Nothing in the file is executed or unpickled.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn_ldp.datasets import read_histogram
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "browsers.csv"
    ...     _ = path.write_text("value,count,by\nedge,1,Microsoft\nchrome,5,Google")
    ...     histogram = read_histogram(path)
    >>> histogram.categories.tolist(), histogram.counts.tolist(), histogram.n_samples
    (['edge', 'chrome'], [1, 5], 6)
    >>> histogram.groups["by"].tolist()
    ['Microsoft', 'Google']
    """
    if dtype not in (None, str):
        raise ValueError(
            f"read_histogram: dtype must be None or str, got {dtype!r}. Read with dtype=None and "
            "convert histogram.categories afterwards."
        )
    if value_column == count_column:
        raise ValueError(
            "read_histogram: value_column and count_column must be different columns, got "
            f"{value_column!r} for both. Name one column for each."
        )
    where = f"read_histogram: {fspath(path)!s}"
    source = Source(path, where)
    is_csv = not source.is_parquet
    header, columns, rows = _read_csv(source) if is_csv else _read_parquet(source)

    if len(set(header)) < len(header):
        raise ValueError(
            f"{where} repeats a column name; its columns are {listed_columns(header)}. Rename or "
            "drop the repeated columns."
        )
    missing = [name for name in (value_column, count_column) if name not in header]
    if missing:
        raise ValueError(
            f"{where} has no column {' and no column '.join(map(repr, missing))}; it has "
            f"{listed_columns(header)}. Name your columns with value_column= and count_column= (a "
            "CSV needs a header and commas between columns)."
        )
    if not rows:
        raise ValueError(f"{where} has a header but no rows. Add one row per category.")
    table = dict(zip(header, columns, strict=True))
    counts = _parse_counts(table.pop(count_column), rows, where, count_column)
    values = table.pop(value_column)
    _check_distinct(values, rows, where, value_column)
    n_samples = sum(counts)
    if not 0 < n_samples <= MAX_USERS:
        raise ValueError(
            f"{where}: {count_column} must add up to a number of users from 1 to 2**53, got "
            f"{shorten(n_samples)}. Check that count_column= names the column of counts."
        )
    counts = np.array(counts, dtype=np.int64)
    groups = Bunch()
    for name, labels in table.items():
        groups[name] = as_array(labels, parse=is_csv, dtype=dtype)
    return Bunch(
        categories=as_array(values, parse=is_csv, dtype=dtype),
        counts=counts,
        frequencies=counts / n_samples,
        n_samples=n_samples,
        groups=groups,
    )


def _read_csv(source):
    """Return the header, the columns as lists of text, and the name of each row for errors."""
    table = [(line, cells) for line, cells in source.csv_rows() if cells]
    if not table:
        raise ValueError(
            f"{source.name} is empty: it has no header. Write a header and one row per category."
        )
    (_, header), *body = table
    columns = list(zip(*(cells for _, cells in body), strict=True))
    return header, columns, [f"line {line}" for line, _ in body]


def _read_parquet(source):
    """Return the header, the columns as lists of int, str or None, and row names for errors."""
    table = source.parquet_table()
    columns = [column.to_pylist() for column in table.columns]
    return table.column_names, columns, [f"row {i + 1}" for i in range(table.num_rows)]


def _parse_counts(cells, rows, where, name):
    counts = []
    for cell, row in zip(cells, rows, strict=True):
        is_whole = _COUNT.fullmatch(cell.strip()) if isinstance(cell, str) else type(cell) is int
        count = int(cell) if is_whole else -1
        if not 0 <= count <= _INT64_MAX:
            raise ValueError(
                f"{where}, {row}: {name} must be a whole number of users, 0 or more and below "
                f"2**63, written without a decimal point, got {shorten(cell)}. Write 12, not "
                "12.0 or 1.2e1; multiply a histogram of frequencies by its number of users."
            )
        counts.append(count)
    return counts


def _check_distinct(cells, rows, where, name):
    first: dict[str | int, int] = {}
    for cell, row in zip(cells, rows, strict=True):
        if not is_category(cell):
            raise ValueError(
                f"{where}, {row}: {name} must be text or an integer, got {shorten(cell)}. Name a "
                'missing value, for example "unknown", and cast other types to text.'
            )
        if first.setdefault(cell, row) != row:
            raise ValueError(
                f"{where}, {row}: {name} must name each category once, got {shorten(cell)} again "
                f"after {first[cell]}. Add the counts up, or split a file of several histograms."
            )
