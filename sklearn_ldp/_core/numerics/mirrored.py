"""Optimized channels for queries that stay the same if the inputs are reversed, such as prefixes.

A channel is a matrix with the probability of each output (row) given each input (column). Its
mirror image has the columns in reversed order. The mean of a channel and its mirror image has twice
the outputs, and no larger loss, because the loss is a convex function of the information matrix. So
the search can be confined to channels that equal their mirror image: the second half of their rows
is the first half with reversed columns. Such a channel is determined by its first c = ``ceil(d /
2)`` columns, which are called the folded channel, of shape (m, c). Its information matrix is block
diagonal for the even and the odd functions of the inputs, so a step of the search needs a quarter
of the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..common.parallel import one_thread
from .strategies import (
    Objective,
    descended,
    random_rows,
    sharpened,
    square_root_inverse,
    subset_channel,
    wave_width,
    window_rows,
)

_ROOT = math.sqrt(0.5)
_FEWEST_OUTPUTS = 96
# Steps from every start, and then from the best end, by the number of inputs. Chosen by hand on 28
# November 2026; doc/notes/numbers.md has the variances and the times.
_STEPS = ((64, (150, 450)), (128, (60, 150)), (math.inf, (24, 100)))
_FEW_INPUTS = 64  # up to this number, fresh starts are tried beside the given ones
_SUBSET_EPSILON = 3.0  # from this budget, channels of single inputs are a good start


class MirroredObjective(Objective):
    """The loss (the sum of the queries' variances) of a channel that equals its mirror image.

    The channel, a matrix of probabilities, is given by its first half of columns (the folded
    channel).

    Shapes: gram (d, d), which stays the same if its rows and columns are reversed.
    """

    def __init__(self, gram: np.ndarray) -> None:
        d = len(gram)
        self.n_pairs = d // 2  # pairs of an input and its mirror image
        self.column_weights = np.full(d - self.n_pairs, 1 / d)
        self.column_weights[self.n_pairs :] /= 2  # the middle input is its own mirror image
        pairs = slice(0, self.n_pairs)
        middle = slice(self.n_pairs, d - self.n_pairs)
        reverse = gram[:, ::-1]
        self.even = (gram + reverse)[: d - self.n_pairs, : d - self.n_pairs].copy()
        self.even[middle, pairs] *= _ROOT
        self.even[pairs, middle] *= _ROOT
        self.even[middle, middle] /= 2
        self.odd = (gram - reverse)[pairs, pairs]

    def __call__(self, channel: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss of a channel, given its first half of columns, and the gradient of the
        loss.

        The loss and the gradient are defined as in `channel_loss`.
        """
        n = self.n_pairs
        near, far = np.split(channel, 2)
        even = (near + far) * _ROOT
        even[:, n:] = near[:, n:]
        odd = (near - far)[:, :n] * _ROOT
        sums = (near.sum(axis=1) + far[:, :n].sum(axis=1))[:, None]
        loss = 0.0
        correction = np.zeros_like(sums)
        products = []
        for part, gram in ((even, self.even), (odd, self.odd)):
            scaled = part / sums
            half = square_root_inverse(2 * (part.T @ scaled))
            if half is None:
                return math.inf, channel
            inverse = half.T @ half
            weighted = inverse @ gram
            product = -scaled @ (weighted @ inverse)
            loss += float(np.trace(weighted))
            correction += np.sum(product * scaled, axis=1, keepdims=True)
            products.append(product)
        even_product, odd_product = products
        even_product[:, :n] *= _ROOT
        odd_product = np.pad(odd_product * _ROOT, ((0, 0), (0, even_product.shape[1] - n)))
        both = np.concatenate([even_product + odd_product, even_product - odd_product])
        return loss, 2 * both - np.tile(correction, (2, 1))

    def joined(self, rows: np.ndarray, function: np.ufunc) -> np.ndarray:
        """Combine the numbers of each row and of its mirror image by a function, such as the
        minimum.

        Both rows get the result.
        """
        return np.tile(function(*np.split(rows, 2)), (2,) + (1,) * (rows.ndim - 1))


def folded(rows: np.ndarray) -> np.ndarray:
    """Return the first half of the columns of a channel that equals its mirror image.

    The channel consists of the given rows and of the reversed rows, and each column is divided by
    its sum.

    Shapes: (h, d) -> (2 h, c).
    """
    n_columns = (rows.shape[1] + 1) // 2
    both = np.concatenate([rows[:, :n_columns], rows[:, ::-1][:, :n_columns]])
    return both / both.sum(axis=0)


def unfolded(channel: np.ndarray, n_inputs: int) -> np.ndarray:
    """Return a channel that equals its mirror image, given its first half of columns.

    The mirror image of a matrix has reversed rows.

    Shapes: (2 h, c) -> (2 h, d).
    """
    near, far = np.split(channel, 2)
    rows = np.concatenate([near, far[:, : n_inputs // 2][:, ::-1]], axis=1)
    return np.concatenate([rows, rows[:, ::-1]])


def resized(channel: np.ndarray, n_inputs: int) -> np.ndarray:
    """Return a channel for fewer inputs (columns) by linear interpolation between the given
    columns.

    Shapes: (m, d) -> (m, n_inputs).
    """
    # A mixture of columns keeps the bounds of each row, and so epsilon.
    d = channel.shape[1]
    place = (np.arange(n_inputs) + 0.5) * d / n_inputs - 0.5
    left = np.clip(place.astype(int), 0, d - 2)
    weight = place - left
    return (1 - weight) * channel[:, left] + weight * channel[:, left + 1]


@one_thread
def mirrored_channel(
    gram: np.ndarray, epsilon: float, starts: Sequence[np.ndarray] = ()
) -> np.ndarray:
    """Search for a channel that equals its mirror image and has a small variance for given queries.

    Shapes: gram (d, d), starts (m, d) -> (m, d).
    gram: the inner products of the queries.
    starts: channels from which the search starts; they need not equal their mirror images.
    """
    d = len(gram)
    scale = np.trace(gram) / d
    target = gram / scale + 1e-6 * np.eye(d)  # the small weight as in `optimised_channel`
    objective = MirroredObjective(target)
    rows = list(starts)
    if not rows or d <= _FEW_INPUTS:
        rows += _fresh_rows(target, epsilon)
    first, last = next(steps for size, steps in _STEPS if d <= size)
    if len(rows) == 1:  # without a pause, because the descent would lose its momentum
        best, _ = descended(folded(rows[0]), objective, epsilon, first + last)
    else:
        ends = [descended(folded(start), objective, epsilon, first) for start in rows]
        best, _ = min(ends, key=lambda end: end[1])
        best, _ = descended(best, objective, epsilon, last)
    return sharpened(unfolded(best, d), epsilon)


def _fresh_rows(gram: np.ndarray, epsilon: float) -> list[np.ndarray]:
    """Return matrices from which the search starts.

    Their rows are windows of several widths, and random functions (for small epsilon) or single
    inputs.
    """
    d = len(gram)
    n_outputs = max(3 * d, _FEWEST_OUTPUTS)
    half = n_outputs // 2
    width = wave_width(epsilon)
    wide = min(2 * width, 0.5)
    windows = [
        window_rows(d, epsilon, n_outputs, widths, np.random.default_rng(0))[:half]
        for widths in ([width / 2, width, wide], [width, wide])
    ]
    if epsilon >= _SUBSET_EPSILON:
        return [*windows, subset_channel(d, 1, epsilon, d)]
    return [*windows, random_rows(gram, epsilon, half, np.random.default_rng(0))]
