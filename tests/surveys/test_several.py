"""One or several parts a user: their design, epsilon over records, their noise, the allocation."""

from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import combinations, combinations_with_replacement, permutations, product

import numpy as np
import pytest
from estimators import slow_but
from one_bit import one_bit
from scipy import optimize
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE, HadamardResponse, SubsetSelection
from sklearn_ldp._core.mechanisms.coins import PROBABILITY_UNIT, SecureCoins, SeededCoins
from sklearn_ldp._core.mechanisms.several import (
    QuestionView,
    SampledQuestions,
    Views,
    shares_over_2_64,
    systematic_samples,
)
from sklearn_ldp.oracles import minimax_bound
from sklearn_ldp.surveys._column_oracle import (
    best_n_sampled,
    budget_share,
    minimum_variance,
    sampled_error,
    split_budget,
)
from sklearn_ldp.utils._checks import check_exact_epsilon_of
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

WEIGHTS = [[1], [1, 1], [1, 2, 3], [100, 1, 1, 1], [1e-30, 1, 2], [1e9, 1e9, 1, 1]]
WEIGHTS += [(np.arange(1, 12) ** 2.5).tolist()]


# -- which parts are drawn ------------------------------------------------------------------------
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_design_has_its_inclusion_probabilities_exactly(weights):
    for n_drawn in range(1, len(weights) + 1):
        shares = shares_over_2_64(weights, n_drawn)
        assert sum(shares) == n_drawn * PROBABILITY_UNIT
        assert 1 <= min(shares) <= max(shares) <= PROBABILITY_UNIT
        samples, ends = systematic_samples(shares)
        included = Counter()
        for sample, start, end in zip(samples, [0, *ends], ends, strict=False):
            assert len(set(sample)) == len(sample) == n_drawn
            assert end > start
            included.update(dict.fromkeys(sample, end - start))
        assert [included[j] for j in range(len(weights))] == shares
    shares = shares_over_2_64(weights)
    assert min(shares) >= 1 << 28
    np.testing.assert_allclose(
        [s / PROBABILITY_UNIT for s in shares], weights / np.sum(weights), atol=1e-9
    )
    assert shares == shares_over_2_64(np.nextafter(weights, 0))


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # SciPy 1.15
def test_shares_are_in_proportion_up_to_the_cap():
    """The minimum of the sum of squares / share under the cap, by a solver that knows no form."""
    roots = np.array([5.0, 1, 2, 0.5, 1])
    for n_drawn in (1, 2, 3, 4):
        pis = np.array(shares_over_2_64(roots, n_drawn), dtype=float) / PROBABILITY_UNIT
        start = np.full(5, n_drawn / 5)
        solved = optimize.minimize(
            lambda pi: np.sum(roots**2 / pi),
            start,
            bounds=[(1e-6, 1)] * 5,
            constraints={"type": "eq", "fun": lambda pi, n=n_drawn: pi.sum() - n},
            options={"ftol": 1e-13},
        )
        np.testing.assert_allclose(pis, solved.x, atol=1e-4)
    assert shares_over_2_64([1, 2, 3], 3) == [PROBABILITY_UNIT] * 3
    assert (
        shares_over_2_64([1, 3])
        == shares_over_2_64([1, 3], 1)
        == [PROBABILITY_UNIT // 4, 3 * PROBABILITY_UNIT // 4]
    )


# -- epsilon --------------------------------------------------------------------------------------
SHARES = shares_over_2_64([1, 2, 3], 2)


def several(oracles, shares=SHARES):
    pairs = zip(oracles, (2, 3, 2), strict=False)
    return SampledQuestions([oracle.channel(d) for oracle, d in pairs], shares).for_enumeration()


def records(*sizes):
    return list(product(*map(range, sizes)))


@pytest.mark.parametrize("epsilon", slow_but([1.0], [0.1, 1.0, 4.0]))
@pytest.mark.parametrize(
    "oracles",
    [
        (OLH(hash_range=3), OUE()),
        (SubsetSelection(), OLH(hash_range=4)),
        (GRR(), GRR(), GRR()),
        (OUE(), GRR(), GRR()),
    ],
    ids=repr,
)
def test_epsilon_of_whole_records_is_exact(oracles, epsilon):
    """One of two parts, or two of three at half of epsilon: at most exp(epsilon), and no less.

    Any two records, which may differ in all columns.
    """
    n_drawn = len(oracles) - 1
    part = budget_share(epsilon, Fraction(1, n_drawn))
    oracles = [clone(one).set_params(epsilon=part) for one in oracles]
    mechanism = several(oracles, shares_over_2_64([1, 2, 3][: len(oracles)], n_drawn))
    check_exact_epsilon_of(mechanism, records(*(2, 3, 2)[: n_drawn + 1]), epsilon)


@pytest.mark.parametrize("budgets", [(0.3, 0.7), (0.5, 0.5), (1 / 3, 2 / 3)])
def test_budgets_of_all_parts_add_up(budgets):
    """All parts at budgets with the sum 1; two-attribute records."""
    parts = [OUE(budgets[0]).channel(2), GRR(budgets[1]).channel(3)]
    check_exact_epsilon_of(SampledQuestions(parts, [PROBABILITY_UNIT] * 2), records(2, 3), 1.0)


class _AnswersAll(SampledQuestions):
    """Negative control: reports on all parts, each with the whole epsilon."""

    def privatize(self, codes, coins):
        own = [part.privatize(codes[:, j], coins) for j, part in enumerate(self.mechanisms)]
        return np.column_stack(own)


class _DrawsWhatIsTaken(SampledQuestions):
    """Negative control: users with the last value of the first part draw anew, once."""

    def privatize(self, codes, coins):
        usual, other = (super(_DrawsWhatIsTaken, self).privatize(codes, coins) for _ in range(2))
        return np.where(((usual[:, 0] == 0) & (codes[:, 0] == 1))[:, None], other, usual)


@pytest.mark.parametrize(
    ("kind", "epsilon", "fault"),
    [
        (_DrawsWhatIsTaken, 0.5, "is exceeded"),
        (_AnswersAll, 1.0, "is exceeded"),
        (SampledQuestions, 1.0, "is exceeded"),  # each part with the whole epsilon
        (SampledQuestions, 0.5 * (1 + 1e-11), "is exceeded"),
        (SampledQuestions, 0.5 * (1 - 1e-11), "wasted"),
    ],
)
def test_a_tampered_collection_is_found(kind, epsilon, fault):
    mechanism = kind([GRR(epsilon).channel(2)] * 3, SHARES)
    with pytest.raises(AssertionError, match=fault):
        check_exact_epsilon_of(mechanism, records(2, 2, 2), 1.0)


def test_parts_of_a_budget_do_not_exceed_it():
    for epsilon in (0.1, 1.0, 1.7, 3.3):
        for n in range(1, 40):
            part = budget_share(epsilon, Fraction(1, n))
            assert n * Fraction(part) <= Fraction(epsilon) < n * Fraction(np.nextafter(part, 9))
    # The negative control: plain division rounds up for some.
    assert any(n * Fraction(1.7 / n) > Fraction(1.7) for n in range(1, 40))


# -- reports --------------------------------------------------------------------------------------
PARTS = [GRR(1.0), OUE(1.0), OLH(1.0), HadamardResponse(1.0), SubsetSelection(0.3)]
SIZES = (2, 9, 17, 5, 30)
CHANNELS = [oracle.channel(d) for oracle, d in zip(PARTS, SIZES, strict=True)]
MIXED = [SampledQuestions(CHANNELS, shares_over_2_64([1, 2, 3, 4, 5], n)) for n in (1, 2, 3, 5)]


@pytest.fixture(scope="module")
def codes():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, d, 5000) for d in SIZES])


