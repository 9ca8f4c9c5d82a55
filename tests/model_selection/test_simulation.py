"""Studies: their numbers, their independence of how they are computed, and resuming them."""

import json
import os

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OUE,
    Base,
    BaseCut,
    HeldOutSearch,
    NormSub,
    PostPos,
    SmoothMLE,
    SyntheticSearch,
)
from sklearn_ldp.model_selection import ErrorStudy, simulate_errors
from sklearn_ldp.queries import full_domain, groups, random_sets, top_k

TRUTH = np.array([0.4, 0.25, 0.15, 0.1, 0.05, 0.05])
QUERIES = {
    "full": full_domain(),
    "half": random_sets(0.5),
    "groups": groups([0, 0, 1, 1, 2, 2]),
    "top": top_k(2),
}


def a_study(**changes):
    arguments = {
        "oracles": [GRR(), OUE()],
        "postprocessors": [Base(), NormSub(), PostPos()],
        "frequencies": TRUTH,
        "n_samples": 2000,
        "epsilons": [0.5, 2],
        "queries": QUERIES,
        "metrics": ["mse", "mae"],
        "n_repeats": 8,
    }
    return simulate_errors(**(arguments | changes))


def a_small_study(**changes):
    return a_study(**({"oracles": [GRR()], "queries": None, "n_repeats": 2} | changes))


def same(a, b):
    return np.array_equal(a.errors, b.errors) and all(
        a.columns[name].tolist() == b.columns[name].tolist() for name in a.columns
    )


@pytest.mark.parametrize("oracle", [GRR(), OUE()], ids=repr)
def test_errors_are_those_of_the_oracle(oracle, seed):
    """The raw estimate's mean squared error is the variance of Eq. 5.

    Error rate 1e-6 for each oracle, by the normal approximation of the mean over the repeats; the
    negative control, 10 % fewer users, must fail.
    """
    n = 2000
    study = simulate_errors(oracle, Base(), TRUTH, n, [1.0], n_repeats=4000, random_state=seed)

    def z(n_users):
        noise = oracle.set_params(categories=6).simulate(TRUTH * n_users).noise
        expected = noise.variance(TRUTH).mean()
        return float((study.error - expected)[0] / study.standard_error[0])

    assert abs(z(n)) < 4.9
    assert abs(z(n * 9 // 10)) > 4.9


def test_rows_are_the_product_in_order():
    study = a_study(n_samples=[500, 2000])
    assert len(study) == 2 * 2 * 2 * 3 * 4 * 2
    assert study["queries"][:8].tolist() == [name for name in QUERIES for _ in range(2)]
    assert study["metric"][:2].tolist() == ["mse", "mae"]
    assert study["n_samples"].tolist() == [500] * 96 + [2000] * 96
    small = study.select(oracle="GRR", epsilon=2, n_samples=500, postprocessor=["Base", "NormSub"])
    assert len(small) == 2 * 4 * 2
    assert set(small["oracle"]) == {"GRR"}


def test_postprocessors_see_the_same_estimates():
    study = a_study(metrics="mse").select(queries="full", epsilon=2, oracle="OUE")
    base, norm_sub, post_pos = study.errors
    np.testing.assert_array_less(norm_sub, base)  # a projection, in every single run
    np.testing.assert_array_less(post_pos, base * (1 + 1e-12))
    assert np.corrcoef(base, norm_sub)[0, 1] > 0.5


@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.slow), "threading"])
def test_workers_do_not_change_a_bit(backend, capsys):
    """Nor does showing progress, which is silent if nobody asks for it."""
    alone = a_study()
    assert capsys.readouterr().err == ""
    with parallel_config(backend=backend):
        assert same(a_study(n_jobs=2, progress=True), alone)
    assert "] OUE, epsilon 2, n 2,000" in capsys.readouterr().err
    assert not same(a_study(random_state=1), alone)


@pytest.mark.slow
def test_a_cluster_does_not_change_a_bit(client, tmp_path):
    with parallel_config(backend="dask"):
        away = a_study(postprocessors="all", checkpoint=tmp_path / "study.jsonl")
    assert same(away, a_study(postprocessors="all"))


def test_a_cell_does_not_depend_on_the_others():
    whole = a_study()
    part = a_study(oracles=[OUE()], epsilons=[2], postprocessors=NormSub(), queries=None)
    twin = whole.select(oracle="OUE", epsilon=2, postprocessor="NormSub", queries="full")
    np.testing.assert_array_equal(part.errors, twin.errors)


