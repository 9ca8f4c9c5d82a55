"""Posterior means of a few frequencies that sum to 1, under a mixture of Dirichlet priors.

All numbers are in units of the noise, as in `deconvolution.py`. The density of a Dirichlet prior is
a product over the categories, and so is the density of independent estimates. So the posterior is
the distribution of independent variables, given their sum. Convolutions on a lattice (equidistant
points) compute it without sampling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.special import betainc, gammaln, logsumexp

from .deconvolution import LaplaceLaw, NormalLaw
from .simplex import norm_sub

# Sums of the parameters of the Dirichlet priors, from a single answer of all users to nearly equal
# answers, and their probabilities. The probability of the first sum is the noise level, because
# weak data cannot exclude a single answer of all users. Under the last prior all frequencies are
# equal. Chosen on 2026-11-28 among 45 variants (grids of sums, their weights, weights of both ends)
# on 400 settings of 2 to 10 answers and 900 settings with normal noise;
# `python -m benchmarks.accuracy.simple_questions` shows other settings.
_SUMS = np.array([0.1, 0.3, 1, 3, 10, 30, 100])
_WEIGHTS = np.array([0.1, 0.5, 0.3, 0.05, 0.03, 0.02])  # of the other sums, before scaling
_MOST_OF_ONE = 0.5  # maximum probability of the first sum
_EQUAL = 0.004  # probability of equal frequencies, over d**1.5
_MOST_EQUAL = 0.2  # maximum probability of equal frequencies
# Chosen by hand; they bound errors of computation.
_STEP = 1 / 4  # of the lattice, in sigma
_FEWEST = 64  # steps of the lattice at least
_REACH = 8.0  # standard deviations on either side of an estimate that the lattice covers
_TILTS = 60  # most steps of the search for a tilt, which is bracketed
_STEEPEST = 200.0  # tilt of the logarithm of a density, over one step of the lattice
_NEAR = 0.5  # standard deviations of the sum that are near enough to the known sum


class FewFrequencies(NamedTuple):
    """Posterior means of frequencies, and the posterior probability of each prior."""

    means: np.ndarray  # (d,)
    shares: np.ndarray  # (n_priors,): of the Dirichlet priors, and of equal frequencies

    def marginal_prior(self, theta: np.ndarray, total: float) -> np.ndarray:
        """Return the prior probabilities of a single frequency on a grid.

        The prior is an average of all priors, weighted by their posterior probabilities.

        Shapes: theta (n_grid,), the grid -> (n_grid,).
        """
        each = _SUMS[:, None] / len(self.means)
        middle = np.clip((theta[1:] + theta[:-1]) / 2 / total, 0, 1)
        below = betainc(each, _SUMS[:, None] - each, middle)
        weights = self.shares[:-1] @ np.diff(below, prepend=0, append=1)
        weights[np.argmin(np.abs(theta - total / len(self.means)))] += self.shares[-1]
        return weights


class KnownVariances(NamedTuple):
    """Normal distributions of estimates with different variances, which are known."""

    variances: np.ndarray  # (d,)

    def log_density(self, z: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the log density of each estimate (row), given each of several true frequencies
        (column).

        Shapes: z (d,), theta (d, n) or (d, 1).
        """
        variance = self.variances[:, None]
        return -0.5 * (z[:, None] - theta) ** 2 / variance - 0.5 * np.log(variance)

    def spread(self, theta: np.ndarray) -> np.ndarray:
        """Return the standard deviation of each estimate."""
        return np.sqrt(self.variances)


def few_frequencies(
    z: np.ndarray,
    total: float,
    law: NormalLaw | LaplaceLaw | KnownVariances,
    sizes: np.ndarray | None = None,
) -> FewFrequencies:
    """Return posterior means of a few frequencies with a known sum.

    Shapes: z (d,), sizes (d,).
    z: at least two estimates with independent errors.
    total: the sum of the true frequencies.
    law: the distribution of an estimate, given the true frequency.
    sizes: number of categories whose sum each frequency is. If None, the numbers are equal.
    """
    _, first, back = np.unique(z, return_index=True, return_inverse=True)
    d = len(z)
    centre = total * norm_sub(z / total)
    lattice = _Lattice.around(centre, total, float(law.spread(centre).max()))
    log = law.log_density(z, lattice.places * lattice.step)
    parts = np.full(d, 1 / d) if sizes is None else sizes / sizes.sum()
    means, log_evidence = _means(lattice, log, centre, parts)
    log_equal = float(law.log_density(z, total * parts[:, None]).sum())
    score = _log_prior(d, total) + np.append(log_evidence, log_equal)
    shares = np.exp(score - logsumexp(score))
    average = np.clip(shares @ np.vstack([means, total * parts]), 0, total)
    if sizes is not None:
        return FewFrequencies(average, shares)
    # Equal estimates get equal means, and larger estimates larger means, in spite of rounding.
    rising = np.maximum.accumulate(average[first])[back]
    return FewFrequencies(rising, shares)


