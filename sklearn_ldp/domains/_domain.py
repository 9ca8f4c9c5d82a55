"""The public domain of a collection: from users' values in any container to codes, and back.

Integers never pass through float64, so 2**53 and 2**53 + 1 stay apart.
"""

from __future__ import annotations

import math
import unicodedata
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import pairwise, product, zip_longest
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import InvalidParameterError

from .._utils.state import Uncached
from .._utils.typing import Column, SupportsCategories, Values
from ._strings import NumberCoder, PrefixFreeCoder, StringCoder, letter_codes
from .canonical import list_digest, word_digest
from .values import (
    as_columns,
    as_vector,
    comparable,
    declared_levels,
    is_missing,
    objects,
    sorted_values,
    table_columns,
    without_nan,
)


class CategoryList(Uncached):
    """A read-only list of distinct categories, and the map from values to their positions."""

    def __init__(self, categories: np.ndarray):
        self.categories = categories.copy()
        self.categories.flags.writeable = False
        self.size = len(categories)
        self._first: int | None = None
        if self.size and categories.dtype.kind in "iu":
            first = int(categories[0])
            if int(categories[-1]) == first + self.size - 1 and np.all(np.diff(categories) == 1):
                self._first = first

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for array in (value for value in state.values() if isinstance(value, np.ndarray)):
            array.flags.writeable = False

    @cached_property
    def listed(self) -> list:
        """The categories as a list in which missing ones are None, and so equal."""
        return comparable(self.categories.tolist())

    @cached_property
    def _codes(self) -> dict[Any, int]:
        """The place of each category."""
        return {category: i for i, category in enumerate(self.listed)}

    @property
    def shown(self) -> str:
        """The first categories, for errors and representations."""
        first = ", ".join(repr(c) for c in self.categories[:3].tolist())
        return first if self.size <= 3 else f"{first}, ..."

    def encode(self, values: np.ndarray, name: str, where: str = "") -> np.ndarray:
        """Return the codes of values; raise ValueError if one is not a category."""
        is_range = self._first is not None and values.dtype.kind in "iu"
        if not is_range and None not in self._codes:
            refuse_infinite(values, name)
        codes = self.places(values)
        unknown = int(np.argmin(codes)) if len(codes) else 0
        if len(codes) and codes[unknown] < 0:
            self._refuse(values[unknown : unknown + 1].tolist()[0], unknown, name, where)
        return codes

    def places(self, values: np.ndarray) -> np.ndarray:
        """Return the codes of values, int64; -1 for a value that is no category."""
        if self._first is not None and values.dtype.kind in "iu":
            # Of consecutive integers, by subtraction.
            is_one = (values >= self._first) & (values <= self._first + self.size - 1)
            codes = values.astype(np.int64, copy=False) - self._first
            return codes if is_one.all() else np.where(is_one, codes, -1)
        rows, code_of = values.tolist(), self._code_of
        codes = np.fromiter(map(code_of, rows), np.int64, len(rows))
        for i in np.flatnonzero(codes < 0):
            codes[i] = code_of(without_nan(rows[i]))
        return codes

    def _code_of(self, value: Any) -> int:
        try:
            return self._codes.get(value, -1)
        except TypeError:  # a list, or anything else that cannot be a category
            return -1

    def _refuse(self, value, position, name, where):
        if is_missing(value):
            refuse_missing(name, where)
        remedy = (
            f"{where}; its {self.size} categories are {self.shown}. The domain is public: list "
            "every category in categories=, one of them for all others."
        )
        raise UnknownValueError(
            f"{name} got the unknown category {value!r}{remedy}",
            f"{name} got an unknown category at position {position}, which is not shown because "
            f"errors of clients are logged{remedy}",
        )


