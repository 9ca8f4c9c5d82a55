"""Planned errors against enumerated covariances and simulated collections, and their inverses."""

import math

import numpy as np
import pytest
from estimators import ORACLES, each_way, first_of_each, slow_but
from scipy import sparse, stats
from sklearn.base import clone
from test_statistics import exact_covariance

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    Domain,
    HadamardResponse,
    ItemOracle,
    LocalMean,
    NoiseModel,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp.learning import LabelDPRegressor, LDPNaiveBayes
from sklearn_ldp.metrics import equivalent_n_samples, query_errors
from sklearn_ldp.oracles import profile_oracle
from sklearn_ldp.planning import Plan
from sklearn_ldp.queries import full_domain, groups, mean, query_matrix, random_sets, top_k

COUNTS = np.array([100, 50, 25, 13, 10, 2, 0, 0])
N = int(COUNTS.sum())
TRUTH = COUNTS / N
GROUPS = groups([0, 0, 0, 1, 1, 0, 2, 2])
MORE_ORACLES = [*ORACLES, SubsetSelection(subset_size=3), OLH(hash_range=3), OLH(hash_range=11)]
NOISE = NoiseModel(0.5, 1 / (math.e + 1), 777)  # of OUE
N_RUNS = 400
Z = 6.0


def z_score(errors, expected):
    return (errors.mean() - expected) / (errors.std(ddof=1) / math.sqrt(len(errors)))


# -- the variances, exactly -------------------------------------------------------------------
def enumerated(oracle, matrix, counts):
    """Return variances of answers, from the exact chance of each report of each user."""
    covariance = exact_covariance(oracle.channel(len(counts)), counts)
    return np.einsum("ij,jk,ik->i", matrix, covariance, matrix)


LISTED = [oracle for oracle in MORE_ORACLES if oracle.channel(8).has_exact_support]
# Fields of more than 4 elements have many reports to enumerate.
SMALL = [*first_of_each(LISTED), OLH(hash_range=3), HadamardResponse(2.0, n_blocks=2)]


