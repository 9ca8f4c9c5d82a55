"""Several items per user, each with a number: frequencies of items, and means of the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._core.common.random import RandomState
from .._core.domains import Categories, Domain, ItemDomain, KeyValueDomain
from .._core.estimates import FrequencyEstimate
from .._core.noise import CategoryLaw, Noise
from .._core.statistics import check_level, fieller
from ._items import ItemOracle, ItemSubsetChannel

_RARE = 2.0  # standard errors that a frequency is above 0 where there is a mean: chosen by hand


class SignedSubsetChannel(ItemSubsetChannel, tag="signed-subset-channel"):
    """Mechanism of :class:`KeyValueOracle`: `ItemSubsetChannel` with two virtual items for each
    key.

    A key is a category. The two virtual items are called low and high. The user's number of the key
    is replaced by low (the lower bound) or high (the upper bound), at random.
    """

    # A user has one of the two at most, so their covariance is known: it is that of `SetMechanism`
    # without users of both, alpha + beta f for a key of frequency f.

    def __init__(self, n_keys: int, max_items: int, epsilon: float) -> None:
        super().__init__(2 * n_keys, max_items, epsilon)
        self.n_keys = n_keys
        self.n_levels = KeyValueDomain.N_LEVELS
        p = float(self.p)
        q = float(self.q)
        d = 2 * n_keys
        m = max_items
        k = self.size
        either = p * (k - 1) / (d + m - 1)
        neither = (k * (k - 1) - either * m * (m - 1 + 2 * d)) / (d * (d - 1))
        self.alpha = (neither - q * q) / (p - q) ** 2
        self.beta = (either - neither - q * (p - q)) / (p - q) ** 2

    client_parameters = None  # JavaScript clients of `ItemSubsetChannel` do not support numbers

    def largest_weight(self, n_targets):
        return super().largest_weight(2 * n_targets)

    def slots(self, codes, coins):
        chosen = super().slots(codes, coins)
        keys, levels = np.divmod(chosen - 1, self.n_levels + 1)
        is_high = coins.integers(self.n_levels, chosen.size).reshape(chosen.shape) < levels
        return np.where(chosen > 0, 1 + 2 * keys + is_high, 0)

    def noise(self, n_samples):
        null = 2 * (self.null_variance + self.alpha)
        slope = self.slope + 2 * self.beta
        law = CategoryLaw(null, slope, half_count=self.half_count, shares_overlap=True)
        return Noise.of(law, n_samples)

    def signed(self, tallies: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the estimated frequencies of the low and the high item of each key, of shape (m,
        n_keys, 2).

        `tallies` has a row of counts for each of the m groups of users, and `sizes` the numbers of
        users.
        """
        return self._unbiased(tallies / sizes[:, None], 1).reshape(len(tallies), -1, 2)

    def estimate_decoded(self, tallies, sizes):
        noise = self.noise(sizes if len(sizes) > 1 else int(sizes[0]))
        return self.signed(tallies, sizes).sum(axis=2), noise


