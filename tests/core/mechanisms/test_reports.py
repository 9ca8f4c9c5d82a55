"""Reports that know their protocol, and plain arrays, which are tested by what they support."""

import copy
import io
import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    Base,
    ColumnOracle,
    HadamardResponse,
    LocalMean,
    MarginalOracle,
    MatrixOracle,
    NormSub,
    ProjectiveGeometryResponse,
    RangeOracle,
    StringOracle,
    SubsetSelection,
)
from sklearn_ldp._core.mechanisms import Reports
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    RepeatedClient,
    SurveyClient,
    aggregate,
    read_reports,
    tally_reports,
    write_reports,
)
from sklearn_ldp.learning import PrivatizedColumns
from sklearn_ldp.metrics import make_frequency_scorer, make_held_out_scorer
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.robustness import support_size_test

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")

CODES = np.arange(600) % 64
ROWS = np.column_stack([CODES % 2, CODES % 3])
COLUMNS = {"a": 2, "b": 3}
SINGLE = [
    *(cls(categories=64) for cls in (GRR, OUE, SUE, BLH, OLH, HadamardResponse, SubsetSelection)),
    OLH(categories=64, hash_family="mixing"),
    SubsetSelection(categories=300),  # packed
    ProjectiveGeometryResponse(categories=64),
    MatrixOracle(categories=64, strategy="square-wave"),
    RangeOracle(categories=2000),  # a tree
    LocalMean(bounds=(0, 63)),
]
SURVEYS = [ColumnOracle(domains=COLUMNS), MarginalOracle(domains=COLUMNS)]
WORDS = StringOracle(4.0, alphabet="abc", max_length=3)
EVERY = [
    *((one, CODES) for one in SINGLE),
    *((one, ROWS) for one in SURVEYS),
    (WORDS, ["abc", "b", "ca"] * 200),
]
every = pytest.mark.parametrize(("oracle", "values"), EVERY, ids=[repr(one) for one, _ in EVERY])


def made(oracle, values=CODES, **parameters):
    return clone(oracle).set_params(random_state=0, **parameters).privatize(values)


def reader(oracle, **parameters):
    return clone(oracle).set_params(**parameters, input="reports")


R = made(GRR(1.0, categories=64))


# -- what keeps the protocol, and what drops it ---------------------------------------------------
KEEPS = {
    "rows": lambda R: R[3:9],
    "mask": lambda R: R[R > 3],
    "take": lambda R: np.take(R, [1, 2]),
    "copy": lambda R: R.copy(),
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda R: pickle.loads(pickle.dumps(R)),
    "oldest pickle": lambda R: pickle.loads(pickle.dumps(R, protocol=2)),
    "concatenate": lambda R: np.concatenate([R, R[:4]]),
    "concatenate others of one protocol": lambda R: np.concatenate([R, made(GRR(categories=64))]),
    "concatenate to pickles": lambda R: np.concatenate([*pickle.loads(pickle.dumps([R, R])), R]),
    "two pickles": lambda R: np.concatenate([pickle.loads(pickle.dumps(R)) for _ in range(2)]),
    "hstack": lambda R: np.hstack([R, R]),
}
DROPS = {
    "sum of two": lambda R: R + 1,
    "in place": lambda R: R.copy().__iadd__(1),
    "comparison": lambda R: R == 3,
    "cast": lambda R: R.astype(np.uint8),
    "total": lambda R: R.sum(),
    "asarray": np.asarray,
    "bincount": np.bincount,
    "with a plain array": lambda R: np.concatenate([R, np.arange(3)]),
    "to a plain array": lambda R: np.concatenate([np.arange(3), R]),
    "scalar": lambda R: R[0],
}


@pytest.mark.parametrize("make", KEEPS.values(), ids=KEEPS)
def test_keeps_the_protocol(make):
    kept = make(R)
    assert kept.configuration == R.configuration == GRR(1.0, categories=64).protocol().configuration
    with pytest.raises(ValueError, match=r"of another collection: epsilon 1\.0 instead of 4\.0"):
        GRR(4.0, categories=64, input="reports").fit(kept)


@pytest.mark.parametrize("make", DROPS.values(), ids=DROPS)
def test_drops_the_protocol(make):
    assert getattr(make(R), "configuration", None) is None


def joined(*reports):
    """Joined as they are, pickled, and one after the other."""
    pickled = [pickle.loads(pickle.dumps(one)) for one in reports]
    yield from map(np.concatenate, (reports, reports[::-1], pickled, (pickled[0], *reports[1:])))
    yield np.append(*reports[:2]) if reports[0].ndim == 1 else np.vstack(reports)


