"""How much privacy a shuffler adds: ``python -m benchmarks.security.shuffling``.

A shuffler hides which of a million users sent a report. The table contains the epsilon of a report
after shuffling, at delta 1e-8 and with 1,024 categories: by the bound that is valid for every
mechanism (general clones), and by the bound of each oracle.
"""

from __future__ import annotations

from typing import Any

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    SUE,
    HadamardResponse,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp._core.common.text import format_table
from sklearn_ldp.collection import Protocol
from sklearn_ldp.oracles.channels import Channel
from sklearn_ldp.privacy import shuffled_epsilon

from .._command import command

D, DELTA, EPSILONS = 1024, 1e-8, (0.5, 1.0, 2.0, 4.0)
ORACLES = (GRR, SUE, OUE, OLH, HadamardResponse, SubsetSelection, ProjectiveGeometryResponse)


def main() -> None:
    """Print the table."""
    command(__doc__, __spec__).parse_args()
    header = ["epsilon", "any mechanism", *(oracle.__name__ for oracle in ORACLES)]
    print(format_table(header, [amplified(epsilon) for epsilon in EPSILONS]))


def amplified(epsilon: float) -> list[str]:
    """Return a row of the table."""
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


if __name__ == "__main__":
    main()
