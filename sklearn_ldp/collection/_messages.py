"""Messages of an Arrow stream, whose sizes are checked before any memory is taken for them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

MAX_METADATA_BYTES = 1 << 20  # of a message: a schema with the header of a file takes a few kB
MAX_BODY_BYTES = 1 << 28  # of a record batch
_PIECE_BYTES = 1 << 20
_CONTINUATION = 0xFFFFFFFF


def read_messages(source: Any) -> Iterator[Any]:
    """Yield the messages of an Arrow stream one by one.

    A file could be cut short while it is mapped, which would kill the process, so the bytes are
    read. A message states how long it is, but memory is taken only for bytes that are there.

    Parameters
    ----------
    source : binary file
        At the beginning of the stream; it need not be seekable.

    Yields
    ------
    pyarrow.ipc.Message
        A schema or a record batch, not yet decoded.

    Raises
    ------
    ValueError
        If a message is cut short or too large.
    """
    import pyarrow as pa

    while head := _read(source, 4):
        if len(head) < 4 or struct.unpack("<I", head)[0] != _CONTINUATION:
            raise ValueError("expected an Arrow stream, got something else between its messages")
        length = struct.unpack("<i", _read_all(source, 4))[0]
        if length == 0:  # the end of the stream
            return
        if not 0 < length <= MAX_METADATA_BYTES:
            raise ValueError(f"one of its messages claims metadata of {length} bytes")
        metadata = _read_all(source, length)
        size = _body_bytes(metadata)
        if not 0 <= size <= MAX_BODY_BYTES:
            raise ValueError(
                f"expected record batches of at most {MAX_BODY_BYTES} bytes, got one of {size}"
            )
        body = _read_all(source, size)
        yield pa.ipc.read_message(pa.BufferReader(_frame(metadata, body)))


def _frame(metadata, body):
    """The bytes of a message as Arrow expects them."""
    return b"".join((struct.pack("<Ii", _CONTINUATION, len(metadata)), metadata, body))


def _read(source: Any, size: int) -> bytearray:
    """Read that many bytes, or fewer at the end of the file; in pieces, since sizes may lie."""
    content = bytearray()
    while len(content) < size:
        piece = source.read(min(size - len(content), _PIECE_BYTES))
        if not piece:
            break
        content += piece
    return content


def _read_all(source: Any, size: int) -> bytearray:
    content = _read(source, size)
    if len(content) < size:
        raise ValueError(
            f"it is cut short: one of its messages lacks {size - len(content)} of {size} bytes. "
            "Copy it again"
        )
    return content


def _body_bytes(metadata: bytes | bytearray) -> int:
    """The size of the body that the metadata of a message states."""
    try:
        root = struct.unpack_from("<I", metadata)[0]
        place = _table_field(metadata, root, 3)
        return struct.unpack_from("<q", metadata, root + place)[0] if place else 0
    except struct.error:
        raise ValueError("the metadata of one of its messages are damaged") from None


def refuse_compressed(message: Any) -> None:
    """Refuse an Arrow record batch with compressed buffers, whose size is a mere claim.

    Parameters
    ----------
    message : pyarrow.ipc.Message
        A record batch, not yet decoded. Its flatbuffer has a `compression` field if it is
        compressed.

    Raises
    ------
    ValueError
        If the record batch is compressed.
    """
    data = message.metadata.to_pybytes()
    try:
        root = struct.unpack_from("<I", data)[0]
        header = root + _table_field(data, root, 2)
        batch = header + struct.unpack_from("<I", data, header)[0]
        is_compressed = _table_field(data, batch, 3) != 0
    except struct.error:
        raise ValueError("the header of one of its record batches is damaged") from None
    if is_compressed:
        raise ValueError("its record batches are compressed: send Arrow streams uncompressed")


def _table_field(data, table, index):
    """The offset of a field in a table of a flatbuffer, or 0 if there is none."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * index
    if place >= struct.unpack_from("<H", data, entries)[0]:
        return 0
    return struct.unpack_from("<H", data, entries + place)[0]
