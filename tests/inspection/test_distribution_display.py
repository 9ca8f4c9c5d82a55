"""DistributionDisplay: what it draws is what the estimate says."""

import numpy as np
import pytest

from sklearn_ldp import Domain, FrequencyEstimate, MonotoneCDF, RangeOracle
from sklearn_ldp.inference import quantiles
from sklearn_ldp.inspection import DistributionDisplay
from sklearn_ldp.queries import prefixes, ranges

BINS = Domain.bins(8, bounds=(0, 40))
TRUTH = np.array([0, 1, 2, 4, 4, 3, 1, 1]) / 16


@pytest.fixture(scope="module")
def raw():
    counts = (16_000 * TRUTH).astype(int)
    users = np.repeat(np.arange(8) * 5 + 2.5, counts)
    return RangeOracle(2.0, categories=BINS, random_state=0).fit_transform(users)


def test_it_draws_densities_shares_bands_and_quantiles(raw):
    estimate = MonotoneCDF().fit_transform(raw)
    display = DistributionDisplay.from_estimate(estimate, truth=TRUTH)
    density, distribution = display.lines_
    np.testing.assert_allclose(density.get_ydata()[::2], estimate.values[0] / 5)
    np.testing.assert_allclose(distribution.get_ydata()[1:], estimate.answer(prefixes())[0])
    assert density.get_label() == "MonotoneCDF"
    low, high = raw.confidence_interval(0.95, ranges(8), simultaneous=True)
    np.testing.assert_allclose(display.density_band[1], low[0] / 5)
    np.testing.assert_allclose(display.density_band[2], high[0] / 5)
    low, high = raw.confidence_interval(0.95, prefixes(), simultaneous=True)
    _, band_low, band_high = display.distribution_band
    assert np.all(band_low[1:-1] >= low[0, :-1] - 1e-9)  # within [0, 1], and it does not fall
    assert np.all(band_high[1:-1] <= np.minimum(high[0, :-1], 1) + 1e-9)
    value, low, high = quantiles(estimate, [0.25, 0.5, 0.75], simultaneous=True)
    for found, expected in zip(display.quantiles[1:], (value, low, high), strict=True):
        np.testing.assert_array_equal(found, expected[0])
    assert display.figure_ is display.ax_[0].figure
    assert len(display.bands_) == 2
    bins = Domain.bins(32, bounds=(0, 8))
    fine = RangeOracle(2.0, categories=bins, random_state=0).fit_transform(np.arange(320) % 32 / 4)
    assert np.diff(DistributionDisplay.from_estimate(fine).density_band[0]).tolist() == [0.5] * 16


def test_money_is_drawn_on_a_logarithmic_axis():
    """A density is for a factor of 10, and labels are numbers as people write them."""
    bins = Domain.bins(4, bounds=(100, 1_000_000), scale="log")
    estimate = FrequencyEstimate([[0.1, 0.4, 0.3, 0.2]], bins)
    display = DistributionDisplay.from_estimate(estimate)
    assert display.ax_[1].get_xscale() == "log"
    np.testing.assert_allclose(display.lines_[0].get_ydata()[::2], estimate.values[0])
    assert display.ax_[1].xaxis.get_major_formatter()(10_000) == "10,000"
    years = FrequencyEstimate([[0.5, 0.5]], Domain.bins([1990], bounds=(1980, 2000)))
    assert years.categories.tolist() == ["[1980, 1990)", "[1990, 2000]"]
    assert DistributionDisplay.from_estimate(years).ax_[1].get_xscale() == "linear"


def test_a_second_one_on_the_same_axes_has_its_own_colour(raw):
    first = DistributionDisplay.from_estimate(raw)
    second = DistributionDisplay.from_estimator(MonotoneCDF().fit(raw), ax=first.ax_, lw=3)
    assert second.figure_ is first.figure_
    assert second.lines_[0].get_color() != first.lines_[0].get_color()
    assert second.lines_[1].get_linewidth() == 3
    silent = DistributionDisplay.from_estimate(FrequencyEstimate(TRUTH[None], BINS))
    assert (silent.bands_, silent.errorbar_) == ([], None)  # without noise


REFUSED = {
    "no bins": (
        lambda raw: {"estimate": FrequencyEstimate(TRUTH[None], range(8))},
        ValueError,
        "bins with bounds",
    ),
    "two single estimates": (
        lambda raw: {"estimate": raw[[0, 0]]},
        ValueError,
        "draws one estimate, got 2 rows",
    ),
    "a set": (
        lambda raw: {"estimate": {"age": raw}},
        TypeError,
        "draws one estimate, but got a set",
    ),
    "an array": (lambda raw: {"estimate": TRUTH}, TypeError, "needs a Freq"),
    "level 1": (lambda raw: {"level": 1.0}, ValueError, "level must satisfy"),
    "two true values": (
        lambda raw: {"truth": [0.5, 0.5]},
        ValueError,
        r"truth must have shape \(8,\)",
    ),
    "quantile 1.5": (lambda raw: {"quantiles": [1.5]}, ValueError, r"numbers in \(0, 1\)"),
    "one axis": (
        lambda raw: {"ax": DistributionDisplay.from_estimate(raw).ax_[0]},
        ValueError,
        "needs two axes",
    ),
}


@pytest.mark.parametrize(("options", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_it_refuses(raw, options, error, message):
    with pytest.raises(error, match=message):
        DistributionDisplay.from_estimate(**{"estimate": raw, **options(raw)})


def test_the_axes_end_where_the_bins_end(raw):
    for ax in DistributionDisplay.from_estimate(raw).ax_:
        assert ax.get_xlim() == (0, 40)
