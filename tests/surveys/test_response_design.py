"""Answers that others randomised: survey designs, counts that somebody added up, outcomes."""

import math
import pickle

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import clone

import sklearn_ldp as ldp
from sklearn_ldp import (
    Base,
    FrequencyEstimate,
    HeldOutSearch,
    MatrixOracle,
    NormSub,
    SyntheticSearch,
)
from sklearn_ldp._core.mechanisms.matrix import MatrixChannel
from sklearn_ldp._core.statistics._covariances import covariances
from sklearn_ldp._core.statistics._intervals import score_intervals
from sklearn_ldp.collection import Aggregator, RepeatedBatchError, tally_file, write_reports
from sklearn_ldp.inference import ranks
from sklearn_ldp.planning import Plan
from sklearn_ldp.queries import top_k
from sklearn_ldp.surveys import ResponseDesign

DESIGNS = {
    "warner": (ResponseDesign.warner(0.7), lambda s: (s + 0.7 - 1) / (2 * 0.7 - 1)),
    "forced": (ResponseDesign.forced(4 / 6, 1 / 6), lambda s: (s - 1 / 6) / (4 / 6)),
    "crosswise": (ResponseDesign.crosswise(0.25), lambda s: (s + 0.25 - 1) / (2 * 0.25 - 1)),
    "triangular": (ResponseDesign.triangular(0.2), lambda s: (s - 0.2) / (1 - 0.2)),
    "unrelated": (ResponseDesign.unrelated(0.7, 0.5), lambda s: (s - 0.3 * 0.5) / 0.7),
    "kuk": (ResponseDesign.kuk(0.8, 0.3), lambda s: (s - 0.3) / (0.8 - 0.3)),
    "mangat": (ResponseDesign.mangat(0.6), lambda s: (s + 0.6 - 1) / 0.6),
}
OPEN = ["triangular", "mangat"]


@pytest.mark.parametrize("name", DESIGNS)
def test_estimates_are_the_closed_forms_of_the_sources(name):
    """For every number of "yes" among ten respondents, and their standard errors."""
    design, closed = DESIGNS[name]
    slope = closed(1.0) - closed(0.0)
    for n_yes in range(11):
        reports = np.repeat([0, 1], [10 - n_yes, n_yes])
        estimate = design.oracle().fit_transform(reports)
        assert estimate["yes"] == pytest.approx(closed(n_yes / 10), abs=1e-12)
        assert estimate.values.sum() == pytest.approx(1, abs=1e-12)
        truth = np.clip(closed(n_yes / 10), 0, 1)
        share = (truth - closed(0.0)) / slope
        variance = estimate.noise.of_population().variance([1 - truth, truth])[0]
        assert variance == pytest.approx(slope**2 * share * (1 - share) / 10, abs=1e-12)


@pytest.mark.parametrize(
    ("design", "n", "n_yes", "estimate", "error"),
    [
        (ResponseDesign.forced(4 / 6, 1 / 6), 2457, 798, 0.23718, 0.01417),
        (ResponseDesign.crosswise(0.25), 1000, 600, 0.30000, 0.03098),
        (ResponseDesign.unrelated(0.7, 0.5), 500, 150, 0.21429, 0.02928),
    ],
)
def test_known_answers(design, n, n_yes, estimate, error):
    found = design.oracle().fit_transform(np.repeat([0, 1], [n - n_yes, n_yes]))
    assert found["yes"] == pytest.approx(estimate, abs=5e-6)
    std = math.sqrt(found.noise.of_population().variance(found.values[0])[1])
    assert std == pytest.approx(error, abs=5e-6)


def test_more_answers_than_two_and_more_cards_than_one():
    forced = ResponseDesign.forced(0.7, [0.1, 0.15, 0.05])
    reports = np.repeat([0, 1, 2], [30, 50, 20])
    estimate = forced.oracle(categories=["a", "b", "c"]).fit_transform(reports)
    assert estimate.values[0] == pytest.approx(
        (np.array([0.3, 0.5, 0.2]) - [0.1, 0.15, 0.05]) / 0.7
    )
    kuk = ResponseDesign.kuk(0.8, 0.3, cards=4)
    assert kuk.channel.shape == (5, 2)
    truth = np.array([0.6, 0.4])
    outputs = np.round(kuk.channel @ truth * 10**7).astype(int)
    oracle = kuk.oracle().fit(np.arange(5), sample_weight=outputs)
    assert oracle.frequencies_ == pytest.approx(truth, abs=1e-6)
    # Less variance at even shares than Kuk's closed form, (mean of red - p2) / (p1 - p2).
    even = np.array([0.5, 0.5])
    red, law = np.arange(5) / 4, kuk.channel @ even
    closed = (law @ red**2 - (law @ red) ** 2) / 0.5**2
    assert oracle.channel().noise(1).of_population().variance(even)[1] < closed


