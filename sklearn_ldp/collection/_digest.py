"""Digests of batches, by which repeats and copies are known however they were stored and cut."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..mechanisms import Counts, Protocol
from ._arrow import report_fields, to_columns
from ._header import ContentDigest

_PIECE = 16
#: Bytes of a digest in a ledger: of the sums, of the beginning, and of the file if it was one.
N_BYTES = 3 * _PIECE
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
        is_telling = protocol.mechanism.report_entropy(order=2) >= _TELLING_BITS
        self._most = self._n_left = _SHORT_BEGINNING if is_telling else _BEGINNING
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

    def small_reports(self, n_samples: int) -> np.ndarray | None:
        """All reports of the batch, if these are few integers."""
        if self._small is None or n_samples > self._most:
            return None
        return np.concatenate(self._small)

    def digest(self) -> bytes:
        """The digest of what has been seen."""
        return bytes.fromhex(self._digest.hexdigest()) if self._digest else b""


def batch_digest(counts: Counts, beginning: Beginning, file_sha256: str = "") -> bytes:
    """Return the digest of a batch: 16 bytes each for its sums, its beginning and its file.

    For a batch of few integers the reports themselves take the place of their sums, in sorted
    order: summing up would cost more than the whole batch does.

    Half of a SHA-256 each is enough: whoever can find two batches of the same digest has made both
    of them, so it does not matter which one counts.

    Parameters
    ----------
    counts : Counts
        Sums of the batch's reports. How they are dealt out to shards does not matter.
    beginning : Beginning
        What has seen the batch.
    file_sha256 : str, default=""
        Digest in the header of the batch's file, if it came in one. With it a file that comes
        again is known without being read.

    Returns
    -------
    bytes
        The digest.
    """
    small = beginning.small_reports(counts.n_samples)
    content = _of_sums(counts) if small is None else _of_sorted(small)
    pieces = content, beginning.digest(), _of_file(file_sha256)
    return b"".join(piece[:_PIECE].ljust(_PIECE, b"\0") for piece in pieces)


def _of_file(sha256: str) -> bytes:
    try:
        return bytes.fromhex(sha256)
    except ValueError:
        return b""


def _of_sums(counts: Counts) -> bytes:
    """SHA-256 of the counts that are not 0, with their places, as little-endian integers."""
    shards = np.flatnonzero(counts.sizes[0])  # few, if the batch is small
    total = (
        counts.tallies[0, shards].sum(axis=0) if len(shards) > 1 else counts.tallies[0, shards[0]]
    )
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
    return not digest or (len(found) == _PIECE and digest[-_PIECE:] == found)


def copy_key(digest: bytes, n_samples: int, entropy: float) -> bytes:
    """Return what only copies of a batch have in common with it: its sums and its first reports.

    Parameters
    ----------
    digest : bytes
        As `batch_digest` returns it; empty if it is not known.
    n_samples : int
        Number of reports of the batch.
    entropy : float
        Collision entropy of a report, see :class:`Mechanism`.

    Returns
    -------
    bytes
        A key that two honest batches share with a probability of at most 2**-128; empty if there
        is none, because the batch is too small.
    """
    # Proof. Let P_v be the law of the report of a user with value v, and H its collision entropy,
    # at least: sum_r P_v(r)**2 <= 2**-H for all v. Two independent users have equal reports with
    # probability sum_r P_v(r) P_w(r), which is at most sqrt(2**-H 2**-H) = 2**-H by Cauchy and
    # Schwarz. Users randomise independently, so the first m reports of two batches are equal, each
    # to the one at its place, with a probability of at most 2**-(m H), whatever all values are. A
    # shuffle that looks at no report changes nothing, since the bound holds for any order of them.
    #
    # The sums alone do not have this bound, however rarely two reports are equal: two support
    # counts of n users agree with a probability of about 1 / n. So they are only compared as well.
    if not digest or min(n_samples, _BEGINNING) * entropy < _ENOUGH_BITS:
        return b""
    return digest[: 2 * _PIECE]


def copy_keys(
    batches: Mapping[str, int], digests: Mapping[str, bytes], entropy: float
) -> dict[bytes, str]:
    """Return the ids of batches by what only their copies have in common with them."""
    keys = {copy_key(digests[b], batches[b], entropy): b for b in digests}
    keys.pop(b"", None)
    return keys
