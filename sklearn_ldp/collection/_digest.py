"""Digests of batches: which two are the same, however they were stored, cut or shuffled."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..protocols import Counts, Protocol
from ._arrow import report_fields, to_columns
from ._header import ContentDigest

_PART = 16
#: Bytes of a digest in a ledger: of the sums, of the beginning, and of the file if it was one.
N_BYTES = 3 * _PART
_BEGINNING = 4096  # reports: more than enough to be unlike those of any other batch ..
_SHORT_BEGINNING = 256  # .. and as many where a report has this many bits, for which the sums of
_TELLING_BITS = 8.0  # more reports are telling by themselves
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
        bits = protocol.mechanism.agreement_bits
        self._most = self._n_left = _SHORT_BEGINNING if bits >= _TELLING_BITS else _BEGINNING
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
            if sum(part.size for part in self._small) > _SMALL:
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
    parts = content, beginning.digest(), _of_file(file_sha256)
    return b"".join(part[:_PART].ljust(_PART, b"\0") for part in parts)


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
    return not one or not other or one[:_PART] == other[:_PART]


def is_of_file(digest: bytes, file_sha256: str) -> bool:
    """Whether a batch came in a file with this digest in its header, as far as known."""
    found = _of_file(file_sha256)[:_PART]
    return not digest or (len(found) == _PART and digest[-_PART:] == found)


def copy_key(digest: bytes, n_samples: int, agreement_bits: float) -> bytes:
    """Return what only copies of a batch have in common with it.

    Parameters
    ----------
    digest : bytes
        As `batch_digest` returns it; empty if it is not known.
    n_samples : int
        Number of reports of the batch.
    agreement_bits : float
        See :class:`Mechanism`.

    Returns
    -------
    bytes
        A key that two honest batches share with a probability of at most 2**-128; empty if there
        is none, because the batch is too small.
    """
    if not digest or n_samples * agreement_bits < _ENOUGH_BITS:
        return b""
    if _bits_of_sums(n_samples, agreement_bits) >= _ENOUGH_BITS:
        return digest[:_PART]
    if _BEGINNING * agreement_bits >= _ENOUGH_BITS:  # also if the beginning is short
        return digest[: 2 * _PART]
    return b""


def copy_keys(
    batches: Mapping[str, int], digests: Mapping[str, bytes], agreement_bits: float
) -> dict[bytes, str]:
    """Return the ids of batches by what only their copies have in common with them."""
    keys = {copy_key(digests[b], batches[b], agreement_bits): b for b in digests}
    keys.pop(b"", None)
    return keys


def _bits_of_sums(n_samples: int, bits: float) -> float:
    """A bound for sums of equal reports in any order: ``m bits - log2(m!)`` for any m up to n.

    There are m! orders. The sums of more reports agree still less often, because the probability
    that a difference of two equally distributed sums is 0 falls with each report.
    """
    m = min(n_samples, int(2.0 ** min(bits, 62)))
    return m * bits - math.lgamma(m + 1) / math.log(2)
