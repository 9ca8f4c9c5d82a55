"""Totals of groups, and every category: EmpiricalBayes with and without groups.

    python benchmarks/_grouped_populations.py > FILE    (with the packages of populations.txt)
    python -m benchmarks.group_totals --populations FILE

Each cell is a population, a grouping, an epsilon and a number of users, who are drawn from the
population and report through OUE, by its exact law. The errors of a method are means over the
repeats; those of totals are divided by the least error of one of the 13 default candidates in the
same cell. The settings of the method were chosen on the populations called "tuned".

With --data the emoji, city and fire histograms are among these. Groups "by lot" are the natural
ones with shuffled labels, in which there is nothing to learn.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from sklearn_ldp import OUE, EmpiricalBayes
from sklearn_ldp.datasets import read_histogram
from sklearn_ldp.model_selection import candidate_name, default_candidates
from sklearn_ldp.queries import groups

from ._data import add_data_argument
from ._race_report import markdown

COLLECTIONS = [(0.5, 10**5), (1, 10**5), (1, 10**6), (2, 10**6), (4, 10**6), (1, 10**7)]
FILES = [
    "EMOJI_TRACKER2019_N884427.csv.gz",
    "US1940_CITY_1PCT_TOP915.csv.gz",
    "FIRE_WEEK_JAN2017.csv.gz",
]
NATURAL_COLUMNS = ("category", "subcategory", "division", "region")
REPORTED = (
    *(f"cities of {country}" for country in ("US", "GB", "IT", "ES", "TR", "ID", "PL", "NG")),
    *(f"words of {language}" for language in ("fr", "it", "pt", "nl", "pl")),
    "pairs of characters",
)
GROUPED = "EmpiricalBayes(groups)"


def main() -> None:
    """Print one table for the populations that settings were chosen on, and one for the others."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.group_totals", description=__doc__.split("\n", 1)[0]
    )
    add_data_argument(parser)
    parser.add_argument("--populations", type=Path, metavar="FILE", help="what the first printed")
    parser.add_argument("--repeats", type=int, default=3, help="collections per cell")
    parser.add_argument("--n-jobs", type=int, default=1, help="(default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    arguments = parser.parse_args()
    populations = read(arguments.data, arguments.populations)
    for title, is_mine in (
        ("tuned", lambda name: name not in REPORTED),
        ("not tuned", lambda name: name in REPORTED),
    ):
        cells = [
            (name, column, *collection)
            for name, (_, columns) in populations.items()
            if is_mine(name)
            for column in columns
            for collection in COLLECTIONS
        ]
        if cells:
            print_table(title, cells, populations, arguments)


def read(data: Path, file: Path | None) -> dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Return counts and groupings of all populations that are there."""
    found = {}
    if file is not None:
        for name, one in json.loads(file.read_text(encoding="utf-8")).items():
            columns = {column: np.array(labels) for column, labels in one["groups"].items()}
            found[name] = np.array(one["counts"]), columns
    for path in (data / name for name in FILES):
        if path.exists():
            histogram = read_histogram(path)
            columns = {c: histogram.groups[c] for c in NATURAL_COLUMNS if c in histogram.groups}
            found[path.name.split("_")[0].lower()] = histogram.counts, columns
    return found


def print_table(
    title: str, cells: list[tuple], populations: dict, arguments: argparse.Namespace
) -> None:
    """Run all cells, and print what the ratios are."""
    work = (
        delayed(errors_in)(populations[name], *rest, arguments.repeats, arguments.seed)
        for name, *rest in cells
    )
    results = Parallel(n_jobs=arguments.n_jobs)(work)
    candidates = [candidate_name(candidate) for candidate in default_candidates()]
    names = {name for name, *_ in cells}
    print(f"\n{title}: {len(names)} populations, {len(cells)} cells\n")
    rows = []
    for method in ("NormSub", "EmpiricalBayes", GROUPED):
        row = [method]
        for by_lot in (False, True):
            of_totals = [r[by_lot][method][0] / _least(r[by_lot], candidates) for r in results]
            of_each = [r[by_lot][method][1] / r[by_lot]["EmpiricalBayes"][1] for r in results]
            row += [_summary(of_totals), _summary(of_each)]
        rows.append(row)
    header = ["", "totals", "every category", "totals, by lot", "every category, by lot"]
    print(markdown(header, rows))
    ratios = np.array([r[0][GROUPED][0] / _least(r[0], candidates) for r in results])
    print(f"\nworst natural groups of {GROUPED}:")
    for i in np.argsort(-ratios)[:5]:
        name, column, epsilon, n = cells[i]
        print(f"  {name} by {column}, epsilon {epsilon:g}, n {n:,}: {ratios[i]:.2f}")


def errors_in(
    population: tuple, column: str, epsilon: float, n: int, repeats: int, seed: int
) -> list[dict[str, np.ndarray]]:
    """Return mean squared errors of totals and of every category, for natural groups and by lot.

    Parameters
    ----------
    population : (ndarray of shape (d,), dict)
        Counts, and groupings by name.
    column : str
        The grouping.
    epsilon : float
        Privacy budget.
    n : int
        Number of users.
    repeats : int
        Number of collections.
    seed : int
        Seed of all draws.

    Returns
    -------
    list of dict of ndarray of shape (2,)
        For natural groups, and for those by lot, the errors by the method's name.
    """
    counts, columns = population
    labels = columns[column]
    rng = np.random.default_rng([seed, n, round(100 * epsilon), len(counts), len(set(labels))])
    sums: list[dict[str, np.ndarray]] = [{}, {}]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fits to pure noise fall back and warn
        for _ in range(repeats):
            users = rng.multinomial(n, counts / counts.sum())
            oracle = OUE(epsilon, categories=len(counts), random_state=rng)
            estimate = oracle.simulate(users)
            made = {
                candidate_name(candidate): candidate.fit_transform(estimate)
                for candidate in default_candidates()
            }
            for of_kind, given in zip(sums, (labels, rng.permutation(labels)), strict=True):
                queries = groups(given)
                made[GROUPED] = EmpiricalBayes(groups=given).fit_transform(estimate)
                totals = queries.matrix(len(counts)) @ (users / n)
                for method, result in made.items():
                    errors = np.array(
                        [
                            np.mean((result.answer(queries)[0] - totals) ** 2),
                            np.mean((result.values[0] - users / n) ** 2),
                        ]
                    )
                    of_kind[method] = of_kind.get(method, 0) + errors / repeats
    return sums


def _least(errors: dict[str, np.ndarray], candidates: list[str]) -> float:
    return min(errors[name][0] for name in candidates)


def _summary(ratios: list[float]) -> str:
    """Return the geometric mean, the 90 % quantile and the greatest of some ratios."""
    mean, high = np.exp(np.mean(np.log(ratios))), np.quantile(ratios, 0.9)
    return f"{mean:.2f} / {high:.2f} / {max(ratios):.2f}"


if __name__ == "__main__":
    main()
