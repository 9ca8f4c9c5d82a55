"""Accuracy and log loss of classifiers from private data, on the official split of "Adult".

"labels": the features are public, and the label is randomized. "records": features and label are
private, and each user sends one report, with the full domains of 12 columns or with coarser public
groups of categories.

The constants of LDPNaiveBayes were chosen on tables that _learning_tables.py writes. The option
--choose FOLDER compares constants on these tables. No constant was chosen on Adult.

    python -m benchmarks.accuracy.learning
    python -m benchmarks.accuracy.learning --only records --repeats 30
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import CategoricalNB

from sklearn_ldp import Domain
from sklearn_ldp.learning import LabelDPClassifier, LDPNaiveBayes
from sklearn_ldp.learning._label_channel import LabelChannel
from sklearn_ldp.postprocessing import norm_sub

from .._command import DATA, command
from .table_models import CUTS, EPSILONS, by_epsilon, grouped_adult

#: Finer public cuts of numeric columns, where they cost no privacy: 148 indicators in all.
FINE_CUTS = {
    "age": [*range(20, 40, 2), 40, 45, 50, 55, 60, 65, 70],
    "capital_gain": [1, 3000, 4000, 5000, 7000, 10_000, 15_000],
    "capital_loss": [1, 1500, 1600, 1800, 1850, 1900, 2000, 2200],
    "hours_per_week": [10, 20, 30, 35, 40, 41, 45, 50, 60, 70],
}


# -- the data -----------------------------------------------------------------------------------
def adult(cuts: dict[str, list[int]], label: str = "income") -> tuple[Any, ...]:
    """Return codes of 12 columns and of the label, of both parts, and the numbers of categories."""
    import pandas as pd

    parts = [
        pd.read_csv(DATA / f"ADULT_{part}.csv.gz", keep_default_na=False)
        for part in ("TRAIN", "TEST")
    ]
    both = pd.concat(parts)
    names = [name for name in both.columns if name not in ("fnlwgt", "education", label)]
    domains = {
        name: Domain.bins(cuts[name]) if name in cuts else Domain(sorted(both[name].unique()))
        for name in names
    }
    classes = sorted(both[label].unique())
    coded = []
    for part in parts:
        columns = [domain.encode(part[name]) for name, domain in domains.items()]
        coded.append((np.column_stack(columns), np.searchsorted(classes, part[label])))
    (X, y), (X_test, y_test) = coded
    return X, y, X_test, y_test, [domain.size for domain in domains.values()]


def grouped() -> tuple[Any, ...]:
    """Return the same of Adult in public groups."""
    train, test = grouped_adult("TRAIN"), grouped_adult("TEST")
    features = train.columns.drop("income")
    X, X_test = train[features].to_numpy(), test[features].to_numpy()
    sizes = [int(max(a.max(), b.max())) + 1 for a, b in zip(X.T, X_test.T, strict=True)]
    return X, train.income.to_numpy(), X_test, test.income.to_numpy(), sizes


def indicators(codes: np.ndarray, sizes: list[int]) -> Any:
    """Return a sparse column of zeros and ones for each category."""
    from scipy import sparse

    starts = np.cumsum([0, *sizes[:-1]])
    n, width = codes.shape
    rows = np.repeat(np.arange(n), width)
    return sparse.csr_array((np.ones(n * width), (rows, (codes + starts).ravel())), (n, sum(sizes)))


def judged(P: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the accuracy and the log loss of probabilities."""
    return float(np.mean(P.argmax(axis=1) == y)), log_loss(y, P, labels=range(P.shape[1]))


# -- tables -------------------------------------------------------------------------------------
def table(rows: dict[str, Callable[[float, int], Any]], n_repeats: int) -> Iterator[str]:
    """Yield a table of accuracy (standard deviation over seeds), log loss for each epsilon."""
    cells: dict[str, list[str]] = {}
    for (name, row), epsilon in itertools.product(rows.items(), EPSILONS):
        found = np.array([row(epsilon, seed) for seed in range(n_repeats)])
        shown = *found.mean(axis=0), found[:, 0].std()
        cells.setdefault(name, []).append("{0:.4f} ({2:.4f}), {1:.4f}".format(*shown))
    yield by_epsilon(cells)


def labels_table(n_repeats: int) -> Iterator[str]:
    """Yield the table of randomised labels."""
    X, y, X_test, y_test, sizes = adult(FINE_CUTS)
    Z, Z_test = indicators(X, sizes), indicators(X_test, sizes)
    clean = LogisticRegression(max_iter=1000).fit(Z, y).predict_proba(Z_test)
    forest = HistGradientBoostingClassifier(max_leaf_nodes=8, learning_rate=0.05, random_state=0)
    of_forest = forest.fit(X, y).predict_proba(X_test)
    yield "true labels: logistic {:.4f}, {:.4f}; boosting {:.4f}, {:.4f}".format(
        *judged(clean, y_test), *judged(of_forest, y_test)
    )

    def corrected(base: Any, correction: str, X: Any, X_test: Any) -> Callable[[float, int], Any]:
        def row(epsilon: float, seed: int) -> Any:
            model = LabelDPClassifier(base, epsilon, correction=correction, random_state=seed)
            return judged(model.fit(X, y).predict_proba(X_test), y_test)

        return row

    def uncorrected(epsilon: float, seed: int) -> Any:
        reports = LabelChannel(epsilon, np.array([0, 1])).privatize(y, seed)
        model = LogisticRegression(C=0.02, max_iter=1000).fit(Z, reports)
        return judged(model.predict_proba(Z_test), y_test)

    logistic = LogisticRegression(C=0.02, max_iter=1000)
    rows = {
        "reports as if they were labels, C=0.02": uncorrected,
        "likelihood, C=0.02": corrected(logistic, "likelihood", Z, Z_test),
        "auto, C=0.02": corrected(logistic, "auto", Z, Z_test),
        "probabilities, boosting": corrected(forest, "probabilities", X, X_test),
    }
    yield from table(rows, n_repeats)


