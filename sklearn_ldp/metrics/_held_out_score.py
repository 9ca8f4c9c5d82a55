"""Scores without the truth: estimates are compared with the raw estimate of held-out reports."""

from __future__ import annotations

from copy import copy
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from .._released import estimate_of
from .._typing import Queries, Values
from ..queries import QuerySet, as_query_set, query_matrix
from ._errors import as_truth_and_estimate, query_errors
from ._scorer import BaseScorer, mean_over_parts, oracle_and_its_input


@overload
def held_out_score(
    estimate: FrequencyEstimate | ArrayLike,
    held_out: FrequencyEstimate,
    *,
    queries: Queries | None = None,
) -> float: ...
@overload
def held_out_score(
    estimate: EstimateSet, held_out: EstimateSet, *, queries: Queries | None = None
) -> dict[Any, float]: ...
def held_out_score(
    estimate: FrequencyEstimate | EstimateSet | ArrayLike,
    held_out: FrequencyEstimate | EstimateSet,
    *,
    queries: Queries | None = None,
) -> float | dict[Any, float]:
    """Return an unbiased estimate of minus the mean squared error, without the truth.

    The squared distance to the raw estimate of other users is, in expectation, the squared error
    with respect to their frequencies plus the variance of that raw estimate. This variance is
    subtracted. It is linear in the frequencies, so the same raw estimate gives it without bias.
    The score is unbiased, but not precise: if there are few held-out users, it may be above 0.

    Privacy: no cost, because both estimates are made from reports.

    Parameters
    ----------
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to judge; it must be independent of the held-out reports.
    held_out : FrequencyEstimate of shape (1, d), or EstimateSet
        The raw estimate of an oracle, made from reports that were not used for `estimate`; a set of
        the same parts if `estimate` is one.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
        ``top_k`` depends on the truth and is refused.

    Returns
    -------
    float, or dict of float
        Minus the error, averaged over the rows of `estimate`; greater is better. By name for a set;
        parts without users are left out.

    Raises
    ------
    ValueError
        If the held-out estimate is not raw, has several rows, or has no noise model.

    See Also
    --------
    make_held_out_scorer : The same score for GridSearchCV and similar tools.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE, NormSub
    >>> from sklearn_ldp.metrics import held_out_score
    >>> oracle = OUE(epsilon=1.0, random_state=np.random.default_rng(0))
    >>> counts = np.repeat([5000, 0], [2, 98])
    >>> ours, theirs = oracle.simulate(counts), oracle.simulate(counts)
    >>> held_out_score(NormSub().fit_transform(ours), theirs) > held_out_score(ours, theirs)
    True
    """
    if isinstance(held_out, EstimateSet) or isinstance(estimate, EstimateSet):
        return _of_parts(estimate, held_out, queries)
    if not (isinstance(held_out, FrequencyEstimate) and held_out.is_raw and len(held_out) == 1):
        raise ValueError(
            "held_out_score compares with one raw estimate of held-out reports, got "
            f"{held_out!r}: pass oracle.estimate_ of an oracle that has read these reports."
        )
    if held_out.noise is None:
        raise ValueError(
            "held_out_score needs the noise of the held-out estimate for its variance: pass "
            "oracle.estimate_ itself, or FrequencyEstimate(..., noise=oracle.noise_)."
        )
    query_set = as_query_set(queries).aligned(held_out.categories)
    if query_set.depends_on_truth:
        raise ValueError(
            f"held_out_score cannot ask {query_set!r}, which depends on the truth: choose the "
            "categories without the held-out reports and pass their query_matrix."
        )
    truth, estimate = as_truth_and_estimate(held_out.values[0], estimate)
    if estimate.clip_answers:
        # Clipped answers have no closed form, so the error and its variance need the same sets.
        query_set = query_matrix(query_set.matrix(len(truth)))
    errors = query_errors(truth, estimate, queries=query_set, metric="mse")
    variance = query_set.mean_variance(held_out.noise.of_rows(0), truth)
    return float(variance - errors.mean())


def _of_parts(estimate: Any, held_out: Any, queries: Queries | None) -> dict[Any, float]:
    both = [one for one in (estimate, held_out) if isinstance(one, EstimateSet)]
    if len(both) < 2 or estimate.names != held_out.names:
        names = [
            one.names if isinstance(one, EstimateSet) else repr(one) for one in (estimate, held_out)
        ]
        raise ValueError(
            "held_out_score compares a set of estimates with another one of the same parts, got "
            f"{names[0]} and {names[1]}."
        )
    return {
        name: held_out_score(part, held_out[name], queries=queries)
        for name, part in estimate.items()
        if len(part) and len(held_out[name])
    }


def make_held_out_scorer(*, queries: Queries | None = None) -> HeldOutScorer:
    """Make a scorer for pipelines that read reports; it needs no raw values, costs no privacy.

    It is for GridSearchCV, cross_validate and similar tools, with a Pipeline whose oracle has
    ``input="reports"``. The score is an unbiased estimate of minus the mean squared error with
    respect to the frequencies among the users who were left out, which is what
    ``make_frequency_scorer("mse")`` would compute from their raw values. The noise of the left-out
    reports is the same for all candidates, so candidates can be compared better than the spread of
    the scores suggests. This noise may exceed the error itself; the score is then above 0. Of a
    survey, the score is the mean of those of its columns, weighted by its `weights`.

    Privacy: no cost. All folds and candidates are made from the same reports.

    Parameters
    ----------
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
        ``top_k`` takes the largest categories of the raw estimate of the fitted reports.

    Returns
    -------
    callable
        ``scorer(estimator, X, y=None, sample_weight=None) -> float``; greater is better. The
        weights are the numbers of times that each report was received, as in the oracle's `fit`.
        ``scorer.set_score_request(sample_weight=True)`` asks metadata routing for them, as with
        :func:`make_frequency_scorer`.

    See Also
    --------
    make_frequency_scorer : For pipelines that read raw values, in simulations.
    sklearn_ldp.HeldOutSearch : Makes such a choice from a single estimate that kept its shards.

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
    """The scorer that `make_held_out_scorer` returns; it is a class so that it can be pickled."""

    def __init__(self, queries: QuerySet) -> None:
        super().__init__()
        self.queries = queries

    @property
    def __name__(self) -> str:
        return "neg_held_out_mse"

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
                "A held-out scorer reads reports, but this pipeline reads raw values: score it "
                'with make_frequency_scorer (simulation), or give the oracle input="reports".'
            )
        estimate = estimate_of(estimator)
        self._warn_of_lost_weights(oracle, sample_weight)
        # A separate estimate of these reports, which costs no privacy: transform takes no weights.
        held_out = copy(oracle).fit(X, sample_weight=sample_weight).estimate_
        if not isinstance(estimate, EstimateSet):
            return self._score(estimate, held_out, oracle.frequencies_)
        scores = {
            name: self._score(part, held_out[name], oracle.frequencies_[name])
            for name, part in estimate.items()
            if len(part) and len(held_out[name])
        }
        return mean_over_parts(scores, oracle)

    def _score(self, estimate: Any, held_out: Any, raw: np.ndarray) -> float:
        queries = self.queries
        if queries.depends_on_truth:
            queries = query_matrix(queries.matrix(len(raw), raw))
        return held_out_score(estimate, held_out, queries=queries)

    def __repr__(self) -> str:
        return f"make_held_out_scorer(queries={self.queries!r})"
