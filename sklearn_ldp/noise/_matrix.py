"""The noise of estimates that are decoded from the outputs of a channel without p and q."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._utils.typing import Rows
from ._model import Noise


@dataclass(frozen=True, eq=False)
class MatrixNoise(Noise):
    """The noise of a least-squares estimate, exact given the frequencies.

    Its errors differ from category to category: `std` and `growth` are those of the mean variance.

    Parameters
    ----------
    channel : MatrixChannel
        The mechanism; the variances and covariances that it gives are those of one user.
    n_samples : int or ndarray of shape (n_estimates,)
        Number of users behind each estimate.
    """

    channel: Any
    n_samples: Any

    def __post_init__(self) -> None:
        n_samples = np.asarray(self.n_samples)
        if n_samples.ndim > 1 or not np.all((n_samples > 0) & np.isfinite(n_samples)):
            raise ValueError(
                f"Noise needs n_samples > 0, got {self.n_samples!r}; give a finite number, or one "
                "for each row of the estimate."
            )
        if n_samples.ndim:
            object.__setattr__(self, "n_samples", n_samples)

    def __repr__(self) -> str:
        return f"MatrixNoise(n_samples={self.n_samples!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MatrixNoise):
            return NotImplemented
        is_same = np.array_equal(self.n_samples, other.n_samples)
        return is_same and self.channel == other.channel

    def __hash__(self) -> int:
        return hash((self.channel, np.asarray(self.n_samples).tobytes()))

    @property
    def std(self) -> Any:
        """Root of the mean variance of a category that nobody has."""
        return np.sqrt(self.channel.level[0] / self.n_samples)

    @property
    def growth(self) -> Any:
        """Mean growth of a category's variance with its frequency."""
        return self.channel.level[1] / np.asarray(self.n_samples, dtype=float)

    def frequencies_behind(self, values: np.ndarray) -> np.ndarray:
        """Return a distribution that makes the outputs likely: ten steps of the EM algorithm.

        Every category's variance depends on all frequencies, and where the raw estimate is very
        noisy, the nearest distribution has a few users in a few categories that the noise chose.
        """
        law, frequencies = self.channel.report_law, np.full(len(values), 1 / len(values))
        if law is None:  # the errors of a tree hardly depend on the frequencies
            return super().frequencies_behind(values)
        outputs = np.maximum(law.probabilities(values), 0)
        for _ in range(10):
            likely = np.maximum(law.probabilities(frequencies), np.finfo(float).tiny)
            frequencies = frequencies * law.likelihoods(outputs / likely)
        return frequencies / frequencies.sum()

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        n_samples = np.asarray(self.n_samples, dtype=float)[..., None]
        return self.channel.variances(np.asarray(frequencies, dtype=np.float64)) / n_samples

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.channel.answer_covariance(rows, frequencies) / self.n_samples

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.channel.answer_variances(rows, frequencies) / self.n_samples

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        return self.channel.covariance_product(vector, frequencies) / self.n_samples

    def of_rows(self, rows: Rows) -> MatrixNoise:
        n_samples: Any = np.asarray(self.n_samples)
        return replace(self, n_samples=n_samples[rows]) if n_samples.ndim else self
