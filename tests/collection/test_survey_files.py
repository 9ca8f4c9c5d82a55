"""Whatever survey the package accepts: what its clients write, its collector reads."""

import io

import numpy as np
import pytest
from estimators import SUPPORTING, slow_but

from sklearn_ldp import GRR, OUE, ColumnOracle, MarginalOracle
from sklearn_ldp.collection import RefusedBatchError, read_reports, write_reports

pytest.importorskip("pyarrow")

ORACLES = ["best", *SUPPORTING]
SIZES = [2, 3, 4, 7, 16, 60, 130, 257, 1000, 4096, 5000, 20_000]


def random_survey(rng):
    """A survey of any kind, over any number of columns of any sizes, at any budget."""
    epsilon = float(np.exp(rng.uniform(np.log(0.1), np.log(8))))
    oracle = ORACLES[rng.integers(len(ORACLES))]
    is_table = rng.random() < 0.3
    n_columns = int(np.exp(rng.uniform(0.7, np.log(40 if is_table else 600))))
    largest = len(SIZES) if n_columns < 5 else 3 + int(rng.integers(4))
    sizes = rng.choice(SIZES[: min(largest, 6) if is_table else largest], size=n_columns)
    domains = {f"column {j}": int(size) for j, size in enumerate(sizes)}
    if is_table:
        options = {"order": min(n_columns, 2), "method": "split", "column_share": 0.0}
        return MarginalOracle(epsilon, domains=domains, oracle=oracle, **options)
    strategy = "split-budget" if rng.random() < 0.1 and n_columns < 12 else "sample"
    n_sampled = 1 if strategy != "sample" else int(rng.integers(1, min(n_columns, 3) + 1))
    if not isinstance(oracle, str) and rng.random() < 0.3:
        oracle = dict.fromkeys(list(domains)[::2], oracle)
    options = {"n_sampled": n_sampled, "strategy": strategy}
    return ColumnOracle(epsilon, domains=domains, oracle=oracle, **options)


def check_written_is_read(survey, rng):
    domains = [one.size for one in survey.protocol().domain.columns.values()]
    records = rng.integers(0, domains, size=(17, len(domains)))
    reports = survey.privatize(records)
    for form in ("parquet", "arrow", "jsonl"):
        file = io.BytesIO()
        write_reports(file, reports, survey, batch_id="x" * 1000, format=form)
        found = read_reports(file.getvalue(), survey, format=form)
        assert sorted(found.tolist()) == sorted(reports.tolist())


@pytest.mark.parametrize("number", slow_but(range(6), range(500)))
def test_every_survey_that_is_accepted_is_read(number):
    rng = np.random.default_rng(number)
    check_written_is_read(random_survey(rng), rng)


ANSWERS = {f"answer {j}": 4 for j in range(400)}


@pytest.mark.parametrize(
    ("domains", "oracle"),
    [({"sex": 2, "city": 20_000}, "best"), ({"sex": 2, "city": 5000}, OUE()), (ANSWERS, "best")],
)
def test_surveys_whose_headers_were_too_long(domains, oracle):
    survey = ColumnOracle(1.0, domains=domains, oracle=oracle)
    check_written_is_read(survey, np.random.default_rng(0))


def test_a_large_column_does_not_make_all_reports_long():
    """The most accurate set for 20,000 categories has 5,380 members; 64 bits cost 0.1 % of it."""
    survey = ColumnOracle(1.0, domains={"sex": 2, "city": 20_000})
    assert survey.privatize(np.zeros((1, 2), dtype=int)).shape[1] <= 3


def test_a_round_that_no_header_holds_is_refused_before_anybody_randomises():
    def reports():
        raise AssertionError("somebody has spent epsilon")
        yield

    options = {"format": "jsonl", "collection_round": "r" * 70_000}
    with pytest.raises(ValueError, match="has .* characters"):
        write_reports(io.BytesIO(), reports(), GRR(1.0, categories=2), **options)


def test_wide_reports_are_lists_in_files():
    """200 bits take one column of a file, beside the part, in which all of them are packed."""
    survey = ColumnOracle(1.0, domains={"a": 200, "b": 2}, oracle=OUE())
    reports = survey.privatize(np.zeros((5000, 2), dtype=int))
    assert [field.width for field in survey.protocol().mechanism.report_fields] == [None, 200]
    file = io.BytesIO()
    write_reports(file, reports, survey, format="arrow")
    assert len(file.getvalue()) < 5000 * (1 + 25) * 1.2
    found = read_reports(file.getvalue(), survey, format="arrow")
    assert survey.aggregate(found).n_samples_seen_ == 5000
    other = ColumnOracle(1.0, domains={"a": 201, "b": 2}, oracle=OUE())
    with pytest.raises(RefusedBatchError, match="another collection"):
        read_reports(file.getvalue(), other, format="arrow")
