"""Several processes write one checkpoint at the same time: no batch is lost or counted twice."""

import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import zlib

import numpy as np
import pytest

from sklearn_ldp import GRR
from sklearn_ldp.collection import (
    Aggregator,
    CheckpointError,
    RepeatedBatchError,
    aggregate,
    tally_reports,
    write_reports,
)
from sklearn_ldp.collection import _checkpoint as checkpoint_module
from sklearn_ldp.collection import _lock as lock_module
from sklearn_ldp.collection import _stream as stream_module
from sklearn_ldp.collection import _unsaved as unsaved_module

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
def test_saving_takes_over_what_another_process_has_saved(tmp_path):
    path = tmp_path / "state.npz"
    aggregate(pairs(["old"]), ORACLE, checkpoint=path)
    one, other = Aggregator.load(path, ORACLE), Aggregator.load(path, ORACLE)
    one.add(reports_of("a"), "a").add(reports_of("both"), "both").save(path)
    other.add(reports_of("b"), "b").add(reports_of("both"), "both").save(path)
    assert_holds_exactly(other, ["old", "a", "b", "both"])
    one.add(reports_of("c"), "c").save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), ["old", "a", "b", "both", "c"])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state.npz"]


def test_refusals_and_repeats_of_both_are_kept(tmp_path):
    path = tmp_path / "state.npz"
    Aggregator(ORACLE).save(path)
    one, other = (Aggregator.load(path, ORACLE, on_repeat="ignore") for _ in range(2))
    one.note_refusal("x", "because")
    one.add([0], "a").add([0], "a").save(path)
    other.note_refusal("y", "of that")
    other.note_refusal("z", "of that")
    other.add([1], "b").add([1], "b").save(path)
    summary = Aggregator.load(path, ORACLE).summary()
    assert (summary.n_batches, summary.n_repeats, summary.n_refused) == (2, 2, 3)
    assert [refusal.batch_id for refusal in summary.refused] == ["x", "y", "z"]


def test_other_reports_under_an_id_of_ours(tmp_path):
    """The first that was written stays, and the other one is named."""
    path = tmp_path / "state.npz"
    Aggregator(ORACLE).save(path)
    one, other = Aggregator.load(path, ORACLE), Aggregator.load(path, ORACLE)
    one.add([0, 0, 1], "a").save(path)
    other.add([2, 2, 2, 2], "a").add([3], "b")
    with pytest.raises(RepeatedBatchError, match="'a' before, with other reports"):
        other.save(path)
    server = Aggregator.load(path, ORACLE)
    assert server.batches == {"a": 3, "b": 1}
    assert server.tally().tallies.sum(axis=0)[:4].tolist() == [2, 1, 0, 1]
    assert server.summary().refused[-1].batch_id == "a"


def test_a_checkpoint_that_went_away_or_back_is_written_again(tmp_path):
    path = tmp_path / "state.npz"
    server = aggregate(pairs(["a"]), ORACLE, checkpoint=path)
    early = path.read_bytes()
    server.add(reports_of("b"), "b").save(path)
    path.write_bytes(early)
    server.add(reports_of("c"), "c").save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), "abc")
    path.unlink()
    server.add(reports_of("d"), "d").save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), "abcd")


def test_states_that_cannot_be_brought_together(tmp_path):
    path = tmp_path / "state.npz"
    server = aggregate(pairs(["a", "b"]), ORACLE, checkpoint=path)
    path.unlink()
    aggregate(pairs(["b", "c"]), ORACLE, checkpoint=path)
    found = path.read_bytes()
    with pytest.raises(CheckpointError, match="lacks 1 of the batches it held, and has others"):
        server.add(reports_of("d"), "d").save(path)
    assert path.read_bytes() == found
    server.save(tmp_path / "other.npz")
    assert_holds_exactly(Aggregator.load(tmp_path / "other.npz", ORACLE), ["a", "b", "d"])


def test_copies_under_two_ids_count_once(tmp_path):
    path = tmp_path / "state.npz"
    Aggregator(ORACLE).save(path)
    one, other, third = (Aggregator.load(path, ORACLE) for _ in range(3))
    one.add(reports_of("a"), "a").save(path)
    with pytest.raises(RepeatedBatchError, match="reports of batch 'copy' before, as batch 'a'"):
        other.add(reports_of("a"), "copy").add(reports_of("b"), "b").save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), "ab")
    tallies = [tally_reports(reports_of(name), ORACLE, f"{name}?") for name in "ac"]
    with pytest.raises(CheckpointError, match=r"'a\?' and 1 more were left out"):
        third.merge(tallies[0] + tallies[1]).save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), "ab")


