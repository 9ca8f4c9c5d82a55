"""Change the package at random places, and print which changes the quick tests notice.

    python .ci/mutate.py --mutants 20 --seed 0

A mutant is the package with one changed statement: another comparison, operator or constant, a
negated condition, a result of None, or a statement left out. All mutants are made in a copy of the
checkout, so the checkout stays as it is. First the tests of the mutant's room run, then all quick
tests, until the first failure. A mutant that no test notices survives. Some survivors behave like
the package, so a person reads them. Before a mutant, the same tests have to pass without it.

With a database of the lines that each test executes, the tests of the changed line run first:

    export COVERAGE_FILE=/tmp/lines
    make coverage PYTEST_ARGS="--cov-context=test --doctest-modules sklearn_ldp"
    python .ci/mutate.py --mutants 200 --rooms-only --processes 0 --contexts /tmp/lines

The database contains no tests of lines that run on import or in another process. For their sake
the tests of the room follow.
"""

import argparse
import ast
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "sklearn_ldp"
N_TESTS = 300  # of a changed line, chosen by hand: their start takes longer than these tests
TIME_LIMIT = 300  # seconds of a mutant with a database of lines, whose tests passed
# The tests of a room are in the folder of the same name, except for these rooms.
TESTS = {
    "_cli": ["cli"],
    "_serve": ["serve"],
    "clients": ["collection"],
    "utils": ["test_common.py"],
    "_core/aggregation": ["collection"],
    "_core/displays": ["inspection"],
    "_core/domains": ["core/domains", "test_missing_values.py"],
    "_core/fitting": ["core", "test_common.py"],
    "_core/mechanisms": ["core/mechanisms", "oracles", "test_statistics.py"],
    "_core/noise": ["core/noise", "inference"],
    "_core/numerics": ["core", "oracles", "postprocessing"],
    "_core/statistics": ["inference"],
}
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: Path  # relative to the checkout
    start: int  # first line of the statement
    line: int
    before: str  # the line
    after: str
    text: str  # the changed file

    @property
    def row(self) -> str:
        """The cells that describe the change."""
        pairs = enumerate(zip(self.before, self.after, strict=False))
        n_same = next((i for i, (old, new) in pairs if old != new), 0)
        start = max(n_same - 50, 0) if len(self.before) > 90 else 0
        before, after = (shortened(text[start:]) for text in (self.before, self.after))
        return f"| {self.path}:{self.line} | `{before}` | `{after}` |"


def shortened(text: str) -> str:
    """Return the text in one line of a table."""
    line = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return line if len(line) <= 90 else f"{line[:87]}..."


# ---- the changes --------------------------------------------------------------------------------
def expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement, but not of inner statements and annotations."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "exc", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                # Python 3.11 gives parts of f-strings wrong positions.
                if isinstance(child, ast.AST) and not isinstance(child, (ast.stmt, ast.JoinedStr)):
                    pending.append(child)
                    if isinstance(child, ast.expr):
                        yield child


def changed_expression(node: ast.expr) -> Iterator[str]:
    """Yield the source of each change of an expression."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            operators = [*node.ops[:i], SWAPS[type(operator)](), *node.ops[i + 1 :]]
            yield ast.unparse(ast.Compare(node.left, operators, node.comparators))
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        yield ast.unparse(ast.BinOp(node.left, SWAPS[type(node.op)](), node.right))
    elif isinstance(node, ast.BoolOp):
        yield ast.unparse(ast.BoolOp(SWAPS[type(node.op)](), node.values))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield ast.unparse(node.operand)
    elif isinstance(node, ast.IfExp):
        yield ast.unparse(ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield repr(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        is_small = node.value == 0 or (isinstance(node.value, int) and node.value < 10)
        yield repr(node.value + 1 if is_small else 2 * node.value)


def changed_statement(node: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    """Yield each part of a statement that can change, and its source after the change."""
    for part in expressions(node):
        for source in changed_expression(part):
            yield part, source if isinstance(part, ast.Constant) else f"({source})"
    if isinstance(node, (ast.If, ast.While)):
        yield node.test, f"not ({ast.unparse(node.test)})"
    if isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
        yield node, "return None"
    if isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield node, "pass"


def replaced(text: str, node: ast.AST, source: str) -> str:
    """Return the text with other source in the place of a node."""
    lines = text.encode().splitlines(keepends=True)  # columns count bytes
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    stop = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    content = text.encode()
    return (content[:start] + source.encode() + content[stop:]).decode()


def mutants_of(path: Path, text: str) -> list[list[Mutant]]:
    """Return the mutants of a file, a list for each statement that can change."""
    tree, found = ast.parse(text), []
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt) or isinstance(statement, ast.Raise):
            continue
        changes = []
        for part, source in changed_statement(statement):
            changed = replaced(text, part, source)
            before, after = (whole.splitlines()[part.lineno - 1] for whole in (text, changed))
            changes.append(Mutant(path, statement.lineno, part.lineno, before, after, changed))
        if changes:
            found.append(changes)
    return found


def drawn(n_mutants: int, seed: int, below: str) -> list[Mutant]:
    """Draw statements with equal probabilities, and one change of each statement."""
    statements = []
    for path in sorted((ROOT / below).rglob("*.py")):
        statements += mutants_of(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    rng = random.Random(seed)
    chosen = rng.sample(statements, min(n_mutants, len(statements)))
    return [rng.choice(changes) for changes in chosen]


# ---- the tests ----------------------------------------------------------------------------------
def tests_of(path: Path) -> list[str]:
    """Return the tests of a file's room, and the examples in the file."""
    room = path.relative_to(PACKAGE).parent.as_posix()
    names = TESTS.get(room, [room.split("/")[0], room.removeprefix("_core/")])
    if room == ".":
        names = [f"test_{path.stem}.py", path.stem]
    if room.startswith("_core"):
        names = [*names, room.replace("_core", "core")]
    names = [f"tests/{name}" for name in dict.fromkeys(names) if (ROOT / "tests" / name).exists()]
    return [*names, path.as_posix()]


