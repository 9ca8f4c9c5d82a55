"""Worked examples of scikit-learn's model selection: over epsilon, and over post-processors.

On raw values every fold and candidate is a new collection from the same users, which is for
simulations only. On reports all of it is post-processing, and costs no privacy.
"""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import (
    GridSearchCV,
    LearningCurveDisplay,
    RandomizedSearchCV,
    ShuffleSplit,
    ValidationCurveDisplay,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    Base,
    BaseCut,
    BasePos,
    ColumnOracle,
    Consistent,
    FrequencyEstimate,
    ItemOracle,
    LocalMean,
    MarginalOracle,
    NoiseModel,
    NormSub,
    PostPos,
    PrivacyWarning,
    SyntheticSearch,
    load_estimate,
)
from sklearn_ldp._core.estimates import remembered_values
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.metrics import (
    frequency_mse,
    held_out_score,
    make_frequency_scorer,
    make_held_out_scorer,
)
from sklearn_ldp.model_selection import least_epsilon
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


# -- on reports: free -------------------------------------------------------------------------
def test_the_choice_on_reports_is_a_good_one(seed):
    """The choice is not the raw estimate, and has at most half of its error.

    A scorer that sees no difference would choose the raw estimate in a fourth of all runs. But the
    noise of the held-out reports is the same for all four candidates.
    """
    reports, pipe = reports_pipeline(OUE(0.5), seed)
    search = GridSearchCV(pipe, {"post": POSTPROCESSORS}, scoring=make_held_out_scorer())
    search.fit(reports)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.best_estimator_[0].n_samples_seen_ == len(VALUES)
    assert np.isfinite(search.score(reports))
    truth = np.bincount(VALUES, minlength=D) / len(VALUES)
    chosen = frequency_mse(truth, search.best_estimator_[-1].estimate_)
    raw = frequency_mse(truth, search.best_estimator_[0].estimate_)
    assert search.best_params_["post"] != POSTPROCESSORS[0]
    assert chosen < raw / 2


def test_folds_in_parallel_change_nothing():
    """Nested: the inner search chooses, and the outer folds tell how good its choices are."""
    reports, pipe = reports_pipeline(OLH(1.0))
    scorer = make_held_out_scorer()
    inner = RandomizedSearchCV(
        pipe, {"post": [NormSub(), PostPos()]}, n_iter=2, cv=2, scoring=scorer, random_state=0
    )
    with parallel_config(backend="threading"):  # processes take seconds to start
        one, two = (
            cross_val_score(inner, reports, cv=3, scoring=scorer, n_jobs=n_jobs)
            for n_jobs in (1, 2)
        )
    assert np.isfinite(one).all()
    np.testing.assert_array_equal(one, two)


def assert_mean_is_zero(values, limit):
    z = np.mean(values) / (np.std(values, ddof=1) / np.sqrt(len(values)))
    assert abs(z) < limit, f"the mean differs from 0 (z = {z:.1f})"


def test_scores_of_folds_of_reports_are_unbiased(seed):
    """The score of held-out reports is minus the error with respect to their users' values.

    z test of 60 collections: |t| >= 6.5 with 59 degrees of freedom has probability 2e-8. Negative
    control: the squared distance to the held-out estimate also contains its variance.
    """
    values = VALUES[:400]
    rng = np.random.default_rng(seed)
    client = OUE(1.0, categories=D, random_state=rng)
    train, test = np.split(rng.permutation(400), [200])
    truth = np.bincount(values[test], minlength=D) / 200
    scorer = make_held_out_scorer(queries=HALVES)
    gaps = []
    gaps_with_variance = []
    for _ in range(60):
        reports = client.privatize(values)
        pipe = pipeline(OUE(1.0, input="reports")).fit(reports[train])
        estimate = pipe[-1].estimate_
        error = frequency_mse(truth, estimate, queries=HALVES)
        held_out = pipe[0].transform(reports[test]).values[0]
        gaps.append(error + scorer(pipe, reports[test]))
        gaps_with_variance.append(error - frequency_mse(held_out, estimate, queries=HALVES))
    assert_mean_is_zero(gaps, limit=6.5)
    with pytest.raises(AssertionError, match="the mean differs from 0"):
        assert_mean_is_zero(gaps_with_variance, limit=6.5)


