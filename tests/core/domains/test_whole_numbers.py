"""Whole numbers are equal to those of Python: in every container, with and without nulls.

Beyond 2**53 neighbors are equal as floats, beyond 2**63 they leave int64, and beyond 2**64 NumPy.
"""

import io
import tracemalloc
from functools import partial

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from sklearn_ldp import GRR, ColumnOracle, Domain, FrequencyEstimate, MarginalOracle, load_estimate
from sklearn_ldp.learning import LabelDPClassifier, LDPNaiveBayes
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.queries import groups, mean

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

#: Three neighbors each, of which the second one is not declared.
LARGE = {
    "-2**63": -(2**63),
    "2**53": 2**53 - 1,
    "an id": 1212092628029698048,
    "2**63": 2**63 - 1,
    "2**64": 2**64 - 3,
    "2**65": 2**65,
}
RANGES = {"int64": (-(2**63), 2**63), "uint64": (0, 2**64), "Int128": (-(2**127), 2**127)}


def _objects(values):
    return np.array([*values, "x"], dtype=object)[:-1]


def _masked(values, dtype):
    numbers = np.array([0 if value is None else value for value in values], dtype=dtype)
    return pd.arrays.IntegerArray(numbers, np.array([value is None for value in values]))


def _arrow(values, dtype):
    return pa.array(values, getattr(pa, dtype)())


def _chunks(values, dtype):
    return pa.chunked_array([_arrow(values[:1], dtype), _arrow(values[1:], dtype)])


def _of_pandas_arrow(values, dtype):
    return pd.arrays.ArrowExtensionArray(_arrow(values, dtype))


def _levels(values, dtype):
    levels = sorted({value for value in values if value is not None})
    index = pd.Index(_objects(levels) if dtype == "object" else np.array(levels, dtype=dtype))
    places = [-1 if value is None else levels.index(value) for value in values]
    return pd.Categorical.from_codes(places, categories=index)


def _frame(values, dtype):
    return pd.DataFrame({"id": _masked(values, dtype)})


TABLES = ("frame", "table", "batch", "rows")
#: How each container is made of numbers, the type that bounds them, and whether it has nulls.
CONTAINERS = {
    "list": (list, None, True),
    "tuple": (tuple, None, True),
    "objects": (_objects, None, True),
    "rows of a list": (lambda values: [[value] for value in values], None, True),
    "Series of objects": (lambda values: pd.Series(_objects(values)), None, True),
    "Categorical of objects": (partial(_levels, dtype="object"), None, True),
    "polars Int128": (lambda values: pl.Series(values, dtype=pl.Int128), "Int128", True),
    "polars Object": (lambda values: pl.Series(values, dtype=pl.Object), None, True),
}
for kind, of_polars in (("int64", pl.Int64), ("uint64", pl.UInt64)):
    masked, arrow, chunks = (partial(make, dtype=kind) for make in (_masked, _arrow, _chunks))
    of_pandas_arrow, levels = partial(_of_pandas_arrow, dtype=kind), partial(_levels, dtype=kind)
    column = partial(pl.Series, dtype=of_polars)
    CONTAINERS |= {
        f"NumPy {kind}": (partial(np.array, dtype=kind), kind, False),
        f"Series {kind}": (lambda v, t=kind: pd.Series(np.array(v, dtype=t)), kind, False),
        f"pandas masked {kind}": (masked, kind, True),
        f"Series masked {kind}": (lambda v, make=masked: pd.Series(make(v)), kind, True),
        f"Series Arrow {kind}": (lambda v, make=of_pandas_arrow: pd.Series(make(v)), kind, True),
        f"Categorical {kind}": (levels, kind, True),
        f"Series Categorical {kind}": (lambda v, make=levels: pd.Series(make(v)), kind, True),
        f"polars {kind}": (column, kind, True),
        f"Arrow {kind}": (arrow, kind, True),
        f"Arrow chunks {kind}": (chunks, kind, True),
        f"Arrow dictionary {kind}": (lambda v, make=arrow: make(v).dictionary_encode(), kind, True),
        f"Arrow dictionaries {kind}": (
            lambda v, make=chunks: make(v).dictionary_encode(),
            kind,
            True,
        ),
        f"pandas frame {kind}": (partial(_frame, dtype=kind), kind, True),
        f"polars frame {kind}": (lambda v, make=column: pl.DataFrame({"id": make(v)}), kind, True),
        f"Arrow table {kind}": (lambda v, make=arrow: pa.table({"id": make(v)}), kind, True),
        f"Arrow batch {kind}": (lambda v, make=arrow: pa.record_batch({"id": make(v)}), kind, True),
    }


