"""The groups, the order and the k of `top_k` that parameters and queries specify for a prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from ..._core.common.typing import Column
from ..._core.estimates import FrequencyEstimate
from ..._core.queries import QuerySet, as_query_set, query_matrix
from ..._core.queries import groups as groups_by

# Chosen with the constants of `postprocessing/_empirical_bayes/group_priors.py`.
_MOST_PARTITIONS = 8  # into which overlapping sets are sorted
_RANGES = (5, 10, 20, 40, 80, 160)  # numbers of ranges into which an ordered domain is divided
_SMALLEST_RANGE = 3  # categories


#: The group of each category, a query set of disjoint groups, or a list of several groupings.
Grouping: TypeAlias = Column | Mapping[Any, Any] | QuerySet | Sequence[Any]


class Partition(NamedTuple):
    """Disjoint groups of categories, such that each category belongs to exactly one group."""

    codes: np.ndarray  # (d,): the group of each category
    names: list  # the names of the groups, which are not empty

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return, for each group, the sum of its categories' values, of shape (n_groups,)."""
        return np.bincount(self.codes, weights=values, minlength=len(self.names))

    def rows(self) -> sparse.csr_array:
        """Return the sparse 0/1 matrix of the queries for the totals, of shape (n_groups, d).

        An entry is 1 if the category (column) belongs to the group (row).
        """
        d = len(self.codes)
        shape = (len(self.names), d)
        return sparse.csr_array((np.ones(d), (self.codes, np.arange(d))), shape=shape)

    def sizes(self) -> np.ndarray:
        """Return the number of categories in each group, of shape (n_groups,)."""
        return np.bincount(self.codes, minlength=len(self.names))


def as_partitions(groups: Any, categories: np.ndarray, name: str) -> list[Partition]:
    """Convert a parameter `groups` to a list of partitions of the categories.

    groups: one grouping, or a list of several groupings. A grouping is an array with the group of
    each category, a mapping from categories to groups, or a query set of disjoint groups.
    Categories that are in no group of a query set form an additional group.
    categories: the categories, of shape (d,). name: class name of the caller, for error messages.
    """
    first = groups[0] if isinstance(groups, list | tuple) and len(groups) else None
    are_several = isinstance(first, list | np.ndarray | Mapping | QuerySet)
    if not (are_several or hasattr(first, "iloc")):
        groups = [groups]
    return [_partition(grouping, categories, name) for grouping in groups]


def are_disjoint(matrix: sparse.csr_array) -> bool:
    """Return whether each row of `matrix` sums a group of categories, and the groups are disjoint.

    matrix: queries, of shape (n_queries, d).
    """
    return bool(np.all(matrix.data == 1)) and len(np.unique(matrix.indices)) == matrix.nnz


def _partition(groups: Any, categories: np.ndarray, name: str) -> Partition:
    query_set = groups if isinstance(groups, QuerySet) else groups_by(groups)
    d = len(categories)
    if query_set.depends_on_truth:
        raise ValueError(
            f"{name}: groups must list their categories, but the categories of {query_set!r} "
            "depend on the true frequencies. Pass groups(labels) with one label per category, or a "
            "list of several such query sets."
        )
    matrix = query_set.aligned(categories).matrix(d)
    if not are_disjoint(matrix):
        raise ValueError(
            f"{name}: each query must be the total of a group, and each category may be in at most "
            f"one group, got {query_set!r}. Pass groups(labels) with one label per category, or a "
            "list of several such query sets."
        )
    codes = np.full(d, matrix.shape[0])
    columns = matrix.tocoo()
    codes[columns.col] = columns.row
    names = [*(query_set.names or range(matrix.shape[0])), None]
    used, codes = np.unique(codes, return_inverse=True)
    return Partition(codes, [names[i] for i in used])


