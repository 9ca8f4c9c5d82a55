"""Conversion of users' values from any container (list, array, data frame) to one array per column.

The values themselves are not converted: tuples stay tuples, and 1 and "1" stay different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from itertools import pairwise, repeat
from numbers import Integral
from typing import Any

import numpy as np

from ..common.privacy import warn_once
from ..common.text import integer_array
from ..common.typing import Column, Values


# -- one column ------------------------------------------------------------------------------------
def as_vector(values: Column | Mapping[Any, Any]) -> np.ndarray:
    """Return the values of a column as a 1-D array, without converting them.

    For example, tuples stay tuples, and 1 stays different from "1".

    Shapes: values (n,) -> (n,).

    Returns: an array of a NumPy type if all values have the same type and NumPy has that type,
    otherwise an array of objects.
    """
    if isinstance(values, (list, tuple, range, dict)):
        values = list(values)
        if any(isinstance(v, (tuple, list)) for v in values) or not is_uniform(values):
            return objects([tuple(v) if isinstance(v, list) else v for v in values])
    array = exact_array(values, is_listed=not isinstance(values, list))
    if array.ndim == 2:
        return objects([tuple(row) for row in array.tolist()])
    if array.ndim != 1:
        raise ValueError(
            f"Expected one list of categories or values, got an array of shape {array.shape}. "
            "Pass a list, or an array of one dimension."
        )
    return array


def as_numbers(values: Any, kinds: str = "biufOUS") -> np.ndarray:
    """Return the values as a new array of floats.

    Return an empty array if the values cannot be converted, or if the kind of their dtype is not in
    `kinds`.
    """
    try:
        array = np.asarray(values)
        return np.array(array if array.dtype.kind in kinds else [], dtype=float)
    except (TypeError, ValueError, OverflowError):
        return np.empty(0)


def is_uniform(values: Sequence[Any]) -> bool:
    """Return whether a NumPy dtype can represent all values without changing any of them."""
    # NumPy would convert 1 and "1", 1 and True, and 1 and 1.5, and would cut NUL off the end of
    # text or bytes.
    types = {type(v) for v in values}
    if types and types <= {list, tuple, np.ndarray}:
        values = [u for v in values for u in v]
        types = {type(u) for u in values}
    if types not in ({str}, {bytes}):
        return len(types) <= 1
    nul: Any = "\0" if types == {str} else b"\0"
    # A search in the joined values is ten times as fast as a loop over values.
    return nul not in nul[:0].join(values) or not any(value.endswith(nul) for value in values)


def exact_array(values: Any, is_listed: bool = False) -> np.ndarray:
    """Return the values of any container as an array, without changing a value.

    If no NumPy dtype can represent the values, the array has dtype object.

    is_listed: whether the values are categories or labels, whose type must not change. If False,
    integers in a column with missing values may become floats of the same value.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        return np.where(np.ma.getmaskarray(values), np.array(None), values.data)
    if _is_128_bits(values):  # NumPy has no such type
        values = _as_objects(values).tolist()
        return objects(values) if None in values else integer_array(values)
    if has_time_zone(values):  # NumPy would drop the time zone
        return _as_objects(values)
    array = np.asarray(values)
    if array.dtype.kind == "T":  # text of any length; NumPy does not sort its missing values
        return array.astype(object)
    if array.dtype.kind in "mM" and _are_integers(array):
        # Instants finer than microseconds, or after the year 9999, must not become integers,
        # because integers have no unit.
        microseconds = array.astype(f"{array.dtype.kind}8[us]")
        is_exact = np.all((microseconds.astype(array.dtype) == array) | np.isnat(array))
        if is_exact and not _are_integers(microseconds):
            return microseconds
        return objects([plain_instant(value) for value in array])
    if isinstance(values, np.ndarray):
        return array
    is_rounded = array.dtype == np.float64 and bool(np.any(np.abs(array) >= _FIRST_ROUNDED))
    if is_rounded or (is_listed and array.dtype.kind == "f"):
        items = _as_objects(values)
        types = set(map(type, items.flat))
        if types == {int}:
            return integer_array(items.tolist())
        return items if int in types else array
    if array.dtype.kind in "US":
        listed = _as_objects(values).tolist()
        if not is_uniform(listed):
            return objects(listed)
    return array


_FIRST_ROUNDED = 2.0**53  # floats cannot represent the next integer


