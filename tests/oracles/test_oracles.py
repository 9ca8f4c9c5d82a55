"""Oracles as a data collector and a scikit-learn user meet them."""

import dataclasses
import inspect
import os
import pickle
import traceback
from copy import copy

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from estimators import ORACLES, slow_but
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    SUE,
    Base,
    ColumnOracle,
    FrequencyEstimate,
    HadamardResponse,
    MarginalOracle,
    NormSub,
    PrivacyWarning,
    SyntheticSearch,
)
from sklearn_ldp._core.mechanisms import Counts, check_counts, counts, expand
from sklearn_ldp._core.mechanisms.mechanism import block_users, chunk_users
from sklearn_ldp._core.numerics.finite_field import FiniteField, field_orders_beside, prime_power
from sklearn_ldp.learning import LabelDPClassifier, LDPNaiveBayes, PrivatizedColumns
from sklearn_ldp.metrics import make_frequency_scorer
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.oracles import estimate_by_group

BROWSERS = ["chrome", "safari", "firefox", "edge"]


# -- containers -------------------------------------------------------------------------------
VALUES = ["chrome", "edge", "chrome", "safari", "firefox"] * 30
CONTAINERS = {
    "column": [[v] for v in VALUES],
    "2d": np.array(VALUES)[:, None],
    "pandas frame": pd.DataFrame({"browser": VALUES}),
    "pandas string": pd.Series(VALUES, dtype="string"),
    "polars frame": pl.DataFrame({"browser": VALUES}),
    "arrow table": pa.table({"browser": VALUES}),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_any_container_of_values(container):
    """Of one column; its types are tested where a domain encodes them."""
    expected = OUE(categories=BROWSERS, random_state=0).fit(VALUES)
    oracle = OUE(categories=BROWSERS, random_state=0).fit(CONTAINERS[container])
    np.testing.assert_array_equal(oracle.support_counts_, expected.support_counts_)
    assert oracle.n_features_in_ == 1


@pytest.mark.parametrize(
    "make", [list, np.array, pd.Series, pl.Series, pa.array, lambda v: pd.Series(v, dtype="Int64")]
)
def test_integers_never_pass_through_floats(make):
    categories = [2**53, 2**53 + 1, 2**53 + 2]
    values = [2**53 + 1] * 400
    oracle = GRR(epsilon=20.0, categories=make(categories), random_state=0)
    np.testing.assert_allclose(oracle.fit(make(values)).frequencies_, [0, 1, 0], atol=1e-6)


def test_several_columns_are_one_joint_category():
    frame = pd.DataFrame({"sex": ["f", "m", "f"] * 50, "age": [20, 30, 20] * 50})
    learned = GRR(epsilon=20.0, random_state=0).fit(frame)
    assert learned.categories_.tolist() == [("f", 20), ("m", 30)]
    assert learned.feature_names_in_.tolist() == ["sex", "age"]
    declared = GRR(epsilon=20.0, categories=[("m", 30), ("f", 20), ("f", 30)], random_state=0)
    np.testing.assert_allclose(declared.fit(frame).frequencies_, [1 / 3, 2 / 3, 0], atol=1e-6)
    assert declared.estimate_.top(1)[0][0] == ("f", 20)
    assert declared.estimate_.to_series().idxmax() == ("f", 20)


def test_an_integer_is_not_its_string():
    assert len(GRR(categories=["1", 1, 2.5]).privatize([1, "1", 2.5])) == 3
    with pytest.raises(ValueError, match="unknown category at position 0, .* are .1., .2."):
        GRR(categories=["1", "2"]).privatize([1])


# -- bad input --------------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [0, -1.0, np.nan, np.inf, 10**400, "1", None, True])
@pytest.mark.parametrize("act", ["fit", "privatize", "aggregate", "simulate"])
def test_bad_epsilon(epsilon, act):
    argument = [0, 1]
    with pytest.raises(ValueError, match=r"The 'epsilon' parameter of GRR must be .* Got"):
        getattr(GRR(epsilon=epsilon, categories=2), act)(argument)


@pytest.mark.parametrize("categories", [1, 0, -3, ["only"], [], "all", np.zeros((2, 2, 2)), 2.5])
def test_bad_domain(categories):
    with pytest.raises(ValueError, match=r"categories|shape|at least 2"):
        GRR(categories=categories).privatize([0])
    for listed, twice in ((["a", "b", "b"], "'b'"), (["a", None, np.nan], "None")):
        with pytest.raises(ValueError, match=f"distinct categories, got {twice} more than once"):
            OLH(categories=listed).privatize(["a"])


@pytest.mark.parametrize(
    "values",
    [
        *([1.0, np.nan], [1.0, np.inf], ["a", None], np.array(["a", np.nan], dtype=object)),
        *(pd.Series(["a", None]), pd.Series([1, None], dtype="Int64")),
        *(pl.Series([1, None]), pa.array(["a", None])),
    ],
    ids=lambda values: type(values).__module__,
)
@pytest.mark.parametrize("categories", ["auto", ["a", "b"], 3])
def test_missing_values_are_refused(values, categories):
    with pytest.raises(ValueError, match="NaN|infinity|unknown category"):
        OUE(categories=categories).fit(values)


def test_unknown_category_names_value_and_remedy():
    oracle = OUE(categories=BROWSERS)
    with pytest.raises(ValueError, match=r"OUE got the unknown category 'lynx'.*categories="):
        oracle.fit(["chrome", "lynx"])
    assert not hasattr(oracle, "n_features_in_")
    with pytest.raises(NotFittedError, match="OUE instance is not fitted yet"):
        oracle.estimate_  # noqa: B018
    for ask in (GRR().privatize, GRR(input="reports").fit):
        with pytest.raises(ValueError, match="Declare the categories in categories="):
            ask([1, 0])


@pytest.mark.parametrize("X", [[], np.zeros((0, 1)), pd.DataFrame({"a": []}), np.zeros((3, 0))])
def test_empty_sparse_and_deep_input(X):
    with pytest.raises(ValueError, match=r"Found array with 0 (sample|feature)\(s\)"):
        GRR(categories=2).fit(X)
    with pytest.raises(TypeError, match="sparse"):
        GRR(categories=2).fit(sparse.csr_array(np.eye(2)))
    with pytest.raises(ValueError, match="dim 3"):
        GRR(categories=2).fit(np.zeros((2, 2, 2)))


@pytest.mark.parametrize("weight", [[-1, 2], [0.5, 1], [0, 0], [1], [np.nan, 1], [[1], [1]], "ab"])
def test_bad_sample_weight(weight):
    with pytest.raises(ValueError, match="GRR.*sample_weight"):
        GRR(categories=2).fit([0, 1], sample_weight=weight)


TOO_MANY = [
    [2**63 - 1, 2**63 - 1, 5],  # a sum of int64 wraps around to 3
    [2**62, 2**62, 0],  # and this one to a negative number
    [2**62, 2**62, 2**63],
    [2**53, 1, 0],
    [2.0**53, 2.0, 0.0],
    [1e300, 0.0, 0.0],
    np.array([2**64 - 1, 2**64 - 1, 1], dtype=np.uint64),
]


COUNTED = {
    "weights of fit": lambda oracle, users: oracle.fit([0, 1, 2], sample_weight=users),
    "weights of the truth": lambda oracle, users: oracle.true_frequencies(
        [0, 1, 2], sample_weight=users
    ),
    "counts of an oracle": lambda oracle, users: oracle.simulate(users),
    "counts of a survey": lambda oracle, users: ColumnOracle(
        1.0, domains={"a": 3}, random_state=0
    ).simulate({"a": users}),
    "counts of tables": lambda oracle, users: MarginalOracle(
        1.0, domains={"a": 3, "b": 2}, random_state=0
    ).simulate({(a, 0): n for a, n in enumerate(users)}),
}


@pytest.mark.parametrize("call", COUNTED.values(), ids=COUNTED)
@pytest.mark.parametrize("part", [0.5, np.nan, np.inf], ids=str)
def test_a_user_cannot_count_in_part(call, part):
    oracle = GRR(categories=3, random_state=0)
    message = f"whole numbers of users, got {part}; a user cannot count in part"
    with pytest.raises(ValueError, match=message):
        call(oracle, [1.0, part, 2.0])
    call(oracle, [1.0, 0.0, 2.0])  # negative control: whole numbers as floats


@pytest.mark.parametrize("weight", TOO_MANY, ids=str)
def test_more_users_than_a_float_can_count_are_refused(weight):
    """Wherever numbers of users are added up, and before anything is drawn."""
    message = (
        r"must add up to at most 2\*\*53 users.*, got [1-9][0-9,]+\. Check that these are numbers"
    )
    oracle = GRR(categories=3, random_state=0).fit([0, 1, 2])
    reader = GRR(categories=3, input="reports")
    X = [0, 1, 2]
    scored = make_pipeline(clone(oracle), Base()).fit(X)
    total = f"{sum(map(int, np.asarray(weight).tolist())):,}"
    for call in [
        lambda: oracle.fit(X, sample_weight=weight),
        lambda: oracle.partial_fit(X, sample_weight=weight),
        lambda: reader.fit(X, sample_weight=weight),
        lambda: oracle.true_frequencies(X, sample_weight=weight),
        lambda: oracle.simulate(weight),
        lambda: estimate_by_group(oracle, X, ["a", "a", "b"], sample_weight=weight),
        lambda: make_frequency_scorer()(scored, X, sample_weight=weight),
        lambda: simulate_errors(GRR(), [Base()], weight),
    ]:
        with pytest.raises(ValueError, match=message) as error:
            call()
        assert total in str(error.value)
    assert oracle.n_samples_seen_ == 3
    # The negative control: as many users as a float can count.
    assert check_counts([2**53 - 1, 1], "counts").sum() == 2**53
    assert check_counts([2.0**52, 2.0**52], "counts").sum() == 2**53
    assert clone(oracle).simulate([2**53 - 1, 1, 0]).noise.n_samples == 2**53
    with pytest.raises(ValueError, match=r"n_samples must add up to at most 2\*\*53 users"):
        simulate_errors(GRR(), [Base()], [0.5, 0.5], n_samples=2**53 + 1)


@pytest.mark.parametrize(
    ("oracle", "reports"),
    [
        *((GRR(categories=4), reports) for reports in ([0, 4], [-1], [0.5], [[0, 1]])),
        *((OUE(categories=4), reports) for reports in ([[0, 1, 2, 0]], [[0, 1, 0]], [0, 1, 0, 1])),
        *((OLH(categories=4), reports) for reports in ([[0, 4]], [[6, 0]], [[0, 0, 0]], [0, 1])),
    ],
    ids=repr,
)
def test_foreign_reports(oracle, reports):
    name = type(oracle).__name__
    before = dict(vars(oracle))
    with pytest.raises(ValueError, match=rf"{name} cannot have made .*expected .*got .*refused"):
        oracle.aggregate(reports)
    assert vars(oracle) == before


def test_merge_says_what_differs():
    servers = [GRR(e, categories=3).aggregate([0, 1]) for e in (1.0, 2.0)]
    with pytest.raises(ValueError, match=r"epsilon 2.0 instead of 1.0"):
        servers[0].merge(servers[1])
    with pytest.raises(ValueError, match="oracle 'OUE' instead of 'GRR'"):
        servers[0].merge(OUE(categories=3).aggregate([[0, 1, 1]]))
    with pytest.raises(ValueError, match="order, differ"):
        servers[0].merge(GRR(categories=[0, 2, 1]).aggregate([0]))
    with pytest.raises(ValueError, match="hash_range 5 instead of 4"):
        OLH(categories=3).merge(OLH(categories=3, hash_range=5).aggregate([[0, 0]]))
    with pytest.raises(NotFittedError):
        servers[0].merge(GRR(categories=3))
    counts = servers[0].support_counts_
    with pytest.raises(ValueError, match="GRR.merge got the same GRR object"):
        servers[0].merge(servers[0])
    np.testing.assert_array_equal(servers[0].support_counts_, counts)
    with pytest.raises(TypeError, match="GRR.merge expects a GRR, got int"):
        servers[0].merge(1)


def test_a_protocol_is_kept_until_a_parameter_changes():
    """A client that answers often makes it once; nothing old is kept, however it was changed."""
    names = ["a", "b", "c"]
    client = OLH(1.0, categories=names)
    protocol = client.protocol()
    assert client.protocol() is protocol
    assert client.privatize(["a"])._source is protocol
    assert client.protocol("may").difference(protocol) == "collection_round '' instead of 'may'"
    for other in (clone(client), copy(client), pickle.loads(pickle.dumps(client))):
        other.epsilon = 2.0
        assert other.protocol().epsilon == 2.0
        assert client.protocol() is protocol
    names.append("d")
    assert client.protocol().domain.size == 4
    names[:2] = "ba"
    assert client.protocol().domain.categories.tolist() == ["b", "a", "c", "d"]
    assert client.set_params(categories=5).protocol().domain.size == 5
    client.categories = np.arange(6)
    assert client.protocol() is client.protocol()
    client.categories[0] = 10
    assert client.protocol().domain.categories.tolist() == [10, 1, 2, 3, 4, 5]
    client.epsilon = 1
    assert client.protocol().epsilon == 1
    client.epsilon = True
    with pytest.raises(ValueError, match="'epsilon' parameter of OLH must be"):
        client.privatize([1])


def test_a_protocol_is_not_kept_where_parameters_change_without_a_trace():
    inner = OLH(1.0)
    survey = ColumnOracle(1.0, domains={"a": 3, "b": 4}, oracle=inner)
    before = survey.protocol().configuration
    inner.hash_range = 7
    assert survey.protocol().configuration != before
    survey.domains["b"] = 5
    assert survey.protocol().domain.sizes == (3, 5)
    pairs = [["a", "b"], ["c", "d"]]
    oracle = GRR(1.0, categories=pairs)
    assert ("c", "d") in oracle.protocol().domain.categories.tolist()
    pairs[1][1] = "e"
    assert oracle.protocol().domain.categories.tolist() == [("a", "b"), ("c", "e")]


def test_a_fitted_oracle_remembers_what_it_was_fitted_with():
    """The estimate stays that of epsilon 0.5, whatever the parameters are changed to."""
    values = np.repeat(np.arange(20), 100)
    oracle = OLH(0.5, categories=20, random_state=0).fit(values)
    before = oracle.estimate_
    oracle.set_params(epsilon=5.0, hash_range=9)
    after = oracle.estimate_
    assert repr(after) == repr(before)
    assert "epsilon=0.5" in repr(after)
    assert after.oracle.get_params()["epsilon"] == 0.5
    assert after.oracle.get_params()["hash_range"] == "auto"
    assert after.noise == before.noise
    np.testing.assert_array_equal(oracle.frequencies_, before.values[0])
    picks = [
        SyntheticSearch([Base(), NormSub()], n_repeats=3, random_state=0).fit(e).results_
        for e in (before, after)
    ]
    np.testing.assert_array_equal(*(-pick["mean_test_score"] for pick in picks))
    # The errors are those of epsilon 0.5, about ten thousand times those of 5.
    true_error = before.noise.variance(np.full(20, 0.05)).mean()
    assert 0.3 < -picks[1]["mean_test_score"][0] / true_error < 3
    for spend in (oracle.partial_fit, oracle.transform):
        with pytest.raises(ValueError, match="have changed since it was fitted"):
            spend(values)
    oracle.set_params(epsilon=0.5, hash_range="auto").partial_fit(values)
    assert oracle.n_samples_seen_ == 4000


def test_another_domain_after_fit():
    oracle = GRR(categories=["a", "b"], random_state=0).fit(["a", "b"])
    oracle.set_params(categories=["b", "c"])
    assert oracle.categories_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="have changed since it was fitted"):
        oracle.aggregate([0])
    assert len(oracle.privatize(["c"])) == 1  # a client uses its current parameters
    assert oracle.fit(["c"]).categories_.tolist() == ["b", "c"]


