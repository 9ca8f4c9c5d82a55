"""Encoders of categories: frequencies and rates from any estimate, in any Pipeline."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sklearn_ldp import (
    OUE,
    ColumnOracle,
    Consistent,
    Domain,
    EstimateSet,
    FrequencyEstimate,
    LatentClasses,
    MarginalOracle,
    NormSub,
)
from sklearn_ldp.learning import FrequencyEncoder, RateEncoder
from sklearn_ldp.surveys._rates import plain_rates, shrunken_rates
from sklearn_ldp.utils.estimator_checks import expected_failed_checks

STATES = FrequencyEstimate([[0.5, 0.3, 0.25, -0.05]], ["CA", "TX", "NY", "WY"])
SMOKES = FrequencyEstimate([[0.9, 0.1]], [0, 1])
JOINT = FrequencyEstimate([[0.1, 0.2, 0.3, 0.4]], [("F", 0), ("F", 1), ("M", 0), ("M", 1)])
SURVEY = EstimateSet({"state": STATES, "smokes": SMOKES})
FRAME = pd.DataFrame({"state": ["NY", "WY", "CA"], "smokes": [1, 0, 1]})
EXPECTED = np.array([[0.25, 0.1], [-0.05, 0.9], [0.5, 0.1]])


# -- one estimate ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "X",
    [
        ["NY", "WY", "CA"],
        np.array([["NY"], ["WY"], ["CA"]]),
        FRAME["state"],
        FRAME[["state"]],
        FRAME["state"].astype("category"),
        pl.Series(["NY", "WY", "CA"]),
        pl.DataFrame({"state": ["NY", "WY", "CA"]}),
        pa.table({"state": ["NY", "WY", "CA"]}),
    ],
    ids=lambda X: f"{type(X).__module__}.{type(X).__name__}",
)
def test_values_from_any_container(X):
    encoder = STATES.encoder()
    assert isinstance(encoder, FrequencyEncoder)
    encoded = encoder.transform(X)
    np.testing.assert_array_equal(encoded, EXPECTED[:, :1])
    assert encoded.dtype == np.float64
    np.testing.assert_array_equal(encoder.fit_transform(X), encoded)


def test_many_values_are_looked_up_as_one_by_one():
    """Numbers without gaps, numbers with gaps, and texts take ways of their own."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 1000, 200_000)
    frequencies = rng.dirichlet(np.ones(1000))
    for categories in (np.arange(1000), np.arange(1000) ** 2, np.arange(1000).astype(str)):
        encoder = FrequencyEstimate([frequencies], categories).encoder()
        np.testing.assert_array_equal(
            encoder.transform(categories[codes])[:, 0], frequencies[codes]
        )


def test_joint_categories():
    encoder = JOINT.encoder()
    assert encoder.n_features_in_ == 2
    frame = pd.DataFrame({"sex": ["M", "F"], "smokes": [0, 1]})
    expected = [[0.3], [0.2]]
    np.testing.assert_array_equal(encoder.transform(frame), expected)
    np.testing.assert_array_equal(encoder.transform([["M", 0], ["F", 1]]), expected)
    np.testing.assert_array_equal(encoder.transform(pd.Series([("M", 0), ("F", 1)])), expected)
    assert encoder.fit(frame).get_feature_names_out().tolist() == ["sex_smokes_frequency"]
    with pytest.raises(ValueError, match=r"got \('M', 2\) in 'sex', 'smokes', which is none of"):
        encoder.transform(frame.assign(smokes=[2, 0]))


def test_names():
    encoder = STATES.encoder()
    assert encoder.get_feature_names_out().tolist() == ["x0_frequency"]
    assert encoder.get_feature_names_out(["state"]).tolist() == ["state_frequency"]
    assert not hasattr(encoder, "feature_names_in_")
    encoder.fit(FRAME[["state"]])
    assert encoder.feature_names_in_.tolist() == ["state"]
    assert encoder.get_feature_names_out().tolist() == ["state_frequency"]
    with pytest.raises(ValueError, match="was fitted to 'state', got 'smokes'"):
        encoder.transform(FRAME[["smokes"]])
    with pytest.raises(ValueError, match="1 columns of X, got 2"):
        encoder.get_feature_names_out(["a", "b"])


