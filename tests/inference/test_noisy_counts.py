"""Counts to which another system added noise of a known distribution."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.accuracy.noisy_counts import covered
from sklearn_ldp import (
    GRR,
    OUE,
    Domain,
    EmpiricalBayes,
    FrequencyEstimate,
    HeldOutSearch,
    NormSub,
    SyntheticSearch,
    load_estimate,
)
from sklearn_ldp._core.noise import NOISE_KINDS, AddedNoise
from sklearn_ldp.inference import combine, goodness_of_fit, homogeneity, ranks, reconcile
from sklearn_ldp.inspection import TrendDisplay
from sklearn_ldp.queries import groups, top_k

COUNTS = {"a": 512.0, "b": 301.0, "c": 180.0, "d": 3.0}
N = 1_000


def release(kind="laplace", std=10.0, counts=COUNTS, n=N, **options):
    return FrequencyEstimate.from_counts(counts, noise=kind, std=std, n_samples=n, **options)


# -- the distributions ------------------------------------------------------------------------
def enumerated(kind, std):
    """Whole numbers and their probabilities, from the definition of the distribution."""
    lattice = np.arange(-2_000, 2_001)
    if kind == "geometric":
        variance = std**2
        alpha = 1 + (1 - np.sqrt(1 + 2 * variance)) / variance
        density = alpha ** abs(lattice)
    else:
        density = np.exp(-0.5 * (lattice / std) ** 2)
    return lattice, density / density.sum()


@pytest.mark.parametrize("kind", ["geometric", "discrete-normal"])
@pytest.mark.parametrize("std", [1.0, 2.5, 17.0])
def test_distributions_of_whole_noise_against_enumeration(kind, std):
    law = AddedNoise(kind, np.array([std]))
    lattice, density = enumerated(kind, std)
    variance = density @ lattice**2
    np.testing.assert_allclose(np.sqrt(variance), std, rtol=1e-4)
    kurtosis = density @ lattice.astype(float) ** 4 / variance**2 - 3
    np.testing.assert_allclose(law.excess_kurtosis, kurtosis, atol=1e-4)
    for tail in (0.3, 0.05, 1e-4):
        bound = law.upper(tail)[0]
        assert density[lattice > bound].sum() <= tail < density[lattice > bound - 1].sum()
    for error in (-3.0, -0.5, 0.0, 0.2, 1.0, 7.0):
        expected = density[lattice >= error].sum()
        np.testing.assert_allclose(law.tails(np.array([error])), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "known"), [("normal", stats.norm), ("laplace", stats.laplace(scale=np.sqrt(0.5)))]
)
def test_distributions_of_continuous_noise_against_scipy(kind, known):
    std, errors = np.array([3.0, 8.0]), np.array([-4.0, 11.0])
    law = AddedNoise(kind, std)
    np.testing.assert_allclose(law.tails(errors), known.sf(errors / std))
    np.testing.assert_allclose(law.upper(0.01), std * known.isf(0.01))
    np.testing.assert_allclose(law.excess_kurtosis, known.stats(moments="k"), atol=1e-12)


@pytest.mark.parametrize("kind", NOISE_KINDS)
def test_drawn_noise_has_its_distribution(kind, seed):
    """Kolmogorov's test of 4,000 draws fails in 1 of 10,000; the wrong deviation fails it."""
    law = AddedNoise(kind, np.full(2, 5.0))
    drawn = law.draw(2_000, np.random.default_rng(seed)).ravel()
    jitter = np.random.default_rng(seed + 1).uniform(-0.5, 0.5, len(drawn))
    is_whole = kind in ("geometric", "discrete-normal")
    grid = np.arange(-100, 101) / (1 if is_whole else 10)
    tails = np.array([law.tails(np.full(2, x + 0.5 * is_whole))[0] for x in grid])
    places = grid + 0.5 * is_whole

    def distribution(x):
        return 1 - np.interp(x, places, tails)

    smooth = drawn + jitter * is_whole
    assert stats.kstest(smooth, distribution).pvalue > 1e-4
    assert stats.kstest(1.3 * smooth, distribution).pvalue < 1e-4


def test_epsilon_is_the_parameter_of_central_privacy():
    laplace = release(std=None, epsilon=0.5, sensitivity=2.0)
    assert laplace.noise.std == pytest.approx(np.sqrt(2) * 4 / N)
    geometric = release("geometric", std=None, epsilon=0.1)
    alpha = np.exp(-0.1)
    assert geometric.noise.std == pytest.approx(np.sqrt(2 * alpha) / (1 - alpha) / N)


