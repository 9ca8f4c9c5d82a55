"""Worked examples of scikit-learn's model selection: over epsilon, and over post-processors.

On raw values every fold and candidate is a new collection from the same users, which is for
simulations only. On reports all of it is post-processing, and costs no privacy.
"""

import numpy as np
import pytest
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    ShuffleSplit,
    cross_val_score,
    cross_validate,
    validation_curve,
)
from sklearn.pipeline import Pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    Base,
    BaseCut,
    BasePos,
    NormSub,
    PostPos,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.metrics import frequency_mse, make_frequency_scorer, make_held_out_scorer
from sklearn_ldp.queries import groups, top_k

D = 64
VALUES = make_zipf(n_samples=8000, n_categories=D, random_state=0)
HALVES = groups(np.arange(D) % 8)
POSTPROCESSORS = [Base(), BasePos(), NormSub(), BaseCut()]


def pipeline(oracle):
    return Pipeline([("oracle", oracle.set_params(categories=D)), ("post", NormSub())])


def reports_pipeline(oracle, seed=0):
    """Return reports as clients send them, and a pipeline of the server that reads them."""
    client = type(oracle)(**{**oracle.get_params(), "categories": D, "random_state": seed})
    return client.privatize(VALUES), pipeline(oracle.set_params(input="reports"))


# -- on raw values: simulation ----------------------------------------------------------------
def test_grid_search_over_epsilon_and_methods():
    grid = {"oracle__epsilon": [0.5, 4.0], "post": POSTPROCESSORS}
    cv = ShuffleSplit(2, test_size=0.5, random_state=0)
    search = GridSearchCV(
        pipeline(OLH(random_state=0)), grid, cv=cv, scoring=make_frequency_scorer()
    )
    search.fit(VALUES)
    assert search.best_params_["oracle__epsilon"] == 4.0
    raw = [p["post"] == POSTPROCESSORS[0] for p in search.cv_results_["params"]]
    scores = search.cv_results_["mean_test_score"]
    assert search.best_score_ > scores[raw].max()
    assert search.best_estimator_[-1].frequencies_.shape == (D,)


def test_validation_curve_over_epsilon():
    """More budget means less error, down to the difference between the two halves of the users."""
    _, test = validation_curve(
        pipeline(OLH(random_state=0)).set_params(post=Base()),
        VALUES,
        None,
        param_name="oracle__epsilon",
        param_range=[0.5, 1.0, 2.0, 4.0],
        cv=ShuffleSplit(4, test_size=0.5, random_state=0),
        scoring=make_frequency_scorer(),
    )
    assert test.shape == (4, 4)
    assert np.all(np.diff(test.mean(axis=1)) > 0)
    assert test[0].mean() < 20 * test[3].mean()


def test_cross_validate_with_several_scorers():
    scoring = {
        "categories": make_frequency_scorer("mse"),
        "groups": make_frequency_scorer("mae", queries=HALVES),
        "top": make_frequency_scorer("mse", queries=top_k(5)),
    }
    results = cross_validate(pipeline(GRR(3.0, random_state=0)), VALUES, cv=3, scoring=scoring)
    for name in scoring:
        assert results[f"test_{name}"].shape == (3,)
        assert (results[f"test_{name}"] < 0).all()


# -- on reports: free -------------------------------------------------------------------------
@pytest.mark.parametrize(
    "oracle",
    [GRR(1.0), OUE(1.0), OLH(1.0), SubsetSelection(1.0), ProjectiveGeometryResponse(1.0)],
    ids=repr,
)
def test_grid_search_over_methods_on_reports(oracle):
    reports, pipe = reports_pipeline(oracle)
    search = GridSearchCV(
        pipe, {"post": POSTPROCESSORS}, cv=5, scoring=make_held_out_scorer(queries=HALVES)
    ).fit(reports)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_[0].n_samples_seen_ == len(VALUES)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert np.isfinite(search.score(reports))


def test_the_choice_on_reports_is_a_good_one(seed):
    """The choice is not the raw estimate, and has at most half of its error.

    A scorer that sees no difference would choose the raw estimate in a fourth of all runs. But the
    noise of the held-out reports is the same for all four candidates.
    """
    reports, pipe = reports_pipeline(OUE(0.5), seed)
    search = GridSearchCV(pipe, {"post": POSTPROCESSORS}, scoring=make_held_out_scorer())
    search.fit(reports)
    truth = np.bincount(VALUES, minlength=D) / len(VALUES)
    chosen = frequency_mse(truth, search.best_estimator_[-1].estimate_)
    raw = frequency_mse(truth, search.best_estimator_[0].estimate_)
    assert search.best_params_["post"] != POSTPROCESSORS[0]
    assert chosen < raw / 2


def test_validation_curve_over_a_parameter_of_the_post_processor():
    reports, pipe = reports_pipeline(OUE(1.0))
    pipe.set_params(post=BaseCut())
    _, test = validation_curve(
        pipe,
        reports,
        None,
        param_name="post__alpha",
        param_range=[0.1, 2.0, 60.0],
        cv=ShuffleSplit(4, test_size=0.25, random_state=0),
        scoring=make_held_out_scorer(),
    )
    assert test.shape == (3, 4)
    assert len(np.unique(test.mean(axis=1))) == 3


def test_cross_val_score_of_a_search_on_reports():
    """Nested: the inner search chooses, and the outer folds tell how good its choices are."""
    reports, pipe = reports_pipeline(OUE(1.0))
    scorer = make_held_out_scorer()
    inner = RandomizedSearchCV(
        pipe, {"post": [NormSub(), PostPos()]}, n_iter=2, cv=2, scoring=scorer, random_state=0
    )
    scores = cross_val_score(inner, reports, cv=3, scoring=scorer)
    assert np.isfinite(scores).all()


def test_folds_in_parallel_change_nothing():
    reports, pipe = reports_pipeline(OLH(1.0))
    one, two = (
        cross_val_score(pipe, reports, cv=3, scoring=make_held_out_scorer(), n_jobs=n_jobs)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_scores_on_reports_are_those_on_values_on_average(seed):
    """The score is also unbiased in cross-validation: a z test of 60 collections, at 1e-8.

    Both scorers see the same folds, one of them the reports and the other the values behind them.
    Negative control: the squared distance to the held-out estimate, including its variance.
    """
    few = VALUES[:400]
    rng = np.random.default_rng(seed)
    client = OUE(1.0, categories=D, random_state=rng)
    train, test = np.split(rng.permutation(400), [200])
    truth = np.bincount(few[test], minlength=D) / 200
    differences, biased = [], []
    for _ in range(60):
        reports = client.privatize(few)
        pipe = pipeline(OUE(1.0, input="reports")).fit(reports[train])
        score = make_held_out_scorer(queries=HALVES)(pipe, reports[test])
        error = frequency_mse(truth, pipe[-1].estimate_, queries=HALVES)
        held_out = pipe[0].transform(reports[test]).values[0]
        differences.append(score + error)
        biased.append(error - frequency_mse(held_out, pipe[-1].estimate_, queries=HALVES))
    for sample, is_unbiased in ((differences, True), (biased, False)):
        z = np.mean(sample) / (np.std(sample, ddof=1) / np.sqrt(60))
        assert (abs(z) < 6.5) == is_unbiased
