"""Post-processors by expected square error under a prior: Power and PowerNS."""

from __future__ import annotations

import warnings
from functools import lru_cache
from numbers import Real

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import brentq, minimize_scalar
from sklearn.utils._param_validation import Interval, StrOptions

from ._base import BasePostProcessor, noise_level
from ._normalization import norm_sub

_ALL_EXACT = 20_000  # users up to which every possible count is summed over
_FINE_NOISE = 50.0  # noise, in counts, up to which it is as well, among fewer than ..
_MAX_COUNTS = 5_000_000
_N_EXACT = 512  # else only the first counts, where the prior is steep, and the last
_LEGENDRE = np.polynomial.legendre.leggauss(6)
_STEPS = 60  # grid points for each standard deviation of the noise
_EXPONENTS = (1e-6, 30.0)


def power(F, std, n_samples, exponent):
    """Posterior mean under a power law: the least expected square error (2020 paper, Eq. 13).

    A true count k has the prior probability proportional to ``k**-exponent`` for k = 1 .. n, and
    its estimate a normal error; each estimate becomes the posterior mean of k, over n.

    Parameters
    ----------
    F : array-like of shape (..., d)
        Raw estimates of frequencies.
    std : float
        Noise level of the estimates.
    n_samples : int
        Number n of users.
    exponent : float
        Exponent of the power law, >= 0.

    Returns
    -------
    ndarray of shape (..., d)
        Estimates between 1 / n and 1, in the order of F.
    """
    noise = std * n_samples
    counts = _plausible(np.asarray(F, dtype=np.float64) * n_samples, noise, n_samples)
    mean = _posterior_mean(float(noise), int(n_samples), float(exponent))(counts)
    return np.clip(mean, 1.0, n_samples) / n_samples


@lru_cache(maxsize=128)
def _posterior_mean(noise, n_samples, exponent):
    """The posterior mean of the true count as a function of the estimated one.

    One smooth increasing function for all estimates: computed on a grid, interpolated between. Its
    derivative is the posterior variance over that of the noise.
    """
    lowest, highest = _plausible(np.array([-np.inf, np.inf]), noise, n_samples)
    grid = _grid(lowest, highest, noise, n_samples)
    mean, variance, _ = _PowerLaw(n_samples, exponent, noise, highest).posterior(grid)
    return CubicHermiteSpline(grid, mean, variance / noise**2)


@lru_cache(maxsize=256)
def power_law_exponent(n_samples, n_categories):
    """Exponent whose mean count is that of the categories, n / d (Calibrate's mean-variance fit).

    The sum of the frequencies is known to be 1, so the mean needs no estimate.

    Parameters
    ----------
    n_samples : int
        Number n of users.
    n_categories : int
        Number d of categories.

    Returns
    -------
    float or None
        The exponent; None if there is none, because no more users than categories take part.
    """
    if n_categories == 1:
        return 0.0
    k, weight = _nodes(n_samples, np.inf)
    log_k = np.log(k)

    def excess(exponent):
        prior = weight * np.exp(-exponent * log_k)
        return prior @ k / prior.sum() - n_samples / n_categories

    if excess(_EXPONENTS[1]) >= 0:
        return None
    return brentq(excess, *_EXPONENTS, xtol=1e-12)


def power_law_likelihood(F, std, n_samples):
    """Exponent of the greatest marginal likelihood of the estimates (Calibrate paper, Eq. 16).

    Parameters
    ----------
    F : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Noise level of the estimates.
    n_samples : int
        Number n of users.

    Returns
    -------
    float
        The exponent.
    """
    noise = std * n_samples
    counts = _plausible(np.asarray(F, dtype=np.float64) * n_samples, noise, n_samples)
    counts, multiplicity = np.unique(counts, return_counts=True)
    grid = _grid(counts[0], counts[-1], noise, n_samples)
    grid = grid if len(counts) > len(grid) else counts

    def loss(exponent):
        prior = _PowerLaw(n_samples, exponent, noise, counts[-1])
        mean, _, log_marginal = prior.posterior(grid)
        if grid is not counts:
            slope = (mean - grid) / noise**2
            log_marginal = CubicHermiteSpline(grid, log_marginal, slope)(counts)
        return -multiplicity @ log_marginal

    # The likelihood is smooth with one maximum; a coarse look brackets it.
    exponents = np.geomspace(0.05, 8.0, 12)
    best = int(np.argmin([loss(exponent) for exponent in exponents]))
    bounds = exponents[max(best - 1, 0)], exponents[min(best + 1, 11)]
    return float(minimize_scalar(loss, bounds=bounds, method="bounded").x)


