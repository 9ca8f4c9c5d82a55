"""The mean of a number: exact privacy and means, the optimum, and everything a collector does."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import clone

from sklearn_ldp import LocalMean
from sklearn_ldp._mechanisms.coins import TWO_64, exp_lower_bound
from sklearn_ldp._mechanisms.mean import MeanMechanism, mean_table, solved_table
from sklearn_ldp.collection import Aggregator, aggregate, read_reports, write_reports
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

OPTIMA = {0.5: 16.00, 0.7: 8.170, 1.0: 3.991, 1.5: 1.692, 2.0: 0.865, 3.0: 0.304, 4.0: 0.127}
AGES = np.random.default_rng(1).integers(15, 90, 4000)


def exact_mean(table, number):
    """The exact mean of a report's value under a number in [-1, 1], rounded between two inputs."""
    place = (number + 1) * 16
    low = min(int(place), 31)
    up = place - low
    means = [
        sum(v * n for v, n in zip(table.values, table.rows[i], strict=True)) for i in (low, low + 1)
    ]
    return ((1 - up) * means[0] + up * means[1]) / TWO_64


@pytest.mark.parametrize("epsilon", [*OPTIMA, 0.001, 0.15, 0.2, 1.2, 8.0, 50.0])
def test_every_channel_is_private_and_unbiased(epsilon):
    """As rational numbers: rows sum to 1, ratios are at most exp(epsilon), 101 means are exact."""
    table = mean_table(epsilon)
    assert all(sum(row) == TWO_64 and min(row) > 0 for row in table.rows)
    bound = exp_lower_bound(epsilon)
    for column in zip(*table.rows, strict=True):
        assert Fraction(max(column), min(column)) <= bound
    for number in (Fraction(i, 50) - 1 for i in range(101)):
        assert exact_mean(table, number) == number


@pytest.mark.parametrize("epsilon", OPTIMA)
def test_the_worst_variance_is_nearly_the_least(epsilon):
    variances = MeanMechanism(mean_table(epsilon)).variance(np.linspace(-1, 1, 1001))
    assert variances.max() <= 1.01 * OPTIMA[epsilon]
    assert MeanMechanism(mean_table(epsilon)).worst_variance >= variances.max() - 1e-12


