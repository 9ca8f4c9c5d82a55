"""The mean of a public outcome by a private answer."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from sklearn_ldp import GRR, OLH, LocalMean
from sklearn_ldp.inference import MeanDifference, MeansByAnswer, mean_by_answer
from sklearn_ldp.learning import CorrectedRidge, PrivatizedColumns
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.surveys import ResponseDesign

NAMES = ["low", "high"]
PARTS = np.repeat(["a", "b"], [240, 260])


def people(n, prevalence, seed):
    rng = np.random.default_rng(seed)
    answers = np.where(rng.random(n) < prevalence, "high", "low")
    return answers, np.where(answers == "low", 2.84, 1.0) + rng.gamma(2.0, 0.5, size=n)


def test_the_debiased_split_is_right_and_the_naive_one_is_not():
    answers, minutes = people(100_000, 0.3, 0)
    oracle = GRR(1.0, categories=NAMES, random_state=1)
    reports = oracle.privatize(answers)
    found = mean_by_answer(minutes, reports, oracle)
    truth = np.array([minutes[answers == name].mean() for name in NAMES])
    assert (np.abs(found.values - truth) < 4 * found.standard_errors).all()
    naive = np.array([minutes[np.asarray(reports) == i].mean() for i in range(2)])
    assert (np.abs(naive - truth) > 10 * found.standard_errors).all()  # negative control
    gap = found.difference("low", "high")
    assert gap.p_value < 1e-9
    assert f"{found.values[0]:.4g}, standard error {found.standard_errors[0]:.2g}" in repr(found)
    with pytest.raises(ValueError, match="needs two means, got 'low' twice"):
        found.difference("low", "low")
    assert abs(truth[0] - truth[1] - gap.value) < 4 * gap.standard_error
    apart = np.hypot(*found.standard_errors)  # the two means have reports in common
    assert gap.standard_error != pytest.approx(apart, rel=0.01)
    medians = [np.median(minutes[answers == name]) for name in NAMES]
    assert found.quantile(0.5) == pytest.approx(medians, abs=0.1)
    assert "low" in repr(found)
    assert [text.get_text() for text in found.plot().get_yticklabels()] == NAMES
    assert found.shares == pytest.approx([0.7, 0.3], abs=0.02)


def test_two_categories_agree_with_a_regression_on_the_private_answer():
    """On the same reports, the predictions of `CorrectedRidge` without a penalty are the means."""
    answers, minutes = people(50_000, 0.4, 2)
    columns = PrivatizedColumns(1.5, domains={"answer": NAMES}, random_state=0)
    indicators = columns.fit_transform(answers[:, None])
    model = CorrectedRidge(alpha=1e-9, private=columns.slices_).fit(indicators, minutes)
    oracle = columns.oracles_["answer"].set_params(input="reports")
    found = mean_by_answer(minutes, indicators.argmax(axis=1), oracle)
    assert model.predict(np.eye(2)) == pytest.approx(found.values, abs=0.01)
    plain = Ridge().fit(indicators, minutes)  # negative control: pulled towards each other
    assert abs(np.diff(plain.predict(np.eye(2)))) < 0.8 * abs(np.diff(found.values))


def test_several_budgets_in_one_table():
    answers, minutes = people(60_000, 0.5, 3)
    rates = np.random.default_rng(0).choice([0.5, 2.0], size=len(answers))
    oracles = {rate: GRR(rate, categories=NAMES, random_state=4) for rate in (0.5, 2.0)}
    reports = np.empty(len(answers), dtype=int)
    for rate, oracle in oracles.items():
        reports[rates == rate] = oracle.privatize(answers[rates == rate])
    found = mean_by_answer(minutes, reports, [oracles[rate] for rate in rates])
    truth = np.array([minutes[answers == name].mean() for name in NAMES])
    assert (np.abs(found.values - truth) < 4 * found.standard_errors).all()
    wrong = mean_by_answer(minutes, reports, oracles[2.0])  # negative control
    assert (np.abs(wrong.values - truth) > 4 * wrong.standard_errors).any()


@pytest.mark.parametrize("make", [OLH, ResponseDesign.crosswise], ids=["OLH", "crosswise"])
def test_any_channel(make):
    answers, minutes = people(100_000, 0.4, 5)
    if make is OLH:
        oracle = OLH(1.0, categories=NAMES, random_state=0)
    else:
        oracle = make(0.2).oracle(categories=NAMES, random_state=0)
    with pytest.warns(UserWarning, match="predictable"):
        reports = oracle.privatize(answers)
    found = mean_by_answer(minutes, reports, oracle)
    truth = np.array([minutes[answers == name].mean() for name in NAMES])
    assert (np.abs(found.values - truth) < 4 * found.standard_errors).all()


def test_who_has_no_answer_has_no_mean():
    answers, minutes = people(20_000, 0.4, 6)
    oracle = GRR(1.0, categories=[*NAMES, "never"], random_state=0)
    found = mean_by_answer(minutes, oracle.privatize(answers), oracle)
    assert np.isnan(found.values).tolist() == [False, False, True]
    assert "within two standard errors of 0" in found.reasons["never"]
    assert np.isnan(found.quantile(0.5)[2])
    assert np.isnan(found.difference("low", "never").standard_error)


def test_weights_count_people():
    answers, minutes = people(500, 0.4, 7)
    oracle = GRR(3.0, categories=NAMES, random_state=0)
    reports, times = oracle.privatize(answers), np.arange(500) % 3
    weighted = mean_by_answer(minutes, reports, oracle, sample_weight=times)
    rows = np.repeat(np.arange(500), times)
    one_by_one = mean_by_answer(minutes[rows], reports[rows], oracle)
    assert weighted.values == pytest.approx(one_by_one.values)


@pytest.mark.parametrize(
    ("outcome", "reports", "oracle", "options", "match"),
    [
        ([1.0, np.nan], [0, 1], GRR(1.0, categories=2), {}, "finite outcome"),
        ([1.0], [0, 1], GRR(1.0, categories=2), {}, "inconsistent numbers"),
        ([1.0, 2.0], [0, 2], GRR(1.0, categories=2), {}, "report"),
        ([1.0, 2.0], [0, 1], GRR(1.0, categories=101), {}, "at most 100 categories"),
        ([1.0, 2.0], [0, 1], LocalMean(1.0, bounds=(0, 1)), {}, "no |domain|attribute"),
        ([1.0, 2.0], [0, 1], GRR(1.0, categories=2), {"sample_weight": [1, -1]}, "finite weight"),
        ([1.0, 2.0], [0, 1], [GRR(1.0, categories=2), GRR(1.0, categories=["a", "b"])], {}, "same"),
        ([1.0, 2.0], [0, 1], [GRR(1.0, categories=2)], {}, "inconsistent numbers"),
        ([], [], GRR(1.0, categories=2), {}, "at least one"),
    ],
)
def test_what_is_refused(outcome, reports, oracle, options, match):
    with pytest.raises((ValueError, AttributeError, TypeError), match=match):
        mean_by_answer(outcome, np.array(reports, dtype=int), oracle, **options)
    found = mean_by_answer([1.0, 2.0, 1.5], [0, 1, 1], GRR(4.0, categories=["a", "b"]))
    with pytest.raises(ValueError, match="No mean has the name 'c'"):
        found.difference("a", "c")
    with pytest.raises(ValueError, match="in \\(0, 1\\)"):
        found.quantile(1.0)
    with pytest.raises(ValueError, match="level.* got 95"):
        found.describe(95)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(400, 2.0), (20_000, 1.0)])
@pytest.mark.parametrize("prevalence", [0.2, 0.5])
def test_intervals_cover(n, epsilon, prevalence, seed):
    """1,000 collections: coverage of .95 within four standard errors of .03 below and above."""
    rng, covered, naive = np.random.default_rng(seed), [], []
    oracle = GRR(epsilon, categories=NAMES, random_state=np.random.default_rng(seed))
    for _ in range(1000):
        answers, minutes = people(n, prevalence, rng)
        reports = oracle.privatize(answers)
        found = mean_by_answer(minutes, reports, oracle)
        low, high = found.confidence_interval(0.95)
        truth = np.array([3.84, 2.0])
        covered.append((low <= truth) & (truth <= high))
        naive.append(np.abs([minutes[np.asarray(reports) == i].mean() for i in range(2)] - truth))
    share = np.mean(covered, axis=0)
    assert (np.abs(share - 0.95) < 0.03).all(), share
    assert np.mean(naive) > 0.1  # negative control


def test_a_quantile_of_equal_outcomes_is_the_first_that_reaches_it():
    """Exactly half of the people are at 1, so the median is 1 and not the next outcome, 2."""
    decoded = np.eye(2)[np.arange(400) % 2]
    outcomes = np.repeat([1.0, 2.0], 200)
    found = MeansByAnswer([(decoded, outcomes, np.ones(400))], np.arange(2))
    assert found.quantile(0.5).tolist() == [1.0, 1.0]
    assert found.quantile(0.51).tolist() == [2.0, 2.0]


def test_intervals_of_a_rare_outcome_cover(seed):
    """300 collections cover .95 at least; .90 fails with a probability of 1e-4.

    Negative control: normal intervals, of which fewer than .5 cover, because most collections have
    no outcome but 0 in the category.
    """
    rng = np.random.default_rng(seed)
    oracle = GRR(4.0, categories=2, random_state=seed)
    covered, covered_by_normal = [], []
    for _ in range(300):
        reports = oracle.privatize((rng.random(200) < 0.1).astype(int))
        found = mean_by_answer(rng.random(200) < 0.02, reports, oracle)
        low, high = found.confidence_interval(0.95)
        covered.append(low[1] <= 0.02 <= high[1])
        half = 1.96 * found.standard_errors[1]
        covered_by_normal.append(abs(found.values[1] - 0.02) <= half)
    assert np.mean(covered) > 0.9
    assert np.mean(covered_by_normal) < 0.6


def test_an_interval_ends_at_0_if_its_level_is_one_minus_the_p_value():
    outcomes = np.repeat([0.45, 0.55], 250)
    means = estimate_by_group(LocalMean(2.0, bounds=(0, 1), random_state=0), outcomes, PARTS)
    change = means.difference("a", "b")
    assert 1e-9 < change.p_value < 0.5
    ends = means.difference("a", "b", level=1 - change.p_value)[2:]
    assert min(np.abs(ends)) == pytest.approx(0, abs=1e-9)
    assert MeanDifference(0.0, 0.0, 0.0, 0.0).p_value == 1
    assert MeanDifference(-2.0, 0.0, -2.0, -2.0).p_value == 0