class Contexts:
    """The tests that execute each line, in a database of coverage."""

    def __init__(self, database: Path):
        written = database.stat().st_mtime
        if any(path.stat().st_mtime > written for path in (ROOT / PACKAGE).rglob("*.py")):
            raise SystemExit(f"{database} is older than the package. Write it anew.")
        query = "SELECT path, context, numbits FROM line_bits"
        query += " JOIN file ON file_id = file.id JOIN context ON context_id = context.id"
        self.lines: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.n_lines: dict[str, int] = defaultdict(int)
        for path, context, numbits in sqlite3.connect(database).execute(query):
            if test := context.rpartition("|")[0]:  # the name follows the phase of the test
                bits = int.from_bytes(numbits, "little")
                self.lines[path[path.rindex(f"{PACKAGE}/") :]][test] |= bits
                self.n_lines[test] += bits.bit_count()

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that execute the statement; tests of few lines are the nearest."""
        mask = sum(1 << line for line in range(mutant.start, mutant.line + 1))
        lines = self.lines[mutant.path.as_posix()]
        tests = [test for test, bits in lines.items() if bits & mask]
        return sorted(tests, key=self.n_lines.__getitem__)


@dataclass
class Tests:
    """The quick tests in a copy of the checkout."""

    copy: Path
    n_processes: int
    limits: dict[tuple[str, ...], float] = field(default_factory=dict)  # seconds of a mutant

    def first_failure(self, paths: list[str]) -> str | None:
        """Run tests until one fails, and return its name; a run beyond the limit fails, too."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", str(self.n_processes)]
        command += ["-m", "not slow and not pages", "--doctest-modules", "-p", "no:cacheprovider"]
        # House rules are about the source. A mutant has to be noticed by its behavior.
        command += ["--deselect", "tests/test_structure.py", "--tb", "no", *paths]
        process = subprocess.Popen(
            command,
            cwd=self.copy,
            env={**os.environ, "PYTHONPATH": str(self.copy), "MPLBACKEND": "Agg"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said = process.communicate(timeout=self.limits.get(tuple(paths)))[0]
        except BaseException as error:  # also Ctrl-C: the tests have a session of their own
            os.killpg(process.pid, 9)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                return "time limit"
            raise
        if process.returncode in (0, 5):  # 5: there are no such tests
            return None
        failed = re.search(r"^(?:FAILED|ERROR) ([^\n]*?)(?: - |$)", said, re.MULTILINE)
        return failed[1] if failed else shortened(said[-200:])

    def check(self, paths: list[str]) -> None:
        """Stop if tests fail without a mutant. A mutant may take ten times as long."""
        if tuple(paths) in self.limits:
            return
        start = time.monotonic()
        if failure := self.first_failure(paths):
            raise SystemExit(f"Without a mutant, {failure} fails. Repair it first.")
        self.limits[tuple(paths)] = 60 + 10 * (time.monotonic() - start)


def copied(folder: Path) -> Path:
    """Copy the files of the checkout, with the changes that are not committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def outcome(
    mutant: Mutant, tests: Tests, rooms_only: bool, near: list[str] | None = None
) -> str | None:
    """Return the first test that fails with the mutant, or None."""
    rings = [tests_of(mutant.path)]
    if near is not None:
        rings = [part for part in (near[:20], near[20:], *rings) if part]  # most fail early
        tests.limits.update((tuple(paths), TIME_LIMIT) for paths in rings)
    if not rooms_only:
        rings.append(["sklearn_ldp", "tests"])
    file = tests.copy / mutant.path
    original = file.read_bytes()
    stat = file.stat()
    for paths in rings:
        tests.check(paths)
        try:
            file.write_text(mutant.text, encoding="utf-8")
            failure = tests.first_failure(paths)
        finally:
            file.write_bytes(original)
            os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        if failure:
            return failure
    return None


def main() -> None:
    """Print the table of the mutants."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=20, metavar="N", help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="draws other mutants")
    parser.add_argument("--below", default=PACKAGE, metavar="PATH", help="folder of the mutants")
    parser.add_argument("--contexts", type=Path, metavar="FILE", help="database of lines")
    parser.add_argument("--rooms-only", action="store_true", help="only run the tests of the room")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="of the tests")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run no tests")
    arguments = parser.parse_args()
    mutants = drawn(arguments.mutants, arguments.seed, arguments.below)
    print("| place | before | after | first failure |\n|---|---|---|---|")
    if arguments.list:
        print("\n".join(f"{mutant.row} |" for mutant in mutants))
        return
    contexts = arguments.contexts and Contexts(arguments.contexts)
    n_killed = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        tests = Tests(copied(Path(folder)), arguments.processes)
        for mutant in mutants:
            near = contexts and contexts.tests_of(mutant)
            failure = outcome(mutant, tests, arguments.rooms_only, near and near[:N_TESTS])
            n_killed += failure is not None
            capped = f" {N_TESTS} of {len(near)} tests" if near and len(near) > N_TESTS else ""
            print(f"{mutant.row} {failure or f'**survives**{capped}'} |", flush=True)
    print(f"\n{n_killed} of {len(mutants)} mutants are noticed.")


if __name__ == "__main__":
    main()
