"""A checkpoint has one writer at a time: no batch is lost, counted twice or overwritten."""

import multiprocessing
import os
import random
import struct
import sys
import threading
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from estimators import slow_but

from sklearn_ldp import GRR
from sklearn_ldp._core.aggregation import checkpoints as module
from sklearn_ldp._core.common import files
from sklearn_ldp.collection import Aggregator, CheckpointError, aggregate

ORACLE = GRR(1.0, categories=40, n_shards=2)
forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes by fork")


def reports_of(batch_id):
    """Reports that depend on the id only, so that sums are known from ids."""
    return np.random.default_rng(zlib.crc32(batch_id.encode())).integers(40, size=60)


def assert_holds_exactly(server, batch_ids):
    expected = np.zeros(40, dtype=np.int64)
    for batch_id in batch_ids:
        expected += np.bincount(reports_of(batch_id), minlength=40)
    assert set(server.batches) == set(batch_ids)
    np.testing.assert_array_equal(server.tally().tallies.sum(axis=0), expected)


def pairs(batch_ids, seconds=0.0):
    for batch_id in batch_ids:
        yield batch_id, reports_of(batch_id)
        time.sleep(seconds)


# -- one state after the other, in one process --------------------------------------------------
def test_what_another_process_has_saved_is_not_overwritten(tmp_path):
    path = tmp_path / "state.npz"
    aggregate(pairs(["old"]), ORACLE, checkpoint=path)
    one, other = Aggregator.load(path, ORACLE), Aggregator.load(path, ORACLE)
    one.add(reports_of("a"), "a").save(path)
    found = path.read_bytes()
    other.add(reports_of("b"), "b")
    for _ in range(2):
        with pytest.raises(CheckpointError, match="not replaced, because another process has"):
            other.save(path)
    assert path.read_bytes() == found
    assert_holds_exactly(other, ["old", "b"])
    # The two remedies that the message names.
    other.save(tmp_path / "other.npz")
    assert_holds_exactly(Aggregator.load(tmp_path / "other.npz", ORACLE), ["old", "b"])
    Aggregator.load(path, ORACLE).add(reports_of("b"), "b").save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), ["old", "a", "b"])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other.npz", "state.npz"]


def test_one_writer_replaces_a_file_and_may_save_again_and_again(tmp_path):
    paths = [tmp_path / "one.npz", tmp_path / "two.npz"]
    aggregate(pairs(["old"]), ORACLE, checkpoint=paths[0])
    server = Aggregator(ORACLE)
    for name in "abc":
        server.add(reports_of(name), name)
        for path in paths:
            server.save(path)
    for path in paths:
        assert_holds_exactly(Aggregator.load(path, ORACLE), "abc")


def test_a_checkpoint_that_went_away_is_written_again(tmp_path):
    path = tmp_path / "state.npz"
    server = aggregate(pairs(["a"]), ORACLE, checkpoint=path)
    early = path.read_bytes()
    server.add(reports_of("b"), "b").save(path)
    path.unlink()
    server.add(reports_of("c"), "c").save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), "abc")
    path.write_bytes(early)  # somebody has put it there
    with pytest.raises(CheckpointError, match="is not replaced"):
        server.add(reports_of("d"), "d").save(path)
    assert path.read_bytes() == early


def test_a_run_does_not_overwrite_what_came_in_between(tmp_path):
    """Where the file system honours no locks, or somebody copies a file there."""
    path, theirs = tmp_path / "state.npz", tmp_path / "theirs.npz"
    Aggregator(ORACLE).add(reports_of("b"), "b").save(theirs)

    def source():
        yield "a", reports_of("a")
        theirs.rename(path)

    with pytest.raises(CheckpointError, match="is not replaced"):
        aggregate(source(), ORACLE, checkpoint=path)
    server = aggregate(pairs("a"), ORACLE, checkpoint=path)  # the same call goes on
    assert_holds_exactly(server, "ab")


def test_a_save_that_is_interrupted_hinders_no_other(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    server = aggregate(pairs(["a"]), ORACLE, checkpoint=path)
    for place in ("os.replace", "_flush_folder"):  # before the file has its name, and after

        def interrupted(*arguments):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(f"sklearn_ldp._core.common.files.{place}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                server.add(reports_of(place), place).save(path)
        server.save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), ["a", "os.replace", "_flush_folder"])


