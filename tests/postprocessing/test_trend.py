"""Trend: the filter and smoother, coverage, jumps, times, and what its result can do."""

import pickle
from datetime import date
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.pipeline import make_pipeline
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

from sklearn_ldp import (
    GRR,
    OLH,
    ColumnOracle,
    EmpiricalBayes,
    FrequencyEstimate,
    NoiseModel,
    NormSub,
    Trend,
)
from sklearn_ldp.inference import poststratify
from sklearn_ldp.inspection import FrequencyDisplay, TrendDisplay
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.postprocessing import _trend as trend_module
from sklearn_ldp.postprocessing import local_level
from sklearn_ldp.postprocessing._trend import _fitted
from sklearn_ldp.queries import groups, top_k

N_WEEKS, D, N_USERS = 30, 8, 20_000
START = 1 / np.arange(1, D + 1) / np.sum(1 / np.arange(1, D + 1))


def walk(drift, rng, n_weeks=N_WEEKS):
    """Shares that follow the model, but for the sum of 1."""
    steps = rng.normal(0, drift, (n_weeks, D)) * np.sqrt(START)
    steps[0] = 0
    shares = np.maximum(START + np.cumsum(steps, axis=0), 1e-4)
    return shares / shares.sum(axis=1, keepdims=True)


def collected(truth, rng, oracle=None, users=N_USERS, names=None):
    """An estimate of each week, whose users are drawn from the population of the week."""
    users = np.broadcast_to(users, len(truth))
    oracle = OLH(1.0) if oracle is None else oracle
    oracle.set_params(categories=truth.shape[1], random_state=np.random.RandomState(0))
    oracle.random_state.seed(int(rng.integers(1 << 31)))
    counts = [rng.multinomial(n, row) for n, row in zip(users, truth, strict=True)]
    values = np.concatenate([oracle.simulate(row).values for row in counts])
    noise = oracle.channel().noise(np.array(users))
    estimate = FrequencyEstimate(values, np.arange(truth.shape[1]), noise, row_names=names)
    return estimate, np.array(counts) / users[:, None]


@pytest.fixture(scope="module")
def weekly():
    rng = np.random.default_rng(0)
    return collected(walk(0.02, rng), rng, names=range(N_WEEKS))[0]


# -- the model --------------------------------------------------------------------------------
def test_filter_and_smoother_are_those_of_statsmodels():
    rng = np.random.default_rng(0)
    F, variance, drift = rng.normal(size=(12, 3)), rng.gamma(2, size=(12, 3)), rng.gamma(1, size=12)
    drift[5] = 1e9  # a level of which nothing is known
    ours = local_level(F, variance, drift[:, None])
    for v in range(3):
        other = KalmanSmoother(1, 1, design=[[1.0]], transition=[[1.0]], selection=[[1.0]])
        other.bind(F[:, v].copy())
        other["obs_cov"] = variance[None, None, :, v]
        # Theirs is the step from a row to the next one.
        other["state_cov"] = np.append(drift[1:], 1.0)[None, None]
        other.initialize_approximate_diffuse(1e9)
        result = other.smooth()
        # Theirs at a row is of the step to it, and ends with nothing after the last row.
        score = result.scaled_smoothed_estimator[0, :-1]
        expected = [
            result.filtered_state[0],
            result.filtered_state_cov[0, 0],
            result.smoothed_state[0],
            result.smoothed_state_cov[0, 0],
            np.append(0, score / np.sqrt(result.scaled_smoothed_estimator_cov[0, 0, :-1])),
        ]
        for one, (name, mine) in zip(expected, list(ours._asdict().items())[:5], strict=True):
            np.testing.assert_allclose(mine[:, v], one, rtol=1e-6, atol=1e-6, err_msg=name)
        logs = result.llf_obs[1:].sum() + 11 / 2 * np.log(2 * np.pi)
        np.testing.assert_allclose(ours.log_likelihood[v], logs, rtol=1e-6)


def test_batches_of_drifts_are_fitted_at_once():
    rng = np.random.default_rng(0)
    F, variance, drifts = rng.normal(size=(6, 4)), np.ones((6, 4)), np.array([0.0, 0.5, 2.0])
    together = local_level(
        F[:, None], variance[:, None], np.broadcast_to(drifts[:, None], (6, 3, 1))
    )
    for k, drift in enumerate(drifts):
        for one, alone in zip(together, local_level(F, variance, drift), strict=True):
            np.testing.assert_allclose(one[k] if one.ndim == 2 else one[:, k], alone)
    np.testing.assert_allclose(together.smoothed[:, 0], np.broadcast_to(F.mean(axis=0), F.shape))


