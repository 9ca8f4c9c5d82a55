"""The store of a server, which writes reports to disk before they are acknowledged."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._core.aggregation.checkpoints import locked
from .._core.aggregation.containers import from_columns, n_integers, report_fields, to_columns
from .._core.common.blocks import append_merged
from .._core.common.files import make_folder, read_regular, replacing
from .._core.common.locks import lock_of
from .._core.mechanisms import Counts
from ..collection import write_reports
from .slots import OWN, Slots, shuffled
from .state import damaged, read_state, read_tags, refuse_other, write_state

_MAX_POSTS = 4096  # in one round of the committer
_RETRY_SECONDS = 5.0  # until a write that the disk has refused is tried again
_SALT = 32


class Rules(NamedTuple):
    """Rules for the time at which a batch is finished, and at which the shown results change."""

    batch_reports: int = 10_000
    batch_seconds: float = 600.0
    least: int = 100  # reports of a batch that is sealed before it is full
    step: int = 50  # new reports until results change


class Post(NamedTuple):
    """The reports of one request, which is acknowledged when they are on disk."""

    nonce: bytes
    reports: Sequence[Any]  # integers, or lists of integers
    ticket: Any  # identifies the post when the outcome is delivered


class _Unsealed(NamedTuple):
    """A file of slots that is not yet a batch, with its used slots.

    The fields are the positions, the tags and the records of the used slots.
    """

    file: Slots
    used: list[int]
    tags: np.ndarray
    records: np.ndarray

    @property
    def is_full(self) -> bool:
        return len(self.used) == self.file.n_slots


class Store:
    """The reports of one collection in a folder. Each report is stored only once.

    One thread, the committer, collects all waiting requests, writes their reports to random free
    slots of a file, waits for the disk once, and acknowledges the requests. Another thread seals
    full files, that is, it converts them to batches, in three steps. It writes the tags, which
    identify the reports. Then it writes the batch, under the id that the file of slots had from its
    beginning. Then it removes the file of slots. If the server stops between two steps, the next
    start repeats all steps, with the same result. Each start compares the files in the folder with
    a list of batches.
    """

    # deliver: called with pairs of a ticket and an outcome. The outcome is "" if all reports are on
    # disk, the reason if a report is refused, or an OSError.

    def __init__(
        self,
        folder: Path,
        oracle: Any,
        collection_round: str,
        rules: Rules,
        deliver: Callable[[list[tuple[Any, Any]]], None],
        key: bytes | None = None,
    ) -> None:
        self.folder = folder
        self.rules = rules
        self._own = folder / OWN
        self._key = key
        self.oracle = clone(oracle).set_params(n_shards=1)
        self.protocol = self.oracle.protocol(collection_round)
        self._deliver = deliver
        self._fields = report_fields(self.protocol)
        n_columns = n_integers(self._fields)
        self.is_row = n_columns > 1 or self._fields[0].width is not None
        no_reports = np.zeros((0, n_columns) if self.is_row else 0, np.int64)
        columns = to_columns(no_reports, self._fields)  # for their types and widths
        types = [
            (f"{i}", column.dtype.newbyteorder("<"), column.shape[1:])
            for i, column in enumerate(columns)
        ]
        self._record = np.dtype(types)
        self._queue: SimpleQueue[Post | None] = SimpleQueue()
        self._seen: list[np.ndarray] = []  # arrays of sorted tags, see `append_merged`
        self.counts: Counts = self.protocol.empty
        self.published: Counts | None = None  # the counts of the last step
        self.failure: Exception | None = None
        self._is_closing = threading.Event()
        self._since = time.monotonic()
        self._list = self._own / "batches"
        # Number of reports of each sealed batch; None for a file of slots, which is not sealed yet.
        self._batches: dict[str, int | None] = {}

    # -- start and end ----------------------------------------------------------------------------
    def open(self, was_shown: bool = False) -> str:
        """Lock the folder, and continue with the files of earlier starts.

        Return sentences for the owner of the server.
        """
        # was_shown: whether results of an earlier start are still shown. These results lack fewer
        # reports than a step, and the number is unknown. So the next results appear after a whole
        # step of new reports.
        make_folder(self._own / "store")
        with ExitStack() as stack:
            stack.enter_context(locked(self._own / "store", 0))
            messages = self._read()
            self._stack = stack.pop_all()  # the folder stays locked, unless it was refused
        self._next = self.counts.n_samples + self.rules.step
        if not was_shown and self.counts.n_samples >= self.rules.step:
            self.published = self.counts
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return messages + self._forecast()

    def _read(self) -> str:
        """Load the files of an earlier start.

        Return sentences about missing files, for the owner.
        """
        self._worker = ThreadPoolExecutor(1)
        files = [self._opened(path) for path in sorted(self._own.glob("*.slots"))]
        sealed = sorted(self._own.glob("*.tags"))
        is_listed = self._list.exists()
        listed = dict[str, np.ndarray]()
        self._read_salt(is_new=not (files or sealed or is_listed))
        if is_listed:
            self._batches, listed = read_state(self._list, self.protocol)
        for path in sealed:
            # Files of older releases do not contain their collection. The list and files of slots
            # do.
            tags, counts = read_tags(path, self.protocol, reads_older=is_listed or bool(files))
            if self._is_seen(int(tags[0])):
                raise damaged(path, "another file also has its reports")
            self._batches[path.stem] = len(tags)
            self.counts += counts
            self._see(tags)
        messages = self._missing()
        digest = self._salt_digest()
        if not np.array_equal(listed.get("salt", digest), digest):
            messages += (
                f"{self._own / 'salt'} is not the file of the last start, so reports that are sent "
                "again count twice. Restore it from a backup. "
            )
        if not self._batches and any(self.folder.glob("*.jsonl")):
            messages += (
                f"{self.folder} has batches, and {self._own} does not list them. Their reports are "
                "not in the results, and count twice if they are sent again. Restore "
                f"{self._own} from a backup, or choose another --folder. "
            )
        if sealed and not is_listed:
            messages += f"{self._list} is missing, so other missing files cannot be detected. "
        counted = {path.stem for path in sealed}
        unsealed = [_Unsealed(file, *file.read()) for file in files if file.batch_id not in counted]
        for file, _, _, records in unsealed:
            if len(records):
                try:
                    self.counts = self._added(self.counts, self._reports(records))
                except ValueError as error:
                    raise damaged(file.path, error) from None
        # Continue with the file that has the fewest free slots. Several such files exist only after
        # a crash.
        unsealed.sort(key=lambda content: (content.is_full, -len(content.used)))
        if unsealed and not unsealed[0].is_full:
            present, used, present_tags, _ = unsealed.pop(0)
        else:
            present, used, present_tags = self._new(), [], np.zeros(0, np.uint64)
        self._note({file.batch_id: None for file in (present, *(x.file for x in unsealed))})
        self._begin(present, used, present_tags)
        for content in unsealed:
            self._see(np.sort(content.tags))
        for file in files:  # if the tags of a file exist, its sealing was interrupted
            if file is not present:
                self._later(self._seal, file)
        return messages

    def close(self) -> str:
        """Acknowledge waiting requests, and write the last reports as a batch if there are enough.

        Return a sentence that describes the last reports.
        """
        self._is_closing.set()
        self._queue.put(None)
        self._thread.join()
        n, least = self.n_held, self.rules.least
        summary = "no reports are held"
        if self.failure is None and n >= least:
            self._later(self._seal, self._present)
            summary = f"the last {n:,} reports are sealed"
        elif n:
            summary = f"{n:,} reports are held for the next start, because --least is {least:,}"
        self._worker.shutdown()
        self._stack.close()
        return summary

    @property
    def n_held(self) -> int:
        """Return the number of reports in the current file of slots, which is not yet a batch."""
        return len(self._tags)

    @property
    def n_waiting(self) -> int:
        """Return the number of requests whose reports are not yet on disk."""
        return self._queue.qsize()

    def submit(self, post: Post) -> None:
        """Queue the reports of a request for writing.

        When they are on disk or refused, the store calls its function `deliver`.
        """
        self._queue.put(post)

    # -- files of an earlier start ------------------------------------------------------------
    def _read_salt(self, is_new: bool) -> None:
        path = self._own / "salt"
        if is_new and not path.exists():
            with replacing(path) as file:
                file.write(secrets.token_bytes(_SALT))
            path.chmod(0o600)
        self._salt = read_regular(path) if path.exists() else b""
        if len(self._salt) != _SALT:
            raise ValueError(
                f"{path} must have {_SALT} bytes, got {len(self._salt)} bytes. With another file, "
                "reports that are sent again would count twice. Restore the file from a backup. "
                f"If reports may count twice, write {_SALT} random bytes to it."
            )

    def _salt_digest(self) -> np.ndarray:
        return np.frombuffer(hashlib.sha256(self._salt).digest(), np.uint8)

    def _opened(self, path: Path) -> Slots:
        slots = Slots.open(path)
        refuse_other(path, self.protocol, slots.configuration)
        if (slots.batch_id, slots.width) != (path.stem, self._record.itemsize):
            difference = f"{slots.batch_id!r:.80} with reports of {slots.width} bytes"
            raise damaged(path, f"it was written as {difference}")
        return slots

    def _missing(self) -> str:
        """Return a sentence for each file that is in the list of batches but not in the folder."""
        messages = ""
        for name, n in self._batches.items():
            path = self._own / f"{name}.{'slots' if n is None else 'tags'}"
            if not path.exists():
                reports = f"its {n or 'held'} reports are not in the results"
                messages += f"{path} is missing, and {reports}. Restore it from a backup. "
        return messages

    def _forecast(self) -> str:
        n_bytes = 8 + sum(
            (field.width or 1) * (len(f"{field.n_values}") + 1) for field in self._fields
        )
        free = shutil.disk_usage(self.folder).free
        return f"a million reports need about {n_bytes:,} MB, and {free / 1e6:,.0f} MB are free"

    # -- the committer ----------------------------------------------------------------------------
    def _run(self) -> None:
        # Ends: when None is posted, or after a failure.
        while self.failure is None:
            posts = self._waiting()
            if waiting := [post for post in posts if post is not None]:
                self._deliver(self._commit(waiting))
            is_late = time.monotonic() - self._since > self.rules.batch_seconds
            if is_late and self.n_held >= self.rules.least and self.failure is None:
                try:
                    self._turn()
                except OSError:  # the disk is full, so try again later
                    self._since = time.monotonic()
                except Exception as error:
                    self._fail(error)
            if None in posts:
                return

    def _fail(self, error: Exception) -> None:
        """Record an error after which the server must end.

        `deliver` is called, so that the server notices it.
        """
        self.failure = error
        self._deliver([])

    def _waiting(self) -> list[Post | None]:
        """Return all waiting requests, after at most a second.

        If the list contains None, the thread that writes reports must end.
        """
        posts = []
        try:
            posts.append(self._queue.get(timeout=1))
            # Ends: the number of posts is bounded.
            while posts[-1] is not None and len(posts) < _MAX_POSTS:
                posts.append(self._queue.get_nowait())
        except Empty:
            pass
        return posts

    def _commit(self, posts: list[Post]) -> list[tuple[Any, Any]]:
        """Write the new reports of some requests, and wait until they are on disk.

        Return pairs of the ticket of a request, which identifies it, and the outcome.
        """
        outcomes = list[tuple[Any, Any]]()
        new_rows = list[np.ndarray]()
        full = None
        try:
            for post, checked in zip(posts, self._checked(posts), strict=True):
                outcome: Any = full or (checked if isinstance(checked, str) else "")
                try:
                    if not outcome:
                        self._write(post, checked, new_rows)
                except OSError as error:  # the disk is full; reports written so far stay
                    outcome = full = error
                outcomes.append((post.ticket, outcome))
            if new_rows:
                self._present.sync()
        except Exception as error:  # it is unknown which reports the disk has lost
            self.failure = error
            return [(post.ticket, error) for post in posts]
        for start in range(0, len(new_rows), self.rules.step):
            self._count(np.stack(new_rows[start : start + self.rules.step]))
        return outcomes

    def _checked(self, posts: list[Post]) -> list[Any]:
        """Return, for each request, its reports in canonical form, or the reason of a refusal."""
        try:
            rows = [row for post in posts for row in post.reports]
            checked = self.protocol.check(np.array(rows, dtype=np.int64))
        except (ValueError, OverflowError) as error:  # some of the reports are malformed
            if len(posts) == 1:
                return [f"{error}"]
            return [self._checked([post])[0] for post in posts]
        ends = np.cumsum([len(post.reports) for post in posts])[:-1]
        return np.split(checked, ends)

    def _write(self, post: Post, checked: np.ndarray, new_rows: list[np.ndarray]) -> None:
        columns = [
            column.astype(column.dtype.newbyteorder("<"), copy=False)
            for column in to_columns(checked, self._fields)
        ]
        for i in range(len(checked)):
            name = hashlib.blake2b(b"%b %d" % (post.nonce, i), key=self._salt, digest_size=8)
            tag = int.from_bytes(name.digest(), "little")
            if tag in self._tags or self._is_seen(tag):
                continue  # the report that came first stays
            if not self._free:
                self._turn()
            record = b"".join(column[i].tobytes() for column in columns)
            self._present.write(self._free.pop(), name.digest(), record)
            self._tags.add(tag)
            new_rows.append(checked[i])

    def _count(self, rows: np.ndarray) -> None:
        """Add reports to the counts.

        After every `step` reports, publish the counts for the results.
        """
        cut = min(self._next - self.counts.n_samples, len(rows))
        self.counts = self._added(self.counts, rows[:cut])
        if self.counts.n_samples >= self._next:
            self.published = self.counts
            self._next += self.rules.step
        if cut < len(rows):
            self._count(rows[cut:])

    def _added(self, counts: Counts, rows: np.ndarray) -> Counts:
        return counts.added(self.protocol.mechanism, len(rows), lambda a, b: rows[a:b])

    def _is_seen(self, tag: int) -> bool:
        places = ((np.searchsorted(tags, np.uint64(tag)), tags) for tags in self._seen)
        return any(i < len(tags) and tags[i] == tag for i, tags in places)

    def _see(self, tags: np.ndarray) -> None:
        append_merged(self._seen, tags, merge=_merged_tags, size=len)

    # -- the present and the next file of slots ---------------------------------------------------
    def _begin(self, slots: Slots, used: Iterable[int] = (), tags: Iterable[int] = ()) -> None:
        """Write new reports to the free slots of this file from now on, and prepare the next file.

        `used` and `tags` describe the slots that are already used.
        """
        self._present = slots
        self._tags = set(map(int, tags))
        used = set(used)
        self._free = [slot for slot in shuffled(slots.n_slots) if slot not in used]
        self._since = time.monotonic()
        self._spare = self._later(self._new)

    def _turn(self) -> None:
        """Start to write to the next file of slots.

        The other thread converts the full file to a batch.
        """
        spare = self._spare.result(_RETRY_SECONDS)  # raises OSError if there is no spare file
        self._note({spare.batch_id: None})
        self._present.sync()
        self._see(np.sort(np.fromiter(self._tags, np.uint64, len(self._tags))))
        self._later(self._seal, self._present)
        self._begin(spare)

    def _new(self) -> Slots:
        batch_id = secrets.token_hex(16)
        path = self._own / f"{batch_id}.slots"
        return Slots.make(
            path,
            batch_id=batch_id,
            configuration=self.protocol.configuration,
            width=self._record.itemsize,
            n_slots=self.rules.batch_reports,
            seconds=self.rules.batch_seconds,
        )

    def _later(self, work: Callable[..., Any], *args: Any) -> Future:
        """Run a function in the thread that converts files to batches, and return its Future.

        The function is repeated as long as the disk is full.
        """

        def persist() -> Any:
            # Ends: when the disk has room, or the service closes.
            while True:
                try:
                    return work(*args)
                except OSError:
                    if self._is_closing.wait(_RETRY_SECONDS):
                        raise
                except Exception as error:
                    self._fail(error)
                    raise

        return self._worker.submit(persist)

    def _reports(self, records: np.ndarray) -> np.ndarray:
        """Return the reports in records from the disk, in canonical form."""
        rows = np.ascontiguousarray(records).view(self._record)[:, 0]
        columns = [rows[name] for name in self._record.names or ()]
        return self.protocol.check(from_columns(columns, self._fields))

    def _seal(self, slots: Slots) -> None:
        """Convert a file of slots to a batch.

        Write the tags, write the batch, and remove the file, in this order.
        """
        _, tags, records = slots.read()
        if not len(tags):
            self._note({slots.batch_id: 0})
            return slots.remove()
        name = slots.batch_id
        reports = self._reports(records)
        counts = self._added(self.protocol.empty, reports)
        arrays = {"tags": np.sort(tags), "tallies": counts.tallies, "sizes": counts.sizes}
        write_state(self._own / f"{name}.tags", self.protocol, **arrays)
        path = self.folder / f"{name}.jsonl"
        if not path.exists():
            # The order is the same each time, so a batch that was moved to a server is recognized
            # as a repeat.
            seed = hashlib.blake2b(name.encode(), key=self._salt, digest_size=16).digest()
            order = np.random.Generator(np.random.PCG64(int.from_bytes(seed, "little")))
            write_reports(
                path,
                reports,
                self.oracle,
                collection_round=self.protocol.collection_round,
                batch_id=name,
                random_state=order,
                key=self._key,
            )
        self._note({name: len(tags)})
        return slots.remove()

    def _note(self, batches: dict[str, int | None]) -> None:
        """Add batches to the list of batches on disk.

        Remove batches that have 0 reports. `batches` maps ids to numbers of reports.
        """
        with lock_of(self):
            self._batches = {k: n for k, n in (self._batches | batches).items() if n != 0}
            write_state(self._list, self.protocol, self._batches, salt=self._salt_digest())


def _merged_tags(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.sort(np.concatenate([first, second]), kind="stable")
