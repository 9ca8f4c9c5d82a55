"""Classifiers of labels that a survey design has randomized."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from sklearn_ldp import GRR, MatrixOracle
from sklearn_ldp.learning import (
    LabelDPClassifier,
    corrected_labels,
    label_dp_score,
    make_label_dp_scorer,
)
from sklearn_ldp.learning._label_channel import LabelChannel, OracleChannel
from sklearn_ldp.learning._label_classifier import report_likelihood
from sklearn_ldp.surveys import ResponseDesign

FOUR_OUTPUTS = [[0.5, 0.2, 0.1], [0.2, 0.4, 0.1], [0.2, 0.2, 0.5], [0.1, 0.2, 0.3]]
ORACLES = {
    "Warner": ResponseDesign.warner(0.8).oracle(),
    "crosswise": ResponseDesign.crosswise(0.2).oracle(),
    "unrelated": ResponseDesign.unrelated(0.7, 0.4).oracle(),
    "forced": ResponseDesign.forced(0.6, 0.3).oracle(),
    "three outputs": ResponseDesign.custom([[0.6, 0.2], [0.3, 0.3], [0.1, 0.5]]).oracle(),
    "four outputs": ResponseDesign.custom(FOUR_OUTPUTS).oracle(categories=["c", "a", "b"]),
    "matrix": MatrixOracle(1.0, categories=5, queries=np.tri(5)),
}


def channel_matrix(oracle):
    """P(output | class), with the classes in sorted order."""
    protocol = oracle.protocol()
    return protocol.mechanism.probabilities[:, np.argsort(protocol.domain.categories)]


# -- by enumeration of all outputs ------------------------------------------------------------
@pytest.mark.parametrize("name", ORACLES)
def test_corrected_losses_are_unbiased(name):
    """The expectation over outputs. Negative control: the correction of randomized response."""
    oracle = ORACLES[name]
    chances = channel_matrix(oracle)
    outputs = np.arange(len(chances))
    corrected = corrected_labels(outputs, oracle=oracle)
    n_classes = chances.shape[1]
    np.testing.assert_allclose(chances.T @ corrected, np.eye(n_classes), atol=1e-12)
    np.testing.assert_allclose(corrected.sum(axis=1), 1)
    losses = np.random.default_rng(0).normal(size=n_classes)
    np.testing.assert_allclose(chances.T @ (corrected @ losses), losses)
    if len(chances) == n_classes and name != "Warner":  # the channel of Warner is the same
        classes = np.arange(n_classes)
        wrong = corrected_labels(outputs, epsilon=float(oracle.epsilon), classes=classes)
        assert not np.allclose(chances.T @ (wrong @ losses), losses, atol=1e-3)


@pytest.mark.parametrize("name", ORACLES)
def test_the_likelihood_is_stationary_at_the_true_probabilities(name):
    """The expected slope is 0 there, and not at other probabilities (the negative control)."""
    chances = channel_matrix(ORACLES[name])
    n_classes = chances.shape[1]
    channel = OracleChannel(ORACLES[name], "test")
    objective = report_likelihood(channel.likelihoods(np.arange(len(chances))))
    scores = np.random.default_rng(0).normal(size=n_classes)
    truth = np.exp(scores) / np.exp(scores).sum()
    linear = scores[1:] - scores[:1] if n_classes == 2 else scores
    for shift, is_true in ((0.0, True), (0.3, False)):
        moved = linear + shift * np.arange(1, len(linear) + 1)
        slopes = objective(np.tile(moved, (len(chances), 1)))[1]
        np.testing.assert_array_equal(np.allclose((chances @ truth) @ slopes, 0), is_true)


@pytest.mark.parametrize("name", ORACLES)
def test_scores_are_unbiased(name):
    """Expectations of the accuracy and the log loss over all outputs of a single user."""
    oracle = ORACLES[name]
    chances = channel_matrix(oracle)
    n_classes = chances.shape[1]
    classes = np.sort(oracle.protocol().domain.categories)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(n_classes))
    for metric, predicted, expected in (
        ("accuracy", classes[1], np.eye(n_classes)[1]),
        ("neg_log_loss", probabilities, np.log(probabilities)),
    ):
        scores = [
            label_dp_score(metric, [k], [predicted], oracle=oracle) for k in range(len(chances))
        ]
        np.testing.assert_allclose(chances.T @ scores, expected, atol=1e-9)


# -- fits --------------------------------------------------------------------------------------
def people(rng, n, labels=("no", "yes")):
    X = rng.normal(size=(n, 4))
    truth = 1 / (1 + np.exp(-(X @ [1.5, -1.0, 0.5, 0.0] - 0.5)))
    return X, np.asarray(labels)[(rng.random(n) < truth).astype(int)], truth


@pytest.mark.parametrize("base", [None, GaussianNB()])
@pytest.mark.parametrize("correction", ["auto", "probabilities"])
def test_a_design_of_randomized_response_gives_the_same_fit(base, correction):
    known = LabelDPClassifier(base, 1.5, classes=["no", "yes"], correction=correction)
    known.set_params(input="reports")
    X, y, _ = people(np.random.default_rng(0), 1_500)
    reports = LabelDPClassifier(epsilon=1.5, classes=["no", "yes"], random_state=0).privatize(y)
    p = LabelChannel(1.5, np.array(["no", "yes"])).signal / 2 + 0.5
    oracle = ResponseDesign.warner(p).oracle()
    model = LabelDPClassifier(base, oracle=oracle, correction=correction, input="reports")
    expected = known.fit(X, reports).predict_proba(X)
    model.fit(X, (reports == "yes").astype(int))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-4)
    assert model.predict(X).tolist() == known.predict(X).tolist()


@pytest.mark.parametrize("name", ["crosswise", "unrelated", "forced", "three outputs"])
@pytest.mark.parametrize("base", [None, GaussianNB()])
def test_probabilities_are_calibrated(name, base, seed):
    """The mean distance to the true probabilities, with 10,000 users.

    Over six seeds it is .009 to .041 with a standard deviation of at most .004, so that a case
    fails in less than 1 of 100,000 seeds. Negative control: if the responses count as labels, it
    is .092 or more (standard deviation .004).
    """
    X, y, truth = people(np.random.default_rng(seed), 10_000)
    model = LabelDPClassifier(base, oracle=ORACLES[name], random_state=seed)
    reports = model.privatize(y)
    model.set_params(input="reports").fit(X, reports)
    assert np.mean(np.abs(model.predict_proba(X)[:, 1] - truth)) < 0.065
    uncorrected = LogisticRegression().fit(X, reports > 0)
    assert np.mean(np.abs(uncorrected.predict_proba(X)[:, 1] - truth)) > 0.07


def test_a_search_needs_no_true_label():
    """6,000 users: the noise of the accuracy is .012; the test allows six of it (1e-8)."""
    oracle = ORACLES["unrelated"]
    X, y, _ = people(np.random.default_rng(0), 6_000)
    model = LabelDPClassifier(oracle=oracle, correction="likelihood", random_state=0)
    reports = model.privatize(y)
    model.set_params(input="reports", random_state=None)
    scores = cross_val_score(model, X, reports, cv=3, error_score="raise")
    scorer = make_label_dp_scorer("accuracy", oracle=oracle)
    np.testing.assert_allclose(
        cross_val_score(model, X, reports, cv=3, scoring=scorer, error_score="raise"), scores
    )
    accuracy = np.mean(model.fit(X, reports).predict(X) == y)
    assert np.mean(scores) == pytest.approx(accuracy, abs=0.075)


def test_values_are_randomized_by_the_oracle(seed):
    """20,000 labels: each proportion of responses fails in less than 1 of 10,000 seeds."""
    oracle = ORACLES["four outputs"]
    labels = np.repeat(["a", "b", "c"], 20_000)
    reports = LabelDPClassifier(oracle=oracle, random_state=seed).privatize(labels)
    shares = np.array([np.bincount(part, minlength=4) for part in np.split(reports, 3)]).T / 20_000
    np.testing.assert_allclose(shares, channel_matrix(oracle), atol=5 * 0.5 / np.sqrt(20_000))


def test_a_forest_learns_from_a_design_with_more_outputs_than_classes():
    X, y, _ = people(np.random.default_rng(0), 3_000)
    forest = RandomForestClassifier(10, min_samples_leaf=20, random_state=0)
    model = LabelDPClassifier(forest, oracle=ORACLES["three outputs"], random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (3_000, 2)
    assert np.mean(model.predict(X) == y) > 0.7
    assert not hasattr(model, "decision_function")


# -- words -------------------------------------------------------------------------------------
X, Y, _ = people(np.random.default_rng(0), 100)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"oracle": GRR(1.0, categories=2)}, "needs a MatrixOracle or the oracle of a Response"),
        ({"oracle": ORACLES["Warner"], "classes": ["no", "yes"]}, "beside an oracle, which determ"),
        ({"oracle": ORACLES["Warner"], "subset_size": 2}, "beside an oracle, which determines"),
        ({"oracle": ORACLES["four outputs"]}, "unknown class at position 0"),
        ({"oracle": ORACLES["Warner"], "input": "reports"}, "cannot have made these reports"),
        ({"oracle": ORACLES["Warner"], "estimator": LinearSVC()}, "a classifier with predict_prob"),
        ({"oracle": ResponseDesign.triangular(0.3).oracle()}, "is not private"),
    ],
)
def test_oracles_that_cannot_be_used_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        LabelDPClassifier(**{"random_state": 0, **options}).fit(X, Y)


def test_channels_without_an_inverse_are_refused():
    with pytest.raises(ValueError, match="does not distinguish all answers"):
        LabelDPClassifier(oracle=ResponseDesign.warner(0.5).oracle())
    singular = MatrixOracle(1.0, categories=3, strategy=[[0.5, 0.4, 0.45], [0.5, 0.6, 0.55]])
    with pytest.raises(ValueError, match="it is not informative"):
        LabelDPClassifier(oracle=singular, random_state=0).privatize([0, 1, 2])


def test_scores_need_one_description_of_the_noise():
    for options in ({}, {"epsilon": 1.0}, {"oracle": ORACLES["Warner"], "classes": [0, 1]}):
        with pytest.raises(ValueError, match="Pass both epsilon= and classes=, or only oracle="):
            corrected_labels([0, 1], **options)


def test_a_scorer_shows_its_oracle():
    assert "oracle=" in repr(make_label_dp_scorer("accuracy", oracle=ORACLES["Warner"]))
