"""Query sets against brute force."""

import copy
import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import norm

from sklearn_ldp import GRR, OUE, Base, Domain, EmpiricalBayes, FrequencyEstimate, SyntheticSearch
from sklearn_ldp.metrics import frequency_mse, query_errors
from sklearn_ldp.planning import Plan
from sklearn_ldp.queries import (
    QuerySet,
    as_query_set,
    between,
    full_domain,
    groups,
    mean,
    prefixes,
    query_matrix,
    random_sets,
    ranges,
    top_k,
)

ALL_QUERIES = [
    full_domain(),
    groups(["x", "y", "x", "z", "y"]),
    query_matrix(np.ones((2, 5))),
    random_sets(0.4, n_sets=7),
    random_sets(2),
    ranges(2),
    prefixes(),
    ranges([(0, 2), (1, 5)]),
    top_k(3),
]
TRUTH = np.array([0.1, 0.4, 0.05, 0.25, 0.2])


def dense(queries, d, frequencies=None):
    matrix = queries.matrix(d, frequencies)
    assert sparse.issparse(matrix)
    assert matrix.shape[1] == d
    return matrix.toarray()


def brute_force_mean_squared_error(errors, m):
    """Return the mean, over every subset of size m, of (the sum of its errors)^2."""
    sets = combinations(range(errors.shape[-1]), m)
    return np.mean([errors[..., list(s)].sum(axis=-1) ** 2 for s in sets], axis=0)


# -- all --------------------------------------------------------------------------------------
@pytest.mark.parametrize("queries", ALL_QUERIES, ids=repr)
def test_all_are_sums_over_sets_and_pickle(queries):
    assert isinstance(queries, QuerySet)
    matrix = dense(queries, 5, TRUTH)
    assert set(np.unique(matrix)) <= {0.0, 1.0}
    assert len(matrix) > 0
    assert as_query_set(queries) is queries
    for twin in (pickle.loads(pickle.dumps(queries)), copy.deepcopy(queries)):
        np.testing.assert_array_equal(dense(twin, 5, TRUTH), matrix)
        assert repr(twin) == repr(queries)


@pytest.mark.parametrize("queries", ALL_QUERIES, ids=repr)
def test_errors_average_over_the_queries(queries):
    """For random sets over all sets of their size (in closed form), otherwise over the matrix."""
    errors = np.random.default_rng(0).normal(size=(3, 5))
    if "random_sets" in repr(queries):
        expected = brute_force_mean_squared_error(errors, 2)
    else:
        expected = np.mean((errors @ dense(queries, 5, TRUTH).T) ** 2, axis=1)
    found = query_errors(TRUTH, errors + TRUTH, queries=queries)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_full_domain():
    assert repr(as_query_set(None)) == "full_domain()"
    for d in (1, 17):
        np.testing.assert_array_equal(dense(full_domain(), d), np.eye(d))


# -- groups -----------------------------------------------------------------------------------
LABELS = ["north", "south", "north", "east", "south"]


@pytest.mark.parametrize(
    "labels",
    [
        LABELS,
        np.array(LABELS),
        pd.Series(LABELS),
        pd.Series(LABELS, dtype="category"),
        pd.Index(LABELS),
        pl.Series(LABELS),
        pa.array(LABELS),
        [2, 3, 2, 1, 3],
        [0.2, 0.3, 0.2, 0.1, 0.3],
        [True, True, True, False, True],
    ],
    ids=lambda labels: f"{type(labels).__module__.split('.')[0]}-{type(labels).__name__}",
)
def test_groups(labels):
    matrix = dense(groups(labels), 5)
    plain = list(labels.tolist() if hasattr(labels, "tolist") else labels)
    plain = plain if not hasattr(labels, "to_pylist") else labels.to_pylist()
    expected = [[float(label == name) for label in plain] for name in sorted(set(plain))]
    np.testing.assert_array_equal(matrix, expected)
    np.testing.assert_array_equal(matrix.sum(axis=0), 1)


