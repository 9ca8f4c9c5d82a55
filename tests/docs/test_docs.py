"""The documents say what is: examples run, names exist, and no public name is left out."""

import doctest
import importlib
import inspect
import re
import sys
import tomllib
import types
import typing
from pathlib import Path

import pytest
import yaml
from api import public_modules

import sklearn_ldp

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOC = ROOT / "doc"
SECTIONS = re.findall(
    r"```{eval-rst}\n\.\. currentmodule:: (\S+)\n(.*?)```",
    (DOC / "api.md").read_text(encoding="utf-8"),
    flags=re.DOTALL,
)
MODULES = sorted({module for module, _ in SECTIONS})
# With clients and servers: test_deploying.py, test_serving_page.py
RUN_ELSEWHERE = {"deploying.md", "operating.md", "serving.md"}
PAGES = [
    path
    for folder in [DOC, DOC / "user_guide", DOC / "notes"]
    for path in sorted(folder.glob("*.md"))
    if path.name not in RUN_ELSEWHERE and "```python" in path.read_text(encoding="utf-8")
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


@pytest.mark.pages
def test_the_readme_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    shown = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)
    for block, output in zip(python_blocks(README), shown, strict=True):
        exec(compile(block, "README.md", "exec"), namespace)
        assert capsys.readouterr().out == output
    assert list(tmp_path.iterdir()) == []


def n_closer_and_errors(before, after, truth):
    """Count the estimates that came closer to the truth; errors in percentage points."""
    distances = [abs(estimate.values[0] - truth) for estimate in (before, after)]
    errors = [100 * (distance**2).mean() ** 0.5 for distance in distances]
    return int((distances[1] < distances[0]).sum()), *errors


@pytest.mark.pages
def test_the_caption_of_the_first_picture_is_true(capsys):
    """And the picture is drawn from the first block; negative control: estimates exchanged."""
    run: dict = {}
    exec(compile(python_blocks(README)[0], "README.md", "exec"), run)
    before, after, truth = run["estimate"], run["better"], run["states"].frequencies
    n_closer, *errors = n_closer_and_errors(before, after, truth)
    caption = README.partition("first_run.svg")[2]
    assert f"moves {n_closer} of the 51 estimates closer" in caption
    assert "falls from {:.2f} to {:.2f} percentage points".format(*errors) in caption
    n_closer, *errors = n_closer_and_errors(after, before, truth)
    assert f"moves {n_closer} of the 51 estimates closer" not in caption
    assert "falls from {:.2f} to {:.2f} percentage points".format(*errors) not in caption
    low, high = before.confidence_interval(0.95, simultaneous=True)
    assert ((low[0] <= truth) & (truth <= high[0])).all()


@pytest.mark.pages
@pytest.mark.parametrize(
    ("page", "picture", "n_blocks"),
    [("README.md", "first_run.svg", 1), ("doc/quick_start.md", "quick_start.svg", 2)],
)
def test_a_page_draws_its_picture(page, picture, n_blocks, tmp_path):
    """The number of markers is compared, because the file depends on matplotlib's version."""
    pytest.importorskip("matplotlib")
    pictures = importlib.import_module("benchmarks.pictures")
    pictures.draw_page(ROOT / page, tmp_path / picture, n_blocks)
    drawn = (tmp_path / picture).read_text(encoding="utf-8")
    stored = (DOC / "_static" / picture).read_text(encoding="utf-8")
    assert drawn.count("<use ") == stored.count("<use ") > 20


