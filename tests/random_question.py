"""An oracle as a third party would write it: one file, made of public names only.

It is the one of the guide's page on extending: each user is asked one random yes/no question.
"""

from fractions import Fraction

import numpy as np

from sklearn_ldp.oracles import BaseOracle
from sklearn_ldp.oracles.channels import TWO_64, Channel, ReportField, direct_threshold, expect


class RandomQuestion(BaseOracle):
    """Ask each user about one random category, by randomised response.

    Privacy: one release spends epsilon of each user.
    """

    def _make_mechanism(self, domain):
        return QuestionChannel(domain.size, direct_threshold(self.epsilon, 2))


class QuestionChannel(Channel):
    """Answer truly with probability ``threshold / 2**64``."""

    def __init__(self, n_categories, threshold):
        d, keep = n_categories, Fraction(threshold, TWO_64)
        super().__init__(d, p=keep, q=(2 * (1 - keep) + (d - 2) * keep) / d)
        self.threshold = threshold

    @property
    def report_fields(self):
        return ReportField("asked", self.n_categories), ReportField("answer", 2)

    def decode_operations(self, n_samples):
        return n_samples + self.n_categories

    def supports(self, reports, codes):
        return (reports[:, :1] == codes) == (reports[:, 1:] == 1)

    def privatize(self, codes, coins):
        asked = coins.integers(self.n_categories, len(codes))
        is_true = coins.bernoulli(self.threshold, len(codes))
        return np.column_stack([asked, (asked == codes) == is_true]).astype(np.int64)

    def check_reports(self, reports):
        d = self.n_categories
        expected = f"an array of shape (n, 2), codes below {d} and answers 0 or 1"
        expect(reports.ndim == 2 and reports.shape[1] == 2, expected, reports)
        expect(np.all((reports >= 0) & (reports < [d, 2])), expected, reports)
        return reports

    def count_support(self, reports):
        asked, is_yes = reports[:, 0], reports[:, 1] == 1
        yes = np.bincount(asked[is_yes], minlength=self.n_categories)
        no = np.bincount(asked[~is_yes], minlength=self.n_categories)
        return yes + no.sum() - no

    def simulate(self, counts, n_repeats, rng):
        codes = np.repeat(np.arange(self.n_categories), counts)
        result = np.empty((n_repeats, self.n_categories), dtype=np.int64)
        for row in result:
            asked = rng.integers(self.n_categories, size=len(codes))
            is_true = rng.random(len(codes)) < float(self.p)
            reports = np.column_stack([asked, (asked == codes) == is_true])
            row[:] = self.count_support(reports)
        return result
