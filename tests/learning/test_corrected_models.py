"""Models of private columns: unbiased losses, consistent coefficients, intervals that hold."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_ldp import GRR, OUE
from sklearn_ldp.learning import (
    CorrectedLogisticRegression,
    CorrectedRidge,
    PrivatizedColumns,
    corrected_gram,
)
from sklearn_ldp.learning._corrected_models import CorrectedLogLoss, directions_of
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

DOMAINS = {"a": 2, "b": 4}
BLOCKS = [range(2), range(2, 6)]


def population(n, rng):
    """Two columns that go together, a public feature that goes with both, and y."""
    a = rng.integers(0, 2, n)
    b = np.where(rng.random(n) < 0.5, 2 * a, rng.integers(0, 4, n))
    public = 0.5 * a + 0.3 * b + rng.normal(size=n)
    y = 1 + 2 * a + np.array([0.0, 1, -1, 0.5])[b] + 0.7 * public + rng.normal(size=n)
    return np.column_stack([a, b]), public[:, None], y


SMALL = {"a": 2, "b": 3}
SMALL_BLOCKS = [np.arange(2), np.arange(2, 5)]
LOG_ODDS = np.array([-0.5, 0.5, -1.0, 0.0, 1.0, 0.5])


def of_two_classes(n, rng, epsilon=3.0, oracle="best"):
    """Noisy features, true ones, and classes."""
    codes = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, n)])
    public = (rng.normal(size=n) + 0.5 * codes[:, 1])[:, None]
    transformer = PrivatizedColumns(epsilon, domains=SMALL, oracle=oracle, random_state=rng)
    noisy = np.hstack([transformer.fit_transform(codes), public])
    true = np.hstack([transformer.true_indicators(codes), public])
    return noisy, true, rng.random(n) < special.expit(true @ LOG_ODDS)


#: The coefficients of the first people, where those of a column have the sum 0.
TRUTH = np.r_[-1, 1, np.array([0.0, 1, -1, 0.5]) - 0.125, 0.7]


def noisy(codes, public, epsilon, rng, oracle="best"):
    transformer = PrivatizedColumns(epsilon, domains=DOMAINS, oracle=oracle, random_state=rng)
    Z, T = transformer.fit_transform(codes), transformer.true_indicators(codes)
    return np.hstack([Z, public]), np.hstack([T, public])


# -- what is corrected ----------------------------------------------------------------------------
@pytest.mark.parametrize("oracle", [GRR(), OUE()], ids=repr)
def test_the_gram_matrix_and_the_loss_are_unbiased(oracle):
    """Exactly, over all reports; at the noisy row itself, the negative control, they are biased."""
    transformer = PrivatizedColumns(2.0, domains=SMALL, oracle=oracle)
    reader = PrivatizedColumns(2.0, domains=SMALL, oracle=oracle, input="reports")
    at = np.r_[LOG_ODDS, 0.3]
    for code in product(range(2), range(3)):
        law = exact_report_distribution(transformer.protocol().mechanism, code)
        reports, chances = np.array(list(law)), np.array(list(map(float, law.values())))
        X = np.c_[reader.fit_transform(reports), np.full(len(reports), 1.7)]
        true = np.r_[np.eye(2)[code[0]], np.eye(3)[code[1]], 1.7]
        gram = corrected_gram(X, SMALL_BLOCKS, chances)
        np.testing.assert_allclose(gram, np.outer(true, true), atol=1e-12)
        assert np.abs(corrected_gram(X, [], chances) - np.outer(true, true)).max() > 0.3
        for is_second in (True, False):
            y, sign = np.full(len(X), is_second), 1 if is_second else -1
            of = CorrectedLogLoss(X, y, chances, SMALL_BLOCKS, np.zeros((6, 6)), True)
            loss, gradient = of(at)
            margin = sign * (true @ LOG_ODDS + 0.3)
            assert loss == pytest.approx(-special.log_expit(margin), abs=1e-12)
            slope = special.expit(true @ LOG_ODDS + 0.3) - is_second
            np.testing.assert_allclose(gradient, np.r_[true, 1] * slope, atol=1e-12)
            plain = -special.log_expit(sign * (X @ LOG_ODDS + 0.3))
            assert abs(chances @ plain - loss) > 0.005


# -- the estimate ---------------------------------------------------------------------------------
@pytest.mark.parametrize("alpha", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_without_noise_it_is_ridge(alpha, fit_intercept, weighted):
    rng = np.random.default_rng(1)
    codes, public, y = population(400, rng)
    _, X = noisy(codes, public, 1.0, rng)
    weight = rng.random(400) if weighted else None
    # Without a penalty the true indicators are collinear: one of each column is left out.
    given = X[:, [1, 3, 4, 5, 6]] if alpha == 0 else X
    ridge = Ridge(alpha, fit_intercept=fit_intercept, solver="cholesky").fit(given, y, weight)
    plain = CorrectedRidge(alpha, private=[], fit_intercept=fit_intercept)
    plain.fit(given, y, weight)
    np.testing.assert_allclose(plain.coef_, ridge.coef_, atol=1e-10)
    np.testing.assert_allclose(plain.intercept_, ridge.intercept_, atol=1e-10)
    if fit_intercept or alpha:
        told = CorrectedRidge(alpha, private=BLOCKS, fit_intercept=fit_intercept)
        told.fit(X, y, weight)
        np.testing.assert_allclose(told.predict(X), ridge.predict(given), atol=1e-8)
        assert told.n_raised_ == 0


@pytest.mark.parametrize("oracle", ["best", pytest.param(OUE(), marks=pytest.mark.slow)], ids=str)
def test_it_is_consistent(oracle):
    """z tests at 200,000 rows, error rate 1e-6; Ridge on the same rows is the negative control."""
    rng = np.random.default_rng(2)
    codes, public, y = population(200_000, rng)
    X, _ = noisy(codes, public, 4.0, rng, oracle)
    model = CorrectedRidge(private=BLOCKS).fit(X, y)
    assert model.n_raised_ == 0
    spread = np.sqrt(np.diag(model.coef_covariance_))
    assert np.abs((model.coef_ - TRUTH) / spread).max() < 5.3
    assert abs(model.intercept_ - (1 + 1 + 0.125)) < 0.1
    assert np.abs((Ridge().fit(X, y).coef_ - TRUTH) / spread).max() > 10
    model.fit_intercept = False
    means = np.ones(2) @ model.fit(X, y).coef_[:2] / 2 + model.coef_[2:6].sum() / 4
    assert means == pytest.approx(2.125, abs=0.1)


def test_weights_are_those_of_the_loss():
    """Rows of weight 0 are left out; a weight of 2 everywhere changes alpha alone."""
    rng = np.random.default_rng(3)
    codes, public, y = population(3000, rng)
    X, _ = noisy(codes, public, 3.0, rng)
    weight = (rng.random(3000) < 0.5).astype(float)
    kept = weight > 0
    left_out = CorrectedRidge(private=BLOCKS).fit(X, y, weight)
    alone = CorrectedRidge(private=BLOCKS).fit(X[kept], y[kept])
    np.testing.assert_allclose(left_out.coef_, alone.coef_, atol=1e-9)
    np.testing.assert_allclose(left_out.coef_covariance_, alone.coef_covariance_, atol=1e-9)
    twice = CorrectedRidge(2.0, private=BLOCKS).fit(X, y, np.full(3000, 2.0))
    once = CorrectedRidge(1.0, private=BLOCKS).fit(X, y)
    np.testing.assert_allclose(twice.coef_covariance_, once.coef_covariance_, atol=1e-9)
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(CorrectedRidge(private=BLOCKS).set_fit_request(sample_weight=True))
        np.testing.assert_array_equal(
            pipe.fit(X, y, sample_weight=weight)[-1].coef_, left_out.coef_
        )


def test_rare_categories_do_not_blow_up():
    """Categories below their noise; eigenvalues clipped at 0 are the negative control."""
    rng = np.random.default_rng(4)
    codes = rng.choice(60, 2000, p=1 / np.arange(1, 61) / np.sum(1 / np.arange(1, 61)))
    y = (codes < 3) + rng.normal(size=2000)
    transformer = PrivatizedColumns(1.0, domains={"a": 60}, random_state=0)
    Z, T = transformer.fit_transform(codes[:, None]), transformer.true_indicators(codes[:, None])
    model = CorrectedRidge(private=transformer.slices_).fit(Z, y)
    assert model.n_raised_ > 30
    assert np.mean((model.predict(T) - y) ** 2) < 3
    with pytest.warns(UserWarning, match="coefficients are biased, and intervals may"):
        model.confidence_interval()
    gram = corrected_gram(Z, [range(60)], centered=True)
    values, vectors = np.linalg.eigh(gram)
    clipped = vectors / (np.maximum(values, 0) + 1) @ vectors.T @ (Z - Z.mean(0)).T @ (y - y.mean())
    assert np.var(T @ clipped - y) > 100


# -- which features to predict from ---------------------------------------------------------------
NOISY_ROWS = "ignore:CorrectedRidge predicts from randomized rows"


@pytest.mark.filterwarnings(NOISY_ROWS)
def test_what_to_predict_from():
    """At true rows the corrected model is better, at noisy rows the plain one; by far more than
    the spread over seeds."""
    rng = np.random.default_rng(5)
    codes, public, y = population(60_000, rng)
    X, T = noisy(codes, public, 2.0, rng)
    half, rest = slice(0, 30_000), slice(30_000, None)
    corrected, plain = (
        one.fit(X[half], y[half]) for one in (CorrectedRidge(private=BLOCKS), Ridge())
    )
    assert corrected.score(T[rest], y[rest]) > plain.score(T[rest], y[rest]) + 0.05
    assert plain.score(X[rest], y[rest]) > corrected.score(X[rest], y[rest]) + 0.05
    # What true rows would score is known from noisy ones.
    estimated = corrected.corrected_score(X[rest], y[rest])
    assert estimated == pytest.approx(corrected.score(T[rest], y[rest]), abs=0.06)
    assert corrected.score(X[rest], y[rest]) < estimated - 0.2
    assert corrected.corrected_score(T[rest], y[rest]) == pytest.approx(
        corrected.score(T[rest], y[rest]), abs=1e-12
    )


@pytest.mark.filterwarnings(NOISY_ROWS)
def test_a_search_by_the_corrected_score():
    rng = np.random.default_rng(6)
    codes, public, y = population(20_000, rng)
    X, _ = noisy(codes, public, 3.0, rng)

    def score_at_true_rows(model, X, y):
        return model.corrected_score(X, y)

    grid = {"alpha": [1.0, 1e5]}
    for scoring, best in ((score_at_true_rows, 1.0), (None, 1e5)):
        search = GridSearchCV(CorrectedRidge(private=BLOCKS), grid, scoring=scoring, cv=3)
        assert search.fit(X, y).best_params_["alpha"] == best


# -- intervals ------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["best", OUE()], ids=str)
def test_intervals_cover(oracle):
    """400 collections: each coefficient's coverage is binomial, two-sided error rate 1e-5 for each.

    The negative control is the interval of the regression without the correction."""
    rng = np.random.default_rng(7)
    covered = np.zeros((2, len(TRUTH)))
    for _ in range(400):
        codes, public, y = population(8000, rng)
        X, _ = noisy(codes, public, 4.0, rng, oracle)
        for i, private in enumerate((BLOCKS, [])):
            low, high = CorrectedRidge(private=private).fit(X, y).confidence_interval(0.9)
            covered[i] += (low < TRUTH) & (high > TRUTH)
    pvalues = [[stats.binomtest(int(k), 400, 0.9).pvalue for k in row] for row in covered]
    assert min(pvalues[0]) > 1e-5
    assert max(pvalues[1]) < 1e-5


def test_variances_are_positive_where_the_penalty_is_tiny():
    """The product of three matrices had negative ones, and intervals were nan without a word."""
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, 4, 100), rng.integers(0, 3, 100)])
    columns = PrivatizedColumns(0.5, domains={"a": 4, "b": 3}, random_state=0)
    Z = columns.fit_transform(codes)
    model = CorrectedRidge(alpha=1e-6, private=columns.slices_).fit(Z, codes[:, 0] > 1)
    assert np.diag(model.coef_covariance_).min() > 0


# -- input ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "private",
    [
        [slice(0, 2), slice(2, 6)],
        [[0, 1], np.arange(2, 6)],
        {"a": range(2), "b": range(2, 6)},
        [np.arange(7) < 2, (np.arange(7) >= 2) & (np.arange(7) < 6)],
        ([1, 0], [5, 4, 3, 2]),
    ],
    ids=["slices", "indices", "mapping", "masks", "any order"],
)
def test_all_ways_to_name_columns_agree(private):
    rng = np.random.default_rng(9)
    codes, public, y = population(300, rng)
    X, _ = noisy(codes, public, 3.0, rng)
    expected = CorrectedRidge(private=BLOCKS).fit(X, y).coef_
    np.testing.assert_allclose(CorrectedRidge(private=private).fit(X, y).coef_, expected)


@pytest.mark.parametrize(
    ("private", "message"),
    [
        (range(2), r"Put the columns .* into a list"),
        ("state", r"Put the columns .* into a list"),
        (3, r"Put the columns .* into a list"),
        ([0, 1], r"private\[0\] must be a slice, a range"),
        ([[0.0, 1.0]], r"private\[0\] must be a slice, a range"),
        ([[True, False]], r"a mask of 7 booleans"),
        ([["a", "b"]], r"X has no column names"),
        ([range(2), range(5, 9)], r"private\[1\] contains the column 7, but X has 7 columns"),
        ([[-1, 0]], r"contains the column -1"),
        ([range(2), range(1, 4)], r"got the column 1 more than once"),
        ([[3, 3]], r"got the column 3 more than once"),
        ([[3]], r"selects 1 of the 7 columns"),
        ([[]], r"private\[0\]"),
    ],
)
def test_bad_columns_are_refused(private, message):
    X = np.random.default_rng(0).random((40, 7))
    with pytest.raises(ValueError, match=message):
        CorrectedRidge(private=private).fit(X, X[:, 0])


def test_columns_that_are_no_indicators_and_levels_are_refused():
    rng = np.random.default_rng(10)
    codes, public, y = population(300, rng)
    X, T = noisy(codes, public, 3.0, rng)
    for spoilt in (StandardScaler().fit_transform(X), np.delete(T, 2, axis=1)):
        with pytest.raises(ValueError, match=r"private\[0\] must be the unbiased .* sum is 1"):
            CorrectedRidge(private=[range(2, 5)]).fit(spoilt, y)
    with pytest.raises(ValueError, match="NaN"):
        CorrectedRidge(private=BLOCKS).fit(np.where(X > 1e9, 0, np.nan), y)
    with pytest.raises(ValueError, match="0.5 <= level < 1"):
        CorrectedRidge(private=BLOCKS).fit(X, y).confidence_interval(95)


# -- weak columns ---------------------------------------------------------------------------------
def test_a_weak_column_does_no_harm_and_a_strong_one_stays(seed):
    """R2 at true rows beside that of the public feature alone, 3,000 users at epsilon 1.

    The mean over 10 collections: it loses less than .01 where the column of 15 categories tells
    nothing (in 40 seeds at most .0012). The unshrunk coefficients lose .063 (standard deviation
    over seeds .0075), the negative control. A column that tells much gains .117 (.021): each of the
    latter two bounds is four standard deviations off, which fails once in some 30,000 seeds.
    """
    rng = np.random.default_rng(seed)
    gains = {0.0: [], 1.0: []}
    for effect, found in gains.items():
        for _ in range(10):
            codes, public = rng.integers(0, 15, (6000, 1)), rng.normal(size=(6000, 1))
            y = 2 * effect * (codes[:, 0] < 5) + public[:, 0] + rng.normal(size=6000)
            transformer = PrivatizedColumns(1.0, domains={"a": 15}, random_state=rng)
            Z = np.hstack([transformer.fit_transform(codes), public])[:3000]
            T = np.hstack([transformer.true_indicators(codes), public])[3000:]
            model = CorrectedRidge(private=transformer.slices_).fit(Z, y[:3000])
            alone = Ridge().fit(public[:3000], y[:3000]).score(public[3000:], y[3000:])
            score = model.score(T, y[3000:])
            model.intercept_ += Z.mean(axis=0) @ (model.coef_ - model.unshrunk_coef_)
            model.coef_ = model.unshrunk_coef_
            found.append([score - alone, model.score(T, y[3000:]) - alone])
    assert np.mean(gains[0.0], axis=0)[0] > -0.01
    assert np.mean(gains[0.0], axis=0)[1] < -0.03
    assert np.mean(gains[1.0], axis=0)[0] > 0.03


# -- which columns are private ---------------------------------------------------------------------


def framed(n=600):
    """Indicators of two attributes behind a ColumnTransformer, with public features, named."""
    rng = np.random.default_rng(3)
    people = pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "sex_at_work": rng.integers(0, 3, n),
            "age": rng.random(n),
        }
    )
    domains = {"sex": ["F", "M"], "sex_at_work": 3}
    noisy = PrivatizedColumns(4.0, domains=domains, random_state=0)
    make = ColumnTransformer([("noisy", noisy, list(domains))], remainder="passthrough")
    X = make.set_output(transform="pandas").fit_transform(people)
    return X, (people["age"] + rng.random(n) > 1).astype(int), make.named_transformers_["noisy"]


@pytest.mark.parametrize("model", [CorrectedRidge, CorrectedLogisticRegression])
def test_private_columns_may_be_named(model):
    X, y, noisy = framed()
    expected = model(private=noisy.slices_).fit(X, y).coef_
    full = list(X.columns)
    plain = X.set_axis([name.rpartition("__")[2] for name in full], axis=1)
    names = noisy.get_feature_names_out()
    for given, private in (
        (X, ["sex", "sex_at_work"]),
        (X, [full[:2], full[2:5]]),
        (plain, ["sex", "sex_at_work"]),
        (plain, {"sex": names[:2], "at work": names[2:]}),
        (plain, [range(2), "sex_at_work"]),
        (plain, [slice(2), "sex_at_work"]),
    ):
        np.testing.assert_array_equal(model(private=private).fit(given, y).coef_, expected)
    with pytest.raises(ValueError, match="X has no columns for 'weight' in private="):
        model(private=["weight"]).fit(X, y)
    with pytest.raises(ValueError, match="X has no column names"):
        model(private=["sex"]).fit(X.to_numpy(), y)


@pytest.mark.parametrize("model", [CorrectedRidge, CorrectedLogisticRegression])
def test_a_model_that_would_correct_nothing_is_refused(model):
    X, y, _ = framed()
    with pytest.raises(ValueError, match=r"private=transformer.slices_.*or private=\[\]"):
        model().fit(X, y)


def test_units_of_features_change_nothing():
    """Without scaling inside, a large unit made the coefficient of a small one 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=500)
    units = np.array([1e-3, 1.0, 1e9])
    for alpha, fit_intercept in product((0.0, 1.0), (True, False)):
        penalised = CorrectedRidge(alpha, private=[], fit_intercept=fit_intercept)
        once = penalised.fit(X * units, y)
        scaled = np.linalg.lstsq(
            np.vstack([(X - X.mean(axis=0) * fit_intercept), np.diag(np.sqrt(alpha) / units)]),
            np.r_[y - y.mean() * fit_intercept, np.zeros(3)],
        )[0]
        np.testing.assert_allclose(once.coef_ * units, scaled, rtol=1e-6)


