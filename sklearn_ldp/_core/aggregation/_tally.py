"""Tallies: sums of reports, with the ledger of their batches and digests that identify batches."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..mechanisms import (
    MAX_USERS,
    Counts,
    OracleOrProtocol,
    Protocol,
    as_protocol,
    configuration_difference,
)
from ..mechanisms.mechanism import Mechanism
from ._batches import Key, RefusedBatchError, as_key, check_batch_id
from ._header import ContentDigest, Header, PostedHeader
from ._ledger import (
    LENGTHS,
    LINE,
    N_BYTES,
    N_LINES,
    PIECE,
    SMALL,
    CopyRule,
    Ledger,
    file_digest_of,
    lines_of,
    n_first,
)
from .containers import as_chunks, report_fields, to_columns

_N_TESTED = 1 << 16  # reports; 6,000 suffice for OLH, 64 categories, epsilon 4 instead of 1


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums of some batches of reports; ``a + b`` adds up two tallies.

    A tally is the result of a worker: exact integers, the names of the batches and the
    configuration of their reports. It does not depend on the order in which batches were added. It
    does not reveal the order of the reports in a batch, because reports of arrays are dealt to
    shards at random.

    Parameters
    ----------
    configuration : dict
        Configuration of the reports, see :func:`report_configuration`.
    counts : Counts
        Sums of the reports, in a single group.
    ledger : Ledger
        The batches, a mapping from their ids to their numbers of reports.
    tag : str
        The signature from `signed`; empty without a key.
    """

    configuration: dict[str, Any]
    counts: Counts
    ledger: Ledger
    tag: str = ""

    @property
    def tallies(self) -> np.ndarray:
        """For each shard, the sum of its reports' tallies; int64 (n_shards, tally_size)."""
        return self.counts.tallies[0]

    @property
    def sizes(self) -> np.ndarray:
        """Number of reports in each shard, int64 of shape (n_shards,)."""
        return self.counts.sizes[0]

    @property
    def batches(self) -> dict[str, int]:
        """Number of reports of each batch, by its id."""
        return dict(self.ledger)

    @property
    def digests(self) -> dict[str, bytes]:
        """Digest of each batch, by its id.

        A batch without a digest is not compared with other batches of the same id. No digest
        reveals the order of an array.
        """
        return self.ledger.without_order().digests

    @property
    def n_samples(self) -> int:
        """Number of reports."""
        return self.counts.n_samples

    def signed(self, key: Any) -> Tally:
        """Return the tally with a signature, for an aggregator that has a key.

        The sum of two tallies is not signed, even if both are.

        Parameters
        ----------
        key : bytes or None
            The key of the collection. If None, return the tally unchanged.

        Returns
        -------
        Tally
            The same tally, signed.
        """
        secret = as_key(key)
        return self if secret is None else replace(self, tag=secret.tag("tally", self._content()))

    def refuse_unsigned(self, key: Key | None) -> None:
        """Raise RefusedBatchError if there is a key that has not signed this tally.

        Parameters
        ----------
        key : Key or None
            The key of the collection.
        """
        if key is not None and not key.has_made(self.tag, "tally", self._content()):
            fault = "is signed with another key, or was changed" if self.tag else "is not signed"
            raise RefusedBatchError(
                f"A tally of {len(self.ledger)} batches is refused: it {fault}. Pass the key of "
                "the collection to tally_file, tally_reports or Tally.signed."
            )

    def _content(self) -> bytes:
        """Return the signed content: all fields, in one form on every machine."""
        digests = {batch: digest.hex() for batch, digest in self.digests.items()}
        names = [self.configuration, self.batches, digests, list(self.tallies.shape)]
        sums = [np.ascontiguousarray(a, dtype="<i8").tobytes() for a in (self.tallies, self.sizes)]
        return b"\0".join([json.dumps(names, sort_keys=True).encode(), *sums])

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        self.refuse_other(other)
        total = self.n_samples + other.n_samples
        if total > MAX_USERS:
            raise RefusedBatchError(
                f"A tally is refused: one of the counts would be {total}, but sums are exact only "
                "up to 2**53. Estimate from smaller collections."
            )
        ledger = self.ledger + other.ledger
        return Tally(self.configuration, self.counts + other.counts, ledger)

    def refuse_other(self, other: Tally) -> None:
        """Raise RefusedBatchError if a tally has another configuration or number of shards.

        Parameters
        ----------
        other : Tally
            A tally to add.
        """
        ours, theirs = self.configuration, other.configuration
        difference = "" if theirs is ours else configuration_difference(theirs, ours)
        if not difference and other.counts.shape[1:] != self.counts.shape[1:]:
            difference = f"{other.counts.n_shards} shards instead of {self.counts.n_shards}"
        if difference:
            raise RefusedBatchError(
                f"This collection refuses a tally of another collection ({difference}). Reports of "
                "two protocols cannot be added up. Estimate from each of them separately."
            )


