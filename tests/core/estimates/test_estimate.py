"""FrequencyEstimate and NoiseModel: the container, what it answers, and its intervals."""

import copy
import dataclasses
import html.parser
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    Base,
    BasePos,
    ColumnOracle,
    Domain,
    FrequencyEstimate,
    MarginalOracle,
    NoiseModel,
    Norm,
    NormSub,
    PostPos,
    RangeOracle,
)
from sklearn_ldp.queries import full_domain, groups, top_k

NOISE = NoiseModel(p=0.5, q=0.25, n_samples=10_000)
VALUES = [[0.5, -0.125, 0.625], [0.25, 0.25, 0.375]]
COLOURS = ["red", "green", "blue"]
ROWS_NOISE = NoiseModel(p=0.5, q=0.25, n_samples=np.array([10_000, 40_000]))


@pytest.fixture
def one():
    return FrequencyEstimate(VALUES[:1], COLOURS, NOISE)


@pytest.fixture
def two():
    return FrequencyEstimate(VALUES, COLOURS, ROWS_NOISE)


def collected(oracle_class=OLH, **kwargs):
    """Return an estimate that has everything: noise, oracle and shards."""
    oracle = oracle_class(1.0, categories=list("abcde"), random_state=0, **kwargs)
    return oracle.fit_transform(list("aaabbcde") * 50)


def assert_same_estimate(first, second):
    np.testing.assert_array_equal(first.values, second.values)
    assert first.categories.tolist() == second.categories.tolist()
    assert first.noise == second.noise
    assert first.postprocessors == second.postprocessors
    assert first.clip_answers == second.clip_answers
    assert repr(first.oracle) == repr(second.oracle)
    assert (first.shards is None) == (second.shards is None)
    if first.shards is not None:
        np.testing.assert_array_equal(first.shards.counts, second.shards.counts)


# -- the container ----------------------------------------------------------------------------
def test_it_is_frozen(one):
    oracle = OUE(1.0, categories=COLOURS, random_state=0).fit(["red", "blue"])
    for name, value in (("values", np.zeros((1, 3))), ("noise", None)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, value)
    for array in (one.values[0], np.asarray(one)[0], oracle.estimate_.categories):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    assert oracle.categories_.tolist() == COLOURS


def test_the_arrays_it_was_made_of_stay_free():
    values, categories = np.array(VALUES), np.array(COLOURS)
    estimate = FrequencyEstimate(values, categories)
    values[0, 0], categories[0] = 9.0, "RED"
    assert estimate.values[0, 0] == 0.5
    assert estimate.categories.tolist() == COLOURS


def test_shape_length_and_rows(two):
    assert two.shape == (2, 3)
    assert len(two) == 2
    low = two.confidence_interval().low
    for i, row in enumerate(two):
        assert isinstance(row, FrequencyEstimate)
        assert row.shape == (1, 3)
        np.testing.assert_array_equal(row.values[0], VALUES[i])
        np.testing.assert_allclose(row.confidence_interval().low[0], low[i])
    assert FrequencyEstimate(VALUES, COLOURS, NOISE)[1].noise == NOISE
    assert FrequencyEstimate([0.5, 0.5], ["a", "b"]).shape == (1, 2)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (0, [0]),
        (-1, [1]),
        (np.int64(1), [1]),
        (slice(None), [0, 1]),
        (slice(None, None, -1), [1, 0]),
        ([1, 0, 1], [1, 0, 1]),
        (np.array([True, False]), [0]),
        ([], []),
        (slice(0, 0), []),
    ],
)
def test_indexing_selects_rows_and_their_noise(two, rows, expected):
    selected = two[rows]
    assert selected.shape == (len(expected), 3)
    np.testing.assert_array_equal(selected.values, np.array(VALUES).reshape(2, 3)[expected])
    np.testing.assert_array_equal(
        np.ravel(selected.noise.n_samples), ROWS_NOISE.n_samples[expected]
    )
    assert selected.categories.tolist() == COLOURS


@pytest.mark.parametrize("index", [2, -3])
def test_no_such_row(two, index):
    with pytest.raises(IndexError):
        two[index]


ALL = slice(None)


@pytest.mark.parametrize("index", [(0, 0), (ALL, 0), (0, ALL), (ALL, ALL), (ALL, [1, 2, 0])])
def test_categories_are_never_shuffled_by_indexing(index):
    """A second index would move the values but not the categories."""
    with pytest.raises(IndexError, match=r"rows|to_series|asarray"):
        FrequencyEstimate(VALUES, COLOURS)[index]


