"""A uniform shuffle of columns of reports that need not fit into memory."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._utils.random import RandomState, as_generator

HELD_BYTES = 1 << 26  # in memory; what is more goes to a temporary file
_ORDER_BYTES = 16  # of a random key and an index, for each row
_N_BUCKETS = 256

Columns = list[np.ndarray]


class Shuffle:
    """Collect columns piece by piece, and return their rows in uniformly random order.

    Few rows are shuffled in memory. Many are dealt out at random to the buckets of a temporary
    file, and each bucket is shuffled by itself. All orders are as likely then: it is to sort the
    rows by random numbers, by their first digit first.

    A context manager, at whose end the temporary file is removed.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None
        Source of randomness; None is the secure source.
    """

    def __init__(self, random_state: RandomState) -> None:
        self._rng = None if random_state is None else as_generator(random_state)
        self._held: list[Columns] = []
        self._held_bytes = 0
        self._file: Any = None
        # Where the rows of each bucket stand in the file: (place, bytes) of every piece.
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(_N_BUCKETS)]

    def __enter__(self) -> Shuffle:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, columns: Columns, may_spill: bool) -> None:
        """Add rows; they stay in memory if they may not go to a temporary file."""
        self._held.append(columns)
        self._held_bytes += sum(column.nbytes for column in columns)
        self._held_bytes += _ORDER_BYTES * len(columns[0])
        if may_spill and self._held_bytes > HELD_BYTES:
            self._spill()

    def finish(self) -> Iterable[Columns]:
        """The shuffled rows in pieces, which can be gone through more than once."""
        if self._file is None:
            columns = self._joined()
            order = self._permutation(len(columns[0]))
            return [[column[order] for column in columns]]
        if self._held:
            self._spill()
        for places in self._places:
            rows = self._read(places)
            content, start = rows[self._permutation(len(rows))].tobytes(), 0
            for place, size in places:
                self._file.seek(place)
                self._file.write(content[start : start + size])
                start += size
        return self

    def __iter__(self) -> Iterator[Columns]:
        return (self._columns(self._read(places)) for places in self._places if places)

    def _joined(self) -> Columns:
        columns = [np.concatenate(pieces) for pieces in zip(*self._held, strict=True)]
        self._held, self._held_bytes = [], 0
        return columns

    def _permutation(self, n: int) -> np.ndarray:
        """A uniform permutation: the order of random 64-bit keys."""
        if self._rng is not None:
            return self._rng.permutation(n)
        return np.argsort(np.frombuffer(os.urandom(8 * n), dtype=np.uint64))

    def _buckets_of(self, n: int) -> np.ndarray:
        """A bucket for each of n rows, which one byte of randomness decides."""
        if self._rng is not None:
            return self._rng.integers(_N_BUCKETS, size=n, dtype=np.uint8)
        return np.frombuffer(os.urandom(n), dtype=np.uint8)

    def _spill(self) -> None:
        """Write the rows to the file, the rows of a bucket together."""
        columns = self._joined()
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            self._like = [column[:0] for column in columns]
        n = len(columns[0])
        buckets = self._buckets_of(n)
        rows = np.concatenate([c.reshape(n, -1).view(np.uint8) for c in columns], axis=1)
        size, place = rows.shape[1], self._file.seek(0, os.SEEK_END)
        self._file.write(rows[np.argsort(buckets, kind="stable")].data)
        for places, m in zip(self._places, np.bincount(buckets, minlength=_N_BUCKETS), strict=True):
            if m:
                places.append((place, int(m) * size))
                place += int(m) * size

    def _read(self, places: list[tuple[int, int]]) -> np.ndarray:
        """The rows of a bucket as bytes, of shape (n, bytes per row)."""
        content = bytearray()
        for place, size in places:
            self._file.seek(place)
            content += self._file.read(size)
        return np.frombuffer(content, np.uint8).reshape(-1, sum(map(_width, self._like)))

    def _columns(self, rows: np.ndarray) -> Columns:
        columns, start = [], 0
        for like in self._like:
            flat = np.ascontiguousarray(rows[:, start : start + _width(like)]).view(like.dtype)
            columns.append(flat.reshape(len(rows), *like.shape[1:]))
            start += _width(like)
        return columns


def _width(column: np.ndarray) -> int:
    """Bytes of a row in a column."""
    return column.itemsize * math.prod(column.shape[1:])
