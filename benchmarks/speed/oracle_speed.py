"""Speed and memory of the oracles on one core: ``python -m benchmarks.speed.oracle_speed``.

Each oracle collects users' values end to end, ``fit_transform(values)`` (randomise, add up,
decode), with secure randomness and with a seed; the best of three times counts. The mean of the
squared errors in units of the variance of the 2020 paper, Eq. 5, should be 1, which shows that the
oracle still works.

Other packages are timed in the same run if ``--peers-python`` names an interpreter that has them::

    python -m venv peers
    peers/bin/pip install -r benchmarks/peers.txt
    python -m benchmarks.speed.oracle_speed --peers-python peers/bin/python

With ``--limits``, it prints instead what a fit of a million users takes over small domains, in CPU
time: nanoseconds a user, as a multiple of GRR's, and of what cannot be spared, which is the entropy
of the reports at the speed of secure coins, and one pass over codes and reports.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import sklearn_ldp
from sklearn_ldp._core.mechanisms.coins import SecureCoins
from sklearn_ldp._core.support.text import format_table
from sklearn_ldp.datasets import make_zipf

from .._command import command
from ._contest import ORACLES, PEERS, race
from .main_job import best_time, squared_z
from .postprocessor_speed import seconds

# Users, categories, and the oracles to time at this size.
SIZES = [
    (100_000, 1_024, ORACLES),
    (1_000_000, 1_024, ["GRR", "HadamardResponse", "ProjectiveGeometryResponse"]),
    (990_002, 42_178, ["OLH", "ProjectiveGeometryResponse"]),
]
TARGET_NANOSECONDS = 150

# Run in a separate process: the peak above what the imports and the values take.
_MEMORY_PROBE = """
import sys
from pathlib import Path
import numpy as np
import sklearn_ldp

def peak():  # ru_maxrss would be the parent's, if that is larger
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

