"""The base of all post-processors: rows in, rows out."""

from __future__ import annotations

import functools
from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, validate_data

from .._docstrings import fill_in
from .._estimate import FrequencyEstimate

_FITTED = """estimate_ : FrequencyEstimate
    The same with its categories.
n_features_in_ : int
    Number of categories.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns, if they have any."""


def _estimates_stay_estimates(cls: type) -> type:
    """Let `set_output` act on plain input only.

    A data frame would lose the noise level that the next step of a Pipeline needs, so an estimate
    gives an estimate whatever the output is set to; ``estimate.to_frame()`` makes a data frame.
    """

    def choose(wrapped):
        @functools.wraps(wrapped)
        def method(self, X, *args, **kwargs):
            is_estimate = isinstance(X, FrequencyEstimate)
            return (wrapped.__wrapped__ if is_estimate else wrapped)(self, X, *args, **kwargs)

        return method

    for name in ("transform", "fit_transform"):
        setattr(cls, name, choose(vars(cls)[name]))
    return cls


@_estimates_stay_estimates
class BasePostProcessor(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of all post-processors.

    Like :class:`~sklearn.preprocessing.Normalizer`, they treat every row on its own, so `transform`
    needs no fit; `fit` keeps the result of its own rows. A new one is a pure function of rows and
    a class that calls it in `_process`; think twice before adding anything here.
    """

    _parameter_constraints: dict = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # What all have after fit stands once, and in each docstring as %(fitted)s.
        super().__init_subclass__(**kwargs)
        fill_in(cls, fitted=_FITTED)

    @abstractmethod
    def _process(self, estimate: FrequencyEstimate) -> tuple[FrequencyEstimate, dict[str, Any]]:
        """Return the post-processed estimate, and what was learnt by name (without the _)."""

    def _fit_process(self, estimate: FrequencyEstimate) -> tuple[FrequencyEstimate, dict[str, Any]]:
        """`_process` while fitting; only a search, which learns from the rows, overrides it."""
        return self._process(estimate)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Post-process the estimates and keep the result.

        Parameters
        ----------
        X : FrequencyEstimate or array-like of shape (n_estimates, n_categories)
            A row is one estimate of the distribution.
        y : None
            Ignored.

        Returns
        -------
        self : object
            Fitted.

        Raises
        ------
        ValueError
            If the noise level is needed and not known.
        """
        self._fit(X)
        return self

    def transform(self, X: Any) -> Any:
        """Post-process estimates, each row on its own.

        Parameters
        ----------
        X : FrequencyEstimate or array-like of shape (n_estimates, n_categories)
            A row is one estimate of the distribution.

        Returns
        -------
        FrequencyEstimate or ndarray of shape (n_estimates, n_categories)
            An estimate when `X` is one.

        Raises
        ------
        ValueError
            If the noise level is needed and not known.
        """
        return self._give_back(X, self._process(self._check(X, reset=False))[0])

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Post-process the estimates, keep the result and return it.

        Parameters
        ----------
        X : FrequencyEstimate or array-like of shape (n_estimates, n_categories)
            A row is one estimate of the distribution.
        y : None
            Ignored.

        Returns
        -------
        FrequencyEstimate or ndarray of shape (n_estimates, n_categories)
            An estimate when `X` is one.

        Raises
        ------
        ValueError
            If the noise level is needed and not known.
        """
        return self._give_back(X, self._fit(X))

    def _fit(self, X: Any) -> FrequencyEstimate:
        self._has_categories = isinstance(X, FrequencyEstimate)
        self.estimate_, learnt = self._fit_process(self._check(X, reset=True))
        for name, value in learnt.items():
            setattr(self, f"{name}_", value)
        return self.estimate_

    @property
    def frequencies_(self) -> np.ndarray:
        """The fitted rows, of shape (n_estimates, d), or (d,) when there is one."""
        if not hasattr(self, "estimate_"):
            raise AttributeError(f"{type(self).__name__} has no frequencies_ before fit.")
        values = self.estimate_.values
        return values[0] if len(values) == 1 else values

    def _check(self, X: Any, *, reset: bool) -> FrequencyEstimate:
        """X as an estimate; scikit-learn's checks of its shape and values."""
        self._validate_params()
        is_estimate = isinstance(X, FrequencyEstimate)
        if is_estimate and not reset:
            if getattr(self, "n_features_in_", X.shape[1]) != X.shape[1]:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input."
                )
            return X
        values = X.values if is_estimate else X
        if reset or hasattr(self, "n_features_in_"):
            values = validate_data(self, values, dtype=np.float64, reset=reset)
        else:  # stateless: an unfitted transform has no width to compare with
            values = check_array(values, dtype=np.float64, estimator=self)
        if is_estimate:
            return X
        names = getattr(self, "feature_names_in_", np.arange(values.shape[1]))
        return FrequencyEstimate(values, names)

    @staticmethod
    def _give_back(X: Any, result: FrequencyEstimate) -> Any:
        return result if isinstance(X, FrequencyEstimate) else np.array(result.values)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the columns: after the categories, if an estimate was fitted.

        Parameters
        ----------
        input_features : array-like of str of shape (n_features_in_,), default=None
            Names of the input's columns, when a plain array was fitted.

        Returns
        -------
        ndarray of shape (n_features_in_,)
            The names.
        """
        if input_features is None and getattr(self, "_has_categories", False):
            return np.asarray([str(c) for c in self.estimate_.categories], dtype=object)
        return super().get_feature_names_out(input_features)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def noise_level(estimate: FrequencyEstimate, std: Any, name: str) -> np.ndarray:
    """Standard deviation of each row's noise at frequency 0, of shape (n_estimates, 1).

    Parameters
    ----------
    estimate : FrequencyEstimate
        Whose noise model is used unless `std` is given.
    std : float, array-like of shape (n_estimates,) or None
        What the user says.
    name : str
        The class to name in errors.

    Raises
    ------
    ValueError
        If it is not known.
    """
    if std is None and estimate.noise is not None:
        std = estimate.noise.std
    if std is None:
        raise ValueError(
            f"{name} needs the noise level of the estimate, which a plain array does not carry: "
            "pass the FrequencyEstimate that an oracle returns, or give std= (the standard "
            "deviation of the estimate of a category that nobody has)."
        )
    std = np.asarray(std, dtype=np.float64)
    if std.size not in (1, len(estimate)) or not np.all(std > 0) or not np.all(np.isfinite(std)):
        raise ValueError(
            f"{name}: std must be one finite number > 0, or one a row ({len(estimate)}), got {std}."
        )
    return std.reshape(-1, 1)