# -- categories -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "categories",
    [
        *(["a", "b"], [3, 7], [1, "1"], [True, "a"], [None, "a"], range(2)),
        *([("NY", 1), ("NY", 2)], [("NY", 1), ("NY", 2, "x")], [("NY", 1), "elsewhere"]),
        np.array(["a", "b"], dtype=object),
        pd.Index(["a", "b"]),
        pd.Series(["a", "b"], index=[5, 6]),
        pd.MultiIndex.from_tuples([("NY", 1), ("CA", 2)]),
    ],
    ids=str,
)
def test_categories_stay_what_they_are(categories):
    estimate = FrequencyEstimate([[0.75, 0.25]], categories)
    assert estimate.categories.shape == (2,)
    assert estimate.categories.tolist() == list(categories)
    assert estimate.top(1) == [(next(iter(categories)), 0.75)]
    first = next(iter(categories))
    assert ("(missing)" if first is None else str(first)) in repr(estimate)
    assert "<td>" in estimate._repr_html_()


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        ([[0.5, 0.5]], ["a"]),
        ([0.5, 0.5], ["a", "b", "c"]),
        (np.zeros((2, 2, 2)), ["a", "b"]),
        (np.zeros((2, 3)), ["a", "b"]),
    ],
)
def test_values_and_categories_must_agree(values, categories):
    with pytest.raises(ValueError, match=f"shape .*{len(categories)} categories"):
        FrequencyEstimate(values, categories)
    with pytest.raises(ValueError, match="3 rows but its noise has 2 sample sizes"):
        FrequencyEstimate(np.zeros((3, 2)), ["a", "b"], ROWS_NOISE)


@pytest.mark.parametrize("container", [list, np.array])
def test_rows_of_a_matrix_are_joint_categories(container):
    """Oracles treat such rows in the same way."""
    estimate = FrequencyEstimate([[0.75, 0.25]], container([["NY", "x"], ["CA", "x"]]))
    assert estimate.categories.tolist() == [("NY", "x"), ("CA", "x")]
    with pytest.raises(ValueError, match="categories"):
        FrequencyEstimate([[0.5, 0.5]], np.array([[["a"], ["b"]], [["c"], ["d"]]]))


def of_bins():
    return FrequencyEstimate(np.full((2, 3), 1 / 3), Domain.bins([18, 65]))


def test_an_estimate_over_bins_knows_their_edges():
    estimate = of_bins()
    assert estimate.categories.tolist() == ["< 18", "[18, 65)", ">= 65"]
    assert estimate.domain is not None
    assert estimate.domain.edges.tolist() == [18, 65]
    assert FrequencyEstimate([[0.5, 0.5]], ["a", "b"]).domain is None
    assert Domain(["a", "b"]).edges is None
    assert Domain.open().edges is None
    with pytest.raises(
        ValueError, match="has no list of categories, because it is only for clients"
    ):
        FrequencyEstimate([[0.5, 0.5]], Domain.open())


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[0],
        lambda x: x[[1, 0]],
        lambda x: next(iter(x)),
        lambda x: x.with_values(x.values + 1, by="Base"),
        lambda x: x.with_values(x.values + 1, by="Base").as_raw(),
        lambda x: dataclasses.replace(x, clip_answers=True),
        NormSub().fit_transform,
        copy.copy,
        copy.deepcopy,
        lambda x: pickle.loads(pickle.dumps(x)),
    ],
)
def test_the_domain_stays_with_its_categories(change):
    estimate = of_bins()
    changed = change(change(estimate))
    assert changed.domain == estimate.domain
    assert changed.domain.edges.tolist() == [18, 65]
    assert changed.categories is changed.domain.categories
    assert not changed.categories.flags.writeable
    assert not changed.values.flags.writeable


def test_the_domain_of_other_categories_is_not_known():
    estimate = of_bins()
    assert dataclasses.replace(estimate, categories=["child", "adult", "old"]).domain is None
    other = dataclasses.replace(estimate, categories=Domain.bins([21, 65]))
    assert other.domain.edges.tolist() == [21, 65]
    assert FrequencyEstimate([[0.5, 0.5]], ["a", "b"], domain=Domain(["b", "a"])).domain is None


