"""Labels that are not reports, reports of other protocols, and scores that cannot be true."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import bdtr
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

from sklearn_ldp import GRR, MatrixOracle
from sklearn_ldp.collection import Reports
from sklearn_ldp.learning import (
    CorrectedLogisticRegression,
    CorrectedRidge,
    LabelDPClassifier,
    LabelDPRegressor,
    corrected_labels,
    label_dp_score,
    make_label_dp_scorer,
)
from sklearn_ldp.learning._label_channel import LabelChannel, chance_of_frequencies

CLASSES = ["no", "yes"]
PUBLIC = {"epsilon": 1.0, "classes": CLASSES}


def people(n, seed=0, rate=0.5):
    """Return one feature and labels, of which the share `rate` is "yes"."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    noisy = X[:, 0] + rng.logistic(size=n)
    return X, np.where(noisy > np.quantile(noisy, 1 - rate), "yes", "no")


def client(**options):
    return LabelDPClassifier(LogisticRegression(), **{**PUBLIC, "random_state": 0, **options})


def server(**options):
    options = {"correction": "likelihood", "input": "reports", **options}
    return LabelDPClassifier(LogisticRegression(), **{**PUBLIC, **options})


# -- the protocol of reports ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (CLASSES, {}),
        ([0, 1], {}),
        ([False, True], {}),
        ([0.0, 1.0], {}),
        ([-3, 5, 2**40], {}),
        (np.array(CLASSES, dtype=object), {}),
        (list("abcdefgh"), {"subset_size": 3}),
    ],
    ids=str,
)
def test_reports_keep_their_protocol(labels, options):
    y = np.asarray(labels)[np.arange(60) % len(labels)]
    model = client(classes=labels, **options)
    reports = model.privatize(y)
    assert reports.configuration["epsilon"] == 1.0
    assert isinstance(reports, np.ndarray)
    assert reports.dtype == np.unique(np.asarray(labels)).dtype
    plain = np.asarray(reports)
    first, second = train_test_split(reports, random_state=0)
    kept = [
        reports[10:],
        reports[np.arange(5)],
        first,
        np.concatenate([first, second]),
        pickle.loads(pickle.dumps(reports)),
        pickle.loads(pickle.dumps(second)),
    ]
    for part in kept:
        assert part.configuration == reports.configuration
    for lost in (plain, reports.tolist(), pd.DataFrame(reports)):
        assert not isinstance(lost, Reports)
    X = np.linspace(-1, 1, 60)[:, None]
    same = server(classes=labels, **options)
    coefficients = [clone(same).fit(X, way).estimator_.coef_ for way in (reports, plain, kept[-2])]
    np.testing.assert_array_equal(coefficients[0], coefficients[1])
    np.testing.assert_array_equal(coefficients[0], coefficients[2])


