"""Subset selection, Hadamard and projective geometry response against their definitions.

Then what holds for every oracle: reports add up in any order and any split.
"""

import hashlib
from collections import Counter
from contextlib import suppress
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import comb

import numpy as np
import pytest
from estimators import ORACLES, slow_but
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import hadamard
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    HadamardResponse,
    MatrixOracle,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp._core.mechanisms.coins import Coins, SeededCoins, best_start, subset_table
from sklearn_ldp._core.numerics.transforms import walsh_hadamard
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

PROBABILITY_UNIT = 1 << 64
FIELDS = [2, 3, 4, 9]


def seeded_coins(seed):
    return SeededCoins(np.random.default_rng(seed))


def subset_counts(reports, d):
    """Return how often each set occurs, in the order of `combinations`."""
    sets = [sum(1 << i for i in subset) for subset in combinations(range(d), reports.shape[1])]
    return np.bincount((1 << reports.astype(int)).sum(axis=1), minlength=1 << d)[sets]


@pytest.mark.parametrize("n_bits", [0, 1, 4, 5, 6, 10])
def test_walsh_hadamard_is_exact_for_whole_numbers(n_bits):
    """Also for those that floats do not hold; against the matrix of its definition."""
    size = 1 << n_bits
    places = np.arange(size)
    signs = 1 - 2 * (np.bitwise_count(places[:, None] & places) & 1).astype(np.int64)
    rng = np.random.default_rng(n_bits)
    for most in (100, (1 << 62) // size):
        x = rng.integers(-most, most, (3, size))
        found = walsh_hadamard(x)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, x @ signs)
    reals = rng.standard_normal((2, 3, size))
    np.testing.assert_allclose(walsh_hadamard(reals), reals @ signs, rtol=0, atol=1e-11)


