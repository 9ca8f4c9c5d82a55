"""The examples of the design's contract, run as they stand."""

import json

import numpy as np
import pytest
from joblib import Memory, parallel_config
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    Base,
    BaseCut,
    FrequencyEstimate,
    Norm,
    NormSub,
    Power,
    PowerNS,
)
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.learning import PrivatizedColumns
from sklearn_ldp.metrics import make_frequency_scorer
from sklearn_ldp.queries import groups

STATES = load_us_states(n_samples=20_000, random_state=0)
CATS = STATES.categories
VALUES = np.random.default_rng(0).permutation(np.repeat(CATS, STATES.counts))
LABELS = STATES.groups["division"]


@pytest.fixture
def pipe():
    oracle = OLH(epsilon=1.0, categories=CATS, random_state=0)
    return Pipeline([("oracle", oracle), ("post", NormSub())])


def test_1_simulate_a_collection_end_to_end(pipe):
    estimate = pipe.fit_transform(VALUES)
    assert isinstance(estimate, FrequencyEstimate)
    assert estimate.shape == (1, 51)
    np.testing.assert_array_equal(pipe[-1].frequencies_, np.asarray(estimate)[0])
    assert pipe[-1].frequencies_.sum() == pytest.approx(1)
    assert estimate.categories.tolist() == CATS.tolist()


def test_2_power_ns_is_power_followed_by_norm_sub():
    oracle = OUE(1.0, categories=CATS, random_state=0)
    pipe = Pipeline([("oracle", oracle), ("power", Power()), ("simplex", NormSub())])
    composed = pipe.fit_transform(VALUES)
    at_once = PowerNS().fit_transform(pipe[0].estimate_)
    np.testing.assert_array_equal(composed.values, at_once.values)


def test_4_grid_search_over_epsilon_and_methods(pipe):
    search = GridSearchCV(
        pipe,
        {"oracle__epsilon": [0.5, 1, 2], "post": [Base(), NormSub(), BaseCut(), PowerNS()]},
        cv=ShuffleSplit(2, test_size=0.5, random_state=0),
        scoring=make_frequency_scorer("mse", queries=groups(LABELS)),
        n_jobs=2,
        error_score="raise",
    )
    with parallel_config(backend="threading"):  # processes take seconds to start
        search.fit(VALUES)
    assert search.best_params_["oracle__epsilon"] == 2
    assert len(search.cv_results_["params"]) == 12
    assert np.all(search.cv_results_["mean_test_score"] < 0)
    assert search.best_estimator_[-1].frequencies_.shape == (51,)


SECRETS = ["alice-secret", "bob-secret"]


@pytest.mark.parametrize("is_pipeline", [True, False], ids=["Pipeline", "joblib.Memory"])
@pytest.mark.parametrize(
    "oracle", [GRR(categories=SECRETS), PrivatizedColumns(domains={"who": SECRETS})], ids=repr
)
def test_raw_values_reach_no_disk(tmp_path, oracle, is_pipeline):
    """joblib writes what a cached step is given; a simulation shows the file."""
    X = np.array(SECRETS)[:, None]
    oracle = type(oracle)(**oracle.get_params(deep=False))  # no clone, which would warn of refits

    def fit(oracle):
        if not is_pipeline:
            return Memory(tmp_path, verbose=0).cache(oracle.fit_transform)(X)
        return Pipeline([("oracle", oracle), ("post", Norm())], memory=str(tmp_path)).fit(X)

    make_pipeline(oracle, Norm()).fit(X)  # which calls it through joblib, but keeps nothing
    with pytest.raises(ValueError, match=f"{type(oracle).__name__} cannot be cached .*raw values"):
        fit(oracle)
    on_disk = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert b"alice-secret" not in b"".join(on_disk)
    fit(oracle.set_params(random_state=0))
    metadata = next(tmp_path.rglob("metadata.json")).read_text()
    assert "alice-secret" in json.loads(metadata)["input_args"]["X"]


def test_a_pipeline_caches_what_reports_become(tmp_path):
    reports = GRR(categories=CATS).privatize(VALUES[:50])
    oracle = GRR(categories=CATS, input="reports")
    pipe = Pipeline([("oracle", oracle), ("post", Norm())], memory=str(tmp_path)).fit(reports)
    assert pipe[0].n_samples_seen_ == 50
