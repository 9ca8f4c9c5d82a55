"""The Walsh-Hadamard transform."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_AT_ONCE = 5  # bits of the places that one product of matrices transforms
_EXACT = 2**53  # whole numbers up to it are floats


def walsh_hadamard(x: np.ndarray) -> np.ndarray:
    """Return the Walsh-Hadamard transform along the last axis, whose length is a power of two.

    Parameters
    ----------
    x : ndarray of shape (..., K)
        Real numbers.

    Returns
    -------
    ndarray of shape (..., K)
        ``sum over y of x[y] (-1)**popcount(r & y)`` for each r; exact for integers.
    """
    if x.dtype.kind not in "iub":
        return _by_products(x)
    whole = x.astype(np.int64)
    if np.abs(whole, dtype=np.float64).sum(axis=-1).max(initial=0) < _EXACT:
        return np.rint(_by_products(whole)).astype(np.int64)
    return _by_pairs(whole)


def _by_products(x: np.ndarray) -> np.ndarray:
    """Transform the first bits of the places, move them to the end, and so on."""
    size = x.shape[-1]
    result = x.reshape(-1, size).astype(np.float64)
    n_left = size.bit_length() - 1
    while n_left:
        n_bits = -(-n_left // -(-n_left // _AT_ONCE))  # nearly as many each time
        split = result.reshape(len(result), 1 << n_bits, size >> n_bits)
        result = (_matrix(n_bits) @ split).swapaxes(1, 2).reshape(len(result), size)
        n_left -= n_bits
    return result.reshape(x.shape)


def _by_pairs(x: np.ndarray) -> np.ndarray:
    """Add and subtract whole numbers that floats do not hold."""
    shape, size = x.shape, x.shape[-1]
    step = 1
    while step < size:
        pairs = x.reshape(*shape[:-1], size // (2 * step), 2, step)
        even, odd = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([even + odd, even - odd], axis=-2).reshape(shape)
        step *= 2
    return x


@lru_cache
def _matrix(n_bits: int) -> np.ndarray:
    matrix = np.ones((1, 1))
    for _ in range(n_bits):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix
