"""Errors of the answers to fixed queries: groups, ranges, the largest and all categories.

    python benchmarks/accuracy/_real_populations.py > FILE    (with the packages of populations.txt)
    python -m benchmarks.accuracy.fixed_questions --populations FILE

Each cell is a population, a query, an epsilon and a number of users. The users are drawn from the
population, and their OUE reports are drawn from their exact distribution. The error of a method is
the mean over the repeats. Errors of answers are divided by the smallest error of the 13 default
candidates in the same cell. Errors of all categories are divided by the error of EmpiricalBayes.
The settings of the methods were chosen on the populations called "tuned".

With --data these populations include the emoji, city and fire histograms. Groups "by lot" are the
natural groups with shuffled labels, so the groups contain no information. No population is sorted
by frequency.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from sklearn_ldp import OUE, EmpiricalBayes
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.model_selection import candidate_name, default_candidates
from sklearn_ldp.queries import QuerySet, full_domain, groups, ranges, top_k

from .._command import add_data_argument, command, histograms
from .._tables import markdown

COLLECTIONS = [(0.5, 10**5), (1, 10**5), (1, 10**6), (2, 10**6), (4, 10**6), (1, 10**7)]
FILES = {
    "emoji": "EMOJI_TRACKER2019_N884427.csv.gz",
    "us1940": "US1940_CITY_1PCT_TOP915.csv.gz",
    "fire": "FIRE_WEEK_JAN2017.csv.gz",
}
NATURAL_COLUMNS = ("category", "subcategory", "division", "region")
REPORTED = (
    *(f"cities of {country}" for country in ("US", "GB", "IT", "ES", "TR", "ID", "PL", "NG")),
    *(f"cities of {country}, west to east" for country in ("GB", "ES", "TR", "PL", "NG")),
    *(f"words of {language}" for language in ("fr", "it", "pt", "nl", "pl")),
    "pairs of characters",
    "delays of departure",
    "times of arrival",
    "humidities",
    "pressures",
    "speeds of wind",
)
KINDS = ("natural groups", "groups by lot", "ten ranges", "400 ranges", "top 10", "top 50")
ASKED = "EmpiricalBayes(queries)"
CANDIDATES = {candidate_name(one): one for one in default_candidates()}
SHOWN = ("Base", "NormSub", "EmpiricalBayes", ASKED)


class Population(NamedTuple):
    """A histogram, its natural groups, and whether its categories are in a natural order."""

    counts: np.ndarray
    columns: dict[str, np.ndarray]
    ordered: bool


def main() -> None:
    """Print tables for the populations that settings were chosen on, and for the others."""
    parser = command(__doc__, __spec__, repeats=3, n_jobs=1, seed=0)
    add_data_argument(parser)
    parser.add_argument("--populations", type=Path, metavar="FILE", help="what the first printed")
    arguments = parser.parse_args()
    populations = read(arguments.data, arguments.populations)
    for title, is_reported in (("tuned", False), ("not tuned", True)):
        mine = {name: x for name, x in populations.items() if (name in REPORTED) == is_reported}
        if mine:
            print_tables(title, mine, arguments)


def read(data: Path, file: Path | None) -> dict[str, Population]:
    """Return all populations that are there."""
    found = {}
    if file is not None:
        for name, one in json.loads(file.read_text(encoding="utf-8")).items():
            columns = {column: np.array(labels) for column, labels in one["groups"].items()}
            found[name] = Population(np.array(one["counts"]), columns, one["ordered"])
    for name, histogram in histograms(data, FILES).items():
        columns = {c: histogram.groups[c] for c in NATURAL_COLUMNS if c in histogram.groups}
        found[name] = Population(histogram.counts, columns, False)
    return found


def print_tables(
    title: str, populations: dict[str, Population], arguments: argparse.Namespace
) -> None:
    """Run all cells, and print what the ratios are."""
    cells = [(name, *collection) for name in populations for collection in COLLECTIONS]
    work = (
        delayed(errors_in)(populations[name], *collection, arguments.repeats, arguments.seed)
        for name, *collection in cells
    )
    rows = []
    runs = zip(cells, Parallel(n_jobs=arguments.n_jobs)(work), strict=True)
    for (name, epsilon, n), found in runs:
        for (kind, of), errors in found.iterrows():
            cell = f"{name} ({of}), epsilon {epsilon:g}, n {n:,}"
            answers, every = errors["answers"], errors["every category"]
            ratios = {method: answers[method] / answers[[*CANDIDATES]].min() for method in SHOWN}
            told = every[ASKED] / every["EmpiricalBayes"]
            rows.append({"kind": kind, "cell": cell, **ratios, "every category": told})
    table = pd.DataFrame(rows).set_index("cell").groupby("kind")
    kinds = [kind for kind in KINDS if kind in table.groups]
    print(f"\n{title}: {len(populations)} populations, {len(rows)} cells")
    print("\nAnswers: error over that of the best default candidate in hindsight; every category:")
    print(f"error of {ASKED} over that of EmpiricalBayes\n")
    shown = [
        [method, *(_summary(table.get_group(kind)[method]) for kind in kinds)]
        for method in (*SHOWN, "every category")
    ]
    sizes = table.size()
    print(markdown(["", *(f"{kind} ({sizes[kind]})" for kind in kinds)], shown), end="\n\n")
    for kind in kinds:
        ratios = table.get_group(kind)[ASKED]
        print(f"worst of {kind}: {ratios.max():.2f} ({ratios.idxmax()})")


def questions(
    population: Population, rng: np.random.Generator
) -> dict[tuple[str, str], tuple[QuerySet, QuerySet]]:
    """Return what is asked, and what EmpiricalBayes is told, by the kind and the name of it."""
    counts, columns, ordered = population
    found: dict[tuple[str, str], Any] = {}
    for column, labels in columns.items():
        found["natural groups", column] = groups(labels)
        found["groups by lot", column] = groups(rng.permutation(labels))
    if ordered:
        ends = np.sort(rng.integers(0, len(counts) + 1, (500, 2)), axis=1)
        ends = ends[ends[:, 0] < ends[:, 1]][:400]
        found["ten ranges", "order"] = ranges(10)
        found["400 ranges", "order"] = ranges(ends)
    found.update({(f"top {k}", "all"): top_k(k) for k in (10, 50) if len(counts) >= 4 * k})
    return found


def errors_in(population: Population, epsilon: float, n: int, repeats: int, seed: int) -> Any:
    """Return mean squared errors of answers and of every category, by question and method."""
    counts, rows = population.counts, []
    rng = np.random.default_rng([seed, n, round(100 * epsilon), len(counts)])
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fits to pure noise fall back and warn
        for _ in range(repeats):
            users = rng.multinomial(n, counts / counts.sum())
            estimate = OUE(epsilon, categories=len(counts), random_state=rng).simulate(users)
            made = {name: one.fit_transform(estimate) for name, one in CANDIDATES.items()}
            for question, queries in questions(population, rng).items():
                made[ASKED] = EmpiricalBayes(queries=queries).fit_transform(estimate)
                for method, result in made.items():
                    errors = (
                        query_errors(users / n, result, queries=asked)[0]
                        for asked in (queries, full_domain())
                    )
                    rows.append((*question, method, *errors))
    table = pd.DataFrame(rows, columns=["kind", "of", "method", "answers", "every category"])
    return table.groupby(["kind", "of", "method"], sort=False).mean().unstack()


def _summary(ratios: pd.Series) -> str:
    """Return the geometric mean, the 90 % quantile and the greatest of some ratios."""
    mean, high = np.exp(np.mean(np.log(ratios))), np.quantile(ratios, 0.9)
    return f"{mean:.2f} / {high:.2f} / {max(ratios):.2f}"


if __name__ == "__main__":
    main()
