"""Compute the channels for prefixes that the package carries: ``prefix_channels.py [OUTPUT]``.

It takes about ten minutes. Another machine's floats may lead to other channels, as good as these.
"""

import sys
import time
from pathlib import Path

import numpy as np

from sklearn_ldp._core.mechanisms.matrix import integer_channel
from sklearn_ldp._core.numerics.strategies import channel_loss, optimised_channel

STEPS = {16: 4000, 32: 3000, 64: 2000, 128: 1000, 256: 500}
EPSILONS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
OUTPUT = Path(__file__).parents[1] / "sklearn_ldp" / "oracles" / "data" / "prefix_channels.npz"


def main(output: Path) -> None:
    """Write the integers of all channels, under their size and epsilon."""
    integers = {}
    for d, n_steps in STEPS.items():
        prefixes = np.tri(d)
        gram = prefixes.T @ prefixes / d
        for epsilon in EPSILONS:
            start = time.perf_counter()
            channel = optimised_channel(gram, epsilon, n_steps)
            variance = (channel_loss(channel, gram)[0] - np.trace(gram)) / d
            seconds = time.perf_counter() - start
            print(f"d {d:3}, epsilon {epsilon:3}: {variance:9.4f} ({seconds:.0f} s)", flush=True)
            integers[f"{d}_{epsilon:g}"] = integer_channel(shortened(channel, epsilon), epsilon)
    np.savez_compressed(output, **integers)


def shortened(channel: np.ndarray, epsilon: float) -> np.ndarray:
    """Round the entries that are at no bound of their row to 2**-28, which halves the file."""
    low = channel.min(axis=1, keepdims=True)
    is_bound = (channel == low) | (channel > low * np.exp(epsilon) * (1 - 1e-12))
    rounded = np.rint(channel * 2.0**28) / 2.0**28
    rounded = np.where(is_bound, channel, np.clip(rounded, low, low * np.exp(epsilon)))
    # What columns lack goes to the entry that is farthest from its bounds.
    room = np.minimum(rounded - low, low * np.exp(epsilon) - rounded)
    rounded[room.argmax(axis=0), np.arange(channel.shape[1])] += 1 - rounded.sum(axis=0)
    return rounded


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
