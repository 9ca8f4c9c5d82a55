"""The base class of all oracles and surveys: it collects reports, for estimates of any kind."""

from __future__ import annotations

import sys
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Generic, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

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
from ..domains import (
    Domain,
    check_raw_values,
    closed_domain,
    columns_of,
    encode_columns,
    n_clipped,
)
from ..domains.values import declares_levels, read_once, refuse_shuffled
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
# For each oracle, the arrays of reports that it has counted and that are still in memory.
_COUNTED: WeakKeyDictionary[BaseCollector[Any], Any] = WeakKeyDictionary()
_ONE_ROW = "an estimate has one row per collection, not one per user"
_Estimate = TypeVar("_Estimate")


class PlannedEstimate(NamedTuple):
    """The expected noise of one estimate of a collection, before any data is collected."""

    domain: Domain
    oracle: Any  # the unfitted oracle of its question; None if there is none
    #: The noise of a collection of one user: the variances of n users are n times smaller. For a
    #: mean this is the mechanism, which computes the variance of one report.
    noise: Noise | Any
    weight: float  # the weight of its errors


class CollectorTools(NamedTuple):
    """Functions and facts of an oracle or a survey that other modules of the package use.

    The method `__collector__` of the oracle returns this object.
    """

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
    """A batch of users who are added to a collection: the collection before and after the addition.

    If the batch consists of values, and not of reports, it also contains the values.
    """

    before: Collected
    after: Collected
    X: Any = None
    columns: list[Any] | None = None


