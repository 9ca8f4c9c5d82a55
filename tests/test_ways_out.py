"""One table: every kind of estimate through every way out, which works or says why not."""

import io
import json
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    Consistent,
    Domain,
    EstimateSet,
    FrequencyEstimate,
    ItemOracle,
    KeyValueOracle,
    LatentClasses,
    LocalMean,
    MarginalOracle,
    NormSub,
    RangeOracle,
    StringOracle,
    Trend,
    load_estimate,
)
from sklearn_ldp.__main__ import main
from sklearn_ldp.collection import Aggregator, client_module, write_reports
from sklearn_ldp.inference import combine, mean_by_answer, poststratify
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.planning import Plan
from sklearn_ldp.surveys import ResponseDesign

pd = pytest.importorskip("pandas")

WORDS = ["a", "b", "c"]
N = 600
VALUES = np.array(WORDS)[np.arange(N) % 3]
WEEKS = np.array([f"week {i}" for i in range(6)])[np.arange(N) // 100]
COLUMNS = {"x": ["n", "y"], "z": [0, 1, 2]}
RECORDS = [["ny"[i % 2], i % 3] for i in range(N)]
SUMS = {"a": 300, "b": 280}

# -- what an estimate is made of: an oracle, and the values of its users ---------------------------
ORACLES = {
    "categories": (OLH(2.0, categories=WORDS), VALUES),
    "numbers": (RangeOracle(2.0, categories=Domain.bins(8, bounds=(0, 8))), np.arange(N) % 8),
    "places": (
        RangeOracle(2.0, categories=Domain.grid(*[Domain.bins(4, bounds=(0, 4))] * 2)),
        np.column_stack([np.arange(N) % 4 + 0.5, np.arange(N) % 3 + 0.5]),
    ),
    "strings": (
        StringOracle(4.0, max_length=3, n_found=2, alphabet="abcd", expected_n_users=N),
        np.array(["ab", "cd"] * (N // 2)),
    ),
    "items": (ItemOracle(2.0, categories=WORDS, max_items=2), [["a"], ["a", "b"], []] * (N // 3)),
    "values of items": (
        KeyValueOracle(2.0, categories=WORDS, bounds=(0, 1)),
        [{"a": 0.5}, {"a": 1.0, "b": 0.2}] * (N // 2),
    ),
    "mean": (LocalMean(1.0, bounds=(0, 1)), np.arange(N) / N),
    "columns": (ColumnOracle(3.0, domains=COLUMNS), RECORDS),
    "tables": (MarginalOracle(3.0, domains=COLUMNS), RECORDS),
    "design": (ResponseDesign.crosswise(0.25).oracle(["no", "yes"]), None),
}


def oracle_of(kind):
    oracle = clone(ORACLES[kind][0])
    return oracle if kind == "design" else oracle.set_params(random_state=0)


def reports(kind):
    values = ORACLES[kind][1]
    return np.arange(N) % 2 if values is None else oracle_of(kind).privatize(values)


def collected(kind):
    return oracle_of(kind).aggregate(reports(kind)).estimate_


def by_week():
    return estimate_by_group(oracle_of("categories"), VALUES, WEEKS)


def outcome():
    oracle = GRR(2.0, categories=WORDS, random_state=0)
    return mean_by_answer(np.arange(N) / N, oracle.privatize(VALUES), oracle)


MADE = {
    **dict.fromkeys(ORACLES, collected),
    "processed": lambda _: NormSub().fit_transform(collected("categories")),
    "groups": lambda _: by_week(),
    "trend": lambda _: Trend().fit_transform(by_week()),
    "difference": lambda _: (
        collected("categories") - OUE(1.0, categories=WORDS, random_state=1).fit_transform(VALUES)
    ),
    "combined": lambda _: combine(
        [collected("categories"), OUE(1.0, categories=WORDS, random_state=1).fit_transform(VALUES)]
    ),
    "weighted": lambda _: poststratify(by_week(), dict.fromkeys(sorted(set(WEEKS)), 1 / 6)),
    "consistent": lambda _: Consistent().fit_transform(collected("tables")),
    "joint": lambda _: LatentClasses(random_state=0).fit(collected("tables")).estimate_,
    "counts": lambda _: FrequencyEstimate.from_counts(SUMS, p=0.7, q=0.3, n_samples=N),
    "noisy counts": lambda _: FrequencyEstimate.from_counts(SUMS, std=9.0, n_samples=N),
    "without noise": lambda _: FrequencyEstimate([[0.7, 0.3]], ["a", "b"]),
    "means by answer": lambda _: outcome(),
}


def frame_with_intervals(estimate, folder):
    has_level = not isinstance(estimate, FrequencyEstimate | EstimateSet)
    frame = estimate.to_frame(**{"level" if has_level else "interval": 0.9})
    assert {"low", "high"} <= set(frame.columns)


def file_is_read_back(estimate, folder):
    estimate.save(folder / "estimate.npz")
    assert repr(load_estimate(folder / "estimate.npz")) == repr(estimate)


def table_is_read_back(write, read):
    def way(estimate, folder):
        frame = estimate.to_frame().reset_index(drop=True)
        frame.columns = [str(name) for name in frame.columns]
        getattr(frame, write)(folder / "table", index=False)
        pd.testing.assert_frame_equal(getattr(pd, read)(folder / "table"), frame)

    return way


def page(estimate, folder):
    estimate.report(question="What?").save(folder / "report.html")
    assert "<h1>What?</h1>" in (folder / "report.html").read_text(encoding="utf-8")


def picture(estimate, folder):
    assert estimate.plot() is not None
    plt.close("all")


WAYS = {
    "frame": lambda estimate, folder: len(estimate.to_frame()) or pytest.fail("no rows"),
    "frame with intervals": frame_with_intervals,
    "CSV": table_is_read_back("to_csv", "read_csv"),
    "Parquet": table_is_read_back("to_parquet", "read_parquet"),
    "JSON": lambda estimate, _: json.dumps(estimate.describe(question="What?"), allow_nan=False),
    "page": page,
    "file": file_is_read_back,
    "picture": picture,
}
# Why not: the message of the error, or of the AttributeError where there is no such method.
WHY_NOT = {
    (
        "without noise",
        "frame with intervals",
    ): "No confidence interval is available without a noise model",
    ("means by answer", "file"): "no attribute 'save'",  # it would keep every person's outcome
}


@cache
def made(kind):
    return MADE[kind](kind)


def works_or(reason):
    """The errors of what cannot be, with their reason; otherwise there is none."""
    errors = (ValueError, TypeError, AttributeError)
    return pytest.raises(errors, match=reason) if reason else nullcontext()


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("kind", list(MADE))
def test_a_kind_of_estimate_has_a_way_out(kind, way, tmp_path):
    if way == "Parquet":
        pytest.importorskip("pyarrow")
    estimate = made(kind)
    with works_or(WHY_NOT.get((kind, way))):
        WAYS[way](estimate, tmp_path)


# -- collections -----------------------------------------------------------------------------------
FILES = {  # of the words otherwise
    "numbers": '{"bins": 8, "bounds": [0, 8]}',
    "places": json.dumps({"grid": {key: {"bins": 4, "bounds": [0, 4]} for key in "xy"}}),
    "columns": json.dumps(COLUMNS),
    "tables": json.dumps(COLUMNS),
    "design": "no\nyes",
}


def command_line(kind, folder):
    """Reports of clients are added up, and estimated into a table and a page."""
    if kind == "strings":
        option = ["--strings", ORACLES[kind][0].alphabet, "--max-length", "3"]
        option += ["--expected-users", str(N), "--n-found", "2"]
    else:
        content = FILES.get(kind, "\n".join(WORDS))
        path = folder / ("domain.json" if content[0] == "{" else "domain.txt")
        path.write_text(content)
        option = ["--domains" if kind in ("columns", "tables") else "--categories", str(path)]
    write_reports(folder / "reports.jsonl", reports(kind), oracle_of(kind))
    state, html = str(folder / "state.npz"), str(folder / "report.html")
    for command in (
        ["aggregate", str(folder / "reports.jsonl"), "--checkpoint", state, *option],
        ["estimate", state, "--html", html, "--output", str(folder / "table.csv"), *option],
    ):
        said = io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            code = main(command)
        if code:
            raise ValueError(said.getvalue())
    assert len(pd.read_csv(folder / "table.csv")) > 1
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")


def checkpoint(kind, folder):
    server = Aggregator(oracle_of(kind)).add(reports(kind), "1")
    server.save(folder / "state.npz")
    again = Aggregator.load(folder / "state.npz", oracle_of(kind))
    assert repr(again.estimate_) == repr(server.estimate_)


COLLECTING = {
    "command line": command_line,
    "checkpoint": checkpoint,
    "client in JavaScript": lambda kind, folder: client_module(oracle_of(kind)),
    "plan": lambda kind, folder: Plan(oracle_of(kind)).rmse(n_users=N),
}
IN_PYTHON = "The command line does not support reports of {}. Use"
NO_CLIENT = "There is no client outside Python for {}"
REFUSED = {
    ("values of items", "command line"): IN_PYTHON.format("KeyValueOracle"),
    ("mean", "command line"): IN_PYTHON.format("LocalMean"),
    ("tables", "command line"): IN_PYTHON.format("MarginalOracle"),
    ("design", "command line"): IN_PYTHON.format("DesignOracle"),
    **{
        (kind, "client in JavaScript"): NO_CLIENT.format(type(ORACLES[kind][0]).__name__)
        for kind in ORACLES
        if kind not in ("categories", "items")
    },
    ("strings", "plan"): "Plan does not support StringOracle, which has a plan of its own",
}


@pytest.mark.parametrize("way", list(COLLECTING))
@pytest.mark.parametrize("kind", list(ORACLES))
def test_a_kind_of_collection_has_a_way(kind, way, tmp_path):
    with works_or(REFUSED.get((kind, way))):
        COLLECTING[way](kind, tmp_path)
