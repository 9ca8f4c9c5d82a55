"""Scorers of pipelines. They use the raw values or the reports of held-out users."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from .._core.common.fitted import estimate_of
from .._core.common.privacy import PrivacyWarning
from .._core.common.scorers import BaseScorer
from .._core.common.typing import Metric, Values
from .._core.estimates import EstimateSet
from .._core.estimates.errors import METRICS, held_out_score, mean_of_parts, query_errors
from .._core.fitting import BaseCollector, lost_weights
from .._core.queries import Queries, QuerySet, as_query_set, query_matrix


def oracle_and_its_input(estimator: BaseEstimator, X: Values) -> tuple[Any, Values]:
    """Return the oracle in an estimator, and the input of the oracle for X.

    In a Pipeline, the steps before the oracle transform X.
    """
    if hasattr(estimator, "best_estimator_"):  # GridSearchCV and similar tools
        return oracle_and_its_input(estimator.best_estimator_, X)
    steps = estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
    for i, (_, step) in enumerate(steps):
        if isinstance(step, BaseCollector):
            return step, estimator[:i].transform(X) if i else X
    raise TypeError(
        "Scoring frequencies needs an oracle, or a Pipeline with an oracle among its steps, got "
        f"{type(estimator).__name__}. Pass such an estimator."
    )


# -- by raw values ----------------------------------------------------------------------------
def make_frequency_scorer(
    metric: Metric = "mse", *, queries: Queries | None = None
) -> FrequencyScorer:
    """Make a scorer for GridSearchCV, cross_validate and similar tools.

    The score is the error of the fitted estimate multiplied by -1. The error compares the estimate
    with the true frequencies among the held-out users. For a survey, it is the mean error of the
    columns, weighted by the survey's `weights`. The scorer reads raw values, so it is for
    simulations.

    Privacy: scoring itself randomizes no values, but the score is a function of the raw values of
    the held-out users. In a search, every fold and every candidate is another collection from the
    same users, who spend epsilon each time. If the oracle has ``random_state=None``, which is for
    real users, the scorer issues a :class:`~sklearn_ldp.PrivacyWarning`. The warning is issued once
    per scorer, or once in each process if `n_jobs` is used. For a simulation, give the oracle a
    seed.

    In a search over a Pipeline, weights (numbers of users) reach the scorer only through
    scikit-learn's metadata routing, see the second example. Without metadata routing,
    ``GridSearchCV.fit(X, oracle__sample_weight=...)`` weights the estimate but not the true
    frequencies, and the scorer issues a warning.

    Parameters
    ----------
    metric : {"mse", "mae"} or callable, default="mse"
        Mean squared or mean absolute error of the answers, or a function of the true and the
        estimated answers that returns an error, see :func:`~sklearn_ldp.metrics.query_errors`.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, the queries are the
        frequencies of all categories.

    Returns
    -------
    callable
        ``scorer(estimator, X, y=None, sample_weight=None) -> float``; greater is better. The
        weights are the numbers of users of each row, as in the oracle's `fit`.
        ``scorer.set_score_request(sample_weight=True)`` requests the weights from metadata routing.

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

    A search over a histogram, in which each row stands for many users:

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
    if not callable(metric) and metric not in METRICS:
        raise ValueError(
            f"Argument metric must be one of {METRICS}, or a function of the true and the "
            f'estimated answers, got {metric!r}. Pass for example "mse".'
        )
    return FrequencyScorer(metric, as_query_set(queries))


class FrequencyScorer(BaseScorer):
    """The scorer that `make_frequency_scorer` returns, as a class that can be pickled."""

    def __init__(self, metric: Metric, queries: QuerySet) -> None:
        super().__init__()
        self.metric = metric
        self.queries = queries
        metric_name = metric if isinstance(metric, str) else getattr(metric, "__name__", "error")
        self.__name__: str = f"neg_frequency_{metric_name}"

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
                "A frequency scorer needs raw values, but this pipeline reads reports. Score it "
                "with make_held_out_scorer, SyntheticSearch or HeldOutSearch, which need no raw "
                'values; in a simulation, you can also pass input="values" to the oracle.'
            )
        estimate = estimate_of(estimator)
        if text := lost_weights(oracle.__collector__().state("score"), sample_weight):
            self._warn_once(text, UserWarning)
        if oracle.random_state is None:
            self._warn_once(
                f"A frequency scorer reads users' raw values, but {type(oracle).__name__} has "
                "random_state=None, which is for real users. In a search, each user spends "
                "epsilon again for every candidate and every fold. For a simulation, give the "
                "oracle a seed. For real users, collect reports once, and score them with "
                "make_held_out_scorer.",
                PrivacyWarning,
            )
        try:
            truth = oracle.true_frequencies(X, sample_weight)
        except ValueError as error:
            if oracle.__collector__().learns_domain:  # scikit-learn scores NaN
                reason = f"{type(oracle).__name__} has learned its categories from some users only"
                self._warn_once(f"{reason}: {error} Declare categories=.", UserWarning)
            raise
        errors: Any = query_errors(truth, estimate, queries=self.queries, metric=self.metric)
        return -mean_of_parts(errors, oracle.__collector__().weights())

    def __repr__(self) -> str:
        return f"make_frequency_scorer({self.metric!r}, queries={self.queries!r})"


