"""Files of an operator that cost much more than they hold: bounded, and one line of error each."""

import gzip
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from sklearn_ldp.__main__ import main

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

GIVEN = ["--domains", "domains.json", "--epsilon", "1", "--output", "out.jsonl"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domains.json").write_text(json.dumps({"sex": ["F", "M"], "age": 3}))
    (tmp_path / "domain.txt").write_text("red\nblue\n")
    return tmp_path


def error_of(capsys, *argv):
    """The one line that a command says, which has no traceback and at most 500 characters."""
    assert main(list(map(str, argv))) == 1
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if "error" in line]
    assert len(line) <= 500
    return line


def write_repeated(path, columns, n_rows, n_groups=1):
    """A Parquet file of equal rows."""
    table = pa.table({name: pa.repeat(value, n_rows) for name, value in columns.items()})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(n_groups):
            writer.write_table(table)


def test_parquet_that_promises_too_many_rows(folder, capsys):
    write_repeated("people.parquet", {"sex": "F", "age": 1}, 1 << 20, 10)
    assert (folder / "people.parquet").stat().st_size < 100_000
    assert "claims 20,971,520 cells" in error_of(capsys, "privatize", "people.parquet", *GIVEN)
    write_repeated("histogram.parquet", {"value": "a", "count": 1}, 1 << 20, 3)
    line = error_of(capsys, "estimate", "histogram.parquet", "--epsilon", "1")
    assert "more than the reader accepts" in line


def test_parquet_whose_pages_unpack_to_too_much(folder, capsys, monkeypatch):
    monkeypatch.setattr("sklearn_ldp._core.common.files._UNPACKED_BYTES", 1 << 16)
    table = pa.table({"value": ["a" * (1 << 22)], "count": [1]})
    pq.write_table(table, "histogram.parquet", compression="zstd")
    assert (folder / "histogram.parquet").stat().st_size < 100_000
    assert "unpacks to 41943" in error_of(capsys, "estimate", "histogram.parquet", "--epsilon", "1")
    pq.write_table(pa.table({"value": [["a"]]}), "sets.parquet")
    assert "contains lists" in error_of(capsys, "estimate", "sets.parquet", "--epsilon", "1")


def test_gzip_that_unpacks_to_too_much(folder, capsys, monkeypatch):
    monkeypatch.setattr("sklearn_ldp._core.common.files._UNPACKED_BYTES", 1 << 16)
    (folder / "people.csv.gz").write_bytes(gzip.compress(b"sex,age\n" + b"F,1\n" * (1 << 17)))
    assert "unpacks to more than" in error_of(capsys, "privatize", "people.csv.gz", *GIVEN)


@pytest.mark.slow
def test_honest_files_are_far_from_the_bounds(folder):
    """A million users of two columns, sorted, which is as small as files of people get."""
    rng = np.random.default_rng(0)
    sex, age = rng.integers(2, size=300_000), np.sort(rng.integers(3, size=300_000))
    table = pa.table({"sex": np.array(["F", "M"])[sex], "age": age})
    pq.write_table(table, "people.parquet", compression="zstd")
    assert main(["privatize", "people.parquet", *GIVEN]) == 0


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("domains.json", '{"a": 1000000000}', "1000000000 categories in total"),
        ("domains.json", "[" * 100_000, "too many nested lists or objects"),
        ("domains.json", '{"a":' * 100_000, "too many nested lists or objects"),
        ("domains.json", '{"a": 1' + "0" * 400 + "}", "categories in total"),
        ("domains.json", '{"a": 1' + "0" * 5000 + "}", "digits|JSON"),
        ("domains.json", json.dumps({"x" * 100_000: 0}), "must be a list"),
        ("people.csv", "sex,age\rF,1\rM,2\r", "end lines with LF"),
        ("people.csv", ",".join("abc" * 40_000), "has no column 'sex'"),
        ("people.csv", "sex,age\nSECRET,1\n", "line 2: a value in the column 'sex'"),
        ("people.csv", "sex,age\nF,SECRET" + "x" * 100_000 + "\n", "line 2: a value"),
        ("people.csv", "sex,age\nF,SECRET,1\n", "line 2: expected 2 columns"),
    ],
)
def test_what_is_refused_in_a_line(folder, capsys, name, content, what):
    (folder / "people.csv").write_text("sex,age\nF,1\n")
    (folder / name).write_bytes(content.encode())
    line = error_of(capsys, "privatize", "people.csv", *GIVEN)
    assert any(one in line for one in what.split("|"))
    assert "SECRET" not in line
    assert not (folder / "out.jsonl").exists()


@pytest.mark.parametrize(
    "content", ["SECRET\nred\nred\n", "red\rblue\r", "red\nSECRET\n", "value\nSECRET\nred\n"]
)
def test_values_of_one_column_are_not_shown(folder, capsys, content):
    (folder / "values.txt").write_bytes(content.encode())
    given = ["--categories", "domain.txt", "--epsilon", "1", "--output", "out.jsonl"]
    assert "SECRET" not in error_of(capsys, "privatize", "values.txt", *given)


def test_lines_of_a_study_that_were_changed_are_refused(tmp_path):
    """Of 1,140 mutants 16 were accepted, with errors below 0 and NaN."""
    from sklearn_ldp.model_selection._study_file import StudyFile

    path, rng = tmp_path / "study.jsonl", random.Random(0)
    StudyFile(path).add({f"key {i}": np.array([0.25, 1e-7 * i]) for i in range(5)})
    whole = path.read_text()
    for error in ("-0.5", "NaN", "1" + "0" * 400, "1e400", "[" * 50_000):
        path.write_text(whole.replace("0.25", error, 1))
        with pytest.raises(ValueError, match="is damaged in line 2"):
            StudyFile(path)
    accepted = 0
    for _ in range(500):
        content = bytearray(whole.encode())
        place = rng.randrange(len(content))
        content[place : place + rng.randrange(3)] = rng.choice([b"", b"0", b"9", b"-", b"\xff"])
        path.write_bytes(content)
        try:
            found = StudyFile(path)
        except ValueError:
            continue
        accepted += 1
        for i in range(5):
            if f"key {i}" in found:
                np.testing.assert_array_equal(found[f"key {i}"], [0.25, 1e-7 * i])
    assert accepted < 100


@pytest.mark.slow
def test_no_command_takes_a_gigabyte(folder):
    """The files of a few kB that took 2.4 GB and a minute."""
    write_repeated("people.parquet", {"sex": "F", "age": 1}, 1 << 20, 20)
    (folder / "people.csv.gz").write_bytes(gzip.compress(b"sex,age\n" + b"F,1\n" * (8 << 20)))
    for name in ("people.parquet", "people.csv.gz"):
        command = [sys.executable, "-m", "sklearn_ldp", "privatize", name, *GIVEN]
        with open(folder / "stderr", "w+", encoding="utf-8") as stderr:
            running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
            # Of this child alone: RUSAGE_CHILDREN knows those of the tests before this one, too.
            _, status, used = os.wait4(running.pid, 0)
            running.returncode = os.waitstatus_to_exitcode(status)
            stderr.seek(0)
            assert "Traceback" not in stderr.read()
        assert running.returncode in (0, 1)
        assert used.ru_maxrss < 1_000_000