def test_interrupted_work_changes_nothing(monkeypatch):
    oracle = OUE(categories=3).fit([0, 1, 2])
    counts = oracle.support_counts_

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("sklearn_ldp.oracles._unary.UnaryChannel.count_support", interrupt)
    with pytest.raises(KeyboardInterrupt):
        oracle.partial_fit(np.arange(10_000) % 3)
    monkeypatch.undo()
    np.testing.assert_array_equal(oracle.support_counts_, counts)
    assert oracle.n_samples_seen_ == 3


# -- one release ------------------------------------------------------------------------------
def test_transform_is_a_new_collection_and_says_so():
    with pytest.warns(PrivacyWarning, match="each user spends epsilon=1") as warned:
        GRR(categories=3).fit([0, 1, 2]).transform([0])
    assert warned[0].filename == __file__
    oracle = GRR(categories=3, random_state=0).fit([0, 1, 2] * 100)
    before = oracle.frequencies_
    other = oracle.transform([0] * 300)  # a simulation costs nobody anything: a warning is an error
    assert isinstance(other, FrequencyEstimate)
    assert other.noise.n_samples == 300
    np.testing.assert_array_equal(oracle.frequencies_, before)
    same_users = oracle.transform([0, 1, 2] * 100)
    assert not np.array_equal(same_users.values[0], before), "coins must not be used twice"


