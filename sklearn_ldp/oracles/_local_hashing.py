"""Optimised and binary local hashing."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral

from sklearn.utils._param_validation import Interval, StrOptions

from .._random import RandomState
from ..domains import Categories
from ..mechanisms._coins import direct_threshold, exp_lower_bound
from ..mechanisms.algebra._finite_field import FiniteField, field_orders_beside
from ._base import BaseOracle
from ._linear_hashing import LinearHashChannel
from ._mixing import MixingHash, MixingHashChannel
from ._shared_paragraphs import inherit_parameters

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
    those of ideal hashing. Decoding is a Fourier transform over the field, in
    :math:`O(n + k g^k \\log g)` instead of :math:`O(n d)`.

    Only the covariances differ from ideal hashing: two categories on a line (of the affine space)
    with a third one of frequency f have covariance :math:`f / (g (p - q) n)`. To make such lines
    rare, the codes are scattered over the space by a fixed permutation, and k is larger than the
    categories need. The variance of the sum over a set S then exceeds that under ideal hashing by
    a share of about :math:`|S| (g - 2) (p - q) / ((1 - q) g^k)`. The number k is the least for
    which that share is at most a tenth for half of the domain. But digits are only added while
    :math:`g^k` is at most :math:`2^{19}` or 16 d, whichever is larger, which gives a smaller k for
    :math:`\\epsilon` above 4 and over large domains. `simulate` has these covariances, and
    :class:`~sklearn_ldp.planning.Plan` takes them into account.

    A report is two integers: the number of the function, in
    :math:`[0, (g^k - 1) / (g - 1)]`, where all multiples of a function share a number because
    their reports say the same; and the value, in [0, g).

    ``hash_family="mixing"`` hashes with 64-bit mixing under a random 63-bit seed instead. Clients
    then need no list of the categories: with ``categories="open"`` they randomise any text, number
    or tuple of those, and a server adds the reports up for the categories that it lists. Decoding
    takes O(n d). The probabilities p and q hold as far as the mixing is ideal; epsilon holds in any
    case. This is the OLH of the papers: its categories are independent, and `simulate` draws them
    independently in O(d).

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free.

    %(parameters)s
    hash_range : "auto" or int, default="auto"
        Number g of hash values, a prime or a power of a prime; "auto" takes the one next to
        :math:`e^\\epsilon + 1` that has the least variance.
    hash_family : {"linear", "mixing"}, default="linear"
        Linear functions over GF(g), or keyed mixing of any category.

    %(attributes)s
    hash_range_ : int
        The number g of hash values.

    See Also
    --------
    OUE : The same accuracy with d bits per report.
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
        return self._fitted("hash_range_").mechanism.configuration["hash_range"]

    def _takes_open_domain(self):
        return self.hash_family == "mixing"

    def _make_channel(self, domain):
        is_auto = isinstance(self.hash_range, str)
        g = best_hash_range(self.epsilon) if is_auto else int(self.hash_range)
        threshold = direct_threshold(self.epsilon, g)
        if self.hash_family == "linear":
            return LinearHashChannel(domain.size, FiniteField(g), threshold)
        client = MixingHash(g, threshold)
        return client if domain.is_open else MixingHashChannel(domain.word_digests(), client)


@inherit_parameters
class BLH(BaseOracle):
    """Binary local hashing, also called random matrix projection.

    This is :class:`OLH` with hash values of one bit,

    .. math:: p = \\frac{e^\\epsilon}{e^\\epsilon + 1}, \\qquad q = \\frac12.

    A report is two integers: the number of the hash function, in :math:`[0, 2^k)`, and a bit. No
    three categories are on a line, so that categories are uncorrelated. The accuracy falls short of
    the optimum where :math:`e^\\epsilon` is well above 1.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free.

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
    >>> colours = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = BLH(epsilon=2.0, categories=["red", "green", "blue"], random_state=0)
    >>> oracle.fit(colours).frequencies_.round(1)
    array([0.6, 0.3, 0.1])
    """

    def _make_channel(self, domain):
        threshold = direct_threshold(self.epsilon, 2)
        return LinearHashChannel(domain.size, FiniteField(2), threshold)


def best_hash_range(epsilon: float) -> int:
    """Return the field order of least variance next to ``exp(epsilon) + 1`` (2020 paper, Eq. 7)."""
    ratio = exp_lower_bound(epsilon)

    def variance(g):
        p, q = ratio / (ratio + g - 1), Fraction(1, g)
        return q * (1 - q) / (p - q) ** 2

    beside = float(min(ratio + 1, Fraction(_MAX_HASH_RANGE)))
    return min(field_orders_beside(beside), key=variance)
