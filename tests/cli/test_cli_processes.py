"""Commands beside other processes, on full disks, with closed streams and with files of no kind."""

import errno
import os
import subprocess
import sys
import tempfile
import zipfile

import pytest

from sklearn_ldp import GRR
from sklearn_ldp.__main__ import main
from sklearn_ldp._core.aggregation import checkpoints
from sklearn_ldp.collection import Aggregator, RepeatedClient, read_reports, write_reports

COMMAND = [sys.executable, "-m", "sklearn_ldp"]
GIVEN = ["--categories", "domain.txt", "--epsilon", "1"]
ORACLE = GRR(1.0, categories=["red", "blue", "value"])
posix = pytest.mark.skipif(os.name == "nt", reason="streams and devices of POSIX")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("red\nblue\nvalue\n")
    (tmp_path / "values.txt").write_text("red\nblue\n" * 50)
    return tmp_path


def error_of(capsys, *argv, code=1):
    assert main(list(argv)) == code
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    return line


# -- headers -------------------------------------------------------------------------------------
def test_a_header_that_is_a_category_is_asked_for(folder, capsys):
    """It was 2 users of 3 without a word."""
    (folder / "values.txt").write_text("value\nred\nblue\n")
    argv = ["privatize", "values.txt", *GIVEN, "--output", "a.jsonl"]
    line = error_of(capsys, *argv)
    assert "--value-column value" in line
    assert "--no-header" in line
    assert not (folder / "a.jsonl").exists()
    for option, n in ((["--value-column", "value"], 2), (["--no-header"], 3)):
        assert main([*argv, *option, "--force"]) == 0
        assert f"{n} reports" in capsys.readouterr().err
    for strings in ("value\nred\nvalue\n", "value\nvalue\n"):  # of no domain: a line that repeats
        (folder / "values.txt").write_text(strings)
        assert "--no-header" in error_of(capsys, "estimate", "values.txt", "--output", "a.csv")


def test_two_columns_of_one_name_are_refused(folder, capsys):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (folder / "a.csv").write_text("value,value\nred,blue\n")
    (folder / "b.csv").write_text("value,count,count\nred,1,2\n")
    parquet.write_table(pa.table([["red"], ["blue"]], names=["value", "value"]), "c.parquet")
    for name in ("a.csv", "b.csv", "c.parquet"):
        line = error_of(capsys, "privatize", name, *GIVEN, "--output", "a.jsonl")
        assert "2 columns" in line
        assert "--value-column" in line


# -- other processes -----------------------------------------------------------------------------
def test_one_of_three_writes_an_output(folder):
    """Each has spent epsilon before, and the last replaced the reports of the others."""
    argv = [*COMMAND, "privatize", "values.txt", *GIVEN, "--output", "out/a.jsonl"]
    running = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [one.communicate()[1] for one in running]
    assert sorted(one.returncode for one in running) == [0, 1, 1]
    assert sum("has spent epsilon" in error for error in errors) == 1
    assert os.listdir("out") == ["a.jsonl"]
    assert len(read_reports("out/a.jsonl", ORACLE)) == 100


def test_an_output_in_use_is_refused_before_a_report_is_drawn(folder, capsys, monkeypatch):
    """Also with --force; and if the other process has ended in the meantime."""

    def never(*args, **kwargs):
        raise AssertionError("epsilon is spent")

    monkeypatch.setattr("sklearn_ldp._core.mechanisms.Protocol.privatize", never)
    argv = ["privatize", "values.txt", *GIVEN, "--output", "a.jsonl"]
    with checkpoints.locked(folder / "a.jsonl", 0):
        assert "in use" in error_of(capsys, *argv)
        assert "in use" in error_of(capsys, *argv, "--force")
    answers = iter([False, True])  # of the check before any work, and of that under the lock
    monkeypatch.setattr("pathlib.Path.exists", lambda path: next(answers))
    assert "exists" in error_of(capsys, *argv)


# -- full disks ----------------------------------------------------------------------------------
def test_a_lock_without_a_name_in_it_holds(folder, monkeypatch):
    """On a full disk standard output was blamed, and the lock stayed behind."""

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.write", full)
    path = folder / "s.npz"
    with checkpoints.locked(path, 0):
        assert checkpoints.other_user(path) == "another process"
    assert not checkpoints.lock_file(path).exists()


def memo():
    RepeatedClient(ORACLE, "memo.json", question="q", epsilon_forever=2.0)


def checkpoint():
    Aggregator(ORACLE).add(ORACLE.privatize(["red"]), "a").save("s.npz")