# -- two classes ----------------------------------------------------------------------------------
def test_the_gradient_is_that_of_the_loss(monkeypatch):
    rng = np.random.default_rng(0)
    X, _, y = of_two_classes(200, rng)
    penalty = np.diag(rng.random(6))
    whole = CorrectedLogLoss(X, y, rng.random(200), SMALL_BLOCKS, penalty, True)
    at = rng.normal(size=7)
    assert optimize.check_grad(lambda t: whole(t)[0], lambda t: whole(t)[1], at) < 1e-5
    loss, gradient = whole(at)
    monkeypatch.setattr("sklearn_ldp.learning._corrected_models._CHUNK_LOSSES", 100)
    assert whole(at)[0] == pytest.approx(loss)
    np.testing.assert_allclose(whole(at)[1], gradient)


@pytest.mark.parametrize("private", [[], SMALL_BLOCKS], ids=["none", "private"])
def test_without_noise_it_is_logistic_regression(private):
    rng = np.random.default_rng(1)
    _, X, y = of_two_classes(800, rng)
    weight = rng.random(800)
    for C in (0.1, 5.0):
        model = CorrectedLogisticRegression(C, private=private, tol=1e-8).fit(X, y, weight)
        plain = LogisticRegression(C=C, tol=1e-8, max_iter=1000).fit(X, y, weight)
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-4)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-4)
        assert model.n_raised_ == 0


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["best", OUE()], ids=str)
def test_logistic_regression_is_consistent(oracle):
    """The standard deviations of the coefficients were measured as 0.007 to 0.02; six of the
    largest are allowed, an error rate below 1e-8. LogisticRegression is the negative control."""
    X, _, y = of_two_classes(200_000, np.random.default_rng(2), 4.0, oracle)
    model = CorrectedLogisticRegression(private=SMALL_BLOCKS).fit(X, y)
    assert model.n_raised_ == 0
    assert np.abs(model.coef_[0] - LOG_ODDS).max() < 0.12
    assert np.abs(LogisticRegression().fit(X, y).coef_[0] - LOG_ODDS).max() > 0.4


