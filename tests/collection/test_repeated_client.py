"""A client that remembers: permanent reports, its account, and its file; kills and bad input."""

import hashlib
import json
import multiprocessing
import os
import pickle
import stat
from contextlib import contextmanager

import numpy as np
import pytest
from estimators import SUPPORTING, ways
from random_question import RandomQuestion
from scipy import stats
from sklearn.base import clone

from benchmarks.security.repeated_clients import kills
from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    Domain,
    MarginalOracle,
    RangeOracle,
    StringOracle,
)
from sklearn_ldp._core.aggregation import checkpoints
from sklearn_ldp._core.common import privacy
from sklearn_ldp._core.common.files import replacing
from sklearn_ldp._core.mechanisms.chain import Chain
from sklearn_ldp.collection import CheckpointError, RepeatedClient, SurveyClient

BROWSERS = ["chrome", "edge", "firefox", "safari"]
DOMAINS = {"sex": ["F", "M"], "age": 16, "state": 40}
RECORD = {"sex": "F", "age": 3, "state": 7}


def client_of(path, oracle=None, **options):
    oracle = OLH(1.0, categories=BROWSERS) if oracle is None else oracle
    return RepeatedClient(
        oracle, path, **{"question": "browser", "epsilon_forever": 2.0, **options}
    )


def without_rounds(reports):
    """Rows whose rounds are unknown, so that one oracle counts them without a warning."""
    return np.concatenate([*map(np.asarray, reports)])


def survey(**parameters):
    return ColumnOracle(1.0, domains=DOMAINS, oracle={"age": OUE(), "state": OLH()}, **parameters)


# -- reports ------------------------------------------------------------------------------------
@pytest.mark.parametrize("oracle", ways(SUPPORTING), ids=repr)
@pytest.mark.parametrize("fixed_part", [False, True])
def test_reports_are_those_of_the_oracle(oracle, fixed_part, tmp_path):
    """The same shape, type and configuration, so the server's files and sums take them."""
    oracle = clone(oracle).set_params(categories=BROWSERS)
    if fixed_part and oracle.channel().public_part is None:
        with pytest.raises(ValueError, match="no hash function, so fixed_part"):
            client_of(tmp_path / "memo.json", oracle, epsilon_forever=4.0, fixed_part=True)
        assert not list(tmp_path.iterdir())
        return
    options = {"epsilon_forever": oracle.epsilon + 1, "fixed_part": fixed_part}
    client = client_of(tmp_path / "memo.json", oracle, **options)
    once = oracle.privatize(["edge"])
    reports = [client.report("edge", collection_round=str(i)) for i in range(5)]
    again = client_of(tmp_path / "memo.json", oracle, **options)
    for i, report in enumerate(reports):
        assert (report.shape, report.dtype) == (once.shape, once.dtype)
        np.testing.assert_array_equal(again.report("safari", collection_round=str(i)), report)
    assert clone(oracle).aggregate(without_rounds(reports)).n_samples_seen_ == 5
    if fixed_part:
        assert len({int(report[0, 0]) for report in reports}) == 1


def test_the_account(tmp_path):
    path = tmp_path / "memo.json"
    client = client_of(path, max_epsilon=4.0)
    assert (client.spent, client.n_values, client.history, client.column) == (0.0, 0, {}, None)
    for value, name in [("edge", "may"), ("edge", "june"), ("chrome", "july"), ("edge", "august")]:
        client.report(value, collection_round=name)
    again = client_of(path, max_epsilon=9.0)  # the limit may change
    assert (again.spent, again.n_values) == (4.0, 2)
    assert again.history == {"may": 2.0, "june": 0.0, "july": 2.0, "august": 0.0}
    assert list(again.history) == ["may", "june", "july", "august"]
    assert repr(client) == "RepeatedClient(n_values=2, spent=4)"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not any(value in path.read_text() for value in BROWSERS)
    assert [file.name for file in tmp_path.iterdir()] == ["memo.json"]


