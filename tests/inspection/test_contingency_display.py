"""The heat map of a table of two columns, and the noise that it shows."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sklearn_ldp import (
    GRR,
    OLH,
    ColumnOracle,
    FrequencyEstimate,
    LatentClasses,
    MarginalOracle,
    NormSub,
)
from sklearn_ldp._core.statistics import departures
from sklearn_ldp.inference import independence
from sklearn_ldp.inspection import ContingencyDisplay

DOMAINS = {"sex": ["F", "M"], "smokes": ["no", "$yes$"], "visits": 4}
PAIRS = list(itertools.product("xyz", [0, 1]))
INDEPENDENT = np.outer([0.5, 0.3, 0.2], [0.6, 0.4]).ravel()


@pytest.fixture(scope="module")
def tables():
    """Visits depend on smoking, apart from one of them; sex depends on nothing."""
    rng = np.random.default_rng(0)
    smokes, sex = rng.integers(0, 2, (2, 40_000))
    several = 3 * rng.binomial(1, 0.3 + 0.4 * smokes)
    visits = np.where(rng.random(40_000) < 0.4, 1, several)
    names = [np.array(DOMAINS[name], dtype=object) for name in ("sex", "smokes")]
    users = np.column_stack([names[0][sex], names[1][smokes], visits.astype(object)])
    return MarginalOracle(3.0, domains=DOMAINS, random_state=0).fit_transform(users)


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


# -- what is drawn --------------------------------------------------------------------------------
def test_cells_are_what_the_table_holds(tables):
    display = ContingencyDisplay.from_estimate(tables, "smokes", "visits")
    table = tables["smokes", "visits"].values.reshape(2, 4)
    np.testing.assert_array_equal(display.frequencies, table)
    expected = table - np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    np.testing.assert_allclose(display.image_.get_array(), expected, atol=1e-12)
    assert labels(display.ax_.yaxis) == ["no", "$yes$"]
    assert labels(display.ax_.xaxis) == ["0", "1", "2", "3"]
    assert (display.ax_.get_ylabel(), display.ax_.get_xlabel()) == ("smokes", "visits")
    assert [text.get_text() for text in display.texts_] == [f"{f:.3f}" for f in table.ravel()]
    low, high = display.image_.get_clim()
    assert -low == high == np.abs(display.shown).max()
    assert "p < 0.001" in display.ax_.get_title()
    assert "dashed" in display.colorbar_.ax.get_ylabel()
    display.figure_.canvas.draw()


def test_cells_within_the_noise_are_hatched(tables):
    display = ContingencyDisplay.from_estimate(tables, "smokes", "visits", of="users")
    far = departures(tables["smokes", "visits"], 0.95, "users")
    expected = np.abs(far.differences) <= far.critical * far.std
    np.testing.assert_array_equal(display.within_noise, expected)
    assert 0 < expected.sum() < 8
    drawn = [path.get_extents().min + 0.5 for path in display.hatches_.get_paths()]
    cells = {(i, j) for j, i in np.array(drawn).astype(int)}
    assert cells == set(map(tuple, np.argwhere(expected)))
    assert display.noise_level == pytest.approx(far.critical * np.median(far.std))
    alone = ContingencyDisplay.from_estimate(tables, "sex", "smokes")
    assert alone.within_noise.all()
    assert alone.image_.get_clim()[1] > alone.noise_level
    no_cell = ContingencyDisplay(alone.frequencies, alone.categories, within_noise=np.zeros((2, 2)))
    assert no_cell.plot().hatches_ is None


@pytest.mark.parametrize("color", ["difference", "deviation", "frequency"])
def test_columns_in_the_other_order(tables, color):
    one = ContingencyDisplay.from_estimate(tables, "smokes", "visits", color=color)
    other = ContingencyDisplay.from_estimate(tables, "visits", "smokes", color=color)
    np.testing.assert_allclose(other.shown, one.shown.T, atol=1e-12)
    np.testing.assert_array_equal(other.within_noise, one.within_noise.T)
    assert labels(other.ax_.xaxis) == ["no", "$yes$"]
    assert other.ax_.get_ylabel() == "visits"


def test_what_the_colours_show(tables):
    table = tables["smokes", "visits"]
    by_std = ContingencyDisplay.from_estimate(tables, "smokes", "visits", color="deviation")
    far = departures(table, 0.95, "population")
    np.testing.assert_allclose(by_std.shown, far.differences / far.std)
    assert by_std.noise_level == far.critical
    np.testing.assert_array_equal(np.abs(by_std.shown) <= far.critical, by_std.within_noise)
    plain = ContingencyDisplay.from_estimate(tables, "smokes", "visits", color="frequency")
    low, _ = table.confidence_interval(simultaneous=True, of="population")
    np.testing.assert_array_equal(plain.within_noise, (low <= 0).reshape(2, 4))
    np.testing.assert_array_equal(plain.shown, plain.frequencies)
    assert plain.noise_level is None
    assert "may have no users" in plain.ax_.get_title()


def test_the_raw_estimate_decides_beside_a_model(tables):
    model = LatentClasses(2, n_mixtures=1).fit_transform(tables)
    display = ContingencyDisplay.from_estimate(model, "smokes", "visits")
    np.testing.assert_array_equal(display.frequencies.ravel(), model.row(("smokes", "visits")))
    far = departures(model["smokes", "visits"].as_raw(), 0.95, "population")
    within = np.abs(far.differences) <= far.critical * far.std
    np.testing.assert_array_equal(display.within_noise, within)
    assert display.p_value == model.independence("smokes", "visits").p_value[0]
    raw = tables["sex", "smokes"]
    assert raw.as_raw() is raw
    again = NormSub().fit_transform(raw).as_raw()
    assert again.is_raw
    np.testing.assert_array_equal(again.values, raw.values)
    unknown = FrequencyEstimate([[0.5, 0.5]], ["a", "b"], postprocessors=("Norm",))
    assert unknown.as_raw() is unknown


def test_an_estimate_over_pairs_in_any_order():
    counts = np.random.default_rng(0).multinomial(30_000, INDEPENDENT)
    estimate = OLH(3.0, categories=PAIRS, random_state=0).simulate(counts)
    order = np.random.default_rng(1).permutation(6)
    mixed = FrequencyEstimate(estimate.values[:, order], estimate.categories[order], estimate.noise)
    one, other = (ContingencyDisplay.from_estimate(e, "a", "b") for e in (estimate, mixed))
    rows, columns = (
        [c.index(v) for v in d] for c, d in zip(one.categories, other.categories, strict=True)
    )
    np.testing.assert_array_equal(other.frequencies, one.frequencies[np.ix_(rows, columns)])
    np.testing.assert_array_equal(other.within_noise, one.within_noise[np.ix_(rows, columns)])
    assert one.ax_.get_xlabel() == "b"
    assert ContingencyDisplay.from_estimate(estimate).ax_.get_xlabel() == ""
    assert one.p_value == independence(estimate).p_value[0]


def test_without_noise_nothing_is_hatched():
    estimate = FrequencyEstimate(
        INDEPENDENT[None], GRR(categories=PAIRS).simulate([9] * 6).categories
    )
    display = ContingencyDisplay.from_estimate(estimate)
    assert display.hatches_ is None
    assert display.ax_.get_title() == "noise unknown"
    np.testing.assert_allclose(display.shown, 0, atol=1e-12)
    with pytest.raises(ValueError, match="needs the noise of the raw estimate"):
        ContingencyDisplay.from_estimate(estimate, color="deviation")


def test_large_tables_have_no_numbers_and_turned_names():
    domains = {"a": [f"category {i}" for i in range(15)], "b": [f"value {i}" for i in range(16)]}
    users = np.array([["category 3", "value 2"], ["category 4", "value 9"]], dtype=object)
    oracle = MarginalOracle(1.0, domains=domains, random_state=0)
    tables = oracle.fit_transform(users, sample_weight=[50_000, 50_000])
    _, ax = plt.subplots()
    display = ContingencyDisplay.from_estimate(tables, "a", "b", ax=ax, cmap="PuOr")
    assert display.ax_ is ax
    assert display.image_.get_cmap().name == "PuOr"
    assert display.texts_ == []
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {45}
    assert not display.within_noise[3, 2]
    assert not display.within_noise[4, 9]


# -- the noise ------------------------------------------------------------------------------------
@pytest.mark.slow
def test_independent_columns_are_within_the_noise_at_the_level():
    """All cells in 150 collections: 90 % of them, within 4.5 standard errors (7e-6).

    Intervals of single cells do not hold for all of them at once.
    """
    rng = np.random.default_rng(0)
    oracle = GRR(2.0, categories=list(itertools.product("wxyz", "abc")), random_state=rng)
    frequencies = np.outer([0.4, 0.3, 0.2, 0.1], [0.5, 0.3, 0.2]).ravel()
    all_within, each_within = [], []
    for counts in rng.multinomial(5000, frequencies, size=150):
        far = departures(oracle.simulate(counts), 0.9, "population")
        scores = np.abs(far.differences) / far.std
        all_within.append(scores.max() <= far.critical)
        each_within.append(scores.max() <= 1.645)
    bound = 4.5 * np.sqrt(0.9 * 0.1 / 150)
    assert abs(np.mean(all_within) - 0.9) < bound
    assert abs(np.mean(each_within) - 0.9) > bound


# -- what does not fit ----------------------------------------------------------------------------
def test_what_is_no_table(tables):
    draw = ContingencyDisplay.from_estimate
    with pytest.raises(
        ValueError, match="no table of the columns 'age' and 'sex'. Use the columns of"
    ):
        draw(tables, "age", "sex")
    with pytest.raises(ValueError, match="no table of the columns 'sex' and 'sex'"):
        draw(tables, "sex", "sex")
    with pytest.raises(ValueError, match="Pass both, as in"):
        draw(tables, "sex")
    with pytest.raises(ValueError, match="color must be one of .* got 'ratio'"):
        draw(tables, "sex", "smokes", color="ratio")
    with pytest.raises(ValueError, match="0.5 <= level < 1"):
        draw(tables, "sex", "smokes", level=95)
    with pytest.raises(ValueError, match="all pairs of values of two attributes"):
        draw(GRR(2.0, categories=3).simulate([5, 5, 5]))
    with pytest.raises(ValueError, match="draws one estimate of a table, got 2 rows"):
        draw(GRR(2.0, categories=PAIRS).simulate([5] * 6, 2))
    columns = ColumnOracle(1.0, domains={"a": 2, "b": 2}).fit_transform(np.zeros((50, 2), int))
    with pytest.raises(ValueError, match="needs tables of two columns"):
        draw(columns, "a", "b")
    few = MarginalOracle(1.0, domains={"a": 2, "b": 2, "c": 2}, order=[("a", "b")], random_state=0)
    with pytest.raises(
        ValueError, match=r"no table of the columns 'c' and 'a'. .* tables \('a', 'b'\)\."
    ):
        draw(few.fit_transform(np.zeros((50, 3), int)), "c", "a")
    large = list(itertools.product(range(51), range(50)))
    with pytest.raises(ValueError, match="up to 2,500 cells, got 2,550"):
        draw(GRR(2.0, categories=large).simulate([1] * 2550))
