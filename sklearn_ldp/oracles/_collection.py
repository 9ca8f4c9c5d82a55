"""Adding up reports: exact integer counts, by shard, one chunk of users at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
from joblib import Parallel, delayed

from ._channel import Channel
from ._sampling import CoinStreams

_CHUNK_BYTES = 1 << 25  # what a chunk of reports may take
_MAX_CELLS = 1 << 23  # 64 MiB of counts: beyond, shards are not kept apart


class Collection:
    """The tallies of all reports so far, by shard; immutable, `added` returns a new one.

    Parameters
    ----------
    channel : Channel
        What the reports are of.
    tallies : ndarray of shape (n_shards, tally_size)
        Sums of the shards' tallies.
    sizes : ndarray of shape (n_shards,)
        Number of reports of each shard.
    """

    def __init__(self, channel: Channel, tallies: np.ndarray, sizes: np.ndarray):
        self.channel = channel
        self.tallies = tallies
        self.sizes = sizes

    @classmethod
    def empty(cls, channel: Channel, n_shards: int) -> Collection:
        """No reports; a single shard where more would not fit in memory."""
        return cls.of_parts(channel, n_shards if cls.fits(channel, n_shards) else 1)

    @staticmethod
    def fits(channel: Channel, n_shards: int) -> bool:
        """Whether so many shards are few enough to be kept apart."""
        return n_shards * channel.tally_size <= _MAX_CELLS

    @classmethod
    def of_parts(cls, channel: Channel, n_shards: int) -> Collection:
        """No reports in so many shards, whatever they take."""
        tallies = np.zeros((n_shards, channel.tally_size), dtype=np.int64)
        return cls(channel, tallies, np.zeros(n_shards, dtype=np.int64))

    @property
    def n_samples(self) -> int:
        """Number of reports."""
        return int(self.sizes.sum())

    @cached_property
    def support(self) -> np.ndarray:
        """Support counts of all reports, int64 of shape (d,)."""
        return self.channel.decode(self.tallies.sum(axis=0, keepdims=True))[0]

    def added(
        self,
        n: int,
        make_reports: Callable[[int, int], np.ndarray],
        n_jobs: int | None,
        shards_of: Callable[[int, int], np.ndarray] | None = None,
    ) -> Collection:
        """Return the collection with n reports added.

        Parameters
        ----------
        n : int
            How many.
        make_reports : callable
            ``make_reports(start, stop)`` gives reports start .. stop of the n.
        n_jobs : int or None
            Threads.
        shards_of : callable, default=None
            ``shards_of(start, stop)`` gives their shards; None deals them out in turn, by their
            position in the collection.
        """
        n_shards, first = len(self.sizes), self.n_samples

        def parts(start, stop):
            """Shards, and which of the reports are theirs."""
            if shards_of is None or n_shards == 1:
                for offset in range(min(n_shards, stop - start)):
                    yield (first + start + offset) % n_shards, slice(offset, None, n_shards)
            else:
                shards = shards_of(start, stop)
                order = np.argsort(shards, kind="stable")
                present, begin = np.unique(shards[order], return_index=True)
                yield from zip(present, np.split(order, begin[1:]), strict=True)

        def work(start, stop):
            reports = make_reports(start, stop)
            return [
                (shard, len(own), self.channel.tally(own))
                for shard, rows in parts(start, stop)
                if len(own := reports[rows])
            ]

        spans = _spans(n, chunk_users(self.channel))
        parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
        tallies, sizes = self.tallies.copy(), self.sizes.copy()
        for counted in parallel(delayed(work)(*span) for span in spans):
            for shard, size, tally in counted:
                sizes[shard] += size
                tallies[shard] += tally
        return Collection(self.channel, tallies, sizes)

    def merged(self, other: Collection) -> Collection:
        """Return the sum of two collections of the same channel."""
        return Collection(self.channel, self.tallies + other.tallies, self.sizes + other.sizes)


def privatize(channel: Channel, codes: np.ndarray, first: int, streams: CoinStreams) -> np.ndarray:
    """Randomise codes of users who stand at positions first, first + 1, .. of the collection.

    In a seeded run the users of a block share a stream, and each block is drawn whole, so that
    the coins of a user depend on the seed and on her position alone.
    """
    if streams.is_secure:
        return channel.privatize(codes, streams.block(0))
    size = block_users(channel)
    parts = []
    for block in range(first // size, -(-(first + len(codes)) // size)):
        start, stop = max(first, block * size), min(first + len(codes), (block + 1) * size)
        padded = np.zeros(size, dtype=codes.dtype)
        inside = slice(start - block * size, stop - block * size)
        padded[inside] = codes[start - first : stop - first]
        parts.append(channel.privatize(padded, streams.block(block))[inside])
    return np.concatenate(parts)


def block_users(channel: Channel) -> int:
    """Number of users who share a stream of coins: part of what a seed means."""
    return 1 << int(np.clip(22 - np.log2(channel.report_bytes), 6, 15))


def chunk_users(channel: Channel) -> int:
    """Number of users worked on at a time, a multiple of a block."""
    block = block_users(channel)
    return block * max(1, min(_CHUNK_BYTES // channel.report_bytes // block, 8))


def expand(ends: np.ndarray | None, start: int, stop: int) -> slice | np.ndarray:
    """Rows of users start .. stop; the users of row i end at ``ends[i]``, one a row if None."""
    if ends is None:
        return slice(start, stop)
    low, high = np.searchsorted(ends, [start, stop - 1], side="right")
    inside = np.diff(np.clip(ends[low : high + 1], start, stop), prepend=start)
    return np.repeat(np.arange(low, high + 1), inside)


def _spans(n: int, size: int) -> Iterable[tuple[int, int]]:
    return ((start, min(start + size, n)) for start in range(0, n, size))
