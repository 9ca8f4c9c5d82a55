"""Exact coins: every draw is decided by integers, so the probabilities are rational and provable.

A probability is an integer threshold P over 2**64. `Coins.bernoulli(P, n)` is True with
probability exactly P / 2**64 and `Coins.integers(high, n)` is exactly uniform, provided that the
bytes are uniform. Bytes come from the operating system (`SecureCoins`) when privacy is at stake,
or from a seeded generator (`SeededCoins`) in simulations; all the rest is the same code.
"""

from __future__ import annotations

import os
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from .._random import root_entropy

TWO_64 = 1 << 64


def exp_lower_bound(epsilon: float) -> Fraction:
    """A rational just below exp(epsilon): at most one part in 10**59 too small."""
    # No threshold over 2**64 changes beyond exp(10000), and less is a lower bound all the same.
    value = Context(prec=60, Emax=10**8, Emin=-(10**8)).exp(Decimal(min(float(epsilon), 1e4)))
    # `exp` is correctly rounded, so one unit in the last place below is a true lower bound.
    unit = Decimal(1).scaleb(value.adjusted() - 59)
    return Fraction(value) - Fraction(unit)


def direct_threshold(epsilon: float, n_values: int) -> int:
    """Largest P such that keeping one of `n_values` with probability P / 2**64 is private.

    The others share the rest evenly, so the worst ratio is P (n_values - 1) / (2**64 - P), which
    grows with P: rounding down keeps it at most exp(epsilon).
    """
    return group_threshold(epsilon, 1, n_values - 1)


def group_threshold(epsilon: float, n_inside: int, n_outside: int) -> int:
    """Largest P such that reporting inside a set with probability P / 2**64 is private.

    Reports are uniform inside and outside, so the worst ratio is
    P n_outside / ((2**64 - P) n_inside); one inside and d - 1 outside is `direct_threshold`.
    """
    ratio = exp_lower_bound(epsilon) * n_inside
    return min(int(TWO_64 * ratio / (ratio + n_outside)), TWO_64 - 1)


def symmetric_threshold(epsilon: float) -> int:
    """Largest P such that keeping each of two bits with probability P / 2**64 is private.

    The worst ratio is (P / (2**64 - P))**2, so each bit spends half of epsilon.
    """
    return direct_threshold(epsilon / 2, 2)


def zero_bit_threshold(epsilon: float) -> int:
    """Smallest Q such that flipping a 0 with Q / 2**64 and a 1 with 1/2 is private.

    The worst ratio is (2**64 - Q) / Q, which falls with Q: rounding up keeps it at most
    exp(epsilon).
    """
    ratio = exp_lower_bound(epsilon)
    exact = TWO_64 / (ratio + 1)
    return int(-(-exact.numerator // exact.denominator))


class Coins:
    """Exact draws from a source of uniform bytes."""

    def bytes(self, n: int) -> np.ndarray:
        """Return `n` uniform bytes as a uint8 array."""
        raise NotImplementedError

    def bernoulli(self, threshold: int, size: int | tuple[int, ...]) -> np.ndarray:
        """Return booleans that are True with probability exactly ``threshold / 2**64``.

        One byte decides all but one draw in 256; the ties are settled by seven more.
        """
        high, low = divmod(threshold, 1 << 56)
        byte = self.bytes(int(np.prod(size)))
        success = byte < high
        ties = np.flatnonzero(byte == high)
        if ties.size:
            rest = np.zeros((ties.size, 8), dtype=np.uint8)
            rest[:, :7] = self.bytes(7 * ties.size).reshape(-1, 7)
            success[ties] = rest.view("<u8").ravel() < low
        return success.reshape(size)

    def integers(self, high: int, size: int) -> np.ndarray:
        """Return exactly uniform int64 draws from ``range(high)``, by rejection."""
        width = next(w for w in (1, 2, 4, 8) if high <= 1 << (8 * w - (w > 1)))
        word = np.dtype(f"<u{width}")
        accepted = (1 << 8 * width) // high * high
        draws = self.bytes(width * size).view(word).copy()
        while accepted < 1 << 8 * width:
            rejected = np.flatnonzero(draws >= accepted)
            if rejected.size == 0:
                break
            draws[rejected] = self.bytes(width * rejected.size).view(word)
        if high & (high - 1) == 0:
            return (draws & word.type(high - 1)).astype(np.int64)
        return (draws % word.type(high)).astype(np.int64)

    def subsets(self, sizes: np.ndarray, n_items: int) -> np.ndarray:
        """Return exactly uniform subsets of given sizes, as booleans of shape (n, n_items).

        Independent bits are uniform over the subsets of whatever size comes out; uniform
        additions or removals then lead to the size that is wanted, and keep it uniform.
        """
        mean_share = float(np.mean(sizes)) / n_items if len(sizes) else 0.0
        bits = self.bernoulli(min(int(TWO_64 * mean_share), TWO_64 - 1), (len(sizes), n_items))
        missing = sizes - np.count_nonzero(bits, axis=1)
        rows = np.flatnonzero(missing)
        while rows.size:
            place = self.integers(n_items, rows.size)
            adds = missing[rows] > 0
            changes = bits[rows, place] != adds
            bits[rows[changes], place[changes]] = adds[changes]
            missing[rows[changes]] -= np.where(adds[changes], 1, -1)
            rows = rows[missing[rows] != 0]
        return bits


class SecureCoins(Coins):
    """Bytes from the operating system's secure source."""

    def bytes(self, n):
        return np.frombuffer(os.urandom(n), dtype=np.uint8)


class SeededCoins(Coins):
    """Bytes from a seeded generator: for simulations, never for a real report."""

    def __init__(self, generator: np.random.Generator):
        self._generator = generator

    def bytes(self, n):
        return np.frombuffer(self._generator.bytes(n), dtype=np.uint8)


class CoinStreams:
    """One stream of coins a block of users, so that results do not depend on the work's order.

    With a seed, the coins of user i depend on the seed, the block size and i alone. With
    ``random_state=None`` every stream is the secure source.
    """

    def __init__(self, random_state: Any):
        self.is_secure = random_state is None
        self._entropy = None if self.is_secure else root_entropy(random_state)

    def block(self, index: int) -> Coins:
        """Return the coins of a block of users."""
        if self._entropy is None:
            return SecureCoins()
        seed = np.random.SeedSequence(self._entropy, spawn_key=(index,))
        return SeededCoins(np.random.Generator(np.random.PCG64DXSM(seed)))
