"""The guide is short, its pages open with code, and the front page contains the README."""

import importlib
import re
from pathlib import Path

import pytest

import sklearn_ldp
import sklearn_ldp.collection
import sklearn_ldp.inference
import sklearn_ldp.learning
from sklearn_ldp import best_oracle
from sklearn_ldp.planning import Plan

ROOT = Path(__file__).parents[2]
DOC = ROOT / "doc"
README = (ROOT / "README.md").read_text(encoding="utf-8")
INDEX = (DOC / "index.md").read_text(encoding="utf-8")
INCLUDE = INDEX.partition("\n## ")[0]
NOT_THE_GUIDE = {"api.md", "changelog.md", "contributing.md", "paper.md", "releasing.md"}
GUIDE = [
    path
    for path in sorted([*DOC.glob("*.md"), *(DOC / "user_guide").glob("*.md")])
    if path.name not in NOT_THE_GUIDE
]

MOST_WORDS_OF_THE_GUIDE = 17_500
MOST_WORDS_OF_THE_README = 700
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
def test_a_page_opens_with_the_lines_that_do_it(path):
    text = path.read_text(encoding="utf-8").replace(INCLUDE, README)
    assert words_before_code(text) <= MOST_WORDS_BEFORE_CODE


def long_lines(text):
    """Lines of Python that the theme cuts off at 1,280 pixels; `.ci/check_pages.py` finds all."""
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if len(line) > 88]


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted(DOC.glob("*.md"))], ids=lambda p: p.stem
)
def test_lines_in_code_boxes_fit(path):
    assert long_lines(path.read_text(encoding="utf-8")) == []
    assert long_lines(f"```python\n{'x' * 89}\n```") == ["x" * 89]  # the negative control


@pytest.mark.parametrize("path", sorted(DOC.glob("*.md")), ids=lambda path: path.stem)
def test_the_order_of_the_pages_is_written_in_the_sidebar_only(path):
    """The theme's own buttons lead to the next page."""
    assert "**Next:**" not in path.read_text(encoding="utf-8")


def searches_epsilon(text):
    """Return whether the blocks of a page search epsilon by its name and by `least_epsilon`."""
    code = "".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
    return all(
        part in code for part in ('"oracle__epsilon": [', "least_epsilon(max_error=", '"mse"')
    )


def test_the_readme_and_the_guide_search_epsilon_in_the_same_way():
    choosing = (DOC / "user_guide" / "choosing.md").read_text(encoding="utf-8")
    assert searches_epsilon(README)
    assert searches_epsilon(choosing)
    assert not searches_epsilon(README.replace('"oracle__epsilon": [', '"oracle": ['))


# ---- README, the front page and the picture ------------------------------------------------------


def test_the_front_page_contains_the_readme_up_to_its_links():
    assert INDEX.startswith(INCLUDE)
    end = re.search(r':end-before: "(.*)"', INCLUDE)[1]
    assert README.count(f"\n{end}\n") == 1
    rows = README.partition(end)[2].partition("\n\n`")[0]
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
    pages = [*GUIDE, DOC / "releasing.md", ROOT / "CONTRIBUTING.md"]
    text = "".join(path.read_text(encoding="utf-8") for path in pages)
    notes = [path.name for path in (DOC / "notes").glob("*.md")]
    assert [name for name in notes if f"notes/{name}" not in text] == []


def test_the_life_of_one_value_is_short_and_names_files_that_exist():
    """Negative control: a name that no file has."""
    page = (DOC / "notes" / "life_of_a_value.md").read_text(encoding="utf-8")
    files = re.findall(r"`([\w/]+\.py)`", page)
    package = Path(sklearn_ldp.__file__).parent
    assert len(files) > 10
    assert [file for file in files if not (package / file).is_file()] == []
    assert not (package / "oracles" / "_wrong.py").is_file()
    assert words(page) <= 500


# ---- oracles -------------------------------------------------------------------------------------


def rows_by_name(text):
    """Cells of the rows of tables that begin with a name in code, by that name."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}


def test_the_short_table_of_oracles_is_a_part_of_the_full_one():
    full = rows_by_name(importlib.import_module("benchmarks.accuracy.oracle_table").table())
    page = (DOC / "oracles.md").read_text(encoding="utf-8").split("How large a domain")[0]
    assert rows_by_name(page) == {name: [row[i] for i in (3, 7, 8)] for name, row in full.items()}


def half_widths(n_users, epsilon):
    """A cell of the table: the half widths in percentage points for 10 and 1,000 categories."""
    oracles = {n_categories: best_oracle(epsilon, n_categories) for n_categories in (10, 1000)}
    widths = [Plan(oracle, d).half_width(n_users=n_users) for d, oracle in oracles.items()]
    return ", ".join(f"{100 * width:.2f}" for width in widths)


def test_the_table_of_half_widths_is_computed_by_plans():
    """Negative control: twice the users."""
    page = (DOC / "choosing_epsilon.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| (\d\.\d\d, .*) \|$", page, flags=re.MULTILINE)
    assert len(rows) == 3
    for users, cells in rows:
        n_users = int(users.replace(",", ""))
        assert cells.split(" | ") == [half_widths(n_users, e) for e in (0.5, 1.0, 2.0, 4.0)]
        assert half_widths(2 * n_users, 0.5) not in cells
