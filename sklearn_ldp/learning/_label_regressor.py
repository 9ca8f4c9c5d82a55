"""Regressors whose training labels are numbers that users have randomised."""

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

from .._core.domains.values import refuse_reports
from .._core.support.privacy import warn_of_epsilon, warn_of_learned, warn_once
from .._core.support.random import RandomState
from ..oracles import LocalMean
from ._label_learner import LabelLearner
from ._label_scores import NORMAL_LIMIT, ratio_interval

_ALPHAS = np.logspace(-3, 15, 19)  # of Ridge: up to where nothing but the mean is left
_N_FOLDS = 5  # of the reports that judge
_ROUNDING = 1e-6  # share of the bounds' distance that files of reports may round away
# The weight of a model whose gain over the constant has the z-score t is 1 - (_CAUTION / t)**2, as
# of James and Stein. On four tables (`python -m benchmarks.accuracy.label_regression`, also with
# `--rows`; 27 November 2026) the error over that of the constant, of 6 to 24 splits, is at
# most 1.15 at 1, 1.04 at 2, 1.01 at 2.5 and 1.00 at 3; 23 rules were compared.
_CAUTION = 3.0
# A variance of labels that is fewer of its standard errors above 0 was seen because it came out too
# large, and R squared too small: its upper end is then 1. Chosen by 400 collections each at epsilon
# 0.5, 0.7, 1, 2 and 4 (28 November 2026): 2 to 5 % of the finite errors miss, without it 4 to 16 %.
_SURE = 4.0


