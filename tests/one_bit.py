"""A mechanism without p and q: one bit for the mean of a number."""

import math

import numpy as np

from sklearn_ldp import Domain
from sklearn_ldp.collection import Protocol
from sklearn_ldp.oracles.channels import (
    PROBABILITY_UNIT,
    Mechanism,
    ReportField,
    direct_threshold,
    require_reports,
)


class OneBit(Mechanism):
    """A bit that is 1 as often as the number is large."""

    def __init__(self, n_levels, threshold):
        self.n_levels, self.threshold = n_levels, threshold

    @property
    def configuration(self):
        return {"n_levels": self.n_levels, "threshold": self.threshold}

    @property
    def report_fields(self):
        return (ReportField("bit", 2),)

    @property
    def tally_size(self):
        return 2

    def report_entropy(self, order=1):
        keep = self.threshold / PROBABILITY_UNIT
        return -math.log2(keep**2 + (1 - keep) ** 2)  # of order 2, which is below that of order 1

    def privatize(self, codes, coins):
        is_high = coins.integers(self.n_levels - 1, len(codes)) < codes
        return (is_high == coins.bernoulli(self.threshold, len(codes))).astype(np.int64)

    def check_reports(self, reports):
        is_bit = reports.ndim == 1 and np.all((reports >= 0) & (reports <= 1))
        require_reports(is_bit, "an array of shape (n,) of zeros and ones", reports)
        return reports

    def tally(self, reports):
        return np.bincount(reports, minlength=2)


def one_bit(epsilon=1.0, n_levels=101, **options):
    """A protocol of numbers 0 .. n_levels - 1."""
    mechanism = OneBit(n_levels, direct_threshold(epsilon, 2))
    return Protocol(mechanism, Domain(n_levels), epsilon, "OneBit", **options)


def mean(protocol, tallies):
    """The unbiased mean of the numbers behind a tally (n_low, n_high)."""
    keep = protocol.mechanism.threshold / PROBABILITY_UNIT
    share = tallies[..., 1] / tallies.sum(axis=-1)
    return (share - 1 + keep) / (2 * keep - 1) * (protocol.mechanism.n_levels - 1)
