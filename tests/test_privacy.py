"""Epsilon, proved: the mechanisms enumerated as rational numbers, and the coins under them."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from estimators import ORACLES, each_way
from scipy import stats
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE, ProjectiveGeometryResponse, SubsetSelection
from sklearn_ldp._core.mechanisms.coins import (
    PROBABILITY_UNIT,
    Coins,
    CoinStreams,
    Octets,
    SecureCoins,
    SeededCoins,
    direct_threshold,
    exp_lower_bound,
    zero_bit_threshold,
)
from sklearn_ldp.utils._checks import (
    check_covariance,
    check_exact_epsilon,
    check_exact_support_probabilities,
    check_joint_support,
    check_unbiased_estimates,
)
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

EPSILONS = [0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("oracle", [GRR(), OUE(), OLH(hash_range=3), OLH(hash_range=4)], ids=repr)
def test_epsilon_is_exact(oracle, epsilon):
    """At most exp(epsilon), and no more than 1e-12 below it, for every report and every pair."""
    check_exact_epsilon(clone(oracle).set_params(epsilon=epsilon))


DirectChannel = type(GRR().channel(2))


class _Overspending(GRR):
    """Negative control: spends one part in 10**11 more than its epsilon."""

    factor = 1 + 1e-11

    def _make_mechanism(self, domain):
        d = domain.size
        return DirectChannel(d, direct_threshold(self.epsilon * self.factor, d))


class _Wasteful(_Overspending):
    """Negative control: spends one part in 10**11 less than its epsilon."""

    factor = 1 - 1e-11


class _LeakyChannel(DirectChannel):
    def privatize(self, codes, coins):
        reports = super().privatize(codes, coins)
        return np.where(codes == 0, 0, reports)  # the first category is never randomised


class _Leaky(GRR):
    """Negative control: reveals one of the categories."""

    def _make_mechanism(self, domain):
        return _LeakyChannel(domain.size, direct_threshold(self.epsilon, domain.size))


class _Biased(GRR):
    """Negative control: the estimator's p is not exactly that of the coins."""

    def _make_mechanism(self, domain):
        channel = super()._make_mechanism(domain)
        channel.p += Fraction(1, PROBABILITY_UNIT)
        return channel