# -- sets -----------------------------------------------------------------------------------------
def test_columns_of_a_set_go_by_name():
    encoder = SURVEY.encoder()
    assert encoder.n_features_in_ == 2
    assert encoder.feature_names_in_.tolist() == ["state", "smokes"]
    for X in (FRAME, FRAME[["smokes", "state"]], pl.from_pandas(FRAME), FRAME.to_numpy()):
        np.testing.assert_array_equal(encoder.transform(X), EXPECTED)
    one = SURVEY.encoder(["smokes"])
    np.testing.assert_array_equal(one.transform(FRAME[["smokes"]]), EXPECTED[:, 1:])
    frame = encoder.set_output(transform="pandas").transform(FRAME)
    assert frame.columns.tolist() == ["state_frequency", "smokes_frequency"]


def test_tables_take_several_columns():
    domains = {"sex": ["F", "M"], "smokes": 2}
    users = pd.DataFrame({"sex": ["F", "M"] * 500, "smokes": [0, 1, 1, 1] * 250})
    tables = MarginalOracle(4.0, domains=domains, random_state=0).fit_transform(users)
    encoder = tables.encoder()
    assert "sex_smokes_frequency" in encoder.get_feature_names_out()
    encoded = encoder.transform(users[["smokes", "sex"]].head(3))
    pair = tables["sex", "smokes"].values[0]
    at = encoder.get_feature_names_out().tolist().index("sex_smokes_frequency")
    np.testing.assert_array_equal(encoded[:, at], [pair[0], pair[3], pair[1]])
    # The same estimates in a set that knows no domains.
    np.testing.assert_array_equal(EstimateSet(dict(tables)).encoder().transform(users[:3]), encoded)


# -- as scikit-learn's ----------------------------------------------------------------------------
@pytest.mark.parametrize("encoder", [STATES.encoder(), SURVEY.encoder(), JOINT.encoder()])
def test_copies_keep_the_estimate(encoder):
    X = [["M", 1]] if encoder.n_features_in_ == 2 else ["TX"]
    X = [["TX", 0]] if encoder.estimate is SURVEY else X
    expected = encoder.transform(X)
    for copy in (clone(encoder), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_array_equal(copy.transform(X), expected)
        assert type(copy.get_params()["estimate"]) is type(encoder.estimate)


WIDTHS = (1, 2, 3, 4, 5, 10)  # what the data of the checks have


@pytest.mark.parametrize("unknown", ["error", "use_encoded_value"])
def test_checks_of_scikit_learn(unknown):
    """Each passes with as many columns as its data have, but for one, and the table says so."""
    some = FrequencyEstimate([np.full(16, 1 / 16)], range(-6, 10))
    passed, failed = set(), set()
    for width in WIDTHS:
        encoder = FrequencyEncoder(
            EstimateSet(dict.fromkeys(range(width), some)),
            handle_unknown=unknown,
            unknown_value=0.0,
        )
        listed = expected_failed_checks(encoder)
        for result in check_estimator(encoder, expected_failed_checks=listed, on_skip=None):
            name = result["check_name"]
            (passed if result["status"] == "passed" else failed).add(name)
    # Checks of older versions turn categories into fractions.
    of_versions = {"check_array_api_input", "check_positive_only_tag_during_fit"}
    assert failed - passed - of_versions == {"check_n_features_in"}


def test_in_a_pipeline_on_other_data():
    """A private survey of the states, a public table of customers."""
    rng = np.random.default_rng(0)
    names = [f"s{i}" for i in range(200)]
    frequencies = rng.dirichlet(np.full(200, 0.3))
    estimate = OUE(2.0, categories=names, random_state=0).fit_transform(
        rng.choice(names, 20_000, p=frequencies)
    )
    codes = rng.integers(200, size=1000)
    frame = pd.DataFrame({"state": np.array(names)[codes], "age": rng.normal(size=1000)})
    y = frequencies[codes] > 0.02
    features = ColumnTransformer(
        [("state", NormSub().fit_transform(estimate).encoder(), ["state"])], remainder="passthrough"
    )
    model = make_pipeline(features, LogisticRegression(C=1e6)).fit(frame, y)
    assert model.score(frame, y) > max(0.95, y.mean(), 1 - y.mean() + 0.02)
    assert features.fit(frame).get_feature_names_out().tolist() == [
        "state__state_frequency",
        "remainder__age",
    ]


# -- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("X", "said"),
    [
        (
            ["CA", "Utah"],
            r"got 'Utah', which is none of the 4 categories 'CA', 'TX', 'NY', \.\.\.: ",
        ),
        (["CA", None], "contains NaN .or another missing value.*impute it, or pass handle_unknown"),
        (["CA", float("nan")], "contains NaN"),
        ([["CA", "TX"]], "X has 2 features, but FrequencyEncoder is expecting 1 features"),
        ([], "0 sample"),
    ],
)
def test_values_that_are_none(X, said):
    with pytest.raises(ValueError, match=said):
        STATES.encoder().transform(X)
    with pytest.raises(ValueError, match=said):
        STATES.encoder().fit(X)


