"""Classifiers on randomised labels: corrections by enumeration, and scores without the truth."""

import pickle
from itertools import product

import numpy as np
import pytest
import sklearn
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_ldp import GRR
from sklearn_ldp.learning import (
    LabelDPClassifier,
    corrected_labels,
    label_dp_score,
    make_label_dp_scorer,
)
from sklearn_ldp.learning._label_channel import LabelChannel
from sklearn_ldp.learning._label_classifier import (
    corrected_loss,
    minimise,
    report_likelihood,
    with_possible_totals,
)
from sklearn_ldp.utils.estimator_checks import check_exact_epsilon_of, expected_failed_checks

CLASSES = {2: ["no", "yes"], 3: ["a", "b", "c"], 5: [0, 1, 2, 3, 4]}


LEARNERS = [
    LabelDPClassifier(random_state=0),
    LabelDPClassifier(input="reports", correction="loss"),
]
OTHERS = [
    LabelDPClassifier(input="reports", correction="likelihood"),
    LabelDPClassifier(correction="probabilities", input="reports"),
    LabelDPClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), epsilon=8.0, random_state=0
    ),
]


@parametrize_with_checks(LEARNERS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks_of_other_corrections(estimator, check):
    check(estimator)


# -- the channel and what corrects it ---------------------------------------------------------
def law_of_reports(channel):
    """P(report | label), a row per label."""
    n_classes = len(channel.classes)
    return channel.q + channel.signal * np.eye(n_classes)


@pytest.mark.parametrize("n_classes", CLASSES)
def test_labels_are_those_of_randomised_response(n_classes):
    """The mechanism is GRR's, whose epsilon is enumerated."""
    channel = LabelChannel(1.0, np.array(CLASSES[n_classes]))
    mechanism = GRR(1.0, categories=n_classes).protocol().mechanism
    assert channel._protocol.mechanism == mechanism
    check_exact_epsilon_of(mechanism, range(n_classes), 1.0)
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(mechanism, range(n_classes), 0.99)
    law = law_of_reports(channel)
    np.testing.assert_allclose(law.sum(axis=1), 1, rtol=1e-12)
    assert law[0, 0] == pytest.approx(np.e / (np.e + n_classes - 1))


@pytest.mark.parametrize("n_classes", CLASSES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_corrected_labels_are_unbiased(n_classes, epsilon):
    classes = CLASSES[n_classes]
    corrected = corrected_labels(classes, epsilon=epsilon, classes=classes)
    law = law_of_reports(LabelChannel(epsilon, np.array(classes)))
    np.testing.assert_allclose(law @ corrected, np.eye(n_classes), atol=1e-12)
    assert not np.allclose(law @ np.eye(n_classes), np.eye(n_classes), atol=1e-3)  # uncorrected


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_corrected_loss_is_unbiased_for_any_scores(n_classes):
    """By enumeration of the reports of each label; labels as they came are biased."""
    rng = np.random.default_rng(0)
    channel = LabelChannel(0.7, np.arange(n_classes))
    law = law_of_reports(channel)
    scores = rng.normal(size=(50, 1 if n_classes == 2 else n_classes)) * 3
    both = np.column_stack([np.zeros(50), scores]) if n_classes == 2 else scores
    expected, uncorrected = np.zeros((50, n_classes)), np.zeros((50, n_classes))
    for report in range(n_classes):
        codes = np.full(50, report)
        loss, _ = corrected_loss(channel.corrected(codes))(scores)
        as_it_is, _ = corrected_loss(np.eye(n_classes)[codes])(scores)
        expected += loss[:, None] * law[:, report]
        uncorrected += as_it_is[:, None] * law[:, report]
    np.testing.assert_allclose(expected, -log_softmax(both, axis=1), atol=1e-9)
    assert np.abs(uncorrected + log_softmax(both, axis=1)).max() > 0.1


def objectives(n_classes, codes):
    channel = LabelChannel(0.8, np.arange(n_classes))
    return {
        "loss": corrected_loss(channel.corrected(codes)),
        "likelihood": report_likelihood(codes, channel.q, channel.signal, n_classes),
    }


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("name", ["loss", "likelihood"])
def test_slopes_are_derivatives(n_classes, name):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_classes, 30)
    scores = rng.normal(size=(30, 1 if n_classes == 2 else n_classes)) * 2
    objective = objectives(n_classes, codes)[name]
    _, slope = objective(scores)
    for column in range(scores.shape[1]):
        step = np.zeros_like(scores)
        step[:, column] = 1e-6
        difference = (objective(scores + step)[0] - objective(scores - step)[0]) / 2e-6
        np.testing.assert_allclose(slope[:, column], difference, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_corrected_loss_is_convex(n_classes):
    """At the middle of two points it is not above their mean; the likelihood is, somewhere."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_classes, 2000)
    shape = (2000, 1 if n_classes == 2 else n_classes)
    first, second = rng.normal(size=shape) * 5, rng.normal(size=shape) * 5
    excess = {}
    for name, objective in objectives(n_classes, codes).items():
        ends = (objective(first)[0] + objective(second)[0]) / 2
        excess[name] = np.max(objective((first + second) / 2)[0] - ends)
    assert excess["loss"] < 1e-9
    assert excess["likelihood"] > 0.01


def test_probabilities_are_those_of_true_labels():
    rng = np.random.default_rng(0)
    for n_classes in (2, 4):
        channel = LabelChannel(0.9, np.arange(n_classes))
        true = rng.dirichlet(np.full(n_classes, 2.0), 200)
        true = np.maximum(true, 0.02) / np.maximum(true, 0.02).sum(axis=1, keepdims=True)
        reported = true @ law_of_reports(channel)
        np.testing.assert_allclose(channel.corrected_probabilities(reported, 10**6), true, 1e-9)
        # Where a model has learnt less than q, a little is left.
        impossible = np.eye(n_classes)[[0]]
        least = channel.corrected_probabilities(impossible, 10_000)[0, 1]
        assert 0 < least < channel.corrected_probabilities(impossible, 100)[0, 1] < 0.5


def test_a_class_with_fewer_reports_than_come_by_chance_has_a_finite_intercept():
    """Its corrected total is negative, and no intercept would be too small for the loss."""
    rng = np.random.default_rng(0)
    X, reports = rng.normal(size=(100, 3)), np.repeat([0, 1, 2], [45, 45, 10])
    corrected = corrected_labels(reports, epsilon=0.5, classes=[0, 1, 2])
    assert corrected.mean(axis=0)[2] < 0
    model = LabelDPClassifier(epsilon=0.5, input="reports", correction="loss").fit(X, reports)
    assert np.abs(model.estimator_.intercept_).max() < 100
    endless = LogisticRegression(C=1.0, max_iter=1000)
    _, intercept, _ = minimise(corrected_loss(corrected), X, np.ones(100), 3, endless, tol=1e-4)
    assert np.abs(intercept).max() > 1e6
    # A class that has enough of them is not touched.
    labels = corrected_labels([0, 1, 0, 1], epsilon=1.0, classes=[0, 1])
    assert with_possible_totals(labels, np.ones(4)) is labels


# -- fitting -----------------------------------------------------------------------------------
def users(n=4000, n_classes=2, seed=0, labels=None):
    X, y = make_classification(
        n, 8, n_informative=5, n_classes=n_classes, class_sep=0.8, random_state=seed
    )
    return X, y if labels is None else np.array(labels)[y]


@pytest.mark.parametrize("correction", ["loss", "likelihood"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted", "no intercept"])
def test_with_a_large_epsilon_it_is_logistic_regression(correction, n_classes, kind):
    X, y = users(n_classes=n_classes)
    weights = np.random.default_rng(1).integers(0, 3, len(y)) if kind == "weighted" else None
    X = sparse.csr_matrix(X) if kind == "sparse" else X
    plain = LogisticRegression(C=0.3, tol=1e-8, fit_intercept=kind != "no intercept")
    model = LabelDPClassifier(plain, epsilon=40.0, correction=correction, random_state=0)
    model.fit(X, y, sample_weight=weights)
    plain.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.estimator_.coef_, plain.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-4)
    assert model.correction_ == correction
    np.testing.assert_array_equal(model.decision_function(X), model.estimator_.decision_function(X))


@pytest.mark.parametrize("correction", ["auto", "loss", "likelihood", "probabilities"])
def test_reports_give_what_values_give(correction):
    X, y = users(labels=CLASSES[2])
    model = LabelDPClassifier(
        epsilon=1.0, classes=["yes", "no"], correction=correction, random_state=3
    )
    reports = model.privatize(y)
    assert set(reports) == {"no", "yes"}
    assert 0.6 < np.mean(reports == y) < 0.85  # p is .73
    on_values = clone(model).fit(X, y)
    on_reports = clone(model).set_params(input="reports", random_state=None).fit(X, reports)
    np.testing.assert_array_equal(on_values.predict_proba(X), on_reports.predict_proba(X))
    assert on_values.classes_.tolist() == ["no", "yes"]


def population(rng, n):
    """Features, labels and the truth P(second class) of a logistic model."""
    X = rng.normal(size=(n, 5))
    truth = 1 / (1 + np.exp(-(X @ [1.5, -1.0, 0.5, 0.0, 0.0] - 1.0)))
    return X, (rng.random(n) < truth).astype(int), truth


@pytest.mark.parametrize("correction", ["loss", "likelihood", "probabilities"])
def test_probabilities_are_calibrated_and_those_of_labels_as_they_came_are_not(correction, seed):
    """The mean distance to the true probabilities, with 20,000 users at epsilon 1.

    It is about .02 (standard deviation .005 over seeds, so that .06 fails once in far more than
    10^6 seeds), and .17 without a correction.
    """
    rng = np.random.default_rng(seed)
    X, y, truth = population(rng, 20_000)
    model = LabelDPClassifier(epsilon=1.0, correction=correction, random_state=seed).fit(X, y)
    assert np.mean(np.abs(model.predict_proba(X)[:, 1] - truth)) < 0.06
    uncorrected = LogisticRegression().fit(X, model.privatize(y))
    assert np.mean(np.abs(uncorrected.predict_proba(X)[:, 1] - truth)) > 0.1


def test_auto_takes_the_correction_that_explains_held_out_reports_better():
    """With a weak penalty the loss overfits; a very strong one leaves the likelihood nothing."""
    X, y, _ = population(np.random.default_rng(0), 6000)
    X = np.column_stack([X, np.random.default_rng(1).normal(size=(6000, 60))])
    weak = LabelDPClassifier(LogisticRegression(C=1.0), epsilon=1.0, random_state=0).fit(X, y)
    strong = LabelDPClassifier(LogisticRegression(C=2e-3), epsilon=1.0, random_state=0).fit(X, y)
    assert (weak.correction_, strong.correction_) == ("likelihood", "loss")
    forest = LabelDPClassifier(RandomForestClassifier(5, random_state=0), random_state=0)
    assert forest.fit(X, y).correction_ == "probabilities"


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_most_probable_class_is_the_same_before_and_after(n_classes):
    """Symmetric reports keep the order of classes; with unequal rates of errors it changes."""
    X, y = users(n_classes=n_classes)
    forest = RandomForestClassifier(20, min_samples_leaf=20, random_state=0)
    model = LabelDPClassifier(forest, epsilon=1.0, random_state=0).fit(X, y)
    reported = model.estimator_.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), reported.argmax(axis=1))
    corrected = model.predict_proba(X)
    top = corrected == corrected.max(axis=1, keepdims=True)
    assert top[np.arange(len(X)), reported.argmax(axis=1)].all()
    unequal = np.full((n_classes, n_classes), 0.1) + np.diag([0.9 - 0.1 * n_classes] * n_classes)
    unequal[0] = np.eye(n_classes)[0]  # the first class never lies
    inverse = reported @ np.linalg.inv(unequal / unequal.sum(axis=1, keepdims=True))
    assert np.any(inverse.argmax(axis=1) != reported.argmax(axis=1))


def test_a_class_that_no_report_has_is_possible():
    X = np.random.default_rng(0).normal(size=(40, 2))
    reports = np.repeat(["a", "b"], 20)
    model = LabelDPClassifier(GaussianNB(), 1.0, classes=["a", "b", "c"], input="reports")
    P = model.fit(X, reports).predict_proba(X)
    assert P.shape == (40, 3)
    assert (P[:, 2] > 0).all()


def test_classifiers_without_probabilities():
    X, y = users()
    model = LabelDPClassifier(LinearSVC(), epsilon=2.0, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7
    assert not hasattr(model, "predict_proba")
    assert model.decision_function(X).shape == (len(X),)


def test_pipelines_are_fitted_step_by_step_and_stay_pipelines():
    X, y = users()
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression()))
    model = LabelDPClassifier(nested, epsilon=2.0, random_state=0)
    model.fit(X * 100, y, sample_weight=np.ones(len(y)))
    assert isinstance(model.estimator_[-1][-1], LogisticRegression)
    assert model.score(X * 100, y) > 0.75
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    alone = LabelDPClassifier(epsilon=2.0, random_state=0, correction=model.correction_)
    alone.fit(StandardScaler().fit_transform(X * 100), y)
    np.testing.assert_allclose(
        alone.predict_proba(StandardScaler().fit_transform(X)), model.predict_proba(X * 100), 1e-3
    )


def test_metadata_routing_brings_the_weights():
    X, y = users(500)
    weights = np.random.default_rng(0).integers(1, 4, len(y))
    expected = LabelDPClassifier(epsilon=2.0, random_state=0).fit(X, y, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        scaler = StandardScaler(with_mean=False, with_std=False)
        scaler.set_fit_request(sample_weight=False)
        for base in (inner, make_pipeline(scaler, inner)):
            model = LabelDPClassifier(base, epsilon=2.0, random_state=0)
            model.fit(X, y, sample_weight=weights)
            np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X))
        forgetful = LabelDPClassifier(
            LogisticRegression().set_fit_request(sample_weight=False), epsilon=2.0, random_state=0
        )
        forgetful.fit(X, y, sample_weight=weights)
        assert not np.allclose(forgetful.predict_proba(X), expected.predict_proba(X))


def test_it_takes_part_in_calibration_and_cross_validation():
    X, y = users(1500)
    model = LabelDPClassifier(epsilon=3.0, random_state=0)
    assert cross_val_predict(model, X, y, method="predict_proba").shape == (1500, 2)
    assert CalibratedClassifierCV(model, cv=2).fit(X, y).score(X, y) > 0.7


# -- scores on reports -------------------------------------------------------------------------
def test_means_over_users_are_unbiased_by_enumeration():
    """Over all 81 batches of reports of four users; the uncorrected scores are not."""
    rng = np.random.default_rng(0)
    y, classes, epsilon = np.array([0, 2, 1, 2]), [0, 1, 2], 0.8
    P = rng.dirichlet(np.ones(3), 4)
    predicted = P.argmax(axis=1)
    expected = {
        "accuracy": accuracy_score(y, predicted),
        "neg_log_loss": -log_loss(y, P, labels=classes),
        "neg_brier_score": -np.mean(((P - np.eye(3)[y]) ** 2).sum(axis=1)),
    }
    law = law_of_reports(LabelChannel(epsilon, np.array(classes)))
    means, uncorrected = dict.fromkeys(expected, 0.0), 0.0
    for reports in product(classes, repeat=4):
        probability = law[y, list(reports)].prod()
        for metric in expected:
            given = predicted if metric == "accuracy" else P
            score = label_dp_score(metric, reports, given, epsilon=epsilon, classes=classes)
            means[metric] += probability * score
        uncorrected += probability * accuracy_score(reports, predicted)
    assert means == pytest.approx(expected, abs=1e-10)
    assert abs(uncorrected - expected["accuracy"]) > 0.05


METRICS = {
    "accuracy": accuracy_score,
    "balanced_accuracy": balanced_accuracy_score,
    "f1": f1_score,
    "precision": precision_score,
    "recall": recall_score,
    "neg_brier_score": lambda y, P, **w: -brier_score_loss(y, P[:, 1], **w),
    "neg_log_loss": lambda y, P, **w: -log_loss(y, P, **w),
    "roc_auc": roc_auc_score,
}


def predictions(rng, n):
    truth = rng.beta(0.8, 1.6, n)
    y = (rng.random(n) < truth).astype(int)
    of_second = np.clip(truth + rng.normal(size=n) * 0.1, 0.01, 0.99).round(2)  # with ties
    return y, np.column_stack([1 - of_second, of_second])


def given_to(metric, P):
    if metric.startswith("neg"):
        return P
    return P[:, 1] if metric == "roc_auc" else P.argmax(axis=1)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_without_noise_scores_are_those_of_scikit_learn(metric, is_weighted):
    rng = np.random.default_rng(0)
    y, P = predictions(rng, 500)
    weights = rng.random(500) if is_weighted else None
    given = given_to(metric, P)
    score = label_dp_score(metric, y, given, epsilon=44.0, classes=[0, 1], sample_weight=weights)
    assert score == pytest.approx(METRICS[metric](y, given, sample_weight=weights), abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_scores_on_reports_are_near_those_on_labels(metric, seed):
    """100,000 users at epsilon 1: standard errors are below .01, so that .06 never fails.

    Scores of the reports as if they were labels are off by more.
    """
    rng = np.random.default_rng(seed)
    y, P = predictions(rng, 100_000)
    given = given_to(metric, P)
    reports = LabelDPClassifier(epsilon=1.0, classes=[0, 1], random_state=seed).privatize(y)
    truth = METRICS[metric](y, given)
    score = label_dp_score(metric, reports, given, epsilon=1.0, classes=[0, 1])
    assert score == pytest.approx(truth, abs=0.06)
    assert METRICS[metric](reports, given) < truth - 0.08


@pytest.mark.parametrize(
    "metric",
    [
        "accuracy",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("neg_log_loss", "roc_auc")),
    ],
)
def test_the_error_of_a_score_is_that_of_repeated_collections(metric, seed):
    """Standardised errors of 150 collections have a standard deviation of about 1.06.

    It is that of t with 19 degrees of freedom; its standard error is .065, so that the limits fail
    once in 10^4. The control is the error of true labels, which is too small at epsilon 1.
    """
    rng = np.random.default_rng(seed)
    known = {"epsilon": 1.0, "classes": [0, 1], "return_error": True}
    client = LabelDPClassifier(epsilon=1.0, classes=[0, 1], random_state=rng)
    y, P = predictions(rng, 400_000)
    truth = METRICS[metric](y, given_to(metric, P))
    distances, without_noise = [], []
    for _ in range(150):
        y, P = predictions(rng, 1000)
        given = given_to(metric, P)
        score, error = label_dp_score(metric, client.privatize(y), given, **known)
        distances.append((score - truth) / error)
        _, error = label_dp_score(metric, y, given, **{**known, "epsilon": 40.0})
        without_noise.append((score - truth) / error)
    assert 0.8 < np.std(distances) < 1.35
    assert np.std(without_noise) > 1.5


def test_a_search_without_one_true_label():
    X, y = users(6000)
    reports = LabelDPClassifier(epsilon=1.0, classes=[0, 1], random_state=0).privatize(y)
    model = LabelDPClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()),
        epsilon=1.0,
        classes=[0, 1],
        input="reports",
        correction="loss",
    )
    scoring = {name: make_label_dp_scorer(name) for name in ("neg_log_loss", "roc_auc")}
    search = GridSearchCV(
        model,
        {"estimator__logisticregression__C": [1e-5, 0.1]},
        scoring=scoring,
        refit="neg_log_loss",
        error_score="raise",
    )
    search.fit(X, reports)
    assert search.best_params_ == {"estimator__logisticregression__C": 0.1}
    scorer = make_label_dp_scorer("accuracy")
    on_reports = scorer(search.best_estimator_, X, reports)
    assert on_reports == pytest.approx(search.best_estimator_.score(X, y), abs=0.06)
    assert scorer(search, X, reports) == on_reports


def test_a_search_over_epsilon_randomises_held_out_labels_too():
    X, y = users(3000)
    search = GridSearchCV(
        LabelDPClassifier(random_state=0),
        {"epsilon": [0.7, 4.0]},
        scoring=make_label_dp_scorer("accuracy"),
    )
    assert search.fit(X, y).best_params_ == {"epsilon": 4.0}
    scorer, model = make_label_dp_scorer("accuracy"), search.best_estimator_
    assert scorer(model, X, y) == scorer(model, X, y) != model.score(X, y)
    held_out, fitted = model._privatize_held_out(y), model.privatize(y)
    assert 0.01 < np.mean(held_out != fitted) < 0.1  # other coins: 2 p (1 - p) = .035


def test_each_fold_draws_coins_of_its_own():
    """Folds with the same noise would make a mean over folds as noisy as a single one."""
    model = LabelDPClassifier(epsilon=1.0, classes=[0, 1], random_state=0)
    y = np.random.default_rng(0).integers(0, 2, 2000)
    lies = [model._privatize_held_out(fold) != fold for fold in (y[:1000], y[1000:])]
    assert np.mean(lies[0] == lies[1]) == pytest.approx(0.607, abs=0.1)  # p^2 + q^2


def test_a_scorer_that_is_told_epsilon_scores_any_classifier():
    X, y = users(3000)
    reports = LabelDPClassifier(epsilon=2.0, classes=[0, 1], random_state=0).privatize(y)
    scorer = make_label_dp_scorer("neg_log_loss", epsilon=2.0)
    scores = cross_val_score(LogisticRegression(), X, reports, scoring=scorer)
    assert scores.shape == (5,)
    assert pickle.loads(pickle.dumps(scorer))(LogisticRegression().fit(X, y), X, reports) < 0
    assert repr(scorer) == "make_label_dp_scorer('neg_log_loss', epsilon=2.0)"


# -- bad input ---------------------------------------------------------------------------------
X, Y = users(60)


@pytest.mark.parametrize(
    ("parameters", "y", "what"),
    [
        ({}, np.zeros(60), "needs at least two classes, got 1 class"),
        ({"classes": [0, 1]}, Y + 1, "got the unknown category 2"),
        ({"classes": [0, 0, 1]}, Y, "needs a list of different classes"),
        ({"classes": [0.0, np.nan]}, Y, "got NaN among its classes"),
        ({"classes": [0, "a"]}, Y, "needs a list|sorted|unknown"),
        ({}, np.where(Y == 1, np.nan, 0.0), "NaN"),
        ({}, None, "requires y to be passed"),
        ({"epsilon": 1e-25}, Y, "epsilon"),
        ({"epsilon": 0.01}, Y, "larger epsilon than 0.01, or more than 60 users"),
        ({"estimator": GaussianNB(), "correction": "loss"}, Y, "needs a LogisticRegression"),
        (
            {"estimator": LogisticRegression(C=np.inf), "correction": "loss"},
            Y,
            "needs an L2 penalty with a finite C",
        ),
        ({"estimator": LogisticRegression(class_weight="balanced")}, Y, "without class_weight"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(parameters, y, what):
    with pytest.raises(ValueError, match=what):
        LabelDPClassifier(random_state=0, **parameters).fit(X, y)


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="declare them in classes="):
        LabelDPClassifier().privatize(Y)
    with pytest.raises(NotFittedError):
        LabelDPClassifier().predict(X)
    with pytest.raises(ValueError, match="There is no score 'r2' on randomised labels"):
        make_label_dp_scorer("r2")
    with pytest.raises(ValueError, match="for two classes, got 3"):
        label_dp_score("f1", [0, 1, 2], [0, 1, 2], epsilon=1.0, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"needs predictions of shape \(2, 2\)"):
        label_dp_score("neg_log_loss", [0, 1], [0.5, 0.5], epsilon=1.0, classes=[0, 1])
    with pytest.raises(ValueError, match="needs to know how the labels were randomised"):
        make_label_dp_scorer()(LogisticRegression().fit(X, Y), X, Y)


def test_too_few_iterations_are_warned_of():
    model = LabelDPClassifier(
        LogisticRegression(max_iter=1, tol=1e-9), correction="loss", random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model.fit(X, Y)
