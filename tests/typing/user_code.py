"""Code of a user, checked by mypy --strict and by pyright in `make lint` (nobody runs it).

`assert_type` says what an editor has to show. A line with `ignore` is a mistake that has to be found: both checkers report an
`ignore` that nothing needs. As scikit-learn's base classes have no types, mypy takes any attribute and any argument that they
might have, so some mistakes are found by pyright only.
"""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np

import sklearn_ldp
from sklearn_ldp import (
    GRR,
    OLH,
    EmpiricalBayes,
    FrequencyEstimate,
    NormSub,
    SyntheticSearch,
    best_oracle,
)
from sklearn_ldp.collection import Aggregator
from sklearn_ldp.queries import QuerySet, groups

values = ["firefox", "edge", "edge"]
oracle = OLH(epsilon=1.0, categories=["edge", "firefox", "safari"])

# One value per user in, an estimate out; a fitted oracle is the oracle that was fitted.
assert_type(oracle, OLH)
assert_type(oracle.fit(values), OLH)
assert_type(oracle.partial_fit(values).merge(OLH(epsilon=1.0)), OLH)
assert_type(oracle.estimate_, FrequencyEstimate)
assert_type(oracle.fit_transform(values), FrequencyEstimate)
assert_type(GRR(1.0).aggregate(oracle.privatize(values)), GRR)

# An estimate gives an estimate, and an array an array.
assert_type(NormSub().fit_transform(oracle.estimate_), FrequencyEstimate)
assert_type(EmpiricalBayes().fit(oracle.estimate_).transform(oracle.estimate_), FrequencyEstimate)
array: np.ndarray[Any, np.dtype[np.float64]] = np.array([0.5, 0.6])
assert_type(NormSub().fit_transform(array).shape, tuple[Any, ...])

# What a reader takes from an estimate.
estimate = oracle.estimate_
low: np.ndarray = estimate.confidence_interval(0.95).low
best: list[tuple[Any, float]] = estimate.top(3)
queries: QuerySet = groups({"made by one company": ["edge", "safari"]})
search = SyntheticSearch(queries=queries).fit(estimate)
assert_type(search, SyntheticSearch)
assert_type(search.estimate_, FrequencyEstimate)

# The calls of a server.
server = Aggregator(oracle)
counts: int = server.n_samples
factory: Callable[[float], sklearn_ldp.OLH] = OLH
users: np.ndarray = sklearn_ldp.datasets.make_zipf(10, 100)

# Mistakes that both find.
OLH(eps=1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
OLH(1.0, random_state="0")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
OLH("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
estimate.confidence_interval("95")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
NormSub().fit_transform(oracle.estimate_).privatize  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
sklearn_ldp.OHL  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
best_oracle("one", 100)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Mistakes that pyright finds.
NormSub(3)  # pyright: ignore[reportCallIssue]
oracle.fit_transfrom(values)  # pyright: ignore[reportAttributeAccessIssue]
search.best_estimate  # pyright: ignore[reportAttributeAccessIssue]
