"""Functions that simulate the noise of an estimate for searches and expected errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._core.common.random import RandomState, as_generator
from .._core.estimates import FrequencyEstimate
from .._core.noise import AddedNoise, AnsweredLaw, Noise
from .._core.numerics.simplex import norm, norm_sub
from .._core.queries import QuerySet

_TINIEST = 1e-300  # keeps quotients finite
_MOST_STEPS = 60  # a bound on the work, if the method does not converge to `_PRECISE` before
_PRECISE = 1e-3  # relative to the length of a draw


def plausible_frequencies(estimate: FrequencyEstimate, values: np.ndarray) -> np.ndarray:
    """Replace raw values by the closest possible frequencies, which formulas of the noise need.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate that contains the raw values.
    values : ndarray of shape (d,)
        One row of raw values, which may be negative.

    Returns
    -------
    ndarray of shape (d,)
        The closest distribution. If the true frequencies of the estimate need not sum to 1, each
        value is clipped to [0, 1] instead.
    """
    return norm_sub(values) if estimate.sums_to_one else np.clip(values, 0, 1)


def consistent_values(estimate: FrequencyEstimate, values: np.ndarray) -> np.ndarray:
    """Add the same number to all raw values of a row, so that they sum to 1.

    If the true frequencies of the estimate need not sum to 1, the values do not change.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate that contains the raw values.
    values : ndarray of shape (..., d)
        Rows of raw values.

    Returns
    -------
    ndarray of shape (..., d)
        The changed values. They are unbiased, like the raw values.
    """
    return norm(values) if estimate.sums_to_one else values


def scaled_answers(queries: QuerySet, errors: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Convert errors of frequencies to scaled errors of the answers to queries.

    The squares of the scaled errors in a row sum to the mean squared error of the answers.

    Parameters
    ----------
    queries : QuerySet
        The queries, aligned with the categories.
    errors : ndarray of shape (n, d)
        Rows of errors of the frequencies.
    frequencies : ndarray of shape (d,)
        Only used by queries that depend on the true frequencies, such as `top_k`. They are used as
        the true frequencies.

    Returns
    -------
    ndarray of shape (n, n_answers)
        The scaled errors, which are a linear function of `errors`. They have one column per query.
        If the mean squared error of the queries has a closed form, there are other columns, whose
        squares also sum to the mean squared error.
    """
    weights = queries.square_weights(errors.shape[1])
    if weights is None:
        matrix = queries.matrix(errors.shape[1], frequencies)
        return (matrix @ errors.T).T / np.sqrt(matrix.shape[0])
    single, pairs = weights
    totals = errors.sum(axis=1, keepdims=True)
    return np.hstack([np.sqrt(single - pairs) * errors, np.sqrt(pairs) * totals])


def variances_of_each(noise: Noise, rows: Any, frequencies: np.ndarray) -> np.ndarray:
    """Return the variance of the answer to each query if the errors of categories are independent.

    Parameters
    ----------
    noise : Noise
        The noise of one row of an estimate.
    rows : sparse array of shape (n_queries, d)
        The weights of the categories in each query.
    frequencies : ndarray of shape (d,)
        True frequencies of all categories.

    Returns
    -------
    ndarray of shape (n_queries,)
        The variances of the answers.
    """
    return rows.power(2) @ np.ravel(noise.variance(frequencies))


def correlated(noise: Noise, frequencies: np.ndarray, independent: np.ndarray) -> np.ndarray:
    """Convert standard normal numbers to simulated errors with the covariances of an estimate.

    Parameters
    ----------
    noise : Noise
        The noise of one row of an estimate. If it contains no covariances, the errors of different
        categories are assumed to be independent.
    frequencies : ndarray of shape (d,)
        True frequencies of all categories.
    independent : ndarray of shape (d,)
        Independent draws from the standard normal distribution.

    Returns
    -------
    ndarray of shape (d,)
        The simulated errors of the frequencies.

    Notes
    -----
    The errors are the product of the square root of the covariance matrix and the independent
    numbers. The product is computed by Lanczos' method, which needs only products of vectors with
    the covariance matrix. For most oracles, the correlation matrix is the identity plus a matrix of
    low rank. The number of steps of Lanczos' method is then about this rank.
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
    """Return the product of the square root of a symmetric matrix and a vector.

    product: a function that returns the product of the matrix and a vector.
    The method is Lanczos' method. Each step adds a vector to the basis of the Krylov space, in
    which the matrix is tridiagonal.
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
    """A substitute for an oracle that simulates counts with added noise, such as Laplace noise.

    It has the method `simulate` and the parameters that simulations set on an oracle.

    Parameters
    ----------
    noise : AddedNoise
        The distribution of the noise.
    categories : Domain or sequence, default=None
        The categories.
    input : str, default="values"
        Ignored. It exists only because all oracles have this parameter.
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
        """Add independent noise to the counts `n_repeats` times, and return the estimates.

        The FrequencyEstimate has one row per repeat.
        """
        n = int(counts.sum())
        noisy = counts + self.noise.draw(n_repeats, as_generator(self.random_state))
        model = Noise.added(self.noise, np.full(n_repeats, n))
        return FrequencyEstimate(noisy / n, self.categories, model)


def simulator(estimate: FrequencyEstimate) -> Any:
    """Return an object whose method `simulate` draws estimates with the same noise.

    It is the oracle of the estimate, or an instance of NoisyCounts if the estimate consists of
    counts with added noise. Return None if there is neither. Raise ValueError if the estimate is
    about only some of the users of its oracle.
    """
    if estimate.noise is not None and isinstance(estimate.noise.channel, AnsweredLaw):
        raise ValueError(
            "A simulation needs the estimate of all users, got an estimate among the users who "
            "answered. Pass the estimate with its missing answers, and call answered() of the "
            "result."
        )
    terms = () if estimate.noise is None else estimate.noise.terms
    is_release = estimate.oracle is None and len(terms) == 1
    if not (is_release and isinstance(terms[0].law, AddedNoise) and terms[0].order is None):
        return estimate.oracle
    # The number of users is a constant here, so that errors of the total are left out.
    return NoisyCounts(replace(terms[0].law, is_normalized=False))
