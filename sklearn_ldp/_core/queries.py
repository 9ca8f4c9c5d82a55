"""Queries to an estimate: each query asks for a weighted sum of the frequencies of categories.

For d categories, ``query_set.matrix(d)`` returns the weights as a sparse matrix of shape
``(n_queries, d)``. ``estimate.answer(query_set)`` multiplies this matrix with the estimated
frequencies. Queries do not depend on oracles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike
from scipy import sparse

from .common.pandas import import_pandas
from .common.random import RandomState, as_generator
from .common.tags import Tagged
from .common.text import labelled_lines, number_texts
from .common.typing import Column, Matrix, Series
from .domains import Domain, bin_widths, ends_of, range_names
from .domains.values import (
    as_numbers,
    as_vector,
    comparable,
    group_codes,
    is_missing,
    is_row_index,
    order_of,
    own_categories,
    places_of,
    sorted_values,
)

_CLIPPED = " of values clipped to "  # part of the name of a mean of clipped values
_ROUNDED = 1e-9  # a smaller proportion of a bin is a rounding error of its edges, and no cut
_MOST_PREFIXES = 1 << 13  # maximum d, because the queries have d**2 / 2 weights


class Answers(NDArrayOperatorsMixin):
    """The answers to queries that have names: an array whose columns have the names of the queries.

    Arithmetic, comparisons and methods work as for arrays: ``answers - truth``, ``answers.sum()``.
    The results are plain arrays without names, because the names of queries may be wrong for them.

    Parameters
    ----------
    values : ndarray of shape (n_estimates, n_queries)
        The answers.
    names : list
        The name of each query, which is the name of its column in `values`.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate
    >>> estimate = FrequencyEstimate([[0.5, 0.25, 0.25]], ["cat", "dog", "trout"])
    >>> answers = estimate.answer(["dog", "trout"])
    >>> answers.names, answers["dog"], answers[0]
    (['dog', 'trout'], 0.25, array([0.25, 0.25]))
    >>> answers
    dog    0.25
    trout  0.25
    """

    def __init__(self, values: np.ndarray, names: list[Any]) -> None:
        self.values: np.ndarray = values
        self.names: list[Any] = names

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answers, (n_estimates, n_queries)."""
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        arrays = [x.values if isinstance(x, Answers) else x for x in inputs]
        if any(isinstance(x, Answers) for x in kwargs.get("out", ())):
            del kwargs["out"]  # for answers -= 1, which turns the answers into an array
        return getattr(ufunc, method)(*arrays, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "values":  # copies look for names before `values` exists
            raise AttributeError(name)
        if not hasattr(self.values, name):
            raise AttributeError(
                f"Neither Answers nor NumPy arrays have an attribute {name!r}. Use `names`, or an "
                "attribute of arrays."
            )
        return getattr(self.values, name)

    def __getitem__(self, key: Any) -> Any:
        """Return the answer to the query with a given name, or elements of the array by index.

        Parameters
        ----------
        key : name, or any index of an array
            The name of a query, or an index of the array of answers. An integer is always an index,
            and selects a row. A tuple is a name if the names are tuples, and otherwise an index.

        Returns
        -------
        float or ndarray
            For a name, the answer, or an array of shape (n_estimates,) if there are several
            estimates. For an index, the elements of the array.

        Raises
        ------
        KeyError
            If there is no query with this name.
        """
        is_tuple = isinstance(key, tuple) and not isinstance(self.names[0], tuple)
        if is_row_index(key) or is_tuple:
            return self.values[key]
        (name,) = comparable([key])
        names = comparable(self.names)
        if name == "mean" and name not in names:  # the mean of clipped values has a longer name
            name = next(filter(is_mean, names), name)
        if name not in names:
            raise KeyError(
                f"There is no query with the name {key!r}. Pass one of the names "
                f"{', '.join(map(repr, names))}."
            )
        place = names.index(name)
        return float(self.values[0, place]) if len(self) == 1 else self.values[:, place]

    def round(self, decimals: int = 0) -> Answers:
        """Return rounded answers, with the names of the queries.

        Parameters
        ----------
        decimals : int, default=0
            Number of decimals.

        Returns
        -------
        Answers
            The rounded answers.
        """
        return Answers(self.values.round(decimals), self.names)

    def tolist(self) -> list[list[float]]:
        """Return the answers as nested lists, without the names.

        Returns
        -------
        list of list of float
            One list per estimate, with one number per query.
        """
        return self.values.tolist()

    def to_series(self) -> Series:
        """Return the answers of a single estimate as a pandas Series.

        Returns
        -------
        pandas.Series
            One answer per query, with the names of the queries as index.

        Raises
        ------
        ValueError
            If there are several estimates.
        """
        if len(self) != 1:
            raise ValueError(
                f"Answers.to_series needs answers of a single estimate, got {len(self)} estimates. "
                "Use np.asarray(answers), whose columns have the names answers.names."
            )
        return import_pandas("Answers.to_series").Series(self.values[0], self.names)

    def __repr__(self) -> str:
        if len(self) != 1:
            return repr(self.values)
        return "\n".join(labelled_lines(self.names, [f"{x: .4g}" for x in self.values[0]]))


class QuerySet(Tagged):
    """Base class of query sets. A query set is a list of queries to an estimate.

    Each query is a weighted sum of the frequencies of d categories. So a query set defines a matrix
    of weights, of shape ``(n_queries, d)``.

    Attributes
    ----------
    depends_on_truth : bool
        Whether the queries depend on the true frequencies, for example on which categories are the
        most frequent.
    names : list or None
        The name of each query. None if the queries have no names.
    ordered : bool
        Whether the queries ask for ranges of a domain that has an order.
    limits : tuple of two csr_array of shape (n_queries, d), or None
        If the categories are bins of numbers, and the answers depend on the numbers within the
        bins: the minimum and the maximum possible weights. Otherwise None.
    assumes_even : bool
        Whether a query contains a part of a bin, and assumes that the numbers in the bin are spread
        evenly.
    parts : sequence of QuerySet
        The query sets from which this query set was combined. Empty if it was not combined.
    top : int or None
        The number k if the queries ask for the k categories with the largest true frequencies.
        Otherwise None.
    selected_by : ndarray of shape (d,) or None
        The raw values of the estimate that has selected the categories, because intervals of the
        same estimate are then not valid. None if no estimate has selected categories.
    """

    depends_on_truth = False
    names: list[Any] | None = None
    parts: Sequence[QuerySet] = ()
    ordered = False
    limits: tuple[Any, Any] | None = None
    assumes_even = False
    top: int | None = None
    selected_by: np.ndarray | None = None
    _text = ""  # the text that `repr` returns

    def __repr__(self) -> str:
        return self._text or super().__repr__()

    def matrix(self, n_categories: int, frequencies: ArrayLike | None = None) -> sparse.csr_array:
        """Return the weights of the queries as a matrix, for a given number of categories.

        Parameters
        ----------
        n_categories : int
            Size d of the domain.
        frequencies : ndarray of shape (d,), default=None
            The true frequencies. They are only needed by queries that depend on them.

        Returns
        -------
        csr_array of shape (n_queries, d)
            One row per query, with the weight of each category.
        """
        raise NotImplementedError

    def aligned(self, categories: np.ndarray, domain: Domain | None = None) -> QuerySet:
        """Return the same queries for a given list of categories.

        The weights of the result are in the order of this list.

        Parameters
        ----------
        categories : ndarray of shape (d,)
            The categories.
        domain : Domain, default=None
            The domain of the categories. If the categories are bins of numbers, it contains the
            edges of the bins. None if it is unknown.

        Returns
        -------
        QuerySet
            The queries. If the weights depend neither on the names of categories nor on the edges
            of bins, it is this query set itself.

        Raises
        ------
        ValueError
            If the queries contain a category that is not in `categories`, or if they need bins of
            numbers and the categories are not bins.
        """
        return self

    def square_weights(self, n_categories: int) -> tuple[float, float] | None:
        """Return two coefficients of the formula of the mean squared error, if there is a formula.

        Let e_v be the error of the estimated frequency of category v. If the query set treats all
        categories equally, the mean of the squared errors over its queries is
        ``single * sum_v e_v**2 + pairs * sum_{v != w} e_v e_w``. The formula also gives the mean
        variance, if ``e_v**2`` is replaced by variances and ``e_v e_w`` by covariances.

        Parameters
        ----------
        n_categories : int
            Size d of the domain.

        Returns
        -------
        (float, float) or None
            The coefficients ``(single, pairs)``. None if the queries do not treat all categories
            equally.
        """
        return None

    def expected_squared_error(self, errors: np.ndarray) -> np.ndarray | None:
        """Return the mean squared error of the answers. None if `square_weights` returns None.

        Parameters
        ----------
        errors : ndarray of shape (n_estimates, d)
            Estimated minus true frequencies.

        Returns
        -------
        ndarray of shape (n_estimates,) or None
            For each estimate, the mean over the queries of the squared error of the answer.
        """
        weights = self.square_weights(errors.shape[-1])
        if weights is None:
            return None
        squares = np.sum(errors**2, axis=-1)
        cross = np.sum(errors, axis=-1) ** 2 - squares
        return weights[0] * squares + weights[1] * cross

    def mean_variance(self, noise: Any, frequencies: np.ndarray) -> float:
        """Return the mean, over the queries, of the variance of the answer of a raw estimate.

        Parameters
        ----------
        noise : Noise
            The noise of a single estimate.
        frequencies : ndarray of shape (d,)
            True frequencies. The variances and the queries may depend on them.

        Returns
        -------
        float
            The mean variance. For `random_sets`, it is the exact mean over all sets of this size.
        """
        d = len(frequencies)
        weights = self.square_weights(d)
        if weights is None:
            matrix = self.matrix(d, frequencies)
            return float(noise.answer_variance(matrix, frequencies).mean())
        single, pairs = weights
        sum_of_variances = float(noise.variance(frequencies).sum())
        if not pairs:
            return single * sum_of_variances
        variance_of_sum = float(noise.answer_variance(np.ones((1, d)), frequencies)[0])
        return single * sum_of_variances + pairs * (variance_of_sum - sum_of_variances)


class _FullDomain(QuerySet, tag="full-domain-queries"):
    _text = "full_domain()"

    def matrix(self, n_categories, frequencies=None):
        return sparse.eye_array(n_categories, format="csr")

    def square_weights(self, n_categories):
        return 1 / n_categories, 0.0

    def expected_squared_error(self, errors):
        return np.mean(errors**2, axis=-1)


class _MatrixQueries(QuerySet, tag="matrix-queries"):
    def __init__(self, matrix, text="", names=None, categories=None):
        self._matrix = matrix
        self.names = names
        self._text = text or f"query_matrix of shape {matrix.shape}"
        self._categories = categories  # the category of each column, if the columns have names

    def aligned(self, categories, domain=None):
        if self._categories is None:
            return self
        order = order_of(self._categories, categories, repr(self))
        queries = _MatrixQueries(self._matrix[:, order], self._text, self.names)
        if self.selected_by is not None:
            queries.selected_by = self.selected_by[order]
        return queries

    def matrix(self, n_categories, frequencies=None):
        if self._categories is not None:
            raise ValueError(
                f"{self!r} was created from labels with a name for each category, but the estimate "
                "or the frequencies have no names of categories. Create the queries from an array "
                "in the order of the categories: labels.reindex(categories).to_numpy()."
            )
        if self._matrix.shape[1] != n_categories:
            raise ValueError(
                f"The queries are for {self._matrix.shape[1]} categories, but the estimate has "
                f"{n_categories} categories. Create the queries with one label or one weight for "
                "each category of the estimate."
            )
        return self._matrix


class _ListedSets(QuerySet, tag="named-categories"):
    """Queries that contain the names of their categories.

    `sets` contains the list of categories of each query. If it is None, each name in `names` is a
    query for this category.
    """

    _sets: Any = None  # files from before there were sets do not contain them

    def __init__(self, names, text, sets=None):
        self.names = names
        self._text = text
        if sets is not None:
            self._sets = [as_vector(categories).tolist() for categories in sets]
        for categories in [names] if sets is None else self._sets:
            _refuse_repeated(categories)

    def aligned(self, categories, domain=None):
        sets = [[name] for name in self.names or ()] if self._sets is None else self._sets
        places = places_of([*chain(*sets)], categories, "The estimate")
        sizes = np.array([len(listed) for listed in sets])
        return _MatrixQueries(_sums(places, sizes, len(categories)), repr(self), self.names)

    def matrix(self, n_categories, frequencies=None):
        raise ValueError(
            f"{self!r} refers to categories by name, but an array without categories was passed. "
            "Pass a FrequencyEstimate, or as queries a matrix of shape (n_queries, n_categories)."
        )


def _listed_categories(categories: Any) -> QuerySet:
    """Return a query set that asks for the frequency of each category in a list."""
    names = as_vector(categories).tolist()
    return _ListedSets(names, f"a list of {len(names)} categories")


def _refuse_repeated(categories: list[Any]) -> None:
    """Raise ValueError if a list of categories contains a category more than once."""
    repeated = [name for name, n in Counter(comparable(categories)).items() if n > 1]
    if repeated:
        raise ValueError(
            f"The list of queries contains the category {repeated[0]!r} more than once. Remove the "
            "repeated category. To pass weights instead of categories, use a matrix with one row "
            "per query, such as [[1, 1, 0]]."
        )


def _listed_groups(labels: Any) -> QuerySet | None:
    """Return the query set of groups, if `labels` contains a list of categories for each group.

    Otherwise return None: `labels` then contains a label for each category.
    """
    has_names = isinstance(labels, Mapping)
    sets = [*labels.values()] if has_names else labels
    kinds = (list, tuple, set, frozenset) if has_names else (list, set, frozenset)
    if not isinstance(sets, list) or not sets:
        return None
    if not all(isinstance(x, kinds) or getattr(x, "ndim", 0) == 1 for x in sets):
        return None
    if not all(map(len, sets)):
        raise ValueError(
            f"groups got a group without categories in {labels!r}. Pass at least one category for "
            'each group, such as {"north": ["a", "b"]}.'
        )
    ordered = [sorted_values(x) if isinstance(x, set | frozenset) else x for x in sets]
    return _ListedSets([*labels] if has_names else None, f"groups({len(sets)} listed)", ordered)


class _SeveralSets(QuerySet, tag="several-queries"):
    def __init__(self, sets):
        self.parts = [as_query_set(queries) for queries in sets]
        self._text = f"[{', '.join(map(repr, self.parts))}]"
        for part in self.parts:
            if part.depends_on_truth:
                raise ValueError(
                    f"{part!r} cannot be combined with other queries in a list, because its "
                    "categories depend on the true frequencies. Pass it without the list."
                )
        named = [part.names for part in self.parts if part.names is not None]
        self.names = [*chain(*named)] if len(named) == len(self.parts) else None

    def aligned(self, categories, domain=None):
        several = _SeveralSets([part.aligned(categories, domain) for part in self.parts])
        several.assumes_even = any(part.assumes_even for part in several.parts)
        if any(part.limits is not None for part in several.parts):
            limits = [part.limits or (part.matrix(len(categories)),) * 2 for part in several.parts]
            low, high = (sparse.vstack(ends, format="csr") for ends in zip(*limits, strict=True))
            several.limits = low, high
        return several

    def matrix(self, n_categories, frequencies=None):
        matrices = [part.matrix(n_categories, frequencies) for part in self.parts]
        return sparse.csr_array(sparse.vstack(matrices, format="csr"))


class _RandomSets(QuerySet):
    def __init__(self, size, n_sets, seed):
        self.size = size
        self.n_sets = n_sets
        self.seed = seed
        self._text = f"random_sets({size})"

    def set_size(self, n_categories: int) -> int:
        """Return the number of categories in each random set, for a domain with `n_categories`
        categories."""
        if isinstance(self.size, Integral):
            if int(self.size) > n_categories:
                raise ValueError(
                    f"random_sets got size={self.size}, but the domain has {n_categories} "
                    "categories. Pass a smaller size, or a fraction of the domain."
                )
            return int(self.size)
        return max(1, round(self.size * n_categories))

    def matrix(self, n_categories, frequencies=None):
        rng = as_generator(self.seed)
        m = self.set_size(n_categories)
        columns = np.concatenate([rng.permutation(n_categories)[:m] for _ in range(self.n_sets)])
        return _sums(columns, np.full(self.n_sets, m), n_categories)

    def square_weights(self, n_categories):
        d = n_categories
        m = self.set_size(d)
        return m / d, m * (m - 1) / (d * max(d - 1, 1))


class _Ranges(QuerySet, tag="ranges"):
    ordered = True

    def __init__(self, bounds):
        self.bounds = bounds
        argument = bounds if isinstance(bounds, int) else f"{len(bounds)} ranges"
        self._text = f"ranges({argument})"

    def matrix(self, n_categories, frequencies=None):
        bounds = self.bounds
        if isinstance(bounds, int):
            _check_room(self, bounds, n_categories)
            edges = -(np.arange(bounds + 1) * -n_categories // bounds)
            bounds = np.column_stack([edges[:-1], edges[1:]])
        elif bounds[:, 1].max() > n_categories:
            raise ValueError(
                f"A range of {self!r} stops at position {bounds[:, 1].max()}, but the domain has "
                f"only {n_categories} categories. Pass stops of at most {n_categories}; positions "
                "count from 0, and a range does not include its stop."
            )
        columns = np.concatenate([np.arange(start, stop) for start, stop in bounds])
        return _sums(columns, bounds[:, 1] - bounds[:, 0], n_categories)


class _Prefixes(QuerySet, tag="prefixes"):
    ordered = True
    _text = "prefixes()"

    def matrix(self, n_categories, frequencies=None):
        if n_categories > _MOST_PREFIXES:
            raise ValueError(
                f"The matrix of prefixes() does not fit in memory for {n_categories:,} categories; "
                f"the maximum is {_MOST_PREFIXES:,} categories. To ask for some of the prefixes, "
                "use ranges([(0, stop), ..])."
            )
        return sparse.csr_array(np.tri(n_categories, dtype=bool)).astype(float)


class _OfBins(QuerySet):
    """Queries about users' numbers, if the categories are bins. Their weights depend on the bins'
    edges."""

    # weights: a function of the edges of the bins. It returns the weights for users who are spread
    # evenly within their bins, and the minimum and maximum weights.

    def __init__(self, weights, spread, names, text, pairs=None):
        self._weights = weights
        self._spread = spread
        self._pairs = pairs
        self.names = names
        self._text = text
        self.ordered = pairs is not None

    def aligned(self, categories, domain=None):
        ends = ends_of(domain, repr(self))
        even, low, high = map(sparse.csr_array, self._weights(ends, domain.integers))
        # The names of ranges do not mention clipping, because it does not change a range's count.
        clipped = _CLIPPED + domain.clipped_to if domain.clipped_to and not self.ordered else ""
        names = [f"{name}{clipped}" for name in self.names]
        if self.ordered and domain.integers:
            names = _names_of_ranges(self._pairs, True)
        return self._of_weights(even, low, high, names)

    def _of_weights(self, even: Any, low: Any, high: Any, names: list[str]) -> QuerySet:
        """Return queries with weights for evenly spread users, and with limits if bins are cut."""
        queries = _MatrixQueries(even, repr(self), names)
        queries.ordered = self.ordered
        if (low != high).nnz:
            queries.assumes_even = self._spread == "even"
            queries.limits = None if queries.assumes_even else (low, high)
        return queries

    names: list[Any]

    def matrix(self, n_categories, frequencies=None):
        return ends_of(None, repr(self))  # raises, because the edges are unknown here


_Weights: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


def _range_weights(
    pairs: np.ndarray, names: list[str], ends: np.ndarray, is_whole: bool
) -> _Weights:
    """Return the proportion of each bin that is in each range, and its minimum and its maximum.

    Each of the three arrays has a row for each range and a column for each bin. The minimum and the
    maximum are over all distributions of the numbers within a bin.
    """
    if is_whole:  # a number a reaches from a - 1/2 to a + 1/2
        pairs = np.ceil(pairs) - 0.5
    low = np.maximum(pairs[:, :1], ends[:-1])
    high = np.minimum(pairs[:, 1:], ends[1:])
    shares = np.clip((high - low) / np.diff(ends), 0, 1)
    outside = np.flatnonzero(~shares.any(axis=1))
    if outside.size:
        raise ValueError(
            f"between got the range {names[outside[0]]}, which is outside of all bins. Pass "
            f"numbers from {' to '.join(number_texts(ends[[0, -1]]))}."
        )
    whole = np.rint(shares)
    shares = np.where(np.abs(shares - whole) < _ROUNDED, whole, shares)
    return shares, np.floor(shares), np.ceil(shares)


def _mean_weights(ends: np.ndarray, is_whole: bool) -> _Weights:
    """Return three rows of weights of a mean: the center of each bin, its smallest and largest
    number."""
    low, high = ends[None, :-1], ends[None, 1:]
    half = is_whole / 2
    return (low + high) / 2, low + half, high - half


def is_mean(name: Any) -> bool:
    """Return whether the name of a query is the name of the query of `mean`."""
    return isinstance(name, str) and name.partition(_CLIPPED)[0] == "mean"


class _Rectangles(_OfBins):
    """Queries for the proportion of users in each of several rectangles of a grid of two numbers.

    A rectangle consists of a range of the first number and a range of the second number.
    """

    def aligned(self, categories, domain=None):
        axes = zip(grid_of(domain, self), self._pairs.swapaxes(0, 1), strict=True)
        names = []
        weights = []
        for (ends, pairs), is_whole in zip(axes, domain.are_integers, strict=True):
            names.append(_names_of_ranges(pairs, is_whole))
            weights.append(_range_weights(pairs, self.names, ends, is_whole))
        even, low, high = (_products(*both) for both in zip(*weights, strict=True))
        return self._of_weights(even, low, high, _joined(*names))

    def matrix(self, n_categories, frequencies=None):
        return grid_of(None, self)  # raises, because the cells are unknown here


class _RandomRectangles(QuerySet):
    """Queries for random rectangles of a grid of two numbers: blocks of adjacent cells."""

    ordered = True

    def __init__(self, n_rectangles, seed):
        self.n_rectangles = n_rectangles
        self.seed = seed
        self._text = f"rectangles({n_rectangles})"

    def aligned(self, categories, domain=None):
        rng = as_generator(self.seed)
        weights = []
        for ends in grid_of(domain, self):
            n = len(ends) - 1
            cuts = np.sort([rng.choice(n + 1, 2, replace=False) for _ in range(self.n_rectangles)])
            weights.append((np.arange(n) >= cuts[:, :1]) & (np.arange(n) < cuts[:, 1:]))
        queries = _MatrixQueries(_products(*weights), repr(self))
        queries.ordered = True
        return queries

    def matrix(self, n_categories, frequencies=None):
        return grid_of(None, self)


def _products(first: Any, second: Any) -> sparse.csr_array:
    """Return the weights of the cells of a grid, as products of the weights on its two axes.

    There is one row per query.
    """
    products = (np.outer(x, y).reshape(1, -1) for x, y in zip(first, second, strict=True))
    rows = [sparse.csr_array(row, dtype=float) for row in products]
    return sparse.csr_array(sparse.vstack(rows, format="csr"))


def grid_of(domain: Any, queries: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of the bins on both axes of a grid of two numbers.

    Raise ValueError if `domain` is not such a grid.
    """
    ends = getattr(domain, "grid_ends", None)
    if ends is None:
        raise ValueError(
            f"{queries!r} needs an estimate whose categories are the cells of a grid of two "
            "numbers. Pass categories=Domain.grid(x_bins, y_bins) to the oracle."
        )
    return ends


class _TopK(QuerySet):
    depends_on_truth = True
    top: int

    def __init__(self, k: int) -> None:
        self.top = k
        self._text = f"top_k({k})"

    def matrix(self, n_categories, frequencies=None):
        if frequencies is None:
            raise ValueError(
                f"{self!r} asks for the categories with the largest *true* frequencies, which an "
                "estimate does not contain. For the largest estimated frequencies, use "
                f"estimate.top({self.top})."
            )
        _check_room(self, self.top, n_categories)
        top = np.argsort(-np.asarray(frequencies), kind="stable")[: self.top]
        return _sums(top, np.ones(self.top, dtype=int), n_categories)


def _check_room(queries: QuerySet, minimum: int, d: int) -> None:
    """Raise ValueError if the queries need more categories than the domain has.

    `minimum` is the number that the queries need, and `d` the number of categories of the domain.
    """
    if minimum > d:
        raise ValueError(
            f"{queries!r} needs at least {minimum} categories, but the domain has {d} categories. "
            f"Use queries that need at most {d} categories."
        )


def _sums(columns: np.ndarray, sizes: np.ndarray, n_categories: int) -> sparse.csr_array:
    """Return the matrix of queries that add up frequencies, with one row per entry of `sizes`.

    The first query adds up the categories at the first sizes[0] positions in `columns`, the second
    query the categories at the next sizes[1] positions, and so on.
    """
    starts = np.r_[0, np.cumsum(sizes)]
    shape = (len(sizes), n_categories)
    return sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)


#: Query sets, lists of query sets or of categories, mappings of names to lists of categories, or
#: matrices with one query per row.
Queries: TypeAlias = QuerySet | Matrix | Sequence[Any] | Mapping[Any, Any]


def full_domain() -> QuerySet:
    """Ask for the frequency of each single category.

    Returns
    -------
    QuerySet
        One query for each of the d categories.
    """
    return _FullDomain()


def groups(labels: Column | Mapping[Any, Any]) -> QuerySet:
    """Ask for the total frequency of each group of categories.

    Parameters
    ----------
    labels : array-like of shape (d,), mapping, or list of lists
        One of three forms:

        - The label of each category, in the order of the categories, or as a mapping or a pandas
          Series that is indexed by category (in any order). Every category needs a label.
        - A mapping from the name of each group to the list of its categories, such as
          ``{"north": ["a", "b"], "south": ["c"]}``. Categories may be omitted, and groups may
          overlap.
        - A list of such lists; the groups then have no names.

    Returns
    -------
    QuerySet
        One query per group. If labels were passed, the queries are in the order of the sorted
        labels; otherwise in the order of the groups. The queries' `names` are the labels, the keys
        of the mapping, or None.

    Raises
    ------
    ValueError
        If a category has no label, if a group has no category, or if a group contains a category
        twice. The method `answer` of an estimate raises it if a group contains a category that the
        estimate does not have.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate
    >>> from sklearn_ldp.queries import groups
    >>> estimate = FrequencyEstimate([[0.5, 0.25, 0.25]], ["cat", "dog", "trout"])
    >>> answers = estimate.answer(groups(["mammal", "mammal", "fish"]))
    >>> answers
    fish    0.25
    mammal  0.75
    >>> answers.tolist()
    [[0.25, 0.75]]
    >>> estimate.answer(groups({"mammal": ["cat", "dog"], "fish": ["trout"]}))
    mammal  0.75
    fish    0.25
    """
    listed = _listed_groups(labels)
    if listed is not None:
        return listed
    plain = list(labels.values()) if isinstance(labels, Mapping) else labels
    names, codes = group_codes(plain, "groups", "for each category")
    d = len(codes)
    matrix = sparse.csr_array((np.ones(d), (codes, np.arange(d))), shape=(len(names), d))
    text = f"groups({len(names)} of {d} categories)"
    return _MatrixQueries(matrix, text, names, own_categories(labels))


def between(pairs: ArrayLike, *, spread: str = "any") -> QuerySet:
    """Ask for the proportion of users whose number is between two numbers.

    The categories of the estimate must be bins of numbers. If a part of a bin is in the range, the
    answer includes the same proportion of the bin's users, as if their numbers were spread evenly
    in the bin. This is an assumption. The true answer is at least the total frequency of the bins
    that are completely in the range, and at most the total of all bins that overlap with the range.

    Parameters
    ----------
    pairs : array-like of shape (n_queries, 2) or (n_queries, 2, 2)
        Start and stop of each range. The stop is not included: for whole numbers, (20, 40) asks for
        20 to 39. A start may be minus infinity, and a stop infinity. If the categories are a grid
        of two numbers, pass a rectangle for each query: a range of the first number and a range of
        the second number, such as ((20, 40), (0, 100)).
    spread : {"any", "even"}, default="any"
        Assumption of confidence intervals about the numbers in a bin, if only a part of the bin is
        in the range. With "any", the intervals are valid for every distribution of the numbers in
        the bin: they reach from the total of the bins that are completely in the range to the total
        of all overlapping bins. With "even", the intervals assume that the numbers are spread
        evenly in the bin. They are shorter, but wrong if numbers are concentrated at some values,
        such as whole years in bins of one and a half years. If ranges begin and end at edges of
        bins, "any" and "even" give the same intervals. The class `Plan` ignores this uncertainty.

    Returns
    -------
    QuerySet
        One query per range, with a name such as "[20, 40)".

    Raises
    ------
    ValueError
        If there is no range, or if a range is empty. The method `answer` of an estimate raises it
        if the categories are not bins with bounds, or if a range is outside of the bounds.

    Examples
    --------
    >>> from sklearn_ldp import Domain, FrequencyEstimate
    >>> from sklearn_ldp.queries import between
    >>> ages = Domain.bins(4, bounds=(0, 100))
    >>> FrequencyEstimate([[0.3, 0.4, 0.2, 0.1]], ages).answer(between([(20, 40), (65, 100)]))
    [20, 40)   0.3
    [65, 100)  0.18
    """
    array = as_numbers(pairs)
    check_spread(spread, "between")
    if np.isnan(array).any() or None in np.ravel(np.asarray(pairs, dtype=object)).tolist():
        raise ValueError(
            f"between got a missing start or stop in {pairs!r:.80}. Pass -np.inf as the start or "
            "np.inf as the stop of a range with an open end, as in [(65, np.inf)]."
        )
    if array.ndim == 3 and array.shape[1:] == (2, 2) and len(array):
        names = _joined(*map(_names_of_ranges, array.swapaxes(0, 1)))
        return _Rectangles(None, spread, names, f"between({len(array)} rectangles)", array)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise ValueError(
            f"between needs a list of pairs (start, stop), got {pairs!r}. Pass for example "
            "[(20, 40), (65, 100)], or over a grid rectangles such as [((20, 40), (0, 100))]."
        )
    names = _names_of_ranges(array)
    weights = partial(_range_weights, array, names)
    return _OfBins(weights, spread, names, f"between({len(array)} ranges)", array)


def _joined(x_names: list[str], y_names: list[str]) -> list[str]:
    """Return the names of rectangles."""
    return [" x ".join(pair) for pair in zip(x_names, y_names, strict=True)]


def _names_of_ranges(array: np.ndarray, is_whole: bool = False) -> list[str]:
    """Return names of ranges, such as "[20, 40)", or "20 to 39" for whole numbers.

    Raise ValueError if a range is empty.
    """
    is_range = array[:, 0] < array[:, 1]
    if not is_range.all():
        pair = array[~is_range][0].tolist()
        raise ValueError(
            f"between got the empty range {pair}. Pass a stop that is larger than the start."
        )
    if is_whole:
        return range_names(*np.ceil(array).T)
    ends = iter(number_texts(array.ravel().tolist()))
    return [f"[{low}, {high})" for low, high in zip(ends, ends, strict=True)]


def check_spread(spread: str, name: str) -> None:
    """Raise ValueError if `spread` is neither "any" nor "even". `name` is the function's name in
    the message."""
    if spread not in ("any", "even"):
        raise ValueError(f'{name} got spread={spread!r}. Pass spread="any" or spread="even".')


def mean(numbers: Column | Mapping[Any, Any] | None = None, *, spread: str = "any") -> QuerySet:
    """Ask for the mean of users' numbers, where each category represents a number.

    Parameters
    ----------
    numbers : array-like of shape (d,), or mapping, default=None
        The number that each category represents, in the order of the categories. Or a mapping or a
        pandas Series from categories to numbers, in any order. If None, the categories must be bins
        with bounds, and the numbers are the centers of the bins. Without bounds the first and the
        last bin have no center, so you must pass numbers.
    spread : {"any", "even"}, default="any"
        Assumption of confidence intervals about the numbers in a bin, if `numbers` is None. With
        "any", the intervals are valid for every distribution of the numbers in a bin: they reach
        from the mean if all numbers are at the lower ends of their bins to the mean if all are at
        the upper ends. With "even", the intervals assume that the mean of each bin is its center.

    Returns
    -------
    QuerySet
        One query with the name "mean". If the domain clips numbers, the name is for example "mean
        of values clipped to 0 to 100". In both cases ``answers["mean"]`` is the answer.

    Raises
    ------
    ValueError
        If the number of a category is missing or infinite. The method `answer` of an estimate
        raises it if `numbers` is None and the bins have no centers.

    Notes
    -----
    The answer of a post-processed estimate is computed from its post-processed frequencies, so it
    may be biased. If the categories are bins, there is one warning. ``estimate.mean()`` is the mean
    of the raw estimate.

    If the estimated frequencies do not sum to 1, the error of their sum contributes to the error of
    the mean. This contribution is large if the numbers are far from 0.

    Examples
    --------
    >>> from sklearn_ldp import OUE, Domain
    >>> from sklearn_ldp.queries import mean
    >>> ages = Domain.bins([18, 40, 65])
    >>> estimate = OUE(2.0, categories=ages, random_state=0).fit_transform([15, 30, 50, 80] * 2500)
    >>> middles = mean([9, 29, 52.5, 75])
    >>> estimate.answer(middles)
    mean  40.63
    >>> estimate.confidence_interval(0.95, middles)
    ConfidenceInterval of 1 answer
      mean  38.77 to  42.5
    """
    check_spread(spread, "mean")
    if numbers is None:
        return _OfBins(_mean_weights, spread, ["mean"], "mean()")
    row = list(numbers.values()) if isinstance(numbers, Mapping) else as_vector(numbers).tolist()
    if any(is_missing(number) for number in row):
        raise ValueError(
            "mean got a missing number in numbers=. Pass a number for each category. For the mean "
            "of the users who answered, pass the number 0 for the category None, and divide the "
            "answer by 1 - estimate[None]."
        )
    matrix = query_matrix([row]).matrix(len(row))
    return _MatrixQueries(matrix, "mean", ["mean"], own_categories(numbers))


def prefixes() -> QuerySet:
    """Ask for the cumulative distribution: the total frequency of the first 1, 2, .., d categories.

    Returns
    -------
    QuerySet
        d queries. Query i (from 0) is the total frequency of the first i + 1 categories.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate
    >>> from sklearn_ldp.queries import prefixes
    >>> FrequencyEstimate([[0.5, 0.25, 0.25]], ["low", "middle", "high"]).answer(prefixes())
    array([[0.5 , 0.75, 1.  ]])
    """
    return _Prefixes()


def query_matrix(matrix: Matrix) -> QuerySet:
    """Ask for arbitrary weighted sums of the frequencies.

    Parameters
    ----------
    matrix : array-like or sparse matrix of shape (n_queries, d)
        One row per query, with a weight for each category. The answer is the weighted sum of the
        frequencies. If `matrix` is a pandas DataFrame whose columns have the names of the
        categories, the columns may be in any order.

    Returns
    -------
    QuerySet
        The queries.
    """
    categories = own_categories(matrix)
    array: Any = matrix if sparse.issparse(matrix) else np.asarray(matrix, dtype=float)
    if array.ndim != 2 or array.shape[0] == 0:
        raise ValueError(
            f"Queries must be a matrix of shape (n_queries, n_categories), got {array.shape}. Pass "
            "one row per query."
        )
    rows = sparse.csr_array(array, dtype=float, copy=True)
    if not np.all(np.isfinite(rows.data)):
        raise ValueError(
            "The matrix of queries contains NaN or infinity. Pass finite weights, and the weight 0 "
            "for categories that a query does not contain."
        )
    return _MatrixQueries(rows, categories=categories)


def random_sets(size: float, *, n_sets: int = 100, random_state: RandomState = 0) -> QuerySet:
    """Ask for the total frequency of random sets of categories.

    Each set is drawn without replacement. For the mean squared error, the metrics do not draw sets:
    a formula gives the exact mean over *all* sets of the given size. Sets are drawn only if there
    is no formula, which is the case for absolute errors and for answers clipped by PostPos.

    Parameters
    ----------
    size : float or int
        Size of each set. An int is a number of categories. A float in (0, 1] is a fraction of the
        number of all categories.
    n_sets : int, default=100
        Number of sets that are drawn if there is no formula.
    random_state : int, RandomState, Generator or None, default=0
        Seed with which the sets are drawn. The same object always draws the same sets.

    Returns
    -------
    QuerySet
        The queries.

    Raises
    ------
    ValueError
        If the size is neither a fraction in (0, 1] nor a positive integer.
    """
    is_fraction = isinstance(size, Real) and not isinstance(size, Integral) and 0 < size <= 1
    if not (_is_count(size) or is_fraction):
        raise ValueError(
            f"random_sets got size={size!r}. Pass a number of categories (an int >= 1), or a "
            "fraction of the domain in (0, 1]."
        )
    if not _is_count(n_sets):
        raise ValueError(f"random_sets got n_sets={n_sets!r}. Pass an integer >= 1.")
    # The seed is fixed here, so that a query set always draws the same sets.
    if not isinstance(random_state, Integral):
        random_state = int(as_generator(random_state).integers(1 << 32))
    return _RandomSets(size, n_sets, int(random_state))


def ranges(bounds: int | ArrayLike) -> QuerySet:
    """Ask for the total frequency of each of several ranges of consecutive categories.

    Parameters
    ----------
    bounds : int or array-like of shape (n_ranges, 2)
        Either an int, the number of ranges: the categories are then divided into so many ranges of
        nearly equal numbers of categories. Or the start and the stop of each range, as positions of
        categories. The first category has position 0, and a range does not include its stop.

    Returns
    -------
    QuerySet
        One query per range.

    Raises
    ------
    ValueError
        If there is no range, or if a range is empty.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate
    >>> from sklearn_ldp.queries import ranges
    >>> estimate = FrequencyEstimate([[0.5, 0.25, 0.125, 0.125]], range(4))
    >>> estimate.answer(ranges(2))
    array([[0.75, 0.25]])
    >>> estimate.answer(ranges([(0, 3), (1, 4)]))
    array([[0.875, 0.5  ]])
    """
    if isinstance(bounds, Integral):
        if not _is_count(bounds):
            raise ValueError(f"ranges needs at least one range, got {bounds!r}. Pass one or more.")
        return _Ranges(int(bounds))
    pairs = np.asarray(bounds)
    if pairs.ndim != 2 or pairs.shape[1:] != (2,) or not len(pairs) or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"ranges got bounds={bounds!r}. Pass the number of ranges as an int, or a list of "
            "pairs of integers: the positions at which each range starts and stops."
        )
    is_range = (pairs[:, 0] >= 0) & (pairs[:, 0] < pairs[:, 1])
    if not is_range.all():
        pair = pairs[~is_range][0].tolist()
        raise ValueError(
            f"ranges got the start and stop {pair}. Pass positions with 0 <= start < stop."
        )
    return _Ranges(pairs.astype(np.int64))


def rectangles(n_rectangles: int = 100, *, random_state: RandomState = 0) -> QuerySet:
    """Ask for the proportion of users in random rectangles of a grid of two numbers.

    On each axis, the start and the stop of a rectangle are two different edges of bins, which are
    drawn uniformly.

    Parameters
    ----------
    n_rectangles : int, default=100
        Number of rectangles.
    random_state : int, RandomState, Generator or None, default=0
        Seed with which the rectangles are drawn. The same object always draws the same rectangles.

    Returns
    -------
    QuerySet
        The queries, for estimates whose categories are a :meth:`~sklearn_ldp.Domain.grid`.

    Raises
    ------
    ValueError
        If `n_rectangles` is not a positive integer. The method `answer` of an estimate raises it if
        the categories are not the cells of a grid.

    Examples
    --------
    >>> from sklearn_ldp import Domain, FrequencyEstimate
    >>> from sklearn_ldp.queries import rectangles
    >>> halves = Domain.bins(2, bounds=(0, 1))
    >>> estimate = FrequencyEstimate([[0.5, 0.25, 0.125, 0.125]], Domain.grid(halves, halves))
    >>> estimate.answer(rectangles(2, random_state=1)).shape
    (1, 2)
    """
    if not _is_count(n_rectangles):
        raise ValueError(f"rectangles got n_rectangles={n_rectangles!r}. Pass an integer >= 1.")
    if not isinstance(random_state, Integral):
        random_state = int(as_generator(random_state).integers(1 << 32))
    return _RandomRectangles(int(n_rectangles), int(random_state))


def densest(estimate: Any, shares: ArrayLike = 0.5) -> QuerySet:
    """Ask for the proportion of users in the smallest area that contains a share of an estimate.

    The area consists of the bins or cells with the largest densities. On logarithmic bins a density
    is a frequency per factor of 10, as in plots. Categories without numbers all have the area 1.

    The estimate selects the area, so intervals of the same reports are not valid for the area. Ask
    other users instead, see the example. Intervals of the same estimate raise an error. Intervals
    of an estimate that contains some of the same reports are not recognized.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (1, d)
        A post-processed estimate without negative frequencies.
    shares : float or array-like of shape (n_queries,), default=0.5
        The share of each area, in (0, 1). The whole area contains at least this share.

    Returns
    -------
    QuerySet
        One query for each share, with a name such as "densest 50 %".

    Raises
    ------
    ValueError
        If there are several estimates, if a frequency is negative, or if a share is not in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import Domain, RangeOracle, SmoothMLE
    >>> from sklearn_ldp.queries import densest
    >>> axis = Domain.bins(16, bounds=(-4, 4), clip=True)
    >>> users = np.random.default_rng(0).normal(size=(40_000, 2))
    >>> oracle = RangeOracle(1.0, categories=Domain.grid(axis, axis), random_state=0)
    >>> raw = oracle.fit_transform(users)
    >>> area = densest(SmoothMLE().fit_transform(raw.of_shards(range(5))))
    >>> interval = raw.of_shards(range(5, 10)).confidence_interval(0.95, area)
    >>> interval.names, bool(interval.high[0, 0] - interval.low[0, 0] < 0.4)
    (['densest 50 %'], True)
    """
    values = np.asarray(estimate.values)
    targets = np.atleast_1d(as_numbers(shares))
    if len(values) != 1 or values.min() < 0:
        raise ValueError(
            f"densest needs one estimate without negative frequencies, got {len(values)} with the "
            f"minimum {values.min():.2g}. Select one row, and post-process it, as with SmoothMLE()."
        )
    if targets.ndim != 1 or not targets.size or not np.all((targets > 0) & (targets < 1)):
        raise ValueError(f"densest needs shares in (0, 1), got {shares!r}. Half of all is 0.5.")
    order = np.argsort(-values[0] / _areas(estimate.domain), kind="stable")
    totals = np.cumsum(values[0, order])
    sizes = np.searchsorted(totals, (1 - 1e-9) * targets * totals[-1]) + 1
    columns = np.concatenate([order[:size] for size in sizes])
    names = [f"densest {100 * share:g} %" for share in targets]
    matrix = _sums(columns, sizes, values.size)
    queries = _MatrixQueries(matrix, f"densest({shares!r})", names, estimate.categories)
    queries.selected_by = estimate.as_raw().values[0]
    return queries


def _areas(domain: Domain | None) -> np.ndarray | float:
    """Return the area of each cell, or the width of each bin; 1 for other categories."""
    ends = getattr(domain, "grid_ends", None) or (getattr(domain, "ends", None),)
    widths = [1.0 if axis is None else bin_widths(axis) for axis in ends]
    return np.ravel(np.multiply.outer(*widths)) if len(widths) == 2 else widths[0]


def top_k(k: int) -> QuerySet:
    """Ask for the frequencies of the `k` categories with the largest true frequencies.

    Parameters
    ----------
    k : int
        Number of categories.

    Returns
    -------
    QuerySet
        k queries of one category each. They need the true frequencies. So you can pass them to
        metrics, and `FrequencyEstimate.answer` raises an error.
    """
    if not _is_count(k):
        raise ValueError(f"top_k got k={k!r}. Pass an integer >= 1.")
    return _TopK(int(k))


def _is_count(k: object) -> bool:
    return isinstance(k, Integral) and not isinstance(k, bool) and int(k) >= 1


#: The functions that return queries, with their arguments in an example.
_FUNCTIONS = {
    "between": "[(20, 30)]",
    "full_domain": "",
    "mean": "",
    "prefixes": "",
    "ranges": "10",
    "top_k": "10",
}


def as_query_set(queries: Queries | None) -> QuerySet:
    """Convert an argument `queries` to a query set.

    Parameters
    ----------
    queries : QuerySet, list, mapping, (sparse) matrix of shape (n_queries, d), or None
        If None, each single category is a query. Each row of a matrix is a query. Each item of a
        list is a category or a query set. A mapping has the same meaning as in the function
        `groups`.

    Returns
    -------
    QuerySet
        The queries.

    Raises
    ------
    TypeError
        If `queries` has another type.
    ValueError
        If a list contains a category more than once, or ``top_k(k)`` and other query sets.
    """
    if queries is None:
        return full_domain()
    if isinstance(queries, QuerySet):
        return queries
    if isinstance(queries, Mapping):
        if any(isinstance(value, QuerySet | None) for value in queries.values()):
            raise TypeError(
                f"The queries {queries!r} are a mapping from the names of estimates to queries, "
                "but they were passed for a single estimate. Pass the queries for this estimate."
            )
        return groups(queries)
    items: Any = queries
    is_list = isinstance(items, Sequence) and not isinstance(items, str | bytes)
    if is_list and any(isinstance(item, QuerySet) for item in items):
        return _SeveralSets(items) if len(items) > 1 else items[0]
    if (is_list and _is_category(items)) or getattr(items, "ndim", None) == 1:
        return _listed_categories(items)
    if sparse.issparse(items) or is_list or hasattr(items, "__array__"):
        return query_matrix(items)
    remedy = "one of these"
    if isinstance(queries, str) and queries in _FUNCTIONS:
        remedy = f"{queries}({_FUNCTIONS[queries]}) from sklearn_ldp.queries, without quotes"
    raise TypeError(
        "Queries must be an object from sklearn_ldp.queries, a list of categories or of such "
        'objects, a mapping such as {"north": ["a", "b"]}, or a matrix of shape (n_queries, '
        f"n_categories), got {type(queries).__name__}. Pass {remedy}."
    )


def _is_category(queries: Sequence[Any]) -> bool:
    """Return whether the first item of a list is a category. Otherwise it is a row of a matrix."""
    first = queries[0] if len(queries) else []
    if isinstance(first, tuple):  # a category of several columns
        return not all(isinstance(part, Real) for part in first)
    return np.ndim(first) == 0
