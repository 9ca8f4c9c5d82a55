"""Errors of tables of two columns, of binary columns, and of models trained on synthetic rows.

The first printed table contains the mean total variation (half the L1 error) and the mean sum of
squared errors over all tables of two columns. Each user sends one report. The methods are: the
product of the true columns, the product of columns after EmpiricalBayes, Consistent, and
LatentClasses. The second printed table contains n times the squared error of tables of 16 binary
columns, by the formula that "auto" uses and as measured. The third contains the test accuracy of a
logistic regression that is trained on synthetic rows. The fourth is about simple populations, such
as independent columns and equal columns. It contains errors divided by the smallest error of the
product of columns, Norm-Sub and Consistent, from the same reports.

The constants of LatentClasses and of the share of single columns were chosen on three tables that
_real_tables.py writes: flights, incomes and diamonds (--population). No constant was chosen on
Adult.

    python -m benchmarks.accuracy.table_models
    python -m benchmarks.accuracy.table_models --n-users 1000000 --repeats 6
    python -m benchmarks.accuracy.table_models --population flights.csv
    python -m benchmarks.accuracy.table_models --only simple
    python -m benchmarks.accuracy.table_models --only peer --peers-python peers/bin/python

"peer" compares the models of seven columns of Adult with Private-PGM (package mbi), which is fitted
to the same reports by a separate interpreter.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from sklearn_ldp import (
    ColumnOracle,
    Consistent,
    EmpiricalBayes,
    LatentClasses,
    MarginalOracle,
    NormSub,
)
from sklearn_ldp.surveys import compare_methods

from .._command import DATA, command
from .._tables import markdown

EPSILONS = [0.5, 1.0, 2.0, 4.0]
PEER_COLUMNS = ["age", "workclass", "marital_status", "relationship", "race", "sex", "income"]
PEER_STEPS = 300  # of mirror descent
NOT_ASKED = ["fnlwgt", "education", "native_country"]

#: Public cuts of the numeric columns of Adult.
CUTS = {
    "age": [20, 25, 30, 35, 40, 45, 50, 55, 65],
    "capital_gain": [1, 5000, 10000],
    "capital_loss": [1, 1600, 1900],
    "hours_per_week": [20, 30, 40, 41, 50, 60],
}


def adult(part: str = "TRAIN") -> Any:
    """Return 12 columns of Adult as codes, a data frame."""
    raw = pd.read_csv(DATA / f"ADULT_{part}.csv.gz", keep_default_na=False)
    codes = {}
    for name in raw.columns.drop(NOT_ASKED):
        if name in CUTS:
            codes[name] = np.searchsorted(CUTS[name], raw[name].astype(float), side="right")
        else:
            codes[name] = raw[name].astype("category").cat.codes.astype(int)
    return pd.DataFrame(codes)


def grouped_adult(part: str) -> Any:
    """Return Adult with the values of each column in two to four public groups."""
    raw = pd.read_csv(DATA / f"ADULT_{part}.csv.gz", keep_default_na=False)
    married = ("Married-civ-spouse", "Married-AF-spouse")
    office = ("Sales", "Tech-support", "Adm-clerical", "Protective-serv", "Craft-repair")
    leading = ("Exec-managerial", "Prof-specialty")

    def cut(name, edges):
        return np.searchsorted(edges, raw[name].astype(float), side="right")

    return pd.DataFrame(
        {
            "age": cut("age", [25, 35, 50]),
            "employer": 3 * raw.workclass.isin(["?"])
            + raw.workclass.str.startswith("Self")
            + 2 * raw.workclass.str.contains("gov"),
            "education": cut("education_num", [9, 10, 13]),
            "married": raw.marital_status.isin(married).astype(int),
            "occupation": raw.occupation.isin(office) + 2 * raw.occupation.isin(leading),
            "relationship": raw.relationship.map({"Husband": 0, "Wife": 0, "Own-child": 1})
            .fillna(2)
            .astype(int),
            "white": (raw.race == "White").astype(int),
            "sex": (raw.sex == "Male").astype(int),
            "gain": cut("capital_gain", [5000]),
            "loss": cut("capital_loss", [1500]),
            "hours": cut("hours_per_week", [35, 41, 50]),
            "income": (raw.income.str.strip(" .") == ">50K").astype(int),
        }
    )


def domains_of(people: Any) -> dict[str, int]:
    """Return the number of categories of each column of codes."""
    return {name: int(people[name].max()) + 1 for name in people}


def true_tables(people: Any, domains: dict[str, int]) -> dict[tuple[str, str], np.ndarray]:
    """Return the frequencies of the cells of all tables of two columns, in C order."""
    return {
        (a, b): np.bincount(people[a] * domains[b] + people[b], minlength=domains[a] * domains[b])
        / len(people)
        for a, b in combinations(domains, 2)
    }


def products(columns: Any, truth: Any) -> dict[tuple[str, str], np.ndarray]:
    """Return all tables as if columns were independent."""
    return {(a, b): np.outer(columns[a].values, columns[b].values).ravel() for a, b in truth}


def estimates(people: Any, domains: Any, epsilon: float, seed: int, truth: Any) -> Iterator:
    """Yield each way to estimate the tables, with its tables and the seconds that it took."""
    true = {
        name: np.bincount(people[name], minlength=size)[None] / len(people)
        for name, size in domains.items()
    }
    of_true = {(a, b): np.outer(true[a], true[b]).ravel() for a, b in truth}
    yield "true columns, independent", of_true, 0
    survey = ColumnOracle(epsilon, domains=domains, random_state=seed)
    columns = EmpiricalBayes().fit_transform(survey.fit_transform(people))
    yield "independent columns", products(columns, truth), 0
    raw = MarginalOracle(epsilon, domains=domains, random_state=seed).fit_transform(people)
    for processor in (Consistent(), LatentClasses()):
        start = time.process_time()
        tables = processor.fit_transform(raw)
        seconds = time.process_time() - start
        yield type(processor).__name__, {name: tables.row(name) for name in truth}, seconds


def pairs_table(people: Any, n_repeats: int) -> Iterator[str]:
    """Yield the lines of the table of two-way tables."""
    domains = domains_of(people)
    truth = true_tables(people, domains)
    yield f"{len(people):,} users, {len(domains)} columns, {len(truth)} tables of two columns"
    cells: dict[str, list[str]] = {}
    for epsilon in EPSILONS:
        found: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(n_repeats):
            for name, tables, seconds in estimates(people, domains, epsilon, seed, truth):
                errors = [tables[pair] - truth[pair] for pair in truth]
                variation = np.mean([np.abs(error).sum() / 2 for error in errors])
                squares = np.mean([np.square(error).sum() for error in errors])
                found.setdefault(name, []).append((variation, squares, seconds))
        for name, rows in found.items():
            cells.setdefault(name, []).append("{:.4f} ({:.2g}, {:.2f} s)".format(*np.mean(rows, 0)))
    yield by_epsilon(cells)


def by_epsilon(cells: dict[str, list[str]]) -> str:
    """Return a table with a column for each epsilon."""
    header = ["", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)]
    return markdown(header, [[name, *row] for name, row in cells.items()])


def binary_table(n_users: int, n_repeats: int) -> Iterator[str]:
    """Yield the lines of the table of 16 binary columns."""
    rng = np.random.default_rng(0)
    users = (rng.random((n_users, 16)) < 0.5).astype(int)  # the formula is for uniform frequencies
    domains = {f"q{j}": 2 for j in range(16)}
    yield f"16 binary columns, {n_users:,} users: n times the squared error of a table"
    rows = []
    for order in (2, 3):
        for epsilon in (1.0, 2.0, 4.0):
            ways = compare_methods(epsilon, domains, order)
            errors = []
            for seed in range(n_repeats):
                oracle = MarginalOracle(
                    epsilon, domains=domains, order=order, column_share=0, random_state=seed
                )
                tables = Consistent(non_negative=False).fit_transform(oracle.fit_transform(users))
                for name, columns in tables.columns_of.items():
                    if len(columns) == order:
                        code = users[:, columns] @ (1 << np.arange(order)[::-1])
                        truth = np.bincount(code, minlength=2**order) / n_users
                        errors.append(n_users * np.square(tables.row(name) - truth).sum())
            way = f"{ways['method'][0]}, views of {ways['order'][0]}"
            formula = ways["squared_error"][0]
            numbers = f"{formula:.1f}", f"{np.mean(errors):.1f}"
            rows.append([f"{order}", f"{epsilon:g}", way, *numbers])
    yield markdown(["order", "epsilon", "way", "formula", "measured"], rows)


def rows_table(n_repeats: int) -> Iterator[str]:
    """Yield the lines of the table of models that are trained on synthetic rows."""
    train, test = grouped_adult("TRAIN"), grouped_adult("TEST")
    domains = domains_of(train)
    features = list(domains)[:-1]
    with_label = [(name, "income") for name in features]

    def accuracy(rows):
        encoder = OneHotEncoder(categories=[range(domains[name]) for name in features])
        model = make_pipeline(encoder, LogisticRegression(C=0.1, max_iter=500))
        if rows.income.nunique() < 2:
            return np.mean(test.income == rows.income.iloc[0])
        return model.fit(rows[features], rows.income).score(test[features], test.income)

    ways: dict[str, dict[str, Any]] = {
        "all pairs": {},
        "all pairs, those with the label weigh 100": {"weights": {"income": 100}},
        "pairs with the label alone": {"order": with_label},
    }
    yield f"Accuracy on Adult's test part, true rows {accuracy(train):.4f}"
    cells: dict[str, list[str]] = {}
    for (name, parameters), epsilon in product(ways.items(), EPSILONS):
        scores = []
        for seed in range(n_repeats):
            oracle = MarginalOracle(
                epsilon, domains=domains, method="split", random_state=seed, **parameters
            )
            tables = LatentClasses().fit_transform(oracle.fit_transform(train))
            scores.append(accuracy(tables.sample(30_000, random_state=seed)))
        cells.setdefault(name, []).append(f"{np.mean(scores):.4f}")
    yield by_epsilon(cells)


def simple_people(n_users: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return codes of people whose columns are independent, equal, or one a shift of the other."""

    def column(size, alpha=1.0):
        return rng.choice(size, n_users, p=rng.dirichlet(np.full(size, alpha)))

    people = {
        f"independent, {sizes}": [column(size) for size in sizes]
        for sizes in ((10, 10), (3, 4, 5), (4, 6, 10, 5), (8,) * 6)
    }
    for size in (10, 20):
        people[f"equal, {size}"] = [column(size, 3.0)] * 2
    x = column(10, 3.0)
    people["equal and another, 10"] = [x, x, column(5)]
    others = rng.integers(0, 10, n_users)
    people["shifted in 80 %, 10"] = [x, np.where(rng.random(n_users) < 0.8, (x + 1) % 10, others)]
    names = "abcdef"
    return {
        of: pd.DataFrame(dict(zip(names, columns, strict=False))) for of, columns in people.items()
    }


