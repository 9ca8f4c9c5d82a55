"""Regression on columns that users have randomised: bias, errors and intervals, measured.

The population are the people of Adult, train and test part together. What is predicted are the
hours that they work per week, from two private columns (sex and marital status, which share
epsilon) and public ones (age and its square, years of education). Each repeat draws 30,000 people
for training and 10,000 for testing, with replacement, and randomises both.

The first table has, for Ridge on true values, and for Ridge and CorrectedRidge on the same noisy
rows, the effect of sex, how often its 95 % interval and those of all coefficients contain the
population's, and how many eigenvalues were raised. The second one has R2 at true rows and at noisy
ones, and what `corrected_score` makes of the noisy ones.

The third one has the error of the coefficients of logistic regressions on synthetic people, and the
fourth one the log loss and the accuracy of incomes on Adult's own split, at true rows.

    python -m benchmarks.accuracy.private_columns
    python -m benchmarks.accuracy.private_columns --only logistic --repeats 3
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
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
    import pandas as pd

    parts = [pd.read_csv(DATA / f"ADULT_{part}.csv.gz") for part in ("TRAIN", "TEST")]
    raw = pd.concat(parts, ignore_index=True)
    private = raw[PRIVATE].astype("category")
    decades = raw.age.to_numpy(dtype=float) / 10 - 4
    public = np.column_stack([decades, decades**2, raw.education_num.to_numpy(dtype=float) - 10])
    return private, public, raw.hours_per_week.to_numpy(dtype=float)


def repeats(n_repeats: int, epsilon: float) -> Iterator[dict[str, Any]]:
    """Yield training and test rows, true and noisy."""
    private, public, hours = people()
    for seed in range(n_repeats):
        rng = np.random.default_rng(seed)
        transformer = PrivatizedColumns(epsilon, random_state=rng)
        rows = rng.integers(0, len(hours), N_TRAIN + N_TEST)
        noisy = transformer.fit_transform(private.iloc[rows])
        true = transformer.true_indicators(private.iloc[rows])
        yield {
            "blocks": list(transformer.slices_.values()),
            "noisy": np.hstack([noisy, public[rows]]),
            "true": np.hstack([true, public[rows]]),
            "y": hours[rows],
        }


def population_coefficients() -> np.ndarray:
    """Return the coefficients of Ridge on all people's true values, at a vanishing penalty."""
    private, public, hours = people()
    true = PrivatizedColumns().fit(private).true_indicators(private)
    return Ridge(1e-6).fit(np.hstack([true, public]), hours).coef_


def tables(n_repeats: int) -> Iterator[str]:
    """Yield the lines of the tables of linear regressions."""
    truth = population_coefficients()
    effect = truth[1] - truth[0]
    first = [
        f"Effect of sex on hours (true: {effect:.2f}), {n_repeats} repeats",
        "| epsilon | model | effect of sex | covered | all covered | raised |",
        "|---|---|---|---|---|---|",
    ]
    second = [
        "R2 of hours at test rows",
        "| epsilon | model | true rows | noisy rows | corrected_score of noisy rows |",
        "|---|---|---|---|---|",
    ]
    for epsilon in EPSILONS:
        found: dict[str, list[list[float]]] = {}
        for one in repeats(n_repeats, epsilon):
            train, test = slice(0, N_TRAIN), slice(N_TRAIN, None)
            for name, fitted_on, private in (
                ("true values", "true", []),
                ("Ridge", "noisy", []),
                ("CorrectedRidge", "noisy", one["blocks"]),
            ):
                model = CorrectedRidge(private=private).fit(one[fitted_on][train], one["y"][train])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # raised eigenvalues are counted
                    low, high = model.confidence_interval(0.95)
                y = one["y"][test]
                found.setdefault(name, []).append(
                    [
                        model.unshrunk_coef_[1] - model.unshrunk_coef_[0],
                        float(low[1] < truth[1] < high[1]),
                        float(np.mean((low < truth) & (truth < high))),
                        model.n_raised_,
                        model.score(one["true"][test], y),
                        model.score(one["noisy"][test], y),
                        model.corrected_score(one["noisy"][test], y),
                    ]
                )
        for name, values in found.items():
            mean, sd = np.mean(values, axis=0), np.std([row[0] for row in values])
            first.append(
                f"| {epsilon:g} | {name} | {mean[0]:.2f} ± {sd:.2f} | {mean[1]:.1%} | "
                f"{mean[2]:.1%} | {mean[3]:.1f} |"
            )
            corrected = f"{mean[6]:.3f}" if name == "CorrectedRidge" else ""
            noisy = "" if name == "true values" else f"{mean[5]:.3f}"
            second.append(f"| {epsilon:g} | {name} | {mean[4]:.3f} | {noisy} | {corrected} |")
    yield from [*first, "", *second]


