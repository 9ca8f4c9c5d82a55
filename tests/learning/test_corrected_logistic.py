"""CorrectedLogisticRegression: an unbiased loss, consistent coefficients, bounded where few."""

from itertools import product

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_ldp import GRR, OUE
from sklearn_ldp.learning import CorrectedLogisticRegression, PrivatizedColumns
from sklearn_ldp.learning._corrected_models import CorrectedLogLoss
from sklearn_ldp.utils.estimator_checks import exact_report_distribution, expected_failed_checks

DOMAINS = {"a": 2, "b": 3}
BLOCKS = [np.arange(2), np.arange(2, 5)]
TRUTH = np.array([-0.5, 0.5, -1.0, 0.0, 1.0, 0.5])


@parametrize_with_checks(
    [CorrectedLogisticRegression(private=[])],
    expected_failed_checks=expected_failed_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def population(n, rng, epsilon=3.0, oracle="best"):
    """Noisy features, true ones, and classes."""
    codes = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, n)])
    public = (rng.normal(size=n) + 0.5 * codes[:, 1])[:, None]
    transformer = PrivatizedColumns(epsilon, domains=DOMAINS, oracle=oracle, random_state=rng)
    noisy = np.hstack([transformer.fit_transform(codes), public])
    true = np.hstack([transformer.true_indicators(codes), public])
    return noisy, true, rng.random(n) < special.expit(true @ TRUTH)


@pytest.mark.parametrize("oracle", [GRR(), OUE()], ids=repr)
def test_the_loss_is_unbiased(oracle):
    """Exactly, over all reports; the loss at the noisy row itself is the negative control."""
    transformer = PrivatizedColumns(2.0, domains=DOMAINS, oracle=oracle)
    reader = PrivatizedColumns(2.0, domains=DOMAINS, oracle=oracle, input="reports")
    at = np.r_[TRUTH, 0.3]
    for code in product(range(2), range(3)):
        law = exact_report_distribution(transformer.protocol().mechanism, code)
        reports, chances = np.array(list(law)), np.array(list(map(float, law.values())))
        X = np.c_[reader.fit_transform(reports), np.full(len(reports), 1.7)]
        true = np.r_[np.eye(2)[code[0]], np.eye(3)[code[1]], 1.7]
        for is_second in (True, False):
            y = np.full(len(X), is_second)
            loss, gradient = CorrectedLogLoss(X, y, chances, BLOCKS, np.zeros((6, 6)), True)(at)
            margin = (true @ TRUTH + 0.3) * (1 if is_second else -1)
            assert loss == pytest.approx(-special.log_expit(margin), abs=1e-12)
            slope = special.expit(true @ TRUTH + 0.3) - is_second
            np.testing.assert_allclose(gradient, np.r_[true, 1] * slope, atol=1e-12)
            plain = -special.log_expit((X @ TRUTH + 0.3) * (1 if is_second else -1))
            assert abs(chances @ plain - loss) > 0.005


def test_the_gradient_is_that_of_the_loss(monkeypatch):
    rng = np.random.default_rng(0)
    X, _, y = population(200, rng)
    penalty = np.diag(rng.random(6))
    whole = CorrectedLogLoss(X, y, rng.random(200), BLOCKS, penalty, True)
    at = rng.normal(size=7)
    assert optimize.check_grad(lambda t: whole(t)[0], lambda t: whole(t)[1], at) < 1e-5
    loss, gradient = whole(at)
    monkeypatch.setattr("sklearn_ldp.learning._corrected_models._CHUNK_LOSSES", 100)
    assert whole(at)[0] == pytest.approx(loss)
    np.testing.assert_allclose(whole(at)[1], gradient)


