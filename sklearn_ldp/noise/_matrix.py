"""The noise of estimates that are decoded from the outputs of a channel without p and q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._model import CountedNoise, OfMechanism


@dataclass(frozen=True, eq=False)
class MatrixNoise(OfMechanism, CountedNoise):
    """The noise of a least-squares estimate, exact given the frequencies.

    Its errors differ from category to category: `std` and `growth` are those of the mean variance.

    Parameters
    ----------
    channel : LinearMechanism
        The mechanism; the variances and covariances that it gives are those of one user.
    n_samples : int or ndarray of shape (n_estimates,)
        Number of users behind each estimate.
    """

    channel: Any
    n_samples: Any

    def __repr__(self) -> str:
        return f"MatrixNoise(n_samples={self.n_samples!r})"

    @property
    def std(self) -> Any:
        """Root of the mean variance of a category that nobody has."""
        return np.sqrt(self.channel.null_variance / self.n_samples)

    @property
    def growth(self) -> Any:
        """Mean growth of a category's variance with its frequency."""
        return self.channel.slope / np.asarray(self.n_samples, dtype=float)

    @property
    def half_count(self) -> Any:
        return self.channel.half_count / np.asarray(self.n_samples, dtype=float)

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
