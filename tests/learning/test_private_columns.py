"""PrivatizedColumns: epsilon of whole records, unbiased indicators, a usual transformer."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators import slow_but
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_ldp import GRR, OLH, OUE, ColumnOracle, PrivacyWarning, SubsetSelection
from sklearn_ldp.collection import read_reports, write_reports
from sklearn_ldp.learning import CorrectedRidge, PrivatizedColumns
from sklearn_ldp.utils._checks import check_exact_epsilon_of
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

DOMAINS = {"sex": ["F", "M"], "age": 3}
RECORDS = list(product(range(2), range(3)))


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(0, 3, n)})


# -- privacy and bias, by enumeration -------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("oracle", ["best", OUE()], ids=repr)
def test_epsilon_of_whole_records_is_exact(oracle, epsilon):
    columns = PrivatizedColumns(epsilon, domains=DOMAINS, oracle=oracle)
    mechanism = columns.protocol().mechanism.for_enumeration()
    check_exact_epsilon_of(mechanism, RECORDS, epsilon)


def expected_indicators(transformer, code, **changed):
    """The mean of what a reader returns over all reports that a record can make."""
    law = exact_report_distribution(transformer.protocol().mechanism, code)
    reports, chances = np.array(list(law)), np.array(list(map(float, law.values())))
    reader = clone(transformer).set_params(input="reports", **changed)
    return chances @ reader.fit(reports).transform(reports)


@pytest.mark.parametrize(
    "oracle",
    slow_but(["best", OUE()], ["best", OUE(), SubsetSelection(), {"sex": OUE()}]),
    ids=repr,
)
def test_the_indicators_are_unbiased(oracle):
    transformer = PrivatizedColumns(1.5, domains=DOMAINS, oracle=oracle)
    for sex, age in RECORDS:
        truth = np.r_[np.eye(2)[sex], np.eye(3)[age]]
        mean = expected_indicators(transformer, (sex, age))
        np.testing.assert_allclose(mean, truth, atol=1e-12)
        np.testing.assert_array_equal(transformer.true_indicators([["FM"[sex], age]]), truth[None])
    wrong = expected_indicators(transformer, RECORDS[0], epsilon=1.6)  # the negative control
    assert np.abs(wrong - [1, 0, 1, 0, 0]).max() > 0.02


def test_the_budget_goes_to_columns_by_their_variance():
    """And the whole of it to a single one."""
    shares = PrivatizedColumns(3.0, domains={"a": 2, "b": 50}).fit([[0, 0]]).oracles_
    assert shares["a"].epsilon < shares["b"].epsilon
    assert 3.0 * (1 - 1e-12) < shares["a"].epsilon + shares["b"].epsilon <= 3.0
    one = PrivatizedColumns(domains={"age": 3}, oracle=GRR())
    check_exact_epsilon_of(one.protocol().mechanism, [(0,), (1,), (2,)], 1.0)
    assert one.fit([[0]]).oracles_["age"].epsilon == 1.0
    for code in range(3):
        np.testing.assert_allclose(expected_indicators(one, (code,)), np.eye(3)[code], atol=1e-12)


def test_hashed_reports_are_unbiased_and_have_the_stated_variance():
    """50 categories, means of 40,000 users: z tests of each at an error rate of 1e-7 in all."""
    transformer = PrivatizedColumns(2.0, domains={"state": 50}, oracle=OLH(), random_state=0)
    Z = transformer.fit_transform(np.full((40_000, 1), 7))
    channel = transformer.oracles_["state"].channel()
    truth = np.eye(50)[7]
    z = (Z.mean(axis=0) - truth) / np.sqrt(channel.variances(truth) / 40_000)
    assert np.abs(z).max() < 6
    assert np.abs((Z.mean(axis=0) - np.eye(50)[8]) / Z.std(axis=0) * 200).max() > 6  # the twin


# -- reports --------------------------------------------------------------------------------------
def test_reports_are_those_of_a_column_oracle(tmp_path):
    X = people(3000)
    transformer = PrivatizedColumns(2.0, domains=DOMAINS, random_state=0)
    reports = transformer.privatize(X)
    server = PrivatizedColumns(2.0, domains=DOMAINS, input="reports")
    Z = server.fit_transform(reports)
    np.testing.assert_array_equal(Z, transformer.fit_transform(X))
    write_reports(tmp_path / "reports.jsonl", reports, transformer.protocol())
    survey = ColumnOracle(2.0, domains=DOMAINS, strategy="split-budget")
    again = read_reports(tmp_path / "reports.jsonl", survey)
    # Files are shuffled; sums do not care.
    np.testing.assert_allclose(server.transform(again).sum(axis=0), Z.sum(axis=0))
    estimates = survey.aggregate(again).estimate_
    together = np.concatenate([estimates[name].values[0] for name in DOMAINS])
    np.testing.assert_allclose(Z.mean(axis=0), together, atol=1e-12)


def test_reports_as_floats_or_frames_are_read():
    transformer = PrivatizedColumns(2.0, domains=DOMAINS, random_state=0)
    reports = transformer.privatize(people(50))
    Z = transformer.fit_transform(people(50))
    server = clone(transformer).set_params(input="reports")
    frame = pd.DataFrame(reports, columns=["a", "b"])
    mixed = ColumnTransformer([("private", server, ["a", "b"])], remainder="passthrough")
    done = mixed.fit_transform(frame.assign(income=0.5))
    np.testing.assert_array_equal(done[:, :-1], Z)
    np.testing.assert_array_equal(server.fit_transform(reports.astype(float)), Z)


def test_memory_of_chunks_does_not_change_the_result(monkeypatch):
    transformer = PrivatizedColumns(domains={"a": 30, "b": 5}, random_state=0)
    X = np.random.default_rng(0).integers(0, 5, (500, 2))
    whole = transformer.fit_transform(X)
    monkeypatch.setattr("sklearn_ldp.learning._private_columns._CHUNK_CELLS", 64)
    np.testing.assert_array_equal(clone(transformer).fit_transform(X), whole)


# -- as a transformer -----------------------------------------------------------------------------
def test_names_slices_and_containers():
    X = people(100)
    transformer = PrivatizedColumns(domains=DOMAINS, random_state=0).fit(X[["age", "sex"]])
    names = ["sex_F", "sex_M", "age_0", "age_1", "age_2"]
    assert transformer.get_feature_names_out().tolist() == names
    assert transformer.feature_names_in_.tolist() == ["sex", "age"]
    assert transformer.slices_ == {"sex": range(2), "age": range(2, 5)}
    assert transformer.n_features_in_ == 2
    Z = transformer.transform(X)
    for other in (X[["age", "sex"]], X.to_numpy(), X.to_numpy().tolist(), pl.from_pandas(X)):
        np.testing.assert_array_equal(transformer.transform(other), Z)
    for container in ("pandas", "polars"):
        framed = clone(transformer).set_output(transform=container).fit_transform(X)
        assert list(framed.columns) == names
        np.testing.assert_array_equal(framed.to_numpy(), Z)


def test_declared_levels_need_no_domains():
    X = people(100).astype({"sex": "category"})
    X["age"] = pd.Categorical(X["age"], categories=[0, 1, 2, 3])
    transformer = PrivatizedColumns(random_state=0).fit(X)
    assert transformer.get_feature_names_out()[-1] == "age_3"
    assert transformer.transform(X).shape == (100, 6)


def test_randomness():
    X = people(200)
    secure = PrivatizedColumns(domains=DOMAINS)
    assert not np.array_equal(secure.privatize(X), secure.privatize(X))
    seeded = PrivatizedColumns(domains=DOMAINS, random_state=3)
    np.testing.assert_array_equal(seeded.privatize(X), seeded.privatize(X))
    going_on = PrivatizedColumns(domains=DOMAINS, random_state=np.random.default_rng(0))
    assert not np.array_equal(going_on.privatize(X), going_on.privatize(X))


def test_an_epsilon_that_protects_no_user_is_not_silent():
    with pytest.warns(PrivacyWarning, match="PrivatizedColumns with epsilon=50 protects no user"):
        PrivatizedColumns(50.0, domains=DOMAINS).fit_transform(people(20))


def test_the_same_rows_twice_are_not_silent():
    X = people(200)
    transformer = PrivatizedColumns(domains=DOMAINS)
    transformer.fit_transform(X)
    transformer.transform(people(200, seed=1))  # new users: silent
    with pytest.warns(PrivacyWarning, match="users spend epsilon=1 again"):
        transformer.transform(X)
    assert "_released" not in pickle.loads(pickle.dumps(transformer)).__dict__
    transformer.fit(X).transform(X)  # fit has released nothing
    reports = transformer.privatize(X)
    server = PrivatizedColumns(domains=DOMAINS, input="reports")
    server.fit_transform(reports)
    server.transform(reports)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([["F", 3]], "in the column 'age'"),
        ([["F", np.nan]], "in the column 'age'"),
        ([[None, 1]], "in the column 'sex'"),
        (pd.DataFrame({"sex": ["F"]}), "has a domain for the column 'age'"),
        (
            pd.DataFrame({"sex": ["F"], "age": [0], "town": [1]}),
            "(no|without a) domain|'town', needs at least 2",
        ),
        ([["F"]], "X has 1 features, but PrivatizedColumns is expecting 2"),
    ],
)
def test_bad_values_are_refused(X, message):
    transformer = PrivatizedColumns(domains=DOMAINS).fit(people(10))
    for call in (transformer.transform, transformer.fit, transformer.privatize):
        with pytest.raises(ValueError, match=message) as error:
            call(X)
        assert "PrivatizedColumns" in str(error.value)


def test_bad_parameters_and_reports_are_refused():
    for read in (
        lambda: PrivatizedColumns().privatize(people(3)),
        lambda: PrivatizedColumns(input="reports").fit([[0, 0]]),
        lambda: PrivatizedColumns().true_indicators(people(3)),
    ):
        with pytest.raises(ValueError, match="PrivatizedColumns has no columns yet"):
            read()
    with pytest.raises(ValueError, match="cannot have made these reports"):
        PrivatizedColumns(domains=DOMAINS, input="reports").fit([[0, 99]])
    with pytest.raises(ValueError, match="'epsilon' parameter of PrivatizedColumns"):
        PrivatizedColumns(0.0, domains=DOMAINS).fit(people(3))
    with pytest.raises(ValueError, match="'epsilon' parameter of PrivatizedColumns"):
        PrivatizedColumns(np.inf, domains=DOMAINS).fit(people(3))
    with pytest.raises(ValueError, match="PrivatizedColumns needs domains= to be a mapping"):
        PrivatizedColumns(domains=["a", "b"]).fit(people(3))


@pytest.mark.filterwarnings("ignore:CorrectedRidge predicts from randomized rows")
def test_the_contract():
    rng = np.random.default_rng(0)
    states = ["CA", "NY", "TX"]
    X = pd.DataFrame({"state": rng.choice(states, 3000), "age": rng.normal(size=3000)})
    y = 2.0 * (X.state == "CA") + X.age + rng.normal(size=3000)
    private = PrivatizedColumns(epsilon=1.0, domains={"state": states}, random_state=0)
    pipe = make_pipeline(
        ColumnTransformer([("private", private, ["state"])], remainder="passthrough"),
        CorrectedRidge(private=[range(len(states))], alpha=1.0),
    )
    assert pipe.fit(X, y).predict(X[:5]).shape == (5,)
    assert pipe[:-1].get_feature_names_out().tolist()[0] == "private__state_CA"
    assert pipe[-1].coef_[0] == max(pipe[-1].coef_[:3])
    key = "columntransformer__private__epsilon"
    search = GridSearchCV(pipe, {key: [0.1, 8.0], "correctedridge": [pipe[-1], Ridge()]}, cv=3)
    assert search.fit(X, y).best_params_[key] == 8.0
