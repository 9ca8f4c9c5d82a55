"""HeldOutSearch by a bootstrap: an unbiased comparison without shards, and its evidence."""

import numpy as np
import pytest
from estimators import slow_but
from sklearn.base import clone
from test_model_selection import COUNTS, TRUTH, an_estimate, z

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    Base,
    ColumnOracle,
    EmpiricalBayes,
    FrequencyEstimate,
    HadamardResponse,
    HeldOutSearch,
    MarginalOracle,
    MatrixOracle,
    MLEApx,
    NoiseModel,
    NormSub,
    Power,
    PowerNS,
    SubsetSelection,
    SyntheticSearch,
)
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.model_selection import default_candidates
from sklearn_ldp.model_selection._drawn_noise import correlated, plausible_frequencies
from sklearn_ldp.postprocessing import norm, norm_sub
from sklearn_ldp.queries import groups
from sklearn_ldp.surveys._consistent import linear_tables

MODEL = NoiseModel(p=0.5, q=1 / (np.e + 1), n_samples=20_000)


# -- the comparison -------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("queries", [None, groups(np.arange(128) % 9)], ids=["each", "groups"])
def test_differences_of_errors_are_unbiased(queries, seed):
    """z test at 1e-6 over 100 collections: differences to the truth, of two very unlike methods.

    Negative control: on the very estimate that the candidates saw, the raw one has no error.
    """
    rng = np.random.default_rng([seed, 1])
    truth, gaps, on_itself = COUNTS / COUNTS.sum(), [], []
    std = np.sqrt(MODEL.variance(truth))
    pair = [Base(), NormSub()]
    for i in range(100):
        search = HeldOutSearch(pair, queries=queries, noise=MODEL, n_splits=1, random_state=i)
        values = truth + std * rng.standard_normal(128)
        search.fit(values[None])
        seen = [case.estimate for case in search._make_cases(FrequencyEstimate(values, range(128)))]
        answers = [[clone(post).fit_transform(one) for post in pair] for one in seen]

        def difference(to, answers=answers):
            errors = [[query_errors(to, a, queries=queries)[0] for a in two] for two in answers]
            return np.subtract(*np.mean(errors, axis=0))

        true = difference(truth)
        gaps.append(np.subtract(*-search.results_["mean_test_score"]) - true)
        on_itself.append(difference(norm(values)) - true)
    assert z(gaps) < 4.9
    assert z(on_itself) > 4.9


def test_the_two_copies_are_independent_and_one_is_unbiased():
    """The covariance of both copies' noise is 0, category by category; 6 sigma of 800 draws."""
    rng = np.random.default_rng(0)
    std, search = 0.02, HeldOutSearch(noise=0.02, n_splits=1, random_state=rng)
    truth = np.full(20, 0.05)
    seen, response = [], []
    for _ in range(800):
        estimate = FrequencyEstimate(truth + std * rng.standard_normal(20), range(20))
        case = search._make_cases(estimate)[0]
        seen.append(norm(case.estimate.values[0]))
        response.append(case.frequencies)
    seen, response = np.array(seen) - truth, np.array(response) - truth
    unit = std**2 * (1 - 1 / 20)
    np.testing.assert_allclose(seen.var(), 1.15 * unit, rtol=0.05)
    np.testing.assert_allclose(response.var(), (1 + 1 / 0.15) * unit, rtol=0.05)
    each = np.mean(seen * response, axis=0) / (np.sqrt(1.15 * (1 + 1 / 0.15)) * unit)
    assert np.abs(each).max() < 6 / np.sqrt(800)
    assert np.mean(seen**2, axis=0).min() / unit > 6 / np.sqrt(800)  # negative control


def test_candidates_are_told_the_noise_that_they_see():
    estimate = an_estimate()
    for noise in (None, MODEL, 0.01):
        search = HeldOutSearch(method="bootstrap", noise=noise, test_size=0.21 / 1.21, n_splits=2)
        of_estimate = search._completed(estimate).noise
        cases = search._make_cases(estimate)
        assert len(cases) == 4
        for case in cases:
            told = case.estimate.noise
            assert told.std == pytest.approx(1.1 * of_estimate.std)
            np.testing.assert_allclose(told.variance(TRUTH), 1.21 * of_estimate.variance(TRUTH))
            assert case.estimate.is_raw
            assert case.estimate.shards is None
        middle = np.mean([case.estimate.values[0] for case in cases[:2]], axis=0)
        np.testing.assert_allclose(middle, estimate.values[0], atol=1e-15)


