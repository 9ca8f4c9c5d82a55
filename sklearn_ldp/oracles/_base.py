"""The base of all frequency oracles: a scikit-learn estimator around a mechanism."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._core.common.random import RandomState, as_generator, check_repeats
from .._core.common.typing import Frequencies, Values
from .._core.domains import Categories, Domain
from .._core.domains.values import in_order, own_categories
from .._core.estimates import FrequencyEstimate
from .._core.fitting import (
    BaseCollector,
    Collected,
    PlannedEstimate,
    check_weights,
    inherit_parameters,
)
from .._core.mechanisms import Counts, Shards, check_counts
from .._core.noise import Noise


class OneColumn:
    """Mixin of collectors in which each user has one value, from a single column.

    It tells scikit-learn that X is one-dimensional. It also refuses `"auto"`: the domain must be
    declared.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def _learned_domain(self: Any, X: Values) -> Any:
        return self._domain_of("auto")  # raises the error of "auto"


@inherit_parameters
class BaseOracle(BaseCollector[FrequencyEstimate]):
    """Base of all frequency oracles.

    A new oracle needs two classes. The first is a subclass of
    :class:`~sklearn_ldp.oracles.channels.Channel`, the mechanism. It defines the probabilities of
    the reports and the methods `privatize`, `count_support` and `simulate`. The second is a
    subclass of this class. It defines the method `_make_mechanism`, which returns the mechanism for
    a domain. No other method has to be overridden.

    %(parameters)s
    """

    _parameter_constraints: dict = {
        **BaseCollector._parameter_constraints,
        "categories": "no_validation",  # Domain checks it with a specific error
    }
    _domain_parameter = "categories"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories: Any = categories
        self.input = input
        self.n_shards = n_shards
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_parameters(cls)

    def _store(self, epsilon: float, categories: Any, *collection: Any) -> None:
        """Store the parameters that all oracles share.

        `collection` contains `input`, `n_shards`, `random_state` and `n_jobs`, in this order.
        """
        names = ("input", "n_shards", "random_state", "n_jobs")
        shared = dict(zip(names, collection, strict=True))
        BaseOracle.__init__(self, epsilon, categories=categories, **shared)

    def channel(self, categories: Categories | None = None) -> Any:
        """Return the mechanism of this oracle: the distribution of its reports, and their decoding.

        Planning, audits of epsilon and searches use the mechanism.

        Parameters
        ----------
        categories : int, array-like of shape (d,), Domain or None, default=None
            The domain to use. If None, use the declared domain. With ``categories="auto"``, use the
            domain that `fit` has learned.

        Returns
        -------
        Channel
            The mechanism. It contains the exact probabilities of the reports, and computes the
            noise of an estimate from n reports.

        Raises
        ------
        ValueError
            If a parameter is not valid, or if `categories` is None and no domain has been declared
            or learned.

        Examples
        --------
        >>> from sklearn_ldp import GRR
        >>> GRR(epsilon=2.0).channel(10).noise(n_samples=1000).std.round(3)
        np.float64(0.019)
        """
        domain = self._domain() if categories is None else Domain.of(categories, self._name)
        return self._protocol_over(domain).mechanism

    def simulate(self, counts: Frequencies, n_repeats: int = 1) -> FrequencyEstimate:
        """Simulate collections of reports from users with known counts, and return the estimates.

        Privacy: this method protects no user; `counts` must be public or synthetic.

        Parameters
        ----------
        counts : array-like of shape (d,)
            True number of users of each category.
        n_repeats : int, default=1
            Number of independent collections to simulate.

        Returns
        -------
        FrequencyEstimate of shape (n_repeats, d)
            The raw estimates, one row per collection.

        Raises
        ------
        ValueError
            If `counts` does not contain one count per category, or if a count is negative or is not
            an integer.
        """
        self._check_parameters()
        per_category: Any = counts
        labels = own_categories(per_category)
        argument = f"{self._name}.simulate: counts"
        is_any = self._state is None and self._is_auto()
        size = np.shape(per_category)[:1] if labels is None else [labels]
        domain = Domain.of(size[0] if size else 0, self._name) if is_any else self._domain()
        users = check_counts(in_order(per_category, domain.categories, argument), argument)
        if len(users) != domain.size:
            expected = f"counts= with one count for each of its {domain.size} categories"
            raise ValueError(
                f"{self._name}.simulate expects {expected}, got {len(users)} counts. Pass the "
                "missing counts as 0, and remove counts of other categories."
            )
        n = check_repeats(n_repeats, f"{self._name}.simulate")
        channel: Any = self._protocol_over(domain).mechanism
        rng = as_generator(self.random_state)
        n_users = users.sum(keepdims=True)
        is_small = Counts.most(channel, n) == n
        tallies = channel.simulate_tallies(users, n, rng) if is_small else None
        if tallies is None:
            support = channel.simulate(users, n, rng)
            shards = None
        else:
            support = channel.decode(tallies)
            shards = Shards(channel, Counts(tallies[:, None], np.tile(n_users, (n, 1))))
        values, noise = channel.estimate_decoded(support, n_users)
        oracle = self._unfitted(self.get_params(deep=False), domain)
        return FrequencyEstimate(values, domain, noise, oracle, shards)

    def true_frequencies(self, X: Values, sample_weight: ArrayLike | None = None) -> np.ndarray:
        """Return the true frequencies of raw values, to evaluate estimates in simulations.

        Privacy: the result is not private.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user.
        sample_weight : array-like of shape (n_samples,), default=None
            The number of users that each row of `X` stands for, as in `fit`. If None, each row is
            one user.

        Returns
        -------
        ndarray of shape (d,)
            The frequencies of the values, in the order of the categories.

        Raises
        ------
        ValueError
            If a value is not a category, if the domain is neither declared nor learned, or if
            `sample_weight` does not contain one valid weight per row.
        """
        domain = self._domain()
        if domain.is_open:
            raise ValueError(
                f"{self._name}.true_frequencies needs a list of categories, but the domain is open "
                '(categories="open"). Declare the list in categories=.'
            )
        numbers = self._numbers_of(domain, domain.encode(X, self._name))
        weights = np.ones(len(numbers))
        if sample_weight is not None:
            weights = check_weights(sample_weight, len(numbers), self._name)
        each = np.repeat(weights, numbers.shape[1])
        return np.bincount(numbers.ravel(), each, domain.size + 1)[1:] / weights.sum()

    def _numbers_of(self, domain: Any, codes: np.ndarray) -> np.ndarray:
        """Return, for each user, the codes of the user's categories plus 1, padded with zeros.

        A code is the position of a category in the domain. The result has shape (n_users, m), where
        m is the maximum number of categories per user.
        """
        return codes[:, None] + 1

    # -- results of fit ------------------------------------------------------------------------
    @property
    def categories_(self) -> np.ndarray:
        """The categories of the domain, of shape (d,)."""
        return self._fitted("categories_").protocol.domain.categories

    @property
    def support_counts_(self) -> np.ndarray:
        """Number of reports that support each category.

        A report supports a category if it counts in favor of the category. If the mechanism is a
        general matrix of probabilities (:class:`MatrixOracle`), reports do not support categories.
        The counts are then the numbers of reports with each output.
        """
        return self._fitted("support_counts_").decoded[0][0].copy()

    @property
    def noise_(self) -> Noise:
        """The distribution of the noise of the estimates."""
        state = self._fitted("noise_")
        return state.mechanism.noise(state.counts.n_samples)

    @property
    def frequencies_(self) -> np.ndarray:
        """Unbiased estimates of the frequencies of the categories, of shape (d,)."""
        state = self._fitted("frequencies_")
        return state.mechanism.estimate_decoded(*state.decoded)[0][0]

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return the names of the estimate's columns: the categories, as strings.

        Parameters
        ----------
        input_features : None
            Ignored. It exists because scikit-learn's transformers have this parameter.

        Returns
        -------
        ndarray of shape (d,)
            The categories as strings.
        """
        return self._fitted("feature names").protocol.domain.names

    # -- parameters and collected reports -----------------------------------------------------
    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.categories, str) and self.categories not in ("auto", "open"):
            raise ValueError(
                f"The 'categories' parameter of {self._name} must be \"auto\", an int or a list of "
                f"categories. Got {self.categories!r} instead."
            )

    def _domain_of(self, declared: Any) -> Domain:
        return Domain.of(declared, self._name)

    def _learned_domain(self, X: Values) -> Domain:
        return Domain.learned(X, self._name)

    def _planned_by(self, protocol: Any) -> dict[Any, PlannedEstimate]:
        noise = protocol.mechanism.noise(1)
        return {None: PlannedEstimate(protocol.domain, self, noise, 1.0)}

    def _estimate_of(self, state: Collected) -> FrequencyEstimate:
        """Return the raw estimate that is computed from the collected reports."""
        domain = state.protocol.domain
        values, noise = state.mechanism.estimate_decoded(*state.decoded)
        shards = Shards(state.mechanism, state.counts) if state.counts.n_shards > 1 else None
        oracle = self._unfitted(state.parameters, domain)
        names = None if state.groups is None else state.groups.names
        options: dict[str, Any] = {"row_names": names, "caveats": state.caveats}
        return FrequencyEstimate(values, domain, noise, oracle, shards, **options)

    def _unfitted(self, parameters: dict[str, Any], domain: Domain) -> BaseOracle:
        """Return an unfitted copy of this oracle, with which an estimate simulates its own
        collection."""
        defaults = {"input": "values", "random_state": None, "n_jobs": None}
        # Only the domain itself contains edges of bins, and the axes of a grid.
        is_domain = isinstance(parameters["categories"], Domain)
        categories = domain if is_domain else domain.categories
        return type(self)(**{**parameters, "categories": categories, **defaults})
