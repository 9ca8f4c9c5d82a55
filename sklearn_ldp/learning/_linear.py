"""Logistic regression from randomised labels: two objectives, and one way to minimise them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from ..numerics.simplex import norm_sub

# Loss of each row and its derivative with respect to the row's scores, of shape (n, n_scores):
# one score for two classes (the log odds of the second), one score a class for more.
Objective = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class LinearFit(NamedTuple):
    """Coefficients as scikit-learn's linear classifiers have them.

    Parameters
    ----------
    coef : ndarray of shape (n_scores, n_features)
        Coefficients.
    intercept : ndarray of shape (n_scores,)
        Intercepts; zeros if there is none.
    n_iter : int
        Number of iterations.
    """

    coef: np.ndarray
    intercept: np.ndarray
    n_iter: int


def corrected_loss(labels: np.ndarray) -> Objective:
    """Return the log loss, linear in the labels: unbiased if the labels are, and convex.

    For scores s it is ``logsumexp(s) - labels @ s``, if the labels of a row sum to 1. Rows may have
    negative entries: their part is linear in the scores.

    Parameters
    ----------
    labels : ndarray of shape (n, n_classes)
        Corrected labels.

    Returns
    -------
    callable
        The objective.
    """
    if labels.shape[1] == 2:
        second = labels[:, 1:]

        def binary(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return (-log_expit(-scores) - second * scores)[:, 0], expit(scores) - second

        return binary

    def multinomial(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = logsumexp(scores, axis=1)
        loss = total - np.einsum("ij,ij->i", labels, scores)
        return loss, np.exp(scores - total[:, None]) - labels

    return multinomial


def with_possible_totals(labels: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return corrected labels whose mean is a distribution, moved by a constant if it is not.

    At the minimum of the loss the mean probabilities are the mean labels, if there is an intercept.
    If a rare class has a negative mean, the loss falls without end as its intercept does.

    Parameters
    ----------
    labels : ndarray of shape (n, n_classes)
        Corrected labels.
    weights : ndarray of shape (n,) or None
        Weight of each row.

    Returns
    -------
    ndarray of shape (n, n_classes)
        The same labels, if each class has a positive mean.
    """
    mean = np.average(labels, axis=0, weights=weights)
    total = len(labels) if weights is None else weights.sum()
    least = 1 / (total + labels.shape[1])
    if mean.min() >= least:
        return labels
    possible = np.maximum(norm_sub(mean), least)
    return labels + (possible / possible.sum() - mean)


def report_likelihood(codes: np.ndarray, q: float, signal: float, n_classes: int) -> Objective:
    """Return minus the log likelihood of reports: ``-log(q + signal P(class reported))``.

    It is not convex, but it weighs each row by what its report can tell, and no row by more. Its
    minimum is the maximum likelihood estimate, which no other estimate beats in large samples if
    the model is right.

    Parameters
    ----------
    codes : ndarray of int of shape (n,)
        The classes reported.
    q, signal : float
        Probability of a false class, and p - q.
    n_classes : int
        Number of classes.

    Returns
    -------
    callable
        The objective.
    """
    if n_classes == 2:
        sign = np.where(codes == 1, 1.0, -1.0)[:, None]

        def binary(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            reported = expit(sign * scores)
            likelihood = q + signal * reported
            slope = -sign * signal * reported * expit(-sign * scores) / likelihood
            return -np.log(likelihood)[:, 0], slope

        return binary

    rows = np.arange(len(codes))

    def multinomial(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        P = np.exp(scores - logsumexp(scores, axis=1)[:, None])
        reported = P[rows, codes]
        likelihood = q + signal * reported
        weight = signal * reported / likelihood
        slope = weight[:, None] * P
        slope[rows, codes] -= weight
        return -np.log(likelihood), slope

    return multinomial


def minimise(
    objective: Objective,
    X: Any,
    n_classes: int,
    *,
    C: float,
    fit_intercept: bool = True,
    sample_weight: np.ndarray | None = None,
    tol: float = 1e-4,
    max_iter: int = 100,
    name: str = "LogisticRegression",
) -> LinearFit:
    """Minimise ``C sum_i loss_i + |coef|^2 / 2`` over linear scores, as LogisticRegression does.

    Parameters
    ----------
    objective : callable
        Loss and slope of each row, for scores.
    X : ndarray or sparse matrix of shape (n, n_features)
        Features.
    n_classes : int
        Number of classes; two classes have one score.
    C : float
        Weight of the losses, > 0.
    fit_intercept : bool
        Whether scores have an intercept, which is not penalised.
    sample_weight : ndarray of shape (n,), default=None
        Weight of each row.
    tol : float
        Largest entry of the gradient of the mean loss at which to stop.
    max_iter : int
        Number of iterations after which to give up.
    name : str
        The class to name in warnings.

    Returns
    -------
    LinearFit
        The coefficients.
    """
    n_features, n_scores = X.shape[1], 1 if n_classes == 2 else n_classes
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    total = weights.sum()
    penalty = 1 / (C * total)
    share = (weights / total)[:, None]
    n_coef = n_scores * n_features

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        coef, intercept = flat[:n_coef].reshape(n_scores, n_features), flat[n_coef:]
        scores = X @ coef.T + (intercept if fit_intercept else 0.0)
        loss, slope = objective(scores)
        slope = slope * share
        gradient = (X.T @ slope).T + penalty * coef
        value = float(loss @ share[:, 0] + 0.5 * penalty * (coef.ravel() @ coef.ravel()))
        parts = [gradient.ravel(), slope.sum(axis=0)] if fit_intercept else [gradient.ravel()]
        return value, np.concatenate(parts)

    first = np.zeros(n_coef + (n_scores if fit_intercept else 0))
    found = minimize(
        value_and_gradient,
        first,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "gtol": tol, "ftol": 64 * np.finfo(float).eps, "maxls": 50},
    )
    if found.status == 1:
        warnings.warn(
            f"{name} did not converge within max_iter={max_iter} iterations. Scale the features, "
            "or increase max_iter.",
            ConvergenceWarning,
            stacklevel=2,
        )
    intercept = found.x[n_coef:] if fit_intercept else np.zeros(n_scores)
    return LinearFit(found.x[:n_coef].reshape(n_scores, n_features), intercept, int(found.nit))
