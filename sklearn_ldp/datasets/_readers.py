"""The reader of files that contain histograms."""

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
    r"""Read a file with one row per category and its number of users, a histogram.

    The file is either Parquet, which needs pyarrow, or CSV in UTF-8 with a header and commas, which
    may be compressed by gzip. The content determines the format, not the name. Each further column
    is read as the group of each category.

    Parameters
    ----------
    path : str or os.PathLike
        The file to read.

    value_column : str, default="value"
        Name of the column with the categories. Each category may occur only once.

    count_column : str, default="count"
        Name of the column with the numbers of users, which are non-negative whole numbers without a
        decimal point.

    dtype : {None, str}, default=None
        If None, a column of a CSV file is converted to int64 (or uint64, if numbers are 2**63 or
        more) if that does not change any entry, that is, if each entry equals ``str(int(entry))``.
        Otherwise the whole column stays text. So "7" is a number, "007", "1.0" and "+7" are text,
        and identifiers above 2**53 keep all their digits. A Parquet column already has a type:
        integers stay integers, and text stays text. If ``str``, categories and groups are always
        text.

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
            Total number of users in all categories.
        groups : Bunch
            For each further column, an ndarray of shape (n_categories,) with the group of each
            category. `dtype` also applies to groups. A missing entry is the empty text.

    Raises
    ------
    ValueError
        If the file is empty, truncated or not UTF-8, if it lacks a column or rows, if a category is
        missing or repeated, or if a count is not a non-negative whole number. The message contains
        the line of a CSV file, in which the header is line 1, or the row of a Parquet file, counted
        from 1.
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
            f"read_histogram: dtype must be None or str, got {dtype!r}. Pass dtype=None, and "
            "convert histogram.categories afterwards."
        )
    if value_column == count_column:
        raise ValueError(
            "read_histogram: value_column and count_column must be different columns, got "
            f"{value_column!r} for both. Pass a different name for each."
        )
    where = f"read_histogram: {fspath(path)!s}"
    source = Source(path, where)
    is_csv = not source.is_parquet
    header, columns, rows = _read_csv(source) if is_csv else _read_parquet(source)

    if len(set(header)) < len(header):
        raise ValueError(
            f"{where} contains a column name twice; the columns are {listed_columns(header)}. "
            "Rename or remove the repeated columns."
        )
    missing = [name for name in (value_column, count_column) if name not in header]
    if missing:
        raise ValueError(
            f"{where} has no column {' and no column '.join(map(repr, missing))}; it has "
            f"{listed_columns(header)}. Pass the names of your columns as value_column= and "
            "count_column=; a CSV file needs a header, and commas between columns."
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
            f"{where}: the sum of the numbers in {count_column} must be between 1 and 2**53 users, "
            f"got {shorten(n_samples)}. Check that count_column= is the column of counts."
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
    """Return the header, the columns and the rows of a CSV file.

    The columns are lists of texts, and each row is described by a text for errors, such as "line
    2".
    """
    table = [(line, cells) for line, cells in source.csv_rows() if cells]
    if not table:
        raise ValueError(f"{source.name} is empty. Write a header, and one row per category.")
    (_, header), *body = table
    columns = list(zip(*(cells for _, cells in body), strict=True))
    return header, columns, [f"line {line}" for line, _ in body]


def _read_parquet(source):
    """Return the header, the columns and the rows of a Parquet file.

    The columns are lists of int, str or None, and each row is described by a text for errors, such
    as "row 1".
    """
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
                f"{where}, {row}: {name} must be a whole number of users from 0 to 2**63 - 1, got "
                f"{shorten(cell)}. Write 12 instead of 12.0 or 1.2e1; if the file contains "
                "frequencies, multiply them by the number of users."
            )
        counts.append(count)
    return counts


def _check_distinct(cells, rows, where, name):
    first: dict[str | int, int] = {}
    for cell, row in zip(cells, rows, strict=True):
        if not is_category(cell):
            raise ValueError(
                f"{where}, {row}: {name} must be text or an integer, got {shorten(cell)}. Replace "
                'a missing value by a name, for example "unknown", and convert other types to '
                "text."
            )
        if first.setdefault(cell, row) != row:
            raise ValueError(
                f"{where}, {row}: {name} must contain each category once, got {shorten(cell)} "
                f"again after {first[cell]}. Add up the counts of repeated rows; if the file "
                "contains several histograms, split it."
            )
