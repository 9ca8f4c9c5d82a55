"""Pages of the user guide: code that fits into its box, and one order of the pages."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "doc" / "user_guide"
PAGES = [path for path in sorted(FOLDER.glob("*.md")) if path.name != "index.md"]
MAX_WIDTH = 88  # characters of a code line that the theme shows in a window of 1,280 pixels


def long_code_lines(text):
    """Lines of fenced blocks that readers have to scroll."""
    blocks = re.findall(r"^```\S.*?\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if len(line) > MAX_WIDTH]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_code_lines_fit_into_their_box(path):
    text = path.read_text(encoding="utf-8")
    assert "```" in text
    assert long_code_lines(text) == []


@pytest.mark.parametrize("language", ["python", "js", "{code-block} python"])
def test_a_long_code_line_is_found(language):
    line = "x" * (MAX_WIDTH + 1)
    assert long_code_lines(f"{line}\n```{language}\n{line}\nx = 1\n```\n{line}\n") == [line]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_only_the_sidebar_orders_the_pages(path):
    """A second, written order would contradict the buttons of the theme."""
    assert "**Next:**" not in path.read_text(encoding="utf-8")
