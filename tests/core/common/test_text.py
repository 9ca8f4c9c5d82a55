"""Text that leaves for a terminal."""

from dataclasses import replace

import numpy as np
import pytest

from sklearn_ldp import OUE, EstimateSet, FrequencyEstimate, LocalMean, MarginalOracle
from sklearn_ldp._core.common.text import format_table, order_by_number
from sklearn_ldp.queries import groups


def test_no_name_of_a_category_reaches_the_terminal():
    """Neither colours nor the direction of text; what emojis are joined by stays."""
    hostile = ["\x1b[31mred", "\u202ebackwards", "\x9b31m", "two\nlines"]
    estimate = FrequencyEstimate(
        [[0.1, 0.2, 0.3, 0.3, 0.1]], [*hostile, "\U0001f469\u200d\U0001f4bb"]
    )
    shown = [
        repr(estimate),
        str(estimate),
        repr(EstimateSet({hostile[0]: estimate, "x": estimate})),
    ]
    shown += [format_table(["category"], [[name] for name in hostile]), repr(estimate.top(5))]
    shown.append(repr(estimate.answer(groups([*hostile, "a"]))))
    for text in shown:
        assert text.replace("\n", "").replace("\u200d", "").isprintable()
    assert r"\x1b[31mred" in shown[0]
    assert "\u200d" in shown[0]


def test_one_user_is_no_plural():
    oracle = OUE(1.0, categories=["a", "b"], random_state=0)
    mean = LocalMean(1.0, bounds=(0, 1), random_state=0)
    tables = MarginalOracle(1.0, domains={"a": 2, "b": 2}, order=[("a", "b")], random_state=0)
    for n in (1, 2):
        estimate = oracle.fit_transform(["a"] * n)
        change = estimate - replace(estimate)
        texts = repr(estimate), repr(mean.fit([0.5] * n).estimate_), repr(change)
        for text in texts:
            assert ("1 user" if n == 1 else "2 users") in text
            assert "1 users" not in text
    assert repr(tables.fit_transform(np.zeros((9, 2), int))).startswith("TableSet of 1 table with")


def test_a_representation_has_twenty_lines():
    estimate = FrequencyEstimate([np.full(21, 1 / 21)], list(range(21)))
    assert len(repr(estimate.answer(groups([*range(20), 19]))).splitlines()) == 20
    lines = repr(estimate.answer(groups([*range(21)]))).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "..."


@pytest.mark.parametrize(
    ("names", "by_number"),
    [
        (["1", "10", "2"], ["1", "2", "10"]),
        (["week 1", "week 10", "week 2"], ["week 1", "week 2", "week 10"]),
        (["2025-W10", "2025-W2", "2026-W1"], ["2025-W2", "2025-W10", "2026-W1"]),
        (["02.02.2026", "05.01.2026"], ["05.01.2026", "02.02.2026"]),
        (["01/05/2026", "12/29/2025"], ["12/29/2025", "01/05/2026"]),
        (["April", "March", "May"], ["March", "April", "May"]),
        (["Apr 2026", "Dec 2025"], ["Dec 2025", "Apr 2026"]),
        # No doubt: sorted in both orders, an order that somebody chose, no numbers, or no texts.
        (["week 01", "week 02", "week 10"], None),
        (["2026-05-04", "2026-05-11"], None),
        (["week 52", "week 1"], None),
        (["east", "north", "west"], None),
        ([1, 10, 2], None),
        ([], None),
    ],
)
def test_names_that_are_sorted_as_text_although_they_have_numbers(names, by_number):
    assert order_by_number(names) == by_number