def records_table(n_repeats: int) -> Iterator[str]:
    """Yield the table of private records."""
    rows: dict[str, Callable[[float, int], Any]] = {}
    sources = {"12 columns": adult(CUTS), "in public groups": grouped()}
    for name, (X, y, X_test, y_test, sizes) in sources.items():
        plain = CategoricalNB(min_categories=sizes).fit(X, y).predict_proba(X_test)
        yield "{}, true values: {:.4f}, {:.4f}".format(name, *judged(plain, y_test))
        data = (X, y, X_test, y_test, sizes)
        rows[f"{name}, plain ratios"] = _naive_bayes(data, plain_scores)
        rows[f"{name}, LDPNaiveBayes"] = _naive_bayes(data)
    yield from table(rows, n_repeats)


def _naive_bayes(data: Any, scores: Callable | None = None) -> Callable[[float, int], Any]:
    X, y, X_test, y_test, sizes = data
    domains = {f"column {j}": size for j, size in enumerate(sizes)}

    def row(epsilon: float, seed: int) -> Any:
        model = LDPNaiveBayes(epsilon, domains=domains, classes=[0, 1], random_state=seed)
        model.fit(X, y)
        if scores is None:
            return judged(model.predict_proba(X_test), y_test)
        return judged(softmax(scores(model, X_test), axis=1), y_test)

    return row


def plain_scores(model: LDPNaiveBayes, X: np.ndarray) -> np.ndarray:
    """Return naive Bayes from each table as it is, projected on the simplex (Norm-Sub)."""
    n_classes = len(model.class_prior_)
    scores = np.tile(np.log(model.class_prior_), (len(X), 1))
    tables: Any = model.tables_
    for codes, key in zip(X.T, model.feature_log_lift_, strict=True):
        part = tables[key, "class"]
        cells = norm_sub(part.values[0]).reshape(-1, n_classes)
        cells = np.maximum(cells, 0.1 * part.noise.std)
        scores += np.log(cells / cells.sum(axis=0))[codes]
    return scores


# -- how the constants were chosen --------------------------------------------------------------
def choices(folder: str, n_repeats: int) -> Iterator[str]:
    """Yield the mean log loss over tables of _learning_tables.py, by the correlation."""
    import pandas as pd

    correlations, found = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3], []
    for path, seed in itertools.product(sorted(Path(folder).glob("*.csv")), range(n_repeats)):
        frame = pd.read_csv(path)
        X, y = frame.drop(columns="class").to_numpy(), frame["class"].to_numpy()
        X -= X.min(axis=0)
        rng = np.random.default_rng(seed)
        train, test = np.array_split(rng.permutation(len(y)), [2 * len(y) // 3])
        train = rng.choice(train, 32_561)
        columns = rng.permutation(X.shape[1])[: [4, 7, 99][seed % 3]]
        domains = {f"column {j}": int(X[:, j].max()) + 1 for j in columns}
        share = y[test].mean()
        entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
        for epsilon in EPSILONS:
            model = LDPNaiveBayes(epsilon, domains=domains, classes=[0, 1], random_state=seed)
            model.fit(X[train][:, columns], y[train])
            for correlation in correlations:
                model.set_params(correlation=correlation).fit_tables(model.tables_)
                P = model.predict_proba(X[test][:, columns])
                found.append((correlation, epsilon, log_loss(y[test], P) - entropy))
    table = pd.DataFrame(found, columns=["correlation", "epsilon", "loss"])
    means = table.groupby(["correlation", "epsilon"]).loss.mean().unstack()
    yield "log loss below that of the class prior alone, mean over tables and seeds"
    yield means.round(4).to_string()


def main(argv: list[str] | None = None) -> None:
    """Print the tables."""
    parser = command(__doc__, __spec__, repeats=5)
    parser.add_argument("--only", choices=["labels", "records"])
    parser.add_argument(
        "--choose",
        metavar="FOLDER",
        help="compare values of the parameter correlation on the tables in this folder",
    )
    options = parser.parse_args(argv)
    if options.choose:
        print("\n".join(choices(options.choose, options.repeats)))
        return
    for name, lines in {"labels": labels_table, "records": records_table}.items():
        if options.only in (None, name):
            print(f"## {name}: accuracy (standard deviation of {options.repeats} seeds), loss")
            for line in lines(options.repeats):
                print(line, flush=True)


if __name__ == "__main__":
    main()
