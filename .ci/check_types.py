"""Measure with pyright how much of the public interface has known types, and fail below the floor.

Most of what is unknown is inherited: scikit-learn's base classes have no types. Whoever wants them
in an editor installs scikit-learn-stubs, so completeness is measured with these stubs. They stand
in a folder that only this script uses: mypy would believe them about scikit-learn's internals.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOOR = 0.95


def report(*path: Path) -> dict:
    """Pyright's report on the installed package, with these folders on the path of modules."""
    environment = Path(sys.prefix)
    variables = {
        **os.environ,
        "VIRTUAL_ENV": str(environment),
        "PATH": os.pathsep.join([str(environment / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *path])),
    }
    command = [sys.executable, "-m", "basedpyright", "--verifytypes", "sklearn_ldp"]
    done = subprocess.run(
        [*command, "--ignoreexternal", "--outputjson"],
        env=variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["typeCompleteness"]
    if Path(found["packageRootDirectory"]).parent != ROOT:
        raise SystemExit(f"pyright looked at {found['packageRootDirectory']}, not at {ROOT}")
    return found


def main() -> int:
    stubs = Path(sys.argv[1]).resolve()
    if not (stubs / "sklearn-stubs").is_dir():
        raise SystemExit(f"{stubs} holds no stubs of scikit-learn")
    with_stubs, without = report(stubs), report()
    print(
        f"types of the public interface: {with_stubs['completenessScore']:.1%} known with "
        f"scikit-learn-stubs, {without['completenessScore']:.1%} without"
    )
    if with_stubs["completenessScore"] >= FLOOR:
        return 0
    for symbol in with_stubs["symbols"]:
        if symbol["isExported"] and not symbol["isTypeKnown"]:
            print(f"unknown: {symbol['name']}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
