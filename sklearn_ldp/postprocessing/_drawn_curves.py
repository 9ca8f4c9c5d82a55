"""The average of fixed candidate distributions, weighted by the likelihood of the reports."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri, softmax
from scipy.stats.qmc import Sobol

from ..oracles.channels import ReportLaw

# Chosen on 27 November 2026 on Beta(5, 2), two peaks and a slope (doc/notes/numbers.md, "SmoothMLE
# and few users").
_MOST_WAVES = 8
_SCALES = np.array([0.5, 1.0])  # standard deviations of the slowest wave, in log-frequencies
_N_DRAWS = 512  # of each scale; each draw is also used reversed
_EVEN = 0.4  # prior probability of equal frequencies
# Curves cannot show a bin with many users, such as zeros. Chosen on 2026-11-28 among twelve
# variants on the populations of `python -m benchmarks.accuracy._simple_numbers --populations
# tune` and fifteen others of 16 and 64 bins (doc/notes/numbers.md).
_HEAVY = 0.3  # prior probability that one cell has many users, and that the others are equal
_HEAVY_SHARES = np.array([0.3, 0.5, 0.7, 0.9, 1.0])  # fraction of the users in this cell
_MOST_CELLS = 128  # more bins share cells, because smooth curves hardly differ within
_CENTERINGS = 12  # after which means deviate by 1e-8 from even means
_AT_ONCE = 256  # distinct reports, to limit the memory


class DrawnAverage(NamedTuple):
    """The result of `average_of_drawn`.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        The posterior mean of the frequencies. They are not negative and sum to 1.
    evidence : float
        Logarithm of the marginal likelihood: the likelihood of the reports, averaged over the
        candidate distributions with their prior probabilities.
    n_effective : float
        Effective number of smooth curves among the candidates: one divided by the sum of the
        squared posterior weights of these curves.
    """

    frequencies: np.ndarray
    evidence: float
    n_effective: float


def average_of_drawn(tally: np.ndarray, law: ReportLaw, n_categories: int) -> DrawnAverage:
    """Average fixed candidate distributions, weighted by the likelihood of the reports.

    The candidate distributions are: equal frequencies; smooth curves; and distributions in which
    one bin has many of the users while all other bins have equal frequencies.

    Parameters
    ----------
    tally : ndarray of shape (n_kinds,)
        Number of times that each possible report was received.
    law : ReportLaw
        The probability of each possible report for each category.
    n_categories : int
        The number d of categories, which are ordered bins.

    Returns
    -------
    DrawnAverage
        The posterior mean, the logarithm of the marginal likelihood, and the effective number of
        smooth curves.
    """
    n_cells = min(n_categories, _MOST_CELLS)
    ends = np.arange(n_categories + 1)[:, None] * n_cells / n_categories
    shares = np.diff(np.clip(ends - np.arange(n_cells), 0, 1), axis=0)  # of a cell: (d, n_cells)
    curves = _drawn(n_cells)
    seen = np.flatnonzero(tally)
    chances = law.products(shares)[seen].T
    n_heavy = n_cells * len(_HEAVY_SHARES)
    n_drawn = len(curves) - 1 - n_heavy
    prior = np.array([_EVEN, 1 - _EVEN]) * (1 - _HEAVY)
    each = np.append(prior, _HEAVY) / [1, n_drawn, n_heavy]
    heights = np.repeat(np.log(each), [1, n_drawn, n_heavy])
    for start in range(0, len(seen), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        likely = np.maximum(curves @ chances[:, some], np.finfo(float).tiny)
        heights += np.log(likely, out=likely) @ tally[seen[some]]
    frequencies = shares @ (softmax(heights) @ curves)
    among_drawn = softmax(heights[1:])[:n_drawn]
    n_effective = 1 / float(among_drawn @ among_drawn)
    return DrawnAverage(frequencies, float(logsumexp(heights)), n_effective)


@lru_cache(maxsize=4)
def _drawn(n_cells: int) -> np.ndarray:
    """Return the candidate distributions of `average_of_drawn`, of shape (n_rows, n_cells).

    Each row is one distribution: first equal frequencies, then the smooth curves, then the
    distributions with one heavy bin. A cell is one bin, or several bins with equal frequencies.
    """
    # The points fill the cube evenly, so nothing is random. Without even means for each scale, wide
    # scales would expect most users at the ends.
    waves = np.arange(1, min(_MOST_WAVES, n_cells - 1) + 1)
    places = (np.arange(n_cells) + 0.5) / n_cells
    cube = Sobol(len(waves), scramble=False).random(_N_DRAWS) + 0.5 / _N_DRAWS
    curves = ndtri(cube) / waves @ (np.sqrt(2) * np.cos(np.pi * np.outer(waves, places)))
    logits = _SCALES[:, None, None] * np.concatenate([curves, curves[:, ::-1]])
    for _ in range(_CENTERINGS):
        logits -= np.log(softmax(logits, axis=2).mean(axis=1, keepdims=True) * n_cells)
    drawn = softmax(logits, axis=2).reshape(-1, n_cells)
    excess = _HEAVY_SHARES[:, None, None] * (np.eye(n_cells) - 1 / n_cells)
    heavy = 1 / n_cells + excess.reshape(-1, n_cells)
    rows = np.vstack([np.full(n_cells, 1 / n_cells), drawn, heavy])
    rows.flags.writeable = False
    return rows
