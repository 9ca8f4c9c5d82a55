"""What a user of scikit-learn, pandas, polars or Arrow tries in the first hour."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline, make_union

import sklearn_ldp
from sklearn_ldp import (
    GRR,
    OLH,
    FrequencyEstimate,
    HeldOutSearch,
    NormSub,
    PrivacyWarning,
    SyntheticSearch,
    SyntheticStack,
)
from sklearn_ldp._core.common import docs
from sklearn_ldp._core.domains.values import order_of
from sklearn_ldp.inference import mean_by_answer
from sklearn_ldp.learning import LDPNaiveBayes
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.utils.discovery import all_estimators

ROOT = Path(__file__).resolve().parent.parent
FRAME = pd.DataFrame({"x": list("abca") * 100, "y": [0, 1] * 200})
X = OLH(2.0, categories=list("abc"), random_state=0)
Y = GRR(2.0, categories=2, random_state=0)


def columns():
    return ColumnTransformer([("x", clone(X), ["x"]), ("y", clone(Y), ["y"])])


IGNORED = pytest.mark.filterwarnings("ignore:Several raw estimates were joined")


# -- ColumnTransformer and FeatureUnion -----------------------------------------------------------
@IGNORED
def test_column_transformer_takes_oracles():
    """Before: "the output of the 'x' transformer should be 2D", as an estimate had no ndim."""
    fitted = columns()
    together = fitted.fit_transform(FRAME)
    expected = [clone(X).fit(FRAME[["x"]]).frequencies_, clone(Y).fit(FRAME[["y"]]).frequencies_]
    np.testing.assert_array_equal(together, [np.concatenate(expected)])
    assert fitted.get_feature_names_out().tolist() == ["x__a", "x__b", "x__c", "y__0", "y__1"]
    assert fitted.named_transformers_["x"].estimate_.shape == (1, 3)


@IGNORED
@pytest.mark.filterwarnings("ignore:.*not data frames")
def test_column_transformer_in_pipelines_and_around_them():
    inside = ColumnTransformer([("x", make_pipeline(clone(X), NormSub()), ["x"])])
    assert inside.fit_transform(FRAME).sum() == pytest.approx(1)
    around = make_pipeline(columns(), NormSub()).fit_transform(FRAME)
    assert around.shape == (1, 5)
    one = ColumnTransformer([("x", clone(X), "x")]).fit_transform(FRAME)  # a column as 1D
    assert one.shape == (1, 3)
    for container in ("polars", "pandas"):
        frame = columns().set_output(transform=container).fit_transform(FRAME)
        assert list(frame.columns) == ["x__a", "x__b", "x__c", "y__0", "y__1"]
    with config_context(transform_output="pandas"):
        assert columns().fit_transform(FRAME).equals(frame)


def test_feature_union_gives_an_array_and_tells_once_what_it_costs(monkeypatch):
    both = clone(X), GRR(categories=list("abc"), random_state=0)
    union = make_union(*both)
    with pytest.warns(PrivacyWarning, match=r"Users spend the sum of their epsilons"):
        assert union.fit_transform(FRAME["x"]).shape == (1, 6)
    assert union.fit_transform(FRAME["x"]).shape == (1, 6)  # warnings are errors
    inside = make_union(*(make_pipeline(one, NormSub()) for one in both))
    monkeypatch.setattr("sklearn_ldp._core.common.privacy._given", set())
    np.testing.assert_allclose(inside.fit_transform(FRAME["x"]).sum(), 2)  # nothing to tell


def test_numpy_functions_take_estimates_as_arrays():
    """`np.hstack` is looked at, and nothing else changes."""
    estimate = clone(X).fit_transform(FRAME["x"])
    twice = np.concatenate([estimate, estimate])
    np.testing.assert_array_equal(twice, estimate.values.repeat(2, 0))
    np.testing.assert_array_equal(np.hstack([estimate, [[1.0]]])[:, :3], estimate.values)
    assert np.sum(estimate) == estimate.values.sum()
    assert np.shape(estimate) == (1, 3)
    np.testing.assert_array_equal(np.where(np.isnan(estimate), 0, estimate), estimate.values)
    assert np.dot(estimate, np.ones(3)).shape == (1,)


# -- what is not there yet, and what cannot be ----------------------------------------------------
@pytest.mark.parametrize("categories", ["auto", list("abc")])
def test_what_has_still_to_be_read_or_made(categories):
    oracle = GRR(categories=categories, random_state=0)
    with pytest.raises(ValueError, match=r"lazy data frame \(LazyFrame\).*X.collect\(\)"):
        oracle.fit(pl.LazyFrame({"x": ["a", "b"]}))
    with pytest.raises(ValueError, match=r"got a generator, which can be read only once"):
        oracle.fit(c for c in "abc")
    with pytest.raises(TypeError, match=r"oracles such as OLH\(\), got the class"):
        simulate_errors(OLH, [NormSub()], [5, 5])


def test_missing_values_get_a_sentence_and_no_essay():
    for values in (np.array([1.0, np.nan, 2.0]), ["a", None], pd.Series([1, None])):
        with pytest.raises(ValueError, match="Declare such a category ") as e:
            GRR(random_state=0).fit(values)
        assert "HistGradientBoosting" not in str(e.value)


class Relation:
    """What streams Arrow columns and is neither pandas nor polars nor Arrow itself."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_two_columns_that_stream_are_a_product():
    both = pa.table({"x": ["a", "b"], "y": [0, 1]})
    oracle = clone(X).set_params(categories="auto").fit(Relation(both))
    assert oracle.categories_.tolist() == [("a", 0), ("b", 1)]


