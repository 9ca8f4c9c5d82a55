"""The estimate among the users who answered, against simulations and its algebra."""

import numpy as np
import pandas as pd
import pytest

from sklearn_ldp import (
    GRR,
    OUE,
    ColumnOracle,
    Domain,
    EstimateSet,
    FrequencyEstimate,
    HadamardResponse,
    NoiseModel,
    NormSub,
    RangeOracle,
    SmoothMLE,
    load_estimate,
)
from sklearn_ldp.inference import EstimateDifference, poststratify, quantiles
from sklearn_ldp.inspection import FrequencyDisplay
from sklearn_ldp.queries import between, mean, prefixes

BINS = Domain.bins(8, bounds=(0, 8), missing=True)
COUNTS = np.array([100, 300, 700, 900, 600, 300, 200, 100, 1_800])
AMONG = COUNTS[:-1] / COUNTS[:-1].sum()
WEIGHTS = np.arange(20.0, 28.0)  # far from 0, so that the error of the share has much weight
MAKERS = [
    lambda seed: GRR(2.0, categories=BINS, random_state=seed),
    lambda seed: HadamardResponse(1.0, categories=BINS, random_state=seed),
    lambda seed: RangeOracle(1.0, categories=BINS, random_state=seed),
]


@pytest.mark.parametrize("make", MAKERS, ids=["GRR", "HadamardResponse", "RangeOracle"])
def test_the_noise_of_conditional_answers(make, seed):
    """The mean of z**2 is 1, up to 5.5 of its standard errors: error rate 1e-7.

    Negative control: standard errors that ignore the error of the share of users who answered.
    """
    n_repeats = 300
    estimate = make(seed).simulate(COUNTS, n_repeats)
    answered = estimate.answered()
    rows = np.vstack([np.eye(8)[[3, 6]], np.tri(8)[4], WEIGHTS])
    truth = rows @ AMONG
    variance = answered[0].noise.answer_variance(rows, AMONG)
    errors = answered.values @ rows.T - truth
    limit = 5.5 * np.sqrt(2 / n_repeats)
    assert np.all(np.abs(np.mean(errors**2 / variance, axis=0) - 1) < limit)
    if not isinstance(estimate.oracle, GRR):
        return
    # The estimates of GRR sum to 1, so the errors of the mean and of the share nearly cancel out.
    share = 1 - COUNTS[-1] / COUNTS.sum()
    whole = np.pad(rows, [(0, 0), (0, 1)]) / share
    ignorant = estimate[0].noise.answer_variance(whole, COUNTS / COUNTS.sum())
    assert abs(np.mean(errors[:, -1] ** 2 / ignorant[-1]) - 1) > limit


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Neighboring bins differ")  # the counts are no smooth curve
@pytest.mark.parametrize("make", MAKERS, ids=["GRR", "HadamardResponse", "RangeOracle"])
@pytest.mark.parametrize("of", ["users", "population"])
def test_intervals_among_users_who_answered(make, of, seed):
    """Coverage of 95 % intervals: at least .93 - 4 standard errors, of 300 collections."""
    n_repeats = 300
    rng = np.random.default_rng(seed)
    hits = {"frequencies": [], "mean": [], "ranges": [], "median": []}
    truths = [AMONG, mean(WEIGHTS), between([(2, 5)])]
    median = np.interp(0.5, np.append(0, np.cumsum(AMONG)), np.arange(9))
    for i in range(n_repeats):
        counts = rng.multinomial(5_000, COUNTS / COUNTS.sum()) if of == "population" else COUNTS
        answered = make(seed + i).simulate(counts).answered()
        for name, queries in zip(hits, [None, truths[1], truths[2]], strict=False):
            true = {"frequencies": AMONG, "mean": WEIGHTS @ AMONG, "ranges": AMONG[2:5].sum()}[name]
            low, high = answered.confidence_interval(0.95, queries, of=of)
            hits[name].append(np.mean((low[0] <= true) & (true <= high[0])))
        interval = quantiles(answered, [0.5], of=of, spread="even")
        hits["median"].append(interval.low.item() <= median <= interval.high.item())
    margin = 4 * np.sqrt(0.05 * 0.95 / n_repeats)
    assert min(np.mean(hit) for hit in hits.values()) > 0.93 - margin


def test_categories_values_and_statements():
    ages = Domain.bins(8, bounds=(0, 8), clip=True, missing="no age")
    estimate = GRR(3.0, categories=ages, random_state=0).simulate(COUNTS)
    answered = estimate.answered()
    assert answered.domain == Domain.bins(8, bounds=(0, 8), clip=True)
    assert answered.domain.digest == Domain.bins(8, bounds=(0, 8), clip=True).digest
    assert list(answered.flags) == ["or less", "or more"]
    np.testing.assert_allclose(answered.values, estimate.values[:, :-1] / (1 - estimate[None]))
    assert answered.noise.n_samples == pytest.approx(5_000 * (1 - estimate[None]))
    assert "users who answered" in repr(answered)
    assert any("among the users who answered" in text for text in answered.caveats)
    assert answered.mean() == pytest.approx(answered.values @ np.arange(0.5, 8))
    assert answered.describe()["shown"] == "Share of users who answered"
    curve = SmoothMLE().fit_transform(estimate)
    smooth = curve.answered()
    assert smooth.values.sum() == pytest.approx(1)
    np.testing.assert_allclose(smooth.as_raw().values, answered.values)
    later = GRR(3.0, categories=ages, random_state=1).simulate(COUNTS).answered()
    difference = EstimateDifference(answered, later)
    low, high = difference.confidence_interval()
    assert np.all((low < 0) & (high > 0))
    labels = Domain.bins([18], labels=["young", "old"], missing=True)
    named = FrequencyEstimate([[0.5, 0.25, 0.25]], labels).answered()
    assert named.domain == Domain.bins([18], labels=["young", "old"])


