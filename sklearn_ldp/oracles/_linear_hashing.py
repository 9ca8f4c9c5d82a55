"""A linear hash family over a finite field, whose reports are decoded in near-linear time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy import sparse

from ..mechanisms._channel import Channel, randomised_response
from ..mechanisms._coins import TWO_64, SeededCoins
from ..mechanisms._covariance import drawn_covariances, gram, inner, outer
from ..mechanisms._laws import PublicPart, ReportLaw, choice_entropy
from ..mechanisms._mechanism import ReportField
from ..mechanisms._reports import bits_for, check_hash_reports
from ..mechanisms.algebra._finite_field import FiniteField
from ..mechanisms.algebra._linear_functions import LinearFunctions, linear_functions, scattered

# A tally has at most this many cells, or this many per category if that is more.
_SMALL_TABLE = 1 << 19
_CELLS_PER_CATEGORY = 128
# Digits beyond the least number are added while the variance of the sum of half of the categories
# exceeds that under ideal hashing by more than this share. The space has at most this many vectors,
# or this many per category if that is more. Each digit adds log2(g) bits to a report, and a factor
# of g to tallies and decoding. Caps (sets of points no three of which are on a line) would avoid
# the last tenth: they take 1.5 times the least number of digits, which is as large a space for
# 1,000 categories and a far larger one for 40,000.
_MAX_EXCESS = Fraction(1, 10)
_SMALL_SPACE = 1 << 19
_SPACE_PER_CATEGORY = 16
# How many simulated users are drawn at a time, and how many of them are hashed at a time.
_BLOCK, _CACHED = 1 << 18, 1 << 15
# With more users per function, or per cell, it is faster to draw them all at once.
_MANY_HASHED, _MANY_UNIFORM = 10, 40
_LISTED = 1 << 22  # the most pairs of a category and a function for which supports are listed
_MAX_LAW = 1 << 22  # the most vectors of a space over whose reports covariances are summed


class LinearHashChannel(Channel):
    """Report a uniform linear function on GF(g)^k, and its value after randomised response."""

    def __init__(self, n_categories: int, field: FiniteField, threshold: int):
        g = field.order
        super().__init__(n_categories, p=Fraction(threshold, TWO_64), q=Fraction(1, g))
        self.field = field
        self.threshold = threshold
        # With this probability a user hashes her category; otherwise any report is as likely.
        self.share = self.p - (1 - self.p) / (g - 1)
        self.n_digits = n_digits_for(n_categories, g)
        self.n_vectors = g**self.n_digits
        self.n_functions = 1 + (self.n_vectors - 1) // (g - 1)
        limit = max(_SMALL_TABLE, _CELLS_PER_CATEGORY * n_categories)
        # The highest digits of the category are tried out report by report: as few of them as
        # leave a table of moderate size. If a single digit is left, it is solved for.
        self.n_tried = next(
            j
            for j in range(self.n_digits)
            if j == self.n_digits - 1 or self._n_prefixes(j) * self._n_cells(j) <= limit
        )
        self.n_left = self.n_digits - self.n_tried

    def _n_prefixes(self, n_tried):
        """Return how many values the highest digits of the categories take."""
        return -(-self._n_places(n_tried) // self.field.order ** (self.n_digits - n_tried))

    def _n_cells(self, n_tried):
        """Return the number of functions of the other digits, times the number of hash values."""
        g = self.field.order
        return (1 + (g ** (self.n_digits - n_tried) - 1) // (g - 1)) * g

    def _n_places(self, n_tried):
        """Return over how many vectors categories are scattered; few, if each prefix costs work."""
        return self.n_vectors if n_tried == 0 < self.n_digits - 1 else self.n_categories

    @property
    def _functions(self) -> LinearFunctions:
        return linear_functions(self.field.order, self.n_digits)

    @property
    def vectors(self) -> np.ndarray:
        """The vector of each category, as a number."""
        return _vectors(self.n_categories, self._n_places(self.n_tried))

    @property
    def configuration(self):
        return {
            "hash_range": self.field.order,
            "hash_family": "linear",
            "hash_dimension": self.n_digits,
        }

    @property
    def report_fields(self):
        return (
            ReportField("function", self.n_functions),
            ReportField("value", self.field.order),
        )

    @property
    def report_bits(self):
        return bits_for(self.n_functions * self.field.order)

    @property
    def report_entropy(self):
        # A vector and its multiples are one function; the vector of zeros is one by itself.
        g, zero = self.field.order, Fraction(1, self.n_vectors)
        function = choice_entropy(zero, 1, self.n_functions - 1)
        return function + choice_entropy(self.p, 1, g - 1)

    @property
    def tally_sum(self):
        return self._n_prefixes(self.n_tried) if self.n_left > 1 else None

    @property
    def agreement_bits(self):
        p, g = float(self.p), self.field.order
        same_value = p**2 + (1 - p) ** 2 / (g - 1)
        # All multiples of a function share a number; only the function 0 shares it with no other.
        same_function = (1 + (self.n_functions - 1) * (g - 1.0) ** 2) / float(self.n_vectors) ** 2
        return -math.log2(same_value * same_function)

    def decode_operations(self, n_samples):
        n_prefixes = self._n_prefixes(self.n_tried)
        size = self.field.order**self.n_left
        transforms = n_prefixes * int(size * np.log2(size)) if self.n_left > 1 else 0
        return n_samples * n_prefixes + transforms

    def supports(self, reports, codes):
        return self.hash(reports[:, :1], codes) == reports[:, 1:]

    @property
    def tally_size(self):
        if self.n_left == 1:
            return self.n_categories
        return self._n_prefixes(self.n_tried) * self._n_cells(self.n_tried)

    def privatize(self, codes, coins):
        vectors = coins.integers(self.n_vectors, len(codes))
        return self._with_functions(codes, self._functions.of_uniform_vectors(vectors), coins)

    def _with_functions(self, codes, functions, coins):
        reports = np.empty((len(codes), 2), dtype=np.int64)
        reports[:, 0] = functions
        value = self.hash(reports[:, 0], codes.astype(np.int64))
        reports[:, 1] = randomised_response(value, self.field.order, self.threshold, coins)
        return reports

    def hash(self, functions, codes):
        """Return the values of functions at categories (broadcasting)."""
        g, k = self.field.order, self.n_digits
        pieces = _pieces(g, k, self.n_categories, self._n_places(self.n_tried))
        return self._functions.values(functions, pieces, codes)

    def check_reports(self, reports):
        return check_hash_reports(reports, self.n_functions, self.field.order)

    def tally(self, reports):
        if self.n_tried == 0 and self.n_left > 1:
            cells = reports[:, 0] * self.field.order + reports[:, 1]
            return np.bincount(cells, minlength=self.tally_size)
        parts = [self._tally_of_prefix(reports, i) for i in range(self._n_prefixes(self.n_tried))]
        return np.concatenate(parts)[: self.tally_size]

    def _tally_of_prefix(self, reports, prefix):
        """Return the tally, over the other digits, for categories with the given highest digits."""
        g, n_left = self.field.order, self.n_left
        left = linear_functions(g, n_left)
        vectors, values = self._functions.vectors[reports[:, 0]], reports[:, 1]
        if self.n_tried:
            place = np.array([prefix * g**n_left])
            start = self._functions.values(
                reports[:, 0], self._functions.pieces(place), np.array([0])
            )
            values = self.field.subtract(values, start.astype(np.int64))
        functions, values = left.normalised(vectors % g**n_left, values)
        cells = np.bincount(functions * g + values, minlength=left.n_functions * g)
        return cells if n_left > 1 else cells[g:] + cells[0]

    def decode(self, tallies):
        support = np.empty((len(tallies), self.n_categories), dtype=np.int64)
        if self.n_left == 1:
            return tallies[:, self.vectors]
        left = linear_functions(self.field.order, self.n_left)
        # Two at a time, as they are transformed: tables of many shards would not fit in memory.
        for i in range(0, len(tallies), 2):
            tables = tallies[i : i + 2].reshape(-1, left.n_functions, self.field.order)
            sums = left.gather(tables).reshape(len(tallies[i : i + 2]), -1)
            support[i : i + 2] = np.rint(sums[:, self.vectors])
        return support

    @property
    def report_law(self):
        if self.n_tried or self.n_digits == 1:  # the tally does not count the reports themselves
            return None
        return self._law()

    @property
    def law_of_reports(self):
        return self._law() if self.n_functions * self.field.order <= _MAX_LAW else None

    def _law(self) -> ReportLaw:
        """Return the law of all reports, in the order of their numbers."""
        p, g = self.threshold / TWO_64, self.field.order
        shares = np.repeat(self.public_part.shares, g)
        return ReportLaw(
            shares * p, shares * ((1 - p) / (g - 1)), self._spread, self._gather, self._kinds
        )

    def _kinds(self, reports):
        return reports[:, 0] * self.field.order + reports[:, 1]

    @property
    def has_exact_covariance(self):
        return self.n_vectors <= _MAX_LAW

    def covariances(self, rows, frequencies, *, diagonal):
        if not self.has_exact_covariance:
            return drawn_covariances(self, rows, frequencies, diagonal)
        law, p, q = self._law(), float(self.p), float(self.q)
        probabilities = law.probabilities(frequencies)
        if self.n_categories * self.n_functions <= _LISTED:
            sums = rows @ self._supporting_reports()
            weighted = sums.copy()
            weighted.data *= probabilities[sums.indices]
            products = inner(weighted, sums, diagonal)
        else:
            products = gram(law.spread, rows, probabilities, diagonal)
        # The expectation given the user's category is q s + (p - q) a_v, where s is the sum of a.
        total, gain, size = rows.sum(axis=1), p - q, frequencies.sum()
        weighted = rows @ frequencies
        totals, mixed = outer(total, total, diagonal), outer(total, weighted, diagonal)
        mixed = mixed + (mixed if diagonal else mixed.T)
        squares = inner(rows.multiply(frequencies).tocsr(), rows, diagonal)
        expected = q * q * size * totals + q * gain * mixed + gain * gain * squares
        return (products - expected) / gain**2

    @property
    def public_part(self):
        # All multiples of a function share a number; only the function 0 shares it with no other.
        shares = np.full(self.n_functions, (self.field.order - 1) / self.n_vectors)
        shares[0] = 1 / self.n_vectors
        return PublicPart(
            lambda reports: reports[:, 0],
            self.n_functions,
            shares,
            self.n_vectors,
            self._functions.of_uniform_vectors,
            self._with_functions,
            self._collisions if self.n_vectors <= _MAX_LAW else None,
        )

    def _collisions(self, counts):
        """Count the functions that map two categories to one value, for each direction v - w.

        These are the functions with <a, v - w> = 0: as if all reports had the value 0.
        """
        functions, g = self._functions, self.field.order
        table = np.zeros((1, self.n_functions, g))
        table[0, :, 0] = counts
        return np.rint(functions.gather(table)[0, functions.vectors[1:]]).astype(np.int64), 1 / g

    def _supporting_reports(self):
        """Return a matrix of shape (d, n_reports): 1 where a report supports a category."""
        functions, codes = np.arange(self.n_functions), np.arange(self.n_categories)
        reports = functions * self.field.order + self.hash(functions, codes[:, None])
        starts = np.arange(self.n_categories + 1) * self.n_functions
        shape = self.n_categories, self.n_functions * self.field.order
        return sparse.csr_array((np.ones(reports.size), reports.ravel(), starts), shape)

    def _spread(self, weights):
        """Return, for each report, the sum of the weights of the categories that it supports."""
        of_vectors = np.zeros(self.n_vectors)
        of_vectors[self.vectors] = weights
        return self._functions.spread(of_vectors).ravel()

    def _gather(self, weights):
        """Return, for each category, the sum of the weights of the reports that support it."""
        table = weights.reshape(1, self.n_functions, self.field.order)
        return self._functions.gather(table)[0, self.vectors]

    def count_support(self, reports):
        return self.decode(self.tally(reports)[None])[0]

    def simulate(self, counts, n_repeats, rng):
        support = np.empty((n_repeats, self.n_categories), dtype=np.int64)
        for i in range(0, n_repeats, 2):
            drawn = [self._draw_tally(counts, rng) for _ in range(i, min(i + 2, n_repeats))]
            support[i : i + 2] = self.decode(np.array(drawn))
        return support

    def _draw_tally(self, counts, rng):
        """Draw the tally of a collection from its exact law, in at most O(n)."""
        if self.n_tried:  # there is no table of the reports
            return self._tally_of_protocol(counts, rng)
        g, n_cells = self.field.order, self._n_cells(0)
        of_zero = 1 / self.n_vectors
        hashed = rng.binomial(counts, float(self.share))
        n_others = int(counts.sum() - hashed.sum())
        table = np.zeros(n_cells, dtype=np.int64)
        n_zero = rng.binomial(n_others, of_zero)
        table[:g] += rng.multinomial(n_zero, np.full(g, 1 / g))
        table[g:] += _uniform_counts(n_others - n_zero, n_cells - g, rng)
        zero = rng.binomial(hashed, of_zero)
        table[0] += zero.sum()
        self._add_hashed(table, hashed - zero, rng)
        if self.n_left == 1:
            return (table[g:] + table[0])[: self.n_categories]
        return table

    def _add_hashed(self, table, counts, rng):
        """Add users of each category who send the values of uniform functions other than 0."""
        g, n_functions = self.field.order, self.n_functions - 1
        is_frequent = counts > _MANY_HASHED * n_functions
        for cells in _batches(np.where(is_frequent, 0, counts), _BLOCK):
            for codes in np.split(cells, range(_CACHED, len(cells), _CACHED)):
                functions = rng.integers(1, self.n_functions, len(codes))
                codes[:] = functions * g + self.hash(functions, codes)
            table += np.bincount(cells, minlength=len(table))
        functions, chances = np.arange(1, self.n_functions), np.full(n_functions, 1 / n_functions)
        for codes in _parts(np.flatnonzero(is_frequent), max(1, _BLOCK // n_functions)):
            drawn = rng.multinomial(counts[codes], chances)
            cells = functions * g + self.hash(functions, codes[:, None])
            # NumPy makes floats of the weights, which are exact in this range.
            table += np.bincount(cells.ravel(), drawn.ravel(), len(table)).astype(np.int64)

    def _tally_of_protocol(self, counts, rng):
        """Draw the tally of a collection report by report."""
        coins, tally = SeededCoins(rng), np.zeros(self.tally_size, dtype=np.int64)
        for codes in _batches(counts, _BLOCK):
            tally += self.tally(self.privatize(codes, coins))
        return tally


def n_digits_for(n_categories: int, order: int) -> int:
    """Return the number k of digits of the space GF(g)^k that categories are scattered over."""
    d, g = n_categories, order
    k = next(k for k in range(1, 65) if g**k >= d)
    limit = max(_SMALL_SPACE, _SPACE_PER_CATEGORY * d)
    # Two given categories are on a line with g - 2 of the g**k vectors. A user whose category is
    # one of these adds to their covariance if she hashes it. She does so with probability
    # (p - q) / (1 - q), which is (g - 2) / (2 (g - 1)) for the best g. The excess is computed in
    # integers, so that all parties agree.
    excess = Fraction(d * (g - 2) ** 2, 4 * (g - 1))
    while d > 2 and excess > _MAX_EXCESS * g**k and g ** (k + 1) <= limit:
        k += 1
    return k


@lru_cache(maxsize=4)
def _vectors(n_categories: int, n_places: int) -> np.ndarray:
    return scattered(n_categories, n_places)


@lru_cache(maxsize=4)
def _pieces(order: int, n_digits: int, n_categories: int, n_places: int) -> list[np.ndarray]:
    return linear_functions(order, n_digits).pieces(_vectors(n_categories, n_places))


def _batches(counts: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield the codes repeated as often as counts say, at most `size` at a time."""
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]), size):
        stop = min(start + size, int(ends[-1]))
        yield np.repeat(np.arange(len(counts)), np.diff(np.clip(ends, start, stop), prepend=start))


def _uniform_counts(n: int, n_cells: int, rng: np.random.Generator) -> np.ndarray:
    """Draw how many of n uniform draws fall in each cell."""
    if n > _MANY_UNIFORM * n_cells:
        return rng.multinomial(n, np.full(n_cells, 1 / n_cells))
    total, size = np.zeros(n_cells, dtype=np.int64), max(_CACHED, n_cells)
    for start in range(0, n, size):
        draws = rng.integers(n_cells, size=min(size, n - start))
        total += np.bincount(draws, minlength=n_cells)
    return total


def _parts(x: np.ndarray, size: int) -> list[np.ndarray]:
    return [x[start : start + size] for start in range(0, len(x), size)]
