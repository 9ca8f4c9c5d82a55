"""Compute the channels of `LocalMean` that the package carries: ``mean_channels.py [OUTPUT]``.

It takes about a minute. Another machine's floats may lead to other channels, as good as these, but
reports of one are refused by servers of the other: what is stored already is kept.
"""

import sys
from pathlib import Path

import numpy as np

from sklearn_ldp._core.mechanisms.mean import MeanMechanism, mean_table

EPSILONS = (0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5)
EPSILONS += (4.0, 5.0, 6.0, 8.0)
WORST_CASES = (1.0, 1.1)
OUTPUT = (
    Path(__file__).parents[1]
    / "sklearn_ldp"
    / "_core"
    / "mechanisms"
    / "data"
    / "mean_channels.npz"
)


def main(output: Path) -> None:
    """Write the integers of the inputs that are not negative, the outputs and their unit."""
    arrays = {}
    for epsilon in EPSILONS:
        for worst_case in WORST_CASES:
            table = mean_table(epsilon, worst_case)
            scale = int(np.lcm.reduce([value.denominator for value in table.values]))
            key = f"{epsilon!r} {worst_case!r}"
            arrays[key] = np.array(table.rows[len(table.rows) // 2 :], dtype=np.uint64)
            arrays[f"{key} outputs"] = np.array([scale, *(int(v * scale) for v in table.values)])
            worst = MeanMechanism(table).worst_variance
            print(f"epsilon {epsilon:g}, worst case {worst_case:g}: {worst:.5f}", flush=True)
    np.savez_compressed(output, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