@pytest.mark.parametrize("mechanism", MIXED, ids=lambda one: str(one.n_drawn))
def test_tallies_are_those_of_the_parts(mechanism, codes):
    reports = mechanism.check_reports(mechanism.privatize(codes, SecureCoins()))
    assert reports.shape == (5000, len(mechanism.report_fields))
    for i, field in enumerate(mechanism.report_fields):
        assert 0 <= reports[:, i].min() <= reports[:, i].max() < field.n_values
    tally = mechanism.tally(reports)
    np.testing.assert_array_equal(
        tally, mechanism.tally(reports[:7]) + mechanism.tally(reports[7:])
    )
    mechanism.check_tallies(tally[None], np.array([5000]))
    decoded = mechanism.decode(tally[None])
    pis = mechanism.probabilities
    order = np.argsort(codes[:, 0], kind="stable")
    for j, part in enumerate(mechanism.mechanisms):
        own = mechanism.reports_on(reports, j)
        np.testing.assert_array_equal(part.tally(own), mechanism.tallies_on(tally, j)[0])
        asked = np.ones(5000, dtype=bool)
        if mechanism.public_part is not None:
            asked = np.array([j in mechanism.samples[k] for k in reports[:, 0]])
        places = np.where(asked, np.cumsum(asked) - 1, -1)[order]
        np.testing.assert_array_equal(
            mechanism.reports_on(reports[order], j), own[places[places >= 0]]
        )
    for j, part in enumerate(mechanism.mechanisms):
        support, asked = mechanism.decoded_on(decoded, j)
        # Error rate 1e-9 for each.
        assert abs(asked[0] - 5000 * pis[j]) <= 6.2 * np.sqrt(5000 * pis[j] * (1 - pis[j]))
        values, noise = part.estimate_decoded(support, asked)
        truth = np.bincount(codes[:, j], minlength=SIZES[j]) / 5000
        spread = np.sqrt(noise.variance(truth) + truth / asked[0])
        assert np.all(np.abs(values[0] - truth) < 6.5 * spread)
    if mechanism.public_part is not None:
        counts = np.bincount(reports[:, 0], minlength=len(mechanism.samples))
        chances = mechanism.sample_probabilities
        assert np.all(np.abs(counts - 5000 * chances) <= 6.2 * np.sqrt(5000 * chances))
        assert mechanism.public_part.of_reports(reports).tolist() == reports[:, 0].tolist()


