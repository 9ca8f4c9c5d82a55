"""Probability distributions of reports, with which mechanisms compute their noise and test
reports."""

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
    """Return the entropy, in bits, of a two-step choice: first one of two sets, then an element of
    it.

    The first set, with `n_inside` elements, is chosen with probability `inside`. The second set has
    `n_outside` elements. The element is uniform in the set. `order` is 1 for Shannon's entropy, and
    2 for the collision entropy.
    """
    # 1 - inside may be far below the resolution of floats, so each probability is exact.
    # order: 1 is Shannon's entropy, 2 the collision entropy, minus the logarithm of the probability
    # that two choices agree.
    sets = [(p, n) for p, n in ((inside, n_inside), (1 - inside, n_outside)) if p > 0]
    logs = [math.log2(p.numerator) - math.log2(p.denominator) for p, _ in sets]
    return mixture_entropy(logs, [math.log2(n) for _, n in sets], order)


def mixture_entropy(logs: Iterable[float], entropies: Iterable[float], order: int) -> float:
    """Return the entropy, in bits, of a two-step choice: first one of several disjoint sets, then
    an element.

    `logs` contains the binary logarithms of the probabilities of the sets. `entropies` contains the
    entropy of the element, given each set.
    """
    # entropies: entropies of a draw from each set, in bits.
    pairs = list(zip(logs, entropies, strict=True))
    if order == 1:
        return float(sum(2.0**log * (entropy - log) for log, entropy in pairs))
    terms = [2 * log - entropy for log, entropy in pairs]
    largest = max(terms)  # powers of 2 of terms may be too small for a float
    return max(-largest - math.log2(sum(2.0 ** (term - largest) for term in terms)), 0.0)


@dataclass(frozen=True, eq=False)
class ReportLaw:
    """The distribution of a report, given the user's category.

    Reports with equal probabilities for all categories are one kind. The matrix A of shape
    (n_kinds, d) contains the probability of each kind of report (row) for each category (column).
    If f are the frequencies of the categories, ``A f`` are the probabilities of the kinds. In each
    row there are only two probabilities: one for the categories that the report supports (counts in
    favor of), and one for all other categories. So A is not stored. Two functions, `spread` and
    `gather`, compute products with A and its transpose.

    Parameters
    ----------
    supported, unsupported : float or ndarray of shape (n_kinds,)
        For each kind of report, its probability if the user has a category that it supports, and
        its probability if the user has another category. A number is valid for all kinds.
    spread : callable
        ``spread(weights)`` accepts one weight per category, of shape (d,). It returns, for each
        kind, the sum of the weights of the categories that this kind supports.
    gather : callable
        ``gather(weights)`` accepts one weight per kind, of shape (n_kinds,). It returns, for each
        category, the sum of the weights of the kinds that support this category.
    kinds : callable, default=None
        ``kinds(reports)`` returns the index of the kind of each report. None if the reports are
        these numbers.
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
            For each row and each kind, the sum of the weights of the categories that it supports.
        """
        return self.spread(rows) if self.takes_rows else np.apply_along_axis(self.spread, -1, rows)

    def probabilities(self, frequencies: np.ndarray) -> np.ndarray:
        """Return the probability of each kind of report, A f, for a user drawn at random.

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
        """Return the products of the matrix A with several vectors.

        Parameters
        ----------
        columns : ndarray of shape (d, n_columns)
            The vectors, one per column.

        Returns
        -------
        ndarray of shape (n_kinds, n_columns)
            The products, one per column.
        """
        if self.matrix is not None:
            return self.matrix @ columns
        support = (self.supported - self.unsupported) * self.spread_each(columns.T)
        return (columns.sum(axis=0)[:, None] * self.unsupported + support).T

    def likelihoods(self, weights: np.ndarray) -> np.ndarray:
        """Return, for each category, the expected weight of the report of a user who has it.

        This is the product of the transpose of A with the weights.

        Parameters
        ----------
        weights : ndarray of shape (n_kinds,)
            One weight per kind of report.

        Returns
        -------
        ndarray of shape (d,)
            The expected weights, one per category.
        """
        support = self.gather((self.supported - self.unsupported) * weights)
        return np.sum(self.unsupported * weights) + support

    def count(self, reports: np.ndarray, n_categories: int) -> np.ndarray:
        """Return, for each kind, the number of reports of this kind.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that the mechanism's `check_reports` has returned.
        n_categories : int
            The number d of categories.

        Returns
        -------
        ndarray of shape (n_kinds,)
            The numbers of reports, int64.
        """
        kinds = reports if self.kinds is None else self.kinds(reports)
        return np.bincount(kinds, minlength=len(self.spread(np.zeros(n_categories))))


class JointSupport(NamedTuple):
    """Probability that a report supports (counts in favor of) both of two given categories.

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
    """Simulate, independently for each category, the number of reports that support it.

    Each of the m users who have the category sends a supporting report with probability p, and each
    of the n - m other users with probability q. So the number is the sum of two binomial variables.

    Parameters
    ----------
    p, q : Fraction
        Probability that a report supports the user's own category, and a given other category.
    counts : ndarray of shape (n_categories,)
        True number m of users of each category; n is their sum.
    n_repeats : int
        Number of simulated collections.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_repeats, n_categories)
        The numbers of supporting reports, int64.
    """
    shape = (n_repeats, len(counts))
    others = counts.sum() - counts
    return rng.binomial(counts, float(p), shape) + rng.binomial(others, float(q), shape)


def independent_sizes(p: Fraction, q: Fraction, n_categories: int) -> np.ndarray:
    """Return the distribution of the number of categories that a report supports.

    The report supports each category independently of the other categories.

    Parameters
    ----------
    p, q : Fraction
        Probability that a report supports the user's own category, and a given other category.
    n_categories : int
        The number d of categories.

    Returns
    -------
    ndarray of shape (d + 1,)
        The probabilities that 0, 1, .. d categories are supported. This is the distribution of the
        sum of a Bernoulli(p) variable and a Binomial(d - 1, q) variable.
    """
    from scipy.stats import binom  # slow to import, and rarely needed

    others = binom.pmf(np.arange(n_categories), n_categories - 1, float(q))
    return np.convolve(others, [1 - float(p), float(p)])


def count_bits(bits: np.ndarray) -> np.ndarray:
    """Return the number of ones in each column of an array of zeros and ones.

    Shapes: bits (n, d) -> (d,).
    bits: zeros and ones as bytes.
    Sums of up to 255 bits fit in a byte, so most additions use bytes. If rows are short, several
    are joined to one long row, because each addition of two rows has a fixed cost.
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
    """Return the distribution of the number of categories that a report supports, if it is fixed.

    Parameters
    ----------
    size : int
        Number of categories that each report supports.
    n_categories : int
        The number d of categories.

    Returns
    -------
    ndarray of shape (d + 1,)
        The probabilities that 0, 1, .. d categories are supported: 1 for `size`, otherwise 0.
    """
    law = np.zeros(n_categories + 1)
    law[size] = 1.0
    return law
