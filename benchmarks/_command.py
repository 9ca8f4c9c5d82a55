"""The command line of the benchmarks, and the folder with the real histograms.

The histograms are not part of the project. Their default folder is beside the checkout.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from sklearn_ldp.datasets import read_histogram

_BESIDE = Path(__file__).parents[2] / "shared" / "data"
DATA = Path(os.environ.get("SKLEARN_LDP_DATA", _BESIDE)).resolve()


def command(
    docstring: str, spec: ModuleSpec, *, whole: bool = False, **defaults: int
) -> argparse.ArgumentParser:
    """Return the parser of a module: its help is the first line of the docstring, or all of it.

    The defaults are those of usual options: `repeats`, `n_jobs` and `seed`.
    """
    if sys.modules["__main__"].__spec__ is spec and hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `.. | head` ends without an error
    parser = argparse.ArgumentParser(
        prog=f"python -m {spec.name.removesuffix('.__main__')}",
        description=docstring if whole else docstring.split("\n", 1)[0],
        formatter_class=argparse.RawDescriptionHelpFormatter if whole else argparse.HelpFormatter,
    )
    for name, default in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, default=default, help=f"(default: {default})")
    return parser


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    """Add an option for the folder of the histograms to a script."""
    parser.add_argument(
        "--data",
        type=Path,
        default=DATA,
        metavar="DIR",
        help="folder of the histograms (default: $SKLEARN_LDP_DATA, or ../shared/data)",
    )


def histograms(data: Path, files: dict[str, str]) -> dict[str, Any]:
    """Return the real histograms that are there, by name, and tell which are not."""
    for path in (data / file for file in files.values()):
        if not path.exists():
            print(f"skipped: there is no {path}")
    found = {name: data / file for name, file in files.items()}
    return {name: read_histogram(path) for name, path in found.items() if path.exists()}
