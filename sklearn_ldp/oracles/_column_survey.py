"""What collectors with one part for each column share: oracles by name, simulation, the truth."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from .._random import as_generator
from .._sampled_noise import SampledNoise
from .._typing import Frequencies, Values
from ..domains import RecordDomain
from ..domains.values import in_order
from ..protocols import check_counts
from ._base import BaseOracle
from ._state import Collected, check_weights
from ._survey import BaseSurvey


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
