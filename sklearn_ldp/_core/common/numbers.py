"""Checks of numbers that plans receive as arguments."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np


def check_number(name: str, value: object) -> None:
    """Raise ValueError unless the argument is a finite number greater than 0."""
    if not (isinstance(value, Real) and 0 < float(value) < math.inf):
        raise ValueError(
            f"Argument {name} must be a finite number > 0, got {value!r}. Pass a positive number."
        )


def check_power(power: Any) -> None:
    """Raise ValueError unless the argument is a number from 0.5 to below 1."""
    if not (isinstance(power, Real) and 0.5 <= float(power) < 1):
        raise ValueError(
            f"Argument power must satisfy 0.5 <= power < 1, got {power!r}. Pass for example 0.8."
        )


def positive_numbers(name: str, values: Any) -> np.ndarray:
    """Return an argument as an array of floats.

    Raise ValueError unless all elements are finite and greater than 0.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or not np.all((array > 0) & (array < math.inf)):
        raise ValueError(
            f"Argument {name} must be a finite number > 0, or an array of such numbers, got "
            f"{values!r}. Pass positive numbers."
        )
    return array.astype(np.float64)


def frequencies_below_1(name: str, values: Any) -> np.ndarray:
    """Return an argument as an array of floats.

    Raise ValueError unless all elements are at least 0 and less than 1.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or not np.all((array >= 0) & (array < 1)):
        raise ValueError(
            f"Argument {name} must be from 0 to below 1, got {values!r}. Write 1 % as 0.01."
        )
    return array.astype(np.float64)
