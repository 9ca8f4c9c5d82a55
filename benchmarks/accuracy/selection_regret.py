"""Quality of searches: ``python -m benchmarks.accuracy.selection_regret --populations FILE``.

FILE is the output of benchmarks/accuracy/_real_populations.py (with ``--fresh``, it contains
populations on which no code was tuned). The searches are compared on the populations in FILE that
have groups: on all of them, on the first half or on the second half. A cell is one population,
oracle, epsilon and number of users; ``--wide`` adds more oracles. The regret of a search in a cell
is the mean error of its result divided by the smallest mean error of a candidate. The table
contains the geometric mean of the regrets over the cells, its standard error (a jackknife over the
populations), the largest regret, and the CPU seconds of one fit. The best constant rule is the
candidate with the smallest geometric mean. The papers' candidates are the candidates of "all"
without EmpiricalBayes. ``--ways`` compares only some searches, and ``--max-d`` leaves out large
domains.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    EmpiricalBayes,
    HeldOutSearch,
    NormSub,
    SubsetSelection,
    SyntheticSearch,
    SyntheticStack,
)
from sklearn_ldp._core.common.text import format_table
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.model_selection import candidate_name, default_candidates
from sklearn_ldp.queries import full_domain, groups, random_sets, top_k

from .._command import command
from .._tables import with_error

# Oracles, budgets and numbers of users.
COLLECTIONS = (
    (OLH, 1.0, 20_000),
    (OLH, 1.0, 100_000),
    (OLH, 1.0, 1_000_000),
    (OLH, 2.0, 1_000_000),
)
WIDE = (
    (OLH, 0.5, 20_000),
    (OUE, 1.0, 20_000),
    (OLH, 1.0, 100_000),
    (SubsetSelection, 2.0, 100_000),
    (GRR, 4.0, 100_000),
    (OLH, 1.0, 1_000_000),
)
SINGLES = {candidate_name(one): one for one in default_candidates()}
PAPERS = [one for one in SINGLES.values() if not isinstance(one, EmpiricalBayes)]
WAYS = {
    "SyntheticSearch": SyntheticSearch(random_state=0),
    "SyntheticStack": SyntheticStack(random_state=0),
    "papers' candidates, pick": SyntheticSearch(PAPERS, random_state=0),
    "papers' candidates, stack": SyntheticStack(PAPERS, random_state=0),
    "  one population": SyntheticSearch(synthesizer=EmpiricalBayes(), random_state=0),
    "  with NormSub": SyntheticSearch(synthesizer=NormSub(), random_state=0),
    "HeldOutSearch": HeldOutSearch(),
    "  bootstrap": HeldOutSearch(method="bootstrap"),
}
# Stacks, and picks from the same candidates.
PAIRS = (
    ("SyntheticStack", "SyntheticSearch"),
    ("papers' candidates, stack", "papers' candidates, pick"),
)
CONSTANT = "best constant rule"
TOLD = "EmpiricalBayes(queries)"  # no search: always this one


def main() -> None:
    """Print the errors of the choices on some of the populations."""
    arguments = _parse_arguments()
    populations = json.loads(arguments.populations.read_text(encoding="utf-8"))
    largest = arguments.max_d or np.inf
    names = [n for n, one in populations.items() if one["groups"] and len(one["counts"]) <= largest]
    if arguments.half is not None:
        middle = len(names) // 2
        names = names[:middle] if arguments.half == 1 else names[middle:]
    ways = {
        way: search
        for way, search in WAYS.items()
        if not arguments.ways or way.strip() in arguments.ways
    }
    collections = WIDE if arguments.wide else COLLECTIONS
    cells = [(name, *collection) for name in names for collection in collections]
    ratios, seconds = compared(populations, cells, ways, arguments, arguments.repeats)
    print(f"{len(names)} populations, {len(cells)} cells of {arguments.repeats} collections:")
    print_ratios(ratios, cells, list(ways), seconds)


def _parse_arguments() -> argparse.Namespace:
    parser = command(__doc__, __spec__, repeats=20, n_jobs=1, seed=0)
    parser.add_argument("--populations", type=Path, required=True, help="see above")
    parser.add_argument("--wide", action="store_true", help="other oracles, too")
    parser.add_argument("--ways", nargs="*", help="compare only these (default: all)")
    parser.add_argument("--max-d", type=int, help="only populations of no more categories")
    parser.add_argument(
        "--half", type=int, choices=(1, 2), help="of the populations (default: all)"
    )
    return parser.parse_args()


def print_ratios(ratios: pd.DataFrame, cells: list, ways: list[str], seconds: pd.Series) -> None:
    """Print ratios to the least error of a candidate, by cell and kind of queries, and way."""
    of_cells = np.array([name for name, *_ in cells])
    of_kinds = {kind: part.droplevel("kind") for kind, part in ratios.groupby("kind", sort=False)}
    best = {kind: np.log(part[[*SINGLES]]).mean().idxmin() for kind, part in of_kinds.items()}
    for kind, part in of_kinds.items():
        part[CONSTANT] = part[best[kind]]

    def row(way: str, other: str = "") -> list[str]:
        found = (part[way] / (part[other] if other else 1) for part in of_kinds.values())
        return [way, *(with_error(one.to_numpy(), of_cells) for one in found)]

    print("error over the least of a candidate: geometric mean (standard error) / greatest")
    table = [[*row(way), f"{seconds[way]:.2f}"] for way in ways]
    table += [[*row(way), ""] for way in (TOLD, CONSTANT)]
    print(format_table(["", *of_kinds, "seconds"], table))
    print("best constant rule:", "; ".join(f"{kind}: {one}" for kind, one in best.items()))
    pairs = [row(*pair) for pair in PAIRS if set(pair) <= set(ways)]
    if pairs:
        print("error over that of the pick from the same candidates, and its greatest:")
        print(format_table(["", *of_kinds], pairs))
    for way in ways[:2]:
        for kind, part in of_kinds.items():
            worst = part[way].sort_values(ascending=False, kind="stable")[:3]
            greatest = [_cell(cells[i], regret) for i, regret in worst.items()]
            print(f"{kind}, greatest of {way.strip()}: {'; '.join(greatest)}")


def _cell(cell: tuple, regret: float) -> str:
    name, oracle, epsilon, n = cell
    return f"{regret:.2f} {name} ({oracle.__name__}, epsilon {epsilon:g}, {n:,})"


def compared(
    populations: dict, cells: list[tuple], ways: dict[str, Any], arguments: Any, repeats: int = 1
) -> tuple[pd.DataFrame, pd.Series]:
    """Return errors over the least of a candidate, a row a cell and kind of queries; and seconds.

    The arguments have `n_jobs` and `seed`.
    """
    with threadpool_limits(1):
        parts = Parallel(n_jobs=arguments.n_jobs)(
            delayed(_collected)(
                populations[name], oracle(epsilon), n, ways, repeats, arguments.seed
            )
            for name, oracle, epsilon, n in cells
        )
    found = pd.concat(parts, keys=range(len(cells)), names=["cell"])
    errors = found.groupby(["cell", "kind", "way"], sort=False).error.sum().unstack()
    ratios = errors.div(errors[[*SINGLES, TOLD]].min(axis=1), axis=0)
    return ratios, found.groupby("way").seconds.mean()


def _collected(
    population: dict, oracle: Any, n_samples: int, ways: dict[str, Any], repeats: int, seed: int
) -> pd.DataFrame:
    """Return errors and CPU seconds of all candidates and ways, by kind of queries."""
    shares = np.array(population["counts"]) / np.sum(population["counts"])
    labels = np.array(min(population["groups"].values(), key=lambda one: len(set(one))))
    parts = []
    for i in range(repeats):
        rng = np.random.default_rng([seed, i, len(shares)])
        kinds = {
            "every category": full_domain(),
            "10 % sets": random_sets(0.1),
            "natural groups": groups(labels),
            "groups by lot": groups(rng.permutation(labels)),
            "top 10": top_k(10),
        }
        counts = rng.multinomial(n_samples, shares)
        asked = clone(oracle).set_params(categories=len(counts), random_state=rng)
        estimate = asked.fit_transform(np.arange(len(counts)), sample_weight=counts)
        parts += [
            _errors_of_choices(estimate, counts / n_samples, queries, ways).assign(kind=kind)
            for kind, queries in kinds.items()
        ]
    return pd.concat(parts)


def _errors_of_choices(estimate: Any, truth: np.ndarray, queries: Any, ways: dict) -> pd.DataFrame:
    """Return the error of every candidate and of what each way gives, and the seconds."""
    rows = []
    for way, method in {**SINGLES, TOLD: EmpiricalBayes(queries=queries), **ways}.items():
        method = clone(method)
        if way in ways and "queries" in method.get_params():
            method.set_params(queries=queries)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            start = time.process_time()
            made = method.fit_transform(estimate)
            seconds = time.process_time() - start
        rows.append((way, query_errors(truth, made, queries=queries)[0], seconds))
    return pd.DataFrame(rows, columns=["way", "error", "seconds"])


if __name__ == "__main__":
    main()
