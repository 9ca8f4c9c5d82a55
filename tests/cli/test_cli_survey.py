"""A survey of several columns on the command line: files in, files out, and what is refused."""

import gzip
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from test_cli import COLUMNS, Terminal, assert_fails, ended, rows_of, said

from sklearn_ldp import OUE, ColumnOracle, HeldOutSearch, NormSub
from sklearn_ldp.__main__ import main
from sklearn_ldp._cli._estimate import _description
from sklearn_ldp.collection import aggregate, read_reports
from sklearn_ldp.planning import Plan

pa = pytest.importorskip("pyarrow")
from pyarrow.csv import write_csv  # noqa: E402
from pyarrow.parquet import read_table, write_table  # noqa: E402

DOMAINS = {"sex": ["F", "M"], "age": 4, "state": ["north", "south", "east, far"]}
PEOPLE = pd.DataFrame(
    {
        "name": [f"somebody {i}" for i in range(6000)],  # a column that nobody collects
        "age": [0, 1, 1, 2] * 1500,
        "sex": ["F", "F", "M"] * 2000,
        "state": ["north", "east, far"] * 3000,
    }
)
TRUTH = {"sex": [2 / 3, 1 / 3], "age": [0.25, 0.5, 0.25, 0], "state": [0.5, 0, 0.5]}
LEVEL = "0.999999998"  # six standard deviations


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with domains and people, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domains.json").write_text(json.dumps(DOMAINS))
    PEOPLE.to_csv("people.csv", index=False)
    return tmp_path


def run(command, *argv):
    return main([command, *map(str, argv), "--domains", "domains.json"])


def assert_covers(rows):
    """Fails by chance once in 10**8 runs."""
    assert list(rows[0]) == ["column", *COLUMNS]
    listed = {n: range(one) if isinstance(one, int) else one for n, one in DOMAINS.items()}
    names = [(name, str(value)) for name, part in listed.items() for value in part]
    assert [(row["column"], row["category"]) for row in rows] == names
    truth = [share for part in TRUTH.values() for share in part]
    for row, share in zip(rows, truth, strict=True):
        assert float(row["low"]) <= share <= float(row["high"])


@pytest.mark.parametrize("first", [2**53, 1212092628029698048, 2**63 - 1, 2**64 - 3])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_ids_of_64_bits_stay_exact(first, suffix, tmp_path, monkeypatch):
    """Neighbors are two categories, beside a null; an undeclared neighbor is refused."""
    monkeypatch.chdir(tmp_path)
    domain = [first, first + 1, None]
    (tmp_path / "domains.json").write_text(json.dumps({"id": domain}))
    (tmp_path / "one.json").write_text(json.dumps(domain))

    def write(ids):
        table = pa.table({"id": pa.array(ids, pa.uint64())})
        (write_table if suffix == ".parquet" else write_csv)(table, f"people{suffix}")

    write([first, first + 1, first + 1, None] * 25)
    options = ["--epsilon", 20, "--seed", 0, "--output"]
    assert run("privatize", f"people{suffix}", *options, "reports.parquet") == 0
    raw = aggregate(["reports.parquet"], ColumnOracle(20.0, domains={"id": domain})).estimate_["id"]
    np.testing.assert_allclose(raw.values, [[0.25, 0.5, 0.25]], atol=1e-3)
    argv = [f"people{suffix}", "--value-column", "id", "--categories", "one.json", *options]
    assert main(["estimate", *map(str, argv), "estimate.parquet"]) == 0
    assert set(read_table("estimate.parquet")["category"].to_pylist()[:2]) == set(domain[:2])
    write([first, first + 2])
    assert run("privatize", f"people{suffix}", *options, "others.parquet") == 1


def test_a_search_of_several_columns_names_what_it_selects():
    search = HeldOutSearch([NormSub()])
    search.estimators_ = {"sex": SimpleNamespace(best_estimator_=NormSub())}
    assert _description(search) == "NormSub for 'sex', selected by HeldOutSearch"
    search.estimators_["age"] = SimpleNamespace()  # an average of all candidates
    assert _description(search) == "HeldOutSearch"


