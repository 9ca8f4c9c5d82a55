"""Clients show nothing of what came, and nobody tells a value by their absence."""

import json
import math
import os
import traceback
import unicodedata
import warnings
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    ColumnOracle,
    Domain,
    HadamardResponse,
    ItemOracle,
    KeyValueOracle,
    LocalMean,
    MarginalOracle,
    ProjectiveGeometryResponse,
    RangeOracle,
    StringOracle,
    SubsetSelection,
)
from sklearn_ldp._core.domains import word_digests
from sklearn_ldp._core.mechanisms.chain import Chain
from sklearn_ldp.collection import RepeatedClient, SurveyClient
from sklearn_ldp.learning import LabelDPClassifier, LabelDPRegressor, PrivatizedColumns

DOMAINS = {"sex": ["F", "M"], "age": 4}
STRINGS = {"alphabet": "abc_", "max_length": 4, "n_found": 2, "expected_n_users": 5000}
OPEN = {"categories": "open", "hash_family": "mixing"}
SURVEY = ColumnOracle(1.0, domains=DOMAINS)


def repeated(path, oracle, **options):
    return RepeatedClient(oracle, path, question="test", epsilon_forever=oracle.epsilon, **options)


def shown(ask, value):
    """All that a logged error shows: the error, and those that it came from, with their data."""
    with pytest.raises((TypeError, ValueError)) as info:
        ask(value)
    error, chain = info.value, []
    while error is not None:
        chain += [str(error), repr(error.args)] if error is not info.value.__context__ else []
        error = error.__cause__
    text = "".join(traceback.format_exception_only(info.value))
    context = info.value.__context__
    if context is not None and not info.value.__suppress_context__:
        chain.append(repr(context.args))
    return " ".join([text, *chain])


