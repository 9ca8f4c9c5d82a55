"""The three formats of files of reports: a writer and a reader of columns for each."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._typing import ReportSource
from ..oracles.channels import ReportField
from ..protocols import Protocol
from ._arrow import (
    arrow_schema,
    from_batch,
    from_columns,
    report_fields,
    row_bytes,
    to_batch,
    to_columns,
    unknown_field,
)
from ._header import KEY, Header, needed_header, parse_header, refuse_other_configuration
from ._limits import MAX_COLUMN_BYTES, refuse_compressed, refuse_large_pages

_GROUP_BYTES = 1 << 23  # bytes of reports in a row group or a record batch
_MAX_GROUP = 1 << 20
_HEADER_CHARACTERS = 1 << 16
_LINE_INTEGERS = 1 << 19  # integers in the lines that are read at a time
Columns = list[np.ndarray]
Read = Iterator[tuple[Header, Columns, list[ReportField]]]


class Format(NamedTuple):
    """Functions that write and read a format; `read` yields the header with each piece."""

    write: Callable[[Any, Columns, list[ReportField], Header], None]
    read: Callable[[Any, Protocol], Read]
    peek: Callable[[Any], Header]


def n_group(fields: list[ReportField]) -> int:
    """Number of reports that are written or read at a time."""
    return min(max(_GROUP_BYTES // row_bytes(fields), 1), _MAX_GROUP)


def _pieces(columns, fields):
    size = n_group(fields)
    for start in range(0, len(columns[0]), size):
        yield [column[start : start + size] for column in columns]


def _metadata(header):
    return {KEY: header.to_json().encode()}


def _expect_schema(schema, protocol):
    """The fields of the columns; ValueError if they are not those of the protocol's reports."""
    import pyarrow as pa

    fields = report_fields(protocol)
    if not fields:  # the mechanism does not say: one column of 64-bit integers
        kind = schema.types[0] if len(schema.types) == 1 else None
        is_rows = kind is not None and pa.types.is_fixed_size_list(kind)
        fields = [unknown_field(kind.list_size if kind is not None and is_rows else None)]
    expected = arrow_schema(fields, {})
    if schema.names != expected.names or schema.types != expected.types:
        raise ValueError(
            f"expected columns {_columns_text(expected)}, got {_columns_text(schema)[:200]}"
        )
    return fields


def _columns_text(schema):
    return ", ".join(f"{field.name} {field.type}" for field in schema)


# -- Parquet ----------------------------------------------------------------------------------
def _write_parquet(sink, columns, fields, header):
    import pyarrow.parquet as pq

    schema = arrow_schema(fields, _metadata(header))
    is_dictionary = all(field.width is None and field.n_values <= 1 << 16 for field in fields)
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=is_dictionary,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for piece in _pieces(columns, fields):
            writer.write_batch(to_batch(piece, schema), row_group_size=len(piece[0]))


def _open_parquet(source):
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        source,
        pre_buffer=False,
        thrift_string_size_limit=1 << 20,
        thrift_container_size_limit=1 << 20,
        page_checksum_verification=True,
    )


def _read_parquet(source, protocol):
    file = _open_parquet(source)
    header = needed_header(file.schema_arrow.metadata, protocol)
    fields = _expect_schema(file.schema_arrow, protocol)
    if file.metadata.num_rows != header.n_samples:
        raise ValueError(
            f"its header promises {header.n_samples} reports, its footer {file.metadata.num_rows}"
        )
    refuse_large_pages(source, file.metadata, source.size())
    for batch in file.iter_batches(batch_size=n_group(fields), use_threads=False):
        batch.validate(full=True)
        yield header, from_batch(batch), fields


def _peek_parquet(source):
    return parse_header((_open_parquet(source).schema_arrow.metadata or {}).get(KEY, b"{}"))


# -- Arrow IPC stream -------------------------------------------------------------------------
def _write_arrow(sink, columns, fields, header):
    import pyarrow as pa

    schema = arrow_schema(fields, _metadata(header))
    with pa.ipc.new_stream(sink, schema) as writer:
        for piece in _pieces(columns, fields):
            writer.write_batch(to_batch(piece, schema))


def _messages(source):
    import pyarrow as pa

    while True:
        try:
            yield pa.ipc.read_message(source)
        except EOFError:
            return


def _open_arrow(source):
    import pyarrow as pa

    messages = _messages(source)
    first = next(messages, None)
    if first is None or first.type != "schema":
        raise ValueError("it does not begin with an Arrow schema")
    return pa.ipc.read_schema(first), messages


