"""Columns as users have them: codes by dictionaries, Arrow's text and tables of numbers."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sklearn_ldp import GRR, Domain
from sklearn_ldp._core.domains._lists import CategoryList
from sklearn_ldp._core.domains.values import LevelColumn, as_columns

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

LEVELS = ["c", "a", "\u00e9\0", "never"]
ROWS = ["a", None, "c", "\u00e9\0", "a", "a", None]
ARROW = pa.array(ROWS)
DICTIONARY = ARROW.dictionary_encode()
KINDS = {
    "Categorical": pd.Categorical(ROWS, categories=LEVELS),
    "Series of categories": pd.Series(ROWS, list("gfedcba"), pd.CategoricalDtype(LEVELS)),
    "CategoricalIndex": pd.CategoricalIndex(ROWS, categories=LEVELS),
    "polars Enum": pl.Series(ROWS, dtype=pl.Enum(LEVELS)),
    "polars Categorical": pl.Series(ROWS, dtype=pl.Categorical),
    "polars text": pl.Series(ROWS),
    "Arrow dictionary": DICTIONARY,
    "a slice": pa.array([*ROWS, "d"]).dictionary_encode()[:-1],
    "two dictionaries": pa.chunked_array(
        [ARROW[3:].dictionary_encode(), ARROW[:0].dictionary_encode(), DICTIONARY]
    )[4:],
    "Arrow text": ARROW,
    "chunks of text": pa.chunked_array([ARROW[:2], ARROW[2:2], ARROW[2:]]),
    "large text": ARROW.cast(pa.large_string()),
    "text views": ARROW.cast(pa.string_view()),
    "pandas text": pd.Series(ROWS, dtype=pd.StringDtype("pyarrow")),
    "pandas Arrow text": pd.Series(ROWS, dtype=pd.ArrowDtype(pa.string())),
    "pandas Arrow dictionary": pd.Series(DICTIONARY, dtype=pd.ArrowDtype(DICTIONARY.type)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_by_its_dictionary(kind):
    """Levels that are no categories are refused only where they occur."""
    column = KINDS[kind]
    assert isinstance(as_columns(column, "GRR")[0], LevelColumn)
    domain = Domain(["a", None, "b", "c", "\u00e9\0"])
    assert domain.encode(column).tolist() == [0, 1, 3, 4, 0, 0, 1]
    if isinstance(column, (pd.Series, pl.Series)):
        values = column.array if isinstance(column, pd.Series) else column
        frame = type(column.to_frame("x"))({"n": [1] * len(ROWS), "x": values})
        assert Domain.product([[1, 2], domain]).encode(frame).tolist() == [0, 1, 3, 4, 0, 0, 1]
    with pytest.raises(ValueError, match="unknown category 'c'"):
        Domain(["a", None, "\u00e9\0"]).encode(column)
    with pytest.raises(ValueError, match="category at position 2, which is not shown"):
        GRR(1.0, categories=["a", None, "\u00e9\0"]).privatize(column)
    with pytest.raises(ValueError, match="another missing value"):
        Domain(LEVELS).encode(column)


def test_learnt_levels_are_those_that_occur_or_that_are_declared():
    text = [one for one in ROWS if one is not None]
    for column in (text, pa.array(text), pl.Series(text), pl.Series(text, dtype=pl.Categorical)):
        assert Domain.learned(column, "GRR").categories.tolist() == ["a", "c", "\u00e9\0"]
    declared = Domain.learned(pd.Categorical(text, categories=LEVELS), "GRR")
    assert declared.categories.tolist() == LEVELS


@pytest.mark.parametrize("levels", [[1, 2], [0.5, 2.5], [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]])
def test_levels_that_are_no_text(levels):
    column = pd.Series(pd.Categorical([*levels, None], categories=levels))
    assert Domain([*levels[::-1], None]).encode(column).tolist() == [1, 0, 2]
    numbers = pd.Categorical([3, None, 99], categories=[99, 3])
    assert Domain.bins([10], missing=True).encode(numbers).tolist() == [0, 2, 1]
    oracle = GRR(1.0, categories=Domain.bins([10], bounds=(0, 20), clip=True), random_state=0)
    assert oracle.fit(numbers[::2]).n_clipped_ == 1


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.Categorical(["a", "b"] * 9, categories=["b", "a", "z"])),
        pa.array(["a", "b"] * 9),
        np.array(["a", "b"] * 9),
        ["a", "b"] * 9,
        np.array(["a", "b"] * 9, dtype=object),
    ],
    ids=["Categorical", "Arrow", "NumPy", "list", "objects"],
)
def test_no_value_goes_through_a_function_of_ours(column, monkeypatch):
    domain, called = Domain(["a", "b"]), []
    monkeypatch.setattr(CategoryList, "_code_of", lambda self, value: called.append(value) or 0)
    monkeypatch.setattr(CategoryList, "_new_table", lambda self, dtype: None)
    domain.encode(column)
    assert set(called) <= {"z"}  # a level that does not occur
    called.clear()
    domain.encode(["a", float("nan")])  # negative control: a form that no dictionary has
    assert len(called) == 1


# -- numbers and text in a table -------------------------------------------------------------------
NUMBERS = [0, 1, -3, 0.5, 0.1, -0.0, 255, 256, 65537, 2**53, 2**53 + 1, 2**63, float("inf"), None]
TYPES = ["bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64", ">i4", ">f8"]
DATES = [dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3, 4), None]
SPANS = [dt.timedelta(0), dt.timedelta(1), dt.timedelta(microseconds=-7), None]
TEXTS = ["", "a", "aa", "a\0", "\u00e9", "longer than most", 1, None]


@st.composite
def lists_and_columns(draw):
    listed, types = draw(
        st.sampled_from(
            [
                (NUMBERS, TYPES),
                (DATES, ["M8[D]", "M8[s]", "M8[us]", "M8[ns]", ">M8[s]"]),
                (SPANS, ["m8[D]", "m8[s]", "m8[us]", "m8[ns]"]),
                (TEXTS, ["U1", "U2", "U20", ">U3"]),
            ]
        )
    )
    some = draw(st.permutations(listed))[: draw(st.integers(2, len(listed)))]
    kept = list(dict.fromkeys(some))
    dtype = np.dtype(draw(st.sampled_from(types)))
    pool = []
    for one in listed:
        try:
            with np.errstate(all="ignore"):
                pool.append(np.array([one], dtype=object).astype(dtype)[0])
        except (TypeError, ValueError, OverflowError):
            continue
    chosen = draw(st.lists(st.sampled_from(pool), min_size=20, max_size=30))
    return kept, np.array(chosen, dtype=dtype)


@settings(max_examples=200, deadline=None)
@given(lists_and_columns())
def test_a_table_finds_what_one_value_at_a_time_finds(drawn):
    """Of any type; the negative control is that some types do have a table."""
    kept, column = drawn
    assume(len(kept) > 1)
    listed = Domain(kept)._factors[0]
    each = [int(listed.places(column[i : i + 1])[0]) for i in range(len(column))]
    assert listed.places(column).tolist() == each


def test_there_is_a_table_for_each_kind_of_numbers():
    """Or the test above would compare a thing with itself."""
    for listed, types in (
        ([0, 1, 0.5], TYPES),
        (DATES, ["M8[s]"]),
        (SPANS, ["m8[s]"]),
        (["a"], ["U3"]),
    ):
        for dtype in types:
            assert CategoryList(np.array(listed, dtype=object))._table(np.dtype(dtype)) is not None
    assert CategoryList(np.array(["a", 1], dtype=object))._table(np.dtype("U3")) is None
    assert CategoryList(np.array([1, 2**63], dtype=object))._table(np.dtype("int64")) is None


@pytest.mark.parametrize("d", [2, 127, 128, 1023, 1024, 5000])
def test_tables_of_any_size(d):
    numbers = np.random.default_rng(d).permutation(d) * 0.37
    column = np.random.default_rng(0).integers(d, size=3 * d)
    texts = np.array([f"{x:.6f}" for x in numbers])
    for categories in (numbers, texts):
        assert Domain(categories).encode(categories[column]).tolist() == column.tolist()


# -- containers that NumPy reads in ways of its own ------------------------------------------------
@pytest.mark.parametrize("missing", [None, np.nan])
def test_text_of_numpy_with_missing_values(missing):
    text = np.array(["b", missing, "a"], dtype=np.dtypes.StringDType(na_object=missing))
    assert Domain(["a", "b", None]).encode(text).tolist() == [1, 2, 0]
    assert Domain.learned(text[[0, 2]], "GRR").categories.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="another missing value"):
        Domain.learned(text, "GRR")


LISTS = [[1, 2], [3], [1, 2]]


@pytest.mark.parametrize("container", [pd.Series, pl.Series, pa.array])
def test_a_list_is_no_answer(container):
    for oracle in (GRR(1.0, categories=[(1, 2), (3,)]), GRR(1.0, random_state=0)):
        with pytest.raises(ValueError, match=r"A list cannot be a category.* tuple, or use Item"):
            oracle.fit(container(LISTS))


@pytest.mark.parametrize("container", [list, tuple, pd.Series])
def test_tuples_of_any_length_are_answers(container):
    tuples = container([tuple(one) for one in LISTS])
    assert Domain([(3,), (1, 2)]).encode(tuples).tolist() == [1, 0, 1]
    assert Domain.learned(tuples, "GRR").categories.tolist() == [(1, 2), (3,)]
    with pytest.raises(ValueError, match=r"rows of different lengths.* convert it to a tuple"):
        Domain([(3,), (1, 2)]).encode(LISTS)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_stay_floats(dtype):
    column = pd.Series([0.5, np.nan, 1.5], dtype=dtype)
    assert Domain([0.5, 1.5, None]).encode(column).tolist() == [0, 2, 1]
    assert Domain(column).categories.dtype == dtype
    large = pd.Series([2.0**60, np.inf])
    assert Domain([2.0**60, float("inf"), None]).encode(large).tolist() == [0, 1]
