"""Hostile input of any kind is refused: no crash, no hang, no memory blow-up, no code run."""

import contextlib
import io
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from estimators import slow_but
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    Domain,
    HadamardResponse,
    LocalMean,
    MatrixOracle,
    RangeOracle,
    SubsetSelection,
)
from sklearn_ldp._core.aggregation import formats
from sklearn_ldp._core.aggregation.containers import (
    from_columns,
    report_fields,
    to_batch,
    to_columns,
)
from sklearn_ldp._core.common.parquet import column_chunks, page_header
from sklearn_ldp.collection import (
    Aggregator,
    CheckpointError,
    RefusedBatchError,
    describe_reports,
    tally_file,
    write_reports,
)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CATEGORIES = 40
BINS = Domain.bins(8, bounds=(0, 7), integers=True)
ORACLES = [
    GRR(1.0, categories=CATEGORIES),
    OLH(1.0, categories=CATEGORIES),
    OUE(1.0, categories=CATEGORIES),
    SubsetSelection(1.0, categories=CATEGORIES),
    MatrixOracle(1.0, categories=CATEGORIES),
    RangeOracle(1.0, categories=300),
    LocalMean(1.0, bounds=(0, CATEGORIES)),
    SubsetSelection(1.0, categories=1024),  # as bits
    RangeOracle(1.0, categories=Domain.grid(BINS, BINS)),
]
FORMATS = ["parquet", "arrow", "jsonl"]


def values(oracle, n):
    codes = np.arange(n) % CATEGORIES
    is_grid = getattr(oracle.protocol().domain, "grid_ends", None) is not None
    return np.column_stack([codes % 8, codes // 8]) if is_grid else codes


def valid_file(oracle, form, n=300):
    file = io.BytesIO()
    reports = clone(oracle).set_params(random_state=0).privatize(values(oracle, n))
    write_reports(file, reports, oracle, batch_id="x", format=form, random_state=0)
    return file.getvalue()


FILES = {
    (i, form): valid_file(oracle, form) for i, oracle in enumerate(ORACLES) for form in FORMATS
}


def mutated(content, rng):
    """The content with some bits flipped, bytes replaced, cut out, repeated or inserted."""
    content = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 5, 20])):
        if not content:
            break
        place, kind = rng.randrange(len(content)), rng.randrange(7)
        length = rng.choice([1, 2, 4, 8, 100])
        if kind <= 1:
            content[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            content[place] = rng.choice([0, 1, 127, 128, 255])
        elif kind == 3:
            del content[place : place + length]
        elif kind == 4:
            content[place:place] = content[place : place + length]
        elif kind == 5:
            value = rng.choice([0, 2**31 - 1, 2**63 - 1, 2**64 - 1, 2**40, 2**20])
            content[place : place + 8] = value.to_bytes(8, rng.choice(["little", "big"]))
        else:
            del content[rng.randrange(len(content)) :]
    return bytes(content)


def survives(content, oracle, form, expected):
    """Read hostile content; return whether it is refused, else it must hold the true reports."""
    server = Aggregator(oracle).add(expected[1], "before")
    before = server.tally()
    with contextlib.suppress(RefusedBatchError):
        describe_reports(content, format=form)
    try:
        tally = tally_file(content, oracle, format=form)
        server.merge(tally)
    except RefusedBatchError:
        after = server.tally()
        np.testing.assert_array_equal(after.tallies, before.tallies)
        assert after.batches == before.batches
        return True
    np.testing.assert_array_equal(tally.tallies.sum(axis=0), expected[0])
    return False


def expectation(index):
    oracle = ORACLES[index]
    tally = tally_file(FILES[index, "arrow"], oracle, format="arrow")
    return tally.tallies.sum(axis=0), clone(oracle).privatize(values(oracle, 2))


@pytest.mark.parametrize(
    ("index", "form"),
    slow_but(
        [
            *product(range(2), FORMATS),
            (2, "arrow"),
            (3, "parquet"),
            (5, "parquet"),
            (6, "jsonl"),
            (8, "arrow"),
        ],
        list(product(range(len(ORACLES)), FORMATS)),
    ),
)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_mutated_files_are_refused_or_harmless(index, form, seed):
    content = mutated(FILES[index, form], random.Random(seed))
    survives(content, ORACLES[index], form, expectation(index))


@given(content=st.binary(max_size=300), form=st.sampled_from(FORMATS))
def test_noise_is_refused(content, form):
    with pytest.raises(RefusedBatchError):
        tally_file(content, ORACLES[0], format=form)
    with pytest.raises(RefusedBatchError):
        describe_reports(content, format=form)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(value=JSON, key=st.sampled_from(["format", "version", "configuration", "batch", None]))
def test_headers_of_any_json_are_refused(value, key):
    first, _, rest = FILES[0, "jsonl"].partition(b"\n")
    header = json.loads(first)
    if key is None:
        header = value
    elif header[key] == value:
        return
    else:
        header[key] = value
    content = json.dumps(header).encode() + b"\n" + rest
    with pytest.raises(RefusedBatchError):
        tally_file(content, ORACLES[0], format="jsonl")


@given(value=JSON.filter(lambda value: type(value) is not int or not 0 <= value < CATEGORIES))
def test_lines_of_any_json_are_refused(value):
    with pytest.raises(RefusedBatchError):
        tally_file(with_line(json.dumps(value).encode()), ORACLES[0], format="jsonl")


def with_line(line):
    header, _, rest = FILES[0, "jsonl"].partition(b"\n")
    return header + b"\n" + line + b"\n" + rest


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 10_000_000,
        b"[" * 60,
        b'{"a":' * 20,
        b"9" * 5000,
        b"1" + b"0" * 60,
        b"\xff\xfe",
        b"",
        b"1 2",
        b"__import__('os').abort()",
    ],
    ids=lambda line: repr(line[:12]),
)
def test_hostile_lines_are_refused(line):
    with pytest.raises(RefusedBatchError):
        tally_file(with_line(line), ORACLES[0], format="jsonl")


