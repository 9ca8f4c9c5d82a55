"""Entry point of ``python -m sklearn_ldp`` and of the console script ``sklearn-ldp``."""

import sys
from collections.abc import Sequence

from ._cli import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line program with these arguments."""
    # argv: the arguments. If None, the arguments of the process.
    # Returns the exit code: 0 after success, 1 after a refusal or failure, 2 for wrong arguments,
    # 130 after Ctrl-C, 141 if the reader of the output has closed it.
    return run(argv)


if __name__ == "__main__":
    sys.exit(main())