def test_sums_of_several_batches_are_left_out_whole(tmp_path):
    path = tmp_path / "state.npz"
    Aggregator(ORACLE).save(path)
    one, other = Aggregator.load(path, ORACLE), Aggregator.load(path, ORACLE)
    one.add(reports_of("a"), "a").add(reports_of("x"), "x").save(path)
    both = [tally_reports(reports_of(name), ORACLE, name) for name in "ab"]
    with pytest.raises(CheckpointError, match="'b' and 0 more were left out"):
        other.merge(both[0] + both[1]).save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), "ax")
    other.merge(both[1]).save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), "axb")


def test_much_that_is_unsaved_is_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(unsaved_module, "_MOST_BYTES", 3000)
    path = tmp_path / "state.npz"
    Aggregator(ORACLE).save(path)
    one, other = Aggregator.load(path, ORACLE), Aggregator.load(path, ORACLE)
    for i in range(20):
        one.add(reports_of(f"a{i}"), f"a{i}")
    other.add(reports_of("b"), "b").save(path)
    assert len(list(one._home.unsaved)) < 20
    one.save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), [*(f"a{i}" for i in range(20)), "b"])


def test_an_aggregator_of_no_file_replaces_it(tmp_path):
    path = tmp_path / "state.npz"
    aggregate(pairs(["a"]), ORACLE, checkpoint=path)
    Aggregator(ORACLE).add(reports_of("b"), "b").save(path)
    assert_holds_exactly(Aggregator.load(path, ORACLE), "b")


# -- the lock and the claim -----------------------------------------------------------------------
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
    with lock_module.locked(path, 0):
        assert lock_module.other_user(path).startswith(f"process {os.getpid()} on host ")
        with pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()} on host"):
            aggregate(pairs("a"), ORACLE, checkpoint=path, lock_seconds=0.05)
    assert lock_module.other_user(path) == ""
    assert not list(tmp_path.iterdir())
    aggregate(pairs("a"), ORACLE, checkpoint=path, lock_seconds=0)


@forking
def test_a_lock_dies_with_its_process_and_not_with_its_children(tmp_path):
    path = tmp_path / "state.npz"
    read, write = os.pipe()
    owner = os.fork()
    if not owner:
        with lock_module.locked(path, 0):
            child = os.fork()
            if not child:  # lives on, with all open files of its parent but the lock
                os.read(read, 1)
                os._exit(0)
            os.kill(os.getpid(), 9)
    os.waitpid(owner, 0)
    assert (tmp_path / ".state.npz.lock").exists()
    with lock_module.locked(path, 0):
        pass
    os.write(write, b"x")
    assert not list(tmp_path.iterdir())


@forking
def test_the_claim_of_a_dead_process_is_removed(tmp_path):
    path = tmp_path / "state.npz"
    owner = os.fork()
    if not owner:
        with lock_module.claimed(path):
            os._exit(0)
    os.waitpid(owner, 0)
    assert (tmp_path / ".state.npz.claim").exists()
    Aggregator(ORACLE).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def test_a_claim_of_another_host_is_removed_after_a_while(tmp_path, monkeypatch):
    path, claim = tmp_path / "state.npz", tmp_path / ".state.npz.claim"
    monkeypatch.setattr(lock_module, "_STALE_SECONDS", 0.2)
    claim.write_text("process 1 on host far-away 00")
    before = time.monotonic()
    Aggregator(ORACLE).save(path)
    assert time.monotonic() - before > 0.2
    assert not claim.exists()


def test_a_claim_that_is_locked_is_never_removed(tmp_path, monkeypatch):
    """Its process may have been stopped for an hour, or live in another container."""
    monkeypatch.setattr(lock_module, "_STALE_SECONDS", 0.0)
    monkeypatch.setattr(lock_module, "is_alive", lambda process: False)
    path = tmp_path / "state.npz"
    with lock_module.claimed(path):
        side = tmp_path / ".state.npz.claim"
        assert not lock_module._is_stale(side, side.read_bytes(), 3600)


