"""What can be known before a collection, on the command line: plan and study."""

import argparse

import numpy as np
import pytest
from test_cli import assert_fails, rows_of, said

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    Base,
    ColumnOracle,
    Domain,
    EmpiricalBayes,
    LocalMean,
    ProjectiveGeometryResponse,
    RangeOracle,
    best_oracle,
)
from sklearn_ldp.__main__ import main
from sklearn_ldp._cli._arguments import make_oracle
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.planning import Plan
from sklearn_ldp.privacy import shuffled_epsilon
from sklearn_ldp.queries import mean
from sklearn_ldp.robustness import poisoning_gain

PLAN = ["plan", "--epsilon", "0.5", "--n-samples", "20000"]


def test_plan_agrees_with_the_library(few_simulated, tmp_path, capsys):
    options = ["--target", "0.02", "--level", "0.9", "--alpha", "1", "--fake-share", "0.05"]
    out, err = said(capsys, *PLAN, "--n-categories", "50", *options)
    rows = {row["oracle"]: row for row in rows_of(out)}
    assert len(rows) == 8
    for name, oracle in (("grr", GRR(0.5)), ("olh", OLH(0.5)), ("oue", OUE(0.5))):
        row = {key: float(value) for key, value in rows[name].items() if key != "oracle"}
        plan = Plan(oracle, 50, level=0.9)
        assert row["rmse"] == pytest.approx(plan.rmse(20_000))
        assert row["half_width"] == pytest.approx(plan.half_width(20_000))
        assert row["users_needed"] == plan.users_for(half_width=0.02)
        threshold = plan.detection_threshold(20_000, alpha=1)
        assert row["detection_threshold"] == pytest.approx(threshold)
        assert row["fake_gain"] == pytest.approx(poisoning_gain(oracle, 0.05, 1, n_categories=50))
    assert rows["oue"]["report_bits"] == "50"
    least = min(rows, key=lambda name: float(rows[name]["rmse"]))
    assert f"use {least} (sklearn_ldp.best_oracle" in err
    assert "--max-source-reports 1000`" in err
    assert all(f"--{name}" in err for name in ("max-source-batches", "min-batch-reports"))
    domain = tmp_path / "domain.txt"
    domain.write_text("".join(f"{i}\n" for i in range(50)))
    output = tmp_path / "new" / "plan.csv"
    argv = [*PLAN, "--categories", str(domain), *options, "--output", str(output)]
    assert said(capsys, *argv).out == ""
    assert output.read_text() == out


@pytest.mark.parametrize("is_survey", [False, True])
def test_plan_shows_the_users_for_one_answer_and_for_all(
    is_survey, few_simulated, tmp_path, capsys
):
    """The first number is too small for the intervals of tables, the second suffices."""
    domains = tmp_path / "domains.json"
    domains.write_text('{"sex": 2, "state": 12}')
    domain = ["--domains", domains] if is_survey else ["--n-categories", "12"]
    argv = ["plan", "--n-samples", "10000", "--target", "0.02", *domain]
    subject = best_oracle(1.0, 12)
    if is_survey:
        subject = ColumnOracle(1.0, domains={"sex": 2, "state": 12})
    expected = []
    for simultaneous in (False, True):
        plan = Plan(subject, simultaneous=simultaneous)
        needed = plan.users_for(half_width=0.02)
        widths = plan.half_width(10_000)
        expected.append(max(needed.values()) if is_survey else needed)
        out, err = said(capsys, *argv, *["--simultaneous"] * simultaneous)
        assert ("see --simultaneous" in err) is not simultaneous
        rows = rows_of(out)
        if is_survey:
            assert [float(row["half_width"]) for row in rows] == pytest.approx([*widths.values()])
            assert [int(row["users_needed"]) for row in rows] == [*needed.values()]
        else:
            (row,) = (row for row in rows if row["oracle"] == "subset-selection")
            assert float(row["half_width"]) == pytest.approx(widths)
            assert int(row["users_needed"]) == needed
    each, together = expected
    assert each < together / 1.5
    assert f"needs {each:,} users if one frequency is named beforehand, and {together:,}" in err


@pytest.mark.slow
def test_plan_knows_what_is_left_after_processing(tmp_path, capsys):
    """The error is that of a simulation, of the presumed frequencies and the same oracle."""

    def processed(*options):
        rows = {row["oracle"]: row for row in rows_of(said(capsys, *PLAN, *options).out)}
        return float(rows["oue"]["processed_rmse"]), float(rows["oue"]["rmse"])

    by_zipf, raw = processed("--n-categories", "1000")
    steep, _ = processed("--n-categories", "1000", "--exponent", "2")
    assert steep < by_zipf < raw / 2
    weights = 1 / np.arange(1, 1001)
    frequencies = weights / weights.sum()
    posts = [Base(), EmpiricalBayes()]
    study = simulate_errors(OUE(0.5), posts, frequencies, n_samples=20_000, n_repeats=400)
    # Six further studies of 40 collections, as many as of the plan, are within .93 and 1.16 of it.
    assert by_zipf**2 / raw**2 == pytest.approx(study.error[1] / study.error[0], rel=0.25)

    histogram = tmp_path / "like.csv"
    counts = np.round(1e6 * frequencies).astype(int)
    histogram.write_text("value,count\n" + "".join(f"{i},{c}\n" for i, c in enumerate(counts)))
    like, _ = processed("--like", str(histogram))
    # A few collections so weak that in some of them "all equal" is as likely as the shape.
    assert like == pytest.approx(by_zipf, rel=0.25)
    assert steep < like
    argv = [*PLAN, "--like", histogram, "--exponent", "2"]
    assert_fails(argv, capsys, "cannot be combined with --like")