class _PowerLaw:
    """The power law over 1 .. n, seen through normal noise."""

    def __init__(self, n_samples, exponent, std, largest):
        self.std = std
        # Beyond this many standard deviations not even a steep prior tips the scales.
        self.reach = std * (10 + np.sqrt(2 * exponent * np.log(n_samples + 1.0)))
        top = min(n_samples, int(max(largest, 0) + self.reach) + _N_EXACT)
        all_exact = n_samples <= _ALL_EXACT or (std < _FINE_NOISE and top <= _MAX_COUNTS)
        self.k, weight = _nodes(top, std, all_exact)
        self.log_weight = np.log(weight) - exponent * np.log(self.k)
        whole, weight = _nodes(n_samples, np.inf)
        self.log_total = np.log(weight @ whole**-exponent)

    def posterior(self, counts):
        """Mean and variance of the true count, and the log marginal density, at sorted counts."""
        results, start = [], 0
        while start < len(counts):
            # Counts that lie close together share their nodes.
            near = np.searchsorted(counts, counts[start] + self.reach)
            stop = max(start + 1, min(start + 64, int(near)))
            results.append(self._block(counts[start:stop]))
            start = stop
        return tuple(np.concatenate(part) for part in zip(*results, strict=True))

    def _block(self, counts):
        # Counts beyond either end have their posterior at that end, whatever their distance.
        inside = np.clip(counts[[0, -1]], self.k[0], self.k[-1])
        first, last = np.searchsorted(self.k, inside + self.reach * np.array([-1, 1]))
        nodes = slice(first, max(last, first + 1))
        k, log_weight = self.k[nodes], self.log_weight[nodes]
        z = (counts[:, None] - k) / self.std
        log_terms = log_weight - 0.5 * z * z
        peak = log_terms.max(axis=1, keepdims=True)
        terms = np.exp(log_terms - peak)
        total = terms.sum(axis=1)
        mean = terms @ k / total
        variance = np.einsum("ij,ij->i", terms, (k - mean[:, None]) ** 2) / total
        log_density = np.log(total) + peak[:, 0] - self.log_total
        return mean, variance, log_density - np.log(self.std * np.sqrt(2 * np.pi))


def _nodes(top, std, all_exact=False):
    """Places and weights for sums over 1 .. top of a power law times a normal density.

    The first and the last counts stand for themselves; between, Gauss-Legendre panels (no wider
    than half the noise, nor than a quarter of the count) integrate from a half to a half. What the
    sum has more than the integral, 1/24 of the slopes at the seams, is put back by the neighbours
    of the seams.
    """
    if all_exact or top <= 3 * _N_EXACT:
        return np.arange(1.0, top + 1), np.ones(top)
    first, last = np.arange(1.0, _N_EXACT + 1), np.arange(top - _N_EXACT + 1.0, top + 1)
    edges, end = [first[-1] + 0.5], last[0] - 0.5
    while edges[-1] < end:
        edges.append(min(edges[-1] + min(edges[-1] / 4, std / 2), end))
    left, width = np.array(edges[:-1])[:, None], np.diff(edges)[:, None]
    x, w = _LEGENDRE
    seams = [first[-1], first[-1] + 1, last[0] - 1, last[0]]
    k = np.concatenate([first, (left + width * (x + 1) / 2).ravel(), last, seams])
    one = np.ones(_N_EXACT)
    slopes = np.array([-1.0, 1.0, 1.0, -1.0]) / 24
    weight = np.concatenate([one, (width * w / 2).ravel(), one, slopes])
    # The neighbours that stand for themselves as well are counted once.
    weight[_N_EXACT - 1] += slopes[0]
    weight[len(k) - 4 - _N_EXACT] += slopes[3]
    keep = np.r_[0 : len(k) - 4, len(k) - 3, len(k) - 2]
    order = np.argsort(k[keep], kind="stable")
    return k[keep][order], weight[keep][order]


def _plausible(counts, std, n_samples):
    """Counts drawn in to where noise can have carried them, and where numbers keep their digits."""
    return np.clip(counts, -1000 * std, n_samples + 14 * std)


def _grid(low, high, std, n_samples):
    """Counts at which the posterior is computed; between them it is interpolated."""
    dense = np.arange(-10, 14, 1 / _STEPS) * std
    n_above = int(np.log(max(high / (14 * std), 1.0)) / 0.02) + 2
    n_below = int(np.log(max(-low / (10 * std), 1.0)) / 0.02) + 2
    above = np.geomspace(14 * std, max(high, 14.1 * std), n_above)
    below = -np.geomspace(10 * std, max(-low, 10.1 * std), n_below)
    parts = [dense, above, below]
    if high > n_samples - 14 * std:  # the prior ends at n
        parts.append(n_samples + np.arange(-14, 14.01, 4 / _STEPS) * std)
    return np.unique(np.concatenate(parts))


