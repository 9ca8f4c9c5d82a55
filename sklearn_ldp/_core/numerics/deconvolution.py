"""Deconvolution: estimate the distribution (prior) of true frequencies from noisy estimates.

Internally everything is in units of the noise. `z` is an estimate and `theta` is a true frequency,
both divided by sigma, the standard error at frequency 0. The variance of z is ``1 + growth *
theta``. Estimates that are close together are replaced by their mean (a cell), so the cost hardly
grows with the number of categories.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline
from scipy.optimize import nnls
from scipy.special import softmax

# These constants were chosen by hand. Down to _FARTHEST they bound errors of computation, except
# for _SUM_WEIGHT, which was not measured. The joint effect of the others is measured by `python -m
# benchmarks.accuracy._weak_frequencies`, on populations that were not used to choose them.
_CELL = 1 / 10  # estimates this close together, in sigma, count as equal while fitting
_MOST_NODES = 2000  # more distinct estimates are interpolated between cells of this width
_FINE = 1 / 100
_STEP = 1 / 6  # of the grid of the prior, in sigma
_NEAR = 10.0  # up to here, in sigma, that grid is even; beyond, every estimate adds a point to it
_MOST_CELLS = 400  # beyond _NEAR; still larger estimates are too sparse to learn from
_REACH = 12.0  # standard deviations beyond which a normal density is negligible
_LEAST_GAIN = 1e-5  # a fit ends when a step increases the log likelihood by less than this
_SUM_WEIGHT = 16.0  # precision of the sum of the frequencies, relative to the sum of estimates
_LEAST_LEFT = 0.01  # remaining part of an estimate's marginal density after a step of the NPMLE
_TINIEST = 1e-12  # a lower noise level makes no difference if frequencies sum to 1
_FARTHEST = 40.0  # maximum number of standard deviations by which noise moves an estimate

_MEAN_WEIGHT = 20.0  # with few reports, the mean of the prior is fitted to within 5 %
_FLAT = 0.5  # a mean frequency below this, in sigma, allows that all frequencies are equal
_TELLING = 10.0  # reports per category, in excess of chance, at which the odds are even ..
_BY_CHANCE = 600.0  # .. and the variance of the count by chance above which odds fall faster
_FEW = 1000.0  # counts are assumed normal if their skewness is below the root of 1 over this
_LEAST_COUNT = 1e-9  # keeps logarithms finite, far below one report
_NOBODY = 0.1  # false reports, over all categories, below which there is almost no noise
# The part of the prior odds of equal frequencies that belongs to populations in which one category
# has any share of the users, and all others are equal. It was chosen on 2026-11-25 among 23
# variants from 0 to 0.05, on 45 synthetic populations of 80, 350 and 1,200 categories (GRR and OLH,
# 1,260 settings of 20 collections). The variants also used only large shares, or applied only if
# `detected` names a category and there are no odds. The notes on weak data have the effect on other
# data. The shares were chosen earlier.
_ONE_HEAVY = 0.005
# The standard deviations of the Gaussian priors go from this one, in sigma, to twice the mean. The
# second constant is the weight of each beside an Akaike weight. Both were chosen on 2026-11-27
# among 32 settings (narrowest, widest, odds, number, grid) on 15 synthetic nearly equal populations
# and 50 of `_real_populations --seen` and `--tables`.
_NARROWEST = 0.05
_N_SPREADS = 16
_GAUSSIAN = 1 / 8
_HEAVY_SHARES = np.arange(1, 21) / 20

Prior = tuple[np.ndarray, np.ndarray]


# -- the distributions of estimates ------------------------------------------------------------
@dataclass(frozen=True)
class NormalLaw:
    """Normal distribution of an estimate, given the true frequency theta.

    The mean is theta and the variance is ``1 + growth * theta``, in units of the noise.
    """

    growth: float

    def log_density(self, z: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the log density of each estimate z (row), given each true frequency theta
        (column)."""
        variance = np.maximum(1 + self.growth * theta, 1e-4)
        return -0.5 * (z[:, None] - theta) ** 2 / variance - 0.5 * np.log(variance)

    def spread(self, theta: np.ndarray) -> np.ndarray:
        """Return, for each true frequency, the standard deviation of its estimate (at least 1).

        An estimate that is many such units away from a frequency is implausible.
        """
        return np.sqrt(np.maximum(1 + self.growth * np.maximum(theta, 0), 1.0))


