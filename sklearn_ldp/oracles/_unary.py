"""Unary encodings: one bit per category."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .._core.mechanisms.channel import IndependentChannel
from .._core.mechanisms.coins import (
    PROBABILITY_UNIT,
    count_members,
    symmetric_threshold,
    zero_bit_threshold,
)
from .._core.mechanisms.laws import choice_entropy, count_bits
from .._core.mechanisms.mechanism import ReportField
from .._core.mechanisms.packed import PackedReports, count_packed_bits, packed_bits, set_packed_bits
from ._base import BaseOracle

_BITS_APART = 256  # up to this number, unpacked reports are small enough, and easier to read


class OUE(BaseOracle, tag="oue"):
    """Optimized unary encoding: reports of one bit per category.

    Specify `epsilon` and `categories`; the defaults of the other parameters are good.

    A user encodes their category as d bits, one for each of the d categories: 1 for their own
    category, and 0 for the others. Each bit is randomized independently. The bit 1 stays 1 with
    probability p, and a bit 0 becomes 1 with probability q,

    .. math:: p = \\frac12, \\qquad q = \\frac{1}{e^\\epsilon + 1}.

    A report is an array of d bits. If there are more than 256 categories, the bits are packed into
    d / 8 bytes with `numpy.packbits`. Servers accept packed and unpacked bits. :class:`OLH` has
    smaller reports, and nearly the same variance.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free.

    %(parameters)s

    %(attributes)s

    See Also
    --------
    OLH : The same accuracy with two integers per report.
    sklearn_ldp.best_oracle : The choice of an oracle.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha, "Locally differentially private protocols for
       frequency estimation", USENIX Security 2017.
       https://www.usenix.org/conference/usenixsecurity17/technical-sessions/presentation/wang-tianhao

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE
    >>> colors = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = OUE(epsilon=2.0, categories=["red", "green", "blue"], random_state=0)
    >>> oracle.fit(colors).frequencies_.round(1)
    array([0.6, 0.3, 0.1])
    >>> oracle.privatize(["red", "blue"]).shape
    (2, 3)
    """

    def _make_mechanism(self, domain):
        return UnaryChannel(domain.size, PROBABILITY_UNIT // 2, zero_bit_threshold(self.epsilon))


class SUE(BaseOracle, tag="sue"):
    """Symmetric unary encoding, also called basic RAPPOR: reports of one bit per category.

    Use it to analyze reports that were collected with this mechanism. For new collections use
    :class:`OUE` or another oracle.

    A user encodes their category as d bits, one for each of the d categories: 1 for their own
    category, and 0 for the others. Each bit is flipped independently with the same probability q. A
    bit is kept with probability p,

    .. math:: p = \\frac{e^{\\epsilon/2}}{e^{\\epsilon/2} + 1}, \\qquad q = 1 - p.

    A report is an array of d bits. If there are more than 256 categories, the bits are packed into
    d / 8 bytes with `numpy.packbits`. Servers accept packed and unpacked bits. If d is large,
    :class:`OUE` has a smaller variance for every epsilon.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free. (For repeated collections, RAPPOR stores a
    permanent randomized response on the client. :class:`~sklearn_ldp.collection.RepeatedClient`
    does this for any oracle.)

    %(parameters)s

    %(attributes)s

    See Also
    --------
    OUE : Unary encoding with the probabilities of minimum variance.

    References
    ----------
    .. [1] U. Erlingsson, V. Pihur, A. Korolova, "RAPPOR: randomized aggregatable
       privacy-preserving ordinal response", CCS 2014, :doi:`10.1145/2660267.2660348`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import SUE
    >>> colors = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = SUE(epsilon=2.0, categories=["red", "green", "blue"], random_state=0)
    >>> oracle.fit(colors).frequencies_.round(1)
    array([0.6, 0.3, 0.1])
    """

    def _make_mechanism(self, domain):
        threshold = symmetric_threshold(self.epsilon)
        return UnaryChannel(domain.size, threshold, PROBABILITY_UNIT - threshold)


class UnaryChannel(PackedReports, IndependentChannel, tag="unary-channel"):
    """Mechanism of :class:`OUE` and :class:`SUE`: a report has one bit for each category.

    The bit of the user's category is 1 with probability ``one / 2**64``. Each other bit is 1 with
    probability ``zero / 2**64``.
    """

    has_two_likelihoods = True

    def __init__(self, n_categories: int, one: int, zero: int):
        super().__init__(
            n_categories, p=Fraction(one, PROBABILITY_UNIT), q=Fraction(zero, PROBABILITY_UNIT)
        )
        self.one = one
        self.zero = zero
        self.report_bytes = 4 * n_categories
        self._n_bytes = -(-n_categories // 8)

    n_places = property(lambda self: self.n_categories)
    is_packed = property(lambda self: self.n_categories > _BITS_APART)

    @property
    def _plain(self):
        return ReportField("bits", 2, self.n_categories), "zeros and ones"

    @property
    def client_parameters(self):
        form = {"is_packed": True} if self.is_packed else {}
        size = {"n_categories": self.n_categories, **form}
        return {"kind": "unary", **size, "one": self.one, "zero": self.zero}

    def report_entropy(self, order=1):
        others = (self.n_categories - 1) * choice_entropy(self.q, 1, 1, order)
        return choice_entropy(self.p, 1, 1, order) + others

    def decode_operations(self, n_samples):
        return n_samples * self.n_categories

    def supports(self, reports, codes):
        return packed_bits(reports, codes) if self.is_packed else reports[:, codes] == 1

    def log_base(self, reports):
        ones = count_members(reports) if self.is_packed else reports.sum(axis=1, dtype=float)
        q = float(self.q)
        return ones * np.log(q) + (self.n_categories - ones) * np.log1p(-q)

    def privatize(self, codes, coins):
        if not self.is_packed:
            return self.draw(codes, coins)
        packed = coins.packed_bernoulli(self.zero, len(codes), self.n_categories)
        set_packed_bits(packed, codes, coins.bernoulli(self.one, len(codes)))
        return packed

    def draw(self, codes, coins):
        n = len(codes)
        bits = coins.bernoulli(self.zero, (n, self.n_categories))
        bits[np.arange(n), codes] = coins.bernoulli(self.one, n)
        return bits.view(np.uint8)

    def _from_plain(self, reports, form):
        bits = reports.astype(np.uint8, copy=False)
        return np.packbits(bits, axis=1) if self.is_packed else bits

    def count_support(self, reports):
        if reports.shape[1] == self.n_categories:  # not packed: `draw` never packs bits
            return count_bits(reports)
        return count_packed_bits(reports)[: self.n_categories]