def test_many_categories_go_in_blocks(weekly, monkeypatch):
    whole = Trend().fit(weekly)
    monkeypatch.setattr("sklearn_ldp.postprocessing._trend._CELLS", 1)
    blocks = Trend().fit(weekly)
    np.testing.assert_allclose(whole.frequencies_, blocks.frequencies_)
    assert whole.drift_ == pytest.approx(blocks.drift_)


def test_jumps_beyond_all_frequencies_end(monkeypatch):
    """A step that remains unlikely after a jump of the level is no second jump."""
    fits, fit = [], trend_module._at_likely_drifts

    def counted(*args):
        fits.append(1)
        assert len(fits) < 100, "jumps are added for ever"
        return fit(*args)

    monkeypatch.setattr(trend_module, "_at_likely_drifts", counted)
    values = np.repeat([[0.4, 0.6], [2e5, -2e5]], 4, axis=0)
    trend = Trend().fit(FrequencyEstimate(values, ["a", "b"], NoiseModel.of_level(0.01)))
    assert np.argwhere(trend.jumps_).tolist() == [[4, 0], [4, 1]]


@pytest.mark.slow
def test_drift_is_found(seed):
    """Of 9 drifts of .02 the median estimate is within a third; control: one of .06 is not."""
    rng = np.random.default_rng([seed, 1])

    def median(drift):
        return np.median(
            [Trend().fit(collected(walk(drift, rng), rng)[0]).drift_ for _ in range(9)]
        )

    assert 2 / 3 < median(0.02) / 0.02 < 4 / 3
    assert median(0.06) / 0.02 > 4 / 3


# -- errors and coverage ----------------------------------------------------------------------
def covered(trend, truth, of="population"):
    low, high = trend.confidence_interval(0.95, of=of)
    return (low <= truth) & (truth <= high)


@pytest.mark.slow
@pytest.mark.parametrize(("filtered", "drift"), list(product([False, True], [0.0, 0.02, 0.1])))
def test_errors_shrink_and_intervals_cover(filtered, drift, seed):
    """Over 12 series: coverage of at least .85; it is .91 to .95, with an error of .016 (1e-4).

    A filter of 12 rows knows little of the drift at first, and has the least. Negative control:
    intervals of .6 times the length.
    """
    rng, shares, errors, short = np.random.default_rng([seed, 2]), [], [], []
    for _ in range(12):
        truth = walk(drift, rng, n_weeks=12 if filtered else N_WEEKS)
        raw, _ = collected(truth, rng)
        trend = Trend(filtered=filtered).fit_transform(raw)
        shares.append(covered(trend, truth).mean())
        half = 0.6 * 1.96 * trend.standard_errors
        short.append((np.abs(trend.values - truth) <= half).mean())
        errors.append([np.sum((one.values - truth) ** 2) for one in (raw, trend)])
    assert np.mean(shares) > 0.85
    assert np.mean(short) < 0.85
    raw, smooth = np.sum(errors, axis=0)
    assert smooth / raw < {0.0: 0.4, 0.02: 0.6, 0.1: 0.95}[drift]


@pytest.mark.slow
def test_one_drift_for_all_covers_the_largest_less(seed):
    """The largest two of 6 series are covered in .86 or more; with one drift for all, in less.

    Shares move in proportion to themselves here, even more than the model has it.
    """
    rng, ours, common = np.random.default_rng([seed, 3]), [], []
    start = -np.log(np.arange(1, 17))
    for _ in range(6):
        logs = start + np.cumsum(rng.normal(0, 0.03, (52, 16)), axis=0)
        truth = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
        raw, _ = collected(truth, rng, GRR(4.0))
        ours.append(covered(Trend().fit_transform(raw), truth)[:, :2].mean())
        variance = raw.noise.of_population().variance(truth)
        drifts = np.logspace(-4, -1, 61)
        logs = [local_level(raw.values, variance, w**2).log_likelihood.sum() for w in drifts]
        fit = local_level(raw.values, variance, drifts[int(np.argmax(logs))] ** 2)
        covers = np.abs(fit.smoothed - truth) <= 1.96 * np.sqrt(fit.smoothed_variance)
        common.append(covers[:, :2].mean())
    assert np.mean(ours) > 0.86
    assert np.mean(common) < 0.86


