"""A survey of ten questions with real data, from the plan to the results.

The users are the 32,561 people in the census income data "Adult" (../shared/data). Each person
answers once. The guide's page "A survey from the plan to the answers" shows the printed results.

    python -m benchmarks.accuracy.ten_questions
"""

from __future__ import annotations

import time

import numpy as np

from sklearn_ldp import ColumnOracle, Consistent, EmpiricalBayes, LatentClasses, MarginalOracle
from sklearn_ldp.planning import Plan

from .._command import DATA
from .._tables import markdown
from .table_models import adult, domains_of, true_tables

QUESTIONS = ["age", "education_num", "marital_status", "occupation", "relationship", "race", "sex"]
QUESTIONS += ["capital_gain", "hours_per_week", "income"]
EPSILON = 2.0


def main() -> None:
    """Print the survey's plan, its estimates and answers, and how far they are from the truth."""
    if not DATA.exists():
        raise SystemExit(f"ten_questions: there are no real data in {DATA}")
    people = adult()[QUESTIONS]
    domains, n = domains_of(people), len(people)
    truth = true_tables(people, domains)
    print(f"{n:,} people, {len(domains)} questions, one report each at epsilon {EPSILON:g}")

    survey = ColumnOracle(EPSILON, domains=domains, random_state=0)
    planned = Plan(survey).rmse(n)
    estimates = survey.fit_transform(people)
    better = EmpiricalBayes().fit_transform(estimates)
    rows = []
    for name, part in estimates.items():
        true = np.bincount(people[name], minlength=domains[name]) / n
        errors = [np.sqrt(np.mean((e.values[0] - true) ** 2)) for e in (part, better[name])]
        numbers = (f"{x:.4f}" for x in (planned[name], *errors))
        rows.append([name, f"{domains[name]}", f"{part.noise.n_samples:,}", *numbers])
    header = ["question", "categories", "asked", "expected error", "error", "after EmpiricalBayes"]
    print("\n" + markdown(header, rows))

    oracle = MarginalOracle(EPSILON, domains=domains, random_state=0)
    start = time.process_time()
    raw = oracle.fit_transform(people)
    collected = time.process_time()
    tables = LatentClasses().fit_transform(raw)
    modelled = time.process_time()
    linear = Consistent(non_negative=False).fit_transform(raw)

    def variation(of):
        return np.mean([np.abs(of[pair] - cells).sum() / 2 for pair, cells in truth.items()])

    product = {(a, b): np.outer(better[a].values[0], better[b].values[0]).ravel() for a, b in truth}
    print(f"\n{len(truth)} tables of two questions; users are asked by {oracle.method_!r}")
    print(f"total variation: {variation(product):.3f} if questions were independent,")
    print(f"{variation({pair: linear.row(pair) for pair in truth}):.3f} the best linear tables, ")
    print(f"{variation({pair: tables.row(pair) for pair in truth}):.3f} the joint model")
    print(f"{collected - start:.1f} s to collect, {modelled - collected:.1f} s for the model")

    for question in (
        {"sex": 1, "income": 1},
        {"education_num": [12, 13, 14, 15], "income": 1},
        {"sex": 0, "education_num": [12, 13, 14, 15], "income": 1},
    ):
        held = np.ones(n, dtype=bool)
        for name, wanted in question.items():
            held &= np.isin(people[name], wanted)
        said = (
            f"{question}: {tables.answer(question).item():.3f} by the model, true {held.mean():.3f}"
        )
        if len(question) == 2:
            low, high = linear.confidence_interval(0.95, question)
            said += f", 95 % interval {low.item():.3f} to {high.item():.3f}"
        print(said)
    for pair in (("sex", "income"), ("race", "hours_per_week")):
        print(f"{pair} independent: p = {linear.independence(*pair).p_value[0]:.2g}")
    rows = tables.sample(10_000, random_state=0)
    print(
        f"{len(rows):,} synthetic rows: {rows.sex.mean():.3f} are men, true {people.sex.mean():.3f}"
    )


if __name__ == "__main__":
    main()