def _as_objects(values: Any) -> np.ndarray:
    """Return the elements of a container as an array of Python objects.

    Missing elements become None.
    """
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            listed = getattr(values, method)()
            return objects([None if is_missing(value) else value for value in listed])
    return np.asarray(values, dtype=object)


def _is_128_bits(column: Any) -> bool:
    """Return whether a column is a polars column of 128-bit integers."""
    return str(getattr(column, "dtype", "")) in ("Int128", "UInt128")


def _are_integers(instants: np.ndarray) -> bool:
    """Return whether NumPy's `tolist` would convert some of these dates to integers."""
    ends = [end.reduce(instants, axis=None) for end in (np.fmin, np.fmax) if instants.size]
    return int in {type(end.tolist()) for end in ends}


def has_time_zone(column: Any) -> bool:
    """Return whether a column of Arrow or polars contains date-times with a time zone."""
    kind = getattr(column, "type", None), getattr(column, "dtype", None)
    return bool(getattr(kind[0], "tz", None) or getattr(kind[1], "time_zone", None))


def plain_instant(value: Any) -> Any:
    """Convert a NumPy or pandas date, date-time or duration to Python's type.

    Return it unchanged if the conversion would not be exact.
    """
    if isinstance(value, (np.datetime64, np.timedelta64)):
        microseconds = value.astype(f"{value.dtype.kind}8[us]")
        items = value.item(), microseconds.item()
        return next((x for x in items if type(x) is not int and microseconds == value), value)
    if hasattr(value, "to_pydatetime") and not value.nanosecond:
        return value.to_pydatetime()
    if hasattr(value, "to_pytimedelta") and not value.nanoseconds:
        return value.to_pytimedelta()
    if hasattr(value, "asm8") and getattr(value, "tz", None) is None:
        return value.asm8  # an instant of pandas with nanoseconds
    return value


