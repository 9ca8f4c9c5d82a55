"""Bias, errors and intervals of regressions on columns that users have randomized.

The population consists of all people in Adult, training and test part together. The models predict
the hours that a person works per week from two private columns (sex and marital status, which share
epsilon) and public columns (age, the square of age, and years of education). Each repeat draws
30,000 people for training and 10,000 people for testing, with replacement, and randomizes the
private columns of all of them.

The first table compares Ridge on true values with Ridge and CorrectedRidge on the same noisy rows.
It contains the estimated effect of sex; how often its 95 % interval, and the intervals of all
coefficients, contain the coefficients of the population; the number of raised eigenvalues; R2 for
true rows and for noisy rows; and the `corrected_score` of the noisy rows. The second table contains
the error of the coefficients of logistic regressions on synthetic people. The third table contains
the log loss and the accuracy of predicted incomes on the official split of Adult, for true rows.

    python -m benchmarks.accuracy.private_columns
    python -m benchmarks.accuracy.private_columns --only logistic --repeats 3
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy import special
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss

from sklearn_ldp.learning import (
    CorrectedLogisticRegression,
    CorrectedRidge,
    PrivatizedColumns,
)

from .._command import DATA, command

EPSILONS = [1.0, 2.0, 4.0, 8.0]
N_TRAIN, N_TEST = 30_000, 10_000
PRIVATE = ["sex", "marital_status"]


def people() -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the private columns, the public features, and the hours."""
    parts = [pd.read_csv(DATA / f"ADULT_{part}.csv.gz") for part in ("TRAIN", "TEST")]
    raw = pd.concat(parts, ignore_index=True)
    private = raw[PRIVATE].astype("category")
    decades = raw.age.to_numpy(dtype=float) / 10 - 4
    public = np.column_stack([decades, decades**2, raw.education_num.to_numpy(dtype=float) - 10])
    return private, public, raw.hours_per_week.to_numpy(dtype=float)


def population_coefficients() -> np.ndarray:
    """Return the coefficients of Ridge on all people's true values, at a vanishing penalty."""
    private, public, hours = people()
    true = PrivatizedColumns().fit(private).true_indicators(private)
    return Ridge(1e-6).fit(np.hstack([true, public]), hours).coef_


def linear(n_repeats: int) -> pd.DataFrame:
    """Return the table of linear regressions: means, and the standard deviation of the effect."""
    truth, found, (private, public, hours) = population_coefficients(), [], people()
    train, test = slice(0, N_TRAIN), slice(N_TRAIN, None)
    for epsilon, seed in itertools.product(EPSILONS, range(n_repeats)):
        rng = np.random.default_rng(seed)
        transformer = PrivatizedColumns(epsilon, random_state=rng)
        drawn = rng.integers(0, len(hours), N_TRAIN + N_TEST)
        noisy = np.hstack([transformer.fit_transform(private.iloc[drawn]), public[drawn]])
        true = np.hstack([transformer.true_indicators(private.iloc[drawn]), public[drawn]])
        y = hours[drawn]
        for name, rows, blocks in (
            ("true values", true, []),
            ("Ridge", noisy, []),
            ("CorrectedRidge", noisy, list(transformer.slices_.values())),
        ):
            model = CorrectedRidge(private=blocks).fit(rows[train], y[train])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # raised eigenvalues are counted
                low, high = model.confidence_interval(0.95)
            row = {
                "epsilon": epsilon,
                "model": name,
                "effect of sex": model.unshrunk_coef_[1] - model.unshrunk_coef_[0],
                "covered": float(low[1] < truth[1] < high[1]),
                "all covered": np.mean((low < truth) & (truth < high)),
                "raised": model.n_raised_,
                "R2, true rows": model.score(true[test], y[test]),
                "noisy rows": model.score(noisy[test], y[test]),
                "corrected_score": model.corrected_score(noisy[test], y[test]),
            }
            found.append(row)
    of_cell = pd.DataFrame(found).groupby(["epsilon", "model"], sort=False)
    table = of_cell.mean()
    table.insert(1, "+-", of_cell["effect of sex"].std(ddof=0))
    print(f"Hours; the effect of sex is {truth[1] - truth[0]:.2f}; {n_repeats} repeats")
    return table.round(3)


