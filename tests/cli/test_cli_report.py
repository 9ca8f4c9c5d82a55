"""Reports on the command line, and options that files and checkpoints know already."""

import json
from fractions import Fraction

import numpy as np
import pytest
from test_cli import rows_of, said

from sklearn_ldp import GRR, OLH, ColumnOracle, Domain, FrequencyEstimate, NormSub
from sklearn_ldp.__main__ import main
from sklearn_ldp.collection import Aggregator, describe_reports, write_reports


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("red\ngreen\nblue\n")
    return tmp_path


def write(name, oracle, **options):
    reports = oracle.privatize(["red"] * 300 + ["blue"] * 100)
    write_reports(name, reports, oracle, **options)


COLOURS = ["red", "green", "blue"]
AGGREGATE = "aggregate a.jsonl --categories domain.txt --checkpoint state.npz"


@pytest.mark.parametrize(
    "oracle", [GRR(2.5, categories=COLOURS), OLH(0.5, categories=COLOURS, hash_family="mixing")]
)
def test_only_the_domain_is_asked_for(oracle, folder, capsys):
    name = type(oracle).__name__
    write("a.jsonl", oracle, collection_round="may 2026")
    write("b.jsonl", oracle, collection_round="may 2026")
    out = said(capsys, *AGGREGATE.split()).out
    assert f"oracle: {name}\nepsilon: {oracle.epsilon}\n" in out
    assert "collection_round: may 2026" in out
    assert main(AGGREGATE.replace("a.jsonl", "b.jsonl").split()) == 0  # as the checkpoint says
    assert "reports: 800" in capsys.readouterr().out
    assert main(["estimate", "state.npz", "--categories", "domain.txt"]) == 0
    assert f"by {name}(epsilon={oracle.epsilon:g}), 800 users" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--oracle oue", "--epsilon 1", "--round june"])
def test_what_is_given_counts_and_a_mismatch_says_what_reports_need(option, folder, capsys):
    write("a.jsonl", GRR(2.5, categories=COLOURS), collection_round="may")
    assert main([*AGGREGATE.split(), *option.split()]) == 1
    assert "The reports claim: --oracle grr --epsilon 2.5 --round may." in capsys.readouterr().err
    assert main(AGGREGATE.split()) == 0
    assert main(["estimate", "state.npz", "--categories", "domain.txt", *option.split()]) == 1
    assert "It claims: --oracle grr --epsilon 2.5 --round may." in capsys.readouterr().err


def test_a_pipe_cannot_be_asked(folder, capsys, monkeypatch):
    """As before: the defaults."""
    write("a.jsonl", GRR(2.5, categories=COLOURS))
    with open("a.jsonl", "rb") as file:
        monkeypatch.setattr("sys.stdin", type("Piped", (), {"buffer": file}))
        assert main(AGGREGATE.replace("a.jsonl", "- --format jsonl").split()) == 1
    assert "epsilon 2.5 instead of 1.0" in capsys.readouterr().err


CLAIMS = {"oracle": ["os.system", ["GRR"]], "epsilon": [-1.0, "2"], "collection_round": [3]}


@pytest.mark.parametrize(
    ("name", "claim"), [(key, one) for key, junk in CLAIMS.items() for one in junk]
)
def test_claims_are_checked(name, claim, folder, capsys):
    """What is no name of an oracle and no budget is not taken, and the file is refused."""
    write("a.jsonl", GRR(1.0, categories=COLOURS))
    header, *rows = (folder / "a.jsonl").read_text().splitlines()
    content = json.loads(header)
    content["configuration"][name] = claim
    (folder / "a.jsonl").write_text("\n".join([json.dumps(content), *rows]) + "\n")
    assert "instead of" in said(capsys, *AGGREGATE.split(), code=1).err
    assert not (folder / "state.npz").exists()


def test_a_survey_and_bins(folder, capsys):
    bins = Domain.bins(4, bounds=(0, 8))
    (folder / "ages.json").write_text('{"bins": 4, "bounds": [0, 8]}')
    oracle = OLH(2.0, categories=bins)
    write_reports("a.jsonl", oracle.privatize(np.arange(8)), oracle)
    assert main(["aggregate", "a.jsonl", "--categories", "ages.json", "--checkpoint", "s.npz"]) == 0
    command = "estimate s.npz --categories ages.json --post monotone-cdf --html out/ages.html"
    assert main([*command.split(), "--question", "How old?"]) == 0
    page = (folder / "out" / "ages.html").read_text()
    assert "<h1>How old?</h1>" in page
    assert "4 bins from 0 to 8" in page


def test_a_report_of_several_columns(folder, capsys):
    (folder / "domains.json").write_text('{"sex": ["F", "M"], "visits": 3}')
    (folder / "people.csv").write_text("sex,visits\n" + "F,0\nM,2\n" * 500)
    command = "estimate people.csv --domains domains.json --epsilon 4 --html report.html"
    assert main(command.split()) == 0
    page = (folder / "report.html").read_text()
    assert "<h1>sex</h1>" in page
    assert "<h1>visits</h1>" in page
    assert main([*command.split()[:-1], "report.txt"]) == 1
    assert "--html report.txt: the name must end in .html" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_plot_of_a_checkpoint(suffix, folder):
    """The file has the format of its suffix, and its folder is created."""
    write("a.jsonl", GRR(2.5, categories=COLOURS))
    assert main(AGGREGATE.split()) == 0
    command = f"estimate state.npz --categories domain.txt --plot out/colors.{suffix}"
    assert main(command.split()) == 0
    begin = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert (folder / "out" / f"colors.{suffix}").read_bytes().startswith(begin)