@pytest.mark.slow
def test_from_people_to_estimates(folder, capsys):
    assert run("privatize", "people.csv", "--epsilon", 4, "--output", "reports/a.parquet") == 0
    assert "6,000 reports of ColumnOracle; each user has spent epsilon 4" in capsys.readouterr().err
    PEOPLE.to_parquet("people.parquet")
    options = ["--epsilon", 4, "--output", "reports/b.arrows"]
    assert run("privatize", "people.parquet", *options) == 0
    assert run("aggregate", "reports", "--epsilon", 4, "--checkpoint", "state.npz") == 0
    assert "reports: 12000" in capsys.readouterr().out
    options = ["--epsilon", 4, "--level", LEVEL, "--post", "norm-sub"]
    out, err = ended(capsys, run("estimate", "state.npz", *options))
    assert "3 parts from 12,000 users, each asked for one of them; after NormSub" in err
    rows = rows_of(out)
    assert_covers(rows)
    for name in DOMAINS:  # counts are of all users, not of those who were asked
        counts = [float(row["count"]) for row in rows if row["column"] == name]
        assert sum(counts) == pytest.approx(12_000, abs=1)
    assert run("estimate", "state.npz", *options[:-1], "held-out-search") == 0
    assert "for 'sex', " in capsys.readouterr().err


def test_reports_are_those_of_the_library(folder, capsys):
    options = ["--epsilon", 4, "--oracle", "oue", "--seed", 0, "--output", "a.parquet"]
    assert run("privatize", "people.csv", *options) == 0
    oracle = ColumnOracle(4.0, domains=DOMAINS, oracle=OUE())
    assert read_reports("a.parquet", oracle).shape[0] == 6000
    assert aggregate(["a.parquet"], oracle).n_samples == 6000
    options = ["--epsilon", 4, "--checkpoint", "state.npz"]
    assert run("aggregate", "a.parquet", *options) == 1  # whose best oracles are others
    assert "a.parquet" in capsys.readouterr().err


def test_a_simulation_of_a_histogram(folder, capsys):
    table = PEOPLE.groupby(["sex", "age", "state"]).size().rename("count").reset_index()
    table.to_csv("histogram.csv", index=False)
    table.to_parquet("histogram.parquet")
    options = ["--epsilon", 4, "--seed", 0, "--level", LEVEL, "--output", "out.parquet"]
    assert "from 6,000 users" in ended(capsys, run("estimate", "histogram.csv", *options)).err
    first = pd.read_parquet("out.parquet")
    assert first.shape == (9, 8)
    assert_covers(first.astype(str).to_dict("records"))
    assert run("estimate", "histogram.parquet", *options) == 0
    pd.testing.assert_frame_equal(pd.read_parquet("out.parquet"), first)
    table.rename(columns={"count": "people"}).to_csv("named.csv", index=False)
    assert run("estimate", "named.csv", *options, "--count-column", "people") == 0
    pd.testing.assert_frame_equal(pd.read_parquet("out.parquet"), first)


def test_a_column_may_be_called_count(folder, capsys):
    (folder / "domains.json").write_text('{"count": 3, "sex": ["F", "M"]}')
    (folder / "people.csv").write_text("sex,count\n" + "F,2\nM,0\n" * 50)
    assert "2 parts from 100 users" in ended(capsys, run("estimate", "people.csv", "--seed", 1)).err


