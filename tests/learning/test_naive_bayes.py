"""Naive Bayes from private records: the mechanism, what noise makes of evidence, and servers."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators import slow_but
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB

from sklearn_ldp import GRR, ColumnOracle, Consistent, Domain, LatentClasses, MarginalOracle
from sklearn_ldp.learning import LDPNaiveBayes
from sklearn_ldp.learning._naive_bayes import log_lifts, slope
from sklearn_ldp.utils._checks import check_exact_epsilon_of

DOMAINS = {"age": Domain.bins([30, 50]), "colour": ["red", "green"], "visits": 4}
CLASSES = ["no", "yes"]


def people(rng, n):
    """Users of three features, of which two tell something, and the truth P(yes)."""
    age = rng.uniform(18, 80, n)
    colour = np.where(rng.random(n) < 0.4, "red", "green")
    visits = rng.integers(0, 4, n)
    truth = expit(-1.0 + 1.5 * (age > 50) - 1.0 * (age < 30) + 0.8 * (visits == 3))
    y = np.where(rng.random(n) < truth, "yes", "no")
    return pd.DataFrame({"age": age, "colour": colour, "visits": visits}), y, truth


def model(epsilon=2.0, **parameters):
    parameters = {"domains": DOMAINS, "classes": CLASSES, "random_state": 0, **parameters}
    return LDPNaiveBayes(epsilon, **parameters)


# -- the mechanism -----------------------------------------------------------------------------
def test_epsilon_of_whole_records_is_exact():
    """Any two records, with their labels, and any report; with less than epsilon it fails."""
    nb = LDPNaiveBayes(1.0, domains={"a": 2, "b": 3}, classes=[0, 1])
    mechanism = nb.oracle().protocol().mechanism.for_enumeration()
    records = [(a, b, y) for a in range(2) for b in range(3) for y in range(2)]
    check_exact_epsilon_of(mechanism, records, 1.0)
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(mechanism, records, 0.99)


def records(X, y):
    """What a client randomises: the features, and then the class."""
    return X.assign(**{"class": y})


def test_each_user_is_asked_for_one_feature_and_the_class():
    survey = model().oracle().fit(records(*people(np.random.default_rng(0), 500)[:2]))
    assert survey.views_ == [("age", "class"), ("colour", "class"), ("visits", "class")]
    assert survey.sampling_probabilities_.sum() == pytest.approx(1)


# -- evidence ----------------------------------------------------------------------------------
def noisy_table(rng, frequencies, log_odds, prior, std):
    """A table of (value, class), of two classes, with noise."""
    of_second = expit(np.log(prior / (1 - prior)) + log_odds)
    table = frequencies[:, None] * np.column_stack([1 - of_second, of_second])
    total = table.sum(axis=0)
    return table + std * rng.normal(size=table.shape), total / total.sum()


def test_evidence_of_three_classes():
    rng = np.random.default_rng(0)
    conditional = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    table = np.array([0.4, 0.35, 0.25])[:, None] * conditional
    prior = table.sum(axis=0)
    lifts, _ = log_lifts(table + 1e-4 * rng.normal(size=(3, 3)), 1e-4, prior)
    np.testing.assert_allclose(lifts, np.log(conditional / prior), atol=0.1)


def test_shrunk_evidence_has_less_error_than_plain_ratios(seed):
    """60 features of 8 values: the mean squared error of log odds is below a third of that.

    The ratio has the mean .17 and the standard deviation .017 over 200 seeds, so the limit is nine
    of them away. With a noise level that is 30 times too small, the ratio is 2.1, standard
    deviation .12.
    """
    rng = np.random.default_rng(seed)
    errors = {"shrunk": 0.0, "ratios": 0.0, "wrong level": 0.0}
    for _ in range(60):
        frequencies, log_odds = rng.dirichlet(np.full(8, 2.0)), rng.normal(size=8) * 0.5
        table, prior = noisy_table(rng, frequencies, log_odds, 0.3, 0.02)
        ratios = np.log(np.maximum(table, 1e-3))
        found = {
            "shrunk": np.diff(log_lifts(table, 0.02, prior)[0]),
            "ratios": np.diff(ratios) - np.log(prior[1] / prior[0]),
            "wrong level": np.diff(log_lifts(table, 0.02 / 30, prior)[0]),
        }
        truth = log_odds + np.log(0.3 / 0.7) - np.log(prior[1] / prior[0])
        for name, values in found.items():
            errors[name] += float(frequencies @ (values[:, 0] - truth) ** 2)
    assert errors["shrunk"] < 0.33 * errors["ratios"]
    assert errors["wrong level"] > 1.0 * errors["ratios"]


def test_noise_alone_says_hardly_anything():
    rng = np.random.default_rng(0)
    frequencies = np.full(20, 0.05)
    table, prior = noisy_table(rng, frequencies, np.zeros(20), 0.3, 0.05)
    assert np.abs(log_lifts(table, 0.05, prior)[0]).max() < 0.5
    assert np.abs(log_lifts(table, 0.005, prior)[0]).max() > 1.5  # a noise level that is too small


@pytest.mark.parametrize("shape", [(2, 2), pytest.param((5, 6), marks=pytest.mark.slow)])
def test_what_lifts_add_is_estimated_without_bias(shape, seed):
    """Features that say nothing: the mean of 400 estimates is within 4.5 standard errors of 0.

    Noise that is taken to be larger by the root of 2, as it was for features of two values, is the
    negative control: what was found is then far below 0.
    """
    rng = np.random.default_rng(seed)
    frequencies, prior = np.full(shape[0], 1 / shape[0]), rng.dirichlet(np.full(shape[1], 5.0))
    found = []
    for _ in range(400):
        table = np.outer(frequencies, prior) + 0.02 * rng.normal(size=shape)
        total = np.maximum(table.sum(axis=0), 1e-3)
        row = [log_lifts(table, std, total / total.sum())[1][1] for std in (0.02, 0.02 * 2**0.5)]
        found.append(row)
    z = np.mean(found, axis=0) / np.std(found, axis=0) * 20
    assert abs(z[0]) < 4.5
    assert z[1] < -4.5


@pytest.mark.parametrize("correlation", slow_but([0.6], [0.0, 0.2, 0.6]))
def test_the_slope_calibrates_correlated_features(correlation):
    """Normal terms, equally correlated: the slope is that of a regression on their sum.

    200,000 rows: the standard error of a regression's slope is below .01. Without the factor (1) it
    is off by more than .2, but for independent terms.
    """
    rng = np.random.default_rng(0)
    stds = np.array([0.3, 0.6, 0.9, 1.2])
    y = rng.integers(0, 2, 200_000)
    common = rng.normal(size=(len(y), 1))
    own = rng.normal(size=(len(y), 4))
    noise = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    log_odds = stds * noise + np.where(y[:, None] == 1, 0.5, -0.5) * stds**2
    fitted = LogisticRegression(C=1e6).fit(log_odds.sum(axis=1)[:, None], y).coef_[0, 0]
    # Log lifts of a feature with two values, whose difference has these standard deviations.
    lifts = [np.array([[std, -std], [-std, std]]) for std in stds]
    factor = slope(lifts, [np.array([0.5, 0.5])] * 4, correlation)
    assert factor == pytest.approx(fitted, abs=0.03)
    if correlation:
        assert fitted < 0.8
    assert slope([np.zeros((3, 2))], [np.full(3, 1 / 3)], 0.16) == 1.0  # without evidence


# -- the classifier ----------------------------------------------------------------------------
def test_without_noise_it_is_naive_bayes():
    X, y, _ = people(np.random.default_rng(0), 20_000)
    nb = model(epsilon=60.0, correlation=0.0).fit(X, y)
    codes = np.column_stack([DOMAINS["age"].encode(X.age), X.colour == "red", X.visits])
    plain = CategoricalNB().fit(codes, y)
    # A user is asked for one feature alone, so that tables differ by the drawing of users.
    assert np.abs(nb.predict_proba(X) - plain.predict_proba(codes)).mean() < 0.02
    assert nb.slope_ == pytest.approx(1.0, abs=0.05)  # less the standard errors of drawing users
    assert model(epsilon=60.0, correlation=0.5).fit(X, y).slope_ < 0.9


def test_it_learns_from_private_records_and_not_from_labels_of_others(seed):
    """The mean distance to the true P(yes), 20,000 users at epsilon 2.

    About .04 (standard deviation .01), so that .1 fails once in more than 10^6 seeds; with labels
    of others it is that of the overall rate, about .2.
    """
    rng = np.random.default_rng(seed)
    X, y, truth = people(rng, 20_000)
    nb = model(random_state=seed, correlation=0.0).fit(X, y)
    assert np.mean(np.abs(nb.predict_proba(X)[:, 1] - truth)) < 0.1
    assert nb.class_prior_ == pytest.approx([np.mean(y == "no"), np.mean(y == "yes")], abs=0.05)
    shuffled = model(random_state=seed, correlation=0.0).fit(X, rng.permutation(y))
    assert np.mean(np.abs(shuffled.predict_proba(X)[:, 1] - truth)) > 0.12


def test_clients_and_servers_end_where_fit_does():
    X, y, _ = people(np.random.default_rng(0), 3000)
    at_once = model().fit(X, y)
    reports = model().oracle().privatize(records(X, y))
    first, second = (model(random_state=None).oracle() for _ in range(2))
    first.aggregate(reports[:1000])
    second.aggregate(reports[1000:2000]).aggregate(reports[2000:])
    merged = model().fit_tables(first.merge(second).estimate_)
    assert merged.n_samples_seen_ == 3000
    np.testing.assert_array_equal(merged.predict_proba(X), at_once.predict_proba(X))
    survey = model().oracle()
    survey.partial_fit(records(X[:1234], y[:1234])).partial_fit(records(X[1234:], y[1234:]))
    in_pieces = model().fit_tables(survey.estimate_)
    np.testing.assert_array_equal(in_pieces.predict_proba(X), at_once.predict_proba(X))
    again = pickle.loads(pickle.dumps(at_once))
    np.testing.assert_array_equal(again.predict_proba(X), at_once.predict_proba(X))
    assert clone(at_once).get_params()["domains"] is not None


def test_tables_of_any_survey_that_asked_for_the_class(seed):
    """At epsilon 6 and 20,000 users, mean errors are about .03 (standard deviation .01)."""
    X, y, truth = people(np.random.default_rng(seed), 20_000)
    domains = {"ill": CLASSES, **DOMAINS}
    users = X.assign(ill=y)
    survey = MarginalOracle(6.0, domains=domains, expected_n_users=1000, random_state=seed).fit(
        users
    )
    nb = LDPNaiveBayes(correlation=0.0)
    for tables in (
        survey.estimate_,
        Consistent(non_negative=False).fit_transform(survey.estimate_),
    ):
        nb.fit_tables(tables, target="ill")
        assert list(nb.feature_log_lift_) == list(DOMAINS)
        assert nb.classes_.tolist() == CLASSES
        assert nb.n_samples_seen_ == 20_000
        assert np.mean(np.abs(nb.predict_proba(X)[:, 1] - truth)) < 0.1
    # Any column may be the target, and any of the others are features.
    assert nb.fit_tables(survey.estimate_, target="colour").n_features_in_ == 3
    assert nb.predict(users[["ill", "age", "visits"]]).shape == (20_000,)


def test_tables_that_cannot_be_learnt_from():
    X, y, _ = people(np.random.default_rng(0), 300)
    survey = model().oracle().fit(records(X, y))
    nb = model()
    with pytest.raises(
        TypeError, match="tables that a MarginalOracle estimates.*got MarginalOracle"
    ):
        nb.fit_tables(survey)
    columns = ColumnOracle(2.0, domains=DOMAINS, random_state=0).fit_transform(X)
    with pytest.raises(TypeError, match="got EstimateSet"):
        nb.fit_tables(columns)
    with pytest.raises(ValueError, match="table of a feature and 'ill'.*no such table"):
        nb.fit_tables(survey.estimate_, target="ill")
    single = MarginalOracle(2.0, domains=DOMAINS, order=1, random_state=0).fit_transform(X)
    with pytest.raises(ValueError, match="table of a feature and 'colour'"):
        nb.fit_tables(single, target="colour")
    with pytest.raises(ValueError, match="noise of raw tables"):
        nb.fit_tables(LatentClasses().fit_transform(survey.estimate_))
    assert not hasattr(nb, "tables_")


@pytest.mark.parametrize("container", [pd.DataFrame, pl.from_pandas, np.asarray])
def test_any_container_and_any_order_of_columns(container):
    X, y, _ = people(np.random.default_rng(0), 2000)
    nb = model().fit(X, y)
    assert nb.feature_names_in_.tolist() == ["age", "colour", "visits"]
    given = container(X) if container is np.asarray else container(X[["visits", "age", "colour"]])
    np.testing.assert_array_equal(nb.predict(given), nb.predict(X))


def test_features_that_nobody_was_asked_for_say_nothing():
    X, y, _ = people(np.random.default_rng(0), 1)
    nb = model().fit(X, y)
    evidence = [np.abs(lift).max() > 0 for lift in nb.feature_log_lift_.values()]
    assert sum(evidence) <= 1
    assert nb.predict_proba(X).shape == (1, 2)
    # Weights are numbers of users.
    assert model().fit(X, y, sample_weight=[200]).n_samples_seen_ == 200


def test_auto_learns_levels_and_bins():
    X, y, _ = people(np.random.default_rng(0), 2000)
    X["colour"] = X.colour.astype("category")
    nb = LDPNaiveBayes(5.0, random_state=0).fit(X, y)
    sizes = [one.size for one in nb.tables_.domain.columns.values()]
    assert sizes == [10, 2, 4, 2]
    far_out = X[:1].assign(age=1000.0)
    assert nb.predict(far_out).shape == (1,)


# -- bad input ---------------------------------------------------------------------------------
X, Y, _ = people(np.random.default_rng(0), 40)


@pytest.mark.parametrize(
    ("parameters", "users", "labels", "what"),
    [
        ({}, X.assign(colour="blue"), Y, "in the column 'colour',.* unknown category 'blue'"),
        ({}, X.assign(age=np.nan), Y, "in the column 'age',|NaN"),
        ({}, X, ["maybe"] * 40, "unknown class at position"),
        ({}, X, Y[:-1], r"inconsistent numbers of samples: \[40, 39\]"),
        ({}, X.drop(columns="age"), Y, "has a domain for the column 'age'"),
        ({}, X, None, "requires y to be passed"),
        ({"classes": ["no"]}, X, Y, "at least two classes, got 1 class"),
        ({"classes": None}, X, ["no"] * 40, "at least two classes, got 1 class"),
        ({"domains": {**DOMAINS, "class": 2}}, X, Y, "a feature must not be named 'class'"),
        ({"epsilon": 1e-25}, X, Y, "must be large enough for a report to carry information"),
        ({"epsilon": 1e-4}, X, Y, "less noise: each frequency"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(parameters, users, labels, what):
    nb = model(**parameters)
    with pytest.raises(ValueError, match=what):
        nb.fit(users, labels)
    assert not hasattr(nb, "tables_")


def test_what_is_missing_is_named():
    with pytest.raises(NotFittedError):
        model().predict(X)
    with pytest.raises(ValueError, match="has no columns yet"):
        LDPNaiveBayes(classes=CLASSES).oracle()
    with pytest.raises(ValueError, match="Pass all labels as classes="):
        model(classes=None).oracle()


def test_noise_does_not_move_predictions_and_evidence_does(seed):
    """17 features, six classes, 8,000 users, epsilon .5: the log loss of the class prior is kept.

    The mean over five collections; without the factor of `confirmed` it is above: the negative
    control. With evidence it is below by far at epsilon 4.
    """
    rng = np.random.default_rng(seed)
    shares = np.array([0.4, 0.2, 0.15, 0.1, 0.1, 0.05])
    excess = []
    for _ in range(5):
        y, X = rng.choice(6, 8000, p=shares), rng.integers(0, 5, (8000, 17))
        domains = {f"column {j}": 5 for j in range(17)}
        nb = LDPNaiveBayes(0.5, domains=domains, classes=range(6), random_state=rng).fit(X, y)
        known = np.take(np.log(nb.class_prior_), y)
        row = [np.mean(known - nb.predict_log_proba(X)[np.arange(8000), y])]
        nb.slope_ = slope(list(nb.feature_log_lift_.values()), [np.full(5, 0.2)] * 17, 0.2)
        excess.append([*row, np.mean(known - nb.predict_log_proba(X)[np.arange(8000), y])])
    kept, control = np.mean(excess, axis=0)
    assert kept < 0.005
    assert control > kept
    X[:, :8] = np.where(rng.random((8000, 8)) < 0.7, y[:, None] % 5, X[:, :8])
    nb = LDPNaiveBayes(4.0, domains=domains, classes=range(6), random_state=rng).fit(X, y)
    assert nb.score(X, y) > 0.7


def test_reports_are_no_labels():
    X, y = np.arange(400).reshape(200, 2) % 3, np.arange(200) % 2
    reports = GRR(2.0, categories=[0, 1], random_state=0).privatize(y)
    model = LDPNaiveBayes(4.0, domains={0: 3, 1: 3}, classes=[0, 1], random_state=0)
    with pytest.raises(ValueError, match="For reports, use oracle\\(\\).aggregate and fit_tables"):
        model.fit(X, reports)
    assert model.fit(X, np.asarray(reports)).n_samples_seen_ == 200  # negative control


def test_the_variance_of_a_gain_is_the_variance_over_the_noise(seed):
    """Tables of frequent values, whose lifts are known: 2,000 draws of the noise.

    The ratio of the variances has a standard error of 3.2 %, so it is outside of 1 +- .16 in less
    than 1 of 10**6 runs. The noise of a class sums to 0, because all tables have the same shares.
    """
    rng = np.random.default_rng(seed)
    conditional = np.array([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]])
    table = np.array([0.5, 0.3, 0.2])[:, None] * conditional
    prior = table.sum(axis=0)
    std = 1e-3
    lifts, gains = log_lifts(table, std, prior)
    noise = std * rng.normal(size=(2_000, 3, 2))
    noise -= noise.mean(axis=1, keepdims=True)
    contrasts = noise - noise.sum(axis=2, keepdims=True) * prior
    observed = np.sum(contrasts * lifts, axis=(1, 2)).var()
    assert gains[2] == pytest.approx(observed, rel=0.16)
