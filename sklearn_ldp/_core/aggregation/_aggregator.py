"""The Aggregator, which adds up batches of reports and counts each batch exactly once."""

from __future__ import annotations

import re
import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

from sklearn.base import clone

from ..common.locks import lock_of
from ..common.text import printable
from ..fitting import BaseCollector
from ..mechanisms import OracleOrProtocol, as_protocol
from . import checkpoints
from ._batches import Caps, RefusedBatchError, Sources, as_key
from ._header import Header
from ._ledger import CopyRule, KnownLines, Ledger, repeated
from ._tally import Tally, checked_tally, count_batch, without_order

_KEPT_REFUSALS = 1000  # a bound on the memory that hostile clients can use up
_REASON_CHARACTERS = 500


class Refusal(NamedTuple):
    """A batch that was refused.

    Parameters
    ----------
    batch_id : str
        The batch's id, or the name of its file if the id could not be read.
    reason : str
        The message of the error that refused the batch.
    """

    batch_id: str
    reason: str


@dataclass(frozen=True)
class CollectionSummary:
    """Numbers of the reports and batches of a collection that were counted, ignored and refused.

    Parameters
    ----------
    configuration : dict
        The collection's configuration, see :func:`report_configuration`.
    n_samples : int
        Number of reports that were counted.
    n_batches : int
        Number of batches that were counted.
    n_repeats : int
        Number of repeated batches that were ignored.
    n_refused : int
        Number of batches that were refused.
    refused : tuple of Refusal
        The batches that were refused last (at most 1000), with the reasons.
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
        lines = [f"{key}: {_as_text(key, value)}" for key, value in self.configuration.items()]
        others = f"{self.n_repeats} repeats ignored, {self.n_refused} refused"
        lines += [f"reports: {self.n_samples}", f"batches: {self.n_batches} ({others})"]
        lines += [f"refused '{printable(name)}': {printable(why)}" for name, why in self.refused]
        return "\n".join(lines)


def _as_text(key: str, value: Any) -> str:
    """Return a value of a configuration as text: exact probabilities become decimals."""
    text = printable(value)
    if key not in ("p", "q") and not key.startswith("part_"):
        return text
    return re.sub(r"(\d+)/(\d+)", lambda match: f"{int(match[1]) / int(match[2]):.6g}", text)


class Aggregator:
    """Add up batches of reports and count each batch exactly once.

    An oracle adds up all reports that it receives. An aggregator also stores a ledger, which is the
    list of the batches that were counted. Each batch has an id and is counted once, even if it is
    sent several times. If a batch contains a report that no client of the oracle can send, the
    aggregator refuses the whole batch and records the refusal in its summary. The counts are exact
    integers that do not depend on the order of the batches. Several threads may call the methods of
    one aggregator: each report is counted once, and each result is a snapshot. A forked process has
    its own copy.

    Privacy: costs none.

    Parameters
    ----------
    oracle : oracle or Protocol
        An unfitted oracle with declared categories, of which the aggregator makes a copy; or its
        protocol.
    collection_round : str, default=""
        Name of the collection. Files with another name are refused.
    on_repeat : {"raise", "ignore"}, default="raise"
        Whether to raise an error for a batch that was counted before, or to ignore the batch. In
        either case, the aggregator refuses a batch with the id of an earlier batch but different
        reports, and a batch with the reports of an earlier batch but a new id. It also refuses a
        file of reports as clients post them if the file has grown since it was counted.
    caps : Caps, default=None
        Limits on the sizes of batches and on their sources. If None, there are no limits.
    key : bytes, default=None
        A secret of at least 16 bytes. If there is a key, the aggregator signs its checkpoints and
        tallies, and refuses checkpoints and tallies without a signature of the key. Reports that
        are passed to `add` have no signature and are trusted.

    Raises
    ------
    ValueError
        If the categories of the oracle are not declared, if the oracle already contains reports, or
        if the key is too short.

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
        ledger = Ledger({}, {}, CopyRule.of(self._protocol))
        # Counts and ledger are replaced in one assignment, so that Ctrl-C cannot separate them.
        self._held = Tally(self._protocol.configuration, self._protocol.empty, ledger)
        # The key of the digests of posted lines.
        self._secret = secrets.token_bytes(16)
        self._caps = caps or Caps()
        self._sources = Sources(self._caps)
        self._key = as_key(key)
        self._refusals: deque[Refusal] = deque(maxlen=_KEPT_REFUSALS)
        self._n_refused = 0
        self._n_repeats = 0
        # Batches of the checkpoint from which this work resumes. They are not reported as repeats.
        self._resumed: frozenset[str] = frozenset()
        # For each path, the seals of the checkpoints that this state may replace.
        self._seals: dict[Path, set[bytes]] = {}
        self.on_repeat = on_repeat

    # -- adding -------------------------------------------------------------------------------
    def add(self, reports: Any, batch_id: str) -> Self:
        """Add a batch of reports. Each batch is counted once.

        Parameters
        ----------
        reports : array-like, Arrow stream, or iterator of arrays or streams
            Reports from the oracle's `privatize`.
        batch_id : str
            Name of the batch. If a sender sends a batch again, the name must be the same.

        Returns
        -------
        self : object
            The aggregator itself, with the batch added.

        Raises
        ------
        RefusedBatchError
            If a report cannot come from the oracle; if the reports have no attached protocol and
            support clearly more or fewer categories than expected for this epsilon (see the
            oracle's `aggregate`); or if the batch was counted before. This is a ValueError.
        """
        with self._recording(batch_id):
            self._commit(count_batch(reports, self._protocol, batch_id))
        return self

    def merge(self, other: Aggregator | Tally) -> Self:
        """Add the batches that another server or a worker has added up.

        Parameters
        ----------
        other : Aggregator or Tally
            The sums of batches of the same collection; `other` is not modified. A file of reports
            as clients post them may grow, and only one server should read such a file. If two
            servers read it while it grows, reports are counted twice, because a server cannot
            compare its reports with the reports of another server.

        Returns
        -------
        self : object
            The aggregator itself, with the batches of `other` added. The list of refused batches of
            `other` is not copied.

        Raises
        ------
        RefusedBatchError
            If `other` belongs to another collection; if its sums contradict the numbers of reports
            of its batches; if this aggregator has a key that has not signed `other`; or if one of
            the batches was counted before. With ``on_repeat="ignore"``, `other` is ignored if all
            of its batches were counted before, and refused if only some were. This is a ValueError.
        """
        tally = other.tally() if isinstance(other, Aggregator) else other
        if not isinstance(tally, Tally):
            raise TypeError(
                f"Aggregator.merge needs an Aggregator or a Tally, got {type(other).__name__}. To "
                "add reports, use Aggregator.add."
            )
        with self._recording(next(iter(tally.ledger), "a tally without batches")):
            tally.refuse_unsigned(self._key)
            self._held.refuse_other(tally)
            self._commit(checked_tally(tally, self._protocol.mechanism))
        return self

    def note_refusal(self, batch_id: str, reason: str | Exception) -> None:
        """Add a refused batch to the summary, for example a file that could not be read.

        Parameters
        ----------
        batch_id : str
            Name of the batch or of its file.
        reason : str or Exception
            The reason for the refusal.
        """
        refusal = Refusal(_short(batch_id), _short(reason))
        with lock_of(self):
            self._n_refused += 1
            self._refusals.append(refusal)

    def _is_known(self, header: Header) -> bool:
        """Return whether a file can be skipped because its header shows that it was counted before.

        Return False if the header is not enough to decide. Raise RefusedBatchError if the number of
        reports violates a limit, or if the batch was counted before and repeats are not ignored.
        """
        batch_id = header.batch_id
        self._caps.refuse_size(batch_id, header.n_samples)
        with lock_of(self):
            ledger = self._held.ledger
            ledger.refuse_grown(batch_id, getattr(header, "prefixes", ()))  # of posted lines
            is_known = ledger.has_file(batch_id, header.origin)
            return is_known and self._is_repeat(Ledger({batch_id: header.n_samples}, {}))

    def _is_repeat(self, batches: Ledger) -> bool:
        """Return whether all batches were counted before and are to be ignored.

        Return False if none was counted before. Otherwise raise RefusedBatchError.
        """
        seen = self._held.ledger.repeats(batches)
        if not seen:
            return False
        n_others = len(batches) - len(seen)
        is_resumed = self._resumed.issuperset(seen)
        if n_others or not (is_resumed or self.on_repeat == "ignore"):
            raise repeated(seen, n_others)
        if not is_resumed:
            self._n_repeats += len(seen)
        return True

    @contextmanager
    def _recording(self, name: str) -> Iterator[None]:
        """Record a RefusedBatchError of the `with` block in the summary, and raise it again."""
        try:
            yield
        except RefusedBatchError as error:
            self.note_refusal(name, error)
            raise

    def _commit(self, tally: Tally) -> None:
        """Add a tally, unless all of its batches are repeats.

        The sums and the list of counted batches change together, even if Ctrl-C interrupts the
        call.
        """
        with lock_of(self):
            if self._is_repeat(tally.ledger):
                return
            self._sources.refuse(tally.ledger)
            self._held = self._held + tally
            self._sources.add(tally.ledger)

    @property
    def _known_lines(self) -> KnownLines:
        return KnownLines(self._held.ledger.posted_sizes, self._secret)

    # -- results ------------------------------------------------------------------------------
    def __contains__(self, batch_id: object) -> bool:
        return batch_id in self._held.ledger

    def __repr__(self) -> str:
        held = self._held
        content = f"{held.n_samples} reports in {len(held.ledger)} batches"
        return f"Aggregator({self._protocol.name}, {content})"

    @property
    def n_samples(self) -> int:
        """Return the number of reports that were counted."""
        return self._held.n_samples

    @property
    def batches(self) -> Mapping[str, int]:
        """Return the list of counted batches: a snapshot that maps ids to numbers of reports."""
        return self._held.ledger

    @property
    def configuration(self) -> dict[str, Any]:
        """Return the configuration of the collection, see :func:`report_configuration`."""
        return dict(self._protocol.configuration)

    @property
    def oracle_(self) -> Any:
        """Return a copy of the oracle (or survey) that is fitted with all reports so far."""
        if self._oracle is None:
            raise AttributeError(
                "This Aggregator was created from a protocol, so it has no oracle and no "
                "estimate. Create it from an oracle, or merge its tally() into an Aggregator "
                "that has an oracle."
            )
        return self._oracle.__collector__().with_counts(self._held.counts)

    @property
    def estimate_(self) -> Any:
        """Return the raw estimate from all reports so far.

        An oracle has a FrequencyEstimate of shape (1, d). It also contains the counts of each
        shard, a random group of reports. A survey has an EstimateSet.
        """
        if not self.n_samples:
            raise ValueError(
                "This Aggregator has no reports yet, so it has no estimate. Call add or merge "
                "first."
            )
        return self.oracle_.estimate_

    def tally(self) -> Tally:
        """Return the sums and the list of counted batches, as a tally for another aggregator.

        Returns
        -------
        Tally
            A snapshot of the present state. It is signed if the aggregator has a key.
        """
        return without_order(self._held).signed(self._key)

    def summary(self) -> CollectionSummary:
        """Return the numbers of reports and batches so far, and the refused batches with reasons.

        Returns
        -------
        CollectionSummary
            A snapshot of the present state; ``print`` displays it.
        """
        with lock_of(self):
            return CollectionSummary(
                configuration=self.configuration,
                n_samples=self.n_samples,
                n_batches=len(self._held.ledger),
                n_repeats=self._n_repeats,
                n_refused=self._n_refused,
                refused=tuple(self._refusals),
                shard_sizes=tuple(self._held.sizes.tolist()),
            )

    # -- on disk ------------------------------------------------------------------------------
    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file, a checkpoint, from which `load` restores the aggregator.

        The file is written atomically: when this method returns, it is complete and on disk, and an
        interrupted call leaves the old file unchanged. The format is an uncompressed npz archive
        that is read without pickle. Temporary files of killed processes are removed.

        Only one process at a time can write a checkpoint. If this aggregator has loaded or saved
        the file before, and another process has written the file since then, the method raises an
        error instead of replacing the file. If this aggregator has neither loaded nor saved the
        file, the method replaces an existing file.

        Parameters
        ----------
        path : path-like
            The file to write. An existing file is replaced.

        Raises
        ------
        CheckpointError
            If another process has written the file since this aggregator loaded or saved it, or if
            another process is using the file now. The file is then unchanged. This is a ValueError.
        """
        with lock_of(self, "save"), checkpoints.locked(Path(path), 0):
            self._write(path)

    def _write(self, path: str | PathLike[str]) -> None:
        """Write the checkpoint to a file. The caller must have locked the file before."""
        place = Path(path).resolve()
        with lock_of(self):
            state = checkpoints.Checkpoint(
                tally=without_order(self._held),
                n_repeats=self._n_repeats,
                n_refused=self._n_refused,
                refused=list(self._refusals),
                secret=self._secret,
            )
        seal = checkpoints.write(path, state, self._seals.get(place), key=self._key)
        self._seals[place] = {seal}

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
        """Return an aggregator with the state in a checkpoint, which `save` has written.

        Parameters
        ----------
        path : path-like
            The file to read.
        oracle : oracle or Protocol
            An unfitted oracle with the same parameters as the oracle of the saved aggregator; or
            its protocol.
        collection_round : str, default=""
            Name of the collection.
        on_repeat : {"raise", "ignore"}, default="raise"
            As for the class.
        caps : Caps, default=None
            As for the class. The limits do not apply to the batches in the checkpoint.
        key : bytes, default=None
            As for the class. A checkpoint without a signature of the key is refused.

        Returns
        -------
        Aggregator
            An aggregator in the state that was saved.

        Raises
        ------
        CheckpointError
            If the file is damaged or truncated, if it belongs to another collection, if there is a
            key that has not signed it, or if its sums contradict the numbers of reports of its
            batches. This is a ValueError.
        """
        result = cls(
            oracle, collection_round=collection_round, on_repeat=on_repeat, caps=caps, key=key
        )
        state = checkpoints.read(path, result._protocol, key=result._key)
        result._held = state.tally
        result._secret = state.secret or result._secret
        result._sources.add(state.tally.ledger)
        result._n_repeats = state.n_repeats
        result._n_refused = state.n_refused
        result._refusals.extend(Refusal(*refusal) for refusal in state.refused)
        result._seals[Path(path).resolve()] = {state.seal}
        return result

    @classmethod
    def _open(cls, path: str | PathLike[str], oracle: Any, **options: Any) -> Aggregator:
        """Return the aggregator in the checkpoint at `path`.

        If there is no file, return an empty one.
        """
        try:
            result = cls.load(path, oracle, **options)
        except FileNotFoundError:
            result = cls(oracle, **options)
            result._seals[Path(path).resolve()] = set()
        result._resumed = frozenset(result._held.ledger)
        return result

    def __getstate__(self) -> dict[str, Any]:
        if self._key is not None:
            raise TypeError(
                "An Aggregator with a key cannot be pickled, because the pickle would reveal the "
                "key. Save a checkpoint with save(path), or send the result of tally()."
            )
        # A pickle is written after this returns, while other threads may add and save.
        with lock_of(self, "save"), lock_of(self):
            sources = Sources(self._caps)
            sources.add(self._held.ledger)
            return vars(self) | {
                "_held": without_order(self._held, CopyRule.of(self._protocol)),
                "_refusals": self._refusals.copy(),
                "_seals": {path: set(seals) for path, seals in self._seals.items()},
                "_sources": sources,
            }


def _short(text: Any) -> str:
    text = printable(text)
    return text if len(text) <= _REASON_CHARACTERS else f"{text[:_REASON_CHARACTERS]}..."
