"""The base of all surveys: a scikit-learn estimator around questions about several columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Integral
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from .._core.domains import Domain, RecordDomain
from .._core.domains.values import column_names, in_order
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.lifecycle import (
    OF_ONE_PARTY,
    BaseCollector,
    Collected,
    PlannedEstimate,
    check_weights,
    inherit_survey_parameters,
)
from .._core.mechanisms import Counts, Protocol, Shards, check_counts
from .._core.mechanisms.mechanism import Mechanism
from .._core.mechanisms.several import Several, View
from .._core.support.random import RandomState, as_generator
from .._core.support.typing import Frequencies, Values
from ..oracles import BaseOracle, best_oracle

_LEAST_VARIANCE = 1e-18  # of reports that are all but certainly true, so that shares exist
_Set = TypeVar("_Set", bound=EstimateSet)


#: The best oracle of a question by epsilon and size, which questions share: not to be changed.
best_of_size = lru_cache(maxsize=1 << 14)(best_oracle)


@dataclass(frozen=True)
class _Request:
    """A mechanism that a survey needs; equal parameters and sizes need the same one."""

    survey: Any = field(compare=False)
    domain: Any = field(compare=False)
    key: Any


@lru_cache(maxsize=16)  # clients ask for theirs for each record
def _mechanism_of(request: _Request) -> Mechanism:
    return BaseCollector._informative_mechanism(request.survey, request.domain)


def _frozen(value: Any) -> Any:
    """A parameter as something that has a hash, and is equal if the parameter is."""
    if isinstance(value, Mapping):
        return tuple((_frozen(key), _frozen(one)) for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, BaseEstimator):  # of its class itself: a notebook may have two of a name
        return type(value), _frozen(value.get_params(deep=False))
    return type(value), value


@inherit_survey_parameters
class BaseColumnSurvey(BaseCollector[_Set], Generic[_Set]):
    """Base of all collectors of several columns, whose users each answer a few questions.

    A new survey is one class, whose `_make_mechanism` says what users are asked, and with which
    probabilities: it returns a :class:`~sklearn_ldp.surveys.Several` over a
    :class:`~sklearn_ldp.surveys.RecordDomain`. Nothing else needs overriding: there is an estimate
    for each question, by the name of its column (or the tuple of the names of its columns).

    Parameters
    ----------
    %(domains)s
    %(collection)s

    Attributes
    ----------
    estimate_ : EstimateSet
        The raw estimates by name. One that no user was asked for has no rows, and says so.
    frequencies_ : dict of str to ndarray of shape (d,)
        Unbiased estimates of each that has users; some may be negative.
    sampling_probabilities_ : ndarray of shape (n_questions,)
        Probability that a user is asked each question.
    n_samples_seen_ : int
        Number of users, over all questions.
    %(features)s
    """

    _parameter_constraints: dict = {
        **BaseCollector._parameter_constraints,
        "domains": "no_validation",  # RecordDomain checks it, and says what is wrong
    }
    _domain_parameter = "domains"

    #: Checks of scikit-learn's that it cannot pass, and why.
    _reads_categories = True
    _expected_failed_checks = BaseCollector._expected_failed_checks | {
        "check_transformer_preserve_dtypes": "a set of estimates is a mapping, not an array"
    }
    del _expected_failed_checks["check_fit1d"], _expected_failed_checks["check_fit_idempotent"]

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domains: Any = "auto",
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.domains = domains
        self.input = input
        self.n_shards = n_shards
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _store(self, epsilon: float, domains: Any, *collection: Any) -> None:
        """Store what all surveys have, in the order of the parameters."""
        names = ("input", "n_shards", "random_state", "n_jobs")
        shared = dict(zip(names, collection, strict=True))
        BaseColumnSurvey.__init__(self, epsilon, domains=domains, **shared)

    def _domain_of(self, declared: Any) -> RecordDomain:
        return RecordDomain.declared(declared, self._name)

    def _learned_domain(self, X: Values) -> RecordDomain:
        return self._domain_with(X)[0]

    def _domain_with(self, X: Values) -> tuple[RecordDomain, str]:
        return RecordDomain.of_values(self.domains, X, self._name)

    def _informative_mechanism(self, domain: Any) -> Mechanism:
        """The mechanism, whose plan may take seconds, from memory if it was asked for before."""
        parameters = self.get_params(deep=False)
        for name in ("domains", *OF_ONE_PARTY, "n_shards"):
            parameters.pop(name, None)
        sizes = [(name, one.size) for name, one in domain.columns.items()]
        request = _Request(clone(self), domain, (type(self), _frozen(parameters), _frozen(sizes)))
        try:
            hash(request)
        except TypeError:  # a parameter of a kind that only its class knows
            return super()._informative_mechanism(domain)
        return _mechanism_of(request)

    # -- what a survey may say of itself, beside its mechanism --------------------------------
    def _oracles_behind(
        self, domain: RecordDomain, views: Mapping[Any, View]
    ) -> Mapping[Any, BaseOracle]:
        """The oracles of the questions by name, which searches simulate; by default none."""
        return {}

    def _asked(self, domain: RecordDomain, survey: Several) -> list[tuple[Any, Domain, Any]]:
        """The name of each question, its domain, and the oracle behind it or None."""
        views = self._views(domain, survey)
        oracles = self._oracles_behind(domain, views)
        return [(key, _domain_of_view(domain, v), oracles.get(key)) for key, v in views.items()]

    # -- the questions ------------------------------------------------------------------------
    def questions(self) -> dict[Any, Protocol]:
        """Return the questions that users may be asked, in the order of their numbers in reports.

        Returns
        -------
        dict of Protocol
            The protocol of the reports on each question alone, by the name of its column, or by
            the tuple of the names of its columns.

        Raises
        ------
        ValueError
            If a parameter is not valid, or the domains are not known.
        """
        protocol: Any = self.protocol()
        views = self._views(protocol.domain, protocol.mechanism)
        return {
            name: Protocol(one, _domain_of_view(protocol.domain, view), self.epsilon, self._name)
            for (name, view), one in zip(views.items(), protocol.mechanism.mechanisms, strict=True)
        }

    def _views(self, domain: RecordDomain, mechanism: Several) -> dict[Any, View]:
        """The view of each question, by the name of its estimate."""
        if mechanism.views is None:
            numbered = enumerate(domain.columns.items())
            return {key: View.joint((j,), (one.size,)) for j, (key, one) in numbered}
        return {table_name(domain, view.columns): view for view in mechanism.views}

    def _estimated(self, domain: RecordDomain, survey: Several) -> dict[Any, View]:
        """The view of each estimate, by its name: by default, those of the questions."""
        return self._views(domain, survey)

    def _oracle_of(
        self, chosen: Any, domain: Domain, key: Any, epsilon: float | None = None
    ) -> BaseOracle:
        """The oracle that a parameter stands for, over the domain of a question, at its budget."""
        epsilon = self.epsilon if epsilon is None else epsilon
        if isinstance(chosen, BaseOracle):
            return clone(chosen).set_params(epsilon=epsilon, categories=domain, input="values")
        if isinstance(chosen, str) and chosen == "best":
            return clone(best_of_size(epsilon, domain.size)).set_params(categories=domain)
        raise ValueError(
            f'{self._name} needs "best" or an oracle for each column, got {chosen!r} for {key!r}.'
        )

    def _total_variances(self, channels: Iterable[Any]) -> np.ndarray:
        """The total variance of each channel under uniform frequencies, times its users."""
        totals = np.maximum([channel.total_variance() for channel in channels], _LEAST_VARIANCE)
        if not np.all(np.isfinite(totals)):
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be large enough for a report to "
                f"carry information at a resolution of 2**-64. Got {self.epsilon!r}."
            )
        return totals

    # -- the estimates ------------------------------------------------------------------------
    def _estimate_of(self, state: Collected) -> Any:
        return EstimateSet(self._answers(state))

    def _answers(self, state: Collected) -> dict[Any, FrequencyEstimate]:
        """The estimate of each question; it has no rows if nobody was asked."""
        domain: Any = state.protocol.domain
        asked = enumerate(type(self)(**state.parameters)._asked(domain, state.mechanism))
        return {name: self._answer(state, j, *of_question) for j, (name, *of_question) in asked}

    def _answer(
        self, state: Collected, j: int, domain: Domain, oracle: BaseOracle | None
    ) -> FrequencyEstimate:
        survey = state.mechanism
        support, sizes = survey.decoded_on(state.decoded[0], j)
        rows = np.flatnonzero(sizes)
        if not rows.size:
            return FrequencyEstimate(np.empty((0, domain.size)), domain)
        values, noise = survey.mechanisms[j].estimate_decoded(support[rows], sizes[rows])
        n_users, names = state.of_rows(rows)
        shards = None
        if state.counts.n_shards > 1:
            tallies = map(np.ascontiguousarray, survey.tallies_on(state.counts.tallies, j))
            shards = Shards(survey.mechanisms[j], Counts(*tallies), state.counts.n_samples)
        facts: dict[str, Any] = {"row_names": names, "caveats": state.caveats}
        return FrequencyEstimate(values, domain, noise.of_sample(n_users), oracle, shards, **facts)

    def _check_features(self, X: Any, n_features: int, *, reset: bool) -> None:
        # The domain compares the names: columns of a data frame may be in any order.
        if not reset:
            return
        self.n_features_in_ = n_features
        self.__dict__.pop("feature_names_in_", None)
        names = column_names(X)
        if names is not None and all(isinstance(name, str) for name in names):
            declared = getattr(self.domains, "columns", {} if self._is_auto() else self.domains)
            ordered = list(dict.fromkeys([*declared.keys(), *names]))
            self.feature_names_in_: np.ndarray = np.array(ordered, dtype=object)

    # -- without users ------------------------------------------------------------------------
    def _planned_by(self, protocol: Any) -> dict[Any, PlannedEstimate]:
        domain, survey = protocol.domain, protocol.mechanism
        weights, planned = self._weights_by_name(domain), {}
        for j, (name, of_view, oracle) in enumerate(self._asked(domain, survey)):
            noise, weight = survey.noise_of(j, 1.0), float(weights.get(name, 1.0))
            planned[name] = PlannedEstimate(of_view, oracle, noise, weight)
        return planned

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
            One row per collection in each estimate.

        Raises
        ------
        ValueError
            If the counts are not non-negative integers of the same sum for each column, or a
            column has no users in one of the collections.
        """
        domain: Any = self._domain()
        survey: Any = self._protocol_over(domain).mechanism
        views = self._views(domain, survey)
        domains = {name: _domain_of_view(domain, view) for name, view in views.items()}
        users = self._checked_counts(domains, counts)
        drawn = self._simulated(domain, survey, users, n_repeats)
        empty = [name for name, estimate in drawn.items() if not len(estimate)]
        if empty:
            raise ValueError(
                f"{self._name}.simulate has no users for the column {empty[0]!r} in one of the "
                f"{n_repeats} collections: {users[empty[0]].sum()} users are too few."
            )
        return EstimateSet(drawn)

    def _simulated(
        self, domain: RecordDomain, survey: Any, users: dict[Any, np.ndarray], n_repeats: int
    ) -> dict[Any, FrequencyEstimate]:
        """Estimates of each question, from the true counts of what each looks at.

        One that lacks users in one of the collections has no rows.
        """
        if not isinstance(n_repeats, Integral) or n_repeats < 1:
            raise ValueError(f"{self._name}.simulate expects n_repeats >= 1, got {n_repeats!r}.")
        rng, asked = as_generator(self.random_state), self._asked(domain, survey)
        n_users = int(next(iter(users.values())).sum())
        n_asked = survey.draw_sizes(n_users, int(n_repeats), rng)
        estimates = {}
        questions = zip(asked, users.values(), survey.mechanisms, n_asked.T, strict=True)
        for (name, categories, oracle), of_question, channel, sizes in questions:
            if not sizes.all():
                estimates[name] = FrequencyEstimate(np.empty((0, len(categories))), categories)
                continue
            drawn = (rng.multivariate_hypergeometric(of_question, size) for size in sizes)
            support = np.concatenate([channel.simulate(one, 1, rng) for one in drawn])
            values, noise = channel.estimate_decoded(support, sizes)
            estimates[name] = FrequencyEstimate(
                values, categories, noise.of_sample(n_users), oracle
            )
        return estimates

    def _checked_counts(self, domains: Mapping[Any, Domain], counts: Any) -> dict[Any, np.ndarray]:
        if not isinstance(counts, Mapping) or set(counts) != set(domains):
            columns = ", ".join(map(repr, domains))
            raise ValueError(f"{self._name} expects counts for each of its columns {columns}.")
        checked = {}
        for name, domain in domains.items():
            what = f"{self._name}.simulate: counts of {name!r}"
            checked[name] = check_counts(in_order(counts[name], domain.categories, what), what)
            if len(checked[name]) != domain.size:
                expected = f"one number for each of its {domain.size} categories"
                raise ValueError(f"{what} must have {expected}, got {len(checked[name])}.")
        sums = {name: int(of_column.sum()) for name, of_column in checked.items()}
        if len(set(sums.values())) > 1:
            what = f"{self._name}.simulate"
            raise ValueError(f"{what} expects as many users in each column, got {sums}.")
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
            The frequencies that each estimate is of, by its name, in the order of its categories.

        Raises
        ------
        ValueError
            If a value is not a category, the domains are not known, or the weights are malformed.
        """
        domain: Any = self._domain()
        codes = domain.encode(X, self._name)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, len(codes), self._name)
        survey: Any = self._protocol_over(domain).mechanism
        counts = counts_in_views(self._estimated(domain, survey), codes, sample_weight)
        return {name: one / one.sum() for name, one in counts.items()}

    # -- what is known after fit --------------------------------------------------------------
    @property
    def sampling_probabilities_(self) -> np.ndarray:
        """Probability that a user is asked each question, of shape (n_questions,)."""
        return self._fitted("sampling_probabilities_").mechanism.probabilities

    @property
    def frequencies_(self) -> dict[Any, np.ndarray]:
        """Unbiased estimates of each column or table that has users."""
        estimates = self._estimate_of(self._fitted("frequencies_"))
        return {name: one.values[0] for name, one in estimates.items() if len(one)}

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Name the estimates after the columns and their categories.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of shape (total number of categories,)
            Such as "age_3", estimate by estimate.
        """
        return self._estimate_of(self._fitted("feature names")).feature_names


def counts_in_views(
    views: Mapping[Any, View], codes: np.ndarray, weights: np.ndarray | None
) -> dict[Any, np.ndarray]:
    """Return how often records have each value that each of several views looks at.

    Shapes: codes (n, n_columns), weights (n,) or None -> (d,), by the names of the views.
    """
    counts = {}
    for name, view in views.items():
        seen = codes[:, view.columns] @ np.array(view.strides) % view.n_values
        counts[name] = np.bincount(seen, weights, minlength=view.n_values)
    return counts


def table_name(domain: RecordDomain, columns: tuple[int, ...]) -> Any:
    """Return the name of a table: that of its column, or the tuple of its columns."""
    names = list(domain.columns)
    return names[columns[0]] if len(columns) == 1 else tuple(names[j] for j in columns)


def _domain_of_view(domain: RecordDomain, view: View) -> Domain:
    """The domain of what a question looks at."""
    return Domain(view.n_values) if view.is_parity else domain.joint(view.columns)
