"""Sets of items: several categories of a list for each user, from any container to codes."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..support.privacy import warn_once
from ..support.typing import Values
from ._domain import Domain
from ._lists import checked_bounds, one_list, refuse_outside
from .canonical import list_digest, word_digest
from .values import (
    arrow_column,
    column_names,
    is_missing,
    objects,
    order_of,
    read_once,
    refuse_unread,
    table_columns,
)

_MOST_CELLS = 1 << 27  # users times items of the longest list: a gigabyte of digests


class ItemRows(NamedTuple):
    """The lists of all users, one behind the other."""

    items: np.ndarray  # of any type; places among the categories, of an indicator matrix
    lengths: np.ndarray  # (n_users,): how many items each user has
    n_columns: int | None = None  # of an indicator matrix
    numbers: np.ndarray | None = None  # of the items, where each has one


def item_rows(X: Values, name: str) -> ItemRows:
    """Return the lists of users from any container that can hold lists."""
    X = read_once(X)
    columns = [X] if (found := table_columns(X)) is None else found
    given: Any = columns[0] if len(columns) == 1 else X
    lists: Any = None
    if hasattr(given, "tocsr"):
        matrix = given.tocsr().copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if np.all(matrix.data == 1):
            return ItemRows(matrix.indices, np.diff(matrix.indptr), matrix.shape[1])
    elif isinstance(given, np.ndarray) and given.ndim == 2 and given.dtype == bool:
        n, d = given.shape
        users, places = np.divmod(np.flatnonzero(given), max(d, 1))  # quicker than two axes
        return ItemRows(places, np.bincount(users, minlength=n), d)
    elif len(columns) == 1 and getattr(given, "ndim", 1) == 1:
        refuse_unread(given, name)
        if rows := _of_arrow(given):
            return rows
        to_list = next((x for x in ("to_pylist", "to_list", "tolist") if hasattr(given, x)), None)
        lists = getattr(given, to_list)() if to_list else given
    if not isinstance(lists, (list, tuple)):
        raise ValueError(
            f"{name} expects a list of items for each user, such as [['a', 'b'], []], or a "
            "boolean or sparse matrix of zeros and ones with a column for each category, got a "
            f"{type(X).__name__}."
        )
    odd = {kind for kind in set(map(type, lists)) if not issubclass(kind, _LISTS)}
    if odd:
        row = next(i for i, one in enumerate(lists) if type(one) in odd)
        what = "missing value" if is_missing(lists[row]) else type(lists[row]).__name__
        raise ValueError(
            f"{name} expects a list of items for each user, got a {what} at position {row}, which "
            "is not shown because errors of clients are logged: a single item stands in a list, "
            "['a'], and nobody's items are []."
        )
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    return ItemRows(objects(list(chain.from_iterable(lists))), lengths)


def _of_arrow(column: Any) -> ItemRows | None:
    """The lists of a column that is kept in Arrow, which takes a tenth of the time; or None."""
    column = arrow_column(column)
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if not hasattr(column, "value_lengths") or column.null_count:
        return None
    flat, lengths = column.flatten(), column.value_lengths()
    return ItemRows(flat.to_numpy(zero_copy_only=False), lengths.to_numpy().astype(np.int64))


_LISTS = (list, tuple, AbstractSet, np.ndarray)


class ItemDomain(Domain, tag="item-domain"):
    """Sets of categories: codes are rows of places from 1 on in falling order, and zeros.

    Of a domain that nobody lists, they are digests in the place of places.
    """

    # items: the categories. max_items: the most that a report tells of, which only counts users.

    shares_overlap = True

    items: Domain
    max_items: int

    def __init__(self, items: Domain, max_items: int) -> None:
        self.items, self.max_items = items, max_items
        self.is_open, self.size = items.is_open, items.size
        if not self.is_open:
            self._factors = [one_list(items, "Domain")]
        self._dtype = np.dtype(np.uint64) if self.is_open else np.min_scalar_type(self.size)

    @property
    def categories(self) -> np.ndarray:
        return self.items.categories

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

    def columns_of(self, X: Values, name: str) -> list[Any]:
        return [item_rows(X, name)]

    def places_of(self, codes: np.ndarray) -> np.ndarray:
        """Return the place of the category of each code, from 1 on; 0 of nothing."""
        return codes

    def n_clipped(self, columns: list[Any]) -> int:
        """Count the users of more items than a report tells of."""
        items, lengths, *_ = columns[0]
        starts = np.cumsum(lengths) - lengths
        many = np.flatnonzero(lengths > self.max_items)
        each = (items[starts[i] : starts[i] + lengths[i]].tolist() for i in many)
        return sum(len(set(one)) > self.max_items for one in each)

    def encode_columns(self, columns: list[Any], name: str) -> np.ndarray:
        rows = columns[0] if isinstance(columns[0], ItemRows) else item_rows(columns[0], name)
        n, width = len(rows.lengths), max(int(rows.lengths.max(initial=0)), 1)
        if not 0 < n * width <= _MOST_CELLS:
            raise ValueError(
                f"{name} needs 1 sample at least, and {_MOST_CELLS:,} items at most, got {n:,} "
                f"users of {width:,}: shorten lists, or add fewer users at a time (partial_fit)."
            )
        table = np.zeros((n, width), dtype=self._dtype)
        table[np.arange(width) < rows.lengths[:, None]] = self._places(rows, name)
        table = np.sort(table, axis=1)[:, ::-1]
        twice = (table[:, 1:] == table[:, :-1]) & (table[:, 1:] > 0)
        if twice.any():
            text = f"{name} got lists in which an item stands twice, and counts it once."
            warn_once(text, UserWarning, f"{name}: an item twice")
            table[:, 1:][twice] = 0
            table = np.sort(table, axis=1)[:, ::-1]
        return table

    def _places(self, rows: ItemRows, name: str) -> np.ndarray:
        """Return the codes of all items, one behind the other."""
        if self.is_open and rows.n_columns is None:
            # No item has the digest 0, which stands for nothing; it would occur once in 2**64.
            return np.array([max(word_digest(one), 1) for one in rows.items], dtype=np.uint64)
        if rows.n_columns not in (None, self.size):
            raise ValueError(
                f"{name} expects a matrix with a column for each of its {self.size} categories, "
                f"got {rows.n_columns} columns."
            )
        if rows.n_columns is not None:
            return rows.items + 1
        places = self._factors[0].places(rows.items)
        unknown = np.flatnonzero(places < 0)
        if unknown.size:
            ends = np.cumsum(rows.lengths)
            user = int(np.searchsorted(ends, unknown[0], side="right"))
            own = rows.items[ends[user] - rows.lengths[user] : ends[user]]
            self._factors[0].encode(own, f"{name}, in the list of row {user},")
        return places + 1


class KeyValueDomain(ItemDomain, tag="key-value-domain"):
    """Items that have a number between bounds each; a code is a place and a point of a grid."""

    N_LEVELS = 1 << 16  # steps of the grid

    def __init__(self, items: Domain, max_items: int, bounds: Any, name: str) -> None:
        super().__init__(items, max_items)
        self.bounds, self._dtype = checked_bounds(bounds, name), np.dtype(np.int64)

    @property
    def digest(self) -> str:
        return list_digest(["key values", super().digest, *self.bounds])

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.bounds == getattr(other, "bounds", None)

    __hash__ = ItemDomain.__hash__

    def places_of(self, codes: np.ndarray) -> np.ndarray:
        return (codes + self.N_LEVELS) // (self.N_LEVELS + 1)

    def columns_of(self, X: Values, name: str) -> list[Any]:
        names = column_names(X)
        if names is not None:
            order = order_of(names, self.categories, f"{name}: X")
            columns: Any = table_columns(X)
            table = np.column_stack([np.asarray(columns[i], dtype=float) for i in order])
            has = ~np.isnan(table)
            return [ItemRows(np.nonzero(has)[1], has.sum(axis=1), self.size, table[has])]
        rows = X.tolist() if hasattr(X, "tolist") else X
        if not isinstance(rows, list) or not all(isinstance(one, Mapping) for one in rows):
            raise ValueError(
                f"{name} expects a list of mappings from item to number, such as [{{'a': 3}}, "
                "{}], or a data frame with a column for each item, and NaN where a user has none."
            )
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        try:
            numbers = [float(x) for one in rows for x in one.values()]
        except (TypeError, ValueError):  # which shows a value: clients are logged
            raise ValueError(f"{name} got an item without a number: leave it out.") from None
        return [ItemRows(objects([*chain.from_iterable(rows)]), lengths, None, np.array(numbers))]

    def _places(self, rows: ItemRows, name: str) -> np.ndarray:
        (low, high), numbers = self.bounds, np.asarray(rows.numbers, dtype=float)
        outside = np.flatnonzero(~((low <= numbers) & (numbers <= high)))
        if outside.size:
            user = int(np.searchsorted(np.cumsum(rows.lengths), outside[0], side="right"))
            refuse_outside(float(numbers[outside[0]]), user, name, low, high)
        levels = np.rint((numbers - low) / (high - low) * self.N_LEVELS).astype(np.int64)
        return (super()._places(rows, name) - 1) * (self.N_LEVELS + 1) + levels + 1
