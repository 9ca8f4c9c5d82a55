"""Small batches cost what they hold: they wait, and are tallied together with the same sums."""

import pickle

import joblib
import numpy as np
import pytest
from estimators import ORACLES, slow_but
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE, SubsetSelection
from sklearn_ldp._core.mechanisms import Counts
from sklearn_ldp._core.mechanisms import counts as _counts
from sklearn_ldp.collection import Aggregator, RefusedBatchError

D = 13


def one_by_one(counts, protocol, reports, step=1):
    for i in range(0, len(reports), step):
        piece = reports[i : i + step]
        counts = counts.added(protocol.mechanism, len(piece), lambda i, j, r=piece: r[i:j])
    return counts


def equal(one, other):
    return np.array_equal(one.tallies, other.tallies) and np.array_equal(one.sizes, other.sizes)


@pytest.mark.parametrize("oracle", slow_but([GRR(), OUE(), SubsetSelection()], ORACLES), ids=str)
def test_reports_one_by_one_have_the_sums_of_all_at_once(oracle, monkeypatch):
    oracle = clone(oracle).set_params(categories=D, random_state=0, n_shards=3)
    protocol, reports = oracle.protocol(), oracle.privatize(np.arange(200) % D)
    small = one_by_one(protocol.empty, protocol, reports)
    assert small._waiting is not None
    monkeypatch.setattr(_counts, "_SMALL_BYTES", -1)
    monkeypatch.setattr(Counts, "_small_bytes", -1)
    at_once = protocol.empty.added(protocol.mechanism, 200, lambda i, j: reports[i:j])
    assert at_once._waiting is None
    assert equal(small, at_once)
    assert small.n_samples == 200


def test_a_small_batch_does_not_touch_all_tallies(monkeypatch):
    """OLH(4) keeps 10 x 151,792 counts, which took 4 ms a batch to copy and add."""
    oracle = OLH(4.0, categories=1000, random_state=0)
    server, reports = Aggregator(oracle), oracle.privatize(np.arange(1000))
    calls, mechanism = [], type(server._protocol.mechanism)
    tally = mechanism.tally
    monkeypatch.setattr(
        mechanism, "tally", lambda self, reports: calls.append(len(reports)) or tally(self, reports)
    )
    for i in range(1000):
        server.add(reports[i : i + 1], f"phone {i}")
    assert not calls
    assert server.n_samples == 1000
    whole = clone(oracle).aggregate(reports)
    np.testing.assert_array_equal(server.oracle_.support_counts_, whole.support_counts_)
    assert sum(calls[:10]) == 1000  # each shard was tallied once


def test_what_waits_has_a_bound(monkeypatch):
    monkeypatch.setattr(_counts, "_WAITING_BYTES", 2000)
    protocol = GRR(1.0, categories=D, n_shards=2).protocol()
    counts, most = protocol.empty, 0
    for i in range(1000):
        counts = one_by_one(counts, protocol, np.array([i % D]))
        most = max(most, counts._waiting.n_bytes if counts._waiting else 0)
    assert 1000 < most <= 2000
    np.testing.assert_array_equal(counts.tallies.sum(axis=(0, 1)), np.bincount(np.arange(1000) % D))


def test_counts_stay_what_they_were():
    protocol = GRR(1.0, categories=D, n_shards=2).protocol()
    counts = one_by_one(protocol.empty, protocol, np.array([1, 2]))
    before = joblib.hash(counts)
    left = one_by_one(counts, protocol, np.array([3]))
    right = one_by_one(counts, protocol, np.array([4, 4]))
    for found, expected in ((counts, [1, 1, 0, 0]), (left, [1, 1, 1, 0]), (right, [1, 1, 0, 2])):
        np.testing.assert_array_equal(found.tallies.sum(axis=(0, 1))[1:5], expected)
    assert protocol.empty.n_samples == 0
    assert not protocol.empty.tallies.any()
    assert equal(pickle.loads(pickle.dumps(counts)), counts)
    assert joblib.hash(counts) == before


def test_what_waits_is_checked_and_the_arrays_of_others_may_change():
    server, reports = Aggregator(GRR(1.0, categories=D)), np.array([1, 1, 1])
    server.add(reports, "monday")
    with pytest.raises(RefusedBatchError, match="integers in \\[0, 12\\]"):
        server.add([D], "bad")  # and does not wait
    reports[:] = 2
    assert server.oracle_.support_counts_[1] == 3
    merged = server.tally()
    other = Aggregator(GRR(1.0, categories=D)).merge(merged)
    merged.tallies[:] = 0
    assert other.oracle_.support_counts_[1] == 3


@pytest.mark.parametrize("dtypes", [("u8", "i8"), ("u8", "u1"), ("u1", "i8"), ("?", "i2")])
def test_integers_of_any_kind_wait_as_integers(dtypes):
    server = Aggregator(GRR(1.0, categories=2))
    for i, dtype in enumerate(dtypes):
        server.add(np.array([0, 1, 1], dtype=dtype), f"batch {i}")
    np.testing.assert_array_equal(server.oracle_.support_counts_, [2, 4])


def test_groups_may_wait_as_well():
    mechanism = OUE(1.0, categories=3).protocol().mechanism
    rows, parts = np.eye(3, dtype=np.uint8), np.array([1, 0, 1])
    counts = Counts.empty(mechanism, 1, 2)
    for _ in range(5):
        counts = counts.added(mechanism, 3, lambda i, j: rows[i:j], None, lambda i, j: parts[i:j])
    np.testing.assert_array_equal(counts.tallies[:, 0], [[0, 5, 0], [5, 0, 5]])
    np.testing.assert_array_equal(counts.sizes, [[5], [10]])


def test_ctrl_c_while_small_batches_are_tallied_loses_none(monkeypatch):
    monkeypatch.setattr(_counts, "_WAITING_BYTES", 100)
    monkeypatch.setattr(Counts, "_small_bytes", 100)
    server, due = Aggregator(GRR(1.0, categories=3)), []
    mechanism = type(server._protocol.mechanism)
    tally = mechanism.tally

    def interrupted_at_times(self, reports):
        if due:
            due.clear()
            raise KeyboardInterrupt
        return tally(self, reports)

    monkeypatch.setattr(mechanism, "tally", interrupted_at_times)
    n_interruptions = 0
    for i in range(50):
        if i in (5, 30):
            due.append(i)  # at the next tally
        try:
            server.add([i % 3], f"batch {i}")
        except KeyboardInterrupt:
            n_interruptions += 1
            assert f"batch {i}" not in server
            assert server.n_samples == i
            server.add([i % 3], f"batch {i}")
    assert n_interruptions == 2
    np.testing.assert_array_equal(server.oracle_.support_counts_, [17, 17, 16])
    assert sum(server.batches.values()) == server.n_samples == 50