MISMATCHES = {
    "another epsilon": ({"epsilon": 3.0}, r"epsilon 1\.0 instead of 3\.0"),
    "another class": ({"classes": ["no", "perhaps", "yes"]}, "n_categories 2 instead of 3"),
    "another name": ({"classes": ["no", "yes!"]}, "another collection"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_a_server_with_another_protocol_refuses_reports(name):
    X, y = people(300)
    others, match = MISMATCHES[name]
    reports = client().privatize(y)
    fitted = server().fit(X, reports)
    options = {**PUBLIC, **others}
    predicted = np.full(len(y), "no")
    reads = (
        lambda: server(**others).fit(X, reports),
        lambda: fitted.set_params(**others).score(X, reports),
        lambda: label_dp_score("accuracy", reports, predicted, **options),
        lambda: corrected_labels(reports, **options),
        lambda: make_label_dp_scorer("accuracy", **options)(fitted, X, reports),
    )
    for read in reads:
        with pytest.raises(ValueError, match=f"reports of another collection.*{match}|{match}"):
            read()
    assert np.isfinite(label_dp_score("accuracy", reports, predicted, **PUBLIC))


def test_reports_of_two_epsilons_are_refused_together():
    X, y = people(300)
    parts = [client(epsilon=epsilon).privatize(y) for epsilon in (1.0, 5.0)]
    both = np.concatenate(parts)
    with pytest.raises(ValueError, match=r"epsilon '1\.0 and 5\.0' instead of 1\.0"):
        server().fit(np.concatenate([X, X]), both)
    server().fit(np.concatenate([X, X]), np.concatenate([parts[0], parts[0]]))


def test_a_missing_class_is_noticed_if_classes_are_learned():
    """The noise depends on the number of classes, so classes from reports alone may be too few."""
    X = np.arange(8.0)[:, None]
    reports = client(epsilon=30.0, classes=["a", "b", "c"]).privatize(list("abababab"))
    with pytest.raises(ValueError, match="n_categories 3 instead of 2"):
        server(epsilon=30.0, classes=None).fit(X, reports)


def test_sets_are_not_reports_of_one_label():
    y = np.array(list("abcdefgh") * 40)
    options = {"classes": list("abcdefgh"), "epsilon": 1.0}
    sets = client(**options, subset_size=3).privatize(y)
    for size in (1, 2):
        with pytest.raises(ValueError, match="of another collection|expects"):
            server(**options, subset_size=size).fit(np.zeros((len(y), 1)), sets)


def test_reports_are_not_randomized_twice():
    X, y = people(300)
    model = client(correction="likelihood").fit(X, y)
    reports = client().privatize(y)
    scorer = make_label_dp_scorer("accuracy")
    reads = (model.privatize, lambda y: model.fit(X, y), lambda y: scorer(model, X, y))
    for read in (*reads, lambda y: model.score(X, y)):
        with pytest.raises(ValueError, match="already randomized"):
            read(reports)


def test_reports_of_an_oracle_keep_its_protocol():
    X, y = people(300)
    oracles = [MatrixOracle(e, categories=CLASSES) for e in (1.0, 2.0)]
    own, other = (LabelDPClassifier(oracle=o, random_state=0) for o in oracles)
    reports = own.privatize(y)
    assert reports.configuration["epsilon"] == 1.0
    other.set_params(input="reports")
    with pytest.raises(ValueError, match=r"epsilon 1\.0 instead of 2\.0"):
        other.fit(X, reports)


def test_reports_of_grr_are_accepted():
    """The mechanisms are the same, and the reports are equal if the labels are the codes."""
    X, y = people(300)
    ours = client(classes=[0, 1]).privatize(y == "yes")
    grr = GRR(1.0, categories=[0, 1], random_state=0)
    codes = grr.privatize((y == "yes").astype(int))
    server(classes=[0, 1]).fit(X, codes)
    grr.aggregate(ours)
    with pytest.raises(ValueError, match=r"epsilon 1\.0 instead of 2\.0"):
        server(classes=[0, 1], epsilon=2.0).fit(X, codes)


# -- frequencies that reports cannot have -----------------------------------------------------
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_test_of_frequencies_has_its_error_rate(n_classes, seed):
    """The most extreme honest case: no user has a class. A bound exceeds its rate by chance only.

    Under 400 collections, the number of bounds below .1 is at most binomial(400, .1). The limit is
    exceeded with probability 1e-6. Negative control: with epsilon too small by .5, all are below.
    """
    rng = np.random.default_rng(seed)
    channel = LabelChannel(1.0, np.arange(n_classes))
    noisier = LabelChannel(0.5, np.arange(n_classes))
    bounds = np.empty((400, 2))
    for i in range(400):
        codes = channel.privatize(np.zeros(3000, dtype=int), rng)
        bounds[i] = [chance_of_frequencies(codes, *c.limits)[0] for c in (channel, noisier)]
    n_below = np.sum(bounds < 0.1, axis=0)
    assert n_below[0] <= np.flatnonzero(bdtr(np.arange(401), 400, 0.1) > 1 - 1e-6)[0]
    assert n_below[1] > 390


def test_true_labels_of_a_rare_class_are_not_reports():
    X, y = people(2000, rate=0.03)
    message = r"frequencies are impossible for this epsilon.*true labels"
    oracle = MatrixOracle(1.0, categories=CLASSES)
    designed = LabelDPClassifier(oracle=oracle, input="reports")
    reports = np.asarray(client().privatize(y))  # negative control: honest reports of a rare class
    fitted = server().fit(X, reports)
    reads = (lambda y: server().fit(X, y), lambda y: fitted.score(X, y))
    for labels in (y, y.tolist(), pd.Series(y)):
        for read in reads:
            with pytest.raises(ValueError, match=f"{message}|score expects reports of epsilon 1"):
                read(labels)
    with pytest.raises(ValueError, match=message):
        designed.fit(X, np.zeros(2000, dtype=int))
    for read in reads:
        read(reports)
    server().fit(X, y, np.ones(2000))  # a row with a weight may represent several users
    # Rows may be selected by their report, because the correction is linear.
    few = corrected_labels(["no"] * 1000, **PUBLIC)
    assert few.shape == (1000, 2)


def test_a_few_faulty_reports_are_not_refused():
    reports = np.asarray(client(random_state=1).privatize(["no"] * 100_000))
    reports[:10_000] = "no"
    with pytest.warns(UserWarning, match=r"(9|10|11)% or more cannot be"):
        server(correction="probabilities").fit(np.zeros((len(reports), 1)), reports)


# -- scores that cannot be true ---------------------------------------------------------------
@pytest.mark.parametrize("mistake", ["wrong epsilon", "true labels"])
@pytest.mark.parametrize("metric", ["accuracy", "neg_log_loss", "roc_auc", "f1"])
def test_an_impossible_score_warns(metric, mistake):
    """The error rate of the warning is .001 for honest reports, and the seed is fixed."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20_000)
    certainty = np.where(y == 1, 0.99, 0.01)
    predictions = {
        "neg_log_loss": np.stack([1 - certainty, certainty], axis=1),
        "roc_auc": certainty,
    }.get(metric, y)
    reports = np.asarray(client(classes=[0, 1]).privatize(y))
    options = {"classes": [0, 1], "epsilon": 1.0}
    assert label_dp_score(metric, reports, predictions, **options) < 1.1  # the negative control
    options["epsilon"], labels = (0.3, reports) if mistake == "wrong epsilon" else (1.0, y)
    with pytest.warns(UserWarning, match=r"impossible.*epsilon.*true labels"):
        label_dp_score(metric, labels, predictions, **options)


@pytest.mark.parametrize("uses_scorer", [False, True])
def test_plain_labels_after_reports_with_a_protocol_warn(uses_scorer):
    """Labels of a weak model cannot be detected by their frequencies."""
    X, y = people(4000)
    X += np.random.default_rng(1).normal(scale=3, size=X.shape)
    reports = client().privatize(y)
    model = server().fit(X, reports)
    scorer = make_label_dp_scorer("accuracy")

    def score(X, y):
        return scorer(model, X, y) if uses_scorer else model.score(X, y)

    score(X, reports)
    with pytest.warns(UserWarning, match=r"fitted to reports with a protocol.*true labels"):
        score(X, y)
    plain = server().fit(X, np.asarray(reports))
    plain.score(X, np.asarray(reports))  # from a file, for example


@pytest.mark.parametrize("search", ["cross_val_score", "GridSearchCV"])
def test_searches_without_scoring_are_unbiased(search):
    """The error of an accuracy of 12,000 reports is .01; the tolerance is six of it."""
    X, y = people(12_000)
    reports = client().privatize(y)
    model = server()
    truth = np.mean(clone(model).fit(X, reports).predict(X) == y)

    def mean_score(scoring):
        if search == "cross_val_score":
            return np.mean(cross_val_score(model, X, reports, cv=3, scoring=scoring))
        grid = GridSearchCV(model, {"estimator__C": [1.0]}, cv=3, scoring=scoring)
        return grid.fit(X, reports).best_score_

    assert mean_score(None) == pytest.approx(truth, abs=0.06)
    assert mean_score(make_label_dp_scorer("accuracy")) == mean_score(None)
    assert mean_score("accuracy") < truth - 0.06  # the negative control, which the page explains


def test_the_area_under_the_curve_names_the_column():
    y = np.array(["no", "yes"] * 20)
    with pytest.raises(ValueError, match=r"predict_proba\(X\)\[:, 1\]"):
        label_dp_score("roc_auc", y, np.full((40, 2), 0.5), **PUBLIC)


WRONG = {
    "probabilities that are NaN": ("neg_log_loss", np.full((4, 2), np.nan), "NaN"),
    "decisions that are NaN": ("roc_auc", np.full(4, np.nan), "NaN"),
    "percent": ("neg_log_loss", np.full((4, 2), 50.0), "probabilities that sum to 1"),
    "signed": ("neg_brier_score", np.tile([-1.0, 2.0], (4, 1)), "probabilities that sum to 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_predictions_are_refused(name):
    metric, predictions, match = WRONG[name]
    with pytest.raises(ValueError, match=match):
        label_dp_score(metric, ["no", "yes"] * 2, predictions, **PUBLIC)


def test_wrong_weights_and_lengths_are_refused():
    X, y = people(300)
    reports = client().privatize(y)
    model = server().fit(X, reports)
    predicted = model.predict(X)
    with pytest.raises(ValueError, match="[Nn]egative"):
        label_dp_score("accuracy", reports, predicted, **PUBLIC, sample_weight=-np.ones(300))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(X, reports[:-1])
    with pytest.raises(ValueError, match="got no reports"):
        label_dp_score("accuracy", [], [], **PUBLIC)


# -- numbers ----------------------------------------------------------------------------------
def test_numbers_that_are_labels_are_not_reports():
    """Small integers are also the codes of reports, but reports have all codes."""
    X, y = people(2000)
    labels = (y == "yes").astype(int)
    model = LabelDPRegressor(epsilon=1.0, bounds=(0, 1), random_state=0)
    plain = np.asarray(model.privatize(labels))
    server = clone(model).set_params(input="reports").fit(X, plain)  # the negative control
    surer = np.asarray(clone(model).set_params(epsilon=2.0).privatize(labels))
    for read in (clone(server).fit, server.score):
        read(X, plain)
        read(X, model.decode(plain))
        for wrong in (labels, labels == 1, surer):
            with pytest.raises(ValueError, match=r"impossible for this epsilon|report"):
                read(X, wrong)


@pytest.mark.parametrize("kind", ["number", "label"])
def test_models_of_private_features_refuse_private_targets(kind):
    """Reports of numbers are codes of outputs, which are no numbers for least squares."""
    X, y = people(200)
    model = CorrectedLogisticRegression(private=[])
    reports = client().privatize(y)
    if kind == "number":
        numbers = LabelDPRegressor(epsilon=1.0, bounds=(-9, 9), random_state=0)
        reports = numbers.privatize(X[:, 0])
        model = CorrectedRidge(private=[]).fit(X, numbers.decode(reports))
        with pytest.raises(ValueError, match="already randomized"):
            model.corrected_score(X, reports)
        with pytest.raises(ValueError, match="[Nn]egative"):
            model.corrected_score(X, y == "yes", -np.ones(200))
    with pytest.raises(ValueError, match=r"already randomized.*pass decode\(reports\)"):
        model.fit(X, reports)


def test_true_labels_of_sure_predictions_are_not_reports():
    """The accuracy of .69 is below p = .73, but the accuracy of the surest tenth is .85."""
    X, y = people(20_000)
    reports = np.asarray(client().privatize(y))
    model = server().fit(X[:10_000], reports[:10_000])
    X, y, reports = X[10_000:], y[10_000:], reports[10_000:]
    model.score(X, reports)  # the negative control
    with pytest.raises(ValueError, match=r"score expects reports.*accuracy_score"):
        model.score(X, y)
    P = model.predict_proba(X)
    label_dp_score("neg_log_loss", reports, P, **PUBLIC)
    with pytest.warns(UserWarning, match=r"impossible.*true labels"):
        label_dp_score("neg_log_loss", y, P, **PUBLIC)