@pytest.mark.parametrize(("write", "name"), [(memo, "memo.json"), (checkpoint, "s.npz")])
def test_a_full_disk_is_named(write, name, folder, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    monkeypatch.setattr("os.write", full)
    with pytest.raises(OSError, match="cannot write here") as info:
        write()
    assert info.value.filename == name
    assert {*os.listdir(folder)} == {"domain.txt", "values.txt"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_folder_of_temporary_files_is_named(folder, monkeypatch, capsys):
    """It was standard output, which nobody had written to."""
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: open("/dev/full", "r+b"))  # noqa: SIM115
    monkeypatch.setattr("sklearn_ldp._core.aggregation._report_files.HELD_BYTES", 10)
    assert main(["privatize", "values.txt", *GIVEN, "--output", "a.jsonl"]) == 1
    assert f"{tempfile.gettempdir()}: cannot write here" in capsys.readouterr().err
    assert {*os.listdir(folder)} == {"domain.txt", "values.txt"}


# -- streams -------------------------------------------------------------------------------------
@posix
@pytest.mark.parametrize(
    ("argv", "closed", "code", "said"),
    [
        (
            ["privatize", "-", *GIVEN, "--output", "a.jsonl"],
            "<&-",
            1,
            "standard input: the stream is closed",
        ),
        (
            ["privatize", "values.txt", *GIVEN, "--output", "-"],
            ">&-",
            1,
            "standard output: the stream is",
        ),
        (["privatize", "values.txt", *GIVEN, "--output", "a.jsonl"], ">&-", 0, "has spent"),
        (["privatize", "values.txt", *GIVEN, "--output", "a.jsonl"], "2>&-", 0, ""),
    ],
)
def test_closed_streams(argv, closed, code, said, folder):
    line = f'exec "$@" {closed}'
    done = subprocess.run(["sh", "-c", line, "sh", *COMMAND, *argv], capture_output=True, text=True)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "a.jsonl").exists() == (code == 0)


# -- files and arguments of no kind --------------------------------------------------------------
def test_columns_that_nest_have_no_values(folder, capsys):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    kinds = {
        "structs": pa.array([{"a": 1}]),
        "lists": pa.array([["a"]]),
        "maps": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    (folder / "domains.json").write_text('{"value": ["red", "blue"]}')
    for column in kinds.values():
        parquet.write_table(pa.table({"value": column}), "a.parquet")
        for domain in (GIVEN, ["--domains", "domains.json"]):
            line = error_of(capsys, "privatize", "a.parquet", *domain, "--output", "a.jsonl")
            assert "the column 'value' contains" in line
        parquet.write_table(pa.table({"value": ["red"], "count": column}), "a.parquet")
        line = error_of(capsys, "estimate", "a.parquet", "--domains", "domains.json")
        assert "the column 'count' contains" in line


def test_files_in_place_of_text(folder, capsys):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"value": ["red"]})
    with pa.ipc.new_file("a.arrow", table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.new_stream("a.arrows", table.schema) as writer:
        writer.write_table(table)
    with zipfile.ZipFile("a.xlsx", "w") as archive:
        archive.writestr("values.txt", "red\n")
    for name, kind in (("a.arrow", "an Arrow file"), ("a.arrows", "a"), ("a.xlsx", "a zip arch")):
        for argv in (
            ["privatize", name, *GIVEN],
            ["privatize", "values.txt", "--categories", name],
        ):
            assert f"{name} is {kind}" in error_of(capsys, *argv, "--output", "a.jsonl")
    (folder / "values.txt").write_text("BZh\nPAR1\n")  # which are words, too
    assert main(["estimate", "values.txt", "--output", "a.csv"]) == 0
    for content in (b"", b"P"):
        (folder / "a.npz").write_bytes(content)
        line = error_of(capsys, "estimate", "a.npz", *GIVEN)
        assert f"({len(content)} byte" in line
        assert "damaged checkpoint or estimate" in line


def test_options_that_are_misspelled_are_named(folder, capsys):
    """argparse speaks of the option that is missing, because it is the one that is misspelled."""
    argv = ["privatize", "values.txt", "--categorys", "domain.txt", "--output", "a.jsonl"]
    assert "'--categorys' is unknown: did you mean '--categories'?" in error_of(
        capsys, *argv, code=2
    )
    argv = ["privatize", "values.txt", *GIVEN, "--outptu=a.jsonl"]
    assert "'--outptu' is unknown: did you mean '--output'?" in error_of(capsys, *argv, code=2)
    assert "did you mean" not in error_of(capsys, "privatize", "values.txt", code=2)


@pytest.mark.parametrize("number", ["1e30", "1" * 400, "9" * 5000])
def test_numbers_that_are_too_large(number, capsys):
    for option in ("--n-categories", "--n-samples"):
        line = error_of(capsys, "plan", option, number, "--epsilon", "1", code=2)
        assert "expected a whole number from 1 to 2**53" in line
    line = error_of(capsys, "plan", "--n-categories", "1e15", "--n-samples", "9")
    assert "at most 100,000,000 categories" in line


def test_a_call_that_adds_nothing_does_not_end_in_0(folder, capsys):
    argv = ["aggregate", "good", "--categories", "domain.txt", "--checkpoint", "s.npz"]
    skip = ["--on-refusal", "skip"]
    os.mkdir("bad")
    os.mkdir("good")
    (folder / "bad" / "a.jsonl").write_text("no reports\n")
    write_reports("good/a.jsonl", ORACLE.privatize(["red"] * 9), ORACLE)
    for _ in range(2):  # of a new checkpoint, and of one that knows of refusals
        line = error_of(capsys, argv[0], "bad", *argv[2:], *skip)
        assert "Every batch was refused (1 in this call)" in line
    for files in (["good"], ["good", "bad"]):
        assert main([argv[0], *files, *argv[2:], *skip]) == 0
    assert Aggregator.load("s.npz", ORACLE).summary().n_refused == 3
