"""Reading of text, CSV and Parquet files, and writing of files without incomplete results."""

from __future__ import annotations

import csv
import errno
import gzip
import hashlib
import io
import os
import secrets
import socket
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from .parquet import SAFE, column_chunks, refuse_large_footer, walk_pages
from .text import decoded_lines

_NO_FOLDER = "cannot create this folder"
_LEFT_SECONDS = 86_400.0  # a write needs less than a day, so a killed process left an older file


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a new temporary file, and rename it to `path` after the `with` block.

    Before the file is renamed, it is flushed to disk. If the `with` block fails, an earlier file at
    `path` is unchanged.

    path: the file to create or to replace. If it is a link, the target of the link is replaced.

    Yields: a binary file to write to.
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
    """A new temporary file. Its errors, such as a full disk, contain the name of the final file."""

    def __init__(self, temporary: Path, path: Path) -> None:
        super().__init__(temporary, "xb")
        self._path = path

    def write(self, content: Any) -> Any:
        with errors_name(self._path):
            return super().write(content)


def check_writable(path: Path) -> None:
    """Raise OSError if a file could not be written to `path`.

    Call this before a long computation.
    """
    # A missing folder is no obstacle if `make_folder` can create it. Otherwise the error contains
    # the name of the folder.
    target = _target(path)
    folder = target.parent
    # Ends: the root is its own parent.
    while not os.path.lexists(folder) and folder != folder.parent:  # a drive may be missing, too
        folder = folder.parent
    temporary = _temporary(folder / target.name)
    names = (path,) if folder == target.parent else (target.parent, _NO_FOLDER)
    with errors_name(*names):
        temporary.open("xb").close()
    _remove(temporary)


def make_folder(path: Path) -> None:
    """Create the folder of a file that will be written, if it does not exist."""
    # path: the file. If it is a link, the folder of its target is created.
    folder = _target(path).parent
    with errors_name(folder, _NO_FOLDER):
        folder.mkdir(parents=True, exist_ok=True)


def open_regular(path: str | PathLike[str]) -> io.BufferedReader:
    """Open a regular file for reading in binary mode.

    Raise OSError for pipes and other special files.
    """
    # A pipe of this name is refused, because opening it would wait for a process that writes to it.
    no_wait = getattr(os, "O_NONBLOCK", 0)
    place = os.fspath(path)  # no descriptor, because its owner closes it
    file = open(place, "rb", opener=lambda name, flags: os.open(name, flags | no_wait))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        problem = "not a regular file. Save its content to a regular file, or pass an open file"
        raise OSError(errno.EINVAL, problem, place)
    return file


def read_regular(path: str | PathLike[str], most: int | None = None) -> bytes:
    """Return the content of a regular file. Raise ValueError if it has more than `most` bytes."""
    with open_regular(path) as file:
        content = file.read(-1 if most is None else most + 1)
    if most is not None and len(content) > most:
        raise ValueError(
            f"{path} has more than {most:,} bytes, which is more than the expected file can have. "
            "Pass another file."
        )
    return content


def sweep(path: Path) -> None:
    """Remove temporary files next to `path` that were left by processes that no longer run."""
    # A process of this machine can be checked. The files of other machines, such as containers
    # that share the folder, are removed after a day.
    target = resolved(path)
    prefix = f".{target.name}."
    for orphan in target.parent.iterdir():
        if orphan.name.startswith(prefix) and orphan.name.endswith(".tmp"):
            owner, _, rest = orphan.name[len(prefix) :].partition("-")
            with suppress(OSError):
                if rest.startswith(f"{_machine()}-"):
                    is_left = owner.isdigit() and not is_alive(int(owner))
                else:
                    is_left = time.time() - orphan.stat().st_mtime > _LEFT_SECONDS
                if is_left:
                    orphan.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return a text that identifies this machine, or this container.

    Only processes with the same text can check whether the other process runs.
    """
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{socket.gethostname()} {space}".encode()).hexdigest()[:12]


def resolved(path: Path) -> Path:
    """Return the target of a path after following all links.

    Raise OSError if links form a circle.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def _target(path: Path) -> Path:
    target = resolved(path)
    if target.exists() and not target.is_file():
        raise OSError(
            f"{path} is a folder or a special file, which cannot be replaced. Pass the name of "
            "another file."
        )
    return target


