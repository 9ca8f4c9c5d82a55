"""EmpiricalBayes for few categories: the posterior, its noise, and its error."""

import numpy as np
import pytest
from scipy.special import betaln, logsumexp
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    EmpiricalBayes,
    HadamardResponse,
    NormSub,
    SubsetSelection,
)
from sklearn_ldp._core.noise import independent_noise
from sklearn_ldp._core.numerics import dirichlet
from sklearn_ldp._core.numerics.deconvolution import NormalLaw
from sklearn_ldp._core.numerics.dirichlet import few_frequencies
from sklearn_ldp.postprocessing._empirical_bayes import estimator


def without_given_priors(monkeypatch):
    """Let every prior be learnt, as in wide domains."""
    monkeypatch.setattr(estimator, "few_categories_row", lambda values, noise: None)


# -- the posterior ----------------------------------------------------------------------------
def by_quadrature(z, total, law):
    """Posterior mean of the first of two frequencies, by a sum over a fine grid."""
    t = np.linspace(0, 1, 400_001)[1:-1]
    # A substitution that is fine near both ends, where the priors have poles.
    share = np.where(t < 0.5, (2 * t) ** 40 / 2, 1 - (2 - 2 * t) ** 40 / 2)
    slope = 40 * np.where(t < 0.5, (2 * t) ** 39, (2 - 2 * t) ** 39)
    rest = np.where(t < 0.5, 1 - share, (2 - 2 * t) ** 40 / 2)
    log_likelihood = law.log_density(z[:1], total * share)[0]
    log_likelihood += law.log_density(z[1:], total * rest)[0]
    scores, means = [], []
    for a in dirichlet._SUMS / 2:
        log = (a - 1) * (np.log(share) + np.log(rest)) - betaln(a, a) + np.log(slope)
        log += log_likelihood - np.log(len(t) + 1)
        scores.append(logsumexp(log))
        means.append(total * np.exp(log - scores[-1]) @ share)
    half = np.array([total / 2])
    scores.append(sum(float(law.log_density(z[[i]], half).sum()) for i in range(2)))
    log = np.array(scores) + dirichlet._log_prior(2, total)
    return np.exp(log - logsumexp(log)) @ np.append(means, total / 2)


@pytest.mark.parametrize("total", [0.5, 4.0, 30.0, 400.0])
@pytest.mark.parametrize("share", [0.03, 0.3, 0.48])
def test_two_frequencies_are_what_quadrature_gives(total, share):
    """To 3 % of the noise, which changes the error by .1 %; negative control: half the noise."""
    law = NormalLaw(0.3 / total)
    z = np.array([total * share + 0.4, total * (1 - share) - 0.7])
    exact = by_quadrature(z, total, law)
    found = few_frequencies(z, total, law)
    np.testing.assert_allclose(found.means, [exact, total - exact], atol=0.03)
    if total == 4:
        other = few_frequencies(2 * z, 2 * total, law).means[0] / 2
        assert abs(other - exact) > 0.03


def test_several_frequencies_are_what_draws_from_the_priors_give():
    """By importance sampling: to .1 of the noise, which is four standard errors or more."""
    rng = np.random.default_rng(0)
    z, total, law = np.array([4.0, 2.5, 0.4, -0.6, -0.1]), 6.0, NormalLaw(0.05)
    log_prior = dirichlet._log_prior(5, total)
    draws = [total * rng.dirichlet(np.full(5, a / 5), 40_000) for a in dirichlet._SUMS]
    draws.append(np.full((1, 5), total / 5))
    log = [sum(law.log_density(z[[i]], x[:, i])[0] for i in range(5)) for x in draws]
    evidence = np.array([logsumexp(one) - np.log(len(one)) for one in log])
    means = [np.exp(one - logsumexp(one)) @ x for one, x in zip(log, draws, strict=True)]
    shares = np.exp(log_prior + evidence - logsumexp(log_prior + evidence))
    found = few_frequencies(z, total, law)
    np.testing.assert_allclose(found.means, shares @ np.array(means), atol=0.1)
    np.testing.assert_allclose(found.shares, shares, atol=0.02)
    assert found.means.sum() == pytest.approx(total)


