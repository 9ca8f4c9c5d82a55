"""What collectors of several columns share: records come in, and one part of each is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import clone

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from .._noise import Noise
from .._sampled_noise import SampledNoise
from .._typing import Values
from ..domains import Domain, RecordDomain
from ..domains.values import column_names
from ..protocols import Counts, Shards
from ._base import BaseOracle
from ._choice import best_oracle
from ._collector import BaseCollector
from ._state import Collected


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
