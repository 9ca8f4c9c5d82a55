"""Checkpoints: written atomically, all damage detected, no batch lost or counted twice."""

import hashlib
import io
import itertools
import multiprocessing
import os
import random
import signal
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from serving import patience
from sklearn.base import clone

from sklearn_ldp import GRR, OLH
from sklearn_ldp.collection import Aggregator, CheckpointError, RefusedBatchError

ORACLE = GRR(1.0, categories=50, n_shards=4)


def filled(n_batches=3, oracle=ORACLE):
    server = Aggregator(oracle, collection_round="may")
    for i in range(n_batches):
        server.add(np.arange(50 - i), f"batch {i}")
    with pytest.raises(RefusedBatchError):
        server.add([50], "bad")
    return server


def loaded(path, oracle=ORACLE):
    return Aggregator.load(path, oracle, collection_round="may")


def test_what_is_loaded_is_what_was_saved(tmp_path):
    path = tmp_path / "state.npz"
    Aggregator(ORACLE, collection_round="may").save(path)
    assert loaded(path).n_samples == 0
    server = filled()
    server.save(path)
    again = loaded(path)
    assert again.summary() == server.summary()
    assert again.batches == server.batches
    np.testing.assert_array_equal(again.tally().tallies, server.tally().tallies)
    with pytest.raises(RefusedBatchError, match="'batch 1' before"):
        again.add([0], "batch 1")
    again.add([0], "näher 字").save(path)
    assert "näher 字" in loaded(path)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def test_it_is_a_plain_npz(tmp_path):
    path = tmp_path / "state.npz"
    filled().save(path)
    with np.load(path, allow_pickle=False) as content:
        assert content["tallies"].sum() == content["sizes"].sum() == 50 + 49 + 48
        assert {array.dtype.kind for array in content.values()} == {"i", "u"}
    with zipfile.ZipFile(path) as archive:
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())


def test_another_configuration_is_named(tmp_path):
    path = tmp_path / "state.npz"
    filled().save(path)
    for parameters, what in [
        ({"epsilon": 2.0}, "epsilon 1.0 instead of 2.0"),
        ({"categories": 51}, "n_categories 50 instead of 51"),
        ({"categories": range(50, 0, -1)}, "domain_sha256"),
        (
            {"n_shards": 5},
            r"tallies of shape \(4, 50\), but this oracle has tallies of shape \(5, 50\)",
        ),
    ]:
        with pytest.raises(CheckpointError, match=what):
            loaded(path, clone(ORACLE).set_params(**parameters))
    with pytest.raises(CheckpointError, match="oracle 'GRR' instead of 'OLH'"):
        loaded(path, OLH(1.0, categories=50))
    with pytest.raises(CheckpointError, match="collection_round 'may' instead of ''"):
        Aggregator.load(path, ORACLE)
    with pytest.raises(FileNotFoundError):
        loaded(tmp_path / "other.npz")


@pytest.mark.parametrize("step", [211, pytest.param(1, marks=pytest.mark.slow)])
def test_every_flipped_bit_and_every_truncation_is_detected(tmp_path, step):
    path = tmp_path / "state.npz"
    filled().save(path)
    content = path.read_bytes()
    for bit in range(0, 8 * len(content), step):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="the SHA-256 does not match"):
            loaded(path)
    for length in range(0, len(content), step):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="is damaged or truncated"):
            loaded(path)
    path.write_bytes(content)
    assert loaded(path).n_samples == 147


def forge(path, compression=zipfile.ZIP_STORED, **changes):
    """Write a checkpoint with other arrays, given as bytes of npy files."""
    filled().save(path)
    file = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(file, "w", compression) as target:
        for info in source.infolist():
            name = info.filename.removesuffix(".npy")
            target.writestr(info.filename, changes.get(name, source.read(info)))
        target.comment = b"0" * 64
    content = file.getvalue()[:-64]  # and a matching seal, as a forger makes it but no accident
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


def npy(header, body=b""):
    header = header.encode().ljust(118 - 10) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def array(shape, kind="<i8", body=b""):
    return npy(f"{{'descr':'{kind}','fortran_order':False,'shape':{shape}}}", body)