@pytest.mark.parametrize(("mechanism", "what"), [(MIXED[0], "part"), (MIXED[1], "sample")])
def test_reports_of_other_forms_are_refused(mechanism, what, codes):
    reports = mechanism.privatize(codes[:50], SecureCoins())
    first = next(i for i, sample in enumerate(mechanism.samples) if sample[0] == 0)
    for place, value, message in (
        ((0, 0), -1, rf"a {what} in \[0, "),
        ((0, 0), len(mechanism.samples), rf"a {what} in \[0, "),
        ((0, 1), 2, r"integers in \[0, 1\]"),
        ((0, 2), 1, "zeros after the report on question 0"),
    ):
        spoilt = reports.copy()
        spoilt[0] = 0
        spoilt[0, 0] = first
        spoilt[place] = value
        with pytest.raises(ValueError, match=message):
            mechanism.check_reports(spoilt)
    with pytest.raises(ValueError, match="shape"):
        mechanism.check_reports(reports[:, :-1])


def test_tallies_that_cannot_be_are_refused(codes):
    mechanism = MIXED[1]
    tally = mechanism.tally(mechanism.privatize(codes, SecureCoins()))[None]
    for change in ([1, 0, 0, 0, 0], [5000, -5000, 0, 0, 0], [2**62, 2**62, 2**62, 2**62, 0]):
        spoilt = tally.copy()
        spoilt[0, :5] += change
        with pytest.raises(ValueError):  # noqa: PT011
            mechanism.check_tallies(spoilt, np.array([5000]))


def test_the_law_of_reports():
    one, two = several([GRR(1.0)] * 2, shares_over_2_64([1, 3])), several([GRR(0.5)] * 3)
    law, (first, second) = exact_report_distribution(one, (1, 2)), one.mechanisms
    assert law[0, 1] == Fraction(1, 4) * first.p
    assert law[1, 0] == Fraction(3, 4) * second.q
    assert sum(chance for report, chance in law.items() if report[0] == 1) == Fraction(3, 4)
    for mechanism, record in ((one, (1, 2)), (two, (1, 2, 0))):
        law = exact_report_distribution(mechanism, record)
        entropy = -sum(float(p) * np.log2(float(p)) for p in law.values())
        assert mechanism.report_entropy() == pytest.approx(entropy, rel=1e-9)
        agreement = sum(float(p) ** 2 for p in law.values())
        assert 2.0 ** -mechanism.report_entropy(order=2) >= agreement * (1 - 1e-12)


