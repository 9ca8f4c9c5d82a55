"""Optimised local hashing with a linear hash family, decoded in near-linear time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._estimate import ReportLaw
from ._base import BaseOracle
from ._channel import (
    Channel,
    ReportField,
    bits_for,
    check_hash_reports,
    randomised_response,
)
from ._collection import privatize
from ._docstrings import inherit_parameters
from ._domain import as_columns
from ._finite_field import FiniteField, field_orders_beside
from ._linear_functions import LinearFunctions, linear_functions, scattered
from ._mixing import MixingHashChannel, digest
from ._sampling import TWO_64, CoinStreams, SeededCoins, direct_threshold, exp_lower_bound

# Tallies have up to so many cells, or so many for each category.
_SMALL_TABLE = 1 << 19
_CELLS_PER_CATEGORY = 128
_MAX_HASH_RANGE = 1 << 20
# Digits beyond the least number are added while the sum of half of the categories has more than
# this much more variance than under ideal hashing, up to so many vectors, or so many for each
# category. Each costs a report log2(g) bits, and tallies and decoding a factor of g. Caps (points
# no three of which are on a line) would spare the last tenth: they have 1.5 times the least number
# of digits, which is as large a space for 1,000 categories and a far larger one for 40,000.
_MAX_EXCESS = Fraction(1, 10)
_SMALL_SPACE = 1 << 19
_SPACE_PER_CATEGORY = 16
# Simulated users drawn at a time, those of them hashed at a time, and how many users a cell are
# quicker drawn at once.
_BLOCK, _CACHED = 1 << 18, 1 << 15
_MANY_HASHED, _MANY_UNIFORM = 10, 40


@inherit_parameters
class OLH(BaseOracle):
    """Optimised local hashing.

    A user draws a hash function, hashes her category into g values, randomises the hash value
    as :class:`GRR` does, and reports the function and the value. A report supports the categories
    that the function maps to the value, so that

    .. math:: p = \\frac{e^\\epsilon}{e^\\epsilon + g - 1}, \\qquad q = \\frac1g

    (the 2019 and 2020 papers print :math:`e^\\epsilon - 1` in the numerator of p, a misprint).

    The hash functions are linear over the finite field GF(g): with k digits :math:`v_j` of the
    category's code and k uniform digits :math:`a_j`, the hash value is
    :math:`\\langle a, v \\rangle = \\sum_j a_j v_j`. For two categories the difference of the hash
    values is uniform, so p and q, the unbiasedness and the variance of every category are exactly
    those of ideal hashing. Decoding is a Fourier transform over the field, in
    :math:`O(n + k g^k \\log g)` instead of :math:`O(n d)`.

    Only the covariances differ from ideal hashing: two categories on a line (of the affine space)
    with a third one of frequency f have covariance :math:`f / (g (p - q) n)`. So that few are, the
    codes are scattered over the space by a fixed permutation, and k is larger than the categories
    need. The sum over a set S then has about :math:`|S| (g - 2) (p - q) / ((1 - q) g^k)` more
    variance, in relation to ideal hashing: k is the least for which that is a tenth for half of the
    domain, or the largest with :math:`g^k` up to :math:`2^{19}` and 16 d (which is less for
    :math:`\\epsilon` above 4, and over large domains). `simulate` has these covariances, and
    :func:`~sklearn_ldp.metrics.expected_error` knows them.

    A report is two integers: the number of the function, in
    :math:`[0, (g^k - 1) / (g - 1)]`, where multiples of a function share a number, as their
    reports say the same; and the value, in [0, g).

    ``hash_family="mixing"`` hashes with 64-bit mixing under a random 63-bit seed instead. Clients
    then need no list of the categories: with ``categories="open"`` they randomise any text, number
    or tuple of those, and a server adds the reports up for the categories that it lists. Decoding
    takes O(n d), and p, q hold as far as the mixing is ideal; epsilon holds in any case. It is the
    OLH of the papers: its categories are independent, and `simulate` draws them so in O(d).

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free.

    %(parameters)s
    hash_range : "auto" or int, default="auto"
        Number g of hash values, a prime or a power of a prime; "auto" takes the one of least
        variance beside :math:`e^\\epsilon + 1`.
    hash_family : {"linear", "mixing"}, default="linear"
        Linear functions over GF(g), or keyed mixing of any category.

    %(attributes)s
    hash_range_ : int
        The number g of hash values.

    See Also
    --------
    OUE : The same accuracy with d bits a report.
    GRR : Better for small domains.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha, "Locally differentially private protocols for
       frequency estimation", USENIX Security 2017.
       https://www.usenix.org/conference/usenixsecurity17/technical-sessions/presentation/wang-tianhao
    .. [2] V. Feldman, J. Nelson, H. Nguyen, K. Talwar, "Private frequency estimation via
       projective geometry", ICML 2022. https://proceedings.mlr.press/v162/feldman22a.html
       (the contraction of one digit at a time).

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.datasets import load_us_states
    >>> states = load_us_states()
    >>> oracle = OLH(epsilon=2.0, categories=states.categories, random_state=0)
    >>> oracle.fit(states.categories, sample_weight=states.counts // 1000).estimate_.top(1)
    [('California', 0.120...)]
    >>> oracle.privatize(["Texas", "Utah"]).shape
    (2, 2)
    >>> client = OLH(1.0, categories="open", hash_family="mixing")
    >>> client.privatize(["a word that is on no list"]).shape
    (1, 2)
    """

    _parameter_constraints: dict = {
        **BaseOracle._parameter_constraints,
        "categories": [StrOptions({"auto", "open"}), "array-like", Integral],
        "hash_range": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "hash_family": [StrOptions({"linear", "mixing"})],
    }

    def __init__(
        self,
        epsilon=1.0,
        *,
        categories="auto",
        input="values",
        n_shards=10,
        random_state=None,
        n_jobs=None,
        hash_range="auto",
        hash_family="linear",
    ):
        super().__init__(
            epsilon,
            categories=categories,
            input=input,
            n_shards=n_shards,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.hash_range = hash_range
        self.hash_family = hash_family

    @property
    def hash_range_(self) -> int:
        """The number g of hash values."""
        return self._fitted_channel("hash_range_").configuration["hash_range"]

    def privatize(self, X):
        if isinstance(self.categories, str) and self.categories == "open":
            self._check_parameters()
            return self._privatize_open(X)
        return super().privatize(X)

    privatize.__doc__ = BaseOracle.privatize.__doc__

    def _check_parameters(self):
        super()._check_parameters()
        is_open = isinstance(self.categories, str) and self.categories == "open"
        if is_open and self.hash_family != "mixing":
            raise ValueError(
                'OLH takes categories="open" with hash_family="mixing" only; linear hashing '
                "numbers the categories, so it needs their list."
            )

    def _privatize_open(self, X):
        """Reports of values that are on no list."""
        columns = as_columns(X, "OLH")
        values = columns[0].tolist() if len(columns) == 1 else list(zip(*columns, strict=True))
        digests = np.array([digest(value) for value in values], dtype=np.uint64)
        channel = self._mixing_channel(digests)
        streams = CoinStreams(self.random_state)
        return privatize(channel, np.arange(len(digests)), 0, streams)

    def _hash_range(self) -> int:
        if isinstance(self.hash_range, str):
            return best_hash_range(self.epsilon)
        return int(self.hash_range)

    def _mixing_channel(self, digests):
        g = self._hash_range()
        return MixingHashChannel(digests, g, direct_threshold(self.epsilon, g))

    def _channel_over(self, domain):
        if self.hash_family == "linear":
            return super()._channel_over(domain)
        digests = [digest(category) for category in domain.categories.tolist()]
        return self._mixing_channel(np.array(digests, dtype=np.uint64))

    def _make_channel(self, n_categories):
        g = self._hash_range()
        return LinearHashChannel(n_categories, FiniteField(g), direct_threshold(self.epsilon, g))


@inherit_parameters
class BLH(BaseOracle):
    """Binary local hashing: random matrix projection.

    :class:`OLH` with hash values of one bit,

    .. math:: p = \\frac{e^\\epsilon}{e^\\epsilon + 1}, \\qquad q = \\frac12.

    A report is two integers: the number of the hash function, in :math:`[0, 2^k)`, and a bit. No
    three categories are on a line, so that categories are uncorrelated. It is
    short of the optimum where :math:`e^\\epsilon` is well above 1.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free.

    %(parameters)s

    %(attributes)s

    See Also
    --------
    OLH : With the best hash range.

    References
    ----------
    .. [1] R. Bassily, A. Smith, "Local, private, efficient protocols for succinct histograms",
       STOC 2015, :doi:`10.1145/2746539.2746632`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import BLH
    >>> colours = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = BLH(epsilon=2.0, categories=["red", "green", "blue"], random_state=0)
    >>> oracle.fit(colours).frequencies_.round(1)
    array([0.6, 0.3, 0.1])
    """

    def _make_channel(self, n_categories):
        threshold = direct_threshold(self.epsilon, 2)
        return LinearHashChannel(n_categories, FiniteField(2), threshold)


def best_hash_range(epsilon: float) -> int:
    """Field order beside ``exp(epsilon) + 1`` of least variance at frequency 0 (2020, Eq. 7)."""
    ratio = exp_lower_bound(epsilon)

    def variance(g):
        p, q = ratio / (ratio + g - 1), Fraction(1, g)
        return q * (1 - q) / (p - q) ** 2

    beside = float(min(ratio + 1, Fraction(_MAX_HASH_RANGE)))
    return min(field_orders_beside(beside), key=variance)


class LinearHashChannel(Channel):
    """A uniform linear function on GF(g)^k, and its value through randomised response."""

    def __init__(self, n_categories: int, field: FiniteField, threshold: int):
        g = field.order
        super().__init__(n_categories, p=Fraction(threshold, TWO_64), q=Fraction(1, g))
        self.field = field
        self.threshold = threshold
        # With this probability a user hashes her category; else any report is as likely.
        self.share = self.p - (1 - self.p) / (g - 1)
        self.n_digits = n_digits_for(n_categories, g)
        self.n_vectors = g**self.n_digits
        self.n_functions = 1 + (self.n_vectors - 1) // (g - 1)
        limit = max(_SMALL_TABLE, _CELLS_PER_CATEGORY * n_categories)
        # The highest digits of the category are tried out report by report, as few of them as
        # leave a table of moderate size; with a single digit left it is solved for.
        self.n_tried = next(
            j
            for j in range(self.n_digits)
            if j == self.n_digits - 1 or self._n_prefixes(j) * self._n_cells(j) <= limit
        )
        self.n_left = self.n_digits - self.n_tried

    def _n_prefixes(self, n_tried):
        """How many values the highest digits of the categories take."""
        return -(-self._n_places(n_tried) // self.field.order ** (self.n_digits - n_tried))

    def _n_cells(self, n_tried):
        """Functions of the other digits, times values."""
        g = self.field.order
        return (1 + (g ** (self.n_digits - n_tried) - 1) // (g - 1)) * g

    def _n_places(self, n_tried):
        """Vectors that categories are scattered over: the first ones, if each prefix is work."""
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
        reports = np.empty((len(codes), 2), dtype=np.int64)
        vectors = coins.integers(self.n_vectors, len(codes))
        reports[:, 0] = self._functions.of_uniform_vectors(vectors)
        value = self.hash(reports[:, 0], codes.astype(np.int64))
        reports[:, 1] = randomised_response(value, self.field.order, self.threshold, coins)
        return reports

    def hash(self, functions, codes):
        """Values of functions at categories (broadcasting)."""
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
        """The tally of categories with the given highest digits: what the other ones must be."""
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
        # Two at a time, as they are transformed: the tables of many shards would not fit.
        for i in range(0, len(tallies), 2):
            tables = tallies[i : i + 2].reshape(-1, left.n_functions, self.field.order)
            sums = left.gather(tables).reshape(len(tallies[i : i + 2]), -1)
            support[i : i + 2] = np.rint(sums[:, self.vectors])
        return support

    @property
    def report_law(self):
        if self.n_tried or self.n_digits == 1:  # the tally is not of the reports themselves
            return None
        return self.law_of_reports

    @property
    def law_of_reports(self) -> ReportLaw:
        """The law of all reports, in order."""
        p, g = self.threshold / TWO_64, self.field.order
        # Multiples of a function share a number; only 0 has none but itself.
        shares = np.full(self.n_functions, (g - 1) / self.n_vectors)
        shares[0] = 1 / self.n_vectors
        shares = np.repeat(shares, g)
        return ReportLaw(shares * p, shares * ((1 - p) / (g - 1)), self._spread, self._gather)

    def _spread(self, weights):
        """Of each report: the sum of the weights of the categories that it supports."""
        of_vectors = np.zeros(self.n_vectors)
        of_vectors[self.vectors] = weights
        return self._functions.spread(of_vectors).ravel()

    def _gather(self, weights):
        """Of each category: the sum of the weights of the reports that support it."""
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
        """Draw the tally of a collection, exactly, in at most O(n)."""
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
            # Weights are floats, exact in this range.
            table += np.bincount(cells.ravel(), drawn.ravel(), len(table)).astype(np.int64)

    def _tally_of_protocol(self, counts, rng):
        """As `_draw_tally`, report by report."""
        coins, tally = SeededCoins(rng), np.zeros(self.tally_size, dtype=np.int64)
        for codes in _batches(counts, _BLOCK):
            tally += self.tally(self.privatize(codes, coins))
        return tally


def n_digits_for(n_categories: int, order: int) -> int:
    """Digits k of the space GF(g)^k that categories are scattered over."""
    d, g = n_categories, order
    k = next(k for k in range(1, 65) if g**k >= d)
    limit = max(_SMALL_SPACE, _SPACE_PER_CATEGORY * d)
    # Two given categories are on a line with g - 2 of the g**k vectors. A user who is there gives
    # them covariance if she hashes her category: with probability (p - q) / (1 - q), which is
    # (g - 2) / (2 (g - 1)) where g is best. It is that in integers, so that all parties agree.
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
    """Codes repeated as often as counts say, so many at a time."""
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]), size):
        stop = min(start + size, int(ends[-1]))
        yield np.repeat(np.arange(len(counts)), np.diff(np.clip(ends, start, stop), prepend=start))


def _uniform_counts(n: int, n_cells: int, rng: np.random.Generator) -> np.ndarray:
    """How many of n uniform draws fall in each cell."""
    if n > _MANY_UNIFORM * n_cells:
        return rng.multinomial(n, np.full(n_cells, 1 / n_cells))
    total, size = np.zeros(n_cells, dtype=np.int64), max(_CACHED, n_cells)
    for start in range(0, n, size):
        draws = rng.integers(n_cells, size=min(size, n - start))
        total += np.bincount(draws, minlength=n_cells)
    return total


def _parts(x: np.ndarray, size: int) -> list[np.ndarray]:
    return [x[start : start + size] for start in range(0, len(x), size)]
