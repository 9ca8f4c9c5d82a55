"""Users who lie: the closed formula against attacks on our oracles, and tests that find them."""

import itertools
import math

import numpy as np
import pytest
from estimators import SUPPORTING, first_of_each, slow_but
from scipy import stats
from sklearn.base import clone

from benchmarks.security._attacks import chosen_functions, disguised_bits, subsets_with_targets
from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    ColumnOracle,
    HadamardResponse,
    LocalMean,
    MarginalOracle,
    MatrixOracle,
    RangeOracle,
    StringOracle,
    SubsetSelection,
)
from sklearn_ldp.collection import read_reports, write_reports
from sklearn_ldp.queries import prefixes
from sklearn_ldp.robustness import (
    hash_function_test,
    joint_support_test,
    poisoning_gain,
    support_size_test,
)
from sklearn_ldp.robustness._report_tests import _classes
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

# Servers tell that reports may be fake, and count them.
pytestmark = pytest.mark.filterwarnings("ignore:.* expects reports that support")

MIXING = OLH(hash_family="mixing")
CONSTANT = (GRR, SubsetSelection)


def over(oracle, d, seed=None, **parameters):
    return clone(oracle).set_params(categories=d, random_state=seed, **parameters)


def honest_reports(oracle, n, seed):
    """Return the reports of users with a skewed distribution."""
    d = oracle.categories
    codes = np.minimum(np.random.default_rng(seed).geometric(0.2, n) - 1, d - 1)
    return over(oracle, d, np.random.default_rng(seed + 1)).privatize(codes), codes


# -- the gain -----------------------------------------------------------------------------------
@pytest.mark.parametrize("hash_range", [3, 4, 16])
def test_gain_is_that_of_the_paper(hash_range):
    """Cao, Jia & Gong, Table 1: GRR, OUE and OLH, whose hash range there is exp(epsilon) + 1."""
    beta, r, d, f = 0.05, 3, 100, 0.02
    e = hash_range - 1
    options = {"target_frequency": f, "n_categories": d, "epsilon": math.log(e)}
    grr = beta * (1 - f) + beta * (d - r) / (e - 1)
    oue = beta * (2 * r - f) + 2 * beta * r / (e - 1)
    assert poisoning_gain(GRR(), beta, r, **options) == pytest.approx(grr)
    assert poisoning_gain(OUE(), beta, r, **options) == pytest.approx(oue)
    assert poisoning_gain(OLH(hash_range=hash_range), beta, r, **options) == pytest.approx(oue)
    # Liars who keep to the protocol gain their share with any oracle.
    lies = poisoning_gain(OUE(), beta, 1, attack="input", **options)
    assert lies == pytest.approx(beta * (1 - f))


def every_report(oracle, d):
    """Return all reports, if they are few or unary bits, and some of those with hash functions."""
    if isinstance(oracle, GRR):
        return np.arange(d)
    if isinstance(oracle, SubsetSelection):
        size = oracle.privatize([0]).shape[1]
        return np.array(list(itertools.combinations(range(d), size)))
    if isinstance(oracle, (OUE, SUE)):
        return np.array(list(itertools.product([0, 1], repeat=d)), dtype=np.uint8)
    n_drawn = 300 if oracle.get_params().get("hash_family") == "mixing" else 8000
    return np.unique(over(oracle, d, 0).privatize(np.arange(n_drawn) % d), axis=0)


def best_attack(oracle, r):
    """Return a report that supports the most of r targets, and targets for which it does."""
    d = oracle.categories
    reports = every_report(oracle, d)
    support = np.array([clone(oracle).aggregate(one[None]).support_counts_ for one in reports])
    # Blocks of a Hadamard matrix count -1 against a category.
    targets = np.argsort(-support[np.argmax((support > 0).sum(axis=1))], kind="stable")[:r]
    return reports[np.argmax(support[:, targets].sum(axis=1))], targets


