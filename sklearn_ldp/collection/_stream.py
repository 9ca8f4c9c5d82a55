"""Add up all batches of a source: files, folders, tables, streams."""

from __future__ import annotations

import errno
import os
import time
from os import PathLike
from pathlib import Path
from typing import Any

from ._aggregator import Aggregator
from ._batches import RefusedBatchError, RepeatedBatchError, check_batch_id
from ._convert import is_iterator
from ._report_files import tally_source
from ._sources import Piped, is_path, report_files, unreadable
from ._storage import is_url, remote_file


def aggregate(
    source: Any,
    oracle: Any,
    *,
    batch_id: str | None = None,
    collection_round: str = "",
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 10.0,
    on_repeat: str = "raise",
    on_refusal: str = "raise",
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
        when the work is interrupted.
    checkpoint_seconds : float, default=10.0
        Minimum number of seconds between two checkpoints.
    on_repeat : {"raise", "ignore"}, default="raise"
        What to do with a batch that was seen before; an aggregator has its own setting.
    on_refusal : {"raise", "skip"}, default="raise"
        Whether to stop at a batch that is refused, or to note it in the summary and continue.
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
    FileNotFoundError
        If `source` is a path at which there is nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.collection import aggregate
    >>> oracle = GRR(2.0, categories=["red", "green"], random_state=0)
    >>> batches = (oracle.privatize(["red"] * 50_000) for _ in range(3))
    >>> aggregate(batches, oracle).estimate_.values.round(1) + 0
    array([[1., 0.]])
    """
    prefix = batch_id
    if batch_id is None and not isinstance(oracle, Aggregator):
        prefix = "batch"
    aggregator, resumed, keeper = started(
        oracle, checkpoint, checkpoint_seconds, collection_round, on_repeat, on_refusal
    )
    try:
        for name, reports in _batches(source, prefix, batch_id is not None, storage_options):
            try:
                _add(aggregator, name, reports, resumed)
            except RefusedBatchError:
                if on_refusal == "raise":
                    raise
            keeper.tick()
    finally:
        keeper.save()
    return aggregator


def started(oracle, checkpoint, checkpoint_seconds, collection_round, on_repeat, on_refusal):
    """The aggregator to add to, the batches in its checkpoint, and what writes checkpoints."""
    if on_refusal not in ("raise", "skip"):
        raise ValueError(f'on_refusal must be "raise" or "skip", got {on_refusal!r}.')
    aggregator = oracle
    if not isinstance(oracle, Aggregator):
        options = {"collection_round": collection_round, "on_repeat": on_repeat}
        if checkpoint is not None and Path(checkpoint).exists():
            aggregator = Aggregator.load(checkpoint, oracle, **options)
        else:
            aggregator = Aggregator(oracle, **options)
    elif checkpoint is not None or collection_round or on_repeat != "raise":
        raise ValueError(
            "An Aggregator has a round and an on_repeat of its own, and may hold more than a "
            "checkpoint would: give an oracle instead, or save the Aggregator yourself."
        )
    resumed = frozenset(aggregator.batches) if checkpoint is not None else frozenset()
    return aggregator, resumed, _Keeper(aggregator, checkpoint, checkpoint_seconds)


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


def _add(aggregator, name, reports, resumed):
    if name is not None:
        if name not in resumed:
            aggregator.add(reports, name)
        return

    def is_known(batch_id):
        return batch_id in resumed or aggregator._is_repeat([batch_id])

    try:
        tally = tally_source(reports, aggregator._protocol, is_known=is_known)
    except RepeatedBatchError:
        raise
    except (RefusedBatchError, OSError) as error:
        refusal = error if isinstance(error, RefusedBatchError) else unreadable(reports, error)
        name = reports.name if isinstance(reports, Piped) else os.fspath(reports)
        aggregator.note_refusal(name, refusal)
        raise refusal from error
    if tally is not None:
        aggregator.merge(tally)


class _Keeper:
    """Write a checkpoint from time to time, if there is something new."""

    def __init__(self, aggregator, path, seconds):
        self._aggregator = aggregator
        self._path = path
        self._seconds = seconds
        self._last = time.monotonic()
        self._saved = self._mark()

    def _mark(self):
        summary = self._aggregator.summary()
        return summary.n_batches, summary.n_refused, summary.n_repeats

    def tick(self):
        if self._path is not None and time.monotonic() - self._last >= self._seconds:
            self.save()

    def save(self):
        if self._path is None or self._saved == (mark := self._mark()):
            return
        self._aggregator.save(self._path)
        self._last, self._saved = time.monotonic(), mark