@pytest.mark.parametrize("dtype", [np.int64, object, "Int64"])
def test_groups_of_numbers_come_in_the_order_of_numbers(dtype):
    """ "In the sorted order of the labels", whatever container they come in."""
    labels = pd.Series([10, 9, 100], dtype=dtype)
    np.testing.assert_array_equal(dense(groups(labels), 3), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


def test_groups_are_counted():
    """Labels that look alike are two; a matrix of another domain is refused."""
    assert dense(groups(np.array([1, "1", 2], dtype=object)), 3).shape[0] == 3
    assert repr(groups(LABELS)) == "groups(3 of 5 categories)"
    with pytest.raises(ValueError, match="for 5 categories, but the estimate has 4"):
        groups(LABELS).matrix(4)


PETS = pd.Series({"trout": "fish", "cat": "mammal", "dog": "mammal"})


@pytest.mark.parametrize(
    "labels",
    [PETS, PETS.to_dict(), PETS.sort_index(), PETS.astype("category")],
    ids=["series", "dict", "sorted", "categorical"],
)
def test_labels_by_category_are_aligned(labels):
    """The index of a Series was ignored: cats and trout exchanged their groups in silence."""
    estimate = FrequencyEstimate([[0.5, 0.3, 0.2]], ["cat", "dog", "trout"])
    np.testing.assert_allclose(estimate.answer(groups(labels)), [[0.2, 0.8]])
    assert query_errors([0.5, 0.3, 0.2], estimate, queries=groups(labels)) == [0]
    other = FrequencyEstimate([[0.2, 0.8, 0.0]], ["trout", "cat", "dog"])
    np.testing.assert_allclose(other.answer(groups(labels)), [[0.2, 0.8]])
    oracle = OUE(categories=["cat", "dog", "trout"])
    plain = groups(["mammal", "mammal", "fish"])
    truth = pd.Series({"trout": 0.2, "cat": 0.5, "dog": 0.3})
    labelled = Plan(oracle, queries=groups(labels), frequencies=truth)
    assert labelled.mae(100) == Plan(oracle, queries=plain, frequencies=[0.5, 0.3, 0.2]).mae(100)
    matrix = pd.DataFrame({"trout": [1.0], "cat": [0.0], "dog": [0.0]})
    np.testing.assert_allclose(estimate.answer(matrix), [[0.2]])
    search = SyntheticSearch([Base()], queries=groups(labels), n_repeats=2, random_state=0)
    collected = oracle.set_params(random_state=0).fit_transform(["cat"] * 50 + ["dog"] * 30)
    assert search.fit(collected).results_["mean_test_score"].shape == (1,)


def test_labels_of_other_categories_are_refused():
    estimate = FrequencyEstimate([[0.5, 0.3, 0.2]], ["cat", "dog", "eel"])
    with pytest.raises(ValueError, match="no label for the category 'eel'.*reindex"):
        estimate.answer(groups(PETS))
    fewer = FrequencyEstimate([[0.5, 0.5]], ["cat", "dog"])
    with pytest.raises(ValueError, match="the label 'trout', which is not a category"):
        fewer.answer(groups(PETS))
    with pytest.raises(ValueError, match="a label more than once"):
        fewer.answer(groups(pd.Series([1, 2, 3], index=["cat", "dog", "dog"])))
    with pytest.raises(ValueError, match="have no names of categories"):
        groups(PETS).matrix(3)
    with pytest.raises(ValueError, match="no label for the category 0"):
        query_errors([0.5, 0.3, 0.2], [[0.5, 0.3, 0.2]], queries=groups(PETS))


def test_a_default_index_counts_as_none():
    estimate = FrequencyEstimate([[0.5, 0.3, 0.2]], ["cat", "dog", "trout"])
    labels = pd.Series(["mammal", "mammal", "fish"])
    np.testing.assert_allclose(estimate.answer(groups(labels)), [[0.2, 0.8]])
    errors = query_errors(pd.Series([0.5, 0.3, 0.2]), estimate, metric="mae")
    np.testing.assert_allclose(errors, [0], atol=1e-15)


def test_counts_and_truth_by_category_are_aligned():
    counts = pd.Series({"b": 100, "a": 900})
    declared = GRR(8.0, categories=["a", "b"], random_state=0).simulate(counts)
    assert declared.values[0, 0] > 0.8
    learned = GRR(8.0, random_state=0).simulate(counts)
    assert learned.top(1)[0][0] == "a"
    errors = query_errors(counts / 1000, declared, metric="mae")
    np.testing.assert_allclose(errors, query_errors([0.9, 0.1], declared, metric="mae"))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        *((one, "one label for each category") for one in ([], [("a",), ("b",)], "abc", 3)),
        ({"north": ["a"], "south": []}, "at least one category for each group"),
        ({"north": ["a", "a"]}, "the category 'a' more than once"),
        # Otherwise a category without a group would silently join a group called None.
        *((one, "(?i)missing|NaN|None") for one in (["a", None, "b"], [1.0, np.nan, 2.0])),
    ],
    ids=str,
)
def test_groups_of_no_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        groups(labels)


