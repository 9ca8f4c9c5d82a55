"""Smooth: against dense matrices, its risk against the truth, and what it is for."""

import numpy as np
import pytest

from sklearn_ldp import GRR, OLH, OUE, NoiseModel, NormSub, PowerNS, Smooth
from sklearn_ldp.datasets import make_beta
from sklearn_ldp.postprocessing import _smooth, norm_sub, smooth, smooth_average, smooth_risk


def dense_smoother(d, bandwidth, circular=False):
    """The minimiser's matrix, from its definition."""
    D = np.eye(d)
    for _ in range(3):
        D = np.roll(D, -1, axis=0) - D if circular else np.diff(D, axis=0)
    return np.linalg.inv(np.eye(d) + bandwidth**6 * D.T @ D)


@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize("bandwidth", [0, 0.3, 1, 9])
@pytest.mark.parametrize("d", [4, 5, 7, 16, 33])
def test_the_smoother_is_penalised_least_squares(d, bandwidth, circular):
    expected = dense_smoother(d, bandwidth, circular)
    rows = np.eye(d)
    np.testing.assert_allclose(smooth(rows, bandwidth, circular=circular), expected, atol=1e-7)
    # Negative control: without what sets the ends apart the same comparison fails.
    if bandwidth >= 1 and not circular:
        around = smooth(rows, bandwidth, circular=True)
        assert np.abs(around - expected).max() > 1e-3


@pytest.mark.parametrize("d", [1, 2, 3])
def test_without_a_third_difference_nothing_is_smoothed(d):
    F = np.linspace(-0.2, 0.9, d)[None]
    np.testing.assert_array_equal(smooth(F, 5.0), F)
    np.testing.assert_allclose(Smooth(noise=0.1).fit_transform(F), norm_sub(F))


@pytest.mark.parametrize("d", [50, 4001, 42_178])
@pytest.mark.parametrize("share", [0.001, 0.1, 10.0])
def test_quadratic_trends_pass_at_any_bandwidth_and_size(d, share):
    """Where a dense solver would have lost its digits (the condition number is bandwidth**6)."""
    x = np.linspace(-1, 1, d)
    trend = 0.3 + 0.4 * x - 0.7 * x**2
    np.testing.assert_allclose(smooth(trend, share * d), trend, atol=1e-8)
    if share >= 0.1:  # negative control: a cubic one bends
        assert np.abs(smooth(x**3, share * d) - x**3).max() > 1e-3


@pytest.mark.parametrize("d", [1031, 42_178])
@pytest.mark.parametrize("bandwidth", [0.5, 40.0, 3000.0])
def test_a_length_that_transforms_do_not_like(d, bandwidth, monkeypatch):
    """It is padded, and the result and its risk are those of the transform of its own length."""
    F = make_beta(50_000, d, a=8, b=3, return_counts=True, random_state=0)[None] / 50_000
    variance = np.linspace(1, 2, d)[None] * 1e-8

    def found():
        return smooth(F, bandwidth), *smooth_risk(F, variance, bandwidth, simplex=True)

    padded = found()
    monkeypatch.setattr(_smooth, "_LONG", np.inf)
    _smooth._smoother.cache_clear()
    own = found()
    _smooth._smoother.cache_clear()
    np.testing.assert_allclose(padded[0], own[0], rtol=0, atol=1e-12 * F.max())
    np.testing.assert_allclose(padded[1], own[1], rtol=0, atol=1e-12 * F.max())
    np.testing.assert_allclose(padded[2], own[2], rtol=1e-10)
    assert np.abs(padded[0] - own[0]).max() > 0  # it was another way


def test_a_wave_of_two_pi_bandwidths_keeps_half():
    d = 10_000
    wave = np.sin(2 * np.pi * np.arange(d) / 100)
    kept = smooth(wave, 100 / (2 * np.pi), circular=True)
    np.testing.assert_allclose(kept, wave / 2, atol=2e-3)


