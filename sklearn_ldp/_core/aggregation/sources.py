"""Sources of reports: files and folders, object storage, bytes, and open files."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from ..common.files import errors_name, open_regular
from ..common.text import printable
from ._batches import RefusedBatchError
from .formats import SUFFIXES as SUFFIXES
from .formats import format_of

_HELD_BYTES = 1 << 26  # of a Parquet file that cannot seek; a larger file goes to the disk
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)  # a Windows drive has one letter
_READ_AHEAD = 1 << 23  # bytes read together from an object store: few round trips, little memory


class Piped(NamedTuple):
    """A batch of reports from a pipe, with its format, which the name of a pipe does not show."""

    file: Any
    format: str
    name: str


def is_path(source: Any) -> bool:
    """Return whether the source is the name of a file or folder."""
    return isinstance(source, (str, PathLike))


def is_url(path: Any) -> bool:
    """Return whether the path is an address such as ``s3://bucket/folder``."""
    return isinstance(path, str) and _URL.match(path) is not None


def name_of(source: Any) -> str:
    """Return the words that name a source in error messages."""
    if isinstance(source, Piped):
        return source.name.capitalize()
    return f"File {printable(os.fspath(source))}" if is_path(source) else "The file"


def unreadable(source: Any, error: OSError) -> RefusedBatchError:
    """Return the RefusedBatchError for a file that the operating system cannot read."""
    reason = error.strerror or error
    return RefusedBatchError(
        f"{name_of(source)} is refused: it cannot be read ({printable(reason)}). None of its "
        "reports was counted, so add the file again when it is readable."
    )


def open_source(source: Any, form: str) -> tuple[Any, str]:
    """Open a path, URL, bytes object or binary file for reading.

    Return the open file and its format.
    """
    # Closing the result leaves the caller's own file open. A file is not mapped, because the
    # process would be killed if the file were cut short while it is mapped. If a format needs
    # seeking and the source cannot seek, the source is copied to a temporary file.
    if isinstance(source, Piped):
        source, form = source.file, source.format
    form = format_of(source, form)
    if is_url(source):
        source = remote_file(source)
    if isinstance(source, RemoteFile):
        file = source.open()
    elif is_path(source):
        return open_regular(source), form
    elif isinstance(source, (bytes, bytearray, memoryview)):
        return io.BytesIO(source), form
    else:
        file = _Borrowed(source)
    is_whole = hasattr(source, "seekable") and source.seekable() and source.tell() == 0
    if form == "parquet" and not is_whole:
        with closing(file):
            return _spooled(file), form
    return file, form


class _Borrowed:
    """A wrapper around a file of the caller, whose `close` leaves the file open."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        """Leave the file open."""


def _spooled(file: Any) -> Any:
    copy = tempfile.SpooledTemporaryFile(max_size=_HELD_BYTES)  # noqa: SIM115
    try:
        while piece := file.read(1 << 20):
            with errors_name(Path(tempfile.gettempdir())):
                copy.write(piece)
        with errors_name(Path(tempfile.gettempdir())):
            copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


def report_files(path: Any, storage_options: dict[str, Any] | None = None) -> list[Any]:
    """Return the list of all files of reports in a folder and its subfolders, sorted by name.

    If the path is a file, return it as the only item.
    """
    if is_url(path):
        if PurePosixPath(path).suffix.lower() in SUFFIXES and not path.endswith("/"):
            return [remote_file(path, storage_options)]
        return _kept(path, remote_files(path, storage_options))
    if isinstance(path, RemoteFile):
        return [path]
    path = Path(path)
    if not path.is_dir():
        return [path]
    files_in_folder = (file for file in sorted(path.rglob("*")) if file.is_file())
    return _kept(path, {file.relative_to(path): file for file in files_in_folder})


def _kept(folder: Any, files: Mapping[Any, Any]) -> list[Any]:
    """Return the files that are not hidden and have a suffix of files of reports.

    `files` maps the name of each file in the folder to the file.
    """
    kept = []
    for name, file in files.items():
        place = PurePosixPath(name)
        is_hidden = any(part.startswith((".", "_")) for part in place.parts)
        if place.suffix.lower() in SUFFIXES and not is_hidden:
            kept.append(file)
    if not kept:
        raise ValueError(
            f"There is no file of reports ({', '.join(SUFFIXES)}) in {printable(folder)}. Check "
            "the name of the folder and the suffixes of its files."
        )
    return kept


# -- object storage, through fsspec or, if it has no driver, pyarrow ------------------------------
class RemoteFile:
    """A file in object storage, which other functions accept like a path."""

    # url: its address.
    # opener: opens it for reading.

    def __init__(self, url: str, opener: Any) -> None:
        self._url = url
        self._opener = opener

    def __fspath__(self) -> str:
        return self._url

    __str__ = __fspath__

    def open(self) -> Any:
        """Open the file for reading from its beginning. All errors are raised as OSError."""
        with _os_errors():
            return io.BufferedReader(_Raw(self._opener()), _READ_AHEAD)


@contextmanager
def _os_errors() -> Iterator[None]:
    """Convert every exception of a storage driver to an OSError."""
    try:
        yield
    except (OSError, ImportError):
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


class _Raw(io.RawIOBase):
    """A raw stream of bytes from a file of a storage driver.

    A buffer around the stream can read lines of limited length, which few drivers can do.
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _os_errors():
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def remote_file(url: str, storage_options: dict[str, Any] | None = None) -> RemoteFile:
    """Return the file at an address. No request is sent before the file is opened."""

    def opener() -> Any:
        storage = _storage(url, storage_options or {})
        return storage.open(storage.path)

    return RemoteFile(url, opener)


