"""The part that all searches share: compare the errors of candidates and keep the best one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from ..domains.values import objects
from ..metrics import query_errors
from ..postprocessing import BasePostProcessor
from ._candidates import as_candidates, candidate_name, knowing_queries, seeing_whole_sets
from ._parallel import each_warning_once, run

_TASK = 100_000  # estimates post-processed by one task, which takes about a tenth of a second


class Case(NamedTuple):
    """Estimates to post-process, and the frequencies that their answers are compared with."""

    estimate: FrequencyEstimate
    frequencies: np.ndarray
    queries: Any

    @property
    def size(self) -> int:
        """Number of values to post-process."""
        return self.estimate.values.size


class Judgement(NamedTuple):
    """What the cases say about one candidate.

    Parameters
    ----------
    errors : ndarray of shape (n_errors,)
        One error for each row of each case.
    answers : ndarray, dict of ndarray or None
        The candidate's answers, if the choice needs them; by name for a set of estimates.
    """

    errors: np.ndarray
    answers: Any = None


class BaseSearch(BasePostProcessor):
    """Base of the searches over post-processors, which are post-processors themselves.

    A search defines `_cases`. The error of a candidate is its mean error over the rows of all
    cases. Every candidate is judged on the same cases; of equally good candidates, the first one
    is chosen.
    """

    _parameter_constraints: dict = {
        "candidates": [StrOptions({"all"}), list, tuple, dict],
        "n_jobs": [None, Integral],
    }

    _of_each_part = ("queries",)

    candidates: Any
    queries: Any
    results_: dict[str, np.ndarray]
    best_index_: int
    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: Any

    @property
    @abstractmethod
    def _error_name(self) -> str:
        """What the errors are, on an axis."""

    @abstractmethod
    def _cases(self, estimate: FrequencyEstimate) -> list[Case]:
        """Return the cases to judge the candidates on; raise errors before any long work starts."""

    def _error_metric(self) -> Any:
        return "mse"

    def _fit_process(self, estimate):
        candidates = self._all_candidates(estimate)
        if estimate.shape[1] < 2:
            raise ValueError(
                f"{type(self).__name__} got an estimate of 1 feature(s), that is one category, so "
                "there is nothing to choose: give an estimate of at least two categories."
            )
        with each_warning_once():
            return self._best(candidates, estimate)

    def _all_candidates(self, estimate: FrequencyEstimate) -> list:
        """Return the candidates to choose from."""
        return as_candidates(self.candidates, type(self).__name__) + self._knowing_queries(estimate)

    def _knowing_queries(self, estimate: FrequencyEstimate) -> list:
        """Return the candidate of "all" that knows what is asked, if that makes a difference."""
        return knowing_queries(self.queries, estimate) if isinstance(self.candidates, str) else []

    def _best(self, candidates: list, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """Compare the candidates, and return what the best one makes of the estimate."""
        judgements = self._judgements(candidates, self._cases(estimate), estimate)
        self.results_ = results_of(candidates, judgements)
        self._keep(candidates, self._choice(candidates, judgements, estimate))
        return self.best_estimator_.fit_transform(self._completed(estimate))

    def _keep(self, candidates: list, best: int) -> None:
        """Keep which candidate is the best, when `results_` is known."""
        self.best_index_ = best
        self.best_params_ = self.results_["params"][best]
        self.best_score_ = -float(self.results_["mean_error"][best])
        self.best_estimator_ = clone(candidates[best])

    def _choice(
        self, candidates: list, judgements: list[Judgement], estimate: FrequencyEstimate
    ) -> int:
        """Return the index of the candidate to take, when `results_` is known."""
        return int(np.argmin(self.results_["mean_error"]))

    def _judgements(
        self, candidates: list, cases: list[Case], estimate: FrequencyEstimate
    ) -> list[Judgement]:
        """Return what the cases, which were made from the estimate, say about each candidate."""
        return self._of_each(_errors_of_one, candidates, cases, self._error_metric())

    def _of_each(self, what: Any, candidates: list, cases: Sequence[Any], *arguments: Any) -> list:
        """Return what a function gives for each candidate and all cases, through joblib."""
        n_values = len(candidates) * sum(case.size for case in cases)
        n_tasks = min(-(-n_values // _TASK), len(candidates))
        # Candidates are dealt out in turn, because costly ones stand next to each other.
        every = range(len(candidates))
        tasks = [
            (what, [(j, clone(candidates[j])) for j in every[i::n_tasks]], cases, *arguments)
            for i in range(n_tasks)
        ]
        results = dict(pair for part in run(_of_some, tasks, self.n_jobs) for pair in part)
        return [results[j] for j in every]

    # -- whole sets ---------------------------------------------------------------------------
    def _sees_whole_sets(self) -> bool:
        return bool(seeing_whole_sets(self.candidates))

    def _fit_set(self, estimates: EstimateSet) -> EstimateSet:
        if not self._sees_whole_sets():
            return super()._fit_set(estimates)
        candidates = as_candidates(self.candidates, type(self).__name__)
        with each_warning_once():
            return self._best_of_set(candidates, estimates)

    def _best_of_set(self, candidates: list, estimates: EstimateSet) -> EstimateSet:
        """Compare the candidates on all parts at once, and return what the best one makes."""
        name = candidate_name(seeing_whole_sets(candidates)[0])
        raise ValueError(
            f"{type(self).__name__} looks at each table alone, but its candidate {name} needs all "
            "of them at once: use HeldOutSearch, which judges whole sets of tables."
        )

    def _transform_set(self, estimates: EstimateSet) -> EstimateSet:
        if not self._sees_whole_sets():
            return super()._transform_set(estimates)
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(estimates)

    # -- estimates ----------------------------------------------------------------------------
    def _process(self, estimate):
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(self._completed(estimate))

    def _completed(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """Return the estimate, with the noise that the search knows if the estimate does not."""
        return estimate

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def _of_some(what: Any, candidates: list, *arguments: Any) -> list[tuple[int, Any]]:
    """Return what a function gives for each numbered candidate, with its number."""
    return [(i, what(candidate, *arguments)) for i, candidate in candidates]


def _errors_of_one(candidate: Any, cases: list[Case], metric: Any) -> Judgement:
    errors = [
        query_errors(
            case.frequencies,
            candidate.fit_transform(case.estimate),
            queries=case.queries,
            metric=metric,
        )
        for case in cases
    ]
    return Judgement(np.concatenate(errors))


def results_of(candidates: list, judgements: list[Judgement]) -> dict[str, np.ndarray]:
    """Return one row per candidate, like GridSearchCV's cv_results_.

    Parameters
    ----------
    candidates : list of post-processors
        All candidates.
    judgements : list of Judgement
        What the cases say about each.

    Returns
    -------
    dict of ndarray
        The columns of `results_` that all searches have.
    """
    errors = np.array([judgement.errors for judgement in judgements])
    mean = errors.mean(axis=1)
    params = objects([candidate.get_params(deep=False) for candidate in candidates])
    n_rows = errors.shape[1]
    spread = errors.std(axis=1, ddof=1) if n_rows > 1 else np.full(len(mean), np.nan)
    return {
        "candidate": np.array([candidate_name(candidate) for candidate in candidates]),
        "params": params,
        "mean_error": mean,
        "standard_error": spread / np.sqrt(n_rows),
        "rank_error": np.array([1 + np.count_nonzero(mean < m) for m in mean]),
    }