def test_estimates_of_oracles_and_surveys_have_their_domain():
    ages, sexes = Domain.bins([18, 65]), Domain(["F", "M"])
    oracle = GRR(categories=ages, random_state=0)
    assert oracle.fit_transform([7, 20, 80] * 50).domain.edges.tolist() == [18, 65]
    assert oracle.simulate([10, 20, 30]).domain.edges.tolist() == [18, 65]
    records = np.array([["F", 7], ["M", 20], ["F", 80]] * 50, dtype=object)
    domains = {"sex": sexes, "age": ages}
    columns = ColumnOracle(domains=domains, random_state=0).fit_transform(records)
    assert columns["sex"].domain == sexes
    assert columns["age"].domain.edges.tolist() == [18, 65]
    for method in ("split", "joint"):
        survey = MarginalOracle(domains=domains, method=method, random_state=0)
        tables = survey.fit_transform(records)
        assert tables["sex", "age"].domain == Domain.product([sexes, ages])
        assert tables["age", "sex"].domain is None  # its categories stand in another order


# -- as an array ------------------------------------------------------------------------------
def test_as_an_array(two):
    array = np.asarray(two)
    assert type(array) is np.ndarray
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, VALUES)
    assert np.asarray(two, dtype=np.float32).dtype == np.float32
    np.testing.assert_array_equal(np.sum(two, axis=1), np.sum(VALUES, axis=1))
    with pytest.raises(TypeError):  # its mean is that of a number, not of the frequencies
        np.mean(two, axis=1)
    assert not isinstance(two, np.ndarray)
    with pytest.raises(TypeError):
        two + 1


def test_numpy_copy_semantics(two):
    """NumPy 2: copy=None shares if possible, copy=False must share, copy=True must not."""
    assert np.shares_memory(np.asarray(two), two.values)
    copied = np.array(two)
    assert not np.shares_memory(copied, two.values)
    copied[0, 0] = 7.0  # a copy is the caller's own
    assert two.values[0, 0] == 0.5
    assert two.__array__(copy=True).flags.writeable
    assert np.shares_memory(two.__array__(copy=False), two.values)
    with pytest.raises(ValueError, match="copy"):
        two.__array__(np.float32, copy=False)
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        assert np.shares_memory(np.asarray(two, copy=False), two.values)
        with pytest.raises(ValueError, match="copy"):
            np.asarray(two, dtype=np.float32, copy=False)


# -- showing ----------------------------------------------------------------------------------
def test_repr(two):
    text = repr(collected(OUE))
    for part in ("FrequencyEstimate", "5 categories", "OUE(epsilon=1)", "400 users", "noise"):
        assert part in text
    assert len(text.splitlines()) == 6
    assert "NormSub" in repr(NormSub().fit_transform(collected()))
    assert "noise unknown" in repr(FrequencyEstimate([[0.5, 0.5]], ["a", "b"]))
    for n_rows in (0, 2):
        assert f"({n_rows} estimates)" in repr(two[:n_rows])
        assert f"({n_rows} estimates)" in two[:n_rows]._repr_html_()


def test_repr_of_a_large_estimate_is_short():
    estimate = FrequencyEstimate([np.arange(1000.0)], np.arange(1000))
    assert "1,000 categories" in repr(estimate)
    assert len(repr(estimate)) < 500
    assert repr(estimate).endswith("...")
    assert len(estimate._repr_html_()) < 2000


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.opened, self.closed, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.opened.append(tag)

    def handle_endtag(self, tag):
        self.closed.append(tag)

    def handle_data(self, data):
        self.text.append(data)


HOSTILE = ["<script>alert(1)</script>", "</table>", "\"&amp;'", "<img src=x onerror=alert(1)>"]


def test_html_escapes_hostile_categories_and_history():
    estimate = FrequencyEstimate([[0.4, 0.3, 0.2, 0.1]], HOSTILE, postprocessors=("<b>Mine</b>",))
    page = Tags(estimate._repr_html_())
    assert set(page.opened) == {"table", "caption", "tr", "th", "td"}
    assert sorted(page.opened) == sorted(page.closed)
    assert set(HOSTILE) <= set(page.text)  # and unescaped by the browser they read as they are


# -- keeping ----------------------------------------------------------------------------------
@pytest.mark.parametrize("oracle_class", [GRR, OUE, OLH])
@pytest.mark.parametrize("protocol", [2, 5])
def test_pickles_and_copies(oracle_class, protocol):
    estimate = NormSub().fit_transform(collected(oracle_class))
    for twin in (pickle.loads(pickle.dumps(estimate, protocol)), copy.deepcopy(estimate)):
        assert_same_estimate(twin, estimate)
        assert not np.shares_memory(twin.values, estimate.values)


