"""Exact random draws: integers decide every draw, so its probability is an exact fraction.

A probability is an integer P (called threshold), divided by 2**64. If random bytes are uniform,
`Coins.bernoulli(P, n)` is True with probability exactly P / 2**64, and `Coins.integers(high, n)` is
exactly uniform. The bytes of real users come from a secure source (`SecureCoins`). In simulations
they come from a seeded generator (`SeededCoins`).
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

from ..common.random import RandomState, root_entropy

PROBABILITY_UNIT = 1 << 64
_SYSTEM_BYTES = 1 << 12  # up to this number, bytes come directly from the operating system
_SMALL_SUBSET = 16  # a subset of fewer than one in this many items is small
_LISTED_ITEMS = 16  # a table lists all subsets of up to this many items
_LEAST_KEPT = 0.15  # minimum share of starts that is kept; below, repairs are as fast (2026-11-26)
_MANY_ITEMS = 1 << 15  # above, an exact share is cheaper than few digits and many repairs
_PLACES = 8  # positions tried together in each row: 4 to 8 are equally fast, 16 not (2026-11-26)
_BIT = np.array([128 >> i for i in range(8)], dtype=np.uint8)
_FEW_ENDS = 12  # from here on searching is faster, measured with a million words (2026-11-25)
_OCTET_BLOCK = 1 << 16  # words processed together
_TIE = 256  # no eight booleans are represented by this number


@lru_cache(maxsize=64)
def exp_lower_bound(epsilon: float) -> Fraction:
    """Return a fraction just below exp(epsilon); its relative error is at most 1e-59."""
    # Thresholds over 2**64 no longer change beyond exp(10000), which is still a lower bound there.
    value = Context(prec=60, Emax=10**8, Emin=-(10**8)).exp(Decimal(min(float(epsilon), 1e4)))
    # `exp` is correctly rounded, so subtracting one unit in the last place gives a lower bound.
    return Fraction(value) - Fraction(10) ** (value.adjusted() - 59)


def direct_threshold(epsilon: float, n_values: int) -> int:
    """Return the threshold P of randomized response, the largest integer that satisfies epsilon.

    A user keeps their value with probability P / 2**64. Otherwise each of the `n_values` - 1 other
    values is equally likely. So the largest ratio of two likelihoods is
    P (n_values - 1) / (2**64 - P), which increases with P. P is rounded down, so that this ratio is
    at most exp(epsilon).

    Parameters
    ----------
    epsilon : float
        Privacy budget of one report.
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
    """Return the threshold P of a private choice between two sets of reports: the own set and all
    others.

    A user reports a uniform element of their own set with probability P / 2**64, and otherwise a
    uniform element of the other set. The sets have `n_inside` and `n_outside` elements. P is the
    largest integer for which the report satisfies epsilon.
    """
    # Reports are uniform inside and outside, so the worst ratio is P n_outside / ((2**64 - P)
    # n_inside). With 1 inside and d - 1 outside, this is `direct_threshold`.
    ratio = exp_lower_bound(epsilon) * n_inside
    return min(int(PROBABILITY_UNIT * ratio / (ratio + n_outside)), PROBABILITY_UNIT - 1)


def symmetric_threshold(epsilon: float) -> int:
    """Return the threshold P of symmetric unary encoding, the largest integer satisfying epsilon.

    A report has one bit per category, and each bit is kept with probability P / 2**64. Two values
    differ in two bits. So the largest ratio of two likelihoods is (P / (2**64 - P))**2, and each of
    the two bits spends half of epsilon.

    Parameters
    ----------
    epsilon : float
        Privacy budget of one report.

    Returns
    -------
    int
        P, below 2**64.
    """
    return direct_threshold(epsilon / 2, 2)


def zero_bit_threshold(epsilon: float) -> int:
    """Return the threshold Q of optimized unary encoding, the smallest integer satisfying epsilon.

    A report has one bit per category. A bit 0 is flipped with probability Q / 2**64, and a bit 1
    with probability 1/2. The largest ratio of two likelihoods is (2**64 - Q) / Q, which decreases
    with Q. Q is rounded up, so that this ratio is at most exp(epsilon).

    Parameters
    ----------
    epsilon : float
        Privacy budget of one report.

    Returns
    -------
    int
        Q, below 2**63.
    """
    return math.ceil(PROBABILITY_UNIT / (exp_lower_bound(epsilon) + 1))


