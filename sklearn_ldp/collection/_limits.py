"""Limits on the work and the memory that a small Parquet file can cost, which Arrow has not."""

from __future__ import annotations

from typing import Any

MAX_COLUMN_BYTES = 1 << 27  # the most that a column may take in a row group
GROUP_BYTES = 100  # fewer than a row group takes, with its pages and its place in the footer
ENTROPY_SHARE = 2  # a file must have a half of the bits that its reports have at least
_UNPACKED_SHARE = 16  # Parquet has no small integers, and adds levels to lists
_CHUNK_BYTES = 1 << 12  # for the headers of the pages of a column in a row group
_PAGE_HEADER_BYTES = 1 << 12
_COMPACT_STOP, _COMPACT_BINARY, _COMPACT_STRUCT = 0, 8, 12


def most_reports(n_bytes: int, entropy: float, group_rows: int) -> int:
    """Return how many honest reports a Parquet file of some bytes can hold; see below.

    Parameters
    ----------
    n_bytes : int
        Size of the file.
    entropy : float
        Bits of randomness in a report, at least.
    group_rows : int
        Number of reports in a full row group.

    Returns
    -------
    int
        The number of reports.
    """
    most = n_bytes * group_rows // GROUP_BYTES
    return min(most, int(ENTROPY_SHARE * 8 * n_bytes / entropy)) if entropy > 0 else most


def refuse_impossible(n_samples: int, n_bytes: int, entropy: float, group_rows: int) -> None:
    """Refuse a file that promises more reports than honest ones fit into its bytes.

    Reports are random whatever the values, and no format stores them in fewer bits than their
    entropy, but for a chance that a share of 1 / `ENTROPY_SHARE` makes negligible: less than
    exp(-20) for a file of any oracle at any epsilon, since a header alone takes over 1,000 bytes.
    Where epsilon is so large that all reports may be equal, the row groups are left: none has more
    than `group_rows` rows, and each takes `GROUP_BYTES` at least.

    Parameters
    ----------
    n_samples : int
        Number of reports that the file promises.
    n_bytes : int
        Size of the file.
    entropy : float
        Bits of randomness in a report, at least.
    group_rows : int
        Number of reports in a full row group.

    Raises
    ------
    ValueError
        If there are more than that.
    """
    most = most_reports(n_bytes, entropy, group_rows)
    if n_samples > most:
        raise ValueError(
            f"it promises {n_samples} reports in {n_bytes} bytes, which hold at most {most} honest "
            "ones. Send reports as write_reports stores what privatize returns"
        )


def refuse_large_pages(source: Any, metadata: Any, n_bytes: int, row_bytes: int) -> None:
    """Refuse a Parquet file whose pages unpack to more than its rows need, or lie elsewhere.

    The sizes in the file's footer are mere claims. A reader allocates the sizes in the pages' own
    headers, so every page header is read, and no byte of the file may belong to two columns.

    Parameters
    ----------
    source : binary file
        The file.
    metadata : pyarrow.parquet.FileMetaData
        Footer of the file.
    n_bytes : int
        Size of the file.
    row_bytes : int
        Bytes per report in its columns.

    Raises
    ------
    ValueError
        If a page is too large, or lies outside the file or in two columns.
    """
    chunks = sorted(_chunks(metadata))
    end = 0
    for start, stop, _ in chunks:
        if not end <= start <= stop <= n_bytes:
            raise ValueError("one of its columns lies outside of the file, or in another one")
        end = stop
    for start, stop, n_rows in chunks:
        needed = _UNPACKED_SHARE * n_rows * row_bytes + _CHUNK_BYTES
        _walk_pages(source, start, stop, min(needed, MAX_COLUMN_BYTES))


def _chunks(metadata):
    """The beginning, the end and the number of rows of each column in each row group."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in range(metadata.num_columns):
            chunk = group.column(column)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page:
                start = min(start, chunk.dictionary_page_offset)
            yield start, start + chunk.total_compressed_size, group.num_rows


def _walk_pages(source, position, stop, most):
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
        if unpacked < 0 or packed < 0 or total > most:
            raise ValueError(
                f"one of its columns unpacks to {total} bytes in a row group, at most {most} are "
                "accepted"
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
