"""Files that appear whole or not at all."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the name `path` once it is written and flushed to disk.

    Parameters
    ----------
    path : Path
        The file to create or to replace. If it is a link, the file that it points to is replaced.

    Yields
    ------
    file
        A binary file to write to. If the block fails, whatever was at `path` is unchanged.

    Raises
    ------
    OSError
        If no file can be written there. The error names `path` and not the temporary file.
    """
    target = _target(path)
    temporary = _temporary(target)
    try:
        with errors_name(path):
            file = io.BufferedWriter(_NamedFile(temporary, path))
        with file:
            yield file
            with errors_name(path):
                file.flush()
                os.fsync(file.fileno())
        with errors_name(path):
            os.replace(temporary, target)
    except BaseException:
        _remove(temporary)
        raise
    with errors_name(path):
        _flush_folder(target.parent)


class _NamedFile(io.FileIO):
    """A new file whose errors, such as those of a full disk, name the file it will become."""

    def __init__(self, temporary: Path, path: Path) -> None:
        super().__init__(temporary, "xb")
        self._path = path

    def write(self, content: Any) -> Any:
        with errors_name(self._path):
            return super().write(content)


def check_writable(path: Path) -> None:
    """Raise OSError if the file could not be written: to be asked before long work.

    A missing folder is no obstacle if `make_folder` could create it; the error names it if not.
    """
    target = _target(path)
    folder = target.parent
    while not os.path.lexists(folder) and folder != folder.parent:  # a drive may be missing, too
        folder = folder.parent
    temporary = _temporary(folder / target.name)
    with errors_name(path) if folder == target.parent else _errors_name_folder(target.parent):
        temporary.open("xb").close()
    _remove(temporary)


def make_folder(path: Path) -> None:
    """Create the folder of a file that is about to be written, if it is missing.

    Parameters
    ----------
    path : Path
        The file. If it is a link, the folder is that of the file which it points to.

    Raises
    ------
    OSError
        If the folder cannot be created. The error names it.
    """
    folder = _target(path).parent
    with _errors_name_folder(folder):
        folder.mkdir(parents=True, exist_ok=True)


def sweep(path: Path) -> None:
    """Remove the temporary files for `path` that processes left behind which no longer run."""
    target = path.resolve()
    prefix = f".{target.name}."
    for orphan in target.parent.iterdir():
        if orphan.name.startswith(prefix) and orphan.name.endswith(".tmp"):
            owner = orphan.name[len(prefix) :].partition("-")[0]
            if owner.isdigit() and not is_alive(int(owner)):
                orphan.unlink(missing_ok=True)


def _target(path: Path) -> Path:
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise OSError(f"{path} is no file that could be replaced; name another file.")
    return target


def _temporary(target: Path) -> Path:
    """A name that `sweep` understands, in the same folder: a rename there is atomic."""
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


@contextmanager
def errors_name(path: Path, what: str = "cannot write here") -> Iterator[None]:
    """Make an error of the file system name this path instead of a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"{what} ({error.strerror})", str(path)) from error


def _errors_name_folder(folder: Path) -> AbstractContextManager[None]:
    return errors_name(folder, "cannot create this folder")


def _remove(temporary: Path) -> None:
    with suppress(OSError):  # which would hide the error that made the file useless
        temporary.unlink(missing_ok=True)


def is_alive(process: int) -> bool:
    """Whether a process of this number runs on this machine."""
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
    """Make the new name durable. Windows cannot open folders, and does not need this."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
