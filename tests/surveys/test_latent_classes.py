"""The joint model of tables: its fit, its answers, and the rows that it makes."""

import pickle

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from test_tables import (
    BINARY,
    DOMAINS,
    EVERY_METHOD,
    assert_tables_agree,
    distance,
    people,
    true_tables,
)

from sklearn_ldp import (
    ColumnOracle,
    Consistent,
    EmpiricalBayes,
    LatentClasses,
    MarginalOracle,
    NormSub,
)
from sklearn_ldp.inference import independence
from sklearn_ldp.surveys import ClassMixture, _latent_classes
from sklearn_ldp.surveys._class_mixture import ClassFit, PairTables


@pytest.fixture(scope="module")
def users():
    return people(DOMAINS, 30_000)


@pytest.fixture(scope="module")
def raw(users):
    return MarginalOracle(2.0, domains=DOMAINS, random_state=0).fit_transform(users)


@pytest.fixture(scope="module")
def model(raw):
    return LatentClasses(2, n_mixtures=1).fit(raw)  # as good as the default here, and fast


@pytest.fixture(scope="module")
def tables(model):
    return model.estimate_


# -- the model ------------------------------------------------------------------------------------
def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    sizes = (3, 2, 4)
    noisy = PairTables(sizes)
    noisy.add((0, 1), rng.random(6), rng.random(6) + 0.1)
    noisy.add((1, 2), rng.random(8), 0.3)
    noisy.add((2,), rng.random(4), 0.2)
    fit = ClassFit([rng.dirichlet(np.ones(k)) for k in sizes], 2, 3, 0.7, rng)

    def loss(flat):
        return fit._loss(flat, noisy)[0]

    def gradient(flat):
        return fit._loss(flat, noisy)[1]

    assert check_grad(loss, gradient, rng.normal(size=fit._parameters.size)) < 1e-5


def test_tables_of_a_mixture_are_those_of_its_joint_distribution():
    rng = np.random.default_rng(0)
    sizes = (2, 3, 4)
    mixture = ClassMixture(
        rng.dirichlet(np.ones(5)), [rng.dirichlet(np.ones(k), 5).T for k in sizes]
    )
    joint = mixture.table((0, 1, 2)).reshape(sizes)
    assert joint.sum() == pytest.approx(1)
    np.testing.assert_allclose(mixture.table((0, 2)), joint.sum(axis=1).ravel())
    np.testing.assert_allclose(mixture.table((1,)), joint.sum(axis=(0, 2)))
    allowed = {0: np.array([1]), 2: np.array([0, 3])}
    assert mixture.conjunction(allowed) == pytest.approx(joint[1][:, [0, 3]].sum())


def test_rows_have_the_law_of_the_mixture():
    """Chi-square of 24 cells below its quantile of 1 - 1e-9; other shares are found."""
    rng = np.random.default_rng(1)
    columns = [rng.dirichlet(np.ones(k), 3).T for k in (2, 3, 4)]
    mixture = ClassMixture(np.array([0.5, 0.3, 0.2]), columns)
    rows = mixture.sample(40_000, rng)
    counts = np.bincount(np.ravel_multi_index(rows.T, (2, 3, 4)), minlength=24)

    def statistic(of):
        expected = 40_000 * of.table((0, 1, 2))
        return np.sum((counts - expected) ** 2 / expected)

    assert statistic(mixture) < 93  # of 23 degrees of freedom
    assert statistic(ClassMixture(np.array([0.4, 0.4, 0.2]), columns)) > 93


