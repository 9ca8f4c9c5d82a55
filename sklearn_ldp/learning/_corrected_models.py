"""Regressions on randomized columns, with a correction for the noise (errors in variables)."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, optimize, special, stats
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._core.common.docs import Documented
from .._core.common.parallel import each_warning_once, one_thread
from .._core.common.privacy import warn_once
from .._core.domains.values import refuse_reports
from .._core.statistics import ConfidenceInterval, check_level

_CHUNK_CELLS = 1 << 22  # maximum size of temporary copies of rows of X
_CHUNK_LOSSES = 1 << 21  # losses that are computed in one step
_MAX_CELLS = 1000  # joint categories of all private attributes
# The following constants were chosen by hand. `python -m benchmarks.accuracy._weak_models` measures
# their joint effect, on other data.
_RAISED_TO = 4.0  # standard errors
_MANY_ROWS = 30  # minimum number of rows for a check of the sums of indicators
_FAR_OFF = 6.0  # maximum z-score in this check
# Prior standard deviations of an attribute's coefficients, as multiples of the residual standard
# deviation. "No effect" has half of the prior probability, so the data have to show an effect.
_EFFECTS = np.r_[0.0, np.geomspace(0.03, 1.0, 12)]
_CHANCES = np.r_[0.5, np.full(12, 0.5 / 12)]


def corrected_gram(
    X: ArrayLike, private: Any, sample_weight: ArrayLike | None = None, *, centered: bool = False
) -> np.ndarray:
    """Return an unbiased estimate of the Gram matrix of the true features.

    A private attribute is a categorical variable that users randomized. For each category of the
    attribute, X has a column with an unbiased, noisy indicator of this category. The true
    indicators of an attribute are 1 for the user's category and 0 for all other categories. So the
    product of two different true indicators is 0, and the square of a true indicator is the
    indicator itself. Therefore the block of the Gram matrix that belongs to one private attribute
    is estimated by the diagonal matrix of its column sums, which contains no squared noise. All
    other blocks are unbiased without a correction, because the noise of an attribute is independent
    of the noise of other attributes, and of public features.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The features.
    private : sequence of slices, ranges, index arrays or masks, or a mapping to such values
        For each private attribute, the columns of X with all of its indicators.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    centered : bool, default=False
        Whether to subtract the means of the columns of X first. If True, the relative bias of the
        result is of the order 1 / n_samples.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        The estimate of X' W X for the true features X and the diagonal matrix W of the weights.
        Some of its eigenvalues may be negative.

    Raises
    ------
    ValueError
        If `private` does not select at least two different columns for each attribute, selects
        columns that X lacks, or selects a column twice.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp.learning import corrected_gram
    >>> X = [[1.5, -0.5, 2.0], [-0.5, 1.5, 1.0]]
    >>> corrected_gram(X, private=[range(2)])
    array([[1. , 0. , 2.5],
           [0. , 1. , 0.5],
           [2.5, 0.5, 5. ]])
    """
    X = np.asarray(X, dtype=np.float64)
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    means = np.average(X, axis=0, weights=weight) if centered else np.zeros(X.shape[1])
    blocks = private_blocks(private, X.shape[1], "corrected_gram")
    return _gram(X, blocks, weight, means)


def _gram(
    X: np.ndarray, blocks: list[np.ndarray], weight: np.ndarray, means: np.ndarray
) -> np.ndarray:
    """Return the corrected Gram matrix of the features minus `means`, see `corrected_gram`.

    Shapes: X (n_samples, n_features), weight (n_samples,), means (n_features,) ->
    (n_features, n_features).
    blocks: for each private attribute, the positions of its columns.
    """
    gram = np.zeros((X.shape[1], X.shape[1]))
    for rows in _batches(X):
        centered = X[rows] - means
        gram += centered.T @ (centered * weight[rows, None])
    for block in blocks:
        mean_products = weight.sum() * np.outer(means[block], means[block])
        gram[np.ix_(block, block)] = np.diag(weight @ X[:, block]) - mean_products
    return gram


class _CorrectedModel(Documented, BaseEstimator):
    """Base class of linear models whose features may be noisy indicators of categories."""

    _parameter_constraints: dict = {
        "private": "no_validation",  # private_blocks validates it
        "fit_intercept": ["boolean"],
    }
    private: Any
    _for_noisy_rows: str
    coef_: Any
    intercept_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Without `private`, fit raises an error for all data.
        tags.input_tags.two_d_array = self.private is not None
        return tags

    def _checked(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, **checks: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Check the arguments of `fit` and return them as arrays.

        Returns: the features, in which the indicators of each private attribute sum to 1 in each
        row; the target; the weights; and for each private attribute the positions of its columns.
        """
        self._validate_params()
        self._refuse_reports(y)
        X, y = validate_data(self, X, y, dtype=np.float64, **checks)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        blocks = self._blocks(X)
        return with_sums_of_one(X, blocks, weight, type(self).__name__), y, weight, blocks

    def _refuse_reports(self, y: Any) -> None:
        remedy = "pass decode(reports) of a LabelDPRegressor to CorrectedRidge"
        refuse_reports(y, type(self).__name__, remedy)

    def _blocks(self, X: np.ndarray) -> list[np.ndarray]:
        names = getattr(self, "feature_names_in_", None)
        return private_blocks(self.private, X.shape[1], type(self).__name__, names)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if _noisy(X, self._blocks(X)):
            name = type(self).__name__
            warn_once(
                f"{name} predicts from randomized rows, but its coefficients are for true values, "
                "so predictions and scores are worse than for true values. If the true values of "
                "new rows are available, predict from PrivatizedColumns.true_indicators. If new "
                f"rows are randomized, {self._for_noisy_rows}.",
                UserWarning,
                f"{name} of randomized rows",
            )
        return X @ self.coef_.ravel() + self.intercept_


