"""The main job on real histograms, where they are laid beside the checkout."""

import numpy as np
import pytest
from estimators import ORACLES
from scipy import stats
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, HeldOutSearch, NormSub, SyntheticSearch
from sklearn_ldp.datasets import read_histogram
from sklearn_ldp.metrics import frequency_mse
from sklearn_ldp.model_selection import default_candidates
from sklearn_ldp.queries import full_domain, groups

FILES = {
    "RETAIL_one_item.csv.gz": (88_162, 16_470, []),
    "EMOJI_TRACKER2019_N884427.csv.gz": (884_427, 845, ["category"]),
    "US1940_CITY_1PCT_TOP915.csv.gz": (612_404, 915, ["category", "division", "region"]),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("oracle", [GRR(), OLH()], ids=repr)
def test_main_job(shared_data, name, oracle, seed):
    """Collect, check the noise against Eq. 5, make it consistent, ask groups, choose.

    Error rate 1e-6: a chi-square test of the sum of squared standardised errors (a category's
    count is a sum of thousands of coins, and categories are as good as independent here, so its
    variance is widened by half); its twin, a noise level 30 % off, must fail.
    """
    n_users, d, columns = FILES[name]
    data = read_histogram(shared_data(name))
    oracle = clone(oracle).set_params(categories=data.categories, random_state=seed)
    estimate = oracle.fit_transform(data.categories, sample_weight=data.counts)
    assert (oracle.n_samples_seen_, estimate.shape) == (n_users, (1, d))

    def p_value(scale):
        z = (estimate.values[0] - data.frequencies) / np.sqrt(
            estimate.noise.variance(data.frequencies)
        )
        gap = (np.sum((z / scale) ** 2) - d) / np.sqrt(2 * d * 1.5)
        return 2 * stats.norm.sf(abs(gap))

    assert p_value(1.0) > 1e-6
    assert p_value(1.3) < 1e-6

    consistent = NormSub().fit_transform(estimate)
    assert consistent.values.sum() == pytest.approx(1)
    assert frequency_mse(data.frequencies, consistent) < frequency_mse(data.frequencies, estimate)
    for queries in [full_domain(), *(groups(data.groups[column]) for column in columns)]:
        assert consistent.answer(queries).sum() == pytest.approx(1)
        errors = [
            frequency_mse(data.frequencies, clone(c).fit_transform(estimate), queries=queries)
            for c in default_candidates()
        ]
        for search in (SyntheticSearch(queries=queries, random_state=seed), HeldOutSearch()):
            pick = search.set_params(queries=queries).fit(estimate)
            error = frequency_mse(data.frequencies, pick.estimate_, queries=queries)
            assert min(errors) <= error <= max(errors)


def test_unary_encoding_of_a_large_domain_by_its_law(shared_data, seed):
    """d bits a report: 1.5e9 coins for Retail, so simulated; error rate 1e-9 (z test)."""
    data = read_histogram(shared_data("RETAIL_one_item.csv.gz"))
    oracle = clone(ORACLES[1]).set_params(categories=data.categories, random_state=seed)
    estimate = oracle.simulate(data.counts, 5)
    mse = frequency_mse(data.frequencies, estimate)
    expected = estimate.noise.variance(data.frequencies).mean()
    assert abs(mse / expected - 1) * np.sqrt(5 * 16_470 / 2) < 6.2
    assert abs(mse / (1.1 * expected) - 1) * np.sqrt(5 * 16_470 / 2) > 6.2
