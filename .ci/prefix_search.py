"""Compare the channels for prefixes with a longer search: ``prefix_search.py [SIZE ...]``.

For each size and epsilon, it prints the variance of the channel of `MatrixOracle`, divided by the
variance of the general search from five starts (which needs no stored channel), and the CPU seconds
of both. It takes about ten minutes.
"""

import sys
import time

import numpy as np

from sklearn_ldp._core.numerics.strategies import channel_loss, optimised_channel
from sklearn_ldp.oracles._prefix_channels import prefix_integers

SIZES = (17, 24, 40, 64, 90, 128, 150, 200, 256)
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
            other = optimised_channel(gram, epsilon)
            other_seconds = time.process_time() - start
            variances = [channel_loss(q, gram)[0] - np.trace(gram) for q in (channel, other)]
            ratio = variances[0] / variances[1]
            times = f"{seconds:5.2f} s, general search {other_seconds:5.2f} s"
            print(f"d {d:3}, epsilon {epsilon:3}: {ratio:6.3f}, {times}", flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