# -- processes, at random -------------------------------------------------------------------------
def without_locks():
    """What a network file system without locks does: they are granted to everybody."""
    lock_module._lock = lambda descriptor, *, wait=False: True


def without_claims():
    checkpoint_module.claimed = lambda path: lock_module.suppress()


def without_comparison():
    without_claims()
    write = checkpoint_module.write
    checkpoint_module.write = lambda path, state, **options: write(
        path, state, key=options.get("key")
    )


def work(path, batch_ids, seed, breaks):
    for break_ in breaks:
        break_()
    rng = random.Random(seed)
    time.sleep(rng.uniform(0, 0.02))
    source = pairs(batch_ids, rng.uniform(0, 0.004))
    aggregate(source, ORACLE, checkpoint=path, checkpoint_seconds=rng.choice([0, 0.005, 10]))


def race(tmp_path, n_processes, n_rounds, breaks=(), seed=0):
    """Let processes add batches of their own and common ones; count the rounds that fail."""
    context = multiprocessing.get_context("fork")
    tmp_path.mkdir(exist_ok=True)
    n_wrong = 0
    for number in range(n_rounds):
        path = tmp_path / f"{number}.npz"
        common = [f"common {i}" for i in range(3)]
        names = [[f"{number} {p} {i}" for i in range(4)] + common for p in range(n_processes)]
        processes = [
            context.Process(target=work, args=(path, names[p], seed + 100 * number + p, breaks))
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


BREAKS = {"locks": (), "no locks": (without_locks,)}


@forking
@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize(
    ("n_processes", "n_rounds"),
    [
        (4, 2),
        pytest.param(2, 5, marks=pytest.mark.slow),
        pytest.param(2, 200, marks=pytest.mark.slow),
        pytest.param(10, 200, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_lost(tmp_path, kind, n_processes, n_rounds):
    assert race(tmp_path, n_processes, n_rounds, BREAKS[kind]) == 0


@forking
def test_the_race_shows_writers_that_do_not_compare(tmp_path):
    """The negative control: without locks and comparison, one of ten rounds loses batches."""
    breaks = (without_locks, without_comparison)
    assert any(race(tmp_path / str(i), 4, 1, breaks, seed=1000 * i) for i in range(10))


@forking
def test_processes_may_save_without_a_run(tmp_path):
    path = tmp_path / "state.npz"
    Aggregator(ORACLE).save(path)

    def save_often(name):
        server = Aggregator.load(path, ORACLE)
        for i in range(10):
            server.add(reports_of(f"{name}{i}"), f"{name}{i}").save(path)

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=save_often, args=(name,)) for name in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    expected = [f"{name}{i}" for name in "abc" for i in range(10)]
    assert_holds_exactly(Aggregator.load(path, ORACLE), expected)


@pytest.mark.slow
def test_overlapping_jobs_on_the_command_line(tmp_path):
    """The defect as it was found: both ended with 0, and one of them had lost its reports."""
    oracle = GRR(1.0, categories=["a", "b"])
    (tmp_path / "domain.txt").write_text("a\nb\n")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for i in range(3):
            reports = oracle.privatize(["a"] * 500)
            write_reports(tmp_path / name / f"{i}.jsonl", reports, oracle)
    command = [sys.executable, "-m", "sklearn_ldp", "aggregate"]
    options = ["--oracle", "grr", "--categories", "domain.txt", "--checkpoint", "state.npz"]
    jobs = [
        subprocess.Popen([*command, name, *options], cwd=tmp_path, stdout=subprocess.DEVNULL)
        for name in ("one", "two")
    ]
    assert [job.wait(120) for job in jobs] == [0, 0]
    assert Aggregator.load(tmp_path / "state.npz", oracle).n_samples == 3000


def test_the_keeper_saves_before_much_is_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(unsaved_module, "_SAVE_BYTES", 2000)
    saved = []
    save = stream_module.Keeper.save
    monkeypatch.setattr(
        stream_module.Keeper, "save", lambda keeper: (saved.append(1), save(keeper))[1]
    )
    names = [str(i) for i in range(20)]
    aggregate(pairs(names), ORACLE, checkpoint=tmp_path / "state.npz")
    assert len(saved) > 3
