"""Optimised local hashing with a linear hash family, decoded in near-linear time."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ._base import BaseOracle
from ._channel import (
    Channel,
    bits_for,
    check_hash_reports,
    independent_support,
    randomised_response,
)
from ._collection import privatize
from ._contraction import contract
from ._docstrings import inherit_parameters
from ._domain import as_columns
from ._finite_field import FiniteField, field_orders_beside
from ._mixing import MixingHashChannel, digest
from ._sampling import TWO_64, CoinStreams, direct_threshold, exp_lower_bound

# Tallies have up to so many cells, or so many for each category.
_SMALL_TABLE = 1 << 19
_CELLS_PER_CATEGORY = 64
_MAX_HASH_RANGE = 1 << 20


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
    those of ideal hashing. Decoding contracts one digit after the other, in
    :math:`O(n + k g^{k+2})` instead of :math:`O(n d)`. Only the covariances differ from ideal
    hashing: two categories on a line (of the affine space) with a third one of frequency f have
    covariance :math:`f / (g (p - q) n)`; `simulate` leaves it out.

    A report is two integers: the code of a, in :math:`[0, g^k)`, and the value, in [0, g).

    ``hash_family="mixing"`` hashes with 64-bit mixing under a random 63-bit seed instead. Clients
    then need no list of the categories: with ``categories="open"`` they randomise any text, number
    or tuple of those, and a server adds the reports up for the categories that it lists. Decoding
    takes O(n d), and p, q hold as far as the mixing is ideal; epsilon holds in any case.

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

    A report is two integers: the code of the hash function, in :math:`[0, 2^k)`, and a bit. It is
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
    """Uniform a in GF(g)^k and <a, v> through randomised response over the g values."""

    def __init__(self, n_categories: int, field: FiniteField, threshold: int):
        g = field.order
        super().__init__(n_categories, p=Fraction(threshold, TWO_64), q=Fraction(1, g))
        self.field = field
        self.threshold = threshold
        self.n_digits = next(k for k in range(1, 65) if g**k >= n_categories)
        self.n_functions = g**self.n_digits
        limit = max(_SMALL_TABLE, _CELLS_PER_CATEGORY * n_categories)
        # The highest digits of the category are tried out report by report, as few of them as
        # leave a table of moderate size; with a single digit left it is solved for.
        self.n_tried = next(
            j
            for j in range(self.n_digits)
            if j == self.n_digits - 1 or self._n_prefixes(j) * g ** (self.n_digits - j + 1) <= limit
        )

    def _n_prefixes(self, n_tried):
        """How many values the highest digits of the categories take."""
        return -(-self.n_categories // self.field.order ** (self.n_digits - n_tried))

    @property
    def configuration(self):
        return {"hash_range": self.field.order, "hash_family": "linear"}

    @property
    def report_bits(self):
        return bits_for(self.n_functions * self.field.order)

    def decode_operations(self, n_samples):
        n_left = self.n_digits - self.n_tried
        contraction = n_left * self.tally_size * self.field.order if n_left > 1 else 0
        return n_samples * self._n_prefixes(self.n_tried) + contraction

    def supports(self, reports, codes):
        return self.hash(reports[:, :1], codes) == reports[:, 1:]

    @property
    def tally_size(self):
        n_left = self.n_digits - self.n_tried
        if n_left == 1:
            return self.n_categories
        return self._n_prefixes(self.n_tried) * self.field.order ** (n_left + 1)

    def privatize(self, codes, coins):
        reports = np.empty((len(codes), 2), dtype=np.int64)
        reports[:, 0] = coins.integers(self.n_functions, len(codes))
        value = self.hash(reports[:, 0], codes.astype(np.int64))
        reports[:, 1] = randomised_response(value, self.field.order, self.threshold, coins)
        return reports

    def hash(self, functions, codes, n_digits=None):
        """<a, v> of the functions with codes a, at the category codes v (broadcasting)."""
        g, field = self.field.order, self.field
        value = field.multiply(functions % g, codes % g)
        for _ in range(1, n_digits or self.n_digits):
            functions, codes = functions // g, codes // g
            value = field.add(value, field.multiply(functions % g, codes % g))
        return value

    def check_reports(self, reports):
        return check_hash_reports(reports, self.n_functions, self.field.order)

    def tally(self, reports):
        g, n_left = self.field.order, self.n_digits - self.n_tried
        tried, left = np.divmod(reports[:, 0], g**n_left)
        if n_left == 1:
            inverse, is_zero = self.field.invert(left), left == 0
        tallies = []
        for prefix in range(self._n_prefixes(self.n_tried)):
            # What the hash value of the digits left must be for the category to be supported.
            value = reports[:, 1]
            if self.n_tried:
                code = np.full_like(tried, prefix)
                value = self.field.subtract(value, self.hash(tried, code, self.n_tried))
            if n_left > 1:
                tallies.append(np.bincount(left * g + value, minlength=g ** (n_left + 1)))
            else:
                solution = self.field.multiply(value, inverse)[~is_zero]
                any_digit = np.count_nonzero(value[is_zero] == 0)
                tallies.append(np.bincount(solution, minlength=g) + any_digit)
        return np.concatenate(tallies)[: self.tally_size]

    def decode(self, tallies):
        n_left = self.n_digits - self.n_tried
        if n_left == 1:
            return tallies
        n_codes = min(self.field.order**n_left, self.n_categories)
        support = np.empty((len(tallies), self.n_categories), dtype=np.int64)
        # One at a time: the tables of many shards would not fit.
        for row, tally in zip(support, tallies, strict=True):
            tables = tally.reshape(self._n_prefixes(self.n_tried), -1)
            parts = contract(self.field, tables, n_left, n_codes)[..., 0]
            row[:] = parts.ravel()[: self.n_categories]
        return support

    def count_support(self, reports):
        return self.decode(self.tally(reports)[None])[0]

    def simulate(self, counts, n_repeats, rng):
        # Exact for each category; across categories as if the hash functions were ideal.
        return independent_support(self.p, self.q, counts, n_repeats, rng)
