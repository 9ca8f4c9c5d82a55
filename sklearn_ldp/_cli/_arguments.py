"""Types of arguments and the options that commands share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _number(kind: type, expectation: str, is_fine: Callable[[Any], bool]) -> Callable[[str], Any]:
    """Return an argparse type: a number that is fine, or an error that says what was expected."""

    def parse(text: str) -> Any:
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not is_fine(number):
            raise argparse.ArgumentTypeError(f"expected {expectation}, got {text!r}")
        return number

    return parse


positive = _number(float, "a finite number > 0", lambda x: 0 < x < math.inf)
share = _number(float, "a number between 0 and 1", lambda x: 0 < x < 1)
count = _number(int, "a whole number >= 1", lambda x: x >= 1)
seed = _number(int, "a whole number >= 0", lambda x: x >= 0)
jobs = _number(int, "a number of threads >= 1, or -1 for all cores", lambda x: x >= 1 or x == -1)


def new_command(
    commands: Any, name: str, run: Callable, *, title: str, description: str, epilog: str
) -> argparse.ArgumentParser:
    """Add a sub-command whose `run` takes the parsed arguments."""
    parser = commands.add_parser(
        name,
        help=title,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def add_epsilon(parser: Any) -> None:
    """Add ``--epsilon``."""
    parser.add_argument(
        "--epsilon",
        type=positive,
        default=1.0,
        metavar="E",
        help="privacy budget of one report, > 0 (default: 1)",
    )


def add_jobs(parser: Any) -> None:
    """Add ``--jobs``."""
    parser.add_argument(
        "--jobs",
        type=jobs,
        default=-1,
        metavar="N",
        help="threads; the result does not depend on it (default: -1, all cores)",
    )


def check_suffix(path: Path, suffixes: tuple[str, ...]) -> None:
    """Refuse an output file whose name does not say a known format."""
    if not path.name.lower().endswith(suffixes):
        raise ValueError(
            f"--output {path}: the name must end in {', '.join(suffixes)}, which says the format."
        )