def simple_ratio(people: Any, epsilon: float, seed: int) -> dict[str, float]:
    """Return errors of one collection of simple tables: the cheap answers, and LatentClasses."""
    domains = domains_of(people)
    truth = true_tables(people, domains)
    raw = MarginalOracle(epsilon, domains=domains, random_state=seed).fit_transform(people)
    columns = EmpiricalBayes().fit_transform(Consistent(non_negative=False).fit_transform(raw))
    asked = ColumnOracle(epsilon, domains=domains, random_state=seed).fit_transform(people)
    consistent = Consistent().fit_transform(raw)
    model = LatentClasses().fit_transform(raw)
    ways = {
        "product": products(columns, truth),
        "Norm-Sub": {name: NormSub().fit_transform(raw[name]).values[0] for name in truth},
        "Consistent": {name: consistent.row(name) for name in truth},
        "LatentClasses": {name: model.row(name) for name in truth},
        "ColumnOracle, product": products(EmpiricalBayes().fit_transform(asked), truth),
    }
    return {
        way: float(np.mean([np.abs(tables[pair] - truth[pair]).sum() / 2 for pair in truth]))
        for way, tables in ways.items()
    }


def simple_table(n_users: int, n_repeats: int, seed: int = 1000) -> Iterator[str]:
    """Yield the lines of the table of simple tables."""
    yield f"{n_users:,} users, total variation, {n_repeats} populations (seeds from {seed:,})"
    rows = []
    for epsilon in (1.0, 4.0):
        found: dict[str, list[dict[str, float]]] = {}
        for draw in range(seed, seed + n_repeats):
            for of, people in simple_people(n_users, np.random.default_rng(draw)).items():
                found.setdefault(of, []).append(simple_ratio(people, epsilon, draw))
        for of, errors in found.items():
            table = pd.DataFrame(errors)
            means = table.mean()
            best = means[["product", "Norm-Sub", "Consistent"]].idxmin()
            ratio = means["LatentClasses"] / means[best]
            left = (table["LatentClasses"] - ratio * table[best]).std()
            error = left / np.sqrt(n_repeats) / means[best]
            numbers = [f"{mean:.4f}" for mean in means]
            rows.append([of, f"{epsilon:g}", *numbers, f"{ratio:.2f} ({error:.2f})"])
    yield markdown(["columns", "epsilon", *means.index, "over the least"], rows)