@pytest.mark.parametrize("name", DESIGNS)
def test_epsilon_is_that_of_the_channel(name):
    design = DESIGNS[name][0]
    integers = design.integers.astype(object)
    assert (integers.sum(axis=0) == 2**64).all()
    ratio = max(max(row) / min(row) for row in integers.tolist())
    if name in OPEN:
        assert math.isinf(design.epsilon)
        assert design.efficiency == 0
    else:
        assert math.log(ratio) <= design.epsilon * (1 + 1e-9)
        assert math.log(ratio) == pytest.approx(design.epsilon)
        assert 0 < design.efficiency <= 1 + 1e-9
    assert isinstance(design.oracle(), MatrixOracle)


def test_efficiency_of_known_designs():
    assert ResponseDesign.warner(0.75).efficiency == pytest.approx(1)
    assert ResponseDesign.forced(0.5, 0.25).efficiency == pytest.approx(1)  # the same channel
    # An unrelated question wastes some of its epsilon: yes tells more than no.
    assert ResponseDesign.unrelated(0.7, 0.2).efficiency < 0.9


@pytest.mark.parametrize("name", OPEN)
def test_what_is_not_private_is_read_and_not_made(name):
    oracle = DESIGNS[name][0].oracle()
    with pytest.raises(ValueError, match="is not private: one of its outputs excludes"):
        oracle.privatize(["yes"])
    with pytest.raises(ValueError, match="is not private"):
        DESIGNS[name][0].oracle(input="values").fit(["yes", "no"])
    estimate = oracle.fit_transform([0, 1, 1])
    assert any("not private" in text for text in estimate.report().description["may_not_be_said"])
    private = DESIGNS["warner"][0].oracle(random_state=0)  # negative control: one of finite epsilon
    with pytest.warns(ldp.PrivacyWarning, match="predictable"):
        assert len(private.privatize(["yes"])) == 1


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ResponseDesign.warner(0.5), "does not distinguish all answers"),
        (lambda: ResponseDesign.crosswise(0.5), "does not distinguish all answers"),
        (lambda: ResponseDesign.kuk(0.4, 0.4), "does not distinguish all answers"),
        (lambda: ResponseDesign.warner(1.5), "Pass probabilities"),
        (lambda: ResponseDesign.forced(0.9, 0.3), "each column sums to 1"),
        (lambda: ResponseDesign.custom([[0.5, 0.2], [0.4, 0.8]]), "each column sums to 1"),
        (
            lambda: ResponseDesign.custom([[0.5, 0.2], [0.5, 0.8], [0, 0]]),
            "no row contains only zeros",
        ),
        (lambda: DESIGNS["forced"][0].oracle(categories=["a", "b", "c"]).fit([0]), "2 answers"),
        (lambda: DESIGNS["forced"][0].oracle().fit([0, 2]), r"reports|report"),
        (lambda: DESIGNS["forced"][0].oracle().fit([0.5]), "integers"),
        (lambda: DESIGNS["forced"][0].oracle().fit([]), "at least one report"),
    ],
)
def test_designs_that_are_none(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_missing_answers_are_left_out_and_told():
    oracle = DESIGNS["crosswise"][0].oracle()
    with pytest.warns(UserWarning, match="2 of 12 responses are missing"):
        estimate = oracle.fit_transform([0, None, 1, 1, 1, 1, 1, 0, 0, 0, float("nan"), 1])
    assert estimate.noise.n_users == 10
    assert estimate["yes"] == pytest.approx(0.3)


def test_what_every_oracle_does(tmp_path):
    """Files, checkpoints, copies, plans, post-processors and searches, written and read twice."""
    design = DESIGNS["crosswise"][0]
    values = np.repeat(["no", "yes"], [900, 100])
    simulated = design.oracle(input="values", random_state=0)
    reports = simulated.privatize(values)
    for name in ("a.jsonl", "a.parquet"):
        write_reports(tmp_path / name, reports, design.oracle(), batch_id=name)
    server = Aggregator(design.oracle())
    for name in ("a.jsonl", "a.parquet"):
        server.merge(tally_file(tmp_path / name, design.oracle()))
    with pytest.raises(RepeatedBatchError):
        server.merge(tally_file(tmp_path / "a.jsonl", design.oracle()))
    assert server.n_samples == 2000
    server.save(tmp_path / "state.npz")
    again = Aggregator.load(tmp_path / "state.npz", design.oracle())
    assert again.estimate_.values.tolist() == server.estimate_.values.tolist()
    oracle = design.oracle().aggregate(reports)
    for other in (pickle.loads(pickle.dumps(oracle)), clone(oracle).aggregate(reports)):
        assert other.frequencies_.tolist() == oracle.frequencies_.tolist()
    estimate = oracle.estimate_
    estimate.save(tmp_path / "e.npz")
    assert ldp.load_estimate(tmp_path / "e.npz").values.tolist() == estimate.values.tolist()
    assert Plan(design.oracle()).rmse(1000) > 0
    assert NormSub().fit_transform(estimate).values.sum() == pytest.approx(1)
    search = SyntheticSearch([Base(), NormSub()], n_repeats=2, random_state=0)
    assert search.fit(estimate).best_estimator_ is not None
    other = ResponseDesign.crosswise(0.3).oracle()
    with pytest.raises(ValueError, match="channel"):
        other.aggregate(reports)


def test_reports_are_about_the_population_unless_told_otherwise():
    estimate = DESIGNS["crosswise"][0].oracle().fit_transform(np.repeat([0, 1], [400, 600]))
    by_hand = estimate.confidence_interval(0.95, simultaneous=True, of="population")
    frame = estimate.to_frame(0.95)
    assert frame["low"].tolist() == pytest.approx(by_hand.low[0].tolist(), abs=2e-3)
    assert "random sample" in estimate.report().description["of"]
    users = estimate.to_frame(0.95, of="users")
    assert users["low"][1] > frame["low"][1]
    assert users["low"].tolist() == pytest.approx(
        estimate.confidence_interval(0.95, simultaneous=True).low[0].tolist()
    )
    assert "users who reported" in estimate.report(of="users").description["of"]
    grr = ldp.GRR(1.0, categories=["no", "yes"]).aggregate([0, 1] * 9).estimate_  # negative control
    assert "users who reported" in grr.report().description["of"]
    with pytest.raises(ValueError, match="Argument of must be"):
        estimate.summary(of="all")


def test_sensitivity_to_a_self_protective_no():
    """With the true share of cheaters, the table has the prevalence of the others."""
    pytest.importorskip("pandas")
    design, n, cheaters, truth = ResponseDesign.crosswise(0.2), 10**6, 0.05, 0.3
    share = (1 - cheaters) * (truth * 0.2 + (1 - truth) * 0.8)  # of "same" -- by p = .2
    n_same = round(n * share)
    estimate = design.oracle().fit([0, 1], sample_weight=[n - n_same, n_same]).estimate_
    table = design.sensitivity(estimate, [0, cheaters], output=0)
    yes = table[table.category == "yes"].set_index("cheaters")
    assert yes.estimate[cheaters] == pytest.approx(truth, abs=1e-5)
    assert yes.low[cheaters] < truth < yes.high[cheaters]
    assert not yes.low[0] < truth < yes.high[0]  # negative control
    assert len(design.sensitivity(estimate)) == 22
    with pytest.raises(ValueError, match="at least 0 and less than 1"):
        design.sensitivity(estimate, [1.0])
    with pytest.raises(ValueError, match="a raw estimate with one row"):
        design.sensitivity(NormSub().fit_transform(estimate))
    again = ResponseDesign.crosswise(0.2).sensitivity(estimate, [0.0])
    assert again.estimate.tolist() == pytest.approx(estimate.values[0].tolist())
    grr = ldp.GRR(1.0, categories=["no", "yes"]).aggregate([0, 1] * 9).estimate_
    for other, found in ((ResponseDesign.unrelated(0.7, 0.3), estimate), (design, grr)):
        with pytest.raises(ValueError, match="an estimate from another design, .*Call the"):
            other.sensitivity(found, [0.0])


@pytest.mark.parametrize("p", [0.2, 0.8])
def test_what_cheaters_say(p):
    """By default the output that "no" is likelier to give, which in a crosswise model p decides."""
    pytest.importorskip("pandas")
    design, n, cheaters, truth = ResponseDesign.crosswise(p), 10**6, 0.1, 0.3
    same = truth * p + (1 - truth) * (1 - p)
    for output, said in ((None, float(p < 0.5)), ("random", 0.5), (0, 0.0)):
        n_same = round(n * ((1 - cheaters) * same + cheaters * said))
        estimate = design.oracle().fit([0, 1], sample_weight=[n - n_same, n_same]).estimate_
        table = design.sensitivity(estimate, [cheaters], output=output)
        yes = table[table.category == "yes"]
        assert yes.estimate.item() == pytest.approx(truth, abs=1e-5)
        raw = estimate["yes"]
        assert abs(raw - truth) > 0.01  # negative control: without the table
        assert output is not None or raw < truth  # what is safe hides the trait


def test_there_cannot_be_so_many_cheaters():
    pytest.importorskip("pandas")
    design = ResponseDesign.crosswise(0.25)
    estimate = design.oracle().fit([0] * 500 + [1] * 500).estimate_
    table = design.sensitivity(estimate, [0.0, 0.9])
    assert table.isna().any(axis=1).tolist() == [False, False, True, True]
    for output in (2, -1, "same", 1.5):
        with pytest.raises(ValueError, match='must be "random" or the index of an output'):
            design.sensitivity(estimate, output=output)
    with pytest.raises(ValueError, match='0 is "no" or "different"'):
        design.oracle().fit(["same", "different"])


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 5_000])
@pytest.mark.parametrize("prevalence", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("name", ["crosswise", "forced", "unrelated", "triangular"])
def test_intervals_of_a_population_cover(name, prevalence, n):
    """The exact coverage is more than .95 (score intervals are wider at the ends).

    All numbers of "yes" but those that have a probability of 1e-6 are enumerated. The negative
    control is the interval for the users.
    """
    design = DESIGNS[name][0]
    mechanism = design.oracle().channel()
    law = binom(n, design.channel[1] @ [1 - prevalence, prevalence])
    yes = np.arange(law.ppf(5e-7), law.isf(5e-7) + 1).astype(int)
    tallies = np.stack([n - yes, yes], axis=1)
    values, noise = mechanism.estimate_decoded(tallies, np.full(len(yes), n))
    estimate = FrequencyEstimate(values, ["no", "yes"], noise)
    low, high = estimate.confidence_interval(0.95, of="population")
    covered = (low[:, 1] <= prevalence) & (prevalence <= high[:, 1])
    assert covered @ law.pmf(yes) > 0.95
    if prevalence == 0.5 and n == 200:
        low, high = estimate.confidence_interval(0.95)
        covered = (low[:, 1] <= prevalence) & (prevalence <= high[:, 1])
        assert covered @ law.pmf(yes) < 0.94


# -- counts that somebody else added up ------------------------------------------------------------
def coverage(design, n, of, critical=None):
    """Return the minimum exact coverage over the numbers of users who have the trait."""
    channel, counts = MatrixChannel(design.integers), np.arange(n + 1)
    values = np.column_stack([n - counts, counts]) / n @ channel.decoding.T
    if critical is None:
        estimate = FrequencyEstimate(values, ["no", "yes"], channel.noise(n))
        low, high = estimate.confidence_interval(0.95, of=of)
    else:
        rows = [covariances(row, channel.noise(n), of) for row in values]
        ends = [score_intervals(row, one, critical) for row, one in zip(values, rows, strict=True)]
        low, high = np.swapaxes(ends, 0, 1)
    no, yes = design.channel[1]
    covered = []
    for n_yes in range(n + 1):
        if of == "users":
            parts = (np.arange(m + 1) for m in (n_yes, n - n_yes))
            laws = [binom.pmf(k, k[-1], x) for k, x in zip(parts, (yes, no), strict=True)]
            law = np.convolve(*laws)
        else:
            law = binom.pmf(counts, n, no + (yes - no) * n_yes / n)
        truth = np.array([n - n_yes, n_yes]) / n
        covered.append(law @ ((low <= truth + 1e-12) & (truth - 1e-12 <= high)))
    return np.min(covered), (high - low).min()


@pytest.mark.parametrize("of", ["users", "population"])
@pytest.mark.parametrize(
    "design",
    [
        ResponseDesign.mangat(0.9),
        ResponseDesign.mangat(0.6),
        ResponseDesign.triangular(0.5),
        ResponseDesign.forced(0.9, 0.09),
    ],
    ids=lambda design: design.name,
)
def test_intervals_of_every_design_cover(design, of):
    """Exact: the probabilities of all counts are added up. Control: score intervals."""
    for n in (1, 2, 10, 25):
        covered, length = coverage(design, n, of)
        assert covered > 0.95 - 1e-9
        assert length >= 1 / (8 * n)
    assert min(coverage(design, n, of, critical=1.96)[0] for n in (1, 2, 10)) < 0.92


def test_counts_of_basic_rappor():
    """The law of its two coins, enumerated: p* = .6875 and q* = .5625 for f .5, p .75, q .5."""
    f, p, q = 0.5, 0.75, 0.5
    law = {}
    for bit in (0, 1):
        memoised = f / 2 + (1 - f) * bit
        law[bit] = memoised * p + (1 - memoised) * q
    assert (law[1], law[0]) == (0.6875, 0.5625)
    rng, truth, n = np.random.default_rng(0), np.array([0.6, 0.3, 0.1]), 10**6
    counts = rng.binomial(n, truth * (law[1] - law[0]) + law[0])
    estimate = FrequencyEstimate.from_counts(
        counts, p=law[1], q=law[0], n_samples=n, categories=["a", "b", "c"]
    )
    std = estimate.noise.std
    assert np.abs(estimate.values[0] - truth).max() < 5 * std
    low, high = estimate.confidence_interval(0.95)
    assert (low < high).all()
    assert NormSub().fit_transform(estimate).values.sum() == pytest.approx(1)
    search = HeldOutSearch([Base(), NormSub()], random_state=0)
    assert search.fit(estimate).best_estimator_ is not None
    assert "c" in estimate.report().html


def test_noisy_histograms():
    rng, truth, n = np.random.default_rng(1), np.array([700, 250, 50, 0]), 1000
    counts = truth + np.round(rng.normal(0, 10, size=4))
    estimate = FrequencyEstimate.from_counts(
        dict(zip("abcd", counts, strict=True)), std=10, n_samples=n
    )
    assert estimate.categories.tolist() == list("abcd")
    assert estimate.noise.std == pytest.approx(0.01)
    low, high = estimate.confidence_interval(0.95)
    assert (high - low)[0, 0] == pytest.approx(2 * 1.96 * 0.01, rel=0.01)
    wider = estimate.confidence_interval(0.95, of="population")
    assert (wider.high - wider.low)[0, 0] > (high - low)[0, 0]
    several = FrequencyEstimate.from_counts([[3, -1], [10, 7]], std=2, n_samples=[10, 20])
    assert several.values.tolist() == [[0.3, -0.1], [0.5, 0.35]]
    assert several.noise.std.tolist() == [0.2, 0.1]


def test_unknown_noise_has_intervals_of_single_categories():
    estimate = FrequencyEstimate.from_counts([70, 25, 5], std=10, n_samples=100)
    frame = estimate.to_frame(interval=0.95)
    assert set(frame["interval"]) == {"95 % each, if noise is normal"}
    single = estimate.confidence_interval(0.95)
    np.testing.assert_array_equal(frame["low"], single.low[0])
    found = estimate.describe()
    assert any("assumes that the noise is normal" in text for text in found["may_not_be_said"])
    assert found["may_be_said"] == []
    assert "each category" in estimate.plot().ax_.get_ylabel()
    for ask in (
        lambda: estimate.confidence_interval(simultaneous=True),
        lambda: estimate.confidence_interval(0.95, top_k(1), coverage="selected"),
        lambda: ranks(estimate),
    ):
        with pytest.raises(ValueError, match="the distribution of the noise must be known"):
            ask()


@pytest.mark.parametrize(
    ("counts", "options", "match"),
    [
        ([1, 2], {}, "Pass p= and q="),
        ([1, 2], {"p": 0.5}, "Pass p= and q="),
        ([1, 2], {"p": 0.5, "q": 0.2, "std": 1}, "Pass p= and q="),
        ([11, 2], {"p": 0.5, "q": 0.2}, "from 0 to n_samples"),
        ([-1, 2], {"p": 0.5, "q": 0.2}, "from 0 to n_samples"),
        (np.array([2**64 - 3, 2], dtype=np.uint64), {"std": 1}, "negative"),
        ([float("nan"), 2], {"std": 1}, "finite"),
    ],
)
def test_counts_that_are_impossible(counts, options, match):
    with pytest.raises(ValueError, match=match):
        FrequencyEstimate.from_counts(counts, n_samples=10, **options)
