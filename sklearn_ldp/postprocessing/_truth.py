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
    """Return the true frequencies behind an estimate, or behind each part of a set.

    Shapes: y (n_samples,) or (n_samples, n_columns), sample_weight (n_samples,) -> (d,), or a dict
    of those.
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
    of_parts = {part: part if isinstance(part, tuple) else (part,) for part in estimate.names}
    asked = list(dict.fromkeys(column for of_part in of_parts.values() for column in of_part))
    known = column_names(y) or asked
    if len(known) != len(columns) or not set(asked) <= set(known):
        expected, given = (", ".join(map(repr, names)) for names in (asked, known))
        given = given if column_names(y) else f"{len(columns)} columns"
        raise ValueError(f"{name} expects y with the columns {expected}, got {given}.")
    by_name, found = dict(zip(known, columns, strict=True)), {}
    for part, of_part in of_parts.items():
        own = [by_name[column] for column in of_part]
        found[part] = _counted(estimate[part], own, weights, name)
    return found


def warn_of_lost_weights(judged: Any, y: Any, name: str) -> None:
    """Warn if there are more users behind an estimate, or a part of it, than rows in y."""
    parts = [one for _, one in judged.items()] if isinstance(judged, EstimateSet) else [judged]
    noises = [one.noise for one in parts if isinstance(one, FrequencyEstimate)]
    users = [np.max(noise.n_samples) for noise in noises if noise and noise.n_samples is not None]
    if max(users, default=0) > (n_rows := len(y)):
        warnings.warn(
            f"{name} counts each of {n_rows} rows of y as one user, as it got no sample_weight, "
            f"but the estimate to judge by is of {max(users):g} users. A Pipeline hands weights on "
            "under the name sample_weight alone: pass them so, or to a scorer.",
            stacklevel=3,
        )


def _counted(estimate: Any, columns: list[np.ndarray], weights: Any, name: str) -> np.ndarray:
    """Return the frequencies of values over the categories of one estimate."""
    codes = estimate.domain.encode_columns(columns, name)
    counts = np.bincount(codes, weights, minlength=estimate.domain.size)
    return counts / counts.sum()
