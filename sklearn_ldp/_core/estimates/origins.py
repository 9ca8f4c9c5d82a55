"""In simulations: memory of the users' true values from which an estimate was made, for scores."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

# The values are not attributes of estimates, so no file, pickle or copy of an estimate has them.
_VALUES: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()


def remember_values(estimate: Any, values: Any, sample_weight: Any) -> None:
    """Remember the users' true values behind an estimate, as long as the estimate exists.

    Parameters
    ----------
    estimate : FrequencyEstimate or EstimateSet
        The estimate.
    values : array-like of shape (n_samples,) or (n_samples, n_columns)
        The users' true values.
    sample_weight : array-like of shape (n_samples,) or None
        The number of users of each row.
    """
    _VALUES[estimate] = values, sample_weight


def remembered_values(estimate: Any) -> tuple[Any, Any]:
    """Return the users' true values, and their weights, that were remembered for an estimate.

    Parameters
    ----------
    estimate : object
        Any object, usually an estimate.

    Returns
    -------
    (values, sample_weight)
        (None, None) if nothing was remembered: for an estimate from reports, a copy of an estimate,
        or an object of another type.
    """
    try:
        return _VALUES.get(estimate, (None, None))
    except TypeError:  # an array has no hash
        return None, None
