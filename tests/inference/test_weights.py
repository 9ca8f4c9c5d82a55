"""Volunteers and weights: the noise of a weighted mean, raking, and what is refused."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from estimators import POSTPROCESSORS
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    ColumnOracle,
    ExactMLE,
    FrequencyEstimate,
    HadamardResponse,
    MatrixOracle,
    NoiseModel,
    NormSub,
    SubsetSelection,
)
from sklearn_ldp._core.noise import Noise
from sklearn_ldp.inference import combine, poststratify, rake
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.queries import groups

SHARES = {"18-29": 0.2, "30-44": 0.3, "45-64": 0.3, "65+": 0.2}
USERS = np.array([2400, 1800, 900, 200])
ANSWERS = np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.3, 0.3, 0.4], [0.1, 0.2, 0.7]])
WEIGHTS = np.array(list(SHARES.values()))


def collected(oracle, users=USERS, seed=0, answers=ANSWERS, names=None):
    """An estimate of each group, of users whose answers have the expected numbers."""
    counts = np.rint(users[:, None] * answers).astype(int)
    oracle = oracle.set_params(categories=answers.shape[1], random_state=seed)
    names = list(SHARES) if names is None else names
    codes = np.tile(np.arange(answers.shape[1]), len(users))
    by = [name for name in names for _ in range(answers.shape[1])]
    return estimate_by_group(oracle, codes, by, sample_weight=counts.ravel())


@pytest.fixture(scope="module")
def by_age():
    return collected(OLH(1.0))


@pytest.mark.parametrize("oracle", [OLH(1.0), GRR(3.0), HadamardResponse(2.0), SubsetSelection(1)])
def test_the_noise_is_that_of_the_weighted_sum(oracle):
    """Every covariance is ``sum W**2 Cov``, each at the frequencies of its own group."""
    rows = collected(oracle)
    mean, queries = poststratify(rows, SHARES), np.array([[1.0, 1, 0], [1, 0, -1]])
    assert mean.is_raw
    assert mean.row_names is None
    np.testing.assert_allclose(mean.values[0], WEIGHTS @ rows.values)
    for of in (lambda noise: noise, Noise.of_population):
        parts = [of(row.noise) for row in rows]
        own = [part.frequencies_behind(row) for part, row in zip(parts, rows.values, strict=True)]
        pairs = list(zip(WEIGHTS, parts, own, strict=True))
        expected = sum(w**2 * part.at(f).matrix(queries) for w, part, f in pairs)
        elsewhere = np.array([0.0, 0, 1])  # it does not matter where it is asked
        np.testing.assert_allclose(of(mean.noise).covariance(queries, elsewhere)[0], expected)
        variance = sum(w**2 * np.ravel(part.variance(f)) for w, part, f in pairs)
        np.testing.assert_allclose(of(mean.noise).variance(elsewhere)[0], variance)
        pooled = sum(w**2 * np.ravel(part.variance(mean.values[0])) for w, part, _ in pairs)
        assert np.max(np.abs(pooled / variance - 1)) > 1e-3  # control: at those of everybody


def coverage(n_runs, seed, of, wrong=False):
    """Share of 3 n_runs intervals that cover, of groups whose users are drawn anew each time."""
    rng, covered = np.random.default_rng([seed, 49]), 0
    oracle = GRR(4.0, categories=3, random_state=np.random.RandomState(seed))
    for _ in range(n_runs):
        counts = np.array([rng.multinomial(n, f) for n, f in zip(USERS, ANSWERS, strict=True)])
        values = np.concatenate([oracle.simulate(row).values for row in counts])
        noise = oracle.channel().noise(USERS)
        rows = FrequencyEstimate(values, range(3), noise, row_names=list(SHARES))
        mean = poststratify(rows, SHARES)
        if wrong:
            noises = [row.noise for row in rows]
            mean = mean.with_values(mean.values, noise=Noise.combined(noises, WEIGHTS**0.5))
        truth = WEIGHTS @ (ANSWERS if of == "population" else counts / USERS[:, None])
        low, high = mean.confidence_interval(0.95, of=of)
        covered += np.sum((low <= truth) & (truth <= high))
    return covered / (3 * n_runs)


@pytest.mark.slow
@pytest.mark.parametrize("of", ["users", "population"])
def test_coverage(of, seed):
    """Between .91 and .985 of 450 intervals: an error rate of 1e-3, for .95 and dependent thirds.

    Negative control: variances without the squares of the weights, which are far too large.
    """
    assert 0.91 < coverage(150, seed, of) < 0.985
    assert coverage(150, seed, of, wrong=True) > 0.985


def test_weights_of_the_numbers_of_users_are_those_of_combine(by_age):
    """With a design effect of 1; that of other weights is Kish's."""
    rows = [by_age[i] for i in range(4)]
    sizes = by_age.noise.n_samples / by_age.noise.n_samples.sum()
    of_users = combine(rows, weights="users")
    of_array = combine(rows, weights=sizes)
    of_names = poststratify(by_age, dict(zip(SHARES, sizes, strict=True)))
    for one in (of_array, of_names):
        np.testing.assert_allclose(one.values, of_users.values, rtol=1e-12, atol=0)
        np.testing.assert_allclose(one.noise.std, of_users.noise.std, rtol=1e-12)
        assert one.design_effect == pytest.approx(1, abs=1e-12)
        assert one.noise.n_samples == of_users.noise.n_samples
    assert of_users.design_effect == pytest.approx(1, abs=1e-12)
    kish = USERS.sum() * np.sum(WEIGHTS**2 / USERS)
    assert poststratify(by_age, SHARES).design_effect == pytest.approx(kish)
    assert by_age.design_effect.tolist() == pytest.approx([1, 1, 1, 1])
    with pytest.raises(ValueError, match="has no noise model or no number of users"):
        FrequencyEstimate([[1.0]], ["a"]).design_effect  # noqa: B018


