"""Channels (matrices of probabilities) that are optimized for given linear queries.

A channel Q of shape (m, d) contains the probability of each of m outputs (reports), given each of d
inputs (categories). Its columns sum to 1. It satisfies epsilon if no row has two entries with a
ratio above E = exp(epsilon). Let y be the counts of the outputs from n users. Frequencies are
estimated by least squares, with the weights that are optimal if all inputs are equally frequent,

.. math:: \\tilde f = B y / n, \\qquad B = A^{-1} Q^T D^{-1}, \\qquad A = Q^T D^{-1} Q,

where D is the diagonal matrix of the row sums of Q. Then B Q = I, so the estimate is unbiased. Let
W be the matrix of the queries (one per row). The answers are W f~. Because B D B' is the inverse of
A, the sum of the variances of the answers is ``(tr(A^-1 W'W) - tr(W'W)) / (n d)``, if all inputs
are equally frequent among the n users.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

import numpy as np

from ..common.parallel import one_thread
from ..common.progress import Progress

_LEAST_STEP = 1e-9  # the search ends here because floats cannot represent a further gain
_EXCHANGES = 5000  # a bound on the work
_LONG = 128  # inputs from which a search takes seconds and shows its progress
_LOOK_BACK = 10  # steps; the loss may exceed the last loss, but not all losses of these steps


def decoding_matrix(channel: np.ndarray) -> np.ndarray:
    """Return the matrix that converts proportions of outputs to frequencies, by least squares.

    `channel` contains the probability of each output (row) given each input (column).

    Shapes: channel (m, d) -> (d, m).
    """
    scaled = channel / np.sqrt(channel.sum(axis=1))[:, None]
    upper = np.linalg.cholesky(scaled.T @ scaled).T
    half = np.linalg.solve(upper.T, scaled.T / np.sqrt(channel.sum(axis=1)))
    decoding = np.linalg.solve(upper, half)
    # Rounding errors may hide that A is singular. If the rank is lower, B Q is far from 1.
    if not np.abs(decoding @ channel - np.eye(len(decoding))).max() < 0.5 / len(decoding):
        raise np.linalg.LinAlgError(
            "The columns of the channel are linearly dependent, so frequencies cannot be estimated."
        )
    return decoding


def channel_loss(channel: np.ndarray, gram: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the loss of a channel and its gradient. The loss is the trace of ``A^-1 W'W``.

    `gram` is W'W. If A is singular, the loss is infinite.

    Shapes: channel (m, d), gram (d, d) -> (m, d).
    [1] R. McKenna, R. K. Maity, A. Mazumdar, G. Miklau, "A workload-adaptive mechanism for
    linear queries under local differential privacy", PVLDB 13(11), 2020,
    :doi:`10.14778/3407790.3407798`.
    """
    # With G = - A^-1 W'W A^-1 and S = D^-1 Q, the gradient is `2 S G - rowsum((S G) * S) 1'`.
    scaled = channel / channel.sum(axis=1)[:, None]
    information = channel.T @ scaled
    half = square_root_inverse(information)
    if half is None:
        return math.inf, channel
    inverse = half.T @ half  # in this form rounding errors cannot make the trace negative
    weighted = inverse @ gram
    product = -scaled @ (weighted @ inverse)
    gradient = 2 * product - np.sum(product * scaled, axis=1, keepdims=True)
    return float(np.trace(weighted)), gradient


