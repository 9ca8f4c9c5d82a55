"""Add up files on a cluster: Dask runs pure functions, the ledger stays in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from .._progress import Progress
from .._typing import OracleOrProtocol
from ..mechanisms import Protocol
from ._aggregator import Aggregator, Refusal
from ._authentication import Key
from ._batches import RefusedBatchError, repeated
from ._caps import Caps
from ._cluster import ARITY, Cluster, Fatal, Group, Sent
from ._report_files import count_source, read_header
from ._sources import report_files
from ._stream import Keeper, collecting
from ._tally import Tally

# A task needs about a tenth of a second for either of these:
_DESCRIBED = 500  # files whose headers it reads
_TASK_BYTES = 1 << 25  # bytes of reports that it adds up
_REPORT_BYTES = 4  # added to the size of each report, since even the smallest takes time
_MOST_SUMS = 32  # sums that are sent to this process, each a point to resume from


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

    A task is a pure function of some files; small files are grouped so that a task is worth
    sending. The workers add up the sums in a tree, and send no more than a few dozen of them to
    this process. Workers keep no state: what a lost worker held is computed again, and the counts
    are the same whatever happens. The ledger stays in this process: a file whose batch was counted
    before is left out before any work is done on it. Files whose tasks were lost (as all workers
    were restarted, or several died of a task) are sent again until the ledger holds them.

    Privacy: costs none.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster (needs the extra ``dask``).
    files : path-like, or iterable of path-like
        Files that :func:`write_reports` wrote, under paths that the workers can open; or a folder
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
        How often a task is tried again after an error of the file system, and a file of which
        workers died (each time as many of them as Dask's setting ``allowed-failures`` says, and one
        more) before it is refused.
    timeout : float, default=600.0
        Number of seconds without progress after which to give up, with an error that says what is
        missing; None waits for ever. A finished sum is progress, and so is a worker that has
        something to do, however long it takes.
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
        If the workers cannot read a file, or die of what is none of the files' fault.
    TimeoutError
        If there was no progress for too long, as when no worker is left.
    ConnectionError
        If the scheduler is gone.

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
        terms = _Terms(aggregator._protocol, aggregator._key)
        work = _Work(Cluster(client, retries, timeout), terms)
        must_raise = on_refusal == "raise"
        found, refused = work.describe(_paths(files))
        _note(aggregator, refused, must_raise)
        by_id: dict[str, _File] = {}
        alone: list[_File] = []
        while found or alone:
            now, suspect, found = _first_copies(found, aggregator, keeper.known, must_raise)
            by_id |= {file.batch_id: file for file in now}
            alone, again = [], [*alone, *suspect]
            for part in work.add_up(now, again, progress):
                alone += [by_id[batch] for batch in _add(part, aggregator, keeper, must_raise)]
                keeper.tick()
                _note(aggregator, part.refused, must_raise)
            keeper.save()
            alone += [by_id[batch] for batch in keeper.take_left_out()]
    return aggregator


def _add(part: _Part, aggregator: Aggregator, keeper: Keeper, must_raise: bool) -> Iterable[str]:
    """Add the sum of some files; return their batches if they must be added one by one."""
    if part.tally is None:
        return []
    try:
        tally = aggregator._checked(part.tally)
        if len(tally.batches) > 1 and aggregator._must_be_parted(tally):
            return tally.batches
        aggregator._commit(tally, keeper.known)
    except RefusedBatchError:
        if must_raise:
            raise
    return []


def _paths(files: Any) -> list[str]:
    if isinstance(files, (str, Path)):
        return [str(path) for path in report_files(files)]
    return [str(path) for path in files]


def _note(aggregator: Aggregator, refused: Iterable[Refusal], must_raise: bool) -> None:
    """Record refusals; raise the first of them if asked to."""
    refused = list(refused)
    for refusal in refused:
        aggregator.note_refusal(*refusal)
    if refused and must_raise:
        raise RefusedBatchError(refused[0].reason)


class _File(NamedTuple):
    """A file, and the batch id, number of reports and digest that its header states."""

    path: str
    batch_id: str
    n_samples: int
    sha256: str


def _first_copies(
    files: list[_File], aggregator: Aggregator, known: set[str], must_raise: bool
) -> tuple[list[_File], list[_File], list[_File]]:
    """Files to count now, one per batch; those of known batches with another digest; and copies.

    The copies come later, in case the first of them is refused.
    """
    now: dict[str, _File] = {}
    suspect, later = [], []
    for file in files:
        batch_id = file.batch_id
        try:
            aggregator._caps.refuse_size(batch_id, file.n_samples)
            if aggregator._is_known(batch_id, file.sha256, known):
                continue
        except RefusedBatchError as error:
            aggregator.note_refusal(file.path, error)
            if must_raise:
                raise
            continue
        if batch_id in aggregator:
            suspect.append(file)
        elif batch_id not in now:
            now[batch_id] = file
        elif must_raise and aggregator.on_repeat == "raise":
            twice = repeated("aggregate_dask", [batch_id])
            aggregator.note_refusal(file.path, twice)
            raise twice
        else:
            later.append(file)
    return list(now.values()), suspect, later


class _Terms(NamedTuple):
    """What a worker must know: the protocol of the reports, and the key if there is one."""

    protocol: Protocol
    key: Key | None


class _Work:
    """The work that is sent to the workers."""

    def __init__(self, cluster: Cluster, terms: _Terms):
        self._cluster = cluster
        self._terms = terms
        self._shared: Any = None

    def describe(self, paths: list[str]) -> tuple[list[_File], list[Refusal]]:
        """Read the headers of all files; they are returned in the order of the paths."""
        starts = range(0, len(paths), _DESCRIBED)
        jobs = [[Group(paths[i : i + _DESCRIBED])] for i in starts]
        place: dict[str, int] = {}
        for i, path in enumerate(paths):
            place.setdefault(path, i)
        found: list[_File | Refusal] = []
        for result in self._cluster.results(jobs, self._send_headers):
            found += [_refusal(result)] if isinstance(result, Fatal) else result
        found.sort(key=lambda file: place[file[0]])
        files = [file for file in found if isinstance(file, _File)]
        return files, [file for file in found if isinstance(file, Refusal)]

    def add_up(self, files: list[_File], alone: list[_File], progress: bool) -> Iterator[_Part]:
        """Yield sums, each over some of the files, or over one of `alone`, as they are finished."""
        n_files = len(files) + len(alone)
        if not n_files:
            return
        groups = [Group(group) for group in _groups(files, self._terms.protocol)]
        size = 1
        while -(-len(groups) // size) > _MOST_SUMS:
            size *= ARITY
        jobs = [groups[i : i + size] for i in range(0, len(groups), size)]
        jobs += [[Group([file])] for file in alone]
        n_done = 0
        with Progress(len(jobs)) if progress else nullcontext() as bar:
            for result in self._cluster.results(jobs, self._send_sum):
                if isinstance(result, Fatal):
                    n_done += 1
                    yield _Part(None, [_refusal(result)], 1)
                    continue
                n_done += result.n_files
                if bar is not None:
                    bar.finish(f"{n_done:,} of {n_files:,} files")
                yield result

    def _send_headers(self, job: list[Group]) -> Sent:
        # A chunk whose workers died comes back as several groups of one job.
        submit = self._cluster.submit
        tasks = [submit(_describe, group.items, self._terms) for group in job]
        future = tasks[0] if len(tasks) == 1 else submit(_joined, tasks)
        return Sent(future, {task.key: group for task, group in zip(tasks, job, strict=True)})

    def _send_sum(self, job: list[Group]) -> Sent:
        """Submit a tree of sums. Those further down are released, so that workers forget them."""
        submit = self._cluster.submit
        if self._shared is None or self._shared.status not in ("pending", "finished"):
            # The result of a task: scattered data would be lost with the workers that hold it.
            self._shared = submit(_itself, self._terms)
        nodes = [submit(_add_up, group.items, self._shared) for group in job]
        groups = {node.key: group for node, group in zip(nodes, job, strict=True)}
        priority = 0
        while len(nodes) > 1:
            priority += 1  # sums come before new files, so that their parts can be forgotten
            starts = range(0, len(nodes), ARITY)
            nodes = [
                submit(_sum, nodes[i : i + ARITY], self._shared, priority=priority) for i in starts
            ]
        return Sent(nodes[0], groups)


def _refusal(fatal: Fatal) -> Refusal:
    path = fatal.item.path if isinstance(fatal.item, _File) else fatal.item
    return Refusal(
        path,
        f"File {path} is refused: {fatal.n_deaths} workers died while they read it. Their logs say "
        "of what; if it is memory, split the file or start larger workers, and add it again.",
    )


def _groups(files: list[_File], protocol: Protocol) -> Iterator[list[_File]]:
    """Yield groups of files, each large enough to be worth a task."""
    report_bytes = protocol.mechanism.report_bits / 8 + _REPORT_BYTES
    group: list[_File] = []
    size = 0.0
    for file in files:
        group.append(file)
        size += file.n_samples * report_bytes
        if size >= _TASK_BYTES:
            yield group
            group, size = [], 0.0
    if group:
        yield group


# -- on a worker ----------------------------------------------------------------------------------
class _Part(NamedTuple):
    """The tally of some files (None if all of them are refused), and the refusals."""

    tally: Tally | None
    refused: list[Refusal]
    n_files: int


def _itself(terms: _Terms) -> _Terms:
    return terms


def _describe(paths: list[str], terms: _Terms) -> list[_File | Refusal]:
    found: list[_File | Refusal] = []
    for path in paths:
        try:
            header = read_header(path, key=terms.key)
            found.append(_File(path, header.batch_id, header.n_samples, header.sha256))
        except RefusedBatchError as error:
            found.append(Refusal(path, str(error)))
    return found


def _joined(parts: list[list[_File | Refusal]]) -> list[_File | Refusal]:
    return [file for part in parts for file in part]


def _add_up(files: list[_File], terms: _Terms) -> _Part:
    return _sum([_tally(file, terms) for file in files], terms)


def _tally(file: _File, terms: _Terms) -> _Part:
    try:
        tally = Tally.of(terms.protocol, *count_source(file.path, terms.protocol, key=terms.key))
        if tally.batches != {file.batch_id: file.n_samples}:
            raise RefusedBatchError(
                f"File {file.path} is refused: it was replaced after its header was read"
            )
    except RefusedBatchError as error:
        return _Part(None, [Refusal(file.path, str(error))], 1)
    return _Part(tally.signed(terms.key), [], 1)


def _sum(parts: list[_Part], terms: _Terms) -> _Part:
    total: Tally | None = None
    for part in parts:
        if part.tally is not None:
            part.tally.refuse_unsigned(terms.key)
            total = part.tally if total is None else total + part.tally
    total = None if total is None else total.signed(terms.key)
    refused = [refusal for part in parts for refusal in part.refused]
    return _Part(total, refused, sum(part.n_files for part in parts))
