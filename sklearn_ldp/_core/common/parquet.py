"""Checks of the sizes that a Parquet file claims, before memory is allocated for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import SEEK_CUR, SEEK_END, BytesIO
from typing import Any

_BOOLEANS, _I32, _I64, _LIST, _STRUCT = (1, 2), 5, 6, 9, 12  # types of Thrift's fields
# A footer may have so many bytes, and for many columns this part of the file's bytes more.
_FOOTER_BYTES = 1 << 20
_FOOTER_SHARE = 16
#: Options of a ParquetFile with an untrusted footer.
SAFE: dict[str, Any] = {
    "pre_buffer": False,
    "thrift_string_size_limit": 1 << 20,
    "thrift_container_size_limit": 1 << 20,
}


def refuse_large_footer(source: Any) -> None:
    """Raise ValueError if the footer of a Parquet file is too large.

    Three bytes of a footer may need 700 bytes of memory.
    """
    n_bytes = source.seek(0, SEEK_END)
    source.seek(max(n_bytes - 8, 0))
    length = int.from_bytes(source.read(4), "little")
    most = _FOOTER_BYTES + n_bytes // _FOOTER_SHARE
    if length > most:
        raise ValueError(
            f"the footer has {length} bytes, but at most {most} are accepted. Write the file with "
            "fewer row groups or columns"
        )
    source.seek(0)


def column_chunks(source: Any) -> Iterator[tuple[int, int, int]]:
    """Yield three integers for each column in each row group of a Parquet file.

    They are the positions of the first byte and after the last byte, and the number of rows.
    """
    # The footer is parsed here, because Arrow's accessor of a column ends the process if the
    # file's statistics are damaged.
    # source: a Parquet file; its footer is not too large.
    end = source.seek(-8, SEEK_END)
    length = int.from_bytes(source.read(4), "little")
    source.seek(end - length)
    try:
        footer = _thrift(BytesIO(source.read(length)), _STRUCT)
        for group in footer[4, _LIST]:  # the format specifies the numbers and types of fields
            for column in group[1, _LIST]:
                sizes = column[3, _STRUCT]
                start = sizes[9, _I64]
                dictionary = sizes.get((11, _I64), 0)
                start = dictionary if 0 < dictionary < start else start
                yield start, start + sizes[7, _I64], group[3, _I64]
    except (LookupError, TypeError, AttributeError):
        raise ValueError("the footer is damaged. Copy the file again") from None


def _thrift(file: BytesIO, kind: int, depth: int = 16) -> Any:
    """Return a value in Thrift's compact protocol, read at the present position of a file.

    A struct is returned as a dict. Its keys are pairs of the number and the type of a field.
    """
    # Arrow skips fields of other types, and uses the last of several equal fields. Honest files
    # have neither equal fields nor explicit numbers of fields. Both are errors here, so that Arrow
    # and this function read the same content.
    if kind == _STRUCT and depth:
        fields: dict[tuple[int, int], Any] = {}
        number = 0
        # Ends: numbers of fields rise, and those above 99 are refused.
        while head := file.read(1)[0]:
            delta, field = divmod(head, 16)
            number += delta
            if not delta or number > 99 or (number, field) in fields:
                raise IndexError("the bytes are not a field of a footer or a page header")
            fields[number, field] = None if field in _BOOLEANS else _thrift(file, field, depth - 1)
        return fields
    if kind == _LIST and depth:
        size, item = divmod(file.read(1)[0], 16)
        size = _varint(file) if size == 15 else size
        return [_thrift(file, 3 if item in _BOOLEANS else item, depth - 1) for _ in range(size)]
    if kind == 8:  # bytes
        return file.seek(_varint(file), SEEK_CUR)
    if kind in (4, _I32, _I64):
        value = _varint(file)
        return value >> 1 ^ -(value & 1)
    return file.read({3: 1, 7: 8}[kind])[0]  # a byte, and a float


def walk_pages(
    source: Any, chunks: Iterable[tuple[int, int, int]], n_bytes: int, most: Callable[[int], int]
) -> int:
    """Raise ValueError if pages of a Parquet file are too large, or outside of their column.

    Otherwise return the total unpacked size of all pages in bytes.
    """
    # The sizes in the file's footer are only claims. A reader allocates the sizes in the headers
    # of pages. So every page header is read, and no byte of the file may belong to two columns.
    # most: returns, for a number of rows, the maximum unpacked bytes of a column in a row group.
    end = 0
    total = 0
    ordered = sorted(chunks)
    for start, stop, _ in ordered:
        if not end <= start <= stop <= n_bytes:
            raise ValueError(
                "a column either lies outside of the file, or overlaps another column. Copy or "
                "write the file again"
            )
        end = stop
    for start, stop, n_rows in ordered:
        total += _walk_chunk(source, start, stop, most(n_rows))
    return total


def _walk_chunk(source: Any, position: int, stop: int, most: int) -> int:
    total = 0
    # Ends: a page header has at least one byte.
    while position < stop:
        source.seek(position)
        try:
            unpacked, packed, length = page_header(source.read(min(1 << 12, stop - position)))
        except (IndexError, KeyError):
            raise ValueError("the header of a page is damaged. Copy the file again") from None
        total += unpacked
        if unpacked < 0 or packed < 0 or total > most:
            raise ValueError(
                f"a column unpacks to {total} bytes in a row group, but at most {most} are "
                "accepted. Write smaller row groups"
            )
        position += length + packed
    if position != stop:
        raise ValueError("the header of a page is damaged. Copy the file again")
    return total


def page_header(data: bytes) -> tuple[int, int, int]:
    """Return the unpacked and the packed size of a page, and the size of its header, in bytes."""
    # Arrow has no function that reads the header, and does not check the header: it unpacks a whole
    # page for one report, and 8 kB of zeros to 268 MB.
    file = BytesIO(data)
    header = _thrift(file, _STRUCT)
    return header[2, _I32], header[3, _I32], file.tell()


def _varint(file: BytesIO) -> int:
    value = shift = 0
    # Ends: shifts above 56 are refused.
    while (byte := file.read(1)[0]) & 128:
        value |= (byte & 127) << shift
        shift += 7
        if shift > 56:  # a size has at most 63 bits
            raise IndexError("not an integer")
    return value | byte << shift
