"""What all functions that plan a collection share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from ..mechanisms import Protocol
from ..oracles import BaseOracle
from ..surveys import BaseColumnSurvey


def planned_protocol(
    oracle: object,
    n_categories: int | None,
    epsilon: float | None,
    need: str = "Planning needs an oracle such as OLH(epsilon=1.0), or a list of them",
) -> Protocol:
    """Return the protocol of an oracle over `n_categories`, or over the domain it declares."""
    if isinstance(oracle, BaseColumnSurvey):
        raise TypeError(
            f"{need}, got {type(oracle).__name__}, which has several columns: pass the oracle of "
            "one column, and the number of users who are asked for it."
        )
    if not isinstance(oracle, BaseOracle):
        raise TypeError(f"{need}, got {type(oracle).__name__}.")
    planned: BaseOracle = clone(oracle)
    if epsilon is not None:
        planned.set_params(epsilon=epsilon)
    if n_categories is not None:
        planned.set_params(categories=n_categories)
    return planned.protocol()


def check_number(name: str, value: object) -> None:
    """Raise ValueError unless an argument is a finite number above 0."""
    if not (isinstance(value, Real) and 0 < float(value) < math.inf):
        raise ValueError(f"Argument {name} must be a finite number > 0, got {value!r}.")


def least_number(n_samples: float) -> int:
    """Return the least whole number of users, at least 1, that is not below a real number."""
    # A quotient that is a whole number except for rounding errors needs no further user.
    return max(1, math.ceil(n_samples * (1 - 1e-12)))


def for_each(oracle: Any, compute: Callable[[Any], Any]) -> Any:
    """Compute the result for an oracle, or an array of results for a list of oracles."""
    if isinstance(oracle, Sequence):
        return np.array([compute(one) for one in oracle])
    return compute(oracle)
