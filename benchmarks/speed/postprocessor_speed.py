"""Speed of post-processors and searches on one core.

    python -m benchmarks.speed.postprocessor_speed

Times every post-processor on rows of d = 42,178 categories (as many as Kosarak has), and the
searches there and at d = 1,024; and a yardstick, so that machines can be compared.
"""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_ldp import (
    NPMLE,
    OLH,
    EmpiricalBayes,
    HeldOutSearch,
    SyntheticSearch,
)
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.model_selection import default_candidates
from sklearn_ldp.postprocessing import _calibrate

N_ROWS = 10
LEARNT_PRIORS = [EmpiricalBayes(), EmpiricalBayes(prior="g-model"), NPMLE()]


def seconds(work, repeats: int = 3) -> float:
    """Return the best time of some work.

    Parameters
    ----------
    work : callable
        The work to time; it is called without arguments.
    repeats : int, default=3
        How often the work is done.

    Returns
    -------
    float
        Seconds.
    """
    times = []
    for _ in range(repeats):
        # Power caches results for a noise level and prior, which must not make the repeats faster.
        _calibrate._posterior.cache_clear()
        _calibrate.power_law_exponent.cache_clear()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the timings."""
    values = np.random.default_rng(0).random(10_000_000)
    print(f"yardstick: np.sort of 1e7 floats takes {seconds(lambda: np.sort(values)):.3f} s")
    counts = make_zipf(1_000_000, 42_178, return_counts=True, random_state=0)
    estimate = OLH(categories=42_178, random_state=0).simulate(counts, N_ROWS)
    print(f"\npost-processor, d = 42,178: ms a row, of {N_ROWS} rows of one collection each")
    for post in default_candidates():
        took = seconds(lambda post=post: post.fit(estimate)) / N_ROWS
        print(f"  {type(post).__name__:10} {1e3 * took:7.2f}")
    print("\nlearnt priors: ms a row")
    for d in (1024, 42_178):
        counts = make_zipf(1_000_000, d, return_counts=True, random_state=0)
        estimate = OLH(categories=d, random_state=0).simulate(counts, N_ROWS)
        for post in LEARNT_PRIORS:
            took = seconds(lambda post=post, rows=estimate: post.fit(rows)) / N_ROWS
            print(f"  {post!s:33} d = {d:6,} {1e3 * took:7.2f}")
    for d, n_samples in ((1024, 1_000_000), (42_178, 990_002)):
        counts = make_zipf(n_samples, d, return_counts=True, random_state=0)
        oracle = OLH(categories=d, random_state=0)
        estimate = oracle.fit_transform(np.arange(d), sample_weight=counts)
        print(f"\nsearch over {len(default_candidates())} candidates, d = {d:,}: s")
        for search in (SyntheticSearch(), HeldOutSearch(), HeldOutSearch(method="bootstrap")):
            took = seconds(lambda search=search, raw=estimate: search.fit(raw))
            print(f"  {search!r:36} {took:.3f}  picks {search.best_estimator_}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
