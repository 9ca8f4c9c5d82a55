"""Domains in which each user has a set of items, and the conversion of such sets to integers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..common.privacy import warn_once
from ..common.typing import Values
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

_MOST_CELLS = 1 << 27  # maximum of users times items of the longest list: a gigabyte of digests


class ItemRows(NamedTuple):
    """The lists of items of all users, concatenated into one array."""

    items: np.ndarray  # (n_items,): the items; for an indicator matrix, their column numbers
    lengths: np.ndarray  # (n_users,): number of items of each user
    n_columns: int | None = None  # number of columns of an indicator matrix
    numbers: np.ndarray | None = None  # (n_items,): the number of each item, if items have numbers


def item_rows(X: Values, name: str) -> ItemRows:
    """Return the items of all users as `ItemRows`.

    X is a list of lists, a matrix of zeros and ones with one column per category, or a column of
    lists.
    """
    X = read_once(X)
    columns = table_columns(X)
    source: Any = X if columns is None or len(columns) != 1 else columns[0]
    lists: Any = None
    if hasattr(source, "tocsr"):
        matrix = source.tocsr().copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if np.all(matrix.data == 1):
            return ItemRows(matrix.indices, np.diff(matrix.indptr), matrix.shape[1])
    elif isinstance(source, np.ndarray) and source.ndim == 2 and source.dtype == bool:
        n, d = source.shape
        users, places = np.divmod(np.flatnonzero(source), max(d, 1))  # faster than two axes
        return ItemRows(places, np.bincount(users, minlength=n), d)
    elif (columns is None or len(columns) == 1) and getattr(source, "ndim", 1) == 1:
        refuse_unread(source, name)
        if rows := _arrow_rows(source):
            return rows
        to_list = next((x for x in ("to_pylist", "to_list", "tolist") if hasattr(source, x)), None)
        lists = getattr(source, to_list)() if to_list else source
    if not isinstance(lists, (list, tuple)):
        raise ValueError(
            f"{name} expects a list of items for each user, got a {type(X).__name__}. Pass a list "
            "such as [['a', 'b'], []], or a boolean or sparse matrix of zeros and ones with a "
            "column for each category."
        )
    wrong_types = {kind for kind in set(map(type, lists)) if not issubclass(kind, _LISTS)}
    if wrong_types:
        row = next(i for i, items in enumerate(lists) if type(items) in wrong_types)
        kind = "missing value" if is_missing(lists[row]) else type(lists[row]).__name__
        raise ValueError(
            f"{name} expects a list of items for each user, got a {kind} at position {row} (not "
            "shown, because errors of clients are logged). Pass a single item as a list, ['a'], "
            "and [] for a user without items."
        )
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    return ItemRows(objects(list(chain.from_iterable(lists))), lengths)


def _arrow_rows(column: Any) -> ItemRows | None:
    """Return the lists in an Arrow column as `ItemRows`.

    Return None if the column is not an Arrow column of lists.
    """
    # Ten times as fast as the conversion of Python lists.
    column = arrow_column(column)
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if not hasattr(column, "value_lengths") or column.null_count:
        return None
    items = column.flatten().to_numpy(zero_copy_only=False)
    return ItemRows(items, column.value_lengths().to_numpy().astype(np.int64))


_LISTS = (list, tuple, AbstractSet, np.ndarray)


class ItemDomain(Domain, tag="item-domain"):
    """A domain in which each answer is a set of items from a public list.

    The code of an answer is a row of integers. Each integer is the number of an item: its position
    in the list of items, counted from 1. The numbers are in decreasing order, and zeros fill the
    rest of the row. In an open domain, which has no list, the number of an item is its 64-bit hash.
    """

    # items: the categories.
    # max_items: the maximum number of items in a report; here it only serves to count users.

    shares_overlap = True

    items: Domain
    max_items: int

    def __init__(self, items: Domain, max_items: int) -> None:
        self.items = items
        self.max_items = max_items
        self.is_open = items.is_open
        self.size = items.size
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
        """Return the answer that replaces a missing answer, the empty set."""
        return []

    def _closed(self) -> Domain:
        self.items._closed()
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ItemDomain) and self.items == other.items

    def __hash__(self) -> int:
        return hash((type(self), self.size))

    def _columns_of(self, X: Values, name: str) -> list[Any]:
        return [item_rows(X, name)]

    def places_of(self, codes: np.ndarray) -> np.ndarray:
        """Return the item numbers, counted from 1, in the codes of answers. 0 means no item."""
        return codes

    def _n_clipped(self, columns: list[Any]) -> int:
        """Return the number of users who have more than `max_items` different items."""
        return sum(1 for _ in self._large_sets(columns[0]))

    def _large_sets(self, rows: ItemRows) -> Iterator[set[Any]]:
        """Yield the set of items of each user who has more than `max_items` different items."""
        items, lengths, *_ = rows
        starts = np.cumsum(lengths) - lengths
        users = np.flatnonzero(lengths > self.max_items)
        sets = (set(items[starts[i] : starts[i] + lengths[i]].tolist()) for i in users)
        return (items for items in sets if len(items) > self.max_items)

    def largest_bias(self, columns: list[Any]) -> float:
        """Return by how much `max_items` reduces the expected frequency of some item at most."""
        # The client of a user with s > m items omits each item with probability 1 - m / s.
        counts: dict[int, Counter] = defaultdict(Counter)  # by s, to count the items in C
        for items in self._large_sets(columns[0]):
            counts[len(items)].update(items)
        losses: Counter = Counter()
        for size, users_by_item in counts.items():
            lost = 1 - self.max_items / size
            losses.update({item: lost * n for item, n in users_by_item.items()})
        return max(losses.values(), default=0) / len(columns[0].lengths)

    def _encode_columns(self, columns: list[Any], name: str) -> np.ndarray:
        rows = columns[0] if isinstance(columns[0], ItemRows) else item_rows(columns[0], name)
        n = len(rows.lengths)
        width = max(int(rows.lengths.max(initial=0)), 1)
        if not n:
            raise ValueError(
                f"{name} needs at least 1 sample, got no users. Pass a list of items for each user."
            )
        if n * width > _MOST_CELLS:
            raise ValueError(
                f"{name} got {n:,} users with up to {width:,} items. The product of the number of "
                f"users and the longest list must be at most {_MOST_CELLS:,}. Shorten the lists, "
                "or pass the users in several calls of partial_fit."
            )
        table = np.zeros((n, width), dtype=self._dtype)
        table[np.arange(width) < rows.lengths[:, None]] = self._places(rows, name)
        table = np.sort(table, axis=1)[:, ::-1]
        is_repeated = (table[:, 1:] == table[:, :-1]) & (table[:, 1:] > 0)
        if is_repeated.any():
            text = f"{name} got a list that contains an item twice. Such an item counts once."
            warn_once(text, UserWarning, f"{name}: an item twice")
            table[:, 1:][is_repeated] = 0
            table = np.sort(table, axis=1)[:, ::-1]
        return table

    def _places(self, rows: ItemRows, name: str) -> np.ndarray:
        """Return the number of each item in the lists of all users.

        It is the position of the item in the list of categories, counted from 1, or a hash of the
        item in an open domain.
        """
        if self.is_open and rows.n_columns is None:
            # The digest 0 would occur once in 2**64 items. It becomes 1, because 0 means no item.
            return np.array([max(word_digest(item), 1) for item in rows.items], dtype=np.uint64)
        if rows.n_columns not in (None, self.size):
            raise ValueError(
                f"{name} expects a matrix with one column for each of its {self.size} categories, "
                f"got {rows.n_columns} columns. Add the missing columns, or pass lists of items."
            )
        if rows.n_columns is not None:
            return rows.items + 1
        places = self._factors[0].places(rows.items)
        unknown = np.flatnonzero(places < 0)
        if unknown.size:
            ends = np.cumsum(rows.lengths)
            user = int(np.searchsorted(ends, unknown[0], side="right"))
            items = rows.items[ends[user] - rows.lengths[user] : ends[user]]
            self._factors[0].encode(items, f"{name}, in the list of row {user},")
        return places + 1


class KeyValueDomain(ItemDomain, tag="key-value-domain"):
    """The domain of sets of items in which each item has a number, such as a rating.

    The code of an answer is a row with one integer per item, which encodes the item and its number.
    """

    N_LEVELS = 1 << 16  # steps of the grid

    def __init__(self, items: Domain, max_items: int, bounds: Any, name: str) -> None:
        super().__init__(items, max_items)
        self.bounds = checked_bounds(bounds, name)
        self._dtype = np.dtype(np.int64)

    @property
    def digest(self) -> str:
        return list_digest(["key values", super().digest, *self.bounds])

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.bounds == getattr(other, "bounds", None)

    __hash__ = ItemDomain.__hash__

    def places_of(self, codes: np.ndarray) -> np.ndarray:
        return (codes + self.N_LEVELS) // (self.N_LEVELS + 1)

    def _columns_of(self, X: Values, name: str) -> list[Any]:
        names = column_names(X)
        if names is not None:
            order = order_of(names, self.categories, f"{name}: X")
            columns: Any = table_columns(X)
            table = np.column_stack([np.asarray(columns[i], dtype=float) for i in order])
            is_present = ~np.isnan(table)
            places = np.nonzero(is_present)[1]
            return [ItemRows(places, is_present.sum(axis=1), self.size, table[is_present])]
        rows = X.tolist() if hasattr(X, "tolist") else X
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise ValueError(
                f"{name} expects a mapping from items to numbers for each user, got a "
                f"{type(X).__name__}. Pass a list such as [{{'a': 3}}, {{}}], or a data frame with "
                "a column for each item, and NaN for items that a user does not have."
            )
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        try:
            numbers = [float(x) for row in rows for x in row.values()]
        except (
            TypeError,
            ValueError,
        ):  # their text shows a value, and errors of clients are logged
            raise ValueError(
                f"{name} got an item whose value is not a number (the item is not shown, because "
                "errors of clients are logged). Pass a number for each item, or leave the item "
                "out."
            ) from None
        return [ItemRows(objects([*chain.from_iterable(rows)]), lengths, None, np.array(numbers))]

    def _places(self, rows: ItemRows, name: str) -> np.ndarray:
        low, high = self.bounds
        numbers = np.asarray(rows.numbers, dtype=float)
        if np.isnan(numbers).any():
            raise ValueError(
                f"{name} got a missing number (NaN) of an item. Leave the item out of the user's "
                "mapping."
            )
        outside = np.flatnonzero((numbers < low) | (numbers > high))
        if outside.size:
            user = int(np.searchsorted(np.cumsum(rows.lengths), outside[0], side="right"))
            refuse_outside(float(numbers[outside[0]]), user, name, low, high)
        levels = np.rint((numbers - low) / (high - low) * self.N_LEVELS).astype(np.int64)
        return (super()._places(rows, name) - 1) * (self.N_LEVELS + 1) + levels + 1