@pytest.mark.slow
def test_errors_of_few_rows_allow_for_the_drift(seed):
    """5 rows of 2 categories, 150 series: .94 (se .008) are covered, at least .90 (error 1e-6).

    Negative control: the likeliest drift taken for the true one covers .01 less, of the same rows.
    """
    rng, ours, control = np.random.default_rng([seed, 5]), [], []
    for _ in range(150):
        share = 0.4 + np.cumsum(rng.normal(0, 0.01, 5))
        truth = np.c_[share, 1 - share]
        raw, _ = collected(truth, rng)
        fit, _ = _fitted(raw.values, raw.noise.of_population(), np.append(0, np.ones(4)))
        for variance, covers in ((fit.total_variance, ours), (fit.variance, control)):
            covers.append((np.abs(fit.values - truth) <= 1.96 * np.sqrt(variance)).mean())
    assert np.mean(ours) > 0.90
    assert np.mean(control) < np.mean(ours) - 0.01


@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_whom_the_intervals_are_about(drift, seed):
    """With little noise of the reports, users and population differ: each is covered (1e-4).

    The coverage of 10 series of 240 dependent intervals has an error of .015 at most. Negative
    control: those of the population are too short for the users of a week if nothing drifts, as
    each week draws others; and too long if a week is told by itself alone.
    """
    rng, hits = np.random.default_rng([seed, 4]), {"users": [], "population": [], "wrong": []}
    for _ in range(10):
        truth = walk(drift, rng)
        raw, of_users = collected(truth, rng, GRR(6.0), users=2000)
        trend = Trend().fit_transform(raw)
        hits["users"].append(covered(trend, of_users, "users").mean())
        hits["population"].append(covered(trend, truth).mean())
        hits["wrong"].append(covered(trend, of_users).mean())
    assert np.mean(hits["users"]) > 0.89
    assert np.mean(hits["population"]) > 0.89
    wrong = np.mean(hits["wrong"])
    assert wrong > np.mean(hits["users"]) + 0.01 if drift else wrong < 0.89


def test_later_rows_change_nothing_that_was_published(weekly):
    """Not a bit of it; control: the smoother looks back."""
    weekly = weekly[:20]
    whole, first = Trend(filtered=True).fit(weekly), Trend(filtered=True).fit(weekly[:13])
    np.testing.assert_array_equal(whole.frequencies_[:13], first.frequencies_)
    np.testing.assert_array_equal(whole.jumps_[:13], first.jumps_)
    both = whole.estimate_.standard_errors[:13], first.estimate_.standard_errors
    np.testing.assert_array_equal(*both)
    assert not np.allclose(
        Trend().fit(weekly).frequencies_[:13], Trend().fit(weekly[:13]).frequencies_
    )
    np.testing.assert_allclose(whole.frequencies_[0], weekly.values[0])  # nothing else is known
    np.testing.assert_allclose(whole.frequencies_[-1], Trend().fit(weekly).frequencies_[-1])


def test_frequencies_without_a_trend_stay_as_they_are(seed, monkeypatch):
    """Drawn anew each week, and often 0; control: smoothed all the same they are worse."""
    rng = np.random.default_rng([seed, 8])
    truth = rng.dirichlet(np.full(20, 0.1), size=40)
    raw, _ = collected(truth, rng)
    trend = Trend().fit(raw)
    assert trend.drift_ == np.inf
    assert not trend.jumps_.any()
    np.testing.assert_array_equal(trend.frequencies_, raw.values)
    assert covered(trend.estimate_, truth).mean() > 0.91
    monkeypatch.setattr("sklearn_ldp.postprocessing._trend._risk", lambda *given: 0.0)
    smoothed = NormSub().fit_transform(Trend().fit_transform(raw))
    alone = NormSub().fit_transform(raw)
    errors = [np.mean((one.values - truth) ** 2) for one in (alone, smoothed)]
    assert errors[0] < errors[1]


