"""The command line, from outside: arguments in; exit code, standard streams and files out."""

import argparse
import csv
import gzip
import io
import multiprocessing
import os
import signal
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sklearn_ldp
from sklearn_ldp import (
    OLH,
    Domain,
    EmpiricalBayes,
    FrequencyEstimate,
    HadamardResponse,
    postprocessing,
)
from sklearn_ldp.__main__ import main
from sklearn_ldp._cli import BROKEN_PIPE, FAILED, _demo, _estimate, _files
from sklearn_ldp._core.common.progress import Progress
from sklearn_ldp.collection import write_reports
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.model_selection import ErrorStudy, simulate_errors
from sklearn_ldp.oracles import BaseOracle
from sklearn_ldp.queries import groups, ranges, top_k
from sklearn_ldp.utils.discovery import all_estimators


class Terminal(io.StringIO):
    def isatty(self):
        return True


AS_A_MODULE = "import runpy; runpy.run_module('sklearn_ldp', run_name='__main__', alter_sys=True)"
COLUMNS = ["category", "estimate", "low", "high", "frequency", "count", "interval"]
COUNTS = {"red": 6000, "green": 3000, "blue, dark": 1000, "none": 0}


@pytest.fixture
def histogram(tmp_path):
    path = tmp_path / "histogram.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("value", "count"), *COUNTS.items()])
    return path


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def ended(capsys, code, expected=0):
    """What was said by something that has ended with a code."""
    assert code == expected
    return capsys.readouterr()


def said(capsys, *argv, code=0):
    """What a command says."""
    return ended(capsys, main(list(map(str, argv))), code)


def assert_fails(argv, capsys, *fragments, code=1):
    """The exit code, nothing on stdout, one line on stderr that says what it should."""
    out, err = said(capsys, *argv, code=code)
    assert out == ""
    assert err.startswith("sklearn-ldp: error: ")
    assert err.count("\n") == 1
    assert "Path(" not in err
    for fragment in fragments:
        assert fragment in err


