"""Lists of categories, which convert values to category codes, and checks of such lists.

The code of a category is its position in the list. Integers are never converted to float64, so
2**53 and 2**53 + 1 stay different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from itertools import pairwise, repeat
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import InvalidParameterError

from ..common.locks import cached_property
from ..common.privacy import warn_once
from ..common.state import Uncached
from ..common.text import number_texts
from .values import (
    LevelColumn,
    as_numbers,
    as_vector,
    comparable,
    declared_levels,
    declares_order,
    in_one_form,
    is_missing,
    named_missing,
    objects,
    sorted_values,
    warn_of_variants,
)

_MOST_NUMBERED = 10**8  # maximum number of categories 0, 1, .., because the list is in memory
_NARROW = 1000  # maximum range for the warning of whole numbers
TELLING_USERS = 50  # minimum number of users for warnings about their numbers
_MANY_CLIPPED = 0.05  # the share of clipped numbers above which a warning is given; by hand
_MAX_BINS = 1 << 20  # each bin has a name, and uses some hundred bytes


class CategoryList(Uncached, tag="category-list"):
    """A read-only list of the distinct categories of one column.

    It converts values to codes, which are the positions of the categories in the list.
    """

    #: Whether tables keep the order of the categories, for example of a scale.
    is_ordered = False
    #: The name of the category for missing answers in tables and plots.
    missing_name: str = "(missing)"

    def __init__(self, categories: np.ndarray, is_ordered: bool = False):
        self.categories = categories.copy()
        if is_ordered:  # otherwise the attribute of the class applies, also to older files
            self.is_ordered = True
        self.categories.flags.writeable = False
        self.size = len(categories)
        self._first: int | None = None
        if self.size and categories.dtype.kind in "iu":
            first, last = int(categories[0]), int(categories[-1])
            is_range = last == first + self.size - 1 and np.all(np.diff(categories) == 1)
            if is_range and last < 1 << 63:  # codes are differences of int64
                self._first = first

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays from pickles do not own their memory, but estimates share only arrays that do.
        arrays = {name: x.copy() for name, x in state.items() if isinstance(x, np.ndarray)}
        vars(self).update(state | arrays)
        for array in arrays.values():
            array.flags.writeable = False

    def __check_state__(self) -> None:
        array = self.categories
        if np.ndim(array) != 1 or len(set(self.listed)) < len(array):
            raise ValueError(
                "the categories are either not a list, or contain a category twice. Save the "
                "object again"
            )
        del self.listed
        CategoryList.__init__(self, array)

    @cached_property
    def listed(self) -> list:
        """Return the categories as a list. Missing values are None in this list."""
        return comparable(self.categories.tolist())

    @cached_property
    def labels(self) -> np.ndarray:
        """Return the categories as tables show them. A missing value is replaced by its name."""
        return named_missing(self.categories, self.missing_name)

    def naming_missing(self, name: Any, of: str) -> CategoryList:
        """Return a copy in which the category None has a name for tables and plots.

        The category None is added if the list does not contain it. `of` is the class to name in
        errors.
        """
        if not isinstance(name, str) or not name or name in self.listed:
            raise ValueError(
                f"{of} needs missing= to be a text that is not one of its categories, got "
                f"{name!r}. Use another name, such as 'no answer'."
            )
        has_missing = None in self.listed
        array = self.categories if has_missing else objects([*self.categories.tolist(), None])
        named = CategoryList(array, self.is_ordered)
        named.missing_name = name
        return named

    def without_missing(self) -> CategoryList:
        """Return a copy without the category None."""
        kept = [category is not None for category in self.listed]
        return CategoryList(self.categories[kept], self.is_ordered)

    @cached_property
    def _codes(self) -> dict[Any, int]:
        """Return a dict that maps each category to its code, the position in the list."""
        return {category: i for i, category in enumerate(self.listed)}

    @property
    def shown(self) -> str:
        """Return a text that lists the first three categories, for errors and `repr`."""
        first = ", ".join(repr(c) for c in self.categories[:3].tolist())
        return first if self.size <= 3 else f"{first}, ..."

    def encode(self, values: np.ndarray | LevelColumn, name: str, where: str = "") -> np.ndarray:
        """Return the code of each value.

        Raise ValueError if a value is not a category. `where` is a text that describes the column
        in the error message.
        """
        self._refuse_rounded(values.levels if isinstance(values, LevelColumn) else values, name)
        if isinstance(values, LevelColumn):
            codes = self.places(values.levels)[values.places]
        else:
            if values.dtype.kind == "f" and None not in self._codes:
                refuse_infinite(values, name)
            codes = self.places(values)
        if codes.min(initial=0) < 0:
            unknown = int(np.flatnonzero(codes < 0)[0])
            ours = self.categories.dtype
            theirs = values.dtype
            if theirs != ours and theirs.kind == ours.kind == "f":
                where += f" (X is {theirs}, the categories are {ours}; give both the same dtype)"
            self._refuse(values[unknown : unknown + 1].tolist()[0], unknown, name, where)
        return codes

    @cached_property
    def _has_large(self) -> bool:
        """Return whether a category is an integer too large for an exact conversion to float."""
        array = self.categories
        if array.dtype.kind in "iu":
            return int(array.max(initial=0)) >= 1 << 53 or int(array.min(initial=0)) <= -1 << 53
        return array.dtype.kind == "O" and any(
            type(x) is int and abs(x) >= 1 << 53 for x in array.tolist()
        )

    def _refuse_rounded(self, values: np.ndarray, name: str) -> None:
        """Raise ValueError if a value may be a rounded integer.

        This is possible if the categories include integers from 2**53 on, and the value is a float
        of this size.
        """
        # pandas reads integers as floats if the column has an empty cell.
        if not self._has_large or values.dtype.kind not in "fO":
            return
        floats = [x for x in values.tolist() if isinstance(x, float)]
        if any(2.0**53 <= abs(x) < np.inf for x in floats):
            raise ValueError(
                f"{name} got floats of 2**53 or more for integer categories, but different "
                "integers of this size become the same float. Read the column as integers, for "
                'example in pandas with dtype="Int64", which supports missing values.'
            )

    def places(self, values: np.ndarray) -> np.ndarray:
        """Return the code of each value, as int64.

        The code is -1 if the value is not a category. If the codes are equal to the values, the
        result may be the array `values` itself.
        """
        if self._first is not None and values.dtype.kind in "iu":
            # The categories are consecutive integers, so a subtraction suffices.
            last = self._first + self.size - 1
            if (
                self._first == 0
                and values.size
                and 0 <= int(values.min()) <= int(values.max()) <= last
            ):
                return values.astype(np.int64, copy=False)
            is_category = (values >= self._first) & (values <= last)
            codes = values.astype(np.int64, copy=False) - self._first
            return codes if is_category.all() else np.where(is_category, codes, -1)
        table = self._table(values.dtype) if len(values) > self.size else None
        if table is not None:
            codes = table.codes_of(values)
        else:
            rows = values.tolist()
            try:
                codes = np.fromiter(map(self._codes.get, rows, repeat(-1)), np.int64, len(rows))
            except TypeError:  # a value without a hash cannot be a category
                codes = np.full(len(rows), -1)
        if codes.min(initial=0) < 0:
            left = np.flatnonzero(codes < 0)
            codes[left] = [self._code_of_any_form(value) for value in values[left].tolist()]
        return codes

    def _table(self, dtype: np.dtype) -> HashTable | None:
        """Return the hash table that converts values of a NumPy dtype to codes.

        Return None if there is no such table.
        """
        if dtype not in self._tables:
            self._tables.clear()  # one type at a time, because texts have a type for each length
            self._tables[dtype] = self._new_table(dtype)
        return self._tables[dtype]

    @cached_property
    def _tables(self) -> dict[np.dtype, HashTable | None]:
        return {}

    def _new_table(self, dtype: np.dtype) -> HashTable | None:
        listed = [category for category in self.listed if category is not None]
        has_type = set(map(type, listed)) <= _TABLED.get(dtype.kind, set()) and dtype.itemsize
        if not has_type or any(getattr(category, "tzinfo", None) for category in listed):
            return None
        try:
            with np.errstate(all="ignore"):
                converted = objects(listed).astype(dtype)
        except (TypeError, ValueError, OverflowError):
            return None
        # Only exact conversions enter the table. No other value of the type equals a category.
        codes = np.array([self._code_of(in_one_form(value)) for value in converted.tolist()])
        is_exact = codes == [self._codes[category] for category in listed]
        return HashTable.of(converted[is_exact], codes[is_exact])

    def _code_of_any_form(self, value: Any) -> int:
        code = self._code_of(value)
        return code if code >= 0 else self._code_of(in_one_form(value))

    def _code_of(self, value: Any) -> int:
        try:
            return self._codes.get(value, -1)
        except TypeError:  # a value without a hash, such as a list
            return -1

    def _refuse(self, value, position, name, where):
        if is_missing(value):
            refuse_missing(name, where)
        remedy = (
            f"{where}; its {self.size} categories are {self.shown}. List every category in "
            'categories=, or first replace other values by a listed category such as "other".'
        )
        if isinstance(value, (list, np.ndarray)):
            remedy += _NO_LISTS
        raise UnknownValueError(
            f"{name} got the unknown category {value!r}{remedy}",
            f"{name} got an unknown category at position {position}, which is not shown because "
            f"errors of clients are logged{remedy}",
        )


_NUMBERS = {bool, int, float}
_TABLED: dict[str, set[type]] = {
    **dict.fromkeys("biuf", _NUMBERS),
    "M": {datetime},
    "m": {timedelta},
    "U": {str},
}
_MOST_BITS = 20  # of a slot; 4 MB of places. Chosen by hand, like the number of trials.
_TRIALS = 32  # half of all factors succeed, so all trials fail with probability 2**-32
_CHUNK = 1 << 14  # rows


class HashTable:
    """A hash table that converts values of one NumPy type to the codes of their categories.

    The first bits of the hash of a value are an index into the table. Each entry of the table
    contains at most one category, and the value is compared with this category only.
    """

    # A binary search among sorted categories is 3 times as slow for 10 numbers or instants, and 10
    # times for 1,000 of them; for text 1.5 and 4.6 times. A dictionary is 3.5 to 18 times as slow
    # (a million random values of types int64, float64, U12 and datetime64[s], one core, by
    # `python -m benchmarks.speed.inner_loops`, 2026-11-28).

    def __init__(
        self, categories: np.ndarray, codes: np.ndarray, *, factor: int, n_bits: int
    ) -> None:
        self._categories = categories
        self._codes = np.append(codes, -1)
        self._factor = np.uint64(factor)
        self._shift = np.uint64(64 - n_bits)
        self._places = np.zeros(1 << n_bits, dtype=np.int32)
        self._places[self._slots(categories)] = np.arange(len(categories))

    @classmethod
    def of(cls, categories: np.ndarray, codes: np.ndarray) -> HashTable | None:
        """Return a hash table for some categories.

        Return None if there are no categories, or too many.
        """
        n_bits = 2 * len(categories).bit_length() - 1  # then half of all factors succeed
        rng = np.random.default_rng(0)
        for _ in range(_TRIALS if 0 < n_bits <= _MOST_BITS else 0):
            factor = int(rng.integers(1 << 63)) * 2 + 1
            table = cls(categories, codes, factor=factor, n_bits=n_bits)
            if len(set(table._slots(categories).tolist())) == len(categories):
                return table
        return None

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """Return the code of each value, or -1 if the value is not a category.

        The values must have the type of the table.
        """
        codes = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), _CHUNK):  # bounds the memory of the comparison
            part = values[start : start + _CHUNK]
            places = self._places[self._slots(part)]
            is_category = self._categories[places] == part
            codes[start : start + _CHUNK] = self._codes[np.where(is_category, places, -1)]
        return codes

    def _slots(self, values: np.ndarray) -> np.ndarray:
        """Return, for each value, its index in the table: the first bits of its hash."""
        if values.dtype.kind == "U":
            letters = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
            powers = np.cumprod(np.full(letters.shape[1], self._factor))
            keys = letters @ powers
        else:
            is_float = values.dtype.kind == "f"  # adding 0.0 turns -0.0 into 0.0
            keys = (values + 0.0).astype(np.float64) if is_float else values.astype(np.int64)
            keys = keys.view(np.uint64)
        return (keys * self._factor) >> self._shift


class BinList(CategoryList, tag="bin-list"):
    """A list of categories that are bins of numbers.

    The code of a number is the position of its bin.
    """

    # `Domain.bins` describes the parameters and the errors.
    is_ordered = True

    edges: np.ndarray
    ends: np.ndarray
    integers: bool = False  # files from before bins of whole numbers do not contain it

    def __init__(
        self,
        edges: ArrayLike,
        bounds: Any = None,
        clip: bool = False,
        labels: Sequence[str] | None = None,
        missing: bool | str = False,
        scale: str = "linear",
        integers: bool = False,
    ) -> None:
        if not isinstance(clip, bool) or (clip and bounds is None):
            raise ValueError(
                f"Domain.bins got clip={clip!r} and bounds={bounds!r}, but clip must be a bool, "
                "and clip=True needs bounds. Pass clip=False, or pass bounds= together with "
                "clip=True."
            )
        low, high = (-np.inf, np.inf) if bounds is None else checked_bounds(bounds, "Domain.bins")
        inner = _inner_edges(edges, low, high, scale, integers)
        # The last bin of whole numbers ends before the number after the upper bound.
        ends = np.array([low, *inner, high + integers])
        if integers and np.any(ends != np.floor(ends)):
            raise ValueError(
                f"Domain.bins(integers=True) needs whole edges and bounds, got edges={edges!r} and "
                f"bounds={bounds!r}. Round the edges and the bounds."
            )
        if np.any(np.diff(ends) <= 0):
            between = "" if bounds is None else f" between the bounds {low:g} and {high:g}"
            whole = ", and a whole number for each bin" * integers
            raise ValueError(
                f"Domain.bins needs edges in increasing order{between}{whole}, got {edges!r}. "
                "Sort the edges, and remove edges that are repeated or outside of the bounds."
            )
        shown = number_texts(ends.tolist())
        if len(set(shown)) < len(shown):
            shown = [repr(end) for end in ends.tolist()]
        names = list(_bin_names(shown, bounds is not None) if labels is None else labels)
        if labels is None and integers:
            inside = slice(bounds is None, len(names) - (bounds is None))
            names[inside] = range_names(ends[:-1], ends[1:])[inside]
        if labels is not None:
            _check_labels(labels, len(ends) - 1)
        categories = objects([*names, *[None] * bool(missing)])
        super().__init__(distinct(categories, "Domain.bins"))
        if not isinstance(missing, bool):
            self.missing_name = self.naming_missing(missing, "Domain.bins").missing_name
        self.of_missing = len(names) if missing else -1
        # Labels, and names with rounded edges, do not reveal the exact edges.
        edges_in_names = [float(text.replace(",", "")) for text in shown]
        self.own_names = labels is not None or edges_in_names != ends.tolist()
        self.clip = clip
        # Whole numbers a to b reach from a - 1/2 to b + 1/2, so that the middle is their mean.
        self.edges = inner
        self.ends = ends - integers / 2
        self.integers = integers
        self.edges.flags.writeable = False
        self.ends.flags.writeable = False

    def __check_state__(self) -> None:
        super().__check_state__()
        n_bins = self.size - (self.of_missing >= 0)
        are_alike = np.array_equal(self.edges, self.ends[1:-1] + self.integers / 2)
        are_alike = are_alike and len(self.ends) == n_bins + 1 and self.of_missing in (-1, n_bins)
        if not are_alike or np.any(np.diff(self.ends) <= 0):
            raise ValueError(
                "either the bins are not in increasing order, or they do not match the "
                "categories. Save the object again"
            )

    def without_missing(self) -> BinList:
        n_bins = len(self.ends) - 1
        labels = self.categories[:n_bins].tolist() if self.own_names else None
        return BinList(self.edges, self.bounds, self.clip, labels, integers=self.integers)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the lower end of the first bin and the upper end of the last bin.

        Return None if the bins have no bounds.
        """
        if not np.isfinite(self.ends[0]):
            return None
        half = self.integers / 2
        return float(self.ends[0] + half), float(self.ends[-1] - half)

    @property
    def shown_bounds(self) -> str:
        """Return the bounds as text, such as "0 to 100"."""
        return " to ".join(number_texts(self.bounds or ()))

    def places(self, values: np.ndarray) -> np.ndarray:
        try:
            values = self._numbers(values)
        except (TypeError, ValueError):  # names of bins, or other values
            return super().places(values)
        places = np.searchsorted(self.edges, values, side="right")
        if self.bounds is not None and not self.clip:
            places = np.where(self._are_outside(values), -1, places)
        if values.dtype.kind != "f":
            return places
        if self.integers:
            places = np.where(values == np.floor(values), places, -1)
        return np.where(np.isnan(values), self.of_missing, places)

    def _n_clipped(self, values: np.ndarray) -> int:
        """Return the number of values outside of the bounds."""
        try:
            return int(np.count_nonzero(self._are_outside(self._numbers(values))))
        except (TypeError, ValueError):  # names of bins
            return 0

    def clips_all(self, values: np.ndarray) -> bool:
        """Return whether there are many users, and the values of all of them are clipped."""
        return self.clip and self._n_clipped(values) == len(values) >= TELLING_USERS

    def are_whole(self, values: np.ndarray) -> bool:
        """Return whether all values are whole numbers although the bins lack ``integers=True``.

        Also return False if there are few users or the range is wide, because the difference is
        then small or uncertain.
        """
        # The centers of such bins are wrong by up to half a number, which is little if the range
        # has more than a thousand numbers (chosen by hand). A few users may have whole numbers by
        # chance, or as an example.
        is_narrow = self.bounds is not None and self.ends[-1] - self.ends[0] <= _NARROW
        if self.integers or not is_narrow or len(values) < TELLING_USERS:
            return False
        if np.any(self.ends % 1 == 0.5):  # bounds between whole numbers
            return False
        try:
            numbers = self._numbers(values)
        except (TypeError, ValueError):  # names of bins
            return False
        numbers = numbers[~np.isnan(numbers)] if numbers.dtype.kind == "f" else numbers
        return bool(np.all(numbers == np.floor(numbers)))

    def _numbers(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind in "biuf":
            return values
        if values.dtype.kind not in "OUS":
            raise TypeError  # such as dates, whose integers depend on their unit
        return np.array([_as_float("nan" if is_missing(v) else v) for v in values.tolist()])

    def _are_outside(self, numbers: np.ndarray) -> np.ndarray:
        return (numbers < self.ends[0]) | (numbers > self.ends[-1])

    def _refuse(self, value, position, name, where):
        low, high = self.bounds or (-np.inf, np.inf)
        try:
            number = _as_float("nan" if is_missing(value) else value)
        except (TypeError, ValueError):  # no number
            number = np.nan
        if self.integers and number % 1 > 0:
            remedy = "but its bins contain only whole numbers. Round it, or omit integers=True."
            raise UnknownValueError(
                f"{name} got {value!r} at position {position}{where}, {remedy}",
                f"{name} got a number that is not whole at position {position}{where}, which is "
                f"not shown because errors of clients are logged, {remedy}",
            )
        is_outside = number < low or number > high
        if is_outside:
            refuse_outside(value, position, f"{name}{where}", low, high)
        super()._refuse(value, position, name, where)


def _as_float(value: Any) -> float:
    """Return a number as a float. An integer that is too large for a float becomes infinity."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        raise TypeError
    if isinstance(value, str) and "_" in value:  # valid in Python's source, but not in data
        raise ValueError
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def checked_bounds(bounds: Any, name: str) -> tuple[float, float]:
    """Return `bounds` as two floats. Raise ValueError unless they are finite and increasing."""
    array = as_numbers(bounds, kinds="iuf")
    with np.errstate(over="ignore", invalid="ignore"):
        if array.shape == (2,) and 0 < array[1] - array[0] < np.inf:
            return float(array[0]), float(array[1])
    raise ValueError(
        f"{name} got bounds={bounds!r}, which are not two finite numbers with the smaller first. "
        "Pass for example bounds=(0, 100). Choose the bounds without the users' values, because "
        "they are public."
    )


def refuse_outside(value: Any, position: int, name: str, low: float, high: float) -> None:
    """Raise UnknownValueError for a user's number that is outside of the bounds."""
    bounds = f"the bounds {' and '.join(number_texts([low, high]))}"
    remedy = "Clip the numbers (numpy.clip, or clip=True of Domain.bins and LocalMean), or use "
    remedy += "wider bounds."
    raise UnknownValueError(
        f"{name} got the number {value!r} at position {position}, outside of {bounds}. {remedy}",
        f"{name} got a number outside of {bounds} at position {position}, which is not shown "
        f"because errors of clients are logged. {remedy}",
    )


def warn_of_clipped(n_clipped: int, n_rows: int, bounds: str, name: str) -> None:
    """Warn once if a large share of many users' numbers was clipped to the bounds.

    Only methods that receive the raw numbers of all users call this function, and never a client,
    because the warning would reveal the number of a single user.
    """
    if n_rows >= TELLING_USERS and n_clipped > _MANY_CLIPPED * n_rows:
        text = f"{name} clipped more than {100 * _MANY_CLIPPED:g} % of the numbers to the bounds "
        text += f"{bounds}, so means and outer quantiles are wrong. Declare wider bounds."
        warn_once(text, UserWarning, f"{name} clipped numbers to {bounds}")


def _inner_edges(
    edges: Any, low: float, high: float, scale: str, integers: bool = False
) -> np.ndarray:
    """Return the edges between the bins, of shape (n_bins - 1,).

    Raise ValueError if the arguments of `Domain.bins` are not valid.
    """
    if scale not in ("linear", "log"):
        raise ValueError(
            f'Domain.bins needs scale= to be "linear" or "log", got {scale!r}. Pass one of these '
            "names."
        )
    if scale == "log" and not (isinstance(edges, Integral) and low > 0):
        raise ValueError(
            f'Domain.bins(scale="log") got edges={edges!r} and the lower bound {low:g}, but it '
            "needs a number of bins and bounds above 0. Pass for example Domain.bins(32, "
            'bounds=(100, 1_000_000), scale="log"); with clip=True, the first bin also contains '
            "all smaller numbers."
        )
    if isinstance(edges, Integral) and not isinstance(edges, bool):
        n = int(edges)
        if not np.isfinite(low):
            raise ValueError(
                f"Domain.bins got the number of bins {n} without bounds=. For equal bins, use "
                f"Domain.bins({n}, bounds=(0, 100)). For two bins with the edge {n} between them, "
                f"use Domain.bins([{n}])."
            )
        if not 2 <= n <= _MAX_BINS:
            raise ValueError(
                f"Domain.bins supports 2 to {_MAX_BINS:,} equal bins, got {n:,}. Pass another "
                "number of bins."
            )
        if scale == "linear" and integers:
            return low + (high - low + 1) * np.arange(1, n) // n
        if scale == "linear":
            return low + (high - low) * (np.arange(1, n) / n)
        # Three digits, or more if necessary to keep the log widths of bins equal within a tenth.
        step = np.log(high / low) / n
        digits = max(3, int(np.ceil(1 - np.log10(step / 10))))
        rising = np.array([float(f"{low * np.exp(step * i):.{digits}g}") for i in range(1, n)])
        return np.rint(rising) if integers else rising
    array = as_numbers(edges)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise ValueError(
            "Domain.bins needs edges= to be a number of bins or a list of finite numbers, got "
            f"{edges!r}. Pass for example [18, 40, 65]."
        )
    return array


def _bin_names(shown: list[str], is_bounded: bool) -> list[str]:
    """Return names of bins such as "< 18", "[18, 40)" and ">= 40" from their ends as texts.

    If the bins have bounds, the last name is like "[40, 100]".
    """
    names = [f"[{low}, {high})" for low, high in pairwise(shown)]
    if is_bounded:
        return [*names[:-1], f"[{shown[-2]}, {shown[-1]}]"]
    return [f"< {shown[1]}", *names[1:-1], f">= {shown[-2]}"]


def range_names(starts: np.ndarray, stops: np.ndarray) -> list[str]:
    """Return names of ranges of whole numbers, such as "18 to 39" for the start 18 and the stop 40.

    The stop of a range is not part of the range.
    """
    numbers = np.ravel([starts, stops - 1])
    first, last = np.reshape(number_texts(numbers.tolist()), (2, -1)).tolist()
    pairs = zip(first, last, strict=True)
    return [low if low == high else f"{low} to {high}" for low, high in pairs]


def _check_labels(labels: Any, n_bins: int) -> None:
    """Raise ValueError unless there is one text for each bin, and no text is a number."""
    listed = [] if isinstance(labels, str) else list(labels)
    if len(listed) != n_bins or not all(isinstance(label, str) for label in listed):
        raise ValueError(
            f"Domain.bins needs labels= to be {n_bins} strings, got {labels!r}. Pass one label for "
            "each bin; for missing numbers pass missing=True instead of a label."
        )
    numbers = [label for label in listed if _is_number(label)]
    if numbers:
        raise ValueError(
            f"Domain.bins got the label {numbers[0]!r}, which is a number and could be mistaken "
            f"for a user's value. Use a label like {f'bin {numbers[0]}'!r}."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# -- rules for lists of categories -----------------------------------------------------------------
def lists_of(categories: Any, name: str) -> list[CategoryList]:
    """Return a CategoryList for each column that an argument `categories` describes.

    Only a list of arrays describes several columns.
    """
    is_list = isinstance(categories, (list, tuple))
    if is_list and categories and all(_is_column(column) for column in categories):
        return [one_list(column, name) for column in categories]
    return [one_list(categories, name)]


def _is_column(column: Any) -> bool:
    """Return whether an element of `categories` is itself a list of the categories of a column."""
    return declared_levels(column) is not None or (hasattr(column, "shape") and np.ndim(column) > 0)


def one_list(categories: Any, name: str) -> CategoryList:
    """Return the CategoryList of one column, from any description that `Domain` accepts."""
    if hasattr(categories, "_encode_columns"):  # a Domain
        factors = categories._factors
        return factors[0] if len(factors) == 1 else CategoryList(categories.categories)
    if isinstance(categories, AbstractSet):
        raise InvalidParameterError(
            f"{name} needs categories in the same order in every process, but the order of a "
            f"{type(categories).__name__} differs. Pass a list, such as sorted(categories)."
        )
    is_ordered = False
    levels = declared_levels(categories)
    if levels is not None:
        is_ordered = declares_order(categories)
        array = as_vector(levels)
    elif getattr(categories, "name", None) == "category" and hasattr(categories, "ordered"):
        raise ValueError(
            f"{name} got a categorical dtype that lists no categories. Pass a dtype such as "
            "CategoricalDtype(['a', 'b'])."
        )
    elif isinstance(categories, Integral) and not isinstance(categories, bool):
        n = int(categories)
        if n > _MOST_NUMBERED:
            raise ValueError(
                f"{name} supports at most {_MOST_NUMBERED:,} categories if categories= is an "
                f"integer, got {n:,}. On clients, use Domain.open(), which needs no list of "
                "categories."
            )
        array = np.arange(max(n, 0))
    else:
        array = as_vector(categories)
    return CategoryList(distinct(array, name), is_ordered)


def distinct(array: np.ndarray, name: str) -> np.ndarray:
    """Return the array of categories unchanged, after checking it.

    Raise ValueError if there are fewer than two categories, or if two are equal.
    """
    if len(array) >= 2 and array.dtype.kind in "iu":  # faster; most large domains are numbers
        in_order = array if _is_rising(array) else np.sort(array)
        if _is_rising(in_order):
            return array
    items = comparable(array.tolist())
    try:
        counts = Counter(items)
    except TypeError as error:
        raise ValueError(
            f"{name} needs hashable categories, got a category that is not hashable ({error}). "
            "Use tuples instead of lists."
        ) from None
    if len(counts) < len(items):
        repeated = counts.most_common(1)[0][0]
        raise ValueError(
            f"{name} needs distinct categories, got {repeated!r} more than once. List each "
            "category once."
        )
    if len(items) < 2:
        refuse_size(len(items), name)
    remedy = "Strip the spaces, and list each category once"
    warn_of_variants(items, name, "categories", remedy, ignores_case=False)
    return array


def _is_rising(array: np.ndarray) -> bool:
    return bool(np.all(array[1:] > array[:-1]))


def refuse_size(size: int, name: str, where: str = "") -> None:
    raise ValueError(
        f"{name} needs at least 2 categories, got {size}{where}. List all possible answers in "
        "categories=, because reports with a single category contain no information."
    )


def occurring(values: np.ndarray | LevelColumn, name: str) -> np.ndarray:
    """Return a sorted array of the distinct values that occur.

    Raise ValueError if a value is missing.
    """
    if isinstance(values, LevelColumn):
        values = values.levels[np.unique(values.places)]
    if values.dtype != object:
        array = np.unique(values)
    else:
        try:
            array = as_vector(sorted_values(set(values.tolist())))
        except TypeError:  # an element has no hash
            raise ValueError(f"{name} got a list as the answer of a user.{_NO_LISTS}") from None
    if any(is_missing(c) for c in array.tolist()):
        refuse_missing(name)
    return array


_DECLARED = (
    "Declare such a category (None in a list, missing=True in Domain.bins), or use the clients "
    'RepeatedClient or SurveyClient with missing="report", which send a default value'
)


def refuse_missing(name: str, where: str = "", remedy: str = _DECLARED) -> NoReturn:
    raise ValueError(
        f"Input X contains NaN (or another missing value){where}, and {name} has no category for "
        f"missing answers. {remedy}. Do not drop these users, because the absence of a report "
        "reveals a missing answer."
    )


_NO_LISTS = (
    " A list cannot be a category. Convert each answer to a tuple, or use ItemOracle if users "
    "have several items."
)


def refuse_infinite(values: np.ndarray, name: str) -> None:
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    if np.isnan(values).any():
        refuse_missing(name)
    raise ValueError(
        f"Input X contains infinity, but {name} accepts only finite numbers. Replace it "
        "by a finite number or by a category."
    )


class UnknownValueError(ValueError):
    """Error for a user's value that is not a category.

    The error has two texts. The first text shows the value. The second text, which clients use,
    shows only the position of the value.
    """

    def __str__(self) -> str:
        return str(self.args[0])
