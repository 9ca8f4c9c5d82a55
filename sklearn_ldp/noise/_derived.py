"""Noise that is derived from another: of a sample of the users, in another order, or more of it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._utils.typing import Rows
from ._model import Noise


def _same(name: str, doc: str) -> Any:
    """A property that the other noise answers."""
    return property(attrgetter(f"noise.{name}"), doc=doc)


@dataclass(frozen=True, eq=False)
class _DerivedNoise(Noise):
    """Another noise, of which everything stays as it is that a subclass does not change."""

    noise: Any

    n_samples = _same("n_samples", "Number of users who reported.")
    n_users = _same("n_users", "Number of users whose frequencies the estimate is of.")
    std = _same("std", "Standard deviation of the estimate of a category that nobody has.")
    growth = _same("growth", "How much the variance of a category grows with its frequency.")
    curvature = _same("curvature", "How much it falls with the square of the frequency.")
    null_variance = _same("null_variance", "The square of `std`, times those who reported.")
    slope = _same("slope", "`growth`, times those who reported.")
    half_count = _same("half_count", "How much half a report adds to an estimate.")
    support_law = _same("support_law", "The p and q of reports that support categories, or None.")


@dataclass(frozen=True, eq=False)
class SampledNoise(_DerivedNoise):
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

    total: Any

    def __repr__(self) -> str:
        return f"SampledNoise({self.noise!r}, total={self.total!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SampledNoise):
            return NotImplemented
        return self.noise == other.noise and np.array_equal(self.total, other.total)

    def __hash__(self) -> int:
        return hash((self.noise, np.asarray(self.total).tobytes()))

    @property
    def curvature(self) -> Any:
        """How much the variance of a category falls with the square of its frequency."""
        m, n = np.asarray(self.n_samples, dtype=float), np.asarray(self.n_users, dtype=float)
        return (n - m) / (m * np.maximum(n - 1, 1))

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        f = np.asarray(frequencies, dtype=np.float64)
        return self.noise.variance(f) + self.curvature[..., None] * f * (1 - f)

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

    def of_rows(self, rows: Rows) -> SampledNoise:
        total: Any = np.asarray(self.total)
        return SampledNoise(self.noise.of_rows(rows), total[rows] if total.ndim else self.total)

    def drawn_users(
        self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
    ) -> np.ndarray:
        return rng.multivariate_hypergeometric(
            counts, int(self.n_samples), size=n_repeats, method="marginals"
        )

    @property
    def n_users(self) -> Any:
        """Number of users whose frequencies the estimate is of."""
        return self.total

    @property
    def growth(self) -> Any:
        """How much the variance of a category grows with its frequency, where that is small."""
        return self.noise.growth + self.curvature

    @property
    def slope(self) -> Any:
        """How much the variance, times those asked, grows with a small frequency."""
        # Nearly the same for all estimates, as it depends on the share of users asked alone.
        return self.noise.slope + float(np.mean(np.asarray(self.n_samples) * self.curvature))


@dataclass(frozen=True, eq=False)
class ReorderedNoise(_DerivedNoise):
    """The noise of an estimate whose categories stand in another order, such as a transposed table.

    Parameters
    ----------
    noise : Noise
        The noise in the order that the collection knows.
    order : ndarray of int of shape (d,)
        The position there of each category.
    """

    order: np.ndarray

    def __repr__(self) -> str:
        return repr(self.noise)

    def _back(self, vector: np.ndarray) -> np.ndarray:
        """Put numbers of the categories, along the last axis, into the collection's order."""
        known = np.empty_like(vector)
        known[..., self.order] = vector
        return known

    def _rows_back(self, rows: sparse.csr_array) -> sparse.csr_array:
        known = rows.tocoo()
        places = (known.row, self.order[known.col])
        return sparse.csr_array((known.data, places), shape=rows.shape)

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        known = self._back(np.asarray(frequencies, dtype=float))
        return self.noise.variance(known)[..., self.order]

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.noise._covariance(self._rows_back(rows), self._back(frequencies))

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.noise._answer_variance(self._rows_back(rows), self._back(frequencies))

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        known = self.noise.covariance_product(self._back(vector), self._back(frequencies))
        return known[self.order]

    def drawn_users(
        self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
    ) -> np.ndarray:
        return self.noise.drawn_users(self._back(counts), n_repeats, rng)[:, self.order]

    def of_rows(self, rows: Rows) -> ReorderedNoise:
        return ReorderedNoise(self.noise.of_rows(rows), self.order)


@dataclass(frozen=True)
class ScaledNoise(_DerivedNoise):
    """Another noise with all covariances multiplied by a factor.

    Parameters
    ----------
    noise : Noise
        The other one.
    factor : float
        The factor.
    """

    factor: float

    # It is no longer that of reports, so it says what any noise says.
    n_users, half_count, support_law = Noise.n_users, Noise.half_count, Noise.support_law

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

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        """Return the variances of the other noise, times the factor."""
        return self.factor * self.noise.variance(frequencies)

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.factor * self.noise._covariance(rows, frequencies)

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.factor * self.noise._answer_variance(rows, frequencies)

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        """Return the product of the other noise, times the factor."""
        return self.factor * self.noise.covariance_product(vector, frequencies)

    def of_rows(self, rows: Rows) -> Noise:
        """Return the noise of some of the estimates."""
        return ScaledNoise(self.noise.of_rows(rows), self.factor)
