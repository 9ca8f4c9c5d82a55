"""Counts of reports: for each group of users and each shard, sums of integers.

A shard is one of several disjoint subsets of the reports, which are counted separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike

from ..common.blocks import append_merged
from ..common.locks import cached_property
from ..common.state import Uncached
from ..common.tags import Tagged
from ..noise import Noise
from .coins import CoinStreams, rows_by_group
from .laws import ReportLaw
from .mechanism import Mechanism, chunk_users, privatize

#: The largest number of users that floats represent exactly, for estimates, metrics and files.
MAX_USERS = 2**53


def check_counts(counts: ArrayLike, name: str, instead: str = "") -> np.ndarray:
    """Check that each number in `counts` can be a number of users, and return them as int64.

    Parameters
    ----------
    counts : array-like of shape (n,)
        Non-negative integers (in any numeric dtype), not all zero, and at most 2**53 in total.
    name : str
        The name of the numbers in error messages.
    instead : str, default=""
        A remedy, which is added to the error message if a number is not an integer.

    Returns
    -------
    ndarray of shape (n,)
        The counts.

    Raises
    ------
    ValueError
        If `counts` is not a one-dimensional array of numbers, if a number is negative or is not an
        integer, if all are zero, or if their sum exceeds 2**53.
    """
    array = np.asarray(counts)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be a 1D array of numbers of users, got an array of dtype {array.dtype} "
            f"and shape {array.shape}. Pass a list of integers."
        )
    if array.dtype.kind == "f":
        odd = ~np.isfinite(array) | (array != np.floor(array))
        if odd.any():
            raise ValueError(
                f"{name} must be whole numbers of users, got {array[np.argmax(odd)]}; a user "
                f"cannot count in part. Pass integers.{instead}"
            )
    if array.size and array.min() < 0:
        raise ValueError(f"{name} must not be negative, got {array.min()}. Pass numbers >= 0.")
    if array.size and int(array.max()) > MAX_USERS // array.size:
        check_total(sum(map(int, array.tolist())), name)  # Python's integers do not overflow
    array = array.astype(np.int64)
    if array.sum() == 0:
        raise ValueError(f"{name} are all zero, so there is no user. Pass at least one user.")
    return array


def check_total(n_users: int, name: str) -> None:
    """Raise ValueError if the number of users is too large to be represented exactly as a float.

    Parameters
    ----------
    n_users : int
        Number of users.
    name : str
        What the error message calls the numbers that were added up.
    """
    if n_users > MAX_USERS:
        raise ValueError(
            f"{name} must add up to at most 2**53 users, so that all sums are exact, got "
            f"{n_users:,}. Check that these are numbers of users, not ids or hashes."
        )


def expand(ends: np.ndarray | None, start: int, stop: int) -> slice | np.ndarray:
    """Return the row of each user in ``range(start, stop)``. A row may stand for several users.

    Row i stands for the users from ``ends[i - 1]`` to ``ends[i] - 1``. If `ends` is None, each row
    stands for one user.
    """
    # The users of row i end before ``ends[i]``; None means one user per row.
    if ends is None:
        return slice(start, stop)
    low, high = np.searchsorted(ends, [start, stop - 1], side="right")
    inside = np.diff(np.clip(ends[low : high + 1], start, stop), prepend=start)
    return np.repeat(np.arange(low, high + 1), inside)


@dataclass(frozen=True, eq=False)
class Users:
    """The users of a batch, as rows of codes or of reports. A row may stand for several users.

    A code is an integer (or a row of integers) that stands for a user's value.
    """

    mechanism: Any
    rows: np.ndarray  # codes, one for each row, or checked reports
    streams: CoinStreams | None  # random bits for randomizing codes; None if rows are reports
    first: int  # position of the first user in the collection
    ends: np.ndarray | None = None  # as for `expand`
    slots_of_rows: np.ndarray | None = None  # slot (combination of group and shard) of each row

    def reports(self, start: int, stop: int) -> np.ndarray:
        """Return the reports of the users in ``range(start, stop)``. Codes are randomized to
        reports."""
        rows = self.rows[expand(self.ends, start, stop)]
        if self.streams is None:
            return rows
        return privatize(self.mechanism, rows, self.first + start, self.streams, for_sums=True)

    def slots(self, start: int, stop: int) -> np.ndarray:
        """Return the index of the slot of each user in ``range(start, stop)``.

        A slot is a combination of a group of users and a shard.
        """
        assert self.slots_of_rows is not None
        return self.slots_of_rows[expand(self.ends, start, stop)]


_Block = tuple[np.ndarray, np.ndarray]  # slots and reports


class Waiting(NamedTuple):
    """Reports that were checked but are not yet counted, because counting many together is faster.

    The object is immutable, because several Counts may share it. Each block is at most half as
    large as the previous block, so each report is copied only a few times.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism of the reports.
    blocks : tuple of (ndarray of shape (n,), ndarray of shape (n,) or (n, width))
        Blocks of reports. Each block contains the reports, and before them the index of the slot
        (combination of group and shard) of each report.
    n_bytes : int
        Memory of the blocks.
    """

    mechanism: Any
    blocks: tuple[_Block, ...]
    n_bytes: int

    def with_blocks(self, more: Waiting) -> Waiting:
        """Return an object with the reports of this object and of `more`."""
        blocks = [*self.blocks]
        for block in more.blocks:
            append_merged(blocks, block, merge=_merged, size=_n_reports)
        return Waiting(self.mechanism, tuple(blocks), self.n_bytes + more.n_bytes)

    def tallied(self) -> Iterator[tuple[int, np.ndarray]]:
        """Count the reports. Yield each slot (combination of group and shard) with the tally of its
        reports.

        A tally is the vector of counts that the mechanism computes. A slot may occur several times.
        """
        slots, reports = _joined(self.blocks)
        size = chunk_users(self.mechanism)
        for start in range(0, len(slots), size):
            chunk = reports[start : start + size]
            for slot, rows in rows_by_group(slots[start : start + size]):
                yield slot, self.mechanism.tally(chunk[rows])


def can_wait(reports: np.ndarray) -> bool:
    """Return whether reports can be concatenated with other reports without a change of their
    dtype."""
    # Booleans may be another form of reports, and NumPy joins uint64 and int64 to floats.
    return reports.dtype.kind in "iu" and reports.dtype != np.uint64


def _merged(first: _Block, second: _Block) -> _Block:
    return _joined([first, second])


def _n_reports(block: _Block) -> int:
    return len(block[0])


def _joined(blocks: Any) -> _Block:
    slots, reports = zip(*blocks, strict=True)
    return np.concatenate(slots), np.concatenate(reports)


_MAX_CELLS = 1 << 23  # 64 MiB of counts; above that, shards are not kept apart
# A batch of reports waits if it needs at most this much memory, or an eighth of the memory of the
# tallies. All waiting reports together may need this much, or that eighth.
_SMALL_BYTES = 1 << 12
_WAITING_BYTES = 1 << 18
_KEPT_BYTES = (1 << 24) - (1 << 12)  # just below half of glibc's largest threshold


class Counts(Tagged, tag="counts"):
    """Sums of the tallies of reports, for each group of users and each shard.

    A tally is the vector of counts that a mechanism computes from reports. A shard is one of
    several disjoint subsets of a group's reports. Shards are counted separately, so that their
    estimates can be compared. Counts are immutable: `added` and ``+`` return new counts.

    The reports of a small batch are first stored. They are counted when enough reports are stored,
    or when the tallies are read. So the cost of adding a batch does not depend on the size of the
    tallies.

    Parameters
    ----------
    tallies : ndarray of shape (n_groups, n_shards, tally_size)
        For each group and each shard, the sum of the tallies of its reports, int64.
    sizes : ndarray of shape (n_groups, n_shards)
        For each group and each shard, the number of its reports, int64.
    """

    def __init__(self, tallies: np.ndarray, sizes: np.ndarray) -> None:
        self.sizes: np.ndarray = sizes
        self.tally_size: int = tallies.shape[-1]
        self._settled: np.ndarray | None = tallies  # None means zeros
        self._waiting: Waiting | None = None

    @classmethod
    def empty(cls, mechanism: Mechanism, n_shards: int = 1, n_groups: int = 1) -> Counts:
        """Return counts of zero reports."""
        sizes = np.zeros((n_groups, n_shards), dtype=np.int64)
        return cls._of(mechanism.tally_size, sizes, None, None)

    @classmethod
    def _of(
        cls, tally_size: int, sizes: np.ndarray, settled: np.ndarray | None, waiting: Waiting | None
    ) -> Counts:
        counts = cls.__new__(cls)
        counts.sizes = sizes
        counts.tally_size = tally_size
        counts._settled = settled
        counts._waiting = waiting
        if waiting is not None and waiting.n_bytes > max(_WAITING_BYTES, counts._small_bytes):
            return cls(counts.tallies, sizes)
        return counts

    @staticmethod
    def most(mechanism: Mechanism, n_slots: int) -> int:
        """Return the number of slots for which tallies fit in memory, and at most n_slots.

        A slot is a combination of a group of users and a shard. Its tally is a vector of counts.
        """
        return max(min(n_slots, _MAX_CELLS // mechanism.tally_size), 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tallies: (n_groups, n_shards, tally_size)."""
        return (*self.sizes.shape, self.tally_size)

    @property
    def n_shards(self) -> int:
        """Number of shards into which the reports of each group are divided."""
        return self.sizes.shape[1]

    @property
    def n_samples(self) -> int:
        """Number of reports in all groups and shards."""
        return int(self.sizes.sum())

    @cached_property
    def tallies(self) -> np.ndarray:
        """For each group and each shard, the sum of the tallies of its reports.

        int64 of shape (n_groups, n_shards, tally_size).
        """
        if self._waiting is None and self._settled is not None:
            return self._settled
        settled = self._settled
        tallies = np.zeros(self.shape, dtype=np.int64) if settled is None else settled.copy()
        if self._waiting is not None:
            flat = tallies.reshape(self.sizes.size, -1)
            for part, tally in self._waiting.tallied():
                flat[part] += tally
        return tallies

    def __getstate__(self) -> dict[str, Any]:
        # The state includes waiting reports as tallies, so that reading them changes no hash.
        return {"tallies": self.tallies, "sizes": self.sizes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Counts.__init__(self, state["tallies"], state["sizes"])

    def __check_state__(self) -> None:
        tallies, sizes = self.tallies, self.sizes
        are_integers = tallies.dtype == sizes.dtype == np.int64
        if not are_integers or tallies.ndim != 3 or tallies.shape[:2] != sizes.shape:
            raise ValueError(
                "Tallies must be int64 of shape (n_groups, n_shards, tally_size), and sizes int64 "
                f"of shape (n_groups, n_shards). Got tallies of dtype {tallies.dtype} and shape "
                f"{tallies.shape}, and sizes of shape {sizes.shape}."
            )
        if min(tallies.min(initial=0), sizes.min(initial=0)) < 0:
            raise ValueError("Tallies and sizes must not be negative. Save the counts again.")
        check_total(int(sizes.sum(dtype=object)), "the sizes")
        Counts.__init__(self, tallies, sizes)

    def __add__(self, other: Counts) -> Counts:
        settled, waiting = self._held()
        theirs, more = other._held()
        if theirs is not None:  # copy, because it may be the array of a caller's Tally
            settled = theirs.copy() if settled is None else settled + theirs
        if more is not None:
            waiting = more if waiting is None else waiting.with_blocks(more)
        return self._of(self.tally_size, self.sizes + other.sizes, settled, waiting)

    def since(self, before: Counts, n_others: int) -> Counts:
        """Return the counts of the reports that were added after the state `before`.

        The shards are renumbered, so that the result can be merged with counts from other threads.

        Parameters
        ----------
        before : Counts
            An earlier state of these counts.
        n_others : int
            Number of reports that other threads have added after `before`. Consecutive reports
            belong to consecutive shards; the new reports are placed after these other reports.
        """
        tallies, sizes = self.tallies - before.tallies, self.sizes - before.sizes
        return Counts(np.roll(tallies, n_others, axis=1), np.roll(sizes, n_others, axis=1))

    def _held(self) -> tuple[np.ndarray | None, Waiting | None]:
        """Return the tallies of the reports that are already counted, and the reports that are
        not."""
        if "tallies" in self.__dict__:
            return self.tallies, None
        return self._settled, self._waiting

    @property
    def _small_bytes(self) -> int:
        """Maximum size, in bytes, of a batch for which storing its reports is faster than counting
        them."""
        return self.sizes.size * self.tally_size

    def of_shards(self, shards: slice | Sequence[int] | np.ndarray) -> Counts:
        """Return counts that contain only the given shards of each group."""
        return Counts(self.tallies[:, shards], self.sizes[:, shards])

    @cached_property
    def by_group(self) -> tuple[np.ndarray, np.ndarray]:
        """For each group, the sum of the tallies of its shards, and its number of reports.

        Shapes: -> (n_groups, tally_size), (n_groups,).
        """
        return self.tallies.sum(axis=1), self.sizes.sum(axis=1)

    def added(
        self,
        mechanism: Mechanism,
        n: int,
        make_reports: Callable[[int, int], np.ndarray],
        n_jobs: int | None = None,
        slots_of: Callable[[int, int], np.ndarray] | None = None,
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
        slots_of : callable, default=None
            ``slots_of(start, stop)`` returns the slot of each of these reports. The slot is
            ``group * n_shards + shard``. If None, there is a single group, and consecutive reports
            are assigned to consecutive shards.
        first_shard : int, default=0
            The shard of the first report, if `slots_of` is None.
        """
        first = self.n_samples + first_shard
        n_slots = self.sizes.size
        if 0 < n <= chunk_users(mechanism):
            reports = make_reports(0, n)
            if reports.nbytes <= max(_SMALL_BYTES, self._small_bytes) and can_wait(reports):
                slots = (first + np.arange(n)) % n_slots if slots_of is None else slots_of(0, n)
                return self._with_waiting(mechanism, slots, reports)

            def make_reports(_start, _stop):
                return reports

        def rows_of_slots(start, stop):
            if slots_of is not None and n_slots > 1:
                return rows_by_group(slots_of(start, stop))
            offsets = range(min(n_slots, stop - start))
            return (((first + start + i) % n_slots, slice(i, None, n_slots)) for i in offsets)

        def work(start, stop):
            reports = make_reports(start, stop)
            return [
                (slot, len(own), mechanism.tally(own))
                for slot, rows in rows_of_slots(start, stop)
                if len(own := reports[rows])
            ]

        tallies, sizes = self.tallies.copy(), self.sizes.copy()
        flat, flat_sizes = tallies.reshape(n_slots, -1), sizes.reshape(n_slots)
        for counted in _worked(work, n, chunk_users(mechanism), n_jobs):
            for slot, size, tally in counted:
                flat_sizes[slot] += size
                flat[slot] += tally
        return Counts(tallies, sizes)

    def _with_waiting(self, mechanism: Mechanism, slots: np.ndarray, reports: np.ndarray) -> Counts:
        sizes = np.bincount(slots, minlength=self.sizes.size).reshape(self.sizes.shape)
        block = slots, reports.copy()  # the caller may own the reports
        waiting = Waiting(mechanism, (block,), slots.nbytes + reports.nbytes)
        return self + self._of(self.tally_size, sizes, None, waiting)


def _worked(work: Callable, n: int, size: int, n_jobs: int | None) -> Iterable:
    """Yield the results of ``work(start, stop)`` for consecutive ranges of users, computed in
    threads.

    The ranges cover n users, with at most `size` users each. Results may be in any order.
    """
    spans = [(start, min(start + size, n)) for start in range(0, n, size)]
    if len(spans) == 1:
        return [work(*spans[0])]
    # glibc keeps freed memory up to twice the largest block that was freed (32 MiB at most). This
    # block is never touched. Without it, each span would wait for thousands of new pages.
    np.empty(_KEPT_BYTES, dtype=np.uint8)
    parallel = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator_unordered")
    return parallel(delayed(work)(*span) for span in spans)


@dataclass(frozen=True, eq=False)
class Shards(Uncached, tag="shards"):
    """The shards of a collection: disjoint subsets of its reports, each with its own estimate.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism of the reports.
    of : Counts
        The counts of the reports. Each row of the estimate is one group. If the estimate has
        several rows, each group has only one shard.
    n_users : int, default=None
        Number of all users, if the users who reported are a random sample of them and the estimate
        is about all users. If None, the estimate is about the users who reported.
    """

    mechanism: Any
    of: Counts
    n_users: int | None = None

    def __check_state__(self) -> int:
        if self.of.tally_size != self.mechanism.tally_size:
            raise ValueError(
                f"The tallies have {self.of.tally_size} counts, but their mechanism needs "
                f"{self.mechanism.tally_size} counts. Save the estimate again."
            )
        tallies = self.of.tallies.reshape(-1, self.of.tally_size)
        self.mechanism.check_tallies(tallies, self.of.sizes.ravel())
        if self.n_users is not None and not self.of.sizes.sum() <= self.n_users <= MAX_USERS:
            raise ValueError(
                f"The number of users must be from {self.of.sizes.sum()} (the number of reports) "
                f"to 2**53, got n_users={self.n_users!r:.80}. Save the estimate again."
            )
        return tallies.nbytes

    def agree_with(self, values: np.ndarray, noise: Noise) -> bool:
        """Return whether a raw estimate equals the estimate that is computed from all shards.

        Parameters
        ----------
        values : ndarray of shape (n_estimates, d)
            Values of the raw estimate.
        noise : Noise
            Noise of the raw estimate.

        Returns
        -------
        bool
            True if values and noise are equal up to rounding errors.
        """
        tallies, sizes = self.of.by_group
        asked = sizes > 0
        decoded = self.mechanism.decode(tallies[asked])
        own_values, own_noise = self.mechanism.estimate_decoded(decoded, sizes[asked])
        same_values = own_values.shape == values.shape and np.allclose(own_values, values)
        return same_values and own_noise.of_reports() == noise.of_reports()

    @property
    def tallies(self) -> np.ndarray:
        """The counts of reports of each shard, int64 of shape (n_shards, tally_size).

        A tally is the vector of counts that the mechanism computes from reports.
        """
        return self.of.tallies[0]

    @property
    def sizes(self) -> np.ndarray:
        """For each shard, the number of its reports, of shape (n_shards,)."""
        return self.of.sizes[0]

    @property
    def law(self) -> ReportLaw | None:
        """The distribution of a report, if a tally contains the number of reports of each kind;
        else None."""
        return self.mechanism.report_law

    @cached_property
    def counts(self) -> np.ndarray:
        """For each shard and each category, the number of reports that support the category.

        A report supports a category if it counts in favor of it. int64 of shape (n_shards, d).
        """
        return self.mechanism.decode(self.tallies)

    def of_rows(self, rows: Any) -> Shards:
        """Return the shards that belong to some rows of the estimate.

        Parameters
        ----------
        rows : slice, list or ndarray
            The selected rows.

        Returns
        -------
        Shards
            The counts of these rows.
        """
        return replace(self, of=Counts(self.of.tallies[rows], self.of.sizes[rows]))

    def some(self, shards: np.ndarray) -> Shards:
        """Return an object that contains only some of the shards.

        Parameters
        ----------
        shards : ndarray of int
            Indices of the shards.

        Returns
        -------
        Shards
            The selected shards.
        """
        return replace(self, of=self.of.of_shards(shards))

    def estimate(self, shards: np.ndarray) -> tuple[np.ndarray, Noise]:
        """Return frequencies that are estimated from only some of the shards, and their noise.

        Parameters
        ----------
        shards : ndarray of int
            Indices of the shards.

        Returns
        -------
        (ndarray of shape (1, d), Noise)
            The frequencies and their noise, as from a collection of the reports in these shards.
        """
        decoded = self.counts[shards].sum(axis=0, keepdims=True)
        sizes = self.sizes[shards].sum(keepdims=True)
        values, noise = self.mechanism.estimate_decoded(decoded, sizes)
        return values, noise if self.n_users is None else noise.of_sample(self.n_users)
