"""The papers' study: its figures on tiny data, and its verdicts on wrong numbers."""

import csv
import dataclasses
import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from sklearn_ldp import BaseCut, FrequencyEstimate, MLEApx, NoiseModel
from sklearn_ldp.datasets import make_zipf, read_histogram
from sklearn_ldp.model_selection import ErrorStudy
from sklearn_ldp.postprocessing import BasePostProcessor, norm_cut, power, power_law_exponent

main = importlib.import_module("benchmarks.papers.__main__")
claims = importlib.import_module("benchmarks.papers._claims")
figure = importlib.import_module("benchmarks.papers._figure")
measures = importlib.import_module("benchmarks.papers._measures")
methods = importlib.import_module("benchmarks.papers._methods")
report = importlib.import_module("benchmarks.papers._report")
paper2020 = importlib.import_module("benchmarks.papers.paper2020")
populations = importlib.import_module("benchmarks.papers._populations")
published = importlib.import_module("benchmarks.papers._published")

ROOT = Path(__file__).parents[2]
ERRORS = {"population", "epsilon", "postprocessor", "error", "standard_error"}
COLUMNS = {
    "2020-table1": {"postprocessor", "is_non_negative", "sums_to_one", "keeps_order"},
    "2020-oracles": {"oracle", "epsilon", "d", "noise", "sum_std"},
    "2020-fig1": {"postprocessor", "rank", "count", "mean"},
    "2020-fig2": {"postprocessor", "rank", "bias", "bias_sum", "bias_sum_error"},
    "2020-fig3": {"postprocessor", "rank", "variance"},
    "2020-fig5": {"postprocessor", "n_samples", "equivalent_n_samples", "saved"},
    "2020-fig9": {"synthesizer", "epsilon", "postprocessor", "error", "true_error", "is_chosen"},
    "2019-table1": {"postprocessor", "is_non_negative", "sums_to_one", "keeps_order"},
    "2019-table2": {"population", "published_n", "n", "published_d", "d"},
    "2019-fig6": {"population", "rank", "count"},
    "calibrate-fig3": {"population", "count", "fraction"},
    "calibrate-fig4": {"noise", "fraction", "normal", "std", "theory_std"},
    "calibrate-fig5": {"score", "threshold", *ERRORS},
    "calibrate-fig9": {"score", "threshold", *ERRORS},
    "calibrate-readings": {"reading", "epsilon", "zero_over_ours_minus_one"},
    "stand-ins": {"data", "epsilon", "gain", "gain_error", "change"},
    "2020-choice": {"data", "queries", "postprocessor", "over_least", "is_choice"},
    "2019-oracles": {"oracle", "epsilon", "side", "d", "noise"},
    "2019-cut-sum": {"population", "mean_sum", "mean_sum_error"},
}


class Tiny(figure.Settings):
    """Two points on each axis."""

    def grid(self, values, quick):
        return [float(value) for value in quick[:2]]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="only POSIX has the signal of a closed pipe")
