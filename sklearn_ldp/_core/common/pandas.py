"""The import of pandas and polars, which are optional dependencies."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_pandas(name: str) -> Any:
    """Import pandas and return the module.

    If it is not installed, raise ImportError with `name` in the message.
    """
    return import_library(name, "pandas")


def import_library(name: str, library: str) -> Any:
    """Import pandas or polars and return the module.

    If it is not installed, raise ImportError with `name` in the message.
    """
    try:
        return import_module(library)
    except ImportError as error:
        text = f"{name} needs {library}. Run pip install 'sklearn_ldp[data]'."
        raise ImportError(text) from error
