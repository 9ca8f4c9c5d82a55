"""Errors of four ways to ask the same users about several columns.

The table contains n times the squared error of the raw estimates, summed over the categories of all
columns. Each user reports on one column, on the number of columns that "auto" chooses, on all
columns with a split budget, or on the joint category of all columns.

    python -m benchmarks.accuracy.column_strategies
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from sklearn_ldp import ColumnOracle
from sklearn_ldp.oracles import best_oracle

from .._command import command
from .._tables import markdown

EPSILONS = [0.5, 1.0, 2.0, 4.0, 8.0]
SURVEYS = {"2, 3, 5 and 16 categories": (2, 3, 5, 16), "20 yes/no questions": (2,) * 20}
N_USERS = 20_000


def users(sizes: tuple[int, ...], n: int = N_USERS) -> np.ndarray:
    """Return codes of dependent columns, whose frequencies fall like 1 / rank."""
    rng, common = np.random.default_rng(0), np.random.default_rng(1).random(n)
    columns = []
    for d in sizes:
        weights = 1 / np.arange(1, d + 1)
        uniform = np.where(rng.random(n) < 0.3, common, rng.random(n))
        columns.append(np.searchsorted(np.cumsum(weights / weights.sum())[:-1], uniform))
    return np.column_stack(columns)


def strategies(sizes: tuple[int, ...]) -> dict[str, Callable[[float], Callable]]:
    """Return what makes, for a budget, a function from users to estimates of each column."""
    domains = {f"column {j}": d for j, d in enumerate(sizes)}

    def survey(**parameters):
        def at(epsilon):
            oracle = ColumnOracle(epsilon, domains=domains, **parameters)
            return lambda codes: [part.values[0] for part in oracle.fit_transform(codes).values()]

        return at

    def joined(epsilon):
        oracle = best_oracle(epsilon, math.prod(sizes))

        def collect(codes):
            cells = oracle.fit_transform(np.ravel_multi_index(codes.T, sizes)).values[0]
            table, axes = cells.reshape(sizes), range(len(sizes))
            return [table.sum(axis=tuple(k for k in axes if k != j)) for j in axes]

        return collect

    ways = {
        "one column a user": survey(),
        'n_sampled="auto"': survey(n_sampled="auto"),
        "split budget": survey(strategy="split-budget"),
        "joint category": joined,
    }
    if math.prod(sizes) > 10_000:
        del ways["joint category"]
    return ways


def error(estimates: list[np.ndarray], codes: np.ndarray) -> float:
    """Return n times the sum of squared errors."""
    total = 0.0
    for column, estimate in zip(codes.T, estimates, strict=True):
        truth = np.bincount(column, minlength=len(estimate)) / len(column)
        total += float(np.sum((estimate - truth) ** 2))
    return len(codes) * total


def figure(x: float) -> str:
    """Return a number with two digits at least."""
    return f"{x:,.0f}" if x >= 10 else f"{x:.2g}"


def errors(n_repeats: int) -> Iterator[list[str]]:
    """Yield rows of the first table."""
    for name, sizes in SURVEYS.items():
        codes = users(sizes)
        for way, at in strategies(sizes).items():
            row = [name, way]
            for epsilon in EPSILONS:
                collect = at(epsilon)
                found = [error(collect(codes), codes) for _ in range(n_repeats)]
                row.append(f"{figure(np.mean(found))} ± {figure(np.std(found) / n_repeats**0.5)}")
            yield row


def main() -> None:
    """Print the table."""
    parser = command(__doc__, __spec__, whole=True, repeats=50)
    rows = errors(parser.parse_args().repeats)
    print(markdown(["survey", "asked", *(f"epsilon {e:g}" for e in EPSILONS)], rows))


if __name__ == "__main__":
    main()