@pytest.mark.parametrize("oracle", slow_but(SMALL, LISTED), ids=repr)
def test_answers_have_the_enumerated_variance(oracle):
    rng = np.random.default_rng(0)
    matrix = np.vstack([rng.integers(0, 2, (2, 8)), rng.normal(size=(2, 8)), np.ones((1, 8))])
    for query, variance in zip(matrix, enumerated(oracle, matrix, COUNTS), strict=True):
        expected = Plan(oracle, 8, frequencies=TRUTH, queries=query[None]).rmse(N) ** 2
        assert expected == pytest.approx(variance, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "oracle",
    [
        *(OLH(hash_range=3), HadamardResponse(2.0, n_blocks=2)),
        ProjectiveGeometryResponse(field_order=3),
        *slow_but([], [OLH(), ProjectiveGeometryResponse(field_order=4)]),
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
        plan = Plan(oracle, 19, frequencies=frequencies, queries=query[None])
        assert plan.rmse(counts.sum()) ** 2 == pytest.approx(variance, rel=1e-9)
        assert query @ noise.variance(frequencies) != pytest.approx(variance, rel=1e-3)


@pytest.mark.parametrize("size", [1, 3, 0.5, 8])
@pytest.mark.parametrize("oracle", [GRR(), OUE(), SubsetSelection(), OLH()], ids=repr)
def test_random_sets_are_averaged_over_all_sets(oracle, size):
    m = size if isinstance(size, int) else 4
    rows = np.array([[v >> j & 1 for j in range(8)] for v in range(256)], dtype=float)
    every = query_matrix(rows[rows.sum(axis=1) == m])
    expected = Plan(oracle, 8, frequencies=TRUTH, queries=every).rmse(N) ** 2
    found = Plan(oracle, 8, frequencies=TRUTH, queries=random_sets(size)).rmse(N) ** 2
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    twice = sparse.csr_array((np.array([0.5, 0.5, 0.0]), ([0, 0, 0], [1, 1, 2])), shape=(1, 8))
    plain, same = (Plan(oracle, 8, queries=x).rmse(N) for x in (np.eye(8)[1:2], twice))
    assert same == pytest.approx(plain)  # entries of sparse queries add up


@pytest.mark.parametrize("oracle", [OLH(), OLH(hash_range=5), BLH()], ids=repr)
def test_large_spaces_are_drawn(oracle, monkeypatch):
    """2**14 drawn reports have a standard error of 2 % and more (seed fixed)."""
    options = {"frequencies": TRUTH, "queries": GROUPS}
    exact = Plan(oracle, 8, **options).rmse(N) ** 2
    monkeypatch.setattr("sklearn_ldp.oracles._local_hashing._MAX_LAW", 1)
    drawn = Plan(oracle, 8, **options).rmse(N) ** 2
    assert drawn != exact
    assert drawn == pytest.approx(exact, rel=0.1)
    full = Plan(oracle, 8).rmse(N) ** 2
    assert full == pytest.approx(profile_oracle(oracle, 8).total_variance / N / 8)


# -- against collections ----------------------------------------------------------------------
@pytest.mark.parametrize("oracle", each_way(MORE_ORACLES), ids=repr)
def test_expected_squared_error_is_that_of_collections(oracle, seed):
    """Full domain, groups, random sets, top-k: z tests, error rate below 1e-6 each.

    Squared errors are skewed, hence so much. Twins: every error twice as large.
    """
    rng = np.random.default_rng([seed, 5])
    raw = clone(oracle).set_params(random_state=rng).simulate(COUNTS, N_RUNS).values
    for queries in (None, top_k(2), GROUPS, random_sets(3)):
        errors = query_errors(TRUTH, raw, queries=queries)
        expected = Plan(oracle, 8, frequencies=TRUTH, queries=queries).rmse(N) ** 2
        assert abs(z_score(errors, expected)) < Z
        assert abs(z_score(errors, 2 * expected)) > Z


@pytest.mark.parametrize("oracle", [GRR(), OUE(), BLH()], ids=repr)
def test_expected_absolute_error_is_that_of_collections(oracle, seed):
    """Normal approximation, so with 10,000 users; error rate about 1e-8 each.

    Negative control: an expectation that is 20 % off.
    """
    counts = np.array([4000, 3000, 2000, 1000])
    estimates = clone(oracle).set_params(random_state=seed).simulate(counts, 2000)
    for queries in (None, groups([0, 1, 1, 0]), random_sets(2)):
        errors = query_errors(counts / 1e4, estimates, queries=queries, metric="mae")
        expected = Plan(oracle, 4, frequencies=counts / 1e4, queries=queries).mae(1e4)
        # The approximation itself may be off by a little.
        assert abs(z_score(errors, expected)) < Z + 1
        assert abs(z_score(errors, 1.2 * expected)) > Z + 1


def test_half_width_is_that_of_the_intervals():
    counts = np.array([400_000, 300_000, 200_000, 100_000])
    low, high = OLH(random_state=0).simulate(counts, 50).confidence_interval(0.9)
    plan = Plan(OLH(), 4, frequencies=counts / 1e6, level=0.9)
    assert np.mean(high - low) / 2 == pytest.approx(plan.half_width(1e6), rel=1e-3)
    plan = Plan(OUE(), 8, level=0.9)
    assert plan.mae(100) == pytest.approx(plan.rmse(100) * math.sqrt(2 / math.pi))
    half_report = OUE().channel(8).noise(100).half_count
    expected = plan.rmse(100) * stats.norm.ppf(0.95) + half_report
    assert plan.half_width(100) == pytest.approx(expected)


def test_half_width_of_simultaneous_intervals():
    counts = np.full(20, 50_000)
    estimate = OLH(random_state=0).simulate(counts, 50)
    low, high = estimate.confidence_interval(0.9, simultaneous=True)
    plan = Plan(OLH(), 20, level=0.9, simultaneous=True)
    assert np.mean(high - low) / 2 == pytest.approx(plan.half_width(1e6), rel=3e-3)
    assert plan.half_width(plan.users_for(half_width=0.01)) == pytest.approx(0.01, rel=1e-4)
    assert plan.half_width(1e6) > 1.5 * Plan(OLH(), 20, level=0.9).half_width(1e6)
    # Two columns have simultaneous intervals together.
    survey = ColumnOracle(1.0, domains={"a": 2, "b": 5})
    widths = Plan(survey, simultaneous=True).half_width(1e5)
    single = Plan(survey, level=0.95 ** (1 / 10)).half_width(1e5)
    assert widths["b"] == pytest.approx(single["b"])


def test_half_width_of_all_looks_is_that_of_the_intervals():
    counts = np.array([400_000, 300_000, 200_000, 100_000])
    estimate = OLH(random_state=0).simulate(counts, 50)
    low, high = estimate.confidence_interval(0.9, at_all_times=20_000)
    plan = Plan(OLH(), 4, frequencies=counts / 1e6, level=0.9)
    expected = plan.half_width([1e6, 2e6], at_all_times=20_000)
    assert np.mean(high - low) / 2 == pytest.approx(expected[0], rel=1e-3)
    with pytest.raises(ValueError, match="at_all_times=..\\) is only available for a single quest"):
        Plan(ColumnOracle(1.0, domains={"a": 2, "b": 3})).half_width(100, at_all_times=True)


# -- the object -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "oracle", slow_but([GRR(), HadamardResponse(2.0, n_blocks=2)], ORACLES), ids=repr
)
@pytest.mark.parametrize("frequencies", [None, TRUTH], ids=["uniform", "skewed"])
def test_full_domain_is_the_profile_and_the_raw_estimate_is_worth_its_users(oracle, frequencies):
    profile = profile_oracle(oracle, 8, frequencies=frequencies)
    mse = Plan(oracle, 8, frequencies=frequencies, queries=full_domain()).rmse(12_345) ** 2
    assert mse * 12_345 * 8 == pytest.approx(profile.total_variance)
    if frequencies is None:
        raw = clone(oracle).set_params(random_state=0).simulate(COUNTS, 2)
        assert equivalent_n_samples(raw, mse) == pytest.approx(12_345)


def test_a_question_of_a_planner():
    """GRR needs far more users than OUE; ten times the precision needs 100 times the users."""
    plans = [Plan(oracle, 1000) for oracle in (OUE(), GRR())]
    few, many = (plan.users_for(half_width=0.01) for plan in plans)
    assert many > 50 * few
    assert plans[0].users_for(half_width=0.001) == pytest.approx(100 * few, rel=0.01)
    assert plans[0].rmse(1e6) ** 2 == pytest.approx(3.686e-6, rel=1e-2)


@pytest.mark.parametrize("error", ["rmse", "overall_rmse", "mae", "half_width"])
@pytest.mark.parametrize("queries", [None, GROUPS, random_sets(0.25)], ids=repr)
def test_users_for_an_error_are_the_inverse(error, queries):
    for oracle in (GRR(), OLH(), HadamardResponse(2.0, n_blocks=2)):
        plan = Plan(oracle, 8, frequencies=TRUTH, queries=queries)
        error_of = getattr(plan, error)
        for goal in (1e-3, 0.0123):
            n = plan.users_for(**{error: goal})
            assert isinstance(n, int)
            assert error_of(n) <= goal * (1 + 1e-9)
            if n > 1:
                assert error_of(n - 1) > goal
            assert plan.users_for(**{error: error_of(n)}) == n


@pytest.mark.parametrize("of", ["population", "users"])
@pytest.mark.parametrize("difference", ["change", "order", "detection"])
def test_users_for_a_difference_are_the_inverse_of_power(difference, of):
    gap = {difference: 0.05}
    for oracle in (GRR(), OLH(), HadamardResponse(2.0, n_blocks=2)):
        plan = Plan(oracle, 8, level=0.9)
        for power in (0.5, 0.8):
            n = plan.users_for(**gap, power=power, of=of)
            assert isinstance(n, int)
            assert plan.power(n, **gap, of=of) >= power * (1 - 1e-9)
            assert plan.power(n - 1, **gap, of=of) < power
        assert plan.users_for(**gap, of=of) == plan.users_for(**gap, power=0.8, of=of)


def test_a_statement_about_the_users_alone_takes_fewer():
    """A population differs from its sample: what the sample lacks is part of the error."""
    plan = Plan(GRR(3.0), 8)
    about_some = plan.users_for(change=0.05, frequency=0.3, of="users")
    assert about_some < plan.users_for(change=0.05, frequency=0.3, of="population")
    noise = GRR(3.0).channel(8).noise(1)
    rest = [np.r_[f, np.full(7, (1 - f) / 7)] for f in (0.3, 0.325, 0.35)]
    before, middle, after = (noise.variance(f)[0] for f in rest)
    bar = stats.norm.isf(0.025) * math.sqrt(2 * middle)
    by_hand = (bar + stats.norm.isf(0.2) * math.sqrt(before + after)) ** 2 / 0.05**2
    assert about_some == math.ceil(by_hand)


ASKED = {
    **{name: getattr(Plan, name) for name in ("rmse", "overall_rmse", "mae", "half_width")},
    "detection_threshold": Plan.detection_threshold,
    "power of a change": lambda plan, n: plan.power(n, change=0.02),
    "power of an order": lambda plan, n: plan.power(n, order=0.02),
    "power of a detection": lambda plan, n: plan.power(n, detection=0.02),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_arrays_of_numbers_of_users(ask):
    plan, users = Plan(OUE(), 8), np.array([[100, 1000], [10_000, 123_456]])
    several = ask(plan, users)
    assert several.shape == users.shape
    assert several.tolist() == [[ask(plan, int(n)) for n in row] for row in users]
    assert isinstance(ask(plan, 100), float)
    assert ask(plan, [100, 1000]).tolist() == several[0].tolist()


def test_declared_domains():
    declared = Plan(GRR(2.0, categories=list("abcdefgh")))
    assert declared.rmse(100) == Plan(GRR(2.0), 8).rmse(100)
    assert declared.n_categories == 8
    assert declared.oracle.get_params()["categories"] == list("abcdefgh")
    listed = GRR(2.0, categories=list("abc"))
    plan = Plan(listed, n_categories=8)  # the oracle stays as it is
    assert repr(plan) == "Plan(GRR(categories=8, epsilon=2.0), n_categories=8)"
    assert listed.categories == list("abc")


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "shape \\(8,\\)", {"frequencies": TRUTH[:3]}),
        (ValueError, "sum to 1", {"frequencies": COUNTS}),
        (ValueError, "sum to 1", {"frequencies": TRUTH * np.nan}),
        (ValueError, "0.5 <= level < 1, got 95", {"level": 95}),
        (
            ValueError,
            "depend on the true frequencies, which are unknown. Pass assumed",
            {"queries": top_k(2)},
        ),
        (ValueError, "epsilon", {"oracle": OUE(-1.0)}),
        (ValueError, "categories", {"n_categories": None}),
        *(
            (TypeError, f"an oracle or a survey, got {name}", {"oracle": oracle})
            for name, oracle in (("NoiseModel", NOISE), ("OLH", OLH), ("list", [OLH()]))
        ),
    ],
)
def test_plans_that_are_refused(error, message, arguments):
    with pytest.raises(error, match=f"(?s){message}"):
        Plan(**{"oracle": OUE(), "n_categories": 8, **arguments})


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, np.inf, "many", None, [100, 0], 1j])
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_numbers_of_users_that_are_refused(ask, bad):
    with pytest.raises(ValueError, match="n_users must be a finite number > 0, or an array"):
        ask(Plan(OUE(), 8), bad)


