"""File formats of reports.

Each format has a writer and a reader, which trusts no size in the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.util import find_spec
from os import SEEK_END, PathLike
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from ...oracles.channels import ReportField
from ..common.parquet import SAFE, column_chunks, refuse_large_footer, walk_pages
from ..common.text import kind_of
from ..mechanisms import Protocol
from ._batches import RefusedBatchError
from ._header import (
    KEY,
    POSTED,
    Header,
    PostedHeader,
    parse_header,
    refuse_other_configuration,
    schema_header,
)
from .containers import (
    arrow_schema,
    cut,
    from_batch,
    from_columns,
    is_older,
    n_integers,
    report_fields,
    row_bytes,
    to_batch,
    to_columns,
    unknown_field,
)

_GROUP_BYTES = 1 << 23  # bytes of reports in a row group or a record batch
_MAX_GROUP = 1 << 20
_LINE_INTEGERS = 1 << 19  # integers in the lines that are read together
_POSTED_BYTES = 1 << 20  # the maximum length of a line in the form in which a client posts it
_SUM_BYTES = 384  # bytes of the numbers whose sum identifies posted lines, see `_posted_id`
# Limits on the work and the memory for a small Parquet file, for which Arrow has no limits.
MAX_COLUMN_BYTES = 1 << 27  # the maximum size of a column in a row group
GROUP_BYTES = 100  # less than the size of a row group with its pages and its entry in the footer
ENTROPY_SHARE = 2  # a file must have at least half of the bits of its reports' entropy
_UNPACKED_SHARE = 16  # Parquet has no small integers, and adds levels to lists
_CHUNK_BYTES = 1 << 12  # for the headers of the pages of a column in a row group

Columns = list[np.ndarray]
Pieces = Iterator[tuple[Columns, list[ReportField]]]


class Format(NamedTuple):
    """The functions of a file format: `write`, `open` and `read`.

    `open` returns the header and an object from which `read` yields the columns of the reports.
    """

    # `open` also receives the location of the file, if it is known, and the numbers of lines of the
    # batches of posted lines that were counted before.
    # `write` receives a lower bound on the random bits in a report. It raises RefusedBatchError if
    # readers would refuse the result.

    write: Callable[[Any, Iterable[Columns], list[ReportField], Header, float], None]
    open: Callable[[Any, str, Collection[int]], tuple[Header, Any]]
    read: Callable[[Any, Header, Protocol], Pieces]


def n_group(fields: list[ReportField]) -> int:
    """Return the number of reports in a group of a new file.

    A group is a row group of Parquet, or a record batch of Arrow.
    """
    return min(max(_GROUP_BYTES // row_bytes(fields), 1), _MAX_GROUP)


def _n_read(fields):
    """Return the number of reports that a reader unpacks together, to limit its memory."""
    return min(max(_GROUP_BYTES // sum(field.width or 8 for field in fields), 1), _MAX_GROUP)


def _groups(pieces, fields):
    """Join or split pieces of columns into groups of `n_group` reports.

    The last group may be smaller.
    """
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


def _joined(pieces):
    if len(pieces) == 1:
        return pieces[0]
    return [np.concatenate(columns) for columns in zip(*pieces, strict=True)]


def _expect_schema(schema, protocol):
    """Return the fields of the columns in a file.

    Raise ValueError if the schema of the file does not fit the protocol.
    """
    import pyarrow as pa

    fields = report_fields(protocol)
    older = list(protocol.mechanism.older_fields)
    if older and schema.names == [field.name for field in older]:
        fields = older
    if not fields:  # the mechanism defines no columns: one column of 64-bit integers
        is_rows = len(schema.types) == 1 and pa.types.is_fixed_size_list(schema.types[0])
        fields = [unknown_field(schema.types[0].list_size if is_rows else None)]
    expected = arrow_schema(fields, {})
    kinds = [_without_lists_of_bytes(kind) for kind in schema.types]
    expected_kinds = [_without_lists_of_bytes(kind) for kind in expected.types]
    if schema.names != expected.names or kinds != expected_kinds:
        ours = ", ".join(f"{field.name} {field.type}" for field in expected)
        theirs = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise ValueError(
            f"expected columns {ours}, got {theirs[:200]}. Check that the file was written for "
            "the same oracle"
        )
    return fields


def _without_lists_of_bytes(kind):
    """Return the type of a column, after replacing a list of bytes by fixed-size binary.

    Files of earlier releases contain lists of bytes.
    """
    import pyarrow as pa

    is_list = pa.types.is_fixed_size_list(kind) and kind.value_type == pa.uint8()
    return pa.binary(kind.list_size) if is_list else kind


# -- Parquet ----------------------------------------------------------------------------------
def _write_parquet(sink, pieces, fields, header, entropy):
    import pyarrow as pa
    import pyarrow.parquet as pq

    counted = pa.PythonFile(sink, mode="w")
    schema = arrow_schema(fields, {KEY: header.to_json().encode()})
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
    most = most_reports(counted.tell(), entropy, n_group(fields))
    if header.n_samples > most:
        raise RefusedBatchError(
            f"The batch is not written: its {header.n_samples} reports are so similar that they "
            f"need the bytes of only {most} honest reports, and readers would refuse the file. "
            "Write the result of privatize, or pass format='arrow' for other reports."
        )


def _open_parquet(source, *_):
    import pyarrow.parquet as pq

    refuse_large_footer(source)
    file = pq.ParquetFile(source, **SAFE, page_checksum_verification=True)
    return schema_header(file.schema_arrow.metadata), (source, file)


def _read_parquet(opened, header, protocol):
    source, file = opened
    fields = _expect_schema(file.schema_arrow, protocol)
    if (n_rows := file.metadata.num_rows) != header.n_samples:
        raise ValueError(
            f"the header states {header.n_samples} reports, but the footer states {n_rows}. Copy "
            "or write the file again"
        )
    n_bytes, entropy = source.seek(0, SEEK_END), protocol.mechanism.report_entropy()
    refuse_impossible(header.n_samples, n_bytes, entropy, n_group(fields))
    refuse_large_pages(source, n_bytes, row_bytes(fields))
    for batch in file.iter_batches(batch_size=_n_read(fields), use_threads=False):
        batch.validate(full=True)
        yield from_batch(batch), fields


def most_reports(n_bytes: int, entropy: float, group_rows: int) -> int:
    """Return the maximum number of randomized reports that a Parquet file of this size can contain.

    `entropy` is a lower bound on the random bits in a report, and `group_rows` is the number of
    reports in a row group. `refuse_impossible` explains the bound.
    """
    most = n_bytes * group_rows // GROUP_BYTES
    return min(most, int(ENTROPY_SHARE * 8 * n_bytes / entropy)) if entropy > 0 else most


def refuse_impossible(n_samples: int, n_bytes: int, entropy: float, group_rows: int) -> None:
    """Raise ValueError if a Parquet file claims more reports than its bytes can contain.

    The arguments are the claimed number of reports and the arguments of `most_reports`.
    """
    # Reports are random for any values, and no format stores them in fewer bits than their entropy.
    # The exceptions are random, and a share of 1 / `ENTROPY_SHARE` makes them negligible: less than
    # exp(-20) for a file of any oracle at any epsilon, because a header alone needs over 1,000
    # bytes. If epsilon is so large that all reports may be equal, the row groups limit the number:
    # none has more than `group_rows` rows, and each needs at least `GROUP_BYTES`.
    # entropy: a lower bound on the random bits in a report.
    most = most_reports(n_bytes, entropy, group_rows)
    if n_samples > most:
        raise ValueError(
            f"the file claims {n_samples} reports in {n_bytes} bytes, which fit at most {most} "
            "honest reports. Write reports from privatize with write_reports"
        )


def refuse_large_pages(source: Any, n_bytes: int, row_bytes: int) -> None:
    """Raise ValueError if the pages of a Parquet file would need too much memory, or overlap.

    The limit for the unpacked pages follows from the number of rows and the bytes per row.
    """
    # The sizes in the file's footer are only claims. A reader allocates the sizes in the pages' own
    # headers. So every page header is read, and no byte of the file may belong to two columns.
    # row_bytes: bytes per report in its columns.

    def most(n_rows: int) -> int:
        return min(_UNPACKED_SHARE * n_rows * row_bytes + _CHUNK_BYTES, MAX_COLUMN_BYTES)

    walk_pages(source, column_chunks(source), n_bytes, most)


# -- Arrow IPC stream -------------------------------------------------------------------------
def _write_arrow(sink, pieces, fields, header, entropy):
    import pyarrow as pa

    schema = arrow_schema(fields, {KEY: header.to_json().encode()})
    with pa.ipc.new_stream(sink, schema) as writer:
        for piece in _groups(pieces, fields):
            writer.write_batch(to_batch(piece, schema))


def _open_arrow(source, *_):
    import pyarrow as pa

    messages = read_messages(source)
    first = next(messages, None)
    if first is None or first.type != "schema":
        raise ValueError(
            "the file does not begin with an Arrow schema. Check that write_reports has written "
            "it in the format 'arrow'"
        )
    schema = pa.ipc.read_schema(first)
    return schema_header(schema.metadata), (schema, messages)


def _read_arrow(opened, header, protocol):
    import pyarrow as pa

    schema, messages = opened
    fields = _expect_schema(schema, protocol)
    for message in messages:
        if message.type != "record batch":
            raise ValueError(
                f"expected only record batches after the schema, got a {message.type}. Write the "
                "file with write_reports"
            )
        refuse_compressed(message)
        for piece in cut(pa.ipc.read_record_batch(message, schema), _n_read(fields)):
            yield from_batch(piece), fields


# -- JSON lines -------------------------------------------------------------------------------
def _write_jsonl(sink, pieces, fields, header, entropy):
    sink.write(f"{header.to_json()}\n".encode())
    for piece in _groups(pieces, fields):
        rows = from_columns(piece, fields).tolist()
        text = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows)
        sink.write(text.encode())


def _open_jsonl(source, place, sizes):
    start = source.tell() if source.seekable() else None
    first = source.readline(_POSTED_BYTES + 2) or b"{}"
    post = _parsed(first)
    if not isinstance(post, dict) or "report" not in post:
        return parse_header(first), source
    if start is None:
        raise ValueError(
            "lines in the form that clients post must be read twice, but this source can be read "
            "only once. Save the lines to a file and pass its path"
        )
    source.seek(start)
    name = PurePath(place).name
    total = 0
    n_samples = 0
    prefixes = []
    while line := source.readline(_POSTED_BYTES + 2):
        if n_samples in sizes:
            prefixes.append(_posted_id(name, total))
        spelled = line.translate(None, b" \t\r\n")  # JSON may have spaces anywhere
        total += int.from_bytes(hashlib.shake_256(spelled).digest(_SUM_BYTES), "little")
        n_samples += 1
    source.seek(start)
    # This batch has no name, and no digest of its reports.
    where = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest() if place else ""
    header = PostedHeader(
        configuration=_posted(first)["configuration"],
        batch_id=_posted_id(name, total),
        n_samples=n_samples,
        sha256="",
        place=where,
        prefixes=tuple(prefixes),
    )
    return header, source


def _posted_id(name: str, total: int) -> str:
    """Return the id of a batch of posted lines, which are reports as clients post them.

    The id is a digest of the file name and of the lines, and does not depend on their order.
    """
    # The lines are often in the order in which users came, and a reader of the id could find that
    # order by trying some. So the id depends only on the sum of a number for each line. Finding
    # other lines with the same sum needs about 2**110 operations (D. Wagner, 2002,
    # https://doi.org/10.1007/3-540-45708-9_19: 2**(2 sqrt(b)) for sums modulo 2**b). The name is
    # included because the lines of two honest files of few categories are often the same in some
    # order.
    content = name.encode("utf-8", "surrogateescape") + b"\0" + total.to_bytes(_SUM_BYTES + 8)
    return POSTED + hashlib.sha256(content).hexdigest()[:32]


def _parsed(line: bytes) -> Any:
    """Return the value in a line of JSON. Return None if the line is not valid JSON."""
    try:
        return json.loads(line.decode(), object_pairs_hook=without_repeats)
    except (ValueError, RecursionError):
        return None


def _posted(line: bytes) -> dict[str, Any]:
    """Return the content of a line that a client has posted.

    It is a dict with a configuration and a report. Raise ValueError if the line contains anything
    else.
    """
    if len(line.rstrip(b"\r\n")) > _POSTED_BYTES:  # whether or not other lines follow
        raise ValueError(
            f"a line has more than {_POSTED_BYTES} bytes, which is the maximum for a posted "
            "report. Check that each line contains one report"
        )
    post = _parsed(line)
    is_fine = isinstance(post, dict) and post.keys() == {"configuration", "report"}
    if not is_fine or not isinstance(post["configuration"], dict):
        raise ValueError(
            "expected a configuration and a report in each line and nothing else, got "
            f"{kind_of(line)}. Remove other entries such as a nonce or a version, which only a "
            "server uses"
        )
    return post


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict.

    Raise ValueError if a name occurs twice, because programs would disagree about its value.
    """
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("a JSON object contains a name twice. Remove one of the entries")
    return entries


