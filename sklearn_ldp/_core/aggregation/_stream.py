"""`aggregate` and `aggregate_dask` add up batches on one machine or on a Dask cluster."""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any

from ..common.progress import Progress
from ..mechanisms import OracleOrProtocol, Protocol
from ._aggregator import Aggregator
from ._batches import Caps, RefusedBatchError, check_batch_id
from ._header import Header
from ._ledger import KnownLines
from ._report_files import count_source, read_header
from ._tally import Tally, without_order
from .checkpoints import locked
from .containers import is_iterator
from .sources import Piped, is_path, is_url, remote_file, report_files, unreadable


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
    """Add up batches of reports from files, folders, arrays or iterators, in constant memory.

    Privacy: costs none.

    Parameters
    ----------
    source : path-like, array-like, Arrow stream, or iterator
        One of these:

        - a file from :func:`write_reports`, a folder of such files, or a list of files and folders;
          each file is a batch and contains its id, and the files of a folder are read in the order
          of their names;
        - an address of object storage, such as ``s3://bucket/folder``, ``gs://...`` or
          ``memory://...``, instead of a path; fsspec or pyarrow opens it (extra ``storage``);
        - an array (also memory-mapped), a list, or any object that streams Arrow columns, such as a
          pandas, polars or Arrow table; all of its reports are one batch;
        - an iterator of files, arrays or tables as above, each of which is one batch; or an
          iterator of pairs of an id and such a batch.
    oracle : oracle, Protocol or Aggregator
        The oracle or protocol of the reports, or an aggregator to add them to.
    batch_id : str, default=None
        Name of the batch. If `source` is an iterator, its batches get the ids ``batch_id/0``,
        ``batch_id/1`` and so on. It is needed if `oracle` is an aggregator and the batches have no
        ids of their own. Files contain their ids, so leave it out for files.
    collection_round : str, default=""
        Name of the collection. Leave it empty for an aggregator, which has its own.
    checkpoint : path-like, default=None
        A file that stores the counts and the list of counted batches. If the file exists, the work
        resumes from its state, and batches that it contains are skipped. Otherwise the file is
        created. It is written from time to time, at the end, and when the work is interrupted. Only
        one process at a time can use it.
    checkpoint_seconds : float, default=10.0
        Minimum number of seconds between two checkpoints.
    on_repeat : {"raise", "ignore"}, default="raise"
        Whether to raise an error for a batch that was counted before, or to ignore the batch. An
        aggregator has its own setting.
    on_refusal : {"raise", "skip"}, default="raise"
        Whether to stop at a batch that is refused, or to record it in the summary and continue.
    lock_seconds : float, default=600.0
        How many seconds to wait if another process is using the same checkpoint. When the other
        process has ended, the work continues from the state that it has saved.
    caps : Caps, default=None
        Limits on batches and their sources. An aggregator has its own limits.
    key : bytes, default=None
        The key of the collection, at least 16 bytes. Files and checkpoints without a signature of
        the key are refused. Arrays and tables have no signature and are trusted. An aggregator has
        its own key.
    storage_options : dict, default=None
        Options of fsspec's driver of the object storage, such as credentials. If None, the driver
        uses the environment.

    Returns
    -------
    Aggregator
        The aggregator that was passed as `oracle`, or a new aggregator, with the batches added.

    Raises
    ------
    RefusedBatchError
        If a batch is refused. Batches that were added before it remain counted. A file that cannot
        be read, for example because it was deleted meanwhile, is also refused.
    CheckpointError
        If the checkpoint is damaged, belongs to another collection, or is in use by another
        process.
    FileNotFoundError
        If `source` is a path and nothing exists there.

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
    is_named = batch_id is not None
    prefix = batch_id if is_named or isinstance(oracle, Aggregator) else "batch"
    with _collecting(
        oracle,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        lock_seconds=lock_seconds,
        on_refusal=on_refusal,
        collection_round=collection_round,
        on_repeat=on_repeat,
        caps=caps,
        key=key,
    ) as work:
        for name, reports in _batches(source, prefix, is_named, storage_options):
            with work.step():
                if name is None:
                    _add_file(work.aggregator, reports)
                else:
                    work.aggregator.add(reports, name)
    return work.aggregator


# The options that an Aggregator has of its own, with their defaults.
_OWN_OPTIONS = {"collection_round": "", "on_repeat": "raise", "caps": None, "key": None}


@contextmanager
def _collecting(
    oracle: Any,
    *,
    checkpoint: str | PathLike[str] | None,
    checkpoint_seconds: float,
    lock_seconds: float,
    on_refusal: str,
    **own_options: Any,
) -> Iterator[_Work]:
    """Yield a `_Work` object for the `with` block.

    If there is a checkpoint, the work continues from it, and the file stays locked. The checkpoint
    is also written when the work ends or is interrupted.
    """
    if on_refusal not in ("raise", "skip"):
        raise ValueError(f'on_refusal must be "raise" or "skip", got {on_refusal!r}.')
    if isinstance(oracle, Aggregator) and (checkpoint is not None or own_options != _OWN_OPTIONS):
        raise ValueError(
            "An Aggregator has its own collection_round, on_repeat, caps and key, and cannot be "
            "combined with checkpoint=. Leave out these arguments, and call save(path) of the "
            "Aggregator; or pass an oracle instead of the Aggregator."
        )
    with nullcontext() if checkpoint is None else locked(Path(checkpoint), lock_seconds):
        if isinstance(oracle, Aggregator):
            aggregator = oracle
        elif checkpoint is None:
            aggregator = Aggregator(oracle, **own_options)
        else:
            aggregator = Aggregator._open(checkpoint, oracle, **own_options)
        work = _Work(
            aggregator,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            skips_refusals=on_refusal == "skip",
        )
        try:
            yield work
        finally:
            work.save()
            aggregator._resumed = frozenset()


class _Work:
    """An aggregator, to which batches are added one by one, and its checkpoint if there is one."""

    def __init__(
        self,
        aggregator: Aggregator,
        *,
        checkpoint: str | PathLike[str] | None,
        checkpoint_seconds: float,
        skips_refusals: bool,
    ) -> None:
        self.aggregator = aggregator
        self._checkpoint = checkpoint
        self._checkpoint_seconds = checkpoint_seconds
        self._skips_refusals = skips_refusals
        self._saved_at = time.monotonic()
        self._saved = aggregator.summary()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Suppress a RefusedBatchError of the `with` block if refused batches are to be skipped.

        The `with` block adds one batch. After it, the checkpoint is written if it is due.
        """
        try:
            yield
        except RefusedBatchError:  # the refusal is already recorded
            if not self._skips_refusals:
                raise
        if time.monotonic() - self._saved_at >= self._checkpoint_seconds:
            self.save()

    def save(self) -> None:
        """Write the checkpoint if there is one and the state has changed since the last write."""
        if self._checkpoint is None:
            return
        summary = self.aggregator.summary()
        # If every batch so far was refused, the oracle may be the wrong one.
        is_of_use = summary.n_batches > 0 or self._skips_refusals
        if is_of_use and summary != self._saved:
            self.aggregator._write(self._checkpoint)
            self._saved_at = time.monotonic()
            self._saved = summary


