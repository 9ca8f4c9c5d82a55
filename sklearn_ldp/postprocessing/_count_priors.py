"""Families of priors on true counts, and fits of their parameters to noisy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev, chebpts1
from scipy import stats
from scipy.optimize import brentq, minimize, root
from scipy.sparse import csr_array
from scipy.special import exprel, gammaln

from .._core.numerics.posterior import Cells, CountPrior, Posterior, prior_moments

_CELL = 1 / 8  # of the noise: cells of the likelihood
_UNIT = 1e-6  # relative precision of the mean and the standard deviation in fits of moments
# With this number of places, an exponent is as precise as by minimize_scalar, 1e-6 to 3e-6 (with 12
# places 1e-4), on four power laws (2026-11-26).
_N_PLACES = 20
_NARROW = 1e-2  # of the noise: standard deviation of the prior if noise dominates


class PowerLaw:
    """The family of power-law priors of a true count.

    The probability of a count k from 1 to n is proportional to k**-exponent.
    """

    names = ("exponent",)

    def freeze(self, theta, n_samples):
        return stats.zipfian(theta[0], int(n_samples))

    def prior(self, theta, n_samples):
        exponent = float(theta[0])
        return CountPrior(lambda k: -exponent * np.log(k), 1, int(n_samples), steepness=exponent)

    def log_total(self, theta, n_samples):
        """Return the logarithm of the sum of ``k**-a`` over k = 1 .. n, where a is the exponent.

        The terms after k = 1,000 are summed by the Euler-Maclaurin formula.
        """
        (a,) = theta
        first = float(min(n_samples, 1000))
        last = float(n_samples)
        log_ratio = np.log(last / first)
        integral = first ** (1 - a) * log_ratio * exprel((1 - a) * log_ratio)
        ends, slopes = (last**p - first**p for p in (-a, -a - 1))
        rest = integral + ends / 2 - a * slopes / 12
        return np.log(np.sum(np.arange(1.0, first + 1) ** -a) + rest)

    def to_free(self, theta):
        return np.log(theta)

    def from_free(self, free):
        return np.exp(np.clip(free, np.log(1e-6), np.log(30.0)))

    def starts(self, mean, std, n_samples):
        return [np.array([exponent]) for exponent in np.geomspace(0.05, 8.0, 12)]


class Family:
    """A family of priors on the counts 0 .. n.

    The family has either one parameter, which is the mean, or two: a location and a scale.
    """

    def __init__(self, distribution, names, log_mass):
        self.distribution = distribution
        self.names = names
        self.log_mass = log_mass  # up to a constant, and faster than SciPy's

    def freeze(self, theta, n_samples):
        return self.distribution(**dict(zip(self.names, map(float, theta), strict=True)))

    def prior(self, theta, n_samples):
        return CountPrior(lambda k: self.log_mass(k, *theta), 0, int(n_samples))

    def log_total(self, theta, n_samples):
        """Return the logarithm of the sum of the unnormalized probabilities of all counts."""
        return prior_moments(self.prior(theta, n_samples))[2]

    # The last parameter is positive, and a location is any number.
    def to_free(self, theta):
        return np.append(theta[:-1], np.log(max(theta[-1], 1e-300)))

    def from_free(self, free):
        return np.append(free[:-1], np.exp(np.clip(free[-1], -690, 690)))

    def starts(self, mean, std, n_samples):
        if len(self.names) == 2:
            return [np.array([mean, std / self.distribution.std()])]
        return [np.array([x]) for x in (*np.exp([-3.0, -1.5, 0.0, 1.5, 3.0]), mean)]


class Known:
    """A prior that the user passed as a frozen distribution, so that no parameters are fitted."""

    names = ()

    def __init__(self, distribution):
        self.distribution = distribution

    def freeze(self, theta, n_samples):
        return self.distribution

    def prior(self, theta, n_samples):
        """Return the user's distribution, restricted to the counts 0 .. n, as a CountPrior."""
        # A continuous prior gives whole numbers probabilities proportional to its densities at
        # these numbers. If a density is infinite, the probability within a half is used instead.
        frozen = self.distribution  # discrete if it has a `pmf`
        low, high = frozen.support()
        low = max(0, int(np.ceil(max(low, 0.0))))
        high = int(np.floor(min(high, n_samples)))
        if low > high:
            raise ValueError(
                "Calibrate needs a prior with a positive probability for at least one count from 0 "
                f"to n_samples={n_samples}, got a prior with the support {frozen.support()}. Pass "
                "prior= as a distribution of the number of users of a category, not of its "
                "frequency."
            )
        log_of = frozen.logpmf if hasattr(frozen, "pmf") else frozen.logpdf

        def log_mass(k):
            with np.errstate(all="ignore"):
                result = np.asarray(log_of(k), dtype=np.float64)
                infinite = np.isposinf(result)
                if np.any(infinite):
                    within = frozen.cdf(k[infinite] + 0.5) - frozen.cdf(k[infinite] - 0.5)
                    result[infinite] = np.log(within)
            return np.where(np.isnan(result), -np.inf, result)

        listed = getattr(getattr(frozen, "dist", None), "xk", None)  # rv_discrete(values=...)
        if listed is None:
            return CountPrior(log_mass, low, high)
        places = np.sort(np.asarray(listed, dtype=np.float64))
        return CountPrior(log_mass, low, high, places[(low <= places) & (places <= high)])


