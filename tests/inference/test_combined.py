"""Several collections in one: a mean with the right noise, and a warning if they differ."""

import copy
import warnings

import numpy as np
import pytest
from estimators import POSTPROCESSORS
from scipy.stats import binom
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    EmpiricalBayes,
    ExactMLE,
    FrequencyEstimate,
    HadamardResponse,
    NormSub,
    SubsetSelection,
)
from sklearn_ldp._core.noise import Noise
from sklearn_ldp.collection import Aggregator
from sklearn_ldp.inference import combine
from sklearn_ldp.queries import groups, top_k
from sklearn_ldp.surveys import ResponseDesign

D = 20
TRUTH = np.arange(D, 0, -1) / (D * (D + 1) / 2)
BUDGETS = {0.5: 20_000, 1.0: 10_000, 3.0: 2_000}
REPEATS = 1_000


def collections(seed, truths=(TRUTH, TRUTH, TRUTH), n_repeats=REPEATS, oracle=OUE):
    """Return an estimate for each budget, whose users are drawn anew in each of its rows."""
    rng = np.random.default_rng([seed, 33])
    result = []
    for (epsilon, n), truth in zip(BUDGETS.items(), truths, strict=True):
        one = oracle(epsilon, categories=D, random_state=rng)
        counts = rng.multinomial(n, truth, size=n_repeats)
        rows = [one.simulate(row).values[0] for row in counts]
        result.append(FrequencyEstimate(rows, np.arange(D), one.channel().noise(n)))
    return result


def quiet(estimates, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return combine(estimates, **options)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["precision", "users"])
def test_noise_is_that_of_the_mean(weights, seed):
    """Standard deviations within 3 % of the formula, coverage 93 to 97 %, no bias.

    Over 1,000 collections the deviation of a category has an error of 2.2 %, and the mean over the
    20 categories one of .5 %; the coverage one of .3 %, and of the sum .7 %. Each bound is at least
    5 of these away.
    Negative control: the noise of the most precise part alone, which is too large.
    """
    parts = collections(seed)
    mean = quiet(parts, weights=weights)
    expected = mean.noise.variance(TRUTH) + TRUTH * (1 - TRUTH) / mean.noise.n_users
    ratio = np.mean(mean.values.std(axis=0) / np.sqrt(expected))
    assert abs(ratio - 1) < 0.03
    bias = (mean.values.mean(axis=0) - TRUTH) / np.sqrt(expected / REPEATS)
    assert np.abs(bias).max() < 6
    low, high = mean[:300].confidence_interval(0.95, of="population")
    assert 0.93 < np.mean((low <= TRUTH) & (high >= TRUTH)) < 0.97
    low, high = mean.confidence_interval(0.95, groups([0] * 10 + [1] * 10), of="population")
    total = TRUTH[:10].sum()
    assert 0.915 < np.mean((low[:, 0] <= total) & (total <= high[:, 0])) < 0.985
    alone = np.min([part.noise.variance(TRUTH) for part in parts], axis=0)
    assert abs(np.mean(mean.values.std(axis=0) / np.sqrt(alone)) - 1) > 0.03


@pytest.mark.slow
@pytest.mark.parametrize("oracle", [GRR, OUE, OLH])
@pytest.mark.parametrize("cells", [((3_000, 10), (3_000, 6)), ((30, 10), (100, 4))])
def test_parts_with_hardly_a_false_report(oracle, cells, seed):
    """Half a count of the coarsest part: 93 % of the intervals hold, in 150 collections.

    Negative control: half a count of the finest part, of which 87 to 88 % hold; in the second cell,
    where score intervals began above 0, it is not one.
    """
    d, parts, rng = 30, [], np.random.default_rng([seed, 46])
    for n, epsilon in cells:
        one = oracle(epsilon, categories=d, random_state=rng)
        values = one.simulate(n * np.eye(d, dtype=int)[0], 150).values
        parts.append(FrequencyEstimate(values, np.arange(d), one.channel().noise(n)))
    mean, truth = quiet(parts), np.eye(d)[0]
    low, high = mean.confidence_interval(0.95)
    assert np.mean((low <= truth) & (truth <= high)) > 0.93
    finest = mean.noise._with(mean.noise.terms, grids=[min(mean.noise.grids, key=half)])
    low, high = mean.with_values(mean.values, noise=finest).confidence_interval(0.95)
    if cells[0][0] == 3_000:
        assert np.mean((low <= truth) & (truth <= high)) < 0.93


def half(grid):
    """The half count of a grid, as noise takes it."""
    law, n = grid
    return law.half_count / np.ravel(n)[0]