def test_standard_streams(folder, capsysbinary, monkeypatch):
    content = gzip.compress((folder / "people.csv").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert run("privatize", "-", "--output", "-", "--format", "jsonl") == 0
    (folder / "a.jsonl").write_bytes(capsysbinary.readouterr().out)
    assert len(read_reports("a.jsonl", ColumnOracle(1.0, domains=DOMAINS))) == 6000


def test_a_terminal_shows_a_table_per_column(folder, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run("estimate", "people.csv", "--seed", 0, "--sort", "frequency") == 0
    tables = terminal.getvalue().split("\n\n")
    assert [table.splitlines()[0] for table in tables] == list(DOMAINS)
    assert all("estimate" in table for table in tables)


def test_formulas_for_spreadsheets(folder, capsys):
    (folder / "domains.json").write_text('{"=sum": ["F", "M"], "age": 4}')
    (folder / "people.csv").write_text("=sum,age\n" + "F,2\nM,0\n" * 500)
    assert run("estimate", "people.csv", "--seed", 0) == 0
    assert "interprets the category '=sum' as a formula" in capsys.readouterr().err
    assert run("estimate", "people.csv", "--seed", 0, "--spreadsheet-safe") == 0
    assert rows_of(capsys.readouterr().out)[0]["column"] == "'=sum"


def test_a_column_that_nobody_was_asked_for(folder, capsys):
    (folder / "people.csv").write_text("sex,age,state\nF,1,north\n")
    out, err = ended(capsys, run("estimate", "people.csv", "--seed", 0, "--epsilon", 4))
    assert err.count("no user was asked for the column") == 2
    assert [row["frequency"] for row in rows_of(out)].count("nan") in (5, 6, 7)


def test_a_plan(folder, capsys):
    out, err = ended(capsys, run("plan", "--epsilon", 2, "--n-samples", 10_000, "--target", 0.02))
    assert "10,000 users, each asked for one of 3 columns at epsilon 2" in err
    rows = rows_of(out)
    plan = Plan(ColumnOracle(2.0, domains=DOMAINS))
    rmse, needed = plan.rmse(10_000), plan.users_for(half_width=0.02)
    assert [row["column"] for row in rows] == list(DOMAINS)
    assert [int(row["n_categories"]) for row in rows] == [2, 4, 3]
    assert sum(float(row["probability"]) for row in rows) == pytest.approx(1)
    for row in rows:
        assert float(row["rmse"]) == pytest.approx(rmse[row["column"]])
        assert int(row["users_needed"]) == needed[row["column"]]
    argv = ["plan", "--domains", "domains.json", "--n-samples", 10]
    assert run("plan", "--epsilon", 2, "--n-samples", 10, "--gap", 0.1, "--to", "order") == 0
    told = plan.users_for(order=0.1)
    for row in rows_of(capsys.readouterr().out):
        assert int(row["users_to_tell"]) == told[row["column"]]
    assert_fails([*argv, "--exponent", 2], capsys, "--exponent cannot be combined with --domains")


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ('{"sex": ["F", "M"],\n "age" 3}', ["domains.json, line 2: not well-formed JSON"]),
        ('["F", "M"]', ["expected a JSON object with the domain of each column", "got ['F', 'M']"]),
        ("{}", ["expected a JSON object", "got {}"]),
        ('{"sex": ["F", "M"], "sex": 2}', ["domains.json contains the key 'sex' twice"]),
        ('{"sex": []}', ["column 'sex' must be a list of categories or a number", "got []"]),
        ('{"sex": 0}', ["got 0"]),
        ('{"sex": true}', ["got True"]),
        ('{"sex": {"F": 1}}', ["got {'F': 1}"]),
        (
            '{"sex": ["F", 0.5]}',
            ["'sex' must list non-empty text", "got 0.5. Write other categories in double quotes"],
        ),
        ('{"sex": ["F", null, null]}', ["repeats"]),
        ('{"sex": ["F", ""]}', ["got ''"]),
        ('{"sex": ["F", "M", "F"]}', ["repeats 'F'. List each category once"]),
        ('{"sex": [1, "1"]}', ["repeats '1'"]),
        ('{"sex": 1, "age": 2}', ["'sex'"]),
    ],
)
def test_domains_that_are_refused(text, fragments, folder, capsys):
    (folder / "domains.json").write_text(text)
    argv = ["privatize", "people.csv", "--domains", "domains.json", "--output", "a.parquet"]
    assert_fails(argv, capsys, *fragments)
    assert not (folder / "a.parquet").exists()


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("sex,age,state\nF,1,north\nX,1,north\n", ["people.csv, line 3: a value in the column 's"]),
        (
            "sex,age,state\nF,9,north\n",
            ["line 2: a value in the column 'age'", "Add it to the domain"],
        ),
        ("sex,age,state\nF,01,north\n", ["line 2: a value in the column 'age'"]),
        ("sex,age,state\nF,,north\n", ["line 2: an empty value in the column 'age'", "null"]),
        ("sex,age\nF,1\n", ["people.csv has no column 'state'", "has 2 columns"]),
        ("sex,age,state,sex\nF,1,north,F\n", ["has the column 'sex' twice"]),
        ("sex,age,state\n", ["people.csv has a header but no rows"]),
        ("", ["people.csv is empty"]),
        ("sex,age,state\nF,1\n", ["line 2: expected 3 columns"]),
        (
            "sex,age,state,count\nF,1,north,-2\n",
            ["line 2: the number of users must be", "a value of type str"],
        ),
    ],
)
def test_people_who_are_refused(text, fragments, folder, capsys):
    (folder / "people.csv").write_text(text)
    argv = ["privatize", "people.csv", "--domains", "domains.json", "--output", "a.parquet"]
    assert_fails(argv, capsys, *fragments)
    assert not (folder / "a.parquet").exists()


