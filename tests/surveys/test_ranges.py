"""RangeOracle: a matrix for prefixes, or a tree; its fit, its noise, and what it refuses."""

import pickle

import numpy as np
import pytest

from sklearn_ldp import GRR, Domain, LocalMean, MatrixOracle, RangeOracle, SubsetSelection
from sklearn_ldp._core.mechanisms.coins import PROBABILITY_UNIT
from sklearn_ldp._core.numerics import strategies
from sklearn_ldp.collection import Aggregator, read_reports, write_reports
from sklearn_ldp.inference import quantiles
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.queries import between, prefixes
from sklearn_ldp.surveys._range_oracle import short_channel
from sklearn_ldp.utils import estimator_checks
from sklearn_ldp.utils._checks import (
    check_covariance,
    check_domains_epsilons_and_batches,
    check_exact_support_probabilities,
    check_joint_support,
    check_unbiased_estimates,
)

TREE = RangeOracle(1.0, categories=300).channel()


def small_tree(epsilon, d):
    """A tree of two levels over any domain, so that few reports can be listed."""
    levels = [GRR(epsilon).channel(-(-d // 3)), GRR(epsilon).channel(d)]
    return type(TREE)(levels, [PROBABILITY_UNIT // 4, 3 * PROBABILITY_UNIT // 4], d, [3, 1])


class SmallTree(RangeOracle):
    """The tree where the oracle would take the matrix."""

    def _make_mechanism(self, domain):
        return small_tree(self.epsilon, domain.size)


def summed(d, width):
    """The matrix that adds up neighbours."""
    return (np.arange(d) // width == np.arange(-(-d // width))[:, None]).astype(float)


def test_few_bins_are_those_of_the_matrix():
    oracle = RangeOracle(1.0, categories=64)
    assert oracle.channel() == MatrixOracle(1.0, queries=prefixes()).channel(64)


def test_few_expected_users_report_by_a_square_wave():
    """Only where their number is said: the written format does not change otherwise."""
    wave = MatrixOracle(1.0, strategy="square-wave").channel(64)
    few = RangeOracle(1.0, categories=64, strategy="auto", expected_n_users=2_999)
    assert few.channel() == wave
    assert RangeOracle(1.0, categories=64, strategy="square-wave").channel() == wave
    many = few.set_params(expected_n_users=3_000).channel()
    assert many == RangeOracle(1.0, categories=64, expected_n_users=10).channel() != wave
    wide = RangeOracle(1.0, categories=300, strategy="auto", expected_n_users=10)
    assert wide.channel() == TREE
    with pytest.raises(ValueError, match=r'strategy="auto"\) needs expected_n_users'):
        few.set_params(expected_n_users=None).channel()


def test_the_matrix_has_the_smaller_expected_error_where_there_is_one(monkeypatch):
    """Of prefixes, at the ends of what is stored."""
    for epsilon, d in [(0.5, 16), (0.5, 256), (6.0, 16), (6.0, 256)]:
        uniform, asked = np.full(d, 1 / d), np.tri(d)
        matrix = RangeOracle(epsilon, categories=d).channel()
        with monkeypatch.context() as patch:
            patch.setattr("sklearn_ldp.surveys._range_oracle._MAX_MATRIX_BINS", 1)
            tree = RangeOracle(epsilon, categories=d).channel()
        errors = [one.covariance(uniform).variances(asked).mean() for one in (matrix, tree)]
        assert errors[0] < errors[1]


@pytest.mark.parametrize(
    "check",
    [
        check
        for check in estimator_checks.oracle_checks()
        # One report leaves the other levels without users, whose estimate is refused.
        if check
        not in (
            check_exact_support_probabilities,
            check_unbiased_estimates,
            check_joint_support,
            check_covariance,
            check_domains_epsilons_and_batches,
        )
    ],
    ids=lambda check: check.__name__,
)
def test_contract_of_the_tree(check):
    check(SmallTree())


def test_the_estimate_is_the_weighted_least_squares_fit():
    """Solved by the normal equations, where the last bins of all levels are incomplete."""
    d, widths = 300, [256, 64, 16, 4, 1]
    counts = np.random.default_rng(0).multinomial(10**5, np.full(d, 1 / d))
    decoded = TREE.simulate(counts, 1, np.random.default_rng(1))
    normal, right = np.zeros((d, d)), np.zeros(d)
    for j, (channel, width) in enumerate(zip(TREE.mechanisms, widths, strict=True)):
        values, _ = channel.estimate_decoded(*TREE.decoded_on(decoded, j))
        cells = channel.n_categories
        of_reports = channel.total_variance() / (cells - 1)
        variance = (of_reports + 1 / cells) / TREE.probabilities[j] - 1 / cells
        normal += summed(d, width).T @ summed(d, width) / variance
        right += summed(d, width).T @ values[0] / variance
    with_sum = np.block([[normal, np.ones((d, 1))], [np.ones((1, d)), np.zeros((1, 1))]])
    expected = np.linalg.solve(with_sum, np.r_[right, 1.0])[:-1]
    found, noise = TREE.estimate_decoded(decoded, np.array([10**5]))
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-12)
    assert noise.n_samples == 10**5


@pytest.mark.slow
def test_bias_and_covariance_of_the_tree(seed):
    """Of six answers, from 500 collections, each against its law at 5 standard errors.

    The error rate is 1e-5 in all. The negative control takes users as many as twice.
    """
    d, n, repeats = 300, 5000, 500
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, rng.dirichlet(np.full(d, 0.3)))
    asked = np.vstack([np.tri(d)[[10, 100, 150, 250]], np.eye(d)[[3, 299]]])
    found, noise = TREE.estimate_decoded(TREE.simulate(counts, repeats, rng), np.array([n]))
    errors = (found - counts / n) @ asked.T
    covariance = noise.covariance(asked, counts / n)
    roots = np.sqrt(np.diag(covariance))
    assert np.abs(errors.mean(axis=0) / roots).max() < 5 / np.sqrt(repeats)
    both = errors / roots
    excess = np.abs(both.T @ both / repeats - covariance / np.outer(roots, roots)).max()
    assert excess < 5 * np.sqrt(2 / repeats) < np.abs(both.T @ both / repeats - 0.5).max()
    np.testing.assert_allclose(noise.answer_variance(asked, counts / n), roots**2)
    product = noise.covariance_product(asked[1], counts / n)
    np.testing.assert_allclose(asked @ product, covariance[1], atol=1e-12)


def test_variances_of_a_bin_that_is_alone_in_its_groups():
    """The last one of 257 is asked for on all levels, whose errors hang together the most."""
    tree, uniform = RangeOracle(1.0, categories=257).channel(), np.full(257, 1 / 257)
    exact = tree.covariance(uniform).variances(np.eye(257)[[100, 256]])
    np.testing.assert_allclose(tree.variances(uniform)[[100, 256]], exact, rtol=0.02)


def test_variances_of_single_bins(monkeypatch):
    """Of uniform users and of those of whom half are in one bin; many bins are as in the first."""
    uniform = np.full(300, 1 / 300)
    heaped = 0.5 * uniform + 0.5 * (np.arange(300) == 50)
    exact = [TREE.covariance(f).variances(np.eye(300)) for f in (uniform, heaped)]
    np.testing.assert_allclose(TREE.variances(np.array([uniform, heaped])), exact, rtol=0.08)
    np.testing.assert_allclose(TREE.total_variance(), exact[0].sum(), rtol=0.01)
    monkeypatch.setattr("sklearn_ldp.surveys._range_oracle._MAX_EXACT_BINS", 1)
    np.testing.assert_allclose(TREE.variances(uniform), exact[0], rtol=0.03)


def test_numbers_in_many_bins():
    """From users to quantiles; pieces, servers and groups add up to the same."""
    ages = np.random.default_rng(0).normal(40, 12, 6000).clip(0, 99)
    bins = Domain.bins(300, bounds=(0, 100))
    oracle = RangeOracle(2.0, categories=bins, random_state=0)
    estimate = oracle.fit_transform(ages)
    share = np.mean((ages >= 20) & (ages < 40))
    low, high = estimate.confidence_interval(0.999, queries=between([(20, 40)]))
    assert low[0, 0] < share < high[0, 0]
    _, low, high = quantiles(estimate, [0.5], level=0.999)
    assert low[0, 0] <= np.median(ages) <= high[0, 0]
    pieces = RangeOracle(2.0, categories=bins, random_state=0)
    pieces.partial_fit(ages[:1000]).partial_fit(ages[1000:])
    np.testing.assert_array_equal(pieces.frequencies_, estimate.values[0])
    groups = estimate_by_group(oracle, ages, np.arange(6000) % 2)
    assert groups.shape == (2, 300)
    assert groups.noise.n_samples.tolist() == [3000, 3000]
    assert oracle.simulate(np.full(300, 9), 3).shape == (3, 300)


def test_servers_compute_nothing_again(monkeypatch, tmp_path):
    """A pickle, of a collection or of a protocol alone, brings the channel that was computed."""
    oracle = RangeOracle(0.93, categories=5).fit(np.arange(500) % 5)
    pickled, of_protocol = pickle.dumps(oracle), pickle.dumps(oracle.protocol())
    monkeypatch.setattr(strategies, "optimised_channel", None)
    monkeypatch.setattr("sklearn_ldp._core.mechanisms.matrix._KEPT", {})
    protocol = pickle.loads(of_protocol)
    reports = protocol.privatize([0, 1, 2])
    write_reports(tmp_path / "a.parquet", reports, protocol, batch_id="a")
    Aggregator(protocol).add(read_reports(tmp_path / "a.parquet", protocol), "a")
    assert not protocol.difference(RangeOracle(0.93, categories=5).protocol())
    with pytest.raises(TypeError, match="not callable"):
        RangeOracle(0.94, categories=5).protocol()  # would compute it
    server = pickle.loads(pickled).partial_fit([0, 1])
    assert server.n_samples_seen_ == 502
    assert not protocol.difference(server.protocol())


CLIENT = """
import sys, numpy as np
from sklearn_ldp import LocalMean, MatrixOracle, RangeOracle
from sklearn_ldp.collection import Aggregator, tally_file, write_reports
from sklearn_ldp.queries import ranges

oracles = [
    MatrixOracle(0.8, categories=9, queries=ranges(3)),
    RangeOracle(1.0, categories=300),
    LocalMean(1.0, bounds=(0, 9)),
]
"""
WRITES = """
for i, oracle in enumerate(oracles):
    oracle.set_params(random_state=0)
    write_reports(f"{i}.parquet", oracle.privatize(np.arange(900) % 9), oracle, batch_id="a")
"""
READS = """
for i, oracle in enumerate(oracles):
    Aggregator(oracle).merge(tally_file(f"{i}.parquet", oracle)).save(f"{i}.npz")
"""
CONTINUES = """
for i, oracle in enumerate(oracles):
    server = Aggregator.load(f"{i}.npz", oracle)
    assert server.n_samples == 900
    estimate = server.estimate_
    print(float(estimate.mean[0] if i == 2 else estimate.values[0, :9].sum()))
"""


@pytest.mark.slow
def test_client_server_and_reader_are_processes_of_their_own(fresh_processes, tmp_path):
    """Each makes its channels anew; on one machine these are the same."""
    for code in (WRITES, READS, CONTINUES):
        done = fresh_processes.run(
            "import warnings; warnings.simplefilter('ignore')" + CLIENT + code, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
    sums = [float(line) for line in done.stdout.split()]
    assert sums[0] == pytest.approx(1)
    assert 0 < sums[1] < 2
    assert 0 < sums[2] < 9


@pytest.mark.parametrize("bad", [-1, 100.5, np.nan, np.inf, None, "old"])
def test_bad_numbers_are_refused_in_one_sentence_and_nothing_is_collected(bad):
    """By their row and not by their value where a client may be logged."""
    bins = Domain.bins(300, bounds=(0, 100))
    oracle = RangeOracle(1.0, categories=bins).fit(np.arange(100) / 2)
    for call in (oracle.fit, oracle.partial_fit, oracle.privatize):
        with pytest.raises(ValueError, match="RangeOracle") as error:
            call([5.0, bad])
        assert "\n" not in str(error.value)
        assert oracle.n_samples_seen_ == 100
    if bad in (-1, 100.5):
        assert "position 1" in str(error.value)
        assert str(bad) not in str(error.value)


@pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0, np.inf), (np.nan, 1), "auto", (0,)])
def test_bad_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match=r"Domain.bins got bounds=.*two finite"):
        Domain.bins(300, bounds=bounds)
    with pytest.raises(ValueError, match="LocalMean got bounds=.*two finite"):
        LocalMean(1.0, bounds=bounds).fit([1])


def test_refusals():
    with pytest.raises(ValueError, match="at most 1,048,576 bins, got 2,000,000"):
        RangeOracle(1.0, categories=2_000_000).fit([0])
    few = RangeOracle(1.0, categories=300).fit([0, 1])
    with pytest.raises(ValueError, match="no user was asked about level . of the 5"):
        _ = few.estimate_
    with pytest.raises(ValueError, match="large enough for a report to carry information"):
        RangeOracle(1e-19, categories=300).protocol()


@pytest.mark.slow
def test_intervals_hold_where_a_level_has_fewer_users_than_bins(seed, monkeypatch):
    """95 % intervals of single bins, and of all at once, in 100 collections.

    Fewer than 82 of 100 where 95 hold on average have a probability of 1e-6. Negative control:
    without what half a report adds, fewer of those of single bins hold.
    """
    shares = 1 / np.arange(1, 1233)
    counts = np.random.default_rng(3).multinomial(1000, shares / shares.sum())
    raw = RangeOracle(6.0, categories=1232, random_state=seed).simulate(counts, n_repeats=100)

    def held(**options):
        low, high = raw.confidence_interval(0.95, **options)
        return (low <= counts / 1000) & (counts / 1000 <= high)

    assert held().mean() > 0.94
    assert held(simultaneous=True).all(axis=1).sum() >= 82
    monkeypatch.setitem(vars(raw.noise.channel), "half_count", 0.0)
    assert held().mean() < 0.94


def test_a_level_of_16_cells_has_the_most_accurate_short_channel():
    expected = SubsetSelection(0.5).channel(16).total_variance()
    assert short_channel(0.5, 16).total_variance() == pytest.approx(expected)
