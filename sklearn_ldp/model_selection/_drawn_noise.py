"""Simulated users and errors: whole numbers of users, correlated errors, errors of answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.estimates import FrequencyEstimate
from .._core.noise import Noise
from .._core.numerics.simplex import norm, norm_sub
from .._core.queries import QuerySet

_TINIEST = 1e-300  # keeps quotients finite
_MOST_STEPS = 60  # a bound on the work, if the method does not converge to `_PRECISE` before
_PRECISE = 1e-3  # relative to the length of a draw


def apportion(frequencies: np.ndarray, n_samples: int) -> np.ndarray:
    """Return whole numbers of users with these frequencies, by largest remainders.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        Negative frequencies count as 0. If no frequency is positive, all count as equal.
    n_samples : int
        Total number of users.

    Returns
    -------
    ndarray of shape (d,)
        Counts that sum to `n_samples`.
    """
    share = np.maximum(frequencies, 0.0)
    share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1 / len(share))
    exact = share * n_samples
    counts = np.floor(exact).astype(np.int64)
    missing = n_samples - int(counts.sum())
    if missing > 0:
        counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    elif missing < 0:  # rounding of the shares: at most a few users too many
        counts[np.argsort(-counts, kind="stable")[:-missing]] -= 1
    return counts


def plausible_frequencies(estimate: FrequencyEstimate, values: np.ndarray) -> np.ndarray:
    """Return the possible frequencies nearest to raw values, at which to compute the noise.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate with these values.
    values : ndarray of shape (d,)
        Raw values.

    Returns
    -------
    ndarray of shape (d,)
        The nearest distribution, or frequencies from 0 to 1 if they do not sum to 1.
    """
    return norm_sub(values) if estimate.sums_to_one else np.clip(values, 0, 1)


def consistent_values(estimate: FrequencyEstimate, values: np.ndarray) -> np.ndarray:
    """Return raw values, shifted to the sum 1 if the true frequencies sum to 1.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate with these values.
    values : ndarray of shape (..., d)
        Raw values.

    Returns
    -------
    ndarray of shape (..., d)
        Unbiased values.
    """
    return norm(values) if estimate.sums_to_one else values


def scaled_answers(queries: QuerySet, errors: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Return errors of answers, scaled such that the sum of squares is the mean squared error.

    Parameters
    ----------
    queries : QuerySet
        The queries, aligned with the categories.
    errors : ndarray of shape (n, d)
        Errors of the frequencies.
    frequencies : ndarray of shape (d,)
        Frequencies that define the queries, if these depend on the truth.

    Returns
    -------
    ndarray of shape (n, n_answers)
        A linear function of the errors; for queries with a closed form it has two blocks.
    """
    weights = queries.square_weights(errors.shape[1])
    if weights is None:
        matrix = queries.matrix(errors.shape[1], frequencies)
        return (matrix @ errors.T).T / np.sqrt(matrix.shape[0])
    single, pairs = weights
    totals = errors.sum(axis=1, keepdims=True)
    return np.hstack([np.sqrt(single - pairs) * errors, np.sqrt(pairs) * totals])


def variances_of_each(noise: Noise, rows: Any, frequencies: np.ndarray) -> np.ndarray:
    """Return the variances of answers if the errors of categories were independent.

    Parameters
    ----------
    noise : Noise
        The noise of a single estimate.
    rows : sparse array of shape (n_queries, d)
        The queries.
    frequencies : ndarray of shape (d,)
        True frequencies of all categories.

    Returns
    -------
    ndarray of shape (n_queries,)
        The variances.
    """
    return rows.power(2) @ np.ravel(noise.variance(frequencies))


def correlated(noise: Noise, frequencies: np.ndarray, independent: np.ndarray) -> np.ndarray:
    """Return normal errors with the covariances of an estimate, made of independent errors.

    Parameters
    ----------
    noise : Noise
        The noise of a single estimate. If it has no covariances, errors are assumed independent.
    frequencies : ndarray of shape (d,)
        True frequencies of all categories.
    independent : ndarray of shape (d,)
        Draws of the standard normal distribution.

    Returns
    -------
    ndarray of shape (d,)
        The errors.

    Notes
    -----
    The errors are the square root of the covariance matrix times independent normal numbers, by
    Lanczos' method, which needs only products with the matrix. Scaled to a diagonal of ones, the
    matrix of most oracles is the identity plus a matrix of low rank. The number of steps is then
    this rank.
    """
    errors = noise.at(frequencies)
    deviations = np.sqrt(np.maximum(errors.variances(), 0))
    safe = np.maximum(deviations, _TINIEST)

    def correlations(vector):
        return errors.product(vector / safe) / safe

    try:
        return deviations * _square_root_product(correlations, independent)
    except ValueError:
        return deviations * independent


def _square_root_product(product: Any, vector: np.ndarray) -> np.ndarray:
    """Return the square root of a symmetric matrix times a vector, from products with the matrix.

    Each step extends the basis of the Krylov space, in which the matrix is tridiagonal.
    """
    length = np.linalg.norm(vector)
    basis = [vector / length]
    weights = np.zeros(0)
    diagonal: list[float] = []
    beside: list[float] = []
    # Ends: at the latest after `_MOST_STEPS` vectors.
    while True:
        image = product(basis[-1])
        diagonal.append(float(basis[-1] @ image))
        tridiagonal = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        values, vectors = np.linalg.eigh(tridiagonal)
        previous = weights
        weights = vectors @ (np.sqrt(np.maximum(values, 0)) * vectors[0])
        change = np.linalg.norm(weights - np.append(previous, 0))
        # Twice, because rounding leaves small components along earlier vectors.
        for _ in range(2):
            for direction in basis:
                image = image - (direction @ image) * direction
        beside.append(float(np.linalg.norm(image)))
        if beside[-1] < _PRECISE or change < _PRECISE or len(basis) == _MOST_STEPS:
            return length * (weights @ np.array(basis))
        basis.append(image / beside[-1])
