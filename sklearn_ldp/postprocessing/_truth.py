"""True frequencies of users' values over the categories of an estimate."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._core.domains.values import as_columns, column_names
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.lifecycle import check_weights


def true_frequencies(estimate: Any, y: Any, sample_weight: ArrayLike | None, name: str) -> Any:
    """Return the true frequencies of the categories of an estimate, or of each part of a set.

    Shapes: y (n_samples,) or (n_samples, n_columns), sample_weight (n_samples,) -> (d,), or a dict
    of such arrays.
    """
    if not isinstance(estimate, EstimateSet) and estimate.shares_overlap:
        if estimate.oracle is None:
            raise ValueError(
                f"{name} needs the oracle of an estimate whose frequencies overlap. Pass the "
                "estimate that an ItemOracle returned, or scoring=make_frequency_scorer()."
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
            f"{name} expects y with the columns {expected}, got {got}. Pass these columns of the "
            "users' values."
        )
    values_by_column = dict(zip(known, columns, strict=True))
    frequencies = {}
    for part, part_columns in columns_by_part.items():
        values = [values_by_column[column] for column in part_columns]
        frequencies[part] = _counted(estimate[part], values, weights, name)
    return frequencies


def warn_of_lost_weights(judged: Any, y: Any, name: str) -> None:
    """Warn if an estimate, or a part of it, has more users than y has rows."""
    parts = [part for _, part in judged.items()] if isinstance(judged, EstimateSet) else [judged]
    noises = [part.noise for part in parts if isinstance(part, FrequencyEstimate)]
    users = [np.max(noise.n_samples) for noise in noises if noise and noise.n_samples is not None]
    if max(users, default=0) > (n_rows := len(y)):
        warnings.warn(
            f"{name} counts each of {n_rows} rows of y as one user, because it got no "
            f"sample_weight, but the estimate to compare with has {max(users):g} users. Pass the "
            "weights as sample_weight, the only name that a Pipeline passes on, or to a scorer.",
            stacklevel=3,
        )


def _counted(estimate: Any, columns: list[np.ndarray], weights: Any, name: str) -> np.ndarray:
    """Return the frequencies of values over the categories of an estimate."""
    codes = estimate.domain.encode_columns(columns, name)
    counts = np.bincount(codes, weights, minlength=estimate.domain.size)
    return counts / counts.sum()
