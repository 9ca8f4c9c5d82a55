"""Searches of scikit-learn, as displays read them: one curve of errors per combination."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._cv_results import mean_errors, metric_names, split_scores
from ._results import numbers


class SearchCurves(NamedTuple):
    """What a search has found.

    Attributes
    ----------
    x : str
        Name of the x axis.
    error : str
        Name of the y axis.
    curves : dict of str to tuple of ndarray
        The x, the mean errors and their standard errors (or None) of each curve.
    chosen : tuple of (str, float) or None
        The curve and the x of what the search has chosen; None if it has chosen nothing.
    """

    x: str
    error: str
    curves: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray | None]]
    chosen: tuple[str, float] | None


def curves_of(search: BaseEstimator, x: str | None, metric: str | None) -> SearchCurves:
    """Return the curves of a fitted search.

    Parameters
    ----------
    search : GridSearchCV, HalvingGridSearchCV or similar
        A fitted search.
    x : str or None
        Parameter of the x axis; None looks for an epsilon.
    metric : str or None
        Name of the score; None takes the only one, or the one of ``refit=``.

    Returns
    -------
    SearchCurves
        The curves, in the order of the candidates.
    """
    _check_fitted(search)
    results = search.cv_results_
    candidates = results["params"]
    x = _x_parameter(candidates, x)
    values = [_value(search.estimator, candidate, x) for candidate in candidates]
    remedy = "name a parameter with numbers: from_grid_search(search, x=..)."
    place = numbers(values, x, remedy)
    errors, bars, error_name = _errors(search, metric)
    names = _names(search, x)
    curves = {}
    for name in dict.fromkeys(names):
        mine = np.flatnonzero([other == name for other in names])
        mine = mine[np.argsort(place[mine], kind="stable")]
        if len(np.unique(place[mine])) < len(mine):
            raise ValueError(
                f"ErrorCurveDisplay found several candidates called {name!r} with the same {x}; "
                "each combination of parameters may be searched once, and each needs a repr of "
                "its own."
            )
        curves[name] = place[mine], errors[mine], None if bars is None else bars[mine]
    best = getattr(search, "best_index_", None)  # there is none with refit=False and many metrics
    chosen = None if best is None else (names[best], float(place[best]))
    return SearchCurves(x.rpartition("__")[2], error_name, curves, chosen)


def _check_fitted(search: Any) -> None:
    if hasattr(search, "cv_results_"):
        return
    if hasattr(search, "scoring") and hasattr(search, "refit") and hasattr(search, "fit"):
        check_is_fitted(search, "cv_results_")
    raise TypeError(
        "ErrorCurveDisplay.from_grid_search needs a fitted GridSearchCV or a similar search of "
        f"scikit-learn, got {type(search).__name__}; SearchDisplay draws a SyntheticSearch, "
        "a HeldOutSearch or a BootstrapSearch."
    )


def _x_parameter(candidates: list[dict[str, Any]], x: str | None) -> str:
    """The parameter of the x axis, as scikit-learn calls it in `set_params`."""
    found = list(dict.fromkeys(name for candidate in candidates for name in candidate))
    if x is None:
        epsilons = [name for name in found if name.rpartition("__")[2] == "epsilon"]
        if len(epsilons) != 1:
            raise ValueError(
                f"ErrorCurveDisplay looks for one epsilon among the parameters {found} of the "
                f"search, and found {len(epsilons)}; name the parameter of the x axis: "
                "from_grid_search(search, x=..)."
            )
        return epsilons[0]
    name = x if x in found else x.removeprefix("param_")
    if name not in found:
        raise ValueError(f"Argument x must be one of the searched parameters {found}, got {x!r}.")
    return name


def _value(estimator: Any, candidate: dict[str, Any], name: str) -> Any:
    """The value of a parameter that a candidate may set, by itself or with the step that has it."""
    if name in candidate:
        return candidate[name]
    parts = name.split("__")
    for i in range(1, len(parts)):
        step, rest = "__".join(parts[:i]), "__".join(parts[i:])
        if step in candidate:
            return candidate[step].get_params()[rest]
    return estimator.get_params()[name]


def _errors(search: Any, metric: str | None) -> tuple[np.ndarray, np.ndarray | None, str]:
    """The mean errors of the candidates, their standard errors, and what they are called."""
    results = search.cv_results_
    metrics = metric_names(results)
    refit = search.refit if isinstance(search.refit, str) else None
    key = metric or (metrics[0] if len(metrics) == 1 else refit)
    if key not in metrics:
        raise ValueError(f"Argument metric must be one of {metrics}, got {metric!r}.")
    splits, error = split_scores(results, key), mean_errors(results, key)
    bars = np.std(splits, axis=0, ddof=1) / np.sqrt(len(splits)) if len(splits) > 1 else None
    name = key if key != "score" else getattr(search.scoring, "metric", search.scoring)
    name = name.removeprefix("neg_").replace("_", " ") if isinstance(name, str) else "error"
    if name in ("mse", "mae", "rmse"):
        name = name.upper()
    return error, bars, f"{name}, mean of {len(splits)} splits"


def _names(search: Any, x: str) -> list[str]:
    """What each candidate's curve is called: by its parameters that vary, but for x."""
    candidates = search.cv_results_["params"]
    keys = dict.fromkeys(key for candidate in candidates for key in candidate if key != x)
    parts: list[list[str]] = [[] for _ in candidates]
    for key in keys:
        labels = [
            _label(key, candidate[key]) if key in candidate else "" for candidate in candidates
        ]
        if len(set(labels)) > 1:
            for part, label in zip(parts, labels, strict=True):
                part.extend([label] if label else [])
    rounds = search.cv_results_.get("iter", np.zeros(len(candidates), dtype=int))
    if len(set(rounds)) > 1:
        sizes = search.cv_results_["n_resources"]
        for part, i, size in zip(parts, rounds, sizes, strict=True):
            part.append(f"iteration {i} ({search.resource} = {size:,})")
    return [", ".join(part) or "error" for part in parts]


def _label(key: str, value: Any) -> str:
    """An estimator by its repr, which is "NormSub" without parameters; other values with a name."""
    if hasattr(value, "get_params"):
        return " ".join(repr(value).split()).removesuffix("()")
    return f"{key} = {value}"