# -- Hadamard response ------------------------------------------------------------------------
@pytest.mark.parametrize("n_blocks", [1, 2, 8])
@pytest.mark.parametrize("d", [2, 3, 7, 8, 20, 60])
def test_hadamard_decoding_equals_the_definition(d, n_blocks):
    """Support counts follow from the rows of scipy's Hadamard matrix; with blocks, signed."""
    channel = HadamardResponse(n_blocks=n_blocks).channel(d)
    order = channel.n_reports // n_blocks
    assert order & (order - 1) == 0
    assert channel.tally_size == n_blocks * order
    assert n_blocks * (order - 1) >= d
    assert order == 2 or n_blocks * (order // 2 - 1) < d, "half the order would do"
    codes = np.arange(d)
    if n_blocks == 1:
        block, row = np.zeros(d, dtype=int), codes + 1
    else:
        block = channel.blocks
        row = np.array([np.count_nonzero(block[:v] == block[v]) for v in codes]) + 1
    matrix = np.zeros((d, n_blocks, order), dtype=int)  # no category gets row 0, all ones
    matrix[codes, block] = hadamard(order)[row]
    matrix = matrix.reshape(d, -1)
    reports = channel.privatize(np.arange(3000) % d, seeded_coins(0))
    signed = matrix[:, reports].sum(axis=1)
    expected = (signed + len(reports)) // 2 if n_blocks == 1 else signed
    np.testing.assert_array_equal(channel.count_support(reports), expected)
    tallies = np.array([channel.tally(reports), channel.tally(reports[:7])])
    np.testing.assert_array_equal(channel.decode(tallies)[1], channel.count_support(reports[:7]))


def test_hadamard_has_the_variance_of_blh_and_blocks_help_large_budgets():
    for d in (2, 100, 1000):
        one = HadamardResponse().channel(d)
        assert float(one.p) == pytest.approx(np.e / (np.e + 1), rel=1e-15)
        assert one.q * 2 == 1
    for epsilon, n_blocks in ((1.0, 2), (2.0, 4), (3.0, 16), (5.0, 128)):
        auto = HadamardResponse(epsilon, n_blocks="auto").channel(1024)
        assert auto.n_blocks == n_blocks
        B, E = n_blocks, np.exp(epsilon)
        assert auto.noise(1).null_variance == pytest.approx(2 * (E + 2 * B - 1) / (E - 1) ** 2)
    one, auto = (HadamardResponse(5.0, n_blocks=b).channel(1024) for b in (1, "auto"))
    assert auto.total_variance() < one.total_variance() / 10


# -- projective geometry response -------------------------------------------------------------
@pytest.mark.parametrize("g", FIELDS)
@pytest.mark.parametrize("d", [5, 40])
def test_projective_points_and_what_they_support(g, d):
    """Each point is the line of one vector with leading 1; all nonzero vectors lie on one.

    Each category is supported by c points, any two categories by c2, and decoding agrees. Uniform
    indices make uniform reports: they number the points that support a category, and the others.
    """
    channel = ProjectiveGeometryResponse(field_order=g).channel(d)
    t, field = channel.n_digits, channel.field
    assert channel.n_reports == (g**t - 1) // (g - 1) >= d
    assert t == 2 or (g ** (t - 1) - 1) // (g - 1) < d
    points, places = np.arange(channel.n_reports), g ** np.arange(t)
    vectors, _ = channel._vectors(points)
    assert len(np.unique(vectors)) == channel.n_reports
    digits = vectors[:, None] // places % g
    leading = t - 1 - np.argmax(digits[:, ::-1] != 0, axis=1)
    np.testing.assert_array_equal(digits[points, leading], 1)
    np.testing.assert_array_equal(channel._points(vectors), points)
    multiples = [field.multiply(digits, np.full_like(digits, x)) @ places for x in range(1, g)]
    np.testing.assert_array_equal(np.sort(np.ravel(multiples)), np.arange(1, g**t))

    product = np.zeros((channel.n_reports, d), dtype=np.int64)
    for m in range(t):
        product = field.add(product, field.multiply(digits[:, None, m], digits[None, :d, m]))
    supports = (product == 0).astype(np.int64)
    c, c2 = ((g ** (t - i) - 1) // (g - 1) for i in (1, 2))
    np.testing.assert_array_equal(supports.T @ supports, np.where(np.eye(d), c, c2))
    E = np.exp(1.0)
    p0 = 1 / ((E - 1) * c + channel.n_reports)
    assert float(channel.p) == pytest.approx(E * p0 * c, rel=1e-14)
    assert float(channel.q) == pytest.approx(p0 * ((E - 1) * c2 + c), rel=1e-14)
    reports = channel.privatize(np.arange(2000) % d, seeded_coins(0))
    np.testing.assert_array_equal(channel.count_support(reports), supports[reports].sum(axis=0))

    for code in range(d):
        members = channel._inside(np.full(c, code), np.arange(c))
        n_outside = channel.n_reports - c
        others = channel._outside(np.full(n_outside, code), np.arange(n_outside))
        np.testing.assert_array_equal(np.sort(members), np.flatnonzero(supports[:, code]))
        np.testing.assert_array_equal(np.sort(np.r_[members, others]), points)


def test_projective_default_is_as_near_the_optimum_as_the_docs_say():
    """Subset selection is the exact optimum; few categories leave a projective space half empty."""
    ratio = {}
    for d in (3, 5, 15, 50, 70, 100, 300, 1000, 1366, 5000, 42178):
        for epsilon in (0.25, 0.5, 1.0, 2.0, 3.0, 4.0):
            optimum = SubsetSelection(epsilon).channel(d).total_variance()
            near = ProjectiveGeometryResponse(epsilon).channel(d).total_variance()
            ratio[d, epsilon] = near / optimum
    assert min(ratio.values()) > 1 - 1e-9
    assert max(one for (d, epsilon), one in ratio.items() if d >= 1000 and epsilon <= 3) < 1.03
    assert 1.4 < max(ratio.values()) < 1.5


# -- both -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "oracle",
    [
        *(HadamardResponse(n_blocks=n) for n in (1, 4)),
        *(ProjectiveGeometryResponse(field_order=g) for g in FIELDS),
    ],
    ids=repr,
)
def test_reports_are_uniform_in_both_parts(oracle):
    """By enumeration: those that support the category, and all others; other categories differ."""
    channel = oracle.channel(12)
    share, n_inside = Fraction(channel.threshold, PROBABILITY_UNIT), channel.n_inside
    n_outside = channel.n_reports - n_inside
    laws = [exact_report_distribution(channel, code) for code in range(12)]
    for code, law in enumerate(laws):
        counts = Counter(law.values())
        assert counts == {share / n_inside: n_inside, (1 - share) / n_outside: n_outside}
        assert laws.index(law) == code


# -- subset selection -------------------------------------------------------------------------
@pytest.mark.parametrize(("n_items", "size"), [(6, 1), (6, 3), (9, 0), (5, 5), (17, 2)])
def test_coins_draw_uniform_subsets(n_items, size, seed):
    """Chi-square test at 1e-9 over all subsets of a size, drawn beside sizes that differ.

    The negative control adds missing members from the left, as a careless repair would.
    """
    n = 40_000
    sizes = np.where(np.arange(n) % 4 == 3, (size + 1) % (n_items + 1), size)
    bits = seeded_coins(seed).subsets(sizes, n_items)
    assert bits.shape == (n, n_items)
    np.testing.assert_array_equal(bits.sum(axis=1), sizes)
    if comb(n_items, size) > 1:
        chosen = np.nonzero(bits[sizes == size])[1].reshape(-1, size)
        assert stats.chisquare(subset_counts(chosen, n_items)).pvalue > 1e-9
        lazy = np.random.default_rng(seed).random((n, n_items)) < size / n_items
        lazy |= np.cumsum(~lazy, axis=1) <= size - lazy.sum(axis=1, keepdims=True)
        chosen = np.nonzero(lazy[lazy.sum(axis=1) == size])[1].reshape(-1, size)
        assert stats.chisquare(subset_counts(chosen, n_items)).pvalue < 1e-9


class _OneStep(Coins):
    """Coins that give one row of bits and one place, and stop whoever asks for more.

    All places of a round are the same: what a second visit finds is as the first one left it.
    """

    def __init__(self, mask, place=0):
        self.mask, self.place, self.n_asked = mask, place, 0

    def bytes(self, n):
        # Whether a digit of the share calls for "and" or for "or", equal rows give that row.
        return np.packbits(np.array(self.mask, dtype=bool)[None], axis=1).ravel()

    def integers(self, high, size):
        self.n_asked += 1
        if self.n_asked > 1:
            raise StopIteration
        return np.full(size, self.place)

    def _repair(self, flat, *others):
        self.flat = flat
        super()._repair(flat, *others)


def _stationary(n_items, size, step):
    """Return the exact law of the subset, from all outcomes of the bits and of each place."""
    masks = list(product([False, True], repeat=n_items))
    moves = np.zeros((len(masks), len(masks)))
    for i, mask in enumerate(masks):
        for place in range(n_items):
            moves[i, masks.index(step(mask, place))] += 1 / n_items
    # Any share will do.
    start = np.array([0.3 ** sum(mask) * 0.7 ** (n_items - sum(mask)) for mask in masks])
    done = np.array([sum(mask) == size for mask in masks])
    among = np.linalg.solve(np.eye((~done).sum()) - moves[~done][:, ~done].T, start[~done])
    return start[done] + among @ moves[~done][:, done]


@pytest.mark.parametrize(("n_items", "size"), [(3, 1), (3, 2), (4, 2), (4, 3)])
def test_law_of_repaired_subsets_is_uniform_by_enumeration(n_items, size):
    """All bits and all places are run through, one after the other by solving for the limit.

    Negative control: the first places of a row are repaired, instead of uniform ones.
    """

    def repaired(mask, place):
        coins = _OneStep(mask, place)
        with suppress(StopIteration):
            coins._repaired(np.array([size]), n_items, 1)
        return tuple(np.unpackbits(coins.flat, count=n_items).astype(bool).tolist())

    def careless(mask, place):
        wrong = sum(mask) > size
        after = list(mask)
        if sum(mask) != size:
            after[mask.index(wrong)] = not wrong
        return tuple(after)

    law = _stationary(n_items, size, repaired)
    np.testing.assert_allclose(law, 1 / comb(n_items, size), rtol=1e-12)
    assert np.ptp(_stationary(n_items, size, careless)) > 0.01


class _GivenWords(Coins):
    """Coins that give the words that are listed, one after the other."""

    def __init__(self, words):
        self.words = np.array(words, dtype="<u4").view(np.uint8)

    def bytes(self, n):
        given, self.words = self.words[:n], self.words[n:]
        return given


@pytest.mark.parametrize("n_items", [1, 4, 9, 16])
def test_law_of_listed_subsets_by_enumeration(n_items):
    """Of all words of 32 bits, equally many stand for each subset, counted by their ends.

    Negative control: with no word rejected, some subsets would have one word more.
    """
    table = subset_table(n_items)
    bits = np.unpackbits(table.sets.view(np.uint8).reshape(-1, 2), axis=1)
    assert len({row.tobytes() for row in bits}) == 2**n_items
    assert not bits[:, n_items:].any()

    def words_of_each(n_sets, limit):
        ends = [-((number << 32) // -n_sets) for number in range(n_sets + 1)]
        first = [-(((number << 32) + limit) // -n_sets) for number in range(n_sets)]
        return np.array(ends[1:]) - first

    for size, (start, n_sets, limit) in enumerate(
        zip(table.starts, map(int, table.n_sets), map(int, table.limits), strict=True)
    ):
        assert n_sets == comb(n_items, size)
        assert (bits[start : start + n_sets].sum(axis=1) == size).all()
        assert len(set(words_of_each(n_sets, limit))) == 1
        if limit:
            assert len(set(words_of_each(n_sets, 0))) == 2
            # The first word, whose rest is 0, is rejected; the next two are not.
            coins = _GivenWords([0, 2**32 - 1, 2**32 // n_sets + 2])
            second, last = coins._listed_subsets(np.array([size, size]), n_items)
            assert last.tobytes() == table.sets[start + n_sets - 1].tobytes()
            assert second.tobytes() == table.sets[start + 1].tobytes()


@pytest.mark.parametrize("n_items", [17, 24, 25, 99, 255])
def test_law_of_finished_subsets_by_enumeration(n_items):
    """The exact probability of a subset is the same however many of its members come first.

    Negative control: with the chances of subsets that are larger by one, it is not.
    """
    for size in {1, 2, n_items // 4, n_items // 2, n_items - 2, n_items - 1}:
        start = best_start(n_items, size)
        assert start.n_first % 8 == 0
        assert start.n_first + start.n_last == n_items

        def laws(chances, size=size, start=start):
            s = start.sixteenths
            for first, chance in enumerate(map(int, chances)):
                if 0 <= size - first <= start.n_last and first <= start.n_first:
                    coins = s**first * (16 - s) ** (start.n_first - first)
                    kept = Fraction(coins * chance, 16**start.n_first * PROBABILITY_UNIT)
                    yield kept / comb(start.n_last, size - first), comb(start.n_first, first) * kept

        each, shares = zip(*laws(start.chances), strict=True)
        assert len(set(each)) == 1
        assert start.is_kept == pytest.approx(float(sum(shares)))
        assert each[0] * comb(n_items, size) == sum(shares)
        wrong = best_start(n_items, size + 1 if size < n_items - 1 else size - 1).chances
        assert len({law for law, _ in laws(wrong)}) > 1


@pytest.mark.parametrize(
    ("epsilon", "d", "bound", "others"),
    [(1.0, 1024, 3762.7, {OUE: 3772.1, OLH: 3781.5}), (4.0, 16, 0.643, {GRR: 0.643, OUE: 2.216})],
)
def test_subset_selection_attains_the_minimax_bound(epsilon, d, bound, others):
    """The numbers in METHODS: n times the sum of all variances of Eq. 5.

    The bound is that of Ye and Barg (2018) for a uniform distribution, less the sampling
    variance 1 - 1/d of the users themselves, whose frequencies are what we estimate.
    """
    E, w = np.exp(epsilon), np.arange(1, d)
    least = ((d - 1) ** 2 / (d * (E - 1) ** 2) * (w * E + d - w) ** 2 / (w * (d - w))).min()
    channel = SubsetSelection(epsilon).channel(d)
    assert channel.total_variance() == pytest.approx(least - (1 - 1 / d), rel=1e-9)
    assert channel.total_variance() == pytest.approx(bound, rel=1e-3, abs=0.06)
    for cls, value in others.items():
        total = cls(epsilon).channel(d).total_variance()
        assert total == pytest.approx(value, abs=0.06 if value > 100 else 6e-4)
    one, grr = SubsetSelection(epsilon, subset_size=1).channel(d), GRR(epsilon).channel(d)
    assert (one.p, one.q) == (grr.p, grr.q)
    # The total of a pure oracle does not depend on the frequencies.
    assert channel.total_variance(np.eye(d)[0]) == pytest.approx(channel.total_variance())


# -- every oracle: any order, any split -------------------------------------------------------
D = 9
VALUES = np.arange(60) * 5 % D


@pytest.mark.parametrize("oracle", slow_but([OLH(), MatrixOracle()], ORACLES), ids=repr)
@settings(max_examples=10)
@given(
    order=st.permutations(range(4)),
    cuts=st.lists(st.integers(1, len(VALUES) - 1), min_size=3, max_size=3, unique=True),
)
def test_merge_is_associative_and_commutative(oracle, order, cuts):
    """((a + b) + c) + d is a + (b + (c + d)) in any order, bit by bit; merging keeps the parts."""
    server = clone(oracle).set_params(categories=D, n_shards=3)
    reports = clone(server).set_params(random_state=0).privatize(VALUES)
    ends = pairwise([0, *sorted(cuts), len(VALUES)])
    batches = [reports[start:stop] for start, stop in ends]
    parts = [clone(server).aggregate(batch) for batch in batches]
    before = [part.support_counts_ for part in parts]

    def added(servers):
        total = clone(server)
        for part in servers:
            total.merge(part)
        return total

    left = added(parts[i] for i in order)
    right = parts[order[3]]
    for i in order[2::-1]:
        right = added([parts[i], right])
    reader = clone(server).set_params(input="reports")
    for i in order:
        reader.partial_fit(batches[i])
    whole = clone(server).aggregate(reports)
    for total in (left, right, reader):
        np.testing.assert_array_equal(total.support_counts_, whole.support_counts_)
        assert total.support_counts_.dtype == np.int64
        assert total.n_samples_seen_ == len(VALUES)
    sizes = [np.sort(total.estimate_.shards.sizes) for total in (left, right)]
    np.testing.assert_array_equal(*sizes)
    np.testing.assert_array_equal([part.support_counts_ for part in parts], before)


@pytest.mark.parametrize("d", [3, 1030, 50_000])
def test_subsets_of_as_many_users_as_there_may_be(d):
    """Users times categories are beyond 64 bits; errors within 7 standard deviations.

    The error rate is below 3e-12 per category; that all of them are within 0.1 would be no noise.
    """
    n = 2**53 - 1
    counts = np.full(d, n // d)
    counts[0] += n - counts.sum()
    estimate = SubsetSelection(1.0, categories=d, random_state=0).simulate(counts, 2)
    assert estimate.values.sum(axis=1) == pytest.approx(1, abs=1e-9)
    z = (estimate.values - counts / n) / np.sqrt(estimate.noise.variance(counts / n))
    assert 0.1 < np.abs(z).max() < 7


@pytest.mark.parametrize("d", [2, 5, 30])
def test_points_of_many_users_are_looked_up(d):
    """The points are the same, whatever the codes' type; one user's cost no table."""
    oracle = ProjectiveGeometryResponse(1.0, categories=d)
    slow, quick = oracle.channel(), ProjectiveGeometryResponse(1.0, categories=d).channel()
    n_outside = quick.n_reports - quick.n_inside
    codes = np.repeat(np.arange(d, dtype=np.uint8), 500)
    slow.privatize(codes[:3], seeded_coins(0))
    quick.privatize(np.tile(codes, 100), seeded_coins(0))
    assert ("_listed" in vars(slow), "_listed" in vars(quick)) == (False, True)
    for points, n in (("_inside", quick.n_inside), ("_outside", n_outside)):
        index = np.resize(np.arange(n), len(codes))
        expected = getattr(slow, points)(codes.astype(np.int64), index)
        np.testing.assert_array_equal(getattr(quick, points)(codes, index), expected)


def test_a_seed_draws_the_sets_that_it_always_drew():
    """Faster draws must not change what studies report without anybody's notice.

    Sets of less than a sixteenth of more than 17 categories are drawn as in the first version.
    """
    small, large, packed = (hashlib.sha256() for _ in range(3))
    for d in (2, 3, 13, 64, 1000):
        for epsilon in (0.1, 1.0, 3.0, 5.0):
            oracle = SubsetSelection(epsilon, categories=d, random_state=d)
            reports = oracle.privatize(np.arange(700) % d)
            if oracle.channel().is_packed:
                packed.update(reports.tobytes())
            else:
                kind = small if reports.shape[1] * 16 < d - 1 else large
                kind.update(reports.astype("<i8").tobytes())
    drawn = [one.hexdigest()[:16] for one in (small, large, packed)]
    assert drawn == ["763411acca97a26c", "729a703fdb6e977e", "d7865b5872288415"]
