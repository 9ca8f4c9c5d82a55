"""Several columns a user, and a split budget: their life, and their noise."""

import pickle

import numpy as np
import pandas as pd
import pytest
from people import same
from scipy import stats
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    EmpiricalBayes,
    HeldOutSearch,
    Norm,
    NormSub,
    SyntheticSearch,
)
from sklearn_ldp._core.mechanisms.coins import SeededCoins
from sklearn_ldp.collection import Aggregator, RefusedBatchError, read_reports, write_reports

DOMAINS = {"sex": ["F", "M"], "age": 5, "state": 12}


def people(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    ages = rng.binomial(4, 0.4, n)
    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n, p=[0.3, 0.7]),
            "age": ages,
            "state": np.minimum(rng.geometric(0.3, n) + ages - 1, 11),
        }
    )


TABLE = people()
STRATEGIES = {
    "two": ColumnOracle(4.0, n_sampled=2),
    "all": ColumnOracle(4.0, n_sampled=3),
    "split": ColumnOracle(4.0, strategy="split-budget"),
}
KINDS = {"one": ColumnOracle(4.0), **STRATEGIES}
each_strategy = pytest.mark.parametrize("name", STRATEGIES)


def survey(name, **parameters):
    return clone(KINDS[name]).set_params(domains=DOMAINS, random_state=0, **parameters)


# -- the life of a collection ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "form"),
    [("one", "parquet"), ("two", "arrow"), ("split", "jsonl")],
)
def test_files_ledgers_and_checkpoints(name, form, tmp_path):
    client, reports = survey(name), survey(name).privatize(TABLE)
    path = tmp_path / "monday"
    write_reports(path, reports, client, batch_id="monday", format=form)
    again = read_reports(path, survey(name), format=form)
    np.testing.assert_array_equal(np.sort(again, axis=0), np.sort(reports, axis=0))
    server = Aggregator(survey(name)).add(reports, "monday")
    server.save(tmp_path / "state.npz")
    loaded = Aggregator.load(tmp_path / "state.npz", survey(name))
    assert loaded.batches == {"monday": 2000}
    assert same(loaded.estimate_, survey(name).aggregate(reports).estimate_)
    for other in KINDS.keys() - {name}:
        with pytest.raises(RefusedBatchError):
            read_reports(path, survey(other), format=form)


@each_strategy
def test_estimates_searches_and_pickles(name):
    fitted = survey(name).fit(TABLE)
    estimates = fitted.estimate_
    assert same(pickle.loads(pickle.dumps(fitted)).estimate_, estimates)
    assert estimates.names == list(DOMAINS)
    truth = fitted.true_frequencies(TABLE)
    for key, part in estimates.items():
        error = np.abs(part.values[0] - truth[key]) / np.sqrt(part.noise.variance(truth[key]))
        assert np.all(error < 5.5), key
        assert part.confidence_interval(0.95).low.shape == part.shape
    better = make_pipeline(survey(name), EmpiricalBayes()).fit_transform(TABLE)
    assert better["state"].values.sum() == pytest.approx(1)
    held_out = HeldOutSearch([Norm(), NormSub()]).fit_transform(estimates)
    assert held_out.names == estimates.names
    assert (
        HeldOutSearch([Norm(), NormSub()], n_splits=1, method="bootstrap")
        .fit_transform(estimates)["sex"]
        .shape
    )
    search = SyntheticSearch([Norm(), NormSub()], n_repeats=2, random_state=0)
    assert search.fit_transform(estimates)["state"].shape == (1, 12)


def test_one_column_a_user_has_the_form_that_it_had():
    """Reports, digests and configurations of n_sampled=1 do not depend on how it is asked for."""
    usual = ColumnOracle(1.0, domains=DOMAINS, random_state=0)
    auto = clone(usual).set_params(n_sampled="auto")
    assert usual.protocol().configuration == auto.protocol().configuration
    assert usual.protocol().mechanism.report_fields[0].name == "part"
    np.testing.assert_array_equal(usual.privatize(TABLE), auto.privatize(TABLE))
    merged = usual.fit(TABLE).merge(auto.fit(TABLE))
    assert merged.n_samples_seen_ == 4000


