"""The base class of all surveys: a scikit-learn estimator for questions about several columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from .._core.common.random import RandomState, as_generator, check_repeats
from .._core.common.typing import Frequencies, Values
from .._core.domains import Domain, RecordDomain
from .._core.domains.values import column_names, in_order
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.fitting import (
    PARTY_PARAMETERS,
    BaseCollector,
    Collected,
    PlannedEstimate,
    check_weights,
    inherit_survey_parameters,
)
from .._core.mechanisms import Counts, Protocol, Shards, check_counts
from .._core.mechanisms.mechanism import Mechanism
from .._core.mechanisms.several import QuestionView, SampledQuestions
from ..oracles import BaseOracle, best_oracle

# Minimum total variance of a channel. It keeps the sampling probabilities defined if reports are
# almost certainly true.
_MIN_VARIANCE = 1e-18
_Set = TypeVar("_Set", bound=EstimateSet)


#: The best oracle for an epsilon and a number of categories. Questions share it: do not change it.
best_of_size = lru_cache(maxsize=1 << 14)(best_oracle)


@dataclass(frozen=True)
class _Request:
    """The inputs of a survey's mechanism. Requests with the same `key` share a mechanism."""

    survey: Any = field(compare=False)
    domain: Any = field(compare=False)
    key: Any


@lru_cache(maxsize=16)  # a client needs its mechanism for each record
def _mechanism_of(request: _Request) -> Mechanism:
    return BaseCollector._informative_mechanism(request.survey, request.domain)


def _frozen(value: Any) -> Any:
    """Return a hashable copy of a parameter. Copies of equal parameters are equal."""
    if isinstance(value, Mapping):
        return tuple((_frozen(key), _frozen(entry)) for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, BaseEstimator):  # the class, because a notebook may define a name twice
        return type(value), _frozen(value.get_params(deep=False))
    return type(value), value


