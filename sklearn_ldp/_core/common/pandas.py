"""The import of pandas or polars, which are optional."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_pandas(name: str) -> Any:
    """Return the module pandas."""
    return import_library(name, "pandas")


def import_library(name: str, library: str) -> Any:
    """Return the module "pandas" or "polars", like `import_pandas`."""
    try:
        return import_module(library)
    except ImportError as error:
        text = f"{name} needs {library}. Run: pip install 'sklearn_ldp[data]'."
        raise ImportError(text) from error
