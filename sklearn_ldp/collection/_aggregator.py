"""A collection in progress: it adds up batches of reports and counts each exactly once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from sklearn.base import clone

from .._files._text import printable
from .._typing import OracleOrProtocol
from ..mechanisms import as_protocol
from ..oracles.collector import BaseCollector
from . import _checkpoint
from ._authentication import as_key
from ._batches import RefusedBatchError, check_batch_id, copied, other_content, repeated
from ._caps import NO_CAPS, Caps, Sources
from ._checkpoint import CheckpointError
from ._digest import copy_key, copy_keys, is_of_file, is_same
from ._sums import refuse_overflow
from ._tally import Batch, Tally, checked_tally, count_batch, refuse_difference
from ._unsaved import Joined, State, Unsaved, join

_KEPT_REFUSALS = 1000  # a bound on what hostile clients can make a collector remember
_REASON_CHARACTERS = 500


class Refusal(NamedTuple):
    """A batch that was refused.

    Parameters
    ----------
    batch_id : str
        The batch's id, or the name of its file if the id could not be read.
    reason : str
        The message of the error.
    """

    batch_id: str
    reason: str


@dataclass(frozen=True)
class CollectionSummary:
    """Summary of a collection: what was counted, repeated and refused.

    Parameters
    ----------
    configuration : dict
        The collection's configuration, see :func:`report_configuration`.
    n_samples : int
        Number of reports.
    n_batches : int
        Number of batches that were counted.
    n_repeats : int
        Number of repeated batches that were ignored.
    n_refused : int
        Number of refusals.
    refused : tuple of Refusal
        The last refusals (at most 1000), with their reasons.
    shard_sizes : tuple of int
        Number of reports in each shard.
    """

    configuration: dict[str, Any]
    n_samples: int
    n_batches: int
    n_repeats: int
    n_refused: int
    refused: tuple[Refusal, ...]
    shard_sizes: tuple[int, ...]

    def __str__(self) -> str:
        lines = [f"{key}: {printable(value)}" for key, value in self.configuration.items()]
        lines += [
            f"reports: {self.n_samples}",
            f"batches: {self.n_batches} ({self.n_repeats} repeats ignored, "
            f"{self.n_refused} refused)",
        ]
        lines += [f"refused '{printable(name)}': {printable(why)}" for name, why in self.refused]
        return "\n".join(lines)


class Aggregator:
    """Add up batches of reports and count each batch exactly once.

    An oracle adds up whatever it is given. An aggregator also keeps a ledger: each batch has an id
    and is counted once, however often it is sent. A batch that the oracle's clients cannot have
    made is refused as a whole; it changes nothing except for an entry in the summary. The counts
    are exact integers that do not depend on the order of the batches. Several threads may share an
    aggregator.

    Privacy: costs none.

    Parameters
    ----------
    oracle : oracle or Protocol
        Unfitted, with declared categories; the aggregator keeps a copy.
    collection_round : str, default=""
        Name of the collection: files of another round are refused.
    on_repeat : {"raise", "ignore"}, default="raise"
        What to do with a batch that was seen before. A batch that has the id of another one, but
        other reports, is refused in any case, and so is one that has the reports of another one
        under a new id.
    caps : Caps, default=None
        Limits on batches and their sources; None sets none.
    key : bytes, default=None
        A secret of at least 16 bytes. With it checkpoints and tallies are signed, and those that
        were not signed with it are refused. What is given to `add` is trusted.

    Raises
    ------
    ValueError
        If the oracle's domain is not known, if the oracle already holds reports, or if the key is
        too short.

    See Also
    --------
    aggregate : Add up files, streams and folders.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.collection import Aggregator
    >>> oracle = OLH(1.0, categories=["a", "b", "c"], random_state=0)
    >>> server = Aggregator(oracle, on_repeat="ignore")
    >>> server.add(oracle.privatize(["a", "b"]), "monday").add(oracle.privatize(["c"]), "tuesday")
    Aggregator(OLH, 3 reports in 2 batches)
    >>> server.add(oracle.privatize(["c"]), "tuesday").n_samples
    3
    >>> server.estimate_.shape
    (1, 3)
    """

    def __init__(
        self,
        oracle: OracleOrProtocol,
        *,
        collection_round: str = "",
        on_repeat: str = "raise",
        caps: Caps | None = None,
        key: bytes | None = None,
    ) -> None:
        if on_repeat not in ("raise", "ignore"):
            raise ValueError(f'on_repeat must be "raise" or "ignore", got {on_repeat!r}.')
        self._protocol = as_protocol(oracle, collection_round)
        self._oracle: Any = clone(oracle) if isinstance(oracle, BaseCollector) else None
        self._bits = self._protocol.mechanism.report_entropy(order=2)
        self._counts = self._protocol.empty
        self._ledger: dict[str, int] = {}
        self._digests: dict[str, bytes] = {}
        self._copies: dict[bytes, str] = {}  # batches that nobody but a copy could agree with
        self._caps = caps or NO_CAPS
        self._sources = Sources(self._caps, {})
        self._key = as_key(key)
        self._refusals: deque[Refusal] = deque(maxlen=_KEPT_REFUSALS)
        self._n_refused = 0
        self._n_repeats = 0
        self._home: _Home | None = None
        self._lock = threading.RLock()
        self._saving = threading.Lock()
        self.on_repeat = on_repeat

    # -- adding -------------------------------------------------------------------------------
    def add(self, reports: Any, batch_id: str) -> Self:
        """Add a batch of reports, unless it was added before.

        Parameters
        ----------
        reports : array-like, Arrow stream or iterator of those
            Reports as returned by the oracle's `privatize`.
        batch_id : str
            Name of the batch; the sender must use the same name each time it sends the batch.

        Returns
        -------
        self : object
            The aggregator itself, with the batch added.

        Raises
        ------
        RefusedBatchError
            If a report cannot come from the oracle, or if the batch was seen before. This is a
            ValueError.
        """
        check_batch_id(batch_id)
        self._add(reports, batch_id)
        return self

    def _add(self, reports: Any, batch_id: str, known: Collection[str] = frozenset()) -> None:
        """Add a batch; if it is one of the `known` ones and the same, nobody is told."""
        try:
            batch = count_batch(reports, self._protocol, batch_id)
        except RefusedBatchError as error:
            self.note_refusal(batch_id, error)
            raise
        self._commit(batch, known)

    def merge(self, other: Aggregator | Tally) -> Self:
        """Add what another server or a worker has added up.

        Parameters
        ----------
        other : Aggregator or Tally
            Sums of the same collection; it is not modified.

        Returns
        -------
        self : object
            The aggregator itself, with the batches of `other` added; the refusals of `other` are
            not copied.

        Raises
        ------
        RefusedBatchError
            If `other` is of another collection, if its sums cannot be those of its batches, if it
            is not signed with the key, or if one of its batches was seen before (with
            ``on_repeat="ignore"``: if some of its batches were, but not all). This is a
            ValueError.
        """
        tally = other.tally() if isinstance(other, Aggregator) else other
        if not isinstance(tally, Tally):
            raise TypeError(
                f"Aggregator.merge needs an Aggregator or a Tally, got {type(other).__name__}."
            )
        self._commit(self._checked(tally))
        return self

    def _checked(self, tally: Tally) -> Tally:
        """Return a tally from elsewhere after all checks that do not need the ledger."""
        try:
            tally.refuse_unsigned(self._key)
            refuse_difference("Aggregator.merge", tally, self._protocol.configuration, self._counts)
            return checked_tally(tally, self._protocol.mechanism)
        except RefusedBatchError as error:
            self.note_refusal(next(iter(tally.batches), "a tally without batches"), error)
            raise

    def note_refusal(self, batch_id: str, reason: str | Exception) -> None:
        """Record a batch that was refused elsewhere, for example by a reader of files.

        Parameters
        ----------
        batch_id : str
            Name of the batch or of its file.
        reason : str or Exception
            Why it was refused.
        """
        refusal = Refusal(_short(batch_id), _short(reason))
        with self._lock:
            self._n_refused += 1
            self._refusals.append(refusal)

    def _is_known(self, batch_id: str, file_sha256: str, known: Collection[str]) -> bool:
        """Whether a file is a repeat, from its header; raise unless repeats are ignored.

        It is False if only reading the file can tell.
        """
        with self._lock:
            if batch_id not in self._ledger:
                return False
            digest = self._digests.get(batch_id, b"")
            if not is_of_file(digest, file_sha256):
                return False
            return self._is_repeat({batch_id: b""}, known)

    def _is_repeat(self, digests: Mapping[str, bytes], known: Collection[str]) -> bool:
        """Whether all batches were seen before; raise unless such repeats are ignored."""
        seen = [batch for batch in digests if batch in self._ledger]
        for batch in seen:
            if not is_same(self._digests.get(batch, b""), digests[batch]):
                raise other_content("Aggregator", batch)
        if not seen:
            return False
        if len(seen) == len(digests) and all(batch in known for batch in seen):
            return True
        if self.on_repeat == "ignore" and len(seen) == len(digests):
            self._n_repeats += len(seen)
            return True
        raise repeated("Aggregator", seen)

    def _refuse_copies(self, tally: Tally | Batch) -> dict[bytes, str]:
        """Raise if a batch has the reports of another one; return what to know the new ones by."""
        keys: dict[bytes, str] = {}
        for batch, digest in tally.digests.items():
            key = copy_key(digest, tally.batches[batch], self._bits)
            original = self._copies.get(key) or keys.get(key)
            if original is not None:
                raise copied("Aggregator", batch, original)
            if key:
                keys[key] = batch
        return keys

    def _must_be_parted(self, tally: Tally) -> bool:
        """Whether not all batches of a sum can be added."""
        with self._lock:
            try:
                self._refuse_copies(tally)
                self._sources.refuse(tally.batches)
            except RefusedBatchError:
                return True
            return any(batch in self._ledger for batch in tally.batches)

    def _commit(self, tally: Tally | Batch, known: Collection[str] = frozenset()) -> None:
        """Add all of it: ledger and counts change together, even if Ctrl-C interrupts."""
        with self._lock:
            try:
                digests = {batch: tally.digests.get(batch, b"") for batch in tally.batches}
                if self._is_repeat(digests, known):
                    return
                keys = self._refuse_copies(tally)
                self._sources.refuse(tally.batches)
                _refuse_overflow(tally, self._counts)
            except RefusedBatchError as error:
                self.note_refusal(next(iter(tally.batches), "a tally without batches"), error)
                raise
            old = self._counts
            new = old + tally.counts
            try:
                self._ledger.update(tally.batches)
                self._counts = new
            except BaseException:
                if self._counts is old:
                    for batch in tally.batches:
                        self._ledger.pop(batch, None)
                raise
            self._digests.update(tally.digests)
            self._copies.update(keys)
            self._sources.add(tally.batches)
            if self._home is not None:
                self._home.unsaved.add(tally)

    # -- what was collected -------------------------------------------------------------------
    def __contains__(self, batch_id: object) -> bool:
        return batch_id in self._ledger

    def __repr__(self) -> str:
        return (
            f"Aggregator({self._protocol.name}, {self.n_samples} reports in "
            f"{len(self._ledger)} batches)"
        )

    @property
    def n_samples(self) -> int:
        """Number of reports."""
        return self._counts.n_samples

    @property
    def batches(self) -> Mapping[str, int]:
        """The ledger: a read-only mapping from the id of each batch to its number of reports."""
        return MappingProxyType(self._ledger)

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration of the collection, see :func:`report_configuration`."""
        return dict(self._protocol.configuration)

    @property
    def oracle_(self) -> Any:
        """A fitted oracle (or survey) that holds the counts."""
        if self._oracle is None:
            raise AttributeError(
                f"This Aggregator was given a protocol of {self._protocol.name} instead of an "
                "oracle, so it makes no estimate; tally() returns the sums."
            )
        return self._oracle._with_counts(self._counts)

    @property
    def estimate_(self) -> Any:
        """The raw FrequencyEstimate of shape (1, d) with its shards; of a survey an EstimateSet."""
        if not self.n_samples:
            raise ValueError("This Aggregator holds no reports yet: add a batch first.")
        return self.oracle_.estimate_

    def tally(self) -> Tally:
        """Return the sums and the ledger, to be merged elsewhere.

        Returns
        -------
        Tally
            A snapshot of the present state; signed, if there is a key.
        """
        with self._lock:
            tally = Tally.of(self._protocol, self._counts, self._ledger, self._digests)
        return tally.signed(self._key)

    def summary(self) -> CollectionSummary:
        """Return what was collected, and what was refused and why.

        Returns
        -------
        CollectionSummary
            A snapshot of the present state; ``print`` shows it.
        """
        with self._lock:
            return CollectionSummary(
                self.configuration,
                self.n_samples,
                len(self._ledger),
                self._n_repeats,
                self._n_refused,
                tuple(self._refusals),
                tuple(self._counts.sizes[0].tolist()),
            )

    # -- on disk ------------------------------------------------------------------------------
    def save(self, path: str | PathLike[str]) -> None:
        """Write a checkpoint atomically: as a whole, or not at all.

        When this returns, the file is complete and on disk. It is an uncompressed npz archive that
        is read without pickle. What a killed process left of an earlier attempt is removed.

        Several processes may load a checkpoint, add to it and save it: an aggregator that has
        loaded or saved this file before finds out whether another process has written it since,
        and takes over what that one has added; each batch counts once. An aggregator that has done
        neither replaces the file.

        Parameters
        ----------
        path : path-like
            The file to write; an existing one is replaced.

        Raises
        ------
        CheckpointError
            If the file was replaced by a state that cannot be brought together with this one. It
            is not touched then. This is a ValueError.
        RefusedBatchError
            If another process has counted other reports under the id of one of our batches, or the
            same reports under another id. Its batch stays, ours is taken out, and the file is
            written. This is a ValueError.
        """
        left_out, refused = self._save(path)
        if refused:
            raise refused[0]
        if left_out:
            raise CheckpointError(
                f"{path} has some batches of a sum that was merged here, but not all of them: "
                f"{left_out[0]!r} and {len(left_out) - 1} more were left out. Add them again."
            )

    def _save(self, path: str | PathLike[str]) -> tuple[list[str], list[RefusedBatchError]]:
        """Write a checkpoint; return the batches that are left out, and errors for refused ones."""
        left_out: list[str] = []
        refused: list[RefusedBatchError] = []
        with self._saving:
            while True:
                with self._lock:
                    state = self._state()
                    home = self._home if self._home and self._home.is_at(path) else None
                    is_new = self._home is None
                    if is_new:
                        self._home = home = _Home(path, _checkpoint.ANYTHING)
                    if home:
                        home.unsaved.begin_writing()
                replaces = home.seal if home else _checkpoint.ANYTHING
                try:
                    seal = _checkpoint.write(path, state, replaces=replaces, key=self._key)
                except _checkpoint.ReplacedError:
                    joined = self._join(path)
                    if joined is not None:
                        left_out += joined.left_out
                        refused += joined.refused
                    continue
                except BaseException:
                    if is_new:
                        self._home = None
                    raise
                if home:
                    home.saved(replace(state, seal=seal))
                return left_out, refused

    def _state(self) -> _checkpoint.Checkpoint:
        return _checkpoint.Checkpoint(
            self.configuration,
            self._counts,
            dict(self._ledger),
            self._n_repeats,
            self._n_refused,
            [tuple(refusal) for refusal in self._refusals],
            dict(self._digests),
        )

    def _join(self, path: str | PathLike[str]) -> Joined | None:
        """Take over the state on disk, if there is one, and add to it what was added here."""
        home = self._home
        if home is None:
            return None
        try:
            found = self._read(path)
        except FileNotFoundError:
            with self._lock:
                home.seal = None
            return None
        with self._lock:
            ours = State(self._counts, self._ledger, self._digests)
            joined = join(path, found, ours, home.unsaved, self._bits)
            n_new = self._n_refused - home.n_refused
            new = list(self._refusals)[-n_new:] if n_new else []
            self._refusals.clear()
            self._refusals.extend([*(Refusal(*item) for item in found.refused), *new])
            self._n_refused += found.n_refused - home.n_refused
            self._n_repeats += found.n_repeats - home.n_repeats
            home.taken(found)
            self._restore(joined.state)
            for error in joined.refused:
                self.note_refusal(error.batch_id, error)
        return joined

    def _read(self, path: str | PathLike[str]) -> _checkpoint.Checkpoint:
        """The state on disk, after all checks."""
        protocol = self._protocol
        return _checkpoint.read(
            path,
            protocol.configuration,
            protocol.empty,
            mechanism=protocol.mechanism,
            key=self._key,
        )

    def _restore(self, state: State) -> None:
        self._counts, self._ledger, self._digests = state
        self._copies = copy_keys(self._ledger, self._digests, self._bits)
        self._sources = Sources(self._caps, self._ledger)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        oracle: OracleOrProtocol,
        *,
        collection_round: str = "",
        on_repeat: str = "raise",
        caps: Caps | None = None,
        key: bytes | None = None,
    ) -> Aggregator:
        """Read a checkpoint that `save` wrote.

        Parameters
        ----------
        path : path-like
            The file to read.
        oracle : oracle or Protocol
            Unfitted, with the configuration that the checkpoint was written with.
        collection_round : str, default=""
            Name of the collection.
        on_repeat : {"raise", "ignore"}, default="raise"
            As for the class.
        caps : Caps, default=None
            As for the class. What the checkpoint holds is not refused.
        key : bytes, default=None
            As for the class: a checkpoint that was not signed with it is refused.

        Returns
        -------
        Aggregator
            An aggregator in the state that was saved.

        Raises
        ------
        CheckpointError
            If the file is damaged, cut short, of another collection or not signed with the key, or
            if its sums cannot be those of its batches. This is a ValueError.
        """
        result = cls(
            oracle, collection_round=collection_round, on_repeat=on_repeat, caps=caps, key=key
        )
        state = result._read(path)
        result._restore(State(state.counts, state.batches, state.digests))
        result._n_repeats, result._n_refused = state.n_repeats, state.n_refused
        result._refusals.extend(Refusal(*refusal) for refusal in state.refused)
        result._home = _Home(path, state.seal)
        result._home.taken(state)
        return result

    @classmethod
    def _open(cls, path: str | PathLike[str], oracle: Any, **options: Any) -> Aggregator:
        """An aggregator whose state belongs at `path`, whether there is one yet or not."""
        try:
            return cls.load(path, oracle, **options)
        except FileNotFoundError:
            result = cls(oracle, **options)
            result._home = _Home(path, None)
            return result

    @property
    def _has_much_unsaved(self) -> bool:
        return self._home is not None and self._home.unsaved.is_large

    def __getstate__(self) -> dict[str, Any]:
        if self._key is not None:
            raise TypeError(
                "An Aggregator with a key is not pickled, so that the key gets nowhere by accident:"
                " save a checkpoint, or send its tally()."
            )
        locks = ("_lock", "_saving")
        return {name: value for name, value in vars(self).items() if name not in locks}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock(), _saving=threading.Lock())


class _Home:
    """The checkpoint of an aggregator: what is known to be there, and what is not there yet."""

    def __init__(self, path: str | PathLike[str], seal: bytes | None):
        self._path = Path(path).resolve()
        self.unsaved = Unsaved()
        self.seal = seal
        self.n_repeats = self.n_refused = 0

    def is_at(self, path: str | PathLike[str]) -> bool:
        return Path(path).resolve() == self._path

    def taken(self, state: _checkpoint.Checkpoint) -> None:
        """The state on disk, as it has just been read."""
        self.seal, self.n_repeats, self.n_refused = state.seal, state.n_repeats, state.n_refused

    def saved(self, state: _checkpoint.Checkpoint) -> None:
        """The state on disk, as it has just been written."""
        self.taken(state)
        self.unsaved.end_writing()


def _refuse_overflow(tally: Tally | Batch, counts: Any) -> None:
    try:
        refuse_overflow(tally.n_samples + counts.n_samples)
    except ValueError as error:
        raise RefusedBatchError(f"A tally is refused: {error}.") from None


def _short(text: Any) -> str:
    text = printable(text)
    return text if len(text) <= _REASON_CHARACTERS else f"{text[:_REASON_CHARACTERS]}..."
