"""Several columns, of which users report on one, some or all: estimates, noise, and refusals."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from estimators import NOISE, POSTPROCESSORS, slow_but
from people import domains_of, people, same, survey
from scipy import stats
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    BaseCut,
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
from sklearn_ldp._core.mechanisms.coins import SeededCoins
from sklearn_ldp.metrics import frequency_mae, frequency_mse, query_errors
from sklearn_ldp.oracles import best_oracle

DOMAINS = domains_of(20)
people = partial(people, n_states=20)
TABLE = people()
survey = partial(survey, domains=DOMAINS)
STRATEGIES = {
    "one": {},
    "two": {"n_sampled": 2},
    "all": {"n_sampled": 3},
    "split": {"strategy": "split-budget"},
}


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


@pytest.mark.parametrize("name", STRATEGIES)
def test_estimates_of_all_strategies(name):
    """Within 5.5 standard errors; and shards can be held out."""
    fitted = survey(epsilon=4.0, **STRATEGIES[name]).fit(TABLE)
    truth = fitted.true_frequencies(TABLE)
    for key, part in fitted.estimate_.items():
        error = np.abs(part.values[0] - truth[key]) / np.sqrt(part.noise.variance(truth[key]))
        assert np.all(error < 5.5), key
    better = HeldOutSearch([NormSub(), Norm()]).fit_transform(fitted.estimate_)
    assert better["state"].values.sum() == pytest.approx(1)


def test_one_column_a_user_has_the_form_that_it_had():
    """Reports, digests and configurations of n_sampled=1 do not depend on how it is asked for."""
    usual = ColumnOracle(1.0, domains=DOMAINS, random_state=0)
    auto = clone(usual).set_params(n_sampled="auto")
    assert usual.protocol().configuration == auto.protocol().configuration
    assert usual.protocol().mechanism.report_fields[0].name == "part"
    np.testing.assert_array_equal(usual.privatize(TABLE), auto.privatize(TABLE))
    merged = usual.fit(TABLE).merge(auto.fit(TABLE[::-1]))
    assert merged.n_samples_seen_ == 6000


def test_number_of_columns():
    fitted = survey(n_sampled=2).fit(TABLE)
    assert fitted.n_sampled_ == 2
    assert fitted.sampling_probabilities_.sum() == pytest.approx(2)
    assert {oracle.epsilon for oracle in fitted.oracles_.values()} == {1.0}
    binary = {f"answer {i}": 2 for i in range(20)}
    for epsilon, best in ((1.0, 1), (2.0, 1), (4.0, 2), (8.0, 4)):
        oracle = ColumnOracle(epsilon, domains=binary, n_sampled="auto", random_state=0)
        oracle.fit(np.zeros((5, 20), dtype=int))
        assert oracle.n_sampled_ == best
    ordinary = ColumnOracle(8.0, domains=binary, n_sampled="auto", oracle=OLH(), random_state=0)
    assert ordinary.fit(np.zeros((5, 20), dtype=int)).n_sampled_ > 1


def test_a_column_that_matters_is_always_asked_for():
    fitted = survey(n_sampled=2, weights={"sex": 1e6}).fit(TABLE)
    assert fitted.sampling_probabilities_[0] == 1
    part = fitted.estimate_["sex"]
    assert part.noise.n_samples == part.noise.n_users == 3000
    assert part.noise.curvature == 0


def test_split_budgets():
    fitted = survey(strategy="split-budget", weights=[1, 2, 3]).fit(TABLE)
    assert fitted.n_sampled_ == 3
    assert fitted.sampling_probabilities_.tolist() == [1, 1, 1]
    budgets = np.array([oracle.epsilon for oracle in fitted.oracles_.values()])
    assert budgets.sum() == pytest.approx(2, rel=1e-12)
    assert np.all(np.diff(budgets) > 0)
    alone = survey(strategy="split-budget", domains={"age": 5}).fit(TABLE[["age"]])
    assert alone.oracles_["age"].epsilon == 2.0
    given = survey(strategy="split-budget", oracle={"state": OUE(), "age": GRR()}).fit(TABLE)
    assert isinstance(given.oracles_["state"], OUE)
    assert given.estimate_["state"].oracle.epsilon == given.oracles_["state"].epsilon


# -- what it refuses ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (TABLE[["sex", "age"]], "has a domain for the column 'state', but X has no such column"),
        (
            TABLE.assign(wage=1),
            "'wage', which has no domain|without a domain|'wage', needs at least 2 categ",
        ),
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
def test_values_that_are_refused_change_nothing(X, message):
    fitted = survey().fit(TABLE)
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
        ({"domains": "auto"}, "has no columns yet"),
        ({"domains": [2, 3]}, "needs domains= to be a mapping"),
        ({"domains": {}}, "needs domains= to be a mapping"),
        ({"domains": {"sex": 1, "age": 5}}, "in the column 'sex', needs at least 2 categories"),
        ({"domains": {"sex": "open"}}, "needs a list of categories"),
        ({"oracle": {"wage": GRR()}}, "got oracle for 'wage', which is not one of its columns"),
        ({"oracle": {"age": 3}}, "an oracle for each column, got 3 for the column 'age'"),
        ({"oracle": "OLH"}, "'oracle' parameter"),
        ({"weights": [1, 2]}, "finite weight for each of its 3 columns"),
        ({"weights": {"age": 0}}, "positive, finite weight"),
        ({"weights": {"wage": 1}}, "got weights for 'wage'"),
        ({"weights": ["a", 1, 2]}, "positive, finite weight"),
        ({"n_sampled": 0}, "'n_sampled' parameter"),
        ({"n_sampled": 1.5}, "'n_sampled' parameter"),
        ({"n_sampled": 4}, "n_sampled=4 of 3 columns"),
        ({"strategy": "join"}, "'strategy' parameter"),
        ({"strategy": "split-budget", "n_sampled": 2}, "asks each user for all 3 columns"),
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


def standardised(oracle, table, repeats, noise_of=lambda noise: noise):
    """Squared errors over their variances, of each category, in collections of the same users."""
    truth, protocol = oracle.true_frequencies(table), oracle.protocol()
    mechanism, codes = protocol.mechanism, protocol.domain.encode(table, "test")
    coins = SeededCoins(np.random.default_rng([17, 4]))  # not the seed of the values
    reports = mechanism.privatize(np.tile(codes, (repeats, 1)), coins)
    tallies = np.array([mechanism.tally(one) for one in np.split(reports, repeats)])
    decoded, errors = mechanism.decode(tallies), []
    for j, f in enumerate(truth.values()):
        values, noise = mechanism.mechanisms[j].estimate_decoded(*mechanism.decoded_on(decoded, j))
        noise = noise_of(noise.of_sample(len(table)))
        errors.append((values - f) ** 2 / noise.variance(f))
    return np.concatenate(errors, axis=1)


@pytest.mark.parametrize("name", STRATEGIES)
def test_variance_and_coverage(name):
    """Mean squares of standardised errors at 1e-6 each, and coverage of 95 % by five errors."""
    repeats = 400
    errors = standardised(
        survey(**STRATEGIES[name], epsilon=5.0, oracle=GRR()), people(300, seed=1), repeats
    )
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], repeats) / repeats
    means = errors.mean(axis=0)
    assert np.all((means > low) & (means < high))
    common = slice(0, 5)  # rare categories have skewed errors
    covered = np.mean(errors < 1.96**2, axis=0)[common]
    assert np.all(np.abs(covered - 0.95) < 5 * np.sqrt(0.05 * 0.95 / repeats))
    assert not np.any(means / 2 > low)  # the negative control: twice the variance


def test_noise_needs_the_sampling_term():
    """At epsilon 6 with two columns of three; the negative control is the noise without it."""
    oracle, table = survey(n_sampled=2, epsilon=6.0, oracle=GRR()), people(400, seed=2)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 400) / 400
    right = standardised(oracle, table, 400).mean(axis=0)
    assert np.all((right > low) & (right < high))
    without = standardised(oracle, table, 400, lambda noise: noise.of_reports()).mean(axis=0)
    assert np.all(without[:5] > high)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one", "two", "split"])
def test_simulated_variance_is_within_three_percent_of_the_formula(name):
    """n Var of 20,000 collections: each category at 4 standard errors, the columns' sums at 3 %."""
    n, oracle = 5000, survey(**STRATEGIES[name], epsilon=4.0, oracle=GRR())
    truth = oracle.true_frequencies(people(n, seed=3))
    counts = {key: np.rint(n * f).astype(int) for key, f in truth.items()}
    simulated, mechanism = oracle.simulate(counts, 20_000), oracle.protocol().mechanism
    pis = mechanism.probabilities
    for (key, of_column), part, pi in zip(counts.items(), mechanism.mechanisms, pis, strict=True):
        f = of_column / n
        formula = part.variances(f) / pi + f * (1 - f) * (1 / pi - 1)
        measured = n * np.mean((simulated[key].values - f) ** 2, axis=0)
        np.testing.assert_allclose(measured, formula, rtol=0.045)
        assert measured.sum() == pytest.approx(formula.sum(), rel=0.03)


