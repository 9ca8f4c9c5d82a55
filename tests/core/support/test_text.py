"""Text that leaves for a terminal."""

from sklearn_ldp import EstimateSet, FrequencyEstimate
from sklearn_ldp._core.support.text import format_table
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
