"""Many clients at once: the coins of each user, and the number of users per chunk."""

from __future__ import annotations

import math

import numpy as np

from ..mechanisms._coins import CoinStreams
from ..mechanisms._mechanism import Mechanism

_CHUNK_BYTES = 1 << 25  # the most memory for a chunk of reports


def privatize(
    mechanism: Mechanism, codes: np.ndarray, first: int, streams: CoinStreams
) -> np.ndarray:
    """Randomise the codes of users at positions first, first + 1, .. of the collection.

    In a seeded run the users of a block share a stream, and each block is drawn whole, so that
    the coins of a user depend on the seed and on her position alone.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that makes reports.
    codes : ndarray whose first axis is the users
        Values as encoded by the domain.
    first : int
        The first user's position.
    streams : CoinStreams
        Source of the coins.

    Returns
    -------
    ndarray whose first axis is the users
        The reports.
    """
    if streams.is_secure:
        return mechanism.privatize(codes, streams.block(0))
    size = block_users(mechanism)
    parts = []
    for block in range(first // size, -(-(first + len(codes)) // size)):
        start, stop = max(first, block * size), min(first + len(codes), (block + 1) * size)
        padded = np.zeros((size, *codes.shape[1:]), dtype=codes.dtype)
        inside = slice(start - block * size, stop - block * size)
        padded[inside] = codes[start - first : stop - first]
        parts.append(mechanism.privatize(padded, streams.block(block))[inside])
    return np.concatenate(parts)


def block_users(mechanism: Mechanism) -> int:
    """Return the number of users who share a stream of coins, which a seed's results depend on.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that makes reports.

    Returns
    -------
    int
        A power of two.
    """
    return 1 << int(min(max(22 - math.log2(mechanism.report_bytes), 6), 15))


def chunk_users(mechanism: Mechanism) -> int:
    """Return the number of users who are processed at a time.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that makes reports.

    Returns
    -------
    int
        A multiple of `block_users`.
    """
    block = block_users(mechanism)
    return block * max(1, min(_CHUNK_BYTES // mechanism.report_bytes // block, 8))