@pytest.mark.parametrize("categories", [COLOURS, [("a", 1), ("a", 2), ("b", 1)], [1, 2, 3]])
def test_joblib_hash_is_that_of_the_content(categories):
    estimate = FrequencyEstimate(VALUES, categories, ROWS_NOISE)
    same = FrequencyEstimate(VALUES, categories, copy.deepcopy(ROWS_NOISE))
    assert joblib.hash(estimate) == joblib.hash(same)
    assert joblib.hash(estimate) == joblib.hash(pickle.loads(pickle.dumps(estimate)))
    assert joblib.hash(estimate) != joblib.hash(estimate.with_values(np.array(VALUES) + 1))
    assert joblib.hash(estimate) != joblib.hash(dataclasses.replace(estimate, noise=NOISE))


def test_using_an_estimate_does_not_change_its_hash():
    """Otherwise a cache (`memory=`) would not find what it holds."""
    estimate = collected()
    before = joblib.hash(collected())
    assert joblib.hash(estimate) == before
    repr(estimate), estimate.answer(), estimate.top(2), estimate.confidence_interval()
    assert joblib.hash(estimate) == before
    assert estimate.shards.counts.shape == (10, 5)
    assert joblib.hash(estimate) == before


def test_pipelines_cache_their_steps(tmp_path, monkeypatch):
    """The second collection comes from the cache."""
    oracle, fits, fit = OUE(1.0, categories=list("abc"), random_state=0), [], OUE.fit
    monkeypatch.setattr(OUE, "fit", lambda *args, **kwargs: fits.append(0) or fit(*args, **kwargs))
    pipe = Pipeline([("oracle", oracle), ("post", NormSub())], memory=str(tmp_path))
    X = list("aabbc") * 200
    first = pipe.fit_transform(X)
    second = pipe.fit_transform(X)
    np.testing.assert_array_equal(first.values, second.values)
    assert first.postprocessors == second.postprocessors == ("NormSub",)
    assert len(fits) == 1
    pipe.set_params(memory=None).fit_transform(X)
    assert len(fits) == 2


# -- asking -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "queries",
    [
        [[1, 0, 1], [0, 1, 0]],
        ((1, 0, 1), (0, 1, 0)),
        np.array([[1, 0, 1], [0, 1, 0]]),
        np.array([[True, False, True], [False, True, False]]),
        sparse.csr_array([[1, 0, 1], [0, 1, 0]]),
        sparse.coo_array([[1, 0, 1], [0, 1, 0]]),
        pd.DataFrame([[1, 0, 1], [0, 1, 0]], columns=COLOURS),  # a matrix with names
        groups(["a", "b", "a"]),
    ],
    ids=lambda queries: type(queries).__name__,
)
def test_answers(two, queries):
    answers = two.answer(queries)
    assert answers.shape == (2, 2)
    np.testing.assert_allclose(answers, [[1.125, -0.125], [0.625, 0.25]])


def test_answers_may_be_written_to(two):
    for queries in (None, full_domain(), groups([1, 2, 3])):
        np.testing.assert_array_equal(two.answer(queries), VALUES)
        np.asarray(two.answer(queries))[0, 0] = 5.0
    assert two.values[0, 0] == 0.5


def test_answers_are_clipped_after_post_pos(two):
    clipped = PostPos().fit_transform(two)
    np.testing.assert_array_equal(clipped.values, VALUES)
    np.testing.assert_array_equal(clipped.answer(), np.maximum(VALUES, 0))
    answers = clipped.answer(groups(["x", "x", "y"]))
    np.testing.assert_allclose(answers, [[0.375, 0.625], [0.5, 0.375]])
    # answers are clipped, not their parts
    assert clipped.answer([[1, 1, 0]])[0, 0] == 0.375


@pytest.mark.parametrize("queries", [groups([1, 2]), [[1, 0, 0, 1]], np.eye(4)])
def test_answers_of_another_width_or_that_need_the_truth(two, queries):
    with pytest.raises(ValueError, match=r"(2|4) categories, but the estimate has 3"):
        two.answer(queries)
    with pytest.raises(ValueError, match=r"largest \*true\* frequencies.*estimate\.top\(2\)"):
        two.answer(top_k(2))


