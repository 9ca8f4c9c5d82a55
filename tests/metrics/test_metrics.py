"""Errors against brute force, and the scorer in scikit-learn's model selection."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from sklearn_ldp import GRR, OUE, Base, FrequencyEstimate, NormSub, PostPos, PrivacyWarning
from sklearn_ldp.metrics import frequency_mae, frequency_mse, make_frequency_scorer, query_errors
from sklearn_ldp.queries import full_domain, groups, query_matrix, random_sets, top_k

TRUTH = np.array([0.4, 0.3, 0.2, 0.1])
ESTIMATES = np.array([[0.5, 0.4, 0.2, -0.1], [0.3, 0.3, -0.2, 0.6], [0.4, 0.3, 0.2, 0.1]])
QUERIES = [
    full_domain(),
    groups(["x", "y", "x", "y"]),
    groups([1, 1, 1, 1]),
    query_matrix([[0.5, 0, 0, 2.0], [0, -1, 1, 0]]),
    top_k(2),
]
METRICS = {"mse": frequency_mse, "mae": frequency_mae}
POWER = {"mse": 2, "mae": 1}


def brute_force(truth, estimates, matrix, metric, clip=False):
    """Return the error, computed one query after the other."""
    errors = []
    for estimate in estimates:
        terms = []
        for query in matrix:
            answer = sum(w * f for w, f in zip(query, estimate, strict=True))
            correct = sum(w * f for w, f in zip(query, truth, strict=True))
            terms.append(abs((max(answer, 0) if clip else answer) - correct) ** POWER[metric])
        errors.append(sum(terms) / len(terms))
    return errors


# -- errors -----------------------------------------------------------------------------------
# Drawn sets, without a closed form: the mean is over those that the query set draws each time.
DRAWN = random_sets(2, n_sets=25, random_state=3)


CASES = [
    (queries, metric, clip)
    for queries in (*QUERIES, DRAWN)
    for metric in METRICS
    for clip in (False, True)
    if (queries, metric, clip) != (DRAWN, "mse", False)  # which has a closed form
]


@pytest.mark.parametrize(("queries", "metric", "clip"), CASES, ids=repr)
def test_errors_against_brute_force(queries, metric, clip):
    matrix = queries.matrix(4, TRUTH).toarray()
    expected = brute_force(TRUTH, ESTIMATES, matrix, metric, clip)
    estimate = FrequencyEstimate(ESTIMATES, list("abcd"))
    if clip:
        estimate = PostPos().fit_transform(estimate)
    for _ in range(2):
        errors = query_errors(TRUTH, estimate, queries=queries, metric=metric)
        np.testing.assert_allclose(errors, expected, atol=1e-15)
    assert METRICS[metric](TRUTH, estimate, queries=queries) == pytest.approx(np.mean(expected))
    assert METRICS[metric](TRUTH, [TRUTH], queries=queries) == pytest.approx(0, abs=1e-30)


@pytest.mark.parametrize("metric", METRICS)
def test_errors_are_floats_of_any_container(metric):
    truth, estimates = TRUTH.copy(), ESTIMATES.copy()
    expected = METRICS[metric](truth, estimates)
    assert type(expected) is float
    for same in (TRUTH.tolist(), tuple(TRUTH), pd.Series(TRUTH, index=list("wxyz"))):
        assert METRICS[metric](same, ESTIMATES.tolist()) == expected
    for same in (pd.DataFrame(ESTIMATES), FrequencyEstimate(ESTIMATES, list("abcd"))):
        assert METRICS[metric](TRUTH, same) == expected
    one = query_errors(truth, estimates[0], metric=metric)
    np.testing.assert_allclose(one, query_errors(TRUTH, ESTIMATES[:1], metric=metric))
    np.testing.assert_array_equal(truth, TRUTH)  # inputs stay as they are
    np.testing.assert_array_equal(estimates, ESTIMATES)


@pytest.mark.parametrize("metric", ["rmse", "MSE", None, 2])
def test_unknown_metric(metric):
    for call in (
        lambda: query_errors(TRUTH, ESTIMATES, metric=metric),
        lambda: make_frequency_scorer(metric),
    ):
        with pytest.raises(ValueError, match="metric must be one of .*mse.*mae.* got"):
            call()


@pytest.mark.parametrize("truth", [TRUTH[:3], [TRUTH], 0.5, []])
@pytest.mark.parametrize("function", METRICS.values())
def test_truth_of_another_shape(function, truth):
    with pytest.raises(ValueError, match=r"true frequencies must have shape \(4,\).*got"):
        function(truth, ESTIMATES)


def test_queries_of_another_width_and_truths_that_are_none():
    """scikit-learn's metrics refuse NaN; a NaN error would silently win or lose a search."""
    with pytest.raises(ValueError, match="for 3 categories, but the estimate has 4"):
        frequency_mse(TRUTH, ESTIMATES, queries=groups([1, 2, 3]))
    for ask in (partial(frequency_mse, TRUTH, ESTIMATES), make_frequency_scorer):
        with pytest.raises(TypeError, match=r"sklearn_ldp\.queries"):
            ask(queries=7)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="(?i)nan|inf|finite"):
            frequency_mse([0.4, 0.3, 0.2, bad], ESTIMATES)


