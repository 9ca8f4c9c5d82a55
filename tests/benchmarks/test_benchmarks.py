"""The arithmetic of the benchmarks: forecasts, what is found to be slow, and the written page."""

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from benchmarks import leaderboard
from benchmarks._command import DATA
from benchmarks._tables import refresh
from benchmarks.accuracy import table_models
from benchmarks.security import poisoned_estimates, report_test_power
from benchmarks.speed import _peers, regression
from benchmarks.speed._contest import ORACLES, PEERS, Result
from benchmarks.speed._race_report import BEGIN, END, Growth, draw, page
from sklearn_ldp import GRR, OLH, OUE, HadamardResponse
from sklearn_ldp.postprocessing import norm_sub
from sklearn_ldp.robustness import poisoning_gain

ROOT = Path(__file__).parents[2]


class Clock:
    """A clock on which time passes only while a package works, and memory is held as told."""

    def __init__(self, monkeypatch, a_user, at_start=0.0, mebibytes_a_user=0.0):
        self.now, self.held = 0.0, 0.0
        self.a_user, self.at_start, self.mebibytes_a_user = a_user, at_start, mebibytes_a_user
        self.asked = []
        monkeypatch.setattr(_peers.time, "process_time", lambda: self.now)
        monkeypatch.setattr(_peers, "_forget_peak", lambda: setattr(self, "held", 0.0))
        monkeypatch.setattr(_peers, "_memory", lambda kind: self.held)

    def collect(self, users):
        self.asked.append(len(users))
        self.now += self.at_start + self.a_user * len(users)
        self.held = self.mebibytes_a_user * len(users)
        return np.array([0.75, 0.5, -0.25])

    def measure(self, n, seconds=60, mebibytes=1000):
        users = range(n)
        return _peers.measure(self.collect, norm_sub, users, seconds, mebibytes)


def test_no_file_hides_a_module_of_python():
    """Scripts that another interpreter runs by their path import from their own folder first."""
    scripts = (ROOT / "benchmarks").rglob("*.py")
    assert not {path.stem for path in scripts} & sys.stdlib_module_names


def test_who_is_quick_is_timed_whole_and_who_is_slow_is_extrapolated_along_a_line(monkeypatch):
    """A constant second, which does not depend on the users, is not multiplied."""
    row = Clock(monkeypatch, 1e-6).measure(100_000)
    assert row["n_timed"] == 100_000
    assert row["seconds"] == pytest.approx(0.1)
    clock = Clock(monkeypatch, 1e-2, at_start=1.0)
    row = clock.measure(100_000)
    assert row["n_timed"] < 3_000
    assert row["seconds"] == pytest.approx(1001, rel=1e-3)
    assert clock.now < 60


def test_memory_limits_the_users(monkeypatch):
    clock = Clock(monkeypatch, 1e-6, mebibytes_a_user=0.5)
    row = clock.measure(100_000)
    assert row["n_timed"] < 100_000
    assert max(clock.asked) * 0.5 <= 1000
    assert row["peak_mib"] == 0.5 * row["n_timed"]


def test_the_plain_projection_is_norm_sub():
    F = np.random.default_rng(0).normal(0.02, 0.1, size=(20, 50))
    for f in F:
        np.testing.assert_allclose(_peers.simplex_projection(f), norm_sub(f), atol=1e-12)
    assert _peers.simplex_projection(np.array([3.0])) == pytest.approx(1)


def test_every_path_has_a_baseline():
    names = {name for name, _ in regression.postprocessor_paths()}
    names |= {f"memory {name}" for name in names} | {f"memory {name} fit" for name in ORACLES}
    names |= {f"{work} {name}" for name in ORACLES for work in ("privatize", "aggregate")}
    names |= {"SyntheticSearch", "HeldOutSearch", "fit GRR to levels", "fit GRR to text"}
    names |= {"import sklearn_ldp", "import OLH", "import", "start of the command line"}
    names |= {f"memory {name} fit, 10,000,000 users" for name in ("GRR", "OLH")}
    assert set(json.loads(regression.BASELINES.read_text())) == names


def test_what_is_slow_or_large_is_found_and_so_is_a_baseline_that_hides_it():
    """The negative controls are the paths that are just good enough, or baselines tight enough."""
    baselines = {"post A": 1.0, "post B": 1.0, "memory A": 100.0, "memory B": 100.0}
    now = {"post A": 2.1, "post B": 1.9, "memory A": 161.0, "memory B": 159.0}
    assert regression.worse(now, baselines) == ["post A", "memory A"]
    assert regression.table(now, baselines, 2).count("worse") == 2
    now = {"post A": 1.0, "post B": 1.0, "memory A": 45.0, "memory B": 46.0}
    baselines = {"post A": 2.1, "post B": 1.9, "memory A": 101.0, "memory B": 101.0}
    assert regression.too_loose(now, baselines) == ["post A", "memory A"]


