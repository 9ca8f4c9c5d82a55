"""The base of all oracles and surveys: the life of a collection, whatever its estimate is of."""

from __future__ import annotations

import sys
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Number, Real
from typing import Any, Generic, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from ._domains import Domain
from ._domains.values import as_columns, declares_levels, group_codes, objects, read_once
from ._estimates.errors import held_out_score, mean_of_parts
from ._mechanisms import Counts, Protocol, Reports, Users, check_counts, check_total
from ._mechanisms.coins import CoinStreams
from ._mechanisms.mechanism import Mechanism
from ._noise import Noise
from ._utils.docs import Documented, fill_in
from ._utils.privacy import HARDLY_ANY, warn_of_epsilon, warn_of_learned, warn_of_output, warn_once
from ._utils.privacy import PrivacyWarning as PrivacyWarning
from ._utils.random import RandomState
from ._utils.state import Uncached
from ._utils.typing import Column, Values

_T = TypeVar("_T")

_COLLECTION = """input : {"values", "reports"}, default="values"
    Whether `fit`, `partial_fit` and `transform` read users' raw values or their reports.
n_shards : int, default=10
    Number of shards of the reports (user i is in shard i modulo `n_shards`) whose counts are kept
    apart, for :class:`~sklearn_ldp.HeldOutSearch`. With 1 no shards are kept, nor where they would
    take more than 64 MiB. Their sums tell something of the order of the users, so shuffle reports
    before, or keep no shards, if others get the fitted oracle or its estimate.
random_state : int, RandomState, Generator or None, default=None
    None draws every coin from a secure source. Anything else makes reports
    predictable, and is for simulations.
n_jobs : int, default=None
    Number of threads that work on chunks of users; it does not change the result."""

_PARAMETERS = """Parameters
----------
epsilon : float, default=1.0
    Privacy budget of one report, > 0.
categories : "auto", int, array-like of shape (d,) or Domain, default="auto"
    The public domain: anything that :class:`~sklearn_ldp.Domain` takes. An int d stands for
    ``0 .. d-1``, tuples for values of several columns. "auto" takes the levels that the values
    declare (a categorical dtype). Without declared levels it learns the domain from the raw values
    in `fit`, which leaks the values that occur and is for simulations only.
"""

_ATTRIBUTES = """Attributes
----------
categories_ : ndarray of shape (d,)
    The domain.
support_counts_ : ndarray of shape (d,)
    Number of reports that support each category.
n_samples_seen_ : int
    Number of users.
frequencies_ : ndarray of shape (d,)
    Unbiased estimates; some may be negative.
noise_ : Noise
    The noise of the estimates.
estimate_ : FrequencyEstimate of shape (1, d)
    The estimates with their categories and their noise, as post-processors take them.
n_features_in_ : int
    Number of columns of the values seen in `fit`.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of these columns, if they have any."""


_EPSILON_AND_DOMAINS = """epsilon : float, default=1.0
    Privacy budget of one report, > 0.
domains : "auto" or mapping of str to categories, default="auto"
    The public domain of each column: anything that :class:`~sklearn_ldp.Domain` takes. "auto"
    takes the levels that the columns of a data frame declare (categorical dtypes). Without
    declared levels it learns a domain from the raw values in `fit`, which leaks the values
    that occur and is for simulations only."""

_FEATURES = """n_features_in_ : int
    Number of columns.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns, in the order of `domains`, if the values seen in `fit` had names."""


def inherit_parameters(cls: type[_T]) -> type[_T]:
    """Fill in the parameters and attributes that all oracles share in a class's docstring."""
    return fill_in(cls, parameters=_PARAMETERS + _COLLECTION, attributes=_ATTRIBUTES)


def inherit_survey_parameters(cls: type[_T]) -> type[_T]:
    """Fill in the parameters and attributes that all oracles of several columns share."""
    return fill_in(cls, domains=_EPSILON_AND_DOMAINS, collection=_COLLECTION, features=_FEATURES)


_IMMUTABLE = (str, Number, type(None), Domain)
_SIMPLE = {str, bytes, int, float, bool, tuple, type(None)}  # of a category; of columns a tuple
#: Parameters in which the parties of a collection may differ.
OF_ONE_PARTY = ("input", "random_state", "n_jobs")


class Groups(NamedTuple):
    """What is known of groups of users, of which an estimate has a row each.

    Parameters
    ----------
    names : list
        The names of the groups.
    decoded : ndarray of shape (n_groups, any)
        Their decoded tallies.
    sizes : ndarray of int of shape (n_groups,)
        Their numbers of users.
    """

    names: list
    decoded: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True, eq=False)