@pytest.mark.parametrize(
    ("message", "aims"),
    [
        ("exactly one of the arguments rmse, overall_rmse, .*, detection, got none", {}),
        ("exactly one of .*, got rmse, change", {"rmse": 0.1, "change": 0.1}),
        ("rmse must be a finite number > 0, got 0", {"rmse": 0}),
        ("mae must be a finite number > 0, got nan", {"mae": np.nan}),
        ("half_width must be a finite number > 0, got '1 %'", {"half_width": "1 %"}),
        ("needs more than 10\\*\\*300 users", {"half_width": 1e-300}),
        (
            "only with change=, order= or detection=, got rmse=. Leave",
            {"rmse": 0.1, "power": 0.9},
        ),
        ("only with change=, order= or detection=", {"half_width": 0.1, "of": "users"}),
        ("half_width must be less than 1, .* got 5. .* 0.01 is a percentage", {"half_width": 5}),
        ("rmse must be less than 1, .* got 1.0", {"rmse": 1.0}),
        ("0.5 <= power < 1, got 0.05", {"change": 0.1, "power": 0.05}),
        ("0.5 <= power < 1, got nan", {"change": 0.1, "power": np.nan}),
        ("0.5 <= power < 1, got '80 %'", {"change": 0.1, "power": "80 %"}),
    ],
)
def test_aims_that_are_refused(message, aims):
    with pytest.raises(ValueError, match=message):
        Plan(OUE(), 8).users_for(**aims)