# -- jumps ------------------------------------------------------------------------------------
@pytest.mark.slow
def test_jumps_that_are_none_are_rare(seed):
    """At most 1 % of the series, as stated: of 60 at most 5 (error rate 1e-4)."""
    rng = np.random.default_rng([seed, 5])
    n_found = sum(
        Trend().fit(collected(walk(0.02, rng, 12), rng)[0]).jumps_.any() for _ in range(60)
    )
    assert n_found <= stats.binom.isf(1e-4, 60, 0.01)


def test_a_jump_is_found_and_does_not_spread(seed):
    """It is where it is; the weeks around it are covered, and would not be under any one drift."""
    rng, hits, without = np.random.default_rng([seed, 6]), [], []
    for _ in range(5):
        truth = np.tile(START, (N_WEEKS, 1))
        truth[15:, 2] += 0.2
        truth /= truth.sum(axis=1, keepdims=True)
        raw, _ = collected(truth, rng)
        trend = Trend().fit(raw)
        assert np.argwhere(trend.jumps_)[:, 1].tolist().count(2) == 1
        assert trend.jumps_[15, 2]
        hits.append(covered(trend.estimate_, truth)[12:18, 2].mean())
        variance = raw.noise.of_population().variance(truth)
        fit = local_level(raw.values, variance, trend.drift_**2 * truth.mean(axis=0))
        without.append(
            np.abs(fit.smoothed - truth)[12:18, 2] < 1.96 * fit.smoothed_variance[12:18, 2] ** 0.5
        )
    assert np.mean(hits) > 0.7
    assert np.mean(without) < 0.7


# -- rows -------------------------------------------------------------------------------------
def test_weeks_of_few_users_count_less(seed):
    rng = np.random.default_rng([seed, 7])
    users = np.where(np.arange(N_WEEKS) % 2, 40_000, 1000)
    truth = np.tile(START, (N_WEEKS, 1))
    raw, _ = collected(truth, rng, users=users)
    trend = Trend().fit_transform(raw)
    alike = Trend(noise=float(np.sqrt(np.mean(raw.noise.std**2)))).fit_transform(raw)
    errors = [np.mean((one.values - truth) ** 2) for one in (raw, alike, trend)]
    assert errors[2] < errors[1] < errors[0]


def test_missing_weeks_and_unequal_steps():
    """A gap of ten weeks tells less than one of a week; dates, numbers and names say the same."""
    rng = np.random.default_rng(0)
    kept = [*range(10), *range(20, 30)]
    raw, _ = collected(walk(0.05, rng)[kept], rng)
    apart, even = Trend(times=kept).fit(raw), Trend().fit(raw)
    ends = apart.estimate_.standard_errors[9:11].mean(), even.estimate_.standard_errors[9:11].mean()
    assert ends[0] > 1.05 * ends[1]
    days = np.array(["2024-01-07"], "M8[D]") + 7 * np.array(kept)
    dated = FrequencyEstimate(raw.values, range(D), raw.noise, row_names=days)
    by_date = Trend().fit(dated)
    np.testing.assert_allclose(by_date.frequencies_, apart.frequencies_)
    assert by_date.drift_ == pytest.approx(apart.drift_ / 7**0.5)
    turned = FrequencyEstimate(raw.values, range(D), raw.noise, row_names=days[::-1])
    with pytest.raises(ValueError, match="Sort the rows by time"):
        Trend().fit(turned)
    for read in (date.fromisoformat, str):
        objects = Trend(times=[read(str(day)) for day in days]).fit(raw)
        np.testing.assert_allclose(objects.frequencies_, apart.frequencies_)
    texts = FrequencyEstimate(raw.values, range(D), raw.noise, row_names=days.astype(str))
    np.testing.assert_allclose(Trend().fit(texts).frequencies_, apart.frequencies_)
    numbered = FrequencyEstimate(raw.values, range(D), raw.noise, row_names=kept)
    with pytest.raises(
        ValueError, match=r"unequally spaced numbers, got .*. If .*times=estimate.row_names"
    ):
        Trend().fit(numbered)
    np.testing.assert_allclose(
        Trend(times=numbered.row_names).fit(numbered).frequencies_, apart.frequencies_
    )


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (range(29), "needs 30 finite, increasing times"),
        ([*range(29), 3], "Sort the rows by time"),
        ([*range(29), 28], "Sort the rows by time"),
        ([*range(29), np.nan], "Sort the rows by time"),
        (["a"] * 30, "times must be numbers or dates"),
        (["2026-02-30"] * 30, "times must be numbers or dates"),
        (["2026-02-28"] * 30, "got .'2026-02-28', .*Sort the rows by time"),
    ],
)
def test_bad_times(weekly, times, message):
    with pytest.raises(ValueError, match=message):
        Trend(times=times).fit(weekly)


