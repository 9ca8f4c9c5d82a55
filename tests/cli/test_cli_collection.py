"""A collection on the command line: privatize, aggregate, estimate; and Ctrl-C in between."""

import argparse
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from estimators import slow_but
from test_cli import assert_fails, ended, rows_of, said, third_party  # noqa: F401

from sklearn_ldp import GRR, OLH, OUE, FrequencyEstimate, ItemOracle, Trend, best_oracle
from sklearn_ldp.__main__ import main
from sklearn_ldp._cli import _aggregate
from sklearn_ldp._cli._arguments import adopt, declared_oracle
from sklearn_ldp._core.aggregation.checkpoints import locked
from sklearn_ldp.collection import (
    Aggregator,
    aggregate,
    client_module,
    describe_reports,
    read_reports,
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


def test_from_values_to_an_estimate(folder, capsys):
    """Every estimate within 6 standard deviations: fails by chance once in 10**8 runs."""
    method = ["--oracle", "subset-selection", "--epsilon", "2"]
    assert privatize("--output", "reports/a.parquet", *method) == 0
    assert privatize("--output", "reports/b.arrows", *method) == 0
    assert "10,000 reports of" in capsys.readouterr().err
    out = ended(capsys, add_up("reports", *method)).out
    assert "reports: 20000" in out
    assert "batches: 2 (0 repeats ignored, 0 refused)" in out
    argv = ["estimate", "state.npz", "--categories", "domain.txt", *method, "--post", "base"]
    rows = rows_of(said(capsys, *argv, "--level", "0.999999998").out)
    assert [row["category"] for row in rows] == DOMAIN
    for row, truth in zip(rows, [0.6, 0.3, 0.1, 0], strict=True):
        assert float(row["low"]) <= truth <= float(row["high"])
    assert main([*argv, "--post", "held-out-search"]) == 0  # the shards are there
    assert "selected by HeldOutSearch" in capsys.readouterr().err


def test_a_collection_by_an_oracle_of_another_package(folder, third_party, capsys):  # noqa: F811
    method = ["--oracle", third_party, "--epsilon", "2"]
    assert privatize("--output", "reports/a.parquet", *method) == 0
    assert "10,000 reports of Shy" in capsys.readouterr().err
    assert add_up("reports", "--oracle", "grr", "--epsilon", "2") == 1
    assert "oracle 'Shy' instead of 'GRR'" in capsys.readouterr().err
    assert not (folder / "state.npz").exists()  # so that the right oracle is not refused
    assert "reports: 10000" in ended(capsys, add_up("reports", *method)).out
    assert main(["estimate", "state.npz", "--categories", "domain.txt", *method]) == 0
    assert "by Shy(epsilon=2)" in capsys.readouterr().err


def test_reports_are_those_of_the_library(folder):
    assert privatize("--output", "a.parquet", "--round", "may", "--batch-id", "one") == 0
    said = describe_reports("a.parquet")
    assert (said["batch_id"], said["n_samples"]) == ("one", 10_000)
    oracle = best_oracle(1.0, DOMAIN)
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
    monkeypatch.setattr("sklearn_ldp._core.mechanisms.mechanism.chunk_users", lambda channel: 1000)
    (folder / "values.txt").write_text("red\n" * 3000)
    assert privatize("--output", "a.parquet", "--oracle", "oue", "--seed", "0") == 0
    reports = read_reports("a.parquet", OUE(1.0, categories=DOMAIN))
    assert len(reports) == 3000
    assert np.any(np.unique(reports, axis=0, return_counts=True)[1] % 3)


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
    assert Aggregator.load("state.npz", best_oracle(3.0, DOMAIN)).batches == {"piped": 10_000}
    pipe_in(sent[:-100], monkeypatch)
    assert main(["aggregate", "-", "--checkpoint", "other.npz", *options]) == 1
    assert b"Standard input is refused: the file is truncated" in capsysbinary.readouterr().err
    assert main(["privatize", "values.txt", "--output", "b.jsonl", *options, "--no-header"]) == 0
    capsysbinary.readouterr()
    pipe_in(sent[:-100], monkeypatch)
    argv = ["aggregate", "-", "b.jsonl", "--checkpoint", "other.npz", "--on-refusal", "skip"]
    assert main([*argv, *options]) == 0
    out = capsysbinary.readouterr().out
    assert b"reports: 10000\nbatches: 1 (0 repeats ignored, 1 refused)" in out
    assert b"refused 'standard input': Standard input is refused" in out


def test_refusals(folder, capsys):
    assert privatize("--output", "reports/a.parquet") == 0
    assert privatize("--output", "reports/b.parquet", "--epsilon", "2") == 0
    ended(capsys, privatize("--output", "reports/c.parquet"))
    err = ended(capsys, add_up("reports"), 1).err.splitlines()
    assert "epsilon 2.0 instead of 1.0" in err[-1]
    server = Aggregator.load("state.npz", best_oracle(1.0, DOMAIN))
    assert server.n_samples == 10_000  # what came before stays
    out = ended(capsys, add_up("reports", "--on-refusal", "skip")).out
    assert "reports: 20000" in out
    assert "refused 'reports/b.parquet'" in out
    # Another configuration than the checkpoint's.
    assert add_up("reports", "--round", "june") == 1
    assert "collection_round" in capsys.readouterr().err.splitlines()[-1]
    argv = ["estimate", "state.npz", "--categories", "domain.txt", "--epsilon", "2"]
    assert_fails(argv, capsys, "epsilon 1.0 instead of 2.0")
    assert_fails(["estimate", "state.npz"], capsys, "Pass the public domain")
    assert_fails([*argv[:4], "--seed", "1"], capsys, "--seed can be used only for a simulation")


def test_a_batch_that_comes_twice(folder, capsys):
    assert privatize("--output", "reports/a.parquet") == 0
    (folder / "reports" / "b.parquet").write_bytes((folder / "reports/a.parquet").read_bytes())
    capsys.readouterr()
    assert add_up("reports", "--on-repeat", "stop") == 1
    assert "has counted batch" in capsys.readouterr().err.splitlines()[-1]
    (folder / "state.npz").unlink()
    assert "reports: 10000\nbatches: 1 (1 repeats ignored" in ended(capsys, add_up("reports")).out


@pytest.mark.parametrize(
    ("argv", "fragment"),
    [
        (["--output", "a.csv"], ".parquet, .arrows, .arrow, .jsonl"),
        (["--output", "values.txt/none/a.parquet"], "none: cannot create this folder"),
        (["--output", "none/a.parquet", "--batch-id", ""], "1 to 1000 characters"),
        (["--output", "a.parquet", "--batch-id", ""], "1 to 1000 characters"),
    ],
)
def test_privatize_refuses(argv, fragment, folder, capsys):
    base = ["privatize", "values.txt", "--input-kind", "values", "--categories", "domain.txt"]
    assert_fails([*base, *argv], capsys, fragment)
    assert not list(folder.glob("a.*"))
    assert not (folder / "none").exists()


def test_a_collection_is_not_replaced_unless_forced(folder, capsys):
    assert privatize("--output", "reports/a.parquet") == 0
    first = describe_reports("reports/a.parquet")["batch_id"]
    capsys.readouterr()
    base = ["privatize", "values.txt", "--input-kind", "values", "--categories", "domain.txt"]
    argv = [*base, "--output", "reports/a.parquet"]
    assert_fails(
        argv, capsys, "reports/a.parquet already exists", "every user's epsilon", "--force"
    )
    assert describe_reports("reports/a.parquet")["batch_id"] == first
    assert main([*argv, "--force"]) == 0
    assert describe_reports("reports/a.parquet")["batch_id"] != first


def test_missing_folders_are_created(folder, capsys):
    (folder / "reports").rmdir()
    assert privatize("--output", "reports/may/a.parquet") == 0
    assert privatize("--output", "reports/june/a.jsonl") == 0
    argv = ["--categories", "domain.txt", "--checkpoint", "kept/here/state.npz"]
    assert main(["aggregate", "missing", *argv]) == 1
    assert not (folder / "kept").exists()
    assert main(["aggregate", "reports", *argv]) == 0
    assert (folder / "kept" / "here" / "state.npz").is_file()
    assert "reports: 20000" in capsys.readouterr().out


def test_privatize_asks_whether_the_first_line_is_a_header(folder, capsys, monkeypatch):
    content = "browser\n" + "".join(f"{value}\n" for value in VALUES if "," not in value)
    (folder / "people.txt").write_text(content)
    argv = ["--categories", "domain.txt", "--output"]
    for source in ("people.txt", "-"):
        pipe_in(content.encode(), monkeypatch)
        remedies = ("line 1", "--value-column NAME", "--no-header")
        assert_fails(["privatize", source, *argv, "a.parquet"], capsys, *remedies)
        pipe_in(content.encode(), monkeypatch)
        out = f"{len(source)}.parquet"
        assert main(["privatize", source, *argv, out, "--value-column", "browser"]) == 0
        assert describe_reports(out)["n_samples"] == 9000
        capsys.readouterr()
    (folder / "domain.txt").write_text("red\ngreen\nbrowser\n")
    for options in ([], ["--no-header"]):
        assert main(["privatize", "people.txt", *argv, "b.parquet", "--force", *options]) == 0
        assert describe_reports("b.parquet")["n_samples"] == 9001


# Refusals that name a file or a folder, besides those of other tests.
WITH_PATHS = [
    "estimate reports",
    "estimate domain.txt --categories reports",
    "estimate state.npz --categories other.txt",
    "privatize missing.csv --categories domain.txt --output a.parquet",
    "privatize domain.txt --categories other.txt --output a.parquet",
    "privatize domain.txt --categories domain.txt --output folder.jsonl",
    "aggregate missing --categories domain.txt --checkpoint s.npz",
    "aggregate missing.parquet --categories domain.txt --checkpoint s.npz",
    "aggregate values.txt --categories domain.txt --checkpoint s.npz",
    "aggregate reports --categories domain.txt --checkpoint s.npz",
    "aggregate junk.parquet --categories domain.txt --checkpoint s.npz",
    "aggregate junk.jsonl --categories domain.txt --checkpoint s.npz",
    "aggregate good.parquet --categories domain.txt --checkpoint junk.jsonl",
    "aggregate good.parquet --categories domain.txt --checkpoint reports",
    "aggregate good.parquet --categories domain.txt --checkpoint domain.txt/none/s.npz",
    "aggregate good.parquet --categories domain.txt --checkpoint state.npz --epsilon 2",
    "plan --n-samples 9 --n-categories 9 --output out.xlsx",
    "demo --output folder.png",
]


def test_refusals_show_names_and_no_classes(folder, capsys):
    """One line, which writes the name of a file as the user did."""
    (folder / "other.txt").write_text("one\ntwo\nthree\nfour\n")
    for name in ("junk.parquet", "junk.jsonl"):
        (folder / name).write_text("junk\n")
    for name in ("folder.jsonl", "folder.png"):
        (folder / name).mkdir()
    assert privatize("--output", "good.parquet") == 0
    ended(capsys, add_up("good.parquet"))
    for line in WITH_PATHS:
        assert main(line.split()) == 1, line
        err = capsys.readouterr().err
        *steps, message = err.splitlines()
        assert message.startswith("sklearn-ldp: error: ")
        assert all(step.startswith("[") for step in steps)  # progress, before anything was wrong
        assert "Path(" not in err


def test_suffixes_in_capitals(folder, capsys):
    """They are fine everywhere, or nowhere: a file that was written can be added up."""
    assert privatize("--output", "reports/a.JSONL") == 0
    assert add_up("reports") == 0
    assert "reports: 10000" in ended(capsys, add_up("reports/a.JSONL")).out


def test_privatize_refuses_values_outside_the_domain(folder, capsys):
    (folder / "domain.txt").write_text("red\ngreen\n")
    argv = ["privatize", "values.txt", "--input-kind", "values", "--categories", "domain.txt"]
    assert_fails(
        [*argv, "--output", "a.parquet"], capsys, "contains a value, which is not in the domain"
    )
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
    server = Aggregator.load("state.npz", best_oracle(1.0, DOMAIN))
    at_home = aggregate("reports", best_oracle(1.0, DOMAIN))
    np.testing.assert_array_equal(server.tally().tallies, at_home.tally().tallies)


def test_a_cluster_is_waited_for_as_long_as_is_said(folder, capsys, monkeypatch):
    distributed = pytest.importorskip("distributed")
    assert privatize("--output", "reports/a.parquet") == 0
    assert add_up("reports", "--timeout", "1") == 1
    assert "--timeout can be used only with a Dask cluster. Pass --dask" in capsys.readouterr().err
    for bad in ("0", "-1", "nan", "inf", "ever"):
        assert add_up("reports", "--dask", "x", "--timeout", bad) == 2
        assert "expected a number of seconds > 0, or 'never'" in capsys.readouterr().err
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address="127.0.0.1:0"
    ) as cluster:
        on_cluster = ["reports", "--dask", cluster.scheduler_address]
        assert add_up(*on_cluster, "--timeout", "0.2") == 1
        assert "has waited 0.2 s for" in capsys.readouterr().err
        seen = []
        monkeypatch.setattr(
            "sklearn_ldp.collection.aggregate_dask",
            lambda client, files, oracle, **options: seen.append(options) or Aggregator(oracle),
        )
        assert add_up(*on_cluster) == add_up(*on_cluster, "--timeout", "never") == 0
    assert "timeout" not in seen[0]  # the default is that of the library
    assert seen[1]["timeout"] is None


