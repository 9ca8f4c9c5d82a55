"""Covariances of linear answers to a raw estimate, for one user.

The users' categories are fixed: all randomness is that of the reports. For two categories v, w
and a user of category x let ``r(x)`` be the probability that her report supports both. Then, with
frequencies f,

    n (p - q)**2 Cov_vw = sum over x of f_x (r(x) - Pr[v | x] Pr[w | x]).

In most oracles here r is one number if x is v or w, and another one for all other x
(`joint_covariances`). Each other mechanism has its own sum in its own file. For a mechanism without
a formula reports are drawn (`drawn_covariances`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .coins import SeededCoins
from .laws import JointSupport

_N_DRAWS = 1 << 14  # reports drawn where there is no formula
_CELLS = 1 << 21  # numbers worked on at a time


def joint_covariances(
    joint: JointSupport,
    p: float,
    q: float,
    rows: sparse.csr_array,
    frequencies: np.ndarray,
    diagonal: bool,
) -> np.ndarray:
    """Return the sum over v != w of a_v b_w n Cov_vw, if the joint support has two values.

    Parameters
    ----------
    joint : JointSupport
        Probability that a report supports two categories.
    p, q : float
        Support probabilities.
    rows : csr_array of shape (n_queries, d)
        One row per query, a.
    frequencies : ndarray of shape (d,)
        Frequencies among the users.
    diagonal : bool
        Whether only the variances are asked for, where a = b.

    Returns
    -------
    ndarray of shape (n_queries,) or (n_queries, n_queries)
        The covariances for one user.
    """
    total, weighted = rows.sum(axis=1), rows @ frequencies
    pairs = outer(total, total, diagonal) - inner(rows, rows, diagonal)
    # Each pair, weighted with the frequency of its two categories.
    own = (
        outer(total, weighted, diagonal)
        + outer(weighted, total, diagonal)
        - 2 * weighted_inner(rows, frequencies, diagonal)
    )
    gain = joint.own - joint.other - q * (p - q)
    return ((joint.other - q * q) * pairs + gain * own) / (p - q) ** 2


def joint_product(
    channel: Any, joint: JointSupport, vector: np.ndarray, frequencies: np.ndarray
) -> np.ndarray:
    """Return the covariance matrix of all categories times a vector, by the joint support.

    Off the diagonal, n (p - q)**2 Cov_vw is alpha + beta (f_v + f_w), with ``alpha = other - q**2``
    and ``beta = own - other - q (p - q)``.

    Parameters
    ----------
    channel : Channel
        The mechanism.
    joint : JointSupport
        Its joint support.
    vector : ndarray of shape (d,)
        The vector.
    frequencies : ndarray of shape (d,)
        Frequencies among the users.

    Returns
    -------
    ndarray of shape (d,)
        The product for one user.
    """
    p, q = float(channel.p), float(channel.q)
    alpha, beta = joint.other - q * q, joint.own - joint.other - q * (p - q)
    pairs = alpha + 2 * beta * frequencies  # what the formula below wrongly has for v = w
    off_diagonal = alpha * vector.sum() + beta * (frequencies * vector.sum() + frequencies @ vector)
    return channel.variances(frequencies) * vector + (off_diagonal - pairs * vector) / (p - q) ** 2


def outer(x: np.ndarray, y: np.ndarray, diagonal: bool) -> np.ndarray:
    """Return the products of all pairs of numbers, or of each number with its counterpart.

    Parameters
    ----------
    x, y : ndarray of shape (n_queries,)
        Numbers.
    diagonal : bool
        Whether only products of numbers at the same place are asked for.

    Returns
    -------
    ndarray of shape (n_queries,) or (n_queries, n_queries)
        The products.
    """
    return x * y if diagonal else x[:, None] * y


def weighted_inner(rows: sparse.csr_array, weights: np.ndarray, diagonal: bool) -> np.ndarray:
    """Return the `inner` products of rows with themselves, in which each category has a weight."""
    return inner(rows.multiply(weights).tocsr(), rows, diagonal)


def inner(rows: sparse.csr_array, others: sparse.csr_array, diagonal: bool) -> np.ndarray:
    """Return the inner products of all pairs of sparse rows, or of each with its counterpart.

    Parameters
    ----------
    rows, others : csr_array of shape (n_queries, d)
        One vector per row.
    diagonal : bool
        Whether only products of rows at the same place are asked for.

    Returns
    -------
    ndarray of shape (n_queries,) or (n_queries, n_queries)
        The products.
    """
    if diagonal:
        return np.asarray(rows.multiply(others).sum(axis=1)).ravel()
    return np.asarray((rows @ others.T).todense())


def gram(
    vector: Callable[[np.ndarray], np.ndarray],
    rows: sparse.csr_array,
    weights: np.ndarray,
    diagonal: bool,
) -> np.ndarray:
    """Return weighted inner products of long vectors, one per row, without holding them all.

    Parameters
    ----------
    vector : callable
        Returns the (long) vector for a row of shape (d,).
    rows : csr_array of shape (n_queries, d)
        One row per query.
    weights : ndarray of the shape of a vector
        Weights of the products.
    diagonal : bool
        Whether only products of each vector with itself are asked for.

    Returns
    -------
    ndarray of shape (n_queries,) or (n_queries, n_queries)
        ``sum(x * weights * conj(y))``, real parts.
    """
    n_rows, size = rows.shape[0], max(len(weights), 1)

    def vectors(block):
        return np.array([vector(rows[[i]].toarray()[0]) for i in block])

    if diagonal:
        products = (vectors([i])[0] for i in range(n_rows))
        return np.array([np.sum(np.abs(x) ** 2 * weights).real for x in products])
    result = np.empty((n_rows, n_rows))
    width = max(8 * _CELLS // size, 1)
    blocks = [range(i, min(i + width, n_rows)) for i in range(0, n_rows, width)]
    for i, block in enumerate(blocks):
        of_block = vectors(block)
        weighted = of_block * weights
        for other in blocks[: i + 1]:
            of_other = of_block if other is block else vectors(other)
            products = (weighted @ of_other.conj().T).real
            result[np.ix_(block, other)] = products
            result[np.ix_(other, block)] = products.T
    return result


def drawn_covariances(
    channel: Any, rows: sparse.csr_array, frequencies: np.ndarray, diagonal: bool
) -> np.ndarray:
    """Return the covariances of answers, from drawn reports that are the same each time.

    Parameters
    ----------
    channel : Channel
        The mechanism.
    rows : csr_array of shape (n_queries, d)
        One row per query.
    frequencies : ndarray of shape (d,)
        Frequencies among the users.
    diagonal : bool
        Whether only the variances are asked for.

    Returns
    -------
    ndarray of shape (n_queries,) or (n_queries, n_queries)
        The covariances for one user, a mean over 2**14 reports.
    """
    rng = np.random.default_rng(0)
    p, q = float(channel.p), float(channel.q)
    size = np.abs(frequencies).sum()  # raw estimates may be negative
    codes = rng.choice(channel.n_categories, _N_DRAWS, p=np.abs(frequencies) / size)
    reports = channel.privatize(codes, SeededCoins(rng))
    weights = np.sign(frequencies[codes]) * (size / (p - q) ** 2 / _N_DRAWS)
    if not diagonal:
        residuals = _residuals(channel, reports, codes, rows)
        return (residuals.T * weights) @ residuals
    single = (_residuals(channel, reports, codes, rows[[i]])[:, 0] for i in range(rows.shape[0]))
    return np.array([weights @ residual**2 for residual in single])


def _residuals(channel, reports, codes, rows):
    """Return each report's answer to each query, less its expectation given the user's value."""
    p, q = float(channel.p), float(channel.q)
    asked = np.unique(rows.indices)
    weights = rows[:, asked].toarray().T
    height = max(1, _CELLS // len(asked))
    answers = np.concatenate(
        [
            channel.supports(reports[start : start + height], asked) @ weights
            for start in range(0, len(reports), height)
        ]
    )
    return answers - q * weights.sum(axis=0) - (p - q) * rows.toarray()[:, codes].T
