"""Names of a package that are imported at their first use, and lists of its classes."""

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
    """Return the functions ``__getattr__`` and ``__dir__`` for a package with lazy imports.

    `homes` maps the name of each submodule to the names that the package exports from it, separated
    by spaces.
    """
    # These functions return its public submodules, as in scikit-learn, and its exports. Hide them
    # from type checkers, which would otherwise accept any name: write `from . import ...` for type
    # checkers, under `TYPE_CHECKING`.
    module = sys.modules[package]
    home_of = {name: home for home, names in (homes or {}).items() for name in names.split()}

    @cache
    def public() -> set[str]:
        return {info.name for info in pkgutil.iter_modules(module.__path__) if info.name[0] != "_"}

    def get(name: str) -> Any:
        if name in home_of:
            value = getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)
            setattr(module, name, value)
            return value
        if not name.startswith("_") and name in public():
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*vars(module), *home_of, *public()})


def is_concrete(thing: object, base: type) -> bool:
    """Return whether an object is a non-abstract class that is derived from `base`."""
    return inspect.isclass(thing) and issubclass(thing, base) and not inspect.isabstract(thing)


def exported_classes(package: Any, base: type) -> dict[str, Any]:
    """Return the classes in a package's ``__all__`` that are derived from `base` and not abstract.

    The result maps names to classes.
    """
    exported = {name: getattr(package, name) for name in package.__all__}
    return {name: thing for name, thing in exported.items() if is_concrete(thing, base)}