N, SHARE = 60_000, 0.1


def gain_of(oracle, fake, targets, seed):
    """Return the gain from fake ones among N reports, the truth, and a bound of the deviation."""
    reports, codes = honest_reports(oracle, N - len(fake), seed)
    server = clone(oracle).aggregate(np.concatenate([reports, fake.astype(reports.dtype)]))
    d, r = oracle.categories, len(targets)
    truth = np.bincount(codes, minlength=d)[targets].sum() / len(codes)
    spread = r * math.sqrt(np.max(server.noise_.variance(np.full(d, 1 / r))))
    return server.frequencies_[targets].sum() - truth, truth, spread


@pytest.mark.parametrize("oracle", slow_but(first_of_each(SUPPORTING), SUPPORTING), ids=repr)
def test_attacks_gain_what_the_formula_says(oracle, seed):
    """Within 5 bounds of the standard deviation: fails by chance less than once in 10**6 runs."""
    oracle, r = over(oracle, 9), 2
    report, targets = best_attack(oracle, r)
    fake = np.repeat(report[None], round(N * SHARE), axis=0)
    gain, truth, spread = gain_of(oracle, fake, targets, seed)
    expected = poisoning_gain(oracle, SHARE, r, target_frequency=truth)
    assert gain == pytest.approx(expected, abs=5 * spread)
    # Negative control: as if fake reports weighed no more than lies about the value.
    wrong = poisoning_gain(oracle, SHARE, r, target_frequency=truth, attack="input")
    assert abs(gain - wrong) > 5 * spread