def test_logistic_regression_is_bounded_where_rows_are_few():
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


def test_a_class_without_weight_is_never_predicted():
    """Negative control: with its weight it is."""
    X, _, y = of_two_classes(400, np.random.default_rng(6), 2.0)
    for weight, n_classes in (((y == 0).astype(float), 1), (np.ones(len(y)), 2)):
        model = CorrectedLogisticRegression(private=SMALL_BLOCKS).fit(X, y, sample_weight=weight)
        assert np.isfinite(model.coef_).all()
        scores = model.intercept_ + X @ model.coef_[0]  # as `predict`, which warns of noisy rows
        assert len(np.unique(scores > 0)) == n_classes


@pytest.mark.parametrize("model", [CorrectedRidge, CorrectedLogisticRegression])
@pytest.mark.parametrize("constant", [0.1, 1e4])
def test_constant_columns_are_not_raised(model, constant):
    """Rounding leaves them tiny eigenvalues; negative control: rare private categories are."""
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 3, (300, 1))
    y = rng.permutation(300) % 2
    for n_categories, is_raised in ((3, False), (60, True)):
        transformer = PrivatizedColumns(2.0, domains={"a": n_categories}, random_state=0)
        Z = transformer.fit_transform(codes)
        exact = transformer.true_indicators(codes)
        columns = np.column_stack([Z if is_raised else exact, np.full((300, 4), constant)])
        fitted = model(private=transformer.slices_).fit(columns, y)
        assert (fitted.n_raised_ > 0) == is_raised