@pytest.mark.parametrize(
    ("queries", "names", "answers"),
    [
        ({"north": ["a", "b"], "south": ["c"]}, ["north", "south"], [0.75, 0.25]),
        ({"north": {"b", "a"}, "all": ("a", "b", "c")}, ["north", "all"], [0.75, 1.0]),
        (groups({"south": ["c"], "some": ["a", "c"]}), ["south", "some"], [0.25, 0.75]),
        (groups([["a", "b"], ["c"]]), None, [0.75, 0.25]),
        ({"x": np.array(["a", "b"]), "y": pd.Series(["c"])}, ["x", "y"], [0.75, 0.25]),
        ({"a": "x", "b": "y", "c": "x"}, ["x", "y"], [0.75, 0.25]),
    ],
    ids=["mapping of lists", "mapping of sets", "overlapping groups", "lists", "arrays", "labels"],
)
def test_groups_listed_by_category(queries, names, answers):
    estimate = FrequencyEstimate([[0.5, 0.25, 0.25]], ["a", "b", "c"])
    result = estimate.answer(queries)
    assert getattr(result, "names", None) == names
    np.testing.assert_allclose(np.asarray(result), [answers])
    assert as_query_set(queries).aligned(estimate.categories).matrix(3).shape == (2, 3)


def test_listed_groups_of_other_categories_are_refused():
    estimate = FrequencyEstimate([[0.5, 0.5]], ["a", "b"])
    with pytest.raises(
        ValueError, match="no category 'z'. Choose one of its 2 categories 'a', 'b'"
    ):
        estimate.answer({"north": ["a", "z"]})
    with pytest.raises(ValueError, match="by name, but an array without categories was passed"):
        groups([["a"], ["b"]]).matrix(2)


# -- any linear queries -----------------------------------------------------------------------
@pytest.mark.parametrize(
    "container",
    [np.array, list, sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix],
)
def test_query_matrix(container):
    weights = np.array([[0.5, 0, -2.0], [1, 1, 1]])
    for queries in (query_matrix(container(weights)), as_query_set(container(weights))):
        np.testing.assert_array_equal(dense(queries, 3), weights)


SHAPE = r"matrix of shape \(n_queries, n_categories\), got"


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        *((one, SHAPE) for one in ([1, 0, 1], np.ones((2, 2, 2)), np.empty((0, 3)), 3.0)),
        *(([[1.0, bad]], "finite") for bad in (np.nan, np.inf, -np.inf)),
        (sparse.csr_array([[1.0, np.nan]]), "finite"),
    ],
)
def test_query_matrix_of_another_shape_or_without_end(matrix, message):
    with pytest.raises(ValueError, match=message):
        query_matrix(matrix)


