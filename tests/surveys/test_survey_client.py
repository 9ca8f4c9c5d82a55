"""Columns that stay: clients that remember theirs, collectors who assign them; tests of reports."""

import hashlib
import json
import multiprocessing
import os
import stat
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from sklearn_ldp import GRR, OLH, OUE, ColumnOracle, MarginalOracle
from sklearn_ldp._core.common.files import _temporary as temporary
from sklearn_ldp._core.mechanisms.several import SampledQuestions
from sklearn_ldp.collection import SurveyClient
from sklearn_ldp.robustness import (
    assigned_parts,
    check_assigned,
    hash_function_test,
    joint_support_test,
    support_size_test,
)
from sklearn_ldp.utils._checks import check_exact_epsilon_of

DOMAINS = {"sex": ["F", "M"], "age": 16, "state": 40}
KEY = bytes(range(32))
RECORD = {"sex": "F", "age": 3, "state": 7}


def survey(**parameters):
    return ColumnOracle(2.0, domains=DOMAINS, oracle={"age": OUE(), "state": OLH()}, **parameters)


# -- columns that the collector assigns ---------------------------------------------------------
@pytest.mark.parametrize("part", [0, 1, 2])
def test_every_part_keeps_epsilon(part):
    """By enumeration over whole records, so also if a collector assigns columns in bad faith."""

    class Assigned(SampledQuestions):
        def draw_samples(self, n, coins):
            return np.full(n, part)

    split = ColumnOracle(1.0, domains={"a": 2, "b": 3, "c": 2}).protocol().mechanism
    records = [(a, b, c) for a in range(2) for b in range(3) for c in range(2)]
    mechanism = Assigned(split.mechanisms, split.shares)
    check_exact_epsilon_of(mechanism, records, 1.0)
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(mechanism, records, 0.999)