# -- what errors show --------------------------------------------------------------------------
RECORDS = [
    ["M", "SECRET"],
    ("M", "SECRET"),
    "SECRET",
    b"SECRET",
    pd.DataFrame({"SECRET": ["M"]}),
    {"SECRET": 1},
    {"sex": "SECRET", "age": "SECRET"},
    {"sex": ["SECRET"], "age": ["SECRET"]},
    7_777_777,
    None,
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_of_no_kind_are_not_shown(record, tmp_path):
    asks = [
        lambda value: repeated(tmp_path / "a", SURVEY).report(value, collection_round="may"),
        SurveyClient(SURVEY, tmp_path / "b", question="test").report,
        SurveyClient(SURVEY, tmp_path / "b", question="test").renew,
    ]
    for ask in asks:
        text = shown(ask, record)
        assert "SECRET" not in text
        assert "7777777" not in text


def test_a_record_has_no_other_columns(tmp_path):
    """A misspelt or superfluous column is a mistake of the program, on every device alike."""
    for missing in ("error", "report"):
        forever = repeated(tmp_path / f"a {missing}", SURVEY, missing=missing)
        once = SurveyClient(SURVEY, tmp_path / f"b {missing}", question="test", missing=missing)
        asks = (partial(forever.report, collection_round="may"), once.report, once.renew)
        for ask in asks:
            text = shown(ask, {"sex": "F", "age": 1, "SECRET": 7_777_777})
            assert "column that is not in the survey" in text
            assert "Pass only answers for 'sex', 'age'." in text
            assert "SECRET" not in text
            assert "7777777" not in text
            # If the client asks for the misspelt column, this column is missing.
            text = shown(ask, {"Sex": "F", "age": 1})
            assert "column that is not in the survey" in text or "without this column" in text
        assert (forever.history, once.n_reports) == ({}, 0)
        once.report(pd.Series({"sex": "F", "age": 1}))  # negative controls
        once.report({once.column: {"sex": "F", "age": 1}[once.column]})


ORACLES = [
    GRR(1.0, categories=["a", "b"]),
    GRR(1.0, categories=Domain.bins(4, bounds=(0, 1))),
    GRR(1.0, categories=Domain.product([["a", "b"], 3])),
    RangeOracle(1.0, categories=Domain.bins(300, bounds=(0, 1))),
    RangeOracle(1.0, categories=Domain.grid(*[Domain.bins(4, bounds=(0, 1))] * 2)),
    LocalMean(1.0, bounds=(0, 1)),
    StringOracle(4.0, **STRINGS),
    SURVEY,
    MarginalOracle(1.0, domains=DOMAINS),
]
HALF = "SECRET\ud800"  # half of a pair of surrogates
VALUES = [
    [HALF],
    [["SECRET", HALF]],
    [{"SECRET": 1}],
    [{"SECRET"}],
    [7_777_777j],
    ["SECRET" * 1000, 3],
    [("SECRET", HALF)],
    pd.DataFrame({"SECRET": [HALF]}, dtype=object),
    pd.DataFrame({"SECRET": [HALF], "7777777": [HALF], "b": [0]}, dtype=object),
    {"SECRET": 1},
    "SECRET",
    [["SECRET"], ["SECRET", "SECRET"]],
]


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_values_of_no_kind_are_not_shown(oracle):
    for value in VALUES:
        text = shown(oracle.privatize, value)
        assert "SECRET" not in text, value
        assert "7777777" not in text, value
        assert "position 6" not in text, value


MORE_ORACLES = [
    *(oracle(1.0, categories=["a", "b"]) for oracle in (OLH, OUE, SUE, BLH, SubsetSelection)),
    HadamardResponse(1.0, categories=7),
    ProjectiveGeometryResponse(1.0, categories=7),
    OLH(1.0, **OPEN),
    ItemOracle(1.0, categories=["a", "b", "c"], max_items=2),
    KeyValueOracle(1.0, categories=["a", "b"]),
    ColumnOracle(1.0, domains=DOMAINS, strategy="split-budget"),
    PrivatizedColumns(domains=DOMAINS),
    LabelDPClassifier(classes=["a", "b"]),
    LabelDPRegressor(bounds=(0, 1)),
]
MORE_VALUES = [
    *VALUES,
    ["a", "SECRET"],
    [["F", "SECRET"], ["F", 7_777_777]],
    [b"SECRET"],
    [7_777_777.5],
    np.array([7_777_777, 7_777_778]),
    np.array([[7_777_777.5, 1.0]]),
    np.array([0.5, np.nan, 7_777_777]),
    np.array(["7777-07-07T07:07:07"], dtype="M8[s]"),
    pd.Series(["a", "SECRET", None], name="SECRET"),
    pd.Series(["SECRET"], dtype="category"),
    pd.DataFrame({"sex": ["F", "SECRET"], "age": [1, 7_777_777]}),
    pd.DataFrame({"sex": ["F"], "age": ["7777777"]}),
    [("a", 7_777_777)],
    [["a", "SECRET"], ["SECRET"]],
    ["SECRET\0", "a"],
    [10**30 * 7_777_777],
    7_777_777,
    slice(7_777_777),
]


@pytest.mark.parametrize("client", [*ORACLES, *MORE_ORACLES], ids=repr)
def test_no_error_or_warning_of_a_client_shows_a_value(client, caplog):
    """With the errors that an error came from, as a traceback shows them."""
    n_errors = 0
    for value in MORE_VALUES:
        text = ""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                client.privatize(value)
            except (TypeError, ValueError) as error:
                text, n_errors = "".join(traceback.format_exception(error)), n_errors + 1
        text += " ".join(str(warning.message) for warning in told) + caplog.text
        assert "SECRET" not in text, value
        assert "7777777" not in text, value
    assert n_errors > 10


def test_fit_may_show_values():
    """Negative control: `fit` simulates, where the values are."""
    with pytest.raises(ValueError, match="SECRET"):
        GRR(1.0, categories=["a", "b"]).fit(["SECRET"])


@pytest.mark.parametrize("value", [[HALF], [("SECRET", HALF)], [{"SECRET": 1}], [{"SECRET"}]])
def test_answers_without_a_canonical_form_are_not_shown(value):
    """The error of half of a pair of surrogates would hold the whole text."""
    assert "SECRET" not in shown(OLH(1.0, **OPEN).privatize, value)


def test_a_value_in_the_place_of_the_round_is_not_shown(tmp_path):
    client = repeated(tmp_path / "a", GRR(1.0, categories=3).protocol("may"))
    for name in ("SECRET", ["SECRET"]):
        assert "SECRET" not in shown(lambda name: client.report(1, collection_round=name), name)
    for source in (["SECRET"], "SECRET"):
        for make in (RepeatedClient, SurveyClient):
            options = {"epsilon_forever": 2.0} if make is RepeatedClient else {}
            with pytest.raises(TypeError, match="got (list|str)") as info:
                make(source, tmp_path / "b", question="test", **options)
            assert "SECRET" not in str(info.value)


@pytest.mark.parametrize("question", ["", None, 3, ["SECRET"]])
def test_a_question_has_a_name(question, tmp_path):
    with pytest.raises(ValueError, match="needs question= to be the name of the question") as info:
        SurveyClient(SURVEY, tmp_path / "a", question=question)
    assert "SECRET" not in str(info.value)
    with pytest.raises(TypeError, match="question"):
        SurveyClient(SURVEY, tmp_path / "a")
    assert not list(tmp_path.iterdir())


# -- stand-ins ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("oracle", "bad", "stand_in"),
    [
        (GRR(30.0, categories=["a", "b", "other"]), ["x", None, 3, ["a", 1], HALF], "other"),
        (GRR(30.0, categories=["a", None, "b"]), ["x", math.nan, ""], None),
        (GRR(30.0, categories=range(5, 9)), [4, 9, "5", None], 8),
        (GRR(30.0, categories=Domain.bins([1, 2], missing=True)), ["x", None], None),
        (GRR(30.0, categories=Domain.bins(3, bounds=(0, 3))), [-1, 9.5, None], 2.5),
        (GRR(30.0, categories=Domain.product([["a", "b"], 3])), [("a", 7), "a", None], ("b", 2)),
        (HadamardResponse(30.0, categories=["a", "b"]), ["c"], "b"),
        (OLH(30.0, **OPEN), [HALF, {"a": 1}, {3}], None),
        (StringOracle(30.0, **STRINGS), ["", None, "ax", "\0", 3], "_"),
    ],
    ids=repr,
)
def test_a_stand_in_is_reported(oracle, bad, stand_in, tmp_path):
    """What has no code is reported as the stand-in, and counts as one value with it."""
    with pytest.raises((TypeError, ValueError)):
        repeated(tmp_path / "a", oracle).report(bad[0], collection_round="may")
    client = repeated(tmp_path / "b", oracle, missing="report")
    for i, value in enumerate([stand_in, *bad]):
        client.report(value, collection_round=str(i))
    assert client.n_values == 1
    domain = oracle.protocol().domain
    another = "a" if isinstance(oracle, (StringOracle, OLH)) else domain.decode([0]).tolist()[0]
    client.report(another, collection_round="new")
    assert client.n_values == 2  # negative control