def is_missing(value: object) -> bool:
    """Return whether a value represents a missing answer: None, NaN, or pandas' NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, tuple):
        return any(is_missing(part) for part in value)
    return isinstance(value, (float, np.floating)) and value != value


def named_missing(categories: np.ndarray, name: str = "(missing)") -> np.ndarray:
    """Return a copy of the categories in which missing values (None, NaN) are replaced by a name.

    Shapes: categories (d,) -> (d,).
    """
    listed = categories.tolist() if categories.dtype.kind in "Of" else []
    is_name = [not isinstance(x, tuple) and is_missing(x) for x in listed]
    if not any(is_name):
        return categories
    return objects([name if missing else x for x, missing in zip(listed, is_name, strict=True)])


def in_one_form(value: Any) -> Any:
    """Return a form of a value that is equal for all values with the same meaning.

    For example, None and NaN have the same form, and so do a date of pandas and the same date of
    NumPy.
    """
    if isinstance(value, tuple):
        return tuple(in_one_form(part) for part in value)
    if is_missing(value):
        return None  # NaN does not equal itself
    if isinstance(value, Enum) and not isinstance(value, (int, float, str, bytes)):
        return Enum, type(value).__name__, value.name  # another process has another class object
    value = plain_instant(value)
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return datetime(value.year, value.month, value.day) if is_day else value


def comparable(values: list) -> list:
    """Return the values in a form in which values with the same meaning are equal.

    For example, all missing values become None, and a date of pandas equals the same date of NumPy.
    """
    if {type(value) for value in values} <= {int, str, bytes, bool}:
        return values
    return [in_one_form(value) for value in values]


def sorted_values(values: Iterable[Any]) -> list:
    """Return a sorted list of the values.

    If Python cannot compare them, they are sorted by the names of their types, and then by their
    `repr`.
    """
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda v: (type(v).__name__, repr(v)))


def group_codes(labels: Column, name: str, each: str) -> tuple[list, np.ndarray]:
    """Return the sorted list of distinct labels, and for each label its index in this list.

    If the labels are an ordered categorical column, the list is in the order of the levels.

    `each` completes the error message, such as "for each user".

    Shapes: labels (n,) -> (n,).
    """
    shape = np.shape(labels)  # type: ignore[arg-type]
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(
            f"{name} needs one label {each}, got an array of shape {shape}. Pass a non-empty "
            "array of one dimension."
        )
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biuU":  # no label is missing
        distinct, codes = np.unique(labels, return_inverse=True)
        warn_of_variants(distinct.tolist(), name, "labels", "Use one label for each group")
        return distinct.tolist(), codes
    column = by_levels(labels)
    items = as_vector(labels).tolist() if column is None else column.levels.tolist()
    occurring = set(items) if column is None else {items[i] for i in np.unique(column.places)}
    if any(map(is_missing, occurring)):
        raise ValueError(
            f"{name} got a missing label (None or NaN). Replace missing labels by a name, such as "
            '"unknown".'
        )
    if column is not None and declares_order(labels):
        names = [level for level in items if level in occurring]
    else:
        names = sorted_values(occurring)
    warn_of_variants(names, name, "labels", "Use one label for each group")
    place = {label: i for i, label in enumerate(names)}
    codes = np.fromiter(map(place.get, items, repeat(-1)), np.int64, len(items))
    return names, codes if column is None else codes[column.places]


def warn_of_variants(
    labels: Iterable[Any], name: str, kind: str, remedy: str, *, ignores_case: bool = True
) -> None:
    """Warn once if two texts differ only in case, or in spaces around them.

    kind: the noun for the labels. ignores_case: if False, texts that differ in case are different.
    """
    texts = [label.strip() for label in labels if isinstance(label, str)]
    counts = Counter(text.casefold() if ignores_case else text for text in texts)
    variants = counts.most_common(1)
    if variants and variants[0][1] > 1:
        text, count = variants[0]
        difference = "case or spaces" if ignores_case else "spaces"
        message = f"{name} has {count} {kind} that differ only in {difference} around {text!r}."
        warn_once(f"{message} {remedy}.", UserWarning, f"{name}: variants of {text}")


def objects(items: Sequence[Any]) -> np.ndarray:
    """Return a 1-D array of dtype object whose elements are the items.

    An item that is a list stays a list, and does not become another dimension of the array.

    Shapes: -> (n,).
    """
    return np.fromiter(items, dtype=object, count=len(items))


# -- columns ---------------------------------------------------------------------------------------
class LevelColumn:
    """A column that is stored as a list of distinct values (levels) and an index for each row.

    Parameters
    ----------
    levels : ndarray of shape (n_levels,)
        The levels. Some of them may not occur in any row.
    places : ndarray of int of shape (n,)
        For each row, the index of its value in `levels`; -1 if the value is missing.
    """

    def __init__(self, levels: np.ndarray, places: np.ndarray) -> None:
        # The place -1 of missing rows then selects the last level, None.
        is_full = not places.size or int(places.min()) >= 0
        self.levels = levels if is_full else objects([*levels.tolist(), None])
        self.places = places
        self.dtype = levels.dtype
        self.shape = places.shape

    def __len__(self) -> int:
        return len(self.places)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.levels[self.places], dtype)

    def __getitem__(self, rows: Any) -> Any:
        return self.levels[self.places[rows]]

    def tolist(self) -> list:
        return self[:].tolist()


def by_levels(column: Any) -> LevelColumn | None:
    """Return a categorical or text column of pandas, polars or Arrow as a LevelColumn.

    Return None for other columns.
    """
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(dtype, "ordered") and getattr(dtype, "categories", None) is not None:  # pandas'
        categorical = getattr(column, "array", column)
        return LevelColumn(as_vector(dtype.categories), np.asarray(categorical.codes))
    arrow = _in_arrow(column)
    if arrow is None or not str(arrow.type).startswith(("dictionary<", *_ARROW_TEXT)):
        return None
    arrow = arrow.cast("large_string") if str(arrow.type) == "string_view" else arrow
    arrow = arrow.dictionary_encode()
    arrow = arrow.unify_dictionaries() if hasattr(arrow, "chunks") else arrow
    chunks = getattr(arrow, "chunks", [arrow])
    if not chunks:
        return None
    places = [np.asarray(chunk.indices.cast("int64").fill_null(-1)) for chunk in chunks]
    return LevelColumn(objects(chunks[0].dictionary.to_pylist()), np.concatenate(places))


_ARROW_TEXT = ("string", "large_string")


def _in_arrow(column: Any) -> Any:
    """Return a text or categorical column of Arrow, polars or pandas as an Arrow column.

    Return None for other columns.
    """
    dtype: Any = getattr(column, "dtype", None)
    is_polars = str(dtype).startswith(("String", "Enum", "Categorical"))
    is_pandas = getattr(dtype, "storage", "") == "pyarrow" or hasattr(dtype, "pyarrow_dtype")
    try:
        arrow = arrow_column(column) if is_polars or is_pandas else column
    except ImportError:  # polars without pyarrow
        return None
    return arrow if hasattr(arrow, "dictionary_encode") else None


def arrow_column(column: Any) -> Any:
    """Return a column of polars or pandas as an Arrow column. Return any other column unchanged."""
    if hasattr(column, "to_arrow"):
        return column.to_arrow()
    array = getattr(column, "array", column)
    is_arrow = hasattr(array, "__arrow_array__") and array.dtype != object
    return array.__arrow_array__() if is_arrow else column


def refuse_reports(X: Any, name: str, remedy: str) -> None:
    """Raise ValueError if X consists of randomized reports instead of users' values.

    `remedy` completes the error message and describes how to pass reports.
    """
    if isinstance(X, np.ndarray) and getattr(X, "configuration", None) is not None:
        raise ValueError(
            f"{name} expects users' values, got reports that are already randomized. For reports, "
            f"{remedy}. If X really contains values, pass np.asarray(X)."
        )


def as_columns(X: Values, name: str) -> list[Any]:
    """Split users' values into a list of columns. Each column keeps its own dtype or levels.

    Shapes: X (n_samples,) or (n_samples, n_columns) -> (n_samples,) for each column.
    """
    refuse_reports(X, name, 'use input="reports" or aggregate')
    columns = table_columns(X)
    if columns is None and (column := by_levels(X)) is not None:
        columns = [column]
    elif columns is None:
        refuse_unread(X, name)
        array = _as_array(X)
        if array.dtype.kind == "c":
            raise ValueError(
                f"Complex data not supported by {name}. Pass the real and imaginary parts as two "
                "columns."
            )
        if array.ndim not in (1, 2):
            advice = "" if array.ndim else " Pass a single value in a list."
            raise ValueError(
                f"{name} expects X of shape (n_samples,) or (n_samples, n_columns), found array "
                f"with dim {array.ndim} and shape {array.shape}.{advice}"
            )
        columns = [array] if array.ndim == 1 else list(array.T)
    columns = [_as_column(column) for column in columns]
    n_samples = len(columns[0]) if columns else 0
    if n_samples == 0:
        kind = "sample(s)" if columns else "feature(s)"
        raise ValueError(  # scikit-learn's text
            f"Found array with 0 {kind} (shape=({n_samples}, {len(columns)})) while a minimum of 1 "
            f"is required by {name}."
        )
    return columns


def _as_column(column: Any) -> Any:
    levels = column if isinstance(column, LevelColumn) else by_levels(column)
    return as_vector(column) if levels is None else levels


def read_once(X: Values) -> Values:
    """Return the content of X if X is a stream, which can be read only once; otherwise return X.

    Streams are objects that stream Arrow data, such as a DuckDB relation or a reader of record
    batches. Their content is returned as an Arrow table.
    """
    in_memory = ("iloc", "get_columns", "itercolumns", "__array__")
    if any(hasattr(X, name) for name in in_memory) or not hasattr(X, "__arrow_c_stream__"):
        return X
    import pyarrow as pa

    return pa.table(X)


def table_columns(X: Any) -> list | None:
    """Return the columns of a data frame or Arrow table as a list.

    Return None for other containers.
    """
    X = read_once(X)
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return [X.iloc[:, i] for i in range(X.shape[1])]
    if hasattr(X, "get_columns"):
        return list(X.get_columns())
    if hasattr(X, "column_names") and hasattr(X, "itercolumns"):
        return list(X.itercolumns())
    return None


def column_names(X: Any) -> list | None:
    """Return the list of column names of a data frame or Arrow table.

    Return None for other containers.
    """
    X = read_once(X)
    if table_columns(X) is None:
        return None
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def refuse_unread(X: Any, name: str) -> None:
    """Raise an error if X is a lazy data frame, an iterator or a sparse matrix."""
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise ValueError(
            f"{name} got a lazy data frame ({type(X).__name__}), which contains no values yet. "
            "Pass X.collect(), with the columns of the domain."
        )
    if isinstance(X, Iterator):
        raise ValueError(
            f"{name} got a {type(X).__name__}, which can be read only once. Pass list(X), or pass "
            "the users in several calls of partial_fit."
        )
    if hasattr(X, "toarray"):
        raise TypeError(f"{name} does not accept sparse data. Pass a dense array, X.toarray().")


def _as_array(X):
    """Return users' values as an array in which values of different types stay different."""
    if not isinstance(X, (list, tuple)):
        return exact_array(X)
    if X and isinstance(X[0], str):
        return objects(X)
    try:
        return exact_array(X) if is_uniform(X) else np.asarray(X, dtype=object)
    except ValueError:
        if all(isinstance(value, tuple) for value in X):  # each is one answer, as in a Series
            return objects(X)
        raise ValueError(
            "X has rows of different lengths, but each row must contain one value for each column. "
            "If a row is a single answer, convert it to a tuple."
        ) from None