def test_top(one, two):
    assert one.top(2) == [("blue", 0.625), ("red", 0.5)]
    assert one.top() == [("blue", 0.625), ("red", 0.5), ("green", -0.125)]
    assert one.top(0) == []
    category, frequency = FrequencyEstimate([[0.5, 0.5]], [3, 4]).top(1)[0]
    assert type(category) is int
    assert type(frequency) is float
    ties = FrequencyEstimate([np.repeat([0.25, 0.5], 20)], np.arange(40))
    assert [category for category, _ in ties.top(40)] == [*range(20, 40), *range(20)]
    for k in (-1, 1.5):
        with pytest.raises((ValueError, TypeError)):
            one.top(k)
    for method in ("top", "to_series"):
        expected = rf"2 rows. Select one row first: estimate\[0\]\.{method}"
        with pytest.raises(ValueError, match=expected):
            getattr(two, method)()


@pytest.mark.parametrize("categories", [COLOURS, [("a", 1), ("a", 2), ("b", 1)], [10, 20, 30]])
def test_to_series(categories):
    estimate = FrequencyEstimate(VALUES[:1], categories)
    series = estimate.to_series()
    assert isinstance(series, pd.Series)
    assert series.name == "frequency"
    if all(isinstance(c, tuple) for c in categories):  # a level for each column
        assert series.index.names == ["category_0", "category_1"]
    else:
        assert series.index.name == "category"
        assert not isinstance(series.index, pd.MultiIndex)
    assert series.index.tolist() == categories
    assert series.dtype == np.float64
    assert series[categories[1]] == -0.125
    series.iloc[0] = 4.0
    assert estimate.values[0, 0] == 0.5


# -- history ----------------------------------------------------------------------------------
def test_what_changes_values_is_on_the_record(one, two):
    with pytest.raises(ValueError, match="Pass the name of the post-processor .*, or None"):
        one.with_values([[1.0, 0.0, 0.0]], by="")
    changed = one.with_values([[1.0, 0.0, 0.0]], by="Mine")
    assert changed.postprocessors == ("Mine",)
    assert changed.noise == NOISE
    assert one.values[0, 0] == 0.5
    post = NormSub().fit_transform(PostPos().fit_transform(two))[1]
    assert post.postprocessors == ("PostPos", "NormSub")
    assert post.clip_answers
    assert not post.is_raw
    assert one.is_raw
    assert Base().fit_transform(one).is_raw
    Base().fit_transform(one).confidence_interval()


# -- intervals --------------------------------------------------------------------------------
def test_interval_by_hand(one):
    # (2020, Eq. 5) at p = 1/2, q = 1/4, n = 10,000: the variance is (3 + f) / 10,000; half a count
    # is 0.0002. An end T is z standard deviations at T away from the estimate.
    low, high = one.confidence_interval(0.95)
    z, half = 1.959963984540054, 0.0002
    values = np.array(VALUES[0])
    inside = values > 0  # the second estimate is so far below 0 that no frequency above 0 is left
    for ends, sign in ((low[0, inside], 1), (high[0, inside], -1)):
        distance = sign * (values[inside] - ends) - half
        np.testing.assert_allclose(distance, z * np.sqrt((3 + ends) / 10_000))
    assert low[0, 1] == 0
    assert high[0, 1] == pytest.approx((z * np.sqrt(3 / 10_000) + half) / 4)


@pytest.mark.parametrize("level", [0, 0.05, 1, -0.1, 95, np.nan, np.inf, "95 %"])
def test_level_of_an_interval(one, level):
    """An error rate in the place of a level would make intervals that are wrong nearly always."""
    refused = pytest.raises(
        ValueError, match=f"0.5 <= level < 1, got {level!r}. Write 95 % as 0.95"
    )
    for ask in (
        one.confidence_interval,
        one.detected,
        one.summary,
        lambda level: one.plot(level=level),
        (one - dataclasses.replace(one)).to_frame,
        (one - dataclasses.replace(one)).changed,
    ):
        with refused:
            ask(level)


@pytest.mark.parametrize("post", [PostPos(), Norm(), BasePos(), NormSub()], ids=repr)
def test_no_interval_after_post_processing_or_without_noise(one, post):
    with pytest.raises(ValueError, match=f"{type(post).__name__}.*biases.*estimate.as_raw"):
        post.fit_transform(one).confidence_interval()
    with pytest.raises(ValueError, match=f"Norm and {type(post).__name__}"):
        make_pipeline(Norm(), post).fit_transform(one).confidence_interval()
    with pytest.raises(ValueError, match=r"noise=NoiseModel\(p, q, n_samples\)"):
        FrequencyEstimate(VALUES, COLOURS).confidence_interval()