def _posted_rows(source, protocol):
    """Yield the report in each line that a client has posted.

    The configuration of each line is compared with the protocol, and a report in the layout of an
    earlier release is converted to the present layout.
    """
    older = n_integers(list(protocol.mechanism.older_fields))
    known = None
    while line := source.readline(_POSTED_BYTES + 2):
        post = _posted(line)
        report = post["report"]
        configuration = post["configuration"]
        if configuration != known:
            refuse_other_configuration(configuration, protocol)
            known = configuration
        if isinstance(report, list):  # large integers are texts
            report = [int(x) if _is_large(x) else x for x in report]
            if older and len(report) == older:
                row = _row(report, True, [older])
                report = protocol.check(np.array([row], dtype=np.int64))[0].tolist()
        yield report


def _is_large(x: Any) -> bool:
    return isinstance(x, str) and x.isascii() and x.isdecimal() and len(x) <= 20


def _rows(source, limit):
    while line := source.readline(limit):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError(
                f"expected a line of JSON, got {kind_of(line)}. Check that the file was written "
                "by write_reports"
            ) from None


def _read_jsonl(source, header, protocol):
    fields = report_fields(protocol)
    older = list(protocol.mechanism.older_fields)
    is_posted = isinstance(header, PostedHeader)
    widths = {n_integers(form): form for form in ([] if is_posted else older, fields) if form}
    limit = 64 + 24 * max(widths, default=1 << 16)
    is_row = bool(fields) and (len(fields) > 1 or fields[0].width is not None)
    rows: list = []

    def columns():
        array = np.array(rows, dtype=np.int64)
        own = next(iter(widths.values())) if fields else report_fields(protocol, array)
        # A bad report may not fit into the columns, so it is checked first.
        checked = protocol.check(array)
        return to_columns(array if is_older(own, protocol) else checked, own), own

    for row in _posted_rows(source, protocol) if is_posted else _rows(source, limit):
        rows.append(_row(row, is_row if fields else None, list(widths)))
        n_items = len(row) if isinstance(row, list) else 1
        if isinstance(row, list) and fields:
            widths = {n_items: widths[n_items]}  # all lines have the form of the first
        if len(rows) * n_items >= _LINE_INTEGERS:
            yield columns()
            rows = []
    if rows:
        yield columns()


