"""The raw values of an estimate's users, kept in memory for the scores of simulations."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

# The values are not attributes of estimates, so no file, pickle or copy of an estimate has them.
_VALUES: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()


def remember_values(estimate: Any, values: Any, sample_weight: Any) -> None:
    """Remember the raw values of an estimate's users, as long as the estimate exists.

    Parameters
    ----------
    estimate : FrequencyEstimate or EstimateSet
        The estimate.
    values : array-like of shape (n_samples,) or (n_samples, n_columns)
        The raw values.
    sample_weight : array-like of shape (n_samples,) or None
        The number of users of each row.
    """
    _VALUES[estimate] = values, sample_weight


def remembered_values(estimate: Any) -> tuple[Any, Any]:
    """Return the raw values and the weights that were remembered with an estimate.

    Parameters
    ----------
    estimate : object
        An estimate, or anything else.

    Returns
    -------
    (values, sample_weight)
        Both None for an estimate of reports, a copy of an estimate, or another object.
    """
    try:
        return _VALUES.get(estimate, (None, None))
    except TypeError:  # an array has no hash
        return None, None
