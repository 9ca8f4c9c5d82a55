"""Digests of batches, by which repeats and copies are known however they were stored and cut."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..mechanisms import Counts, Protocol
from ._arrow import n_integers, report_fields, to_columns
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
            As `batch_digest` returns it; empty if it is not known.
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
        is_small = n_samples <= self.n_small
        in_any_order = in_order - math.lgamma(n_samples + 1) / math.log(2)
        return digest[: _PIECE if is_small and in_any_order >= _ENOUGH_BITS else 2 * _PIECE]

    def keys(self, batches: Mapping[str, int], digests: Mapping[str, bytes]) -> dict[bytes, str]:
        """Return the ids of batches by their keys."""
        keys = {self.key(digest, batches[batch]): batch for batch, digest in digests.items()}
        keys.pop(b"", None)
        return keys


def n_first(entropy: float) -> int:
    """Number of reports at the beginning of a batch that its digest looks at."""
    return _SHORT_BEGINNING if entropy >= _TELLING_BITS else _BEGINNING