def test_unknown_values_may_stand_for_something():
    encoder = STATES.encoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    np.testing.assert_array_equal(
        encoder.transform(["CA", "Utah", None])[:, 0], [0.5, np.nan, np.nan]
    )
    both = SURVEY.encoder(handle_unknown="use_encoded_value", unknown_value=0.0)
    np.testing.assert_array_equal(both.transform([["Utah", 1], ["TX", 2]]), [[0, 0.1], [0.3, 0]])
    with pytest.raises(ValueError, match="needs an unknown_value, such as"):
        STATES.encoder(handle_unknown="use_encoded_value").transform(["CA"])
    with pytest.raises(ValueError, match="'handle_unknown' parameter"):
        STATES.encoder(handle_unknown="ignore").transform(["CA"])


def test_a_category_may_be_missing():
    encoder = FrequencyEstimate([[0.8, 0.2]], ["yes", None]).encoder()
    np.testing.assert_array_equal(encoder.transform(["yes", None, np.nan])[:, 0], [0.8, 0.2, 0.2])


def test_columns_that_a_set_does_not_have():
    encoder = SURVEY.encoder()
    with pytest.raises(ValueError, match="X has no column 'smokes'; FrequencyEncoder encodes the"):
        encoder.transform(FRAME[["state"]])
    with pytest.raises(ValueError, match="a column that it does not encode, 'age'.*ColumnTransf"):
        encoder.transform(FRAME.assign(age=1))
    with pytest.raises(KeyError, match="no part 'age'"):
        SURVEY.encoder(["age"])
    with pytest.raises(ValueError, match="got 2 in 'smokes', which is none of the 2 categories"):
        encoder.transform(FRAME.assign(smokes=2))


def test_estimates_that_say_nothing_or_too_much():
    many = FrequencyEstimate([[0.5, 0.5], [0.4, 0.6]], ["a", "b"])
    nobody = FrequencyEstimate(np.empty((0, 2)), ["a", "b"])
    with pytest.raises(ValueError, match=r"2 rows; select one first: estimate\[0\].encoder"):
        many.encoder()
    with pytest.raises(ValueError, match="no users have answered"):
        nobody.encoder()
    for part, said in ((many, r"2 rows in estimates\['x'\]: select"), (nobody, "leave it out")):
        with pytest.raises(ValueError, match=said):
            EstimateSet({"y": SMOKES, "x": part}).encoder()
    encoder = EstimateSet({"y": SMOKES, "x": nobody}).encoder(["y"])
    assert encoder.transform([[1]]).item() == 0.1


# -- rates ----------------------------------------------------------------------------------------
def a_population(d, spread, n, seed, base=0.3):
    """Users of a column of d categories, of which some are rare, and a target."""
    rng = np.random.default_rng(seed)
    margins = rng.dirichlet(np.full(d, 0.5))
    rates = rng.beta(base * spread, (1 - base) * spread, d)
    codes = rng.choice(d, n, p=margins)
    return np.column_stack([codes, rng.random(n) < rates[codes]]).astype(int), rates, margins