_LOCATION_AND_SCALE = ("loc", "scale")
FAMILIES: dict[str, Any] = {
    "power-law": PowerLaw(),
    "gaussian": Family(
        stats.norm, _LOCATION_AND_SCALE, lambda k, loc, scale: -0.5 * ((k - loc) / scale) ** 2
    ),
    "laplace": Family(
        stats.laplace, _LOCATION_AND_SCALE, lambda k, loc, scale: -np.abs(k - loc) / scale
    ),
    "poisson": Family(stats.poisson, ("mu",), lambda k, mu: k * np.log(mu) - gammaln(k + 1)),
}


def as_family(prior):
    """Return the family of priors that the parameter `prior` of Calibrate specifies.

    prior: the name of a family, or a frozen distribution of :mod:`scipy.stats`, which becomes an
    instance of `Known`.
    """
    if isinstance(prior, str):
        return FAMILIES[prior]
    if isinstance(prior, (stats.rv_continuous, stats.rv_discrete)):
        raise ValueError(
            f"Calibrate can fit only the families {', '.join(map(repr, FAMILIES))}, got the "
            f"scipy.stats distribution {prior.name!r} without parameters. Pass prior= as one of "
            "these names, or as a distribution with parameters, such as scipy.stats.norm(10, 3)."
        )
    return Known(prior)


# -- fits -------------------------------------------------------------------------------------
def fit_moments(family, mean, std, n_samples):
    """Return the parameters of the prior that has the desired mean and standard deviation.

    mean, std: desired moments of the prior, which is restricted to the counts 0 .. n. A family with
    one parameter is fitted to the mean only.
    Returns: the parameters, of shape (n_parameters,), and whether a prior with these moments
    exists. If no such prior exists, the parameters are a substitute. For a family with one
    parameter, the substitute gives the nearest mean. For a family with a location and a scale, it
    gives these moments to the distribution before the restriction to 0 .. n.
    """
    # A family with one parameter is fitted to the mean only.

    @np.errstate(all="ignore")
    def misfit(free):
        try:
            m, v, _ = prior_moments(family.prior(family.from_free(free), n_samples))
        except ValueError:
            return np.full(len(family.names), 1e3)
        gap = np.array([m / mean, np.sqrt(v) / std])[: len(free)] - 1
        return np.where(np.isfinite(gap), gap, 1e3)

    starts = [family.to_free(theta) for theta in family.starts(mean, std, n_samples)]
    if len(family.names) == 1:
        return _solve_for_mean(family, misfit, starts)
    start = solution = starts[0]
    with np.errstate(all="ignore"):
        if np.abs(misfit(start)).max() > _UNIT:
            solution = root(misfit, start, tol=1e-10, options={"maxfev": 60}).x
        is_solved = bool(np.abs(misfit(solution)).max() <= _UNIT)
    return family.from_free(solution if is_solved else start), is_solved


def _solve_for_mean(family, misfit, starts):
    """Return the parameter of the prior that has the desired mean, and whether it exists.

    The parameter has shape (1,). If no such prior exists, the parameter gives the nearest mean.
    misfit: function of the free parameter (see `to_free`) that is 0 at the desired mean.
    starts: free parameters near which a solution is searched.
    """
    steps = np.array([-3.0, 0.0, 3.0])
    free = np.unique(np.concatenate([np.ravel(start) + steps for start in starts]))
    gaps = np.array([misfit(np.array([x]))[0] for x in free])
    change = np.flatnonzero(np.diff(np.sign(gaps)) != 0)
    if not len(change):
        return family.from_free(free[[np.argmin(np.abs(gaps))]]), False
    at = change[np.argmin(np.abs(gaps[change]) + np.abs(gaps[change + 1]))]
    solution = brentq(lambda x: misfit(np.array([x]))[0], free[at], free[at + 1], xtol=1e-13)
    return family.from_free(np.array([solution])), True


def fit_likelihood(family, rows, std, n_samples):
    """Return the maximum likelihood estimate of the prior's parameters for each row.

    This is Eq. 16 of Jia and Gong, "Calibrate", INFOCOM 2019.
    rows: estimated counts, of shape (n_rows, d). std: standard deviation of their noise.
    Returns: the parameters, of shape (n_rows, n_parameters).
    """
    if len(family.names) == 1:
        mean = min(max(n_samples / rows.shape[1], 1.0), n_samples)
        starts = [family.to_free(theta) for theta in family.starts(mean, std, n_samples)]
        loss = _likelihood_loss(family, rows, std, n_samples)
        return np.array([family.from_free(x) for x in _minimize_one(loss, np.ravel(starts))])
    return np.array([_minimize_two(family, row, std, n_samples) for row in rows])


