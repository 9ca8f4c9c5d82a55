"""Errors of the defaults for simple queries, divided by the error of the best simple method.

    python -m benchmarks.accuracy.simple_questions
    python -m benchmarks.accuracy.simple_questions --only categories --repeats 50
    python -m benchmarks.accuracy.simple_questions --only numbers tables --repeats 60 --bins 64

`categories`: few categories, in populations that range from a single category to equal frequencies.
The simple method is the better of the raw estimate and Norm-Sub. `searches`: the same for searches.
`totals`: groups of categories with equal or unequal frequencies within a group. The simple method
is the best of the raw totals, the totals after Norm-Sub, and James-Stein applied to the raw totals.
A ratio is a ratio of root mean squared errors over the collections. `numbers` are the populations
of `_simple_numbers.py`, for SmoothMLE. `tables` are the simple populations of `table_models.py`,
for LatentClasses. `searches` and `totals` have a tenth of the repeats, `numbers` and `tables` a
twentieth.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import gmean

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    EmpiricalBayes,
    NormSub,
    SubsetSelection,
    SyntheticSearch,
    SyntheticStack,
)
from sklearn_ldp._core.estimates import FrequencyEstimate
from sklearn_ldp.postprocessing import norm, norm_sub
from sklearn_ldp.queries import groups

from .._command import command
from .._tables import markdown
from . import _simple_numbers
from .table_models import simple_table

CATEGORIES = (2, 3, 4, 5, 8, 12)
COLLECTIONS = (
    (GRR, 1.0, 50),
    (OUE, 0.5, 200),
    (SubsetSelection, 1.0, 500),
    (OUE, 1.0, 2_000),
    (GRR, 0.3, 5_000),
    (SubsetSelection, 0.5, 20_000),
)
GROUPS = ((5, 100), (10, 100), (20, 50), (50, 20))  # groups, and categories of each
OF_GROUPS = ((OUE, 1.0, 50_000), (OLH, 1.0, 200_000))
CONCENTRATIONS = (0.5, 2.0, 10.0, 50.0)
SEARCHED = (3, 8)  # numbers of answers for searches, which take seconds
CHEAP = ("raw", "NormSub")

Errors = dict[str, np.ndarray]  # squared error of each collection, by method


class Cell(NamedTuple):
    """A simulated question: the names of its parts, the estimates, and the truth."""

    names: dict[str, Any]
    estimate: FrequencyEstimate
    truth: np.ndarray


# -- few categories ---------------------------------------------------------------------------
def few_answers(d: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return shares of a few answers."""
    rank = np.arange(1, d + 1)
    return {
        "one answer": (rank == 1) * 1.0,
        "equal": np.full(d, 1 / d),
        "Zipf": 1 / rank / (1 / rank).sum(),
        "nine tenths": np.r_[0.9, np.full(d - 1, 0.1 / (d - 1))],
        "one is rare": np.r_[0.02, np.full(d - 1, 0.98 / (d - 1))],
        **{f"Dirichlet({a:g})": rng.dirichlet(np.full(d, a)) for a in (0.3, 1.0, 5.0)},
    }


def few_categories(repeats: int, seed: int) -> Iterator[Cell]:
    """Yield the 288 cells of few categories."""
    for d, (oracle, epsilon, n) in itertools.product(CATEGORIES, COLLECTIONS):
        rng = np.random.default_rng([seed, d, n])
        for name, shares in few_answers(d, rng).items():
            counts = rounded(n * shares)
            made = oracle(epsilon, categories=d, random_state=rng).simulate(counts, repeats)
            collection = f"{oracle.__name__}, epsilon {epsilon:g}, n {n:,}"
            names = {"population": name, "answers": d, "collection": collection}
            yield Cell(names, made, counts / n)


