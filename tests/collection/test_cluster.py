"""A cluster of two workers finds exactly the counts of one machine, even if a worker dies."""

import os
import random
import shutil
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_ldp import OLH, OUE
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    RepeatedBatchError,
    aggregate,
    aggregate_dask,
    write_reports,
)

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

HERE = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}

ORACLE = OLH(1.0, categories=[f"page {i}" for i in range(50)], n_shards=4)


def write_files(folder, oracle, n_files, n_reports, start=0):
    """Write files of different reports, whose sums are known from the reports."""
    folder.mkdir(exist_ok=True)
    oracle = clone(oracle).set_params(random_state=np.random.default_rng(start))
    size = len(oracle.categories) if np.ndim(oracle.categories) else oracle.categories
    codes = np.minimum(np.random.default_rng(start).geometric(0.1, n_reports) - 1, size - 1)
    values = np.asarray(oracle.categories)[codes] if np.ndim(oracle.categories) else codes
    total = 0
    for i in range(start, start + n_files):
        reports = oracle.privatize(values)
        path = folder / f"{i:04}.parquet"
        write_reports(path, reports, oracle, batch_id=f"batch {i}", random_state=0)
        total = total + clone(oracle).aggregate(reports).support_counts_
    return total


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    total = write_files(folder, ORACLE, 12, 500)
    return sorted(folder.iterdir()), total


@pytest.mark.slow
def test_counts_are_those_of_one_machine(client, files, capsys):
    paths, total = files
    server = aggregate_dask(client, paths[0].parent, ORACLE, progress=True)
    assert "12 of 12 files" in capsys.readouterr().err
    at_home = aggregate(paths[0].parent, ORACLE)
    np.testing.assert_array_equal(server.oracle_.support_counts_, total)
    np.testing.assert_array_equal(server.tally().tallies, at_home.tally().tallies)  # and shards
    assert server.batches == {f"batch {i}": 500 for i in range(12)}
    np.testing.assert_array_equal(server.estimate_.values, at_home.estimate_.values)


@pytest.mark.slow
def test_a_file_counts_once(client, files, tmp_path):
    paths, total = files
    copy = tmp_path / "copy.parquet"
    shutil.copy(paths[3], copy)  # another name, the same batch
    twice = [*paths, paths[0], copy]
    server = aggregate_dask(client, twice, ORACLE, on_repeat="ignore")
    np.testing.assert_array_equal(server.oracle_.support_counts_, total)
    assert server.summary().n_repeats == 2
    with pytest.raises(RepeatedBatchError, match="'batch 0' before"):
        aggregate_dask(client, twice, ORACLE)
    server = aggregate_dask(client, twice, ORACLE, on_refusal="skip")
    np.testing.assert_array_equal(server.oracle_.support_counts_, total)
    assert server.summary().n_refused == 2


@pytest.mark.slow
def test_what_a_checkpoint_holds_is_not_read_again(client, files, tmp_path, monkeypatch):
    paths, total = files
    state = tmp_path / "state.npz"
    aggregate_dask(client, paths[:7], ORACLE, checkpoint=state)
    assert len(Aggregator.load(state, ORACLE).batches) == 7
    sent = {}
    send = client.map

    def noted(function, paths, **options):
        sent[function.__name__] = list(paths)
        return send(function, paths, **options)

    monkeypatch.setattr(client, "map", noted)
    server = aggregate_dask(client, paths, ORACLE, checkpoint=state)
    assert sent["_header"] == [str(path) for path in paths]
    assert sent["_tally"] == [str(path) for path in paths[7:]]
    np.testing.assert_array_equal(server.oracle_.support_counts_, total)
    assert len(Aggregator.load(state, ORACLE).batches) == 12


@pytest.mark.slow
def test_bad_files(client, files, tmp_path):
    paths, _ = files
    damaged, foreign = tmp_path / "damaged.parquet", tmp_path / "foreign.parquet"
    content = bytearray(paths[0].read_bytes())
    content[100] ^= 1
    damaged.write_bytes(content)
    other = OLH(2.0, categories=ORACLE.categories)
    write_reports(foreign, other.privatize(["page 1"]), other)
    server = Aggregator(ORACLE)
    with pytest.raises(RefusedBatchError, match=r"damaged\.parquet is refused"):
        aggregate_dask(client, [damaged, *paths[1:]], server)
    assert server.summary().n_refused == 1
    assert "batch 0" not in server
    with pytest.raises(RefusedBatchError, match=r"epsilon 2\.0 instead of 1\.0"):
        aggregate_dask(client, [foreign], ORACLE)
    # Refused files are noted and left out; the good copy of the damaged batch counts.
    server = aggregate_dask(
        client, [damaged, foreign, paths[0], paths[1]], ORACLE, on_refusal="skip"
    )
    at_home = aggregate(iter(paths[:2]), ORACLE)
    np.testing.assert_array_equal(server.tally().tallies, at_home.tally().tallies)
    refused = {refusal.batch_id for refusal in server.summary().refused}
    assert refused == {str(damaged), str(foreign)}


