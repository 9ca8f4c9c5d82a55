"""What planning says of each part of a survey, and of all of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from ..surveys import BaseColumnSurvey

AVERAGES = (None, "weighted")


def check_average(average: str | None, oracle: Any) -> None:
    """Raise ValueError unless an argument `average` is known, and has parts to average."""
    if average not in AVERAGES:
        raise ValueError(f"Argument average must be one of {AVERAGES}, got {average!r}.")
    oracles = oracle if isinstance(oracle, list | tuple) else [oracle]
    if average is not None and not all(isinstance(one, BaseColumnSurvey) for one in oracles):
        raise ValueError(
            'Argument average="weighted" is for surveys such as ColumnOracle, whose columns have '
            "weights; leave it out for the oracle of one column."
        )


def of_parts(
    survey: BaseColumnSurvey,
    compute: Callable[..., float],
    n_categories: int | None,
    epsilon: float | None,
    **by_part: Any,
) -> tuple[dict[Any, float], np.ndarray]:
    """Return what a function computes for each part of a survey, and the weights of the parts.

    Parameters
    ----------
    survey : BaseColumnSurvey
        The survey, which need not be fitted.
    compute : callable
        Takes the noise of one user, the categories, and what `by_part` has for the part.
    n_categories : None
        The domains are those that the survey declares.
    epsilon : float or None
        Privacy budget of one report; None takes that of the survey.
    **by_part : dict
        Mappings from names of parts; what a part is left out of, is None.

    Returns
    -------
    (dict of float, ndarray of shape (n_parts,))
        The results by name, and the weights.
    """
    if n_categories is not None:
        raise ValueError(
            f"{type(survey).__name__} declares the domain of each column: leave out n_categories."
        )
    planned: BaseColumnSurvey = clone(survey)
    if epsilon is not None:
        planned.set_params(epsilon=epsilon)
    parts = planned._planned()
    for what, given in by_part.items():
        _check_names(what, given, list(parts), type(survey).__name__)
    results = {
        name: compute(
            part.noise, part.domain.categories, *(_of(given, name) for given in by_part.values())
        )
        for name, part in parts.items()
    }
    return results, np.array([part.weight for part in parts.values()])


def _of(given: Any, name: Any) -> Any:
    return None if given is None else given.get(name)


def _check_names(what: str, given: Any, names: list, survey: str) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise ValueError(
            f"{survey} takes {what} of each column, by name: pass a mapping such as "
            f"{{{names[0]!r}: ...}}, got {type(given).__name__}."
        )
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(
            f"{survey} got {what} for {unknown[0]!r}, which is not one of its columns: "
            f"{', '.join(map(repr, names))}."
        )
