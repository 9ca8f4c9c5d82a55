"""Tallies: sums of reports with the ledger of their batches and the digests these are known by."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._mechanisms import (
    MAX_USERS,
    Counts,
    OracleOrProtocol,
    Protocol,
    as_protocol,
    configuration_difference,
)
from .._mechanisms.mechanism import Mechanism
from ._batches import Key, RefusedBatchError, as_key, check_batch_id, other_content, repeated
from ._header import POSTED, ContentDigest, Header, PostedHeader
from .containers import as_chunks, n_integers, report_fields, to_columns


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums of some batches of reports; ``a + b`` adds up two tallies.

    A tally is what a worker sends back: exact integers, the names of the batches and the
    configuration of their reports. It does not depend on the order in which batches were added, nor
    tell that of the reports in one: those of arrays are dealt out to shards at random.

    Parameters
    ----------
    configuration : dict
        Configuration of the reports, see :func:`report_configuration`.
    tallies : ndarray of shape (n_shards, tally_size)
        Sum of the tallies of each shard's reports, int64.
    sizes : ndarray of shape (n_shards,)
        Number of reports in each shard.
    batches : dict
        Number of reports of each batch, keyed by its id.
    digests : dict
        Digest of each batch, as bytes, keyed by its id. A batch without one is not compared
        with others of its id. None tells the order of an array.
    tag : str
        What `signed` adds; empty without a key.
    """

    configuration: dict[str, Any]
    tallies: np.ndarray
    sizes: np.ndarray
    batches: dict[str, int]
    digests: dict[str, bytes] = field(default_factory=dict)
    tag: str = ""

    @classmethod
    def of(
        cls,
        protocol: Protocol,
        counts: Counts,
        batches: dict[str, int],
        digests: dict[str, bytes] | None = None,
    ) -> Tally:
        """Return the tally of a protocol's counts, with a copy of the ledger.

        Parameters
        ----------
        protocol : Protocol
            The protocol of the reports.
        counts : Counts
            Sums of the reports, in a single group.
        batches : dict
            Number of reports of each batch, keyed by its id.
        digests : dict, default=None
            Digest of each batch, keyed by its id.

        Returns
        -------
        Tally
            The sums with configuration and ledger.
        """
        tallies, sizes = counts.tallies[0], counts.sizes[0]
        kept = without_order(digests or {})
        return cls(dict(protocol.configuration), tallies, sizes, dict(batches), kept)

    @property
    def counts(self) -> Counts:
        """The sums without the ledger: counts of a single group."""
        return Counts(self.tallies[None], self.sizes[None])

    @property
    def n_samples(self) -> int:
        """Number of reports."""
        return int(self.sizes.sum())

    def signed(self, key: Any) -> Tally:
        """Return the tally with a tag, for an aggregator that has a key.

        The sum of two tallies is not signed, whatever they are.

        Parameters
        ----------
        key : bytes or None
            The key of the collection; None returns the tally as it is.

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
            what = "is signed with another key, or was changed" if self.tag else "is not signed"
            raise RefusedBatchError(
                f"A tally of {len(self.batches)} batches is refused: it {what}. Whoever adds up "
                "reports for this collection must pass its key to tally_file, tally_reports or "
                "Tally.signed."
            )

    def _content(self) -> bytes:
        """What is signed: everything, in one form on every machine."""
        digests = {batch: digest.hex() for batch, digest in self.digests.items()}
        names = [self.configuration, self.batches, digests, list(self.tallies.shape)]
        sums = [np.ascontiguousarray(a, dtype="<i8").tobytes() for a in (self.tallies, self.sizes)]
        return b"\0".join([json.dumps(names, sort_keys=True).encode(), *sums])

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        refuse_difference("Tally", other, self.configuration, self.counts)
        twice = sorted(other.batches.keys() & self.batches.keys())
        for batch in twice:
            if not is_same(self.digests.get(batch, b""), other.digests.get(batch, b"")):
                raise other_content("Tally", batch)
        if twice:
            raise repeated("Tally", twice)
        total, batches = self.counts + other.counts, {**self.batches, **other.batches}
        digests = {**self.digests, **other.digests}
        return Tally(self.configuration, total.tallies[0], total.sizes[0], batches, digests)


def refuse_difference(name: str, theirs: Tally, configuration: dict, ours: Counts) -> None:
    """Raise RefusedBatchError if a tally has another configuration or number of shards."""
    what = configuration_difference(theirs.configuration, configuration)
    if not what and theirs.tallies.shape != ours.shape[1:]:
        what = f"{len(theirs.sizes)} shards instead of {ours.n_shards}"
    if what:
        raise RefusedBatchError(
            f"{name} refuses a tally of another collection ({what}): reports of two protocols "
            "cannot be added up. Estimate from each of them separately."
        )


def checked_tally(tally: Tally, mechanism: Mechanism) -> Tally:
    """Return a tally from elsewhere with sums as int64; RefusedBatchError if they cannot be."""
    try:
        tallies, sizes = checked_sums(mechanism, tally.tallies, tally.sizes, tally.batches)
        if not tally.digests.keys() <= tally.batches.keys():
            raise ValueError("it has digests of batches that are not in its ledger")
        if not all(type(d) is bytes and len(d) in LENGTHS for d in tally.digests.values()):
            raise ValueError(f"its digests must have {N_BYTES} bytes, and {_LINE} for each line")
    except ValueError as error:
        raise RefusedBatchError(
            f"A tally of {len(tally.batches)} batches is refused: {error}."
        ) from None
    return replace(tally, tallies=tallies, sizes=sizes)


def checked_sums(
    mechanism: Mechanism, tallies: Any, sizes: Any, batches: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums as int64 after all checks that do not need the reports themselves.

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
    (ndarray, ndarray)
        `tallies` and `sizes`.

    Raises
    ------
    ValueError
        If they are not integers, too large, do not agree with the ledger, or cannot be sums of so
        many reports.
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
            raise ValueError(f"its ledger says that batch {batch_id!r:.80} has {n!r:.80} reports")
        n_samples += int(n)
    if n_samples != sum(sizes.tolist()):
        raise ValueError(
            f"its ledger and its counts do not agree: the ledger lists {n_samples} reports, its "
            f"sums are of {sum(sizes.tolist())}"
        )
    if n_samples > MAX_USERS:
        raise ValueError(f"one of the counts would be {n_samples}, at most 2**53 is exact")
    mechanism.check_tallies(tallies, sizes)
    return tallies, sizes


def _integers(array: Any, what: str) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind not in "iu":
        raise ValueError(f"its {what} are of type {array.dtype}, expected integers")
    if array.size and not -MAX_USERS <= int(array.min()) <= int(array.max()) <= MAX_USERS:
        raise ValueError(
            f"its {what} run from {array.min()} to {array.max()}, expected at most 2**53"
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

    Memory stays bounded whatever the number of reports: arrays are processed in pieces,
    iterators and Arrow streams are read once.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of those
        Reports as returned by the oracle's `privatize`; together they are one batch.
    oracle : oracle or Protocol
        Unfitted, with declared categories; it is not modified.
    batch_id : str
        Name of the batch.
    collection_round : str, default=""
        Name of the collection.
    key : bytes, default=None
        The key of the collection, with which the tally is signed.

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
    return Tally.of(protocol, *count_batch(reports, protocol, batch_id)).signed(secret)


class Batch(NamedTuple):
    """A batch whose small reports may still wait to be tallied; `Tally` is for those who ask."""

    counts: Counts
    batches: dict[str, int]
    digests: dict[str, bytes]

    @property
    def n_samples(self) -> int:
        """Number of reports."""
        return self.counts.n_samples


def count_batch(
    reports: Any, protocol: Protocol, batch_id: str, header: Header | None = None, key: bytes = b""
) -> Batch:
    """Check and count a batch in the time that its reports take, whatever the tallies take.

    `header` is that of its file; `key` is that of the digests of lines, see `KnownLines`.
    """
    check_batch_id(batch_id)
    counts = protocol.empty
    # Small batches must not all fill the same shards.
    number = int.from_bytes(hashlib.sha256(batch_id.encode()).digest()[:8], "little")
    first_shard = number % counts.n_shards
    beginning, lines = Beginning(protocol), b""
    is_posted, n_shards = isinstance(header, PostedHeader), counts.n_shards
    # Arrays and posted lines may be in the order in which users came. If they were dealt out to the
    # shards in turn, as those of a shuffled file are, the shards' sums would tell that order.
    in_turn = n_shards == 1 or (header is not None and not is_posted)
    slots_of = None if in_turn else partial(_at_random, n_shards)
    try:
        for chunk in beginning.watch(as_chunks(reports, protocol)):
            if len(chunk):
                counts = counts.added(
                    protocol.mechanism,
                    len(chunk),
                    # Checked piece by piece, while a piece is in the processor's cache; those of a
                    # file were checked when they were read.
                    partial(_checked, None if header else protocol, chunk),
                    protocol.n_jobs,
                    slots_of,
                    first_shard,
                )
                if is_posted and key:
                    lines = _lowest(lines, chunk, key)
        if not counts.n_samples:
            raise ValueError("it holds no reports")
    except RefusedBatchError:  # of the file that the batch is in
        raise
    except ValueError as error:
        raise RefusedBatchError(f"Batch {batch_id!r} is refused: {error}") from None
    digest = beginning.digest(counts, header.origin if header else "")
    return Batch(counts, {batch_id: counts.n_samples}, {batch_id: digest + lines})


def _at_random(n_shards: int, start: int, stop: int) -> np.ndarray:
    return np.frombuffer(os.urandom(2 * (stop - start)), dtype=np.uint16) % n_shards


def _checked(protocol: Protocol | None, chunk: Any, start: int, stop: int) -> np.ndarray:
    piece = chunk[start:stop]
    return piece if protocol is None else protocol.check(piece)


# -- digests, by which batches are known however they were stored and cut -------------------------
_PIECE = 16
#: Bytes of a digest in a ledger: of the sums, of the beginning, and of the file if it was one.
#: Digests of lines follow if clients have posted them.
N_BYTES = 3 * _PIECE
_FILE = slice(2 * _PIECE, N_BYTES)
# With half of 32 digests, honest files that share a tenth of their lines are refused once in 10**8.
N_LINES, _LINE = 32, 8
LENGTHS = range(N_BYTES, N_BYTES + N_LINES * _LINE + 1, _LINE)
_RARE_BITS = 40
_BEGINNING = 4096  # reports: enough to be unlike those of any other batch of most mechanisms ..
_SHORT_BEGINNING, _TELLING_BITS = 256, 8.0  # .. and fewer, where a report has that many bits
_SMALL = 4096  # integers in the reports of a small batch, whose digest is that of the reports
_ENOUGH_BITS = 128


class Beginning:
    """Digest of the first reports of a batch, in canonical form and in their order.

    A digest of all reports would cost half as much as adding them up. The sums already tell apart
    what counts; the beginning tells apart batches whose sums agree by chance, as those of a yes/no
    question do.

    Parameters
    ----------
    protocol : Protocol
        The protocol of the reports.
    """

    def __init__(self, protocol: Protocol):
        self._protocol = protocol
        self._digest: ContentDigest | None = None
        self._most = self._n_left = n_first(protocol.mechanism.report_entropy(order=2))
        # All reports so far; None once these are more than a few integers.
        self._small: list[np.ndarray] | None = []

    def watch(self, chunks: Iterable[Any]) -> Iterator[Any]:
        """Yield the chunks of a batch as they are, and look at the first ones."""
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
            if sum(piece.size for piece in self._small) > _SMALL:
                self._small = None

    def digest(self, counts: Counts, file_sha256: str = "") -> bytes:
        """Return the digest of the batch: 16 bytes each for its sums, its beginning and its file.

        For a batch of few integers the reports themselves take the place of their sums, in sorted
        order: summing up would cost more than the whole batch does.

        Half of a SHA-256 each is enough: whoever can find two batches of the same digest has made
        both of them, so it does not matter which one counts.

        Parameters
        ----------
        counts : Counts
            Sums of the batch's reports. How they are dealt out to shards does not matter.
        file_sha256 : str, default=""
            Digest in the header of the batch's file, if it came in one. With it a file that comes
            again is known without being read.

        Returns
        -------
        bytes
            The digest.
        """
        is_small = self._small is not None and counts.n_samples <= self._most
        content = _of_sorted(np.concatenate(self._small or [])) if is_small else _of_sums(counts)
        beginning = bytes.fromhex(self._digest.hexdigest()) if self._digest else b""
        pieces = content, beginning, _of_file(file_sha256)
        return b"".join(piece[:_PIECE].ljust(_PIECE, b"\0") for piece in pieces)


def _of_file(sha256: str) -> bytes:
    try:
        return bytes.fromhex(sha256)
    except ValueError:
        return b""


def _of_sums(counts: Counts) -> bytes:
    """SHA-256 of the counts that are not 0, with their places, as little-endian integers."""
    shards = np.flatnonzero(counts.sizes[0])  # few, if the batch is small
    tallies = counts.tallies[0]
    total = tallies[shards].sum(axis=0) if len(shards) > 1 else tallies[shards[0]]
    cells = np.flatnonzero(total)
    sha = hashlib.sha256(cells.astype("<i8").tobytes())
    sha.update(total[cells].astype("<i8").tobytes())
    return sha.digest()


def _of_sorted(reports: np.ndarray) -> bytes:
    """SHA-256 of few reports in sorted order, as little-endian integers."""
    rows = reports.astype("<i8")
    in_order = b"".join(sorted(row.tobytes() for row in rows))
    return hashlib.sha256(b"reports" + in_order).digest()


def is_same(one: bytes, other: bytes) -> bool:
    """Whether two batches have the same sums, in any order of their reports, as far as known."""
    return not one or not other or one[:_PIECE] == other[:_PIECE]


def is_of_file(digest: bytes, file_sha256: str) -> bool:
    """Whether a batch came in a file with this digest in its header, as far as known."""
    found = _of_file(file_sha256)[:_PIECE]
    return not digest or (len(found) == _PIECE and digest[_FILE] == found)


def is_namesake(known: bytes, given: bytes) -> bool:
    """Whether batches of one id came in files of different places, or from who knows where."""
    return bool(known and given) and not (any(known[_FILE]) and known[_FILE] == given[_FILE])


class CopyRule(NamedTuple):
    """What only copies of a batch have in common with it.

    Parameters
    ----------
    entropy : float
        Collision entropy of a report, see :class:`Mechanism`.
    n_small : int
        Largest number of reports whose digest is that of the reports, and not of their sums.

    Notes
    -----
    *Proof of the bound.* Let P_v be the law of the report of a user with value v, and H its
    collision entropy, at least: the sum of P_v(r)**2 over all reports r is at most 2**-H for all v.
    Two independent users have equal reports with a probability of sum_r P_v(r) P_w(r), which is
    at most 2**-H as well by Cauchy and Schwarz. Users randomise independently, so the first m
    reports of two batches are equal, each to the one at its place, with a probability of at most
    2**-(m H), whatever the values are and in any order that looks at no report. And n reports are
    those of another batch in *some* order with at most n! 2**-(n H), since there are n! orders.

    Sums have no such bound, however rarely two reports are equal: the support counts of n users
    agree with a probability of about 1 / n each. So equal sums alone are no sign of a copy.
    """

    entropy: float
    n_small: int

    @classmethod
    def of(cls, protocol: Protocol) -> CopyRule:
        """The rule for reports of a protocol."""
        entropy, fields = protocol.mechanism.report_entropy(order=2), report_fields(protocol)
        n_small = _SMALL // n_integers(fields) if fields else 0
        return cls(entropy, min(n_small, n_first(entropy)))

    def key(self, digest: bytes, n_samples: int) -> bytes:
        """Return the key of a batch.

        Parameters
        ----------
        digest : bytes
            As `Beginning.digest` returns it; empty if it is not known.
        n_samples : int
            Number of reports of the batch.

        Returns
        -------
        bytes
            A key that two honest batches share with a probability of at most 2**-128: the digest of
            all reports in any order, or those of the sums and of the first reports in their order.
            Empty if neither will do, because the batch is too small.
        """
        in_order = min(n_samples, n_first(self.entropy)) * self.entropy
        if not digest or in_order < _ENOUGH_BITS:
            return b""
        if n_samples <= self.n_small and self.tells_in_any_order(n_samples):
            return digest[:_PIECE]
        return digest[: 2 * _PIECE] if any(digest[_PIECE : 2 * _PIECE]) else b""

    def tells_in_any_order(self, n_samples: int) -> bool:
        """Whether two batches of so many reports agree in any order only if one is a copy."""
        return n_samples * self.entropy - math.lgamma(n_samples + 1) / math.log(2) >= _ENOUGH_BITS

    def tells_lines(self, n_shared: int, n_reports: int, n_choices: int) -> bool:
        """Whether a batch shares lines with others that chance does not make it share.

        Parameters
        ----------
        n_shared : int
            How many of its k = `N_LINES` digests of lines are among those of the others: with
            fewer than half of them it is as if there was none.
        n_reports : int
            Number of reports m of those others.
        n_choices : int
            In how many ways these others could have been chosen.

        Returns
        -------
        bool
            True with a probability of at most 2**-40 for a batch of users of its own.

        Notes
        -----
        *Proof.* Two reports, or their digests, are equal with a probability of at most c. A batch
        has n reports, D of which are different. x given users of it have the reports of x given
        users of the others with a probability of at most c**x, as these pairs are independent; so
        C(n, x) (m c)**x bounds the expected number of choices of x different reports that the
        others have too. The digests are keyed, so the k lowest are a random sample of the D, and
        hold x given ones with a probability of C(k, x) / C(D, x). All in all it is at most
        C(k, x) (2 m c)**x, if half of the reports are different; where many are equal by chance,
        the bound is above 1.
        """
        equal = 2 * max(n_reports, 1) * (2.0**-self.entropy + 2.0 ** (-8 * _LINE))
        chosen = math.log2(math.comb(N_LINES, n_shared) * n_choices)
        is_rare = chosen + n_shared * math.log2(equal) <= -_RARE_BITS
        return is_rare and 2 * n_shared >= N_LINES

    def keys(self, batches: Mapping[str, int], digests: Mapping[str, bytes]) -> dict[bytes, str]:
        """Return the ids of batches by their keys."""
        keys = {self.key(digest, batches[batch]): batch for batch, digest in digests.items()}
        keys.pop(b"", None)
        return keys


def n_first(entropy: float) -> int:
    """Number of reports at the beginning of a batch that its digest looks at."""
    return _SHORT_BEGINNING if entropy >= _TELLING_BITS else _BEGINNING


def without_order(digests: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return digests as they may be kept: none tells the order in which users came.

    Whoever knows nearly all reports of an array, or of posted lines, could find that order by
    trying some. Other files were shuffled before.
    """
    return {
        batch: digest
        if any(digest[_FILE]) and not batch.startswith(POSTED)
        else digest[:_PIECE] + bytes(_PIECE) + digest[2 * _PIECE :]
        for batch, digest in digests.items()
    }


# -- a few of the lines that clients have posted, by which files that overlap are known ----------
class KnownLines(NamedTuple):
    """What those who read posted lines must know of a collection.

    Parameters
    ----------
    sizes : set of int
        Numbers of lines of the batches of posted lines that were counted.
    secret : bytes
        Key of the digests of lines. No client knows it, so nobody makes lines whose digests are
        low and has honest files refused for them.
    """

    sizes: set[int]
    secret: bytes


NO_LINES = KnownLines(set(), b"")


def _lowest(held: bytes, reports: np.ndarray, secret: bytes) -> bytes:
    """The lowest digests of different reports; in any order, and however often each occurs."""
    rows = np.ascontiguousarray(reports, dtype="<i8")
    found = {hashlib.blake2b(row.tobytes(), digest_size=_LINE, key=secret).digest() for row in rows}
    return b"".join(sorted(found.union(lines_of(held, 0)))[:N_LINES])


def lines_of(digest: bytes, start: int = N_BYTES) -> list[bytes]:
    """The digests of lines in that of a batch."""
    return [digest[i : i + _LINE] for i in range(start, len(digest), _LINE)]
