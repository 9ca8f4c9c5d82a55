"""``python -m sklearn_ldp``, and the console script ``sklearn-ldp``."""

import sys
from collections.abc import Sequence

from ._cli import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    # argv: the arguments; None takes those of the process.
    # Returns the exit code: 0 when done, 1 when something was refused or failed, 2 when the
    # arguments are wrong, 130 after Ctrl-C, 141 when nobody reads the output any more.
    return run(argv)


if __name__ == "__main__":
    sys.exit(main())
