"""The documents say what is: examples run, names exist, and no public name is left out."""

import doctest
import importlib
import inspect
import pkgutil
import re
import sys
import types
from pathlib import Path

import pytest

import sklearn_ldp

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODULES = [
    "sklearn_ldp",
    "sklearn_ldp.oracles",
    "sklearn_ldp.oracles.channels",
    "sklearn_ldp.postprocessing",
    "sklearn_ldp.model_selection",
    "sklearn_ldp.collection",
    "sklearn_ldp.queries",
    "sklearn_ldp.metrics",
    "sklearn_ldp.datasets",
    "sklearn_ldp.inspection",
    "sklearn_ldp.utils.estimator_checks",
]


GUIDE = sorted((ROOT / "doc" / "user_guide").glob("*.md"))
PAGES = [
    path
    for path in [ROOT / "doc" / "index.md", ROOT / "doc" / "install.md", *GUIDE]
    if "```python" in path.read_text(encoding="utf-8")
]
DOCTEST_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def python_blocks(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def run_page(text, name, monkeypatch):
    """Run the blocks of a page one after the other, as a reader would who types them in."""
    module = types.ModuleType("page")  # in sys.modules, so that what a page defines pickles
    monkeypatch.setitem(sys.modules, "page", module)
    for i, block in enumerate(python_blocks(text), start=1):
        source = f"{name}, block {i}"
        if ">>>" in block:
            run_doctest(block, vars(module), source)
        else:
            exec(compile(block, source, "exec"), vars(module))


def run_doctest(block, namespace, name):
    test = doctest.DocTestParser().get_doctest(block, namespace, name, name, 0)
    output = []
    runner = doctest.DocTestRunner(optionflags=DOCTEST_FLAGS, verbose=False)
    runner.run(test, out=output.append, clear_globs=False)
    namespace.update(test.globs)  # the parser works on a copy
    assert not runner.failures, "".join(output)


@pytest.mark.parametrize(
    "block",
    python_blocks((ROOT / "README.md").read_text(encoding="utf-8")),
    ids=["main job", "deployment"],
)
def test_readme_examples_run(block, capsys):
    exec(compile(block, "README.md", "exec"), {})
    assert ("California" in capsys.readouterr().out) == ("print" in block)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_pages_run(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run_page(path.read_text(encoding="utf-8"), path.name, monkeypatch)


@pytest.mark.parametrize(
    "text", ["```python\n>>> 1 + 1\n3\n```", "```python\nx = 1\n```\n```python\nassert x > 1\n```"]
)
def test_a_page_that_is_wrong_does_not_pass(text, monkeypatch):
    with pytest.raises(AssertionError):
        run_page(text, "wrong", monkeypatch)


def documented_names(module):
    """Names that the API reference lists under a module."""
    text = (ROOT / "doc" / "api.md").read_text(encoding="utf-8")
    sections = re.split(r"^## (\S+)$", text, flags=re.MULTILINE)[1:]
    body = dict(zip(sections[::2], sections[1::2], strict=True))[module]
    blocks = re.findall(r"```{eval-rst}\n(.*?)```", body, flags=re.DOTALL)
    assert all(f".. currentmodule:: {module}\n" in block for block in blocks)
    return [name for block in blocks for name in re.findall(r"^   (\w+)$", block, re.MULTILINE)]


@pytest.mark.parametrize("module", MODULES)
def test_api_reference_is_complete(module):
    names = documented_names(module)
    public = set(importlib.import_module(module).__all__)
    assert len(names) == len(set(names))
    assert set(names) <= public
    if module != "sklearn_ldp":
        public -= set(documented_names("sklearn_ldp"))
    assert public <= set(names)


def test_api_reference_knows_every_public_module():
    found = {
        info.name
        for info in pkgutil.walk_packages(sklearn_ldp.__path__, "sklearn_ldp.")
        if not any(part.startswith("_") for part in info.name.split("."))
    }
    with_names = {name for name in found if getattr(importlib.import_module(name), "__all__", [])}
    assert with_names | {"sklearn_ldp"} == set(MODULES)


def test_the_table_of_oracles_is_what_the_oracles_say():
    table = importlib.import_module("benchmarks.oracle_table").table()
    assert table in (ROOT / "doc" / "oracles.md").read_text(encoding="utf-8")


def test_every_public_docstring_names_what_it_is():
    for module in MODULES:
        namespace = importlib.import_module(module)
        assert namespace.__doc__
        for name in namespace.__all__:
            assert getattr(namespace, name).__doc__, f"{module}.{name}"


def public_functions():
    """Functions, methods, properties and constructors that are public and this package's own."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            own = getattr(module, name)
            members = vars(own) if isinstance(own, type) else {name: own}
            for key, member in members.items():
                function = getattr(member, "__func__", None) or getattr(member, "fget", member)
                if inspect.isfunction(function) and (key == "__init__" or not key.startswith("_")):
                    yield inspect.unwrap(function)


def untyped(function):
    """Parameters without a type hint, and "return"."""
    names = [n for n in inspect.signature(function).parameters if n not in ("self", "cls")]
    names += ["return"] if function.__name__ != "__init__" else []
    return [name for name in names if name not in function.__annotations__]


def test_public_signatures_are_typed():
    functions = list(public_functions())
    assert len(functions) > 150
    assert {f"{f.__module__}.{f.__qualname__}": untyped(f) for f in functions if untyped(f)} == {}
    assert untyped(lambda x: x) == ["x", "return"]  # the twin


def test_version_is_that_of_the_distribution():
    metadata = importlib.import_module("importlib.metadata")
    assert metadata.version("sklearn_ldp") == sklearn_ldp.__version__


def test_citations_name_this_version():
    assert f"version = {{{sklearn_ldp.__version__}}}" in README
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {sklearn_ldp.__version__}\n" in citation