def test_reports_of_two_protocols_are_of_neither():
    """They were plain arrays again, and decoded in silence."""
    four = made(GRR(4.0, categories=64))
    for both in joined(R, four):
        assert both.configuration["epsilon"] in ("1.0 and 4.0", "4.0 and 1.0")
        for server in (reader(GRR(1.0, categories=64)), reader(GRR(4.0, categories=64))):
            with pytest.raises(ValueError, match="epsilon '(1.0 and 4.0|4.0 and 1.0)' instead"):
                server.fit(both[::2])
        again = np.concatenate([both, R])  # whatever is added to it
        assert again.configuration["oracle"] == "GRR"
        with pytest.raises(ValueError, match="epsilon '.*' instead of 1"):
            reader(GRR(1.0, categories=64)).fit(again)
    sets = [frozenset("a"), frozenset("b")]  # which no configuration can name
    own = [GRR(e, categories=sets, random_state=0).privatize(sets) for e in (1.0, 2.0)]
    assert getattr(np.concatenate(own), "configuration", None) is None
    assert reader(GRR(1.0, categories=sets)).fit(own[0][:2]).n_samples_seen_ == 2
    assert pickle.loads(pickle.dumps(own[0])).configuration is None  # alone they do know it


def test_joined_reports_are_of_the_protocol_that_takes_all_of_them():
    """Whichever comes first: of a round beside those of none, of a list beside open ones."""
    unlisted = OLH(1.0, categories="open", hash_family="mixing", random_state=0)
    listed = clone(unlisted).set_params(categories=["a", "b"])
    parts = [one.privatize(["a", "b"] * 50) for one in (unlisted, listed)]
    other = OLH(1.0, categories=["a", "c"], hash_family="mixing")
    for both in (np.concatenate(parts), np.concatenate(parts[::-1])):
        assert reader(listed).fit(both).n_samples_seen_ == 200
        with pytest.raises(ValueError, match="the categories, or their order, differ"):
            reader(other).fit(both)
    for given in (parts[0], pickle.loads(pickle.dumps(parts[0]))):  # open ones are of every list
        assert reader(other).fit(given).n_samples_seen_ == 100
        with pytest.raises(ValueError, match=r"epsilon 1\.0 instead of 1\.1"):
            reader(other, epsilon=1.1).fit(given)
    may, june = (GRR(categories=64).protocol(name).privatize(CODES, 0) for name in ("may", "june"))
    for both in (np.concatenate([R, may]), np.concatenate([may, R])):
        assert both.configuration["collection_round"] == "may"
    for both in joined(may, june):
        with pytest.raises(RefusedBatchError, match="round '(may|june) and .* of 'may'"):
            Aggregator(GRR(categories=64), collection_round="may").add(both, "1")


def test_is_an_array_that_costs_nothing_more():
    assert isinstance(R, np.ndarray)
    assert isinstance(R, Reports)
    protocol = GRR(1.0, categories=[f"category {i}" for i in range(50_000)]).protocol()
    reports = protocol.privatize(["category 3"])
    assert len(pickle.dumps(reports)) < 2000, "a pickle must not hold the categories"
    assert reports[:1]._source is reports._source is protocol
    assert type(R.max()) is type(np.asarray(R).max())
    np.save(file := io.BytesIO(), R)
    file.seek(0)
    np.testing.assert_array_equal(np.load(file), np.asarray(R))


@pytest.mark.slow
def test_another_process_reads_the_protocol(tmp_path, fresh_processes):
    (tmp_path / "reports.pickle").write_bytes(pickle.dumps(made(OUE(categories=8), CODES % 8)))
    code = """
import pickle, sys
from sklearn_ldp import OUE
reports = pickle.load(open(sys.argv[1], "rb"))
print(OUE(1.0, categories=8, input="reports").fit(reports).n_samples_seen_)
try:
    OUE(2.0, categories=8, input="reports").fit(reports)
except ValueError as error:
    print(error)
"""
    ended = fresh_processes.run(code, str(tmp_path / "reports.pickle"))
    assert ended.stdout.startswith(
        "600\nOUE cannot have made these reports: the reports are of another"
    )
    assert "epsilon 1.0 instead of 2.0" in ended.stdout