def fake_mean(seed):
    """A tenth of the users report the output that stands for the largest number."""
    oracle, genuine = LocalMean(1.0, bounds=(10, 60)), N - N // 10
    ages = np.random.default_rng(seed).uniform(10, 40, genuine)
    reports = clone(oracle).set_params(random_state=seed).privatize(ages)
    best = np.argmax(oracle.protocol().mechanism.values)
    server = clone(oracle).aggregate(np.r_[reports, np.full(N // 10, best, reports.dtype)])
    place = (ages.mean() - 10) / 50
    return oracle, server.mean_ - ages.mean(), place, server.standard_error_


def fake_bins(seed):
    """A tenth of the users report the output that adds most to a bin, whichever that is."""
    oracle, genuine = RangeOracle(1.0, categories=16), N - N // 10
    codes = np.random.default_rng(seed).integers(0, 16, genuine)
    reports = clone(oracle).set_params(random_state=seed).privatize(codes)
    decoding = oracle.channel().decoding
    target, best = np.unravel_index(np.argmax(decoding), decoding.shape)
    server = clone(oracle).aggregate(np.r_[reports, np.full(N // 10, best, reports.dtype)])
    truth = np.mean(codes == target)
    spread = float(np.sqrt(np.max(server.noise_.variance(np.full(16, 1 / 16)))))
    return oracle, server.frequencies_[target] - truth, truth, spread


def string_reports(oracle, text, on):
    """Reports on some questions whose values are those of a string under any function."""
    protocol = oracle.protocol()
    codes, reports = protocol.domain.encode([text])[0], np.zeros((len(on), 3), dtype=np.int64)
    reports[:, 0], reports[:, 1] = on, np.arange(len(on))
    for j in set(on):
        part, rows = protocol.mechanism.mechanisms[j], np.asarray(on) == j
        reports[rows, 1] %= part.n_functions
        reports[rows, 2] = part.hash(reports[rows, 1], np.full(rows.sum(), codes[j]))
    return reports


WORDS = StringOracle(4.0, alphabet="abcdefgh", max_length=4, n_found=4, expected_n_users=20_000)


def fake_string(seed):
    """A tenth of the users claim to be held out, and promote a string that is found anyway."""
    words = ["abc", "bad", "dead", "feed"] * (N // 10)
    reports = clone(WORDS).set_params(random_state=seed).privatize(words)
    held_out = len(WORDS.plan().steps)
    fake = string_reports(WORDS, "bad", [held_out] * (len(words) // 9))
    estimate = clone(WORDS).aggregate(np.r_[reports, fake]).estimate_
    spread = float(np.sqrt(np.max(estimate.noise.variance(np.full((1, 4), 0.25)))))
    return WORDS, estimate["bad"] - 0.25, 0.25, spread


@pytest.mark.parametrize("attacked", [fake_mean, fake_bins, fake_string])
def test_what_fake_users_add_to_a_mean_a_bin_and_a_string(attacked, seed):
    """Within 5 standard errors; the negative control is a lie about the value."""
    oracle, gain, truth, spread = attacked(seed)
    given = {"share": 0.1, "n_targets": 1, "target_frequency": truth}
    assert gain == pytest.approx(poisoning_gain(oracle, **given), abs=5 * spread)
    wrong = poisoning_gain(oracle, **given, attack="input")
    assert abs(gain - wrong) > 5 * spread


@pytest.mark.filterwarnings("ignore:.*are not detected among")
def test_fake_users_plant_a_string_that_nobody_has(seed):
    """Half of them are spread over the searching parts: it is detected, with half of the gain."""
    words = ["abc", "bad", "dead"] * 10_000
    reports = clone(WORDS).set_params(random_state=seed).privatize(words)
    held_out, m = len(WORDS.plan().steps), 800
    on = [*(np.arange(m // 2) % held_out).tolist(), *[held_out] * (m // 2)]
    fake = string_reports(WORDS, "hag", on)
    estimate = clone(WORDS).aggregate(np.r_[reports, fake]).estimate_
    assert "hag" in estimate.categories
    bound = poisoning_gain(WORDS, m / (m + len(words)), 1)
    assert 0.4 * bound < estimate["hag"] < 0.7 * bound
    # Negative control: all of them claim to be held out, so that the search does not find it.
    alone = string_reports(WORDS, "hag", [held_out] * m)
    estimate = clone(WORDS).aggregate(np.r_[reports, alone]).estimate_
    # The search may detect other strings by chance.
    assert set(words) <= set(estimate.categories)
    assert "hag" not in estimate.categories


def test_gains_of_what_is_no_list_of_categories():
    """Figures of the page on operating a collection, from the formulas on paper."""
    for epsilon, largest, gain in ((0.5, 5.125, 2.7025), (1.0, 2.90625, 1.593125)):
        mean = LocalMean(epsilon, bounds=(0, 100))
        assert mean.protocol().mechanism.values.max() == largest
        assert poisoning_gain(mean, 0.01, 1, target_frequency=0.36) == pytest.approx(gain)
    matrix = MatrixOracle(1.0, categories=4, queries=prefixes())
    decoding = matrix.channel().decoding
    for r in (1, 2, 4):
        most = max(
            decoding[list(targets)].sum(axis=0).max()
            for targets in itertools.combinations(range(4), r)
        )
        assert poisoning_gain(matrix, 0.01, r) == pytest.approx(0.01 * most)
    both = poisoning_gain([GRR(1.0, categories=4), matrix], 0.01, 1)
    assert both.shape == (2,)
    assert poisoning_gain(WORDS, 0.01, 2) == pytest.approx(2 * poisoning_gain(WORDS, 0.01, 1))


@pytest.mark.parametrize(
    ("oracle", "options", "words"),
    [
        (RangeOracle(1.0, categories=300), {}, 'cannot compute .* RangeOracle.*attack="input"'),
        (LocalMean(1.0, bounds=(0, 1)), {"n_targets": 2}, "from 1 to 1"),
        (LocalMean(1.0, bounds=(0, 1)), {"attack": "assigned"}, "LocalMean draw none"),
        (
            LocalMean(1.0, bounds=(0, 1)),
            {"n_categories": 3},
            "LocalMean, which declares its own domain",
        ),
        (StringOracle(1.0, alphabet=""), {}, "got the alphabet"),
    ],
)
def test_gains_that_are_refused(oracle, options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        poisoning_gain(oracle, 0.01, **{"n_targets": 1, **options})


@pytest.mark.parametrize(
    ("survey", "attack"),
    [
        (ColumnOracle, "maximal"),
        (ColumnOracle, "assigned"),
        (ColumnOracle, "input"),
        (MarginalOracle, "maximal"),
        pytest.param(MarginalOracle, "assigned", marks=pytest.mark.slow),
        pytest.param(MarginalOracle, "input", marks=pytest.mark.slow),
    ],
)
def test_fake_users_of_a_survey_claim_one_question(survey, attack, seed):
    """Within 5 standard deviations; the negative control takes the share of all users."""
    rng = np.random.default_rng(seed)
    options = {"method": "split", "column_share": 0.0} if survey is MarginalOracle else {}
    one = survey(2.0, domains=dict.fromkeys("abcdef", 4), oracle=OUE(), **options)
    mechanism, n, fakes = one.protocol().mechanism, 60_000, 3_000
    reports = one.privatize(rng.integers(0, 3, size=(n - fakes, 6)))
    part = mechanism.public_part
    honest = part.of_reports(one.privatize(np.zeros((fakes, 6), dtype=int)))
    parts = np.zeros(fakes) if attack == "maximal" else honest
    target = mechanism.mechanisms[0].n_categories - 1
    if attack == "input":
        fake = one.privatize(np.full((fakes, 6), 3))
    else:
        fake = np.zeros((fakes, reports.shape[1]), dtype=np.int64)
        fake[:, 0] = parts
        fake[:, 1 + target] = 1
    estimate = clone(one).aggregate(np.concatenate([reports, fake])).estimate_
    gain = next(iter(estimate.values())).values[0, target]
    noise = next(iter(estimate.values())).noise
    expected = poisoning_gain(one, fakes / n, 1, attack=attack)[0]
    spread = math.sqrt(np.max(noise.variance(np.full(target + 1, 0.2))))
    assert gain == pytest.approx(expected, abs=5 * spread)
    if attack == "maximal":
        wrong = poisoning_gain(one, fakes / n, 1, attack="assigned")[0]
        assert abs(gain - wrong) > 5 * spread


def test_gain_grows_with_privacy_and_with_targets():
    for oracle in SUPPORTING:
        gains = poisoning_gain([over(oracle, 50, epsilon=e) for e in (0.5, 1, 2)], 0.01, 1)
        if not isinstance(oracle, OLH) or isinstance(oracle.hash_range, str):
            assert np.all(np.diff(gains) < 0)
        assert poisoning_gain(over(oracle, 50), 0.0, 1) == 0
    of_one, of_five = (poisoning_gain(OUE(), 0.01, r, n_categories=9) for r in (1, 5))
    assert of_five > of_one
    assert poisoning_gain(GRR(), 0.01, 9, n_categories=9) == pytest.approx(0.01)  # sums to 1


def test_gain_refuses():
    for share in (-0.1, 1.1, "0.1", math.nan):
        with pytest.raises(ValueError, match="share must be a number from 0 to 1"):
            poisoning_gain(GRR(), share, 1, n_categories=5)
    for n_targets in (0, 6, 1.0):
        with pytest.raises(ValueError, match="n_targets must be an integer from 1 to 5"):
            poisoning_gain(GRR(), 0.1, n_targets, n_categories=5)
    with pytest.raises(ValueError, match="attack must be"):
        poisoning_gain(GRR(), 0.1, 1, n_categories=5, attack="random")
    with pytest.raises(TypeError, match="needs an oracle or a survey"):
        poisoning_gain("olh", 0.1, 1)
    with pytest.raises(ValueError, match="categories"):
        poisoning_gain(GRR(), 0.1, 1)


# -- sizes: honest users ------------------------------------------------------------------------
@pytest.mark.parametrize("d", [pytest.param(12, marks=pytest.mark.slow), 100])
@pytest.mark.parametrize("oracle", SUPPORTING, ids=repr)
def test_honest_reports_pass(oracle, d, seed):
    """Fails by chance once in 10,000 runs of each."""
    reports, _ = honest_reports(over(oracle, d), 20_000, 10 * seed)
    result = support_size_test(reports, over(oracle, d))
    assert result.n_samples == 20_000
    assert result.p_value > 1e-4
    assert result.has_power == (not isinstance(oracle, CONSTANT))
    if not result.has_power:
        assert (result.statistic, result.degrees_of_freedom, result.p_value) == (0, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("oracle", [OUE(), OLH(), HadamardResponse(2.0, n_blocks=2)], ids=repr)
def test_p_values_of_honest_reports_are_uniform(oracle, seed):
    """Kolmogorov-Smirnov of 50 collections; fails by chance once in 10,000 runs of each."""
    oracle = over(oracle, 30)

    drawn, _ = honest_reports(oracle, 200, 5)
    support = [clone(oracle).aggregate(one[None]).support_counts_ for one in drawn]
    largest = drawn[[np.argmax((np.array(support) > 0).sum(axis=1))]]

    def p_values(n_fake):
        values = []
        for i in range(50):
            reports, _ = honest_reports(oracle, 3000, 1000 * seed + 10 * i)
            together = np.concatenate([reports, np.repeat(largest, n_fake, axis=0)])
            values.append(support_size_test(together, oracle).p_value)
        return values

    assert stats.kstest(p_values(0), "uniform").pvalue > 1e-4
    assert stats.kstest(p_values(60), "uniform").pvalue < 1e-4  # negative control: 2 % alike


@pytest.mark.parametrize("oracle", [OUE(), SUE(epsilon=2.0)], ids=repr)
def test_expected_sizes_are_those_of_the_enumerated_law(oracle, seed):
    """Reports drawn from all 2**6 by exact probabilities pass; by slightly wrong ones they fail."""
    oracle = over(oracle, 6)
    channel = oracle.channel()
    law = exact_report_distribution(channel, 3)
    reports = np.array([np.ravel(report) for report in law], dtype=np.uint8)
    exact = np.array([float(p) for p in law.values()])
    rng = np.random.default_rng(seed)
    draw = rng.choice(len(exact), 40_000, p=exact)
    assert support_size_test(reports[draw], oracle).p_value > 1e-4
    other = exact * np.where(reports.sum(axis=1) == 2, 1.1, 1)
    draw = rng.choice(len(exact), 40_000, p=other / other.sum())
    assert support_size_test(reports[draw], oracle).p_value < 1e-4


# -- sizes: fake users --------------------------------------------------------------------------
def test_padded_unary_reports_are_seen(seed):
    """The attack that pads its bits to the mean size is too regular."""
    oracle = OUE(1.0, categories=100)
    reports, _ = honest_reports(oracle, 19_000, seed)
    rng = np.random.default_rng(seed)
    fake = np.zeros((1000, 100), dtype=np.uint8)
    for row in fake:
        row[rng.permutation(100)[:27]] = 1
    result = support_size_test(np.concatenate([reports, fake]), oracle)
    assert result.p_value < 1e-9
    # With an honest number of bits it is not, as the documentation says.
    sizes = reports[:1000].sum(axis=1)
    for row, size in zip(fake, sizes, strict=True):
        row[:] = 0
        row[0] = 1
        row[1 + rng.permutation(99)[: size - 1]] = 1
    assert support_size_test(np.concatenate([reports, fake]), oracle).p_value > 1e-4


def test_reports_that_support_everything_are_seen():
    for oracle, report in [
        (OLH(categories=100), [0, 0]),
        (BLH(categories=100), [0, 0]),
        (HadamardResponse(categories=100), 0),
        (HadamardResponse(3.0, categories=100, n_blocks=4), 0),
    ]:
        reports, _ = honest_reports(oracle, 20_000, 0)
        assert clone(oracle).aggregate([report]).support_counts_.sum() >= 25
        fake = np.repeat(np.array([report]), 300, axis=0)
        together = np.concatenate([reports, fake.astype(reports.dtype)])
        assert support_size_test(together, oracle).p_value < 1e-9


def test_reports_from_files_and_in_pieces(tmp_path):
    pytest.importorskip("pyarrow")
    oracle = OUE(1.0, categories=20)
    reports, _ = honest_reports(oracle, 6000, 0)
    paths = [tmp_path / f"{i}.parquet" for i in range(3)]
    for i, path in enumerate(paths):
        write_reports(path, reports[2000 * i : 2000 * (i + 1)], oracle)
    at_once = support_size_test(reports, oracle)
    pieces = support_size_test((read_reports(path, oracle) for path in paths), oracle)
    assert (at_once.statistic, at_once.n_samples) == (pieces.statistic, pieces.n_samples)
    with pytest.raises(ValueError, match="cannot have made these reports"):
        support_size_test(reports[:, :19], oracle)


# -- pairs --------------------------------------------------------------------------------------
# Reports whose joint law is known, and the attack on several targets that is hardest to see.
PAIRED = [
    (OUE(), disguised_bits),
    (SUE(), disguised_bits),
    (SubsetSelection(), subsets_with_targets),
    (OLH(), chosen_functions),
    (BLH(), chosen_functions),
    (MIXING, chosen_functions),
]
TARGETS = np.array([21, 33, 38])


@pytest.mark.parametrize("n", [2000, 30_000])
@pytest.mark.parametrize(
    ("oracle", "attack"), PAIRED, ids=lambda x: getattr(x, "__name__", repr(x))
)
def test_honest_pairs_pass_and_promoted_ones_do_not(oracle, attack, n, seed):
    """Fails by chance once in 10,000 runs of each."""
    oracle = over(oracle, 40)
    reports, _ = honest_reports(oracle, n, 10 * seed)
    result = joint_support_test(reports, oracle)
    assert (result.n_samples, result.has_power) == (n, True)
    assert result.p_value > 1e-4
    # Three targets at once, by a tenth of the users, or by 5 % if there are many.
    m = n // 10 if n < 10_000 else n // 20
    fake = attack(oracle, TARGETS, 2 * m, np.random.default_rng(seed)).astype(reports.dtype)
    assert joint_support_test(np.concatenate([reports, fake]), oracle).p_value < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("oracle", [OUE(), OLH(), MIXING], ids=repr)
def test_p_values_of_honest_pairs_are_not_too_small(oracle, epsilon, seed):
    """Of 200 collections, at most 26 at a level of 5 %: binomial, error rate 1e-5 of each.

    At epsilon 4 pairs are rare, and their counts are skewed.
    """
    oracle = over(oracle, 30, epsilon=epsilon)

    def n_rejected(n_fake):
        values = []
        for i in range(200):
            reports, _ = honest_reports(oracle, 1000, 10_000 * seed + 2 * i)
            values.append(joint_support_test(np.r_[reports, reports[:n_fake]], oracle).p_value)
        return np.count_nonzero(np.array(values) <= 0.05)

    bound = stats.binom.isf(1e-5, 200, 0.05)
    assert n_rejected(0) <= bound
    assert n_rejected(300) > bound  # negative control: some users count twice


def test_pairs_of_some_categories():
    oracle = OUE(1.0, categories=[f"page {i}" for i in range(2500)])
    reports = np.random.default_rng(0).random((2000, 2500)) < float(oracle.channel().q)
    with pytest.raises(ValueError, match=r"at most 2048 categories, got 2500.*among="):
        joint_support_test(reports, oracle)
    among = ["page 7", "page 2400", "page 7", "page 12"]
    result = joint_support_test(reports, oracle, among=among)
    assert result.degrees_of_freedom == 3
    assert result.p_value > 1e-4
    reports[:300, [7, 2400]] = True
    assert joint_support_test(reports, oracle, among=among).p_value < 1e-9
    assert joint_support_test(reports, oracle, among=["page 7", "page 12"]).p_value > 1e-4


def test_pairs_are_unknown_or_do_not_occur():
    result = joint_support_test(np.zeros(5000, dtype=int), GRR(categories=5))
    assert (result.has_power, result.p_value) == (False, 1.0)
    with pytest.raises(TypeError, match="Use support_size_test"):
        joint_support_test([1, 2], HadamardResponse(categories=5))
    with pytest.raises(TypeError, match="Use support_size_test"):  # whose users draw no function
        hash_function_test([1, 2], GRR(categories=5))


def test_directions_of_linear_hashing_are_counted(seed):
    """The counts are those of the definition: functions with equal values at two categories."""
    for oracle in (OLH(1.0, categories=30), BLH(categories=30), OLH(2.0, categories=30)):
        channel = oracle.channel()
        functions = np.random.default_rng(seed).integers(channel.n_functions, size=500)
        values = channel.hash(functions[:, None], np.arange(30))
        counts = np.bincount(functions, minlength=channel.n_functions)
        found, q = channel.public_part.collisions(counts)
        assert q == float(channel.q)
        pairs = (values[:, :, None] == values[:, None, :]).sum(axis=0)
        assert set(pairs[np.triu_indices(30, 1)].tolist()) <= set(found.tolist())


# -- hash functions -----------------------------------------------------------------------------
HASHING = [OLH(), BLH(), OLH(epsilon=2.0, hash_range=9), MIXING]


@pytest.mark.parametrize("oracle", slow_but([OLH(), MIXING], HASHING), ids=repr)
@pytest.mark.parametrize("n", [500, 20_000])
def test_honest_functions_pass_and_chosen_ones_do_not(oracle, n, seed):
    """Fails by chance once in 10,000 runs of each."""
    oracle = over(oracle, 40)
    reports, _ = honest_reports(oracle, n, seed)
    assert hash_function_test(reports, oracle).p_value > 1e-4
    # The attack: the best of 100 drawn functions, for three targets; a tenth as many fake users.
    targets = [30, 35, 39]
    drawn, _ = honest_reports(oracle, 100, seed + 7)
    support = [clone(oracle).aggregate(one[None]).support_counts_[targets].sum() for one in drawn]
    fake = np.repeat(drawn[[np.argmax(support)]], n // 10, axis=0)
    result = hash_function_test(np.concatenate([reports, fake]), oracle)
    assert result.p_value < 1e-4


@pytest.mark.slow
def test_p_values_of_honest_functions_are_uniform(seed):
    """Kolmogorov-Smirnov of 80 collections; fails by chance once in 10,000 runs."""
    oracle = OLH(1.0, categories=30)
    values, tampered = [], []
    for i in range(80):
        reports, _ = honest_reports(oracle, 4000, 1000 * seed + 10 * i)
        values.append(hash_function_test(reports, oracle).p_value)
        tampered.append(hash_function_test(np.r_[reports, reports[:600]], oracle).p_value)
    assert stats.kstest(values, "uniform").pvalue > 1e-4
    assert stats.kstest(tampered, "uniform").pvalue < 1e-4


@pytest.mark.parametrize("n", [300, 10_000, 1_000_000])
@pytest.mark.parametrize("n_bits", [21, 31])
def test_classes_of_a_symmetric_distribution_are_symmetric(n, n_bits):
    classes = _classes(stats.binom.pmf(np.arange(n_bits + 1), n_bits, 0.5), n)
    assert classes[-1] > 4
    np.testing.assert_array_equal(classes, classes[-1] - classes[::-1])
