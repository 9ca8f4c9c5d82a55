"""Simulation of the noise of an estimate: true frequencies, correlated errors, answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._core.common.random import RandomState, as_generator
from .._core.estimates import FrequencyEstimate
from .._core.noise import AddedNoise, Noise
from .._core.numerics.simplex import norm, norm_sub
from .._core.queries import QuerySet

_TINIEST = 1e-300  # keeps quotients finite
_MOST_STEPS = 60  # a bound on the work, if the method does not converge to `_PRECISE` before
_PRECISE = 1e-3  # relative to the length of a draw


def plausible_frequencies(estimate: FrequencyEstimate, values: np.ndarray) -> np.ndarray:
    """Return the possible frequencies nearest to raw values, for formulas of the noise.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate that contains these values.
    values : ndarray of shape (d,)
        Raw values.

    Returns
    -------
    ndarray of shape (d,)
        The nearest distribution. If the true frequencies of the estimate need not sum to 1, the
        values clipped to [0, 1].
    """
    return norm_sub(values) if estimate.sums_to_one else np.clip(values, 0, 1)


def consistent_values(estimate: FrequencyEstimate, values: np.ndarray) -> np.ndarray:
    """Add a constant to raw values so that they sum to 1, if the true frequencies sum to 1.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate that contains these values.
    values : ndarray of shape (..., d)
        Raw values.

    Returns
    -------
    ndarray of shape (..., d)
        The values, which stay unbiased.
    """
    return norm(values) if estimate.sums_to_one else values


def scaled_answers(queries: QuerySet, errors: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Return errors of answers, scaled so that their squares sum to the mean squared error.

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
        The scaled errors, a linear function of `errors`. For queries with a closed form of the mean
        squared error, they are two blocks and not one column per query.
    """
    weights = queries.square_weights(errors.shape[1])
    if weights is None:
        matrix = queries.matrix(errors.shape[1], frequencies)
        return (matrix @ errors.T).T / np.sqrt(matrix.shape[0])
    single, pairs = weights
    totals = errors.sum(axis=1, keepdims=True)
    return np.hstack([np.sqrt(single - pairs) * errors, np.sqrt(pairs) * totals])


def variances_of_each(noise: Noise, rows: Any, frequencies: np.ndarray) -> np.ndarray:
    """Return the variance of the answer to each query, as if categories had independent errors.

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
    """Transform independent normal numbers to errors with the covariances of an estimate.

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
    The errors are the square root of the covariance matrix times the independent numbers. It is
    computed by Lanczos' method, which needs only products with the matrix. Scaled to a diagonal of
    ones, the matrix of most oracles is the identity plus a matrix of low rank. The number of steps
    is then this rank.
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
    """Multiply a vector by the square root of a symmetric matrix (Lanczos' method).

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


class NoisyCounts(BaseEstimator):
    """Oracle interface to counts published with added noise, so that simulations can use it.

    Parameters
    ----------
    noise : AddedNoise
        The distribution of the noise.
    categories : Domain or sequence, default=None
        The categories.
    input : str, default="values"
        Ignored; present only because all oracles have this parameter.
    random_state : Generator, default=None
        The source of the noise.
    """

    def __init__(
        self,
        noise: AddedNoise,
        categories: Any = None,
        input: str = "values",
        random_state: RandomState = None,
    ) -> None:
        self.noise = noise
        self.categories = categories
        self.input = input
        self.random_state = random_state

    def simulate(self, counts: np.ndarray, n_repeats: int = 1) -> FrequencyEstimate:
        """Return estimates from `n_repeats` independent releases of the counts, one per row."""
        n = int(counts.sum())
        noisy = counts + self.noise.draw(n_repeats, as_generator(self.random_state))
        model = Noise.added(self.noise, np.full(n_repeats, n))
        return FrequencyEstimate(noisy / n, self.categories, model)


def simulator(estimate: FrequencyEstimate) -> Any:
    """Return an object that simulates estimates like this one; None if that is impossible."""
    terms = () if estimate.noise is None else estimate.noise.terms
    is_release = estimate.oracle is None and len(terms) == 1
    if not (is_release and isinstance(terms[0].law, AddedNoise) and terms[0].order is None):
        return estimate.oracle
    # The number of users is a constant here, so that errors of the total are left out.
    return NoisyCounts(replace(terms[0].law, is_normalized=False))