def test_ctrl_c_writes_the_checkpoint(folder, capsys, monkeypatch):
    """And the same command goes on from it: the counts are the same in the end."""
    for letter in "ab":
        assert privatize("--output", f"reports/{letter}.parquet") == 0
    commit = Aggregator._commit

    def commit_and_stop(self, *args):
        commit(self, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Aggregator, "_commit", commit_and_stop)
        err = ended(capsys, add_up("reports"), 130).err
    assert "interrupted: state.npz contains the added batches" in err
    oracle = best_oracle(1.0, DOMAIN)
    assert Aggregator.load("state.npz", oracle).n_samples == 10_000
    assert "reports: 20000" in ended(capsys, add_up("reports")).out
    counts = [
        server.tally().tallies.sum(axis=0)
        for server in (Aggregator.load("state.npz", oracle), aggregate("reports", oracle))
    ]
    np.testing.assert_array_equal(*counts)


# -- keys, caps, other writers and other signals --------------------------------------------------
def test_a_key_file_signs_and_checks(folder, capsys):
    (folder / "key").write_bytes(b"0123456789abcdef\n")
    (folder / "short").write_bytes(b"01")
    key = ["--key-file", "key"]
    assert privatize("--output", "reports/a.parquet", *key) == 0
    ended(capsys, privatize("--output", "reports/b.parquet"))
    assert add_up("reports", *key, "--on-refusal", "skip") == 0
    assert "reports: 10000" in (out := capsys.readouterr().out)
    assert "b.parquet is refused: the file is not signed" in out
    estimate = ["estimate", "state.npz", "--categories", "domain.txt"]
    assert main([*estimate, *key]) == 0
    assert "is signed, but no key was passed" in said(capsys, *estimate, code=1).err
    assert add_up("reports", "--key-file", "short") == 1
    assert "--key-file short: a key needs at least 16 bytes, got 2" in capsys.readouterr().err


