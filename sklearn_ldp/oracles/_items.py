"""Several items a user: sets of categories, by subsets or by hashing."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.domains import Categories, Domain, ItemDomain
from .._core.mechanisms.channel import Channel
from .._core.mechanisms.coins import TWO_64, Coins, exp_lower_bound, group_threshold
from .._core.mechanisms.laws import choice_entropy
from .._core.mechanisms.packed import set_packed_bits
from .._core.noise import Covariance
from .._core.support.random import RandomState
from ._base import BaseOracle, OneColumn
from ._local_hashing import MOST_RANGE, MixingHash, MixingHashChannel, hash_variance
from ._subset import SubsetChannel

_MOST_ITEMS = 1 << 8
_MOST_SUBSET = 1 << 14  # categories up to which "auto" takes subsets: reports are a bit for each
_PICKS = 1 << 31  # so many draws, of which those that choose among s items are uniform to s / 2**31


class SetMechanism:
    """The base of the two mechanisms of sets: the items that a report tells of."""

    # Two items of one user are reported together, so the covariance of two categories depends on
    # how many users have both, which no tally tells. With r for the probability that a report
    # supports both if the user has one of them or both, and r0 if she has neither,
    # n (p - q)**2 Cov = r0 - q**2 + (f_v + f_w) (r - r0 - q (p - q)) + f_vw (r0 - r - (p - q)**2)
    # for subsets; for hashing (r0 = q**2, r = p q, or p / g if she has both) it is
    # - f_vw p (p - q). See doc/notes/items.md.

    max_items: int
    n_picks = _PICKS
    shares_overlap = True
    has_exact_covariance = False
    has_two_likelihoods = False  # with `sided`, a report has two, but not by what it supports
    joint_support = support_sizes = None
    public_part = None  # which functions map two items to one value depends on the items

    def covariance(self, frequencies: np.ndarray) -> Covariance:
        return Covariance(self, frequencies, _refuse_pairs)

    def _sizes(self, reports):
        return np.empty(0), 0.0, 0.0  # the number of a user's items is not known

    def slots(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Return `max_items` columns: all of each user's items, or so many at random, and zeros."""
        # As many coins are drawn of users who have fewer items.
        n, m = len(codes), self.max_items
        picks = coins.integers(self.n_picks, n * m).reshape(n, m)
        slots = np.zeros((n, m), dtype=codes.dtype)
        slots[:, : codes.shape[1]] = codes[:, :m]
        many = np.flatnonzero(codes[:, m]) if codes.shape[1] > m else np.empty(0, dtype=int)
        if many.size:
            pool, rows = codes[many], np.arange(many.size)
            sizes = np.count_nonzero(pool, axis=1)
            for i in range(m):  # the first places of a random permutation
                j = i + picks[many, i] * (sizes - i) // self.n_picks
                pool[rows, i], pool[rows, j] = pool[rows, j], pool[rows, i]
            slots[many] = pool[:, :m]
        return slots

    def sided(self, codes: np.ndarray, coins: Coins) -> tuple[np.ndarray, np.ndarray]:
        """Return reports as `privatize` does, and whether each is of the likelier kind."""
        raise NotImplementedError

    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        return self.sided(codes, coins)[0]

    def simulate(self, counts, n_repeats, rng):
        raise TypeError(
            "Counts of items do not tell who has which together, so that no users can be simulated "
            "from them: fit sets that you draw. To choose a post-processor take HeldOutSearch."
        )


def _refuse_pairs(frequencies: np.ndarray) -> Any:
    raise ValueError(
        "The variance of a sum over items depends on how many users have several of them, which "
        "reports do not tell. Ask for single items, or declare groups of items as the categories "
        "of another oracle: a user then has the groups that her items are in."
    )