class LabelDPRegressor(RegressorMixin, LabelLearner):
    """Train a regressor on numbers that users have randomised.

    The features are public, or the server's own; the label is a number that is a secret of the
    user. Their report, decoded, is unbiased for it (:class:`~sklearn_ldp.LocalMean`, whose report
    of a single number has nearly the least variance), so least squares on reports is unbiased for
    least squares on true labels. The noise is large: models have to be simple, and penalties
    strong.

    Privacy: one `fit` or `privatize` on values spends epsilon of each user, for their label; all
    that is done with reports (``input="reports"``) is free, and so are predictions. Nothing is
    promised about the features. A search with ``input="values"`` randomises labels anew in each of
    its fits, which is for simulations: randomise them once, and search with ``input="reports"``.

    Parameters
    ----------
    estimator : regressor, default=None
        What is trained, by squared loss; it is fitted six times. None is a
        :class:`~sklearn.linear_model.RidgeCV`, which leaves out one report at a time, with
        penalties that go far beyond what true labels need.
    epsilon : float, default=1.0
        Privacy budget of a label, > 0.
    bounds : (float, float), default=None
        Public bounds of the labels. None learns them from the labels in `fit`, which is for
        simulations.
    worst_case : float, default=1.1
        As for :class:`~sklearn_ldp.LocalMean`.
    input : {"values", "reports"}, default="values"
        Whether the labels in `fit` are true, to be randomised there, or reports already.
    random_state : int, RandomState, Generator or None, default=None
        None draws the coins of the labels from a secure source. Anything else makes reports
        predictable, and is for simulations. It is not that of `estimator`.

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor.
    bounds_ : (float, float)
        The bounds.
    constant_ : float
        The private mean of the labels.
    weight_ : float
        The weight of the regressor against the constant, from 0 to 1: near 1 where it is surely
        better on held-out reports. At 0 every prediction is the constant, which a warning tells
        once.
    n_features_in_ : int
        Number of features, if the fitted regressor knows it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if they have names.

    See Also
    --------
    LabelDPClassifier : For classes.
    CorrectedRidge : Where the features are private.

    Notes
    -----
    Searches over the parameters of `estimator` are honest with ``input="reports"`` and without
    `scoring`. Scorers would take reports for labels: give them ``decode(reports)``, whose mean
    squared error is the true one plus the variance of the noise, the same for all candidates. Other
    losses are not: the median of noisy labels is that of the noise, so take no absolute or quantile
    loss, and no classifier of a threshold. Trees need leaves of hundreds of reports, as each of
    them averages the noise alone. Files of reports keep no order
    (:func:`~sklearn_ldp.collection.write_reports`): store each report beside its features.

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

    Clients randomise their labels once, and a server learns from the reports:

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
        "bounds": "no_validation",  # LocalMean says what is wrong
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

        Its `privatize` makes the reports that `fit` takes, with the files and clients of
        :mod:`sklearn_ldp.collection`, and :class:`~sklearn_ldp.planning.Plan` says how noisy the
        mean label is.

        Returns
        -------
        LocalMean
            With the bounds, or those that `fit` has found.
        """
        bounds = getattr(self, "bounds_", None) if self.bounds is None else self.bounds
        return self._oracle(bounds)

    def privatize(self, y: ArrayLike) -> np.ndarray:
        """Randomise users' labels into reports, as each client does; no fit is needed.

        Privacy: each call spends epsilon of every user in `y`. Only ``random_state=None`` protects
        anybody.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            One number per user.

        Returns
        -------
        Reports of shape (n_samples,)
            The reports: integers that know the protocol, of numbers that `decode` returns.

        Raises
        ------
        ValueError
            If a label is not a number between the bounds.
        """
        self._validate_params()
        warn_of_epsilon(self._name, self.epsilon, self.random_state)
        return self.oracle().protocol().privatize(self._labels(y), self.random_state)

    def decode(self, reports: ArrayLike) -> np.ndarray:
        """Return the number that each report stands for, whose mean is its user's number.

        `fit` and `score` take these numbers as well, and refuse those of another epsilon or other
        bounds. Take them where integers would be taken for labels: for the scorers of scikit-learn
        (of squared loss), plots and columns of a table.

        Parameters
        ----------
        reports : array-like of shape (n_samples,)
            What `privatize` returned.

        Returns
        -------
        ndarray of shape (n_samples,)
            The numbers, most of them outside of the bounds.

        Raises
        ------
        ValueError
            If a report is none of this protocol.
        """
        protocol = self.oracle().protocol()
        return self._decoded(protocol, self._codes(protocol, reports))

    # -- server side --------------------------------------------------------------------------
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Train on labels that are randomised here, or on reports.

        Privacy: spends epsilon of each user if `y` holds labels; nothing if it holds reports.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the regressor takes them.
        y : array-like of shape (n_samples,)
            Labels; or, with ``input="reports"``, what `privatize` or `decode` returned.
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
            If a label is not a number between the bounds, or a report is none of this protocol.
        """
        self._validate_params()
        if is_classifier(self._base()):
            raise ValueError(f"{self._name} trains regressors, got a classifier: {self._base()!r}.")
        labels = self._labels(y) if self.input == "values" else None
        bounds = self.bounds
        if bounds is None and labels is not None:
            warn_of_learned(self._name, "the bounds", "bounds", self.random_state)
            low, high = float(np.min(labels)), float(np.max(labels))
            bounds = low, (high if high > low else low + 1)
        protocol, routed = self._oracle(bounds).protocol(), self._routed(sample_weight, fit_params)
        if labels is not None:
            warn_of_epsilon(self._name, self.epsilon, self.random_state)
            self._warn_of_refit(self.random_state)
            y = protocol.privatize(labels, self.random_state)
        self.bounds_: tuple[float, float] = protocol.domain.bounds
        z = self._decoded(protocol, self._codes(protocol, y))
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
        """Return the weight of the regressor that held-out reports support."""
        if len(z) < 2 * _N_FOLDS:
            return 0.0
        folds = list(KFold(_N_FOLDS, shuffle=True, random_state=0).split(z))
        means = np.empty(len(z))
        for some, others in folds:
            if not weights[some].any():
                return 0.0
            means[others] = np.average(z[some], weights=weights[some])
        found = cross_val_predict(self._base(), X, z, cv=folds, params=routed)
        gains = np.clip(found, *self.bounds_) - np.clip(means, *self.bounds_)
        for _, others in folds:  # that of a fold's level is noise of the mean, and no feature's
            gains[others] -= gains[others].mean()
        # Half the gain in squared error, but for the square of what the model adds.
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
            Numbers.
        """
        check_is_fitted(self)
        found = np.clip(self.estimator_.predict(X), *self.bounds_)
        return self.constant_ + self.weight_ * (found - self.constant_)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination, from reports without the bias of their noise.

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
            R squared; from reports as `corrected_score` has it.
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
        """Return R squared as true labels would give it, from reports.

        The mean squared error and the variance of the labels have unbiased estimates, whose ratio
        is taken. Where reports do not tell the variance of labels, as its estimate is within two
        standard errors of 0 or they have two values only (epsilon below 0.2), the largest one
        between the bounds takes its place: the score is then nearer to 0 than R squared, in the
        same order of models, and its standard error as one of R squared is nan.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features of users who were not in `fit`.
        reports : array-like of shape (n_samples,)
            Their reports.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        return_error : bool, default=False
            Whether to return its standard error, too: of the noise, and of who was asked. The score
            plus and minus 1.96 of it covers Fieller's interval of the ratio [1]_ up to 1, and with
            it R squared with a probability of about .95.

        Returns
        -------
        float or (float, float)
            R squared, which may be above 1; and its standard error.

        Warns
        -----
        UserWarning
            If reports do not tell the variance of labels.

        References
        ----------
        .. [1] E. C. Fieller, "Some problems in interval estimation", Journal of the Royal
           Statistical Society B 16(2), 1954, :doi:`10.1111/j.2517-6161.1954.tb00159.x`.
        """
        check_is_fitted(self)
        protocol, (low, high) = self._oracle(self.bounds_).protocol(), self.bounds_
        codes = self._codes(protocol, reports)
        w = _check_sample_weight(sample_weight, codes, dtype=float, ensure_non_negative=True)
        w = w / w.sum()
        # In units in which the bounds are -1 and 1; the label's square is known by its report.
        z = protocol.mechanism.values[codes]
        f = (self.predict(X) - (low + high) / 2) / ((high - low) / 2)
        squares, mean, spreads, total = protocol.mechanism.squares, w @ z, 0 * z, 1.0
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
                f"These reports do not tell the variance of labels, so the score of {self._name} "
                "is a share of the largest one between the bounds, and R squared is larger: use "
                "it to compare models alone, or take more reports or a larger epsilon."
            )
            warn_once(text, UserWarning, f"variance of {self._name}")
            score, error = part, math.nan
        else:  # the ratio is not in the middle of its interval, whose further end counts
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
        """Return labels in one column."""
        if y is None:
            raise ValueError(f"{self._name} requires y to be passed, but the target y is None.")
        refuse_reports(y, self._name, 'use input="reports"')
        array = np.asarray(y)
        if array.dtype.kind == "c":  # scikit-learn's error would show them
            raise ValueError(f"Complex data not supported: {self._name} needs numbers.")
        if array.ndim == 2 and array.shape[1] > 1:
            what = f"one number per user, got y of shape {array.shape}"
            raise ValueError(f"{self._name} takes {what}: train one each, with a part of epsilon.")
        labels = column_or_1d(array, warn=True)
        assert_all_finite(labels, input_name="y")
        return labels

    def _constant(self, z: np.ndarray, weights: np.ndarray) -> float:
        """The mean of the labels, towards the middle of the bounds as far as it is not known."""
        # That of Bayes for means that are uniform between the bounds, as a normal law has it.
        low, high = self.bounds_
        w, middle = weights / weights.sum(), (low + high) / 2
        mean, known = float(w @ z), (high - low) ** 2 / 12
        weight = known / (known + _error_of_mean(z, w) ** 2)
        return float(np.clip(middle + weight * (mean - middle), low, high))

    def _codes(self, protocol: Any, reports: ArrayLike) -> np.ndarray:
        """Return reports as codes: each number that they stand for has one."""
        given: Any = column_or_1d(np.asarray(reports))
        if given.dtype.kind != "f":
            return protocol.check(reports)
        low, high = protocol.domain.bounds
        values = self._decoded(protocol, np.arange(len(protocol.mechanism.values)))
        order = np.argsort(values)
        codes = order[np.searchsorted((values[order][1:] + values[order][:-1]) / 2, given)]
        other = ~(np.abs(values[codes] - given) <= _ROUNDING * (high - low))
        if other.any():
            raise ValueError(
                f"{self._name} cannot have made these reports: {given[other][0]:g} is none of the "
                f"{len(values)} numbers that they stand for with epsilon={self.epsilon:g} and "
                f"bounds=({low:g}, {high:g}). Pass what privatize returns for the same parameters."
            )
        return codes

    def _decoded(self, protocol: Any, codes: np.ndarray) -> np.ndarray:
        low, high = protocol.domain.bounds
        return (low + high) / 2 + (high - low) / 2 * protocol.mechanism.values[codes]


def _error_of_mean(values: np.ndarray, shares: np.ndarray) -> float:
    """Return the standard error of a weighted mean."""
    return math.sqrt(shares**2 @ (values - shares @ values) ** 2)
