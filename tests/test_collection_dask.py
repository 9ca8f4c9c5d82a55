"""A cluster of two workers finds exactly the counts of one machine, even if a worker dies."""

import os
import shutil
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    RepeatedBatchError,
    aggregate,
    aggregate_dask,
    write_reports,
)

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

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


def test_counts_are_those_of_one_machine(client, files):
    paths, total = files
    server = aggregate_dask(client, paths[0].parent, ORACLE)
    at_home = aggregate(paths[0].parent, ORACLE)
    np.testing.assert_array_equal(server.oracle_.support_counts_, total)
    np.testing.assert_array_equal(server.tally().tallies, at_home.tally().tallies)  # and shards
    assert server.batches == {f"batch {i}": 500 for i in range(12)}
    np.testing.assert_array_equal(server.estimate_.values, at_home.estimate_.values)


def test_many_small_files_make_few_tasks(client, files, monkeypatch):
    from sklearn_ldp.collection import _dask

    functions = []
    submit = client.submit

    def counted(function, *args, **options):
        functions.append(function.__name__)
        return submit(function, *args, **options)

    monkeypatch.setattr(client, "submit", counted)
    aggregate_dask(client, files[0], ORACLE)
    assert functions.count("_add_up") == 1
    # A task of one file each, so that there is a tree of two levels, and few sums come here.
    functions.clear()
    monkeypatch.setattr(_dask, "_TASK_BYTES", 1)
    monkeypatch.setattr(_dask, "_MOST_SUMS", 2)
    monkeypatch.setattr(_dask, "_ARITY", 3)
    server = aggregate_dask(client, files[0], ORACLE)
    assert functions.count("_add_up") == 12
    assert functions.count("_sum") == 4 + 2
    np.testing.assert_array_equal(server.oracle_.support_counts_, files[1])


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


def test_going_on_with_an_aggregator(client, files):
    paths, total = files
    server = aggregate(iter(paths[:5]), Aggregator(ORACLE, on_repeat="ignore"))
    assert aggregate_dask(client, paths, server) is server
    np.testing.assert_array_equal(server.oracle_.support_counts_, total)
    assert server.summary().n_repeats == 5
    with pytest.raises(RepeatedBatchError):
        aggregate_dask(client, paths[:1], aggregate(paths[0], Aggregator(ORACLE)))


def test_what_a_checkpoint_holds_is_not_read_again(client, files, tmp_path, monkeypatch):
    paths, total = files
    state = tmp_path / "state.npz"
    aggregate_dask(client, paths[:7], ORACLE, checkpoint=state)
    assert len(Aggregator.load(state, ORACLE).batches) == 7
    submitted = []
    submit = client.submit

    def noted(function, *args, **options):
        if function.__name__ == "_add_up":
            submitted.extend(file.path for file in args[0])
        return submit(function, *args, **options)

    monkeypatch.setattr(client, "submit", noted)
    server = aggregate_dask(client, paths, ORACLE, checkpoint=state)
    assert submitted == [str(path) for path in paths[7:]]
    np.testing.assert_array_equal(server.oracle_.support_counts_, total)
    assert len(Aggregator.load(state, ORACLE).batches) == 12


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
    assert {refusal.batch_id for refusal in server.summary().refused} == {
        str(damaged),
        str(foreign),
    }


def test_errors(client, files, tmp_path):
    with pytest.raises(FileNotFoundError):
        aggregate_dask(client, [*files[0], tmp_path / "none.parquet"], ORACLE, retries=0)
    with pytest.raises(ValueError, match="on_refusal must be"):
        aggregate_dask(client, files[0], ORACLE, on_refusal="ignore")
    with pytest.raises(ValueError, match="a round and an on_repeat of its own"):
        aggregate_dask(client, files[0], Aggregator(ORACLE), checkpoint=tmp_path / "state.npz")
    with pytest.raises(RefusedBatchError, match="collection_round"):
        aggregate_dask(client, files[0], ORACLE, collection_round="may")
    assert aggregate_dask(client, [], ORACLE).n_samples == 0


def test_progress(client, files, capsys):
    aggregate_dask(client, files[0], ORACLE, progress=True)
    assert "12 of 12 files" in capsys.readouterr().err


# -- a worker dies ------------------------------------------------------------------------------
def pids(client):
    return set(client.run(os.getpid).values())


def kill_one_in_the_middle(client, paths, oracle, kill=True):
    """Add up files while a worker is killed; return the result and how many reports were in."""
    server, outcome = Aggregator(oracle), []
    before = pids(client)
    thread = threading.Thread(
        target=lambda: outcome.append(aggregate_dask(client, paths, server)), daemon=True
    )
    thread.start()
    while thread.is_alive() and not server.n_samples:
        time.sleep(0.001)
    n_then = server.n_samples
    if kill:
        os.kill(min(before), signal.SIGKILL)
    thread.join(300)
    assert outcome == [server]
    client.wait_for_workers(2, timeout=60)
    assert (pids(client) == before) is not kill  # it has really died, and another one has come
    return server, n_then


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills processes as POSIX does")
def test_a_killed_worker_loses_and_doubles_nothing(client, tmp_path, monkeypatch):
    from sklearn_ldp.collection import _dask

    monkeypatch.setattr(_dask, "_TASK_BYTES", 1)  # one file per task
    oracle = OUE(1.0, categories=256)
    total = write_files(tmp_path / "files", oracle, 1, 2000)
    paths = [tmp_path / "files" / "0000.parquet"]
    expected = total.copy()
    for i in range(1, 40):
        expected += write_files(tmp_path / "files", oracle, 1, 2000, start=i)
        paths.append(tmp_path / "files" / f"{i:04}.parquet")
    server, n_then = kill_one_in_the_middle(client, paths, oracle)
    assert 0 < n_then < 40 * 2000
    assert server.n_samples == 40 * 2000
    np.testing.assert_array_equal(server.oracle_.support_counts_, expected)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills processes as POSIX does")
def test_a_killed_worker_among_50_million_reports(client, tmp_path):
    oracle = GRR(1.0, categories=1000)
    rng = np.random.default_rng(0)
    n_files, n_reports = 200, 250_000
    expected = np.zeros(1000, dtype=np.int64)
    paths = []
    for i in range(n_files):
        reports = rng.integers(0, 1000, n_reports).astype(np.uint16)
        expected += np.bincount(reports, minlength=1000)
        paths.append(tmp_path / f"{i:03}.parquet")
        write_reports(paths[-1], reports, oracle, batch_id=f"b{i}", random_state=0)
    server, n_then = kill_one_in_the_middle(client, paths, oracle)
    assert 0 < n_then < n_files * n_reports
    assert server.n_samples == 50_000_000
    assert len(server.batches) == 200
    np.testing.assert_array_equal(server.oracle_.support_counts_, expected)
