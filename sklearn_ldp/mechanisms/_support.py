"""Laws of support counts and of kinds of reports, drawn without drawing every user's report."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np


def independent_support(
    p: Fraction, q: Fraction, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw support counts that are independent across categories: Bin(m, p) + Bin(n - m, q).

    Parameters
    ----------
    p, q : Fraction
        Support probabilities.
    counts : ndarray of shape (n_categories,)
        True number m of users of each category; n is their sum.
    n_repeats : int
        Number of collections.
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
    """Return the law of the number of supported categories if supports are independent.

    Parameters
    ----------
    p, q : Fraction
        Support probabilities.
    n_categories : int
        The number d of categories.

    Returns
    -------
    ndarray of shape (d + 1,)
        Probabilities of 0 .. d: the law of Bernoulli(p) + Binomial(d - 1, q).
    """
    from scipy.stats import binom  # slow to import, and rarely needed

    others = binom.pmf(np.arange(n_categories), n_categories - 1, float(q))
    return np.convolve(others, [1 - float(p), float(p)])


def count_bits(bits: np.ndarray) -> np.ndarray:
    """Count the ones of each column.

    Parameters
    ----------
    bits : ndarray of shape (n, d)
        Zeros and ones as bytes.

    Returns
    -------
    ndarray of shape (d,)
        int64.
    """
    # Sums of up to 255 bits fit in a byte, so most of the adding is done on bytes.
    total = np.zeros(bits.shape[1], dtype=np.int64)
    for start in range(0, len(bits), 255):
        total += np.add.reduce(bits[start : start + 255], axis=0, dtype=np.uint8)
    return total


def fixed_size(size: int, n_categories: int) -> np.ndarray:
    """Return the law of the number of supported categories if it is the same in all reports.

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


def simulate_members(
    counts: np.ndarray,
    n_repeats: int,
    rng: np.random.Generator,
    share: float,
    n_reports: int,
    n_members: int,
    member: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Draw counts of reports that are uniform or, with probability `share`, uniform in a set.

    The law is exact. The work is O(min(n, d n_members)): users of rare categories are drawn one by
    one, those of frequent categories all at once.

    Parameters
    ----------
    counts : ndarray of shape (d,)
        True number of users of each category.
    n_repeats : int
        Number of collections.
    rng : Generator
        Source of randomness.
    share : float
        Probability of a report from the set of the user's category.
    n_reports : int
        Number of different reports.
    n_members : int
        Number of members of each set (if members are repeated, all are repeated equally often).
    member : callable
        ``member(codes, index)`` returns the index-th member of the set of each category.

    Returns
    -------
    ndarray of shape (n_repeats, n_reports)
        int64.
    """
    uniform, inside = np.full(n_reports, 1 / n_reports), np.full(n_members, 1 / n_members)
    everywhere = np.arange(n_members)
    result = np.empty((n_repeats, n_reports), dtype=np.int64)
    for total in result:
        structured = rng.binomial(counts, share)
        total[:] = rng.multinomial(counts.sum() - structured.sum(), uniform)
        is_frequent = structured > n_members
        codes = np.repeat(np.arange(len(counts)), np.where(is_frequent, 0, structured))
        index = rng.integers(n_members, size=len(codes))
        total += np.bincount(member(codes, index), minlength=n_reports)
        for code in np.flatnonzero(is_frequent):
            np.add.at(
                total,
                member(np.full(n_members, code), everywhere),
                rng.multinomial(structured[code], inside),
            )
    return result