def test_a_value_beyond_the_limit_is_refused(tmp_path):
    path = tmp_path / "memo.json"
    client = client_of(path, GRR(0.1, categories=5), epsilon_forever=0.1, max_epsilon=0.3)
    for value in range(3):  # in floats three times 0.1 is above 0.3
        client.report(value, collection_round=str(value))
    before = path.read_bytes()
    remedy = "Report an earlier value, which spends nothing, because a missing report reveals"
    with pytest.raises(ValueError, match=f"nothing is reported or written. {remedy}"):
        client.report(3, collection_round="new")
    assert path.read_bytes() == before
    client.report(2, collection_round="new")
    assert client.n_values == 3


def test_a_permanent_report_is_sent_as_often_as_the_chain_says(tmp_path):
    """Binomial test at 1e-6; the share of other budgets is the negative control.

    The control is not rejected once in 10**12 runs.
    """
    oracle = BLH(1.0, categories=200)  # uniform reports are hardly ever the permanent one
    client = client_of(tmp_path / "memo.json", oracle)
    sent = [tuple(client.report(7, collection_round=str(i))[0].tolist()) for i in range(160)]
    n_permanent = max(map(sent.count, sent))
    share = Chain(oracle.channel(), 1.0, 2.0).share / 2**64
    other = Chain(oracle.channel(), 1.0, 1.05).share / 2**64
    assert stats.binomtest(n_permanent, 160, share).pvalue > 1e-6
    assert stats.binomtest(n_permanent, 160, other).pvalue < 1e-6


def test_a_fixed_function_needs_one_permanent_report_for_each_hash_value(tmp_path):
    """Two at most with hash values of one bit, whatever the values are."""
    oracle = BLH(1.0, categories=50)
    fixed = client_of(tmp_path / "fixed.json", oracle, fixed_part=True, max_epsilon=4.0)
    reports = [fixed.report(i, collection_round=str(i)) for i in range(20)]
    assert fixed.n_values <= 2
    assert fixed.spent <= 4.0
    assert len({tuple(report[0].tolist()) for report in reports}) <= 2
    free = client_of(tmp_path / "free.json", oracle)
    for i in range(5):
        free.report(i, collection_round=str(i))
    assert free.n_values == 5  # the negative control


def test_values_that_are_on_no_list(tmp_path):
    """Clients of an open domain; the server lists the categories."""
    oracle = OLH(1.0, categories="open", hash_family="mixing")
    for fixed_part in (False, True):
        client = client_of(tmp_path / f"{fixed_part}.json", oracle, fixed_part=fixed_part)
        words = ["a", "b", "a", ("c", 3)]
        reports = [client.report(v, collection_round=str(i)) for i, v in enumerate(words)]
        server = OLH(1.0, categories=["a", "b"], hash_family="mixing")
        assert server.aggregate(without_rounds(reports)).n_samples_seen_ == 4
        assert client.n_values <= 3
    joint = Domain.product([[0, 1], ["x", "y"]])
    client = client_of(tmp_path / "joint.json", GRR(1.0, categories=joint))
    assert client.report((1, "x"), collection_round="").shape == (1,)


def are_several(drawn, more):
    """Whether more than one part was drawn; more users are asked only if all had one part."""
    return len(drawn) > 1 or any(one not in drawn for one in more)


