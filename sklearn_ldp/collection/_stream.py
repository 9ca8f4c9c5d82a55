"""Add up all batches of a source: files, folders, tables, streams."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from .._typing import OracleOrProtocol
from ._aggregator import Aggregator
from ._batches import RefusedBatchError, check_batch_id
from ._caps import Caps
from ._checkpoint import CheckpointError
from ._lock import LockedError, locked
from ._report_files import count_source
from ._sources import Piped, is_path, report_files, unreadable
from ._storage import is_url, remote_file
from .containers import is_iterator


def aggregate(
    source: Any,
    oracle: OracleOrProtocol | Aggregator,
    *,
    batch_id: str | None = None,
    collection_round: str = "",
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 10.0,
    on_repeat: str = "raise",
    on_refusal: str = "raise",
    lock_seconds: float = 600.0,
    caps: Caps | None = None,
    key: bytes | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Aggregator:
    """Add up batches of reports from any source, in constant memory.

    Privacy: costs none.

    Parameters
    ----------
    source : path-like, array-like, Arrow stream, or iterator
        One of these:

        - a file that :func:`write_reports` wrote, a folder of such files, which are taken in the
          order of their names, or a list of files and folders; each file is a batch, under the id
          that it carries;
        - an address of object storage instead of a path, such as ``s3://bucket/folder``,
          ``gs://...`` or ``memory://...``, which fsspec or pyarrow opens (extra ``storage``);
        - an array (also one mapped from a file), a list, or any object that streams Arrow columns,
          such as a pandas, polars or Arrow table: one batch;
        - an iterator of any of these, each of which is one batch; or of pairs of an id and a
          batch.
    oracle : oracle, Protocol or Aggregator
        The oracle or protocol of the reports, or an aggregator to add them to.
    batch_id : str, default=None
        Name of the batch, or of the stream, whose batches are then called ``name/0``, ``name/1``
        and so on. Needed if `oracle` is an aggregator and the batches have no ids of their own.
    collection_round : str, default=""
        Name of the collection; leave it empty for an aggregator, which has its own.
    checkpoint : path-like, default=None
        A file that keeps the state. It is created if missing, otherwise the work is resumed from
        it: batches that it holds are left out. It is written from time to time, at the end, and
        when the work is interrupted. One process at a time works on it.
    checkpoint_seconds : float, default=10.0
        Minimum number of seconds between two checkpoints.
    on_repeat : {"raise", "ignore"}, default="raise"
        What to do with a batch that was seen before; an aggregator has its own setting.
    on_refusal : {"raise", "skip"}, default="raise"
        Whether to stop at a batch that is refused, or to note it in the summary and continue.
    lock_seconds : float, default=600.0
        How long to wait for another process that adds to the same checkpoint, in seconds. The work
        then goes on from what that process has added.
    caps : Caps, default=None
        Limits on batches and their sources; an aggregator has its own.
    key : bytes, default=None
        The key of the collection, at least 16 bytes: files and checkpoints that were not signed
        with it are refused. Arrays and tables carry no signature and are trusted. An aggregator has
        its own key.
    storage_options : dict, default=None
        What fsspec's driver of the object storage needs besides the address, such as credentials;
        None leaves them to the environment.

    Returns
    -------
    Aggregator
        The given aggregator, or a new one, with the batches added.

    Raises
    ------
    RefusedBatchError
        If a batch is refused; what was added before is kept. A file that cannot be read, for
        instance because it has vanished from a folder or a list, is refused as well.
    CheckpointError
        If the checkpoint is damaged, of another collection or in use by another process.
    FileNotFoundError
        If `source` is a path at which there is nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.collection import aggregate
    >>> oracle = GRR(2.0, categories=["red", "green"], random_state=np.random.default_rng(0))
    >>> batches = (oracle.privatize(["red"] * 50_000) for _ in range(3))
    >>> aggregate(batches, oracle).estimate_.values.round(1) + 0
    array([[1., 0.]])
    """
    prefix = batch_id
    if batch_id is None and not isinstance(oracle, Aggregator):
        prefix = "batch"
    with collecting(
        oracle,
        checkpoint,
        on_refusal,
        seconds=(checkpoint_seconds, lock_seconds),
        collection_round=collection_round,
        on_repeat=on_repeat,
        caps=caps,
        key=key,
    ) as (aggregator, keeper):
        for name, reports in _batches(source, prefix, batch_id is not None, storage_options):
            try:
                _add(aggregator, name, reports, keeper.known)
            except RefusedBatchError:
                if on_refusal == "raise":
                    raise
            keeper.tick()
    return aggregator


@contextmanager
def collecting(
    oracle: Any,
    checkpoint: Any,
    on_refusal: str,
    *,
    seconds: tuple[float, float],
    **options: Any,
) -> Iterator[tuple[Aggregator, Keeper]]:
    """The aggregator to add to, and what writes its checkpoint, now and then and at the end."""
    if on_refusal not in ("raise", "skip"):
        raise ValueError(f'on_refusal must be "raise" or "skip", got {on_refusal!r}.')
    checkpoint_seconds, lock_seconds = seconds
    if isinstance(oracle, Aggregator):
        given = {**options, "checkpoint": checkpoint}
        defaults = {"collection_round": "", "on_repeat": "raise"}
        if any(value != defaults.get(name) for name, value in given.items()):
            raise ValueError(
                "An Aggregator has a round and an on_repeat of its own, caps and a key, and may "
                "hold more than a checkpoint would: give an oracle instead, or save the Aggregator "
                "yourself."
            )
        yield oracle, Keeper(oracle, None, checkpoint_seconds, on_refusal)
        return
    if checkpoint is None:
        aggregator = Aggregator(oracle, **options)
        yield aggregator, Keeper(aggregator, None, checkpoint_seconds, on_refusal)
        return
    with _alone(Path(checkpoint), lock_seconds):
        aggregator = Aggregator._open(checkpoint, oracle, **options)
        keeper = Keeper(aggregator, checkpoint, checkpoint_seconds, on_refusal)
        try:
            yield aggregator, keeper
        finally:
            keeper.save()


@contextmanager
def _alone(path: Path, seconds: float) -> Iterator[None]:
    try:
        with locked(path, seconds):
            yield
    except LockedError as error:
        raise CheckpointError(str(error)) from None


def _batches(source, prefix, is_named, storage_options):
    """Yield names and batches; the name is None for a file, which carries its own."""
    paths = _paths(source, storage_options)
    if paths is not None:
        if is_named:
            raise ValueError("A file carries the id of its batch: leave out batch_id.")
        yield from ((None, path) for path in paths)
    elif not is_iterator(source):
        yield _name(prefix), source
    else:
        for number, item in enumerate(source):
            if is_url(item):
                yield None, remote_file(item, storage_options)
            elif is_path(item) or isinstance(item, Piped):
                yield None, item
            elif isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
                yield item
            else:
                yield f"{_name(prefix)}/{number}", item


def _paths(source, storage_options):
    """The files that a path, or a list of paths, stands for; None if the source holds reports."""
    if is_path(source):
        paths = report_files(source, storage_options)
        if isinstance(paths[0], Path) and not os.path.lexists(paths[0]):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        return paths
    if isinstance(source, (list, tuple)) and source and all(map(is_path, source)):
        return [file for path in source for file in report_files(path, storage_options)]
    return None


def _name(prefix):
    if prefix is None:
        raise ValueError(
            "An Aggregator counts each batch once, so these need a name: give batch_id, or pairs "
            "of an id and a batch."
        )
    check_batch_id(prefix)
    return prefix


def _add(aggregator, name, reports, known):
    if name is not None:
        check_batch_id(name)
        aggregator._add(reports, name, known)
        return

    def is_known(header):
        aggregator._caps.refuse_size(header.batch_id, header.n_samples)
        return aggregator._is_known(header.batch_id, header.sha256, known)

    try:
        key = aggregator._key
        batch = count_source(reports, aggregator._protocol, key=key, is_known=is_known)
    except (RefusedBatchError, OSError) as error:
        refusal = error if isinstance(error, RefusedBatchError) else unreadable(reports, error)
        name = reports.name if isinstance(reports, Piped) else os.fspath(reports)
        aggregator.note_refusal(name, refusal)
        raise refusal from error
    if batch is not None:
        aggregator._commit(batch, known)


class Keeper:
    """Write a checkpoint from time to time, if there is something new.

    Parameters
    ----------
    aggregator : Aggregator
        What to write.
    path : path-like or None
        Where to write it; None writes nothing.
    seconds : float
        Least time between two checkpoints.
    on_refusal : {"raise", "skip"}
        Whether to raise if another process has counted other reports under an id of ours.
    """

    def __init__(self, aggregator: Aggregator, path: Any, seconds: float, on_refusal: str):
        self._aggregator = aggregator
        self._path = path
        self._seconds = seconds
        self._must_raise = on_refusal == "raise"
        self._last = time.monotonic()
        #: Batches that are on disk already: a source that has them again repeats nothing.
        self.known = set(aggregator.batches) if path is not None else set()
        #: Batches that could not be saved, because they came together with others in one sum.
        self._left_out: list[str] = []
        self._saved = self._mark()

    def take_left_out(self) -> list[str]:
        """Return these batches, once: they are to be added again."""
        taken, self._left_out = self._left_out, []
        return taken

    def _mark(self):
        summary = self._aggregator.summary()
        return summary.n_batches, summary.n_refused, summary.n_repeats

    def tick(self) -> None:
        """Write a checkpoint if it is time."""
        if self._path is None:
            return
        if self._aggregator._has_much_unsaved or time.monotonic() - self._last >= self._seconds:
            self.save()

    def save(self) -> None:
        """Write a checkpoint if there is something new; take over what others have written."""
        if self._path is None or self._saved == self._mark():
            return
        ours = set(self._aggregator.batches)
        left_out, refused = self._aggregator._save(self._path)
        self.known |= self._aggregator.batches.keys() - ours
        self._left_out += left_out
        self._last, self._saved = time.monotonic(), self._mark()
        if refused and self._must_raise:
            raise refused[0]