# -- displays ---------------------------------------------------------------------------------
@pytest.mark.parametrize("negate", [False, True])
def test_curve_displays_name_the_score(negate):
    """The label tells whether the axis shows the error or its negative."""
    pipe, scorer = pipeline(GRR(random_state=0)), make_frequency_scorer()
    kwargs = {"cv": 2, "scoring": scorer, "negate_score": negate}
    epsilons = {"param_name": "oracle__epsilon", "param_range": [0.5, 2.0, 4.0]}
    curves = ValidationCurveDisplay.from_estimator(pipe, VALUES, None, **epsilons, **kwargs)
    assert np.all(np.diff(curves.test_scores.mean(axis=1)) > 0)
    learning = LearningCurveDisplay.from_estimator(
        pipe, VALUES, None, train_sizes=[0.5, 1.0], **kwargs
    )
    for display in (curves, learning):
        expected = "Frequency mse" if negate else "Negative frequency mse"
        assert display.ax_.get_ylabel() == expected


def test_names_of_scorers():
    scorers = [make_frequency_scorer("mae"), make_held_out_scorer()]
    names = ["neg_frequency_mae", "neg_held_out_mse"]
    assert [scorer.__name__ for scorer in scorers] == names
    assert [pickle.loads(pickle.dumps(scorer)).__name__ for scorer in scorers] == names


# -- weights, and metadata routing ------------------------------------------------------------
# Every category is in both folds, with other numbers of users.
ROWS = np.tile(np.arange(D), 2)
USERS = np.random.default_rng(0).integers(1, 500, 2 * D)
FOLDS = [(np.arange(D), np.arange(D, 2 * D)), (np.arange(D, 2 * D), np.arange(D))]


def score_by_hand(pipe, weights):
    scores = []
    for train, test in FOLDS:
        fitted = clone(pipe).fit(ROWS[train], oracle__sample_weight=weights[train])
        truth = np.bincount(ROWS[test], weights[test], minlength=D) / weights[test].sum()
        scores.append(-frequency_mse(truth, fitted[-1].estimate_))
    return scores


def splits(search):
    return [search.cv_results_[f"split{i}_test_score"][0] for i in range(2)]


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def test_a_search_without_routing_tells_that_it_loses_the_weights():
    pipe = pipeline(GRR(3.0, random_state=0))
    search = GridSearchCV(pipe, {}, cv=FOLDS, scoring=make_frequency_scorer())
    with pytest.warns(UserWarning, match="enable_metadata_routing=True") as caught:
        search.fit(ROWS, oracle__sample_weight=USERS)
    assert len(caught) == 1
    by_hand = score_by_hand(pipe, USERS)
    assert not np.isclose(splits(search), by_hand).any()


def routed(oracle_request=True, score_request=True):
    oracle = GRR(3.0, random_state=0).set_fit_request(sample_weight=oracle_request)
    scorer = make_frequency_scorer().set_score_request(sample_weight=score_request)
    return pipeline(oracle), scorer


@pytest.mark.usefixtures("routing")
def test_routed_weights_reach_the_fit_and_the_truth():
    pipe, scorer = routed()
    for copy_ in (scorer, pickle.loads(pickle.dumps(scorer)), clone(scorer, safe=False)):
        search = GridSearchCV(pipe, {}, cv=FOLDS, scoring=copy_).fit(ROWS, sample_weight=USERS)
        with config_context(enable_metadata_routing=False):
            by_hand = score_by_hand(pipe, USERS)
        np.testing.assert_allclose(splits(search), by_hand)
    assert search.best_estimator_[0].n_samples_seen_ == USERS.sum()


@pytest.mark.usefixtures("routing")
def test_routed_weights_of_reports():
    """Each report counts as often as its weight says, in the fit and in the score."""
    reports, pipe = reports_pipeline(GRR(1.0))
    pipe["oracle"].set_fit_request(sample_weight=True)
    scorer = make_held_out_scorer().set_score_request(sample_weight=True)
    kept = np.arange(len(reports)) < 6000
    folds = [(np.arange(0, 8000, 2), np.arange(1, 8000, 2))]
    params = {"sample_weight": kept.astype(int)}
    weighted = cross_val_score(pipe, reports, cv=folds, scoring=scorer, params=params)
    fewer = [(np.arange(0, 6000, 2), np.arange(1, 6000, 2))]
    plain = cross_val_score(pipe, reports, cv=fewer, scoring=make_held_out_scorer())
    np.testing.assert_allclose(weighted, plain)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("make_scorer", [make_frequency_scorer, make_held_out_scorer])
