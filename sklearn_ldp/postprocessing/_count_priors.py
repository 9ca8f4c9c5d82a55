"""Families of priors on true counts, and fits of their parameters to noisy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import brentq, minimize, minimize_scalar, root
from scipy.special import gammaln

from .._numerics.posterior import Cells, CountPrior, Posterior, prior_moments

_CELL = 1 / 8  # of the noise: cells of the likelihood
_UNIT = 1e-6  # a fit solves its equations to this part of the mean and standard deviation
_NARROW = 1e-2  # of the noise: standard deviation of the prior where noise dominates


class PowerLaw:
    """The power law on 1 .. n."""

    names = ("exponent",)
    located = False

    def freeze(self, theta, n_samples):
        return stats.zipfian(theta[0], int(n_samples))

    def prior(self, theta, n_samples):
        exponent = theta[0]
        return CountPrior(
            lambda k: -exponent * np.log(k), 1, int(n_samples), steepness=float(exponent)
        )

    def to_free(self, theta):
        return np.log(theta)

    def from_free(self, free):
        return np.exp(np.clip(free, np.log(1e-6), np.log(30.0)))

    def starts(self, mean, std, n_samples):
        return [np.array([exponent]) for exponent in np.geomspace(0.05, 8.0, 12)]


class Family:
    """Distributions on 0 .. n, by a mean above 0, or by a location and a scale."""

    def __init__(self, distribution, names, log_mass):
        self.distribution, self.names = distribution, names
        self.log_mass = log_mass  # up to a constant, and faster than SciPy's
        self.located = len(names) == 2

    def freeze(self, theta, n_samples):
        return self.distribution(**dict(zip(self.names, map(float, theta), strict=True)))

    def prior(self, theta, n_samples):
        return CountPrior(lambda k: self.log_mass(k, *theta), 0, int(n_samples))

    # The last parameter is above 0, and a location is any number.
    def to_free(self, theta):
        return np.append(theta[:-1], np.log(max(theta[-1], 1e-300)))

    def from_free(self, free):
        return np.append(free[:-1], np.exp(np.clip(free[-1], -690, 690)))

    def starts(self, mean, std, n_samples):
        if self.located:
            return [np.array([mean, std / self.distribution.std()])]
        return [np.array([x]) for x in (*np.exp([-3.0, -1.5, 0.0, 1.5, 3.0]), mean)]


class Known:
    """A frozen distribution, which has nothing to fit."""

    names = ()

    def __init__(self, distribution):
        self.distribution = distribution

    def freeze(self, theta, n_samples):
        return self.distribution

    def prior(self, theta, n_samples):
        return prior_of_distribution(self.distribution, n_samples)


FAMILIES: dict[str, Any] = {
    "power-law": PowerLaw(),
    "gaussian": Family(
        stats.norm, ("loc", "scale"), lambda k, loc, scale: -0.5 * ((k - loc) / scale) ** 2
    ),
    "laplace": Family(
        stats.laplace, ("loc", "scale"), lambda k, loc, scale: -np.abs(k - loc) / scale
    ),
    "poisson": Family(stats.poisson, ("mu",), lambda k, mu: k * np.log(mu) - gammaln(k + 1)),
}


def as_family(prior):
    """Return the family of a name, or a frozen distribution of :mod:`scipy.stats` as it is."""
    if isinstance(prior, str):
        return FAMILIES[prior]
    if isinstance(prior, (stats.rv_continuous, stats.rv_discrete)):
        raise ValueError(
            f"Calibrate fits the families {', '.join(map(repr, FAMILIES))}, got the family "
            f"{prior.name!r} of scipy.stats: give its parameters, as in scipy.stats.norm(10, 3), "
            "or take NPMLE, which learns a prior of no family."
        )
    return Known(prior)


def prior_of_distribution(distribution, n_samples):
    """Return a distribution of :mod:`scipy.stats` as a prior on the counts 0 .. n."""
    # A continuous one gives whole numbers probabilities proportional to its densities there;
    # where a density is infinite, its probability within a half is used instead.
    # distribution: discrete if it has a `pmf`.
    low, high = distribution.support()
    low, high = max(0, int(np.ceil(max(low, 0.0)))), int(np.floor(min(high, n_samples)))
    if low > high:
        raise ValueError(
            f"Calibrate needs a prior that gives some count from 0 to n_samples={n_samples} a "
            f"positive probability; the support of this one is {distribution.support()}."
        )
    log_of = distribution.logpmf if hasattr(distribution, "pmf") else distribution.logpdf

    def log_mass(k):
        with np.errstate(all="ignore"):
            result = np.asarray(log_of(k), dtype=np.float64)
            if np.any(np.isposinf(result)):
                infinite = np.isposinf(result)
                within = distribution.cdf(k[infinite] + 0.5) - distribution.cdf(k[infinite] - 0.5)
                result[infinite] = np.log(within)
        return np.where(np.isnan(result), -np.inf, result)

    listed = getattr(getattr(distribution, "dist", None), "xk", None)  # rv_discrete(values=...)
    if listed is None:
        return CountPrior(log_mass, low, high)
    places = np.sort(np.asarray(listed, dtype=np.float64))
    return CountPrior(log_mass, low, high, places[(low <= places) & (places <= high)])


# -- fits -------------------------------------------------------------------------------------
def fit_moments(family, mean, std, n_samples):
    """Return the member of a family whose counts have this mean and standard deviation."""
    # A family of one parameter is fitted to the mean only.
    # Shapes: -> (n_parameters,).
    # mean, std: mean and standard deviation that its counts on 0 .. n should have.
    # Returns: whether the equations hold. If not, the parameters are those of the nearest
    # member, or with a location those of the member with these moments on the whole line.

    def misfit(free):
        with np.errstate(all="ignore"):
            try:
                m, v, _ = prior_moments(family.prior(family.from_free(free), n_samples))
            except ValueError:
                return np.full(len(family.names), 1e3)
        gap = [m / mean - 1]
        if len(free) > 1:
            gap.append(np.sqrt(v) / std - 1)
        return np.where(np.isfinite(gap), gap, 1e3)

    starts = [family.to_free(theta) for theta in family.starts(mean, std, n_samples)]
    if len(family.names) == 1:
        return _solve_one(family, misfit, starts)
    (start,) = starts
    found = start
    with np.errstate(all="ignore"):
        if np.abs(misfit(start)).max() > _UNIT:
            found = root(misfit, start, tol=1e-10, options={"maxfev": 60}).x
        is_solved = bool(np.abs(misfit(found)).max() <= _UNIT)
    return family.from_free(found if is_solved else start), is_solved


def _solve_one(family, misfit, starts):
    steps = np.array([-3.0, 0.0, 3.0])
    free = np.unique(np.concatenate([np.ravel(start) + steps for start in starts]))
    gaps = np.array([misfit(np.array([x]))[0] for x in free])
    change = np.flatnonzero(np.diff(np.sign(gaps)) != 0)
    if not len(change):
        return family.from_free(free[[np.argmin(np.abs(gaps))]]), False
    at = change[np.argmin(np.abs(gaps[change]) + np.abs(gaps[change + 1]))]
    solution = brentq(lambda x: misfit(np.array([x]))[0], free[at], free[at + 1], xtol=1e-13)
    return family.from_free(np.array([solution])), True


def fit_likelihood(family, counts, std, n_samples):
    """Return the member of a family that maximises the likelihood (Calibrate paper, Eq. 16)."""
    # Shapes: counts (d,) -> (n_parameters,).
    # std: standard deviation of their noise.
    rising = np.sort(counts)
    ends, of_values, of_slopes = _likelihood_weights(rising, std)

    def loss(free):
        if family.located and not _in_reach(family.from_free(free), std):
            return 1e30
        with np.errstate(all="ignore"):
            try:
                prior = family.prior(family.from_free(np.atleast_1d(free)), n_samples)
                log_total = prior_moments(prior)[2]
                posterior = Posterior(prior, std, ends[0], ends[-1])
                mean, _, log_density = posterior.moments(ends)
            except ValueError:
                return 1e30
            slope = (mean - ends) / std**2
            value = len(counts) * log_total - of_values @ log_density - of_slopes @ slope
        return value if np.isfinite(value) else 1e30

    mean = min(max(counts.mean(), 1.0), n_samples)
    spread = np.sqrt(max(counts.var() - std**2, (_NARROW * std) ** 2))
    starts = [family.to_free(theta) for theta in family.starts(mean, spread, n_samples)]
    if len(family.names) == 1:
        return family.from_free(np.array([_least_of_one(loss, np.ravel(starts))]))
    best = min(starts, key=loss)
    unit = np.array([spread, 1.0])
    simplex = np.vstack([np.zeros(len(best)), 0.3 * np.eye(len(best))])
    options = {"initial_simplex": simplex, "xatol": 1e-2, "fatol": 1e-2, "maxiter": 150}
    found = minimize(
        lambda x: loss(best + unit * x), simplex[0], method="Nelder-Mead", options=options
    )
    return family.from_free(best + unit * found.x)


def _in_reach(theta, std):
    """Whether a member is neither too far to the left nor too narrow."""
    # Further to the left a law on 0 .. n tends to the geometric one (or to itself) ever more
    # slowly, and a narrower one cannot be distinguished from a point.
    loc, scale = theta[-2:]
    return scale >= _NARROW * std / 2 and loc >= -30 * scale


def _likelihood_weights(rising, std):
    cells = Cells(rising, _CELL * std)
    if 2 * len(cells.left) < len(rising):
        return cells.weights()
    distinct, multiplicity = np.unique(rising, return_counts=True)
    return distinct, multiplicity.astype(float), np.zeros(len(distinct))


def _least_of_one(loss, free):
    """Minimum over one parameter, which is bracketed on a coarse grid first."""
    free = np.sort(free)
    if len(free) < 8:
        free = np.linspace(free[0] - 3, free[-1] + 3, 15)
    best = int(np.argmin([loss(x) for x in free]))
    bounds = free[max(best - 1, 0)], free[min(best + 1, len(free) - 1)]
    return minimize_scalar(loss, bounds=bounds, method="bounded").x
