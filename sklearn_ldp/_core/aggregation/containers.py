"""Conversion of reports from containers to integer arrays, and from arrays to stored columns."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...oracles.channels import ReportField
from ..mechanisms import Protocol
from ._header import KEY, refuse_other_configuration, schema_header

_STREAM_ROWS = 1 << 18  # rows per chunk of a table
_NOT_LISTS = (str, bytes, bytearray, dict, set, frozenset, np.ndarray)
_MAPPED_BYTES = 1 << 24  # bytes of a mapped file that are in memory together


def as_chunks(reports: Any, protocol: Protocol) -> Iterator[np.ndarray]:
    """Yield the reports of a batch as arrays.

    The batch can be an array, a list, a table, a stream or an iterator of these.
    """
    if is_iterator(reports):
        for chunk in reports:
            yield from as_chunks(chunk, protocol)
    elif isinstance(reports, np.ndarray) and reports.ndim:
        yield from _mapped_chunks(reports) if isinstance(reports, np.memmap) else (reports,)
    elif is_arrow_like(reports):
        yield from _stream_chunks(reports, protocol)
    elif not hasattr(reports, "__len__") or isinstance(reports, _NOT_LISTS):
        raise ValueError(
            f"expected an array of reports, got {type(reports).__name__}. Pass an array, a list, "
            "a table with Arrow columns, or an iterator of these"
        )
    else:
        # NumPy may convert integers to floats: `check` accepts only floats that are exact.
        yield np.asarray(reports)


def _mapped_chunks(reports):
    """Yield pieces of a memory-mapped array.

    The memory of a piece is released after the piece was processed.
    """
    mapping: Any = getattr(reports, "_mmap", None)
    # A private mapping ("c") may contain changes that are not in the file.
    is_shared = hasattr(mapping, "madvise") and reports.mode != "c"
    size = max(_MAPPED_BYTES // max(reports[:1].nbytes, 1), 1)
    for start in range(0, len(reports), size):
        yield np.asarray(reports[start : start + size])
        if is_shared:
            mapping.madvise(mmap.MADV_DONTNEED)


def _stream_chunks(reports: Any, protocol: Protocol) -> Iterator[np.ndarray]:
    """Yield the reports of an object with the Arrow PyCapsule interface as arrays."""
    # If the stream contains a configuration, it must be the protocol's configuration. A stream
    # without a configuration is assumed to belong to the protocol.
    import pyarrow as pa

    fields = report_fields(protocol)
    batches, schema = _batches(reports, pa)
    if KEY in (schema.metadata or {}):
        refuse_other_configuration(schema_header(schema.metadata).configuration, protocol)
    try:
        for batch in batches:
            for piece in cut(batch, _STREAM_ROWS):
                yield from_columns(from_batch(piece), fields)
    except pa.ArrowException as error:
        raise ValueError(
            f"the Arrow stream cannot be read: {error}. Create the stream again"
        ) from None


def _batches(reports, pa):
    """Return an iterator of record batches, and their schema.

    A single column is returned as a table with the column "report". The index of a pandas table is
    left out.
    """
    try:
        if not hasattr(reports, "__arrow_c_stream__"):
            reports = pa.Table.from_arrays([pa.array(reports)], ["report"])
        reader = pa.RecordBatchReader.from_stream(reports)
    except (pa.ArrowException, TypeError, ValueError):
        column = pa.chunked_array(reports)  # a series streams its values, not rows
        reader = pa.Table.from_arrays([column], ["report"]).to_reader()
    schema = reader.schema
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    kept = [i for i, name in enumerate(schema.names) if name not in index]
    return (batch.select(kept) for batch in reader), schema


def is_iterator(source: Any) -> bool:
    """Return whether the source is an iterator of batches.

    An Arrow reader is not one, because it is a single batch.
    """
    return hasattr(source, "__next__") and not is_arrow_like(source)


def is_arrow_like(reports: Any) -> bool:
    """Return whether the reports export an Arrow stream or array, and pyarrow is installed."""
    is_like = hasattr(reports, "__arrow_c_stream__") or hasattr(reports, "__arrow_c_array__")
    return is_like and find_spec("pyarrow") is not None


# -- columns: exact integers of the smallest type, packed bits, no nulls --------------------------
_ANY = 0  # `n_values` of a column of arbitrary 64-bit integers


def report_fields(protocol: Protocol, reports: np.ndarray | None = None) -> list[ReportField]:
    """Return the descriptions of the columns in which a protocol's reports are stored.

    If the mechanism does not define them and `reports` is passed, return one column that fits
    `reports`.
    """
    fields = list(protocol.mechanism.report_fields)
    if fields or reports is None:
        return fields
    if reports.ndim not in (1, 2):
        raise ValueError(
            f"expected reports of 1 or 2 dimensions, got {reports.ndim}. Pass an array of shape "
            "(n,) or (n, width)"
        )
    width = None if reports.ndim == 1 else reports.shape[1]
    return [unknown_field(width)]


def unknown_field(width: int | None) -> ReportField:
    """Return the description of a column of 64-bit integers, for mechanisms that define no columns.

    `width` is the number of integers per report, or None for reports of shape (n,).
    """
    return ReportField("report", _ANY, width)


def to_columns(reports: np.ndarray, fields: list[ReportField]) -> list[np.ndarray]:
    """Split reports into contiguous arrays of the smallest integer types, one array for each field.

    Each array has the shape (n,) or (n, width).
    """
    if len(fields) == 1:
        return [_packed(reports, fields[0])]
    columns = []
    start = 0
    for field in fields:
        stop = start + (field.width or 1)
        values = reports[:, start] if field.width is None else reports[:, start:stop]
        columns.append(_packed(values, field))
        start = stop
    return columns


def _packed(column, field):
    if _is_bits(field):
        return np.packbits(column.astype(np.uint8, copy=False), axis=1)
    return np.ascontiguousarray(column, dtype=_dtype(field))


def from_columns(columns: list[np.ndarray], fields: list[ReportField]) -> np.ndarray:
    """Return reports as one array. This function is the inverse of `to_columns`."""
    # columns: integers of any type, of shape (n,) or (n, width); or packed bits.
    # fields: descriptions of the columns; empty if unknown.
    if len(columns) == len(fields):
        columns = [_unpacked(column, field) for column, field in zip(columns, fields, strict=True)]
    if len(columns) == 1:
        return columns[0]
    # All columns get one integer type, because the type that NumPy chooses could be float64.
    kinds = {column.dtype for column in columns}
    dtype = kinds.pop() if len(kinds) == 1 else np.dtype(np.int64)
    for i, column in enumerate(columns):
        width = fields[i].width if len(columns) == len(fields) else None
        if column.shape[1:] != (() if width is None else (width,)):
            raise ValueError(
                f"expected {width or 'one'} integers per report in a column, but a column has "
                "another number of integers. Check that the columns come from privatize"
            )
        if column.dtype == np.uint64 and column.size and column.max() > np.iinfo(np.int64).max:
            raise ValueError(
                "expected integers below 2**63, but a column contains a larger integer. Check "
                "that the columns come from privatize"
            )
    rows = [column.reshape(len(column), -1) for column in columns]
    return np.concatenate(rows, axis=1, dtype=dtype, casting="unsafe")


def _unpacked(bytes_, field):
    width = field.width
    if not _is_bits(field) or bytes_.shape[1:] == (width,):
        return bytes_
    bits = np.unpackbits(bytes_, axis=1)
    if bits.shape[1] - 8 < width <= bits.shape[1] and not bits[:, width:].any():
        return bits[:, :width]
    packed = f"{width} bits, packed in {_n_bytes(field)} bytes with zeros after the last bit"
    raise ValueError(
        f"expected {packed}, got {bytes_.shape[1]} bytes. Check that the columns come from "
        "write_reports"
    )


def _is_bits(field):
    # A single bit would look the same whether it is packed or not.
    return field.width is not None and field.width > 1 and field.n_values == 2


def _dtype(field):
    return np.min_scalar_type(field.n_values - 1) if field.n_values else np.dtype(np.int64)


def is_older(fields: list[ReportField], protocol: Protocol) -> bool:
    """Return whether the columns have the layout of an earlier release of the package."""
    return bool(fields) and fields == list(protocol.mechanism.older_fields)


def n_integers(fields: list[ReportField]) -> int:
    """Return the number of integers of which one report consists."""
    return sum(field.width or 1 for field in fields)


def row_bytes(fields: list[ReportField]) -> int:
    """Return the number of bytes that one report needs in the columns."""
    return sum(
        _n_bytes(field) if _is_bits(field) else _dtype(field).itemsize * (field.width or 1)
        for field in fields
    )


def _n_bytes(field: ReportField) -> int:
    return -(-(field.width or 1) // 8)


def arrow_schema(fields: list[ReportField], metadata: dict[bytes, bytes]) -> Any:
    """Return the Arrow schema of the columns that the fields describe, with the metadata."""
    import pyarrow as pa

    def arrow_type(field):
        item = pa.from_numpy_dtype(_dtype(field))
        if field.width is None:
            return item
        if _is_bits(field):
            return pa.binary(_n_bytes(field))
        if field.n_values == 256:
            return pa.binary(field.width)
        return pa.list_(pa.field("item", item, nullable=False), field.width)

    columns = [pa.field(field.name, arrow_type(field), nullable=False) for field in fields]
    return pa.schema(columns, metadata)


def to_batch(columns: list[np.ndarray], schema: Any) -> Any:
    """Return an Arrow record batch with the columns, which are arrays from `to_columns`."""
    import pyarrow as pa

    def array(column, kind):
        if pa.types.is_fixed_size_binary(kind):
            return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])
        values = pa.array(column.reshape(-1))
        if pa.types.is_fixed_size_list(kind):
            return pa.Array.from_buffers(kind, len(column), [None], children=[values])
        return values

    arrays = [array(c, kind) for c, kind in zip(columns, schema.types, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def cut(batch: Any, n_rows: int) -> Iterator[Any]:
    """Check the buffers of an Arrow record batch, then yield its rows in pieces.

    Each piece has at most `n_rows` rows.
    """
    batch.validate(full=True)
    yield from (batch.slice(start, n_rows) for start in range(0, batch.num_rows, n_rows))


def from_batch(batch: Any) -> list[np.ndarray]:
    """Return the columns of an Arrow record batch as integer arrays.

    Raise ValueError if values are missing.
    """
    columns = [_as_numpy(batch.column(i), name) for i, name in enumerate(batch.schema.names)]
    if not columns:
        raise ValueError("expected columns of integers, got no columns. Pass a table of reports")
    if len(columns) > 1 and all(column.dtype == bool for column in columns):
        return [np.column_stack(columns).view(np.uint8)]
    return columns


def _as_numpy(array, name):
    import pyarrow as pa

    kind = array.type
    if array.null_count:
        raise ValueError(
            f"expected no missing values, got {array.null_count} in the column {name!r}. Pass the "
            "reports as privatize returns them"
        )
    if pa.types.is_dictionary(kind):
        raise ValueError(
            f"expected integers, got a dictionary-encoded column {name!r}. Decode the column "
            "before you pass it"
        )
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        start = array.offset
        flat = np.frombuffer(array.buffers()[1], np.uint8, (start + len(array)) * width)
        return flat.reshape(-1, width)[start:]
    if pa.types.is_fixed_size_list(kind):
        values = _as_numpy(array.flatten(), name)
        return values.reshape(len(array), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _rows(array, name)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ValueError(
            f"expected integers, got {kind} in the column {name!r}. Pass the reports as privatize "
            "returns them"
        )
    return array.to_numpy(zero_copy_only=not pa.types.is_boolean(kind))


def _rows(array, name):
    """Return a column of lists as a matrix.

    Raise ValueError unless all lists have the same length.
    """
    ends = np.asarray(array.offsets, dtype=np.int64)
    widths = np.unique(np.diff(ends))
    if len(widths) != 1:
        raise ValueError(
            f"expected lists of equal length in the column {name!r}, got several lengths. Pass "
            "the reports as privatize returns them"
        )
    return _as_numpy(array.flatten(), name).reshape(len(array), int(widths[0]))
