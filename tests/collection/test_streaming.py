"""Standard input and iterators pass through in pieces: memory stays flat, all orders are likely."""

import io
import os
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from sklearn_ldp import GRR, OLH, OUE, SubsetSelection
from sklearn_ldp._core.aggregation._report_files import Shuffle
from sklearn_ldp.collection import read_reports, tally_file, write_reports

pytest.importorskip("pyarrow")

FORMATS = ["parquet", "arrow", "jsonl"]
ORACLE = GRR(1.0, categories=5, random_state=0)


# -- standard input -------------------------------------------------------------------------------
class OneWay(io.RawIOBase):
    """A pipe: it cannot seek, and gives few bytes at a time."""

    def __init__(self, content):
        self.content, self.largest = io.BytesIO(content), 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.largest = max(self.largest, len(buffer))
        return self.content.readinto(memoryview(buffer)[:1000])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("oracle", [ORACLE, OLH(1.0, categories=9, random_state=0)])
def test_files_that_cannot_seek(form, oracle):
    reports, file = oracle.privatize(np.arange(3000) % 5), io.BytesIO()
    write_reports(file, reports, oracle, batch_id="x", format=form)
    tally = tally_file(io.BufferedReader(OneWay(file.getvalue())), oracle, format=form)
    expected = tally_file(file.getvalue(), oracle, format=form)
    np.testing.assert_array_equal(tally.tallies, expected.tallies)
    # The caller's own file stays open.
    file.seek(0)
    assert tally_file(file, oracle, format=form).n_samples == 3000
    assert not file.closed


# -- writing --------------------------------------------------------------------------------------
ORACLES = [
    GRR(1.0, categories=300),
    OUE(1.0, categories=13),
    OLH(1.0, categories=1000),
    OLH(1.0, categories=30, hash_family="mixing"),
    SubsetSelection(1.0, categories=12),
]


@pytest.mark.parametrize(
    ("oracle", "form"), [*product(ORACLES[:1], FORMATS), *product(ORACLES[1:], FORMATS[1:2])]
)
@pytest.mark.parametrize("random_state", [None, 0])
def test_streams_are_written_whole_through_a_temporary_file(
    oracle, form, random_state, monkeypatch
):
    monkeypatch.setattr("sklearn_ldp._core.aggregation._report_files.HELD_BYTES", 6000)
    oracle = oracle.set_params(random_state=0)
    reports = oracle.privatize(np.arange(1500) % 12)
    pieces, file = (reports[i : i + 100] for i in range(0, 1500, 100)), io.BytesIO()
    write_reports(file, pieces, oracle, format=form, random_state=random_state)
    again = read_reports(file.getvalue(), oracle, format=form)
    assert sorted(map(str, again.tolist())) == sorted(map(str, reports.tolist()))
    assert again.dtype == read_reports(file.getvalue(), oracle, format=form).dtype
    if random_state is not None:  # a seed repeats itself
        pieces, twin = (reports[i : i + 100] for i in range(0, 1500, 100)), io.BytesIO()
        write_reports(twin, pieces, oracle, format=form, random_state=0)
        np.testing.assert_array_equal(read_reports(twin.getvalue(), oracle, format=form), again)


def orders(n, repeats, spills, seed):
    """How often each of the n! orders comes out of a shuffle of n rows."""
    rng, found = np.random.default_rng(seed), {}
    for _ in range(repeats):
        with Shuffle(rng) as shuffle:
            for i in range(n):
                shuffle.add([np.array([i], dtype=np.uint8)], may_spill=spills)
            order = tuple(np.concatenate([piece[0] for piece in shuffle.finish()]).tolist())
        found[order] = found.get(order, 0) + 1
    return list(found.values())


