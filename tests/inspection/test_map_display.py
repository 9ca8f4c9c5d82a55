"""The map of cells, and what it refuses."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sklearn_ldp import OLH, Domain, FrequencyEstimate, SmoothMLE
from sklearn_ldp.inspection import FrequencyDisplay, MapDisplay

GRID = Domain.grid(Domain.bins(4, bounds=(0, 8)), Domain.bins(3, bounds=(-3, 3)))


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


def test_the_full_cell_alone_is_beyond_the_noise(estimate):
    for drawn in (estimate, SmoothMLE().fit(estimate).estimate_):
        within = MapDisplay.from_estimate(drawn).within_noise
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
    np.testing.assert_allclose(display.mesh_.get_array().ravel(), [0.1, 0.4 / 3] * 2)
    assert display.hatches_ is None
    assert display.ax_.get_title() == "noise unknown"


def test_other_categories_are_refused():
    with pytest.raises(
        ValueError, match="MapDisplay needs an estimate whose categories are the cells"
    ):
        MapDisplay.from_estimate(FrequencyEstimate([[0.5, 0.5]], ["a", "b"]))


def test_a_frame_has_the_bounds_of_cells(estimate):
    frame = estimate.to_frame(0.95)
    assert frame.columns[:5].tolist() == ["category", "x_low", "x_high", "y_low", "y_high"]
    for row in frame.itertuples():
        center = [[(row.x_low + row.x_high) / 2, (row.y_low + row.y_high) / 2]]
        assert GRID.decode(GRID.encode(center)).tolist() == [row.category]
