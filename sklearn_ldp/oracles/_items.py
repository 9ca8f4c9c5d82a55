"""Sets of items: each user has several categories. A report is a subset of the categories, or a
hash function and a hash value."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.privacy import warn_once
from .._core.common.random import RandomState
from .._core.domains import (
    TELLING_USERS,
    Categories,
    Domain,
    ItemDomain,
    closed_domain,
    word_digests,
)
from .._core.mechanisms.channel import Channel
from .._core.mechanisms.coins import PROBABILITY_UNIT, Coins, exp_lower_bound, group_threshold
from .._core.mechanisms.laws import choice_entropy
from .._core.mechanisms.packed import set_packed_bits
from .._core.noise import Covariance
from ._base import BaseOracle, OneColumn
from ._local_hashing import MOST_RANGE, MixingHash, MixingHashChannel, hash_variance
from ._subset import SubsetChannel

_MOST_ITEMS = 1 << 8
_MOST_SUBSET = 1 << 14  # "auto" uses subsets up to this number: a report has a bit per category
_PICKS = 1 << 31  # values of a draw; the choice among s items is uniform up to s / 2**31


class SetMechanism:
    """Base of the two mechanisms for users with several items.

    A report depends on at most `max_items` items of the user.
    """

    # A user reports on all items in one report, so the covariance of two categories depends on the
    # number of users who have both, which a tally does not contain. Let r be the probability that a
    # report supports both categories if the user has one of them or both, and r0 the probability if
    # the user has neither. Then for subsets
    # n (p - q)**2 Cov = r0 - q**2 + (f_v + f_w) (r - r0 - q (p - q)) + f_vw (r0 - r - (p - q)**2),
    # and for hashing (r0 = q**2, r = p q, or p / g if the user has both) it is - f_vw p (p - q).
    # See doc/notes/items.md.

    max_items: int
    n_picks = _PICKS
    shares_overlap = True
    has_exact_covariance = False
    has_two_likelihoods = False  # `sided` has two likelihoods, which support does not determine
    joint_support = support_sizes = None
    public_part = None  # collisions of two items under a function depend on the items

    def covariance(self, frequencies: np.ndarray) -> Covariance:
        return Covariance(self, frequencies, _refuse_pairs)

    def _sizes(self, reports):
        return np.empty(0), 0.0, 0.0  # the number of a user's items is unknown

    def slots(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Return at most `max_items` items of each user, of shape (n, max_items), padded with
        zeros.

        `codes` has shape (n, any number), with a row for each user's items and zeros after them. If
        a user has more than `max_items` items, the returned items are drawn at random.
        """
        # The number of random bits does not depend on the number of items.
        n = len(codes)
        m = self.max_items
        picks = coins.integers(self.n_picks, n * m).reshape(n, m)
        slots = np.zeros((n, m), dtype=codes.dtype)
        slots[:, : codes.shape[1]] = codes[:, :m]
        many = np.flatnonzero(codes[:, m]) if codes.shape[1] > m else np.empty(0, dtype=int)
        if many.size:
            pool = codes[many]
            rows = np.arange(many.size)
            sizes = np.count_nonzero(pool, axis=1)
            for i in range(m):  # the first places of a random permutation
                j = i + picks[many, i] * (sizes - i) // self.n_picks
                pool[rows, i], pool[rows, j] = pool[rows, j], pool[rows, i]
            slots[many] = pool[:, :m]
        return slots

    def sided(self, codes: np.ndarray, coins: Coins) -> tuple[np.ndarray, np.ndarray]:
        """Return the reports of `privatize`, and whether each report has the larger likelihood.

        Given a user's items, a report has one of two likelihoods, whose quotient is at most
        exp(epsilon).
        """
        raise NotImplementedError

    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        return self.sided(codes, coins)[0]

    def simulate(self, counts, n_repeats, rng):
        raise TypeError(
            "Users with several items cannot be simulated from counts, because counts of items do "
            "not show which items each user has. To simulate a collection, draw a set of items for "
            "each user, and pass these sets to fit. To choose a post-processor, use HeldOutSearch."
        )