@pytest.mark.parametrize("fixed_part", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_users_of_a_survey(fixed_part, tmp_path):
    """The column is drawn once, and its own oracle has the permanent reports.

    All of 40 users are asked for one column less than once in 10**9 runs.
    """
    columns = set()
    for i in range(12):
        path = tmp_path / f"{i}.json"
        client = client_of(path, survey(), fixed_part=fixed_part)
        columns.add(client.column)
        first = client.report(RECORD, collection_round="may")
        assert first[0, 0] == list(DOMAINS).index(client.column)
        assert (first.shape, first.dtype) == (survey().privatize([["F", 3, 7]]).shape, np.int64)
        again = client_of(path, survey(), fixed_part=fixed_part)
        np.testing.assert_array_equal(again.report({}, collection_round="may"), first)
        later = again.report(RECORD, collection_round="june")
        assert survey().aggregate(without_rounds([first, later])).n_samples_seen_ == 2
        assert (again.n_values, again.column) == (1, client.column)
        with pytest.raises(
            ValueError, match="got dict without this column. Pass the user's answers as a mapping"
        ):
            again.report({}, collection_round="july")
    more = (client_of(tmp_path / f"{i}.json", survey()).column for i in range(12, 40))
    assert are_several(columns, more)
    assert columns <= set(DOMAINS)
    assert "column=" in repr(client)


@pytest.mark.parametrize("fixed_part", [False, True])
def test_users_with_strings(fixed_part, tmp_path):
    """The prefix that is asked is drawn once, and strings that share it are one value.

    All of 40 users are asked for one prefix less than once in 10**10 runs.
    """
    oracle = StringOracle(4.0, alphabet="abcx", max_length=8, n_found=4, expected_n_users=20_000)
    encode, parts = oracle.protocol().domain.encode, set()
    for i in range(12):
        client = client_of(tmp_path / f"{i}.json", oracle, epsilon_forever=6, fixed_part=fixed_part)
        words = ["aaaaaaaa", "aaaaaaax", "aaaaaaaa", "xaaaaaaa"]
        reports = [client.report(word, collection_round=str(j)) for j, word in enumerate(words)]
        (part,) = {int(report[0, 0]) for report in reports}
        parts.add(part)
        n_prefixes = len(np.unique(encode(words)[:, part]))
        assert client.n_values <= n_prefixes if fixed_part else client.n_values == n_prefixes
        again = client_of(tmp_path / f"{i}.json", oracle, epsilon_forever=6, fixed_part=fixed_part)
        np.testing.assert_array_equal(again.report("b", collection_round="3"), reports[3])
        assert again.column is None
        assert "column" not in repr(again)
        assert clone(oracle).aggregate(without_rounds(reports)).n_samples_seen_ == 4
        if fixed_part:
            assert len({int(report[0, 1]) for report in reports}) == 1
        with pytest.raises(ValueError, match="the value is not shown, because"):
            client.report("SECRET", collection_round="new")
    more = (client_of(tmp_path / f"{i}.json", oracle, epsilon_forever=6) for i in range(12, 40))
    assert are_several(parts, (int(one.report("a", collection_round="0")[0, 0]) for one in more))


def test_users_with_numbers_in_many_bins(tmp_path):
    """A tree's level is drawn once, and numbers in one bin of the level are one value."""
    oracle = RangeOracle(2.0, categories=Domain.bins(300, bounds=(0, 1)))
    mechanism, numbers, levels = oracle.protocol().mechanism, [0.101, 0.102, 0.9, 0.101], set()
    codes = oracle.protocol().domain.encode(numbers)
    for i in range(12):
        client = client_of(tmp_path / f"{i}.json", oracle, epsilon_forever=3)
        reports = [client.report(one, collection_round=str(j)) for j, one in enumerate(numbers)]
        (level,) = {int(report[0, 0]) for report in reports}
        levels.add(level)
        assert client.n_values == len(np.unique(mechanism.looked_at(codes, np.full(4, level))))
        again = client_of(tmp_path / f"{i}.json", oracle, epsilon_forever=3)
        np.testing.assert_array_equal(again.report(0.5, collection_round="3"), reports[3])
        assert clone(oracle).aggregate(without_rounds(reports)).n_samples_seen_ == 4
        with pytest.raises(ValueError, match="not shown"):
            client.report(2.5, collection_round="new")
    assert len(levels) > 1


def test_users_with_places(tmp_path):
    """The level of a grid is drawn once, and places in one block of the level are one value."""
    axis = Domain.bins(4, bounds=(0, 4))
    oracle = RangeOracle(2.0, categories=Domain.grid(axis, axis))
    places = [(0.5, 0.5), (0.6, 0.7), (3.5, 1.5), (0.5, 0.5)]
    domain, mechanism = oracle.protocol().domain, oracle.protocol().mechanism
    codes, levels = domain.encode(places), set()
    for i in range(12):
        client = client_of(tmp_path / f"{i}.json", oracle, epsilon_forever=3)
        reports = [client.report(place, collection_round=str(j)) for j, place in enumerate(places)]
        (level,) = {int(report[0, 0]) for report in reports}
        levels.add(level)
        assert client.n_values == len(np.unique(mechanism.looked_at(codes, np.full(4, level))))
        again = client_of(tmp_path / f"{i}.json", oracle, epsilon_forever=3)
        np.testing.assert_array_equal(again.report((0.5, 0.5), collection_round="3"), reports[3])
        assert clone(oracle).aggregate(without_rounds(reports)).n_samples_seen_ == 4
        for outside in ((4.25, 0.5), (0.5,), "SECRET"):
            with pytest.raises(ValueError, match="not shown|columns") as error:
                client.report(outside, collection_round="new")
            assert "4.25" not in str(error.value)
            assert "SECRET" not in str(error.value)
    assert len(levels) > 1


# -- bad input: one sentence each, nothing spent and nothing written -------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"epsilon_forever": 0.9},
            "epsilon_forever must be finite and at least .*, the epsilon of one",
        ),
        ({"epsilon_forever": np.inf}, "epsilon_forever must be finite and at least"),
        ({"epsilon_forever": np.nan}, "epsilon_forever must be finite and at least"),
        ({"epsilon_forever": "2"}, "epsilon_forever must be finite and at least"),
        (
            {"max_epsilon": 1.9},
            "max_epsilon must be None, or a finite number that is at least epsilon_forever=2",
        ),
        (
            {"max_epsilon": np.nan},
            "max_epsilon must be None, or a finite number that is at least epsilon_forever=2",
        ),
        (
            {"max_epsilon": np.inf},
            "max_epsilon must be None, or a finite number .* epsilon_forever=2; got inf",
        ),
        ({"oracle": OLH(1.0, categories=3, random_state=0)}, "refuses OLH with a random"),
        ({"oracle": OLH(1.0)}, "categories"),
    ],
)
def test_parameters_that_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        client_of(tmp_path / "memo.json", **options)
    assert not list(tmp_path.iterdir())