# -- statements -------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 20, 100])
@pytest.mark.parametrize("kind", NOISE_KINDS)
def test_intervals_cover(kind, d, seed):
    """Each of the 48 means is above .9 less four standard errors, which fails in 1 of 600."""
    shares = covered(kind, kind, d, 0.9, 150, np.random.default_rng(seed))
    errors = shares.std(axis=0) / np.sqrt(150)
    assert np.all(shares.mean(axis=0) > 0.9 - 4 * np.maximum(errors, 0.005))


def test_simultaneous_intervals_of_laplace_noise_cover(seed):
    """200 releases of 101 counts: the exact intervals fail in 1 of 10,000 seeds.

    Negative control: intervals of normal noise cover in less than half of the releases.
    """
    shares = {
        stated: covered("laplace", stated, 101, 0.9, 200, np.random.default_rng(seed))[:, 1].mean()
        for stated in ("laplace", "normal")
    }
    assert shares["laplace"] > 0.9 - 4 * np.sqrt(0.09 / 200)
    assert shares["normal"] < 0.5


def test_single_intervals_are_quantiles_of_the_noise():
    interval = release().confidence_interval(0.9)
    half = np.log(10) * 10 / np.sqrt(2) / N
    np.testing.assert_allclose((interval.high - interval.low)[0, :3], 2 * half)


def test_totals_are_wider_than_their_parts_and_have_shorter_tails():
    estimate = release()
    both = np.array([[1.0, 1.0, 0.0, 0.0]])
    low, high = estimate.confidence_interval(0.95, both)
    x = np.linspace(0, 20, 200_001)  # the tail of the sum of two Laplace variables of scale 1
    exact = x[np.argmax(np.exp(-x) * (1 + x / 2) <= 0.05)] * 10 / np.sqrt(2) / N
    np.testing.assert_allclose((high - low)[0, 0] / 2, exact, rtol=0.01)


def test_correlated_normal_noise():
    covariance = 100.0 * (np.eye(4) + 1)
    estimate = release("normal", covariance)
    rows = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0]])
    low, high = estimate.confidence_interval(0.95, rows)
    std = np.sqrt(np.diag(rows @ covariance @ rows.T)) / N
    np.testing.assert_allclose((high - low)[0], 2 * stats.norm.ppf(0.975) * std)


def test_an_unknown_number_of_users_makes_proportions_of_the_noisy_total(seed):
    """Coverage of one proportion and of a total, of 200 releases: each fails in 1 of 10,000."""
    rng = np.random.default_rng(seed)
    counts, std = np.array([600.0, 300.0, 100.0]), 40.0
    noisy = counts + AddedNoise("laplace", np.full(3, std)).draw(200, rng)
    rows, truth = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]), np.array([0.6, 0.4])
    low, high = np.array(
        [release("laplace", std, x, None).confidence_interval(0.9, rows) for x in noisy]
    ).transpose(1, 0, 2, 3)[:, :, 0]
    covered = np.mean((low <= truth) & (truth <= high), axis=0)
    assert np.all(np.abs(covered - 0.9) < 4 * np.sqrt(0.09 / 200) + 0.01)
    assert release(n=None).values.sum() == pytest.approx(1)


@pytest.mark.parametrize("n_samples", [60_000.0, None])
def test_many_counts_need_no_matrix_of_all_pairs(n_samples):
    """60,000 counts: a matrix would need 29 GB."""
    counts = np.full(60_000, 1.0)
    one, other = (release("laplace", 0.1, counts, n_samples) for _ in range(2))
    low, high = one.confidence_interval(0.95, simultaneous=True)
    assert np.all(low < high)
    assert not (one - other).changed(of="users").mask.any()


def test_tests_ranks_detection_and_combinations():
    estimate = release()
    assert estimate.detected().mask.tolist() == [[True, True, True, False]]
    assert ranks(estimate).low.tolist() == [[1, 2, 3, 4]]
    assert goodness_of_fit(estimate, [0.512, 0.301, 0.18, 0.007]).p_value[0] > 0.5
    assert goodness_of_fit(estimate, [0.4, 0.4, 0.1, 0.1]).p_value[0] < 1e-6
    changed = release(counts={**COUNTS, "a": 600.0}) - estimate
    assert changed.changed(of="users").mask.tolist() == [[True, False, False, False]]
    assert combine([estimate, release()]).noise.std == pytest.approx(10 / np.sqrt(2) / N)
    leader = estimate.confidence_interval(0.95, top_k(1), coverage="selected")
    assert leader.low[0, 0] < 0.512 < leader.high[0, 0]
    described = estimate.describe()
    assert "normal" not in str(described)


