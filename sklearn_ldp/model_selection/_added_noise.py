"""Noise that is added to an estimate on purpose: drawn from its law, and reckoned with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._noise import Noise, NoiseModel

_TINIEST = 1e-300
_MOST_STEPS = 60
_PRECISE = 1e-3  # of a draw's length


def with_more_noise(noise: Noise, factor: float) -> Noise:
    """Return the noise of an estimate whose covariances are larger by a factor.

    Parameters
    ----------
    noise : Noise
        The noise of the estimate.
    factor : float
        The factor, >= 1.

    Returns
    -------
    Noise
        That of so many fewer users, if their number is known.
    """
    if isinstance(noise, NoiseModel):
        return replace(noise, n_samples=np.asarray(noise.n_samples) / factor)
    return MoreNoise(noise, factor)


@dataclass(frozen=True)
class MoreNoise(Noise):
    """Another noise with all covariances multiplied by a factor.

    Parameters
    ----------
    noise : Noise
        The other one.
    factor : float
        The factor.
    """

    noise: Noise
    factor: float

    def __repr__(self) -> str:
        return repr(self.noise)  # errors name what was given

    @property
    def n_samples(self) -> Any:
        """Number of users; None if unknown."""
        n_samples = self.noise.n_samples
        return None if n_samples is None else np.asarray(n_samples) / self.factor

    @property
    def std(self) -> Any:
        """Standard deviation of the estimate of a category that nobody has."""
        return np.sqrt(self.factor) * np.asarray(self.noise.std)

    @property
    def growth(self) -> Any:
        """How much the variance of a category's estimate grows with its frequency."""
        return self.factor * np.asarray(self.noise.growth)

    @property
    def curvature(self) -> Any:
        """How much the variance of a category falls with the square of its frequency."""
        return self.factor * np.asarray(self.noise.curvature)

    @property
    def null_variance(self) -> Any:
        """Variance of the estimate of a category that nobody has, times the number of users."""
        of_one: Any = self.noise  # not known by every noise
        return of_one.null_variance

    @property
    def slope(self) -> Any:
        """How much that variance grows with the frequency of the category."""
        of_one: Any = self.noise
        return of_one.slope

    def variance(self, frequencies: Any) -> np.ndarray:
        return self.factor * self.noise.variance(frequencies)

    def _covariance(self, rows: Any, frequencies: np.ndarray) -> np.ndarray:
        return self.factor * self.noise._covariance(rows, frequencies)

    def _answer_variance(self, rows: Any, frequencies: np.ndarray) -> np.ndarray:
        return self.factor * self.noise._answer_variance(rows, frequencies)

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        return self.factor * self.noise.covariance_product(vector, frequencies)

    def of_rows(self, rows: Any) -> Noise:
        return MoreNoise(self.noise.of_rows(rows), self.factor)

    variance.__doc__ = Noise.variance.__doc__
    covariance_product.__doc__ = Noise.covariance_product.__doc__
    of_rows.__doc__ = Noise.of_rows.__doc__


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
    deviations = np.sqrt(np.maximum(np.ravel(noise.variance(frequencies)), 0))
    independent = rng.standard_normal(len(frequencies))
    safe = np.maximum(deviations, _TINIEST)

    def correlations(vector):
        return noise.covariance_product(vector / safe, frequencies) / safe

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
