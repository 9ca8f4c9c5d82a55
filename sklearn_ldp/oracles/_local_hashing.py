"""Optimized and binary local hashing: a report is a hash function and a randomized hash value."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.random import RandomState
from .._core.domains import Categories, word_digests
from .._core.mechanisms.channel import Channel, HashReports, IndependentChannel
from .._core.mechanisms.coins import (
    PROBABILITY_UNIT,
    SeededCoins,
    direct_threshold,
    exp_lower_bound,
)
from .._core.mechanisms.laws import JointSupport, ReportLaw, choice_entropy
from .._core.mechanisms.mechanism import PublicPart, ReportField, bit_width
from .._core.numerics.finite_field import FiniteField, field_orders_beside
from .._core.numerics.transforms import LinearFunctions, linear_functions, mixed, scattered
from ._base import BaseOracle

MOST_RANGE = 1 << 20  # the largest range that "auto" chooses


class OLH(BaseOracle, tag="olh"):
    """Optimized local hashing: reports of two integers for a domain of any size.

    Specify `epsilon` and `categories`; the defaults of the other parameters are good.

    The client draws a hash function, and hashes the user's category to one of g values. It
    randomizes this hash value as :class:`GRR` randomizes a category. The report contains the
    function and the randomized value. A report supports (counts in favor of) each category that the
    function maps to the reported value. It supports the user's category with probability p, and
    each other category with probability q,

    .. math:: p = \\frac{e^\\epsilon}{e^\\epsilon + g - 1}, \\qquad q = \\frac1g.

    (The papers [3]_ and [4]_ contain a misprint: :math:`e^\\epsilon - 1` in the numerator of p.)

    **Linear functions.** By default, the hash functions are linear over GF(g), the finite field
    with g elements. A vector of k digits :math:`v_j` stands for a category, k random digits
    :math:`a_j` define the function, and the hash value is
    :math:`\\langle a, v \\rangle = \\sum_j a_j v_j`. The difference of the hash values of two
    categories has a uniform distribution. So p, q, and the mean and variance of every estimate are
    the same as with ideal hashing. The server decodes n reports with a Fourier transform over the
    field, in :math:`O(n + k g^k \\log g)` operations instead of :math:`O(n d)`.

    Only the covariances differ from ideal hashing. If the vectors of two categories are on a line
    (of the affine space) with the vector of a third category of frequency f, the estimates of the
    two have covariance :math:`f / (g (p - q) n)`. Two choices make such lines rare: a fixed
    permutation scatters the d categories over all :math:`g^k` vectors, and k is larger than
    necessary for d categories. The variance of the sum over a set S of categories is then larger
    than with ideal hashing, by a factor of about
    :math:`1 + |S| (g - 2) (p - q) / ((1 - q) g^k)`. The oracle uses the smallest k for which this
    factor is at most 1.1 if S is half of the domain. However, the oracle increases k only while
    :math:`g^k` is at most :math:`2^{19}` or 16 d, whichever is larger. So the factor can exceed 1.1
    for :math:`\\epsilon` above 4 and for large domains. `simulate` reproduces these covariances,
    and :class:`~sklearn_ldp.planning.Plan` accounts for them.

    A report is two integers: the index of the function, in
    :math:`[0, (g^k - 1) / (g - 1)]`, and the value, in [0, g). A function and its multiples have
    the same number, because their reports are equivalent.

    **Mixing.** With ``hash_family="mixing"``, a hash function mixes the 64 bits of a category's
    digest with a random 63-bit seed. Clients then need no list of the categories. With
    ``categories="open"`` they randomize any text, number or tuple of texts and numbers, and the
    server decodes the reports for the categories of its own list. Decoding needs O(n d) operations.
    The formula for q is exact only for an ideal hash function. The guarantee epsilon does not
    depend on the hash function. This variant is the OLH of [1]_: g is the integer closest to
    :math:`e^\\epsilon + 1`, the estimates of different categories are independent, and `simulate`
    draws them independently in O(d) operations.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free.

    %(parameters)s
    hash_range : "auto" or int, default="auto"
        Number g of hash values. If `hash_family` is "linear", g must be a prime or a power of a
        prime, and "auto" chooses the value next to :math:`e^\\epsilon + 1` with the minimum
        variance. If `hash_family` is "mixing", g can be any integer above 1, and "auto" chooses the
        integer closest to :math:`e^\\epsilon + 1`.
    hash_family : {"linear", "mixing"}, default="linear"
        The hash functions: "linear" for linear functions over GF(g), or "mixing" for functions that
        mix the category with a random seed.

    %(attributes)s
    hash_range_ : int
        The number g of hash values.

    See Also
    --------
    sklearn_ldp.best_oracle : The choice of an oracle.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha, "Locally differentially private protocols for
       frequency estimation", USENIX Security 2017.
       https://www.usenix.org/conference/usenixsecurity17/technical-sessions/presentation/wang-tianhao
    .. [2] V. Feldman, J. Nelson, H. Nguyen, K. Talwar, "Private frequency estimation via
       projective geometry", ICML 2022. https://proceedings.mlr.press/v162/feldman22a.html
       (source of the decoding, which sums over one digit at a time).
    .. [3] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, :doi:`10.14722/ndss.2020.24157`.
    .. [4] T. Wang, Z. Li, N. Li, M. Lopuhaä-Zwakenberg, B. Skoric, "Consistent and accurate
       frequency oracles under local differential privacy", 2019,
       https://arxiv.org/abs/1905.08320

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
        "hash_range": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "hash_family": [StrOptions({"linear", "mixing"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        hash_range: int | str = "auto",
        hash_family: str = "linear",
    ) -> None:
        self._store(epsilon, categories, input, n_shards, random_state, n_jobs)
        self.hash_range = hash_range
        self.hash_family = hash_family

    @property
    def hash_range_(self) -> int:
        """The number of possible hash values."""
        return self._fitted("hash_range_").mechanism.configuration["hash_range"]

    def _takes_open_domain(self):
        return self.hash_family == "mixing"

    def _make_mechanism(self, domain):
        is_linear = self.hash_family == "linear"
        best = best_field_order if is_linear else closest_hash_range
        g = best(self.epsilon) if self.hash_range == "auto" else int(self.hash_range)
        threshold = direct_threshold(self.epsilon, g)
        if is_linear:
            return LinearHashChannel(domain.size, FiniteField(g), threshold)
        client = MixingHash(g, threshold)
        return client if domain.is_open else MixingHashChannel(word_digests(domain), client)


class BLH(BaseOracle, tag="blh"):
    """Binary local hashing: for small epsilon; a report is a hash function and one bit.

    This oracle is also called random matrix projection. It is :class:`OLH` with two hash values, 0
    and 1. A report counts in favor of the user's category with probability p, and in favor of each
    other category with probability q,

    .. math:: p = \\frac{e^\\epsilon}{e^\\epsilon + 1}, \\qquad q = \\frac12.

    A report is two integers: the number of the hash function, in :math:`[0, 2^k)` with the number k
    of digits of :class:`OLH`, and a bit. The estimates of different categories are uncorrelated. If
    :math:`e^\\epsilon` is well above 1, the variance is larger than the minimum of all oracles.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free.

    %(parameters)s

    %(attributes)s

    See Also
    --------
    OLH : Local hashing with the best hash range.

    References
    ----------
    .. [1] R. Bassily, A. Smith, "Local, private, efficient protocols for succinct histograms",
       STOC 2015, :doi:`10.1145/2746539.2746632`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import BLH
    >>> colors = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = BLH(epsilon=2.0, categories=["red", "green", "blue"], random_state=0)
    >>> oracle.fit(colors).frequencies_.round(1)
    array([0.6, 0.3, 0.1])
    """

    def _make_mechanism(self, domain):
        threshold = direct_threshold(self.epsilon, 2)
        return LinearHashChannel(domain.size, FiniteField(2), threshold)


def closest_hash_range(epsilon: float) -> int:
    """Return the integer closest to ``exp(epsilon) + 1``, and at least 2."""
    return round(_ideal_hash_range(epsilon))


def _ideal_hash_range(epsilon: float) -> Fraction:
    return min(exp_lower_bound(epsilon) + 1, Fraction(MOST_RANGE))


def hash_variance(g: int, epsilon: float, m: int = 1) -> Fraction:
    """Return n times the variance of an estimated frequency from n reports, if the true frequency
    is 0.

    There are g hash values. m of them belong to the user's own values: each of these is
    exp(epsilon) times as likely in a report as each other hash value.
    """
    ratio = exp_lower_bound(epsilon)
    q = Fraction(1, g)
    p = ratio / (m * ratio + g - m)
    return q * (1 - q) / (p - q) ** 2


def best_field_order(epsilon: float) -> int:
    """Return the best number of elements of the finite field for `OLH`.

    It is one of the two possible numbers next to ``exp(epsilon) + 1``, the one with the smaller
    variance.
    """
    orders = field_orders_beside(float(_ideal_hash_range(epsilon)))
    return min(orders, key=lambda g: hash_variance(g, epsilon))


# The maximum number of cells of a tally: the first number, or the second per category if larger.
_SMALL_TABLE = 1 << 19
_CELLS_PER_CATEGORY = 128  # a bound on memory
# Digits beyond the minimum number are added while the variance of the sum of half of the categories
# exceeds the variance with ideal hashing by more than _MAX_EXCESS. The space has at most
# _SMALL_SPACE vectors, or _SPACE_PER_CATEGORY per category if that is more. Each digit adds log2(g)
# bits to a report, and a factor of g to tallies and decoding. Caps (sets of points without three on
# a line) would avoid the remaining excess. They need 1.5 times the minimum number of digits, which
# is an equally large space for 1,000 categories and a far larger space for 40,000.
_MAX_EXCESS = Fraction(1, 10)
_SMALL_SPACE = 1 << 19
_SPACE_PER_CATEGORY = 16  # bounds on the time of decoding
# Numbers of simulated users that are drawn at a time, and that are hashed at a time.
_BLOCK = 1 << 18
_CACHED = 1 << 15
# With more users per function, or per cell, a single multinomial draw is faster.
_MANY_HASHED = 10
_MANY_UNIFORM = 40
_MAX_LAW = 1 << 22  # largest space (in vectors) for which covariances are summed over reports


class LinearHash(HashReports):
    """Base of mechanisms whose report is a linear hash function on GF(g)^k and a hash value.

    The function is drawn uniformly. If `n_copies` is above 1, there are several functions for each
    linear function; a subclass defines how their values differ.
    """

    field: FiniteField
    n_digits: int
    n_functions: int
    n_copies = 1

    @property
    def functions(self) -> LinearFunctions:
        """The linear functions on GF(g)^k, for the g elements of `field` and k = `n_digits`."""
        return linear_functions(self.field.order, self.n_digits)

    @property
    def report_fields(self):
        return (ReportField("function", self.n_functions), ReportField("value", self.field.order))

    def report_entropy(self, order=1):
        # A vector and its multiples are one function; the vector of zeros is a separate function.
        zero = Fraction(1, self.functions.n_vectors)
        n_others = self.functions.n_functions - 1
        linear = choice_entropy(zero, 1, n_others, order)
        value = choice_entropy(self.own_support, 1, self.field.order - 1, order)
        return math.log2(self.n_copies) + linear + value

    def privatize(self, codes, coins):
        draws = coins.integers(self.n_copies * self.functions.n_vectors, len(codes))
        return self.with_functions(codes, self._of_draws(draws), coins)

    def _of_draws(self, draws):
        return self.functions.of_uniform_vectors(draws)

    @property
    def public_part(self):
        # All multiples of a function share a number; the function 0 has a number of its own.
        n_vectors = self.functions.n_vectors
        shares = np.full(self.functions.n_functions, (self.field.order - 1) / n_vectors)
        shares[0] = 1 / n_vectors
        shares = np.tile(shares / self.n_copies, self.n_copies)
        drawn = self.n_copies * n_vectors, self._of_draws, self.with_functions
        return PublicPart(lambda reports: reports[:, 0], self.n_functions, shares, *drawn)

    def _kinds(self, reports):
        return reports[:, 0] * self.field.order + reports[:, 1]


class LinearHashChannel(LinearHash, Channel, tag="linear-hash-channel"):
    """Mechanism of :class:`OLH` with linear functions, and of :class:`BLH`.

    A report is a uniformly drawn linear function on GF(g)^k, and the function's value at the vector
    of the user's category after randomized response.
    """

    def __init__(self, n_categories: int, field: FiniteField, threshold: int):
        g = field.order
        super().__init__(n_categories, p=Fraction(threshold, PROBABILITY_UNIT), q=Fraction(1, g))
        self.field = field
        self.threshold = threshold
        # With this probability a user hashes their category; otherwise all reports are equally
        # likely.
        self.share = self.p - (1 - self.p) / (g - 1)
        self.n_digits = n_digits_for(n_categories, g)
        self.n_vectors = g**self.n_digits
        self.n_functions = 1 + (self.n_vectors - 1) // (g - 1)
        limit = max(_SMALL_TABLE, _CELLS_PER_CATEGORY * n_categories)
        # For each report, all values of the highest digits of the category are tried: as few digits
        # as possible, such that the table for the remaining digits has a moderate size. If a single
        # digit remains, its equation is solved instead.
        last = self.n_digits - 1
        fits = (j for j in range(last) if self._n_prefixes(j) * self._n_cells(j) <= limit)
        self.n_tried = next(fits, last)
        self.n_left = self.n_digits - self.n_tried

    def _n_prefixes(self, n_tried):
        """Return how many different prefixes the categories have.

        Each category is a vector of digits. Its prefix consists of the highest `n_tried` digits.
        """
        return -(-self._n_places(n_tried) // self.field.order ** (self.n_digits - n_tried))

    def _n_cells(self, n_tried):
        """Return the number of linear functions of the other digits, times the number of hash
        values.

        The other digits are all digits of a vector except the highest `n_tried` digits.
        """
        g = self.field.order
        return (1 + (g ** (self.n_digits - n_tried) - 1) // (g - 1)) * g

    def _n_places(self, n_tried):
        """Return the number of vectors over which the categories are scattered.

        This is the number of all vectors, or only the number of categories if the highest digits
        are tried one by one (`n_tried` > 0) or a vector has one digit.
        """
        return self.n_vectors if n_tried == 0 < self.n_digits - 1 else self.n_categories

    @property
    def vectors(self) -> np.ndarray:
        """The vector of each category, as an integer whose digits in base g are the vector's
        entries."""
        return _vectors(self.n_categories, self._n_places(self.n_tried))

    @property
    def configuration(self):
        return {
            "hash_range": self.field.order,
            "hash_family": "linear",
            "hash_dimension": self.n_digits,
        }

    @property
    def client_parameters(self):
        return {
            "kind": "linear",
            "hash_range": self.field.order,
            "modulus": self.field.modulus,
            "n_digits": self.n_digits,
            "n_places": self._n_places(self.n_tried),
            "keep": self.threshold,
        }

    @property
    def report_bits(self):
        return bit_width(self.n_functions * self.field.order)

    @property
    def tally_sum(self):
        return self._n_prefixes(self.n_tried) if self.n_left > 1 else None

    def decode_operations(self, n_samples):
        n_prefixes = self._n_prefixes(self.n_tried)
        size = self.field.order**self.n_left
        transforms = n_prefixes * int(size * np.log2(size)) if self.n_left > 1 else 0
        return n_samples * n_prefixes + transforms

    @property
    def tally_size(self):
        if self.n_left == 1:
            return self.n_categories
        return self._n_prefixes(self.n_tried) * self._n_cells(self.n_tried)

    def hash(self, functions, codes):
        g = self.field.order
        k = self.n_digits
        pieces = _pieces(g, k, self.n_categories, self._n_places(self.n_tried))
        return self.functions.values(functions, pieces, codes.astype(np.int64))

    def tally(self, reports):
        if self.n_tried == 0 and self.n_left > 1:
            return np.bincount(self._kinds(reports), minlength=self.tally_size)
        prefixes = range(self._n_prefixes(self.n_tried))
        tallies = [self._tally_of_prefix(reports, prefix) for prefix in prefixes]
        return np.concatenate(tallies)[: self.tally_size]

    def _tally_of_prefix(self, reports, prefix):
        """Count the reports for the categories whose vectors begin with the digits of `prefix`.

        The result has a count for each linear function of the remaining digits and each hash value.
        If one digit remains, it has a count for each of these categories.
        """
        g = self.field.order
        n_left = self.n_left
        left = linear_functions(g, n_left)
        vectors = self.functions.vectors[reports[:, 0]]
        values = reports[:, 1]
        if self.n_tried:
            pieces = self.functions.pieces(np.array([prefix * g**n_left]))
            start = self.functions.values(reports[:, 0], pieces, np.array([0]))
            values = self.field.subtract(values, start.astype(np.int64))
        functions, values = left.normalised(vectors % g**n_left, values)
        cells = np.bincount(functions * g + values, minlength=left.n_functions * g)
        return cells if n_left > 1 else cells[g:] + cells[0]

    def decode(self, tallies):
        support = np.empty((len(tallies), self.n_categories), dtype=np.int64)
        if self.n_left == 1:
            return tallies[:, self.vectors]
        left = linear_functions(self.field.order, self.n_left)
        # Two tallies are transformed at a time: tables of many shards would not fit in memory.
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
        return self._law() if self.has_exact_covariance else None

    def _law(self) -> ReportLaw:
        """Return the distribution of a report: the probability of each report, in the order of
        their numbers."""
        p = self.threshold / PROBABILITY_UNIT
        g = self.field.order
        shares = np.repeat(self.public_part.shares, g)
        own = shares * p
        other = shares * ((1 - p) / (g - 1))
        return ReportLaw(own, other, self._spread, self._gather, self._kinds, takes_rows=True)

    @property
    def joint_support(self):
        if self.n_digits > 1:
            return None  # it depends on the directions between the categories: see `law_of_reports`
        # All functions except 0 separate the categories; 0 maps all of them to 0, which is kept.
        both = float(self.p) / self.field.order
        return JointSupport(own=both, other=both)

    @property
    def has_exact_covariance(self):
        return self.n_vectors <= _MAX_LAW

    @property
    def public_part(self):
        collisions = self._collisions if self.n_vectors <= _MAX_LAW else None
        return super().public_part._replace(collisions=collisions)

    def _collisions(self, counts):
        """Return, for each difference v - w except 0, how many functions map v and w to the same
        value.

        v and w are vectors of categories. A function counts as often as its number in `counts`.
        Also return the probability 1 / g that a random function maps two vectors to the same value.
        """
        # These are the functions with <a, v - w> = 0: the count is as if all reports had value 0.
        functions = self.functions
        g = self.field.order
        table = np.zeros((1, self.n_functions, g))
        table[0, :, 0] = counts
        return np.rint(functions.gather(table)[0, functions.vectors[1:]]).astype(np.int64), 1 / g

    def _spread(self, weights):
        """Return, for each report, the sum of the weights of the categories that the report
        supports.

        `weights` contains one weight per category. A report supports a category if its function
        maps the category to the reported value.
        """
        vector_weights = np.zeros((*weights.shape[:-1], self.n_vectors))
        vector_weights[..., self.vectors] = weights
        return self.functions.spread(vector_weights).reshape(*weights.shape[:-1], -1)

    def _gather(self, weights):
        """Return, for each category, the sum of the weights of the reports that support the
        category.

        `weights` contains one weight per report. A report supports a category if its function maps
        the category to the reported value.
        """
        table = weights.reshape(1, self.n_functions, self.field.order)
        return self.functions.gather(table)[0, self.vectors]

    def count_support(self, reports):
        return self.decode(self.tally(reports)[None])[0]

    def simulate(self, counts, n_repeats, rng):
        support = np.empty((n_repeats, self.n_categories), dtype=np.int64)
        for i in range(0, n_repeats, 2):
            drawn = [self._draw_tally(counts, rng) for _ in range(i, min(i + 2, n_repeats))]
            support[i : i + 2] = self.decode(np.array(drawn))
        return support

    def simulate_tallies(self, counts, n_repeats, rng):
        if self.report_law is None:
            return None
        return np.array([self._draw_tally(counts, rng) for _ in range(n_repeats)])

    def _draw_tally(self, counts, rng):
        """Draw the tally (the counts that the server stores) of a simulated collection.

        It is drawn from its exact distribution, in O(n) operations or fewer. `counts` contains the
        number of users of each category.
        """
        if self.n_tried:  # there is no table of the reports, so they are drawn one by one
            coins = SeededCoins(rng)
            tally = np.zeros(self.tally_size, dtype=np.int64)
            for codes in _batches(counts, _BLOCK):
                tally += self.tally(self.privatize(codes, coins))
            return tally
        g = self.field.order
        n_cells = self._n_cells(0)
        p_zero = 1 / self.n_vectors  # the probability of the function 0
        hashed = rng.binomial(counts, float(self.share))
        n_others = int(counts.sum() - hashed.sum())
        table = np.zeros(n_cells, dtype=np.int64)
        n_zero = rng.binomial(n_others, p_zero)
        table[:g] += rng.multinomial(n_zero, np.full(g, 1 / g))
        table[g:] += _uniform_counts(n_others - n_zero, n_cells - g, rng)
        zero = rng.binomial(hashed, p_zero)
        table[0] += zero.sum()
        self._add_hashed(table, hashed - zero, rng)
        if self.n_left == 1:
            return (table[g:] + table[0])[: self.n_categories]
        return table

    def _add_hashed(self, table, counts, rng):
        """Add simulated reports to `table`, which has a count for each function and hash value.

        For each category, `counts` contains the number of users. Each of them reports a uniformly
        drawn function other than 0, and its true value at the user's category.
        """
        g = self.field.order
        n_functions = self.n_functions - 1
        is_frequent = counts > _MANY_HASHED * n_functions
        for cells in _batches(np.where(is_frequent, 0, counts), _BLOCK):
            for codes in np.split(cells, range(_CACHED, len(cells), _CACHED)):
                functions = rng.integers(1, self.n_functions, len(codes))
                codes[:] = functions * g + self.hash(functions, codes)
            table += np.bincount(cells, minlength=len(table))
        functions = np.arange(1, self.n_functions)
        chances = np.full(n_functions, 1 / n_functions)
        frequent = np.flatnonzero(is_frequent)
        step = max(1, _BLOCK // n_functions)
        for codes in np.split(frequent, range(step, len(frequent), step)):
            drawn = rng.multinomial(counts[codes], chances)
            cells = functions * g + self.hash(functions, codes[:, None])
            # NumPy converts the weights to floats, which are exact in this range.
            table += np.bincount(cells.ravel(), drawn.ravel(), len(table)).astype(np.int64)


def n_digits_for(n_categories: int, order: int) -> int:
    """Return the number k of digits of the vectors in GF(g)^k over which the categories are
    scattered.

    `order` is g, the number of elements of the field.
    """
    d = n_categories
    g = order
    k = next(k for k in range(1, 65) if g**k >= d)
    limit = max(_SMALL_SPACE, _SPACE_PER_CATEGORY * d)
    # Two categories are on a line with g - 2 of the g**k vectors. If a third category is one of
    # these vectors, then each user who has it and hashes it adds to the covariance of the two. A
    # user hashes with probability (p - q) / (1 - q), which is (g - 2) / (2 (g - 1)) for the best g.
    # The excess is computed in integers, so that all parties agree.
    excess = Fraction(d * (g - 2) ** 2, 4 * (g - 1))
    # Ends: g**k reaches `limit`.
    while d > 2 and excess > _MAX_EXCESS * g**k and g ** (k + 1) <= limit:
        k += 1
    return k


_vectors = lru_cache(maxsize=4)(scattered)


@lru_cache(maxsize=4)
def _pieces(order: int, n_digits: int, n_categories: int, n_places: int) -> list[np.ndarray]:
    return linear_functions(order, n_digits).pieces(_vectors(n_categories, n_places))


def _batches(counts: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield arrays of at most `size` codes. In total, code i occurs `counts[i]` times."""
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]), size):
        stop = min(start + size, int(ends[-1]))
        yield np.repeat(np.arange(len(counts)), np.diff(np.clip(ends, start, stop), prepend=start))


def _uniform_counts(n: int, n_cells: int, rng: np.random.Generator) -> np.ndarray:
    """Draw n integers below `n_cells` uniformly; return how often each was drawn."""
    if n > _MANY_UNIFORM * n_cells:
        return rng.multinomial(n, np.full(n_cells, 1 / n_cells))
    total = np.zeros(n_cells, dtype=np.int64)
    size = max(_CACHED, n_cells)
    for start in range(0, n, size):
        draws = rng.integers(n_cells, size=min(size, n - start))
        total += np.bincount(draws, minlength=n_cells)
    return total


_CELLS = 1 << 16  # users times categories hashed at a time, so that they stay in the cache


class MixingHash(HashReports, tag="mixing-hash"):
    """Client of :class:`OLH` with mixing: a report is a random seed and a hash value.

    The client hashes a 64-bit digest of the user's value with a hash function that depends on the
    seed. It reports the hash value after randomized response. The client needs no list of
    categories.
    """

    # A client needs nothing else. The codes are 64-bit digests of the values, so clients need no
    # list of the values.

    def __init__(self, hash_range: int, threshold: int):
        self.hash_range = hash_range
        self.threshold = threshold
        self.n_seeds = 1 << 63

    @property
    def configuration(self):
        return {"hash_range": self.hash_range, "hash_family": "mixing"}

    @property
    def report_fields(self):
        return (ReportField("seed", self.n_seeds), ReportField("value", self.hash_range))

    @property
    def client_parameters(self):
        return {"kind": "mixing", "hash_range": self.hash_range, "keep": self.threshold}

    def report_entropy(self, order=1):
        keep = Fraction(self.threshold, PROBABILITY_UNIT)
        return math.log2(self.n_seeds) + choice_entropy(keep, 1, self.hash_range - 1, order)

    def hash(self, seeds, digests):
        x = mixed(mixed(seeds.astype(np.uint64)) ^ digests)
        return ((x >> np.uint64(32)) * np.uint64(self.hash_range)) >> np.uint64(32)

    @property
    def public_part(self):
        return PublicPart(
            lambda reports: reports[:, 0], self.n_seeds, privatize=self.with_functions
        )

    def privatize(self, codes, coins):
        return self.with_functions(codes, coins.integers(self.n_seeds, len(codes)), coins)

    @property
    def tally_size(self):
        raise ValueError(
            'Reports from clients with categories="open" can only be counted for a list of '
            "categories, which this oracle does not have. Declare the list in categories=."
        )

    def tally(self, reports):
        return np.empty(self.tally_size)


class MixingHashChannel(HashReports, IndependentChannel, tag="mixing-hash-channel"):
    """The mechanism `MixingHash` over a list of categories, with which the server decodes the
    reports."""

    # Epsilon does not depend on the hash, but the estimate does: q = 1 / g is exact only for ideal
    # mixing.

    has_exact_support = False

    def __init__(self, digests: np.ndarray, client: MixingHash):
        p, q = Fraction(client.threshold, PROBABILITY_UNIT), Fraction(1, client.hash_range)
        super().__init__(len(digests), p, q)
        self.digests = digests
        self.client = client

    def _identity(self):
        return *super()._identity(), self.digests.tobytes()

    threshold = property(lambda self: self.client.threshold)
    configuration = property(lambda self: self.client.configuration)
    report_fields = property(lambda self: self.client.report_fields)
    client_parameters = property(lambda self: self.client.client_parameters)

    def report_entropy(self, order=1):
        return self.client.report_entropy(order)

    def decode_operations(self, n_samples):
        return 10 * n_samples * self.n_categories

    def for_enumeration(self):
        client = copy.copy(self.client)
        client.n_seeds = 16
        return type(self)(self.digests, client)

    def privatize(self, codes, coins):
        return self.client.privatize(self.digests[codes], coins)

    def hash(self, functions, codes):
        return self.client.hash(functions, self.digests[codes])

    @property
    def public_part(self):
        return self.client.public_part._replace(privatize=self.with_functions)

    def count_support(self, reports):
        counts = np.zeros(self.n_categories, dtype=np.int64)
        width = min(self.n_categories, 256)
        height = max(1, _CELLS // width)
        pieces = np.split(reports, range(height, len(reports), height))
        for codes in np.split(np.arange(len(counts)), range(width, len(counts), width)):
            for piece in pieces:
                counts[codes] += np.count_nonzero(self.supports(piece, codes), axis=0)
        return counts
