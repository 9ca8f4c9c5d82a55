"""The rooms of the package: CONTRIBUTING's table is the truth, and imports run down it only."""

import ast
import re
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from sklearn_ldp import OLH
from sklearn_ldp._core.mechanisms import counts as _counts

ROOT = Path(__file__).parents[1]
PACKAGE = "sklearn_ldp"
FRONTS = {
    "collection": "_core.aggregation",
    "inference": "_core.statistics",
    "inspection": "_core.displays",
    "queries": "_core.queries",
}


@cache
def nodes_of(path):
    """The nodes of a file, its tree first; many tests look at the whole package."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def modules(root):
    """Path of every module, by its dotted name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = [PACKAGE, *path.relative_to(root).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name, path, names):
    """Yield (module, private): every module of ours that a file imports, wherever it does so.

    Imports inside functions and for type checkers count. `private` tells whether the path to what
    is imported has a name below its room that begins with an underscore.
    """
    base = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            sources = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = base.split(".")[: len(base.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            sources = [(source, alias.name) for alias in node.names]
        else:
            continue
        for source, imported in sources:
            inner = f"{source}.{imported}"
            module = inner if inner in names else source
            if module in names and module != name:
                inside = module.removeprefix(f"{PACKAGE}.").removeprefix(room(module))
                yield module, any(part.startswith("_") for part in inside.split("."))


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def defined_names(nodes):
    """Every name that a file defines: functions, classes, variables, attributes of oneself."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from [node.attr] * ast.unparse(node).startswith("self.")


ONESELF = {"self", "cls", "super()"}


def private_attributes(tree, own=frozenset(ONESELF)):
    """Yield (line, name) of every private attribute of something else than oneself.

    Oneself is self, cls, super(), and the base classes in the body of a class.
    """
    for node in ast.iter_child_nodes(tree):
        is_reach = isinstance(node, ast.Attribute) and is_private(node.attr)
        if is_reach and ast.unparse(node.value) not in own:
            yield node.lineno, node.attr
        is_class = isinstance(node, ast.ClassDef)
        inside = own.union(map(ast.unparse, node.bases)) if is_class else own
        yield from private_attributes(node, inside)


def reaches_for_attributes(root):
    """The private attributes that a room reads or sets, and only other rooms define."""
    files = {name: nodes_of(path) for name, path in modules(root).items()}
    rooms_of = {}
    for name, nodes in files.items():
        for defined in filter(is_private, defined_names(nodes)):
            rooms_of.setdefault(defined, set()).add(room(name))
    return [
        f"{name}:{line} reaches for {attribute} of {', '.join(rooms_of[attribute])}"
        for name, nodes in files.items()
        for line, attribute in private_attributes(nodes[0])
        if room(name) not in rooms_of.get(attribute, {room(name)})
    ]


def room(module):
    """The folder or file of the top level, or of `_core/`, that a module is in; "" for the top."""
    _, *path = module.split(".")
    return ".".join(path[: 1 + (path[0] == "_core")]) if path else ""


def table():
    """The rooms of CONTRIBUTING's table, from the lowest to the highest."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([\w./]+?)/?` \|", text[text.index("## The rooms of the package") :], re.M
    )
    return [row.removesuffix(".py").replace("/", ".") for row in rows]


def graph(root):
    names = modules(root)
    return {name: set(imports(name, path, names)) for name, path in names.items()}


def upward(edges, order):
    """The imports that do not run down the order of the rooms."""
    height = {name: i for i, name in enumerate(["_version", *order])}

    def height_of(module):
        if module == PACKAGE:  # its lazy names: the command line uses the package as users do
            return height.get("_cli", len(height))
        return height[FRONTS.get(room(module), room(module))]

    top = (PACKAGE, f"{PACKAGE}.__main__")
    return [
        f"{importer} -> {module}"
        for importer, imported in edges.items()
        for module, _ in imported
        if importer not in top and height_of(module) > height_of(importer)
    ]


def circle(edges):
    """A circle of files, or None."""
    try:
        TopologicalSorter({a: {b for b, _ in bs} for a, bs in edges.items()}).prepare()
    except CycleError as error:
        return error.args[1]
    return None


@pytest.fixture(scope="module")
def edges():
    """The imports of the package."""
    return graph(ROOT / PACKAGE)


def test_imports_run_down_a_table_of_every_room_and_in_no_circle(edges):
    others = {"", "__main__", "_version", "_core", *FRONTS}
    assert sorted(table()) == sorted({room(name) for name in edges} - others)
    assert upward(edges, table()) == []
    assert circle(edges) is None


def test_rooms_keep_what_is_private(edges):
    """No file imports a private module of another room, but the fronts do, files of imports."""
    reaches = [
        f"{importer} -> {module}"
        for importer, imported in edges.items()
        for module, is_private in imported
        if is_private and room(module) not in (room(importer), FRONTS.get(room(importer)))
    ]
    assert reaches == []


def names_without_underscore(path):
    """What a module binds: its classes, functions and values; a front its imports, too."""
    is_front = path.name == "__init__.py" or path.stem in FRONTS
    for node in nodes_of(path)[0].body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for one in targets if isinstance(one, ast.Name)]
        elif isinstance(node, ast.ImportFrom) and is_front and node.level:
            names = [alias.asname or alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if not name.startswith("_"))


