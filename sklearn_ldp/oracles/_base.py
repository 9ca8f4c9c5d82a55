"""The base of all frequency oracles: scikit-learn's side of a channel."""

from __future__ import annotations

import math
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from .._estimate import FrequencyEstimate
from .._noise import NoiseModel, Shards
from .._random import as_generator
from ._channel import Channel
from ._collection import Collection, expand, privatize
from ._docstrings import inherit_parameters
from ._domain import Domain, as_columns, check_counts, declared_domain, learned_domain
from ._reports import expect
from ._sampling import CoinStreams


class PrivacyWarning(UserWarning):
    """Users are about to spend privacy in a call where one may not expect it."""


@dataclass(frozen=True)
class _State:
    """All that is fitted, replaced as one, so that no failure leaves half of it changed.

    `first` is the position, in the streams of coins, of the collection's first user.
    """

    domain: Domain
    collection: Collection
    streams: CoinStreams
    first: int = 0

    @property
    def position(self) -> int:
        return self.first + self.collection.n_samples


@inherit_parameters
class BaseOracle(  # type: ignore[call-arg]
    TransformerMixin, BaseEstimator, metaclass=ABCMeta, auto_wrap_output_keys=None
):
    """Base of all frequency oracles.

    A new oracle is one file: a :class:`~sklearn_ldp.oracles.channels.Channel` with its
    probabilities, `privatize`, `count_support` and simulation law, and a class like this one
    whose `_make_channel` builds it. Nothing else needs overriding.

    %(parameters)s
    """

    _parameter_constraints: dict = {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "categories": [StrOptions({"auto"}), "array-like", Integral],
        "input": [StrOptions({"values", "reports"})],
        "n_shards": [Interval(Integral, 1, None, closed="left")],
        "random_state": [None, Integral, np.random.RandomState, np.random.Generator],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Any = "auto",
        input: str = "values",
        n_shards: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.input = input
        self.n_shards = n_shards
        self.random_state = random_state
        self.n_jobs = n_jobs

    _state: _State | None = None

    @abstractmethod
    def _make_channel(self, n_categories: int) -> Channel:
        """Return the channel over so many categories, from the (valid) parameters."""

    # -- client side --------------------------------------------------------------------------
    def privatize(self, X: Any) -> np.ndarray:
        """Randomise users' values into reports, as each client does; no fit is needed.

        Privacy: each call spends epsilon of every user in `X`; randomising the same users' values
        twice spends it twice. Only ``random_state=None`` protects anybody. With an int every call
        draws the same coins, which is for simulations.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value a user.

        Returns
        -------
        ndarray whose first axis is the users
            The reports.

        Raises
        ------
        ValueError
            If a value is no category, or the domain is not known.
        """
        self._check_parameters()
        domain = self._known_domain()
        codes = domain.encode(as_columns(X, self._name), self._name)
        streams = CoinStreams(self.random_state)
        return privatize(self._usable_channel(domain), codes, 0, streams)

    # -- server side --------------------------------------------------------------------------
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Collect once: randomise the users' values (or read their reports) and add them up.

        Privacy: spends epsilon of every user in `X` when it holds values; nothing when it holds
        reports. What was collected before is forgotten.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value a user, several columns being one joint category; or, with
            ``input="reports"``, one report a user.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            The number of users of each row, so that a histogram can be fitted: non-negative
            integers.

        Returns
        -------
        self : object
            Fitted.

        Raises
        ------
        ValueError
            If `X` or `sample_weight` is malformed; the oracle is unchanged then.
        """
        self._check_parameters()
        return self._collect(X, sample_weight, state=None)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add more users to the collection.

        Privacy: as `fit`; the users should be new ones. With a seed, values in pieces give what
        they give at once.

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
            With the users added.

        Raises
        ------
        ValueError
            As `fit`; the oracle is unchanged then.
        """
        self._check_parameters()
        return self._collect(X, sample_weight, state=self._state)

    def aggregate(self, reports: Any, *, shards: Any = None) -> Self:
        """Add a batch of reports to the collection; costs no privacy.

        Parameters
        ----------
        reports : array-like whose first axis is the users
            As `privatize` returns them.
        shards : array-like of int of shape (n_reports,), default=None
            The shard of each report, in [0, `n_shards`); it must not depend on the users' values.
            None deals the reports out in turn.

        Returns
        -------
        self : object
            With the reports added.

        Raises
        ------
        ValueError
            If a report cannot come from this oracle; the batch is refused whole then.
        """
        self._check_parameters()
        return self._add_reports(reports, None, self._state, shards)

    def merge(self, other: BaseOracle) -> Self:
        """Add what another server of the same collection has aggregated.

        Parameters
        ----------
        other : oracle
            Of the same class, epsilon, domain and protocol; it stays as it is.

        Returns
        -------
        self : object
            With the other's reports added.

        Raises
        ------
        ValueError
            If the two are configured differently; the oracle is unchanged then.
        """
        if not isinstance(other, BaseOracle):
            raise TypeError(
                f"{self._name}.merge needs another {self._name}, got {type(other).__name__}."
            )
        theirs = other._fitted("anything to merge")
        self._check_parameters()
        mine = self._continued()
        self._refuse_other_configuration(mine, other, theirs)
        self._state = replace(mine, collection=mine.collection.merged(theirs.collection))
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> FrequencyEstimate:
        """Collect once and return the estimate: the one release that `frequencies_` holds.

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
        FrequencyEstimate of shape (1, d)
            The raw estimate.
        """
        return self.fit(X, y, sample_weight=sample_weight).estimate_

    def transform(self, X: Any) -> FrequencyEstimate:
        """Collect anew from other users and return their estimate; the fitted one stays.

        Privacy: with values, a new collection that spends epsilon of every user in `X`, and a
        :class:`~sklearn_ldp.PrivacyWarning` says so: users who were in `fit` as well have spent
        it twice. With ``input="reports"`` it is free.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            As for `fit`.

        Returns
        -------
        FrequencyEstimate of shape (1, d)
            The raw estimate of these users.
        """
        state = self._fitted("estimate to transform like")
        if self.input == "values":
            self._check_features(X, len(as_columns(X, self._name)), reset=False)
            warnings.warn(
                f"{self._name}.transform randomises its users' values anew, which costs each of "
                f"them epsilon={self.epsilon:g} (again, if they were in fit as well). For the "
                "estimate that fit has made use estimate_; to add users use partial_fit.",
                PrivacyWarning,
                stacklevel=2,
            )
        fresh = clone(self)
        empty = Collection.empty(state.collection.channel, self.n_shards)
        # A seeded run goes on with fresh coins: those of the positions after the fitted users.
        fresh._state = replace(state, collection=empty, first=state.position)
        return fresh._collect(X, None, fresh._state).estimate_

    def simulate(self, counts: Any, n_repeats: int = 1) -> FrequencyEstimate:
        """Draw whole collections from known counts, without users: for studies.

        Privacy: none is protected; `counts` must be public or synthetic.

        Parameters
        ----------
        counts : array-like of shape (d,)
            True number of users of each category.
        n_repeats : int, default=1
            Number of independent collections.

        Returns
        -------
        FrequencyEstimate of shape (n_repeats, d)
            A row a collection.

        Raises
        ------
        ValueError
            If the counts are not non-negative integers, one a category.
        """
        self._check_parameters()
        counts = check_counts(counts, f"{self._name}.simulate: counts")
        if self._state is None and self._is_auto():
            domain = declared_domain(len(counts), self._name)
        else:
            domain = self._known_domain()
        if len(counts) != domain.size:
            raise ValueError(
                f"{self._name}.simulate expects one count for each of its {domain.size} "
                f"categories, got {len(counts)}."
            )
        if not isinstance(n_repeats, Integral) or n_repeats < 1:
            raise ValueError(f"{self._name}.simulate expects n_repeats >= 1, got {n_repeats!r}.")
        channel = self._usable_channel(domain)
        support = channel.simulate(counts, int(n_repeats), as_generator(self.random_state))
        noise = channel.noise(int(counts.sum()))
        return FrequencyEstimate(
            noise.debias(support), domain.categories, noise, self._simulator(domain)
        )

    def true_frequencies(self, X: Any) -> np.ndarray:
        """Raw frequencies of users' values, to judge estimates in simulations.

        Privacy: not private at all.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value a user.

        Returns
        -------
        ndarray of shape (d,)
            Their frequencies, in the order of the categories.

        Raises
        ------
        ValueError
            If a value is no category, or the domain is not known.
        """
        domain = self._known_domain()
        codes = domain.encode(as_columns(X, self._name), self._name)
        return np.bincount(codes, minlength=domain.size) / len(codes)

    # -- what is known after fit --------------------------------------------------------------
    @property
    def categories_(self) -> np.ndarray:
        """The domain, of shape (d,)."""
        return self._fitted("categories_").domain.categories

    @property
    def n_samples_seen_(self) -> int:
        """Number of reports added up."""
        return self._fitted("n_samples_seen_").collection.n_samples

    @property
    def support_counts_(self) -> np.ndarray:
        """How many reports support each category: int64 of shape (d,)."""
        return self._fitted("support_counts_").collection.support.copy()

    @property
    def noise_(self) -> NoiseModel:
        """The noise of the estimates."""
        collection = self._fitted("noise_").collection
        return collection.channel.noise(collection.n_samples)

    @property
    def frequencies_(self) -> np.ndarray:
        """Unbiased estimates of the frequencies, of shape (d,)."""
        self._fitted("frequencies_")
        return self.noise_.debias(self.support_counts_)

    @property
    def estimate_(self) -> FrequencyEstimate:
        """The raw estimate, of shape (1, d)."""
        state = self._fitted("estimate_")
        collection = state.collection
        channel, has_shards = collection.channel, len(collection.sizes) > 1
        return FrequencyEstimate(
            self.frequencies_,
            state.domain.categories,
            self.noise_,
            self._simulator(state.domain),
            Shards(collection.tallies, collection.sizes, channel.decode, channel.report_law)
            if has_shards
            else None,
        )

    def set_output(self, *, transform: str | None = None) -> Self:
        """Do nothing: an oracle returns an estimate, which knows its categories and its noise.

        Pipelines call it on each of their steps; a data frame would lose the noise that the next
        step needs. ``estimate.to_frame()`` makes one.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            Ignored.

        Returns
        -------
        self : object
            As it was.
        """
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the estimate's columns after the categories.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of shape (d,)
            The categories as strings.
        """
        check_is_fitted(self)
        return np.asarray([str(category) for category in self.categories_], dtype=object)

    def __sklearn_is_fitted__(self):
        return self._state is not None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.random_state is None
        return tags

    # -- the work -----------------------------------------------------------------------------
    @property
    def _name(self) -> str:
        return type(self).__name__

    def _is_auto(self) -> bool:
        return isinstance(self.categories, str) and self.categories == "auto"

    def _fitted(self, attribute: str) -> _State:
        if self._state is None:
            raise NotFittedError(
                f"This {self._name} instance is not fitted yet and has no {attribute}: call fit on "
                "users' values, or aggregate on their reports, first."
            )
        return self._state

    def _fitted_channel(self, attribute: str) -> Any:
        return self._fitted(attribute).collection.channel

    def _check_parameters(self) -> None:
        self._validate_params()
        if not math.isfinite(self.epsilon):
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be a finite number > 0. Got "
                f"{self.epsilon!r} instead."
            )

    def _known_domain(self) -> Domain:
        """The fitted or the declared domain."""
        if self._state is not None:
            return self._state.domain
        return declared_domain(self.categories, self._name)

    def _channel_over(self, domain: Domain) -> Channel:
        """The channel over a domain; only a hash of the categories needs more than their number."""
        return self._make_channel(domain.size)

    def _usable_channel(self, domain: Domain) -> Channel:
        channel = self._channel_over(domain)
        if not channel.q < channel.p:
            raise ValueError(
                f"The 'epsilon' parameter of {self._name} must be large enough for a report to "
                f"carry information at a resolution of 2**-64. Got {self.epsilon!r}."
            )
        return channel

    def _started(self, domain: Domain) -> _State:
        collection = Collection.empty(self._usable_channel(domain), self.n_shards)
        return _State(domain, collection, CoinStreams(self.random_state))

    def _continued(self) -> _State:
        """The state to add to, which must be one of the present parameters."""
        if self._state is None:
            return self._started(self._known_domain())
        fitted = self._state.collection.channel
        if not fitted.is_like(self._usable_channel(self._state.domain)):
            raise ValueError(
                f"The parameters of this {self._name} have changed since it was fitted: reports of "
                "two protocols do not add up. Call fit, or use a new oracle (sklearn.base.clone)."
            )
        return self._state

    def _collect(self, X, sample_weight, state, shards=None):
        """Add users to a state, or to none: all checks, then the work, then the new state."""
        if self.input == "reports":
            return self._add_reports(X, sample_weight, state, shards)
        columns = as_columns(X, self._name)
        known_features = state is not None and hasattr(self, "n_features_in_")
        if known_features:
            self._check_features(X, len(columns), reset=False)
        if state is not None:
            state = self._continued()
        elif self._is_auto():
            state = self._started(learned_domain(columns, self._name))
        else:
            state = self._started(declared_domain(self.categories, self._name))
        codes = state.domain.encode(columns, self._name)

        def make_reports(rows, start):
            channel = state.collection.channel
            return privatize(channel, codes[rows], state.position + start, state.streams)

        new_state = self._added(state, len(codes), sample_weight, make_reports, shards)
        if not known_features:
            self._check_features(X, len(columns), reset=True)
        self._state = new_state
        return self

    def _add_reports(self, reports, sample_weight, state, shards=None):
        """As `_collect`, of reports; they need a known domain."""
        if state is not None:
            state = self._continued()
        elif self._is_auto():
            state = self._started(self._known_domain())
        else:
            state = self._started(declared_domain(self.categories, self._name))
        reports = self._as_reports(reports, state.collection.channel)
        self._state = self._added(
            state, len(reports), sample_weight, lambda rows, start: reports[rows], shards
        )
        return self

    def _added(
        self,
        state: _State,
        n_rows: int,
        sample_weight: Any,
        make_reports: Callable,
        shards: Any = None,
    ) -> _State:
        n_users, ends = n_rows, None
        if sample_weight is not None:
            weights = check_counts(sample_weight, f"{self._name}: sample_weight")
            if len(weights) != n_rows:
                raise ValueError(
                    f"{self._name} expects one sample_weight a row of X: expected {n_rows}, got "
                    f"{len(weights)}."
                )
            ends = np.cumsum(weights)
            n_users = int(ends[-1])

        def reports_of_users(start, stop):
            return make_reports(expand(ends, start, stop), start)

        shards_of_users = None
        if shards is not None:
            shards = self._checked_shards(shards, n_rows, len(state.collection.sizes))

            def shards_of_users(start, stop):
                return shards[expand(ends, start, stop)]

        collection = state.collection.added(n_users, reports_of_users, self.n_jobs, shards_of_users)
        return replace(state, collection=collection)

    def _checked_shards(self, shards: Any, n_rows: int, n_shards: int) -> np.ndarray:
        shards = np.asarray(shards)
        is_valid = shards.shape == (n_rows,) and shards.dtype.kind in "iu"
        if not is_valid or not np.all((shards >= 0) & (shards < n_shards)):
            raise ValueError(
                f"{self._name} expects shards of shape ({n_rows},), integers in [0, "
                f"{n_shards - 1}], one a row; got dtype {shards.dtype}, shape {shards.shape}. It "
                f"keeps {n_shards} shards apart (n_shards={self.n_shards}, fewer where they would "
                "not fit in memory)."
            )
        return shards

    def _as_reports(self, reports: Any, channel: Channel) -> np.ndarray:
        array = np.asarray(reports)
        try:
            if array.dtype.kind == "b":
                array = array.view(np.uint8)
            if array.dtype.kind == "f" and np.all(array == np.floor(array)):
                # Whole floats come from containers that know no integers; NaN is not whole.
                array = array.astype(np.int64) if np.all(np.abs(array) < 2**53) else array
            expect(array.dtype.kind in "iu", "integers", array)
            expect(array.size, "at least one report", array)
            return channel.check_reports(array)
        except ValueError as error:
            raise ValueError(
                f"{self._name} cannot have made these reports: {error}. The batch is refused "
                f"whole; give what {self._name}.privatize returns, for the same epsilon and "
                "categories."
            ) from None

    def _refuse_other_configuration(self, mine: _State, other: BaseOracle, theirs: _State) -> None:
        def configuration(oracle, state):
            return {
                "oracle": oracle._name,
                "epsilon": oracle.epsilon,
                **state.collection.channel.configuration,
                "n_shards": len(state.collection.sizes),
                "number of categories": state.domain.size,
            }

        ours, others = configuration(self, mine), configuration(other, theirs)
        differing = [key for key in {**ours, **others} if ours.get(key) != others.get(key)]
        what = ", ".join(f"{key} {others.get(key)!r} into {ours.get(key)!r}" for key in differing)
        if not what and mine.domain.categories.tolist() != theirs.domain.categories.tolist():
            what = "the categories, or their order, differ"
        if what:
            raise ValueError(
                f"{self._name}.merge refuses a differently configured oracle ({what}): reports of "
                "two protocols do not add up. Make an estimate of each instead."
            )

    def _check_features(self, X: Any, n_features: int, *, reset: bool) -> None:
        """scikit-learn's record of the columns' number and names."""
        if reset:
            self.n_features_in_ = n_features
        elif n_features != self.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but {self._name} is expecting "
                f"{self.n_features_in_} features as input. Reshape your data to one row a user."
            )
        validate_data(self, X, reset=reset, skip_check_array=True, ensure_2d=False)

    def _simulator(self, domain: Domain) -> BaseOracle:
        """An unfitted oracle like this one, for whoever wants to simulate the collection."""
        return clone(self).set_params(
            categories=domain.categories, input="values", random_state=None, n_jobs=None
        )
