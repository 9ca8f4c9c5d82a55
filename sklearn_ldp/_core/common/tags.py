"""Tags, which are the names of classes in saved files of estimates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np

#: Each class by its tag, and the constants that have a tag.
TAGGED: dict[str, Any] = {}


class Tagged:
    """Base of classes whose objects can be saved: ``class GRR(BaseOracle, tag="grr")``.

    The tag is the name of the class in saved files, so no later release may change it. A subclass
    needs its own tag. `load_estimate` raises an error if an attribute in a file has another type
    than the class declares.
    """

    def __init_subclass__(cls, *, tag: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if tag:
            TAGGED[tag] = cls

    def __check_state__(self) -> int | None:
        """Raise ValueError if the attributes of an object from a file contradict each other.

        Returns
        -------
        int or None
            Size in bytes of the arrays of other objects, if the check has read such arrays. The
            reader of the file limits the sum of these sizes. None means 0.
        """


def tag_of(content: Any) -> str | None:
    """Return the tag of a class or constant.

    Return None if it has no tag, so that it cannot be saved.
    """
    return next((tag for tag, tagged in TAGGED.items() if tagged is content), None)


def check_types(content: Any) -> None:
    """Raise ValueError unless each attribute of an object has the type that its class declares."""
    for name, declared in _declared(content.__class__).items():
        if not _fits(getattr(content, name), declared):
            raise ValueError(
                f"the attribute {name} of a {type(content).__name__} does not have the type "
                f"{declared}. Save the object again"
            )


@cache
def _declared(kind: type) -> dict[str, Any]:
    """Return the types of attributes that a class declares.

    For a class of another package, use its first base class in this package.
    """
    return get_type_hints(next((base for base in kind.__mro__ if tag_of(base)), object))


def _fits(content: Any, declared: Any) -> bool:
    """Return whether an object has a declared type. The items of containers are also checked.

    An array must contain numbers, and a float must be finite.
    """
    kind = get_origin(declared) or declared
    items = get_args(declared)
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