def test_any_row_has_a_posterior():
    """Over noise levels, shapes of populations and errors that no noise makes."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        d, total = int(rng.integers(2, 24)), 10 ** rng.uniform(-3, 8)
        theta = total * rng.dirichlet(np.full(d, 10 ** rng.uniform(-1, 2)))
        law = NormalLaw(rng.choice([0, d / total]))
        std = law.spread(theta) * rng.choice([1, 6])
        z = theta + std * rng.standard_normal(d)
        if law.growth:  # as `scaled` does: beyond, the variance tells more than the estimate
            z = np.maximum(z, -1 / law.growth)
        found = few_frequencies(z, total, law)
        assert found.means.min() >= 0
        assert found.means.sum() == pytest.approx(total, rel=1e-3)
        assert found.shares.sum() == pytest.approx(1)
        assert np.all(np.diff(found.means[np.argsort(z)]) >= 0)
        grid = np.linspace(0, total, 50)
        assert found.marginal_prior(grid, total).sum() == pytest.approx(1)


# -- the noise --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "oracle", [GRR(1.0), OUE(1.0), SubsetSelection(0.5), OLH(1.0), HadamardResponse(1.0)], ids=repr
)
@pytest.mark.parametrize("d", [2, 5])
def test_independent_noise_has_the_variances_of_differences(oracle, d):
    """Negative control: the variances of single categories are not enough for GRR."""
    noise = clone(oracle).set_params(categories=range(d), random_state=0)
    noise = noise.simulate(np.full(d, 100), 1).noise.of_rows(0)
    frequencies = np.arange(1, d + 1) / np.arange(1, d + 1).sum()
    std, slope = independent_noise(noise, d - 1, d)
    variances = std**2 + slope * frequencies
    difference = np.r_[1, np.zeros(d - 2), -1][None]
    exact = noise.answer_variance(difference, frequencies)
    # Codes of Hadamard's matrix are not alike, so that categories differ by some percent.
    tolerance = 0.1 if isinstance(oracle, HadamardResponse) else 1e-6
    assert variances[[0, -1]].sum() == pytest.approx(float(exact[0]), rel=tolerance)
    if isinstance(oracle, GRR):
        single = noise.variance(frequencies).ravel()[[0, -1]].sum()
        assert single < 0.9 * exact[0]


def test_noise_without_covariances_counts_as_independent():
    assert independent_noise(estimator.Noise.of_level(0.1), 0, 3) == pytest.approx((0.1, 0))


# -- the error --------------------------------------------------------------------------------
def over_the_cheap_answer(oracle, shares, n, seed, n_repeats=60):
    """Root mean squared error over the better of the raw estimate and Norm-Sub."""
    counts = np.round(n * np.asarray(shares)).astype(int)
    oracle = clone(oracle).set_params(categories=range(len(counts)), random_state=seed)
    estimate = oracle.simulate(counts, n_repeats)
    made = [estimate] + [p.fit_transform(estimate) for p in (NormSub(), EmpiricalBayes())]
    raw, cheap, ours = (np.mean((one.values - counts / n) ** 2) for one in made)
    return np.sqrt(ours / min(raw, cheap))


ONE_OF_THREE = OUE(1.0), [1.0, 0.0, 0.0], 2_000


def test_few_answers_are_near_the_cheap_answer(seed, monkeypatch):
    """One answer of three has everybody.

    Over 40 seeds the ratio has the mean .73 and the standard deviation .04. The negative control is
    the learned prior, with 1.87 and .16. The limits are ten and four standard deviations away.
    """
    assert over_the_cheap_answer(*ONE_OF_THREE, seed) < 1.1
    without_given_priors(monkeypatch)
    assert over_the_cheap_answer(*ONE_OF_THREE, seed) > 1.2


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 4, 8, 16])
@pytest.mark.parametrize("shape", ["one", "Zipf", "nine tenths"])
@pytest.mark.parametrize(
    ("oracle", "n"), [(GRR(1.0), 100), (OUE(1.0), 1_000), (SubsetSelection(0.5), 20_000)], ids=repr
)
def test_no_few_answers_are_far_from_the_cheap_answer(oracle, n, shape, d, seed):
    shares = {
        "one": np.eye(d)[0],
        "Zipf": 1 / np.arange(1, d + 1) / np.sum(1 / np.arange(1, d + 1)),
        "nine tenths": np.r_[0.9, np.full(d - 1, 0.1 / (d - 1))],
    }
    assert over_the_cheap_answer(oracle, shares[shape], n, seed, 100) < 1.3


# -- wider domains ----------------------------------------------------------------------------
def test_given_priors_give_way_to_the_learnt_one(monkeypatch):
    """Up to 12 categories they are all, at 18 half, and from 24 nothing of the result."""
    made = {}
    for d in (12, 18, 24):
        counts = np.round(5_000 / np.arange(1, d + 1)).astype(int)
        made[d] = OUE(1.0, categories=range(d), random_state=0).simulate(counts, 1)
    before = {d: EmpiricalBayes(simplex=False).fit_transform(made[d]).values for d in made}
    without_given_priors(monkeypatch)
    learnt = {d: EmpiricalBayes(simplex=False).fit_transform(made[d]).values for d in made}
    np.testing.assert_array_equal(before[24], learnt[24])
    noise = made[18].noise.of_rows(0)
    monkeypatch.undo()
    few = estimator.few_categories_row(made[18].values[0], noise)
    given = few.std * few.frequencies.means
    np.testing.assert_allclose(before[18][0], (given + learnt[18][0]) / 2)
    assert np.abs(before[12] - learnt[12]).max() > 1e-4