def test_results_go_through_everything(by_age):
    mean = poststratify(by_age, {**SHARES, "18-29": 0.0, "30-44": 0.5})
    again = pickle.loads(pickle.dumps(mean))
    assert again.noise == mean.noise
    assert mean.noise != poststratify(by_age, SHARES).noise
    for processor in POSTPROCESSORS:
        if not isinstance(processor, ExactMLE):  # of the reports of a single collection
            own = {"noise": None} if "noise" in processor.get_params() else {}
            assert clone(processor).set_params(**own).fit_transform(mean).shape == (1, 3)
    low, high = mean.confidence_interval(0.9, groups([0, 0, 1]), simultaneous=True)
    assert np.all(low < high)
    assert (mean - by_age[0]).test().p_value < 1e-5
    order = np.array([2, 0, 1])  # as tables that are turned
    f = np.array([0.2, 0.3, 0.5])
    turned = mean.noise.of_population().permuted(order)
    in_order = mean.noise.of_population().variance(f)
    np.testing.assert_allclose(turned.variance(f), in_order[:, order])
    both = combine([by_age, pickle.loads(pickle.dumps(by_age))], weights=[0.25, 0.75])
    assert both.shape == (4, 3)
    for i in range(4):
        alone = combine([by_age[i], pickle.loads(pickle.dumps(by_age[i]))], weights=[0.25, 0.75])
        np.testing.assert_allclose(both[i].noise.variance(f)[0], np.ravel(alone.noise.variance(f)))
        np.testing.assert_allclose(both[i].confidence_interval(), alone.confidence_interval())


def test_weighted_estimates_have_no_exact_counts():
    """The exact intervals of a matrix assume equal weights, and would here reach from 0 to 1."""
    oracle = MatrixOracle(1.0, categories=3, random_state=0)
    by_group = estimate_by_group(oracle, [0, 1, 2, 1] * 500, by=np.repeat(["a", "b"], [400, 1600]))
    mean = poststratify(by_group, {"a": 0.5, "b": 0.5})
    low, high = mean.confidence_interval(0.95)
    error = np.sqrt(mean.noise.variance(mean.values))
    np.testing.assert_allclose((high - low) / error, 2 * 1.96, rtol=0.05)


def test_surveys_are_weighted_part_by_part():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(2, size=4000), rng.integers(3, size=4000)])
    survey = ColumnOracle(2.0, domains={"a": 2, "b": 3}, random_state=0)
    by = np.repeat(["x", "y"], [3000, 1000])
    rows = estimate_by_group(survey, table, by)
    mean = poststratify(rows, {"x": 0.5, "y": 0.5})
    np.testing.assert_allclose(mean["b"].values[0], rows["b"].values.mean(axis=0))
    assert mean["a"].design_effect == pytest.approx(4 / 3, rel=0.05)
    assert rake(rows, {"group": {"x": 0.5, "y": 0.5}})["a"].noise == mean["a"].noise


# -- raking -----------------------------------------------------------------------------------
CELLS = [(age, sex) for age in SHARES for sex in ("F", "M")]


