"""Places: the domain of cells, their collection, their model and rectangles."""

import numpy as np
import pytest

from sklearn_ldp import (
    OLH,
    Domain,
    FrequencyEstimate,
    NormSub,
    RangeOracle,
    SmoothMLE,
    load_estimate,
)
from sklearn_ldp._core.numerics.nested_waves import nested_waves
from sklearn_ldp._core.numerics.simplex import norm_sub
from sklearn_ldp.collection import Aggregator, read_reports, write_reports
from sklearn_ldp.inference import combine
from sklearn_ldp.postprocessing._smooth_grid import _cell_posteriors, _Precision, _solved, _spiky
from sklearn_ldp.queries import between, rectangles
from sklearn_ldp.surveys._range_oracle import GridChannel, _GridQuestions, best_grid, grid_channel
from sklearn_ldp.utils import estimator_checks
from sklearn_ldp.utils._checks import (
    check_exact_epsilon_of,
)

EAST, NORTH = Domain.bins(8, bounds=(0, 8), clip=True), Domain.bins(6, bounds=(-3, 3))
GRID = Domain.grid(EAST, NORTH)
LEVELS = [(1, 6), (8, 1), (2, 1), (1, 2), (2, 2), (1, 1)]
CHANNEL = grid_channel(1.0, (8, 6), LEVELS, [1, 1, 1, 1, 2, 2])


AXIS_OF_TWO = Domain.bins(2, bounds=(0, 2))


def places(n, rng):
    """Coordinates of users around two towns."""
    towns = np.array([[2.5, -1.0], [6.0, 1.5]])
    return (towns[rng.integers(2, size=n)] + rng.normal(0, 0.8, (n, 2))).clip([0, -3], [8, 3])