def range_partitions(categories: np.ndarray, place: int | None = None) -> list[Partition]:
    """Return several divisions of an ordered domain into ranges of nearly equal length.

    categories: the categories in their order, of shape (d,).
    Returns: a list of partitions into 5, 10, 20, 40, 80 and 160 ranges. Numbers of ranges that
    would have fewer than 3 categories per range are left out. For 6 to 14 categories there is one
    partition into 2 ranges, and for fewer categories the list is empty. The name of a range is the
    pair of its first and its last category. place: the position of the missing answers, which are
    a range of their own; None if there are none.
    """
    missing = categories if place is None else categories[[place]]
    categories = categories if place is None else np.delete(categories, place)
    d = len(categories)
    numbers = [n for n in _RANGES if n * _SMALLEST_RANGE <= d]
    if not numbers and d >= 2 * _SMALLEST_RANGE:
        numbers = [2]
    result = []
    for n in numbers:
        codes = np.arange(d) * n // d
        edges = np.searchsorted(codes, np.arange(n + 1))
        names = list(zip(categories[edges[:-1]], categories[edges[1:] - 1], strict=True))
        if place is not None:
            codes = np.insert(codes, place, n)
            names.append((missing[0], missing[0]))
        result.append(Partition(codes, names))
    return result


def _disjoint_sets(matrix: sparse.csr_array) -> list[sparse.csr_array]:
    """Distribute the rows of a matrix of queries over several matrices without overlapping rows.

    Two rows overlap if both contain the same category. Return the list of the matrices. Return an
    empty list if more than `_MOST_PARTITIONS` matrices would be needed, or if a weight is not 1.
    """
    if not np.all(matrix.data == 1):
        return []
    if are_disjoint(matrix):
        return [matrix]
    free = np.ones((_MOST_PARTITIONS, matrix.shape[1]), dtype=bool)
    rows: list[list[int]] = [[] for _ in free]
    for i in range(matrix.shape[0]):
        columns = matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]
        has_room = free[:, columns].all(axis=1)
        if not has_room.any():
            return []
        place = np.argmax(has_room)
        free[place, columns] = False
        rows[place].append(i)
    return [matrix[chosen] for chosen in rows if chosen]


class QueryHints(NamedTuple):
    """The information that queries contain for the choice of a prior.

    partitions: divisions of the categories into groups whose frequencies may differ.
    ordered: whether neighboring categories may have similar frequencies. top: the k of `top_k`.
    """

    partitions: list[Partition]  # groups in which frequencies may differ
    ordered: bool  # whether neighboring categories may have similar frequencies
    top: int | None  # the k of a `top_k` query; None for other queries

    @classmethod
    def of(cls, queries: Any, estimate: FrequencyEstimate, name: str) -> QueryHints:
        """Return the information that a parameter `queries` contains for the prior of an estimate.

        queries: a query set, a list of query sets, a matrix of shape (n_queries, d), or None.
        name: class name of the caller, for error messages.
        """
        categories = estimate.categories
        d = len(categories)
        query_set = as_query_set(queries).aligned(categories, estimate.domain)
        if query_set.parts:
            parts = [cls.of(part, estimate, name) for part in query_set.parts]
            distinct = {p.codes.tobytes(): p for part in parts for p in part.partitions}
            return cls([*distinct.values()], any(part.ordered for part in parts), None)
        if query_set.top is not None:
            query_set.matrix(d, np.zeros(d))  # refuses k > d
            return cls([], False, query_set.top)
        if query_set.square_weights(d) is not None:
            return cls([], False, None)
        matrix = query_set.matrix(d)
        # Single categories are no groups.
        sets = _disjoint_sets(matrix) if np.any(np.diff(matrix.indptr) > 1) else []
        named = len(sets) == 1 and query_set.names
        groupings = [query_set] if named else [query_matrix(matrix) for matrix in sets]
        partitions = [p for groups in groupings for p in as_partitions(groups, categories, name)]
        return cls([p for p in partitions if 1 < len(p.names) < d], query_set.ordered, None)
