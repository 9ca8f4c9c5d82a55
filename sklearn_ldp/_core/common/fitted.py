"""Results of fitted estimators: the estimate of frequencies, and the scores of a search."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

_MEAN = "mean_test_"


def estimate_of(estimator: BaseEstimator) -> Any:
    """Return the `estimate_` of a fitted oracle, post-processor, search or Pipeline.

    For a search of scikit-learn, use its best estimator.
    """
    # The last steps of a Pipeline may be "passthrough".
    if hasattr(estimator, "steps"):
        if steps := [step for _, step in estimator.steps if step not in (None, "passthrough")]:
            return estimate_of(steps[-1])
    elif hasattr(estimator, "best_estimator_") and not hasattr(estimator, "estimate_"):
        return estimate_of(estimator.best_estimator_)
    elif hasattr(estimator, "estimate_"):
        return estimator.estimate_
    elif hasattr(estimator, "fit") and not isinstance(estimator, type):
        check_is_fitted(estimator, "estimate_")
    raise TypeError(
        f"Expected a fitted oracle, post-processor, search or Pipeline, got {estimator!r}, which "
        "has no estimate_. Pass a fitted estimator with an estimate_."
    )


def metric_names(cv_results: Mapping[str, Any]) -> list[str]:
    """Return the names of the metrics in `cv_results_` of a search, in the order of its columns."""
    return [key.removeprefix(_MEAN) for key in cv_results if key.startswith(_MEAN)]


def mean_errors(cv_results: Mapping[str, Any], metric: str) -> np.ndarray:
    """Return the mean error of each candidate of a search: its mean score, multiplied by -1."""
    return -np.asarray(cv_results[_MEAN + metric], dtype=float)


def standard_errors(cv_results: Mapping[str, Any], metric: str) -> tuple[np.ndarray | None, int]:
    """Return the standard error of each candidate's mean score, and the number of splits.

    The standard error is computed from the scores of the splits. It is None if there are fewer than
    2 splits.
    """
    pattern = re.compile(rf"split\d+_test_{re.escape(metric)}")
    scores = [cv_results[key] for key in cv_results if pattern.fullmatch(key)]
    n_splits = len(scores)
    if n_splits < 2:
        return None, n_splits
    return np.std(np.array(scores, dtype=float), axis=0, ddof=1) / np.sqrt(n_splits), n_splits