# -- the risk ---------------------------------------------------------------------------------
@pytest.mark.parametrize("simplex", [False, True])
@pytest.mark.parametrize("circular", [False, True])
def test_risk_by_differentiation(simplex, circular):
    """Stein's formula with the derivatives taken numerically."""
    rng = np.random.default_rng(1)
    F, variance = rng.normal(0.05, 0.1, size=20), rng.uniform(0.005, 0.02, size=20)
    options = {"circular": circular, "simplex": simplex}

    def result(row):
        return smooth_risk(row[None], variance, 1.3, **options)[0][0]

    step = 1e-6 * np.eye(20)
    slopes = [(result(F + e)[i] - result(F - e)[i]) / 2e-6 for i, e in enumerate(step)]
    expected = np.sum((result(F) - F) ** 2 + 2 * np.array(slopes) * variance - variance)
    risk = smooth_risk(F[None], variance, 1.3, **options)[1]
    np.testing.assert_allclose(risk, [expected], rtol=1e-6)


def bump(d=64, n=100_000):
    x = (np.arange(d) + 0.5) / d
    weights = np.exp(-((x - 0.35) ** 2) / 0.02) + 0.5 * np.exp(-((x - 0.8) ** 2) / 0.005)
    return np.round(n * weights / weights.sum()).astype(int)


@pytest.mark.parametrize(
    ("oracle", "freedom"), [(OUE(1.0), 0), (OUE(3.0), 0), (GRR(3.0), 1)], ids=repr
)
@pytest.mark.parametrize("bandwidth", [0.0, 1.0, 4.0, 16.0])
def test_risk_is_unbiased(oracle, freedom, bandwidth, seed):
    """A z test of the mean estimated minus true square error over 400 collections, |z| < 5.

    Each of 12 cases fails by chance 6 times in 10**7. The noise of GRR adds up to 0, so there one
    degree of freedom may be wrong: 2 variances of a category.
    """
    counts = bump()
    oracle.set_params(random_state=seed)
    estimate = oracle.simulate(counts, 400)
    f, slack = counts / counts.sum(), 2 * freedom * estimate.noise.std**2
    variance = estimate.noise.variance(estimate.values)
    result, risk = smooth_risk(estimate.values, variance, bandwidth)
    true = ((result - f) ** 2).sum(axis=1)

    def z(x):
        return max(abs(x.mean()) - slack, 0) / (x.std(ddof=1) / np.sqrt(len(x)))

    assert z(risk - true) < 5
    if (
        bandwidth <= 1
    ):  # negative control: to forget that part of the noise is kept shows while it is much
        forgetful = ((result - estimate.values) ** 2 - variance).sum(axis=1)
        assert z(forgetful - true) > 5


# -- what it is for ---------------------------------------------------------------------------
def mse(post, estimate, counts):
    values = post.fit(estimate).frequencies_
    return np.mean((values - counts / counts.sum()) ** 2)


def test_beta_is_estimated_far_better_than_without_the_order(seed):
    """20 collections; the ratio measured is about 6, and its standard error 3 %."""
    counts = make_beta(random_state=0, return_counts=True)
    estimate = OLH(1.0, categories=400, random_state=seed).simulate(counts, 20)
    ours = mse(Smooth(), estimate, counts)
    assert 3 * ours < min(mse(NormSub(), estimate, counts), mse(PowerNS(), estimate, counts))
    # Negative control: the same numbers in an order that means nothing gain nothing like it.
    order = np.random.default_rng(0).permutation(400)
    shuffled = estimate.with_values(estimate.values[:, order])
    assert mse(Smooth(), shuffled, counts[order]) > 3 * ours


def test_spikes_are_left_to_norm_sub(seed):
    """20 collections; nothing is smoothed in most, so the two errors are close."""
    counts = np.zeros(200, dtype=int)
    counts[::7] = np.random.default_rng(4).integers(1000, 9000, 29)
    estimate = OLH(1.0, categories=200, random_state=seed).simulate(counts, 20)
    fitted = Smooth().fit(estimate)
    assert np.count_nonzero(fitted.bandwidth_) <= 4
    assert mse(Smooth(), estimate, counts) < 1.1 * mse(NormSub(), estimate, counts)
    # Negative control: the smoothing that suits a bump would ruin them.
    assert mse(Smooth(bandwidth=4), estimate, counts) > 5 * mse(NormSub(), estimate, counts)


