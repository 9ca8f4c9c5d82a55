"""The state that copies and pickles of an object take along."""

from __future__ import annotations

from typing import Any

from .locks import cached_property
from .tags import Tagged


class Uncached(Tagged):
    """Mixin whose copies, pickles and hashes leave out what `cached_property` has kept."""

    # So reading an attribute never changes an estimate's hash, and an array that is read-only
    # does not come back writeable.

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in dict(vars(self)).items()  # other threads may compute more
            if not isinstance(getattr(type(self), name, None), cached_property)
        }