THIRD_PARTY = RandomQuestion(1.0, categories=3)  # which says nothing of two likelihoods


@pytest.mark.parametrize(
    "oracle", [3, MarginalOracle(1.0, domains=DOMAINS), survey(n_sampled=2), THIRD_PARTY]
)
def test_what_has_no_permanent_reports(oracle, tmp_path):
    with pytest.raises(
        TypeError,
        match="(supports frequency oracles such as OLH|does not support the mechanism|"
        "needs a frequency oracle or a? ?Protocol)",
    ):
        client_of(tmp_path / "memo.json", oracle)
    assert not list(tmp_path.iterdir())


def test_reports_that_are_refused_write_nothing(tmp_path):
    path = tmp_path / "memo.json"
    client = client_of(path, OLH(1.0, categories=BROWSERS).protocol("may"))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="created from a protocol of the round 'may'"):
        client.report("edge", collection_round="june")
    with pytest.raises(ValueError, match="is no category|not") as caught:
        client.report("SECRET", collection_round="may")
    assert "SECRET" not in str(caught.value)
    with pytest.raises(TypeError, match="collection_round must be a text, got int"):
        client.report("edge", collection_round=5)
    assert path.read_bytes() == before
    assert client.n_values == 0


OTHER_OPTIONS = {
    "epsilon": {"oracle": OLH(1.1, categories=BROWSERS)},
    "order of categories": {"oracle": OLH(1.0, categories=BROWSERS[::-1])},
    "oracle": {"oracle": OUE(1.0, categories=BROWSERS)},
    "budget of a value": {"epsilon_forever": 2.5},
    "fixed part": {"fixed_part": True},
    "question": {"question": "Browser"},
}


@pytest.fixture
def memo(tmp_path):
    """The path of a memo with one report, and its client."""
    path = tmp_path / "memo.json"
    client = client_of(path)
    client.report("edge", collection_round="may")
    return path, client


@pytest.mark.parametrize("options", OTHER_OPTIONS.values(), ids=OTHER_OPTIONS)
def test_memos_of_other_options_are_refused(memo, options):
    with pytest.raises(
        ValueError, match="is the memoization file of another question, survey or oracle"
    ):
        client_of(memo[0], **options)


@pytest.mark.parametrize(
    ("version", "message"),
    [(1, "an older RepeatedClient, which has no question"), (3, "a newer Rep")],
    ids=["older", "newer"],
)
def test_memos_of_other_releases_are_refused(memo, version, message):
    path, _ = memo
    entries = json.loads(path.read_text())
    path.write_text(json.dumps({**entries, "format": f"sklearn_ldp repeated client {version}"}))
    with pytest.raises(ValueError, match=f"is the memoization file of {message}"):
        client_of(path)


