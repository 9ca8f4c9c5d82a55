"""Permanent and uniform reports, enumerated: one report is the oracle's, many stay below forever.

The probabilities are rational numbers. Drawing by rejection ends with the law of one try, given
that it is kept, so one try is run on every fall of its coins.
"""

from fractions import Fraction
from math import log

import numpy as np
import pytest
from estimators import SUPPORTING, slow_but, ways
from scipy import stats
from sklearn.base import clone

from benchmarks.security._chains import leaks, permanent_laws, ratio, single_laws, uniform_law
from sklearn_ldp import GRR, OLH, SubsetSelection
from sklearn_ldp._core.mechanisms.chain import Chain
from sklearn_ldp._core.mechanisms.coins import (
    PROBABILITY_UNIT,
    SeededCoins,
    direct_threshold,
    exp_lower_bound,
)
from sklearn_ldp._core.numerics.finite_field import FiniteField
from sklearn_ldp.oracles._string_parts import PrefixHash
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

BUDGETS = [(0.5, 1.5), (1.0, 2.0), (2.0, 5.0)]
CLOSE = Fraction(1, 2**60)
MIXING = OLH(hash_family="mixing")

PREFIXES = "prefixes of strings"  # of which two codes differ in the digits before the new one


def channel_of(oracle, epsilon, d=4):
    if oracle is PREFIXES:
        return PrefixHash(FiniteField(3), 1, 2, direct_threshold(epsilon, 3))
    return clone(oracle).set_params(epsilon=epsilon).channel(d).for_enumeration()


def check_single_report(oracle, epsilon, forever, d=4, **tampered):
    """Assert that one report has the oracle's law to 2**-60, and both ratios are kept."""
    channel = channel_of(oracle, epsilon, d)
    chain = Chain(channel, epsilon, forever)
    vars(chain).update(tampered)
    laws = single_laws(chain, d)
    for code, law in enumerate(laws):
        once = exact_report_distribution(channel, code)
        assert law.keys() == once.keys()
        off = max(abs(law[y] / chance - 1) for y, chance in once.items())
        assert off < CLOSE, f"a single report is off by {float(off)}"
    assert ratio(laws) <= exp_lower_bound(epsilon), "epsilon is exceeded"
    permanent = permanent_laws(chain, d)
    assert ratio(permanent) <= exp_lower_bound(forever), "epsilon_forever is exceeded"
    assert ratio(permanent) >= exp_lower_bound(forever) * (1 - Fraction(1, 10**12)), "wasted"


@pytest.mark.parametrize("oracle", slow_but([GRR(), SubsetSelection()], SUPPORTING), ids=repr)
@pytest.mark.parametrize(("epsilon", "forever"), BUDGETS)
def test_one_report_is_that_of_the_oracle(oracle, epsilon, forever):
    check_single_report(oracle, epsilon, forever)


@pytest.mark.parametrize("oracle", [*ways(SUPPORTING), PREFIXES], ids=repr)
def test_one_report_of_every_class_is_that_of_the_oracle(oracle):
    check_single_report(oracle, 1.0, 2.0, d=4 if oracle is PREFIXES else 3)


@pytest.mark.parametrize("oracle", [GRR(), SubsetSelection(subset_size=2)], ids=repr)
@pytest.mark.parametrize("epsilons", [(1e-9, 1e-9), (1e-9, 3.0), (1.0, 1.0), (20.0, 25.0)])
def test_extreme_budgets_keep_both_ratios(oracle, epsilons):
    channel = channel_of(oracle, epsilons[0], 5)
    chain = Chain(channel, *epsilons)
    assert ratio(single_laws(chain, 5)) <= exp_lower_bound(epsilons[0])
    assert ratio(permanent_laws(chain, 5)) <= exp_lower_bound(epsilons[1])


@pytest.mark.parametrize("oracle", [OLH(hash_range=3), MIXING, PREFIXES], ids=repr)
def test_every_fixed_part_has_both_ratios(oracle):
    """Given a hash function, a permanent report is one of the hash value."""
    epsilon, forever = 1.0, 2.0
    channel = channel_of(oracle, epsilon)
    chain = Chain(channel, epsilon, forever)
    n_functions = channel.public_part.n_values
    for part in {0, n_functions // 2, n_functions - 1}:
        permanent = permanent_laws(chain, 4, part)
        assert ratio(single_laws(chain, 4, part)) <= exp_lower_bound(epsilon)
        assert ratio(permanent) <= exp_lower_bound(forever)
        values = [chain.image(np.array([code]), part) for code in range(4)]
        for one, law in zip(values, permanent, strict=True):
            assert max(law, key=law.get) == (part, one)
            assert [law == other for other in permanent] == [one == value for value in values]
        assert max(values) < channel.report_fields[1].n_values


# -- several reports ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("oracle", "expected"),
    [
        (GRR(), {1: 1.0, 2: 1.694, 3: 1.932, 5: 1.997}),
        (SubsetSelection(subset_size=2), {1: 1.0, 2: 1.858, 3: 1.989}),
    ],
    ids=repr,
)
def test_what_several_reports_reveal(oracle, expected):
    chain = Chain(channel_of(oracle, 1.0, 5), 1.0, 2.0)
    found = leaks(chain, 5, expected)
    np.testing.assert_allclose(found, list(expected.values()), atol=6e-4)
    assert max(found) <= 2