class Collected(Uncached):
    """A collection in progress, replaced as a whole, so that a failure never changes half of it.

    Parameters
    ----------
    protocol : Protocol
        The protocol of the reports.
    counts : Counts
        The counts of the reports so far.
    streams : CoinStreams
        The streams of the users' coins.
    parameters : dict
        The parameters of the oracle that started the collection.
    first : int, default=0
        Position of the first user in the streams of coins.
    is_weighted : bool, default=False
        Whether some rows stood for several users (``sample_weight``).
    groups : Groups or None, default=None
        Groups that are estimated apart; None makes one estimate of all users.
    is_learned : bool, default=False
        Whether the domain was learned from users' values.
    """

    protocol: Protocol
    counts: Counts
    streams: CoinStreams
    parameters: dict[str, Any]
    first: int = 0
    is_weighted: bool = False
    groups: Groups | None = None
    is_learned: bool = False

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a report of the estimate says of the users' privacy."""
        seed, epsilon = self.parameters["random_state"], self.protocol.epsilon
        said = {
            "That the domain was public: it was learned from the users' values, which leaks those "
            "that occur.": self.is_learned,
            "That the reports protect anybody: the oracle has a seed, which is for "
            "simulations.": seed is not None,
            f"That the reports protect anybody: no one does at epsilon = {epsilon:g}.": (
                epsilon > HARDLY_ANY
            ),
        }
        return tuple(text for text, is_true in said.items() if is_true)

    @property
    def mechanism(self) -> Any:
        """The mechanism of the protocol."""
        return self.protocol.mechanism

    @property
    def position(self) -> int:
        """Position of the next user in the streams of coins."""
        return self.first + self.counts.n_samples

    @cached_property
    def decoded(self) -> tuple[np.ndarray, np.ndarray]:
        """The decoded tallies, from which estimates are made, and the sizes of all groups."""
        if self.groups is not None:
            return self.groups.decoded, self.groups.sizes
        tallies, sizes = self.counts.by_group
        return self.mechanism.decode(tallies), sizes

    def of_rows(self, rows: np.ndarray) -> tuple[Any, list | None]:
        """Return the numbers of all users, and the names, of rows of an estimate."""
        if self.groups is None:
            return self.counts.n_samples, None
        return self.groups.sizes[rows], [self.groups.names[i] for i in rows]

    def emptied(self, counts: Counts | None = None) -> Collected:
        """Return an empty collection that goes on with fresh coins.

        In a seeded run these are the coins at the positions after all users so far.
        """
        counts = self.protocol.empty if counts is None else counts
        return replace(self, counts=counts, first=self.position)

    def with_values(
        self,
        codes: np.ndarray,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        slots: np.ndarray | None = None,
    ) -> Collected:
        """Return the collection with users added, whose codes are randomised.

        Parameters
        ----------
        codes : ndarray whose first axis is the rows
            The users' values as the domain encodes them.
        sample_weight : array-like of shape (n_rows,) or None
            Number of users of each row.
        n_jobs : int or None
            Number of threads.
        slots : ndarray of shape (n_rows,), default=None
            The slot (group or shard) of each row.
        """
        return self._with(codes, self.streams, sample_weight, n_jobs, slots)

    def with_reports(
        self,
        reports: Any,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        slots: np.ndarray | None = None,
    ) -> Collected:
        """Return the collection with reports added; the arguments are those of `with_values`."""
        # Rows that stand for several users are not one draw each: their total has another law.
        reports = self.protocol.check(reports, tests_totals=sample_weight is None)
        return self._with(reports, None, sample_weight, n_jobs, slots)

    def _with(
        self,
        rows: np.ndarray,
        streams: CoinStreams | None,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        slots: np.ndarray | None,
    ) -> Collected:
        n_users, ends = len(rows), None
        if sample_weight is not None:
            ends = np.cumsum(check_weights(sample_weight, n_users, self.protocol.name))
            n_users = int(ends[-1])
        self._check_total(n_users)
        users = Users(self.mechanism, rows, streams, self.position, ends, slots)
        slots_of = None if slots is None else users.slots
        counts = self.counts.added(self.mechanism, n_users, users.reports, n_jobs, slots_of)
        is_weighted = self.is_weighted or sample_weight is not None
        return replace(self, counts=counts, is_weighted=is_weighted)

    def merged(self, other: Collected) -> Collected:
        """Return the sum of two collections, or raise ValueError if they do not add up."""
        what = self.protocol.difference(other.protocol)
        if not what and self.counts.n_shards != other.counts.n_shards:
            what = f"n_shards {other.counts.n_shards} instead of {self.counts.n_shards}"
        if what:
            given = [name for name in self._differing(other) if name not in what]
            also = f"; they have other values of {', '.join(given)}" if given else ""
            raise ValueError(
                f"{self.protocol.name}.merge refuses a differently configured oracle ({what}"
                f"{also}): reports of two protocols do not add up. Make an estimate of each "
                "instead."
            )
        name, theirs = self.protocol.name, other.counts
        self._check_total(theirs.n_samples)
        try:
            self.mechanism.check_tallies(theirs.tallies[0], theirs.sizes[0])
        except ValueError as error:
            raise ValueError(f"{name}.merge refuses the other {name}: {error}.") from None
        is_weighted = self.is_weighted or other.is_weighted
        return replace(self, counts=self.counts + other.counts, is_weighted=is_weighted)

    def _check_total(self, n_more: int) -> None:
        check_total(self.counts.n_samples + n_more, f"The users of this {self.protocol.name}")

    def _differing(self, other: Collected) -> list[str]:
        """Names of the numbers and texts among the parameters that are not the same."""
        ours, theirs = (
            {
                name: value
                for name, value in one.parameters.items()
                if isinstance(value, (int, float, str)) and name not in OF_ONE_PARTY
            }
            for one in (self, other)
        )
        return [name for name in ours if name in theirs and ours[name] != theirs[name]]


