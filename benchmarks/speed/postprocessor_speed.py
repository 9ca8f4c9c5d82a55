"""Speed of post-processors and searches: ``python -m benchmarks.speed.postprocessor_speed``.

The tables contain the CPU time of post-processors on large domains and on many tables, and the CPU
time of a search outside of its tasks.
"""

from __future__ import annotations

import time
from functools import partial
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_ldp import (
    GRR,
    NPMLE,
    OLH,
    Calibrate,
    Consistent,
    EmpiricalBayes,
    HadamardResponse,
    HeldOutSearch,
    MarginalOracle,
    ProjectiveGeometryResponse,
    SmoothMLE,
    SyntheticSearch,
)
from sklearn_ldp._core.common import parallel
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.model_selection import _base
from sklearn_ldp.queries import top_k

from .._command import command
from .._timing import seconds


def main() -> None:
    """Print the timings."""
    command(__doc__, __spec__).parse_args()
    cpu_seconds = partial(seconds, clock=time.process_time)
    print("SmoothMLE, d = 10,000, Beta(5, 2): CPU s")
    middles = (np.arange(10_000) + 0.5) / 10_000
    shares = middles**4 * (1 - middles)
    for oracle in (GRR(6.0), HadamardResponse(), ProjectiveGeometryResponse(), OLH()):
        for n in (20_000, 1_000_000):
            counts = np.random.default_rng(0).multinomial(n, shares / shares.sum())
            oracle.set_params(categories=10_000, random_state=0)
            raw = oracle.fit_transform(np.repeat(np.arange(10_000), counts))
            took = cpu_seconds(lambda raw=raw: SmoothMLE().fit(raw), 2)
            print(f"  {type(oracle).__name__:26} n = {n:9,} {took:7.2f}", flush=True)
    counts = make_zipf(1_000_000, 1_000_000, return_counts=True, random_state=0)
    raw = OLH(categories=1_000_000, random_state=0).simulate(counts)
    told = EmpiricalBayes(queries=top_k(10))
    took = cpu_seconds(lambda: told.fit(raw))
    print(f"\n{told}, d = 1,000,000: CPU s {took:.2f}")
    rng = np.random.default_rng(0)
    users = rng.binomial(3, rng.uniform(0.2, 0.8, 40), (100_000, 40))
    domains = {f"c{i}": 4 for i in range(40)}
    tables = MarginalOracle(4.0, domains=domains, random_state=0).fit_transform(users)
    took = cpu_seconds(lambda: Consistent().fit(tables))
    print(f"\nConsistent, {len(tables)} tables of 4 x 4 cells: CPU s {took:.2f}")
    counts = make_zipf(100_000, 1000, exponent=1.1, return_counts=True, random_state=0)
    print("\nrows of 1,000 categories: CPU ms a row, of 100 rows, and of one")
    for posterior in (Calibrate(), Calibrate("poisson"), NPMLE(), EmpiricalBayes()):
        each = []
        for n_rows in (100, 1):
            rows = OLH(categories=1000, random_state=0).simulate(counts, n_rows)
            took = cpu_seconds(lambda p=posterior, r=rows: p.fit(r))
            each.append(f"{1e3 * took / n_rows:8.2f}")
        print(f"  {posterior!s:24}", *each, flush=True)
    print("\nshare of a search's CPU time outside of its tasks, and what two workers gain at most")
    for d in (1024, 42_178):
        counts = make_zipf(1_000_000, d, return_counts=True, random_state=0)
        oracle = OLH(categories=d, random_state=0)
        estimate = oracle.fit_transform(np.arange(d), sample_weight=counts)
        for search in (SyntheticSearch(), HeldOutSearch(), HeldOutSearch(method="bootstrap")):
            share = min(outside_of_tasks(search, estimate) for _ in range(3))
            print(f"  d = {d:6,} {search!r:36} {share:.2f} {2 / (1 + share):.2f}")


def outside_of_tasks(search, estimate) -> float:
    """Return the share of a search's CPU time that more workers would not make shorter."""
    inside = []

    def run(function, tasks, n_jobs):
        for task in tasks:
            start = time.process_time()
            result = function(*task)
            inside.append(time.process_time() - start)
            yield result

    with mock.patch.object(parallel, "run", run), mock.patch.object(_base, "run", run):
        total = seconds(lambda: search.fit(estimate), 1, clock=time.process_time)
    return 1 - sum(inside) / total


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
