"""Work on a Dask cluster whose workers may die: lost tasks are sent again, no wait is endless."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

ARITY = 8  # parts of a group that is divided
_POLL = 0.01  # seconds between two looks for results
_LOOKS = 10  # looks at the workers within the time-out
_LONGEST = 10.0  # seconds between two looks at the workers, and to wait for the scheduler's answer


@dataclass(eq=False)
class Group:
    """Items that one task works on, and how often it was given up since its workers died."""

    items: list[Any]
    n_losses: int = 0


class Fatal(NamedTuple):
    """An item that is given up: workers died whenever one of them worked on it."""

    item: Any
    n_deaths: int


class Sent(NamedTuple):
    """The future of a job, and the groups that its tasks work on, by the keys of these tasks."""

    future: Any
    groups: dict[Any, Group]


class Cluster:
    """Submits tasks and waits for them, whatever happens to the workers.

    Dask itself computes again what dead workers held. Two things are left: tasks that it gives up
    since several workers died of them, and futures that are lost when the scheduler or its
    workers are restarted. Both are sent again.
    """

    def __init__(self, client: Any, retries: int, timeout: float | None):
        self._client = client
        self._retries = retries
        self._timeout = timeout
        self._elsewhere: set[Any] = set()  # tasks without items that were given up

    def submit(self, function: Callable, *args: Any, priority: int = 0) -> Any:
        """Submit a task and return its future."""
        # Not keyed by its arguments: a file of the same name may hold something else by now.
        return self._client.submit(
            function, *args, pure=False, priority=priority, retries=self._retries
        )

    def results(
        self, jobs: list[list[Group]], send: Callable[[list[Group]], Sent]
    ) -> Iterator[Any]:
        """Yield the result of each job as it is finished, and Fatal for an item that is given up.

        A job is lost or finished as a whole, so that no item takes part in two results.
        """
        from distributed import as_completed

        n_items = sum(len(group.items) for job in jobs for group in job)
        watch = _Watch(self._client, self._timeout, n_items)
        ready = as_completed([], loop=self._client.loop, with_results=True, raise_errors=False)
        sent: dict[Any, Sent] = {}

        def start(job: list[Group]) -> None:
            if job:
                watch.check_connection()
                one = send(job)
                sent[one.future.key] = one
                ready.add(one.future)

        try:
            for job in jobs:
                start(job)
            while sent:
                while not ready.has_ready():
                    watch.look(sent.values())
                    time.sleep(_POLL)
                for future, result in ready.next_batch(block=False):
                    done = sent.pop(future.key)
                    if future.status == "finished" and not isinstance(result, BaseException):
                        self._elsewhere.clear()
                        yield result
                        watch.note_progress()  # not the time that the caller took
                        continue
                    job, fatal = self._divided(done, _lost(future, result))
                    yield from fatal
                    start(job)
        finally:
            self._cancel([one.future for one in sent.values()])

    def _divided(self, lost: Sent, error: BaseException | None) -> tuple[list[Group], list[Fatal]]:
        """What is left of a lost job: a group of which workers died is divided to find the item."""
        if error is None:
            return list(lost.groups.values()), []
        key, n_attempts = error.task, error.allowed_failures + 1  # type: ignore[attr-defined]
        if key not in lost.groups:
            self._elsewhere.add(key)
            if len(self._elsewhere) > self._retries:
                raise OSError(
                    f"Workers of the cluster died {n_attempts} times in each of "
                    f"{len(self._elsewhere)} tasks that read no file. Their logs say of what; "
                    "if it is memory, start larger workers, and call again."
                ) from error
            return list(lost.groups.values()), []
        job, fatal = [group for k, group in lost.groups.items() if k != key], []
        group = lost.groups[key]
        group.n_losses += 1
        if len(group.items) > 1:
            size = -(-len(group.items) // ARITY)
            starts = range(0, len(group.items), size)
            job += [Group(group.items[i : i + size]) for i in starts]
        elif group.n_losses <= self._retries:
            job.append(group)
        else:
            fatal.append(Fatal(group.items[0], group.n_losses * n_attempts))
        return job, fatal

    def _cancel(self, futures: list[Any]) -> None:
        if futures and self._client.status == "running":
            self._client.cancel(futures)


def _lost(future: Any, result: Any) -> BaseException | None:
    """None for a lost future, or the error of dead workers; any other error is raised."""
    from distributed import KilledWorker

    if future.status != "error":
        return None
    _, error, traceback = result
    if isinstance(error, KilledWorker):
        return error
    if type(error).__name__ == "NoWorkerError":  # in newer versions; we wait for longer
        return None
    raise error.with_traceback(traceback)


class _Watch:
    """Looks at the workers while nothing is finished, and ends a wait that would be endless."""

    def __init__(self, client: Any, timeout: float | None, n_items: int):
        self._client = client
        self._timeout = timeout
        self._n_items = n_items
        self._pause = 0.0 if timeout is None else min(timeout / _LOOKS, _LONGEST)
        self.note_progress()

    def note_progress(self) -> None:
        self._since = self._looked = time.monotonic()

    def check_connection(self) -> None:
        """Raise ConnectionError if the client is closed: what it is sent would be lost."""
        if self._client.status in ("closing", "closed"):
            raise ConnectionError(
                "aggregate_dask has lost the scheduler of the cluster. Start it again, connect a "
                "new client, and call again with the same checkpoint: what was added is kept."
            )

    def look(self, sent: Any) -> None:
        """Raise TimeoutError if no worker has worked for too long."""
        self.check_connection()
        if self._timeout is None or time.monotonic() - self._looked < self._pause:
            return
        state = self._idle()
        self._looked = time.monotonic()
        if state is None:
            self._since = self._looked
        elif self._looked - self._since >= self._timeout:
            n_left = sum(len(group.items) for one in sent for group in one.groups.values())
            raise TimeoutError(
                f"aggregate_dask has made no progress for {self._timeout:g} s: {state}, and "
                f"{n_left} of {self._n_items} files are left. Start workers (cluster.scale), or "
                "wait for longer (timeout), and call again with the same checkpoint: what was "
                "added is kept."
            )

    def _idle(self) -> str | None:
        """Why nothing goes on, or None if a worker has something to do."""
        try:
            # As Client.processing, which would wait for ever for a scheduler that hangs.
            tasks = self._client.sync(
                self._client.scheduler.processing, workers=None, callback_timeout=_LONGEST
            )
        except (OSError, AttributeError):  # TimeoutError is an OSError
            return "the scheduler does not answer"
        if not tasks:
            return "the cluster has no workers"
        if not any(tasks.values()):
            return f"none of its {len(tasks)} workers has anything to do"
        return None