def test_a_closed_pipe_ends_the_list_without_an_error():
    """As of `.. --list | head -1`."""
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-m", "benchmarks.papers", "--list"]
    done = subprocess.run(argv, cwd=ROOT, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Return settings of a study on a domain of 40 categories, whatever the data."""

    def load(key, data):
        exponent = 1.0 + len(key) / 10
        counts = make_zipf(2000, 40, exponent=exponent, return_counts=True, random_state=0)
        labels = np.arange(40) % 5
        names = ("subcategory", "category", "division", "first letter")
        groups = dict.fromkeys(names, labels)
        return populations.Population(key, counts, "", "", groups=groups)

    monkeypatch.setattr(figure, "load", load)
    head = tmp_path / "KOSARAK_FULL_HEAD156.csv.gz"
    head.write_text("value,count\n" + "".join(f"{i},{100 - i}\n" for i in range(20)))
    return Tiny(tmp_path, quick=True, repeats=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", main.FIGURES)
def test_figures_are_tidy_tables_with_a_picture(tiny, name, tmp_path):
    made = main.FIGURES[name]
    table = made.compute(tiny)
    assert set(figure.columns(table)) >= COLUMNS.get(name, ERRORS)
    figure.write_csv(table, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        header, *rows = list(csv.reader(file))
    assert set(header) == set(figure.columns(table))
    assert len(rows) == len(next(iter(figure.columns(table).values()))) > 0
    numbers = [row[header.index("error")] for row in rows] if "error" in header else ["0"]
    assert np.all(np.isfinite(np.array(numbers, dtype=float)))
    if made.draw is not None:
        assert any(ax.lines for ax in made.draw(table).axes)


def test_the_papers_layout(tiny):
    """Two panels per row: Base to Norm-Sub on the left, Norm-Sub and the rest on the right."""
    made = main.FIGURES["2020-fig4"]
    axes = made.draw(made.compute(tiny)).axes
    names = [[text.get_text() for text in ax.get_legend().get_texts()] for ax in axes]
    left = ["Base", "Base-Pos", "Post-Pos", "Norm", "Norm-Mul", "Norm-Sub"]
    right = ["Norm-Sub", "MLE-Apx", "Base-Cut", "Norm-Cut", "Power", "PowerNS"]
    assert [set(n) for n in names] == 2 * [set(left), set(right)]
    assert {ax.get_yscale() for ax in axes} == {"log"}


def test_every_figure_of_the_papers_is_there(capsys):
    assert main.main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(main.FIGURES)
    names = set(main.FIGURES)
    assert names >= {"2020-table1", *(f"2020-fig{i}" for i in range(1, 11))}
    assert names >= {"2019-table1", "2019-table2", *(f"2019-fig{i}" for i in range(1, 10))}
    assert names >= {f"calibrate-fig{i}" for i in range(3, 10)}
    assert {figure for claim in published.CLAIMS for figure in claim.figures} <= names


def test_the_files_of_claims_name_the_methods_of_the_papers():
    for name, wanted in (("paper2020", methods.METHODS_2020), ("paper2019", methods.METHODS_2019)):
        listed = yaml.safe_load((published.FOLDER / f"{name}.yaml").read_text("utf-8"))["methods"]
        assert set(listed["all"]) == set(wanted)
        assert listed["left"] == methods.LEFT
        assert all(set(names) <= set(wanted) for names in listed.values())


def test_shared_statements_are_made_once_for_each_paper():
    shared = yaml.safe_load((published.FOLDER / "shared.yaml").read_text("utf-8"))["statements"]
    assert len(shared) >= 12
    for row in shared:
        for paper in (published.PAPER_2020, published.PAPER_2019):
            (claim,) = (c for c in paper.claims if c.text == row["says"])
            assert claim.figures[0] in row["figures"].values()
            assert claim.kind == row.get("kind", "statement")
    # Those about Power have a reading by the authors' code.
    twins = [claim for claim in published.CLAIMS if claim.note == methods.BY_CODE]
    assert len(twins) == 9
    assert all(claim.figures[0].startswith("2019") for claim in twins)
    texts = {claim.text for claim in published.CLAIMS if claim.kind == "statement"}
    assert {claim.text.removeprefix("the same: ") for claim in twins} <= texts


def test_a_measurement_of_a_file_is_the_call_that_it_names(result):
    study = result("2020-fig4")
    names = [name for name, _ in measures.of_points(study, epsilon="< 3")]
    assert names == ["epsilon 0.2", "epsilon 1"]

    def read(text):
        return published.measured_as(yaml.safe_load(text))(study)

    norm = measures.ratio(study, "Norm", "Base", epsilon="< 3")
    sub = measures.ratio(study, "Norm-Sub", "Base", epsilon="< 3")
    of_norm, of_sub = (f"{{ratio: [{name}, Base], epsilon: < 3}}" for name in ("Norm", "Norm-Sub"))
    assert read(of_norm) == norm
    assert read(f"[{of_norm}, {of_sub}]") == norm + sub
    assert read("{ratio: ['{}', Base], epsilon: < 3, for: [Norm, Norm-Sub]}") == [
        one._replace(where=f"{name}, {one.where}")
        for name, found in (("Norm", norm), ("Norm-Sub", sub))
        for one in found
    ]
    everything = str(study["queries"][0])
    at = read(f"{{all: [{of_norm}], at: ['{everything}']}}")
    assert at == [one._replace(where=f"{everything}, {one.where}") for one in norm]
    (one, *_) = read("{ratio: [Norm, Base], epsilon: < 3, log10: true}")
    assert one.value == pytest.approx(np.log10(norm[0].value))
    assert one.error == pytest.approx(norm[0].error / norm[0].value / np.log(10))
    for wrong, error in (("{ration: [Norm, Base]}", AttributeError), ("{ratio: Norm}", TypeError)):
        with pytest.raises(error):
            read(wrong)


# -- verdicts -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (10.0, 0.1, "reproduced"),
        (10.9, 0.1, "undecided"),
        (11.1, 0.1, "undecided"),
        (11.3, 0.1, "not reproduced"),
        (8.0, 0.1, "not reproduced"),
        (np.nan, 0.1, "not reproduced"),
        (10.0, np.nan, "not reproduced"),
        (10.0, np.inf, "not reproduced"),
    ],
)
def test_verdict_of_a_number(value, error, verdict):
    one = measures.Measured("", value, error)
    assert claims.judge_one(claims.near(10, absolute=1), one) == verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([10, 10.5], "reproduced"),
        ([10, 20, 10], "in part: 2 of 3 points"),
        ([20, 30], "not reproduced"),
        ([11, 30], "not reproduced"),
        ([10, 11], "undecided"),
        ([], "no data"),
    ],
)
def test_verdict_of_a_claim(values, verdict):
    measured = [measures.Measured("", value, 0.1) for value in values]
    claim = claims.Claim(("x",), "", claims.near(10, relative=0.1), lambda table: measured)
    assert claims.judge(claim, None).verdict == verdict


def test_populations_are_judged_by_themselves():
    table = figure.Table(population=np.array(["a", "b", "c"]), value=np.array([10.0, 20.0, 10.0]))

    def but_c(part):
        return [measures.Measured("", v) for v in part["value"] if part["population"] != "c"]

    claim = claims.Claim(("x",), "", claims.near(10, relative=0.1), but_c)
    found = claims.judge_each(claim, {"x": table, "z": None})
    assert [(f.data, f.verdict) for f in found] == [("a", "reproduced"), ("b", "not reproduced")]
    plain = figure.Table(value=np.array([10.0]))
    one = [measures.Measured("", 10.0)]
    claim = dataclasses.replace(claim, measure=lambda part: one)
    assert [f.verdict for f in claims.judge_each(claim, {"x": plain})] == ["reproduced"]


def test_a_statement_counts_once_and_checks_and_readings_do_not():
    """One statement on two data sets of two figures, one check and one reading."""
    tables = {
        name: figure.Table(population=np.array([data]), value=np.array([value]))
        for name, data, value in (("x", "a", 10.0), ("y", "b", 20.0))
    }

    def values(part):
        return [measures.Measured("", value) for value in part["value"]]

    findings = []
    for kind in ("statement", "check", "reading"):
        claim = claims.Claim(("x", "y"), kind, claims.near(10, relative=0.1), values, kind=kind)
        findings += claims.judge_each(claim, tables)
    assert [one.verdict for one in findings[:2]] == ["reproduced", "not reproduced"]
    (pooled, *_) = claims.by_claim(findings)
    assert (pooled.figure, pooled.data) == ("x, y", "a, b")
    assert pooled.verdict == "in part: 1 of 2 points"
    text = report._counts(findings)
    assert text == "1 statements: 1 in part; beside them 1 checks: 1 hold in part"


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["reproduced", "reproduced"], "stands"),
        (["reproduced", "not reproduced"], "stands in part"),
        (["in part: 1 of 2 points"], "stands in part"),
        (["reproduced", "undecided"], "stands in part"),
        (["not reproduced"], "does not stand"),
        (["undecided"], "undecided"),
    ],
)
def test_a_conclusion_stands_on_its_statements(verdicts, expected):
    assert claims.standing(verdicts) == expected


def test_every_conclusion_rests_on_statements_and_every_key_is_used():
    keys = [claim.key for claim in published.CLAIMS if claim.key]
    assert len(keys) == len(set(keys))
    assert all(claim.kind == "statement" for claim in published.CLAIMS if claim.key)
    used = {key for conclusion in published.CONCLUSIONS for key in conclusion.rests_on}
    assert used <= set(keys)


def test_a_sentence_that_is_not_judged_says_why():
    for paper, section, sentence, reason in published.NOT_JUDGED:
        assert all((paper, section))
        assert min(len(sentence), len(reason)) > 10
    assert len({tuple(row[:3]) for row in published.NOT_JUDGED}) == len(published.NOT_JUDGED)


def test_the_expected_error_of_base_takes_the_chance_out_of_the_others(result):
    """A ratio to Base has its exact denominator, and the least of two standard errors.

    Negative control: an expectation that is 10 % too large moves the ratio by as much.
    """
    study = result("2020-fig4")
    (plain,) = study.select(epsilon=1.0, postprocessor=["Norm"]).errors
    (base,) = study.select(epsilon=1.0, postprocessor=["Base"]).errors
    one = measures.ratio(study, "Norm", "Base", epsilon=1.0)[0]
    assert abs(one.value - (1 - 1 / 1024)) < 5 * one.error
    assert one.error < plain.std(ddof=1) / np.sqrt(len(plain)) / base.mean() / 3
    expected = study.select(epsilon=1.0, postprocessor=["Base"])["expected_base"][0]
    assert abs(base.mean() - expected) < 5 * base.std(ddof=1) / np.sqrt(len(base))
    columns = study.columns | {"expected_base": 1.1 * study["expected_base"]}
    (mul,) = measures.ratio(ErrorStudy(columns, study.errors), "Norm-Mul", "Base", epsilon=1.0)
    (right,) = measures.ratio(study, "Norm-Mul", "Base", epsilon=1.0)
    assert abs(mul.value - right.value) > 2 * right.error


def test_power_without_the_two_is_power_with_less_noise():
    """Eq. 10 without the factor 2 in its normal density, summed directly."""
    n, d, noise = 400, 3, NoiseModel(p=0.5, q=0.3, n_samples=400)
    estimate = FrequencyEstimate([[0.6, 0.3, 0.02]], range(d), noise)
    made = methods.PowerWithoutHalf().fit_transform(estimate).values[0]
    k = np.arange(1, n + 1)
    prior = k ** -power_law_exponent(n, d)
    z = (estimate.values[0][:, None] - k / n) / float(noise.std)
    for factor, same in ((1.0, True), (0.5, False)):
        weight = np.exp(-factor * z**2) * prior
        direct = (weight @ k) / weight.sum(axis=1) / n
        assert np.allclose(made, direct, rtol=1e-5) == same


def test_bands_that_are_ours_say_so():
    for band in (claims.near(1, absolute=1), claims.about(1), claims.at_most(1, ours=True)):
        assert band.text.endswith("(ours)")
    assert "ours" not in claims.at_least(100).text + claims.between(1, 2).text
    assert claims.near(200, relative=0.1)[:2] == (180, 220)
    assert claims.about(10, 2)[:2] == (5, 20)
    assert claims.at_least(3)[:2] == (3, np.inf)
    assert claims.at_most(3)[:2] == (-np.inf, 3)
    assert claims.between(1, 2)[:2] == (1, 2)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Return a figure on Zipf data, which needs no file; each is computed only once."""
    folder, made = tmp_path_factory.mktemp("none"), {}

    def compute(name):
        if name not in made:
            # Sums of biases need many runs to be told from wrong ones; sets have ten times as many.
            repeats = 4 if name == "2020-fig6" else 30
            settings = figure.Settings(folder, quick=True, repeats=repeats)
            made[name] = main.FIGURES[name].compute(settings)
        return made[name]

    return compute


def _claim(text):
    (found,) = (c for c in published.PAPER_2020.claims if text in c.text)
    return found


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param("Base-Pos: 711", -800_000, marks=pytest.mark.slow),
        pytest.param("Base-Cut: −137", -150_000, marks=pytest.mark.slow),
        pytest.param("Power: −96", -110_000, marks=pytest.mark.slow),
        pytest.param("Norm-Sub: 0", 50, marks=pytest.mark.slow),
        pytest.param("0, rescaled", 50, marks=pytest.mark.slow),
        ("around half", 0.3),
        ("very close to Norm", 1.1),
        ("sum to 1 is symmetric about ρ = 50", 1.2),
    ],
)
def test_what_the_papers_print_is_reproduced_and_a_tampered_number_is_not(result, text, wrong):
    """Error rate: bands extend at least 2.5 standard errors to either side of the expectation."""
    claim = _claim(text)
    assert claims.judge(claim, result(claim.figures[0])).verdict == "reproduced"
    slack = (claim.band.high - claim.band.low) / 2
    tampered = dataclasses.replace(claim, band=claims.near(wrong, absolute=slack))
    assert claims.judge(tampered, result(claim.figures[0])).verdict == "not reproduced"