def exported(path):
    """The names of a module's `__all__`."""
    for node in nodes_of(path)[0].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)}
    return set()


def neither_exported_nor_private(root):
    """Names without an underscore, on a path without one, that are not in `__all__`."""
    return [
        f"{module}.{name}"
        for module, path in modules(root).items()
        if not any(part.startswith("_") for part in module.split("."))
        for name in names_without_underscore(path)
        if name not in exported(path)
    ]


def test_every_name_is_exported_or_private():
    """And what is exported is on the page of the API, as tests/docs/test_docs.py holds."""
    assert neither_exported_nor_private(ROOT / PACKAGE) == []


@pytest.mark.parametrize(
    ("path", "line", "found"),
    [
        ("low.py", "def helper(): pass", ["low.helper"]),
        ("low.py", "LIMIT: int = 1", ["low.LIMIT"]),
        ("low.py", "def helper(): pass\n__all__ = ['helper']", []),
        ("low.py", "from .high import helper", []),
        ("_low.py", "def helper(): pass", []),
        ("__init__.py", "from ._low import helper as helper", ["helper"]),
        ("queries.py", "from ._core.queries import helper", ["queries.helper"]),
    ],
)
def test_a_promise_by_mistake_is_found(path, line, found, tmp_path):
    """Negative control: a public name that is not exported is found."""
    (tmp_path / path).write_text(line + "\n", encoding="utf-8")
    assert neither_exported_nor_private(tmp_path) == [f"{PACKAGE}.{one}" for one in found]


def test_rooms_keep_private_attributes():
    """No room reads a private attribute of an object that only other rooms define."""
    assert reaches_for_attributes(ROOT / PACKAGE) == []


@pytest.mark.parametrize(
    ("line", "reaches"),
    [
        ("Thing()._held", True),
        ("def f(thing):\n    thing._held = 1", True),
        ("class Other(Thing): pass\ndef f():\n    return Thing._held", True),
        ("class Other:\n    _held = 1\ndef f(other):\n    return other._held", False),
        ("def f(thing):\n    return thing.other._held()", True),
        ("class Other(Thing):\n    def f(self):\n        return self._held", False),
        ("class Other(Thing):\n    more = Thing._held", False),
        ("Thing()._replace", False),  # nobody here defines it
    ],
)
def test_a_reach_for_an_attribute_is_found(line, reaches, tmp_path):
    """Negative control: a private attribute of another room's class is found."""
    (tmp_path / "low.py").write_text("class Thing:\n    _held = 0\n", encoding="utf-8")
    (tmp_path / "high.py").write_text(f"from .low import Thing\n{line}\n", encoding="utf-8")
    found = [one for one in reaches_for_attributes(tmp_path) if "reaches for _held of low" in one]
    assert bool(found) == reaches


@pytest.mark.parametrize(
    "line",
    [
        "from .high import b",
        "def f():\n    from .high import b",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import high",
        "import sklearn_ldp.high",
        "import sklearn_ldp",
    ],
)
def test_a_circle_is_found(line, tmp_path):
    """Negative control: an import that runs up is found, wherever it stands."""
    (tmp_path / "__init__.py").touch()
    (tmp_path / "low.py").write_text(line + "\n", encoding="utf-8")
    (tmp_path / "high.py").write_text("from .low import a\nb = a\n", encoding="utf-8")
    found = graph(tmp_path)
    assert upward(found, ["low", "high"])
    assert "high" not in line or circle(found)


def classes(root):
    """Pairs of a module and each class that it defines, wherever."""
    return [
        (name, node)
        for name, path in modules(root).items()
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    ]


def of_one_name(root):
    """Names that two classes have."""
    names = [node.name for _, node in classes(root)]
    return sorted({name for name in names if names.count(name) > 1})


def laws_of_errors(root):
    """The classes that hold what is known of an error, but for views, which have a `pull`.

    They are those of `_core/noise`, and those that other rooms derive from them. Others ask them.
    """
    found = {}
    for module, node in sorted(classes(root), key=lambda one: room(one[0]) != "_core.noise"):
        bases = {ast.unparse(base).split("[")[0] for base in node.bases}
        if room(module) == "_core.noise" or bases & {*found}:
            methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
            found |= {} if "pull" in methods else {node.name: module}
    return found


