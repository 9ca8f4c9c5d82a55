"""What all oracles share, whatever their estimate is of: the life of a collection."""

from __future__ import annotations

import math
import warnings
from abc import ABCMeta, abstractmethod
from numbers import Integral, Real
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from .._documentation import Documented
from .._random import RandomState
from .._typing import Values
from ..domains import Domain
from ..domains._columns import read_once
from ..mechanisms._coins import CoinStreams
from ..mechanisms._mechanism import Mechanism
from ..protocols import Counts, Protocol
from ._state import Collected

_ONE_ROW = "an estimate has one row per collection, not one per user"
_Estimate = TypeVar("_Estimate")


class PrivacyWarning(UserWarning):
    """Warning that a call spends users' privacy where one may not expect it."""


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
        "epsilon": [Interval(Real, 0, None, closed="neither")],
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
    def _make_mechanism(self, domain: Domain) -> Mechanism:
        """Return the mechanism over a domain, from the (valid) parameters."""

    @abstractmethod
    def _estimate_of(self, state: Collected) -> _Estimate:
        """Return the raw estimate of what was collected."""

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
        return self._protocol_over(self._domain(), collection_round)

    # -- client side --------------------------------------------------------------------------
    def privatize(self, X: Values, *, parts: ArrayLike | None = None) -> np.ndarray:
        """Randomise users' values into reports, as each client does; no fit is needed.

        Privacy: each call spends epsilon of every user in `X`; randomising the same users' values
        twice spends it twice. Only ``random_state=None`` protects anybody. With an int every call
        draws the same coins, which is for simulations.

        An array of reports does not say which epsilon and categories it is of. A file does
        (:func:`~sklearn_ldp.collection.write_reports`); if you send arrays, send
        ``oracle.protocol().domain.digest`` with them, and compare it where they are added up.

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
        ndarray whose first axis is the users
            The reports.

        Raises
        ------
        ValueError
            If a value is not a category, the domain is not known, or a part does not exist.
        TypeError
            If parts are given to an oracle whose reports have none.
        """
        return self.protocol().privatize(X, self.random_state, parts)

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

    def aggregate(self, reports: ArrayLike, *, shards: ArrayLike | None = None) -> Self:
        """Add a batch of reports to the collection, which costs no privacy.

        Arrays carry neither their domain nor a name, so a batch of another order of the
        categories, or one that was added before, cannot be recognised here: compare
        ``oracle.protocol().domain.digest``, or use files and an
        :class:`~sklearn_ldp.collection.Aggregator`, which counts each batch once.

        Parameters
        ----------
        reports : array-like whose first axis is the users
            Reports as `privatize` returns them.
        shards : array-like of int of shape (n_reports,), default=None
            The shard of each report, in [0, `n_shards`); it must not depend on the users' values.
            None assigns the reports to the shards in turn.

        Returns
        -------
        self : object
            The oracle with the reports added.

        Raises
        ------
        ValueError
            If a report cannot come from this oracle; the whole batch is then refused.
        """
        state = self._continued()
        if shards is not None:
            reports = np.asarray(reports)
            shards = state.checked_shards(shards, len(reports) if reports.ndim else 1)
        self._state = state.with_reports(reports, None, self.n_jobs, shards)
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
        state = self._continued().emptied()
        if self.input == "reports":
            return self._estimate_of(state.with_reports(X, None, self.n_jobs))
        X = read_once(X)
        columns = state.protocol.domain.columns_of(X, self._name)
        self._check_features(X, len(columns), reset=False)
        codes = state.protocol.domain.encode_columns(columns, self._name)
        warnings.warn(
            f"{self._name}.transform randomises its users' values anew, which costs each of "
            f"them epsilon={self.epsilon:g} (again, if they were in fit as well). For the "
            "estimate that fit has made use estimate_; to add users use partial_fit.",
            PrivacyWarning,
            stacklevel=2,
        )
        return self._estimate_of(state.with_values(codes, None, self.n_jobs))

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
        """Do nothing: an oracle returns an estimate, which knows its categories and its noise.

        Pipelines call this on each of their steps, but a data frame would lose the noise that the
        next step needs. ``estimate.to_frame()`` returns a data frame.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            Ignored.

        Returns
        -------
        self : object
            The oracle, unchanged.
        """
        return self

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
        if not math.isfinite(self.epsilon):
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
        mechanism = self._make_mechanism(domain)
        if not mechanism.is_informative:
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be large enough for a report to "
                f"carry information at a resolution of 2**-64. Got {self.epsilon!r}."
            )
        return Protocol(
            mechanism,
            domain,
            self.epsilon,
            self._name,
            collection_round,
            self.n_shards,
            self.n_jobs,
        )

    def _started(self, X: Any = None) -> Collected:
        """Return an empty collection with the current parameters."""
        self._check_parameters()
        learns = self._is_auto() and self.input == "values" and X is not None
        domain = self._learned_domain(X) if learns else self._domain()
        protocol = self._protocol_over(domain.closed())
        streams = CoinStreams(self.random_state)
        return Collected(protocol, protocol.empty, streams, self.get_params(deep=False))

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

    def _with_counts(self, counts: Counts) -> Self:
        """Return a fitted oracle like this one that holds these counts."""
        fitted = clone(self)
        fitted._state = fitted._started().emptied(counts)
        return fitted

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