class ItemSubsetChannel(SetMechanism, SubsetChannel, tag="item-subset-channel"):
    """Report a set of fixed size, which is exp(epsilon) times as likely if it meets the user's."""

    # Places 0 .. d-1 are the categories, the m others fill up the sets of users who have fewer
    # items: slot i of a user has her i-th item, or is place d + i. Whether and where a report
    # first meets her slots, in an order that begins at a random one so that all are alike, is
    # drawn by thresholds over 2**64. Given that, all reports are equally likely.

    def __init__(self, n_categories: int, max_items: int, epsilon: float) -> None:
        self.max_items = m = max_items
        k, d = best_size(n_categories, m, epsilon), n_categories
        ratio, firsts = exp_lower_bound(epsilon), first_meetings(d + m, m, k)
        scale = TWO_64 * ratio / (ratio * sum(firsts) + 1 - sum(firsts))
        shares = [int(scale * first) for first in firsts]
        self.bounds = [*np.cumsum(np.array(shares, dtype=object)).tolist(), TWO_64]
        self.threshold = sum(shares)
        others = [Fraction((m - 1 - i) * (k - 1), d + m - 1 - i) for i in range(m)]
        p = sum((share * (1 + o) for share, o in zip(shares, others, strict=True)), Fraction(0))
        p /= m * TWO_64
        Channel.__init__(self, d, p, (k - m * p) / d)
        self._set_form(d + m, k)
        self.report_bytes += 64 * m

    @property
    def own_support(self):
        # Of a report that meets the user's set; a little less than it is, so that what `Chain`
        # makes of it holds although shares of equal reports are rounded.
        return Fraction(self.threshold, TWO_64) * (1 - Fraction(1, 1 << 40))

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
        inside = Fraction(self.threshold, TWO_64)
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
        """Draw packed sets, and whether each meets its user's items."""
        n, d, m, k = len(codes), self.n_categories, self.max_items, self.size
        slots = self.slots(codes, coins)
        first = coins.choice(self.bounds, n)
        turn = coins.integers(m, n)
        in_order = np.zeros((n, m), dtype=bool)
        n_taken = np.zeros(n, dtype=np.int64)
        for i in range(m):
            # Of the places left, k - n_taken are in the report, if there is a slot in it already.
            is_next = coins.integers(d + m - i, n) < k - n_taken if i else False
            in_order[:, i] = (first == i) | ((first < i) & is_next)
            n_taken += in_order[:, i]
        taken = np.take_along_axis(in_order, (np.arange(m) - turn[:, None]) % m, axis=1)
        # Slots and their items change places in a uniform subset of all that are no slots.
        bits = coins.packed_subsets(k - n_taken, d, self._n_bytes)
        for i in range(m):
            own, place = taken[:, i], np.full(n, d + i)
            item = np.where(slots[:, i] > 0, slots[:, i].astype(np.int64) - 1, place)
            before = set_packed_bits(bits, item, own) > 0
            set_packed_bits(bits, place, np.where(item == place, own, before))
        return bits, first < m


def first_meetings(n_places: int, max_items: int, size: int) -> list[Fraction]:
    """Return for each slot the share of all sets of this size that meet it, and none before it."""
    missed, shares = Fraction(1), []
    for i in range(max_items):
        shares.append(missed * Fraction(size, n_places - i))
        missed -= shares[-1]
    return shares


@lru_cache(maxsize=1 << 10)
def best_size(n_categories: int, max_items: int, epsilon: float) -> int:
    """Return the size of reported sets with the least variance, if sets are full and uniform."""
    # With one item it is that of `SubsetSelection`. Floats do: their errors are far below the
    # difference between two sizes.
    d, m, ratio = n_categories, max_items, float(min(exp_lower_bound(epsilon), Fraction(1 << 500)))
    sizes, miss = np.arange(1.0, d + 1), np.ones(d)
    for i in range(m):
        miss *= (d - sizes + m - i) / (d + m - i)
    p = ratio * sizes / (d + m) / (ratio * (1 - miss) + miss)
    q = (sizes - m * p) / d
    with np.errstate(divide="ignore", invalid="ignore"):
        variances = q * (1 - q) / (p - q) ** 2 + (1 - p - q) / (p - q) * m / (d + m)
    return 1 + int(np.nanargmin(variances))


