"""What a shuffle is worth, and how long the answer takes.

    python -m benchmarks.security.shuffling

The first table is epsilon' of one report among a million at delta 1e-8 and 1,024 categories, with
the bound that holds for every mechanism (general clones) beside those of the oracles. The second is
epsilon' and the seconds it takes for more users. The last lines are the standard deviation and the
coverage of intervals of three collections that are combined.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    SUE,
    FrequencyEstimate,
    HadamardResponse,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp._core.support.text import format_table
from sklearn_ldp.collection import Protocol
from sklearn_ldp.inference import combine
from sklearn_ldp.metrics import shuffled_epsilon
from sklearn_ldp.oracles.channels import Channel

from .._command import command

D, DELTA, EPSILONS = 1024, 1e-8, (0.5, 1.0, 2.0, 4.0)
ORACLES = (GRR, SUE, OUE, OLH, HadamardResponse, SubsetSelection, ProjectiveGeometryResponse)
GROUPS = {0.5: 20_000, 1.0: 10_000, 3.0: 2_000}  # users by epsilon
COLLECTIONS, CATEGORIES = 2_000, 20


def main() -> None:
    """Print the tables."""
    command(__doc__, __spec__, whole=True).parse_args()
    header = ["epsilon", "any mechanism", *(oracle.__name__ for oracle in ORACLES)]
    print(format_table(header, [amplified(epsilon) for epsilon in EPSILONS]))
    rows = [
        timed(oracle, n) for oracle in (GRR, OUE, SubsetSelection) for n in (10**7, 10**8, 10**10)
    ]
    print("\n" + format_table(["oracle", "users", "epsilon'", "seconds"], rows))
    print("\n" + combined())


def amplified(epsilon: float) -> list[str]:
    """Return a row of the first table."""
    oracles: list[Any] = [oracle(epsilon, categories=D) for oracle in ORACLES]
    protocol = oracles[0].protocol()
    unknown = Protocol(_Unknown(protocol.mechanism), protocol.domain, epsilon, "any mechanism")
    spent = [shuffled_epsilon(one, 10**6, DELTA) for one in (unknown, *oracles)]
    return [f"{epsilon:g}", *(f"{one:.5f}" for one in spent)]


class _Unknown(Channel):
    """A mechanism of which only epsilon is known."""

    def __init__(self, other: Channel) -> None:
        super().__init__(other.n_categories, other.p, other.q)

    def _not_needed(self, *args: Any) -> Any:
        raise NotImplementedError

    supports = count_support = simulate = decode_operations = _not_needed
    privatize = check_reports = _not_needed


def timed(oracle: Any, n: int) -> list[str]:
    """Return a row of the second table."""
    start = time.perf_counter()
    spent = shuffled_epsilon(oracle(1.0, categories=D), n, DELTA)
    return [oracle.__name__, f"{n:,}", f"{spent:.2e}", f"{time.perf_counter() - start:.2f}"]


def combined() -> str:
    """Return how the mean of three collections differs from the truth, and what intervals say."""
    rng = np.random.default_rng(0)
    truth = np.arange(CATEGORIES, 0, -1) / (CATEGORIES * (CATEGORIES + 1) / 2)
    parts = []
    for epsilon, n in GROUPS.items():
        oracle = OUE(epsilon, categories=CATEGORIES, random_state=rng)
        drawn = rng.multinomial(n, truth, size=COLLECTIONS)
        values = [oracle.simulate(counts).values[0] for counts in drawn]
        noise = oracle.channel().noise(n)
        parts.append(FrequencyEstimate(values, np.arange(CATEGORIES), noise))
    lines = []
    for weights in ("precision", "users"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mean = combine(parts, weights=weights)
        variance = mean.noise.variance(truth) + truth * (1 - truth) / mean.noise.n_users
        std = np.sqrt(np.mean((mean.values - truth) ** 2))
        low, high = mean.confidence_interval(0.95, of="population")
        covered = np.mean((low <= truth) & (truth <= high))
        lines.append(
            f"weights by {weights}: standard deviation {std:.4f}, by the formula "
            f"{np.sqrt(variance.mean()):.4f}; 95 % intervals cover {covered:.1%}; "
            f"{len(caught)} warnings"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
