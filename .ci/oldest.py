"""Print the lowest version of everything that pyproject.toml asks for: ``oldest.py [EXTRA ...]``.

One pin a line, for ``pip install -r``.
"""

import re
import sys
import tomllib
from pathlib import Path

# What packages of that age ask for without an upper bound, and cannot use any more.
OF_THEIR_TIME = ["pyparsing<3.2"]


def main(extras: list[str]) -> None:
    """Print the pins of the dependencies and of the extras, and of what the extras name."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    pending, pins = [*project["dependencies"]], []
    for extra in extras:
        pending += optional[extra]
    while pending:
        requirement = pending.pop(0)
        if own := re.fullmatch(rf"{project['name']}\[(.*)\]", requirement):
            for extra in own[1].split(","):
                pending += optional[extra]
        elif bound := re.fullmatch(r"([\w.-]+(?:\[\w+\])?)>=([\w.]+)(?:,<[\w.]+)?", requirement):
            pins.append(f"{bound[1]}=={bound[2]}")
        else:
            raise SystemExit(f"pyproject.toml: {requirement!r} should be of the form name>=version")
    print("\n".join([*pins, *OF_THEIR_TIME]))


if __name__ == "__main__":
    main(sys.argv[1:])
