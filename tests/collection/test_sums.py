"""Sums from elsewhere are not believed: forged ones are refused, for every oracle."""

import numpy as np
import pytest
from estimators import ORACLES, each_way, slow_but, ways
from forged import forged
from one_bit import one_bit
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE, RangeOracle
from sklearn_ldp._core.aggregation.checkpoints import Checkpoint, write
from sklearn_ldp._core.mechanisms.mechanism import Mechanism
from sklearn_ldp.collection import Aggregator, CheckpointError, RefusedBatchError, tally_reports
from sklearn_ldp.surveys._range_oracle import grid_channel

DOMAINS = [3, 13, 300]


def prepared(oracle, d=13):
    oracle = clone(oracle).set_params(categories=d, random_state=0, n_shards=3)
    return oracle, tally_reports(oracle.privatize(np.arange(60) % d), oracle, "a")


def changed(array, index, value, dtype=None):
    array = array.astype(dtype or array.dtype)
    array[index] = value
    return array


FORGED = {
    "negative": lambda t: forged(t, tallies=changed(t.tallies, (0, 0), -1)),
    "all negative": lambda t: forged(t, tallies=-t.tallies - 1),
    "multiplied": lambda t: forged(t, tallies=61 * t.tallies),
    "wrapped": lambda t: forged(t, tallies=t.tallies + np.int64(2**62)),
    "wrapped to the same sum": lambda t: forged(
        t, tallies=changed(t.tallies, (0, slice(0, 2)), [2**63 - 1, -(2**63) + 1])
    ),
    "unsigned": lambda t: forged(t, tallies=changed(t.tallies, (0, 0), 2**63 + 1, np.uint64)),
    "floats": lambda t: forged(t, tallies=t.tallies.astype(float)),
    "not a number": lambda t: forged(t, tallies=t.tallies * np.nan),
    "objects": lambda t: forged(t, tallies=t.tallies.astype(object)),
    "booleans": lambda t: forged(t, tallies=t.tallies.astype(bool)),
    "a large cell": lambda t: forged(t, tallies=changed(t.tallies, (1, 1), 10**6)),
    "no ledger": lambda t: forged(t, batches={}, digests={}),
    "no ledger and no sizes": lambda t: forged(t, batches={}, digests={}, sizes=0 * t.sizes),
    "a shard without reports": lambda t: forged(
        t, sizes=np.array([0, t.sizes[0] + t.sizes[1], t.sizes[2]])
    ),
    "a negative shard": lambda t: forged(
        t, sizes=np.array([-1, t.sizes[0] + t.sizes[1] + 1, t.sizes[2]])
    ),
    "sizes that wrap": lambda t: forged(
        t, sizes=np.array([2**62, 2**62, 2**62]), batches={"a": 3 * 2**62}
    ),
    "too many reports": lambda t: forged(t, batches={"a": 61}),
    "a negative entry": lambda t: forged(t, batches={"a": 61, "b": -1}),
    "an entry of no reports": lambda t: forged(t, batches={"a": 60, "b": 0}),
    "an entry that is no number": lambda t: forged(t, batches={"a": "60"}),
    "an empty id": lambda t: forged(t, batches={"": 60}, digests={}),
    "a short digest": lambda t: forged(t, digests={"a": b"1"}),
    "another shape": lambda t: forged(t, sizes=t.sizes[:, None]),
}


# Making a matrix for 300 categories takes seconds; the square wave has one in a moment.
SUMS = [(o, d) for o in ORACLES for d in DOMAINS]
QUICK_SUMS = [(o, 300 if isinstance(o, GRR | OLH | OUE) else 3) for o in ways(ORACLES)]


@pytest.mark.parametrize(("oracle", "d"), slow_but(QUICK_SUMS, SUMS), ids=str)
def test_honest_sums_are_taken(oracle, d):
    oracle, tally = prepared(oracle, d)
    server = Aggregator(oracle).merge(tally)
    assert server.n_samples == 60
    oracle.channel().check_tallies(tally.tallies, tally.sizes)
    np.testing.assert_array_equal(server.tally().tallies, tally.tallies)