# -- NoiseModel -------------------------------------------------------------------------------
def test_noise_in_numbers():
    """2020 paper, Eq. 7, and Eq. 5 with the two binomials it comes from."""
    assert NOISE.std**2 == pytest.approx(0.25 * 0.75 / (10_000 * 0.25**2))
    assert NOISE.std == pytest.approx(0.017320508075688773)
    e = np.e  # OUE's closed form, 4 e^eps / (n (e^eps - 1)^2)
    oue = NoiseModel(0.5, 1 / (e + 1), 1_000_000)
    assert oue.std**2 == pytest.approx(4 * e / (1e6 * (e - 1) ** 2))
    grr = NoiseModel(e / (e + 15), 1 / (e + 15), 100)  # (d - 2 + e^eps) / (n (e^eps - 1)^2)
    assert grr.std**2 == pytest.approx((16 - 2 + e) / (100 * (e - 1) ** 2))
    np.testing.assert_allclose(NOISE.variance([0, 0.4, 1]), [3.0e-4, 3.4e-4, 4.0e-4], rtol=1e-12)
    f, (p, q, n) = np.linspace(0, 1, 7), (0.6, 0.125, 50)
    noise, binomials = NoiseModel(p, q, n), f * p * (1 - p) + (1 - f) * q * (1 - q)
    np.testing.assert_allclose(noise.variance(f), binomials / (n * (p - q) ** 2), rtol=1e-12)
    assert noise.variance([0.0])[0] == pytest.approx(noise.std**2)


def test_noise_of_rows_and_shares_from_counts():
    np.testing.assert_allclose(ROWS_NOISE.std, [0.017320508, 0.008660254], rtol=1e-7)
    assert ROWS_NOISE.variance(VALUES).shape == (2, 3)
    frequencies, counts = [0.4, 0.0, 1.0], np.array([2500, 5000, 0])
    quarter = NOISE.variance(frequencies) / 4
    np.testing.assert_allclose(ROWS_NOISE.variance(frequencies)[1], quarter)
    np.testing.assert_allclose(ROWS_NOISE.debias([counts, 4 * counts]), [[0, 1, -1]] * 2)
    np.testing.assert_allclose(NOISE.debias(counts), [0, 1, -1])
    np.testing.assert_allclose(NOISE.debias([counts]), [[0, 1, -1]])
    # the expected support count of a category gives its frequency
    f = np.array([0.1, 0.9])
    np.testing.assert_allclose(NOISE.debias(10_000 * (f * 0.5 + (1 - f) * 0.25)), f)


def test_noises_are_equal_and_frozen():
    assert copy.deepcopy(ROWS_NOISE) == NoiseModel(0.5, 0.25, [10_000, 40_000]) == ROWS_NOISE
    assert NoiseModel(0.5, 0.25, np.array([1, 2])) != ROWS_NOISE
    assert NoiseModel(0.5, 0.25, 10_000) == NOISE
    with pytest.raises(dataclasses.FrozenInstanceError):
        NOISE.p = 0.7


@pytest.mark.parametrize(
    ("p", "q"), [(0.25, 0.5), (0.5, 0.5), (1.1, 0.5), (0.5, -0.1), (np.nan, 0.1), (0.5, np.nan)]
)
def test_impossible_probabilities(p, q):
    with pytest.raises(ValueError, match=rf"0 <= q < p <= 1, got p={p}, q={q}"):
        NoiseModel(p, q, 10)


@pytest.mark.parametrize("n_samples", [0, -1, np.nan, np.array([10, 0])])
def test_impossible_sample_sizes(n_samples):
    with pytest.raises(ValueError, match="numbers of users > 0, got n_samples="):
        NoiseModel(0.5, 0.25, n_samples)


# -- by name ----------------------------------------------------------------------------------
def test_a_category_by_its_name(one, two):
    assert one["green"] == -0.125
    assert type(one["green"]) is float
    for rows in (0, -1, slice(1), [0], np.array([True])):
        assert isinstance(one[rows], FrequencyEstimate)
    with pytest.raises(ValueError, match="needs a single estimate"):
        two["red"]
    mixed = FrequencyEstimate([[0.5, 0.3, 0.2]], [("F", 1), None, True])
    assert (mixed["F", 1], mixed[None], mixed[np.nan], mixed[True]) == (0.5, 0.3, 0.3, 0.2)
    assert PostPos().fit_transform(one)["green"] == 0
    numbers = FrequencyEstimate(VALUES[:1], [1, 0, 18])
    assert numbers[0].shape == (1, 3)  # a row, whatever the categories are
    assert numbers.answer([0, 18]).tolist() == [[-0.125, 0.625]]


