"""Tags: the names by which files refer to the classes whose objects they may hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np

#: Each class by its tag, and the constants that a file names as a whole.
TAGGED: dict[str, Any] = {}


class Tagged:
    """Base of classes whose objects files may hold: ``class GRR(BaseOracle, tag="grr")``.

    A tag is a part of the format: no later release may change it. A subclass needs its own tag.
    `load_estimate` refuses an attribute that has not the type that the class declares for it.
    """

    def __init_subclass__(cls, *, tag: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if tag:
            TAGGED[tag] = cls

    def __check_state__(self) -> int | None:
        """Raise ValueError unless the attributes, which a file has set, belong together.

        Returns
        -------
        int or None
            Number of bytes of other objects' arrays that the check has read; None for 0.
        """


def tag_of(content: Any) -> str | None:
    """Return the tag of a class or a constant; None if a file cannot hold it."""
    return next((tag for tag, known in TAGGED.items() if known is content), None)


def check_types(content: Any) -> None:
    """Raise ValueError unless each attribute has the type that its class declares."""
    for name, declared in _declared(content.__class__).items():
        if not _fits(getattr(content, name), declared):
            raise ValueError(f"the {name} of a {type(content).__name__} is no {declared}")


@cache
def _declared(kind: type) -> dict[str, Any]:
    """The types that the class declares, or the class of this package that it is derived from."""
    return get_type_hints(next((base for base in kind.__mro__ if tag_of(base)), object))


def _fits(content: Any, declared: Any) -> bool:
    """Return whether an object and the items of a container have the declared type.

    A declared array is one of numbers, and a declared float is finite.
    """
    kind, items = get_origin(declared) or declared, get_args(declared)
    if kind in (Any, ClassVar):
        return True
    if kind in (Union, UnionType):
        return any(_fits(content, item) for item in items)
    if kind is float:
        return isinstance(content, Real) and math.isfinite(content)
    if kind is np.ndarray:
        return isinstance(content, np.ndarray) and content.dtype.kind in "biuf"
    if not items or kind is Callable:
        return isinstance(content, Integral if kind is int else kind)
    if not isinstance(content, kind):
        return False
    if isinstance(content, Mapping):
        return all(all(map(_fits, pair, items)) for pair in content.items())
    if kind is tuple and items[-1] is not ...:
        return len(content) == len(items) and all(map(_fits, content, items))
    return all(_fits(item, items[0]) for item in content)
