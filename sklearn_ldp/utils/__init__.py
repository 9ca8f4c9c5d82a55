"""Discovery of all estimators, and checks that third-party estimators can run on themselves."""

import importlib
from typing import Any

_SUBMODULES = ("discovery", "estimator_checks")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