# -- who refuses what -----------------------------------------------------------------------------
@every
def test_every_oracle_refuses_another_epsilon(oracle, values):
    own, other = made(oracle, values), made(oracle, values, epsilon=2.5)
    given = oracle.epsilon
    server, pickled = reader(oracle), pickle.loads(pickle.dumps(other))
    for read in (server.fit, server.partial_fit, server.aggregate):
        for reports in (other, pickled):
            with pytest.raises(ValueError, match=rf"epsilon 2\.5 instead of {given}"):
                read(reports)
    assert not hasattr(server, "n_samples_seen_"), "a call that fails has changed nothing"
    server = reader(oracle).fit(own)
    assert server.n_samples_seen_ == len(own)
    with pytest.raises(ValueError, match=r"epsilon 2\.5"):
        server.transform(other)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (GRR(1.0, categories=list(range(64))[::-1]), "the categories, or their order"),
        (GRR(1.0, categories=128), "n_categories 64 instead of 128"),
        (RangeOracle(1.0, categories=64), "oracle 'GRR' instead of 'RangeOracle'"),
    ],
)
def test_names_what_differs(other, what):
    with pytest.raises(ValueError, match=f"of another collection: {what}"):
        reader(other).aggregate(R)


def test_all_who_read_reports_refuse_another_protocol():
    what, other = r"epsilon 1\.0 instead of 4\.0", GRR(4.0, categories=64)
    with pytest.raises(ValueError, match=what):
        estimate_by_group(reader(other), R, CODES % 2)
    with pytest.raises(ValueError, match=what):
        support_size_test(R, other)
    with pytest.raises(RefusedBatchError, match=what):
        Aggregator(other).add(R, batch_id="may 1")
    four = made(other)
    pipe = make_pipeline(reader(other), NormSub()).fit(four)
    make_held_out_scorer()(pipe, four)
    with pytest.raises(ValueError, match=what):
        make_held_out_scorer()(pipe, R)
    columns = PrivatizedColumns(1.0, domains=COLUMNS, random_state=0)
    with pytest.raises(ValueError, match=r"another mechanism|epsilon 1\.0 instead of 4\.0"):
        PrivatizedColumns(4.0, domains=COLUMNS, input="reports").fit(columns.privatize(ROWS))


def test_rounds_are_compared_by_collections_and_not_by_oracles():
    oracle = GRR(1.0, categories=64)
    may = oracle.protocol("may").privatize(CODES, 0)
    for add, message in (
        (Aggregator(oracle, collection_round="june").add, "'may' instead of 'june'"),
        (Aggregator(oracle).add, "'may' instead of ''"),
        (nothing_written, "'may' instead of ''"),
    ):
        with pytest.raises(RefusedBatchError, match=f"collection_round {message}"):
            add(may, "1")
    for reports in (may, R):  # an oracle knows no rounds
        server = Aggregator(oracle, collection_round="may")
        assert server.add(reports, batch_id="1").n_samples == len(R)
    assert reader(oracle).fit(may).n_samples_seen_ == len(may)
    assert support_size_test(may, oracle).statistic is not None


def nothing_written(reports, batch_id):
    file = io.BytesIO()
    try:
        write_reports(file, reports, GRR(1.0, categories=64), batch_id=batch_id, format="jsonl")
    finally:
        assert not file.getvalue()


def test_what_files_and_clients_hand_out_knows_its_protocol(tmp_path):
    """Reports that were read from a file, or came from a memo, were plain arrays."""
    own, file = GRR(1.0, categories=64), io.BytesIO()
    write_reports(file, R, own, collection_round="may", format="jsonl")
    client = RepeatedClient(own, tmp_path / "a", question="test", epsilon_forever=2.0)
    survey = ColumnOracle(1.0, domains=COLUMNS)
    once = SurveyClient(survey, tmp_path / "b", question="test")
    for reports, oracle in (
        (read_reports(file.getvalue(), own, collection_round="may", format="jsonl"), own),
        (client.report(3, collection_round="may"), own),
        (client.report(5, collection_round="may"), own),
        (once.report({"a": 1, "b": 1}), survey),
        (once.renew({"a": 1, "b": 1}), survey),
    ):
        assert isinstance(reports, Reports)
        assert reader(oracle).fit(reports).n_samples_seen_ == len(reports)
        with pytest.raises(ValueError, match=r"epsilon 1\.0 instead of 4\.0"):
            reader(oracle, epsilon=4.0).fit(reports)
    june = client.report(3, collection_round="june")
    with pytest.raises(RefusedBatchError, match="collection_round 'june' instead of 'may'"):
        Aggregator(own, collection_round="may").add(june, "1")


