"""The gallery: its index contains each example once, and its figures look like the displays."""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np

from sklearn_ldp import FrequencyEstimate
from sklearn_ldp.inspection import FrequencyDisplay

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "doc" / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("plot_*.py"))


def listed(index):
    """Return the examples of the index, in order."""
    return re.findall(r"^    examples/(plot_\w+\.py)$", index, flags=re.MULTILINE)


def title(text):
    """Return the title of an example."""
    lines = [line for line in text.split('"""')[1].splitlines() if line.strip("= ")]
    return lines[0]


def test_the_index_contains_each_example_once():
    index = (EXAMPLES / "index.rst").read_text(encoding="utf-8")
    assert sorted(listed(index)) == NAMES
    assert sorted(listed(index.replace(NAMES[0], NAMES[1]))) != NAMES  # negative control


def test_the_title_of_an_example_begins_with_the_number_of_its_file():
    titles = {name: title((EXAMPLES / name).read_text(encoding="utf-8")) for name in NAMES}
    numbers = {name: int(text.split(".")[0]) for name, text in titles.items()}
    assert numbers == {name: int(name.split("_")[1]) for name in NAMES}
    assert sorted(numbers.values()) == list(range(1, len(NAMES) + 1))


def test_the_style_has_the_colors_and_markers_of_the_displays():
    style = mpl.rc_params_from_file(ROOT / "doc" / "gallery.mplstyle", use_default_template=False)
    cycle = style["axes.prop_cycle"].by_key()
    estimate = FrequencyEstimate([np.full(3, 1 / 3)], list("abc"))
    display = FrequencyDisplay.from_estimate(estimate)
    drawn = [display, *(FrequencyDisplay.from_estimate(estimate, ax=display.ax_) for _ in range(6))]
    marks = [part.errorbar_.lines[0] for part in drawn]
    assert [mpl.colors.to_hex(mark.get_color()) for mark in marks] == [
        mpl.colors.to_hex(color) for color in cycle["color"]
    ]
    assert [mark.get_marker() for mark in marks] == cycle["marker"]
