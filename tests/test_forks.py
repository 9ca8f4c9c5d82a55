"""A process that is forked while other threads work: no child waits for a thread it has not got."""

import functools
import multiprocessing
import os
import pickle
import re
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import sklearn_ldp
from sklearn_ldp import GRR, OLH
from sklearn_ldp._core.common import locks
from sklearn_ldp.collection import Aggregator, Caps, RepeatedClient

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes by fork")
ORACLE = GRR(1.0, categories=4, n_shards=2)
SECONDS = 30  # for a child that needs milliseconds


def in_a_fork(work):
    """Call a function in a forked process; return the exit code, or "waits" if it does not end."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
        return "waits"
    return child.exitcode


@contextmanager
def another_thread(work):
    """Run a function in a thread, with two events: the first it sets, for the second it waits."""
    begun, end = threading.Event(), threading.Event()

    def run():
        work(begun, end)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(SECONDS)
    try:
        yield
    finally:
        end.set()
        thread.join(SECONDS)


def test_a_child_reads_and_adds_while_a_thread_of_its_parent_adds():
    """The thread is in the middle of an addition, under the lock, whenever the fork is."""
    events = []

    def source(batch_id):
        if batch_id == "slow":
            events[0].set()
            events[1].wait(SECONDS)
        return batch_id

    server = Aggregator(ORACLE, caps=Caps(max_source_batches=1, source=source))

    def add(*both):
        events.extend(both)
        server.add([1], "slow")

    def child():
        assert server.summary().n_samples == 0
        server.add([0], "other")
        assert pickle.loads(pickle.dumps(server.tally())).n_samples == 1

    with another_thread(add):
        assert in_a_fork(child) == 0
    assert server.n_samples == 1  # nothing has changed for the parent


class Slow:
    """An object with a property that takes as long as somebody else wants."""

    def __init__(self, events=None):
        self.events = events

    @locks.cached_property
    def value(self):
        if self.events:
            self.events[0].set()
            self.events[1].wait(SECONDS)
        return 1


def test_a_child_computes_what_a_thread_of_its_parent_computes():
    """Also a property of another object: Python 3.11 has one lock for all objects of a class."""

    def child():
        assert Slow().value == 1

    with another_thread(lambda *events: Slow(events).value):
        assert in_a_fork(child) == 0


def test_a_lock_that_forks_do_not_renew_is_found(monkeypatch):
    """Negative control: a child waits for the lock that a thread of its parent has acquired."""
    lock = threading.Lock()

    def acquire(begun, end):
        with lock:
            begun.set()
            end.wait(SECONDS)

    def child():
        with lock:
            pass

    monkeypatch.setitem(globals(), "SECONDS", 0.5)
    with another_thread(acquire):
        assert in_a_fork(child) == "waits"


def test_every_lock_of_the_package_is_renewed():
    """No other module makes locks, or properties that have some."""
    makers = re.compile(
        r"threading\.R?Lock\b|import.*\bR?Lock\b|functools\.cached|"
        r"from functools import.*cached_property|Semaphore|threading\.Condition"
    )
    folder = Path(sklearn_ldp.__file__).parent
    found = [path.name for path in folder.rglob("*.py") if makers.search(path.read_text("utf-8"))]
    assert found == ["locks.py"]
    assert issubclass(locks.cached_property, functools.cached_property)


@pytest.mark.parametrize("n_forks", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_forks_under_load(n_forks, tmp_path):
    """Threads add, save, pickle and privatize all the time; each child does all of it."""
    server, oracle = Aggregator(ORACLE), OLH(1.0, categories=16).fit(np.arange(16))
    seeded = OLH(1.0, categories=16, random_state=0).fit(np.arange(16))
    client = RepeatedClient(
        OLH(1.0, categories=8), tmp_path / "memo.json", question="item", epsilon_forever=2.0
    )
    ended, numbers, errors = threading.Event(), iter(range(10**9)), []
    works = [
        lambda: server.add([1], f"{os.getpid()}/{next(numbers)}"),
        lambda: pickle.dumps(server.add([1], f"{os.getpid()}/{next(numbers)}")),
        lambda: server.save(tmp_path / f"{os.getpid()}.npz"),
        lambda: oracle.partial_fit(np.arange(1600) % 16).estimate_.values.sum(),
        lambda: seeded.partial_fit(np.arange(1600) % 16),
        lambda: client.report(1, collection_round=f"{next(numbers) % 8}"),
    ]

    def repeat(work):
        try:
            while not ended.wait(0.001):
                work()
        except Exception as error:
            errors.append(error)

    def child():
        for work in works:
            work()
        n = server.summary().n_samples
        assert n == len(server.batches) == len(server.tally().ledger)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        codes = [in_a_fork(child) for _ in range(n_forks)]
    finally:
        ended.set()
        for thread in threads:
            thread.join(SECONDS)
    assert not errors
    assert codes == [0] * n_forks
