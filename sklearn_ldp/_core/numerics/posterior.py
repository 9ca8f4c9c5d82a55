"""Posterior means of true counts, given a prior on integers and estimates with normal noise.

A sum over a long range of counts uses only some of them: ten counts near the Gauss nodes (called
nodes), with weights that sum every polynomial of degree 9 exactly. A range is halved until its two
halves give the same sums as the whole range.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander
from scipy.sparse import csr_array

from ..common.locks import cached_property

_ALL_EXACT = 20_000  # up to this number of counts, the sum is over all counts
_N_NODES = 10  # exact for polynomials of degree 19; `_AGREE` checks other functions
_SHORT = 16  # in a stretch of at most this many counts, the sum is over all counts
_AGREE = 1e-9  # relative; stretches with a larger difference are halved
_NEGLIGIBLE = 60.0  # exp(-60) of the largest term
_CELL = 0.25  # width of the cells for interpolation, in units of the noise
_PRECISE = 1e-7  # error of interpolation below which a cell is not halved, in units of the noise
_MANY_STRETCHES = 4096  # above this number, in units of the noise, only counts near estimates count
_FEW = 100  # up to this number of estimates or cells, direct sums are faster than a table


class CountPrior(NamedTuple):
    """A prior distribution of a true count, which is an integer from `low` to `high`.

    `log_mass` is a function that returns the logarithm of the probability, up to a constant.
    """

    # `log_mass` accepts and returns an ndarray of any shape. If only some counts have a positive
    # probability, these counts are the `places`, because the prior is not smooth between them.
    # If the log mass falls, and by at most `steepness * log(b / a)` from a to b, then this bound
    # implies where the posterior is negligible.

    log_mass: Callable
    low: int
    high: int
    places: np.ndarray | None = None
    steepness: float | None = None


# -- sums -------------------------------------------------------------------------------------
@lru_cache(maxsize=128)
def _rule(length):
    """Return the nodes and weights with which a sum over `length` consecutive counts is computed.

    The nodes are relative to the first count.
    """
    if length <= _SHORT:
        return np.arange(float(length)), np.ones(length)
    offsets = np.rint((leggauss(_N_NODES)[0] + 1) * length / 2 - 0.5)
    # Sums of polynomials over equally spaced points, by their own Gauss rule (Gram's polynomials).
    j = np.arange(1.0, _N_NODES)
    side = np.sqrt(j**2 * (1 - (j / length) ** 2) / (4 * j**2 - 1))
    points, vectors = np.linalg.eigh(np.diag(side, 1) + np.diag(side, -1))
    sums = length * vectors[0] ** 2 @ legvander(points, _N_NODES - 1)
    scaled = (offsets - (length - 1) / 2) / (length / 2)
    return offsets, np.linalg.solve(legvander(scaled, _N_NODES - 1).T, sums)


def _terms(prior, starts, length):
    """Return the nodes of ranges of counts, and the prior's log mass at the nodes.

    The ranges begin at `starts` and have the same length. The last node of each range is its last
    count.
    """
    k = starts[:, None] + np.append(_rule(length)[0], length - 1.0)
    return k, prior.log_mass(k.ravel()).reshape(k.shape)


def count_nodes(prior, std=np.inf, lowest=0.0, highest=0.0, within=None):
    """Return a few counts (nodes), their log masses and weights, which replace a sum over all
    counts.

    Shapes: -> (n_nodes,), (n_nodes,), (n_nodes,).
    std: standard deviation, in counts, of a normal density by which the prior is multiplied. If
    infinite, the sum is over the prior only.
    lowest, highest: bounds on the center of this density, which are used if `std` is finite.
    within: the first and the last count to use. If None, all counts of the prior.
    """
    if prior.places is not None:
        return prior.places, prior.log_mass(prior.places), np.ones(len(prior.places))
    first, last = (prior.low, prior.high) if within is None else within
    size = last - first + 1
    if size <= _ALL_EXACT:
        k = np.arange(first, last + 1.0)
        return k, prior.log_mass(k), np.ones(size)
    longest = 2 ** int(np.log2(max(min(std, size / 16), 1.0)))
    waiting = {
        length: [(starts, *_terms(prior, starts, length))]
        for length, starts in _cover(first, size, longest).items()
    }
    best = [(-np.inf, first), (-np.inf, first)]
    done = []
    length = longest
    while length >= 1:
        if length in waiting:
            here = tuple(np.concatenate(x) for x in zip(*waiting.pop(length), strict=True))
            here = _relevant(here, length, std, (lowest, highest), best)
            kept, halves = _halved(prior, here, length)
            done.append(kept)
            if len(halves[0]):
                waiting.setdefault(length // 2, []).append(halves)
        length //= 2
    k, log_mass, weight = (np.concatenate(column) for column in zip(*done, strict=True))
    order = np.argsort(k, kind="stable")
    return k[order], log_mass[order], weight[order]


def _cover(low, size, longest):
    """Divide `size` counts, beginning at `low`, into ranges whose lengths are powers of two.

    Return a dict that maps each length to the starts of its ranges.
    """
    whole, rest = divmod(size, longest)
    starts = {longest: low + longest * np.arange(float(whole))}
    end = low + longest * whole
    # Ends: because each pass removes the highest bit of `rest`.
    while rest:
        length = 2 ** int(np.log2(rest))
        starts[length] = np.array([float(end)])
        end, rest = end + length, rest - length
    return starts


def _relevant(stretches, length, std, bounds, best):
    """Return only the ranges of counts whose terms are not negligible.

    `best` contains the largest terms of all ranges so far, and is updated.
    """
    # The larger the estimate, the more the larger counts matter. So a stretch that is negligible
    # at the lowest estimate, and to the left of the largest term there, is negligible at all
    # estimates. The other end is symmetric. Stretches next to a largest term are kept because a
    # narrow peak may lie between nodes.
    starts, k, log_mass = stretches
    keep = np.ones(len(starts), dtype=bool)
    for end, side in enumerate((-1, 1)):
        score = log_mass - 0.5 * ((bounds[end] - k) / std) ** 2
        top = np.argmax(score)
        if score.flat[top] > best[end][0]:
            best[end] = score.flat[top], k.flat[top]
        negligible = score.max(axis=1) < best[end][0] - _NEGLIGIBLE
        away = side * (starts + length / 2 - best[end][1]) > 1.5 * length
        keep &= ~(negligible & away)
    return tuple(column[keep] for column in stretches)


def _halved(prior, stretches, length):
    """Return the nodes of the ranges whose sums are accurate enough, and the halves of all other
    ranges."""
    starts, k, log_mass = stretches
    weight = np.broadcast_to(_rule(length)[1], (len(starts), k.shape[1] - 1))
    if length <= _SHORT or not len(starts):
        kept = k[:, :-1].ravel(), log_mass[:, :-1].ravel(), weight.ravel()
        return kept, (starts[:0],)
    half = length // 2
    middle = starts + half
    halves = np.concatenate([starts, middle])
    fine_k, fine_mass = _terms(prior, halves, half)
    peak = np.maximum(log_mass.max(axis=1), fine_mass.reshape(2, len(starts), -1).max(axis=(0, 2)))
    peak = np.where(np.isfinite(peak), peak, 0.0)
    whole = _first_moments(k, log_mass, length, middle, peak)
    halved = _first_moments(fine_k, fine_mass, half, np.tile(middle, 2), np.tile(peak, 2))
    gap = np.abs(whole - halved.reshape(2, 2, -1).sum(axis=1))
    good = np.all(gap <= _AGREE * np.array([[length], [length**2]]), axis=0)
    # For estimates outside of the stretch, the normal density gives its counts a steep slope.
    from_end = np.minimum(starts - prior.low, prior.high - (starts + length))
    good &= from_end >= 2 * length
    kept = k[good, :-1].ravel(), log_mass[good, :-1].ravel(), weight[good].ravel()
    bad = np.tile(~good, 2)
    return kept, (halves[bad], fine_k[bad], fine_mass[bad])


def _first_moments(k, log_mass, length, middle, peak):
    mass = np.exp(log_mass[:, :-1] - peak[:, None])
    weight = _rule(length)[1]
    return np.array([mass @ weight, (mass * (k[:, :-1] - middle[:, None])) @ weight])


def _window(k, log_mass, std, lowest, highest):
    """Return the first index and the end of the nodes whose terms are not negligible."""
    # The larger the estimate, the more the larger counts matter. So the lowest estimate determines
    # the first count that matters, and the highest estimate determines the last.
    scores = log_mass - 0.5 * ((np.array([[lowest], [highest]]) - k) / std) ** 2
    at_lowest, at_highest = scores >= scores.max(axis=1, keepdims=True) - _NEGLIGIBLE
    return int(np.argmax(at_lowest)), int(len(k) - np.argmax(at_highest[::-1]))


def prior_moments(prior):
    """Return the mean, the variance and the logarithm of the total mass of a prior.

    The masses of a prior are not normalized, so the total mass need not be 1.
    """
    k, log_mass, weight = count_nodes(prior)
    peak = log_mass.max()
    mass = weight * np.exp(log_mass - peak)
    total = mass.sum()
    mean = mass @ k / total
    return mean, mass @ (k - mean) ** 2 / total, peak + np.log(total)


# -- the posterior ----------------------------------------------------------------------------
class Posterior:
    """Computes posterior means of true counts, given a prior and estimates with normal noise."""

    # prior: the prior.
    # std: standard deviation of the noise, in counts.
    # lowest, highest: bounds on the estimates.

    def __init__(self, prior, std, lowest, highest):
        self.prior = prior
        self.std = std
        self.lowest, self.highest = lowest, highest
        n_stretches = (prior.high - prior.low) / std
        self._is_local = prior.steepness is not None and n_stretches > _MANY_STRETCHES
        if not self._is_local:
            self._nodes = count_nodes(prior, std, lowest, highest)

    def moments(self, counts):
        """Return the posterior mean, the posterior variance and the log marginal density of each
        estimate.

        Shapes: counts (m,) -> (m,).
        counts: estimated counts in increasing order.
        """
        # The density has the same unknown constant factor as the prior.
        results = []
        start = 0
        while start < len(counts):
            # Counts that are close together share their nodes.
            near = np.searchsorted(counts, counts[start] + 4 * self.std)
            stop = max(start + 1, min(start + 64, int(near)))
            results.append(self._block(counts[start:stop]))
            start = stop
        return tuple(np.concatenate(column) for column in zip(*results, strict=True))

    def _nodes_near(self, lowest, highest):
        """Return the interpolation nodes that are necessary for estimates between two bounds.

        The log mass of the prior must be decreasing.
        """
        # The term of the count c nearest to an estimate is the reference. A count k above c has
        # at most the factor exp(-(k - c)**2 / (2 std**2)), and a count below c at most
        # (c / k)**steepness times that factor. So counts further away are negligible.
        low, high = self.prior.low, self.prior.high
        below = self.std * np.sqrt(2 * (_NEGLIGIBLE + self.prior.steepness * np.log(high)))
        above = self.std * np.sqrt(2 * _NEGLIGIBLE)
        first = np.floor(min(lowest, high) - below)
        last = np.ceil(max(highest, low) + above)
        within = max(low, int(first)), min(high, int(last))
        if within[0] == low:  # the peak of the smallest counts is narrow, so they may matter too
            lowest = min(lowest, low)
        return count_nodes(self.prior, self.std, lowest, highest, within)

    def _block(self, counts):
        near = self._nodes_near(counts[0], counts[-1]) if self._is_local else self._nodes
        k, log_mass, weight = near
        # Every tenth node is enough to find the ends; one more stretch on either side is safe.
        step = _N_NODES if len(k) > 4000 else 1
        coarse = slice(None, None, step)
        first, last = _window(k[coarse], log_mass[coarse], self.std, counts[0], counts[-1])
        nodes = slice(max(first - 1, 0) * step, (last + 1) * step)
        k = k[nodes]
        z = (counts[:, None] - k) / self.std
        log_terms = log_mass[nodes] - 0.5 * z * z
        peak = log_terms.max(axis=1, keepdims=True)
        terms = np.exp(log_terms - peak) * weight[nodes]
        total = terms.sum(axis=1)
        centre = k[0]  # sums of differences keep the digits of large counts
        mean = terms @ (k - centre) / total
        variance = terms @ (k - centre) ** 2 / total - mean**2
        log_density = np.log(total) + peak[:, 0] - np.log(self.std * np.sqrt(2 * np.pi))
        return mean + centre, np.maximum(variance, 0.0), log_density

    def mean(self, counts, *, from_table=False):
        """Return the posterior mean for each estimated count. If there are many, the means are
        interpolated.

        Shapes: counts (d,) -> (d,).
        counts: estimated counts, in any order.
        from_table: whether to use the interpolation that `table` has stored.
        """
        # The mean is a smooth increasing function of the estimate. Its slope is the posterior
        # variance divided by the variance of the noise.
        order = np.argsort(counts, kind="stable")
        rising = counts[order]
        if from_table and not (self._is_local and len(counts) <= _FEW):
            smooth = self.table(rising)
        else:
            cells = Cells(rising, _CELL * self.std)
            if self._is_local and len(cells.left) > _FEW:
                smooth = self.table(rising)
            elif 4 * len(cells.left) > len(counts):
                distinct, inverse = np.unique(rising, return_inverse=True)
                smooth = self.moments(distinct)[0][inverse]
            else:
                smooth = self._interpolant(cells.left, cells.right)(rising)
        ends = (self.prior.low, self.prior.high) if self._is_local else self._nodes[0][[0, -1]]
        smooth = np.clip(smooth, *ends)
        result = np.empty_like(smooth)
        result[order] = np.maximum.accumulate(smooth)  # rounding may have broken the order
        return result

    @cached_property
    def table(self):
        """A function that returns interpolated posterior means, given estimated counts in
        increasing order."""
        near = np.arange(-10.0, 14.0, _CELL) * self.std
        far = [
            sign * np.geomspace(start * self.std, end, int(50 * np.log(end / start / self.std)) + 2)
            for sign, start, end in ((-1, 10.0, -self.lowest), (1, 14.0, self.highest))
            if end > start * self.std
        ]
        inner = np.concatenate([near, *far])
        inside = inner[(self.lowest < inner) & (inner < self.highest)]
        edges = np.unique(np.concatenate([[self.lowest], inside, [self.highest]]))
        return self._interpolant(edges[:-1], edges[1:])

    def _interpolant(self, starts, stops):
        """Return a piecewise cubic function that interpolates the posterior means.

        The pieces are first the intervals from `starts` to `stops`. They are halved until it is
        precise.
        """
        ends, at = np.unique(np.concatenate([starts, stops]), return_inverse=True)
        mean, variance, _ = self.moments(ends)
        values = mean[at]
        slopes = variance[at] / self.std**2
        m = len(starts)
        left = [starts, values[:m], slopes[:m]]
        right = [stops, values[m:], slopes[m:]]
        done = []
        for _ in range(12):
            half = (left[0] + right[0]) / 2
            mean, variance, _ = self.moments(half)
            width = right[0] - left[0]
            guess = (left[1] + right[1]) / 2 + width * (left[2] - right[2]) / 8
            # Halving a cell makes it 16 times as precise.
            rough = np.abs(guess - mean) > _PRECISE * self.std
            middle = [half, mean, variance / self.std**2]
            for a, b in ((left, middle), (middle, right)):
                done.append([column[~rough] for column in (*a, *b)])
            left, right = (
                [np.concatenate([x[rough], y[rough]]) for x, y in zip(a, b, strict=True)]
                for a, b in ((left, middle), (middle, right))
            )
            order = np.argsort(left[0])
            left, right = [x[order] for x in left], [x[order] for x in right]
            if not len(order):
                break
        done.append([*left, *right])
        pieces = [np.concatenate(column) for column in zip(*done, strict=True)]
        order = np.argsort(pieces[0])
        x0, v0, s0, x1, v1, s1 = (column[order] for column in pieces)
        width = x1 - x0

        def smooth(rising):
            """Return interpolated posterior means for estimated counts in increasing order."""
            cell = np.clip(np.searchsorted(x0, rising, side="right") - 1, 0, len(x0) - 1)
            basis = _hermite((rising - x0[cell]) / width[cell], width[cell])
            return sum(h * column[cell] for h, column in zip(basis, (v0, s0, v1, s1), strict=True))

        return smooth


def _hermite(t, width):
    """Return the weights of cubic Hermite interpolation at the relative positions t (0 to 1) of a
    cell.

    They are for the value and the slope at the left end of the cell, then for the right end.
    """
    s = 1 - t
    return (1 + 2 * t) * s * s, t * s * s * width, (3 - 2 * t) * t * t, -s * t * t * width


class Cells:
    """The cells of a regular grid that contain at least one of the given counts."""

    def __init__(self, counts, width):
        index = np.floor(counts / width)
        numbers, self.cell = np.unique(index, return_inverse=True)
        self.left, self.right = numbers * width, (numbers + 1) * width
        self.position = counts / width - index
        self.width = width

    def weights(self, row, n_rows):
        """Return points and weights that add up a smooth function over the counts of each row.

        The points `ends` are the ends of the cells of a grid that covers the counts. The sums, one
        for each row, are approximately ``of_values @ function(ends) + of_slopes @
        derivative(ends)``.
        row: for each count, the index of its row, of shape (n_counts,).
        Shapes: -> ends (n_ends,), of_values and of_slopes (n_rows, n_ends).
        """
        m = len(self.left)
        ends, at = np.unique(np.concatenate([self.left, self.right]), return_inverse=True)
        v0, s0, v1, s1 = _hermite(self.position, self.width)
        places = np.tile(row, 2), np.concatenate([at[self.cell], at[m + self.cell]])
        shape = n_rows, len(ends)
        value_matrix = csr_array((np.concatenate([v0, v1]), places), shape)
        return ends, value_matrix, csr_array((np.concatenate([s0, s1]), places), shape)
