"""Statistics with power: bias and variance of every oracle against the formulas.

Each test runs with the `seed` fixture (any seed in 0 .. 99 must pass), states its error rate, and
has a tampered twin that must fail.
"""

import numpy as np
import pytest
from estimators import ORACLES
from scipy import stats
from sklearn.base import clone

COUNTS = np.array([1000, 500, 250, 125, 100, 25, 0, 0])
TRUTH = COUNTS / COUNTS.sum()
N_RUNS = 300


def p_values_of_mean_and_variance(estimates, variance):
    """Smallest p-value, over categories, of z tests of bias and chi-square tests of variance."""
    n_runs = len(estimates)
    z = (estimates.mean(axis=0) - TRUTH) / np.sqrt(variance / n_runs)
    chi2 = estimates.var(axis=0, ddof=1) * (n_runs - 1) / variance
    tail = stats.chi2(n_runs - 1)
    return (
        2 * stats.norm.sf(np.abs(z)).min(),
        2 * np.minimum(tail.cdf(chi2), tail.sf(chi2)).min(),
    )


def per_user_estimates(oracle, seed, n_runs=N_RUNS):
    rng = np.random.default_rng(seed)
    oracle = clone(oracle).set_params(categories=len(COUNTS), random_state=rng)
    return np.array(
        [
            oracle.fit(np.arange(len(COUNTS)), sample_weight=COUNTS).frequencies_
            for _ in range(n_runs)
        ]
    ), oracle.noise_


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_mean_and_variance_of_the_protocol(oracle, seed):
    """Bias and variance of each category against 2020 paper, Eq. 5.

    Error rate: below 16 * 1e-8 a run by the union bound over 8 categories and two tests.
    """
    estimates, noise = per_user_estimates(oracle, seed)
    bias, variance = p_values_of_mean_and_variance(estimates, noise.variance(TRUTH))
    assert bias > 1e-8
    assert variance > 1e-8


def _off(channel):
    """The channel with coins that keep 5 % less often than its p says."""
    name = "one" if hasattr(channel, "one") else "threshold"
    setattr(channel, name, int(getattr(channel, name) * 0.95))
    return channel


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_a_tampered_p_is_found(oracle, seed, monkeypatch):
    """The twin: p off by 5 % must be rejected at the same level."""
    cls = type(oracle)
    original = cls._make_channel
    monkeypatch.setattr(cls, "_make_channel", lambda self, d: _off(original(self, d)))
    estimates, noise = per_user_estimates(oracle, seed)
    bias, _ = p_values_of_mean_and_variance(estimates, noise.variance(TRUTH))
    assert bias < 1e-8


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_simulation_has_the_law_of_each_category(oracle, seed):
    """Mean and variance of simulate; error rate as above. Twin: the variance off by 20 %."""
    oracle = clone(oracle).set_params(random_state=seed)
    estimate = oracle.simulate(COUNTS, n_repeats=10_000)
    variance = estimate.noise.variance(TRUTH)
    assert min(p_values_of_mean_and_variance(estimate.values, variance)) > 1e-8
    assert p_values_of_mean_and_variance(estimate.values, 1.2 * variance)[1] < 1e-8


@pytest.mark.parametrize("oracle", ORACLES[:3], ids=repr)
def test_simulation_and_protocol_agree_on_sums(oracle, seed):
    """The variance of the sum of three categories: an F test, two-sided at 1e-8.

    Its twin takes a sum of other categories, whose variance differs.
    """
    protocol, _ = per_user_estimates(oracle, seed, n_runs=1000)
    simulated = clone(oracle).set_params(random_state=seed).simulate(COUNTS, 1000).values
    columns = [0, 1, 5]

    def p_value(one, other):
        ratio = one.var(ddof=1) / other.var(ddof=1)
        law = stats.f(len(one) - 1, len(other) - 1)
        return 2 * min(law.cdf(ratio), law.sf(ratio))

    assert p_value(protocol[:, columns].sum(1), simulated[:, columns].sum(1)) > 1e-8
    assert p_value(protocol[:, columns].sum(1), simulated[:, 5]) < 1e-8


def test_grr_sums_to_one_in_protocol_and_simulation(seed):
    protocol, _ = per_user_estimates(ORACLES[0], seed, n_runs=3)
    simulated = clone(ORACLES[0]).set_params(random_state=seed).simulate(COUNTS, 3).values
    np.testing.assert_allclose(protocol.sum(axis=1), 1)
    np.testing.assert_allclose(simulated.sum(axis=1), 1)