def remote_files(url: str, storage_options: dict[str, Any] | None = None) -> dict[str, RemoteFile]:
    """Return all files in a folder of object storage and its subfolders, as a sorted dict.

    The keys are the names of the files relative to the folder.
    """
    with _os_errors():
        storage = _storage(url, storage_options or {})
        start = len(storage.path.rstrip("/")) + 1
        return {
            name[start:]: RemoteFile(storage.address(name), partial(storage.open, name))
            for name in sorted(storage.names())
        }


@contextmanager
def uploading(url: str) -> Iterator[BinaryIO]:
    """Open a temporary local file, which is uploaded to `url` after it is written.

    If the block fails, nothing is uploaded. Every error of the driver is an OSError.
    """
    with _os_errors():
        storage = _storage(url, {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports"
        with errors_name(Path(folder)), open(path, "wb") as file:
            yield file
        with _os_errors():
            storage.upload(str(path), storage.path)


class _Storage(NamedTuple):
    """A path in object storage, and functions that access its files.

    `open` opens a file by name, `names` lists the names of all files in the folder, `address`
    converts a name to an address, and `upload` copies a local file to a name.
    """

    path: str
    open: Callable[[str], Any]
    names: Callable[[], Iterable[str]]
    address: Callable[[str], str]
    upload: Callable[[str, str], Any]


def _storage(url: str, options: dict[str, Any]) -> _Storage:
    """Return the path of an address in object storage, and the functions that access it.

    The functions are from fsspec, or from pyarrow if fsspec has no driver.
    """
    try:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(url, **options)
    except (ImportError, ValueError) as error:  # an unknown protocol is a ValueError
        missing = error
    else:

        def list_files() -> Iterable[str]:
            system.invalidate_cache()  # a listing may be as old as the process
            return system.find(path)

        opened = partial(system.open, mode="rb", block_size=_READ_AHEAD)
        return _Storage(path, opened, list_files, system.unstrip_protocol, system.put_file)
    if not options:  # for pyarrow, options are part of the address
        try:
            from pyarrow.fs import FileSelector, FileSystem, FileType, copy_files

            system, path = FileSystem.from_uri(url)
        except (ImportError, ValueError, NotImplementedError):  # ArrowInvalid is a ValueError
            pass
        else:

            def files() -> Iterable[str]:
                infos = system.get_file_info(FileSelector(path, recursive=True))
                return [info.path for info in infos if info.type == FileType.File]

            scheme = url.partition("://")[0]
            address = f"{scheme}://{{}}".format
            upload = partial(copy_files, destination_filesystem=system)
            return _Storage(path, system.open_input_stream, files, address, upload)
    raise ImportError(
        f"{url} needs a storage driver that is not installed ({missing}). Run pip install "
        "'sklearn_ldp[storage]', and install the driver, for example s3fs for s3:// or gcsfs for "
        "gs://."
    ) from missing