class Budget(Interval):
    """The constraint on a privacy budget, for scikit-learn's validation of parameters.

    The budget must be a number > 0, and must not be True.
    """

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
    """Base class of all estimators that collect users' values.

    Its methods are for clients (`privatize`), for servers (`aggregate`, `merge`), and for both in
    one process (`fit`). A subclass specifies the parameter that declares the domain, the mechanism
    for a domain, and the estimate that is computed from the counts of reports.
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
        """Return the domain, given the value of the parameter that declares it
        (`_domain_parameter`)."""

    @abstractmethod
    def _learned_domain(self, X: Values) -> Domain:
        """Return the domain that is learned from users' values, because no domain is declared."""

    @abstractmethod
    def _make_mechanism(self, domain: Any) -> Mechanism:
        """Return the mechanism for a domain. The parameters of the estimator are valid.

        A subclass must define this method. Fitting, planning, audits of epsilon, searches and tests
        use the mechanism.
        """

    @abstractmethod
    def _estimate_of(self, state: Collected) -> _Estimate:
        """Return the raw estimate that is computed from the collected reports."""

    def _planned_by(self, protocol: Any) -> dict[Any, PlannedEstimate]:
        """Return, for planning, the expected noise of each estimate of a protocol, by the
        estimate's name."""
        raise NotImplementedError

    def _weights_by_name(self, domain: Any) -> Mapping[Any, float]:
        """Return the weights of the estimates' errors in a mean error, by name. A missing weight
        is 1."""
        return {}

    def _takes_open_domain(self) -> bool:
        """Return whether clients need no list of categories, so that ``categories="open"`` is
        allowed."""
        return False

    # -- the protocol of client and server ----------------------------------------------------
    def protocol(self, collection_round: str = "") -> Protocol:
        """Return the protocol: the configuration that clients and the server must share.

        Parameters
        ----------
        collection_round : str, default=""
            Name of the collection round. Reports of different rounds are not counted together.

        Returns
        -------
        Protocol
            The protocol with the current parameters. It contains the mechanism, the domain and the
            name of the round.

        Raises
        ------
        ValueError
            If a parameter is not valid, or if the domain is neither declared nor learned.
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
        """Randomize users' values to reports, as the client of each user does.

        You need not call `fit` before.

        Privacy: each call spends epsilon of every user in `X`. If the same users' values are
        randomized twice, epsilon is spent twice. Only ``random_state=None`` protects users. With an
        int every call draws the same random bits, which is for simulations.

        The protocol (the configuration that clients and the server must share) is attached to the
        reports, see :class:`~sklearn_ldp.collection.Reports`, and is also in the files of
        :func:`~sklearn_ldp.collection.write_reports`. So servers can refuse reports of another
        protocol. If you send or store reports as plain arrays, also send
        ``oracle.protocol().configuration``.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user.
        parts : array-like of int of shape (n_samples,), default=None
            The public part of each report, which does not depend on the value, such as a hash
            function. Pass the result of :func:`~sklearn_ldp.robustness.assigned_parts` if the
            collector assigns the public parts. If None, they are drawn at random.

        Returns
        -------
        Reports whose first axis is the users
            The reports, an array to which the protocol is attached.

        Raises
        ------
        ValueError
            If a value is not a category, if the domain is neither declared nor learned, or if a
            number in `parts` is not valid.
        TypeError
            If `parts` is not None, and the reports of this oracle have no public part.
        """
        protocol = self.protocol()
        warn_of_epsilon(self._name, self.epsilon, self.random_state)
        if self.random_state is not None:
            warnings.warn(
                f"{self._name}.privatize draws predictable reports, which protect no user, because "
                f"random_state is {self.random_state!r}. For real users, leave random_state out.",
                PrivacyWarning,
                stacklevel=2,
            )
        return protocol.privatize(X, self.random_state, parts)

    # -- server side --------------------------------------------------------------------------
    def fit(self, X: Values, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Run a collection: randomize users' values to reports (or read reports), and count them.

        A second call starts again: the oracle forgets the reports of the first call.

        Privacy: if `X` contains values, the call spends epsilon of every user in `X`. If `X`
        contains reports, it spends nothing.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user. If there are several columns, a value is the combination of their
            values in a row. With ``input="reports"``, one report per user.
        y : None
            Ignored. It exists because scikit-learn's estimators have this parameter.
        sample_weight : array-like of shape (n_samples,), default=None
            The number of users that each row stands for, as non-negative integers. So you can pass
            a histogram: its categories as `X` and its counts as `sample_weight`. If None, each row
            is one user. Do not pass the weights of a survey: a row with the weight 50 counts as
            50 users, so intervals would be 7 times too short. For such weights use
            :func:`~sklearn_ldp.inference.poststratify` or :func:`~sklearn_ldp.inference.rake`.

        Returns
        -------
        self : object
            The fitted oracle.

        Raises
        ------
        ValueError
            If a value in `X` is not a category, if a report is not valid, or if `sample_weight`
            does not contain one valid weight per row. The oracle is then unchanged.
        """
        X, sample_weight = self._rows_to_add(read_once(X), sample_weight)
        with self._ordered_draws():
            batch = self._draw(self._started(X), X, sample_weight, is_new=True)
            batch = batch._replace(after=replace(batch.after, is_of_fit=True))
            with lock_of(self):
                self._set_collected(batch, is_first=True)
        _COUNTED.pop(self, None)
        self._note_reports(X)
        return self

    def partial_fit(
        self, X: Values, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add more users to the collection.

        Privacy: if `X` contains values, the call spends epsilon of every user in `X`. A user who
        was already added spends epsilon again.

        With a seed, the result does not depend on how the values are divided into calls. Several
        threads may call `partial_fit`, :meth:`aggregate` and :meth:`merge` of one oracle at the
        same time: each user counts once. If a `fit` ends during such a call, the oracle forgets the
        users of that call. If several processes collect, each needs its own oracle. Combine these
        oracles with `merge`.

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
            As for `fit`. The oracle is then unchanged.
        """
        X, sample_weight = self._rows_to_add(read_once(X), sample_weight)
        self._add(lambda state: self._draw(state, X, sample_weight), X)
        self._note_reports(X)
        return self

    def aggregate(self, reports: ArrayLike) -> Self:
        """Add a batch of reports to the collection.

        Privacy: this method spends no epsilon.

        If another protocol (configuration) is attached to the reports, they are refused. Plain
        arrays have no attached protocol. For these, the oracle tests the number of categories that
        the reports support (count in favor of), at an error rate of 1e-9. With enough reports, OUE,
        SUE, OLH, BLH, HadamardResponse and ProjectiveGeometryResponse thus detect that clients used
        another epsilon. They refuse the batch if 15 % of malicious users are too few to explain the
        difference, and otherwise warn once. Other oracles, such as GRR, cannot detect another
        epsilon, because their reports support the same number of categories for any epsilon.

        No oracle detects that plain arrays were made with another order of the categories. An
        oracle warns once if it gets the same array object twice, or reports of several rounds. It
        does not detect a copy. Files and an :class:`~sklearn_ldp.collection.Aggregator` count each
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
            If a report cannot come from this oracle, or if another protocol is attached to the
            reports. Then none of the reports is added.
        """
        self._add(lambda state: _Batch(state, state.with_reports(reports, None, self.n_jobs)))
        self._note_reports(reports)
        return self

    def merge(self, other: BaseCollector[Any]) -> Self:
        """Add the reports that another oracle has counted, for example on another server.

        Parameters
        ----------
        other : oracle
            A fitted oracle of the same class with the same epsilon, domain and other parameters of
            the protocol. It is not changed.

        Returns
        -------
        self : object
            This oracle, to which the reports of `other` have been added.

        Raises
        ------
        ValueError
            If `other` is this oracle, or if its protocol or its `n_shards` differs. This oracle is
            then unchanged.
        TypeError
            If `other` is not an oracle of the same class.
        """
        if other is self:
            raise ValueError(
                f"{self._name}.merge got the same {self._name} object, so its reports would count "
                f"twice. Pass the {self._name} of another server."
            )
        if not isinstance(other, BaseCollector):
            raise TypeError(
                f"{self._name}.merge expects a {self._name}, got {type(other).__name__}. Pass the "
                f"{self._name} of another server."
            )
        theirs = other._fitted("reports to merge")
        if self._state is not None and self._state.has_equal_counts(theirs):
            text = f"{self._name}.merge got a {self._name} with equal counts of reports, so users "
            text += f"count twice if it is a copy. Merge each {self._name} once."
            warn_once(text, UserWarning, f"{self._name}: a merged copy")
        return self._add(lambda state: _Batch(state, state.merged(theirs)))

    def fit_transform(
        self, X: Values, y: object = None, sample_weight: ArrayLike | None = None
    ) -> _Estimate:
        """Run a collection like `fit`, and return its estimate.

        Privacy: if `X` contains values, the call spends epsilon of every user in `X`. The returned
        estimate is the attribute `estimate_`, so it spends no further epsilon.

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
            As for `fit`. Also if ``random_state=None``, and ``Pipeline(memory=...)`` or another
            `joblib.Memory` would write the users' values to a disk.
        """
        if self.input == "values" and self.random_state is None:
            refuse_memory(self._name)
        warn_of_output(self)
        return self.fit(X, y, sample_weight=sample_weight).estimate_

    def transform(self, X: Values, sample_weight: ArrayLike | None = None) -> _Estimate:
        """Run another collection from the users in `X`, and return its estimate.

        The oracle and its estimate do not change.

        Privacy: if `X` contains values, the call spends epsilon of every user in `X`, and causes a
        :class:`~sklearn_ldp.PrivacyWarning`. Users who were also in `fit` spend epsilon twice. With
        ``input="reports"`` the call spends nothing.

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
        """Return minus the mean squared error of the fitted estimate, measured with other users.

        Larger is better. Searches and cross-validations of scikit-learn use this score if no
        ``scoring`` is passed. The table shows with which frequencies the estimate is compared:

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

        Privacy: if `X` contains values, or if `y` is passed, the score is computed from raw values.
        A search runs another collection from the same users for every candidate. They spend epsilon
        each time, so such a search is for simulations.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            Values or reports of users who were not in `fit`, in the same form as in `fit`.
        y : array-like of shape (n_samples,) or data frame, default=None
            If `X` contains reports, the true values of these users. Otherwise ignored.
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
        """Return minus the mean squared error of an estimate, measured with an estimate of other
        users."""
        return mean_of_parts(held_out_score(estimate, held_out), self._fitted_weights())

    def _other_users(self, X: Values, sample_weight: ArrayLike | None, needs: str) -> Collected:
        """Run a collection from the users in `X`, and return it. The attributes of the oracle do
        not change.

        `needs` is the name of the attribute in the error message if the oracle is not fitted.
        """
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
        """Number of reports that have been counted."""
        return self._fitted("n_samples_seen_").counts.n_samples

    @property
    def estimate_(self) -> _Estimate:
        """The raw estimate from the collected reports."""
        estimate = self._estimate_of(self._fitted("estimate_"))
        self._warn_of_few_reports(estimate)
        return estimate

    def set_output(self, *, transform: str | None = None) -> Self:
        """Warn once that this oracle never returns data frames. The method has no other effect.

        A Pipeline calls this method of each step. An oracle always returns an estimate, because a
        data frame would not contain the noise that the next step needs. To convert an estimate to a
        data frame, use ``estimate.to_frame()``.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            The requested container. "pandas" and "polars" cause the warning.

        Returns
        -------
        self : object
            The oracle, unchanged.
        """
        warn_of_output(self, transform)
        return self

    def set_params(self, **params: Any) -> Self:
        """Set parameters. If the oracle reads reports, epsilon and similar parameters are fixed.

        With ``input="reports"``, the clients have already used epsilon and all other parameters of
        the protocol. So this method refuses to change them, except the domain. To read reports that
        were made with other parameters, create another oracle. To search over epsilon, use values,
        which is a simulation.

        A search over whole oracles cannot detect that plain arrays of reports were made with other
        parameters. So pass reports to which their protocol is attached
        (:class:`~sklearn_ldp.collection.Reports`).

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
            If a parameter does not exist, or if it is part of the protocol of the reports that the
            oracle reads.
        """
        # Compared by repr, because a parameter may be an array, and == compares its items.
        inputs = {repr(self.input), repr(params.get("input", "reports"))}
        current = self.get_params() if inputs == {repr("reports")} else {}
        free = (*PARTY_PARAMETERS, "n_shards", self._domain_parameter)
        for name, value in params.items():
            if name in current and name not in free and repr(value) != repr(current[name]):
                raise ValueError(
                    f"{self._name} reads reports, so {name} cannot be changed from "
                    f"{current[name]!r} to {value!r}: the reports were made with "
                    f"{name}={current[name]!r}. Create another {self._name} for other reports. To "
                    f'search over {name}, use input="values", which is a simulation.'
                )
        self._is_searched = self._is_searched or "epsilon" in params
        return super().set_params(**params)

    def __sklearn_clone__(self) -> Self:
        copy = super().__sklearn_clone__()
        copy._is_clone = True
        return copy

    def get_metadata_routing(self) -> Any:
        """Return which metadata, such as `sample_weight`, scikit-learn passes to each method.

        If `fit` requests `sample_weight`, `transform` requests it as well, because a Pipeline calls
        both methods.

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
        """Warn once if the noise is so large that an interval would cover all possible values."""
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
        """Return the largest standard error, as a proportion of the range of possible values."""
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
        """Return the declared domain, or the domain that `fit` has learned with "auto"."""
        state = self._state
        declared = getattr(self, self._domain_parameter)
        if state is not None and (
            self._is_auto() or declared is state.parameters[self._domain_parameter]
        ):
            return state.protocol.domain
        return self._domain_of(declared)

    def _domain_with(self, X: Any) -> tuple[Domain | None, str]:
        """If the domain is "auto", return the domain of users' values, and a name for a warning.

        The name is "" if the values declare their levels, and "the domain" if it was learned. If
        the domain is declared, return (None, "").
        """
        if not self._is_auto():
            return None, ""
        return self._learned_domain(X), "" if declares_levels(X) else "the domain"

    def _protocol_over(self, domain: Domain) -> Protocol:
        self._check_parameters()
        if domain.is_open and not self._takes_open_domain():
            raise ValueError(
                f"{self._name} needs a list of the categories, but the domain is open. Pass a "
                'list as categories=, or use OLH(categories="open", hash_family="mixing").'
            )
        mechanism = self._informative_mechanism(domain)
        return Protocol(mechanism, domain, self.epsilon, self._name, "", self.n_shards, self.n_jobs)

    def _informative_mechanism(self, domain: Any) -> Mechanism:
        """Return the mechanism for a domain. Raise ValueError if its reports do not depend on the
        values."""
        mechanism = self._make_mechanism(domain)
        if not mechanism.is_informative:
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be large enough for a report to "
                "carry information, because probabilities are rounded to multiples of 2**-64. Got "
                f"{self.epsilon!r}."
            )
        return mechanism

    def _note_reports(self, reports: Any) -> None:
        """Warn once if this oracle has counted the same array of reports before."""
        if not isinstance(reports, Reports):
            return
        counted = _COUNTED.setdefault(self, WeakValueDictionary())
        if counted.get(id(reports)) is reports:
            text = f"{self._name} has counted an array of reports again, so its users count twice. "
            text += "Pass each array once, or use an Aggregator, which counts each batch once."
            warn_once(text, UserWarning, f"{self._name}: the same reports")
        counted[id(reports)] = reports

    def _started(self, X: Any = None) -> Collected:
        """Return a collection without reports, with the current parameters of the oracle.

        If the domain is "auto", it is learned from the values X.
        """
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
        """Return the collection to which reports are added. Start a collection if `state` is None.

        Raise ValueError if the parameters of the oracle have changed since the collection started.
        """
        if state is None:
            return self._started(X)
        parameters = self.get_params(deep=False)
        if all(parameters[name] is value for name, value in state.parameters.items()):
            return state
        if state.protocol.difference(self.protocol()):
            raise ValueError(
                f"The parameters of this {self._name} have changed since it was fitted, and "
                "reports with different parameters cannot be counted together. To start again, "
                f"call fit. To keep the old reports, use another {self._name} "
                "(sklearn.base.clone) for the new reports."
            )
        return state

    def _rows_to_add(self, X: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Return the rows (values or reports) to add and their weights.

        A subclass may refuse or remove rows.
        """
        return X, sample_weight

    def _draw(
        self, state: Collected, X: Any, sample_weight: ArrayLike | None, *, is_new: bool = False
    ) -> _Batch:
        """Return the batch that results from adding values or reports to a collection.

        Values are randomized to reports. The attributes of the oracle do not change.
        """
        refuse_shuffled(self._name, X=X, sample_weight=sample_weight)
        if self.input == "reports":
            return _Batch(state, state.with_reports(X, sample_weight, self.n_jobs))
        domain = state.protocol.domain
        columns = columns_of(domain, X, self._name)
        if not is_new and hasattr(self, "n_features_in_"):
            self._check_features(X, len(columns), reset=False)
        codes = encode_columns(domain, columns, self._name)
        check_raw_values(domain, columns, self._name)
        return _Batch(state, state.with_values(codes, sample_weight, self.n_jobs), X, columns)

    def _add(self, draw: Callable[[Collected], _Batch], X: Any = None) -> Self:
        """Add a batch, which `draw` creates, to the collection of this oracle.

        If another thread adds reports at the same time, the batch is added to the result. If
        another thread starts the collection, the batch is drawn again.
        """
        with self._ordered_draws():
            # Ends: a batch is drawn again only if another thread has begun the collection.
            while True:
                begun = self._state
                batch = draw(self._continued(begun, X))
                if self._commit(begun, batch):
                    return self

    def _commit(self, begun: Collected | None, batch: _Batch) -> bool:
        """Add a batch to the current collection of the oracle. Return False if it must be drawn
        again.

        `begun` is the collection for which the batch was drawn.
        """
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
        """Set the attributes that a batch changes. The caller has acquired the lock of this
        oracle."""
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
        """Return the lock of this oracle if there is a seed; otherwise a context manager without
        effect.

        With a seed, the order of calls determines the random bits. A collection that began with a
        seed continues with it, even if the parameter has changed.
        """
        begun = self._state
        is_seeded = begun is not None and not begun.streams.is_secure
        needs_order = (is_seeded or self.random_state is not None) and self.input == "values"
        return lock_of(self) if needs_order else nullcontext()

    def _check_features(self, X: Any, n_features: int, *, reset: bool) -> None:
        """Store (with `reset`) or check the number and the names of the columns, as scikit-learn
        does."""
        if reset:
            self.n_features_in_ = n_features
        elif n_features != self.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but {self._name} is expecting "
                f"{self.n_features_in_} features as input. Reshape your data to one row per user, "
                "with the columns that fit received."
            )
        validate_data(self, X, reset=reset, skip_check_array=True, ensure_2d=False)