def test_classes_of_true_rows_are_predicted_better():
    rng = np.random.default_rng(4)
    X, _, y = of_two_classes(15_000, rng, 2.0)
    _, T, y_true = of_two_classes(10_000, rng)
    losses = [
        log_loss(y_true, model.fit(X, y).predict_proba(T))
        for model in (CorrectedLogisticRegression(private=SMALL_BLOCKS), LogisticRegression())
    ]
    assert losses[0] < losses[1] - 0.02


def test_bad_input_of_two_classes_is_refused():
    X, _, y = of_two_classes(100, np.random.default_rng(5))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        CorrectedLogisticRegression(private=[]).fit(X, np.arange(100) % 3)
    with pytest.raises(ValueError, match="got 1 class"):
        CorrectedLogisticRegression(private=[]).fit(X, np.zeros(100, dtype=int))
    many = [range(20), range(20, 40), range(40, 60)]
    with pytest.raises(ValueError, match="8000 joint categories, expected at most 1000"):
        CorrectedLogisticRegression(private=many).fit(np.full((100, 60), 1 / 20), y)
    with pytest.warns(ConvergenceWarning, match="max_iter=2") as warned:
        CorrectedLogisticRegression(private=SMALL_BLOCKS, max_iter=2).fit(X, y)
    assert len(warned) == 1  # of two fits