def test_a_scorer_without_a_request_is_asked_for_one(make_scorer):
    """As with scikit-learn's own scorers: weights that nobody has asked for are an error."""
    pipe, _ = routed()
    search = GridSearchCV(pipe, {}, cv=FOLDS, scoring=make_scorer())
    with pytest.raises(UnsetMetadataPassedError, match=r"make_\w+_scorer.*score"):
        search.fit(ROWS, sample_weight=USERS)


@pytest.mark.usefixtures("routing")
def test_requests_are_checked():
    with pytest.raises(TypeError):
        make_frequency_scorer().set_score_request(groups=True)
    with pytest.raises(ValueError, match="alias"):
        make_frequency_scorer().set_score_request(sample_weight=3)
    with (
        config_context(enable_metadata_routing=False),
        pytest.raises(RuntimeError, match="enable_metadata_routing"),
    ):
        make_frequency_scorer().set_score_request(sample_weight=True)


def test_weights_of_a_bare_oracle_with_several_scorers():
    """Without routing, newer versions of scikit-learn ask each scorer whether it takes weights."""
    scoring = {"error": make_frequency_scorer(), "mae": make_frequency_scorer("mae")}
    oracle = GRR(3.0, categories=D, random_state=0)
    search = GridSearchCV(oracle, {}, cv=FOLDS, scoring=scoring, refit="error")
    if hasattr(GridSearchCV, "_check_scorers_accept_sample_weight"):
        search.fit(ROWS, sample_weight=USERS)
        fitted = clone(oracle).fit(ROWS[:D], sample_weight=USERS[:D])
        expected = make_frequency_scorer()(fitted, ROWS[D:], sample_weight=USERS[D:])
        assert search.cv_results_["split0_test_error"][0] == expected
    else:
        with pytest.warns(UserWarning, match="enable_metadata_routing=True"):
            search.fit(ROWS, sample_weight=USERS)


# -- without scoring= --------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")
def test_search_without_scoring_over_reports_is_that_of_the_scorer():
    """`score` of a Pipeline and of an oracle is what `make_held_out_scorer` gives."""
    reports = OLH(2.0, categories=D, random_state=0).privatize(VALUES)
    pipe = Pipeline([("oracle", OLH(2.0, categories=D, input="reports")), ("post", Base())])
    grid = {"post": [Base(), NormSub(), PostPos()]}
    with_scorer = GridSearchCV(pipe, grid, scoring=make_held_out_scorer()).fit(reports)
    without = GridSearchCV(pipe, grid).fit(reports)
    for key in ("mean_test_score", "split3_test_score"):
        np.testing.assert_allclose(without.cv_results_[key], with_scorer.cv_results_[key])
    assert isinstance(without.best_params_["post"], NormSub)
    assert without.score(reports) == pytest.approx(without.best_estimator_.score(reports))
    # Negative control: another estimate has another score.
    scores = without.cv_results_["mean_test_score"]
    assert scores[1] > scores[2] > scores[0]


@pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")
def test_search_without_scoring_over_values(monkeypatch, seed):
    """Over 6 folds a tenfold difference of the error is always seen."""
    values = make_zipf(n_samples=8000, n_categories=64, random_state=seed)
    oracle = OLH(categories=64, random_state=seed)
    pipe = Pipeline([("oracle", oracle), ("post", Base())])
    found = GridSearchCV(pipe, {"post": [Base(), NormSub()]}, cv=6).fit(values)
    assert isinstance(found.best_params_["post"], NormSub)
    monkeypatch.setattr("sklearn_ldp._core.common.privacy._given", set())
    with pytest.warns(PrivacyWarning, match=r"shuffle=True.*least_epsilon") as warned:
        found = GridSearchCV(oracle, {"epsilon": [0.5, 4.0]}).fit(values)
    assert found.best_params_ == {"epsilon": 4.0}
    assert sum("least_epsilon" in str(one.message) for one in warned) == 1
    rule = least_epsilon(max_error=1.0)
    assert GridSearchCV(oracle, {"epsilon": [0.5, 4.0]}, refit=rule).fit(values).best_index_ == 0


@pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")
def test_surveys_and_means_have_scores():
    """Of the columns of a survey the mean, weighted; of a mean minus its squared error."""
    people = np.random.default_rng(8).integers(0, 3, (3000, 2))
    survey = ColumnOracle(
        8.0, domains={"a": 3, "b": 3}, weights={"a": 3.0}, input="values", random_state=0
    )
    reading = clone(survey).set_params(input="reports").fit(survey.privatize(people))
    others = survey.privatize(people[::-1])
    held_out = clone(reading).fit(others).estimate_
    scores = held_out_score(reading.estimate_, held_out)
    assert reading.score(others) == pytest.approx((3 * scores["a"] + scores["b"]) / 4)
    errors = frequency_mse(survey.true_frequencies(people[:500]), reading.estimate_)
    by_values = reading.score(others[:500], people[:500])
    assert by_values == pytest.approx(-(3 * errors["a"] + errors["b"]) / 4)
    assert survey.fit(people).score(people) > -1e-3
    pipe = Pipeline([("survey", survey), ("post", NormSub())]).fit(people)
    assert pipe.score(people) < 0.01

    client = LocalMean(1.0, bounds=(0, 2), random_state=0)
    server = LocalMean(1.0, bounds=(0, 2), input="reports").fit(client.privatize(people[:, 0]))
    reports = client.privatize(people[:100, 1])
    other = clone(server).fit(reports)
    expected = other.standard_error_**2 - (server.mean_ - other.mean_) ** 2
    assert server.score(reports) == pytest.approx(expected)


@pytest.mark.slow
def test_scores_of_means_are_unbiased(seed):
    """The mean of 200 scores is within 5 standard errors of what it estimates (error rate 1e-6);
    without the variance of those who judge it would not be.
    """
    people = np.random.default_rng([seed, 8]).integers(0, 3, (3000, 2))
    client = LocalMean(1.0, bounds=(0, 2), random_state=np.random.default_rng([seed, 9]))
    server = LocalMean(1.0, bounds=(0, 2), input="reports").fit(client.privatize(people[:, 0]))
    others = people[:100, 1]
    scores = np.array([server.score(client.privatize(others)) for _ in range(200)])
    expected, spread = -((server.mean_ - others.mean()) ** 2), scores.std(ddof=1) / np.sqrt(200)
    assert abs(scores.mean() - expected) < 5 * spread
    variance = clone(server).fit(client.privatize(others)).standard_error_ ** 2
    assert abs(scores.mean() - variance - expected) > 5 * spread


PEOPLE = pd.DataFrame({"a": VALUES % 3, "b": VALUES % 16})
ITEMS = np.array([["a"], ["a", "b"], ["c"], []], dtype=object)[VALUES % 4].tolist()


@pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")
@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:One or more")  # of the control
@pytest.mark.parametrize(
    ("steps", "values"),
    [
        ([OLH(categories=D), NormSub()], VALUES),
        ([GRR(categories=D), BasePos(), NormSub()], VALUES),
        ([OUE(categories=D), SyntheticSearch([NormSub()], queries=HALVES, n_repeats=2)], VALUES),
        ([ItemOracle(categories=["a", "b", "c"], max_items=2), BasePos()], ITEMS),
        ([ColumnOracle(domains={"a": 3, "b": 16}), NormSub()], PEOPLE),
        ([MarginalOracle(domains={"a": 3, "b": 16}), Consistent()], PEOPLE),
    ],
    ids=["one step", "two steps", "search", "items", "columns", "tables"],
)
def test_a_search_over_values_compares_with_the_true_frequencies(steps, values, monkeypatch):
    """`fit(X)` equals `fit(X, X)`; without the remembered frequencies (the control) it does not."""
    steps = [clone(step) for step in steps]
    pipe = make_pipeline(steps[0].set_params(random_state=0), *steps[1:])
    grid = {f"{pipe.steps[0][0]}__epsilon": [0.5, 1.0, 4.0]}
    search = GridSearchCV(pipe, grid, cv=ShuffleSplit(2, random_state=0))
    with_values = clone(search).fit(values, values).cv_results_["mean_test_score"]
    alone = clone(search).fit(values)
    np.testing.assert_allclose(alone.cv_results_["mean_test_score"], with_values, rtol=1e-12)
    assert alone.best_index_ == 2
    monkeypatch.setattr(
        "sklearn_ldp.postprocessing._base.remembered_values", lambda estimate: (None, None)
    )
    with_noise = clone(search).fit(values).cv_results_["mean_test_score"]
    assert not np.allclose(with_noise, with_values, rtol=1e-3)


