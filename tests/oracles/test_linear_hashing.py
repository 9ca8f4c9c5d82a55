"""The linear hash functions of OLH: their numbers, where categories lie, and sums over reports."""

import numpy as np
import pytest
from estimators import slow_but
from scipy import stats
from sklearn.base import clone

from sklearn_ldp import BLH, OLH
from sklearn_ldp._core.mechanisms.laws import independent_support
from sklearn_ldp._core.numerics.finite_field import FiniteField
from sklearn_ldp._core.numerics.transforms import LinearFunctions, scattered
from sklearn_ldp.planning import Plan
from sklearn_ldp.queries import query_matrix

MODULE = "sklearn_ldp.oracles._local_hashing"

GOLDEN_4096 = [1305, 1903, 87, 2655, 796, 3415, 875, 611, 1277, 112]
GOLDEN_6561 = [5660, 2987, 4251, 4221, 6140, 1521, 5137, 6081, 1471, 3402]
GOLDEN_VALUES = [0, 1, 2, 2, 1, 3, 0, 3, 0, 0, 1, 2, 3, 1, 2, 3, 2, 3, 1, 2]


# -- the protocol, which must never change ----------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 64, 81, 1000, 4096, 28561])
def test_scattered_is_a_permutation(n):
    places = scattered(n, n)
    np.testing.assert_array_equal(np.sort(places), np.arange(n))
    np.testing.assert_array_equal(scattered(n // 2, n), places[: n // 2])


def test_places_of_categories_are_pinned():
    """Reports of other places would be decoded into nonsense: a change is a new protocol."""
    assert scattered(10, 4096).tolist() == GOLDEN_4096
    assert scattered(10, 3**8).tolist() == GOLDEN_6561
    channel = OLH(1.0).channel(1024)
    expected = {"hash_range": 4, "hash_family": "linear", "hash_dimension": 6}
    assert channel.configuration == expected
    np.testing.assert_array_equal(channel.vectors[:10], GOLDEN_4096)
    assert channel.hash(np.arange(20) * 68, np.arange(20)).tolist() == GOLDEN_VALUES


@pytest.mark.parametrize(
    ("g", "d", "expected"),
    [
        *((4, 2, 1), (4, 1228, 6), (4, 1229, 7), (4, 42_178, 9), (3, 1024, 7), (2, 1024, 10)),
        *((23, 1024, 4), (53, 16, 2), (53, 1024, 3), (149, 1024, 2), (1009, 1000, 1)),
    ],
)
def test_number_of_digits_is_pinned(g, d, expected):
    assert OLH(hash_range=g).channel(d).n_digits == expected


def test_reports_of_another_dimension_do_not_add_up(request):
    mine, same = OLH().channel(50), OLH().channel(50)
    assert mine == same
    request.getfixturevalue("crowded")
    other = OLH().channel(50)
    assert other.configuration["hash_dimension"] < mine.configuration["hash_dimension"]
    assert mine != other


# -- functions --------------------------------------------------------------------------------
FIELDS = [2, 3, 4, 5, 8, 9, 16, 19, 25, 27]


def brute_values(functions, g):
    """Return <a, v> for all functions and vectors, digit by digit."""
    field, k = FiniteField(g), functions.n_digits
    a = functions.vectors[:, None] // g ** np.arange(k) % g
    v = np.arange(g**k)[:, None] // g ** np.arange(k) % g
    total = np.zeros((len(a), len(v)), dtype=np.int64)
    for j in range(k):
        total = field.add(total, field.multiply(*np.broadcast_arrays(a[:, None, j], v[None, :, j])))
    return total


@pytest.mark.parametrize(("g", "k"), [(g, k) for g in FIELDS for k in (1, 2, 3) if g**k <= 1000])
def test_sums_over_reports_are_their_definition(g, k):
    """Values, `gather` and `spread` agree with brute force; random weights reveal any mix-up.

    Counts of 2**40 and more survive the transform, for odd and even numbers of tables.
    """
    functions, rng = LinearFunctions(FiniteField(g), k), np.random.default_rng(0)
    expected = brute_values(functions, g)
    every = np.arange(functions.n_vectors)
    pieces = functions.pieces(every)
    values = functions.values(np.arange(functions.n_functions)[:, None], pieces, every)
    np.testing.assert_array_equal(values, expected)
    supports = expected[:, None] == np.arange(g)[:, None]

    tables = rng.integers(2**30, 2**31, (3, functions.n_functions, g))
    sums = np.einsum("mft,ftv->mv", tables, supports)
    for n in (2, 3):
        np.testing.assert_array_equal(np.rint(functions.gather(tables[:n])), sums[:n])
    weights = rng.normal(size=functions.n_vectors)
    np.testing.assert_allclose(functions.spread(weights), supports @ weights, atol=1e-9)
    points = functions.vectors[1:]
    n = max(len(points) - 3, 1)  # the points that have a weight
    zero_sums = supports[1:, 0][:, points[:n]] @ weights[:n]
    np.testing.assert_allclose(functions.zero_sums(weights[:n]), zero_sums, atol=1e-9)
    assert functions.zero_sums(np.zeros((0, n))).shape == (0, len(points))


@pytest.mark.parametrize("g", FIELDS)
def test_functions_are_all_vectors_up_to_multiples(g):
    functions = LinearFunctions(FiniteField(g), 2)
    of_vectors = functions.of_uniform_vectors(np.arange(g**2))
    assert np.bincount(of_vectors).tolist() == [1] + [g - 1] * (g + 1)
    number, value = functions.normalised(np.arange(g**2), np.ones(g**2, dtype=np.int64))
    assert np.bincount(number).tolist() == [1] + [g - 1] * (g + 1)
    factor = functions.field.multiply(value, np.full(g**2, 1))
    for digit in (1, g):  # `factor` times the vector is that of the function
        scaled = functions.field.multiply(np.arange(g**2) // digit % g, factor)
        np.testing.assert_array_equal(scaled, functions.vectors[number] // digit % g)


# -- the joint law ----------------------------------------------------------------------------
D, N_RUNS = 60, 600
SETS = np.array([np.arange(D) >= 0, np.arange(D) < 30, np.arange(D) % 3 == 0], dtype=float)


def p_value(estimates, variances):
    """Return the smallest p-value of chi-square tests of the variances of the sets."""
    chi2 = (estimates @ SETS.T).var(axis=0, ddof=1) * (len(estimates) - 1) / variances
    law = stats.chi2(len(estimates) - 1)
    return 2 * np.minimum(law.cdf(chi2), law.sf(chi2)).min()


@pytest.fixture
def crowded(monkeypatch):
    """Use the least number of digits, so that sums have several times the variance."""
    monkeypatch.setattr(f"{MODULE}._SMALL_SPACE", 0)
    monkeypatch.setattr(f"{MODULE}._SPACE_PER_CATEGORY", 0)


@pytest.mark.parametrize("path", slow_but(["users"], ["users", "categories", "protocol", "fit"]))
@pytest.mark.parametrize(
    "oracle", [OLH(2.0), pytest.param(OLH(2.5, hash_range=11), marks=pytest.mark.slow)], ids=repr
)
def test_sums_have_the_variance_of_the_protocol(oracle, path, crowded, seed, monkeypatch):
    """Exact variances of three sets, chi-square tests: error rate 3e-8 for each.

    Four ways are tested: users one by one, whole categories at once, reports one by one (if there
    is no table), and the oracle itself. Negative control: the law of ideal hashing.
    """
    monkeypatch.setattr(f"{MODULE}._MANY_HASHED", 0 if path == "categories" else 1e9)
    if path == "protocol":
        monkeypatch.setattr(f"{MODULE}._SMALL_TABLE", 0)
        monkeypatch.setattr(f"{MODULE}._CELLS_PER_CATEGORY", 0)
    counts = 1200 // (np.arange(D) + 2)
    n = counts.sum()
    channel, rng = oracle.channel(D), np.random.default_rng([seed, 7])
    assert (channel.n_tried > 0) == (path == "protocol")
    variances = [
        Plan(oracle, D, frequencies=counts / n, queries=query_matrix(row[None])).rmse(n) ** 2
        for row in SETS
    ]
    collector = clone(oracle).set_params(categories=D, random_state=rng)
    if path == "fit":
        fit = collector.fit
        runs = [fit(np.arange(D), sample_weight=counts).frequencies_ for _ in range(N_RUNS)]
        estimates = np.array(runs)
    else:
        estimates = collector.simulate(counts, N_RUNS).values
    assert p_value(estimates, variances) > 1e-8
    ideal = independent_support(channel.p, channel.q, counts, N_RUNS, rng)
    assert p_value(channel.noise(n).debias(ideal), variances) < 1e-8


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_sums_are_nearly_those_of_ideal_hashing(epsilon, request):
    """This is the purpose of scattering over more digits; negative control: the least number."""
    frequencies = np.arange(1, 501) ** -1.1 / np.sum(np.arange(1, 501) ** -1.1)
    options = {"frequencies": frequencies, "queries": query_matrix([np.arange(500) < 250])}
    ideal = Plan(OLH(epsilon, hash_family="mixing"), 500, **options).rmse(1e6) ** 2
    assert 1 < Plan(OLH(epsilon), 500, **options).rmse(1e6) ** 2 / ideal < 1.11
    request.getfixturevalue("crowded")
    assert Plan(OLH(epsilon), 500, **options).rmse(1e6) ** 2 / ideal > 1.11


def test_lines_of_two_points_have_no_covariance():
    """BLH: no third category is on a line, so that sums are those of independent categories."""
    frequencies = np.full(500, 1 / 500)
    variance = BLH(1.0).channel(500).noise(1e6).variance(frequencies)
    matrix = query_matrix([np.arange(500) < 250])
    found = Plan(BLH(1.0), 500, frequencies=frequencies, queries=matrix).rmse(1e6)
    assert found**2 == pytest.approx(variance[:250].sum(), rel=1e-9)


@pytest.mark.parametrize(("n_categories", "hash_range"), [(2, 64), (8, 1021), (20, 4099)])
def test_the_covariance_where_functions_tell_all_categories_apart(
    n_categories, hash_range, monkeypatch
):
    """It is that of the law of all reports; with two digits there is no such short cut."""
    channel = OLH(1.3, hash_range=hash_range).channel(n_categories)
    assert channel.n_digits == 1
    frequencies = np.random.default_rng(0).dirichlet(np.ones(n_categories))
    every = np.eye(n_categories)
    found = channel.covariance(frequencies).matrix(every)
    monkeypatch.setattr(type(channel), "joint_support", None)
    expected = channel.covariance(frequencies).matrix(every)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    monkeypatch.undo()
    assert channel.joint_support is not None
    assert OLH(1.3, hash_range=4).channel(100).joint_support is None
