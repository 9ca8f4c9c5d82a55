"""The Fourier transform over the additive group of a finite vector space."""

from __future__ import annotations

import numpy as np
from scipy import fft

from ._finite_field import FiniteField
from ._walsh_hadamard import walsh_hadamard


def additive_transform(
    field: FiniteField, n_digits: int, x: np.ndarray, *, inverse: bool = False
) -> np.ndarray:
    """Return the Fourier transform over the last axis, whose places are vectors (not normalised).

    Vectors are added by adding the base-p digits of their numbers, where p is the characteristic.

    Parameters
    ----------
    field : FiniteField
        GF(g).
    n_digits : int
        Dimension k of the space.
    x : ndarray of shape (..., g**k)
        One number per vector.
    inverse : bool, default=False
        Whether to take the conjugate characters.

    Returns
    -------
    ndarray of shape (..., g**k)
        The transform: complex, or real in characteristic 2.
    """
    if field.characteristic == 2:
        return walsh_hadamard(x)
    last = x.ndim - 1
    shape = x.shape[:-1] + (field.characteristic,) * (field.degree * n_digits)
    axes = range(last, len(shape))
    if inverse:
        return fft.ifftn(x.reshape(shape), axes=axes, norm="forward").reshape(x.shape)
    return fft.fftn(x.reshape(shape), axes=axes).reshape(x.shape)
