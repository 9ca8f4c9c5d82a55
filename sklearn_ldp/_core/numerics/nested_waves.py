"""An orthonormal basis of the functions on an ordered domain, from coarse to fine resolution."""

from __future__ import annotations

import numpy as np
from scipy.fft import dct


def nested_waves(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal basis of the functions on 0 .. n-1, such that block sums need few
    functions.

    The domain is divided into blocks of 2, 4, 8, .. neighbors; these widths are the powers of two
    that divide n. The sums over all blocks of one width depend only on the basis functions that are
    constant on these blocks.

    Shapes: -> (n, n), (n,).
    Returns: the basis, one function per row; and for each function, the largest width of blocks on
    which it is constant. The first function is constant everywhere, with the width n.
    """
    widths = [1]
    # Ends: because the width doubles, and stays below n.
    while n % (2 * widths[-1]) == 0 and 2 * widths[-1] < n:
        widths.append(2 * widths[-1])
    rows = [np.full((1, n), n**-0.5)]
    constant_on = [n]
    wholes = [n, *widths[:0:-1]]
    for whole, part in zip(wholes, widths[::-1], strict=True):
        waves = dct(np.eye(whole // part), axis=0, norm="ortho")[1:] * part**-0.5
        rows.append(np.kron(np.eye(n // whole), np.repeat(waves, part, axis=1)))
        constant_on += [part] * len(rows[-1])
    return np.vstack(rows), np.array(constant_on)
