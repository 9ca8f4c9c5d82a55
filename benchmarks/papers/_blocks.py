"""The pieces of a report, and two ways to write them."""

from __future__ import annotations

import html
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


_STYLE = (
    "body{font-family:sans-serif;max-width:75em;margin:2em auto;padding:0 1em;line-height:1.4}"
    "table{border-collapse:collapse;font-size:90%}td,th{border:1px solid #ccc;padding:.25em .5em;"
    "text-align:left;vertical-align:top}th{background:#eee}img{max-width:100%}"
    ".good{background:#dff0e4}.bad{background:#f8dfd6}.open{background:#fdf3d0}"
)


def as_html(blocks: list[Block]) -> str:
    """Write blocks as a page of HTML."""
    parts = []
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"<h{block.level}>{html.escape(block.text)}</h{block.level}>")
        elif isinstance(block, Rows):
            head = "".join(f"<th>{html.escape(cell)}</th>" for cell in block.header)
            body = "\n".join(_html_row(row) for row in block.rows)
            parts.append(f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>")
        elif isinstance(block, Picture):
            parts.append(f'<p><img src="{block.file}" alt="{html.escape(block.text)}"></p>')
        else:
            parts.append(f"<p>{html.escape(block)}</p>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>The papers, reproduced</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _html_row(row: Sequence[str]) -> str:
    marks = {"good": ("reproduced", "stands"), "bad": ("not reproduced", "does not stand")}
    mark = next((mark for mark, words in marks.items() if row[-1] in words), "")
    mark = "open" if row[-1].startswith(("in part", "undecided", "open", "stands in")) else mark
    cells = [f"<td>{html.escape(cell)}</td>" for cell in row[:-1]]
    last = f' class="{mark}"' if mark else ""
    return f"<tr>{''.join(cells)}<td{last}>{html.escape(row[-1])}</td></tr>"