# -- the fit --------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(("method", "domains"), EVERY_METHOD[:3])
def test_the_model_is_better_than_what_it_is_made_of(method, domains):
    """Columns depend on a hidden kind of user, unlike independent columns and raw tables.

    Five collections together: the error of one is .6 to 1.03 of that of consistent tables.
    """
    users, names, of_model, of_tables = people(domains, 20_000), list(domains), [], []
    for seed in range(5):
        oracle = MarginalOracle(1.0, domains=domains, method=method, random_state=seed)
        raw = oracle.fit_transform(users)
        model = LatentClasses().fit(raw)
        truth = true_tables(domains, users, model.estimate_)
        of_model.append(distance(model.estimate_, truth))
        of_tables.append(distance(Consistent().fit_transform(raw), truth))
    of_columns = ColumnOracle(1.0, domains=domains, random_state=0).fit_transform(users)
    columns = EmpiricalBayes().fit_transform(of_columns)
    products = [
        np.abs(np.outer(columns[a].values, columns[b].values).ravel() - cells).sum() / 2
        for (a, b), cells in ((n, c) for n, c in truth.items() if isinstance(n, tuple))
    ]
    assert np.mean(of_model) < np.mean(of_tables)
    assert np.mean(of_model) < np.mean(products)
    assert set(model.estimate_) == {*raw, *names}
    assert model.noise_index_ > 0


def test_with_much_noise_columns_are_independent(users):
    raw = MarginalOracle(0.05, domains=DOMAINS, random_state=0).fit_transform(users)
    model = LatentClasses().fit(raw)
    table = model.estimate_.row(("a", "b")).reshape(3, 2)
    np.testing.assert_allclose(
        table, np.outer(table.sum(axis=1), table.sum(axis=0)), rtol=0, atol=0.01
    )


@pytest.mark.slow
def test_the_dependence_that_tables_do_not_confirm_is_left_out(monkeypatch):
    """Columns that hardly depend on each other: what the mixture finds in them is noise.

    The mean error of 4 collections is below that of the product of the columns of as many users
    (it is .97 times that, with a standard error of .02); without the estimate of the error it is
    1.3 times that.
    """
    rng = np.random.default_rng(0)
    domains = {f"q{j}": 4 for j in range(12)}
    users = rng.binomial(3, rng.random(12), (30_000, 12))
    users[:, 1] = np.where(rng.random(30_000) < 0.1, users[:, 0], users[:, 1])

    def error(own):
        model = LatentClasses(residual=False).fit(own)
        return distance(model.estimate_, true_tables(domains, users, model.estimate_))

    collections = [
        MarginalOracle(4.0, domains=domains, method="split", random_state=s).fit_transform(users)
        for s in range(4)
    ]
    of_model = np.mean([error(raw) for raw in collections])
    monkeypatch.setattr(_latent_classes, "_dependence", lambda *_: 0.0)
    of_columns = np.mean([error(raw) for raw in collections])
    monkeypatch.setattr(_latent_classes, "_dependence", lambda *_: 1.0)
    assert of_model < 1.02 * of_columns
    assert np.mean([error(raw) for raw in collections]) > 1.1 * of_columns


def test_the_dependence_that_tables_confirm_is_kept(model):
    assert 0.8 < model.dependence_ <= 1
    mixture = model.mixture_
    half = mixture.shrunk(0.5)
    assert half.shares.sum() == pytest.approx(1)
    alone = mixture.shrunk(0.0)
    for columns in ((0,), (0, 1)):
        np.testing.assert_allclose(
            half.table(columns), (mixture.table(columns) + alone.table(columns)) / 2, atol=1e-12
        )


def test_tables_agree_and_have_no_negative_cells(raw, tables):
    for made in (tables, LatentClasses(2, n_mixtures=1, residual=False).fit_transform(raw)):
        assert min(table.values.min() for table in made.values()) >= 0
        assert_tables_agree(made)
        assert all(table.values.sum() == pytest.approx(1) for table in made.values())


def test_the_residual_helps_where_there_is_little_noise():
    users = people(DOMAINS, 30_000)
    users[:, 3] = np.where(users[:, 0] == 1, 1, users[:, 3])  # what a mixture finds hard
    raw = MarginalOracle(6.0, domains=DOMAINS, random_state=0).fit_transform(users)
    one_class = LatentClasses(1, residual=False).fit_transform(raw)
    with_residual = LatentClasses(1).fit_transform(raw)
    truth = true_tables(DOMAINS, users, with_residual)
    assert distance(with_residual, truth) < 0.2 * distance(one_class, truth)


