"""Several threads share one collector: no user is lost, whatever the order of their work.

`check_threads` of the estimator checks lets one thread overtake another where users could be lost;
here threads race, and Python changes between them as often as it can.
"""

import contextlib
import itertools
import pickle
import sys
import threading
import warnings

import numpy as np
import pytest
from estimators import MEAN, ORACLES, SURVEYS, first_of_each
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, ItemOracle, KeyValueOracle, PrivacyWarning, StringOracle
from sklearn_ldp._core.fitting._collected import Collected
from sklearn_ldp.collection import Aggregator, Caps, RepeatedClient, tally_reports

VALUES = {
    "categories": (list("abcde"), np.resize(list("abcde"), 1000)),
    "domains": ({"x": 2, "y": 3}, np.resize([[0, 1], [1, 2], [1, 0]], (1000, 2))),
    "bounds": ((0, 10), np.linspace(0, 10, 1000)),
    "alphabet": ("abc", ["abc", "a", "cab", "bb"] * 250),
}
SETS = {"categories": list("abc"), "max_items": 2}
OTHERS = [
    (ItemOracle(**SETS), [["a", "b"], ["c"]] * 500),
    (KeyValueOracle(**SETS, bounds=(0, 1)), [{"a": 0.5, "b": 1}, {"c": 0}] * 500),
]


def _cases():
    oracles = [*first_of_each(ORACLES), MEAN, *first_of_each(SURVEYS), StringOracle(max_length=4)]
    for oracle in oracles:
        name = next(name for name in reversed(VALUES) if name in oracle.get_params(deep=False))
        domain, values = VALUES[name]
        yield pytest.param(clone(oracle).set_params(**{name: domain}), values, id=repr(oracle))
    yield from (pytest.param(*one, id=type(one[0]).__name__) for one in OTHERS)


def race(add, batches, n_threads=4):
    """Call `add` with each batch, from several threads that begin at the same time."""
    begin, errors = threading.Barrier(n_threads), []

    def work(mine):
        begin.wait(60)
        for batch in mine:
            try:
                add(batch)
            except Exception as error:
                errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=work, args=(batches[k::n_threads],)) for k in range(n_threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
    finally:
        sys.setswitchinterval(interval)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)


