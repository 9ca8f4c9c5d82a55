"""The weighted mean of candidates: weights, what is kept, and what it gains."""

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    Base,
    BaseCut,
    BasePos,
    ColumnOracle,
    NormSub,
    PowerNS,
    SyntheticSearch,
    SyntheticStack,
)
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.inspection import SearchDisplay
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.model_selection._synthetic_stack import least_on_simplex
from sklearn_ldp.queries import groups, random_sets, ranges, top_k

COUNTS = make_zipf(n_samples=50_000, n_categories=64, return_counts=True, random_state=0)
PAPERS = [Base(), BasePos(), NormSub(), BaseCut(), PowerNS()]
QUERIES = [None, random_sets(0.1), top_k(5), groups(np.arange(64) % 9), ranges(7), np.eye(3, 64)]


def an_estimate(n_rows=1, seed=0):
    return OLH(categories=64, random_state=seed).simulate(COUNTS, n_rows)


def test_weights_are_the_least_on_the_simplex():
    """Against a grid over the simplex of three; and a candidate that dominates has all weight."""
    rng = np.random.default_rng(0)
    grid = np.array([(a, b, 100 - a - b) for a in range(101) for b in range(101 - a)]) / 100
    for scale in (1e-12, 1.0):
        errors = rng.normal(size=(3, 5)) + 1.0
        products = scale * errors @ errors.T
        weights = least_on_simplex(products)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1.0)
        least = np.einsum("gi,ij,gj->g", grid, products, grid).min()
        assert weights @ products @ weights <= least * (1 + 1e-9)
    np.testing.assert_allclose(least_on_simplex(np.diag([1.0, 3.0])), [0.75, 0.25])
    np.testing.assert_array_equal(least_on_simplex(np.array([[1.0, 2.0], [2.0, 9.0]])), [1, 0])
    assert least_on_simplex(np.zeros((2, 2))).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("queries", QUERIES, ids=repr)
def test_the_errors_are_those_of_the_search(queries):
    """The same users and collections; the products' diagonal is the mean squared error."""
    options = {"queries": queries, "n_repeats": 4, "random_state": 0}
    stack = SyntheticStack(PAPERS, **options).fit(an_estimate(2))
    search = SyntheticSearch(PAPERS, **options).fit(an_estimate(2))
    for column in ("candidate", "mean_test_score", "split1_test_score", "rank_test_score"):
        expected = search.results_[column]
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(stack.results_[column], expected)
        else:
            np.testing.assert_array_equal(stack.results_[column], expected)


def test_the_result_is_the_weighted_mean(capsys):
    """It has no interval, as none would hold, and does not depend on workers."""
    estimate = an_estimate(2)
    stack = SyntheticStack(PAPERS, n_repeats=4, verbose=1).fit(estimate)
    assert "NormSub" in capsys.readouterr().err
    with parallel_config(backend="threading"):
        other = SyntheticStack(PAPERS, n_repeats=4, n_jobs=2).fit(estimate)
    np.testing.assert_array_equal(other.results_["weight"], stack.results_["weight"])
    assert list(stack.weights_) == stack.results_["candidate"].tolist()
    weights = stack.results_["weight"]
    np.testing.assert_array_equal(list(stack.weights_.values()), weights)
    assert weights.sum() == pytest.approx(1.0)
    assert np.count_nonzero(weights) > 1
    heaviest = max(stack.weights_, key=stack.weights_.__getitem__)
    display = SearchDisplay.from_estimator(stack)
    assert f"{heaviest} (weight {stack.weights_[heaviest]:.2f})" in list(display.candidates)
    assert display.chosen_ is None
    made = [clone(one).fit_transform(estimate).values for one in PAPERS]
    expected = np.tensordot(weights, made, axes=1)
    np.testing.assert_allclose(stack.frequencies_, expected, atol=1e-12)
    np.testing.assert_allclose(stack.transform(estimate).values, expected, atol=1e-12)
    stacked = stack.transform(estimate)
    assert stacked.postprocessors == ("SyntheticStack",)
    assert stacked.standard_errors is None
    with pytest.raises(
        ValueError, match="No confidence interval is available after SyntheticStack"
    ):
        stacked.confidence_interval()
    twin = pickle.loads(pickle.dumps(stack))
    np.testing.assert_array_equal(twin.transform(estimate).values, stack.frequencies_)
    # Of two equal candidates, which have one name, the weight is the sum.
    double = SyntheticStack([NormSub(), NormSub()], n_repeats=2).fit(estimate)
    assert double.weights_ == {"NormSub": pytest.approx(1.0)}