# -- what is asked --------------------------------------------------------------------------------
def test_number_of_columns():
    fitted = survey("two").fit(TABLE)
    assert fitted.n_sampled_ == 2
    assert fitted.sampling_probabilities_.sum() == pytest.approx(2)
    assert {oracle.epsilon for oracle in fitted.oracles_.values()} == {2.0}
    binary = {f"answer {i}": 2 for i in range(20)}
    for epsilon, best in ((1.0, 1), (2.0, 1), (4.0, 2), (8.0, 4)):
        oracle = ColumnOracle(epsilon, domains=binary, n_sampled="auto", random_state=0)
        oracle.fit(np.zeros((5, 20), dtype=int))
        assert oracle.n_sampled_ == best
    ordinary = ColumnOracle(8.0, domains=binary, n_sampled="auto", oracle=OLH(), random_state=0)
    assert ordinary.fit(np.zeros((5, 20), dtype=int)).n_sampled_ > 1


def test_a_column_that_matters_is_always_asked_for():
    fitted = survey("two", weights={"sex": 1e6}).fit(TABLE)
    assert fitted.sampling_probabilities_[0] == 1
    part = fitted.estimate_["sex"]
    assert part.noise.n_samples == part.noise.n_users == 2000
    assert part.noise.curvature == 0


def test_split_budgets():
    fitted = survey("split", weights=[1, 2, 3]).fit(TABLE)
    assert fitted.n_sampled_ == 3
    assert fitted.sampling_probabilities_.tolist() == [1, 1, 1]
    budgets = np.array([oracle.epsilon for oracle in fitted.oracles_.values()])
    assert budgets.sum() == pytest.approx(4, rel=1e-12)
    assert np.all(np.diff(budgets) > 0)
    given = survey("split", oracle={"state": OUE(), "age": GRR()}).fit(TABLE)
    assert isinstance(given.oracles_["state"], OUE)
    assert given.estimate_["state"].oracle.epsilon == given.oracles_["state"].epsilon


def test_a_single_column_has_the_whole_budget():
    for parameters in ({"strategy": "split-budget"}, {"n_sampled": "auto"}):
        oracle = ColumnOracle(2.0, domains={"age": 5}, random_state=0, **parameters)
        assert oracle.fit(TABLE[["age"]]).oracles_["age"].epsilon == 2.0


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


@pytest.mark.parametrize("name", KINDS)
def test_variance_and_coverage(name):
    """Mean squares of standardised errors at 1e-6 each, and coverage of 95 % by five errors."""
    repeats = 400
    errors = standardised(survey(name, epsilon=5.0, oracle=GRR()), people(300, seed=1), repeats)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], repeats) / repeats
    means = errors.mean(axis=0)
    assert np.all((means > low) & (means < high))
    common = slice(0, 5)  # rare categories have skewed errors
    covered = np.mean(errors < 1.96**2, axis=0)[common]
    assert np.all(np.abs(covered - 0.95) < 5 * np.sqrt(0.05 * 0.95 / repeats))
    assert not np.any(means / 2 > low)  # the negative control: twice the variance


def test_noise_needs_the_sampling_term():
    """At epsilon 6 with two columns of three; the negative control is the noise without it."""
    oracle, table = survey("two", epsilon=6.0, oracle=GRR()), people(400, seed=2)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 400) / 400
    right = standardised(oracle, table, 400).mean(axis=0)
    assert np.all((right > low) & (right < high))
    without = standardised(oracle, table, 400, lambda noise: noise.of_reports()).mean(axis=0)
    assert np.all(without[:5] > high)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "split"])
def test_simulated_variance_is_within_three_percent_of_the_formula(name):
    """n Var of 20,000 collections: each category at 4 standard errors, the columns' sums at 3 %."""
    n, oracle = 5000, survey(name, epsilon=4.0, oracle=GRR())
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
    oracle = survey("two", weights=[1, 3, 2])
    pis = oracle.fit(TABLE).sampling_probabilities_
    asked = np.array([part.noise.n_samples for part in oracle.estimate_.values()])
    assert asked.sum() == 4000
    assert np.all(np.abs(asked - 2000 * pis) <= 6 * np.sqrt(2000 * pis * (1 - pis)))
    truth = oracle.true_frequencies(TABLE)
    counts = {key: np.rint(2000 * f).astype(int) for key, f in truth.items()}
    simulated = oracle.simulate(counts, 50)
    drawn = np.array([part.noise.n_samples for part in simulated.values()])
    assert np.all(drawn.sum(axis=0) == 4000)
    spread = np.sqrt(2000 * pis * (1 - pis) / 50)
    assert np.all(np.abs(drawn.mean(axis=1) - 2000 * pis) <= 6 * spread)
