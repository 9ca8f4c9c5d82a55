"""Tags: the names by which files refer to the classes whose objects they may hold."""

from __future__ import annotations

from typing import Any

#: Each class by its tag, and the constants that a file names as a whole.
TAGGED: dict[str, Any] = {}


class Tagged:
    """Base of classes whose objects files may hold: ``class GRR(BaseOracle, tag="grr")``.

    A tag is a part of the format: no later release may change it. A subclass needs its own tag.
    """

    def __init_subclass__(cls, *, tag: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if tag:
            TAGGED[tag] = cls

    def __check_state__(self) -> None:
        """Raise ValueError unless the attributes, which a file has set, belong together."""


def tag_of(content: Any) -> str | None:
    """Return the tag of a class or a constant; None if a file cannot hold it."""
    return next((tag for tag, known in TAGGED.items() if known is content), None)