def test_memos_of_other_clients_are_refused(memo, tmp_path):
    path, _ = memo
    with pytest.raises(ValueError, match="is not the memoization file of a SurveyClient"):
        SurveyClient(survey(), path, question="census")
    SurveyClient(survey(), tmp_path / "survey.json", question="census")
    with pytest.raises(ValueError, match="is not the memoization file of a RepeatedClient"):
        client_of(tmp_path / "survey.json", survey())


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.report("edge", collection_round="may"),
        lambda client: client.report("edge", collection_round="june"),
        lambda client: client.spent,
    ],
    ids=["same round", "new round", "spent"],
)
def test_a_file_of_another_user_in_its_place_is_refused(memo, ask, tmp_path):
    path, client = memo
    other = client_of(tmp_path / "other.json")
    other.report("edge", collection_round="may")
    os.replace(tmp_path / "other.json", path)
    foreign = path.read_bytes()
    with pytest.raises(ValueError, match="was deleted or replaced by another file"):
        ask(client)
    assert path.read_bytes() == foreign


def without_digest(text):
    return json.dumps({name: x for name, x in json.loads(text).items() if name != "sha256"})


def with_entries(**entries):
    return lambda text: json.dumps({**json.loads(text), **entries})


DAMAGED = {
    "empty": lambda text: "",
    "cut short": lambda text: text[:-30],
    "edited": lambda text: text.replace('"rounds": ["0"', '"rounds": ["1"'),
    "no digest": without_digest,
    "digest is null": with_entries(sha256=None),
    "no values": with_entries(values=[]),
    "another entry": with_entries(also=1),
    "another format": with_entries(format="?"),
    "format is a number": with_entries(format=3),
    "deep lists": lambda text: "[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_damaged_memos_are_refused(damage, tmp_path):
    path = tmp_path / "memo.json"
    client = client_of(path)
    for i in range(12):
        client.report(BROWSERS[i % 2], collection_round=str(i))
    damaged = damage(path.read_text())
    path.write_text(damaged)
    message = r"is not the memoization file of .* or it is damaged"
    with pytest.raises(ValueError, match=message):
        client_of(path)
    with pytest.raises(ValueError, match=message):
        client.report("edge", collection_round="new")
    assert path.read_text() == damaged


WRONG = {
    "permanent": [[[0, -1], [0, 0]], [[0, 10**30], [0, 0]], ["many", 3]],
    "sent": [[5, 0], [True, 0]],
    "rounds": [["may"], ["may", "may"]],
    "first": [[0, -1]],
    "function": [7],
    "key": ["", 3],
    "part": [0],
    "values": [None],
}


@pytest.mark.parametrize(("name", "entry"), [(key, one) for key in WRONG for one in WRONG[key]])
def test_entries_that_no_client_writes(name, entry, tmp_path):
    """The digest has no key: another program may write a wrong file with the right one."""
    path = tmp_path / "memo.json"
    client = client_of(path)
    client.report("edge", collection_round="may")
    client.report("safari", collection_round="june")
    entries = json.loads(path.read_text())
    head = {one: entries.pop(one) for one in ("format", "survey", "sha256")}

    def write(entries):
        digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps({**head, "sha256": digest, **entries}, sort_keys=True))

    write(entries)
    assert client_of(path).n_values == 2  # the negative control
    write({**entries, name: entry})
    with pytest.raises(ValueError, match=r"is not the memoization file of .* or it is damaged"):
        client_of(path)


def test_a_file_that_is_full(tmp_path, monkeypatch):
    path = tmp_path / "memo.json"
    client = client_of(path)
    client.report("edge", collection_round="may")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="the maximum size of a memoization file"):
        client.report("edge", collection_round="j" * (1 << 24))
    assert path.read_bytes() == before
    client.report("edge", collection_round="june")
    assert client.n_values == 1


# -- several processes, and kills ------------------------------------------------------------------
def use_shared(path, start, number):
    start.wait()
    client = client_of(path)
    for value in BROWSERS:
        client.report(value, collection_round=f"{number} {value}")
        client.report(value, collection_round=f"all {value}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes by fork")
def test_processes_that_share_a_file_draw_each_permanent_report_once(tmp_path):
    context = multiprocessing.get_context("fork")
    path, start = tmp_path / "memo.json", context.Event()
    users = [context.Process(target=use_shared, args=(path, start, i)) for i in range(4)]
    for user in users:
        user.start()
    start.set()
    for user in users:
        user.join()
    assert [user.exitcode for user in users] == [0] * 4
    client = client_of(path)
    assert (client.n_values, client.spent, len(client.history)) == (4, 8.0, 20)


