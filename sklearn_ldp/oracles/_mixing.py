"""A keyed hash family for categories that cannot be listed in advance."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np

from ._channel import Channel, ReportField, randomised_response
from ._reports import bits_for, check_hash_reports
from ._sampling import TWO_64
from ._support import independent_support

_CELLS = 1 << 16  # users times categories hashed at a time: what stays in a processor's cache


def digest(value: Any) -> int:
    """64-bit digest of a category, the same on every machine.

    Parameters
    ----------
    value : str, bytes, int, float, bool, None or tuple of those
        The category.

    Returns
    -------
    int
        In ``0 .. 2**64 - 1``.

    Raises
    ------
    TypeError
        If the type has no canonical form; clients and servers would not agree.
    """
    return int.from_bytes(hashlib.blake2b(_canonical(value), digest_size=8).digest(), "little")


def _canonical(value: Any) -> bytes:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return b"s" + value.encode()
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, float) and not value.is_integer():
        return b"f" + value.hex().encode()
    if isinstance(value, (int, float)):
        # 1, 1.0 and True are one key of a dictionary, and one category.
        return b"i%d" % int(value)
    if isinstance(value, tuple):
        parts = [_canonical(part) for part in value]
        return b"t" + b"".join(b"%d:%s" % (len(part), part) for part in parts)
    raise TypeError(
        "Mixing hashes need categories that are text, bytes, numbers or tuples of those, got "
        f"{type(value).__name__}."
    )


class MixingHashChannel(Channel):
    """A random seed, and its hash of the category through randomised response over g values.

    Epsilon does not depend on the hash; the estimate does: q = 1 / g holds as far as 64-bit mixing
    is ideal.
    """

    def __init__(self, digests: np.ndarray, hash_range: int, threshold: int):
        super().__init__(len(digests), p=Fraction(threshold, TWO_64), q=Fraction(1, hash_range))
        self.digests = digests
        self.hash_range = hash_range
        self.threshold = threshold
        self.n_seeds = 1 << 63

    @property
    def configuration(self):
        return {"hash_range": self.hash_range, "hash_family": "mixing"}

    @property
    def report_fields(self):
        return (ReportField("seed", self.n_seeds), ReportField("value", self.hash_range))

    @property
    def report_bits(self):
        return 63 + bits_for(self.hash_range)

    def decode_operations(self, n_samples):
        return 10 * n_samples * self.n_categories

    def is_like(self, other):
        return super().is_like(other) and np.array_equal(self.digests, other.digests)

    def hash(self, seeds, digests):
        """Hash values of digests under seeds (broadcasting)."""
        x = _mix(_mix(seeds.astype(np.uint64)) ^ digests)
        return ((x >> np.uint64(32)) * np.uint64(self.hash_range)) >> np.uint64(32)

    def privatize(self, codes, coins):
        reports = np.empty((len(codes), 2), dtype=np.int64)
        reports[:, 0] = coins.integers(self.n_seeds, len(codes))
        value = self.hash(reports[:, 0], self.digests[codes])
        reports[:, 1] = randomised_response(value, self.hash_range, self.threshold, coins)
        return reports

    def check_reports(self, reports):
        return check_hash_reports(reports, self.n_seeds, self.hash_range)

    def supports(self, reports, codes):
        return self.hash(reports[:, :1], self.digests[codes]) == reports[:, 1:].astype(np.uint64)

    def count_support(self, reports):
        counts = np.zeros(self.n_categories, dtype=np.int64)
        width = min(self.n_categories, 256)
        height = max(1, _CELLS // width)
        for first in range(0, self.n_categories, width):
            codes = np.arange(first, min(first + width, self.n_categories))
            for start in range(0, len(reports), height):
                supported = self.supports(reports[start : start + height], codes)
                counts[codes] += np.count_nonzero(supported, axis=0)
        return counts

    def simulate(self, counts, n_repeats, rng):
        return independent_support(self.p, self.q, counts, n_repeats, rng)


def _mix(x: np.ndarray) -> np.ndarray:
    """Finaliser of SplitMix64: a bijection of 64-bit words in which each bit moves the others.

    Constants of S. Vigna's SplitMix64 (variant 13 of D. Stafford).
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