def _batches(source, prefix, is_named, storage_options):
    """Yield pairs of a batch's id and its reports.

    The id is None for a file, which contains its id.
    """
    paths = _paths(source, storage_options)
    if paths is not None:
        if is_named:
            raise ValueError(
                "Files of reports contain the ids of their batches, so batch_id= cannot be used "
                "with files. Leave out batch_id."
            )
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
    """Return the list of files if `source` is a path or a list of paths, otherwise None."""
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
            "An Aggregator needs an id for each batch, because it counts each batch once, but "
            "these batches have no ids. Pass batch_id=, or an iterator of pairs of an id and a "
            "batch."
        )
    check_batch_id(prefix)
    return prefix


def _add_file(aggregator: Aggregator, file: Any) -> None:
    name = file.name if isinstance(file, Piped) else os.fspath(file)
    with aggregator._recording(name):
        try:
            batch = count_source(
                file,
                aggregator._protocol,
                "auto",
                aggregator._key,
                aggregator._is_known,
                aggregator._known_lines,
            )
        except OSError as error:
            raise unreadable(file, error) from error
    if batch is not None:
        with aggregator._recording(next(iter(batch.ledger))):
            aggregator._commit(batch)


# -- files on a Dask cluster: workers run pure functions, the ledger stays here -------------------
def aggregate_dask(
    client: Any,
    files: Any,
    oracle: OracleOrProtocol | Aggregator,
    *,
    collection_round: str = "",
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 10.0,
    on_repeat: str = "raise",
    on_refusal: str = "raise",
    retries: int = 3,
    timeout: float | None = 600.0,
    progress: bool = False,
    lock_seconds: float = 600.0,
    caps: Caps | None = None,
    key: bytes | None = None,
) -> Aggregator:
    """Add up files of reports on a Dask cluster.

    Each file is a task of Dask: a worker calls :func:`tally_file` and sends the tally, which
    contains the sums of the reports, to this process. If a worker stops, Dask repeats its tasks.
    This process stores the list of counted batches and adds the tallies in the order of the files.
    So the result is the same as the result of :func:`aggregate`, even if workers fail. If the batch
    of a file was counted before, only the header of the file is read.

    Privacy: costs none.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster (needs the extra ``dask``).
    files : path-like, or iterable of path-like
        Files from :func:`write_reports`, or folders of such files. The workers must be able to open
        the paths, and this process must be able to list the folders.
    oracle : oracle, Protocol or Aggregator
        The oracle or protocol of the reports, or an aggregator to add them to.
    collection_round : str, default=""
        Name of the collection. Leave it empty for an aggregator, which has its own.
    checkpoint : path-like, default=None
        A file on this machine that stores the state, as for :func:`aggregate`. If the same call is
        repeated, the work resumes from this state.
    checkpoint_seconds : float, default=10.0
        Minimum number of seconds between two checkpoints.
    on_repeat : {"raise", "ignore"}, default="raise"
        Whether to raise an error for a file whose batch was counted before, or to ignore the file.
        An aggregator has its own setting.
    on_refusal : {"raise", "skip"}, default="raise"
        Whether to stop at a file that is refused, or to record it in the summary and continue.
    retries : int, default=3
        Maximum number of times that Dask repeats a task after an error of the file system. If
        workers die while they read a file, Dask's setting ``allowed-failures`` limits the number of
        repetitions, and the file is then refused.
    timeout : float, default=600.0
        Maximum number of seconds to wait for the next file. Files are waited for in their order. If
        None, there is no maximum.
    progress : bool, default=False
        Whether to print the progress to standard error.
    lock_seconds : float, default=600.0
        How many seconds to wait if another process is using the same checkpoint.
    caps : Caps, default=None
        Limits on batches and their sources. An aggregator has its own limits.
    key : bytes, default=None
        The key of the collection, at least 16 bytes, as for :func:`aggregate`. The scheduler and
        the workers receive the key, and the workers sign their tallies with it.

    Returns
    -------
    Aggregator
        The aggregator that was passed as `oracle`, or a new aggregator, with the files added.

    Raises
    ------
    RefusedBatchError
        If a file is refused, or if the workers cannot read it after all retries; files that were
        added before are kept.
    TimeoutError
        If a file is not finished within `timeout` seconds, for example because there is no worker.
    ConnectionError
        If the scheduler has stopped, or was restarted and has lost the tasks.

    See Also
    --------
    aggregate : Add up files, arrays and streams on one machine.

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.collection import aggregate_dask
    >>> client = Client("tcp://scheduler:8786")  # doctest: +SKIP
    >>> oracle = OLH(1.0, categories=["red", "green"])
    >>> aggregate_dask(client, "/data/reports", oracle, checkpoint="state.npz")  # doctest: +SKIP
    Aggregator(OLH, 50000000 reports in 200 batches)
    """
    if timeout is not None and not timeout > 0:
        raise ValueError(
            "timeout must be a positive number of seconds, or None for no maximum; got "
            f"{timeout!r}."
        )
    places = [files] if is_path(files) else files
    paths = [str(path) for place in places for path in report_files(place)]
    with _collecting(
        oracle,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        lock_seconds=lock_seconds,
        on_refusal=on_refusal,
        collection_round=collection_round,
        on_repeat=on_repeat,
        caps=caps,
        key=key,
    ) as work:
        aggregator = work.aggregator
        # The result of a task, because scattered data would be lost with the workers that store it.
        lines = aggregator._known_lines
        lines = lines._replace(sizes=set(lines.sizes))  # other threads may add during pickling
        shared = aggregator._protocol, aggregator._key, lines
        terms = client.submit(_itself, shared, pure=False)
        left: deque[Any] = deque()

        def refuse(path: str, error: RefusedBatchError) -> None:
            with work.step():
                aggregator.note_refusal(path, error)
                raise error

        def results(
            function: Callable[..., Any], paths: list[str], bar: Progress | None = None
        ) -> Iterator[tuple[str, Any]]:
            # The key is not its arguments, because a file of the same name may have changed.
            options = {"terms": terms, "pure": False, "retries": retries}
            left.extend(client.map(function, paths, **options))
            for path, result in zip(paths, _in_order(client, left, paths, timeout), strict=True):
                if isinstance(result, RefusedBatchError):
                    refuse(path, result)
                else:
                    yield path, result
                if bar is not None:
                    bar.finish(f"{len(paths) - len(left):,} of {len(paths):,} files")

        try:
            if aggregator.batches:
                headers = results(_header, paths)
                paths = []
                for path, header in headers:
                    try:
                        if not aggregator._is_known(header):
                            paths.append(path)
                    except RefusedBatchError as error:
                        refuse(path, error)
            with Progress(len(paths)) if progress else nullcontext() as bar:
                for _, tally in results(_tally, paths, bar):
                    with work.step():
                        aggregator.merge(tally)
        finally:
            if client.status == "running":
                client.cancel(list(left))
    return aggregator