def test_an_aim_in_the_units_of_the_question():
    """The half width of a mean age is in years, and less than they span."""
    plan = Plan(OUE(categories=Domain.bins(10, bounds=(0, 100))), queries=mean())
    assert plan.users_for(half_width=5) > 1
    with pytest.raises(ValueError, match="half_width must be less than 90, the largest possible"):
        plan.users_for(half_width=90)


@pytest.mark.parametrize(
    ("message", "difference"),
    [
        ("exactly one of .*change, order, detection, got none", {}),
        ("exactly one of .*, got change, order", {"change": 0.1, "order": 0.1}),
        ("detection must be a finite number > 0, got -1", {"detection": -1}),
        ("of must be", {"change": 0.1, "of": "everybody"}),
        (
            r"frequency of 0\.1 and a difference of 0\.9 are impossible",
            {"order": 0.9, "frequency": 0.1},
        ),
        (r"frequency of 0 and a difference of 1\.1 are impossible", {"change": 1.1}),
        (r"and a difference of 0\.2 are impossible", {"change": 0.2, "frequency": 0.9}),
        *(
            ("frequency must be from 0 to below 1, got", {"change": 0.2, "frequency": frequency})
            for frequency in (-0.1, 5, np.nan, "5 %")
        ),
        ("compares a frequency with 0. Leave out", {"detection": 0.1, "frequency": 0.1}),
    ],
)
def test_differences_that_are_refused(message, difference):
    plan = Plan(OUE(), 8)
    with pytest.raises(ValueError, match=message):
        plan.users_for(**difference)
    with pytest.raises(ValueError, match=message):
        plan.power(100, **difference)


