"""The mean of a number: exact privacy and means, the optimum, and everything a collector does."""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from estimators import slow_but
from scipy.stats import binom
from sklearn.base import clone

from sklearn_ldp import LocalMean
from sklearn_ldp._core.mechanisms.coins import PROBABILITY_UNIT, exp_lower_bound
from sklearn_ldp._core.mechanisms.mean import MeanMechanism, mean_table, solved_table
from sklearn_ldp.collection import Aggregator, aggregate, read_reports, write_reports
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

OPTIMA = {0.5: 16.00, 0.7: 8.170, 1.0: 3.991, 1.5: 1.692, 2.0: 0.865, 3.0: 0.304, 4.0: 0.127}
AGES = np.random.default_rng(1).integers(15, 90, 4000)


def exact_mean(table, number):
    """The exact mean of a report's value under a number in [-1, 1], rounded between two inputs."""
    n_steps = len(table.rows) - 1
    place = (number + 1) * n_steps / 2
    low = min(int(place), n_steps - 1)
    up = place - low
    means = [
        sum(v * n for v, n in zip(table.values, table.rows[i], strict=True)) for i in (low, low + 1)
    ]
    return ((1 - up) * means[0] + up * means[1]) / PROBABILITY_UNIT


CHANNELS = list(product((*OPTIMA, 0.001, 0.15, 0.2, 1.2, 5.0, 6.0, 8.0, 50.0), (1.0, 1.1)))


# A programme is solved for 1.2; that of 1.1 begins with that of 1.
@pytest.mark.parametrize(
    ("epsilon", "worst_case"), slow_but([c for c in CHANNELS if c != (1.2, 1.0)], CHANNELS)
)
def test_every_channel_is_private_and_unbiased(epsilon, worst_case):
    """As rational numbers: rows sum to 1, ratios are at most exp(epsilon), 101 means are exact."""
    table = mean_table(epsilon, worst_case)
    assert all(sum(row) == PROBABILITY_UNIT and min(row) > 0 for row in table.rows)
    bound = exp_lower_bound(epsilon)
    for column in zip(*table.rows, strict=True):
        assert Fraction(max(column), min(column)) <= bound
    for number in (Fraction(i, 50) - 1 for i in range(101)):
        assert exact_mean(table, number) == number


@pytest.mark.parametrize("epsilon", OPTIMA)
def test_the_worst_variance_is_nearly_the_least(epsilon):
    mechanism = MeanMechanism(mean_table(epsilon, 1.0))
    variances = mechanism.variance(np.linspace(-1, 1, 1001))
    assert variances.max() <= 1.01 * OPTIMA[epsilon]
    assert mechanism.worst_variance >= variances.max() - 1e-12


# Mean variances over the bounds, as shares of that of the channel of the least worst case.
SHARES = {0.5: 1.001, 1.0: 0.98, 1.5: 0.94, 2.0: 0.91, 3.0: 0.885, 4.0: 0.87, 6.0: 0.865}


@pytest.mark.parametrize("epsilon", SHARES)
def test_a_little_more_in_the_worst_case_is_less_on_average(epsilon):
    """The mean variance over the bounds, and the cap, which rounding between inputs exceeds."""
    capped, minimax = (MeanMechanism(mean_table(epsilon, worst)) for worst in (1.1, 1.0))
    numbers = np.linspace(-1, 1, 1001)
    assert capped.variance(numbers).mean() <= SHARES[epsilon] * minimax.variance(numbers).mean()
    least = OPTIMA.get(epsilon, 0.02715)  # at 6 of the programme with 129 inputs
    assert capped.variance(numbers).max() <= 1.11 * least