def in_cells(factors=(1.0, 1.0), seed=0):
    """Cells whose chance to answer is a product, but for a factor for two of them."""
    sexes, rates = np.array([0.52, 0.48]), np.array([0.6, 0.3, 0.15, 0.05])
    expected = np.outer(WEIGHTS * rates, sexes * [1.3, 1]) * 20_000
    expected[[0, 3], 0] *= factors
    answers = np.repeat(ANSWERS, 2, axis=0)
    estimate = collected(OLH(1.0), np.rint(expected.ravel()), seed, answers, CELLS)
    return estimate, np.outer(WEIGHTS, sexes).ravel()


MARGINS = {"age": SHARES, "sex": {"F": 0.52, "M": 0.48}}


def test_raking_finds_the_weights_of_the_cells():
    """Within 1 % if the chance to answer is a product; control: it is none in two cells."""
    estimate, exact = in_cells()
    by_hand = poststratify(estimate, dict(zip(CELLS, exact, strict=True)))
    raked = rake(estimate, MARGINS)
    assert raked.design_effect == pytest.approx(by_hand.design_effect, rel=0.01)
    np.testing.assert_allclose(raked.values, by_hand.values, atol=0.01 * float(raked.noise.std[0]))
    estimate, _ = in_cells(factors=(0.5, 2.0))
    by_hand = poststratify(estimate, dict(zip(CELLS, exact, strict=True)))
    raked = rake(estimate, MARGINS)
    assert np.max(np.abs(raked.values - by_hand.values)) > 0.1 * raked.noise.std


def test_raking_by_several_columns():
    """A data frame, an array and tuples name the same cells, in their order."""
    rng = np.random.default_rng(0)
    age, sex = rng.choice(["old", "young"], 900), rng.choice(["F", "M"], 900, p=[0.7, 0.3])
    oracle, values = GRR(8.0, categories=2, random_state=0), (age == "old").astype(int)
    frames = [
        pd.DataFrame({"age": age, "sex": sex}),
        np.column_stack([age, sex]),
        list(zip(age.tolist(), sex.tolist(), strict=True)),
    ]
    rows = [estimate_by_group(oracle, values, by) for by in frames]
    names = [("old", "F"), ("old", "M"), ("young", "F"), ("young", "M")]
    assert all(one.row_names.tolist() == names for one in rows)
    assert rows[0].to_frame().index.tolist() == names
    margins = {"age": {"old": 0.9, "young": 0.1}, "sex": {"F": 0.5, "M": 0.5}}
    raked = [rake(one, margins) for one in rows]
    assert raked[0].values[0, 1] == pytest.approx(0.9, abs=0.05)
    assert raked[0].values.tolist() == raked[1].values.tolist() == raked[2].values.tolist()
    traits = pd.DataFrame({"old": age == "old", "n": [1, 2] * 450})
    mixed = estimate_by_group(oracle, values, traits)
    assert mixed.row_names.tolist() == [(False, 1), (False, 2), (True, 1), (True, 2)]
    single = estimate_by_group(oracle, values, pd.DataFrame({"age": age}))
    assert single.row_names.tolist() == ["old", "young"]
    with pytest.raises(ValueError, match="missing label"):
        estimate_by_group(oracle, [0, 1], [("a", None), ("b", "c")])


def test_traits_with_the_same_values_are_told_apart_by_number():
    cells = [("yes", "yes"), ("yes", "no"), ("no", "yes"), ("no", "no")]
    rows = collected(GRR(3.0), USERS, names=cells)
    shares = {"yes": 0.8, "no": 0.2}, {"yes": 0.3, "no": 0.7}
    with pytest.raises(
        ValueError, match=r"cannot match the margins to the row names.*\{0: \{...\}, 1: \{...\}\}"
    ):
        rake(rows, dict(zip(["smokes", "drinks"], shares, strict=True)))
    one, other = rake(rows, {0: shares[0], 1: shares[1]}), rake(rows, {1: shares[0], 0: shares[1]})
    swapped = rake(rows, {1: shares[1], 0: shares[0]})
    np.testing.assert_allclose(one.values, swapped.values)
    assert np.max(np.abs(one.values - other.values)) > 0.01


