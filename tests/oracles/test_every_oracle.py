"""Everything that can be done with an oracle, for every oracle of the package and one more.

All oracles are in one list. Where the package's own oracles use methods of their channels, one by
a third party uses the defaults.
"""

import io
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from estimators import ORACLES, SUPPORTING, slow_but, ways
from random_question import QuestionChannel, RandomQuestion
from scipy import stats
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    Base,
    BaseCut,
    ColumnOracle,
    EmpiricalBayes,
    HadamardResponse,
    HeldOutSearch,
    ItemOracle,
    LocalMean,
    MLEApx,
    NormSub,
    ProjectiveGeometryResponse,
    SyntheticSearch,
)
from sklearn_ldp.__main__ import main
from sklearn_ldp.collection import Aggregator, aggregate, read_reports, tally_reports, write_reports
from sklearn_ldp.inspection import FrequencyDisplay, SearchDisplay
from sklearn_ldp.learning import PrivatizedColumns
from sklearn_ldp.metrics import held_out_score
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.oracles import best_oracle, compare_oracles, profile_oracle
from sklearn_ldp.oracles._direct import DirectChannel
from sklearn_ldp.oracles._unary import UnaryChannel
from sklearn_ldp.oracles.channels import (
    PROBABILITY_UNIT,
    JointSupport,
    ReportField,
    direct_threshold,
    symmetric_threshold,
)
from sklearn_ldp.planning import Plan
from sklearn_ldp.queries import groups, random_sets
from sklearn_ldp.robustness import (
    audit_epsilon,
    joint_support_test,
    poisoning_gain,
    support_size_test,
)
from sklearn_ldp.utils._checks import (
    check_covariance,
    check_exact_support_probabilities,
    check_files,
    check_joint_support,
    check_one_release,
    check_simulation,
    check_supports,
    check_unbiased_estimates,
)
from sklearn_ldp.utils.estimator_checks import check_oracle, oracle_checks

D = 8
CATEGORIES = [f"c{i}" for i in range(D)]
COUNTS = np.array([900, 500, 250, 150, 100, 60, 40, 0])
VALUES = np.repeat(CATEGORIES, COUNTS)
N = len(VALUES)
QUERIES = groups([0, 0, 1, 1, 2, 2, 2, 2])
EVERY = [*ORACLES, RandomQuestion()]


every_oracle = pytest.mark.parametrize("oracle", EVERY, ids=repr)
EACH_WAY = slow_but([*ways(ORACLES), RandomQuestion()], EVERY)


def declared(oracle, **parameters):
    return clone(oracle).set_params(**{"categories": CATEGORIES, "random_state": 0, **parameters})


def test_contract_and_proof_of_epsilon():
    """The package's own oracles are checked in test_common."""
    check_oracle(RandomQuestion())
    for other in (ItemOracle(), LocalMean(), ColumnOracle()):
        with pytest.raises(TypeError, match="one category per user.*check_table"):
            check_oracle(other)


class HalfTheFields(QuestionChannel):
    report_fields = property(lambda self: (ReportField("asked", 2), ReportField("answer", 2)))


class Negated(QuestionChannel):
    def supports(self, reports, codes):
        return ~super().supports(reports, codes)


class Rolled(QuestionChannel):
    def simulate(self, counts, n_repeats, rng):
        return np.roll(super().simulate(counts, n_repeats, rng), 1, axis=1)


