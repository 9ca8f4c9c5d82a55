"""Probability distributions of reports, which a channel may define for its noise and tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

# Bytes of rows that are arranged side by side: 256 to 4096 took the same time (2026-11-25).
_WIDE = 1024


@lru_cache(maxsize=256)  # collectors call it for each batch
def choice_entropy(inside: Fraction, n_inside: int, n_outside: int, order: int = 1) -> float:
    """Return the entropy of a choice: a random one of two sets, then a uniform element of it."""
    # 1 - inside may be far below the resolution of floats, so each probability is exact.
    # order: 1 is Shannon's entropy, 2 the collision entropy, minus the logarithm of the probability
    # that two choices agree.
    sets = [(p, n) for p, n in ((inside, n_inside), (1 - inside, n_outside)) if p > 0]
    logs = [math.log2(p.numerator) - math.log2(p.denominator) for p, _ in sets]
    return mixture_entropy(logs, [math.log2(n) for _, n in sets], order)


def mixture_entropy(logs: Iterable[float], entropies: Iterable[float], order: int) -> float:
    """Return the entropy of a choice: a random one of several disjoint sets, then an element."""
    # entropies: entropies of a draw from each set, in bits.
    pairs = list(zip(logs, entropies, strict=True))
    if order == 1:
        return float(sum(2.0**log * (entropy - log) for log, entropy in pairs))
    terms = [2 * log - entropy for log, entropy in pairs]
    largest = max(terms)  # powers of 2 of terms may be too small for a float
    return max(-largest - math.log2(sum(2.0 ** (term - largest) for term in terms)), 0.0)


@dataclass(frozen=True, eq=False)
class ReportLaw:
    """Probabilities of the kinds of reports: a matrix A times the frequencies of the categories.

    A kind of report has one probability for users of the categories that it supports, and another
    probability for all other users. The matrix A is given by two functions for products with A and
    its transpose.

    Parameters
    ----------
    supported, unsupported : float or ndarray of shape (n_kinds,)
        Probability of each kind of report, for a user whose category it supports, and for a user
        whose category it does not support.
    spread : callable
        Maps weights of categories, of shape (d,), to the sum, for each kind, of the weights of the
        categories that it supports.
    gather : callable
        Maps weights of kinds, of shape (n_kinds,), to the sum, for each category, of the weights of
        the kinds that support it.
    kinds : callable, default=None
        Maps reports to the numbers of their kinds. None if the reports are these numbers.
    matrix : ndarray of shape (n_kinds, d), default=None
        The matrix A, if it is available.
    takes_rows : bool, default=False
        Whether `spread` also accepts an array of shape (n, d), and returns an array of shape
        (n, n_kinds).
    """

    supported: float | np.ndarray
    unsupported: float | np.ndarray
    spread: Callable[[np.ndarray], np.ndarray]
    gather: Callable[[np.ndarray], np.ndarray]
    kinds: Callable[[np.ndarray], np.ndarray] | None = None
    matrix: np.ndarray | None = None
    takes_rows: bool = False

    def spread_each(self, rows: np.ndarray) -> np.ndarray:
        """Apply `spread` to each row of an array.

        Parameters
        ----------
        rows : ndarray of shape (..., d)
            Weights of the categories.

        Returns
        -------
        ndarray of shape (..., n_kinds)
            The sums.
        """
        return self.spread(rows) if self.takes_rows else np.apply_along_axis(self.spread, -1, rows)

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

    def products(self, columns: np.ndarray) -> np.ndarray:
        """Return the products of A with several columns.

        Parameters
        ----------
        columns : ndarray of shape (d, n_columns)
            The columns.

        Returns
        -------
        ndarray of shape (n_kinds, n_columns)
            One product per column.
        """
        if self.matrix is not None:
            return self.matrix @ columns
        support = (self.supported - self.unsupported) * self.spread_each(columns.T)
        return (columns.sum(axis=0)[:, None] * self.unsupported + support).T

    def likelihoods(self, weights: np.ndarray) -> np.ndarray:
        """Return, for each category, the expected weight of the report of a user with it (A' w).

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
        """Return, for each kind, the number of reports of this kind.

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
    """Probability that a report supports both of two given categories.

    Parameters
    ----------
    own : float
        The probability if the user has one of the two categories.
    other : float
        The probability if the user has neither.
    """

    own: float
    other: float


def independent_support(
    p: Fraction, q: Fraction, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw, for each category, an independent number of supporting reports.

    It is the sum of a binomial number of the m users who have the category, with probability p, and
    of the n - m other users, with probability q.

    Parameters
    ----------
    p, q : Fraction
        Support probabilities.
    counts : ndarray of shape (n_categories,)
        True number m of users of each category; n is their sum.
    n_repeats : int
        Number of simulated collections.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_repeats, n_categories)
        int64.
    """
    shape = (n_repeats, len(counts))
    others = counts.sum() - counts
    return rng.binomial(counts, float(p), shape) + rng.binomial(others, float(q), shape)


def independent_sizes(p: Fraction, q: Fraction, n_categories: int) -> np.ndarray:
    """Return the distribution of a report's number of supported categories, if independent.

    Parameters
    ----------
    p, q : Fraction
        Support probabilities.
    n_categories : int
        The number d of categories.

    Returns
    -------
    ndarray of shape (d + 1,)
        Probabilities of 0 .. d: the distribution of Bernoulli(p) + Binomial(d - 1, q).
    """
    from scipy.stats import binom  # slow to import, and rarely needed

    others = binom.pmf(np.arange(n_categories), n_categories - 1, float(q))
    return np.convolve(others, [1 - float(p), float(p)])


def count_bits(bits: np.ndarray) -> np.ndarray:
    """Return the number of ones in each column.

    Shapes: bits (n, d) -> (d,).
    bits: zeros and ones as bytes.
    Sums of up to 255 bits fit in a byte, so most additions use bytes. Narrow rows are arranged side
    by side, because each addition of two rows has a fixed cost.
    """
    d = bits.shape[1]
    n_beside = max(_WIDE // max(d, 1), 1)
    whole = len(bits) - len(bits) % n_beside
    rows = bits[:whole].reshape(-1, n_beside * d)
    total = np.zeros(n_beside * d, dtype=np.int64)
    for start in range(0, len(rows), 255):
        total += np.add.reduce(rows[start : start + 255], axis=0, dtype=np.uint8)
    return total.reshape(n_beside, d).sum(axis=0) + bits[whole:].sum(axis=0, dtype=np.int64)


def fixed_support_size(size: int, n_categories: int) -> np.ndarray:
    """Return the distribution of a report's number of supported categories, if it is constant.

    Parameters
    ----------
    size : int
        Number of categories that each report supports.
    n_categories : int
        The number d of categories.

    Returns
    -------
    ndarray of shape (d + 1,)
        Probabilities of 0 .. d.
    """
    law = np.zeros(n_categories + 1)
    law[size] = 1.0
    return law
