"""A uniform shuffle of columns of reports that need not fit into memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._random import RandomState, as_generator

HELD_BYTES = 1 << 26  # in memory; what is more goes to a temporary file
_ORDER_BYTES = 16  # of a random key and an index, for each row
_READ_BYTES = 1 << 23
_N_PARTS = 256

Columns = list[np.ndarray]


class Shuffle:
    """Collect columns piece by piece, and return their rows in uniformly random order.

    Few rows are shuffled in memory. Many are dealt out at random to the parts of a temporary file,
    and each part is shuffled by itself. All orders are as likely then: it is to sort the rows by
    random numbers, by their first digit first.

    A context manager, at whose end the temporary files are removed.

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
        self._rows: Rows | None = None
        self._blocks: list[list[tuple[int, int]]] = [[] for _ in range(_N_PARTS)]

    def __enter__(self) -> Shuffle:
        return self

    def __exit__(self, *error: object) -> None:
        for file in (self._file, self._rows):
            if file is not None:
                file.close()

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
        rows = self._rows = Rows(self._like)
        for blocks in self._blocks:
            part = b"".join(self._read(*block) for block in blocks)
            matrix = np.frombuffer(part, np.uint8).reshape(-1, rows.n_bytes)
            rows.write(matrix[self._permutation(len(matrix))])
        self._file.close()
        return rows

    def _joined(self) -> Columns:
        columns = [np.concatenate(parts) for parts in zip(*self._held, strict=True)]
        self._held, self._held_bytes = [], 0
        return columns

    def _permutation(self, n: int) -> np.ndarray:
        """A uniform permutation: the order of random 64-bit keys."""
        if self._rng is not None:
            return self._rng.permutation(n)
        return np.argsort(np.frombuffer(os.urandom(8 * n), dtype=np.uint64))

    def _parts_of(self, n: int) -> np.ndarray:
        """A part for each of n rows, which one byte of randomness decides."""
        if self._rng is not None:
            return self._rng.integers(_N_PARTS, size=n, dtype=np.uint8)
        return np.frombuffer(os.urandom(n), dtype=np.uint8)

    def _spill(self) -> None:
        """Write the rows to the file, the rows of a part together."""
        columns = self._joined()
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            self._like = [column[:0] for column in columns]
        parts = self._parts_of(len(columns[0]))
        matrix = _as_bytes(columns)[np.argsort(parts, kind="stable")]
        size, place = matrix.shape[1], self._file.seek(0, os.SEEK_END)
        self._file.write(matrix.data)
        for part, n in enumerate(np.bincount(parts, minlength=_N_PARTS).tolist()):
            self._blocks[part].append((place, n * size))
            place += n * size

    def _read(self, place: int, size: int) -> bytes:
        self._file.seek(place)
        return self._file.read(size)


class Rows:
    """Rows in a temporary file, which disappears when it is closed.

    Parameters
    ----------
    like : list of ndarray
        Empty columns, of the types and widths of those that are yielded.
    """

    def __init__(self, like: Columns) -> None:
        self._like = like
        self._widths = [column.itemsize * int(np.prod(column.shape[1:])) for column in like]
        self.n_bytes = sum(self._widths)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115

    def write(self, matrix: np.ndarray) -> None:
        """Add rows, given by their bytes."""
        self._file.write(np.ascontiguousarray(matrix).data)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def __iter__(self) -> Iterator[Columns]:
        size = max(_READ_BYTES // self.n_bytes, 1) * self.n_bytes
        place = 0
        while True:
            self._file.seek(place)
            content = self._file.read(size)
            if not content:
                return
            place += len(content)
            yield self._columns(np.frombuffer(content, np.uint8).reshape(-1, self.n_bytes))

    def _columns(self, matrix):
        columns, start = [], 0
        for like, width in zip(self._like, self._widths, strict=True):
            flat = np.ascontiguousarray(matrix[:, start : start + width]).view(like.dtype)
            columns.append(flat.reshape(len(matrix), *like.shape[1:]))
            start += width
        return columns


def _as_bytes(columns: Columns) -> np.ndarray:
    """The rows of all columns as bytes, of shape (n, bytes per row)."""
    n = len(columns[0])
    parts = [np.ascontiguousarray(column).reshape(n, -1).view(np.uint8) for column in columns]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
