"""Several parts a user: the design that draws them, epsilon over whole records, the allocation."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import optimize

from sklearn_ldp import GRR, OLH, OUE, HadamardResponse, SubsetSelection
from sklearn_ldp._core.mechanisms.coins import TWO_64, SecureCoins, SeededCoins
from sklearn_ldp._core.mechanisms.several import Several, shares_over_2_64, systematic_samples
from sklearn_ldp.oracles import minimax_bound
from sklearn_ldp.surveys._column_oracle import (
    best_n_sampled,
    budget_share,
    sampled_error,
    split_budget,
)
from sklearn_ldp.utils._checks import check_exact_epsilon_of
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

WEIGHTS = [[1, 1], [1, 2, 3], [100, 1, 1, 1], [1e-30, 1, 2], [1, 2, 3, 4, 5, 6], [1e9, 1e9, 1, 1]]


# -- which parts are drawn ------------------------------------------------------------------------
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_design_has_its_inclusion_probabilities_exactly(weights):
    for n_drawn in range(1, len(weights) + 1):
        shares = shares_over_2_64(weights, n_drawn)
        assert sum(shares) == n_drawn * TWO_64
        assert 1 <= min(shares) <= max(shares) <= TWO_64
        samples, ends = systematic_samples(shares)
        included = Counter()
        for sample, start, end in zip(samples, [0, *ends], ends, strict=False):
            assert len(set(sample)) == len(sample) == n_drawn
            assert end > start
            included.update(dict.fromkeys(sample, end - start))
        assert [included[j] for j in range(len(weights))] == shares


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # SciPy 1.15
def test_shares_are_in_proportion_up_to_the_cap():
    """The minimum of the sum of squares / share under the cap, by a solver that knows no form."""
    roots = np.array([5.0, 1, 2, 0.5, 1])
    for n_drawn in (1, 2, 3, 4):
        pis = np.array(shares_over_2_64(roots, n_drawn), dtype=float) / TWO_64
        start = np.full(5, n_drawn / 5)
        solved = optimize.minimize(
            lambda pi: np.sum(roots**2 / pi),
            start,
            bounds=[(1e-6, 1)] * 5,
            constraints={"type": "eq", "fun": lambda pi, n=n_drawn: pi.sum() - n},
            options={"ftol": 1e-13},
        )
        np.testing.assert_allclose(pis, solved.x, atol=1e-4)
    assert shares_over_2_64([1, 2, 3], 3) == [TWO_64] * 3
    assert shares_over_2_64([1, 3]) == shares_over_2_64([1, 3], 1) == [TWO_64 // 4, 3 * TWO_64 // 4]


# -- epsilon --------------------------------------------------------------------------------------
SHARES = shares_over_2_64([1, 2, 3], 2)


def several(oracles, shares=SHARES, sizes=(2, 3, 2)):
    pairs = zip(oracles, sizes, strict=True)
    return Several([oracle.channel(d) for oracle, d in pairs], shares).for_enumeration()


def records(*sizes):
    return list(product(*map(range, sizes)))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("oracles", [(GRR, GRR, GRR), (OUE, GRR, OUE)])
def test_epsilon_of_whole_records_is_exact(oracles, epsilon):
    """Two of three parts at half of epsilon: any two records, at most exp(epsilon), no less."""
    half = budget_share(epsilon, Fraction(1, 2))
    check_exact_epsilon_of(several([one(half) for one in oracles]), records(2, 3, 2), epsilon)


@pytest.mark.parametrize("budgets", [(0.3, 0.7), (0.5, 0.5), (1 / 3, 2 / 3)])
def test_budgets_of_all_parts_add_up(budgets):
    """All parts at budgets with the sum 1; two-attribute records."""
    parts = [OUE(budgets[0]).channel(2), GRR(budgets[1]).channel(3)]
    check_exact_epsilon_of(Several(parts, [TWO_64] * 2), records(2, 3), 1.0)


class _DrawsWhatIsTaken(Several):
    """Negative control: users with the last value of the first part draw anew, once."""

    def privatize(self, codes, coins):
        usual, other = (super(_DrawsWhatIsTaken, self).privatize(codes, coins) for _ in range(2))
        return np.where(((usual[:, 0] == 0) & (codes[:, 0] == 1))[:, None], other, usual)


@pytest.mark.parametrize(
    ("kind", "epsilon", "fault"),
    [
        (_DrawsWhatIsTaken, 0.5, "is exceeded"),
        (Several, 1.0, "is exceeded"),  # each part with the whole epsilon
        (Several, 0.5 * (1 + 1e-11), "is exceeded"),
        (Several, 0.5 * (1 - 1e-11), "wasted"),
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
MIXED = [Several(CHANNELS, shares_over_2_64([1, 2, 3, 4, 5], n)) for n in (2, 3, 5)]


@pytest.fixture(scope="module")
def codes():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, d, 5000) for d in SIZES])


@pytest.mark.parametrize(
    "mechanism",
    [Several(CHANNELS, shares_over_2_64([1, 2, 3, 4, 5])), *MIXED],
    ids=lambda one: str(one.n_drawn),
)
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


def test_reports_of_other_forms_are_refused(codes):
    mechanism = MIXED[0]
    reports = mechanism.privatize(codes[:50], SecureCoins())
    first = next(i for i, sample in enumerate(mechanism.samples) if sample[0] == 0)
    reports[:, 1:] = 0
    reports[:, 0] = first
    with pytest.raises(ValueError, match="expected"):  # an empty subset is no report
        mechanism.check_reports(np.where(np.arange(reports.shape[1]) == 0, 99, reports))
    for place, value, message in (
        ((0, 0), -1, r"a sample in \[0, "),
        ((0, 1), 2, r"integers in \[0, 1\]"),
        ((0, 2), 1, "zeros after the report on question 0"),
    ):
        spoilt = mechanism.privatize(codes[:50], SecureCoins())
        spoilt[0] = 0
        spoilt[0, 0] = first
        spoilt[place] = value
        with pytest.raises(ValueError, match=message):
            mechanism.check_reports(spoilt)
    with pytest.raises(ValueError, match="shape"):
        mechanism.check_reports(reports[:, :-1])


def test_tallies_that_cannot_be_are_refused(codes):
    mechanism = MIXED[0]
    tally = mechanism.tally(mechanism.privatize(codes, SecureCoins()))[None]
    for change in ([1, 0, 0, 0, 0], [5000, -5000, 0, 0, 0], [2**62, 2**62, 2**62, 2**62, 0]):
        spoilt = tally.copy()
        spoilt[0, :5] += change
        with pytest.raises(ValueError):  # noqa: PT011
            mechanism.check_tallies(spoilt, np.array([5000]))


def test_the_law_of_reports():
    mechanism = several([GRR(0.5), GRR(0.5), GRR(0.5)])
    law = exact_report_distribution(mechanism, (1, 2, 0))
    entropy = -sum(float(p) * np.log2(float(p)) for p in law.values())
    assert mechanism.report_entropy() == pytest.approx(entropy, rel=1e-9)
    agreement = sum(float(p) ** 2 for p in law.values())
    assert 2.0 ** -mechanism.report_entropy(order=2) >= agreement * (1 - 1e-12)


def test_a_collector_may_assign_the_sample():
    """Samples drawn as clients draw them, and reports given them, are `privatize`."""
    mechanism = several([GRR(0.5)] * 3, [TWO_64 // 2, TWO_64 // 4 * 3, TWO_64 // 4 * 3])
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
    for mechanism in MIXED[:1]:
        drawn = [
            mechanism.privatize(np.r_[np.full((50, 5), other), codes[:1]], SeededCoins(rng))
            for other, rng in ((0, np.random.default_rng(1)), (1, np.random.default_rng(1)))
        ]
        np.testing.assert_array_equal(drawn[0][-1], drawn[1][-1])


@pytest.mark.parametrize(
    "shares", [[TWO_64], [TWO_64, 1], [1, 1], [0, TWO_64], [2 * TWO_64, TWO_64]]
)
def test_shares_that_do_not_add_up_are_refused(shares):
    with pytest.raises(ValueError, match="a multiple of 2\\*\\*64"):
        Several([GRR(1.0).channel(2)] * 2, shares)


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

    def totals_at(epsilon):
        return np.full(20, minimax_bound(epsilon, size))

    found = [
        best_n_sampled(epsilon, np.ones(20), sizes, totals_at)
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
    assert shares_over_2_64(np.sqrt(weights * totals), 2) == [TWO_64] * 2


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


def test_the_best_number_of_columns_is_found_before_all_are_tried():
    """The search stops where the error is half as large again; all numbers are the reference."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        sizes = rng.integers(2, 60, size=rng.integers(2, 16))
        weights, epsilon = rng.uniform(0.01, 9, len(sizes)), float(np.exp(rng.uniform(-1, 3)))

        def totals_at(budget, sizes=sizes):
            return np.array([minimax_bound(budget, int(size)) for size in sizes])

        errors = [
            sampled_error(weights, sizes, totals_at(epsilon / n), n)
            for n in range(1, len(sizes) + 1)
        ]
        found = best_n_sampled(epsilon, weights, sizes, totals_at)
        assert errors[found - 1] == pytest.approx(min(errors), rel=1e-9)