# -- a peer -----------------------------------------------------------------------------------
_PGM = """
import itertools, sys, time, warnings
warnings.simplefilter("ignore")
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)
import mbi
import numpy as np

path, steps = sys.argv[1], int(sys.argv[2])
data = dict(np.load(path))
names, sizes, n_users = data["names"].tolist(), data["sizes"].tolist(), float(data["n_users"])
pairs = list(itertools.combinations(names, 2))
domain = mbi.Domain(names, sizes)
start = time.process_time()
measured = [
    mbi.LinearMeasurement(n_users * data[f"table {i}"], pair, n_users * float(data["std"][i]))
    for i, pair in enumerate(pairs)
]
model = mbi.estimation.MirrorDescent().estimate(
    domain, measured, known_total=n_users, iters=steps
)
tables = {
    f"table {i}": np.asarray(model.project(pair).datavector()) / n_users
    for i, pair in enumerate(pairs)
}
np.savez(path, seconds=time.process_time() - start, **tables)
"""

PEER_HEADER = ["method", "mean total variation", "CPU seconds"]


def peer_rows(peers_python: str, n_repeats: int = 5) -> list[list[str]]:
    """Return a row for each model of seven columns of Adult: error (standard error), CPU time.

    All models are fitted to the same reports, epsilon 4. Private-PGM gets every table of two
    columns and its noise.
    """
    people = adult()[PEER_COLUMNS]
    domains = domains_of(people)
    truth = true_tables(people, domains)
    errors: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    for seed in range(n_repeats):
        raw = MarginalOracle(4.0, domains=domains, random_state=seed).fit_transform(people)
        models = {"raw": ({pair: raw[pair].values[0] for pair in truth}, 0.0)}
        for processor in (Consistent(), LatentClasses()):
            start = time.process_time()
            fitted = processor.fit_transform(raw)
            seconds = time.process_time() - start
            name = type(processor).__name__
            models[name] = ({pair: fitted.row(pair) for pair in truth}, seconds)
        models[f"Private-PGM, {PEER_STEPS} steps"] = _private_pgm(peers_python, raw, people)
        for name, (tables, seconds) in models.items():
            distances = [np.abs(tables[pair] - truth[pair]).sum() / 2 for pair in truth]
            errors.setdefault(name, []).append(float(np.mean(distances)))
            times.setdefault(name, []).append(seconds)
    return [
        [
            name,
            f"{np.mean(errors[name]):.4f} ({np.std(errors[name], ddof=1) / n_repeats**0.5:.4f})",
            f"{np.mean(times[name]):.1f}",
        ]
        for name in errors
    ]


