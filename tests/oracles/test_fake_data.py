"""Random sampling plus fake data, which the package leaves out: the epsilon that it really keeps.

The published methods report on one of J columns with the budget ln(J (e^epsilon - 1) + 1), and make
up the reports on all others, so that nobody sees which answer is true. Here the laws of their
reports are enumerated, for the table of the notes on surveys.
"""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "doc" / "notes" / "surveys.md"

# Mechanism, the categories of the columns, and what is made up: values with these frequencies (None
# for uniform ones), or reports of bits that are all 0 before they are randomised.
TABLE = [
    ("GRR", (3, 3, 3), None),
    ("GRR", (2, 3, 10), None),
    ("GRR", (2, 2, 2, 2), None),
    ("GRR, a prior of 0.9", (2, 3, 10), 0.9),
    ("OUE, zeros", (2, 3, 3), "zeros"),
    ("OUE, fake values", (2, 3, 3), None),
]


def bits_law(epsilon, bits):
    """Optimised unary encoding of given bits: the probability of each string of as many bits."""
    ones = np.where(bits, 0.5, 1 / (math.exp(epsilon) + 1))
    strings = product([0, 1], repeat=len(bits))
    return np.array([np.prod(np.where(string, ones, 1 - ones)) for string in strings])


def laws_of_a_column(name, epsilon, d, fakes):
    """The law of the true report for each value, and that of the made-up report."""
    prior = np.full(d, 1 / d)
    if isinstance(fakes, float):
        prior = np.array([fakes] + [(1 - fakes) / (d - 1)] * (d - 1))
    if name.startswith("GRR"):
        e = math.exp(epsilon)  # a fake value is the report itself
        return np.where(np.eye(d), e, 1.0) / (e + d - 1), prior
    true = np.array([bits_law(epsilon, bits) for bits in np.eye(d, dtype=bool)])
    return true, bits_law(epsilon, np.zeros(d, bool)) if fakes == "zeros" else prior @ true


def laws_of_records(columns, sizes):
    """The law of all reports of each record: the mean over the column whose report is true."""
    records = list(product(*map(range, sizes)))
    laws = []
    for record in records:
        law = 0.0
        for true_column in range(len(sizes)):
            joint = np.ones(1)
            for j, (true, fake) in enumerate(columns):
                joint = np.outer(joint, true[record[j]] if j == true_column else fake).ravel()
            law = law + joint / len(sizes)
        laws.append(law)
    return records, np.array(laws)


def largest_ratios(name, epsilon, sizes, fakes):
    """The largest log likelihood ratios of two records, and of two that differ in one column."""
    columns = [laws_of_a_column(name, epsilon, d, fakes) for d in sizes]
    records, laws = laws_of_records(columns, sizes)
    np.testing.assert_allclose(laws.sum(axis=1), 1)
    whole = (laws.max(axis=0) / laws.min(axis=0)).max()
    one = max(
        (laws[i] / laws[k]).max()
        for i, x in enumerate(records)
        for k, y in enumerate(records)
        if sum(a != b for a, b in zip(x, y, strict=True)) == 1
    )
    return math.log(whole), math.log(one)


@pytest.mark.parametrize(("name", "sizes", "fakes"), TABLE, ids=str)
def test_the_whole_record_has_the_budget_of_the_true_answer(name, sizes, fakes):
    """Stated 1, that is ln(J (e - 1) + 1), and a single column sometimes has more than 1.

    So at an epsilon of its own, hiding the column gains nothing.
    """
    budget = math.log(len(sizes) * (math.exp(1) - 1) + 1)  # of the true answer, as published
    whole, one = largest_ratios(name, budget, sizes, fakes)
    assert whole == pytest.approx(budget, abs=1e-9)
    row = [name, ", ".join(map(str, sizes)), "1", f"{whole:.3f}", f"{one:.3f}"]
    assert "| " + " | ".join(row) + " |" in PAGE.read_text("utf-8")
    whole, one = largest_ratios(name, 1.0, sizes, fakes)
    assert whole == pytest.approx(1, abs=1e-9)
    assert one < 1
