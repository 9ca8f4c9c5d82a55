"""Convert any container to chunks of integer reports; nothing passes through float64."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..protocols import Protocol

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
        from ._arrow_stream import stream_chunks

        yield from stream_chunks(reports, protocol, _STREAM_ROWS)
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
