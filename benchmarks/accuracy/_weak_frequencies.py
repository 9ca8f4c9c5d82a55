"""Frequencies from few reports a category: EmpiricalBayes against the best of 12 in hindsight.

    python -m benchmarks.accuracy._weak_frequencies
    python -m benchmarks.accuracy._weak_frequencies --users    (300 and 1,000 users a category)

GRR (and OLH) collect so few users that the number of reports that support a category nobody has,
``n q (1 - q)`` under GRR, is 2 to 100. Nothing was tuned on these populations: words and pairs of
letters of Python's own documentation, kinds of nodes of its standard library's code, words in the
names of Unicode's characters, pixels and measurements that scikit-learn bundles, and the states.
Other post-processors, and the searches, stand beside Norm-Sub in some of these cells.
"""

from __future__ import annotations

import ast
import itertools
import pydoc_data.topics
import re
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import gmean
from sklearn import datasets

from sklearn_ldp import (
    GRR,
    NPMLE,
    OLH,
    Calibrate,
    EmpiricalBayes,
    HeldOutSearch,
    NormSub,
    Power,
    PowerNS,
    SyntheticSearch,
)
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.model_selection import candidate_name, default_candidates
from sklearn_ldp.queries import full_domain

from .._tables import markdown
from .fixed_questions import Population, questions

BUDGETS, SUPPORTS, USERS = (0.5, 1, 2, 4), (2, 10, 40, 95), (300, 1000)
OTHERS = {
    "Calibrate": Calibrate(),
    "Power": Power(),
    "PowerNS": PowerNS(),
    "NPMLE": NPMLE(),
    "EmpiricalBayes": EmpiricalBayes(),
    "HeldOutSearch, bootstrap": HeldOutSearch(method="bootstrap"),
    "SyntheticSearch": SyntheticSearch(random_state=0),
}
OTHER_CELLS = ((0.5, 2), (0.5, 40), (1, 10), (2, 2), (2, 95), (4, 10))  # epsilon, support
SEARCHED = OTHER_CELLS[2:5]  # as searches take seconds
FEWER = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5)  # users a category
DOMINATED = (
    (GRR, 10_000, 1_000, 1.0),
    (GRR, 6_000, 700, 1.0),
    (GRR, 400, 3_000, 4.0),
    (GRR, 2_000, 600, 2.0),
    (OLH, 100, 1_000, 1.0),
    (OLH, 150, 400, 0.7),
)
TWELVE = {candidate_name(post): post for post in default_candidates()[:-1]}