def test_populations_names_and_grids():
    counts = {"a": [5, 3, 2], "b": [10, 0, 0]}
    posts = {"none": Base(), "both": make_pipeline(BaseCut(), NormSub())}
    study = simulate_errors({"mine": GRR(2.0)}, posts, counts, n_repeats=2)
    assert study["population"].tolist() == ["a", "a", "b", "b"]
    assert study["n_samples"].tolist() == [10] * 4
    assert study["epsilon"].tolist() == [2.0] * 4
    assert study["oracle"].tolist() == ["mine"] * 4
    assert study["postprocessor"].tolist() == ["none", "both"] * 2
    grids = {"BaseCut": {"alpha": [0.05, 2]}, "NormSub": {}}
    study = simulate_errors(GRR(), grids, TRUTH, 100, n_repeats=2)
    assert study["postprocessor"].tolist() == ["BaseCut(alpha=0.05)", "BaseCut(alpha=2)", "NormSub"]
    assert "Power" in simulate_errors(GRR(), "all", TRUTH, 100, n_repeats=2)["postprocessor"]


def test_a_search_picks_in_each_run_and_reports_are_looked_at():
    """A search by held-out reports takes noisy copies, and SmoothMLE the simulated tallies."""
    candidates = [Base(), NormSub()]
    study = a_small_study(
        postprocessors={
            "Base": candidates[0],
            "NormSub": candidates[1],
            "pick": SyntheticSearch(candidates, n_repeats=2, random_state=0),
            "held out": HeldOutSearch(candidates, n_splits=1),
            "curve": SmoothMLE(),
        },
        epsilons=[1],
        n_repeats=5,
    ).select(metric="mse")
    base, norm_sub, *picks, curve = study.errors
    for pick in picks:
        assert np.all((pick == base) | (pick == norm_sub))
    assert np.all(curve > 0)


def test_callable_metrics():
    def worst(truth, answers):
        return np.max(np.abs(truth - answers))

    study = a_small_study(metrics=["mae", worst])
    mae, largest = study.select(metric="mae"), study.select(metric="worst")
    assert np.all(mae.errors <= largest.errors)


def test_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    study = a_study()
    for frame in (study.to_frame(), study.to_frame("polars")):
        assert list(frame.columns) == list(study.to_dict())
        assert len(frame) == len(study)
        np.testing.assert_array_equal(frame["error"].to_numpy(), study.errors.mean(axis=1))
    assert isinstance(study.to_frame(), pandas.DataFrame)
    assert isinstance(study.to_frame("polars"), polars.DataFrame)
    with pytest.raises(ValueError, match="unknown library .*Pass library="):
        study.to_frame("dask")


def test_statistics_and_repr():
    same_rows = {"oracle": "GRR", "epsilon": 1.0, "postprocessor": "Base", "metric": "mse"}
    columns = {name: np.array([value] * 30, dtype=object) for name, value in same_rows.items()}
    study = ErrorStudy(columns, np.tile([1.0, 3.0], (30, 1)))
    assert study.error.tolist() == [2.0] * 30
    assert study["standard_deviation"][0] == pytest.approx(2**0.5)
    assert study["standard_error"][0] == pytest.approx(1.0)
    text = repr(study)
    assert "metric" not in text  # the same in every row
    assert text.endswith("... 10 more rows")
    assert np.isnan(ErrorStudy(columns, np.ones((30, 1))).standard_error).all()
    with pytest.raises(KeyError, match="no column 'mse'. Use one of the columns oracle"):
        study["mse"]


# -- resumption -----------------------------------------------------------------------------------
def test_a_checkpoint_is_continued(tmp_path, monkeypatch):
    """By other budgets, and by a new method, which sees the old estimates."""
    path, other = tmp_path / "study.jsonl", tmp_path / "methods.jsonl"
    whole = a_study()
    a_study(epsilons=[0.5], checkpoint=path)
    n_lines = len(path.read_text().splitlines())
    assert same(a_study(checkpoint=path), whole)
    grown = path.read_text().splitlines()
    assert len(grown) - 1 == 2 * (n_lines - 1) == len(whole)
    a_study(postprocessors=[Base()], checkpoint=other)
    assert same(a_study(checkpoint=other), whole)
    # What is in the file is not computed again.
    monkeypatch.setattr(GRR, "fit", None)
    monkeypatch.setattr("sklearn_ldp.model_selection._simulation._work", None)
    assert same(a_study(checkpoint=path), whole)


