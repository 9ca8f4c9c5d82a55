"""Posterior modes of smooth and rough densities on a grid, averaged by evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.fft import dct
from scipy.linalg import cholesky, eigh_tridiagonal
from scipy.special import softmax

from .._core.noise import Noise
from .._core.numerics.simplex import norm_sub

# Chosen on 2026-11-28 (python -m benchmarks.accuracy.places --tune); the others bound the work.
_PENALTIES = 4.0 ** np.arange(5, -4, -1)
_ORDERS = (1, 2)
_ROUGH = (0.5, 1.0, 2.0, 4.0)
_HOPELESS = 20.0  # difference of log-evidence, after which no smaller penalty is tried
_MOST_STEPS = 30
_MOST_PRODUCTS = 200
_TOL = 1e-2  # of the log-posterior
_MOST_DENSE = 1024  # cells up to which determinants are exact
_PROBES, _LANCZOS_STEPS = 16, 40


class GridFit(NamedTuple):
    """The result of `smooth_grid`.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        The average, on the simplex.
    penalty : float
        The penalty of the smooth model with the greatest evidence; infinite for equal frequencies.
    smooth_weight : float
        Posterior probability of the models without effects of single cells.
    """

    frequencies: np.ndarray
    penalty: float
    smooth_weight: float


def smooth_grid(values: np.ndarray, noise: Noise, shape: tuple[int, int]) -> GridFit:
    """Average smooth and rough densities on a grid by their evidence, given a raw estimate.

    See :class:`~sklearn_ldp.SmoothMLE` for the models.

    Parameters
    ----------
    values : ndarray of shape (d,)
        The raw estimate of the cells, in C order.
    noise : Noise
        Its noise.
    shape : tuple of int
        Number of cells along both axes.

    Returns
    -------
    GridFit
        The average.
    """
    data = _Data(values.reshape(shape), _Precision(noise, shape))
    even = np.full(shape, 1 / values.size)
    models = [_Model(np.inf, 0.0, even, data.fit(even), np.zeros(shape))]
    for order in _ORDERS:
        start = np.zeros(shape)
        for penalty in _PENALTIES:
            model = data.model(penalty, order, 0.0, start)
            models.append(model)
            start = model.coefficients
            if model.evidence < max(one.evidence for one in models) - _HOPELESS:
                break
    best = max(models, key=lambda model: model.evidence)
    of_smooth = len(models)
    penalties = dict.fromkeys([best.penalty, np.inf])
    for penalty in penalties:
        start = best.coefficients if np.isfinite(penalty) else np.zeros(shape)
        for size in _ROUGH:
            model = data.model(penalty, best.order or 1, size, start)
            models.append(model)
            start = model.coefficients
    weights = softmax([model.evidence for model in models])
    frequencies = np.tensordot(weights, [model.frequencies for model in models], 1)
    return GridFit(frequencies.ravel(), best.penalty, float(weights[:of_smooth].sum()))


class _Model(NamedTuple):
    """The mode of one model, and the logarithm of its evidence."""

    penalty: float
    order: int
    frequencies: np.ndarray
    evidence: float
    coefficients: np.ndarray


class _Precision:
    """The inverse covariance of a raw estimate on a grid, diagonal in two orthonormal bases."""

    def __init__(self, noise: Noise, shape: tuple[int, int]) -> None:
        self._bases = [_nested_basis(n) for n in shape]
        bases, levels = zip(*self._bases, strict=True)
        self.left, self.right = bases
        even = np.full(shape[0] * shape[1], 1 / (shape[0] * shape[1]))
        self.weights = np.zeros(shape)
        for i, j in product(*(range(one.max() + 1) for one in levels)):
            if i == j == 0:
                continue  # the sum of all frequencies is known
            rows, columns = np.flatnonzero(levels[0] == i), np.flatnonzero(levels[1] == j)
            some = product(rows[:: -(-len(rows) // 2)], columns[:: -(-len(columns) // 2)])
            probes = np.array([np.outer(self.left[a], self.right[b]).ravel() for a, b in some])
            variance = float(np.mean(noise.answer_variance(probes, even)))
            self.weights[np.ix_(rows, columns)] = 1 / max(variance, np.finfo(float).tiny)

    def times(self, cells: np.ndarray) -> np.ndarray:
        """Return the product with cells.

        Shapes: cells (.., n_x, n_y) -> the same.
        """
        inner = self.weights * (self.left @ cells @ self.right.T)
        return self.left.T @ inner @ self.right


def _nested_basis(n: int) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis in which sums over blocks of 2, 4, 8, .. neighbors are separate.

    Shapes: -> (n, n), (n,).
    Returns: the basis, one function a row, and the level of each: 0 for the mean of all.
    """
    widths = [1]
    while n % (2 * widths[-1]) == 0 and 2 * widths[-1] < n:
        widths.append(2 * widths[-1])
    rows, levels = [np.full((1, n), n**-0.5)], [0]
    for level, (width, within) in enumerate(zip([n, *widths[:0:-1]], widths[::-1], strict=True), 1):
        n_blocks, n_parts = n // width, width // within
        waves = dct(np.eye(n_parts), axis=0, norm="ortho")[1:] * within**-0.5
        of_block = np.repeat(waves, within, axis=1)
        rows.append(np.kron(np.eye(n_blocks), of_block))
        levels += [level] * len(rows[-1])
    return np.vstack(rows), np.array(levels)