@pytest.mark.pages
@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_pages_run(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run_page(path.read_text(encoding="utf-8"), path.name, monkeypatch)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\n>>> 1 + 1\n3\n```", "Expected:\n +3\n"),
        ("```python\nx = 1\n```\n```python\nassert x > 1, 'x is 1'\n```", "x is 1"),
    ],
)
def test_a_page_that_is_wrong_does_not_pass(text, fault, monkeypatch):
    with pytest.raises(AssertionError, match=fault):
        run_page(text, "wrong", monkeypatch)


def documented_names(module):
    """Names that the API reference lists under a module, in all of its sections."""
    own = [body for name, body in SECTIONS if name == module]
    return [name for body in own for name in re.findall(r"^   (\w+)$", body, re.MULTILINE)]


@pytest.mark.parametrize("module", MODULES)
def test_api_reference_is_complete(module):
    """And every public name has a docstring."""
    names, namespace = documented_names(module), importlib.import_module(module)
    public = set(namespace.__all__)
    assert namespace.__doc__
    assert [name for name in public if not getattr(namespace, name).__doc__] == []
    assert len(names) == len(set(names))
    assert set(names) <= public
    if module != "sklearn_ldp":
        public -= set(documented_names("sklearn_ldp"))
    assert public <= set(names)


def test_api_reference_knows_every_public_module():
    assert sorted(public_modules()) == MODULES


def test_the_table_of_oracles_is_what_the_oracles_say():
    table = importlib.import_module("benchmarks.accuracy.oracle_table").table()
    assert table in (ROOT / "doc" / "notes" / "oracles.md").read_text(encoding="utf-8")


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
    """And types can be read at run time, as tools do that make forms or checks of them."""
    functions = list(public_functions())
    assert len(functions) > 150
    assert {f"{f.__module__}.{f.__qualname__}": untyped(f) for f in functions if untyped(f)} == {}
    assert untyped(lambda x: x) == ["x", "return"]  # the twin
    for function in functions:
        typing.get_type_hints(function)
    with pytest.raises(NameError):
        typing.get_type_hints(reads_an_undefined_type)  # the twin


def reads_an_undefined_type(x: "Undefined"):  # noqa: F821
    """A function whose hints cannot be read."""


def test_the_distribution_and_its_citations_have_this_version():
    metadata = importlib.import_module("importlib.metadata")
    assert metadata.version("sklearn_ldp") == sklearn_ldp.__version__
    assert f"version = {{{sklearn_ldp.__version__}}}" in README
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {sklearn_ldp.__version__}\n" in citation


# ---- installation and navigation ---------------------------------------------------------------


def oldest_versions(project):
    """Name and oldest version of Python, every dependency and what the extras for users install."""
    extras = [r for name in USER_EXTRAS for r in project["optional-dependencies"][name]]
    requirements = [*project["dependencies"], *extras]
    pairs = [("Python", project["requires-python"].removeprefix(">="))]
    return pairs + [tuple(one.partition(",")[0].split(">=")) for one in requirements]


USER_EXTRAS = ["plot", "data", "progress", "dask", "serve", "storage"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTALL = (ROOT / "doc" / "install.md").read_text(encoding="utf-8")


def test_the_install_page_names_the_versions_of_pyproject_and_what_extras_install():
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \|$", INSTALL, flags=re.MULTILINE)
    assert rows == oldest_versions(PROJECT)
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\w, -]+) \|", INSTALL, flags=re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    installs = {name: [r.split(">=")[0] for r in extras[name]] for name in USER_EXTRAS}
    assert {name: packages.split(", ") for name, packages in rows.items()} == installs


def navigation(index):
    """Pages of the sidebar, by the captions of their groups."""
    blocks = re.findall(r"```{toctree}\n(.*?)```", index, flags=re.DOTALL)
    captions = [re.search(r":caption: (.*)", block)[1] for block in blocks]
    pages = [re.findall(r"^(?!:)(?:.* <)?([\w/]+)>?$", block, re.MULTILINE) for block in blocks]
    return dict(zip(captions, pages, strict=True))


def test_the_sidebar_has_every_page_once():
    groups = navigation((ROOT / "doc" / "index.md").read_text(encoding="utf-8"))
    captions = ["Start", "One question", "Data types", "Special designs", "Models", "Production"]
    assert list(groups) == [*captions, "Reference", "Project"]
    listed = [page for pages in groups.values() for page in pages]
    written = [
        path.relative_to(ROOT / "doc").with_suffix("").as_posix()
        for folder in ["doc", "doc/user_guide"]
        for path in (ROOT / folder).glob("*.md")
    ]
    pages = {*written, "auto_examples/index", "notes/index"} - {"index", "paper"}  # for a journal
    assert sorted(listed) == sorted(pages)


# ---- habits: every command in a configuration is a target of the Makefile ----------------------

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PRE_COMMIT = ROOT / ".pre-commit-config.yaml"
CONFIGURATIONS = [PRE_COMMIT, *sorted((ROOT / ".github").rglob("*.yml"))]


def make_targets(text):
    """Targets of the lines that call make; a target that starts a line is one, prose is not."""
    return re.findall(r"^\s*(?:- )?(?:run: |entry: )?make ([a-z-]+)", text, flags=re.MULTILINE)


def unknown_targets(text):
    return set(make_targets(text)) - set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.name)
def test_configurations_parse_and_call_targets_that_exist(path):
    text = path.read_text(encoding="utf-8")
    assert isinstance(yaml.safe_load(text), dict)
    assert not unknown_targets(text)
    wrong = "  - run: make lint\n  - run: make tests\n    entry: make forms"
    assert unknown_targets(wrong) == {"tests", "forms"}  # the twin


def test_the_workflow_runs_what_ci_runs_on_every_supported_python():
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    runs = {
        name: [step["run"] for step in job["steps"] if "run" in step]
        for name, job in workflow["jobs"].items()
    }
    expected = make_targets((ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert expected == ["demo", "lint", "test", "doc", "study-quick"]  # the first two side by side
    assert sorted(make_targets("\n".join(runs.pop("checks")))) == sorted(expected)
    assert runs.pop("systems") == [
        "make PYTHON=python test",
        "make PYTHON=python demo VENV=.venv-demo",
    ]
    assert runs.pop("pyodide")[0] == "make wheel"
    slow = ["make test-slow", "make coverage", "make regression"]
    assert runs == {"test-versions": ["make test-versions"], "test-slow": slow}
    prefix = "Programming Language :: Python :: 3."
    supported = [c.split(" :: ")[-1] for c in PROJECT["classifiers"] if c.startswith(prefix)]
    for name in ("checks", "systems"):
        assert workflow["jobs"][name]["strategy"]["matrix"]["python"] == supported


def test_hooks_fetch_nothing():
    repos = yaml.safe_load(PRE_COMMIT.read_text(encoding="utf-8"))["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    hooks = {hook["entry"]: hook["language"] for hook in repos[0]["hooks"]}
    assert hooks == {"make format": "system", "make lint": "system"}


@pytest.mark.parametrize("name", ["bug_report", "feature_request"])
def test_issue_forms_ask_for_synthetic_data(name, capsys):
    path = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    fields = {field["id"]: field["attributes"] for field in form["body"] if "id" in field}
    assert "synthetic data" in path.read_text(encoding="utf-8")
    if name == "bug_report":
        assert "repr" in fields["oracle"]["description"]
        exec(compile(fields["code"]["value"], path.name, "exec"), {})
        assert capsys.readouterr().out
