"""Containers of reports as chunks of integers: arrays, mapped files, tables and streams."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..mechanisms import Protocol
from ._arrow import from_batch, from_columns, report_fields
from ._header import KEY, refuse_other_configuration, schema_header

_STREAM_ROWS = 1 << 18  # rows per chunk of a table
_MAPPED_BYTES = 1 << 24  # bytes of a mapped file in memory at a time


def as_chunks(reports: Any, protocol: Protocol) -> Iterator[np.ndarray]:
    """Yield arrays of reports from any container that may hold a batch.

    Parameters
    ----------
    reports : array-like, Arrow stream, or iterator of those
        One batch.
    protocol : Protocol
        The protocol of the reports.

    Yields
    ------
    ndarray whose first axis is the users
        Reports, not yet checked.
    """
    if is_iterator(reports):
        for chunk in reports:
            yield from as_chunks(chunk, protocol)
    elif isinstance(reports, np.ndarray) and reports.ndim:
        yield from _mapped_chunks(reports) if isinstance(reports, np.memmap) else (reports,)
    elif is_arrow_like(reports):
        yield from _stream_chunks(reports, protocol)
    elif not _is_list_like(reports):
        raise ValueError(f"expected an array of reports, got {type(reports).__name__}")
    else:
        # NumPy may make floats of integers: `check` takes only what rounding cannot have changed.
        yield np.asarray(reports)


def _is_list_like(reports):
    not_lists = (str, bytes, bytearray, dict, set, frozenset, np.ndarray)
    return hasattr(reports, "__len__") and not isinstance(reports, not_lists)


def _mapped_chunks(reports):
    """Yield pieces of a mapped file; the memory of a piece is released once it is counted."""
    mapping: Any = getattr(reports, "_mmap", None)
    # A private mapping ("c") may hold changes that are not in the file.
    is_shared = hasattr(mapping, "madvise") and reports.mode != "c"
    size = max(_MAPPED_BYTES // max(reports[:1].nbytes, 1), 1)
    for start in range(0, len(reports), size):
        yield np.asarray(reports[start : start + size])
        if is_shared:
            mapping.madvise(mmap.MADV_DONTNEED)


def _stream_chunks(reports: Any, protocol: Protocol) -> Iterator[np.ndarray]:
    """Yield arrays of reports from any object with the Arrow PyCapsule interface.

    If the stream carries a configuration, it must be the protocol's; a stream without one is
    assumed to be of the protocol.
    """
    import pyarrow as pa

    fields = report_fields(protocol)
    batches, schema = _batches(reports, pa)
    if KEY in (schema.metadata or {}):
        refuse_other_configuration(schema_header(schema.metadata), protocol)
    try:
        for batch in batches:
            batch.validate(full=True)
            for start in range(0, batch.num_rows, _STREAM_ROWS):
                yield from_columns(from_batch(batch.slice(start, _STREAM_ROWS)), fields)
    except pa.ArrowException as error:
        raise ValueError(f"the Arrow stream cannot be read: {error}") from None


def _batches(reports, pa):
    """Record batches and their schema; a single column becomes a table with one column."""
    try:
        if not hasattr(reports, "__arrow_c_stream__"):
            reports = pa.Table.from_arrays([pa.array(reports)], ["report"])
        reader = pa.RecordBatchReader.from_stream(reports)
    except (pa.ArrowException, TypeError, ValueError):
        column = pa.chunked_array(reports)  # a series streams its values, not rows
        reader = pa.Table.from_arrays([column], ["report"]).to_reader()
    schema = reader.schema
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = {name for name in index if isinstance(name, str)}
    if not names:
        return reader, schema
    kept = [name for name in schema.names if name not in names]
    return (batch.select(kept) for batch in reader), schema


def is_iterator(source: Any) -> bool:
    """Whether the source yields one batch after the other; an Arrow reader is a single batch."""
    return hasattr(source, "__next__") and not is_arrow_like(source)


def is_arrow_like(reports: Any) -> bool:
    """Whether the reports export an Arrow stream or array, and pyarrow is there to read it."""
    if not (hasattr(reports, "__arrow_c_stream__") or hasattr(reports, "__arrow_c_array__")):
        return False
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True