def _private_pgm(peers_python: str, raw: Any, people: Any) -> tuple[dict, float]:
    """Fit Private-PGM to the raw tables, and return its tables and the CPU time."""
    domains = domains_of(people)
    pairs = list(combinations(domains, 2))
    data: dict[str, Any] = {f"table {i}": raw[pair].values[0] for i, pair in enumerate(pairs)}
    data["std"] = [np.sqrt(np.mean(raw[pair].noise.variance(raw[pair].values))) for pair in pairs]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tables.npz"
        sizes = list(domains.values())
        np.savez(path, names=list(domains), sizes=sizes, n_users=len(people), **data)
        command_line = [peers_python, "-c", _PGM, str(path), str(PEER_STEPS)]
        subprocess.run(command_line, check=True, capture_output=True, text=True)
        with np.load(path) as fitted:
            tables = {pair: fitted[f"table {i}"] for i, pair in enumerate(pairs)}
            return tables, float(fitted["seconds"])


def main(argv: list[str] | None = None) -> None:
    """Print the tables."""
    parser = command(__doc__, __spec__, repeats=8)
    parser.add_argument("--population", help="CSV of codes instead of Adult: the first table only")
    parser.add_argument("--n-users", type=int, help="draw so many users with replacement")
    parser.add_argument("--only", choices=["pairs", "binary", "rows", "simple", "peer"])
    parser.add_argument("--peers-python", metavar="PATH", help="interpreter with mbi, for peer")
    args = parser.parse_args(argv)
    if args.only == "peer" and args.peers_python is None:
        parser.error("--only peer needs --peers-python PATH, an interpreter with mbi.")
    if args.population is None and args.only != "simple" and not DATA.exists():
        raise SystemExit(f"table_models: there are no real data in {DATA}; give --population FILE")
    wanted = [args.only] if args.only else ["pairs", "binary", "rows", "simple"]
    if args.population or (args.n_users and not args.only):
        wanted = ["pairs"]
    warnings.filterwarnings("ignore", category=FutureWarning)
    if "pairs" in wanted:
        people = pd.read_csv(args.population) if args.population else adult()
        if args.n_users:
            rng = np.random.default_rng(0)
            people = people.iloc[rng.integers(0, len(people), args.n_users)]
        print("\n".join(pairs_table(people.reset_index(drop=True), args.repeats)), end="\n\n")
    if "binary" in wanted:
        lines = binary_table(args.n_users or 200_000, min(args.repeats, 5))
        print("\n".join(lines), end="\n\n")
    if "rows" in wanted:
        print("\n".join(rows_table(args.repeats)), end="\n\n")
    if "peer" in wanted:
        print(markdown(PEER_HEADER, peer_rows(args.peers_python, args.repeats)))
    if "simple" in wanted:
        print("\n".join(simple_table(args.n_users or 30_000, args.repeats)))


if __name__ == "__main__":
    main()