@inherit_survey_parameters
class BaseColumnSurvey(BaseCollector[_Set], Generic[_Set]):
    """Base class of collectors of several columns. Each user answers a few questions.

    A new survey is one class with a method `_make_mechanism`. The method returns a
    :class:`~sklearn_ldp.surveys.SampledQuestions` over a
    :class:`~sklearn_ldp.surveys.RecordDomain`, which defines the questions and the probability of
    each question. No other method needs overriding. The survey has one estimate for each question.
    Its name is the name of the column, or the tuple of the names of the columns.

    Parameters
    ----------
    %(domains)s
    %(collection)s

    Attributes
    ----------
    estimate_ : EstimateSet
        The raw estimates by name. An estimate has no rows if no user was asked its question, and
        its repr then shows this.
    frequencies_ : dict of str to ndarray of shape (d,)
        Unbiased estimates of each column or table that has users; some may be negative.
    sampling_probabilities_ : ndarray of shape (n_questions,)
        Probability that a user is asked each question.
    n_samples_seen_ : int
        Number of users, over all questions.
    %(features)s
    """

    _parameter_constraints: dict = {
        **BaseCollector._parameter_constraints,
        "domains": "no_validation",  # RecordDomain checks it, with its own errors
    }
    _domain_parameter = "domains"

    #: Checks of scikit-learn that the class cannot pass, with the reasons.
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
        """Store the parameters that all surveys share, in the order of the signature."""
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
        """Return the mechanism. It is cached, because its plan may need seconds."""
        parameters = self.get_params(deep=False)
        for name in ("domains", *PARTY_PARAMETERS, "n_shards"):
            parameters.pop(name, None)
        sizes = [(name, column.size) for name, column in domain.columns.items()]
        request = _Request(clone(self), domain, (type(self), _frozen(parameters), _frozen(sizes)))
        try:
            hash(request)
        except TypeError:  # a parameter without a hash
            return super()._informative_mechanism(domain)
        return _mechanism_of(request)

    # -- optional hooks of a survey, next to its mechanism ------------------------------------
    def _oracles_behind(
        self, domain: RecordDomain, views: Mapping[Any, QuestionView]
    ) -> Mapping[Any, BaseOracle]:
        """Return the oracle of each question, by name, for simulations. Default: no oracles."""
        return {}

    def _asked(
        self, domain: RecordDomain, survey: SampledQuestions
    ) -> list[tuple[Any, Domain, Any]]:
        """Return the name, the domain, and the oracle (or None) of each question."""
        views = self._views(domain, survey)
        oracles = self._oracles_behind(domain, views)
        return [(key, _domain_of_view(domain, v), oracles.get(key)) for key, v in views.items()]

    # -- the questions ------------------------------------------------------------------------
    def questions(self) -> dict[Any, Protocol]:
        """Return the questions that users may be asked, in the order of their numbers in reports.

        Returns
        -------
        dict of Protocol
            The protocol of the reports on each single question. The key is the name of its
            column, or the tuple of the names of its columns.

        Raises
        ------
        ValueError
            If a parameter is not valid, or the domains are unknown.
        """
        protocol: Any = self.protocol()
        views = self._views(protocol.domain, protocol.mechanism)
        return {
            name: Protocol(
                mechanism, _domain_of_view(protocol.domain, view), self.epsilon, self._name
            )
            for (name, view), mechanism in zip(
                views.items(), protocol.mechanism.mechanisms, strict=True
            )
        }

    def _views(self, domain: RecordDomain, mechanism: SampledQuestions) -> dict[Any, QuestionView]:
        """Return the view (columns and sizes) of each question, by the name of its estimate."""
        if mechanism.views is None:
            numbered = enumerate(domain.columns.items())
            return {key: QuestionView.joint((j,), (column.size,)) for j, (key, column) in numbered}
        return {table_name(domain, view.columns): view for view in mechanism.views}

    def _estimated(self, domain: RecordDomain, survey: SampledQuestions) -> dict[Any, QuestionView]:
        """Return the view of each estimate, by its name. Default: the views of the questions."""
        return self._views(domain, survey)

    def _oracle_of(
        self, chosen: Any, domain: Domain, key: Any, epsilon: float | None = None
    ) -> BaseOracle:
        """Return the oracle that a parameter specifies, with a question's domain and budget."""
        epsilon = self.epsilon if epsilon is None else epsilon
        if isinstance(chosen, BaseOracle):
            return clone(chosen).set_params(epsilon=epsilon, categories=domain, input="values")
        if isinstance(chosen, str) and chosen == "best":
            return clone(best_of_size(epsilon, domain.size)).set_params(categories=domain)
        raise ValueError(
            f'{self._name} needs "best" or an oracle for each column, got {chosen!r} for column '
            f'{key!r}. Pass "best" or an oracle such as GRR().'
        )

    def _total_variances(self, channels: Iterable[Any]) -> np.ndarray:
        """Return n times the total variance of each channel under uniform frequencies."""
        totals = np.maximum([channel.total_variance() for channel in channels], _MIN_VARIANCE)
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
        """Return the estimate of each question. It has no rows if no user was asked."""
        record_domain: Any = state.protocol.domain
        questions = type(self)(**state.parameters)._asked(record_domain, state.mechanism)
        return {
            name: self._answer(state, j, domain, oracle)
            for j, (name, domain, oracle) in enumerate(questions)
        }

    def _answer(
        self, state: Collected, j: int, domain: Domain, oracle: BaseOracle | None
    ) -> FrequencyEstimate:
        survey = state.mechanism
        support, sizes = survey.decoded_on(state.decoded[0], j)
        rows = np.flatnonzero(sizes)
        if not rows.size:
            return FrequencyEstimate(np.empty((0, domain.size)), domain)
        values, noise = survey.mechanisms[j].estimate_decoded(support[rows], sizes[rows])
        n_users, names = state.row_sizes_and_names(rows)
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
        survey = protocol.mechanism
        weights = self._weights_by_name(protocol.domain)
        planned = {}
        for j, (name, domain, oracle) in enumerate(self._asked(protocol.domain, survey)):
            weight = float(weights.get(name, 1.0))
            planned[name] = PlannedEstimate(domain, oracle, survey.noise_of(j, 1.0), weight)
        return planned

    def simulate(self, counts: Mapping[Any, Frequencies], n_repeats: int = 1) -> EstimateSet:
        """Simulate whole collections from known counts of each column, without users.

        Privacy: the method protects no data. `counts` must be public or synthetic.

        The estimates of each column have their exact distribution. Different columns are drawn as
        if their values were independent.

        Parameters
        ----------
        counts : mapping of str to array-like of shape (d,)
            True number of users of each category, for each column. All columns have the same sum.
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
                f"{n_repeats} collections, because {users[empty[0]].sum()} users are too few. "
                "Pass larger counts."
            )
        return EstimateSet(drawn)

    def _simulated(
        self, domain: RecordDomain, survey: Any, users: dict[Any, np.ndarray], n_repeats: int
    ) -> dict[Any, FrequencyEstimate]:
        """Return simulated estimates of each question, from the true counts of its categories.

        An estimate has no rows if one of the collections has no users for its question.
        """
        n_repeats = check_repeats(n_repeats, f"{self._name}.simulate")
        rng = as_generator(self.random_state)
        asked = self._asked(domain, survey)
        n_users = int(next(iter(users.values())).sum())
        n_asked = survey.draw_sizes(n_users, n_repeats, rng)
        estimates = {}
        questions = zip(asked, users.values(), survey.mechanisms, n_asked.T, strict=True)
        for (name, categories, oracle), counts, channel, sizes in questions:
            if not sizes.all():
                estimates[name] = FrequencyEstimate(np.empty((0, len(categories))), categories)
                continue
            samples = (rng.multivariate_hypergeometric(counts, size) for size in sizes)
            support = np.concatenate([channel.simulate(sample, 1, rng) for sample in samples])
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
            argument = f"{self._name}.simulate: counts of {name!r}"
            ordered = in_order(counts[name], domain.categories, argument)
            checked[name] = check_counts(ordered, argument)
            if len(checked[name]) != domain.size:
                expected = f"one number for each of its {domain.size} categories"
                raise ValueError(f"{argument} must have {expected}, got {len(checked[name])}.")
        sums = {name: int(users.sum()) for name, users in checked.items()}
        if len(set(sums.values())) > 1:
            raise ValueError(
                f"{self._name}.simulate expects the same number of users in each column, got "
                f"{sums}."
            )
        return checked

    def true_frequencies(
        self, X: Values, sample_weight: ArrayLike | None = None
    ) -> dict[Any, np.ndarray]:
        """Return the true frequencies of raw values, to evaluate estimates in simulations.

        Privacy: the result is not private.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            One row per user.
        sample_weight : array-like of shape (n_samples,), default=None
            The number of users of each row, as for `fit`.

        Returns
        -------
        dict of str to ndarray of shape (d,)
            The frequencies of the values, by the name of the estimate, in the order of its
            categories.

        Raises
        ------
        ValueError
            If a value is not a category, the domains are unknown, or the weights are malformed.
        """
        domain: Any = self._domain()
        codes = domain.encode(X, self._name)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, len(codes), self._name)
        survey: Any = self._protocol_over(domain).mechanism
        counts = counts_in_views(self._estimated(domain, survey), codes, sample_weight)
        return {name: users / users.sum() for name, users in counts.items()}

    # -- fitted attributes --------------------------------------------------------------------
    @property
    def sampling_probabilities_(self) -> np.ndarray:
        """Probability that a user is asked each question, of shape (n_questions,)."""
        return self._fitted("sampling_probabilities_").mechanism.probabilities

    @property
    def frequencies_(self) -> dict[Any, np.ndarray]:
        """Unbiased estimates of each column or table that has users."""
        estimates = self._estimate_of(self._fitted("frequencies_"))
        return {name: part.values[0] for name, part in estimates.items() if len(part)}

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
    views: Mapping[Any, QuestionView], codes: np.ndarray, weights: np.ndarray | None
) -> dict[Any, np.ndarray]:
    """For each view (set of columns), count the records with each combination of values.

    Shapes: codes (n, n_columns), weights (n,) or None -> (d,), by the names of the views.
    """
    counts = {}
    for name, view in views.items():
        seen = codes[:, view.columns] @ np.array(view.strides) % view.n_values
        counts[name] = np.bincount(seen, weights, minlength=view.n_values)
    return counts


def table_name(domain: RecordDomain, columns: tuple[int, ...]) -> Any:
    """Return the name of a table: the name of its single column, or the tuple of its columns."""
    names = list(domain.columns)
    return names[columns[0]] if len(columns) == 1 else tuple(names[j] for j in columns)


def _domain_of_view(domain: RecordDomain, view: QuestionView) -> Domain:
    """Return the domain of the answers to a question."""
    return Domain(view.n_values) if view.is_parity else domain.joint(view.columns)
