"""The documents say what is: examples run, names exist, and no public name is left out."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    "sklearn_ldp",
    "sklearn_ldp.oracles",
    "sklearn_ldp.postprocessing",
    "sklearn_ldp.model_selection",
    "sklearn_ldp.queries",
    "sklearn_ldp.metrics",
    "sklearn_ldp.datasets",
    "sklearn_ldp.inspection",
    "sklearn_ldp.utils.estimator_checks",
]


def python_blocks(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("block", python_blocks(ROOT / "README.md"), ids=["main job", "deployment"])
def test_readme_examples_run(block, capsys):
    exec(compile(block, "README.md", "exec"), {})
    assert ("California" in capsys.readouterr().out) == ("print" in block)


def documented_names(module):
    text = (ROOT / "doc" / "api.md").read_text(encoding="utf-8")
    sections = re.split(r"^## (\S+)$", text, flags=re.MULTILINE)[1:]
    body = dict(zip(sections[::2], sections[1::2], strict=True))[module]
    rows = re.findall(r"^\| (`.*?) \|", body, flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize("module", MODULES)
def test_api_reference_is_complete(module):
    names = documented_names(module)
    public = set(importlib.import_module(module).__all__)
    assert names <= public
    if module != "sklearn_ldp":
        public -= documented_names("sklearn_ldp")
    assert public <= names


def test_the_table_of_oracles_is_what_the_oracles_say():
    table = importlib.import_module("benchmarks.oracle_table").table()
    assert table in (ROOT / "doc" / "oracles.md").read_text(encoding="utf-8")


def test_every_public_docstring_names_what_it_is():
    for module in MODULES:
        namespace = importlib.import_module(module)
        assert namespace.__doc__
        for name in namespace.__all__:
            assert getattr(namespace, name).__doc__, f"{module}.{name}"


def test_version_is_that_of_the_distribution():
    metadata = importlib.import_module("importlib.metadata")
    assert metadata.version("sklearn_ldp") == importlib.import_module("sklearn_ldp").__version__