def test_fit_forgets_and_partial_fit_goes_on():
    oracle = GRR(random_state=0).fit(["c", "b"]).fit(["a", "b", "a"])
    assert oracle.n_samples_seen_ == 3
    oracle.set_params(input="reports").fit([0, 1])  # over the domain that was learned
    assert oracle.categories_.tolist() == ["a", "b"]
    assert oracle.partial_fit([0, 1]).n_samples_seen_ == 4
    assert oracle.aggregate([0] * 5).n_samples_seen_ == 9
    assert oracle.transform([0, 0]).noise.n_samples == 2  # in silence: it costs nobody anything
    assert oracle.n_samples_seen_ == 9


# -- shards, chunks, streams ------------------------------------------------------------------
@pytest.mark.parametrize("oracle", slow_but([OLH(), SUE()], ORACLES), ids=repr)
def test_shards_partition_the_reports(oracle):
    oracle = clone(oracle).set_params(categories=6, random_state=0, n_shards=4)
    reports = oracle.privatize(np.arange(50) % 6)
    server = clone(oracle)
    for start in range(0, 50, 7):
        server.aggregate(reports[start : start + 7])
    shards = server.estimate_.shards
    assert shards.sizes.tolist() == [13, 13, 12, 12]
    for i in range(4):
        alone = clone(oracle).aggregate(reports[i::4])
        np.testing.assert_array_equal(shards.counts[i], alone.support_counts_)
    np.testing.assert_array_equal(shards.counts.sum(axis=0), server.support_counts_)
    assert clone(oracle).set_params(n_shards=1).fit([0, 1]).estimate_.shards is None
    twin = pickle.loads(pickle.dumps(server.estimate_))
    np.testing.assert_array_equal(twin.shards.counts, shards.counts)