# -- levels that a container declares --------------------------------------------------------------
def declares_levels(X: Any) -> bool:
    """Return whether every column of X has a categorical dtype, which lists its levels."""
    columns = table_columns(X)
    sources = [X] if columns is None else columns
    return all(declared_levels(column) is not None for column in sources)


def declared_levels(column: object) -> np.ndarray | None:
    """Return the levels that a categorical dtype lists, in their order.

    column: a column of pandas, polars or Arrow, or a dtype.

    Shapes: -> (n_levels,).

    Returns: the levels; None if the column or dtype is not categorical.
    """
    dtype = getattr(column, "dtype", column)
    if hasattr(dtype, "categories") and hasattr(dtype, "ordered"):  # pandas' CategoricalDtype
        return None if dtype.categories is None else np.asarray(dtype.categories)
    if type(dtype).__name__ == "Enum" and hasattr(dtype, "categories"):  # polars' Enum
        return np.array(list(dtype.categories), dtype=object)
    if hasattr(column, "dictionary") and hasattr(column, "indices"):  # Arrow's DictionaryArray
        return objects(column.dictionary.to_pylist())
    if hasattr(column, "chunks") and hasattr(column, "unify_dictionaries"):  # Arrow's ChunkedArray
        chunks = column.unify_dictionaries().chunks
        return declared_levels(chunks[0]) if chunks and hasattr(chunks[0], "dictionary") else None
    return None


