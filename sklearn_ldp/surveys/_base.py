"""The base class of all surveys: a scikit-learn estimator that asks users about several columns."""

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
    """The arguments of the cached function `_mechanism_of`, which builds a survey's mechanism.

    Two requests with equal `key` get the same mechanism from the cache.
    """

    survey: Any = field(compare=False)
    domain: Any = field(compare=False)
    key: Any


@lru_cache(maxsize=16)  # a client needs its mechanism for each record
def _mechanism_of(request: _Request) -> Mechanism:
    return BaseCollector._informative_mechanism(request.survey, request.domain)


def _frozen(value: Any) -> Any:
    """Return a hashable copy of a parameter's value. Copies of equal values are equal."""
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
    """Base class of surveys: each user answers a few questions about their columns.

    A subclass only needs a method `_make_mechanism`. The method gets a
    :class:`~sklearn_ldp.surveys.RecordDomain`, which contains the categories of each column. It
    returns a :class:`~sklearn_ldp.surveys.SampledQuestions`, which contains the questions and the
    probability of each question. The survey has one estimate for each question. The name of an
    estimate is the name of the question's column, or the tuple of the names of its columns.

    Parameters
    ----------
    %(domains)s
    %(collection)s

    Attributes
    ----------
    estimate_ : EstimateSet
        The raw estimate of each question, by its name. An estimate has no rows if no user was asked
        its question. The repr of the set then shows this.
    frequencies_ : dict of str to ndarray of shape (d,)
        The unbiased frequencies of each estimate that has users, by its name. Some frequencies may
        be negative.
    sampling_probabilities_ : ndarray of shape (n_questions,)
        For each question, the probability that a user is asked this question.
    n_samples_seen_ : int
        Number of all users, whichever questions they were asked.
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
        """Store the parameters that all surveys have.

        collection: the values of `input`, `n_shards`, `random_state` and `n_jobs`, in this order.
        """
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
        """Return the mechanism of this survey, from a cache if possible.

        To build a mechanism may take seconds, because the questions must be chosen.
        """
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
        """Return a dict from the name of each question to its oracle, for simulations.

        By default, the dict is empty.
        """
        return {}

    def _asked(
        self, domain: RecordDomain, survey: SampledQuestions
    ) -> list[tuple[Any, Domain, Any]]:
        """Return a list with a tuple for each question: its name, its domain and its oracle.

        The oracle is None if `_oracles_behind` has none for the question.
        """
        views = self._views(domain, survey)
        oracles = self._oracles_behind(domain, views)
        return [(key, _domain_of_view(domain, v), oracles.get(key)) for key, v in views.items()]

    # -- the questions ------------------------------------------------------------------------
    def questions(self) -> dict[Any, Protocol]:
        """Return the questions that users may be asked.

        A report contains the index of its question. The questions are in the order of these
        numbers.

        Returns
        -------
        dict of Protocol
            For each question, the protocol of the reports that answer this question. The key is the
            name of the question's column, or the tuple of the names of its columns.

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
        """Return a dict from the name of each question's estimate to its QuestionView.

        A QuestionView contains the positions and the numbers of categories of the columns that the
        question asks for.
        """
        if mechanism.views is None:
            numbered = enumerate(domain.columns.items())
            return {key: QuestionView.joint((j,), (column.size,)) for j, (key, column) in numbered}
        return {table_name(domain, view.columns): view for view in mechanism.views}

    def _estimated(self, domain: RecordDomain, survey: SampledQuestions) -> dict[Any, QuestionView]:
        """Return a dict from the name of each estimate to the QuestionView of its columns.

        By default, there is one estimate for each question.
        """
        return self._views(domain, survey)

    def _oracle_of(
        self, chosen: Any, domain: Domain, key: Any, epsilon: float | None = None
    ) -> BaseOracle:
        """Return the oracle that the value of a parameter specifies for one question.

        chosen: the value of the parameter, "best" or an oracle. domain, epsilon: the categories and
        the privacy budget of the returned oracle. key: the name of the question.
        """
        epsilon = self.epsilon if epsilon is None else epsilon
        if isinstance(chosen, BaseOracle):
            return clone(chosen).set_params(epsilon=epsilon, categories=domain, input="values")
        if isinstance(chosen, str) and chosen == "best":
            return clone(best_of_size(epsilon, domain.size)).set_params(categories=domain)
        raise ValueError(
            f'{self._name} needs "best" or an oracle for each column, got {chosen!r} for the '
            f'column {key!r}. Pass "best" or an oracle such as GRR() for this column.'
        )

    def _total_variances(self, channels: Iterable[Any]) -> np.ndarray:
        """Return n times the sum of the categories' variances, for each of several channels.

        The variances are computed for n users and uniform frequencies.
        """
        totals = np.maximum([channel.total_variance() for channel in channels], _MIN_VARIANCE)
        if not np.all(np.isfinite(totals)):
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be large enough for a report to "
                "carry information, because probabilities are rounded to multiples of 2**-64. Got "
                f"{self.epsilon!r}. Pass a larger epsilon=."
            )
        return totals

    # -- the estimates ------------------------------------------------------------------------
    def _estimate_of(self, state: Collected) -> Any:
        return EstimateSet(self._answers(state))

    def _answers(self, state: Collected) -> dict[Any, FrequencyEstimate]:
        """Return a dict from the name of each question to its estimate.

        An estimate has no rows if no user was asked its question.
        """
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
        """Simulate the estimates of whole collections from known counts of each column.

        Privacy: the method protects no data. `counts` must be public or synthetic.

        The simulated estimate of each column has the same distribution as in a real collection with
        these counts. The estimates of different columns are drawn as if the columns were
        independent.

        Parameters
        ----------
        counts : mapping of str to array-like of shape (d,)
            For each column, the true number of users of each category. The numbers of each column
            must have the same sum, which is the number of users.
        n_repeats : int, default=1
            Number of independent collections.

        Returns
        -------
        EstimateSet
            The estimate of each column, with one row per simulated collection.

        Raises
        ------
        ValueError
            If the counts of a column are missing or are not non-negative integers, if the counts of
            two columns have different sums, or if no user is asked for a column in one of the
            collections.
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
                f"{self._name}.simulate: in one of the {n_repeats} collections, none of the "
                f"{users[empty[0]].sum()} users was asked for the column {empty[0]!r}. Pass larger "
                "counts."
            )
        return EstimateSet(drawn)

    def _simulated(
        self, domain: RecordDomain, survey: Any, users: dict[Any, np.ndarray], n_repeats: int
    ) -> dict[Any, FrequencyEstimate]:
        """Return a dict from the name of each question to its simulated estimate.

        users: for each question, the true counts of its categories. An estimate has one row per
        collection. It has no rows if no user is asked its question in one of the collections.
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
            raise ValueError(
                f"{self._name}.simulate: counts must be a mapping with the keys {columns}, got "
                f"{counts!r:.200}. Pass the counts of each of these columns."
            )
        checked = {}
        for name, domain in domains.items():
            argument = f"{self._name}.simulate: counts of {name!r}"
            ordered = in_order(counts[name], domain.categories, argument)
            checked[name] = check_counts(ordered, argument)
            if len(checked[name]) != domain.size:
                expected = f"one number for each of its {domain.size} categories"
                raise ValueError(
                    f"{argument} must have {expected}, got {len(checked[name])} numbers. Pass 0 "
                    "for categories without users."
                )
        sums = {name: int(users.sum()) for name, users in checked.items()}
        if len(set(sums.values())) > 1:
            raise ValueError(
                f"{self._name}.simulate expects the same number of users in each column, got the "
                f"sums {sums}. Pass counts= with the same sum for each column."
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
            For each estimate, by its name, the true frequencies in the order of its categories.

        Raises
        ------
        ValueError
            If a value is not a category, if the domains are unknown, or if the weights are not
            numbers of users.
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
        """For each question, the probability that a user is asked this question.

        The array has the shape (n_questions,).
        """
        return self._fitted("sampling_probabilities_").mechanism.probabilities

    @property
    def frequencies_(self) -> dict[Any, np.ndarray]:
        """A dict from the name of each estimate that has users to its unbiased frequencies."""
        estimates = self._estimate_of(self._fitted("frequencies_"))
        return {name: part.values[0] for name, part in estimates.items() if len(part)}

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return a name for each category of each estimate, such as "age_3" for the column "age".

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of shape (total number of categories,)
            The names of all categories of the first estimate, then of the second, and so on.
        """
        return self._estimate_of(self._fitted("feature names")).feature_names


def counts_in_views(
    views: Mapping[Any, QuestionView], codes: np.ndarray, weights: np.ndarray | None
) -> dict[Any, np.ndarray]:
    """Return, for each view, how often each combination of its columns' categories occurs.

    views: dict from names to QuestionViews. A QuestionView refers to some of the columns.
    codes: the users' records, of shape (n, n_columns), as integers that stand for categories.
    weights: numbers of users, of shape (n,), or None.
    Returns: a dict from the names to arrays of shape (d,), where d is the number of combinations.
    """
    counts = {}
    for name, view in views.items():
        seen = codes[:, view.columns] @ np.array(view.strides) % view.n_values
        counts[name] = np.bincount(seen, weights, minlength=view.n_values)
    return counts


def table_name(domain: RecordDomain, columns: tuple[int, ...]) -> Any:
    """Return the name of the table over some columns.

    It is the name of the column if there is only one, otherwise the tuple of the columns' names.
    columns: the positions of the columns.
    """
    names = list(domain.columns)
    return names[columns[0]] if len(columns) == 1 else tuple(names[j] for j in columns)


def _domain_of_view(domain: RecordDomain, view: QuestionView) -> Domain:
    """Return the domain whose categories are the possible answers to a question.

    view: the QuestionView of the question.
    """
    return Domain(view.n_values) if view.is_parity else domain.joint(view.columns)
