"""Exact coins: every draw is decided by integers, so the probabilities are rational and provable.

A probability is an integer threshold P over 2**64. `Coins.bernoulli(P, n)` is True with
probability exactly P / 2**64 and `Coins.integers(high, n)` is exactly uniform, provided that the
bytes are uniform. Bytes come from a secure source (`SecureCoins`) when privacy is at stake,
or from a seeded generator (`SeededCoins`) in simulations; all the rest is the same code.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ..support.random import RandomState, root_entropy

TWO_64 = 1 << 64
_SYSTEM_BYTES = 1 << 12  # drawn from the operating system itself
_SMALL_SUBSET = 16  # a subset of fewer than one in this many items is small
_LISTED_ITEMS = 16  # all subsets of so few items stand in a table
_LEAST_KEPT = 0.15  # of what begins a subset; with fewer, repairs are as quick (2026-11-26)
_MANY_ITEMS = 1 << 15  # beyond, an exact share is cheaper than few digits and many repairs
_PLACES = 8  # tried at a time in each row of bits: 4 to 8 are equally quick, 16 not (2026-11-26)
_BIT = np.array([128 >> i for i in range(8)], dtype=np.uint8)
_FEW_ENDS = 12  # from here on searching is quicker, measured with a million words (2026-11-25)
_OCTET_BLOCK = 1 << 16  # words worked on at a time
_TIE = 256  # no eight booleans have this number


@lru_cache(maxsize=64)
def exp_lower_bound(epsilon: float) -> Fraction:
    """Return a rational just below exp(epsilon), at most one part in 10**59 too small."""
    # No threshold over 2**64 changes beyond exp(10000), where this is still a lower bound.
    value = Context(prec=60, Emax=10**8, Emin=-(10**8)).exp(Decimal(min(float(epsilon), 1e4)))
    # `exp` is correctly rounded, so one unit in the last place below is a true lower bound.
    return Fraction(value) - Fraction(10) ** (value.adjusted() - 59)


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
    """Return the largest P such that reporting in a set with probability P / 2**64 is private."""
    # Reports are uniform inside and outside, so the worst ratio is P n_outside / ((2**64 - P)
    # n_inside); one inside and d - 1 outside is `direct_threshold`.
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
    return math.ceil(TWO_64 / (exp_lower_bound(epsilon) + 1))


def n_reached(ends: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return how many of some rising ends each value reaches, as `searchsorted` does."""
    if len(ends) > _FEW_ENDS:
        return np.searchsorted(ends, values, side="right")
    result = np.zeros(np.shape(values), dtype=np.int64)
    for end in ends:  # quicker than searching
        result += values >= end
    return result


def rows_by_group(groups: np.ndarray) -> Iterator[tuple[int, slice | np.ndarray]]:
    """Yield each group that occurs, with the indices of its reports.

    Shapes: groups (n,).
    Returns: the groups in their order, with rising indices; a slice, which copies nothing, if
    there is only one group.
    """
    if not groups.size:
        return
    first, last = int(groups.min()), int(groups.max())
    if first == last:
        yield first, slice(None)
        return
    # Integers of 16 bits are sorted by their digits, in linear time.
    is_small = first >= 0 and last < 1 << 16
    order = np.argsort(groups.astype(np.uint16) if is_small else groups, kind="stable")
    ordered = groups[order]
    for rows in np.split(order, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1):
        yield int(groups[rows[0]]), rows


