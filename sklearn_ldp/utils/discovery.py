"""A list of all estimators of the package."""

from __future__ import annotations

from sklearn.base import BaseEstimator

from .. import learning, model_selection, oracles, postprocessing, surveys
from .._core.common.lazy import exported_classes
from ..surveys import BaseColumnSurvey

__all__ = ["all_estimators"]

_KINDS = {
    "oracle": ([oracles, surveys], oracles.BaseOracle),
    "mean": ([oracles], oracles.LocalMean),
    "string": ([oracles], oracles.StringOracle),
    "table": ([surveys], BaseColumnSurvey),
    "postprocessor": ([postprocessing, surveys], postprocessing.BasePostProcessor),
    "search": ([model_selection], BaseEstimator),
    "learner": ([learning], BaseEstimator),
}


def all_estimators(type_filter: str | None = None) -> list[tuple[str, type]]:
    """Return all estimators of the package, like scikit-learn's function of the same name.

    Parameters
    ----------
    type_filter : {"oracle", "mean", "string", "table", "postprocessor", "search", "learner"} or \
None, default=None
        Return only classes of this type. A "mean" collects numbers, a "string" collects strings, a
        "table" collects several columns, and a "learner" is a classifier, regressor or transformer
        of `sklearn_ldp.learning`. If None, return the classes of all types.

    Returns
    -------
    list of (str, type)
        Pairs of a name and a class, sorted by name. Base classes are left out.

    Raises
    ------
    ValueError
        If `type_filter` is not one of these texts or None.

    Examples
    --------
    >>> from sklearn_ldp.utils.discovery import all_estimators
    >>> [name for name, _ in all_estimators("search")]
    ['HeldOutSearch', 'SyntheticSearch', 'SyntheticStack']
    """
    if type_filter is not None and type_filter not in _KINDS:
        raise ValueError(
            f"Argument type_filter must be one of {sorted(_KINDS)} or None, got {type_filter!r}. "
            "Pass one of these texts."
        )
    classes: dict[str, type] = {}
    for kind, (modules, base) in _KINDS.items():
        if type_filter in (None, kind):
            for module in modules:
                classes |= exported_classes(module, base)
    return sorted(classes.items())