FORGED = {
    "a huge array": {"tallies": array("(1<<60,50)")},
    "a huge plain one": {"tallies": array("(1000000000000,50)")},
    "negative shapes": {"tallies": array("(-4,-50)", body=bytes(1600))},
    "objects": {"tallies": array("(4,50)", "|O", bytes(1600))},
    "floats": {"tallies": array("(4,50)", "<f8", bytes(1600))},
    "a long header": {"tallies": npy("(" * 2000)},
    "a deep header": {"tallies": npy("(" * 100)},
    "another version": {"tallies": b"\x93NUMPY\x03\x00" + bytes(100)},
    "no npy": {"tallies": b""},
    "a deep header of ours": {"header": array("(100000,)", "|u1", b"[" * 100_000)},
    "a list as header": {"header": array("(2,)", "|u1", b"[]")},
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_checkpoints_are_refused(tmp_path, case):
    """A forger can make a matching digest, so the content is not trusted either."""
    path = tmp_path / "state.npz"
    forge(path)
    assert loaded(path).n_samples == 147
    forge(path, **FORGED[case])
    with pytest.raises(CheckpointError, match="is not a checkpoint of this collection"):
        loaded(path)


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "state.npz"
    bomb = array("(4,50)", body=bytes(1 << 26))
    forge(path, zipfile.ZIP_DEFLATED, tallies=bomb)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(CheckpointError, match="repeated, or larger than the file"):
        loaded(path)


def test_data_and_name_are_flushed_in_order(tmp_path, monkeypatch):
    """The file is flushed before it is renamed, the folder after, in case of a power cut."""
    calls = []
    sizes = []

    def noting(name):
        real = getattr(os, name)

        def call(*arguments):
            kind = name
            if name == "fsync":
                is_folder = os.path.isdir(f"/proc/self/fd/{arguments[0]}")
                sizes.append(os.fstat(arguments[0]).st_size)
                kind += " folder" if is_folder else " file"
            calls.append(kind)
            return real(*arguments)

        monkeypatch.setattr(f"sklearn_ldp._core.common.files.os.{name}", call)

    noting("fsync")
    noting("replace")
    filled().save(tmp_path / "state.npz")
    assert calls == ["fsync file", "replace", "fsync folder"]
    assert sizes[0] == (tmp_path / "state.npz").stat().st_size


# -- SIGKILL ------------------------------------------------------------------------------------
KILLED = GRR(1.0, categories=20_000, n_shards=4)  # a checkpoint of 640 kB, so that kills hit writes


def batch(number):
    return np.random.default_rng(number).integers(20_000, size=10)


def naive_save(server, path):
    """The negative control: write the file in place."""
    with tempfile.TemporaryDirectory() as folder:
        server.save(safe := Path(folder) / "state.npz")
        content = safe.read_bytes()
    with open(path, "wb", buffering=0) as file:
        for start in range(0, len(content), 4096):
            file.write(content[start : start + 4096])
            time.sleep(1e-4)  # a slow disk: most of the victim's time goes here


def collect(path, save, log):
    """The victim's work: resume from the checkpoint, and note each batch that is safe."""
    server = Aggregator.load(path, KILLED)
    with open(log, "ab", buffering=0) as file:
        for number in itertools.count(len(server.batches)):
            server.add(batch(number), str(number))
            save(server, path)
            file.write(b"%d\n" % number)


def kill_often(folder, n_kills, save, seed):
    """Raise if a state is unreadable or a batch is lost or doubled."""
    path, log, n_batches = folder / "state.npz", folder.with_suffix(".log"), 0
    # A fork of this process could wait forever for a lock of one of its threads.
    victims = multiprocessing.get_context("forkserver")
    victims.set_forkserver_preload(["pytest", "sklearn_ldp.collection", "sklearn_ldp.oracles"])
    rng, expected = random.Random(seed), np.zeros(20_000, dtype=np.int64)
    save(Aggregator(KILLED), path)
    log.touch()
    for _ in range(n_kills):
        victim, before = victims.Process(target=collect, args=(path, save, log)), log.stat().st_size
        victim.start()
        assert patience(lambda before=before: log.stat().st_size > before + 9, 60)  # it is at work
        time.sleep(rng.uniform(0, 0.05))
        victim.kill()
        victim.join()
        assert victim.exitcode == -signal.SIGKILL
        server = Aggregator.load(path, KILLED)
        for number in range(n_batches, len(server.batches)):
            np.add.at(expected, batch(number), 1)
        n_batches = len(server.batches)
        assert n_batches > int(log.read_text().split()[-1]), "lost"
        assert set(server.batches) == {str(number) for number in range(n_batches)}
        np.testing.assert_array_equal(server.tally().tallies.sum(axis=0), expected)
    Aggregator(KILLED).save(path)  # sweeps
    assert [file.name for file in folder.iterdir()] == ["state.npz"]


@pytest.mark.slow
def test_a_hundred_kills_lose_nothing(tmp_path, seed):
    kill_often(tmp_path, 100, Aggregator.save, seed)


@pytest.mark.slow
def test_kills_show_a_write_in_place(tmp_path):
    """The negative control: most kills hit a half-written file."""
    with pytest.raises(CheckpointError, match="damaged or truncated"):
        kill_often(tmp_path, 30, naive_save, seed=0)