# -- scorer -----------------------------------------------------------------------------------
CATEGORIES = list("abcd")
VALUES = np.array(list("aaaabbbccd") * 40)
HELD_OUT = np.array(list("aabcd") * 10)
HELD_OUT_FREQUENCIES = np.array([0.4, 0.2, 0.2, 0.2])


def pipeline(*postprocessors, oracle=None):
    oracle = OUE(2.0, categories=CATEGORIES, random_state=0) if oracle is None else oracle
    return make_pipeline(oracle, *postprocessors)


@pytest.mark.parametrize(
    "queries", [None, groups([1, 1, 2, 2]), np.eye(4)[:2], random_sets(2), top_k(1)]
)
@pytest.mark.parametrize("metric", METRICS)
def test_score_by_hand(metric, queries):
    pipe = pipeline(NormSub()).fit(VALUES)
    score = make_frequency_scorer(metric, queries=queries)(pipe, HELD_OUT)
    assert type(score) is float
    expected = METRICS[metric](HELD_OUT_FREQUENCIES, [pipe[-1].frequencies_], queries=queries)
    assert score == pytest.approx(-expected)
    assert score < 0


def test_score_costs_no_privacy():
    """No second release, so no PrivacyWarning (an error here), and the estimate does not change."""
    pipe = pipeline(NormSub()).fit(VALUES)
    before = pipe[-1].frequencies_.copy()
    scorer = make_frequency_scorer()
    assert scorer(pipe, HELD_OUT, None) == scorer(pipe, HELD_OUT) == scorer(pipe, HELD_OUT, y=[1])
    np.testing.assert_array_equal(pipe[-1].frequencies_, before)
    with pytest.raises(ValueError, match="unknown category 'z'"):
        scorer(pipe, ["z"])


@pytest.mark.filterwarnings("ignore:.*not data frames")
def test_score_of_pipelines_of_other_forms():
    """A bare oracle, a step that is left out, one before the oracle, and a Pipeline in another."""
    oracle, scorer = OUE(2.0, categories=CATEGORIES, random_state=0), make_frequency_scorer()
    expected = -frequency_mse(HELD_OUT_FREQUENCIES, clone(oracle).fit(VALUES).estimate_)
    without = Pipeline([("oue", clone(oracle)), ("post", "passthrough")])
    for raw in (clone(oracle), without):
        assert scorer(raw.fit(VALUES), HELD_OUT) == pytest.approx(expected)
    expected = scorer(pipeline(NormSub()).fit(VALUES), HELD_OUT)
    for same in (
        pipeline(make_pipeline(Base(), NormSub())),
        pipeline(NormSub()).set_output(transform="pandas"),
    ):
        assert scorer(same.fit(VALUES), HELD_OUT) == pytest.approx(expected)
    upper, held_out = np.char.upper(VALUES)[:, None], np.char.upper(HELD_OUT)[:, None]
    lower = make_pipeline(FunctionTransformer(np.char.lower), oracle, NormSub()).fit(upper)
    assert scorer(lower, held_out) == expected