@pytest.mark.parametrize("n_buckets", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_all_orders_are_as_likely(n_buckets, monkeypatch, seed):
    """A chi-square test of the 24 orders of 4 rows; a false alarm has a probability of 1e-6."""
    monkeypatch.setattr("sklearn_ldp._core.aggregation._report_files.HELD_BYTES", 1)
    monkeypatch.setattr("sklearn_ldp._core.aggregation._report_files._N_BUCKETS", n_buckets)
    counts = orders(4, 1200, True, seed)
    assert len(counts) == 24
    assert chisquare(counts).pvalue > 1e-6
    # The negative control: buckets in the order of arrival, as shuffling within pieces would be.
    in_turn = lambda self, n: np.full(n, sum(map(len, self._places)) % n_buckets)  # noqa: E731
    monkeypatch.setattr(Shuffle, "_buckets_of", in_turn)
    monkeypatch.setattr(Shuffle, "_permutation", lambda self, n: np.arange(n))
    counts = orders(4, 240, True, seed)
    assert chisquare(counts + [0] * (24 - len(counts))).pvalue < 1e-6


# -- memory: what a process holds more, after it has done the same on a small scale --------------
PEAK = """
import re, sys
import numpy as np
from sklearn_ldp import GRR
from sklearn_ldp.__main__ import main
from sklearn_ldp.collection import aggregate, write_reports
def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
oracle = GRR(1.0, categories=5)
piece = np.random.default_rng(0).integers(5, size=1_000_000, dtype=np.uint8)
"""


def growth(folder, small, large, *argv, stdin=None):
    """What a process prints, and by how many kB its peak has grown."""
    code = f"{PEAK}{small}\nbefore = peak()\n{large}\nprint(peak() - before)"
    command, pipe = [sys.executable, "-c", code, *argv], subprocess.PIPE
    run = subprocess.run(command, stdin=stdin, stdout=pipe, stderr=pipe, text=True, cwd=folder)
    assert run.returncode == 0, run.stderr
    return run.stdout, int(run.stdout.splitlines()[-1])


def slow_on_linux(test):
    has_peak = os.path.exists("/proc/self/status")
    return pytest.mark.slow(pytest.mark.skipif(not has_peak, reason="needs Linux's peak")(test))


@slow_on_linux
@pytest.mark.parametrize("form", FORMATS)
def test_memory_does_not_grow_with_standard_input(form, tmp_path):
    """At most 64 MB more for 100 million reports.

    Parquet needs to seek, so it is copied to a temporary file of which 64 MB are in memory.
    """
    (tmp_path / "domain.txt").write_text("\n".join(map(str, range(5))))
    n = {"arrow": 100, "parquet": 60, "jsonl": 2}[form]
    reports = np.random.default_rng(0).integers(5, size=1_000_000, dtype=np.uint8)
    write_reports(tmp_path / "small.arrows", reports, ORACLE)
    path = tmp_path / f"big.{form}"
    write_reports(path, (reports for _ in range(n)), ORACLE, format=form)
    small = 'main(["aggregate", "small.arrows", "--checkpoint", "small.npz", *sys.argv[1:]])'
    large = 'assert main(["aggregate", "-", "--checkpoint", "state.npz", *sys.argv[1:]]) == 0'
    options = ["--categories", "domain.txt", "--oracle", "grr", "--format", form]
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as sender:
        said, grown = growth(tmp_path, small, large, *options, stdin=sender.stdout)
    assert f"reports: {n * 1_000_000}" in said
    assert grown < 64_000


@slow_on_linux
def test_memory_does_not_grow_with_what_is_written(tmp_path):
    """80 million reports: at most 64 MB are held at a time, twice while they are sorted."""
    small = 'write_reports("small.arrows", iter([piece]), oracle)'
    large = 'write_reports("big.arrows", (piece for _ in range(80)), oracle)'
    assert growth(tmp_path, small, large)[1] < 100_000
    assert tally_file(tmp_path / "big.arrows", GRR(1.0, categories=5)).n_samples == 80_000_000


@slow_on_linux
def test_memory_does_not_grow_with_a_mapped_file(tmp_path):
    """80 MB of reports in less than 40 MB (a sparse file: it takes no room on disk either)."""
    with (tmp_path / "reports.bin").open("wb") as file:
        file.truncate(80_000_000)
    large = 'assert aggregate(np.memmap("reports.bin"), oracle).n_samples == 80_000_000'
    assert growth(tmp_path, "aggregate(piece, oracle)", large)[1] < 40_000