def test_a_collector_may_assign_the_sample():
    """Samples drawn as clients draw them, and reports given them, are `privatize`."""
    mechanism = several(
        [GRR(0.5)] * 3,
        [PROBABILITY_UNIT // 2, PROBABILITY_UNIT // 4 * 3, PROBABILITY_UNIT // 4 * 3],
    )
    public = mechanism.public_part
    drawn = public.draw(np.arange)
    shares = np.bincount(drawn, minlength=public.n_values) / len(drawn)
    np.testing.assert_allclose(shares, mechanism.sample_probabilities)
    np.testing.assert_allclose(public.shares, mechanism.sample_probabilities)
    total = Counter()
    for sample, share in enumerate(shares.tolist()):

        class _Assigned:
            def privatize(self, codes, coins, sample=sample):
                return public.privatize(codes, np.full(len(codes), sample), coins)

        for report, chance in exact_report_distribution(_Assigned(), (1, 2, 0)).items():
            total[report] += Fraction(share) * chance
    assert total == exact_report_distribution(mechanism, (1, 2, 0))


def test_coins_do_not_depend_on_the_values(codes):
    drawn = [
        MIXED[1].privatize(np.r_[np.full((50, 5), other), codes[:1]], SeededCoins(rng))
        for other, rng in ((0, np.random.default_rng(1)), (1, np.random.default_rng(1)))
    ]
    np.testing.assert_array_equal(drawn[0][-1], drawn[1][-1])


@pytest.mark.parametrize(
    "shares",
    [
        [PROBABILITY_UNIT],
        [PROBABILITY_UNIT, 1],
        [1, 1],
        [0, PROBABILITY_UNIT],
        [2 * PROBABILITY_UNIT, PROBABILITY_UNIT],
    ],
)
def test_shares_that_do_not_add_up_are_refused(shares):
    with pytest.raises(ValueError, match="a multiple of 2\\*\\*64"):
        SampledQuestions([GRR(1.0).channel(2)] * 2, shares)


def test_mechanisms_are_compared_by_their_parts():
    one = MIXED[0]
    again = SampledQuestions(
        [part.channel(d) for part, d in zip(PARTS, SIZES, strict=True)], one.shares
    )
    assert again == one
    assert again.configuration == one.configuration
    for other in (
        SampledQuestions(again.mechanisms, shares_over_2_64([1, 2, 3, 4, 6])),
        SampledQuestions([GRR(1.1).channel(2), *again.mechanisms[1:]], again.shares),
    ):
        assert other != one
        assert other.configuration != one.configuration


def test_a_part_need_not_be_a_channel():
    mechanism = SampledQuestions(
        [GRR(1.0).channel(2), one_bit(1.0, 5).mechanism], shares_over_2_64([1, 3])
    )
    check_exact_epsilon_of(mechanism, records(2, 5), 1.0)
    tally = mechanism.tally(mechanism.privatize(np.zeros((100, 2), dtype=int), SecureCoins()))
    own, asked = mechanism.tallies_on(mechanism.decode(tally[None]), 1)
    assert own.sum() == asked


# -- noise ----------------------------------------------------------------------------------------
def variances_of_all_samples(values, m, matrix):
    """Covariances of the answers among m of the users, over all equally likely choices."""
    eye = np.eye(3)
    answers = [
        matrix @ eye[list(np.array(values)[list(chosen)])].mean(axis=0)
        for chosen in combinations(range(len(values)), m)
    ]
    return np.cov(np.array(answers).T, bias=True)


@pytest.mark.parametrize("m", [1, 2, 4, 6, 7])
def test_the_sampling_term_by_enumeration(m):
    """The added covariance is that of all ways to choose m of 7 users; of all 7 it is 0."""
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
    assert channel.noise(1).of_sample(1).curvature == 0
    ratio = noise.slope / noise.null_variance
    assert ratio == pytest.approx(noise.growth / noise.std**2)


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
    views = Views(
        [
            QuestionView.joint((0, 2), (2, 4)),
            QuestionView.parity((0, 1)),
            QuestionView.joint((2,), (4,)),
        ]
    )
    for j, expected in enumerate(([2, 7, 4], [1, 1, 0], [2, 3, 0])):
        assert views.codes(records, np.full(3, j)).tolist() == expected
    assert views.codes(records, np.array([2, 0, 1])).tolist() == [2, 7, 0]


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_epsilon_over_whole_records_holds_for_parts_that_share_columns(epsilon):
    oracle = GRR(epsilon)
    views = [
        QuestionView.joint((0, 1), (2, 3)),
        QuestionView.joint((1,), (3,)),
        QuestionView.parity((0, 2)),
    ]
    parts = [oracle.channel(view.n_values) for view in views]
    mechanism = SampledQuestions(parts, shares_over_2_64([2, 1, 1]), views)
    check_exact_epsilon_of(mechanism, records(2, 3, 2), epsilon)


def test_parts_of_one_kind_are_tallied_together():
    """The same counts, whether the parts share a mechanism or not."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (4000, 6))
    views = [QuestionView.joint((i, i + 1), (2, 2)) for i in range(5)] + [
        QuestionView.parity((0, 5))
    ]
    channels = [GRR(1.0).channel(4), OUE(1.0).channel(4), SubsetSelection(0.5).channel(4)]
    parts = [channels[i] for i in (0, 1, 0, 2, 2)] + [GRR(1.0).channel(2)]
    mechanism = SampledQuestions(parts, shares_over_2_64(np.ones(6)), views)
    reports = mechanism.check_reports(mechanism.privatize(codes, SecureCoins()))
    tally = mechanism.tally(reports)[None]
    for j, part in enumerate(parts):
        own = reports[reports[:, 0] == j, 1:][:, : sum(f.width or 1 for f in part.report_fields)]
        own = own[:, 0] if part.report_fields[0].width is None else own
        alone, asked = mechanism.tallies_on(tally, j)
        assert asked[0] == len(own)
        np.testing.assert_array_equal(alone[0], part.tally(part.check_reports(own)))


def test_collections_of_other_views_do_not_add_up():
    parts, shares = [GRR(1.0).channel(4)] * 2, shares_over_2_64([1, 3])
    one, other = (
        [QuestionView.joint(c, (2, 2)) for c in of] for of in (((0, 1), (1, 2)), ((0, 1), (0, 2)))
    )
    assert SampledQuestions(parts, shares, one) == SampledQuestions(parts, shares, one)
    assert SampledQuestions(parts, shares, one) != SampledQuestions(parts, shares, other)
    assert (
        SampledQuestions(parts, shares, one).configuration
        != SampledQuestions(parts, shares, other).configuration
    )


# -- allocation -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("size", "best"),
    [
        (2, [1, 1, 1, 2, 3, 4, 5, 6, 9]),
        (5, [1, 1, 1, 1, 2, 2, 3, 4, 6]),
        (20, [1, 1, 1, 1, 1, 2, 2, 3, 4]),
        (100, [1, 1, 1, 1, 1, 1, 1, 2, 3]),
    ],
)
def test_the_best_number_of_columns(size, best):
    """Of 20 columns; the formula of METHODS is that of uniform frequencies."""
    sizes = np.full(20, size)
    total_at = [partial(minimum_variance, n_categories=size)] * 20
    found = [
        best_n_sampled(epsilon, np.ones(20), sizes, total_at)
        for epsilon in (0.5, 1, 2, 4, 6, 8, 10, 14, 20)
    ]
    assert found == best
    # It is 1 if the noise of the reports alone counts, at any epsilon.
    of_reports = [20 / s * minimax_bound(20 / s, size) for s in range(1, 21)]
    assert np.argmin(of_reports) == 0


def test_the_expected_error_is_the_formula():
    weights, sizes, totals = np.array([1.0, 2]), np.array([2, 10]), np.array([3.0, 40])
    pis = np.sqrt(weights * totals) / np.sqrt(weights * totals).sum()
    expected = np.sum(weights * (totals / pis + (1 - 1 / sizes) * (1 / pis - 1)))
    assert sampled_error(weights, sizes, totals, 1) == pytest.approx(expected)
    # The noise of the reports alone is (sum of roots)^2.
    assert np.sum(weights * totals / pis) == pytest.approx(np.sqrt(weights * totals).sum() ** 2)
    assert sampled_error(weights, sizes, totals, 2) == pytest.approx(np.sum(weights * totals))
    assert shares_over_2_64(np.sqrt(weights * totals), 2) == [PROBABILITY_UNIT] * 2


@pytest.mark.parametrize(
    ("sizes", "weights", "epsilon"),
    [((2, 5, 20), (1, 1, 1), 1.0), ((2, 2, 50), (1, 5, 0.1), 3.0), ((2, 2), (1, 1), 0.3)],
)
def test_the_split_of_the_budget_is_the_best(sizes, weights, epsilon):
    """Within 1e-4 of a general optimiser's, and no budget is overspent."""
    weights = np.array(weights, dtype=float)
    total_at = [lambda x, d=d: minimax_bound(x, d) for d in sizes]

    def error(budgets):
        return sum(w * at(x) for w, at, x in zip(weights, total_at, budgets, strict=True))

    def of_logits(logits):
        shares = np.exp(logits - logits.max())
        return np.log(error(epsilon * shares / shares.sum()))

    budgets = split_budget(epsilon, weights, total_at)
    assert sum(map(Fraction, budgets)) <= Fraction(epsilon)
    assert sum(budgets) == pytest.approx(epsilon, rel=1e-12)
    best = optimize.minimize(of_logits, np.zeros(len(sizes)), method="Nelder-Mead")
    assert error(budgets) <= np.exp(best.fun) * (1 + 1e-4)
    # A rounding error in the variances does not change it.
    moved = [lambda x, at=at: at(x) * (1 + 1e-15) for at in total_at]
    assert split_budget(epsilon, weights, moved) == budgets


ENDLESS = [((4, 3), 1.0), ((2, 2, 10), 2.0), ((4, 10, 10), 3.0), ((5, 5, 8), 4.0), ((4, 5), 1.7)]
GRID = [*product(combinations_with_replacement((2, 3, 5, 8), 2), (0.5, 1.0, 2.0, 4.0)), *ENDLESS]


def test_the_split_of_the_budget_always_ends(monkeypatch):
    """Also where the best oracle changes, so that V is not convex; and no exchange improves it."""
    calls, argmin = [], np.argmin

    def counted(array):
        calls.append(1)
        assert len(calls) < 500, "the budget is exchanged for ever"
        return argmin(array)

    monkeypatch.setattr(np, "argmin", counted)
    for sizes, epsilon in GRID:
        calls.clear()
        total_at = [partial(minimum_variance, n_categories=d) for d in sizes]
        budgets = split_budget(epsilon, np.ones(len(sizes)), total_at)
        assert sum(map(Fraction, budgets)) <= Fraction(epsilon)
        error = sum(at(x) for at, x in zip(total_at, budgets, strict=True))
        for to, since in permutations(range(len(sizes)), 2):
            moved = np.array(budgets)
            moved[[to, since]] += epsilon / 1024, -epsilon / 1024
            if moved.min() > 0:
                other = sum(at(x) for at, x in zip(total_at, moved, strict=True))
                assert other > error * (1 - 1e-9)


def test_the_best_number_of_columns_is_found_before_all_are_tried():
    """The search stops where the error is half as large again; all numbers are the reference."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        sizes = rng.integers(2, 60, size=rng.integers(2, 16))
        weights, epsilon = rng.uniform(0.01, 9, len(sizes)), float(np.exp(rng.uniform(-1, 3)))
        total_at = [partial(minimax_bound, n_categories=int(size)) for size in sizes]
        errors = [
            sampled_error(weights, sizes, np.array([at(epsilon / n) for at in total_at]), n)
            for n in range(1, len(sizes) + 1)
        ]
        found = best_n_sampled(epsilon, weights, sizes, total_at)
        assert errors[found - 1] == pytest.approx(min(errors), rel=1e-9)