def test_query_matrix_is_its_own():
    weights = sparse.csr_array(np.eye(3))
    queries = query_matrix(weights)
    weights.data[:] = 7.0
    np.testing.assert_array_equal(dense(queries, 3), np.eye(3))


# -- top k ------------------------------------------------------------------------------------
def test_top_k():
    expected = np.zeros((3, 5))
    expected[[0, 1, 2], [1, 3, 4]] = 1
    np.testing.assert_array_equal(dense(top_k(3), 5, TRUTH), expected)
    assert top_k(3).depends_on_truth
    assert not groups(LABELS).depends_on_truth
    np.testing.assert_array_equal(dense(top_k(5), 5, TRUTH).sum(axis=0), 1)
    of_ties = dense(top_k(2), 4, [0.25] * 4)
    np.testing.assert_array_equal(of_ties, np.eye(4)[:2])  # the first


def test_top_k_needs_a_number_truth_and_room():
    for k in (0, 1.5, "3", None, np.nan):
        with pytest.raises(ValueError, match="top_k got k="):
            top_k(k)
    with pytest.raises(ValueError, match=r"\*true\* frequencies"):
        top_k(2).matrix(5)
    with pytest.raises(ValueError, match=r"top_k\(6\) needs at least 6 .* the domain has 5"):
        top_k(6).matrix(5, TRUTH)


# -- random sets ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("size", "d", "m"),
    [(0.1, 100, 10), (0.5, 4, 2), (1.0, 7, 7), (3, 7, 3), (1, 9, 1), (0.01, 5, 1)],
)
def test_random_sets_have_their_size(size, d, m):
    matrix = dense(random_sets(size, n_sets=13), d)
    assert matrix.shape == (13, d)
    np.testing.assert_array_equal(matrix.sum(axis=1), m)
    assert matrix.max() == 1  # without replacement
    first, other = (random_sets(0.5, random_state=i) for i in (0, 1))
    np.testing.assert_array_equal(dense(first, 12), dense(random_sets(0.5), 12))
    assert not np.array_equal(dense(first, 12), dense(other, 12))


