"""Tables where data are weak: models against independence.

The table has the mean total variation of LatentClasses, with its usual share of single columns and
without one, over that of the product of the columns of a ColumnOracle, on Adult and on surveys with
latent traits. The share of users for single columns was chosen after these surveys and Adult had
been looked at.

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
    """Print the table; a quick one is of single collections."""
    print(models(1 if quick else 12, [1.0, 4.0] if quick else [0.5, 1.0, 2.0, 4.0]))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
