"""Priors that differ between groups of categories or along an order, learned from the estimates.

All frequencies are divided by the noise level, as in `_core/numerics/deconvolution.py`. There is
one common prior of all categories. The prior of a group is derived from the common prior by two
coordinates, which belong to two directions. One direction multiplies the frequencies of the prior
by a factor. Every other direction tilts the prior: it multiplies the prior probabilities by the
exponential of a coordinate times a function of the frequency. Each pair of directions is a family.
The coordinates of a group have a prior whose standard deviation, the spread, describes how much
groups differ. All groups together show which spreads are likely, and the result is averaged over
the spreads. The method is unpublished. The tilts come from g-modeling, and the factor comes from
scale families of priors.

Frequencies along an order may also follow a smooth curve. The curve is a sum of waves, which are
the components of the discrete cosine transform, so the noise of different waves is independent. The
waves have Gaussian priors, whose variances decrease with the number of the wave. The amplitude, the
length and the smoothness of this decrease are averaged, weighted by their likelihoods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.fft import dct, idct
from scipy.special import expit, logsumexp

from ..._core.common.locks import cached_property
from ..._core.numerics.deconvolution import CountLaw, Law, NormalLaw
from .hints import Partition

# The constants of the prior (_EMPTY to FEWEST, _POWERS, _SPREADS, the directions below), of hints,
# of totals and of the most frequent categories were chosen together in November 2026, on the 28
# populations that `python -m benchmarks.accuracy.fixed_questions --populations FILE` calls tuned:
# among several dozen variants for groups, and about twenty for an order
# (doc/notes/postprocessors.md). The others limit errors of computation, or work.
_NEAR = 10.0  # estimates above it, in sigma, hardly depend on the prior
_CELL = 0.1  # distance, in sigma, of nodes between which everything is interpolated
_REACH = 12.0  # standard deviations beyond which a normal density is negligible
_EMPTY = 0.3  # below this frequency, in sigma, a category counts as empty
_EVEN = 0.5  # prior probability that groups do not differ in a direction, and that not at all
_CURVE = 0.5  # prior probability of a curve, rather than groups, if frequencies differ at all
FEWEST = 4  # categories that make a curve
_POWERS = (2, 4, 6)  # of a wave's number, by which the variances fall: rough to smooth curves
_SPREADS = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30])  # of a curve, in squared means
_EXACT = 256  # waves up to this number have a cell of their own
_RATIO = 1.02  # of the first waves of neighboring cells beyond
_MOST_WAVES = 4096  # shorter waves hardly change the sum over a range


# -- a curve ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Curve:
    """A smooth curve that is fitted to the estimates of ordered categories."""

    means: np.ndarray  # (d,): posterior means, which may be negative
    log_likelihood: float  # logarithm of the joint density of the estimates, as in `Estimates`
    wave_variances: np.ndarray  # (d,): posterior variance of each wave
    missing: int | None = None  # the position of the missing answers, which are not on the curve
    missing_variance: float = 0.0

    def with_missing(self, estimates: Estimates, place: int) -> Curve:
        """Return the curve with the missing answers at a position. They keep their estimate.

        Their likelihood is the likelihood under the common prior, so that the missing answers do
        not change the probability of the curve.
        """
        others = np.delete(estimates.z, place)
        log_likelihood = estimates.log_likelihood() - estimates.of(others).log_likelihood()
        missing = estimates.z[place]
        return replace(
            self,
            means=np.insert(self.means, place, missing),
            log_likelihood=self.log_likelihood + log_likelihood,
            missing=place,
            missing_variance=float(1 + estimates.growth * max(missing, 0)),
        )

    def variances(self, partition: Partition) -> np.ndarray:
        """Return the posterior variance of each group's total frequency, of shape (n_groups,).

        The variance is exact if each group is a range of consecutive categories. For other groups,
        the errors of the group's categories are assumed to be independent.
        """
        if self.missing is not None:
            bins = Partition(np.delete(partition.codes, self.missing), partition.names)
            alone = replace(self, means=np.delete(self.means, self.missing), missing=None)
            result = alone.variances(bins)
            result[partition.codes[self.missing]] += self.missing_variance
            return result
        d = len(self.means)
        sizes = partition.sizes()
        if np.any(np.diff(partition.codes) < 0):
            return sizes * (1 - sizes / d) * self.wave_variances.sum() / d
        angles = np.pi * np.arange(1, min(d, _MOST_WAVES)) / d
        at_edges = np.sin(np.multiply.outer(np.r_[0, np.cumsum(sizes)], angles))
        sums = np.diff(at_edges, axis=0) / (np.sqrt(2 * d) * np.sin(angles / 2))
        return sums**2 @ self.wave_variances[1 : len(angles) + 1]


def fit_curve(z: np.ndarray, growth: float, total: float) -> Curve:
    """Fit a smooth curve to the estimates of ordered categories.

    z: the estimates, divided by the noise level, in the order of the categories, of shape (d,). At
    least `FEWEST` categories are needed.
    growth: how much the variance of an estimate grows with the frequency.
    total: the known sum of the frequencies, divided by the noise level.
    The variances of single estimates are replaced by their mean. The prior variance of wave j is
    proportional to `1 / (1 + (j / j_0)**power)`.
    """
    d = len(z)
    mean = total / d
    noise = max(1 + growth * mean, 1e-4)
    waves = dct(z - mean, norm="ortho")
    starts = _wave_cells(d)
    counts = np.diff(np.r_[starts, d])
    squares = np.add.reduceat(waves**2, starts)[1:] / counts[1:]  # without wave 0, which is known
    number = (starts + (counts - 1) / 2)[1:]
    counts = counts[1:]
    shapes = [_wave_variances(number, counts, power) for power in _POWERS]
    variances = np.concatenate(shapes) * mean**2
    score = -0.5 * (np.log(noise + variances) + squares / (noise + variances)) @ counts
    # Wave 0 contains only noise, because the sum of the frequencies is known.
    first_score = -0.5 * (np.log(noise) + waves[0] ** 2 / noise)
    evidence = logsumexp(score)
    kept = np.exp(score - evidence) @ (variances / (noise + variances))
    gain = np.r_[0.0, np.repeat(kept, counts)]
    log_likelihood = float(evidence - np.log(len(score)) + first_score)
    return Curve(mean + idct(gain * waves, norm="ortho"), log_likelihood, noise * gain)


def _wave_cells(d: int) -> np.ndarray:
    """Divide the d waves into blocks of consecutive waves, and return the first wave of each block.

    Each of the first 256 waves is a block by itself. The later blocks become longer and longer.
    """
    n = int(np.log(d / _EXACT) / np.log(_RATIO)) + 1
    later = np.unique(np.floor(_EXACT * _RATIO ** np.arange(n)).astype(np.int64))
    return np.r_[np.arange(min(d, _EXACT)), later[later < d]]


def _wave_variances(number: np.ndarray, counts: np.ndarray, power: float) -> np.ndarray:
    """Return the prior variances of the waves, of shape (n_spreads * n_lengths, n_blocks).

    Each row belongs to one pair of an amplitude (spread) and a length of the curve.
    number: mean wave number of each block. counts: number of waves in each block.
    power: the power with which the variances decrease.
    """
    d = counts.sum() + 1
    first = 2.0 ** np.arange(0, np.log2(d) - 0.5)
    shape = 1 / (1 + (number / first[:, None]) ** power)
    shape *= d / (shape @ counts)[:, None]
    return np.multiply.outer(_SPREADS, shape).reshape(-1, len(number))


# -- groups -----------------------------------------------------------------------------------
def _size(theta: np.ndarray, top: float) -> np.ndarray:
    """Return a number from 0 to 1 for each frequency theta, which increases with the frequency.

    A coordinate times these numbers is added to the logarithms of prior probabilities. The
    frequencies of a group thereby become larger or smaller. top: the largest frequency.
    """
    return np.arcsinh(np.clip(theta, 0, top)) / np.arcsinh(top)


def _nonempty(theta: np.ndarray, top: float) -> np.ndarray:
    """Return 1 for each frequency theta that is not practically 0, and 0 for all others.

    A coordinate times these numbers is added to the logarithms of prior probabilities. This changes
    how many categories of a group have users.
    """
    return (theta > _EMPTY).astype(np.float64)


def _middle(theta: np.ndarray, top: float) -> np.ndarray:
    """Return a number from 0 to 1 for each frequency theta, which is largest in the middle.

    A coordinate times these numbers is added to the logarithms of prior probabilities. This changes
    how many categories of a group are neither empty nor very frequent.
    """
    t = _size(theta, top)
    return 4 * t * (1 - t)


@dataclass(frozen=True, eq=False)
class _Direction:
    """One way in which the priors of groups may differ from the common prior of all categories.

    A number, the coordinate of a group, describes how much the prior of this group differs.
    `coordinates` are the possible values. `spreads` are the possible standard deviations of the
    coordinates of all groups.
    """

    # A coordinate times `column` is added to the logarithms of a prior's weights. If there is no
    # column, a coordinate is the logarithm of a factor of the frequencies.

    coordinates: np.ndarray
    spreads: np.ndarray
    column: Callable[[np.ndarray, float], np.ndarray] | None = None

    def tilts(self, theta: np.ndarray, top: float) -> np.ndarray:
        """Return the logarithms of the factors by which the prior probabilities are multiplied.

        The factors depend on the frequency and on the coordinate of the group.
        Shapes: theta (n_theta,) -> (n_theta, n_coordinates).
        theta: the frequencies of the prior. top: the largest frequency.
        """
        column = np.zeros(len(theta)) if self.column is None else self.column(theta, top)
        return np.multiply.outer(column, self.coordinates)

    def priors(self) -> np.ndarray:
        """Return the prior probabilities of a group's coordinate, for each spread.

        Shapes: -> (1 + n_spreads, n_coordinates).
        In the first row, groups do not differ, so the coordinate 0 has the probability 1.
        """
        density = np.exp(-0.5 * (self.coordinates / self.spreads[:, None]) ** 2)
        density *= np.gradient(self.coordinates)
        return np.vstack([self.coordinates == 0, density / density.sum(axis=1, keepdims=True)])

    def log_weights(self) -> np.ndarray:
        """Return the logarithms of the prior probabilities of the rows of `priors()`.

        The first is the probability that groups do not differ. Then follow the spreads.
        Shapes: -> (1 + n_spreads,).
        """
        n = len(self.spreads)
        return np.log(np.r_[_EVEN, np.full(n, (1 - _EVEN) / n)])


def _both_ways(*steps: float) -> np.ndarray:
    """Return an increasing array of the negative steps, 0 and the positive steps."""
    return np.concatenate([-np.array(steps[::-1]), [0.0], steps])


_FACTOR = _Direction(_both_ways(0.25, 0.5, 1, 1.75, 3), np.array([0.125, 0.25, 0.5, 1, 2]))
_SIZE = _Direction(_both_ways(0.75, 1.5, 3, 5.5, 9), np.array([0.5, 1, 2, 4]), _size)
_SHARE = _Direction(_both_ways(0.5, 1, 2, 4, 7), np.array([0.25, 0.5, 1, 2, 4]), _nonempty)
_SHAPE = _Direction(_both_ways(0.75, 1.5, 3, 5.5, 9), np.array([0.5, 1, 2, 4]), _middle)
_FAMILIES = ((_FACTOR, _SHARE), (_FACTOR, _SHAPE), (_SIZE, _SHAPE))


@dataclass(frozen=True, eq=False)
class GroupFit:
    """The result of `fit_groups`.

    It contains the posterior means under priors that may differ between groups, the posterior
    variances of the groups' totals, and the weights of the models.
    """

    means: np.ndarray  # (d,): posterior means
    # (n_groups,): for each partition, posterior variances of the sums over its groups.
    variances: list[np.ndarray]
    log_evidence: float  # log Bayes factor of groups that differ against groups that do not
    # Weight of the group-aware posterior means in `means`; posterior means under the common prior
    # have the rest.
    share: float
    # (n_partitions,): posterior probabilities of the partitions, given that groups differ.
    weights: np.ndarray
    # Posterior probability of the curve, given that groups differ. With `weights` it sums to 1.
    curve_weight: float


class _Expert(NamedTuple):
    """The result of one family of priors for one partition of the categories into groups.

    means (d,): posterior means of the categories. variances (n_groups,): posterior variances of the
    groups' totals. log_evidence: logarithm of the Bayes factor for groups that differ.
    """

    means: np.ndarray
    variances: np.ndarray
    log_evidence: float


class Estimates:
    """The estimates, and the likelihoods that all priors of groups need.

    The likelihoods are computed for a few observations, the nodes. Results for estimates between
    two nodes are interpolated, which is much faster.
    """

    # z (d,): the estimates.
    # theta, weights (n_grid,): the common prior on its whole grid; frequencies without weight
    # are needed, too.
    # growth: how much the variance of an estimate grows with the frequency.
    # means (d,): posterior means under the common prior.
    # law: the distribution of an estimate; if None, the normal distribution.

    def __init__(
        self,
        z: np.ndarray,
        theta: np.ndarray,
        weights: np.ndarray,
        growth: float,
        means: np.ndarray,
        law: Law | None = None,
    ) -> None:
        law = law or NormalLaw(growth)
        self.theta, place = np.unique(theta, return_inverse=True)
        self.weights = np.bincount(place, weights=weights)
        self.means = means
        self.is_near = z <= _NEAR
        nodes, self._place, self._beyond = _nodes(z[self.is_near])
        std = np.sqrt(np.maximum(1 + growth * self.theta, 0))
        theta = self.theta[self.theta - _REACH * std <= _NEAR + _CELL]
        log = law.log_density(nodes, theta)
        self._tops = log.max(axis=1, keepdims=True)
        likelihood = np.exp(log - self._tops)
        self._powers = np.vstack([likelihood, likelihood * theta, likelihood * theta**2])
        self.z = z
        self.law = law
        self.growth = growth
        self.far = z[~self.is_near]
        self.far_variances = np.maximum(1 + growth * self.far, 0)

    def of(self, z: np.ndarray) -> Estimates:
        """Return other estimates with the same prior. Their posterior means are not computed."""
        return Estimates(z, self.theta, self.weights, self.growth, z, self.law)

    def at_nodes(self, partition: Partition) -> sparse.csr_array:
        """Return a sparse matrix of shape (n_groups, n_nodes).

        The product of this matrix and the values of a function at the nodes is, for each group, the
        sum of the interpolated function over the group's estimates up to `_NEAR` noise levels.
        """
        rows = partition.codes[self.is_near]
        weights = np.concatenate([1 - self._beyond, self._beyond])
        places = np.concatenate([self._place, self._place + 1])
        shape = (len(partition.names), len(self._tops))
        return sparse.csr_array((weights, (np.concatenate([rows, rows]), places)), shape=shape)

    def interpolated(self, at_nodes: np.ndarray, partition: Partition) -> np.ndarray:
        """Return the posterior means of all categories, of shape (d,), by interpolation.

        at_nodes: the posterior means of an observation at each node under the prior of each group,
        of shape (n_nodes, n_groups). For estimates above `_NEAR` noise levels, the means under the
        common prior are returned.
        """
        result = self.means.copy()
        group = partition.codes[self.is_near]
        low = at_nodes[self._place, group]
        high = at_nodes[self._place + 1, group]
        result[self.is_near] = low + self._beyond * (high - low)
        return result

    def far_members(self, partition: Partition) -> Partition:
        """Return the groups of the estimates above `_NEAR` noise levels, as a Partition.

        A group of this partition may be empty.
        """
        return Partition(partition.codes[~self.is_near], partition.names)

    def log_likelihood(self) -> float:
        """Return the logarithm of the density of all estimates if all categories have one prior."""
        log = (self.moments(self.weights[:, None])[0] + self._tops)[:, 0]
        near = log[self._place] + self._beyond * (log[self._place + 1] - log[self._place])
        # A concave function lies above its chords; over many estimates that adds up.
        bend = np.pad(np.diff(log, 2), 1, mode="edge") if len(log) > 2 else np.zeros(len(log))
        near -= self._beyond * (1 - self._beyond) / 4 * (bend[self._place] + bend[self._place + 1])
        used = self.weights > 0
        far = self.law.log_density(self.far, self.theta[used]) + np.log(self.weights[used])
        return float(near.sum() + logsumexp(far, axis=1).sum())

    def moments(self, priors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return three results for an observation at each node under each prior.

        Nodes are the observations for which the likelihoods were computed.
        Shapes: priors (n_grid, n_priors) -> three arrays, each (n_nodes, n_priors).
        Returns: the logarithm of the marginal density of the observation, and the mean and the
        variance of the posterior.
        """
        products = self._powers @ priors[: self._powers.shape[1]]
        density, mean, square = products.reshape(3, len(self._tops), -1)
        density = np.maximum(density, 1e-300)
        mean = mean / density
        square = square / density
        return np.log(density), mean, np.maximum(square - mean**2, 0)

    @cached_property
    def multiplied(self) -> np.ndarray:
        """Return the common prior with its small frequencies multiplied by each possible factor.

        Shapes: -> (n_grid, n_factors). Each column contains the probabilities of one prior.
        """
        # A frequency between two points of the grid is divided between them, which keeps the mean.
        # Large frequencies stay, because there the grid has only the points that large estimates
        # need.
        theta = self.theta
        last = len(theta) - 2
        moves = theta <= _NEAR
        result = np.empty((len(theta), len(_FACTOR.coordinates)))
        for k, coordinate in enumerate(_FACTOR.coordinates):
            moved = np.minimum(theta[moves] * np.exp(coordinate), theta[-1])
            low = np.clip(np.searchsorted(theta, moved, side="right") - 1, 0, last)
            high = np.clip((moved - theta[low]) / (theta[low + 1] - theta[low]), 0, 1)
            mass = self.weights[moves]
            result[:, k] = np.bincount(low, mass * (1 - high), len(theta))
            result[:, k] += np.bincount(low + 1, mass * high, len(theta))
        result[~moves] += self.weights[~moves, None]
        return result