@pytest.mark.slow
def test_the_ratio_to_the_yardstick():
    """Much less work takes less time, and three times the work takes longer."""

    def thrice():
        for _ in range(3):
            regression.yardstick()

    little = partial(np.cumsum, np.ones(10_000))
    with regression.yardsticks() as plain_seconds:
        ratios = [regression.ratio(work, plain_seconds) for work in (little, thrice)]
    assert ratios[0] < 1 < ratios[1]


def results():
    return [
        Result(package, oracle, 1000, 10, 1000, 2.0, 0.1, 3.0, 1.0, 0.1)
        for oracle in ORACLES
        for package in ("sklearn_ldp", *PEERS)
        if oracle in PEERS.get(package, ORACLES)
    ]


def test_a_page_is_refreshed_between_its_marks(tmp_path):
    path = tmp_path / "race.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    growth = Growth("OLH", "n", [1, 2, 4, 8], [3, 12, 48, 192])
    assert growth.exponent == pytest.approx(2)
    for _ in range(2):
        refresh(path, (BEGIN, END), page(results(), [growth], [], 1.0, 60))
    text = path.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert text.count("| OLH | **sklearn_ldp** | 2.1 | 1 | 1,000 | 3 | 1.00 | 0.1 |") == 1
    path.write_text("no marks")
    with pytest.raises(SystemExit, match="must hold the lines"):
        refresh(path, (BEGIN, END), "new")


def test_the_figure_names_everybody(tmp_path):
    draw(results(), tmp_path / "race.svg")
    svg = (tmp_path / "race.svg").read_text()
    assert all(name in svg for name in ("sklearn_ldp", *PEERS, *ORACLES))


@pytest.mark.parametrize("oracle", [GRR(1.0), OUE(1.0)], ids=repr)
def test_ldp_recover_is_norm_sub_of_a_stretched_estimate(oracle):
    """Its even split over the positive categories is a constant, which the projection takes away.

    Negative control: with known targets it is something else; they gain what the attack does.
    """
    d, eta, channel = 50, 0.1, oracle.channel(50)
    counts = 1000 * (np.arange(d) + 1)
    raw = oracle.set_params(categories=d, random_state=0).simulate(counts, 20).values
    stretched = norm_sub((1 + eta) * raw)
    recovered = poisoned_estimates.recover(raw, channel, eta)
    np.testing.assert_allclose(recovered, stretched, atol=1e-12)
    fake = poisoned_estimates.fake_part(oracle, d, np.array([3, 4]))
    gain = poisoning_gain(oracle, 1.0, 2, n_categories=d)
    assert fake[[3, 4]].sum() == pytest.approx(gain)
    known = poisoned_estimates.recover(raw, channel, eta, fake)
    assert np.abs(known - stretched).max() > 0.001


def test_power_is_that_of_the_public_tests():
    """Counted in pieces, the p-values are those of the functions that the page names."""
    for oracle in (OUE(1.0), OLH(1.0), OLH(hash_family="mixing"), HadamardResponse()):
        oracle.set_params(categories=report_test_power.D, random_state=0)
        reports = oracle.privatize(np.arange(3000) % 7)
        pieces = [report_test_power.Counted.of(x, oracle) for x in (reports[:1000], reports[1000:])]
        counted = report_test_power.Counted.sum(pieces)
        np.testing.assert_allclose(
            counted.frequencies, clone(oracle).aggregate(reports).frequencies_, atol=1e-12
        )
        for test, p_value in zip(report_test_power.TESTS.values(), counted.p_values(), strict=True):
            if np.isnan(p_value):
                with pytest.raises(TypeError):
                    test(reports, clone(oracle))
            else:
                assert p_value == pytest.approx(test(reports, clone(oracle)).p_value)