class KeptProtocol(NamedTuple):
    """A protocol with what it was made of, so that a client that answers often makes it once.

    Parameters
    ----------
    protocol : Protocol
        The protocol.
    values : dict
        The parameters by name, each as it was given and, if its owner may change it, a copy.
    """

    protocol: Protocol
    values: dict[str, tuple[Any, Any]]

    @classmethod
    def of(cls, attributes: Mapping[str, Any], protocol: Protocol) -> KeptProtocol | None:
        """The protocol with an oracle's parameters; None if one may change without a trace."""
        values = {}
        for name, value in attributes.items():
            if name in OF_ONE_PARTY[:2] or name.startswith("_") or name.endswith("_"):
                continue
            copy: Any = None
            if isinstance(value, np.ndarray) and not value.dtype.hasobject:
                copy = value.copy()
            elif not isinstance(value, _IMMUTABLE):
                if not isinstance(value, (list, tuple)) or not set(map(type, value)) <= _SIMPLE:
                    return None
                copy = list(value) if isinstance(value, list) else None
            values[name] = value, copy
        return cls(protocol, values)

    def is_of(self, attributes: Mapping[str, Any]) -> bool:
        """Whether these are the attributes that the protocol was made of."""
        for name, (given, copy) in self.values.items():
            value = attributes.get(name)
            # True equals 1, but is refused where a number is expected: it must be the same object.
            if value is not given:
                return False
            if copy is not None and not (
                value == copy if isinstance(value, list) else np.array_equal(value, copy)
            ):
                return False
        return True


def check_weights(sample_weight: ArrayLike, n_rows: int, name: str) -> np.ndarray:
    """Return the number of users of each row as int64 of shape (n_rows,), or raise ValueError."""
    weights = check_counts(sample_weight, f"{name}: sample_weight", _WEIGHTED_GROUPS)
    if len(weights) != n_rows:
        raise ValueError(
            f"{name} expects one sample_weight for each row of X: expected {n_rows}, got "
            f"{len(weights)}."
        )
    return weights


_OF_SEARCH = (
    " In a search shuffle the users (cv=KFold(shuffle=True)), as sorted ones differ, and choose "
    "epsilon by refit=least_epsilon(): no score knows what privacy costs, so the largest wins."
)
# Beside the oracles, so that neither copies nor pickles of one take it along.
_KEPT: WeakKeyDictionary[BaseCollector[Any], KeptProtocol] = WeakKeyDictionary()
_WEIGHTED_GROUPS = """ Groups of users can, by their shares of the population:
  by_group = estimate_by_group(oracle, X, by=group)
  inference.poststratify(by_group, {"a": 0.3, "b": 0.7})"""
_ONE_ROW = "an estimate has one row per collection, not one per user"
_Estimate = TypeVar("_Estimate")
_Collector = TypeVar("_Collector", bound="BaseCollector[Any]")


class Budget(Interval):
    """The constraint of scikit-learn for a privacy budget: a number > 0, and not True."""

    def __init__(self) -> None:
        super().__init__(Real, 0, None, closed="neither")

    def is_satisfied_by(self, val: Any) -> bool:
        return not isinstance(val, bool) and super().is_satisfied_by(val)


