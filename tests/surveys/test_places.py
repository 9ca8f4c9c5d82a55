"""What users do with a grid: searches, dense areas, files of other tools."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from sklearn_ldp import (
    OLH,
    Domain,
    FrequencyEstimate,
    MatrixOracle,
    Norm,
    NormSub,
    RangeOracle,
    SmoothMLE,
    SyntheticSearch,
    load_estimate,
)
from sklearn_ldp.collection import (
    Aggregator,
    CheckpointError,
    RefusedBatchError,
    aggregate,
    write_reports,
)
from sklearn_ldp.planning import Plan
from sklearn_ldp.queries import between, densest, rectangles
from sklearn_ldp.robustness import audit_epsilon

EAST, NORTH = Domain.bins(8, bounds=(0, 8), clip=True), Domain.bins(6, bounds=(-3, 3))
GRID = Domain.grid(EAST, NORTH)


def population():
    x, y = np.mgrid[:8, :6]
    shares = np.exp(-((x - 3) ** 2) / 8 - (y - 2) ** 2 / 3)
    return (shares / shares.sum()).ravel()


@pytest.fixture(scope="module")
def raw():
    codes = np.random.default_rng(0).choice(48, 20_000, p=population())
    users = np.column_stack([codes // 6 + 0.5, codes % 6 - 2.5])
    return RangeOracle(2.0, categories=GRID, random_state=0).fit_transform(users)


# -- the oracle and the queries of an estimate -----------------------------------------------------
def test_the_oracle_of_an_estimate_has_its_grid(raw):
    assert raw.oracle.categories is GRID
    again = raw.oracle.simulate(np.full(48, 100))
    assert again.domain.grid_ends is not None
    assert Plan(raw.oracle, queries=rectangles(5)).rmse(n_users=1000) > 0


@pytest.mark.parametrize(
    "queries", [rectangles(5), between([((0, 4), (-3, 1))])], ids=["random", "between"]
)
def test_searches_and_channels_for_rectangles(raw, queries):
    search = SyntheticSearch([NormSub(), Norm()], queries=queries, n_repeats=1, random_state=0)
    assert search.fit(raw).best_estimator_ is not None
    oracle = MatrixOracle(2.0, categories=GRID, queries=queries)
    assert oracle.channel().n_categories == 48


def test_ranges_of_numbers_define_a_channel():
    oracle = MatrixOracle(2.0, categories=EAST, queries=between([(0, 4)]))
    assert oracle.channel().n_categories == 8


def test_rectangles_of_whole_numbers_have_names_of_whole_numbers():
    years = Domain.bins(4, bounds=(0, 79), integers=True)
    estimate = OLH(2.0, categories=Domain.grid(years, NORTH), random_state=0).simulate([50] * 24)
    answers = estimate.answer(between([((0, 20), (-3, 0)), ((40, 80), (-1.5, 1))]))
    assert answers.names == ["0 to 19 x [-3, 0)", "40 to 79 x [-1.5, 1)"]


def test_fine_grids_are_fast_and_finer_ones_refused():
    fine = Domain.grid(*[Domain.bins(256, bounds=(0, 1))] * 2)
    queries = rectangles(20).aligned(fine.categories, fine)
    assert queries.matrix(fine.size).shape == (20, 1 << 16)
    for shape in ((1024, 2), (2, 1 << 18)):
        axes = [Domain.bins(n, bounds=(0, 1)) for n in shape]
        with pytest.raises(ValueError, match="at most 512 bins of each number .* Use fewer"):
            RangeOracle(1.0, categories=Domain.grid(*axes)).protocol()


# -- the smallest area that contains a share -------------------------------------------------------
def test_the_densest_area_has_the_densest_cells():
    """Over cells of different sizes: it contains the share, and all denser cells than its last."""
    grid = Domain.grid(Domain.bins([1, 3], bounds=(0, 4)), Domain.bins([2], bounds=(0, 3)))
    values = np.random.default_rng(0).dirichlet(np.ones(6))
    sizes = np.outer([1, 2, 1], [2, 1]).ravel()
    estimate = FrequencyEstimate([values], grid)
    for share in (0.3, 0.6):
        area = densest(estimate, share).aligned(estimate.categories).matrix(6).toarray()[0]
        assert area @ values >= share
        last = np.argmin(np.where(area > 0, values / sizes, np.inf))
        assert area @ values - values[last] < share
        rest = np.where(area > 0, np.inf, sizes / values)
        assert rest.min() >= (sizes / values)[area > 0].max()


def test_intervals_of_a_selected_area_need_other_users(raw):
    first, second = raw.of_shards(range(5)), raw.of_shards(range(5, 10))
    model = SmoothMLE().fit_transform(first)
    area = densest(model, [0.5, 0.9])
    interval = second.confidence_interval(0.95, area)
    assert interval.names == ["densest 50 %", "densest 90 %"]
    truth = area.aligned(raw.categories).matrix(48) @ population()
    assert np.all((interval.low[0] < truth) & (truth < interval.high[0]))
    assert model.answer(area)[0, 0] >= 0.5
    for estimate in (first, first - second, second - first):
        for queries in (area, [rectangles(2), area], area.aligned(raw.categories)):
            with pytest.raises(ValueError, match="the same estimate has selected .* other users"):
                estimate.confidence_interval(0.95, queries)


def test_what_densest_refuses(raw):
    with pytest.raises(ValueError, match="without negative frequencies.* post-process"):
        densest(raw)
    model = NormSub().fit_transform(raw)
    for shares in (0, 1.0, [], [[0.5]]):
        with pytest.raises(ValueError, match=r"densest needs shares in \(0, 1\)"):
            densest(model, shares)


def test_densest_of_bins_and_of_names():
    incomes = Domain.bins(4, bounds=(1, 10_000), scale="log")
    oracle = OLH(9.0, categories=incomes, random_state=0)
    model = NormSub().fit_transform(oracle.simulate([100, 5000, 3000, 100]))
    row = densest(model, 0.5).aligned(incomes.categories).matrix(4).toarray()[0]
    assert row.tolist() == [0, 1, 0, 0]  # per factor of 10, not per unit
    letters = NormSub().fit_transform(OLH(9.0, categories=["a", "b"]).simulate([10, 5000]))
    assert letters.answer(densest(letters, 0.9)).names == ["densest 90 %"]


def test_intervals_from_other_users_cover(seed):
    """At 95 %, in 200 collections of two halves: within 4.5 standard errors (error rate 1e-5).

    The negative control has the interval of the users who have selected the area.
    """
    n, repeats = 1000, 200
    rng = np.random.default_rng(seed)
    halves = [rng.multinomial(n, np.full(48, 1 / 48)) for _ in range(2)]
    first, second = (
        OLH(1.0, categories=GRID, random_state=rng.integers(2**32)).simulate(counts, repeats)
        for counts in halves
    )
    models = NormSub().fit_transform(first)
    covered = np.zeros((2, repeats), dtype=bool)
    for i in range(repeats):
        area = densest(models[i]).aligned(models.categories).matrix(48)
        for k, (half, counts) in enumerate(zip((first[i], second[i]), halves, strict=True)):
            low, high = half.confidence_interval(0.95, area)
            truth = area @ counts / n
            covered[k, i] = low[0, 0] <= truth[0] <= high[0, 0]
    same, other = covered.mean(axis=1)
    assert other > 0.95 - 4.5 * (0.95 * 0.05 / repeats) ** 0.5
    assert same < 0.5


# -- files of other tools, and the report ----------------------------------------------------------
def test_geojson_has_a_counterclockwise_polygon_for_each_cell(raw):
    model = SmoothMLE().fit_transform(raw)
    geojson = json.loads(json.dumps(model.to_geojson(0.9)))
    assert geojson["type"] == "FeatureCollection"
    frame = model.to_frame(0.9)
    for feature, (_, row) in zip(geojson["features"], frame.iterrows(), strict=True):
        (ring,) = np.array(feature["geometry"]["coordinates"])
        np.testing.assert_array_equal(ring[0], ring[-1])
        x, y = ring.T
        area = np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2  # positive if counterclockwise
        assert area == pytest.approx((row.x_high - row.x_low) * (row.y_high - row.y_low))
        assert (*ring.min(axis=0), *ring.max(axis=0)) == (
            row.x_low,
            row.y_low,
            row.x_high,
            row.y_high,
        )
        properties = feature["properties"]
        assert properties["category"] == " x ".join(row.category)
        assert properties["frequency"] == row.frequency
        assert (properties["low"], properties["high"]) == (row.low, row.high)


def test_geojson_needs_longitudes_and_latitudes(raw):
    meters = Domain.grid(EAST, Domain.bins(2, bounds=(0, 91)))
    for domain in (meters, EAST, ["a", "b"]):
        d = Domain.of(domain).size
        with pytest.raises(
            ValueError, match="needs cells of longitudes and latitudes.* Use to_frame"
        ):
            FrequencyEstimate([np.full(d, 1 / d)], domain).to_geojson()


def test_the_report_has_a_map(raw):
    page = raw.report().html
    cells = re.findall('<rect [^>]*fill-opacity="([^"]*)"( stroke)?', page)
    low, _ = raw.confidence_interval(0.95, simultaneous=True)
    assert sum(bool(stroke) for _, stroke in cells) == np.sum(low > 0) > 0
    assert max(float(opacity) for opacity, _ in cells) == 1.0
    assert "8 x 6 cells: 0 to 8 and -3 to 3" in page
    assert f"The densest cell has {100 * raw.values.max():.1f}" in page
    ElementTree.fromstring(re.search("<svg.*</svg>", page, re.DOTALL)[0])
    unknown = FrequencyEstimate([np.full(48, 1 / 48)], GRID).report().html
    assert "outline" not in unknown
    assert unknown.count("<rect") == 49
    large = Domain.grid(*[Domain.bins(65, bounds=(0, 1))] * 2)
    bars = FrequencyEstimate([np.full(65**2, 65**-2.0)], large).report().html
    assert "The 30 largest of 4,225" in bars


def test_the_map_of_a_report_has_logarithmic_axes():
    money = Domain.bins(4, bounds=(1, 10_000), scale="log")
    page = FrequencyEstimate([np.full(16, 1 / 16)], Domain.grid(money, money)).report().html
    assert page.count('width="22.00%" height="80.0"') == 16


# -- mistakes --------------------------------------------------------------------------------------
def test_columns_in_another_order_cause_a_warning():
    """If all numbers of a column are clipped; a few users outside of the bounds are no mistake."""
    grid = Domain.grid(EAST, Domain.bins(4, bounds=(46, 50), clip=True))
    oracle = RangeOracle(1.0, categories=grid)
    places = np.column_stack([np.linspace(1.25, 8.25, 200), np.linspace(46.25, 49, 200)])
    with pytest.warns(UserWarning, match="clipped all numbers .* of 0 to 8.* in the order of"):
        oracle.fit(places[:, :1] + [40.0, 0.25])
    assert oracle.fit(places).n_clipped_ > 0


def test_questions_about_one_number_name_rectangles(raw):
    for ask in (lambda: raw.answer(between([(1, 2)])), raw.median, raw.mean):
        with pytest.raises(ValueError, match="got the cells of two numbers. Ask for rectangles"):
            ask()


def test_audits_of_cells():
    """An audit of 20,000 reports of two cells; it exceeds epsilon once in 100 runs at most."""
    oracle = OLH(1.0, categories=GRID)
    result = audit_epsilon(oracle, n_trials=20_000, random_state=0)
    assert 0.8 < result.lower_bound < 1.0
    assert result.pair == (GRID.categories[0], GRID.categories[-1])
    with pytest.raises(TypeError, match="needs reports that support categories, got RangeOracle"):
        audit_epsilon(RangeOracle(1.0, categories=GRID))


# -- collections -----------------------------------------------------------------------------------
OTHER_GRIDS = {
    "transposed": Domain.grid(NORTH, EAST),
    "other bounds": Domain.grid(EAST, Domain.bins(6, bounds=(-3, 3.5))),
}


@pytest.mark.parametrize("name", OTHER_GRIDS)
def test_reports_of_two_grids_are_not_added_up(name, tmp_path):
    oracle, other = (RangeOracle(1.0, categories=grid) for grid in (GRID, OTHER_GRIDS[name]))
    rows = np.full((200, 2), 2.5)
    server = Aggregator(oracle).add(oracle.privatize(rows), "first")
    reports = other.privatize(rows)
    write_reports(tmp_path / "other.jsonl", reports, other, batch_id="other")
    with pytest.raises(RefusedBatchError, match="the categories or their order"):
        aggregate(tmp_path / "other.jsonl", oracle)
    with pytest.raises(RefusedBatchError):
        server.merge(Aggregator(other).add(reports, "other"))
    server.save(tmp_path / "state.npz")
    with pytest.raises(CheckpointError, match="not a checkpoint of this collection"):
        Aggregator.load(tmp_path / "state.npz", other)
    assert server.n_samples == 200


def test_a_growing_collection_is_saved_read_and_modeled(tmp_path):
    """A checkpoint for each batch, and an estimate of its model, which is saved twice."""
    oracle = RangeOracle(2.0, categories=GRID)
    rng = np.random.default_rng(0)
    server = Aggregator(oracle)
    for i in range(3):
        places = np.column_stack([rng.uniform(0, 8, 300), rng.uniform(-3, 3, 300)])
        server.add(oracle.privatize(places), f"batch {i}")
        server.save(tmp_path / "state.npz")
        server = Aggregator.load(tmp_path / "state.npz", oracle)
        model = SmoothMLE().fit_transform(server.estimate_)
        model.save(tmp_path / "1.npz")
        load_estimate(tmp_path / "1.npz").save(tmp_path / "2.npz")
        again = load_estimate(tmp_path / "2.npz")
        np.testing.assert_array_equal(again.values, model.values)
        assert again.to_geojson() == model.to_geojson()
        assert again.report().html == model.report().html
    assert server.n_samples == 900
    queries = rectangles(5)
    one_look = server.estimate_.confidence_interval(0.95, queries)
    all_looks = server.estimate_.confidence_interval(0.95, queries, at_all_times=True)
    assert np.all(all_looks.low <= one_look.low)
    assert np.all(all_looks.high >= one_look.high)