def without_order(tally: Tally, rule: CopyRule | None = None) -> Tally:
    """Return the tally without the digests that would reveal the order of the reports."""
    ledger = tally.ledger.without_order(rule)
    return Tally(dict(tally.configuration), tally.counts, ledger, tally.tag)


def checked_tally(tally: Tally, mechanism: Mechanism) -> Tally:
    """Return an external tally with sums as int64; raise RefusedBatchError if it is invalid."""
    try:
        counts = checked_sums(mechanism, tally.tallies, tally.sizes, tally.ledger)
        if not all(type(d) is bytes and len(d) in LENGTHS for d in tally.ledger.digests.values()):
            raise ValueError(f"its digests must have {N_BYTES} bytes, and {LINE} for each line")
    except ValueError as error:
        raise RefusedBatchError(
            f"A tally of {len(tally.ledger)} batches is refused: {error}."
        ) from None
    return replace(tally, counts=counts)


def checked_sums(
    mechanism: Mechanism, tallies: Any, sizes: Any, batches: Mapping[str, int]
) -> Counts:
    """Return sums as counts of a group, after all checks that do not need the reports.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism of the reports.
    tallies : ndarray of shape (n_shards, tally_size)
        Sums of each shard.
    sizes : ndarray of shape (n_shards,)
        Number of reports in each shard.
    batches : mapping
        Number of reports of each batch, keyed by its id.

    Returns
    -------
    Counts
        `tallies` and `sizes` as int64, in a single group.

    Raises
    ------
    ValueError
        If they are not integers, are too large, contradict the ledger, or cannot be sums of this
        number of reports.
    """
    tallies, sizes = _integers(tallies, "counts"), _integers(sizes, "sizes")
    if tallies.ndim != 2 or sizes.shape != tallies.shape[:1]:
        raise ValueError(f"its sums have the shapes {tallies.shape} and {sizes.shape}")
    if sizes.min(initial=0) < 0:
        raise ValueError(f"one of its shards has {sizes.min()} reports")
    n_samples = 0
    for batch_id, n in batches.items():
        check_batch_id(batch_id)
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"its ledger states that batch {batch_id!r:.80} has {n!r:.80} reports")
        n_samples += int(n)
    if n_samples != sum(sizes.tolist()):
        raise ValueError(
            f"its ledger and its counts do not agree: {n_samples} and {sum(sizes.tolist())} reports"
        )
    if n_samples > MAX_USERS:
        raise ValueError(
            f"one of the counts would be {n_samples}, but sums are exact only up to 2**53"
        )
    mechanism.check_tallies(tallies, sizes)
    return Counts(tallies[None], sizes[None])


def _integers(array: Any, name: str) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind not in "iu":
        raise ValueError(f"its {name} are of type {array.dtype}, expected integers")
    if array.size and not -MAX_USERS <= int(array.min()) <= int(array.max()) <= MAX_USERS:
        raise ValueError(
            f"its {name} are from {array.min()} to {array.max()}, but sums are exact only up to "
            "2**53"
        )
    return array.astype(np.int64, copy=False)