@pytest.mark.parametrize("private", [[], BLOCKS], ids=["none", "private"])
def test_without_noise_it_is_logistic_regression(private):
    rng = np.random.default_rng(1)
    _, X, y = population(800, rng)
    weight = rng.random(800)
    for C in (0.1, 5.0):
        model = CorrectedLogisticRegression(C, private=private, tol=1e-8).fit(X, y, weight)
        plain = LogisticRegression(C=C, tol=1e-8, max_iter=1000).fit(X, y, weight)
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-4)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-4)
        assert model.n_raised_ == 0


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["best", OUE()], ids=str)
def test_it_is_consistent(oracle):
    """The standard deviations of the coefficients were measured as 0.007 to 0.02; six of the
    largest are allowed, an error rate below 1e-8. LogisticRegression is the negative control."""
    X, _, y = population(200_000, np.random.default_rng(2), 4.0, oracle)
    model = CorrectedLogisticRegression(private=BLOCKS).fit(X, y)
    assert model.n_raised_ == 0
    assert np.abs(model.coef_[0] - TRUTH).max() < 0.12
    assert np.abs(LogisticRegression().fit(X, y).coef_[0] - TRUTH).max() > 0.4


def test_it_is_bounded_where_rows_are_few():
    """Categories that are rarer than their noise; without what is raised the loss is a disaster."""
    rng = np.random.default_rng(3)
    codes = rng.choice(20, 4000, p=(1 / np.arange(1, 21)) / np.sum(1 / np.arange(1, 21)))
    y = rng.random(4000) < np.where(codes < 2, 0.7, 0.2)
    transformer = PrivatizedColumns(1.0, domains={"a": 20}, random_state=0)
    Z, T = transformer.fit_transform(codes[:, None]), transformer.true_indicators(codes[:, None])
    model = CorrectedLogisticRegression(private=transformer.slices_).fit(Z, y)
    assert model.n_raised_ > 20
    assert log_loss(y, model.predict_proba(T)) < 0.67
    loss = CorrectedLogLoss(Z, y, np.ones(4000), [np.arange(20)], np.eye(20), True)
    at = optimize.minimize(loss, np.zeros(21), jac=True, method="L-BFGS-B").x
    assert log_loss(y, special.expit(T @ at[:-1] + at[-1])) > 1


def test_true_rows_are_predicted_better():
    rng = np.random.default_rng(4)
    X, _, y = population(40_000, rng, 2.0)
    _, T, y_true = population(10_000, rng)
    losses = [
        log_loss(y_true, model.fit(X, y).predict_proba(T))
        for model in (CorrectedLogisticRegression(private=BLOCKS), LogisticRegression())
    ]
    assert losses[0] < losses[1] - 0.02


def test_bad_input_is_refused():
    X, _, y = population(100, np.random.default_rng(5))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        CorrectedLogisticRegression(private=[]).fit(X, np.arange(100) % 3)
    with pytest.raises(ValueError, match="got 1 class"):
        CorrectedLogisticRegression(private=[]).fit(X, np.zeros(100, dtype=int))
    many = [range(20), range(20, 40), range(40, 60)]
    with pytest.raises(ValueError, match="8000 joint categories, expected at most 1000"):
        CorrectedLogisticRegression(private=many).fit(np.full((100, 60), 1 / 20), y)
    with pytest.raises(ValueError, match="names the column 6"):
        CorrectedLogisticRegression(private=[range(3, 7)]).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter=2") as warned:
        CorrectedLogisticRegression(private=BLOCKS, max_iter=2).fit(X, y)
    assert len(warned) == 1  # of two fits


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_unscaled_features_reach_the_same_optimum_in_few_steps(fit_intercept):
    """Without scaling inside, 1,000 steps did not reach it: the loss of then is the control."""
    X, _, y = population(3000, np.random.default_rng(6))
    X = np.c_[X, np.random.default_rng(7).normal(size=(3000, 2)) * [5e4, 20] + [4e4, 2000]]
    options = {"private": BLOCKS, "fit_intercept": fit_intercept, "C": 1e12}
    model = CorrectedLogisticRegression(**options).fit(X, y)
    scaled = np.array([*np.ones(6), 5e4, 20])
    same = CorrectedLogisticRegression(**options).fit(X / scaled, y)
    assert model.n_iter_ < 300
    np.testing.assert_allclose(model.coef_ * scaled, same.coef_, atol=1e-4)
    loss = CorrectedLogLoss(X, y, np.ones(3000), BLOCKS, np.zeros((8, 8)), fit_intercept)
    raw = optimize.minimize(
        loss, np.zeros(9), jac=True, method="L-BFGS-B", options={"maxiter": 100}
    )
    _, gradient = loss(raw.x)
    assert np.abs(gradient).max() > 1e-3
