"""Many populations in one call."""

import numpy as np
import pytest
from estimators import ORACLES, slow_but
from scipy import stats
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    Base,
    FrequencyEstimate,
    NoiseModel,
    NormSub,
    PowerNS,
    RangeOracle,
    SyntheticSearch,
)
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.oracles import estimate_by_group

N = 6000
VALUES = make_zipf(N, 8, random_state=0)
REGION = np.array(["east", "north", "west"])[np.random.default_rng(0).integers(3, size=N)]


@pytest.mark.parametrize("oracle", slow_but([GRR(), OLH(), RangeOracle()], ORACLES), ids=repr)
def test_groups_of_reports_are_collections_of_their_own(oracle):
    """Each row is exactly what an oracle estimates from the reports of that group alone."""
    oracle = clone(oracle).set_params(categories=8, random_state=0)
    reports = oracle.privatize(VALUES)
    oracle.set_params(input="reports")
    estimate = estimate_by_group(oracle, reports, REGION)
    assert estimate.row_names.tolist() == ["east", "north", "west"]
    assert not hasattr(oracle, "n_features_in_")  # it is not changed
    for i, region in enumerate(estimate.row_names):
        alone = clone(oracle).fit(reports[region == REGION]).estimate_
        np.testing.assert_array_equal(estimate.values[i], alone.values[0])
        assert estimate.noise.n_samples[i] == alone.noise.n_samples
        assert estimate[i].row_names.tolist() == [region]


def test_values_cost_one_collection_and_differ_by_group(seed):
    """Each group's raw errors have the variance of its own size.

    Error rate 1e-6: a chi-square test over groups and categories (widened by half, since GRR's
    categories are not independent). Negative control: the sizes in reverse order.
    """
    sizes = {"a": 400, "b": 40_000}
    counts = {
        name: make_zipf(n, 64, return_counts=True, random_state=seed) for name, n in sizes.items()
    }
    X = np.tile(np.arange(64), 2)
    by = np.repeat(list(sizes), 64)
    weight = np.concatenate(list(counts.values()))
    oracle = GRR(categories=64, random_state=seed)
    estimate = estimate_by_group(oracle, X, by, sample_weight=weight)
    assert estimate.noise.n_samples.tolist() == list(sizes.values())
    truth = np.array([c / c.sum() for c in counts.values()])

    def p_value(noise):
        z = ((estimate.values - truth) / np.sqrt(noise.variance(truth))).ravel()
        return 2 * stats.norm.sf(abs(np.sum(z**2) - z.size) / np.sqrt(2 * z.size * 1.5))

    assert p_value(estimate.noise) > 1e-6
    turned = NoiseModel(estimate.noise.p, estimate.noise.q, np.array([40_000, 400]))
    assert p_value(turned) < 1e-6


def test_a_seed_gives_groups_coins_of_their_own():
    """Two groups of the same values must not get the same coins, as with one seed per group."""
    same = np.tile(VALUES, 2)
    by = np.repeat([0, 1], N)
    estimate = estimate_by_group(OLH(categories=8, random_state=0), same, by)
    assert not np.array_equal(estimate.values[0], estimate.values[1])
    again = estimate_by_group(OLH(categories=8, random_state=0), same, by)
    np.testing.assert_array_equal(estimate.values, again.values)


def test_postprocessing_and_choosing_by_row():
    by = np.repeat(["small", "large"], [N // 10, N - N // 10])
    estimate = estimate_by_group(OLH(categories=8, random_state=0), VALUES, by)
    done = PowerNS().fit_transform(estimate)
    assert done.row_names.tolist() == ["large", "small"]
    for i in range(2):
        np.testing.assert_allclose(PowerNS().fit(estimate[i]).frequencies_, done.values[i])
    search = SyntheticSearch([Base(), NormSub()], random_state=0)
    assert search.fit(estimate).frequencies_.shape == (2, 8)
    low, high = estimate.confidence_interval()
    widths = (high - low).mean(axis=1)
    assert widths[1] / widths[0] == pytest.approx(3, rel=0.2)
    frame = NormSub().fit_transform(estimate).to_frame()
    assert frame.index.tolist() == ["large", "small"]
    assert frame.loc["small"].sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("X", "by", "weight", "what"),
    [
        (VALUES, [], None, "one label for each row"),
        (VALUES[:2], ["a", None], None, "missing label"),
        (VALUES, REGION[:-1], None, "inconsistent numbers of samples"),
        ([0, 1], ["a", "b"], [3, 0], r"groups without users: \['b'\]"),
        ([0, 9], ["a", "b"], None, "unknown category 9"),
    ],
)
def test_refusals(X, by, weight, what):
    with pytest.raises(ValueError, match=what):
        estimate_by_group(GRR(categories=8, random_state=0), X, by, sample_weight=weight)
    with pytest.raises(ValueError, match="2 rows but 1 row_names"):
        FrequencyEstimate([[1.0], [1.0]], ["a"], row_names=["x"])


@pytest.mark.parametrize("reads", ["values", "reports"])
def test_more_groups_than_fit_in_memory_at_a_time(monkeypatch, reads):
    """Twelve groups, five at a time, are the same collections as all at once."""
    oracle = OLH(categories=8, random_state=0)
    X, by = VALUES, np.arange(N) % 12
    if reads == "reports":
        X = oracle.privatize(VALUES)
        oracle.set_params(input="reports")
    whole = estimate_by_group(oracle, X, by)
    monkeypatch.setattr(
        "sklearn_ldp._core.mechanisms.counts._MAX_CELLS", 5 * oracle.channel().tally_size
    )
    banded = estimate_by_group(oracle, X, by)
    assert banded.row_names.tolist() == list(range(12))
    assert banded.noise == whole.noise
    if reads == "reports":
        np.testing.assert_array_equal(banded.values, whole.values)
    else:  # other coins, since users come in another order; but each user counts once
        z = (banded.values - whole.values) / np.sqrt(2 * whole.noise.variance(whole.values * 0))
        assert 0.1 < np.sqrt(np.mean(z**2)) < 2
    # Negative control: groups in reverse order.
    assert not np.allclose(banded.values, whole.values[::-1], atol=1e-3)


@pytest.mark.slow
def test_200_groups_of_42178_categories():
    """This once failed with "shards ... integers in [0, 0]"."""
    users = make_zipf(20_000, 42_178, random_state=0)
    estimate = estimate_by_group(GRR(categories=42_178), users, np.arange(20_000) % 200)
    assert estimate.shape == (200, 42_178)
    np.testing.assert_array_equal(estimate.noise.n_samples, np.full(200, 100))