class Coins:
    """Exact draws from a source of uniform bytes."""

    #: From this many coins on, a table for eight at a time is faster.
    many_coins: float = 1 << 16
    #: How many numbers are drawn at least, even if nobody needs one.
    n_least = 0

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
            packed = self._octets(octets(threshold), -(-n // 8))
            return np.unpackbits(packed, count=n).view(bool).reshape(size)
        high, low = divmod(threshold, 1 << 56)
        byte = self.bytes(n)
        success = byte < high
        ties = np.flatnonzero(byte == high)
        if ties.size:
            rest = np.zeros((ties.size, 8), dtype=np.uint8)
            rest[:, :7] = self.bytes(7 * ties.size).reshape(-1, 7)
            success[ties] = rest.view("<u8").ravel() < low
        return success.reshape(size)

    def packed_bernoulli(self, threshold: int, n: int, n_bits: int) -> np.ndarray:
        """Draw rows of the same booleans as `bernoulli`, packed.

        Parameters
        ----------
        threshold : int
            From 0 to 2**64 - 1.
        n, n_bits : int
            Number of rows, and of booleans in a row.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8))
            uint8: the highest bit of a byte first, zeros after the last bit.
        """
        if n_bits % 8 or n * n_bits < self.many_coins:
            return np.packbits(self.bernoulli(threshold, (n, n_bits)), axis=1)
        return self._octets(octets(threshold), n * n_bits // 8).reshape(n, -1)

    def _octets(self, law: Octets, n: int) -> np.ndarray:
        """Return n bytes of eight booleans each; each block of work stays in the cache."""
        result, room = np.empty(n, dtype=np.uint8), np.empty(min(n, _OCTET_BLOCK), dtype=np.uint16)
        for start in range(0, n, _OCTET_BLOCK):
            block = room[: n - start]
            pairs = self.bytes(2 * len(block))
            # No word is outside the table; "clip" leaves out the check, and a copy.
            law.of_pair.take(pairs.view("<u2"), out=block, mode="clip")
            ties = np.flatnonzero(block == _TIE)
            if ties.size:
                digits = np.empty((ties.size, 64), dtype=np.uint8)
                digits[:, :2] = pairs.reshape(-1, 2)[ties]
                digits[:, 2:] = self.bytes(62 * ties.size).reshape(-1, 62)
                block[ties] = law.of_number(digits)
            result[start : start + len(block)] = block
        return result

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
        is_even = accepted == 1 << 8 * width  # which no word reaches
        # Ends: with probability 1: more than half of all words are accepted.
        while not is_even and (rejected := np.flatnonzero(draws >= accepted)).size:
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
        return n_reached(np.array(bounds[:-1], dtype=np.uint64), self.bytes(8 * size).view("<u8"))

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
        for law, rows in rows_by_group(laws):
            result[rows] = np.searchsorted(bounds[law], words[rows], side="right")
        return result

    def subsets(self, sizes: np.ndarray, n_items: int, n_columns: int | None = None) -> np.ndarray:
        """Draw subsets of given sizes exactly uniformly.

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
        n_columns = n_columns or n_items
        packed = self.packed_subsets(sizes, n_items, -(-n_columns // 8))
        return np.unpackbits(packed, axis=1, count=n_columns).view(bool)

    def packed_subsets(self, sizes: np.ndarray, n_items: int, n_bytes: int) -> np.ndarray:
        """Draw subsets of given sizes exactly uniformly, packed.

        Of few items, all subsets stand in a table. Small subsets get their members at uniform
        places until they have their size. Others begin as independent bits of the same probability;
        those with a number of members that the last items can make up for are kept, as often as
        these have such subsets (`_finished`). Where that is rare, members are added at (or removed
        from) uniform places instead, one after the other, until a subset has its size. Either way
        the draw has the same law after any permutation of the items that it began with, and so
        have those that are alike in what was done: all subsets of a size are equally likely.

        Parameters
        ----------
        sizes : ndarray of shape (n,)
            Number of members of each subset.
        n_items : int
            Number of items to choose from.
        n_bytes : int
            Number of bytes of a row of the result, at least ``n_items / 8``.

        Returns
        -------
        ndarray of shape (n, n_bytes)
            uint8: a bit for each item, the highest bit of a byte first; the others are 0.
        """
        n, n_members = len(sizes), int(sizes.sum())
        bits = np.zeros((n, n_bytes), dtype=np.uint8)
        if n_items <= _LISTED_ITEMS:
            bits[:, :2] = self._listed_subsets(sizes, n_items)[:, :n_bytes]
            return bits
        if n_members * _SMALL_SUBSET <= n * n_items:
            return np.packbits(self._placed(sizes, n_items, 8 * n_bytes), axis=1)
        open_rows = []
        for size in np.flatnonzero(np.bincount(sizes)):
            rows, start = np.flatnonzero(sizes == size), best_start(n_items, int(size))
            if start.is_kept < _LEAST_KEPT:
                open_rows.append(rows)
            else:
                whole = -(-n_items // 8)
                bits[rows, :whole] = self._finished(start, int(size), len(rows))
        if open_rows:
            rows = np.concatenate(open_rows)
            bits[rows] = self._repaired(sizes[rows], n_items, n_bytes)
        return bits

    def _listed_subsets(self, sizes, n_items):
        """Draw subsets of few items, by their number among all of their size.

        Shapes: sizes (n,) -> (n, 2), packed bits.
        """
        table = subset_table(n_items)
        n_sets, limit = table.n_sets.take(sizes), table.limits.take(sizes)
        # A word times the number of sets, over 2**32, is a uniform number if the word is drawn
        # again where the rest is below 2**32 modulo that number (Lemire 2019,
        # doi:10.1145/3230636).
        words = self.bytes(4 * len(sizes)).view("<u4") * n_sets
        # Ends: with probability 1: each pass keeps more than half of the words on average.
        while (again := np.flatnonzero(words.astype(np.uint32) < limit)).size:
            words[again] = self.bytes(4 * again.size).view("<u4") * n_sets[again]
        numbers = (words >> np.uint64(32)).view(np.int64) + table.starts.take(sizes)
        return table.sets.take(numbers).view(np.uint8).reshape(-1, 2)

    def _finished(self, start, size, n):
        """Draw subsets of one size: the first items by independent coins, the last ones to fit.

        Given the first items, the last ones have as many subsets of the size that is left as
        `Start.chances` says, weighed by how likely independent coins would make each. Drawn with
        this chance, all subsets of the size are equally likely.
        Shapes: -> (n, n_bytes), packed bits.
        """
        first, n_missing = start.n_first // 8, n
        found, left = [], []
        # Ends: with probability 1: a subset is kept with the chance `start.is_kept` above 0.
        while n_missing:
            n_tried = int(n_missing / start.is_kept * 1.02) + 16
            bits = self._sixteenths(start.sixteenths, n_tried, -(-first // 8) * 8)
            bits[:, first:] = 0
            n_members = count_members(bits)
            is_kept = self.bytes(8 * n_tried).view("<u8") < start.chances.take(n_members)
            kept = np.flatnonzero(is_kept)[:n_missing]
            found.append(bits.take(kept, axis=0)[:, :first])
            left.append(size - n_members[kept])
            n_missing -= len(kept)
        last = self._listed_subsets(np.concatenate(left), start.n_last)
        return np.concatenate([np.concatenate(found), last], axis=1)

    def _placed(self, sizes, n_items, n_columns):
        """Add members at uniform places until each subset has its size.

        Shapes: sizes (n,) -> (n, n_columns), booleans.
        """
        n = len(sizes)
        bits = np.zeros((n, n_columns), dtype=bool)
        flat, missing = bits.reshape(-1), np.array(sizes, dtype=np.int64)
        small = np.int32 if bits.size < 1 << 31 else np.int64  # half as much to sort
        starts = (np.arange(n) * n_columns).astype(small)
        active = np.flatnonzero(missing)
        # Ends: with probability 1: no size exceeds `n_items`, so that a place is free.
        while active.size:
            n_tried = missing[active]
            place = np.repeat(starts[active], n_tried)
            place += self.integers(n_items, len(place)).astype(place.dtype)
            row = np.repeat(np.arange(len(active), dtype=np.int32), n_tried)
            # Members, and repeated places, do not count.
            useful = np.flatnonzero(~flat.take(place))
            place, row = place.take(useful), row.take(useful)
            place.sort()  # the rows stay in order
            is_first = np.ones(len(place), dtype=bool)
            np.not_equal(place[1:], place[:-1], out=is_first[1:])
            flat[place] = True
            missing[active] -= np.bincount(row[is_first], minlength=len(active))
            active = active[missing[active] > 0]
        return bits

    def _repaired(self, sizes, n_items, n_bytes):
        """Draw independent bits, and change some of them until each subset has its size."""
        n, whole = len(sizes), -(-n_items // 8)
        rate = int(sizes.sum()) / max(n * n_items, 1)
        if n_items > _MANY_ITEMS:  # only the spread of the numbers of members is left to repair
            drawn = self.packed_bernoulli(min(int(rate * TWO_64), TWO_64 - 1), n, 8 * whole)
        else:
            drawn = self._sixteenths(_cheapest_start(rate, n_items), n, whole)
        drawn[:, -1] &= 255 << (8 * whole - n_items) & 255
        bits = np.zeros((n, n_bytes), dtype=np.uint8)
        bits[:, :whole] = drawn
        self._repair(bits.reshape(-1), sizes - count_members(bits), n_items, n_bytes)
        return bits

    def _sixteenths(self, sixteenths, n, n_bytes):
        """Draw packed bits of few random ones each: by the digits of a binary fraction."""
        drawn = np.zeros((n, n_bytes), dtype=np.uint8)
        for digit in reversed(f"{sixteenths:04b}".rstrip("0")):  # bits below it, from the last on
            coins = self.bytes(n * n_bytes).reshape(n, n_bytes)
            (np.bitwise_or if digit == "1" else np.bitwise_and)(drawn, coins, out=drawn)
        return drawn

    def _repair(self, flat, missing, n_items, n_bytes):
        """Flip one bit after the other in each row that lacks members, or has too many."""
        rows = np.flatnonzero(missing)
        # Ends: with probability 1: sizes lie in 0 .. `n_items`, so that a bit can flip.
        while rows.size:
            left = np.abs(missing[rows]).astype(np.int32)
            others = np.where(missing[rows] > 0, 255, 0).astype(np.uint8)
            places = self.integers(n_items, _PLACES * rows.size).reshape(_PLACES, rows.size)
            masks = _BIT.take(places & 7)
            for place, mask in zip((places >> 3) + rows * n_bytes, masks, strict=True):
                byte = flat.take(place)
                # A place counts if there is something to change, in a row that is not done.
                change = (byte ^ others) & mask & -(left > 0).view(np.uint8)
                flat[place] = byte ^ change
                left -= change > 0
            missing[rows] = np.where(others, left, -left)
            rows = rows[left > 0]


def _cheapest_start(rate: float, n_items: int) -> int:
    """Return the sixteenths of a share of members that cost the least to draw and to repair."""
    # Any share would do. Four random bits an item cost about as much as a place to try.

    def cost(sixteenths):
        share, n_digits = sixteenths / 16, _n_digits(sixteenths)
        spread = math.sqrt(n_items * share * (1 - share))
        z = n_items * (rate - share) / spread
        # The expectation of what a normal variable lacks, and that of what it has too much.
        lacking = z * math.erfc(-z / math.sqrt(2)) / 2
        lacking += math.exp(-z * z / 2) / math.sqrt(math.tau)
        tries = lacking / max(1 - rate, 1 / n_items) + (lacking - z) / max(rate, 1 / n_items)
        return spread * tries + n_items * n_digits / 64

    return min(range(1, 16), key=cost)


class SubsetTable(NamedTuple):
    """All subsets of a few items by their size, as packed bits of two bytes."""

    sets: np.ndarray  # (2**n_items,), the smallest ones first; both bytes as one number
    starts: np.ndarray  # (n_items + 1,): where those of a size begin
    n_sets: np.ndarray  # (n_items + 1,): how many there are
    limits: np.ndarray  # (n_items + 1,): 2**32 modulo their number


@lru_cache(maxsize=_LISTED_ITEMS)
def subset_table(n_items: int) -> SubsetTable:
    """Return the table of all subsets of a few items."""
    sets = np.arange(1 << n_items, dtype=np.uint32)
    sets = sets[np.argsort(np.bitwise_count(sets), kind="stable")]
    packed = (sets << (16 - n_items)).astype(">u2").view(np.uint16)
    n_sets = np.array([math.comb(n_items, size) for size in range(n_items + 1)])
    starts = np.cumsum(n_sets) - n_sets
    return SubsetTable(packed, starts, n_sets.astype(np.uint64), (1 << 32) % n_sets)


class Start(NamedTuple):
    """How subsets of one size begin: with independent coins for all but the last few items."""

    sixteenths: int  # the probability of each coin
    n_first: int  # items, whole bytes of them
    n_last: int  # items, 9 to 16
    chances: np.ndarray  # (n_first + 1,): over 2**64, of what has so many members to be kept
    is_kept: float  # the share of all that is kept


@lru_cache(maxsize=1 << 10)
def best_start(n_items: int, size: int) -> Start:
    """Return the start that takes the fewest random bits to draw a subset of this size."""
    n_last = (n_items - 9) % 8 + 9
    n_first = n_items - n_last

    def start(sixteenths):
        # As coins over 16 the subsets of the last items are whole numbers below 16**16.
        chances = [0] * (n_first + 1)
        for left in range(max(size - n_first, 0), min(n_last, size) + 1):
            others = (16 - sixteenths) ** (n_last - left)
            chances[size - left] = math.comb(n_last, left) * sixteenths**left * others
        factor = (TWO_64 - 1) // max(chances)
        # All subsets of the size together, times the factor.
        share = sixteenths**size * (16 - sixteenths) ** (n_items - size) * math.comb(n_items, size)
        kept = float(Fraction(share * factor, 16**n_first * TWO_64))
        exact = np.array([factor * chance for chance in chances], dtype=np.uint64)
        return Start(sixteenths, n_first, n_last, exact, kept)

    return max(map(start, range(1, 16)), key=lambda s: s.is_kept / _n_digits(s.sixteenths))


def _n_digits(sixteenths: int) -> int:
    """Return how many random bits decide a coin of this probability."""
    return len(f"{sixteenths:04b}".rstrip("0"))


def count_members(packed: np.ndarray) -> np.ndarray:
    """Count the ones in each row of packed bits, of shape (n, n_bytes)."""
    words = packed if packed.shape[1] % 8 else np.ascontiguousarray(packed).view(np.uint64)
    if words.shape[1] <= _FEW_ENDS:  # quicker than sums of short rows
        result = np.zeros(len(words), dtype=np.int64)
        for word in words.T:
            result += np.bitwise_count(word)
        return result
    return np.bitwise_count(words).sum(axis=1, dtype=np.int64)


class Octets:
    """The joint law of eight coins that are True with probability ``threshold / 2**64`` each."""

    # The probabilities of the 256 outcomes are multiples of 2**-512, so a uniform number of 512
    # bits decides by its place among their cumulative sums. Its first 16 bits alone decide,
    # except for the words (at most 255 in 65536) in which one of the sums lies.
    # threshold: from 1 to 2**64 - 1.

    def __init__(self, threshold: int):
        chances = [threshold**k * (TWO_64 - threshold) ** (8 - k) for k in range(9)]
        ends = list(accumulate(chances[outcome.bit_count()] for outcome in range(256)))
        # Strings of bytes compare like the numbers whose digits they are.
        self._ends = np.array([end.to_bytes(64, "big") for end in ends[:-1]], dtype="S64")
        #: For each word of 16 bits: eight booleans, as the bits of one number, or a tie.
        self.of_word = np.full(1 << 16, _TIE, dtype=np.uint16)
        word = TWO_64**8 >> 16
        for outcome, start, end in zip(range(256), [0, *ends], ends, strict=False):
            self.of_word[-(-start // word) : end // word] = outcome
        #: The same for the two bytes of a word, if they are read with the lowest byte first.
        self.of_pair = self.of_word[np.arange(1 << 16, dtype="<u2").byteswap()]

    def of_number(self, digits: np.ndarray) -> np.ndarray:
        """Return the outcomes of numbers of 64 bytes each, highest byte first."""
        return np.searchsorted(self._ends, digits.view("S64").ravel(), side="right")


octets = lru_cache(maxsize=8)(Octets)  # a law takes a millisecond to build, and 256 KiB


class SecureCoins(Coins):
    """Bytes from the operating system's secure source, or from a generator that it seeds."""

    # The coins of a single user come from the system itself. Many at a time are drawn by
    # OpenSSL's generator (AES-256 in counter mode, a CTR_DRBG of NIST SP 800-90A), ten times as
    # fast. Each such draw first mixes 256 new bits of the system into its state. So neither a
    # forked process nor a cloned machine repeats coins, and whoever learns the state later does
    # not learn earlier coins.

    n_least = 1  # the written format, of coins that are given, reads no more than it needs

    def bytes(self, n):
        draw = os.urandom if n <= _SYSTEM_BYTES else _expanded
        return np.frombuffer(draw(n), dtype=np.uint8)


def _expanded(n: int) -> bytes:
    """Return bytes of OpenSSL's generator, reseeded by the operating system."""
    try:
        from ssl import RAND_add, RAND_bytes  # slow to import
    except ImportError:  # Python was built without it
        return os.urandom(n)
    RAND_add(os.urandom(32), 32.0)
    return RAND_bytes(n)


class SeededCoins(Coins):
    """Bytes from a seeded generator: for simulations, never for a real report."""

    def __init__(self, generator: np.random.Generator):
        self._generator = generator

    def bytes(self, n):
        return np.frombuffer(self._generator.bytes(n), dtype=np.uint8)


class ByteCoins(Coins):
    """Given bytes: the coins of a single user, as clients in all languages read them."""

    # What a mechanism draws from these for one code is the written format of clients. They are
    # read in the order in which they are asked for. Without tables and without the subsets of
    # many users, which take fewer of them, there is less to write down.
    # stream: the bytes.
    # n_read: how many of them were read.

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

    def packed_subsets(self, sizes, n_items, n_bytes):
        return np.packbits(self.subsets(sizes, n_items, 8 * n_bytes), axis=1)


class CoinStreams:
    """One stream of coins per block of users, so that results do not depend on the work's order."""

    # With a seed, the coins of user i depend on the seed, the block size and i alone. With
    # `random_state=None` every stream is the secure source.

    def __init__(self, random_state: RandomState):
        self.is_secure = random_state is None
        self._entropy = None if self.is_secure else root_entropy(random_state)

    def block(self, index: int) -> Coins:
        """Return the coins of a block of users."""
        if self._entropy is None:
            return SecureCoins()
        seed = np.random.SeedSequence(self._entropy, spawn_key=(index,))
        return SeededCoins(np.random.Generator(np.random.PCG64DXSM(seed)))