class _Data:
    """A raw estimate with normal errors, as a likelihood of the logarithms of frequencies."""

    def __init__(self, values: np.ndarray, precision: _Precision) -> None:
        self._values, self._precision = values, precision
        self._waves = [dct(np.eye(n), axis=0, norm="ortho") for n in values.shape]
        first, second = (2 - 2 * np.cos(np.pi * np.arange(n) / n) for n in values.shape)
        self._roughness = first[:, None] + second

    def fit(self, frequencies: np.ndarray) -> float:
        """Return the logarithm of the likelihood, up to a constant."""
        off = self._values - frequencies
        return -0.5 * float(np.sum(off * self._precision.times(off)))

    def _cells(self, waves: np.ndarray) -> np.ndarray:
        return self._waves[0].T @ waves @ self._waves[1]

    def _in_waves(self, cells: np.ndarray) -> np.ndarray:
        return self._waves[0] @ cells @ self._waves[1].T

    def model(self, penalty: float, order: int, size: float, start: np.ndarray) -> _Model:
        """Return the mode of a model, from the coefficients of another one."""
        # The coefficients of the log-frequencies' cosine waves are normal and independent. Their
        # variances are those of a field with penalised differences, plus those of cells' effects.
        roughness = np.where(self._roughness > 0, self._roughness, np.inf)
        scales = np.sqrt(1 / (penalty * roughness**order) + size**2)
        z = np.divide(start, scales, out=np.zeros_like(start), where=scales > 0)
        top, f, gradient = self._ascent(z, scales)
        for _ in range(_MOST_STEPS):
            step, rise = self._step(gradient, f, scales)
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
        evidence = top - 0.5 * self._log_determinant(f, scales)
        return _Model(penalty, order, f, evidence, z * scales)

    def _ascent(self, z: np.ndarray, scales: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The log-posterior, the frequencies, and the derivatives."""
        f = softmax(self._cells(z * scales))
        pull = self._precision.times(self._values - f)
        off = float(np.sum((self._values - f) * pull))
        gradient = scales * self._in_waves(f * (pull - np.sum(f * pull))) - z
        return -0.5 * off - 0.5 * float(np.sum(z * z)), f, gradient

    def _curve(self, z: np.ndarray, f: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Fisher's information of the data, times directions of shape (.., n_x, n_y)."""
        change = f * self._cells(scales * z)
        change -= f * change.sum(axis=(-2, -1), keepdims=True)
        pull = f * self._precision.times(change)
        pull -= f * pull.sum(axis=(-2, -1), keepdims=True)
        return scales * self._in_waves(pull)

    def _step(self, gradient: np.ndarray, f: np.ndarray, scales: np.ndarray) -> Any:
        """The step of Fisher's scoring by conjugate gradients, and the rise that it promises."""
        step, rest = np.zeros_like(gradient), gradient.copy()
        move, square = rest.copy(), float(np.sum(rest * rest))
        least = 1e-4 * square
        for _ in range(_MOST_PRODUCTS):
            if square <= least:
                break
            curved = move + self._curve(move, f, scales)
            length = square / float(np.sum(move * curved))
            step += length * move
            rest -= length * curved
            before, square = square, float(np.sum(rest * rest))
            move = rest + square / before * move
        return step, float(np.sum(step * gradient))

    def _log_determinant(self, f: np.ndarray, scales: np.ndarray) -> float:
        """The logarithm of the determinant of the posterior's curvature."""
        d = f.size
        if d <= _MOST_DENSE:
            unit = np.eye(d).reshape(d, *f.shape)
            curvature = self._curve(unit, f, scales).reshape(d, d)
            curvature.flat[:: d + 1] += 1
            return 2 * float(np.log(np.diag(cholesky(curvature, lower=True))).sum())
        return _lanczos_log_determinant(lambda z: z + self._curve(z, f, scales), f.shape)


def _lanczos_log_determinant(times: Any, shape: tuple[int, ...]) -> float:
    """Estimate the logarithm of a determinant by Lanczos quadrature, with fixed probes.

    S. Ubaru, J. Chen, Y. Saad, SIAM Journal on Matrix Analysis and Applications 38(4), 2017,
    doi:10.1137/16M1104974.
    """
    d = shape[0] * shape[1]
    probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROBES, *shape))
    now, before, beta = probes / d**0.5, np.zeros_like(probes), np.zeros(_PROBES)
    diagonals, besides = [], []
    for _ in range(_LANCZOS_STEPS):
        image = times(now) - beta[:, None, None] * before
        alpha = np.sum(image * now, axis=(1, 2))
        image -= alpha[:, None, None] * now
        diagonals.append(alpha)
        beta = np.sqrt(np.sum(image**2, axis=(1, 2)))
        besides.append(beta)
        before, now = now, image / np.maximum(beta, 1e-12)[:, None, None]
    total = 0.0
    for alphas, betas in zip(np.transpose(diagonals), np.transpose(besides), strict=True):
        nodes, vectors = eigh_tridiagonal(alphas, betas[:-1])
        total += d * float(vectors[0] ** 2 @ np.log(np.maximum(nodes, 1.0)))
    return total / _PROBES
