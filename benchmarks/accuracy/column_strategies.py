"""Ways to ask about several columns, on the same users: errors, speed and what epsilon they keep.

The first table has n times the squared error, summed over the categories of all columns, of raw
estimates: each user asked for one column, for as many as "auto" says, for all of them with a split
budget, or for the joint category. The second one compares with multi-freq-ldpy, whose estimates are
clipped and rescaled, so that ours are projected on the simplex (Norm-Sub); both are timed here, on
one core.

    python -m benchmarks.accuracy.column_strategies --peers-python peers/bin/python
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sklearn_ldp import ColumnOracle, NormSub
from sklearn_ldp.oracles import best_oracle

from .._command import command

EPSILONS = [0.5, 1.0, 2.0, 4.0, 8.0]
SURVEYS = {"2, 3, 5 and 16 categories": (2, 3, 5, 16), "20 yes/no questions": (2,) * 20}
N_USERS = 20_000


def users(sizes: tuple[int, ...], n: int = N_USERS) -> np.ndarray:
    """Return codes of dependent columns, whose frequencies fall like 1 / rank."""
    rng, common = np.random.default_rng(0), np.random.default_rng(1).random(n)
    columns = []
    for d in sizes:
        weights = 1 / np.arange(1, d + 1)
        uniform = np.where(rng.random(n) < 0.3, common, rng.random(n))
        columns.append(np.searchsorted(np.cumsum(weights / weights.sum())[:-1], uniform))
    return np.column_stack(columns)


def strategies(sizes: tuple[int, ...]) -> dict[str, Callable[[float], Callable]]:
    """Return what makes, for a budget, a function from users to estimates of each column."""
    domains = {f"column {j}": d for j, d in enumerate(sizes)}

    def survey(**parameters):
        def at(epsilon):
            oracle = ColumnOracle(epsilon, domains=domains, **parameters)
            return lambda codes: [part.values[0] for part in oracle.fit_transform(codes).values()]

        return at

    def joined(epsilon):
        oracle = best_oracle(epsilon, math.prod(sizes))

        def collect(codes):
            cells = oracle.fit_transform(np.ravel_multi_index(codes.T, sizes)).values[0]
            table, axes = cells.reshape(sizes), range(len(sizes))
            return [table.sum(axis=tuple(k for k in axes if k != j)) for j in axes]

        return collect

    ways = {
        "one column a user": survey(),
        'n_sampled="auto"': survey(n_sampled="auto"),
        "split budget": survey(strategy="split-budget"),
        "joint category": joined,
    }
    if math.prod(sizes) > 10_000:
        del ways["joint category"]
    return ways


def error(estimates: list[np.ndarray], codes: np.ndarray) -> float:
    """Return n times the sum of squared errors."""
    truths = [
        np.bincount(c, minlength=len(e)) / len(c) for c, e in zip(codes.T, estimates, strict=True)
    ]
    return len(codes) * sum(
        float(np.sum((e - f) ** 2)) for e, f in zip(estimates, truths, strict=True)
    )


def figure(x: float) -> str:
    """Return a number with two digits at least."""
    return f"{x:,.0f}" if x >= 10 else f"{x:.2g}"


def errors(n_repeats: int) -> Iterator[list[str]]:
    """Yield rows of the first table."""
    for name, sizes in SURVEYS.items():
        codes = users(sizes)
        for way, at in strategies(sizes).items():
            row = [name, way]
            for epsilon in EPSILONS:
                collect = at(epsilon)
                found = [error(collect(codes), codes) for _ in range(n_repeats)]
                row.append(f"{figure(np.mean(found))} ± {figure(np.std(found) / n_repeats**0.5)}")
            yield row


# -- the peer -------------------------------------------------------------------------------------
def contest(peers_python: str | None, n_repeats: int) -> Iterator[list[str]]:
    """Yield rows of the second table: seconds and errors at epsilon 1, after a projection."""
    sizes = SURVEYS["2, 3, 5 and 16 categories"]
    codes, domains = users(sizes, 10 * N_USERS), {f"column {j}": d for j, d in enumerate(sizes)}
    ours = {
        "SMP": ColumnOracle(1.0, domains=domains),
        "SPL": ColumnOracle(1.0, domains=domains, strategy="split-budget"),
    }
    for way, oracle in ours.items():
        took, found = [], []
        for _ in range(n_repeats):
            start = time.process_time()
            estimates = NormSub().fit_transform(oracle.fit_transform(codes))
            took.append(time.process_time() - start)
            found.append(error([part.values[0] for part in estimates.values()], codes))
        yield ["sklearn_ldp", way, "1", f"{min(took):.3f}", figure(np.mean(found))]
    if peers_python is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.npy"
        np.save(path, codes)
        for way in [*ours, "RS+FD"]:
            task = {"codes": str(path), "sizes": sizes, "epsilon": 1.0, "way": way}
            done = subprocess.run(
                [peers_python, str(Path(__file__).with_name("_column_peers.py"))],
                input=json.dumps({**task, "n_repeats": n_repeats}),
                env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            )
            answer = json.loads(done.stdout.splitlines()[-1])
            found = [error([np.array(e) for e in one], codes) for one in answer["estimates"]]
            epsilon = f"{amplified(1.0, len(sizes)):.3g}" if way == "RS+FD" else "1"
            seconds = f"{min(answer['seconds']):.3f}"
            yield ["multi-freq-ldpy", way, epsilon, seconds, figure(np.mean(found))]


def amplified(epsilon: float, n_columns: int) -> float:
    """Return the budget that the true report is given in the publications."""
    return math.log(n_columns * (math.exp(epsilon) - 1) + 1)


def show(header: list[str], rows: Iterator[list[str]]) -> None:
    """Print a table, row by row."""
    for row in (header, ["---"] * len(header)):
        print("| " + " | ".join(row) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def main() -> None:
    """Print the two tables."""
    parser = command(__doc__, __spec__, whole=True)
    parser.add_argument("--peers-python", metavar="PATH", help="interpreter with multi-freq-ldpy")
    parser.add_argument("--repeats", type=int, default=50, help="collections (default: 50)")
    arguments = parser.parse_args()
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    show(["survey", "asked", *(f"epsilon {e:g}" for e in EPSILONS)], errors(arguments.repeats))
    show(
        ["package", "way", "epsilon", "seconds", "n x squared error"],
        contest(arguments.peers_python, max(arguments.repeats // 5, 1)),
    )


if __name__ == "__main__":
    main()
