"""What will be asked of an estimate, as far as it helps to make it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..queries import as_query_set, query_matrix
from ._partitions import Partition, are_disjoint, as_partitions

_MOST_PARTITIONS = 8  # into which sets that overlap are sorted
_RANGES = (5, 10, 20, 40, 80, 160)  # numbers of ranges into which an ordered domain is divided
_SMALLEST_RANGE = 3  # categories


class Asked(NamedTuple):
    """What a prior may depend on, and whether the answer is about the most frequent only.

    Parameters
    ----------
    partitions : list of Partition
        Groups in which frequencies may differ.
    ordered : bool
        Whether neighbouring categories may have similar frequencies.
    top : int or None
        If given, only the frequencies of so many categories will be asked for: the largest.
    """

    partitions: list[Partition]
    ordered: bool
    top: int | None


def asked_by(queries: Any, categories: np.ndarray, name: str) -> Asked:
    """Return what a parameter `queries` says about the estimate that is wanted.

    Parameters
    ----------
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        What will be asked.
    categories : ndarray of shape (d,)
        The domain.
    name : str
        The class to name in errors.

    Returns
    -------
    Asked
        Nothing, if all categories are treated alike.
    """
    query_set, d = as_query_set(queries).aligned(categories), len(categories)
    if query_set.top is not None:
        query_set.matrix(d, np.zeros(d))  # refuses more than there are
        return Asked([], False, query_set.top)
    if query_set.square_weights(d) is not None:
        return Asked([], False, None)
    sets = _disjoint_sets(query_set.matrix(d))
    named = [query_set] if len(sets) == 1 and query_set.names else [query_matrix(s) for s in sets]
    partitions = [p for one in named for p in as_partitions(one, categories, name)]
    return Asked([p for p in partitions if 1 < len(p.names) < d], query_set.ordered, None)


def range_partitions(categories: np.ndarray) -> list[Partition]:
    """Return divisions of an ordered domain into ranges of nearly equal numbers of categories.

    Parameters
    ----------
    categories : ndarray of shape (d,)
        The domain, in its order.

    Returns
    -------
    list of Partition
        The name of a range are its first and last category. There are none if d is very small.
    """
    d = len(categories)
    numbers = [n for n in _RANGES if n * _SMALLEST_RANGE <= d]
    if not numbers and d >= 2 * _SMALLEST_RANGE:
        numbers = [2]
    result = []
    for n in numbers:
        codes = np.arange(d) * n // d
        edges = np.searchsorted(codes, np.arange(n + 1))
        names = list(zip(categories[edges[:-1]], categories[edges[1:] - 1], strict=True))
        result.append(Partition(codes, names))
    return result


def _disjoint_sets(matrix: sparse.csr_array) -> list[sparse.csr_array]:
    """Sort 0/1 queries into matrices of disjoint ones; none if they are other queries."""
    if not np.all(matrix.data == 1):
        return []
    if are_disjoint(matrix):
        return [matrix]
    free: list[np.ndarray] = []
    rows: list[list[int]] = []
    for i in range(matrix.shape[0]):
        columns = matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]
        place = next((k for k, one in enumerate(free) if np.all(one[columns])), len(free))
        if place == _MOST_PARTITIONS:
            return []
        if place == len(free):
            free.append(np.ones(matrix.shape[1], dtype=bool))
            rows.append([])
        free[place][columns] = False
        rows[place].append(i)
    return [matrix[chosen] for chosen in rows]