# -- bombs --------------------------------------------------------------------------------------
ALL_EQUAL = GRR(45.0, categories=2)  # reports without randomness: only row groups bound them


def bomb(oracle, n, group=None, **options):
    """A Parquet file of n equal reports, in row groups of n, under a header that promises them."""
    fields = report_fields(oracle.protocol())
    file = io.BytesIO()
    one = clone(oracle).set_params(random_state=0).privatize(values(oracle, 1))
    write_reports(file, one, oracle, batch_id="x", format="parquet")
    schema = pq.read_schema(file)
    header = json.loads(schema.metadata[b"sklearn_ldp"])
    header["batch"]["n_samples"] = n
    schema = schema.with_metadata({b"sklearn_ldp": json.dumps(header).encode()})
    columns = [np.repeat(column, n, axis=0) for column in to_columns(one, fields)]
    file = io.BytesIO()
    with pq.ParquetWriter(file, schema, compression="zstd", **options) as writer:
        writer.write_batch(to_batch(columns, schema), row_group_size=group or n)
    return file.getvalue()


def test_pages_that_unpack_to_too_much_are_not_unpacked(monkeypatch):
    content = bomb(ALL_EQUAL, 1_000_000, use_dictionary=False, data_page_size=1 << 30)
    assert len(content) < 5000
    monkeypatch.setattr("sklearn_ldp._core.aggregation.formats.MAX_COLUMN_BYTES", 1 << 20)
    with pytest.raises(RefusedBatchError, match=r"unpacks to \d{7} bytes in a row group"):
        tally_file(content, ALL_EQUAL, format="parquet")
    # The negative control: within the limit the same file gets as far as its digest.
    monkeypatch.undo()
    with pytest.raises(RefusedBatchError, match="digest of the reports differs"):
        tally_file(content, ALL_EQUAL, format="parquet")


def count_rows(monkeypatch):
    """Count the reports that are read from now on."""
    seen = []

    def counting(columns, fields):
        seen.append(len(columns[0]))
        return from_columns(columns, fields)

    monkeypatch.setattr("sklearn_ldp._core.aggregation._report_files.from_columns", counting)
    return seen


@pytest.mark.parametrize("oracle", [*ORACLES, HadamardResponse(1.0, categories=CATEGORIES)])
def test_more_reports_than_a_file_can_hold_are_not_read(oracle, monkeypatch):
    """The negative control: as many as its bytes allow are read, and refused by their digest."""
    seen = count_rows(monkeypatch)
    with pytest.raises(RefusedBatchError, match=r"claims 200000 reports in \d+ bytes"):
        tally_file(bomb(oracle, 200_000), oracle, format="parquet")
    assert not seen
    with pytest.raises(RefusedBatchError, match="digest of the reports differs"):
        tally_file(bomb(oracle, 30), oracle, format="parquet")
    assert sum(seen) == 30