@pytest.mark.parametrize("categories", ["auto", list("abc")])
def test_what_streams_arrow_columns_is_read_once(categories):
    """Before: with "auto" the second reading found 0 samples."""
    table = pa.table({"x": list("abca") * 10})
    oracle = clone(X).set_params(categories=categories)
    expected = clone(oracle).fit(table).frequencies_
    np.testing.assert_array_equal(clone(oracle).fit(Relation(table)).frequencies_, expected)
    np.testing.assert_array_equal(oracle.fit(table.to_reader()).frequencies_, expected)
    assert oracle.partial_fit(table.to_reader()).n_samples_seen_ == 80
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        assert oracle.transform(table.to_reader()).noise.n_samples == 40


def test_continuous_columns_are_warned_of():
    numbers = np.random.default_rng(0).normal(size=1000)
    with pytest.warns(UserWarning, match="found 1000 distinct values among 1000 users"):
        GRR(random_state=0).fit(numbers)
    GRR(random_state=0).fit(numbers.round(1))  # the negative control: a few dozen categories
    GRR(random_state=0).fit(numbers[:50])  # and too few users to tell


# -- labels ---------------------------------------------------------------------------------------
def test_labels_of_many_categories_are_looked_up():
    """Before: 14 s for 20,000 categories, as each label was compared with a new set of all."""
    names = [f"c{i}" for i in range(500)]

    class Counted(str):
        hashed = 0

        def __hash__(self):
            Counted.hashed += 1
            return super().__hash__()

    order = order_of([*reversed(names)], np.array([Counted(n) for n in names], dtype=object), "x")
    np.testing.assert_array_equal(order, np.arange(500)[::-1])
    assert Counted.hashed < 10 * len(names)


# -- discovery ------------------------------------------------------------------------------------
def test_submodules_are_imported_when_they_are_asked_for(fresh_processes):
    code = (
        "import sys, sklearn_ldp; assert 'sklearn_ldp.oracles' not in sys.modules; "
        "from sklearn_ldp import OLH, NormSub; rooms = 'collection datasets learning metrics '"
        "'model_selection planning robustness surveys'.split(); "
        "assert not {f'sklearn_ldp.{room}' for room in rooms} & set(sys.modules), sys.modules; "
        "sklearn_ldp.datasets.load_us_states; sklearn_ldp.collection.Aggregator; "
        "sklearn_ldp.utils.discovery.all_estimators; print('datasets' in dir(sklearn_ldp))"
    )
    done = fresh_processes.run(code)
    assert done.stdout.strip() == "True", done.stderr
    with pytest.raises(AttributeError, match="has no attribute 'dataset'"):
        sklearn_ldp.dataset  # noqa: B018