def _refuse_pairs(frequencies: np.ndarray) -> Any:
    raise ValueError(
        "The variance of a sum over several items cannot be computed, because it depends on how "
        "many users have two of these items, and reports do not reveal this. Query single items. "
        "To estimate groups of items, collect with another ItemOracle: its categories are the "
        "groups, and a user has each group that contains one of the user's items."
    )


class ItemSubsetChannel(SetMechanism, SubsetChannel, tag="item-subset-channel"):
    """Mechanism of :class:`ItemOracle` with subsets: a report is a set of fixed size.

    A set that shares an item with the user's set is exp(epsilon) times as likely as any other set.
    """

    # Places 0 .. d-1 are the categories, and the m other places fill up the sets of users who have
    # fewer items: slot i of a user contains the i-th item, or is place d + i. The slots are ordered
    # from a random start, so all slots have the same distribution. Thresholds over 2**64 draw
    # whether a report meets a slot, and which slot it meets first. Given this draw, all reports are
    # equally likely.

    def __init__(self, n_categories: int, max_items: int, epsilon: float) -> None:
        self.max_items = m = max_items
        k = best_size(n_categories, m, epsilon)
        d = n_categories
        ratio = exp_lower_bound(epsilon)
        firsts = first_meetings(d + m, m, k)
        scale = PROBABILITY_UNIT * ratio / (ratio * sum(firsts) + 1 - sum(firsts))
        shares = [int(scale * first) for first in firsts]
        self.bounds = [*np.cumsum(np.array(shares, dtype=object)).tolist(), PROBABILITY_UNIT]
        self.threshold = sum(shares)
        others = [Fraction((m - 1 - i) * (k - 1), d + m - 1 - i) for i in range(m)]
        p = sum((share * (1 + o) for share, o in zip(shares, others, strict=True)), Fraction(0))
        p /= m * PROBABILITY_UNIT
        Channel.__init__(self, d, p, (k - m * p) / d)
        self._set_form(d + m, k)
        self.report_bytes += 64 * m

    @property
    def own_support(self):
        # The probability of a report that meets the user's set. It is a little smaller than the
        # true value, so that the bounds of `Chain` are valid although the probabilities of equal
        # reports are rounded.
        return Fraction(self.threshold, PROBABILITY_UNIT) * (1 - Fraction(1, 1 << 40))

    @property
    def configuration(self):
        return {"max_items": self.max_items, "subset_size": self.size}

    @property
    def client_parameters(self):
        bounds = [str(end) for end in self.bounds[:-1]]
        own = {"kind": "items", "max_items": self.max_items, "bounds": bounds}
        return {**super().client_parameters, **own}

    def report_entropy(self, order=1):
        n_all, n_missing = (math.comb(x, self.size) for x in (self.n_places, self.n_categories))
        inside = Fraction(self.threshold, PROBABILITY_UNIT)
        return choice_entropy(inside, n_all - n_missing, n_missing, order)

    tally_size = property(lambda self: self.n_places)

    def tally(self, reports):
        return super().count_support(reports)

    def count_support(self, reports):
        return self.tally(reports)[: self.n_categories]

    def decode(self, tallies):
        return tallies[:, : self.n_categories]

    def sided(self, codes, coins):
        drawn, meets = self._drawn_sets(codes, coins)
        return self._reports(drawn), meets

    def _drawn(self, codes, coins):
        return self._drawn_sets(codes, coins)[0]

    def _drawn_sets(self, codes, coins):
        """Draw the reported set of each user; return the sets as packed bits, and a boolean for
        each set.

        The boolean is True if the set contains an item (or a dummy) of its user.
        """
        n = len(codes)
        d = self.n_categories
        m = self.max_items
        k = self.size
        slots = self.slots(codes, coins)
        first = coins.choice(self.bounds, n)
        turn = coins.integers(m, n)
        in_order = np.zeros((n, m), dtype=bool)
        n_taken = np.zeros(n, dtype=np.int64)
        for i in range(m):
            # If a slot is in the report already, so are k - n_taken of the remaining places.
            is_next = coins.integers(d + m - i, n) < k - n_taken if i else False
            in_order[:, i] = (first == i) | ((first < i) & is_next)
            n_taken += in_order[:, i]
        taken = np.take_along_axis(in_order, (np.arange(m) - turn[:, None]) % m, axis=1)
        # In a uniform subset of all places that are not slots, slots and their items swap places.
        bits = coins.packed_subsets(k - n_taken, d, self._n_bytes)
        for i in range(m):
            own = taken[:, i]
            place = np.full(n, d + i)
            item = np.where(slots[:, i] > 0, slots[:, i].astype(np.int64) - 1, place)
            before = set_packed_bits(bits, item, own) > 0
            set_packed_bits(bits, place, np.where(item == place, own, before))
        return bits, first < m


