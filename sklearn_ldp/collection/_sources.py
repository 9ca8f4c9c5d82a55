"""What a batch is read from: files and folders, bytes, and open files."""

from __future__ import annotations

import io
import os
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from .._files._text import printable
from ._batches import RefusedBatchError
from ._formats import SUFFIXES


def is_path(source: Any) -> bool:
    """Whether the source names a file or a folder."""
    return isinstance(source, (str, PathLike))


def name_of(source: Any) -> str:
    """How errors call a source."""
    return f"File {printable(os.fspath(source))}" if is_path(source) else "The file"


def unreadable(source: Any, error: OSError) -> RefusedBatchError:
    """The refusal of a file that the system does not let us read."""
    reason = error.strerror or error
    return RefusedBatchError(
        f"{name_of(source)} is refused: it cannot be read ({printable(reason)}). Nothing of it "
        "was counted: add it again once it can be."
    )


def open_source(source: Any) -> BinaryIO:
    """Open a path, bytes or a binary file for reading; closing it leaves the caller's file open.

    A path is not mapped: a file that is cut short while it is mapped kills the process.
    """
    if is_path(source):
        return open(source, "rb")
    content = source if isinstance(source, (bytes, bytearray, memoryview)) else source.read()
    return io.BytesIO(content)


def report_files(path: Any) -> list[Path]:
    """The files of reports in a folder and its subfolders, sorted by name; or the file itself."""
    path = Path(path)
    if not path.is_dir():
        return [path]
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    ]
    if not files:
        raise ValueError(
            f"There is no file of reports ({', '.join(SUFFIXES)}) in {printable(path)}."
        )
    return files