@pytest.mark.slow
def test_errors(client, files, tmp_path):
    missing = [tmp_path / "none.parquet", *files[0]]
    with pytest.raises(RefusedBatchError, match="it cannot be read .No such file or directory"):
        aggregate_dask(client, missing, ORACLE, retries=0)
    at_home = aggregate(missing, ORACLE, on_refusal="skip")
    server = aggregate_dask(client, missing, ORACLE, on_refusal="skip", retries=0)
    np.testing.assert_array_equal(server.oracle_.support_counts_, files[1])
    assert server.summary().refused == at_home.summary().refused
    with pytest.raises(ValueError, match="on_refusal must be"):
        aggregate_dask(client, files[0], ORACLE, on_refusal="ignore")
    with pytest.raises(ValueError, match="has its own collection_round, on_repeat"):
        aggregate_dask(client, files[0], Aggregator(ORACLE), checkpoint=tmp_path / "state.npz")
    with pytest.raises(RefusedBatchError, match="collection_round"):
        aggregate_dask(client, files[0], ORACLE, collection_round="may")
    assert aggregate_dask(client, [], ORACLE).n_samples == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills processes as POSIX does")
def test_rounds_in_which_all_workers_die_at_once(tmp_path):
    """Five rounds with three kills of both workers; every count is exact in each of them.

    A cluster that Dask itself manages takes a worker for lost if it is not there 15 seconds after
    a death, for instance as it has just died again. It never starts it again, so we ask for new
    workers, as an operator would.
    """
    oracle = OUE(1.0, categories=256)
    total = write_files(tmp_path, oracle, 300, 2000)
    paths = sorted(tmp_path.iterdir())
    rng = random.Random(0)
    n_kills = 0
    with (
        # No file is blamed: a slow machine may begin it anew for each of many deaths.
        dask.config.set({"distributed.scheduler.allowed-failures": 100}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **HERE) as cluster,
        distributed.Client(cluster) as client,
    ):
        for _ in range(5):
            while len(client.scheduler_info()["workers"]) < 2:
                cluster.scale(2)
                time.sleep(1)
            server, outcome = Aggregator(oracle), []
            thread = threading.Thread(
                target=lambda server=server, outcome=outcome: outcome.append(
                    aggregate_dask(client, paths, server, retries=10)
                ),
                daemon=True,
            )
            thread.start()
            for _ in range(3):
                time.sleep(rng.uniform(0.05, 0.5))  # a fast machine needs a second for all files
                workers = [nanny.pid for nanny in list(cluster.workers.values()) if nanny.pid]
                for pid in workers if thread.is_alive() else ():
                    with suppress(ProcessLookupError):  # it died before it was started again
                        os.kill(pid, signal.SIGKILL)
                        n_kills += 1
            while thread.is_alive():
                thread.join(1)
                cluster.scale(2)
            assert outcome == [server]
            assert len(server.batches) == 300
            np.testing.assert_array_equal(server.oracle_.support_counts_, total)
    assert n_kills >= 10


# -- nobody comes back, or futures are lost: workers in threads, which need no kill ---------------
def in_a_thread():
    return distributed.LocalCluster(n_workers=1, processes=False, protocol="tcp://", **HERE)


@pytest.fixture
def small_cluster():
    with in_a_thread() as cluster, distributed.Client(cluster) as client:
        yield cluster, client


def in_the_middle(monkeypatch, event):
    """Let something happen when the first file is added."""
    commit, happened = Aggregator._commit, []

    def commit_and_more(self, *args):
        commit(self, *args)
        if not happened:
            happened.append(True)
            event()

    monkeypatch.setattr(Aggregator, "_commit", commit_and_more)


def without_workers(cluster):
    cluster.scale(0)
    while cluster.scheduler.workers:
        time.sleep(0.01)


def changed_tasks(client, monkeypatch, change, **changes):
    """Let all that workers do go through a function; it has theirs, and the path of a file."""
    send = client.map

    def changed_map(function, paths, **options):
        def task(path, terms):
            change(function, path)
            return function(path, terms)

        return send(task, paths, **{**options, **changes})

    monkeypatch.setattr(client, "map", changed_map)


def slowed(client, monkeypatch, seconds):
    """Let every file take some time, so that many are left in the middle of the work."""
    changed_tasks(client, monkeypatch, lambda *_: time.sleep(seconds))


