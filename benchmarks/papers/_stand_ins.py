"""A whole data set made of a part: counts at the paper's n and d."""

from __future__ import annotations

import numpy as np
from scipy.stats import poisson

_ITERATIONS = 500


def scaled(counts: np.ndarray, n_samples: int) -> np.ndarray:
    """As many users with the same frequencies, to the nearest whole numbers."""
    exact = counts / counts.sum() * n_samples
    floor = np.floor(exact).astype(np.int64)
    missing = n_samples - int(floor.sum())
    floor[np.argsort(floor - exact, kind="stable")[:missing]] += 1
    return floor


def widened(counts: np.ndarray, n_categories: int) -> np.ndarray:
    """The counts, and zeros for the categories that the part has not seen."""
    return np.concatenate([counts, np.zeros(n_categories - len(counts), dtype=counts.dtype)])


def completed(
    part: np.ndarray, share: float, rng: np.random.Generator, *, least: int = 1
) -> np.ndarray:
    """Draw whole counts, given those of a part.

    A category with k users in all has Poisson(share * k) of them in the part. The distribution of k
    over the categories is the mixture of greatest likelihood (by EM, on a geometric grid). Each
    category then has its users in the part, and others drawn given these.

    Parameters
    ----------
    part : ndarray of shape (d,)
        Users in the part; 0 for categories that are in the whole only.
    share : float
        The part's share of all users.
    rng : Generator
        Draws what the part does not tell.
    least : {0, 1}
        Least users of a category in the whole: 1 if d counts the categories that occur.

    Returns
    -------
    ndarray of shape (d,)
        Users of each category in the whole.
    """
    distinct, place, times = np.unique(part, return_inverse=True, return_counts=True)
    most = 1.5 * distinct[-1] / share + 10
    support = np.unique(np.round(np.geomspace(1, most, 200)))
    support = np.concatenate([[0.0], support]) if least == 0 else support
    likelihood = poisson.pmf(distinct[:, None], support * share)
    weights = np.full(len(support), 1 / len(support))
    for _ in range(_ITERATIONS):
        given = likelihood * weights
        given /= given.sum(axis=1, keepdims=True)
        weights = times @ given / len(part)
    whole = np.empty(len(part), dtype=np.int64)
    for i, k in enumerate(distinct):
        where = np.flatnonzero(place == i)
        rate = rng.choice(support, p=given[i], size=len(where))
        whole[where] = np.maximum(k + rng.poisson(rate * (1 - share)), least)
    return whole


def head_and_tail(
    head: np.ndarray, part: np.ndarray, share: float, n_samples: int, rng: np.random.Generator
) -> np.ndarray:
    """Known counts of the largest categories, and completed ones of all others.

    Parameters
    ----------
    head : ndarray of shape (h,)
        Counts in the whole.
    part : ndarray of shape (d - h,)
        Counts of the other categories in the part.
    share, rng
        See `completed`.
    n_samples : int
        Users of the whole.

    Returns
    -------
    ndarray of shape (d,)
        Counts in the whole: those of the head first.
    """
    tail = completed(part, share, rng)
    return np.concatenate([head, scaled(tail, n_samples - int(head.sum()))])


def scaled_part(part: np.ndarray, n_samples: int, n_categories: int) -> np.ndarray:
    """The part's frequencies at the size of the whole; no users where the part has none."""
    return widened(scaled(part, n_samples), n_categories)