name, n, d, epsilon, seed = sys.argv[1:]
values = np.resize(np.arange(int(d)), int(n))
random_state = None if seed == "None" else int(seed)
oracle = getattr(sklearn_ldp, name)(float(epsilon), categories=int(d), random_state=random_state)
before = peak()  # names are imported when they are first used
oracle.fit_transform(values)
print((peak() - before) / 1024)
"""


@dataclass
class Timing:
    """One collection; for other packages `n_timed` users were timed and the seconds scaled up."""

    package: str
    oracle: str
    n_samples: int
    n_categories: int
    randomness: str
    seconds: float
    n_timed: int
    peak_mib: float = float("nan")
    mean_squared_z: float = float("nan")

    @property
    def nanoseconds(self) -> float:
        """Time per user."""
        return 1e9 * self.seconds / self.n_samples


def main() -> None:
    """Measure and print everything."""
    arguments = _parse_arguments()
    if arguments.limits:
        print(limits_table(arguments.epsilon))
        return
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the processes it starts inherit it
    with threadpool_limits(limits=1):
        print(
            f"epsilon = {arguments.epsilon:g}, one core, NumPy {np.__version__}; yardstick: "
            f"np.sort of 1e7 floats takes {yardstick():.3f} s\n"
        )
        ours = list(time_ours(arguments.epsilon))
    peers = list(time_peers(arguments.peers_python, arguments.epsilon))
    print(oracle_table(ours, peers))
    if not peers:
        print("\nPeers: skipped, as no --peers-python is given.")
    print("\n" + size_table(ours))
    if arguments.csv:
        write_csv(arguments.csv, ours + peers)


def _parse_arguments() -> argparse.Namespace:
    parser = command(__doc__, __spec__, whole=True)
    parser.add_argument("--epsilon", type=float, default=1.0, help="(default: 1)")
    parser.add_argument(
        "--peers-python", metavar="PATH", help="interpreter with the other packages"
    )
    parser.add_argument("--limits", action="store_true", help="small domains, and their limits")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all timings there too")
    return parser.parse_args()


# -- measuring ----------------------------------------------------------------------------------
def yardstick() -> float:
    """Return the seconds of some plain NumPy work, to compare runs on different machines."""
    numbers = np.random.default_rng(0).random(10_000_000)
    return best_time(lambda: np.sort(numbers))


def time_ours(epsilon: float) -> Iterator[Timing]:
    """Time every oracle at every size."""
    for n, d, names in SIZES:
        values = make_zipf(n, d, exponent=1.1, random_state=0)
        frequencies = np.bincount(values, minlength=d) / n
        for name in names:
            for randomness, seed in (("secure", None), ("seeded", 0)):
                oracle = getattr(sklearn_ldp, name)(epsilon, categories=d, random_state=seed)
                seconds = best_time(partial(oracle.fit_transform, values))
                error = float(squared_z(oracle.estimate_, frequencies).mean())
                peak = peak_memory(name, n, d, epsilon, seed)
                yield Timing("sklearn_ldp", name, n, d, randomness, seconds, n, peak, error)


def limits_table(epsilon: float, n_samples: int = 1_000_000) -> str:
    """Return what a fit takes by oracle and number of categories."""

    def nanoseconds(work):
        return 1e9 * seconds(work, clock=time.process_time) / n_samples

    coins, rows = SecureCoins(), []
    a_byte = nanoseconds(lambda: coins.bytes(n_samples << 4)) / 16
    for d in (2, 5, 16, 40, 100, 1024):
        codes, of_grr = np.resize(np.arange(d), n_samples), float("nan")
        a_pass = nanoseconds(codes.copy)
        for name in ("GRR", "HadamardResponse", "ProjectiveGeometryResponse", "SubsetSelection"):
            oracle = getattr(sklearn_ldp, name)(epsilon, categories=d)
            took = nanoseconds(partial(oracle.fit, codes))
            of_grr = took if name == "GRR" else of_grr
            least = oracle.channel().report_entropy() / 8 * a_byte + a_pass
            rows.append(
                [str(d), name, f"{took:.0f}", f"{took / of_grr:.1f}", f"{took / least:.0f}"]
            )
    return format_table(["categories", "oracle", "ns a user", "times GRR", "times the limit"], rows)


def peak_memory(name: str, n: int, d: int, epsilon: float, seed: int | None) -> float:
    """Return the MiB that a collection takes at its peak, without the users' values."""
    task = [name, n, d, epsilon, seed]
    command = [sys.executable, "-c", _MEMORY_PROBE, *map(str, task)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def time_peers(python: str | None, epsilon: float) -> Iterator[Timing]:
    """Time the other packages at the first size, with the interpreter that has them."""
    size = SIZES[0][:2]
    for result in race(python, [size], epsilon, packages=PEERS):
        row = asdict(result)
        kept = {field.name: row[field.name] for field in fields(Timing) if field.name in row}
        yield Timing(**kept, randomness="the package's", mean_squared_z=result.raw)


# -- printing -----------------------------------------------------------------------------------
def oracle_table(ours: list[Timing], peers: list[Timing]) -> str:
    """Return the table of the first size, and how many times as long the other packages take."""
    n, d, names = SIZES[0]
    of_peers = {(timing.package, timing.oracle): timing for timing in peers}
    rows = []
    for name in names:
        secure, seeded = _pair(ours, n, d, name)
        cells = [
            name,
            f"{secure.seconds:.4f}",
            f"{seeded.seconds:.4f}",
            f"{secure.nanoseconds:.0f}",
            f"{seeded.nanoseconds:.0f}",
            f"{max(secure.peak_mib, seeded.peak_mib):.0f}",
            f"{secure.mean_squared_z:.2f}",
        ]
        for package in PEERS if peers else []:
            peer = of_peers.get((package, name))
            if peer is None:
                cells += ["-", "-"]
                continue
            mark = "*" if peer.n_timed < n else ""
            cells += [f"{peer.seconds:.2f}{mark}", f"{peer.seconds / secure.seconds:,.0f}"]
        rows.append(cells)
    header = ["oracle", "secure\ns", "seeded\ns", "secure\nns/user", "seeded\nns/user"]
    header += ["peak\nMiB", "squared z\nmean"]
    for package in PEERS if peers else []:
        header += [f"{package}\ns", "times\nsecure"]
    notes = [f"n = {n:,}, d = {d:,}"]
    if any(peer.n_timed < n for peer in peers):
        notes.append("* timed with fewer users and scaled up")
    return "\n".join([*notes[:1], format_table(header, rows), *notes[1:]])


def size_table(ours: list[Timing]) -> str:
    """Return the table of the larger sizes."""
    rows = []
    for n, d, names in SIZES[1:]:
        for name in names:
            secure, seeded = _pair(ours, n, d, name)
            rows.append(
                [
                    name,
                    f"{n:,}",
                    f"{d:,}",
                    f"{secure.seconds:.3f}",
                    f"{seeded.seconds:.3f}",
                    f"{secure.nanoseconds:.0f}",
                    f"{seeded.nanoseconds:.0f}",
                    f"{max(secure.peak_mib, seeded.peak_mib):.0f}",
                    f"{secure.mean_squared_z:.2f}",
                ]
            )
    header = ["oracle", "n", "d", "secure\ns", "seeded\ns", "secure\nns/user", "seeded\nns/user"]
    table = format_table([*header, "peak\nMiB", "squared z\nmean"], rows)
    return f"{table}\ntarget at d = 1,024: {TARGET_NANOSECONDS} ns a user"


def _pair(timings: list[Timing], n: int, d: int, name: str) -> list[Timing]:
    """Return the secure and the seeded timing of one oracle."""
    return [t for t in timings if (t.n_samples, t.n_categories, t.oracle) == (n, d, name)]


def write_csv(path: Path, timings: list[Timing]) -> None:
    """Write one row per timing."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Timing)])
        writer.writeheader()
        writer.writerows(asdict(timing) for timing in timings)


if __name__ == "__main__":
    main()
