"""The check of the built pages, which `make doc` runs, finds each of its faults."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_pages", ROOT / ".ci" / "check_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SIGNATURE = '<dt class="sig sig-object py" id="GRR"><em>class</em> <span>GRR</span>({})</dt>'
BOX = '<div class="highlight-python notranslate"><pre><span></span>{}</pre></div>'
LONG_LINE = "x = [" + "1, " * 30 + "]"


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (SIGNATURE.format("<em>*</em>args, <em>**</em>kwargs"), "class without its parameters"),
        (BOX.format('<span class="w">\n</span>'), "empty code box"),
        ("<pre>&lt;package.Display object at 0x7f40a5&gt;</pre>", "address of an object"),
        ("<p>better by 15 %%</p>", "doubled percent sign"),
        (BOX.format(LONG_LINE), "code line of 96 characters"),
    ],
    ids=["signature", "empty box", "address", "percent", "long line"],
)
def test_a_fault_is_found(check, page, fault):
    assert [name for name, _ in check.faults(page)] == [fault]


def test_a_page_without_faults_passes(check, tmp_path, capsys):
    page = SIGNATURE.format("epsilon=1.0, *, domain=None") + BOX.format("x = 1 % 2") + "\n15 %"
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    assert check.main(tmp_path) == 0
    (tmp_path / "page.html").write_text(page + "%", encoding="utf-8")
    assert check.main(tmp_path) == 1
    assert capsys.readouterr().out == "page.html: doubled percent sign: 15 %%\n"


def test_a_folder_without_pages_fails(check, tmp_path, capsys):
    assert check.main(tmp_path) == 1
    assert "contains no pages" in capsys.readouterr().out


def test_examples_and_notes_may_have_long_lines(check, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "page.html").write_text(BOX.format(LONG_LINE), encoding="utf-8")
    assert check.main(tmp_path) == 0


def test_make_doc_runs_the_check():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\ndoc: $(VENV)")[2].partition("\n\n")[0]
    assert ".ci/check_pages.py doc/_build/html" in recipe.partition("-m sphinx")[2]
