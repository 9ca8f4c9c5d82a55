"""Variance of answers to linear queries of a raw estimate, covariances included.

The users are taken as they are: all randomness is that of the reports. For two categories v, w
and a user of category x let ``r(x)`` be the probability that her report supports both. Then, with
frequencies f,

    n (p - q)**2 Cov_vw = sum over x of f_x (r(x) - Pr[v | x] Pr[w | x]).

In every oracle here r is one number for v and w themselves and all categories on a line with them,
and another one elsewhere. Lines of projective geometry response are those of a space over a finite
field, and sums over all their triples of points are one convolution; of linear hashing the reports
are few enough to sum over their law. In the other mechanisms a line has two points.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from scipy import fft, sparse

from ..oracles._channel import Channel
from ..oracles._direct import DirectChannel
from ..oracles._finite_field import FiniteField
from ..oracles._hadamard import HadamardChannel, walsh_hadamard
from ..oracles._linear_hashing import LinearHashChannel
from ..oracles._mixing import MixingHashChannel
from ..oracles._projective import ProjectiveChannel
from ..oracles._sampling import SeededCoins
from ..oracles._subset import SubsetChannel
from ..oracles._unary import UnaryChannel
from ..queries import QuerySet, _FullDomain, _RandomSets

_MAX_SPACE = 1 << 22  # vectors of a space over which triples are summed
_N_DRAWS = 1 << 14  # reports drawn where there is no formula
_CELLS = 1 << 21  # reports times categories worked on at a time


class JointSupport(NamedTuple):
    """Probability that a report supports two given categories.

    `own` if the user has one of them (or a category on their line), `other` if not.
    """

    own: float
    other: float


@singledispatch
def joint_support(channel: Channel) -> JointSupport | None:
    """The channel's joint support, or None where it is not known."""
    return None


@joint_support.register
def _(channel: DirectChannel) -> JointSupport:
    return JointSupport(0.0, 0.0)


@joint_support.register(UnaryChannel)
@joint_support.register(MixingHashChannel)
def _(channel):
    p, q = float(channel.p), float(channel.q)
    return JointSupport(p * q, q * q)


@joint_support.register
def _(channel: SubsetChannel) -> JointSupport:
    d, w, p = channel.n_categories, channel.size, float(channel.p)
    # The set holds w - 1 others of d - 1 beside the own one, or w others.
    own = p * (w - 1) / (d - 1)
    pairs = p * (w - 1) * (w - 2) + (1 - p) * w * (w - 1)
    return JointSupport(own, pairs / max((d - 1) * (d - 2), 1))


