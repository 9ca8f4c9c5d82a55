"""How likely a planned collection tells a difference, and how many users that takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from scipy import sparse
from scipy.special import ndtr, ndtri

from .._noise import as_rows
from .._statements import check_level, check_of
from ..inference import EstimateCovariances
from ..oracles import BaseOracle
from ._planning_of import check_number, for_each, least_number, planned_protocol

AIMS = ("change", "order", "detection")


@dataclass(frozen=True)
class Aim:
    """What a collection is to tell, for one oracle: a gap, its spread, and the bar to pass.

    Parameters
    ----------
    gap : float
        The difference to tell, a frequency.
    null_std, std : float
        Standard deviation for one user (in each collection) if there is no difference, and if
        there is one.
    bar : float
        Number of the former that a significant estimate is away from no difference.
    """

    gap: float
    null_std: float
    std: float
    bar: float

    def power(self, n_samples: float) -> float:
        """Return the probability that n users tell it."""
        if not math.isfinite(self.std):
            return 0.0
        return float(ndtr((self.gap * math.sqrt(n_samples) - self.bar * self.null_std) / self.std))

    def n_samples(self, power: float) -> int | float:
        """Return the least number of users that tell it with this probability."""
        root = (self.bar * self.null_std + float(ndtri(power)) * self.std) / self.gap
        if not math.isfinite(root):
            return math.inf
        return least_number(max(root, 0.0) ** 2)


@overload
def expected_power(
    oracle: BaseOracle,
    gap: float,
    n_samples: float,
    n_categories: int | None = None,
    *,
    to: str = "change",
    epsilon: float | None = None,
    frequency: float | None = None,
    level: float = 0.95,
    of: str = "population",
) -> float: ...
@overload
def expected_power(
    oracle: Sequence[BaseOracle],
    gap: float,
    n_samples: float,
    n_categories: int | None = None,
    *,
    to: str = "change",
    epsilon: float | None = None,
    frequency: float | None = None,
    level: float = 0.95,
    of: str = "population",
) -> np.ndarray: ...
def expected_power(
    oracle: BaseOracle | Sequence[BaseOracle],
    gap: float,
    n_samples: float,
    n_categories: int | None = None,
    *,
    to: str = "change",
    epsilon: float | None = None,
    frequency: float | None = None,
    level: float = 0.95,
    of: str = "population",
) -> float | np.ndarray:
    """Return the probability that a collection tells a difference of this size.

    Parameters
    ----------
    oracle : oracle or list of oracles
        The oracles to plan for; they need not be fitted.
    gap : float
        The difference to tell, a frequency in (0, 1); 0.005 is half a percentage point.
    n_samples : float
        Number of users, in each collection.
    n_categories : int, default=None
        Size d of the domain; None takes the domain that the oracle declares.
    to : {"change", "order", "detection"}, default="change"
        What is to be told:

        - "change": that one category, named beforehand, grew by `gap` between two collections of
          `n_samples` users each;
        - "order": that one of two categories, named beforehand, is more frequent by `gap`;
        - "detection": that a category of the frequency `gap` is there at all, while all d
          categories are searched and no false one may be found.
    epsilon : float, default=None
        Privacy budget of one report; None takes the epsilon of the oracle.
    frequency : float, default=None
        The smaller one of the two frequencies that are compared; None is 1/d. All other
        categories are taken as equally frequent. A detection compares with 0.
    level : float, default=0.95
        One minus the probability of telling a difference that is not there.
    of : {"population", "users"}, default="population"
        Whom the statement is about, see :meth:`FrequencyEstimate.confidence_interval`.

    Returns
    -------
    float or ndarray of shape (n_oracles,)
        One probability per oracle; it is an array if `oracle` is a list.

    Raises
    ------
    ValueError
        If the domain is not known, or a parameter is out of range.

    See Also
    --------
    required_n_samples : The inverse: the number of users for a given power.

    Examples
    --------
    >>> from sklearn_ldp import GRR, OUE
    >>> from sklearn_ldp.metrics import expected_power
    >>> expected_power([OUE(1.0), GRR(1.0)], 0.02, 100_000, 100).round(2)
    array([0.64, 0.11])
    """
    check_number("n_samples", n_samples)
    return for_each(
        oracle,
        lambda one: _aim(one, gap, n_categories, to, epsilon, frequency, level, of).power(
            n_samples
        ),
    )


def samples_for_power(
    oracle: BaseOracle | Sequence[BaseOracle],
    gap: float,
    n_categories: int | None,
    to: str,
    epsilon: float | None,
    frequency: float | None,
    level: float,
    power: float,
    of: str,
) -> Any:
    """Return the number of users of `required_n_samples`, whose arguments these are."""
    if not 0 < power < 1:
        raise ValueError(f"Argument power must fulfil 0 < power < 1, got {power!r}.")
    return for_each(
        oracle,
        lambda one: _aim(one, gap, n_categories, to, epsilon, frequency, level, of).n_samples(
            power
        ),
    )


def _aim(
    oracle: BaseOracle,
    gap: float,
    n_categories: int | None,
    to: str,
    epsilon: float | None,
    frequency: float | None,
    level: float,
    of: str,
) -> Aim:
    if to not in AIMS:
        raise ValueError(f"Argument to must be one of {AIMS}, got {to!r}.")
    check_of(of)
    check_level(level)
    check_number("gap", gap)
    channel: Any = planned_protocol(oracle, n_categories, epsilon).mechanism
    d = channel.n_categories
    if to == "detection":
        base = 0.0
    elif frequency is None:
        base = 1 / d
    else:
        base = float(frequency)
    largest = 1 - base if to != "order" else 1 - 2 * base
    if not (0 <= base < 1 and gap <= largest + 1e-12):
        raise ValueError(
            f"No two frequencies differ by {gap:g} if the smaller one is {base:g}: name a smaller "
            "gap, or another frequency."
        )
    of_gap = _AIMS[to]
    return of_gap(channel, d, base, gap, level, of)


def _change(channel: Any, d: int, base: float, gap: float, level: float, of: str) -> Aim:
    row = as_rows(sparse.csr_array(([1.0], ([0], [0])), shape=(1, d)))
    before, after = (_variance(channel, row, _rest(d, [f]), of) for f in (base, base + gap))
    middle = _variance(channel, row, _rest(d, [base + gap / 2]), of)
    bar = float(ndtri(0.5 + level / 2))
    return Aim(gap, math.sqrt(2 * middle), math.sqrt(before + after), bar)


def _order(channel: Any, d: int, base: float, gap: float, level: float, of: str) -> Aim:
    row = as_rows(sparse.csr_array(([1.0, -1.0], ([0, 0], [0, 1])), shape=(1, d)))
    std = math.sqrt(_variance(channel, row, _rest(d, [base + gap, base]), of))
    return Aim(gap, std, std, float(ndtri(0.5 + level / 2)))


def _detection(channel: Any, d: int, base: float, gap: float, level: float, of: str) -> Aim:
    row = as_rows(sparse.csr_array(([1.0], ([0], [0])), shape=(1, d)))
    empty = _variance(channel, row, _rest(d, [0.0]), of)
    there = _variance(channel, row, _rest(d, [gap]), of)
    return Aim(gap, math.sqrt(empty), math.sqrt(there), float(-ndtri((1 - level) / d)))


_AIMS: dict[str, Callable[..., Aim]] = {
    "change": _change,
    "order": _order,
    "detection": _detection,
}


def _rest(d: int, first: list[float]) -> np.ndarray:
    """Return a distribution with these first frequencies, uniform over the other categories."""
    others = d - len(first)
    rest = np.full(others, (1 - sum(first)) / max(others, 1))
    return np.r_[first, rest]


def _variance(channel: Any, row: Any, frequencies: np.ndarray, of: str) -> float:
    """Return the variance of an answer for one user."""
    if not channel.is_informative:
        return math.inf
    covariances = EstimateCovariances(channel.noise(1), of, frequencies)
    return float(covariances.answer_variances(row)[0])