class Places(RangeOracle):
    """Reports about a grid, for categories that are numbers."""

    def _make_mechanism(self, domain):
        return grid_channel(self.epsilon, (1, domain.size), [(1, domain.size // 2), (1, 1)], [1, 3])


@pytest.mark.parametrize("oracle", [*each_way(ORACLES), Places()], ids=str)
def test_forged_sums_are_refused(oracle):
    oracle, tally = prepared(oracle, 12 if isinstance(oracle, Places) else 13)
    first = oracle.privatize([1])
    for case, forge in FORGED.items():
        server = Aggregator(oracle).add(first, "first")
        before = server.tally()
        with pytest.raises(RefusedBatchError, match="refuse"):
            server.merge(forge(tally))
        np.testing.assert_array_equal(server.tally().tallies, before.tallies, err_msg=case)
        assert server.batches == before.batches, case
        assert server.summary().n_refused == 1, case


def sealed(tmp_path, tally):
    """A checkpoint with a proper seal, as a forger would make it."""
    path = tmp_path / "state.npz"
    write(path, Checkpoint(tally, 0, 0, []))
    return path


@pytest.mark.parametrize(
    "case",
    ["negative", "multiplied", "wrapped", "a large cell", "no ledger", "a shard without reports"],
)
def test_forged_checkpoints_are_refused(case, tmp_path):
    oracle, tally = prepared(OUE())
    path = sealed(tmp_path, tally)
    assert Aggregator.load(path, oracle).n_samples == 60
    sealed(tmp_path, FORGED[case](tally))
    with pytest.raises(CheckpointError, match="is not a checkpoint of this collection"):
        Aggregator.load(path, oracle)


@pytest.mark.parametrize("oracle", [GRR(), OLH(), OLH(hash_range=5)], ids=str)
def test_sums_per_report_are_known(oracle):
    """Some counts more, all of them below the number of reports: not with these oracles."""
    oracle, tally = prepared(oracle, 300)
    assert oracle.channel().tally_sum is not None
    one_more = forged(tally, tallies=changed(tally.tallies, (0, 0), tally.tallies[0, 0] + 1))
    with pytest.raises(RefusedBatchError, match="the counts of reports add up to"):
        Aggregator(oracle).merge(one_more)


def test_a_sum_that_wraps_to_the_right_one():
    """Integers alone would not see that 2**64 was added."""
    channel = GRR(1.0, categories=2**11 + 1).channel()
    tallies = np.full((1, 2**11 + 1), 2**53, dtype=np.int64)
    tallies[0, -1] = 100
    assert tallies.sum() == 100
    with pytest.raises(ValueError, match=r"add up to 1844674407370955\d{4} instead of 100"):
        Mechanism.check_tallies(channel, tallies, np.array([100]))


def test_a_mechanism_without_a_bound_of_its_own():
    protocol = one_bit(n_shards=2)
    tally = tally_reports([0, 1, 1], protocol, "a")
    server = Aggregator(protocol).merge(tally)
    for other in (
        forged(tally, tallies=-tally.tallies, batches={"b": 3}, digests={}),
        forged(tally, tallies=tally.tallies + 2**54, batches={"b": 3}, digests={}),
        forged(tally, batches={}, digests={}, sizes=0 * tally.sizes),
    ):
        with pytest.raises(RefusedBatchError):
            server.merge(other)
    assert server.n_samples == 3


def test_counts_stay_exact():
    oracle = OUE(1.0, categories=2, n_shards=1)
    tally = tally_reports([[1, 0]], oracle, "a")
    most = 2**53
    sums = {"tallies": np.array([[most - 1, 0]]), "sizes": np.array([most - 1])}
    large = forged(tally, **sums, batches={"large": most - 1}, digests={})
    server = Aggregator(oracle).merge(large).merge(tally)
    with pytest.raises(RefusedBatchError, match=r"only up to 2\*\*53"):
        server.merge(tally_reports([[1, 0]], oracle, "b"))
    assert server.n_samples == most
