"""Adding up files on a Dask cluster: workers run pure functions, the ledger stays here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import nullcontext
from itertools import takewhile
from os import PathLike
from typing import Any

from .._utils.progress import Progress
from ..mechanisms import OracleOrProtocol, Protocol
from ._aggregator import Aggregator
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
        # The result of a task: scattered data would be lost with the workers that hold it.
        terms = client.submit(_itself, (aggregator._protocol, aggregator._key), pure=False)
        left: deque[Any] = deque()

        def refuse(path: str, error: RefusedBatchError) -> None:
            aggregator.note_refusal(path, error)
            if on_refusal == "raise":
                raise error

        def results(
            function: Callable[..., Any], paths: list[str], bar: Progress | None = None
        ) -> Iterator[tuple[str, Any]]:
            # Not keyed by its arguments: a file of the same name may hold something else by now.
            left.extend(client.map(function, paths, terms=terms, pure=False, retries=retries))
            for path, result in zip(paths, _in_order(client, left, paths, timeout), strict=True):
                if isinstance(result, RefusedBatchError):
                    refuse(path, result)
                else:
                    yield path, result
                if bar is not None:
                    bar.finish(f"{len(paths) - len(left):,} of {len(paths):,} files")

        try:
            if aggregator.batches:
                headers, paths = results(_header, paths), []
                for path, header in headers:
                    try:
                        if not aggregator._is_known(header):
                            paths.append(path)
                    except RefusedBatchError as error:
                        refuse(path, error)
            with Progress(len(paths)) if progress else nullcontext() as bar:
                for _, tally in results(_tally, paths, bar):
                    try:
                        aggregator.merge(tally)
                    except RefusedBatchError:  # it is on the record
                        if on_refusal == "raise":
                            raise
                    tick()
        finally:
            if client.status == "running":
                client.cancel(list(left))
    return aggregator


def _in_order(
    client: Any, futures: deque[Any], paths: list[str], timeout: float | None
) -> Iterator[Any]:
    """Yield the results in their order; what has been yielded is forgotten, here and there.

    They are fetched as many at a time as are finished, because that takes some milliseconds.
    """
    from distributed import KilledWorker

    while futures:
        first, path = futures[0], paths[-len(futures)]
        try:
            error = first.exception(timeout)
        except TimeoutError as late:
            raise TimeoutError(
                f"aggregate_dask has waited {timeout:g} s for {path}, and {len(futures)} files are "
                "left. Look whether the cluster has workers and start some (cluster.scale), or "
                "wait for longer (timeout), and call again with the same checkpoint: what was "
                "added is kept."
            ) from late
        if first.cancelled():
            raise ConnectionError(
                "aggregate_dask has lost the scheduler of the cluster, or it was restarted and has "
                "forgotten the files. Connect a client, and call again with the same checkpoint: "
                "what was added is kept."
            )
        if isinstance(error, KilledWorker) and error.task == first.key:
            found = [
                RefusedBatchError(
                    f"File {path} is refused: {error.allowed_failures + 1} workers died while they "
                    "read it. Their logs say of what; if it is memory, split the file or start "
                    "larger workers, and add it again."
                )
            ]
        elif error is not None:
            raise error
        else:
            finished = takewhile(lambda future: future.status == "finished", futures)
            try:
                found = client.gather(list(finished))
            except (KilledWorker, CancelledError):  # lost meanwhile: see what has become of them
                continue
        for result in found:
            futures.popleft()
            yield result


# -- on a worker ----------------------------------------------------------------------------------
def _itself(terms: Any) -> Any:
    return terms


def _header(path: str, terms: tuple[Protocol, Any]) -> Header | RefusedBatchError:
    try:
        return read_header(path, key=terms[1])
    except RefusedBatchError as error:  # returned, since trying again would not help
        return error


def _tally(path: str, terms: tuple[Protocol, Any]) -> Tally | RefusedBatchError:
    try:
        return tally_file(path, terms[0], key=terms[1])
    except RefusedBatchError as error:
        return error
