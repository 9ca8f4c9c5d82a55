"""Noise that is added to an estimate on purpose, with the covariances of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._noise import Noise

_TINIEST = 1e-300
_MOST_STEPS = 60
_PRECISE = 1e-3  # of a draw's length


def drawn_noise(noise: Noise, frequencies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw normal errors with the covariances that an estimate has.

    Parameters
    ----------
    noise : Noise
        The noise of a single estimate; without covariances, errors are taken as independent.
    frequencies : ndarray of shape (d,)
        True frequencies of all categories.
    rng : Generator
        Source of the draw.

    Returns
    -------
    ndarray of shape (d,)
        The errors.

    Notes
    -----
    They are the square root of the covariance matrix times independent normal numbers, by Lanczos'
    method, which needs nothing but products with the matrix. Scaled to a diagonal of ones, it is
    the identity plus a matrix of low rank for most oracles, which takes as many steps as the rank.
    """
    errors = noise.at(frequencies)
    deviations = np.sqrt(np.maximum(errors.variances(), 0))
    independent = rng.standard_normal(len(frequencies))
    safe = np.maximum(deviations, _TINIEST)

    def correlations(vector):
        return errors.product(vector / safe) / safe

    try:
        return deviations * _square_root_product(correlations, independent)
    except ValueError:
        return deviations * independent


def _square_root_product(product: Any, vector: np.ndarray) -> np.ndarray:
    """Return the square root of a symmetric matrix times a vector, from products with the matrix.

    In the basis of the Krylov space, which is extended step by step, the matrix is tridiagonal.
    """
    length = np.linalg.norm(vector)
    basis, weights = [vector / length], np.zeros(0)
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        image = product(basis[-1])
        diagonal.append(float(basis[-1] @ image))
        values, vectors = np.linalg.eigh(
            np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        )
        before, weights = weights, vectors @ (np.sqrt(np.maximum(values, 0)) * vectors[0])
        change = np.linalg.norm(weights - np.append(before, 0))
        # Twice, as rounding leaves something along earlier vectors.
        for _ in range(2):
            for one in basis:
                image = image - (one @ image) * one
        beside.append(float(np.linalg.norm(image)))
        if beside[-1] < _PRECISE or change < _PRECISE or len(basis) == _MOST_STEPS:
            return length * (weights @ np.array(basis))
        basis.append(image / beside[-1])