def test_samples_of_columns_have_their_probabilities():
    """Numbers of users asked, real and simulated, within 6 standard errors."""
    oracle = survey(n_sampled=2, weights=[1, 3, 2])
    pis = oracle.fit(TABLE).sampling_probabilities_
    asked = np.array([part.noise.n_samples for part in oracle.estimate_.values()])
    assert asked.sum() == 6000
    assert np.all(np.abs(asked - 3000 * pis) <= 6 * np.sqrt(3000 * pis * (1 - pis)))
    truth = oracle.true_frequencies(TABLE)
    counts = {key: np.rint(3000 * f).astype(int) for key, f in truth.items()}
    simulated = oracle.simulate(counts, 50)
    drawn = np.array([part.noise.n_samples for part in simulated.values()])
    assert np.all(drawn.sum(axis=0) == 6000)
    spread = np.sqrt(3000 * pis * (1 - pis) / 50)
    assert np.all(np.abs(drawn.mean(axis=1) - 3000 * pis) <= 6 * spread)


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
        ({"sex": [1, 1]}, "counts must be a mapping with the keys 'sex', 'age', 'state'"),
        (
            {"sex": [1, 1], "age": [2] * 5, "state": [1] * 20},
            "same number of users in each column",
        ),
        ({"sex": [10, 10], "age": [4] * 4, "state": [1] * 20}, "one number for each of its 5"),
        (
            {"sex": [1, 1], "age": [2, 0, 0, 0, 0], "state": [2] + [0] * 19},
            "was asked for",
        ),
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


@pytest.mark.parametrize(
    "post",
    slow_but([NormSub(), BaseCut(noise=0.05), EmpiricalBayes(noise=0.05)], POSTPROCESSORS),
    ids=repr,
)
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
    with pytest.raises(ValueError, match="got a set with the estimate 'wage'"):
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
    with pytest.raises(
        ValueError, match="In the estimate named 'sex': NormHyb|In the estimate named 'sex': "
    ):
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
    with pytest.raises(ValueError, match="the true frequencies of each part"):
        frequency_mse({"sex": [0.5, 0.5]}, ESTIMATES)


def test_held_out_parts_know_whom_one_asked():
    part = ESTIMATES["state"]
    _, noise = part.shards.estimate(np.arange(5))
    assert noise.n_users == 3000
    assert noise.n_samples < part.noise.n_samples
    assert noise.of_reports() != NOISE
