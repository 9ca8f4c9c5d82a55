"""Tables where data are weak: plans that tell about all tables, and models against independence.

The first table has the share of random plans (columns, epsilon, users) that leave a table without
an estimate or are refused, and the binary columns whose plans used to fail. The second one compares
what "auto" asks for with a split among the pairs, on nine binary columns. The third one has the
mean total variation of LatentClasses, with its usual share of single columns and without one, over
that of the product of the columns of a ColumnOracle, on Adult and on surveys with latent traits.
The share of users for single columns was chosen after these surveys and Adult had been looked at.

    python -m benchmarks.accuracy._weak_tables
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sklearn_ldp import ColumnOracle, EmpiricalBayes, LatentClasses, MarginalOracle

from .._command import DATA
from .._tables import markdown
from .table_models import adult, domains_of, products, true_tables

USED_TO_FAIL = [(16, 2, 4.0, 30_000), (16, 2, 2.0, 2000), (12, 2, 4.0, 3000), (16, 2, 6.0, 30_000)]


def survey(n_columns: int, size: int, loading: float, seed: int, n_users: int = 30_000) -> Any:
    """Return answers of users who differ in two traits, a data frame of codes."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    traits = rng.standard_normal((n_users, 2))
    loadings = loading * rng.standard_normal((n_columns, 2))
    loadings[:, 0] = np.abs(loadings[:, 0]) + 0.3 * loading
    drawn = traits @ loadings.T + rng.logistic(size=(n_users, n_columns))
    cuts = np.sort(1.5 * rng.standard_normal((n_columns, size - 1)))
    return pd.DataFrame({f"q{j}": np.searchsorted(cuts[j], drawn[:, j]) for j in range(n_columns)})


def _plan(n_columns: int, size: int, epsilon: float, n_users: int, expected: int) -> str:
    """Return how a plan ends, for users who are all alike."""
    domains = {f"q{j}": size for j in range(n_columns)}
    oracle = MarginalOracle(epsilon, domains=domains, expected_n_users=expected, random_state=0)
    try:
        oracle.protocol()
    except ValueError:
        return "refused"
    try:
        tables = oracle.simulate({(0,) * n_columns: n_users})
    except ValueError:
        return "fails"
    return "told" if all(len(table) for table in tables.values()) else "lacks a table"


def plans(n_plans: int) -> str:
    """Return the table of plans."""
    rows = []
    for case in USED_TO_FAIL:
        of_case = f"{case[0]} binary columns, epsilon {case[2]:g}, {case[3]:,} users"
        rows.append([of_case, _plan(*case, 100_000), _plan(*case, case[3])])
    rng, ends = np.random.default_rng(0), []
    for _ in range(n_plans):
        n_columns, size = int(rng.integers(2, 17)), int(rng.choice([2, 2, 3, 5]))
        epsilon, n_users = rng.uniform(0.3, 6), int(10 ** rng.uniform(2, 5))
        ends.append([_plan(n_columns, size, epsilon, n_users, e) for e in (100_000, n_users)])
    counted = [
        ", ".join(f"{of_one.count(end)} {end}" for end in dict.fromkeys(of_one))
        for of_one in zip(*ends, strict=True)
    ]
    rows.append([f"{n_plans} random ones, 100 to 100,000 users", *counted])
    return markdown(["plan", "100,000 users expected", "as many as come"], rows)


def _error(tables: Any, truth: Any) -> float:
    return float(np.mean([np.abs(tables[pair] - truth[pair]).sum() / 2 for pair in truth]))


def _model_error(people: Any, truth: Any, epsilon: float, seed: int, **parameters: Any) -> float:
    oracle = MarginalOracle(
        epsilon,
        domains=domains_of(people),
        expected_n_users=len(people),
        random_state=seed,
        **parameters,
    )
    tables = LatentClasses().fit_transform(oracle.simulate(people.value_counts()))
    return _error({pair: tables.row(pair) for pair in truth}, truth)


def _columns_error(people: Any, truth: Any, epsilon: float, seed: int) -> float:
    domains = domains_of(people)
    counts = {name: np.bincount(people[name], minlength=size) for name, size in domains.items()}
    columns = ColumnOracle(epsilon, domains=domains, random_state=seed).simulate(counts)
    return _error(products(EmpiricalBayes().fit_transform(columns), truth), truth)


def binary_columns(n_repeats: int) -> str:
    """Return the table of nine binary columns."""
    rows = []
    for loading, seed in ((1.0, 111), (0.4, 112)):
        people = survey(9, 2, loading, seed)
        truth = true_tables(people, domains_of(people))
        errors = [
            np.mean([_model_error(people, truth, 1.0, s, method=m) for s in range(n_repeats)])
            for m in ("auto", "split")
        ]
        rows.append([f"loading {loading:g}", *(f"{error:.4f}" for error in errors)])
    return markdown(["9 binary columns, epsilon 1", "auto", "split"], rows)


def models(n_repeats: int, epsilons: list[float]) -> str:
    """Return the table of models against independence."""
    populations = {
        "16 questions of 5, loading 1": survey(16, 5, 1.0, 101),
        "16 questions of 5, loading 0.6": survey(16, 5, 0.6, 102),
        "12 questions of 3, loading 0.8": survey(12, 3, 0.8, 103),
    }
    if DATA.exists():
        populations["Adult"] = adult()
    rows = []
    for name, people in populations.items():
        truth = true_tables(people, domains_of(people))
        for epsilon in epsilons:
            found = [
                (
                    _columns_error(people, truth, epsilon, seed),
                    _model_error(people, truth, epsilon, seed, column_share=0, method="split"),
                    _model_error(people, truth, epsilon, seed),
                )
                for seed in range(n_repeats)
            ]
            means = np.mean(found, axis=0)
            cells, best = [f"{mean:.4f}" for mean in means], means.argmin()
            # The ways are drawn on their own, so their relative errors add up in squares.
            relative = np.std(found, axis=0, ddof=min(1, n_repeats - 1)) / means / n_repeats**0.5
            error = np.hypot(relative[2], relative[best]) if best < 2 else 0.0
            ratio = means[2] / means[best]
            rows.append([name, f"{epsilon:g}", *cells, f"{ratio:.2f} ({ratio * error:.2f})"])
    header = ["population", "epsilon", "independent", "no single columns", "usual", "over the best"]
    return markdown(header, rows)


def main(quick: bool = False) -> None:
    """Print the tables.

    Parameters
    ----------
    quick : bool, default=False
        Whether a few draws will do.
    """
    print(plans(10 if quick else 1000), end="\n\n")
    print(binary_columns(2 if quick else 8), end="\n\n")
    print(models(1 if quick else 12, [1.0, 4.0] if quick else [0.5, 1.0, 2.0, 4.0]))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