def test_raw_values_stay_with_one_object_in_memory(tmp_path):
    oracle = GRR(1.0, categories=D, random_state=0).fit(VALUES)
    estimate = oracle.transform(VALUES)
    assert remembered_values(estimate)[0] is VALUES
    assert remembered_values(NormSub().transform(estimate))[0] is VALUES
    estimate.save(tmp_path / "estimate.npz")
    copies = {
        "pickle": pickle.loads(pickle.dumps(estimate)),
        "file": load_estimate(tmp_path / "estimate.npz"),
        "copy": copy.copy(estimate),
        "row": estimate[0],
        "fit": oracle.estimate_,
        "array": np.asarray(estimate),
    }
    assert {name for name, one in copies.items() if remembered_values(one)[0] is not None} == set()
    reading = GRR(1.0, categories=D, input="reports").fit(oracle.privatize(VALUES))
    assert remembered_values(reading.transform(oracle.privatize(VALUES)))[0] is None


def absolute_error(true, estimated):
    return np.abs(true - estimated).mean()


def test_a_frequency_scorer_accepts_a_function():
    oracle = GRR(1.0, categories=D, random_state=0).fit(VALUES)
    scorer = make_frequency_scorer(absolute_error, queries=HALVES)
    expected = make_frequency_scorer("mae", queries=HALVES)(oracle, VALUES)
    assert pickle.loads(pickle.dumps(scorer))(oracle, VALUES) == pytest.approx(expected)
    assert scorer.__name__ == "neg_frequency_absolute_error"
    with pytest.raises(ValueError, match="a function of the true and the estimated answers, got 3"):
        make_frequency_scorer(3)


def test_a_search_warns_once_of_a_learned_domain(monkeypatch):
    monkeypatch.setattr("sklearn_ldp._core.common.privacy._given", set())
    pipe = make_pipeline(OLH(), NormSub())
    with pytest.warns(PrivacyWarning) as warned:
        GridSearchCV(pipe, {"olh__epsilon": [1.0, 2.0]}, cv=3).fit(VALUES)
    assert sum("learns the domain" in str(one.message) for one in warned) == 1
    for _ in range(2):  # calls of the user warn each time
        with pytest.warns(PrivacyWarning, match="learns the domain"):
            OLH().fit(VALUES)


@pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")
def test_scores_by_values_are_those_of_the_scorer():
    """Of oracles, post-processors and searches, with weights, and of whole sets."""
    values, weights = np.array(["a", "b", "c"]), np.array([500, 300, 0])
    oracle = GRR(1.0, categories=["c", "b", "a"], random_state=0)
    search = SyntheticSearch([Base(), NormSub()], queries=top_k(1), metric="mae", random_state=0)
    for last in (NormSub(), search):
        pipe = make_pipeline(clone(oracle), last).fit(values, grr__sample_weight=weights)
        asked = {"metric": "mae", "queries": top_k(1)} if last is search else {}
        expected = make_frequency_scorer(**asked)(pipe, values, sample_weight=weights)
        raw = pipe[0].estimate_
        assert pipe[-1].score(raw, values, weights) == pytest.approx(expected)
        assert pipe[-1].score(raw, np.repeat(values, weights)) == pytest.approx(expected)
    alone = clone(oracle).fit(values, sample_weight=weights)
    expected = make_frequency_scorer()(alone, values, sample_weight=weights)
    assert alone.score(values, sample_weight=weights) == pytest.approx(expected)
    people = pd.DataFrame({"x": [0, 1, 1, 0] * 50, "y": [0, 1, 2, 1] * 50, "other": 0})
    domains = {"y": 3, "x": 2}
    for survey in (ColumnOracle(1.0, domains=domains), MarginalOracle(1.0, domains=domains)):
        pipe = make_pipeline(survey.set_params(random_state=0), NormSub()).fit(people[["y", "x"]])
        expected = make_frequency_scorer()(pipe, people[["y", "x"]])
        raw = pipe[0].estimate_
        assert pipe[-1].score(raw, people) == pytest.approx(expected)  # columns by their names
        assert pipe[-1].score(raw, people[["y", "x"]].to_numpy()) == pytest.approx(expected)
        with pytest.raises(ValueError, match=r"expects y with the columns 'y', 'x', got"):
            pipe[-1].score(raw, people[["x", "other"]])