@pytest.mark.parametrize(
    ("error", "message", "key"),
    [
        (
            KeyError,
            r"no category 'pink'. Choose one of its 3 categories 'red', 'green', 'blue'",
            "pink",
        ),
        (
            IndexError,
            r"^An integer selects a row.*1 row, got 18.* use estimate.answer\(\[\.\.\]\)",
            18,
        ),
        (IndexError, r"answer\(\[\.\.\]\)", ["red", "blue"]),
        (IndexError, r"answer\(\[\.\.\]\)", ("red", "blue")),
    ],
)
def test_a_wrong_name_says_what_to_do(one, error, message, key):
    with pytest.raises(error, match=message):
        one[key]


def test_answers_know_the_names_of_their_queries(one, two):
    answers, several = one.answer(["blue", "red"]), two.answer(["blue", "red"])
    assert (answers.tolist(), answers.names) == ([[0.625, 0.5]], ["blue", "red"])
    assert repr(answers) == str(answers) == "blue  0.625\nred   0.5"
    assert repr(answers.round(1)).split() == ["blue", "0.6", "red", "0.5"]
    assert two.answer(groups(["warm", "cold", "cold"])).names == ["cold", "warm"]
    # What is in another place, or of another kind, has no names: never a wrong one.
    for other in (answers[:, ::-1], answers[0], np.sort(answers), np.asarray(answers).T):
        assert type(other) is np.ndarray
    assert type(one.answer()) is np.ndarray
    assert pickle.loads(pickle.dumps(answers)).names == answers.names
    assert (answers["red"], answers[0, 1], answers[0].tolist()) == (0.5, 0.5, [0.625, 0.5])
    assert several["red"].tolist() == several[:, 1].tolist()
    assert answers.to_series().to_dict() == {"blue": 0.625, "red": 0.5}
    with pytest.raises(
        KeyError, match="no query with the name 'green'. Pass one of the names 'blue', 'red'"
    ):
        answers["green"]
    with pytest.raises(ValueError, match="needs answers of a single estimate, got 2"):
        several.to_series()
    assert type(100 * answers) is np.ndarray


def test_intervals_and_discoveries_name_categories():
    estimate = collected()
    assert repr(estimate.confidence_interval()).splitlines()[1].startswith("  a  0.")
    of_groups = estimate.confidence_interval(0.9, groups(["x", "x", "x", "y", "y"]))
    assert [line.split()[0] for line in repr(of_groups).splitlines()[1:]] == ["x", "y"]
    leading = estimate.confidence_interval(0.95, top_k(2), coverage="selected")
    assert leading.names.tolist() == [name for name, _ in estimate.top(2)]
    assert repr(pickle.loads(pickle.dumps(of_groups))) == repr(of_groups)
    other = dataclasses.replace(estimate, shards=None)
    assert repr(estimate - other).startswith("EstimateDifference")
    many = OUE(4.0, categories=252, random_state=0).simulate(np.arange(252) ** 2)
    # Not the largest: each interval holds by itself, and the noise would choose.
    shown = repr(many.confidence_interval()).splitlines()
    assert [line.split()[0] for line in shown[1:]] == [*map(str, range(20)), "..."]
    assert ": " not in repr(many.detected(threshold=0.9))
    found = many.detected()
    assert repr(found).startswith(f"{len(found[0])} of 252 categories are above 0")
    assert repr(found).endswith(", ...")
    assert repr(found).count(", ") == 10
    assert repr(collected(OUE).detected()).endswith(": a, c, d")


@pytest.mark.parametrize("n_estimates", [1, 2])
def test_a_tidy_frame(n_estimates):
    raw = OUE(2.0, categories=COLOURS, random_state=0).simulate([500, 300, 200], n_estimates)
    low, high = raw.confidence_interval(0.9 ** (1 / n_estimates), simultaneous=True)
    estimate = NormSub().fit_transform(raw)
    tidy = estimate.to_frame(interval=0.9)
    assert tidy["category"].tolist() == COLOURS * n_estimates
    np.testing.assert_array_equal(tidy["frequency"], estimate.values.ravel())
    np.testing.assert_array_equal(tidy[["low", "high"]], np.c_[low.ravel(), high.ravel()])
    np.testing.assert_array_equal(tidy["estimate"], raw.values.ravel())
    np.testing.assert_allclose(tidy["count"], 1000 * estimate.values.ravel(), atol=0.05)
    assert set(tidy["interval"]) == {"90 % simultaneous"}
    named = ["category", "estimate", "low", "high", "frequency", "count", "interval"]
    assert tidy.columns.tolist() == (named if n_estimates == 1 else ["row", *named])
    summary = raw.summary(0.9)
    assert set(summary["interval"]) == {"90 % simultaneous"}
    assert "frequency" not in summary
    assert len(summary) == 3 * n_estimates
    for i in range(n_estimates):
        rows = summary[3 * i : 3 * i + 3]
        assert list(zip(rows["category"], rows["estimate"], strict=True)) == raw[i].top()
    with pytest.raises(ValueError, match="noise"):
        FrequencyEstimate(VALUES, COLOURS).summary()