def test_type_checkers_see_the_names_where_they_are():
    tree = ast.parse(Path(sklearn_ldp.__file__).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    found = [node for node in found if node.module not in {None, "_core.common.lazy", "_version"}]
    seen = [(node.module, one.name) for node in found for one in node.names]
    homes = sklearn_ldp._HOMES.items()
    exported = [(home, name) for home, names in homes for name in names.split()]
    assert sorted(exported) == sorted(seen)
    for _, name in exported:
        assert getattr(sklearn_ldp, name).__name__ == name


def test_all_estimators():
    names = [name for name, _ in all_estimators()]
    assert names == sorted(names)
    filters = ["oracle", "postprocessor", "search", "table", "learner", "mean", "string"]
    kinds = [dict(all_estimators(kind)) for kind in filters]
    assert kinds[0]["GRR"] is GRR
    assert kinds[1]["NormSub"] is NormSub
    assert set(kinds[2].values()) == {HeldOutSearch, SyntheticSearch, SyntheticStack}
    assert sum(map(len, kinds)) == len(names)
    exported = {n for n in sklearn_ldp.__all__ if hasattr(getattr(sklearn_ldp, n), "get_params")}
    # The learners are in their folder.
    assert exported | set(kinds[4]) == set(names)
    assert {"LDPNaiveBayes", "LabelDPClassifier", "PrivatizedColumns"} < set(kinds[4])
    with pytest.raises(ValueError, match="type_filter must be one of"):
        all_estimators("classifier")


# -- small ----------------------------------------------------------------------------------------
def test_joint_estimates_unstack():
    joint = FrequencyEstimate([[0.1, 0.2, 0.3, 0.4]], [("F", 0), ("F", 1), ("M", 0), ("M", 1)])
    table = joint.to_series().unstack()
    assert table.loc["M", 1] == 0.4
    assert table.shape == (2, 2)
    mixed = FrequencyEstimate([[0.5, 0.5]], [("F", 0), "none"])
    assert mixed.to_frame().columns.tolist() == [("F", 0), "none"]


class TestDocumentationLinks:
    """Notebooks link an estimator to its page, once the package says where its pages are."""

    @pytest.fixture
    def urls(self, monkeypatch):
        """Make the installed package claim these [project.urls]."""

        def claim(*entries):
            class Metadata:
                def get_all(self, name):
                    return list(entries) if name == "Project-URL" and entries else None

            monkeypatch.setattr(docs, "metadata", lambda package: Metadata())
            docs._address.cache_clear()

        yield claim
        docs._address.cache_clear()

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            (OLH, "OLH"),
            (NormSub, "NormSub"),
            (SyntheticSearch, "SyntheticSearch"),
            (LDPNaiveBayes, "learning.LDPNaiveBayes"),
        ],
    )
    def test_the_link_is_that_of_the_page(self, urls, kind, name):
        urls("Source, https://example.org/code", "Documentation, https://example.org/ldp/")
        page = f"https://example.org/ldp/generated/sklearn_ldp.{name}.html"
        assert kind()._get_doc_link() == page
        assert page in make_pipeline(kind())._repr_html_()

    def test_there_is_none_without_an_address_and_for_classes_of_others(self, urls):
        class Theirs(NormSub):
            pass

        urls()
        assert OLH()._get_doc_link() == ""
        urls("Source, https://example.org/code")
        assert "example.org" not in make_pipeline(OLH(), NormSub())._repr_html_()
        urls("Documentation, https://example.org/ldp")
        assert Theirs()._get_doc_link() == ""

    def test_every_estimator_has_its_page_under_this_name(self):
        listed = (ROOT / "doc" / "api.md").read_text().split()
        assert {name for name, _ in all_estimators()} <= set(listed)


def test_a_shuffled_copy_of_a_column_is_refused():
    """Columns are paired by position, so each user got the group or weight of another user."""
    frame = pd.DataFrame({"x": list("abab"), "week": [1, 1, 2, 2], "n": [3, 4, 5, 6]})
    shuffled = frame.iloc[[2, 0, 3, 1]]
    oracle = GRR(2.0, categories=["a", "b"], random_state=0)
    reports = pd.Series(oracle.privatize(frame.x))
    calls = {
        "by": lambda other: estimate_by_group(oracle, frame.x, other.week),
        "sample_weight": lambda other: oracle.fit(frame.x, sample_weight=other.n),
        "reports": lambda other: mean_by_answer(other.n, reports, oracle),
    }
    for second, call in calls.items():
        call(frame)
        call(shuffled.reset_index(drop=True))
        call(shuffled.set_index(pd.Index(list("wxyz"))))  # other labels show no pairing
        with pytest.raises(ValueError, match=rf"different orders, .* Pass {second}\.loc\["):
            call(shuffled)
    with pytest.raises(ValueError, match="GRR got X and sample_weight"):
        oracle.partial_fit(frame.x, sample_weight=shuffled.n)
