"""The base class of all post-processors, and the function that finds the noise they assume."""

from __future__ import annotations

import copy
import functools
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import _check_n_features, check_array, check_is_fitted, validate_data

from .._core.common.docs import Documented, fill_in, inherit_docstrings
from .._core.common.privacy import warn_of_output
from .._core.common.typing import Column
from .._core.domains.values import as_numbers, place_of_missing
from .._core.estimates import (
    EstimateSet,
    FrequencyEstimate,
    remember_values,
    remembered_values,
)
from .._core.estimates.errors import held_out_score, mean_of_parts, query_errors
from .._core.noise import NOISE_CONSTRAINT as NOISE_CONSTRAINT
from .._core.noise import Noise
from .._core.queries import Queries
from ._truth import true_frequencies, warn_of_lost_weights

_T = TypeVar("_T")
_Estimates = TypeVar("_Estimates", bound=FrequencyEstimate | EstimateSet)

# The paragraph of the parameter in the docstrings: %(noise)s if a number is sufficient, and
# %(noise_model)s otherwise.
NOISE_PARAGRAPHS = {
    "noise": """noise : float or NoiseModel, default=None
    The noise of the estimate. If None, the noise that the FrequencyEstimate contains is used. The
    estimate must then be raw: no post-processor may have changed it. A number is the noise level,
    which is the standard error at frequency 0, and is used as the standard error of all
    frequencies. A :class:`~sklearn_ldp.NoiseModel`, such as ``oracle.noise_``, also contains the
    growth of the variance with the frequency.""",
    "noise_model": """noise : NoiseModel, default=None
    The noise of the estimate. If None, the noise that the FrequencyEstimate contains is used. The
    estimate must then be raw: no post-processor may have changed it. For a plain array, pass a
    :class:`~sklearn_ldp.NoiseModel`, which contains `p`, `q` and the number of users. A noise level
    alone is not sufficient.""",
}

_MODEL = "noise=NoiseModel(p, q, n_samples)"
_NEEDS = {
    "std": ("the noise level", "noise= (the standard error at frequency 0, or a NoiseModel)"),
    "n_samples": ("the noise level and the number of users", _MODEL),
    "null_variance": ("the noise level and its growth with the frequency", _MODEL),
}

# Estimates of a single category are hardly ever larger, but most values of users are. Chosen by
# hand.
_MAX_ESTIMATE = 2.0

# Minimum share of users who answered, by which frequencies are divided. Chosen by hand.
_LEAST_SHARE = 1e-3

_FITTED = """estimate_ : FrequencyEstimate
    The fitted frequencies with their categories. The attributes `noise` and `shards` of the
    estimate still describe the estimate before post-processing.
n_features_in_ : int
    Number of categories.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns. Only defined if the columns of the input have names."""


def _estimates_stay_estimates(cls: type[_T]) -> type[_T]:
    """Change the methods `transform` and `fit_transform` of a class, and return the class.

    scikit-learn's `set_output` then has an effect only if the input is an array or a data frame.
    For a FrequencyEstimate or an EstimateSet, the result always has the same type as the input.
    """
    # A data frame would lose the noise that the next step of a Pipeline needs. So the result for an
    # estimate is an estimate, whatever the output is set to; `estimate.to_frame()` converts it.

    def choose(wrapped):
        @functools.wraps(wrapped)
        def method(self, X, *args, **kwargs):
            is_estimate = isinstance(X, FrequencyEstimate | EstimateSet)
            if is_estimate:
                warn_of_output(self)
            return (wrapped.__wrapped__ if is_estimate else wrapped)(self, X, *args, **kwargs)

        return method

    for name in ("transform", "fit_transform"):
        setattr(cls, name, choose(vars(cls)[name]))
    return cls


# Parameters, each of which replaces the noise of an oracle's estimate.
_NOISE_PARAMETERS = ("noise", "n_kept", "bandwidth", "epsilon", "oracle")


