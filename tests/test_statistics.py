"""Statistics with power: bias, variance and covariance of every oracle against the formulas.

Each test runs with the `seed` fixture (any seed in 0 .. 99 must pass), states its error rate, and
has a negative control that must fail. Estimates are sums of hundreds of coins, so they are treated
as normal.
"""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from estimators import ORACLES, SUPPORTING, first_of_each, slow_but
from scipy import stats
from sklearn.base import clone

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    SUE,
    HadamardResponse,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp._core.mechanisms.coins import SeededCoins
from sklearn_ldp._core.mechanisms.laws import independent_support
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

COUNTS = np.array([1000, 500, 250, 125, 100, 25, 0, 0])
TRUTH = COUNTS / COUNTS.sum()
N_RUNS = 300
MORE_ORACLES = [*ORACLES, SubsetSelection(subset_size=3)]  # which other tests' domains do not allow
# BLH and SUE are OLH and OUE with other numbers; blocks have a variance of their own.
QUICK = [one for one in first_of_each(MORE_ORACLES) if type(one) not in (BLH, SUE)]
QUICK += [HadamardResponse(2.0, n_blocks=2)]


def p_values_of_mean_and_variance(estimates, variance):
    """Smallest p-value, over categories, of z tests of bias and chi-square tests of variance."""
    z = (estimates.mean(axis=0) - TRUTH) / np.sqrt(variance / len(estimates))
    return 2 * stats.norm.sf(np.abs(z)).min(), p_value_of_variance(estimates, variance)


def p_value_of_variance(x, variance):
    """Smallest p-value of two-sided chi-square tests of the columns of a normal sample."""
    chi2 = x.var(axis=0, ddof=1) * (len(x) - 1) / variance
    law = stats.chi2(len(x) - 1)
    return 2 * np.minimum(law.cdf(chi2), law.sf(chi2)).min()


def p_value_of_equal_variance(x, y):
    """Smallest p-value of two-sided F tests of the columns of two normal samples."""
    ratio = x.var(axis=0, ddof=1) / y.var(axis=0, ddof=1)
    law = stats.f(len(x) - 1, len(y) - 1)
    return 2 * np.minimum(law.cdf(ratio), law.sf(ratio)).min()


def protocol_counts(channel, counts, n_runs, seed):
    """Support counts of many collections at once: every user's report is drawn."""
    coins = SeededCoins(np.random.default_rng([seed, 1]))
    codes = np.tile(np.repeat(np.arange(len(counts)), counts), n_runs)
    reports = np.split(channel.privatize(codes, coins), n_runs)
    return channel.decode(np.array([channel.tally(part) for part in reports]))


def _channel(oracle_repr):
    oracle = next(oracle for oracle in MORE_ORACLES if repr(oracle) == oracle_repr)
    return oracle.channel(len(COUNTS))


@cache
def _protocol(oracle_repr, seed):
    channel = _channel(oracle_repr)
    decoded = protocol_counts(channel, COUNTS, 1000, seed)
    return channel.estimate_decoded(decoded, COUNTS.sum(keepdims=True))[0]


def protocol(oracle, seed):
    """Return the estimates of 1000 collections by an oracle, drawn once for all tests."""
    return _protocol(repr(oracle), seed)


def simulation(oracle, counts, n_runs, seed):
    oracle = clone(oracle).set_params(random_state=np.random.default_rng([seed, 2]))
    return oracle.simulate(counts, n_runs).values


# Single categories, and sums and differences of all pairs, determine a covariance matrix; longer
# sums depend on all of it at once.
_PAIRS = [(v, w) for v, w in combinations(np.eye(8), 2)]
_LONG = [np.arange(8) < m for m in (3, 4, 7)]
DIRECTIONS = np.array(
    [*np.eye(8), *(v + w for v, w in _PAIRS), *(v - w for v, w in _PAIRS), *_LONG], dtype=float
).T


def variance_of_sums(covariance):
    """Return the variances along the DIRECTIONS."""
    return np.einsum("ij,ik,kj->j", DIRECTIONS, covariance, DIRECTIONS)


def exact_covariance(channel, counts):
    """Covariance matrix of the estimates, from the exact chance of each report of each user."""
    shape = channel.privatize(np.array([0]), SeededCoins(np.random.default_rng(0))).shape
    total = np.zeros((len(counts), len(counts)))
    for code in np.flatnonzero(counts):
        law = exact_report_distribution(channel, code)
        chances = np.array([float(chance) for chance in law.values()])
        tallies = np.array([channel.tally(np.array(report).reshape(shape)) for report in law])
        answers, _ = channel.estimate_decoded(channel.decode(tallies), np.array([1]))
        mean = chances @ answers
        total += counts[code] * (answers.T @ (chances[:, None] * answers) - np.outer(mean, mean))
    return total / counts.sum() ** 2


