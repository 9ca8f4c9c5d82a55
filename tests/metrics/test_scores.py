"""Bias, variance and heavy hitters against loops, scikit-learn's scores and known laws."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import f1_score, precision_score, recall_score

from sklearn_ldp import OUE, BasePos, FrequencyEstimate, PostPos
from sklearn_ldp.metrics import bias_variance, frequency_mse, heavy_hitter_scores
from sklearn_ldp.queries import groups, top_k

TRUTH = np.array([0.4, 0.3, 0.2, 0.1])
ESTIMATES = np.array([[0.5, 0.4, 0.2, -0.1], [0.3, 0.3, -0.2, 0.6], [0.4, 0.3, 0.2, 0.1]])


# -- bias and variance ------------------------------------------------------------------------
def test_bias_and_variance_by_hand():
    result = bias_variance(TRUTH, ESTIMATES)
    for v in range(4):
        column = [row[v] for row in ESTIMATES]
        mean = sum(column) / 3
        variance = sum((x - mean) ** 2 for x in column) / 2
        assert result.mean[v] == pytest.approx(mean)
        assert result.bias[v] == pytest.approx(mean - TRUTH[v])
        assert result.variance[v] == pytest.approx(variance)
        assert result.bias_error[v] == pytest.approx((variance / 3) ** 0.5)
    assert result._fields == ("mean", "bias", "variance", "bias_error", "variance_error")
    assert all(column.shape == (4,) for column in result)
    total = np.mean(result.bias**2 + result.variance * 2 / 3)
    assert total == pytest.approx(frequency_mse(TRUTH, ESTIMATES))


def test_bias_of_queries_and_of_clipped_answers():
    """The bias of a set is the sum of its biases; its standard error is not."""
    each, sets = bias_variance(TRUTH, ESTIMATES), groups([0, 0, 1, 1])
    of_sets = bias_variance(TRUTH, ESTIMATES, queries=sets)
    np.testing.assert_allclose(of_sets.bias, [each.bias[:2].sum(), each.bias[2:].sum()])
    np.testing.assert_allclose(of_sets.mean, ESTIMATES.mean(axis=0).reshape(2, 2).sum(axis=1))
    top = bias_variance(TRUTH[::-1], ESTIMATES[:, ::-1], queries=top_k(2))
    np.testing.assert_allclose(top.bias, each.bias[:2])
    clipped = PostPos().fit_transform(FrequencyEstimate(ESTIMATES, range(4)))
    result = bias_variance(TRUTH, clipped)
    np.testing.assert_allclose(result.mean, np.maximum(ESTIMATES, 0).mean(axis=0))


def test_standard_errors_are_those_of_repeated_studies(seed):
    """Over 400 studies of 100 estimates: z scores of bias and variance are standard normal.

    Chi-square tests of 3 + 3 variances of z scores, error rate 1e-8 each, with room for what the
    plug-in errors add. Negative control: errors too small by a half.
    """
    counts = np.array([500, 300, 200])
    raw = OUE(random_state=seed).simulate(counts, 400 * 100)
    variance = raw.noise.variance(counts / 1000)
    z = []
    for study in range(400):
        rows = raw[np.arange(study * 100, (study + 1) * 100)]
        result = bias_variance(counts / 1000, rows)
        deviation = (result.variance - variance) / result.variance_error
        z.append([*(result.bias / result.bias_error), *deviation])
    spread = np.mean(np.square(z), axis=0)
    room = 1.15
    assert np.all(spread < room * stats.chi2.isf(1e-8, 400) / 400)
    assert np.all(spread > stats.chi2.ppf(1e-8, 400) / 400 / room)
    assert np.all(4 * spread > room * stats.chi2.isf(1e-8, 400) / 400)


def test_positive_part_is_biased_and_the_raw_estimate_is_not(seed):
    """z tests at 1e-8 of the sum of biases in the 2020 paper's Figure 2, and a negative control."""
    counts = np.array([8000, 2000, 0, 0, 0, 0])
    raw = OUE(random_state=seed).simulate(counts, 500)
    total = np.ones((1, 6))
    unbiased = bias_variance(counts / 1e4, raw, queries=total)
    assert abs(unbiased.bias[0] / unbiased.bias_error[0]) < 5.8
    positive = bias_variance(counts / 1e4, BasePos().fit_transform(raw), queries=total)
    assert positive.bias[0] / positive.bias_error[0] > 5.8