# -- the lock -------------------------------------------------------------------------------------
def test_a_second_run_waits_and_goes_on(tmp_path):
    path = tmp_path / "state.npz"
    threads = [
        threading.Thread(
            target=lambda names=names: aggregate(pairs(names, 0.02), ORACLE, checkpoint=path)
        )
        for names in (["a", "b", "c"], ["b", "c", "d"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_holds_exactly(Aggregator.load(path, ORACLE), "abcd")
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def test_who_waits_in_vain_is_told_for_whom(tmp_path):
    path = tmp_path / "state.npz"
    with module.locked(path, 0):
        assert module.other_user(path).startswith(f"process {os.getpid()} on host ")
        with pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()} on host"):
            aggregate(pairs("a"), ORACLE, checkpoint=path, lock_seconds=0.05)
    assert module.other_user(path) == ""
    assert not list(tmp_path.iterdir())
    aggregate(pairs("a"), ORACLE, checkpoint=path, lock_seconds=0)


@pytest.fixture
def windows_locks(monkeypatch):
    """The module locks as on Windows, where nobody reads a locked byte and no open file goes.

    `msvcrt.locking` of this machine locks bytes from where the file stands, for whoever opened it.
    """
    fcntl = pytest.importorskip("fcntl")
    if not hasattr(fcntl, "F_OFD_SETLK"):
        pytest.skip("no locks of single bytes that belong to an open file")

    def locking(descriptor, mode, n_bytes):
        start = os.lseek(descriptor, 0, os.SEEK_CUR)
        what = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, n_bytes, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, what)
        except BlockingIOError as error:
            raise PermissionError(13, "Permission denied") from error

    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setattr(module, "sys", SimpleNamespace(platform="win32"))
    unlink, held = Path.unlink, module._held

    def unlink_closed(path):
        if any(os.path.samestat(os.fstat(one), path.stat()) for one in held):
            raise PermissionError(13, "The file is in use")
        unlink(path)

    monkeypatch.setattr(module.Path, "unlink", unlink_closed)


def test_the_lock_of_windows(windows_locks, tmp_path, monkeypatch):
    """One owner, who is named in a short file, and no lock left behind: no 1 GiB was written."""
    test_who_waits_in_vain_is_told_for_whom(tmp_path)
    with module.locked(tmp_path / "state.npz", 0):
        assert (tmp_path / ".state.npz.lock").stat().st_size < 1000
    test_a_second_run_waits_and_goes_on(tmp_path)
    monkeypatch.setattr(sys.modules["msvcrt"], "locking", lambda *args: None)  # negative control
    with pytest.raises(AssertionError, match=r"where '' = <function other_user"):
        test_who_waits_in_vain_is_told_for_whom(tmp_path)


@forking
def test_a_lock_dies_with_its_process_and_not_with_its_children(tmp_path):
    path = tmp_path / "state.npz"
    read, write = os.pipe()
    owner = os.fork()
    if not owner:
        with module.locked(path, 0):
            child = os.fork()
            if not child:  # lives on, with all open files of its parent but the lock
                os.read(read, 1)
                os._exit(0)
            os.kill(os.getpid(), 9)
    os.waitpid(owner, 0)
    assert (tmp_path / ".state.npz.lock").exists()
    with module.locked(path, 0):
        pass
    os.write(write, b"x")
    assert not list(tmp_path.iterdir())


@forking
@pytest.mark.parametrize("kind", ["link", "hard link", "dangling link", "pipe"])
def test_a_lock_is_no_file_of_somebody_else(tmp_path, kind):
    """The lock's content was written to whatever a link of its name pointed to."""
    theirs, path = tmp_path / "theirs.txt", tmp_path / "state.npz"
    theirs.write_text("not yours")
    side = tmp_path / ".state.npz.lock"
    if kind == "pipe":
        os.mkfifo(side)
    elif kind == "hard link":
        side.hardlink_to(theirs)
    else:
        side.symlink_to(theirs if kind == "link" else tmp_path / "new.txt")
    with pytest.raises((CheckpointError, OSError), match=r"\.state\.npz\.lock"):
        Aggregator(ORACLE).add(reports_of("a"), "a").save(path)
    assert theirs.read_text() == "not yours"
    assert not path.exists()
    assert not (tmp_path / "new.txt").exists()
    side.unlink()
    Aggregator(ORACLE).add(reports_of("a"), "a").save(path)


@forking
def test_pipes_that_are_named_are_refused_at_once(tmp_path):
    """Opening a pipe that nobody writes to waits for ever."""
    for name in ("state.npz", "batch.parquet", "batch.arrows", "batch.jsonl"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="not a regular file"):
        Aggregator.load(tmp_path / "state.npz", ORACLE)
    for name in ("batch.parquet", "batch.arrows", "batch.jsonl"):
        with pytest.raises(ValueError, match="not a regular file"):
            aggregate(tmp_path / name, ORACLE)
    with pytest.raises(OSError, match="not a regular file"):
        aggregate([], ORACLE, checkpoint=tmp_path / "state.npz")


def test_temporary_files_of_other_machines_are_left_for_a_day(tmp_path, monkeypatch):
    """A container sees processes of its own only; that of a file may be alive in another one."""
    path, gone = tmp_path / "state.npz", 2**22 + 1  # no process has this number
    mine = files._temporary(path).name.replace(f".{os.getpid()}-", f".{gone}-")
    monkeypatch.setattr(files, "_machine", lambda: "another")
    theirs = files._temporary(path).name.replace(f".{os.getpid()}-", f".{gone}-")
    monkeypatch.undo()
    old = f".state.npz.{gone}-0123abcd.tmp"  # as an earlier release named them
    others = [mine.replace(f"{gone}", f"{os.getppid()}"), mine.replace("state", "other")]
    others += [".state.npz.mine.tmp"]
    for name in (mine, theirs, old, *others):
        (tmp_path / name).touch()
    Aggregator(ORACLE).save(path)
    assert {file.name for file in tmp_path.iterdir()} == {theirs, old, *others, "state.npz"}
    long_ago = time.time() - 100_000
    for name in (theirs, old):
        os.utime(tmp_path / name, (long_ago, long_ago))
    Aggregator(ORACLE).save(path)
    assert {file.name for file in tmp_path.iterdir()} == {*others, "state.npz"}


def test_saving_does_not_wait_for_a_run(tmp_path):
    path = tmp_path / "state.npz"
    Aggregator(ORACLE).add(reports_of("a"), "a").save(path)
    other = Aggregator.load(path, ORACLE)

    def source():
        yield "b", reports_of("b")
        with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()} on host"):
            other.add(reports_of("c"), "c").save(path)

    aggregate(source(), ORACLE, checkpoint=path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), "ab")