@pytest.mark.parametrize("epsilon", [0.1, 1.5])
def test_privatize_draws_from_the_channel(epsilon):
    """Enumeration of the mechanism's own code, on a grid with one code between two inputs."""
    table = mean_table(epsilon)
    mechanism = MeanMechanism(table).for_enumeration()
    for code in (33, 64):
        law = exact_report_distribution(mechanism, code)
        assert sum(law.values()) == 1
        mean = sum(table.values[report[0]] * chance for report, chance in law.items())
        assert mean == Fraction(code, 32) - 1
        lower, upper = table.rows[code // 2], table.rows[-(-code // 2)]
        for output, chance in law.items():
            assert chance == Fraction(lower[output[0]] + upper[output[0]], 2 * TWO_64)


def test_a_larger_probability_is_found():
    """Negative control: one unit more of 2**-64 in a report is no longer within a smaller bound."""
    table = mean_table(1.0)
    column = [row[0] for row in table.rows]
    ratio = Fraction(max(column), min(column))
    assert ratio > exp_lower_bound(1.0 - 3e-5)


@pytest.mark.slow
def test_stored_channels_are_those_of_the_programme():
    """The optimum is the same; the vertex that a solver finds may be another one."""
    for epsilon in (1.0, 4.0):
        worst = MeanMechanism(solved_table(epsilon)).worst_variance
        assert worst == pytest.approx(OPTIMA[epsilon], rel=0.01)


def test_an_uncommon_budget_is_solved_between_its_neighbours():
    worst = [MeanMechanism(mean_table(epsilon)).worst_variance for epsilon in (1.0, 1.2, 1.25)]
    assert worst == sorted(worst, reverse=True)


# -- as a collector ---------------------------------------------------------------------------
def test_a_mean_with_its_interval():
    oracle = LocalMean(2.0, bounds=(0, 100), random_state=0).fit(AGES)
    low, high = oracle.confidence_interval(0.99)
    assert low < AGES.mean() < high
    assert low < oracle.mean_ < high
    assert oracle.standard_error_ == pytest.approx(50 * np.sqrt(0.866 / 4000), rel=0.01)
    wide = oracle.confidence_interval(0.99, of="population")
    assert wide[0] < low < high < wide[1]
    assert oracle.n_samples_seen_ == 4000
    assert "4,000 users" in repr(oracle.estimate_)


@pytest.mark.parametrize(
    "ages",
    [
        AGES.tolist(),
        AGES.astype(float),
        pd.Series(AGES),
        pd.DataFrame({"age": AGES}),
        AGES[:, None],
    ],
)
def test_containers(ages):
    assert LocalMean(1.0, bounds=(0, 100), random_state=0).fit(ages).mean_ == (
        LocalMean(1.0, bounds=(0, 100), random_state=0).fit(AGES).mean_
    )


def test_pieces_merges_reports_and_clones_agree():
    whole = LocalMean(1.0, bounds=(0, 100), random_state=0).fit(AGES)
    pieces = clone(whole).partial_fit(AGES[:1500]).partial_fit(AGES[1500:])
    assert pieces.mean_ == whole.mean_
    reports = whole.protocol().privatize(AGES, random_state=0)
    servers = [LocalMean(1.0, bounds=(0, 100)).aggregate(part) for part in np.split(reports, [999])]
    merged = servers[0].merge(servers[1])
    assert merged.mean_ == pytest.approx(whole.mean_)
    assert LocalMean(1.0, bounds=(0, 100), input="reports").fit(reports).mean_ == whole.mean_
    with pytest.raises(ValueError, match="differently configured"):
        merged.merge(LocalMean(1.0, bounds=(0, 90)).aggregate(np.asarray(reports)))
    histogram = clone(whole).fit([20, 80], sample_weight=[3000, 1000])
    assert histogram.n_samples_seen_ == 4000


def test_files_and_an_aggregator(tmp_path):
    oracle = LocalMean(1.0, bounds=(0, 100))
    write_reports(tmp_path / "monday.parquet", oracle.privatize(AGES), oracle)
    write_reports(tmp_path / "tuesday.parquet", oracle.privatize(AGES), oracle)
    server = Aggregator(oracle)
    for day in ("monday", "tuesday"):
        aggregate(tmp_path / f"{day}.parquet", server)
    server.save(tmp_path / "state.npz")
    found = Aggregator.load(tmp_path / "state.npz", oracle).estimate_
    assert found.n_samples.tolist() == [8000]
    low, high = found.confidence_interval(0.9999)
    assert low[0] < AGES.mean() < high[0]
    with pytest.raises(ValueError, match="domain"):
        read_reports(tmp_path / "monday.parquet", LocalMean(1.0, bounds=(0, 99)))


def test_groups():
    oracle = LocalMean(3.0, bounds=(0, 100), random_state=0)
    estimate = estimate_by_group(oracle, AGES, AGES > 50)
    low, high = estimate.confidence_interval(0.9999)
    truth = np.array([AGES[AGES <= 50].mean(), AGES[AGES > 50].mean()])
    assert estimate.row_names == [False, True]
    assert np.all((low < truth) & (truth < high))
    assert estimate.n_samples.sum() == 4000
    assert len(estimate) == 2


@pytest.mark.parametrize(
    ("bounds", "what"),
    [
        (None, "two finite numbers"),
        ("auto", "learnt from users' values would reveal some of them. Got 'auto'"),
        ((1, 0), "of which the second is larger"),
        ((0, np.inf), "two finite numbers"),
        ((np.nan, 1), "two finite numbers"),
        (3, "two finite numbers"),
    ],
)
def test_bounds_that_are_none(bounds, what):
    for ask in (lambda one: one.fit([1.0]), lambda one: one.privatize([1.0])):
        with pytest.raises(ValueError, match=what):
            ask(LocalMean(1.0, bounds=bounds))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (-1, "outside of its bounds 0 and 100 at position 1"),
        (100.5, "outside of its bounds 0 and 100 at position 1"),
        (np.inf, "outside of its bounds"),
        (np.nan, "NaN"),
        (None, "NaN"),
        ("old", "no number"),
    ],
)
def test_refused_numbers_change_nothing_and_are_not_shown(value, what):
    oracle = LocalMean(1.0, bounds=(0, 100)).partial_fit([1, 2, 3])
    with pytest.raises(ValueError, match=what) as found:
        oracle.privatize([5, value])
    assert str(value) not in str(found.value).replace("NaN", "").replace("(None in a list", "")
    with pytest.raises(ValueError):  # noqa: PT011
        oracle.partial_fit([5, value])
    assert oracle.n_samples_seen_ == 3
    with pytest.raises(ValueError, match="one number per user"):
        oracle.privatize([[1, 2], [3, 4]])


def test_one_user_has_an_interval():
    low, high = LocalMean(1.0, bounds=(0, 100)).fit([100]).confidence_interval(0.95)
    assert 0 <= low < high <= 100


# -- statistics -------------------------------------------------------------------------------
def misses(seed, widen):
    """In how many of 400 collections the interval of 90 % misses, with its width times `widen`."""
    oracle = LocalMean(1.0, bounds=(0, 100), random_state=seed)
    groups = np.repeat(np.arange(400), 100)
    users = np.tile(np.linspace(0, 100, 100), 400)
    estimate = estimate_by_group(oracle, users, groups)
    half_width = 1.6449 * estimate.standard_error * widen
    return int(np.sum(np.abs(estimate.mean - 50) > half_width))


def is_rejected(n_misses):
    """Whether so many misses of 10 % happen once in 10,000 tests, on either side."""
    return not binom.ppf(5e-5, 400, 0.1) <= n_misses <= binom.isf(5e-5, 400, 0.1)


def test_the_standard_error_is_right(seed):
    """Error rate 1e-4, with any seed; the negative control is 25 % too narrow."""
    assert not is_rejected(misses(seed, 1.0))
    assert is_rejected(misses(seed, 0.7))
