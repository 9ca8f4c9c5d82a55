"""Errors of the defaults if data are noisy, compared with simple methods, in several sections.

The module of each section describes its data."""

from __future__ import annotations

from importlib import import_module

from .._command import command

SECTIONS = ("frequencies", "statements", "labels", "models", "tables")


def main() -> None:
    """Print the sections' tables."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--quick", action="store_true", help="fewer cells and repeats")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, metavar="SECTION")
    arguments = parser.parse_args()
    for section in arguments.only:
        import_module(f"{__package__}._weak_{section}").main(arguments.quick)


if __name__ == "__main__":
    main()