@pytest.mark.parametrize("oracle", ORACLES[:3], ids=repr)
def test_results_do_not_depend_on_chunks_or_threads(oracle, monkeypatch):
    channel = oracle.channel(7)
    values = np.random.default_rng(0).integers(0, 7, 3 * block_users(channel) + 5)
    oracle = clone(oracle).set_params(categories=7, random_state=0)
    whole = oracle.fit(values).support_counts_
    monkeypatch.setattr("sklearn_ldp._core.mechanisms.mechanism._CHUNK_BYTES", 1)
    assert chunk_users(channel) == block_users(channel)
    np.testing.assert_array_equal(clone(oracle).fit(values).support_counts_, whole)
    threads = clone(oracle).set_params(n_jobs=3)
    np.testing.assert_array_equal(threads.fit(values).support_counts_, whole)
    monkeypatch.undo()
    pieces = clone(oracle).partial_fit(values[:1000]).partial_fit(values[1000:])
    np.testing.assert_array_equal(pieces.support_counts_, whole)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any), st.data())
def test_expand_is_repeat(weights, data):
    total = sum(weights)
    start = data.draw(st.integers(0, total - 1))
    stop = data.draw(st.integers(start + 1, total))
    assert expand(None, start, stop) == slice(start, stop)
    rows = expand(np.cumsum(weights), start, stop)
    np.testing.assert_array_equal(rows, np.repeat(np.arange(len(weights)), weights)[start:stop])


