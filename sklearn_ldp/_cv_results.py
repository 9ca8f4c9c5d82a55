"""What `cv_results_` of scikit-learn's searches holds, as our rule and display read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

_MEAN = "mean_test_"


def metric_names(cv_results: Mapping[str, Any]) -> list[str]:
    """Return the names of the scores, in the order of the columns."""
    return [key.removeprefix(_MEAN) for key in cv_results if key.startswith(_MEAN)]


def mean_errors(cv_results: Mapping[str, Any], metric: str) -> np.ndarray:
    """Return minus the mean score of each candidate."""
    return -np.asarray(cv_results[_MEAN + metric], dtype=float)


def split_scores(cv_results: Mapping[str, Any], metric: str) -> list[np.ndarray]:
    """Return the scores of all candidates on each split."""
    pattern = re.compile(rf"split\d+_test_{re.escape(metric)}")
    columns = [key for key in cv_results if pattern.fullmatch(key)]
    return [np.asarray(cv_results[key], dtype=float) for key in columns]