def tally_reports(
    reports: Any,
    oracle: OracleOrProtocol,
    batch_id: str,
    *,
    collection_round: str = "",
    key: bytes | None = None,
) -> Tally:
    """Add up one batch of reports: a pure function that a worker can call.

    Memory is bounded for any number of reports: arrays are processed in pieces, and iterators and
    Arrow streams are read once. Arrays without an attached protocol are tested as in the oracle's
    `aggregate`.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream, or iterator of arrays or streams
        Reports from the oracle's `privatize`; together they are one batch.
    oracle : oracle or Protocol
        Unfitted, with declared categories; it is not modified.
    batch_id : str
        Name of the batch.
    collection_round : str, default=""
        Name of the collection.
    key : bytes, default=None
        The key of the collection, which signs the tally.

    Returns
    -------
    Tally
        The tally of the batch.

    Raises
    ------
    RefusedBatchError
        If a report cannot come from the oracle. This is a ValueError.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.collection import tally_reports
    >>> oracle = GRR(1.0, categories=["yes", "no"], n_shards=2)
    >>> tally = tally_reports([0, 1, 1], oracle, "monday")
    >>> (tally + tally_reports([1, 0], oracle, "tuesday")).tallies.sum(axis=0)
    array([2, 3])
    """
    secret = as_key(key)
    protocol = as_protocol(oracle, collection_round)
    return without_order(count_batch(reports, protocol, batch_id)).signed(secret)


def count_batch(
    reports: Any, protocol: Protocol, batch_id: str, header: Header | None = None, key: bytes = b""
) -> Tally:
    """Check and count a batch in time proportional to its reports, not to the tallies.

    `header` is the header of its file. `key` is the key of the digests of lines, see `KnownLines`.
    """
    check_batch_id(batch_id)
    counts = protocol.empty
    # The first shard is random, because small batches must not all fill the same shards.
    number = int.from_bytes(hashlib.sha256(batch_id.encode()).digest()[:8], "little")
    first_shard = number % counts.n_shards
    beginning = Beginning(protocol)
    lines = b""
    is_posted = isinstance(header, PostedHeader)
    n_shards = counts.n_shards
    # Arrays and posted lines may be in the order in which users came. If they were dealt to the
    # shards in turn, like the reports of a shuffled file, the shards' sums would reveal it.
    in_turn = n_shards == 1 or (header is not None and not is_posted)
    slots_of = None if in_turn else partial(_at_random, n_shards)
    try:
        for chunk in beginning.watch(as_chunks(reports, protocol)):
            if len(chunk):
                if header is None and not counts.n_samples:
                    refuse_unlikely(protocol, chunk)
                counts = counts.added(
                    protocol.mechanism,
                    len(chunk),
                    # Each piece is checked while it is in the processor's cache. Reports of a file
                    # were checked when they were read.
                    partial(_checked, None if header else protocol, chunk),
                    protocol.n_jobs,
                    slots_of,
                    first_shard,
                )
                if is_posted and key:
                    lines = _lowest(lines, chunk, key)
        if not counts.n_samples:
            raise ValueError("it contains no reports")
    except RefusedBatchError:  # from reading the file of the batch
        raise
    except ValueError as error:
        raise RefusedBatchError(f"Batch {batch_id!r} is refused: {error}") from None
    digest = beginning.digest(counts, header.origin if header else "")
    ledger = Ledger({batch_id: counts.n_samples}, {batch_id: digest + lines})
    return Tally(protocol.configuration, counts, ledger)


def _at_random(n_shards: int, start: int, stop: int) -> np.ndarray:
    return np.frombuffer(os.urandom(2 * (stop - start)), dtype=np.uint16) % n_shards


def _checked(protocol: Protocol | None, chunk: Any, start: int, stop: int) -> np.ndarray:
    piece = chunk[start:stop]
    return piece if protocol is None else protocol.check(piece, in_any_round=False)


def refuse_unlikely(protocol: Protocol, first: Any) -> None:
    """Raise ValueError if the totals of plain reports show that clients use another epsilon.

    Files contain their configuration. For arrays the first reports suffice, as for `Beginning`.
    """
    protocol.check(first[:_N_TESTED], tests_totals=True, in_any_round=False)


