"""Aggregators count each batch once and no bad one, and sums do not depend on the order."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE, Base, HeldOutSearch, NormSub, SubsetSelection
from sklearn_ldp._core.aggregation._ledger import Ledger
from sklearn_ldp._core.common import locks
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    RepeatedBatchError,
    Tally,
    tally_reports,
)

ORACLE = GRR(1.0, categories=["a", "b", "c"], random_state=0)


def snapshot(server):
    tally = server.tally()
    return tally.tallies.tolist(), tally.sizes.tolist(), tally.batches


def summed(server):
    return *sums(server), server.tally().batches


def sums(server):
    tally = server.tally()
    return tally.tallies.sum(axis=0).tolist(), tally.sizes.sum()


def batches_of(oracle, n_batches=7):
    rng = np.random.default_rng(0)
    d = oracle.categories
    return {
        f"batch {i}": oracle.privatize(rng.integers(d, size=rng.integers(1, 60)))
        for i in range(n_batches)
    }


@pytest.mark.parametrize("oracle", [GRR(), OUE(), OLH()], ids=str)
def test_counts_are_those_of_the_oracle_in_any_order(oracle):
    oracle = clone(oracle).set_params(categories=13, random_state=0)
    batches = batches_of(oracle)
    server, backwards = Aggregator(oracle), Aggregator(oracle)
    for batch_id in batches:
        server.add(batches[batch_id], batch_id)
    for batch_id in reversed(batches):
        backwards.add(batches[batch_id], batch_id)
    whole = clone(oracle).aggregate(np.concatenate(list(batches.values())))
    np.testing.assert_array_equal(server.oracle_.support_counts_, whole.support_counts_)
    assert np.array_equal(server.estimate_.values, whole.estimate_.values)
    # Only the sums over all shards: reports of arrays are dealt out to these at random.
    assert sums(server) == sums(backwards)
    assert sum(server.batches.values()) == server.n_samples == whole.n_samples_seen_


def test_merging_is_adding():
    batches = batches_of(GRR(1.0, categories=5, random_state=0))
    oracle = GRR(1.0, categories=5)
    one, left, right = Aggregator(oracle), Aggregator(oracle), Aggregator(oracle)
    total = None
    for i, (batch_id, reports) in enumerate(batches.items()):
        one.add(reports, batch_id)
        (left if i % 2 else right).add(reports, batch_id)
        tally = tally_reports(reports, oracle, batch_id)
        total = tally if total is None else total + pickle.loads(pickle.dumps(tally))
    assert sums(left.merge(right)) == sums(one)
    assert sums(Aggregator(oracle).merge(total)) == sums(one)
    assert left.batches == one.batches == total.batches
    assert total.n_samples == one.n_samples


def test_a_batch_counts_once():
    server = Aggregator(ORACLE).add([0, 1, 2], "monday")
    before = snapshot(server)
    with pytest.raises(RepeatedBatchError, match="'monday' before: each report counts once"):
        server.add([0, 1, 2], "monday")
    with pytest.raises(RepeatedBatchError, match="'monday' before"):
        server.merge(tally_reports([0], ORACLE, "monday"))
    assert snapshot(server) == before
    assert server.summary().n_refused == 2
    assert "monday" in server
    assert "tuesday" not in server


def test_repeats_can_be_ignored():
    server = Aggregator(ORACLE, on_repeat="ignore").add([0, 1, 2], "monday")
    before = snapshot(server)
    server.add([0, 1, 2], "monday").merge(server)
    assert snapshot(server) == before
    assert server.summary().n_repeats == 2
    mixed = tally_reports([0], ORACLE, "monday") + tally_reports([1], ORACLE, "tuesday")
    with pytest.raises(RepeatedBatchError):
        server.merge(mixed)
    mixed = server.tally() + tally_reports([1], ORACLE, "tuesday")
    with pytest.raises(
        RepeatedBatchError, match="also contains 1 other batches, .* merge one tally per"
    ):
        server.merge(mixed)
    assert snapshot(server) == before


BAD = {
    "GRR too large": (GRR(), [0, 1, 13]),
    "GRR negative": (GRR(), [0, -1]),
    "GRR wrong width": (GRR(), [[0, 1]]),
    "GRR halves": (GRR(), [0.5, 1.0]),
    "GRR no iterable": (GRR(), 3),
    "GRR a number": (GRR(), np.array(3)),
    "GRR a dictionary": (GRR(), {0: 1}),
    "GRR complex": (GRR(), np.array([1j])),
    "GRR None": (GRR(), [0, None]),
    "GRR huge": (GRR(), [0, 10**30]),
    "GRR bad at the very end": (GRR(), np.r_[np.zeros(600_000, dtype=np.uint8), 13]),
    "GRR bad second piece": (GRR(), iter([[0, 1], [13]])),
    "OUE wrong width": (OUE(), np.zeros((3, 12), dtype=np.uint8)),
    "OUE twos": (OUE(), np.full((3, 13), 2)),
    "OLH one column": (OLH(), [0, 1]),
    "OLH large value": (OLH(), [[0, 4]]),
    "OLH large function": (OLH(), [[10**9, 0]]),
    "subset unsorted": (SubsetSelection(1.0), [[3, 2, 1]]),
    "subset twice": (SubsetSelection(1.0), [[1, 1, 2]]),
    "ragged": (OLH(), [[1, 2], [3]]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_batch_is_refused_whole_and_changes_nothing(case):
    oracle, reports = BAD[case]
    oracle = clone(oracle).set_params(categories=13, random_state=0)
    server = Aggregator(oracle).add(oracle.privatize(np.arange(13)), "good")
    before = snapshot(server)
    with pytest.raises(RefusedBatchError, match="Batch 'bad' is refused: "):
        server.add(reports, "bad")
    assert snapshot(server) == before
    summary = server.summary()
    assert (summary.n_samples, summary.n_batches, summary.n_refused) == (13, 1, 1)
    assert summary.refused[0].batch_id == "bad"
    # The sender may mend it.
    server.add(oracle.privatize([1]), "bad")
    assert server.n_samples == 14


def test_another_collection_is_refused():
    server = Aggregator(ORACLE).add([0], "monday")
    for other, what in [
        (Aggregator(clone(ORACLE).set_params(epsilon=2.0)), "epsilon 2.0 instead of 1.0"),
        (Aggregator(ORACLE, collection_round="may"), "collection_round 'may' instead of ''"),
        (Aggregator(clone(ORACLE).set_params(n_shards=3)), "3 shards instead of 10"),
    ]:
        with pytest.raises(RefusedBatchError, match=what):
            server.merge(other.add([0], "tuesday"))
        with pytest.raises(RefusedBatchError, match=what):
            server.tally() + other.tally()
    with pytest.raises(TypeError, match="needs an Aggregator or a Tally, got GRR"):
        server.merge(ORACLE)
    assert server.n_samples == 1


def test_misuse_is_told():
    with pytest.raises(ValueError, match="has no domain yet"):
        Aggregator(GRR(1.0))
    with pytest.raises(ValueError, match="already contains 2 reports"):
        Aggregator(clone(ORACLE).aggregate([0, 1]))
    with pytest.raises(TypeError, match="needs a frequency oracle or a Protocol, got NormSub"):
        Aggregator(NormSub())
    with pytest.raises(ValueError, match='on_repeat must be "raise" or "ignore"'):
        Aggregator(ORACLE, on_repeat="replace")
    with pytest.raises(ValueError, match="has no reports yet"):
        Aggregator(ORACLE).estimate_  # noqa: B018
    for batch_id in ("", 7, None, "x" * 1001, "\ud800"):
        with pytest.raises(ValueError, match="The id of a batch must be"):
            Aggregator(ORACLE).add([0], batch_id)


def test_the_oracle_stays_as_it_was():
    oracle = clone(ORACLE)
    server = Aggregator(oracle).add([0, 1], "monday")
    oracle.set_params(epsilon=5.0)
    server.add([2], "tuesday")
    assert server.configuration["epsilon"] == 1.0
    assert not hasattr(oracle, "categories_")
    assert server.oracle_.n_samples_seen_ == 3


def test_shards_go_to_a_held_out_search():
    oracle = GRR(2.0, categories=6, random_state=0)
    server = Aggregator(oracle)
    for i in range(20):  # small batches must not all fill the first shard
        server.add(oracle.privatize(np.arange(6)[: 1 + i % 2]), f"batch {i}")
    sizes = np.array(server.summary().shard_sizes)
    assert sizes.sum() == 30
    assert np.count_nonzero(sizes) >= 5
    server.add(oracle.privatize(np.arange(3000) % 6), "large")
    assert HeldOutSearch([Base(), NormSub()]).fit(server.estimate_).best_index_ in (0, 1)


def test_the_record_has_a_bound(monkeypatch):
    server = Aggregator(ORACLE)
    for i in range(1500):
        server.note_refusal(f"file {i}", "x" * 10_000)
    summary = server.summary()
    assert summary.n_refused == 1500
    assert len(summary.refused) == 1000
    assert max(len(refusal.reason) for refusal in summary.refused) < 600
    assert "batches: 0 (0 repeats ignored, 1500 refused)" in str(summary)


def interrupted_at(number, act):
    """Raise KeyboardInterrupt at a line of the collection's code; return whether there was one."""
    left = number

    def local(frame, event, _):
        nonlocal left
        left -= event == "line"
        if not left:
            raise KeyboardInterrupt
        return local

    def trace(frame, event, _):
        return local if "aggregation" in frame.f_code.co_filename else None

    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt:
        # Between the body of a `with` statement and the release of its lock a trace function can
        # interrupt, but no signal can. Other threads of later tests would wait for this lock.
        locks._forget_locks()
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.slow
def test_ctrl_c_leaves_ledger_and_counts_in_step():
    """At whatever line it comes: a batch is in both or in neither, and can be sent again."""
    # Reports are dealt out to shards at random, so it is the sums of all shards that agree.
    whole = summed(Aggregator(ORACLE).add([0], "monday").add([1, 2] * 500, "tuesday"))
    number, was_interrupted = 0, True
    while was_interrupted:
        number += 1
        server = Aggregator(ORACLE, on_repeat="ignore").add([0], "monday")
        before = summed(server)
        was_interrupted = interrupted_at(number, lambda: server.add([1, 2] * 500, "tuesday"))  # noqa: B023
        assert summed(server) in (before, whole), number
        assert summed(server.add([1, 2] * 500, "tuesday")) == whole, number
        with pytest.raises(RepeatedBatchError, match="as batch 'tuesday'"):
            server.add([1, 2] * 500, "again")
    assert number > 50


def test_ledgers_that_grow_out_of_one_do_not_see_each_other():
    ledger = Ledger({"a": 1}, {"a": bytes(48)})
    one, other = ledger + Ledger({"b": 2}, {}), ledger + Ledger({"c": 3}, {})
    assert (dict(ledger), dict(one), dict(other)) == ({"a": 1}, {"a": 1, "b": 2}, {"a": 1, "c": 3})
    assert one._by_id is ledger._by_id  # a batch costs what it holds, and not what the ledger does
    assert ("b" in one, "b" in ledger, "b" in other) == (True, False, False)
    assert pickle.loads(pickle.dumps(ledger)).digests == ledger.digests == {"a": bytes(48)}
    with pytest.raises(
        RepeatedBatchError, match="counted batch 'b' before: each report counts once"
    ):
        one + Ledger({"b": 2}, {})


def test_pickles():
    server = Aggregator(ORACLE).add([0, 1], "monday")
    copy = pickle.loads(pickle.dumps(server)).add([2], "tuesday")
    assert (server.n_samples, copy.n_samples) == (2, 3)
    assert repr(copy) == "Aggregator(GRR, 3 reports in 2 batches)"
    assert isinstance(copy.tally(), Tally)
    assert type(copy) is Aggregator