class BinList(CategoryList):
    """The bins between edges; a number's code is that of the bin it is in.

    Parameters
    ----------
    edges : array-like of shape (n_bins - 1,) or int
        Inner edges, rising; each belongs to the bin above it. An int is a number of equal bins.
    bounds : (float, float) or None, default=None
        The ends of the first and of the last bin; None lets them reach to infinity.
    clip : bool, default=False
        Whether a number outside of the bounds counts in the bin that is nearest to it.
    labels : sequence of n_bins strings or None, default=None
        Names of the bins.
    missing : bool, default=False
        Whether a last category stands for a missing number.

    Raises
    ------
    ValueError
        If the edges are not finite numbers that rise between the bounds, or the labels are not
        names.
    """

    def __init__(
        self,
        edges: ArrayLike,
        bounds: Any = None,
        clip: bool = False,
        labels: Sequence[str] | None = None,
        missing: bool = False,
    ) -> None:
        if not isinstance(clip, bool) or (clip and bounds is None):
            raise ValueError(
                f"Domain.bins needs clip= to be True or False, and True only with bounds=, got "
                f"{clip!r} with bounds={bounds!r}."
            )
        low, high = (-np.inf, np.inf) if bounds is None else checked_bounds(bounds, "Domain.bins")
        array = _inner_edges(edges, low, high)
        ends = np.array([low, *array, high])
        if np.any(np.diff(ends) <= 0):
            between = "" if bounds is None else f" between the bounds {low:g} and {high:g}"
            raise ValueError(f"Domain.bins needs edges that rise{between}, got {edges!r}.")
        names = list(_bin_names(ends) if labels is None else labels)
        if labels is not None:
            _check_labels(labels, len(ends) - 1)
        super().__init__(distinct(objects([*names, *[None] * missing]), "Domain.bins"))
        self.of_missing = len(names) if missing else -1
        self.own_names, self.clip = labels is not None, clip
        self.edges, self.ends = array, ends
        self.edges.flags.writeable = self.ends.flags.writeable = False

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The ends of the first and of the last bin; None if they reach to infinity."""
        return (float(self.ends[0]), float(self.ends[-1])) if np.isfinite(self.ends[0]) else None

    def places(self, values: np.ndarray) -> np.ndarray:
        try:
            values = self._numbers(values)
        except (TypeError, ValueError):  # names of bins, or no numbers
            return super().places(values)
        places = np.searchsorted(self.edges, values, side="right")
        if self.bounds is not None and not self.clip:
            places = np.where(self._are_outside(values), -1, places)
        if values.dtype.kind != "f":
            return places
        return np.where(np.isnan(values), self.of_missing, places)

    def n_clipped(self, values: np.ndarray) -> int:
        """Count the values that clipping changes."""
        try:
            return int(np.count_nonzero(self._are_outside(self._numbers(values))))
        except (TypeError, ValueError):  # names of bins
            return 0

    def _numbers(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind not in "OUS":
            return values
        return np.array([_as_float("nan" if is_missing(v) else v) for v in values.tolist()])

    def _are_outside(self, numbers: np.ndarray) -> np.ndarray:
        return (numbers < self.ends[0]) | (numbers > self.ends[-1])

    def _refuse(self, value, position, name, where):
        low, high = self.ends[0], self.ends[-1]
        try:
            is_outside = not is_missing(value) and not low <= _as_float(value) <= high
        except (TypeError, ValueError):  # no number
            is_outside = False
        if is_outside:
            refuse_outside(value, position, f"{name}{where}", low, high)
        super()._refuse(value, position, name, where)


def _as_float(value: Any) -> float:
    """Return a number as a float: an integer beyond all floats is infinite."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def checked_bounds(bounds: Any, name: str) -> tuple[float, float]:
    """Return two finite numbers that rise, which the values of a number lie between.

    Parameters
    ----------
    bounds : (float, float)
        What a user gave.
    name : str
        The class to name in errors.

    Returns
    -------
    (float, float)
        The bounds.

    Raises
    ------
    ValueError
        If they are no such pair.
    """
    try:
        is_pair = not isinstance(bounds, str) and np.asarray(bounds).dtype.kind in "iuf"
        array = np.asarray(bounds, dtype=float) if is_pair else np.empty(0)
    except (TypeError, ValueError):
        array = np.empty(0)
    with np.errstate(over="ignore", invalid="ignore"):
        if array.shape == (2,) and 0 < array[1] - array[0] < np.inf:
            return float(array[0]), float(array[1])
    raise ValueError(
        f"{name} needs bounds= to be two finite numbers, of which the second is larger, such as "
        "(0, 100), which are public: bounds that are learnt from users' values would reveal some "
        f"of them. Got {bounds!r}."
    )


def refuse_outside(value: Any, position: int, name: str, low: float, high: float) -> None:
    """Raise UnknownValueError for a number outside of the bounds.

    Parameters
    ----------
    value : float
        The number, for the text that shows it.
    position : int
        Its row.
    name : str
        The class to name in errors.
    low, high : float
        The bounds.

    Raises
    ------
    UnknownValueError
        Always.
    """
    bounds = f"its bounds {_shortest(low)} and {_shortest(high)}"
    remedy = "clip it before (numpy.clip, or clip=True of Domain.bins), or give wider bounds"
    raise UnknownValueError(
        f"{name} got the number {value!r} at position {position}, outside of {bounds}: {remedy}.",
        f"{name} got a number outside of {bounds} at position {position}, which is not shown "
        f"because errors of clients are logged: {remedy}.",
    )


def _inner_edges(edges: Any, low: float, high: float) -> np.ndarray:
    """Return the edges between bins, of shape (n_bins - 1,)."""
    if isinstance(edges, Integral) and not isinstance(edges, bool):
        n = int(edges)
        if not np.isfinite(low):
            raise ValueError(
                f"Domain.bins needs bounds= for a number of equal bins, got {n} without bounds: "
                f"Domain.bins({n}, bounds=(0, 100)). An edge stands in a list: Domain.bins([{n}])."
            )
        if not 2 <= n <= _MAX_BINS:
            raise ValueError(f"Domain.bins makes 2 to {_MAX_BINS:,} equal bins, got {n:,}.")
        return low + (high - low) * (np.arange(1, n) / n)
    try:
        array = np.array(edges, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"Domain.bins needs a list of finite edges, got {edges!r}.")
    return array


