"""A grid of two numbers on the command line: files in, files out, and what is refused."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from test_cli import assert_fails, said

from sklearn_ldp import Domain, RangeOracle
from sklearn_ldp.__main__ import main
from sklearn_ldp.collection import Aggregator
from sklearn_ldp.queries import between

BINS = {"lon": {"bins": 4, "bounds": [8, 12], "clip": True}, "lat": {"bins": 2, "bounds": [46, 50]}}
EAST = Domain.bins(4, bounds=(8, 12), clip=True)
NORTH = Domain.bins(2, bounds=(46, 50))
GRID = Domain.grid(EAST, NORTH)
EAST_OF_10 = between([((10, 12), (46, 50))])
N = 4000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a grid and people, whose latitude comes first; it is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.json").write_text(json.dumps({"grid": BINS}))
    rng = np.random.default_rng(0)
    people = {"id": range(N), "lat": rng.uniform(46, 50, N), "lon": rng.uniform(9, 14, N)}
    pd.DataFrame(people).to_csv("people.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("suffix", ["jsonl", "arrows"])
def test_reports_become_a_table_a_report_and_a_map(folder, suffix):
    """Of users at longitudes from 9 to 14, 4 of 5 are east of 10: fails once in 10**8 runs."""
    declared = ["--categories", "grid.json", "--round", "may"]
    for batch in ("a", "b"):
        output = f"reports/{batch}.{suffix}"
        assert not main(
            ["privatize", "people.csv", *declared, "--epsilon", "2", "--output", output]
        )
    assert not main(["aggregate", "reports", *declared, "--checkpoint", "state.npz"])
    written = ["--output", "table.csv", "--html", "page.html", "--plot", "map.svg"]
    with plt.rc_context({"svg.fonttype": "none"}):
        assert not main(["estimate", "state.npz", "--categories", "grid.json", *written])
    frame = pd.read_csv("table.csv")
    estimate = Aggregator.load(
        "state.npz", RangeOracle(2.0, categories=GRID), collection_round="may"
    ).estimate_
    assert estimate.noise.n_users == 2 * N
    low, high = estimate.confidence_interval(0.999999998, EAST_OF_10)
    assert low[0, 0] < 0.8 < high[0, 0]
    expected = estimate.to_frame(0.95).drop(columns="category").select_dtypes("number")
    names = [name for name in expected if name != "count"]  # of the processed frequencies
    np.testing.assert_allclose(frame[names], expected[names], rtol=1e-9)
    assert frame["category"][1] == "[8, 9) x [48, 50]"
    assert frame["frequency"].min() >= 0
    page = (folder / "page.html").read_text("utf-8")
    assert "after SmoothMLE" in page
    assert "4 x 2 cells: 8 to 12 and 46 to 50" in page
    drawn = (folder / "map.svg").read_text("utf-8")
    assert all(f">{name}<" in drawn for name in BINS)


def test_a_simulation_and_another_oracle(folder):
    options = [
        "--categories",
        "grid.json",
        "--seed",
        "0",
        "--oracle",
        "olh",
        "--output",
        "t.parquet",
    ]
    assert not main(["estimate", "people.csv", *options, "--post", "norm-sub"])
    frame = pd.read_parquet("t.parquet")
    assert frame["frequency"].sum() == pytest.approx(1)
    assert frame["category"][0] == "[8, 9) x [46, 48)"


@pytest.mark.parametrize(
    ("grid", "fault"),
    [
        ({"lon": BINS["lon"]}, "a grid with bins for exactly two columns, got"),
        ([1, 2], "a grid with bins for exactly two columns, got"),
        ({"lon": BINS["lon"], "lat": 3}, "Domain.grid needs two domains of bins with bounds"),
        ({"lon": BINS["lon"], "lat": {"bins": [2]}}, "Domain.grid needs two domains of bins"),
        ({"lon": BINS["lon"], "lat": {"edges": [2]}}, 'must have the key "bins"'),
        ({"lon": BINS["lon"], "other": BINS["lat"]}, "has no column 'other'"),
    ],
)
def test_other_grids_are_refused(folder, capsys, grid, fault):
    (folder / "grid.json").write_text(json.dumps({"grid": grid}))
    command = ["privatize", "people.csv", "--categories", "grid.json", "--output", "x.jsonl"]
    assert_fails(command, capsys, fault)


def test_a_value_outside_is_refused_and_not_shown(folder, capsys):
    pd.DataFrame({"lon": [9.0, 9.5], "lat": [47.0, 51.25]}).to_csv("people.csv")
    command = ["privatize", "people.csv", "--categories", "grid.json", "--output", "x.jsonl"]
    out, err = said(capsys, *command, code=1)
    assert "not in the domain" in err
    assert "51.25" not in out + err


def test_plans_and_browsers_refuse_a_grid(folder, capsys):
    declared = ["--categories", "grid.json"]
    plan = ["plan", *declared, "--n-samples", "100"]
    assert_fails(plan, capsys, "plan cannot plan a grid. In Python use Plan")
    assert_fails(["client", *declared, "--output", "c.mjs"], capsys, "outside Python accepts")