@pytest.mark.parametrize(
    ("tampered", "check", "fault"),
    [
        (_Overspending(), check_exact_epsilon, "epsilon is exceeded"),
        (_Wasteful(), check_exact_epsilon, "privacy budget is wasted"),
        (_Leaky(), check_exact_epsilon, "a report reveals its value"),
        (_Biased(), check_exact_support_probabilities, "is wrong: the mechanism's reports"),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_a_tampered_mechanism_is_found(tampered, check, fault):
    with pytest.raises(AssertionError, match=fault):
        check(tampered)


@pytest.mark.parametrize("oracle", each_way(ORACLES), ids=repr)
@pytest.mark.parametrize("d", [2, 3, 5])
def test_support_probabilities_are_exact_over_other_domains(oracle, d, monkeypatch):
    monkeypatch.setattr("sklearn_ldp.utils._checks._SMALL", d)
    check_exact_support_probabilities(oracle)
    check_unbiased_estimates(oracle)
    check_joint_support(oracle)
    check_covariance(oracle)


def test_exact_distribution_of_grr_is_the_formula():
    channel = GRR(epsilon=1.0).channel(3)
    distribution = exact_report_distribution(channel, code=1)
    assert distribution == {(0,): channel.q, (1,): channel.p, (2,): channel.q}
    assert float(channel.p) == pytest.approx(np.e / (np.e + 2), rel=1e-15)


# -- thresholds -------------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [1e-6, *EPSILONS, 43.0, 100.0])
def test_exp_lower_bound_is_below_and_tight(epsilon):
    with localcontext() as context:
        context.prec = 200
        exact = Fraction(Decimal(epsilon).exp())
    bound = exp_lower_bound(epsilon)
    assert bound < exact < bound * (1 + Fraction(1, 10**57))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("d", [2, 7, 1024])
def test_thresholds_are_the_largest_private_ones(epsilon, d):
    bound = exp_lower_bound(epsilon)
    keep = direct_threshold(epsilon, d)
    assert Fraction(keep * (d - 1), PROBABILITY_UNIT - keep) <= bound
    assert Fraction((keep + 1) * (d - 1), PROBABILITY_UNIT - keep - 1) > bound
    flip = zero_bit_threshold(epsilon)
    assert (
        Fraction(PROBABILITY_UNIT - flip, flip)
        <= bound
        < Fraction(PROBABILITY_UNIT - flip + 1, flip - 1)
    )


def test_a_huge_epsilon_stays_within_the_resolution():
    assert direct_threshold(1000.0, 10) == PROBABILITY_UNIT - 1
    assert zero_bit_threshold(1000.0) == 1
    check_exact_epsilon(GRR(epsilon=1000.0))
    assert direct_threshold(1e300, 10) == PROBABILITY_UNIT - 1


@pytest.mark.parametrize("oracle", [GRR, OUE, OLH, SubsetSelection, ProjectiveGeometryResponse])
def test_an_epsilon_below_the_resolution_is_refused(oracle):
    with pytest.raises(ValueError, match=r"epsilon.*must be large enough.*Got 1e-25"):
        oracle(epsilon=1e-25, categories=2).privatize([0, 1])


# -- coins ------------------------------------------------------------------------------------
class _FixedBytes(Coins):
    """Coins from a list of bytes, which must be used up exactly."""

    def __init__(self, *content):
        self.content = list(content)

    def bytes(self, n):
        taken, self.content = self.content[:n], self.content[n:]
        assert len(taken) == n
        return np.array(taken, dtype=np.uint8)


@pytest.mark.parametrize(
    "threshold", [1, 2**56, 2**56 + 1, 2**63, 2**63 + 12345, PROBABILITY_UNIT - 1]
)
@pytest.mark.parametrize("word_offset", [-1, 0, 1])
def test_bernoulli_compares_whole_words(threshold, word_offset):
    word = min(max(threshold + word_offset, 0), PROBABILITY_UNIT - 1)
    low_bytes = list((word & (2**56 - 1)).to_bytes(7, "little"))
    is_tie = word >> 56 == threshold >> 56
    coins = _FixedBytes(word >> 56, *(low_bytes if is_tie else []))
    assert coins.bernoulli(threshold, 1)[0] == (word < threshold)
    assert coins.content == []


@pytest.mark.parametrize(
    "threshold", [1, 2**56, PROBABILITY_UNIT // 3, 2**63, 2**63 + 1, PROBABILITY_UNIT - 1]
)
def test_eight_coins_at_once_are_exact(threshold):
    """Each outcome has its exact share of all 512-bit numbers; 16 bits say the same, or a tie."""
    law = Octets(threshold)

    def outcomes(numbers):
        digits = np.frombuffer(b"".join(n.to_bytes(64, "big") for n in numbers), dtype=np.uint8)
        return law.outcomes_of(digits.reshape(-1, 64))

    words = [word << 496 for word in range(1 << 16)]
    lowest, highest = outcomes(words), outcomes(word + (1 << 496) - 1 for word in words)
    decided = law.of_word != 256
    np.testing.assert_array_equal(decided, lowest == highest)
    np.testing.assert_array_equal(law.of_word[decided], lowest[decided])
    read = np.array([[word >> 8, word & 255] for word in range(1 << 16)], dtype=np.uint8)
    np.testing.assert_array_equal(law.of_pair[read.view("<u2").ravel()], law.of_word)
    start = 0
    for outcome, bits in enumerate(product([0, 1], repeat=8)):
        share = threshold ** sum(bits) * (PROBABILITY_UNIT - threshold) ** (8 - sum(bits))
        assert outcomes([start, start + share - 1]).tolist() == [outcome, outcome]
        start += share
    assert start == 1 << 512


def test_ties_of_eight_coins_take_more_bytes():
    """Words in which a sum of chances lies are decided by the whole number of 512 bits."""
    threshold, n = 2**56 + 12345, 1 << 16
    law = Octets(threshold)
    tie = int(np.flatnonzero(law.of_word == 256)[0])
    end = (PROBABILITY_UNIT - threshold) ** 8  # below it, all eight are False
    for number, expected in ((end - 1, [False] * 8), (end, [False] * 7 + [True])):
        first, *rest = number.to_bytes(64, "big")
        assert first * 256 + rest[0] == tie
        coins = _FixedBytes(*[0, 0] * (n // 8 - 1), first, *rest)
        drawn = coins.bernoulli(threshold, n)
        assert coins.content == []
        assert not drawn[:-8].any()
        assert drawn[-8:].tolist() == expected


@pytest.mark.parametrize("high", [1, 2, 3, 5, 100, 128, 200, 255, 256])
def test_integers_are_exactly_uniform_over_all_bytes(high):
    accepted = 256 // high * high
    # Every byte once, and for each rejected one a byte that is not.
    coins = _FixedBytes(*range(256), *([0] * (256 - accepted)))
    draws = coins.integers(high, 256)
    counts = np.bincount(draws, minlength=high)
    counts[0] -= 256 - accepted
    assert np.all(counts == accepted // high)


def test_a_choice_compares_whole_words():
    """Each outcome has the words from the end of the one before to its own."""
    bounds = [1, 2**63, PROBABILITY_UNIT]
    for word, outcome in ((0, 0), (1, 1), (2**63 - 1, 1), (2**63, 2), (PROBABILITY_UNIT - 1, 2)):
        coins = _FixedBytes(*word.to_bytes(8, "little"))
        assert coins.choice(bounds, 1).tolist() == [outcome]
        assert coins.content == []
    assert SecureCoins().choice([PROBABILITY_UNIT], 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("high", [257, 1000, 65536, 65537, 10**6, 2**31, 2**40 + 7, 2**63])
def test_integers_of_wide_ranges(high):
    draws = SeededCoins(np.random.default_rng(0)).integers(high, 20000)
    assert draws.dtype == np.int64
    assert 0 <= draws.min() <= draws.max() < high
    # Error rate 1e-6: Kolmogorov-Smirnov against the uniform law.
    assert stats.kstest((draws + 0.5) / high, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("coins", [SecureCoins(), SeededCoins(np.random.default_rng(0))])
def test_bernoulli_has_its_probability(coins):
    """Two-sided binomial test at 1e-9; a threshold off by 1 % is found."""
    threshold, n = direct_threshold(1.0, 4), 10**6
    successes = int(coins.bernoulli(threshold, n).sum())
    assert stats.binomtest(successes, n, threshold / PROBABILITY_UNIT).pvalue > 1e-9
    assert stats.binomtest(successes, n, 1.01 * threshold / PROBABILITY_UNIT).pvalue < 1e-9


def test_streams_are_secure_only_without_a_seed():
    assert isinstance(CoinStreams(None).block(3), SecureCoins)
    for seed in (0, np.random.RandomState(0), np.random.default_rng(0)):
        streams = CoinStreams(seed)
        assert isinstance(streams.block(3), SeededCoins)
        np.testing.assert_array_equal(streams.block(3).bytes(99), streams.block(3).bytes(99))
        assert not np.array_equal(streams.block(3).bytes(99), streams.block(4).bytes(99))


def test_no_global_generator_is_read_or_moved():
    np.random.seed(0)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    for oracle in (GRR, OUE, OLH):
        oracle(categories=3).fit([0, 1, 2])
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("oracle", each_way(ORACLES), ids=repr)
def test_coins_do_not_depend_on_the_values(oracle):
    """A user's report in a seeded run is the same whatever the others' values are."""
    oracle = clone(oracle).set_params(categories=9, random_state=0)
    reports = [oracle.privatize(np.r_[np.full(50, other), 4]) for other in range(9)]
    for report in reports[1:]:
        np.testing.assert_array_equal(report[-1], reports[0][-1])


@pytest.mark.parametrize("oracle", each_way(ORACLES), ids=str)
@pytest.mark.parametrize("epsilon", [0.5, pytest.param(3.0, marks=pytest.mark.slow)])
def test_the_entropy_of_reports_is_that_of_their_law(oracle, epsilon):
    """By enumeration, for every value; the law of the other epsilon is the negative control."""

    def entropies(epsilon):
        channel = clone(oracle).set_params(epsilon=epsilon).channel(4).for_enumeration()
        laws = [exact_report_distribution(channel, code) for code in range(4)]
        exact = [-sum(float(p) * math.log2(p) for p in law.values()) for law in laws]
        return channel.report_entropy(), exact

    stated, exact = entropies(epsilon)
    np.testing.assert_allclose(min(exact), stated, rtol=1e-9)
    assert abs(entropies(epsilon + 1)[0] - exact[0]) > 1e-3