def test_processed_tables_are_refused(raw):
    with pytest.raises(
        ValueError, match="needs raw tables, got tables that were post-processed by NormSub"
    ):
        LatentClasses().fit(NormSub().fit_transform(raw))


def test_single_columns_are_a_model_too(users, tables):
    assert "independent" not in repr(tables)
    oracle = MarginalOracle(2.0, domains=DOMAINS, order=1, random_state=0)
    tables = make_pipeline(oracle, LatentClasses()).fit_transform(users)
    assert "cells, from a model with independent columns\n" in repr(tables)
    assert list(tables) == list("abcd")
    assert tables.answer({"a": 1, "d": 0}) == pytest.approx(tables.row("a")[1] * tables.row("d")[0])


# -- answers --------------------------------------------------------------------------------------
def share(users, **wanted):
    places = dict(zip("abcd", range(4), strict=True))
    hits = [np.isin(users[:, places[key]].tolist(), values) for key, values in wanted.items()]
    return np.mean(np.all(hits, axis=0))


@pytest.mark.parametrize(
    "conjunction",
    [{"a": 1}, {"a": [0, 2]}, {"a": 1, "c": ["x", "y"]}, {"b": 1, "c": "w", "d": 0, "a": [1, 2]}],
)
def test_conjunctions(users, tables, conjunction):
    listed = {k: v if isinstance(v, list) else [v] for k, v in conjunction.items()}
    assert tables.answer(conjunction) == pytest.approx(share(users, **listed), abs=0.03)


@pytest.mark.slow
def test_answers_come_from_the_table_with_the_least_noise(users, raw):
    """And have its interval: in raw tables and in linear ones, which are shorter."""
    linear = Consistent(non_negative=False).fit_transform(raw)
    low, high = raw.confidence_interval(0.999, {"a": 1})
    assert low < share(users, a=[1]) < high
    shorter = linear.confidence_interval(0.999, {"a": 1})
    assert shorter.low < share(users, a=[1]) < shorter.high
    assert shorter.high - shorter.low < high - low
    with pytest.raises(ValueError, match="No table contains all of the columns a, b, c"):
        linear.answer({"a": 1, "b": 1, "c": "x"})
    with pytest.raises(ValueError, match="joint model have no intervals"):
        LatentClasses().fit_transform(raw).confidence_interval(0.95, {"a": 1, "b": 1, "c": "x"})
    with pytest.raises(ValueError, match="No confidence interval is available after LatentClasses"):
        LatentClasses().fit_transform(raw).confidence_interval(0.95, {"a": 1})


@pytest.mark.parametrize(
    ("conjunction", "message"),
    [
        ({}, "Conditions must be a nonempty mapping"),
        ("a", "Conditions must be a nonempty mapping"),
        ({"e": 1}, "the column 'e', which does not exist. Use the columns 'a', 'b', 'c', 'd'"),
        ({"a": []}, "column 'a' is an empty list"),
        ({"a": 3}, "3"),
    ],
)
def test_conjunctions_that_make_no_sense_are_refused(tables, conjunction, message):
    with pytest.raises(ValueError, match=message):
        tables.answer(conjunction)


def test_independence_of_two_columns(users, raw):
    """Columns that depend on each other are found; few of 30 shuffled ones are."""
    linear = Consistent(non_negative=False).fit_transform(raw)
    assert linear.independence("a", "c").p_value[0] < 1e-6
    assert linear.independence("c", "a").p_value == linear.independence("a", "c").p_value
    assert linear.independence("a", "c").degrees_of_freedom == 6
    rng = np.random.default_rng(0)
    pair = {"a": 3, "b": 2}
    small = 0
    for seed in range(30):
        shuffled = np.column_stack([rng.permutation(users[:4000, 0]), users[:4000, 1]])
        oracle = MarginalOracle(2.0, domains=pair, random_state=seed)
        small += oracle.fit_transform(shuffled).independence("a", "b").p_value[0] < 0.05
    assert small <= 8  # binomial(30, .05) is beyond with a probability of 1e-5