def rate_errors(d, spread, epsilon, seed, n=20_000, process=None):
    """Squared errors of smoothed and plain rates, and of the overall one, by the users' shares."""
    users, rates, margins = a_population(d, spread, n, seed)
    oracle = MarginalOracle(epsilon, domains={"x": d, "y": 2}, random_state=seed)
    tables = oracle.fit_transform(users)
    if process is not None:
        tables = process.fit_transform(tables)
    encoders = [tables.encoder(target={"y": 1}, smooth=smooth) for smooth in (True, False)]
    found = [encoder.transform(np.arange(d))[:, 0] for encoder in encoders]
    assert all(np.all((of >= 0) & (of <= 1)) for of in found)
    found.append(np.full(d, encoders[0].overall_rate))
    return [np.sum(margins * (of - rates) ** 2) for of in found]


@pytest.mark.parametrize(
    ("d", "spread", "epsilon", "of_plain", "of_one", "n"),
    [
        (40, 5.0, 1.0, 0.7, 0.9, 10),
        (40, 5.0, 3.0, 0.8, 0.3, 10),
        (100, 20.0, 2.0, 0.4, 1.0, 6),
        (60, 1e4, 2.0, 0.3, 1.5, 10),
        (8, 5.0, 1.0, 0.99, 0.4, 25),
        (4, 5.0, 1.0, 1.6, 0.25, 25),
    ],
)
def test_smoothed_rates_are_better(d, spread, epsilon, of_plain, of_one, n, seed):
    """In sums over n populations of rates that differ much, little, or hardly at all.

    At most these shares of the errors of ratios, and of the overall rate for all. The former is 0.7
    for eight categories and 0.8 for four, and strays by 0.06 and 0.15 between seeds: bounds are
    five times that away. Where rates hardly differ, the overall rate is the truth.
    """
    errors = [rate_errors(d, spread, epsilon, 100 * seed + i) for i in range(n)]
    smoothed, plain, one_for_all = np.sum(errors, axis=0)
    assert smoothed < of_plain * plain
    assert smoothed < of_one * one_for_all


def errors_at(scale, seed):
    """Squared errors of rates with gaussian noise, if its variance is taken as `scale` times it."""
    rng = np.random.default_rng(seed)
    margins, std, total = rng.dirichlet(np.full(50, 0.7)), 0.003, 0.0
    for _ in range(40):
        rates = rng.beta(3, 7, 50)
        cells = np.array([(1 - rates) * margins, rates * margins]) + std * rng.normal(size=(2, 50))
        overall = rates @ margins
        of_gap = scale * std**2 * ((1 - overall) ** 2 + overall**2) * np.ones(50)
        of_margin = scale * 2 * std**2 * np.ones(50)
        found = shrunken_rates(cells[1], cells.sum(axis=0), overall, of_gap, of_margin)
        total += np.sum(margins * (found - rates) ** 2)
    return total


def test_the_noise_decides_how_much(seed):
    """The negative control: with a variance that is 25 times too large or small, rates are worse.

    By a tenth or more; over 40 draws of 50 rates the difference strays by 2 %.
    """
    right = errors_at(1.0, seed)
    assert errors_at(25.0, seed) > 1.1 * right
    assert errors_at(0.04, seed) > 1.1 * right


def test_without_noise_rates_are_ratios():
    """Where there is nothing to smooth, smoothing changes nothing."""
    joint, margins = np.array([0.1, 0.05, 0.2]), np.array([0.2, 0.5, 0.3])
    none = np.full(3, 1e-14)
    np.testing.assert_allclose(shrunken_rates(joint, margins, 0.35, none, none), joint / margins)
    # And the same with much noise is nearly the overall rate.
    much = np.full(3, 1.0)
    np.testing.assert_allclose(shrunken_rates(joint, margins, 0.35, much, none), 0.35, atol=0.01)


