"""Matrices of probabilities (channels) that are optimized for the prefixes of ordered bins.

The package contains some of them. The others are computed with these as starting points.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from .._core.mechanisms.matrix import integer_channel
from .._core.numerics.mirrored import mirrored_channel, resized

#: Numbers of bins for which this module has channels.
PREFIX_SIZES = range(16, 257)
# Above this budget, the windows of a channel span few bins, so that interpolation blurs them.
_MOST_EPSILON = 4.0


def prefix_integers(n_bins: int, epsilon: float, bound: float) -> np.ndarray:
    """Return a channel for the prefixes of `n_bins` ordered bins, as integers over 2**64.

    A channel contains the probability of each output given each bin. It is optimized for `epsilon`.
    It satisfies the privacy budget `bound`, which may be larger than `epsilon`.
    """
    starts = []
    source = files(__package__).joinpath("data", "prefix_channels.npz")
    with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        stored = [name.split("_") for name in archive.files]
        size = min(int(size) for size, _ in stored if int(size) >= n_bins)
        budgets = [float(budget) for name, budget in stored if int(name) == size]
        nearest = max((budget for budget in budgets if budget <= epsilon), default=None)
        if size == n_bins and nearest == epsilon:
            return archive[f"{size}_{nearest:g}"]
        if nearest is not None and epsilon <= _MOST_EPSILON:
            channel = archive[f"{size}_{nearest:g}"] / 2.0**64
            starts.append(channel if size == n_bins else resized(channel, n_bins))
    prefixes = np.tri(n_bins)
    prefixes -= prefixes.mean(axis=1, keepdims=True)
    return integer_channel(mirrored_channel(prefixes.T @ prefixes, epsilon, starts), bound)
