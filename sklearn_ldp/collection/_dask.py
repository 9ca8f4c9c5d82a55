"""Adding up files on a Dask cluster: workers run pure functions, the ledger stays here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import nullcontext
from itertools import takewhile
from os import PathLike
from typing import Any

from .._progress import Progress
from .._typing import OracleOrProtocol
from ..protocols import Protocol
from ._aggregator import Aggregator
from ._authentication import Key
from ._batches import RefusedBatchError
from ._caps import Caps
from ._header import Header
from ._report_files import read_header, tally_file
from ._stream import collecting
from ._tally import Tally
from .sources import is_path, report_files


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

    Each file is a task, :func:`tally_file`, of which Dask takes care: it computes again what a lost
    worker held. The ledger stays in this process, to which the workers send the tallies. They are
    added in the order of the files, so that the result is that of :func:`aggregate`, whatever
    happens on the cluster. A file whose batch was counted before is left out after a look at its
    header.

    Privacy: costs none.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster (needs the extra ``dask``).
    files : path-like, or iterable of path-like
        Files that :func:`write_reports` wrote, under paths that the workers can open; or folders
        of such files, which must be visible to this process as well.
    oracle : oracle, Protocol or Aggregator
        The oracle or protocol of the reports, or an aggregator to add them to.
    collection_round : str, default=""
        Name of the collection; leave it empty for an aggregator, which has its own.
    checkpoint : path-like, default=None
        A file on this machine that keeps the state, as for :func:`aggregate`: the same call
        resumes from it.
    checkpoint_seconds : float, default=10.0
        Minimum number of seconds between two checkpoints.
    on_repeat : {"raise", "ignore"}, default="raise"
        What to do with a file whose batch was counted before, or occurs twice; an aggregator has
        its own setting.
    on_refusal : {"raise", "skip"}, default="raise"
        Whether to stop at a file that is refused, or to note it in the summary and continue.
    retries : int, default=3
        How often Dask tries a file again after an error of the file system. A file of which
        workers die is tried as often as Dask's setting ``allowed-failures`` says, and refused then.
    timeout : float, default=600.0
        Number of seconds to wait for a file, while those before it are finished; None waits for
        ever.
    progress : bool, default=False
        Whether to show progress on standard error.
    lock_seconds : float, default=600.0
        How long to wait for another process that adds to the same checkpoint, in seconds.
    caps : Caps, default=None
        Limits on batches and their sources; an aggregator has its own.
    key : bytes, default=None
        The key of the collection, at least 16 bytes, as for :func:`aggregate`. The scheduler and
        the workers see it; the workers sign what they send back.

    Returns
    -------
    Aggregator
        The given aggregator, or a new one, with the files added.

    Raises
    ------
    RefusedBatchError
        If a file is refused; what was added before is kept.
    OSError
        If the workers cannot read a file.
    TimeoutError
        If a file is not finished in time, as when no worker is left.
    ConnectionError
        If the scheduler is gone, or was restarted and has forgotten the files.

    See Also
    --------
    aggregate : The same on one machine.

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
        raise ValueError(f"timeout must be a number of seconds above 0, or None, got {timeout!r}.")
    places = [files] if is_path(files) else files
    paths = [str(path) for place in places for path in report_files(place)]
    with collecting(
        oracle,
        checkpoint,
        on_refusal,
        seconds=(checkpoint_seconds, lock_seconds),
        collection_round=collection_round,
        on_repeat=on_repeat,
        caps=caps,
        key=key,
    ) as (aggregator, tick):
        must_raise = on_refusal == "raise"
        new: list[str] = []

        def refuse(path: str, error: RefusedBatchError) -> None:
            aggregator.note_refusal(path, error)
            if must_raise:
                raise error

        def look_at(path: str, header: Header) -> None:
            try:
                if not aggregator._is_known(header):
                    new.append(path)
            except RefusedBatchError as error:
                refuse(path, error)

        def add(path: str, tally: Tally) -> None:
            try:
                aggregator.merge(tally)
            except RefusedBatchError:  # it is on the record
                if must_raise:
                    raise
            tick()

        job = _Job(client, (aggregator._protocol, aggregator._key), retries, timeout, refuse)
        if aggregator.batches:
            job.run(_header, paths, look_at)
        else:
            new = paths
        with Progress(len(new)) if progress else nullcontext() as bar:
            job.run(_tally, new, add, bar)
    return aggregator


class _Job:
    """Files of one collection on a cluster.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    terms : (Protocol, Key or None)
        What a worker must know to read the files.
    retries, timeout
        As for `aggregate_dask`.
    refuse : callable
        ``refuse(path, error)`` is called for each file that is refused.
    """

    def __init__(
        self,
        client: Any,
        terms: tuple[Protocol, Key | None],
        retries: int,
        timeout: float | None,
        refuse: Callable[[str, RefusedBatchError], None],
    ):
        self._client = client
        # The result of a task: scattered data would be lost with the workers that hold it.
        self._terms = client.submit(_itself, terms, pure=False)
        self._retries = retries
        self._timeout = timeout
        self._refuse = refuse

    def run(
        self,
        function: Callable[..., Any],
        paths: list[str],
        use: Callable[[str, Any], None],
        bar: Progress | None = None,
    ) -> None:
        """Use what a function returns for each file, in the order of the files."""
        # Not keyed by its arguments: a file of the same name may hold something else by now.
        futures = deque(
            self._client.map(function, paths, terms=self._terms, pure=False, retries=self._retries)
        )
        left = deque(paths)
        try:
            while left:
                for result in self._next_results(left[0], futures):
                    path, _ = left.popleft(), futures.popleft()  # the cluster forgets it
                    if isinstance(result, RefusedBatchError):
                        self._refuse(path, result)
                    else:
                        use(path, result)
                    if bar is not None:
                        bar.finish(f"{len(paths) - len(left):,} of {len(paths):,} files")
        finally:
            if self._client.status == "running":
                self._client.cancel(list(futures))

    def _next_results(self, path: str, futures: deque[Any]) -> list[Any]:
        """Wait for the first file; return its result, and those of the next ones if they are there.

        They are fetched together, because it takes some milliseconds to fetch one.
        """
        from distributed import KilledWorker

        first = futures[0]
        try:
            error = first.exception(self._timeout)
        except TimeoutError as late:
            raise TimeoutError(
                f"aggregate_dask has waited {self._timeout:g} s for {path}, and {len(futures)} "
                "files are left. Start workers (cluster.scale), or wait for longer (timeout), and "
                "call again with the same checkpoint: what was added is kept."
            ) from late
        if first.cancelled():
            raise ConnectionError(
                "aggregate_dask has lost the scheduler of the cluster, or it was restarted and has "
                "forgotten the files. Connect a client, and call again with the same checkpoint: "
                "what was added is kept."
            )
        if isinstance(error, KilledWorker) and error.task == first.key:
            n_deaths = error.allowed_failures + 1
            reason = (
                f"File {path} is refused: {n_deaths} workers died while they read it. Their logs "
                "say of what; if it is memory, split the file or start larger workers, and add it "
                "again."
            )
            return [RefusedBatchError(reason)]
        if error is not None:
            raise error
        try:
            return self._client.gather(list(takewhile(_is_finished, futures)))
        except (KilledWorker, CancelledError):  # a result was lost: see what has become of it
            return self._next_results(path, futures)


def _is_finished(future: Any) -> bool:
    return future.status == "finished"


# -- on a worker ----------------------------------------------------------------------------------
def _itself(terms: Any) -> Any:
    return terms


def _header(path: str, terms: tuple[Protocol, Key | None]) -> Header | RefusedBatchError:
    try:
        return read_header(path, key=terms[1])
    except RefusedBatchError as error:  # returned, since trying again would not help
        return error


def _tally(path: str, terms: tuple[Protocol, Key | None]) -> Tally | RefusedBatchError:
    try:
        return tally_file(path, terms[0], key=terms[1])
    except RefusedBatchError as error:
        return error
