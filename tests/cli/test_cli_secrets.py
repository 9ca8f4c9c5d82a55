"""The command of a client prints no cell of the user's file, whatever the file and the options."""

import gzip
import io
import json
import traceback
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

from sklearn_ldp.__main__ import main

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

MARKS = ("SECRET", "7777777")
TEXTS = ["SECRET", "SECRET é", "=SECRET", "7777777", "-7777777", "7777777.5", '"SECRET', "SECRET\r"]
TEXTS += [
    "SECRET\0",
    "SECRET\ttab",
    "'SECRET'",
    "{SECRET}",
    "[7777777]",
    "SECRET" * 50,
    "7777777e9",
]
TEXTS += ["7" * 5000, "red", "", "value", "count", "SECRET=1"]
CELLS = [
    [7777777, -7777777],
    [7777777.5, np.inf],
    [b"SECRET", b"SECRET\xff"],
    [["SECRET"], ["7777777"]],
    [{"SECRET": 7777777}],
    ["SECRET", None],
    [None],
    ["SECRET" + "\0", "red"],
    [np.datetime64("7777-07-07T07:07:07")],
    [True],
]
HEADERS = [["value"], ["value", "count"], ["sex", "age"], ["sex", "age", "count"], ["name", "n"]]
NAMES = ["value", "count", "sex", "age", "SECRET", "7777777", ""]
OPTIONS = [
    ["--value-column", "value"],
    ["--value-column", "name"],
    ["--count-column", "n"],
    ["--input-kind", "values"],
    ["--input-kind", "histogram"],
    ["--no-header"],
    ["--oracle", "olh"],
    ["--max-length", "3"],
    [],
]
# The files of the domain: those of one column, of several, and letters.
DOMAINS = [
    ["--categories", "domain.txt"],
    ["--categories", "domain.json"],
    ["--domains", "domains.json"],
    ["--strings", "abcdefghij"],
    ["--categories", "FILE"],  # the arguments are swapped
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("red\nblue\nvalue\n")
    (tmp_path / "domain.json").write_text(json.dumps({"bins": [18, 65], "missing": True}))
    (tmp_path / "domains.json").write_text(json.dumps({"sex": ["F", "M"], "age": 3}))
    return tmp_path


def header_of(rng):
    """Names of columns, which are often those that the command looks for."""
    if rng.random() < 0.6:
        return HEADERS[rng.integers(len(HEADERS))]
    return rng.choice(NAMES, size=rng.integers(1, 5)).tolist()


def text_file(rng):
    """A CSV, lines, a histogram or lines of JSON, which may be ragged, and packed."""
    header = header_of(rng)
    width, separator = len(header), rng.choice([",", ";", "\t"], p=[0.8, 0.1, 0.1])
    if rng.random() < 0.2:
        rows = [json.dumps({"value": str(rng.choice(TEXTS)), "SECRET": 7777777}) for _ in range(3)]
    else:
        rows = [
            separator.join(rng.choice(TEXTS, size=width + (rng.random() < 0.1)))
            for _ in range(rng.integers(1, 6))
        ]
    if rng.random() < 0.7:
        rows.insert(0, ",".join(header))
    end = rng.choice(["\n", "\r\n", "\r"], p=[0.8, 0.1, 0.1])
    content = (end.join(rows) + end).encode(
        rng.choice(["utf-8", "utf-16", "latin1"], p=[0.8, 0.1, 0.1])
    )
    content = gzip.compress(content) if rng.random() < 0.2 else content
    return content[: -int(rng.integers(1, 9))] if rng.random() < 0.1 else content


def table_file(rng):
    """A file of Parquet or Arrow, which may be damaged."""
    names = header_of(rng)
    n = int(rng.integers(0, 4))
    kinds = [CELLS[rng.integers(len(CELLS))] for _ in names]
    columns = [pa.array([kind[i % len(kind)] for i in range(n)]) for kind in kinds]
    table = pa.table(columns, names=names)
    sink = pa.BufferOutputStream()
    if rng.random() < 0.7:
        pq.write_table(table, sink, compression="none")
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    content = bytearray(sink.getvalue().to_pybytes())
    if rng.random() < 0.2:
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    return bytes(content)


def output_of(argv):
    """The exit code and all that a command prints, with the traceback of an error of its own."""
    streams = io.StringIO()
    with redirect_stdout(streams), redirect_stderr(streams):
        try:
            code = main(argv)
        except Exception:
            code = -1
            traceback.print_exc(file=streams)
    return code, streams.getvalue()


def leaks(folder, seed, n, command="privatize"):
    """The numbers of inputs whose output shows a mark, and of inputs that end in a traceback."""
    rng = np.random.default_rng(seed)
    shown, crashed = [], []
    for _ in range(n):
        content = text_file(rng) if rng.random() < 0.6 else table_file(rng)
        (folder / "people").write_bytes(content)
        domain = DOMAINS[rng.choice(len(DOMAINS), p=[0.3, 0.1, 0.3, 0.2, 0.1])]
        options = OPTIONS[rng.integers(len(OPTIONS))]
        argv = [command, "people", *("people" if a == "FILE" else a for a in domain), *options]
        code, text = output_of(
            [*argv, "--output", "out.jsonl" if command == "privatize" else "out.csv"]
        )
        (folder / "out.jsonl").unlink(missing_ok=True)
        (folder / "out.csv").unlink(missing_ok=True)
        if any(mark in text for mark in MARKS):
            shown.append((argv, content, text))
        if code == -1:
            crashed.append((argv, content, text))
    return shown, crashed


def test_no_cell_is_shown(folder, seed):
    shown, crashed = leaks(folder, seed, 50)
    assert not shown
    assert not crashed


@pytest.mark.slow
def test_no_cell_of_two_thousand_files_is_shown(folder, seed):
    shown, crashed = leaks(folder, seed, 2000)
    assert not shown
    assert not crashed


def test_the_marks_are_seen_where_cells_may_be_shown(folder, seed):
    """Negative control: `estimate` runs where the data are, and its errors show cells."""
    assert len(leaks(folder, seed, 40, "estimate")[0]) >= 4


def test_the_message_of_a_bug_is_hidden(folder, monkeypatch):
    """A traceback shows the lines of the package, and not the message of its last error."""

    def broken(*args):
        raise KeyError("SECRET")

    monkeypatch.setattr("sklearn_ldp._cli._privatize.declared_users", broken)
    argv = ["privatize", "people", "--categories", "domain.txt", "--output", "out.jsonl"]
    code, text = output_of(argv)
    assert code == -1
    assert "RuntimeError: KeyError: the message is hidden" in text
    assert "SECRET" not in text.replace('raise KeyError("SECRET")', "")


def test_a_cell_with_an_underscore_is_no_number(folder):
    """Python reads 18_25 as 1825, which would count in the last bin."""
    table = folder / "ages.csv"
    argv = ["privatize", str(table), "--categories", "domain.json", "--epsilon", "1"]
    for cell, code in {"18_25": 1, "1825": 0}.items():  # the second one is the negative control
        table.write_text(f"value\n30\n{cell}\n")
        assert main([*argv, "--output", f"{code}.jsonl"]) == code