def test_limits_are_options(folder, capsys):
    for name in ("r/1", "r/2", "s/1"):
        output = f"reports/{name.replace('/', '-')}.parquet"
        assert privatize("--output", output, "--batch-id", name) == 0
    capsys.readouterr()
    assert add_up("reports", "--max-source-reports", "10000", "--on-refusal", "skip") == 0
    assert "reports: 20000" in (out := capsys.readouterr().out)
    assert "the source 'r' would have 20000 reports, but at most 10000 are accepted" in out
    for option, number, what in [
        ("--max-batch-reports", "9999", "at most 9999 are accepted"),
        ("--min-batch-reports", "10001", "at least 10001 are expected"),
        ("--max-source-batches", "1", "would have 2 batches"),
    ]:
        (folder / "state.npz").unlink()
        assert add_up("reports", option, number) == (1)
        assert what in capsys.readouterr().err
        add_up("reports", option, number, "--on-refusal", "skip")
        capsys.readouterr()


def test_a_checkpoint_in_use(folder, capsys):
    assert privatize("--output", "reports/a.parquet") == 0
    with locked(folder / "state.npz", 0):
        assert add_up("reports", "--lock-seconds", "0") == 1
    err = capsys.readouterr().err
    assert f"waiting for process {os.getpid()} on host" in err
    assert "is in use by process" in err.splitlines()[-1]
    assert add_up("reports") == 0


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="has the signals of POSIX")
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_other_signals_write_the_checkpoint_too(folder, name, code, capsys, monkeypatch, request):
    """The first signal stops the work, and a second one does not stop the saving."""
    number = getattr(signal, name)
    before = signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP, and so would we
    request.addfinalizer(lambda: signal.signal(number, before))
    for letter in "ab":
        assert privatize("--output", f"reports/{letter}.parquet") == 0
    commit, write = Aggregator._commit, Aggregator._write

    def commit_and_signal(self, *args):
        commit(self, *args)
        os.kill(os.getpid(), number)

    def signal_and_write(self, path):
        os.kill(os.getpid(), number)
        write(self, path)

    monkeypatch.setattr(Aggregator, "_commit", commit_and_signal)
    monkeypatch.setattr(Aggregator, "_write", signal_and_write)
    assert add_up("reports") == code
    assert "interrupted: state.npz contains the added batches" in capsys.readouterr().err
    monkeypatch.undo()
    os.chdir(folder)
    assert Aggregator.load("state.npz", best_oracle(1.0, DOMAIN)).n_samples == 10_000
    assert signal.getsignal(number) is signal.SIG_DFL
    assert "reports: 20000" in ended(capsys, add_up("reports")).out


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="has the signals of POSIX")
def test_a_signal_that_is_ignored_stays_ignored(folder, monkeypatch):
    assert privatize("--output", "reports/a.parquet") == 0
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with _aggregate.ending_like_ctrl_c():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