def _temporary(target: Path) -> Path:
    """Return a unique name for a temporary file in the folder of `target`.

    `sweep` recognizes such names.
    """
    unique = f"{os.getpid()}-{_machine()}-{secrets.token_hex(4)}"
    return target.with_name(f".{target.name}.{unique}.tmp")


@contextmanager
def errors_name(path: Path, failure: str = "cannot write here") -> Iterator[None]:
    """Replace the path in errors of the file system by `path`.

    This hides the names of temporary files.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"{failure} ({error.strerror})", str(path)) from error


def _remove(temporary: Path) -> None:
    with suppress(OSError):  # this error would hide the first error
        temporary.unlink(missing_ok=True)


def is_alive(process: int) -> bool:
    """Return whether a process with this id runs on this machine.

    Return True if that cannot be checked.
    """
    if os.name == "nt" or process <= 0:
        return True  # there is no harmless check
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _flush_folder(folder: Path) -> None:
    """Flush the list of names in a folder to disk.

    On Windows, nothing is done, because this is not needed.
    """
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_LINE_BYTES = 1 << 20
# A packed file may unpack to so many bytes, or to so many times its own bytes. The limits are far
# above files of users' values, because users differ.
_UNPACKED_BYTES = 1 << 24
_UNPACKED_SHARE = 100
_MAX_CELLS = 1 << 21
_CELLS_PER_BYTE = 64
_TOO_MUCH = "Write each value once, with its number of users in a second column"


class Source:
    """A file, or the bytes of a file in memory, which can be read several times."""

    # content: the path of a regular file, or the bytes of a file.
    # name: its name in errors.

    def __init__(self, content: str | PathLike[str] | bytes, name: str) -> None:
        self.name = name
        self._content = content

    def open(self) -> io.BufferedReader:
        """Open the file for reading from its beginning."""
        if isinstance(self._content, bytes):
            return io.BufferedReader(io.BytesIO(self._content))
        return open_regular(self._content)

    def starts_with(self, magic: bytes) -> bool:
        """Return whether the file begins with the bytes `magic`."""
        with self.open() as file:
            return file.read(len(magic)) == magic

    @property
    def is_parquet(self) -> bool:
        """Return whether the file is a Parquet file.

        Otherwise it is text, possibly compressed by gzip.
        """
        return self.starts_with(b"PAR1")

    def lines(self) -> Iterator[str]:
        """Yield the lines of a text file with their line ends.

        The file may be compressed by gzip.
        """
        compressed = self.starts_with(b"\x1f\x8b")
        with self.open() as file:
            try:
                unpacked = gzip.GzipFile(fileobj=file) if compressed else file
                most = max(_UNPACKED_BYTES, _UNPACKED_SHARE * self._n_bytes()) if compressed else -1
                yield from decoded_lines(_short_lines(unpacked, self.name, most), self.name)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                # An error of gzip contains two bytes of the content.
                raise ValueError(
                    f"{self.name} is a truncated or damaged gzip file. Copy the file again."
                ) from (None if are_cells_hidden() else error)

    def first_cells(self) -> list[str]:
        """Return the cells in the first line of a CSV file.

        Return an empty list if the file is empty.
        """
        try:
            return next(csv.reader(islice(self.lines(), 1)), [])
        except csv.Error as error:
            raise self._no_csv(1, error) from error

    def _no_csv(self, line: int, error: csv.Error) -> ValueError:
        return ValueError(
            f"{self.name}, line {line}: not well-formed CSV ({error}). Close every double quote, "
            "write a double quote inside a value twice, and end lines with LF or CR LF."
        )

    def _n_bytes(self) -> int:
        with self.open() as file:
            return file.seek(0, io.SEEK_END)

    def csv_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the list of cells of each row of a CSV file.

        For a row of several lines, it is the number of the last line. The list is empty for a blank
        line.
        """
        # All rows that are not blank have as many cells as the first row, which is the header.
        reader = csv.reader(self.lines(), strict=True)
        width = 0
        try:
            for cells in reader:
                width = width or len(cells)
                if cells and len(cells) != width:
                    raise ValueError(
                        f"{self.name}, line {reader.line_num}: expected {width} columns as in the "
                        f"header, got {len(cells)} columns. Put values with commas in double "
                        "quotes."
                    )
                yield reader.line_num, cells
        except csv.Error as error:
            raise self._no_csv(reader.line_num, error) from error

    def parquet_header(self) -> list[str]:
        """Return the names of the columns of a Parquet file."""
        with self._parquet_file() as file:
            return list(file.schema_arrow.names)

    def parquet_table(self, columns: list[str] | None = None) -> Any:
        """Return the columns of a Parquet file as a table of pyarrow.

        If `columns` is None, return all columns.
        """
        with self._parquet_file() as file:
            names = file.schema_arrow.names
            width = len(names) if columns is None else len(columns)
            n_cells = width * file.metadata.num_rows
            n_bytes = self._n_bytes()
            if n_cells > max(_MAX_CELLS, _CELLS_PER_BYTE * n_bytes):
                raise ValueError(
                    f"{self.name} claims {n_cells:,} cells in {n_bytes:,} bytes, which is more "
                    f"than the reader accepts. {_TOO_MUCH}."
                )
            if not n_cells:
                return file.schema_arrow.empty_table()
            return file.read(columns=columns, use_threads=False)

    @contextmanager
    def _parquet_file(self) -> Iterator[Any]:
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile  # read_table makes columns of folders' names
        except ImportError as error:
            raise ImportError(
                f"{self.name} is a Parquet file, but pyarrow is not installed. Run pip install "
                '"sklearn_ldp[data]", or convert the file to CSV.'
            ) from error
        with self.open() as file:
            try:
                n_bytes = self._n_bytes()
                refuse_large_footer(file)
                opened = ParquetFile(file, **SAFE)
                most = max(_UNPACKED_BYTES, _UNPACKED_SHARE * n_bytes)
                chunks = column_chunks(file) if opened.metadata.num_rows else ()
                total = walk_pages(file, chunks, n_bytes, lambda _: most)
                if total > most:
                    raise ValueError(
                        f"it unpacks to {total:,} bytes, which is more than the reader accepts. "
                        f"{_TOO_MUCH}"
                    )
                yield opened
            except (ArrowException, OSError, ValueError) as error:
                if str(error).startswith(f"{self.name} "):
                    raise
                detail = type(error).__name__ if are_cells_hidden() else str(error)[:200]
                raise ValueError(
                    f"{self.name} cannot be read: either it is a truncated or damaged Parquet "
                    f"file, or it is too large when it is unpacked ({detail}). Copy or download "
                    "the file again; if it is too large, split it."
                ) from error