@pytest.mark.parametrize("worst_case", [1.0, 1.1])
@pytest.mark.parametrize("epsilon", [0.15, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_outputs_say_at_least_their_variance(epsilon, worst_case):
    """On average, whatever the number is, and at most 4 % too much on average over the bounds.

    A tenth less is the negative control: it says too little of some numbers.
    """
    mechanism, numbers = MeanMechanism(mean_table(epsilon, worst_case)), np.linspace(-1, 1, 4001)
    of_inputs = mechanism.variance_estimates @ mechanism.probabilities
    said = np.interp(numbers, np.linspace(-1, 1, mechanism.n_categories), of_inputs)
    true, slack = mechanism.variance(numbers), 1e-7 * mechanism.worst_variance
    assert np.all(said >= true - slack)
    assert said.mean() <= 1.04 * true.mean()
    assert not np.all(0.9 * said >= true - slack)
    # The mean of few reports is drawn towards the worst variance, and never above it.
    one, tallies = np.ones(1), np.eye(mechanism.n_reports, dtype=int)
    each = [mechanism.mean_variance(tally[None], one)[0] for tally in tallies]
    assert np.all(np.array(each) <= mechanism.worst_variance)
    assert np.all(np.array(each) >= 0.8 * mechanism.worst_variance)


@pytest.mark.parametrize(("epsilon", "worst_case"), [(0.1, 1.1), (1.5, 1.0), (1.5, 1.1), (6, 1.1)])
def test_privatize_draws_from_the_channel(epsilon, worst_case):
    """Enumeration of the mechanism's own code, on a grid with one code between two inputs."""
    table = mean_table(epsilon, worst_case)
    mechanism = MeanMechanism(table).for_enumeration()
    n_steps = len(table.rows) - 1
    for code in (n_steps + 1, 2 * n_steps):
        law = exact_report_distribution(mechanism, code)
        assert sum(law.values()) == 1
        mean = sum(table.values[report[0]] * chance for report, chance in law.items())
        assert mean == Fraction(code, n_steps) - 1
        lower, upper = table.rows[code // 2], table.rows[-(-code // 2)]
        for output, chance in law.items():
            assert chance == Fraction(lower[output[0]] + upper[output[0]], 2 * PROBABILITY_UNIT)


def test_a_larger_probability_is_found():
    """Negative control: one unit more of 2**-64 in a report is no longer within a smaller bound."""
    for worst_case in (1.0, 1.1):
        column = [row[0] for row in mean_table(1.0, worst_case).rows]
        ratio = Fraction(max(column), min(column))
        assert ratio > exp_lower_bound(1.0 - 3e-5)


@pytest.mark.slow
def test_stored_channels_are_those_of_the_programme():
    """The optimum is the same; the vertex that a solver finds may be another one."""
    for epsilon in (1.0, 4.0, 6.0):
        worst = MeanMechanism(solved_table(epsilon, 1.0)).worst_variance
        assert worst == pytest.approx(OPTIMA.get(epsilon, 0.02715), rel=0.01)
        means = [
            MeanMechanism(table).variance(np.linspace(-1, 1, 101)).mean()
            for table in (solved_table(epsilon, 1.1), mean_table(epsilon, 1.1))
        ]
        assert means[0] == pytest.approx(means[1], rel=1e-3)


@pytest.mark.parametrize("worst_case", slow_but([1.1], [1.0, 1.1]))
def test_an_uncommon_budget_is_solved_between_its_neighbours(worst_case):
    worst = [MeanMechanism(mean_table(e, worst_case)).worst_variance for e in (1.0, 1.2, 1.5)]
    assert worst == sorted(worst, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "worst_case"),
    [(0.21, 1.5), (0.9, 1.001), (0.9, 10), (4.9, 1.001), (4.9, 1.5), (5.1, 10), (7.9, 1.5)],
)
def test_any_budget_and_any_worst_case_have_a_channel(epsilon, worst_case):
    capped = MeanMechanism(solved_table(epsilon, worst_case))
    least = MeanMechanism(solved_table(epsilon, 1.0)).worst_variance
    assert capped.worst_variance <= 1.001 * worst_case * least


# -- as a collector ---------------------------------------------------------------------------
def test_a_mean_with_its_interval():
    oracle = LocalMean(2.0, bounds=(0, 100), random_state=0).fit(AGES)
    low, high = oracle.confidence_interval(0.99)
    assert low < AGES.mean() < high
    assert low < oracle.mean_ < high
    mechanism = oracle.protocol().mechanism
    variance = mechanism.variance(AGES / 50 - 1).mean()
    assert variance < 0.95 * mechanism.worst_variance
    assert oracle.standard_error_ == pytest.approx(50 * np.sqrt(variance / 4000), rel=0.03)
    wide = oracle.confidence_interval(0.99, of="population")
    assert wide[0] < low < high < wide[1]
    assert oracle.n_samples_seen_ == 4000
    assert "4,000 users" in repr(oracle.estimate_)
    low, high = LocalMean(1.0, bounds=(0, 100)).fit([100]).confidence_interval(0.95)
    assert 0 <= low < high <= 100  # of one user


@pytest.mark.parametrize("make", [list, pd.Series, pd.DataFrame, lambda ages: ages[:, None] + 0.0])
def test_containers(make):
    oracle = LocalMean(1.0, bounds=(0, 100), random_state=0)
    assert clone(oracle).fit(make(AGES)).mean_ == oracle.fit(AGES).mean_


def test_a_client_of_the_other_channel_is_refused(tmp_path):
    """Its reports are outputs with other values: files, batches, states and merges are refused."""
    servers = [LocalMean(2.0, bounds=(0, 100), worst_case=worst) for worst in (1.1, 1.0)]
    path, state = tmp_path / "a.parquet", tmp_path / "state.npz"
    for mine, other in (servers, servers[::-1]):
        reports = mine.privatize(AGES)
        write_reports(path, reports, mine)
        with pytest.raises(ValueError, match="another collection: channel"):
            read_reports(path, other)
        with pytest.raises(ValueError, match="another collection: channel"):
            other.aggregate(reports)
        aggregate(path, Aggregator(mine)).save(state)
        with pytest.raises(ValueError, match="channel"):
            Aggregator.load(state, other)
        with pytest.raises(ValueError, match="they have other values of worst_case"):
            clone(mine).aggregate(reports).merge(clone(other).fit(AGES))


@pytest.mark.parametrize(
    ("epsilon", "worst_case", "digest"),
    [
        (1.0, 1.0, "41a83536"),
        (1.0, 1.1, "6628f046"),
        (4.0, 1.1, "6275c204"),
        (6.0, 1.1, "d122abc3"),
    ],
)
def test_stored_channels_never_change(epsilon, worst_case, digest):
    """They are parts of protocols: a client of another release is refused otherwise."""
    oracle = LocalMean(epsilon, bounds=(0, 1), worst_case=worst_case)
    assert oracle.protocol().mechanism.configuration["channel"].startswith(digest)


def test_groups():
    oracle = LocalMean(3.0, bounds=(0, 100), random_state=0)
    estimate = estimate_by_group(oracle, AGES, AGES > 50)
    low, high = estimate.confidence_interval(0.9999)
    truth = np.array([AGES[AGES <= 50].mean(), AGES[AGES > 50].mean()])
    assert estimate.row_names == [False, True]
    assert np.all((low < truth) & (truth < high))
    assert estimate.n_samples.sum() == 4000
    assert len(estimate) == 2
    change = estimate.difference(True, False, 0.9999)
    assert change.value == pytest.approx(estimate.mean[1] - estimate.mean[0])
    assert change.standard_error == pytest.approx(np.hypot(*estimate.population_error))
    assert change.low < truth[1] - truth[0] < change.high
    with pytest.raises(ValueError, match=r"No mean has the name 'old'\. Pass names from"):
        estimate.difference("old", True)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        *(({"bounds": one}, "two finite numbers") for one in (None, (0, np.inf), (np.nan, 1), 3)),
        ({"bounds": "auto"}, "got bounds='auto'.* without the users' values"),
        ({"bounds": (1, 0)}, "the smaller first"),
        *(({"worst_case": one}, "worst_case") for one in (0.99, np.nan, np.inf, "minimax")),
    ],
)
def test_bounds_and_worst_cases_that_are_none(given, what):
    for ask in (lambda one: one.fit([1.0]), lambda one: one.privatize([1.0])):
        with pytest.raises(ValueError, match=what):
            ask(LocalMean(1.0, **{"bounds": (0, 1), **given}))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (-1, "outside of the bounds 0 and 100 at position 1"),
        (100.5, "outside of the bounds 0 and 100 at position 1"),
        (np.inf, "outside of the bounds"),
        (np.nan, "NaN"),
        (None, "NaN"),
        ("old", "not a number"),
    ],
)
def test_refused_numbers_are_not_shown(value, what):
    oracle = LocalMean(1.0, bounds=(0, 100))
    with pytest.raises(ValueError, match=what) as found:
        oracle.privatize([5, value])
    assert str(value) not in str(found.value).replace("NaN", "").replace("(None in a list", "")
    with pytest.raises(ValueError, match="one number per user"):
        oracle.privatize([[1, 2], [3, 4]])