def _nodes(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points (nodes) from which functions of the estimates z are linearly interpolated.

    Returns: the nodes, of shape (n_nodes,); for each estimate the index of the largest node that is
    not above it, of shape (n,); and the weight of the next node in the interpolation, of shape
    (n,).
    """
    lattice = np.floor(z / _CELL)
    first = lattice.min(initial=0)
    last = lattice.max(initial=0) + 1
    if len(z) < last - first:  # few estimates, each of which may be a node
        nodes, place = np.unique(np.append(z, last * _CELL), return_inverse=True)
        return nodes, place[:-1], np.zeros(len(z))
    place = (lattice - first).astype(np.int64)
    return np.arange(first, last + 1) * _CELL, place, z / _CELL - lattice


def fit_groups(
    estimates: Estimates, partitions: list[Partition], curve: Curve | None = None
) -> GroupFit:
    """Fit priors that may differ between groups, and return the averaged posterior means.

    Each family of priors is fitted to each partition of the categories into groups. The posterior
    means of all these fits, and of the curve, are averaged with their posterior probabilities.
    """
    # curve: the fit of a smooth curve, if the categories are ordered.
    pairs = [(p, estimates.at_nodes(p)) for p in partitions]
    experts = [[_fit(estimates, p, sums, *family) for family in _FAMILIES] for p, sums in pairs]
    weights, curve_weight, log_evidence = _weights(estimates, experts, curve)
    aware = np.zeros(len(estimates.means))
    for row, own in zip(experts, weights, strict=True):
        for expert, weight in zip(row, own, strict=True):
            aware += weight * expert.means
    if curve is not None:
        aware += curve_weight * curve.means
    variance = estimates.moments(estimates.weights[:, None])[2][:, 0]
    # The families for other partitions have no variances of these sums.
    common = []
    different = []
    for (p, sums), row, own in zip(pairs, experts, weights, strict=True):
        far = estimates.far_members(p).sums(estimates.far_variances)
        common.append(_with_known_sum(p, sums @ variance + far))
        parts = [(_with_known_sum(p, expert.variances + far), expert.means) for expert in row]
        if curve is not None:
            parts.append((curve.variances(p), curve.means))
            own = np.r_[own, curve_weight]
        different.append(_spread(p, parts, own, aware))
    share = float(expit(log_evidence))
    means = estimates.means + share * (aware - estimates.means)
    variances = [c + share * (d - c) for c, d in zip(common, different, strict=True)]
    return GroupFit(means, variances, log_evidence, share, weights.sum(axis=1), curve_weight)


def _weights(
    estimates: Estimates, experts: list[list[_Expert]], curve: Curve | None
) -> tuple[np.ndarray, float, float]:
    """Return the posterior probabilities of all fits and of the curve, if frequencies differ.

    experts: for each partition, the fit of each family.
    Returns: the probabilities of the fits, of shape (n_partitions, n_families); the probability of
    the curve; and the logarithm of the Bayes factor for the model that groups differ or that
    frequencies follow a curve, against the common prior.
    """
    scores = np.array([[expert.log_evidence for expert in row] for row in experts])
    scores = scores.reshape(len(experts), len(_FAMILIES)) - np.log(max(scores.size, 1))
    curve_score = -np.inf
    if curve is not None:
        curve_score = curve.log_likelihood - estimates.log_likelihood()
        if not isinstance(estimates.law, NormalLaw):
            # The curve assumes normal estimates. Its likelihood under both distributions corrects
            # its score. A small count has no likelihood at a negative frequency, so its score is
            # corrected at equal frequencies.
            means = curve.means[:, None]
            if isinstance(estimates.law, CountLaw):
                means = np.full_like(means, curve.means.mean())
            curve_score += estimates.law.log_density(estimates.z, means).sum()
            curve_score -= NormalLaw(estimates.growth).log_density(estimates.z, means).sum()
        if experts:
            scores += np.log(1 - _CURVE)
            curve_score += np.log(_CURVE)
    total = float(logsumexp([*scores.ravel(), curve_score]))
    return np.exp(scores - total), float(np.exp(curve_score - total)), total


def _spread(
    partition: Partition, parts: list, weights: np.ndarray, means: np.ndarray
) -> np.ndarray:
    """Return the posterior variance of each group's total, averaged over several fits.

    weights: the weight of each fit. means: the averaged posterior means of the categories.
    """
    # parts: for each weight, variances of the sums, and posterior means.
    center = partition.sums(means)
    squares = [variances + (partition.sums(own) - center) ** 2 for variances, own in parts]
    if weights.sum() < 1e-100:  # other partitions have all the weight
        weights = np.ones(len(parts))
    return weights @ np.array(squares) / weights.sum()


def _with_known_sum(partition: Partition, variances: np.ndarray) -> np.ndarray:
    """Reduce the variances of the groups' totals, because the sum of all totals is known.

    variances: variances without this knowledge, of shape (n_groups,), like the result.
    """
    return variances * (1 - partition.sizes() / len(partition.codes))


# -- one family and one partition -------------------------------------------------------------
# A family of priors has two directions, in which the prior of a group may differ from the common
# prior. Arrays have these axes:
#   g       groups
#   s, t    coordinates of a group in the first and in the second direction
#   a, b    spreads of all groups' coordinates: none (0), then each spread of the direction
def _fit(
    estimates: Estimates, partition: Partition, sums: Any, first: _Direction, second: _Direction
) -> _Expert:
    """Fit one family of priors, with the directions `first` and `second`, to one partition.

    The priors of the groups may differ in both directions.
    """
    # sums: matrix of shape (g, n_nodes) from `Estimates.at_nodes`.
    priors, log_totals = _tilted_priors(estimates, first, second)
    log_marginal, mean, variance = estimates.moments(priors)  # each (n_nodes, s * t)
    near = (sums @ log_marginal).reshape(-1, *log_totals.shape)  # (g, s, t)
    log_likelihood = _with_far_members(near, estimates, partition, log_totals, first, second)
    posterior, log_evidence = _posterior(log_likelihood, first, second)

    posterior = posterior.reshape(len(partition.names), -1)  # (g, s * t)
    group_sums = sums @ mean  # (g, s * t)
    expected = np.einsum("gk,gk->g", posterior, group_sums)
    between = np.einsum("gk,gk->g", posterior, group_sums**2) - expected**2
    within = np.einsum("gk,gk->g", posterior, sums @ variance)
    means = estimates.interpolated(mean @ posterior.T, partition)
    return _Expert(means, np.maximum(between, 0) + within, log_evidence)


def _tilted_priors(
    estimates: Estimates, first: _Direction, second: _Direction
) -> tuple[np.ndarray, np.ndarray]:
    """Return the prior of a group for each pair of its coordinates in two directions.

    The top of this file defines coordinates and directions. The tilted probabilities of each prior
    are divided by their sum. The logarithms of these sums are the second result.
    Shapes: -> priors (n_grid, s * t), logarithms (s, t).
    """
    theta = estimates.theta
    base = estimates.multiplied if first.column is None else estimates.weights[:, None]
    first_tilts = first.tilts(theta, theta[-1])  # (n_grid, s)
    second_tilts = second.tilts(theta, theta[-1])  # (n_grid, t)
    first_maxima = first_tilts.max(axis=0)
    second_maxima = second_tilts.max(axis=0)
    first_factors = base * np.exp(first_tilts - first_maxima)
    second_factors = np.exp(second_tilts - second_maxima)
    products = first_factors[:, :, None] * second_factors[:, None, :]
    totals = products.sum(axis=0)
    priors = (products / totals).reshape(len(theta), totals.size)
    if first.column is None:
        # A factor of the frequencies does not move far estimates, so factor 1 normalizes these.
        totals = totals[[len(first.coordinates) // 2]].repeat(len(totals), axis=0)
    return priors, np.log(totals) + first_maxima[:, None] + second_maxima


def _with_far_members(
    near: np.ndarray,
    estimates: Estimates,
    partition: Partition,
    log_totals: np.ndarray,
    first: _Direction,
    second: _Direction,
) -> np.ndarray:
    """Return the log-likelihood of all estimates of each group, for each pair of coordinates.

    The top of this file defines coordinates.
    near: the log-likelihood of the estimates up to `_NEAR` noise levels. The log-likelihood of the
    larger estimates is added. A large estimate nearly equals its frequency, so its likelihood
    changes by the same factor as the prior probability of this frequency.
    Shapes: near (g, s, t), log_totals (s, t) -> (g, s, t).
    """
    far = estimates.far_members(partition)
    top = estimates.theta[-1]
    first_tilts = far.rows() @ first.tilts(estimates.far, top)  # (g, s)
    second_tilts = far.rows() @ second.tilts(estimates.far, top)  # (g, t)
    normalized = near - far.sizes()[:, None, None] * log_totals
    return normalized + (first_tilts[:, :, None] + second_tilts[:, None, :])


def _posterior(
    log_likelihood: np.ndarray, first: _Direction, second: _Direction
) -> tuple[np.ndarray, float]:
    """Return the posterior probabilities of each group's coordinates, and a log Bayes factor.

    The top of this file defines coordinates. The Bayes factor compares the model that groups differ
    with the model that groups do not differ.
    Shapes: log_likelihood (g, s, t) -> (g, s, t).
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=(1, 2), keepdims=True))
    first_priors = first.priors()  # (a, s)
    second_priors = second.priors()  # (b, t)
    evidence = np.einsum("gsb,as->gab", likelihood @ second_priors.T, first_priors)
    evidence = np.maximum(evidence, 1e-300)
    scores = np.log(evidence).sum(axis=0)  # (a, b)
    score_of_none = scores[0, 0]
    log_prior = np.add.outer(first.log_weights(), second.log_weights())
    scores = scores + log_prior
    scores[0, 0] = -np.inf
    total = logsumexp(scores)
    log_evidence = float(total - np.log1p(-np.exp(log_prior[0, 0])) - score_of_none)
    weights = np.exp(scores - total) / evidence  # (g, a, b)
    coordinate_weights = np.einsum(
        "as,gab,bt->gst", first_priors, weights, second_priors, optimize=True
    )
    return likelihood * coordinate_weights, log_evidence
