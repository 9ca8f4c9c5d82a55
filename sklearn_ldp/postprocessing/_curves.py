"""Frequencies along an order as a smooth curve: a Gaussian prior of its waves.

Everything here is in units of the noise. The waves are those of the cosine transform, in which the
noise stays independent. Those of the curve have variances that fall with their number, by a law
whose amplitude, length and smoothness are averaged over by their evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import dct, idct
from scipy.special import logsumexp

from ._partitions import Partition

FEWEST = 4  # categories that make a curve
_POWERS = (2, 4, 6)  # of a wave's number, by which the variances fall: rough to smooth curves
_SPREADS = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30])  # of a curve, in squared means
_EXACT, _RATIO = 256, 1.02  # waves up to that number stay alone, and later ones share cells
_MOST_WAVES = 4096  # shorter waves hardly change the sum over a range


@dataclass(frozen=True, eq=False)
class Curve:
    """What a smooth curve makes of the estimates.

    Parameters
    ----------
    means : ndarray of shape (d,)
        Posterior means. They may be negative.
    log_likelihood : float
        Logarithm of the joint density of the estimates, as of
        :meth:`~sklearn_ldp.postprocessing._group_priors.Estimates.log_likelihood`.
    wave_variances : ndarray of shape (d,)
        Posterior variance of each wave.
    """

    means: np.ndarray
    log_likelihood: float
    wave_variances: np.ndarray

    def variances(self, partition: Partition) -> np.ndarray:
        """Return posterior variances of the sums over groups.

        Parameters
        ----------
        partition : Partition
            The groups. If they are ranges, waves add up within each; the members of other groups
            count as independent.

        Returns
        -------
        ndarray of shape (n_groups,)
            The variances.
        """
        d, sizes = len(self.means), partition.sizes()
        if np.any(np.diff(partition.codes) < 0):
            return sizes * (1 - sizes / d) * self.wave_variances.sum() / d
        angles = np.pi * np.arange(1, min(d, _MOST_WAVES)) / d
        at_edges = np.sin(np.multiply.outer(np.r_[0, np.cumsum(sizes)], angles))
        sums = np.diff(at_edges, axis=0) / (np.sqrt(2 * d) * np.sin(angles / 2))
        return sums**2 @ self.wave_variances[1 : len(angles) + 1]


def fit_curve(z: np.ndarray, growth: float, total: float) -> Curve:
    """Return what a smooth curve makes of ordered estimates.

    Parameters
    ----------
    z : ndarray of shape (d,)
        The estimates, in the order of the categories; at least `FEWEST`.
    growth : float
        How much the variance of an estimate grows with the frequency.
    total : float
        The sum of all frequencies.

    Returns
    -------
    Curve
        The posterior of the curve.

    Notes
    -----
    The variances of single estimates are replaced by their mean. The prior variance of wave j is
    proportional to ``1 / (1 + (j / j_0)**power)``.
    """
    d = len(z)
    mean = total / d
    noise = max(1 + growth * mean, 1e-4)
    waves = dct(z - mean, norm="ortho")
    starts = _cells(d)
    counts = np.diff(np.r_[starts, d])
    squares = np.add.reduceat(waves**2, starts)[1:] / counts[1:]  # but for wave 0, which is known
    number = (starts + (counts - 1) / 2)[1:]
    counts = counts[1:]
    variances = np.concatenate([_prior(number, counts, power) for power in _POWERS]) * mean**2
    score = -0.5 * (np.log(noise + variances) + squares / (noise + variances)) @ counts
    # Wave 0 is the noise of the sum, as the sum itself is known.
    of_sum = -0.5 * (np.log(noise) + waves[0] ** 2 / noise)
    evidence = logsumexp(score)
    kept = np.exp(score - evidence) @ (variances / (noise + variances))
    gain = np.r_[0.0, np.repeat(kept, counts)]
    log_likelihood = float(evidence - np.log(len(score)) + of_sum)
    return Curve(mean + idct(gain * waves, norm="ortho"), log_likelihood, noise * gain)


def _cells(d: int) -> np.ndarray:
    """Return the first wave of each cell: 0, 1, 2 .. alone, then ever more together."""
    if d <= _EXACT:
        return np.arange(d)
    n = int(np.log(d / _EXACT) / np.log(_RATIO)) + 1
    later = np.unique(np.floor(_EXACT * _RATIO ** np.arange(n)).astype(np.int64))
    return np.r_[np.arange(_EXACT), later[later < d]]


def _prior(number: np.ndarray, counts: np.ndarray, power: float) -> np.ndarray:
    """Return prior variances of waves, over the squared mean, for all lengths and spreads."""
    d = counts.sum() + 1
    first = 2.0 ** np.arange(0, np.log2(d) - 0.5)
    shape = 1 / (1 + (number / first[:, None]) ** power)
    shape *= d / (shape @ counts)[:, None]
    return np.multiply.outer(_SPREADS, shape).reshape(-1, len(number))
