"""What is known of the noise of an estimate: its level, the law of the reports, and their parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """How a pure frequency oracle disturbs a frequency.

    Every report of a pure oracle *supports* a set of categories: the user's own category with
    probability `p`, any other with probability `q`.

    Parameters
    ----------
    p : float
        Probability that a report supports the user's own category.
    q : float
        Probability that a report supports a given other category, ``0 <= q < p <= 1``.
    n_samples : int or ndarray of shape (n_estimates,)
        Number of users behind each estimate.

    Attributes
    ----------
    std : float or ndarray of shape (n_estimates,)
        Standard deviation of the estimate of a category that nobody has.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import NoiseModel
    >>> noise = NoiseModel(p=0.5, q=0.25, n_samples=10_000)
    >>> float(round(noise.std, 4))
    0.0173
    """

    p: float
    q: float
    n_samples: Any

    def __post_init__(self) -> None:
        if not 0 <= self.q < self.p <= 1:
            raise ValueError(
                f"NoiseModel needs 0 <= q < p <= 1, got p={self.p}, q={self.q}; p is the "
                "probability that a report supports the user's own category."
            )
        n_samples = np.asarray(self.n_samples)
        if n_samples.ndim > 1 or not np.all((n_samples > 0) & np.isfinite(n_samples)):
            raise ValueError(
                f"NoiseModel needs n_samples > 0, got {self.n_samples!r}; give a finite number, or "
                "one a row of the estimate."
            )
        if n_samples.ndim:
            object.__setattr__(self, "n_samples", n_samples)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
        )

    def __hash__(self) -> int:
        return hash((self.p, self.q, np.asarray(self.n_samples).tobytes()))

    @property
    def null_variance(self) -> float:
        """Variance of the estimate of a category that nobody has, times n."""
        return self.q * (1 - self.q) / (self.p - self.q) ** 2

    @property
    def slope(self) -> float:
        """Growth of n times the variance with the frequency."""
        return (1 - self.p - self.q) / (self.p - self.q)

    @property
    def std(self) -> Any:
        """Noise level sigma of a category of frequency 0 (2020 paper, Eq. 7)."""
        return np.sqrt(self.null_variance / self.n_samples)

    def debias(self, support_counts: Any) -> np.ndarray:
        """Unbiased frequencies from support counts (2020 paper, Eq. 2).

        Parameters
        ----------
        support_counts : array-like of shape (d,) or (n_estimates, d)
            How many reports support each category.

        Returns
        -------
        ndarray of shape (d,) or (n_estimates, d)
            ``(support_counts / n_samples - q) / (p - q)``.
        """
        n_samples = np.asarray(self.n_samples)[..., None]
        return (np.asarray(support_counts) / n_samples - self.q) / (self.p - self.q)

    def variance(self, frequencies: Any) -> np.ndarray:
        """Variance of the raw estimate of categories with these frequencies (2020 paper, Eq. 5).

        Parameters
        ----------
        frequencies : array-like of shape (d,) or (n_estimates, d)
            True frequencies.

        Returns
        -------
        ndarray of shape (d,) or (n_estimates, d)
            The variance of each category's estimate.
        """
        n_samples = np.asarray(self.n_samples, dtype=float)[..., None]
        return (self.null_variance + np.asarray(frequencies) * self.slope) / n_samples


@dataclass(frozen=True, eq=False)
class ReportLaw:
    """Probabilities of kinds of reports, a linear map A of the frequencies, by its two products.

    A kind of report has one probability for the categories that it supports, and one for others.

    Parameters
    ----------
    supported, unsupported : float or ndarray of shape (n_kinds,)
        Probability of a given kind of report for a category that it supports, or does not.
    spread : callable
        For each kind, the sum of the (d,) weights of the categories that it supports.
    gather : callable
        For each category, the sum of the (n_kinds,) weights of the kinds that support it.
    """

    supported: float | np.ndarray
    unsupported: float | np.ndarray
    spread: Callable[[np.ndarray], np.ndarray]
    gather: Callable[[np.ndarray], np.ndarray]

    def probabilities(self, frequencies: np.ndarray) -> np.ndarray:
        """Probability of each kind of report, A f: of shape (n_kinds,)."""
        support = (self.supported - self.unsupported) * self.spread(frequencies)
        return self.unsupported * frequencies.sum() + support

    def likelihoods(self, weights: np.ndarray) -> np.ndarray:
        """Expected weight of a report of a user of each category, A' w: of shape (d,)."""
        support = self.gather((self.supported - self.unsupported) * weights)
        return np.sum(self.unsupported * weights) + support


@dataclass(frozen=True, eq=False)
class Shards:
    """Support counts of disjoint parts of the same reports, decoded when first asked for.

    Parameters
    ----------
    tallies : ndarray of shape (n_shards, tally_size)
        What the oracle has added up of each shard.
    sizes : ndarray of shape (n_shards,)
        Number of reports of each shard.
    decode : callable
        Turns tallies into support counts of shape (n_shards, d).
    law : ReportLaw, default=None
        The law of the reports, where a tally counts them by kind.
    """

    tallies: np.ndarray
    sizes: np.ndarray
    decode: Callable[[np.ndarray], np.ndarray]
    law: ReportLaw | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Without what is computed on demand: reading it must not change a hash of the estimate.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def counts(self) -> np.ndarray:
        """Support counts, int64 of shape (n_shards, d)."""
        return self.decode(self.tallies)
