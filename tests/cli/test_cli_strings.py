"""Strings that nobody lists, on the command line: files in, files out, and what is refused."""

import pytest
from test_cli import COLUMNS, assert_fails, rows_of, said

from sklearn_ldp.__main__ import main

pytest.importorskip("pyarrow")

WORDS = {"firefox": 9000, "chrome": 5000, "safari": 3000, "007": 2000}
OPTIONS = ["--strings", "abcdefghijklmnopqrstuvwxyz07", "--max-length", "8", "--n-found", "3"]
OPTIONS += ["--expected-users", "20000", "--epsilon", "4"]


@pytest.fixture
def words(tmp_path, monkeypatch):
    """A file of one string a user, in the current folder."""
    monkeypatch.chdir(tmp_path)
    lines = [word for word, n in WORDS.items() for _ in range(n)]
    (tmp_path / "words.csv").write_text("value\n" + "\n".join(lines) + "\n")
    return "words.csv"


def assert_covers(rows):
    """Fails by chance about once in 10**7 runs."""
    assert list(rows[0]) == [*COLUMNS, "or longer"]
    assert {row["or longer"] for row in rows} == {"False"}
    assert [row["category"] for row in rows] == list(WORDS)[:3]
    for row in rows:
        share = WORDS[row["category"]] / sum(WORDS.values())
        assert float(row["low"]) <= share <= float(row["high"])


def test_from_users_to_the_list(words, capsys):
    level = ["--level", "0.99999999"]
    assert_covers(rows_of(said(capsys, "estimate", words, *OPTIONS, *level).out))
    assert main(["privatize", words, *OPTIONS, "--output", "reports.parquet"]) == 0
    said(capsys, "aggregate", "reports.parquet", *OPTIONS, "--checkpoint", "state.npz")
    assert_covers(rows_of(said(capsys, "estimate", "state.npz", *OPTIONS, *level).out))
    other = ["--strings", "abc", *OPTIONS[2:]]
    assert_fails(["estimate", "state.npz", *other], capsys, "not a checkpoint of this collection")


@pytest.mark.filterwarnings("ignore:.*are not detected among")
def test_few_users_have_no_list(tmp_path, capsys):
    (tmp_path / "few.csv").write_text("value\nfirefox\nchrome\n")
    assert_fails(["estimate", str(tmp_path / "few.csv"), *OPTIONS], capsys, "No string is detected")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["estimate", "--post", "norm-sub"], "Omit --post; the estimates are then clipped at 0"),
        (
            ["privatize", "--oracle", "oue", "--output", "r.parquet"],
            "--oracle cannot be combined with --strings",
        ),
        (["privatize", "--output", "r.jsonl", "--strings", "fre"], "has a letter outside of"),
        (["privatize", "--output", "r.parquet", "--strings", "aa"], "different letters"),
    ],
)
def test_what_is_refused(argv, expected, words, capsys):
    options = [*OPTIONS[2:], *([] if "--strings" in argv else OPTIONS[:2])]
    assert_fails([argv[0], words, *argv[1:], *options], capsys, expected)
