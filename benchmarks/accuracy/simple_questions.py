"""The simplest questions: EmpiricalBayes beside the better of cheap answers, cell by cell.

    python -m benchmarks.accuracy.simple_questions
    python -m benchmarks.accuracy.simple_questions --only categories --repeats 50

`categories`: a few answers, of populations from one answer that everybody has to equal shares. The
cheap answer is the better of the raw estimate and Norm-Sub. `totals`: groups of categories, equal
or unequal inside. The cheap answer is the best of the raw totals, those of Norm-Sub, and
James-Stein's of the raw totals. A ratio is that of root mean squared errors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import gmean

from sklearn_ldp import GRR, OUE, EmpiricalBayes, NormSub, SubsetSelection
from sklearn_ldp._core.estimates import FrequencyEstimate

from .._command import command
from .._tables import markdown

CATEGORIES = (2, 3, 4, 5, 8, 12)
COLLECTIONS = (
    (GRR, 1.0, 50),
    (OUE, 0.5, 200),
    (SubsetSelection, 1.0, 500),
    (OUE, 1.0, 2_000),
    (GRR, 0.3, 5_000),
    (SubsetSelection, 0.5, 20_000),
)


class Cell(NamedTuple):
    """A simulated question: who asks whom, and the names of what varies."""

    names: dict[str, str]
    estimate: FrequencyEstimate
    truth: np.ndarray


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


def few_categories(
    repeats: int,
    seed: int,
    sizes=CATEGORIES,
    collections=COLLECTIONS,
    populations=few_answers,
) -> Iterator[Cell]:
    """Yield the cells of few categories: 288 by default."""
    for d, (oracle, epsilon, n) in itertools.product(sizes, collections):
        rng = np.random.default_rng([seed, d, n])
        for name, shares in populations(d, rng).items():
            counts = rounded(n * shares)
            made = oracle(epsilon, categories=d, random_state=rng).simulate(counts, repeats)
            collection = f"{oracle.__name__}, epsilon {epsilon:g}, n {n:,}"
            names = {"population": name, "answers": str(d), "collection": collection}
            yield Cell(names, made, counts / n)


def rounded(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers with the same sum, near these."""
    whole = np.floor(numbers).astype(int)
    missing = round(numbers.sum()) - whole.sum()
    whole[np.argsort(whole - numbers, kind="stable")[:missing]] += 1
    return whole


def squared_errors(values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the squared error of each collection."""
    return np.sum((np.asarray(values) - truth) ** 2, axis=1)