# -- by reports -------------------------------------------------------------------------------
def make_held_out_scorer(*, queries: Queries | None = None) -> HeldOutScorer:
    """Make a scorer for pipelines that read reports, at no privacy cost.

    The scorer is for GridSearchCV, cross_validate and similar tools, and for pipelines with an
    oracle that has ``input="reports"``. The score is an unbiased estimate of the mean squared error
    multiplied by -1. The error compares an estimate with the true frequencies among the held-out
    users; ``make_frequency_scorer("mse")`` would compute it exactly from their raw values. The
    noise of the held-out reports is the same for all candidates, so the difference of two scores is
    more precise than a single score. If this noise is larger than the error, a score can be above
    0. For a survey, the score is the mean of the columns' scores, weighted by the survey's
    `weights`.

    Privacy: no cost. All folds and candidates are made from the same reports.

    Parameters
    ----------
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, the queries are the
        frequencies of all categories. ``top_k`` selects the most frequent categories of the raw
        estimate from the fitted reports.

    Returns
    -------
    callable
        ``scorer(estimator, X, y=None, sample_weight=None) -> float``; greater is better. The
        weights are the numbers of times that each report was received, as in the oracle's `fit`.
        ``scorer.set_score_request(sample_weight=True)`` requests the weights from metadata routing,
        as with :func:`make_frequency_scorer`.

    See Also
    --------
    make_frequency_scorer : For pipelines that read raw values, in simulations.
    sklearn_ldp.HeldOutSearch : Makes the same choice from a single estimate with stored shards.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import Pipeline
    >>> from sklearn_ldp import GRR, Base, BasePos, NormSub
    >>> from sklearn_ldp.datasets import make_zipf
    >>> from sklearn_ldp.metrics import make_held_out_scorer
    >>> values = make_zipf(n_samples=10_000, n_categories=50, random_state=0)
    >>> client = GRR(epsilon=1.0, categories=50, random_state=0)
    >>> reports = client.privatize(values)  # all that leaves the users
    >>> server = GRR(epsilon=1.0, categories=50, input="reports")
    >>> pipe = Pipeline([("oracle", server), ("post", Base())])
    >>> grid = {"post": [Base(), BasePos(), NormSub()]}
    >>> search = GridSearchCV(pipe, grid, scoring=make_held_out_scorer()).fit(reports)
    >>> search.best_params_
    {'post': NormSub()}
    """
    return HeldOutScorer(as_query_set(queries))


class HeldOutScorer(BaseScorer):
    """The scorer that `make_held_out_scorer` returns, as a class that can be pickled."""

    __name__ = "neg_held_out_mse"

    def __init__(self, queries: QuerySet) -> None:
        super().__init__()
        self.queries = queries

    def __call__(
        self,
        estimator: BaseEstimator,
        X: Values,
        y: object = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        oracle, X = oracle_and_its_input(estimator, X)
        if oracle.input != "reports":
            raise ValueError(
                "A held-out scorer needs reports, but this pipeline reads raw values. Score it "
                'with make_frequency_scorer (only in a simulation), or pass input="reports" to '
                "the oracle, and reports as X."
            )
        estimate = estimate_of(estimator)
        if text := lost_weights(oracle.__collector__().state("score"), sample_weight):
            self._warn_once(text, UserWarning)
        # A separate estimate of these reports costs no privacy. `transform` has no weights, so a
        # copy is fitted.
        held_out = copy(oracle).fit(X, sample_weight=sample_weight).estimate_
        if not isinstance(estimate, EstimateSet):
            return self._score(estimate, held_out, oracle.frequencies_)
        scores = {
            name: self._score(part, held_out[name], oracle.frequencies_[name])
            for name, part in estimate.items()
            if len(part) and len(held_out[name])
        }
        return mean_of_parts(scores, oracle.__collector__().weights())

    def _score(self, estimate: Any, held_out: Any, raw: np.ndarray) -> float:
        queries = self.queries
        if queries.depends_on_truth:
            queries = query_matrix(queries.matrix(len(raw), raw))
        return held_out_score(estimate, held_out, queries=queries)

    def __repr__(self) -> str:
        return f"make_held_out_scorer(queries={self.queries!r})"