def test_a_tampered_method_is_found_out(result):
    """Base under the name of Norm-Sub has no factor of 10 and no likeness to MLE-Apx."""
    study = result("2020-fig4")
    errors = study.errors.copy()
    is_base, is_sub = (study["postprocessor"] == name for name in ("Base", "Norm-Sub"))
    errors[is_sub] = errors[is_base]
    wrong = ErrorStudy(study.columns, errors)
    for text in ("factor of 10 (Zipf's)", "almost exactly"):
        claim = _claim(text)
        assert claims.judge(claim, study).verdict != "not reproduced"
        assert claims.judge(claim, wrong).verdict == "not reproduced"


@pytest.mark.slow
def test_norm_cut_by_definition_is_short_of_1(result):
    finding = claims.judge(_claim("by the papers' definition"), result("2020-fig2"))
    assert finding.verdict == "not reproduced"
    assert -3000 < finding.measured[0].value < -1000


def test_paired_ratio_has_the_error_of_the_jackknife():
    rng = np.random.default_rng(0)
    bottom = rng.gamma(50, size=200)
    top = 2 * bottom + rng.normal(size=200)
    value, error = measures.paired_ratio(top, bottom)
    left_out = [np.delete(top, i).mean() / np.delete(bottom, i).mean() for i in range(200)]
    assert value == pytest.approx(top.mean() / bottom.mean())
    assert error == pytest.approx(np.std(left_out) * np.sqrt(199), rel=0.02)


