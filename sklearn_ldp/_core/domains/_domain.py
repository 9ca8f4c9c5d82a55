"""The public domain of a collection, which converts users' values to category codes and back."""

from __future__ import annotations

import json
import math
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import product, zip_longest
from numbers import Integral
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..common.docs import inherit_docstrings
from ..common.locks import cached_property
from ..common.privacy import warn_once
from ..common.state import Uncached
from ..common.typing import Column, SupportsCategories, Values
from ._lists import (
    BinList,
    CategoryList,
    UnknownValueError,
    distinct,
    lists_of,
    occurring,
    one_list,
    refuse_infinite,
    refuse_missing,
    refuse_size,
    warn_of_clipped,
)
from ._strings import NumberCoder, StringCoder, WordCoder, huffman_words, letter_codes
from .canonical import list_digest, word_digest
from .values import (
    as_columns,
    comparable,
    declared_levels,
    declares_order,
    is_missing,
    objects,
    table_columns,
)


def codes_on_client(domain: Domain, X: Values, name: str) -> np.ndarray:
    """Return the category codes of users' values, with errors that do not show the values.

    Shapes: X (n_samples,) or (n_samples, n_columns) -> (n_samples,).
    """
    # Errors of clients are logged, and logs are sent to collectors.
    try:
        return domain.encode(X, name)
    except UnknownValueError as error:
        text = error.args[1]
    raise ValueError(text)


# -- domains ---------------------------------------------------------------------------------------
_MAX_LISTED = 1 << 27  # maximum number of categories in a list; longer lists need gigabytes

# A learned domain causes a warning from this number of users on, if it has more categories than
# this proportion of users.
_MANY_USERS = 200
_NEARLY_EVERY = 0.9


class DigestCauses(NamedTuple):
    """Settings that may differ between two configurations, for error messages."""

    domain: str  # settings that change the digest (hash) of the domain
    parts: str = ""  # settings that also change the mechanisms of the domain's parts


_ANY_CAUSES = DigestCauses("the domain, such as the categories or their order")