def test_stacks_close_a_pipeline_and_take_arrays():
    pipe = make_pipeline(GRR(categories=64, random_state=0), SyntheticStack(PAPERS, n_repeats=2))
    estimate = pipe.fit_transform(np.repeat(np.arange(64), COUNTS))
    np.testing.assert_array_equal(estimate.values[0], pipe[-1].frequencies_)
    values = an_estimate().values
    stack = SyntheticStack(PAPERS, oracle=OLH(), n_samples=1000, n_repeats=2)
    assert type(stack.fit_transform(values)) is np.ndarray
    with pytest.raises(ValueError, match="SyntheticStack needs the oracle and the number of users"):
        SyntheticStack(PAPERS).fit(values)
    with pytest.raises(ValueError, match="SyntheticStack needs a raw estimate"):
        SyntheticStack(PAPERS).fit(NormSub().fit_transform(an_estimate()))


def test_each_part_of_a_set_has_weights_of_its_own():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 4, 4000), rng.binomial(9, 0.2, 4000)])
    survey = ColumnOracle(domains={"a": range(4), "b": range(10)}, random_state=0)
    found = survey.fit_transform(rows)
    stack = SyntheticStack([Base(), NormSub()], n_repeats=3).fit(found)
    weights = [one.weights_["NormSub"] for one in stack.estimators_.values()]
    assert len(set(weights)) == 2
    for name, part in stack.transform(found).items():
        np.testing.assert_array_equal(part.values[0], stack.frequencies_[name])


@pytest.mark.slow
def test_a_stack_errs_less_than_the_pick_where_no_candidate_is_true(seed):
    """Ten most frequent of a lognormal population, 40 collections, candidates of the papers.

    The ratio of the mean errors was .980 with a standard error of .0046, error rate 1e-5. Negative
    control: equal weights, which have 1.2.
    """
    rng = np.random.default_rng(0)
    shares = np.exp(rng.normal(size=128))
    counts = rng.multinomial(20_000, shares / shares.sum())
    candidates = [Base(), BasePos(), NormSub(), BaseCut()]
    totals = np.zeros(3)
    for i in range(40):
        estimate = OLH(categories=128, random_state=40 * seed + i).simulate(counts)
        options = {"queries": top_k(10), "random_state": i, "n_repeats": 10}
        stack = SyntheticStack(candidates, **options).fit_transform(estimate)
        pick = SyntheticSearch(candidates, **options).fit_transform(estimate)
        equal = np.mean([one.fit_transform(estimate).values for one in candidates], axis=0)
        made = (stack, pick, equal)
        totals += [query_errors(counts / 20_000, one, queries=top_k(10))[0] for one in made]
    assert totals[0] < totals[1]
    assert totals[2] > totals[1]


def test_results_print_as_a_table():
    """The best ten first, then the chosen and the raw one, with weights if there are any.

    A copy from another process has the same table.
    """
    candidates = [*PAPERS, *(BaseCut(alpha) for alpha in np.linspace(0.1, 0.9, 7))]
    stack = SyntheticStack(candidates, random_state=0)
    assert str(stack) == repr(stack)
    stack.fit(an_estimate())
    head, _, *rows, rest = repr(pickle.loads(pickle.dumps(stack.results_))).split("\n")
    assert head.split() == ["candidate", "simulated", "error", "(%)", "+-", "rank", "weight"]
    names = [row.split()[0] for row in rows]
    ranked = stack.results_["candidate"][
        np.argsort(stack.results_["rank_test_score"], kind="stable")
    ]
    assert "Base" not in ranked[:10]
    assert names == [*ranked[:10], "Base"]
    assert rest == "1 more"
    best = stack.results_["candidate"][stack.results_["rank_test_score"] == 1][0]
    assert rows[0].startswith(best)
    assert str(stack).startswith(f"{stack!r}\n{stack.results_!r}\nexpected error: ")
    search = SyntheticSearch(PAPERS, random_state=0).fit(an_estimate())
    assert "weight" not in str(search)
    lines = str(search).split("\n")[3 + len(PAPERS) :]
    chosen = search.results_["candidate"][search.best_index_]
    assert lines[:2] == [f"chosen: {chosen}", f"expected error: {search.expected_error_}"]
    absolute = SyntheticSearch(PAPERS, metric="mae", random_state=0).fit(an_estimate())
    assert "simulated error" not in str(absolute)
    assert " score " in str(absolute)
