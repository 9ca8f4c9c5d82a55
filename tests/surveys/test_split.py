"""Several collections: epsilon over whole records, and the noise of whom one asks."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from one_bit import one_bit

from sklearn_ldp import GRR, OLH, OUE, HadamardResponse, NoiseModel, SubsetSelection
from sklearn_ldp._core.mechanisms.coins import TWO_64, SecureCoins
from sklearn_ldp._core.mechanisms.several import Several, View, Views, shares_over_2_64
from sklearn_ldp.utils._checks import check_exact_epsilon_of
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

SHARES = shares_over_2_64([1, 3])


def split(*oracles, sizes=(2, 3), shares=SHARES):
    pairs = zip(oracles, sizes, strict=True)
    return Several([oracle.channel(d) for oracle, d in pairs], shares).for_enumeration()


def records(*sizes):
    return product(*map(range, sizes))


# -- epsilon --------------------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(
    "oracles",
    [
        (GRR(), GRR()),
        (OUE(), GRR()),
        (OLH(hash_range=3), OUE()),
        (SubsetSelection(), OLH(hash_range=4)),
    ],
    ids=repr,
)
def test_epsilon_of_whole_records_is_exact(oracles, epsilon):
    """Any two records, which may differ in both columns: at most exp(epsilon), and no less."""
    oracles = [type(one)(**{**one.get_params(), "epsilon": epsilon}) for one in oracles]
    check_exact_epsilon_of(split(*oracles), records(2, 3), epsilon)


class _AsksWhoHasOne(Several):
    """Negative control: the part depends on the values."""

    def privatize(self, codes, coins):
        usual = super().privatize(codes, coins)
        other = super().privatize(codes, coins)
        return np.where(((usual[:, 0] == 1) & (codes[:, 0] == 1))[:, None], other, usual)


class _AnswersBoth(Several):
    """Negative control: reports on both parts, each with the whole epsilon."""

    def privatize(self, codes, coins):
        own = [part.privatize(codes[:, j], coins) for j, part in enumerate(self.mechanisms)]
        return np.column_stack(own)


@pytest.mark.parametrize("tampered", [_AsksWhoHasOne, _AnswersBoth])
def test_a_tampered_split_is_found(tampered):
    parts = [GRR(1.0).channel(2), GRR(1.0).channel(3)]
    with pytest.raises(AssertionError, match=r"epsilon is exceeded"):
        check_exact_epsilon_of(tampered(parts, SHARES), records(2, 3), 1.0)


def test_the_law_of_reports_is_the_mixture():
    mechanism = split(GRR(1.0), GRR(1.0))
    law = exact_report_distribution(mechanism, (1, 2))
    first, second = mechanism.mechanisms
    assert law[0, 1] == Fraction(1, 4) * first.p
    assert law[1, 0] == Fraction(3, 4) * second.q
    assert sum(chance for report, chance in law.items() if report[0] == 1) == Fraction(3, 4)
    entropy = -sum(float(p) * np.log2(float(p)) for p in law.values())
    assert mechanism.report_entropy() == pytest.approx(entropy, rel=1e-9)
    agreement = sum(float(p) ** 2 for p in law.values())
    assert 2.0 ** -mechanism.report_entropy(order=2) >= agreement * (1 - 1e-12)


@pytest.mark.parametrize("weights", [[1], [1, 1, 1], [1e-30, 1], np.arange(1, 30) ** 2.5])
def test_shares_are_exact(weights):
    shares = shares_over_2_64(weights)
    assert sum(shares) == TWO_64
    assert min(shares) >= 1 << 28
    np.testing.assert_allclose([s / TWO_64 for s in shares], weights / np.sum(weights), atol=1e-9)
    assert shares == shares_over_2_64(np.nextafter(weights, 0))


# -- reports --------------------------------------------------------------------------------------
PARTS = [GRR(1.0), OUE(1.0), OLH(1.0), HadamardResponse(1.0), SubsetSelection(0.3)]
SIZES = (2, 9, 17, 5, 30)
MIXED = Several(
    [oracle.channel(d) for oracle, d in zip(PARTS, SIZES, strict=True)],
    shares_over_2_64([1, 2, 3, 4, 5]),
)


@pytest.fixture
def codes():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, d, 5000) for d in SIZES])


def test_parts_are_drawn_with_their_probabilities(codes):
    """Chi-square at 1e-9; probabilities that are 30 % off are found."""
    asked = np.bincount(MIXED.privatize(codes, SecureCoins())[:, 0], minlength=5)

    def statistic(probabilities):
        expected = 5000 * probabilities
        return np.sum((asked - expected) ** 2 / expected)

    assert statistic(MIXED.probabilities) < 49  # of 4 degrees of freedom
    assert statistic(np.array([1.3, 2, 3, 4, 5]) / 15.3 * [1, 1, 1, 1.3, 1]) > 49


def test_reports_of_other_forms_are_refused(codes):
    reports = MIXED.privatize(codes[:50], SecureCoins())
    reports[:, 0], reports[:, 1:] = 0, 0
    reports[:, 1] = 1
    MIXED.check_reports(reports)
    for place, value, message in (
        ((0, 0), 5, r"a part in \[0, 4\]"),
        ((0, 0), -1, r"a part in \[0, 4\]"),
        ((0, 1), 2, r"integers in \[0, 1\]"),
        ((0, 2), 1, "zeros after the report on question 0"),
    ):
        spoilt = reports.copy()
        spoilt[place] = value
        with pytest.raises(ValueError, match=message):
            MIXED.check_reports(spoilt)
    with pytest.raises(ValueError, match="shape"):
        MIXED.check_reports(reports[:, :-1])


def test_mechanisms_are_compared_by_their_parts():
    again = Several(
        [oracle.channel(d) for oracle, d in zip(PARTS, SIZES, strict=True)], MIXED.shares
    )
    assert again == MIXED
    assert again.configuration == MIXED.configuration
    others = [
        Several(again.mechanisms, shares_over_2_64([1, 2, 3, 4, 6])),
        Several([GRR(1.1).channel(2), *again.mechanisms[1:]], again.shares),
    ]
    for other in others:
        assert other != MIXED
        assert other.configuration != MIXED.configuration


def test_a_part_need_not_be_a_channel():
    mechanism = Several([GRR(1.0).channel(2), one_bit(1.0, 5).mechanism], SHARES)
    check_exact_epsilon_of(mechanism, records(2, 5), 1.0)
    tally = mechanism.tally(mechanism.privatize(np.zeros((100, 2), dtype=int), SecureCoins()))
    own, asked = mechanism.tallies_on(mechanism.decode(tally[None]), 1)
    assert own.sum() == asked


# -- noise ----------------------------------------------------------------------------------------
def variances_of_all_samples(values, m, matrix):
    """Covariances of the answers among m of the users, over all equally likely choices."""
    from itertools import combinations

    eye = np.eye(3)
    answers = [
        matrix @ eye[list(np.array(values)[list(chosen)])].mean(axis=0)
        for chosen in combinations(range(len(values)), m)
    ]
    return np.cov(np.array(answers).T, bias=True)


@pytest.mark.parametrize("m", [1, 2, 4, 6, 7])
def test_the_sampling_term_by_enumeration(m):
    """The added covariance is that of all ways to choose m of 7 users, to rounding."""
    users = [0, 0, 0, 0, 1, 1, 2]
    f = np.bincount(users) / 7
    channel = GRR(2.0).channel(3)
    noise = channel.noise(m).of_sample(7)
    matrix = np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 1], [0.5, -1, 2]])
    added = variances_of_all_samples(users, m, matrix)
    expected = channel.noise(m).covariance(matrix, f) + added
    np.testing.assert_allclose(noise.covariance(matrix, f), expected, atol=1e-14)
    np.testing.assert_allclose(noise.answer_variance(matrix, f), np.diag(expected), atol=1e-14)
    each = noise.covariance(np.eye(3), f)
    np.testing.assert_allclose(noise.variance(f), np.diag(each), atol=1e-14)
    np.testing.assert_allclose(noise.covariance_product(matrix[3], f), each @ matrix[3], atol=1e-14)
    # Near a frequency of 0 the variance grows by `growth`, and it bends by `curvature`.
    v = 0.01
    of_one = noise.variance(np.array([v, 0.5, 0.49]))[0]
    assert of_one == pytest.approx(noise.std**2 + noise.growth * v - noise.curvature * v**2)
    ratio = noise.slope / noise.null_variance
    assert ratio == pytest.approx(noise.growth / noise.std**2)


def test_the_term_of_the_methods():
    """With m = n pi it is f (1 - f) (1 / pi - 1) / n."""
    n, pi, f = 10**6, 0.2, np.array([0.3, 0.7])
    noise = NoiseModel(0.75, 0.25, int(n * pi)).of_sample(n)
    added = n * (noise.variance(f) - NoiseModel(0.75, 0.25, int(n * pi)).variance(f))
    np.testing.assert_allclose(added, f * (1 - f) * (1 / pi - 1), rtol=1e-5)


def test_users_who_were_all_asked_add_nothing():
    whole = GRR(1.0).channel(3).noise(10)
    noise = whole.of_sample(10)
    f = np.array([0.2, 0.3, 0.5])
    np.testing.assert_array_equal(noise.variance(f), whole.variance(f))
    assert GRR(1.0).channel(3).noise(1).of_sample(1).curvature == 0


def test_each_row_has_its_own_noise():
    channel = GRR(1.0).channel(3)
    noise = channel.noise(np.array([50, 80])).of_sample(200)
    f = np.array([0.2, 0.3, 0.5])
    for i, m in enumerate([50, 80]):
        alone = channel.noise(m).of_sample(200)
        np.testing.assert_allclose(noise.variance(f)[i], alone.variance(f))
        assert noise.of_rows(i).n_samples == m
    assert noise == channel.noise(np.array([50, 80])).of_sample(200)
    assert noise != channel.noise(np.array([50, 80])).of_sample(300)
    assert hash(noise) == hash(channel.noise(np.array([50, 80])).of_sample(200))


# -- views: parts that look at several columns ----------------------------------------------------
def test_views_are_joint_codes_and_parities():
    records = np.array([[0, 1, 2], [1, 0, 3], [1, 1, 0]])
    views = Views([View.joint((0, 2), (2, 4)), View.parity((0, 1)), View.joint((2,), (4,))])
    for j, expected in enumerate(([2, 7, 4], [1, 1, 0], [2, 3, 0])):
        assert views.codes(records, np.full(3, j)).tolist() == expected
    assert views.codes(records, np.array([2, 0, 1])).tolist() == [2, 7, 0]


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_epsilon_over_whole_records_holds_for_parts_that_share_columns(epsilon):
    oracle = GRR(epsilon)
    views = [View.joint((0, 1), (2, 3)), View.joint((1,), (3,)), View.parity((0, 2))]
    parts = [oracle.channel(view.n_values) for view in views]
    mechanism = Several(parts, shares_over_2_64([2, 1, 1]), views)
    check_exact_epsilon_of(mechanism, records(2, 3, 2), epsilon)


def test_parts_of_one_kind_are_tallied_together():
    """The same counts, whether the parts share a mechanism or not."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (4000, 6))
    views = [View.joint((i, i + 1), (2, 2)) for i in range(5)] + [View.parity((0, 5))]
    channels = [GRR(1.0).channel(4), OUE(1.0).channel(4), SubsetSelection(0.5).channel(4)]
    parts = [channels[i] for i in (0, 1, 0, 2, 2)] + [GRR(1.0).channel(2)]
    mechanism = Several(parts, shares_over_2_64(np.ones(6)), views)
    reports = mechanism.check_reports(mechanism.privatize(codes, SecureCoins()))
    tally = mechanism.tally(reports)[None]
    for j, part in enumerate(parts):
        own = reports[reports[:, 0] == j, 1:][:, : sum(f.width or 1 for f in part.report_fields)]
        own = own[:, 0] if part.report_fields[0].width is None else own
        alone, asked = mechanism.tallies_on(tally, j)
        assert asked[0] == len(own)
        np.testing.assert_array_equal(alone[0], part.tally(part.check_reports(own)))


def test_collections_of_other_views_do_not_add_up():
    parts = [GRR(1.0).channel(4)] * 2
    one, other = (
        [View.joint(c, (2, 2)) for c in of] for of in (((0, 1), (1, 2)), ((0, 1), (0, 2)))
    )
    assert Several(parts, SHARES, one) == Several(parts, SHARES, one)
    assert Several(parts, SHARES, one) != Several(parts, SHARES, other)
    assert Several(parts, SHARES, one).configuration != Several(parts, SHARES, other).configuration