class SetHash(SetMechanism, MixingHash, tag="set-hash"):
    """Report a random seed, and a value that is likelier if one of the user's items has it."""

    # The set of hash values is filled up to m by random others; then the value is uniform in it
    # with the probability threshold / 2**64, and otherwise uniform outside of it. What fills it
    # up is not drawn: given that it is chosen, it is any value that no item has.

    def __init__(self, hash_range: int, max_items: int, threshold: int) -> None:
        super().__init__(hash_range, threshold)
        self.max_items, self.report_bytes = max_items, 64 * (max_items + 1)

    @property
    def configuration(self):
        return {"max_items": self.max_items, **super().configuration}

    @property
    def client_parameters(self):
        return {**super().client_parameters, "kind": "itemhash", "max_items": self.max_items}

    def report_entropy(self, order=1):
        inside, m = Fraction(self.threshold, TWO_64), self.max_items
        return math.log2(self.n_seeds) + choice_entropy(inside, m, self.hash_range - m, order)

    def sided(self, codes, coins):
        n, m, g = len(codes), self.max_items, self.hash_range
        digests = self.slots(codes, coins)
        seeds = coins.integers(self.n_seeds, n)
        is_inside, index = coins.bernoulli(self.threshold, n), coins.integers(m, n)
        values = self.hash(seeds[:, None], digests).astype(np.int64)
        values = np.sort(np.where(digests == 0, g, values), axis=1)
        values[:, 1:][values[:, 1:] == values[:, :-1]] = g
        values.sort(axis=1)  # distinct ones in rising order, and g behind them
        n_own, other = np.count_nonzero(values < g, axis=1), np.zeros(n, dtype=np.int64)
        for i in range(m + 1):  # a draw for each number of values, so that coins tell none
            drawn = coins.integers(g - i, n)
            other = np.where(n_own == i, drawn, other)
        for column in values.T:
            other += other >= column
        own = values[np.arange(n), index]
        reported = np.where(is_inside & (index < n_own), own, other)
        return np.column_stack([seeds, reported]), is_inside


class ItemHashChannel(SetMechanism, MixingHashChannel, tag="item-hash-channel"):
    """`SetHash` over a list of categories."""

    client: Any

    def __init__(self, digests: np.ndarray, client: SetHash) -> None:
        super().__init__(digests, client)
        self.p = Fraction(client.threshold, TWO_64 * client.max_items)
        self.max_items, self.report_bytes = client.max_items, client.report_bytes
        self._of_codes = np.concatenate([np.zeros(1, dtype=np.uint64), np.maximum(digests, 1)])

    def sided(self, codes, coins):
        return self.client.sided(self._of_codes[codes], coins)


@lru_cache(maxsize=1 << 10)
def best_range(max_items: int, epsilon: float) -> int:
    """Return the hash range of least variance: an integer beside the root of a quadratic."""
    # The derivative of q (1 - q) / (p - q)**2, with q = 1 / g and p = E / (m E + g - m), is 0 at
    # g**2 - g (a + 3 m) - m a + 2 (a + m) = 0 with a = m (E - 1).
    ratio, m = exp_lower_bound(epsilon), max_items
    a = m * (float(min(ratio, Fraction(MOST_RANGE))) - 1)
    root = (a + 3 * m + math.sqrt((a + 3 * m) ** 2 + 4 * (m * a - 2 * (a + m)))) / 2
    near = {min(max(int(root) + i, m + 1), MOST_RANGE) for i in (0, 1)}
    return min(sorted(near), key=lambda g: hash_variance(g, epsilon, m))