def test_score_clips_answers_after_post_pos():
    oracle = OUE(0.1, categories=CATEGORIES, random_state=1)
    raw, clipped = (
        pipeline(post, oracle=clone(oracle)).fit(VALUES) for post in (Base(), PostPos())
    )
    assert raw[-1].frequencies_.min() < 0
    scorer = make_frequency_scorer()
    assert scorer(clipped, HELD_OUT) > scorer(raw, HELD_OUT)


def test_several_scorers_at_once():
    scoring = {"mse": make_frequency_scorer(), "mae": make_frequency_scorer("mae")}
    results = cross_validate(pipeline(NormSub()), VALUES, cv=2, scoring=scoring)
    assert (np.abs(results["test_mae"]) > np.abs(results["test_mse"])).all()


def test_no_score_for_pipelines_that_read_reports():
    oracle = OUE(2.0, categories=CATEGORIES, random_state=0)
    reports = oracle.privatize(VALUES)
    pipe = pipeline(NormSub(), oracle=clone(oracle).set_params(input="reports")).fit(reports)
    with pytest.raises(ValueError, match="reads reports.*SyntheticSearch or HeldOutSearch"):
        make_frequency_scorer()(pipe, reports)


@pytest.mark.parametrize(
    "estimator",
    [NormSub(), Normalizer(), make_pipeline(Normalizer(), NormSub()), "passthrough", None],
    ids=str,
)
def test_no_score_without_an_oracle(estimator):
    with pytest.raises(TypeError, match="needs an oracle, or a Pipeline with an oracle"):
        make_frequency_scorer()(estimator, HELD_OUT)


@pytest.mark.parametrize("estimator", [pipeline(NormSub()), pipeline()[0]], ids=["pipe", "oracle"])
def test_no_score_before_fit(estimator):
    with pytest.raises(NotFittedError):
        make_frequency_scorer()(clone(estimator), HELD_OUT)


def test_a_category_of_a_test_fold_alone_is_told_once():
    """Before: NaN, with nothing but scikit-learn's warnings."""
    values = ["a", "b"] * 20 + ["a"] * 19 + ["z"]
    scorer, oracle = make_frequency_scorer(), GRR(random_state=0)
    given = {"cv": KFold(3), "scoring": scorer}
    with pytest.warns(UserWarning, match="learned its categories|Scoring failed") as told:
        assert np.isnan(cross_val_score(oracle, values, **given)).sum() == 1
    ours = [str(one.message) for one in told if "learned its categories" in str(one.message)]
    assert len(ours) == 1
    assert ours[0].startswith("GRR has learned its categories from some users only: ")
    assert "'z'" in ours[0]
    assert ours[0].endswith("Declare categories=.")
    declared = clone(oracle).set_params(categories=["a", "b", "z"])
    assert np.isfinite(cross_val_score(declared, values, **given)).all()


@pytest.mark.parametrize("queries", [None, groups([1, 1, 2, 2]), random_sets(0.5), top_k(2)])
def test_scorer_pickles(queries):
    scorer = make_frequency_scorer("mae", queries=queries)
    twin = pickle.loads(pickle.dumps(scorer))
    assert repr(twin) == repr(scorer)
    assert "make_frequency_scorer('mae'" in repr(scorer)
    oracle = GRR(2.0, categories=CATEGORIES, random_state=0).fit(VALUES)
    assert twin(oracle, HELD_OUT) == scorer(oracle, HELD_OUT)


# -- weights ----------------------------------------------------------------------------------
WEIGHTS = [4, 0, 2, 4]  # of the rows a, b, c, d