def test_assigned_parts_have_exactly_the_law_of_drawn_ones():
    split = survey().protocol().mechanism
    part, unit = split.public_part, 2**64 // split.public_part.n_draws
    ends = np.cumsum([share // unit for share in split.shares])
    assert ends[-1] == part.n_draws
    edges = np.concatenate([[0], ends[:-1], ends - 1])
    assert part.of_draws(edges).tolist() == [0, 1, 2, 0, 1, 2]


def test_assigned_columns():
    tokens = [f"user {i}" for i in range(2000)]
    one = survey(random_state=0)
    parts = assigned_parts(one, tokens, KEY)
    np.testing.assert_array_equal(parts, assigned_parts(one, tokens, KEY))
    observed = np.bincount(parts, minlength=3)
    expected = 2000 * one.protocol().mechanism.probabilities
    assert stats.chisquare(observed, expected).pvalue > 1e-4
    values = np.array([["F", 3, 7]] * 2000, dtype=object)
    reports = one.privatize(values, parts=parts)
    np.testing.assert_array_equal(reports[:, 0], parts)
    assert check_assigned(reports, one, tokens, KEY).all()
    chosen = one.privatize(values[:3], parts=(parts[:3] + 1) % 3)
    assert not check_assigned(chosen, one, tokens[:3], KEY).any()
    assert survey().aggregate(reports).estimate_["sex"].top(1)[0][0] == "F"


# -- a client that remembers --------------------------------------------------------------------
def test_a_client_stays_with_its_column_and_report(tmp_path):
    path = tmp_path / "memo.json"
    client = SurveyClient(survey(), path, question="census")
    column = client.column
    assert client.n_reports == 0
    first = client.report(RECORD)
    assert first[0, 0] == list(DOMAINS).index(column)
    for values in (RECORD, {"sex": "M", "age": 0, "state": 0}, {}):
        again = SurveyClient(survey(), path, question="census")
        np.testing.assert_array_equal(again.report(values), first)
        assert (again.column, again.n_reports) == (column, 1)
    assert survey().aggregate(first).n_samples_seen_ == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "nobody asks" not in path.read_text()
    assert repr(client) == f"SurveyClient(column={column!r}, n_reports=1)"


def test_a_report_is_renewed_for_the_same_column(tmp_path):
    client = SurveyClient(survey(), tmp_path / "memo.json", question="census")
    reports = {tuple(client.renew(RECORD)[0].tolist()) for _ in range(70)}
    assert client.n_reports == 70
    assert len(reports) > 1  # they agree in less than one of 10**9 runs
    assert {report[0] for report in reports} == {list(DOMAINS).index(client.column)}


def test_columns_are_drawn_with_the_probabilities_of_the_survey(tmp_path):
    """Error rate 1e-6; the negative control takes the probabilities of the other columns."""
    one = ColumnOracle(1.0, domains={"a": 2, "b": 20}, oracle=GRR())
    drawn = [SurveyClient(one, tmp_path / str(i), question="census").column for i in range(50)]
    probabilities = one.protocol().mechanism.probabilities
    assert stats.binomtest(drawn.count("a"), 50, probabilities[0]).pvalue > 1e-6
    assert stats.binomtest(drawn.count("a"), 50, probabilities[1]).pvalue < 1e-6


def test_records_that_are_refused_spend_nothing(tmp_path):
    client = SurveyClient(survey(), tmp_path / "memo.json", question="census")
    with pytest.raises(ValueError, match=f"the column '{client.column}', got dict without"):
        client.report({"height": 1})
    with pytest.raises(ValueError, match=f"in the column '{client.column}'") as caught:
        client.report(dict.fromkeys(DOMAINS, "SECRET"))
    assert "SECRET" not in str(caught.value)
    assert SurveyClient(survey(), tmp_path / "memo.json", question="census").n_reports == 0


def sealed(entries):
    """A memo with its digest, which has no key: another program may write a wrong one."""
    own = {name: entry for name, entry in entries.items() if name not in ("format", "survey")}
    text = json.dumps(own, sort_keys=True)
    return json.dumps({**entries, "sha256": hashlib.sha256(text.encode()).hexdigest()})


@pytest.mark.parametrize("has_digest", [False, True])
def test_memos_of_the_first_releases_are_refused(has_digest, tmp_path):
    """They belong to no question, so their report may be one of another question."""
    memo = {
        "format": "sklearn_ldp survey client 1",
        "survey": "f3227b0c5e5cf5f94fc0c7686b003c8bc7ece3bec97735bf143bdc4c1b906c5f",
        "part": 2,
        "report": [2, 539, 3, *[0] * 14],
        "n_reports": 1,
    }
    text, path = sealed(memo) if has_digest else json.dumps(memo), tmp_path / "memo.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="of an older SurveyClient, which has no question"):
        SurveyClient(survey(), path, question="census")
    assert path.read_text() == text
    path.write_text(text.replace("client 1", "client 3"))
    with pytest.raises(ValueError, match="is the memoization file of a newer SurveyClient"):
        SurveyClient(survey(), path, question="census")


@pytest.fixture
def memo(tmp_path):
    """The path of a memo, and its entries without the digest."""
    path = tmp_path / "memo.json"
    SurveyClient(survey(), path, question="census").report(RECORD)
    entries = json.loads(path.read_text())
    del entries["sha256"]
    path.write_text(sealed(entries))
    SurveyClient(survey(), path, question="census")  # the negative control of all refusals
    return path, entries


@pytest.mark.parametrize(
    ("changes", "weights", "question"),
    [({}, {"age": 2}, "census"), ({}, None, "another"), ({"survey": 3}, None, "census")],
    ids=["other weights", "other question", "survey is a number"],
)
def test_memos_of_another_question_are_refused(memo, changes, weights, question):
    path, entries = memo
    path.write_text(sealed({**entries, **changes}))
    with pytest.raises(ValueError, match="is the memoization file of another question, survey"):
        SurveyClient(survey(weights=weights), path, question=question)


FORGED = {
    "cut short": lambda entries: sealed(entries)[:20],
    "a list": lambda entries: "[]",
    "no entries": lambda entries: "{}",
    "part 3 of 3": lambda entries: sealed({**entries, "part": 3}),
    "part is text": lambda entries: sealed({**entries, "part": "sex"}),
    "part is a boolean": lambda entries: sealed({**entries, "part": bool(entries["part"])}),
    "no report": lambda entries: sealed({**entries, "report": None}),
    "two integers": lambda entries: sealed({**entries, "report": [9, 9]}),
    "a large integer": lambda entries: sealed({**entries, "report": [2**70]}),
    "a nested report": lambda entries: sealed({**entries, "report": [[0]]}),
    "an empty report": lambda entries: sealed({**entries, "report": []}),
    "report is a number": lambda entries: sealed({**entries, "report": 3}),
    "-3 reports": lambda entries: sealed({**entries, "n_reports": -3}),
    "0 reports": lambda entries: sealed({**entries, "n_reports": 0}),
    "reports as text": lambda entries: sealed({**entries, "n_reports": "many"}),
    "reports as a boolean": lambda entries: sealed({**entries, "n_reports": True}),
    "reports as NaN": lambda entries: sealed({**entries, "n_reports": float("nan")}),
    "reports as a float": lambda entries: sealed({**entries, "n_reports": 1.0}),
    "another entry": lambda entries: sealed({**entries, "also": 3}),
    "5001 digits": lambda entries: sealed(entries)[:-1] + ', "n_reports": 1' + "0" * 5000 + "}",
    "deep lists": lambda entries: "[" * 100_000,
    "deep objects": lambda entries: '{"format":' * 100_000,
    "another format": lambda entries: sealed({**entries, "format": "?"}),
    "edited": lambda entries: sealed(entries).replace('"n_reports": 1', '"n_reports": 2'),
    "no digest": json.dumps,
    "digest is a number": lambda entries: json.dumps({**entries, "sha256": 3}),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_forged_memos_are_refused(memo, forge):
    path, entries = memo
    path.write_text(forge(entries))
    with pytest.raises(
        ValueError, match=r"memo\.json is not the memoization file of .* or it is damaged"
    ):
        SurveyClient(survey(), path, question="census")


@pytest.mark.parametrize(
    "oracle",
    [OLH(1.0, categories=3), MarginalOracle(1.0, domains=DOMAINS)],
    ids=["one column", "tables"],
)
def test_other_oracles_are_refused(oracle, tmp_path):
    with pytest.raises(TypeError, match="in which each user reports one column"):
        SurveyClient(oracle, tmp_path / "memo.json", question="census")


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        SurveyClient(survey(), tmp_path / "nowhere" / "memo.json", question="census")


def test_seeds_and_pipes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="refuses ColumnOracle with a random_state"):
        SurveyClient(survey(random_state=0), tmp_path / "memo.json", question="census")
    assert not list(tmp_path.iterdir())
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match="not a regular file"):
            SurveyClient(survey(), tmp_path / "pipe", question="census")


def test_two_clients_of_one_memo_spend_once(tmp_path):
    path = tmp_path / "memo.json"
    one, other = (
        SurveyClient(survey(), path, question="census"),
        SurveyClient(survey(), path, question="census"),
    )
    first = one.report(RECORD)
    np.testing.assert_array_equal(other.report(dict.fromkeys(DOMAINS, 1)), first)
    assert one.n_reports == other.n_reports == 1
    for client in (one, other, one):
        client.renew(RECORD)
    assert one.n_reports == other.n_reports == 4
    np.testing.assert_array_equal(one.report({}), other.report({}))
    assert [file.name for file in tmp_path.iterdir()] == ["memo.json"]


def test_a_memo_that_went_away_is_not_made_anew(tmp_path):
    path = tmp_path / "memo.json"
    client = SurveyClient(survey(), path, question="census")
    whole = json.loads(path.read_text())
    path.unlink()
    for ask in (client.report, client.renew):
        with pytest.raises(ValueError, match="was deleted or replaced by another file"):
            ask(RECORD)
    del whole["sha256"]
    path.write_text(sealed({**whole, "part": (whole["part"] + 1) % 3}))
    with pytest.raises(ValueError, match="was deleted or replaced by another file"):
        client.report(RECORD)


def test_what_a_killed_client_left_goes_away(tmp_path):
    path = tmp_path / "memo.json"
    SurveyClient(survey(), path, question="census")
    # The names that a process gives which no longer runs.
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (left,) = (tmp_path / temporary(path).name.replace(f".{os.getpid()}-", f".{gone.pid}-"),)
    left.touch()
    (tmp_path / ".memo.json.lock").touch()
    SurveyClient(survey(), path, question="census")
    assert [file.name for file in tmp_path.iterdir()] == ["memo.json"]


def use_shared(path, start):
    start.wait()
    client = SurveyClient(survey(), path, question="census")
    client.report(RECORD)
    client.renew(RECORD)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes by fork")
def test_processes_that_share_a_memo_spend_what_it_says(tmp_path):
    """Eight at once: one first report, and eight that renew it."""
    context = multiprocessing.get_context("fork")
    start = context.Event()
    arguments = (tmp_path / "memo.json", start)
    users = [context.Process(target=use_shared, args=arguments) for _ in range(8)]
    for user in users:
        user.start()
    start.set()
    for user in users:
        user.join()
    assert [user.exitcode for user in users] == [0] * 8
    assert SurveyClient(survey(), tmp_path / "memo.json", question="census").n_reports == 9
    assert [file.name for file in tmp_path.iterdir()] == ["memo.json"]


# -- tests of reports -----------------------------------------------------------------------------
def reports_of(n, **parameters):
    rng = np.random.default_rng(0)
    one = survey(random_state=0)
    sex = np.array(["F", "M"], dtype=object)[rng.integers(0, 2, n)]
    users = np.column_stack([sex, rng.integers(0, 16, n), rng.integers(0, 40, n)])
    return one, one.privatize(users, **parameters)


def test_honest_reports_pass_and_fake_ones_do_not():
    """Fixed seeds; the fake reports are the negative control of each test."""
    one, honest = reports_of(20_000)
    of = {name: honest[honest[:, 0] == j] for j, name in enumerate(DOMAINS)}
    cases = [
        (hash_function_test, {}, of["sex"][:600]),  # users who choose their column
        (hash_function_test, {"column": "state"}, np.tile(of["state"][0], (300, 1))),
        (support_size_test, {"column": "age"}, np.tile([1, *[1] * 3, *[0] * 13], (800, 1))),
        (joint_support_test, {"column": "age"}, of["age"][:300].copy()),
    ]
    cases[-1][2][:, 1:5] = 1
    for test, options, fake in cases:
        result = test(honest, one, **options)
        assert result.p_value > 1e-3
        column = options.get("column")
        assert result.n_samples == (len(honest) if column is None else len(of[column]))
        assert test(np.concatenate([honest, fake]), one, **options).p_value < 1e-6
    whole = support_size_test(honest, one, column="age")
    in_pieces = support_size_test(iter(np.array_split(honest, 7)), one, column="age")
    assert in_pieces.statistic == whole.statistic


def test_columns_that_are_not_there():
    one, reports = reports_of(10)
    with pytest.raises(ValueError, match="no column 'height'. Choose one of 'sex', 'age', 'state'"):
        support_size_test(reports, one, column="height")
    with pytest.raises(TypeError, match="Argument column is only for surveys"):
        hash_function_test([[0, 1]], OLH(1.0, categories=5), column="age")
    for test in (support_size_test, joint_support_test):
        with pytest.raises(TypeError, match="the name of one of its columns: column="):
            test(reports, one)