def _bin_names(ends: np.ndarray) -> list[str]:
    """Return names such as "< 18", "[18, 40)" and ">= 40", or "[40, 100]" of the last bin."""
    shown = [_shortest(end) for end in ends.tolist()]
    names = [f"[{low}, {high})" for low, high in pairwise(shown)]
    if np.isfinite(ends[0]):
        return [*names[:-1], f"[{shown[-2]}, {shown[-1]}]"]
    return [f"< {shown[1]}", *names[1:-1], f">= {shown[-2]}"]


def _check_labels(labels: Any, n_bins: int) -> None:
    """Raise ValueError unless the labels are names of bins that no number can be taken for."""
    listed = [] if isinstance(labels, str) else list(labels)
    if len(listed) != n_bins or not all(isinstance(label, str) for label in listed):
        raise ValueError(
            f"Domain.bins needs labels= to be {n_bins} strings, one for each bin (a missing "
            f"number has missing=True), got {labels!r}."
        )
    numbers = [label for label in listed if _is_number(label)]
    if numbers:
        raise ValueError(
            f"Domain.bins needs labels= that are no numbers, as numbers are sorted into bins, got "
            f"{numbers[0]!r}: call it {f'bin {numbers[0]}'!r}."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shortest(number: float) -> str:
    """The shortest text that stands for the number: 40 and not 40.0."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


# -- what a list of categories may be --------------------------------------------------------------
def lists_of(categories: Any, name: str) -> list[CategoryList]:
    """The list of categories of each column that a specification stands for."""
    is_list = isinstance(categories, (list, tuple))
    if is_list and categories and all(_is_column(column) for column in categories):
        return [one_list(column, name) for column in categories]
    return [one_list(categories, name)]


def _is_column(column: Any) -> bool:
    """Whether an element of a list holds a column's categories and is not itself a category."""
    return declared_levels(column) is not None or (hasattr(column, "shape") and np.ndim(column) > 0)


def one_list(categories: Any, name: str) -> CategoryList:
    """The list of categories of one column."""
    if hasattr(categories, "encode_columns"):  # a Domain
        parts: Any = getattr(categories, "_parts", ())
        return parts[0] if len(parts) == 1 else CategoryList(categories.categories)
    if isinstance(categories, AbstractSet):
        raise InvalidParameterError(
            f"{name} needs categories in an order that is the same in every process, but a "
            f"{type(categories).__name__} has no such order: a client and a server would number "
            "them differently. Give a list, such as sorted(categories)."
        )
    levels = declared_levels(categories)
    if levels is not None:
        array = as_vector(levels)
    elif getattr(categories, "name", None) == "category" and hasattr(categories, "ordered"):
        raise ValueError(
            f"{name} got a CategoricalDtype without categories: declare them, as in "
            "CategoricalDtype(['red', 'green'])."
        )
    elif isinstance(categories, Integral) and not isinstance(categories, bool):
        array = np.arange(max(int(categories), 0))
    else:
        array = as_vector(categories)
    return CategoryList(distinct(array, name))


def distinct(array: np.ndarray, name: str) -> np.ndarray:
    """Return the categories; raise ValueError if they are not distinct, or fewer than two."""
    if len(array) >= 2 and array.dtype.kind in "iu":  # quicker, and most large domains are numbers
        in_order = array if _is_rising(array) else np.sort(array)
        if _is_rising(in_order):
            return array
    items = comparable(array.tolist())
    try:
        counted = Counter(items)
    except TypeError as error:
        raise ValueError(f"{name} needs hashable categories, got an element of {error}.") from None
    if len(counted) < len(items):
        twice = counted.most_common(1)[0][0]
        raise ValueError(f"{name} needs distinct categories, got {twice!r} more than once.")
    if len(items) < 2:
        refuse_size(len(items), name)
    return array


def _is_rising(array: np.ndarray) -> bool:
    return bool(np.all(array[1:] > array[:-1]))


def refuse_size(size: int, name: str, where: str = "") -> None:
    raise ValueError(
        f"{name} needs at least 2 categories, got {size}{where}: with a single one there "
        "is nothing to protect and nothing to learn. Declare the whole domain in categories=."
    )


def occurring(values: np.ndarray, name: str) -> np.ndarray:
    """The distinct values in order; a missing one is refused."""
    is_object = values.dtype == object
    array = as_vector(sorted_values(set(values.tolist()))) if is_object else np.unique(values)
    if any(is_missing(c) for c in array.tolist()):
        refuse_missing(name)
    return array


def refuse_missing(name: str, where: str = "") -> None:
    raise ValueError(
        f"Input X contains NaN (or another missing value){where}, and {name} has no category for "
        "it: drop those users, or declare a category for them (None in a list, missing=True in "
        "Domain.bins)."
    )


def refuse_infinite(values: np.ndarray, name: str) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(
            f"Input X contains NaN or infinity, and {name} has no category for it: drop those "
            "users, or declare a category for missing values (None in a list, missing=True in "
            "Domain.bins)."
        )


class UnknownValueError(ValueError):
    """A user's value is no category: one text shows the value, the other one says where it is."""

    def __str__(self) -> str:
        return str(self.args[0])


def codes_on_client(domain: Domain, X: Values, name: str) -> np.ndarray:
    """Return codes as `Domain.encode` does, with errors that show no value.

    The errors of clients end up in logs, and these are sent to collectors.

    Parameters
    ----------
    domain : Domain
        The domain.
    X : array-like of shape (n_samples,) or (n_samples, n_columns)
        Values in any container.
    name : str
        The class to name in errors.

    Returns
    -------
    ndarray of shape (n_samples,)
        Codes.

    Raises
    ------
    ValueError
        If a value is not a category. The error says at which position, and has no context that
        would show the value.
    """
    try:
        return domain.encode(X, name)
    except UnknownValueError as error:
        text = error.args[1]
    raise ValueError(text)


# -- domains ---------------------------------------------------------------------------------------
_MAX_BINS = 1 << 20  # each has a name, and takes some hundred bytes
_MAX_LISTED = 1 << 27  # categories in a list: beyond that, the list alone takes gigabytes

# Users from which on a learned domain is worth a warning, if so many of them are alone.
_MANY, _NEARLY_EVERY = 200, 0.9


class Domain(Uncached):
    """What users may answer: a public list of categories, known to clients and servers alike.

    A value's code is its position in the list. The domain of several columns is the product of
    their domains, whose categories are tuples in C order (the last column varies fastest), or any
    list of tuples. One category of a column may be None or NaN and stand for a missing answer.

    Parameters
    ----------
    categories : int, array-like of shape (d,), dtype, or list of arrays
        An int d stands for ``0 .. d-1``. A `pandas.CategoricalDtype`, anything of that dtype, a
        polars `Enum` and an Arrow dictionary array stand for the levels that they declare. A list
        of arrays, one per column as in scikit-learn's encoders, stands for their product. A set
        is refused, because its order is not the same in every process.

    Attributes
    ----------
    categories : ndarray of shape (d,)
        The categories in their order, read-only; tuples where there are several columns.
    size : int
        Number d of categories.
    names : ndarray of shape (d,)
        The categories as strings.
    digest : str
        SHA-256 of the categories in their order, the same on every machine.

    Raises
    ------
    ValueError
        If there are fewer than two categories, if one is listed twice, or if they are an
        unordered collection.

    Examples
    --------
    >>> from sklearn_ldp import Domain
    >>> browsers = Domain(["chrome", "firefox", None])
    >>> browsers.encode(["firefox", None, "chrome"])
    array([1, 2, 0], dtype=uint8)
    >>> both = Domain.product([["F", "M"], range(3)])
    >>> both.size, both.decode([1, 5]).tolist()
    (6, [('F', 1), ('M', 2)])
    """

    #: Whether the list of categories is unknown: True for an open domain only.
    is_open = False

    size: int

    def __init__(self, categories: Categories) -> None:
        self._set(lists_of(categories, "Domain"), "Domain")

    def _set(self, parts: list[CategoryList], name: str) -> None:
        self._parts = parts
        self.size = math.prod(part.size for part in parts)
        if self.size < 2:
            refuse_size(self.size, name)
        self._dtype = np.min_scalar_type(self.size - 1)

    @classmethod
    def _of_parts(cls, parts: list[CategoryList], name: str) -> Domain:
        domain = cls.__new__(cls)
        domain._set(parts, name)
        return domain

    @classmethod
    def of(cls, categories: Categories, name: str = "Domain") -> Domain:
        """Return the domain that a `categories` parameter stands for.

        Parameters
        ----------
        categories : Domain, "open", or as for the class
            A domain is returned as it is; "open" is the domain of all answers.
        name : str, default="Domain"
            The class to name in errors.

        Returns
        -------
        Domain
            The domain.

        Raises
        ------
        ValueError
            If the domain is not declared, or for the same reasons as in the class.
        """
        if isinstance(categories, Domain):
            return categories
        if isinstance(categories, str):
            if categories == "open":
                return OpenDomain()
            raise ValueError(
                f"{name} does not know its domain yet: declare it in categories=, since clients "
                'and servers must share it before any report is made (categories="auto" learns it '
                "from the raw values in fit, which is for simulations)."
            )
        return cls._of_parts(lists_of(categories, name), name)

    @classmethod
    def product(cls, columns: Sequence[Categories]) -> Domain:
        """Return the domain of all combinations of several columns' categories.

        Parameters
        ----------
        columns : sequence
            The categories of each column, as for the class.

        Returns
        -------
        Domain
            Its categories are tuples in C order: the last column varies fastest.
        """
        return cls._of_parts([one_list(column, "Domain") for column in columns], "Domain")

    @classmethod
    def bins(
        cls,
        edges: ArrayLike,
        *,
        bounds: tuple[float, float] | None = None,
        clip: bool = False,
        labels: Sequence[str] | None = None,
        missing: bool = False,
    ) -> Domain:
        """Return the domain of the bins of a number, whose edges are public.

        Edges that were chosen by looking at the users' values would reveal something of them.

        Parameters
        ----------
        edges : int, or array-like of shape (n_bins - 1,)
            Number of equal bins between the bounds; or inner edges, rising. An edge belongs to the
            bin above it. Without bounds the first bin has all numbers below the first edge, and the
            last one all others.
        bounds : (float, float), default=None
            The lower end of the first bin and the upper end of the last one, which belongs to it.
            With them the bins have centres, so that the estimate has a mean and quantiles.
        clip : bool, default=False
            Whether a number outside of the bounds counts in the first or the last bin; otherwise it
            is refused. A client says this for itself: servers need not know it. The oracle's `fit`
            and `partial_fit` count such rows in ``n_clipped_``, exactly: do not publish it.
        labels : sequence of n_bins strings, default=None
            Names of the bins; None makes names of the edges, such as "[18, 40)". Edges under names
            of their own are a part of what clients and servers must agree on.
        missing : bool, default=False
            Whether None is the last category, for users without a number.

        Returns
        -------
        Domain
            Its categories are the names of the bins. It encodes numbers, and the names as well.

        Raises
        ------
        ValueError
            If the edges are not finite numbers that rise, between bounds that are, too; if there
            are more than 2**20 equal bins; or if there is not one label for each bin, all different
            and no numbers.

        Examples
        --------
        >>> from sklearn_ldp import Domain
        >>> ages = Domain.bins([18, 40, 65])
        >>> ages.categories.tolist()
        ['< 18', '[18, 40)', '[40, 65)', '>= 65']
        >>> ages.encode([17.5, 18, 64, 90]).tolist()
        [0, 1, 2, 3]
        >>> Domain.bins([18], labels=["minor", "adult"], missing=True).decode([0, 2]).tolist()
        ['minor', None]

        Equal bins with finite ends, which have a mean and quantiles:

        >>> fifths = Domain.bins(5, bounds=(0, 100), clip=True)
        >>> fifths.categories.tolist()
        ['[0, 20)', '[20, 40)', '[40, 60)', '[60, 80)', '[80, 100]']
        >>> fifths.encode([19.5, 100, 130]).tolist(), fifths.ends.tolist()
        ([0, 4, 4], [0.0, 20.0, 40.0, 60.0, 80.0, 100.0])
        """
        return cls._of_parts([BinList(edges, bounds, clip, labels, missing)], "Domain.bins")

    @classmethod
    def open(cls) -> Domain:
        """Return the domain of all answers that have a canonical form.

        Returns
        -------
        Domain
            Its codes are 64-bit digests. Mechanisms that hash accept it, on the client only.
        """
        return OpenDomain()

    @classmethod
    def strings(
        cls,
        alphabet: str | None = None,
        max_length: int = 20,
        *,
        code: Mapping[str, float] | None = None,
        max_digits: int | None = None,
    ) -> StringDomain:
        """Return the domain of all strings over an alphabet, which nobody lists.

        A client brings strings into Unicode's normal form C. What does not fit is cut off, so users
        of a longer string are counted with those who share its beginning.

        Parameters
        ----------
        alphabet : str, default=None
            The letters, in the order of their numbers.
        max_length : int, default=20
            The most letters of a string.
        code : mapping of str to float, default=None
            Instead of `alphabet`: how frequent each letter is in **public** texts, with "" for the
            ends of strings (without it, every ninth letter is one). Frequent letters then take
            fewer digits.
        max_digits : int, default=None
            With `code`, the most digits of a string over the field that an oracle uses. None takes
            as many as `max_length` letters need on average.

        Returns
        -------
        StringDomain
            Its codes are rows of letters.

        Raises
        ------
        ValueError
            If a letter is listed twice or is not a single character in normal form C, a frequency
            is not positive, or a length is below 1.

        Examples
        --------
        >>> from sklearn_ldp import Domain
        >>> Domain.strings("abc", max_length=3).encode(["cab", "b"])
        array([[3, 1, 2],
               [2, 0, 0]], dtype=int32)
        """
        if (alphabet is None) == (code is None):
            raise ValueError("Domain.strings needs an alphabet=, or a code= and no alphabet.")
        if code is None:
            assert alphabet is not None
            return StringDomain(alphabet, max_length, None, max_digits)
        weights = dict(code)
        end = weights.pop("", sum(weights.values()) / 8)
        return StringDomain("".join(weights), max_length, [end, *weights.values()], max_digits)

    @classmethod
    def learned(cls, X: Values, name: str) -> Domain:
        """Return the domain of users' values: the levels that X declares, or the values that occur.

        The latter reveals which values occur, so it is for simulations only.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            Users' values.
        name : str
            The class to name in errors.

        Returns
        -------
        Domain
            The domain, sorted unless levels are declared.

        Raises
        ------
        ValueError
            If a value is missing, or if there are fewer than two different values.
        """
        given = table_columns(X)
        levels = [declared_levels(column) for column in ([X] if given is None else given)]
        columns = as_columns(X, name)
        for level, column in zip_longest(levels, columns):
            if level is None:
                refuse_infinite(column, name)
        if any(level is not None for level in levels):
            pairs = zip(levels, columns, strict=True)
            lists = [occurring(c, name) if x is None else distinct(x, name) for x, c in pairs]
        else:
            lists = [occurring(_joined(columns), name)]
        n, d = len(columns[0]), max(len(array) for array in lists)
        if n >= _MANY and d > _NEARLY_EVERY * n:
            warnings.warn(
                f'{name} with categories="auto" found {d} distinct values among {n} users, so '
                "nearly every value is a category of its own: no frequency can be estimated. Bin "
                "continuous values, or declare fewer categories.",
                UserWarning,
                stacklevel=4,
            )
        if math.prod(len(array) for array in lists) < 2:
            refuse_size(1, name, f" in {len(columns[0])} sample(s)")
        return cls._of_parts([CategoryList(array) for array in lists], name)

    # -- what is in it ------------------------------------------------------------------------
    @cached_property
    def categories(self) -> np.ndarray:
        """The categories in their order, of shape (d,), read-only."""
        if len(self._parts) == 1:
            return self._parts[0].categories
        if self.size > _MAX_LISTED:
            raise ValueError(
                f"A domain of {self.size:.3g} combinations cannot be listed one by one: join fewer "
                "columns, or coarser categories."
            )
        listed = objects(list(product(*(part.categories.tolist() for part in self._parts))))
        listed.flags.writeable = False
        return listed

    @property
    def edges(self) -> np.ndarray | None:
        """The edges between `bins`, of shape (n_bins - 1,); None for any other domain."""
        bins = self._bins
        return None if bins is None else bins.edges

    @property
    def ends(self) -> np.ndarray | None:
        """Where bins between bounds begin and end, of shape (n_bins + 1,).

        None for any other domain, and if one category is a missing number.
        """
        bins = self._bins
        is_line = bins is not None and bins.bounds is not None and bins.of_missing < 0
        return bins.ends if bins is not None and is_line else None

    @property
    def _bins(self) -> BinList | None:
        parts: Any = getattr(self, "_parts", ())
        return parts[0] if len(parts) == 1 and isinstance(parts[0], BinList) else None

    @property
    def names(self) -> np.ndarray:
        """The categories as strings, of shape (d,)."""
        return np.asarray([str(category) for category in self.categories], dtype=object)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the categories in their order, the same on every machine."""
        edges = [("edges", *one) for one in self._own_edges()]
        return list_digest([*self.categories.tolist(), *edges])

    def bin_of(self, number: float) -> int | None:
        """Return the code of the bin that a number is in, in a domain of `bins`.

        Parameters
        ----------
        number : float
            A number.

        Returns
        -------
        int or None
            None if it is NaN, outside of the bounds, or if the domain has no bins.
        """
        place = -1 if self._bins is None else int(self._bins.places(np.array([float(number)]))[0])
        return None if place < 0 or number != number else place

    def n_clipped(self, columns: list[np.ndarray]) -> int | None:
        """Count the values that `encode_columns` clips.

        Parameters
        ----------
        columns : list of ndarray of shape (n_samples,)
            One array per column.

        Returns
        -------
        int or None
            The number; None if the domain has no ``clip=True``.
        """
        both = zip(getattr(self, "_parts", []), columns, strict=False)
        clipped = [p.n_clipped(x) for p, x in both if isinstance(p, BinList) and p.clip]
        return sum(clipped) if clipped else None

    def _own_edges(self) -> list[list[float]]:
        """Edges that the names of the bins do not tell."""
        bins = [part for part in self._parts if isinstance(part, BinList) and part.own_names]
        return [(part.edges if part.bounds is None else part.ends).tolist() for part in bins]

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain) or other.is_open or self.size != other.size:
            return False
        if self._own_edges() != other._own_edges():
            return False
        if len(self._parts) == len(other._parts):  # products need not be listed
            parts = zip(self._parts, other._parts, strict=True)
            return all(one is part or one.listed == part.listed for one, part in parts)
        return comparable(self.categories.tolist()) == comparable(other.categories.tolist())

    def __hash__(self) -> int:
        return hash((type(self), self.size))

    def __repr__(self) -> str:
        if len(self._parts) == 1:
            return f"Domain({self._parts[0].shown})"
        return f"Domain({' x '.join(f'({part.shown})' for part in self._parts)})"

    def closed(self) -> Domain:
        """Return the domain itself, or raise if it has no list of categories.

        Returns
        -------
        Domain
            Itself.

        Raises
        ------
        ValueError
            If it is open.
        """
        return self

    # -- to codes and back --------------------------------------------------------------------
    def encode(self, X: Values, name: str = "Domain") -> np.ndarray:
        """Return the code of each user's value.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            Values in any container.
        name : str, default="Domain"
            The class to name in errors.

        Returns
        -------
        ndarray of shape (n_samples,)
            Codes in ``range(d)``, in the smallest unsigned type that holds them.

        Raises
        ------
        ValueError
            If a value is not a category.
        """
        return self.encode_columns(self.columns_of(X, name), name)

    def columns_of(self, X: Values, name: str) -> list[np.ndarray]:
        """Return the columns of users' values that `encode_columns` takes.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            Values in any container.
        name : str
            The class to name in errors.

        Returns
        -------
        list of ndarray of shape (n_samples,)
            One array per column.
        """
        return as_columns(X, name)

    def encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        """Return codes as `encode` does, for columns that `as_columns` returned.

        Parameters
        ----------
        columns : list of ndarray of shape (n_samples,)
            One array per column.
        name : str
            The class to name in errors.

        Returns
        -------
        ndarray of shape (n_samples,)
            Codes.
        """
        if len(self._parts) == 1:
            if len(columns) > 1:
                self._check_tuples(len(columns), name)
            values = _joined(columns)
            return self._parts[0].encode(values, name).astype(self._dtype, copy=False)
        if len(columns) != len(self._parts):
            raise ValueError(
                f"{name} expects the {len(self._parts)} columns that its domain is the product of, "
                f"got {len(columns)}."
            )
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        for number, (part, column) in enumerate(zip(self._parts, columns, strict=True), start=1):
            codes = codes * part.size + part.encode(column, name, f" in column {number}")
        return codes.astype(self._dtype)

    def _check_tuples(self, n_columns: int, name: str) -> None:
        """Raise ValueError if no category is a row of several columns."""
        if not any(isinstance(category, tuple) for category in self.categories.tolist()):
            raise ValueError(
                f"{name} got {n_columns} columns, and its categories are those of a single one: "
                "pass that column alone, as in X['column'], or estimate each of several columns "
                "with ColumnOracle(domains={..})."
            )

    def decode(self, codes: ArrayLike) -> np.ndarray:
        """Return the category of each code.

        Parameters
        ----------
        codes : array-like of int of shape (n,)
            In ``range(d)``.

        Returns
        -------
        ndarray of shape (n,)
            Their categories.
        """
        return self.categories[np.asarray(codes)]

    def word_digests(self) -> np.ndarray:
        """Return a 64-bit digest of each category, from which hashes of it are computed.

        Returns
        -------
        ndarray of shape (d,)
            The digests, uint64.
        """
        return np.array([word_digest(c) for c in self.categories.tolist()], dtype=np.uint64)


class OpenDomain(Domain):
    """All answers that have a canonical form; their codes are 64-bit digests."""

    is_open = True
    size = 0

    def __init__(self) -> None:
        pass

    def closed(self) -> Domain:
        raise ValueError(
            "An open domain has no list of categories: it is for clients only. A server must "
            "list, in categories=, the categories that it counts."
        )

    closed.__doc__ = Domain.closed.__doc__

    @property
    def categories(self) -> np.ndarray:
        """Not known: a server lists the categories that it counts."""
        return self.closed().categories

    @property
    def digest(self) -> str:
        """What stands in the place of a list's digest."""
        return "open"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenDomain)

    def __hash__(self) -> int:
        return hash(OpenDomain)

    def __repr__(self) -> str:
        return "Domain.open()"

    def encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        values = _joined(columns)
        refuse_infinite(values, name)
        return np.array([word_digest(value) for value in values.tolist()], dtype=np.uint64)

    encode_columns.__doc__ = Domain.encode_columns.__doc__


