"""Errors, recall and coverage for sets of items and key-value pairs.

The methods are compared with padding and sampling.

    python -m benchmarks.accuracy.items --sections errors recall values
    python -m benchmarks.accuracy.items --sections peer --peers-python PATH

"Padded" is the method of other public packages: the client adds dummy items to a set until it has m
items, draws one of them and reports it by OLH. The server multiplies the estimates by m. No
constant was tuned on these populations.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd

from sklearn_ldp import OLH, EmpiricalBayes, ItemOracle, KeyValueOracle
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

from .._command import command
from .._tables import markdown

D = 1024


def main() -> None:
    """Print the sections that are asked for."""
    parser = command(__doc__, __spec__, whole=True)
    parser.add_argument("--sections", nargs="+", default=[*SECTIONS][:-1], choices=SECTIONS)
    parser.add_argument(
        "--peers-python",
        metavar="PATH",
        help="interpreter with multi-freq-ldpy, for the section peer",
    )
    arguments = parser.parse_args()
    for name in arguments.sections:
        print(f"\n## {name}\n")
        SECTIONS[name](arguments)


# -- laws: every set and report, as rational numbers ----------------------------------------------


def sets(d: int, m: int) -> Iterator[tuple[int, ...]]:
    """Yield every set of at most m of d items, as codes."""
    for size in range(m + 1):
        for chosen in combinations(range(d, 0, -1), size):
            yield (*chosen, *[0] * (m - size))


def law_of(channel: ItemOracle, codes: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """Return the probability of each report on a set."""
    return exact_report_distribution(channel, np.array(codes))


# -- errors ----------------------------------------------------------------------------------------
def padded(users: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Return the estimates of padding and sampling, for users of (n, s) items."""
    n, s = users.shape
    filled = np.column_stack([users, np.tile(D + np.arange(m - s), (n, 1))])
    own = filled[np.arange(n), rng.integers(m, size=n)]
    return m * OLH(1.0, categories=D + m, random_state=rng).fit(own).frequencies_[:D]