# -- simulate ---------------------------------------------------------------------------------
def test_simulate_takes_public_counts():
    estimate = OLH(categories=BROWSERS, random_state=0).simulate([500, 300, 150, 50], n_repeats=7)
    assert estimate.shape == (7, 4)
    assert estimate.noise.n_samples == 1000
    assert estimate.categories.tolist() == BROWSERS
    assert OLH().simulate([3, 4]).categories.tolist() == [0, 1]
    again = OLH(categories=BROWSERS, random_state=0).simulate([500, 300, 150, 50], n_repeats=7)
    np.testing.assert_array_equal(estimate.values, again.values)
    found = OLH(0.5, categories=BROWSERS, hash_range=5, random_state=0).fit_transform(VALUES)
    assert found.oracle.random_state is None
    assert found.oracle.simulate([1, 2, 3, 4]).noise.q == found.noise.q


@pytest.mark.parametrize(
    ("counts", "n_repeats"), [([1, 2], 1), ([1, 2, -3], 1), ([0, 0, 0], 1), ([1, 2, 3], 0), (5, 1)]
)
def test_simulate_refuses(counts, n_repeats):
    with pytest.raises(ValueError, match=r"GRR.simulate"):
        GRR(categories=3).simulate(counts, n_repeats)


# -- OLH --------------------------------------------------------------------------------------
FIELDS = [2, 3, 4, 5, 7, 8, 9, 16, 25, 27, 32, 49]


