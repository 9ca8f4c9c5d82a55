"""Exact coins: every draw is decided by integers, so the probabilities are rational and provable.

A probability is an integer threshold P over 2**64. `Coins.bernoulli(P, n)` is True with
probability exactly P / 2**64 and `Coins.integers(high, n)` is exactly uniform, provided that the
bytes are uniform. Bytes come from the operating system (`SecureCoins`) when privacy is at stake,
or from a seeded generator (`SeededCoins`) in simulations; all the rest is the same code.
"""

from __future__ import annotations

import math
import os
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from .._utils.random import RandomState, root_entropy

TWO_64 = 1 << 64
_SMALL_SUBSET = 16  # a subset of fewer than one in so many items is small
_OCTET_BLOCK = 1 << 16  # words worked on at a time
_TIE = np.uint64(2**64 - 1)  # no eight booleans look like this


@lru_cache(maxsize=64)
def exp_lower_bound(epsilon: float) -> Fraction:
    """Return a rational just below exp(epsilon), at most one part in 10**59 too small."""
    # No threshold over 2**64 changes beyond exp(10000), where this is still a lower bound.
    value = Context(prec=60, Emax=10**8, Emin=-(10**8)).exp(Decimal(min(float(epsilon), 1e4)))
    # `exp` is correctly rounded, so one unit in the last place below is a true lower bound.
    unit = Decimal(1).scaleb(value.adjusted() - 59)
    return Fraction(value) - Fraction(unit)


def direct_threshold(epsilon: float, n_values: int) -> int:
    """Return the largest P such that it is private to keep a value with probability P / 2**64.

    The other `n_values` - 1 values share the rest evenly. So the worst ratio is
    P (n_values - 1) / (2**64 - P), which grows with P: rounding down keeps it at most exp(epsilon).

    Parameters
    ----------
    epsilon : float
        Privacy budget of one release.
    n_values : int
        Number of possible values.

    Returns
    -------
    int
        P, below 2**64.
    """
    return group_threshold(epsilon, 1, n_values - 1)


@lru_cache(maxsize=1 << 14)
def group_threshold(epsilon: float, n_inside: int, n_outside: int) -> int:
    """Return the largest P such that reporting in a set with probability P / 2**64 is private.

    Reports are uniform inside and outside, so the worst ratio is
    P n_outside / ((2**64 - P) n_inside); one inside and d - 1 outside is `direct_threshold`.

    Parameters
    ----------
    epsilon : float
        Privacy budget of one release.
    n_inside, n_outside : int
        Number of reports in the set, and number of other reports.

    Returns
    -------
    int
        P, below 2**64.
    """
    ratio = exp_lower_bound(epsilon) * n_inside
    return min(int(TWO_64 * ratio / (ratio + n_outside)), TWO_64 - 1)


def symmetric_threshold(epsilon: float) -> int:
    """Return the largest P such that keeping each of two bits with P / 2**64 is private.

    The worst ratio is (P / (2**64 - P))**2, so each bit spends half of epsilon.

    Parameters
    ----------
    epsilon : float
        Privacy budget of one release.

    Returns
    -------
    int
        P, below 2**64.
    """
    return direct_threshold(epsilon / 2, 2)