def test_two_frequencies_fit_into_a_distribution():
    """If there is no room for 1/d the smaller one is less; of two categories the sum is 1."""
    plan, pair = Plan(OUE(), 8), Plan(GRR(), 2)
    less = plan.power(100, order=0.9, frequency=0.05)
    assert plan.power(100, order=0.9) == pytest.approx(less)
    assert pair.users_for(order=0.1) == pair.users_for(order=0.1, frequency=0.45)
    noise, difference = GRR().channel(2).noise(1), [[1, -1]]
    std = math.sqrt(noise.answer_variance(difference, [0.55, 0.45])[0])
    power = stats.norm.cdf(0.1 * math.sqrt(500) / std - stats.norm.ppf(0.975))
    assert pair.power(500, order=0.1, of="users") == pytest.approx(power)
    with pytest.raises(ValueError, match="frequency of 0.3 and a difference of 0.1 are impossible"):
        pair.power(100, order=0.1, frequency=0.3)


def test_differences_are_between_single_categories():
    for given in ({"queries": GROUPS}, {"frequencies": TRUTH}):
        plan = Plan(OUE(), 8, **given)
        with pytest.raises(
            ValueError, match="cannot plan a change, because a change compares single categ"
        ):
            plan.users_for(change=0.1)
        with pytest.raises(ValueError, match="cannot plan a detection"):
            plan.power(100, detection=0.1)