@pytest.mark.slow
def test_a_cluster_without_workers_is_named(small_cluster, files, tmp_path, monkeypatch):
    cluster, client = small_cluster
    paths, total = files
    state = tmp_path / "state.npz"
    slowed(client, monkeypatch, 0.1)
    in_the_middle(monkeypatch, lambda: without_workers(cluster))
    with pytest.raises(TimeoutError, match=r"has waited 3 s .* \d+ files are not finished"):
        aggregate_dask(client, paths, ORACLE, checkpoint=state, timeout=3)
    assert 0 < len(Aggregator.load(state, ORACLE).batches) < 12
    with pytest.raises(TimeoutError, match=r"has waited 0\.2 s"):  # not even for headers
        aggregate_dask(client, paths, ORACLE, checkpoint=state, timeout=0.2)
    cluster.scale(1)
    server = aggregate_dask(client, paths, ORACLE, checkpoint=state, timeout=60)
    np.testing.assert_array_equal(server.oracle_.support_counts_, total)
    assert server.summary().n_repeats == 0


@pytest.mark.slow
def test_workers_that_come_back_go_on(small_cluster, files, monkeypatch):
    cluster, client = small_cluster
    slowed(client, monkeypatch, 0.05)

    def gone_for_a_while():
        without_workers(cluster)
        threading.Timer(0.5, cluster.scale, [2]).start()

    in_the_middle(monkeypatch, gone_for_a_while)
    server = aggregate_dask(client, files[0], ORACLE, timeout=60)
    np.testing.assert_array_equal(server.oracle_.support_counts_, files[1])
    assert server.batches == {f"batch {i}": 500 for i in range(12)}


def test_lost_futures_lose_no_files(small_cluster, files, tmp_path, monkeypatch):
    """As when the cluster is restarted: the error says what to do, and the same call goes on."""
    _, client = small_cluster
    state = tmp_path / "state.npz"
    with monkeypatch.context() as patch:
        slowed(client, patch, 0.05)
        of_key = partial(distributed.Future, client=client)
        in_the_middle(patch, lambda: client.cancel([*map(of_key, list(client.futures))]))
        with pytest.raises(ConnectionError, match="repeat the call with the same checkpoint"):
            aggregate_dask(client, files[0], ORACLE, checkpoint=state)
    assert 0 < len(Aggregator.load(state, ORACLE).batches) < 12
    server = aggregate_dask(client, files[0], ORACLE, checkpoint=state)
    np.testing.assert_array_equal(server.oracle_.support_counts_, files[1])
    assert server.summary().n_repeats == 0


@pytest.mark.slow
@pytest.mark.parametrize("step", ["_header", "_tally"])
def test_a_deadly_file_is_refused(small_cluster, files, monkeypatch, step):
    _, client = small_cluster
    paths, total = files

    def deadly(function, path):
        """Dask gives a task up when four workers have died of it."""
        if function.__name__ == step and "0007" in path:
            key = distributed.get_worker().get_current_task()
            raise distributed.KilledWorker(key, SimpleNamespace(address="tcp://127.0.0.1:1"), 3)

    changed_tasks(client, monkeypatch, deadly, retries=0)
    server = aggregate(iter(paths[:1]), Aggregator(ORACLE, on_repeat="ignore"))
    aggregate_dask(client, paths, server, on_refusal="skip")
    assert "batch 7" not in server
    assert len(server.batches) == 11
    (refusal,) = server.summary().refused
    assert refusal.batch_id == str(paths[7])
    assert "4 workers died while they read it" in refusal.reason
    with pytest.raises(RefusedBatchError, match=r"0007\.parquet is refused: 4 workers died"):
        aggregate_dask(client, paths, server)
    monkeypatch.undo()
    aggregate_dask(client, paths[7:8], server)  # it was not the file: now it counts
    np.testing.assert_array_equal(server.oracle_.support_counts_, total)


@pytest.mark.slow
def test_errors_of_the_file_system_are_tried_again(small_cluster, files, tmp_path, monkeypatch):
    _, client = small_cluster

    def failing(function, path):
        attempts = tmp_path / os.path.basename(path)
        with attempts.open("a") as file:
            file.write("x")
        if attempts.stat().st_size % 3:
            raise OSError("the network is away")

    changed_tasks(client, monkeypatch, failing)
    server = aggregate_dask(client, files[0], ORACLE, retries=2)
    np.testing.assert_array_equal(server.oracle_.support_counts_, files[1])
    with pytest.raises(RefusedBatchError, match="the network is away"):
        aggregate_dask(client, files[0], ORACLE, retries=1)


@pytest.mark.slow
def test_a_scheduler_that_is_gone(files, monkeypatch):
    with (
        in_a_thread() as cluster,
        distributed.Client(cluster.scheduler_address, timeout=1) as client,
    ):
        slowed(client, monkeypatch, 0.05)
        in_the_middle(monkeypatch, cluster.close)
        with pytest.raises(ConnectionError, match="lost the scheduler of the cluster"):
            aggregate_dask(client, files[0], ORACLE)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_bad_timeout(small_cluster, files, timeout):
    with pytest.raises(ValueError, match="a positive number of seconds, or None"):
        aggregate_dask(small_cluster[1], files[0], ORACLE, timeout=timeout)