# -- data -----------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "file", "n", "d"),
    [
        ("emoji-twitter", "EMOJI_TRACKER2019_N884427.csv.gz", 884_427, 845),
        ("emoji", "EMOJI_TRACKER2019_N884427.csv.gz", 884_427, 1573),
        ("census", "US1940_CITY_1PCT_TOP915.csv.gz", 612_404, 915),
        ("pos", "RETAIL_one_item.csv.gz", 515_597, 1657),
        ("fire", "FIRE_WEEK_JAN2017.csv.gz", 305_132, 742),
        ("kosarak", "KOSARAK_PREFIX36682_one_item.csv.gz", 990_002, 42_178),
        ("kosarak-clicks", "KOSARAK_FULL_HEAD156.csv.gz", 8_019_015, 41_270),
        ("kosarak-prefix", "KOSARAK_PREFIX36682_all_clicks.csv.gz", 8_019_015, 41_270),
        ("retail", "RETAIL.csv.gz", 908_576, 16_470),
    ],
)
def test_sizes_of_the_data(shared_data, key, file, n, d):
    population = populations.load(key, shared_data(file).parent)
    assert (population.n_samples, len(population.counts)) == (n, d)
    assert population.counts.min() >= 0
    assert population.is_exact == (key == "retail")


def test_the_head_of_kosarak_is_exact_and_every_page_has_a_click(shared_data):
    path = shared_data("KOSARAK_FULL_HEAD156.csv.gz")
    counts = populations.load("kosarak-clicks", path.parent).counts
    head = read_histogram(path).counts
    np.testing.assert_array_equal(counts[: len(head)], head)
    assert counts.min() >= 1
    prefix = populations.load("kosarak-prefix", path.parent).counts
    assert np.count_nonzero(prefix) == 17_034


def test_groups_are_real_and_as_many_as_the_report_says(shared_data):
    """Nobody has drawn a label: they are those of the files, of the package or of letters."""
    folder = shared_data("EMOJI_TRACKER2019_N884427.csv.gz").parent
    found = paper2020.grouped(figure.Settings(folder))
    sizes = {name: queries.matrix(len(one.counts)).shape for name, (one, queries) in found.items()}
    assert sizes == {
        "Emoji, subcategories": (93, 845),
        "Emoji, categories": (9, 845),
        "IPUMS, states": (50, 915),
        "IPUMS, divisions": (9, 915),
        "US states, divisions": (9, 51),
        "Letters, first letters": (26, 676),
    }
    again = paper2020.grouped(figure.Settings(folder, seed=1))
    for name, (one, queries) in found.items():
        other = again[name][1].matrix(len(one.counts))
        assert (queries.matrix(len(one.counts)) != other).nnz == 0