def test_a_plot_has_the_order_and_the_title_of_the_options(folder, monkeypatch):
    mpl = pytest.importorskip("matplotlib")
    (folder / "values.txt").write_text("red\n" * 100 + "green\n" * 900)
    (folder / "domain.txt").write_text("red\ngreen\n")
    command = "estimate values.txt --categories domain.txt --epsilon 5 --seed 0 --plot"
    drawn = []
    plot = FrequencyEstimate.plot
    monkeypatch.setattr(
        FrequencyEstimate, "plot", lambda self, **kw: drawn.append(kw) or plot(self, **kw)
    )
    with mpl.rc_context({"svg.fonttype": "none"}):
        assert main([*command.split(), "a.svg"]) == 0
        options = ["--sort", "frequency", "--question", "Which color?"]
        assert main([*command.split(), "b.svg", *options]) == 0
    assert len(drawn) == 2  # one picture of each command
    plain, sorted_plot = ((folder / name).read_text() for name in ("a.svg", "b.svg"))
    assert plain.index(">red<") < plain.index(">green<")
    assert sorted_plot.index(">green<") < sorted_plot.index(">red<")
    assert "Which color?" in sorted_plot


def test_a_plot_of_several_columns(folder):
    (folder / "domains.json").write_text('{"sex": ["F", "M"], "visits": 3}')
    (folder / "people.csv").write_text("sex,visits\n" + "F,0\nM,2\n" * 500)
    command = "estimate people.csv --domains domains.json --epsilon 4 --plot out.png"
    assert main(command.split()) == 0
    assert (folder / "out.png").stat().st_size > 0


def test_a_plot_is_refused_before_any_work(folder, capsys, monkeypatch):
    """An unknown format, or a missing matplotlib, is an error with its remedy."""
    write("a.jsonl", GRR(2.5, categories=COLOURS))
    assert main(AGGREGATE.split()) == 0
    command = ["estimate", "state.npz", "--categories", "domain.txt", "--plot"]
    assert main([*command, "out.gif"]) == 1
    assert "--plot out.gif: the name must end in .png, .svg, .pdf" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main([*command, "out.png"]) == 1
    assert "Run pip install 'sklearn_ldp[plot]'" in capsys.readouterr().err
    assert not (folder / "out.png").exists()


@pytest.fixture
def state(folder, capsys):
    write("a.jsonl", GRR(2.5, categories=COLOURS))
    said(capsys, *AGGREGATE.split())
    return ["estimate", "state.npz", "--categories", "domain.txt", "--post", "norm-sub"]


def test_the_intervals_are_valid_for_one_look_or_for_all(state, folder, capsys):
    """As on the results page of `serve`: the table, the page and its code agree with Python."""
    estimate = Aggregator.load("state.npz", GRR(2.5, categories=COLOURS)).estimate_
    estimate = NormSub().fit_transform(estimate)
    for looks, option in ((False, []), (True, ["--all-looks"])):
        rows = rows_of(said(capsys, *state, *option, "--html", "page.html").out)
        description = estimate.describe(at_all_times=looks)
        for end in ("low", "high"):
            expected = [row[end] for row in description["rows"]]
            np.testing.assert_allclose([float(row[end]) for row in rows], expected, rtol=1e-8)
        assert {row["interval"].endswith(" at all looks") for row in rows} == {looks}
        page = (folder / "page.html").read_text()
        assert page == _page(estimate.report(at_all_times=looks), folder)
        assert ("valid for all looks" in page, "valid for one look" in page) == (looks, not looks)
        assert ("with a probability of 95 % at all looks at the growing" in page) == looks
        assert ("with a probability of 95 % at one look, not at" in page) == (not looks)
        assert ("estimate.report(level=0.95, at_all_times=True)" in page) == looks


def _page(report, folder):
    report.save(folder / "python.html")
    return (folder / "python.html").read_text()


@pytest.mark.parametrize(
    "argv",
    [
        "state.npz --categories domain.txt --plot a.png",
        "state.npz state.npz --categories domain.txt",
        "state.npz state.npz --categories domain.txt --change",
        "state.npz --domains domains.json",
        "people.csv --strings abc",
    ],
)
def test_all_looks_is_refused_if_a_result_would_ignore_it(argv, state, folder, capsys):
    (folder / "domains.json").write_text('{"colour": ["red", "blue"]}')
    err = said(capsys, "estimate", *argv.split(), "--all-looks", code=1).err
    assert "--all-looks needs a single column in one file, without --strings and --plot" in err


def test_a_simulation_says_that_another_call_differs(state, folder, capsys):
    """The negative controls are a seed and real reports, which give the same estimate again."""
    (folder / "people.csv").write_text("value\n" + "red\n" * 99 + "blue\n")
    remedy = "run `privatize` and `aggregate` once, and then `estimate state.npz`"
    argv = ["estimate", "people.csv", "--categories", "domain.txt", "--post", "norm-sub"]
    assert remedy in said(capsys, *argv).err
    assert remedy not in said(capsys, *argv, "--seed", "0").err
    assert remedy not in said(capsys, *state).err


def test_a_collection_shows_probabilities_as_decimals(state, folder, capsys):
    """The exact ones are in the configuration. Other texts with a slash, as of a round, stay."""
    out = said(capsys, *AGGREGATE.split()).out
    assert "p: 0.858981\nq: 0.0705095\n" in out
    exact = describe_reports("a.jsonl")["configuration"]["p"]
    assert len(exact) > 30
    assert float(Fraction(exact)) == pytest.approx(0.858981, abs=5e-7)
    oracle = ColumnOracle(1.0, domains={"a": COLOURS, "b": 10})
    out = str(Aggregator(oracle, collection_round="5/2026").summary())
    assert "collection_round: 5/2026\n" in out
    assert '"p": "0.' in out
    assert "/" not in out.replace("5/2026", "")
