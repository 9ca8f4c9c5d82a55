"""Scorers that compare a fitted pipeline's estimate with users who were left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._estimate_set import EstimateSet
from .._utils.fitted import estimate_of
from .._typing import Metric, Queries, Values
from ..oracles import PrivacyWarning
from ..queries import QuerySet, as_query_set
from ._errors import METRICS, of_each_part, query_errors
from ._scorer import BaseScorer, mean_over_parts, oracle_and_its_input


def make_frequency_scorer(
    metric: str = "mse", *, queries: Queries | None = None
) -> FrequencyScorer:
    """Make a scorer for GridSearchCV, cross_validate and similar tools.

    The score is minus the error of the fitted estimate, compared with the true frequencies among
    the users who were left out; of a survey, minus the mean error of its columns, weighted by its
    `weights`. The scorer reads raw values, so it is for simulations.

    Privacy: scoring itself randomises no values, but the score is a function of the raw values of
    the users who were left out. And in a search every fold and every candidate is a new collection
    from the same users, who spend epsilon each time. If the oracle has ``random_state=None``, which
    is for real users, the scorer gives a :class:`~sklearn_ldp.PrivacyWarning`: once per scorer, and
    with ``n_jobs`` once in each process. For a simulation, give the oracle a seed.

    In a search over a Pipeline, weights (numbers of users) reach the scorer only through
    scikit-learn's metadata routing, see the second example. Without it,
    ``GridSearchCV.fit(X, oracle__sample_weight=...)`` weights the estimate and not the truth, and
    the scorer warns of it.

    Parameters
    ----------
    metric : {"mse", "mae"}, default="mse"
        Mean squared or mean absolute error of the answers.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.

    Returns
    -------
    callable
        ``scorer(estimator, X, y=None, sample_weight=None) -> float``; greater is better. The
        weights are the numbers of users of each row, as in the oracle's `fit`.
        ``scorer.set_score_request(sample_weight=True)`` asks metadata routing for them.

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

    A search over a histogram, whose rows hold many users each:

    >>> import numpy as np
    >>> from sklearn import config_context
    >>> from sklearn.model_selection import GridSearchCV
    >>> rows, n_users = np.unique(np.c_[values, np.arange(1000) % 2], axis=0, return_counts=True)
    >>> with config_context(enable_metadata_routing=True):
    ...     oracle = GRR(categories=8, random_state=0).set_fit_request(sample_weight=True)
    ...     scorer = make_frequency_scorer().set_score_request(sample_weight=True)
    ...     search = GridSearchCV(
    ...         make_pipeline(oracle, NormSub()),
    ...         {"grr__epsilon": [0.5, 4.0]},
    ...         scoring=scorer,
    ...         cv=[(rows[:, 1] == 0, rows[:, 1] == 1)],
    ...     ).fit(rows[:, 0], sample_weight=n_users)
    >>> search.best_params_
    {'grr__epsilon': 4.0}
    """
    if metric not in METRICS:
        raise ValueError(f"Argument metric must be one of {METRICS}, got {metric!r}.")
    return FrequencyScorer(metric, as_query_set(queries))


class FrequencyScorer(BaseScorer):
    """The scorer that `make_frequency_scorer` returns; it is a class so that it can be pickled."""

    def __init__(self, metric: Metric, queries: QuerySet) -> None:
        super().__init__()
        self.metric = metric
        self.queries = queries

    @property
    def __name__(self) -> str:
        return f"neg_frequency_{self.metric}"

    def __call__(
        self,
        estimator: BaseEstimator,
        X: Values,
        y: object = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        oracle, X = oracle_and_its_input(estimator, X)
        if oracle.input == "reports":
            raise ValueError(
                "A frequency scorer compares with raw values, but this pipeline reads reports: "
                "score it with make_held_out_scorer, use a pipeline that reads values (for "
                "simulations), or choose with SyntheticSearch or HeldOutSearch, which need no raw "
                "values."
            )
        estimate = estimate_of(estimator)
        self._warn_of_lost_weights(oracle, sample_weight)
        if oracle.random_state is None:
            self._warn_once(
                f"A frequency scorer reads users' raw values, and this {type(oracle).__name__} has "
                "random_state=None, which is for real users: in a search each of them spends "
                "epsilon again for every candidate and every fold. For a simulation give the "
                "oracle a seed; for real users collect once, and score the reports with "
                "make_held_out_scorer.",
                PrivacyWarning,
            )
        truth = oracle.true_frequencies(X, sample_weight)
        if isinstance(estimate, EstimateSet):
            of_parts = of_each_part(
                query_errors, truth, estimate, queries=self.queries, metric=self.metric
            )
            means = {name: float(np.mean(errors)) for name, errors in of_parts.items()}
            return -mean_over_parts(means, oracle)
        errors = query_errors(truth, estimate, queries=self.queries, metric=self.metric)
        return -float(np.mean(errors))

    def __repr__(self) -> str:
        return f"make_frequency_scorer({self.metric!r}, queries={self.queries!r})"