def adult_incomes(part: str, private: list[str]) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the private columns, the public features, and whether the income is high."""
    import pandas as pd

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


def logistic_table(n_repeats: int) -> Iterator[str]:
    """Yield the lines of the table of logistic regressions."""
    yield f"Log loss (accuracy) of incomes at true rows of Adult's test part, {n_repeats} repeats"
    yield "| private | model | epsilon 1 | epsilon 2 | epsilon 4 |"
    yield "|---|---|---|---|---|"
    for private in (["sex", "race"], ["marital_status"], ["sex", "marital_status"]):
        X, public, y = adult_incomes("TRAIN", private)
        X_test, public_test, y_test = adult_incomes("TEST", private)
        domains = {name: sorted(set(X[name])) for name in private}
        cells: dict[str, list[str]] = {}
        for epsilon in (1.0, 2.0, 4.0):
            found: dict[str, list[tuple[float, float]]] = {}
            for seed in range(n_repeats):
                rng = np.random.default_rng(seed)
                transformer = PrivatizedColumns(epsilon, domains=domains, random_state=rng)
                noisy = np.hstack([transformer.fit_transform(X), public])
                true = np.hstack([transformer.true_indicators(X), public])
                test = np.hstack([transformer.true_indicators(X_test), public_test])
                blocks = list(transformer.slices_.values())
                models = {
                    "true values": (LogisticRegression(max_iter=3000), true, test),
                    "public columns alone": (
                        LogisticRegression(max_iter=3000),
                        public,
                        public_test,
                    ),
                    "LogisticRegression": (LogisticRegression(max_iter=3000), noisy, test),
                    "corrected": (CorrectedLogisticRegression(private=blocks), noisy, test),
                }
                for name, (model, rows, test_rows) in models.items():
                    chances = model.fit(rows, y).predict_proba(test_rows)[:, 1]
                    right = np.mean((chances > 0.5) == y_test)
                    found.setdefault(name, []).append((log_loss(y_test, chances), right))
            for name, scores in found.items():
                loss, right = np.mean(scores, axis=0)
                cells.setdefault(name, []).append(f"{loss:.4f} ({right:.4f})")
        for name, row in cells.items():
            yield f"| {', '.join(private)} | {name} | " + " | ".join(row) + " |"


def consistency_table(n_repeats: int) -> Iterator[str]:
    """Yield the lines of the table of synthetic people, with columns of 2 and 3 categories."""
    truth = np.array([-0.5, 0.5, -1.0, 0.0, 1.0, 0.5])
    yield "Root mean squared error of the coefficients, synthetic, epsilon 3"
    yield "| users | LogisticRegression | corrected |"
    yield "|---|---|---|"
    for n in (10_000, 40_000, 160_000):
        errors = []
        for seed in range(n_repeats):
            rng = np.random.default_rng(seed)
            codes = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, n)])
            domains = {"a": 2, "b": 3}
            transformer = PrivatizedColumns(3.0, domains=domains, random_state=rng)
            public = (rng.normal(size=n) + 0.5 * codes[:, 1])[:, None]
            score = np.hstack([transformer.true_indicators(codes), public]) @ truth
            y = rng.random(n) < special.expit(score)
            noisy = np.hstack([transformer.fit_transform(codes), public])
            plain = LogisticRegression().fit(noisy, y).coef_[0]
            model = CorrectedLogisticRegression(private=transformer.slices_).fit(noisy, y)
            corrected = model.coef_[0]
            for coef in (plain, corrected):  # what all categories share is the intercept's as well
                for block in transformer.slices_.values():
                    coef[block] -= coef[block].mean()
            errors.append([np.mean((coef - truth) ** 2) for coef in (plain, corrected)])
        plain, corrected = np.sqrt(np.mean(errors, axis=0))
        yield f"| {n:,} | {plain:.3f} | {corrected:.3f} |"


def main(argv: list[str] | None = None) -> None:
    """Print the tables."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--only", choices=["linear", "logistic"])
    args = parser.parse_args(argv)
    if not DATA.exists():
        raise SystemExit(f"private_columns: there are no real data in {DATA}")
    if args.only != "logistic":
        for line in tables(args.repeats or 40):
            print(line, flush=True)
        print()
    if args.only != "linear":
        for line in [*consistency_table(args.repeats or 3), "", *logistic_table(args.repeats or 3)]:
            print(line, flush=True)


if __name__ == "__main__":
    main()