@pytest.mark.parametrize("g", FIELDS)
def test_fields_obey_their_axioms(g):
    field = FiniteField(g)
    x = np.arange(g)
    a, b = np.meshgrid(x, x)
    np.testing.assert_array_equal(np.sort(field.add(a, b), axis=0)[:, 0], x)
    np.testing.assert_array_equal(field.subtract(field.add(a, b), b), a)
    np.testing.assert_array_equal(field.multiply(a, b), field.multiply(b, a))
    np.testing.assert_array_equal(field.multiply(x[1:], field.invert(x[1:])), 1)
    for c in range(min(g, 6)):
        c = np.full_like(a, c)
        left = field.multiply(c, field.add(a, b))
        np.testing.assert_array_equal(left, field.add(field.multiply(c, a), field.multiply(c, b)))
        left = field.multiply(c, field.multiply(a, b))
        np.testing.assert_array_equal(left, field.multiply(field.multiply(c, a), b))


def test_a_file_claims_no_field_that_takes_hours():
    field = FiniteField(7)
    field.order = 1 << 41
    with pytest.raises(ValueError, match=r"must have 2 to 2\*\*40 elements, got 2199023255552"):
        field.__check_state__()


@pytest.mark.parametrize("order", [0, 1, 6, 12, 36, 1025])
def test_there_is_no_such_field(order):
    assert (prime_power(27), prime_power(97), prime_power(order)) == ((3, 3), (97, 1), None)
    with pytest.raises(ValueError, match="There is no finite field"):
        FiniteField(order)
    with pytest.raises(ValueError, match=r"no finite field|hash_range"):
        OLH(categories=3, hash_range=order).privatize([1])


def olh_variance(epsilon, hash_range="auto"):
    """Return n Var at frequency 0."""
    return OLH(epsilon, hash_range=hash_range).channel(9).noise(1).null_variance


@pytest.mark.parametrize(("g", "n_var"), [(3, 3.770), (4, 3.692), (5, 3.822)])
def test_olh_variance_at_epsilon_1(g, n_var):
    """METHODS gives the values."""
    assert olh_variance(1.0, g) == pytest.approx(n_var, abs=5e-4)


def test_best_hash_range_at_epsilon_1():
    assert OLH(1.0).channel(9).configuration["hash_range"] == 4
    assert OLH(categories=9).fit([0]).hash_range_ == 4


@pytest.mark.parametrize("epsilon", np.linspace(0.05, 7, 15), ids="{:.3f}".format)
def test_no_hash_range_is_better_than_the_chosen_one(epsilon):
    candidates = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 101, 256, 1009)
    others = [olh_variance(epsilon, g) for g in candidates]
    assert olh_variance(epsilon) <= min(others) * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "g"), [(0.1, 2), (0.4, 2), (0.41, 3), (1.0, 4), (2.2, 10)])
def test_mixing_takes_the_integer_closest_to_the_ideal_hash_range(epsilon, g):
    """That is OLH as published; 10 is no field order: linear functions take 9 or 11."""
    assert OLH(epsilon, categories=9, hash_family="mixing").fit([0]).hash_range_ == g
    assert OLH(2.2, categories=9).fit([0]).hash_range_ in (9, 11)
    for ideal, orders in ((55.6, [53, 59]), (8.9, [8, 9]), (1.5, [2])):
        assert field_orders_beside(ideal) == orders


@pytest.mark.parametrize("limit", [1 << 19, 300, 1])
@pytest.mark.parametrize("g", [2, 3, 4, 9, 53])
@pytest.mark.parametrize("d", [2, 9, 10, 200])
def test_decoding_equals_brute_force(g, d, limit, monkeypatch):
    """Decoding agrees with the definition, whether all digits are contracted, some, or none."""
    monkeypatch.setattr("sklearn_ldp.oracles._local_hashing._SMALL_TABLE", limit)
    monkeypatch.setattr("sklearn_ldp.oracles._local_hashing._CELLS_PER_CATEGORY", 0)
    channel = OLH(hash_range=g).channel(d)
    assert channel.n_tried == channel.n_digits - 1 or channel.tally_size <= limit
    reports = OLH(categories=d, hash_range=g, random_state=0).privatize(np.arange(500) % d)
    hashed = channel.hash(reports[:, :1], np.arange(d))
    expected = (hashed == reports[:, 1:]).sum(axis=0)
    np.testing.assert_array_equal(channel.count_support(reports), expected)
    parts = np.stack([channel.tally(reports[:200]), channel.tally(reports[200:])])
    assert parts.shape == (2, channel.tally_size)
    np.testing.assert_array_equal(channel.decode(parts).sum(axis=0), expected)


