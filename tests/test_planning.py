"""Expected errors against enumerated covariances and simulated collections, and their inverses."""

import math

import numpy as np
import pytest
from estimators import ORACLES, each_way
from scipy import stats
from sklearn.base import clone
from test_statistics import exact_covariance

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    HadamardResponse,
    NoiseModel,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp.metrics import (
    detection_threshold,
    equivalent_n_samples,
    expected_error,
    query_errors,
    required_n_samples,
)
from sklearn_ldp.oracles import profile_oracle
from sklearn_ldp.queries import full_domain, groups, query_matrix, random_sets, top_k

COUNTS = np.array([100, 50, 25, 13, 10, 2, 0, 0])
N = int(COUNTS.sum())
TRUTH = COUNTS / N
GROUPS = groups([0, 0, 0, 1, 1, 0, 2, 2])
MORE_ORACLES = [
    *ORACLES,
    SubsetSelection(subset_size=3),
    OLH(hash_range=3),
    OLH(hash_range=11),
]
N_RUNS = 400
Z = 6.0


def simulated(oracle, seed):
    """Return raw estimates of many collections."""
    rng = np.random.default_rng([seed, 5])
    return clone(oracle).set_params(random_state=rng).simulate(COUNTS, N_RUNS).values


def z_score(errors, expected):
    return (errors.mean() - expected) / (errors.std(ddof=1) / math.sqrt(len(errors)))


# -- the variances, exactly -------------------------------------------------------------------
def enumerated(oracle, matrix, counts):
    """Return variances of answers, from the exact chance of each report of each user."""
    covariance = exact_covariance(oracle.channel(len(counts)), counts)
    return np.einsum("ij,jk,ik->i", matrix, covariance, matrix)


def in_its_ring(oracle):
    """Fields of 9 elements and more have many reports to enumerate."""
    large = any(f"hash_range={g}" in repr(oracle) for g in (9, 11))
    return pytest.param(oracle, marks=[pytest.mark.slow] if large else [], id=repr(oracle))


@pytest.mark.parametrize(
    "oracle",
    [in_its_ring(oracle) for oracle in MORE_ORACLES if oracle.channel(8).has_exact_support],
)
def test_answers_have_the_enumerated_variance(oracle):
    rng = np.random.default_rng(0)
    matrix = np.vstack([rng.integers(0, 2, (5, 8)), rng.normal(size=(5, 8)), np.ones((1, 8))])
    for query, variance in zip(matrix, enumerated(oracle, matrix, COUNTS), strict=True):
        expected = expected_error(oracle, N, 8, frequencies=TRUTH, queries=query[None])
        assert expected == pytest.approx(variance, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "oracle",
    [
        pytest.param(OLH(), marks=pytest.mark.slow),
        OLH(hash_range=3),
        HadamardResponse(2.0, n_blocks=2),
        ProjectiveGeometryResponse(field_order=3),
        ProjectiveGeometryResponse(field_order=4),
    ],
    ids=repr,
)
def test_lines_of_a_larger_space(oracle):
    """Three digits, where there are few lines; negative control: no covariances."""
    counts = np.arange(19) ** 2
    frequencies = counts / counts.sum()
    matrix = np.vstack([np.arange(19) < 9, np.arange(19) % 3 == 0]).astype(float)
    noise = oracle.channel(19).noise(counts.sum())
    for query, variance in zip(matrix, enumerated(oracle, matrix, counts), strict=True):
        expected = expected_error(
            oracle, counts.sum(), 19, frequencies=frequencies, queries=query[None]
        )
        assert expected == pytest.approx(variance, rel=1e-9)
        assert query @ noise.variance(frequencies) != pytest.approx(variance, rel=1e-3)


