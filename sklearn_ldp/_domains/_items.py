"""Sets of items: several categories of a list for each user, from any container to codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._utils.privacy import warn_once
from .._utils.typing import Values
from ._domain import Domain
from ._lists import occurring, one_list
from .canonical import word_digest
from .values import as_vector, is_missing, objects, read_once, refuse_unread, table_columns

_MOST_CELLS = 1 << 27  # users times items of the longest list: a gigabyte of digests


class ItemRows(NamedTuple):
    """The lists of all users, one behind the other."""

    items: Any  # of any type, in an array; places among the categories if there are no values
    lengths: np.ndarray  # (n_users,): how many items each user has
    index: np.ndarray | None = None  # which of the items each is, if distinct ones are listed
    n_columns: int | None = None  # of an indicator matrix, whose items are places

    def each(self) -> Iterator[Any]:
        """Yield the items of each user, or their numbers in the index."""
        flat = self.items if self.index is None else self.index
        return iter(np.split(flat, np.cumsum(self.lengths)[:-1]))


def item_rows(X: Values, name: str) -> ItemRows:
    """Return the lists of users from any container that can hold lists."""
    X = read_once(X)
    columns = table_columns(X)
    if columns is not None:
        if len(columns) != 1:
            raise ValueError(
                f"{name} takes one column of lists, got a table of {len(columns)} columns: pass "
                "one of them, or a boolean matrix of all categories, X[categories].to_numpy(bool)."
            )
        (X,) = columns
    given: Any = X
    if hasattr(given, "tocsr"):
        rows = _of_matrix(given.tocsr().copy(), name)
    elif isinstance(given, np.ndarray) and given.ndim == 2 and given.dtype == bool:
        n, d = given.shape
        users, places = np.divmod(np.flatnonzero(given), max(d, 1))  # quicker than two axes
        rows = ItemRows(places, np.bincount(users, minlength=n), n_columns=d)
    else:
        rows = _of_arrow(given, name) or _of_lists(given, name)
    if not len(rows.lengths):
        raise ValueError(f"Found array with 0 sample(s) while a minimum of 1 is required by {name}")
    return rows


def _of_matrix(matrix: Any, name: str) -> ItemRows:
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if np.any(matrix.data != 1):
        raise ValueError(f"{name} expects a sparse matrix of zeros and ones, got other numbers.")
    return ItemRows(matrix.indices, np.diff(matrix.indptr), n_columns=matrix.shape[1])


def _of_arrow(column: Any, name: str) -> ItemRows | None:
    """The lists of a column of Arrow, or of one that polars or pandas keep in Arrow; or None."""
    if hasattr(column, "to_arrow"):
        column = column.to_arrow()
    elif hasattr(getattr(column, "array", None), "__arrow_array__") and column.dtype != object:
        column = column.array.__arrow_array__()
    if not hasattr(column, "combine_chunks") and not hasattr(column, "value_lengths"):
        return None
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if hasattr(array, "chunks"):  # older versions of Arrow combine to one chunk
        array = array.chunk(0) if array.num_chunks else array
    if not hasattr(array, "value_lengths"):
        return _of_lists(array.to_pylist(), name)
    if array.null_count:
        _refuse_row(name, "nothing", int(np.argmax(array.is_null().to_numpy(False))))
    flat = array.flatten()
    if not hasattr(flat, "dictionary"):
        flat = flat.dictionary_encode(null_encoding="encode")
    items, index = objects(flat.dictionary.to_pylist()), flat.indices.to_numpy(False)
    if flat.indices.null_count:  # of a column that was a dictionary before
        items, index = objects([*items, None]), np.nan_to_num(index, nan=len(items)).astype(int)
    return ItemRows(items, array.value_lengths().to_numpy(False).astype(np.int64), index)


def _of_lists(X: Any, name: str) -> ItemRows:
    refuse_unread(X, name)
    if isinstance(X, np.ndarray) and X.dtype != object:
        raise ValueError(
            f"{name} expects a list of items for each user, got an array of dtype {X.dtype} and "
            f"shape {X.shape}: pass a list of lists, such as [['a', 'b'], []], or a boolean matrix "
            "with a column for each category, X.astype(bool)."
        )
    if isinstance(X, (str, bytes, Mapping, AbstractSet)) or not hasattr(X, "__len__"):
        raise ValueError(f"{name} expects a list of items for each user, got a {_kind(X)}.")
    lists = X.tolist() if hasattr(X, "tolist") else list(X)
    odd = {t for t in set(map(type, lists)) if not issubclass(t, _LISTS)}
    if odd or np.ndarray in set(map(type, lists)):
        for i, one in enumerate(lists):
            if type(one) in odd or np.ndim(one) > 1:
                _refuse_row(name, _kind(one), i)
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    return ItemRows(objects(list(chain.from_iterable(lists))), lengths)


_LISTS = (list, tuple, AbstractSet, np.ndarray)


def _kind(one: Any) -> str:
    return "missing value" if is_missing(one) else type(one).__name__


def _refuse_row(name: str, what: str, row: int) -> None:
    raise ValueError(
        f"{name} expects a list of items for each user, got {what} at position {row}, which is not "
        "shown because errors of clients are logged: a single item stands in a list, ['a'], and "
        "nobody's items are []."
    )


class ItemDomain(Domain):
    """Sets of categories: codes are rows of places from 1 on in falling order, and zeros.

    Of a domain that nobody lists, they are digests in the place of places.
    """

    # items: the categories. max_items: the most that a report tells of, which only counts users.

    shares_overlap = True

    def __init__(self, items: Domain, max_items: int) -> None:
        self.items, self.max_items = items, max_items
        self.is_open, self.size = items.is_open, items.size
        if not self.is_open:
            self._factors = [one_list(items, "Domain")]
        self._dtype = np.dtype(np.uint64) if self.is_open else np.min_scalar_type(self.size)

    @property
    def categories(self) -> np.ndarray:
        return self.items.categories if self.is_open else self._factors[0].categories

    @property
    def digest(self) -> str:
        return self.items.digest

    @property
    def stand_in(self) -> list[Any]:
        """The empty set."""
        return []

    def closed(self) -> Domain:
        self.items.closed()
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ItemDomain) and self.items == other.items

    def __hash__(self) -> int:
        return hash((type(self), self.size))

    def __repr__(self) -> str:
        return f"sets of {self.items!r}"

    @classmethod
    def learned(cls, X: Values, name: str) -> Domain:
        rows = item_rows(X, name)
        if rows.n_columns is not None:
            return Domain.of(rows.n_columns, name)
        return Domain.of(occurring(as_vector(rows.items.tolist()), name), name)

    def columns_of(self, X: Values, name: str) -> list[Any]:
        return [item_rows(X, name)]

    def n_clipped(self, columns: list[Any]) -> int:
        many = (columns[0].lengths > self.max_items).nonzero()[0]
        each = list(columns[0].each()) if many.size else []
        return sum(len(set(each[i].tolist())) > self.max_items for i in many)

    def encode_columns(self, columns: list[Any], name: str) -> np.ndarray:
        given = columns[0]
        rows = given if isinstance(given, ItemRows) else item_rows(given, name)
        n, width = len(rows.lengths), max(int(rows.lengths.max()), 1)
        if n * width > _MOST_CELLS:
            raise ValueError(
                f"{name} got {n:,} users at once, one of whom has {width:,} items, which would "
                "take gigabytes: add fewer users at a time (partial_fit), or shorten such lists."
            )
        codes = self._places(rows, name)
        table = np.zeros((n, width), dtype=self._dtype)
        table[np.arange(width) < rows.lengths[:, None]] = codes
        table = np.sort(table, axis=1)[:, ::-1]
        twice = (table[:, 1:] == table[:, :-1]) & (table[:, 1:] > 0)
        if twice.any():
            text = f"{name} got lists in which an item stands twice, and counts it once."
            warn_once(text, UserWarning, f"{name}: an item twice")
            table[:, 1:][twice] = 0
            table = np.sort(table, axis=1)[:, ::-1]
        return np.ascontiguousarray(table)

    def _places(self, rows: ItemRows, name: str) -> np.ndarray:
        """Return the codes of all items, one behind the other."""
        if rows.n_columns is not None:
            if rows.n_columns != self.size:
                raise ValueError(
                    f"{name} expects a matrix with a column for each of its {self.size} "
                    f"categories, got {rows.n_columns} columns."
                )
            return rows.items + 1
        if self.is_open:
            # No value has the digest 0, which stands for nothing; it would occur once in 2**64.
            codes = np.array([max(word_digest(one), 1) for one in rows.items], dtype=np.uint64)
        else:
            codes = self._factors[0].places(rows.items) + 1
        codes = codes if rows.index is None else codes[rows.index]
        unknown = np.flatnonzero(codes == 0)
        if unknown.size:
            ends, last = np.cumsum(rows.lengths), unknown[0]
            user = int(np.searchsorted(ends, last, side="right"))
            own = np.arange(ends[user] - rows.lengths[user], last + 1)
            own = rows.items[own if rows.index is None else rows.index[own]]
            self._factors[0].encode(own, f"{name}, in the list of row {user},")
        return codes
