"""Groups of categories, as the parameter `groups` of a post-processor describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._noise import as_rows
from ..queries import QuerySet
from ..queries import groups as groups_by


class Partition(NamedTuple):
    """Groups that each category belongs to one of.

    Parameters
    ----------
    codes : ndarray of shape (d,)
        The group of each category.
    names : list
        The names of the groups; none of them is empty.
    """

    codes: np.ndarray
    names: list

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum over each group, of shape (n_groups,)."""
        return np.bincount(self.codes, weights=values, minlength=len(self.names))

    def rows(self) -> sparse.csr_array:
        """Return the queries for the totals, of shape (n_groups, d)."""
        d = len(self.codes)
        shape = (len(self.names), d)
        return as_rows(sparse.csr_array((np.ones(d), (self.codes, np.arange(d))), shape=shape))

    def sizes(self) -> np.ndarray:
        """Return the number of categories of each group."""
        return np.bincount(self.codes, minlength=len(self.names))


def as_partitions(groups: Any, categories: np.ndarray, name: str) -> list[Partition]:
    """Return the partitions that a parameter `groups` stands for.

    Parameters
    ----------
    groups : array-like of shape (d,), mapping, query set, or list of those
        Labels of the categories, or disjoint groups of them. Categories in none of the groups of a
        query set form another one.
    categories : ndarray of shape (d,)
        The domain.
    name : str
        The class to name in errors.

    Returns
    -------
    list of Partition
        At least one.

    Raises
    ------
    ValueError
        If there is not one label for each category, or a query set is not one of disjoint groups.
    """
    several = isinstance(groups, list | tuple) and len(groups) > 0 and _is_grouping(groups[0])
    return [_partition(one, categories, name) for one in (groups if several else [groups])]


def are_disjoint(matrix: sparse.csr_array) -> bool:
    """Whether queries ask for the totals of groups that have no category in common."""
    return bool(np.all(matrix.data == 1)) and len(np.unique(matrix.indices)) == matrix.nnz


def _is_grouping(item: Any) -> bool:
    return isinstance(item, list | np.ndarray | Mapping | QuerySet) or hasattr(item, "iloc")


def _partition(groups: Any, categories: np.ndarray, name: str) -> Partition:
    query_set = groups if isinstance(groups, QuerySet) else groups_by(groups)
    d = len(categories)
    if query_set.depends_on_truth:
        raise ValueError(f"{name} needs groups of named categories, got {query_set!r}.")
    matrix = query_set.aligned(categories).matrix(d)
    if not are_disjoint(matrix):
        raise ValueError(
            f"{name} needs groups in which each category occurs at most once, got {query_set!r}: "
            "give one label for each category, groups(labels), or a list of several such labels."
        )
    codes = np.full(d, matrix.shape[0])
    columns = matrix.tocoo()
    codes[columns.col] = columns.row
    names: list[Any] = list(query_set.names or range(matrix.shape[0]))
    is_used = np.bincount(codes, minlength=len(names) + 1) > 0
    names = [name for name, used in zip([*names, None], is_used, strict=True) if used]
    return Partition((np.cumsum(is_used) - 1)[codes], names)