@pytest.mark.parametrize("size", [1, 3, 0.5, 8])
@pytest.mark.parametrize("oracle", [GRR(), OUE(), SubsetSelection(), OLH()], ids=repr)
def test_random_sets_are_averaged_over_all_sets(oracle, size):
    m = size if isinstance(size, int) else 4
    rows = np.array([[v >> j & 1 for j in range(8)] for v in range(256)], dtype=float)
    every = query_matrix(rows[rows.sum(axis=1) == m])
    expected = expected_error(oracle, N, 8, frequencies=TRUTH, queries=every)
    found = expected_error(oracle, N, 8, frequencies=TRUTH, queries=random_sets(size))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_sparse_queries_in_any_form():
    from scipy import sparse

    twice = sparse.csr_array((np.array([0.5, 0.5, 0.0]), ([0, 0, 0], [1, 1, 2])), shape=(1, 8))
    plain = expected_error(OUE(), N, 8, queries=np.eye(8)[1:2])
    assert expected_error(OUE(), N, 8, queries=twice) == pytest.approx(plain)


@pytest.mark.parametrize("oracle", [OLH(), OLH(hash_range=5), BLH()], ids=repr)
def test_large_spaces_are_drawn(oracle, monkeypatch):
    """2**14 drawn reports have a standard error of 2 % and more (seed fixed)."""
    options = {"frequencies": TRUTH, "queries": GROUPS}
    exact = expected_error(oracle, N, 8, **options)
    monkeypatch.setattr("sklearn_ldp.oracles._local_hashing._MAX_LAW", 1)
    drawn = expected_error(oracle, N, 8, **options)
    assert drawn != exact
    assert drawn == pytest.approx(exact, rel=0.1)
    full = expected_error(oracle, N, 8)
    assert full == pytest.approx(profile_oracle(oracle, 8).total_variance / N / 8)


# -- against collections ----------------------------------------------------------------------
@pytest.mark.parametrize("oracle", each_way(MORE_ORACLES), ids=repr)
def test_expected_squared_error_is_that_of_collections(oracle, seed):
    """Full domain, groups, random sets, top-k: z tests, error rate below 1e-6 each.

    Squared errors are skewed, hence so much. Twins: every error twice as large.
    """
    raw = simulated(oracle, seed)
    for queries in (None, top_k(2), GROUPS, random_sets(3)):
        errors = query_errors(TRUTH, raw, queries=queries)
        expected = expected_error(oracle, N, 8, frequencies=TRUTH, queries=queries)
        assert abs(z_score(errors, expected)) < Z
        assert abs(z_score(errors, 2 * expected)) > Z


@pytest.mark.parametrize("oracle", [GRR(), SubsetSelection()], ids=repr)
def test_covariances_matter(oracle, seed):
    """Negative control of the groups: variances alone, as if categories were independent."""
    query = (np.arange(8) < 5).astype(float)
    errors = query_errors(TRUTH, simulated(oracle, seed), queries=query[None])
    independent = query @ oracle.channel(8).noise(N).variance(TRUTH)
    assert abs(z_score(errors, independent)) > Z
    expected = expected_error(oracle, N, 8, frequencies=TRUTH, queries=query[None])
    assert abs(z_score(errors, expected)) < Z


@pytest.mark.parametrize("oracle", [GRR(), OUE(), BLH()], ids=repr)
def test_expected_absolute_error_is_that_of_collections(oracle, seed):
    """Normal approximation, so with 10,000 users; error rate about 1e-8 each.

    Negative control: an expectation that is 20 % off.
    """
    counts = np.array([4000, 3000, 2000, 1000])
    estimates = clone(oracle).set_params(random_state=seed).simulate(counts, 2000)
    for queries in (None, groups([0, 1, 1, 0]), random_sets(2)):
        errors = query_errors(counts / 1e4, estimates, queries=queries, metric="mae")
        expected = expected_error(
            oracle, 1e4, 4, frequencies=counts / 1e4, queries=queries, metric="mae"
        )
        # The approximation itself may be off by a little.
        assert abs(z_score(errors, expected)) < Z + 1
        assert abs(z_score(errors, 1.2 * expected)) > Z + 1