@cache
def _covariance(oracle_repr):
    channel = _channel(oracle_repr)
    if channel.has_exact_support:
        return exact_covariance(channel, COUNTS)
    # Not all seeds can be listed: the covariance under an ideal hash is compared instead.
    return channel.noise(COUNTS.sum()).covariance(np.eye(len(COUNTS)), TRUTH)


def with_a_common_noise(x, seed):
    """Shift every correlation by about a quarter, without changing means and variances."""
    common = np.random.default_rng([seed, 3]).standard_normal((len(x), 1))
    mean, std = x.mean(axis=0), x.std(axis=0)
    return mean + np.sqrt(0.75) * (x - mean) + 0.5 * std * common


# -- each category, and all of them -----------------------------------------------------------
@pytest.mark.parametrize("oracle", slow_but(QUICK, MORE_ORACLES), ids=repr)
def test_mean_variance_and_covariance_of_the_protocol(oracle, seed):
    """Bias and variance of each category against 2020 paper, Eq. 5; sums against the exact matrix.

    Error rate below 83 * 1e-8: z tests of 8 means, chi-square tests of 8 variances and of those of
    67 sums and differences, which determine the covariance matrix. In the negative control all
    categories share a quarter of their variance.
    """
    channel = oracle.channel(len(COUNTS))
    estimates = protocol(oracle, seed)
    variance = channel.noise(COUNTS.sum()).variance(TRUTH)
    assert min(p_values_of_mean_and_variance(estimates, variance)) > 1e-8
    assert p_value_of_variance(estimates, 1.5 * variance) < 1e-8
    variance = variance_of_sums(_covariance(repr(oracle)))
    assert p_value_of_variance(estimates @ DIRECTIONS, variance) > 1e-8
    assert p_value_of_variance(with_a_common_noise(estimates, seed) @ DIRECTIONS, variance) < 1e-8


@pytest.mark.parametrize("oracle", slow_but(ORACLES[:1], ORACLES[:3]), ids=repr)
def test_mean_and_variance_of_fit(oracle, seed):
    """As above, through `fit`: error rate below 16 * 1e-8."""
    rng = np.random.default_rng(seed)
    oracle = clone(oracle).set_params(categories=len(COUNTS), random_state=rng)
    values = np.arange(len(COUNTS))
    runs = [oracle.fit(values, sample_weight=COUNTS).frequencies_ for _ in range(N_RUNS)]
    estimates = np.array(runs)
    variance = oracle.noise_.variance(TRUTH)
    assert min(p_values_of_mean_and_variance(estimates, variance)) > 1e-8


def _off(channel):
    """Return the channel with coins that keep a value 5 % less often than its p says."""
    keeper = getattr(channel, "client", channel)
    name = "one" if hasattr(keeper, "one") else "threshold"
    setattr(keeper, name, int(getattr(keeper, name) * 0.95))
    return channel


TAMPERED = [*SUPPORTING, *MORE_ORACLES[len(ORACLES) :]]


@pytest.mark.parametrize("oracle", slow_but(first_of_each(TAMPERED), TAMPERED), ids=repr)
def test_a_tampered_p_is_found(oracle, seed):
    """Negative control: a p that is off by 5 % must be rejected at the same level."""
    channel = _off(oracle.channel(len(COUNTS)))
    noise = channel.noise(COUNTS.sum())
    estimates = noise.debias(protocol_counts(channel, COUNTS, N_RUNS, seed))
    assert p_values_of_mean_and_variance(estimates, noise.variance(TRUTH))[0] < 1e-8


LISTED = [oracle for oracle in MORE_ORACLES if oracle.channel(8).has_exact_support]


@pytest.mark.parametrize(
    "oracle", slow_but([o for o in LISTED if o.epsilon != 0.5], LISTED), ids=repr
)
def test_variance_formula_is_the_enumerated_one(oracle):
    """Exact: Eq. 5, and the block-dependent variance, against the exact chance of each report."""
    channel = oracle.channel(len(COUNTS))
    stated = channel.noise(COUNTS.sum()).variance(TRUTH)
    np.testing.assert_allclose(np.diag(_covariance(repr(oracle))), stated, rtol=1e-10)


# -- simulate ---------------------------------------------------------------------------------
SUBSETS = [oracle for oracle in MORE_ORACLES if isinstance(oracle, SubsetSelection)]
BEYOND = [(oracle, 0) for oracle in SUBSETS]
# Below a million bits, subset selection simulates by its protocol, which has a test above.
SIMULATIONS = slow_but(
    [*((oracle, None) for oracle in QUICK if oracle not in SUBSETS), *BEYOND],
    [*((oracle, None) for oracle in MORE_ORACLES), *BEYOND],
)


