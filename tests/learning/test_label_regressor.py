"""Numbers as private labels."""

from itertools import product

import numpy as np
import pytest
from estimators import slow_but
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_ldp import LocalMean, PrivacyWarning
from sklearn_ldp._core.mechanisms.mean import MeanMechanism, mean_table
from sklearn_ldp.learning import LabelDPRegressor

BOUNDS = (0, 40)


def people(n, seed, slope=5.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.clip(20 + slope * X[:, 0] + rng.normal(scale=3, size=n), *BOUNDS)


def test_reports_are_those_of_a_mean_and_unbiased():
    """The label's channel is LocalMean's, whose epsilon tests of that enumerate."""
    X, y = people(20_000, 0)
    model = LabelDPRegressor(LinearRegression(), epsilon=2.0, bounds=BOUNDS, random_state=0)
    reports = model.privatize(y)
    oracle = LocalMean(2.0, bounds=BOUNDS, input="reports").fit(reports)
    assert abs(oracle.mean_ - y.mean()) < 4 * oracle.standard_error_
    server = clone(model).set_params(input="reports").fit(X, reports)
    slope = server.estimator_.coef_[0]
    assert abs(slope - 5) < 0.6  # the noise has a standard deviation of 21 at most, over 20,000
    other = LocalMean(1.0, bounds=BOUNDS, random_state=0).privatize(y)
    with pytest.raises(ValueError, match="epsilon|channel|configuration"):
        server.fit(X, other)  # negative control


def test_it_is_near_clean_labels_with_many_users():
    (X, y), (new, truth) = people(40_000, 1), people(5_000, 2)
    model = LabelDPRegressor(epsilon=2.0, bounds=BOUNDS, random_state=0).fit(X, y)
    clean = Ridge().fit(X, y).score(new, truth)
    assert clean - 0.02 < model.score(new, truth) < clean + 0.001
    naive = Ridge().fit(X, model.privatize(y))  # negative control: numbers of outputs are no labels
    assert naive.score(new, truth) < 0


@pytest.mark.parametrize(
    ("n", "epsilon"), slow_but([(20, 0.5), (200, 0.1)], list(product([20, 200], [0.1, 0.5])))
)
def test_it_ends_at_the_constant_where_reports_do_not_support_more(n, epsilon):
    """The error beside that of the private mean, in 20 collections of many useless features."""
    rng, errors = np.random.default_rng(3), []
    new, truth = people(2_000, 4, slope=0.0)
    wide = np.hstack([new, rng.normal(size=(2_000, 20))])
    for seed in range(20):
        X, y = people(n, seed, slope=0.0)
        X = np.hstack([X, rng.normal(size=(n, 20))])
        model = LabelDPRegressor(epsilon=epsilon, bounds=BOUNDS, random_state=seed).fit(X, y)
        plain = LinearRegression().fit(X, y + rng.laplace(scale=40 / epsilon, size=n))
        ways = model.predict(wide), model.constant_, np.clip(plain.predict(wide), *BOUNDS)
        errors.append([np.mean((way - truth) ** 2) for way in ways])
    own, constant, other = np.sqrt(np.mean(errors, axis=0))
    assert own < 1.02 * constant
    assert other > 1.02 * constant  # negative control


def test_the_constant_is_told_once():
    """And the default penalty goes on until the best is inside."""
    model = LabelDPRegressor(epsilon=0.1, bounds=BOUNDS, random_state=0)
    with pytest.warns(UserWarning, match=r"ends at the constant \(.*\), because 50 reports"):
        model.fit(*people(50, 5))
    assert model.weight_ == 0
    assert set(model.predict(people(50, 5)[0])) == {model.constant_}
    model = LabelDPRegressor(epsilon=0.5, bounds=BOUNDS, random_state=0)
    with pytest.warns(UserWarning, match="constant"):
        model.fit(*people(500, 10, slope=0.0))
    assert model.estimator_.alpha_ > 1e6


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_squares_are_unbiased_by_enumeration(epsilon):
    mechanism = MeanMechanism(mean_table(epsilon, 1.1))
    inputs = np.linspace(-1, 1, mechanism.n_categories)
    step = inputs[1] - inputs[0]
    means = mechanism.probabilities.T @ mechanism.squares
    assert means == pytest.approx(inputs**2 - step**2 / 6, abs=1e-6)
    plain = mechanism.probabilities.T @ mechanism.values**2  # negative control
    assert np.abs(plain - inputs**2).max() > 0.005
    assert MeanMechanism(mean_table(0.1, 1.1)).squares is None


def told_linearly(model, X, reports):
    """R squared and its error as if the variance of the labels were known well."""
    mechanism = model.oracle().protocol().mechanism
    z, squares = (table[np.asarray(reports)] for table in (mechanism.values, mechanism.squares))
    f, mean = model.predict(X) / 20 - 1, z.mean()
    spreads = squares - mean**2 - 2 * mean * (z - mean)
    explained = 2 * z * f - f**2 - mean**2 - 2 * mean * (z - mean)
    total = spreads.mean()
    if total < spreads.std() / np.sqrt(len(z)):
        spreads, total = 0 * z, 1.0
    score = explained.mean() / total
    return score, ((explained - score * spreads) / total).std() / np.sqrt(len(z))


@pytest.mark.filterwarnings("ignore:These reports do not determine the variance")
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_the_error_of_a_score_is_told_where_it_is_known(seed, epsilon):
    """At most a tenth of the errors that are told miss; fails once in 10**5 runs of 300 draws.

    The negative control is the error that takes the variance of the labels as known well: at
    epsilon 0.5, three fifths of those miss.
    """
    X, y = people(4_000, 8)
    model = LabelDPRegressor(Ridge(), epsilon=epsilon, bounds=BOUNDS, random_state=0).fit(X, y)
    model.estimator_, model.weight_ = Ridge().fit(X, y), 1.0
    right, missed = r2_score(y, model.predict(X)), {"own": [], "linear": []}
    oracle = LocalMean(epsilon, bounds=BOUNDS, random_state=np.random.default_rng(seed))
    for _ in range(300):
        reports = oracle.privatize(y)
        ways = (
            model.corrected_score(X, reports, return_error=True),
            told_linearly(model, X, reports),
        )
        for found, (score, error) in zip(missed.values(), ways, strict=True):
            found += [abs(score - right) > 1.96 * error] * int(np.isfinite(error))
    assert len(missed["own"]) > 20
    assert sum(missed["own"]) <= stats.binom.isf(1e-5, len(missed["own"]), 0.1)
    assert epsilon > 0.5 or np.mean(missed["linear"]) > 0.4


@pytest.mark.parametrize(
    ("n_draws", "margin"), [(60, 0.17), pytest.param(300, 0.05, marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore:These reports do not determine the variance")  # of one draw
def test_the_score_from_reports_covers(n_draws, margin, seed):
    """R squared within 1.96 of the standard errors told, in .95 of 300 draws, +- .05 (4 sd).

    Of 60 draws, +- .17 (an error rate of 1e-6). The mean of the errors is about the standard
    deviation of the scores, which has a relative error of .1 in 60 draws.

    The negative control is the score of reports as if they were labels.
    """
    X, y = people(4_000, 6)
    new, truth = people(1_000, 7)
    model = LabelDPRegressor(Ridge(), epsilon=2.0, bounds=BOUNDS, random_state=0).fit(X, y)
    # The score of the population that the new users are drawn from.
    large, large_truth = people(200_000, 8)
    right = model.score(large, large_truth)
    rng, inside, naive = np.random.default_rng(seed), [], []
    scores = []
    oracle = LocalMean(2.0, bounds=BOUNDS, random_state=rng)
    for _ in range(n_draws):
        new, truth = people(1_000, rng)
        reports = oracle.privatize(truth)
        score, error = model.corrected_score(new, reports, return_error=True)
        inside += [abs(score - right) < 1.96 * error] * int(np.isfinite(error))
        scores += [(score, error)] * int(np.isfinite(error))
        z = 20 + 20 * oracle.protocol().mechanism.values[np.asarray(reports)]
        naive.append(1 - np.mean((z - model.predict(new)) ** 2) / z.var())
    assert abs(np.mean(inside) - 0.95) < margin
    assert np.mean(scores, axis=0)[1] < 1.5 * np.std(scores, axis=0)[0]
    assert np.mean(naive) < right - 0.3


@pytest.mark.parametrize(
    "scoring", [None, "r2", pytest.param("neg_mean_squared_error", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore:These reports do not determine the variance")  # of a fold
def test_searches_over_reports_find_the_penalty_that_noise_needs(scoring):
    """scikit-learn's scorers need the numbers that reports stand for."""
    X, y = people(3_000, 9)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(3_000, 60))])
    model = LabelDPRegressor(
        make_pipeline(StandardScaler(), Ridge()), epsilon=1.0, bounds=BOUNDS, input="reports"
    )
    reports = LocalMean(1.0, bounds=BOUNDS, random_state=0).privatize(y)
    numbers = reports if scoring is None else model.decode(reports)
    grid = {"estimator__ridge__alpha": [1e-3, 1e3]}
    search = GridSearchCV(model, grid, cv=3, scoring=scoring).fit(X, numbers)
    assert search.best_params_ == {"estimator__ridge__alpha": 1e3}
    clean = GridSearchCV(model.estimator, {"ridge__alpha": [1e-3, 1e3]}, cv=3).fit(X, y)
    assert clean.best_params_ == {"ridge__alpha": 1e-3}  # negative control: true labels need less


def test_weights_and_other_regressors():
    X, y = people(2_000, 12)
    w = np.arange(2_000) % 3
    model = LabelDPRegressor(Ridge(), epsilon=4.0, bounds=BOUNDS, input="reports")
    reports = LocalMean(4.0, bounds=BOUNDS, random_state=0).privatize(y)
    rows = np.repeat(np.arange(2_000), w)
    weighted = clone(model).fit(X, reports, sample_weight=w).estimator_.coef_
    repeated = clone(model).fit(X[rows], np.asarray(reports)[rows]).estimator_.coef_
    assert weighted == pytest.approx(repeated)
    trees = HistGradientBoostingRegressor(min_samples_leaf=300, max_iter=20)
    assert clone(model).set_params(estimator=trees).fit(X, reports).weight_ > 0.5
    assert model.fit(X, reports).predict(X).max() <= 40


@pytest.mark.parametrize(
    ("y", "options", "match"),
    [
        ([1.0, 50.0], {"bounds": BOUNDS}, "outside of the bounds"),
        ([[1.0, 2.0], [3.0, 4.0]], {"bounds": BOUNDS}, "one number per user"),
        ([1.0, np.nan], {"bounds": BOUNDS}, "NaN"),
        ([1.0, 2.0], {"bounds": (3, 1)}, "bounds"),
        ([1.0, 2.0], {"bounds": None, "input": "reports"}, "bounds"),
        ([1.0, 2.0], {"bounds": BOUNDS, "estimator": LogisticRegression()}, "trains regressors"),
        ([0, 10**6], {"bounds": BOUNDS, "input": "reports"}, "report"),
    ],
)
def test_what_is_refused(y, options, match):
    with pytest.raises(ValueError, match=match):
        LabelDPRegressor(random_state=0, **options).fit([[0.0], [1.0]], y)


def test_reports_are_no_labels():
    X, y = people(200, 13)
    model = LabelDPRegressor(Ridge(), epsilon=8.0, bounds=BOUNDS, random_state=0).fit(X, y)
    reports = model.privatize(y)
    for read in (model.privatize, lambda y: model.fit(X, y), lambda y: model.score(X, y)):
        with pytest.raises(
            ValueError, match="got reports that are already randomized. For reports, use input"
        ):
            read(reports)
    assert model.score(X, np.asarray(reports) % 40) < 1  # negative control: whoever means it


def test_bounds_that_are_learnt_are_a_leak():
    X, y = people(100, 13)
    with pytest.warns(PrivacyWarning, match="learns the bounds"):
        model = LabelDPRegressor(Ridge(), epsilon=8.0).fit(X, y)
    assert model.bounds_ == (y.min(), y.max())


def test_numbers_of_reports_are_reports():
    X, y = people(2_000, 12)
    model = LabelDPRegressor(Ridge(), epsilon=2.0, bounds=BOUNDS, random_state=0)
    reports, server = model.privatize(y), clone(model).set_params(input="reports")
    numbers = np.array([float(f"{x:.7g}") for x in model.decode(reports)])  # as a table has them
    assert abs(numbers.mean() - y.mean()) < 4 * numbers.std() / np.sqrt(len(y))
    for way in (numbers, numbers.tolist(), reports):
        found = clone(server).fit(X, way)
        assert found.constant_ == clone(server).fit(X, reports).constant_
        assert found.score(X, way) == found.score(X, reports)
    for other in ({"epsilon": 1.0}, {"bounds": (0, 41)}):  # negative controls
        with pytest.raises(ValueError, match="not one of the .* possible decoded reports"):
            clone(server).set_params(**other).fit(X, numbers)
    with pytest.raises(ValueError, match="number nan, which is not one of"):
        clone(server).fit(X, np.append(numbers[:-1], np.nan))


@pytest.mark.parametrize("epsilon", [0.1, 0.2])
def test_a_score_without_a_variance_is_nearer_to_zero(epsilon):
    """Reports without information on the variance give a part of R squared, without an error."""
    X, y = people(20_000, 13)
    clean = Ridge().fit(X, y)
    model = LabelDPRegressor(Ridge(), epsilon=epsilon, bounds=BOUNDS, random_state=0).fit(X, y)
    reports, right = model.privatize(y), clean.score(X, y)
    model.estimator_, model.weight_ = clean, 1.0
    with pytest.warns(UserWarning, match="do not determine the variance of labels"):
        score, error = model.corrected_score(X, reports, return_error=True)
    largest = y.var() / 20**2  # over that of two equal halves at the bounds
    assert np.isnan(error)
    assert abs(score - right * largest) < 0.4  # of one draw, 4 standard errors at epsilon 0.2


def test_a_constant_of_few_reports_is_towards_the_middle():
    """The error of the mean of 30 reports, in 40 collections, and that of the reports' mean."""
    errors = []
    for seed in range(40):
        X, y = people(30, seed, slope=0.0)
        model = LabelDPRegressor(Ridge(), epsilon=0.1, bounds=BOUNDS, random_state=seed)
        with pytest.warns(UserWarning, match="constant"):
            model.fit(X, np.maximum(y - 8, 0))
        plain = np.clip(model.decode(model.privatize(np.maximum(y - 8, 0))).mean(), *BOUNDS)
        errors.append([model.constant_ - 12, plain - 12])
    own, plain = np.sqrt(np.mean(np.square(errors), axis=0))
    assert own < 0.7 * plain
