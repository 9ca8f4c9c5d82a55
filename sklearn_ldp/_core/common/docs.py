"""Shared paragraphs of docstrings, and links from estimators to their documentation."""

from __future__ import annotations

import inspect
import sys
from difflib import get_close_matches
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any, Self, TypeVar

from .tags import Tagged

_T = TypeVar("_T")


def fill_in(cls: type[_T], **paragraphs: str) -> type[_T]:
    """Replace each ``%(name)s`` in the docstring of a class by the paragraph with this name.

    Return the class.
    """
    if cls.__dict__.get("__doc__"):
        text = inspect.cleandoc(cls.__doc__ or "")
        for name, paragraph in paragraphs.items():
            text = text.replace(f"%({name})s", paragraph)
        cls.__doc__ = text
    return cls


def inherit_docstrings(cls: type[_T]) -> type[_T]:
    """Give public methods and properties without a docstring the docstring of the base class.

    Return the class.
    """
    for name, own in vars(cls).items():
        is_public = not name.startswith("_") and (callable(own) or isinstance(own, property))
        if is_public and not own.__doc__:
            bases = (vars(base)[name] for base in cls.__mro__[1:] if name in vars(base))
            own.__doc__ = next((base.__doc__ for base in bases if base.__doc__), None)
    return cls


class NamesParameters(Tagged):
    """Mixin of classes that raise TypeError for an unknown parameter.

    The error suggests the most similar parameter.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        signature = _signature(cls.__init__)
        try:
            signature.bind_partial(cls, *args, **kwargs)
        except TypeError as error:
            raise TypeError(_misfit(cls.__name__, signature, kwargs, error)) from None
        return super().__new__(cls)


class Documented(NamesParameters):
    """Mixin of estimators whose HTML representation contains a link to their documentation."""

    def __init__(self) -> None:  # `inspect.signature` prefers it to `__new__`
        pass

    # The address is the `Documentation` entry of `[project.urls]` in pyproject.toml, in the
    # metadata of the installed package. Without this entry there is no link. Classes of other
    # packages have no link either.

    @property
    def _doc_link_module(self) -> str:
        return "sklearn_ldp" if _address() else ""

    @property
    def _doc_link_template(self) -> str:
        # A class that the top level does not export is documented in its folder.
        is_exported = type(self).__name__ in sys.modules["sklearn_ldp"].__all__
        folder = "" if is_exported else f"{type(self).__module__.split('.')[1]}."
        return f"{_address()}/generated/sklearn_ldp.{folder}{{estimator_name}}.html"


@cache
def _signature(init: Any) -> inspect.Signature:
    """Return the signature of an `__init__` method. The result is cached to save time."""
    return inspect.signature(init)


def _misfit(name: str, signature: inspect.Signature, arguments: Any, error: TypeError) -> str:
    """Return the error message for a call of a class with wrong arguments."""
    known = dict(list(signature.parameters.items())[1:])
    unknown = next((key for key in arguments if key not in known), None)
    if unknown is None:  # too many positional arguments, or an argument twice
        call = [key if p.kind is not p.KEYWORD_ONLY else f"{key}=.." for key, p in known.items()]
        return f"{name}: {error}. Write {name}({', '.join(call)})."
    near = get_close_matches(unknown, known, 1, 0.5)
    meant = f", did you mean {near[0]!r}?" if near else f"; it has {', '.join(known) or 'none'}."
    return f"{name} has no parameter {unknown!r}{meant}"


@cache
def _address() -> str:
    """Return the address of the documentation, without a slash at the end.

    It is empty if the package has no such address.
    """
    try:
        urls = metadata("sklearn_ldp").get_all("Project-URL") or []
    except PackageNotFoundError:  # a folder of sources on the path
        urls = []
    entries = dict(url.split(", ", 1) for url in urls)
    return entries.get("Documentation", "").rstrip("/")