@pytest.mark.parametrize(
    ("oracle", "protocol_bits"), SIMULATIONS, ids=lambda x: {None: "", 0: "beyond"}.get(x, repr(x))
)
def test_simulation_has_the_law_of_the_protocol(oracle, protocol_bits, seed, monkeypatch):
    """Mean and variance of each category, 67 sums and differences, and two samples.

    Error rate below 158 * 1e-8: as above, and F tests of the 67 and z tests of the 8 means between
    simulation and protocol. Negative controls: a variance that is off by 30 %; and a quarter of the
    variance shared by all categories. Subset selection simulates in another way beyond a million
    bits: both ways are tested.
    """
    if protocol_bits is not None:
        monkeypatch.setattr("sklearn_ldp.oracles._subset._PROTOCOL_BITS", protocol_bits)
    channel = oracle.channel(len(COUNTS))
    simulated = simulation(oracle, COUNTS, 1300, seed)
    tampered = with_a_common_noise(simulated, seed)
    variance = channel.noise(COUNTS.sum()).variance(TRUTH)
    assert min(p_values_of_mean_and_variance(simulated, variance)) > 1e-8
    assert p_value_of_variance(simulated, 1.3 * variance) < 1e-8

    estimates = protocol(oracle, seed)
    gap = estimates.mean(axis=0) - simulated.mean(axis=0)
    z = gap / np.sqrt(variance * (1 / len(estimates) + 1 / len(simulated)))
    assert 2 * stats.norm.sf(np.abs(z).max()) > 1e-8
    assert p_value_of_equal_variance(estimates @ DIRECTIONS, simulated @ DIRECTIONS) > 1e-8
    assert p_value_of_equal_variance(estimates @ DIRECTIONS, tampered @ DIRECTIONS) < 1e-8
    variance = variance_of_sums(_covariance(repr(oracle)))
    assert p_value_of_variance(simulated @ DIRECTIONS, variance) > 1e-8
    assert p_value_of_variance(tampered @ DIRECTIONS, variance) < 1e-8


