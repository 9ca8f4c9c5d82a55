"""Generalized randomized response."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .._core.mechanisms.channel import Channel, randomised_response
from .._core.mechanisms.coins import PROBABILITY_UNIT, direct_threshold
from .._core.mechanisms.laws import JointSupport, ReportLaw, choice_entropy, fixed_support_size
from .._core.mechanisms.mechanism import NumberReports
from ._base import BaseOracle


class GRR(BaseOracle, tag="grr"):
    """Randomized response over all categories: the oracle for small domains.

    Specify `epsilon` and `categories`; the defaults of the other parameters are good. This oracle
    is also known as generalized, k-ary or direct randomized response.

    A user reports their own category with probability p, and each other category with
    probability q,

    .. math:: p = \\frac{e^\\epsilon}{e^\\epsilon + d - 1}, \\qquad
              q = \\frac{1}{e^\\epsilon + d - 1},

    where d is the number of categories (Eq. 1 of [2]_). The variance grows with d. GRR is the most
    accurate oracle for few categories (up to 5 at epsilon 1, and up to 29 at epsilon 3, see
    :func:`~sklearn_ldp.best_oracle`). It is more accurate than :class:`OUE` and :class:`OLH` if
    ``d - 2 < 3 exp(epsilon)``.

    A report is one integer from 0 to d - 1: the position of the reported category in the domain.
    The estimated frequencies sum to 1. An array of reports does not show with which epsilon it was
    made. :class:`~sklearn_ldp.collection.Reports` also store the epsilon, so the server can detect
    that a client used another epsilon.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free.

    %(parameters)s

    %(attributes)s

    See Also
    --------
    sklearn_ldp.best_oracle : The choice of an oracle.

    References
    ----------
    .. [1] P. Kairouz, K. Bonawitz, D. Ramage, "Discrete distribution estimation under local
       privacy", ICML 2016. https://proceedings.mlr.press/v48/kairouz16.html
    .. [2] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import GRR
    >>> colors = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = GRR(epsilon=2.0, categories=["red", "green", "blue"], random_state=0)
    >>> oracle.fit(colors).frequencies_.round(1)
    array([0.6, 0.3, 0.1])
    """

    def _make_mechanism(self, domain):
        return DirectChannel(domain.size, direct_threshold(self.epsilon, domain.size))


class DirectChannel(NumberReports, Channel, tag="direct-channel"):
    """Mechanism of :class:`GRR`: a report is the code (position) of a category.

    With probability ``threshold / 2**64`` the report is the user's own code, and otherwise a
    uniformly drawn other code.
    """

    has_two_likelihoods = True
    joint_support = JointSupport(0.0, 0.0)
    largest_support = 1

    def __init__(self, n_categories: int, threshold: int):
        keep = Fraction(threshold, PROBABILITY_UNIT)
        super().__init__(n_categories, p=keep, q=(1 - keep) / (n_categories - 1))
        self.threshold = threshold
        self.n_reports = n_categories

    @property
    def client_parameters(self):
        return {"kind": "direct", "n_categories": self.n_categories, "keep": self.threshold}

    def report_entropy(self, order=1):
        return choice_entropy(self.p, 1, self.n_categories - 1, order)

    def decode_operations(self, n_samples):
        return n_samples + self.n_categories

    def supports(self, reports, codes):
        return reports[:, None] == codes

    @property
    def report_law(self):
        return ReportLaw(float(self.p), float(self.q), np.asarray, np.asarray, takes_rows=True)

    @property
    def support_sizes(self):
        return fixed_support_size(1, self.n_categories)

    def privatize(self, codes, coins):
        return randomised_response(codes, self.n_categories, self.threshold, coins)

    def count_support(self, reports):
        return self.tally(reports)

    def simulate(self, counts, n_repeats, rng):
        # This is exact: with probability d q a user ignores their category and reports a uniform
        # category.
        d = self.n_categories
        kept = rng.binomial(counts, float(self.p - self.q), (n_repeats, d))
        uniform = np.full(d, 1 / d)
        return kept + rng.multinomial(counts.sum() - kept.sum(axis=1), uniform)

    simulate_tallies = simulate
