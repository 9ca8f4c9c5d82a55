"""A keyed hash family for categories that cannot be listed in advance."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ..mechanisms._channel import Channel, randomised_response
from ..mechanisms._coins import TWO_64
from ..mechanisms._laws import JointSupport, PublicPart, choice_entropy
from ..mechanisms._mechanism import Mechanism, ReportField
from ..mechanisms._reports import bits_for, check_hash_reports
from ..mechanisms._support import independent_sizes, independent_support

_CELLS = 1 << 16  # users times categories hashed at a time, so that they stay in the cache


class MixingHash(Mechanism):
    """Report a random seed, and its hash of a digest after randomised response over g values.

    This is all that a client needs. The codes are 64-bit digests of the values, so the values need
    not be on any list.
    """

    def __init__(self, hash_range: int, threshold: int):
        self.hash_range = hash_range
        self.threshold = threshold
        self.n_seeds = 1 << 63

    @property
    def configuration(self):
        return {"hash_range": self.hash_range, "hash_family": "mixing"}

    @property
    def report_fields(self):
        return (ReportField("seed", self.n_seeds), ReportField("value", self.hash_range))

    def hash(self, seeds, digests):
        """Return the hash values of digests under seeds (broadcasting)."""
        x = _mix(_mix(seeds.astype(np.uint64)) ^ digests)
        return ((x >> np.uint64(32)) * np.uint64(self.hash_range)) >> np.uint64(32)

    @property
    def public_part(self):
        return PublicPart(lambda reports: reports[:, 0], self.n_seeds, privatize=self.with_seeds)

    def privatize(self, codes, coins):
        return self.with_seeds(codes, coins.integers(self.n_seeds, len(codes)), coins)

    def with_seeds(self, digests, seeds, coins):
        """Randomise digests under given seeds."""
        reports = np.empty((len(digests), 2), dtype=np.int64)
        reports[:, 0] = seeds
        value = self.hash(reports[:, 0], digests)
        reports[:, 1] = randomised_response(value, self.hash_range, self.threshold, coins)
        return reports

    def check_reports(self, reports):
        return check_hash_reports(reports, self.n_seeds, self.hash_range)

    @property
    def tally_size(self):
        raise ValueError(
            "Reports over an open domain are added up for the categories that a server lists: "
            "declare them in categories=."
        )

    def tally(self, reports):
        return np.empty(self.tally_size)


class MixingHashChannel(Channel):
    """`MixingHash` over a list of categories.

    Epsilon does not depend on the hash, but the estimate does: q = 1 / g holds as far as 64-bit
    mixing is ideal.
    """

    has_exact_support = False

    def __init__(self, digests: np.ndarray, client: MixingHash):
        p, q = Fraction(client.threshold, TWO_64), Fraction(1, client.hash_range)
        super().__init__(len(digests), p, q)
        self.digests = digests
        self.client = client

    def _identity(self):
        return *super()._identity(), self.digests.tobytes()

    @property
    def configuration(self):
        return self.client.configuration

    @property
    def report_fields(self):
        return self.client.report_fields

    def report_entropy(self, order=1):
        value = choice_entropy(self.p, 1, self.client.hash_range - 1, order)
        return math.log2(self.client.n_seeds) + value

    @property
    def report_bits(self):
        return 63 + bits_for(self.client.hash_range)

    def decode_operations(self, n_samples):
        return 10 * n_samples * self.n_categories

    def for_enumeration(self):
        client = MixingHash(self.client.hash_range, self.client.threshold)
        client.n_seeds = 16
        return MixingHashChannel(self.digests, client)

    def privatize(self, codes, coins):
        return self.client.privatize(self.digests[codes], coins)

    def check_reports(self, reports):
        return self.client.check_reports(reports)

    def supports(self, reports, codes):
        values = self.client.hash(reports[:, :1], self.digests[codes])
        return values == reports[:, 1:].astype(np.uint64)

    @property
    def joint_support(self):
        return JointSupport(float(self.p) * float(self.q), float(self.q) ** 2)

    @property
    def support_sizes(self):
        return independent_sizes(self.p, self.q, self.n_categories)

    @property
    def public_part(self):
        return self.client.public_part._replace(privatize=self._with_seeds)

    def _with_seeds(self, codes, seeds, coins):
        return self.client.with_seeds(self.digests[codes], seeds, coins)

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
    """Apply the finaliser of SplitMix64: a bijection of 64-bit words that mixes all their bits.

    The constants are those of S. Vigna's SplitMix64 (variant 13 of D. Stafford).
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
