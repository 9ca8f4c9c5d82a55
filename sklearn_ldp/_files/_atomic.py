"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that takes the path's name when all is written, flushed to disk.

    Parameters
    ----------
    path : Path
        The file to make or to replace.

    Yields
    ------
    file
        To be written; if the block fails, the path is as it was.
    """
    temporary = path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def sweep(path: Path) -> None:
    """Remove the temporary files that processes left that are no more."""
    prefix = f".{path.name}."
    for orphan in path.parent.iterdir():
        if orphan.name.startswith(prefix) and orphan.name.endswith(".tmp"):
            owner = orphan.name[len(prefix) :].partition("-")[0]
            if owner.isdigit() and not _is_alive(int(owner)):
                orphan.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if os.name == "nt" or process <= 0:
        return True  # there is no harmless way to ask
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _flush_folder(folder: Path) -> None:
    """Make the file's new name last; Windows does not open folders, and needs no such thing."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