# -- estimates --------------------------------------------------------------------------------
def test_empirical_bayes_uses_the_likelihood(seed):
    """100 equal categories: the error is .31 of the error with the normal likelihood (20 runs)."""
    rng = np.random.default_rng(seed)
    noisy = 100 + AddedNoise("laplace", np.full(100, 20.0)).draw(10, rng)
    errors = [
        np.mean(
            (EmpiricalBayes().fit_transform(release(kind, 20.0, noisy, 10_000)).values - 0.01) ** 2
        )
        for kind in ("laplace", "normal")
    ]
    assert errors[0] < 0.7 * errors[1]


def test_a_curve_that_does_not_fit_laplace_counts_has_no_weight(seed):
    """Every seventh of 64 counts is five times as large, which is no smooth curve.

    The curve's weight is below .0001 in eight of eight seeds. Negative control: the weight of a
    curve that does fit is above .9999 in all of them.
    """
    rng = np.random.default_rng(seed)
    spikes = np.where(np.arange(64) % 7 == 0, 500.0, 100.0)
    smooth = 200 + 100 * np.sin(np.arange(64) / 10)
    weights = []
    for counts in (spikes, smooth):
        noisy = counts + rng.laplace(size=64) * 40 / np.sqrt(2)
        estimate = release("laplace", 40.0, noisy, counts.sum())
        weights.append(EmpiricalBayes(ordered=True).fit(estimate).curve_weight_[0])
    assert weights[0] < 0.1
    assert weights[1] > 0.5


@pytest.mark.parametrize("search", [SyntheticSearch(random_state=0), HeldOutSearch(random_state=0)])
def test_searches_draw_the_noise(search):
    result = search.fit(release()).estimate_
    assert result.values.sum() == pytest.approx(1)


def test_files_keep_the_distribution(tmp_path):
    for estimate in (release(), release("normal", 100.0 * (np.eye(4) + 1)), release(n=None)):
        estimate.save(tmp_path / "estimate.npz")
        loaded = load_estimate(tmp_path / "estimate.npz")
        assert loaded.noise == estimate.noise
        for pair in zip(loaded.confidence_interval(), estimate.confidence_interval(), strict=True):
            np.testing.assert_array_equal(*pair)


# -- whole counts -----------------------------------------------------------------------------
@pytest.mark.parametrize("total", [None, 7, 10**6])
def test_whole_counts_have_the_sum(total):
    counts = release(counts={**COUNTS, "d": -30.0}).to_counts(total)
    assert counts.dtype == np.int64
    assert counts.min() >= 0
    assert counts.sum() == (N if total is None else total)
    exact = NormSub().fit_transform(release(counts={**COUNTS, "d": -30.0})).values * counts.sum()
    assert np.abs(counts - exact).max() < 1


@pytest.mark.parametrize("total", [0, 2.5, True, "ten"])
def test_totals_are_whole_numbers(total):
    with pytest.raises(ValueError, match="to_counts needs an integer total >= 1"):
        release().to_counts(total)


def test_whole_counts_need_a_number_of_users():
    with pytest.raises(ValueError, match="number of users, .* Pass it as total="):
        FrequencyEstimate([[0.5, 0.5]], ["a", "b"]).to_counts()