class Power(BasePostProcessor):
    """Posterior mean under a power-law prior: Calibrate for data with a long tail.

    Each estimate becomes the expectation of the true count, given the estimate, a power law for
    the counts and normal noise: the least expected square error if the prior is right (Calibrate
    paper, Theorem 2; 2020 paper, section IV-E). Small estimates shrink towards 0, large ones stay.

    The exponent is fitted row by row. "mean-variance" equates the mean of the prior with the mean
    count n / d, which is known exactly because the frequencies sum to 1; "mle" maximises the
    marginal likelihood of the estimates, which minds their spread as well.

    Parameters
    ----------
    fit_method : {"mean-variance", "mle"}, default="mean-variance"
        How the exponent is found.
    exponent : float, default=None
        The exponent, if it is known; None fits it.
    std : float or array-like of shape (n_estimates,), default=None
        Noise level; None takes it from the estimate.
    n_samples : int, default=None
        Number of users; None takes it from the estimate.

    Attributes
    ----------
    exponent_ : ndarray of shape (n_estimates,)
        Exponent of each row's prior.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Positive estimates; their sum is whatever it is.
    estimate_ : FrequencyEstimate
        The same with its categories.
    n_features_in_ : int
        Number of categories.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they have any.

    Warns
    -----
    UserWarning
        If the mean-variance equation has no solution, there being no more users than categories;
        the steepest prior is taken then, which leaves next to nothing of any estimate near 0.

    See Also
    --------
    PowerNS : The same, made consistent.

    References
    ----------
    .. [1] J. Jia, N. Z. Gong, "Calibrate: frequency estimation and heavy hitter identification
       with local differential privacy via incorporating prior knowledge", INFOCOM 2019,
       :doi:`10.1109/INFOCOM.2019.8737527`.
    .. [2] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-E,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import Power
    >>> power = Power(std=0.05, n_samples=10_000).fit([[0.75, 0.25, 0.05, -0.05]])
    >>> power.frequencies_.round(3)
    array([0.748, 0.243, 0.036, 0.011])
    """

    _parameter_constraints: dict = {
        "fit_method": [StrOptions({"mean-variance", "mle"})],
        "exponent": [None, Interval(Real, 0, None, closed="left")],
        "std": [None, Real, "array-like"],
        "n_samples": [None, Interval(Real, 1, None, closed="left")],
    }

    def __init__(self, *, fit_method="mean-variance", exponent=None, std=None, n_samples=None):
        self.fit_method = fit_method
        self.exponent = exponent
        self.std = std
        self.n_samples = n_samples

    def _process(self, estimate):
        values, exponents = self._power(estimate)
        return estimate.with_values(values, by="Power"), {"exponent": exponents}

    def _power(self, estimate):
        std = np.broadcast_to(
            noise_level(estimate, self.std, type(self).__name__)[:, 0], len(estimate)
        )
        n_samples = self.n_samples
        if n_samples is None and estimate.noise is not None:
            n_samples = estimate.noise.n_samples
        if n_samples is None:
            raise ValueError(
                f"{type(self).__name__} needs the number of users, which a plain array does not "
                "tell: pass the FrequencyEstimate that an oracle returns, or give n_samples="
            )
        sizes = np.broadcast_to(n_samples, len(estimate))
        F = estimate.values
        noise = [(float(sigma), int(n)) for sigma, n in zip(std, sizes, strict=True)]
        exponents = np.array([self._exponent(row, *of) for row, of in zip(F, noise, strict=True)])
        values = np.empty_like(F)
        for result, row, (sigma, n), exponent in zip(values, F, noise, exponents, strict=True):
            result[:] = power(row, sigma, n, exponent)
        return values, exponents

    def _exponent(self, row, std, n_samples):
        if self.exponent is not None:
            return float(self.exponent)
        if self.fit_method == "mle":
            return power_law_likelihood(row, std, n_samples)
        exponent = power_law_exponent(n_samples, len(row))
        if exponent is None:
            warnings.warn(
                f"{type(self).__name__} found no power law of mean n / d = {n_samples} / "
                f"{len(row)}: there are no more users than categories. It takes the exponent "
                f'{_EXPONENTS[1]:g}; fit_method="mle" or exponent= may serve better.',
                stacklevel=2,
            )
            return _EXPONENTS[1]
        return exponent


class PowerNS(Power):
    """Power, then Norm-Sub: consistent estimates for data with a long tail.

    The papers recommend it for the frequencies of sets.

    Parameters
    ----------
    fit_method : {"mean-variance", "mle"}, default="mean-variance"
        How the exponent is found, see :class:`Power`.
    exponent : float, default=None
        The exponent, if it is known; None fits it.
    std : float or array-like of shape (n_estimates,), default=None
        Noise level; None takes it from the estimate.
    n_samples : int, default=None
        Number of users; None takes it from the estimate.

    Attributes
    ----------
    exponent_ : ndarray of shape (n_estimates,)
        Exponent of each row's prior.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    estimate_ : FrequencyEstimate
        The same with its categories.
    n_features_in_ : int
        Number of categories.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they have any.

    Warns
    -----
    UserWarning
        As :class:`Power`.

    See Also
    --------
    Power : Without the last step.
    NormSub : The last step.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-E,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import PowerNS
    >>> power = PowerNS(std=0.05, n_samples=10_000).fit([[0.75, 0.25, 0.05, -0.05]])
    >>> power.frequencies_.round(3)
    array([0.738, 0.233, 0.027, 0.002])
    """

    def _process(self, estimate):
        values, exponents = self._power(estimate)
        return estimate.with_values(norm_sub(values), by="PowerNS"), {"exponent": exponents}
