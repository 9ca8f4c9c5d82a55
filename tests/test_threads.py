"""Several threads add to one collector: nobody is lost, whatever the order of their work.

`check_threads` of the estimator checks lets one thread overtake another where users could be lost;
here threads race, and Python changes between them as often as it can.
"""

import contextlib
import sys
import threading
import warnings

import numpy as np
import pytest
from estimators import MEAN, ORACLES, SURVEYS, first_of_each
from sklearn.base import clone

from sklearn_ldp import OLH, ItemOracle, KeyValueOracle, PrivacyWarning, StringOracle
from sklearn_ldp._core.lifecycle._collected import Collected
from sklearn_ldp.collection import Aggregator

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