# -- words ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"noise": "cauchy", "std": 1.0}, "got noise='cauchy'. Use one of 'normal', 'laplace'"),
        ({"noise": "laplace"}, "Pass p= and q= for counts of reports"),
        ({"noise": "laplace", "std": 1.0, "epsilon": 1.0}, "Pass p= and q= for counts of reports"),
        (
            {"noise": "normal", "epsilon": 1.0},
            "epsilon determines only Laplace and geometric noise",
        ),
        ({"noise": "laplace", "epsilon": 0.0}, "needs epsilon > 0 and sensitivity > 0"),
        ({"noise": "laplace", "epsilon": 1, "sensitivity": -1}, "epsilon > 0 and sensitivity > 0"),
        ({"noise": "laplace", "std": [1.0, 2.0, 3.0]}, "a number for each of the 2 counts"),
        ({"noise": "laplace", "std": np.eye(2)}, 'or with noise="normal" a covariance'),
        ({"noise": "normal", "std": [[1.0, 2.0], [2.0, 1.0]]}, "not a covariance matrix"),
        ({"noise": "normal", "std": [[1.0, 0.5], [0.0, 1.0]]}, "not a covariance matrix"),
        ({"noise": "discrete-normal", "std": 0.5}, "needs a finite std >= 1"),
        ({"noise": "laplace", "std": -1.0}, "needs a finite std >= 0"),
        ({"std": [1.0, 2.0]}, "or with noise= a number for each of the 2"),
        ({"epsilon": 1.0}, "Pass p= and q= for counts of reports"),
    ],
)
def test_noise_that_is_not_determined_is_refused(options, match):
    with pytest.raises(ValueError, match=match):
        FrequencyEstimate.from_counts([5.0, 6.0], n_samples=11, **options)


def test_an_unknown_number_of_users_needs_a_distribution():
    with pytest.raises(
        ValueError, match="only for counts with added noise of a known distribution"
    ):
        FrequencyEstimate.from_counts([5.0, 6.0], n_samples=None, std=1.0)


@pytest.mark.parametrize("counts", [["512", "301.5"], {"a": 5.0, "b": "1,234"}])
def test_counts_as_texts_are_refused_with_the_remedy(counts):
    with pytest.raises(ValueError, match="got the text '(512|1,234)'. Convert the counts first"):
        release(counts=counts)


def test_a_noisy_total_is_printed_without_errors_of_floats():
    counts = [1148.6, 1148.6000000000003]
    estimate = release(counts=counts, n=None)
    assert repr(estimate).startswith("FrequencyEstimate of 2 categories, 2,297.2 users, ")
    assert "2,297.2 against 2,297.2 users" in repr(estimate - release(counts=counts, n=None))