def declares_order(column: Any) -> bool:
    """Return whether a column or dtype is categorical and its levels are ordered."""
    kinds = column, getattr(column, "dtype", None), getattr(column, "type", None)
    return any(getattr(kind, "ordered", False) is True for kind in kinds)


# -- labels: values with the category of each value ------------------------------------------------
def own_categories(values: Any) -> list | None:
    """Return the labels of labeled values: the keys of a mapping, or the index of a pandas Series.

    Returns: the labels. None if the values have no labels, or if the index is the default index of
    pandas, 0, 1, 2, ...
    """
    if isinstance(values, Mapping):
        return list(values)
    if not hasattr(values, "iloc"):
        return None
    index = values.columns if hasattr(values, "columns") else values.index
    is_default = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    return None if is_default else index.tolist()


def refuse_shuffled(name: str, **columns: Any) -> None:
    """Raise ValueError if pandas columns have the same index labels in different orders.

    The columns are paired by position, so each user would get the value of another user.
    """
    indexes = [(key, column.index) for key, column in columns.items() if hasattr(column, "iloc")]
    for (first, index), (second, other) in pairwise(indexes):
        if index.equals(other) or len(index) != len(other):
            continue
        if index.is_unique and other.is_unique and index.isin(other).all():
            raise ValueError(
                f"{name} got {first} and {second} with the same index labels in different orders, "
                f"but pairs them by position. Pass {second}.loc[{first}.index], or both as arrays "
                "(to_numpy()) if their rows are already paired."
            )


def places_among(wanted: list, labels: list) -> tuple[np.ndarray, list]:
    """Return the positions of wanted values in a list of labels, and the values not in the list.

    Shapes: -> (n_found,).
    """
    place = {label: i for i, label in enumerate(labels)}
    missing = [value for value in wanted if value not in place]
    places = [place[value] for value in wanted if value in place]
    return np.array(places, dtype=np.int64), missing


def is_row_index(key: Any) -> bool:
    """Return whether a key, as in X[key], selects rows. Otherwise it is the name of a column."""
    if isinstance(key, (tuple, str, bytes, bool, np.bool_)):
        return False
    return isinstance(key, (Integral, slice)) or key is Ellipsis or np.ndim(key) > 0


def places_of(wanted: list, categories: np.ndarray, name: str) -> np.ndarray:
    """Return the positions of wanted categories; raise ValueError if one does not exist.

    wanted: the categories to find. None and NaN mean the category of missing answers.

    Shapes: categories (d,) -> (n_wanted,).
    """
    listed = categories.tolist()
    places, missing = places_among(comparable(wanted), comparable(listed))
    if missing:
        shown = ", ".join(map(repr, listed[:5])) + ", ..." * (len(listed) > 5)
        raise ValueError(
            f"{name} has no category {missing[0]!r}. Choose one of its {len(listed):,} categories "
            f"{shown}."
        )
    return places


