"""Functions that make the estimates in each row sum to 1, such as the projection on the simplex.

The simplex is the set of vectors with entries >= 0 that sum to 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def norm_shift(F: np.ndarray) -> np.ndarray:
    """Return, for each row of F, the number that `norm` adds to each estimate of the row.

    Shapes: F (..., d) -> (..., 1).
    """
    return (1.0 - F.sum(axis=-1, keepdims=True)) / F.shape[-1]


def norm(F: ArrayLike) -> np.ndarray:
    """Add the same amount to all estimates of a row so that they sum to 1 (method "Norm").

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.

    Returns
    -------
    ndarray of shape (..., d)
        Rows that sum to 1. Some estimates may be negative.
    """
    F = np.asarray(F, dtype=np.float64)
    return F + norm_shift(F)


def norm_sub(F: ArrayLike) -> np.ndarray:
    """Project each row on the simplex, which is the method "Norm-Sub".

    The same number is added to all estimates of a row, and negative results are set to 0.

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.

    Returns
    -------
    ndarray of shape (..., d)
        ``max(F + shift, 0)``, where the shift of each row is such that the row sums to 1. Each row
        is the point of the simplex with the smallest Euclidean distance to the row of F, which is
        the solution of constrained least squares (Appendix A of T. Wang et al., "Locally
        differentially private frequency estimation with consistency", NDSS 2020).
    """
    return project(np.asarray(F, dtype=np.float64))[0]


def project(
    F: np.ndarray, total: float | np.ndarray = 1.0, among: bool | np.ndarray = True
) -> tuple[np.ndarray, np.ndarray]:
    """Project each row on the vectors with non-negative entries and a given sum.

    The same shift is added to all entries of the row, and negative results are set to 0. Entries at
    which `among` is False are set to 0 and do not count. Return the projected rows and the shifts.

    Shapes: F (..., d), total (..., 1), among (..., d) -> (..., d), (..., 1).
    """
    # The support of the result is a prefix of the sorted estimates: the longest prefix whose last
    # member stays positive.
    if not F.shape[-1]:  # an estimate without categories, for example if no string was found
        return F, np.sum(F, axis=-1, keepdims=True)
    # Only differences matter. Differences from the largest estimate lose the fewest digits.
    # The shift is at most the total, so an entry that is further below the largest one becomes 0.
    lowest = -1.0 - total
    peak = F.max(axis=-1, keepdims=True, where=among, initial=-np.inf)
    below = np.maximum(F - peak, lowest)
    if among is not True:
        below = np.where(among, below, lowest)
    rising = np.sort(-below, axis=-1)
    shift = (total + np.cumsum(rising, axis=-1)) / np.arange(1, F.shape[-1] + 1)
    n_support = np.count_nonzero(shift > rising, axis=-1, keepdims=True)
    shift = np.take_along_axis(shift, np.maximum(n_support - 1, 0), axis=-1)
    return np.maximum(below + shift, 0.0), shift - peak


def apportion(frequencies: np.ndarray, n_samples: int) -> np.ndarray:
    """Convert frequencies to whole numbers of users, by the largest remainder method.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        Negative frequencies are replaced by 0. If no frequency is positive, all are replaced by
        equal frequencies.
    n_samples : int
        Total number of users.

    Returns
    -------
    ndarray of shape (d,)
        Counts that sum to `n_samples`.
    """
    share = np.maximum(frequencies, 0.0)
    share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1 / len(share))
    exact = share * n_samples
    counts = np.floor(exact).astype(np.int64)
    missing = n_samples - int(counts.sum())
    if missing > 0:
        counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    elif missing < 0:  # rounding of the shares: at most a few users too many
        counts[np.argsort(-counts, kind="stable")[:-missing]] -= 1
    return counts