def test_a_second_process_waits(tmp_path, monkeypatch):
    path = tmp_path / "memo.json"
    client = client_of(path)
    monkeypatch.setattr("sklearn_ldp._core.aggregation._memo._LOCK_SECONDS", 0.05)
    with checkpoints.locked(path, 0), pytest.raises(CheckpointError, match="is in use by"):
        client.report("edge", collection_round="may")
    client.report("edge", collection_round="may")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes by fork")
@pytest.mark.parametrize("n_kills", [10, pytest.param(400, marks=pytest.mark.slow)])
def test_kills(n_kills, tmp_path):
    """No second permanent report of a value, no report beyond the cap, no unreadable file."""
    done = kills(tmp_path, n_kills)
    assert done.n_kills >= n_kills
    assert done.n_handed_out > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes by fork")
def test_a_forgetful_client_is_found(tmp_path, monkeypatch):
    """Negative control: half of the time the memo is not written before the report leaves.

    A report is in the file by a fair coin, or since its round was reported before, once in 10**4
    times for each of these. So all of 40 reports are there less than once in 10**11 runs. Only the
    killed clients are forgetful: the process that checks their file writes its own reports to it.
    """
    checker = os.getpid()

    @contextmanager
    def forgetful(path):
        writes = os.getpid() == checker or os.urandom(1)[0] < 128
        with replacing(path) if writes else open(tmp_path / "forgotten", "wb") as file:
            yield file

    monkeypatch.setattr("sklearn_ldp._core.aggregation._memo.replacing", forgetful)
    with pytest.raises(AssertionError, match=r"a report that is not in the file|has two reports"):
        kills(tmp_path, 2, n_reports=40)


# -- several rounds of one user, and one array twice, on the server --------------------------------
def test_reports_of_several_rounds_are_warned_of(tmp_path):
    client = client_of(tmp_path / "memo.json", OLH(1.0, categories=BROWSERS), epsilon_forever=2.0)
    weeks = [client.report("edge", collection_round=f"week {i}") for i in range(52)]
    message = (
        "counts reports of 2 rounds together, such as 'week 0' and 'week 1'.*shared_users=True"
    )

    def server():
        return OLH(1.0, categories=BROWSERS)

    for count in (
        lambda: server().aggregate(weeks[0]).aggregate(weeks[1]),
        lambda: server().aggregate(np.concatenate(weeks[:2])),
        lambda: server().aggregate(pickle.loads(pickle.dumps(np.concatenate(weeks[:2])))),
        lambda: server().set_params(input="reports").fit(weeks[0]).partial_fit(weeks[1]),
        lambda: server().aggregate(weeks[0]).merge(server().aggregate(weeks[1])),
    ):
        privacy._given.clear()
        with pytest.warns(UserWarning, match=message):
            assert count().n_samples_seen_ == 2
    privacy._given.clear()
    with pytest.warns(UserWarning, match="counts reports of 52 rounds together"):
        server().aggregate(np.concatenate(weeks))
    others = [GRR(1.0, categories=2).protocol("may").privatize([1]) for _ in range(2)]
    GRR(1.0, categories=2).aggregate(others[0]).aggregate(others[1])  # negative control: a round


@pytest.mark.parametrize("oracle", [GRR(1.0, categories=2), OUE(1.0, categories=2)], ids=repr)
def test_one_array_that_is_counted_twice_is_warned_of(oracle):
    reports = oracle.privatize([0, 1] * 5)
    for count in (
        lambda: clone(oracle).aggregate(reports).aggregate(reports),
        lambda: clone(oracle).set_params(input="reports").fit(reports).partial_fit(reports),
    ):
        privacy._given.clear()
        with pytest.warns(UserWarning, match="has counted an array of reports again.*Aggregator"):
            assert count().n_samples_seen_ == 20
    server = clone(oracle).set_params(input="reports").fit(reports)
    server.fit(reports).aggregate(oracle.privatize([0, 1] * 5))  # negative controls
    assert clone(server).aggregate(reports).n_samples_seen_ == 10
