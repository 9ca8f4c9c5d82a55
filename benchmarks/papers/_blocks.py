"""The pieces of a report, and how they are written as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Heading(NamedTuple):
    """A heading of a level."""

    level: int
    text: str


class Rows(NamedTuple):
    """A table."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Picture(NamedTuple):
    """A picture in the same folder."""

    file: str
    text: str


Block = Heading | Rows | Picture | str


def as_markdown(blocks: list[Block]) -> str:
    """Write blocks as Markdown."""
    parts = []
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"{'#' * block.level} {block.text}")
        elif isinstance(block, Rows):
            lines = [block.header, ["---"] * len(block.header), *block.rows]
            escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
            parts.append("\n".join(f"| {' | '.join(line)} |" for line in escaped))
        elif isinstance(block, Picture):
            parts.append(f"![{block.text}]({block.file})")
        else:
            parts.append(block)
    return "\n\n".join(parts) + "\n"