def test_half_width_is_that_of_the_intervals():
    counts = np.array([400_000, 300_000, 200_000, 100_000])
    raw = OLH(random_state=0).simulate(counts, 50)
    low, high = raw.confidence_interval(0.9)
    expected = expected_error(
        OLH(), 1e6, 4, frequencies=counts / 1e6, metric="half_width", level=0.9
    )
    assert np.mean(high - low) / 2 == pytest.approx(expected, rel=1e-3)


# -- the public functions ---------------------------------------------------------------------
@pytest.mark.parametrize("oracle", MORE_ORACLES, ids=repr)
@pytest.mark.parametrize("frequencies", [None, TRUTH], ids=["uniform", "skewed"])
def test_full_domain_is_the_profile(oracle, frequencies):
    profile = profile_oracle(oracle, 8, frequencies=frequencies)
    expected = expected_error(oracle, 1000, 8, frequencies=frequencies)
    assert expected * 1000 * 8 == pytest.approx(profile.total_variance)


@pytest.mark.parametrize("metric", ["mse", "mae", "half_width"])
@pytest.mark.parametrize("queries", [None, GROUPS, random_sets(0.25)], ids=repr)
def test_required_n_samples_is_the_inverse(metric, queries):
    options = {"frequencies": TRUTH, "queries": queries, "metric": metric}
    for oracle in (GRR(), OLH(), HadamardResponse(2.0, n_blocks=2)):
        for error in (1e-3, 0.0123):
            n = required_n_samples(oracle, error, 8, **options)
            assert isinstance(n, int)
            assert expected_error(oracle, n, 8, **options) <= error * (1 + 1e-9)
            if n > 1:
                assert expected_error(oracle, n - 1, 8, **options) > error
            assert (
                required_n_samples(oracle, expected_error(oracle, n, 8, **options), 8, **options)
                == n
            )


def test_lists_epsilons_and_declared_domains():
    both = expected_error([GRR(), OUE()], 100, 8, epsilon=2.0)
    assert both.shape == (2,)
    assert both.tolist() == [expected_error(GRR(2.0), 100, 8), expected_error(OUE(2.0), 100, 8)]
    declared = expected_error(GRR(2.0, categories=list("abcdefgh")), 100)
    assert declared == both[0]
    n = required_n_samples([GRR(), OUE()], 0.01, 8)
    assert n.dtype.kind == "i"
    assert detection_threshold([GRR(), OUE()], 100, 8).shape == (2,)


def test_oracles_stay_as_they_are():
    oracle = OUE(1.0, categories=list("abc"), random_state=0).fit(list("abc"))
    before = oracle.frequencies_
    expected_error(oracle, 100, 8, epsilon=3.0)
    assert oracle.get_params()["epsilon"] == 1.0
    np.testing.assert_array_equal(oracle.frequencies_, before)


def test_planning_refuses():
    cases = [
        (ValueError, "shape \\(8,\\)", {"frequencies": TRUTH[:3]}),
        (ValueError, "sum to 1", {"frequencies": COUNTS}),
        (ValueError, "sum to 1", {"frequencies": TRUTH * np.nan}),
        (ValueError, "metric must be one of .*half_width.* got 'rmse'", {"metric": "rmse"}),
        (ValueError, "0 < level < 1", {"metric": "half_width", "level": 95}),
        (ValueError, "needs the true frequencies", {"queries": top_k(2)}),
        (ValueError, "epsilon", {"epsilon": -1.0}),
    ]
    for function in (expected_error, required_n_samples):
        for error, message, options in cases:
            with pytest.raises(error, match=f"(?s){message}"):
                function(OUE(), 0.01, 8, **options)
        with pytest.raises(TypeError, match="oracle such as .* got NoiseModel"):
            function(NoiseModel(0.5, 0.25, 10), 0.01, 8)
        for bad in (0, -1.0, np.nan, np.inf, "many"):
            with pytest.raises(ValueError, match="must be a finite number > 0"):
                function(OUE(), bad, 8)
        with pytest.raises(ValueError, match="categories"):
            function(OUE(), 0.01)
    for bad in (0, -0.1, np.nan):
        with pytest.raises(ValueError, match="alpha must be"):
            detection_threshold(OUE(), 100, 8, alpha=bad)