def test_reports_without_randomness_are_bounded_by_row_groups(monkeypatch):
    seen = count_rows(monkeypatch)
    n = 3 << 20  # more than a row group of write_reports
    for group, match in (
        (1 << 20, "digest of the reports differs"),
        (n, "claims 3145728 reports in"),
    ):
        content = bomb(ALL_EQUAL, n, group)
        if group == n:
            monkeypatch.setattr("sklearn_ldp._core.aggregation.formats.GROUP_BYTES", 10_000)
        with pytest.raises(RefusedBatchError, match=match):
            tally_file(content, ALL_EQUAL, format="parquet")
    assert sum(seen) == n


@pytest.mark.parametrize("is_path", [True, False])
def test_what_a_reader_would_refuse_is_not_written(is_path, tmp_path):
    """Reports that nobody randomised; the negative control are those of privatize."""
    oracle, values = GRR(1.0, categories=2, random_state=0), np.zeros(100_000, dtype=np.int64)
    path = tmp_path / "x.parquet"
    target = path if is_path else io.BytesIO()
    with pytest.raises(RefusedBatchError, match=r"not written: its 100000 reports .* privatize"):
        write_reports(target, values, oracle, format="parquet")
    assert not list(tmp_path.iterdir())
    for form, reports in (("arrow", values), ("parquet", oracle.privatize(values))):
        write_reports(path, reports, oracle, format=form)
        assert tally_file(path, oracle, format=form).n_samples == 100_000


@pytest.mark.parametrize("n", [1, 300, 100_000])
def test_the_writer_knows_the_bound_of_the_reader(n, monkeypatch):
    """Files are as large as the writer believes, wherever the sink stood before."""
    oracle, sizes = GRR(1.0, categories=40, random_state=0), []
    monkeypatch.setattr(formats, "most_reports", lambda n_bytes, *rest: sizes.append(n_bytes) or n)
    file = io.BytesIO(b"12345")
    file.seek(5)
    write_reports(file, oracle.privatize(np.arange(n) % 40), oracle, format="parquet")
    assert sizes == [len(file.getvalue()) - 5]


@pytest.mark.parametrize(
    ("epsilon", "d"),
    slow_but([(0.1, 2), (44.0, 40)], [*product([0.1, 1.0, 8.0, 20.0, 44.0], [2, 40])]),
)
@pytest.mark.parametrize("oracle", [GRR(), OUE(), OLH(), SubsetSelection(), HadamardResponse()])
def test_honest_files_are_far_from_the_bounds(oracle, epsilon, d):
    """All users have one value, which packs best; half the bytes would still be enough.

    A false alarm has a probability below exp(-20) for each of them; the seeds are fixed.
    """
    oracle = clone(oracle).set_params(epsilon=epsilon, categories=d, random_state=0)
    n, file = 100_000, io.BytesIO()
    write_reports(file, oracle.privatize(np.zeros(n, int)), oracle, format="parquet")
    assert tally_file(file.getvalue(), oracle, format="parquet").n_samples == n
    entropy = oracle.channel().report_entropy()
    formats.refuse_impossible(n, len(file.getvalue()) // 2, entropy, 1 << 20)
    # The negative control: the bound does refuse what is far below the entropy.
    if entropy > 0.01:
        with pytest.raises(ValueError, match="fit at most"):
            formats.refuse_impossible(n, int(n * entropy / 8 / 3), entropy, 1 << 20)


@pytest.mark.parametrize("place", ["overlap", "elsewhere"])
def test_columns_do_not_share_bytes(place, monkeypatch):
    """Row groups that all point at the same pages would cost their number squared."""
    chunks = [(4, 100, 10), (100, 200, 10), (99 if place == "overlap" else 200, 10**6, 10)]
    monkeypatch.setattr(formats, "column_chunks", lambda source: chunks)
    with pytest.raises(
        ValueError, match="either lies outside of the file, or overlaps another column"
    ):
        formats.refuse_large_pages(None, 1000, 1)


def test_pages_unpack_to_no_more_than_their_rows_need(monkeypatch):
    """A page of zeros behind a single row unpacks to a thousand times its size."""
    content = bomb(ALL_EQUAL, 2, use_dictionary=False)
    formats.refuse_large_pages(io.BytesIO(content), len(content), 1)
    large = bomb(ALL_EQUAL, 5000, use_dictionary=False)
    chunks = [(start, stop, 2) for start, stop, _ in column_chunks(io.BytesIO(large))]
    monkeypatch.setattr(formats, "column_chunks", lambda source: chunks)
    with pytest.raises(ValueError, match="unpacks to 20000 bytes in a row group, but at most 4128"):
        formats.refuse_large_pages(io.BytesIO(large), len(large), 1)


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}])
def test_footers_say_the_same_to_us_and_to_arrow(options):
    table = pa.table({"a": ["x", "yy"] * 500, "b": [1.5, None] * 500, "c": [[1], [2, 3]] * 500})
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=300, **options)
    metadata, expected = pq.ParquetFile(file).metadata, []
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(metadata.num_columns)):
            start = column.data_page_offset
            if column.has_dictionary_page:
                start = column.dictionary_page_offset
            expected.append((start, start + column.total_compressed_size, group.num_rows))
    assert list(column_chunks(file)) == expected
    for place in range(1, 300):  # whatever is wrong with it
        content = bytearray(file.getvalue())
        content[-8 - place] ^= 255
        with contextlib.suppress(ValueError):
            list(column_chunks(io.BytesIO(content)))


