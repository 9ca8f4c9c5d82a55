"""The map of cells, and what it refuses."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from sklearn_ldp import OLH, Domain, FrequencyEstimate, NoiseModel, SmoothMLE
from sklearn_ldp.inspection import FrequencyDisplay, MapDisplay
from sklearn_ldp.queries import between

HALVES = Domain.bins(2, bounds=(0, 2))
GRID = Domain.grid(Domain.bins(4, bounds=(0, 8)), Domain.bins(3, bounds=(-3, 3)))
RANGES = [
    [((x, x + 2), (-3, 3)) for x in range(0, 8, 2)],
    [((0, 8), (y, y + 2)) for y in range(-3, 3, 2)],
]


@pytest.fixture(scope="module")
def estimate():
    counts = np.zeros(12, dtype=int)
    counts[5] = 20_000
    return OLH(4.0, categories=GRID, random_state=0).simulate(counts)


def test_cells_are_in_the_units_of_the_numbers(estimate):
    display = estimate.plot()
    assert isinstance(display, MapDisplay)
    np.testing.assert_array_equal(display.frequencies.ravel(), estimate.values[0])
    shown = display.mesh_.get_array().reshape(3, 4)
    np.testing.assert_array_equal(shown.T.ravel(), estimate.values[0])
    assert display.ax_.get_xlim() == (0.0, 8.0)
    assert display.ax_.get_ylim() == (-3.0, 3.0)
    display.figure_.canvas.draw()
    assert isinstance(estimate.plot(k=3), FrequencyDisplay)


def test_axes_have_the_names_of_the_numbers(estimate):
    def labels(display):
        return display.ax_.get_xlabel(), display.ax_.get_ylabel()

    assert labels(estimate.plot()) == ("x", "y")
    assert labels(estimate.plot(names=("age", "income"))) == ("age", "income")
    people = pd.DataFrame({"lon": [1.5, 2.0, 7.0] * 20, "lat": [0.5, -1.0, 2.0] * 20})
    oracle = OLH(4.0, categories=GRID, random_state=0).fit(people)
    assert labels(MapDisplay.from_estimator(oracle)) == ("lon", "lat")
    _, ax = plt.subplots()
    ax.set(xlabel="of the user")
    assert labels(estimate.plot(ax=ax)) == ("of the user", "")


def test_the_full_cell_alone_is_beyond_the_noise(estimate):
    for drawn in (estimate, SmoothMLE().fit(estimate).estimate_):
        display = MapDisplay.from_estimate(drawn)
        within = display.within_noise
        assert len(display.hatches_.get_paths()) == within.sum()
        assert not within.ravel()[5]
        assert within.sum() == 11


def test_on_a_map_of_the_user(estimate):
    _, ax = plt.subplots()
    display = MapDisplay.from_estimate(estimate, ax=ax, extent=(10, 20, 30, 40), alpha=0.5)
    assert display.ax_ is ax
    assert (display.ends[0][0], display.ends[0][-1], *display.ends[1][[0, -1]]) == (10, 20, 30, 40)


def test_cells_of_different_sizes_show_densities():
    grid = Domain.grid(Domain.bins([1], bounds=(0, 4)), Domain.bins(2, bounds=(0, 2)))
    display = FrequencyEstimate([[0.1, 0.1, 0.4, 0.4]], grid).plot()
    np.testing.assert_allclose(display.mesh_.get_array().ravel(), [0.2, 0.8 / 3] * 2)
    assert display.colorbar_.ax.get_ylabel() == "frequency, for a cell of the mean size"
    assert display.hatches_ is None
    assert display.ax_.get_title() == "noise unknown"


def test_other_categories_are_refused():
    with pytest.raises(
        ValueError, match="MapDisplay needs an estimate whose categories are the cells"
    ):
        MapDisplay.from_estimate(FrequencyEstimate([[0.5, 0.5]], ["a", "b"]))
    cells = np.full((2, 12), 1 / 12)
    with pytest.raises(TypeError, match="needs a FrequencyEstimate, got ndarray"):
        MapDisplay.from_estimate(cells)
    with pytest.raises(ValueError, match="one estimate|single estimate|2 estimates"):
        MapDisplay.from_estimate(FrequencyEstimate(cells, GRID))


def test_a_frame_has_the_bounds_of_cells(estimate):
    frame = estimate.to_frame(0.95)
    assert frame.columns[:5].tolist() == ["category", "x_low", "x_high", "y_low", "y_high"]
    for row in frame.itertuples():
        center = [[(row.x_low + row.x_high) / 2, (row.y_low + row.y_high) / 2]]
        assert GRID.decode(GRID.encode(center)).tolist() == [row.category]


def test_margins_have_bands_of_the_raw_estimate(estimate):
    model = SmoothMLE().fit_transform(estimate)
    display = model.plot()
    for axis, (margin, inset) in enumerate(zip(display.margins, display.margins_, strict=True)):
        values, low, high = margin
        np.testing.assert_allclose(values, model.values[0].reshape(4, 3).sum(axis=1 - axis))
        queries = between(RANGES[axis])
        ends = estimate.confidence_interval(0.95, queries, simultaneous=True)
        np.testing.assert_allclose((low, high), np.squeeze(ends, 1), atol=1e-12)
        shown, band = inset.patches
        np.testing.assert_allclose(shown.get_data().values, values)
        np.testing.assert_allclose(band.get_data().values, high)
    assert display.margins_[0].get_xlim() == display.ax_.get_xlim() == (0.0, 8.0)
    display.figure_.canvas.draw()
    _, ax = plt.subplots()
    assert MapDisplay.from_estimate(estimate, ax=ax).margins_ == []
    assert len(MapDisplay.from_estimate(estimate, ax=ax, margins=True).margins_) == 2


def test_contours_surround_the_densest_cells(estimate):
    model = SmoothMLE().fit_transform(estimate)
    display = model.plot(contours=[0.5])
    assert list(display.areas) == ["densest 50 %, estimated"]
    (outline,) = display.outlines_
    corners = {(x, y) for side in outline.get_segments() for x, y in side.tolist()}
    assert corners == {(2.0, 1.0), (4.0, 1.0), (2.0, 3.0), (4.0, 3.0)}  # of the full cell
    assert len(outline.get_segments()) == 4
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match="densest needs one estimate without negative"):
        estimate.plot(contours=[0.5])


def test_logarithmic_bins_have_a_logarithmic_axis():
    money = Domain.bins(6, bounds=(1, 1e6), scale="log")
    display = FrequencyEstimate([np.full(12, 1 / 12)], Domain.grid(HALVES, money)).plot()
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("linear", "log")
    np.testing.assert_allclose(display.mesh_.get_array().ravel(), 1 / 12)


def test_unknown_covariances_leave_the_margins_without_bands():
    noise = NoiseModel(0.5, 0.25, 1000)
    display = FrequencyEstimate([np.full(12, 1 / 12)], GRID, noise).plot()
    assert display.within_noise is not None
    assert np.isnan(display.margins[0][1:]).all()
    with pytest.raises(ValueError, match="of"):
        FrequencyEstimate([np.full(12, 1 / 12)], GRID, noise).plot(of="friends")


def test_many_contours_have_a_line_each(estimate):
    display = SmoothMLE().fit_transform(estimate).plot(contours=np.linspace(0.1, 0.9, 9))
    assert len(display.outlines_) == 9
    looks = [(str(x.get_color()), str(x.get_linestyle())) for x in display.outlines_]
    assert len(set(looks)) == 9


def test_the_title_explains_the_hatching(estimate):
    display = MapDisplay.from_estimate(estimate, level=0.9)
    first, second = display.ax_.get_title().split("\n")
    assert first == "hatched: the cell may have no users"
    assert second == "(its simultaneous 90 % interval contains 0)"
