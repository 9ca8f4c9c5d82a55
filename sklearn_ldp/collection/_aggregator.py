"""A collection in progress: it adds up batches of reports and counts each exactly once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from sklearn.base import clone

from .._estimate import FrequencyEstimate
from .._files._text import printable
from ..oracles import BaseOracle
from ..protocols import as_protocol
from . import _checkpoint
from ._batches import RefusedBatchError, check_batch_id, repeated
from ._tally import Tally, refuse_difference, tally_batch

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
        What to do with a batch whose id was seen before.

    Raises
    ------
    ValueError
        If the oracle's domain is not known, or if the oracle already holds reports.

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
        self, oracle: Any, *, collection_round: str = "", on_repeat: str = "raise"
    ) -> None:
        if on_repeat not in ("raise", "ignore"):
            raise ValueError(f'on_repeat must be "raise" or "ignore", got {on_repeat!r}.')
        self._protocol = as_protocol(oracle, collection_round)
        self._oracle = clone(oracle) if isinstance(oracle, BaseOracle) else None
        self._counts = self._protocol.empty
        self._ledger: dict[str, int] = {}
        self._refusals: deque[Refusal] = deque(maxlen=_KEPT_REFUSALS)
        self._n_refused = 0
        self._n_repeats = 0
        self._lock = threading.RLock()
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
        if self._is_repeat([batch_id]):
            return self
        try:
            tally = tally_batch(reports, self._protocol, batch_id)
        except RefusedBatchError as error:
            self.note_refusal(batch_id, error)
            raise
        self._commit(tally)
        return self

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
            If `other` is of another collection, or if one of its batches was seen before (with
            ``on_repeat="ignore"``: if some of its batches were, but not all). This is a
            ValueError.
        """
        tally = other.tally() if isinstance(other, Aggregator) else other
        if not isinstance(tally, Tally):
            raise TypeError(
                f"Aggregator.merge needs an Aggregator or a Tally, got {type(other).__name__}."
            )
        refuse_difference("Aggregator.merge", tally, self._protocol.configuration, self._counts)
        self._commit(tally)
        return self

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

    def _is_repeat(self, batch_ids: Collection[str]) -> bool:
        """Return whether all batches were seen before; raise unless such repeats are ignored."""
        with self._lock:
            seen = [batch for batch in batch_ids if batch in self._ledger]
            if not seen:
                return False
            if self.on_repeat == "ignore" and len(seen) == len(batch_ids):
                self._n_repeats += len(seen)
                return True
            error = repeated("Aggregator", seen)
            self.note_refusal(seen[0], error)
            raise error

    def _commit(self, tally: Tally) -> None:
        """Add a whole tally: ledger and counts change together, even if Ctrl-C interrupts."""
        with self._lock:
            if self._is_repeat(tally.batches):  # another thread has just added it
                return
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
    def oracle_(self) -> BaseOracle:
        """A fitted oracle that holds the counts."""
        if self._oracle is None:
            raise AttributeError(
                f"This Aggregator was given a protocol of {self._protocol.name} instead of an "
                "oracle, so it makes no estimate; tally() returns the sums."
            )
        return self._oracle._with_counts(self._counts)

    @property
    def estimate_(self) -> FrequencyEstimate:
        """The raw estimate, of shape (1, d), with its shards."""
        if not self.n_samples:
            raise ValueError("This Aggregator holds no reports yet: add a batch first.")
        return self.oracle_.estimate_

    def tally(self) -> Tally:
        """Return the sums and the ledger, to be merged elsewhere.

        Returns
        -------
        Tally
            A snapshot of the present state.
        """
        with self._lock:
            return Tally.of(self._protocol, self._counts, self._ledger)

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
        is read without pickle. What a killed process left of an earlier attempt is removed. Only
        one process at a time may write the file.

        Parameters
        ----------
        path : path-like
            The file to write; an existing one is replaced.
        """
        with self._lock:
            state = _checkpoint.Checkpoint(
                self.configuration,
                self._counts,
                dict(self._ledger),
                self._n_repeats,
                self._n_refused,
                [tuple(refusal) for refusal in self._refusals],
            )
        _checkpoint.write(path, state)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        oracle: Any,
        *,
        collection_round: str = "",
        on_repeat: str = "raise",
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

        Returns
        -------
        Aggregator
            An aggregator in the state that was saved.

        Raises
        ------
        CheckpointError
            If the file is damaged, cut short or of another collection. This is a ValueError.
        """
        result = cls(oracle, collection_round=collection_round, on_repeat=on_repeat)
        protocol = result._protocol
        state = _checkpoint.read(path, protocol.configuration, protocol.empty)
        result._counts = state.counts
        result._ledger = state.batches
        result._n_repeats, result._n_refused = state.n_repeats, state.n_refused
        result._refusals.extend(Refusal(*refusal) for refusal in state.refused)
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())


def _short(text: Any) -> str:
    text = printable(text)
    return text if len(text) <= _REASON_CHARACTERS else f"{text[:_REASON_CHARACTERS]}..."
