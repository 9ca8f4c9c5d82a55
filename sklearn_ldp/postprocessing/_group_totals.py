"""Totals of groups, between those of the raw estimate and those of a processed one."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logsumexp

from .._noise import Noise, variances_after_norm
from ._group_priors import log_loss_share
from ._normalization import norm_sub
from ._partitions import Partition

_NO_EXCESS = 0.8  # prior probability that the processed totals leave out nothing
_EXCESSES = np.exp(np.arange(-6, 8.01, 0.5))  # in units of what chance leaves between the totals
_FEW = 4  # groups whose variances are exact in any case ..
_CHEAP = 500_000  # .. and of how many categories, over all groups, those of all groups are
_LEAST = 0.02  # of the raw totals' variance that chance leaves at least


def shrunken_totals(
    raw: np.ndarray,
    processed: np.ndarray,
    partition: Partition,
    variances: np.ndarray,
    posterior_variances: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return totals of groups, with as much of the raw ones as these deserve.

    The raw total of a group differs from the processed one by chance, as far as the model of the
    latter says, or because the model leaves something out that the members of a group have in
    common. The variance of that excess is learnt from all groups, and averaged over (unpublished).

    Parameters
    ----------
    raw : ndarray of shape (d,)
        Raw estimate that sums to 1.
    processed : ndarray of shape (d,)
        Processed estimate that sums to 1.
    partition : Partition
        The groups.
    variances : ndarray of shape (n_groups,)
        Variances of the raw totals.
    posterior_variances : ndarray of shape (n_groups,)
        Variances of the processed totals' errors under their model.

    Returns
    -------
    totals : ndarray of shape (n_groups,)
        They are non-negative, and sum to 1.
    weights : ndarray of shape (n_groups,)
        Weight of the raw total in each.
    """
    sizes = partition.sizes()
    spread = sizes * (1 - sizes / len(partition.codes))
    if len(sizes) < 2 or not np.all(variances[spread > 0] > 0):
        return partition.sums(processed), np.zeros(len(sizes))
    gaps = partition.sums(raw) - partition.sums(processed)
    # Of a small group it would depend on chance how much chance leaves, hence the same for all.
    chance = np.sum(variances - posterior_variances)
    chance = max(chance, _LEAST * variances.sum()) * spread / spread.sum()
    excess = _EXCESSES[:, None] * sizes * chance.sum() / sizes.sum()

    def log_likelihood(total: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum(np.log(total) + gaps**2 / total, axis=-1)

    scores = log_likelihood(chance + excess)
    weights = np.exp(scores - logsumexp(scores)) @ (excess / (chance + excess))
    odds = logsumexp(scores) - np.log(len(scores)) - log_likelihood(chance)
    odds += np.log((1 - _NO_EXCESS) / _NO_EXCESS)
    moves = weights * gaps
    weights = weights * log_loss_share(
        float(expit(odds)),
        float(posterior_variances.sum()),
        float(np.sum(weights * variances + (1 - weights) * posterior_variances)),
        float(moves @ moves),
    )
    totals = partition.sums(processed) + weights * gaps
    return norm_sub(totals[None])[0], weights


def total_variances(noise: Noise, partition: Partition, frequencies: np.ndarray) -> np.ndarray:
    """Return the variances of the totals of groups of a raw estimate, after Norm.

    Parameters
    ----------
    noise : Noise
        The noise of the raw estimate.
    partition : Partition
        The groups.
    frequencies : ndarray of shape (d,)
        Frequencies of all categories.

    Returns
    -------
    ndarray of shape (n_groups,)
        Those of a mechanism with covariances, which take a pass over all reports for each group,
        are exact for a few groups in large domains. For the others, the variances without
        covariances are multiplied by the ratio that these few have.
    """
    d, n_groups = len(frequencies), len(partition.names)
    rows = partition.rows()
    if n_groups <= _FEW or d * n_groups <= _CHEAP:
        return variances_after_norm(noise, rows, frequencies)
    sizes = partition.sizes()
    single = np.maximum(np.ravel(noise.variance(frequencies)), 0)
    plain = partition.sums(single) * (1 - 2 * sizes / d) + (sizes / d) ** 2 * single.sum()
    by_size = np.argsort(sizes, kind="stable")
    few = by_size[np.linspace(0, n_groups - 1, _FEW).astype(np.int64)]
    exact = variances_after_norm(noise, rows[few], frequencies)
    return plain * (exact.sum() / plain[few].sum())


def with_totals(values: np.ndarray, partition: Partition, totals: np.ndarray) -> np.ndarray:
    """Return non-negative values that have these totals: Norm-Sub within each group.

    Parameters
    ----------
    values : ndarray of shape (d,)
        Non-negative values.
    partition : Partition
        The groups.
    totals : ndarray of shape (n_groups,)
        Non-negative totals.

    Returns
    -------
    ndarray of shape (d,)
        The values, each group's moved by the same amount as far as they stay positive.

    Notes
    -----
    This is Michelot's projection: members that would not be positive leave, until all that stay
    are.
    """
    stays = np.ones(len(values), dtype=bool)
    while True:
        codes = partition.codes[stays]
        n_left = np.bincount(codes, minlength=len(totals))
        sums = np.bincount(codes, weights=values[stays], minlength=len(totals))
        moves = ((sums - totals) / np.maximum(n_left, 1))[partition.codes]
        positive = stays & (values > moves)
        if np.array_equal(positive, stays):
            return np.where(stays, values - moves, 0)
        stays = positive