def test_another_seed_or_population_is_computed_anew(tmp_path):
    path = tmp_path / "study.jsonl"
    a_small_study(checkpoint=path)
    for changes in ({"random_state": 1}, {"frequencies": TRUTH[::-1]}, {"n_repeats": 9}):
        assert same(a_small_study(checkpoint=path, **changes), a_small_study(**changes))


def test_a_torn_line_is_cut_off(tmp_path):
    path = tmp_path / "study.jsonl"
    whole = a_small_study(checkpoint=path)
    intact = path.read_bytes()
    for torn in (b"", b"{", b'{"key": "12', b'{"key": "12", "errors": [1.0]}'):
        path.write_bytes(intact + torn)
        assert same(a_small_study(checkpoint=path), whole)
        assert path.read_bytes() == intact
    # A file that is cut off anywhere, even in its header, is resumed.
    for at in (0, 5, 45, len(intact) // 2, len(intact) - 1):
        path.write_bytes(intact[:at])
        assert same(a_small_study(checkpoint=path), whole)


def test_other_and_damaged_files_are_refused_and_kept(tmp_path):
    path = tmp_path / "notes.txt"
    a_small_study(checkpoint=path)
    lines = path.read_text().splitlines()
    lines[2] = lines[2].replace("errors", "other")
    other = "is not a checkpoint of simulate_errors"
    for content, message in (
        ("my notes", other),
        ("my notes\nmore\n", other),
        (json.dumps({"key": 1}) + "\n", other),
        ("\n".join(lines) + "\n", "damaged in line 3"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            a_small_study(checkpoint=path)
        assert path.read_text() == content


# -- refusals, before any work --------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"oracles": [NormSub()]}, "needs oracles such as OLH"),
        ({"oracles": []}, "at least one entry in oracles, and all entries need different names"),
        ({"oracles": [GRR(), GRR(2.0)]}, "entry in oracles, and all entries need different names"),
        ({"oracles": GRR(epsilon=-1.0), "epsilons": None}, "epsilon"),
        ({"epsilons": [1, -1]}, "epsilon"),
        ({"postprocessors": [GRR()]}, "not an instance of a post-processor"),
        ({"postprocessors": {"a": "NormSub"}}, "got the unknown post-processor 'a'"),
        ({"postprocessors": {"NormSub": {"alpha": [1]}}}, "Invalid parameter 'alpha'"),
        (
            {"postprocessors": [Base(), Base()]},
            "in postprocessors, and all entries need different names",
        ),
        ({"frequencies": [0.5, 0.6]}, "sum to 1, got numbers with the sum 1.1"),
        ({"frequencies": {"mine": [0.5, -0.5]}}, "frequencies of 'mine'"),
        ({"frequencies": [0.5, 0.5], "n_samples": None}, "needs n_samples, because"),
        (
            {"frequencies": ["a", "b", "a"]},
            "for each category, got values that are not numbers",
        ),
        ({"n_samples": 0}, "positive integers as n_samples"),
        ({"n_samples": 1.5}, "positive integers as n_samples"),
        ({"queries": groups([0, 1])}, "queries are for 2 categories"),
        ({"queries": {"top": top_k(7)}}, "top_k"),
        ({"metrics": "rmse"}, "metric"),
        ({"n_repeats": 0}, "n_repeats= to be an integer >= 1"),
        ({"random_state": None}, "random_state"),
    ],
)
def test_refusals(changes, message, tmp_path, monkeypatch):
    started = []
    run = "sklearn_ldp.model_selection._simulation.run"
    monkeypatch.setattr(run, lambda *call: started.append(call))
    with pytest.raises((ValueError, TypeError), match=message):
        a_study(checkpoint=tmp_path / "study.jsonl", **changes)
    assert not started
    assert not (tmp_path / "study.jsonl").exists()


def test_errors_are_on_the_disk_before_the_study_goes_on(tmp_path, monkeypatch):
    sizes = []
    fsync = os.fsync

    def noting(descriptor):
        sizes.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", noting)
    path = tmp_path / "study.jsonl"
    a_small_study(checkpoint=path)
    assert sizes[-1] == path.stat().st_size > 0