@joint_support.register
def _(channel: ProjectiveChannel) -> JointSupport:
    g, t, p = channel.field.order, channel.n_digits, float(channel.p)
    # Points orthogonal to 0, 1, 2 and 3 independent vectors.
    total, one, two, three = ((g ** max(t - i, 0) - 1) // (g - 1) for i in range(4))
    other = p * three / one + (1 - p) * (two - three) / (total - one)
    return JointSupport(p * two / one, other)


def answer_variances(channel: Channel, matrix: Any, frequencies: np.ndarray) -> np.ndarray:
    """n times the variance of the answers to queries of the raw estimate.

    It is linear in the frequencies (which sum to 1), so that unbiased estimates of them give an
    unbiased estimate of it. Exact for the channels of this package, but for linear hashing in
    spaces of millions of vectors; of that, and of other channels, 2**14 reports are drawn.

    Parameters
    ----------
    channel : Channel
        The mechanism.
    matrix : sparse matrix of shape (n_queries, d)
        A row a query.
    frequencies : ndarray of shape (d,)
        Frequencies among the users.

    Returns
    -------
    ndarray of shape (n_queries,)
        The variances for one user.
    """
    matrix = sparse.csr_array(matrix, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    variances = matrix.power(2) @ channel.noise(1).variance(frequencies)
    several = np.flatnonzero(np.diff(matrix.indptr) > 1)
    if not several.size:
        return variances
    if isinstance(channel, LinearHashChannel) and channel.n_vectors <= _MAX_SPACE:
        variances[several] = [
            _variance_by_law(channel, weights, frequencies) for weights in _rows(matrix[several])
        ]
    elif _is_known(channel):
        variances[several] += _covariances(channel, matrix[several], frequencies)
    else:
        variances[several] = [
            _drawn_variance(channel, weights, frequencies) for weights in _rows(matrix[several])
        ]
    return variances


def mean_variance(
    channel: Channel, queries: QuerySet, frequencies: np.ndarray, truth: Any
) -> float:
    """n times the expected squared error of the raw estimate, averaged over the queries.

    Parameters
    ----------
    channel : Channel
        The mechanism.
    queries : QuerySet
        What is asked; random sets are averaged in closed form over all sets of their size.
    frequencies : ndarray of shape (d,)
        Frequencies among the users.
    truth : ndarray of shape (d,) or None
        The same for queries that depend on the truth; None if it is not known.

    Returns
    -------
    float
        The mean variance for one user.
    """
    d = channel.n_categories
    if not isinstance(queries, _FullDomain | _RandomSets):
        return float(answer_variances(channel, queries.matrix(d, truth), frequencies).mean())
    of_categories = float(channel.noise(1).variance(frequencies).sum())
    if isinstance(queries, _FullDomain):
        return of_categories / d
    of_total = answer_variances(channel, np.ones((1, d)), frequencies)[0]
    m = queries.set_size(d)
    cross = m * (m - 1) / (d * max(d - 1, 1)) * (of_total - of_categories)
    return float(m / d * of_categories + cross)


def _is_known(channel: Channel) -> bool:
    return isinstance(channel, HadamardChannel) or joint_support(channel) is not None


def _variance_by_law(
    channel: LinearHashChannel, weights: np.ndarray, frequencies: np.ndarray
) -> float:
    """n times the variance of an answer, from the chance of each report."""
    law = channel.law_of_reports
    p, q = float(channel.p), float(channel.q)
    squares = law.probabilities(frequencies) @ law.spread(weights) ** 2
    means = q * weights.sum() + (p - q) * weights
    expected = means**2 @ frequencies
    return float((squares - expected) / (p - q) ** 2)


def _covariances(channel: Channel, matrix: Any, frequencies: np.ndarray) -> np.ndarray:
    """n times the sum over all v != w of a_v a_w Cov_vw, for each row a of the matrix."""
    if isinstance(channel, HadamardChannel):
        gain = 1 / float(channel._inside - channel._against)
        sums = [_sum_of_own_block(channel, row, frequencies) for row in _rows(matrix)]
        return gain * np.array(sums)
    joint = joint_support(channel)
    assert joint is not None
    p, q = float(channel.p), float(channel.q)
    total, squares = matrix.sum(axis=1), matrix.power(2)
    pairs = total**2 - squares.sum(axis=1)
    # Each pair with the frequency of its two categories.
    own = 2 * (total * (matrix @ frequencies) - squares @ frequencies)
    gain = joint.own - joint.other
    covariance = (joint.other - q * q) * pairs + (gain - q * (p - q)) * own
    if isinstance(channel, ProjectiveChannel):
        vectors = channel._vectors(np.arange(channel.n_categories))[0]
        covariance += gain * np.array(
            [
                _collinear_sum(channel.field, channel.n_digits, vectors, row, frequencies)
                for row in _rows(matrix)
            ]
        )
    return covariance / (p - q) ** 2


def _rows(matrix: Any) -> Iterator[np.ndarray]:
    """The rows of a sparse matrix, one at a time: all of them may not fit."""
    return (matrix[[i]].toarray()[0] for i in range(matrix.shape[0]))


def _sum_of_own_block(
    channel: HadamardChannel, weights: np.ndarray, frequencies: np.ndarray
) -> float:
    """Sum of a_v a_w f_x with x = v ^ w, all of one block.

    Of supports signed +1 and -1 no other triples are correlated.
    """
    block, row = channel._place(np.arange(channel.n_categories))
    a, f = np.zeros((2, channel.n_blocks, channel.order))
    a[block, row], f[block, row] = weights, frequencies
    return float(np.sum(walsh_hadamard(a) ** 2 * walsh_hadamard(f)) / channel.order)


def _collinear_sum(
    field: FiniteField, n_digits: int, vectors: np.ndarray, a: np.ndarray, f: np.ndarray
) -> float:
    """Sum of a_v a_w f_x over all distinct v, w, x on a line of the projective space.

    Points are given by the numbers of their vectors. A function of points becomes one of all
    their multiples; then a triple is a sum of two vectors, and appears g - 1 times.
    """
    g = field.order
    lifted = np.zeros((2, g**n_digits))
    digits = vectors[:, None] // g ** np.arange(n_digits) % g
    for scalar in range(1, g):
        multiples = field.multiply(digits, np.full_like(digits, scalar)) @ g ** np.arange(n_digits)
        lifted[:, multiples] = a, f
    # Addition is that of base-p digits, p the characteristic.
    shape = (2,) + (field.characteristic,) * (field.degree * n_digits)
    if field.characteristic == 2:
        spectrum = walsh_hadamard(lifted)
    else:
        spectrum = fft.fftn(lifted.reshape(shape), axes=range(1, len(shape))).reshape(2, -1)
    sums = np.sum(spectrum[0] ** 2 * spectrum[1].conj()).real / g**n_digits
    same = (g - 1) * (g - 2) * np.sum(a**2 * f)  # v = w = x, which are no triples
    return float((sums - same) / (g - 1))


def _drawn_variance(channel: Channel, weights: np.ndarray, frequencies: np.ndarray) -> float:
    """n times the variance of an answer, from drawn reports, the same ones each time."""
    rng = np.random.default_rng(0)
    d, p, q = channel.n_categories, float(channel.p), float(channel.q)
    size = np.abs(frequencies).sum()  # raw estimates may be negative
    codes = rng.choice(d, _N_DRAWS, p=np.abs(frequencies) / size)
    reports = channel.privatize(codes, SeededCoins(rng))
    asked = np.flatnonzero(weights)
    height = max(1, _CELLS // len(asked))
    answers = np.concatenate(
        [
            channel.supports(reports[start : start + height], asked) @ weights[asked]
            for start in range(0, len(reports), height)
        ]
    )
    residuals = answers - q * weights.sum() - (p - q) * weights[codes]
    return float(np.mean(np.sign(frequencies[codes]) * size * residuals**2) / (p - q) ** 2)