@pytest.mark.parametrize(
    ("n", "more", "warns"),
    [
        ((None, None), 80.0, True),
        ((None, None), 20.0, False),
        ((2 * N, 2 * N), 80.0, False),
        ((N, None), 80.0, True),
        ((N, None), 5.0, False),
        ((None, 2 * N), 5.0, True),
        ((N, 2 * N), 5.0, True),
    ],
    ids=[
        "other totals",
        "within the noise",
        "shares of a fixed number",
        "another total than the fixed number",
        "the total is the fixed number",
        "the fixed number is not the total",
        "two fixed numbers",
    ],
)
def test_a_difference_of_shares_of_different_totals_is_warned_of(n, more, warns, tmp_path):
    """The standard deviation of the difference of the totals is sqrt(2 * 4) * 10 = 28."""
    last = release(counts=[500.0, 300.0, 100.0, 100.0], n=n[0])
    now = release(counts=[500.0 + 2 * more, 300.0, 100.0, 100.0], n=n[1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        change = now - last
        assert [w.filename for w in caught] == [__file__] * warns
        change.save(tmp_path / "change.npz")
        load_estimate(tmp_path / "change.npz")
    assert ["To compare counts, pass one fixed number" in str(w.message) for w in caught] == [
        True
    ] * warns


def test_deviations_of_an_unknown_distribution_have_units_too():
    with pytest.warns(UserWarning, match="1,000 and 2,000 .* pass one fixed number"):
        release(None, 10.0) - release(None, 10.0, n=2 * N)


def test_differences_of_complete_counts_are_about_the_counted_users(tmp_path):
    """20 of 1,000 users moved: the noise has a deviation of 2, a random sample one of 20."""
    last, now = (release(std=2.0, counts=[500.0 + x, 300.0 - x, 200.0]) for x in (0.0, 20.0))
    change = now - last
    assert change.changed().mask.tolist() == [[True, True, False]]
    assert not change.changed(of="population").mask.any()
    assert change.test().p_value == change.test(of="users").p_value
    for ask in (change.confidence_interval, change.to_frame):
        np.testing.assert_array_equal(ask(), ask(of="users"))
    assert change.describe() == change.describe(of="users")
    np.testing.assert_array_equal(change.plot().interval[0], change.plot(of="users").interval[0])
    unknown = release(None, 2.0) - release(None, 2.0)
    np.testing.assert_array_equal(*(unknown.confidence_interval(of=of) for of in (None, "users")))
    change.save(tmp_path / "change.npz")
    assert load_estimate(tmp_path / "change.npz").changed().mask.any()


def test_weeks_of_complete_counts_are_about_the_counted_users():
    weeks = release(counts=[[500.0, 500.0], [520.0, 480.0]], std=2.0, n=[N, N])
    display, users = (TrendDisplay.from_estimate(weeks, **more) for more in ({}, {"of": "users"}))
    np.testing.assert_array_equal(display.interval["0"], users.interval["0"])


def test_a_difference_from_a_survey_is_about_the_populations():
    """Negative control: the reports of one side are a sample."""
    survey = GRR(5.0, categories=list(COUNTS), random_state=0).simulate([500, 300, 180, 20])
    change = release() - survey
    np.testing.assert_array_equal(
        change.confidence_interval(), change.confidence_interval(of="population")
    )


def test_counts_that_contradict_the_number_of_users_are_refused():
    """The total may exceed n_samples by its noise: here by 7.5 deviations of 20, at most 8."""
    with pytest.raises(ValueError, match="add up to 996, but n_samples=24 users"):
        release(n=24)
    with pytest.raises(ValueError, match="add up to 996"):
        release(None, 1.0, n=24)
    with pytest.raises(ValueError, match="add up to 1,200, but n_samples=1,000 users"):
        release(counts=[[500.0, 400.0], [600.0, 600.0]], n=[1_000, 1_000])
    assert release(counts=[1_000.0, 150.0, 0.0, 0.0]).values[0, 1] == 0.15
    several = {"noise": "laplace", "epsilon": 1.0, "sensitivity": 2.0, "n_samples": 500}
    FrequencyEstimate.from_counts([400.0, 450.0], **several)  # a user may be in two counts
    with pytest.raises(ValueError, match="sensitivity="):
        FrequencyEstimate.from_counts([400.0, 450.0], **{**several, "sensitivity": 1.0})


@pytest.mark.parametrize("kind", NOISE_KINDS)
def test_fractions_contradict_noise_of_whole_numbers(kind):
    if kind in ("geometric", "discrete-normal"):
        with pytest.raises(ValueError, match=f'noise="{kind}" .* the count 301.5'):
            release(kind, counts={**COUNTS, "b": 301.5})
    else:
        release(kind, counts={**COUNTS, "b": 301.5})
    release(kind)


def test_the_number_of_users_may_be_left_out():
    estimate = FrequencyEstimate.from_counts(COUNTS, noise="laplace", std=10.0)
    assert estimate.values.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="needs n_samples=, the number of users"):
        FrequencyEstimate.from_counts([5.0, 6.0], p=0.75, q=0.25)


# -- labels -----------------------------------------------------------------------------------
FRAME = pd.DataFrame({"place": ["a", "b", "c"], "users": [500.0, 300.0, 200.0]})
SORTED = FRAME.sort_values("users")
BY_PLACE = SORTED.set_index("place")["users"]
ALIGNED = [0.5, 0.3, 0.2]


@pytest.mark.parametrize(
    ("counts", "categories"),
    [
        (BY_PLACE, ["a", "b", "c"]),
        (BY_PLACE, FRAME["place"]),
        (BY_PLACE.to_frame().T, ["a", "b", "c"]),
        (BY_PLACE.to_dict(), ["a", "b", "c"]),
        (SORTED["users"], SORTED["place"]),
        (FRAME["users"], FRAME["place"]),
        (FRAME["users"], ["a", "b", "c"]),
        (FRAME["users"].tolist(), FRAME["place"]),
        (FRAME["users"].iloc[::-1], [0, 1, 2]),
        (BY_PLACE, Domain(["a", "b", "c"])),
    ],
)
def test_counts_have_the_categories_of_their_labels(counts, categories):
    estimate = release(counts=counts, categories=categories)
    shares = dict(zip(estimate.categories.tolist(), estimate.values[0].tolist(), strict=True))
    assert [shares[name] for name in sorted(shares)] == ALIGNED


def test_deviations_follow_their_counts():
    """Each deviation is a hundredth of its count, in the order of the counts."""
    std = BY_PLACE / 100
    for own in (std.to_numpy(), std, std.sort_index(), std.to_dict()):
        noise = release(counts=BY_PLACE, std=own, categories=["a", "b", "c"]).noise
        np.testing.assert_allclose(np.sqrt(noise.variance(np.zeros(3))) * N, [5.0, 3.0, 2.0])
    matrix = np.diag(std.to_numpy() ** 2)
    noise = release("normal", matrix, BY_PLACE, categories=["a", "b", "c"]).noise
    np.testing.assert_allclose(np.sqrt(noise.variance(np.zeros(3))) * N, [5.0, 3.0, 2.0])
    with pytest.raises(ValueError, match="Argument std of from_counts is labeled by category"):
        release(counts=BY_PLACE, std=std.rename({"a": "x"}))


@pytest.mark.parametrize(
    ("counts", "categories"),
    [
        (SORTED["users"], ["a", "b", "c"]),
        (SORTED["users"], FRAME["place"]),
        (FRAME["users"], SORTED["place"]),
        (BY_PLACE, ["x", "y", "z"]),
        ({"b": 1.0, "a": 2.0}, ["x", "y"]),
    ],
)
def test_labels_that_contradict_the_categories_are_refused(counts, categories):
    with pytest.raises(ValueError, match="labeled by category .* but has no label for"):
        release(counts=counts, categories=categories)


def test_errors_show_a_few_counts_instead_of_a_series():
    match = re.escape("got counts=[1.5, 1.5, 1.5, ...] and n_samples=0.")
    with pytest.raises(ValueError, match=match):
        release(counts=pd.Series([1.5] * 400, name="users"), n=0)


# -- intervals in users -----------------------------------------------------------------------
def test_intervals_times_the_number_of_users_are_intervals_of_counts():
    interval = release().confidence_interval()
    users = N * interval
    np.testing.assert_array_equal(users, N * np.array(interval))
    np.testing.assert_array_equal(interval * N, users)
    assert repr(users).startswith("ConfidenceInterval of 4 answers\n  a  490.8 to  533.2")
    assert "a  49,082 to  53,318" in repr(1e5 * interval)
    with pytest.raises(TypeError):
        "ten" * interval


def test_suppressed_counts_are_left_out_with_a_warning():
    with pytest.warns(UserWarning, match="1 count suppressed .* such as the count of 'd'"):
        estimate = release(counts={**COUNTS, "d": np.nan})
    assert estimate.categories.tolist() == ["a", "b", "c"]
    with pytest.warns(UserWarning, match="count of 'b'"):
        estimate = release(counts=[512.0, np.nan, 180.0], categories=Domain(["a", "b", "c"]))
    assert estimate.categories.tolist() == ["a", "c"]


def test_unequal_noise_of_categories():
    estimate = release(std=[1.0, 2.0, 4.0, 8.0])
    low, high = estimate.confidence_interval(0.9)
    widths = (high - low)[0]
    np.testing.assert_allclose(widths[1:3] / widths[:2], 2)


# -- counts that are tied ---------------------------------------------------------------------
TOTALS = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])