class BaseCollector(  # type: ignore[call-arg]
    Documented,
    TransformerMixin,
    BaseEstimator,
    Generic[_Estimate],
    metaclass=ABCMeta,
    auto_wrap_output_keys=None,
):
    """Base of all estimators that collect users' values: clients, servers, and both in `fit`.

    A subclass says which parameter declares the domain, what mechanism there is over a domain, and
    what estimate is made of the counts.
    """

    _parameter_constraints: dict = {
        "epsilon": [Budget()],
        "input": [StrOptions({"values", "reports"})],
        "n_shards": [Interval(Integral, 1, None, closed="left")],
        "random_state": [None, Integral, np.random.RandomState, np.random.Generator],
        "n_jobs": [None, Integral],
    }

    epsilon: float
    input: str
    n_shards: int
    random_state: RandomState
    n_jobs: int | None
    _state: Collected | None = None
    _is_searched = False  # whether epsilon was set, as a search does
    n_clipped_: int

    #: The parameter that declares the domain; its value "auto" learns the domain from the values.
    _domain_parameter: str

    #: Whether `_estimate_of` makes a row for each group, for `estimate_by_group`.
    _estimates_groups = True

    #: Checks of scikit-learn's that it cannot pass, and why.
    _expected_failed_checks = {
        "check_fit1d": "the usual input is one value per user, which is 1D",
        "check_fit_idempotent": "the rows to transform are not categories of the fitted rows",
        "check_methods_sample_order_invariance": _ONE_ROW,
        "check_methods_subset_invariance": _ONE_ROW,
        "check_sample_weight_equivalence_on_dense_data": (
            "a row of weight 0 is a category that nobody has, a missing row is not a category"
        ),
        "check_transformer_data_not_an_array": _ONE_ROW,
        "check_transformer_general": _ONE_ROW,
    }

    @abstractmethod
    def _domain_of(self, declared: Any) -> Domain:
        """Return the domain that the parameter `_domain_parameter` stands for."""

    @abstractmethod
    def _learned_domain(self, X: Values) -> Domain:
        """Return the domain of users' values, where none is declared."""

    @abstractmethod
    def _make_mechanism(self, domain: Any) -> Mechanism:
        """Return the mechanism over a domain, from the (valid) parameters.

        This is the only hook of an oracle or a survey: fitting, planning, audits, searches and
        tests all use it.
        """

    @abstractmethod
    def _estimate_of(self, state: Collected) -> _Estimate:
        """Return the raw estimate of what was collected."""

    def _planned_by(self, protocol: Any) -> dict[Any, PlannedEstimate]:
        """What to expect of each estimate of a protocol, by name, for planning."""
        raise NotImplementedError

    def _weights_by_name(self, domain: Any) -> Mapping[Any, float]:
        """How much the errors of estimates count; those left out count 1."""
        return {}

    def _takes_open_domain(self) -> bool:
        """Return whether the mechanism takes values that are on no list (``categories="open"``)."""
        return False

    # -- what client and server agree on ------------------------------------------------------
    def protocol(self, collection_round: str = "") -> Protocol:
        """Return what a client and a server of a collection must agree on.

        Parameters
        ----------
        collection_round : str, default=""
            Name of the collection.

        Returns
        -------
        Protocol
            The mechanism, the domain and the round, built from the current parameters.

        Raises
        ------
        ValueError
            If a parameter is not valid, or the domain is not known.
        """
        kept = _KEPT.get(self)
        if kept is not None and kept.is_of(vars(self)):
            protocol = kept.protocol
        else:
            protocol = self._protocol_over(self._domain())
            if not self._is_auto() and (kept := KeptProtocol.of(vars(self), protocol)):
                _KEPT[self] = kept
        return protocol.protocol(collection_round) if collection_round else protocol

    # -- client side --------------------------------------------------------------------------
    def privatize(self, X: Values, *, parts: ArrayLike | None = None) -> Reports:
        """Randomise users' values into reports, as each client does; no fit is needed.

        Privacy: each call spends epsilon of every user in `X`; randomising the same users' values
        twice spends it twice. Only ``random_state=None`` protects anybody. With an int every call
        draws the same coins, which is for simulations.

        The reports know their protocol (:class:`~sklearn_ldp.collection.Reports`), as a file of
        them does (:func:`~sklearn_ldp.collection.write_reports`), and servers refuse those of
        another one. Where only their numbers are sent or stored, send
        ``oracle.protocol().configuration`` with them.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user.
        parts : array-like of int of shape (n_samples,), default=None
            The public part of each report (its hash function), where the collector assigns it: what
            :func:`~sklearn_ldp.robustness.assigned_parts` returns. None lets each client draw its
            own.

        Returns
        -------
        Reports whose first axis is the users
            The reports: an ndarray that knows the protocol.

        Raises
        ------
        ValueError
            If a value is not a category, the domain is not known, or a part does not exist.
        TypeError
            If parts are given to an oracle whose reports have none.
        """
        protocol = self.protocol()
        warn_of_epsilon(self._name, self.epsilon, self.random_state)
        if self.random_state is not None:
            warnings.warn(
                f"{self._name}.privatize draws predictable reports, which protect nobody, because "
                "it has a random_state: leave it out where users are real.",
                PrivacyWarning,
                stacklevel=2,
            )
        return protocol.privatize(X, self.random_state, parts)

    # -- server side --------------------------------------------------------------------------
    def fit(self, X: Values, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Collect once: randomise the users' values (or read their reports) and add them up.

        Privacy: spends epsilon of every user in `X` when it holds values; nothing when it holds
        reports. What was collected before is forgotten.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user, where several columns form one joint category; or, with
            ``input="reports"``, one report per user.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            The number of users of each row, as non-negative integers, so that a histogram can be
            fitted.

        Returns
        -------
        self : object
            The fitted oracle.

        Raises
        ------
        ValueError
            If `X` or `sample_weight` is malformed; the oracle then stays unchanged.
        """
        X = read_once(X)
        return self._collect(self._started(X), X, sample_weight, is_new=True)

    def partial_fit(
        self, X: Values, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add more users to the collection.

        Privacy: the same as for `fit`; the users should be new ones. With a seed, adding values in
        pieces gives the same result as adding them all at once.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            As for `fit`.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            As for `fit`.

        Returns
        -------
        self : object
            The oracle with the users added.

        Raises
        ------
        ValueError
            As for `fit`; the oracle then stays unchanged.
        """
        is_new, X = self._state is None, read_once(X)
        state = self._started(X) if is_new else self._continued()
        return self._collect(state, X, sample_weight, is_new=is_new)

    def aggregate(self, reports: ArrayLike) -> Self:
        """Add a batch of reports to the collection, which costs no privacy.

        Reports that know their protocol are refused if it is another one. Of plain arrays the
        number of categories that the reports support is tested, at an error rate of 1e-9. So OUE,
        SUE, OLH, BLH, HadamardResponse and ProjectiveGeometryResponse recognise another epsilon,
        once there are enough reports. They refuse the batch if the difference is larger than 15 %
        of fake users can make it, and otherwise warn once. Other oracles, such as GRR, cannot:
        their reports of any epsilon support as many categories; and none recognises another order
        of the categories. An array has no name, so one that was added before is not recognised
        either: use files and an :class:`~sklearn_ldp.collection.Aggregator`, which counts each
        batch once.

        Parameters
        ----------
        reports : array-like whose first axis is the users
            Reports as `privatize` returns them.

        Returns
        -------
        self : object
            The oracle with the reports added.

        Raises
        ------
        ValueError
            If a report cannot come from this oracle, or the reports are of another protocol; the
            whole batch is then refused.
        """
        self._state = self._continued().with_reports(reports, None, self.n_jobs)
        return self

    def merge(self, other: BaseCollector[Any]) -> Self:
        """Add what another server of the same collection has aggregated.

        Parameters
        ----------
        other : oracle
            An oracle of the same class, epsilon, domain and protocol; it is not changed.

        Returns
        -------
        self : object
            The oracle with the other's reports added.

        Raises
        ------
        ValueError
            If the two are configured differently; the oracle then stays unchanged.
        """
        if other is self:
            raise ValueError(
                f"{self._name}.merge got this very {self._name}: its reports would count twice, "
                "and the noise would seem smaller than it is. Merge another server's."
            )
        if not isinstance(other, BaseCollector):
            raise TypeError(
                f"{self._name}.merge needs another {self._name}, got {type(other).__name__}."
            )
        theirs = other._fitted("reports to merge")
        self._state = self._continued().merged(theirs)
        return self

    def fit_transform(
        self, X: Values, y: object = None, sample_weight: ArrayLike | None = None
    ) -> _Estimate:
        """Collect once and return the estimate, the same release that `frequencies_` holds.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            As for `fit`.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            As for `fit`.

        Returns
        -------
        estimate
            The raw estimate.
        """
        warn_of_output(self)
        return self.fit(X, y, sample_weight=sample_weight).estimate_

    def transform(self, X: Values) -> _Estimate:
        """Collect anew from other users and return their estimate, without changing the fitted one.

        Privacy: with values, a new collection that spends epsilon of every user in `X`, and a
        :class:`~sklearn_ldp.PrivacyWarning` says so: users who were in `fit` as well have spent
        it twice. With ``input="reports"`` it is free.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            As for `fit`.

        Returns
        -------
        estimate
            The raw estimate of these users.
        """
        self._fitted("estimate to transform like")
        warn_of_output(self)
        return self._estimate_of(self._other_users(X, None, "estimate to transform like"))

    def score(self, X: Values, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the squared error of the estimate, judged by the reports of other users.

        It is what searches and cross-validations of scikit-learn take if they are given no
        ``scoring``, also where the oracle is the first step of a Pipeline. Larger is better. The
        score is unbiased, but contains the noise of the reports that judge, and may be above 0: see
        :func:`~sklearn_ldp.metrics.held_out_score`, which also takes queries.

        Privacy: as for `transform`. Over values it is a new collection, from users who spend
        epsilon for every candidate and every fold of a search, which is for simulations; with
        ``input="reports"`` it is free.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            Other users than those in `fit`, as for `fit`.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            As for `fit`.

        Returns
        -------
        float
            Minus the mean squared error over all categories; of a survey, the mean of those of its
            columns, weighted by its `weights`.

        See Also
        --------
        sklearn_ldp.metrics.make_frequency_scorer : Compares with the values themselves.
        """
        others = self._other_users(X, sample_weight, "estimate to score")
        return self._score(self.estimate_, self._estimate_of(others))

    def _score(self, estimate: Any, held_out: Any) -> float:
        """Minus the mean squared error of an estimate, by one of other users."""
        return mean_of_parts(held_out_score(estimate, held_out), column_weights(self))

    def _other_users(self, X: Values, sample_weight: ArrayLike | None, needs: str) -> Collected:
        """Collect from other users than those in `fit`, without changing what is fitted."""
        self._fitted(needs)
        state = self._continued()
        if text := lost_weights(state, sample_weight):
            warnings.warn(text, UserWarning, stacklevel=3)
        state = state.emptied()
        if self.input == "reports":
            return state.with_reports(X, sample_weight, self.n_jobs)
        X = read_once(X)
        columns = state.protocol.domain.columns_of(X, self._name)
        self._check_features(X, len(columns), reset=False)
        codes = state.protocol.domain.encode_columns(columns, self._name)
        text = (
            f"{self._name} randomises its users' values anew in transform and score, which costs "
            f"each of them epsilon={self.epsilon:g} (again, if they were in fit as well). For the "
            "estimate that fit has made use estimate_ (of a Pipeline pipe[-1].estimate_); to add "
            f"users use partial_fit.{_OF_SEARCH * self._is_searched}"
        )
        if self.random_state is None:
            warnings.warn(text, PrivacyWarning, stacklevel=3)
        else:  # a simulation, which may go on for long
            warn_once(text, PrivacyWarning, f"{self._name} anew, searched: {self._is_searched}")
        return state.with_values(codes, sample_weight, self.n_jobs)

    # -- what is known after fit --------------------------------------------------------------
    @property
    def n_samples_seen_(self) -> int:
        """Number of reports that have been added up."""
        return self._fitted("n_samples_seen_").counts.n_samples

    @property
    def estimate_(self) -> _Estimate:
        """The raw estimate."""
        return self._estimate_of(self._fitted("estimate_"))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Tell once that an oracle returns an estimate, which knows its categories and its noise.

        Pipelines call this on each of their steps, but a data frame would lose the noise that the
        next step needs. ``estimate.to_frame()`` returns a data frame.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            A container gets the warning, and no effect.

        Returns
        -------
        self : object
            The oracle, unchanged.
        """
        warn_of_output(self, transform)
        return self

    def set_params(self, **params: Any) -> Self:
        """Set parameters, but not what reports that are already there were made with.

        So a search over epsilon is for values, as a simulation: for an oracle that reads reports,
        the clients have chosen epsilon, and all that makes up the protocol but the domain. Make
        another oracle for other reports. Nothing refuses a search over whole oracles on plain
        arrays, which all of them can read: give it reports that know their protocol.

        Parameters
        ----------
        **params : dict
            The parameters.

        Returns
        -------
        self : object
            The oracle.

        Raises
        ------
        ValueError
            If a parameter does not exist, or the oracle reads reports, and the parameter is one of
            their protocol.
        """
        reads = repr(self.input) == repr(params.get("input", "reports")) == "'reports'"
        given = self.get_params() if reads else {}
        free = (*OF_ONE_PARTY, "n_shards", self._domain_parameter)
        for name, value in params.items():
            if name in given and name not in free and repr(value) != repr(given[name]):
                what = f"{self._name} reads reports, which were made with {name}={given[name]!r}"
                remedy = 'with input="values", a simulation, or make another oracle'
                raise ValueError(f"{what}, not {value!r}: search over {name} {remedy}.")
        self._is_searched = self._is_searched or "epsilon" in params
        return super().set_params(**params)

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.random_state is None
        return tags

    # -- the parameters, and what was collected with them -------------------------------------
    @property
    def _name(self) -> str:
        return type(self).__name__

    def _is_auto(self) -> bool:
        declared = getattr(self, self._domain_parameter)
        return isinstance(declared, str) and declared == "auto"

    def _fitted(self, attribute: str) -> Collected:
        if self._state is None:
            raise NotFittedError(
                f"This {self._name} instance is not fitted yet and has no {attribute}: call fit on "
                "users' values, or aggregate on their reports, first."
            )
        return self._state

    def _check_parameters(self) -> None:
        self._validate_params()
        if not self.epsilon <= sys.float_info.max:
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be a finite number > 0. Got "
                f"{self.epsilon!r} instead."
            )

    def _domain(self) -> Domain:
        """Return the domain that is declared, or that "auto" has learnt."""
        state, declared = self._state, getattr(self, self._domain_parameter)
        if state is not None and (
            self._is_auto() or declared is state.parameters[self._domain_parameter]
        ):
            return state.protocol.domain
        return self._domain_of(declared)

    def _protocol_over(self, domain: Domain, collection_round: str = "") -> Protocol:
        self._check_parameters()
        if domain.is_open and not self._takes_open_domain():
            raise ValueError(
                f"{self._name} numbers the categories, so it needs a list of them. For values that "
                'are on no list use OLH(categories="open", hash_family="mixing").'
            )
        return Protocol(
            self._informative_mechanism(domain),
            domain,
            self.epsilon,
            self._name,
            collection_round,
            self.n_shards,
            self.n_jobs,
        )

    def _informative_mechanism(self, domain: Any) -> Mechanism:
        """Return the mechanism over a domain; raise ValueError if its reports say nothing."""
        mechanism = self._make_mechanism(domain)
        if not mechanism.is_informative:
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be large enough for a report to "
                f"carry information at a resolution of 2**-64. Got {self.epsilon!r}."
            )
        return mechanism

    def _started(self, X: Any = None) -> Collected:
        """Return an empty collection with the current parameters."""
        self._check_parameters()
        learns = self._is_auto() and self.input == "values" and X is not None
        domain = self._learned_domain(X) if learns else self._domain()
        is_learned = learns and not declares_levels(X)
        if is_learned:
            warn_of_learned(self._name, "the domain", self._domain_parameter, self.random_state)
        if self.input == "values" and X is not None:
            warn_of_epsilon(self._name, self.epsilon, self.random_state)
        protocol = self._protocol_over(domain.closed())
        streams = CoinStreams(self.random_state)
        return Collected(
            protocol,
            protocol.empty,
            streams,
            self.get_params(deep=False),
            is_learned=is_learned,
        )

    def _continued(self) -> Collected:
        """Return the collection to add to, which must agree with the current parameters."""
        state = self._state
        if state is None:
            return self._started()
        parameters = self.get_params(deep=False)
        if all(parameters[name] is value for name, value in state.parameters.items()):
            return state
        if state.protocol.difference(self.protocol()):
            raise ValueError(
                f"The parameters of this {self._name} have changed since it was fitted: reports of "
                "two protocols do not add up. Call fit, or use a new oracle (sklearn.base.clone)."
            )
        return state

    def _collect(
        self, state: Collected, X: Any, sample_weight: ArrayLike | None, *, is_new: bool
    ) -> Self:
        """Add rows to a collection: first all checks, then the work, then the new state."""
        if self.input == "reports":
            self._state = state.with_reports(X, sample_weight, self.n_jobs)
            return self
        columns = state.protocol.domain.columns_of(X, self._name)
        resets = is_new or not hasattr(self, "n_features_in_")
        if not resets:
            self._check_features(X, len(columns), reset=False)
        codes = state.protocol.domain.encode_columns(columns, self._name)
        state = state.with_values(codes, sample_weight, self.n_jobs)
        if resets:
            self._check_features(X, len(columns), reset=True)
        clipped = state.protocol.domain.n_clipped(columns)
        if clipped is not None:
            self.n_clipped_ = clipped + (0 if is_new else getattr(self, "n_clipped_", 0))
        self._state = state
        return self

    def _check_features(self, X: Any, n_features: int, *, reset: bool) -> None:
        """Record or check the number and the names of the columns, as scikit-learn does."""
        if reset:
            self.n_features_in_ = n_features
        elif n_features != self.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but {self._name} is expecting "
                f"{self.n_features_in_} features as input. Reshape your data to one row per user."
            )
        validate_data(self, X, reset=reset, skip_check_array=True, ensure_2d=False)