# -- digests that identify batches, however the batches were stored and cut ----------------------
class Beginning:
    """Digest of the first reports of a batch, in canonical form and in their order.

    A digest of all reports would cost half as much as adding them up. The sums already distinguish
    most batches. The beginning distinguishes batches with sums that agree by chance, as happens for
    a yes/no question.

    Parameters
    ----------
    protocol : Protocol
        The protocol of the reports.
    """

    def __init__(self, protocol: Protocol):
        self._protocol = protocol
        self._digest: ContentDigest | None = None
        self._most = self._n_left = n_first(protocol.mechanism.report_entropy(order=2))
        # All reports so far; None if these are more than a few integers.
        self._small: list[np.ndarray] | None = []

    def watch(self, chunks: Iterable[Any]) -> Iterator[Any]:
        """Yield the chunks of a batch unchanged, and read the first of them."""
        for chunk in chunks:
            if self._n_left and len(chunk):
                self._add(chunk[: self._n_left])
            yield chunk

    def _add(self, first: np.ndarray) -> None:
        reports = self._protocol.check(first)
        fields = report_fields(self._protocol, reports)
        self._digest = self._digest or ContentDigest(len(fields))
        self._digest.add(to_columns(reports, fields))
        self._n_left -= len(reports)
        if self._small is not None:
            self._small.append(reports)
            if sum(piece.size for piece in self._small) > SMALL:
                self._small = None

    def digest(self, counts: Counts, file_sha256: str = "") -> bytes:
        """Return the digest of the batch: 16 bytes each for its sums, its beginning and its file.

        For a batch of few integers, the digest of the sorted reports replaces the digest of the
        sums, because summing up would cost more than the rest of the work.

        Half of a SHA-256 each is enough: if a sender constructs two batches of the same digest, the
        sender has made both, so it does not matter which one counts.

        Parameters
        ----------
        counts : Counts
            Sums of the batch's reports. Their distribution over shards does not matter.
        file_sha256 : str, default=""
            Digest in the header of the batch's file, if there is one. It identifies a repeated file
            without reading the reports.

        Returns
        -------
        bytes
            The digest.
        """
        is_small = self._small is not None and counts.n_samples <= self._most
        content = (
            _reports_digest(np.concatenate(self._small or [])) if is_small else _sums_digest(counts)
        )
        beginning = bytes.fromhex(self._digest.hexdigest()) if self._digest else b""
        pieces = content, beginning, file_digest_of(file_sha256)
        return b"".join(piece[:PIECE].ljust(PIECE, b"\0") for piece in pieces)


def _sums_digest(counts: Counts) -> bytes:
    """SHA-256 of the counts that are not 0, with their places, as little-endian integers."""
    shards = np.flatnonzero(counts.sizes[0])  # few, if the batch is small
    tallies = counts.tallies[0]
    total = tallies[shards].sum(axis=0) if len(shards) > 1 else tallies[shards[0]]
    cells = np.flatnonzero(total)
    sha = hashlib.sha256(cells.astype("<i8").tobytes())
    sha.update(total[cells].astype("<i8").tobytes())
    return sha.digest()


def _reports_digest(reports: np.ndarray) -> bytes:
    """SHA-256 of few reports in sorted order, as little-endian integers."""
    rows = reports.astype("<i8")
    in_order = b"".join(sorted(row.tobytes() for row in rows))
    return hashlib.sha256(b"reports" + in_order).digest()


def _lowest(held: bytes, reports: np.ndarray, secret: bytes) -> bytes:
    """Return the lowest digests of the distinct reports; order and repetition do not matter."""
    rows = np.ascontiguousarray(reports, dtype="<i8")
    digests = {
        hashlib.blake2b(row.tobytes(), digest_size=LINE, key=secret).digest() for row in rows
    }
    return b"".join(sorted(digests.union(lines_of(held, 0)))[:N_LINES])