def test_columns_of_records_have_stand_ins(tmp_path):
    for record in ({}, {"sex": "x", "age": -1}):
        client = repeated(tmp_path / "a", SURVEY, missing="report")
        client.report(record, collection_round=str(record))
    assert client.n_values == 1
    once = SurveyClient(SURVEY, tmp_path / "b", question="test", missing="report")
    assert once.report({}).shape == (1, 2)
    with pytest.raises(ValueError, match="got list without this column"):
        client.report(["M", 3], collection_round="new")
    with pytest.raises(ValueError, match='missing="error" or missing="report"'):
        repeated(tmp_path / "c", SURVEY, missing="raise")


def test_stand_ins_of_numbers_and_strings():
    mean = LocalMean(1.0, bounds=(0, 10), missing="report")
    bad = [None, math.nan, -1, 11, "x", {}, 10**400]
    codes = mean.protocol().domain.encode([*bad, 5, 0])
    assert set(codes[:-1].tolist()) == {codes[-2]} != {codes[-1]}
    of_array = mean.protocol().domain.encode(np.array([math.nan, -1.0, math.inf]))
    np.testing.assert_array_equal(of_array, codes[:3])
    strings = StringOracle(4.0, missing="report", **STRINGS)
    codes = strings.protocol().domain.encode(["", None, "x", "ax\0", 3, "\0", "_", "a"])
    assert len(np.unique(codes[:-1], axis=0)) == 1 < len(np.unique(codes, axis=0))
    for oracle, values in ((mean, [*bad, 5, 0]), (strings, ["", "a"])):
        assert oracle.fit(values).n_samples_seen_ == len(values)
        plain = type(oracle)(**{**oracle.get_params(), "missing": "error"})
        assert oracle.protocol().difference(plain.protocol()) == ""  # the server's need not say it
        with pytest.raises(ValueError, match="missing"):
            type(oracle)(**{**oracle.get_params(), "missing": "drop"}).fit(values)