def _short_lines(file: Any, name: str, most: int) -> Iterator[bytes]:
    """Yield the lines of a binary file.

    Raise ValueError for a line of 1 MB or more, or if all lines together have more than `most`
    bytes.
    """
    number = total = 0
    while line := file.readline(_LINE_BYTES):
        number += 1
        total += len(line)
        if 0 <= most < total:
            raise ValueError(
                f"{name} unpacks to more than {most:,} bytes, which the reader does not accept. "
                f"{_TOO_MUCH}."
            )
        if len(line) == _LINE_BYTES:
            raise ValueError(
                f"{name}, line {number}: expected lines of less than {_LINE_BYTES:,} bytes, got a "
                "longer line. Save the file as text with one row per line."
            )
        yield line


_are_cells_hidden: ContextVar[bool] = ContextVar("are_cells_hidden", default=False)


@contextmanager
def hidden_cells() -> Iterator[None]:
    """While the `with` block runs, errors do not show cells of files.

    Clients use this, because others can read their logs.
    """
    token = _are_cells_hidden.set(True)
    try:
        yield
    except (ValueError, OSError, ImportError, MemoryError):
        raise
    except Exception as error:  # a bug of the package, with a message that may contain a cell
        hidden = f"{type(error).__name__}: the message is hidden, because it may show a value"
        raise RuntimeError(hidden).with_traceback(error.__traceback__) from None
    finally:
        _are_cells_hidden.reset(token)


def are_cells_hidden() -> bool:
    """Return whether errors must not show cells of files, because `hidden_cells` is active."""
    return _are_cells_hidden.get()


def listed_columns(header: list[str]) -> str:
    """Return the number and the names of the columns of a file, for errors.

    The names are left out while `hidden_cells` is active, because they are values if the file has
    no header.
    """
    n = len(header)
    return f"{n} column{'s' * (n != 1)}" + ("" if are_cells_hidden() else f": {shorten(header)}")


def shorten(cell: object) -> str:
    """Return the repr of a cell for an error, with at most 80 characters.

    While `hidden_cells` is active, return only its type.
    """
    if are_cells_hidden():
        return f"a value of type {type(cell).__name__}"
    text = repr(cell)
    return text if len(text) <= 80 else text[:77] + "..."