def place_of_missing(categories: np.ndarray) -> int | None:
    """Return the position of the category of missing answers; None if there is no such category."""
    places, _ = places_among([None], comparable(categories.tolist()))
    return int(places[0]) if places.size else None


def order_of(labels: list, categories: np.ndarray, name: str) -> np.ndarray:
    """Return, for each category, the position of its label in a list of labels.

    Raise ValueError unless each category has exactly one label.

    categories: the categories, in the order of the result.

    Shapes: categories (d,) -> (d,).
    """
    labels = comparable(labels)
    wanted = comparable(categories.tolist())
    distinct = set(wanted)
    order, missing = places_among(wanted, labels)
    extra = [label for label in labels if label not in distinct]
    if missing or extra or len(order) < len(labels):
        if missing:
            problem = f"has no label for the category {missing[0]!r}"
        elif extra:
            problem = f"has the label {extra[0]!r}, which is not a category"
        else:
            problem = "has a label more than once"
        raise ValueError(
            f"{name} is labeled by category (its index or its keys), but {problem}. Label each "
            "category once, or pass values without labels in the order of the categories: "
            "labels.reindex(categories).to_numpy()."
        )
    return order


def in_order(values: Any, categories: np.ndarray, name: str) -> Any:
    """Return labeled values in the order of the categories; return unlabeled values unchanged.

    categories: the categories, in the order of the result.

    Shapes: values (d,), categories (d,) -> (d,).
    """
    labels = own_categories(values)
    if labels is None:
        return values
    unlabelled = list(values.values()) if isinstance(values, Mapping) else values.to_numpy()
    return np.asarray(unlabelled)[order_of(labels, categories, name)]


def as_true_frequencies(frequencies: Any, categories: np.ndarray, name: str) -> np.ndarray:
    """Return true frequencies in the order of the categories.

    name: the name of the argument, for the messages. Raises ValueError unless there is one finite
    frequency for each category, and the frequencies are no counts or percentages.

    Shapes: frequencies (d,), categories (d,) -> (d,).
    """
    d = len(categories)
    truth = np.asarray(in_order(frequencies, categories, name), dtype=np.float64)
    if truth.shape != (d,):
        raise ValueError(
            f"{name} must have shape ({d},), got {truth.shape}. Pass one true frequency for each "
            "category of the estimate."
        )
    if not np.all(np.isfinite(truth)):
        raise ValueError(
            f"{name} must be finite, got NaN or infinity. Pass 0 for a category without users."
        )
    # The tolerance is for rounding errors. An unbiased estimate that stands for the truth may be
    # larger than 1, but then other frequencies are negative.
    if np.max(truth, initial=0.0) > 1 + 1e-6 and np.min(truth) >= 0:
        raise ValueError(
            f"{name} must contain frequencies from 0 to 1, got values up to {truth.max():g}. "
            "Divide counts by the number of users, and percentages by 100."
        )
    return truth


def as_distribution(
    frequencies: Any, categories: np.ndarray, name: str, *, overlap: bool = False
) -> np.ndarray:
    """Return frequencies in the order of the categories, after checking that they sum to 1.

    Shapes: frequencies (d,), categories (d,) -> (d,). categories: the categories in the order of
    the result. overlap: whether a user may have several categories. The frequencies then need not
    sum to 1, but each must be from 0 to 1. Raises ValueError if a check fails.
    """
    d = len(categories)
    ordered = in_order(frequencies, categories, "The array of frequencies")
    array = np.asarray(ordered, dtype=np.float64)
    if overlap and array.shape == (d,) and not np.all((array >= 0) & (array <= 1)):
        raise ValueError(
            f"The frequencies of {name} must be from 0 to 1, got values from {array.min():g} to "
            f"{array.max():g}. Divide counts by the number of users."
        )
    if overlap and array.shape == (d,):
        return array
    if array.shape != (d,) or not np.all(array >= 0) or abs(array.sum() - 1) >= 1e-6:
        raise ValueError(
            f"The frequencies of {name} must have shape ({d},), be >= 0 and sum to 1, got an "
            f"array of shape {array.shape} with the sum {array.sum():g}. Divide counts by their "
            "sum."
        )
    return array