def adult_incomes(part: str, private: list[str]) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the private columns, the public features, and whether the income is high."""
    raw = pd.read_csv(DATA / f"ADULT_{part}.csv.gz", keep_default_na=False)
    decades = raw.age.to_numpy(dtype=float) / 10 - 4
    public = [
        decades,
        decades**2,
        raw.education_num - 10,
        np.log1p(raw.capital_gain) / 5,
        np.log1p(raw.capital_loss) / 5,
        raw.hours_per_week / 10 - 4,
        pd.get_dummies(raw[["occupation", "workclass"]]),
    ]
    y = (raw.income.str.strip(" .") == ">50K").to_numpy(dtype=bool)
    return raw[private], np.column_stack(public).astype(float), y


def logistic(n_repeats: int) -> pd.DataFrame:
    """Return the log loss and the accuracy of logistic regressions."""
    found = []
    for private in (["sex", "race"], ["marital_status"], ["sex", "marital_status"]):
        X, public, y = adult_incomes("TRAIN", private)
        X_test, public_test, y_test = adult_incomes("TEST", private)
        domains = {name: sorted(set(X[name])) for name in private}
        for epsilon, seed in itertools.product((1.0, 2.0, 4.0), range(n_repeats)):
            rng = np.random.default_rng(seed)
            transformer = PrivatizedColumns(epsilon, domains=domains, random_state=rng)
            noisy = np.hstack([transformer.fit_transform(X), public])
            true = np.hstack([transformer.true_indicators(X), public])
            test = np.hstack([transformer.true_indicators(X_test), public_test])
            corrected = CorrectedLogisticRegression(private=list(transformer.slices_.values()))
            plain = LogisticRegression(max_iter=3000)
            for name, model, rows, test_rows in (
                ("true values", plain, true, test),
                ("public columns alone", plain, public, public_test),
                ("LogisticRegression", plain, noisy, test),
                ("corrected", corrected, noisy, test),
            ):
                chances = model.fit(rows, y).predict_proba(test_rows)[:, 1]
                scores = log_loss(y_test, chances), np.mean((chances > 0.5) == y_test)
                found.append((", ".join(private), name, epsilon, *scores))
    print(f"Incomes at true rows of Adult's test part, {n_repeats} repeats")
    table = pd.DataFrame(found, columns=["private", "model", "epsilon", "log loss", "accuracy"])
    return table.groupby(["private", "model", "epsilon"], sort=False).mean().unstack().round(4)


def consistency(n_repeats: int) -> pd.DataFrame:
    """Return the table of synthetic people, with columns of 2 and 3 categories."""
    truth, domains = np.array([-0.5, 0.5, -1.0, 0.0, 1.0, 0.5]), {"a": 2, "b": 3}
    found = []
    for n, seed in itertools.product((10_000, 40_000, 160_000), range(n_repeats)):
        rng = np.random.default_rng(seed)
        codes = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, n)])
        transformer = PrivatizedColumns(3.0, domains=domains, random_state=rng)
        public = (rng.normal(size=n) + 0.5 * codes[:, 1])[:, None]
        score = np.hstack([transformer.true_indicators(codes), public]) @ truth
        y = rng.random(n) < special.expit(score)
        noisy = np.hstack([transformer.fit_transform(codes), public])
        model = CorrectedLogisticRegression(private=transformer.slices_).fit(noisy, y)
        row = {"users": n}
        ways = {"LogisticRegression": LogisticRegression().fit(noisy, y), "corrected": model}
        for name, fitted in ways.items():
            coef = fitted.coef_[0]
            for block in transformer.slices_.values():
                coef[block] -= coef[block].mean()  # what all share is the intercept's as well
            row[name] = np.mean((coef - truth) ** 2)
        found.append(row)
    print("Root mean squared error of the coefficients, synthetic, epsilon 3")
    return np.sqrt(pd.DataFrame(found).groupby("users").mean()).round(3)


def main(argv: list[str] | None = None) -> None:
    """Print the tables."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--only", choices=["linear", "logistic"])
    args = parser.parse_args(argv)
    if not DATA.exists():
        raise SystemExit(f"private_columns: there are no real data in {DATA}")
    if args.only != "logistic":
        print(linear(args.repeats or 40).to_string(), end="\n\n")
    if args.only != "linear":
        for table in (consistency, logistic):
            print(table(args.repeats or 3).to_string(), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
