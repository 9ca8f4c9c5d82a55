"""The state of an object that its copies and pickles contain."""

from __future__ import annotations

from typing import Any

from .locks import cached_property
from .tags import Tagged


class Uncached(Tagged):
    """Mixin of classes whose copies, pickles and hashes do not contain cached properties."""

    # Reading an attribute must not change an estimate's hash, and a read-only array must not become
    # writeable in a copy.

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in dict(vars(self)).items()  # other threads may compute more
            if not isinstance(getattr(type(self), name, None), cached_property)
        }
