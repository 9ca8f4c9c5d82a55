"""Many clients at once: the coins of each user, and the number of users per chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from ..mechanisms._coins import CoinStreams
from ..mechanisms._mechanism import Mechanism

_CHUNK_BYTES = 1 << 25  # the most memory for a chunk of reports


def privatize(
    mechanism: Mechanism,
    codes: np.ndarray,
    first: int,
    streams: CoinStreams,
    *,
    for_sums: bool = False,
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
    for_sums : bool, default=False
        Whether the reports are only to be tallied, see `Mechanism.draw`.

    Returns
    -------
    ndarray whose first axis is the users
        The reports.
    """
    randomise = mechanism.draw if for_sums else mechanism.privatize
    pieces: Iterator[np.ndarray]
    if streams.is_secure:
        coins, size = streams.block(0), chunk_users(mechanism)
        spans = range(0, max(len(codes), 1), size)
        pieces = (randomise(codes[start : start + size], coins) for start in spans)
    else:
        pieces = _seeded(randomise, codes, first, streams, block_users(mechanism))
    return _concatenated(pieces, len(codes))


def _seeded(
    randomise: Callable, codes: np.ndarray, first: int, streams: CoinStreams, size: int
) -> Iterator[np.ndarray]:
    for block in range(first // size, -(-(first + len(codes)) // size)):
        start, stop = max(first, block * size), min(first + len(codes), (block + 1) * size)
        padded = np.zeros((size, *codes.shape[1:]), dtype=codes.dtype)
        inside = slice(start - block * size, stop - block * size)
        padded[inside] = codes[start - first : stop - first]
        yield randomise(padded, streams.block(block))[inside]


def _concatenated(pieces: Iterator[np.ndarray], n: int) -> np.ndarray:
    """Join pieces of n rows in all, of which only one is held beside the result."""
    first = next(pieces)
    if len(first) == n:
        return first
    result = np.empty((n, *first.shape[1:]), dtype=first.dtype)
    stop = 0
    for piece in chain([first], pieces):
        start, stop = stop, stop + len(piece)
        result[start:stop] = piece
    return result


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