class StringDomain(Domain):
    """All strings over an alphabet: what `Domain.strings` returns; its size is that of letters."""

    def __init__(
        self,
        alphabet: str,
        max_length: int,
        weights: Sequence[float] | None = None,
        max_digits: int | None = None,
        name: str = "Domain.strings",
    ) -> None:
        for what, length in (("max_length", max_length), ("max_digits", max_digits)):
            is_given = length is not None or what == "max_length"
            is_whole = isinstance(length, Integral) and not isinstance(length, bool)
            if is_given and not (is_whole and 1 <= int(length or 0) <= _MOST_LETTERS):
                raise ValueError(
                    f"{name} needs {what}= from 1 to {_MOST_LETTERS}: the most that is kept of a "
                    f"string. Got {length!r}."
                )
        if max_digits is not None and weights is None:
            raise ValueError(f"{name} takes max_digits= with code= only; use max_length=.")
        is_text = isinstance(alphabet, str) and "\0" not in alphabet
        # Half of a pair of surrogates is no letter, and no file could name it.
        is_text = is_text and not any("\ud800" <= letter <= "\udfff" for letter in alphabet)
        if not is_text or len(set(alphabet)) < max(len(alphabet), 1):
            raise ValueError(
                f"{name} needs an alphabet of different letters, such as "
                f'"abcdefghijklmnopqrstuvwxyz", got {alphabet!r}.'
            )
        if any(unicodedata.normalize("NFC", letter) != letter for letter in alphabet):
            raise ValueError(
                f"{name} needs the letters of its alphabet in Unicode's normal form C, to which "
                "clients bring their strings: unicodedata.normalize('NFC', alphabet)."
            )
        self.alphabet: str = alphabet
        self.max_length: int = int(max_length)
        self.max_digits: int | None = max_digits
        self.size: int = len(alphabet) + 1
        self._weights = None if weights is None else _whole_weights(weights, self.size, name)

    def coder(self, order: int) -> StringCoder:
        """Return the map from strings to digits of the field of this order."""
        if self._weights is None:
            return NumberCoder(self.size - 1, self.max_length, order)
        return PrefixFreeCoder(self._weights, self.max_length, order, self.max_digits)

    def text(self, letters: Sequence[int]) -> str:
        """Return letters as a text, without an end mark."""
        return "".join(self.alphabet[letter - 1] for letter in letters if letter)

    @property
    def categories(self) -> np.ndarray:
        """Not listed: they are too many."""
        raise ValueError("Nobody lists the strings over an alphabet: use StringOracle.")

    @property
    def digest(self) -> str:
        """SHA-256 of the alphabet, the lengths and the code, the same on every machine."""
        return list_digest(["strings", self.alphabet, *map(str, self._key()[1:])])

    def _key(self) -> tuple:
        return self.alphabet, self.max_length, self.max_digits, self._weights

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        code = "" if self._weights is None else ", with a code"
        return f"Domain.strings({self.alphabet!r}, {self.max_length}{code})"

    def encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        if len(columns) != 1:
            raise ValueError(f"{name} takes one string per user, got {len(columns)} columns.")
        strings = columns[0].tolist()
        for place, value in enumerate(strings):
            if is_missing(value):
                refuse_missing(name)
            if not isinstance(value, str):
                raise ValueError(
                    f"{name} takes one string per user, got something else at position {place}."
                )
            strings[place] = unicodedata.normalize("NFC", value)
            if not value or "\0" in value:
                raise ValueError(
                    f"{name} got an empty string, or one with a NUL, at position {place}: leave "
                    "such users out, or give them a string of their own."
                )
        letters = letter_codes(strings, self.alphabet, self.max_length)
        if letters.min(initial=0) < 0:
            user, place = (int(i) for i in np.argwhere(letters < 0)[0])
            remedy = (
                f"in place {place} of the string at position {user} that is not in its alphabet: "
                "add it, or replace it on the client"
            )
            raise UnknownValueError(
                f"{name} got the letter {strings[user][place]!r} {remedy}.",
                f"{name} got a letter, which is not shown because errors of clients are logged, "
                f"{remedy}.",
            )
        return letters

    encode_columns.__doc__ = Domain.encode_columns.__doc__


_MOST_LETTERS = 1 << 10


def _whole_weights(weights: Sequence[float], size: int, name: str) -> tuple[int, ...]:
    """Return frequencies as whole numbers, so that all machines agree on their code."""
    array = np.asarray(weights, dtype=float)
    if array.shape != (size,) or not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(
            f"{name} needs a positive frequency of each letter in code=, such as "
            "{'e': 0.12, 't': 0.09, ..}, keyed by single letters."
        )
    return tuple(max(round(x / array.max() * 2**32), 1) for x in array.tolist())


#: What a domain can be made of; a str is "auto" or "open".
Categories: TypeAlias = (
    str | int | np.integer[Any] | Column | Mapping[Any, Any] | SupportsCategories | Domain
)


def _joined(columns: list[np.ndarray]) -> np.ndarray:
    """Return the single column, or the rows of several columns as tuples."""
    if len(columns) == 1:
        return columns[0]
    return objects(list(zip(*(column.tolist() for column in columns), strict=True)))
