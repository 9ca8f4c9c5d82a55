"""Object storage: an S3 server on this machine, dropped connections, and memory://."""

import contextlib
import os
import socket
import threading

import numpy as np
import pytest

from sklearn_ldp import GRR
from sklearn_ldp.__main__ import main
from sklearn_ldp._core.storage.sources import remote_files
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


def test_what_is_not_there(memory):
    with pytest.raises(RefusedBatchError, match="memory://bucket/none.parquet is refused"):
        aggregate("memory://bucket/none.parquet", ORACLE)
    memory.pipe_file("/bucket/empty/notes.txt", b"")
    with pytest.raises(ValueError, match="There is no file of reports"):
        aggregate("memory://bucket/empty", ORACLE)
    urls = ["memory://bucket/none.parquet", "memory://bucket/reports/day=0/0.parquet"]
    server = aggregate(urls, ORACLE, on_refusal="skip")
    assert (server.n_samples, server.summary().n_refused) == (1000, 1)
    with pytest.raises(ImportError, match="needs a driver that is not installed"):
        aggregate("gopher2://bucket/folder", ORACLE)


def test_a_file_that_vanishes_or_changes_after_it_was_listed(memory):
    files = remote_files("memory://bucket/reports")
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


# -- S3, on this machine --------------------------------------------------------------------------
class Proxy:
    """Pass connections on to a server, and cut the next ones after some bytes of an answer."""

    def __init__(self, port):
        self.target, self.cut_after, self.n_cut = ("127.0.0.1", port), None, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            threading.Thread(target=self.pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, True), daemon=True).start()

    def pump(self, source, sink, is_answer):
        passed = 0
        try:
            while content := source.recv(1 << 14):
                if is_answer and self.cut_after is not None:
                    content = content[: max(self.cut_after - passed, 0)]
                    if not content:
                        self.n_cut += 1
                        break
                sink.sendall(content)
                passed += len(content)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture(scope="module")
def s3():
    """A bucket with a folder of reports, and what a client needs to see it through the proxy."""
    pytest.importorskip("s3fs", reason="needs the extra test")
    server_module = pytest.importorskip("moto.server", reason="needs the extra test")
    server = server_module.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    proxy = Proxy(port)

    def options(port):
        return {
            "key": "test",
            "secret": "test",
            "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "eu-a-1"},
            "config_kwargs": {"retries": {"max_attempts": 0}, "read_timeout": 5},
        }

    system = fsspec.filesystem("s3", **options(port))
    system.mkdir("bucket")
    fill(system, "bucket/reports")
    yield system, proxy, options(proxy.port)
    proxy.listener.close()
    server.stop()


@pytest.mark.slow
def test_s3(s3, monkeypatch):
    """By fsspec, and by pyarrow where that has no driver."""
    _, proxy, options = s3
    check_folder("s3://bucket/reports", storage_options=options)
    without_drivers(monkeypatch)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    query = f"endpoint_override=127.0.0.1:{proxy.port}&scheme=http&region=eu-a-1"
    check_folder(f"s3://bucket/reports?{query}")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_connections_that_die_in_mid_read_lose_nothing(s3, suffix, tmp_path, monkeypatch):
    """The checkpoint holds what came before, and the same call goes on; the counts are exact."""
    import s3fs.core

    monkeypatch.setattr(s3fs.core.S3FileSystem, "retries", 1)
    system, proxy, options = s3
    folder = f"bucket/cut-{suffix[1:]}"
    n = 300_000
    for number in range(3):
        write(system, f"{folder}/{number}{suffix}", n, FORMATS[suffix])
    size = system.info(f"{folder}/1{suffix}")["size"]
    state = tmp_path / "state.npz"
    arguments = {"checkpoint": state, "checkpoint_seconds": 0.0, "storage_options": options}
    lost = []

    def files(cut):
        for number in range(3):
            proxy.cut_after = int(cut * size) if number == 1 else None
            yield f"s3://{folder}/{number}{suffix}"

    for cut in (0.0, 0.2, 0.9):
        try:
            aggregate(files(cut), ORACLE, **arguments)
        except RefusedBatchError as error:
            lost.append(str(error))
            assert Aggregator.load(state, ORACLE).batches == {f"0{suffix}": n}
        finally:
            proxy.cut_after = None
    assert len(lost) == 3
    assert proxy.n_cut
    assert all(f"1{suffix} is refused" in text for text in lost)
    server = aggregate(f"s3://{folder}", ORACLE, **arguments)
    assert server.n_samples == 3 * n
    expected = np.bincount(np.concatenate([reports(name, n) for name in "012"]), minlength=200)
    np.testing.assert_array_equal(server.oracle_.support_counts_, expected)
