"""Check the README's code, and measure how much of the public interface has known types.

The public interface is what the modules with an ``__all__`` export, and the members of it. Files in
private rooms, such as those of _core, have names without underscore for other rooms.

Most of what is unknown is inherited: scikit-learn's base classes have no types. So completeness is
measured with .ci/stubs, which has those of the members that our classes inherit, and of no more.
Only this script uses it.
"""

import json
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "sklearn_ldp"
STUBS = ROOT / ".ci" / "stubs"
FLOOR = 0.99


def checked(*command: str | Path, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess:
    """Run a type checker on the package, with these folders on the path of modules."""
    environment = Path(sys.prefix)
    variables = {
        **os.environ,
        "VIRTUAL_ENV": str(environment),
        "PATH": os.pathsep.join([str(environment / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *path])),
    }
    return subprocess.run(
        [sys.executable, "-m", *command],
        env=variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def readme() -> str:
    """What mypy --strict, and pyright with the stubs, find in the README's code; "" if nothing."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        # A reader types one block after the other.
        files = [Path(folder, "readme.py")]
        # Pyright infers `refit: bool` from scikit-learn's default, so only this line is excepted.
        excepted = r"\1  # pyright: ignore[reportArgumentType]"
        files[0].write_text(re.sub(r"(.*refit=rule.*)", excepted, "\n".join(blocks)))
        runs = [
            checked("mypy", "--strict", "--follow-imports=silent", *files),
            checked("basedpyright", *files, path=(STUBS,)),
        ]
    return "".join(run.stdout for run in runs if run.returncode)


def report(*path: Path) -> dict:
    """Pyright's report on the installed package."""
    options = ("--verifytypes", "sklearn_ldp", "--ignoreexternal", "--outputjson")
    done = checked("basedpyright", *options, path=path)
    found = json.loads(done.stdout)["typeCompleteness"]
    if Path(found["packageRootDirectory"]).parent != ROOT:
        raise SystemExit(f"pyright looked at {found['packageRootDirectory']}, not at {ROOT}")
    return found


def public(found: dict) -> list[dict]:
    """Return the exported symbols of the modules that have an ``__all__``."""
    modules = [info.name for info in pkgutil.walk_packages([str(ROOT / PACKAGE)], f"{PACKAGE}.")]
    modules = [PACKAGE, *(name for name in modules if not re.search(r"\._", name))]
    listed = {name for name in modules if getattr(import_module(name), "__all__", [])}

    def home(symbol: str) -> str:
        return max((name for name in modules if symbol.startswith(f"{name}.")), key=len)

    exported = [symbol for symbol in found["symbols"] if symbol["isExported"]]
    return [symbol for symbol in exported if home(symbol["name"]) in listed]


def known(symbols: list[dict]) -> float:
    """Return the share of symbols whose types are known."""
    return sum(symbol["isTypeKnown"] for symbol in symbols) / len(symbols)


def main() -> int:
    with_stubs, without = public(report(STUBS)), public(report())
    print(
        f"types of the public interface: {known(with_stubs):.1%} known with those of "
        f"scikit-learn's base classes, {known(without):.1%} without"
    )
    if problems := readme():
        print(f"the README's code:\n{problems}")
        return 1
    if known(with_stubs) >= FLOOR:
        return 0
    for symbol in with_stubs:
        if not symbol["isTypeKnown"]:
            print(f"unknown: {symbol['name']}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
