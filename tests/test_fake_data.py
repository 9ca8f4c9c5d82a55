"""Random sampling plus fake data: its honest epsilon, and the noise of its estimates."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sklearn_ldp import GRR, OUE, SUE
from sklearn_ldp.mechanisms._coins import SecureCoins, SeededCoins
from sklearn_ldp.mechanisms._fake_data import FakeData, FakedChannel
from sklearn_ldp.mechanisms._split import shares_over_2_64
from sklearn_ldp.utils.estimator_checks import (
    check_exact_epsilon_of,
    check_exact_support_probabilities,
    exact_report_distribution,
)

UNIFORM, PEAKED = "uniform", "peaked"


def faked(oracle, d, n_parts, fakes=UNIFORM):
    """One of the published variants: GRR, UE-z (zeros), UE-r, with uniform or peaked priors."""
    if fakes == PEAKED:
        fakes = shares_over_2_64([9.0 * (d - 1)] + [1] * (d - 1))
    return FakedChannel(oracle.channel(d), n_parts, fakes, not isinstance(oracle, GRR))


def amplified(epsilon, n_parts):
    return math.log(n_parts * (math.exp(epsilon) - 1) + 1)


def law_of_a_part(part, code):
    """Laws of its true reports for a value, and of its fake ones, as dicts of fractions."""
    true = exact_report_distribution(part.channel, code)

    class _Fakes:
        def privatize(self, codes, coins):
            return part.fake(len(codes), coins)

    return true, exact_report_distribution(_Fakes(), code)


def likelihood_ratios(parts, sizes):
    """The largest log ratios over whole records, and over records that differ in one column.

    The law of all reports is made from those of the parts, so that it need not be enumerated.
    """
    laws = [
        [law_of_a_part(part, code) for code in range(d)]
        for part, d in zip(parts, sizes, strict=True)
    ]
    reports = [sorted(of_part[0][1]) for of_part in laws]
    fakes = [
        np.array([float(own[0][1][y]) for y in ys]) for own, ys in zip(laws, reports, strict=True)
    ]
    ratios = [
        [np.array([float(true[y]) for y in ys]) / fake for true, _ in own]
        for own, ys, fake in zip(laws, reports, fakes, strict=True)
    ]
    records = list(product(*map(range, sizes)))
    outcomes = np.stack(
        [
            sum(np.ix_(*[of_part[code] for of_part, code in zip(ratios, x, strict=True)])).ravel()
            for x in records
        ]
    )
    whole = (outcomes.max(axis=0) / outcomes.min(axis=0)).max()
    one = max(
        (outcomes[i] / outcomes[k]).max()
        for i, x in enumerate(records)
        for k, y in enumerate(records)
        if sum(a != b for a, b in zip(x, y, strict=True)) == 1
    )
    return math.log(whole), math.log(one)


# -- epsilon --------------------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("oracles", "fakes"),
    [
        ((GRR, GRR), (UNIFORM, UNIFORM)),
        ((GRR, GRR), (PEAKED, UNIFORM)),
        ((OUE, GRR), ("zeros", UNIFORM)),
        ((SUE, OUE), (UNIFORM, PEAKED)),
    ],
    ids=str,
)
def test_epsilon_of_whole_records_is_that_of_the_parts(oracles, fakes, epsilon):
    """The coins enumerated over all pairs of two-attribute records; no more, and no less."""
    parts = [
        faked(oracle(epsilon), d, 2, of_part)
        for oracle, d, of_part in zip(oracles, (2, 3), fakes, strict=True)
    ]
    check_exact_epsilon_of(FakeData(parts), product(range(2), range(3)), epsilon)


@pytest.mark.parametrize("fakes", [UNIFORM, PEAKED])
def test_the_published_amplification_exceeds_epsilon(fakes):
    """The negative control: each part at ln(J (e - 1) + 1) is not 1-LDP over whole records."""
    parts = [faked(GRR(amplified(1.0, 2)), d, 2, fakes) for d in (2, 3)]
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(FakeData(parts), product(range(2), range(3)), 1.0)
    check_exact_epsilon_of(FakeData(parts), product(range(2), range(3)), amplified(1.0, 2))


@pytest.mark.parametrize(
    ("oracle", "sizes", "fakes", "of_one_column"),
    [
        (GRR, (3, 3, 3), UNIFORM, 1.0),
        (GRR, (2, 3, 10), UNIFORM, 1.2815),
        (GRR, (2, 2, 2, 2), UNIFORM, 1.0),
        (GRR, (2, 3, 10), PEAKED, 1.7773),
        (OUE, (2, 3, 3), "zeros", 1.0),
        (OUE, (2, 3, 3), UNIFORM, 1.1546),
    ],
    ids=str,
)
def test_what_the_published_amplification_costs(oracle, sizes, fakes, of_one_column):
    """Claimed 1: the whole record has ln(J (e - 1) + 1), a single column sometimes more than 1."""
    n_parts = len(sizes)
    parts = [faked(oracle(amplified(1.0, n_parts)), d, n_parts, fakes) for d in sizes]
    whole, one = likelihood_ratios(parts, sizes)
    assert whole == pytest.approx(amplified(1.0, n_parts), abs=1e-9)
    assert one == pytest.approx(of_one_column, abs=1e-4)


def test_the_law_made_from_the_parts_is_that_of_the_coins():
    parts = [faked(OUE(1.3), 2, 2, PEAKED), faked(GRR(1.3), 3, 2, PEAKED)]
    mechanism = FakeData(parts)
    law = exact_report_distribution(mechanism, (1, 2))
    (true_0, fake_0), (true_1, fake_1) = (
        law_of_a_part(p, c) for p, c in zip(parts, (1, 2), strict=True)
    )
    for report, chance in law.items():
        first, second = report[:2], report[2:]
        mixed = true_0[first] * fake_1[second] + fake_0[first] * true_1[second]
        assert chance == mixed / 2


# -- estimates and their noise --------------------------------------------------------------------
VARIANTS = [
    (GRR(1.0), UNIFORM),
    (GRR(1.0), PEAKED),
    (OUE(1.0), "zeros"),
    (OUE(1.0), UNIFORM),
    (OUE(1.0), PEAKED),
    (SUE(2.0), PEAKED),
]


# The laws are compared by enumeration for all of them; drawn collections take longer.
DRAWN = [
    pytest.param(*one, marks=() if i in (1, 2) else pytest.mark.slow)
    for i, one in enumerate(VARIANTS)
]


def second_moments(part, d):
    """For each value of a user: mean and second moments of what her report supports, exactly."""
    codes = np.arange(d)
    for code in range(d):
        law = exact_report_distribution(part, code)
        reports = np.array(list(law))
        reports = part.check_reports(reports[:, 0] if reports.shape[1] == 1 else reports)
        supported = part.supports(reports, codes).astype(float)
        chances = np.array(list(map(float, law.values())))
        yield chances @ supported, (supported * chances[:, None]).T @ supported


@pytest.mark.parametrize("d", [2, 4])
@pytest.mark.parametrize(("oracle", "fakes"), VARIANTS, ids=str)
def test_mean_and_covariance_by_enumeration(oracle, fakes, d):
    """Unbiased, and the covariances of all answers are those of the law of the reports."""
    part = faked(oracle, d, 3, fakes)
    f = np.array([0.5, 0.5]) if d == 2 else np.array([0.6, 0.3, 0.1, 0])
    moments = list(second_moments(part, d))
    means = np.array([mean for mean, _ in moments])
    np.testing.assert_allclose(part.debias(means), np.eye(d), atol=1e-12)
    scale = (3 / float(oracle.channel(d).p - oracle.channel(d).q)) ** 2
    covariance = scale * sum(
        share * (second - np.outer(mean, mean))
        for share, (mean, second) in zip(f, moments, strict=True)
    )
    noise = part.noise(1)
    np.testing.assert_allclose(noise.covariance(np.eye(d), f), covariance, atol=1e-9)
    np.testing.assert_allclose(noise.variance(f), np.diag(covariance), atol=1e-9)
    matrix = np.random.default_rng(0).normal(size=(3, d))
    expected = matrix @ covariance @ matrix.T
    np.testing.assert_allclose(noise.covariance(matrix, f), expected, atol=1e-8)
    np.testing.assert_allclose(noise.answer_variance(matrix, f), np.diag(expected), atol=1e-8)
    np.testing.assert_allclose(
        noise.covariance_product(matrix[0], f), covariance @ matrix[0], atol=1e-9
    )
    assert part.is_pure == (fakes != PEAKED)
    if part.is_pure:
        assert noise.support_law is not None
        b = np.array([mean[(code + 1) % d] for code, mean in enumerate(means)])
        np.testing.assert_allclose(b, float(part.q), atol=1e-12)


@pytest.mark.parametrize("fakes", [UNIFORM, "zeros"])
def test_variance_is_the_published_one(fakes):
    """Of users drawn at random: J^2 mu (1 - mu) / (p - q)^2; so of fixed ones f (1 - f) less."""
    f, n_parts = np.array([0.6, 0.3, 0.1]), 5
    for oracle in [OUE(1.0)] if fakes == "zeros" else [GRR(1.0)]:
        p, q = float(oracle.channel(3).p), float(oracle.channel(3).q)
        extra = (n_parts - 1) * (q if fakes == "zeros" else 1 / 3)
        mu = (q + f * (p - q) + extra) / n_parts
        published = n_parts**2 * mu * (1 - mu) / (p - q) ** 2
        part = faked(oracle, 3, n_parts, fakes)
        np.testing.assert_allclose(part.variances(f) + f * (1 - f), published, rtol=1e-12)
        counts = np.array([[50, 20, 30]])
        if fakes == "zeros":
            values = n_parts * (counts - 100 * q) / (100 * (p - q))
        else:
            top = counts * n_parts * 3 - 100 * (n_parts - 1 + q * 3)
            values = top / (100 * 3 * (p - q))
        np.testing.assert_allclose(part.estimate_decoded(counts, np.array([100]))[0], values)


@pytest.mark.parametrize(("oracle", "fakes"), DRAWN, ids=str)
def test_intervals_cover(oracle, fakes):
    """Each category within 92 to 98 % of 1,500 collections by the collection's own coins.

    Error rate below 1e-6. Negative control: the noise of the channel alone, of one user in J.
    """
    d, n, n_parts, repeats = 3, 400, 3, 1500
    counts = np.array([280, 100, 20])
    parts = [faked(oracle, d, n_parts, fakes) for _ in range(n_parts)]
    mechanism, coins = FakeData(parts), SeededCoins(np.random.default_rng(3))
    codes = np.repeat(np.repeat(np.arange(d), counts)[:, None], n_parts, axis=1)
    reports = mechanism.privatize(np.tile(codes, (repeats, 1)), coins).reshape(repeats, n, -1)
    tallies = np.array([mechanism.tally(one) for one in reports])
    mechanism.check_tallies(tallies, np.full(repeats, n))
    support, sizes = mechanism.of_decoded(mechanism.decode(tallies), 1)
    values, noise = parts[1].estimate_decoded(support, sizes)
    errors = values - counts / n
    expected = noise.of_rows(0).variance(counts / n)

    def coverage(variances):
        return np.mean(np.abs(errors) < 1.96 * np.sqrt(variances), axis=0)

    assert np.all(np.abs(errors.mean(axis=0)) < 5.5 * np.sqrt(expected / repeats))
    ratio = (errors**2).mean(axis=0) / expected
    assert np.all(np.abs(ratio - 1) < 5.5 * np.sqrt(2 / repeats))
    assert np.all(np.abs(coverage(expected) - 0.95) < 0.03)
    control = oracle.channel(d).noise(n // n_parts).variance(counts / n)
    assert np.any(np.abs(coverage(control) - 0.95) > 0.03)


@pytest.mark.parametrize(("oracle", "fakes"), DRAWN, ids=str)
def test_simulated_collections_have_their_mean_and_covariance(oracle, fakes):
    """Standardised sums, each at 1e-7; a variance that is a third larger is found."""
    part, counts, repeats = faked(oracle, 3, 4, fakes), np.array([250, 30, 20]), 2000
    support = part.simulate(counts, repeats, np.random.default_rng(0))
    noise, f = part.noise(300), counts / 300
    values = noise.debias(support)
    matrix = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]])
    errors = (values - f) @ matrix.T
    variances = noise.answer_variance(matrix, f)
    ratio = (errors**2).mean(axis=0) / variances
    bound = stats.norm.isf(5e-8) * np.sqrt(2 / repeats)
    known = variances > 1e-9
    assert np.all(np.abs(ratio[known] - 1) < bound)
    assert np.all(np.abs(ratio[known] * 0.75 - 1) > bound / 2)
    assert np.all(np.abs(errors.mean(axis=0)) < 5.4 * np.sqrt(variances / repeats) + 1e-9)


def test_reports_and_tallies():
    parts = [faked(GRR(1.0), 4, 2, PEAKED), faked(OUE(1.0), 3, 2, "zeros")]
    mechanism = FakeData(parts)
    codes = np.random.default_rng(0).integers(0, 3, (500, 2))
    reports = mechanism.check_reports(mechanism.privatize(codes, SecureCoins()))
    assert reports.shape == (500, 4)
    assert mechanism.public_part is None
    tally = mechanism.tally(reports)
    assert tally[:2].tolist() == [500, 500]
    assert tally[2:6].tolist() == np.bincount(reports[:, 0], minlength=4).tolist()
    reports[0, 0] = 4
    with pytest.raises(ValueError, match=r"integers in \[0, 3\]"):
        mechanism.check_reports(reports)
    others = [
        FakeData([faked(GRR(1.0), 4, 2, UNIFORM), parts[1]]),
        FakeData([parts[0], faked(OUE(1.0), 3, 2, UNIFORM)]),
    ]
    for other in others:
        assert other != mechanism
        assert other.configuration != mechanism.configuration


@pytest.mark.parametrize(("oracle", "fakes"), [(GRR(1.0), UNIFORM), (OUE(1.0), "zeros")])
def test_a_part_with_uniform_fakes_is_a_pure_channel(oracle, fakes):
    """Its p and q by enumeration, as for any oracle."""

    class _Oracle:
        def channel(self, d):
            return faked(oracle, d, 2, fakes)

    check_exact_support_probabilities(_Oracle())
