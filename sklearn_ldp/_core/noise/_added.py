"""Noise that another system has added to counts of users, if its distribution is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from ..common.tags import Tagged
from ._covariance import Covariance, Factors, of_columns

#: Distributions by name. "geometric" is the discrete Laplace distribution.
NOISE_KINDS = ("normal", "laplace", "geometric", "discrete-normal")
_LATTICE = 12  # standard deviations of a discrete normal distribution that are summed


@dataclass(frozen=True, eq=False)
class AddedNoise(Tagged, tag="added-noise"):
    """The distribution of the noise that was added to each of d counts.

    The noise of the counts is independent, or normal with a covariance matrix.
    """

    # All distributions are symmetric around 0. Numbers are in counts.

    kind: str  # one of NOISE_KINDS
    std: np.ndarray  # (d,)
    matrix: np.ndarray | None = None  # (d, d): covariances of normal noise; None if independent
    # Whether the estimate consists of proportions of the noisy total: an error of the total then
    # changes every proportion.
    is_normalized: bool = False

    is_of_complete_counts: ClassVar[bool] = True  # the users were counted, and sent no reports

    def __check_state__(self) -> None:
        is_plain = self.kind in NOISE_KINDS and self.std.ndim == 1
        if not is_plain or not np.all(np.isfinite(self.std)) or np.any(self.std < 0):
            raise ValueError(
                f"AddedNoise needs a kind in {NOISE_KINDS} and one finite standard deviation >= 0 "
                f"per count, got kind={self.kind!r:.80}. Save the estimate again."
            )
        if self.matrix is not None:
            is_square = self.matrix.shape == 2 * self.std.shape
            is_own = is_square and np.allclose(np.diag(self.matrix), self.std**2)
            if self.kind != "normal" or not is_own or not np.allclose(self.matrix, self.matrix.T):
                raise ValueError(
                    "AddedNoise needs normal noise and a symmetric matrix of shape (d, d) with "
                    "the squares of the standard deviations on its diagonal. Save the estimate "
                    "again."
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AddedNoise):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        matrix = None if self.matrix is None else self.matrix.tobytes()
        return self.kind, self.std.tobytes(), matrix, self.is_normalized

    def of_categories(self, places: np.ndarray) -> AddedNoise:
        """Return the noise of some of the counts. `places` contains their positions."""
        matrix = None if self.matrix is None else self.matrix[np.ix_(places, places)]
        return AddedNoise(self.kind, self.std[places], matrix, self.is_normalized)

    # -- variances --------------------------------------------------------------------------------
    @property
    def null_variance(self) -> float:
        """The mean, over all counts, of the variance of the noise."""
        return float(np.mean(self.std**2))

    slope: ClassVar[float] = 0.0
    curvature: ClassVar[float] = 0.0
    half_count: ClassVar[float] = 0.0

    @property
    def is_independent(self) -> bool:
        """Whether the errors of any two categories' estimates are independent."""
        return self.matrix is None and not self.is_normalized

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        """Return the variance of the error of each category's count, in the shape of `frequencies`.

        If counts are divided by the noisy total, it depends on the true frequencies.
        """
        if not self.is_normalized:
            return np.broadcast_to(self.std**2, np.shape(frequencies))
        own = self.std**2 - 2 * frequencies * self._with_total
        return own + frequencies**2 * self.variance_of_total

    @property
    def variance_of_total(self) -> float:
        """The variance of the sum of the noise of all counts."""
        return float(self._with_total.sum())

    @property
    def _with_total(self) -> np.ndarray:
        """For each count, the covariance of its noise with the sum of the noise of all counts;
        shape (d,)."""
        return self.std**2 if self.matrix is None else self.matrix.sum(axis=1)

    def covariance(self, frequencies: np.ndarray) -> Covariance:
        """Return the covariance of the answers to linear queries of the counts, for given true
        frequencies."""
        return Covariance(self, frequencies, self._factors)

    def _factors(self, frequencies: np.ndarray) -> Factors:
        d = len(self.std)
        diagonal = self.std**2 if self.matrix is None else np.zeros(d)
        columns = np.empty((d, 0)) if self.matrix is None else np.eye(d)
        weights = np.empty((0, 0)) if self.matrix is None else self.matrix
        if self.is_normalized:
            # The error of a proportion is `e_i - f_i sum(e)`, where e are the errors of counts.
            with_total = self._with_total
            columns = np.column_stack([columns, frequencies, with_total])
            own = np.array([[self.variance_of_total, -1.0], [-1.0, 0.0]])
            n_own = len(weights)
            weights = np.block([[weights, np.zeros((n_own, 2))], [np.zeros((2, n_own)), own]])
        return of_columns(diagonal, columns, weights)

    # -- the distribution -------------------------------------------------------------------------
    @property
    def excess_kurtosis(self) -> np.ndarray:
        """For each count, the excess kurtosis of the distribution of its noise, of shape (d,)."""
        if self.kind == "laplace":
            return np.full(len(self.std), 3.0)
        if self.kind == "geometric":
            alpha = np.maximum(geometric_ratio(self.std), np.finfo(float).tiny)
            return (1 + 4 * alpha + alpha**2) / (2 * alpha)
        return np.zeros(len(self.std))  # of a discrete normal one with std >= 1 below 1e-6

    @property
    def is_heavy_tailed(self) -> bool:
        """Whether errors are independent and their density decreases exponentially from 0
        (Laplace)."""
        return self.kind in ("laplace", "geometric") and self.is_independent

    @property
    def rates(self) -> np.ndarray:
        """For each count, the exponential rate of the density of its Laplace noise, per standard
        deviation.

        It is only meaningful if `is_heavy_tailed`.
        """
        if self.kind == "laplace":
            return np.full(len(self.std), np.sqrt(2))
        std = np.maximum(self.std, np.finfo(float).tiny)
        return -np.log(np.maximum(geometric_ratio(std), np.finfo(float).tiny)) * std

    def upper(self, tail: float) -> np.ndarray:
        """Return, for each count, a bound that its noise exceeds with probability `tail` or less.

        Shapes: -> (d,).
        tail: the probability, below 1/2.
        """
        if self.kind == "laplace":
            return -self.std / np.sqrt(2) * np.log(2 * tail)
        if self.kind == "geometric":
            alpha = geometric_ratio(self.std)
            with np.errstate(divide="ignore"):
                steps = np.log(tail * (1 + alpha)) / np.log(alpha) - 1
            return np.maximum(np.ceil(steps - 1e-9), 0)
        if self.kind == "discrete-normal":
            bounds = {std: _discrete_bound(std, tail) for std in set(self.std.tolist())}
            return np.array([bounds[std] for std in self.std.tolist()])
        return -self.std * float(ndtri(tail))

    def tails(self, errors: np.ndarray) -> np.ndarray:
        """Return, for each count, the probability that its noise is at least the given error.

        Shapes: errors (d,) -> (d,).
        """
        std = np.maximum(self.std, np.finfo(float).tiny)
        if self.kind == "laplace":
            half = np.exp(-np.abs(errors) * np.sqrt(2) / std) / 2
            return np.where(errors > 0, half, 1 - half)
        steps = np.ceil(errors - 1e-9)
        if self.kind == "geometric":
            alpha = geometric_ratio(std)
            above = alpha ** np.maximum(steps, 0) / (1 + alpha)
            return np.where(steps > 0, above, 1 - alpha ** np.maximum(1 - steps, 1) / (1 + alpha))
        if self.kind == "discrete-normal":
            return _discrete_tails(std, steps)
        return ndtr(-errors / std)

    def draw(self, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the noise of all counts `n_repeats` times, and return it in shape (n_repeats, d)."""
        shape = (n_repeats, len(self.std))
        if self.kind == "laplace":
            return rng.laplace(size=shape) * self.std / np.sqrt(2)
        if self.kind == "geometric":
            rate = 1 - geometric_ratio(self.std)
            return (rng.geometric(rate, shape) - rng.geometric(rate, shape)).astype(float)
        if self.matrix is not None:
            return rng.multivariate_normal(
                np.zeros(shape[1]), self.matrix, n_repeats, method="eigh"
            )
        if self.kind == "normal":
            return rng.normal(size=shape) * self.std
        noise = np.empty(shape)
        for std in set(self.std.tolist()):
            own = self.std == std
            lattice, density = _discrete_density(std)
            noise[:, own] = rng.choice(lattice, (n_repeats, own.sum()), p=density)
        return noise


def geometric_ratio(std: np.ndarray) -> np.ndarray:
    """Return, for each standard deviation, the parameter of geometric noise with this deviation.

    The parameter is the probability of noise k + 1 divided by the probability of noise k, for k >=
    0.
    """
    # The variance v is `2 a / (1 - a)**2`.
    variance = np.square(np.asarray(std, dtype=float))
    return variance / (variance + 1 + np.sqrt(2 * variance + 1))


def std_of_noise(kind: str, epsilon: np.ndarray, sensitivity: float) -> np.ndarray:
    """Return the standard deviation of Laplace or geometric noise that satisfies epsilon.

    This epsilon is the budget of central differential privacy. `sensitivity` is the maximum change
    of all counts that one user can cause.
    """
    if kind == "laplace":
        return np.sqrt(2) * sensitivity / epsilon
    alpha = np.exp(-epsilon / sensitivity)
    return np.sqrt(2 * alpha) / (1 - alpha)


def _discrete_density(std: float) -> tuple[np.ndarray, np.ndarray]:
    """Return integers around 0, and their probabilities under the discrete normal distribution."""
    most = int(np.ceil(_LATTICE * std))
    lattice = np.arange(-most, most + 1)
    density = np.exp(-0.5 * (lattice / max(std, np.finfo(float).tiny)) ** 2)
    return lattice, density / density.sum()


def _discrete_tails(stds: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return, for each standard deviation, the probability that discrete normal noise is at least
    `least`.

    Shapes: stds (d,), least (d,), which contains whole numbers -> (d,).
    """
    result = np.empty(len(stds))
    for std in set(stds.tolist()):
        own = stds == std
        lattice, density = _discrete_density(std)
        tails = np.append(np.cumsum(density[::-1])[::-1], 0.0)
        places = np.clip(least[own] - lattice[0], 0, len(lattice)).astype(np.int64)
        result[own] = tails[places]
    return result


def _discrete_bound(std: float, tail: float) -> float:
    """Return the smallest integer >= 0 that discrete normal noise exceeds with probability `tail`
    or less."""
    lattice, density = _discrete_density(std)
    above = np.cumsum(density[::-1])[::-1] - density
    return float(max(lattice[np.argmax(above <= tail)], 0))
