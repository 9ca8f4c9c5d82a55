"""Items with numbers: the law over whole mappings, means with their intervals, and bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sklearn_ldp import KeyValueOracle
from sklearn_ldp.utils._checks import check_exact_epsilon_of, exact_report_distribution

KEYS = ["a", "b", "c", "d"]


def oracle(**parameters):
    given = {"categories": KEYS, "bounds": (-5, 5), "max_items": 3, "random_state": 0}
    return KeyValueOracle(2.0).set_params(**{**given, **parameters})


def test_epsilon_and_the_sums_of_low_and_high_are_exact():
    """Over two keys and numbers on a grid of three points: codes are 1 + 3 key + level."""
    channel = KeyValueOracle(1.0, max_items=2).channel(2)
    channel.n_picks, channel.n_levels = 1, 2
    users = [[0, 0], [1, 0], [2, 0], [3, 0], [5, 0], [6, 3], [4, 1], [5, 2]]
    check_exact_epsilon_of(channel, map(np.array, users), 1.0)
    for codes in [users[0], *users[1::2]]:
        law, mean = exact_report_distribution(channel, np.array(codes)), np.zeros((2, 2))
        for report, chance in law.items():
            tally = channel.decode(channel.tally(np.array([report]))[None])
            mean += float(chance) * channel.signed(tally, np.array([1]))[0]
        expected = np.zeros((2, 2))
        for code in filter(None, codes):
            key, level = divmod(code - 1, 3)
            expected[key] = 1 - level / 2, level / 2
        np.testing.assert_allclose(mean, expected, atol=1e-12)


def users_of(rng, n):
    """A data frame in which NaN is an item that a user does not have."""
    has = rng.random((n, 4)) < [0.8, 0.5, 0.2, 0.0]
    numbers = np.clip(rng.normal([3, -2, 0, 1], 1, (n, 4)), -5, 5)
    return pd.DataFrame(np.where(has, numbers, np.nan), columns=KEYS)


@pytest.mark.parametrize("n_runs", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_intervals_of_keys_and_means_cover(n_runs, seed):
    """Binomial tests of 95 % intervals at 1e-6. Negative control: half as wide intervals."""
    rng = np.random.default_rng(seed)
    frame = users_of(rng, 4000)
    means, truth = frame.mean().to_numpy()[:3], frame.notna().mean().to_numpy()
    covers, half, keys, scores = [], [], [], []
    for _ in range(n_runs):
        fitted = oracle(random_state=rng).fit(frame)
        low, high = (end[:3] for end in fitted.means_interval())
        covers.append((low <= means) & (means <= high))
        middle, width = (low + high) / 2, (high - low) / 8
        half.append(abs(middle - means) <= width)
        ends = fitted.estimate_.confidence_interval(0.95)
        keys.append((ends.low[0] <= truth) & (truth <= ends.high[0]))
        scores.append((fitted.means_[:2] - means[:2]) / fitted.means_std_[:2])
    for covered in (np.ravel(covers), np.ravel(keys)):
        assert stats.binomtest(int(covered.sum()), covered.size, 0.95).pvalue > 1e-6
    missed = np.ravel(half)
    assert stats.binomtest(int(missed.sum()), missed.size, 0.95).pvalue < 1e-6
    total = np.sum(np.square(scores))
    assert 1e-6 < stats.chi2.sf(total, np.size(scores)) < 1 - 1e-6


def test_a_mapping_and_a_frame_are_the_same_and_a_rare_key_has_no_mean():
    frame = users_of(np.random.default_rng(0), 2000)
    mappings = [row[row.notna()].to_dict() for _, row in frame.iterrows()]
    one, other = oracle().fit(frame[KEYS[::-1]]), oracle().fit(mappings)
    np.testing.assert_array_equal(one.support_counts_, other.support_counts_)
    np.testing.assert_allclose(one.true_frequencies(mappings), frame.notna().mean())
    estimate = one.estimate_
    is_rare = estimate.flags["too rare for a mean"]
    assert is_rare[3]
    np.testing.assert_array_equal(np.isnan(one.means_), is_rare)
    low, high = one.means_interval()
    assert np.all((low >= -5) & (low <= high) & (high <= 5))
    assert "d (too rare for a mean)" in estimate.labels.tolist()
    assert estimate.shares_overlap


@pytest.mark.parametrize(
    ("X", "fault"),
    [
        ([{"a": 6}], "a number outside of the bounds -5 and 5 at position 0, which is not shown"),
        ([{}, {"a": float("nan")}], r"a missing number \(NaN\) of an item. Leave the item out"),
        ([{"SECRET": 1}], "in the list of row 0, got an unknown category"),
        ([{"a": "SECRET"}], "an item whose value is not a number"),
        ([{"a": None}], "an item whose value is not a number"),
        ([["a"]], "a mapping from items to numbers"),
        ({"a": 1}, "a mapping from items to numbers"),
        ([], "at least 1 sample"),
        (pd.DataFrame({"a": [1.0]}), "no label for the category 'b'"),
    ],
)
def test_what_is_no_mapping_is_refused(X, fault):
    with pytest.raises(ValueError, match=fault) as caught:
        oracle(random_state=None).privatize(X)
    assert "SECRET" not in str(caught.value)
    with pytest.raises(ValueError, match="bounds"):
        oracle(bounds=(1, 1)).fit([{"a": 1}])


def test_intervals_of_one_small_value_a_user_cover(seed):
    """60 collections cover .95 at least; .83 or less has a probability of 1e-3.

    Negative control: the normal intervals of the same means and errors cover .41 of 300.
    """
    users, covered, normal = [{"a": 0.005}] * 100, [], []
    for i in range(60):
        oracle = KeyValueOracle(
            8.0, categories=["a", "b"], max_items=1, random_state=1000 * seed + i
        )
        low, high = oracle.fit(users).means_interval(0.95)
        covered.append(low[0] <= 0.005 <= high[0])
        normal.append(abs(oracle.means_[0] - 0.005) <= stats.norm.isf(0.025) * oracle.means_std_[0])
    assert np.mean(covered) > 0.83 > np.mean(normal)


@pytest.mark.parametrize("epsilon", [6.0, 12.0])
def test_errors_of_means_have_the_drawing_of_low_and_high(epsilon):
    """400 numbers in the middle are drawn to be low or high, even if reports have no noise."""
    settings = {"categories": ["a", "b"], "max_items": 1, "random_state": 0}
    fitted = KeyValueOracle(epsilon, bounds=(0, 10), **settings).fit([{"a": 5.0}] * 400)
    assert fitted.means_std_[0] == pytest.approx(10 * np.sqrt(0.25 / 400), rel=0.02)
    at_bounds = KeyValueOracle(epsilon, bounds=(0, 10), **settings).fit([{"a": 10.0}] * 400)
    assert at_bounds.means_std_[0] < 0.1  # negative control: nothing is drawn at a bound
