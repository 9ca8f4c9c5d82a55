"""What EmpiricalBayes gains, or pays, if it is told which groups will be asked for.

    python -m benchmarks.accuracy._told_groups

RMSE of the totals with queries=groups(..), divided by that without, over the same collections. A
state of the US is no more like others of its division or region than like any, so there is nothing
to gain. Made-up shops differ from group to group in their size (lognormal, sigma .7 of the groups
and of their members).
"""

from __future__ import annotations

import numpy as np

from sklearn_ldp import GRR, OLH, EmpiricalBayes
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.queries import groups

from .._command import command
from .._tables import markdown

COLLECTIONS = [(1.0, 10**6), (0.5, 10**5), (1.0, 10**5), (0.5, 10**6)]


def main() -> None:
    """Print a row for each population, and a column for each oracle and collection."""
    parser = command(__doc__, __spec__, repeats=60, seed=1)
    arguments = parser.parse_args()
    names = ["divisions of states", "regions of states", "9 groups of shops", "20 groups of shops"]
    rows = [[name] for name in names]
    heads = []
    for oracle in (OLH, GRR):
        for epsilon, n in COLLECTIONS:
            heads.append(f"{oracle.__name__} {epsilon:g} {n:.0e}")
            for row, (counts, labels) in zip(rows, _populations(n), strict=True):
                asked = oracle(epsilon, categories=len(counts))
                row.append(f"{_ratio(asked, counts, labels, arguments):.3f}")
    print(markdown(["told / not told", *heads], rows))


def _populations(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    states = load_us_states(n_samples=n, random_state=0)
    populations = [(states.counts, states.groups.division), (states.counts, states.groups.region)]
    for n_groups in (9, 20):
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(n_groups), 360 // n_groups)
        sizes = rng.lognormal(0, 0.7, n_groups)[labels] * rng.lognormal(0, 0.7, 360)
        populations.append((rng.multinomial(n, sizes / sizes.sum()), labels))
    return populations


def _ratio(oracle, counts, labels, arguments) -> float:
    queries = groups(labels)
    study = simulate_errors(
        {"oracle": oracle},
        {"plain": EmpiricalBayes(), "told": EmpiricalBayes(queries=queries)},
        counts,
        queries={"groups": queries},
        n_repeats=arguments.repeats,
        random_state=arguments.seed,
    )
    plain, told = (study.select(postprocessor=name).error[0] for name in ("plain", "told"))
    return float(np.sqrt(told / plain))


if __name__ == "__main__":
    main()
