"""The Walsh-Hadamard transform."""

from __future__ import annotations

import numpy as np


def walsh_hadamard(x: np.ndarray) -> np.ndarray:
    """Return the Walsh-Hadamard transform along the last axis, whose length is a power of two.

    Parameters
    ----------
    x : ndarray of shape (..., K)
        Numbers.

    Returns
    -------
    ndarray of shape (..., K)
        ``sum over y of x[y] (-1)**popcount(r & y)`` for each r; exact for integers.
    """
    shape, size = x.shape, x.shape[-1]
    step = 1
    while step < size:
        pairs = x.reshape(*shape[:-1], size // (2 * step), 2, step)
        even, odd = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([even + odd, even - odd], axis=-2).reshape(shape)
        step *= 2
    return x
