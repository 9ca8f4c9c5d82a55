"""Reports that are already counted, but not yet tallied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..mechanisms._reports import sorted_parts
from ._clients import chunk_users


class Waiting(NamedTuple):
    """Checked reports of small batches, which are quicker to tally together.

    Immutable, so that counts that share it do not see each other's additions. Its blocks shrink at
    least by half from one to the next, so that each report is copied only a few times.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism of the reports.
    blocks : tuple of (ndarray of shape (n,), ndarray of shape (n,) or (n, width))
        The part of each report (see `Counts.added`), and the reports.
    n_bytes : int
        Memory that the blocks take.
    """

    mechanism: Any
    blocks: tuple[tuple[np.ndarray, np.ndarray], ...]
    n_bytes: int

    @classmethod
    def of(cls, mechanism: Any, parts: np.ndarray, reports: np.ndarray) -> Waiting:
        """Return a single block."""
        return cls(mechanism, ((parts, reports),), parts.nbytes + reports.nbytes)

    def with_blocks(self, more: Waiting) -> Waiting:
        """Return the reports of both."""
        blocks = [*self.blocks]
        for block in more.blocks:
            while blocks and len(blocks[-1][0]) < 2 * len(block[0]):
                block = _joined([blocks.pop(), block])
            blocks.append(block)
        return Waiting(self.mechanism, tuple(blocks), self.n_bytes + more.n_bytes)

    def tallied(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield parts, each with the tally of reports of it."""
        parts, reports = _joined(self.blocks)
        size = chunk_users(self.mechanism)
        for start in range(0, len(parts), size):
            chunk = reports[start : start + size]
            for part, rows in sorted_parts(parts[start : start + size]):
                yield part, self.mechanism.tally(chunk[rows])


def can_wait(reports: np.ndarray) -> bool:
    """Whether reports stay what they are when they are joined with others of their mechanism."""
    # Booleans may be another form of reports, and NumPy makes floats of uint64 beside int64.
    return reports.dtype.kind in "iu" and reports.dtype != np.uint64


def _joined(blocks: Any) -> tuple[np.ndarray, np.ndarray]:
    parts, reports = zip(*blocks, strict=True)
    return np.concatenate(parts), np.concatenate(reports)
