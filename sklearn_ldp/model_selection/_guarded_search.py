"""Searches that compare with noisy estimates, and leave EmpiricalBayes only with evidence."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from .._docstrings import fill_in
from .._estimate import FrequencyEstimate
from .._noise import Noise, as_rows, variances_after_norm
from ..metrics import query_errors
from ..numerics.simplex import norm_sub
from ..postprocessing import EmpiricalBayes
from ..queries import QuerySet, as_query_set, query_matrix
from ._base import BaseSearch, Case, Judgement

_PARAGRAPHS = {
    "guarded": """This holds in expectation. If few queries are asked (a handful of groups), the
noise of the comparison can exceed the differences between candidates. So :class:`EmpiricalBayes`,
if it is among the candidates, is left for another one only if that one's error is less by
`min_z_score` standard deviations of the difference. If groups or ranges are asked for, the
candidates of "all" include an EmpiricalBayes that knows these queries, and takes that place.""",
    "candidates": """candidates : "all", list of post-processors or dict of grids, default="all"
    The post-processors to choose from; a list may hold Pipelines of them. "all" takes
    :func:`~sklearn_ldp.model_selection.default_candidates`. A dict gives a grid of parameters
    for each class name, such as ``{"NormSub": {}, "BaseCut": {"alpha": [0.05, 2]}}``, and
    every combination is a candidate.
queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
    The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
    For a set of estimates also a mapping by the names of parts.""",
    "min_z_score": """min_z_score : float, default=2.0
    By how many standard deviations of the difference another candidate must be better than
    EmpiricalBayes. 0 takes the least error.""",
    "n_jobs": """n_jobs : int, default=None
    Number of joblib workers; it does not change the result.""",
    "results": """results_ : dict of ndarray
    One row per candidate: "candidate" (its name), "params", "mean_error" (squared distance to the
    noisy estimates that judge, including their variance), "standard_error" (of that mean, as if
    the cases were independent), "rank_error" (1 is best), and "difference_std" (the standard
    deviation of the difference from EmpiricalBayes' mean error; NaN without one).""",
    "best": """best_index_ : int
    Row of the best candidate.
best_params_ : dict
    Parameters of the best candidate.
best_score_ : float
    Minus the mean error of the best candidate.
best_estimator_ : post-processor
    The best candidate, fitted on the whole estimate.""",
}


class GuardedSearch(BaseSearch):
    """Base of the searches whose cases compare with a raw estimate, and not with the truth.

    The expected squared distance to an unbiased estimate ranks the candidates correctly, but with
    few queries its noise can exceed the differences between them. So EmpiricalBayes, if it is
    among the candidates, is left for another one only if that one's error is less by
    `min_z_score` standard deviations of the difference. The cases come row by row, as many for
    each.
    """

    _parameter_constraints: dict = {
        **BaseSearch._parameter_constraints,
        "min_z_score": [Interval(Real, 0, None, closed="left")],
        "random_state": [None, Integral, np.random.RandomState, np.random.Generator],
    }

    min_z_score: float

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fill_in(cls, **_PARAGRAPHS)

    def _judgements(self, candidates, cases, estimate):
        return self._of_each(_errors_and_answers, candidates, cases, len(estimate))

    def _knowing_queries(self, estimate):
        # Only the truth could judge answers about the truly most frequent.
        depends_on_truth = as_query_set(self.queries).depends_on_truth
        return [] if depends_on_truth else super()._knowing_queries(estimate)

    def _choice(self, candidates, judgements, estimate):
        reference, noise = reference_among(candidates), self._completed(estimate).noise
        if reference is None or noise is None:
            return self._guarded(None)
        answers = np.array([judgement.answers for judgement in judgements])
        return self._guarded(self._error_spread(answers - answers[reference], estimate, noise))

    def _guarded(self, spread: np.ndarray | None) -> int:
        """Return the candidate to take, from how sure its difference from EmpiricalBayes is."""
        mean_error = self.results_["mean_error"]
        if spread is None:
            self.results_["difference_std"] = np.full(len(mean_error), np.nan)
            return int(np.argmin(mean_error))
        self.results_["difference_std"] = spread
        return int(np.argmin(mean_error + self.min_z_score * spread))

    def _error_spread(
        self, differences: np.ndarray, estimate: FrequencyEstimate, noise: Noise
    ) -> np.ndarray:
        """Standard deviations of differences of errors, from the differences of the answers.

        The squared distance to a noisy response changes with the noise in proportion to how far
        the answers differ: by a linear answer of its own.
        """
        query_set, d = as_query_set(self.queries).aligned(estimate.categories), estimate.shape[1]
        weights = query_set.square_weights(d)
        variances = np.zeros(len(differences))
        for i, values in enumerate(estimate.values):
            if weights is not None:
                rows = (weights[0] - weights[1]) * differences[:, i]
            else:
                matrix = query_set.matrix(d, values)
                rows = differences[:, i] @ matrix / matrix.shape[0]
            variances += variances_after_norm(noise.of_rows(i), as_rows(rows), norm_sub(values))
        more = self._response_variance(estimate)
        return 2 * np.sqrt(variances * more) / len(estimate)

    @abstractmethod
    def _response_variance(self, estimate: FrequencyEstimate) -> float:
        """Variance of what the candidates are compared with, over that of the estimate itself."""