def _row(row, is_row, widths):
    if is_row is None:
        is_row = isinstance(row, list)
    items = row if is_row and isinstance(row, list) else [row]
    if any(type(item) is not int or not -(2**63) <= item < 2**63 for item in items) or (
        is_row and (not isinstance(row, list) or (widths and len(row) not in widths))
    ):
        lengths = " or ".join(map(str, reversed(widths))) or "some"
        expectation = f"a list of {lengths} 64-bit integers" if is_row else "a 64-bit integer"
        is_wide = not is_row and isinstance(row, list)
        hint = ". If a report is one integer, write it without a list" if is_wide else ""
        raise ValueError(f"expected {expectation} per line, got {kind_of(row)}{hint}")
    return row


FORMATS = {
    "parquet": Format(_write_parquet, _open_parquet, _read_parquet),
    "arrow": Format(_write_arrow, _open_arrow, _read_arrow),
    "jsonl": Format(_write_jsonl, _open_jsonl, _read_jsonl),
}
SUFFIXES = {".parquet": "parquet", ".arrows": "arrow", ".arrow": "arrow", ".jsonl": "jsonl"}


def format_of(path: object, form: str) -> str:
    """Return the name of the format: `form`, or for "auto" the format of the file's suffix."""
    if form == "auto":
        suffix = PurePath(path).suffix.lower() if isinstance(path, (str, PathLike)) else None
        if suffix not in SUFFIXES:
            name = os.fspath(path) if isinstance(path, PathLike) else path
            raise ValueError(
                f"The format of {name!r:.200} is unknown. Use a name that ends with one of "
                f"{', '.join(SUFFIXES)}, or pass format=."
            )
        form = SUFFIXES[suffix]
    if form not in FORMATS:
        raise ValueError(
            f"format must be one of {sorted(FORMATS)} or 'auto', got {form!r}. Pass one of these "
            "names."
        )
    if form != "jsonl" and find_spec("pyarrow") is None:
        raise ImportError(
            f"The format {form!r} needs pyarrow. Run pip install 'sklearn_ldp[data]', or pass "
            "format='jsonl'."
        )
    return form


