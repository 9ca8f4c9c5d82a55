"""An average of models of frequencies over the cells of a grid, weighted by marginal likelihoods.

In some models the frequencies form a smooth density. In others, some cells, called spikes, differ
from a smooth density or from equal frequencies. The evidence of a model is its marginal likelihood.
"""

from __future__ import annotations

from copy import copy
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.fft import dct
from scipy.linalg import cho_solve, cholesky
from scipy.ndimage import median_filter
from scipy.special import logsumexp, softmax

from .._core.common.parallel import one_thread
from .._core.noise import Noise
from .._core.numerics.nested_waves import nested_waves
from .._core.numerics.simplex import norm_sub

# Chosen on 2026-11-28 on populations that `python -m benchmarks.accuracy.places --tune` prints.
_PENALTIES = 8.0 ** np.arange(3, -3, -1)
# The prior of the two margins: a factor of the variances of their waves, and the variance of random
# differences of the logarithms of their bins. With the second pair, both numbers are almost
# independent, and margins may be rough.
_MARGINS = ((1.0, 0.0), (30.0, 0.25))
_SPIKES = [(0.01, 4.0), (0.1, 4.0), (0.1, 2.0), (1.0, 4.0), (1.0, 2.0), (1.0, 1.0), (1.0, 0.5)]
_ROUNDS = 2
_LEAST_MASS = 0.01  # share of users beside spikes
_CLEAR = 4.0  # standard deviations of a spike above its neighbors
_HOPELESS = 20.0  # difference of log-evidence, after which no smaller penalty is tried
_TOLERANCE = 0.5  # standard deviations of squares that count as noise
_SMOOTH_PRIOR = 0.5  # prior probability that no cell differs at random
_CORRECTIONS = 2  # by residuals; the second one follows a projection
_NUDGE = 0.3  # standard deviations of the errors, to measure how far the average follows the data
# The others bound the work.
_MOST_WAVES = 400
_MOST_OF_MARGIN = 64  # waves of each margin
_MOST_STEPS = 30
_MOST_PRODUCTS = 200
_CLOSE = 1e-2  # of the square of the first residual
_TOL = 1e-2  # of the log-posterior
_PROJECTIONS = 40
_HALVINGS = 9  # of the scale of the cells, on a logarithmic axis
_LEAST_VARIANCE = 1e-18  # where epsilon is so large that there is no noise
_TINY = np.finfo(float).tiny
_NODES = np.linspace(-4.0, 4.0, 25)  # of the quadrature, in standard deviations


class GridFit(NamedTuple):
    """The result of `smooth_grid`.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        The averaged frequencies. They are not negative and sum to 1.
    penalty : float
        The smoothness penalty of the smooth model with the largest marginal likelihood. It is
        infinite for equal frequencies.
    smooth_weight : float
        Posterior probability that no cell differs at random from a smooth density.
    """

    frequencies: np.ndarray
    penalty: float
    smooth_weight: float


@one_thread
def smooth_grid(values: np.ndarray, noise: Noise, shape: tuple[int, ...]) -> GridFit:
    """Average models of frequencies on a grid, weighted by their marginal likelihoods.

    :class:`~sklearn_ldp.SmoothMLE` describes the models. The likelihood is computed from a raw
    estimate with normal errors.

    Parameters
    ----------
    values : ndarray of shape (d,)
        The raw estimate of the cells, in C order.
    noise : Noise
        The noise of the raw estimate.
    shape : tuple of int
        Number of cells along each of the two axes.

    Returns
    -------
    GridFit
        The average, and the weight of the smooth models.
    """
    precision = _Precision(noise, shape)
    variances = np.maximum(noise.variance(norm_sub(values)), _LEAST_VARIANCE).reshape(shape)
    cells = values.reshape(shape)
    average, penalty, smooth_weight = _averaged(cells, precision, variances)
    nudge, direction = precision.nudge()
    moved = _averaged(cells + nudge, precision, variances)[0]
    followed = direction * precision.whitened(moved - average) / _NUDGE
    for _ in range(_CORRECTIONS):
        average = precision.nearest(average + precision.unexplained(cells - average, followed))
    return GridFit(average.ravel(), penalty, smooth_weight)