def zero_bit_threshold(epsilon: float) -> int:
    """Return the smallest Q such that flipping a 0 with Q / 2**64 and a 1 with 1/2 is private.

    The worst ratio is (2**64 - Q) / Q, which falls with Q: rounding up keeps it at most
    exp(epsilon).

    Parameters
    ----------
    epsilon : float
        Privacy budget of one release.

    Returns
    -------
    int
        Q, below 2**63.
    """
    ratio = exp_lower_bound(epsilon)
    exact = TWO_64 / (ratio + 1)
    return int(-(-exact.numerator // exact.denominator))


class Coins:
    """Exact draws from a source of uniform bytes."""

    #: From so many coins on, a table for eight at a time is faster.
    many_coins: float = 1 << 16

    def bytes(self, n: int) -> np.ndarray:
        """Draw uniform bytes.

        Parameters
        ----------
        n : int
            Number of bytes.

        Returns
        -------
        ndarray of shape (n,)
            uint8.
        """
        raise NotImplementedError

    def bernoulli(self, threshold: int, size: int | tuple[int, ...]) -> np.ndarray:
        """Draw booleans that are True with probability exactly ``threshold / 2**64``.

        One byte decides all but one draw in 256; seven more bytes settle the ties. In large arrays
        a draw takes two bits of randomness, by tables of eight draws at a time.

        Parameters
        ----------
        threshold : int
            From 0 to 2**64 - 1.
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        ndarray of that shape
            Booleans.
        """
        n = int(np.prod(size))
        if n >= self.many_coins:
            return self._octets(octets(threshold), -(-n // 8))[:n].reshape(size)
        high, low = divmod(threshold, 1 << 56)
        byte = self.bytes(n)
        success = byte < high
        ties = np.flatnonzero(byte == high)
        if ties.size:
            rest = np.zeros((ties.size, 8), dtype=np.uint8)
            rest[:, :7] = self.bytes(7 * ties.size).reshape(-1, 7)
            success[ties] = rest.view("<u8").ravel() < low
        return success.reshape(size)

    def _octets(self, law: Octets, n: int) -> np.ndarray:
        """Return 8 n booleans; each block of work stays in the cache."""
        result = np.empty(n, dtype=np.uint64)
        for start in range(0, n, _OCTET_BLOCK):
            block = result[start : start + _OCTET_BLOCK]
            pairs = self.bytes(2 * len(block))
            # No word is outside the table; "clip" leaves out the check, and a copy.
            law.of_pair.take(pairs.view("<u2"), out=block, mode="clip")
            ties = np.flatnonzero(block == _TIE)
            if ties.size:
                digits = np.empty((ties.size, 64), dtype=np.uint8)
                digits[:, :2] = pairs.reshape(-1, 2)[ties]
                digits[:, 2:] = self.bytes(62 * ties.size).reshape(-1, 62)
                block[ties] = law.of_number(digits)
        return result.view(bool)

    def integers(self, high: int, size: int) -> np.ndarray:
        """Draw from ``range(high)`` exactly uniformly, by rejection.

        Parameters
        ----------
        high : int
            Number of values, at most 2**63.
        size : int
            Number of draws.

        Returns
        -------
        ndarray of shape (size,)
            int64.
        """
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
        divisor = word.type(high)
        draws -= draws // divisor * divisor  # NumPy divides faster than it takes remainders
        return draws.astype(np.int64)

    def choice(self, bounds: list[int], size: int) -> np.ndarray:
        """Draw from a few outcomes, whose probabilities are multiples of 2**-64.

        Parameters
        ----------
        bounds : list of int
            Where the share of each outcome ends, rising, the last one 2**64: outcome i has the
            probability ``(bounds[i] - bounds[i - 1]) / 2**64`` exactly.
        size : int
            Number of draws.

        Returns
        -------
        ndarray of shape (size,)
            int64, in ``range(len(bounds))``.
        """
        words = self.bytes(8 * size).view("<u8")
        return np.searchsorted(np.array(bounds[:-1], dtype=np.uint64), words, side="right")

    def choices(self, bounds: np.ndarray, laws: np.ndarray) -> np.ndarray:
        """Draw from a few outcomes by one of several laws, as `choice` does by a single one.

        Parameters
        ----------
        bounds : ndarray of shape (n_laws, n_outcomes - 1)
            For each law the `bounds` of `choice`, without the last one, uint64.
        laws : ndarray of int of shape (size,)
            The law of each draw.

        Returns
        -------
        ndarray of shape (size,)
            int64, in ``range(n_outcomes)``.
        """
        # All coins are drawn before anybody looks at the laws.
        words = self.bytes(8 * len(laws)).view("<u8")
        result = np.empty(len(laws), dtype=np.int64)
        # Integers of 16 bits are sorted by their digits, in linear time.
        small = np.uint16 if len(bounds) < 1 << 16 else np.int64
        order = np.argsort(laws.astype(small), kind="stable")
        ends = np.cumsum(np.bincount(laws, minlength=len(bounds)))
        for law, rows in enumerate(np.split(order, ends[:-1])):
            result[rows] = np.searchsorted(bounds[law], words[rows], side="right")
        return result

    def subsets(self, sizes: np.ndarray, n_items: int, n_columns: int | None = None) -> np.ndarray:
        """Draw subsets of given sizes exactly uniformly.

        First each item is a member or not by independent bits (none is, if the subsets are small).
        Then members are added at (or removed from) uniform places until a subset has its size. What
        is drawn has the same law after any permutation of the items, and what is done with it
        depends on numbers of members and not on which items they are. So the result has the same
        law after any permutation: all subsets of a size are equally likely.

        Parameters
        ----------
        sizes : ndarray of shape (n,)
            Number of members of each subset.
        n_items : int
            Number of items to choose from.
        n_columns : int, default=None
            Number of columns of the result if there are to be more than items; they are False.

        Returns
        -------
        ndarray of shape (n, n_items) or (n, n_columns)
            Booleans: whether each item is a member.
        """
        n, width = len(sizes), -(-(n_columns or n_items) // 8) * 8
        rate = int(sizes.sum()) / max(n * n_items, 1)
        # A uniform place is rarely that of a member of a small subset, so there is none to remove.
        if is_large := rate * _SMALL_SUBSET > 1:
            # Any share would do. The cheapest leaves too many members with about probability
            # `rate`, as it takes 1 / rate tries to remove one, and 1 / (1 - rate) to add one. A
            # coarse one lets all blocks of users share a table of octets.
            shift = 2.5 * (rate - 0.5) * math.sqrt(rate * (1 - rate) / n_items)
            share = min(max(round(4096 * (rate + shift)), 1), 4095)
            bits = self.bernoulli(share << 52, (n, width))
            bits[:, n_items:] = False
        else:
            bits = np.zeros((n, width), dtype=bool)
        n_tries = round(1 / rate) if is_large else 1
        missing = sizes - _row_sums(bits)
        small = np.int32 if bits.size < 1 << 31 else np.int64  # half as much to sort
        starts = (np.arange(n) * width).astype(small)
        active = np.flatnonzero(missing)
        while active.size:
            self._adjust(bits.reshape(-1), missing, active, starts[active], n_items, n_tries)
            active = active[missing[active] != 0]
        return bits[:, : n_columns or n_items]

    def _adjust(self, flat, missing, active, starts, n_items, n_tries):
        """Try a uniform place for each member that an active row lacks, several to remove one."""
        lacking = missing[active]
        n_tried = np.where(lacking < 0, -n_tries * lacking, lacking)
        place = np.repeat(starts, n_tried)
        place += self.integers(n_items, len(place)).astype(place.dtype)
        row = np.repeat(np.arange(len(active), dtype=np.int32), n_tried)
        # Places where there is nothing to change, and repeated ones, do not count.
        useful = np.flatnonzero(flat.take(place) == (lacking < 0).take(row))
        place, row = place.take(useful), row.take(useful)
        place.sort()  # the rows stay in order
        is_first = np.ones(len(place), dtype=bool)
        np.not_equal(place[1:], place[:-1], out=is_first[1:])
        flat[place] = ~flat.take(place)
        n_changed = np.bincount(row[is_first], minlength=len(active))
        missing[active] -= np.sign(lacking) * n_changed


def _row_sums(bits: np.ndarray) -> np.ndarray:
    """Count the members of each row, whose length is a multiple of eight."""
    # Eight columns at a time, as the bytes of a number, which add up to at most 255.
    words = bits.view(np.uint64)
    total = np.zeros(len(bits), dtype=np.int64)
    for start in range(0, words.shape[1], 255):
        sums = words[:, start : start + 255].sum(axis=1)
        total += sums[:, None].view(np.uint8).sum(axis=1, dtype=np.int64)
    return total


class Octets:
    """The joint law of eight coins that are True with probability ``threshold / 2**64`` each.

    The probabilities of the 256 outcomes are multiples of 2**-512, so a uniform number of 512 bits
    decides by its place among their cumulative sums. Its first 16 bits alone decide, except for the
    words (at most 255 in 65536) in which one of the sums lies.

    Parameters
    ----------
    threshold : int
        From 1 to 2**64 - 1.
    """

    def __init__(self, threshold: int):
        chances = [threshold**k * (TWO_64 - threshold) ** (8 - k) for k in range(9)]
        ends = list(accumulate(chances[outcome.bit_count()] for outcome in range(256)))
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
        self._outcomes = bits.view(np.uint64).ravel()
        # Strings of bytes compare like the numbers whose digits they are.
        self._ends = np.array([end.to_bytes(64, "big") for end in ends[:-1]], dtype="S64")
        #: For each word of 16 bits: eight booleans, as the bytes of one number, or a tie.
        self.of_word = np.full(1 << 16, _TIE)
        word = TWO_64**8 >> 16
        for outcome, start, end in zip(self._outcomes, [0, *ends], ends, strict=False):
            self.of_word[-(-start // word) : end // word] = outcome
        #: The same for the two bytes of a word, if they are read with the lowest byte first.
        self.of_pair = self.of_word[np.arange(1 << 16, dtype="<u2").byteswap()]

    def of_number(self, digits: np.ndarray) -> np.ndarray:
        """Return the outcomes of numbers of 64 bytes each, highest byte first."""
        place = np.searchsorted(self._ends, digits.view("S64").ravel(), side="right")
        return self._outcomes[place]


@lru_cache(maxsize=8)
def octets(threshold: int) -> Octets:
    """Return the law of eight coins, which takes a millisecond and 1 MiB to build."""
    return Octets(threshold)


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


class ByteCoins(Coins):
    """Given bytes: the coins of a single user, as clients in all languages read them.

    What a mechanism draws from these for one code is the written format of clients. They are read
    in the order in which they are asked for. Without tables and without the subsets of many users,
    which take fewer of them, there is less to write down.

    Parameters
    ----------
    stream : bytes
        The bytes.

    Attributes
    ----------
    n_read : int
        How many of them were read.
    """

    many_coins = math.inf

    def __init__(self, stream: bytes):
        self._stream = np.frombuffer(stream, dtype=np.uint8)
        self.n_read = 0

    def bytes(self, n):
        start, self.n_read = self.n_read, self.n_read + n
        if self.n_read > len(self._stream):
            raise ValueError(f"expected {self.n_read} bytes of coins, got {len(self._stream)}")
        return self._stream[start : self.n_read]

    def subsets(self, sizes, n_items, n_columns=None):
        bits = np.zeros((len(sizes), n_columns or n_items), dtype=bool)
        for row, size in zip(bits, sizes, strict=True):
            items = np.arange(n_items)
            for i in range(size):  # the first places of a random permutation
                j = i + int(self.integers(n_items - i, 1)[0])
                items[[i, j]] = items[[j, i]]
            row[items[:size]] = True
        return bits


class CoinStreams:
    """One stream of coins per block of users, so that results do not depend on the work's order.

    With a seed, the coins of user i depend on the seed, the block size and i alone. With
    ``random_state=None`` every stream is the secure source.
    """

    def __init__(self, random_state: RandomState):
        self.is_secure = random_state is None
        self._entropy = None if self.is_secure else root_entropy(random_state)

    def block(self, index: int) -> Coins:
        """Return the coins of a block of users."""
        if self._entropy is None:
            return SecureCoins()
        seed = np.random.SeedSequence(self._entropy, spawn_key=(index,))
        return SeededCoins(np.random.Generator(np.random.PCG64DXSM(seed)))