def collector(m: int, method: str) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    """Return what estimates the frequencies of users of (n, s) items."""
    if method == "padded":
        return lambda users, rng: padded(users, m, rng)

    def collect(users: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        oracle = ItemOracle(1.0, categories=D, max_items=m, method=method, random_state=rng)
        return oracle.fit(matrix_of(users)).frequencies_

    return collect


def matrix_of(users: np.ndarray) -> np.ndarray:
    """Return the indicator matrix of users of (n, s) items."""
    matrix = np.zeros((len(users), D), dtype=bool)
    np.put_along_axis(matrix, users, True, axis=1)
    return matrix


def errors_section(_: argparse.Namespace) -> None:
    """Print n times the mean squared error at epsilon 1, by simulation and by formula."""
    rows, n, n_runs = [], 20_000, 40
    for m in (5, 10):
        rng = np.random.default_rng(m)
        users = np.array([rng.choice(D, m, replace=False) for _ in range(n)])
        truth = matrix_of(users).mean(axis=0)
        for method in ("subset", "hash", "padded"):
            collect = collector(m, method)
            errors = [np.mean((collect(users, rng) - truth) ** 2) for _ in range(n_runs)]
            if method == "padded":
                noise = OLH(1.0).channel(D + m).noise(1)
                formula = m**2 * np.mean(noise.variance(np.append(truth, np.zeros(m)) / m))
            else:
                channel = ItemOracle(1.0, max_items=m, method=method).channel(D)
                formula = float(np.mean(channel.noise(1).variance(truth)))
            spread = n * np.std(errors) / n_runs**0.5
            cells = [f"{n * np.mean(errors):.2f} +- {spread:.2f}", f"{formula:.2f}"]
            rows.append([f"{m}", method, *cells])
    print(markdown(["items", "method", "n MSE", "formula"], rows))


def zipf_sets(n: int, d: int, exponent: float, rng: np.random.Generator) -> np.ndarray:
    """Return n users of five different items each, drawn by a Zipf law."""
    keys = rng.gumbel(size=(n, d)) - exponent * np.log(np.arange(1, d + 1))
    return np.argpartition(-keys, 5, axis=1)[:, :5]


def recall_section(_: argparse.Namespace) -> None:
    """Print the share of the true top 20 among the estimated top 20, with 10**5 users of five."""
    rows = []
    for exponent in (1.0, 0.7):
        rng, found = np.random.default_rng(0), {name: [] for name in ("subset", "hash", "padded")}
        users = zipf_sets(100_000, D, exponent, rng)
        top = {*np.argsort(-matrix_of(users).mean(axis=0))[:20]}
        for method, recalls in found.items():
            for _run in range(5):
                estimate = collector(5, method)(users, rng)
                recalls.append(len(top & {*np.argsort(-estimate)[:20]}) / 20)
        cells = [f"{np.mean(x):.2f} +- {np.std(x) / 5**0.5:.2f}" for x in found.values()]
        rows.append([f"{exponent:g}", *cells])
    print(markdown(["exponent", "subset", "hash", "padded"], rows))


# -- key-value pairs -------------------------------------------------------------------------------
def values_section(_: argparse.Namespace) -> None:
    """Print errors and coverage of keys and means: d 100, m 5, n 2 * 10**5, epsilon 1, 40 runs."""
    header = ["exponent", "n MSE of keys", "RMSE of the means of the top 20", "keys covered"]
    rows = [[f"{exponent:g}", *values_row(exponent)] for exponent in (1.0, 0.5)]
    print(markdown([*header, "means of the top 20 covered", "all means", "named of 20"], rows))


def values_row(exponent: float) -> list[str]:
    """Return the row of a Zipf law of the keys."""
    d, m, n, n_runs, rng = 100, 5, 200_000, 40, np.random.default_rng(0)
    users = zipf_sets(n, d, exponent, rng)
    numbers = np.clip(rng.normal(rng.uniform(-0.8, 0.8, d)[users], 0.3), -1, 1)
    table = np.full((n, d), np.nan)
    np.put_along_axis(table, users, numbers, axis=1)
    frame = pd.DataFrame(table)
    counts = np.bincount(users.ravel(), minlength=d)
    truth, means = counts / n, np.bincount(users.ravel(), numbers.ravel(), d) / counts
    top, records = np.argsort(-truth)[:20], []
    for seed in range(n_runs):
        oracle = KeyValueOracle(1.0, categories=d, bounds=(-1, 1), max_items=m, random_state=seed)
        estimate = oracle.fit(frame).estimate_
        ends, (low, high) = estimate.confidence_interval(0.95), oracle.means_interval(0.95)
        off = np.where(np.isnan(oracle.means_), 0.0, oracle.means_)[top] - means[top]
        covers_keys = (ends.low[0] <= truth) & (truth <= ends.high[0])
        covers = (low <= means) & (means <= high)
        error, n_named = np.mean((estimate.values[0] - truth) ** 2), np.isfinite(oracle.means_[top])
        shares = covers_keys.mean(), covers[top].mean(), covers.mean()
        records.append([n * error, np.mean(off**2), *shares, n_named.sum()])
    error, squared, *shares, named = np.mean(records, axis=0)
    return [f"{error:.1f}", f"{squared**0.5:.3f}", *(f"{x:.3f}" for x in shares), f"{named:.1f}"]


# -- multi-freq-ldpy -------------------------------------------------------------------------------
_PADDED = """
import json, sys, time
import numpy as np
from multi_freq_ldpy.pure_frequency_oracles import LH
users = np.load(sys.argv[1]); d, m = int(sys.argv[2]), users.shape[1]
rng = np.random.default_rng(0); start = time.process_time()
own = users[np.arange(len(users)), rng.integers(m, size=len(users))].tolist()
reports = [LH.LH_Client(one, d, 1.0, True) for one in own]
found = m * np.asarray(LH.LH_Aggregator_MI(reports, d, 1.0, True))
print(json.dumps([time.process_time() - start, found.tolist()]))
"""
PEER_HEADER = ["package", "users", "CPU time per user", "n MSE", "times as fast"]


def peer_rows(peers_python: str) -> list[list[str]]:
    """Return rows for multi-freq-ldpy, which samples an item, and for ours: users of five items.

    Its estimates are clipped at 0 and divided by their sum, which takes away most of their error
    where nearly all frequencies are as small as here.
    """
    import json
    import tempfile

    rng, n = np.random.default_rng(0), 20_000
    users = zipf_sets(n, D, 1.0, rng)
    truth, matrix = matrix_of(users).mean(axis=0), matrix_of(users)
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, users)
        file.flush()
        call = [peers_python, "-c", _PADDED, file.name, f"{D}"]
        done = subprocess.run(call, capture_output=True, text=True, check=True)
    theirs, found = json.loads(done.stdout)
    start = time.process_time()
    raw = ItemOracle(1.0, categories=D).fit_transform(matrix)
    took = time.process_time() - start
    better = EmpiricalBayes(simplex=False).fit(raw).frequencies_
    both = time.process_time() - start
    pairs = [
        ("multi-freq-ldpy, one of five", theirs, np.array(found)),
        ("ItemOracle", took, raw.values[0]),
        ("ItemOracle and EmpiricalBayes", both, better),
    ]
    return [
        [
            name,
            f"{n:,}",
            f"{s / n * 1e6:,.1f} us",
            f"{n * np.mean((f - truth) ** 2):.1f}",
            f"{theirs / s:,.0f}",
        ]
        for name, s, f in pairs
    ]


def peer_section(arguments: argparse.Namespace) -> None:
    """Print the time per user and the error of multi-freq-ldpy and of ours."""
    print(markdown(PEER_HEADER, peer_rows(arguments.peers_python)))


SECTIONS = {
    "errors": errors_section,
    "recall": recall_section,
    "values": values_section,
    "peer": peer_section,
}

if __name__ == "__main__":
    main()