# -- detection --------------------------------------------------------------------------------
@pytest.mark.parametrize("oracle", [GRR(), OUE(), OLH(), SubsetSelection()], ids=repr)
def test_detection_threshold_by_hand(oracle):
    std = oracle.channel(50).noise(1000).std
    expected = stats.norm.isf(0.01 / 50) * std
    plan = Plan(oracle, 50, level=0.99)
    assert plan.detection_threshold(1000, alpha=0.01) == pytest.approx(expected)
    assert plan.detection_threshold(1000) == pytest.approx(expected)
    for bad in (0, -0.1, np.nan):
        with pytest.raises(ValueError, match="alpha must be"):
            plan.detection_threshold(100, alpha=bad)


# -- n' ---------------------------------------------------------------------------------------
def test_equivalent_n_samples_by_hand():
    """The definition in the 2020 paper, section V-C, for OUE at epsilon 1."""
    p, q, d = NOISE.p, NOISE.q, 20
    by_hand = (q * (1 - q) / (p - q) ** 2 + (1 - p - q) / (d * (p - q))) / 1e-4
    assert equivalent_n_samples(NOISE, 1e-4, d) == pytest.approx(by_hand)
    many = equivalent_n_samples(NOISE, [1e-4, 2e-4, 0.0], d)
    np.testing.assert_allclose(many, [by_hand, by_hand / 2, np.inf])


def test_equivalent_n_samples_refuses():
    raw = OUE(random_state=0).simulate(COUNTS)
    with pytest.raises(ValueError, match="Pass an estimate with a noise model"):
        equivalent_n_samples(raw.noise, 0.1)
    with pytest.raises(ValueError, match="with a noise model"):
        equivalent_n_samples(type(raw)(raw.values, raw.categories), 0.1)
    for bad in (-1.0, np.nan):
        with pytest.raises(ValueError, match="Argument mse must be >= 0"):
            equivalent_n_samples(raw, bad)


# -- the picture ------------------------------------------------------------------------------
def test_a_plan_is_drawn():
    pytest.importorskip("matplotlib")
    users = [1000, 10_000, 100_000]
    plan = Plan(OUE(), 8)
    display = plan.plot(users)
    assert list(display.curves) == ["rmse", "half_width", "detection_threshold"]
    for name, curve in display.curves.items():
        np.testing.assert_array_equal(curve.x, users)
        np.testing.assert_array_equal(curve.error, getattr(plan, name)(users))
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"
    assert display.ax_.get_xlabel() == "n_users"
    assert display.ax_.get_ylabel() == "frequency"
    survey = Plan(ColumnOracle(2.0, domains={"sex": 2, "age": 5}))
    drawn = survey.plot(ax=display.ax_)
    assert drawn.ax_ is display.ax_
    assert list(drawn.curves) == ["sex", "age"]
    assert drawn.ax_.get_ylabel() == "rmse"
    np.testing.assert_array_equal(drawn.curves["age"].error[-1], survey.rmse(1e8)["age"])


