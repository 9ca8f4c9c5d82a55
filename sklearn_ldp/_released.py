"""The estimate that a fitted estimator has released."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._typing import FrequencyEstimate


def estimate_of(estimator: BaseEstimator) -> FrequencyEstimate:
    """Return the estimate of a fitted oracle, post-processor, search or Pipeline.

    Parameters
    ----------
    estimator : estimator
        A search of scikit-learn over such estimators will do too (the estimate is that of its best
        estimator), and so will a Pipeline whose last steps are "passthrough".

    Returns
    -------
    FrequencyEstimate
        The attribute ``estimate_`` of the estimator that made it.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If it is not such an estimator.
    """
    if hasattr(estimator, "steps"):
        steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
        if steps:
            return estimate_of(steps[-1])
    elif hasattr(estimator, "best_estimator_") and not hasattr(estimator, "estimate_"):
        return estimate_of(estimator.best_estimator_)
    elif hasattr(estimator, "estimate_"):
        return estimator.estimate_
    elif hasattr(estimator, "fit") and not isinstance(estimator, type):
        check_is_fitted(estimator, "estimate_")
    raise TypeError(
        "An estimate comes from a fitted oracle, post-processor, search or a Pipeline of them, got "
        f"{estimator!r}."
    )


def refuse_fitted_to_set(estimator: Any, name: str) -> None:
    """Raise TypeError if a post-processor was fitted to a set of estimates.

    Parameters
    ----------
    estimator : post-processor
        Fitted or not.
    name : str
        What draws it, which takes what was fitted to one estimate.
    """
    fitted = getattr(estimator, "estimators_", None)
    if isinstance(fitted, dict) and fitted:
        raise TypeError(
            f"{name} draws what was fitted to one estimate, and this {type(estimator).__name__} "
            f"was fitted to a set: take that of a part, as in estimators_[{next(iter(fitted))!r}]."
        )
