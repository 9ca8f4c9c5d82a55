"""Queries to a distribution: each query is the total frequency of a set of categories.

``matrix(d)`` turns a query set into a sparse 0/1 matrix of shape ``(n_queries, d)``, and
``estimate.answer(query_set)`` multiplies the matrix by the estimate. Queries do not depend on
oracles.
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