# -- detection --------------------------------------------------------------------------------
@pytest.mark.parametrize("oracle", [GRR(), OUE(), OLH(), SubsetSelection()], ids=repr)
def test_detection_threshold_by_hand(oracle):
    std = oracle.channel(50).noise(1000).std
    expected = stats.norm.isf(0.01 / 50) * std
    assert detection_threshold(oracle, 1000, 50, alpha=0.01) == pytest.approx(expected)


@pytest.mark.parametrize("oracle", [OUE(), HadamardResponse(3.0, n_blocks="auto")], ids=repr)
def test_number_of_false_discoveries(oracle, seed):
    """An empty category of 8 passes at alpha = 0.32 in 4 % of runs: z test, error rate about 1e-8.

    Negative control: the threshold at twice the alpha.
    """
    counts = np.r_[0, np.full(7, 1000)]
    n_runs, expected = 5000, 0.04
    estimates = clone(oracle).set_params(random_state=seed).simulate(counts, n_runs).values[:, 0]
    found = estimates > detection_threshold(oracle, 7000, 8, alpha=0.32)
    spread = math.sqrt(expected * (1 - expected) / n_runs)
    assert abs(found.mean() - expected) < Z * spread
    found = estimates > detection_threshold(oracle, 7000, 8, alpha=0.64)
    assert abs(found.mean() - expected) > Z * spread


# -- n' ---------------------------------------------------------------------------------------
def test_equivalent_n_samples_by_hand():
    """The definition in the 2020 paper, section V-C, for OUE at epsilon 1."""
    p, q, d = 0.5, 1 / (math.e + 1), 20
    by_hand = (q * (1 - q) / (p - q) ** 2 + (1 - p - q) / (d * (p - q))) / 1e-4
    noise = NoiseModel(p, q, 777)
    assert equivalent_n_samples(noise, 1e-4, d) == pytest.approx(by_hand)
    many = equivalent_n_samples(noise, [1e-4, 2e-4, 0.0], d)
    np.testing.assert_allclose(many, [by_hand, by_hand / 2, np.inf])


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_the_raw_estimate_is_worth_its_users(oracle):
    mse = expected_error(oracle, 12_345, 8)
    raw = clone(oracle).set_params(random_state=0).simulate(COUNTS, 2)
    assert equivalent_n_samples(raw, mse) == pytest.approx(12_345)


def test_equivalent_n_samples_refuses():
    raw = OUE(random_state=0).simulate(COUNTS)
    with pytest.raises(ValueError, match="needs a noise model and the number of categories"):
        equivalent_n_samples(raw.noise, 0.1)
    with pytest.raises(ValueError, match="needs a noise model"):
        equivalent_n_samples(type(raw)(raw.values, raw.categories), 0.1)
    for bad in (-1.0, np.nan):
        with pytest.raises(ValueError, match="mse must be >= 0"):
            equivalent_n_samples(raw, bad)


def test_a_question_of_a_planner():
    """GRR needs far more users than OUE; ten times the precision needs 100 times the users."""
    few, many = required_n_samples([OUE(), GRR()], 0.01, 1000, metric="half_width")
    assert many > 50 * few
    assert required_n_samples(OUE(), 0.001, 1000, metric="half_width") == pytest.approx(
        100 * few, rel=1e-3
    )
    assert expected_error(OUE(), 1e6, 1000, queries=full_domain()) == pytest.approx(
        3.686e-6, rel=1e-2
    )