@pytest.mark.slow
def test_the_table_of_table_models(tmp_path, capsys):
    """On a small table of its own; and the notes name the benchmark's ways."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 3000)
    codes = np.column_stack([rng.binomial(2, 0.2 + 0.5 * kind) for _ in range(3)])
    path = tmp_path / "codes.csv"
    np.savetxt(path, codes, fmt="%d", delimiter=",", header="a,b,c", comments="")
    table_models.main(["--population", str(path), "--repeats", "1"])
    printed = capsys.readouterr().out
    assert printed.startswith("3,000 users, 3 columns, 3 tables of two columns")
    page = (ROOT / "doc" / "notes" / "tables.md").read_text("utf-8")
    ways = [line.split("|")[1].strip() for line in printed.splitlines()[3:] if line]
    assert len(ways) == 4
    assert all(f"| {way} |" in page for way in ways)


# The least that each command of benchmarks.accuracy does. Those of None need files of their own.
LEAST = {
    "_missing_numbers": "--repeats 1 --oracles OLH",
    "_simple_numbers": "--repeats 1 --bins 48",
    "_weak_frequencies": "--quick",
    "_weak_labels": "--quick",
    "_weak_models": "--quick",
    "_weak_statements": "--quick",
    "column_strategies": "--repeats 1",
    "expected_errors": "--settings 8 --n-jobs 1",
    "fixed_questions": "--repeats 1",
    "inference": "--repeats 1 --parts few_users discoveries",
    "items": "--sections recall",
    "noisy_counts": "--only bayes --repeats 2",
    "label_regression": None,
    "learning": "--only records --repeats 1",
    "numeric_data": "--sections mean columns spread which --repeats 1",
    "oracle_table": "",
    "places": "--repeats 1 --cells 16 --epsilons 1 --users 10000",
    "postprocessor_errors": "--repeats 2 --epsilons 1",
    "private_columns": "--only linear --repeats 1",
    "selection_regret": None,
    "seven_distributions": "--repeats 2",
    "simple_questions": "--only categories --repeats 2",
    "strings": "--sections random --repeats 1",
    "table_models": "--only rows --repeats 1",
    "ten_questions": "",
    "weak_data": None,  # all that begin with _weak
    "weeks": "--runs 1",
}


def test_every_command_of_a_page_is_there():
    pages = [*(ROOT / "doc").rglob("*.md"), *(ROOT / "sklearn_ldp").rglob("*.py")]
    texts = " ".join(path.read_text("utf-8") for path in pages)
    named = set(re.findall(r"python\s+-m\s+benchmarks\.accuracy\.(\w+)", texts))
    assert named <= set(LEAST)
    assert all((ROOT / "benchmarks" / "accuracy" / f"{name}.py").exists() for name in LEAST)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, least in LEAST.items() if least is not None])
def test_every_command_of_a_page_runs(name):
    command = [sys.executable, "-m", f"benchmarks.accuracy.{name}", *str(LEAST[name]).split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not DATA.exists() and str(DATA) in done.stderr:
        pytest.skip("there are no real data")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout


THIRD_PARTY = """
from sklearn_ldp.postprocessing import BasePostProcessor

__version__ = "3.1"


class Clip(BasePostProcessor):
    def _process(self, estimate):
        return estimate.with_values(estimate.values.clip(0, 1), by="Clip")


class Shorter:
    def fit_transform(self, estimate):
        return estimate.values[:, :3]


class Broken(BasePostProcessor):
    def _process(self, estimate):
        return estimate.with_values(estimate.values / 0, by="Broken")
"""


@pytest.mark.slow
def test_a_method_of_somebody_else_enters_the_leaderboard(tmp_path, monkeypatch, capsys):
    """Its row names it; two populations and one setting stand for the ten minutes."""
    (tmp_path / "third_party_method.py").write_text(THIRD_PARTY)
    monkeypatch.syspath_prepend(tmp_path)
    page = tmp_path / "notes" / "leaderboard.md"
    for folder in ("notes", "_static"):
        (tmp_path / folder).mkdir()
    page.write_text(f"before\n{leaderboard.MARKS[0]}old{leaderboard.MARKS[1]}\nafter\n")
    arguments = ["x", "--quick", "--method", "third_party_method:Clip", "--page", str(page)]
    monkeypatch.setattr(sys, "argv", arguments)
    leaderboard.main()
    text = page.read_text()
    assert re.fullmatch(r"before\n.*\nafter\n", text, flags=re.DOTALL)
    assert "old" not in text
    rows = {row.split(" | ")[0].strip("| "): row for row in text.split("\n") if "|" in row}
    assert "| yours |" in rows["Clip (third_party_method, 3.1)"]
    assert rows["NormSub"].startswith("| NormSub | published | 1.00 |")
    # Clipping is Base-Pos, so that all numbers but its name agree.
    numbers = {name: row.split(" | ")[2:] for name, row in rows.items()}
    assert numbers["Clip (third_party_method, 3.1)"] == numbers["BasePos"] != numbers["NormSub"]
    assert (tmp_path / "_static" / "leaderboard.svg").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("Shorter", "of shape .2, 9.; got ndarray"), ("Broken", "needs finite values")],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_a_broken_method_is_refused(name, reason, tmp_path, monkeypatch):
    (tmp_path / "third_party_broken.py").write_text(THIRD_PARTY)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=reason):
        leaderboard.load(f"third_party_broken:{name}")
    for path, fault in (("third_party_broken", "module:ClassName"), ("nowhere:X", "No module")):
        with pytest.raises(ValueError, match=fault):
            leaderboard.load(path)


def test_the_picture_of_the_leaderboard_shows_the_table_of_its_page():
    text = (
        "| method | from | every category | top 10 |\n| --- | --- | --- | --- |\n"
        "| EmpiricalBayes(queries) | here | 1.014 (0.004) / 1.06 | 1.250 (0.085) / 2.85 |\n"
        "| Base | published | 5.294 (2.048) / 83.57 | 1.439 (0.109) / 3.57 |\n"
    )
    errors = leaderboard.excess_errors(text)
    assert list(errors.index) == ["every category", "ten most frequent"]
    assert list(errors) == ["EmpiricalBayes(queries)"]  # Base is not in the picture
    np.testing.assert_allclose(errors["EmpiricalBayes(queries)"], [1.4, 25.0])