def first_meetings(n_places: int, max_items: int, size: int) -> list[Fraction]:
    """Return, for each slot i of a user, a probability for a uniformly drawn set of `size` places.

    It is the probability that slot i is the first of the user's `max_items` slots that the set
    contains. A slot is a place that contains an item of the user, or a dummy. There are `n_places`
    places.
    """
    missed = Fraction(1)
    shares = []
    for i in range(max_items):
        shares.append(missed * Fraction(size, n_places - i))
        missed -= shares[-1]
    return shares


@lru_cache(maxsize=1 << 10)
def best_size(n_categories: int, max_items: int, epsilon: float) -> int:
    """Return the size of the reported sets with the minimum variance, if all users have
    `max_items` items."""
    # With one item this is the size of `SubsetSelection`. Floats are sufficient, because their
    # errors are far below the difference between two sizes.
    d = n_categories
    m = max_items
    ratio = float(min(exp_lower_bound(epsilon), Fraction(1 << 500)))
    sizes = np.arange(1.0, d + 1)
    miss = np.ones(d)
    for i in range(m):
        miss *= (d - sizes + m - i) / (d + m - i)
    p = ratio * sizes / (d + m) / (ratio * (1 - miss) + miss)
    q = (sizes - m * p) / d
    with np.errstate(divide="ignore", invalid="ignore"):
        variances = q * (1 - q) / (p - q) ** 2 + (1 - p - q) / (p - q) * m / (d + m)
    return 1 + int(np.nanargmin(variances))


class SetHash(SetMechanism, MixingHash, tag="set-hash"):
    """Mechanism of :class:`ItemOracle` with hashing: a report is a random seed and a hash value.

    The seed determines a hash function. Hash values of the user's items are more likely than other
    values. The client needs no list of categories.
    """

    # The set of the items' hash values is filled up to m values by random other values. Then the
    # report is uniform in this set with the probability threshold / 2**64, and otherwise uniform
    # outside of the set. The other values are not drawn: if one of them is chosen, the report is
    # a uniform value that is not the hash of an item.

    def __init__(self, hash_range: int, max_items: int, threshold: int) -> None:
        super().__init__(hash_range, threshold)
        self.max_items = max_items
        self.report_bytes = 64 * (max_items + 1)

    @property
    def configuration(self):
        return {"max_items": self.max_items, **super().configuration}

    @property
    def client_parameters(self):
        return {**super().client_parameters, "kind": "itemhash", "max_items": self.max_items}

    def report_entropy(self, order=1):
        inside = Fraction(self.threshold, PROBABILITY_UNIT)
        m = self.max_items
        return math.log2(self.n_seeds) + choice_entropy(inside, m, self.hash_range - m, order)

    def sided(self, codes, coins):
        n = len(codes)
        m = self.max_items
        g = self.hash_range
        digests = self.slots(codes, coins)
        seeds = coins.integers(self.n_seeds, n)
        is_inside = coins.bernoulli(self.threshold, n)
        index = coins.integers(m, n)
        values = self.hash(seeds[:, None], digests).astype(np.int64)
        values = np.sort(np.where(digests == 0, g, values), axis=1)
        values[:, 1:][values[:, 1:] == values[:, :-1]] = g
        values.sort(axis=1)  # distinct values in ascending order, and g after them
        n_own = np.count_nonzero(values < g, axis=1)
        other = np.zeros(n, dtype=np.int64)
        for i in range(m + 1):  # a draw for each number, so random bits do not reveal the number
            drawn = coins.integers(g - i, n)
            other = np.where(n_own == i, drawn, other)
        for column in values.T:
            other += other >= column
        own = values[np.arange(n), index]
        reported = np.where(is_inside & (index < n_own), own, other)
        return np.column_stack([seeds, reported]), is_inside