@pytest.mark.parametrize(
    "oracle",
    [
        pytest.param(HadamardResponse(), marks=pytest.mark.slow),
        HadamardResponse(2.0, n_blocks=2),
        ProjectiveGeometryResponse(),
        pytest.param(ProjectiveGeometryResponse(2.0, field_order=9), marks=pytest.mark.slow),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "counts", slow_but([[2000, *[5] * 63]], [[30] * 64, [2000, *[5] * 63]]), ids=["rare", "mixed"]
)
def test_simulation_of_rare_and_frequent_categories(oracle, counts, seed):
    """Users of rare categories are drawn one by one, those of frequent ones together.

    Two samples of eight sums of eight categories each: error rate 75 * 1e-8 as above.
    """
    counts, groups = np.array(counts), np.repeat(np.eye(8), 8, axis=0)
    channel = oracle.channel(64)
    noise = channel.noise(counts.sum())
    estimates = noise.debias(protocol_counts(channel, counts, 700, seed)) @ groups
    simulated = simulation(oracle, counts, 1000, seed) @ groups
    z = (estimates.mean(axis=0) - simulated.mean(axis=0)) / np.sqrt(
        estimates.var(axis=0) / len(estimates) + simulated.var(axis=0) / len(simulated)
    )
    assert 2 * stats.norm.sf(np.abs(z).max()) > 1e-8
    assert p_value_of_equal_variance(estimates @ DIRECTIONS, simulated @ DIRECTIONS) > 1e-8
    tampered = with_a_common_noise(simulated, seed)
    assert p_value_of_equal_variance(estimates @ DIRECTIONS, tampered @ DIRECTIONS) < 1e-8


@pytest.mark.parametrize("is_even", [True, False])
def test_simulation_of_subsets_over_a_large_domain(is_even, seed):
    """The mean square error where each category has a few supporting reports only.

    A z test at 1e-8 of the mean of 300 collections, whose spread is measured: a domain of 2000
    has the power to see 1 %. Negative control: the variance for a budget 2 % smaller.
    """
    oracle, d = SubsetSelection(5.0), 2000
    counts = np.ones(d, dtype=np.int64) if is_even else np.eye(d, dtype=np.int64)[0] * 1000
    truth, n_runs = counts / counts.sum(), 300
    squares = ((simulation(oracle, counts, n_runs, seed) - truth) ** 2).mean(axis=1)

    def z(epsilon):
        channel = SubsetSelection(epsilon).channel(d)
        expected = channel.noise(counts.sum()).variance(truth).mean()
        return (squares.mean() - expected) / (squares.std(ddof=1) / np.sqrt(n_runs))

    assert abs(z(5.0)) < 5.7
    assert abs(z(4.9)) > 5.7


# -- the joint law ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["protocol", "simulation", "beyond a million bits"])
@pytest.mark.parametrize("oracle", [GRR(), *SUBSETS], ids=repr)
def test_reports_of_fixed_size_sum_to_one(oracle, path, seed, monkeypatch):
    """Exact: every report supports equally many categories.

    Negative control: independent categories.
    """
    channel = oracle.channel(len(COUNTS))
    if path == "protocol":
        estimates = channel.noise(COUNTS.sum()).debias(protocol_counts(channel, COUNTS, 3, seed))
    else:
        if path != "simulation":
            monkeypatch.setattr("sklearn_ldp.oracles._subset._PROTOCOL_BITS", 0)
        estimates = simulation(oracle, COUNTS, 3, seed)
    np.testing.assert_allclose(estimates.sum(axis=1), 1, rtol=1e-12)
    independent = independent_support(channel.p, channel.q, COUNTS, 3, np.random.default_rng(seed))
    tampered = channel.noise(COUNTS.sum()).debias(independent)
    assert not np.allclose(tampered.sum(axis=1), 1, rtol=1e-6)


def test_covariance_of_hadamard_response():
    """Exact: two categories are correlated through the one whose row is the product of theirs.

    Half of the columns of that row support both or neither: n cov = f_product / (2p - 1).
    """
    channel = HadamardResponse().channel(len(COUNTS))
    p = float(channel.p)
    row = np.arange(len(COUNTS)) + 1
    product = row[:, None] ^ row
    frequency = np.append(np.append(0, TRUTH), np.zeros(16 - 9))
    expected = frequency[product] / ((2 * p - 1) * COUNTS.sum())
    covariance = exact_covariance(channel, COUNTS)
    off = ~np.eye(len(COUNTS), dtype=bool)
    np.testing.assert_allclose(covariance[off], expected[off], atol=1e-15)
    assert np.abs(expected[off]).max() > 1e-4


def test_variance_of_blocks():
    """The variance of a category grows with the frequency of its block.

    All users are in the first of two blocks. Negative control: a variance from the category's own
    frequency alone.
    """
    channel = HadamardResponse(2.0, n_blocks=2).channel(14)
    in_block = channel.blocks == 0
    counts = np.zeros(14, dtype=np.int64)
    counts[np.flatnonzero(in_block)[:4]] = [1000, 600, 300, 100]
    truth, noise = counts / counts.sum(), channel.noise(counts.sum())
    E, n = np.exp(2.0), counts.sum()
    variance = (2 * (E + 3) / (E - 1) ** 2 * (1 + (E - 1) / 2 * in_block) - truth) / n
    np.testing.assert_allclose(noise.variance(truth), variance, rtol=1e-12)
    covariance = exact_covariance(channel, counts)
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-10)
    alone = (channel.null_variance + truth * channel.slope) / n
    assert np.abs(alone / variance - 1).max() > 0.1


def _lines(channel, x):
    """Return the category, and which pairs of other categories are on a line with it."""
    field, g = channel.field, channel.field.order
    digits = channel.vectors[:, None] // g ** np.arange(channel.n_digits) % g
    steps = field.subtract(digits, np.broadcast_to(digits[x], digits.shape))
    result = np.zeros((len(steps), len(steps)), dtype=bool)
    for v, w in combinations([v for v in range(len(steps)) if v != x], 2):
        multiples = [field.multiply(steps[v], np.full(len(steps[v]), c)) for c in range(1, g)]
        result[v, w] = result[w, v] = any(np.array_equal(steps[w], m) for m in multiples)
    return x, result


@pytest.mark.parametrize(
    "oracle", slow_but([OLH()], [OLH(), OLH(1.0, hash_range=3), OLH(2.0, hash_range=8)]), ids=repr
)
def test_covariance_of_linear_hashing(oracle):
    """OLH's documentation: f / (g (p - q) n) on a line with a category of frequency f, else 0.

    Exact by enumeration of all reports, whose covariance the protocol has by the test above.
    """
    channel = oracle.channel(14)
    g, n = channel.field.order, 2000
    frequent, on_line = next(found for x in range(14) if (found := _lines(channel, x))[1].any())
    counts = np.where(np.arange(14) == frequent, n, 0)
    expected = on_line / (g * float(channel.p - channel.q) * n)
    covariance = exact_covariance(channel, counts)
    off = ~np.eye(14, dtype=bool)
    np.testing.assert_allclose(covariance[off], expected[off], atol=1e-15)
    assert expected.max() > 1e-5
    assert np.any(expected[off] == 0)
