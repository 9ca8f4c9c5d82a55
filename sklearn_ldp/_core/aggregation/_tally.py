"""Tallies: sums of the reports of some batches, with the ids and digests of these batches."""

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

    A tally contains exact integers, the ids of the batches and the configuration of their reports.
    A worker computes the tally of its batches, and a server adds up the tallies. A tally does not
    depend on the order in which batches were added. It does not reveal the order of the reports in
    a batch: the reports of an array are assigned at random to shards, which are groups of reports
    with separate sums.

    Parameters
    ----------
    configuration : dict
        Configuration of the reports, see :func:`report_configuration`.
    counts : Counts
        The sums of the reports of each shard, and the numbers of reports.
    ledger : Ledger
        The batches whose reports were added up: a mapping from the id of each batch to its number
        of reports.
    tag : str
        The signature that `signed` computes. It is empty if the tally is not signed.
    """

    configuration: dict[str, Any]
    counts: Counts
    ledger: Ledger
    tag: str = ""

    @property
    def tallies(self) -> np.ndarray:
        """Return, for each shard, the sum of its reports; int64 of shape (n_shards, tally_size)."""
        return self.counts.tallies[0]

    @property
    def sizes(self) -> np.ndarray:
        """Return the number of reports in each shard; int64 of shape (n_shards,)."""
        return self.counts.sizes[0]

    @property
    def batches(self) -> dict[str, int]:
        """Return a dict that maps the id of each batch to its number of reports."""
        return dict(self.ledger)

    @property
    def digests(self) -> dict[str, bytes]:
        """Return a dict that maps the id of each batch to the digest of its reports.

        Digests show whether two batches with the same id contain the same reports. A batch without
        a digest is not in the dict, and its reports are not compared. No digest reveals the order
        of the reports in an array.
        """
        return self.ledger.without_order().digests

    @property
    def n_samples(self) -> int:
        """Return the number of reports."""
        return self.counts.n_samples

    def signed(self, key: Any) -> Tally:
        """Return a copy of the tally with a signature, for an aggregator that requires one.

        The sum of two signed tallies is not signed.

        Parameters
        ----------
        key : bytes or None
            The key of the collection. If None, return the tally unchanged.

        Returns
        -------
        Tally
            The signed copy.
        """
        secret = as_key(key)
        return self if secret is None else replace(self, tag=secret.tag("tally", self._content()))

    def refuse_unsigned(self, key: Key | None) -> None:
        """Raise RefusedBatchError unless the tally has a valid signature of the key.

        Parameters
        ----------
        key : Key or None
            The key of the collection. If None, no signature is needed and nothing is raised.
        """
        if key is not None and not key.has_made(self.tag, "tally", self._content()):
            fault = "is signed with another key, or was changed" if self.tag else "is not signed"
            raise RefusedBatchError(
                f"A tally of {len(self.ledger)} batches is refused: the tally {fault}. Pass the "
                "key of the collection as key= to tally_file or tally_reports, or call "
                "Tally.signed(key)."
            )

    def _content(self) -> bytes:
        """Return the bytes that a key signs.

        They contain all fields except the signature, and are the same on every machine.
        """
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
                "up to 2**53. Split the reports into several collections, and estimate from each "
                "of them."
            )
        ledger = self.ledger + other.ledger
        return Tally(self.configuration, self.counts + other.counts, ledger)

    def refuse_other(self, other: Tally) -> None:
        """Raise RefusedBatchError unless another tally can be added to this tally.

        The two tallies need equal configurations and equal numbers of shards.

        Parameters
        ----------
        other : Tally
            The tally to add.
        """
        ours, theirs = self.configuration, other.configuration
        difference = "" if theirs is ours else configuration_difference(theirs, ours)
        if not difference and other.counts.shape[1:] != self.counts.shape[1:]:
            difference = f"{other.counts.n_shards} shards instead of {self.counts.n_shards}"
        if difference:
            raise RefusedBatchError(
                f"This collection refuses a tally of another collection ({difference}). Reports "
                "with different configurations cannot be added up. Make one estimate from each "
                "collection instead."
            )


def without_order(tally: Tally, rule: CopyRule | None = None) -> Tally:
    """Return a copy of the tally without the digests that could reveal the order of the reports."""
    ledger = tally.ledger.without_order(rule)
    return Tally(dict(tally.configuration), tally.counts, ledger, tally.tag)


def checked_tally(tally: Tally, mechanism: Mechanism) -> Tally:
    """Return a tally of external origin with its sums as int64, or raise RefusedBatchError.

    The error is raised if `checked_sums` finds invalid sums, or if a digest has an invalid length.
    """
    try:
        counts = checked_sums(mechanism, tally.tallies, tally.sizes, tally.ledger)
        if not all(type(d) is bytes and len(d) in LENGTHS for d in tally.ledger.digests.values()):
            raise ValueError(
                f"a digest has a wrong length, expected {N_BYTES} bytes plus {LINE} bytes for "
                "each line. Compute the tally again"
            )
    except ValueError as error:
        raise RefusedBatchError(
            f"A tally of {len(tally.ledger)} batches is refused: {error}."
        ) from None
    return replace(tally, counts=counts)


def checked_sums(
    mechanism: Mechanism, tallies: Any, sizes: Any, batches: Mapping[str, int]
) -> Counts:
    """Return the sums of a tally as Counts, after all checks that do not need the reports.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism of the reports.
    tallies : ndarray of shape (n_shards, tally_size)
        For each shard, the sum of its reports.
    sizes : ndarray of shape (n_shards,)
        Number of reports in each shard.
    batches : mapping
        Maps the id of each batch to its number of reports.

    Returns
    -------
    Counts
        `tallies` and `sizes` as int64.

    Raises
    ------
    ValueError
        If the sums are not integers, have wrong shapes or exceed 2**53; if a number of reports is
        negative; if `sizes` and `batches` differ in the total number of reports; or if the
        mechanism cannot produce such sums from this number of reports.
    """
    tallies, sizes = _integers(tallies, "counts"), _integers(sizes, "sizes")
    if tallies.ndim != 2 or sizes.shape != tallies.shape[:1]:
        raise ValueError(
            f"the tallies have shape {tallies.shape} and the sizes have shape {sizes.shape}, "
            "expected (n_shards, tally_size) and (n_shards,). Compute the tally again"
        )
    if sizes.min(initial=0) < 0:
        raise ValueError(
            f"one of the shards has {sizes.min()} reports, which is a negative number. Compute "
            "the tally again"
        )
    n_samples = 0
    for batch_id, n in batches.items():
        check_batch_id(batch_id)
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(
                f"the list of batches states that batch {batch_id!r:.80} has {n!r:.80} reports, "
                "expected an integer >= 1. Compute the tally again"
            )
        n_samples += int(n)
    if n_samples != sum(sizes.tolist()):
        raise ValueError(
            f"the batches have {n_samples} reports in total, but the shards have "
            f"{sum(sizes.tolist())} reports in total. Compute the tally again"
        )
    if n_samples > MAX_USERS:
        raise ValueError(
            f"one of the counts would be {n_samples}, but sums are exact only up to 2**53. Use "
            "smaller collections"
        )
    mechanism.check_tallies(tallies, sizes)
    return Counts(tallies[None], sizes[None])


def _integers(array: Any, name: str) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind not in "iu":
        raise ValueError(f"the {name} are of type {array.dtype}, expected integers")
    if array.size and not -MAX_USERS <= int(array.min()) <= int(array.max()) <= MAX_USERS:
        raise ValueError(
            f"the {name} are between {array.min()} and {array.max()}, but sums are exact only up "
            "to 2**53. Use smaller collections"
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
    """Add up one batch of reports. This is a pure function that a worker can call.

    Memory is bounded for any number of reports: arrays are processed in pieces, and iterators and
    Arrow streams are read once. If arrays have no attached protocol, the numbers of supported
    categories are compared with the oracle's epsilon, see the oracle's `aggregate`.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream, or iterator of arrays or streams
        Reports from the oracle's `privatize`. All of them together are one batch.
    oracle : oracle or Protocol
        An unfitted oracle with declared categories, which is not modified; or its protocol.
    batch_id : str
        Name of the batch.
    collection_round : str, default=""
        Name of the collection.
    key : bytes, default=None
        The key of the collection, which signs the tally. If None, the tally is not signed.

    Returns
    -------
    Tally
        The sums of the reports of the batch.

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
    """Check all reports of a batch and return their sums as a tally.

    The time is proportional to the number of reports, not to the size of the tally. `header` is
    the header of the file of the batch, or None for reports in memory. `key` is the secret for the
    digests of single reports in files of reports as clients post them, see `KnownLines`.
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
            raise ValueError("it contains no reports. Pass at least one report")
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
    """Raise ValueError if plain reports seem to come from clients with another epsilon.

    The test compares the numbers of categories that the reports support. It uses only the first
    reports of an array, which are enough. Files need no such test, because they contain their
    configuration.
    """
    protocol.check(first[:_N_TESTED], tests_totals=True, in_any_round=False)


# -- digests that identify batches, however the batches were stored and cut ----------------------
class Beginning:
    """Digest of the first reports of a batch, in canonical form and in their order.

    A digest of all reports would cost half as much as adding them up. The sums of the reports
    already distinguish most batches. The digest of the first reports also distinguishes batches
    whose sums are equal by chance, which is common for a yes/no question.

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
        """Yield the chunks of a batch unchanged, and add the first reports to the digest."""
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
        """Return the digest of the batch, which joins three digests of 16 bytes each.

        They are the digests of the sums, of the first reports, and of the file. If a batch has few
        integers, a digest of its sorted reports replaces the digest of its sums, because computing
        the sums would then cost more than all other work.

        Sixteen bytes, which are half of a SHA-256, are enough. A sender could construct two
        different batches with the same digest. Both are then the sender's own, so it does not
        matter which of the two is counted.

        Parameters
        ----------
        counts : Counts
            Sums of the reports of the batch. The assignment of reports to shards has no effect.
        file_sha256 : str, default=""
            The digest in the header of the file of the batch; empty if there is no file. It
            identifies a repeated file before its reports are read.

        Returns
        -------
        bytes
            The digest, 48 bytes. A digest that is not available is replaced by zeros.
        """
        is_small = self._small is not None and counts.n_samples <= self._most
        content = (
            _reports_digest(np.concatenate(self._small or [])) if is_small else _sums_digest(counts)
        )
        beginning = bytes.fromhex(self._digest.hexdigest()) if self._digest else b""
        pieces = content, beginning, file_digest_of(file_sha256)
        return b"".join(piece[:PIECE].ljust(PIECE, b"\0") for piece in pieces)


