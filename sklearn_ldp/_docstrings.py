"""Paragraphs that several docstrings share."""

from __future__ import annotations

import inspect
from typing import TypeVar

_T = TypeVar("_T")


def fill_in(cls: type[_T], **paragraphs: str) -> type[_T]:
    """Replace each ``%(name)s`` in a class's own docstring by the paragraph of that name.

    Parameters
    ----------
    cls : type
        The class; its docstring is changed in place.
    **paragraphs : str
        The paragraphs by name, without indentation.

    Returns
    -------
    type
        The same class.
    """
    if cls.__dict__.get("__doc__"):
        text = inspect.cleandoc(cls.__doc__ or "")
        for name, paragraph in paragraphs.items():
            text = text.replace(f"%({name})s", paragraph)
        cls.__doc__ = text
    return cls