def test_a_plain_question_with_missing_answers():
    oracle = OUE(2.0, categories=["yes", None, "no"], random_state=0)
    estimate = oracle.fit_transform(["yes", "no", None, "yes"] * 2_500)
    answered = estimate.answered()
    assert answered.categories.tolist() == ["yes", "no"]
    low, high = answered.confidence_interval(0.95)
    assert low[0, 0] < 2 / 3 < high[0, 0]
    np.testing.assert_allclose(answered["no"], estimate["no"] / (1 - estimate[None]))
    # The same covariance as the matrix product of the delta method.
    f = np.array([0.5, 0.25, 0.25])
    g = f[[0, 2]] / 0.75
    J = np.array([[1, g[0], 0], [0, g[1], 1]]) / 0.75
    share = np.array([0.75])
    law = answered.noise.channel
    exact = type(law)(law.noise, share, 1).covariance(g)
    expected = J @ estimate.noise.covariance(np.eye(3), f) @ J.T
    np.testing.assert_allclose(exact.matrix(np.eye(2)), expected)
    np.testing.assert_allclose(exact.product(np.array([1.0, 2.0])), expected @ [1, 2])
    np.testing.assert_allclose(exact.variances(), np.diag(expected))


def test_rows_files_and_weights(tmp_path):
    rows = GRR(3.0, categories=BINS, random_state=0).simulate(COUNTS, 3)
    answered = rows.answered()
    for i in range(3):
        np.testing.assert_allclose(answered[i].values, rows[i].answered().values)
        alone = rows[i].answered().confidence_interval(0.9, prefixes())
        np.testing.assert_allclose(answered[i].confidence_interval(0.9, prefixes()), alone)
    np.testing.assert_allclose(
        answered.confidence_interval(0.9).low[1], answered[1].confidence_interval(0.9).low[0]
    )
    answered.save(tmp_path / "answered.npz")
    again = load_estimate(tmp_path / "answered.npz")
    for one, other in zip(
        answered.confidence_interval(0.9, prefixes(), of="population"),
        again.confidence_interval(0.9, prefixes(), of="population"),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    regions = FrequencyEstimate.from_rows({"north": rows[0], "south": rows[1]})
    weighted = poststratify(regions, {"north": 0.3, "south": 0.7}).answered()
    low, high = weighted.confidence_interval(0.999, prefixes(), of="population")
    assert np.all((low <= np.cumsum(AMONG)) & (np.cumsum(AMONG) <= high + 1e-12))


def test_refusals_name_a_way():
    estimate = GRR(3.0, categories=BINS, random_state=0).simulate(COUNTS)
    for ask in (
        estimate.mean,
        estimate.std,
        estimate.median,
        lambda: estimate.answer(between([(0, 3)])),
        lambda: estimate.answer(mean()),
        lambda: quantiles(estimate, [0.5]),
    ):
        with pytest.raises(ValueError, match=r"missing numbers\. Ask estimate\.answered\(\)"):
            ask()
    with pytest.raises(ValueError, match="needs an estimate with a category for missing answers"):
        estimate.answered().answered()
    nobody = GRR(1.0, categories=BINS, random_state=0).simulate([1] * 8 + [992])
    with pytest.raises(ValueError, match="which may be 0. Collect more reports"):
        nobody.answered()
    with pytest.raises(ValueError, match="which may be 0"):
        FrequencyEstimate([[0.0, 0.0, 1.0]], Domain.bins([1], missing=True)).answered()
    alone = FrequencyEstimate([[0.5, 0.3, 0.2]], ["a", "b", None], NoiseModel(0.5, 0.2, 9_999))
    with pytest.raises(ValueError, match="do not determine the covariance"):
        alone.answered().confidence_interval()
    assert NormSub().fit_transform(estimate.answered()).values.sum() == pytest.approx(1)


def test_pictures_and_reports_lead_to_the_estimate_of_answers():
    estimate = GRR(3.0, categories=BINS, random_state=0).simulate(COUNTS)
    assert "to scale with estimate.answered()" in FrequencyDisplay.from_estimate(estimate).noun
    sentences = " ".join(estimate.describe()["may_not_be_said"])
    assert "estimate.answered() is about the users who answered" in sentences
    assert "estimate.answered()" not in " ".join(estimate.answered().describe()["may_not_be_said"])
    assert type(estimate.answered().plot()).__name__ == "DistributionDisplay"
    n_users = round(estimate.answered().noise.n_users.item())
    page = estimate.answered().report()._repr_html_()
    assert f"<dt>users</dt><dd>about {n_users:,} of the users who were asked</dd>" in page


def test_a_set_is_answered_column_by_column():
    """Only columns with missing answers change; a set without them has nothing to answer."""
    domains = {"age": BINS, "sex": ["F", "M"]}
    users = {"age": [0.5, 3.5, None, 3.5] * 2_000, "sex": ["F", "M", "M", "F"] * 2_000}
    oracle = ColumnOracle(8.0, domains=domains, random_state=0)
    estimates = oracle.fit_transform(pd.DataFrame(users))
    answered = estimates.answered()
    np.testing.assert_array_equal(answered["age"].values, estimates["age"].answered().values)
    assert answered["sex"] is estimates["sex"]
    with pytest.raises(ValueError, match=r"EstimateSet.answered needs .* got .*'sex'"):
        EstimateSet({"sex": estimates["sex"]}).answered()