def test_what_is_known_of_an_error_stands_in_few_classes_and_no_two_have_one_name():
    """A table, a tree and another order of the categories are views of them."""
    assert of_one_name(ROOT / PACKAGE) == []
    assert len(laws_of_errors(ROOT / PACKAGE)) <= 9


def test_a_second_law_is_found(tmp_path):
    """Negative control: a class in `_core/noise`, one derived from it, and a name that is taken."""
    (tmp_path / "_core" / "noise").mkdir(parents=True)
    lines = "class Noise: pass\nclass Order:\n    def pull(self): pass\n"
    (tmp_path / "_core" / "noise" / "__init__.py").write_text(lines, encoding="utf-8")
    (tmp_path / "tables.py").write_text(
        "class Combined(Noise): pass\nclass Other: pass\nclass Order: pass\n", encoding="utf-8"
    )
    assert list(laws_of_errors(tmp_path)) == ["Noise", "Combined"]
    assert of_one_name(tmp_path) == ["Order"]


def texts_alone(root):
    """Statements that are half of a message which somebody moved: linters pass them over."""
    nodes = ((module, node) for module, path in modules(root).items() for node in nodes_of(path))
    return [
        m for m, node in nodes if isinstance(node, ast.Expr) and type(node.value) is ast.JoinedStr
    ]


def test_no_statement_is_a_text_alone(tmp_path):
    """Negative control: a file with one."""
    assert texts_alone(ROOT / PACKAGE) == []
    (tmp_path / "one.py").write_text("def f(x):\n    f'{x} alone'\n", encoding="utf-8")
    assert texts_alone(tmp_path) == [f"{PACKAGE}.one"]


def endless_loops(root):
    """Where a loop that may run for ever has no comment that states why it ends.

    A loop counts if its condition is not a comparison with a bound, and not a read of a file.
    """
    found = []
    for path in modules(root).values():
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in nodes_of(path):
            if not isinstance(node, ast.While):
                continue
            if not isinstance(node.test, (ast.Compare, ast.NamedExpr)):
                above = [line.strip() for line in lines[max(node.lineno - 4, 0) : node.lineno - 1]]
                if not any(line.startswith("# Ends: ") for line in above):
                    found.append(f"{path.name}:{node.lineno}")
    return found


def test_every_loop_states_why_it_ends(tmp_path):
    assert endless_loops(ROOT / PACKAGE) == []
    # Negative control: a loop that runs until nothing changes, without and with a reason.
    loop = "while True:\n    pass\n"
    (tmp_path / "loop.py").write_text(f"# Starts.\n{loop}\n\n\n\n# Ends: never.\n{loop}")
    assert endless_loops(tmp_path) == ["loop.py:2"]


def climbs_of(function):
    """The calls of package code from a lower room to a higher one, while a function runs.

    A method that the lower room declares itself is its own, whoever writes it: a channel's
    `privatize`, an oracle's hook. The function runs with a profiler, which sees each call.
    """
    order, stack, climbs = table(), [-1], set()

    def height(filename):
        try:
            path = Path(filename).relative_to(ROOT).with_suffix("")
        except ValueError:
            return None
        home = room(".".join(path.parts))
        return order.index(home) if home in order else None

    def is_declared(frame, below):
        for cls in type(frame.f_locals.get("self")).__mro__:
            home = sys.modules[cls.__module__]
            at = height(getattr(home, "__file__", None) or "")
            if at is not None and at <= below and frame.f_code.co_name in vars(cls):
                return True
        return False

    def profiler(frame, event, _):
        if event == "call":
            here = height(frame.f_code.co_filename)
            rises = here is not None and stack[-1] != -1 and here > stack[-1]
            if rises and not is_declared(frame, stack[-1]):
                climbs.add(f"{order[stack[-1]]} -> {order[here]}.{frame.f_code.co_name}")
            stack.append(stack[-1] if here is None else here)
        elif event == "return" and len(stack) > 1:
            stack.pop()

    sys.setprofile(profiler)
    try:
        function()
    finally:
        sys.setprofile(None)
    return climbs


def test_a_value_goes_down(monkeypatch):
    """Through `OLH.fit_transform`, from the value to the estimate, no room calls a higher one."""
    oracle = OLH(1.0, categories=4, random_state=0)
    assert climbs_of(lambda: oracle.fit_transform([0, 1, 2, 3])) == set()
    # Negative control: reports that a function of the oracles makes for the sums below.
    privatize, above = _counts.privatize, {}
    path = ROOT / PACKAGE / "oracles" / "_base.py"
    lines = "def detour(*args, **kwargs):\n    return privatize(*args, **kwargs)"
    exec(compile(lines, path, "exec"), {"privatize": privatize}, above)
    monkeypatch.setattr(_counts, "privatize", above["detour"])
    assert climbs_of(lambda: oracle.fit_transform([0, 1])) == {"_core.mechanisms -> oracles.detour"}
