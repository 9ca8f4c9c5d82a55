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


def inherit_docstrings(cls: type[_T]) -> type[_T]:
    """Give the public methods and properties of a class that say nothing the words of a base."""
    for name, own in vars(cls).items():
        is_public = not name.startswith("_") and (callable(own) or isinstance(own, property))
        if is_public and not own.__doc__:
            bases = (vars(base)[name] for base in cls.__mro__[1:] if name in vars(base))
            own.__doc__ = next((base.__doc__ for base in bases if base.__doc__), None)
    return cls
