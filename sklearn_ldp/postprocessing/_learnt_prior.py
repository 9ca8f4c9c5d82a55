"""Priors learnt from the estimates, and the base of the post-processors that use them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._estimate import FrequencyEstimate
from .._noise import Noise
from . import _deconvolution
from ._base import BasePostProcessor
from ._known_noise import NOISE_CONSTRAINT, per_row, resolve_noise
from ._normalization import norm_sub

_TINIEST = 1e-12  # a lower noise level does not matter beside frequencies of 1
_FARTHEST = 40.0  # standard deviations by which noise can have carried an estimate out of [0, 1]


def g_model_prior(f: ArrayLike, std: float, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Learn a smooth prior of the frequencies by g-modelling (Efron 2016).

    The log density of the prior is a cubic spline of 5 columns in asinh(frequency / std), and there
    is an atom at 0. The coefficients alpha maximise the log marginal likelihood less their norm.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    slope : float, default=0.0
        How much the variance grows with the frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies in increasing order.
    weights : ndarray of shape (n_support,)
        Their probabilities.

    References
    ----------
    .. [1] B. Efron, "Empirical Bayes deconvolution estimates", Biometrika 103 (2016),
       :doi:`10.1093/biomet/asv068`.
    """
    sample, weights = _learn(f, std, slope, fit_g_model)
    return _prior(sample, weights, std)


def npmle_prior(f: ArrayLike, std: float, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Learn the prior that maximises the likelihood among all priors (Kiefer and Wolfowitz 1956).

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    slope : float, default=0.0
        How much the variance grows with the frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies in increasing order: a few atoms.
    weights : ndarray of shape (n_support,)
        Their probabilities.

    References
    ----------
    .. [1] J. Kiefer, J. Wolfowitz, "Consistency of the maximum likelihood estimator in the presence
       of infinitely many incidental parameters", Annals of Mathematical Statistics 27 (1956),
       :doi:`10.1214/aoms/1177728066`.
    .. [2] Y. Wang, "On fast computation of the non-parametric maximum likelihood estimate of a
       mixing distribution", JRSS B 69 (2007), :doi:`10.1111/j.1467-9868.2007.00583.x`.
    """
    sample, weights = _learn(f, std, slope, _deconvolution.fit_npmle)
    return _prior(sample, weights, std)


def average_prior(f: ArrayLike, std: float, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Learn a prior that is smooth or has a few atoms, whichever fits better (unpublished).

    Five priors are averaged with Akaike weights, ``exp(-AICc / 2)``: four smooth ones, which are
    log-polynomials in asinh(frequency / std) of degree 2 and 3 with and without an atom at 0, and
    the NPMLE. Each atom of the NPMLE counts as two parameters. The fits of the smooth priors use
    that the frequencies sum to 1.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    slope : float, default=0.0
        How much the variance grows with the frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies in increasing order.
    weights : ndarray of shape (n_support,)
        Their probabilities.
    """
    sample, weights = _learn(f, std, slope, _deconvolution.fit_average)
    return _prior(sample, weights, std)


def fit_g_model(sample):
    basis = _deconvolution.with_atom(_deconvolution.spline_basis(sample.theta, 5))
    return _deconvolution.fit_g_model(sample, basis, sum_known=False)


def _learn(f, std, slope, fit):
    """The sample of a row, and the weights of the prior on its grid."""
    std = max(float(std), _TINIEST)
    sample = _deconvolution.Sample(np.sort(scaled(f, std, slope)), slope / std, 1 / std)
    return sample, fit(sample)


def _prior(sample, weights, std):
    support, weights = sample.prior(weights)
    return support * max(float(std), _TINIEST), weights


def posterior_mean(
    f: ArrayLike, std: float, support: ArrayLike, weights: ArrayLike, slope: float = 0.0
) -> np.ndarray:
    """Return the expected value of each true frequency, given its estimate and a discrete prior.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    support : array-like of shape (n_support,)
        Frequencies in increasing order.
    weights : array-like of shape (n_support,)
        Their prior probabilities.
    slope : float, default=0.0
        How much the variance grows with the frequency.

    Returns
    -------
    ndarray of shape (d,)
        Estimates between the ends of the support; their order is that of f.
    """
    std = max(float(std), _TINIEST)
    z, back = np.unique(scaled(f, std, slope), return_inverse=True)
    return (
        std
        * _deconvolution.posterior_mean(
            z, np.asarray(support) / std, np.asarray(weights), slope / std
        )[back]
    )


def scaled(f, std, slope):
    """Estimates in units of the noise level, clipped to where noise can have moved them."""
    low, high = -_FARTHEST * std, 1 + _FARTHEST * std
    # Beyond this edge, which no raw estimate passes, the posterior mean would decrease with z.
    if slope > 0:
        low = max(low, -(std**2) / slope)
    elif slope < 0:
        high = min(high, -(std**2) / slope)
    return np.clip(np.asarray(f, dtype=np.float64), low, high) / std


class LearntPrior(BasePostProcessor):
    """Base of EmpiricalBayes and NPMLE: a hook learns the prior, and the posterior mean follows."""

    prior_support_: list[np.ndarray]
    prior_weights_: list[np.ndarray]

    _parameter_constraints: dict = {"simplex": ["boolean"], "noise": NOISE_CONSTRAINT}

    def __init__(self, *, simplex: bool = True, noise: float | Noise | None = None) -> None:
        self.simplex = simplex
        self.noise = noise

    @abstractmethod
    def _fit_prior(self, sample):
        """Return the weights of the prior on the grid of one row's sample."""

    def _process(self, estimate):
        rows = self._learn(estimate)
        values = np.array([norm_sub(row.means) if self.simplex else row.means for row in rows])
        return estimate.with_values(values.reshape(estimate.shape), by=type(self).__name__)

    def _learn(self, estimate: FrequencyEstimate) -> Iterator[LearntRow]:
        """Learn and keep the prior of one row after the other, with one sample in memory."""
        name, n_rows = type(self).__name__, len(estimate)
        noise = resolve_noise(estimate, self.noise, name)
        levels, slopes = per_row(noise.std, n_rows), per_row(noise.growth, n_rows)
        self.prior_support_, self.prior_weights_ = [], []
        for i, values in enumerate(estimate.values):
            row = _learnt_row(values, noise.of_rows(i), levels[i], slopes[i], self._fit_prior)
            self.prior_support_.append(row.support)
            self.prior_weights_.append(row.prior)
            yield row


@dataclass(frozen=True, eq=False)
class LearntRow:
    """One raw estimate, the prior learnt from it, and the posterior means."""

    raw: np.ndarray
    noise: Noise
    std: float
    slope: float
    sample: _deconvolution.Sample
    weights: np.ndarray
    support: np.ndarray
    prior: np.ndarray
    means: np.ndarray

    @property
    def z(self) -> np.ndarray:
        """The estimates in units of the noise level."""
        return scaled(self.raw, self.std, self.slope)


def _learnt_row(raw, noise, std, slope, fit_prior):
    sample, weights = _learn(raw, std, slope, fit_prior)
    support, prior = _prior(sample, weights, std)
    means = posterior_mean(raw, std, support, prior, slope)
    return LearntRow(raw, noise, max(std, _TINIEST), slope, sample, weights, support, prior, means)
