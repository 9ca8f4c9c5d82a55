"""Object storage: memory://, connections that die, and an S3 server on this machine."""

import os
import sys

import numpy as np
import pytest

from sklearn_ldp import GRR
from sklearn_ldp.__main__ import main
from sklearn_ldp._core.aggregation.sources import remote_files
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    aggregate,
    describe_reports,
    tally_file,
    write_reports,
)

pytest.importorskip("pyarrow")
fsspec = pytest.importorskip("fsspec")
MemoryFile = pytest.importorskip("fsspec.implementations.memory").MemoryFile

ORACLE = GRR(1.0, categories=200, random_state=0)
SUFFIXES = [".parquet", ".arrows", ".jsonl"]


def reports(name, n=1000):
    """Reports that differ from file to file, as their names begin with different digits."""
    return np.random.default_rng(int(name[0])).integers(200, size=n)


def write(system, path, n=1000, form="parquet"):
    name = path.rpartition("/")[2]
    with system.open(path, "wb") as file:
        write_reports(file, reports(name, n), ORACLE, batch_id=name, format=form)


FORMATS = {".parquet": "parquet", ".arrows": "arrow", ".jsonl": "jsonl"}


def fill(system, folder):
    """A folder of six files of reports, with two that are hidden and one of something else."""
    for number in range(6):
        suffix = SUFFIXES[number % 3]
        write(system, f"{folder}/day={number % 2}/{number}{suffix}", form=FORMATS[suffix])
    for name in ("_log/x.parquet", ".hidden.parquet", "notes.txt"):
        system.pipe_file(f"{folder}/{name}", b"nothing")


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    fill(system, "/bucket/reports")
    yield system
    system.rm("/bucket", recursive=True)


def check_folder(url, **options):
    server = aggregate(url, ORACLE, **options)
    names = [f"{number}{SUFFIXES[number % 3]}" for number in (0, 2, 4, 1, 3, 5)]
    assert list(server.batches) == names  # sorted by their place, without what is hidden
    return server


# -- fsspec, in memory ----------------------------------------------------------------------------
def test_folders_files_and_lists_of_them(memory, tmp_path):
    expected = check_folder("memory://bucket/reports")
    assert check_folder("memory://bucket/reports/").n_samples == 6000
    one = "memory://bucket/reports/day=0/0.parquet"
    assert aggregate(one, ORACLE).batches == {"0.parquet": 1000}
    assert tally_file(one, ORACLE).n_samples == 1000
    assert describe_reports(one)["batch_id"] == "0.parquet"
    write_reports(tmp_path / "local.parquet", reports("7"), ORACLE, batch_id="local")
    for kind in (list, iter):
        mixed = aggregate(kind([one, tmp_path / "local.parquet"]), ORACLE)
        assert list(mixed.batches) == ["0.parquet", "local"]
    local = Aggregator(ORACLE)
    for name in expected.batches:
        local.add(reports(name), name)
    counts = [server.oracle_.support_counts_ for server in (local, expected)]
    np.testing.assert_array_equal(*counts)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_written_files_are_read_back(memory, suffix):
    url = f"memory://bucket/written{suffix}"
    write_reports(url, reports("7"), ORACLE, batch_id="seven")
    assert aggregate(url, ORACLE).batches == {"seven": 1000}
    before = memory.cat_file(f"/bucket/written{suffix}")
    with pytest.raises(RefusedBatchError, match="The batch is not written"):
        write_reports(url, [200], ORACLE)  # nothing is uploaded
    assert memory.cat_file(f"/bucket/written{suffix}") == before


def test_pyarrow_writes_what_fsspec_does_not(tmp_path, monkeypatch):
    without_drivers(monkeypatch)
    write_reports(f"file://{tmp_path}/written.parquet", reports("7"), ORACLE, batch_id="seven")
    assert aggregate(tmp_path / "written.parquet", ORACLE).batches == {"seven": 1000}


def test_errors_of_a_driver_that_writes(memory, monkeypatch):
    def full(*arguments):
        raise RuntimeError("quota exceeded")

    monkeypatch.setattr(type(memory), "put_file", full)
    with pytest.raises(OSError, match="RuntimeError: quota exceeded"):
        write_reports("memory://bucket/full.parquet", reports("7"), ORACLE)
    with pytest.raises(ImportError, match="needs a storage driver that is not installed"):
        write_reports("gopher2://bucket/a.parquet", reports("7"), ORACLE)


