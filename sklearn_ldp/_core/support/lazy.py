"""Exports of a package: names imported when they are first asked for, and its classes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package."""
    # They find its public submodules, as scikit-learn's do, and the names that it exports. Type
    # checkers must not see them, or they would take any name for one of the package: write
    # `from . import ...` for them, under `TYPE_CHECKING`.
    module = sys.modules[package]
    home_of = {name: home for home, names in (homes or {}).items() for name in names.split()}

    @cache
    def public() -> set[str]:
        return {info.name for info in pkgutil.iter_modules(module.__path__) if info.name[0] != "_"}

    def get(name: str) -> Any:
        if name in home_of:
            found = getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)
            setattr(module, name, found)
            return found
        if not name.startswith("_") and name in public():
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*vars(module), *home_of, *public()})


def is_concrete(found: object, base: type) -> bool:
    """Return whether an object is a class that is derived from a base, and is not abstract."""
    return inspect.isclass(found) and issubclass(found, base) and not inspect.isabstract(found)


def exported_classes(package: Any, base: type) -> dict[str, Any]:
    """Return the classes in a package's ``__all__``, by name, that `is_concrete` is true of."""
    exported = {name: getattr(package, name) for name in package.__all__}
    return {name: found for name, found in exported.items() if is_concrete(found, base)}
