"""Files that are cut short, vanish or have odd names are refused; the others are counted."""

import multiprocessing
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from sklearn_ldp import GRR
from sklearn_ldp.__main__ import main
from sklearn_ldp._core.aggregation import formats
from sklearn_ldp._core.aggregation.containers import from_columns
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    aggregate,
    tally_file,
    write_reports,
)

pa = pytest.importorskip("pyarrow")

ORACLE = GRR(1.0, categories=["a", "b", "c"])
SUFFIXES = [".parquet", ".arrows", ".jsonl"]


def write(path, batch_id=None, n=30):
    write_reports(path, np.arange(n) % 3, ORACLE, batch_id=batch_id or Path(path).stem)
    return path


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    for number, suffix in enumerate(SUFFIXES):
        write(folder / f"{number}{suffix}")
    return folder


# -- files that are cut short ---------------------------------------------------------------------
def cut_short(path):
    patch = pytest.MonkeyPatch()
    patch.setattr("sklearn_ldp._core.aggregation.formats._MAX_GROUP", 10_000)
    reports = np.random.default_rng(0).integers(250, size=100_000)
    oracle = GRR(1.0, categories=250)
    for cut in (0.0, 0.3, 0.9):
        for is_cut_while_it_is_read in (False, True):
            write_reports(path, reports, oracle, batch_id="long")
            length = int(cut * os.path.getsize(path))

            def cutting(columns, fields, length=length):
                os.truncate(path, length)
                return from_columns(columns, fields)

            if is_cut_while_it_is_read:  # after its first piece
                patch.setattr("sklearn_ldp._core.aggregation._report_files.from_columns", cutting)
            else:
                os.truncate(path, length)
            server = aggregate([path], oracle, on_refusal="skip")
            patch.setattr("sklearn_ldp._core.aggregation._report_files.from_columns", from_columns)
            (refusal,) = server.summary().refused
            assert refusal.reason.startswith(f"File {path} is refused: "), refusal
            assert server.n_samples == 0
    assert aggregate([path], oracle, on_refusal="skip").summary().n_refused == 1
    write_reports(path, [0, 1, 2], oracle)
    assert aggregate([path], oracle, on_refusal="skip").n_samples == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts a process by fork")
@pytest.mark.parametrize("suffix", [".arrows", pytest.param(".parquet", marks=pytest.mark.slow)])
def test_a_file_that_is_cut_short_is_refused_and_kills_nobody(tmp_path, suffix):
    """In a process of its own: reading a mapped file beyond its end is a signal, not an error."""
    path = str(tmp_path / f"long{suffix}")
    process = multiprocessing.get_context("fork").Process(target=cut_short, args=(path,))
    process.start()
    process.join(120)
    assert process.exitcode == 0