def test_reconciled_counts_are_the_least_squares_estimate():
    """Against the normal equations of all seven released numbers."""
    std, of_totals = np.array([10.0, 5.0, 20.0, 8.0]), np.array([4.0, 9.0, 2.0])
    counts, totals = np.array([510.0, 300.0, 190.0, 5.0]), np.array([820.0, 490.0, 1_001.0])
    result = reconcile(release(std=std, counts=counts), TOTALS, totals, of_totals)
    design = np.vstack([np.eye(4), TOTALS])
    weights = np.diag(1 / np.r_[std, of_totals] ** 2)
    covariance = np.linalg.inv(design.T @ weights @ design)
    expected = covariance @ design.T @ weights @ np.r_[counts, totals]
    np.testing.assert_allclose(result.values[0], expected / N)
    own = result.noise.covariance(np.eye(4), np.full(4, 0.25))
    np.testing.assert_allclose(own, covariance / N**2, atol=1e-12)


def test_an_exact_total_is_kept():
    result = reconcile(release(), TOTALS[2:], [N], 0.0)
    np.testing.assert_allclose(result.values.sum(), 1)
    interval = result.confidence_interval(0.95, TOTALS[2:])
    np.testing.assert_allclose(interval, 1, atol=1e-6)


def test_intervals_of_reconciled_counts_cover(seed):
    """300 releases of six numbers; fails in 1 of 10,000. Negative control: deviations halved."""
    rng = np.random.default_rng(seed)
    counts, std = np.array([500.0, 300.0, 150.0, 50.0]), 12.0
    covered = np.zeros((300, 2))
    for i in range(300):
        noisy = counts + rng.laplace(size=4) * std / np.sqrt(2)
        totals = TOTALS @ counts + rng.laplace(size=3) * 6.0 / np.sqrt(2)
        for j, factor in enumerate((1.0, 0.5)):
            parts = release(std=factor * std, counts=noisy)
            result = reconcile(parts, TOTALS, totals, factor * 6.0)
            low, high = result.confidence_interval(0.9)
            covered[i, j] = np.mean((low[0] <= counts / N) & (counts / N <= high[0]))
    error = covered.std(axis=0) / np.sqrt(300)
    assert abs(covered[:, 0].mean() - 0.9) < 0.01 + 4 * error[0]
    assert covered[:, 1].mean() < 0.75


