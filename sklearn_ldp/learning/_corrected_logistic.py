"""Logistic regression on unbiased indicators, without the bias that their noise causes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._documentation import Documented
from ._corrected_ridge import directions_of, private_blocks, with_sums_of_one

_MAX_CELLS = 1000  # joint categories of all private attributes
_CHUNK_CELLS = 1 << 21  # losses that are computed at a time


class CorrectedLogisticRegression(Documented, ClassifierMixin, BaseEstimator):
    """Binary logistic regression on noisy indicators, corrected for their noise.

    Any function of a category is linear in its indicators. So with the unbiased indicators Z of
    :class:`PrivatizedColumns` the loss of a row is estimated without bias by

    .. math:: \\sum_{v_1, \\dots, v_m} Z_1(v_1) \\cdots Z_m(v_m) \\, \\ell(s(v_1, \\dots, v_m), y),

    the losses at all joint categories of its m private attributes, some with weights below 0. Its
    sum over the rows is consistent for that of the true ones, but it costs the product of the
    numbers of categories, and it is neither convex nor bounded. Where the rows of one class are too
    few for their noise, a penalty bounds it: the eigenvalues of the corrected Gram matrix of each
    class are raised as in :class:`CorrectedRidge`, and the penalty is what that adds. It vanishes
    as the number of rows grows.

    The coefficients are those of the true values, to be interpreted or to predict for rows whose
    true values are seen. For new rows that are randomised as well, scikit-learn's
    LogisticRegression on such rows has the smaller loss.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the L2 penalty, > 0, as in
        :class:`~sklearn.linear_model.LogisticRegression`. The intercept is not penalised.
    private : sequence of slices, ranges, index arrays or masks, or a mapping to those, default=None
        The columns of each private attribute: all of its indicators, none left out. None means that
        there are none. The product of their sizes must be at most 1000.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    tol : float, default=1e-6
        The optimiser stops where no component of the gradient of the mean loss is larger.
    max_iter : int, default=1000
        The most iterations of L-BFGS.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Coefficients of the true features, for the second class.
    intercept_ : ndarray of shape (1,)
        The intercept.
    classes_ : ndarray of shape (2,)
        The classes.
    n_raised_ : int
        Number of eigenvalues that were raised, in both classes.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had names that are all strings.

    See Also
    --------
    CorrectedRidge : The same for squared errors, with intervals.
    PrivatizedColumns : The transformer that makes the indicators.

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

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "private": "no_validation",  # private_blocks checks it, and says what is wrong
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    private: Any
    _expected_failed_checks: dict[str, str] = {}

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

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the coefficients of the true features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features: unbiased indicators, and any public ones.
        y : array-like of shape (n_samples,)
            The classes, of which there are two.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the loss.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        ValueError
            If `X`, `y`, `sample_weight` or `private` is malformed, if there are not two classes, or
            if the private attributes have too many joint categories.
        """
        self._validate_params()
        name = type(self).__name__
        X, y = validate_data(self, X, y, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{name} got {len(self.classes_)} classes. Use OneVsRestClassifier."
            )
        if len(self.classes_) < 2:
            raise ValueError(f"{name} needs two classes in y, got 1 class: {self.classes_[0]!r}.")
        blocks = private_blocks(self.private, X.shape[1], name)
        n_cells = math.prod(len(block) for block in blocks)
        if n_cells > _MAX_CELLS:
            raise ValueError(
                f"{name} got private attributes of {n_cells} joint categories, expected at most "
                f"{_MAX_CELLS}: group their categories, or use CorrectedRidge, which needs none."
            )
        X = with_sums_of_one(X, blocks, weight, name)
        penalty = np.eye(X.shape[1]) / self.C
        self.n_raised_ = 0
        for one in (0, 1):
            rows = numbers == one
            if blocks and weight[rows].any():
                added, n_raised = _raise(X[rows], blocks, weight[rows])
                penalty += added
                self.n_raised_ += n_raised
        loss = _Loss(X, numbers == 1, weight, blocks, penalty, self.fit_intercept)
        found = optimize.minimize(
            loss,
            np.zeros(X.shape[1] + 1),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iter, "gtol": self.tol, "ftol": 64 * 2.0**-52},
        )
        if found.nit >= self.max_iter:
            warnings.warn(
                f"{name} has not converged in max_iter={self.max_iter} iterations: scale the "
                "public features, lower C, or allow more.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.coef_, self.intercept_ = found.x[None, :-1], found.x[-1:]
        self.n_iter_ = int(found.nit)
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
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_[0] + self.intercept_[0]

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
        """Return the likelier class.

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


def _raise(X: np.ndarray, blocks: list[np.ndarray], weight: np.ndarray) -> tuple[np.ndarray, int]:
    """What raising the eigenvalues of the Gram matrix of some rows adds to it, and their number."""
    means = weight @ X / weight.sum()
    values, least, vectors = directions_of(X, blocks, weight, means)
    added = np.maximum(least - values, 0)
    scale = max(X.shape) * np.finfo(float).eps * np.abs(values).max()
    return (vectors * added) @ vectors.T, int(np.sum(added > scale))


class _Loss:
    """The corrected loss and its gradient, divided by the sum of the weights."""

    def __init__(
        self,
        X: np.ndarray,
        is_second: np.ndarray,
        weight: np.ndarray,
        blocks: list[np.ndarray],
        penalty: np.ndarray,
        fit_intercept: bool,
    ) -> None:
        taken = np.concatenate(blocks) if blocks else np.empty(0, dtype=np.intp)
        self.X, self.weight, self.blocks, self.penalty = X, weight, blocks, penalty
        self.sign = np.where(is_second, 1.0, -1.0)
        self.public = np.setdiff1d(np.arange(X.shape[1]), taken)
        self.fit_intercept = fit_intercept
        self.cells = np.zeros((math.prod(map(len, blocks)), X.shape[1]))
        for row, cell in zip(self.cells, product(*blocks), strict=True):
            row[list(cell)] = 1

    def __call__(self, at: np.ndarray) -> tuple[float, np.ndarray]:
        coef, public = at[:-1], self.public
        of_cells = self.cells @ coef
        gradient = np.r_[self.penalty @ coef, 0.0]
        total = float(coef @ gradient[:-1]) / 2
        for rows in self._chunks():
            weights, sign = self._weights(rows), self.sign[rows, None]
            features = self.X[rows][:, public]
            margins = sign * ((features @ coef[public] + at[-1])[:, None] + of_cells)
            total -= float(np.sum(weights * special.log_expit(margins)))
            slopes = -sign * weights * special.expit(-margins)
            of_rows = slopes.sum(axis=1)
            gradient[:-1] += self.cells.T @ slopes.sum(axis=0)
            gradient[public] += features.T @ of_rows
            gradient[-1] += of_rows.sum()
        gradient[-1] *= self.fit_intercept
        return total / self.weight.sum(), gradient / self.weight.sum()

    def _weights(self, rows: slice) -> np.ndarray:
        """The weight of each joint category in each row."""
        weights = self.weight[rows, None]
        for block in self.blocks:
            both = weights[:, :, None] * self.X[rows][:, None, block]
            weights = both.reshape(len(both), -1)
        return weights

    def _chunks(self) -> Iterator[slice]:
        size = max(_CHUNK_CELLS // len(self.cells), 1)
        return (slice(start, start + size) for start in range(0, len(self.X), size))