def square_root_inverse(matrix: np.ndarray) -> np.ndarray | None:
    """Return the inverse of the Cholesky factor of a matrix; None if the matrix is singular."""
    try:
        return np.linalg.inv(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return None


class Objective:
    """The loss as a function of a channel, which the search `descended` minimizes.

    Subclasses may define it for channels of a special form.
    """

    def __init__(self, gram: np.ndarray) -> None:
        self.gram = gram
        self.column_weights = np.full(len(gram), 1 / len(gram))

    def __call__(self, channel: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss of a channel, and its gradient with respect to the entries of the
        channel."""
        return channel_loss(channel, self.gram)

    def joined(self, rows: np.ndarray, function: np.ufunc) -> np.ndarray:
        """Combine the numbers of rows that must share their bounds, by a function such as the
        minimum.

        Here no rows share their bounds, so the numbers are returned unchanged.
        """
        return rows


def nearest_columns(columns: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return, for each column, the nearest column that sums to 1 and has its entries within bounds.

    Shapes: columns (m, d), low, high (m, 1) -> (m, d).
    low, high: the bounds of the entries in each row. The sum of `low` is at most 1, and the sum of
    `high` is at least 1.
    """
    # The projection is `clip(column + shift, low, high)`. Newton's method, kept in a bracket, finds
    # the shift of each column from its sum, which is piecewise linear.
    least, most = (low - columns).min(axis=0), (high - columns).max(axis=0)
    shift = np.zeros(columns.shape[1])
    for _ in range(100):
        result = np.clip(columns + shift, low, high)
        gap = 1 - result.sum(axis=0)
        if np.abs(gap).max() < 1e-14:
            break
        least, most = np.where(gap > 0, shift, least), np.where(gap < 0, shift, most)
        n_free = np.count_nonzero((result > low) & (result < high), axis=0)
        newton = shift + gap / np.maximum(n_free, 1)
        is_inside = (newton > least) & (newton < most) & (n_free > 0)
        shift = np.where(is_inside, newton, (least + most) / 2)
    return result


def _feasible(low: np.ndarray, ratio: float) -> np.ndarray:
    """Scale the lower bounds `low` of the rows, if necessary, so that columns with the sum 1 exist.

    The entries of a column must be between `low` and `ratio` times `low`.
    """
    total = low.sum()
    if total > 1:
        return low * ((1 - 1e-9) / total)
    return low * ((1 + 1e-9) / (ratio * total)) if ratio * total < 1 else low


def descended(
    start: np.ndarray, objective: Objective, epsilon: float, n_steps: int
) -> tuple[np.ndarray, float]:
    """Minimize the loss of a channel by projected gradient descent; return the best channel and its
    loss.

    A channel is a matrix of probabilities. The descent begins with the matrix `start`, which need
    not be a channel that satisfies epsilon.
    """
    # Each row is between a bound z and E z. The bound moves with the gradient of the entries that
    # are at one of its two ends. The loss may rise for some steps, because otherwise kinks in the
    # loss would stop the descent. The start need not be a channel at this epsilon.
    ratio = math.exp(epsilon)
    least = objective.joined(start.min(axis=1), np.minimum)
    most = objective.joined(start.max(axis=1), np.maximum)
    low = np.maximum(least, most / ratio)[:, None]
    if not 1 / ratio < low.sum() < 1:
        low *= 2 / ((1 + ratio) * low.sum())  # the middle, which leaves room on both sides
    channel = nearest_columns(start, low, ratio * low)
    loss, gradient = objective(channel)
    best, best_loss = channel, loss
    n_steps = n_steps if math.isfinite(loss) else 0
    velocity, low_velocity, step = np.zeros_like(channel), np.zeros_like(low), 1e-2
    losses: list[float] = []
    for _ in range(n_steps):
        losses = [*losses[1 - _LOOK_BACK :], loss]
        at_low, at_high = channel <= low, channel >= ratio * low
        is_free = ~(at_low | at_high)
        n_free = np.maximum(np.count_nonzero(is_free, axis=0), 1)
        tangent = gradient - np.sum(gradient * is_free, axis=0) / n_free
        at_low, at_high = at_low & (tangent > 0), at_high & (tangent < 0)
        ends = tangent * at_low + ratio * tangent * at_high
        pull = np.sum(ends * objective.column_weights, axis=1, keepdims=True)
        pull = objective.joined(pull, np.add)
        scale = float(low.mean() / np.abs(tangent).max())
        # Ends: because each pass multiplies the step by 0.7.
        while step > _LEAST_STEP:
            move = 0.9 * velocity - step * scale * tangent
            move_low = np.maximum(0.9 * low_velocity - step * scale * pull, -low / 2)
            new_low = _feasible(low + move_low, ratio)
            rise = new_low - low
            moved = channel + np.where(at_low, rise, np.where(at_high, ratio * rise, move))
            new = nearest_columns(moved, new_low, ratio * new_low)
            new_loss, new_gradient = objective(new)
            if new_loss <= max(losses):
                break
            velocity, low_velocity, step = velocity / 2, low_velocity / 2, 0.7 * step
        else:
            break
        velocity, low_velocity, step = new - channel, new_low - low, 1.05 * step
        channel, low, loss, gradient = new, new_low, new_loss, new_gradient
        if loss < best_loss:
            best, best_loss = channel, loss
    return best, best_loss


def wave_width(epsilon: float) -> float:
    """Return half the width of the window of likely outputs of the square wave channel.

    The inputs are numbers from 0 to 1.
    """
    # It maximizes the information in a report; it tends to 1/2 as epsilon tends to 0.
    if epsilon < 1e-3:
        return 0.5 - epsilon / 6  # the first two terms, because the formula would lose its digits
    inverse = math.exp(-epsilon)
    return inverse * (epsilon - 1 + inverse) / (2 * (1 - inverse - epsilon * inverse))


def square_wave(n_inputs: int, epsilon: float) -> np.ndarray:
    """Return the square wave channel: the probability of each output (row) given each input
    (column).

    Outputs near the input are exp(epsilon) times as likely as other outputs.

    Shapes: -> (d + 2 w, d).
    n_inputs: number d of inputs, in order.
    Returns: the channel. Output y is near input x if `x <= y <= x + 2 w`; w is `wave_width` in
    units of inputs.
    [1] Z. Li, T. Wang, M. Lopuhaä-Zwakenberg, N. Li, B. Skoric, "Estimating numerical
    distributions under local differential privacy", SIGMOD 2020,
    :doi:`10.1145/3318464.3389700`.
    """
    width = 2 * math.floor(wave_width(epsilon) * n_inputs)
    offset = np.arange(n_inputs + width)[:, None] - np.arange(n_inputs)
    far = math.exp(-epsilon)
    near = (offset >= 0) & (offset <= width)
    return np.where(near, 1.0, far) / (width + 1 + (n_inputs - 1) * far)


def random_rows(
    gram: np.ndarray, epsilon: float, n_outputs: int, rng: np.random.Generator
) -> np.ndarray:
    """Return a random matrix with `n_outputs` rows, with which the search for a channel begins.

    The rows are made from random vectors that have the covariance matrix `gram`.
    """
    # For prefixes the rows are random walks, hence smooth. An output is likely for the inputs at
    # which its row is above a random quantile, between 1 / (E + 1) and 1/2 of all inputs.
    ratio = math.exp(epsilon)
    d = len(gram)
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    weights, axes = np.linalg.eigh(centred)
    walks = rng.normal(size=(n_outputs, d)) @ (axes * np.sqrt(np.maximum(weights, 0))).T
    shares = rng.uniform(1 / (1 + ratio), 0.5, n_outputs)
    walks = np.array([row - np.quantile(row, 1 - s) for row, s in zip(walks, shares, strict=True)])
    walks /= np.maximum(walks.std(axis=1, keepdims=True), 1e-12)
    rows = 1 + (ratio - 1) / (1 + np.exp(-4 * walks))
    return _perturbed(rows, 0.1, rng)


def window_rows(
    n_inputs: int, epsilon: float, n_outputs: int, widths: list[float], rng: np.random.Generator
) -> np.ndarray:
    """Return a matrix with `n_outputs` rows, with which the search for a channel begins.

    Each row has large entries for the inputs in a window. The windows have several widths, and the
    entries are slightly changed at random.
    """
    width = np.resize(widths, n_outputs)[:, None]
    centre = np.linspace(0, 1, n_outputs)[:, None] * (1 + 2 * width) - width
    place = (np.arange(n_inputs) + 0.5) / n_inputs
    return _perturbed(np.where(np.abs(place - centre) <= width, math.exp(epsilon), 1.0), 0.2, rng)


def _perturbed(rows: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    rows = rows * np.exp(share * rng.normal(size=rows.shape))
    return rows / rows.sum(axis=0)


def sharpened(channel: np.ndarray, epsilon: float) -> np.ndarray:
    """Make a channel (a matrix of probabilities) more informative, without exceeding epsilon.

    The differences between columns are increased, until the largest ratio of two entries in a row
    is exp(epsilon).
    """
    ratio = math.exp(epsilon)
    mean = channel.mean(axis=1, keepdims=True)
    low, high = channel.min(axis=1), channel.max(axis=1)
    rates = high - ratio * low + (ratio - 1) * mean[:, 0]
    length = np.min((ratio * low - high) / np.maximum(rates, np.finfo(float).tiny))
    return channel + max(length, 0.0) * (channel - mean)


@one_thread
def optimised_channel(
    gram: np.ndarray, epsilon: float, n_steps: int = 600, starts: Iterable[np.ndarray] = ()
) -> np.ndarray:
    """Search for a channel with a small variance of the answers to given queries.

    A channel contains the probability of each output (row) given each input (column). It satisfies
    epsilon.

    Shapes: gram (d, d), starts (m, d) -> (m, d).
    gram: the inner products W'W of the queries.
    starts: matrices with which the search begins.
    Returns: the best channel of the search. If epsilon is so small that rounding errors hide it,
    the outputs do not distinguish all inputs.
    """
    # The problem is not convex, so the result depends on the start. Several starts, each with a
    # fixed seed, run for a quarter of the steps. The best is then improved further.
    d = len(gram)
    rng = np.random.default_rng(0)
    m = max(2 * d, min(4 * d, 64))
    # A small weight on every input keeps the answers to all other queries unbiased.
    scale = np.trace(gram) / d
    target = gram / scale + 1e-6 * np.eye(d)
    objective = Objective(target)
    width = wave_width(epsilon)
    tried = list(starts) or [
        subset_channel(d, 1, epsilon, d),
        square_wave(d, epsilon),
        random_rows(target, epsilon, m, rng),
        window_rows(d, epsilon, m, [width], rng),
        window_rows(d, epsilon, m, [width / 2, width, min(2 * width, 0.5)], rng),
    ]
    ends = []
    with Progress(len(tried) + 1, is_shown=d > _LONG) as progress:
        for i, start in enumerate(tried, 1):
            progress.step(f"a channel for {d} categories: start {i} of {len(tried)}")
            ends.append(descended(start, objective, epsilon, n_steps // 4))
        progress.step(f"a channel for {d} categories: improvement of the best")
        best, _ = min(ends, key=lambda end: end[1])
        best, _ = descended(best, objective, epsilon, n_steps)
    return sharpened(best, epsilon)


def subset_channel(n_inputs: int, size: int, epsilon: float, n_outputs: int) -> np.ndarray:
    """Return the channel of subset selection: the probability of each set (row) given each input
    (column).

    The reports are sets of inputs. If there are more than `n_outputs` sets, use only some of them,
    which are nearly as good.

    Shapes: -> (m, d).
    size: number of inputs in each set. With the best size, no channel has a smaller sum of
    variances.
    """
    # If there are more sets than outputs, the outputs are all shifts of a few sets. The variances
    # depend only on the power spectrum of these sets, and a flatter spectrum is better. Members
    # are exchanged at random as long as the spectrum becomes flatter.
    if math.comb(n_inputs, size) > n_outputs:
        sets = _flat_sets(n_inputs, size, max(n_outputs // n_inputs, 2))
        rows = np.concatenate([np.roll(sets, shift, axis=1) for shift in range(n_inputs)])
    else:
        members = np.array(list(combinations(range(n_inputs), size)))
        rows = np.zeros((len(members), n_inputs), dtype=bool)
        np.put_along_axis(rows, members, True, axis=1)
    channel = np.where(rows, 1.0, math.exp(-epsilon))
    return channel / channel[:, 0].sum()


def _flat_sets(d: int, size: int, n_sets: int) -> np.ndarray:
    """Return sets of inputs as rows of booleans, of shape (n_sets, d).

    They are chosen such that the sum of their power spectra is nearly flat.
    """
    rng = np.random.default_rng(0)
    sets = np.argsort(rng.random((n_sets, d)), axis=1) < size
    waves = np.exp(2j * np.pi / d * np.outer(np.arange(d), np.arange(1, d // 2 + 1)))
    spectra = sets @ waves
    power = np.sum(np.abs(spectra) ** 2, axis=0)
    times = np.where(2 * np.arange(1, d // 2 + 1) == d, 1, 2)  # all but the last occur twice
    for which in rng.integers(n_sets, size=_EXCHANGES):
        out = rng.choice(np.flatnonzero(sets[which]))
        into = rng.choice(np.flatnonzero(~sets[which]))
        changed = spectra[which] - waves[out] + waves[into]
        new = power - np.abs(spectra[which]) ** 2 + np.abs(changed) ** 2
        if times @ (1 / np.maximum(new, 1e-9)) < times @ (1 / np.maximum(power, 1e-9)):
            spectra[which], power = changed, new
            sets[which, [out, into]] = False, True
    return sets
