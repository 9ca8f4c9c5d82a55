"""What was added since a checkpoint was read or written, and how it gets into another state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..mechanisms import Counts
from ._batches import RefusedBatchError, copied, other_content
from ._checkpoint import Checkpoint, CheckpointError
from ._digest import copy_keys, is_same
from ._tally import Batch, Tally

_MOST_BYTES = 1 << 26
_SAVE_BYTES = _MOST_BYTES // 2


class _Added(NamedTuple):
    """Sums of some batches in little memory: the cells that are not 0, or all if cells is None."""

    batches: dict[str, int]
    digests: dict[str, bytes]
    sizes: np.ndarray
    cells: np.ndarray | None
    values: np.ndarray

    @property
    def n_bytes(self) -> int:
        cells = 0 if self.cells is None else self.cells.nbytes
        return cells + self.values.nbytes + self.sizes.nbytes + 500

    def add_to(self, tallies: np.ndarray, sizes: np.ndarray) -> None:
        """Add them, in place."""
        sizes += self.sizes
        flat = tallies.reshape(-1)
        if self.cells is None:
            flat += self.values
        else:
            flat[self.cells] += self.values


class _Waiting(NamedTuple):
    """A small batch whose reports have not been summed up."""

    batches: dict[str, int]
    digests: dict[str, bytes]
    counts: Counts

    @property
    def n_bytes(self) -> int:
        return self.counts.n_waiting_bytes + self.counts.sizes.nbytes + 500

    def add_to(self, tallies: np.ndarray, sizes: np.ndarray) -> None:
        """Add them, in place."""
        sizes += self.counts.sizes[0]
        self.counts.add_to(tallies[None])


_Item = _Added | _Waiting


class Unsaved:
    """Sums that another writer of the same checkpoint may lack, or may have counted as well.

    They are kept apart, so that each batch can be added to whatever state is found on disk. Beyond
    64 MiB they are put together; then all of their batches are found there, or none, or the state
    cannot be brought together with ours.
    """

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._in_writing: list[_Item] = []
        self._n_bytes = 0

    def __iter__(self) -> Iterator[_Item]:
        return iter([*self._in_writing, *self._items])

    @property
    def is_large(self) -> bool:
        """Whether a checkpoint should be written soon."""
        return self._n_bytes > _SAVE_BYTES

    @property
    def batches(self) -> set[str]:
        """Ids of all batches."""
        return {batch for item in self for batch in item.batches}

    def add(self, tally: Tally | Batch) -> None:
        """Keep what was added."""
        counts, names = tally.counts, (tally.batches, tally.digests)
        if counts.is_waiting:
            self._append(_Waiting(*names, counts))
        else:
            self._append(_Added(*names, counts.sizes[0].copy(), *_compact(counts.tallies[0])))
        if self._n_bytes > _MOST_BYTES and len(self._items) > 1:
            self._put_together(counts.shape[1:])

    def begin_writing(self) -> None:
        """All that is here goes into the state that is about to be written."""
        self._in_writing, self._items, self._n_bytes = list(self), [], 0

    def end_writing(self) -> None:
        """The state has been written."""
        self._in_writing = []

    def keep(self, items: list[_Item]) -> None:
        """Forget all but these."""
        self._in_writing, self._items, self._n_bytes = [], [], 0
        for item in items:
            self._append(item)

    def _append(self, item: _Item) -> None:
        self._items.append(item)
        self._n_bytes += item.n_bytes

    def _put_together(self, shape: tuple[int, ...]) -> None:
        tallies, sizes = np.zeros(shape, np.int64), np.zeros(shape[0], np.int64)
        batches: dict[str, int] = {}
        digests: dict[str, bytes] = {}
        for item in self._items:
            item.add_to(tallies, sizes)
            batches.update(item.batches)
            digests.update(item.digests)
        self._items, self._n_bytes = [], 0
        self._append(_Added(batches, digests, sizes, *_compact(tallies)))


def _compact(tallies: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """The cells that are not 0 and their values, or None and all values, whichever is smaller."""
    flat = tallies.reshape(-1)
    cells = np.flatnonzero(flat)
    values = flat[cells]
    if not values.size or values.min() >= 0:
        values = values.astype(np.min_scalar_type(int(values.max(initial=0))))
    cells = cells.astype(np.min_scalar_type(flat.size))
    if cells.nbytes + values.nbytes < flat.size * values.itemsize:
        return cells, values
    return None, flat.astype(values.dtype)


class State(NamedTuple):
    """Sums with their ledger."""

    counts: Counts
    batches: dict[str, int]
    digests: dict[str, bytes]


class Joined(NamedTuple):
    """A state on disk together with what it lacked of ours."""

    state: State
    #: Batches of ours that are left out, because they came in a sum with others that count already.
    left_out: list[str]
    #: Errors for batches of ours that are refused.
    refused: list[RefusedBatchError]


def join(path: Any, found: Checkpoint, ours: State, unsaved: Unsaved, bits: float) -> Joined:
    """Add to the state on disk what it lacks, so that every batch counts once.

    Parameters
    ----------
    path : path-like
        Where `found` was found.
    found : Checkpoint
        The state on disk.
    ours : State
        Our own state.
    unsaved : Unsaved
        What was added to ours since it was on disk; afterwards, what `found` lacks.
    bits : float
        Collision entropy of a report.

    Returns
    -------
    Joined
        The state of both.

    Raises
    ------
    CheckpointError
        If neither is the other with some batches more.
    """
    name = f"Checkpoint {path}"
    theirs = State(found.counts, found.batches, found.digests)
    contested = _contested(theirs, ours)
    saved = ours.batches.keys() - unsaved.batches
    if theirs.batches.keys() <= ours.batches.keys() and not contested:
        # It was removed, or went back to an earlier state. What it lost cannot be told batch by
        # batch, but ours has all of it.
        return Joined(ours, [], [])
    if not saved <= theirs.batches.keys():
        if theirs.batches.keys() & ours.batches.keys():
            raise CheckpointError(
                f"{path} is not written: it was replaced by a state that lacks "
                f"{len(saved - theirs.batches.keys())} of the batches it held, and has others, so "
                "the two cannot be added up. Save this one under another name."
            )
        batches, digests = theirs.batches | ours.batches, theirs.digests | ours.digests
        return Joined(State(theirs.counts + ours.counts, batches, digests), [], [])
    originals = copy_keys(theirs.batches, theirs.digests, bits)
    tallies, sizes = theirs.counts.tallies[0].copy(), theirs.counts.sizes[0].copy()
    missing: list[_Item] = []
    left_out: list[str] = []
    refused: list[RefusedBatchError] = [other_content(name, batch) for batch in contested]
    for item in unsaved:
        lacking = item.batches.keys() - theirs.batches.keys()
        copies = copy_keys(item.batches, item.digests, bits).items() if lacking else []
        errors = [copied(name, batch, originals[key]) for key, batch in copies if key in originals]
        if len(lacking) < len(item.batches) or (errors and len(item.batches) > 1):
            left_out += lacking
        elif errors:
            refused += errors
        else:
            item.add_to(tallies, sizes)
            missing.append(item)
    unsaved.keep(missing)
    counts = Counts(tallies[None], sizes[None])
    batches, digests = dict(theirs.batches), dict(theirs.digests)
    for item in missing:
        batches |= item.batches
        digests |= item.digests
    return Joined(State(counts, batches, digests), sorted(left_out), refused)


def _contested(theirs: State, ours: State) -> list[str]:
    both = theirs.digests.keys() & ours.digests.keys()
    return sorted(b for b in both if not is_same(theirs.digests[b], ours.digests[b]))
