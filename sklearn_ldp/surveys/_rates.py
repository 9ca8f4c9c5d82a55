"""The rate of a target in each category of a column, from a noisy table of the two."""

from __future__ import annotations

import numpy as np

_N_SPREADS = 100


def shrunken_rates(
    joint: np.ndarray,
    margins: np.ndarray,
    overall: float,
    gap_variance: np.ndarray,
    margin_variance: np.ndarray,
    n_users: float | None = None,
) -> np.ndarray:
    """Return the rate of a target in each category, shrunken towards the overall rate.

    The gap of a category, ``joint - overall * margin``, is its margin times how far its rate is off
    the overall one, plus noise of a known variance. If rates stray with a standard deviation tau,
    one is off the overall rate, their mean by margins, with a variance of about ``between = tau**2
    * (1 - 2 * margin + sum(margins**2))``. The best linear estimate of how far it is off is then
    ``between * margin * gap / (between * E[margin**2] + variance)``, where the mean square of a
    margin is its square and the variance of its noise: a category whose margin is not far above its
    noise has about the overall rate. This is averaged over tau, from 0 to the largest that rates
    with this mean can have, by the likelihood of all gaps.

    So does scikit-learn's TargetEncoder, which weighs the variance within a category against that
    between them, here with the variance of the privacy noise added. Errors of different categories
    are taken as independent.

    Parameters
    ----------
    joint : ndarray of shape (d,)
        Estimated frequency of each category together with the target.
    margins : ndarray of shape (d,)
        Estimated frequency of each category.
    overall : float
        The rate among all, in [0, 1].
    gap_variance : ndarray of shape (d,)
        Variance of the noise of ``joint - overall * margins``.
    margin_variance : ndarray of shape (d,)
        Variance of the noise of the margins.
    n_users : float, default=None
        Number of users, for what their drawing from a population adds to the variance of the gaps;
        None leaves that out.

    Returns
    -------
    ndarray of shape (d,)
        Rates in [0, 1].
    """
    gaps = joint - overall * margins
    sizes = np.maximum(margins, 0)
    within = overall * (1 - overall)
    drawn = 0.0 if n_users is None else sizes * within / n_users
    noise = np.maximum(gap_variance + drawn, np.finfo(float).tiny)
    shares = sizes / max(sizes.sum(), np.finfo(float).tiny)
    # A uniform law of tau, at points that are closest where it is small.
    roots = (np.arange(_N_SPREADS)[:, None] + 0.5) / _N_SPREADS
    between = within * roots**4 * (1 - 2 * shares + np.sum(shares**2))
    total = between * (sizes**2 + margin_variance) + noise
    log_weights = np.log(roots[:, 0]) - np.sum(np.log(total) + gaps**2 / total, axis=1) / 2
    weights = np.exp(log_weights - log_weights.max())
    factors = (weights / weights.sum()) @ (between * sizes / total)
    return np.clip(overall + factors * gaps, 0, 1)


def plain_rates(joint: np.ndarray, margins: np.ndarray, overall: float) -> np.ndarray:
    """Return the ratios of cells and margins; the overall rate where there is no margin.

    Parameters
    ----------
    joint : ndarray of shape (d,)
        Frequency of each category together with the target.
    margins : ndarray of shape (d,)
        Frequency of each category.
    overall : float
        The rate among all, in [0, 1].

    Returns
    -------
    ndarray of shape (d,)
        Rates in [0, 1].
    """
    is_there = margins > 0
    return np.where(is_there, np.clip(joint / np.where(is_there, margins, 1), 0, 1), overall)
