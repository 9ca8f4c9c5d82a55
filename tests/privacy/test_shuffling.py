"""What a shuffle is worth: never less than the exact divergence of any two data sets."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from estimators import ORACLES
from one_bit import one_bit
from random_question import RandomQuestion
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    SUE,
    ColumnOracle,
    HadamardResponse,
    MarginalOracle,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp.privacy import local_epsilon, shuffled_epsilon
from sklearn_ldp.privacy._shuffling import _blankets, _delta
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

# epsilon' at delta 1e-8, a million users and 1,024 categories, as bounds that were computed
# elsewhere, with values that do not lie on the lattice, so that they are up to 2.4 % larger.
ELSEWHERE = {
    GRR: [0.00009, 0.00025, 0.00102, 0.00951],
    SUE: [0.00152, 0.00366, 0.01013, 0.03989],
    OUE: [0.00151, 0.00354, 0.00908, 0.03138],
    OLH: [0.00148, 0.00349, 0.00919, 0.03133],
    HadamardResponse: [0.00151, 0.00354, 0.00908, 0.03138],
    SubsetSelection: [0.00151, 0.00354, 0.00908, 0.03121],
}
D = 3


def merged_laws(mechanism, codes):
    """Return the likelihoods of all reports, shape (n_codes, n_reports), in floats.

    Reports whose likelihoods are in the same proportions are one: which of them came tells nothing.
    """
    laws, merged = [exact_report_distribution(mechanism, code) for code in codes], Counter()
    for report in laws[0]:
        likelihoods = tuple(law.get(report, Fraction(0)) for law in laws)
        merged[tuple(x / max(likelihoods) for x in likelihoods)] += max(likelihoods)
    return np.array([[float(x * size) for x in kind] for kind, size in merged.items()]).T


def mixtures(laws, users):
    """Return the law of the counts of all reports, from the values of all users."""
    law = {(0,) * laws.shape[1]: 1.0}
    for value in users:
        following = Counter()
        for counts, chance in law.items():
            for report, likelihood in enumerate(laws[value]):
                more = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
                following[more] += chance * likelihood
        law = following
    return law


def exact_delta(laws, n, epsilon):
    """The largest delta of any two data sets of n users that differ in one of them."""
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(len(laws)), n - 1):
        of_value = [mixtures(laws, (*others, value)) for value in range(len(laws))]
        for one, other in itertools.permutations(of_value, 2):
            gaps = (one[x] - math.exp(epsilon) * other[x] for x in one)
            worst = max(worst, sum(gap for gap in gaps if gap > 0))
    return worst


def small(oracle):
    mechanism = oracle.channel(D).for_enumeration()
    return merged_laws(mechanism, range(D))


QUICK = [GRR(), OUE(), OLH(hash_family="mixing"), HadamardResponse(2.0, n_blocks=2)]
QUICK_AND_SLOW = [(oracle, 3) for oracle in [*QUICK, RandomQuestion()]] + [
    pytest.param(oracle, n, marks=pytest.mark.slow) for n in (2, 5) for oracle in ORACLES
]


def assert_bounds(laws, n, epsilon, delta):
    exact = exact_delta(laws, n, epsilon)
    assert exact <= delta * (1 + 1e-9), f"{exact} at epsilon {epsilon}, instead of {delta}"


@pytest.mark.slow
@pytest.mark.parametrize(("oracle", "n"), QUICK_AND_SLOW)
def test_no_two_data_sets_differ_by_more(oracle, n):
    """The exact delta of all data sets, at the epsilon that is returned, is at most delta."""
    laws = small(oracle)
    for delta in (0.2, 0.02, 0.001):
        epsilon = shuffled_epsilon(clone(oracle).set_params(categories=D), n, delta)
        assert_bounds(laws, n, epsilon, delta)


def test_bound_that_is_reached():
    """With two users of three values at E = 3, delta is .0600 where exp(epsilon') is 2.5.

    The other user holds the victim's value: .36 - 2.5 x .12. Negative control: an epsilon', or a
    delta, that is 2 % smaller, which the same test must reject.
    """
    oracle = GRR(math.log(3), categories=D)
    laws = small(oracle)
    assert exact_delta(laws, 2, math.log(2.5)) == pytest.approx(0.06, abs=1e-12)
    epsilon = shuffled_epsilon(oracle, 2, 0.06)
    assert epsilon == pytest.approx(math.log(2.5), rel=1e-3)
    assert_bounds(laws, 2, epsilon, 0.06)
    for tampered, delta in ((0.98 * epsilon, 0.06), (epsilon, 0.98 * 0.06)):
        with pytest.raises(AssertionError, match="instead of"):
            assert_bounds(laws, 2, tampered, delta)


def test_mechanisms_without_two_likelihoods_have_general_clones():
    protocol = one_bit(1.0, n_levels=4)
    laws = merged_laws(protocol.mechanism, range(4))
    for n, delta in itertools.product((2, 3), (0.2, 0.02)):
        assert_bounds(laws, n, shuffled_epsilon(protocol, n, delta), delta)
    # 0.0050 as computed elsewhere for a million users and delta 1e-8.
    assert shuffled_epsilon(protocol, 10**6, 1e-8) == pytest.approx(0.00501, rel=0.02)
    two_of_three = ColumnOracle(1.0, domains={"a": 2, "b": 3, "c": 2}, n_sampled=2)
    assert shuffled_epsilon(two_of_three, 10**6, 1e-8) == shuffled_epsilon(protocol, 10**6, 1e-8)


def test_agrees_with_other_computations():
    for oracle, row in ELSEWHERE.items():
        for epsilon, expected in zip((0.5, 1.0, 2.0, 4.0), row, strict=True):
            ours = shuffled_epsilon(oracle(epsilon, categories=1024), 10**6, 1e-8)
            assert 0.976 * expected - 5e-6 < ours < 1.015 * expected + 5e-6, (oracle, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("oracle", [GRR, OUE])
def test_large_numbers_of_users_follow_the_normal_law(oracle):
    """At 10**8 users the sum is nearly normal, and the bound at most 2 % above its epsilon'."""
    n, delta, ratio = 10**8, 1e-8, math.e
    channel = oracle(1.0).channel(1024)
    epsilon = shuffled_epsilon(oracle(1.0, categories=1024), n, delta)
    # Of the four values, those of reports that tell the two apart: 2 c (E - 1)**2.
    std = math.sqrt(2 * float(channel.p - channel.q) * (ratio - 1) / n)
    z = epsilon / std
    normal = std * (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * math.erfc(z / 2**0.5) / 2)
    assert delta * 0.7 < normal < delta * 1.01


def test_a_survey_is_shuffled_by_question():
    """Everybody may know which question was asked: delta is that of users who were asked it."""
    n, delta = 3, 0.05
    survey = ColumnOracle(1.0, domains={"a": 2, "b": 3}, oracle=GRR(), weights={"a": 3.0})
    spent = shuffled_epsilon(survey, n, delta)
    several = survey.protocol().mechanism
    for share, (name, one) in zip(several.probabilities, survey.questions().items(), strict=True):
        own = merged_laws(one.mechanism, range(one.domain.size))
        for others, pair in itertools.product(
            itertools.combinations_with_replacement(range(len(own)), n - 1),
            itertools.permutations(range(len(own)), 2),
        ):
            exact = 0.0
            for asked in itertools.product((True, False), repeat=n - 1):
                users = [value for value, is_asked in zip(others, asked, strict=True) if is_asked]
                chance = math.prod(share if is_asked else 1 - share for is_asked in asked)
                one_law, other_law = (mixtures(own, (*users, value)) for value in pair)
                gaps = (one_law[x] - math.exp(spent[name]) * other_law[x] for x in one_law)
                exact += chance * sum(gap for gap in gaps if gap > 0)
            assert exact <= delta * (1 + 1e-9)
    # If everybody were asked the question, users would be hidden better.
    alone, many = (shuffled_epsilon(x, 10**5, 1e-6) for x in (GRR(1.0, categories=2), survey))
    assert 1.3 * alone < many["a"] < 1.5 * alone
    tables = MarginalOracle(1.0, domains={"a": 2, "b": 3, "c": 2})
    assert list(shuffled_epsilon(tables, 10**5, 1e-6)) == list(tables.questions())


@pytest.mark.parametrize(
    "oracle",
    [
        pytest.param(OLH(hash_range=5, categories=100), marks=pytest.mark.slow),
        GRR(categories=100),
        ColumnOracle(domains={"a": 2, "b": 9}),
    ],
    ids=repr,
)
def test_the_local_epsilon_of_a_shuffled_one(oracle):
    for shuffled in (0.01, 1.0):
        local = local_epsilon(oracle, shuffled, 10**5, 1e-8)
        for factor, relation in ((1, "__le__"), (1.03, "__gt__")):
            spent = shuffled_epsilon(clone(oracle).set_params(epsilon=factor * local), 10**5, 1e-8)
            spent = max(spent.values()) if isinstance(spent, dict) else spent
            assert getattr(spent, relation)(shuffled * (1 + 1e-3))
    assert local_epsilon(oracle, 300.0, 10, 1e-8) == 200  # what any mechanism spends at most


@pytest.mark.slow
def test_few_users_and_large_budgets():
    # A user alone: delta = p - exp(epsilon') q at the two values of GRR.
    oracle = GRR(1.0, categories=D)
    channel = oracle.channel()
    expected = math.log(float(channel.p - Fraction(1, 100)) / float(channel.q))
    assert shuffled_epsilon(oracle, 1, 0.01) == pytest.approx(expected, rel=1e-3)
    for epsilon in (20.0, 45.0, 1000.0):
        for oracle in (GRR(epsilon), OUE(epsilon), SubsetSelection(epsilon)):
            spent = shuffled_epsilon(clone(oracle).set_params(categories=D), 2, 1e-3)
            assert min(epsilon, 40) - 10 < spent <= epsilon
            if epsilon < 40:
                assert_bounds(small(oracle), 2, spent, 1e-3)
    assert 0 < shuffled_epsilon(SubsetSelection(100.0, categories=D), 2, 1e-290) <= 100
    for delta in (5e-324, 1e-320, 1e-308):  # of which a ratio to the least normal number is less
        assert shuffled_epsilon(GRR(1.0, categories=D), 10, delta) == 1
    assert shuffled_epsilon(ProjectiveGeometryResponse(1e-4, categories=D), 5, 1e-3) == 0


@pytest.mark.slow
def test_more_users_hide_a_user_no_worse():
    oracle = GRR(1.0, categories=D)
    many, more = (shuffled_epsilon(oracle, n, 1e-8) for n in (10**10, 10**30))
    assert 0 < many == more < 1e-4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shuffled_epsilon(OUE(categories=D), 10, 0.0), "0 < delta < 1, got 0.0"),
        (lambda: shuffled_epsilon(OUE(categories=D), 10, 1), "0 < delta < 1, got 1"),
        (lambda: shuffled_epsilon(OUE(categories=D), 10, math.nan), "0 < delta < 1, got nan"),
        (lambda: shuffled_epsilon(OUE(categories=D), 10, "a"), "0 < delta < 1, got 'a'"),
        (lambda: shuffled_epsilon(OUE(categories=D), 0, 0.1), "an integer >= 1, got 0"),
        (lambda: shuffled_epsilon(OUE(categories=D), 2.5, 0.1), "an integer >= 1, got 2.5"),
        (lambda: local_epsilon(OUE(categories=D), 0.0, 10, 0.1), "a finite number > 0, got 0.0"),
        (lambda: local_epsilon(OUE(categories=D), 1.0, 10, 1.5), "0 < delta < 1, got 1.5"),
        (lambda: shuffled_epsilon(OUE(), 10, 0.1), "categories"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("shuffled", [0.0, 0.5, 0.9])
def test_the_lattice_adds_a_thousandth_of_delta(shuffled):
    """Delta of a single user is a sum over the reports, the hockey-stick divergence."""
    oracle = GRR(1.0, categories=3)
    probabilities = exact_report_distribution(oracle.channel(3), 0)
    others = exact_report_distribution(oracle.channel(3), 1)
    differences = (float(probabilities[r]) - np.exp(shuffled) * float(others[r]) for r in others)
    exact = sum(max(difference, 0.0) for difference in differences)
    ((blanket, share),) = _blankets(oracle).values()
    assert 1 < _delta(blanket, share, 1, shuffled, exact) / exact < 1.0015