def test_rows_by_their_names():
    """A name is that of a row, or of a category of a single row; numbers are places of rows."""
    raw = OUE(2.0, categories=["yes", "no"], random_state=0).simulate([600, 400], 2)
    decades = dataclasses.replace(raw, row_names=["1980s", "1990s"])
    np.testing.assert_array_equal(decades["1990s"].values, raw.values[1:])
    assert decades["1980s"]["yes"] == raw[0]["yes"]
    assert dataclasses.replace(raw[:1], row_names=["yes"])["yes"] == raw[0]["yes"]  # the category
    cells = dataclasses.replace(raw, row_names=[("F", "1980s"), ("M", "1980s")])
    assert cells["M", "1980s"].shape == (1, 2)
    for key in ("yes", "2000s"):
        with pytest.raises(ValueError, match=rf"name '{key}'. Select one.*estimate\['1980s'\]"):
            decades[key]
    # An integer is a position, also if the names are integers.
    numbered = dataclasses.replace(raw, row_names=[1, 2])
    assert numbered[1].row_names.tolist() == [2]
    assert numbered[list(numbered.row_names).index(1)].row_names.tolist() == [1]
    with pytest.raises(ValueError, match=r"'1'. Select .*estimate\[list\(.*row_names\).index\(1\)"):
        numbered["1"]
    with pytest.raises(ValueError, match=r"Select one row first: estimate\[0\]\['yes'\]"):
        raw["yes"]


# -- rows of several collections -------------------------------------------------------------------
@pytest.mark.parametrize("oracle_class", [GRR, OLH, RangeOracle])
def test_rows_have_the_intervals_of_each(oracle_class):
    oracle = oracle_class(1.0, categories=COLOURS, random_state=0)
    found = {f"{n}": oracle.fit(COLOURS * n).estimate_ for n in (500, 600, 900)}
    whole, pair = FrequencyEstimate.from_rows(found), np.array([[1.0, 1, 0]])
    for name, one in found.items():
        for how in ({}, {"queries": pair}, {"simultaneous": True}, {"of": "population"}):
            own, row = one.confidence_interval(**how), whole[name].confidence_interval(**how)
            assert np.allclose(own.low, row.low)
            assert np.allclose(own.high, row.high)
        assert whole[name].noise.n_users == 3 * int(name)
    difference = whole["900"] - whole["500"]
    assert np.allclose(difference.values, found["900"].values - found["500"].values)


def test_rows_are_of_one_oracle():
    one, other = (GRR(e, categories=COLOURS, random_state=0).fit(COLOURS * 9) for e in (1.0, 2.0))
    for estimates, match in (
        ({}, "at least one"),
        (
            {0: one.estimate_, 1: other.estimate_},
            "different distributions.* only estimates of the same oracle",
        ),
        ({0: one.estimate_, 1: NormSub().fit_transform(one.estimate_)}, "set of rows"),
        ({0: FrequencyEstimate(VALUES, COLOURS, ROWS_NOISE)}, "of one row each"),
        (dict.fromkeys((0, 1), GRR(1.0, categories=COLOURS).fit(COLOURS * 9).estimate_), "twice"),
    ):
        with pytest.raises(ValueError, match=match):
            FrequencyEstimate.from_rows(estimates)


def test_a_frame_of_value_counts_is_refused_with_the_columns_to_pass():
    pl = pytest.importorskip("polars")
    frame = pl.Series("answer", ["a", "b", "a"]).value_counts(sort=True)
    for counts in (frame, frame.to_pandas(), frame.rename({"count": "proportion"})):
        with pytest.raises(ValueError, match="a data frame with a column of counts. Pass this col"):
            FrequencyEstimate.from_counts(counts, std=1.0, n_samples=3)
    estimate = FrequencyEstimate.from_counts(
        frame["count"], categories=frame["answer"], std=1.0, n_samples=3
    )
    assert estimate.top(1) == [("a", pytest.approx(2 / 3))]
