"""Several columns, one report a user: the life of a collection, its noise, and what it refuses."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from estimators import NOISE, POSTPROCESSORS
from people import domains_of, people, same, survey
from scipy import stats
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OUE,
    ColumnOracle,
    EmpiricalBayes,
    EstimateSet,
    HeldOutSearch,
    MatrixOracle,
    Norm,
    NormSub,
    SubsetSelection,
    SyntheticSearch,
)
from sklearn_ldp.metrics import frequency_mae, frequency_mse, query_errors
from sklearn_ldp.oracles import best_oracle
from sklearn_ldp.utils._checks import check_exact_epsilon_of

DOMAINS = domains_of(20)
people = partial(people, n_states=20)
TABLE = people()
survey = partial(survey, domains=DOMAINS)


# -- what goes in and comes out -------------------------------------------------------------------
def test_the_contract():
    fitted = survey()
    estimates = fitted.fit_transform(TABLE)
    assert isinstance(estimates, EstimateSet)
    assert estimates.names == ["sex", "age", "state"]
    assert estimates["state"].shape == (1, 20)
    assert estimates["age"].categories.tolist() == [0, 1, 2, 3, 4]
    assert estimates["state"].confidence_interval(0.95).low.shape == (1, 20)
    assert same(estimates, fitted.estimate_)
    np.testing.assert_array_equal(fitted.frequencies_["sex"], estimates["sex"].values[0])
    assert fitted.n_samples_seen_ == 3000
    assert sum(part.noise.n_samples for part in estimates.values()) == 3000
    assert {part.noise.n_users for part in estimates.values()} == {3000}
    assert fitted.n_features_in_ == 3
    assert fitted.feature_names_in_.tolist() == ["sex", "age", "state"]
    assert fitted.get_feature_names_out()[:4].tolist() == ["sex_F", "sex_M", "age_0", "age_1"]
    post = make_pipeline(survey(), EmpiricalBayes()).fit_transform(TABLE)["age"]
    assert post.values.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "X",
    [
        TABLE[["state", "sex", "age"]],
        pl.from_pandas(TABLE),
        pa.Table.from_pandas(TABLE),
        TABLE.to_numpy(dtype=object),
        TABLE.to_numpy(dtype=object).tolist(),
    ],
    ids=["another order", "polars", "Arrow", "array", "list"],
)
def test_any_container_gives_the_same(X):
    assert same(survey().fit_transform(X), survey().fit_transform(TABLE))


@pytest.mark.parametrize("declare", ["auto", "dtypes"])
def test_domains_of_categorical_dtypes(declare):
    typed = TABLE.astype({"sex": pd.CategoricalDtype(["M", "F", "x"]), "age": "category"})
    typed = typed.drop(columns="state")
    fitted = survey(domains="auto" if declare == "auto" else typed.dtypes).fit(typed)
    assert fitted.estimate_["sex"].categories.tolist() == ["M", "F", "x"]
    assert fitted.feature_names_in_.tolist() == ["sex", "age"]


def test_probabilities_are_in_proportion_to_the_roots_of_variances():
    fitted = survey().fit(TABLE)
    totals = [best_oracle(2.0, d).channel().total_variance() for d in (2, 5, 20)]
    expected = np.sqrt(totals) / np.sqrt(totals).sum()
    np.testing.assert_allclose(fitted.sampling_probabilities_, expected, rtol=1e-9)
    weighted = survey(weights={"state": 4.0}).fit(TABLE).sampling_probabilities_
    roots = np.sqrt(totals) * [1, 1, 2]
    np.testing.assert_allclose(weighted, roots / roots.sum(), rtol=1e-9)
    again = survey(weights=[1, 1, 4]).fit(TABLE).sampling_probabilities_
    np.testing.assert_array_equal(weighted, again)
    # The optimum of sum V / pi, which any other choice exceeds.
    assert np.sum(totals / fitted.sampling_probabilities_) == pytest.approx(
        np.sqrt(totals).sum() ** 2
    )


def test_oracles_of_columns():
    assert type(survey().fit(TABLE).oracles_["sex"]) is GRR
    assert {type(one) for one in survey(oracle=OUE()).fit(TABLE).oracles_.values()} == {OUE}
    mixed = survey(oracle={"state": SubsetSelection(epsilon=9.0), "age": "best"}).fit(TABLE)
    assert isinstance(mixed.oracles_["state"], SubsetSelection)
    assert {one.epsilon for one in mixed.oracles_.values()} == {2.0}
    assert len(mixed.oracles_["state"].categories) == 20
    assert mixed.estimate_["state"].oracle.epsilon == 2.0


def test_whole_records_keep_epsilon():
    """Enumerated over all pairs of records, by the mechanism that the oracle makes."""
    domains = {"a": 2, "b": 3, "c": 2}
    mechanism = ColumnOracle(1.0, domains=domains, weights=[1, 2, 3]).protocol().mechanism
    records = [(a, b, c) for a in range(2) for b in range(3) for c in range(2)]
    check_exact_epsilon_of(mechanism, records, 1.0)
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(mechanism, records, 0.999)
    with pytest.raises(AssertionError, match="wasted"):
        check_exact_epsilon_of(mechanism, records, 1.001)


# -- the life of a collection ---------------------------------------------------------------------


# -- what it refuses ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (TABLE[["sex", "age"]], "misses the column 'state' of its domains in X"),
        (TABLE.assign(wage=1), "got (the column 'wage', which has|a column of) no domain"),
        (
            TABLE.to_numpy(dtype=object)[:, :2],
            "X has 2 features, but ColumnOracle is expecting 3 features",
        ),
        (TABLE["sex"].to_numpy(), "got a single column of 3000 values"),
        (TABLE.assign(sex="X"), "in the column 'sex', got (the|an) unknown category"),
        (TABLE.assign(age=7), "in the column 'age', got (the|an) unknown category"),
        (TABLE.assign(state=None), "missing value"),
        (TABLE[:0], "0 sample"),
        (pd.concat([TABLE, TABLE[["sex"]]], axis=1), "got the column 'sex' twice"),
    ],
    ids=["missing", "extra", "narrow", "1-D", "unknown", "outside", "None", "empty", "twice"],
)
@pytest.mark.parametrize("parameters", [{}, {"n_sampled": 2}], ids=str)
def test_values_that_are_refused_change_nothing(X, message, parameters):
    fitted = survey(**parameters).fit(TABLE)
    before = fitted.estimate_
    # Nor does a warning say that it costs anything.
    for method in (fitted.fit, fitted.partial_fit, fitted.privatize, fitted.transform):
        with pytest.raises(ValueError, match=message) as caught:
            method(X)
        assert "categories=" not in str(caught.value)
    assert same(before, fitted.estimate_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"domains": "auto"}, "does not know its columns yet"),
        ({"domains": [2, 3]}, "to be a mapping"),
        ({"domains": {}}, "to be a mapping"),
        ({"domains": {"sex": 1, "age": 5}}, "in the column 'sex', needs at least 2 categories"),
        ({"domains": {"sex": "open"}}, "needs a list of categories"),
        ({"oracle": {"wage": GRR()}}, "got oracle for 'wage', which is not one of its columns"),
        ({"oracle": {"age": 3}}, "an oracle for each column, got 3 for 'age'"),
        ({"oracle": "OLH"}, "'oracle' parameter"),
        ({"weights": [1, 2]}, "weight > 0 for each of its 3 columns"),
        ({"weights": {"age": 0}}, "weight > 0"),
        ({"weights": {"wage": 1}}, "got weights for 'wage'"),
        ({"weights": ["a", 1, 2]}, "weight > 0"),
        ({"n_sampled": 0}, "'n_sampled' parameter"),
        ({"n_sampled": 1.5}, "'n_sampled' parameter"),
        ({"n_sampled": 4}, "n_sampled=4 for 3 columns"),
        ({"strategy": "join"}, "'strategy' parameter"),
        ({"strategy": "split-budget", "n_sampled": 2}, "asks each user for all of their 3 columns"),
        ({"strategy": "split-budget", "epsilon": 1e-20}, "must be large enough"),
        ({"n_sampled": "auto", "epsilon": 1e-25}, "must be large enough"),
        ({"epsilon": 0}, "'epsilon' parameter"),
        ({"epsilon": np.inf}, "'epsilon' parameter"),
    ],
)
def test_parameters_that_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message) as caught:
        survey(**parameters).protocol()
    assert "categories=" not in str(caught.value)


def test_a_column_without_users_says_so():
    few = survey().fit(TABLE[:1])
    asked = [name for name, part in few.estimate_.items() if len(part)]
    assert len(asked) == 1
    (empty, *_) = [name for name in DOMAINS if name not in asked]
    assert "no users" in repr(few.estimate_)
    with pytest.raises(ValueError, match="without users"):
        few.estimate_[empty].confidence_interval()
    processed = NormSub().fit_transform(few.estimate_)
    assert len(processed[empty]) == 0
    assert list(few.frequencies_) == asked
    assert list(NormSub().fit(few.estimate_).frequencies_) == asked


# -- noise ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def collections():
    """Many collections of the same 500 users at epsilon 3, through clients and servers."""
    table = people(500, seed=1)
    oracle = survey(epsilon=3.0, random_state=np.random.default_rng(2), n_shards=1, oracle=GRR())
    return [oracle.fit_transform(table) for _ in range(600)], oracle.true_frequencies(table)


def coverage(collections, name, noise_of):
    """How often intervals of 95 % hold in a column, and the number of cases."""
    estimates, truth = collections
    covered = []
    for one in estimates:
        part = one[name]
        part = part.with_values(part.values, noise=noise_of(part.noise))
        low, high = part.confidence_interval(0.95)
        covered.append(((low <= truth[name]) & (truth[name] <= high))[0])
    return np.mean(covered, axis=0), len(covered)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sex", "age"])
def test_intervals_cover(collections, name):
    """Each category between 92 and 98.5 % (error rate 1e-3 at a coverage of 95 to 96.5 %).

    The negative control is the noise without the sampling term, at this epsilon.
    """
    right, n = coverage(collections, name, lambda noise: noise)
    assert n == 600
    assert np.all((right > 0.92) & (right < 0.985)), right
    wrong, _ = coverage(collections, name, lambda noise: noise.of_reports())
    assert np.all(wrong[collections[1][name] > 0.05] < 0.9), wrong  # rare ones have little of it


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sex", "age"])
def test_variance_and_bias(collections, name):
    """Of standardised errors, each at 1e-6; without the sampling term the variance is too small."""
    estimates, truth = collections

    def errors(noise_of):
        return np.array(
            [
                (one[name].values[0] - truth[name])
                / np.sqrt(noise_of(one[name].noise).variance(truth[name]))
                for one in estimates
            ]
        )

    right, wrong = errors(lambda noise: noise), errors(lambda noise: noise.of_reports())
    n = len(right)
    assert np.all(np.abs(right.mean(axis=0)) * np.sqrt(n) < stats.norm.isf(5e-7))
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], n) / n
    assert np.all((right**2).mean(axis=0) > low)
    assert np.all((right**2).mean(axis=0) < high)
    assert np.all((wrong**2).mean(axis=0)[truth[name] > 0.05] > high)


@pytest.mark.slow
def test_variances_of_the_columns_of_adult(shared_data):
    """Total variances by the formula in every categorical column, over 20,000 collections.

    Within 3 %: three standard errors of a binary column, more of others.
    """
    adult = pd.read_csv(shared_data("ADULT_TRAIN.csv.gz"), keep_default_na=False)
    table = adult.select_dtypes(exclude="number")
    domains = {name: sorted(set(table[name])) for name in table}
    # The oracle that is the quickest to simulate.
    oracle = ColumnOracle(2.0, domains=domains, oracle=OUE(), random_state=0)
    counts = {name: table[name].value_counts().reindex(domains[name]).to_numpy() for name in table}
    n, n_repeats = len(table), 20_000
    assert (n, len(counts)) == (32_561, 9)
    simulated, split = oracle.simulate(counts, n_repeats), oracle.protocol().mechanism
    found = []
    for name, channel, pi in zip(counts, split.mechanisms, split.probabilities, strict=True):
        f = counts[name] / n
        reports = np.sum(channel.variances(f)) / pi
        sampling = np.sum(f * (1 - f)) * (1 / pi - 1)
        measured = n * np.mean(np.sum((simulated[name].values - f) ** 2, axis=1))
        assert measured == pytest.approx(reports + sampling, rel=0.03), name
        if sampling > 0.1 * reports:  # the negative control, where it has power
            found.append(name)
            assert measured != pytest.approx(reports, rel=0.03), name
    assert {"sex", "income"} <= set(found)


@pytest.mark.parametrize("oracle", [GRR(), MatrixOracle()])
def test_simulated_collections_are_like_real_ones(oracle):
    """Standardised errors have mean square 1, at 1e-6; half of the users asked is found."""
    truth = survey().true_frequencies(people(500, seed=1))
    counts = {name: np.rint(500 * f).astype(int) for name, f in truth.items()}
    simulated = survey(epsilon=3.0, oracle=oracle).simulate(counts, 600)
    assert simulated["sex"].shape == (600, 2)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 600) / 600
    for name in ("sex", "age"):
        part = simulated[name]
        squares = (part.values - truth[name]) ** 2 / part.noise.variance(truth[name])
        assert np.all((squares.mean(axis=0) > low) & (squares.mean(axis=0) < high))
        halved = squares.mean(axis=0) / 2
        assert np.all(halved < low)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"sex": [1, 1]}, "counts for each of its columns 'sex', 'age', 'state'"),
        ({"sex": [1, 1], "age": [2] * 5, "state": [1] * 20}, "as many users in each column"),
        ({"sex": [10, 10], "age": [4] * 4, "state": [1] * 20}, "one number for each of its 5"),
        ({"sex": [1, 1], "age": [2, 0, 0, 0, 0], "state": [2] + [0] * 19}, "too few"),
    ],
)
def test_counts_that_are_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        survey().simulate(counts)


def test_of_a_population():
    """Drawing the users, and then whom to ask, is one draw of those who are asked."""
    part = survey().fit_transform(TABLE)["sex"]
    n, m = part.noise.n_users, part.noise.n_samples
    low, high = part.confidence_interval(of="population")
    alone = part.with_values(part.values, noise=part.noise.of_reports())
    low_alone, high_alone = alone.confidence_interval(of="population")
    assert m < n
    np.testing.assert_allclose(high - low, high_alone - low_alone, rtol=1e-3)
    assert np.all(part.confidence_interval().high < high)


def test_detection_counts_whom_one_asked():
    """Categories at the threshold are called above it no more often than stated."""
    truth = survey().true_frequencies(people(500, seed=1))
    counts = {name: np.rint(500 * f).astype(int) for name, f in truth.items()}
    ages = survey(epsilon=3.0, oracle=GRR()).simulate(counts, 600)["age"]
    threshold = float(np.max(truth["age"])) + 1e-9
    found = ages.detected(0.95, threshold=threshold).mask.any(axis=1)
    assert found.mean() < 0.09  # 4.5 standard errors above 5 %
    assert ages.detected(0.95, threshold=0.01).mask[:, 1].mean() > 0.9  # it has power


# -- post-processors, searches and metrics --------------------------------------------------------
ESTIMATES = survey(oracle=GRR()).fit_transform(TABLE)


@pytest.mark.parametrize("post", POSTPROCESSORS, ids=repr)
def test_every_post_processor_takes_a_set_part_by_part(post):
    fitted = clone(post).fit(ESTIMATES)
    assert isinstance(fitted.estimate_, EstimateSet)
    for name, part in ESTIMATES.items():
        alone = clone(post).fit_transform(part)
        np.testing.assert_array_equal(fitted.estimate_[name].values, alone.values)
        np.testing.assert_array_equal(fitted.frequencies_[name], alone.values[0])
        assert fitted.estimate_[name].postprocessors == alone.postprocessors
    assert same(fitted.transform(ESTIMATES), fitted.estimate_)
    assert same(clone(post).transform(ESTIMATES), fitted.estimate_)
    assert len(fitted.get_feature_names_out()) == 27
    with pytest.raises(ValueError, match="got one that is called 'wage'"):
        fitted.transform(EstimateSet({"wage": ESTIMATES["age"]}))
    # Fitted to one estimate afterwards, it has forgotten the set.
    assert fitted.fit(ESTIMATES["age"]).frequencies_.shape == (5,)
    assert not hasattr(fitted, "estimators_")


@pytest.mark.parametrize(
    "search",
    [
        HeldOutSearch([Norm(), NormSub()]),
        HeldOutSearch([Norm(), NormSub()], n_splits=1, method="bootstrap"),
        SyntheticSearch([Norm(), NormSub()], n_repeats=3, random_state=0),
        pytest.param(HeldOutSearch(), marks=pytest.mark.slow),
        pytest.param(HeldOutSearch(n_splits=1, method="bootstrap"), marks=pytest.mark.slow),
        pytest.param(SyntheticSearch(n_repeats=2, random_state=0), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_every_search_takes_a_set_part_by_part(search):
    fitted = clone(search).fit(ESTIMATES)
    for name, part in ESTIMATES.items():
        alone = clone(search).fit(part)
        np.testing.assert_array_equal(fitted.estimate_[name].values, alone.estimate_.values)
        assert fitted.estimators_[name].best_index_ == alone.best_index_
    assert same(fitted.transform(ESTIMATES), fitted.estimate_)


def test_errors_say_which_part_they_are_about():
    with pytest.raises(ValueError, match="In the part 'sex': NormHyb|In the part 'sex': "):
        EmpiricalBayes().fit(NormSub().fit_transform(ESTIMATES))
    bad = clone(POSTPROCESSORS[3]).set_params(alpha=-1)
    with pytest.raises(ValueError, match="alpha"):
        bad.fit(ESTIMATES)


def test_metrics_take_a_set_part_by_part():
    truth = survey().true_frequencies(TABLE)
    for metric in (frequency_mse, frequency_mae, query_errors):
        errors = metric(truth, ESTIMATES)
        assert list(errors) == list(DOMAINS)
        for name, error in errors.items():
            np.testing.assert_array_equal(error, metric(truth[name], ESTIMATES[name]))
    with pytest.raises(ValueError, match="the truth of each part, by name"):
        frequency_mse({"sex": [0.5, 0.5]}, ESTIMATES)


def test_held_out_parts_know_whom_one_asked():
    part = ESTIMATES["state"]
    _, noise = part.shards.estimate(np.arange(5))
    assert noise.n_users == 3000
    assert noise.n_samples < part.noise.n_samples
    assert noise.of_reports() != NOISE