# -- what the result can do -------------------------------------------------------------------
def test_the_result_is_an_ordinary_estimate(weekly):
    trend = Trend().fit_transform(weekly)
    again = pickle.loads(pickle.dumps(trend))
    np.testing.assert_array_equal(again.standard_errors, trend.standard_errors)
    assert again.confidence_interval()[0].tolist() == trend.confidence_interval()[0].tolist()
    assert not trend.standard_errors.flags.writeable
    assert trend.as_raw().values.tolist() == weekly.values.tolist()
    assert trend.as_raw().standard_errors is None
    for some in (trend[3], trend[[3, 5]], trend[::2]):
        assert some.standard_errors.shape == some.values.shape
    assert trend[3].standard_errors.tolist() == trend.standard_errors[[3]].tolist()
    frame = trend.to_frame(interval=0.9)
    assert set(frame["interval"]) == {"90 % simultaneous"}
    assert np.all(frame["high"] - frame["low"] > 0)
    assert set(weekly.to_frame(interval=0.9).columns) == set(frame.columns) - {"frequency"}
    assert "95 % simultaneous<" in trend[3]._repr_html_()
    assert "of raw" in NormSub().fit_transform(trend)[3]._repr_html_()
    assert "after Trend" in repr(trend)


def test_intervals_belong_to_the_trend_alone(weekly):
    trend = Trend().fit_transform(weekly)
    low, high = trend.confidence_interval(0.95, of="population")
    np.testing.assert_allclose((high - low)[:, 0] / 2, 1.959964 * trend.standard_errors[:, 0])
    raw_low, raw_high = weekly.confidence_interval(0.95)
    assert np.mean(high - low) < 0.7 * np.mean(raw_high - raw_low)
    at_once = trend.confidence_interval(0.95, simultaneous=True)
    assert np.all(at_once[1] - at_once[0] > high - low)
    halves = groups([0] * 4 + [1] * 4)
    sums = trend.confidence_interval(0.95, halves, of="population")
    np.testing.assert_allclose((sums[1] - sums[0])[:, 1], (high - low)[:, 4:].sum(axis=1), rtol=0.2)
    assert sums.names == ["0", "1"] or list(sums.names) == [0, 1]
    after = make_pipeline(Trend(), NormSub()).fit_transform(weekly)
    np.testing.assert_allclose(after.values.sum(axis=1), 1)
    for refused in (after.confidence_interval, lambda: trend - weekly, lambda: Trend().fit(trend)):
        with pytest.raises(ValueError, match="(after|by) Trend"):
            refused()
    with pytest.raises(ValueError, match="after Trend"):
        poststratify(trend, dict.fromkeys(range(N_WEEKS), 1 / N_WEEKS))
    with pytest.raises(ValueError, match="EmpiricalBayes needs a raw estimate"):
        EmpiricalBayes().fit(trend)
    with pytest.raises(ValueError, match='Argument of must be "users"'):
        trend.confidence_interval(of="people")
    leaders = trend[3].confidence_interval(0.95, top_k(2), coverage="selected")
    assert leaders.low.shape == (1, 2)
    with pytest.raises(ValueError, match=r"standard_errors of the shape of its values, \(1, 2\)"):
        FrequencyEstimate([[0.5, 0.5]], ["a", "b"], standard_errors=[[0.1]])


def test_displays(weekly):
    pytest.importorskip("matplotlib")
    trend = Trend().fit_transform(weekly)
    raw, smooth = (TrendDisplay.from_estimate(one, k=3) for one in (weekly, trend))
    wide, narrow = (
        np.mean([high - low for low, high in one.interval.values()]) for one in (raw, smooth)
    )
    assert narrow < 0.8 * wide
    named = TrendDisplay.from_estimate(trend, categories=[1, 2])
    assert list(named.frequencies) == ["1", "2"]
    display = FrequencyDisplay.from_estimate(trend[3])
    assert "of raw" not in display.ax_.get_ylabel()


