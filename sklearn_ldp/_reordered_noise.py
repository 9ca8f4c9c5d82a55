"""The noise of an estimate whose categories stand in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ._noise import Noise, NoiseModel
from ._typing import Rows


class ReorderedNoise(Noise):
    """The noise of an estimate whose categories stand in another order, such as a transposed table.

    Parameters
    ----------
    noise : Noise
        The noise in the order that the collection knows.
    order : ndarray of int of shape (d,)
        The position there of each category.
    """

    def __init__(self, noise: Noise, order: np.ndarray) -> None:
        self.noise = noise
        self.order = order

    def __repr__(self) -> str:
        return repr(self.noise)

    def __getattr__(self, name: str) -> Any:
        # What is the same in any order: the number of users, and the noise level.
        if name.startswith("_") or name in ("noise", "order"):
            raise AttributeError(name)
        return getattr(self.noise, name)

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

    variance.__doc__ = Noise.variance.__doc__

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.noise._covariance(self._rows_back(rows), self._back(frequencies))

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.noise._answer_variance(self._rows_back(rows), self._back(frequencies))

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        known = self.noise.covariance_product(self._back(vector), self._back(frequencies))
        return known[self.order]

    covariance_product.__doc__ = Noise.covariance_product.__doc__

    def drawn_users(
        self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
    ) -> np.ndarray:
        return self.noise.drawn_users(self._back(counts), n_repeats, rng)[:, self.order]

    drawn_users.__doc__ = Noise.drawn_users.__doc__

    def of_rows(self, rows: Rows) -> ReorderedNoise:
        return ReorderedNoise(self.noise.of_rows(rows), self.order)

    of_rows.__doc__ = Noise.of_rows.__doc__

    @property
    def half_count(self) -> Any:
        """How much half a report adds to an estimate."""
        return self.noise.half_count

    @property
    def n_users(self) -> Any:
        """Number of users whose frequencies the estimate is of."""
        return self.noise.n_users

    @property
    def curvature(self) -> Any:
        """How much the variance of a category falls with the square of its frequency."""
        return self.noise.curvature

    @property
    def support_law(self) -> NoiseModel | None:
        """The p and q of the reports, if they support categories or do not."""
        return self.noise.support_law