def test_a_protocol_that_lies_is_no_proof_and_reports_are_no_values():
    """What reports say of themselves is compared, and the reports are checked all the same."""
    lying = R.copy()
    lying[0] = 64
    with pytest.raises(ValueError, match=r"integers in \[0, 63\]"):
        reader(GRR(categories=64)).fit(lying)
    with pytest.raises(ValueError, match="of another collection"):
        reader(GRR(categories=64)).fit(type(R).__reduce__(R)[0](np.asarray(R), {"oracle": []}))
    for read in (GRR(categories=64).fit, GRR(categories=64).privatize, OUE(categories=64).fit):
        with pytest.raises(
            ValueError, match="got reports that are already randomized. For reports, use input"
        ):
            read(R)
    twice = GRR(categories=64, random_state=0).fit(np.asarray(R))  # whoever means it
    assert twice.n_samples_seen_ == len(R)


# -- searches -------------------------------------------------------------------------------------
@pytest.mark.parametrize("reports", [R, np.asarray(R)], ids=["reports", "plain"])
@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_a_search_over_what_given_reports_were_made_with_is_refused(search, reports):
    options = {"n_iter": 2} if search is RandomizedSearchCV else {}
    server = make_pipeline(GRR(1.0, categories=64, input="reports"), Base())
    scorer = make_held_out_scorer()
    refused = search(server, {"grr__epsilon": [4.0, 1.0]}, scoring=scorer, cv=2, **options)
    with pytest.raises(ValueError, match=r"GRR reads reports.* were made with epsilon=1\.0"):
        refused.fit(reports)
    grid = {"base": [Base(), NormSub()], "grr__n_shards": [1, 10], "grr__epsilon": [1.0]}
    assert search(server, grid, scoring=scorer, cv=2, **options).fit(reports).best_score_ < 1