@pytest.mark.parametrize(
    ("estimate", "counts", "std", "match"),
    [
        (release(), [1.0], 1.0, "a finite number for each of the 3 queries"),
        (release(), [1.0, 2.0, np.nan], 1.0, "a finite number for each of the 3 queries"),
        (release(), [1.0, 2.0, 3.0], -1.0, "finite standard deviations >= 0"),
        (release(), [1.0, 2.0, 3.0], [1.0, 2.0], "finite standard deviations >= 0"),
        (GRR(1.0, categories=4).simulate([1, 2, 3, 4]), [1.0] * 3, 1.0, "noise of a known dist"),
    ],
)
def test_totals_that_cannot_be_used_are_refused(estimate, counts, std, match):
    with pytest.raises(ValueError, match=match):
        reconcile(estimate, TOTALS, counts, std)


# -- several groups ---------------------------------------------------------------------------
def p_values_of_equal_groups(frequencies, seed):
    rng = np.random.default_rng(seed)
    oracle = OUE(1.0, categories=3, random_state=rng)
    sizes = (2_000, 5_000, 9_000)
    groups = [
        {
            name: oracle.simulate(rng.multinomial(n, f))
            for name, n, f in zip("abc", sizes, row, strict=True)
        }
        for row in [frequencies] * 200
    ]
    return [homogeneity(FrequencyEstimate.from_rows(rows)).p_value[0] for rows in groups]


def test_homogeneity_of_equal_groups_has_uniform_p_values(seed):
    """Kolmogorov's test fails in 1 of 10,000. Negative control: one group differs."""
    same, other = [0.5, 0.3, 0.2], [0.4, 0.4, 0.2]
    assert stats.kstest(p_values_of_equal_groups([same] * 3, seed), "uniform").pvalue > 1e-4
    assert np.median(p_values_of_equal_groups([same, other, same], seed)) < 0.05


def test_homogeneity_needs_groups():
    with pytest.raises(ValueError, match="at least two rows \\(groups\\), got 1"):
        homogeneity(release())


def test_users_without_any_of_the_categories(seed):
    """Counts below n_samples: a total has an interval, and whole counts keep the sum of the counts.

    Each of the 100 intervals covers with 95 %: fewer than 84 do in less than 1 of 10,000 seeds.
    """
    rng = np.random.default_rng(seed)
    true = np.array([1200, 900, 98, 12])
    everyone = groups(["total"] * 4)
    n_covering = 0
    for _ in range(100):
        counts = true + rng.laplace(scale=2, size=4)
        estimate = FrequencyEstimate.from_counts(
            counts, noise="laplace", epsilon=0.5, n_samples=3000
        )
        low, high = 3000 * estimate.confidence_interval(0.95, everyone)
        n_covering += bool(low <= true.sum() <= high)
    assert n_covering >= 84
    assert not estimate.sums_to_one
    assert estimate.to_counts().sum() == np.rint(counts.sum())
    assert estimate.to_counts(3000).sum() == 3000
    assert np.abs(estimate.to_counts() - np.maximum(counts, 0)).max() < 5
    with pytest.raises(ValueError, match="belong to only some of the categories"):
        EmpiricalBayes().fit(estimate)
    # Negative control: counts that add up to all users.
    n = int(counts.sum())
    whole = FrequencyEstimate.from_counts(counts, noise="laplace", epsilon=0.5, n_samples=n)
    assert whole.sums_to_one
    assert whole.confidence_interval(0.95, everyone).low == 1