def test_plan_reads_columns_of_other_names(few_simulated, tmp_path, capsys):
    """The error of the default names leads to the options."""
    like = tmp_path / "like.csv"
    like.write_text("value,count\na,10\nb,30\n")
    argv = [*PLAN, "--like", like]
    expected = said(capsys, *argv).out
    like.write_text("job,people\na,10\nb,30\n")
    assert_fails(argv, capsys, "'job', 'people'", "as value_column= and count_column=")
    options = ["--value-column", "job", "--count-column", "people"]
    assert said(capsys, *argv, *options).out == expected


def test_plan_tells_how_many_users_a_statement_takes(few_simulated, capsys):
    argv = [*PLAN, "--n-categories", "50"]
    for options, to, power in [
        ([], "change", 0.8),
        (["--to", "order", "--power", "0.9"], "order", 0.9),
    ]:
        assert main([*argv, "--gap", "0.01", *options]) == 0
        rows = {row["oracle"]: row for row in rows_of(capsys.readouterr().out)}
        for name, oracle in (("grr", GRR(0.5)), ("olh", OLH(0.5))):
            expected = Plan(oracle, 50).users_for(**{to: 0.01}, power=power)
            assert rows[name]["users_to_tell"] == str(expected)
    for options in (["--to", "order"], ["--power", "0.9"]):
        assert_fails([*argv, *options], capsys, "need --gap F")
    assert_fails([*argv, "--gap", "0.01", "--power", "1"], capsys, "0.5 <= power < 1")


def test_a_plan_without_noise_is_finite(few_simulated, capsys):
    """No report of GRR is false at epsilon 50, so that there is no error to divide by."""
    assert main(["plan", "--epsilon", "50", "--n-categories", "100", "--n-samples", "1000"]) == 0
    rows = rows_of(capsys.readouterr().out)
    for row in rows:
        assert all(np.isfinite(float(cell)) for name, cell in row.items() if name != "oracle")
        assert float(row["processed_rmse"]) <= 2 * float(row["rmse"])


def test_plan_of_a_shuffle(few_simulated, tmp_path, capsys):
    shuffle = ["--shuffled", "--delta", "1e-8"]
    assert main([*PLAN, "--n-categories", "50", *shuffle]) == 0
    rows = {row["oracle"]: row for row in rows_of(capsys.readouterr().out)}
    expected = shuffled_epsilon(OUE(0.5, categories=50), 20_000, 1e-8)
    assert float(rows["oue"]["shuffled_epsilon"]) == pytest.approx(expected)
    domains = tmp_path / "domains.json"
    domains.write_text('{"sex": ["F", "M"], "age": 10}')
    assert main([*PLAN, "--domains", str(domains), *shuffle]) == 0
    survey = ColumnOracle(0.5, domains={"sex": ["F", "M"], "age": 10})
    by_column = shuffled_epsilon(survey, 20_000, 1e-8)
    for row in rows_of(capsys.readouterr().out):
        assert float(row["shuffled_epsilon"]) == pytest.approx(by_column[row["column"]])
    for options in (["--shuffled"], ["--delta", "0.1"]):
        assert_fails([*PLAN, "--n-categories", "50", *options], capsys, "must be used together")
    options = ["--shuffled", "--delta", "0"]
    assert_fails([*PLAN, "--n-categories", "50", *options], capsys, "0 < delta < 1")


def test_plan_of_numbers(capsys):
    """It is that of the library, and the oracle for ranges has the least error."""
    options = ["--bounds", "-5", "5", "--n-bins", "16", "--level", "0.9"]
    out, err = said(capsys, *PLAN, *options)
    rows = {row["oracle"]: {k: v for k, v in row.items() if k != "oracle"} for row in rows_of(out)}
    oracle = RangeOracle(0.5, categories=Domain.bins(16, bounds=(-5, 5)))
    plan, found = Plan(oracle, queries=np.tri(16)[:15], level=0.9), rows["range-oracle"]
    assert float(found["rmse"]) == pytest.approx(plan.rmse(20_000))
    assert float(found["half_width"]) == pytest.approx(plan.half_width(20_000))
    assert int(found["users_needed"]) == plan.users_for(half_width=0.01)
    of_mean = Plan(oracle, queries=mean(), level=0.9).half_width(20_000)
    assert float(found["mean_half_width"]) == pytest.approx(of_mean)
    middle = Plan(oracle, queries=np.tri(16)[[7]], level=0.9).half_width(20_000)
    assert float(found["median_half_width"]) == pytest.approx(10 * middle)
    assert min(rows, key=lambda name: float(rows[name]["rmse"])) == "range-oracle"
    low, high = LocalMean(0.5, bounds=(-5, 5)).fit(np.zeros(20_000)).confidence_interval(0.9)
    assert f"LocalMean has a half width of at most {(high - low) / 2:.4g}" in err
    for bad, what in [
        (["--bounds", "0", "1", "--n-categories", "5"], "must be used together"),
        (["--n-bins", "5"], "must be used together"),
        (["--n-bins", "5", "--bounds", "1", "0"], "smaller first"),
        (["--n-bins", "5", "--bounds", "0", "1", "--gap", "0.1"], "Leave out these options"),
    ]:
        assert_fails([*PLAN, *bad], capsys, what)


def test_only_oracles_with_a_client_are_compared_for_browsers():
    arguments = argparse.Namespace(epsilon=1.0, oracle=None)
    anywhere, in_browsers = (
        make_oracle(arguments, np.arange(5000), in_browsers=is_limited) for is_limited in (0, 1)
    )
    assert isinstance(anywhere, ProjectiveGeometryResponse)
    assert isinstance(in_browsers, OLH)
