"""Quantiles against users whose numbers are known, and their intervals against their level."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_ldp import Domain, FrequencyEstimate, HadamardResponse, NoiseModel, NormSub
from sklearn_ldp.inference import quantiles
from sklearn_ldp.queries import between, mean, prefixes

AGES = Domain.bins(20, bounds=(0, 100))
COUNTS = np.round(20_000 * np.exp(-0.5 * ((np.arange(20) - 7) / 3) ** 2)).astype(int)
N = COUNTS.sum()
ASKED = [0.1, 0.5, 0.9]


def exact(values):
    """An estimate without noise, of many users."""
    return FrequencyEstimate(np.asarray(values, dtype=float), AGES, NOISE)


NOISE = HadamardResponse(1.0).channel(20).noise(10**13)


def test_quantiles_of_known_users():
    value, low, high = quantiles(exact([COUNTS / N]), ASKED, spread="any")
    users = np.repeat(np.arange(20), COUNTS) * 5.0 + np.concatenate(
        [5 * (np.arange(n) + 0.5) / n for n in COUNTS]  # spread evenly over their bin
    )
    assert np.allclose(value, np.quantile(users, ASKED), atol=0.01)
    bins = np.searchsorted(np.cumsum(COUNTS) / N, ASKED)
    assert low.tolist() == [AGES.ends[bins].tolist()]
    assert high.tolist() == [AGES.ends[bins + 1].tolist()]
    _, low, high = quantiles(exact([COUNTS / N]), ASKED, spread="even")
    np.testing.assert_allclose([low, high], [value, value], atol=1e-3)


def test_values_and_intervals_are_in_order():
    estimate = HadamardResponse(1.0, categories=AGES, random_state=0).simulate(COUNTS // 500, 15)
    for simultaneous, spread in itertools.product((False, True), ("even", "any")):
        value, low, high = quantiles(estimate, ASKED, simultaneous=simultaneous, spread=spread)
        assert np.all((low <= value) & (value <= high))
        assert np.all(np.diff(value, axis=1) >= 0)
        assert np.all((low >= 0) & (high <= 100))
    plain, wider = quantiles(estimate, ASKED), quantiles(estimate, ASKED, 0.999)
    for one in (wider, quantiles(estimate, ASKED, simultaneous=True)):
        assert np.mean(one.high - one.low) > np.mean(plain.high - plain.low)
    even = quantiles(estimate, ASKED, spread="even")
    assert np.all((plain.low <= even.low) & (even.high <= plain.high))


def test_values_may_be_post_processed():
    raw = HadamardResponse(1.0, categories=AGES, random_state=0).simulate(COUNTS, 3)
    done = quantiles(NormSub().fit_transform(raw), ASKED)
    plain = quantiles(raw, ASKED)
    assert np.allclose(done.value, plain.value, atol=5)
    assert np.all(done.low <= plain.low + 5)
    # A band of all prefixes holds them.
    low, high = raw[0].confidence_interval(0.95, prefixes(), simultaneous=True)
    truth = np.cumsum(COUNTS) / N
    assert np.all((low <= truth + 1e-12) & (truth <= high + 1e-12))


def test_mean_and_std():
    centres = np.arange(2.5, 100, 5)
    users = np.repeat(centres, COUNTS)
    estimate = exact([COUNTS / N, np.eye(20)[0]])
    assert np.allclose(estimate.mean(), [users.mean(), 2.5])
    assert np.allclose(estimate.std(), [users.std(), 0])
    assert np.array_equal(estimate.mean(), estimate.answer(mean())[:, 0])


@pytest.mark.parametrize("asked", [[], [0.0], [1.0], [np.nan], [[0.5]], [0.5, 2]])
def test_probabilities_that_are_none(asked):
    with pytest.raises(ValueError, match=r"probabilities must be numbers in \(0, 1\)"):
        quantiles(exact([COUNTS / N]), asked)


def test_spreads_that_are_none_and_noise_that_is_needed():
    with pytest.raises(ValueError, match="got spread='random'"):
        quantiles(exact([COUNTS / N]), [0.5], spread="random")
    with pytest.raises(ValueError, match="noise model"):
        quantiles(FrequencyEstimate([COUNTS / N], AGES), [0.5])
    with pytest.raises(ValueError, match="covariance"):
        quantiles(FrequencyEstimate([COUNTS / N], AGES, NoiseModel(0.75, 0.25, 100)), [0.5])


@pytest.mark.parametrize("domain", [range(20), Domain.bins(np.arange(1, 20)), ["a", "b"]])
def test_only_bins_with_ends_have_quantiles(domain):
    d = Domain.of(domain).size
    estimate = FrequencyEstimate([np.full(d, 1 / d)], domain)
    for ask in (lambda one: quantiles(one, [0.5]), lambda one: one.mean(), lambda one: one.std()):
        with pytest.raises(ValueError, match="bins with bounds"):
            ask(estimate)


def missed(seed, simultaneous, noise_of=1, spread="even"):
    """Which of 300 collections have an interval that misses its quantile, for each quantile.

    There are 60 with a band, which takes longer. Of users who may be anywhere in a bin an interval
    covers the quantile if it has the whole bin. The noise is taken as that of `noise_of` times as
    many users.
    """
    counts = COUNTS // 20
    oracle = HadamardResponse(1.0, categories=AGES, random_state=seed)
    estimate = oracle.simulate(counts, 60 if simultaneous else 300)
    noise = oracle.channel().noise(noise_of * int(counts.sum()))
    estimate = FrequencyEstimate(estimate.values, AGES, noise)
    found = quantiles(estimate, ASKED, 0.9, simultaneous=simultaneous, spread=spread)
    if spread == "even":
        truth = np.interp(ASKED, np.r_[0, np.cumsum(counts) / counts.sum()], AGES.ends)
        return (found.low > truth) | (found.high < truth)
    bins = np.searchsorted(np.cumsum(counts) / counts.sum(), ASKED)
    return (found.low > AGES.ends[bins]) | (found.high < AGES.ends[bins + 1])


def is_rejected(misses):
    """Whether more intervals of a level of 90 % missed than happens once in 10,000 tests."""
    return misses.sum() > binom.isf(1e-4, misses.size, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["even", "any"])
def test_intervals_cover_as_often_as_they_say(seed, spread):
    """Error rate: 1e-4 for each of four tests, with any seed."""
    for one in missed(seed, False, spread=spread).T:
        assert not is_rejected(one)
    assert not is_rejected(missed(seed, True, spread=spread).any(axis=1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Neighboring bins differ")
def test_intervals_of_too_little_noise_are_rejected(seed):
    """Negative control: with a 25th of the variance the same tests find too many misses."""
    assert is_rejected(missed(seed, False, 25).any(axis=1))
    assert is_rejected(missed(seed, True, 25).any(axis=1))


# -- numbers that are heaped ------------------------------------------------------------------
FIVES = np.round(20 * np.random.default_rng(5).normal(0.4, 0.12, 100_000)).clip(0, 19) / 20
CUT = np.sort(np.random.default_rng(6).random((30, 2)), axis=1)


def coverage_of_heaps(seed, spread):
    """How often 95 % intervals of quantiles, of ranges that cut bins and of means cover."""

    def collected(n_bins):
        bins = Domain.bins(n_bins, bounds=(0, 1))
        counts = np.bincount(bins.encode(FIVES + 1e-9), minlength=n_bins)
        return HadamardResponse(3.0, categories=bins, random_state=seed).simulate(counts, 60)

    raw = collected(24)  # some bins have no multiple of .05
    inside = (CUT[:, :1] <= FIVES) & (CUT[:, 1:] > FIVES)
    asked = between(CUT, spread=spread), mean(spread=spread)
    found = [
        (np.quantile(FIVES, ASKED), quantiles(raw, ASKED, spread=spread)[1:]),
        (inside.mean(axis=1), raw.confidence_interval(0.95, asked[0])),
        (FIVES.mean(), collected(20).confidence_interval(0.95, asked[1])),  # at their lower ends
    ]
    return [np.mean((low <= truth) & (truth <= high)) for truth, (low, high) in found]


def test_intervals_hold_wherever_users_are_within_bins(seed):
    """With 60 collections, .88 is five standard errors of .028 or less below .95 (where errors of a
    collection are alike); the negative control is that users are spread evenly.
    """
    assert min(coverage_of_heaps(seed, "any")) > 0.88
    with pytest.warns(UserWarning, match="Neighboring bins differ by more than noise"):
        wrong = coverage_of_heaps(seed, "even")
    assert max(wrong) < 0.88


@pytest.mark.parametrize("d", [16, 64])
def test_curves_are_no_heaps(seed, d):
    """None of 20 collections of a curve makes a warning (at most 1 in 1,000 would)."""
    bins = Domain.bins(d, bounds=(0, 1))
    centres = (bins.ends[1:] + bins.ends[:-1]) / 2
    counts = np.round(10**6 * centres**4 * (1 - centres)).astype(int)
    estimate = HadamardResponse(2.0, categories=bins, random_state=seed).simulate(counts, 20)
    quantiles(estimate, ASKED, spread="even")
    estimate.confidence_interval(0.95, between([(0.1, 0.3)], spread="even"))


def test_a_warning_of_heaps_names_the_line_of_the_caller():
    bins = Domain.bins(32, bounds=(0, 32))
    counts = np.where(np.arange(32) % 5 == 0, 20_000, 10)
    estimate = HadamardResponse(4.0, categories=bins, random_state=0).simulate(counts)
    query = between([(1.5, 3.2)], spread="even")
    calls = [
        partial(quantiles, estimate, [0.5], spread="even"),
        partial(estimate.confidence_interval, 0.95, query),
    ]
    for call in calls:
        with pytest.warns(UserWarning, match="Neighboring bins differ") as warned:
            call()
        assert __file__ in [warning.filename for warning in warned]
