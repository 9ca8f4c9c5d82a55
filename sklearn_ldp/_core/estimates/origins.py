"""A store of the true values behind simulated estimates, from which scores are computed.

Simulations have the true values of the users; real collections never have them.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

# The values are not attributes of estimates, so no file, pickle or copy of an estimate has them.
_VALUES: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()


def remember_values(estimate: Any, values: Any, sample_weight: Any) -> None:
    """Store the users' true values behind an estimate, as long as the estimate exists.

    Parameters
    ----------
    estimate : FrequencyEstimate or EstimateSet
        The estimate.
    values : array-like of shape (n_samples,) or (n_samples, n_columns)
        The users' true values.
    sample_weight : array-like of shape (n_samples,) or None
        The number of users whom each entry of `values` represents.
    """
    _VALUES[estimate] = values, sample_weight


def remembered_values(estimate: Any) -> tuple[Any, Any]:
    """Return the users' true values and weights that `remember_values` stored for an estimate.

    Parameters
    ----------
    estimate : object
        Any object, usually an estimate.

    Returns
    -------
    (values, sample_weight)
        The arguments of `remember_values`. (None, None) if nothing was stored: for an estimate from
        reports, a copy of an estimate, or an object of another type.
    """
    try:
        return _VALUES.get(estimate, (None, None))
    except TypeError:  # an array has no hash
        return None, None
