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
from numbers import Integral
from typing import Any

import numpy as np

TWO_64 = 1 << 64


def exp_lower_bound(epsilon: float) -> Fraction:
    """A rational just below exp(epsilon): at most one part in 10**59 too small."""
    value = Context(prec=60, Emax=10**8, Emin=-(10**8)).exp(Decimal(float(epsilon)))
    # `exp` is correctly rounded, so one unit in the last place below is a true lower bound.
    unit = Decimal(1).scaleb(value.adjusted() - 59)
    return Fraction(value) - Fraction(unit)


def direct_threshold(epsilon: float, n_values: int) -> int:
    """Largest P such that keeping one of `n_values` with probability P / 2**64 is private.

    The others share the rest evenly, so the worst ratio is P (n_values - 1) / (2**64 - P), which
    grows with P: rounding down keeps it at most exp(epsilon).
    """
    ratio = exp_lower_bound(epsilon)
    exact = TWO_64 * ratio / (ratio + n_values - 1)
    return min(int(exact), TWO_64 - 1)


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


def root_entropy(random_state: Any) -> list[int]:
    """Entropy from a seed, or drawn from a generator, which advances."""
    if isinstance(random_state, Integral):
        return [int(random_state)]
    if isinstance(random_state, np.random.Generator):
        return [int(word) for word in random_state.integers(1 << 32, size=4)]
    if isinstance(random_state, np.random.RandomState):
        return [int(word) for word in random_state.randint(1 << 32, size=4, dtype=np.uint64)]
    raise TypeError(
        "random_state must be None (secure), an int, a numpy.random.RandomState or a "
        f"numpy.random.Generator, got {type(random_state).__name__}."
    )


def as_generator(random_state: Any) -> np.random.Generator:
    """A generator for simulations that release nothing."""
    if random_state is None:
        return np.random.default_rng()
    return np.random.default_rng(root_entropy(random_state))