def test_surveys_and_sets_are_smoothed_part_by_part():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(2, size=6000), rng.integers(3, size=6000)])
    survey = ColumnOracle(2.0, domains={"a": 2, "b": 3}, random_state=0)
    rows = estimate_by_group(survey, table, by=np.repeat(range(6), 1000))
    smooth = Trend().fit_transform(rows)
    np.testing.assert_array_equal(smooth["b"].values, Trend().fit(rows["b"]).frequencies_)
    assert smooth["b"].confidence_interval(of="population").low.shape == (6, 3)


def test_plain_arrays_need_the_noise(weekly):
    with pytest.raises(ValueError, match="Trend needs the noise level"):
        Trend().fit(weekly.values)
    model = NoiseModel(0.5, 0.25, np.full(N_WEEKS, N_USERS))
    assert type(Trend(noise=model).fit_transform(weekly.values)) is np.ndarray
    level = Trend(noise=0.01).fit(weekly.values)
    everybody = FrequencyEstimate(weekly.values, range(D))
    both = Trend(noise=0.01).fit_transform(everybody)
    np.testing.assert_array_equal(both.values, level.frequencies_)
    # Without a number of users nothing is known of how they were drawn.
    np.testing.assert_array_equal(
        both.confidence_interval(), both.confidence_interval(of="population")
    )


def test_a_single_row_stays_as_it_is(weekly):
    alone = Trend().fit_transform(weekly[4])
    np.testing.assert_allclose(alone.values, weekly[4].values)
    half = (alone.confidence_interval().high - alone.confidence_interval().low) / 2
    expected = 1.959964 * np.sqrt(weekly[4].noise.variance(np.maximum(weekly[4].values, 0)))
    np.testing.assert_allclose(half[0, :3], np.ravel(expected)[:3], rtol=0.05)


@pytest.mark.parametrize("rows", [slice(11, 12), slice(6, 7)], ids=["last row", "spike"])
def test_other_categories_are_covered_where_one_jumps(rows, monkeypatch, seed):
    """Eight series of ten categories cover about .95 in this row.

    Negative control: without the compensation of the other categories, the coverage is at most .44
    on average. By 150 simulated series, either assertion fails with probability below 1e-4.
    """
    truth = np.full((12, 10), 0.1)
    truth[rows, 0] += 0.25
    truth[rows, 1:] -= 0.25 / 9
    rng = np.random.default_rng(seed)
    series = [collected(truth, rng, users=5000)[0] for _ in range(8)]

    def coverage():
        inside = []
        for estimate in series:
            low, high = Trend().fit_transform(estimate).confidence_interval(0.95, of="population")
            inside.append(((low <= truth) & (truth <= high))[rows])
        return np.mean(inside)

    assert coverage() > 0.8
    monkeypatch.setattr(trend_module, "_compensation", lambda values, *_: np.zeros(values.shape))
    assert coverage() < 0.8


NUMBERED = [f"week {i}" for i in range(1, 13)]


def test_weeks_that_are_sorted_as_text_give_a_warning():
    """Week 1 was smoothed with week 10, which doubled the error, without a word."""
    oracle = GRR(2.0, categories=["no", "yes"], random_state=0)
    sizes = np.arange(50, 62)
    week = np.repeat(NUMBERED, sizes)
    answers = np.resize(["no", "yes", "yes"], len(week))
    weeks = estimate_by_group(oracle, answers, by=week)
    assert weeks.row_names.tolist() != NUMBERED
    for rows in (weeks, FrequencyEstimate.from_rows({name: weeks[name] for name in sorted(week)})):
        with pytest.warns(UserWarning, match="week 1, week 10, week 11, .*is week 1, week 2"):
            Trend().fit(rows)
    Trend(times=range(12)).fit(weeks)  # no warning
    # An ordered Categorical keeps its order, as in groupby of pandas; levels without users go.
    by = pd.Categorical(week, [*NUMBERED, "week 13"], ordered=True)
    ordered = estimate_by_group(oracle, answers, by=pd.Series(by))
    assert ordered.row_names.tolist() == NUMBERED
    np.testing.assert_array_equal(ordered.noise.n_samples, sizes)
    Trend().fit(ordered)  # no warning
