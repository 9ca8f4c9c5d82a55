"""Sources of batches (files, folders, tables, arrays, iterators); integers stay integers."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    RepeatedBatchError,
    aggregate,
    write_reports,
)

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

GRR_ORACLE = GRR(1.0, categories=5)
CODES = np.array([0, 1, 4, 4, 2, 3], dtype=np.uint16)

SERIES = {
    "list": CODES.tolist(),
    "array": CODES,
    "whole floats": CODES.astype(float),
    "pandas Series": pd.Series(CODES),
    "pandas Int64": pd.Series(CODES, dtype="Int64"),
    "pandas Arrow": pd.Series(CODES, dtype="uint8[pyarrow]"),
    "pandas DataFrame": pd.DataFrame({"x": CODES}, index=list("abcdef")),
    "polars Series": pl.Series(CODES),
    "polars DataFrame": pl.DataFrame({"x": CODES}),
    "Arrow array": pa.array(CODES),
    "Arrow chunked": pa.chunked_array([CODES[:2], CODES[2:]]),
    "Arrow table": pa.table({"x": CODES}),
    "Arrow reader": lambda: pa.table({"x": CODES}).to_reader(max_chunksize=2),
    "sliced": pa.table({"x": np.r_[7, CODES, 7]}).slice(1, 6),
}


@pytest.mark.parametrize("name", SERIES)
def test_one_column_in_any_container(name):
    source = SERIES[name]() if callable(SERIES[name]) else SERIES[name]
    server = aggregate(source, GRR_ORACLE)
    assert server.oracle_.support_counts_.tolist() == [1, 1, 1, 1, 2]
    assert server.batches == {"batch": 6}


def two_columns(functions, values):
    """One hash report per row, with columns of different types, in every kind of table."""
    functions = np.array(functions, dtype=np.uint64)
    values = np.array(values, dtype=np.int8)
    table, uint64_lists = {"f": functions, "v": values}, pa.list_(pa.uint64())
    return {
        "pandas": pd.DataFrame(table),
        "pandas Int64": pd.DataFrame(table).astype({"f": "UInt64", "v": "Int64"}),
        "polars": pl.DataFrame(table),
        "Arrow": pa.table(table),
        "Arrow lists": pa.chunked_array(
            [pa.array(list(zip(functions.tolist(), values.tolist(), strict=True)), uint64_lists)]
        ),
    }


@pytest.mark.parametrize("name", two_columns([], []))
def test_integers_do_not_pass_through_floats(name):
    """2**53 + 1 is a different hash function from 2**53 and supports other categories."""
    oracle = OLH(1.0, categories=64, hash_family="mixing", hash_range=4)
    functions = [2**53 + 1, 2**62 + 1, 2**63 - 1, 2**53 + 3]
    exact = np.array([[f, 3] for f in functions], dtype=np.int64)
    expected = clone(oracle).aggregate(exact).support_counts_
    source = two_columns(functions, [3] * 4)[name]
    np.testing.assert_array_equal(aggregate(source, oracle).oracle_.support_counts_, expected)
    # The negative control: rounded as a container with float64 would, the counts are others.
    rounded = exact.astype(np.float64).clip(max=2.0**62).astype(np.int64)
    assert (clone(oracle).aggregate(rounded).support_counts_ != expected).any()


def test_too_large_integers_do_not_wrap():
    oracle = OLH(1.0, categories=64, hash_family="mixing", hash_range=4)
    for source in two_columns([2**63 + 5], [3]).values():
        with pytest.raises(RefusedBatchError, match="refused"):
            aggregate(source, oracle)


NULLS = {
    "pandas Int64": pd.Series([1, None], dtype="Int64"),
    "pandas float": pd.Series([1.0, None]),
    "polars": pl.Series([1, None]),
    "Arrow": pa.array([1, None]),
    "Arrow table": pa.table({"x": [None, 1]}),
    "Arrow dictionary": pa.array([1, 2]).dictionary_encode(),
    "Arrow text": pa.array(["1", "2"]),
    "Arrow no columns": pa.table({}),
    "Arrow empty": pa.table({"x": pa.array([], pa.int8())}),
    "two columns": pa.table({"x": [1], "y": [1]}),
    "nothing": [],
    "text": b"1",
    "set": {1, 2},
    "None": None,
}


@pytest.mark.parametrize("name", NULLS)
def test_missing_values_and_other_types_are_refused(name):
    server = Aggregator(GRR_ORACLE)
    with pytest.raises(RefusedBatchError, match="Batch 'x' is refused"):
        aggregate(NULLS[name], server, batch_id="x")
    assert server.n_samples == 0
    assert server.summary().n_refused == 1


def test_wide_reports_in_tables():
    oracle = OUE(1.0, categories=3)
    bits = np.array([[1, 0, 1], [0, 0, 1]], dtype=np.uint8)
    frame = {name: bits[:, i] for i, name in enumerate("abc")}
    for source in (
        pd.DataFrame(frame),
        pd.DataFrame(frame).astype(bool),
        pl.DataFrame(frame).cast(pl.Boolean),
        pa.table({"bits": pa.array(bits.tolist())}),
        pa.table({"bits": pa.array(bits.tolist(), pa.list_(pa.uint8(), 3))}),
    ):
        assert aggregate(source, oracle).oracle_.support_counts_.tolist() == [1, 0, 2]
    with pytest.raises(RefusedBatchError, match="lists of equal length"):
        aggregate(pa.table({"bits": pa.array([[1, 0, 1], [1]])}), oracle)


def test_iterators_are_batches():
    batches = [CODES, CODES[:2], pa.table({"x": CODES[:1]})]
    server = aggregate(iter(batches), GRR_ORACLE)
    assert server.batches == {"batch/0": 6, "batch/1": 2, "batch/2": 1}
    named = aggregate(zip(["a", "b", "c"], batches, strict=True), Aggregator(GRR_ORACLE))
    assert named.batches == {"a": 6, "b": 2, "c": 1}
    with pytest.raises(ValueError, match="these batches have no ids. Pass batch_id"):
        aggregate(iter(batches), server)
    aggregate(iter(batches), server, batch_id="more")
    assert server.n_samples == 18
    with pytest.raises(RepeatedBatchError):
        aggregate(iter(batches), server, batch_id="more")


def test_refused_batches_can_be_skipped():
    batches = [CODES, [99], CODES]
    server = Aggregator(GRR_ORACLE)
    with pytest.raises(RefusedBatchError, match="'s/1' is refused: GRR cannot have made"):
        aggregate(iter(batches), server, batch_id="s")
    assert server.batches == {"s/0": 6}
    server = aggregate(iter(batches), GRR_ORACLE, on_refusal="skip")
    assert server.batches == {"batch/0": 6, "batch/2": 6}
    assert server.summary().n_refused == 1
    with pytest.raises(ValueError, match="on_refusal must be"):
        aggregate(iter(batches), server, on_refusal="ignore")


@pytest.fixture
def folder(tmp_path):
    """Eight files in all formats, a hidden file, and a file of something else."""
    folder = tmp_path / "reports"
    (folder / "day=1").mkdir(parents=True)
    (folder / "_log").mkdir()
    (folder / "notes.txt").write_text("not a report")
    for i in range(8):
        suffix = [".parquet", ".arrows", ".jsonl"][i % 3]
        write_reports(folder / "day=1" / f"{i}{suffix}", [i % 5], GRR_ORACLE, batch_id=f"file {i}")
    write_reports(folder / "_log" / "x.parquet", [0], GRR_ORACLE)
    return folder


def test_folders(folder):
    server = aggregate(folder, GRR_ORACLE)
    assert server.batches == {f"file {i}": 1 for i in range(8)}
    assert server.oracle_.support_counts_.tolist() == [2, 2, 2, 1, 1]
    with pytest.raises(RepeatedBatchError, match="'file 0' before"):
        aggregate(folder, server)
    # A copy under another name is the same batch.
    path = folder / "copy.parquet"
    path.write_bytes((folder / "day=1" / "0.parquet").read_bytes())
    again = aggregate(folder, GRR_ORACLE, on_repeat="ignore")
    assert again.n_samples == 8
    assert again.summary().n_repeats == 1
    assert aggregate(iter([str(path)]), Aggregator(GRR_ORACLE)).n_samples == 1
    empty = folder.parent / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="There is no file of reports"):
        aggregate(empty, GRR_ORACLE)


def test_a_checkpoint_is_resumed(tmp_path):
    path = tmp_path / "state.npz"
    batches = [CODES[: 1 + i % 6] for i in range(12)]
    made = []

    def stream(stop):
        for number, reports in enumerate(batches):
            if number == stop:
                raise KeyboardInterrupt
            made.append(number)
            yield reports

    for stop in (3, 7, None):
        try:
            server = aggregate(stream(stop), GRR_ORACLE, checkpoint=path, checkpoint_seconds=0)
        except KeyboardInterrupt:
            assert len(Aggregator.load(path, GRR_ORACLE).batches) == stop
    assert server.batches == aggregate(iter(batches), GRR_ORACLE).batches
    assert Aggregator.load(path, GRR_ORACLE).batches == server.batches
    with pytest.raises(ValueError, match="An Aggregator has its own collection_round"):
        aggregate(iter(batches), server, batch_id="x", checkpoint=path)


def test_a_table_with_a_configuration_is_held_to_it(tmp_path):
    path = tmp_path / "reports.parquet"
    oracle = OUE(1.0, categories=9, random_state=0)
    write_reports(path, oracle.privatize(np.arange(9)), oracle)
    table = pa.parquet.read_table(path)
    counts = aggregate(table, oracle).oracle_.support_counts_
    np.testing.assert_array_equal(counts, aggregate(path, oracle).oracle_.support_counts_)
    with pytest.raises(RefusedBatchError, match=r"epsilon 1\.0 instead of 2\.0"):
        aggregate(table, clone(oracle).set_params(epsilon=2.0))


def test_mapped_files(tmp_path):
    path = tmp_path / "reports.bin"
    reports = np.random.default_rng(0).integers(5, size=100_000, dtype=np.uint8)
    reports.tofile(path)
    expected = np.bincount(reports)
    for mode in ("r", "r+", "c"):
        mapped = np.memmap(path, np.uint8, mode=mode)
        if mode == "c":
            mapped[0] = (mapped[0] + 1) % 5
            expected = np.bincount(mapped)
        assert (aggregate(mapped, GRR_ORACLE).oracle_.support_counts_ == expected).all()
        assert (aggregate(mapped[::2], GRR_ORACLE).n_samples) == 50_000
    assert mapped[0] == (reports[0] + 1) % 5