class ItemHashChannel(SetMechanism, MixingHashChannel, tag="item-hash-channel"):
    """The mechanism `SetHash` over a list of categories, with which the server decodes the
    reports."""

    client: Any

    def __init__(self, digests: np.ndarray, client: SetHash) -> None:
        super().__init__(digests, client)
        self.p = Fraction(client.threshold, PROBABILITY_UNIT * client.max_items)
        self.max_items = client.max_items
        self.report_bytes = client.report_bytes
        self._slot_digests = np.concatenate([np.zeros(1, dtype=np.uint64), np.maximum(digests, 1)])

    def sided(self, codes, coins):
        return self.client.sided(self._slot_digests[codes], coins)


@lru_cache(maxsize=1 << 10)
def best_range(max_items: int, epsilon: float) -> int:
    """Return the number of hash values with the minimum variance.

    This is one of the two integers next to the real number that minimizes the variance.
    """
    # The derivative of q (1 - q) / (p - q)**2, with q = 1 / g and p = E / (m E + g - m), is 0 at
    # g**2 - g (a + 3 m) - m a + 2 (a + m) = 0 with a = m (E - 1).
    ratio = exp_lower_bound(epsilon)
    m = max_items
    a = m * (float(min(ratio, Fraction(MOST_RANGE))) - 1)
    root = (a + 3 * m + math.sqrt((a + 3 * m) ** 2 + 4 * (m * a - 2 * (a + m)))) / 2
    near = {min(max(int(root) + i, m + 1), MOST_RANGE) for i in (0, 1)}
    return min(sorted(near), key=lambda g: hash_variance(g, epsilon, m))