@_estimates_stay_estimates
class BasePostProcessor(
    Documented, OneToOneFeatureMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta
):
    """Base class of all post-processors.

    Like :class:`~sklearn.preprocessing.Normalizer`, a post-processor processes every row
    separately, so `transform` can be called without a previous `fit`. `fit` also stores the
    post-processed rows. A new post-processor needs a pure function of rows, and a class that calls
    this function in `_process`. Think twice before adding anything to this base class.

    An :class:`~sklearn_ldp.EstimateSet` contains several estimates, each with a name. `fit` fits
    one copy of the post-processor to each estimate and stores the copies in `estimators_`.
    `transform` processes each estimate by the copy with the same name.
    """

    _parameter_constraints: dict = {}

    #: Parameters that may be mappings from the names of a set's estimates to values.
    _part_parameters: tuple[str, ...] = ()

    #: Whether the post-processor assumes that frequencies sum to 1. If so, it refuses estimates
    #: whose `FrequencyEstimate.sums_to_one` is false.
    sums_to_one: Any = True

    estimate_: FrequencyEstimate  # or an EstimateSet, if the input is one

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # Docstrings refer to common paragraphs by %(fitted)s or %(noise)s.
        super().__init_subclass__(**kwargs)
        fill_in(cls, fitted=_FITTED, **NOISE_PARAGRAPHS)
        inherit_docstrings(cls)

    @abstractmethod
    def _process(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """Return the post-processed estimate, and set the fitted attributes of the subclass."""
        # `fit` calls it on the estimator itself, `transform` on a temporary copy, so that
        # `transform` changes no attribute.

    #: The attribute of :class:`~sklearn_ldp.NoiseModel` that the post-processor needs, or None.
    needs: str | None = None

    def knows(self, queries: Queries | None, estimate: FrequencyEstimate) -> bool:
        """Return whether a search should add this post-processor to its candidates for the queries.

        Parameters
        ----------
        queries : query set, (sparse) matrix of shape (n_queries, d) or None
            The queries of the search.
        estimate : FrequencyEstimate
            The estimate from which the queries are answered.

        Returns
        -------
        bool
            True if the result of the post-processor depends on the queries, or on the type of
            queries, and if the post-processor can process the estimate.
        """
        return False

    def is_reference(self, queries: Queries | None) -> bool:
        """Return whether a search chooses this post-processor by default for the queries.

        Parameters
        ----------
        queries : query set, (sparse) matrix of shape (n_queries, d) or None
            The queries of the search.

        Returns
        -------
        bool
            If True, a search chooses another candidate only if the other candidate is
            significantly better. If this method returns True for several candidates, the default
            of the search is the last of these candidates whose method `knows` returns True. If
            `knows` returns True for no candidate, the default is the first of these candidates.
        """
        return False

    def _takes_arrays(self) -> bool:
        """Return whether the post-processor can process a plain array.

        An array contains no noise. If the method needs the noise, a parameter must specify it.
        """
        values = [getattr(self, name) for name in _NOISE_PARAMETERS if hasattr(self, name)]
        return not values or any(value is not None and value != "auto" for value in values)

    def _sees_whole_sets(self) -> bool:
        """Return whether this post-processor processes all estimates of a set together.

        If False, each estimate of the set is processed separately.
        """
        return False

    def _fit_process(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """Return the post-processed estimate that `fit` stores in `estimate_`.

        Only searches override this method, because only their `fit` chooses from the rows.
        """
        return self._process(estimate)

    def fit(self, X: FrequencyEstimate | EstimateSet | ArrayLike, y: object = None) -> Self:
        """Post-process the estimates and store the result.

        Parameters
        ----------
        X : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, n_categories)
            Each row is one estimate of the distribution. Each estimate of a set is processed
            separately.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted post-processor.

        Raises
        ------
        ValueError
            If the post-processor needs the noise, but the noise is unknown.
        """
        # An earlier fit may have had another kind of input, with other attributes.
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)
        if isinstance(X, EstimateSet):
            self._validate_params()
            whole: Any = self._fit_set(X)
            self.estimate_ = whole
            return self
        self._has_categories = isinstance(X, FrequencyEstimate)
        self.estimate_ = self._as_estimate(self._fit_process(self._check(X, reset=True)))
        return self

    def _fit_set(self, estimates: EstimateSet) -> EstimateSet:
        """Fit a copy of this post-processor to each estimate of a set.

        Return the set of the post-processed estimates. An estimate without rows is unchanged.
        """
        nonempty = {name: part for name, part in estimates.items() if len(part)}
        copies = self._copies(estimates.names)
        fitted = {name: _named(name, copies[name].fit, part) for name, part in nonempty.items()}
        self.estimators_: dict[Any, Any] = fitted
        processed = {name: post.estimate_ for name, post in fitted.items()}
        return estimates.with_parts({**estimates, **processed})

    @overload
    def transform(self, X: _Estimates) -> _Estimates: ...
    @overload
    def transform(self, X: ArrayLike) -> np.ndarray: ...
    def transform(self, X: Any) -> Any:
        """Post-process estimates, each row separately.

        Parameters
        ----------
        X : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, n_categories)
            One estimate of the distribution per row.

        Returns
        -------
        FrequencyEstimate, EstimateSet or ndarray of shape (n_estimates, n_categories)
            The post-processed estimates: an array if `X` is array-like, otherwise an object of the
            same class as `X`.

        Raises
        ------
        ValueError
            If the post-processor needs the noise, but the noise is unknown.
        """
        if isinstance(X, EstimateSet):
            result: Any = self._transform_set(X)
        else:
            result = self._as_estimate(copy.copy(self)._process(self._check(X, reset=False)))
        values, sample_weight = remembered_values(X)
        if values is not None:  # the next step of a Pipeline may be scored by them
            remember_values(result, values, sample_weight)
        return _as_given(X, result)

    @overload
    def fit_transform(self, X: _Estimates, y: object = None) -> _Estimates: ...
    @overload
    def fit_transform(self, X: ArrayLike, y: object = None) -> np.ndarray: ...
    def fit_transform(self, X: Any, y: object = None) -> Any:
        """Post-process the estimates, store the result and return it.

        Parameters
        ----------
        X : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, n_categories)
            One estimate of the distribution per row.
        y : None
            Ignored.

        Returns
        -------
        FrequencyEstimate, EstimateSet or ndarray of shape (n_estimates, n_categories)
            The post-processed estimates: an array if `X` is array-like, otherwise an object of the
            same class as `X`.

        Raises
        ------
        ValueError
            If the post-processor needs the noise, but the noise is unknown.
        """
        return _as_given(X, self.fit(X).estimate_)

    # These are weights of y; a Pipeline passes them on without a request.
    __metadata_request__score = {"sample_weight": True}

    def score(
        self,
        X: FrequencyEstimate | EstimateSet | ArrayLike,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return minus the mean squared error of the fitted estimate on data of other users.

        A Pipeline whose last step is this post-processor has this score. Searches and
        cross-validations of scikit-learn use this score if they have no ``scoring``. Larger is
        better. The table lists the frequencies with which the fitted estimate is compared.

        =================================  ========================================================
        call                               compared with
        =================================  ========================================================
        ``GridSearchCV(..).fit(X)`` if X   the true frequencies of the held-out users: a simulation
        has values, or ``.fit(X, X)``      without the noise of reports; not private
        ``GridSearchCV(..).fit(X)`` if X   the raw estimate of the held-out reports, which costs no
        has reports                        privacy (:func:`~sklearn_ldp.metrics.held_out_score`)
        =================================  ========================================================

        If an oracle's `transform` turns values into an estimate, the estimate keeps these values
        for the score. The values stay in memory. They are never in a file, a pickle or a copy.

        Parameters
        ----------
        X : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, n_categories)
            Either the estimate of other users, before post-processing, or an array of the true
            frequencies: one row that is used for all fitted rows, or one row for each fitted row.
            If y is passed, only the number of users of X is used, to warn if `sample_weight` is
            missing.
        y : array-like of shape (n_samples,) or data frame, default=None
            Values of other users. After a fit to a set of estimates, y needs each column that the
            set describes. After a fit to a plain array, which has no categories, y is ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            The number of users that each row of y represents. Without y, leave this argument out,
            because X already includes the weights. If metadata routing raises that the weights are
            not requested for ``Pipeline.score``, which occurs with scikit-learn 1.6, call
            ``pipe.set_score_request(sample_weight=True)`` as well.

        Returns
        -------
        float
            Minus the error, averaged over the categories, the rows, and the estimates of a set. For
            a search with y, the error is the parameter `metric` of the search, for its `queries`.

        Raises
        ------
        ValueError
            If X is a post-processed estimate, if the number of rows of an array X is neither 1 nor
            the number of fitted rows, or if a value of y is not a category.
        """
        check_is_fitted(self, "estimate_")
        fitted: Any = self.estimate_
        if y is None:
            y, sample_weight = remembered_values(X)
        if y is not None and (isinstance(fitted, EstimateSet) or self._has_categories):
            name = f"{type(self).__name__}.score"
            truth = true_frequencies(fitted, y, sample_weight, name)
            if sample_weight is None:
                warn_of_lost_weights(X, y, name)
            return -mean_of_parts(self._errors(truth), {})
        if isinstance(X, FrequencyEstimate | EstimateSet):
            return mean_of_parts(held_out_score(fitted, X), {})
        truth = self._check(X, reset=False).values
        if len(truth) not in (1, len(fitted)):
            raise ValueError(
                f"{type(self).__name__}.score expects true frequencies for the {len(fitted)} "
                f"fitted rows, got {len(truth)} rows. Pass the true frequencies as 1 row or "
                f"{len(fitted)} rows."
            )
        return -float(np.mean((fitted.values - truth) ** 2))

    def _errors(self, truth: Any) -> Any:
        """Return the errors of the fitted estimate as an array.

        For a set, return a dict from the name of each estimate to its array of errors.
        """
        return query_errors(truth, self.estimate_)

    def _transform_set(self, estimates: EstimateSet) -> EstimateSet:
        """Post-process each estimate of a set, and return the set of the results.

        After a fit to a set, each estimate is processed by the fitted copy with the same name.
        Otherwise a new copy of this post-processor processes it.
        """
        fitted: dict[Any, Any] = getattr(self, "estimators_", {})
        nonempty = {name: part for name, part in estimates.items() if len(part)}
        unknown = [name for name in nonempty if fitted and name not in fitted]
        if unknown:
            raise ValueError(
                f"{type(self).__name__} was fitted to a set with the estimates "
                f"{', '.join(map(repr, fitted))}, got a set with the estimate {unknown[0]!r}. Call "
                "fit with a set that contains an estimate of this name."
            )
        by_name = fitted or self._copies(estimates.names)
        processed = {
            name: _named(name, by_name[name].transform, part) for name, part in nonempty.items()
        }
        return estimates.with_parts({**estimates, **processed})

    def _copies(self, names: list[Any]) -> dict[Any, Self]:
        """Return a dict with an unfitted copy of this post-processor for each of the names.

        names : names of the estimates of a set.
        """
        # If a parameter is a mapping by names, each copy gets the value for its name, or the
        # default value if the mapping lacks the name.
        values = {name: getattr(self, name, None) for name in self._part_parameters}
        mappings = {name: value for name, value in values.items() if isinstance(value, Mapping)}
        for parameter, by_part in mappings.items():
            unknown = [key for key in by_part if key not in names]
            if unknown:
                raise ValueError(
                    f"{type(self).__name__}: the keys of {parameter} must be names of estimates in "
                    f"the set, {', '.join(map(repr, names))}, got the key {unknown[0]!r}. Pass "
                    f"{parameter}={{{names[0]!r}: ...}}."
                )
        defaults = type(self)().get_params(deep=False) if mappings else {}
        copies = {}
        for name in names:
            parameters = {
                parameter: by_part.get(name, defaults[parameter])
                for parameter, by_part in mappings.items()
            }
            copies[name] = clone(self).set_params(**parameters)
        return copies

    @property
    def frequencies_(self) -> Any:
        """The post-processed rows, of shape (n_estimates, d), or (d,) if there is only one row.

        After a fit to a set, this is a dict from the name of each estimate to such an array.
        """
        if not hasattr(self, "estimate_"):
            raise AttributeError(f"{type(self).__name__} has no frequencies_. Call fit first.")
        fitted: Any = self.estimate_
        if isinstance(fitted, EstimateSet):
            return {name: _rows(part) for name, part in fitted.items() if len(part)}
        return _rows(fitted)

    def _check(self, X: FrequencyEstimate | ArrayLike, *, reset: bool) -> FrequencyEstimate:
        """Return X as a FrequencyEstimate, after scikit-learn's checks of its shape and values.

        reset: Whether to store the number of columns (in `fit`) or to check it (in `transform`).
        """
        self._validate_params()
        if self.sums_to_one and isinstance(X, FrequencyEstimate) and not X.sums_to_one:
            why = (
                "overlap because users have several items"
                if X.shares_overlap
                else "belong to only some of the categories"
            )
            raise ValueError(
                f"{type(self).__name__} is for frequencies that sum to 1, but the frequencies of "
                f"this estimate {why}. Use BasePos(), BaseCut(), NPMLE(simplex=False) or "
                "EmpiricalBayes(simplex=False), or HeldOutSearch(), which chooses one of them."
            )
        if isinstance(X, FrequencyEstimate) and not reset:
            _check_n_features(self, X, reset=False)
            return X
        values = X.values if isinstance(X, FrequencyEstimate) else X
        if _is_text(values):
            raise ValueError(
                f"{type(self).__name__} expects an estimate, or an array with one row of "
                "frequencies per estimate, got values that are not numbers. Pass users' values to "
                "an oracle, as in make_pipeline(oracle, post-processor)."
            )
        if reset or hasattr(self, "n_features_in_"):
            values = validate_data(self, values, dtype=np.float64, reset=reset)
        else:  # stateless: an unfitted transform has no width to compare with
            values = check_array(values, dtype=np.float64, estimator=self)
        if isinstance(X, FrequencyEstimate):
            return X
        is_column = values.shape[1] == 1 < len(values)
        if is_column and (np.asarray(X).dtype.kind in "iu" or np.abs(values).max() > _MAX_ESTIMATE):
            raise ValueError(
                f"{type(self).__name__} expects the frequencies of all categories in each row, got "
                "a single number per row (n_features=1), which looks like users' values. Pass "
                "users' values to an oracle, and the oracle's estimate to the post-processor."
            )
        names = getattr(self, "feature_names_in_", np.arange(values.shape[1]))
        return FrequencyEstimate(values, names)

    def _as_estimate(self, result: Any) -> FrequencyEstimate:
        """Return `result` unchanged; raise TypeError if it is not a FrequencyEstimate.

        result: the return value of `_process`.
        """
        if not isinstance(result, FrequencyEstimate):
            name = type(self).__name__
            raise TypeError(
                f"{name}._process must return a FrequencyEstimate, got {type(result).__name__}. "
                f'Return estimate.with_values(values, by="{name}").'
            )
        return result

    def get_feature_names_out(self, input_features: Column | None = None) -> np.ndarray:
        """Return the names of the output's columns.

        After a fit to an estimate, the names are the categories. After a fit to a plain array, they
        are `input_features`, or scikit-learn's default names.

        Parameters
        ----------
        input_features : array-like of str of shape (n_features_in_,), default=None
            Names of the input's columns. Only used if a plain array was fitted.

        Returns
        -------
        ndarray of shape (n_features_in_,)
            The names of the columns.
        """
        fitted: Any = getattr(self, "estimate_", None)
        if isinstance(fitted, EstimateSet):
            return fitted.feature_names
        if input_features is None and getattr(self, "_has_categories", False):
            return np.asarray([str(c) for c in self.estimate_.categories], dtype=object)
        return super().get_feature_names_out(input_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = self._takes_arrays()
        return tags


def _as_given(X: Any, result: FrequencyEstimate) -> Any:
    """Return the estimate `result` if X is an estimate, otherwise only the array of its values."""
    return result if isinstance(X, FrequencyEstimate | EstimateSet) else np.array(result.values)


def _rows(estimate: FrequencyEstimate) -> np.ndarray:
    """Return the values of an estimate, of shape (n_rows, d), or (d,) if there is one row."""
    return estimate.values[0] if len(estimate) == 1 else estimate.values


def _named(name: Any, function: Any, part: FrequencyEstimate) -> Any:
    """Return the function's result for one estimate of a set.

    If the function raises a ValueError, raise a ValueError that also contains the estimate's name.
    """
    try:
        return function(part)
    except ValueError as error:
        raise ValueError(f"In the estimate named {name!r}: {error}") from error


# -- the noise --------------------------------------------------------------------------------
def resolve_noise(
    estimate: FrequencyEstimate, noise: float | Noise | None, name: str, needs: str = "std"
) -> Noise:
    """Return the noise that a post-processor assumes: its parameter, or the noise of the estimate.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate to post-process. If `noise` is None, the noise of the estimate is used.
    noise : float, Noise or None
        The value of the post-processor's parameter `noise`. A number is the noise level.
    name : str
        Class name of the post-processor, for error messages.
    needs : {"std", "n_samples", "null_variance"}, default="std"
        The property of the noise that the post-processor requires. "std": the noise level.
        "n_samples": also the number of users. "null_variance": also the growth of the variance
        with the frequency, which only a :class:`~sklearn_ldp.NoiseModel` contains.

    Returns
    -------
    Noise
        The noise, with one level for all rows of the estimate, or one level per row.

    Raises
    ------
    ValueError
        If the noise is unknown or does not have the property `needs`; if `noise` is None and
        another post-processor has changed the estimate; if a noise level is not positive and
        finite; or if the number of noise levels is neither 1 nor the number of rows.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate, NoiseModel
    >>> from sklearn_ldp.postprocessing import resolve_noise
    >>> estimate = FrequencyEstimate([[0.75, 0.25]], ["a", "b"], NoiseModel(0.5, 0.25, 300))
    >>> float(resolve_noise(estimate, None, "Mine").std)
    0.1
    >>> resolve_noise(estimate, 0.05, "Mine").std
    0.05
    """
    source = estimate.noise if noise is None else noise
    if noise is None and source is not None and not estimate.is_raw:
        raise ValueError(
            f"{name} needs a raw estimate, got an estimate that was post-processed by "
            f"{' and '.join(estimate.postprocessors)}. Its noise describes only the errors before "
            f"post-processing. Apply {name} first, pass the raw estimate (oracle.estimate_), or "
            "pass the noise of the post-processed estimate as noise=."
        )
    known = source if isinstance(source, Noise | None) else Noise.of_level(float(source))
    if known is None or getattr(known, needs) is None:
        missing, remedy = _NEEDS[needs]
        described = "a plain array" if known is None else f"noise={source!r}"
        raise ValueError(
            f"{name} needs {missing}, which {described} does not contain. Pass the "
            f"FrequencyEstimate that an oracle returns, or pass {remedy}."
        )
    levels = np.asarray(known.std, dtype=np.float64)
    if levels.size not in (1, len(estimate)) or not np.all((levels > 0) & np.isfinite(levels)):
        raise ValueError(
            f"{name} needs one positive, finite noise level for all rows, or one for each of the "
            f"{len(estimate)} rows, got the noise levels {levels} from noise={source!r}. Pass "
            f"noise= with 1 or {len(estimate)} positive noise levels."
        )
    return known


def per_row(value: ArrayLike, n_rows: int) -> np.ndarray:
    """Return an array with one number per row, of shape (n_rows,).

    value: Either one number, which is repeated for all rows, or n_rows numbers.
    """
    return np.broadcast_to(np.ravel(np.asarray(value, dtype=np.float64)), n_rows)


def _is_text(values: Any) -> bool:
    """Return whether the first value is a string that cannot be read as a number.

    Such a string is probably a user's value, not a frequency.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufc":
        return False  # without a copy of all values
    first = next(iter(np.ravel(np.asarray(values, dtype=object))), None)
    return isinstance(first, str) and not as_numbers([first]).size


class MissingApart(NamedTuple):
    """The category of missing numbers of an estimate of ordered categories, kept apart.

    A method for ordered categories processes the frequencies among the users who answered. The
    missing answers are a neighbor of no category and keep their raw frequency, clipped to [0, 1].
    """

    place: int | None  # the position of the missing answers; None if there are none
    shares: np.ndarray  # (n_estimates, 1): the share of users who answered, in [0, 1]

    @classmethod
    def of(cls, estimate: FrequencyEstimate) -> MissingApart:
        """Return the category of missing numbers of an estimate, and the share of other users."""
        is_ordered = estimate.domain is not None and estimate.domain.is_ordered
        place = place_of_missing(estimate.categories) if is_ordered else None
        if place is None:
            return cls(None, np.ones((len(estimate), 1)))
        return cls(place, np.clip(1 - estimate.values[:, [place]], 0, 1))

    @property
    def scales(self) -> np.ndarray:
        """The divisors of frequencies, which are above 0, of shape (n_estimates, 1)."""
        return np.maximum(self.shares, _LEAST_SHARE)

    def of_bins(self, values: np.ndarray) -> np.ndarray:
        """Return the entries of the categories other than the missing answers, divided by the
        share."""
        return values if self.place is None else np.delete(values, self.place, 1) / self.scales

    def joined(self, values: ArrayLike) -> np.ndarray:
        """Return the frequencies of all users, given the frequencies of the users who answered."""
        answered = np.asarray(values)
        if self.place is None:
            return answered
        return np.insert(answered * self.shares, self.place, 1 - self.shares[:, 0], axis=1)