class ItemOracle(OneColumn, BaseOracle, tag="item-oracle"):
    """How many users have each item, where a user may have several: apps, symptoms, languages.

    A value is a set of categories: `fit` and `privatize` take lists or sets of them, a boolean or
    sparse matrix with a column for each category, or a column of lists of pandas, polars or Arrow.
    The estimate of a category is the share of users who have it, so these do not sum to 1. The
    categories must be declared: "auto" is refused.

    Two mechanisms report on the whole set at once. Asking about one random item of each user, or
    filling sets up and sampling from them, has several times their variance.

    **Subsets** [1]_. A set is filled up with dummies to m = `max_items` of the d + m places, and a
    report is a set of k places. It is :math:`e^\\epsilon` times as likely if it meets the user's,

    .. math:: p = \\frac{e^\\epsilon}{\\Omega} \\frac{k}{d + m}, \\qquad q = \\frac{k - m p}{d},
              \\qquad \\Omega = e^\\epsilon + (1 - e^\\epsilon) \\binom dk / \\binom{d + m}k,

    and k has the least variance. With ``max_items=1`` this is :class:`SubsetSelection` on d + 1
    categories.

    **Hashing** [2]_. A random function maps the items into g values, and a report is the function
    and a value. The value of an item is reported with probability p, a given other one less often,

    .. math:: p = \\frac{e^\\epsilon}{m e^\\epsilon + g - m}, \\qquad q = \\frac1g.

    Reports take two integers whatever d is, and items need not be listed on clients
    (``categories="open"``). q holds as far as the hash is ideal; epsilon holds in any case.

    **Users of more than `max_items`** report on so many of their items, drawn at random. Nobody
    sees how many such users there are, and their items are counted too rarely: `plan` says by how
    much, for a public guess of the sizes of sets, and which `max_items` is best.

    Sums over several items would count users of two of them twice. So queries that add up items are
    refused, as are post-processors that make the shares sum to 1. Take :class:`BasePos`,
    :class:`BaseCut`, or :class:`NPMLE` and :class:`EmpiricalBayes` with ``simplex=False``.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user, for her whole set and the number of its items; all that is done with reports is free.

    %(parameters)s
    max_items : int, default=5
        The most items of a user that a report tells of, from 1 to 256. The variance grows about in
        proportion, whatever users have.
    method : {"auto", "subset", "hash"}, default="auto"
        The mechanism. "auto" takes subsets up to 2**14 categories, where a report is a bit for each
        at most, and hashing for more or for open domains.

    %(attributes)s
    n_clipped_ : int
        Number of users with more than `max_items`, of values that were read: do not publish it.

    See Also
    --------
    KeyValueOracle : Where each item has a number.

    References
    ----------
    .. [1] S. Wang, L. Huang, Y. Nie, P. Wang, H. Xu, W. Yang, "PrivSet: set-valued data analyses
       with local differential privacy", INFOCOM 2018, :doi:`10.1109/INFOCOM.2018.8486234`.
    .. [2] S. Wang, Y. Qian, J. Du, W. Yang, L. Huang, H. Xu, "Set-valued data publication with
       local privacy: tight error bounds and efficient mechanisms", PVLDB 13(8), 2020,
       :doi:`10.14778/3389133.3389140` (the Wheel mechanism, of which this is a discrete form).

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
        """Compare values of `max_items`, for a public law of how many items users have.

        Privacy: costs none; `sizes` must be public, such as those of another survey.

        Parameters
        ----------
        sizes : array-like of shape (n_sizes,)
            How frequent users of 0, 1, 2, .. items are; numbers of users or shares.
        n_samples : int
            Number of users.
        frequency : float, default=None
            Share of users who have the item that the error is about. None takes the mean of all.

        Returns
        -------
        dict of ndarray of shape (n_values,)
            "max_items", from 1 to the largest size; "std", the standard error of the item; "bias",
            which is below 0 if users have more items than they report on; "rmse", the root of the
            sum of their squares.

        Raises
        ------
        ValueError
            If `sizes` or `frequency` are not frequencies, or the domain is not known.

        Notes
        -----
        A user of s items reports on each with probability min(1, m / s). Users of an item tend to
        have many: if their sizes are distributed as s times the law of all users, the share of
        users who are counted is the mean of min(s, m) over the mean of s.

        Examples
        --------
        >>> from sklearn_ldp import ItemOracle
        >>> sizes = [10, 20, 30, 20, 10, 5, 3, 1, 1]
        >>> table = ItemOracle(1.0, categories=100).plan(sizes, 100_000)
        >>> int(table["max_items"][table["rmse"].argmin()])
        3
        """
        law, domain = np.asarray(sizes, dtype=np.float64), self._domain().closed()
        items = np.arange(len(law))
        mean = items @ law / max(law.sum(), 1e-300)
        f = mean / domain.size if frequency is None else frequency
        if not (np.all(np.isfinite(law)) and np.all(law >= 0) and mean > 0 and 0 <= f <= 1):
            raise ValueError(
                f"{self._name}.plan expects sizes to be how frequent users of 0, 1, 2, .. items "
                f"are, at least some of them with an item, and a frequency from 0 to 1, got "
                f"{sizes!r} and {f!r}."
            )
        tried = np.arange(1, min(len(law) - 1, _MOST_ITEMS) + 1)
        planned = clone(self).set_params(input="values")
        channels = [planned.set_params(max_items=int(m)).channel(domain) for m in tried]
        frequencies = np.full(domain.size, f)
        std = [np.sqrt(one.noise(n_samples).variance(frequencies)[0]) for one in channels]
        bias = [f * (np.minimum(items, m) @ law / law.sum() / mean - 1) for m in tried]
        columns = {"max_items": tried, "std": np.array(std), "bias": np.array(bias)}
        return {**columns, "rmse": np.hypot(std, bias)}

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
        return client if domain.is_open else ItemHashChannel(domain.word_digests(), client)
