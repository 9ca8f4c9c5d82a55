"""What a batch is read from: files and folders, object storage, bytes, and open files."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterable
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from .._files._text import printable
from ._batches import RefusedBatchError
from ._formats import SUFFIXES, format_of
from ._storage import RemoteFile, is_url, remote_file, remote_files

_HELD_BYTES = 1 << 26  # of a Parquet file that cannot be sought in; a larger one goes to the disk


class Piped(NamedTuple):
    """A batch that comes through a pipe, of which nobody knows the format but the caller."""

    file: Any
    format: str
    name: str


def is_path(source: Any) -> bool:
    """Whether the source names a file or a folder."""
    return isinstance(source, (str, PathLike))


def name_of(source: Any) -> str:
    """How errors call a source."""
    if isinstance(source, Piped):
        return source.name.capitalize()
    return f"File {printable(os.fspath(source))}" if is_path(source) else "The file"


def unreadable(source: Any, error: OSError) -> RefusedBatchError:
    """The refusal of a file that the system does not let us read."""
    reason = error.strerror or error
    return RefusedBatchError(
        f"{name_of(source)} is refused: it cannot be read ({printable(reason)}). Nothing of it "
        "was counted: add it again once it can be."
    )


def open_source(source: Any, form: str) -> tuple[Any, str]:
    """Open a path, URL, bytes or binary file for reading, and return it with its format.

    Closing it leaves the caller's own file open. A file is not mapped, because one that is cut
    short while it is mapped kills the process. A format that needs seeking is copied to a temporary
    file if the source cannot do that.
    """
    if isinstance(source, Piped):
        source, form = source.file, source.format
    form = format_of(source, form)
    if is_url(source):
        source = remote_file(source)
    if isinstance(source, RemoteFile):
        file = source.open()
    elif is_path(source):
        return open(source, "rb"), form
    elif isinstance(source, (bytes, bytearray, memoryview)):
        return io.BytesIO(source), form
    else:
        file = _Borrowed(source)
    if form == "parquet" and (isinstance(source, RemoteFile) or not _starts_whole(source)):
        with file:
            return _spooled(file), form
    return file, form


class _Borrowed:
    """A file that somebody else closes."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Borrowed:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        """Leave it open."""


def _starts_whole(file: Any) -> bool:
    return hasattr(file, "seekable") and file.seekable() and file.tell() == 0


def _spooled(file: Any) -> Any:
    copy = tempfile.SpooledTemporaryFile(max_size=_HELD_BYTES)  # noqa: SIM115
    try:
        shutil.copyfileobj(file, copy, 1 << 20)
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


def report_files(path: Any, storage_options: dict[str, Any] | None = None) -> list[Any]:
    """The files of reports in a folder and its subfolders, sorted by name; or the file itself."""
    if is_url(path):
        if PurePosixPath(path).suffix.lower() in SUFFIXES and not path.endswith("/"):
            return [remote_file(path, storage_options)]
        files = remote_files(path, storage_options)
        return _kept(path, files, [file.relative for file in files])
    if isinstance(path, RemoteFile):
        return [path]
    path = Path(path)
    if not path.is_dir():
        return [path]
    found = [file for file in sorted(path.rglob("*")) if file.is_file()]
    return _kept(path, found, [file.relative_to(path) for file in found])


def _kept(folder: Any, files: Iterable[Any], names: Iterable[Any]) -> list[Any]:
    """The files in a folder whose names are those of reports, and are not hidden."""
    kept = []
    for file, name in zip(files, names, strict=True):
        place = PurePosixPath(name)
        is_hidden = any(part.startswith((".", "_")) for part in place.parts)
        if place.suffix.lower() in SUFFIXES and not is_hidden:
            kept.append(file)
    if not kept:
        raise ValueError(
            f"There is no file of reports ({', '.join(SUFFIXES)}) in {printable(folder)}."
        )
    return kept