# -- what other rooms ask of an oracle or a survey ------------------------------------------------
class PlannedEstimate(NamedTuple):
    """What to expect of one of the estimates, before any data."""

    domain: Domain
    oracle: Any  # that of its question, unfitted; None if there is none
    noise: Noise  # of a collection of one user: the variances of n users are n times smaller
    weight: float  # how much its errors count


def planned(collector: BaseCollector[Any]) -> dict[Any, PlannedEstimate]:
    """What to expect of each estimate, by its name; the only one of an oracle is called None."""
    return collector._planned_by(collector.protocol())


def lost_weights(state: Collected, sample_weight: ArrayLike | None) -> str:
    """A warning, if an oracle was fitted with weights, and none came with the users left out."""
    text = (
        f"The {state.protocol.name} was fitted with sample_weight, but no score was given any, so "
        "each row of X counts as one user. In a search call sklearn.set_config("
        "enable_metadata_routing=True), set_fit_request(sample_weight=True) of the oracle and "
        "set_score_request(sample_weight=True) of a scorer, and pass sample_weight without a "
        "prefix. If each row is one user, pass a sample_weight of ones."
    )
    return text * (state.is_weighted and sample_weight is None)


def state_of(collector: BaseCollector[Any], attribute: str) -> Collected:
    """What was collected; NotFittedError says that there is no such attribute without it."""
    return collector._fitted(attribute)