def _averaged(
    cells: np.ndarray, precision: _Precision, variances: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Return the average of all models, the smooth model's penalty and weight."""
    shape = cells.shape
    even = np.full(shape, 1 / cells.size)
    smooth = _average(_Data(cells, precision))
    models: list[Any] = [smooth]
    # A spike is far above its neighbors. The density beside spikes may be smoother.
    for middles, is_flat in ((even, True), (median_filter(cells, 5, mode="nearest"), False)):
        for _ in range(_ROUNDS):
            is_spike = cells > middles + _CLEAR * np.sqrt(variances)
            spikes = np.where(is_spike, cells - middles, 0.0)
            mass = max(float(np.sum(cells - spikes)), _LEAST_MASS)
            beside = _Data((cells - spikes) / mass, precision.of_share(mass))
            center = _Smooth(even, beside.fit(even), np.inf) if is_flat else _average(beside)
            center = center._replace(frequencies=mass * center.frequencies)
            spiky = _with_spikes(cells, variances, center, spikes)
            models.append(_with_coarse_reports(spiky, cells, precision))
            middles = models[-1].centers
    priors = np.full(len(models), (1 - _SMOOTH_PRIOR) / (len(models) - 1))
    priors[0] = _SMOOTH_PRIOR
    weights = softmax(np.log(priors) + [model.evidence for model in models])
    average = np.tensordot(weights, [model.frequencies for model in models], 1)
    return average, smooth.penalty, float(weights[0])


class _Smooth(NamedTuple):
    """An average of smooth densities on a grid, and its log marginal likelihood (evidence)."""

    frequencies: np.ndarray
    evidence: float
    penalty: float


class _Spiky(NamedTuple):
    """An average of densities on a grid in which single cells differ from a smooth center.

    `evidence` is the log marginal likelihood, and `centers` are the averaged centers.
    """

    frequencies: np.ndarray
    evidence: float
    centers: np.ndarray
    variances: np.ndarray  # of the posterior of each cell


def _average(data: _Data) -> _Smooth:
    """Fit smooth models with several penalties, and average them by their marginal likelihoods."""
    shape = data.shape
    even = np.full(shape, 1 / data.size)
    flat = _Mode(np.inf, even, data.fit(even), np.zeros(shape), data.information(even))
    models = [flat]
    for margins in _MARGINS:
        model = flat
        for penalty in _PENALTIES:
            model = data.model(penalty, margins, model)
            models.append(model)
            if model.evidence < max(one.evidence for one in models) - _HOPELESS:
                break
    evidences = [model.evidence for model in models]
    best = models[int(np.argmax(evidences))]
    frequencies = np.tensordot(softmax(evidences), [model.frequencies for model in models], 1)
    evidence = float(logsumexp(evidences)) - np.log(len(models))
    return _Smooth(frequencies, evidence, best.penalty)


def _with_spikes(
    cells: np.ndarray, variances: np.ndarray, center: _Smooth, spikes: np.ndarray
) -> _Spiky:
    """Average models in which a proportion of the cells differ from a center at random.

    center: a smooth density on the cells without spikes. spikes: the estimated excess of the spikes
    over their neighbors, 0 for all other cells.
    """
    settings = [_spiky(cells, variances, center.frequencies, *setting) for setting in _SPIKES]
    found, gains, centers, squares = zip(*settings, strict=True)
    chosen = softmax(gains)
    # The evidence of the center is about the cells without the spikes.
    beside = 0.5 * float(np.sum((cells - spikes - center.frequencies) ** 2 / variances))
    evidence = center.evidence + beside + float(logsumexp(gains)) - np.log(len(gains))
    average, middles, spread = (np.tensordot(chosen, each, 1) for each in (found, centers, squares))
    return _Spiky(average, evidence, middles, spread)


def _with_coarse_reports(spiky: _Spiky, cells: np.ndarray, precision: _Precision) -> _Spiky:
    """Update posterior means of cells by the reports on sums of several cells.

    spiky: the posterior means, which were computed as if the errors of all cells were independent.
    The sums of neighboring cells have smaller errors than that.
    """
    # Let U be the variances, C the precision beyond the one of the finest waves, and r the
    # residuals. The update is U^(1/2) (I + U^(1/2) C U^(1/2))^-1 U^(1/2) C r.
    coarse = precision.of_share(1.0)
    weights = coarse.weights
    coarse.weights = np.maximum(weights - weights[-1, -1], 0.0)
    root = np.sqrt(spiky.variances)
    right = root * coarse.times(cells - spiky.frequencies)
    update = _solved(lambda x: x + root * coarse.times(root * x), right)
    updated = spiky.frequencies + root * update
    missing = (1 - updated.sum()) / max(float(spiky.variances.sum()), _TINY)
    frequencies = norm_sub((updated + spiky.variances * missing).ravel()).reshape(cells.shape)
    return spiky._replace(frequencies=frequencies)


def _solved(times: Any, right: np.ndarray, approximate: Any = None) -> np.ndarray:
    """Solve a positive definite system by conjugate gradients.

    times: the product with the matrix. approximate: an approximate solution (a preconditioner).
    """
    solved = approximate or (lambda rest: rest)
    step, rest = np.zeros_like(right), right.copy()
    close = solved(rest)
    move, square = close.copy(), float(np.sum(rest * close))
    least = _CLOSE * square
    for _ in range(_MOST_PRODUCTS):
        if square <= least:
            break
        curved = times(move)
        length = square / float(np.sum(move * curved))
        step += length * move
        rest -= length * curved
        close = solved(rest)
        before, square = square, float(np.sum(rest * close))
        move = close + square / before * move
    return step


def _spiky(
    cells: np.ndarray, variances: np.ndarray, center: np.ndarray, share: float, size: float
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Return the posterior of all cells if a proportion of them differs from a center at random.

    share: this proportion. size: standard deviation of the differences of logarithms.
    Returns: the posterior means, which sum to 1; the log marginal likelihood; the centers,
    multiplied by a factor such that the means sum to about 1; and the posterior variances.
    """
    low, high = -8.0, 2.0  # logarithms of a factor of all centers
    for _ in range(_HALVINGS):
        factor = np.exp((low + high) / 2)
        logs, means, squares = _cell_posteriors(cells, variances, factor * center, share, size)
        if means.sum() > 1:
            high = np.log(factor)
        else:
            low = np.log(factor)
    gain = float(np.sum(logs))
    # The difference to the sum 1 is divided among the cells in proportion to their variances.
    means = means + squares * (1 - means.sum()) / max(float(squares.sum()), _TINY)
    means = norm_sub(means.ravel()).reshape(means.shape)
    return means, gain, factor * center, squares


def _cell_posteriors(
    cells: np.ndarray, variances: np.ndarray, centers: np.ndarray, share: float, size: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three arrays: log marginal likelihood, posterior mean and variance of each cell.

    A cell equals its center with probability 1 - share. Otherwise the logarithm of the cell differs
    from the logarithm of its center by a normal number with the standard deviation `size`.
    """
    weights = np.exp(-0.5 * _NODES**2)
    prior = np.log(np.append(share * weights / weights.sum(), max(1 - share, _TINY)))
    nodes = centers[..., None] * np.exp(size * np.append(_NODES, 0.0))
    chances = prior - 0.5 * (cells[..., None] - nodes) ** 2 / variances[..., None]
    top = chances.max(axis=-1)
    likely = np.exp(chances - top[..., None])
    sums = likely.sum(axis=-1)
    means = (likely * nodes).sum(axis=-1) / sums
    squares = np.maximum((likely * nodes**2).sum(axis=-1) / sums - means**2, 0.0)
    logs = np.log(sums) + top
    # Nodes are too far apart for a cell whose logarithm is known well: its prior hardly changes.
    known = cells * size * (_NODES[1] - _NODES[0]) > 2 * np.sqrt(variances)
    known &= cells > 4 * np.sqrt(variances)
    if known.any():
        y, variance = cells[known], variances[known]
        far = np.log(y / centers[known]) / size
        density = np.log(share) - 0.5 * far**2 - np.log(size * y) + 0.5 * np.log(variance)
        is_spike = density > logs[known]
        places = np.flatnonzero(known.ravel())[is_spike]
        logs.flat[places] = density[is_spike]
        means.flat[places] = y[is_spike]
        squares.flat[places] = variance[is_spike]
    return logs, means, squares


class _Mode(NamedTuple):
    """The posterior mode of a smooth model, and its log marginal likelihood (evidence)."""

    penalty: float
    frequencies: np.ndarray
    evidence: float
    coefficients: np.ndarray
    information: np.ndarray  # Fisher's, of the coefficients that are kept


class _Precision:
    """The inverse covariance matrix of a raw estimate on a grid.

    It is approximated by a matrix that is diagonal in the products of two orthonormal bases, one
    basis for each axis. `weights` is the diagonal, of shape (n_x, n_y).
    """

    def __init__(self, noise: Noise, shape: tuple[int, ...]) -> None:
        (self.left, x_widths), (self.right, y_widths) = map(nested_waves, shape)
        levels = [np.unique(-widths, return_inverse=True)[1] for widths in (x_widths, y_widths)]
        self._bands = np.maximum(np.maximum(levels[0][:, None], levels[1]), 2)
        # The waves of the two margins have bands of their own, with negative numbers.
        self._bands[1:, 0] *= -2
        self._bands[0, 1:] = -2 * self._bands[0, 1:] - 1
        self._bands[0, 0] = self._bands.max()  # the sum of all frequencies needs no correction
        even = np.full(shape[0] * shape[1], 1 / (shape[0] * shape[1]))
        self.weights = np.zeros(shape)
        places, waves = [], []
        for i, j in product(*(range(one.max() + 1) for one in levels)):
            if i == j == 0:
                continue  # the sum of all frequencies is known
            rows, columns = np.flatnonzero(levels[0] == i), np.flatnonzero(levels[1] == j)
            # All waves of a resolution have equal variances, or nearly so.
            wave = np.outer(self.left[rows[len(rows) // 2]], self.right[columns[len(columns) // 2]])
            places.append(np.ix_(rows, columns))
            waves.append(wave.ravel())
        # One call for all waves computes the probabilities of the reports only once.
        variances = np.maximum(noise.answer_variance(np.array(waves), even), _LEAST_VARIANCE)
        for place, variance in zip(places, variances, strict=True):
            self.weights[place] = 1 / variance

    def times(self, cells: np.ndarray) -> np.ndarray:
        """Return the product of the inverse covariance matrix and cells.

        Shapes: cells (.., n_x, n_y) -> (.., n_x, n_y).
        """
        return self._cells(self.weights * self._waves(cells))

    def of_share(self, share: float) -> _Precision:
        """Return the inverse covariance matrix of frequencies among a part of the users.

        share: the proportion of the users in this part.
        """
        scaled = copy(self)
        scaled.weights = share**2 * self.weights
        return scaled

    def nudge(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a small fixed change of cells, and its signs in the waves."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], self.weights.shape)
        signs[0, 0] = 0.0  # the sum of all frequencies is known
        return self._cells(_NUDGE * signs / np.sqrt(np.maximum(self.weights, _TINY))), signs

    def unexplained(self, rest: np.ndarray, followed: np.ndarray) -> np.ndarray:
        """Return the part of residuals that is no noise, by shrinkage of bands of resolution.

        rest: the residuals of an average. followed: the change of the average in each wave, if
        the raw estimate changes by 1. Shapes: (n_x, n_y) -> the same.
        """
        # This is Stein's unbiased estimate of the risk of a mixture with the raw estimate, for
        # each band: the best share of the raw estimate is 1 - (size - sum of `followed`) / squares.
        # So an average that follows the data closely, and still has residuals, is wrong.
        # The finest waves are left out, because their noise would make cells negative. The finest
        # waves of the margins are not, because margins may have spikes.
        waves = self._waves(rest)
        squares = self.weights * waves**2
        kept = np.zeros_like(waves)
        for band in np.unique(self._bands[self._bands < self._bands.max()]):
            is_here = self._bands == band
            size = np.count_nonzero(is_here)
            free = size - np.clip(followed[is_here].sum(), 0, size)
            noise = max(free + _TOLERANCE * (2 * free) ** 0.5, _TINY)
            kept[is_here] = max(0.0, 1 - noise / max(float(squares[is_here].sum()), noise))
        return self._cells(kept * waves)

    def nearest(self, cells: np.ndarray) -> np.ndarray:
        """Return the frequencies that are closest to given numbers, in units of the errors.

        Coarse sums have small errors, so they hardly change. Norm-Sub would change them much more.
        Shapes: cells (n_x, n_y) -> the same.
        """
        # This is the accelerated projected gradient of Beck and Teboulle (FISTA), which restarts
        # if the last step and the gradient disagree.
        scaled = self.of_share(float(max(self.weights.max(), _TINY)) ** -0.5)
        nearest = norm_sub(cells.ravel()).reshape(cells.shape)
        ahead, momentum = nearest, 1.0
        for _ in range(_PROJECTIONS):
            moved = ahead + scaled.times(cells - ahead)
            before, nearest = nearest, norm_sub(moved.ravel()).reshape(cells.shape)
            if np.sum((ahead - nearest) * (nearest - before)) > 0:
                momentum = 1.0
            following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            ahead = nearest + (momentum - 1) / following * (nearest - before)
            momentum = following
        return nearest

    def whitened(self, cells: np.ndarray) -> np.ndarray:
        """Return cells multiplied by a square root of the inverse covariance matrix P.

        The result contains the coefficients of the waves in units of their errors. For each array x
        of cells, the squares of the result sum to x' P x.
        Shapes: cells (.., n_x, n_y) -> (.., n_x, n_y).
        """
        return np.sqrt(self.weights) * self._waves(cells)

    def _waves(self, cells: np.ndarray) -> np.ndarray:
        """Return the coefficients of the waves of cells, of the same shape (.., n_x, n_y)."""
        # One product of two matrices is faster than a product for each array of cells.
        turned = (cells.reshape(-1, cells.shape[-1]) @ self.right.T).reshape(cells.shape)
        return np.matmul(self.left, turned)

    def _cells(self, waves: np.ndarray) -> np.ndarray:
        """Return the cells with given coefficients of waves, of the same shape (.., n_x, n_y)."""
        return self.left.T @ waves @ self.right


class _Data:
    """A raw estimate with normal errors, and methods that fit smooth models to it.

    The coefficients of a model are the cosine transform of the logarithms of the frequencies. The
    components of the transform are called waves.
    """

    def __init__(self, values: np.ndarray, precision: _Precision) -> None:
        self._values, self._precision = values, precision
        self.shape, self.size = values.shape, values.size
        self._left, self._right = (dct(np.eye(n), axis=0, norm="ortho") for n in values.shape)
        first, second = (2 - 2 * np.cos(np.pi * np.arange(n) / n) for n in values.shape)
        self._roughness = first[:, None] + second
        largest = np.sort(self._roughness, axis=None)[: _MOST_WAVES + 1][-1]
        is_kept = self._roughness <= largest
        is_kept[0, :_MOST_OF_MARGIN] = True
        is_kept[:_MOST_OF_MARGIN, 0] = True
        is_kept[0, 0] = False  # the constant changes nothing
        self._kept = np.flatnonzero(is_kept)

    def fit(self, frequencies: np.ndarray) -> float:
        """Return the log-likelihood of frequencies, up to a constant."""
        off = self._values - frequencies
        return -0.5 * float(np.sum(off * self._precision.times(off)))

    def _cells(self, waves: np.ndarray) -> np.ndarray:
        return self._left.T @ waves @ self._right

    def _scales(self, penalty: float, margins: tuple[float, float]) -> np.ndarray:
        """Return the prior standard deviations of the coefficients, of the shape of the grid.

        penalty: the larger it is, the smoother are the logarithms of the frequencies. margins: a
        factor of the variances of waves along only one axis, and the variance of the differences
        of the logarithms of single bins of a margin.
        """
        factor, roughness = margins
        variances: np.ndarray = np.zeros(self.size)
        variances[self._kept] = 1 / (penalty * self._roughness.ravel()[self._kept] ** 2)
        variances = variances.reshape(self.shape)
        n_x, n_y = self.shape
        variances[1:, 0] = factor * variances[1:, 0] + roughness * n_y
        variances[0, 1:] = factor * variances[0, 1:] + roughness * n_x
        return np.sqrt(variances)

    def model(self, penalty: float, margins: tuple[float, float], start: _Mode) -> _Mode:
        """Return the posterior mode of a model. The search starts at the mode of another model."""
        scales = self._scales(penalty, margins)
        z = np.divide(start.coefficients, scales, out=np.zeros(self.shape), where=scales > 0)
        z, top, f = self._mode(z, scales, self._root(start.information, scales))
        information = self.information(f)
        evidence = top - float(np.log(np.diag(self._root(information, scales))).sum())
        return _Mode(penalty, f, evidence, z * scales, information)

    def _root(self, information: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """The Cholesky factor of the curvature of the log-posterior."""
        kept = scales.ravel()[self._kept]
        curvature = kept[:, None] * information * kept
        curvature.flat[:: len(kept) + 1] += 1
        return cholesky(curvature, lower=True)

    def _mode(self, z: np.ndarray, scales: np.ndarray, root: np.ndarray) -> Any:
        """The mode, its log-posterior and its frequencies, by Fisher's scoring.

        root: a Cholesky factor of the curvature at a nearby point.
        """
        top, f, gradient = self._ascent(z, scales)
        for _ in range(_MOST_STEPS):
            step, rise = self._step(gradient, f, scales, root)
            if rise <= _TOL:
                break
            length = 1.0
            # Ends: the length is halved down to 1e-6.
            while True:
                value, f, gradient = self._ascent(z + length * step, scales)
                if value >= top + length * rise / 10 or length < 1e-6:
                    break
                length /= 2
            z, top = z + length * step, value
        return z, top, f

    def _ascent(self, z: np.ndarray, scales: np.ndarray) -> Any:
        """Return the log-posterior of z, the frequencies, and the gradient of the log-posterior."""
        f = softmax(self._cells(z * scales))
        pull = self._precision.times(self._values - f)
        off = float(np.sum((self._values - f) * pull))
        slope = f * (pull - np.sum(f * pull))
        gradient = scales * (self._left @ slope @ self._right.T) - z
        return -0.5 * off - 0.5 * float(np.sum(z * z)), f, gradient

    def _step(
        self, gradient: np.ndarray, f: np.ndarray, scales: np.ndarray, root: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """The step of Fisher's scoring by conjugate gradients, and the rise that it promises."""

        def times(move: np.ndarray) -> np.ndarray:
            change = f * self._cells(scales * move)
            change -= f * change.sum()
            pull = f * self._precision.times(change)
            pull -= f * pull.sum()
            return move + scales * (self._left @ pull @ self._right.T)

        def approximate(rest: np.ndarray) -> np.ndarray:
            solved = rest.copy()  # waves that are not kept have the curvature 1
            solved.flat[self._kept] = cho_solve(
                (root, True), rest.ravel()[self._kept], check_finite=False
            )
            return solved

        step = _solved(times, gradient, approximate)
        return step, float(np.sum(step * gradient))

    def information(self, f: np.ndarray) -> np.ndarray:
        """Return Fisher's information of the coefficients, of shape (n_waves, n_waves)."""
        rows, columns = np.unravel_index(self._kept, self.shape)
        waves = self._left[rows, :, None] * self._right[columns, None, :]
        waves *= f
        waves -= waves.sum(axis=(1, 2), keepdims=True) * f
        changes = self._precision.whitened(waves).reshape(len(rows), -1)
        return changes @ changes.T