def test_values_of_parquet_that_are_refused(folder, capsys):
    PEOPLE.assign(age=PEOPLE["age"].where(PEOPLE["age"] > 0)).to_parquet("holes.parquet")
    argv = ["privatize", "holes.parquet", "--domains", "domains.json", "--output", "a.parquet"]
    assert_fails(argv, capsys, "holes.parquet: ", "'age'")
    PEOPLE.astype({"sex": "category"}).assign(state=None).to_parquet("holes.parquet")
    assert_fails(argv, capsys, "holes.parquet: an empty value in the column 'state'")
    PEOPLE.astype({"sex": "category"}).to_parquet("fine.parquet")
    assert run("privatize", "fine.parquet", "--output", "a.parquet") == 0


@pytest.mark.parametrize(
    ("argv", "fragments"),
    [
        (["--no-header"], ["--no-header can be used only for a file of one column"]),
        (["--value-column", "sex"], ["--value-column can be used only for a file of one column"]),
        (["--count-column", "people"], ["has no column 'people'"]),
        (["--input-kind", "histogram"], ["has no column 'count'"]),
    ],
)
def test_options_of_one_column(argv, fragments, folder, capsys):
    assert_fails(["estimate", "people.csv", "--domains", "domains.json", *argv], capsys, *fragments)


def test_either_one_column_or_several(folder, capsys):
    argv = ["estimate", "people.csv", "--domains", "domains.json"]
    assert_fails([*argv, "--ordered"], capsys, "--ordered needs a domain from --categories")
    assert_fails([*argv, "--categories", "x.txt"], capsys, "not allowed with", code=2)
    argv[argv.index("--domains")] = "--categories"
    assert_fails(argv, capsys, "domains of several columns. Pass the file as --domains")
    assert_fails(
        ["aggregate", "a", "--checkpoint", "s.npz"], capsys, "--categories --domains", code=2
    )
    np.savez("state.npz", a=1)
    assert_fails(["estimate", "state.npz"], capsys, "--categories", "--domains")


@pytest.mark.filterwarnings("ignore:.*category of missing numbers")
def test_bins_and_missing_values_in_a_survey(tmp_path, capsys):
    people, domains = tmp_path / "people.csv", tmp_path / "domains.json"
    people.write_text("sex,age\n" + "F,17.5\nM,\n,70\nF,40\n" * 100)
    domains.write_text('{"sex": ["F", "M", null], "age": {"bins": [18, 65], "missing": true}}')
    argv = ["estimate", str(people), "--domains", str(domains), "--epsilon", "20"]
    rows = rows_of(said(capsys, *argv, "--post", "norm-sub").out)
    names = ["F", "M", "(missing)", "< 18", "[18, 65)", ">= 65", "(missing)"]
    assert [row["category"] for row in rows] == names
    for row, share in zip(rows, [0.5, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25], strict=True):
        assert float(row["frequency"]) == pytest.approx(share, abs=0.15)
    pd.read_csv(people).to_parquet(tmp_path / "people.parquet")
    argv[1] = str(tmp_path / "people.parquet")
    assert len(rows_of(said(capsys, *argv).out)) == 7
    domains.write_text('{"sex": ["F", "M"], "age": {"bins": [18, 65]}}')
    assert_fails(argv, capsys, "an empty value in the column 'sex'", "Add null to the domain")


def test_a_mismatch_says_what_differs(tmp_path, capsys):
    people, domains = tmp_path / "people.csv", tmp_path / "domains.json"
    reports, state = tmp_path / "reports.parquet", tmp_path / "state.npz"
    people.write_text("sex,age\n" + "F,1\nM,2\n" * 100)
    domains.write_text('{"sex": ["F", "M"], "age": 3}')
    given = ["--domains", str(domains)]
    assert main(["privatize", str(people), *given, "--output", str(reports)]) == 0
    assert main(["aggregate", str(reports), *given, "--checkpoint", str(state)]) == 0
    said(capsys, "estimate", state, *given)
    for options, message in (
        (["--epsilon", "2"], "epsilon 1.0 instead of 2.0"),
        (["--oracle", "oue"], "another mechanism, or another share of users or budget, of part_0"),
    ):
        assert_fails(["estimate", state, *given, *options], capsys, message)
    domains.write_text('{"sex": ["F", "M"], "age": 30}')
    error = said(capsys, "estimate", state, *given, code=1).err
    assert "n_categories 5 instead of 32" in error
    for noise in ("share", "{", "sha256"):
        assert noise not in error
