"""Paragraphs that many docstrings have in common."""

from __future__ import annotations

import inspect


def fill_in(cls: type, **paragraphs: str) -> type:
    """Replace ``%(name)s`` in a class's own docstring by the paragraph of that name.

    Parameters
    ----------
    cls : type
        The class, which is changed.
    **paragraphs : str
        By name, not indented.

    Returns
    -------
    type
        The class.
    """
    if cls.__dict__.get("__doc__"):
        text = inspect.cleandoc(cls.__doc__ or "")
        for name, paragraph in paragraphs.items():
            text = text.replace(f"%({name})s", paragraph)
        cls.__doc__ = text
    return cls
