"""``python -m sklearn_ldp``, and the console script ``sklearn-ldp``."""

import sys
from collections.abc import Sequence

from ._cli import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    # argv: the arguments; None takes those of the process.
    return run(argv)


if __name__ == "__main__":
    sys.exit(main())
