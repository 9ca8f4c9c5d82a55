"""Reading and writing files of reports.

A file is a shuffled batch with its configuration and id.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields as fields_of
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..common.files import errors_name, replacing
from ..common.random import RandomState, as_generator
from ..common.text import printable
from ..common.typing import ReportSink, ReportSource
from ..mechanisms import OracleOrProtocol, Protocol, Reports, as_protocol
from ..mechanisms.coins import SecureCoins
from ..mechanisms.protocol import reports_of
from ._batches import Key, RefusedBatchError, as_key, check_batch_id
from ._header import ContentDigest, Header, parse_header, refuse_other_configuration
from ._ledger import NO_LINES
from ._tally import Tally, count_batch, refuse_unlikely, without_order
from .containers import as_chunks, from_columns, is_older, report_fields, to_columns
from .formats import FORMATS, format_of
from .sources import is_path, is_url, name_of, open_source, uploading


def write_reports(
    path: ReportSink,
    reports: Any,
    oracle: OracleOrProtocol,
    *,
    batch_id: str | None = None,
    collection_round: str = "",
    format: str = "auto",
    random_state: RandomState = None,
    key: bytes | None = None,
) -> str:
    """Write a batch of reports to a file, with a description of the reports.

    The file contains the configuration of the oracle, the round, the id of the batch, the number of
    reports and their SHA-256 digest. So a reader can refuse reports of another collection, and
    count a batch once even if it is sent several times. Integers are stored exactly, in the
    smallest integer type, and bits are packed into bytes.

    Privacy: costs none. Reports are shuffled, so their order reveals nothing about the order in
    which users came. If a report consists of several integers, their order reveals nothing either,
    because every oracle writes them in a canonical order.

    Parameters
    ----------
    path : path-like or binary file
        The file to write. A path is written atomically: after an error, there is no new file. An
        address such as ``s3://bucket/a.parquet`` needs a driver, as for :func:`aggregate`, which
        reads the credentials from the environment.
    reports : array-like, Arrow stream, or iterator of arrays or streams
        Reports from the oracle's `privatize`. If they arrive in pieces, up to 64 MB of them (about
        three million reports) are stored in memory, and more are stored in a temporary file, in the
        folder of the module `tempfile`. The order of the reports in the file is uniformly random in
        either case.
    oracle : oracle or Protocol
        An unfitted oracle with declared categories, or its protocol.
    batch_id : str, default=None
        Name of the batch. If None, a random name is drawn. Two files of the same array then have
        different names and are two batches, so pass a name if you may write the array twice. The
        name is not computed from the reports, because it would reveal their original order to an
        attacker who knows most of them.
    collection_round : str, default=""
        Name of the collection.
    format : {"auto", "parquet", "arrow", "jsonl"}, default="auto"
        Format of the file: Parquet with zstd compression, an uncompressed Arrow IPC stream, or
        lines of JSON for debugging. "auto" chooses the format by the suffix of the file name:
        ``.parquet``, ``.arrows`` (or ``.arrow``) or ``.jsonl``.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness of the shuffle. If None, use the secure source of the operating system.
    key : bytes, default=None
        The key of the collection, at least 16 bytes. It signs the configuration, the round, the id,
        the number of reports and their digest (HMAC-SHA-256). If None, the file is not signed.

    Returns
    -------
    str
        The id of the batch.

    Raises
    ------
    RefusedBatchError
        If a report cannot come from the oracle; if the reports have no attached protocol and
        support clearly more or fewer categories than expected for this epsilon (see the oracle's
        `aggregate`); or if Parquet compresses the reports to fewer bytes than randomized reports
        need, for example because they are raw values (readers would refuse such a file). This is a
        ValueError. No file is then written. If you passed an open file, discard its content.

    Examples
    --------
    >>> import io
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.collection import read_reports, write_reports
    >>> oracle = GRR(1.0, categories=["yes", "no"])
    >>> file = io.BytesIO()
    >>> write_reports(file, oracle.privatize(["yes"] * 3), oracle, batch_id="a", format="arrow")
    'a'
    >>> read_reports(file.getvalue(), oracle, format="arrow").dtype
    dtype('uint8')
    """
    form = format_of(path, format)
    secret = as_key(key)
    protocol = as_protocol(oracle, collection_round)
    batch_id = secrets.token_hex(16) if batch_id is None else batch_id
    check_batch_id(batch_id)
    # Errors of the arguments come before `reports` is read, because a generator may randomize.
    likely = Header(protocol.configuration, batch_id, 1, "0" * 64, "0" * 64)
    parse_header(likely.to_json())
    with Shuffle(random_state) as shuffle:
        fields = _add_checked(shuffle, reports, protocol)
        pieces = shuffle.finish()
        digest = ContentDigest(len(fields))
        for columns in pieces:
            digest.add(columns)
        header = Header(protocol.configuration, batch_id, digest.n_samples, digest.hexdigest())
        header = header.signed(secret)
        with _opened_to_write(path) as file:
            entropy = protocol.mechanism.report_entropy()
            FORMATS[form].write(file, pieces, fields, header, entropy)
    return batch_id


def _opened_to_write(path: Any) -> AbstractContextManager[Any]:
    """Return a context whose value is the binary file to write to."""
    if hasattr(path, "write"):
        return nullcontext(path)
    return uploading(path) if is_url(path) else replacing(Path(path))


def _add_checked(shuffle, reports, protocol):
    """Check all reports of a batch and add them to a Shuffle as columns.

    Return the descriptions of the columns.
    """
    fields: list = []
    is_held = isinstance(reports, np.ndarray) and not isinstance(reports, np.memmap)
    try:
        for chunk in as_chunks(reports, protocol):
            if len(chunk):
                if not fields:
                    refuse_unlikely(protocol, chunk)
                checked = protocol.check(chunk, in_any_round=False)
                fields = report_fields(protocol, checked)
                shuffle.add(to_columns(checked, fields), may_spill=not is_held)
        if not fields:
            raise ValueError("there are no reports. Pass at least one report")
    except ValueError as error:
        raise RefusedBatchError(f"The batch is not written: {error}") from None
    return fields


def read_reports(
    path: ReportSource,
    oracle: OracleOrProtocol,
    *,
    collection_round: str = "",
    format: str = "auto",
    key: bytes | None = None,
) -> Reports:
    """Return the reports in a file that `write_reports` wrote.

    Privacy: costs none.

    Parameters
    ----------
    path : path-like, bytes or binary file
        A file from `write_reports`.
    oracle : oracle or Protocol
        An unfitted oracle with the same parameters as the clients' oracle; or its protocol.
    collection_round : str, default=""
        Name of the collection.
    format : {"auto", "parquet", "arrow", "jsonl"}, default="auto"
        As for `write_reports`.
    key : bytes, default=None
        The key of the collection. A file that the key has not signed is refused.

    Returns
    -------
    Reports whose first axis is the users
        The reports, as integers of the smallest possible type, with their protocol attached.

    Raises
    ------
    RefusedBatchError
        If the reports have another configuration or round, if the file is damaged or truncated, if
        it is not a file of reports, or if there is a key that has not signed it. This is a
        ValueError that states the reason.
    """
    protocol = as_protocol(oracle, collection_round)
    pieces = _read(path, protocol, format, as_key(key))
    return reports_of(np.concatenate([chunk for _, chunk in pieces]), protocol)


def tally_file(
    path: ReportSource,
    oracle: OracleOrProtocol,
    *,
    collection_round: str = "",
    format: str = "auto",
    key: bytes | None = None,
) -> Tally:
    """Add up the reports in a file. This is a pure function that a worker can call.

    Memory is bounded for any number of reports. Privacy: costs none.

    A file may also contain reports as clients post them, one per line, and such a file may grow.
    Two tallies of the same file do not show whether lines were added between them. So an aggregator
    refuses a second tally of the same path. Use :func:`aggregate` for such files, because it reads
    and compares the lines.

    Parameters
    ----------
    path : path-like, bytes or binary file
        A file from `write_reports`.
    oracle : oracle or Protocol
        An unfitted oracle with the same parameters as the clients' oracle; or its protocol.
    collection_round : str, default=""
        Name of the collection.
    format : {"auto", "parquet", "arrow", "jsonl"}, default="auto"
        As for `write_reports`.
    key : bytes, default=None
        The key of the collection. A file without a signature of the key is refused, and the tally
        is signed with the key.

    Returns
    -------
    Tally
        The sums of the reports, with the id of the batch from the file. Use ``+`` to add up two
        tallies, or :meth:`Aggregator.merge` to add a tally to an :class:`Aggregator`.

    Raises
    ------
    RefusedBatchError
        For the same reasons as in `read_reports`.
    """
    secret = as_key(key)
    protocol = as_protocol(oracle, collection_round)
    batch = count_source(path, protocol, format, secret)
    assert batch is not None  # no ledger contains it
    return without_order(batch).signed(secret)


def count_source(
    path: Any,
    protocol: Protocol,
    form: str,
    key: Key | None,
    is_known: Any = None,
    lines: Any = NO_LINES,
) -> Tally | None:
    """Check and count the reports of a file, like `tally_file`.

    Return None, without reading the reports, if `is_known` returns True for the header of the file.
    """
    pieces = _read(path, protocol, form, key, is_known, lines.sizes)
    header, first = next(pieces, (None, None))
    if header is None:
        return None
    chunks = chain([first], (chunk for _, chunk in pieces))
    return count_batch(chunks, protocol, header.batch_id, header, lines.secret)


def describe_reports(path: ReportSource, *, format: str = "auto") -> dict[str, Any]:
    """Return the description of the reports in a file, without reading the reports.

    Parameters
    ----------
    path : path-like, bytes or binary file
        A file from `write_reports`.
    format : {"auto", "parquet", "arrow", "jsonl"}, default="auto"
        As for `write_reports`.

    Returns
    -------
    dict
        The keys are `configuration` (the result of :func:`report_configuration`), `batch_id`,
        `n_samples` (the number of reports), `sha256` (their digest) and `tag` (the signature, empty
        if the file is not signed). The sender of the file has written these entries. They are
        verified only when the reports are read.

    Raises
    ------
    RefusedBatchError
        If the header of the file cannot be read. This is a ValueError.
    """
    header = read_header(path, format)
    return {field.name: getattr(header, field.name) for field in fields_of(Header)}


def read_header(path: Any, form: str = "auto", key: Key | None = None, sizes: Any = ()) -> Header:
    """Return the header of a file. If there is a key, it must have signed the header."""
    # `sizes` are the numbers of lines of the batches of posted lines that were counted before.
    with _opened(path, form, key, sizes) as (header, _):
        return header


@contextmanager
def _opened(path: Any, form: str, key: Key | None, sizes: Any) -> Iterator[tuple[Header, Callable]]:
    """Yield the header of a file, and a function that reads the reports.

    Every error in the `with` block is raised as a RefusedBatchError that names the file.
    """
    source, form = open_source(path, form)
    try:
        place = os.fspath(path) if is_path(path) else ""
        place = place if not place or is_url(place) else os.path.realpath(place)
        header, opened = FORMATS[form].open(source, place, sizes)
        header.refuse_unsigned(key)
        yield header, partial(FORMATS[form].read, opened, header)
    except RefusedBatchError:
        raise
    except Exception as error:  # a damaged file can make Arrow raise any exception
        reason = printable(str(error)[:1000] or type(error).__name__)
        raise RefusedBatchError(f"{name_of(path)} is refused: {reason}") from None
    finally:
        source.close()


def _read(
    path: Any,
    protocol: Protocol,
    form: str,
    key: Key | None = None,
    is_known: Callable[[Header], bool] | None = None,
    sizes: Collection[int] = (),
) -> Iterator[tuple[Header, np.ndarray]]:
    """Yield pairs of the header and a piece of the reports in canonical form.

    After the last piece, raise ValueError if the digest of all pieces differs from the header.
    """
    # Nothing is yielded if the batch is known, which is decided after reading its header.
    with _opened(path, form, key, sizes) as (header, read):
        if is_known is not None and is_known(header):
            return
        refuse_other_configuration(header.configuration, protocol)
        digest = None
        for columns, fields in read(protocol):
            digest = digest or ContentDigest(len(fields))
            rows = from_columns(columns, fields)
            reports = protocol.check(rows)
            # The digest is of the form that writers write, so other forms are not accepted.
            raw = rows if is_older(fields, protocol) else reports
            digest.add(to_columns(raw, fields))
            if digest.n_samples > header.n_samples:
                break
            yield header, reports
        if digest is None:
            raise ValueError("it contains no reports")
        digest.refuse_other(header)


# -- a uniform shuffle of columns of reports that need not fit into memory ------------------------
HELD_BYTES = 1 << 26  # the maximum in memory; more columns go to a temporary file
_ORDER_BYTES = 16  # bytes of a random key and an index, for each row
_N_BUCKETS = 256  # one random byte per row chooses a bucket

Columns = list[np.ndarray]


class Shuffle(AbstractContextManager["Shuffle"]):
    """Collect reports piece by piece as columns, and return all reports in random order."""

    # Few rows are shuffled in memory. Many rows are dealt at random to the buckets of a temporary
    # file, and each bucket is shuffled by itself. Then all orders are equally likely, because this
    # is a sort by random numbers, which begins with their first digit.
    # A context manager, which removes the temporary file at its end.
    # random_state: source of randomness; None is the secure source.

    def __init__(self, random_state: RandomState) -> None:
        self._rng = None if random_state is None else as_generator(random_state)
        self._held: list[Columns] = []
        self._held_bytes = 0
        self._file: Any = None
        # The positions of each bucket's rows in the file: (place, bytes) of every piece.
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(_N_BUCKETS)]

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            with errors_name(Path(tempfile.gettempdir())):  # closing flushes the file
                self._file.close()

    def add(self, columns: Columns, may_spill: bool) -> None:
        """Add reports as columns of equal length.

        They stay in memory if `may_spill` is false; otherwise they may go to a temporary file.
        """
        self._held.append(columns)
        self._held_bytes += sum(column.nbytes for column in columns)
        self._held_bytes += _ORDER_BYTES * len(columns[0])
        if may_spill and self._held_bytes > HELD_BYTES:
            self._spill()

    def finish(self) -> Iterable[Columns]:
        """Return all reports in random order, as an iterable of pieces.

        Each piece is a list of columns. The result can be iterated several times.
        """
        if self._file is None:
            columns = self._joined()
            order = self._permutation(len(columns[0]))
            return [[column[order] for column in columns]]
        if self._held:
            self._spill()
        for places in self._places:
            rows = self._read(places)
            content = rows[self._permutation(len(rows))].tobytes()
            start = 0
            for place, size in places:
                self._file.seek(place)
                self._file.write(content[start : start + size])
                start += size
        return self

    def __iter__(self) -> Iterator[Columns]:
        for places in filter(None, self._places):
            rows = self._read(places).view(self._row)
            yield [np.ascontiguousarray(rows[name]) for name in self._row.names]

    def _joined(self) -> Columns:
        columns = [np.concatenate(pieces) for pieces in zip(*self._held, strict=True)]
        self._held = []
        self._held_bytes = 0
        return columns

    def _permutation(self, n: int) -> np.ndarray:
        """Return a uniformly random permutation of the integers from 0 to n - 1."""
        if self._rng is not None:
            return self._rng.permutation(n)
        # The sorting order of random 64-bit keys.
        return np.argsort(SecureCoins().bytes(8 * n).view(np.uint64))

    def _buckets_of(self, n: int) -> np.ndarray:
        """Return a random bucket, from 0 to 255, for each of n reports."""
        if self._rng is not None:
            return self._rng.integers(_N_BUCKETS, size=n, dtype=np.uint8)
        return SecureCoins().bytes(n)

    def _spill(self) -> None:
        """Write the reports in memory to the temporary file, sorted by random buckets."""
        columns = self._joined()
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            self._row: Any = np.dtype([("", column.dtype, column.shape[1:]) for column in columns])
        rows = np.empty(len(columns[0]), self._row)
        for name, column in zip(self._row.names, columns, strict=True):
            rows[name] = column
        buckets = self._buckets_of(len(rows))
        size = rows.itemsize
        place = self._file.seek(0, os.SEEK_END)
        with errors_name(Path(tempfile.gettempdir())):
            self._file.write(rows.view(f"V{size}")[np.argsort(buckets, kind="stable")].data)
            self._file.flush()
        for places, m in zip(self._places, np.bincount(buckets, minlength=_N_BUCKETS), strict=True):
            if m:
                places.append((place, int(m) * size))
                place += int(m) * size

    def _read(self, places: list[tuple[int, int]]) -> np.ndarray:
        """Return the reports of one bucket from the temporary file.

        `places` lists the position and the number of bytes of each of the bucket's pieces.
        """
        content = bytearray()
        for place, size in places:
            self._file.seek(place)
            content += self._file.read(size)
        return np.frombuffer(content, f"V{self._row.itemsize}")
