"""The main job on real histograms, if they are in a folder beside the checkout."""

import numpy as np
import pytest
from estimators import slow_but
from scipy import stats
from sklearn.base import clone

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    EmpiricalBayes,
    HadamardResponse,
    HeldOutSearch,
    NormSub,
    ProjectiveGeometryResponse,
    SubsetSelection,
    SyntheticSearch,
)
from sklearn_ldp.datasets import read_histogram
from sklearn_ldp.metrics import frequency_mse
from sklearn_ldp.model_selection import default_candidates
from sklearn_ldp.queries import full_domain, groups

FILES = {
    "RETAIL_one_item.csv.gz": (88_162, 16_470, []),
    "EMOJI_TRACKER2019_N884427.csv.gz": (884_427, 845, ["category"]),
    "US1940_CITY_1PCT_TOP915.csv.gz": (612_404, 915, ["category", "division", "region"]),
}
RETAIL, EMOJI, _ = FILES


def p_value_of_squares(estimate, truth, scale=1.0):
    """Return the p-value of the sum of squared standardised errors.

    A category's count is a sum of thousands of coins, and categories are as good as independent
    here, so the variance of the sum is widened by half.
    """
    z = (estimate.values - truth) / np.sqrt(estimate.noise.variance(truth))
    gap = (np.sum((z / scale) ** 2) - z.size) / np.sqrt(2 * z.size * 1.5)
    return 2 * stats.norm.sf(abs(gap))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("oracle", [OLH(), GRR()], ids=repr)
def test_main_job(shared_data, oracle, name, seed):
    """Collect, check the noise against Eq. 5, make it consistent, ask groups, choose.

    Error rate 1e-6; the negative control, a noise level 30 % off, must fail.
    """
    n_users, d, columns = FILES[name]
    data = read_histogram(shared_data(name))
    oracle = clone(oracle).set_params(categories=data.categories, random_state=seed)
    estimate = oracle.fit_transform(data.categories, sample_weight=data.counts)
    assert (oracle.n_samples_seen_, estimate.shape) == (n_users, (1, d))
    assert p_value_of_squares(estimate, data.frequencies) > 1e-6
    assert p_value_of_squares(estimate, data.frequencies, scale=1.3) < 1e-6

    consistent = NormSub().fit_transform(estimate)
    assert consistent.values.sum() == pytest.approx(1)
    assert frequency_mse(data.frequencies, consistent) < frequency_mse(data.frequencies, estimate)
    for queries in [full_domain(), *(groups(data.groups[column]) for column in columns)]:
        assert np.sum(consistent.answer(queries)) == pytest.approx(1)
        grouped = [EmpiricalBayes(groups=queries)] if queries.names else []
        errors = [
            frequency_mse(data.frequencies, clone(c).fit_transform(estimate), queries=queries)
            for c in (*default_candidates(), *grouped)
        ]
        for search in (SyntheticSearch(queries=queries, random_state=seed), HeldOutSearch()):
            pick = search.set_params(queries=queries).fit(estimate)
            error = frequency_mse(data.frequencies, pick.estimate_, queries=queries)
            assert min(errors) <= error <= max(errors)


QUICK_BY_USER = [
    GRR(),
    BLH(),
    OLH(3.0),
    HadamardResponse(),
    HadamardResponse(3.0, n_blocks="auto"),
    ProjectiveGeometryResponse(),
    ProjectiveGeometryResponse(2.0),
]
OLH_RETAIL = (OLH(3.0), RETAIL)  # few users in many categories
BY_BITS = [SUE(), OUE(), SubsetSelection(), SubsetSelection(4.0)]


@pytest.mark.parametrize(
    ("oracle", "name"),
    [
        *slow_but([OLH_RETAIL], [(oracle, RETAIL) for oracle in QUICK_BY_USER]),
        *((oracle, EMOJI) for oracle in QUICK_BY_USER),
        *(pytest.param(oracle, EMOJI, marks=pytest.mark.slow) for oracle in BY_BITS),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value),
)
def test_every_oracle_collects_real_users(shared_data, oracle, name, seed):
    """Each user's report is added up; errors against Eq. 5 at 1e-6, a control 30 % off."""
    data = read_histogram(shared_data(name))
    oracle = clone(oracle).set_params(categories=data.categories, random_state=seed)
    estimate = oracle.fit_transform(data.categories, sample_weight=data.counts)
    assert oracle.n_samples_seen_ == data.counts.sum() == FILES[name][0]
    assert p_value_of_squares(estimate, data.frequencies) > 1e-6
    assert p_value_of_squares(estimate, data.frequencies, scale=1.3) < 1e-6
    # The most frequent category: its own estimate, a z test at 1e-6.
    top = np.argmax(data.counts)
    std = np.sqrt(estimate.noise.variance(data.frequencies)[top])
    assert abs(estimate.values[0, top] - data.frequencies[top]) < 4.9 * std


@pytest.mark.slow
@pytest.mark.parametrize("name", [RETAIL, EMOJI])
@pytest.mark.parametrize("oracle", [*QUICK_BY_USER, *BY_BITS], ids=repr)
def test_every_oracle_simulates_real_users(shared_data, oracle, name, seed):
    """Simulated by the law of the counts (d bits per user would be 1.5e9), for five collections."""
    data = read_histogram(shared_data(name))
    oracle = clone(oracle).set_params(categories=data.categories, random_state=seed)
    estimate = oracle.simulate(data.counts, 5)
    assert p_value_of_squares(estimate, data.frequencies) > 1e-6
    assert p_value_of_squares(estimate, data.frequencies, scale=1.3) < 1e-6
