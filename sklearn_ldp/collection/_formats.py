"""The three formats of files of reports: a writer and a reader of columns for each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from math import inf
from os import SEEK_END, PathLike
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from ..mechanisms import Protocol
from ..oracles.channels import ReportField
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
from ._header import KEY, Header, parse_header, schema_header
from ._limits import most_reports, refuse_impossible, refuse_large_pages
from ._messages import read_messages, refuse_compressed

_GROUP_BYTES = 1 << 23  # bytes of reports in a row group or a record batch
_MAX_GROUP = 1 << 20
_HEADER_CHARACTERS = 1 << 16
_LINE_INTEGERS = 1 << 19  # integers in the lines that are read at a time
Columns = list[np.ndarray]
Pieces = Iterator[tuple[Columns, list[ReportField]]]


class Format(NamedTuple):
    """Functions of a format: `open` returns the header and what `read` reads the reports from.

    `write` returns how many honest reports a file of the size that it wrote can hold: readers
    refuse a file of more. It is given the bits of randomness in a report, at least.
    """

    write: Callable[[Any, Iterable[Columns], list[ReportField], Header, float], float]
    open: Callable[[Any], tuple[Header, Any]]
    read: Callable[[Any, Header, Protocol], Pieces]


def n_group(fields: list[ReportField]) -> int:
    """Number of reports that are written at a time."""
    return min(max(_GROUP_BYTES // row_bytes(fields), 1), _MAX_GROUP)


def _n_read(fields):
    """Number of reports that are read at a time: packed bits grow to bytes."""
    return min(max(_GROUP_BYTES // sum(field.width or 8 for field in fields), 1), _MAX_GROUP)


def _groups(pieces, fields):
    """Cut pieces of any length into groups; only the last one is smaller than the others."""
    size, held, n_held = n_group(fields), [], 0
    for piece in pieces:
        start, n = 0, len(piece[0])
        while start < n:
            stop = min(start + size - n_held, n)
            held.append([column[start:stop] for column in piece])
            n_held, start = n_held + stop - start, stop
            if n_held == size:
                yield _joined(held)
                held, n_held = [], 0
    if held:
        yield _joined(held)


def _joined(parts):
    if len(parts) == 1:
        return parts[0]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


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
def _write_parquet(sink, pieces, fields, header, entropy):
    import pyarrow as pa
    import pyarrow.parquet as pq

    counted = pa.PythonFile(sink, mode="w")
    schema = arrow_schema(fields, _metadata(header))
    is_dictionary = all(field.width is None and field.n_values <= 1 << 16 for field in fields)
    with pq.ParquetWriter(
        counted,
        schema,
        compression="zstd",
        use_dictionary=is_dictionary,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for piece in _groups(pieces, fields):
            writer.write_batch(to_batch(piece, schema), row_group_size=len(piece[0]))
    return most_reports(counted.tell(), entropy, n_group(fields))


def _open_parquet(source):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(
        source,
        pre_buffer=False,
        thrift_string_size_limit=1 << 20,
        thrift_container_size_limit=1 << 20,
        page_checksum_verification=True,
    )
    return schema_header(file.schema_arrow.metadata), (source, file)


def _read_parquet(opened, header, protocol):
    source, file = opened
    fields = _expect_schema(file.schema_arrow, protocol)
    if file.metadata.num_rows != header.n_samples:
        raise ValueError(
            f"its header promises {header.n_samples} reports, its footer {file.metadata.num_rows}"
        )
    n_bytes, entropy = source.seek(0, SEEK_END), protocol.mechanism.report_entropy()
    refuse_impossible(header.n_samples, n_bytes, entropy, n_group(fields))
    refuse_large_pages(source, file.metadata, n_bytes, row_bytes(fields))
    for batch in file.iter_batches(batch_size=_n_read(fields), use_threads=False):
        batch.validate(full=True)
        yield from_batch(batch), fields


# -- Arrow IPC stream -------------------------------------------------------------------------
def _write_arrow(sink, pieces, fields, header, entropy):
    import pyarrow as pa

    schema = arrow_schema(fields, _metadata(header))
    with pa.ipc.new_stream(sink, schema) as writer:
        for piece in _groups(pieces, fields):
            writer.write_batch(to_batch(piece, schema))
    return inf


def _open_arrow(source):
    import pyarrow as pa

    messages = read_messages(source)
    first = next(messages, None)
    if first is None or first.type != "schema":
        raise ValueError("it does not begin with an Arrow schema")
    schema = pa.ipc.read_schema(first)
    return schema_header(schema.metadata), (schema, messages)


def _read_arrow(opened, header, protocol):
    import pyarrow as pa

    schema, messages = opened
    fields = _expect_schema(schema, protocol)
    for message in messages:
        if message.type != "record batch":
            raise ValueError(f"expected record batches, got a {message.type}")
        refuse_compressed(message)
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
        size = _n_read(fields)
        for start in range(0, batch.num_rows, size):
            yield from_batch(batch.slice(start, size)), fields


# -- JSON lines -------------------------------------------------------------------------------
def _write_jsonl(sink, pieces, fields, header, entropy):
    sink.write(f"{header.to_json()}\n".encode())
    for piece in _groups(pieces, fields):
        rows = from_columns(piece, fields).tolist()
        text = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows)
        sink.write(text.encode())
    return inf


def _open_jsonl(source):
    return parse_header(source.readline(_HEADER_CHARACTERS) or b"{}"), source


def _read_jsonl(source, header, protocol):
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
            yield to_columns(protocol.check(array), found), found
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


FORMATS = {
    "parquet": Format(_write_parquet, _open_parquet, _read_parquet),
    "arrow": Format(_write_arrow, _open_arrow, _read_arrow),
    "jsonl": Format(_write_jsonl, _open_jsonl, _read_jsonl),
}
SUFFIXES = {".parquet": "parquet", ".arrows": "arrow", ".jsonl": "jsonl"}


def format_of(path: object, form: str) -> str:
    """The format that was asked for, or the one that the file's name implies."""
    if form != "auto":
        if form not in FORMATS:
            raise ValueError(f"format must be one of {sorted(FORMATS)} or 'auto', got {form!r}.")
        return _readable(form)
    suffix = PurePath(path).suffix.lower() if isinstance(path, (str, PathLike)) else None
    if suffix not in SUFFIXES:
        name = os.fspath(path) if isinstance(path, PathLike) else path
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
