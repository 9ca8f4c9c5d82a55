"""Posterior means of the most frequent categories, for the query `top_k`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ..._core.numerics.simplex import norm_sub
from .priors import LearnedRow

_AT_ONCE = 1 << 22  # numbers of the posterior that are computed together
_KEPT = 1 << 23  # numbers of the posterior that stay in memory: 64 MiB; more are computed each time
# Chosen with the constants of `group_priors.py`, among four rules and eight thresholds.
_EVIDENCE = 3.0  # log likelihood ratio from which some categories count as prominent

# Distinct estimates, their likelihoods at each frequency of the prior, and their densities.
_Block = tuple[slice, np.ndarray, np.ndarray]


def top_values(row: LearnedRow, k: int, simplex: bool) -> np.ndarray:
    """Return the expected frequency of each category if it is among the k largest, of shape (d,).

    If the estimates hardly show which categories are the largest, the result is the usual posterior
    mean without this condition. This is the case if the estimates are nearly as likely under a
    prior that contains no frequencies above the k-th largest.
    """
    # The condition is that the frequency exceeds a threshold, over which k categories are expected.
    theta = row.support / row.sample.std
    z, back, counts = np.unique(row.sample.z, return_inverse=True, return_counts=True)
    blocks = _blocks(row, z, theta)
    by_size = np.cumsum(row.prior[::-1])[::-1] * len(row.raw)
    kth_largest = int(np.flatnonzero(by_size >= min(k, by_size[0]))[-1])
    if _evidence_above(row.prior, kth_largest, blocks(), counts) < _EVIDENCE:
        return norm_sub(row.means) if simplex else row.means
    # First the expected number of categories at each frequency, then the conditional means.
    expected = np.zeros(len(theta))
    for rows, likelihood, density in blocks():
        expected += row.prior * ((counts[rows] / density) @ likelihood)
    above = np.cumsum(expected[::-1])[::-1]
    edge = int(np.flatnonzero(above >= min(k, above[0]))[-1])
    share = np.zeros(len(theta))
    share[edge + 1 :] = 1
    share[edge] = (k - (above[edge + 1] if edge + 1 < len(theta) else 0)) / expected[edge]
    result = np.empty(len(z))
    for rows, likelihood, density in blocks():
        probability = likelihood @ (share * row.prior) / density
        mean = likelihood @ (share * row.prior * theta) / density
        is_known = probability > 1e-200
        result[rows] = np.where(is_known, mean / np.where(is_known, probability, 1), theta[edge])
    result = row.sample.std * np.clip(result, 0, row.sample.top)[back]
    return result / max(np.sort(result)[-k:].sum(), 1) if simplex else np.minimum(result, 1)


def _evidence_above(
    prior: np.ndarray, cap: int, blocks: Iterable[_Block], counts: np.ndarray
) -> float:
    """Return the logarithm of the likelihood ratio of two priors.

    The first is `prior`. In the second, all frequencies above the frequency with the index `cap`
    are replaced by the frequency with this index.
    """
    capped = np.where(np.arange(len(prior)) <= cap, prior, 0)
    capped[cap] = prior[cap:].sum()
    return sum(
        float(counts[rows] @ np.log(density / np.maximum(likelihood @ capped, 1e-300)))
        for rows, likelihood, density in blocks
    )


def _blocks(row: LearnedRow, z: np.ndarray, theta: np.ndarray) -> Callable[[], Iterable[_Block]]:
    """Return a function that returns an iterable of the blocks of `_likelihoods`.

    If all blocks fit into memory, they are computed once, otherwise in each call.
    """
    if len(z) * len(theta) > _KEPT:
        return lambda: _likelihoods(row, z, theta)
    blocks = list(_likelihoods(row, z, theta))
    return lambda: blocks


def _likelihoods(row: LearnedRow, z: np.ndarray, theta: np.ndarray) -> Iterator[_Block]:
    """Yield the likelihoods of the estimates z in blocks of limited size.

    z: distinct estimates. theta: frequencies of the prior. Both are divided by the noise level.
    Each block contains a slice of z, the likelihoods of these estimates at each frequency, of shape
    (n_block, n_theta), and their marginal densities under the prior, of shape (n_block,).
    """
    step = max(_AT_ONCE // len(theta), 1)
    for start in range(0, len(z), step):
        rows = slice(start, start + step)
        log = row.sample.law.log_density(z[rows], theta)
        likelihood = np.exp(log - log.max(axis=1, keepdims=True))
        yield rows, likelihood, np.maximum(likelihood @ row.prior, 1e-300)