# -- messages of an Arrow stream, whose sizes are checked before memory is allocated --------------
MAX_METADATA_BYTES = 1 << 20  # of a message; a schema with the header of a file needs a few kB
MAX_BODY_BYTES = 1 << 28  # of a record batch
_PIECE_BYTES = 1 << 20  # bytes read together: enough for a disk, little for memory
_CONTINUATION = 0xFFFFFFFF


def read_messages(source: Any) -> Iterator[Any]:
    """Yield the messages of an Arrow IPC stream one by one.

    `source` is a file at the beginning of the stream. It need not be seekable. Memory is allocated
    only for bytes that exist, whatever lengths the messages state.
    """
    # If a file were cut short while it is mapped, the process would be killed, so the bytes are
    # read. A message states its length, but memory is allocated only for bytes that exist.
    import pyarrow as pa

    while head := _read(source, 4):
        if len(head) < 4 or struct.unpack("<I", head)[0] != _CONTINUATION:
            raise ValueError(
                "expected an Arrow stream, but other bytes follow a message. Write the file with "
                "write_reports"
            )
        length = struct.unpack("<i", _read_all(source, 4))[0]
        if length == 0:  # the end of the stream
            return
        if not 0 < length <= MAX_METADATA_BYTES:
            raise ValueError(
                f"a message of the Arrow stream claims metadata of {length} bytes, but at most "
                f"{MAX_METADATA_BYTES} are allowed. Write the file with write_reports"
            )
        metadata = _read_all(source, length)
        size = _body_bytes(metadata)
        if not 0 <= size <= MAX_BODY_BYTES:
            raise ValueError(
                f"expected record batches of up to {MAX_BODY_BYTES} bytes, got a record batch of "
                f"{size} bytes. Write smaller record batches"
            )
        body = _read_all(source, size)
        frame = b"".join((struct.pack("<Ii", _CONTINUATION, length), metadata, body))
        yield pa.ipc.read_message(pa.BufferReader(frame))


