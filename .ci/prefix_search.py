"""Compare the channels for prefixes with the general search: ``prefix_search.py [SIZE ...]``.

For each size and epsilon, the script prints the variance of the channel of `MatrixOracle`, divided
by the variance after the general search, and the CPU seconds of both. The general search starts
from the stored channel of the same size and the next lower epsilon if there is one, and otherwise
from five fresh starts. The script takes about ten minutes.
"""

import sys
import time
from pathlib import Path

import numpy as np

from sklearn_ldp._core.numerics.strategies import channel_loss, optimised_channel
from sklearn_ldp.oracles._prefix_channels import prefix_integers

SIZES = (17, 24, 40, 64, 90, 128, 150, 200, 250, 256)
STORED = Path(__file__).parents[1] / "sklearn_ldp" / "oracles" / "data" / "prefix_channels.npz"
EPSILONS = (0.3, 0.6, 1.3, 2.5, 5.0, 8.0)


def main(sizes: list[int]) -> None:
    """Print a line for each size and epsilon."""
    for d in sizes or SIZES:
        prefixes = np.tri(d)
        prefixes -= prefixes.mean(axis=1, keepdims=True)
        gram = prefixes.T @ prefixes
        for epsilon in EPSILONS:
            start = time.process_time()
            channel = prefix_integers(d, epsilon, epsilon) / 2.0**64
            seconds = time.process_time() - start
            start = time.process_time()
            other = optimised_channel(gram, epsilon, starts=_next_lower(d, epsilon))
            other_seconds = time.process_time() - start
            variances = [channel_loss(q, gram)[0] - np.trace(gram) for q in (channel, other)]
            ratio = variances[0] / variances[1]
            times = f"{seconds:5.2f} s, general search {other_seconds:5.2f} s"
            print(f"d {d:3}, epsilon {epsilon:3}: {ratio:6.3f}, {times}", flush=True)


def _next_lower(d: int, epsilon: float) -> list[np.ndarray]:
    with np.load(STORED) as archive:
        budgets = [name.split("_")[1] for name in archive.files if name.startswith(f"{d}_")]
        lower = [budget for budget in budgets if float(budget) <= epsilon]
        nearest = max(lower, key=float, default=None)
        return [] if nearest is None else [archive[f"{d}_{nearest}"] / 2.0**64]


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
