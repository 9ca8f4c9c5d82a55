"""The base of all oracles and surveys: the stages of a collection, for estimates of any kind."""

from __future__ import annotations

import sys
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Generic, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from ..common.docs import Documented
from ..common.locks import lock_of
from ..common.privacy import (
    PrivacyWarning,
    refuse_memory,
    warn_of_epsilon,
    warn_of_learned,
    warn_of_output,
    warn_once,
)
from ..common.random import RandomState
from ..common.text import counted
from ..common.typing import Values
from ..domains import Domain, closed_domain, columns_of, encode_columns, n_clipped
from ..domains.values import declares_levels, read_once
from ..estimates import remember_values
from ..estimates.errors import held_out_score, mean_of_parts, query_errors
from ..mechanisms import Counts, Protocol, Reports
from ..mechanisms.coins import CoinStreams
from ..mechanisms.mechanism import Mechanism
from ..noise import Noise
from ._collected import PARTY_PARAMETERS, Collected, lost_weights
from ._kept import KeptProtocol

_SEARCH_ADVICE = (
    " Shuffle the users of a search (cv=KFold(shuffle=True)), because the parts of sorted users "
    "differ. Choose epsilon by refit=least_epsilon(): no score contains the cost of privacy, so "
    "the largest epsilon wins."
)
_LARGEST_ERROR = 0.5  # twice this error is the whole range; one user at epsilon 1 has 0.96
# Outside of the oracles, so that copies and pickles of an oracle do not contain it.
_KEPT: WeakKeyDictionary[BaseCollector[Any], KeptProtocol] = WeakKeyDictionary()
_ONE_ROW = "an estimate has one row per collection, not one per user"
_Estimate = TypeVar("_Estimate")


class PlannedEstimate(NamedTuple):
    """The expectations of one of the estimates, before any data."""

    domain: Domain
    oracle: Any  # the unfitted oracle of its question; None if there is none
    #: The noise of a collection of one user: the variances of n users are n times smaller. For a
    #: mean this is the mechanism, which computes the variance of one report.
    noise: Noise | Any
    weight: float  # the weight of its errors


class CollectorTools(NamedTuple):
    """The parts of an oracle or a survey that other rooms use; `__collector__` returns them."""

    learns_domain: bool  # whether the domain is "auto"
    #: The expectations of each estimate by its name; the only estimate of an oracle has name None.
    planned: Callable[[], dict[Any, PlannedEstimate]]
    #: The state; without a state, NotFittedError names the attribute that needs the state.
    state: Callable[[str], Collected]
    #: The weight of the errors of each estimate of a fitted survey; a missing weight is 1.
    weights: Callable[[], Mapping[Any, float]]
    #: Fits to columns in the order of the domains; errors contain the passed class name.
    fit_columns: Callable[[list[Any], ArrayLike | None, str], Any]
    #: A fitted oracle or survey with the same parameters and the passed counts.
    with_counts: Callable[[Counts], Any]


class _Batch(NamedTuple):
    """Users to add: the collection before and after them, and their values if it reads values."""

    before: Collected
    after: Collected
    X: Any = None
    columns: list[Any] | None = None


class Budget(Interval):
    """The constraint of scikit-learn for a privacy budget: a number > 0, and not True."""

    def __init__(self) -> None:
        super().__init__(Real, 0, None, closed="neither")

    def is_satisfied_by(self, val: Any) -> bool:
        return not isinstance(val, bool) and super().is_satisfied_by(val)