def _sums_digest(counts: Counts) -> bytes:
    """Return the SHA-256 of the nonzero sums and their positions, as little-endian integers."""
    shards = np.flatnonzero(counts.sizes[0])  # few, if the batch is small
    tallies = counts.tallies[0]
    total = tallies[shards].sum(axis=0) if len(shards) > 1 else tallies[shards[0]]
    cells = np.flatnonzero(total)
    sha = hashlib.sha256(cells.astype("<i8").tobytes())
    sha.update(total[cells].astype("<i8").tobytes())
    return sha.digest()


def _reports_digest(reports: np.ndarray) -> bytes:
    """Return the SHA-256 of sorted reports, which are written as little-endian integers."""
    rows = reports.astype("<i8")
    in_order = b"".join(sorted(row.tobytes() for row in rows))
    return hashlib.sha256(b"reports" + in_order).digest()


def _lowest(held: bytes, reports: np.ndarray, secret: bytes) -> bytes:
    """Return the lowest keyed digests of the distinct reports, joined and in ascending order.

    `held` contains the digests of earlier reports. At most `N_LINES` digests are kept, so the order
    and the repetition of reports have no effect.
    """
    rows = np.ascontiguousarray(reports, dtype="<i8")
    digests = {
        hashlib.blake2b(row.tobytes(), digest_size=LINE, key=secret).digest() for row in rows
    }
    return b"".join(sorted(digests.union(lines_of(held, 0)))[:N_LINES])