class KeyValueOracle(ItemOracle, tag="key-value-oracle"):
    """Estimate the frequency of each item, and the mean of the users' numbers for each item.

    Each user has several items, and a number for each of these items, such as a rating. The value
    of a user is a mapping from items to numbers between public bounds. `fit` and `privatize` accept
    a list of mappings, or a data frame with a row for each user, a column for each item, and NaN
    for items that a user does not have. The categories are the possible items. They must be
    declared; ``"auto"`` is refused.

    For each category there are two virtual items, low and high. The client replaces each item of
    the user by its low or its high item at random. If low stands for the lower bound, and high for
    the upper bound, the expected value is the user's number. The subset mechanism of
    :class:`ItemOracle` then reports the virtual items. The estimated frequency of an item is the
    sum of the frequencies of its two virtual items. The estimated mean is the proportion of high
    items among them, scaled to the bounds. The idea comes from PCKV [1]_, which samples one item of
    each user.

    The method `detected` of the estimate raises an error, because a sum of two frequencies is not a
    count of reports. Use simultaneous intervals to find items whose frequency is above 0.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user. This protects all items and numbers of the user. No operation on reports spends epsilon.

    %(parameters)s
    bounds : (float, float), default=(0, 1)
        The smallest and the largest possible number, which are public. A number outside of the
        bounds raises an error.
    max_items : int, default=5
        Maximum number of a user's items on which the report depends, as in :class:`ItemOracle`. If
        some users have more items, estimated frequencies are too small.

    %(attributes)s
    means_ : ndarray of shape (d,)
        For each item, the estimated mean of the numbers of the users who have the item. It is NaN
        if the estimated frequency of the item is less than two standard errors above 0, because the
        reports do not show that users have the item. The flag "too rare for a mean" of `estimate_`
        marks these items.
    means_std_ : ndarray of shape (d,)
        Standard errors of the means, by the delta method.
    n_clipped_ : int
        Number of users with more than `max_items` items. It is an exact count of raw values, so do
        not publish it.

    See Also
    --------
    ItemOracle : For items without numbers; its variance is less than half.
    LocalMean : For one number per user.

    References
    ----------
    .. [1] X. Gu, M. Li, Y. Cheng, L. Xiong, Y. Cao, "PCKV: locally differentially private
       correlated key-value data collection with optimized utility", USENIX Security 2020,
       https://www.usenix.org/conference/usenixsecurity20/presentation/gu

    Examples
    --------
    >>> from sklearn_ldp import KeyValueOracle
    >>> users = [{"film": 5, "book": 1}, {"film": 4}, {"book": 2}, {}] * 10_000
    >>> oracle = KeyValueOracle(
    ...     2.0, categories=["book", "film"], bounds=(1, 5), max_items=2, random_state=0
    ... )
    >>> oracle.fit(users).frequencies_.round(1), oracle.means_.round(1)
    (array([0.5, 0.5]), array([1.5, 4.5]))
    """

    _parameter_constraints: dict = {
        **{k: v for k, v in ItemOracle._parameter_constraints.items() if k != "method"},
        "bounds": "no_validation",  # KeyValueDomain checks them, with a specific error
    }
    method = "subset"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        bounds: Any = (0, 1),
        max_items: int = 5,
    ) -> None:
        self._store(epsilon, categories, input, n_shards, random_state, n_jobs)
        self.bounds = bounds
        self.max_items = max_items

    @property
    def means_(self) -> np.ndarray:
        """The mean number of each item. It is NaN for items that are too rare."""
        return self._means()[0]

    @property
    def means_std_(self) -> np.ndarray:
        """The standard errors of the means. They are NaN for items that are too rare."""
        return self._means()[1]

    def means_interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return confidence intervals of the means, within the bounds, by Fieller's method.

        Parameters
        ----------
        level : float, default=0.95
            Probability that the interval of an item covers its mean. Each single interval has this
            probability; the intervals are not simultaneous.

        Returns
        -------
        low, high : ndarray of shape (d,)
            The lower and upper ends of the intervals. If the reports do not exclude a frequency of
            0 of an item, its interval is the whole range between the bounds.

        Raises
        ------
        ValueError
            If the level is not in [0.5, 1).
        """
        check_level(level)
        f, high, (a, b, c), (least, most) = self._quadratic()
        # The counts of few reports are skewed. As in `MeansByAnswer.confidence_interval`, the
        # variances count u**2 / 2 more reports of the least and the largest number.
        u = float(ndtri(0.5 + level / 2))
        state = self._fitted("means_")
        report = 2 * state.mechanism.half_count / float(np.sum(state.decoded[1]))
        more = u**2 / 2 * report**2
        moments = c + 2 * more, b + more, a + more
        # Half a report, because counts are whole.
        low, _ = fieller(f, high - report / 2, moments, u, (0.0, 1.0))
        _, top = fieller(f, high + report / 2, moments, u, (0.0, 1.0))
        return tuple(least + (most - least) * np.clip(end, 0, 1) for end in (low, top))

    def _quadratic(self) -> Any:
        """Return the frequencies of keys and of their high items, moments for one mean, and the
        bounds.

        The moments are, for each key, the variance of the frequency of the high item, its
        covariance with the frequency of the key, and the variance of the frequency of the key.
        """
        state: Any = self._fitted("means_")
        channel = state.mechanism
        tallies, sizes = state.decoded
        low, high = channel.signed(tallies, sizes)[0].T
        f = low + high
        n = float(np.sum(sizes))
        plausible = np.clip([low, high], 0, 1)
        v_low, v_high = channel.null_variance + channel.slope * plausible
        covariance = channel.alpha + channel.beta * plausible.sum(axis=0)
        # Drawing low and high adds at most the variance of numbers that are all at the bounds.
        shares = np.clip(high / np.where(f > 0, f, 1), 0, 1)
        drawn = plausible.sum(axis=0) * shares * (1 - shares)
        terms = (v_high + drawn, v_high + covariance, v_low + v_high + 2 * covariance)
        return f, high, [term / n for term in terms], state.protocol.domain.bounds

    def _means(self) -> tuple[np.ndarray, np.ndarray]:
        f, high, (a, b, c), (least, most) = self._quadratic()
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(f > _RARE * np.sqrt(c), high / f, np.nan)
            std = np.sqrt(a - 2 * b * shares + c * shares**2) / f
        return least + (most - least) * np.clip(shares, 0, 1), (most - least) * std

    def _estimate_of(self, state: Any) -> FrequencyEstimate:
        estimate = super()._estimate_of(state)
        noise: Any = estimate.noise
        rare = estimate.values < _RARE * np.sqrt(noise.variance(np.clip(estimate.values, 0, 1)))
        return replace(estimate, flags={"too rare for a mean": rare.all(axis=0)})

    def _domain_of(self, declared: Any) -> ItemDomain:
        items = Domain.of(declared, self._name)
        return KeyValueDomain(items, int(self.max_items), self.bounds, self._name)

    def _make_mechanism(self, domain: Any) -> SignedSubsetChannel:
        return SignedSubsetChannel(domain.size, int(self.max_items), self.epsilon)