@pytest.mark.parametrize(
    "oracle", slow_but([GRR(), PREFIXES], [*ways(SUPPORTING), PREFIXES]), ids=repr
)
@pytest.mark.parametrize(("epsilon", "forever"), BUDGETS)
def test_no_number_of_reports_reveals_more_than_the_permanent_one(oracle, epsilon, forever):
    d = 4 if oracle is PREFIXES else 3
    found = leaks(Chain(channel_of(oracle, epsilon, d), epsilon, forever), d, (1, 2))
    assert found[0] == pytest.approx(epsilon, abs=1e-12)
    assert epsilon < found[1] <= forever


# -- negative controls ----------------------------------------------------------------------------
def published_share(epsilon, forever, d):
    """L-GRR: the second round at ln((e^(eps_inf + eps_1) - 1) / (e^eps_inf - e^eps_1)).

    Source: H. H. Arcolezi et al., multi-freq-ldpy, long_freq_est/L_GRR.py. Its second round keeps a
    report with the probability p, so it is permanent with p - q and otherwise uniform.
    """
    odds = (np.exp(forever + epsilon) - 1) / (np.exp(forever) - np.exp(epsilon))
    return (odds - 1) / (odds + d - 1)


def test_the_published_parameters_are_found_to_waste_budget():
    """They realise .860 of 1 with 5 categories, and 1 with two."""
    for d, expected in ((2, 1.0), (3, 0.948), (5, 0.860), (10, 0.699)):
        channel = channel_of(GRR(), 1.0, d)
        chain = Chain(channel, 1.0, 2.0)
        chain.share = int(PROBABILITY_UNIT * published_share(1.0, 2.0, d))
        assert log(ratio(single_laws(chain, d))) == pytest.approx(expected, abs=6e-4)
    with pytest.raises(AssertionError, match="a single report is off"):
        check_single_report(GRR(), 1.0, 2.0, share=chain.share)


@pytest.mark.parametrize(
    ("name", "by", "message"),
    [
        ("share", 2**10, "a single report is off"),
        ("share", 12, "epsilon is exceeded"),
        ("keep_against", -12, "is exceeded"),
        ("keep_for", 2**10, "a single report is off"),
    ],
)
def test_tampered_thresholds_are_found(name, by, message):
    chain = Chain(channel_of(GRR(), 1.0), 1.0, 2.0)
    with pytest.raises(AssertionError, match=message):
        check_single_report(GRR(), 1.0, 2.0, **{name: getattr(chain, name) + by})


# -- drawing --------------------------------------------------------------------------------------
@pytest.mark.parametrize("oracle", [GRR(), SubsetSelection(subset_size=2)], ids=repr)
def test_draws_have_the_enumerated_laws(oracle, seed):
    """Chi-square at 1e-4 each; the law of another value is the negative control."""
    chain = Chain(channel_of(oracle, 1.0, 5), 1.0, 2.0)
    coins = SeededCoins(np.random.default_rng(seed))
    code, laws = np.array([3]), permanent_laws(chain, 5)

    def p_value(reports, law):
        drawn = [tuple(np.ravel(report).tolist()) for report in reports]
        observed = [drawn.count(y) for y in sorted(law)]
        return stats.chisquare(observed, [3000 * float(law[y]) for y in sorted(law)]).pvalue

    permanent, uniform = chain.permanent(code, coins, n=3000), chain.uniform(code, coins, n=3000)
    assert len(chain.permanent(code, coins)) == len(chain.uniform(code, coins)) == 1
    assert p_value(permanent, laws[3]) > 1e-4
    assert p_value(permanent, laws[1]) < 1e-4
    assert p_value(uniform, uniform_law(chain)) > 1e-4
    assert p_value(uniform, laws[3]) < 1e-4


@pytest.mark.parametrize("oracle", [OLH(), GRR()], ids=repr)
def test_the_permanent_part_of_the_noise_does_not_average_out(oracle, seed):
    """Within 6 standard errors of the sample variance; a mean of fresh reports is found."""
    n, n_rounds, coins = 20_000, 8, SeededCoins(np.random.default_rng(seed))
    channel, forever = channel_of(oracle, 1.0, 8), channel_of(oracle, 2.0, 8)
    if isinstance(oracle, OLH):
        forever = channel_of(clone(oracle).set_params(hash_range=channel.field.order), 2.0, 8)
    chain, code, rare = Chain(channel, 1.0, 2.0), np.array([0]), np.array([5])
    permanent, support = chain.permanent(code, coins, n=n), np.zeros(n)
    for _ in range(n_rounds):
        reports = chain.uniform(code, coins, n=n)
        is_permanent = chain.are_permanent(n, coins)
        reports[is_permanent] = permanent[is_permanent]
        support += channel.supports(reports, rare)[:, 0] / n_rounds
    q, q_forever = float(channel.q), float(forever.q)
    stays = (chain.share / 2**64) ** 2 * q_forever * (1 - q_forever)
    expected = stays + (q * (1 - q) - stays) / n_rounds
    error = np.std((support - support.mean()) ** 2) / np.sqrt(n)
    assert abs(support.var() - expected) < 6 * error
    assert abs(support.var() - q * (1 - q) / n_rounds) > 6 * error