def test_weights_are_free_of_the_data():
    parts = collections(0, n_repeats=2)
    precisions = np.array([part.noise.std**-2 for part in parts])
    by_hand = np.average([part.values for part in parts], axis=0, weights=precisions)
    assert np.allclose(quiet(parts).values, by_hand)
    users = list(BUDGETS.values())
    by_users = np.average([part.values for part in parts], axis=0, weights=users)
    mean = quiet(parts, weights="users")
    assert np.allclose(mean.values, by_users)
    assert mean.noise.n_samples == mean.noise.n_users == sum(users)
    # No weights that do not depend on the data have less null variance.
    assert quiet(parts).noise.std == pytest.approx(precisions.sum() ** -0.5)
    assert quiet(parts).noise.std < mean.noise.std


@pytest.mark.parametrize("n", [100, pytest.param(600, marks=pytest.mark.slow)])
def test_warning_of_groups_that_differ(n, seed):
    """Cochran's test: false warnings in at most 1 % of n collections, but for chance (1e-6).

    Negative control: groups that chose their epsilon by their values, most of which warn.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows in zip(*collections(seed, n_repeats=n), strict=True):
            combine(rows)
    assert len(caught) <= binom.isf(1e-6, n, 0.01)
    other = np.roll(TRUTH, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows in zip(*collections(seed, (TRUTH, TRUTH, other), 50), strict=True):
            combine(rows)
            combine(rows, weights="users")  # which is right nevertheless
    assert len(caught) >= 30
    assert "estimates differ" in str(caught[0].message)
    assert "np." not in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.slow
@pytest.mark.parametrize("of", ["users", "population"])
def test_rounds_of_the_same_users(of, seed):
    """Ten rounds with one permanent report a user: 95 % of the intervals hold.

    Their share has a standard error of .4 % over 200 collections of 20 categories (more for the
    correlation of the categories). Negative control: users who are taken for new ones in each
    round, so that 48 % hold.
    """
    rng, covered = np.random.default_rng([seed, 6]), {True: [], False: []}
    one = OUE(2.0, categories=D, random_state=rng)
    for _ in range(200):
        counts = rng.multinomial(500, TRUTH)
        permanent = one.simulate(counts)
        rounds = [copy.copy(permanent) for _ in range(10)]
        truth = counts / 500 if of == "users" else TRUTH
        for shared, result in covered.items():
            mean = quiet(rounds, shared_users=shared)
            low, high = mean.confidence_interval(0.95, of=of)
            result.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(covered[True]) > 0.93
    assert np.mean(covered[False]) < 0.6
    assert mean.noise.n_users == pytest.approx(5_000)


@pytest.mark.parametrize("weights", ["precision", "users"])
def test_the_noise_of_shared_users_is_a_bound(weights):
    """It is that of errors in proportion to each other, and more than of independent ones."""
    parts = collections(0, n_repeats=1)
    precisions = [part.noise.std**-2.0 for part in parts]
    shares = np.array(precisions if weights == "precision" else list(BUDGETS.values()))
    shares = shares / shares.sum()
    shared = quiet(parts, weights=weights, shared_users=True).noise
    alike = sum(share * part.noise.std for share, part in zip(shares, parts, strict=True))
    assert shared.std == pytest.approx(alike)
    assert shared.std > 1.2 * quiet(parts, weights=weights).noise.std


def test_only_a_common_survey_design_stays_with_the_result():
    """Statements about a survey are about the population; other designs share no statement."""
    die = ResponseDesign.forced(2 / 3, 1 / 6)
    coin = ResponseDesign.warner(0.7)

    def combined(*oracles):
        responses = [np.repeat([0, 1], [600 + i, 400]) for i in range(len(oracles))]
        fits = zip(oracles, responses, strict=True)
        return combine([oracle.fit_transform(response) for oracle, response in fits])

    assert combined(die.oracle(), die.oracle()).oracle.about == "population"
    assert combined(die.oracle(), coin.oracle()).oracle is None
    assert combined(GRR(1.0, categories=2), GRR(1.0, categories=2)).oracle is None


def test_result_takes_every_post_processor_and_interval():
    users = np.repeat(np.arange(D), np.rint(2000 * TRUTH).astype(int))
    oracles = GRR(2.0), OLH(1.0), HadamardResponse(3.0), SubsetSelection(1)
    seeded = (oracle.set_params(categories=D, random_state=i) for i, oracle in enumerate(oracles))
    parts = [oracle.fit(users).estimate_ for oracle in seeded]
    mean = combine(parts)
    assert mean.is_raw
    assert mean.noise.n_samples == 4 * len(users)
    for processor in POSTPROCESSORS:
        if not isinstance(processor, ExactMLE):  # of the reports of a single collection
            own = {"noise": None} if "noise" in processor.get_params() else {}
            result = clone(processor).set_params(**own).fit_transform(mean)
            assert result.shape == (1, D)
    for options in (
        {"simultaneous": True},
        {"queries": groups([0, 1] * 10), "simultaneous": True},
        {"of": "population"},
    ):
        low, high = mean.confidence_interval(0.9, **options)
        assert np.all(low < high)
    after = EmpiricalBayes().fit_transform(mean)
    assert after.confidence_interval(0.9, top_k(3), coverage="selected").low.shape == (1, 3)
    assert (mean - parts[0]).test().p_value.shape == (1,)
    assert combine([mean[0], parts[0]]).shape == (1, D)


def test_rows_and_surveys():
    noise = OUE(1.0).channel(3).noise([400, 200])
    regions = FrequencyEstimate([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], [0, 1, 2], noise)
    both = combine([regions, copy.copy(regions)], weights="users")
    assert both.values.tolist() == regions.values.tolist()
    assert both[1].noise.std == pytest.approx(regions[1].noise.std / 2**0.5)
    assert np.allclose(both.noise.variance(regions.values), noise.variance(regions.values) / 2)
    of_all = both.noise.covariance(np.eye(3), regions.values)
    assert np.allclose(of_all, noise.covariance(np.eye(3), regions.values) / 2)
    table = np.array([["x", 0], ["y", 1], ["y", 2]] * 300, dtype=object)
    survey = ColumnOracle(2.0, domains={"a": ["x", "y"], "b": 3}, random_state=0)
    half = survey.fit(table).estimate_["b"]
    whole = GRR(2.0, categories=3, random_state=0).fit([0, 1, 2] * 300).estimate_
    mean = combine([half, whole])
    precision = float(half.noise.std) ** -2 + float(whole.noise.std) ** -2
    assert mean.noise.std == pytest.approx(precision**-0.5)
    low, high = mean.confidence_interval(0.95)
    assert np.all(low < high)


def test_reports_that_are_loaded_twice_are_refused(tmp_path):
    """Negative controls: other coins for the same users; so few that sums are equal by chance."""
    oracle = OLH(1.0, categories=["a", "b"], random_state=0)
    reports = oracle.privatize(["a", "b", "b"] * 300)
    Aggregator(oracle).add(reports, "batch").save(tmp_path / "x.npz")
    loaded = [Aggregator.load(tmp_path / "x.npz", oracle).estimate_ for _ in range(2)]
    for join in (combine, lambda both: FrequencyEstimate.from_rows(dict(enumerate(both)))):
        with pytest.raises(ValueError, match=r"checkpoint loaded twice.*each collection once"):
            join(loaded)
    others = [GRR(1.0, categories=2, random_state=s).fit([0, 1] * 450).estimate_ for s in (0, 1)]
    few = [GRR(9.0, categories=2, random_state=s).fit([0, 1] * 450).estimate_ for s in (2, 2)]
    assert combine(others).noise.n_samples == combine(few).noise.n_samples == 1800


def test_simulated_collections_with_equal_totals_are_different(seed):
    """Two of 400 have equal totals, because these have fewer than 400 plausible values.

    Negative control: a copy of a collection with many totals.
    """
    oracle = GRR(1.0, categories=["no", "yes"], random_state=seed)
    estimate = oracle.simulate([800, 200], n_repeats=400)
    _, first, counts = np.unique(estimate.values, axis=0, return_index=True, return_counts=True)
    one = first[counts.argmax()]
    other = np.flatnonzero(estimate.values[:, 0] == estimate.values[one, 0])[-1]
    assert one != other
    assert combine([estimate[one], estimate[other]]).noise.n_samples == 2000
    many = GRR(1.0, categories=20, random_state=seed).simulate([500] * 20)
    with pytest.raises(ValueError, match="two estimates have the same reports"):
        combine([many, copy.copy(many)])


@pytest.mark.parametrize(
    ("estimates", "error", "message"),
    [
        ([], ValueError, "at least one estimate"),
        ([np.ones(3)], TypeError, "needs FrequencyEstimates, got ndarray"),
        ([NormSub(), 3], TypeError, "needs FrequencyEstimates"),
        (["ab", "abc"], ValueError, "the same categories"),
        (["ab", None], ValueError, "without a noise model"),
        (["ab", "ab"], ValueError, "two estimates have the same reports"),
        (["ab", 0.1], ValueError, "number of users of each"),
        (["ab", "abab"], ValueError, "equal numbers of rows"),
        (["ab", "norm"], ValueError, "after NormSub"),
    ],
)
def test_bad_input(estimates, error, message):
    noise = OUE(1.0).channel(2).noise(100)
    known = {
        "ab": FrequencyEstimate([[0.5, 0.5]], ["a", "b"], noise),
        "abc": FrequencyEstimate([[0.5, 0.5, 0.0]], ["a", "b", "c"], noise),
        "abab": FrequencyEstimate([[0.5, 0.5]] * 2, ["a", "b"], noise),
        None: FrequencyEstimate([[0.5, 0.5]], ["a", "b"]),
        0.1: FrequencyEstimate([[0.5, 0.5]], ["a", "b"], Noise.of_level(0.1)),
    }
    known["norm"] = NormSub().fit_transform(known["ab"])
    is_name = [isinstance(one, str | float | None) for one in estimates]
    with pytest.raises(error, match=message):
        combine([known[one] if n else one for one, n in zip(estimates, is_name, strict=True)])
    with pytest.raises(ValueError, match="precision.*users.*or an array"):
        combine([known["ab"]], weights="variance")
