"""What both searches share: candidates in, errors compared, the best one kept."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .._estimate import FrequencyEstimate
from ..metrics import query_errors
from ..postprocessing import (
    Base,
    BaseCut,
    BasePos,
    BasePostProcessor,
    MLEApx,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    PostPos,
    Power,
    PowerNS,
)


class Case(NamedTuple):
    """Estimates to post-process, and the frequencies that their answers to queries should show."""

    estimate: FrequencyEstimate
    frequencies: np.ndarray
    queries: Any


def default_candidates() -> list[BasePostProcessor]:
    """Return one of each post-processor with its default parameters, the simplest first.

    Returns
    -------
    list of post-processors
        What a search takes for ``candidates="all"``.

    Examples
    --------
    >>> from sklearn_ldp.model_selection import default_candidates
    >>> default_candidates()[:2]
    [Base(), Norm()]
    """
    return [
        Base(),
        Norm(),
        BasePos(),
        PostPos(),
        BaseCut(),
        NormSub(),
        NormCut(),
        NormMul(),
        NormHyb(),
        MLEApx(),
        Power(),
        PowerNS(),
    ]


class BaseSearch(BasePostProcessor):
    """Base of the searches over post-processors, which are post-processors themselves.

    A search defines `_cases`. The error of a candidate is its mean over the rows of all cases;
    every candidate sees the same cases, and ties go to the earlier one.
    """

    _parameter_constraints: dict = {
        "candidates": [StrOptions({"all"}), list, tuple],
        "n_jobs": [None, Integral],
    }

    @abstractmethod
    def _cases(self, estimate: FrequencyEstimate) -> list[Case]:
        """Return what to judge the candidates on; raise before any long work starts."""

    def _error_metric(self) -> str:
        return "mse"

    def _fit_process(self, estimate):
        candidates = self._checked_candidates()
        if estimate.shape[1] < 2:
            raise ValueError(
                f"{type(self).__name__} got an estimate of 1 feature(s), that is one category: "
                "there is nothing to choose."
            )
        cases = self._cases(estimate)
        work = delayed(_errors)
        metric = self._error_metric()
        errors = Parallel(n_jobs=self.n_jobs)(
            work(clone(candidate), cases, metric) for candidate in candidates
        )
        self.results_ = _results(candidates, np.array(errors))
        self.best_index_ = int(np.argmin(self.results_["mean_error"]))
        self.best_params_ = self.results_["params"][self.best_index_]
        self.best_score_ = -float(self.results_["mean_error"][self.best_index_])
        self.best_estimator_ = clone(candidates[self.best_index_])
        return self.best_estimator_.fit_transform(self._completed(estimate)), {}

    def _process(self, estimate):
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(self._completed(estimate)), {}

    def _completed(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """The estimate with what the search knows of it beyond what it says itself."""
        return estimate

    def _checked_candidates(self) -> list:
        candidates = default_candidates() if self.candidates == "all" else list(self.candidates)
        if not candidates:
            raise ValueError(f"{type(self).__name__} needs at least one candidate.")
        for candidate in candidates:
            steps = (
                [step for _, step in candidate.steps]
                if isinstance(candidate, Pipeline)
                else [candidate]
            )
            odd = [step for step in steps if not isinstance(step, BasePostProcessor)]
            if odd or not steps:
                raise TypeError(
                    f"{type(self).__name__} chooses among post-processors (or Pipelines of them), "
                    f"got {odd[0] if odd else candidate!r} as a candidate; give instances such as "
                    "NormSub()."
                )
        return candidates

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def _errors(candidate: Any, cases: list[Case], metric: str) -> np.ndarray:
    """Error of a candidate on each row of the cases."""
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


def candidate_name(candidate: Any) -> str:
    """Short name of a post-processor, or of a pipeline of them.

    Parameters
    ----------
    candidate : post-processor or Pipeline
        What to name.

    Returns
    -------
    str
        Such as ``BaseCut(alpha=0.05)`` or ``Base + NormSub``.
    """
    if isinstance(candidate, Pipeline):
        return " + ".join(candidate_name(step) for _, step in candidate.steps)
    text = " ".join(repr(candidate).split())
    return text.removesuffix("()")