# -- refusals ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({**SHARES, "0-17": 0.2}, "share 0.2 for '0-17', which is not a row.*join it with"),
        ({"18-29": 1.0}, "no entry for the row '30-44'"),
        ({**SHARES, "65+": 0.21}, "the sum 1, got shares with the sum 1.01.*divide"),
        (dict.fromkeys(SHARES, 25), "the sum 1, got shares with the sum 100"),
        ({**SHARES, "65+": -0.2, "18-29": 0.6}, "shares of the population, one finite number >= 0"),
        ({**SHARES, "65+": np.nan}, "shares of the population, one finite number >= 0"),
    ],
)
def test_shares_that_do_not_fit(by_age, shares, message):
    with pytest.raises(ValueError, match=message):
        poststratify(by_age, shares)


def test_what_cannot_be_weighted(by_age):
    poststratify(by_age, {**SHARES, "0-17": 0.0})  # nobody of it is needed
    with pytest.raises(ValueError, match="after NormSub"):
        poststratify(NormSub().fit_transform(by_age), SHARES)
    with pytest.raises(ValueError, match="a different name for each row"):
        poststratify(by_age[[0, 0, 1]], SHARES)
    nameless = FrequencyEstimate(by_age.values, range(3), by_age.noise)
    with pytest.raises(ValueError, match="a different name for each row"):
        rake(nameless, MARGINS)
    with pytest.raises(ValueError, match="without a noise"):
        poststratify(FrequencyEstimate([[1.0, 0.0]], ["a", "b"], row_names=["x"]), {"x": 1.0})
    other = collected(OLH(1.0), answers=np.full((4, 2), 0.5))
    with pytest.raises(ValueError, match="the same categories"):
        combine([by_age[0], other[1]], weights=[0.5, 0.5])
    with pytest.raises(ValueError, match="two estimates have the same reports"):
        combine([by_age, by_age], weights=[0.5, 0.5])
    with pytest.raises(ValueError, match="needs 2 shares .* for each estimate"):
        combine([by_age[0], by_age[1]], weights=[1.0])
    with pytest.raises(ValueError, match=r"(?s)in part.*estimate_by_group\(.*poststratify\("):
        GRR(categories=2).fit([0, 1], sample_weight=[1.5, 1])
    model, halves = NoiseModel(0.5, 0.25, [100, 300]), {"x": 0.5, "y": 0.5}
    rows = FrequencyEstimate([[0.5, 0.5]] * 2, ["a", "b"], model, row_names=["x", "y"])
    assert poststratify(rows, halves).design_effect == pytest.approx(4 / 3)
    with pytest.raises(ValueError, match="number of users of each"):  # which a level does not tell
        poststratify(replace(rows, noise=Noise.of_level(0.1)), halves)


@pytest.mark.parametrize(
    ("margins", "message"),
    [
        ({"age": SHARES}, "margins for the 2 traits in the row names, got margins for 1"),
        ({"age": SHARES, "sex": {"F": 1.0}}, "shares of 'sex'.*no entry for the value 'M'"),
        ({"age": SHARES, "sex": {"F": 0.5, "M": 0.6}}, "margin 'sex' needs shares with the sum 1"),
        ({"sex": MARGINS["sex"], "age": SHARES}, "shares of 'sex'.*no entry for the value '18-29'"),
        ({"age": SHARES, "sex": {"F": 0.5, "M": 0.4, "X": 0.1}}, "largest error is 0.1, for 'sex'"),
    ],
)
def test_margins_that_do_not_fit(margins, message):
    with pytest.raises(ValueError, match=message):
        rake(in_cells()[0], margins)


def test_margins_that_contradict_each_other_are_named():
    rows = collected(GRR(3.0), USERS[:2], names=[("a", "x"), ("b", "y")], answers=ANSWERS[:2])
    with pytest.raises(ValueError, match="no weights with all known shares.*for 'one'"):
        rake(rows, {"one": {"a": 0.5, "b": 0.5}, "two": {"x": 0.7, "y": 0.3}})


def test_shares_without_names_are_refused(by_age):
    with pytest.raises(TypeError, match=r"needs a mapping from the names .* got list. Pass a dict"):
        poststratify(by_age, [0.25] * 4)


@pytest.mark.parametrize("weigh", [poststratify, rake])
def test_weights_need_a_raw_estimate(weigh):
    parties = np.repeat(["a", "b"], 150)
    oracle = GRR(2.0, categories=3, random_state=0)
    processed = NormSub().fit_transform(estimate_by_group(oracle, np.arange(300) % 3, parties))
    with pytest.raises(ValueError, match=f"No {weigh.__name__} is available after NormSub"):
        weigh(processed, {"a": 0.5, "b": 0.5})