def test_shrinking_is_the_mean_over_spreads():
    """Against the sum over a fine grid of tau."""
    rng = np.random.default_rng(0)
    margins, overall, variance = rng.dirichlet(np.full(8, 9.0)), 0.4, np.full(8, 0.01**2)
    joint = margins * np.clip(overall + 0.1 * rng.normal(size=8), 0, 1)
    gaps, mean_square = joint - overall * margins, margins**2 + 0.003**2
    tau = np.linspace(1e-5, np.sqrt(0.24), 20_001)[:, None]
    between = tau**2 * (1 - 2 * margins + margins @ margins)
    total = between * mean_square + variance
    likelihood = np.prod(np.exp(-(gaps**2) / total / 2) / np.sqrt(total), axis=1)
    weights = likelihood / likelihood.sum()
    expected = overall + weights @ (between * margins * gaps / total)
    found = shrunken_rates(joint, margins, overall, variance, np.full(8, 0.003**2))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_rates_that_differ_have_the_variance_around_their_mean():
    """1 - 2 m + sum of m**2 times that of one: at 200,000 draws to 3 %."""
    rng = np.random.default_rng(0)
    margins = np.array([0.6, 0.3, 0.1])
    rates = rng.normal(size=(200_000, 3))
    found = (rates - (rates @ margins)[:, None]).var(axis=0)
    np.testing.assert_allclose(found, 1 - 2 * margins + margins @ margins, rtol=0.03)


def test_margins_that_are_not_there_have_the_overall_rate():
    margins = np.array([0.9, 0.1, 0.0, -0.05, 0.005])
    joint, variance = np.array([0.5, 0.08, 0.02, 0.1, 0.008]), np.full(5, 0.01**2)
    rates = shrunken_rates(joint, margins, 0.55, variance, variance, 1000)
    assert rates[2:4].tolist() == [0.55] * 2
    assert 0.55 < rates[4] < 0.65  # its ratio is 1.6
    assert rates[1] > 0.6
    assert plain_rates(joint, margins, 0.55)[2:].tolist() == [0.55, 0.55, 1.0]


TABLE_USERS = a_population(6, 4.0, 5000, seed=1)[0]
TABLES = MarginalOracle(
    4.0, domains={"x": list("abcdef"), "z": 2, "y": ["no", "yes"]}, random_state=0
).fit_transform(
    pd.DataFrame(
        {
            "x": np.array(list("abcdef"))[TABLE_USERS[:, 0]],
            "z": TABLE_USERS[:, 0] % 2,
            "y": np.array(["no", "yes"])[TABLE_USERS[:, 1]],
        }
    )
)


def test_rates_of_tables():
    encoder = TABLES.encoder(target={"y": "yes"})
    assert isinstance(encoder, RateEncoder)
    assert encoder.feature_names_in_.tolist() == ["x", "z"]
    assert encoder.get_feature_names_out().tolist() == ["x_rate", "z_rate"]
    assert encoder.overall_rate == pytest.approx(TABLES.answer({"y": "yes"}).item())
    frame = pd.DataFrame({"z": [0, 1], "x": ["f", "a"]})
    rates = encoder.transform(frame)
    assert rates.tolist() == [
        [encoder.rates["x"]["f"], encoder.rates["z"][0]],
        [encoder.rates["x"]["a"], encoder.rates["z"][1]],
    ]
    no = TABLES.encoder(["x"], target={"y": ["no"]}).transform(frame[["x"]])
    np.testing.assert_allclose(no, 1 - rates[:, :1], atol=1e-3)
    light = pickle.dumps(encoder)
    assert len(light) < 3000  # it carries rates, not tables
    np.testing.assert_array_equal(clone(pickle.loads(light)).transform(frame), rates)


@pytest.mark.parametrize("process", [Consistent(), LatentClasses()], ids=repr)
def test_processed_tables_have_plain_ratios(process):
    tables = process.fit_transform(TABLES)
    encoder = tables.encoder(target={"y": "yes"})
    cells = tables["x", "y"].values.reshape(6, 2)
    np.testing.assert_allclose(list(encoder.rates["x"].values()), cells[:, 1] / cells.sum(axis=1))


