"""Reports with one bit per category. Eight bits are packed into a byte, the first into the
highest."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from .laws import count_bits
from .mechanism import Mechanism, ReportField, are_below, require_reports

_CACHE_BYTES = 1 << 19  # packed bits that are added up together
# Bytes of a row that are added up together: 2**9 to 2**12 are equally fast (2026-11-25).
_WIDEST = 1 << 10
_NARROW = 16  # bytes of a row up to which counting the values of each is faster (2026-11-26)
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).T.astype(np.int64)
_FEW_ROWS = 64  # this number of rows is unpacked: 48 to 96 are equally fast (2026-11-25)


def packed_bits(packed: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the bits at some positions of each row of packed bits, as booleans.

    `codes` contains the positions.
    Shapes: packed (n, n_bytes), codes (m,) -> (n, m).
    """
    places = np.asarray(codes)
    return (packed[:, places >> 3] & (128 >> (places & 7))) != 0


def set_packed_bits(packed: np.ndarray, codes: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Set one bit in each row of packed bits, and return the previous values of these bits.

    `codes` contains the position of the bit in each row.
    Shapes: packed (n, n_bytes), codes (n,), bits (n,) -> (n,).
    """
    rows = np.arange(len(codes))
    places = codes >> 3
    masks = (128 >> (codes & 7)).astype(np.uint8)
    before = packed[rows, places]
    packed[rows, places] = (before & ~masks) | (masks * bits)
    return before & masks


class PackedReports(Mechanism):
    """Base class of mechanisms whose reports are packed bits, or an unpacked (plain) form.

    Each mechanism uses the form that is better for its number of categories. If it uses packed
    bits, files and servers also accept the plain form.
    """

    #: Number of bits.
    n_places: int
    _n_bytes: int = 0  # in files of older releases, until `settle` completes the channel

    @property
    @abstractmethod
    def is_packed(self) -> bool:
        """Whether the mechanism uses packed reports, with eight bits in a byte."""

    @property
    @abstractmethod
    def _plain(self) -> tuple[ReportField, str]:
        """Description of the column of plain (unpacked) reports in files, and a text about its
        numbers."""

    @property
    def report_fields(self):
        return (ReportField("bits", 256, self._n_bytes) if self.is_packed else self._plain[0],)

    @property
    def older_fields(self):
        return (self._plain[0],) if self.is_packed else ()

    def check_reports(self, reports):
        field, expectation = self._plain
        n_bytes = self._n_bytes
        width = reports.shape[1] if reports.ndim == 2 else 0
        if self.is_packed and width == n_bytes:
            return self._checked_bits(reports)
        form = f"an array of shape (n, {field.width}) of {expectation}"
        if self.is_packed:
            form += f", or of packed bits of shape (n, {n_bytes})"
        require_reports(width == field.width and are_below(reports, field.n_values), form, reports)
        return self._from_plain(reports, form)

    @abstractmethod
    def _from_plain(self, reports: np.ndarray, form: str) -> np.ndarray:
        """Convert plain (unpacked) reports to the form that the mechanism uses. Check them first.

        `form` is a text for error messages that describes valid reports.
        """

    def _checked_bits(self, reports: np.ndarray) -> np.ndarray:
        n_bits = self.n_places
        n_bytes = self._n_bytes
        require_reports(
            are_below(reports, 256), f"packed bits of shape (n, {n_bytes}), uint8", reports
        )
        packed = reports.astype(np.uint8, copy=False)
        wrong = np.flatnonzero(packed[:, -1] & 255 >> (n_bits - 1 & 7) + 1)
        if wrong.size:
            raise ValueError(
                f"expected {n_bits} bits, packed in {n_bytes} bytes with zeros after the last bit, "
                f"but row {wrong[0]} has ones after the last bit"
            )
        return packed


def count_packed_bits(packed: np.ndarray) -> np.ndarray:
    """Return the number of ones in each column of packed bits, where a column is one bit.

    Shapes: packed (n, n_bytes) -> (8 * n_bytes,).
    """
    # Rows are added up like numbers of one bit per column. Three rows of the same weight become a
    # row of sums and a row of carries, which has twice the weight. Wide rows are added up piece by
    # piece, because adding many rows together leaves fewer rows to unpack.
    n_bytes = packed.shape[1]
    if n_bytes <= _NARROW:
        return np.concatenate([_BITS @ np.bincount(column, minlength=256) for column in packed.T])
    total = np.zeros(8 * n_bytes, dtype=np.int64)
    for first in range(0, n_bytes, _WIDEST):
        piece = packed[:, first : first + _WIDEST]
        n_rows = max(_CACHE_BYTES // piece.shape[1], 1)
        for start in range(0, len(packed), n_rows):
            counted = _count_few(piece[start : start + n_rows])
            total[8 * first : 8 * first + len(counted)] += counted
    return total


def _count_few(rows: np.ndarray) -> np.ndarray:
    total = np.zeros(8 * rows.shape[1], dtype=np.int64)
    weight = 1
    # Ends: because the carries of a pass are fewer than half of its rows.
    while len(rows):
        carries = [rows[:0]]
        while len(rows) > _FEW_ROWS:
            third = len(rows) // 3
            a, b, c = (rows[i * third : (i + 1) * third] for i in range(3))
            either = a ^ b
            carries.append((a & b) | (either & c))
            rows = np.concatenate([either ^ c, rows[3 * third :]])
        total += weight * count_bits(np.unpackbits(rows, axis=1))
        rows, weight = np.concatenate(carries), 2 * weight
    return total
