"""Searches and studies on a cluster: the same numbers as at home."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from test_model_selection import SEARCHES

from sklearn_ldp import OLH, OUE, Base, NormSub, PowerNS
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.queries import groups

pytest.importorskip("distributed")

COUNTS = np.arange(64) * 10


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_searches(client, search):
    oracle = OLH(categories=64, random_state=0)
    estimate = oracle.fit_transform(np.arange(64), sample_weight=COUNTS)
    candidates, queries = [Base(), NormSub(), PowerNS()], groups(np.arange(64) // 8)
    search = clone(search).set_params(candidates=candidates, queries=queries)
    at_home = -search.fit(estimate).results_["mean_test_score"]
    with parallel_config(backend="dask"):
        away = -search.fit(estimate).results_["mean_test_score"]
    np.testing.assert_array_equal(at_home, away)


@pytest.mark.slow
def test_studies(client, tmp_path):
    arguments = {"epsilons": [0.5, 1, 2], "n_repeats": 5}
    at_home = simulate_errors([OLH(), OUE()], "all", COUNTS, **arguments)
    with parallel_config(backend="dask"):
        away = simulate_errors(
            [OLH(), OUE()], "all", COUNTS, checkpoint=tmp_path / "study.jsonl", **arguments
        )
    np.testing.assert_array_equal(at_home.errors, away.errors)