@pytest.mark.parametrize("epsilon", slow_but([0.01, 9.0], [0.01, 6.0, 9.0, 15.0]))
def test_olh_at_extreme_budgets(epsilon, seed):
    """A huge epsilon means g in the thousands, where decoding must not need a table of g**3.

    Error rate 1e-8: a z test of each of 20 categories.
    """
    counts = np.arange(1, 21) * 100
    oracle = OLH(epsilon, categories=20, random_state=seed)
    oracle.fit(np.arange(20), sample_weight=counts)
    truth = counts / counts.sum()
    z = (oracle.frequencies_ - truth) / np.sqrt(oracle.noise_.variance(truth))
    assert np.abs(z).max() < 6.2


# -- refused arguments ----------------------------------------------------------------------------
@pytest.mark.parametrize("make", [OLH, GRR, ColumnOracle, MarginalOracle])
def test_epsilon_alone_is_given_by_position(make):
    what = "categories" if make in (OLH, GRR) else "domains"
    with pytest.raises(TypeError, match=r"too many positional arguments. Write .*\(epsilon, "):
        make(1.0, ["a", "b"])
    assert list(inspect.signature(make).parameters)[:2] == ["epsilon", what]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ColumnOracle(True, domains={"a": 2}).fit([[0], [1]]),
        lambda: PrivatizedColumns(True, domains={"a": 2}).fit([[0], [1]]),
        lambda: LabelDPClassifier(epsilon=True).fit([[0], [1]], [0, 1]),
        lambda: LDPNaiveBayes(epsilon=True).fit([[0], [1]], [0, 1]),
    ],
)
def test_true_is_no_budget(make):
    expected = r"'epsilon' parameter .* in the range .* Got True instead"
    with pytest.raises(ValueError, match=expected):
        make()


@pytest.mark.parametrize("X", [[["a", "b"], ["a", "a"]], pd.DataFrame({"x": ["a"], "y": ["b"]})])
def test_two_columns_for_a_domain_of_one(X):
    expected = r"OLH expects one column, got 2.*X\['column'\].*ColumnOracle\(domains="
    with pytest.raises(ValueError, match=expected):
        OLH(1.0, categories=["a", "b"]).fit(X)
    joint = OLH(1.0, categories=[("a", "b"), ("a", "a")])
    assert joint.fit([["a", "b"], ["a", "a"]]).n_samples_seen_ == 2
    with pytest.raises(ValueError, match=r"'x'.* select them with a ColumnTransformer"):
        PrivatizedColumns(1.0, domains={"x": ["a", "b"]}).privatize(X)


def test_reports_that_do_not_fit_in_memory(monkeypatch):
    """NumPy's own sentence is about an array: what to do is that of an oracle."""

    def too_many(*args, **kwargs):
        raise MemoryError("Unable to allocate 93.1 GiB for an array with shape (5000000, 20000)")

    monkeypatch.setattr("sklearn_ldp._core.mechanisms.protocol.privatize", too_many)
    with pytest.raises(MemoryError, match=r"2 reports of OUE .* in batches, or use OLH"):
        OUE(1.0, categories=3).privatize([0, 1])


def test_a_survey_without_noise_is_no_division_by_zero():
    survey = ColumnOracle(50.0, domains={"a": 3, "b": 4}, random_state=0)
    assert survey.fit([[0, 1]] * 100).sampling_probabilities_.tolist() == [0.5, 0.5]


# -- what leaves a client, and what a server takes ----------------------------------------------
@pytest.mark.parametrize(
    ("oracle", "secret"),
    [
        (GRR(1.0, categories=["n", "y"]), "SECRET"),
        (OLH(1.0, categories=[1, 2]), "SECRET"),
        (GRR(1.0, categories=["n", "y"]), ["SECRET"]),
        (GRR(1.0, categories=[["n", "y"], [1, 2]]), ("n", "SECRET")),
        (ColumnOracle(1.0, domains={"a": ["n", "y"], "b": 3}), ("SECRET", 1)),
    ],
    ids=str,
)
def test_errors_of_clients_say_where_and_not_what(oracle, secret):
    """Logs of clients are sent to collectors; `fit` is a simulation, and shows the value."""
    values = np.empty(3, dtype=object)
    values[:] = [secret] * 3
    if isinstance(secret, tuple):
        values = np.array([list(secret)] * 3, dtype=object)
    with pytest.raises(ValueError, match="unknown category at position 0") as caught:
        oracle.privatize(values)
    assert "SECRET" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    with pytest.raises(ValueError, match="SECRET"):
        oracle.fit(values)