def test_damaged_statistics_do_not_end_the_process():
    """Where Arrow's accessor of a column meets them, it calls std::terminate."""
    table = pa.table({"report": pa.array(np.arange(100) % 2, pa.uint8())})
    table = table.replace_schema_metadata(
        pq.ParquetFile(io.BytesIO(FILES[0, "parquet"])).schema_arrow.metadata
    )
    file = io.BytesIO()
    pq.write_table(table, file)
    content, n_refused = file.getvalue(), 0
    length = int.from_bytes(content[-8:-4], "little")
    for place in range(len(content) - 8 - length, len(content) - 8):
        changed = bytearray(content)
        changed[place] ^= 3
        with contextlib.suppress(RefusedBatchError):
            tally_file(bytes(changed), ORACLES[0], format="parquet")
            continue
        n_refused += 1
    assert n_refused > length // 2


def test_page_headers_that_lie_are_refused():
    content = FILES[0, "parquet"]
    column = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(0)
    start = column.dictionary_page_offset
    assert content[start : start + 3] == b"\x15\x04\x15"  # type 2, then the unpacked size
    for size in (2**31 - 1, -1):
        zigzag = bytes(varint((size << 1) ^ (size >> 63)))
        forged = content[: start + 3] + zigzag + content[start + 4 :]
        with pytest.raises(RefusedBatchError):
            tally_file(forged, ORACLES[0], format="parquet")


def with_footer(n_groups, n_chunks):
    """A Parquet file of nothing but a footer, whose columns are all empty."""
    big = bytes([0xFC, *varint(n_chunks)])
    groups = b"\x19" + big + b"\x26\x08\x00" * n_chunks + b"\x16\x00\x16\x00\x00"
    schema = b"\x19\x2c\x48\x01r\x15\x02\x00\x15\x02\x25\x00\x18\x01c\x00"
    footer = b"\x15\x02" + schema + b"\x16\x00\x19" + bytes([0xFC, *varint(n_groups)])
    footer += groups * n_groups + b"\x00"
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def varint(number):
    return [*([number & 127 | 128, *varint(number >> 7)] if number > 127 else [number])]


def test_large_footers_are_not_parsed():
    """Three bytes of a footer become 700 in memory; the negative control is a small one."""
    for content, match in (
        (
            with_footer(1, 400_000),
            r"the footer has 12000\d\d bytes, but at most 11235\d\d are accepted",
        ),
        (with_footer(1, 1000), "contains no configuration"),
    ):
        with pytest.raises(RefusedBatchError, match=match):
            describe_reports(content, format="parquet")
        with pytest.raises(RefusedBatchError, match=match):
            tally_file(content, ORACLES[0], format="parquet")


def test_page_headers_say_the_same_to_us_and_to_arrow():
    """Thrift skips a size of another type, and cuts numbers of fields to 16 bits."""
    honest = b"\x15\x04\x15\x08\x15\x06\x2c\x15\x04\x15\x10\x00\x00"
    assert page_header(honest + b"data") == (4, 3, len(honest))
    skipped = honest[:-1] + b"\x16\x7e\x00"  # a field of 64 bits, with another number
    assert page_header(skipped)[:2] == (4, 3)
    for forged in (
        b"\x15\x04\x16\x08\x15\x06\x00",  # the size has 64 bits
        honest[:-1] + bytes([0x05, *varint(2 * 65538), *varint(1 << 31)]) + b"\x00",
        honest[:-1] + b"\x19\x15\x00",  # a list
        honest[:-1] + b"\x15" + b"\xff" * 10 + b"\x00",
        honest[:-1],
        honest[:-1] + b"\x18\x7f",
    ):
        with pytest.raises((IndexError, KeyError)):
            page_header(forged)


