"""The noise of an estimate for which only some of the users were asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ._noise import Noise, NoiseModel
from ._typing import Rows


@dataclass(frozen=True, eq=False)
class SampledNoise(Noise):
    """The noise of an estimate that was made from a random part of the users, about all of them.

    A part of `m` users drawn at random, without replacement, from `n` users has frequencies that
    differ from those of all users, with the covariance matrix

    .. math:: \\Big(\\frac 1m - \\frac 1n\\Big) \\frac{n}{n - 1} (\\mathrm{diag}(f) - f f^T),

    which is added to that of the reports. The covariance of the reports is linear in the
    frequencies of those asked, so its mean over the parts that could have been drawn is its value
    at the frequencies of all users. With :math:`m = n \\pi` the added variance of a category is
    :math:`f (1 - f) (1 / \\pi - 1) / n`, up to a factor :math:`n / (n - 1)`.

    Parameters
    ----------
    noise : Noise
        The noise of the reports of those who were asked.
    total : int or ndarray of shape (n_estimates,)
        Number n of all users, of whom those were drawn.

    References
    ----------
    .. [1] W. G. Cochran, "Sampling techniques", third edition, Wiley 1977, theorem 2.2.
    """

    noise: Any
    total: Any

    def __repr__(self) -> str:
        return f"SampledNoise({self.noise!r}, total={self.total!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SampledNoise):
            return NotImplemented
        return self.noise == other.noise and np.array_equal(self.total, other.total)

    def __hash__(self) -> int:
        return hash((self.noise, np.asarray(self.total).tobytes()))

    # -- what is added ------------------------------------------------------------------------
    @property
    def curvature(self) -> Any:
        """How much the variance of a category falls with the square of its frequency."""
        m, n = np.asarray(self.n_samples, dtype=float), np.asarray(self.n_users, dtype=float)
        return (n - m) / (m * np.maximum(n - 1, 1))

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        f = np.asarray(frequencies, dtype=np.float64)
        return self.noise.variance(f) + self.curvature[..., None] * f * (1 - f)

    variance.__doc__ = Noise.variance.__doc__

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        means = rows @ frequencies
        products = (rows.multiply(frequencies) @ rows.T).toarray()
        sampled = self.curvature * (products - np.outer(means, means))
        return self.noise._covariance(rows, frequencies) + sampled

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        squares = rows.power(2) @ frequencies - (rows @ frequencies) ** 2
        return self.noise._answer_variance(rows, frequencies) + self.curvature * squares

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        f = frequencies
        sampled = self.curvature * f * (vector - f @ vector)
        return self.noise.covariance_product(vector, f) + sampled

    covariance_product.__doc__ = Noise.covariance_product.__doc__

    def of_rows(self, rows: Rows) -> SampledNoise:
        total: Any = np.asarray(self.total)
        return SampledNoise(self.noise.of_rows(rows), total[rows] if total.ndim else self.total)

    of_rows.__doc__ = Noise.of_rows.__doc__

    def drawn_users(
        self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
    ) -> np.ndarray:
        return rng.multivariate_hypergeometric(
            counts, int(self.n_samples), size=n_repeats, method="marginals"
        )

    drawn_users.__doc__ = Noise.drawn_users.__doc__

    # -- what stays that of the reports -------------------------------------------------------
    @property
    def n_samples(self) -> Any:
        """Number of users who were asked."""
        return self.noise.n_samples

    @property
    def n_users(self) -> Any:
        """Number of users whose frequencies the estimate is of."""
        return self.total

    @property
    def std(self) -> Any:
        """Standard deviation of the estimate of a category that nobody has."""
        return self.noise.std

    @property
    def growth(self) -> Any:
        """How much the variance of a category grows with its frequency, where that is small."""
        return self.noise.growth + self.curvature

    @property
    def null_variance(self) -> Any:
        """Variance of the estimate of a category that nobody has, times those asked."""
        return self.noise.null_variance

    @property
    def slope(self) -> Any:
        """How much the variance, times those asked, grows with a small frequency."""
        # Nearly the same for all estimates, as it depends on the share of users asked alone.
        return self.noise.slope + float(np.mean(np.asarray(self.n_samples) * self.curvature))

    @property
    def half_count(self) -> Any:
        """How much half a report adds to an estimate."""
        return self.noise.half_count

    @property
    def support_law(self) -> NoiseModel | None:
        """The p and q of the reports, if they support categories or do not."""
        return self.noise.support_law