def reference_among(candidates: list) -> int | None:
    """Return which candidate the others have to be better than, by `min_z_score`.

    Parameters
    ----------
    candidates : list of post-processors
        All candidates.

    Returns
    -------
    int or None
        The index of an EmpiricalBayes, of the last one that knows more if there is one.
    """
    bayes = [i for i, post in enumerate(candidates) if isinstance(post, EmpiricalBayes)]
    informed = [i for i in bayes if _is_informed(candidates[i])]
    return informed[-1] if informed else (bayes[0] if bayes else None)


def _is_informed(bayes: EmpiricalBayes) -> bool:
    """Whether it knows groups, an order, or the queries."""
    return bayes.groups is not None or bool(bayes.ordered) or bayes.queries is not None


def queries_of(query_set: QuerySet, values: np.ndarray) -> QuerySet:
    """Return the queries of a case; those that depend on the truth look at these values."""
    if query_set.depends_on_truth:
        return query_matrix(query_set.matrix(len(values), values))
    return query_set


def _error(case: Case, result: FrequencyEstimate) -> float:
    """The error of one row, in which the noise of the case is the same for all candidates."""
    queries, truth = as_query_set(case.queries), case.frequencies
    error = query_errors(truth, result, queries=queries)[0]
    if not result.clip_answers or queries.square_weights(len(truth)) is None:
        return error
    # Without clipping, the error over all sets is known. Drawn sets, whose noise is their own, are
    # only to tell what clipping changes.
    unclipped = replace(result, clip_answers=False)
    drawn = query_matrix(queries.matrix(len(truth)))
    error += query_errors(truth, unclipped, queries=queries)[0]
    return error - query_errors(truth, unclipped, queries=drawn)[0]


def _errors_and_answers(candidate: Any, cases: list[Case], n_rows: int) -> Judgement:
    """The errors of a candidate on each case, and its mean answers (or values) for each row."""
    errors, answers = [], []
    n_each = len(cases) // n_rows
    for start in range(0, len(cases), n_each):
        judged = [
            judged_case(c, candidate.fit_transform(c.estimate)) for c in cases[start:][:n_each]
        ]
        errors += [error for error, _ in judged]
        answers.append(np.mean([answer for _, answer in judged], axis=0))
    return Judgement(np.array(errors), np.array(answers))


def judged_case(case: Case, result: FrequencyEstimate) -> tuple[float, np.ndarray]:
    """Return the error of one row, and its answers.

    Parameters
    ----------
    case : Case
        What the row is compared with.
    result : FrequencyEstimate of shape (1, d)
        What a candidate has made of the estimate of the case.

    Returns
    -------
    (float, ndarray)
        The error, which contains the noise of the case; and the answers, or the values if the error
        has a closed form.
    """
    is_closed = as_query_set(case.queries).square_weights(result.shape[1]) is not None
    answers = result.values if is_closed else result.answer(case.queries)
    return _error(case, result), answers[0]