class Domain(Uncached, tag="domain"):
    """A public list of the categories that users may answer; clients and servers share it.

    The package encodes a category as its position in the list, an integer from 0 on (its code). If
    answers have several columns, a category is a tuple with a value for each column. Such a domain
    is either the product of the columns' domains in C order (the last column varies fastest), or
    any list of tuples. One category of a column may be None or NaN, which represents a missing
    answer.

    Parameters
    ----------
    categories : int, array-like of shape (d,), dtype, or list of arrays
        An int d means the categories ``0 .. d-1``. For a `pandas.CategoricalDtype`, a column of
        that dtype, a polars `Enum` or an Arrow dictionary array, the categories are the levels that
        it lists. A list of arrays, with one array per column as in scikit-learn's encoders, means
        all combinations of their elements. A set is refused, because its order is not the same in
        every process.
    missing : str, default=None
        Name of the category None, which represents a missing answer, in tables, plots and printed
        pages. If a name is passed and the list does not contain None, the category None is added.
        If None, tables show "(missing)".

    Attributes
    ----------
    categories : ndarray of shape (d,)
        The categories in their order, read-only. They are tuples if there are several columns.
    is_ordered : bool
        Whether the categories are bins, or come from an ordered categorical dtype. Tables show such
        categories in the order of the domain, and other categories in the order of their
        frequencies.
    labels : ndarray of shape (d,)
        The categories as tables show them. The category None is replaced by its name.
    size : int
        Number d of categories.
    shape : tuple of int
        Number of categories of each column.
    grid_ends : (ndarray, ndarray) or None
        For a domain from :meth:`grid`, the ends of the bins of x and of y. None for other domains.
    names : ndarray of shape (d,)
        The categories as strings.
    digest : str
        SHA-256 hash of the categories in their order, which is the same on every machine.

    Raises
    ------
    ValueError
        If there are fewer than two categories, if a category is listed twice, or if `categories`
        has no order, such as a set.

    Examples
    --------
    >>> from sklearn_ldp import Domain
    >>> browsers = Domain(["chrome", "firefox", None])
    >>> browsers.encode(["firefox", None, "chrome"])
    array([1, 2, 0], dtype=uint8)
    >>> Domain(["yes", "no"], missing="no answer").labels.tolist()
    ['yes', 'no', 'no answer']
    >>> both = Domain.product([["F", "M"], range(3)])
    >>> both.size, both.decode([1, 5]).tolist()
    (6, [('F', 1), ('M', 2)])
    """

    #: Whether the list of categories is unknown: True for an open domain only.
    is_open = False
    #: Whether a user may have several categories, so that frequencies do not sum to 1.
    shares_overlap = False

    size: int
    _factors: Sequence[CategoryList] = ()
    _digest_causes = DigestCauses("the categories or their order")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_docstrings(cls)

    def __init__(self, categories: Categories, *, missing: str | None = None) -> None:
        lists = lists_of(categories, "Domain")
        if missing is not None:
            if len(lists) > 1 or isinstance(lists[0], BinList):
                raise ValueError(
                    "Domain accepts missing= only with a single list of categories, got "
                    f"missing={missing!r} for several columns or for bins. For several columns, "
                    "pass missing= to the Domain of each column. For bins, pass missing= to "
                    "Domain.bins."
                )
            lists = [lists[0].naming_missing(missing, "Domain")]
        self._set(lists, "Domain")

    def _set(self, factors: list[CategoryList], name: str) -> None:
        self._factors = factors
        self.size = math.prod(factor.size for factor in factors)
        if self.size < 2:
            refuse_size(self.size, name)
        self._dtype = np.min_scalar_type(self.size - 1)

    def __check_state__(self) -> None:
        if self.is_open or isinstance(self, UnlistedDomain):
            return
        n_categories = math.prod(factor.size for factor in self._factors)
        if not 2 <= n_categories == self.size <= np.iinfo(self._dtype).max + 1:
            raise ValueError(
                f"the domain states {self.size!r:.80} categories, but the stored lists have "
                "another number of categories. Save the object again"
            )

    @classmethod
    def _from_factors(cls, factors: list[CategoryList], name: str) -> Domain:
        domain = cls.__new__(cls)
        domain._set(factors, name)
        return domain

    @classmethod
    def of(cls, categories: Categories, name: str = "Domain") -> Domain:
        """Return the Domain that an argument `categories` specifies.

        Parameters
        ----------
        categories : Domain, "open", or as for the class
            A Domain is returned unchanged. "open" means ``Domain.open()``, and any other argument
            means ``Domain(categories)``.
        name : str, default="Domain"
            The class to name in error messages.
        """
        if isinstance(categories, Domain):
            return categories
        if isinstance(categories, str):
            if categories == "open":
                return OpenDomain()
            raise ValueError(
                f"{name} has no domain yet, got categories={categories!r}. Declare the categories "
                "in categories=, because clients and servers must share them before the first "
                'report. Only in simulations, fit with categories="auto" may learn them from the '
                "raw values."
            )
        return cls._from_factors(lists_of(categories, name), name)

    @classmethod
    def product(cls, columns: Sequence[Categories]) -> Domain:
        """Return the domain of all combinations of the categories of several columns.

        Parameters
        ----------
        columns : sequence
            For each column, the categories in any form that `Domain` accepts.

        Returns
        -------
        Domain
            A domain whose categories are tuples in C order: the last column varies fastest.
        """
        return cls._from_factors([one_list(column, "Domain") for column in columns], "Domain")

    @classmethod
    def bins(
        cls,
        edges: ArrayLike,
        *,
        bounds: tuple[float, float] | None = None,
        clip: bool = False,
        labels: Sequence[str] | None = None,
        missing: bool | str = False,
        scale: str = "linear",
        integers: bool = False,
    ) -> Domain:
        """Return a domain of intervals (bins), to which users' numbers are mapped.

        The edges of the bins are public. Choose them without the users' values; otherwise they
        reveal information about these values.

        Parameters
        ----------
        edges : int, or array-like of shape (n_bins - 1,)
            Number of equal bins between the bounds, or the edges between bins in increasing order.
            A number that equals an edge belongs to the bin above the edge. Without bounds the first
            bin contains all numbers below the first edge, and the last bin all numbers from the
            last edge on.
        bounds : (float, float), default=None
            The lower end of the first bin, and the upper end of the last bin. The last bin includes
            its upper end. With bounds every bin has a center, so the estimate has a mean and
            quantiles.
        clip : bool, default=False
            If True, a number below the bounds counts in the first bin, and a number above the
            bounds in the last bin. If False, such a number raises an error. With ``clip=True``,
            tables of estimates mark the first and the last bin, and state that means are means of
            clipped values. Therefore set it on the server as well, although the clients clip the
            numbers. The oracle's `fit` and `partial_fit` store the number of clipped rows in
            ``n_clipped_``, and warn if it exceeds 5 % of at least 50 rows. Do not publish this
            exact number.
        labels : sequence of n_bins strings, default=None
            Names of the bins. If None, the names show the edges, such as "[18, 40)". If you pass
            names, clients and servers must also agree on the edges.
        missing : bool or str, default=False
            If True, the last category is None, for users without a number. If it is a text, this
            category is added, and tables show the text as its name. Means, quantiles and ranges
            are then questions to :meth:`FrequencyEstimate.answered`.
        scale : {"linear", "log"}, default="linear"
            How the bins are computed if `edges` is a number of bins. "linear" computes bins of
            equal width. "log" computes edges of which each is the same multiple of the previous
            edge, rounded to three digits or more; it suits amounts of money, and needs bounds above
            0.
        integers : bool, default=False
            Whether users' numbers are whole, such as ages. Then edges and bounds must be whole, a
            value that is not whole raises an error, and names, means, quantiles and ranges refer to
            whole numbers. The first bin includes the lower bound, and the last bin the upper bound.
            If the whole numbers cannot be divided evenly among the bins, some bins contain one
            number more than others.

        Returns
        -------
        Domain
            A domain whose categories are the names of the bins. Users' values may be numbers or
            names of bins.

        Raises
        ------
        ValueError
            If edges or bounds are not finite or not increasing; if there are more than 2**20 equal
            bins; if `labels` does not contain a different name for each bin; or if a label is a
            number.

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

        Bins of equal width between bounds, which have means and quantiles:

        >>> fifths = Domain.bins(5, bounds=(0, 100), clip=True)
        >>> fifths.categories.tolist()
        ['[0, 20)', '[20, 40)', '[40, 60)', '[60, 80)', '[80, 100]']
        >>> fifths.encode([19.5, 100, 130]).tolist(), fifths.ends.tolist()
        ([0, 4, 4], [0.0, 20.0, 40.0, 60.0, 80.0, 100.0])

        Whole numbers:

        >>> years = Domain.bins(24, bounds=(0, 120), integers=True)
        >>> years.categories[[0, 1, -1]].tolist()
        ['0 to 4', '5 to 9', '115 to 120']

        Bins for amounts of money:

        >>> Domain.bins(4, bounds=(100, 1_000_000), clip=True, scale="log").categories.tolist()
        ['[100, 1,000)', '[1,000, 10,000)', '[10,000, 100,000)', '[100,000, 1,000,000]']
        """
        bins = BinList(edges, bounds, clip, labels, missing, scale, integers)
        return cls._from_factors([bins], "Domain.bins")

    @classmethod
    def grid(cls, x_bins: Domain, y_bins: Domain) -> Domain:
        """Return the domain of cells of a grid for two numbers, such as the coordinates of places.

        Parameters
        ----------
        x_bins, y_bins : Domain
            Domains of :meth:`bins` with bounds: `x_bins` for the first number, and `y_bins` for the
            second number. For places, the first number is the longitude.

        Returns
        -------
        Domain
            The product of the two domains. A user's value is the pair (x, y). A category is the
            pair of the names of the x bin and the y bin, and the y bin varies fastest.

        Raises
        ------
        ValueError
            If `x_bins` or `y_bins` has no bins with bounds, or has a category for missing numbers.

        Examples
        --------
        >>> from sklearn_ldp import Domain
        >>> tens = Domain.bins(2, bounds=(0, 20))
        >>> cells = Domain.grid(tens, Domain.bins(3, bounds=(0, 30)))
        >>> cells.shape, cells.decode([1]).tolist()
        ((2, 3), [('[0, 10)', '[10, 20)')])
        >>> cells.encode([[12.5, 7.5], [0.0, 30.0]]).tolist()
        [3, 2]
        """
        domain = cls.product([x_bins, y_bins])
        if domain.grid_ends is None:
            raise ValueError(
                "Domain.grid needs two domains of bins with bounds and without a category for "
                f"missing numbers, got {x_bins!r} and {y_bins!r}. Pass for example "
                "Domain.bins(16, bounds=(0, 100)) for each number."
            )
        return domain

    @classmethod
    def open(cls) -> Domain:
        """Return a domain for clients that do not know the list of categories.

        Returns
        -------
        Domain
            A domain in which every answer is valid. An answer is encoded as its 64-bit hash, and
            may be a text, a number, a date or a tuple of these. Clients can use the domain with
            oracles that hash answers, such as OLH. The server must list the categories to count.
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
        """Return the domain of all strings that consist of letters of an alphabet.

        The strings are not listed. A client converts a string to Unicode's normal form C, and cuts
        it off after `max_length` letters. So longer strings with the same first letters count as
        one string.

        Parameters
        ----------
        alphabet : str, default=None
            The letters that strings may contain. A letter is encoded as its position in the
            alphabet. If `alphabet` and `code` are None, the package uses its own code: letters,
            digits and signs of European languages, with their frequencies in names of countries,
            languages and currencies in twelve languages in Latin script (Unicode CLDR, under the
            Unicode License V3).
        max_length : int, default=20
            Maximum number of letters of a string.
        code : mapping of str to float, default=None
            Maps each letter to its frequency in **public** texts; it replaces `alphabet`. Clients
            then encode a frequent letter with fewer digits than a rare letter. The key "" is the
            frequency of the end of a string. Without this key, one in nine symbols is an end.
        max_digits : int, default=None
            Maximum number of digits that encode a string, if a code is used; the rest is cut off.
            The oracle determines how many values a digit has. If None, it is the average number of
            digits of `max_length` letters.

        Returns
        -------
        StringDomain
            A domain in which a string is encoded as a row of integers: the positions of its letters
            in the alphabet, counted from 1, followed by zeros.

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
        if alphabet is not None and code is not None:
            raise ValueError("Domain.strings got both alphabet= and code=. Pass only one of them.")
        if alphabet is not None:
            return StringDomain(alphabet, max_length, None, max_digits)
        weights = dict(_frequent_letters() if code is None else code)
        end = weights.pop("", sum(weights.values()) / 8)
        return StringDomain("".join(weights), max_length, [end, *weights.values()], max_digits)

    @classmethod
    def learned(cls, X: Values, name: str) -> Domain:
        """Return the domain of users' values, learned from the values themselves.

        The categories of a categorical column are its levels, and the categories of another column
        are the values that occur. The set of values that occur is private information, so use such
        a domain only for simulations.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            Users' values.
        name : str
            The class to name in error messages.

        Returns
        -------
        Domain
            The domain with the levels in their order, or with the sorted values.

        Raises
        ------
        ValueError
            If a value is missing, or if there are fewer than two different values.
        """
        tables = table_columns(X)
        sources = [X] if tables is None else tables
        levels = [declared_levels(column) for column in sources]
        columns = as_columns(X, name)
        for level, column in zip_longest(levels, columns):
            if level is None:
                refuse_infinite(column, name)
        if any(level is not None for level in levels):
            pairs = zip(levels, columns, strict=True)
            lists = [occurring(c, name) if x is None else distinct(x, name) for x, c in pairs]
            orders = [declares_order(column) for column in sources]
        else:
            lists = [occurring(_as_one_column(columns), name)]
            orders = [False]
        n = len(columns[0])
        d = max(len(array) for array in lists)
        if n >= _MANY_USERS and d > _NEARLY_EVERY * n:
            warnings.warn(
                f"{name} found {d} distinct values among {n} users, which are too many categories "
                "to estimate their frequencies. Declare bins for continuous values (Domain.bins), "
                "declare fewer categories, or leave out a column that identifies users.",
                UserWarning,
                stacklevel=4,
            )
        if math.prod(len(array) for array in lists) < 2:
            refuse_size(1, name, f" in {len(columns[0])} sample(s)")
        return cls._from_factors(list(map(CategoryList, lists, orders)), name)

    # -- properties ---------------------------------------------------------------------------
    @cached_property
    def categories(self) -> np.ndarray:
        """Return the categories in their order, of shape (d,), read-only."""
        if len(self._factors) == 1:
            return self._factors[0].categories
        if self.size > _MAX_LISTED:
            raise ValueError(
                f"A domain of {self.size:.3g} combinations is too large for a list. Combine fewer "
                "columns, or use coarser categories."
            )
        listed = objects(list(product(*(factor.categories.tolist() for factor in self._factors))))
        listed.flags.writeable = False
        return listed

    @property
    def edges(self) -> np.ndarray | None:
        """Return the edges between the bins, of shape (n_bins - 1,).

        Return None if the domain has no `bins`.
        """
        bins = self._bins
        return None if bins is None else bins.edges

    @property
    def ends(self) -> np.ndarray | None:
        """Return the ends of all bins of a domain of `bins` with bounds, of shape (n_bins + 1,).

        A bin of the whole numbers 20 to 39 begins at 19.5 and ends at 39.5. Return None for other
        domains, and if there is a category for missing numbers.
        """
        bins = self._bins
        return None if bins is None or bins.bounds is None or bins.of_missing >= 0 else bins.ends

    @property
    def has_missing_numbers(self) -> bool:
        """Return whether the domain has `bins` with bounds and a category for missing numbers."""
        bins = self._bins
        return bins is not None and bins.bounds is not None and bins.of_missing >= 0

    def without_missing(self) -> Domain:
        """Return the domain of the same categories without the category for missing answers.

        Returns
        -------
        Domain
            The domain, with the same edges and labels of bins.
        """
        return Domain._from_factors([self._factors[0].without_missing()], "Domain")

    @property
    def grid_ends(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The `ends` of the bins of x and of y of a `grid`; None for other domains."""
        ends = [
            bins.ends
            for bins in self._factors
            if isinstance(bins, BinList) and bins.bounds is not None and bins.of_missing < 0
        ]
        return (ends[0], ends[1]) if len(ends) == len(self._factors) == 2 else None

    @property
    def are_integers(self) -> tuple[bool, ...]:
        """For each column, whether its categories are bins of whole numbers."""
        return tuple(isinstance(bins, BinList) and bins.integers for bins in self._factors)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of categories of each column.

        The estimated frequencies can be reshaped to this shape.
        """
        return tuple(factor.size for factor in self._factors)

    @property
    def _bins(self) -> BinList | None:
        only = self._factors[0] if len(self._factors) == 1 else None
        return only if isinstance(only, BinList) else None

    @property
    def integers(self) -> bool:
        """Return whether the domain has `bins` of whole numbers."""
        return self._bins is not None and self._bins.integers

    @property
    def clipped_to(self) -> str:
        """Return the bounds as text if numbers are clipped to the bounds of `bins`.

        Otherwise return an empty text.
        """
        bins = self._bins
        return "" if bins is None or not bins.clip else bins.shown_bounds

    @property
    def caveats(self) -> tuple[str, ...]:
        """Return the sentences about clipped numbers that a page with the estimate must contain."""
        bins = [factor for factor in self._factors if isinstance(factor, BinList) and factor.clip]
        return tuple(
            f"Numbers outside of {factor.shown_bounds} were clipped and count in the first and the "
            "last bin. Means, standard deviations and outer quantiles refer to clipped values."
            for factor in bins
        )

    @property
    def flags(self) -> dict[str, np.ndarray]:
        """Return flags that mark the first and the last bin if numbers are clipped to the bounds.

        The result maps the names "or less" and "or more" to bool arrays of shape (d,). It is empty
        if no numbers are clipped.
        """
        bins = self._bins
        if bins is None or not bins.clip:
            return {}
        places = np.arange(self.size)
        last = self.size - 1 - (bins.of_missing >= 0)
        return {"or less": places == 0, "or more": places == last}

    @property
    def stand_in(self) -> Any:
        """Return the value that a client with ``missing="report"`` reports for a missing answer.

        It is None if None is a category, and otherwise the last category. For bins without
        ``missing=True``, users without a number are therefore counted in the highest bin. For
        several columns, it is a tuple with such a value for each column.
        """
        lists = [factor.listed for factor in self._factors]
        defaults = tuple(None if None in listed else listed[-1] for listed in lists)
        return defaults if len(defaults) > 1 else defaults[0]

    @property
    def is_ordered(self) -> bool:
        """Return whether the categories are bins, or come from an ordered categorical dtype."""
        return len(self._factors) == 1 and self._factors[0].is_ordered

    @property
    def labels(self) -> np.ndarray:
        """Return the categories as tables show them, of shape (d,).

        The category None is replaced by its name.
        """
        if len(self._factors) == 1:
            return self._factors[0].labels
        if all(factor.labels is factor.categories for factor in self._factors):
            return self.categories
        return objects(list(product(*(factor.labels.tolist() for factor in self._factors))))

    @property
    def names(self) -> np.ndarray:
        """Return the categories as strings, of shape (d,)."""
        return np.asarray([str(category) for category in self.categories], dtype=object)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 hash of the categories in their order, as hexadecimal digits.

        It is the same on every machine.
        """
        edges = [("edges", *own) for own in self._own_edges()]
        return list_digest([*self.categories.tolist(), *edges])

    def bin_of(self, number: float) -> int | None:
        """Return the position of the bin that contains a number, in a domain of `bins`.

        Parameters
        ----------
        number : float
            A number.

        Returns
        -------
        int or None
            The position. None if the number is NaN or outside of the bounds, or if the domain has
            no bins.
        """
        place = -1 if self._bins is None else int(self._bins.places(np.array([float(number)]))[0])
        return None if place < 0 or number != number else place

    def _n_clipped(self, columns: list[np.ndarray]) -> int | None:
        """Return how many numbers are outside of the bounds and are therefore clipped.

        Parameters
        ----------
        columns : list of ndarray of shape (n_samples,)
            One array per column.

        Returns
        -------
        int or None
            The number of clipped numbers. None if no column has bins with ``clip=True``.
        """
        counts = [bins._n_clipped(x) for bins, x in self._binned(columns) if bins.clip]
        return sum(counts) if counts else None

    def warn_of_whole_numbers(self, columns: list[np.ndarray], name: str) -> None:
        """Warn once if all values are whole numbers, but the bins lack ``integers=True``.

        Also warn if many numbers are clipped, or if a grid clips all numbers of a column, which may
        be another column.

        Parameters
        ----------
        columns : list of ndarray of shape (n_samples,)
            One array per column.
        name : str
            The class to name in the warning.
        """
        if any(bins.are_whole(x) for bins, x in self._binned(columns)):
            text = f"{name} got only whole numbers, but its bins are for all real numbers. Means "
            text += "are up to 0.5 too large. Declare Domain.bins(.., integers=True)."
            warn_once(text, UserWarning, "bins of whole numbers")
        clipped = [bins.shown_bounds for bins, x in self._binned(columns) if bins.clips_all(x)]
        if has_cells(self) and clipped:
            text = f"{name} clipped all numbers of a column, which are outside of {clipped[0]}. "
            text += "Pass the columns in the order of Domain.grid."
            warnings.warn(text, UserWarning, stacklevel=6)
            return
        for bins, x in self._binned(columns):
            if bins.clip:
                warn_of_clipped(bins._n_clipped(x), len(x), bins.shown_bounds, name)

    def _check_raw_values(self, columns: list[np.ndarray], name: str) -> None:
        self.warn_of_whole_numbers(columns, name)

    def _binned(self, columns: list[np.ndarray]) -> list[tuple[BinList, np.ndarray]]:
        """Return a list of pairs of a BinList and a column's values.

        Columns whose categories are not bins are left out.
        """
        pairs = zip(self._factors, columns, strict=False)
        return [(bins, np.asarray(x)) for bins, x in pairs if isinstance(bins, BinList)]

    def _own_edges(self) -> list[list[float]]:
        """Return the exact edges of each column of bins, unless the names of its bins show them."""
        lists = [factor for factor in self._factors if isinstance(factor, BinList)]
        named = [bins for bins in lists if bins.own_names]
        return [(bins.edges if bins.bounds is None else bins.ends).tolist() for bins in named]

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain) or not other._factors or self.size != other.size:
            return False
        if self._own_edges() != other._own_edges():
            return False
        if len(self._factors) == len(other._factors):  # products need not be listed
            pairs = zip(self._factors, other._factors, strict=True)
            return all(ours is theirs or ours.listed == theirs.listed for ours, theirs in pairs)
        return comparable(self.categories.tolist()) == comparable(other.categories.tolist())

    def __hash__(self) -> int:
        return hash((type(self), self.size))

    def __repr__(self) -> str:
        if len(self._factors) == 1:
            return f"Domain({self._factors[0].shown})"
        return f"Domain({' x '.join(f'({factor.shown})' for factor in self._factors)})"

    def _closed(self) -> Domain:
        """Return the domain itself. Raise ValueError if it is an open domain without a list.

        Returns
        -------
        Domain
            This domain.

        Raises
        ------
        ValueError
            If the domain is open.
        """
        return self

    # -- to codes and back --------------------------------------------------------------------
    def encode(self, X: Values, name: str = "Domain") -> np.ndarray:
        """Return the category code of each user's value: its position in the list of categories.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            Values in any container.
        name : str, default="Domain"
            The class to name in error messages.

        Returns
        -------
        ndarray of shape (n_samples,)
            Codes in ``range(d)``, in the smallest unsigned integer type that can represent them.

        Raises
        ------
        ValueError
            If a value is not a category.
        """
        return self._encode_columns(self._columns_of(X, name), name)

    def _columns_of(self, X: Values, name: str) -> list[np.ndarray]:
        """Split users' values into a list of columns, which `encode_columns` accepts.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            Values in any container.
        name : str
            The class to name in error messages.

        Returns
        -------
        list of ndarray of shape (n_samples,)
            One array per column.
        """
        return as_columns(X, name)

    def _encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        """Return the category code of each user's value from a list of columns.

        Parameters
        ----------
        columns : list of ndarray of shape (n_samples,)
            One array per column.
        name : str
            The class to name in error messages.

        Returns
        -------
        ndarray of shape (n_samples,)
            Codes.
        """
        if len(self._factors) == 1:
            if len(columns) > 1 and not any(isinstance(c, tuple) for c in self.categories.tolist()):
                raise ValueError(
                    f"{name} expects one column, got {len(columns)} columns. Pass a single column, "
                    "such as X['column'], or use ColumnOracle(domains={..}) for several columns."
                )
            values = _as_one_column(columns)
            return self._factors[0].encode(values, name).astype(self._dtype, copy=False)
        if len(columns) != len(self._factors):
            n = len(self._factors)
            raise ValueError(
                f"{name} expects the {n} columns of its domain, got {len(columns)} columns. Pass "
                "exactly these columns, in the order of the domain."
            )
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        for i, (factor, column) in enumerate(zip(self._factors, columns, strict=True), 1):
            codes = codes * factor.size + factor.encode(column, name, f" in column {i}")
        return codes.astype(self._dtype)

    def decode(self, codes: ArrayLike) -> np.ndarray:
        """Return the category of each code.

        Parameters
        ----------
        codes : array-like of int of shape (n,)
            Codes in ``range(d)``.

        Returns
        -------
        ndarray of shape (n,)
            The categories of the codes.
        """
        return self.categories[np.asarray(codes)]

    def _word_digests(self) -> np.ndarray:
        """Return a 64-bit hash of each category, to which oracles apply their hash functions.

        Returns
        -------
        ndarray of shape (d,)
            The hashes, as uint64.
        """
        digests = [word_digest(c) for c in self.categories.tolist()]
        if len(set(digests)) < len(digests):
            raise ValueError(
                "Domain contains two texts that differ only in their Unicode encoding, so they "
                "count as the same answer. Remove one of them; unicodedata.normalize('NFC', "
                "text) returns the same text for both."
            )
        return np.array(digests, dtype=np.uint64)


def digest_causes(domain: Domain | None) -> DigestCauses:
    """Return the settings that may differ if two domains have different digests (hashes)."""
    return _ANY_CAUSES if domain is None else domain._digest_causes


def has_bins(domain: Any) -> bool:
    """Return whether the categories of a domain are bins of numbers.

    Return False if `domain` is None.
    """
    return getattr(domain, "edges", None) is not None


def has_missing_numbers(domain: Any) -> bool:
    """Return whether a domain has bins with bounds and a category for missing numbers."""
    return getattr(domain, "has_missing_numbers", False)


def has_cells(domain: Any) -> bool:
    """Return whether the categories of a domain are the cells of a grid; False for None."""
    return getattr(domain, "grid_ends", None) is not None


def bounds_of_cells(domain: Any) -> dict[str, np.ndarray]:
    """Return the bounds of the cells of a grid as four columns; no columns for other domains.

    Shapes: a dict of "x_low", "x_high", "y_low" and "y_high", each of shape (d,) for d cells.
    """
    if not has_cells(domain):
        return {}
    bounds: dict[str, np.ndarray] = {}
    x_ends, y_ends = domain.grid_ends
    for side, part in (("low", slice(None, -1)), ("high", slice(1, None))):
        x, y = np.meshgrid(x_ends[part], y_ends[part], indexing="ij")
        bounds |= {f"x_{side}": x.ravel(), f"y_{side}": y.ravel()}
    return {name: bounds[name] for name in ("x_low", "x_high", "y_low", "y_high")}


def ends_of(domain: Any, name: str) -> np.ndarray:
    """Return the ends of the bins of a domain, from the lower bound to the upper bound.

    domain: the domain of an estimate, or None if only the categories are known.

    Shapes: -> (n_bins + 1,). Raises ValueError if the domain has no bins with bounds.
    """
    ends = getattr(domain, "ends", None)
    if has_cells(domain):
        raise ValueError(
            f"{name} needs bins of one number, got the cells of two numbers. Ask for rectangles, "
            "such as between([((8, 10), (47, 48))])."
        )
    if has_missing_numbers(domain):
        raise ValueError(
            f"{name} needs a number of each user, but these bins have a category for missing "
            "numbers. Ask estimate.answered(), which is the estimate among the users who answered; "
            "in an oracle or a search, use prefixes() or ranges of positions."
        )
    if ends is None:
        raise ValueError(
            f"{name} needs an estimate of bins with bounds, because other bins have no ends. "
            "Collect with Domain.bins(edges, bounds=(0, 100)), or for money with Domain.bins(32, "
            'bounds=(100, 1_000_000), scale="log"). For other categories, use ranges of positions, '
            "or mean(numbers)."
        )
    return ends


def is_log(ends: np.ndarray | None) -> bool:
    """Return whether bins should be drawn on a logarithmic axis.

    This is the case if their widths are similar on it, but not on a linear axis.
    """
    # Chosen by hand: ages in bins of growing width stay on a linear axis.
    if ends is None or not 0 < ends[0] < ends[-1]:
        return False
    widths = np.diff(ends)
    log_widths = np.diff(np.log(ends))
    return bool(widths.max() / widths.min() > 10 and log_widths.max() / log_widths.min() < 3)


def bin_widths(ends: np.ndarray) -> np.ndarray:
    """Return the widths of bins, in factors of 10 if they should be drawn on a logarithmic axis."""
    return np.diff(np.log10(ends) if is_log(ends) else ends)


class UnlistedDomain(Domain):
    """Base class of domains whose categories are not listed, such as the domain of all strings."""

    _why: str  # the reason and the remedy, for errors
    _key: Any  # equal in equal domains

    @property
    def categories(self) -> np.ndarray:
        """Raise ValueError, because this domain does not list its categories."""
        raise ValueError(self._why)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key == other._key

    def __hash__(self) -> int:
        return hash((type(self), self._key))


class OpenDomain(UnlistedDomain, tag="open-domain"):
    """The domain in which every answer is valid. An answer is encoded as its 64-bit hash."""

    is_open = True
    size = 0
    #: The text that replaces the digest of a list.
    digest = "open"
    stand_in = None
    _key = "open"
    _why = (
        "Domain.open() has no list of categories, because it is only for clients. On a server, "
        "pass the list of categories to count as categories=."
    )

    def __init__(self) -> None:
        pass

    def _closed(self) -> Domain:
        raise ValueError(self._why)

    def __repr__(self) -> str:
        return "Domain.open()"

    def _encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        values = _as_one_column(columns)
        refuse_infinite(values, name)
        return np.array([word_digest(value) for value in values.tolist()], dtype=np.uint64)


class StringDomain(UnlistedDomain, tag="string-domain"):
    """The domain of all strings that consist of letters of an alphabet.

    `size` is the number of letters plus one, for the end of a string.
    """

    _why = (
        "A domain of strings does not list all strings over its alphabet. Use StringOracle, "
        "which finds frequent strings."
    )
    is_stood_in = False  # whether `stand_in` replaces values that are not valid strings
    _digest_causes = DigestCauses(
        domain="the letters, max_length or n_found",
        parts="another n_found or expected_n_users",
    )

    def __init__(
        self,
        alphabet: Any,
        max_length: int,
        weights: Sequence[float] | None = None,
        max_digits: int | None = None,
        name: str = "Domain.strings",
    ) -> None:
        lengths = {"max_length": max_length}
        if max_digits is not None:
            lengths["max_digits"] = max_digits
        for parameter, length in lengths.items():
            is_whole = isinstance(length, Integral) and not isinstance(length, bool)
            if not is_whole or not 1 <= int(length) <= _MOST_LETTERS:
                raise ValueError(
                    f"{name} needs {parameter}= to be an integer from 1 to {_MOST_LETTERS}, got "
                    f"{length!r}. Pass another integer."
                )
        if max_digits is not None and weights is None:
            raise ValueError(
                f"{name} got max_digits={max_digits} without code=, so no code is used. Leave out "
                "max_digits=, and limit the length of strings by max_length=."
            )
        is_text = isinstance(alphabet, str) and "\0" not in alphabet
        # A single surrogate (half of a character in UTF-16) is not a letter; files cannot contain
        # it.
        is_text = is_text and not any("\ud800" <= letter <= "\udfff" for letter in alphabet)
        is_fine = is_text and 0 < len(alphabet) == len(set(alphabet))
        if not is_fine or not all(unicodedata.is_normalized("NFC", x) for x in alphabet):
            raise ValueError(
                f"{name} got the alphabet {alphabet!r}, which is not a string of different "
                "letters in Unicode's normal form C (see unicodedata.normalize). Pass for "
                'example "0123456789".'
            )
        self.alphabet: str = alphabet
        self.max_length: int = int(max_length)
        self.max_digits: int | None = max_digits
        self.size: int = len(alphabet) + 1
        self._weights = None if weights is None else _whole_weights(weights, self.size, name)

    def coder(self, order: int) -> StringCoder:
        """Return the object that encodes strings as digits.

        `order` is the number of values of a digit.
        """
        length = self.max_length
        if self._weights is not None:
            words = huffman_words(self._weights, order)
            n_weighted = sum(w * len(word) for w, word in zip(self._weights, words, strict=True))
            average = max(-(-length * n_weighted // sum(self._weights)), 1)
            return WordCoder(words, length, self.max_digits or average)
        coder = NumberCoder(self.size - 1, length, order)
        if self.size <= order and coder.n_digits == length:  # one digit per letter is as short
            return WordCoder(tuple(zip(range(self.size))), length, length)
        return coder

    @property
    def stand_in(self) -> str:
        """Return the string that replaces an invalid or missing string.

        It is the last letter of the alphabet.
        """
        return self.alphabet[-1]

    def text(self, letters: Sequence[int]) -> str:
        """Return the text of some letters.

        `letters` are positions in the alphabet, counted from 1, and zeros are ignored.
        """
        return "".join(self.alphabet[letter - 1] for letter in letters if letter)

    @property
    def digest(self) -> str:
        """Return the SHA-256 hash of the alphabet, the lengths and the letters' frequencies.

        It is the same on every machine.
        """
        return list_digest(["strings", self.alphabet, *map(str, self._key[1:])])

    @property
    def _key(self) -> tuple:
        return self.alphabet, self.max_length, self.max_digits, self._weights

    def __repr__(self) -> str:
        code = "" if self._weights is None else ", with a code"
        return f"Domain.strings({self.alphabet!r}, {self.max_length}{code})"

    def _encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        if len(columns) != 1:
            raise ValueError(
                f"{name} expects one string per user, got {len(columns)} columns. Pass a single "
                "column of strings."
            )
        strings = columns[0].tolist()
        for user, value in enumerate(strings):
            if isinstance(value, str) and value and "\0" not in value:
                strings[user] = unicodedata.normalize("NFC", value)
            elif self.is_stood_in:
                strings[user] = self.stand_in
            elif is_missing(value):
                remedy = 'Set missing="report" so that clients send a default value'
                refuse_missing(name, remedy=remedy)
            else:
                self._refuse(*_problem_of(value), name, user)
        letters = letter_codes(strings, self.alphabet, self.max_length)
        if self.is_stood_in:
            unknown = (letters < 0).any(axis=1)
            letters[unknown] = letter_codes([self.stand_in], self.alphabet, self.max_length)
        elif letters.min(initial=0) < 0:
            user, place = (int(i) for i in np.argwhere(letters < 0)[0])
            letter = f"the letter {strings[user][place]!r}, which is not in the alphabet,"
            problem = f"{letter} in place {place} of the string"
            self._refuse(problem, "Add the letter to the alphabet, or replace it", name, user)
        return letters

    def _check_raw_values(self, columns: list[np.ndarray], name: str) -> None:
        """Raise ValueError if a raw value is neither a string nor missing."""
        # Clients with missing="report" send a default value instead, because an error would reveal
        # the value. Without it, `encode` has raised the error.
        for user, value in enumerate(columns[0].tolist() if self.is_stood_in else []):
            if not (isinstance(value, str) or is_missing(value)):
                self._refuse(*_problem_of(value), name, user)

    def _refuse(self, problem: str, correction: str, name: str, user: int) -> NoReturn:
        default = 'set missing="report" so that clients send a default value.'
        remedy = f"at position {user}. {_ASTYPE}, replace empty strings, add the letters to the "
        remedy += f"alphabet, or {default}"
        shown_remedy = f"{correction}, or {default}"
        if self.is_stood_in:
            shown_remedy = f"{correction}."
        raise UnknownValueError(
            f"{name} got {problem} at position {user}. {shown_remedy}",
            f"{name} got a value that is not a string, is empty or has a letter outside of the "
            f"alphabet (the value is not shown, because errors of clients are logged), {remedy}",
        )


_ASTYPE = "Convert the values to strings, as in astype(str)"


def _problem_of(value: object) -> tuple[str, str]:
    """Return the fault of a value that is not a valid string, and its correction."""
    if not isinstance(value, str):
        return f"a value of type {type(value).__name__}, which is not a string,", _ASTYPE
    if not value:
        return "an empty string", 'Replace empty strings by a placeholder such as "none"'
    return "a string that contains NUL,", "Remove the letter NUL"


_MOST_LETTERS = 1 << 10  # a guard; searches of strings do not reach this length


@lru_cache(maxsize=1)
def _frequent_letters() -> dict[str, int]:
    """Return the frequencies of letters in public texts.

    The script `.ci/letter_code.py` has counted them.
    """
    text = files(__package__).joinpath("data/letters.json").read_text("utf-8")
    return dict(json.loads(text)["letters"])


def _whole_weights(weights: Sequence[float], size: int, name: str) -> tuple[int, ...]:
    """Return the frequencies of letters as integers, so that all machines compute the same code."""
    array = np.asarray(weights, dtype=float)
    if array.shape != (size,) or not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(
            f"{name} got the frequencies {weights!r:.100}, but needs a positive number for each "
            f"letter. Pass for example code={{'e': 0.12, 't': 0.09}}, with one character per key."
        )
    return tuple(max(round(x / array.max() * 2**32), 1) for x in array.tolist())


#: Specifications of a domain; a str is "auto" or "open".
Categories: TypeAlias = (
    str | int | np.integer[Any] | Column | Mapping[Any, Any] | SupportsCategories | Domain
)


def _as_one_column(columns: list[np.ndarray]) -> np.ndarray:
    """Return a single column unchanged. Return several columns as one array of tuples."""
    if len(columns) == 1:
        return columns[0]
    return objects(list(zip(*(column.tolist() for column in columns), strict=True)))


# -- for other rooms -------------------------------------------------------------------------
def closed_domain(domain: Domain) -> Domain:
    """Return the domain unchanged. Raise ValueError if it is an open domain without a list."""
    return domain._closed()


def columns_of(domain: Domain, X: Values, name: str) -> list[np.ndarray]:
    """Split users' values into a list of columns, which `encode_columns` accepts."""
    return domain._columns_of(X, name)


def encode_columns(domain: Domain, columns: list[np.ndarray], name: str) -> np.ndarray:
    """Return the category code of each user's value. `columns` is a list from `columns_of`."""
    return domain._encode_columns(columns, name)


def word_digests(domain: Domain) -> np.ndarray:
    """Return a 64-bit hash of each category, as uint64 of shape (d,).

    A hash does not depend on the other categories.
    """
    return domain._word_digests()


def check_raw_values(domain: Domain, columns: list[np.ndarray], name: str) -> None:
    """Check the raw values of all users together, and warn or raise an error with the given name.

    A client must not call this function, because the results may reveal its user's value.
    """
    domain._check_raw_values(columns, name)


def n_clipped(domain: Domain, columns: list[np.ndarray]) -> int | None:
    """Return the number of values that are clipped to bounds.

    Return None if the domain does not clip.
    """
    return domain._n_clipped(columns)
