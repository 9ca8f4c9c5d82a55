"""A warning, once, where an estimate of so few reports is compatible with any frequency."""

import numpy as np
import pytest

from sklearn_ldp import GRR, OLH, ColumnOracle, LocalMean
from sklearn_ldp._core.common import privacy
from sklearn_ldp.oracles import estimate_by_group

YES_NO = {"categories": ["no", "yes"]}


@pytest.fixture(autouse=True)
def _nothing_warned_of(monkeypatch):
    monkeypatch.setattr(privacy, "_given", set())


@pytest.mark.parametrize(
    "collect",
    [
        lambda n: GRR(1.0, **YES_NO).fit(["no"] * n),
        lambda n: GRR(1.0, **YES_NO, input="reports").fit([0] * n),
        lambda n: GRR(1.0, **YES_NO).aggregate([0] * n),
        lambda n: OLH(1.0, **YES_NO).partial_fit(["no"] * n),
        lambda n: ColumnOracle(1.0, domains={"a": 2}).fit(np.zeros((n, 1), dtype=int)),
        lambda n: LocalMean(1.0, bounds=(0, 50)).fit([25] * n),
    ],
    ids=["values", "reports", "aggregate", "hashes", "columns", "mean"],
)
def test_an_estimate_of_a_few_users_is_warned_of_once(collect):
    name = type(collect(1)).__name__
    message = rf"{name} estimates from 1 report with a standard error of [\d.]+ of the possible "
    with pytest.warns(UserWarning, match=message + "range.* Collect more reports"):
        assert collect(1).estimate_ is not None
    assert collect(1).estimate_ is not None
    assert set(privacy._given) == {"few reports"}
    privacy._given.clear()
    assert collect(40).estimate_ is not None  # negative control
    assert not privacy._given


def test_the_bound_is_half_of_the_range():
    """GRR at epsilon 1 has a standard error of 0.96 / sqrt(n): 3 users have .55, and 4 have .48."""
    with pytest.warns(UserWarning, match="from 3 reports with a standard error of 0.55"):
        assert GRR(1.0, **YES_NO).fit(["no"] * 3).estimate_
    assert GRR(1.0, **YES_NO).fit(["no"] * 4).noise_.std == pytest.approx(0.96 / 2, abs=0.01)


def test_simulations_and_groups_are_not_warned_of():
    assert GRR(1.0, **YES_NO, random_state=0).fit(["no"]).estimate_
    assert len(estimate_by_group(GRR(1.0, **YES_NO), ["no"] * 21, ["a"] * 20 + ["b"])) == 2
    assert not privacy._given
