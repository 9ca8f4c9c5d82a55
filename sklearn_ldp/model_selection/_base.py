"""What both searches share: candidates in, errors compared, the best one kept."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .._estimate import FrequencyEstimate
from ..metrics import query_errors
from ..postprocessing import BasePostProcessor
from ._candidates import as_candidates, candidate_name

_TASK = 100_000  # estimates post-processed by one task: about a tenth of a second


class Case(NamedTuple):
    """Estimates to post-process, and the frequencies that their answers to queries should show."""

    estimate: FrequencyEstimate
    frequencies: np.ndarray
    queries: Any


class BaseSearch(BasePostProcessor):
    """Base of the searches over post-processors, which are post-processors themselves.

    A search defines `_cases`. The error of a candidate is its mean over the rows of all cases;
    every candidate sees the same cases, and ties go to the earlier one.
    """

    _parameter_constraints: dict = {
        "candidates": [StrOptions({"all"}), list, tuple, dict],
        "n_jobs": [None, Integral],
    }

    @abstractmethod
    def _cases(self, estimate: FrequencyEstimate) -> list[Case]:
        """Return what to judge the candidates on; raise before any long work starts."""

    def _error_metric(self) -> Any:
        return "mse"

    def _fit_process(self, estimate):
        candidates = as_candidates(self.candidates, type(self).__name__)
        if estimate.shape[1] < 2:
            raise ValueError(
                f"{type(self).__name__} got an estimate of 1 feature(s), that is one category: "
                "there is nothing to choose."
            )
        cases = self._cases(estimate)
        self.results_ = _results(candidates, self._errors(candidates, cases))
        self.best_index_ = int(np.argmin(self.results_["mean_error"]))
        self.best_params_ = self.results_["params"][self.best_index_]
        self.best_score_ = -float(self.results_["mean_error"][self.best_index_])
        self.best_estimator_ = clone(candidates[self.best_index_])
        return self.best_estimator_.fit_transform(self._completed(estimate))

    def _errors(self, candidates: list, cases: list[Case]) -> np.ndarray:
        """Error of each candidate on each row of the cases, through joblib."""
        n_values = len(candidates) * sum(case.estimate.values.size for case in cases)
        n_tasks = min(-(-n_values // _TASK), len(candidates))
        metric = self._error_metric()
        # Dealt out in turn, since costly candidates stand together.
        parts = Parallel(n_jobs=self.n_jobs)(
            delayed(_errors)([clone(one) for one in candidates[i::n_tasks]], cases, metric)
            for i in range(n_tasks)
        )
        errors = np.empty((len(candidates), parts[0].shape[1]))
        for i, part in enumerate(parts):
            errors[i::n_tasks] = part
        return errors

    def _process(self, estimate):
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(self._completed(estimate))

    def _completed(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """The estimate with what the search knows of it beyond what it says itself."""
        return estimate

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def _errors(candidates: list, cases: list[Case], metric: Any) -> np.ndarray:
    """Error of each candidate on each row of the cases."""
    return np.array([_errors_of_one(candidate, cases, metric) for candidate in candidates])


def _errors_of_one(candidate: Any, cases: list[Case], metric: Any) -> np.ndarray:
    return np.concatenate(
        [
            query_errors(
                case.frequencies,
                candidate.fit_transform(case.estimate),
                queries=case.queries,
                metric=metric,
            )
            for case in cases
        ]
    )


def _results(candidates: list, errors: np.ndarray) -> dict[str, np.ndarray]:
    """One row a candidate, like GridSearchCV's cv_results_."""
    mean = errors.mean(axis=1)
    params = np.empty(len(candidates), dtype=object)
    params[:] = [candidate.get_params(deep=False) for candidate in candidates]
    n_rows = errors.shape[1]
    spread = errors.std(axis=1, ddof=1) if n_rows > 1 else np.full(len(mean), np.nan)
    return {
        "candidate": np.array([candidate_name(candidate) for candidate in candidates]),
        "params": params,
        "mean_error": mean,
        "standard_error": spread / np.sqrt(n_rows),
        "rank_error": np.array([1 + np.count_nonzero(mean < m) for m in mean]),
    }
