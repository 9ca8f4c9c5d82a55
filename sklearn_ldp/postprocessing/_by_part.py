"""Parameters that say something else of each part of a set of estimates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from sklearn.base import clone

_T = TypeVar("_T")


def copies_for_parts(
    postprocessor: _T, parameters: Iterable[str], names: list[Any]
) -> dict[Any, _T]:
    """Return an unfitted copy of a post-processor for each part of a set.

    Parameters
    ----------
    postprocessor : post-processor
        The one to copy.
    parameters : iterable of str
        Its parameters that may be mappings by the names of parts. A copy has the value of its part,
        or the default where a mapping leaves the part out.
    names : list
        The names of the parts.

    Returns
    -------
    dict of post-processor
        The copies by name.

    Raises
    ------
    ValueError
        If a mapping has a key that is not the name of a part.
    """
    given: Any = postprocessor
    mappings = {
        parameter: value
        for parameter in parameters
        if isinstance(value := getattr(given, parameter, None), Mapping)
    }
    for parameter, by_part in mappings.items():
        unknown = [key for key in by_part if key not in names]
        if unknown:
            raise ValueError(
                f"{type(given).__name__} takes {parameter} of each part of a set of estimates, by "
                f"name, got the key {unknown[0]!r}; the parts are {', '.join(map(repr, names))}. "
                f"Pass {parameter}={{{names[0]!r}: ...}}."
            )
    defaults = type(given)().get_params(deep=False) if mappings else {}
    copies = {}
    for name in names:
        own = {one: by_part.get(name, defaults[one]) for one, by_part in mappings.items()}
        copies[name] = clone(given).set_params(**own)
    return copies
