"""Regressors that learn from numbers which users have randomized."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone, is_classifier
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from .._core.common.privacy import warn_of_epsilon, warn_of_learned, warn_once
from .._core.common.random import RandomState
from .._core.domains.values import refuse_reports
from ..oracles import LocalMean
from ._label_channel import refuse_frequencies
from ._label_learner import LabelLearner
from ._label_scores import NORMAL_LIMIT, ratio_interval

_ALPHAS = np.logspace(-3, 15, 19)  # penalties of Ridge: the largest leave nothing but the mean
_N_FOLDS = 5  # of the held-out reports that evaluate the model
_ROUNDING = 1e-6  # rounding errors of files of reports, as a share of the bounds' distance
# If the gain of a model over the constant has the z-score t, the weight of the model is
# 1 - (_CAUTION / t)**2, as in the James-Stein estimator. On four tables (`python -m
# benchmarks.accuracy.label_regression`, also with `--rows`; 27 November 2026) the error relative to
# the constant's error, over 6 to 24 splits, is at most 1.15 at 1, 1.04 at 2, 1.01 at 2.5 and 1.00
# at 3; 23 rules were compared.
_CAUTION = 3.0
# An estimated variance of the labels that is less than _SURE of its standard errors above 0 was
# probably only used because it happened to be too large, which makes the estimated R squared too
# small. The upper end of R squared is then 1. Chosen by 400 collections each at epsilon 0.5, 0.7,
# 1, 2 and 4 (28 November 2026): 2 to 5 % of the intervals with a finite error miss, without this
# rule 4 to 16 %.
_SURE = 4.0


class LabelDPRegressor(RegressorMixin, LabelLearner):
    """Train a regressor on numbers that users have randomized.

    The features are public, or the server has them. The label of a user is a secret number.
    The decoded report of a user is an unbiased estimate of the label, with nearly the minimum
    variance for a single number (:class:`~sklearn_ldp.LocalMean`). So the expectation of a least
    squares fit to decoded reports is the fit to true labels. The noise is large, so use simple
    models and strong penalties.

    Privacy: one `fit` or `privatize` on values spends epsilon of each user, for the user's label.
    Everything computed from reports (``input="reports"``) is free, and so are predictions. The
    features are not protected. A search with ``input="values"`` randomizes the labels again in each
    of its fits, which is for simulations. With real users, randomize the labels once, and search
    with ``input="reports"``.

    Parameters
    ----------
    estimator : regressor, default=None
        The regressor to train, by squared loss; `fit` fits it six times. If None, a
        :class:`~sklearn.linear_model.RidgeCV` with leave-one-out cross-validation, and with much
        larger penalties than true labels need.
    epsilon : float, default=1.0
        Privacy budget of a label, > 0.
    bounds : (float, float), default=None
        Public bounds of the labels. If None, `fit` learns the bounds from the labels, which is for
        simulations.
    worst_case : float, default=1.1
        Parameter of the randomization, see :class:`~sklearn_ldp.LocalMean`.
    input : {"values", "reports"}, default="values"
        Whether the `y` of `fit` contains true labels, which `fit` randomizes, or reports.
    random_state : int, RandomState, Generator or None, default=None
        If None, the random bits of the labels come from a secure source. Any other value makes
        reports predictable, and is for simulations. It does not seed `estimator`.

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor.
    bounds_ : (float, float)
        The bounds of the labels.
    constant_ : float
        The mean of the labels, estimated from the reports. This prediction for all rows is the
        baseline, the constant.
    weight_ : float
        The weight of the regressor in its average with the constant, from 0 to 1. It is near 1 if
        the regressor is significantly better than the constant on held-out reports. At 0, every
        prediction is the constant, and `fit` issues a warning.
    n_features_in_ : int
        Number of features, if the fitted regressor has this attribute.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if they have names.

    See Also
    --------
    LabelDPClassifier : For labels that are classes.
    CorrectedRidge : For features that are private.

    Notes
    -----
    With ``input="reports"`` and without `scoring`, the score of a search over the parameters of
    `estimator` is unbiased. Scorers would interpret reports as labels, so pass ``decode(reports)``
    to them. The mean squared error of decoded reports is the true error plus the variance of the
    noise, which is the same for all candidates. Other losses are biased: the median of noisy labels
    mainly depends on the noise, so do not use an absolute or quantile loss, or a classifier for
    labels above a threshold. Trees need leaves with hundreds of reports, because each leaf averages
    the noise of its own reports only. Files of reports have no order
    (:func:`~sklearn_ldp.collection.write_reports`), so store each report together with its
    features.

    References
    ----------
    .. [1] J. C. Duchi, M. I. Jordan, M. J. Wainwright, "Minimax optimal procedures for locally
       private estimation", JASA 113, 2018, :doi:`10.1080/01621459.2017.1389735`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp.learning import LabelDPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 3))
    >>> hours = np.clip(20 + 5 * X[:, 0] + rng.normal(size=20_000), 0, 40)
    >>> model = LabelDPRegressor(epsilon=2.0, bounds=(0, 40), random_state=0).fit(X, hours)
    >>> model.predict([[0, 0, 0], [2, 0, 0]]).round()
    array([20., 30.])

    Clients randomize their labels once, and a server learns from the reports:

    >>> reports = model.privatize(hours)
    >>> server = LabelDPRegressor(epsilon=2.0, bounds=(0, 40), input="reports")
    >>> r2, error = server.fit(X[:15_000], reports[:15_000]).corrected_score(
    ...     X[15_000:], reports[15_000:], return_error=True
    ... )
    >>> abs(r2 - server.set_params(input="values").score(X[15_000:], hours[15_000:])) < 3 * error
    True
    """

    _parameter_constraints: dict = {
        **LabelLearner._parameter_constraints,
        "bounds": "no_validation",  # LocalMean validates the bounds
        "worst_case": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any = None,
        epsilon: float = 1.0,
        *,
        bounds: Any = None,
        worst_case: float = 1.1,
        input: str = "values",
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.bounds = bounds
        self.worst_case = worst_case
        self.input = input
        self.random_state = random_state

    # -- client side --------------------------------------------------------------------------
    def oracle(self) -> LocalMean:
        """Return the oracle of the labels, without users.

        Its `privatize` makes reports for `fit`, with the files and clients of
        :mod:`sklearn_ldp.collection`, and :class:`~sklearn_ldp.planning.Plan` computes the standard
        error of the mean label.

        Returns
        -------
        LocalMean
            The unfitted oracle, with the declared bounds or the bounds that `fit` has learned.
        """
        bounds = getattr(self, "bounds_", None) if self.bounds is None else self.bounds
        return self._oracle(bounds)

    def privatize(self, y: ArrayLike) -> np.ndarray:
        """Randomize users' labels into reports on the client; no fit is needed.

        Privacy: each call spends epsilon of every user in `y`. Only ``random_state=None`` protects
        the users.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            One number per user.

        Returns
        -------
        Reports of shape (n_samples,)
            The reports: an array of integers that also contains the protocol. `decode` converts
            them to numbers.

        Raises
        ------
        ValueError
            If a label is not a number between the bounds.
        """
        self._validate_params()
        warn_of_epsilon(self._name, self.epsilon, self.random_state)
        return self.oracle().protocol().privatize(self._labels(y), self.random_state)

    def decode(self, reports: ArrayLike) -> np.ndarray:
        """Return the unbiased number that each report stands for.

        The expectation of this number is the user's label. `fit` and `score` accept these numbers
        as well, and raise an error for numbers from another epsilon or other bounds. Use the
        numbers if integers would be interpreted as labels: in scorers of scikit-learn (with squared
        loss), in plots, and in columns of a table.

        Parameters
        ----------
        reports : array-like of shape (n_samples,)
            The reports that `privatize` returned.

        Returns
        -------
        ndarray of shape (n_samples,)
            The numbers. Most of them are outside of the bounds.

        Raises
        ------
        ValueError
            If a report does not belong to this protocol.
        """
        protocol = self.oracle().protocol()
        return self._decoded(protocol, self._plain(protocol, reports))

    # -- server side --------------------------------------------------------------------------
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Train on true labels, which this method randomizes first, or on reports.

        Privacy: spends epsilon of each user if `y` contains labels; nothing if it contains reports.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, in a form that the regressor accepts.
        y : array-like of shape (n_samples,)
            Labels; or, with ``input="reports"``, the output of `privatize` or `decode`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, which must not depend on the true labels.
        **fit_params : dict
            Passed to the regressor by scikit-learn's metadata routing.

        Returns
        -------
        self : object
            The fitted regressor.

        Raises
        ------
        ValueError
            If a label is not a number between the bounds, a report does not belong to this
            protocol, or the frequencies of reports are impossible for epsilon.
        """
        self._validate_params()
        if is_classifier(self._base()):
            raise ValueError(
                f"{self._name} trains regressors, but its estimator is the classifier "
                f"{self._base()!r}. Pass a regressor, or use LabelDPClassifier."
            )
        labels = self._labels(y) if self.input == "values" else None
        bounds = self.bounds
        if bounds is None and labels is not None:
            warn_of_learned(self._name, "the bounds", "bounds", self.random_state)
            low, high = float(np.min(labels)), float(np.max(labels))
            bounds = low, (high if high > low else low + 1)
        protocol = self._oracle(bounds).protocol()
        routed = self._routed(sample_weight, fit_params)
        if labels is not None:
            warn_of_epsilon(self._name, self.epsilon, self.random_state)
            self._warn_of_refit(self.random_state)
            y = protocol.privatize(labels, self.random_state)
        self.bounds_: tuple[float, float] = protocol.domain.bounds
        z = self._decoded(protocol, self._codes(protocol, y, sample_weight))
        weights = _check_sample_weight(sample_weight, z, dtype=float, ensure_non_negative=True)
        fitted = clone(self._base()).fit(X, z, **routed)
        self.constant_: float = self._constant(z, weights)
        self.weight_: float = self._supported(X, z, weights, routed)
        self.estimator_: Any = fitted
        self._take_features(fitted)
        if self.weight_ == 0:
            self._warn_of_constant(len(z))
        return self

    def _supported(self, X: Any, z: np.ndarray, weights: np.ndarray, routed: dict) -> float:
        """Return the weight of the regressor in its average with the constant, from 0 to 1.

        The weight depends on the gain of the regressor over the constant on held-out reports.
        Shapes: X (n, n_features), z (n,), weights (n,).
        z: the decoded reports. routed: keywords for the method `fit` of the regressor.
        """
        if len(z) < 2 * _N_FOLDS:
            return 0.0
        folds = list(KFold(_N_FOLDS, shuffle=True, random_state=0).split(z))
        means = np.empty(len(z))
        for some, others in folds:
            if not weights[some].any():
                return 0.0
            means[others] = np.average(z[some], weights=weights[some])
        predicted = cross_val_predict(self._base(), X, z, cv=folds, params=routed)
        gains = np.clip(predicted, *self.bounds_) - np.clip(means, *self.bounds_)
        for _, others in folds:  # a shift of a whole fold is noise of its mean, not of features
            gains[others] -= gains[others].mean()
        # Half the gain in squared error, plus half the squared difference of model and mean.
        products = gains * (z - means)
        gain = weights @ products
        error = math.sqrt(weights**2 @ (products - gain / weights.sum()) ** 2)
        return 0.0 if gain <= _CAUTION * error else 1 - (_CAUTION * error / gain) ** 2

    # -- predictions --------------------------------------------------------------------------
    def predict(self, X: Any) -> np.ndarray:
        """Return the expected label of each row, between the bounds.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,)
            The predicted labels.
        """
        check_is_fitted(self)
        predicted = np.clip(self.estimator_.predict(X), *self.bounds_)
        return self.constant_ + self.weight_ * (predicted - self.constant_)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination; from reports, corrected for their noise.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features of users who were not in `fit`.
        y : array-like of shape (n_samples,)
            True labels; or, with ``input="reports"``, reports.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        float
            R squared; from reports, the result of `corrected_score`.
        """
        if self.input == "values":
            refuse_reports(y, self._name, 'use input="reports"')
            return float(super().score(X, y, sample_weight))
        return self.corrected_score(X, y, sample_weight)

    def corrected_score(
        self,
        X: Any,
        reports: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        return_error: bool = False,
    ) -> Any:
        """Estimate, from reports, the R squared that true labels would have.

        The score is 1 minus the ratio of unbiased estimates of the mean squared error and the
        variance of the labels. The estimated variance is too noisy if it is within two standard
        errors of 0, and it does not exist if reports have only two values (epsilon below 0.2). In
        both cases the largest possible variance of numbers between the bounds is used instead. The
        score is then nearer to 0 than R squared, ranks models in the same order, and has the
        standard error nan.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features of users who were not in `fit`.
        reports : array-like of shape (n_samples,)
            Their reports.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        return_error : bool, default=False
            Whether to return the standard error as well, which accounts for the noise and for the
            sampling of users. The score plus and minus 1.96 standard errors contains Fieller's
            interval of the ratio [1]_, cut at 1, and therefore contains R squared with a
            probability of about .95.

        Returns
        -------
        float or (float, float)
            R squared, which may be above 1; and its standard error.

        Warns
        -----
        UserWarning
            If the variance of the labels cannot be estimated from the reports.

        References
        ----------
        .. [1] E. C. Fieller, "Some problems in interval estimation", Journal of the Royal
           Statistical Society B 16(2), 1954, :doi:`10.1111/j.2517-6161.1954.tb00159.x`.
        """
        check_is_fitted(self)
        protocol = self._oracle(self.bounds_).protocol()
        low, high = self.bounds_
        codes = self._codes(protocol, reports, sample_weight)
        w = _check_sample_weight(sample_weight, codes, dtype=float, ensure_non_negative=True)
        w = w / w.sum()
        # In units in which the bounds are -1 and 1. `squares` are unbiased for the squared labels.
        z = protocol.mechanism.values[codes]
        f = (self.predict(X) - (low + high) / 2) / ((high - low) / 2)
        squares = protocol.mechanism.squares
        mean = w @ z
        spreads = 0 * z
        total = 1.0
        explained = 2 * z * f - f**2 - mean**2 - 2 * mean * (z - mean)
        if squares is not None:
            spreads = squares[codes] - mean**2 - 2 * mean * (z - mean)
            total = float(w @ spreads)
        part = float(w @ explained)
        deviations = w * (np.array([explained, spreads]) - [[part], [total]])
        margins = NORMAL_LIMIT**2 * deviations @ deviations.T
        lowest, highest = map(float, ratio_interval(part, total, margins))
        if squares is None or math.isnan(lowest):
            text = (
                f"These reports do not determine the variance of labels, so the score of "
                f"{self._name} is relative to the maximum variance between the bounds, and R "
                "squared is larger. Use the score only to compare models, or collect more reports, "
                "or use a larger epsilon."
            )
            warn_once(text, UserWarning, f"variance of {self._name}")
            score = part
            error = math.nan
        else:  # the interval is not symmetric, so the error covers its further end
            score = part / total
            if total < _SURE * _error_of_mean(spreads, w):
                highest = 1.0
            error = max(score - lowest, min(highest, 1.0) - score) / NORMAL_LIMIT
        return (score, error) if return_error else score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # with the few rows of scikit-learn's checks
        return tags

    # -- the parameters -----------------------------------------------------------------------
    def _base(self) -> Any:
        return RidgeCV(_ALPHAS) if self.estimator is None else self.estimator

    def _oracle(self, bounds: Any) -> Any:
        return LocalMean(self.epsilon, bounds=bounds, worst_case=self.worst_case)

    def _labels(self, y: ArrayLike) -> np.ndarray:
        """Check the labels in `y`, and return them as an array of shape (n_samples,)."""
        if y is None:
            raise ValueError(
                f"{self._name} requires y to be passed, but the target y is None. Pass the users' "
                "labels."
            )
        refuse_reports(y, self._name, 'use input="reports"')
        array = np.asarray(y)
        if array.dtype.kind == "c":  # scikit-learn's error would show the labels
            raise ValueError(
                f"Complex data not supported: {self._name} needs real numbers. Convert the labels."
            )
        if array.ndim == 2 and array.shape[1] > 1:
            raise ValueError(
                f"{self._name} needs one number per user, got y of shape {array.shape}. Train one "
                "regressor for each number, and divide epsilon among them, because all numbers of "
                "a user share one epsilon."
            )
        labels = column_or_1d(array, warn=True)
        assert_all_finite(labels, input_name="y")
        return labels

    def _constant(self, z: np.ndarray, weights: np.ndarray) -> float:
        """Return the estimated mean of the labels.

        It is the weighted mean of the decoded reports z, moved toward the middle of the bounds. The
        noisier the mean, the more it is moved.
        """
        # The posterior mean under a normal prior with the mean and the variance of the uniform
        # distribution between the bounds.
        low, high = self.bounds_
        w = weights / weights.sum()
        middle = (low + high) / 2
        mean = float(w @ z)
        prior_variance = (high - low) ** 2 / 12
        weight = prior_variance / (prior_variance + _error_of_mean(z, w) ** 2)
        return float(np.clip(middle + weight * (mean - middle), low, high))

    def _codes(self, protocol: Any, reports: ArrayLike, sample_weight: Any) -> np.ndarray:
        """Check reports and their frequencies, and return the reports as integers."""
        codes = self._plain(protocol, reports)
        chances = protocol.mechanism.probabilities
        limits = chances.min(axis=1), chances.max(axis=1)
        refuse_frequencies(reports, codes, limits, sample_weight, self._name)
        return codes

    def _plain(self, protocol: Any, reports: ArrayLike) -> np.ndarray:
        """Check reports, and return them as integers.

        reports: the output of `privatize`, or the numbers that `decode` returned for it.
        """
        array: Any = column_or_1d(np.asarray(reports))
        if array.dtype.kind != "f":
            return protocol.check(reports)
        low, high = protocol.domain.bounds
        values = self._decoded(protocol, np.arange(len(protocol.mechanism.values)))
        order = np.argsort(values)
        codes = order[np.searchsorted((values[order][1:] + values[order][:-1]) / 2, array)]
        is_other = ~(np.abs(values[codes] - array) <= _ROUNDING * (high - low))
        if is_other.any():
            raise ValueError(
                f"{self._name} got the number {array[is_other][0]:g}, which is not one of the "
                f"{len(values)} possible decoded reports with epsilon={self.epsilon:g} and "
                f"bounds=({low:g}, {high:g}). Pass the output of privatize or decode of a "
                "regressor with these parameters."
            )
        return codes

    def _decoded(self, protocol: Any, codes: np.ndarray) -> np.ndarray:
        low, high = protocol.domain.bounds
        return (low + high) / 2 + (high - low) / 2 * protocol.mechanism.values[codes]


def _error_of_mean(values: np.ndarray, shares: np.ndarray) -> float:
    """Return the standard error of the weighted mean of independent values.

    Shapes: values (n,), shares (n,). shares: the weights, with the sum 1.
    """
    return math.sqrt(shares**2 @ (values - shares @ values) ** 2)