@pytest.mark.parametrize("dtype", [int, float, np.uint8])
def test_weights_are_numbers_of_users(dtype):
    pipe = pipeline(NormSub()).fit(VALUES)
    scorer, weights = make_frequency_scorer(), np.array(WEIGHTS, dtype=dtype)
    weighted = scorer(pipe, CATEGORIES, sample_weight=weights)
    assert weighted == scorer(pipe, np.repeat(CATEGORIES, WEIGHTS))
    assert weighted != scorer(pipe, CATEGORIES)
    truth = pipe[0].true_frequencies(CATEGORIES, weights)
    np.testing.assert_array_equal(truth, [0.4, 0, 0.2, 0.4])
    several = pipe[0].true_frequencies(["a", "b", "a"], sample_weight=[1, 5, 2])
    np.testing.assert_array_equal(several, [3 / 8, 5 / 8, 0, 0])


def test_weights_of_the_fit_alone_are_noticed():
    """The estimate knows the weights and the truth does not; once per scorer, and its copies."""
    oracle = OUE(2.0, categories=CATEGORIES, random_state=0)
    pipe = make_pipeline(oracle, NormSub()).fit(CATEGORIES, oue__sample_weight=WEIGHTS)
    scorer = make_frequency_scorer()
    with pytest.warns(UserWarning, match="OUE was fitted with sample_weight.*set_score_request"):
        scorer(pipe, HELD_OUT)
    assert scorer(pipe, HELD_OUT) == clone(scorer, safe=False)(pipe, HELD_OUT)
    other = make_frequency_scorer()
    assert other(pipe, HELD_OUT, sample_weight=np.ones(50, dtype=int)) == scorer(pipe, HELD_OUT)
    with pytest.warns(UserWarning, match="was fitted with sample_weight"):
        other(make_pipeline(pipe[0].partial_fit(VALUES)), HELD_OUT)
    make_frequency_scorer()(make_pipeline(pipe[0].fit(VALUES)), HELD_OUT)  # fit forgets them


# -- raw values in earnest --------------------------------------------------------------------
def test_raw_values_in_earnest_are_said_once():
    """Once per scorer however often it is called, also where every warning is shown."""
    pipe = pipeline(NormSub(), oracle=OUE(2.0, categories=CATEGORIES)).fit(VALUES)
    scorer = make_frequency_scorer()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for copy_ in [scorer, pickle.loads(pickle.dumps(scorer)), clone(scorer, safe=False)] * 100:
            copy_(pipe, HELD_OUT)
    assert [w.category for w in caught] == [PrivacyWarning]
    assert "OUE has random_state=None" in str(caught[0].message)
    assert caught[0].filename == __file__
    other = make_frequency_scorer()
    for _ in range(2):  # where warnings are errors, every call is one
        with pytest.raises(PrivacyWarning, match="spends epsilon again"):
            other(pipe, HELD_OUT)


def test_a_search_in_earnest_says_so_once():
    scorer = make_frequency_scorer()
    search = GridSearchCV(OUE(categories=CATEGORIES), {"epsilon": [1, 2]}, cv=3, scoring=scorer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(VALUES)
        clone(search).fit(VALUES)
    assert [w.category for w in caught] == [PrivacyWarning]


@pytest.mark.parametrize("kind", [int, np.random.default_rng, np.random.RandomState])
def test_a_seed_is_a_simulation(kind):
    """No warning, which would be an error here."""
    pipe = pipeline(NormSub(), oracle=OUE(2.0, categories=CATEGORIES, random_state=kind(0)))
    make_frequency_scorer()(pipe.fit(VALUES), HELD_OUT)


@pytest.mark.parametrize("factor", [100, 5000], ids=["percent", "counts"])
@pytest.mark.parametrize("function", METRICS.values())
def test_true_counts_are_no_frequencies(function, factor):
    """The errors were thousands or millions, and looked like results."""
    truth = np.array([0.4, 0.3, 0.2, 0.1])
    function(truth, ESTIMATES)
    with pytest.raises(ValueError, match="must contain frequencies from 0 to 1, got values up to"):
        function(factor * truth, ESTIMATES)


def test_an_unbiased_estimate_may_stand_for_the_truth():
    """It may be larger than 1, but then it also has negative entries, unlike counts."""
    assert frequency_mse([1.5, -0.5, 0.0, 0.0], ESTIMATES[:1]) > 0
