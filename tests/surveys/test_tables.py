"""Tables of several columns: what is asked, the best linear combination, and its noise."""

import math
from itertools import combinations

import numpy as np
import pytest
from estimators import slow_but
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OUE,
    ColumnOracle,
    Consistent,
    EmpiricalBayes,
    LatentClasses,
    MarginalOracle,
    NormSub,
    SubsetSelection,
)
from sklearn_ldp._core.domains import RecordDomain
from sklearn_ldp.collection import Aggregator, read_reports, write_reports
from sklearn_ldp.planning import Plan
from sklearn_ldp.surveys import TableSet, compare_methods
from sklearn_ldp.surveys._components import Components
from sklearn_ldp.surveys._consistent import consistent_tables
from sklearn_ldp.utils._checks import check_exact_epsilon_of

DOMAINS = {"a": 3, "b": 2, "c": ["x", "y", "z", "w"], "d": 2}
SIZES = (3, 2, 4, 2)
BINARY = dict.fromkeys("pqrst", 2)
EVERY_METHOD = [
    ("split", DOMAINS),
    ("joint", DOMAINS),
    ("fourier", BINARY),
    ("auto", BINARY),
    ("auto", DOMAINS),
]


def people(domains, n=4000, seed=0):
    """Users whose columns depend on a hidden kind of user."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    columns = []
    for j, categories in enumerate(RecordDomain.declared(domains, "").columns.values()):
        codes = rng.binomial(categories.size - 1, np.where(kind, 0.75, 0.2 + 0.05 * j))
        columns.append(np.asarray(categories.categories, dtype=object)[codes])
    return np.column_stack(columns)


def true_tables(domains, users, tables):
    codes, sizes = RecordDomain.declared(domains, "").encode(users, ""), tables.sizes
    truth = {}
    for name, columns in tables.columns_of.items():
        shape = [sizes[j] for j in columns]
        cells = np.ravel_multi_index([codes[:, j] for j in columns], shape)
        truth[name] = np.bincount(cells, minlength=np.prod(shape)) / len(codes)
    return truth


def distance(tables, truth):
    """Mean total variation of the tables of two columns."""
    pairs = [name for name in truth if isinstance(name, tuple)]
    return np.mean([np.abs(tables.row(name) - truth[name]).sum() / 2 for name in pairs])


# -- privacy --------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["split", "joint", "fourier"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_epsilon_of_whole_records_is_exact(method, epsilon):
    """Enumerated: any two records, any report; the share of single columns is included."""
    oracle = MarginalOracle(
        epsilon, domains={"a": 2, "b": 2}, method=method, column_share=0.3, oracle="best"
    )
    mechanism = oracle.protocol().mechanism.for_enumeration()
    records = [(a, b) for a in range(2) for b in range(2)]
    check_exact_epsilon_of(mechanism, records, epsilon)
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(mechanism, records, 0.9 * epsilon)


# -- the best linear combination ------------------------------------------------------------------
def test_components_are_generalised_least_squares():
    """The closed form against a solver of the whole system."""
    rng = np.random.default_rng(0)
    tables = [(0, 1), (0, 2), (1, 2, 3), (3,), (0, 3)]
    joint = rng.dirichlet(np.ones(np.prod(SIZES))).reshape(SIZES)
    variances, values, rows, sides = rng.random(5) + 0.5, [], [], []
    cells = np.array(np.unravel_index(np.arange(joint.size), SIZES))
    for table, variance in zip(tables, variances, strict=True):
        shape = [SIZES[j] for j in table]
        sums = np.zeros((np.prod(shape), joint.size))
        sums[np.ravel_multi_index(cells[list(table)], shape), np.arange(joint.size)] = 1
        values.append(sums @ joint.ravel() + 0.05 * rng.standard_normal(len(sums)))
        rows.append(sums / np.sqrt(variance))
        sides.append(values[-1] / np.sqrt(variance))
    rows.append(1e5 * np.ones((1, joint.size)))
    sides.append(1e5 * np.ones(1))
    solved = np.linalg.lstsq(np.concatenate(rows), np.concatenate(sides), rcond=None)[0]
    components = Components.of_tables(SIZES, tables, values, variances)
    for table, got in zip(tables, components.own_tables(), strict=True):
        others = tuple(j for j in range(4) if j not in table)
        np.testing.assert_allclose(
            got, solved.reshape(SIZES).sum(axis=others).ravel(), rtol=0, atol=1e-10
        )
    assert components.squared_error((0, 1, 2)) == np.inf
    with pytest.raises(KeyError):
        components.tables([(0, 1, 2)])


def test_the_expected_squared_error_is_that_of_simulated_tables():
    """Errors of 500 draws: within 5 standard errors (about 1e-6), and other formulas are not."""
    rng = np.random.default_rng(1)
    tables, variances = [(0, 1), (1, 2), (0, 2, 3)], np.array([1.0, 2.0, 0.5])
    truth = [
        np.full(np.prod([SIZES[j] for j in t]), 1 / np.prod([SIZES[j] for j in t])) for t in tables
    ]
    errors = []
    for _ in range(500):
        noisy = [
            t + rng.normal(0, np.sqrt(v), len(t)) for t, v in zip(truth, variances, strict=True)
        ]
        made = Components.of_tables(SIZES, tables, noisy, variances).own_tables()
        errors.append([np.sum((m - t) ** 2) for m, t in zip(made, truth, strict=True)])
    expected = np.array(
        [Components.of_tables(SIZES, tables, None, variances).squared_error(t) for t in tables]
    )
    z = (np.mean(errors, axis=0) - expected) / (np.std(errors, axis=0) / np.sqrt(500))
    assert np.all(np.abs(z) < 5)
    alone = variances * [len(t) - 1 for t in truth]
    assert np.any(
        np.abs(np.mean(errors, axis=0) - alone) > 5 * np.std(errors, axis=0) / np.sqrt(500)
    )


@pytest.mark.parametrize(("method", "domains"), slow_but(EVERY_METHOD[:3:2], EVERY_METHOD))
def test_raw_tables_are_unbiased_and_their_intervals_hold(method, domains):
    """z of the mean error over 30 collections: |z| < 6.5 (1e-5 for all cells of all cases,
    by Student's law).

    And the sum of all squared errors over that of the variances is between .65 and 1.5.
    """
    users = people(domains, 2000)
    oracle = MarginalOracle(3.0, domains=domains, method=method, column_share=0.2)
    errors, noises = {}, {}
    for seed in range(30):
        tables = clone(oracle).set_params(random_state=seed).fit_transform(users)
        linear = Consistent(non_negative=False).fit_transform(tables)
        truth = true_tables(domains, users, linear)
        for name, table in linear.items():
            error = table.values[0] - truth[name]
            errors.setdefault(name, []).append(error)
            noises.setdefault(name, table.noise)
    squares, variances = 0.0, 0.0
    for name, of_table in errors.items():
        z = np.mean(of_table, axis=0) / (np.std(of_table, axis=0, ddof=1) / np.sqrt(30))
        assert np.all(np.abs(z) < 6.5)
        squares += np.square(of_table).mean(axis=0).sum()
        variances += noises[name].variance(truth[name]).sum()
    assert 0.65 < squares / variances < 1.5
    assert not 0.65 < 2.5 * squares / variances < 1.5  # negative control


@pytest.mark.slow
@pytest.mark.parametrize(("method", "domains"), EVERY_METHOD)
def test_intervals_of_linear_tables_cover(method, domains):
    """95 % intervals in 400 collections: all cells together within 94 and 97 %."""
    users = people(domains)
    oracle = MarginalOracle(3.0, domains=domains, method=method, column_share=0.2)
    hits = []
    for seed in range(400):
        tables = clone(oracle).set_params(random_state=seed).fit_transform(users)
        linear = Consistent(non_negative=False).fit_transform(tables)
        truth = true_tables(domains, users, linear)
        for name, table in linear.items():
            low, high = table.confidence_interval(0.95)
            hits.append(np.mean((low <= truth[name]) & (truth[name] <= high)))
    assert 0.94 < np.mean(hits) < 0.97


def test_the_method_is_the_one_with_the_least_expected_error():
    rng = np.random.default_rng(0)
    for _ in range(10):
        n_columns = int(rng.integers(3, 8))
        sizes = rng.integers(2, 4, n_columns) if rng.random() < 0.5 else np.full(n_columns, 2)
        domains = {f"q{j}": int(size) for j, size in enumerate(sizes)}
        epsilon, order = float(rng.choice([0.5, 1, 2, 4])), int(rng.integers(1, 4))
        ways = compare_methods(epsilon, domains, order)
        oracle = MarginalOracle(epsilon, domains=domains, order=order, column_share=0)
        views = oracle.protocol().mechanism.views
        assert ways["squared_error"][0] == ways["squared_error"].min()
        assert len(views) == ways["n_views"][0]
        assert max(len(view.columns) for view in views) == ways["order"][0]
        is_parity = any(view.is_parity for view in views)
        assert is_parity == (ways["method"][0] == "fourier" and ways["order"][0] > 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "order", "limit"),
    [(1, 2, 330), (4, 2, 12), (2, 2, 66), (1, 3, 1480), (2, 3, 290), (4, 3, 34)],
)
def test_sixteen_binary_columns(epsilon, order, limit):
    """The errors that uniform Fourier coefficients have are 477, 175, 109, 2,851, 1,049 and 654."""
    ways = compare_methods(epsilon, dict.fromkeys("abcdefghijklmnop", 2), order)
    assert ways["squared_error"][0] <= limit


@pytest.mark.parametrize(("method", "domains"), EVERY_METHOD)
def test_errors_are_planned(method, domains):
    """The exact noise at uniform frequencies has the error by which methods are compared.

    Raw tables that users were split among have a larger one, as they are not combined.
    """
    oracle = MarginalOracle(2.0, domains=domains, method=method, column_share=0)
    planned = Plan(oracle).rmse(1000)
    declared = RecordDomain.declared(domains, "")
    sizes = {name: np.prod([declared.columns[c].size for c in name]) for name in planned}
    total = np.mean([1000 * error**2 * sizes[name] for name, error in planned.items()])
    plan = oracle._plan(declared, oracle._request(declared)[0])
    if plan.views == oracle._tables(declared):
        assert total > 1.2 * plan.squared_error
    else:
        assert total == pytest.approx(plan.squared_error, rel=0.03)
    needed = Plan(oracle).users_for(half_width=0.01)
    assert all(n > 1000 for n in needed.values())


# -- agreement ------------------------------------------------------------------------------------
def assert_tables_agree(tables, atol=1e-9):
    for one, other in combinations(tables, 2):
        shared = set(tables.columns_of[one]) & set(tables.columns_of[other])
        margins = []
        for name in (one, other):
            columns = tables.columns_of[name]
            cells = tables.row(name).reshape([tables.sizes[j] for j in columns])
            others = tuple(i for i, j in enumerate(columns) if j not in shared)
            margins.append(cells.sum(axis=others))
        np.testing.assert_allclose(*margins, rtol=0, atol=atol)


@pytest.mark.parametrize(("method", "domains"), EVERY_METHOD)
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_consistent_tables_agree_and_have_no_negative_cells(method, domains, epsilon):
    oracle = MarginalOracle(epsilon, domains=domains, method=method, random_state=0)
    raw = oracle.fit_transform(people(domains))
    tables = Consistent().fit_transform(raw)
    assert isinstance(tables, TableSet)
    assert set(tables) >= {*raw, *domains}
    assert min(table.values.min() for table in tables.values()) >= 0
    assert_tables_agree(tables)
    linear = Consistent(non_negative=False).fit_transform(raw)
    assert_tables_agree(linear)
    assert all(table.is_raw for table in linear.values())


def test_the_nearest_consistent_tables_are_found():
    """Against a general solver of the quadratic program, over the joint distribution."""
    scipy_minimize = pytest.importorskip("scipy.optimize").minimize
    rng = np.random.default_rng(0)
    sizes, tables, variances = (2, 3, 2), [(0, 1), (1, 2), (0, 2)], np.array([1.0, 3.0, 2.0])
    values = [rng.dirichlet(np.ones(sizes[i] * sizes[j])) for i, j in tables]
    values = [value + rng.normal(0, 0.15, len(value)) for value in values]
    made, _ = consistent_tables(sizes, tables, values, variances, max_iter=5000)

    def margins(joint):
        joint = joint.reshape(sizes)
        return [joint.sum(axis=3 - i - j).ravel() for i, j in tables]

    def loss(joint):
        both = zip(margins(joint), values, variances, strict=True)
        return sum(np.sum((m - v) ** 2) / s for m, v, s in both)

    best = scipy_minimize(
        loss,
        np.full(12, 1 / 12),
        bounds=[(0, 1)] * 12,
        constraints={"type": "eq", "fun": lambda joint: joint.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    both = zip(made, values, variances, strict=True)
    # Tables that agree two by two need not be those of a joint: so the optimum may be below.
    assert sum(np.sum((m - v) ** 2) / s for m, v, s in both) <= best.fun + 1e-5


def test_post_processors_compose():
    users = people(DOMAINS, 20_000)
    raw = MarginalOracle(2.0, domains=DOMAINS, random_state=0).fit_transform(users)
    truth = true_tables(DOMAINS, users, raw)
    both = make_pipeline(NormSub(), Consistent()).fit_transform(raw)
    assert_tables_agree(both)
    other = make_pipeline(Consistent(), NormSub()).fit_transform(raw)
    assert isinstance(other, TableSet)
    assert other["a", "b"].postprocessors == ("Consistent", "NormSub")
    bayes = make_pipeline(EmpiricalBayes(), Consistent()).fit_transform(raw)
    assert distance(bayes, truth) < distance(NormSub().fit_transform(raw), truth)
    assert both.answer({"a": 1}) == pytest.approx(both.row("a")[1])


# -- life -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "domains"), slow_but(EVERY_METHOD[:3], EVERY_METHOD))
def test_files_and_checkpoints(method, domains, tmp_path):
    oracle = MarginalOracle(1.0, domains=domains, method=method)
    reports = oracle.privatize(people(domains, 3000))
    write_reports(tmp_path / "monday.parquet", reports, oracle, batch_id="monday")
    read = read_reports(tmp_path / "monday.parquet", oracle)
    server = Aggregator(oracle).add(read, "monday")
    server.save(tmp_path / "state.npz")
    tables = Aggregator.load(tmp_path / "state.npz", oracle).estimate_
    whole = clone(oracle).aggregate(reports)
    assert method in (whole.method_, "auto")
    expected = whole.estimate_
    for name in expected:
        np.testing.assert_array_equal(tables[name].values, expected[name].values)
    assert_tables_agree(LatentClasses().fit_transform(tables))


def test_weights_give_users_to_tables():
    """Tables that weigh more have less noise, others more."""
    wanted = {("a", "b"): 25, ("c", "d"): 25}
    usual, weighted = (
        Plan(MarginalOracle(2.0, domains=DOMAINS, method="split", weights=weights)).rmse(1000)
        for weights in (None, wanted)
    )
    assert {name for name in usual if weighted[name] < usual[name]} == set(wanted)
    towards = MarginalOracle(2.0, domains=DOMAINS, method="split", weights={"a": 9, ("a", "d"): 1})
    assert list(towards._weights_by_name(RecordDomain.declared(DOMAINS, "")).values()) == [
        9.0 if name in {("a", "b"), ("a", "c")} else 1.0 for name in usual
    ]
    for bad, message in (
        ({("a", "b"): 0}, "got 0"),
        ({("a", "b", "c"): 2}, "got the key .'a', 'b'"),
    ):
        with pytest.raises(ValueError, match=f"weights must map .*, {message}"):
            MarginalOracle(2.0, domains=DOMAINS, weights=bad).protocol()


def test_fit_clients_and_servers_plan_alike():
    """What is asked depends on public numbers alone: not on how many users are in `fit`."""
    users = people(DOMAINS, 3000)
    oracle = MarginalOracle(0.5, domains={name: DOMAINS[name] for name in "abc"})
    users = users[:, :3]
    fitted = clone(oracle).fit(users)
    server = clone(oracle).aggregate(clone(oracle).privatize(users))
    assert fitted.views_ == server.views_
    np.testing.assert_array_equal(fitted.sampling_probabilities_, server.sampling_probabilities_)
    assert fitted.merge(server).n_samples_seen_ == 6000
    assert fitted.merge(clone(oracle).fit(users[:10])).n_samples_seen_ == 6010
    weighted = clone(oracle).fit(users, sample_weight=np.full(3000, 100))
    assert weighted.views_ == server.views_


def test_servers_that_expect_other_numbers_of_users_are_told():
    """More users, fewer of them for single columns; such collections do not add up."""
    users = people(DOMAINS, 2000)
    few = MarginalOracle(0.5, domains=DOMAINS, method="split", expected_n_users=2000).fit(users)
    many = MarginalOracle(0.5, domains=DOMAINS, method="split", expected_n_users=10**8).fit(users)
    assert len(few.views_) == 10
    assert len(many.views_) == 6
    with pytest.raises(ValueError, match="other values of expected_n_users"):
        few.merge(many)
    other = MarginalOracle(1.0, domains=DOMAINS, method="split", expected_n_users=2000)
    with pytest.raises(ValueError, match="(?s)epsilon(?!.*expected_n_users)"):
        few.merge(other.fit(users))
    assert few.partial_fit(users).n_samples_seen_ == 4000
    with pytest.raises(ValueError, match="not valid|'nobody'|not one of|is no category|nobody"):
        few.fit(np.full((10, 4), "nobody"))
    assert few.n_samples_seen_ == 4000


@pytest.mark.parametrize(("method", "domains"), slow_but(EVERY_METHOD[:1], EVERY_METHOD))
def test_simulated_tables_have_their_noise(method, domains):
    """Standardised errors of 40 collections: mean squares of tables within .7 and 1.4."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(people(domains, 20_000), columns=list(domains))
    oracle = MarginalOracle(3.0, domains=domains, method=method, column_share=0.0)
    oracle.set_params(random_state=np.random.default_rng(0))
    truth, counts, squares = oracle.true_frequencies(frame), frame.value_counts(), []
    for _ in range(40):
        tables = oracle.simulate(counts)
        squares += [
            (table.values[0] - truth[name]) ** 2 / table.noise.variance(truth[name])
            for name, table in tables.items()
        ]
    assert isinstance(tables, TableSet)
    assert 0.7 < np.mean(np.concatenate(squares)) < 1.4
    assert_tables_agree(Consistent().fit_transform(tables))
    with pytest.raises(ValueError, match="draws only one collection, got n_repeats=2"):
        oracle.simulate(counts, 2)


def test_true_frequencies_are_those_of_the_tables():
    users = people(DOMAINS, 2000)
    oracle = MarginalOracle(1.0, domains=DOMAINS, method="split", random_state=0)
    truth = oracle.true_frequencies(users)
    assert set(truth) == set(oracle.fit(users).estimate_)
    expected = true_tables(DOMAINS, users, oracle.estimate_)
    for name, own in truth.items():
        np.testing.assert_allclose(own, expected[name])
    doubled = oracle.true_frequencies(users, sample_weight=np.full(2000, 2))
    np.testing.assert_allclose(doubled["a", "b"], truth["a", "b"])


# -- bad input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"order": 5}, r"order=5 columns, because X has only 4 feature"),
        ({"order": [("a", "e")]}, "there is no column 'e'"),
        ({"order": [("a", "a")]}, "one or more different columns"),
        ({"order": []}, "at least one table"),
        ({"method": "fourier"}, "needs columns with 2 categories"),
        ({"domains": {"a": 2000, "b": 2000}}, r"got a table of 4e\+06 cells"),
        ({"domains": {f"q{i}": 10 for i in range(9)}, "method": "joint"}, "1e.09 cells"),
        ({"column_share": 1.5}, "column_share"),
        ({"expected_n_users": 0}, "expected_n_users"),
        ({"oracle": "bset"}, "oracle"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, message):
    oracle = MarginalOracle(**{"epsilon": 1.0, "domains": DOMAINS, **parameters})
    with pytest.raises(ValueError, match=message):
        oracle.protocol()


# -- as many users as come ------------------------------------------------------------------------
def simulated(n_columns, size, epsilon, n_users, expected=None, **parameters):
    """Tables of users without users; planned for their number, or for another."""
    rng = np.random.default_rng(n_users)
    domains = {f"q{j}": size for j in range(n_columns)}
    oracle = MarginalOracle(
        epsilon, domains=domains, expected_n_users=expected or n_users, random_state=0, **parameters
    )
    records = [tuple(row) for row in rng.integers(0, size, (8, n_columns)).tolist()]
    return oracle.simulate(dict.fromkeys(records, 0) | {records[0]: n_users})


@pytest.mark.parametrize(
    ("n_columns", "epsilon", "n_users"),
    slow_but([(10, 4, 500)], [(16, 4, 30_000), (16, 2, 2000), (10, 4, 500), (16, 6, 30_000)]),
)
def test_views_without_users_are_no_reason_to_fail(n_columns, epsilon, n_users):
    """All pairs have users, though fewer come than are expected and some views have nobody."""
    tables = simulated(n_columns, 2, epsilon, n_users, expected=100_000)
    assert len(tables.views) < math.comb(n_columns, len(tables.views[0].columns))
    assert all(len(table) == 1 for table in tables.values())


def planned_surveys(n_surveys):
    """Yield the oracle and the number of users of surveys that are drawn at random."""
    rng = np.random.default_rng(0)
    for _ in range(n_surveys):
        n_columns, size = int(rng.integers(2, 17)), int(rng.choice([2, 2, 3, 5]))
        epsilon, n_users = rng.uniform(0.3, 6), int(10 ** rng.uniform(2, 5))
        domains = {f"q{j}": size for j in range(n_columns)}
        oracle = MarginalOracle(epsilon, domains=domains, expected_n_users=n_users, random_state=0)
        yield oracle, n_users


def shares_of_pairs(oracle):
    """Return the probability of each pair of columns that a user reports on it."""
    mechanism = oracle.protocol().mechanism
    shares = dict.fromkeys(combinations(range(len(oracle.domains)), 2), 0.0)
    for view, probability in zip(mechanism.views, mechanism.probabilities, strict=True):
        for pair in combinations(view.columns, 2):
            shares[pair] += probability
    return np.array(list(shares.values()))


@pytest.mark.slow
def test_no_plan_fails():
    """Every table has an estimate, or the plan is refused; a plan leaves out one of 1,000 draws.

    The probabilities are exact. The negative control has a tenth of the users.
    """
    risks, risks_of_few, n_refused = [], [], 0
    for oracle, n_users in planned_surveys(100):
        try:
            shares = shares_of_pairs(oracle)
        except ValueError as error:
            assert "tables would have no users" in str(error)  # noqa: PT017
            n_refused += 1
        else:
            risks.append(((1 - shares) ** n_users).sum())  # expected number of empty tables
            risks_of_few.append(((1 - shares) ** (n_users // 10)).sum())
    assert np.mean(risks) < 1e-3
    assert np.mean(risks_of_few) > 1e-3
    assert n_refused <= 25


@pytest.mark.slow
def test_simulated_tables_have_users_as_planned():
    """More than two of 20 draws lack a table with a probability below 1e-5."""
    n_lacking = 0
    for oracle, n_users in planned_surveys(20):
        records = [(0,) * len(oracle.domains), (1,) * len(oracle.domains)]
        tables = oracle.simulate({records[0]: n_users, records[1]: 0})
        n_lacking += any(len(table) == 0 for table in tables.values())
    assert n_lacking <= 2


def test_the_noisier_the_tables_the_more_users_tell_of_single_columns():
    """Nearly all of them where a model can only tell of the columns, nobody with little noise."""
    domains, shares = dict.fromkeys("abcdefghijkl", 4), []
    for n_users in (10**4, 5 * 10**4, 10**5, 10**7):
        oracle = MarginalOracle(1.0, domains=domains, method="split", expected_n_users=n_users)
        mechanism = oracle.protocol().mechanism
        sizes = np.array([len(view.columns) for view in mechanism.views])
        shares.append(mechanism.probabilities[sizes == 1].sum())
    assert shares[0] == pytest.approx(0.9)
    assert shares[0] > shares[1] > shares[2] > shares[3] == 0


def test_tables_that_nobody_told_about():
    """They have no rows, whatever was expected; those that follow from others do."""
    tables = simulated(9, 2, 1.0, 60, expected=100_000, method="split")
    untold = [name for name, table in tables.items() if len(table) == 0]
    assert 0 < len(untold) < 36
    linear = Consistent().fit_transform(tables)
    assert [name for name, table in linear.items() if len(table) == 0] == untold
    assert_tables_agree(linear.with_parts({k: v for k, v in linear.items() if len(v)}))
    model = LatentClasses().fit_transform(tables)
    assert all(len(table) == 1 for table in model.values())
    assert_tables_agree(model, atol=1e-6)
    moved = LatentClasses(residual=True).fit_transform(tables)
    assert_tables_agree(moved, atol=1e-6)
    parities = MarginalOracle(1.0, domains=BINARY, method="fourier", random_state=0)
    assert any(len(table) == 0 for table in parities.fit_transform(people(BINARY, 3)).values())
    with pytest.raises(ValueError, match="expected_n_users=60: .* 36 sets of columns, .* no users"):
        simulated(9, 2, 1.0, 60, method="split")


@pytest.mark.slow
def test_larger_tables_are_no_worse_for_the_model():
    """Nine binary columns: at most 10 % above a split among the pairs, the mean of 8 collections.

    Both have a standard error of about 3 %. With pairs that count as if what they say of a column
    were said once for each of them, they are 15 to 25 % above it.
    """
    domains = dict.fromkeys("abcdefghi", 2)
    users = people(domains, 30_000)
    records, numbers = np.unique(users.astype(int), axis=0, return_counts=True)
    counts = dict(zip(map(tuple, records.tolist()), numbers.tolist(), strict=True))
    errors = {"auto": [], "split": []}
    for method, of_method in errors.items():
        for seed in range(8):
            oracle = MarginalOracle(
                1.0, domains=domains, method=method, column_share=0, random_state=seed
            )
            tables = LatentClasses().fit_transform(oracle.simulate(counts))
            of_method.append(distance(tables, true_tables(domains, users, tables)))
    assert np.mean(errors["auto"]) < 1.1 * np.mean(errors["split"])


def test_sets_of_columns_are_refused_by_what_needs_tables():
    columns = ColumnOracle(1.0, domains=DOMAINS, random_state=0).fit_transform(people(DOMAINS))
    for processor in (Consistent(), LatentClasses()):
        with pytest.raises(ValueError, match="needs the tables that a MarginalOracle returns"):
            processor.fit(columns)


def test_large_tables_take_little_memory():
    """Reports of 90,000 cells by the most accurate oracle would have 24,000 numbers."""
    rng = np.random.default_rng(0)
    users = rng.binomial(299, 0.5, (300, 2))
    oracle = MarginalOracle(1.0, domains={"a": 300, "b": 300}, column_share=0, random_state=0)
    assert oracle.fit(users).estimate_["a", "b"].shape == (1, 90_000)
    mechanism = oracle.protocol().mechanism
    assert mechanism.report_bits <= 64
    assert SubsetSelection(1.0).channel(90_000).report_bits > 10_000


def test_an_oracle_of_ones_own():
    oracle = MarginalOracle(2.0, domains=DOMAINS, oracle=OUE(), method="split", random_state=0)
    assert all(type(t.oracle) is OUE for t in oracle.fit_transform(people(DOMAINS)).values())
    direct = MarginalOracle(2.0, domains=DOMAINS, oracle=GRR(), order=[("a", "b"), "c"])
    tables = direct.fit_transform(people(DOMAINS))
    assert list(tables) == [("a", "b"), "c"]


@pytest.mark.parametrize("post", [Consistent(), LatentClasses()], ids=repr)
def test_rows_of_people_are_no_tables(post):
    rows = people(DOMAINS, 100)
    for call in (post.fit, post.fit_transform, post.transform):
        for given in (rows, np.random.default_rng(0).integers(0, 2, (100, 3)), [[0.5, 0.5]]):
            with pytest.raises(ValueError, match=f"MarginalOracle.*{type(post).__name__}\\(\\)"):
                call(given)


def test_a_plan_is_made_once(monkeypatch):
    """Clients ask for it for each record; another budget or domain is another plan."""
    made, make = [], MarginalOracle._make_mechanism

    def counting(self, domain):
        made.append(self.epsilon)
        return make(self, domain)

    monkeypatch.setattr(MarginalOracle, "_make_mechanism", counting)
    domains = {"a": 2, "b": 3, "c": 5, "only here": 2}
    first = MarginalOracle(1.125, domains=domains).protocol()
    for _ in range(3):
        again = MarginalOracle(1.125, domains=domains, n_shards=2, n_jobs=1)
        assert again.protocol().mechanism is first.mechanism
        again.privatize(np.zeros((1, 4), dtype=int))
    assert made == [1.125]
    MarginalOracle(1.25, domains=domains).protocol()
    MarginalOracle(1.125, domains={**domains, "a": 4}).protocol()
    MarginalOracle(1.125, domains=domains, weights={"a": 3}).protocol()
    assert made == [1.125, 1.25, 1.125, 1.125]


def test_a_class_of_the_same_name_has_a_plan_of_its_own():
    """As where a cell of a notebook is run again."""

    def defined(epsilon):
        class Fixed(GRR):
            def _make_mechanism(self, domain):
                return GRR(epsilon).channel(domain)

        Fixed.__module__, Fixed.__qualname__ = __name__, "Fixed"
        globals()["Fixed"] = Fixed
        return MarginalOracle(1.0, domains={"a": 2, "b": 3}, oracle=Fixed(), method="split")

    first, second = (defined(e).protocol().mechanism.mechanisms[0].p for e in (0.5, 0.75))
    assert first < second


def test_cells_are_labelled_by_their_columns():
    domains = {"sex": ["F", "M"], "smokes": ["no", "yes"]}
    users = np.array([["F", "no"], ["M", "yes"]] * 100)
    tables = MarginalOracle(4.0, domains=domains, random_state=0).fit_transform(users)
    (display,) = tables.plot().values()
    axes = display.ax_
    labels = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    assert {label.get_text() for label in labels} >= {"F, no", "F, yes", "M, no", "M, yes"}