# -- the whole ----------------------------------------------------------------------------------
def test_help_imports_no_estimator():
    """Of any command, in a process of its own: this one has imported everything.

    The negative control is an import, which is found.
    """
    commands = ["demo", "plan", "privatize", "serve", "client", "aggregate", "estimate"]
    code = (
        "import sys; from contextlib import suppress; from sklearn_ldp.__main__ import main\n"
        "def found(): return {'sklearn', 'scipy', 'pandas', 'pyarrow', 'tqdm'} & {*sys.modules}\n"
        f"for argv in [['--help'], *([one, '--help'] for one in {commands})]:\n"
        "    with suppress(SystemExit):\n        main(argv)\n"
        "    assert not found(), (argv, found())\n"
        "import scipy\nassert found() == {'scipy'}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for text in (*commands, "exit codes: 0", "subset-selection", "norm-sub"):
        assert text in done.stdout


@pytest.mark.parametrize(
    "command", ["demo", "estimate", "privatize", "client", "aggregate", "plan"]
)
def test_help_of_a_command(command, capsys):
    out = said(capsys, command, "--help").out
    assert "--epsilon" in out
    assert "examples:" in out
    named = "package.module:ClassName" in " ".join(out.split())
    assert named == (command not in ("demo", "plan"))
    assert "arrow,arrow" not in out
    assert max(map(len, out.splitlines())) <= 106


def test_version(capsys):
    assert said(capsys, "--version").out == f"sklearn-ldp {sklearn_ldp.__version__}\n"


MISTAKES = [
    ([], "COMMAND"),
    (["privatize", "x.csv", "--output", "x.parquet"], "--categories"),
    (["aggregate", "--checkpoint", "x.npz"], "required"),
    (["plan", "--n-samples", "9"], "one of the arguments --n-categories --categories"),
    (["plan", "--n-categories", "9", "--n-samples", "9", "--fake-share", "2"], "from 0 to 1"),
    (["estimate", "x.csv", "--post", "median"], "invalid choice"),
    (["collect"], "invalid choice"),
    (["demo", "--epsilon", "0"], "a finite number > 0, got '0'"),
    (["demo", "--epsilon", "nan"], "a finite number > 0"),
    (["demo", "--repeats", "0"], "a whole number from 1 to 2**53"),
    (["demo", "--n-samples", "1.5e0"], "a whole number from 1 to 2**53, got '1.5e0'"),
    (["demo", "--seed", "-1"], "a whole number >= 0"),
    (["demo", "--jobs", "0"], "-1 for all cores"),
    (["estimate", "x.csv", "--level", "0.05"], "from 0.5 to less than 1, such as 0.95, got '0.05'"),
    (["estimate", "x.csv", "--oracle", "rappor"], "invalid choice"),
    (["estimate", "x.csv", "--eps", "1"], "unrecognized arguments"),
]
FAILURES = [
    (["demo", "--n-samples", "10000000000"], "331,449,281"),
    (["demo", "--output", "demo.docx"], ".png"),
    (["estimate", "missing.csv"], "missing.csv: No such file"),
    (["plan", "--categories", "missing.txt", "--n-samples", "9"], "missing.txt: No such file"),
]


@pytest.mark.parametrize(
    ("code", "argv", "fragment"),
    [*((2, *mistake) for mistake in MISTAKES), *((1, *failure) for failure in FAILURES)],
)
def test_a_mistake_or_a_failure_ends_in_one_line(
    code, argv, fragment, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert_fails(argv, capsys, fragment, code=code)
    assert os.listdir() == []


def test_a_bug_keeps_its_traceback(histogram, monkeypatch):
    def fail(*args, **kwargs):
        raise AttributeError("a bug")

    monkeypatch.setattr(BaseOracle, "fit_transform", fail)
    with pytest.raises(AttributeError, match="a bug"):
        main(["estimate", str(histogram)])


def test_interrupt(histogram, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(BaseOracle, "fit_transform", interrupt)
    assert main(["estimate", str(histogram), "--output", str(tmp_path / "out.csv")]) == 130
    assert os.listdir(tmp_path) == [histogram.name]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the codes of broken pipes are POSIX's")
def test_a_reader_who_has_had_enough(fresh_processes, histogram):
    closed = "import os; read, write = os.pipe(); os.close(read); os.dup2(write, 1); "
    done = fresh_processes.run(closed + AS_A_MODULE, "estimate", str(histogram))
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


# -- demo ---------------------------------------------------------------------------------------
SMALL = ["demo", "--repeats", "2", "--n-samples", "20000"]


def assert_the_errors_are_those_of_the_library(out):
    """A study of one oracle gives the very numbers that the demo prints for all of them."""
    states = load_us_states(n_samples=20_000, random_state=0)
    divisions = groups(states.groups.division)
    options = {"queries": divisions, "n_repeats": 2}
    study = simulate_errors(OLH(0.5), "all", states.counts, **options)
    told = simulate_errors(OLH(0.5), EmpiricalBayes(queries=divisions), states.counts, **options)
    table = next(part for part in out.split("\n\n") if "\n9 divisions" in part)
    head, _, body = table.partition("\n-")
    column = head.splitlines()[-1].split().index("OLH") - 1  # "9 divisions" is one column
    # Cells of a table: the post-processor, and its errors.
    rows = [line.replace("with queries=", "told").split() for line in body.splitlines()[1:]]
    assert [row[0] for row in rows] == [*study["postprocessor"], "told"]
    printed = [float(row[column].rstrip("*")) for row in rows]
    assert printed == pytest.approx(100 * np.sqrt([*study.error, *told.error]), abs=5.1e-5)


@pytest.mark.slow
def test_demo(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = {"olh": OLH, "hadamard-response": HadamardResponse}
    monkeypatch.setattr("sklearn_ldp._cli._demo.all_oracles", lambda: few)
    out, err = said(capsys, *SMALL, "--jobs", "1")
    assert os.listdir(tmp_path) == ["sklearn_ldp_demo.png"]
    picture = (tmp_path / "sklearn_ldp_demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(picture) > 20_000
    assert max(map(len, out.splitlines())) <= 100
    for text in ("OLH", "NormSub", "51 states", "9 divisions", "4 regions", "SyntheticSearch"):
        assert text in out
    assert "reports from a seed have no privacy" in out
    assert "README" in out
    steps = err.splitlines()  # no terminal: a plain line a step
    assert steps[0].startswith(f"[1/{len(steps)}] ")
    assert len(steps) > 1
    assert_the_errors_are_those_of_the_library(out)


@pytest.mark.slow
def test_demo_repeats_itself(tmp_path, capsys):
    def shown(*options):
        return said(capsys, *SMALL, "--output", tmp_path / "demo.svg", *options).out

    first = shown("--jobs", "1")
    assert shown("--jobs", "2") == first
    assert shown("--seed", "1") != first


def test_tables_of_a_study():
    """Stars, regrets and their arrangement, worked out by hand."""
    names = {"oracle": ["A", "A", "B", "B"], "postprocessor": ["x", "y"] * 2, "queries": ["q"] * 4}
    columns = {name: np.array(values, dtype=object) for name, values in names.items()}
    study = ErrorStudy(columns, np.array([[4.0], [1.0], [9.0], [16.0]]))
    assert _demo.error_tables(study, "{:g}".format).splitlines() == [
        "q  A    B",
        "-  --  ---",
        "x  4    9*",
        "y  1*  16",
    ]
    table = _demo.pick_table(study, {"A": {"q": {"S": "x"}}, "B": {"q": {"S": "x"}}})
    assert [line.split() for line in table.splitlines()[3:]] == [
        *(["A"], ["q", "y", "x", "100.0%"]),
        *(["B"], ["q", "x", "x", "0.0%"]),
    ]


def test_the_demo_ends_in_what_it_has_shown():
    """Of the oracle whose raw estimate is the best, by the errors of the study."""
    rows = {
        "oracle": np.repeat(["A", "B"], 2),
        "postprocessor": np.tile(["Base", "EmpiricalBayes"], 2),
        "queries": np.repeat("51 states", 4),
    }
    study = ErrorStudy(rows, np.array([[4e-4], [1e-4], [1e-4], [0.25e-4]]))
    said = _demo._in_short(study, argparse.Namespace(n_samples=20_000, epsilon=2.0))
    assert "20,000 users at epsilon 2," in said
    assert "from 1.00 to 0.50 percentage points" in said


@pytest.mark.slow
def test_demo_without_matplotlib(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sklearn_ldp._cli._demo.all_oracles", lambda: {"olh": OLH})
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    argv = ["demo", "--repeats", "1", "--n-samples", "2000"]
    assert main([*argv, "--output", str(tmp_path / "demo.png")]) == 0
    assert "pip install 'sklearn_ldp[plot]'" in capsys.readouterr().out
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_demo_without_noise(tmp_path, capsys):
    argv = ["demo", "--epsilon", "700", "--n-samples", "2000", "--repeats", "2"]
    assert "0.0%" in said(capsys, *argv, "--output", tmp_path / "demo.svg").out


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_progress_on_a_terminal(has_tqdm, monkeypatch):
    if not has_tqdm:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = Terminal()
    with Progress(2, stream) as progress:
        progress.step("first")
        progress.step("second")
    assert "second" in stream.getvalue()
    assert ("[2/2] second\n" in stream.getvalue()) is not has_tqdm


# -- estimate: what goes in ---------------------------------------------------------------------
def write_values(path, values, header=None):
    lines = [header, *values] if header else values
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def estimate(argv, capsys):
    """Rows of an estimate on stdout, with a seed unless there is one."""
    return rows_of(said(capsys, "estimate", "--seed", "0", *argv).out)


def make_inputs(folder):
    """The same 10,000 users in every format that is read."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    names, numbers = list(COUNTS), list(COUNTS.values())
    values = np.repeat(names, numbers).tolist()
    quoted = [f'"{value}"' for value in values]
    pairs = [f'"{name}",{number}' for name, number in COUNTS.items()]
    write_values(folder / "histogram.csv", pairs, "value,count")
    write_values(folder / "histogram.csv.gz", pairs, "value,count")
    write_values(folder / "values.txt", values)
    write_values(folder / "values.csv", quoted, "value")
    write_values(folder / "values.csv.gz", [f"{v},17" for v in quoted], "value,age")
    write_table(pa.table({"value": names, "count": numbers}), folder / "histogram.parquet")
    write_table(pa.table({"value": values}), folder / "values.parquet")
    return sorted(folder.iterdir())


def test_all_inputs_give_the_same_estimate(tmp_path, capsys):
    folder = tmp_path / "inputs"
    folder.mkdir()
    domain = tmp_path / "domain.txt"
    write_values(domain, COUNTS)
    paths = make_inputs(folder)
    results = []
    for path in paths:
        kind = "values" if path.name == "values.txt" else "auto"
        argv = [path, "--categories", domain, "--oracle", "grr", "--input-kind", kind]
        results.append(estimate(argv, capsys))
    assert len(paths) == 7
    for rows in results:
        assert list(rows[0]) == COLUMNS
        assert [row["category"] for row in rows] == list(COUNTS)
        assert rows == results[0]


def test_a_learned_domain_is_warned_of(histogram, tmp_path, capsys):
    domain = tmp_path / "domain.txt"
    write_values(domain, ["violet", *reversed(COUNTS)])
    out, err = said(capsys, "estimate", histogram, "--categories", domain)
    assert [row["category"] for row in rows_of(out)] == ["violet", *reversed(COUNTS)]
    assert "warning" not in err
    warning, summary, _ = said(capsys, "estimate", histogram).err.splitlines()
    assert warning.startswith("sklearn-ldp: warning: the domain is learned from the raw values")
    assert "GRR(epsilon=1), 10,000 users" in summary
    assert summary.endswith("after EmpiricalBayes")


def test_named_columns(tmp_path, capsys):
    path = tmp_path / "data.csv"
    write_values(path, ["DE,a,10", "FR,b,30"], "country,note,people")
    rows = estimate([path, "--value-column", "country", "--count-column", "people"], capsys)
    assert [row["category"] for row in rows] == ["DE", "FR"]
    assert sum(float(row["count"]) for row in rows) == pytest.approx(40)
    rows = estimate([path, "--value-column", "note", "--input-kind", "values"], capsys)
    assert sum(float(row["count"]) for row in rows) == pytest.approx(2)
    there = ("no column 'color'", "['country', 'note', 'people']", "--value-column")
    assert_fails(["estimate", path, "--value-column", "color"], capsys, *there)
    argv = ["estimate", path, "--value-column", "note", "--count-column", "n"]
    assert_fails(argv, capsys, "no column 'n'")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # Canonical integers of 64 bits are numbers, in their order, every digit kept; all others
        # are text.
        (["10", "9", str(2**53 + 1), str(2**53)], ["9", "10", str(2**53), str(2**53 + 1)]),
        (["007", "7", "10"], ["007", "10", "7"]),
        ([str(2**64 - 1), "9", str(2**63)], ["9", str(2**63), str(2**64 - 1)]),
        ([str(2**64), "1"], ["1", str(2**64)]),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_integers_stay_exact(values, expected, suffix, tmp_path, capsys):
    path, output = tmp_path / "values.txt", tmp_path / "new" / "folder" / f"out{suffix}"
    write_values(path, values)
    assert main(["estimate", str(path), "--output", str(output)]) == 0
    assert [str(value) for value in read_output(output)["category"]] == expected


# -- estimate: a header, or the value of a user ---------------------------------------------------
BROWSERS = ["chrome"] * 3000 + ["firefox"] * 1500 + ["lynx"] * 500


def shown(argv, capsys):
    """Exit code, values in the estimate, and what standard error says."""
    code = main(["estimate", *map(str, argv)])
    out, err = capsys.readouterr()
    return code, [row["category"] for row in rows_of(out)], err


@pytest.mark.parametrize(
    ("name", "kind"), [("people.txt", "auto"), ("people.csv", "values"), ("people.csv.gz", "auto")]
)
def test_a_header_is_asked_for(name, kind, tmp_path, capsys):
    path = tmp_path / name
    write_values(path, BROWSERS, "browser")
    argv = ["--input-kind", kind]
    remedies = ("--value-column browser", "--no-header")
    assert_fails(["estimate", path, *argv], capsys, "line 1: 'browser'", *remedies)
    code, values, err = shown([path, *argv, "--value-column", "browser"], capsys)
    assert (code, values) == (0, ["chrome", "firefox", "lynx"])
    assert "5,000 users" in err
    code, values, err = shown([path, *argv, "--no-header"], capsys)
    assert (code, values) == (0, ["browser", "chrome", "firefox", "lynx"])
    assert "5,001 users" in err


def test_a_header_with_blanks_or_commas_is_quoted(tmp_path, capsys):
    path = tmp_path / "people.txt"
    write_values(path, BROWSERS, "your browser")
    assert_fails(["estimate", path], capsys, "--value-column 'your browser'")
    write_values(path, BROWSERS, "browser, or none")
    argv = ["estimate", path, "--input-kind", "values"]
    assert_fails(argv, capsys, "'browser, or none'", "--value-column NAME")
    write_values(path, ["17", "17", "18"], "age")  # text above numbers
    assert_fails(["estimate", path], capsys, "'age' looks like a header")


@pytest.mark.parametrize(
    "values",
    [
        ["lynx", "chrome", "chrome", "lynx"],  # it occurs again
        ["lynx", "chrome", "firefox"],  # all are distinct
        ["lynx", "chrome"],  # too few to tell
        ["93", "17", "17", "18", "unknown"],  # a number above numbers
        ["-1.5", "0", "0", "2.25"],
    ],
)
def test_where_nothing_tells_a_header_the_first_line_is_a_value(values, tmp_path, capsys):
    path = tmp_path / "people.txt"
    write_values(path, values)
    code, found, err = shown([path], capsys)
    assert (code, set(found)) == (0, set(values))
    assert f"{len(values)} users" in err


def test_a_category_is_no_header(tmp_path, capsys):
    path, domain = tmp_path / "people.txt", tmp_path / "domain.txt"
    write_values(domain, ["chrome", "firefox", "lynx", "browser"])
    argv = ["--categories", domain]
    write_values(path, BROWSERS, "browser")
    code, values, err = shown([path, *argv], capsys)
    assert (code, len(values)) == (0, 4)
    assert "5,001 users" in err
    for others in (BROWSERS, ["chrome"]):  # with a domain, a line is enough to tell
        write_values(path, others, "Browser")
        remedies = ("--value-column Browser", "--no-header", "--categories")
        assert_fails(["estimate", path, *argv], capsys, "line 1: 'Browser'", *remedies)
    assert_fails(["estimate", path, *argv, "--no-header"], capsys, "the value 'Browser' (1 user")
    assert shown([path, *argv, "--value-column", "Browser"], capsys)[0] == 0
    write_values(path, ["opera", "opera", "chrome"])  # which is a value of users, and no header
    assert_fails(["estimate", path, *argv], capsys, "the value 'opera' (2 users)")


def test_no_header_is_for_lines_of_text(histogram, tmp_path, capsys):
    argv = ["estimate", histogram, "--no-header"]
    assert_fails([*argv, "--value-column", "value"], capsys, "not allowed with", code=2)
    assert_fails([*argv, "--count-column", "count"], capsys, "a histogram has a header")
    assert_fails([*argv, "--input-kind", "histogram"], capsys, "a histogram has a header")
    assert_fails(argv, capsys, "the first line has 2 columns")
    code, values, _ = shown([histogram, "--no-header", "--input-kind", "values"], capsys)
    assert (code, len(values)) == (0, 5)
    (tmp_path / "inputs").mkdir()
    make_inputs(tmp_path / "inputs")
    argv = ["estimate", tmp_path / "inputs" / "values.parquet", "--no-header"]
    assert_fails(argv, capsys, "values.parquet is a Parquet file")


# -- estimate: what comes out -------------------------------------------------------------------
def read_output(path):
    """Columns of an output file."""
    if path.suffix == ".parquet":
        from pyarrow.parquet import read_table

        return read_table(path).to_pydict()
    content = path.read_bytes()
    rows = rows_of((gzip.decompress(content) if path.suffix == ".gz" else content).decode())
    numbers = {c: [float(row[c]) for row in rows] for c in COLUMNS[1:-1]}
    texts = {c: [row[c] for row in rows] for c in ("category", "interval")}
    return {"category": texts["category"], **numbers, "interval": texts["interval"]}


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_output_files(suffix, histogram, tmp_path, capsys):
    output = tmp_path / f"out{suffix}"
    output.write_text("an older file")
    argv = ["estimate", str(histogram), "--seed", "0", "--output", str(output)]
    assert said(capsys, *argv).out == ""
    columns = read_output(output)
    assert list(columns) == COLUMNS
    assert columns["category"] == list(COUNTS)
    assert columns["interval"] == ["95 % simultaneous"] * len(COUNTS)
    rows = estimate([histogram], capsys)
    for name in COLUMNS[1:-1]:
        printed = [float(row[name]) for row in rows]
        assert columns[name] == pytest.approx(printed, rel=1e-9, abs=1e-12)
    assert sorted(os.listdir(tmp_path)) == sorted([histogram.name, output.name])


def test_columns_agree_with_the_library(histogram, capsys):
    rows = estimate([histogram, "--epsilon", "2", "--level", "0.8", "--jobs", "1"], capsys)
    categories, counts = np.array(list(COUNTS)), list(COUNTS.values())
    oracle = sklearn_ldp.best_oracle(2.0, categories).set_params(random_state=0)
    raw = oracle.fit_transform(categories, sample_weight=counts)
    # The same columns as in a data frame, with intervals that hold at once.
    frame = EmpiricalBayes().fit_transform(raw).to_frame(interval=0.8)
    assert frame.columns.tolist() == list(rows[0]) == COLUMNS
    for name in COLUMNS[1:-1]:
        assert [float(row[name]) for row in rows] == pytest.approx(frame[name], abs=1e-9)
    assert {row["interval"] for row in rows} == {"80 % simultaneous"} == set(frame["interval"])
    assert raw.to_frame(interval=0.8)["low"].equals(frame["low"])


def test_sorted_by_frequency(histogram, capsys):
    domain = estimate([histogram], capsys)
    falling = estimate([histogram, "--sort", "frequency"], capsys)
    assert falling == sorted(domain, key=lambda row: -float(row["frequency"]))
    assert falling[0]["category"] == "red"


def test_secure_randomness_unless_a_seed_is_given(histogram, capsys):
    assert said(capsys, "estimate", histogram).out != said(capsys, "estimate", histogram).out
    assert estimate([histogram], capsys) == estimate([histogram], capsys)


def choices(option, capsys):
    """What an option takes, from what is said when it gets something else."""
    assert main(["estimate", "x", option, "?"]) == 2
    return (
        capsys.readouterr().err.split("choose from ")[1].split(")")[0].replace("'", "").split(", ")
    )


def test_every_method(histogram, capsys):
    oracles, posts = choices("--oracle", capsys), choices("--post", capsys)
    have_no_option = {"matrixoracle", "itemoracle", "keyvalueoracle"}  # for queries and sets
    known = {name.lower() for name, _ in all_estimators("oracle")} - have_no_option
    assert {name.replace("-", "") for name in oracles} == {*known, "olhmixing"}
    assert {"base", "base-pos", "norm-sub", "synthetic-search", "held-out-search"} <= set(posts)
    exported = [getattr(postprocessing, name) for name in postprocessing.__all__]
    kinds = [found for found in exported if isinstance(found, type)]
    base = postprocessing.BasePostProcessor
    classes = {kind.__name__.lower() for kind in kinds if issubclass(kind, base)}
    classes.remove("basepostprocessor")
    searches = {"synthetic-search", "synthetic-stack", "held-out-search"}
    assert {name.replace("-", "") for name in set(posts) - searches} == classes
    for oracle in oracles:
        assert len(estimate([histogram, "--oracle", oracle, "--post", "base"], capsys)) == 4
    for post in set(posts) - {"trend"}:
        out, err = said(capsys, "estimate", histogram, "--post", post, "--seed", "0")
        frequencies = [float(row["frequency"]) for row in rows_of(out)]
        assert np.all(np.isfinite(frequencies))
        assert ("selected by" in err) == post.endswith("search")
        if post == "post-pos":  # which clips what is answered, not what is stored
            assert min(frequencies) >= 0


def test_a_method_that_needs_more_says_so(histogram, capsys):
    argv = ["estimate", histogram, "--oracle", "oue", "--post", "exact-mle"]
    assert_fails(argv, capsys, "ExactMLE needs the raw estimate of an oracle")


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """A package of oracles that is not this one."""
    (tmp_path / "third_party").mkdir()
    (tmp_path / "third_party" / "__init__.py").write_text("")
    (tmp_path / "third_party" / "shy.py").write_text(
        "from sklearn_ldp import GRR\n"
        "from sklearn_ldp.oracles import BaseOracle\n"
        "class Shy(GRR):\n    pass\n"
        "def shy():\n    pass\n"
    )
    (tmp_path / "third_party" / "broken.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "third_party.shy:Shy"
    for name in [name for name in sys.modules if name.startswith("third_party")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("third_party.shy:Bold", "cannot import 'third_party.shy:Bold' (AttributeError"),
        ("third_party.bold:Shy", "No module named 'third_party.bold'"),
        ("third_party.broken:Shy", "No module named 'no_such_module'"),
        (":Shy", "Pass package.module:ClassName"),
        ("third_party.shy:", "Pass package.module:ClassName"),
        ("third_party.shy", "invalid choice: 'third_party.shy' (choose from 'blh', "),
        ("third_party.shy:shy", "not a subclass of sklearn_ldp.oracles.BaseOracle"),
        ("third_party.shy:BaseOracle", "not a subclass of"),  # which is abstract
        ("sklearn_ldp:NormSub", "not a subclass of"),
    ],
)
def test_what_is_no_oracle(third_party, histogram, name, fragment, capsys):
    assert_fails(["estimate", histogram, "--oracle", name], capsys, fragment, code=2)


# -- tables and folders -------------------------------------------------------------------------
def on_a_terminal(argv, monkeypatch):
    stream = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert main([str(a) for a in argv]) == 0
    return stream.getvalue()


def test_a_table_is_aligned_on_a_terminal_and_csv_in_a_pipe(histogram, capsys, monkeypatch):
    argv = ["estimate", histogram, "--seed", "0"]
    head, rule, *body = on_a_terminal(argv, monkeypatch).splitlines()
    assert head.split() == COLUMNS
    ends = list(accumulate(len(dashes) + 2 for dashes in rule.split()))[1:]
    assert [line[: rule.index(" ")].rstrip() for line in body] == list(COUNTS)
    for row, line in zip(estimate([histogram], capsys), body, strict=True):
        cells = line[len(rule.split()[0]) :].split()
        assert line.endswith("  95 % simultaneous")
        for name, cell, end in zip(COLUMNS[1:-1], cells, ends, strict=False):
            assert line[: end - 2].endswith(cell)  # the numbers end below the end of their name
            tolerance = 0.5 if name == "count" else 0.005
            assert float(cell) == pytest.approx(float(row[name]), abs=tolerance)


def test_numbers_on_a_terminal():
    """Digits as worked out by hand: three of half of the numbers, and no column of mere zeros."""
    columns = {
        "n": np.array([5, 1000000]),
        "a": np.array([0.123456, -0.000123456]),
        "b": np.array([0.5, 2.0]),
        "c": np.array([3107.1, 16.0]),
        "d": np.array([np.inf, 0.0]),
        "e": np.array(["x", "bell\a"]),
        "f": np.array([1e-5, 2e-5]),
    }
    assert _files._as_table(columns).splitlines() == [
        "      n        a    b     c    d  e                 f",
        "-------  -------  ---  ----  ---  ----------  -------",
        "      5   0.1235  0.5  3107  inf  x           0.00001",
        "1000000  -0.0001  2.0    16    0  'bell\\x07'  0.00002",
    ]


def test_a_refusal_creates_no_folder(histogram, tmp_path, capsys):
    output = tmp_path / "none" / "out.csv"
    assert_fails(["estimate", histogram, "--value-column", "x", "--output", output], capsys)
    assert_fails(["estimate", tmp_path / "missing", "--output", output], capsys)
    assert_fails(["estimate", histogram, "--queries", "median", "--output", output], capsys)
    argv = ["plan", "--n-samples", "9", "--output"]
    assert_fails([*argv, output, "--n-categories", "1"], capsys, "at least 2 categories")
    folder = histogram / "none"  # below a file
    said = f"{folder}: cannot create this folder"
    assert_fails([*argv, folder / "plan.csv", "--n-categories", "9"], capsys, said)
    assert_fails(["demo", "--output", folder / "demo.png"], capsys, said)
    assert os.listdir(tmp_path) == [histogram.name]


# -- estimate: what is refused ------------------------------------------------------------------
BAD_FILES = {
    "empty.csv": (b"", "is empty"),
    "header_only.csv": (b"value\n", "no values"),
    "blank.txt": (b"red\n\nblue\n", "line 2: the value is empty"),
    "blank_cell.csv": (b"value\nred\n\nblue\n", "line 3: the value is empty"),
    "ragged.csv": (b"value,age\nred,1\nblue\n", "line 3: expected 2 columns"),
    "open_quote.csv": (b'value\n"red\n', "line 2"),
    "latin1.txt": (b"bj\xf8rn\n", "UTF-8"),
    "binary.txt": (b"a\0b\n", "NUL"),
    "columns.csv": (b"color,age\nred,1\n", "none of them 'value'"),
    "fraction.csv": (b"value,count\nred,1.5\nblue,2\n", "whole number"),
    "negative.csv": (b"value,count\nred,-1\nblue,2\n", "whole number"),
    "spaces.csv": (b"value, count\nred, 1\nblue, 2\n", "spaces around the name ' count'"),
    "semicolons.csv": (b"job;age\nnurse;30\nnurse;30\n", "as CSV with commas"),
    "tabs.tsv": (b"job\tage\nnurse\t30\nnurse\t30\n", "as CSV with commas"),
    "repeated.csv": (b"value,count\nred,1\nred,2\n", "each category once"),
    "damaged.csv.gz": (gzip.compress(b"value,count\nred,1\n" * 99)[:-9], "damaged gzip"),
    "damaged.parquet": (b"PAR1 and then nothing", "damaged Parquet"),
    "one_category.txt": (b"red\nred\n", "at least 2 categories"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name, tmp_path, capsys):
    content, fragment = BAD_FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert_fails(["estimate", path, "--output", tmp_path / "out.csv"], capsys, fragment)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    ("text", "fragment"),
    [("", "is empty"), ("a\nb\na\n", "repeats line 1 in line 3"), ("a\n\n", "at least 2")],
)
def test_a_bad_domain(text, fragment, histogram, tmp_path, capsys):
    domain = tmp_path / "domain.txt"
    domain.write_text(text)
    assert_fails(["estimate", histogram, "--categories", domain], capsys, fragment)


def test_values_outside_of_the_domain_are_listed(tmp_path, capsys):
    """Three of them, so that a user corrects them together; none in the logs of a client."""
    people, domain = tmp_path / "people.txt", tmp_path / "domain.txt"
    domain.write_text("red\nblue\n")
    people.write_text("red\nRed\nred \nred \n0\nblue\n1\n2\n")
    argv = ["--categories", domain, "--no-header"]
    listed = "the value '0' (1 user), the value '1' (1 user), the value '2' (1 user), and 2 other"
    assert_fails(["estimate", people, *argv], capsys, listed)
    people.write_text("red\nRed\nred \nred \n")
    listed = "contains the value 'Red' (1 user), the value 'red ' (2 users), which is not"
    assert_fails(["estimate", people, *argv], capsys, listed)
    argv = ["privatize", people, *argv, "--output", tmp_path / "a.jsonl"]
    assert_fails(argv, capsys, "contains a value, which is not")


def test_a_folder_of_reports_is_no_file_of_values(tmp_path, capsys):
    remedy = f"first run `sklearn-ldp aggregate {tmp_path} --checkpoint state.npz`"
    assert_fails(["estimate", tmp_path], capsys, "is a folder", remedy)


def test_output_is_checked_before_anybody_reports(histogram, tmp_path, capsys, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("users have reported")

    monkeypatch.setattr(BaseOracle, "fit_transform", never)
    argv = ["estimate", histogram, "--output"]
    assert_fails([*argv, tmp_path / "out.xlsx"], capsys, ".parquet")
    below = histogram / "none"
    assert_fails([*argv, histogram / "out.csv"], capsys, "out.csv: cannot write here")
    assert_fails([*argv, below / "out.csv"], capsys, f"{below}: cannot create this folder")
    assert_fails([*argv, histogram], capsys, "also the input file")
    (tmp_path / "folder.csv").mkdir()
    assert_fails([*argv, tmp_path / "folder.csv"], capsys, "which cannot be replaced")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert_fails([*argv, tmp_path / "out.parquet"], capsys, "pip install 'sklearn_ldp[data]'")
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", histogram.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused(tmp_path, capsys):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert_fails(["estimate", path], capsys, "not a regular file")


def test_an_ordered_domain(tmp_path, capsys):
    counts = np.round(300 * np.exp(-((np.arange(60) - 20) ** 2) / 200)).astype(int)
    path, domain = tmp_path / "ages.csv", tmp_path / "domain.txt"
    path.write_text("value,count\n" + "".join(f"{i},{c}\n" for i, c in enumerate(counts)))
    domain.write_text("".join(f"{i}\n" for i in range(60)))
    argv = ["estimate", str(path), "--categories", str(domain), "--seed", "0", "--oracle", "olh"]
    rows = rows_of(said(capsys, *argv, "--ordered").out)
    raw = OLH(categories=[str(i) for i in range(60)], random_state=0).fit_transform(
        [str(i) for i in range(60)], sample_weight=counts
    )
    expected = EmpiricalBayes(ordered=True).fit(raw).frequencies_
    assert [float(row["frequency"]) for row in rows] == pytest.approx(expected)
    assert_fails([*argv, "--ordered", "--post", "norm"], capsys, "empirical-bayes, got norm")
    assert_fails(["estimate", path, "--ordered"], capsys, "Specify the domain with --categories")


# -- names that spreadsheets run, and full disks ---------------------------------------------------
FORMULAS = ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", " =2", "\uff1d1"]
HARMLESS = ["a", "-5", "+1.5", "a=1", "'=1"]


def test_categories_that_spreadsheets_run(tmp_path, capsys):
    (tmp_path / "domain.txt").write_text("\n".join(FORMULAS + HARMLESS) + "\n", encoding="utf-8")
    (tmp_path / "values.txt").write_text("a\na\n=1+1\n", encoding="utf-8")
    command = ["estimate", str(tmp_path / "values.txt"), "--seed", "0", "--no-header"]
    command += ["--categories", str(tmp_path / "domain.txt")]
    for output in ([], ["--output", str(tmp_path / "out.csv")]):
        plain, err = said(capsys, *command, *output)
        assert "a spreadsheet interprets the category '=1+1' as a formula" in err
        if output:
            plain = (tmp_path / "out.csv").read_text(encoding="utf-8")
        assert [row["category"] for row in rows_of(plain)] == FORMULAS + HARMLESS
        safe, err = said(capsys, *command, *output, "--spreadsheet-safe")
        assert "formula" not in err
        if output:
            safe = (tmp_path / "out.csv").read_text(encoding="utf-8")
        expected = [f"'{text}" for text in FORMULAS] + HARMLESS
        assert [row["category"] for row in rows_of(safe)] == expected
    # The negative control: no warning without such a category, and none for Parquet.
    pytest.importorskip("pyarrow")
    assert main([*command, "--output", str(tmp_path / "out.parquet")]) == 0
    (tmp_path / "domain.txt").write_text("\n".join([*HARMLESS, "=1+1"]).replace("=1+1", "z"))
    (tmp_path / "values.txt").write_text("a\na\nz\n")
    assert "formula" not in said(capsys, *command).err


def test_a_value_with_nul_is_refused(tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    pa.parquet = pytest.importorskip("pyarrow.parquet")
    pa.parquet.write_table(pa.table({"value": ["a", "a\0"]}), tmp_path / "x.parquet")
    assert_fails(
        ["estimate", tmp_path / "x.parquet"], capsys, r"values must be text without NUL", r"'a\x00'"
    )


def with_a_full_disk(argv):
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a file that grows too large is an error
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    sys.exit(main(argv))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a limit on the size of files")
@pytest.mark.parametrize(
    "suffix",
    [".parquet", *(pytest.param(s, marks=pytest.mark.slow) for s in (".arrows", ".jsonl"))],
)
def test_a_full_disk_names_the_file(suffix, tmp_path, capfd):
    """The negative control is the same call with room enough."""
    pytest.importorskip("pyarrow")
    (tmp_path / "values.txt").write_text("a\nb\n" * 50_000)
    (tmp_path / "domain.txt").write_text("a\nb\n")
    output = tmp_path / f"out{suffix}"
    call = ["privatize", tmp_path / "values.txt", "--categories", tmp_path / "domain.txt"]
    argv = [str(part) for part in (*call, "--output", output)]
    process = multiprocessing.get_context("fork").Process(target=with_a_full_disk, args=(argv,))
    process.start()
    process.join(120)
    err = capfd.readouterr().err
    assert process.exitcode == 1, err
    assert f"error: {output}: cannot write here (File too large)" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["domain.txt", "values.txt"]
    assert main(argv) == 0
    assert output.exists()


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_full_standard_output_is_named(fresh_processes, histogram):
    argv = ["estimate", str(histogram), "--seed", "0"]
    run = fresh_processes.run(AS_A_MODULE, *argv, stdout="/dev/full")
    assert run.returncode == 1
    assert "sklearn-ldp: error: standard output: No space left on device" in run.stderr
    assert "Exception ignored" not in run.stderr


BAD_QUERIES = ["median", "sets", "sets:2", "top:x", "full:1"]


@pytest.mark.slow
def test_an_estimate_that_is_told_the_queries(tmp_path, capsys):
    path = tmp_path / "histogram.csv"
    rng = np.random.default_rng(0)
    kinds = np.repeat(["x", "y", "z", "w"], 25)
    counts = rng.poisson(np.repeat([90_000, 30_000, 10_000, 1000], 25))
    rows = [f"c{i:02d},{n},{kind}" for i, (n, kind) in enumerate(zip(counts, kinds, strict=True))]
    write_values(path, rows, "value,count,kind")
    oracle = OLH(1.0, categories=[row[:3] for row in rows], random_state=0)
    raw = oracle.fit_transform(oracle.categories, sample_weight=counts)
    plain = EmpiricalBayes().fit_transform(raw).values[0]
    asked = {"groups:kind": groups(kinds), "ranges:4": ranges(4), "top:5": top_k(5)}
    for query, queries in asked.items():
        table = estimate([path, "--oracle", "olh", "--queries", query], capsys)
        told = EmpiricalBayes(queries=queries).fit_transform(raw).answer()[0]
        got = [float(row["frequency"]) for row in table]
        np.testing.assert_allclose(got, told, rtol=1e-8)
        assert np.allclose(got, plain) == (query == "top:5")  # hardly any noise in these
    argv = [path, "--seed", "0", "--post", "synthetic-search", "--queries", "groups:kind"]
    assert len(estimate(argv, capsys)) == 100
    domain = tmp_path / "domain.txt"
    write_values(domain, [*[row[:3] for row in rows], "new"])
    for extra, fragments in (
        (["--queries", "groups:none"], ["the columns are kind"]),
        *((["--queries", bad], ["--queries must be one of full, sets"]) for bad in BAD_QUERIES),
        (
            ["--queries", "top:5", "--post", "norm-sub"],
            ["--queries needs a single column and --post"],
        ),
        (["--queries", "groups:kind", "--categories", domain], ["group is unknown", "'new'"]),
        (["--queries", "top:2", "--domains", domain], ["EmpiricalBayes(queries={column: ..})"]),
    ):
        assert_fails(["estimate", path, *extra], capsys, *fragments)
    values = tmp_path / "values.txt"
    write_values(values, ["a", "b", "a"])
    assert_fails(["estimate", values, "--queries", "groups:kind"], capsys, "needs a histogram")
    write_values(path, ["value,count", "a,10", "b,20"])
    argv = ["estimate", path, "--queries", "groups:kind"]
    assert_fails(argv, capsys, "the columns are only the columns of values and counts")


# -- what a newcomer writes -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("written", "kebab"), [("OLH", "olh"), ("hadamardResponse", "hadamard-response")]
)
def test_names_as_the_output_prints_them(histogram, capsys, written, kebab):
    outputs = []
    for oracle, post in ((written, "NormSub"), (kebab, "normsub")):
        argv = ["estimate", str(histogram), "--oracle", oracle, "--post", post, "--seed", "0"]
        outputs.append(said(capsys, *argv))
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n\r\n\r\n"])
def test_blank_lines_at_the_end_of_the_domain(tmp_path, capsys, end):
    people, domain = tmp_path / "people.txt", tmp_path / "domain.txt"
    people.write_text("red\nblue\nblue\n")
    domain.write_text(f"red\nblue{end}", newline="")
    assert len(rows_of(said(capsys, "estimate", people, "--categories", domain).out)) == 2
    domain.write_text("red\n\nblue\n")
    assert_fails(["estimate", people, "--categories", domain], capsys, "line 2: the value is empty")


MISSING = {
    "csv": "answer,other\nyes,1\n,2\nno,3\n,4\n",
    "txt": "yes\n\nno\n\n",
    "quotes.txt": 'yes\n""\nno\n""\n',  # as pandas writes a missing value of the only column
    "histogram.csv": "answer,count\nyes,1\n,2\nno,1\n",
    "parquet": ["yes", None, "no", None],
    "histogram.parquet": {"answer": ["yes", None, "no"], "count": [1, 2, 1]},
}


@pytest.mark.parametrize("form", list(MISSING))
def test_missing_values_of_one_column(tmp_path, capsys, form):
    people, domain = tmp_path / f"people.{form}", tmp_path / "domain.json"
    content = MISSING[form]
    if isinstance(content, str):
        people.write_text(content)
    else:
        columns = content if isinstance(content, dict) else {"answer": content}
        pd.DataFrame(columns).to_parquet(people)
    column = [] if form.endswith("txt") else ["--value-column", "answer"]
    argv = ["estimate", str(people), "--categories", str(domain), *column, "--epsilon", "20"]
    domain.write_text('["yes", "no", null]')
    rows = rows_of(said(capsys, *argv, "--oracle", "grr", "--post", "base").out)
    found = [(row["category"], row["count"]) for row in rows]
    assert found == [("yes", "1"), ("no", "1"), ("(missing)", "2")]
    assert main([*argv, "--output", str(tmp_path / "estimate.parquet")]) == 0
    values = pd.read_parquet(tmp_path / "estimate.parquet")["category"]
    assert values[:2].tolist() == ["yes", "no"]
    assert values.isna()[2]
    capsys.readouterr()
    domain.write_text('["yes", "no"]')
    if form.startswith("histogram"):
        domain.write_text('["yes", null]')
        assert_fails(argv, capsys, "the value 'no' in the column 'answer' is not in the domain")
        domain.write_text('["yes", "no"]')
        assert_fails(argv, capsys, 'Replace a missing value by a name, for example "unknown"')
    else:
        assert_fails(argv, capsys, ".json with null in its list", "a name such as unknown")


@pytest.mark.parametrize("name", ["domain.csv", "DOMAIN.CSV.gz", "domain.tsv", "domain.parquet"])
def test_a_domain_is_no_table(name, histogram, tmp_path, capsys):
    """Its header would become a category. The negative control is the same file as text."""
    domain = tmp_path / name
    domain.write_text("\n".join(["colour", *COUNTS]) + "\n")
    commands = (["estimate", histogram], ["plan", "--n-samples", "9"])
    for argv in commands:
        assert_fails([*argv, "--categories", domain], capsys, "so its header would become", ".json")
    domain = domain.rename(tmp_path / "domain.txt")
    rows = rows_of(said(capsys, "estimate", histogram, "--categories", domain).out)
    assert [row["category"] for row in rows] == ["colour", *COUNTS]


def test_bins_are_ordered_without_a_word(tmp_path, capsys):
    """Without their order the distribution function is worse than that of the raw estimate."""
    people, domain = tmp_path / "people.txt", tmp_path / "ages.json"
    ages = np.random.default_rng(0).gamma(4, 10, 20_000).clip(0, 99.9)
    people.write_text("\n".join(f"{age:.1f}" for age in ages))
    domain.write_text('{"bins": 32, "bounds": [0, 100]}')
    argv = ["estimate", str(people), "--oracle", "range-oracle", "--seed", "1"]
    assert main([*argv, "--categories", str(domain)]) == 0
    found = rows_of(capsys.readouterr().out)
    truth = np.histogram(np.round(ages, 1), 32, (0, 100))[0] / len(ages)
    after, raw = (
        np.abs(np.cumsum([float(row[name]) for row in found] - truth)).max()
        for name in ("frequency", "estimate")
    )
    assert after < 0.8 * raw
    assert main([*argv, "--categories", str(domain), "--queries", "top:3"]) == 0


@pytest.mark.filterwarnings("ignore:.*category of missing numbers")
def test_bins_of_one_column(few_simulated, tmp_path, capsys):
    people, domain = tmp_path / "people.csv", tmp_path / "ages.json"
    people.write_text("age\n17\n18\n64.5\n\n90\n")
    domain.write_text('{"bins": [18, 65], "labels": ["young", "middle", "old"], "missing": true}')
    argv = ["estimate", str(people), "--value-column", "age", "--categories", str(domain)]
    assert main([*argv, "--epsilon", "20", "--oracle", "grr", "--post", "base"]) == 0
    found = {row["category"]: row["count"] for row in rows_of(capsys.readouterr().out)}
    assert found == {"young": "1", "middle": "2", "old": "1", "(missing)": "1"}
    said(capsys, "plan", "--categories", domain, "--n-samples", "1000")
    domain.write_text('{"bins": [18, 65], "missing": "no age"}')
    assert "no age," in said(capsys, *argv, "--epsilon", "20", "--oracle", "grr").out
    domain.write_text('{"bins": [18, 65], "label": ["young"]}')
    assert_fails(argv, capsys, 'must have the key "bins" and no other keys than "bounds", "clip"')
    domain.write_text('{"bins": [65, 18]}')
    assert_fails(argv, capsys, "edges in increasing order")
    domain.write_text('{"bins": [18, 65]}')
    assert_fails(argv, capsys, "line 5: the value is empty")
    domain.write_text('{"bins": 2, "bounds": [0, 80], "clip": true, "missing": true}')
    assert main([*argv, "--epsilon", "20", "--oracle", "grr", "--post", "base"]) == 0
    found = {row["category"]: row["count"] for row in rows_of(capsys.readouterr().out)}
    assert found == {"[0, 40)": "2", "[40, 80]": "2", "(missing)": "1"}
    domain.write_text('{"bins": 2, "bounds": [0, 80], "missing": true}')
    assert_fails(argv, capsys, "the value '90'")
    domain.write_text('{"bins": 2, "bounds": "auto"}')
    assert_fails(argv, capsys, "which are not two finite numbers")


@pytest.mark.parametrize("form", ["parquet", "arrows", "jsonl"])
def test_reports_are_aggregated_first(tmp_path, capsys, form):
    reports, domain = tmp_path / f"reports.{form}", tmp_path / "domain.txt"
    domain.write_text("a\nb\n")
    oracle = OLH(1.0, categories=["a", "b"])
    write_reports(reports, oracle.privatize(["a", "b"]), oracle)
    argv = ["estimate", reports, "--categories", domain]
    assert_fails(
        argv, capsys, "contains reports", f"First run `sklearn-ldp aggregate {reports} --chec"
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path, capsys, encoding):
    people = tmp_path / "people.csv"
    text = "value\nred\n" if encoding == "utf-16" else "\ufeffvalue\nred\n"
    people.write_bytes(text.encode(encoding))
    assert_fails(["estimate", people], capsys, "UTF-16", "iconv -f utf-16 -t utf-8")


def test_long_work_says_how_far_it_is(histogram, capsys, monkeypatch):
    argv = ["estimate", str(histogram), "--seed", "0", "--oracle", "oue"]
    short = said(capsys, *argv)
    assert "users\n" not in short.err.split(";")[0]
    monkeypatch.setattr("sklearn_ldp._cli._estimate._LONG", 0)
    long = said(capsys, *argv)
    assert long.out == short.out
    assert "[10/20] 5,000 of 10,000 users" in long.err


@pytest.mark.filterwarnings("default")
def test_warnings_of_the_library_are_lines_of_the_command(tmp_path, capsys):
    """Before: with the path of a module, and that of blanks twice."""
    values, domain = tmp_path / "values.csv", tmp_path / "domain.txt"
    values.write_text("value\n" + "a\nb\n" * 50)
    domain.write_text("a\nb\nb \n")
    argv = ["estimate", str(values), "--categories", str(domain), "--post", "norm-sub"]
    assert main([*argv, "--seed", "0"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "warning" in line.lower()]
    assert len(told) == 1
    assert told[0].startswith(
        "sklearn-ldp: warning: --categories has 2 categories that differ only in"
    )


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["plann"], "did you mean 'plan'?"),
        (["estimate", "--epsiln", "1", "x.csv"], "did you mean '--epsilon'?"),
        (["estimate", "--oracle", "hadamard-respons", "x"], "did you mean 'hadamard-response'?"),
        (["estimate", "--post", "nrmsub", "x.csv"], "'nrmsub', did you mean 'norm-sub'?"),
        (["zzzz"], ""),
    ],
)
def test_what_may_be_meant_is_named_once(argv, meant, capsys):
    assert_fails(argv, capsys, meant, code=2)
    main(argv)
    assert capsys.readouterr().err.count("did you mean") == bool(meant)


def test_shares_among_the_users_who_answered(tmp_path, capsys):
    people, domain = tmp_path / "people.csv", tmp_path / "ages.json"
    people.write_text("age,plan\n" + "10.5,a\n40.5,a\n,a\n" * 1_000)
    domain.write_text('{"age": {"bins": 4, "bounds": [0, 80], "missing": true}}')
    argv = ["estimate", str(people), "--categories", str(domain), "--value-column", "age"]
    argv += ["--seed", "0", "--epsilon", "4"]
    whole = rows_of(said(capsys, *argv).out)
    answered, _ = said(capsys, *argv, "--answered")
    rows = rows_of(answered)
    assert [row["category"] for row in whole][4:] == ["(missing)"]
    assert [row["category"] for row in rows] == [row["category"] for row in whole][:4]
    assert sum(float(row["frequency"]) for row in rows) == pytest.approx(1)
    assert float(rows[0]["low"]) < 0.5 < float(rows[0]["high"])


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(28, "No space left on device"), FAILED), (BrokenPipeError(), BROKEN_PIPE), (None, 0)],
)
def test_output_that_cannot_be_written_at_the_end(error, code, monkeypatch, tmp_path, capsys):
    """Python would write the last block of output after the command, and end with code 120."""

    class Output(io.StringIO):
        def flush(self):
            if error:
                raise error

    domain = tmp_path / "domain.txt"
    domain.write_text("a\nb\n")
    monkeypatch.setattr(sys, "stdout", Output())
    monkeypatch.setattr("sklearn_ldp._cli._forget_stdout", lambda: None)
    assert main(["plan", "--categories", str(domain), "--n-samples", "100"]) == code
    assert ("No space left" in capsys.readouterr().err) == (code == FAILED)


@pytest.mark.parametrize(
    ("name", "missing"), [(None, "no answer"), ("x.csv", "no answer"), ("x.parquet", None)]
)
def test_only_parquet_has_a_category_without_a_name(name, missing):
    domain = Domain(["a", "b"], missing="no answer")
    estimate = FrequencyEstimate([[0.5, 0.25, 0.25]], domain)
    arguments = argparse.Namespace(output=name and Path(name))
    assert _estimate._names(estimate, arguments).tolist() == ["a", "b", missing]


@pytest.mark.parametrize(
    "argv",
    [
        ["estimate", "none.csv", "--plot", "file/none/x.png"],
        ["estimate", "none.csv", "--html", "file/none/x.html"],
        ["estimate", "none.csv", "--output", "file/none/x.csv"],
        ["privatize", "none.csv", "--categories", "none", "--output", "file/none/x.jsonl"],
        ["aggregate", "none.jsonl", "--categories", "none", "--checkpoint", "file/none/x.npz"],
    ],
)
def test_a_folder_of_output_is_checked_before_the_input(argv, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert_fails(argv, capsys, "cannot create this folder")