@dataclass(frozen=True)
class LaplaceLaw:
    """Laplace distribution of an estimate, given the true frequency.

    Geometric noise has nearly the same distribution.
    """

    # The exponential rate of the density, per standard deviation: the root of 2 for Laplace noise.
    rate: float

    def log_density(self, z: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the log density of each estimate z (row), given each true frequency theta
        (column).

        A constant is omitted, the same as in `NormalLaw`.
        """
        constant = np.log(self.rate / 2) + 0.5 * np.log(2 * np.pi)
        return constant - self.rate * np.abs(z[:, None] - theta)

    def spread(self, theta: np.ndarray) -> np.ndarray:
        """Return, for each true frequency, twice the standard deviation of its estimate.

        The factor of 2 accounts for tails that are longer than the tails of a normal distribution.
        """
        return np.full(len(theta), 2.0)


@dataclass(frozen=True)
class CountLaw:
    """Skewed distribution of an estimate that is computed from a small number of supporting
    reports.

    A report supports a category if it counts in favor of it.
    """

    # Users who have the category support it with probability p, and the other users with
    # probability q. So a count is the sum of two binomial variables. Its density is approximated
    # at its saddle point, the root of a quadratic equation, and becomes normal if counts are
    # large. If the users are a sample, the count is a single binomial variable.

    p: float
    q: float
    n: float
    is_sample: bool = False

    @property
    def unit(self) -> float:
        """Standard deviation of the number of supporting reports of a category that no user has."""
        return np.sqrt(self.n * self.q * (1 - self.q))

    def log_density(self, z: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the log density of each estimate z (row), given each true frequency theta
        (column).

        A constant is omitted, the same as in `NormalLaw`.
        """
        p = self.p
        q = self.q
        n = self.n
        unit = self.unit
        count = np.clip(n * q + unit * z[:, None], _LEAST_COUNT, n - _LEAST_COUNT)
        mean = n * q + unit * theta
        if self.is_sample:
            log = count * np.log(mean / count) + (n - count) * np.log((n - mean) / (n - count))
            return log - 0.5 * np.log(np.maximum(count * (1 - count / n), 0.5) / unit**2)
        holders = unit * theta / (p - q)
        others = n - holders
        a, c = p * q * (n - count), count * (1 - p) * (1 - q)
        b = holders * p * (1 - q) + others * q * (1 - p) - count * (p * (1 - q) + q * (1 - p))
        root = np.sqrt(b**2 + 4 * a * c)
        x = np.where(b > 0, 2 * c / (b + root), (root - b) / (2 * a))
        holder_factor, other_factor = 1 - p + p * x, 1 - q + q * x
        log = holders * np.log(holder_factor) + others * np.log(other_factor) - count * np.log(x)
        variance = (
            holders * p * (1 - p) / holder_factor**2 + others * q * (1 - q) / other_factor**2
        ) * x
        return log - 0.5 * np.log(np.maximum(variance, 0.5) / unit**2)

    def spread(self, theta: np.ndarray) -> np.ndarray:
        """Return infinity for each true frequency, so that no estimate is implausible because of
        its distance."""
        return np.full(len(theta), np.inf)


Law = NormalLaw | LaplaceLaw | CountLaw


def law_of_counts(support_law: Any, n_categories: int, is_sample: bool) -> CountLaw | None:
    """Return the `CountLaw` of estimates. None if they have a nearly normal distribution.

    The distribution is nearly normal if the estimates are computed from large numbers of reports.
    `is_sample` states whether the users are a random sample of a population.
    """
    if support_law is None:
        return None
    p = min(float(support_law.p), 1 - _LEAST_COUNT)
    n = float(np.ravel(support_law.n_samples)[0])
    law = CountLaw(p, float(support_law.q), n, is_sample)
    has_noise = n_categories * law.unit**2 >= _NOBODY
    return law if has_noise and law.unit**2 < _FEW * (1 - 2 * law.q) ** 2 else None


def law_of_noise(noise: Any, n_categories: int, is_sample: bool) -> LaplaceLaw | CountLaw | None:
    """Return the distribution of estimates with this noise, given the true frequency.

    None if it is nearly normal. `is_sample` states whether the users are a random sample of a
    population.
    """
    added = noise.channel
    if getattr(added, "is_heavy_tailed", False) and len(noise.terms) == 1:
        return LaplaceLaw(float(added.rates[0])) if np.ptp(added.std) == 0 else None
    return law_of_counts(noise.support_law, n_categories, is_sample)


def odds_of_equal(support_law: Any, n_categories: int) -> float:
    """Return the prior odds that all frequencies are equal, or too similar to be distinguished."""
    # The odds fall with the square of the number of informative reports per category, which are
    # the reports in excess of chance. They fall faster in large collections, which resolve smaller
    # differences, because no population is free of differences (unpublished). The odds are 0 if
    # the distribution of the reports is unknown.
    if support_law is None:
        return 0.0
    p, q, n = (float(np.ravel(x)[0]) for x in (support_law.p, support_law.q, support_law.n_samples))
    telling = n * (p - q) / n_categories
    by_chance = n * q * (1 - q)
    return (_TELLING / telling * min(1, _BY_CHANCE / max(by_chance, 1))) ** 2


# -- the priors -------------------------------------------------------------------------------
def g_model_prior(f: ArrayLike, std: float, slope: float = 0.0) -> Prior:
    """Learn a smooth prior of the frequencies by maximum likelihood (g-modelling, Efron 2016).

    The log density of the prior is a cubic spline in asinh(frequency / std), with 5 basis functions
    and an additional coefficient for the probability of the frequency 0. The coefficients maximize
    the log marginal likelihood minus the norm of the coefficients.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        The standard error of an estimate at frequency 0.
    slope : float, default=0.0
        Derivative of the variance of an estimate with respect to the true frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies that have positive probability, in increasing order.
    weights : ndarray of shape (n_support,)
        The probability of each of these frequencies.

    References
    ----------
    .. [1] B. Efron, "Empirical Bayes deconvolution estimates", Biometrika 103 (2016),
       :doi:`10.1093/biomet/asv068`.
    """
    return _learnt(f, std, slope, fit_g_model)


def npmle_prior(f: ArrayLike, std: float, slope: float = 0.0) -> Prior:
    """Learn the prior that maximizes the likelihood among all priors (Kiefer and Wolfowitz 1956).

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        The standard error of an estimate at frequency 0.
    slope : float, default=0.0
        Derivative of the variance of an estimate with respect to the true frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        The frequencies that have positive probability, in increasing order. There are few of them.
    weights : ndarray of shape (n_support,)
        The probability of each of these frequencies.

    References
    ----------
    .. [1] J. Kiefer, J. Wolfowitz, "Consistency of the maximum likelihood estimator in the presence
       of infinitely many incidental parameters", Annals of Mathematical Statistics 27 (1956),
       :doi:`10.1214/aoms/1177728066`.
    .. [2] Y. Wang, "On fast computation of the non-parametric maximum likelihood estimate of a
       mixing distribution", JRSS B 69 (2007), :doi:`10.1111/j.1467-9868.2007.00583.x`.
    """
    return _learnt(f, std, slope, fit_npmle)


def average_prior(f: ArrayLike, std: float, slope: float = 0.0) -> Prior:
    """Learn a prior as a weighted average of smooth, discrete and narrow priors (unpublished).

    The average has 21 priors. Four priors are smooth: their log densities are polynomials in
    asinh(frequency / std) of degree 2 or 3, with or without a separate probability of the frequency
    0. Their fits account for the fact that the frequencies sum to 1. The fifth prior is
    `npmle_prior`; each of its frequencies with positive probability counts as two parameters. The
    weights of these five priors are proportional to the Akaike weights ``exp(-AICc / 2)``. The
    other 16 priors are for nearly equal frequencies: Gaussian priors around the mean frequency,
    with different standard deviations. The weight of each is an eighth of its likelihood.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        The standard error of an estimate at frequency 0.
    slope : float, default=0.0
        Derivative of the variance of an estimate with respect to the true frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies that have positive probability, in increasing order.
    weights : ndarray of shape (n_support,)
        The probability of each of these frequencies.
    """
    return _learnt(f, std, slope, fit_average)


def _learnt(f: ArrayLike, std: float, slope: float, fit: Callable) -> Prior:
    sample = Sample(f, std, slope)
    return sample.prior(fit(sample))


# -- the estimates ----------------------------------------------------------------------------
def cells(z, width=_CELL):
    """Group sorted values into cells of this width; return the mean and the number of values of
    each cell."""
    lattice = np.floor(z / width)
    starts = np.flatnonzero(np.r_[True, lattice[1:] != lattice[:-1]])
    counts = np.diff(np.r_[starts, len(z)])
    return np.add.reduceat(z, starts) / counts, counts.astype(np.float64)


def support_grid(values, top, mean):
    """Return the grid of frequencies on which a prior is defined, in units of the noise.

    It contains 0, equidistant points, then points with equal ratios, and the large estimates among
    `values`. `top` is the maximum and `mean` the mean of the true frequencies.
    """
    end = min(top, max(values[-1], mean) + 3)
    n_even = int(np.ceil(min(end, _NEAR) / _STEP))
    parts = [np.linspace(0, min(end, _NEAR), max(n_even, 24) + 1)]
    if end > _NEAR:
        parts.append(np.geomspace(_NEAR, end, 60))
        far = values[(values > 0.8 * _NEAR) & (values <= end)]
        if len(far):
            parts.append(cells(far, _STEP)[0])
    grid = np.unique(np.minimum(np.concatenate(parts), end))
    return grid[np.r_[True, np.diff(grid) > 1e-3 * min(1.0, end)]]


def even_measure(t):
    """Return a weight for each point of an uneven grid, such that the points represent a uniform
    density."""
    return np.diff((t[1:] + t[:-1]) / 2, prepend=t[0], append=t[-1])


def least_level(std: float) -> float:
    """Return the noise level, but at least a tiny positive number, so that it can be a divisor."""
    return max(float(std), _TINIEST)


def scaled(f, std, slope):
    """Return estimates divided by `std`, after values that noise cannot plausibly cause were
    clipped."""
    low, high = -_FARTHEST * std, 1 + _FARTHEST * std
    # Beyond this edge, which no raw estimate passes, the posterior mean would decrease with z.
    if slope > 0:
        low = max(low, -(std**2) / slope)
    elif slope < 0:
        high = min(high, -(std**2) / slope)
    return np.clip(np.asarray(f, dtype=np.float64), low, high) / std


class Sample:
    """The data to which a prior is fitted, for one row of estimates.

    The attributes include cells (groups of similar estimates), a grid of true frequencies, and the
    likelihood of each cell (row) for each frequency of the grid (column).
    """

    # f (d,): raw estimates of frequencies.
    # std: their standard error at frequency 0.
    # slope: increase of the variance per unit of frequency.
    # total: an estimate of the sum of the frequencies; None if it is 1.

    def __init__(self, f, std, slope, law=None, total=None):
        self.std = least_level(std)
        self.growth = slope / self.std
        self.law = law or NormalLaw(self.growth)
        has_counts = isinstance(self.law, CountLaw)
        self.z = scaled(f, self.std, slope)
        self.top = 1 / self.std
        values, self.counts = cells(np.sort(self.z))
        near = np.count_nonzero(values <= _NEAR)
        kept = slice(near + _MOST_CELLS)
        self.far = values[kept.stop :]
        self.n_far = self.counts[kept.stop :]
        values = values[kept]
        self.counts = self.counts[kept]
        self.size = self.counts.sum()
        # The sum of all frequencies implies the mean of the frequencies that are not far out.
        expected_sum = self.top * (1.0 if total is None else total)
        self.mean = np.clip((expected_sum - self.far @ self.n_far) / self.size, 0, self.top)
        # Weight of the penalty for priors whose mean differs from the sample mean.
        few = (_MEAN_WEIGHT / max(self.mean, 1e-9)) ** 2 if has_counts else 0.0
        self.sum_weight = max(_SUM_WEIGHT * self.size, few) if total is None else 0.0
        self.theta = support_grid(values, self.top, self.mean)
        if has_counts:
            self.theta = np.union1d(self.theta, self.mean)
        log = self.law.log_density(values, self.theta)
        self.base = even_measure(np.arcsinh(self.theta))
        self.likelihood = np.exp(log - log.max(axis=1, keepdims=True))

    def or_equal(self, weights, odds):
        """Combine a prior with priors in which all frequencies, or all but one, are equal.

        Return the average of the priors, weighted by their posterior probabilities, and the most
        likely of the priors. `weights` are the probabilities of the first prior on the grid, and
        `odds` are the prior odds of equal frequencies.
        """
        # If the mean frequency is far below the noise, the largest of many estimates looks like
        # a large frequency. A prior that allows such a frequency would be worse than no estimate.
        # A single category that has a large share is visible in spite of the noise.
        if self.mean >= _FLAT or odds == 0:
            return weights, weights
        equal = self.at(self.mean)
        heavy = self.one_heavy()
        priors = np.vstack([weights, equal, heavy])
        log_odds = np.full(len(priors), np.log(odds * max(_ONE_HEAVY, 1e-300) / max(len(heavy), 1)))
        log_odds[:2] = 0, np.log(odds * (1 - _ONE_HEAVY))
        share = np.round(softmax(log_odds + [self.log_likelihood(prior) for prior in priors]), 3)
        share = share / share.sum()  # rarer shares do not occur
        return share @ priors, priors[np.argmax(share)]

    def at(self, frequency):
        """Return the prior in which all categories have the same frequency.

        If it is not on the grid, the probability is divided between the two adjacent points.
        """
        place = np.clip(np.searchsorted(self.theta, frequency), 1, len(self.theta) - 1)
        low, high = self.theta[place - 1 : place + 1]
        weights = np.zeros(len(self.theta))
        weights[place] = np.clip((frequency - low) / (high - low), 0, 1)
        weights[place - 1] = 1 - weights[place]
        return weights

    def one_heavy(self):
        """Return priors in which one category has a large frequency and all others are equal.

        There is one row for each of several large frequencies, with a probability for each grid
        point.
        """
        total = self.mean * self.size
        part = 1 / self.size
        shares = _HEAVY_SHARES[(self.mean < _HEAVY_SHARES * self.top) & (self.size > 1)]
        rest = np.maximum(total - shares * self.top, 0) / max(self.size - 1, 1)
        pairs = zip(shares * self.top, rest, strict=True)
        rows = [part * self.at(first) + (1 - part) * self.at(rest) for first, rest in pairs]
        return np.reshape(rows, (-1, len(self.theta)))

    def log_likelihood(self, weights):
        """Return the log marginal likelihood of a prior, up to a constant.

        `weights` are the probabilities of the grid points.
        """
        return self.counts @ np.log(np.maximum(self.likelihood @ weights, 1e-300))

    def whole_prior(self, weights):
        """Return the frequencies of a prior and their probabilities, in units of the noise.

        These are the points of the grid, and a point for each estimate that is too large for the
        grid.
        """
        support = np.concatenate([self.theta, np.minimum(self.far, self.top)])
        weights = np.concatenate([self.size * weights, self.n_far])
        order = np.argsort(support, kind="stable")
        return support[order], weights[order] / weights.sum()

    def prior(self, weights):
        """Return the frequencies that have positive probability, and their probabilities.

        The frequencies are in their original unit.
        """
        support, weights = self.whole_prior(weights)
        return support[weights > 0] * self.std, weights[weights > 0]


# -- g-modelling ------------------------------------------------------------------------------
def spline_basis(theta, n_columns):
    """Return orthonormal basis functions, one per column, of the cubic splines in asinh(theta).

    Constant functions are not in their span.
    """
    t = np.arcsinh(theta) / np.arcsinh(theta[-1])
    inner = np.linspace(0, 1, n_columns - 1)[1:-1]
    knots = np.concatenate([np.zeros(4), inner, np.ones(4)])
    columns = BSpline.design_matrix(np.clip(t, 0, 1 - 1e-12), knots, 3).toarray()
    return _orthonormal(columns)[:, :n_columns]


def polynomial_basis(theta, degree):
    """Return orthonormal basis functions, one per column, of the polynomials in asinh(theta).

    Constant functions are not in their span.
    """
    t = np.arcsinh(theta) / np.arcsinh(theta[-1])
    return _orthonormal(t[:, None] ** np.arange(1, degree + 1))


def _orthonormal(columns):
    return np.linalg.svd(columns - columns.mean(axis=0), full_matrices=False)[0]


def with_atom(basis):
    """Append a column to a basis, which is 1 at the frequency 0 and 0 elsewhere.

    With it, the frequency 0 has a separate probability.
    """
    atom = np.zeros((len(basis), 1))
    atom[0] = 1
    return np.hstack([basis, atom])


def steep_prior(sample):
    """Return the probabilities of a prior whose density is exponential in asinh(theta).

    Its mean is close to the mean frequency of the sample.
    """
    slopes = np.linspace(-20, 5, 101)[:, None]
    log = slopes * np.arcsinh(sample.theta)
    weights = sample.base * np.exp(log - log.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights[np.argmin(np.abs(weights @ sample.theta - sample.mean))]


def fit_g_model(sample):
    """Return the probabilities, on the sample's grid, of Efron's prior (see `g_model_prior`)."""
    basis = with_atom(spline_basis(sample.theta, 5))
    return fit_family(sample, basis, sum_known=isinstance(sample.law, CountLaw))


def fit_family(sample, basis, *, sum_known, start=None):
    """Return the probabilities of the most likely prior of a family, with a penalty.

    The log density of a prior of this family is a linear combination of the columns of `basis`.
    `sum_known` states whether the fit uses that the frequencies sum to 1. `start` contains the
    probabilities of a prior from which the search starts.
    """
    # This is Efron's g-modelling: the base measure is uniform in asinh(theta), and the penalty
    # is the norm of alpha. `sum_known` adds a quadratic penalty if the mean of the prior differs
    # from 1 / d. The fit is a damped Newton method with the absolute eigenvalues of the Hessian,
    # because the likelihood is not concave. It starts at the member of the family that is nearest
    # to the weights `start`.
    theta = sample.theta
    counts = sample.counts
    likelihood = sample.likelihood
    log_base = np.log(sample.base)
    strength = sample.sum_weight if sum_known else 0.0

    def state(alpha):
        weights = softmax(log_base + basis @ alpha)
        marginal = np.maximum(likelihood @ weights, 1e-300)
        off = weights @ theta - sample.mean
        norm = np.sqrt(alpha @ alpha + 1e-6)
        value = counts @ np.log(marginal) - norm - 0.5 * strength * off**2
        return value, weights, marginal, off, norm

    def derivatives(alpha, weights, marginal, off, norm):
        mean = weights @ basis
        centred = basis - mean
        weighted = centred * weights[:, None]
        scores = likelihood @ weighted / marginal[:, None]
        slope = theta @ weighted
        gradient = counts @ scores - alpha / norm - strength * off * slope
        # Covariance of the columns under the prior, minus the covariance under every posterior.
        excess = sample.size - (counts / marginal) @ likelihood
        excess += strength * off * (theta - weights @ theta)
        curvature = centred.T @ (weighted * excess[:, None]) + (scores.T * counts) @ scores
        curvature += strength * np.outer(slope, slope)
        curvature += np.eye(len(alpha)) / norm - np.outer(alpha, alpha) / norm**3
        return gradient, curvature

    start = steep_prior(sample) if start is None else start
    log_ratio = np.log(np.maximum(start, 1e-300)) - log_base
    alpha = np.linalg.lstsq(basis - basis.mean(axis=0), log_ratio - log_ratio.mean(), rcond=None)[0]
    return _ascend(alpha, state, derivatives)[0]


def _ascend(alpha, state, derivatives):
    """Maximize a function of `alpha` by damped Newton steps.

    `state(alpha)` returns the value and other quantities, and `derivatives(alpha, *quantities)` the
    gradient and minus the Hessian. Return these other quantities at the maximum.
    """
    # `state(alpha)` returns the value followed by other quantities, and `derivatives(alpha,
    # *others)` the gradient and minus the Hessian.
    damping = 1e-3
    value, *here = state(alpha)
    for _ in range(100):
        gradient, curvature = derivatives(alpha, *here)
        sizes, axes = np.linalg.eigh(curvature)
        sizes = np.abs(sizes)
        along = axes.T @ gradient
        # Ends: because the damping grows eightfold in each pass.
        while damping < 1e12:
            step = axes @ (along / (sizes + damping * sizes.max()))
            new_value, *new = state(alpha + step)
            gain = new_value - value
            if gain >= 0:
                break
            damping = max(8 * damping, 1e-6)
        else:
            break
        alpha, value, here = alpha + step, new_value, new
        damping = max(damping / 8, 1e-12)
        if gain < _LEAST_GAIN:
            break
    return here


# -- NPMLE ------------------------------------------------------------------------------------
def fit_npmle(sample, *, max_iter=200, tol=1e-6):
    """Return the probabilities, on the sample's grid, of the prior with the maximum likelihood.

    All priors on the grid are allowed.
    """
    # This is Wang's constrained Newton method: add the points where the gradient peaks, then
    # solve the quadratic approximation over the simplex by non-negative least squares. At the
    # optimum `counts @ (likelihood / marginal)` is at most d everywhere, and d where the prior
    # is positive. The log likelihood of the result is within `tol` d of the optimum.
    counts = sample.counts
    likelihood = sample.likelihood
    n_grid = likelihood.shape[1]
    root = np.sqrt(counts)
    strength = sample.sum_weight if isinstance(sample.law, CountLaw) else 0.0
    sum_to_one = 1e3 * np.sqrt(sample.size)
    # One point per sigma is enough to start with, and far cheaper than the whole grid.
    weights = np.zeros(n_grid)
    weights[np.unique(np.floor(sample.theta), return_index=True)[1]] = 1.0
    weights /= weights.sum()
    if strength:
        weights = 0.1 * weights + 0.9 * sample.at(sample.mean)
    active = weights > 0
    marginal = likelihood @ weights
    for _ in range(max_iter):
        off = weights @ sample.theta - sample.mean
        gradient = (counts / marginal) @ likelihood
        gradient -= strength * off * (sample.theta - sample.mean - off)
        if gradient.max() <= sample.size * (1 + tol):
            break
        around = np.concatenate([[-np.inf], gradient, [-np.inf]])
        peaks = (gradient >= around[:-2]) & (gradient >= around[2:]) & (gradient >= sample.size)
        places = np.flatnonzero(active | peaks)
        ratio = likelihood[:, places] / marginal[:, None] * root[:, None]
        known = np.sqrt(strength) * np.append(sample.theta[places], sample.mean)
        system = np.vstack([np.column_stack([ratio, 2 * root]), known])
        small = np.asarray(np.linalg.qr(system, mode="r"))
        rows = np.vstack([small[:, :-1], np.full(len(places), sum_to_one)])
        try:  # the default of three steps per point was once too small
            solution, _ = nnls(rows, np.append(small[:, -1], sum_to_one), maxiter=99 * len(places))
        except RuntimeError:  # the solver cycles; the current weights are also a prior
            break
        target = np.zeros(n_grid)
        target[places] = solution / solution.sum()
        weights, marginal, gain = _line_search(
            sample, weights, marginal, target, gradient, strength
        )
        active = weights > 0
        if gain <= 1e-3 * tol * sample.size:  # all remaining steps would gain less than `tol` d
            break
    weights = np.where(weights > 1e-12, weights, 0.0)
    return weights / weights.sum()


def _line_search(sample, weights, marginal, target, gradient, strength):
    """Return the prior after a step from `weights` towards `target`, two priors on the grid.

    The step is the longest one that increases the likelihood sufficiently. Also return the marginal
    densities of the estimates under this prior, and the increase of the log likelihood.
    """
    ahead = sample.likelihood @ target
    expected = gradient @ (target - weights)
    before = sample.counts @ np.log(marginal)
    off = weights @ sample.theta - sample.mean
    move = (target - weights) @ sample.theta
    for step in 0.5 ** np.arange(27.0):
        new = (1 - step) * marginal + step * ahead
        with np.errstate(divide="ignore"):
            gain = sample.counts @ np.log(new) - before
        gain -= 0.5 * strength * ((off + step * move) ** 2 - off**2)
        # If a step leaves the density of an estimate at almost 0, the next quadratic approximation
        # is useless, because its gradient there is many orders of magnitude larger than elsewhere.
        if gain >= 1e-4 * step * expected and np.all(new >= _LEAST_LEFT * marginal):
            return (1 - step) * weights + step * target, new, gain
    return weights, marginal, 0.0


# -- the average ------------------------------------------------------------------------------
def gaussians(sample):
    """Return Gaussian priors with the sample's mean, one row for each standard deviation.

    Their densities are truncated to frequencies of at least 0.
    """
    # For each standard deviation, Newton's method finds the tilt that gives the mean.
    theta = sample.theta
    mean = sample.mean
    spreads = np.geomspace(_NARROWEST, max(2 * mean, _NARROWEST), _N_SPREADS)[:, None]
    log = np.log(even_measure(theta)) - 0.5 * ((theta - mean) / spreads) ** 2
    tilts = np.zeros_like(spreads)
    for _ in range(30):
        priors = softmax(log + tilts * theta, axis=1)
        off = priors @ theta - mean
        if np.all(np.abs(off) <= 1e-10 * mean):
            break
        std = np.sqrt(np.maximum(priors @ theta**2 - (off + mean) ** 2, 1e-12))
        tilts -= (np.clip(off / std, -1.5, 1.5) / std)[:, None]
    return priors


def fit_average(sample):
    """Return the probabilities, on the grid of `sample`, of the prior of `average_prior`."""
    # The smooth priors are log-quadratic or log-cubic in asinh(theta), with or without an atom at
    # 0. They and the NPMLE have Akaike weights. A Gaussian prior has no fitted parameter.
    priors = []
    scores = []
    smooth = None
    for degree in (2, 3):
        basis = polynomial_basis(sample.theta, degree)
        smooth = fit_family(sample, basis, sum_known=True, start=smooth)
        spiked = fit_family(sample, with_atom(basis), sum_known=True, start=smooth)
        priors += [smooth, spiked]
        scores += [akaike(sample, smooth, degree), akaike(sample, spiked, degree + 1)]
    priors.append(fit_npmle(sample))
    places = sample.theta[priors[-1] > 1e-9]
    # Neighboring points of the grid together represent one atom.
    n_atoms = 1 + np.count_nonzero(np.diff(places) > 1.01 * _STEP)
    scores.append(akaike(sample, priors[-1], 2 * n_atoms - 1))
    narrow = gaussians(sample)
    scores += [sample.log_likelihood(prior) + np.log(_GAUSSIAN) for prior in narrow]
    return softmax(scores) @ np.vstack([*priors, narrow])


def akaike(sample, weights, n_parameters):
    """Return -AICc / 2: the log likelihood of a prior, minus a penalty for the number of
    parameters.

    AICc is Akaike's criterion with a correction for small samples.
    """
    spare = max(sample.size - n_parameters - 1, 0.01)
    return sample.log_likelihood(weights) - n_parameters * sample.size / spare


# -- the posterior ----------------------------------------------------------------------------
def posterior_mean(
    f: ArrayLike,
    std: float,
    support: ArrayLike,
    weights: ArrayLike,
    slope: float = 0.0,
    law: Law | None = None,
) -> np.ndarray:
    """Return the posterior mean of each true frequency, given its estimate and a discrete prior.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        The standard error of an estimate at frequency 0.
    support : array-like of shape (n_support,)
        Frequencies that have positive probability, in increasing order.
    weights : array-like of shape (n_support,)
        The prior probability of each of these frequencies.
    slope : float, default=0.0
        Derivative of the variance of an estimate with respect to the true frequency.
    law : NormalLaw, LaplaceLaw or CountLaw, default=None
        The distribution of the estimates. If None, they are normal, with `std` and `slope`.

    Returns
    -------
    ndarray of shape (d,)
        The posterior means, in the order of f. If there are many, they are interpolated. The error
        is less than std / 1000, unless the support has gaps of many standard deviations.
    """
    std = least_level(std)
    support = np.asarray(support) / std
    log_weights = np.log(weights)
    law = law or NormalLaw(slope / std)
    z, back = np.unique(scaled(f, std, slope), return_inverse=True)
    nodes = z
    if len(z) > _MOST_NODES:  # points of a lattice around the estimates
        lattice = np.floor(z / _FINE)
        nodes = np.unique(np.concatenate([lattice, lattice + 1])) * _FINE
    spread = law.spread(support)
    low = np.minimum.accumulate((support - _REACH * spread)[::-1])[::-1]
    high = np.maximum.accumulate(support + _REACH * spread)
    means = np.empty_like(nodes)
    for start in range(0, len(nodes), 64):
        block = slice(start, min(start + 64, len(nodes)))
        first = np.searchsorted(high, nodes[block][0])
        last = np.searchsorted(low, nodes[block][-1])
        # The nearest points are used, however far away they are.
        near = slice(max(min(first, last) - 1, 0), max(first, last) + 1)
        log = law.log_density(nodes[block], support[near]) + log_weights[near]
        terms = np.exp(log - log.max(axis=1, keepdims=True))
        means[block] = terms @ support[near] / terms.sum(axis=1)
    return std * np.interp(z, nodes, np.maximum.accumulate(means))[back]