def _log_prior(d: int, total: float) -> np.ndarray:
    """Return the log prior probability of each Dirichlet prior, and of equal frequencies.

    There are d frequencies with the sum `total`.
    """
    share_of_one = min(1 / total, _MOST_OF_ONE)
    share_equal = min(_EQUAL * d**1.5, _MOST_EQUAL)
    dirichlet = np.append(share_of_one, (1 - share_of_one) * _WEIGHTS / _WEIGHTS.sum())
    return np.log(np.append((1 - share_equal) * dirichlet, share_equal))


class _Lattice(NamedTuple):
    """For each frequency, the equidistant points near its estimate at which densities are
    computed."""

    places: np.ndarray  # (d, width): whole numbers, in steps
    step: float  # in units of the noise
    size: int  # the sum of the frequencies, in steps

    @classmethod
    def around(cls, centre: np.ndarray, total: float, std: float) -> _Lattice:
        size = int(np.ceil(max(_FEWEST, total / _STEP)))
        step = total / size
        width = int(min(2 * np.ceil(_REACH * std / step), size)) + 1
        start = np.clip(np.round(centre / step) - width // 2, 0, size + 1 - width)
        return cls(start[:, None] + np.arange(width), step, size)


def _means(
    lattice: _Lattice, log: np.ndarray, centre: np.ndarray, parts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each Dirichlet prior, the posterior means and the log marginal likelihood.

    Shapes: log (d, width), centre (d,), parts (d,) -> (n_sums, d), (n_sums,).
    log: log likelihoods at the points of the lattice.
    centre: the center of the points of each frequency.
    parts: the mean of the priors, which sums to 1.
    """
    places, step, size = lattice
    d, width = places.shape
    alpha = (_SUMS[:, None] * parts)[:, :, None]
    # The density of the prior has a pole at 0, where half a step of it counts.
    at_zero = alpha * np.log(0.5) - np.log(alpha)
    log_prior = np.where(places > 0, (alpha - 1) * np.log(np.maximum(places, 1)), at_zero)
    away = places - centre[:, None] / step
    density, log_total = _tilted(log_prior + log, away)
    # Values beyond so many standard deviations of the sum are negligible.
    n = next_fast_len(int(min(d, 2 * np.sqrt(d)) * width), real=True)
    waves, moments = rfft(density, n), rfft(density * away, n)
    ones = np.ones_like(waves[:, :1])
    before = np.cumprod(np.concatenate([ones, waves[:, :-1]], axis=1), axis=1)
    after = np.cumprod(np.concatenate([ones, waves[:, :0:-1]], axis=1), axis=1)[:, ::-1]
    # The inverse transform, at the known sum alone.
    frequency = np.arange(waves.shape[2])
    at_sum = np.exp(2j * np.pi / n * frequency * (round(size - places[:, 0].sum()) % n)) * 2 / n
    at_sum[0] /= 2
    at_sum[-1] /= 1 + (n % 2 == 0)
    probability = np.maximum((waves[:, 0] * after[:, 0] @ at_sum).real, 1e-300)
    means = (before * after * moments @ at_sum).real / probability[:, None]
    # The normalising constant of the prior, in steps.
    constant = gammaln(alpha).sum(axis=(1, 2)) - gammaln(_SUMS) + (_SUMS - 1) * np.log(size)
    return centre + step * means, log_total + np.log(probability) - constant


def _tilted(log: np.ndarray, away: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multiply densities of frequencies by ``exp(-tilt * away)``, and scale them to the sum 1.

    The tilt is chosen such that the expected sum of the frequencies is near their known sum.

    Shapes: log (n, d, width), away (d, width) -> (n, d, width), (n,).
    log: the logarithms of the densities.
    away: the signed distance of each grid point from the center of the grid of its frequency, in
    steps of the grid.
    If the sum of the frequencies is given, these factors do not change the posterior. Return the
    tilted densities, and the logarithm of their scale factors.
    """
    tilt = np.zeros(len(log))
    low, high = tilt - _STEEPEST, tilt + _STEEPEST
    for _ in range(_TILTS):
        tilted = log - tilt[:, None, None] * away
        top = tilted.max(axis=2, keepdims=True)
        density = np.exp(tilted - top)
        factor = density.sum(axis=2, keepdims=True)
        density /= factor
        means = np.einsum("ndw,dw->nd", density, away)
        squares = np.einsum("ndw,dw->nd", density, away**2)
        gap = means.sum(axis=1)
        variance = np.maximum(squares - means**2, 0).sum(axis=1)
        is_near = np.abs(gap) <= _NEAR * np.sqrt(variance) + 1e-6
        if is_near.all():
            break
        low, high = np.where(gap > 0, tilt, low), np.where(gap < 0, tilt, high)
        most = 4 / away.shape[1] + np.abs(tilt) / 2
        step = tilt + np.clip(gap / np.maximum(variance, 1e-12), -most, most)
        step = np.where((step <= low) | (step >= high), (low + high) / 2, step)
        tilt = np.where(is_near, tilt, step)
    return density, (np.log(factor) + top)[:, :, 0].sum(axis=1)
