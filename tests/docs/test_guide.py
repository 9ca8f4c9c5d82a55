"""The guide is short, its pages open with code, and the front pages tell the same."""

import importlib
import re
from pathlib import Path

import pytest

import sklearn_ldp
import sklearn_ldp.collection
import sklearn_ldp.inference
import sklearn_ldp.learning

ROOT = Path(__file__).parents[2]
DOC = ROOT / "doc"
README = (ROOT / "README.md").read_text(encoding="utf-8")
INDEX = (DOC / "index.md").read_text(encoding="utf-8")
NOT_THE_GUIDE = {"api.md", "changelog.md", "contributing.md", "paper.md", "releasing.md"}
GUIDE = [
    path
    for path in sorted([*DOC.glob("*.md"), *(DOC / "user_guide").glob("*.md")])
    if path.name not in NOT_THE_GUIDE
]

MOST_WORDS_OF_THE_GUIDE = 17_800
MOST_WORDS_OF_THE_README = 750
MOST_WORDS_BEFORE_CODE = 100


def words(text):
    """Count words as `wc -w` does, tables too, without fenced blocks and HTML."""
    text = re.sub(r"^(`{3,}|:{3,}).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    return len(re.sub(r"<[^>]*>", "", text).split())


def words_before_code(text):
    """Words of a page before its first code or command; infinite if there is none."""
    opening = re.split(r"^```(?:python|console|sh)$", text, maxsplit=1, flags=re.MULTILINE)
    return words(opening[0]) if len(opening) == 2 else float("inf")


def test_words_are_counted_outside_of_code():
    text = "One <b>two</b>:\n\n```python\nx = 1\n```\n\n| a | b |\n\n```{image} x.svg\n```\n"
    assert words(text) == 7  # five of them in the row of the table
    assert words_before_code(text) == 2
    assert words_before_code("# Title\n\nNo code.") == float("inf")


def test_the_readme_and_the_guide_are_short():
    assert words(README) <= MOST_WORDS_OF_THE_README
    count = {str(path.relative_to(DOC)): words(path.read_text(encoding="utf-8")) for path in GUIDE}
    assert sum(count.values()) <= MOST_WORDS_OF_THE_GUIDE, count


@pytest.mark.parametrize("path", GUIDE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_page_opens_with_the_lines_that_do_it_and_ends_with_the_next_one(path):
    """But for the end of the first page, whose chart leads on."""
    text = path.read_text(encoding="utf-8")
    assert words_before_code(text) <= MOST_WORDS_BEFORE_CODE
    last = text.strip().rpartition("\n\n")[2]
    assert re.match(r"\*\*Next:\*\* \[[^]]+\]\([^)]+\)", last) or path.name == "index.md", last


# ---- README, the front page and the picture ------------------------------------------------------


def ten_lines(text):
    return re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1]


def test_readme_and_front_page_tell_the_same_and_lead_to_pages_that_exist():
    assert ten_lines(README) == ten_lines(INDEX)
    rows = re.search(r"^\| I have \|.*?\n\n", README, flags=re.DOTALL | re.MULTILINE)[0]
    pages = re.findall(r"\]\(([\w/]+\.md)\)", rows.replace("](doc/", "]("))
    assert len(pages) > 15
    assert [page for page in pages if not (DOC / page).is_file()] == []


def names_in_the_chart(page):
    """Classes and functions in code."""
    chart = re.search(r"^::::\{container\} chart$.*?^::::$", page, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"`(\w+)`", chart[0]))


def test_the_chart_names_what_exists():
    modules = [sklearn_ldp, sklearn_ldp.collection, sklearn_ldp.learning, sklearn_ldp.inference]
    public = {name for module in modules for name in module.__all__}
    names = names_in_the_chart(INDEX)
    assert {"best_oracle", "StringOracle", "LabelDPClassifier", "RangeOracle", "rake"} <= names
    assert names - public == set()
    wrong = INDEX.replace("`best_oracle`", "`wrong_name`")
    assert names_in_the_chart(wrong) - public == {"wrong_name"}


def test_every_note_is_linked_from_a_page():
    """Notes are out of the way, not out of reach; their index finds them by a glob."""
    assert ":glob:" in (DOC / "notes" / "index.md").read_text(encoding="utf-8")
    pages = [*GUIDE, DOC / "releasing.md"]
    text = "".join(path.read_text(encoding="utf-8") for path in pages)
    notes = [path.name for path in (DOC / "notes").glob("*.md")]
    assert [name for name in notes if f"notes/{name}" not in text] == []


# ---- oracles -------------------------------------------------------------------------------------


def rows_by_name(text):
    """Cells of the rows of tables that begin with a name in code, by that name."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}


def test_the_short_table_of_oracles_is_a_part_of_the_full_one():
    full = rows_by_name(importlib.import_module("benchmarks.accuracy.oracle_table").table())
    page = (DOC / "oracles.md").read_text(encoding="utf-8").split("How large a domain")[0]
    assert rows_by_name(page) == {
        name: [row[i] for i in (2, 3, 6, 7, 8)] for name, row in full.items()
    }