def _read(source: Any, size: int) -> bytearray:
    """Read `size` bytes, or fewer if the file is shorter.

    The bytes are read in pieces, because the stated size may be larger than the file.
    """
    content = bytearray()
    while piece := source.read(min(size - len(content), _PIECE_BYTES)):
        content += piece
    return content


def _read_all(source: Any, size: int) -> bytearray:
    content = _read(source, size)
    if len(content) < size:
        raise ValueError(
            f"the file is truncated: a message lacks {size - len(content)} of {size} bytes. Copy "
            "the file again"
        )
    return content


def _body_bytes(metadata: bytes | bytearray) -> int:
    """Return the size of the body of an Arrow message in bytes, as its metadata state it."""
    try:
        root = struct.unpack_from("<I", metadata)[0]
        place = _table_field(metadata, root, 3)
        return struct.unpack_from("<q", metadata, root + place)[0] if place else 0
    except struct.error:
        raise ValueError(
            "the metadata of a message of the Arrow stream are damaged. Copy or write the file "
            "again"
        ) from None


def refuse_compressed(message: Any) -> None:
    """Raise ValueError if an Arrow record batch is compressed.

    The unpacked size of a compressed batch is only a claim of its sender.
    """
    # message: a record batch, not yet decoded. Its flatbuffer has a `compression` field if it is
    # compressed.
    data = message.metadata.to_pybytes()
    try:
        root = struct.unpack_from("<I", data)[0]
        header = root + _table_field(data, root, 2)
        batch = header + struct.unpack_from("<I", data, header)[0]
        is_compressed = _table_field(data, batch, 3) != 0
    except struct.error:
        raise ValueError(
            "the header of a record batch is damaged. Copy or write the file again"
        ) from None
    if is_compressed:
        raise ValueError(
            "the record batches are compressed, which is not supported. Write the Arrow stream "
            "without compression"
        )


def _table_field(data, table, index):
    """Return the offset of a field in a table of a flatbuffer (the format of Arrow's metadata).

    Return 0 if the table does not contain the field.
    """
    entries = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * index
    if place >= struct.unpack_from("<H", data, entries)[0]:
        return 0
    return struct.unpack_from("<H", data, entries + place)[0]