def test_a_client_with_a_seed_is_warned():
    client = GRR(1.0, categories=2)  # which gives no warning, that would be an error
    assert len(client.privatize([0, 1])) == client.fit([0, 1]).n_samples_seen_ == 2
    with pytest.warns(PrivacyWarning, match="predictable reports, which protect no user"):
        client.set_params(random_state=0).privatize([0, 1])


def test_values_do_not_go_to_other_processes(monkeypatch):
    """A process backend writes large arrays to files, which survive a kill."""
    oracle = OUE(1.0, categories=1000, random_state=0, n_jobs=2)
    kind, seen = type(oracle.channel()), []
    count = kind.count_support

    def watched(self, reports):
        seen.append(os.getpid())
        return count(self, reports)

    monkeypatch.setattr(kind, "count_support", watched)
    with joblib.parallel_config(backend="loky"):
        oracle.fit(np.arange(60_000) % 1000)
    assert len(seen) > 1
    assert set(seen) == {os.getpid()}


def forged(oracle, change):
    """An oracle whose counts somebody has changed."""
    counts = oracle._state.counts
    tallies, sizes = counts.tallies.copy(), counts.sizes.copy()
    change(tallies, sizes)
    oracle._state = dataclasses.replace(oracle._state, counts=Counts(tallies, sizes))
    return oracle


def many(tallies, sizes):
    tallies *= 2**52 // sizes.sum()
    sizes *= 2**52 // sizes.sum()


def negative(tallies, sizes):
    tallies[0, 0, 0] -= 2**20


def test_what_is_merged_is_checked():
    def fitted():
        return GRR(1.0, categories=3, n_shards=1, random_state=0).fit([0, 1, 2, 2])

    before = fitted().frequencies_
    server = fitted()
    with pytest.raises(
        ValueError, match="merge refuses the other GRR, .*: a count of reports is -"
    ):
        server.merge(forged(fitted(), negative))
    np.testing.assert_array_equal(server.frequencies_, before)
    server.merge(forged(fitted(), many))
    with pytest.raises(ValueError, match=r"users of this GRR must add up to at most 2\*\*53"):
        server.merge(forged(fitted(), many))
    with pytest.raises(ValueError, match=r"users of this GRR must add up to at most 2\*\*53"):
        server.partial_fit([0], sample_weight=[2**52])
    assert 2**52 < server.n_samples_seen_ < 2**53


@pytest.mark.parametrize(
    ("n_states", "epsilon", "flipped"),
    [(3, np.log(3), 0.6), (2925, 14, 0.0024263221679834087), (3, 14, 2.494582008677539e-06)],
)
def test_randomised_response_is_that_of_attribution_reporting(n_states, epsilon, flipped):
    """Vectors of the Attribution Reporting API: a state is replaced with a random one."""
    channel = GRR(float(epsilon), categories=n_states).channel(n_states)
    assert n_states * float(channel.q) == pytest.approx(flipped, rel=1e-10)


def test_flipped_bits_are_those_of_the_distributed_aggregation_protocol():
    """A vector of draft-wang-ppm-differential-privacy, whose epsilon is that of deletion."""
    bits = np.array([2, 1, 0, 1])
    expected = [2.0006711504, 1, -0.0006711504, 1]
    for epsilon, agrees in ((16.0, True), (8.0, False)):
        channel = SUE(epsilon, categories=4).channel(4)
        p, q = float(channel.p), float(channel.q)
        counts = 2 * (bits / 2 - q) / (p - q)
        assert np.allclose(counts, expected, rtol=0, atol=1e-9) is agrees


def test_tallies_of_many_simulations_are_not_in_memory(monkeypatch):
    """The estimates are the same. Only an estimate with tallies has reports to split or test."""
    simulated = []
    for limit in (1 << 10, 40):
        monkeypatch.setattr(counts, "_MAX_CELLS", limit)
        simulated.append(HadamardResponse(1.0, random_state=0).simulate([5, 3, 2, 1], n_repeats=20))
    assert simulated[0].shards is not None
    assert simulated[1].shards is None
    np.testing.assert_allclose(simulated[0].values, simulated[1].values)