def _read_arrow(source, protocol):
    import pyarrow as pa

    schema, messages = _open_arrow(source)
    header = needed_header(schema.metadata, protocol)
    fields = _expect_schema(schema, protocol)
    for message in messages:
        if message.type != "record batch" or message.body.size > MAX_COLUMN_BYTES:
            raise ValueError(
                f"expected record batches of at most {MAX_COLUMN_BYTES} bytes, got a "
                f"{message.type} of {message.body.size} bytes"
            )
        refuse_compressed(message)
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
        yield header, from_batch(batch), fields


def _peek_arrow(source):
    schema, _ = _open_arrow(source)
    return parse_header((schema.metadata or {}).get(KEY, b"{}"))


# -- JSON lines -------------------------------------------------------------------------------
def _write_jsonl(sink, columns, fields, header):
    sink.write(f"{header.to_json()}\n".encode())
    for piece in _pieces(columns, fields):
        rows = from_columns(piece, fields).tolist()
        text = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows)
        sink.write(text.encode())


def _read_jsonl(source, protocol):
    header = _peek_jsonl(source)
    refuse_other_configuration(header, protocol)
    fields = report_fields(protocol)
    n_integers = _n_integers(fields)
    limit = 64 + 24 * (n_integers or 1 << 16)
    is_row = bool(fields) and (len(fields) > 1 or fields[0].width is not None)
    rows: list = []
    while True:
        line = source.readline(limit)
        if line:
            rows.append(_row(line, is_row if fields else None, n_integers))
        width = len(rows[-1]) if rows and isinstance(rows[-1], list) else 1
        if rows and (not line or len(rows) * width >= _LINE_INTEGERS):
            array = np.array(rows, dtype=np.int64)
            found = fields or report_fields(protocol, array)
            # A bad report may not fit into the columns, so it is checked before.
            yield header, to_columns(protocol.check(array), found), found
            rows = []
        if not line:
            return


def _n_integers(fields):
    return len(fields) if len(fields) > 1 else (fields[0].width or 1) if fields else None


def _row(line, is_row, n_integers):
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"expected a JSON line, got {line[:80]!r}") from None
    if is_row is None:
        is_row = isinstance(row, list)
    items = row if is_row and isinstance(row, list) else [row]
    if any(type(item) is not int or not -(2**63) <= item < 2**63 for item in items) or (
        is_row and (not isinstance(row, list) or n_integers not in (None, len(row)))
    ):
        what = f"a list of {n_integers or 'some'} integers" if is_row else "an integer"
        raise ValueError(f"expected {what} per line, got {line[:80]!r}")
    return row


def _peek_jsonl(source):
    return parse_header(source.readline(_HEADER_CHARACTERS) or b"{}")


FORMATS = {
    "parquet": Format(_write_parquet, _read_parquet, _peek_parquet),
    "arrow": Format(_write_arrow, _read_arrow, _peek_arrow),
    "jsonl": Format(_write_jsonl, _read_jsonl, _peek_jsonl),
}
SUFFIXES = {".parquet": "parquet", ".arrows": "arrow", ".jsonl": "jsonl"}


def format_of(path: object, form: str) -> str:
    """The format that was asked for, or the one that the file's name implies."""
    if form != "auto":
        if form not in FORMATS:
            raise ValueError(f"format must be one of {sorted(FORMATS)} or 'auto', got {form!r}.")
        return _readable(form)
    suffix = Path(path).suffix.lower() if isinstance(path, (str, Path)) else None
    if suffix not in SUFFIXES:
        name = str(path) if isinstance(path, Path) else path
        raise ValueError(
            f"The format of {name!r:.200} is unknown: give a name that ends with one of "
            f"{', '.join(SUFFIXES)}, or pass format=."
        )
    return _readable(SUFFIXES[suffix])


def _readable(form):
    """The format; ImportError if the package that reads it is not installed."""
    if form != "jsonl" and find_spec("pyarrow") is None:
        raise ImportError(
            f"The format {form!r} needs pyarrow: pip install 'sklearn_ldp[data]'; or use 'jsonl'."
        )
    return form


def open_source(source: ReportSource, form: str) -> Any:
    """Open a path, bytes or a binary file in the way that the format's reader needs."""
    if isinstance(source, (str, Path)):
        if form == "jsonl":
            return open(source, "rb")
        import pyarrow as pa

        # In a mapped file, bodies of messages are views of bytes that really exist.
        return pa.memory_map(str(source)) if form == "arrow" else pa.OSFile(str(source))
    content = source if isinstance(source, (bytes, bytearray, memoryview)) else source.read()
    if form == "jsonl":
        return io.BytesIO(content)
    import pyarrow as pa

    return pa.BufferReader(pa.py_buffer(bytes(content)))
