"""Sums of reports: exact integers by group of users and by shard, added chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from .._noise import Noise
from .._sampled_noise import SampledNoise
from ..mechanisms._laws import ReportLaw
from ..mechanisms._mechanism import Mechanism
from ..mechanisms._reports import sorted_parts
from ._clients import chunk_users
from ._waiting import Waiting, can_wait

_MAX_CELLS = 1 << 23  # 64 MiB of counts: beyond that, shards are not kept apart
# Reports wait if they take at most this much memory, or an eighth of what the tallies take; and all
# of them together may take this much, or that eighth.
_SMALL_BYTES, _WAITING_BYTES = 1 << 12, 1 << 18


class Counts:
    """Sums of a mechanism's reports, for each group of users and each shard.

    Immutable: `added` and ``+`` return new ones. A shard is one of the disjoint parts of a group's
    reports that are kept apart so that one can be compared with the others.

    What small batches add waits as reports until there is enough of it, or until the tallies are
    read: so a batch costs what it holds, and not what all tallies hold.

    Parameters
    ----------
    tallies : ndarray of shape (n_groups, n_shards, tally_size)
        Sums of the reports' tallies, int64.
    sizes : ndarray of shape (n_groups, n_shards)
        Number of reports, int64.
    """

    def __init__(self, tallies: np.ndarray, sizes: np.ndarray) -> None:
        self.sizes: np.ndarray = sizes
        self.tally_size: int = tallies.shape[-1]
        self._settled: np.ndarray | None = tallies  # None stands for zeros
        self._waiting: Waiting | None = None

    @classmethod
    def empty(cls, mechanism: Mechanism, n_shards: int = 1, n_groups: int = 1) -> Counts:
        """Return the counts of no reports."""
        sizes = np.zeros((n_groups, n_shards), dtype=np.int64)
        return cls._of(mechanism.tally_size, sizes, None, None)

    @classmethod
    def _of(
        cls, tally_size: int, sizes: np.ndarray, settled: np.ndarray | None, waiting: Waiting | None
    ) -> Counts:
        counts = cls.__new__(cls)
        counts.sizes, counts.tally_size = sizes, tally_size
        counts._settled, counts._waiting = settled, waiting
        if waiting is not None and waiting.n_bytes > max(_WAITING_BYTES, counts._small_bytes):
            return cls(counts.tallies, sizes)
        return counts

    @staticmethod
    def most(mechanism: Mechanism, n_parts: int) -> int:
        """Return how many parts (groups or shards), at most n_parts, are kept apart in memory."""
        return max(min(n_parts, _MAX_CELLS // mechanism.tally_size), 1)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the tallies: (n_groups, n_shards, tally_size)."""
        return (self.n_groups, self.n_shards, self.tally_size)

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

    @cached_property
    def tallies(self) -> np.ndarray:
        """Sums of the reports' tallies, int64 of shape (n_groups, n_shards, tally_size)."""
        if self._waiting is None and self._settled is not None:
            return self._settled
        tallies = np.zeros(self.shape, dtype=np.int64)
        if self._settled is not None:
            tallies += self._settled
        if self._waiting is not None:
            flat = tallies.reshape(self.sizes.size, -1)
            for part, tally in self._waiting.tallied():
                flat[part] += tally
        return tallies

    def __getstate__(self) -> dict[str, Any]:
        # The same whatever waits, so that reading it does not change a hash.
        return {"tallies": self.tallies, "sizes": self.sizes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Counts.__init__(self, state["tallies"], state["sizes"])

    def __add__(self, other: Counts) -> Counts:
        (settled, waiting), (theirs, more) = self._parts(), other._parts()
        if theirs is not None:  # copied, as it may be the array of a caller's Tally
            settled = theirs.copy() if settled is None else settled + theirs
        if more is not None:
            waiting = more if waiting is None else waiting.with_blocks(more)
        return self._of(self.tally_size, self.sizes + other.sizes, settled, waiting)

    def _parts(self) -> tuple[np.ndarray | None, Waiting | None]:
        """The settled tallies and what waits; nothing does once the tallies have been read."""
        if "tallies" in self.__dict__:
            return self.tallies, None
        return self._settled, self._waiting

    @property
    def _small_bytes(self) -> int:
        """The size of reports that are quicker to keep than to tally."""
        return self.sizes.size * self.tally_size

    def of_shards(self, shards: slice | Sequence[int] | np.ndarray) -> Counts:
        """Return the counts of some shards of each group."""
        return Counts(self.tallies[:, shards], self.sizes[:, shards])

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
        first_shard: int = 0,
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
        first_shard : int, default=0
            The shard of the very first report, if reports are dealt out.
        """
        first, n_parts = self.n_samples + first_shard, self.sizes.size
        if 0 < n <= chunk_users(mechanism):
            reports = make_reports(0, n)
            if reports.nbytes <= max(_SMALL_BYTES, self._small_bytes) and can_wait(reports):
                parts = (first + np.arange(n)) % n_parts if parts_of is None else parts_of(0, n)
                return self._with_waiting(mechanism, parts, reports)

            def make_reports(_start, _stop):
                return reports

        def rows_of_parts(start, stop):
            if parts_of is not None and n_parts > 1:
                return sorted_parts(parts_of(start, stop))
            offsets = range(min(n_parts, stop - start))
            return (((first + start + i) % n_parts, slice(i, None, n_parts)) for i in offsets)

        def work(start, stop):
            reports = make_reports(start, stop)
            return [
                (part, len(own), mechanism.tally(own))
                for part, rows in rows_of_parts(start, stop)
                if len(own := reports[rows])
            ]

        tallies, sizes = self.tallies.copy(), self.sizes.copy()
        flat, flat_sizes = tallies.reshape(n_parts, -1), sizes.reshape(n_parts)
        for counted in _worked(work, n, chunk_users(mechanism), n_jobs):
            for part, size, tally in counted:
                flat_sizes[part] += size
                flat[part] += tally
        return Counts(tallies, sizes)

    def _with_waiting(self, mechanism: Mechanism, parts: np.ndarray, reports: np.ndarray) -> Counts:
        sizes = np.bincount(parts, minlength=self.sizes.size).reshape(self.sizes.shape)
        waiting = Waiting.of(mechanism, parts, reports.copy())  # they may be the caller's
        return self + self._of(self.tally_size, sizes, None, waiting)


def _worked(work: Callable, n: int, size: int, n_jobs: int | None) -> Iterable:
    """Yield the results of work on spans of users; a single span needs no threads."""
    spans = [(start, min(start + size, n)) for start in range(0, n, size)]
    if len(spans) == 1:
        return [work(*spans[0])]
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
    return parallel(delayed(work)(*span) for span in spans)


@dataclass(frozen=True, eq=False)
class Shards:
    """Disjoint parts of one collection's reports, each of which suffices for an estimate.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism of the reports.
    of : Counts
        The counts of one group.
    n_users : int, default=None
        Number of users of whom a random part made these reports, if the estimate is of all.
    """

    mechanism: Any
    of: Counts
    n_users: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Leaves out what is computed on demand, so that reading it does not change a hash.
        return {"mechanism": self.mechanism, "of": self.of, "n_users": self.n_users}

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
        values, noise = self.mechanism.estimate_decoded(decoded, sizes)
        return values, noise if self.n_users is None else SampledNoise(noise, self.n_users)
