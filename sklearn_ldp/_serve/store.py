"""The store of a server: reports on disk before they are acknowledged, and sealed batches."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._core.mechanisms import Counts
from .._core.storage.checkpoints import locked
from .._core.storage.containers import from_columns, n_integers, report_fields, to_columns
from .._core.support.files import make_folder, read_regular, replacing
from .._core.support.locks import lock_of
from ..collection import write_reports
from .slots import OWN, Slots, shuffled
from .state import damaged, read_state, read_tags, refuse_other, write_state

_MOST_AT_ONCE = 4096  # posts of one round of the committer
_PATIENCE = 5.0  # seconds until the disk is asked again for what it has refused
_SALT = 32


class Rules(NamedTuple):
    """When batches are sealed, and results change."""

    batch_reports: int = 10_000
    batch_seconds: float = 600.0
    least: int = 100  # reports of a batch that is sealed before it is full
    step: int = 50  # new reports until results change


class Post(NamedTuple):
    """Reports that wait for the disk."""

    nonce: bytes
    reports: Sequence[Any]  # integers, or lists of integers
    ticket: Any  # what the outcome is handed back with


class Store:
    """Reports of one collection in a folder, each exactly once, however often it is posted.

    One thread takes all posts that wait, writes their reports to random free slots, waits for the
    disk once, and acknowledges them. Another one seals full files: first the tags of the reports
    are kept, then the batch appears under the id that the file of slots had from its beginning,
    then that file is removed. So after a crash between two of these steps they are repeated, and
    come to the same. The next start compares the folder with a list of its batches.
    """

    # deliver: called with pairs of a ticket and an outcome: "" if all is on disk, why a report is
    # refused, or an OSError.

    def __init__(
        self,
        folder: Path,
        oracle: Any,
        collection_round: str,
        rules: Rules,
        deliver: Callable[[list[tuple[Any, Any]]], None],
        key: bytes | None = None,
    ) -> None:
        self.folder, self.rules, self._own, self._key = folder, rules, folder / OWN, key
        self.oracle = clone(oracle).set_params(n_shards=1)
        self.protocol = self.oracle.protocol(collection_round)
        self._fields, self._deliver = report_fields(self.protocol), deliver
        n, first = n_integers(self._fields), self._fields[0]
        self.is_row = n > 1 or first.width is not None
        blank = np.zeros((0, n) if self.is_row else 0, np.int64)
        columns = enumerate(to_columns(blank, self._fields))  # their types and widths
        kinds = [(f"{i}", one.dtype.newbyteorder("<"), one.shape[1:]) for i, one in columns]
        self._record = np.dtype(kinds)
        self._queue: SimpleQueue[Post | None] = SimpleQueue()
        self._seen: list[np.ndarray] = []  # sorted tags; each array is less than half the last one
        self.counts: Counts = self.protocol.empty
        self.published: Counts | None = None  # that of the last step
        self.failure: Exception | None = None
        self._is_closing, self._since = threading.Event(), time.monotonic()
        self._list = self._own / "batches"
        # Number of reports of each sealed batch; None for a file of slots, which may have some.
        self._batches: dict[str, int | None] = {}

    # -- its life ---------------------------------------------------------------------------------
    def open(self, was_shown: bool = False) -> str:
        """Lock the folder and go on with what it holds; say what its owner should know."""
        # was_shown: whether results of an earlier start are still shown. They lack less than a step
        # of the reports, and nobody knows which: so the next ones have a step more than all these.
        make_folder(self._own / "store")
        with ExitStack() as stack:
            stack.enter_context(locked(self._own / "store", 0))
            said = self._read()
            self._stack = stack.pop_all()  # the folder stays locked, unless it was refused
        self._next = self.counts.n_samples + self.rules.step
        if not was_shown and self.counts.n_samples >= self.rules.step:
            self.published = self.counts
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return said + self._forecast()

    def _read(self) -> str:
        """Go on with the files of an earlier start; return sentences on missing ones."""
        self._worker = ThreadPoolExecutor(1)
        files = [self._opened(path) for path in sorted(self._own.glob("*.slots"))]
        sealed = sorted(self._own.glob("*.tags"))
        is_listed, listed = self._list.exists(), dict[str, np.ndarray]()
        self._read_salt(is_new=not (files or sealed or is_listed))
        if is_listed:
            self._batches, listed = read_state(self._list, self.protocol)
        for path in sealed:
            # Older files do not show their collection, but the list or a file of slots does.
            tags, counts = read_tags(path, self.protocol, reads_older=is_listed or bool(files))
            if self._is_seen(int(tags[0])):
                raise damaged(path, "another file has its reports, too")
            self._batches[path.stem] = len(tags)
            self.counts += counts
            self._see(tags)
        said = self._missing()
        digest = self._salt_digest()
        if not np.array_equal(listed.get("salt", digest), digest):
            said += (
                f"{self._own / 'salt'} is not the file of the last start, so reports that are sent "
                "again count twice. Put it back from a backup. "
            )
        if not self._batches and any(self.folder.glob("*.jsonl")):
            said += (
                f"{self.folder} has batches, and {self._own} does not list them: their reports are "
                "not in the results, and count twice if they are sent again. Put "
                f"{self._own} back from a backup, or name another --folder. "
            )
        if sealed and not is_listed:
            said += f"{self._list} is missing, so it is not known whether other files are missing. "
        counted = {path.stem for path in sealed}
        held = [(one, *one.read()) for one in files if one.batch_id not in counted]
        for one, _, _, records in held:
            if len(records):
                try:
                    self.counts = self._added(self.counts, self._reports(records))
                except ValueError as error:
                    raise damaged(one.path, error) from None
        # The fullest one that is not full goes on; others are there only after a crash.
        held.sort(key=lambda one: (len(one[1]) == one[0].n_slots, -len(one[1])))
        is_open = bool(held) and len(held[0][1]) < held[0][0].n_slots
        present = held.pop(0)[:3] if is_open else (self._new(), [], ())
        self._note({one.batch_id: None for one in (present[0], *(one[0] for one in held))})
        self._begin(*present)
        for _, _, tags, _ in held:
            self._see(np.sort(tags))
        for one in files:  # where its tags are there, its sealing was interrupted
            if one is not present[0]:
                self._later(self._seal, one)
        return said

    def close(self) -> str:
        """Acknowledge what waits, seal what is held unless that is few, and say what was done."""
        self._is_closing.set()
        self._queue.put(None)
        self._thread.join()
        n, said = self.n_held, "nothing is held"
        if self.failure is None and n >= self.rules.least:
            self._later(self._seal, self._present)
            said = f"the last {n:,} reports are sealed"
        elif n:
            said = f"{n:,} reports are held for the next start, as --least is {self.rules.least:,}"
        self._worker.shutdown()
        self._stack.close()
        return said

    @property
    def n_held(self) -> int:
        """Number of reports in the present file."""
        return len(self._tags)

    @property
    def n_waiting(self) -> int:
        """Number of posts that wait."""
        return self._queue.qsize()

    def submit(self, post: Post) -> None:
        """Have reports written; `deliver` is called with their ticket."""
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
                f"{path} must have {_SALT} bytes, got {len(self._salt)}: with another salt, "
                "reports that are sent again count twice. Put the file back from a backup, or "
                f"write {_SALT} random bytes to it if reports may count twice."
            )

    def _salt_digest(self) -> np.ndarray:
        return np.frombuffer(hashlib.sha256(self._salt).digest(), np.uint8)

    def _opened(self, path: Path) -> Slots:
        slots = Slots.open(path)
        refuse_other(path, self.protocol, slots.configuration)
        if (slots.batch_id, slots.width) != (path.stem, self._record.itemsize):
            what = f"it was written as {slots.batch_id!r:.80} with reports of {slots.width} bytes"
            raise damaged(path, what)
        return slots

    def _missing(self) -> str:
        """Return a sentence for each file that is in the list and not in the folder."""
        said = ""
        for name, n in self._batches.items():
            path = self._own / f"{name}.{'slots' if n is None else 'tags'}"
            if not path.exists():
                reports = f"its {n or 'held'} reports are not in the results"
                said += f"{path} is missing, and {reports}. Put it back from a backup. "
        return said

    def _forecast(self) -> str:
        texts = sum((field.width or 1) * (len(f"{field.n_values}") + 1) for field in self._fields)
        free = shutil.disk_usage(self.folder).free
        return f"a million reports take about {texts + 8:,} of {free / 1e6:,.0f} MB that are free"

    # -- the committer ----------------------------------------------------------------------------
    def _run(self) -> None:
        # Ends: when None is posted, or after a failure.
        while self.failure is None:
            posts = self._waiting()
            if kept := [one for one in posts if one is not None]:
                self._deliver(self._commit(kept))
            is_late = time.monotonic() - self._since > self.rules.batch_seconds
            if is_late and self.n_held >= self.rules.least and self.failure is None:
                try:
                    self._turn()
                except OSError:  # a full disk: later
                    self._since = time.monotonic()
                except Exception as error:
                    self._fail(error)
            if None in posts:
                return

    def _fail(self, error: Exception) -> None:
        """End the service: whoever is told of outcomes looks for a failure."""
        self.failure = error
        self._deliver([])

    def _waiting(self) -> list[Post | None]:
        """All posts that wait, of which there is at least one after a second; None is the end."""
        posts = []
        try:
            posts.append(self._queue.get(timeout=1))
            # Ends: the number of posts is bounded.
            while posts[-1] is not None and len(posts) < _MOST_AT_ONCE:
                posts.append(self._queue.get_nowait())
        except Empty:
            pass
        return posts

    def _commit(self, posts: list[Post]) -> list[tuple[Any, Any]]:
        """Write reports that are new, wait for the disk once, and return what became of each."""
        outcomes, fresh, full = list[tuple[Any, Any]](), list[np.ndarray](), None
        try:
            for post, checked in zip(posts, self._checked(posts), strict=True):
                outcome: Any = full or (checked if isinstance(checked, str) else "")
                try:
                    if not outcome:
                        self._write(post, checked, fresh)
                except OSError as error:  # a full disk: what was written so far stays
                    outcome = full = error
                outcomes.append((post.ticket, outcome))
            if fresh:
                self._present.sync()
        except Exception as error:  # what a disk has failed to keep is not known
            self.failure = error
            return [(post.ticket, error) for post in posts]
        for start in range(0, len(fresh), self.rules.step):
            self._count(np.stack(fresh[start : start + self.rules.step]))
        return outcomes

    def _checked(self, posts: list[Post]) -> list[Any]:
        """The reports of each post in canonical form, or why they are refused."""
        try:
            rows = [row for post in posts for row in post.reports]
            checked = self.protocol.check(np.array(rows, dtype=np.int64))
        except (ValueError, OverflowError) as error:  # not all of them are well-formed
            if len(posts) == 1:
                return [f"{error}"]
            return [self._checked([post])[0] for post in posts]
        ends = np.cumsum([len(post.reports) for post in posts])[:-1]
        return np.split(checked, ends)

    def _write(self, post: Post, checked: np.ndarray, fresh: list[np.ndarray]) -> None:
        columns = to_columns(checked, self._fields)
        little = [c.astype(c.dtype.newbyteorder("<"), copy=False) for c in columns]
        for i in range(len(checked)):
            name = hashlib.blake2b(b"%b %d" % (post.nonce, i), key=self._salt, digest_size=8)
            tag = int.from_bytes(name.digest(), "little")
            if tag in self._tags or self._is_seen(tag):
                continue  # the first one stays
            if not self._free:
                self._turn()
            record = b"".join(column[i].tobytes() for column in little)
            self._present.write(self._free.pop(), name.digest(), record)
            self._tags.add(tag)
            fresh.append(checked[i])

    def _count(self, rows: np.ndarray) -> None:
        """Add reports to the counts, and publish these after each step."""
        cut = min(self._next - self.counts.n_samples, len(rows))
        self.counts = self._added(self.counts, rows[:cut])
        if self.counts.n_samples >= self._next:
            self.published, self._next = self.counts, self._next + self.rules.step
        if cut < len(rows):
            self._count(rows[cut:])

    def _added(self, counts: Counts, rows: np.ndarray) -> Counts:
        return counts.added(self.protocol.mechanism, len(rows), lambda a, b: rows[a:b])

    def _is_seen(self, tag: int) -> bool:
        places = ((np.searchsorted(tags, np.uint64(tag)), tags) for tags in self._seen)
        return any(i < len(tags) and tags[i] == tag for i, tags in places)

    def _see(self, tags: np.ndarray) -> None:
        append_merged(self._seen, tags, _merged_tags)

    # -- files of slots, one after the other ------------------------------------------------------
    def _begin(self, slots: Slots, used: Sequence[int] = (), tags: Any = ()) -> None:
        """Go on with a file, of which some slots may be used, and have the next one made."""
        self._present, self._tags, taken = slots, set(map(int, tags)), set(used)
        self._free = [slot for slot in shuffled(slots.n_slots) if slot not in taken]
        self._since, self._spare = time.monotonic(), self._later(self._new)

    def _turn(self) -> None:
        """Have the present file sealed, and go on with the spare one."""
        spare = self._spare.result(_PATIENCE)  # an OSError if there is none
        self._note({spare.batch_id: None})
        self._present.sync()
        self._see(np.sort(np.fromiter(self._tags, np.uint64, len(self._tags))))
        self._later(self._seal, self._present)
        self._begin(spare)

    def _new(self) -> Slots:
        batch_id = secrets.token_hex(16)
        path = self._own / f"{batch_id}.slots"
        rules = self.rules
        shape = self._record.itemsize, rules.batch_reports, rules.batch_seconds
        return Slots.make(path, batch_id, self.protocol.configuration, *shape)

    def _later(self, work: Callable[..., Any], *args: Any) -> Future:
        """Have the other thread do what needs the disk, again and again while that is full."""

        def persist() -> Any:
            # Ends: when the disk has room, or the service closes.
            while True:
                try:
                    return work(*args)
                except OSError:
                    if self._is_closing.wait(_PATIENCE):
                        raise
                except Exception as error:
                    self._fail(error)
                    raise

        return self._worker.submit(persist)

    def _reports(self, records: np.ndarray) -> np.ndarray:
        """Reports in canonical form from records."""
        rows = np.ascontiguousarray(records).view(self._record)[:, 0]
        columns = [rows[name] for name in self._record.names or ()]
        return self.protocol.check(from_columns(columns, self._fields))

    def _seal(self, slots: Slots) -> None:
        """Keep the tags, write the batch, and remove the file of slots, in this order."""
        _, tags, records = slots.read()
        if not len(tags):
            self._note({slots.batch_id: 0})
            return slots.remove()
        reports, name = self._reports(records), slots.batch_id
        counts = self._added(self.protocol.empty, reports)
        kept = {"tags": np.sort(tags), "tallies": counts.tallies, "sizes": counts.sizes}
        write_state(self._own / f"{name}.tags", self.protocol, **kept)
        path = self.folder / f"{name}.jsonl"
        if not path.exists():
            # The same order whenever it is done, so that a batch that was taken away is a repeat.
            seed = hashlib.blake2b(name.encode(), key=self._salt, digest_size=16).digest()
            order = np.random.Generator(np.random.PCG64(int.from_bytes(seed, "little")))
            known = {"collection_round": self.protocol.collection_round, "key": self._key}
            write_reports(path, reports, self.oracle, batch_id=name, random_state=order, **known)
        self._note({name: len(tags)})
        return slots.remove()

    def _note(self, batches: dict[str, int | None]) -> None:
        """Change the list of batches; a file of slots with 0 reports is removed from it."""
        with lock_of(self):
            self._batches = {k: n for k, n in (self._batches | batches).items() if n != 0}
            write_state(self._list, self.protocol, self._batches, salt=self._salt_digest())
