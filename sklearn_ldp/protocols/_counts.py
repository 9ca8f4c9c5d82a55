"""Sums of reports: exact integers by group of users and by shard, added chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from .._noise import Noise
from ..mechanisms._laws import ReportLaw
from ..mechanisms._mechanism import Mechanism
from ._clients import chunk_users

_MAX_CELLS = 1 << 23  # 64 MiB of counts: beyond that, shards are not kept apart


@dataclass(frozen=True, eq=False)
class Counts:
    """Sums of a mechanism's reports, for each group of users and each shard.

    Immutable: `added` and ``+`` return new ones. A shard is one of the disjoint parts of a group's
    reports that are kept apart so that one can be compared with the others.

    Parameters
    ----------
    tallies : ndarray of shape (n_groups, n_shards, tally_size)
        Sums of the reports' tallies, int64.
    sizes : ndarray of shape (n_groups, n_shards)
        Number of reports, int64.
    """

    tallies: np.ndarray
    sizes: np.ndarray

    @classmethod
    def empty(cls, mechanism: Mechanism, n_shards: int = 1, n_groups: int = 1) -> Counts:
        """Return the counts of no reports."""
        tallies = np.zeros((n_groups, n_shards, mechanism.tally_size), dtype=np.int64)
        return cls(tallies, np.zeros((n_groups, n_shards), dtype=np.int64))

    @staticmethod
    def most(mechanism: Mechanism, n_parts: int) -> int:
        """Return how many parts (groups or shards), at most n_parts, are kept apart in memory."""
        return max(min(n_parts, _MAX_CELLS // mechanism.tally_size), 1)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.sizes.shape[0]

    @property
    def n_shards(self) -> int:
        """Number of shards of each group."""
        return self.sizes.shape[1]

    @property
    def n_samples(self) -> int:
        """Number of reports."""
        return int(self.sizes.sum())

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.tallies + other.tallies, self.sizes + other.sizes)

    def of_shards(self, shards: slice | Sequence[int] | np.ndarray) -> Counts:
        """Return the counts of some shards of each group."""
        return Counts(self.tallies[:, shards], self.sizes[:, shards])

    def rolled(self, n: int) -> Counts:
        """Return the same counts with each shard moved on by n places, cyclically."""
        if not n % self.n_shards:
            return self
        return Counts(np.roll(self.tallies, n, axis=1), np.roll(self.sizes, n, axis=1))

    @cached_property
    def by_group(self) -> tuple[np.ndarray, np.ndarray]:
        """Tallies (n_groups, tally_size) and sizes (n_groups,), summed over the shards."""
        return self.tallies.sum(axis=1), self.sizes.sum(axis=1)

    def added(
        self,
        mechanism: Mechanism,
        n: int,
        make_reports: Callable[[int, int], np.ndarray],
        n_jobs: int | None = None,
        parts_of: Callable[[int, int], np.ndarray] | None = None,
    ) -> Counts:
        """Return the counts with n reports added.

        Parameters
        ----------
        mechanism : Mechanism
            The mechanism of the reports.
        n : int
            Number of reports.
        make_reports : callable
            ``make_reports(start, stop)`` returns ``reports[start:stop]``.
        n_jobs : int or None, default=None
            Number of threads; the result does not depend on it.
        parts_of : callable, default=None
            ``parts_of(start, stop)`` returns the part of each of these reports,
            ``group * n_shards + shard``; None deals the reports of a single group out to its
            shards in turn, by their position.
        """
        first, n_parts = self.n_samples, self.sizes.size

        def rows_of_parts(start, stop):
            if parts_of is not None and n_parts > 1:
                return _sorted_parts(parts_of(start, stop))
            offsets = range(min(n_parts, stop - start))
            return (((first + start + i) % n_parts, slice(i, None, n_parts)) for i in offsets)

        def work(start, stop):
            reports = make_reports(start, stop)
            return [
                (part, len(own), mechanism.tally(own))
                for part, rows in rows_of_parts(start, stop)
                if len(own := reports[rows])
            ]

        spans = _spans(n, chunk_users(mechanism))
        parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
        tallies, sizes = self.tallies.copy(), self.sizes.copy()
        flat, flat_sizes = tallies.reshape(n_parts, -1), sizes.reshape(n_parts)
        for counted in parallel(delayed(work)(*span) for span in spans):
            for part, size, tally in counted:
                flat_sizes[part] += size
                flat[part] += tally
        return Counts(tallies, sizes)


def _sorted_parts(parts: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each part that occurs, with the indices of its reports."""
    order = np.argsort(parts, kind="stable")
    present, begin = np.unique(parts[order], return_index=True)
    yield from zip(present, np.split(order, begin[1:]), strict=True)


def _spans(n: int, size: int) -> Iterable[tuple[int, int]]:
    return ((start, min(start + size, n)) for start in range(0, n, size))


@dataclass(frozen=True, eq=False)
class Shards:
    """Disjoint parts of one collection's reports, each of which suffices for an estimate.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism of the reports.
    of : Counts
        The counts of one group.
    """

    mechanism: Any
    of: Counts

    def __getstate__(self) -> dict[str, Any]:
        # Leaves out what is computed on demand, so that reading it does not change a hash.
        return {"mechanism": self.mechanism, "of": self.of}

    @property
    def tallies(self) -> np.ndarray:
        """Sum of the tallies of each shard, of shape (n_shards, tally_size)."""
        return self.of.tallies[0]

    @property
    def sizes(self) -> np.ndarray:
        """Number of reports in each shard, of shape (n_shards,)."""
        return self.of.sizes[0]

    @property
    def law(self) -> ReportLaw | None:
        """The law of the reports if a tally counts them by kind, otherwise None."""
        return self.mechanism.report_law

    @cached_property
    def counts(self) -> np.ndarray:
        """Support counts of each shard, int64 of shape (n_shards, d), decoded on first use."""
        return self.mechanism.decode(self.tallies)

    def estimate(self, shards: np.ndarray) -> tuple[np.ndarray, Noise]:
        """Return the frequencies estimated from some of the shards, and their noise.

        Parameters
        ----------
        shards : ndarray of int
            Indices of the shards.

        Returns
        -------
        (ndarray of shape (1, d), Noise)
            The same as for a collection of these shards alone.
        """
        decoded = self.counts[shards].sum(axis=0, keepdims=True)
        sizes = self.sizes[shards].sum(keepdims=True)
        return self.mechanism.estimate_decoded(decoded, sizes)
