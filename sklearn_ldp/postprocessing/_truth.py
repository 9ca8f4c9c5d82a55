"""The true frequencies of an estimate's categories, counted from users' values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._core.domains import encode_columns
from .._core.domains.values import as_columns, column_names
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.fitting import check_weights


def true_frequencies(estimate: Any, y: Any, sample_weight: ArrayLike | None, name: str) -> Any:
    """Return the true frequencies of an estimate's categories, counted from users' values y.

    Shapes: y (n_samples,) or (n_samples, n_columns), sample_weight (n_samples,) -> (d,).
    For a set of estimates, return a dict from the name of each estimate to an array of shape (d,).
    name: class name of the caller, for error messages.
    """
    if not isinstance(estimate, EstimateSet) and estimate.shares_overlap:
        if estimate.oracle is None:
            raise ValueError(
                f"{name} got an estimate of users with several items that contains no oracle, so "
                "the items cannot be counted. Pass the estimate that an ItemOracle returned, or "
                "use scoring=make_frequency_scorer()."
            )
        return estimate.oracle.true_frequencies(y, sample_weight)
    columns = as_columns(y, name)
    weights = None if sample_weight is None else check_weights(sample_weight, len(columns[0]), name)
    if not isinstance(estimate, EstimateSet):
        return _counted(estimate, columns, weights, name)
    columns_by_part = {
        part: part if isinstance(part, tuple) else (part,) for part in estimate.names
    }
    needed = list(dict.fromkeys(column for part in columns_by_part.values() for column in part))
    known = column_names(y) or needed
    if len(known) != len(columns) or not set(needed) <= set(known):
        expected = ", ".join(map(repr, needed))
        got = ", ".join(map(repr, known)) if column_names(y) else f"{len(columns)} columns"
        raise ValueError(
            f"{name} expects y with the columns {expected}, got {got}. Pass y= as a data frame "
            "with these columns of the users' values."
        )
    values_by_column = dict(zip(known, columns, strict=True))
    frequencies = {}
    for part, part_columns in columns_by_part.items():
        values = [values_by_column[column] for column in part_columns]
        frequencies[part] = _counted(estimate[part], values, weights, name)
    return frequencies


def warn_of_lost_weights(judged: Any, y: Any, name: str) -> None:
    """Warn if an estimate has more users than y has rows, because weights may be missing.

    judged: a FrequencyEstimate or an EstimateSet. name: name of the caller, for the warning.
    """
    parts = [part for _, part in judged.items()] if isinstance(judged, EstimateSet) else [judged]
    noises = [part.noise for part in parts if isinstance(part, FrequencyEstimate)]
    users = [np.max(noise.n_samples) for noise in noises if noise and noise.n_samples is not None]
    if max(users, default=0) > (n_rows := len(y)):
        warnings.warn(
            f"{name} counts each of the {n_rows} rows of y as one user because sample_weight is "
            f"missing, but the estimate in X has {max(users):g} users. Pass the number of users of "
            "each row as sample_weight= (a Pipeline passes on only this name), or use a scorer, "
            "such as make_frequency_scorer().",
            stacklevel=3,
        )


def _counted(estimate: Any, columns: list[np.ndarray], weights: Any, name: str) -> np.ndarray:
    """Return the frequency of each category of an estimate in the columns, of shape (d,).

    columns: one array of users' values per column. weights: weight of each user, or None.
    """
    codes = encode_columns(estimate.domain, columns, name)
    counts = np.bincount(codes, weights, minlength=estimate.domain.size)
    return counts / counts.sum()