def population(n):
    """Shares of cells: two blobs and two spikes."""
    x, y = np.mgrid[:n, :n] / n
    blobs = np.exp(-20 * ((x - 0.3) ** 2 + (y - 0.4) ** 2)) + np.exp(-60 * (x - y) ** 2) / 3
    shares = 0.8 * blobs / blobs.sum()
    shares[n // 4, n // 2] += 0.1
    shares[n // 2, n // 8] += 0.1
    return shares


# -- the domain ------------------------------------------------------------------------------------
def test_cells_are_pairs_of_intervals():
    assert GRID.shape == (8, 6)
    assert GRID.size == 48
    assert [len(ends) for ends in GRID.grid_ends] == [9, 7]
    assert GRID.decode([7]).tolist() == [("[1, 2)", "[-2, -1)")]
    assert GRID.encode([[9.5, 3.0], [-1.0, -3.0]]).tolist() == [47, 0]
    assert GRID == Domain.product([EAST, NORTH]) != Domain.grid(NORTH, EAST)
    assert Domain.product([EAST, 3]).grid_ends is None
    assert EAST.grid_ends is None


@pytest.mark.parametrize("frame", ["pandas", "polars", "pyarrow"])
def test_two_columns_of_any_frame(frame):
    library = pytest.importorskip(frame)
    users = places(50, np.random.default_rng(0))
    columns = {"lon": users[:, 0], "lat": users[:, 1]}
    table = library.table(columns) if frame == "pyarrow" else library.DataFrame(columns)
    np.testing.assert_array_equal(GRID.encode(table), GRID.encode(users))


def test_what_a_grid_refuses():
    with pytest.raises(ValueError, match="column 2"):
        GRID.encode([[1.0, 3.5]])
    for other in (
        Domain.bins([1, 2]),
        Domain.bins([1], bounds=(0, 2), missing=True),
        Domain(["a", "b"]),
    ):
        with pytest.raises(ValueError, match="Domain.grid needs two domains of bins"):
            Domain.grid(EAST, other)
    with pytest.raises(ValueError, match="Domain.grid needs two domains of bins"):
        Domain.grid(Domain.product([EAST, NORTH]), EAST)


# -- the collection --------------------------------------------------------------------------------
def test_waves_are_orthonormal_and_constant_on_blocks():
    for n in (2, 6, 7, 16):
        basis, widths = nested_waves(n)
        np.testing.assert_allclose(basis @ basis.T, np.eye(n), atol=1e-12)
        for wave, width in zip(basis, widths, strict=True):
            blocks = wave.reshape(-1, width)
            np.testing.assert_allclose(blocks, blocks[:, :1] + 0 * blocks, atol=1e-12)


def test_the_estimate_is_the_weighted_least_squares_fit():
    """The normal equations, solved by a general solver."""
    rng = np.random.default_rng(0)
    levels = [rng.normal(size=one.n_categories) for one in CHANNEL.mechanisms]
    normal, right = np.zeros((48, 48)), np.zeros(48)
    for j, level in enumerate(levels):
        sums = CHANNEL._on_level(np.eye(48), j).T
        np.testing.assert_array_equal(CHANNEL._from_level(np.eye(len(sums)), j), sums)
        normal += CHANNEL._precisions[j] * sums.T @ sums
        right += CHANNEL._precisions[j] * sums.T @ level
    with_sum = np.block([[normal, np.ones((48, 1))], [np.ones((1, 48)), np.zeros((1, 1))]])
    expected = np.linalg.solve(with_sum, np.r_[right, 1.0])[:-1]
    np.testing.assert_allclose(CHANNEL._fitted(levels, 1.0), expected, atol=1e-12)


def test_users_look_at_their_own_block():
    codes = np.arange(48)
    for j in range(len(LEVELS)):
        seen = CHANNEL.looked_at(codes, np.full(48, j))
        np.testing.assert_array_equal(
            np.eye(seen.max() + 1)[seen], CHANNEL._on_level(np.eye(48), j)
        )


@pytest.mark.parametrize(("shape", "n_users"), [((2, 2), 100), ((3, 2), 10**6), ((4, 2), 1000)])
def test_epsilon_is_exact_by_enumeration(shape, n_users):
    """On every outcome of the random numbers; the negative control claims a smaller epsilon."""
    channel = best_grid(1.0, shape, n_users).for_enumeration()
    assert len(channel.mechanisms) > 1
    cells = range(channel.n_categories)
    check_exact_epsilon_of(channel, cells, 1.0)
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(channel, cells, 0.9)


class SmallGrid(RangeOracle):
    """Two levels over any domain, so that few reports can be listed."""

    def _make_mechanism(self, domain):
        return grid_channel(self.epsilon, (1, domain.size), [(1, 1), (1, 1)], [1, 3])


NOT_FOR_ONE_REPORT = {
    "check_exact_support_probabilities",
    "check_unbiased_estimates",
    "check_joint_support",
    "check_covariance",
    "check_domains_epsilons_and_batches",
}


@pytest.mark.parametrize(
    "check",
    [
        check
        for check in estimator_checks.oracle_checks()
        # One report leaves the other level without users, whose estimate is refused.
        if check.__name__ not in NOT_FOR_ONE_REPORT
    ],
    ids=lambda check: check.__name__,
)
def test_contract(check):
    check(SmallGrid())


def test_bias_and_covariance(seed):
    """Five answers of 200 collections, at 5 standard errors: the error rate is 1e-5.

    The negative control expects half of the variance of each answer.
    """
    n, repeats = 4000, 200
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, rng.dirichlet(np.full(48, 0.4)))
    asked = np.vstack([rng.integers(0, 2, (4, 48)), np.eye(48)[5]])
    values, noise = CHANNEL.estimate_decoded(CHANNEL.simulate(counts, repeats, rng), np.array([n]))
    scaled = (values - counts / n) @ asked.T / np.sqrt(noise.answer_variance(asked, counts / n))
    assert np.abs(scaled.mean(axis=0)).max() < 5 / repeats**0.5
    spread = np.mean(scaled**2, axis=0)
    assert np.abs(spread - 1).max() < 5 * (2 / repeats) ** 0.5 < np.abs(2 * spread - 1).max()


def test_the_split_has_the_least_expected_error_of_rectangles():
    every = grid_channel(1.0, (16, 16), [(1, 1)], [1.0])
    chosen = best_grid(1.0, (16, 16), 100_000)
    assert chosen.rectangle_variance < 0.6 * every.rectangle_variance
    rows = np.array([np.outer(x, y).ravel() for x in np.tri(6) for y in np.tri(6)])
    small = grid_channel(1.0, (6, 6), [(1, 1)], [1.0])
    even = np.full(36, 1 / 36)
    ends = [(i, j) for i in range(6) for j in range(i + 1, 7)]
    ranges = np.array([[i <= k < j for k in range(6)] for i, j in ends], dtype=float)
    rows = np.einsum("ai,bj->abij", ranges, ranges).reshape(-1, 36)
    expected = small.covariance(even).variances(rows).mean()
    np.testing.assert_allclose(small.rectangle_variance, expected, rtol=0.05)
    assert best_grid(1.0, (5, 3), 100_000).n_categories == 15


def test_gains_are_the_slopes_of_the_criterion():
    """By differences of the logarithms of both mean variances, which are computed here again."""
    questions = _GridQuestions(1.0, (8, 4), 5000)
    shares = np.random.default_rng(0).dirichlet(np.ones(len(questions.widths)))

    def criterion(shares):
        precision = np.tensordot(shares, questions._precisions, 1)
        raw, by_model = (
            np.sum(np.delete(questions._squares / (precision + prior), 0))
            for prior in (1e-300, questions._prior)
        )
        return 0.2 * np.log(raw) + 0.8 * np.log(by_model)

    steps = 1e-6 * np.eye(len(shares))
    slopes = [(criterion(shares - step) - criterion(shares + step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(questions.gains(shares), slopes, rtol=1e-4)


def test_fewer_users_are_asked_about_larger_blocks():
    splits = [best_grid(0.5, (32, 32), n) for n in (10**3, 10**5, 10**9)]
    areas = [channel.probabilities @ np.prod(channel._widths, axis=1) for channel in splits]
    assert areas[0] > 1.2 * areas[1] > 1.2 * areas[2]
    raw = [channel.rectangle_variance for channel in splits]
    assert raw[0] > raw[1] > raw[2]
    for channel in splits:
        assert channel.probabilities.min() > 0.035
        assert [1, 1] in channel._widths.tolist()
        assert len(channel.mechanisms) <= 15


def test_the_default_number_of_users_of_a_grid():
    default, same, other = (
        RangeOracle(1.0, categories=GRID, expected_n_users=n).channel().configuration
        for n in (None, 100_000, 1000)
    )
    assert default == same != other


def test_files_pieces_and_groups(tmp_path):
    """Reports by files, in pieces, and from a saved estimate that is saved again."""
    users = places(3000, np.random.default_rng(0))
    oracle = RangeOracle(2.0, categories=GRID, random_state=0)
    estimate = oracle.fit_transform(users)
    pieces = RangeOracle(2.0, categories=GRID, random_state=0)
    pieces.partial_fit(users[:1000]).partial_fit(users[1000:])
    np.testing.assert_array_equal(pieces.frequencies_, estimate.values[0])
    server_oracle = RangeOracle(2.0, categories=GRID)
    protocol = server_oracle.protocol()
    reports = protocol.privatize(users)
    write_reports(tmp_path / "a.parquet", reports, protocol, batch_id="a")
    server = Aggregator(server_oracle)
    server.add(read_reports(tmp_path / "a.parquet", protocol), "a")
    assert server.estimate_.domain.grid_ends is not None
    estimate.save(tmp_path / "1.npz")
    again = load_estimate(tmp_path / "1.npz")
    again.save(tmp_path / "2.npz")
    twice = load_estimate(tmp_path / "2.npz")
    np.testing.assert_array_equal(twice.values, estimate.values)
    asked = between([((0, 4), (-3, 0))])
    for one in (again, twice):
        assert one.domain == GRID
        np.testing.assert_allclose(
            one.confidence_interval(0.95, asked), estimate.confidence_interval(0.95, asked)
        )


def test_a_forged_shape_is_refused():
    for name, value in [("_shape", (6, 9)), ("_shape", (48, 1)), ("_widths", np.full((6, 2), 5))]:
        forged = GridChannel(CHANNEL.mechanisms, CHANNEL.shares, (8, 6), LEVELS)
        forged.__check_state__()
        setattr(forged, name, value)
        with pytest.raises(ValueError, match="grid"):
            forged.__check_state__()


def test_few_users_are_refused():
    with pytest.raises(ValueError, match="each level of its grid of 48 bins.* Ask more users"):
        _ = RangeOracle(1.0, categories=GRID).fit([[1.0, 1.0]]).estimate_


# -- rectangles ------------------------------------------------------------------------------------
def test_random_rectangles_contain_a_cell():
    narrow = Domain.grid(AXIS_OF_TWO, AXIS_OF_TWO)
    rows = rectangles(200, random_state=0).aligned(narrow.categories, narrow).matrix(4)
    assert np.all(np.ravel(rows.sum(axis=1)) >= 1)


def test_rectangles_in_units_of_the_numbers():
    values = np.arange(1.0, 49) / np.arange(1, 49).sum()
    estimate, cells = FrequencyEstimate([values], GRID), values.reshape(8, 6)
    answers = estimate.answer(between([((0, 4), (-3, 0)), ((1.5, 2), (-np.inf, 3))]))
    assert answers.names == ["[0, 4) x [-3, 0)", "[1.5, 2) x [-inf, 3)"]
    np.testing.assert_allclose(answers[0], [cells[:4, :3].sum(), cells[1].sum() / 2])
    drawn = rectangles(20).aligned(estimate.categories, GRID).matrix(48).toarray().reshape(-1, 8, 6)
    for rectangle in drawn:
        rows, columns = rectangle.any(axis=1), rectangle.any(axis=0)
        assert rows.any()
        np.testing.assert_array_equal(rectangle, np.outer(rows, columns))
        assert (np.diff(np.flatnonzero(rows)) == 1).all()
    np.testing.assert_array_equal(estimate.answer(rectangles(5)), estimate.answer(rectangles(5)))


@pytest.mark.parametrize(
    "ranges",
    [[(65, None)], [(np.nan, 3)], [((0, 4), (3, None))]],
    ids=["open", "missing", "open rectangle"],
)
def test_a_range_with_an_open_end_has_an_infinite_stop(ranges):
    with pytest.raises(ValueError, match=r"Pass -np\.inf as the start or np\.inf as the stop"):
        between(ranges)


def test_what_rectangles_refuse():
    estimate = FrequencyEstimate([np.full(8, 1 / 8)], EAST)
    with pytest.raises(ValueError, match="the cells of a grid of two numbers"):
        estimate.answer(between([((0, 4), (-3, 0))]))
    with pytest.raises(ValueError, match="the cells of a grid of two numbers"):
        estimate.answer(rectangles(3))
    with pytest.raises(ValueError, match="a stop that is larger than the start"):
        between([((0, 4), (3, 0))])
    with pytest.raises(ValueError, match="outside of all bins"):
        FrequencyEstimate([np.full(48, 1 / 48)], GRID).answer(between([((9, 10), (0, 1))]))
    with pytest.raises(ValueError, match="rectangles got n_rectangles="):
        rectangles(0)


@pytest.mark.slow
def test_intervals_of_rectangles_cover(seed):
    """At 95 %, of 100 rectangles in 200 collections: .93 to .97 by far more than chance.

    Rectangles hang together, so the standard deviation of the mean is about .005. The negative
    control has intervals of half the length.
    """
    n, repeats = 20_000, 200
    rng = np.random.default_rng(seed)
    bins = Domain.bins(16, bounds=(0, 1))
    grid, counts = Domain.grid(bins, bins), rng.multinomial(n, population(16).ravel())
    oracle = RangeOracle(1.0, categories=grid, random_state=seed)
    estimate = oracle.simulate(counts, repeats)
    asked = rectangles(100).aligned(estimate.categories, grid).matrix(256)
    truth = asked @ (counts / n)
    low, high = estimate.confidence_interval(0.95, rectangles(100))
    covered = np.mean((low <= truth) & (truth <= high))
    assert 0.93 < covered < 0.975
    quarter = (high - low) / 4
    assert np.mean((low + quarter <= truth) & (truth <= high - quarter)) < 0.8


# -- the model -------------------------------------------------------------------------------------
@pytest.mark.parametrize("oracle", [OLH(1.0), RangeOracle(1.0)], ids=["OLH", "RangeOracle"])
def test_the_model_beats_raw_and_norm_sub(oracle, seed):
    """On blobs, a ridge and spikes; the ratio is about .5, with a spread of less than .1."""
    bins = Domain.bins(16, bounds=(0, 1))
    oracle = oracle.set_params(categories=Domain.grid(bins, bins), random_state=seed)
    counts = np.random.default_rng(seed).multinomial(100_000, population(16).ravel())
    raw = oracle.simulate(counts)
    truth = counts / counts.sum()
    found = [
        each.values[0] for each in (SmoothMLE().fit(raw).estimate_, NormSub().fit(raw).estimate_)
    ]
    smooth, projected = (np.abs(values - truth).sum() for values in found)
    assert smooth < 0.9 * projected
    assert found[0].min() >= 0
    np.testing.assert_allclose(found[0].sum(), 1.0)


def test_residuals_that_no_noise_explains():
    """An average that follows the data has no residuals but errors; noise beside it stays out."""
    rng = np.random.default_rng(0)
    noise = CHANNEL.noise(1000)
    precision = _Precision(noise, (8, 6))
    waves = rng.choice([-1.0, 1.0], (8, 6)) / np.sqrt(np.maximum(precision.weights, 1e-9))
    waves[0, 0] = 0.0
    rest = precision.left.T @ waves @ precision.right
    np.testing.assert_allclose(np.abs(precision.whitened(rest)).ravel()[1:], 1.0)
    np.testing.assert_array_equal(precision.unexplained(rest, np.zeros((8, 6))), 0.0)
    back = precision.left @ precision.unexplained(rest, np.ones((8, 6))) @ precision.right.T
    coarse = precision._bands < precision._bands.max()
    np.testing.assert_allclose(back[coarse], waves[coarse], atol=1e-12)
    np.testing.assert_allclose(back[~coarse], 0.0, atol=1e-12)


def test_nearest_frequencies_in_units_of_errors():
    """The slope is equal in all positive cells; negative control: Norm-Sub has other slopes."""
    rng = np.random.default_rng(0)
    precision = _Precision(CHANNEL.noise(1000), (8, 6))
    precision.weights = np.where(precision._bands == precision._bands.max(), 1.0, 30.0)
    precision.weights[0, 0] = 0.0
    cells = rng.dirichlet(np.full(48, 0.2)) + 0.02 * rng.normal(size=48)
    cells = (cells / cells.sum()).reshape(8, 6)
    nearest = precision.nearest(cells)
    assert nearest.min() >= 0
    np.testing.assert_allclose(nearest.sum(), 1.0)
    slope = precision.times(nearest - cells)
    np.testing.assert_allclose(slope[nearest > 0], slope.min(), atol=1e-3)
    other = norm_sub(cells.ravel()).reshape(8, 6)
    assert slope[nearest > 0].std() < 0.01 * precision.times(other - cells)[other > 0].std()
    lengths = [np.sum(precision.whitened(x - cells) ** 2) for x in (nearest, other)]
    assert lengths[0] < lengths[1]


def test_conjugate_gradients_solve_a_system():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(12, 12))
    matrix = factor @ factor.T + np.eye(12)
    right = rng.normal(size=12)
    near = np.linalg.inv(matrix + 0.1 * np.diag(rng.random(12)))
    for approximate in (None, lambda rest: near @ rest):
        solved = _solved(lambda x: matrix @ x, right, approximate)
        rest = matrix @ solved - right
        assert rest @ rest < 0.5 * right @ right
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, right), rtol=0.2, atol=0.02)


def test_uniform_users_make_the_model_uniform(seed):
    bins = Domain.bins(8, bounds=(0, 1))
    oracle = OLH(1.0, categories=Domain.grid(bins, bins), random_state=seed)
    model = SmoothMLE().fit(oracle.simulate(np.full(64, 1000)))
    raw = oracle.simulate(np.full(64, 1000)).values[0]
    assert np.abs(model.frequencies_ - 1 / 64).sum() < 0.5 * np.abs(raw - 1 / 64).sum()


def test_a_spike_stays_a_spike(seed):
    """A cell with 30 % of the users, and equal ones beside it; the smooth model loses."""
    bins = Domain.bins(8, bounds=(0, 1))
    counts = np.full(64, 700)
    counts[27] += 19_200
    raw = OLH(1.0, categories=Domain.grid(bins, bins), random_state=seed).simulate(counts)
    model = SmoothMLE().fit(raw)
    assert model.curve_weight_ < 0.1
    assert abs(model.frequencies_[27] - counts[27] / counts.sum()) < 0.05
    assert np.delete(model.frequencies_, 27).max() < 0.05


def test_rows_are_fitted_apart_and_changed_estimates_refused(seed):
    bins = Domain.bins(4, bounds=(0, 1))
    raw = OLH(1.0, categories=Domain.grid(bins, bins), random_state=seed)
    raw = raw.simulate(np.full(16, 500), 2)
    both = SmoothMLE().fit(raw)
    assert both.penalty_.shape == both.curve_weight_.shape == (2,)
    np.testing.assert_allclose(both.frequencies_[1], SmoothMLE().fit(raw[1]).frequencies_)
    with pytest.raises(ValueError, match="a raw estimate with known noise"):
        SmoothMLE().fit(NormSub().fit(raw).estimate_)


def test_estimates_of_two_collections_are_combined(seed):
    parts = [
        OLH(1.0, categories=GRID, random_state=seed + i).simulate(np.full(48, 99)) for i in (0, 1)
    ]
    # Precision weights warn by chance, in at most 1 % of collections.
    assert combine(parts, weights="users").domain.grid_ends is not None


@pytest.mark.parametrize(("n_users", "epsilon"), [(1, 0.1), (30, 1.0), (1000, 25.0)])
def test_few_users_and_little_noise_are_no_error(n_users, epsilon, seed):
    counts = np.random.default_rng(seed).multinomial(n_users, np.full(48, 1 / 48))
    oracle = OLH(epsilon, categories=GRID, random_state=seed)
    found = SmoothMLE().fit(oracle.simulate(counts)).frequencies_
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(), 1.0)
    if epsilon == 25:
        np.testing.assert_allclose(found, counts / n_users, atol=0.01)


