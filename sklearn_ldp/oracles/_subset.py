"""Subset selection: a report is a set of categories of fixed size."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.locks import cached_property
from .._core.common.random import RandomState
from .._core.domains import Categories
from .._core.mechanisms.channel import Channel
from .._core.mechanisms.coins import (
    PROBABILITY_UNIT,
    SeededCoins,
    count_members,
    exp_lower_bound,
    group_threshold,
)
from .._core.mechanisms.laws import JointSupport, choice_entropy, fixed_support_size
from .._core.mechanisms.mechanism import ReportField, bit_width, counted_by_group
from .._core.mechanisms.packed import PackedReports, count_packed_bits, packed_bits, set_packed_bits
from ._base import BaseOracle

_PROTOCOL_BITS = 1 << 20  # up to this many users times categories, `simulate` runs the protocol
_BYTE_CODES = 256  # up to this number of categories, a code fits in a byte
_LISTED_ROWS = 1 << 12  # lists that are written or read at a time
_MAX_URN = 10**9  # NumPy's limit on the size of an urn


class SubsetSelection(BaseOracle, tag="subset-selection"):
    """Subset selection: the oracle with the minimum variance; its reports are large.

    Specify `epsilon` and `categories`; the defaults of the other parameters are good. This oracle
    is also called the omega-subset mechanism.

    A user reports a set of w of the d categories. With probability p the set is drawn uniformly
    from all sets that contain the user's category, otherwise from all sets that do not contain it,

    .. math:: p = \\frac{w e^\\epsilon}{w e^\\epsilon + d - w}, \\qquad
              q = p \\frac{w - 1}{d - 1} + (1 - p) \\frac{w}{d - 1},

    where q is the probability that the set contains a given other category. If w is the best of the
    two integers next to :math:`d / (e^\\epsilon + 1)`, no oracle has a smaller total variance for
    this epsilon and d. ([1]_ and [2]_ print p = 1/2. This is the special case in which this
    quotient is an integer.)

    A report is an array of w integers, the positions of the reported categories in the domain. The
    array is sorted, so that the order reveals nothing. If there are more than 256 categories, and
    packed bits are shorter, a report is an array of d / 8 bytes instead: one bit for each category,
    packed with `numpy.packbits`. Servers accept both forms. :class:`ProjectiveGeometryResponse` and
    :class:`OLH` have smaller reports, and are nearly as accurate.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free.

    If the number of users times the number of categories exceeds about a million, `simulate` uses
    an approximation of the number of reports that contain each category. The reports of the
    category's own users are drawn from the exact distribution. The reports of all other users are
    drawn from an urn, which has the exact total and variance. Means, variances and covariances are
    exact; higher moments are approximate.

    %(parameters)s
    subset_size : "auto" or int, default="auto"
        Size w of the reported sets, from 1 to d - 1. "auto" chooses the size with the minimum total
        variance.

    %(attributes)s
    subset_size_ : int
        Size w of the reported sets.

    See Also
    --------
    sklearn_ldp.best_oracle : The choice of an oracle.
    ProjectiveGeometryResponse : Nearly as accurate on large domains, with one integer per report.

    References
    ----------
    .. [1] M. Ye, A. Barg, "Optimal schemes for discrete distribution estimation under locally
       differential privacy", IEEE Transactions on Information Theory 64(8), 2018,
       :doi:`10.1109/TIT.2018.2809790`.
    .. [2] S. Wang, L. Huang, P. Wang, Y. Nie, H. Xu, W. Yang, X. Li, C. Qiao, "Mutual information
       optimally local private discrete distribution estimation", 2016,
       https://arxiv.org/abs/1607.08025

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import SubsetSelection
    >>> colors = np.repeat(["red", "green", "blue", "grey"], [60_000, 20_000, 10_000, 10_000])
    >>> oracle = SubsetSelection(1.0, categories=["red", "green", "blue", "grey"], random_state=0)
    >>> oracle.fit(colors).frequencies_.round(1)
    array([0.6, 0.2, 0.1, 0.1])
    >>> oracle.subset_size_
    1
    """

    _parameter_constraints: dict = {
        **BaseOracle._parameter_constraints,
        "subset_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
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
        subset_size: int | str = "auto",
    ) -> None:
        self._store(epsilon, categories, input, n_shards, random_state, n_jobs)
        self.subset_size = subset_size

    @property
    def subset_size_(self) -> int:
        """Number of categories in each reported set."""
        return self._fitted("subset_size_").mechanism.size

    def _make_mechanism(self, domain):
        n_categories = domain.size
        size = self.subset_size
        if isinstance(size, str):
            return best_subset_channel(n_categories, self.epsilon)
        if not 1 <= size < n_categories:
            raise ValueError(
                "The 'subset_size' parameter of SubsetSelection must be less than the number of "
                f"categories, which is {n_categories}. Got {size!r} instead."
            )
        return SubsetChannel(n_categories, int(size), self.epsilon)


def best_subset_channel(n_categories: int, epsilon: float) -> SubsetChannel:
    """Return the mechanism of subset selection with the set size of minimum total variance.

    This size is one of the two integers next to ``d / (exp(epsilon) + 1)`` for d categories.
    """
    return SubsetChannel(n_categories, _best_subset_size(n_categories, epsilon), epsilon)


@lru_cache(maxsize=1 << 12)
def _best_subset_size(n_categories: int, epsilon: float) -> int:
    below = int(n_categories / (exp_lower_bound(epsilon) + 1))
    sizes = {min(max(size, 1), n_categories - 1) for size in (below, below + 1)}
    channels = [SubsetChannel(n_categories, size, epsilon) for size in sorted(sizes)]
    return min(channels, key=lambda channel: channel.total_variance()).size


class SubsetChannel(PackedReports, Channel, tag="subset-channel"):
    """Mechanism of :class:`SubsetSelection`: a report is a set of categories of fixed size.

    The set contains the user's category with probability ``threshold / 2**64``. All sets that
    contain it are equally likely, and so are all other sets.
    """

    has_two_likelihoods = True

    def __init__(self, n_categories: int, size: int, epsilon: float):
        threshold = group_threshold(epsilon, size, n_categories - size)
        p = Fraction(threshold, PROBABILITY_UNIT)
        q = (p * (size - 1) + (1 - p) * size) / (n_categories - 1)
        super().__init__(n_categories, p, q)
        self.threshold = threshold
        self._set_form(n_categories, size)

    def _set_form(self, n_places: int, size: int) -> None:
        """Set the size and the form of the reports: each report is `size` of the places 0 to
        `n_places` - 1.

        The first places stand for the categories.
        """
        self.n_places = n_places
        self.size = size
        self._n_bytes = -(-n_places // 8)
        self.report_bytes = 16 * self._n_bytes if self.is_packed else 2 * n_places + 16 * size

    @property
    def is_packed(self) -> bool:
        """Whether reports are packed bits. If False, they are lists of codes, because these are
        shorter."""
        return self.n_places > _BYTE_CODES and self.size > self._n_bytes

    @property
    def configuration(self):
        return {"subset_size": self.size}

    @property
    def _plain(self):
        numbers = f"sorted, distinct integers in [0, {self.n_places - 1}]"
        return ReportField("codes", self.n_places, self.size), numbers

    @property
    def client_parameters(self):
        return {
            "kind": "subset",
            "n_categories": self.n_categories,
            "subset_size": self.size,
            "is_packed": self.is_packed,
            "inside": self.threshold,
        }

    @property
    def report_bits(self):
        # The shorter form counts: d bits, or the number of the set among all sets.
        return min(self.n_places, bit_width(math.comb(self.n_places, self.size)))

    def report_entropy(self, order=1):
        d = self.n_places
        w = self.size
        return choice_entropy(self.p, math.comb(d - 1, w - 1), math.comb(d - 1, w), order)

    tally_sum = property(lambda self: self.size)
    largest_support = property(lambda self: self.size)

    def decode_operations(self, n_samples):
        return n_samples * self.size

    def supports(self, reports, codes):
        if self.is_packed:
            return packed_bits(reports, codes)
        return (reports[:, :, None] == codes).any(axis=1)

    @property
    def joint_support(self):
        d = self.n_places
        w = self.size
        p = float(self.p)
        # With the user's own category, the set contains w - 1 of the d - 1 others; without
        # it, w.
        with_true_code = p * (w - 1) / (d - 1)
        pairs = p * (w - 1) * (w - 2) + (1 - p) * w * (w - 1)
        return JointSupport(with_true_code, pairs / max((d - 1) * (d - 2), 1))

    @property
    def support_sizes(self):
        return fixed_support_size(self.size, self.n_places)

    def privatize(self, codes, coins):
        return self._reports(self._drawn(codes, coins))

    def lists(self, reports: np.ndarray) -> np.ndarray:
        """Return the codes in each report, in ascending order, as an array of shape (n, size).

        A code is the position of a category in the domain.
        """
        if not self.is_packed:
            return reports
        result = np.empty((len(reports), self.size), dtype=self._dtype)
        for start in range(0, len(reports), _LISTED_ROWS):
            rows = slice(start, start + _LISTED_ROWS)
            result[rows] = self._listed(reports[rows])
        return result

    def _listed(self, packed):
        bits = np.unpackbits(packed, axis=1, count=self.n_places)
        members = np.flatnonzero(bits).reshape(len(bits), self.size)
        # Small integers wrap around, so the differences of truncated numbers are correct.
        starts = self.n_places * np.arange(len(bits))[:, None]
        return members.astype(self._dtype) - starts.astype(self._dtype)

    @cached_property
    def _dtype(self):
        # Fetching hundreds of 64-bit integers per report from memory is slower than drawing them.
        return np.min_scalar_type(self.n_places - 1)

    def draw(self, codes, coins):
        packed = self._drawn(codes, coins)
        # Mark packed sets that are not reports, because reports are lists.
        return packed if self.is_packed else packed.view(self._unlisted)

    def _reports(self, packed):
        """Convert sets (packed bits, one row per set) to the form of the reports."""
        return packed if self.is_packed else self._listed(packed)

    @cached_property
    def _unlisted(self):
        return np.dtype([("bits", np.uint8, self._n_bytes)])

    def _drawn(self, codes, coins):
        """Draw a set for each user's code, and return the sets as packed bits, of shape (n,
        n_bytes)."""
        n = len(codes)
        d = self.n_places
        holds_own = coins.bernoulli(self.threshold, n)
        # The other codes have the numbers 0 .. d-2: d-1 replaces the user's own code.
        packed = coins.packed_subsets(self.size - holds_own, d - 1, self._n_bytes)
        was_member = set_packed_bits(packed, codes, holds_own)
        packed[:, -1] |= np.where(was_member, 128 >> (d - 1 & 7), 0).astype(np.uint8)
        return packed

    def _checked_bits(self, reports):
        packed = super()._checked_bits(reports)
        size = self.size
        is_wrong = count_members(packed) != size
        if is_wrong.any():
            form = f"sets of {size} of {self.n_places} categories, packed in {self._n_bytes} bytes"
            raise ValueError(
                f"expected {form}, got a set of another size in row {np.argmax(is_wrong)}"
            )
        return packed

    def _from_plain(self, reports, form):
        wrong = np.flatnonzero((reports[:, 1:] <= reports[:, :-1]).any(axis=1))
        if wrong.size:
            raise ValueError(
                f"expected {form}, got integers that are not sorted or not distinct in row "
                f"{wrong[0]}"
            )
        if self.is_packed:
            return self._bits_of(reports)
        return reports.astype(self._dtype, copy=False)

    def _bits_of(self, lists):
        """Convert lists of codes, of shape (n, size), to packed bits, of shape (n, n_bytes)."""
        result = np.empty((len(lists), self._n_bytes), dtype=np.uint8)
        for start in range(0, len(lists), _LISTED_ROWS):
            rows = lists[start : start + _LISTED_ROWS].astype(np.intp, copy=False)
            bits = np.zeros((len(rows), self.n_places), dtype=np.uint8)
            np.put_along_axis(bits, rows, 1, axis=1)
            result[start : start + len(rows)] = np.packbits(bits, axis=1)
        return result

    def count_support(self, reports):
        if self.is_packed:
            return count_packed_bits(reports)[: self.n_places]
        if reports.dtype == self._unlisted:  # the unlisted sets that `draw` returns
            return count_packed_bits(reports["bits"][:, 0])[: self.n_places]
        return np.bincount(reports.ravel(), minlength=self.n_places)

    def tally_each(self, reports, groups):
        if self.is_packed:
            yield from super().tally_each(reports, groups)
            return
        member_groups = np.repeat(groups, self.size)
        yield from counted_by_group(reports.ravel(), member_groups, self.n_places)

    def simulate(self, counts, n_repeats, rng):
        n = int(counts.sum())
        d = self.n_places
        if n * d <= _PROTOCOL_BITS:
            codes = np.repeat(np.arange(d), counts)
            coins = SeededCoins(rng)
            return np.array([self.count_support(self.draw(codes, coins)) for _ in range(n_repeats)])
        own = rng.binomial(counts, float(self.p), (n_repeats, d))
        # Every report has `size` members, so the supports by other users' reports have a known sum.
        # Each support is at most n. The sum over categories is exact in int64 if n * d fits.
        kind = np.int64 if n * d < 2**63 else np.float64
        totals = kind(n * self.size) - own.sum(axis=1, dtype=kind)
        return own + shared_support(n - counts, totals, float(self.q), rng)


def shared_support(
    others: np.ndarray, totals: np.ndarray, q: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw, for each category, how many reports of the users of other categories contain it.

    `others` contains the number of users of other categories, for each category. `totals` contains,
    for each repetition, the sum of the drawn numbers over all categories. `q` is the probability
    that such a report contains a given category.

    Shapes: others (d,), totals (n_repeats,) -> (n_repeats, d).
    """
    # The support is drawn without replacement from an urn. The size of the urn is chosen such that
    # the variance is `others * q * (1 - q)`. If this urn is too large for NumPy, the support is
    # drawn from binomial distributions, and then scaled and shifted to the same variance and sum.
    d = len(others)
    weight = others / others.sum(dtype=totals.dtype)
    if q * d <= 1:  # one category per report: at most the number of users
        return rng.multinomial(totals.astype(np.int64), weight)
    urn = np.rint(others * (q * (d - 1) / (q * d - 1))).astype(np.int64)
    if urn.sum(dtype=np.float64) < _MAX_URN:
        draw = rng.multivariate_hypergeometric
        return np.array([draw(urn, total, method="marginals") for total in totals])
    values = rng.binomial(others, q, (len(totals), d)) - others * q
    values = (values - weight * values.sum(axis=1, keepdims=True)) * np.sqrt(d / (d - 1))
    ends = np.cumsum(values + weight * totals[:, None], axis=1)
    ends[:, -1] = totals
    # All ends are rounded with one random offset: this keeps sums, and favors no category.
    rounded = np.floor(ends + rng.random((len(totals), 1)))
    return np.diff(rounded, axis=1, prepend=0.0).astype(np.int64)
