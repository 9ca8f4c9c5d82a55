"""Intervals whose level is valid for all looks at a growing collection."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from benchmarks.accuracy.noisy_counts import looks_at_means
from sklearn_ldp import GRR, FrequencyEstimate, LocalMean, NormSub
from sklearn_ldp._core.noise import Noise
from sklearn_ldp._core.statistics._confidence import critical_of_look
from sklearn_ldp.inference import mean_by_answer
from sklearn_ldp.inspection import EstimateReport
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.queries import top_k

ORACLE = GRR(1.0, categories=["no", "yes"], random_state=0)
ESTIMATE = ORACLE.simulate([700, 300])


def test_the_width_is_smallest_where_it_is_tuned():
    """Theorem 2.2 with the best rho, found numerically, at 2,000 users."""
    alpha, n = 0.05, 2_000

    def half_width(rho, users):
        x = users * rho**2
        return np.sqrt(2 * (x + 1) / (users * x) * np.log(np.sqrt(x + 1) / alpha))

    best = minimize_scalar(lambda log: half_width(np.exp(log), n), bounds=(-12, 0)).x
    for users in (100, 2_000, 50_000):
        expected = half_width(np.exp(best), users) * np.sqrt(users)
        assert critical_of_look(1 - alpha, users, n) == pytest.approx(expected, rel=1e-5)


def test_looks_at_normal_sums(seed):
    """2,000 walks with 200 looks at 100 to 20,000 users: fails in less than 1 of 10,000 seeds.

    Negative control: ordinary intervals miss at some look in more than 30 % of the walks.
    """
    n_users = 100.0 * np.arange(1, 201)
    steps = np.random.default_rng(seed).normal(size=(2_000, 200))
    statistics = np.abs(steps.cumsum(axis=1)) / np.sqrt(np.arange(1, 201))
    critical = [critical_of_look(0.95, n, 2_000) for n in n_users]
    assert np.mean(np.any(statistics > critical, axis=1)) < 0.05 + 4 * np.sqrt(0.0475 / 2_000)
    assert np.mean(np.any(statistics > 1.96, axis=1)) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("of", ["users", "population"])
def test_looks_at_reports(of, seed):
    """400 collections of GRR with 60 looks: fails in less than 1 of 10,000 seeds.

    Negative control: ordinary intervals miss at some look in more than 20 %.
    """
    rng = np.random.default_rng(seed)
    channel = ORACLE.channel(2)
    p, q = float(channel.p), float(channel.q)
    users = (rng.random((400, 60, 100)) < 0.3).sum(axis=2)
    support = rng.binomial(users, p) + rng.binomial(100 - users, q)
    n_users = 100 * np.arange(1, 61)
    frequencies = (support.cumsum(axis=1) / n_users - q) / (p - q)
    truth = users.cumsum(axis=1) / n_users if of == "users" else 0.3
    missed = {}
    for at_all_times in (False, 2_000):
        low, high = np.empty((2, 400, 60))
        for i, n in enumerate(n_users[2:], 2):
            rows = np.column_stack([1 - frequencies[:, i], frequencies[:, i]])
            estimate = FrequencyEstimate(rows, ["no", "yes"], Noise.of(channel, np.full(400, n)))
            ends = estimate.confidence_interval(0.95, of=of, at_all_times=at_all_times)
            low[:, i], high[:, i] = ends.low[:, 1], ends.high[:, 1]
        is_outside = (low > truth) | (truth > high)
        missed[at_all_times] = is_outside[:, 2:].any(axis=1).mean()
    assert missed[2_000] < 0.05 + 4 * np.sqrt(0.0475 / 400)
    assert missed[False] > 0.2


def test_intervals_of_one_look_are_wider_ordinary_ones():
    wide = ESTIMATE.confidence_interval(0.95, at_all_times=True)
    level = 1 - 2 * ndtr(-critical_of_look(0.95, 1_000, 1_000))
    for pair in zip(wide, ESTIMATE.confidence_interval(level), strict=True):
        np.testing.assert_allclose(*pair)
    widths = np.subtract(*wide[::-1]) / np.subtract(*ESTIMATE.confidence_interval(0.95)[::-1])
    np.testing.assert_allclose(widths, 1.55, rtol=0.03)
    each = ESTIMATE.confidence_interval(0.975, at_all_times=True)
    together = ESTIMATE.confidence_interval(0.95, simultaneous=True, at_all_times=True)
    np.testing.assert_allclose(each.low, together.low)  # Bonferroni


def test_differences_share_the_error_probability():
    other = ORACLE.simulate([600, 400])
    ends = (other - ESTIMATE).confidence_interval(0.95, at_all_times=500)
    critical = critical_of_look(0.975, 1_000, 500)
    widths = np.zeros(2)
    for estimate in (other, ESTIMATE):
        widths += critical * np.sqrt(estimate.noise.of_population().variance(estimate.values[0]))
    half = (ends.high - ends.low)[0] / 2 - ESTIMATE.noise.half_count * 2
    np.testing.assert_allclose(half, widths, rtol=0.01)


def test_reports_of_all_looks_have_wider_intervals_and_name_them():
    plain = ESTIMATE.describe()
    looks = ESTIMATE.describe(at_all_times=500)
    assert looks["interval"] == "95 % simultaneous at all looks"
    assert "valid for all looks" in EstimateReport(looks).html
    assert all("95 % confidence, at all looks" in text for text in looks["may_be_said"])
    for row, other in zip(looks["rows"], plain["rows"], strict=True):
        assert row["low"] < other["low"] < other["high"] < row["high"]
    single = ESTIMATE.confidence_interval(0.95, at_all_times=500)  # both answers are one statement
    assert looks["rows"][0]["low"] < single.low.max()
    with pytest.raises(ValueError, match="need the number of users, which this estimate lacks"):
        FrequencyEstimate([[0.5, 0.5]], ["a", "b"]).describe(at_all_times=True)


@pytest.mark.parametrize("at_all_times", [0, 2.5, "yes", -3])
def test_the_number_of_users_is_whole(at_all_times):
    with pytest.raises(ValueError, match="at_all_times must be True, False or an integer >= 1"):
        ESTIMATE.confidence_interval(at_all_times=at_all_times)


def test_intervals_that_cannot_be_valid_at_all_times_are_refused():
    with pytest.raises(ValueError, match="at_all_times= is only available for a raw estimate"):
        ESTIMATE.confidence_interval(0.95, top_k(1), coverage="selected", at_all_times=True)
    with pytest.raises(ValueError, match="after NormSub"):
        NormSub().fit_transform(ESTIMATE).confidence_interval(at_all_times=True)
    unknown = FrequencyEstimate.from_counts([5, 6], std=1.0, n_samples=11)
    with pytest.raises(
        ValueError, match="intervals at all times the distribution of the noise must be known"
    ):
        unknown.confidence_interval(at_all_times=True)


# -- means ------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LocalMean", "mean_by_answer"])
def test_looks_at_means(kind, seed):
    """120 collections with 40 looks: fails in less than 1 of 10,000 seeds.

    Negative control: ordinary intervals miss at some look in more than 10 %.
    """
    for missed in looks_at_means(kind, 120, 40, np.random.default_rng(seed)).values():
        ordinary, at_all_looks = missed.any(axis=2).mean(axis=1)
        assert at_all_looks < 0.05 + 4 * np.sqrt(0.0475 / 120)
        assert ordinary > 0.1


def test_means_of_all_looks_are_wider_ordinary_ones():
    values = [1.0, 4.0, 9.0] * 400
    groups = np.repeat(["few", "many"], [300, 900])
    oracle = LocalMean(1.0, bounds=(0, 10), random_state=0)
    means = estimate_by_group(oracle, values, groups)
    low, high = means.confidence_interval(0.95, at_all_times=500)
    critical = np.array([critical_of_look(0.95, n, 500) for n in (300, 900)])
    np.testing.assert_allclose(high - low, 2 * critical * means.standard_error)
    np.testing.assert_allclose(means.to_frame(at_all_times=500)[["low", "high"]].T, [low, high])
    change = means.difference("few", "many", at_all_times=500)
    critical = np.array([critical_of_look(0.975, n, 500) for n in (300, 900)])
    assert (change.high - change.low) / 2 == pytest.approx(critical @ means.population_error)
    oracle.fit(values)
    low, high = oracle.confidence_interval(0.95, of="population", at_all_times=True)
    expected = critical_of_look(0.95, 1_200, 1_000) * oracle.estimate_.population_error[0]
    assert (high - low) / 2 == pytest.approx(expected)


def test_means_by_answer_of_all_looks_are_ordinary_ones_of_a_larger_level():
    answers = np.repeat(["no", "yes"], [1_400, 600])
    means = mean_by_answer(np.arange(2_000.0) % 7, ORACLE.privatize(answers), ORACLE)
    level = 1 - 2 * ndtr(-critical_of_look(0.95, 2_000, 500))
    wide = means.confidence_interval(0.95, at_all_times=500)
    for pair in zip(wide, means.confidence_interval(level), strict=True):
        np.testing.assert_allclose(*pair)
    change = means.difference("no", "yes", at_all_times=500)
    half_width = critical_of_look(0.95, 2_000, 500) * change.standard_error
    assert change.high - change.value == pytest.approx(half_width)
    for method in (means.confidence_interval, partial(means.difference, "no", "yes")):
        with pytest.raises(ValueError, match="at_all_times must be True, False or an integer >="):
            method(at_all_times=-1)