def _raced(oracle, values, method, random_state, n_batches):
    server = clone(oracle).set_params(random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of seeds, and of domains that are learnt
        reports = clone(oracle).set_params(random_state=0).privatize(values)
        batch = {"partial_fit": values, "aggregate": reports, "merge": None}[method]
        if batch is None:
            batch = clone(oracle).aggregate(reports)
        race(getattr(server, method), [batch] * n_batches)
    return server


@pytest.mark.parametrize(
    ("n_runs", "n_batches"), [(1, 8), pytest.param(20, 40, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("method", ["partial_fit", "aggregate", "merge"])
@pytest.mark.parametrize(("oracle", "values"), [*_cases()])
def test_no_user_is_lost(oracle, values, method, n_runs, n_batches):
    for run in range(n_runs):
        raced = _raced(oracle, values, method, run % 2 or None, n_batches)
        assert raced.n_samples_seen_ == 1000 * n_batches


def test_a_seed_that_threads_share_draws_all_its_coins_once():
    """Batches are the same, so that their order is none; the sum is that of all at once."""
    oracle = OLH(1.0, categories=16, random_state=0)
    raced = _raced(oracle, np.arange(1024) % 16, "partial_fit", 0, 8)
    whole = clone(oracle).fit(np.arange(8 * 1024) % 16)
    np.testing.assert_array_equal(raced.support_counts_, whole.support_counts_)


class Overtaken:
    """Values or reports that another thread overtakes when they are first read."""

    def __init__(self, values, overtake):
        self.values, self.overtake = np.asarray(values), [overtake]

    def __array__(self, dtype=None, copy=None):
        while self.overtake:
            thread = threading.Thread(target=self.overtake.pop())
            thread.start()
            thread.join(60)
            assert not thread.is_alive()
        return np.asarray(self.values, dtype)


def test_a_first_call_that_began_before_a_fit_is_forgotten():
    oracle = OLH(1.0, categories=4)
    reports = np.asarray(oracle.privatize([0, 1, 2, 3]))
    oracle.aggregate(Overtaken(reports, lambda: oracle.fit([0, 1, 2])))
    assert oracle.n_samples_seen_ == 3
    assert oracle.aggregate(reports).n_samples_seen_ == 7


def test_reports_that_others_overtake_are_dealt_out_to_all_shards():
    oracle = OLH(1.0, categories=4, n_shards=8)
    reports = np.asarray(oracle.privatize([0]))
    for _ in range(4):
        oracle.aggregate(Overtaken(reports, lambda: oracle.aggregate(reports)))
    np.testing.assert_array_equal(oracle.estimate_.shards.sizes, 1)


def test_a_seed_that_is_no_longer_a_parameter_draws_its_coins_once(monkeypatch):
    """The first thread that works waits until another one works too, or cannot."""
    oracle = OLH(1.0, categories=16, random_state=0).fit(np.arange(16))
    whole = clone(oracle).fit(np.tile(np.arange(16), 3))
    oracle.set_params(random_state=None)
    both, work = threading.Barrier(2), Collected.with_values

    def with_values(*args):
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.3)
        return work(*args)

    monkeypatch.setattr(Collected, "with_values", with_values)
    race(oracle.partial_fit, [np.arange(16)] * 2, n_threads=2)
    np.testing.assert_array_equal(oracle.support_counts_, whole.support_counts_)


def test_an_aggregator_loses_nobody():
    oracle = OLH(1.0, categories=16, random_state=np.random.default_rng(0))
    with pytest.warns(PrivacyWarning, match="predictable"):
        batches = [(oracle.privatize(np.arange(1000) % 16), f"batch {i}") for i in range(8)]
    server = Aggregator(oracle)
    race(lambda batch: server.add(*batch), batches)
    assert server.n_samples == 8000
    assert len(server.batches) == 8


# -- readers beside writers ----------------------------------------------------------------------
GRR_ORACLE = GRR(1.0, categories=4, n_shards=2)


def one_report(batch_id):
    return tally_reports([1], GRR_ORACLE, batch_id)


READERS = {
    "tally": lambda server, path: server.tally(),
    "pickle": lambda server, path: pickle.loads(pickle.dumps(server)),
    "merge": lambda server, path: Aggregator(GRR_ORACLE).merge(server),
    "batches": lambda server, path: dict(server.batches),
    "summary": lambda server, path: server.summary(),
    "repr": lambda server, path: repr(server),
    "estimate": lambda server, path: server.estimate_.values,
    "save": lambda server, path: server.save(path),
    "refusal": lambda server, path: server.note_refusal("1", "because"),
}


def test_a_ledger_can_be_read_while_another_one_grows_out_of_it():
    start = one_report("0") + one_report("1")
    ledger = start.ledger
    seen = []
    for batch in ledger:
        seen.append(batch)
        start + one_report(f"while {batch} was read")
    assert seen == list(ledger) == ["0", "1"]


def test_a_pickle_does_not_change_while_it_is_written():
    """It is written after `__getstate__` returns, so the state shares nothing that changes."""
    server = Aggregator(GRR_ORACLE, caps=Caps(max_source_batches=9))
    server.add([1], "relay/0").note_refusal("1", "because")
    state = server.__getstate__()
    before = pickle.dumps(state)
    server.add([2], "relay/1").note_refusal("2", "because")
    assert pickle.dumps(state) == before
    copied = pickle.loads(pickle.dumps(server))
    for i in range(2, 9):
        copied.add([0], f"relay/{i}")
    with pytest.raises(ValueError, match="would have 10 batches"):
        copied.add([0], "relay/9")


@pytest.mark.parametrize("method", READERS)
@pytest.mark.parametrize(
    "n_batches", [200, pytest.param(2000, marks=pytest.mark.slow)], ids=["quick", "long"]
)
def test_an_aggregator_is_consistent_whatever_other_threads_do(method, n_batches, tmp_path):
    """Two threads add single reports, and two read: each reading agrees with itself."""
    server = Aggregator(GRR_ORACLE).add([0], "first")
    counts = np.resize([1, 1, 0, 0], n_batches)
    batches = [(is_added, i) for i, is_added in enumerate(counts.tolist())]

    def work(batch):
        is_added, i = batch
        if is_added:
            server.add([i % 4], f"{i}")
            return
        result = READERS[method](server, tmp_path / f"{i % 4}.npz")
        if method == "summary":
            assert result.n_samples == result.n_batches == sum(result.shard_sizes)
        elif method == "repr":
            assert result.split()[1] == result.split()[4]
        elif method in ("tally", "pickle", "merge"):
            assert result.n_samples == len(result.batches)
        elif method == "batches":
            assert "first" in result

    # Threads get every fourth batch: two of the four only add, and two only read.
    race(work, batches)
    assert server.n_samples == len(server.batches) == 1 + n_batches // 2
    if method == "save":
        assert Aggregator.load(tmp_path / "2.npz", GRR_ORACLE).n_samples <= server.n_samples


def test_two_sums_that_begin_with_one_tally_do_not_mix():
    for _ in range(20):
        start, sums = one_report("start"), []
        race(lambda i, start=start, sums=sums: sums.append(start + one_report(f"{i}")), [*range(4)])
        names = sorted(tuple(one.batches) for one in sums)
        assert names == [("start", f"{i}") for i in range(4)]


def test_an_oracle_can_be_read_while_other_threads_add():
    oracle = OLH(1.0, categories=16).fit(np.arange(16))
    ways = itertools.cycle([pickle.dumps, clone, repr, lambda one: one.estimate_.values])
    works = [None, None, next(ways), next(ways), None, None, next(ways), next(ways)] * 8

    def work(read):
        if read is None:
            oracle.partial_fit(np.arange(16))
        else:
            read(oracle)

    race(work, works)
    assert oracle.n_samples_seen_ == 16 * (1 + works.count(None))


def test_threads_share_a_repeated_client(tmp_path):
    """A round has one report whichever thread asks, and all of them are in the file."""
    client = RepeatedClient(
        OLH(1.0, categories=8), tmp_path / "memo.json", question="item", epsilon_forever=2.0
    )
    reports = {i: set() for i in range(8)}

    def work(i):
        report = client.report(i % 8 // 2, collection_round=f"{i % 8}")
        reports[i % 8].add(tuple(np.asarray(report)[0].tolist()))
        assert client.spent <= 2.0 * 4

    race(work, [*range(16)])
    assert [len(one) for one in reports.values()] == [1] * 8
    assert (client.n_values, len(client.history)) == (4, 8)


def test_a_slow_reader_of_a_memo_does_not_bring_an_old_file_back(tmp_path):
    """Another thread may cache the file that it has read before, whenever this one reads."""
    options = {"question": "item", "epsilon_forever": 2.0}
    oracle, path = OLH(1.0, categories=8), tmp_path / "memo.json"
    client = RepeatedClient(oracle, path, **options)
    old = client._known

    class Overtaken(RepeatedClient):
        def __setattr__(self, name, value):
            super().__setattr__(name, old if name == "_known" else value)

    RepeatedClient(oracle, path, **options).report(1, collection_round="may")
    client.__class__ = Overtaken
    client.report(2, collection_round="june")
    assert list(RepeatedClient(oracle, path, **options).history) == ["may", "june"]