@pytest.mark.slow
def test_the_choice_is_printed_in_the_report(tiny, tmp_path):
    made = main.FIGURES["2020-fig9"]
    table = made.compute(tiny)
    found = figure.columns(made.summary(table))
    assert len(found["best"]) == 2 * len(np.unique(table["population"]))
    blocks = report.figure_blocks("2020-fig9", made, table, tiny, {"2020-fig9": 1.0})
    assert "regret by NormSub" in "".join(map(str, blocks))


def test_a_part_is_completed_to_the_law_of_the_whole():
    """Counts of 1, 10 and 400 come back from 5 % of the users; negative control: plain scaling.

    4,000 categories leave a relative error of less than 3 % on the share of large categories.
    """
    rng = np.random.default_rng(0)
    whole = rng.choice([1, 10, 400], p=[0.5, 0.3, 0.2], size=4000)
    part = rng.binomial(whole, 0.05)
    made = populations.completed(part, 0.05, rng)
    assert made.min() >= 1
    assert np.all(made >= part)
    assert made.sum() == pytest.approx(whole.sum(), rel=0.05)
    assert np.mean(made > 100) == pytest.approx(np.mean(whole > 100), rel=0.03)
    small = np.mean(whole < 5)
    assert np.mean(made < 5) == pytest.approx(small, rel=0.2)
    assert np.mean(part / 0.05 < 5) != pytest.approx(small, rel=0.2)


def test_scaled_keeps_the_sum_and_the_frequencies():
    counts = np.array([7, 0, 2, 1])
    np.testing.assert_array_equal(populations.rounded(counts, 100), [70, 0, 20, 10])
    assert populations.rounded(counts, 1001).sum() == 1001
    np.testing.assert_array_equal(populations.scaled_part(counts, 20, 6), [14, 0, 4, 2, 0, 0])


def test_what_is_not_there_is_left_out(tmp_path, capsys):
    assert populations.load("emoji", tmp_path) is None
    arguments = ["2019-fig4", "--output", str(tmp_path), "--data", str(tmp_path)]
    assert main.main(arguments) == 1
    assert "left out, no data (census)" in capsys.readouterr().out


def test_every_file_of_the_data_has_a_source(tmp_path):
    """The populations that cannot be loaded from an empty folder are those with files."""
    keys = {key for key in populations._MAKERS if populations.load(key, tmp_path) is None}
    assert keys == set(populations._FILES)
    names = {name for files in populations._FILES.values() for name in files}
    assert names == set(populations._SOURCES)
    text = populations.missing_data(["kosarak-clicks"], tmp_path)
    assert text.count("KOSARAK_") == 2
    assert str(tmp_path) in text


# -- the command ----------------------------------------------------------------------------------