def n_reached(ends: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return, for each value, how many of the `ends` are less than or equal to the value.

    `ends` is in ascending order.
    """
    if len(ends) > _FEW_ENDS:
        return np.searchsorted(ends, values, side="right")
    result = np.zeros(np.shape(values), dtype=np.int64)
    for end in ends:  # faster than searching
        result += values >= end
    return result


def rows_by_group(groups: np.ndarray) -> Iterator[tuple[int, slice | np.ndarray]]:
    """Yield each group that occurs, with the indices of the reports of this group.

    Shapes: groups (n,), the group of each report.
    The groups are in ascending order, and so are the indices of each group. If there is only one
    group, the indices are a slice, with which NumPy copies no data.
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
    """Base class of sources of randomness, which make draws with exact probabilities.

    The draws are computed from uniform bytes.
    """

    #: From this number of booleans on, a table for eight of them is faster.
    many_coins: float = 1 << 16
    #: The minimum number of numbers to draw, even if fewer are needed.
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
            The bytes, uint8.
        """
        raise NotImplementedError

    def bernoulli(self, threshold: int, size: int | tuple[int, ...]) -> np.ndarray:
        """Draw booleans that are True with probability exactly ``threshold / 2**64``.

        One random byte decides 255 of 256 draws. Each other draw needs seven more bytes. In large
        arrays a table decides eight draws together, which needs two random bits per draw.

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
        """Draw booleans as `bernoulli` does, and pack eight of them into a byte.

        Parameters
        ----------
        threshold : int
            From 0 to 2**64 - 1. A boolean is True with probability ``threshold / 2**64``.
        n : int
            Number of rows.
        n_bits : int
            Number of booleans in a row.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8))
            uint8. The first boolean is the highest bit of a byte; zeros fill the last byte.
        """
        if n_bits % 8 or n * n_bits < self.many_coins:
            return np.packbits(self.bernoulli(threshold, (n, n_bits)), axis=1)
        return self._octets(octets(threshold), n * n_bits // 8).reshape(n, -1)

    def _octets(self, law: Octets, n: int) -> np.ndarray:
        """Draw n bytes, where each bit is an independent boolean.

        The bit is 1 with the probability for which the table `law` was made. The bytes are drawn in
        blocks that fit in the processor's cache.
        """
        result, room = np.empty(n, dtype=np.uint8), np.empty(min(n, _OCTET_BLOCK), dtype=np.uint16)
        for start in range(0, n, _OCTET_BLOCK):
            block = room[: n - start]
            pairs = self.bytes(2 * len(block))
            # No word is outside the table; "clip" avoids the check and a copy.
            law.of_pair.take(pairs.view("<u2"), out=block, mode="clip")
            ties = np.flatnonzero(block == _TIE)
            if ties.size:
                digits = np.empty((ties.size, 64), dtype=np.uint8)
                digits[:, :2] = pairs.reshape(-1, 2)[ties]
                digits[:, 2:] = self.bytes(62 * ties.size).reshape(-1, 62)
                block[ties] = law.outcomes_of(digits)
            result[start : start + len(block)] = block
        return result

    def integers(self, high: int, size: int) -> np.ndarray:
        """Draw integers from ``range(high)`` with an exactly uniform distribution.

        Parameters
        ----------
        high : int
            Number of values, at most 2**63.
        size : int
            Number of draws.

        Returns
        -------
        ndarray of shape (size,)
            The integers, int64.
        """
        width = next(w for w in (1, 2, 4, 8) if high <= 1 << (8 * w - (w > 1)))
        word = np.dtype(f"<u{width}")
        accepted = (1 << 8 * width) // high * high
        draws = self.bytes(width * size).view(word).copy()
        is_even = accepted == 1 << 8 * width  # no word reaches this bound
        # Ends: with probability 1, because more than half of all words are accepted.
        while not is_even and (rejected := np.flatnonzero(draws >= accepted)).size:
            draws[rejected] = self.bytes(width * rejected.size).view(word)
        if high & (high - 1) == 0:
            return (draws & word.type(high - 1)).astype(np.int64)
        divisor = word.type(high)
        draws -= draws // divisor * divisor  # NumPy's division is faster than its remainder
        return draws.astype(np.int64)

    def choice(self, bounds: list[int], size: int) -> np.ndarray:
        """Draw outcomes with given probabilities, which are multiples of 2**-64.

        Parameters
        ----------
        bounds : list of int
            Cumulative sums of the probabilities times 2**64; the last is 2**64. Outcome i has
            exactly the probability ``(bounds[i] - bounds[i - 1]) / 2**64``.
        size : int
            Number of draws.

        Returns
        -------
        ndarray of shape (size,)
            The numbers of the drawn outcomes, int64, in ``range(len(bounds))``.
        """
        return n_reached(np.array(bounds[:-1], dtype=np.uint64), self.bytes(8 * size).view("<u8"))

    def choices(self, bounds: np.ndarray, laws: np.ndarray) -> np.ndarray:
        """Draw outcomes like `choice`, where each draw may have a different distribution.

        Parameters
        ----------
        bounds : ndarray of shape (n_laws, n_outcomes - 1)
            One row per distribution: the argument `bounds` of `choice` without its last number,
            uint64.
        laws : ndarray of int of shape (size,)
            For each draw, the row of its distribution in `bounds`.

        Returns
        -------
        ndarray of shape (size,)
            The numbers of the drawn outcomes, int64, in ``range(n_outcomes)``.
        """
        # All random numbers are drawn before the distributions are looked at.
        words = self.bytes(8 * len(laws)).view("<u8")
        result = np.empty(len(laws), dtype=np.int64)
        for law, rows in rows_by_group(laws):
            result[rows] = np.searchsorted(bounds[law], words[rows], side="right")
        return result

    def subsets(self, sizes: np.ndarray, n_items: int, n_columns: int | None = None) -> np.ndarray:
        """Draw random subsets of items. All subsets of the same size are equally likely.

        Parameters
        ----------
        sizes : ndarray of shape (n,)
            Number of members of each subset.
        n_items : int
            Number of items to choose from.
        n_columns : int, default=None
            Number of columns of the result, if it is larger than `n_items`; extra columns are
            False.

        Returns
        -------
        ndarray of shape (n, n_items) or (n, n_columns)
            For each subset (row) and each item (column), whether the item is in the subset.
        """
        n_columns = n_columns or n_items
        packed = self.packed_subsets(sizes, n_items, -(-n_columns // 8))
        return np.unpackbits(packed, axis=1, count=n_columns).view(bool)

    def packed_subsets(self, sizes: np.ndarray, n_items: int, n_bytes: int) -> np.ndarray:
        """Draw random subsets of items, and return them as packed bits.

        All subsets of the same size are equally likely.

        There are several methods. (1) If there are few items, subsets are drawn from a table of all
        subsets. (2) Small subsets start empty, and members are added at uniform positions until the
        subset has its size. (3) Other subsets start with independent bits of equal probability for
        all items except the last ones. Such a start is kept with a probability that is proportional
        to the number of ways in which the last items can complete the subset; one of these ways is
        then drawn uniformly (`_finished`). (4) If method 3 would keep few starts, the subset starts
        with independent bits for all items. Members are then added (or removed) at uniform
        positions, one by one, until the subset has its size. Methods 2 and 4 treat all items
        symmetrically. So all subsets of a size are equally likely.

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
            uint8: a bit for each item, the highest bit of a byte first; other bits are 0.
        """
        # All four methods draw from the same distribution, and each is the fastest somewhere.
        # Nanoseconds per item of the table, of positions, of starts and of repairs: 4 of 12 items
        # .45, 9.3, 2.7, 5.2; 2 of 40 -, 1.2, 1.6, 5.3; 27 of 100 -, 7.4, 1.2, 1.6; 276 of 1,024
        # -, 4.7, 7.5, .34 (uniform bits of a seeded generator, one core, by
        # `python -m benchmarks.speed.inner_loops`, 2026-11-28). Fewer methods would also change
        # the reports of oracles with a fixed `random_state`.
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
        """Draw subsets of few items: each is a uniform entry of a table of all subsets of its size.

        Shapes: sizes (n,) -> (n, 2), packed bits.
        """
        table = subset_table(n_items)
        n_sets, limit = table.n_sets.take(sizes), table.limits.take(sizes)
        # A word times the number of sets, over 2**32, is a uniform number if the word is drawn
        # again whenever the remainder is below 2**32 modulo that number (Lemire 2019,
        # doi:10.1145/3230636).
        words = self.bytes(4 * len(sizes)).view("<u4") * n_sets
        # Ends: with probability 1, because each pass keeps more than half of the words on
        # average.
        while (again := np.flatnonzero(words.astype(np.uint32) < limit)).size:
            words[again] = self.bytes(4 * again.size).view("<u4") * n_sets[again]
        numbers = (words >> np.uint64(32)).view(np.int64) + table.starts.take(sizes)
        return table.sets.take(numbers).view(np.uint8).reshape(-1, 2)

    def _finished(self, start, size, n):
        """Draw n subsets of one size: first independent bits for the first items, then the last
        items.

        Independent bits are kept with the probability `Start.chances`, which depends on the number
        of members among the first items. The probability is proportional to the number of subsets
        of the last items that complete the size, weighted by their probability under independent
        bits. So all subsets of the size are equally likely.
        Shapes: -> (n, n_bytes), packed bits.
        """
        first, n_missing = start.n_first // 8, n
        kept_starts, left = [], []
        # Ends: with probability 1, because subsets are kept with probability `start.is_kept` >
        # 0.
        while n_missing:
            n_tried = int(n_missing / start.is_kept * 1.02) + 16
            bits = self._sixteenths(start.sixteenths, n_tried, -(-first // 8) * 8)
            bits[:, first:] = 0
            n_members = count_members(bits)
            is_kept = self.bytes(8 * n_tried).view("<u8") < start.chances.take(n_members)
            kept = np.flatnonzero(is_kept)[:n_missing]
            kept_starts.append(bits.take(kept, axis=0)[:, :first])
            left.append(size - n_members[kept])
            n_missing -= len(kept)
        last = self._listed_subsets(np.concatenate(left), start.n_last)
        return np.concatenate([np.concatenate(kept_starts), last], axis=1)

    def _placed(self, sizes, n_items, n_columns):
        """Draw subsets by adding items at uniform positions until each subset has its size.

        Shapes: sizes (n,) -> (n, n_columns), booleans.
        """
        n = len(sizes)
        bits = np.zeros((n, n_columns), dtype=bool)
        flat, missing = bits.reshape(-1), np.array(sizes, dtype=np.int64)
        small = np.int32 if bits.size < 1 << 31 else np.int64  # half the bytes to sort
        starts = (np.arange(n) * n_columns).astype(small)
        active = np.flatnonzero(missing)
        # Ends: with probability 1, because no size exceeds `n_items`, so a position is free.
        while active.size:
            n_tried = missing[active]
            place = np.repeat(starts[active], n_tried)
            place += self.integers(n_items, len(place)).astype(place.dtype)
            row = np.repeat(np.arange(len(active), dtype=np.int32), n_tried)
            # Members and repeated positions do not count.
            useful = np.flatnonzero(~flat.take(place))
            place, row = place.take(useful), row.take(useful)
            place.sort()  # this keeps the rows in order
            is_first = np.ones(len(place), dtype=bool)
            np.not_equal(place[1:], place[:-1], out=is_first[1:])
            flat[place] = True
            missing[active] -= np.bincount(row[is_first], minlength=len(active))
            active = active[missing[active] > 0]
        return bits

    def _repaired(self, sizes, n_items, n_bytes):
        """Draw subsets: draw independent bits, then flip bits until each subset has its size.

        Shapes: sizes (n,) -> (n, n_bytes), packed bits.
        """
        n, whole = len(sizes), -(-n_items // 8)
        rate = int(sizes.sum()) / max(n * n_items, 1)
        if n_items > _MANY_ITEMS:  # then only random deviations of the size are left to repair
            drawn = self.packed_bernoulli(
                min(int(rate * PROBABILITY_UNIT), PROBABILITY_UNIT - 1), n, 8 * whole
            )
        else:
            drawn = self._sixteenths(_cheapest_start(rate, n_items), n, whole)
        drawn[:, -1] &= 255 << (8 * whole - n_items) & 255
        bits = np.zeros((n, n_bytes), dtype=np.uint8)
        bits[:, :whole] = drawn
        self._repair(bits.reshape(-1), sizes - count_members(bits), n_items, n_bytes)
        return bits

    def _sixteenths(self, sixteenths, n, n_bytes):
        """Draw n rows of packed bits, each of which is 1 with probability sixteenths / 16."""
        drawn = np.zeros((n, n_bytes), dtype=np.uint8)
        for digit in reversed(f"{sixteenths:04b}".rstrip("0")):  # digits from the last to the first
            coins = self.bytes(n * n_bytes).reshape(n, n_bytes)
            (np.bitwise_or if digit == "1" else np.bitwise_and)(drawn, coins, out=drawn)
        return drawn

    def _repair(self, flat, missing, n_items, n_bytes):
        """Flip bits in rows of packed bits until each row has the right number of members. Works in
        place.

        `flat` contains all rows in one flat array. `missing` contains, for each row, how many
        members are missing (negative if there are too many).
        """
        rows = np.flatnonzero(missing)
        # Ends: with probability 1, because sizes are in 0 .. `n_items`, so a bit can flip.
        while rows.size:
            left = np.abs(missing[rows]).astype(np.int32)
            others = np.where(missing[rows] > 0, 255, 0).astype(np.uint8)
            places = self.integers(n_items, _PLACES * rows.size).reshape(_PLACES, rows.size)
            masks = _BIT.take(places & 7)
            for place, mask in zip((places >> 3) + rows * n_bytes, masks, strict=True):
                byte = flat.take(place)
                # A position counts if its bit can be flipped, in a row that is not finished.
                change = (byte ^ others) & mask & -(left > 0).view(np.uint8)
                flat[place] = byte ^ change
                left -= change > 0
            missing[rows] = np.where(others, left, -left)
            rows = rows[left > 0]


def _cheapest_start(rate: float, n_items: int) -> int:
    """Return the probability of independent bits, in sixteenths, that makes `_repaired` the
    fastest.

    `rate` is the mean proportion of the `n_items` items that are members of a subset.
    """
    # Any share would be correct. Four random bits per item cost about as much as one position.

    def cost(sixteenths):
        share, n_digits = sixteenths / 16, _n_digits(sixteenths)
        spread = math.sqrt(n_items * share * (1 - share))
        z = n_items * (rate - share) / spread
        # The expected shortage and the expected excess of a normal variable.
        lacking = z * math.erfc(-z / math.sqrt(2)) / 2
        lacking += math.exp(-z * z / 2) / math.sqrt(math.tau)
        tries = lacking / max(1 - rate, 1 / n_items) + (lacking - z) / max(rate, 1 / n_items)
        return spread * tries + n_items * n_digits / 64

    return min(range(1, 16), key=cost)


class SubsetTable(NamedTuple):
    """Table of all subsets of a few items, sorted by size. A subset is two bytes of packed bits."""

    sets: np.ndarray  # (2**n_items,), sorted by size; both bytes as one number
    starts: np.ndarray  # (n_items + 1,): the first index of each size
    n_sets: np.ndarray  # (n_items + 1,): the number of sets of each size
    limits: np.ndarray  # (n_items + 1,): 2**32 modulo that number


@lru_cache(maxsize=_LISTED_ITEMS)
def subset_table(n_items: int) -> SubsetTable:
    """Return the table of all subsets of `n_items` items, of which there are at most 16."""
    sets = np.arange(1 << n_items, dtype=np.uint32)
    sets = sets[np.argsort(np.bitwise_count(sets), kind="stable")]
    packed = (sets << (16 - n_items)).astype(">u2").view(np.uint16)
    n_sets = np.array([math.comb(n_items, size) for size in range(n_items + 1)])
    starts = np.cumsum(n_sets) - n_sets
    return SubsetTable(packed, starts, n_sets.astype(np.uint64), (1 << 32) % n_sets)


class Start(NamedTuple):
    """Parameters with which `Coins._finished` draws subsets of one size.

    All items except the last few start as independent bits.
    """

    sixteenths: int  # the probability of each bit
    n_first: int  # number of items with independent bits, in whole bytes
    n_last: int  # number of the other items, 9 to 16
    chances: np.ndarray  # (n_first + 1,): probability, over 2**64, of keeping a number of members
    is_kept: float  # the share of all starts that is kept


@lru_cache(maxsize=1 << 10)
def best_start(n_items: int, size: int) -> Start:
    """Return the parameters with which `Coins._finished` needs the fewest random bits.

    They are for subsets of `n_items` items with `size` members.
    """
    n_last = (n_items - 9) % 8 + 9
    n_first = n_items - n_last

    def start(sixteenths):
        # With probabilities over 16, the subsets of the last items have integer weights below
        # 16**16.
        chances = [0] * (n_first + 1)
        for left in range(max(size - n_first, 0), min(n_last, size) + 1):
            others = (16 - sixteenths) ** (n_last - left)
            chances[size - left] = math.comb(n_last, left) * sixteenths**left * others
        factor = (PROBABILITY_UNIT - 1) // max(chances)
        # The weight of all subsets of the size together, times the factor.
        share = sixteenths**size * (16 - sixteenths) ** (n_items - size) * math.comb(n_items, size)
        kept = float(Fraction(share * factor, 16**n_first * PROBABILITY_UNIT))
        exact = np.array([factor * chance for chance in chances], dtype=np.uint64)
        return Start(sixteenths, n_first, n_last, exact, kept)

    return max(map(start, range(1, 16)), key=lambda s: s.is_kept / _n_digits(s.sixteenths))


def _n_digits(sixteenths: int) -> int:
    """Return how many random bits are needed to draw a boolean with probability sixteenths / 16."""
    return len(f"{sixteenths:04b}".rstrip("0"))


def count_members(packed: np.ndarray) -> np.ndarray:
    """Return the number of 1 bits in each row of an array of packed bits, of shape (n, n_bytes)."""
    words = packed if packed.shape[1] % 8 else np.ascontiguousarray(packed).view(np.uint64)
    if words.shape[1] <= _FEW_ENDS:  # faster than sums of short rows
        result = np.zeros(len(words), dtype=np.int64)
        for word in words.T:
            result += np.bitwise_count(word)
        return result
    return np.bitwise_count(words).sum(axis=1, dtype=np.int64)


class Octets:
    """Table with which eight booleans are drawn together.

    Each boolean is True with probability ``threshold / 2**64``.
    """

    # The probabilities of the 256 outcomes are multiples of 2**-512. So a uniform number of 512
    # bits decides by its position among their cumulative sums. Its first 16 bits suffice, except
    # for the words (at most 255 in 65536) that contain one of the sums.
    # threshold: from 1 to 2**64 - 1.

    def __init__(self, threshold: int):
        chances = [threshold**k * (PROBABILITY_UNIT - threshold) ** (8 - k) for k in range(9)]
        ends = list(accumulate(chances[outcome.bit_count()] for outcome in range(256)))
        # Byte strings compare like the numbers with these digits.
        self._ends = np.array([end.to_bytes(64, "big") for end in ends[:-1]], dtype="S64")
        #: For each word of 16 bits: eight booleans, as the bits of one number, or a tie.
        self.of_word = np.full(1 << 16, _TIE, dtype=np.uint16)
        word = PROBABILITY_UNIT**8 >> 16
        for outcome, start, end in zip(range(256), [0, *ends], ends, strict=False):
            self.of_word[-(-start // word) : end // word] = outcome
        #: The same for words whose two bytes are read with the lowest byte first.
        self.of_pair = self.of_word[np.arange(1 << 16, dtype="<u2").byteswap()]

    def outcomes_of(self, digits: np.ndarray) -> np.ndarray:
        """Convert uniform numbers of 64 bytes each to bytes, where each byte contains eight drawn
        booleans."""
        return np.searchsorted(self._ends, digits.view("S64").ravel(), side="right")


octets = lru_cache(maxsize=8)(Octets)  # each takes a millisecond to build, and 256 KiB


class SecureCoins(Coins):
    """Secure random bytes. They come from the operating system, or from a secure generator that it
    seeds."""

    # The random bits of a single user come directly from the operating system. For many users they
    # come from OpenSSL's generator (AES-256 in counter mode, a CTR_DRBG of NIST SP 800-90A), which
    # is ten times as fast. Each such draw first mixes 256 new bits of the system into the state. So
    # neither a forked process nor a cloned machine repeats random bits, and an attacker who learns
    # the state later does not learn earlier bits.

    n_least = 1  # the written format reads no more random bits than it needs

    def bytes(self, n):
        draw = os.urandom if n <= _SYSTEM_BYTES else _expanded
        return np.frombuffer(draw(n), dtype=np.uint8)


def _expanded(n: int) -> bytes:
    """Return n bytes from OpenSSL's generator, after a new seed from the operating system."""
    try:
        from ssl import RAND_add, RAND_bytes  # slow to import
    except ImportError:  # Python was built without OpenSSL
        return os.urandom(n)
    RAND_add(os.urandom(32), 32.0)
    return RAND_bytes(n)


class SeededCoins(Coins):
    """Random bytes from a seeded generator. They are for simulations and do not protect users."""

    def __init__(self, generator: np.random.Generator):
        self._generator = generator

    def bytes(self, n):
        return np.frombuffer(self._generator.bytes(n), dtype=np.uint8)


class ByteCoins(Coins):
    """Source of random bits that reads them from given bytes, for one user.

    The bytes are read in the order that the documentation of the client format defines.
    """

    # The written format of clients defines how a mechanism uses these bytes for one code. They are
    # read in the order of the draws. There are no tables and no batched subsets, although these
    # need fewer bytes, so the format is shorter to describe.
    # stream: the bytes.
    # n_read: how many bytes were read.

    many_coins = math.inf

    def __init__(self, stream: bytes):
        self._stream = np.frombuffer(stream, dtype=np.uint8)
        self.n_read = 0

    def bytes(self, n):
        start, self.n_read = self.n_read, self.n_read + n
        if self.n_read > len(self._stream):
            raise ValueError(
                f"expected {self.n_read} bytes of random bits, got {len(self._stream)} "
                "bytes; pass more bytes"
            )
        return self._stream[start : self.n_read]

    def subsets(self, sizes, n_items, n_columns=None):
        bits = np.zeros((len(sizes), n_columns or n_items), dtype=bool)
        for row, size in zip(bits, sizes, strict=True):
            items = np.arange(n_items)
            for i in range(size):  # the first elements of a random permutation
                j = i + int(self.integers(n_items - i, 1)[0])
                items[[i, j]] = items[[j, i]]
            row[items[:size]] = True
        return bits

    def packed_subsets(self, sizes, n_items, n_bytes):
        return np.packbits(self.subsets(sizes, n_items, 8 * n_bytes), axis=1)


class CoinStreams:
    """Independent sources of random bits, one for each block of users.

    So with a seed, the drawn bits do not depend on the number of threads.
    """

    # With a seed, the random bits of user i depend only on the seed, the block size and i. With
    # `random_state=None` every stream is the secure source.

    def __init__(self, random_state: RandomState):
        self.is_secure = random_state is None
        self._entropy = None if self.is_secure else root_entropy(random_state)

    def block(self, index: int) -> Coins:
        """Return the source of random bits for the block of users with the given number."""
        if self._entropy is None:
            return SecureCoins()
        seed = np.random.SeedSequence(self._entropy, spawn_key=(index,))
        return SeededCoins(np.random.Generator(np.random.PCG64DXSM(seed)))