@given(errors=st.lists(st.floats(-1, 1), min_size=1, max_size=7), data=st.data())
def test_random_sets_closed_form_is_the_mean_over_all_subsets(errors, data):
    errors = np.array([errors])
    d = errors.shape[1]
    m = data.draw(st.integers(1, d))
    expected = brute_force_mean_squared_error(errors, m)
    by_number = random_sets(m).expected_squared_error(errors)
    by_share = query_errors(np.zeros(d), errors, queries=random_sets(m / d))
    np.testing.assert_allclose(by_number, expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(by_share, expected, rtol=1e-9, atol=1e-14)


def sampling_z_score(expected, errors, m, seed, n_sets=5000):
    """Return the z score of the mean over drawn sets, against the expectation over all sets."""
    matrix = dense(random_sets(m, n_sets=n_sets, random_state=seed), len(errors))
    squares = (matrix @ errors) ** 2
    return (squares.mean() - expected) / (squares.std(ddof=1) / np.sqrt(n_sets))


def test_random_sets_closed_form_is_what_sampling_tends_to(seed):
    """Error rate 1e-6 for each seed (two-sided z-test).

    The negative control draws each category independently, for which another formula holds.
    """
    errors = np.array([0.5, -0.1, 0.4, 0.3, 0.0, -0.2, 0.6, 0.2, 0.1, 0.35, 0.45, 0.15])
    d, m, critical = len(errors), 4, norm.isf(0.5e-6)
    closed = random_sets(m).expected_squared_error(errors[None])[0]
    assert abs(sampling_z_score(closed, errors, m, seed)) < critical

    squares = np.sum(errors**2)
    independent = m / d * squares + (m / d) ** 2 * (errors.sum() ** 2 - squares)
    assert abs(sampling_z_score(independent, errors, m, seed)) > critical


@pytest.mark.parametrize("size", [0, -1, 0.0, 1.5, -0.5, np.nan, np.inf, True, "half", None])
def test_random_sets_bad_size(size):
    with pytest.raises(ValueError, match=r"got size=.*fraction of the domain in \(0, 1\]"):
        random_sets(size)


def test_random_sets_of_a_bad_number_or_that_do_not_fit():
    for n_sets in (0, 1.5, "many", None):
        with pytest.raises((ValueError, TypeError), match="n_sets"):
            random_sets(0.5, n_sets=n_sets)
    with pytest.raises(ValueError, match="size=6, but the domain has 5 categories"):
        random_sets(6).matrix(5)
    with pytest.raises(ValueError, match="size=6, but the domain has 5 categories"):
        random_sets(6).expected_squared_error(np.zeros((1, 5)))


# -- conversion -------------------------------------------------------------------------------
@pytest.mark.parametrize("queries", [3, {1, 2}, object()], ids=lambda q: type(q).__name__)
def test_what_is_no_query_set(queries):
    with pytest.raises(TypeError, match=rf"sklearn_ldp\.queries.*got {type(queries).__name__}"):
        as_query_set(queries)
    with pytest.raises((TypeError, ValueError), match="Queries must"):
        as_query_set("full")


def test_third_party_queries():
    class Evens(QuerySet):
        def matrix(self, n_categories, frequencies=None):
            return sparse.csr_array((np.arange(n_categories) % 2 == 0)[None].astype(float))

    estimate = FrequencyEstimate([[0.5, 0.3, 0.2]], list("abc"))
    np.testing.assert_allclose(estimate.answer(Evens()), [[0.7]])
    np.testing.assert_allclose(query_errors([0.4, 0.4, 0.2], estimate, queries=Evens()), [0.01])


# -- lists and means --------------------------------------------------------------------------
def test_a_list_is_of_categories_or_of_query_sets():
    estimate = FrequencyEstimate([[0.5, 0.25, 0.125, 0.125]], ["a", "b", ("c", 1), None])
    assert estimate.answer([np.nan, ("c", 1)]).tolist() == [[0.125, 0.125]]
    both = estimate.answer([ranges(2), ["b"], groups([0, 0, 0, 1])])
    assert both.tolist() == [[0.75, 0.25, 0.25, 0.875, 0.125]]
    assert estimate.answer([groups([0, 0, 0, 1]), ["b"]]).names == [0, 1, "b"]
    joint = FrequencyEstimate([[0.5, 0.25, 0.125, 0.125]], Domain.product([["F", "M"], 2]))
    assert joint.answer([("M", 1)]).tolist() == [[0.125]]
    assert frequency_mse([0.5, 0.5], [[0.25, 0.5]], queries=[[1, 0]]) == 0.0625
    truth = FrequencyEstimate([[0.5, 0.5, 0, 0]], estimate.categories)
    assert frequency_mse(truth.values[0], estimate, queries=["a", "b"]) == 0.0625 / 2


@pytest.mark.parametrize(
    ("message", "queries"),
    [
        (
            r"The estimate has no category 'z'. Choose one of its 3 categories 'a', 'b', 'c'",
            ["a", "z"],
        ),
        (
            r"contains the category 1 more than once. .*To pass weights instead of categories, use",
            [1, 1, 0],
        ),
        (
            r"top_k\(2\) cannot be combined with other queries.*Pass it without the list",
            [["a"], top_k(2)],
        ),
        (r"or be a list of categories|shape", []),
    ],
)
def test_a_list_that_cannot_be_meant(message, queries):
    with pytest.raises(ValueError, match=message):
        FrequencyEstimate([[0.5, 0.25, 0.25]], ["a", "b", "c"]).answer(queries)


def test_the_mean_of_binned_numbers_is_an_answer(seed):
    """Each interval of 1,000 collections misses the mean with probability .05.

    The number of misses is from 21 to 87, except with probability 3e-6. Negative control: the
    intervals rarely cover a mean that is wrong by two standard errors.
    """
    ages, middles = Domain.bins([18, 40, 65]), mean([9.0, 29, 52.5, 75])
    counts = np.array([2000, 4000, 3000, 1000])
    true = float(counts @ [9, 29, 52.5, 75]) / 10_000
    raw = OUE(1.0, categories=ages, random_state=seed).simulate(counts, 1000)
    answers = np.asarray(raw.answer(middles))
    low, high = raw.confidence_interval(0.95, middles)
    error = answers.std()
    assert abs(answers.mean() - true) < 5 * error / np.sqrt(1000)
    assert 21 <= np.sum((true < low) | (high < true)) <= 87
    wrong = true + 2 * error
    assert np.sum((wrong < low) | (high < wrong)) > 87
    names = {">= 65": 75, "< 18": 9, "[40, 65)": 52.5, "[18, 40)": 29}
    np.testing.assert_allclose(raw.answer(mean(names)), answers)
    with pytest.raises(ValueError, match=r"of the users who answered, .* 1 - estimate\[None\]"):
        mean([1.0, None])


AGES = Domain.bins(4, bounds=(0, 100))
OF_AGES = FrequencyEstimate([[0.3, 0.4, 0.2, 0.1]], AGES, OUE(1.0).channel(4).noise(1000))


def test_between_counts_cut_bins_in_proportion():
    asked = between([(0, 100), (20, 40), (25, 75), (-np.inf, 10), (99, 1e9)])
    answers = OF_AGES.answer(asked)
    assert np.allclose(answers, [[1, 0.06 + 0.24, 0.6, 0.12, 0.004]])
    assert answers.names[:2] == ["[0, 100)", "[20, 40)"]
    assert answers.names[3:] == ["[-inf, 10)", "[99, 1,000,000,000)"]
    uneven = FrequencyEstimate([[0.5, 0.5]], Domain.bins([10], bounds=(0, 100)))
    assert np.allclose(uneven.answer(between([(5, 55)])), [[0.25 + 0.25]])


def test_between_goes_where_other_queries_go():
    asked = between([(0, 50), (50, 100)])
    both = asked, ranges([(0, 2), (2, 4)])
    for each in (False, True):
        one, other = (OF_AGES.confidence_interval(0.9, q, simultaneous=each) for q in both)
        assert np.array_equal(one, other)
    one, other = (query_errors([0.25] * 4, OF_AGES, queries=q)[0] for q in both)
    assert one == other
    several = OF_AGES.answer([asked, mean()])
    assert several.names == ["[0, 50)", "[50, 100)", "mean"]
    oracle = OUE(1.0, categories=Domain.bins(32, bounds=(0, 1)), random_state=0)
    estimate = oracle.simulate([99] * 32)
    cut = between([(0.01, 0.3), (0.3, 0.9)])
    assert EmpiricalBayes(queries=cut).fit_transform(estimate).shape == (1, 32)


@pytest.mark.parametrize(
    ("pairs", "what"),
    [
        ([], "list of pairs"),
        ((20, 40), "list of pairs"),
        ("auto", "list of pairs"),
        (
            [(40, 20)],
            "got the empty range \\[40.0, 20.0\\]. Pass a stop that is larger than the start",
        ),
        ([(0, 10**400)], "list of pairs"),
        ([(np.nan, 20)], "a missing start or stop in"),
        ([(0, 20), (100, 120)], "outside of all bins. Pass numbers from 0 to 100"),
    ],
)
def test_ranges_of_numbers_that_are_none(pairs, what):
    with pytest.raises(ValueError, match=what):
        OF_AGES.answer(between(pairs))


@pytest.mark.parametrize("domain", [["a", "b"], Domain.bins([18]), Domain.product([AGES, 2])])
@pytest.mark.parametrize("asked", [between([(0, 1)]), mean()])
def test_numbers_are_asked_of_bins_with_two_ends(domain, asked):
    d = len(Domain.of(domain))
    with pytest.raises(ValueError, match="bins with bounds"):
        FrequencyEstimate([np.full(d, 1 / d)], domain).answer(asked)


def test_the_mean_of_bins_takes_their_centres_unless_another_spread_is_named():
    for make in (mean, lambda **options: between([(0, 1)], **options)):
        with pytest.raises(ValueError, match="got spread='random'"):
            make(spread="random")
    centres = [12.5, 37.5, 62.5, 87.5]
    assert OF_AGES.answer(mean())["mean"] == OF_AGES.answer(mean(centres))["mean"]
    asked = mean(spread="even"), mean(centres)
    one, other = (OF_AGES.confidence_interval(0.9, q) for q in asked)
    assert np.array_equal(one, other)


@pytest.mark.parametrize("simultaneous", [False, True])
def test_intervals_of_cut_bins_reach_from_the_bins_inside_to_all_that_are_touched(simultaneous):
    """Also beside queries that cut nothing, in lists, and of differences."""

    def ends(queries, estimate=OF_AGES):
        return estimate.confidence_interval(0.9, queries, simultaneous=simultaneous)

    cut = between(pairs := [(10, 60), (0, 50), (1, 2)])
    inside, touched = np.eye(4)[1][None], np.array([[1, 1, 1, 0.0]])
    found, even = ends(cut), ends(between(pairs, spread="even"))
    assert np.all((found.low <= even.low) & (even.high <= found.high))
    assert found.low[0, 2] == 0  # nobody need be in a part of a bin
    if not simultaneous:
        assert found.low[0, 0] == ends(inside).low[0, 0]
        assert found.high[0, 0] == ends(touched).high[0, 0]
        assert np.array_equal(ends([cut, ranges([(0, 2)])])[0][:, :3], found.low)
        assert np.array_equal(ends(mean()).low, ends(mean([0, 25, 50, 75])).low)
        assert np.array_equal(ends(mean()).high, ends(mean([25, 50, 75, 100])).high)
    lists = ends([ranges([(0, 2)]), mean(), cut])
    assert lists.names is None
    assert lists.low.shape == (1, 5)
    change = OF_AGES - FrequencyEstimate([[0.1, 0.2, 0.3, 0.4]], AGES, OF_AGES.noise)
    of_change = ends(cut, change)
    assert np.all(of_change.low <= ends(between(pairs, spread="even"), change).low)
    assert of_change.low[0, 0] == min(ends(q, change).low[0, 0] for q in (inside, touched)) or (
        simultaneous
    )


def test_edges_that_are_rounded_cut_no_bin():
    thirds = Domain.bins(3, bounds=(0, 0.3))
    estimate = FrequencyEstimate([[0.3, 0.3, 0.4]], thirds, OUE(1.0).channel(3).noise(1000))
    assert thirds.ends[1] != 0.3 - 0.2 or thirds.ends[2] != 0.1 + 0.1
    one = estimate.confidence_interval(0.9, between([(0.3 - 0.2, 0.1 + 0.1)]))
    other = estimate.confidence_interval(0.9, ranges([(1, 2)]))
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_prefixes_are_sums_of_the_first_categories():
    assert np.allclose(OF_AGES.answer(prefixes()), np.cumsum(OF_AGES.values, axis=1))
    assert np.array_equal(prefixes().matrix(3).toarray(), np.tri(3))
    with pytest.raises(
        ValueError, match="prefixes\\(\\) does not fit in memory for 10,000 categories"
    ):
        prefixes().matrix(10_000)