class ItemOracle(OneColumn, BaseOracle, tag="item-oracle"):
    """Estimate the frequency of each item if users have several items, such as apps or symptoms.

    The categories are the possible items, and the value of a user is the set of the user's items.
    `fit` and `privatize` accept lists or sets of items (one per user), a boolean or sparse matrix
    with a row for each user and a column for each category, or a column of lists from pandas,
    polars or Arrow. The frequency of a category is the proportion of users who have this item, so
    the frequencies do not sum to 1. You must declare the categories, because ``"auto"`` is refused.

    There are two mechanisms. Both describe the whole set of a user in one report. Two alternatives
    have several times their variance: to report one random item of each user, or to fill up the set
    to a fixed size and to report one of its elements.

    **Subsets** [1]_. There are d + m elements: the d categories and m = `max_items` dummies. The
    set of each user is filled up with dummies to m elements. A report is a set of k elements. A
    report that shares an element with the user's set is :math:`e^\\epsilon` times as likely as any
    other report,

    .. math:: p = \\frac{e^\\epsilon}{\\Omega} \\frac{k}{d + m}, \\qquad q = \\frac{k - m p}{d},
              \\qquad \\Omega = e^\\epsilon + (1 - e^\\epsilon) \\binom dk / \\binom{d + m}k,

    where p is the probability that a report contains an item of the user, and q is the probability
    that it contains another category. The number k minimizes the variance. With ``max_items=1``
    this is :class:`SubsetSelection` on d + 1 categories.

    **Hashing** [2]_. A random hash function maps each item to one of g values. A report is the hash
    function and one value. The value of each of the user's items is reported with probability p,
    and other values are less likely,

    .. math:: p = \\frac{e^\\epsilon}{m e^\\epsilon + g - m}, \\qquad q = \\frac1g,

    where q is the probability that the reported value is the value of another category. A report is
    two integers for any d, and clients need no list of the items (``categories="open"``). The
    formula for q is exact only for an ideal hash function. The guarantee epsilon does not depend on
    the hash function.

    **Users with more than `max_items` items.** The client draws `max_items` of the user's items,
    and ignores the other items. So `frequencies_` underestimates the items of such users, and
    confidence intervals do not include this bias. Reports do not reveal how many such users there
    are. If you have a public guess of the distribution of the number of items per user, `plan`
    computes this bias and the error for each value of `max_items`. `fit` and `partial_fit` on raw
    values warn once if the bias of an item exceeds the standard error.

    **Sums over several items** would count a user with two of these items twice. So queries that
    add up items raise an error. Post-processors that make the frequencies sum to 1 also raise an
    error. Use :class:`BasePos`, :class:`BaseCut`, or :class:`NPMLE` and :class:`EmpiricalBayes`
    with ``simplex=False``.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user. This protects the whole set and the number of its items. No operation on reports spends
    epsilon.

    %(parameters)s
    max_items : int, default=5
        Maximum number of a user's items on which the report depends, from 1 to 256. The variance is
        about proportional to `max_items`, whatever the number of items that users have. If some
        users have more items, estimates are too small.
    method : {"auto", "subset", "hash"}, default="auto"
        The mechanism. "auto" uses subsets for up to 2**14 categories, and hashing for more
        categories or if ``categories="open"``. With subsets, a report has at most one bit per
        category.

    %(attributes)s
    n_clipped_ : int
        Number of users with more than `max_items` items. It is an exact count of raw values, so do
        not publish it.

    See Also
    --------
    KeyValueOracle : For users who have a number for each of their items, such as a rating.

    References
    ----------
    .. [1] S. Wang, L. Huang, Y. Nie, P. Wang, H. Xu, W. Yang, "PrivSet: set-valued data analyses
       with local differential privacy", INFOCOM 2018, :doi:`10.1109/INFOCOM.2018.8486234`.
    .. [2] S. Wang, Y. Qian, J. Du, W. Yang, L. Huang, H. Xu, "Set-valued data publication with
       local privacy: tight error bounds and efficient mechanisms", PVLDB 13(8), 2020,
       :doi:`10.14778/3389133.3389140` (hashing is a discrete form of the Wheel mechanism).

    Examples
    --------
    >>> from sklearn_ldp import ItemOracle
    >>> users = [["maps", "mail"], ["mail"], [], ["chat", "maps"], ["mail"]] * 5000
    >>> oracle = ItemOracle(2.0, categories=["chat", "mail", "maps"], max_items=2, random_state=0)
    >>> oracle.fit(users).frequencies_.round(1)
    array([0.2, 0.6, 0.4])
    >>> oracle.estimate_.detected(threshold=0.3)[0].tolist()
    ['mail', 'maps']
    """

    _parameter_constraints: dict = {
        **BaseOracle._parameter_constraints,
        "max_items": [Interval(Integral, 1, _MOST_ITEMS, closed="both")],
        "method": [StrOptions({"auto", "subset", "hash"})],
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
        max_items: int = 5,
        method: str = "auto",
    ) -> None:
        self._store(epsilon, categories, input, n_shards, random_state, n_jobs)
        self.max_items = max_items
        self.method = method

    def plan(
        self, sizes: ArrayLike, n_samples: int, *, frequency: float | None = None
    ) -> dict[str, np.ndarray]:
        """Compute the error of an item's frequency for each value of `max_items`.

        The distribution of the number of items per user must be known approximately.

        Privacy: this method spends no epsilon. `sizes` must be public, for example from another
        survey.

        Parameters
        ----------
        sizes : array-like of shape (n_sizes,)
            The numbers (or the proportions) of users who have 0, 1, 2, .. items.
        n_samples : int
            Number of users.
        frequency : float, default=None
            Frequency of the item for which to compute the error. If None, the mean frequency of all
            items.

        Returns
        -------
        dict of ndarray of shape (n_values,)
            A table as a dictionary of columns, with a row for each value of `max_items`.
            "max_items" is from 1 to the largest number of items in `sizes`, at most 256. "std" is
            the standard error of the item's frequency. "bias" is its bias, which is negative if
            some users have more than `max_items` items. "rmse" is the square root of the sum of the
            squares of "std" and "bias".

        Raises
        ------
        ValueError
            If a number in `sizes` is negative or not finite, if no user in `sizes` has an item, if
            `frequency` is not between 0 and 1, or if the categories are not declared.

        Notes
        -----
        Let m be `max_items`. The client of a user with s items uses each item with probability
        min(1, m / s). Users who have a given item tend to have many items. The bias assumes that
        among these users, the probability of s items is proportional to s times the proportion of
        all users with s items. Then the item is used by a proportion of these users that is the
        mean of min(s, m) divided by the mean of s, where both means are over all users.

        Examples
        --------
        >>> from sklearn_ldp import ItemOracle
        >>> sizes = [10, 20, 30, 20, 10, 5, 3, 1, 1]
        >>> table = ItemOracle(1.0, categories=100).plan(sizes, 100_000)
        >>> int(table["max_items"][table["rmse"].argmin()])
        3
        """
        weights = np.asarray(sizes)
        domain = closed_domain(self._domain())
        mean: Any = 0.0
        is_valid = weights.ndim == 1 and weights.dtype.kind in "biuf"
        if is_valid and np.all((weights >= 0) & (weights < math.inf)):
            items = np.arange(len(weights))
            mean = items @ weights / max(weights.sum(), 1e-300)
        f: Any = mean / domain.size if frequency is None else frequency
        if not (mean > 0 and isinstance(f, Real) and 0 <= float(f) <= 1):
            raise ValueError(
                f"{self._name}.plan got sizes={sizes!r} and frequency={frequency!r}. Pass as "
                "sizes= the numbers of users who have 0, 1, 2, .. items, with at least one user "
                "who has an item, and as frequency= a number from 0 to 1."
            )
        tried = np.arange(1, min(len(weights) - 1, _MOST_ITEMS) + 1)
        planned = clone(self).set_params(input="values")
        channels = [planned.set_params(max_items=int(m)).channel(domain) for m in tried]
        frequencies = np.full(domain.size, f)
        std = [np.sqrt(c.noise(n_samples).variance(frequencies)[0]) for c in channels]
        bias = [f * (np.minimum(items, m) @ weights / weights.sum() / mean - 1) for m in tried]
        columns = {"max_items": tried, "std": np.array(std), "bias": np.array(bias)}
        return {**columns, "rmse": np.hypot(std, bias)}

    def _draw(self, state, X, sample_weight, *, is_new=False):
        batch = super()._draw(state, X, sample_weight, is_new=is_new)
        n_users = batch.after.counts.n_samples
        # Only with raw values: a warning of a client would reveal a value.
        if batch.columns is not None and n_users >= TELLING_USERS:
            bias = state.protocol.domain.largest_bias(batch.columns)
            if bias > batch.after.mechanism.noise(n_users).std:
                text = f"{self._name} underestimates frequencies by more than their standard error "
                text += f"(up to {bias:.1g}), because a report describes at most max_items="
                text += f"{self.max_items} items of a user. Intervals do not include this bias. "
                text += "Pass a larger max_items=, which plan(..) helps to choose."
                warn_once(text, UserWarning, f"{self._name} max_items={self.max_items}")
        return batch

    def _numbers_of(self, domain: Any, codes: np.ndarray) -> np.ndarray:
        return domain.places_of(codes)

    def _takes_open_domain(self):
        return self.method != "subset"

    def _domain_of(self, declared: Any) -> ItemDomain:
        return ItemDomain(Domain.of(declared, self._name), int(self.max_items))

    def _make_mechanism(self, domain: Any) -> Any:
        m = int(self.max_items)
        is_small = not domain.is_open and domain.size <= _MOST_SUBSET
        if self.method == "subset" or (self.method == "auto" and is_small):
            return ItemSubsetChannel(domain.size, m, self.epsilon)
        g = best_range(m, self.epsilon)
        client = SetHash(g, m, group_threshold(self.epsilon, m, g - m))
        return client if domain.is_open else ItemHashChannel(word_digests(domain), client)