def populations() -> dict[str, Population]:
    """Return histograms that come with Python, scikit-learn and this package."""
    text = " ".join(pydoc_data.topics.topics.values()).lower()
    words = Counter(re.findall(r"[a-z]+", text))
    pairs = Counter(a + b for a, b in itertools.pairwise(text) if (a + b).isalpha())
    folder = Path(ast.__file__).parent
    trees = [ast.parse(path.read_bytes()) for path in sorted(folder.glob("[a-e]*.py"))]
    nodes = Counter(type(node).__name__ for tree in trees for node in ast.walk(tree))
    names = Counter(
        word
        for code in range(sys.maxunicode)
        for word in unicodedata.name(chr(code), "").split()[:3]
        if "-" not in word
    )
    found = {
        "words of the documentation": by_name(words.most_common(800), lambda word: word[0]),
        "pairs of letters": by_name(pairs.most_common(500), lambda pair: pair[0]),
        "nodes of code": by_name(nodes.items(), lambda node: node[0]),
        "words in names of characters": by_name(names.most_common(600), lambda word: word[0]),
        "lengths of lines": ordered([len(line) for line in text.split("\n")], 90),
    }
    digits = datasets.load_digits().data
    found["pixels of digits"] = Population(
        digits.sum(axis=0).astype(int), {"row": np.arange(64) // 8}, False
    )
    image = datasets.load_sample_image("china.jpg").astype(int)
    colours = image // 32 @ np.array([64, 8, 1])
    found["colours"] = Population(
        np.bincount(colours.ravel(), minlength=512), {"red": np.arange(512) // 64}, False
    )
    flower = datasets.load_sample_image("flower.jpg")
    found["greys"] = Population(np.bincount(flower[..., 1].ravel(), minlength=256), {}, True)
    found["areas of cells"] = ordered(datasets.load_breast_cancer().data[:, 3] // 5, 501)
    found["alcohol of wine"] = ordered(datasets.load_wine().data[:, 0] * 50 - 540, 200)
    states = load_us_states(random_state=0)
    found["states"] = Population(np.asarray(states.counts), {}, False)
    found["equal"] = Population(np.full(612, 1), {"by lot": np.arange(612) % 20}, True)
    return found


def by_name(counts, label) -> Population:
    """Return counts in the order of their names, with a group for each label."""
    items = sorted(counts)
    return Population(
        np.array([count for _, count in items]),
        {"label": np.array([label(name) for name, _ in items])},
        False,
    )


def ordered(values, n_categories: int) -> Population:
    """Return the histogram of whole numbers, of those below a number."""
    counts = np.bincount(np.asarray(values, dtype=int), minlength=n_categories)[:n_categories]
    return Population(counts, {}, True)


def collections(population, oracle, epsilon, n, repeats, *more) -> Iterator[tuple]:
    """Yield true frequencies, estimates, and the generator that both were drawn with."""
    d = len(population.counts)
    rng = np.random.default_rng([n, d, round(10 * epsilon), *more])
    for _ in range(repeats):
        users = rng.multinomial(n, population.counts / population.counts.sum())
        estimate = oracle(epsilon, categories=d, random_state=rng).simulate(users)
        yield users / n, estimate, rng


def users_for(support: float, epsilon: float, d: int) -> int:
    """Return how many users give a category that nobody has so many reports, by variance."""
    q = 1 / (np.exp(epsilon) + d - 1)
    return max(round(support / (q * (1 - q))), 50)


def regrets(oracle, found, repeats, users=()) -> pd.DataFrame:
    """Return the error of EmpiricalBayes over that of the best of 12, by kind and cell."""
    rows = []
    for (name, population), epsilon in itertools.product(found.items(), BUDGETS):
        d = len(population.counts)
        sizes = [users_for(support, epsilon, d) for support in SUPPORTS]
        for n in [each * d for each in users] or sizes:
            for truth, estimate, rng in collections(population, oracle, epsilon, n, repeats):
                made = {method: post.fit_transform(estimate) for method, post in TWELVE.items()}
                asked = {("every category", ""): full_domain(), **questions(population, rng)}
                for (kind, column), queries in asked.items():
                    told = None if kind == "every category" else queries
                    made["EmpiricalBayes"] = EmpiricalBayes(queries=told).fit_transform(estimate)
                    question = f"{kind} {column}".strip()
                    cell = f"{name}, epsilon {epsilon:g}, n {n:,}, {question}"
                    errors = {
                        m: query_errors(truth, x, queries=queries)[0] for m, x in made.items()
                    }
                    rows.append({"kind": " ".join(question.split()[:2]), "cell": cell, **errors})
    errors = pd.DataFrame(rows).groupby(["kind", "cell"], sort=False).sum()
    return errors["EmpiricalBayes"] / errors[[*TWELVE]].min(axis=1)


def largest_of_equal(repeats: int) -> np.ndarray:
    """Return the largest value over the largest true frequency, where all are equal."""
    ratios = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        users = rng.multinomial(10_000, np.full(612, 1 / 612))
        estimate = GRR(1.0, categories=612, random_state=rng).simulate(users)
        ratios.append(EmpiricalBayes().fit(estimate).frequencies_.max() / (users.max() / 10_000))
    return np.array(ratios)


def beside_norm_sub(oracle, found, repeats) -> pd.DataFrame:
    """Return what each of the other methods does in every category, by cell."""
    rows = []
    for (name, population), cell in itertools.product(found.items(), OTHER_CELLS):
        n = users_for(cell[1], cell[0], len(population.counts))
        for truth, estimate, _ in collections(population, oracle, cell[0], n, repeats, 9):
            for method, post in {"NormSub": NormSub(), **OTHERS}.items():
                if method.endswith("Search") and cell not in SEARCHED:
                    continue
                made = post.fit_transform(estimate)
                error = query_errors(truth, made, queries=full_domain())[0]
                row = {"method": method, "cell": (name, *cell), "error": error}
                rows.append(row | {"value": made.values.max(), "sum": made.values.sum()})
    return pd.DataFrame(rows)


def over_norm_sub(table: pd.DataFrame) -> list[list[str]]:
    """Return a row for each of the other methods: errors over that of NormSub, values and sums."""
    errors = table.groupby(["method", "cell"]).error.sum()
    rows = []
    for method in (one for one in OTHERS if one in errors):
        ratios = errors[method] / errors["NormSub"]
        of = table[table.method == method]
        cells = f"{gmean(ratios.dropna()):.2f}", f"{(ratios > 1.05).sum()}", f"{ratios.max():.2f}"
        sums = f"{of['sum'].min():.2f} .. {of['sum'].max():.2f}"
        rows.append([method, f"{ratios.count()}", *cells, f"{of['value'].max():.2f}", sums])
    return rows


def _over_cheap(oracle, epsilon, n, shares, repeats) -> np.ndarray:
    """Return the error of EmpiricalBayes, that of NormSub and of equal frequencies, in mean."""
    errors, d = [], len(shares)
    population = Population(shares, {}, False)
    for truth, estimate, _ in collections(population, oracle, epsilon, n, repeats, 46):
        made = [post.fit_transform(estimate).values[0] for post in (EmpiricalBayes(), NormSub())]
        errors.append([np.sum((one - truth) ** 2) for one in (*made, np.full(d, 1 / d))])
    return np.mean(errors, axis=0)


def fewer_than_categories(found, repeats) -> list[list[str]]:
    """Return the error over the cheapest answer, where GRR asks fewer users than categories."""
    rows = []
    for share in FEWER:
        cells, above = {}, 0.0
        for (name, population), epsilon in itertools.product(found.items(), BUDGETS):
            n = max(round(share * len(population.counts)), 5)
            bayes, *cheap = _over_cheap(GRR, epsilon, n, population.counts, repeats)
            cells[f"{name}, epsilon {epsilon:g}, n {n}"] = bayes / min(cheap)
            above = max(above, bayes - min(cheap))
        ratios = pd.Series(cells)
        numbers = f"{gmean(ratios):.2f}", f"{ratios.max():.2f}", f"{above:.3f}"
        rows.append([f"{share:g}", *numbers, ratios.idxmax()])
    return rows


def one_that_dominates(repeats) -> list[list[str]]:
    """Return the error over that of NormSub where one value has all users, most, or no more."""
    rows = []
    for oracle, n, d, epsilon in DOMINATED:
        row = [f"{oracle.__name__}, n {n:,}, d {d:,}, epsilon {epsilon:g}"]
        for share in (1.0, 0.7, 0.4, 1 / d):
            shares = np.r_[share, np.full(d - 1, (1 - share) / (d - 1))]
            bayes, cheap, equal = _over_cheap(oracle, epsilon, n, shares, repeats)
            row.append(
                f"{bayes / cheap:.2f}" if share > 1 / d else f"{bayes - min(cheap, equal):+.4f}"
            )
        rows.append(row)
    return rows


def main(quick: bool = False, users=()) -> None:
    """Print the tables."""
    found, repeats = populations(), 1 if quick else 4
    if quick:
        found = dict(list(found.items())[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for oracle in (GRR, OLH):
            print(f"\n{oracle.__name__}: error over that of the best of 12 in hindsight")
            rows = []
            for kind, cells in regrets(oracle, found, repeats, users).groupby("kind", sort=False):
                numbers = gmean(cells), np.quantile(cells, 0.9), cells.max()
                shown = (f"{number:.2f}" for number in numbers)
                rows.append([kind, f"{len(cells)}", *shown, cells.idxmax()[1]])
            header = ["question", "cells", "geometric mean", "90 %", "greatest", "where"]
            print(markdown(header, rows))
        if users:
            return
        for oracle in (GRR, OLH):
            print(f"\n{oracle.__name__}: every category, error over that of NormSub")
            header = ["method", "cells", "geometric mean", "above 1.05", "greatest"]
            table = beside_norm_sub(oracle, found, min(repeats, 2))
            print(markdown([*header, "value", "sums"], over_norm_sub(table)))
    print(
        "\nGRR, fewer users than categories: error over the better of NormSub and equal frequencies"
    )
    header = ["users a category", "geometric mean", "greatest", "most above", "where"]
    print(markdown(header, fewer_than_categories(found, 3 * repeats)))
    print(
        "\nOne value has a share: error over that of NormSub; where it has none, above the better"
    )
    header = ["collection", "all users", "70 %", "40 %", "as all others"]
    print(markdown(header, one_that_dominates(10 * repeats)))
    ratios = largest_of_equal(20 if quick else 200)
    print(
        f"\nAll equal (GRR, epsilon 1, d 612, n 10,000), {len(ratios)} collections: the largest "
        f"value is {np.median(ratios):.2f} times the largest frequency in the middle, "
        f"{np.quantile(ratios, 0.95):.1f} times in one of 20; above twice: "
        f"{np.count_nonzero(ratios > 2)}"
    )


if __name__ == "__main__":
    main("--quick" in sys.argv, USERS if "--users" in sys.argv else ())