class Halved(QuestionChannel):
    def simulate(self, counts, n_repeats, rng):
        return 2 * super().simulate(counts // 2, n_repeats, rng)


class InColumns(DirectChannel):
    """Reports of one field in an array of two dimensions."""

    def privatize(self, codes, coins):
        return super().privatize(codes, coins)[:, None]

    def check_reports(self, reports):
        return super().check_reports(np.asarray(reports)[:, 0])[:, None]

    def count_support(self, reports):
        return super().count_support(reports[:, 0])

    def supports(self, reports, codes):
        return super().supports(reports[:, 0], codes)


class Unequal(QuestionChannel):
    def __init__(self, n_categories, threshold):
        super().__init__(n_categories, threshold)
        self.q += Fraction(1, 1000)


@pytest.mark.parametrize(
    ("channel", "fault"),
    [
        (QuestionChannel, None),  # negative control
        (HalfTheFields, "`report_fields` does not allow the report"),
        (Negated, "`supports` and `count_support` disagree"),
        (Rolled, "the mean of simulated estimates"),
        (Halved, "the variance of simulated estimates"),
        (InColumns, "a file refuses .* integer per line, got .*If a report is one integer"),
        (Unequal, "estimator's q=.* reports on the value 0 support 1 with"),
    ],
)
def test_what_the_checks_of_an_oracle_find(channel, fault):
    """Each of the mistakes that nothing else had found."""

    class Mistaken(RandomQuestion):
        def _make_mechanism(self, domain):
            return channel(domain.size, direct_threshold(self.epsilon, 2))

    checks = [check_exact_support_probabilities, check_supports, check_simulation, check_files]
    with nullcontext() if fault is None else pytest.raises(AssertionError, match=fault):
        for check in checks:
            check(Mistaken(epsilon=1.0))


class FirstIsTrue(QuestionChannel):
    """The first of several users betrays their value."""

    def privatize(self, codes, coins):
        reports = super().privatize(codes, coins)
        reports[:1] = [[codes[0], 1]] if len(codes) > 1 else reports[:1]
        return reports


class ByValue(QuestionChannel):
    """Users of one value draw their coins together, which is no mistake."""

    def privatize(self, codes, coins):
        reports = np.empty((len(codes), 2), dtype=np.int64)
        for code in np.unique(codes):
            reports[codes == code] = super().privatize(codes[codes == code], coins)
        return reports


class OneCoin(QuestionChannel):
    """All users of a batch tell the truth, or none."""

    def privatize(self, codes, coins):
        asked = coins.integers(self.n_categories, len(codes))
        is_true = coins.bernoulli(self.threshold, 1)
        return np.column_stack([asked, (asked == codes) == is_true]).astype(np.int64)


class LateAreTrue(QuestionChannel):
    def privatize(self, codes, coins):
        reports, late = super().privatize(codes, coins), codes >= 10
        reports[late] = np.column_stack([codes, codes < self.n_categories])[late]
        return reports


class WrongWhereMany(QuestionChannel):
    def __init__(self, n_categories, threshold):
        super().__init__(n_categories, threshold)
        self.p += Fraction(1, 1000) if n_categories > 20 else 0


class TooOftenJoint(QuestionChannel):
    joint_support = property(lambda self: JointSupport(float(self.p * self.q), float(self.q) ** 2))


class NeverJoint(QuestionChannel):
    joint_support = property(lambda self: JointSupport(0.0, 0.0))


class OtherCovariance(QuestionChannel):
    def covariance(self, frequencies):
        return QuestionChannel(self.n_categories, self.threshold // 2).covariance(frequencies)


class WrongBits(UnaryChannel):
    """Bits are right more often than `p` tells."""

    def privatize(self, codes, coins):
        return super().privatize(codes, coins) | (np.arange(self.n_categories) == codes[:, None])


def asked(epsilon, d, channel=QuestionChannel):
    return channel(d, direct_threshold(epsilon, 2))


def bits(epsilon, d, channel=UnaryChannel):
    keep = symmetric_threshold(epsilon)
    return channel(d, keep, PROBABILITY_UNIT - keep)


@pytest.mark.parametrize(
    ("mechanism", "fault"),
    [
        (asked, None),  # negative controls
        (bits, None),
        (partial(asked, channel=ByValue), None),
        (partial(asked, channel=FirstIsTrue), "the report of user 0 of a batch differs from"),
        (partial(asked, channel=OneCoin), "on the value 0 drawn in one batch, a share of"),
        (partial(asked, channel=LateAreTrue), "with 130 categories .* a report reveals its value"),
        (partial(asked, channel=WrongWhereMany), "with 130 categories .* p=.* support 0 with"),
        (partial(asked, channel=TooOftenJoint), "`joint_support` is wrong.* 0 and .*, but own="),
        (partial(asked, channel=OtherCovariance), "`covariance` differs from"),
        (lambda epsilon, d: asked(epsilon * (1 + (d > 50)), d), "with 130 .* 1 \\+ 1.72"),
        (lambda epsilon, d: asked(max(epsilon, 0.2), d), "at epsilon=0.1: epsilon is exceeded"),
        (lambda epsilon, d: asked(epsilon * (1 + (epsilon > 4.5)), d), "at epsilon=6: epsilon is"),
        (lambda epsilon, d: asked(epsilon + 1e-12, d), "times 1 \\+ 1e-12; round thresholds"),
        # Coins that fall in too many ways are not enumerated in a large domain.
        (lambda epsilon, d: bits(epsilon * (1 + (d > 50)), d), "`joint_support` imply a larger"),
        (partial(bits, channel=WrongBits), "a report reveals its value"),
        (
            lambda epsilon, d: bits(epsilon, d, WrongBits if d > 50 else UnaryChannel),
            "of 2000 reports on the value 0 .* of 1 support 0, but the channel states 0.622",
        ),
    ],
)
def test_what_the_checks_of_privacy_find(mechanism, fault):
    """Leaks in batches, in larger domains and at other epsilons; a wrong law of pairs."""

    class Mistaken(RandomQuestion):
        def _make_mechanism(self, domain):
            return mechanism(self.epsilon, domain.size)

    checks = oracle_checks()
    with nullcontext() if fault is None else pytest.raises(AssertionError, match=fault):
        for check in checks[: checks.index(check_one_release)]:
            check(Mistaken(epsilon=1.0))


@pytest.mark.parametrize(
    ("check", "channel", "fault"),
    [
        (check_exact_support_probabilities, Unequal, "the estimator's q="),
        (check_unbiased_estimates, Unequal, "the estimate is biased"),
        (check_joint_support, NeverJoint, "`joint_support` is wrong"),
        (check_covariance, OtherCovariance, "`covariance` differs from"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_property_of_the_support_has_a_listed_check(check, channel, fault):
    """Each check finds its own fault; the channel without faults is the negative control."""

    class Correct(RandomQuestion):
        def _make_mechanism(self, domain):
            return asked(self.epsilon, domain.size)

    class Mistaken(RandomQuestion):
        def _make_mechanism(self, domain):
            return asked(self.epsilon, domain.size, channel=channel)

    assert check in oracle_checks()
    check(Correct(epsilon=1.0))
    with pytest.raises(AssertionError, match=fault):
        check(Mistaken(epsilon=1.0))


@every_oracle
def test_an_estimate_and_what_is_asked_of_it(oracle):
    estimate = declared(oracle).fit_transform(VALUES)
    assert estimate.confidence_interval(0.95).low.shape == (1, D)
    assert estimate.answer(QUERIES).shape == (1, 3)
    assert estimate.oracle.get_params()["epsilon"] == oracle.epsilon
    assert EmpiricalBayes().fit(estimate).frequencies_.min() >= 0
    assert not audit_epsilon(declared(oracle), n_trials=20_000, random_state=0).is_violated


@every_oracle
def test_planning(oracle):
    """The bits of a report are those of its fields, and enough to tell all seen reports apart."""
    plan = Plan(oracle, D, queries=QUERIES)
    assert plan.users_for(rmse=plan.rmse(N)) == N
    assert Plan(oracle, D, queries=random_sets(0.5)).rmse(N) > 0
    assert plan.detection_threshold(N) > 0
    profile, reports = profile_oracle(oracle, CATEGORIES), declared(oracle).privatize(VALUES)
    assert profile.report_bits == declared(oracle).channel().report_bits
    assert profile.report_bits >= np.log2(len(np.unique(reports, axis=0))) - 1e-9
    assert profile.total_variance >= profile.minimax_bound * (1 - 1e-9)
    assert type(best_oracle(oracle.epsilon, D, candidates=[oracle])) is type(oracle)
    assert len(compare_oracles(1.0, D, candidates=[oracle])["excess"]) == 1


@pytest.mark.parametrize("oracle", [*SUPPORTING, *EVERY[len(ORACLES) :]], ids=repr)
def test_poisoning_and_tests_of_reports(oracle):
    reports = declared(oracle).privatize(VALUES)
    server = declared(oracle, random_state=None)
    assert poisoning_gain(server, 0.01, 2) >= poisoning_gain(server, 0.01, 2, attack="input") - 1e-9
    result = support_size_test(reports, server)
    assert result.n_samples == N
    assert result.p_value > 1e-6
    if not result.has_power:
        return
    # Negative control: half of the reports are the one that supports most.
    supported = server.channel().supports(reports, np.arange(D)).sum(axis=1)
    fake = np.repeat(reports[[np.argmax(supported)]], N, axis=0)
    assert support_size_test(np.concatenate([reports, fake]), server).p_value < 1e-6


@pytest.mark.parametrize("oracle", ORACLES[len(SUPPORTING) :], ids=repr)
def test_what_needs_support_refuses_reports_without_it(oracle):
    """By one sentence, which names the oracle."""
    reports = declared(oracle).privatize(VALUES)
    estimate = declared(oracle).fit_transform(VALUES)
    for call in (
        lambda: support_size_test(reports, declared(oracle)),
        lambda: joint_support_test(reports, declared(oracle)),
        lambda: MLEApx().fit(estimate),
        lambda: PrivatizedColumns(2.0, domains={"a": 2}, oracle=oracle).fit([[0], [1]]),
    ):
        with pytest.raises((TypeError, ValueError), match="Matrix|Range"):
            call()


@pytest.mark.parametrize("oracle", EACH_WAY, ids=repr)
@pytest.mark.parametrize("form", slow_but(["parquet"], ["parquet", "arrow", "jsonl"]))
def test_files_and_checkpoints(oracle, form, tmp_path):
    reports, server = declared(oracle).privatize(VALUES), declared(oracle, random_state=None)
    file = io.BytesIO()
    write_reports(file, reports, server, batch_id="monday", format=form)
    again = read_reports(file.getvalue(), server, format=form)
    assert sorted(map(repr, again.tolist())) == sorted(map(repr, reports.tolist()))
    plain = clone(server).aggregate(reports)
    total = aggregate(iter([reports[:700], reports[700:]]), server)
    total.save(tmp_path / "state.npz")
    loaded = Aggregator.load(tmp_path / "state.npz", server)
    np.testing.assert_array_equal(loaded.oracle_.support_counts_, plain.support_counts_)
    tally = tally_reports(reports, server, "tuesday")
    assert loaded.merge(tally).n_samples == 2 * N
    with pytest.raises(ValueError, match="of another collection"):
        read_reports(file.getvalue(), server.set_params(epsilon=9.0), format=form)


@pytest.mark.slow
@pytest.mark.parametrize("oracle", EACH_WAY, ids=repr)
def test_searches(oracle):
    fitted = declared(oracle)
    estimate = fitted.fit_transform(VALUES)
    FrequencyDisplay.from_estimator(fitted)
    candidates = [Base(), NormSub(), BaseCut(), make_pipeline(BaseCut(), NormSub())]
    held_out = HeldOutSearch(candidates, queries=QUERIES).fit(estimate)
    synthetic = SyntheticSearch(candidates, queries=QUERIES, n_repeats=3, random_state=0)
    assert synthetic.fit(estimate).frequencies_.shape == (D,)
    # A plain array can be searched as well, with the noise that the channel gives.
    for search in (
        synthetic.set_params(queries=None, oracle=oracle, n_samples=N),
        HeldOutSearch(candidates, queries=QUERIES, noise=oracle.channel(D).noise(N)),
    ):
        assert search.fit(estimate.values).frequencies_.shape == (D,)
    SearchDisplay.from_estimator(held_out)
    study = simulate_errors(oracle, candidates, COUNTS, n_repeats=2, queries=QUERIES)
    assert np.all(study["error"] > 0)
    parts = declared(oracle, random_state=1).privatize(VALUES)
    server = declared(oracle, input="reports", random_state=None)
    one, other = (clone(server).fit(parts[i::2]).estimate_ for i in range(2))
    assert np.isfinite(held_out_score(one, other, queries=QUERIES))


DRAWN = [OLH(hash_family="mixing"), RandomQuestion()]  # as test_planning cannot list their reports


@pytest.mark.parametrize(
    "oracle", slow_but([GRR(), HadamardResponse(2.0, n_blocks=2), *DRAWN], EVERY), ids=repr
)
def test_noise_is_that_of_collections(oracle, seed):
    """`noise.covariance` of every oracle against simulated collections.

    Chi-square tests of the variances of 12 answers, error rate 12e-8 (for drawn covariances, with
    a slack of 10 %). Negative control: a matrix whose covariances have the opposite sign.
    """
    channel, truth = oracle.channel(D), COUNTS / N
    rng = np.random.default_rng([seed, 8])
    simulated = clone(oracle).set_params(random_state=rng).simulate(COUNTS, 400)
    matrix = np.vstack([np.ones(D) - np.eye(D)[0], np.arange(D) < 4, rng.normal(size=(10, D))])
    covariance = simulated.noise.covariance(matrix, truth)
    assert covariance.shape == (12, 12)
    np.testing.assert_allclose(covariance, covariance.T)
    variances = simulated.noise.answer_variance(matrix, truth)
    slack = 1e-9 if channel.has_exact_covariance else 1e-6
    np.testing.assert_allclose(np.diag(covariance), variances, rtol=slack)
    assert is_covariance_of(simulated.values @ matrix.T, covariance, channel.has_exact_covariance)
    twisted = covariance * np.where(np.eye(12, dtype=bool), 1, -1)
    assert not is_covariance_of(simulated.values @ matrix.T, twisted, channel.has_exact_covariance)


def is_covariance_of(answers, covariance, is_exact):
    """Return whether variances of answers, and of their sums and differences, fit the matrix."""
    pairs = [(i, j) for i in range(len(covariance)) for j in range(i)]
    signs = np.array([np.eye(12)[i] + s * np.eye(12)[j] for i, j in pairs for s in (1, -1)])
    directions = np.vstack([np.eye(12), signs])
    expected = np.einsum("ij,jk,ik->i", directions, covariance, directions)
    keep = expected > 1e-6 * np.abs(expected).max()
    ratio = (answers @ directions.T).var(axis=0, ddof=1)[keep] / expected[keep]
    slack, degrees = 1.0 if is_exact else 1.1, len(answers) - 1
    law = stats.chi2(degrees)
    low, high = law.cdf(ratio * slack * degrees), law.sf(ratio / slack * degrees)
    return bool(min(low.min(), high.min()) > 1e-8)


@pytest.mark.parametrize("name", ["olh", "random_question:RandomQuestion"])
def test_command_line(name, tmp_path, monkeypatch, capsys):
    """From values to an estimate, by the name of the class or by where it is."""
    monkeypatch.chdir(tmp_path)
    Path("domain.txt").write_text("\n".join(CATEGORIES))
    Path("values.txt").write_text("\n".join(VALUES))
    options = ["--oracle", name, "--epsilon", "3", "--categories", "domain.txt"]
    assert main(["privatize", "values.txt", *options, "--output", "a.parquet"]) == 0
    assert main(["aggregate", "a.parquet", *options, "--checkpoint", "state.npz"]) == 0
    capsys.readouterr()
    assert main(["estimate", "state.npz", *options, "--output", "estimate.csv"]) == 0
    header, first, *_ = Path("estimate.csv").read_text().splitlines()
    assert header.startswith("category,estimate,low,high,frequency")
    assert abs(float(first.split(",")[1]) - 0.45) < 0.2


# -- planning uses the same hook as reports -----------------------------------------------------
def test_a_profile_is_that_of_the_family_that_is_meant():
    """Planning once used another hook than reports, so that mixing was profiled as linear."""
    mixing = OLH(hash_family="mixing")
    profile = profile_oracle(mixing, 1000)
    assert profile.report_bits == profile_oracle(mixing, CATEGORIES).report_bits == 63 + 2
    assert profile.decode_operations == 10 * 10**6 * 1000
    with pytest.raises(ValueError, match="at most max_report_bits=8 bits"):
        best_oracle(1.0, 1000, max_report_bits=8, candidates=[mixing])
    chosen = best_oracle(1.0, 1000, max_report_bits=30, candidates=[mixing, GRR()])
    assert isinstance(chosen, GRR)


def test_what_a_channel_does_not_say_is_drawn_and_said_so():
    channel = RandomQuestion().channel(D)
    assert not channel.has_exact_covariance
    assert GRR().channel(D).has_exact_covariance
    reports = declared(RandomQuestion()).privatize(VALUES)
    assert support_size_test(reports, declared(RandomQuestion())).is_drawn
    assert not support_size_test(declared(OLH()).privatize(VALUES), declared(OLH())).is_drawn


def test_nothing_is_simulated_to_learn_p_and_q(monkeypatch):
    """The noise of a plain array comes from the channel, and so does what is refused."""
    calls = []
    simulate = RandomQuestion.simulate

    def counted(self, counts, n_repeats=1):
        calls.append(n_repeats)
        return simulate(self, counts, n_repeats)

    monkeypatch.setattr(RandomQuestion, "simulate", counted)
    values = declared(RandomQuestion()).simulate(COUNTS).values
    calls.clear()
    search = SyntheticSearch(
        [BaseCut()], n_repeats=7, oracle=RandomQuestion(), n_samples=N, random_state=0
    )
    assert search.fit(values).transform(values).shape == (1, D)
    assert calls == [4, 4]  # the synthetic collections, and none for the noise of the array
    calls.clear()
    with pytest.raises(ValueError, match="epsilon"):
        simulate_errors(RandomQuestion(), [Base()], COUNTS, epsilons=[-1.0])
    assert calls == []
    simulate_errors(RandomQuestion(), [Base()], COUNTS, n_repeats=3)
    assert calls == [3]


def test_a_domain_that_cannot_be_stored_is_refused_before_a_report(monkeypatch):
    """The same with a small limit, in the quick tests."""
    monkeypatch.setattr("sklearn_ldp._core.mechanisms.protocol._MAX_CELLS", 3)
    oracle = GRR(1.0, categories=4)
    for call in (
        lambda: oracle.privatize([1]),
        lambda: oracle.fit([1]),
        lambda: oracle.aggregate([1]),
        lambda: Aggregator(oracle.protocol()),
    ):
        with pytest.raises(ValueError, match="cannot collect 4 categories"):
            call()
    assert GRR(1.0, categories=3).privatize([1]).shape == (1,)  # negative control


@pytest.mark.slow
@pytest.mark.parametrize(
    "oracle", [OLH(4.0, categories=10**7), ProjectiveGeometryResponse(4.0, categories=10**7)]
)
def test_a_domain_that_cannot_be_decoded_is_refused_at_once(oracle):
    """By client and server, before anybody spends epsilon; planning may still ask about it."""
    message = "cannot collect 10,000,000 categories at epsilon=4, because the server would need"
    protocol = oracle.protocol()
    for call in [
        lambda: oracle.privatize([1]),
        lambda: oracle.fit([1]),
        lambda: clone(oracle).aggregate([[0, 0]]),
        lambda: Aggregator(protocol),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    assert protocol.mechanism.decode_operations(100) > 1e9
    # The negative control: what the message recommends works.
    recommended = HadamardResponse(4.0, categories=10**7, random_state=0)
    assert recommended.privatize([1, 9_999_999]).shape == (2,)
    recommended.protocol().refuse_size()


def test_a_second_fit_accepts_columns_of_other_names():
    oracle = GRR(1.0, categories=["a", "b"], random_state=0)
    oracle.fit(pd.DataFrame({"may": ["a", "b"]}))
    oracle.fit(pd.DataFrame({"june": ["a", "b"]}))
    assert oracle.feature_names_in_.tolist() == ["june"]
    with pytest.raises(ValueError, match="feature names should match"):
        oracle.partial_fit(pd.DataFrame({"may": ["a", "b"]}))