def test_values_that_cannot_judge_are_refused():
    post = NormSub().fit(GRR(1.0, categories=["a", "b"], random_state=0).fit_transform(["a", "b"]))
    with pytest.raises(ValueError, match="NormSub.score got the unknown category 'c'"):
        post.score(None, ["a", "c"])
    with pytest.raises(ValueError, match="one sample_weight for each of the"):
        post.score(None, ["a", "b"], [1])
    users = [["a"], ["a", "b"]] * 50
    several = ItemOracle(1.0, categories=["a", "b"], max_items=2, random_state=0).fit(users)
    assert Base().fit(several.estimate_).score(None, users) == several.score(users)
    with pytest.raises(ValueError, match="an estimate of users with several items"):
        Base().fit(replace(several.estimate_, oracle=None)).score(None, users)
    labels = [7, 8]  # of plain arrays y is ignored, as it is by other transformers
    assert NormSub().fit([[0.5, 0.5]]).score([[0.5, 0.5]], labels) == 0.0


def test_a_warning_of_lost_weights_names_the_line_of_the_caller():
    answers = ["a", "b", "b"]
    oracle = GRR(1.0, categories=["a", "b"], random_state=0)
    estimate = oracle.fit(answers, sample_weight=[5, 5, 5]).estimate_
    with pytest.warns(UserWarning, match="counts each of the 3 rows of y as one user") as warned:
        NormSub().fit(estimate).score(estimate, answers)
    assert warned[0].filename == __file__


@pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")
@pytest.mark.parametrize("survey", [False, True])
def test_weights_that_do_not_reach_the_score_are_missed(survey):
    """Pipelines give the last step no weights of another name: it says so; a scorer has them."""
    rows, weights = np.arange(400) % 4, np.arange(400) % 3 + 1
    oracle = GRR(1.0, categories=4, random_state=0)
    if survey:
        rows = pd.DataFrame({"a": rows, "b": rows % 2})
        oracle = MarginalOracle(1.0, domains={"a": 4, "b": 2}, random_state=0)

    def scores(name, request, scoring=None):
        pipe = make_pipeline(clone(oracle).set_fit_request(sample_weight=request), NormSub())
        pipe.set_score_request(sample_weight=True)  # scikit-learn 1.6 asks the Pipeline, too
        params = {name: weights}
        each = cross_validate(pipe, rows, rows, cv=2, scoring=scoring, params=params)
        return each["test_score"]

    with config_context(enable_metadata_routing=True):
        expected = scores("sample_weight", True)  # a warning is an error
        scorer = make_frequency_scorer().set_score_request(sample_weight="n_users")
        np.testing.assert_allclose(scores("n_users", "n_users", scorer), expected)
        # scikit-learn 1.6 gives them to no step that scores, so that the oracle speaks first.
        told = (
            r"NormSub.score counts each of the 200 rows.*a scorer|fitted with sample_weight, but no"
        )
        with pytest.warns(UserWarning, match=told):
            unweighted = scores("n_users", "n_users")
    assert not np.allclose(unweighted, expected)


def test_scores_refuse_what_they_cannot_judge():
    post = NormSub().fit([[0.5, 0.75], [0.5, 0.5]])
    assert post.score([[0.5, 0.5]]) == pytest.approx(-np.mean([0.125**2, 0.125**2, 0, 0]))
    with pytest.raises(ValueError, match="for the 2 fitted rows, got 3 rows"):
        post.score(np.full((3, 2), 0.5))
    weighted = GRR(categories=2, input="reports").fit([0, 1], sample_weight=[50, 70])
    with pytest.warns(UserWarning, match="each row of X counts as one"):
        weighted.score([0, 1])
    assert weighted.score([0, 1], sample_weight=[50, 70]) > -1
    noise = NoiseModel(0.5, 0.25, 100)
    one, other = (FrequencyEstimate([[0.5, 0.25]], ["ab", b], noise) for b in ("b", "ba"))
    with pytest.raises(ValueError, match="usually find different strings"):
        held_out_score(one, other)


def test_a_score_against_true_values_misses_the_weights_of_the_fit():
    oracle = GRR(1.0, categories=2, input="reports").fit([0, 1], sample_weight=[50, 70])
    with pytest.warns(UserWarning, match="is scored without it"):
        oracle.score([0, 1], [0, 1])
    assert oracle.score([0, 1], [0, 1], sample_weight=[50, 70]) <= 0


def test_a_search_over_values_warns_that_each_fold_spends_epsilon():
    pipe = Pipeline([("oracle", GRR(1.0, categories=2, random_state=0)), ("post", Base())])
    with pytest.warns(PrivacyWarning, match="GRR randomizes the values of its users in transform"):
        GridSearchCV(pipe, {"oracle__epsilon": [1.0]}, cv=2).fit(np.arange(100) % 2)
