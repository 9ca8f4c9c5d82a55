"""The folder of the real histograms: it is beside the checkout, and not part of the project."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

DEFAULT_DATA = Path(__file__).parents[1] / ".." / "shared" / "data"


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    """Add an option for the folder of the histograms to a script."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("SKLEARN_LDP_DATA", DEFAULT_DATA)).resolve(),
        metavar="DIR",
        help="folder of the histograms (default: $SKLEARN_LDP_DATA, or ../shared/data)",
    )