def test_the_forms_of_a_text_are_one_answer():
    """Macs write names of files in form D; nearly all else is in form C."""
    composed, apart = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    client, server = Domain.open(), Domain([composed, "tea"])
    codes = client.encode([composed, apart, (apart, 1), (composed, 1), "cafe"])
    assert len(set(codes.tolist())) == 3
    assert codes[0] == word_digests(server)[0] == word_digests(Domain([apart, "tea"]))[0]
    reports = OLH(20.0, **OPEN).privatize([apart] * 50)
    counted = OLH(20.0, categories=[composed, "tea"], hash_family="mixing").aggregate(reports)
    assert counted.frequencies_[0] > 0.9
    with pytest.raises(ValueError, match="two texts that differ only in their Unicode encoding"):
        OLH(1.0, categories=[composed, apart], hash_family="mixing").privatize([composed])
    assert GRR(1.0, categories=[composed, apart]).privatize([apart]).shape == (1,)


# -- clocks ------------------------------------------------------------------------------------
def least_bytes(ask, told, n, monkeypatch):
    """The least number of secure bytes that a client drew for the truth, and for a lie."""
    real, drawn, found = os.urandom, [], {True: [], False: []}
    monkeypatch.setattr("os.urandom", lambda size: drawn.append(size) or real(size))
    for _ in range(n):
        drawn.clear()
        found[told(ask())].append(sum(drawn))
    monkeypatch.setattr("os.urandom", real)
    return [min(one) for one in found.values()]  # more are drawn for ties and rejected words


@pytest.mark.parametrize("oracle", [GRR(1.0, categories=4), OLH(1.0, **OPEN)], ids=repr)
def test_a_lie_takes_as_many_bytes_as_the_truth(oracle, monkeypatch):
    """As in JavaScript: a word was drawn for lies alone. The chance of no lie or truth is 1e-20."""
    channel = type(oracle)(**{**oracle.get_params(), "categories": range(4)}).channel()

    def told(report):
        return bool(channel.count_support(np.asarray(report))[2])

    truth, lie = least_bytes(lambda: oracle.privatize([2]), told, 200, monkeypatch)
    assert truth == lie