# -- statistics -------------------------------------------------------------------------------
def misses(seed, epsilon, most, widen):
    """In how many of 400 collections the interval of 90 % misses, with its width times `widen`."""
    oracle = LocalMean(epsilon, bounds=(0, 100), random_state=seed)
    groups = np.repeat(np.arange(400), 100)
    users = np.tile(np.linspace(100 - most, most, 100), 400)
    estimate = estimate_by_group(oracle, users, groups)
    half_width = 1.6449 * estimate.standard_error * widen
    return int(np.sum(np.abs(estimate.mean - 50) > half_width))


def is_rejected(n_misses):
    """Whether so many misses of 10 % happen once in 10,000 tests, on either side."""
    return not binom.ppf(5e-5, 400, 0.1) <= n_misses <= binom.isf(5e-5, 400, 0.1)


@pytest.mark.parametrize(("epsilon", "most"), [(1.0, 100), (4.0, 100), (4.0, 60)])
def test_the_standard_error_is_right(seed, epsilon, most):
    """Error rate 1e-4, with any seed; the negative controls are 30 % too narrow, 30 % too wide.

    With epsilon 4, users in the middle have 0.6 of the worst variance, whose intervals are those.
    """
    assert not is_rejected(misses(seed, epsilon, most, 1.0))
    assert is_rejected(misses(seed, epsilon, most, 0.7))
    assert is_rejected(misses(seed, epsilon, most, 1.5))
