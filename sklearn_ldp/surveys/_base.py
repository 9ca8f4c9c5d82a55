"""What collectors of several columns share: records come in, and one part of each is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from .._noise import Noise
from .._random import as_generator
from .._sampled_noise import SampledNoise
from .._typing import Frequencies, Values
from ..domains import Domain, RecordDomain
from ..domains._alignment import in_order
from ..domains._columns import column_names
from ..mechanisms import Counts, Shards, check_counts
from ..oracles._base import BaseOracle
from ..oracles._choice import best_oracle
from ..oracles.collector import BaseCollector, Collected, check_weights


class PlannedPart(NamedTuple):
    """What to expect of the estimate of a part, before any data.

    Parameters
    ----------
    domain : Domain
        The part's domain.
    oracle : oracle
        The part's oracle, unfitted.
    noise : Noise
        That of a collection of one user; the variances of n users are n times smaller.
    weight : float
        How much its errors count.
    """

    domain: Domain
    oracle: BaseOracle
    noise: Noise
    weight: float


class BaseSurvey(BaseCollector[EstimateSet]):
    """Base of collectors of several columns, whose users each report on one part of their record.

    A subclass says what the parts are: its mechanism is a :class:`Split`.
    """

    _parameter_constraints: dict = {
        **BaseCollector._parameter_constraints,
        "domains": "no_validation",  # RecordDomain checks it, and says what is wrong
    }
    _domain_parameter = "domains"
    domains: Any
    feature_names_in_: np.ndarray

    #: Checks of scikit-learn's that it cannot pass, and why.
    _expected_failed_checks = {
        **{
            name: reason
            for name, reason in BaseCollector._expected_failed_checks.items()
            if name not in ("check_fit1d", "check_fit_idempotent")
        },
        "check_transformer_preserve_dtypes": "a set of estimates is a mapping, not an array",
    }

    def _domain_of(self, declared: Any) -> RecordDomain:
        return RecordDomain.declared(declared, self._name)

    def _learned_domain(self, X: Values) -> RecordDomain:
        return RecordDomain.learned_columns(X, self._name)

    # -- the parts ----------------------------------------------------------------------------
    def _oracle_of(
        self, chosen: Any, domain: Domain, key: Any, epsilon: float | None = None
    ) -> BaseOracle:
        """The oracle that a parameter stands for, over the domain of a part, at its budget."""
        epsilon = self.epsilon if epsilon is None else epsilon
        if isinstance(chosen, BaseOracle):
            return clone(chosen).set_params(epsilon=epsilon, categories=domain)
        if isinstance(chosen, str) and chosen == "best":
            return clone(self._best_oracle(epsilon, domain.size)).set_params(categories=domain)
        raise ValueError(
            f'{self._name} needs "best" or an oracle for each column, got {chosen!r} for {key!r}.'
        )

    @staticmethod
    def _best_oracle(epsilon: float, size: int) -> BaseOracle:
        """The best oracle, which many parts of one size share; it must not be changed."""
        return _best_oracle(epsilon, size)

    def _total_variances(self, channels: Iterable[Any]) -> np.ndarray:
        """The total variance of each part's channel under uniform frequencies, times its users."""
        totals = np.array([channel.total_variance() for channel in channels])
        if not np.all(np.isfinite(totals)):
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be large enough for a report to "
                f"carry information at a resolution of 2**-64. Got {self.epsilon!r}."
            )
        return totals

    def _estimate_of_part(
        self, state: Collected, j: int, domain: Domain, oracle: BaseOracle | None
    ) -> FrequencyEstimate:
        """The estimate of a part, which has no rows if nobody was asked about it."""
        support, asked = state.mechanism.of_decoded(state.decoded[0], j)
        rows = np.flatnonzero(asked)
        if not rows.size:
            return FrequencyEstimate(np.empty((0, domain.size)), domain.categories)
        values, noise = state.mechanism.parts[j].estimate_decoded(support[rows], asked[rows])
        n_users, names = state.of_rows(rows)
        return FrequencyEstimate(
            values,
            domain.categories,
            SampledNoise(noise, n_users),
            oracle,
            self._shards_of(state, j),
            row_names=names,
        )

    def _shards_of(self, state: Collected, j: int) -> Shards | None:
        """The shards of the reports about a part."""
        if state.counts.n_shards == 1:
            return None
        tallies, sizes = state.mechanism.of_part(state.counts.tallies, j)
        counts = Counts(np.ascontiguousarray(tallies), np.ascontiguousarray(sizes))
        return Shards(state.mechanism.parts[j], counts, state.counts.n_samples)

    def _check_features(self, X: Any, n_features: int, *, reset: bool) -> None:
        # The domain compares the names: columns of a data frame may be in any order.
        if not reset:
            return
        self.n_features_in_ = n_features
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        names = column_names(X)
        if names is not None and all(isinstance(name, str) for name in names):
            declared = getattr(self.domains, "columns", self.domains)
            ordered = names if self._is_auto() else list(declared.keys())
            self.feature_names_in_ = np.array(ordered, dtype=object)

    # -- without users ------------------------------------------------------------------------
    def _planned_parts(self) -> dict[Any, PlannedPart]:
        """What to expect of the estimate of each part, for planning."""
        raise ValueError(f"{self._name} cannot be planned in advance: simulate a collection.")

    def _planned_columns(
        self, oracles: Mapping[Any, BaseOracle], weights: np.ndarray
    ) -> dict[Any, PlannedPart]:
        """What to expect of each column, if the parts of the survey are its columns."""
        protocol = self.protocol()
        domain, mechanism = cast(Any, protocol.domain), cast(Any, protocol.mechanism)
        return {
            key: PlannedPart(
                of_column, oracles[key], mechanism.noise_of_part(j, 1.0), float(weights[j])
            )
            for j, (key, of_column) in enumerate(domain.columns.items())
        }

    # -- what is known after fit --------------------------------------------------------------
    @property
    def sampling_probabilities_(self) -> np.ndarray:
        """Probability that a user is asked about each part, of shape (n_parts,)."""
        return self._fitted("sampling_probabilities_").mechanism.probabilities

    @property
    def frequencies_(self) -> dict[Any, np.ndarray]:
        """Unbiased estimates of the frequencies of each part that has users."""
        estimates = self._estimate_of(self._fitted("frequencies_"))
        return {key: part.values[0] for key, part in estimates.items() if len(part)}

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Name the estimates after the parts and their categories.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of shape (total number of categories,)
            Such as "age_3", part by part.
        """
        return self._estimate_of(self._fitted("feature names")).feature_names


_best_oracle = lru_cache(maxsize=1024)(best_oracle)


class BaseColumnSurvey(BaseSurvey):
    """Base of collectors that estimate the distribution of each column.

    The parts of the mechanism are the columns, in their order. A subclass has a parameter `oracle`:
    "best", an oracle, or a mapping from names of columns to those.
    """

    oracle: Any

    # -- hooks of the collection --------------------------------------------------------------
    def _chosen(self, domain: RecordDomain) -> dict[Any, Any]:
        """What the parameter says of the oracle of each column."""
        return self._by_column(self.oracle, domain, "oracle", "best")

    def _by_column(self, given: Any, domain: RecordDomain, what: str, default: Any) -> dict:
        """A parameter that is the same for all columns, or a mapping with a default."""
        if not isinstance(given, Mapping):
            return dict.fromkeys(domain.columns, given)
        unknown = [key for key in given if key not in domain.columns]
        if unknown:
            raise ValueError(
                f"{self._name} got {what} for {unknown[0]!r}, which is not one of its columns: "
                f"{', '.join(map(repr, domain.columns))}."
            )
        return {key: given.get(key, default) for key in domain.columns}

    def _budgets(self, domain: RecordDomain) -> list[float]:
        """The budget of each column's answer: by default, all of it."""
        return [self.epsilon] * len(domain.columns)

    def _oracles(self, domain: RecordDomain) -> dict[Any, BaseOracle]:
        """The oracle of each column, at its budget."""
        chosen = self._chosen(domain)
        return {
            key: self._oracle_of(chosen[key], of_column, key, epsilon)
            for (key, of_column), epsilon in zip(
                domain.columns.items(), self._budgets(domain), strict=True
            )
        }

    def _estimate_of(self, state: Collected) -> EstimateSet:
        domain: Any = state.protocol.domain
        oracles, parts = self._oracles_of(state), {}
        for j, (key, of_column) in enumerate(domain.columns.items()):
            oracle = self._oracle_behind(oracles[key])
            parts[key] = self._estimate_of_part(state, j, of_column, oracle)
        return EstimateSet(parts)

    def _oracle_behind(self, oracle: BaseOracle) -> BaseOracle | None:
        """The oracle of estimates like those of a column, which searches simulate."""
        return oracle

    def _oracles_of(self, state: Collected) -> dict[Any, BaseOracle]:
        """The oracles that the collection was started with, unfitted."""
        domain: Any = state.protocol.domain
        return type(self)(**state.parameters)._oracles(domain)

    # -- without users ------------------------------------------------------------------------
    def simulate(self, counts: Mapping[Any, Frequencies], n_repeats: int = 1) -> EstimateSet:
        """Draw whole collections from known counts of each column, without users, for studies.

        Privacy: none is protected; `counts` must be public or synthetic.

        The estimates of each column have their exact law. Different columns are drawn as if their
        values were independent.

        Parameters
        ----------
        counts : mapping of str to array-like of shape (d,)
            True number of users of each category, for each column; with the same sum.
        n_repeats : int, default=1
            Number of independent collections.

        Returns
        -------
        EstimateSet
            One row per collection in each part.

        Raises
        ------
        ValueError
            If the counts are not non-negative integers of the same sum for each column, or a
            column has no users in one of the collections.
        """
        self._check_parameters()
        if not isinstance(n_repeats, Integral) or n_repeats < 1:
            raise ValueError(f"{self._name}.simulate expects n_repeats >= 1, got {n_repeats!r}.")
        domain: Any = self._domain()
        users = self._checked_counts(domain, counts)
        split: Any = self._protocol_over(domain).mechanism
        oracles, rng = self._oracles(domain), as_generator(self.random_state)
        n_users = int(next(iter(users.values())).sum())
        asked = split.draw_sizes(n_users, int(n_repeats), rng)
        if not asked.all():
            empty = list(users)[int(np.argmin(asked.min(axis=0)))]
            raise ValueError(
                f"{self._name}.simulate has no users for the column {empty!r} in one of the "
                f"{n_repeats} collections: {n_users} users are too few."
            )
        parts = {}
        for (key, of_column), channel, sizes in zip(
            users.items(), split.parts, asked.T, strict=True
        ):
            drawn = (rng.multivariate_hypergeometric(of_column, size) for size in sizes)
            support = np.concatenate([channel.simulate(one, 1, rng) for one in drawn])
            noise = channel.noise(sizes if len(sizes) > 1 else int(sizes[0]))
            parts[key] = FrequencyEstimate(
                noise.debias(support),
                domain.columns[key].categories,
                SampledNoise(noise, n_users),
                self._oracle_behind(oracles[key]),
            )
        return EstimateSet(parts)

    def _checked_counts(self, domain: RecordDomain, counts: Any) -> dict[Any, np.ndarray]:
        if not isinstance(counts, Mapping) or set(counts) != set(domain.columns):
            raise ValueError(
                f"{self._name}.simulate expects counts for each of its columns "
                f"{', '.join(map(repr, domain.columns))}, by name."
            )
        checked = {}
        for key, of_column in domain.columns.items():
            what = f"{self._name}.simulate: counts of {key!r}"
            checked[key] = check_counts(in_order(counts[key], of_column.categories, what), what)
            if len(checked[key]) != of_column.size:
                raise ValueError(
                    f"{what} must have one number for each of its {of_column.size} categories, got "
                    f"{len(checked[key])}."
                )
        sums = {key: int(of_column.sum()) for key, of_column in checked.items()}
        if len(set(sums.values())) > 1:
            raise ValueError(
                f"{self._name}.simulate expects as many users in each column, got {sums}."
            )
        return checked

    def true_frequencies(
        self, X: Values, sample_weight: ArrayLike | None = None
    ) -> dict[Any, np.ndarray]:
        """Return the raw frequencies of users' values, to judge estimates in simulations.

        Privacy: not private at all.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            One row per user.
        sample_weight : array-like of shape (n_samples,), default=None
            The number of users of each row, as for `fit`.

        Returns
        -------
        dict of str to ndarray of shape (d,)
            The frequencies in each column, in the order of its categories.

        Raises
        ------
        ValueError
            If a value is not a category, the domains are not known, or the weights are malformed.
        """
        domain: Any = self._domain()
        codes = domain.encode(X, self._name)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, len(codes), self._name)
        columns = zip(domain.columns.items(), codes.T, strict=True)
        counts = {
            key: np.bincount(of_column, sample_weight, minlength=one.size)
            for (key, one), of_column in columns
        }
        return {key: one / one.sum() for key, one in counts.items()}

    # -- what is known after fit --------------------------------------------------------------
    @property
    def oracles_(self) -> dict[Any, BaseOracle]:
        """The unfitted oracle of each column."""
        return self._oracles_of(self._fitted("oracles_"))
