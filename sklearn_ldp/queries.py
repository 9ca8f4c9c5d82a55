"""Queries about a distribution: most queries ask for the total frequency of some categories.

A query set is a list of queries. ``estimate.answer(query_set)`` answers all of them.
``query_set.matrix(d)`` returns them as a sparse matrix of shape ``(n_queries, d)``, with one
weight for each of the d categories. Queries do not depend on oracles.
"""

from ._core.queries import (
    Answers,
    Queries,
    QuerySet,
    as_query_set,
    between,
    densest,
    full_domain,
    groups,
    mean,
    prefixes,
    query_matrix,
    random_sets,
    ranges,
    rectangles,
    top_k,
)

__all__ = [
    "Answers",
    "Queries",
    "QuerySet",
    "as_query_set",
    "between",
    "densest",
    "full_domain",
    "groups",
    "mean",
    "prefixes",
    "query_matrix",
    "random_sets",
    "ranges",
    "rectangles",
    "top_k",
]
