"""The part that the speed comparisons share: one process per oracle and package, the same users."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sklearn_ldp
from sklearn_ldp.datasets import make_zipf

OURS = "sklearn_ldp"
ORACLES = [
    "GRR",
    "SUE",
    "OUE",
    "BLH",
    "OLH",
    "HadamardResponse",
    "SubsetSelection",
    "ProjectiveGeometryResponse",
]
PEERS = {
    "pure-ldp": ["GRR", "SUE", "OUE", "BLH", "OLH", "HadamardResponse"],
    "multi-freq-ldpy": ["GRR", "SUE", "OUE", "BLH", "OLH", "SubsetSelection"],
    "ldp-toolbox": ["GRR", "SUE", "OUE", "BLH", "OLH", "SubsetSelection"],
    "opendp": ["GRR", "SUE"],
}
SIZES = [(100_000, 1_024), (1_000_000, 1_024), (990_002, 42_178)]
SECONDS = 60.0
MEBIBYTES = 2048.0


@dataclass
class Result:
    """One collection and its Norm-Sub; times are for all users, memory is for the timed users.

    The errors are in units of Eq. 5 for the timed users: `raw` is 1 for an unbiased estimate.
    """

    package: str
    oracle: str
    n_samples: int
    n_categories: int
    n_timed: int
    seconds: float
    projection_seconds: float
    peak_mib: float
    raw: float
    projected: float

    @property
    def total(self) -> float:
        """Seconds of the collection and Norm-Sub."""
        return self.seconds + self.projection_seconds

    @property
    def is_extrapolated(self) -> bool:
        """Whether only a part of the users was timed."""
        return self.n_timed < self.n_samples


def race(
    peers_python: str | None,
    sizes: Iterable[tuple[int, int]] = SIZES,
    epsilon: float = 1.0,
    seconds: float = SECONDS,
) -> Iterator[Result]:
    """Measure every package that has an interpreter, oracle by oracle."""
    for n, d in sizes:
        values = make_zipf(n, d, exponent=1.1, random_state=0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "values.npy"
            np.save(path, values)
            for oracle in ORACLES:
                task = {"oracle": oracle, "values": str(path), "n_categories": d}
                entrants = _entrants(oracle, peers_python)
                yield from _heat(entrants, task | {"epsilon": epsilon}, seconds, values)


def _entrants(oracle: str, peers_python: str | None) -> dict[str, str]:
    """The interpreters of the packages that have an oracle."""
    found = {OURS: sys.executable}
    if peers_python is not None:
        found |= {name: peers_python for name, oracles in PEERS.items() if oracle in oracles}
    return found


def race_one_value(peers_python: str | None, d: int, epsilon: float = 1.0) -> list[list[str]]:
    """Return rows of a table: microseconds to randomise one value, by oracle and package."""
    rows = []
    for oracle in ORACLES:
        task = {"oracle": oracle, "n_categories": d, "epsilon": epsilon, "values": ""}
        cells = dict.fromkeys((OURS, *PEERS), "")
        for package, python in _entrants(oracle, peers_python).items():
            took = run_contestant(python, {**task, "package": package, "one_value": True})
            cells[package] = f"{took['microseconds']:.3g}"
        rows.append([oracle, *cells.values()])
    return rows


def _heat(entrants: dict[str, str], task: dict, seconds: float, values: np.ndarray) -> list[Result]:
    """Measure an oracle of all packages; quick ones are measured twice, the better time counts."""
    best: dict[str, Result] = {}
    for _ in range(2):
        for package, python in entrants.items():
            if package in best and (best[package].total > 5 or best[package].is_extrapolated):
                continue
            own_task = {**task, "package": package}
            result = _result(own_task, run_contestant(python, own_task, seconds), values)
            best[package] = min(result, best.get(package, result), key=lambda r: r.total)
    return list(best.values())


def run_contestant(python: str, task: dict, seconds: float = SECONDS) -> dict:
    """Measure one oracle of one package in a separate process; see ``_peers.py``."""
    names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"]
    names += ["LOKY_MAX_CPU_COUNT"]  # processes of joblib, whose time would not be counted
    done = subprocess.run(
        [python, str(Path(__file__).with_name("_peers.py"))],
        input=json.dumps({"one_value": False, **task, "seconds": seconds, "mebibytes": MEBIBYTES}),
        env={**os.environ, **dict.fromkeys(names, "1")},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _result(task: dict, row: dict, values: np.ndarray) -> Result:
    """Return the result of a process, with errors in units of the variance of our oracle."""
    d, n = task["n_categories"], row["n_timed"]
    frequencies = np.bincount(values[:n], minlength=d) / n
    oracle = getattr(sklearn_ldp, task["oracle"])(task["epsilon"], categories=d, random_state=0)
    counts = np.bincount(values[:n], minlength=d)
    expected = oracle.simulate(counts, 1).noise.variance(frequencies).mean()
    collected, projected = row.pop("mse_collected"), row.pop("mse_projected")
    return Result(
        package=task["package"],
        oracle=task["oracle"],
        n_samples=len(values),
        n_categories=d,
        **row,
        raw=float(collected / expected),
        projected=float(projected / expected),
    )