class BaseCollector(
    Documented,
    TransformerMixin,
    BaseEstimator,
    Generic[_Estimate],
    metaclass=ABCMeta,
    auto_wrap_output_keys=None,
):
    """Base of all estimators that collect users' values: clients, servers, and both in `fit`.

    A subclass specifies the parameter that declares the domain, the mechanism over a domain, and
    the estimate from the counts.
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
    _is_searched = False  # whether epsilon was set, for instance by a search
    _is_clone = False  # whether it is a clone, for instance of a search
    n_clipped_: int

    #: The parameter that declares the domain; its value "auto" learns the domain from the values.
    _domain_parameter: str

    #: Whether `_estimate_of` makes a row for each group, for `estimate_by_group`.
    _estimates_groups = True

    #: Checks of scikit-learn that it cannot pass, and the reasons.
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
        """Return the domain of users' values, if no domain is declared."""

    @abstractmethod
    def _make_mechanism(self, domain: Any) -> Mechanism:
        """Return the mechanism over a domain, from the (valid) parameters.

        This is the only hook of an oracle or a survey: fitting, planning, audits, searches and
        tests all use it.
        """

    @abstractmethod
    def _estimate_of(self, state: Collected) -> _Estimate:
        """Return the raw estimate from the collection."""

    def _planned_by(self, protocol: Any) -> dict[Any, PlannedEstimate]:
        """The expectations of each estimate of a protocol, by name, for planning."""
        raise NotImplementedError

    def _weights_by_name(self, domain: Any) -> Mapping[Any, float]:
        """The weights of the errors of estimates; a missing weight is 1."""
        return {}

    def _takes_open_domain(self) -> bool:
        """Return whether the mechanism needs no list of categories (``categories="open"``)."""
        return False

    # -- the protocol of client and server ----------------------------------------------------
    def protocol(self, collection_round: str = "") -> Protocol:
        """Return the protocol that a client and a server of a collection must agree on.

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
            If a parameter is not valid, or the domain is unknown.
        """
        kept = _KEPT.get(self)
        if kept is not None and kept.matches(vars(self)):
            protocol = kept.protocol
        else:
            protocol = self._protocol_over(self._domain())
            if not self._is_auto() and (kept := KeptProtocol.from_attributes(vars(self), protocol)):
                _KEPT[self] = kept
        return protocol.protocol(collection_round) if collection_round else protocol

    # -- client side --------------------------------------------------------------------------
    def privatize(self, X: Values, *, parts: ArrayLike | None = None) -> Reports:
        """Randomize users' values into reports, like each client; no fit is needed.

        Privacy: each call spends epsilon of every user in `X`. If the same users' values are
        randomized twice, epsilon is spent twice. Only ``random_state=None`` protects users. With an
        int every call draws the same random bits, which is for simulations.

        The reports contain their protocol (:class:`~sklearn_ldp.collection.Reports`), also in a
        file (:func:`~sklearn_ldp.collection.write_reports`). Servers refuse reports of another
        protocol. If you send or store plain arrays of reports, send
        ``oracle.protocol().configuration`` with them.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user.
        parts : array-like of int of shape (n_samples,), default=None
            The public part of each report (its hash function), if the collector assigns it with
            :func:`~sklearn_ldp.robustness.assigned_parts`. If None, each client draws its own part.

        Returns
        -------
        Reports whose first axis is the users
            The reports: an ndarray that contains the protocol.

        Raises
        ------
        ValueError
            If a value is not a category, the domain is unknown, or a part does not exist.
        TypeError
            If parts are passed, and the reports of the oracle have no public parts.
        """
        protocol = self.protocol()
        warn_of_epsilon(self._name, self.epsilon, self.random_state)
        if self.random_state is not None:
            warnings.warn(
                f"{self._name}.privatize draws predictable reports, which protect no user, because "
                f"random_state is {self.random_state!r}. Leave random_state out if the users are "
                "real.",
                PrivacyWarning,
                stacklevel=2,
            )
        return protocol.privatize(X, self.random_state, parts)

    # -- server side --------------------------------------------------------------------------
    def fit(self, X: Values, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Collect once: randomize the users' values (or read their reports) and add them up.

        Privacy: if `X` contains values, the call spends epsilon of every user in `X`. If `X`
        contains reports, it spends nothing. An earlier collection is forgotten.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user; several columns form one joint category. With
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
        X, sample_weight = self._rows_to_add(read_once(X), sample_weight)
        with self._ordered_draws():
            batch = self._draw(self._started(X), X, sample_weight, is_new=True)
            batch = batch._replace(after=replace(batch.after, is_of_fit=True))
            with lock_of(self):
                self._set_collected(batch, is_first=True)
        return self

    def partial_fit(
        self, X: Values, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add more users to the collection.

        Privacy: the same as for `fit`; the users should be new. With a seed, the result does not
        depend on the number of calls into which the values are split.

        Several threads may call `partial_fit`, :meth:`aggregate` and :meth:`merge` of one oracle at
        the same time: each user counts once. If a `fit` ends during such a call, the oracle forgets
        the users of that call. Each process needs its own oracle; then use `merge`.

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
        X, sample_weight = self._rows_to_add(read_once(X), sample_weight)
        return self._add(lambda state: self._draw(state, X, sample_weight), X)

    def aggregate(self, reports: ArrayLike) -> Self:
        """Add a batch of reports to the collection, which costs no privacy.

        Reports that contain another protocol are refused. For plain arrays, the oracle tests the
        number of categories that the reports support, at an error rate of 1e-9. OUE, SUE, OLH, BLH,
        HadamardResponse and ProjectiveGeometryResponse thus detect another epsilon if there are
        enough reports. They refuse the batch if the difference is too large to come from 15 % of
        malicious users, and otherwise warn once. Other oracles, such as GRR, cannot detect another
        epsilon, because their reports support the same number of categories at any epsilon. No
        oracle detects another order of the categories, or an array that was added before. Files and
        an :class:`~sklearn_ldp.collection.Aggregator` count each batch once.

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
        return self._add(
            lambda state: _Batch(state, state.with_reports(reports, None, self.n_jobs))
        )

    def merge(self, other: BaseCollector[Any]) -> Self:
        """Add the aggregated reports of another server of the same collection.

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
                f"{self._name}.merge got the {self._name} itself: its reports would count twice, "
                f"and the noise would seem too small. Pass another server's {self._name}."
            )
        if not isinstance(other, BaseCollector):
            raise TypeError(
                f"{self._name}.merge expects a {self._name}, got {type(other).__name__}. Pass the "
                "oracle of another server."
            )
        theirs = other._fitted("reports to merge")
        return self._add(lambda state: _Batch(state, state.merged(theirs)))

    def fit_transform(
        self, X: Values, y: object = None, sample_weight: ArrayLike | None = None
    ) -> _Estimate:
        """Collect once and return the estimate, the same release as `frequencies_`.

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

        Raises
        ------
        ValueError
            As for `fit`; also if ``Pipeline(memory=...)``, or another `joblib.Memory`, would write
            the values of real users (without a seed) to a disk.
        """
        if self.input == "values" and self.random_state is None:
            refuse_memory(self._name)
        warn_of_output(self)
        return self.fit(X, y, sample_weight=sample_weight).estimate_

    def transform(self, X: Values, sample_weight: ArrayLike | None = None) -> _Estimate:
        """Collect from other users and return their estimate; the fitted estimate does not change.

        Privacy: with values, this is a new collection, which spends epsilon of every user in `X`
        and gives a :class:`~sklearn_ldp.PrivacyWarning`. Users who were also in `fit` spend epsilon
        twice. With ``input="reports"`` the call spends nothing.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            As for `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            As for `fit`.

        Returns
        -------
        estimate
            The raw estimate of these users.
        """
        self._fitted("estimate to transform like")
        warn_of_output(self)
        X = read_once(X)
        others = self._other_users(X, sample_weight, "estimate to transform like")
        estimate = self._estimate_of(others)
        if self.input == "values":
            remember_values(estimate, X, sample_weight)
        return estimate

    def score(self, X: Values, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the squared error of the estimate, measured with other users.

        Searches and cross-validations of scikit-learn use this score if they have no ``scoring``.
        Larger is better.

        =======================  ==================================================================
        oracle and call          reference
        =======================  ==================================================================
        reads values             the frequencies of X: a simulation, without the noise of reports;
                                 not private
        reads reports            the reports in X: unbiased, without further epsilon. The noise of
                                 the reports may make a score positive (`held_out_score` of the
                                 metrics)
        reads reports, with y    the frequencies of y, the true values of the reports; not private
        =======================  ==================================================================

        Privacy: with values, and with y, the score is a function of the raw values. A search fits
        every candidate to the users again. They spend epsilon each time, which is for simulations.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            Users who were not in `fit`, in the same form.
        y : array-like of shape (n_samples,) or data frame, default=None
            The values of these users, if X contains their reports; otherwise ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            As for `fit`.

        Returns
        -------
        float
            Minus the mean squared error over all categories. For a survey, the mean over its
            columns, weighted by its `weights`.

        See Also
        --------
        sklearn_ldp.metrics.make_frequency_scorer : Scores for queries, and other metrics.
        """
        state = self._fitted("estimate to score")
        if self.input == "values":
            y = X = read_once(X)
            columns = columns_of(state.protocol.domain, X, self._name)
            self._check_features(X, len(columns), reset=False)
            if self._is_searched:
                text = (
                    f"{self._name} is scored by users' raw values in a search, which is a "
                    "simulation: the users spend epsilon for every candidate and every fold."
                    f"{_SEARCH_ADVICE}"
                )
                warn_once(text, PrivacyWarning, f"{self._name} searched by values")
        if y is None or not hasattr(self, "true_frequencies"):
            others = self._other_users(X, sample_weight, "estimate to score")
            return self._score(self.estimate_, self._estimate_of(others))
        if text := lost_weights(state, sample_weight):
            warnings.warn(text, UserWarning, stacklevel=2)
        truth: Any = self.true_frequencies(read_once(y), sample_weight)
        estimate: Any = self.estimate_
        return -mean_of_parts(query_errors(truth, estimate), self._fitted_weights())

    def _score(self, estimate: Any, held_out: Any) -> float:
        """Return minus the mean squared error of an estimate, by an estimate of other users."""
        return mean_of_parts(held_out_score(estimate, held_out), self._fitted_weights())

    def _other_users(self, X: Values, sample_weight: ArrayLike | None, needs: str) -> Collected:
        """Collect from users who were not in `fit`; the fitted state does not change."""
        state = self._continued(self._fitted(needs))
        if text := lost_weights(state, sample_weight):
            warnings.warn(text, UserWarning, stacklevel=3)
        state = state.emptied()
        if self.input == "reports":
            return state.with_reports(X, sample_weight, self.n_jobs)
        X = read_once(X)
        columns = columns_of(state.protocol.domain, X, self._name)
        self._check_features(X, len(columns), reset=False)
        codes = encode_columns(state.protocol.domain, columns, self._name)
        text = (
            f"{self._name} randomizes the values of its users in transform and score, and each "
            f"user spends epsilon={self.epsilon:g} (again, if the user was also in fit). For the "
            "estimate of fit use estimate_ (pipe[-1].estimate_ of a Pipeline). To add users use "
            f"partial_fit.{_SEARCH_ADVICE * self._is_searched}"
        )
        if self._is_searched:  # for every candidate and every fold
            warn_once(text, PrivacyWarning, f"{self._name} anew, searched")
        elif self.random_state is None:
            warnings.warn(text, PrivacyWarning, stacklevel=3)
        return state.with_values(codes, sample_weight, self.n_jobs)

    # -- results of fit -----------------------------------------------------------------------
    @property
    def n_samples_seen_(self) -> int:
        """Number of reports that have been added up."""
        return self._fitted("n_samples_seen_").counts.n_samples

    @property
    def estimate_(self) -> _Estimate:
        """The raw estimate."""
        estimate = self._estimate_of(self._fitted("estimate_"))
        self._warn_of_few_reports(estimate)
        return estimate

    def set_output(self, *, transform: str | None = None) -> Self:
        """Warn once that an oracle returns an estimate, with its categories and its noise.

        A Pipeline calls this method of each step. A data frame would lose the noise that the next
        step needs. ``estimate.to_frame()`` returns a data frame.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            The requested container. A data frame gives the warning, and has no other effect.

        Returns
        -------
        self : object
            The oracle, unchanged.
        """
        warn_of_output(self, transform)
        return self

    def set_params(self, **params: Any) -> Self:
        """Set parameters, except the protocol of reports that clients have already made.

        If an oracle reads reports, the clients have chosen epsilon and the rest of the protocol,
        except the domain. So a search over epsilon needs values, and is a simulation. Make another
        oracle for other reports. A search over whole oracles cannot detect that plain arrays have
        another protocol: pass reports that contain their protocol.

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
            If a parameter does not exist, or the oracle reads reports, and the parameter is part
            of their protocol.
        """
        # Compared by repr, because a parameter may be an array, and == compares its items.
        inputs = {repr(self.input), repr(params.get("input", "reports"))}
        current = self.get_params() if inputs == {repr("reports")} else {}
        free = (*PARTY_PARAMETERS, "n_shards", self._domain_parameter)
        for name, value in params.items():
            if name in current and name not in free and repr(value) != repr(current[name]):
                raise ValueError(
                    f"{self._name} reads reports, which were made with {name}={current[name]!r}, "
                    f'not {value!r}. Search over {name} with input="values", which is a '
                    "simulation, or make another oracle."
                )
        self._is_searched = self._is_searched or "epsilon" in params
        return super().set_params(**params)

    def __sklearn_clone__(self) -> Self:
        copy = super().__sklearn_clone__()
        copy._is_clone = True
        return copy

    def get_metadata_routing(self) -> Any:
        """Return the requests of scikit-learn's metadata routing.

        If `fit` requests weights, `transform` does too, because a Pipeline calls both.

        Returns
        -------
        MetadataRequest
            The requests of all methods.
        """
        requests = super().get_metadata_routing()
        weights = requests.fit.requests.get("sample_weight")
        if requests.transform.requests.get("sample_weight") is None and weights is not None:
            requests.transform.add_request(param="sample_weight", alias=weights)
        return requests

    def __collector__(self) -> CollectorTools:
        return CollectorTools(
            learns_domain=self._is_auto(),
            planned=lambda: self._planned_by(self.protocol()),
            state=self._fitted,
            weights=self._fitted_weights,
            fit_columns=self._fit_columns,
            with_counts=self._with_counts,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.random_state is None
        return tags

    # -- the parameters, and the collection with them -----------------------------------------
    @property
    def _name(self) -> str:
        return type(self).__name__

    def _is_auto(self) -> bool:
        declared = getattr(self, self._domain_parameter)
        return isinstance(declared, str) and declared == "auto"

    def _fitted(self, attribute: str) -> Collected:
        if self._state is None:
            raise NotFittedError(
                f"This {self._name} instance is not fitted yet and has no {attribute}. First call "
                "fit with users' values, or aggregate with their reports."
            )
        return self._state

    def _warn_of_few_reports(self, estimate: Any) -> None:
        """Warn once if the interval of an estimate would cover the whole possible range."""
        n = self.n_samples_seen_
        if self.random_state is not None or not n:
            return
        error = self._error_in_range(estimate)
        if error > _LARGEST_ERROR:
            text = (
                f"{self._name} estimates from {counted(n, 'report')} with a standard error of "
                f"{error:.2g} of the possible range, so any answer is compatible with the reports. "
                "Collect more reports, or choose a larger epsilon."
            )
            warn_once(text, UserWarning, "few reports")

    def _error_in_range(self, estimate: Any) -> float:
        """Return the largest standard error, relative to the possible range."""
        noise = getattr(estimate, "noise", None)  # None for sets of tables
        return 0.0 if noise is None else float(np.max(noise.std, initial=0))

    def _fitted_weights(self) -> Mapping[Any, float]:
        return self._weights_by_name(self._fitted("weights").protocol.domain)

    def _fit_columns(self, columns: list[Any], sample_weight: ArrayLike | None, name: str) -> Self:
        warn_of_epsilon(name, self.epsilon, self.random_state)
        state = self._started()
        state = replace(state, protocol=replace(state.protocol, name=name))
        codes = encode_columns(state.protocol.domain, columns, name)
        self._state = state.with_values(codes, sample_weight, self.n_jobs)
        return self

    def _with_counts(self, counts: Counts) -> Self:
        fitted = clone(self)
        fitted._state = fitted._started().emptied(counts)
        return fitted

    def _check_parameters(self) -> None:
        self._validate_params()
        if not self.epsilon <= sys.float_info.max:
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be a finite number > 0. Got "
                f"{self.epsilon!r} instead."
            )

    def _domain(self) -> Domain:
        """Return the domain that is declared, or that "auto" has learned."""
        state = self._state
        declared = getattr(self, self._domain_parameter)
        if state is not None and (
            self._is_auto() or declared is state.parameters[self._domain_parameter]
        ):
            return state.protocol.domain
        return self._domain_of(declared)

    def _domain_with(self, X: Any) -> tuple[Domain | None, str]:
        """Return the domain that needs users' values, or None, and the name of a learned part."""
        if not self._is_auto():
            return None, ""
        return self._learned_domain(X), "" if declares_levels(X) else "the domain"

    def _protocol_over(self, domain: Domain) -> Protocol:
        self._check_parameters()
        if domain.is_open and not self._takes_open_domain():
            raise ValueError(
                f"{self._name} numbers the categories, so it needs a list of them, but the domain "
                'is open. Pass a list, or use OLH(categories="open", hash_family="mixing").'
            )
        mechanism = self._informative_mechanism(domain)
        return Protocol(mechanism, domain, self.epsilon, self._name, "", self.n_shards, self.n_jobs)

    def _informative_mechanism(self, domain: Any) -> Mechanism:
        """Return the mechanism over a domain; refuse a mechanism without any information."""
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
        domain = None
        learned = ""
        if self.input == "values" and X is not None:
            domain, learned = self._domain_with(X)
            if learned:
                warn_of_learned(
                    self._name,
                    learned,
                    self._domain_parameter,
                    self.random_state,
                    is_repeated=self._is_clone,
                )
            warn_of_epsilon(self._name, self.epsilon, self.random_state)
        domain = self._domain() if domain is None else domain
        protocol = self._protocol_over(closed_domain(domain))
        streams = CoinStreams(self.random_state)
        parameters = self.get_params(deep=False)
        return Collected(protocol, protocol.empty, streams, parameters, is_learned=bool(learned))

    def _continued(self, state: Collected | None, X: Any = None) -> Collected:
        """Return the collection to add to, which must agree with the current parameters."""
        if state is None:
            return self._started(X)
        parameters = self.get_params(deep=False)
        if all(parameters[name] is value for name, value in state.parameters.items()):
            return state
        if state.protocol.difference(self.protocol()):
            raise ValueError(
                f"The parameters of this {self._name} have changed since it was fitted, and "
                "reports of two protocols cannot be added up. Call fit, or use a new oracle "
                "(sklearn.base.clone)."
            )
        return state

    def _rows_to_add(self, X: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Return the rows to add and their weights; a subclass may refuse or drop rows."""
        return X, sample_weight

    def _draw(
        self, state: Collected, X: Any, sample_weight: ArrayLike | None, *, is_new: bool = False
    ) -> _Batch:
        """Randomize values, or read reports, and add them to a collection; change no attribute."""
        if self.input == "reports":
            return _Batch(state, state.with_reports(X, sample_weight, self.n_jobs))
        domain = state.protocol.domain
        columns = columns_of(domain, X, self._name)
        if not is_new and hasattr(self, "n_features_in_"):
            self._check_features(X, len(columns), reset=False)
        codes = encode_columns(domain, columns, self._name)
        domain.warn_of_whole_numbers(columns, self._name)
        return _Batch(state, state.with_values(codes, sample_weight, self.n_jobs), X, columns)

    def _add(self, draw: Callable[[Collected], _Batch], X: Any = None) -> Self:
        """Draw a batch for the collection as it is now, and add the batch to the newest one."""
        with self._ordered_draws():
            # Ends: a batch is drawn again only if another thread has begun the collection.
            while True:
                begun = self._state
                batch = draw(self._continued(begun, X))
                if self._commit(begun, batch):
                    return self

    def _commit(self, begun: Collected | None, batch: _Batch) -> bool:
        """Add a batch to the newest collection; return False if the batch must be drawn again."""
        with lock_of(self):
            newest = self._state
            if newest is not begun:
                assert newest is not None  # nothing makes a collector unfitted
                if begun is None or newest.streams is not begun.streams:
                    # A later fit has forgotten the batch. Without one, another thread has begun
                    # the collection, and its domain may differ.
                    return newest.is_of_fit
                batch = batch._replace(after=newest.with_additions(batch.before, batch.after))
            self._set_collected(batch, is_first=begun is None)
        return True

    def _set_collected(self, batch: _Batch, *, is_first: bool) -> None:
        """Set the attributes that a batch changes, while the lock is acquired."""
        columns = batch.columns
        if columns is not None:
            if is_first or not hasattr(self, "n_features_in_"):
                self._check_features(batch.X, len(columns), reset=True)
            n_new = n_clipped(batch.after.protocol.domain, columns)
            if n_new is not None:
                n_before = 0 if is_first else getattr(self, "n_clipped_", 0)
                self.n_clipped_ = n_before + n_new
        self._state = batch.after

    def _ordered_draws(self) -> AbstractContextManager[Any]:
        """Return the lock of draws with a seed, because their order determines the random bits.

        A collection that began with a seed continues with it, even if the parameter has changed.
        """
        begun = self._state
        is_seeded = begun is not None and not begun.streams.is_secure
        needs_order = (is_seeded or self.random_state is not None) and self.input == "values"
        return lock_of(self) if needs_order else nullcontext()

    def _check_features(self, X: Any, n_features: int, *, reset: bool) -> None:
        """Record or check the number and the names of the columns, like scikit-learn."""
        if reset:
            self.n_features_in_ = n_features
        elif n_features != self.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but {self._name} is expecting "
                f"{self.n_features_in_} features as input. Reshape your data to one row per user, "
                "with the columns that fit received."
            )
        validate_data(self, X, reset=reset, skip_check_array=True, ensure_2d=False)