# -- processes, at random -------------------------------------------------------------------------
def work(path, batch_ids, seed, is_broken):
    if is_broken:  # all have the lock, as on some network file systems, and no file is seen
        module._lock = lambda descriptor: True
        module._seal_on_disk = lambda path: None
    rng = random.Random(seed)
    time.sleep(rng.uniform(0, 0.02))
    source = pairs(batch_ids, rng.uniform(0, 0.004))
    aggregate(source, ORACLE, checkpoint=path, checkpoint_seconds=rng.choice([0, 0.005, 10]))


def race(tmp_path, n_processes, n_rounds, is_broken=False, seed=0):
    """Let processes add batches of their own and common ones; count the rounds that fail."""
    context = multiprocessing.get_context("fork")
    tmp_path.mkdir(exist_ok=True)
    n_wrong = 0
    for number in range(n_rounds):
        path = tmp_path / f"{number}.npz"
        common = [f"common {i}" for i in range(3)]
        names = [[f"{number} {p} {i}" for i in range(4)] + common for p in range(n_processes)]
        processes = [
            context.Process(target=work, args=(path, names[p], seed + 100 * number + p, is_broken))
            for p in range(n_processes)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
        assert [process.exitcode for process in processes] == [0] * n_processes
        try:
            assert_holds_exactly(
                Aggregator.load(path, ORACLE), {name for own in names for name in own}
            )
        except AssertionError:
            n_wrong += 1
    return n_wrong


@forking
@pytest.mark.parametrize(
    ("n_processes", "n_rounds"), slow_but([(4, 2)], [(4, 2), (2, 100), (10, 50)])
)
def test_nothing_is_lost(tmp_path, n_processes, n_rounds):
    assert race(tmp_path, n_processes, n_rounds) == 0


@forking
def test_the_race_shows_writers_that_do_not_compare(tmp_path):
    """The negative control: without locks and comparison, one of ten rounds loses batches."""
    assert any(race(tmp_path / str(i), 4, 1, is_broken=True, seed=1000 * i) for i in range(10))