def test_each_row_has_draws_and_noise_of_its_own():
    """Of a single noise for all, and of rows with different numbers of users."""
    rows = np.tile(an_estimate().values, (3, 1))
    search = HeldOutSearch([NormSub(), Base()], noise=MODEL, n_splits=2)
    cases = search._make_cases(FrequencyEstimate(rows, range(128)))
    assert len({case.estimate.values.tobytes() for case in cases}) == 12
    fitted = search.fit(rows)
    assert fitted.frequencies_.shape == (3, 128)
    assert fitted.best_index_ == 0
    estimate = OLH(categories=128, random_state=0).simulate(COUNTS, 2)
    noise = NoiseModel(estimate.noise.p, estimate.noise.q, np.array([1000, 200_000]))
    rows = FrequencyEstimate(estimate.values, estimate.categories, noise)
    search = HeldOutSearch([Base(), NormSub()], method="bootstrap").fit(rows)
    stds = [case.estimate.noise.std for case in search._make_cases(rows)]
    np.testing.assert_allclose(stds[:8], noise.std[0] * np.sqrt(1.15))
    np.testing.assert_allclose(stds[8:], noise.std[1] * np.sqrt(1.15))
    assert search.frequencies_.shape == (2, 128)


# -- the noise ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "oracle",
    slow_but([GRR()], [OUE(), GRR(), GRR(4.0), SubsetSelection(), HadamardResponse(), OLH()]),
    ids=repr,
)
def test_drawn_noise_has_the_covariances_of_the_estimate(oracle):
    """Variances of all categories and of sums, by 1,500 draws: each is off by 6 sigma, 1e-8.

    Negative control: independent errors have another variance of the sum.
    """
    d = 12
    noise = oracle.channel(d).noise(1000)
    frequencies = np.arange(1.0, d + 1) / (d * (d + 1) / 2)
    rng = np.random.default_rng(0)

    def drawn(noise):
        draws = rng.standard_normal((1500, d))
        return np.array([correlated(noise, frequencies, draw) for draw in draws])

    rows = np.vstack([np.eye(d), np.ones(d), np.arange(d) < 5])
    found, expected = (drawn(noise) @ rows.T).var(axis=0), noise.answer_variance(rows, frequencies)
    unit = noise.variance(frequencies).sum()
    assert np.all(np.abs(found - expected) < 6 * np.sqrt(2 / 1500) * expected + 1e-3 * unit / d)
    if not isinstance(oracle, OUE | OLH):  # (nearly) independent
        alone = drawn(NoiseModel(noise.p, noise.q, noise.n_samples)).sum(axis=1).var()
        assert abs(alone - expected[d]) > 6 * np.sqrt(2 / 1500) * expected[d]


def test_more_noise_of_any_kind():
    of_users = NoiseModel(0.5, 0.25, np.array([100, 300])).scaled(1.5)
    np.testing.assert_allclose(of_users.n_samples, [100 / 1.5, 200])
    search = HeldOutSearch(noise=0.02)
    more = search._completed(FrequencyEstimate(TRUTH, range(128))).noise.scaled(4.0)
    assert more.std == pytest.approx(0.04)
    assert more.growth == 0
    assert more.n_samples is None
    np.testing.assert_allclose(more.variance(TRUTH), 0.04**2)
    exact, asked = OLH().channel(128).noise(100), np.eye(3, 128)
    fewer, ones = exact.scaled(2.0), np.ones((1, 128))
    assert fewer.n_samples == 50
    assert fewer == OLH().channel(128).noise(50.0)
    drawn = exact.of_sample(1000)
    for one, twice in ((exact, fewer), (drawn, drawn.scaled(2.0))):
        for ask in (
            lambda noise: noise.covariance(asked, TRUTH),
            lambda noise: noise.answer_variance(ones, TRUTH),
            lambda noise: noise.covariance_product(TRUTH, TRUTH),
        ):
            np.testing.assert_allclose(ask(twice), 2 * ask(one))
        assert twice.slope == pytest.approx(one.slope)
    assert drawn.scaled(2.0).support_law is None


# -- arrays and old estimates ---------------------------------------------------------------------
def test_arrays_give_what_estimates_give():
    estimate, candidates = an_estimate(), [Base(), NormSub(), EmpiricalBayes()]
    of_estimate = HeldOutSearch(candidates, n_splits=1, method="bootstrap").fit(estimate)
    search = HeldOutSearch(candidates, n_splits=1, noise=estimate.noise)
    found = search.fit_transform(estimate.values)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found[0], of_estimate.frequencies_)
    for name in ("mean_test_score", "difference_std"):
        np.testing.assert_array_equal(search.results_[name], of_estimate.results_[name])
    np.testing.assert_array_equal(search.transform(estimate.values), found)