def test_a_permanent_report_takes_as_many_bytes_as_another(tmp_path, monkeypatch):
    """Whoever knew which reports are permanent would learn of them what epsilon_forever lets."""
    oracle, rounds = GRR(1.0, categories=2), iter(map(str, range(1000)))
    client = RepeatedClient(oracle, tmp_path / "a", question="test", epsilon_forever=2.0)
    client.report(1, collection_round="first")

    def told(_):
        return type(json.loads((tmp_path / "a").read_text())["sent"][-1]) is int

    ask = lambda: client.report(1, collection_round=next(rounds))  # noqa: E731
    permanent, uniform = least_bytes(ask, told, 100, monkeypatch)
    assert permanent == uniform


def test_links_that_lead_nowhere(tmp_path):
    """A file that is still to come is made; a circle is an OSError that names the link."""
    path, target = tmp_path / "memo.json", tmp_path / "kept" / "memo.json"
    path.symlink_to(target)
    with pytest.raises(OSError, match="kept|memo.json"):
        SurveyClient(SURVEY, path, question="test")
    target.parent.mkdir()
    SurveyClient(SURVEY, path, question="test").report({"sex": "F", "age": 1})
    assert path.is_symlink()
    assert target.is_file()
    assert SurveyClient(SURVEY, target, question="test").n_reports == 1
    circle = tmp_path / "circle.json"
    circle.symlink_to(tmp_path / "other.json")
    (tmp_path / "other.json").symlink_to(circle)
    for make in (
        lambda: SurveyClient(SURVEY, circle, question="test"),
        lambda: repeated(circle, GRR(1.0, categories=3)),
    ):
        with pytest.raises(OSError, match="symbolic links.*circle.json"):
            make()
    assert {*os.listdir(tmp_path)} == {"circle.json", "kept", "memo.json", "other.json"}


# -- what k values cost ------------------------------------------------------------------------
def laws_of(chain, history, d):
    """Probabilities of all reports of a history of values, of shape (d,) * rounds."""
    share, ratio = chain.share / 2**64, math.e * 2**64 / chain.keep_against
    permanent = (np.ones((d, d)) + (ratio - 1) * np.eye(d)) / (ratio + d - 1)
    sent = share * np.eye(d) + (1 - share) / d  # a row a permanent report
    law = np.ones((1,) * len(history))
    for value in set(history):
        blocks = np.zeros((d,) * len(history))
        for kept, chance in zip(sent, permanent[value], strict=True):
            one = np.full((1,) * len(history), chance)
            for i, other in enumerate(history):
                if other == value:
                    one = one * kept.reshape([d if j == i else 1 for j in range(len(history))])
            blocks = blocks + one
        law = law * blocks
    return law


def nats(chain, one, other, d):
    laws = [laws_of(chain, history, d) for history in (one, other)]
    np.testing.assert_allclose([law.sum() for law in laws], 1)
    with np.errstate(divide="ignore"):
        return np.abs(np.log(laws[0]) - np.log(laws[1])).max()


def test_k_values_cost_k_budgets_if_they_change_in_the_same_rounds():
    """All pairs of histories of three rounds; and one beyond it if the rounds differ."""
    d, forever = 4, 2.0
    chain = Chain(GRR(1.0, categories=d).channel(), 1.0, forever)

    def pattern(history):
        return tuple(history.index(value) for value in history)

    worst = dict.fromkeys([1, 2, 3], 0.0)
    histories = list(product(range(d), repeat=3))
    for one, other in product(histories, repeat=2):
        if pattern(one) == pattern(other) and one < other:
            k = len(set(one))
            worst[k] = max(worst[k], nats(chain, one, other, d))
    assert all(worst[k] <= k * forever + 1e-9 for k in worst)
    # (A, A, ..) against (A, .., B, ..): 4 is spent, and the reports tell more.
    assert nats(chain, (0,) * 8, (0,) * 4 + (1,) * 4, d) > 2 * forever
    certain = Chain(GRR(1.0, categories=d).channel(), 1.0, 1.0)
    assert nats(certain, (0, 0), (0, 1), d) == math.inf
    # .. and one budget would not be enough for two values.
    assert nats(certain, (0, 1), (2, 3), d) == pytest.approx(2.0)
