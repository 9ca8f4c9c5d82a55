"""Submodules that are imported when they are first asked for, as in scikit-learn."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


def lazy_submodules(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package with public submodules.

    Type checkers must not see them, or they would take any name for one of the package: write
    ``from . import ...`` for them, under ``TYPE_CHECKING``.
    """
    module = sys.modules[package]

    @cache
    def public() -> set[str]:
        return {info.name for info in pkgutil.iter_modules(module.__path__) if info.name[0] != "_"}

    def get(name: str) -> Any:
        if not name.startswith("_") and name in public():
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*vars(module), *public()})
