"""Limits on what a small file can make a reader allocate, which Arrow itself does not have."""

from __future__ import annotations

from typing import Any

MAX_COLUMN_BYTES = 1 << 28  # the most for a column in a row group, and for a record batch
ROWS_PER_BYTE = 10_000  # more than compression reaches, even for constant reports
_PAGE_HEADER_BYTES = 1 << 12
_COMPACT_STOP, _COMPACT_BINARY, _COMPACT_STRUCT = 0, 8, 12


def refuse_large_pages(source: Any, metadata: Any, n_bytes: int) -> None:
    """Refuse a Parquet file whose pages unpack to more than a collector can hold.

    The sizes in the file's footer are mere claims. A reader allocates the sizes in the pages' own
    headers, so every page header is read.

    Parameters
    ----------
    source : pyarrow.NativeFile
        The file.
    metadata : pyarrow.parquet.FileMetaData
        Footer of the file.
    n_bytes : int
        Size of the file.

    Raises
    ------
    ValueError
        If a page is too large, or lies outside the file.
    """
    if metadata.num_rows > ROWS_PER_BYTE * n_bytes:
        raise ValueError(f"it promises {metadata.num_rows} reports in {n_bytes} bytes")
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page:
                start = min(start, chunk.dictionary_page_offset)
            stop = start + chunk.total_compressed_size
            if not 0 <= start <= stop <= n_bytes:
                raise ValueError("one of its columns lies outside of the file")
            _walk_pages(source, start, stop)


def _walk_pages(source, position, stop):
    total = 0
    while position < stop:
        source.seek(position)
        header = source.read(min(_PAGE_HEADER_BYTES, stop - position))
        try:
            fields, length = _compact_struct(header, 0)
            unpacked, packed = fields[2], fields[3]
        except (IndexError, KeyError):
            raise ValueError("one of its page headers is damaged") from None
        total += unpacked
        if unpacked < 0 or packed < 0 or total > MAX_COLUMN_BYTES:
            raise ValueError(
                f"one of its columns unpacks to {total} bytes in a row group, at most "
                f"{MAX_COLUMN_BYTES} are accepted"
            )
        position += length + packed
    if position != stop:
        raise ValueError("one of its page headers is damaged")


def _compact_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, int], int]:
    """Integers of a struct in Thrift's compact protocol by field number, and its end."""
    fields: dict[int, int] = {}
    number = 0
    while data[at] != _COMPACT_STOP:
        delta, kind = data[at] >> 4, data[at] & 15
        at += 1
        if delta:
            number += delta
        else:
            number, at = _zigzag(data, at)
        if kind in (1, 2):  # the kind itself is the value of a boolean
            continue
        if kind in (4, 5, 6):
            fields[number], at = _zigzag(data, at)
        elif kind == _COMPACT_BINARY:
            length, at = _varint(data, at)
            at += length
        elif kind == _COMPACT_STRUCT and depth < 4:
            at = _compact_struct(data, at, depth + 1)[1]
        else:
            raise IndexError("not a field of a page header")
    return fields, at + 1


def _varint(data, at):
    value = shift = 0
    while data[at] & 128:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise IndexError("not an integer")
    return value | data[at] << shift, at + 1


def _zigzag(data, at):
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at