def cases(container):
    """Yield three neighbors, and whether there are nulls, for all values that a container has."""
    _, kind, has_nulls = CONTAINERS[container]
    for first in LARGE.values():
        low, end = RANGES.get(kind, (first, first + 3))
        if low <= first and first + 3 <= end:
            for is_null in {False, has_nulls}:
                yield [first, first + 1, first + 2], is_null


@pytest.mark.parametrize("container", CONTAINERS)
def test_codes_are_those_of_python(container):
    make = CONTAINERS[container][0]
    for (declared, undeclared, other), is_null in cases(container):
        categories = [declared, other, *[None] * is_null]
        rows = [*categories[::-1], *categories] * 2
        domain = Domain(categories)
        expected = [categories.index(row) for row in rows]
        assert domain.encode(make(rows)).tolist() == expected, declared
        with pytest.raises(ValueError, match="unknown category"):
            domain.encode(make([declared, undeclared]))
        # A domain that is declared by the container, and one that is learned from it.
        if not any(word in container for word in TABLES):
            names = [declared, other]
            is_levels = "Categorical" in container or "dictionar" in container
            assert Domain(make(names if is_levels else categories)).names[:2].tolist() == [
                str(name) for name in names
            ]
        learned = Domain.learned(make([other, declared, other]), "GRR").categories.tolist()
        assert sorted(learned) == [declared, other]
        assert set(map(type, learned)) == {int}


@pytest.mark.parametrize("container", [name for name in CONTAINERS if "Object" not in name])
def test_groups_and_labels_are_those_of_python(container):
    make = CONTAINERS[container][0]
    for ids, is_null in cases(container):
        if is_null:
            continue
        rows = ids[::-1] * 2
        grouped = estimate_by_group(GRR(9.0, categories=2, random_state=0), [0, 1] * 3, make(rows))
        assert grouped.row_names.tolist() == ids
        if not any(word in container for word in TABLES) and ids[-1] < 2**64:
            model = LabelDPClassifier(epsilon=50.0, classes=ids, random_state=0)
            assert model.privatize(make(rows)).tolist() == rows
            with pytest.raises(ValueError, match="unknown class"):
                model.set_params(classes=ids[::2]).privatize(make(rows))


@pytest.mark.parametrize("container", ["list", "objects", "Series masked uint64", "polars Int128"])
def test_classes_that_are_learned_are_those_of_python(container):
    ids = [2**63 - 1, 2**63, 2**63 + 1]
    y, X = CONTAINERS[container][0](ids * 4), np.eye(3)[[0, 1, 2] * 4]
    model = LabelDPClassifier(GaussianNB(), epsilon=50.0, random_state=0).fit(X, y)
    assert model.classes_.tolist() == ids
    assert model.score(X, y) == 1


