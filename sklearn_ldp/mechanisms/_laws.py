"""Probability laws that a channel may know about its own reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._coins import Coins


def choice_entropy(inside: Fraction, n_inside: int, n_outside: int, order: int = 1) -> float:
    """Return the entropy of a uniform choice from one of two sets of outcomes.

    Parameters
    ----------
    inside : Fraction
        Probability of the first set.
    n_inside, n_outside : int
        Sizes of the two sets.
    order : {1, 2}, default=1
        1 is Shannon's entropy, 2 the collision entropy: minus the logarithm of the probability that
        two choices agree.

    Returns
    -------
    float
        In bits.
    """
    # 1 - inside may be far below the resolution of floats, so each probability is exact.
    sets = [(p, n) for p, n in ((inside, n_inside), (1 - inside, n_outside)) if p > 0]
    logs = [math.log2(p.numerator) - math.log2(p.denominator) for p, _ in sets]
    return mixture_entropy(logs, [math.log2(n) for _, n in sets], order)


def mixture_entropy(logs: ArrayLike, entropies: ArrayLike, order: int) -> float:
    """Return the entropy of a draw from one of several sets of outcomes, which are disjoint.

    Parameters
    ----------
    logs : array-like of shape (n_sets,)
        Binary logarithms of the probabilities of the sets.
    entropies : array-like of shape (n_sets,)
        Entropies of a draw from each set, in bits.
    order : {1, 2}
        As for `choice_entropy`.

    Returns
    -------
    float
        In bits.
    """
    logs, entropies = np.asarray(logs), np.asarray(entropies)
    if order == 1:
        return float(np.exp2(logs) @ (entropies - logs))
    return max(-float(np.logaddexp2.reduce(2 * logs - entropies)), 0.0)


@dataclass(frozen=True, eq=False)
class ReportLaw:
    """Probabilities of kinds of reports: a linear map A of the frequencies, given by two products.

    A kind of report has one probability for the categories that it supports, and another one for
    all other categories.

    Parameters
    ----------
    supported, unsupported : float or ndarray of shape (n_kinds,)
        Probability of a given kind of report for a category that it supports, or does not.
    spread : callable
        Returns, for each kind, the sum of the (d,) weights of the categories that it supports.
    gather : callable
        Returns, for each category, the sum of the (n_kinds,) weights of the kinds that support it.
    kinds : callable, default=None
        Returns the kind of each report. None if reports are the numbers of their kinds.
    """

    supported: float | np.ndarray
    unsupported: float | np.ndarray
    spread: Callable[[np.ndarray], np.ndarray]
    gather: Callable[[np.ndarray], np.ndarray]
    kinds: Callable[[np.ndarray], np.ndarray] | None = None

    def probabilities(self, frequencies: np.ndarray) -> np.ndarray:
        """Return the probability of each kind of report, A f.

        Parameters
        ----------
        frequencies : ndarray of shape (d,)
            Frequencies of the users' categories.

        Returns
        -------
        ndarray of shape (n_kinds,)
            One probability per kind.
        """
        support = (self.supported - self.unsupported) * self.spread(frequencies)
        return self.unsupported * frequencies.sum() + support

    def likelihoods(self, weights: np.ndarray) -> np.ndarray:
        """Return the expected weight of a report, for a user of each category, A' w.

        Parameters
        ----------
        weights : ndarray of shape (n_kinds,)
            One weight per kind of report.

        Returns
        -------
        ndarray of shape (d,)
            One expectation per category.
        """
        support = self.gather((self.supported - self.unsupported) * weights)
        return np.sum(self.unsupported * weights) + support

    def count(self, reports: np.ndarray, n_categories: int) -> np.ndarray:
        """Count the reports of each kind.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Checked reports.
        n_categories : int
            The number d of categories.

        Returns
        -------
        ndarray of shape (n_kinds,)
            int64.
        """
        kinds = reports if self.kinds is None else self.kinds(reports)
        return np.bincount(kinds, minlength=len(self.spread(np.zeros(n_categories))))


class JointSupport(NamedTuple):
    """Probability that a report supports two given categories.

    Parameters
    ----------
    own : float
        The probability if the user has one of them.
    other : float
        The probability if the user has neither.
    """

    own: float
    other: float


class PublicPart(NamedTuple):
    """The part of a report that a client draws without looking at its value.

    Parameters
    ----------
    of_reports : callable
        Returns the part of each report, as integers of shape (n,).
    n_values : int
        Number of values that the part takes.
    shares : ndarray of shape (n_values,) or None
        Probabilities of these values; None if all are equally likely.
    n_draws : int or None
        The part is made of a uniform number below this; None means below `n_values`.
    of_draws : callable or None
        Returns the parts made of such numbers, of shape (n,); None if they are the numbers
        themselves.
    privatize : callable or None
        Randomises codes of shape (n,), given parts of shape (n,) and coins, into reports. It must
        keep epsilon for every part. None if a collector cannot assign the part.
    collisions : callable or None
        Takes the number of reports of each part, of shape (n_values,). Returns, for each of some
        classes of pairs of categories, the number of reports that support both of a pair or
        neither, whatever the answer is; and the probability of that. None if it is not known.
    """

    of_reports: Callable[[np.ndarray], np.ndarray]
    n_values: int
    shares: np.ndarray | None = None
    n_draws: int | None = None
    of_draws: Callable[[np.ndarray], np.ndarray] | None = None
    privatize: Callable[[np.ndarray, np.ndarray, Coins], np.ndarray] | None = None
    collisions: Callable[[np.ndarray], tuple[np.ndarray, float]] | None = None

    def draw(self, uniform: Callable[[int], np.ndarray]) -> np.ndarray:
        """Draw parts.

        Parameters
        ----------
        uniform : callable
            Returns uniform integers below a number.

        Returns
        -------
        ndarray of shape (n,)
            int64.
        """
        draws = uniform(self.n_values if self.n_draws is None else self.n_draws)
        return draws if self.of_draws is None else self.of_draws(draws)
