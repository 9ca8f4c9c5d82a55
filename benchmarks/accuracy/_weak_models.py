"""Models of weak private data beside the cheap answers: public columns alone, the class prior.

Adult, the digits of scikit-learn, and the tables which _record_tables.py writes to the folder
$SKLEARN_LDP_TABLES. The caution of LDPNaiveBayes and its correlation were chosen on them and on the
tables of _learning_tables.py; nothing of the corrected models was.

    python -m benchmarks.accuracy._weak_models
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import log_softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score

from sklearn_ldp.learning import (
    CorrectedLogisticRegression,
    CorrectedRidge,
    LDPNaiveBayes,
    PrivatizedColumns,
)

from .._command import DATA
from .learning import plain_scores
from .private_columns import adult_incomes

EPSILONS = [0.5, 1.0, 2.0, 4.0]
TABLES = os.environ.get("SKLEARN_LDP_TABLES")


def tables() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield a name, the codes of the features, and the labels."""
    digits = load_digits()
    pixels = (digits.data // 6).astype(int)
    yield "digits", pixels[:, pixels.max(axis=0) > 1][:, ::3], digits.target
    if DATA.exists():
        raw = pd.read_csv(DATA / "ADULT_TRAIN.csv.gz", keep_default_na=False)
        coded = raw.drop(columns=["fnlwgt", "education"])
        for name in ("age", "hours_per_week", "capital_gain", "capital_loss"):
            coded[name] = np.searchsorted(np.unique(raw[name].quantile([0.2, 0.5, 0.8])), raw[name])
        coded = coded.apply(lambda column: pd.Categorical(column).codes.astype(int))
        for target in ("income", "occupation", "relationship"):
            features = coded.drop(columns=[target])
            yield f"Adult, {target}", features.to_numpy(), coded[target].to_numpy()
    for path in sorted(Path(TABLES).glob("*.csv")) if TABLES else []:
        frame = pd.read_csv(path)
        yield path.stem, frame.drop(columns="class").to_numpy(), frame["class"].to_numpy()


def one_naive_bayes(
    X: np.ndarray, y: np.ndarray, epsilon: float, seed: int
) -> tuple[float, float, float]:
    """Return log loss above the prior's, and accuracy above the prior's and plain ratios'."""
    rng = np.random.default_rng(seed)
    train, test = np.array_split(rng.permutation(len(y)), [2 * len(y) // 3])
    train, test = rng.choice(train, 8000), test[:5000]
    classes = range(int(y.max()) + 1)
    sizes = {f"column {j}": int(column.max()) + 1 for j, column in enumerate(X.T)}
    model = LDPNaiveBayes(epsilon, domains=sizes, classes=classes, random_state=seed)
    model.fit(X[train], y[train])
    prior = np.tile(np.log(model.class_prior_), (len(test), 1))
    losses, rights = [], []
    for scores in (model.predict_joint_log_proba(X[test]), prior, plain_scores(model, X[test])):
        losses.append(-np.mean(log_softmax(scores, axis=1)[np.arange(len(test)), y[test]]))
        rights.append(np.mean(scores.argmax(axis=1) == y[test]))
    return losses[0] - losses[1], rights[0] - rights[1], rights[0] - rights[2]


Population = tuple[str, np.ndarray, np.ndarray, np.ndarray]


def populations() -> Iterator[Population]:
    """Yield a name, codes of private columns, public features, and a target (numbers or bool)."""
    if DATA.exists():
        raw = pd.read_csv(DATA / "ADULT_TRAIN.csv.gz", keep_default_na=False)
        hours = raw.hours_per_week.to_numpy(dtype=float)
        for private in (["occupation"], ["relationship"], ["native_country"], ["sex", "race"]):
            columns, public, rich = adult_incomes("TRAIN", private)
            public = public[:, [0, 1, 2, 3, 4, 5]]  # without indicators of the occupation
            codes = columns.apply(lambda column: pd.Categorical(column).codes.astype(int))
            what = ", ".join(private)
            yield f"Adult, income from {what}", codes.to_numpy(), public, rich
            yield f"Adult, hours from {what}", codes.to_numpy(), public[:, :5], hours
    for path in sorted(Path(TABLES).glob("*.csv")) if TABLES else []:
        frame = pd.read_csv(path)
        y, X = frame["class"], frame.drop(columns="class").to_numpy()
        public = X / np.maximum(X.max(axis=0), 1)
        wide = np.argsort(-X.max(axis=0), kind="stable")
        for private in ([wide[0]], [wide[len(wide) // 2]]):
            what = ", ".join(f"{X[:, j].max() + 1} categories" for j in private)
            rest = np.delete(public, private, axis=1)
            yield f"{path.stem}, {what}", X[:, private], rest, (y == y.mode()[0]).to_numpy()


def one_corrected(
    codes: np.ndarray,
    public: np.ndarray,
    y: np.ndarray,
    epsilon: float,
    n: int,
    seed: int,
    logistic: bool,
) -> float:
    """Return what the corrected model gains at rows whose true values are seen."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))
    test, train = rows[: min(6000, len(y) // 3)], rows[min(6000, len(y) // 3) :]
    train = rng.choice(train, n)
    sizes = {f"column {j}": int(column.max()) + 1 for j, column in enumerate(codes.T)}
    transformer = PrivatizedColumns(epsilon, domains=sizes, random_state=rng)
    noisy = np.hstack([transformer.fit_transform(codes[train]), public[train]])
    true = np.hstack([transformer.true_indicators(codes[test]), public[test]])
    if logistic:
        model = CorrectedLogisticRegression(private=transformer.slices_).fit(noisy, y[train])
        plain = LogisticRegression(max_iter=3000).fit(public[train], y[train])
        loss = log_loss(y[test], model.predict_proba(true)[:, 1])
        return log_loss(y[test], plain.predict_proba(public[test])[:, 1]) - loss
    numbers = y.astype(float)
    ridge = CorrectedRidge(private=transformer.slices_).fit(noisy, numbers[train])
    plain = Ridge().fit(public[train], numbers[train])
    score = r2_score(numbers[test], plain.predict(public[test]))
    return r2_score(numbers[test], ridge.predict(true)) - score


def show(title: str, names: list[str], found: list[tuple[Any, ...]]) -> None:
    """Print the means over seeds of each table and epsilon."""
    table = pd.DataFrame(found, columns=["table", "epsilon", *names])
    means = table.groupby(["table", "epsilon"], sort=False).mean()
    print(title, means.unstack().round(4).to_string(), sep="\n")
    print(f"{names[0]}: {means[names[0]].min():+.4f} to {means[names[0]].max():+.4f}\n", flush=True)


def main(quick: bool) -> None:
    """Print the tables."""
    seeds, found = range(1 if quick else 5), []
    for name, X, y in tables():
        for epsilon, seed in product(EPSILONS, seeds):
            found.append((name, epsilon, *one_naive_bayes(X, y, epsilon, seed)))
    names = ["log loss above the prior's", "accuracy above the prior's", "above plain ratios'"]
    show("LDPNaiveBayes, n 8,000", names, found)
    for n, is_logistic in ((3000, False), (25_000, False), (3000, True)):
        of_model = []
        for name, *population in populations():
            if is_logistic and population[-1].dtype != bool:
                continue
            for epsilon, seed in product(EPSILONS[:3], seeds):
                gain = one_corrected(*population, epsilon, n, seed, is_logistic)
                of_model.append((name, epsilon, gain))
        what = "CorrectedLogisticRegression: log loss" if is_logistic else "CorrectedRidge: R2"
        show(f"{what} over the public columns alone, n {n:,}", ["gained"], of_model)


if __name__ == "__main__":
    main("--quick" in sys.argv)