@pytest.mark.slow
def test_a_file_that_shrinks_again_and_again_is_counted_or_refused(tmp_path):
    """The negative control is the file that nobody touches."""
    path = tmp_path / "x.arrows"
    write_reports(path, np.resize(np.arange(3), 3_000_000), ORACLE, batch_id="x")
    content, stop = path.read_bytes(), threading.Event()
    assert tally_file(path, ORACLE).n_samples == 3_000_000

    def shrink_and_grow():
        with path.open("r+b") as file:
            while not stop.is_set():
                file.truncate(len(content) // 3)
                file.seek(0)
                file.write(content)

    thread = threading.Thread(target=shrink_and_grow)
    thread.start()
    try:
        for _ in range(20):
            server = aggregate([path], ORACLE, on_refusal="skip")
            assert server.n_samples in (0, 3_000_000)
            assert server.n_samples or server.summary().n_refused == 1
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("claim", [-1, 1, 2**28, 2**31, 2**62])
def test_messages_that_lie_about_their_size_are_refused(folder, claim):
    """The negative control is the true size, which is 32 bytes for 30 reports, in words of 8."""
    content = (folder / "1.arrows").read_bytes()
    start = 8 + int.from_bytes(content[4:8], "little")  # of the second message
    length = int.from_bytes(content[start + 4 : start + 8], "little")
    metadata = content[start + 8 : start + 8 + length]
    place = metadata.index((32).to_bytes(8, "little"))
    assert formats._body_bytes(metadata) == 32
    for size in (32, claim):
        forged = bytearray(content)
        forged[start + 8 + place : start + 16 + place] = size.to_bytes(8, "little", signed=True)
        if size == 32:
            assert tally_file(bytes(forged), ORACLE, format="arrow").n_samples == 30
        else:
            with pytest.raises(RefusedBatchError):
                tally_file(bytes(forged), ORACLE, format="arrow")


# -- names ----------------------------------------------------------------------------------------
def odd_name(name):
    """The name, or a skip where the file system does not take it."""
    try:
        Path(name).touch()
    except (OSError, UnicodeError):
        pytest.skip("this file system does not take such names")
    return Path(name)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_that_are_not_utf_8(tmp_path, suffix):
    path = odd_name(os.fsdecode(os.fsencode(tmp_path) + b"/latin-\xe9" + suffix.encode()))
    write(path, "x")
    assert aggregate(path, ORACLE).batches == {"x": 30}
    path.write_bytes(path.read_bytes()[:-20])
    write(tmp_path / "y.parquet")
    server = aggregate(tmp_path, ORACLE, on_refusal="skip")
    assert server.batches == {"y": 30}
    text = str(server.summary())
    assert f"latin-\\udce9{suffix}" in text
    text.encode()  # can be printed and saved
    server.save(tmp_path / "state.npz")


@pytest.mark.skipif(os.name != "posix", reason="such names are not possible elsewhere")
def test_names_cannot_forge_lines_of_the_summary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("domain.txt").write_text("a\nb\nc\n")
    path = odd_name("x\nreports: 1000000\r\x1b[2K\u202e.parquet")
    path.write_bytes(b"no reports")
    options = ["--categories", "domain.txt", "--checkpoint", "state.npz", "--oracle", "grr"]
    for choice, code in (("skip", 1), ("stop", 1)):
        assert main(["aggregate", str(path), *options, "--on-refusal", choice]) == code
        out, err = capsys.readouterr()
        lines = (out + err).splitlines()
        assert not any(line.startswith("reports: 1000000") for line in lines)
        assert any("x\\nreports: 1000000\\r\\x1b[2K\\u202e.parquet" in line for line in lines)
        assert all(line.isprintable() for line in lines)


# -- files that are not there ---------------------------------------------------------------------
def test_a_file_that_vanishes_is_refused_and_the_others_are_counted(folder, tmp_path):
    def files():
        for path in sorted(folder.iterdir()):
            if path.stem == "1":
                path.unlink()
            yield path

    server = aggregate(files(), ORACLE, on_refusal="skip", checkpoint=tmp_path / "state.npz")
    assert server.batches == {"0": 30, "2": 30}
    ((name, reason),) = server.summary().refused
    assert name == str(folder / "1.arrows")
    assert reason.startswith(f"File {name} is refused: it cannot be read (No such file")
    again = write(folder / "1.arrows")  # nothing is remembered against it
    assert aggregate([again], ORACLE, checkpoint=tmp_path / "state.npz").n_samples == 90
    again.unlink()
    with pytest.raises(RefusedBatchError, match=r"1\.arrows is refused: it cannot be read"):
        aggregate([again], ORACLE)
    with pytest.raises(FileNotFoundError):
        aggregate(again, ORACLE)


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_folders_and_dangling_links_among_the_files_are_refused(folder):
    (folder / "link.parquet").symlink_to(folder / "nowhere")
    (folder / "folder.parquet").mkdir()
    paths = [folder / "link.parquet", folder / "0.parquet"]
    server = aggregate(iter([folder / "folder.parquet", *paths]), ORACLE, on_refusal="skip")
    assert server.n_samples == 30
    assert server.summary().n_refused == 2


# -- lists of paths -------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_lists_of_paths_are_files_and_folders(folder, kind, tmp_path):
    paths = [write(tmp_path / "extra.parquet"), str(folder / "0.parquet")]
    assert aggregate(kind(paths), ORACLE).batches == {"extra": 30, "0": 30}
    assert list(aggregate([paths[0], folder], ORACLE).batches) == ["extra", "0", "1", "2"]
    with pytest.raises(ValueError, match="contain the ids of their batches"):
        aggregate(paths, Aggregator(ORACLE), batch_id="x")


def test_lists_of_anything_else_are_reports(folder):
    assert aggregate([0, 1, 2], ORACLE).n_samples == 3
    for mixed in ([folder / "0.parquet", 1], [1, "0.parquet"]):
        with pytest.raises(RefusedBatchError):
            aggregate(mixed, ORACLE)
