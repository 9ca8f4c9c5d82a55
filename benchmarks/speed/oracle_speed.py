"""Speed of oracles on small domains: ``python -m benchmarks.speed.oracle_speed``.

The table contains the CPU time of `fit` for a million users on one core: in nanoseconds per user,
as a multiple of the time of GRR, and as a multiple of a lower limit. The limit is the time to draw
as many secure random bits as the entropy of the reports, plus one pass over the codes and the
reports. `make race` measures larger domains.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

import sklearn_ldp
from sklearn_ldp._core.common.text import format_table
from sklearn_ldp._core.mechanisms.coins import SecureCoins

from .._command import command
from .._timing import seconds

SIZES = (2, 5, 16, 40, 100, 1024)
ORACLES = ("GRR", "HadamardResponse", "ProjectiveGeometryResponse", "SubsetSelection")


def main() -> None:
    """Print the table."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--epsilon", type=float, default=1.0, help="(default: 1)")
    parser.add_argument("--users", type=int, default=1_000_000)
    options = parser.parse_args()

    def nanoseconds(work: Callable[[], object]) -> float:
        return 1e9 * seconds(work, clock=time.process_time) / options.users

    coins, rows = SecureCoins(), []
    a_byte = nanoseconds(lambda: coins.bytes(options.users << 4)) / 16
    for d in SIZES:
        codes, of_grr = np.resize(np.arange(d), options.users), float("nan")
        a_pass = nanoseconds(codes.copy)
        for name in ORACLES:
            oracle = getattr(sklearn_ldp, name)(options.epsilon, categories=d)
            took = nanoseconds(partial(oracle.fit, codes))
            of_grr = took if name == "GRR" else of_grr
            least = oracle.channel().report_entropy() / 8 * a_byte + a_pass
            ratios = took / of_grr, took / least
            rows.append([str(d), name, f"{took:.0f}", f"{ratios[0]:.1f}", f"{ratios[1]:.0f}"])
    print(format_table(["categories", "oracle", "ns a user", "times GRR", "times the limit"], rows))


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