def test_one_command_writes_tables_pictures_and_reports(tmp_path, capsys):
    names = ["2020-table1", "2020-fig4"]
    folder = tmp_path / "out"
    arguments = ["--quick", "--repeats", "2", "--n-jobs", "1", "--seed", "3"]
    arguments += ["--output", str(folder), "--data", str(tmp_path)]
    assert main.main([*names, *arguments]) == 0
    shown = capsys.readouterr().out
    assert "2020-fig4: " in shown
    assert "without the panels of emoji" in shown
    assert "EMOJI_TRACKER2019_N884427.csv.gz: uses of each emoji" in shown
    assert "(its data or points are not computed)" in shown
    assert "Omit it to decide more statements" in shown
    files = {path.name for path in folder.iterdir()}
    csvs = {f"{name}.csv" for name in names}
    assert files == {"2020-fig4.png", "report.md", *csvs}
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert re.findall(r"!\[.*\]\((.*)\)", text) == ["2020-fig4.png"]
    assert "its file is not there" in text  # of the emojis
    assert "The experiments 2020-table1, 2020-fig4, computed" in text
    assert "2019 (arXiv" not in text  # the report has only the requested figures
    assert "Sentences that are not judged" not in text
    printed = text.partition("## Printed numbers beside ours")[2].partition("\n## ")[0]
    assert "| about 10 |" in printed
    assert (
        "Norm-Sub reduces the MSE of Base by about a factor of 100"
        in text.partition("## Without a verdict")[2]
    )
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        pipes = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(pipes) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["2020-fig11"], "no figure '2020-fig11'"), (["--repeats", "1"], "2 or more")],
)
def test_bad_arguments(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main.main(arguments)
    assert message in capsys.readouterr().err


# -- the power of the verdicts --------------------------------------------------------------------
class Wrong(BasePostProcessor):
    """A wrong implementation: a function of raw values, and of their noise."""

    def __init__(self, function):
        self.function = function

    def _process(self, estimate):
        return estimate.with_values(self.function(estimate.values, estimate.noise), by="wrong")


def _norm_sub_in_one_pass(values, noise):
    positive = np.maximum(values, 0)
    n_positive = np.count_nonzero(values > 0, axis=1, keepdims=True)
    shift = (1 - positive.sum(axis=1, keepdims=True)) / n_positive
    return np.maximum(np.where(values > 0, values + shift, 0), 0)


def _mle_with_the_wrong_sign(values, noise):
    """What the right one adds to each estimate is taken away."""
    estimate = FrequencyEstimate(values, range(values.shape[1]), noise)
    change = MLEApx().fit_transform(estimate).values - values
    return np.maximum(values - change, 0)


def _power_with_a_larger_exponent(values, noise):
    n, d = int(noise.n_samples), values.shape[1]
    return power(values, float(noise.std), n, 1.1 * power_law_exponent(n, d))


def _norm_that_rescales(values, noise):
    return values / values.sum(axis=1, keepdims=True)


WRONG = {
    "Norm-Sub": _norm_sub_in_one_pass,
    "MLE-Apx": _mle_with_the_wrong_sign,
    "Power": _power_with_a_larger_exponent,
    "Norm": _norm_that_rescales,
    "Base-Pos": lambda values, noise: np.abs(values),
    "Norm-Mul": lambda values, noise: np.maximum(values, 0),
    "PowerNS": lambda values, noise: _norm_sub_in_one_pass(
        _power_with_a_larger_exponent(values, noise), noise
    ),
}
MUTANTS = {
    **{name: (name, Wrong(function)) for name, function in WRONG.items()},
    "Base-Cut, alpha 20": ("Base-Cut", BaseCut(alpha=20.0)),
    "Norm-Cut, twice as much": ("Norm-Cut", Wrong(lambda v, noise: norm_cut(v / 2).clip(0) * 2)),
    "OLH with g = 2": ("", None),
}
JUDGED = ["2020-table1", "2020-fig2", "2020-fig3", "2020-fig4", "2020-fig6", "2020-fig10"]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Return a function that computes figures on Zipf data, and judges all about them."""
    folder = tmp_path_factory.mktemp("none")

    def compute():
        paper2020.bias_and_variance.cache_clear()
        settings = figure.Settings(folder, quick=True, repeats=8)
        results = {name: main.FIGURES[name].compute(settings) for name in JUDGED}
        return {
            (claim.text, finding.figure): finding.verdict.split(":")[0]
            for claim in published.PAPER_2020.claims
            if claim.kind != "reading"
            for finding in claims.judge_each(claim, results)
        }

    yield compute
    paper2020.bias_and_variance.cache_clear()


@pytest.fixture(scope="module")
def right_verdicts(verdicts):
    """Return those of the package, which are the same again: the same seeds give the same."""
    found = verdicts()
    assert verdicts() == found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_implementation_turns_at_least_two_statements(
    mutant, verdicts, right_verdicts, monkeypatch
):
    name, wrong = MUTANTS[mutant]
    if wrong is None:
        monkeypatch.setattr(methods.PAPER_OLH, "hash_range", 2)
    else:
        monkeypatch.setitem(methods.METHODS_2020, name, wrong)
    found = verdicts()
    turned = [key for key, verdict in found.items() if verdict != right_verdicts[key]]
    assert len(turned) >= 2, turned


# -- helpers of the claims, on values known by hand -----------------------------------------------
def _study(errors, **columns):
    """Errors of shape (n_rows, n_repeats) with columns of as many rows."""
    errors = np.asarray(errors, dtype=float)
    table = {name: np.array(values, dtype=object) for name, values in columns.items()}
    defaults = {"population": "a", "queries": "1", "epsilon": 1.0, "metric": "mse"}
    for name, value in defaults.items():
        table.setdefault(name, np.array([value] * len(errors), dtype=object))
    table |= {"error": errors.mean(axis=1), "standard_error": np.zeros(len(errors))}
    return ErrorStudy(table, errors)


def _values(measured):
    return [round(float(one.value), 9) for one in measured]


TWO = np.ones(2)  # repeats that agree: no standard error
FALLS = _study(
    [8 * TWO, 4 * TWO, 12 * TWO, 3 * TWO, 9 * TWO, 1 * TWO],
    postprocessor=["M", "M", "A", "A", "B", "B"],
    epsilon=[1.0, 2.0] * 3,
)
SIZES = _study(
    [1 * TWO, 4 * TWO, 2 * TWO, 4 * TWO, 2 * TWO, 8 * TWO],
    postprocessor=["M"] * 3 + ["A"] * 3,
    queries=["10", "50", "90"] * 2,
)
BIASES = figure.Table(
    postprocessor=np.array(["M"] * 4 + ["A"] * 4, dtype=object),
    rank=np.array([1, 2, 3, 4] * 2),
    count=np.array([8.0, 4.0, 2.0, 2.0] * 2),
    bias=np.array([-4.0, -1.0, 0.0, 2.0, 8.0, 0.0, 0.0, 0.0]),
    bias_error=np.zeros(8),
    bias_sum=np.array([-3.0] * 4 + [8.0] * 4),
    bias_sum_error=np.zeros(8),
    variance=np.array([6.0, 2.0, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0]),
    zeros=np.array([0.0, 0.2, 0.4, 0.8] + [0.0] * 4),
    n_runs=np.full(8, 100),
)
NORMS = figure.Table(BIASES | {"postprocessor": np.repeat(["Norm", "Base"], 4)})
CHOICES = figure.Table(
    data=np.array(["a", "b"] * 3, dtype=object),
    queries=np.array(["q"] * 6, dtype=object),
    postprocessor=np.array(["M", "M", "A", "A", "M", "A"], dtype=object),
    over_least=np.array([1.0, 4.0, 9.0, 1.0, 1.0, 1.0]),
    is_choice=np.array([False] * 4 + [True] * 2),
)


def _table(**columns):
    kinds = {name: object if isinstance(v[0], str) else None for name, v in columns.items()}
    return figure.Table({name: np.array(v, dtype=kinds[name]) for name, v in columns.items()})


ORACLES = _table(
    oracle=["A", "A", "B", "B", "A", "A", "GRR", "GRR", "GRR", "GRR"],
    epsilon=[1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 0.5, 0.5, 1.0, 1.0],
    d=[4, 8, 4, 8, 4, 8, 4, 8, 4, 8],
    side=["smaller", "larger"] * 5,
    noise=[1.0, 6.0, 4.0, 3.0, 1.0, 1.0, 1.0, 1.5, 1.0, 2.0],
    sum_std=[0.1, 0.2, 0.0, 0.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0],
)
PROMISES = _table(
    postprocessor=["Norm-Cut", "Base-Cut"],
    keeps_order=[True, False],
    mean_threshold=[1.0, 4.0],
    reliable=[7, 9],
    least_sum=[0.75, 2.0],
)
USERS = _table(
    postprocessor=["M", "M", "A", "A"],
    n_samples=[10, 20, 10, 20],
    equivalent_n_samples=[20.0, 80.0, 10.0, 20.0],
    standard_error=[0.0] * 4,
    saved=[0.5, 0.75, 0.0, 0.0],
)
PICKS = _table(
    synthesizer=["S"] * 4 + ["T"],
    postprocessor=["S", "M", "S", "S", "M"],
    is_chosen=[True, True, True, False, True],
    regret=[0.0, 0.5, 0.25, 9.0, 9.0],
)
STRAIGHT = _table(
    population=["Retail"] * 6,
    count=[1, 2, 4, 8, 16, 30],
    fraction=[1.0, 0.5, 0.25, 0.125, 0.0625, 1 / 30],
)
GAINS = _table(
    population=["Retail"] * 6,
    epsilon=[1.0, 5.0] * 3,
    postprocessor=["M", "M", "M, cut", "M, cut", "OUE", "OUE"],
    error=[2.0, 1.0, 3.0, 1.0, 10.0, 20.0],
    standard_error=[0.0] * 6,
    zero_over_this=[1.5, 3.0, 1.0, 3.0, 0.3, 0.2],
    zero_over_this_error=[0.0] * 6,
)
SCORES = _table(
    postprocessor=["OUE-Calibrate"] * 6 + ["OUE", "OUE-Zero"] * 6,
    score=[s for n in (2, 4) for s in ("precision", "recall", "f_score") for _ in range(n)],
    threshold=[1.0, 3.0] * 3 + [1.0, 1.0, 3.0, 3.0] * 3,
    significance=[2.0] * 18,
    epsilon=[4.0] * 18,
    over_zero=[0.1, 0.2, -0.1, -0.2, 0.3, 0.4] + [0.0] * 12,
    over_zero_error=[0.0] * 18,
    over_raw=[0.5, 0.6, -0.5, -0.6, 0.7, 0.2] + [0.0] * 12,
    over_raw_error=[0.0] * 18,
    error=[0.0] * 6 + [0.2, 0.9, 0.5, 0.5] + [0.8, 0.3, 0.5, 0.5] + [0.4, 0.4, 0.5, 0.375],
    standard_error=[0.0] * 18,
)
RANKS = _study(
    [1 * TWO, 2 * TWO, 3 * TWO, 2 * TWO, 1 * TWO, 3 * TWO],
    postprocessor=["M", "A", "B"] * 2,
    queries=["1"] * 3 + [measures.SINGLE] * 3,
    metric=["mae"] * 3 + ["mse"] * 3,
)
ONE = _table(mean_sum=[0.5], mean_sum_error=[0.0], std=[7.0])


@pytest.mark.parametrize(
    ("name", "table", "arguments", "expected"),
    [
        # M falls to a half, A to a quarter: a quarter is the least fall of the others, twice M's.
        ("decay_over_others", FALLS, {"method": "M", "others": ["M", "A", "B"]}, [2.0]),
        ("last_over_first", FALLS, {"top": "A"}, [0.25]),
        ("last_over_first", FALLS, {"top": "M", "bottom": "A"}, [2.0]),
        ("ratio", FALLS, {"top": "A", "bottom": "M"}, [1.5, 0.75]),
        ("over_best", FALLS, {"method": "M", "others": ["A", "B"]}, [8 / 9, 4.0]),
        ("over_worst", FALLS, {"method": "M", "others": ["A", "B"]}, [8 / 12, 4 / 3]),
        ("over_typical", FALLS, {"method": "B", "others": ["M", "A", "B"]}, [9 / 12, 1 / 4]),
        ("best_over", FALLS, {"methods": ["A", "B"], "method": "M"}, [9 / 8, 1 / 4]),
        ("spread", FALLS, {"methods": ["M", "A", "B"]}, [1.5, 4.0]),
        ("symmetry", SIZES, {"methods": ["M", "A"]}, [0.5, 0.5]),
        ("growth", SIZES, {"methods": ["M", "A"]}, [0.5, 0.5]),
        ("level", SIZES, {"methods": ["M"], "last": "50"}, [0.25, 0.5]),
        ("value", BIASES, {"column": "bias_sum", "postprocessor": "A"}, [8.0]),
        ("greatest_bias", BIASES, {"top": "M", "bottom": "A"}, [0.5]),
        ("variance_ratio", BIASES, {"method": "M", "top": (1, 2), "bottom": (3, 4)}, [4.0]),
        ("zeros", BIASES, {"method": "M", "ranks": (3, 4)}, [0.6]),
        ("norm_variance", NORMS, {}, [4 * (1 - 10 / 20)]),
        ("choice_over_constant", CHOICES, {}, [0.5]),
        # The noise grows by a half, then to the double, where d doubles.
        ("grr_growth", ORACLES, {}, [0.5, 1.0]),
        ("oracle_noise", ORACLES, {"top": "A", "bottom": "B", "epsilons": [1.0]}, [2.0]),
        ("noise_by_side", ORACLES.select(epsilon=1.0), ["A", "B", "smaller"], [0.25]),
        ("noise_by_side", ORACLES.select(epsilon=1.0), ["A", "B", "larger", 1.0], []),
        ("sum_std", ORACLES, ["A"], [0.1, 0.2]),
        ("promises", PROMISES, {"keeps_order": ["Norm-Cut", "Base-Cut"]}, [1.0, 0.0]),
        ("threshold_ratio", PROMISES, [], [0.25]),
        ("value", PROMISES, {"column": "reliable", "postprocessor": "Base-Cut"}, [9.0]),
        ("sum_short_of_one", PROMISES, [], [0.25]),
        ("biases", BIASES, ["M", (1, 2), (4, 4)], [-2.5, 2.0]),
        ("worth", USERS, ["M"], [2.0, 4.0]),
        ("saved", USERS, ["M"], [0.5, 0.75]),
        ("rise", USERS, ["M"], [6.0]),
        ("pairs", USERS, ["M", "A"], [2.0, 4.0]),
        ("regret", PICKS, ["S"], [0.25]),
        ("picks_itself", PICKS, ["S"], [2 / 3]),
        ("line", STRAIGHT, ["Retail"], [1.0]),
        ("line", STRAIGHT, ["Kosarak"], []),
        ("gain", GAINS, ["M", "Retail", 5.0], [2.0]),
        ("gain", GAINS, ["M", "Retail", 5.0, True], [2 / 3]),
        ("zero_over", GAINS, ["M"], [1.5, 3.0]),
        ("raw_over", GAINS, ["M"], [5.0, 20.0]),
        ("gain_grows", GAINS, ["M"], [1.5]),
        ("cut_over", GAINS, ["M"], [1.5, 1.0]),
        ("score_gain", SCORES, ["f_score"], [0.3, 0.4]),
        ("score_gain", SCORES, ["f_score", 1, "raw"], [0.7, 0.2]),
        ("more_precise", SCORES, [], [0.5, 0.6, 0.5, 0.6]),
        ("zero_below", SCORES, [], [0.7, 0.5]),
        ("gain_at_small_thresholds", SCORES, [], [0.5]),
        ("zero_is_raw", SCORES, [], [0.125]),
        ("rank_correlation", RANKS, [["M", "A", "B"], "1"], [0.5]),
        ("metrics_agree", RANKS, [["M", "A", "B"]], [0.5]),
        ("value", ONE, ["mean_sum"], [0.5]),
    ],
)
def test_a_helper_on_values_known_by_hand(name, table, arguments, expected):
    positional, named = (arguments, {}) if isinstance(arguments, list) else ((), arguments)
    assert _values(getattr(measures, name)(table, *positional, **named)) == pytest.approx(expected)


def test_a_fixed_range_of_ranks_is_read_as_written():
    """Biases of ranks 1 to 5, and of the blocks of a thousand ranks, on a line of biases."""
    ranks = np.arange(1, 1025)
    table = _table(postprocessor=["M"] * 1024, rank=ranks, count=np.full(1024, 2.0))
    table |= {"bias": ranks / 4 - 2.0, "bias_error": np.zeros(1024)}
    opposed = [*(2 - np.arange(1, 6) / 4), 768.5 / 4 - 2]
    assert _values(measures.opposed_biases(table, "M")) == opposed
    assert _values(measures.bias_steps(table, "M")) == [50 / 4, (562.5 - 55.5) / 4]
    (one,) = measures.shrinks_low_ones(table, "M")
    assert one.value == pytest.approx((3 / 4 - 2) / -(562.5 / 4 - 2))


def test_every_helper_that_the_files_of_claims_name_is_tested_by_hand():
    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)*\b", _all_measured()))
    helpers = {
        name
        for name, value in vars(measures).items()
        if callable(value) and not name.startswith("_") and value.__module__ == measures.__name__
    }
    of_ranks = {"opposed_biases", "bias_steps", "shrinks_low_ones"}
    (mark,) = (m for m in test_a_helper_on_values_known_by_hand.pytestmark if m.args)
    tested = {case[0] for case in mark.args[1]} | of_ranks
    assert helpers & named <= tested


def _all_measured():
    texts = [path.read_text("utf-8") for path in published.FOLDER.glob("*.yaml")]
    rows = [row for text in texts for row in yaml.safe_load(text)["statements"]]
    return str([row["measured"] for row in rows])
