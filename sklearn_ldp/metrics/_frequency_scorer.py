"""Scorers that compare a fitted pipeline's estimate with users who were left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from .._released import estimate_of
from ..oracles import BaseOracle
from ..queries import as_query_set
from ._errors import METRICS, query_errors


def make_frequency_scorer(metric: str = "mse", *, queries: Any = None) -> FrequencyScorer:
    """Make a scorer for GridSearchCV, cross_validate and similar tools.

    The score is minus the error of the fitted estimate, compared with the true frequencies among
    the users who were left out. The scorer reads raw values, so it is for simulations.

    Privacy: scoring itself randomises no values, but the score is a function of the raw values of
    the users who were left out. And in a search every fold and every candidate is a new collection
    from the same users, who spend epsilon each time.

    Parameters
    ----------
    metric : {"mse", "mae"}, default="mse"
        Mean squared or mean absolute error of the answers.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.

    Returns
    -------
    callable
        ``scorer(estimator, X, y=None) -> float``; greater is better.

    See Also
    --------
    make_held_out_scorer : For pipelines that read reports; it costs no privacy.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_ldp import GRR, NormSub
    >>> from sklearn_ldp.datasets import make_zipf
    >>> from sklearn_ldp.metrics import make_frequency_scorer
    >>> values = make_zipf(n_samples=1000, n_categories=8, random_state=0)
    >>> pipe = make_pipeline(GRR(categories=8, random_state=0), NormSub())
    >>> scores = cross_val_score(pipe, values, cv=2, scoring=make_frequency_scorer("mse"))
    >>> bool((scores < 0).all())
    True
    """
    if metric not in METRICS:
        raise ValueError(f"Argument metric must be one of {METRICS}, got {metric!r}.")
    return FrequencyScorer(metric, as_query_set(queries))


class FrequencyScorer:
    """The scorer that `make_frequency_scorer` returns; it is a class so that it can be pickled."""

    def __init__(self, metric, queries):
        self.metric = metric
        self.queries = queries

    def __call__(self, estimator, X, y=None):
        oracle, X = oracle_and_its_input(estimator, X)
        if oracle.input == "reports":
            raise ValueError(
                "A frequency scorer compares with raw values, but this pipeline reads reports: "
                "score it with make_held_out_scorer, use a pipeline that reads values (for "
                "simulations), or choose with SyntheticSearch or HeldOutSearch, which need no raw "
                "values."
            )
        estimate = estimate_of(estimator)
        errors = query_errors(
            oracle.true_frequencies(X), estimate, queries=self.queries, metric=self.metric
        )
        return -float(np.mean(errors))

    def __repr__(self):
        return f"make_frequency_scorer({self.metric!r}, queries={self.queries!r})"


def oracle_and_its_input(estimator, X):
    """Return the oracle inside an estimator, and X as the oracle receives it."""
    if hasattr(estimator, "best_estimator_"):  # GridSearchCV and similar tools
        return oracle_and_its_input(estimator.best_estimator_, X)
    if isinstance(estimator, BaseOracle):
        return estimator, X
    steps = estimator.steps if isinstance(estimator, Pipeline) else []
    for i, (_, step) in enumerate(steps):
        if isinstance(step, BaseOracle):
            return step, estimator[:i].transform(X) if i else X
    raise TypeError(
        "Scoring frequencies needs an oracle, or a Pipeline with an oracle among its steps, got "
        f"{type(estimator).__name__}."
    )
