"""The pages on deployments say what is: their commands and their Python run, in their order."""

import re
import shlex
from pathlib import Path

import pytest

from sklearn_ldp.__main__ import main

ROOT = Path(__file__).parents[2]
DEPLOYING = ROOT / "doc" / "deploying.md"
OPERATING = ROOT / "doc" / "operating.md"


def run(page):
    """Run the commands and the Python of a page one after the other."""
    namespace = {}
    for language, body in re.findall(r"```(python|console)\n(.*?)```", page, flags=re.DOTALL):
        if language == "python":
            exec(compile(body, "page", "exec"), namespace)
            continue
        for line in body.replace("\\\n", " ").splitlines():
            program, *argv = shlex.split(line.removeprefix("$ "))
            assert program == "sklearn-ldp"
            assert main(argv) == 0


@pytest.mark.pages
def test_deploying_runs(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("red\ngreen\nblue\n")
    (tmp_path / "values.txt").write_text("red\n" * 3000 + "blue\n" * 1000)
    (tmp_path / "reports").mkdir()
    page = DEPLOYING.read_text(encoding="utf-8")
    domains, _ = re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)  # and a grid
    (tmp_path / "domains.json").write_text(domains)
    (tmp_path / "people.csv").write_text("sex,age,state\n" + "F,3,north\nM,9,south\n" * 2000)
    run(page)
    assert (tmp_path / "estimate.csv").read_text().count("\n") == 4
    assert (tmp_path / "estimates.csv").read_text().count("\n") == 1 + 2 + 10 + 2


def test_operating_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    run(OPERATING.read_text(encoding="utf-8"))
    assert "[5.824 0.032 0.033]" in capsys.readouterr().out


def test_every_guarantee_names_its_tests():
    page = (ROOT / "doc" / "notes" / "promises.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "tests |" not in line]
    assert len(rows) == 22
    for row in rows:
        files = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert files, row
        assert all((ROOT / name).is_file() for name in files), row