@pytest.mark.parametrize("fit_intercept", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_unscaled_features_reach_the_same_optimum_in_few_steps(fit_intercept):
    """Without scaling inside, 1,000 steps did not reach it: the loss of then is the control."""
    X, _, y = of_two_classes(3000, np.random.default_rng(6))
    X = np.c_[X, np.random.default_rng(7).normal(size=(3000, 2)) * [5e4, 20] + [4e4, 2000]]
    options = {"private": SMALL_BLOCKS, "fit_intercept": fit_intercept, "C": 1e12}
    model = CorrectedLogisticRegression(**options).fit(X, y)
    scaled = np.array([*np.ones(6), 5e4, 20])
    same = CorrectedLogisticRegression(**options).fit(X / scaled, y)
    assert model.n_iter_ < 300
    np.testing.assert_allclose(model.coef_ * scaled, same.coef_, atol=1e-4)
    loss = CorrectedLogLoss(X, y, np.ones(3000), SMALL_BLOCKS, np.zeros((8, 8)), fit_intercept)
    raw = optimize.minimize(
        loss, np.zeros(9), jac=True, method="L-BFGS-B", options={"maxiter": 100}
    )
    _, gradient = loss(raw.x)
    assert np.abs(gradient).max() > 1e-3


def test_limits_of_eigenvalues_do_not_depend_on_the_means_of_the_columns():
    rng = np.random.default_rng(0)
    indicators = np.eye(3)[rng.integers(0, 3, 500)] + 0.3 * rng.normal(size=(500, 3))
    X = np.column_stack([indicators, 0.01 * rng.normal(size=500)])
    weight = np.ones(500)
    limits = []
    for shift in (0.0, 5.0):
        moved = X + shift * np.array([0, 0, 0, 1])
        limits.append(directions_of(moved, [np.arange(3)], weight, moved.mean(axis=0))[1])
    assert np.all(limits[0] > 0)
    np.testing.assert_allclose(limits[1], limits[0], rtol=1e-6)