# -- parameters -------------------------------------------------------------------------------
def test_the_average_is_of_the_smoothed_rows():
    """By its definition, with all risks at hand."""
    F = OLH(1.0, categories=64, random_state=0).simulate(bump(), 3).values
    std = 0.006
    results, risks = zip(
        *(smooth_risk(F, std**2, h) for h in [0, *2.0 ** np.arange(-1, 7)]), strict=True
    )
    weights = np.exp(-(np.array(risks) - np.min(risks, axis=0)) / (4 * std**2))
    weights /= weights.sum(axis=0)
    average, bandwidth = smooth_average(F, std)
    np.testing.assert_allclose(average, np.einsum("hr,hrv->rv", weights, results), atol=1e-12)
    best = np.array([0, *2.0 ** np.arange(-1, 7)])[np.argmin(risks, axis=0)]
    np.testing.assert_array_equal(bandwidth, best)


def test_a_given_bandwidth_needs_no_noise():
    F = np.random.default_rng(0).normal(0.1, 0.1, size=(2, 12))
    fitted = Smooth(bandwidth=1.5).fit(F)
    np.testing.assert_array_equal(fitted.frequencies_, norm_sub(smooth(F, 1.5)))
    assert fitted.bandwidth_.tolist() == [1.5, 1.5]
    kept = Smooth(bandwidth=1.5, simplex=False).fit(F)
    np.testing.assert_array_equal(kept.frequencies_, smooth(F, 1.5))
    np.testing.assert_array_equal(Smooth(bandwidth=0).fit(F).frequencies_, norm_sub(F))
    with pytest.raises(ValueError, match=r"Smooth needs the noise level.*noise="):
        Smooth().fit(F)


def test_a_circle_has_no_first_category():
    F = np.random.default_rng(0).normal(0.1, 0.1, size=(1, 24))
    for post in (Smooth(noise=0.05, circular=True), Smooth(bandwidth=2, circular=True)):
        turned = post.fit_transform(np.roll(F, 5, axis=1))
        np.testing.assert_allclose(turned, np.roll(post.fit_transform(F), 5, axis=1), atol=1e-12)
    # Mirrored, open or not.
    for post in (Smooth(noise=0.05), Smooth(bandwidth=2)):
        np.testing.assert_allclose(
            post.fit_transform(F[:, ::-1]), post.fit_transform(F)[:, ::-1], atol=1e-12
        )
        around = post.fit_transform(np.roll(F, 5, axis=1))
        assert np.abs(around - np.roll(post.fit_transform(F), 5, axis=1)).max() > 1e-3


def test_the_noise_of_each_row_counts():
    F = np.tile(OLH(1.0, categories=64, random_state=0).simulate(bump()).values, (2, 1))
    # The noise levels are 1e-6 and about 0.006.
    fitted = Smooth(noise=NoiseModel(0.5, 0.25, np.array([3e12, 83_000]))).fit(F)
    assert fitted.bandwidth_[0] == 0
    assert fitted.bandwidth_[1] >= 1
    np.testing.assert_allclose(fitted.frequencies_[0], norm_sub(F[0]), atol=1e-6)


def test_the_growth_of_the_noise_with_the_frequency_counts():
    """The risk charges a frequent category of GRR at a large epsilon with its own variance."""
    estimate = GRR(4.0, categories=16, random_state=0).simulate(bump(16, 2000), 50)
    plain = Smooth(noise=float(estimate.noise.std)).fit(estimate)
    ours = Smooth().fit(estimate)
    assert np.abs(plain.frequencies_ - ours.frequencies_).max() > 1e-4


@pytest.mark.parametrize(
    "params", [{"bandwidth": -1}, {"bandwidth": "wide"}, {"circular": 2}, {"noise": "0.1"}], ids=str
)
def test_bad_parameters(params):
    (name,) = params
    with pytest.raises(ValueError, match=f"The '{name}' parameter of Smooth must be"):
        Smooth(**{"noise": 0.1, **params}).fit([[0.5, 0.2, 0.2, 0.1]])