# -- client ---------------------------------------------------------------------------------------
def client(tmp_path, *argv):
    (tmp_path / "domain.txt").write_text("chrome\nedge\n")
    return main(["client", *map(str, argv)])


def test_a_client_is_written(tmp_path, capsys):
    domain, path = tmp_path / "domain.txt", tmp_path / "new" / "client.mjs"
    given = ["--oracle", "grr", "--categories", domain, "--round", "may", "--output", path]
    assert client(tmp_path, *given) == 0
    oracle = GRR(1.0, categories=["chrome", "edge"])
    assert path.read_text() == client_module(oracle, collection_round="may")
    assert "privatize" in path.with_suffix(".d.mts").read_text()
    assert client(tmp_path, "--open", "--epsilon-forever", 2, "--output", path) == 0
    assert "export function repeated" in path.read_text()
    said = "each report spends 1, or repeated(storage, question) 2 for each value"
    assert said in capsys.readouterr().err


def test_reports_of_clients_that_know_no_list_are_added_up(tmp_path, capsys):
    users = OLH(8.0, categories="open", hash_family="mixing")
    reports = users.privatize(["edge"] * 700 + ["opera"] * 300)
    configuration = users.protocol("may").configuration
    lines = [{"configuration": configuration, "report": one.tolist()} for one in reports]
    (tmp_path / "posted.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (tmp_path / "domain.txt").write_text("edge\nopera\nnobody\n")
    shared = ["--epsilon", 8, "--round", "may", "--categories", tmp_path / "domain.txt"]
    state = tmp_path / "state.npz"
    for given, what in (
        (["aggregate", tmp_path / "posted.jsonl", *shared, "--checkpoint", state], "oracle"),
        (["estimate", state, *shared, "--post", "base"], "'mixing' instead of 'linear'"),
    ):
        capsys.readouterr()
        assert_fails([*given, "--oracle", "olh"], capsys, what)
        assert main([*map(str, given), "--oracle", "olh-mixing"]) == 0
    rows = rows_of(capsys.readouterr().out)
    table = {row["category"]: float(row["frequency"]) for row in rows}
    # Standard deviations are at most .03: five of them, or less than one error in a million.
    assert table == pytest.approx({"edge": 0.7, "opera": 0.3, "nobody": 0.0}, abs=0.15)


OF_A_LIST = "--oracle oue --categories domain.txt"


@pytest.mark.parametrize("given", slow_but([OF_A_LIST], [OF_A_LIST, "", "--open"]))
def test_a_client_tests_itself(given, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert client(tmp_path, *given.split(), "--self-test") == 0
    program, script = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert program == "node"
    folder = Path(script).parent
    assert sorted(os.listdir(folder)) == ["client.mjs", "self_test.mjs", "vectors.json"]
    if shutil.which(program):
        done = subprocess.run([program, script], capture_output=True, text=True, timeout=100)
        assert done.stdout == "1000 vectors agree\n"
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("argv", "fragment"),
    [
        (["--self-test", "--oracle", "projective-geometry-response"], "use GRR, SUE"),
        (["--self-test", "--open", "--oracle", "grr"], "--open works only with --oracle olh"),
        (["--open"], "--output"),
        (
            ["--output", "client.mjs"],
            "--categories FILE. If the possible answers cannot be listed, pass --open",
        ),
        (["--open", "--output", "client.js"], "must end in .mjs"),
        (["--open", "--output", "x.mjs", "--max-epsilon", "2"], "epsilon_forever"),
    ],
)
def test_a_client_that_cannot_be_is_refused(argv, fragment, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_fails(["client", *argv], capsys, fragment)
    assert not list(tmp_path.iterdir())


def told(folder, oracle=None):
    """What `estimate` knows before it asks a file for the rest."""
    (folder / "items.txt").write_text("a\nb\nc\n")
    unknown = dict.fromkeys(("epsilon", "round", "domains", "strings"))
    return argparse.Namespace(categories=folder / "items.txt", oracle=oracle, **unknown)


def test_sets_of_items_are_read_by_what_their_clients_say(tmp_path):
    """An option of the user goes before it, and junk is refused like any other parameter."""
    claimed = {"oracle": "ItemOracle", "epsilon": 2.0, "max_items": 2}
    for option, expected in ((None, ItemOracle), ("grr", GRR)):
        arguments = told(tmp_path, option)
        adopt(arguments, claimed)
        assert type(declared_oracle(arguments)) is expected
    for junk in ("many", [2], None):
        arguments = told(tmp_path)
        adopt(arguments, claimed | {"max_items": junk})
        assert type(declared_oracle(arguments)) is not ItemOracle  # so the reports do not fit
    for junk in (10**9, -1):
        arguments = told(tmp_path)
        adopt(arguments, claimed | {"max_items": junk})
        with pytest.raises(ValueError, match="max_items"):
            declared_oracle(arguments).protocol()


def test_weeks_are_rows_of_one_estimate(folder, capsys):
    """Each checkpoint has its own round; the table is that of `from_rows`, after Trend."""
    oracle, rows = OLH(2.0, categories=DOMAIN), {}
    for i, n in enumerate([1000, 4000, 9000]):  # far apart, as reports have no seed
        server = Aggregator(oracle, collection_round=f"w{i}")
        values = ["red"] * n + ["none"] * 2000
        server.add(oracle.protocol(f"w{i}").privatize(values), batch_id="one").save(f"w{i}.npz")
        rows[f"w{i}"] = server.estimate_
    argv = ["estimate", "w0.npz", "w1.npz", "w2.npz", "--categories", "domain.txt"]
    assert main([*argv, "--post", "trend", "--output", "weeks.csv"]) == 0
    found = rows_of((folder / "weeks.csv").read_text())
    expected = Trend().fit_transform(FrequencyEstimate.from_rows(rows))
    assert [row["row"] for row in found] == np.repeat(["w0", "w1", "w2"], 4).tolist()
    numbers = [float(row["frequency"]) for row in found]
    assert numbers == pytest.approx(expected.values.ravel(), abs=1e-9)
    options = ["--change", "--sort", "frequency", "--output", "change.csv", "--html", "c.html"]
    assert main([*argv, *options]) == 0
    change = rows["w2"] - rows["w0"]
    expected, found = change.to_frame(), rows_of((folder / "change.csv").read_text())
    assert found[0]["category"] == "red"
    for row in found:
        for name in ("difference", "low", "high"):
            assert float(row[name]) == pytest.approx(expected.loc[row["category"], name], abs=1e-9)
        assert row["interval"] == "95 % simultaneous"
    assert "frequent in w2 than in w0: &#x27;red&#x27;" in (folder / "c.html").read_text()
    (folder / "copy.npz").write_bytes((folder / "w0.npz").read_bytes())
    Aggregator.load("w0.npz", oracle, collection_round="w0").add(
        oracle.protocol("w0").privatize(["red"] * 100), batch_id="two"
    ).save("grown.npz")
    for name in ("w10", "w9"):  # of one round and one name, but of other reports
        server = Aggregator(oracle)
        server.add(oracle.protocol().privatize(["red"] * 50), batch_id="one").save(f"{name}.npz")
    argv = ["estimate", "w10.npz", "w9.npz", "--categories", "domain.txt", "--change"]
    assert main(argv) == 0
    assert "the order by number is w9, w10" in capsys.readouterr().err
    assert main([*argv[:-1], "--post", "trend"]) == 0
    assert capsys.readouterr().err.count("the order by number is") == 1
    for others, match in (
        (["w0.npz", "w0.npz"], "contain the same batches"),
        (["w0.npz", "grown.npz"], "contain the same batches"),
        (["w0.npz", "copy.npz"], "contain the same batches"),
        (["w0.npz", "w1.npz", "--change"], "compares the raw estimates"),
        (["w0.npz"], "Name the checkpoint of each"),
        (["w0.npz", "domain.txt"], "domain.txt is not a checkpoint"),
        (["w0.npz", "none.npz"], "none.npz: No such file"),
    ):
        argv = ["estimate", *others, "--categories", "domain.txt", "--post", "trend"]
        assert_fails(argv, capsys, match)
    argv = ["estimate", "w0.npz", "w1.npz", "--domains", "domain.txt", "--change"]
    assert_fails(argv, capsys, "--domains has several columns. In Python select a column")
    argv = ["aggregate", "w0.npz", "--categories", "domain.txt", "--checkpoint", "x.npz"]
    assert_fails(argv, capsys, "w0.npz is a checkpoint")


@pytest.mark.parametrize(("options", "expected"), [([], "demo"), (["--round", "may"], "may")])
def test_a_demo_has_a_round_and_a_question(options, expected, monkeypatch, folder):
    server = pytest.importorskip("sklearn_ldp._serve.server")
    calls = []
    monkeypatch.setattr(server, "serve", lambda *args, **_: calls.append(args))
    assert main(["serve", "--demo", "--folder", str(folder), *options]) == 0
    _, _, collection_round, question, _ = calls[0]
    assert collection_round == question.name == expected
    assert question.text == "Which browser do you use most?"