@pytest.mark.parametrize("rows", [ESTIMATES[0], ESTIMATES[:1]])
def test_one_estimate_has_no_variance(rows):
    with pytest.raises(ValueError, match="at least 2 estimates \\(rows\\), got 1"):
        bias_variance(TRUTH, rows)


# -- heavy hitters ----------------------------------------------------------------------------
@given(
    data=st.data(),
    d=st.integers(1, 10),
    threshold=st.sampled_from([0.1, 0.25, 0.5, 2.0]),
    zero_division=st.sampled_from([0.0, 1.0, np.nan]),
)
def test_heavy_hitters_are_scored_as_scikit_learn_does(data, d, threshold, zero_division):
    numbers = st.sampled_from([-0.2, 0.0, 0.1, 0.25, 0.3, 0.6])
    row = st.lists(numbers, min_size=d, max_size=d)
    truth, rows = np.array(data.draw(row)), np.array([data.draw(row), data.draw(row)])
    found = heavy_hitter_scores(truth, rows, threshold=threshold, zero_division=zero_division)
    for i, estimate in enumerate(rows):
        pair = truth >= threshold, estimate >= threshold
        for scores, function in zip(found, (precision_score, recall_score, f1_score), strict=True):
            expected = function(*pair, zero_division=zero_division)
            np.testing.assert_allclose(scores[i], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("k", "hits"), [(1, [1, 0, 1]), (2, [2, 1, 2]), (3, [3, 2, 3]), (4, [4] * 3)]
)
def test_the_most_frequent_k(k, hits):
    """If two values are equal, as 0.3 in the second row, the first one is taken."""
    scores = heavy_hitter_scores(TRUTH, ESTIMATES, k=k)
    for column in scores:
        np.testing.assert_allclose(column, np.array(hits) / k)


def test_defined_answers_where_nothing_is_found_or_frequent():
    nothing = {"threshold": 0.9}
    assert heavy_hitter_scores(TRUTH, [TRUTH], **nothing) == (0, 0, 0)
    assert heavy_hitter_scores(TRUTH, [TRUTH], **nothing, zero_division=1.0) == (1, 1, 1)
    found = [[0.95, 0, 0, 0]]
    assert heavy_hitter_scores(TRUTH, found, **nothing, zero_division=1.0) == (0, 1, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        missed = heavy_hitter_scores([0.95, 0.05], [[0.1, 0.1]], threshold=0.9, zero_division=1.0)
    assert missed == (1, 0, 0)


def test_heavy_hitters_of_any_container():
    expected = heavy_hitter_scores(TRUTH, ESTIMATES, k=2)
    for make in (list, pd.DataFrame, lambda rows: FrequencyEstimate(rows, list("abcd"))):
        found = heavy_hitter_scores(list(TRUTH), make(ESTIMATES), k=2)
        np.testing.assert_array_equal(np.array(found), np.array(expected))


@pytest.mark.parametrize("options", [{}, {"threshold": 0.1, "k": 2}])
def test_threshold_or_k(options):
    with pytest.raises(ValueError, match="exactly one of threshold= and k="):
        heavy_hitter_scores(TRUTH, ESTIMATES, **options)


@pytest.mark.parametrize("k", [0, 5, -1, 1.5, True, "2"])
def test_k_is_a_number_of_categories(k):
    with pytest.raises(ValueError, match="k must be an integer in \\[1, 4\\]"):
        heavy_hitter_scores(TRUTH, ESTIMATES, k=k)


@pytest.mark.parametrize("function", [bias_variance, heavy_hitter_scores])
def test_scores_refuse_another_width(function):
    options = {"k": 1} if function is heavy_hitter_scores else {}
    with pytest.raises(ValueError, match=r"true frequencies must have shape \(4,\)"):
        function(TRUTH[:3], ESTIMATES, **options)
    with pytest.raises(ValueError, match="finite"):
        function(TRUTH * np.nan, ESTIMATES, **options)