def has_learned_domain(collector: BaseCollector[Any]) -> bool:
    """Whether the domain is "auto"."""
    return collector._is_auto()


def column_weights(collector: BaseCollector[Any]) -> Mapping[Any, float]:
    """How much the errors of each estimate of a fitted survey count; those left out count 1."""
    return collector._weights_by_name(collector._fitted("weights").protocol.domain)


def fit_columns(
    survey: _Collector, columns: list[np.ndarray], sample_weight: ArrayLike | None, name: str
) -> _Collector:
    """Fit a survey to columns in the order of its domains; errors speak of the class `name`."""
    warn_of_epsilon(name, survey.epsilon, survey.random_state)
    state = survey._started()
    state = replace(state, protocol=replace(state.protocol, name=name))
    codes = state.protocol.domain.encode_columns(columns, name)
    survey._state = state.with_values(codes, sample_weight, survey.n_jobs)
    return survey


def with_counts(collector: _Collector, counts: Counts) -> _Collector:
    """A fitted oracle or survey like this one that holds these counts."""
    fitted = clone(collector)
    fitted._state = fitted._started().emptied(counts)
    return fitted


def estimate_by_group(
    oracle: BaseCollector[_Estimate],
    X: Values,
    by: Column,
    *,
    sample_weight: ArrayLike | None = None,
) -> _Estimate:
    """Estimate the distribution of each group of users, such as each region or each week.

    This is one collection, whose reports are counted by group. Each group has its own number of
    users and therefore its own noise, which post-processors and intervals take into account row by
    row. The group of a user is not protected: it must be public, or known to the collector anyway.

    Privacy: as for `fit`, this spends epsilon of every user in `X` once if `X` holds values, and
    nothing if the oracle reads reports. Several groups of different users cost no more than one.

    Parameters
    ----------
    oracle : oracle
        The oracle to use, or a survey such as :class:`~sklearn_ldp.ColumnOracle`; it is not
        changed.
    X : array-like of shape (n_samples,) or (n_samples, n_columns)
        As for its `fit`: values, or reports with ``input="reports"``.
    by : array-like of shape (n_samples,) or (n_samples, n_columns)
        The group of each row. Several columns name a group by the tuple of their values.
    sample_weight : array-like of shape (n_samples,), default=None
        The number of users of each row.

    Returns
    -------
    FrequencyEstimate of shape (n_groups, d), or EstimateSet
        One row per group, in the sorted order of the groups' names, which are its `row_names`. In
        a set of estimates, a column has rows for the groups in which somebody was asked for it.

    Raises
    ------
    ValueError
        If the groups do not match the rows, or a group has no users.
    TypeError
        If the oracle makes no estimates of groups, as :class:`~sklearn_ldp.MarginalOracle`.

    Examples
    --------
    >>> from sklearn_ldp import GRR, NormSub
    >>> from sklearn_ldp.oracles import estimate_by_group
    >>> oracle = GRR(epsilon=8.0, categories=["no", "yes"], random_state=0)
    >>> answers, region = ["yes", "no", "yes", "yes"] * 100, ["east", "east", "west", "west"] * 100
    >>> estimate = estimate_by_group(oracle, answers, region)
    >>> estimate.noise.n_samples
    array([200, 200])
    >>> NormSub().fit_transform(estimate).to_frame().round(2)
    category   no  yes
    east      0.5  0.5
    west      0.0  1.0
    """
    if not oracle._estimates_groups:
        raise TypeError(
            f"estimate_by_group is for oracles and for ColumnOracle, got {type(oracle).__name__}: "
            "fit one to the users of each group."
        )
    if len(np.shape(by)) == 2:  # type: ignore[arg-type]
        columns = [column.tolist() for column in as_columns(by, "estimate_by_group: by")]
        by = columns[0] if len(columns) == 1 else objects(list(zip(*columns, strict=True)))
    names, groups = group_codes(by, "estimate_by_group", "for each row")
    check_consistent_length(X, groups)
    # A clone, so that the oracle is not changed; but a generator is shared, and moves on.
    apart = clone(oracle).set_params(random_state=oracle.random_state)
    state = apart._started(X)
    reads = oracle.input == "reports"
    rows = state.protocol.check(X) if reads else state.protocol.domain.encode(X, apart._name)
    weights = (
        None if sample_weight is None else check_weights(sample_weight, len(rows), apart._name)
    )
    sizes = np.bincount(groups, weights, minlength=len(names))
    if not sizes.all():
        empty = [name for name, size in zip(names, sizes, strict=True) if not size]
        raise ValueError(f"estimate_by_group has no users in {empty}: leave such groups out.")
    decoded: Any = None
    # As many groups at a time as fit in memory; only what the estimate needs of them is kept.
    step = Counts.most(state.mechanism, len(names))
    for first in range(0, len(names), step):
        n_groups = min(step, len(names) - first)
        chosen = np.flatnonzero((first <= groups) & (groups < first + n_groups))
        state = state.emptied(Counts.empty(state.mechanism, 1, n_groups))
        add = state.with_reports if reads else state.with_values
        of_rows = None if weights is None else weights[chosen]
        state = add(rows[chosen], of_rows, oracle.n_jobs, groups[chosen] - first)
        of_groups = state.decoded[0]
        if decoded is None:  # filled in, as tables of strings are too large to be held twice
            decoded = np.empty((len(names), *of_groups.shape[1:]), of_groups.dtype)
        decoded[first : first + n_groups] = of_groups
    groups_of_users = Groups(names, decoded, sizes.astype(int))
    return apart._estimate_of(replace(state, groups=groups_of_users))
