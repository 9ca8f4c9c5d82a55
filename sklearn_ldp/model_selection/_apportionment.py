"""Turn frequencies into whole numbers of users."""

from __future__ import annotations

import numpy as np


def apportion(frequencies: np.ndarray, n_samples: int) -> np.ndarray:
    """Return whole numbers of users with these frequencies, by largest remainders.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        Negative frequencies count as 0; if none is positive, all are taken as equal.
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
