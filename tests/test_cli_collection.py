"""A collection on the command line: privatize, aggregate, estimate; and Ctrl-C in between."""

import io
import os
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from test_cli import assert_fails, rows_of, third_party  # noqa: F401

from sklearn_ldp import GRR, OLH
from sklearn_ldp.__main__ import main
from sklearn_ldp.collection import (
    Aggregator,
    aggregate,
    describe_reports,
    read_reports,
    write_reports,
)

pytest.importorskip("pyarrow")

DOMAIN = ["red", "green", "blue, dark", "none"]
VALUES = ["red"] * 6000 + ["green"] * 3000 + ["blue, dark"] * 1000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a domain and values, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("".join(f"{name}\n" for name in DOMAIN))
    (tmp_path / "values.txt").write_text("".join(f"{value}\n" for value in VALUES))
    (tmp_path / "reports").mkdir()
    return tmp_path


def privatize(*argv, values="values.txt"):
    base = ["privatize", values, "--input-kind", "values", "--categories", "domain.txt"]
    return main([*base, *map(str, argv)])


def add_up(*argv):
    options = ["--categories", "domain.txt", "--checkpoint", "state.npz"]
    return main(["aggregate", *map(str, argv), *options])


@pytest.mark.parametrize("oracle", ["grr", "oue", "subset-selection"])
def test_from_values_to_an_estimate(oracle, folder, capsys):
    """Every estimate within 6 standard deviations: fails by chance once in 10**8 runs."""
    method = ["--oracle", oracle, "--epsilon", "2"]
    assert privatize("--output", "reports/a.parquet", *method) == 0
    assert privatize("--output", "reports/b.arrows", *method) == 0
    assert "10,000 reports of" in capsys.readouterr().err
    assert add_up("reports", *method) == 0
    out = capsys.readouterr().out
    assert "reports: 20000" in out
    assert "batches: 2 (0 repeats ignored, 0 refused)" in out
    argv = ["estimate", "state.npz", "--categories", "domain.txt", *method, "--post", "base"]
    assert main([*argv, "--level", "0.999999998"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert [row["value"] for row in rows] == DOMAIN
    for row, truth in zip(rows, [0.6, 0.3, 0.1, 0], strict=True):
        assert float(row["low"]) < truth < float(row["high"])
    assert main([*argv, "--post", "held-out-search"]) == 0  # the shards are there
    assert "picked by HeldOutSearch" in capsys.readouterr().err


def test_a_collection_by_an_oracle_of_another_package(folder, third_party, capsys):  # noqa: F811
    method = ["--oracle", third_party, "--epsilon", "2"]
    assert privatize("--output", "reports/a.parquet", *method) == 0
    assert "10,000 reports of Shy" in capsys.readouterr().err
    assert add_up("reports", "--oracle", "grr", "--epsilon", "2") == 1
    assert "oracle 'Shy' instead of 'GRR'" in capsys.readouterr().err
    (folder / "state.npz").unlink()
    assert add_up("reports", *method) == 0
    assert "reports: 10000" in capsys.readouterr().out
    assert main(["estimate", "state.npz", "--categories", "domain.txt", *method]) == 0
    assert "by Shy(epsilon=2)" in capsys.readouterr().err


def test_reports_are_those_of_the_library(folder):
    assert privatize("--output", "a.parquet", "--round", "may", "--batch-id", "one") == 0
    said = describe_reports("a.parquet")
    assert (said["batch_id"], said["n_samples"]) == ("one", 10_000)
    oracle = OLH(1.0, categories=DOMAIN)
    reports = read_reports("a.parquet", oracle, collection_round="may")
    assert privatize("--output", "b.parquet", "--round", "may") == 0
    other = read_reports("b.parquet", oracle, collection_round="may")
    assert np.any(reports != other)  # secure randomness
    assert describe_reports("b.parquet")["batch_id"] != "one"


def test_a_seed_repeats_itself_and_is_warned_of(folder, capsys):
    for name in ("a", "b"):
        assert privatize("--output", f"{name}.jsonl", "--seed", "3", "--batch-id", "x") == 0
        assert "warning: with --seed the reports are predictable" in capsys.readouterr().err
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()


def test_pieces_of_a_seeded_run_have_coins_of_their_own(folder, monkeypatch):
    """Unary reports of one value, in pieces: no two pieces are alike."""
    from sklearn_ldp.protocols import _clients

    monkeypatch.setattr(_clients, "chunk_users", lambda channel: 1000)
    (folder / "values.txt").write_text("red\n" * 3000)
    assert privatize("--output", "a.parquet", "--oracle", "oue", "--seed", "0") == 0
    from sklearn_ldp import OUE

    reports = read_reports("a.parquet", OUE(1.0, categories=DOMAIN))
    ones = reports.sum(axis=0)
    assert len(reports) == 3000
    assert len(set((ones % 3).tolist())) > 1 or len(np.unique(reports, axis=0)) > 8


def pipe_in(content, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_values_on_standard_input_and_reports_through_a_pipe(folder, capsysbinary, monkeypatch):
    options = ["--categories", "domain.txt", "--epsilon", "3"]
    content = "value\n" + "".join(f'"{value}"\n' for value in VALUES)
    pipe_in(content.encode(), monkeypatch)
    assert main(["privatize", "-", "--output", "-", "--batch-id", "piped", *options]) == 0
    sent = capsysbinary.readouterr().out
    for _ in range(2):  # the second time it is the same batch, and changes nothing
        pipe_in(sent, monkeypatch)
        assert main(["aggregate", "-", "--checkpoint", "state.npz", *options]) == 0
        assert b"reports: 10000\nbatches: 1 " in capsysbinary.readouterr().out
    server = Aggregator.load("state.npz", OLH(3.0, categories=DOMAIN))
    assert server.batches == {"piped": 10_000}
    pipe_in(sent[:-100], monkeypatch)
    assert main(["aggregate", "-", "--checkpoint", "other.npz", *options]) == 1
    assert b"The file is refused" in capsysbinary.readouterr().err


def test_running_again_adds_what_is_new(folder, capsys):
    assert privatize("--output", "reports/a.parquet") == 0
    assert add_up("reports") == 0
    before = (folder / "state.npz").read_bytes()
    assert add_up("reports") == 0
    assert (folder / "state.npz").read_bytes() == before
    assert privatize("--output", "reports/b.parquet") == 0
    capsys.readouterr()
    assert add_up("reports") == 0
    assert "reports: 20000\nbatches: 2 " in capsys.readouterr().out


def test_refusals(folder, capsys):
    assert privatize("--output", "reports/a.parquet") == 0
    assert privatize("--output", "reports/b.parquet", "--epsilon", "2") == 0
    assert privatize("--output", "reports/c.parquet") == 0
    capsys.readouterr()
    assert add_up("reports") == 1
    err = capsys.readouterr().err.splitlines()
    assert "epsilon 2.0 instead of 1.0" in err[-1]
    server = Aggregator.load("state.npz", OLH(1.0, categories=DOMAIN))
    assert server.n_samples == 10_000  # what came before stays
    assert add_up("reports", "--on-refusal", "skip") == 0
    out = capsys.readouterr().out
    assert "reports: 20000" in out
    assert "refused 'reports/b.parquet'" in out
    # Another configuration than the checkpoint's.
    assert add_up("reports", "--round", "june") == 1
    assert "collection_round" in capsys.readouterr().err.splitlines()[-1]
    argv = ["estimate", "state.npz", "--categories", "domain.txt", "--epsilon", "2"]
    assert_fails(argv, capsys, "epsilon 1.0 instead of 2.0")
    assert_fails(["estimate", "state.npz"], capsys, "give the public domain")
    assert_fails([*argv[:4], "--seed", "1"], capsys, "--seed is for simulations")


def test_a_batch_that_comes_twice(folder, capsys):
    assert privatize("--output", "reports/a.parquet") == 0
    (folder / "reports" / "b.parquet").write_bytes((folder / "reports/a.parquet").read_bytes())
    capsys.readouterr()
    assert add_up("reports", "--on-repeat", "stop") == 1
    assert "has seen batch" in capsys.readouterr().err.splitlines()[-1]
    (folder / "state.npz").unlink()
    assert add_up("reports") == 0
    assert "reports: 10000\nbatches: 1 (1 repeats ignored" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "fragment"),
    [
        (["--output", "a.csv"], ".parquet, .arrows, .jsonl"),
        (["--output", "none/a.parquet"], "cannot write here"),
        (["--output", "a.parquet", "--batch-id", ""], "1 to 1000 characters"),
    ],
)
def test_privatize_refuses(argv, fragment, folder, capsys):
    base = ["privatize", "values.txt", "--input-kind", "values", "--categories", "domain.txt"]
    assert_fails([*base, *argv], capsys, fragment)
    assert not list(folder.glob("a.*"))


def test_privatize_refuses_values_outside_the_domain(folder, capsys):
    (folder / "domain.txt").write_text("red\ngreen\n")
    argv = ["privatize", "values.txt", "--input-kind", "values", "--categories", "domain.txt"]
    assert_fails([*argv, "--output", "a.parquet"], capsys, "'blue, dark' (1,000 users)")
    assert not (folder / "a.parquet").exists()


def test_a_cluster(folder, capsys):
    distributed = pytest.importorskip("distributed")
    assert privatize("--output", "reports/a.parquet") == 0
    assert privatize("--output", "reports/b.parquet") == 0
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as cluster:
        capsys.readouterr()
        assert add_up("reports", "--dask", cluster.scheduler_address) == 0
    out, err = capsys.readouterr()
    assert "reports: 20000" in out
    assert "2 of 2 files" in err
    server = Aggregator.load("state.npz", OLH(1.0, categories=DOMAIN))
    at_home = aggregate("reports", OLH(1.0, categories=DOMAIN))
    np.testing.assert_array_equal(server.tally().tallies, at_home.tally().tallies)


# -- Ctrl-C -------------------------------------------------------------------------------------
def start(argv):
    """Start a process that a SIGINT interrupts, even where the tests run in the background."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.skipif(os.name != "posix", reason="sends the signal as POSIX does")
def test_interrupted_and_resumed(folder):
    """A real SIGINT in the middle: exit code 130, a whole state, and the same counts at the end."""
    oracle = GRR(1.0, categories=DOMAIN)
    rng = np.random.default_rng(0)
    expected = np.zeros(4, dtype=np.int64)
    (folder / "more").mkdir()
    for i in range(20):
        reports = rng.integers(0, 4, 1000)
        expected += np.bincount(reports, minlength=4)
        path = folder / ("more" if i % 2 else "reports") / f"{i:02}.parquet"
        write_reports(path, reports, oracle, random_state=0)
    argv = [sys.executable, "-m", "sklearn_ldp", "aggregate", "--oracle", "grr"]
    argv += ["--categories", "domain.txt", "--checkpoint", "state.npz"]
    # Between the folders it waits for a batch that does not come.
    process = start([*argv, "reports", "-", "more"])
    lines = [process.stderr.readline() for _ in range(9)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert lines[-1].startswith("[10/21]")
    assert "interrupted: state.npz holds what was added" in err
    assert "Traceback" not in err
    part = Aggregator.load("state.npz", oracle)
    assert part.n_samples == 10_000
    assert main([*argv[3:], "reports", "more"]) == 0
    whole = Aggregator.load("state.npz", oracle)
    assert whole.n_samples == 20_000
    np.testing.assert_array_equal(whole.oracle_.support_counts_, expected)


@pytest.mark.skipif(os.name != "posix", reason="sends the signal as POSIX does")
def test_a_study_interrupted_and_resumed(folder):
    argv = [sys.executable, "-m", "sklearn_ldp", "study", "--distribution", "zipf", "--jobs", "1"]
    argv += ["--post", "norm-sub", "base", "--epsilon", *(str(e / 4) for e in range(1, 11))]
    argv += ["--n-categories", "2000", "--oracle", "oue", "sue"]
    argv += ["--checkpoint", "study.jsonl", "--output", "errors.csv"]
    process = start(argv)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: the same command goes on from study.jsonl" in err
    kept = (folder / "study.jsonl").read_bytes()
    n_kept = kept.count(b"\n") - 1
    assert n_kept > 0
    assert not (folder / "errors.csv").exists()
    assert main(argv[3:]) == 0
    assert (folder / "study.jsonl").read_bytes().startswith(kept)
    rows = rows_of((folder / "errors.csv").read_text())
    assert len(rows) == 10 * 2 * 2
    assert n_kept < len(rows)


# -- real data ----------------------------------------------------------------------------------
def test_a_collection_of_a_real_histogram(shared_data, folder, capsys):
    """Intervals of 95 % cover most of the truth, city names with commas and all."""
    from sklearn_ldp.datasets import read_histogram

    path = shared_data("US1940_CITY_1PCT_TOP915.csv.gz")
    truth = read_histogram(path, dtype=str)
    (folder / "domain.txt").write_text("".join(f"{name}\n" for name in truth.categories))
    argv = ["privatize", str(path), "--categories", "domain.txt", "--output", "reports/a.parquet"]
    assert main(argv) == 0
    assert add_up("reports") == 0
    capsys.readouterr()
    assert main(["estimate", "state.npz", "--categories", "domain.txt"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert [row["value"] for row in rows] == truth.categories.tolist()
    low, high = (np.array([float(row[name]) for row in rows]) for name in ("low", "high"))
    assert 0.9 < np.mean((low <= truth.frequencies) & (truth.frequencies <= high)) < 0.99