def _likelihood_loss(family, rows, std, n_samples):
    """Return a function of the prior's free parameters (see `to_free`).

    The function returns minus the log-likelihood of each row, of shape (n_rows,). The integrals
    over the prior are slow, so the function computes them once for all rows.
    """
    ends, value_weights, slope_weights = _likelihood_weights(rows, std)

    def loss(free):
        if len(family.names) == 2 and not _in_reach(family.from_free(free), std):
            return np.full(len(rows), 1e30)
        with np.errstate(all="ignore"):
            try:
                theta = tuple(map(float, family.from_free(np.atleast_1d(free))))
                log_total = family.log_total(theta, n_samples)
                posterior = Posterior(family.prior(theta, n_samples), std, ends[0], ends[-1])
                mean, _, log_density = posterior.moments(ends)
            except ValueError:
                return np.full(len(rows), 1e30)
            slope = (mean - ends) / std**2
            normalization = rows.shape[1] * log_total
            values = normalization - value_weights @ log_density - slope_weights @ slope
        return np.where(np.isfinite(values), values, 1e30)

    return loss


def _minimize_two(family, row, std, n_samples):
    """Return the maximum likelihood estimate of a prior's location and scale for one row.

    The maximum is found by the Nelder-Mead method. Returns an array of shape (2,).
    """
    loss = _likelihood_loss(family, row[None], std, n_samples)
    mean = min(max(row.mean(), 1.0), n_samples)
    spread = np.sqrt(max(row.var() - std**2, (_NARROW * std) ** 2))
    (first,) = family.starts(mean, spread, n_samples)
    start = family.to_free(first)
    unit = np.array([spread, 1.0])
    simplex = np.vstack([np.zeros(2), 0.3 * np.eye(2)])
    options = {"initial_simplex": simplex, "xatol": 1e-2, "fatol": 1e-2, "maxiter": 150}
    minimum = minimize(
        lambda x: loss(start + unit * x)[0], simplex[0], method="Nelder-Mead", options=options
    )
    return family.from_free(start + unit * minimum.x)


def _in_reach(theta, std):
    """Return whether the location and the scale in `theta` are in the range that can be fitted.

    The location must not be more than 30 scales below 0, and the scale must not be tiny compared
    with the standard deviation of the noise.
    """
    # Further to the left a distribution on 0 .. n tends to a geometric one (or to itself) more and
    # more slowly, and narrower distributions are indistinguishable from a point.
    loc, scale = theta[-2:]
    return scale >= _NARROW * std / 2 and loc >= -30 * scale


def _likelihood_weights(rows, std):
    """Return points and weights with which a smooth function is summed over each row.

    The sums of a function over the d numbers of each row are approximated by A @ values +
    B @ slopes, where the values and the slopes are the values and the derivatives of the function
    at the points. The sums are exact if all distinct numbers of the rows are points.
    rows: numbers, of shape (n_rows, d).
    Returns: the points, of shape (n_points,), and the sparse matrices A and B, both of shape
    (n_rows, n_points).
    """
    row = np.repeat(np.arange(len(rows)), rows.shape[1])
    cells = Cells(rows.ravel(), _CELL * std)
    if 2 * len(cells.left) < rows.size:
        return cells.weights(row, len(rows))
    distinct, at = np.unique(rows, return_inverse=True)
    numbers = csr_array((np.ones(rows.size), (row, at.ravel())), (len(rows), len(distinct)))
    return distinct, numbers, csr_array(numbers.shape)


def _minimize_one(loss, free):
    """Return, for each row, the parameter with the smallest loss; an array of shape (n_rows, 1).

    The smallest loss on a coarse grid gives a bracket around the minimum of each row. Within the
    bracket, a polynomial that interpolates the loss is minimized.
    loss: function of one parameter that returns the losses of all rows.
    free: parameters of the coarse grid, of shape (n_starts,).
    """
    free = np.sort(free)
    if len(free) < 8:
        free = np.linspace(free[0] - 3, free[-1] + 3, 15)
    best = np.argmin([loss(x) for x in free], axis=0)
    result = np.empty((len(best), 1))
    for at in np.unique(best):
        low = free[max(at - 1, 0)]
        high = free[min(at + 1, len(free) - 1)]
        bounds = (low, high)
        places = (low + high) / 2 + (high - low) / 2 * chebpts1(_N_PLACES)
        is_here = best == at
        losses = np.array([loss(x)[is_here] for x in places])
        for row, row_losses in zip(np.flatnonzero(is_here), losses.T, strict=True):
            fit = Chebyshev.fit(places, row_losses, _N_PLACES - 1, bounds)
            turns = fit.deriv().roots()
            inner = turns.real[(turns.imag == 0) & (turns.real >= low) & (turns.real <= high)]
            candidates = np.append(inner, bounds)
            result[row] = candidates[np.argmin(fit(candidates))]
    return result