def test_consistent_tables_with_their_noise_are_smoothed():
    tables = Consistent(non_negative=False).fit_transform(TABLES)
    rates = [tables.encoder(target={"y": "yes"}, smooth=s).rates["x"] for s in (True, False)]
    overall = tables.encoder(target={"y": "yes"}).overall_rate
    smoothed, plain = (np.array(list(one.values())) for one in rates)
    assert np.all(np.abs(smoothed - overall) <= np.abs(plain - overall) + 1e-12)
    assert np.any(np.abs(smoothed - plain) > 1e-4)


def test_rates_of_larger_tables():
    users = np.column_stack([TABLE_USERS[:, 0] % 2, TABLE_USERS[:, 0] // 2, TABLE_USERS[:, 1]])
    domains = {"a": 2, "b": 3, "y": 2}
    oracle = MarginalOracle(6.0, domains=domains, order=[("a", "b", "y")], random_state=0)
    tables = NormSub().fit_transform(oracle.fit_transform(users))
    name = max(tables, key=lambda name: tables[name].shape[1])
    cells = tables[name].values.reshape(2, 3, 2)
    encoder = tables.encoder(["b"], target={"y": 1})
    of_b = cells.sum(axis=0)
    np.testing.assert_allclose(list(encoder.rates["b"].values()), of_b[:, 1] / of_b.sum(axis=1))


def test_rates_of_values_that_are_none():
    encoder = TABLES.encoder(["x"], target={"y": "yes"}, handle_unknown="use_encoded_value")
    assert encoder.transform(["g", None]).ravel().tolist() == [encoder.overall_rate] * 2
    assert encoder.set_params(unknown_value=0.5).transform(["g"]).item() == 0.5
    with pytest.raises(ValueError, match="got 'g' in 'x', which is none of the 6 categories"):
        encoder.set_params(handle_unknown="error").transform(["g"])
    with pytest.raises(ValueError, match="at least one column"):
        RateEncoder({}, 0.5).transform(["g"])


@pytest.mark.parametrize(
    ("columns", "target", "said"),
    [
        (None, {"y": "yes", "z": 1}, "A target is one column and its category"),
        (None, {"w": 1}, "There is no column 'w'"),
        (None, {"y": "maybe"}, "maybe"),
        (["w"], {"y": "yes"}, "no table of 'w' and the target 'y'"),
        (["y"], {"y": "yes"}, "no table of 'y' and the target 'y'"),
    ],
)
def test_rates_that_no_table_has(columns, target, said):
    with pytest.raises(ValueError, match=said):
        TABLES.encoder(columns, target=target)


def test_rates_need_a_table_of_two_columns():
    oracle = MarginalOracle(2.0, domains={"x": 6, "y": 2}, order=1, random_state=0)
    with pytest.raises(ValueError, match="no table of 'x' and the target 'y', which rates are"):
        oracle.fit_transform(TABLE_USERS).encoder(target={"y": 1})


def test_surveys_of_columns():
    oracle = ColumnOracle(4.0, domains={"x": 6, "y": 2}, random_state=0)
    estimates = NormSub().fit_transform(oracle.fit_transform(TABLE_USERS))
    encoded = estimates.encoder().transform(TABLE_USERS[:5])
    np.testing.assert_array_equal(encoded[:, 0], estimates["x"].values[0][TABLE_USERS[:5, 0]])


def test_numbers_are_encoded_by_the_bins_that_were_collected():
    rng = np.random.default_rng(0)
    ages = rng.uniform(18, 80, 20_000)
    users = np.column_stack([ages, rng.random(20_000) < np.where(ages > 50, 0.8, 0.2)])
    domains = {"age": Domain.bins([30, 50]), "ill": 2}
    tables = MarginalOracle(4.0, domains=domains, random_state=0).fit_transform(users)
    rates = tables.encoder(["age"], target={"ill": 1})
    np.testing.assert_allclose(rates.transform([[25.0], [70.0]]).ravel(), [0.2, 0.8], atol=0.1)
    survey = ColumnOracle(4.0, domains=domains, random_state=0).fit_transform(users)
    frequencies = survey.encoder(["age"]).transform([[35.0], [20.0]]).ravel()
    np.testing.assert_allclose(frequencies, [20 / 62, 12 / 62], atol=0.1)
