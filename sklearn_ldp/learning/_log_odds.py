"""How much each value of a feature speaks for each class, from noisy tables of both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, logit

from ..numerics.simplex import norm_sub

# Log odds ratios that are integrated over, and scales of their prior that are averaged by evidence.
_LOG_ODDS = np.linspace(-6, 6, 121)
_SCALES = np.geomspace(0.3, 3, 12)
_DEGREES = 3  # of freedom of the prior: a few values may speak loudly where most are silent
_PRIORS = (1 + (_LOG_ODDS / _SCALES[:, None]) ** 2 / _DEGREES) ** (-(_DEGREES + 1) / 2)
_PRIORS /= _PRIORS.sum(axis=1, keepdims=True)


def log_lifts(table: np.ndarray, std: float, class_prior: np.ndarray) -> np.ndarray:
    """Return the logarithm of P(class | value) / P(class), shrunk by the noise of the table.

    For a class of probability c, the cell of a value minus c times the sum of its row is

    .. math:: f(v) \\, (P(c \\mid v) - c),

    plus noise of known variance. The log odds ratio of P(c | v) to c has a Student prior around 0,
    whose scale is learnt from all values of the feature: averaged over by the evidence for each of
    them. The result is the posterior mean. A rare value, or one that noise swamps, says nothing.

    Parameters
    ----------
    table : ndarray of shape (n_values, n_classes)
        Estimated joint frequencies; some may be negative.
    std : float
        Standard deviation of a cell, > 0.
    class_prior : ndarray of shape (n_classes,)
        P(class), > 0, with sum 1.

    Returns
    -------
    ndarray of shape (n_values, n_classes)
        The log lifts.
    """
    n_classes = len(class_prior)
    rows = table.sum(axis=1)
    # The frequency of a value is not taken to be smaller than what can be told from 0.
    frequencies = np.maximum(norm_sub(rows), std)
    frequencies /= frequencies.sum()
    contrasts = table - rows[:, None] * class_prior
    stds = std * np.sqrt((1 - class_prior) ** 2 + (n_classes - 1) * class_prior**2)
    likelihoods, evidence = [], np.zeros(len(_SCALES))
    for c, prior in enumerate(class_prior):
        expected = frequencies[:, None] * (expit(logit(prior) + _LOG_ODDS) - prior)
        distance = (contrasts[:, [c]] - expected) / stds[c]
        log_likelihood = -0.5 * distance**2
        likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        likelihoods.append(likelihood)
        evidence += np.log(likelihood @ _PRIORS.T).sum(axis=0)
    # The contrasts of a value sum to 0, so that one of the classes tells nothing new.
    evidence *= (n_classes - 1) / n_classes
    shares = np.exp(evidence - evidence.max())
    shares /= shares.sum()
    log_odds = np.column_stack([_posterior_mean(one, shares) for one in likelihoods])
    posterior = expit(logit(class_prior) + log_odds)
    posterior /= posterior.sum(axis=1, keepdims=True)
    return np.log(posterior / class_prior)


def _posterior_mean(likelihood: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Mean of the log odds ratio of each value, over the scales of the prior as well."""
    totals = likelihood @ _PRIORS.T
    return ((likelihood @ (_PRIORS * _LOG_ODDS).T) / totals) @ shares


def slope(
    lifts: Sequence[np.ndarray], frequencies: Sequence[np.ndarray], correlation: float
) -> float:
    """Return the factor that makes the sum of the features' log odds calibrated.

    Naive Bayes adds up log odds as if features were independent within a class. Say that the sum of
    independent terms with variances ``s_j^2`` within a class also has a difference of
    ``sum s_j^2`` between two classes, as log odds of a normal distribution have, and that the terms
    are correlated with each other in truth. Then the variance is larger, and the calibrated log
    odds are the sum times

    .. math:: \\frac{\\sum_j s_j^2}{\\sum_j s_j^2 + \\rho \\sum_{j \\neq k} s_j s_k}.

    Parameters
    ----------
    lifts : sequence of ndarray of shape (n_values, n_classes)
        Log lifts of each feature.
    frequencies : sequence of ndarray of shape (n_values,)
        Frequencies of the values of each feature.
    correlation : float
        The mean correlation :math:`\\rho` between two features' terms.

    Returns
    -------
    float
        The factor, in (0, 1].
    """
    stds = []
    for lift, frequency in zip(lifts, frequencies, strict=True):
        mean = frequency @ lift
        stds.append(np.sqrt(np.mean(frequency @ (lift - mean) ** 2)))
    squares, total = float(np.sum(np.square(stds))), float(np.sum(stds))
    if not squares:
        return 1.0
    return squares / (squares + correlation * (total**2 - squares))