@pytest.mark.parametrize("first", LARGE.values(), ids=LARGE)
def test_estimates_name_whole_numbers(first, tmp_path):
    ids = [first, first + 1, first + 2]
    estimate = GRR(50.0, categories=ids, random_state=0).fit([*ids, first]).estimate_
    np.testing.assert_allclose(estimate.values, [[0.5, 0.25, 0.25]])
    assert estimate.to_frame().columns.tolist() == ids
    assert sorted(estimate.summary(0.95)["category"]) == ids
    estimate.save(tmp_path / "estimate.json")
    assert load_estimate(tmp_path / "estimate.json").categories.tolist() == ids
    divided = estimate.answer(groups({first: "a", first + 1: "b", first + 2: "b"}))
    np.testing.assert_allclose(divided, [[0.5, 0.5]])
    numbers = estimate.answer(mean({first: 0, first + 1: 4, first + 2: 0}))
    np.testing.assert_allclose(numbers, [[1.0]])
    named = FrequencyEstimate.from_counts(dict.fromkeys(ids, 5), std=1.0, n_samples=15)
    assert named.categories.tolist() == ids
    listed = FrequencyEstimate.from_counts([5, 6, 7], std=1.0, n_samples=18, categories=ids)
    assert listed.categories.tolist() == ids
    weeks = [GRR(2.0, categories=2, random_state=n).fit([0, 1] * n).estimate_ for n in (7, 8, 9)]
    rows = FrequencyEstimate.from_rows(dict(zip(ids, weeks, strict=True)))
    assert rows.row_names.tolist() == ids


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_columns_of_a_record_are_those_of_python(kind):
    first = 2**62 if kind == "int64" else 2**64 - 3
    ids, answers = [first, first + 2, None] * 4, ["a", "b"] * 6
    masked = _masked(ids, kind)
    domains = {"id": [first, first + 2, None], "answer": ["a", "b"]}
    of_polars = pl.Series(ids, dtype={"int64": pl.Int64, "uint64": pl.UInt64}[kind])
    for frame in (
        pd.DataFrame({"id": masked, "answer": answers}),
        pl.DataFrame({"id": of_polars, "answer": answers}),
        pa.table({"id": _arrow(ids, kind), "answer": answers}),
    ):
        for survey in (ColumnOracle, MarginalOracle):
            shares = survey(50.0, domains=domains).true_frequencies(frame)
            first_table = next(iter(shares.values()))
            np.testing.assert_allclose(first_table, 1 / len(first_table))
    bayes = LDPNaiveBayes(9.0, domains={"answer": ["a", "b"]}, classes=ids[:2], random_state=0)
    labels = _masked(ids[:2] * 6, kind)
    assert bayes.fit(pd.DataFrame({"answer": answers}), labels).classes_.tolist() == ids[:2]


def test_labels_of_more_than_64_bits_are_refused_in_one_sentence():
    with pytest.raises(
        ValueError, match="integers of more than 64 bits in y.* Convert all labels to texts"
    ):
        LabelDPClassifier(epsilon=9.0).fit([[0], [1]], [2**65, 2**65 + 1])


def test_masked_categories_are_missing():
    array = np.ma.MaskedArray([1, 2, 3], [False, True, False])
    assert Domain(array).categories.tolist() == [1, None, 3]
    assert Domain([1, 3, None]).encode(array).tolist() == [0, 2, 1]


def test_large_floats_are_no_integers():
    """pandas reads integers beside an empty cell as floats, in which neighbors are equal."""
    large = 1212092628029698048
    lines = f"id\n{large}\n{large + 1}\n\n5"
    domain = Domain([large, large + 1, 5, None])
    floats, integers = (
        pd.read_csv(io.StringIO(lines), skip_blank_lines=False, dtype=dtype)["id"]
        for dtype in (None, "Int64")
    )
    for column in (floats, floats.astype("category")):
        with pytest.raises(ValueError, match='floats of 2\\*\\*53 or more.* with dtype="Int64"'):
            domain.encode(column)
    assert domain.encode(integers).tolist() == [0, 1, 3, 2]  # the negative controls
    assert domain.encode([5.0]).tolist() == [2]
    assert Domain([1e18, 2e18]).encode([2e18]).tolist() == [1]


def test_encoding_integer_codes_needs_no_copy_of_the_column():
    """The negative control, with categories from 1 on, needs differences of eight bytes each."""
    values = np.arange(100_000) % 100
    peaks = []
    for first in (0, 1):
        domain = Domain(range(first, first + 100))
        column = values + first
        tracemalloc.start()
        codes = domain.encode(column)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        np.testing.assert_array_equal(codes, values)
    assert peaks[0] < 2 * codes.nbytes
    assert peaks[1] > 8 * codes.nbytes


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, np.uint64])
def test_codes_share_no_memory_with_the_column(dtype):
    column = np.arange(100, dtype=dtype)
    codes = Domain(range(100)).encode(column)
    codes[:] = 0
    np.testing.assert_array_equal(column, np.arange(100))