# -- means -----------------------------------------------------------------------------------------
def test_the_plan_of_a_mean_is_that_of_one_bit():
    """A report of epsilon below 0.2 is c or -c, whose variance at x in [-1, 1] is c**2 - x**2."""
    oracle, n = LocalMean(0.15, bounds=(10, 30)), 5000
    square = ((math.exp(0.15) + 1) / (math.exp(0.15) - 1)) ** 2
    for shares, moment in ((None, 1 / 3), ([1, 0, 1], 1.0), ([0, 2, 0], 0.0)):
        error = Plan(oracle, frequencies=shares).rmse(n)
        assert error == pytest.approx(10 * math.sqrt((square - moment) / n), rel=1e-5)
        assert error != pytest.approx(10 * math.sqrt((square - 0.7) / n), rel=1e-5)  # control
    plan = Plan(oracle)
    assert plan.half_width(plan.users_for(half_width=2.0)) == pytest.approx(2.0, rel=1e-3)
    assert plan.power(plan.users_for(change=3.0), change=3.0) == pytest.approx(0.8, abs=1e-3)
    assert plan.users_for(change=3.0, of="users") < plan.users_for(change=3.0)
    assert plan.n_categories is None


def test_a_learner_is_planned_by_its_oracle():
    learner = LabelDPRegressor(epsilon=2.0, bounds=(0, 10))
    assert Plan(learner).rmse(100) == Plan(LocalMean(2.0, bounds=(0, 10))).rmse(100)
    domains = {"a": 2, "b": 3}
    bayes = LDPNaiveBayes(1.0, domains=domains, classes=["x", "y"])
    assert Plan(bayes).rmse(100) == Plan(bayes.oracle()).rmse(100)


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda mean: Plan(mean).power(100, detection=0.1), "supports only change="),
        (lambda mean: Plan(mean).power(100, change=1, frequency=0.1), "supports only change="),
        (
            lambda mean: Plan(mean).detection_threshold(100),
            "no detection and no detection_threshold",
        ),
        (lambda mean: Plan(mean, queries=np.eye(3)), "does not support queries= for a mean"),
        (lambda mean: Plan(mean, 5), "Leave out n_categories"),
        (lambda mean: Plan(mean, frequencies=[0.5, -1]), "frequencies"),
    ],
)
def test_what_a_mean_has_not_is_refused(ask, match):
    with pytest.raises(ValueError, match=match):
        ask(LocalMean(1.0, bounds=(0, 100)))


def test_items_are_planned_as_shares_that_overlap(seed):
    """The mean of 40 collections of three items a user; within a tenth. Control: shares of 1/6."""
    rng, n = np.random.default_rng(seed), 2000
    users = [rng.choice(6, size=3, replace=False).tolist() for _ in range(n)]
    truth = np.bincount(np.concatenate(users), minlength=6) / n
    errors = []
    for i in range(40):
        oracle = ItemOracle(4.0, categories=6, max_items=3, random_state=1000 * seed + i)
        errors.append(np.mean((oracle.fit(users).estimate_.values[0] - truth) ** 2))
    measured = np.sqrt(np.mean(errors))
    assert Plan(oracle).rmse(n) == pytest.approx(measured, rel=0.12)
    assert Plan(oracle, frequencies=np.full(6, 1 / 6)).rmse(n) < 0.7 * measured
    with pytest.raises(ValueError, match="from 0 to 1"):
        Plan(oracle, frequencies=[2, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("half_width", [0.03, 0.05])
def test_half_widths_of_few_users_are_those_of_intervals(half_width):
    oracle = GRR(5.0, categories=4, random_state=0)
    n = Plan(oracle).users_for(half_width=half_width)
    counts = np.full(4, n // 4)
    counts[: n - counts.sum()] += 1
    low, high = oracle.simulate(counts, 200).confidence_interval(0.95)
    assert np.mean(high - low) / 2 == pytest.approx(half_width, rel=0.05)
    assert Plan(oracle).half_width(n) <= half_width < Plan(oracle).half_width(n - 1)
