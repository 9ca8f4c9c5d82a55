"""Reports from any object that streams Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..protocols import Protocol
from ._arrow import from_batch, from_columns, report_fields
from ._header import found_header


def stream_chunks(reports: Any, protocol: Protocol, n_rows: int) -> Iterator[np.ndarray]:
    """Yield arrays of reports from any object with the Arrow PyCapsule interface.

    Parameters
    ----------
    reports : data frame, series, table, reader, ..
        A stream of columns, or a single column. If the stream carries a configuration, it must be
        the protocol's; a stream without one is assumed to be of the protocol.
    protocol : Protocol
        The protocol of the reports.
    n_rows : int
        Maximum number of rows per array.

    Yields
    ------
    ndarray whose first axis is the users
        Reports, not yet checked.
    """
    import pyarrow as pa

    fields = report_fields(protocol)
    batches, schema = _batches(reports, pa)
    found_header(schema.metadata, protocol)
    try:
        for batch in batches:
            batch.validate(full=True)
            for start in range(0, batch.num_rows, n_rows):
                yield from_columns(from_batch(batch.slice(start, n_rows)), fields)
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
