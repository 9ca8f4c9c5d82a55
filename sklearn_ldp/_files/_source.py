"""Text, CSV and Parquet, told from their content and read with errors that name the place."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from ._text import decoded_lines


class Source:
    """A file, or bytes in memory, whose content can be read several times.

    Parameters
    ----------
    content : path-like or bytes
        A regular file, or what one would hold.
    name : str
        What errors call it.
    """

    def __init__(self, content: str | PathLike[str] | bytes, name: str) -> None:
        self.name = name
        self._content = content
        if not isinstance(content, bytes):
            path = Path(content)
            # A pipe would have lost its beginning by the second reading; a folder fails to open.
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise ValueError(
                    f"{name} is no regular file, so it cannot be read more than once. Save its "
                    "content to a file first."
                )

    def open(self) -> io.BufferedReader:
        """Open it at its beginning."""
        if isinstance(self._content, bytes):
            return io.BufferedReader(io.BytesIO(self._content))
        return open(self._content, "rb")

    def starts_with(self, magic: bytes) -> bool:
        """Whether these are its first bytes."""
        with self.open() as file:
            return file.read(len(magic)) == magic

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file; anything else is text, plain or gzip."""
        return self.starts_with(b"PAR1")

    def lines(self) -> Iterator[str]:
        """Yield the lines of a text file, plain or gzip, with their ends."""
        compressed = self.starts_with(b"\x1f\x8b")
        with self.open() as file:
            try:
                yield from decoded_lines(
                    gzip.GzipFile(fileobj=file) if compressed else file, self.name
                )
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(
                    f"{self.name} is a truncated or damaged gzip file ({error}). Copy or download "
                    "it again."
                ) from error

    def csv_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of the last line of each CSV row, and its cells; none if it is blank.

        All rows that are not blank have as many cells as the first one, which is the header.
        """
        reader = csv.reader(self.lines(), strict=True)
        width = 0
        try:
            for cells in reader:
                width = width or len(cells)
                if cells and len(cells) != width:
                    raise ValueError(
                        f"{self.name}, line {reader.line_num}: expected {width} columns as in the "
                        f"header, got {len(cells)}: {shorten(cells)}. Put a value that contains a "
                        "comma in double quotes."
                    )
                yield reader.line_num, cells
        except csv.Error as error:
            raise ValueError(
                f"{self.name}, line {reader.line_num}: not well-formed CSV ({error}). Close every "
                "double quote, and write a double quote inside a value twice."
            ) from error

    def parquet_header(self) -> list[str]:
        """Return the names of the columns of a Parquet file."""
        with self._parquet_file() as file:
            return list(file.schema_arrow.names)

    def parquet_table(self, columns: list[str] | None = None) -> Any:
        """Return these columns of a Parquet file, or all of them, as a table of pyarrow."""
        with self._parquet_file() as file:
            return file.read(columns=columns)

    @contextmanager
    def _parquet_file(self) -> Iterator[Any]:
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile  # read_table takes columns from folders' names
        except ImportError as error:
            raise ImportError(
                f"{self.name} is a Parquet file, which needs pyarrow, which is not installed. "
                'Install it with pip install "sklearn_ldp[data]", or convert the file to CSV.'
            ) from error
        with self.open() as file:
            try:
                yield ParquetFile(file)
            except (ArrowException, OSError) as error:
                raise ValueError(
                    f"{self.name} is a truncated or damaged Parquet file ({error}). Copy or "
                    "download it again."
                ) from error


def shorten(cell: object) -> str:
    """Return what an error says of a cell: its repr, of 80 characters at most."""
    text = repr(cell)
    return text if len(text) <= 80 else text[:77] + "..."