class CorrectedRidge(RegressorMixin, _CorrectedModel):
    """Ridge regression on noisy indicators, corrected for the noise (errors-in-variables model).

    Noise in a feature shrinks its coefficient towards 0 (attenuation bias), and changes the
    coefficients of correlated features. The distribution of the noise of
    :class:`PrivatizedColumns` is known, so this bias can be removed. The coefficients minimize an
    unbiased estimate of the squared error on the *true* features,

    .. math:: \\hat\\beta = (G + \\alpha I)^{-1} X_c' W y_c,

    where X_c are the centered noisy features, W the sample weights, y_c the centered target and G
    the corrected Gram matrix of the features (:func:`corrected_gram`). G contains the sum of each
    indicator instead of its sum of squares, which :class:`~sklearn.linear_model.Ridge` uses.
    Without private attributes both models are identical.

    Prediction. The coefficients describe the true values. Use them for interpretation, for
    intervals, and for predictions from true values: on the client, or on the server for its own
    rows (`PrivatizedColumns.true_indicators`). If new rows are randomized as well, an uncorrected
    regression has the smallest squared error, so use scikit-learn's Ridge. For the same reason
    `score` on noisy rows, and a search by `score`, favor coefficients that are too small;
    `corrected_score` estimates the score on true rows.

    If the noise of a private attribute is larger than its effect, its estimated coefficients would
    increase the error of predictions. Therefore the deviations of an attribute's coefficients from
    their mean are shrunk by Bayesian model averaging. The models are normal priors around 0 with
    several scales, weighted by their marginal likelihood; the prior probability of no effect is
    0.5. The coefficients of public features are then fitted again. Intervals are computed for the
    coefficients before shrinkage, `unshrunk_coef_`.

    G may have negative eigenvalues, and an eigenvalue near 0 (a rare category) would cause very
    large coefficients. Therefore each eigenvalue is raised to at least four of its standard errors.
    With enough rows all eigenvalues exceed this threshold, so the estimate is consistent;
    `n_raised_` counts the raised eigenvalues.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the L2 penalty, >= 0, as in Ridge. The intercept is not penalized.
    private : sequence of slices, ranges, index arrays, masks or names, or a mapping to such values
        For each private attribute, the columns of X with all of its indicators, for example
        `PrivatizedColumns.slices_`. In a data frame, "sex" stands for the
        features with the names "sex_F" and "sex_M" in `PrivatizedColumns.get_feature_names_out`,
        even after a ColumnTransformer; a list must contain their full names. ``[]`` means that no
        column is private. The default None raises an error, because nothing would be corrected.
    fit_intercept : bool, default=True
        Whether to fit an intercept.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the true features, for predictions. With an intercept, the coefficients of a
        private attribute sum to 0.
    intercept_ : float
        The intercept.
    unshrunk_coef_ : ndarray of shape (n_features,)
        The coefficients before the shrinkage of private attributes. They are the centers of the
        confidence intervals.
    coef_covariance_ : ndarray of shape (n_features, n_features)
        Estimated covariance of `unshrunk_coef_` (sandwich estimator). It includes the noise of the
        reports and of y, and allows heteroscedastic errors.
    n_raised_ : int
        Number of eigenvalues of G that were raised.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had names that are all strings.

    See Also
    --------
    PrivatizedColumns : The transformer that returns the noisy indicators.
    sklearn.linear_model.Ridge : Ridge regression without the correction.

    Notes
    -----
    Let :math:`\\tilde x_i` be the row i minus the means, :math:`r_i` its residual, and z its
    indicators of a private attribute with coefficients b. The score of row i is

    .. math:: \\psi_i = w_i \\big(\\tilde x_i r_i - [z \\circ b - z (z' b)]\\big),

    with a bracket for each private attribute. Its mean at the true coefficients is 0, and the
    covariance is :math:`A^{-1} (\\sum_i \\psi_i \\psi_i') A^{-1}` with :math:`A = G + \\alpha I`.
    Sample weights multiply the loss; they are not numbers of equal rows.

    Before all other steps, the indicators of each private attribute are shifted in each row so that
    their sum is 1, like the sum of the true indicators. They stay unbiased. Their sum, which
    contains only noise, thus has no effect on G.

    References
    ----------
    .. [1] A. Datta, H. Zou, "CoCoLasso for high-dimensional error-in-variables regression", Annals
       of Statistics 45(6), 2017, :doi:`10.1214/16-AOS1527` (projects a corrected Gram matrix to the
       positive semi-definite matrices, and corrects cross-validation).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp.learning import CorrectedRidge, PrivatizedColumns
    >>> rng = np.random.default_rng(0)
    >>> smokes = rng.integers(0, 2, 20_000)
    >>> y = 3.0 * smokes + rng.normal(size=20_000)
    >>> reporting = PrivatizedColumns(epsilon=1.0, domains={"smokes": 2}, random_state=0)
    >>> Z = reporting.fit_transform(smokes[:, None])
    >>> model = CorrectedRidge(private=reporting.slices_).fit(Z, y)
    >>> uncorrected = CorrectedRidge(private=[]).fit(Z, y)
    >>> def effect(fitted):
    ...     return (fitted.unshrunk_coef_[1] - fitted.unshrunk_coef_[0]).round(1)
    >>> effect(model), effect(uncorrected)
    (np.float64(3.0), np.float64(0.6))
    >>> low, high = model.confidence_interval(0.95)
    >>> np.all((low < [-1.5, 1.5]) & ([-1.5, 1.5] < high))
    np.True_
    """

    _for_noisy_rows = "use Ridge; corrected_score estimates the score at their true values"

    _parameter_constraints: dict = {
        "alpha": [Interval(Real, 0, None, closed="left")],
        **_CorrectedModel._parameter_constraints,
    }

    coef_: Any
    intercept_: Any
    unshrunk_coef_: Any

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        private: Sequence[Any] | Mapping[Any, Any] | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.alpha = alpha
        self.private = private
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the coefficients of the true features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features: unbiased indicators of private attributes, and any public features.
        y : array-like of shape (n_samples,)
            The target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the loss.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        ValueError
            If `X`, `y`, `sample_weight` or `private` is not as described, or if the indicators of a
            private attribute do not sum to 1 on average.
        """
        X, y, weight, blocks = self._checked(X, y, sample_weight, y_numeric=True)
        units = _units(X, blocks, weight, self.alpha)
        X = X / units
        penalty = np.diag(self.alpha / units**2)
        X_offset = np.zeros(X.shape[1])
        y_offset = 0.0
        if self.fit_intercept:
            X_offset = weight @ X / weight.sum()
            y_offset = float(weight @ y / weight.sum())
        values, minima, vectors = directions_of(X, blocks, weight, X_offset)
        rounding = max(X.shape) * np.finfo(float).eps
        raised_gram = (vectors * np.maximum(values, minima)) @ vectors.T + penalty
        inverse = np.linalg.pinv(raised_gram, rcond=rounding, hermitian=True)
        moments = (weight * (y - y_offset)) @ (X - X_offset)
        coef = inverse @ moments
        scores = _score_covariance(X, y, weight, blocks, coef, X_offset, y_offset)
        covariance = _sandwich(inverse, scores)
        self.coef_covariance_: np.ndarray = covariance / np.outer(units, units)
        self.unshrunk_coef_ = self.coef_ = coef / units
        if noisy := _noisy(X, blocks):
            gram = (vectors * values) @ vectors.T + penalty
            # The coefficients that are not shrunk are fitted twice: without private attributes for
            # the scale of the residuals, and then given the shrunk coefficients.
            free = _not_shrunk(X.shape[1], noisy)
            free_inverse = np.linalg.pinv(free.T @ gram @ free, hermitian=True) @ free.T
            explained = float(moments @ free @ free_inverse @ moments)
            scale = math.sqrt(max(weight @ (y - y_offset) ** 2 - explained, 0) / weight.sum())
            shrunk = _shrunk(coef, covariance, noisy, scale)
            self.coef_ = (shrunk + free @ free_inverse @ (moments - gram @ shrunk)) / units
        self.intercept_ = y_offset - float((X_offset * units) @ self.coef_)
        rounding *= np.abs(values).max()
        self.n_raised_: int = int(np.sum(values < minima - rounding))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target from true features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The true features. Noisy features are possible as well, but Ridge predicts from them
            with less error.

        Returns
        -------
        ndarray of shape (n_samples,)
            The predictions.
        """
        return self._scores(X)

    def corrected_score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Estimate, from noisy features, the coefficient of determination on the true features.

        The mean squared error is computed from the noisy rows, and the contribution of their noise
        is subtracted. The result is unbiased if the rows were not used in `fit`. Use this score in
        a search for `alpha`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Noisy features.
        y : array-like of shape (n_samples,)
            The target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        float
            1 minus the ratio of the mean squared error at the true rows to the variance of y.
        """
        check_is_fitted(self)
        self._refuse_reports(y)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=False)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        squares = (y - X @ self.coef_ - self.intercept_) ** 2
        for block in self._blocks(X):
            squares += excess(X[:, block], self.coef_[block])
        spread = weight @ (y - np.average(y, weights=weight)) ** 2
        return float(1 - weight @ squares / spread)

    def confidence_interval(self, level: float = 0.95) -> ConfidenceInterval:
        """Return confidence intervals of the coefficients of the true features.

        The intervals are for the coefficients of the regression with the same penalty in the
        population. Their centers are `unshrunk_coef_`.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval contains its coefficient, in [0.5, 1).

        Returns
        -------
        ConfidenceInterval
            `low` and `high`, each an ndarray of shape (n_features,).

        Raises
        ------
        ValueError
            If the level is not in [0.5, 1).

        Warns
        -----
        UserWarning
            If eigenvalues were raised, because the coefficients are then biased.
        """
        check_is_fitted(self)
        check_level(level)
        if self.n_raised_:
            warnings.warn(
                f"CorrectedRidge raised {self.n_raised_} of {self.n_features_in_} eigenvalues of "
                "the Gram matrix, because there are too few rows for their noise. So coefficients "
                "are biased, and intervals may miss the true coefficients. Join rare categories, "
                "or collect more rows.",
                stacklevel=2,
            )
        half = stats.norm.isf((1 - level) / 2) * np.sqrt(np.diag(self.coef_covariance_))
        return ConfidenceInterval(self.unshrunk_coef_ - half, self.unshrunk_coef_ + half)


class CorrectedLogisticRegression(ClassifierMixin, _CorrectedModel):
    """Binary logistic regression on noisy indicators, corrected for the noise.

    Any function of a category is linear in the indicators of the category. So with the unbiased
    indicators Z of :class:`PrivatizedColumns`, an unbiased estimate of the loss of a row is

    .. math:: \\sum_{v_1, \\dots, v_m} Z_1(v_1) \\cdots Z_m(v_m) \\, \\ell(s(v_1, \\dots, v_m), y),

    where l is the logistic loss, y the label and s the linear score of the row if its m private
    attributes had the categories v_1 to v_m. This is a sum of losses at all joint categories, with
    weights that may be negative. The total over the rows is consistent for the total loss of the
    true rows. But the computing time is proportional to the product of the numbers of categories,
    and the total is neither convex nor bounded. If the rows of one class are too few for their
    noise, a penalty makes the total bounded. To define it, the eigenvalues of the corrected Gram
    matrix of each class are raised as in :class:`CorrectedRidge`; the increments are the penalty.
    It vanishes as the number of rows grows.

    Coefficients of private attributes are then shrunk by Bayesian model averaging as in
    CorrectedRidge, and the coefficients of public features are fitted again.

    The coefficients describe the true values. Use them for interpretation, and for predictions from
    true values. If new rows are randomized as well, scikit-learn's LogisticRegression on randomized
    rows has the smaller loss.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the L2 penalty, > 0, as in
        :class:`~sklearn.linear_model.LogisticRegression`. The intercept is not penalized.
    private : sequence of slices, ranges, index arrays, masks or names, or a mapping to such values
        The columns of each private attribute, as for :class:`CorrectedRidge`; ``[]`` if no column
        is private. The product of the numbers of categories must be at most 1000.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    tol : float, default=1e-6
        The optimizer stops if all components of the gradient of the mean loss are below this value.
    max_iter : int, default=1000
        Maximum number of iterations of L-BFGS.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Coefficients of the true features, for the second class.
    intercept_ : ndarray of shape (1,)
        The intercept.
    classes_ : ndarray of shape (2,)
        The classes.
    n_raised_ : int
        Total number of raised eigenvalues in both classes.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had names that are all strings.

    See Also
    --------
    CorrectedRidge : The same correction for squared errors, with intervals.
    PrivatizedColumns : The transformer that returns the noisy indicators.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_ldp.learning import CorrectedLogisticRegression, PrivatizedColumns
    >>> rng = np.random.default_rng(0)
    >>> smokes = rng.integers(0, 2, 40_000)
    >>> ill = rng.random(40_000) < np.where(smokes, 0.8, 0.2)
    >>> reporting = PrivatizedColumns(epsilon=2.0, domains={"smokes": 2}, random_state=0)
    >>> Z = reporting.fit_transform(smokes[:, None])
    >>> true = reporting.true_indicators([[0], [1]])
    >>> model = CorrectedLogisticRegression(private=reporting.slices_).fit(Z, ill)
    >>> model.predict_proba(true)[:, 1].round(1)
    array([0.2, 0.8])
    >>> LogisticRegression().fit(Z, ill).predict_proba(true)[:, 1].round(1)
    array([0.3, 0.7])
    """

    _for_noisy_rows = "use LogisticRegression"

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **_CorrectedModel._parameter_constraints,
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    coef_: Any
    intercept_: Any
    classes_: np.ndarray
    n_iter_: int

    def __init__(
        self,
        C: float = 1.0,
        *,
        private: Sequence[Any] | Mapping[Any, Any] | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
    ) -> None:
        self.C = C
        self.private = private
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    @each_warning_once()
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the coefficients of the true features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features: unbiased indicators of private attributes, and any public features.
        y : array-like of shape (n_samples,)
            The labels, from two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the loss.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        ValueError
            If `X`, `y`, `sample_weight` or `private` is not as described, if y does not have
            exactly two classes, or if the private attributes have more than 1,000 joint categories.
        """
        name = type(self).__name__
        X, y, weight, blocks = self._checked(X, y, sample_weight)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{name} got {len(self.classes_)} classes. Use OneVsRestClassifier."
            )
        if len(self.classes_) < 2:
            raise ValueError(
                f"{name} needs two classes in y, got 1 class: {self.classes_[0]!r}. Pass rows of "
                "both classes."
            )
        n_cells = math.prod(len(block) for block in blocks)
        if n_cells > _MAX_CELLS:
            raise ValueError(
                f"{name} got private attributes with {n_cells} joint categories, expected at most "
                f"{_MAX_CELLS}. Join categories, or use CorrectedRidge, which has no such limit."
            )
        penalty = plain = np.eye(X.shape[1]) / self.C
        self.n_raised_: int = 0
        for is_in_class in (numbers == 0, numbers == 1):
            rows, weights = X[is_in_class], weight[is_in_class]
            if blocks and weights.any():
                means = weights @ rows / weights.sum()
                values, minima, vectors = directions_of(rows, blocks, weights, means)
                added = np.maximum(minima - values, 0)
                penalty = penalty + (vectors * added) @ vectors.T
                rounding = max(rows.shape) * np.finfo(float).eps * np.abs(values).max()
                self.n_raised_ += int(np.sum(added > rounding))
        loss = CorrectedLogLoss(X, numbers == 1, weight, blocks, penalty, self.fit_intercept)
        # Scaled features avoid optimizer steps that are far too large or too small.
        scaled = loss.standardizing()
        limits = (self.tol, self.max_iter, name)
        coef, self.n_iter_ = loss.minimize_along(np.zeros(len(scaled)), scaled, *limits)
        share = float(weight @ numbers / weight.sum())
        if (noisy := _noisy(X, blocks)) and 0 < share < 1:
            scale = 1 / math.sqrt(share * (1 - share))
            shrunk = _shrunk(coef, loss.covariance(coef), noisy, scale)
            free = scaled @ _not_shrunk(len(coef), noisy)
            loss = CorrectedLogLoss(X, numbers == 1, weight, blocks, plain, self.fit_intercept)
            coef, n_iter = loss.minimize_along(shrunk, free, *limits)
            self.n_iter_ += n_iter
        self.coef_, self.intercept_ = coef[None, :-1], coef[-1:]
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log odds of the second class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The true features.

        Returns
        -------
        ndarray of shape (n_samples,)
            The log odds.
        """
        return self._scores(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The true features.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            The probabilities, in the order of `classes_`.
        """
        score = self.decision_function(X)
        return special.expit(np.column_stack([-score, score]))

    def predict(self, X: Any) -> np.ndarray:
        """Return the class with the larger probability, for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The true features.

        Returns
        -------
        ndarray of shape (n_samples,)
            The classes.
        """
        is_second = self.decision_function(X) > 0
        return self.classes_[is_second.astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@dataclass(eq=False)
class CorrectedLogLoss:
    """The corrected logistic loss as a function of the coefficients, with its gradient.

    The loss is the weighted mean over the rows. The last coefficient is the intercept.
    """

    X: np.ndarray
    is_second: np.ndarray
    weight: np.ndarray
    blocks: list[np.ndarray]
    penalty: np.ndarray
    fit_intercept: bool

    def __post_init__(self) -> None:
        n_features = self.X.shape[1]
        private = [j for block in self.blocks for j in block]
        self.seen = np.setdiff1d(np.arange(n_features + 1), private)  # the intercept comes last
        self.cells = np.zeros((math.prod(map(len, self.blocks)), n_features + 1))
        for row, cell in zip(self.cells, product(*self.blocks), strict=True):
            row[list(cell)] = 1

    def _chunks(self, at: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield, for each chunk of rows, four arrays that the loss and its derivatives need.

        The arrays are: the public features with a column of ones; the weight of each joint category
        of the private attributes; the sign of the class (1 or -1); and the margin, the sign times
        the linear score, of each joint category.
        at: the coefficients.
        """
        for rows in gen_batches(len(self.X), max(_CHUNK_LOSSES // len(self.cells), 1)):
            weights = self.weight[rows, None]
            for block in self.blocks:
                weighted = weights[:, :, None] * self.X[rows][:, None, block]
                weights = weighted.reshape(len(weighted), -1)
            features = np.column_stack([self.X[rows][:, self.seen[:-1]], np.ones(len(weights))])
            sign = np.where(self.is_second[rows, None], 1.0, -1.0)
            margins = sign * ((features @ at[self.seen])[:, None] + self.cells @ at)
            yield features, weights, sign, margins

    def __call__(self, at: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.r_[self.penalty @ at[:-1], 0.0]
        total = float(at @ gradient) / 2
        for features, weights, sign, margins in self._chunks(at):
            total -= float(np.sum(weights * special.log_expit(margins)))
            slopes = -sign * weights * special.expit(-margins)
            gradient += self.cells.T @ slopes.sum(axis=0)
            gradient[self.seen] += features.T @ slopes.sum(axis=1)
        gradient[-1] *= self.fit_intercept
        return total / self.weight.sum(), gradient / self.weight.sum()

    def covariance(self, at: np.ndarray) -> np.ndarray:
        """Return the sandwich estimate of the covariance matrix of the coefficients `at`.

        It includes the noise of the reports.
        """
        bread, meat = np.zeros((2, len(at), len(at)))
        bread[:-1, :-1] = self.penalty
        for features, weights, sign, margins in self._chunks(at):
            chances = special.expit(-margins)
            slopes = -sign * weights * chances
            curves = weights * chances * (1 - chances)
            scores = slopes @ self.cells
            scores[:, self.seen] += features * slopes.sum(axis=1, keepdims=True)
            meat += scores.T @ scores
            crossed = features.T @ curves @ self.cells
            bread += (self.cells.T * curves.sum(axis=0)) @ self.cells
            bread[self.seen] += crossed
            bread[:, self.seen] += crossed.T
            bread[np.ix_(self.seen, self.seen)] += (features.T * curves.sum(axis=1)) @ features
        if not self.fit_intercept:
            bread[-1] = bread[:, -1] = 0
        inverse = np.linalg.pinv(bread, hermitian=True)
        return inverse @ meat @ inverse

    def standardizing(self) -> np.ndarray:
        """Return the matrix that converts coefficients of standardized features.

        Multiplied by these coefficients, it gives the coefficients of the features themselves.
        """
        units = _units(self.X, self.blocks, self.weight, 0.0)
        into = np.diag(np.append(1 / units, 1.0))
        public = self.seen[:-1]
        if self.fit_intercept:
            means = self.weight @ self.X[:, public] / self.weight.sum()
            into[-1, public] = -means / units[public]
        return into

    def minimize_along(
        self, start: np.ndarray, directions: np.ndarray, *limits: Any
    ) -> tuple[np.ndarray, int]:
        """Minimize the loss over `start` plus linear combinations of the columns of `directions`.

        limits: the last arguments of `minimized`.
        Returns: the coefficients at the minimum, and the number of iterations.
        """

        def along(at: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self(start + directions @ at)
            return value, gradient @ directions

        at, n_iter = minimized(along, directions.shape[1], *limits)
        return start + directions @ at, n_iter


# -- parts of the ridge regression ------------------------------------------------------------
def _score_covariance(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    blocks: list[np.ndarray],
    coef: np.ndarray,
    X_offset: np.ndarray,
    y_offset: float,
) -> np.ndarray:
    """Return the sum over all rows of the outer product of a row's score vector with itself.

    The score vector of a row is minus half the gradient of the row's corrected squared error with
    respect to the coefficients.
    Shapes: -> (n_features, n_features).
    """
    intercept = y_offset - float(X_offset @ coef)
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows in _batches(X):
        residuals = y[rows] - X[rows] @ coef - intercept
        scores = (X[rows] - X_offset) * residuals[:, None]
        for block in blocks:
            indicators = X[rows][:, block]
            effects = coef[block]
            scores[:, block] -= indicators * effects - indicators * (indicators @ effects)[:, None]
        scores *= weight[rows, None]
        total += scores.T @ scores
    return total


def _sandwich(inverse: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return ``inverse @ covariance @ inverse``, computed so that no variance is negative."""
    # The product of three nearly singular matrices may have negative variances. The square of a
    # root has none.
    sizes, axes = np.linalg.eigh(covariance)
    root = inverse @ (axes * np.sqrt(np.maximum(sizes, 0)))
    return root @ root.T


# -- parts of both models ---------------------------------------------------------------------
def _units(X: np.ndarray, blocks: list[np.ndarray], weight: np.ndarray, alpha: float) -> np.ndarray:
    """Return the scale by which each feature is divided, of shape (n_features,).

    It is the standard deviation, increased according to the penalty `alpha`. The scale of private
    indicators and of constant features without a penalty is 1.
    """
    total = weight.sum()
    means = weight @ X / total
    variances = sum(weight[rows] @ (X[rows] - means) ** 2 for rows in _batches(X)) / total
    units = np.sqrt(variances + alpha / total)
    units[(units == 0) | np.isin(np.arange(len(units)), [j for block in blocks for j in block])] = 1
    return units


def _shrunk(
    coef: np.ndarray, covariance: np.ndarray, blocks: list[np.ndarray], scale: float
) -> np.ndarray:
    """Return the shrunken deviations of the coefficients from the mean of their private attribute.

    Shapes: coef (n_coef,), covariance (n_coef, n_coef) -> (n_coef,), 0 for public features.
    blocks: for each private attribute, the positions of its coefficients.
    scale: the unit of the prior standard deviations of an effect.
    """
    # The prior of an attribute is normal around 0, and its standard deviation is one of `_EFFECTS`
    # times the scale. Given the true coefficients, the estimates are normal with the specified
    # covariance.
    shrunk = np.zeros_like(coef)
    variances = (scale * _EFFECTS[:, None]) ** 2
    for block in blocks:
        contrasts = linalg.helmert(len(block))
        noise, axes = np.linalg.eigh(contrasts @ covariance[np.ix_(block, block)] @ contrasts.T)
        axes = contrasts.T @ axes
        along = coef[block] @ axes
        # Rounding errors limit the precision of the estimates.
        noise = np.maximum(noise, 1e-12 * (variances[-1] + along.max() ** 2) + 1e-300)
        total = variances + noise
        evidence = np.log(_CHANCES) - 0.5 * np.sum(np.log(total) + along**2 / total, axis=1)
        shrunk[block] = axes @ (special.softmax(evidence) @ (variances / total) * along)
    return shrunk


def _noisy(X: np.ndarray, blocks: list[np.ndarray]) -> list[np.ndarray]:
    """Return the positions of the columns of those private attributes that have noisy indicators.

    Indicators are noisy if they are not all 0 or 1.
    """
    return [block for block in blocks if np.any(X[:, block] ** 2 != X[:, block])]


def _not_shrunk(n_coef: int, blocks: list[np.ndarray]) -> np.ndarray:
    """Return the directions in which coefficients are fitted again after the shrinkage.

    They are the coefficients of public features, and the sum of the coefficients of each private
    attribute.
    Shapes: -> (n_coef, n_directions).
    """
    every = np.eye(n_coef)
    means = [every[:, block].sum(axis=1) for block in blocks]
    return np.column_stack([np.delete(every, np.concatenate(blocks), axis=1), *means])


def excess(z: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the term to add to ``(z @ b)**2`` to remove the bias by the noise of the indicators.

    With the term, ``z @ b**2 - (z @ b)**2``, the square has the same expectation as the square for
    the true indicators. The term is 0 for indicators without noise.
    Shapes: z (n_samples, n_categories), b (n_categories,) or (n_categories, m) ->
    (n_samples,) or (n_samples, m).
    z: the indicators of one private attribute. b: their coefficients.
    """
    return z @ b**2 - (z @ b) ** 2


def directions_of(
    X: np.ndarray, blocks: list[np.ndarray], weight: np.ndarray, means: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the eigenvalues of the corrected Gram matrix, their lower limits, and eigenvectors.

    Shapes: X (n_samples, n_features), weight (n_samples,), means (n_features,) ->
    (n_features,), (n_features,), (n_features, n_features).
    An eigenvalue below its lower limit is to be raised to the limit. The limits are 0 without
    private attributes. The eigenvectors are columns.
    """
    # The minimum is four times a bound on the standard error of an eigenvalue due to noise. The
    # bound is the smaller of two: the spread of the summands of the rows, and the size of their
    # corrections, which is 0 without noise.
    values, vectors = np.linalg.eigh(_gram(X, blocks, weight, means))
    if not blocks:
        return values, np.zeros(len(values)), vectors
    sums, squares, corrections = np.zeros((3, vectors.shape[1]))
    for rows in _batches(X):
        added: Any = sum(excess(X[rows][:, block], vectors[block]) for block in blocks)
        terms = ((X[rows] - means) @ vectors) ** 2 + added
        sums += weight[rows] @ terms
        squares += weight[rows] @ terms**2
        corrections += weight[rows] @ added**2
    spread = np.maximum(squares - sums**2 / weight.sum(), 0)
    return values, _RAISED_TO * np.sqrt(np.minimum(spread, corrections)), vectors


def with_sums_of_one(
    X: np.ndarray, blocks: list[np.ndarray], weight: np.ndarray, name: str
) -> np.ndarray:
    """Shift the indicators of each private attribute in each row, so that their sum is 1.

    Shapes: X (n_samples, n_features), weight (n_samples,) -> (n_samples, n_features).
    Raises ValueError if the indicators of an attribute do not sum to 1 on average. Rows with weight
    0 are not part of this average.
    """
    X = X.copy() if blocks else X
    for i, block in enumerate(blocks):
        off = X[:, block].sum(axis=1) - 1
        judged = off[weight > 0]
        allowed = _FAR_OFF * judged.std() / np.sqrt(max(len(judged), 1)) + 1e-6
        if len(judged) >= _MANY_ROWS and abs(judged.mean()) > allowed:
            raise ValueError(
                f"{name}: the columns of private[{i}] must be the unbiased indicators of all "
                "categories of one attribute, so that their sum is 1 on average, got the average "
                f"{1 + judged.mean():g}. Pass all columns of the output of PrivatizedColumns, and "
                "do not scale them."
            )
        X[:, block] -= off[:, None] / len(block)
    return X


def private_blocks(
    private: Any, n_features: int, name: str, features: ArrayLike | None = None
) -> list[np.ndarray]:
    """Return, for each private attribute, the positions of its columns.

    Shapes: features (n_features,) -> a list of arrays of shape (n_categories,).
    name: the calling class, for messages. features: the names of the columns, or None.
    """
    if private is None:
        raise ValueError(
            f"{name} needs private=, the noisy columns of X, because it corrects only these. Pass "
            "private=transformer.slices_ of the PrivatizedColumns, or private=[] if no column is "
            "noisy."
        )
    attributes = private.values() if isinstance(private, Mapping) else private
    if isinstance(attributes, (str, slice, range)) or not isinstance(attributes, Iterable):
        raise ValueError(
            f"{name} expects private= to be a list with the columns of each private attribute, "
            f"such as [range(0, 5)], got {private!r}. Put the columns of each attribute into a "
            "list."
        )
    indices = _named_columns(list(attributes), features, name)
    blocks = [
        _positions(index, n_features, f"{name}: private[{i}]") for i, index in enumerate(indices)
    ]
    counts = Counter(column for block in blocks for column in block.tolist())
    if twice := [column for column, count in counts.items() if count > 1]:
        raise ValueError(
            f"{name} got the column {twice[0]} more than once in private=. List each column only "
            "once, in one attribute."
        )
    return blocks


def _named_columns(attributes: list[Any], features: Any, name: str) -> list[Any]:
    """Return the elements of `private` with positions of columns in place of their names.

    attributes: for each private attribute, its columns as the user passed them.
    features: the names of the columns of X, or None.
    """
    if not any(isinstance(attribute, str) or _are_names(attribute) for attribute in attributes):
        return attributes
    if features is None:
        raise ValueError(
            f"{name} got names in private=, but X has no column names. Pass X as a data frame, or "
            "pass positions in private=, such as PrivatizedColumns.slices_."
        )
    places = {feature: j for j, feature in enumerate(features)}
    columns = sorted((key for key in attributes if isinstance(key, str)), key=len, reverse=True)

    def column_of(feature: str) -> str | None:
        # A ColumnTransformer puts the name of a step before the name of a feature.
        spellings = product(columns, (feature, feature.rpartition("__")[2]))
        return next((column for column, full in spellings if full.startswith(f"{column}_")), None)

    def block_of(attribute: Any) -> Any:
        if isinstance(attribute, str):
            return [j for feature, j in places.items() if column_of(feature) == attribute]
        is_named = _are_names(attribute) and all(label in places for label in attribute)
        return [places[label] for label in attribute] if is_named else attribute

    blocks = [block_of(attribute) for attribute in attributes]
    for attribute, block in zip(attributes, blocks, strict=True):
        if (isinstance(block, list) and not block) or _are_names(block):
            raise ValueError(
                f"{name}: X has no columns for {attribute!r} in private=. Pass the names of all "
                'indicators of the attribute, or its prefix ("sex" stands for "sex_F" and '
                '"sex_M").'
            )
    return blocks


def _are_names(labels: Any) -> bool:
    array = np.asarray(labels)
    return array.ndim == 1 and array.dtype.kind in "OUT"


def _positions(index: Any, n_features: int, argument: str) -> np.ndarray:
    """Return the positions of the columns that one element of `private` selects.

    index: a slice, a range, an array of positions or a mask. argument: its name, for messages.
    """
    positions = np.arange(n_features)[index] if isinstance(index, slice) else np.asarray(index)
    if positions.dtype.kind == "b" and positions.shape == (n_features,):
        positions = np.flatnonzero(positions)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(
            f"{argument} must be a slice, a range, an array of positions or a mask of "
            f"{n_features} booleans, got {index!r}. Pass the columns in one of these forms."
        )
    outside = positions[(positions < 0) | (positions >= n_features)]
    if outside.size:
        raise ValueError(
            f"{argument} contains the column {outside[0]}, but X has {n_features} columns. Pass "
            "positions of columns, counted from 0, in the X of fit, after any ColumnTransformer."
        )
    if len(positions) < 2:
        raise ValueError(
            f"{argument} selects {len(positions)} of the {n_features} columns. A one-hot encoded "
            "attribute has at least two indicator columns, one per category. Pass all of them."
        )
    return positions.astype(np.intp)


def _batches(X: np.ndarray) -> Iterator[slice]:
    return gen_batches(len(X), max(_CHUNK_CELLS // X.shape[1], 1))


_Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]  # with its gradient


@one_thread
def minimized(
    function: _Loss, n_coef: int, tol: float, max_iter: int, name: str, *, maxls: int = 20
) -> tuple[np.ndarray, int]:
    """Minimize a function by L-BFGS, starting from zeros.

    function: returns its value and its gradient. name: the calling class, for a warning.
    Returns: the minimizer, of shape (n_coef,), and the number of iterations.
    """
    options = {"maxiter": max_iter, "gtol": tol, "ftol": 64 * np.finfo(float).eps, "maxls": maxls}
    start = np.zeros(n_coef)
    result = optimize.minimize(function, start, jac=True, method="L-BFGS-B", options=options)
    if result.status == 1:
        text = f"{name} did not converge within max_iter={max_iter} iterations. Scale the features,"
        warnings.warn(f"{text} lower C, or increase max_iter.", ConvergenceWarning, stacklevel=3)
    return result.x, int(result.nit)
