"""The command that changes the package at random: its changes, and the tests that it runs."""

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = '''
"""Text with 3 words."""


def share(values: list[int | None], is_open=True) -> float:
    """Return é."""
    total = 0
    for value in values:
        if not is_open and value >= 2:
            total += value * 2
    print(f"{total + 1}")
    return total / len(values)
'''
CHANGES = [
    "def share(values: list[int | None], is_open=False) -> float:",
    "total = 1",
    "if (is_open) and value >= 2:",
    "if (not is_open or value >= 2):",
    "if not (not is_open and value >= 2):",
    "if not is_open and (value > 2):",
    "if not is_open and value >= 3:",
    "total += (value / 2)",
    "total += value * 3",
    "pass",
    "pass",
    "return (total * len(values))",
    "return None",
]


@pytest.fixture(scope="module")
def mutate():
    spec = importlib.util.spec_from_file_location("mutate", ROOT / ".ci" / "mutate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutate"]


def test_each_mutant_is_one_change(mutate):
    """Annotations, docstrings and formatted texts stay as they are."""
    mutants = [one for several in mutate.mutants_of(Path("a.py"), SOURCE) for one in several]
    assert sorted(mutant.after.strip() for mutant in mutants) == sorted(CHANGES)
    lines = SOURCE.splitlines()
    for mutant in mutants:
        changed = mutant.text.splitlines()
        assert [i + 1 for i, line in enumerate(lines) if changed[i] != line] == [mutant.line]
        assert ast.dump(ast.parse(mutant.text)) != ast.dump(ast.parse(SOURCE))


def test_the_table_shows_the_change_of_a_long_line(mutate):
    source = f"total = {' + '.join(['price'] * 30)} + 1 + {' + '.join(['price'] * 30)}"
    (mutants,) = mutate.mutants_of(Path("a.py"), source)
    (row,) = [mutant.row for mutant in mutants if mutant.text == source.replace("1", "2")]
    place, before, after = row.strip("| ").split(" | ")
    assert place == "a.py:1"
    assert "+ 1 +" in before
    assert "+ 2 +" in after


def test_the_room_of_each_file_has_tests(mutate):
    for path in (ROOT / "sklearn_ldp").rglob("*.py"):
        relative = path.relative_to(ROOT)
        *tests, file = mutate.tests_of(relative)
        assert file == relative.as_posix()
        if len(relative.parts) > 2:
            assert tests, relative
        assert all((ROOT / name).exists() for name in tests)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_copy_has_the_files_of_the_checkout(mutate, tmp_path, monkeypatch):
    """A file that git ignores is not copied; a change that is not committed is."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    monkeypatch.setattr(mutate, "ROOT", checkout)
    subprocess.run(["git", "init", "-q"], cwd=checkout, check=True)
    (checkout / ".gitignore").write_text("*.log\n")
    (checkout / "new.py").write_text("1\n")
    (checkout / "new.log").write_text("1\n")
    folder = mutate.copied(tmp_path / "copy")
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "new.py"]