# -- rows -----------------------------------------------------------------------------------------
def test_rows_have_the_tables_they_are_from(raw, tables):
    pd = pytest.importorskip("pandas")
    consistent = Consistent().fit_transform(raw)
    for source in (tables, consistent):
        rows = source.sample(50_000, random_state=0)
        assert list(rows.columns) == list("abcd")
        again = true_tables(DOMAINS, rows.to_numpy(dtype=object), source)
        assert distance(source, again) < 0.02
    assert rows["a"].dtype.kind == "i"
    assert isinstance(rows["c"].dtype, pd.CategoricalDtype)
    assert rows["c"].cat.categories.tolist() == ["x", "y", "z", "w"]
    pd.testing.assert_frame_equal(tables.sample(50, 3), tables.sample(50, 3))


def test_tables_are_data_frames(tables):
    table = tables.crosstab("a", "c")
    assert table.index.tolist() == [0, 1, 2]
    assert table.columns.tolist() == ["x", "y", "z", "w"]
    assert (table.index.name, table.columns.name) == ("a", "c")
    assert table.loc[1, "y"] == tables.answer({"a": 1, "c": "y"})
    assert tables.crosstab("c", "a").equals(table.T)
    by_row, by_column = (tables.crosstab("a", "c", normalize=n) for n in ("index", "columns"))
    np.testing.assert_allclose(by_row.sum(axis=1), 1)
    np.testing.assert_allclose(by_column.sum(axis=0), 1)
    women = tables.answer({"c": "y"}, given={"a": 1})
    assert women.item() == pytest.approx(by_row.loc[1, "y"])
    assert tables.answer({"a": 1}, given={"c": "y"}).item() == pytest.approx(by_column.loc[1, "y"])
    assert tables.answer({"a": 1}, given={"a": [0, 1], "c": "y"}).shape == (1, 1)
    assert tables.answer({"a": 1}, given={"a": 0}).item() == 0
    with pytest.raises(ValueError, match='"all", "index" or "columns", got True'):
        tables.crosstab("a", "c", normalize=True)
    with pytest.raises(ValueError, match="no table of the columns 'a' and 'a'"):
        tables.crosstab("a", "a")


def test_tables_are_transposed(users, raw):
    """With its noise: intervals of cells and of sums, and the test of independence."""
    table, turned = raw["a", "c"], raw["c", "a"]
    np.testing.assert_array_equal(turned.values.reshape(4, 3), table.values.reshape(3, 4).T)
    assert turned.categories[:2].tolist() == [("x", 0), ("x", 1)]
    for ends, of_turned in zip(
        table.confidence_interval(), turned.confidence_interval(), strict=True
    ):
        np.testing.assert_allclose(of_turned.reshape(4, 3), ends.reshape(3, 4).T)
    sums = table.confidence_interval(0.9, np.kron(np.eye(3), np.ones(4)))
    turned_sums = turned.confidence_interval(0.9, np.kron(np.ones(4), np.eye(3)))
    np.testing.assert_allclose(turned_sums, sums)
    assert independence(turned).statistic == pytest.approx(independence(table).statistic)
    bayes = EmpiricalBayes().fit_transform(turned).values.reshape(4, 3)
    np.testing.assert_allclose(bayes.T.ravel(), EmpiricalBayes().fit_transform(table).values[0])
    copied = pickle.loads(pickle.dumps(turned))
    assert copied.noise.n_samples == table.noise.n_samples
    with pytest.raises(KeyError, match="has no part"):
        raw["c", "e"]