def test_a_level_is_enough_for_most_candidates():
    search = HeldOutSearch(n_splits=1, noise=0.01).fit(an_estimate().values)
    names = [repr(one) for one in default_candidates() if not isinstance(one, MLEApx | Power)]
    assert search.results_["candidate"].tolist() == [name.removesuffix("()") for name in names]
    assert "128 categories" in repr(search.estimate_)
    with pytest.raises(ValueError, match=r"PowerNS needs .* which noise=<Noise of level 0.0107"):
        HeldOutSearch([PowerNS()], noise=0.01).fit(an_estimate().values)


def test_parts_of_surveys_without_p_and_q():
    """A column of a matrix, and a table that is made of several, do not tell what MLEApx needs."""
    rng = np.random.default_rng(0)
    users = np.column_stack([rng.integers(0, size, 3000) for size in (3, 4, 2)])
    domains = {"a": 3, "b": 4, "c": 2}
    column = ColumnOracle(3.0, oracle=MatrixOracle(), domains=domains, random_state=0)
    tables = MarginalOracle(3.0, domains=domains, random_state=0).fit_transform(users)
    columns = column.fit_transform(users)
    noise, values = columns["b"].noise, columns["b"].values[0]
    behind = columns["b"].noise.of_reports().frequencies_behind(values)
    np.testing.assert_array_equal(noise.frequencies_behind(values), behind)
    assert not np.array_equal(behind, norm_sub(values))  # the outputs tell more than the estimate
    held_out = HeldOutSearch(n_splits=1, method="bootstrap")
    for search in (held_out, SyntheticSearch(n_repeats=2)):
        assert search.fit_transform(columns)["b"].shape == (1, 4)
        assert "MLEApx" not in search.estimators_["b"].results_["candidate"]
        assert f"\nb: {search.estimators_['b']}\n" in str(search)
    combined = linear_tables(tables)["a", "b"]
    assert "MLEApx" not in clone(held_out).fit(combined).results_["candidate"]
    assert "MLEApx" in clone(held_out).fit(tables["b", "a"]).results_["candidate"]


def test_what_has_no_known_noise_is_refused():
    estimate = an_estimate()
    with pytest.raises(ValueError, match="needs the noise level, which a plain"):
        HeldOutSearch(method="bootstrap").fit(estimate.values)
    processed = NormSub().fit_transform(estimate)
    for noise in (None, MODEL):
        with pytest.raises(ValueError, match="raw estimate, got an estimate .* by NormSub. Pass"):
            HeldOutSearch(noise=noise).fit(processed)
    with pytest.raises(ValueError, match="one positive, finite noise level"):
        HeldOutSearch(noise=NoiseModel(0.5, 0.25, np.array([5, 5]))).fit(estimate)
    for wrong in ({"test_size": 0.0}, {"n_splits": 0}, {"min_z_score": -1.0}, {"noise": -0.1}):
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter"):
            HeldOutSearch(**wrong, method="bootstrap").fit(estimate)


def test_the_seed_decides():
    """Also for a search that is a candidate itself."""
    estimate, candidates = an_estimate(), [Base(), NormSub()]
    found = [
        HeldOutSearch(candidates, random_state=seed, method="bootstrap").fit(estimate).results_
        for seed in (7, 7, 8)
    ]
    first, twin, other = (results["mean_test_score"] for results in found)
    np.testing.assert_array_equal(first, twin)
    assert np.all(first != other)
    inner = SyntheticSearch(candidates, n_repeats=2, random_state=0)
    outer = HeldOutSearch([Base(), inner], n_splits=1, method="bootstrap").fit(estimate)
    assert outer.best_index_ == 1


def test_plausible_frequencies_need_not_sum_to_one():
    whole = FrequencyEstimate([[0.7, 0.6, -0.1]], list("abc"))
    np.testing.assert_allclose(plausible_frequencies(whole, whole.values[0]), [0.55, 0.45, 0])
    part = FrequencyEstimate([[0.7, 0.6, -0.1]], list("abc"), is_partial=True)
    np.testing.assert_allclose(plausible_frequencies(part, part.values[0]), [0.7, 0.6, 0])
