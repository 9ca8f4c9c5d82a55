"""Submodules that are imported when they are first asked for, as in scikit-learn."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def lazy_submodules(
    package: str, names: tuple[str, ...]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package with these submodules.

    Type checkers must not see them, or they would take any name for one of the package: write
    ``from . import ...`` for them, under ``TYPE_CHECKING``.
    """

    def get(name: str) -> Any:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names_of_package() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return get, names_of_package
