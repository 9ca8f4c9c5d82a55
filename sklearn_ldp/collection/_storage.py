"""Files in object storage, through fsspec or, where that has no driver, pyarrow."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)  # a Windows drive has one letter
_READ_AHEAD = 1 << 23


def is_url(path: Any) -> bool:
    """Whether a path is an address such as ``s3://bucket/folder``."""
    return isinstance(path, str) and _URL.match(path) is not None


class RemoteFile:
    """A file in object storage, which stands where a path may stand.

    Parameters
    ----------
    url : str
        Its address.
    relative : str
        Its name in the folder that was asked for.
    opener : callable
        Opens it for reading.
    """

    def __init__(self, url: str, relative: str, opener: Any) -> None:
        self.relative = relative
        self._url = url
        self._opener = opener

    def __fspath__(self) -> str:
        return self._url

    __str__ = __fspath__

    def open(self) -> Any:
        """Open it for reading from its beginning; whatever goes wrong is an OSError."""
        with _os_errors():
            return io.BufferedReader(_Raw(self._opener()), _READ_AHEAD)


@contextmanager
def _os_errors() -> Iterator[None]:
    """Make an OSError of whatever a driver raises."""
    try:
        yield
    except (OSError, ImportError):
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


class _Raw(io.RawIOBase):
    """What all drivers have in common: bytes in their order. Few read lines with a limit."""

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
    """The file at an address, which nobody is asked for before it is opened."""
    options = storage_options or {}
    return RemoteFile(url, "", lambda: _through(url, options, _fsspec_open, _pyarrow_open))


def remote_files(url: str, storage_options: dict[str, Any] | None = None) -> list[RemoteFile]:
    """All files in a folder of object storage and below, sorted by name.

    Parameters
    ----------
    url : str
        Address of the folder.
    storage_options : dict, default=None
        What fsspec's driver needs, such as credentials.

    Returns
    -------
    list of RemoteFile
        They are opened one by one, when they are read.

    Raises
    ------
    OSError
        If the storage cannot be reached, or does not let us list the folder.
    ImportError
        If neither fsspec nor pyarrow has a driver for it.
    """
    with _os_errors():
        return _through(url, storage_options or {}, _fsspec_list, _pyarrow_list)


def _through(url, options, by_fsspec, by_pyarrow):
    """Do it by fsspec, or by pyarrow if fsspec has no driver."""
    try:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(url, **options)
    except (ImportError, ValueError) as error:  # an unknown protocol is a ValueError
        missing = error
    else:
        return by_fsspec(system, path)
    if not options:  # those of pyarrow are part of the address
        try:
            from pyarrow import ArrowInvalid
            from pyarrow.fs import FileSystem

            system, path = FileSystem.from_uri(url)
        except (ImportError, ArrowInvalid, NotImplementedError):
            pass
        else:
            return by_pyarrow(system, path, url.partition("://")[0])
    raise ImportError(
        f"{url} needs a driver that is not installed ({missing}). Install it with pip install "
        "'sklearn_ldp[storage]', and for instance s3fs for s3:// or gcsfs for gs://."
    ) from missing


def _fsspec_open(system, path):
    return system.open(path, "rb", block_size=_READ_AHEAD)


def _fsspec_list(system, path):
    system.invalidate_cache()  # a listing may be as old as the process
    start = len(path.rstrip("/")) + 1
    return [
        RemoteFile(system.unstrip_protocol(name), name[start:], partial(_fsspec_open, system, name))
        for name in sorted(system.find(path))
    ]


def _pyarrow_open(system, path, scheme):
    return system.open_input_stream(path)


def _pyarrow_list(system, path, scheme):
    from pyarrow.fs import FileSelector, FileType

    found = system.get_file_info(FileSelector(path, recursive=True))
    start = len(path.rstrip("/")) + 1
    return [
        RemoteFile(f"{scheme}://{name}", name[start:], partial(_pyarrow_open, system, name, scheme))
        for name in sorted(info.path for info in found if info.type == FileType.File)
    ]