@pytest.mark.parametrize("is_dependent", [False, True], ids=["independent", "dependent"])
def test_rough_margins_of_independent_numbers_are_found(is_dependent, seed):
    """The fit is as accurate as the product of both margins, which ruins dependent numbers.

    In 100 other pairs of collections of independent numbers, the logarithm of the ratio has the
    mean 0.00, the standard deviation 0.11, and the maximum 0.39. The threshold is at 0.69, which
    is 6 standard deviations. Without a prior for rough margins, the mean ratio is 2.5.
    """
    bins = Domain.bins(8, bounds=(0, 1))
    margin = 1 / np.array([3.0, 1.0, 6.0, 2.0, 8.0, 5.0, 7.0, 4.0])
    shares = np.outer(margin, margin) + is_dependent * 0.3 * np.eye(8)
    counts = np.rint(1_000_000 * shares / shares.sum()).astype(int)
    oracle = RangeOracle(
        1.0, categories=Domain.grid(bins, bins), expected_n_users=1_000_000, random_state=seed
    )
    raw = oracle.simulate(counts.ravel(), 2)
    cells = raw.values.reshape(2, 8, 8)
    products = (cells.sum(axis=2)[:, :, None] * cells.sum(axis=1)[:, None, :]).reshape(2, 64)
    truth = counts.ravel() / counts.sum()
    error, product_error = (
        np.abs(each - truth).sum() for each in (SmoothMLE().fit(raw).frequencies_, products)
    )
    assert error < (0.5 if is_dependent else 2.0) * product_error


@pytest.mark.parametrize("setting", [(0.01, 4.0), (0.1, 2.0)])
def test_centers_are_scaled_until_the_means_sum_to_one(setting):
    """The scale of the center does not matter. Nine halvings find it to within 2 %."""
    cells = np.random.default_rng(0).dirichlet(np.full(48, 0.3)).reshape(8, 6)
    variances = np.full((8, 6), 1e-4)
    center = np.full((8, 6), 1 / 48)
    fits = [_spiky(cells, variances, scale * center, *setting) for scale in (0.2, 1.0, 4.0)]
    for means, _, scaled, _ in fits:
        assert means.sum() == pytest.approx(1)
        np.testing.assert_allclose(scaled, fits[1][2], rtol=0.04)
        sums = _cell_posteriors(cells, variances, scaled, *setting)[1].sum()
        assert sums == pytest.approx(1, abs=0.02)