def test_a_search_over_the_oracle_of_given_reports_is_refused():
    survey = reader(ColumnOracle(domains=COLUMNS, oracle=OUE()))
    for given in ({"oracle": GRR()}, {"oracle__epsilon": 3.0}, {"n_sampled": 2}):
        with pytest.raises(ValueError, match="ColumnOracle reads reports.* were made with"):
            clone(survey).set_params(**given)
    assert survey.set_params(oracle=OUE(), n_jobs=2).n_jobs == 2  # nothing that matters
    assert survey.set_params(epsilon=2.0, input="values").epsilon == 2.0
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        reader(survey).set_params(nothing=1)
    # Candidates that bring an oracle of their own are refused one by one.
    server = make_pipeline(reader(GRR(categories=64)), Base())
    grid = {"grr": [reader(GRR(4.0, categories=64)), reader(GRR(1.0, categories=64))]}
    search = GridSearchCV(server, grid, scoring=make_held_out_scorer(), cv=2)
    with (
        pytest.warns(FitFailedWarning, match=r"epsilon 1\.0 instead of 4\.0"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        assert search.fit(R).best_params_["grr"].epsilon == 1.0


def test_a_search_over_values_is_a_simulation_and_goes_on():
    client = make_pipeline(GRR(categories=64, random_state=0), Base())
    search = GridSearchCV(client, {"grr__epsilon": [0.5, 8.0]}, scoring=make_frequency_scorer())
    assert search.fit(CODES).best_params_ == {"grr__epsilon": 8.0}


# -- plain arrays ---------------------------------------------------------------------------------
# Oracles whose reports support more or fewer categories at another epsilon, with that epsilon and
# the number of users who tell.
TELLING = [
    (OUE(1.0, categories=64), 4.0, 20),
    (OUE(1.0, categories=64), 1.2, 600),
    (SUE(1.0, categories=64), 4.0, 100),
    (HadamardResponse(1.0, categories=63), 4.0, 60_000),
    (OLH(1.0, categories=64), 4.0, 6000),
    (OLH(1.0, categories=64, hash_family="mixing"), 4.0, 1000),
    (HadamardResponse(1.0, categories=1000), 4.0, 400_000),
    (ProjectiveGeometryResponse(1.0, categories=60, field_order=3), 4.0, 60_000),
    (BLH(1.0, categories=64), 6.0, 40_000),
    (ColumnOracle(1.0, domains={"a": 60, "b": 70}, oracle=OUE()), 4.0, 100),
]
telling = pytest.mark.parametrize(("oracle", "epsilon", "n"), TELLING, ids=repr)


def values_of(oracle, n):
    codes = np.arange(n) % 2  # few values, so that the laws depend on them where they can
    return np.column_stack([codes, codes]) if isinstance(oracle, ColumnOracle) else codes


def test_plain_reports_of_another_epsilon_get_into_no_collection(tmp_path):
    """A file would say of them what they are not."""
    wrong, four = np.asarray(made(OUE(1.0, categories=64))), OUE(4.0, categories=64)
    server, path, said = Aggregator(four), tmp_path / "a.jsonl", r"that support 1\.633 categories"
    for refuses in (
        lambda: server.add(wrong, "1"),
        lambda: aggregate(iter([wrong[:300], wrong[300:]]), server, batch_id="1"),
        lambda: tally_reports(wrong, four, "1"),
        lambda: write_reports(path, wrong, four),
        lambda: write_reports(path, iter([wrong[:300], wrong[300:]]), four),
    ):
        with pytest.raises(RefusedBatchError, match=said):
            refuses()
    assert server.n_samples == 0
    assert not path.exists()
    own = OUE(1.0, categories=64)  # the negative control
    assert write_reports(path, wrong, own, batch_id="1") == "1"
    assert aggregate(path, Aggregator(own)).add(wrong[:300], "2").n_samples == 900


def test_what_a_few_fake_users_explain_is_told_once_and_counted(monkeypatch):
    """Else one percent of fake users could have the reports of all others refused."""
    monkeypatch.setattr("sklearn_ldp._core.common.privacy._given", set())
    oracle = OUE(1.0, categories=64)
    honest = np.asarray(made(oracle, np.zeros(9900, int)))
    reports = np.concatenate([honest, np.ones((100, 64), np.uint8)])
    with pytest.warns(UserWarning, match=r"or are faulty, or at least about 1\.\d% of the reports"):
        reader(oracle).fit(reports)
    assert reader(oracle).fit(reports).n_samples_seen_ == 10_000  # told once
    wrong = reader(oracle, epsilon=4.0)
    with pytest.raises(ValueError, match=r"OUE cannot .* support 1\.6\d+ categories .* not 17\.\d"):
        wrong.fit(honest)
    assert not hasattr(wrong, "n_samples_seen_")


@telling
def test_plain_reports_are_read_at_their_own_epsilon_only(oracle, epsilon, n, seed):
    """The error rate is 1e-9 for each batch of honest ones, whatever the values are."""
    values = values_of(oracle, min(n, 4000))
    for state in range(6):
        plain = clone(oracle).set_params(random_state=100 * seed + state).privatize(values)
        for some in (plain[:1], plain[:10], plain):
            assert reader(oracle).fit(np.asarray(some)).n_samples_seen_ == len(some)
    reports = np.asarray(made(oracle, values_of(oracle, n)))
    assert reader(oracle).fit(reports).n_samples_seen_ == n
    said = r"expect(s|ed) reports that support [\d.]+ categories on average, not [\d.]+"
    for read in (reader(oracle, epsilon=epsilon).fit, reader(oracle, epsilon=epsilon).aggregate):
        with pytest.raises((ValueError, UserWarning), match=said):  # warnings are errors
            read(reports)


def test_the_bound_holds_for_the_exact_law():
    """Over all reports of small mechanisms the refused ones have a probability below 1e-9.

    Of six bits with q = .27, all totals but those beyond Bernstein's bound must pass.
    """
    channel = OUE(1.0, categories=2).channel()
    n = 2000
    totals = np.arange(2 * n + 1)
    law = np.convolve(
        stats.binom.pmf(np.arange(n + 1), n, float(channel.p)),
        stats.binom.pmf(np.arange(n + 1), n, float(channel.q)),
    )
    refused = [
        bool(channel.unlikely_total(np.repeat([[1, 1], [1, 0], [0, 0]], k, axis=0), 1e-9)[0])
        for k in ([t // 2, t % 2, n - t // 2 - t % 2] for t in totals[::20])
    ]
    assert 0 < law[::20][refused].sum() * 20 < 1e-9
    assert np.sum(refused) > 100, "the test must have power"


@pytest.mark.parametrize(
    ("oracle", "epsilon"),
    [
        (GRR(categories=64), 1.01),
        (SubsetSelection(categories=64), 1.01),
        (HadamardResponse(categories=64, n_blocks=2), 4.0),  # whose supports are signed
    ],
    ids=repr,
)
def test_where_the_total_cannot_tell_nothing_is_refused(oracle, epsilon):
    reports = np.asarray(made(oracle))
    for server in (reader(oracle), reader(oracle, epsilon=epsilon)):
        assert server.fit(reports).n_samples_seen_ == len(reports)


def test_weighted_rows_have_another_law_and_are_not_tested():
    oracle = OUE(1.0, categories=3)
    rows, counts = np.unique(np.asarray(made(oracle, CODES % 3)), axis=0, return_counts=True)
    weighted = {"X": np.tile(rows, (50, 1)), "sample_weight": np.tile(counts, 50)}
    assert reader(oracle).fit(**weighted).n_samples_seen_ == 50 * len(CODES)