def test_compressed_streams_are_refused():
    schema = pa.ipc.open_stream(FILES[0, "arrow"]).schema
    file = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(file, schema, options=options) as writer:
        column = pa.array(np.zeros(100_000_000, dtype=np.uint8))
        writer.write_batch(pa.record_batch([column], schema=schema))
    assert file.tell() < 20_000
    with pytest.raises(RefusedBatchError, match="record batches are compressed"):
        tally_file(file.getvalue(), ORACLES[0], format="arrow")


class Payload:
    """An object whose unpickling creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_no_pickle_is_run(tmp_path):
    content = pickle.dumps(Payload(tmp_path / "owned"))
    names = ("ARROW:extension:name", "ARROW:extension:metadata")
    metadata = dict(zip(names, (b"arrow.py_extension_type", content), strict=True))
    field = pa.field("report", pa.uint8(), nullable=False, metadata=metadata)
    schema = pa.schema([field], pq.read_schema(io.BytesIO(FILES[0, "parquet"])).metadata)
    table = pa.table([pa.array(np.zeros(300, dtype=np.uint8))], schema=schema)
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_stream(arrow, schema) as writer:
        writer.write_table(table)
    for file, form in ((parquet, "parquet"), (arrow, "arrow")):
        with pytest.raises(RefusedBatchError):
            tally_file(file.getvalue(), ORACLES[0], format=form)
    objects = np.empty(1, dtype=object)
    objects[0] = Payload(tmp_path / "owned")
    np.savez(tmp_path / "state.npz", header=objects)
    with pytest.raises(CheckpointError):
        Aggregator.load(tmp_path / "state.npz", ORACLES[0])
    assert not (tmp_path / "owned").exists()
    pickle.loads(content)  # the negative control
    assert (tmp_path / "owned").exists()


# -- many, in a process of their own ------------------------------------------------------------
N_MUTATIONS = 10_000


def peak_megabytes():
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) // 1024


def fuzz(form, n, seed, folder):
    """Read n mutated inputs of one format; print the outcome."""
    rng, refused, slowest = random.Random(seed), 0, 0.0
    expected = [expectation(i) for i in range(len(ORACLES))]
    Aggregator(ORACLES[0]).add(np.arange(CATEGORIES), "x").save(folder / "state.npz")
    checkpoint = (folder / "state.npz").read_bytes()
    survives(FILES[0, "arrow"], ORACLES[0], "arrow", expected[0])
    before = peak_megabytes()
    signal.alarm(3600)
    for number in range(n):
        start, index = time.perf_counter(), number % len(ORACLES)
        if form == "npz":
            content = mutated(checkpoint, rng)
            (folder / "state.npz").write_bytes(content)
            try:
                Aggregator.load(folder / "state.npz", ORACLES[0])
                assert content == checkpoint
            except CheckpointError:
                refused += 1
        else:
            content = mutated(FILES[index, form], rng)
            refused += survives(content, ORACLES[index], form, expected[index])
        slowest = max(slowest, time.perf_counter() - start)
    growth = peak_megabytes() - before
    print(json.dumps({"n": n, "refused": refused, "slowest": slowest, "growth_mb": growth}))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's peak memory")
@pytest.mark.parametrize("form", [*FORMATS, "npz"])
def test_many_mutations_cost_neither_memory_nor_time(form, seed, tmp_path):
    """10,000 inputs per format: no crash of the process, at most 300 MB more, none over 10 s."""
    code = (
        "import pathlib, sys; folder = pathlib.Path(sys.argv[1]); "
        "sys.path[:0] = [str(folder), str(folder.parent)]; import test_hostile as m;"
        f"m.fuzz({form!r}, {N_MUTATIONS}, {seed}, pathlib.Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    result = json.loads(run.stdout)
    print(form, result)
    assert result["growth_mb"] < 300
    assert result["slowest"] < 10
    assert result["refused"] > 0.9 * result["n"]