def rounded(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers near these, with the same sum."""
    whole = np.floor(numbers).astype(int)
    missing = round(numbers.sum()) - whole.sum()
    whole[np.argsort(whole - numbers, kind="stable")[:missing]] += 1
    return whole


def category_errors(cell: Cell) -> Errors:
    """Return squared errors of every category."""
    made = {
        "raw": cell.estimate.values,
        "NormSub": NormSub().fit_transform(cell.estimate).values,
        "EmpiricalBayes": EmpiricalBayes().fit_transform(cell.estimate).values,
    }
    return {name: np.sum((values - cell.truth) ** 2, axis=1) for name, values in made.items()}


def searched_errors(cell: Cell) -> Errors:
    """Return squared errors of every category, for searches."""
    errors = category_errors(cell)
    for search in (SyntheticSearch(random_state=0), SyntheticStack(random_state=0)):
        rows = search.fit(cell.estimate).estimate_.values
        errors[type(search).__name__] = np.sum((rows - cell.truth) ** 2, axis=1)
    return errors


# -- totals of groups -------------------------------------------------------------------------
def grouped_populations(
    n_groups: int, size: int, rng: np.random.Generator
) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield names and shares of categories, in groups of one size."""
    rank = np.arange(1, size + 1)
    equal, zipf = np.full(size, 1 / size), 1 / rank / (1 / rank).sum()
    insides = {"equal": [equal], "Zipf": [zipf], "mixed": [equal, zipf]}
    for (inside, kinds), a in itertools.product(insides.items(), CONCENTRATIONS):
        totals = rng.dirichlet(np.full(n_groups, a))
        parts = [t * rng.permutation(kinds[i % len(kinds)]) for i, t in enumerate(totals)]
        yield {"inside": inside, "totals": f"Dirichlet({a:g})"}, np.concatenate(parts)
    shares = 1 / np.arange(1, n_groups * size + 1)
    yield {"inside": "Zipf", "totals": "random groups"}, rng.permutation(shares / shares.sum())


def group_totals(repeats: int, seed: int) -> Iterator[Cell]:
    """Yield the cells of groups."""
    for (n_groups, size), (oracle, epsilon, n) in itertools.product(GROUPS, OF_GROUPS):
        rng = np.random.default_rng([seed, n_groups, n])
        for names, shares in grouped_populations(n_groups, size, rng):
            counts = rng.multinomial(n, shares)
            made = oracle(epsilon, categories=len(shares), random_state=rng)
            collection = f"{oracle.__name__}, epsilon {epsilon:g}, n {n:,}"
            names = {**names, "groups": n_groups, "collection": collection}
            yield Cell(names, made.simulate(counts, repeats), counts / n)


def total_errors(cell: Cell) -> Errors:
    """Return squared errors of the totals of groups."""
    asked = groups(np.arange(len(cell.truth)) * cell.names["groups"] // len(cell.truth))
    raw, truth = norm(cell.estimate.values), asked.matrix(len(cell.truth)) @ cell.truth
    noise = cell.estimate.noise.of_rows(0)
    variances = noise.answer_variance(asked.matrix(len(cell.truth)), cell.truth)
    totals = {
        "raw": raw @ asked.matrix(len(cell.truth)).T,
        "NormSub": NormSub().fit_transform(cell.estimate).answer(asked),
        "EmpiricalBayes": EmpiricalBayes(queries=asked).fit_transform(cell.estimate).answer(asked),
    }
    totals["James-Stein"] = james_stein(totals["raw"], variances.mean())
    return {name: np.sum((values - truth) ** 2, axis=1) for name, values in totals.items()}


def james_stein(totals: np.ndarray, variance: float) -> np.ndarray:
    """Return totals moved to equal ones by James-Stein's share, then Norm-Sub."""
    n_groups = totals.shape[1]
    away = totals - 1 / n_groups
    kept = 1 - (n_groups - 3) * variance / np.sum(away**2, axis=1, keepdims=True)
    return norm_sub(1 / n_groups + np.maximum(kept, 0) * away)


# -- tables -----------------------------------------------------------------------------------
def ratios(
    cells: Iterable[Cell], errors: Callable[[Cell], Errors], ours: str, cheap: tuple[str, ...]
) -> pd.DataFrame:
    """Return the error of a method over that of the best cheap answer, by cell."""
    rows = []
    for cell in cells:
        made = errors(cell)
        best = min(cheap, key=lambda name: made[name].mean())
        ratio = np.sqrt(made[ours].mean() / made[best].mean())
        # By linearising the ratio of two means over the same collections.
        terms = made[ours] / made[ours].mean() - made[best] / made[best].mean()
        error = ratio / 2 * terms.std(ddof=1) / np.sqrt(len(terms))
        rows.append({**cell.names, "ratio": ratio, "error": error})
    return pd.DataFrame(rows)


def show(table: pd.DataFrame, by: str, n_worst: int = 5) -> None:
    """Print the ratios by one of the names, and the worst cells."""
    names = [name for name in table if name not in ("ratio", "error")]
    rows = []
    for name, part in [*table.groupby(by, sort=False), ("all", table)]:
        above = np.count_nonzero(part.ratio > 1.1)
        spread = np.log(part.ratio).std(ddof=1) / np.sqrt(len(part)) * gmean(part.ratio)
        numbers = f"{gmean(part.ratio):.3f} ({spread:.3f})", f"{above}", f"{part.ratio.max():.2f}"
        rows.append([str(name), f"{len(part)}", *numbers])
    print(markdown([by, "cells", "geometric mean (error)", "above 1.1", "greatest"], rows))
    print("\nworst:")
    for _, cell in table.nlargest(n_worst, "ratio").iterrows():
        where = ", ".join(f"{name} {cell[name]}" for name in names)
        print(f"  {cell.ratio:.2f} ({cell.error:.2f}): {where}")


def categories(repeats: int, seed: int) -> None:
    """Print the table of few categories."""
    table = ratios(few_categories(repeats, seed), category_errors, "EmpiricalBayes", CHEAP)
    show(table, "population")


def searches(repeats: int, seed: int) -> None:
    """Print the tables of searches for few categories, from a tenth of the collections."""
    cells = few_categories(max(repeats // 10, 2), seed)
    some = [cell for cell in cells if cell.names["answers"] in SEARCHED]
    errors = [searched_errors(cell) for cell in some]
    for search in (SyntheticSearch, SyntheticStack):
        print(f"\n{search.__name__}")
        made = iter(errors)
        table = ratios(some, lambda cell, made=made: next(made), search.__name__, CHEAP)
        show(table, "population")


def totals(repeats: int, seed: int) -> None:
    """Print the table of totals, from a tenth of the collections."""
    cells = group_totals(max(repeats // 10, 2), seed)
    table = ratios(cells, total_errors, "EmpiricalBayes", (*CHEAP, "James-Stein"))
    show(table, "inside")


def numbers(repeats: int, seed: int, bins: Sequence[int]) -> None:
    """Print the tables of numbers, from a twentieth of the collections."""
    for users in (_simple_numbers.USERS, _simple_numbers.FEW_USERS):
        draws = max(repeats // 20, 2), seed
        table = pd.DataFrame(_simple_numbers.cells("report", bins, users, *draws))
        print(_simple_numbers.summary(table), end="\n\n", flush=True)


def tables(repeats: int, seed: int) -> None:
    """Print the table of simple tables, from a twentieth of the collections."""
    print("\n".join(simple_table(30_000, max(repeats // 20, 2), 1000 + seed)))


SECTIONS: dict[str, Callable[..., None]] = {
    "categories": categories,
    "searches": searches,
    "totals": totals,
    "numbers": numbers,
    "tables": tables,
}


def main() -> None:
    """Print the sections' tables."""
    parser = command(__doc__, __spec__, repeats=200, seed=0)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=[*SECTIONS])
    parser.add_argument("--bins", type=int, nargs="+", default=_simple_numbers.BINS)
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)
        for section in arguments.only:
            print(f"\n{section}: error over that of the best cheap answer", flush=True)
            options = {"bins": arguments.bins} if section == "numbers" else {}
            SECTIONS[section](arguments.repeats, arguments.seed, **options)


if __name__ == "__main__":
    main()