def test_what_is_not_there(memory, monkeypatch):
    with pytest.raises(RefusedBatchError, match="memory://bucket/none.parquet is refused"):
        aggregate("memory://bucket/none.parquet", ORACLE)
    memory.pipe_file("/bucket/empty/notes.txt", b"")
    with pytest.raises(ValueError, match="There is no file of reports"):
        aggregate("memory://bucket/empty", ORACLE)
    urls = ["memory://bucket/none.parquet", "memory://bucket/reports/day=0/0.parquet"]
    server = aggregate(urls, ORACLE, on_refusal="skip")
    assert (server.n_samples, server.summary().n_refused) == (1000, 1)
    with pytest.raises(ImportError, match="needs a storage driver that is not installed"):
        aggregate("gopher2://bucket/folder", ORACLE)
    for library in ("fsspec.core", "pyarrow.fs"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match="needs a storage driver.*fsspec"):
        aggregate("s3://bucket/file", ORACLE)


def test_a_file_that_vanishes_or_changes_after_it_was_listed(memory):
    files = remote_files("memory://bucket/reports").values()
    memory.rm("/bucket/reports/day=0/2.jsonl")
    memory.pipe_file("/bucket/reports/day=1/3.parquet", b"PAR1 something else")
    paths = [file for file in files if os.fspath(file).endswith(tuple(SUFFIXES))]
    server = aggregate(iter(paths), ORACLE, on_refusal="skip")
    assert server.n_samples == 4000
    refused = sorted(name.rpartition("/")[2] for name, _ in server.summary().refused)
    assert refused == [".hidden.parquet", "2.jsonl", "3.parquet", "x.parquet"]


def without_drivers(monkeypatch):
    def missing(url):
        raise ImportError("no driver")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)


def test_pyarrow_opens_what_fsspec_does_not(tmp_path, monkeypatch):
    fill(fsspec.filesystem("file", auto_mkdir=True), f"{tmp_path}/reports")
    without_drivers(monkeypatch)
    check_folder(f"file://{tmp_path}/reports")


def test_options_reach_the_driver(monkeypatch, memory):
    seen = {}
    from fsspec.core import url_to_fs

    def spy(url, **options):
        seen.update(options)
        return url_to_fs(url)

    monkeypatch.setattr("fsspec.core.url_to_fs", spy)
    check_folder("memory://bucket/reports", storage_options={"key": "k", "secret": "s"})
    assert seen == {"key": "k", "secret": "s"}


def test_the_command_line(memory, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("\n".join(map(str, range(200))))
    command = ["aggregate", "memory://bucket/reports", "--categories", "domain.txt"]
    command += ["--oracle", "grr", "--checkpoint", "state.npz"]
    for _ in range(2):
        assert main(command) == 0
        assert "reports: 6000\nbatches: 6 " in capsys.readouterr().out


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_connections_that_die_in_mid_read_lose_nothing(memory, suffix, tmp_path, monkeypatch):
    """The checkpoint holds what came before, and the same call goes on; the counts are exact."""
    monkeypatch.setattr("sklearn_ldp._core.aggregation.sources._READ_AHEAD", 1000)
    for number in range(3):
        write(memory, f"/bucket/cut/{number}{suffix}", 30_000, FORMATS[suffix])
    size, read = memory.info(f"/bucket/cut/1{suffix}")["size"], MemoryFile.read
    state = tmp_path / "state.npz"
    arguments = {"checkpoint": state, "checkpoint_seconds": 0.0}

    def dying(file, *args):
        if file.path.endswith(f"1{suffix}") and file.tell() >= cut * size:
            raise RuntimeError("the connection is lost")
        return read(file, *args)

    for cut in (0.0, 0.2, 0.9):  # noqa: B007
        with monkeypatch.context() as patch:
            patch.setattr(MemoryFile, "read", dying)
            with pytest.raises(RefusedBatchError, match=f"1{suffix} is refused: .*connection is"):
                aggregate("memory://bucket/cut", ORACLE, **arguments)
        assert Aggregator.load(state, ORACLE).batches == {f"0{suffix}": 30_000}
    server = aggregate("memory://bucket/cut", ORACLE, **arguments)
    assert server.n_samples == 90_000
    every = np.concatenate([reports(name, 30_000) for name in "012"])
    np.testing.assert_array_equal(server.oracle_.support_counts_, np.bincount(every, minlength=200))


@pytest.mark.slow
def test_s3(monkeypatch):
    """By fsspec, and by pyarrow where that has no driver."""
    pytest.importorskip("s3fs", reason="needs the extra test")
    server_module = pytest.importorskip("moto.server", reason="needs the extra test")
    server = server_module.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = f"127.0.0.1:{server.get_host_and_port()[1]}"
        client = {"endpoint_url": f"http://{address}", "region_name": "eu-a-1"}
        options = {"key": "test", "secret": "test", "client_kwargs": client}
        system = fsspec.filesystem("s3", **options)
        system.mkdir("bucket")
        fill(system, "bucket/reports")
        check_folder("s3://bucket/reports", storage_options=options)
        without_drivers(monkeypatch)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        query = f"endpoint_override={address}&scheme=http&region=eu-a-1"
        check_folder(f"s3://bucket/reports?{query}")
    finally:
        server.stop()