def _in_order(
    client: Any, futures: deque[Any], paths: list[str], timeout: float | None
) -> Iterator[Any]:
    """Yield the results of the tasks in the order of the files.

    Each result is released after it was yielded. All finished results are fetched together, because
    a fetch takes some milliseconds.
    """
    from distributed import KilledWorker

    # Ends: because a pass yields a result, or checks again a result that the cluster lost.
    while futures:
        first = futures[0]
        path = paths[-len(futures)]
        try:
            error = first.exception(timeout)
        except TimeoutError as late:
            raise TimeoutError(
                f"aggregate_dask has waited {timeout:g} s for {path}, and {len(futures)} files "
                "are not finished. If there are no workers, start some (cluster.scale); "
                "otherwise pass a larger timeout=. Then repeat the call with the same "
                "checkpoint, which contains the files that were added."
            ) from late
        if first.cancelled():
            raise ConnectionError(
                "aggregate_dask has lost the scheduler of the cluster: either the scheduler has "
                "stopped, or it was restarted. Connect a new client, and repeat the call with "
                "the same checkpoint, which contains the files that were added."
            )
        if isinstance(error, KilledWorker) and error.task == first.key:
            died = f"{error.allowed_failures + 1} workers died while they read it. See their logs"
            remedy = (
                "if they had too little memory, split the file or use larger workers, and retry"
            )
            finished_results = [RefusedBatchError(f"File {path} is refused: {died}; {remedy}.")]
        elif isinstance(error, OSError):  # after all retries
            finished_results = [unreadable(path, error)]
        elif error is not None:
            raise error
        else:
            finished = takewhile(lambda future: future.status == "finished", futures)
            try:
                finished_results = client.gather(list(finished))
            except (KilledWorker, CancelledError):  # lost meanwhile, so check their state
                continue
        for result in finished_results:
            futures.popleft()
            yield result


# -- on a worker ----------------------------------------------------------------------------------
def _itself(terms: Any) -> Any:
    return terms


def _header(path: str, terms: tuple[Protocol, Any, KnownLines]) -> Header | RefusedBatchError:
    try:
        return read_header(path, key=terms[1], sizes=terms[2].sizes)
    except RefusedBatchError as error:  # returned, because a retry would not help
        return error


def _tally(path: str, terms: tuple[Protocol, Any, KnownLines]) -> Tally | RefusedBatchError:
    protocol, key, lines = terms
    try:
        batch = count_source(path, protocol, "auto", key, None, lines)
        assert batch is not None  # no ledger contains it
        return without_order(batch).signed(key)
    except RefusedBatchError as error:
        return error