def test_rows_need_tables_without_negative_cells(users, tables):
    raw = MarginalOracle(0.1, domains=DOMAINS, random_state=0).fit_transform(users)
    with pytest.raises(ValueError, match=r"Apply Consistent\(\) or LatentClasses\(\) first"):
        raw.sample(10)
    with pytest.raises(ValueError, match="got n_rows=0"):
        tables.sample(0)


def test_large_joint_distributions_are_never_made():
    """12 columns of 6 categories: 2e9 cells."""
    domains = {f"q{j}": 6 for j in range(12)}
    rng = np.random.default_rng(0)
    users = rng.binomial(5, rng.random((2000, 1)), (2000, 12))
    wanted = [(f"q{j}", f"q{j + 1}") for j in range(11)]
    oracle = MarginalOracle(4.0, domains=domains, order=wanted, random_state=0)
    tables = make_pipeline(oracle, LatentClasses(2, n_mixtures=1)).fit_transform(users)
    everyone = {name: list(range(6)) for name in domains}
    assert tables.answer(everyone) == pytest.approx(1)
    assert tables.sample(100, random_state=0).shape == (100, 12)
    with pytest.raises(ValueError, match=r"got a table of 2.18e\+09 cells"):
        clone(oracle).set_params(method="joint").fit(users)


def test_binary_tables_of_three_columns():
    users = people(BINARY, 20_000)
    oracle = MarginalOracle(2.0, domains=BINARY, order=3, random_state=0)
    tables = make_pipeline(oracle, LatentClasses(2, n_mixtures=1)).fit_transform(users)
    for name, truth in true_tables(BINARY, users, tables).items():
        np.testing.assert_allclose(tables.row(name), truth, rtol=0, atol=0.05)


# -- where a cheap answer is hard to beat -----------------------------------------------------
@pytest.mark.parametrize("is_pulled", [True, False])
def test_equal_columns_are_left_to_consistent_tables(is_pulled, seed, monkeypatch):
    """The error was that of Consistent in each of 12 collections.

    Negative control: a diagonal has 20 classes, not eight; the error was 3.6 to 10 times as large.
    """
    rng = np.random.default_rng(seed)
    x = rng.choice(20, 30_000, p=rng.dirichlet(np.full(20, 3.0)))
    users = np.column_stack([x, x])
    domains = {"x": 20, "y": 20}
    raw = MarginalOracle(4.0, domains=domains, random_state=seed).fit_transform(users)
    if not is_pulled:
        monkeypatch.setattr(_latent_classes, "_confirmed_step", lambda *_: 0.0)
    truth = true_tables(domains, users, raw)
    error = distance(LatentClasses().fit_transform(raw), truth)
    ratio = error / distance(Consistent().fit_transform(raw), truth)
    assert (ratio < 1.1) == is_pulled


@pytest.mark.parametrize("is_pulled", [False, True])
def test_independent_columns_are_not_left_to_consistent_tables(is_pulled, seed, monkeypatch):
    """The error was .72 to .96 of that of the product of the columns in 12 collections.

    Negative control: the consistent tables alone had 1.5 to 2.4.
    """
    domains = dict.fromkeys("abcd", 8)
    rng = np.random.default_rng(seed)
    users = np.column_stack([rng.choice(8, 30_000, p=rng.dirichlet(np.ones(8))) for _ in "abcd"])
    raw = MarginalOracle(1.0, domains=domains, random_state=seed).fit_transform(users)
    if is_pulled:
        monkeypatch.setattr(_latent_classes, "_confirmed_step", lambda *_: 1.0)
    truth = true_tables(domains, users, raw)
    columns = EmpiricalBayes().fit_transform(Consistent(non_negative=False).fit_transform(raw))
    of_product = [
        np.abs(np.outer(columns[a].values[0], columns[b].values[0]).ravel() - cells).sum() / 2
        for (a, b), cells in truth.items()
    ]
    error = distance(LatentClasses().fit_transform(raw), truth)
    assert (error < 1.2 * np.mean(of_product)) == (not is_pulled)
