"""Mechanisms for frequencies. In most of them, each report supports (counts in favor of) a set of
categories."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.locks import cached_property
from ..noise import CategoryLaw, Covariance, Covariances, Noise, support_law
from ..numerics.simplex import norm_sub
from .coins import PROBABILITY_UNIT, Coins, SeededCoins, group_threshold
from .covariances import channel_covariance
from .laws import JointSupport, ReportLaw, choice_entropy, independent_sizes, independent_support
from .mechanism import Mechanism, NumberReports, are_below, require_reports

_SIMULATED_USERS = 1 << 16  # users simulated together, which bounds the memory
_TESTED_CELLS = 1 << 20  # reports times categories in the test of plain reports: about 10 ms


class LinearMechanism(Mechanism):
    """Base class of mechanisms whose frequency estimates are linear in the counts of reports."""

    # Variances and covariances are per user; the noise of n users has 1/n times these. A subclass
    # without p and q (see :class:`Channel`) defines `null_variance`, `slope`, `variances` and
    # `covariance`. The forms of a covariance are derived in
    # `sklearn_ldp._core.noise.Covariance`, and `Noise` of the same room computes the rest.

    #: Size d of the domain.
    n_categories: int
    #: Whether the estimate is exactly unbiased. It is False for a mechanism with a q that assumes
    #: an ideal hash; the epsilon of such a mechanism is exact nevertheless.
    has_exact_support = True
    #: Decrease of the variance of a category per unit of its squared frequency.
    curvature: float = 0.0

    @property
    def half_count(self) -> float:
        """Half of the change of n times an estimated frequency that one report causes.

        It is the continuity correction of intervals. It is 0 if there is no such step.
        """
        return 0.0

    @property
    @abstractmethod
    def null_variance(self) -> float:
        """Variance of an estimated frequency from n users, times n, if the true frequency is 0.

        If the variance depends on the other frequencies, they are assumed to be equal.
        """

    @property
    @abstractmethod
    def slope(self) -> float:
        """Derivative of n times the variance of an estimate with respect to the frequency.

        n is the number of users, and the frequency is the true frequency of the category.
        """

    @abstractmethod
    def estimate_decoded(self, tallies: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, Noise]:
        """Return unbiased frequency estimates and their noise, from counts of reports.

        Parameters
        ----------
        tallies : ndarray of shape (m, any)
            The counts that `decode` returns, one row per collection. For a :class:`Channel`, a row
            contains the number of reports that support each category.
        sizes : ndarray of shape (m,)
            Number of reports of each collection.

        Returns
        -------
        (ndarray of shape (m, n_categories), Noise)
            The frequencies, one row per collection, and their noise.
        """

    @abstractmethod
    def simulate(self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        """Simulate collections from users with given true counts, and return decoded counts.

        Parameters
        ----------
        counts : ndarray of shape (n_categories,)
            True number of users of each category.
        n_repeats : int
            Number of simulated collections.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_repeats, any)
            The counts of reports of each simulated collection, in the form that `decode` returns,
            int64.
        """

    def simulate_tallies(
        self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
    ) -> np.ndarray | None:
        """Simulate collections from users with given true counts, and return their tallies.

        A tally is the vector of counts that the server stores. This method is only available if a
        tally contains the number of reports of each kind, see `report_law`.

        Parameters
        ----------
        counts : ndarray of shape (n_categories,)
            True number of users of each category.
        n_repeats : int
            Number of simulated collections.
        rng : Generator
            Source of randomness. With the same source, `simulate` simulates the same collections.

        Returns
        -------
        ndarray of shape (n_repeats, tally_size) or None
            The tally of each simulated collection, int64. None if `report_law` is None.
        """
        return None

    def noise(self, n_samples: ArrayLike) -> Noise:
        """Return the noise model of estimates from a given number of users.

        Parameters
        ----------
        n_samples : int or array-like of shape (n_estimates,)
            Number of users.

        Returns
        -------
        Noise
            The noise, with methods for the variances and covariances of estimates.
        """
        return Noise.of(self, n_samples)

    def frequencies_behind(self, values: np.ndarray) -> np.ndarray:
        """Return frequencies for the computation of the covariances of a raw estimate.

        Covariances depend on the true frequencies, which are unknown. This method replaces them by
        frequencies that are computed from the raw estimate.

        Parameters
        ----------
        values : ndarray of shape (n_categories,)
            The raw estimate.

        Returns
        -------
        ndarray of shape (n_categories,)
            By default, the vector nearest to the raw estimate whose entries are at least 0 and sum
            to 1.
        """
        return norm_sub(values)

    @property
    def has_exact_covariance(self) -> bool:
        """Whether covariances are exact. If False, they are means over simulated reports."""
        return True

    @abstractmethod
    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        """Return the variance of each category's estimated frequency from n users, times n.

        Parameters
        ----------
        frequencies : ndarray of shape (..., n_categories)
            True frequencies.

        Returns
        -------
        ndarray of the same shape
            n times the variances, which does not depend on n. The formula is Eq. 5 of T. Wang et
            al., "Locally differentially private frequency estimation with consistency", NDSS 2020.
        """

    def total_variance(self, frequencies: ArrayLike | None = None) -> float:
        """Return the sum of the variances of all estimated frequencies from n users, times n.

        Parameters
        ----------
        frequencies : array-like of shape (n_categories,), default=None
            True frequencies. If None, use the uniform distribution.

        Returns
        -------
        float
            n times the sum of the variances. It is infinite if reports do not depend on the values
            of the users.
        """
        if not self.is_informative:
            return math.inf
        if frequencies is None:
            frequencies = np.full(self.n_categories, 1 / self.n_categories)
        return float(self.variances(np.asarray(frequencies, dtype=np.float64)).sum())

    @abstractmethod
    def covariance(self, frequencies: np.ndarray) -> Covariance | Covariances:
        """Return n times the covariance of the answers of a raw estimate from n users.

        An answer is a linear function of the estimated frequencies. The covariance is linear in the
        true frequencies, which sum to 1. So if they are replaced by unbiased estimates, the
        variances are unbiased estimates as well.

        Parameters
        ----------
        frequencies : ndarray of shape (n_categories,)
            True frequencies of the categories.

        Returns
        -------
        Covariance or Covariances
            An object with the methods ``variances(rows)`` and ``matrix(rows)``, for the answers to
            the queries in ``rows``, and ``product(vector)``.
        """

    @property
    def report_law(self) -> ReportLaw | None:
        """The distribution of a report. None if a tally does not count each kind of report.

        A tally is the vector of counts that the server stores. A kind of report is a set of
        equivalent reports, such as a single possible report.
        """
        return None


class Channel(LinearMechanism):
    """Base class of mechanisms in which each report supports a set of categories.

    There are ``d = n_categories`` categories. Their codes, the integers 0 .. d-1, stand for them in
    all methods. A report supports (counts in favor of) a set of categories. The set contains the
    user's own category with probability `p`, and each other category with probability `q`.
    Subclasses pass these probabilities as exact fractions and implement the abstract methods. The
    base class computes estimates and their noise from these.

    A subclass can also define further properties of its reports: `joint_support`,
    `largest_support`, `support_sizes`, `law_of_reports`, `public_part`. Without them, covariances
    are estimated from 2**14 simulated reports (`has_exact_covariance` is then False), and tests of
    reports compare the reports with simulated reports.

    Parameters
    ----------
    n_categories : int
        Size d of the domain.
    p, q : Fraction
        Probability that a report supports the user's own category, and probability that it supports
        a given other category.
    """

    #: Whether each report has only two likelihoods: exp(epsilon) times c if the user has a category
    #: that the report supports, and c otherwise. See :func:`~sklearn_ldp.privacy.shuffled_epsilon`.
    has_two_likelihoods = False

    def __init__(self, n_categories: int, p: Fraction, q: Fraction):
        self.n_categories = n_categories
        self.p = p
        self.q = q

    def __hash__(self) -> int:
        # Plans of surveys look for equal channels among thousands, many with the same fields.
        return hash((super().__hash__(), self.n_categories))

    def _identity(self):
        return *super()._identity(), self.n_categories, self.p, self.q

    def __check_state__(self) -> None:
        are_exact = isinstance(self.p, Fraction) and isinstance(self.q, Fraction)
        if not are_exact or not 0 <= self.q <= self.p <= 1 or not self.n_categories >= 2:
            raise ValueError(
                f"A Channel needs n_categories >= 2 and fractions with 0 <= q <= p <= 1, got "
                f"n_categories={self.n_categories!r:.80}, p={self.p!r:.80} and q={self.q!r:.80}. "
                "Save the estimate again."
            )

    def settle(self, oracle: Any, domain: Any) -> bool:
        told = self.configuration
        parameters = {name: oracle.get_params(deep=False).get(name, "auto") for name in told}
        # An order of a field is compared before the field is made, which may take long.
        if any(parameters[name] not in ("auto", told[name]) for name in told):
            return False
        made = oracle.channel(domain)
        if made == self:
            vars(self).update(made.__getstate__())
        return made == self

    @property
    def is_informative(self) -> bool:
        """Whether a report supports the user's own category more often than any other category."""
        return self.q < self.p

    @property
    def own_support(self) -> Fraction:
        """Probability that a report supports (counts in favor of) the user's own category.

        This is the probability that the method `supports` returns True.
        """
        return self.p

    # -- the support of reports ---------------------------------------------------------------
    @abstractmethod
    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return, for each report and each category, whether the report supports the category.

        Parameters
        ----------
        reports : ndarray of shape (n_reports,) or (n_reports, width)
            Reports, which are integers or rows of integers.
        codes : ndarray of shape (n_codes,)
            Codes of the categories.

        Returns
        -------
        ndarray of shape (n_reports, n_codes)
            One boolean for each report (row) and each category (column).
        """

    @abstractmethod
    def count_support(self, reports: np.ndarray) -> np.ndarray:
        """Return, for each category, the number of reports that support it.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned.

        Returns
        -------
        ndarray of shape (n_categories,)
            The numbers of reports, int64.
        """

    def tally(self, reports: np.ndarray) -> np.ndarray:
        """Count reports. By default, return the number of reports that support each category.

        If there are few possible reports, a subclass may return the number of times that each of
        them occurs. This is faster and preserves all information. The subclass then also overrides
        `decode` and `tally_size`.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned.

        Returns
        -------
        ndarray of shape (tally_size,)
            The counts, int64.
        """
        return self.count_support(reports)

    @property
    def tally_size(self) -> int:
        """Number of counts in a tally, which is the result of `tally`."""
        return self.n_categories

    def report_entropy(self, order: int = 1) -> float:
        """Return a lower bound, in bits, on the entropy of a report, for any value of the user.

        Parameters
        ----------
        order : {1, 2}, default=1
            Order of the entropy: 1 for Shannon's entropy, 2 for the collision entropy. See
            `report_entropy` of :class:`Mechanism`.

        Returns
        -------
        float
            Unless a subclass overrides the method, the entropy of one binary event: whether the
            report supports the user's own category.
        """
        return choice_entropy(self.p, 1, 1, order)

    def check_tallies(self, tallies: np.ndarray, sizes: np.ndarray) -> None:
        """Raise ValueError if tallies cannot be the counts of the given numbers of reports.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Each row is the result of `tally` for one group of reports, or a sum of such results,
            int64.
        sizes : ndarray of shape (m,)
            Number of reports that were counted in each row, int64.

        Raises
        ------
        ValueError
            If the check of :class:`Mechanism` fails, or if a count exceeds the number of reports.
            (A report adds at most 1 to each count.)
        """
        largest = tallies.max(axis=1, initial=0)
        if np.any(largest > sizes):
            raise ValueError(
                f"a count of reports is {largest.max()}, but a count must not exceed the number of "
                "all reports"
            )
        super().check_tallies(tallies, sizes)

    def decode(self, tallies: np.ndarray) -> np.ndarray:
        """Convert tallies to support counts: the numbers of reports that support each category.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Each row is the result of `tally` for one group of reports, or a sum of such results.

        Returns
        -------
        ndarray of shape (m, n_categories)
            The support counts of each group, with the dtype of `tallies`.
        """
        return tallies

    def decode_operations(self, n_samples: int) -> int:
        """Return approximately how many operations convert reports to support counts.

        The number is for comparisons of oracles.

        Parameters
        ----------
        n_samples : int
            Number of reports.

        Returns
        -------
        int
            By default, the number of reports times the number of categories.
        """
        return n_samples * self.n_categories

    def simulate(self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        # By default, all users report in the same way as in a data collection.
        codes = np.repeat(np.arange(self.n_categories), counts)
        coins = SeededCoins(rng)
        support = np.zeros((n_repeats, self.n_categories), dtype=np.int64)
        for total in support:
            for start in range(0, len(codes), _SIMULATED_USERS):
                reports = self.privatize(codes[start : start + _SIMULATED_USERS], coins)
                total += self.count_support(reports)
        return support

    def unlikely_total(self, reports: np.ndarray, rate: float) -> tuple[str, float]:
        # For any value, a report supports p + (d - 1) q categories on average. Bernstein's
        # inequality bounds the distance of the sum over reports from that, for any sample size.
        sizes, variance, reach = self._sizes(reports)
        expected = float(self.p + (self.n_categories - 1) * self.q)
        off = abs(np.sum(sizes - expected))
        if off**2 <= 2 * math.log(2 / rate) * (len(sizes) * variance + off * reach / 3):
            return "", 0.0
        share = off / len(sizes) / max(expected, self.largest_support - expected)
        text = f"reports that support {expected:.4g} categories on average, not {sizes.mean():.4g}"
        return text, float(share)

    def _sizes(self, reports: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Return the number of categories that each report supports, and two numbers for a test.

        If the numbers of categories carry no information, the array is empty. The test compares
        their sum with its expectation. The two numbers are the largest variance and the largest
        distance from the mean of a summand, over all values of users.
        """
        # Also return, for any value, the largest variance, and the largest distance from the mean,
        # of the independent summands of the total.
        kinds, sizes, *bounds = self._law_of_sizes
        own_sizes = sizes if not len(sizes) else sizes[reports if kinds is None else kinds(reports)]
        return own_sizes, *bounds

    @cached_property
    def _law_of_sizes(self) -> Any:
        """Describe how many categories a report supports.

        Equivalent reports are of the same kind. Return four results: a function that returns the
        index of the kind of each report; the number of categories that a report of each kind
        supports; the variance of this number, for the value of a user with the largest variance;
        and the largest distance of this number from its mean.
        """
        law = self.law_of_reports
        d = self.n_categories
        if law is None or self.own_support != self.p:  # signed supports have another mean
            return None, np.empty(0), 0.0, 0.0
        sizes = np.rint(law.spread(np.ones(d)))
        off = sizes - float(self.p + (d - 1) * self.q)
        return law.kinds, sizes, float(law.likelihoods(off**2).max()), float(np.abs(off).max())

    # -- estimates and their noise ------------------------------------------------------------
    def estimate_decoded(self, tallies: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, Noise]:
        noise = self.noise(sizes if len(sizes) > 1 else int(sizes[0]))
        return noise.debias(tallies), noise

    @property
    def _category_law(self) -> CategoryLaw:
        return support_law(float(self.p), float(self.q))

    @property
    def null_variance(self) -> float:
        return self._category_law.null_variance

    @property
    def slope(self) -> float:
        return self._category_law.slope

    @property
    def half_count(self) -> float:
        return self._category_law.half_count

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        return self.null_variance + frequencies * self.slope

    def covariance(self, frequencies: np.ndarray) -> Covariance:
        return channel_covariance(self, frequencies)

    @property
    def has_exact_covariance(self) -> bool:
        return self.joint_support is not None or self.law_of_reports is not None

    # -- further properties of the reports ----------------------------------------------------
    @property
    def joint_support(self) -> JointSupport | None:
        """Probability that a report supports both of two different categories.

        None if it is unknown. A subclass can define this property only if the probability does not
        depend on which two categories these are, but only on whether the user has one of the two.
        """
        return None

    @property
    def least_other_support(self) -> Fraction:
        """Minimum probability that a report supports a category other than the user's category.

        It may also be a lower bound of this minimum.
        """
        return self.q if self.has_exact_support else Fraction(0)

    @property
    def largest_support(self) -> int:
        """Maximum number of categories that a single report can support, or an upper bound."""
        return self.n_categories

    def weight(self, n_targets: int, supported: float) -> float:
        """Return the contribution of one report to a sum of estimated frequencies, times n.

        The sum is over the estimated frequencies of some categories, from n reports.

        Parameters
        ----------
        n_targets : int
            Number of categories in the sum.
        supported : float
            Number of categories in the sum that the report supports.

        Returns
        -------
        float
            The contribution. It is negative if `supported` is less than ``n_targets * q``.
        """
        return float((supported - n_targets * self.q) / (self.p - self.q))

    def largest_weight(self, n_targets: int) -> float:
        """Return the maximum contribution of one report to a sum of estimated frequencies, times n.

        The sum is over the estimated frequencies of some categories, from n reports. The result is
        the maximum over all reports and all sets of `n_targets` categories.

        Parameters
        ----------
        n_targets : int
            Number of categories in the sum.

        Returns
        -------
        float
            The largest result of `weight`, or an upper bound.
        """
        return self.weight(n_targets, min(n_targets, self.largest_support))

    @property
    def support_sizes(self) -> np.ndarray | None:
        """Probabilities that a report supports exactly 0, 1, .. d categories, of shape (d + 1,).

        None if these probabilities depend on the user's value, or if they are unknown.
        """
        return None

    @property
    def law_of_reports(self) -> ReportLaw | None:
        """The distribution of a report. None if there are too many kinds of reports to list."""
        return self.report_law

    def log_base(self, reports: np.ndarray) -> np.ndarray | None:
        """Return the logarithm of the smaller likelihood c(y) of each report y.

        The method is only used if each report y has two likelihoods, depending on the user's value:
        c(y) and exp(epsilon) c(y).

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned.

        Returns
        -------
        ndarray of shape (n,) or None
            log c(y) of each report, where c is scaled such that its sum over all reports is 1. None
            if c is the same for all reports.
        """
        return None

    def contributions(self, law: ReportLaw, weights: np.ndarray) -> np.ndarray:
        """Return, for each kind of report, its contribution to the answer to a query, times n.

        The answer is a weighted sum of the frequencies that are estimated from n reports.

        Parameters
        ----------
        law : ReportLaw
            The distribution of the reports, `law_of_reports`.
        weights : ndarray of shape (..., n_categories)
            One or several queries: the weight of each category.

        Returns
        -------
        ndarray of shape (..., n_kinds)
            For each kind, the answer from a single report of this kind (n = 1).
        """
        return self._unbiased(law.spread_each(weights), weights.sum(axis=-1, keepdims=True))

    def decode_each(self, reports: np.ndarray) -> np.ndarray:
        """Return, for each report, the frequencies that are estimated from this single report.

        Parameters
        ----------
        reports : ndarray with the n users as first axis
            Reports.

        Returns
        -------
        ndarray of shape (n, n_categories)
            The estimated frequencies, one row per report. Each row is an unbiased estimate of the
            vector with a 1 for the user's category and 0 for the other categories.
        """
        return self._unbiased(self.supports(reports, np.arange(self.n_categories)), 1)

    def gathered_contributions(self, law: ReportLaw, weights: np.ndarray) -> np.ndarray:
        """Apply the transpose of the linear map `contributions` to a vector.

        Parameters
        ----------
        law : ReportLaw
            The distribution of the reports, `law_of_reports`.
        weights : ndarray of shape (n_kinds,)
            One weight per kind of report.

        Returns
        -------
        ndarray of shape (n_categories,)
            For each category, a weighted sum over the kinds of reports. Each kind has its weight;
            the summand is the contribution of such a report to n times the estimated frequency.
        """
        return self._unbiased(law.gather(weights), weights.sum())

    def _unbiased(self, support: np.ndarray, n_reports: Any) -> np.ndarray:
        """Return n times the unbiased frequency estimates from n reports.

        `support` contains, for each category, the number of reports that support it.
        """
        p, q = float(self.p), float(self.q)
        return (support - q * n_reports) / (p - q)


class IndependentChannel(Channel):
    """Base class of mechanisms in which a report supports each category independently of the
    others."""

    @property
    def joint_support(self):
        return JointSupport(float(self.p) * float(self.q), float(self.q) ** 2)

    @property
    def support_sizes(self):
        return independent_sizes(self.p, self.q, self.n_categories)

    def _sizes(self, reports):
        # Each category is a separate summand, which differs by at most 1 from its mean.
        d = self.n_categories
        p = float(self.p)
        q = float(self.q)
        supported = self.supports(reports[: max(_TESTED_CELLS // d, 1)], np.arange(d))
        return np.count_nonzero(supported, axis=1), p * (1 - p) + (d - 1) * q * (1 - q), 1.0

    def simulate(self, counts, n_repeats, rng):
        return independent_support(self.p, self.q, counts, n_repeats, rng)


class IndexChannel(NumberReports, Channel):
    """Base class of mechanisms whose report is an integer, where each category has a set of
    integers.

    A report supports a category if the set of the category contains the report.
    """

    # With probability `threshold / 2**64` the number is uniform in the set of the user's
    # category, otherwise uniform among all other numbers. A tally counts each number. Subclasses
    # define the sets (`_inside`, `_outside`), and how counts become supports (`decode`, `_spread`,
    # `_gather`).
    # n_categories: size d of the domain.
    # n_reports, n_inside, n_common: how many numbers there are in total, in the set of a category,
    # and in the intersection of two sets.

    has_two_likelihoods = True
    has_exact_covariance = True

    def __init__(
        self, n_categories: int, epsilon: float, n_reports: int, n_inside: int, n_common: int
    ) -> None:
        threshold = group_threshold(epsilon, n_inside, n_reports - n_inside)
        # The probability of the set, and of equally many other numbers.
        inside = Fraction(threshold, PROBABILITY_UNIT)
        against = (1 - inside) * n_inside / (n_reports - n_inside)
        q = (inside * n_common + against * (n_inside - n_common)) / n_inside
        super().__init__(n_categories, inside, q)
        self.threshold = threshold
        self.n_reports = n_reports
        self.n_inside = n_inside
        self.inside = inside
        self.against = against

    @abstractmethod
    def _inside(self, codes: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return, for each code and each index i, the i-th integer in the set of the code's
        category."""

    @abstractmethod
    def _outside(self, codes: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return, for each code and each index i, the i-th integer outside the set of the code's
        category."""

    @abstractmethod
    def _spread(self, weights: np.ndarray) -> np.ndarray:
        """Return, for each integer, the sum of the weights of the categories whose sets contain it.

        `weights` contains one weight per category.
        """

    @abstractmethod
    def _gather(self, weights: np.ndarray) -> np.ndarray:
        """Return, for each category, the sum of the weights of the integers in its set.

        `weights` contains one weight per integer.
        """

    def report_entropy(self, order=1):
        return choice_entropy(self.inside, self.n_inside, self.n_reports - self.n_inside, order)

    @property
    def report_law(self):
        inside = self.inside / self.n_inside
        outside = (1 - self.inside) / (self.n_reports - self.n_inside)
        return ReportLaw(float(inside), float(outside), self._spread, self._gather, takes_rows=True)

    def privatize(self, codes, coins):
        is_inside = coins.bernoulli(self.threshold, len(codes))
        reports = np.empty(len(codes), dtype=np.int64)
        inside, outside = np.flatnonzero(is_inside), np.flatnonzero(~is_inside)
        index = coins.integers(self.n_inside, inside.size)
        reports[inside] = self._inside(codes[inside], index)
        index = coins.integers(self.n_reports - self.n_inside, outside.size)
        reports[outside] = self._outside(codes[outside], index)
        return reports

    def count_support(self, reports):
        return self.decode(self.tally(reports)[None])[0]

    def simulate(self, counts, n_repeats, rng):
        return self.decode(self.simulate_tallies(counts, n_repeats, rng))

    def simulate_tallies(self, counts, n_repeats, rng):
        # A user either ignores their category and draws any number, or draws one from its set.
        share = float(self.inside - self.against)
        n_inside = self.n_inside
        uniform, inside = (np.full(n, 1 / n) for n in (self.n_reports, n_inside))
        numbers = np.empty((n_repeats, self.n_reports), dtype=np.int64)
        for total in numbers:
            structured = rng.binomial(counts, share)
            total[:] = rng.multinomial(counts.sum() - structured.sum(), uniform)
            # The cost is the size of the set for a frequent category, the users for a rare one.
            is_frequent = structured > n_inside
            codes = np.repeat(np.arange(len(counts)), np.where(is_frequent, 0, structured))
            index = rng.integers(n_inside, size=len(codes))
            total += np.bincount(self._inside(codes, index), minlength=self.n_reports)
            for code in np.flatnonzero(is_frequent):
                whole_set = self._inside(np.full(n_inside, code), np.arange(n_inside))
                np.add.at(total, whole_set, rng.multinomial(structured[code], inside))
        return numbers


def randomised_response(
    values: np.ndarray, n_values: int, threshold: int, coins: Coins
) -> np.ndarray:
    """Keep each value with probability ``threshold / 2**64``; otherwise draw another value.

    The other value is drawn uniformly from all values except the original value.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Integers in ``range(n_values)``.
    n_values : int
        Number of possible values.
    threshold : int
        The result of :func:`direct_threshold`.
    coins : Coins
        Source of random bits.

    Returns
    -------
    ndarray of shape (n,)
        The randomized values, int64.
    """
    result = values.astype(np.int64)
    moved = np.flatnonzero(~coins.bernoulli(threshold, len(values)))
    # Clients who keep their value draw equally much, so that timing does not reveal who keeps it.
    other = coins.integers(n_values - 1, max(moved.size, coins.n_least))[: moved.size]
    result[moved] = other + (other >= result[moved])
    return result


class HashReports(Mechanism):
    """Base class of mechanisms whose report is a random hash function and a hash value.

    The value is the hash of the user's code after randomized response. A code is the integer that
    stands for the user's value.
    """

    # The value is kept with the probability `threshold / 2**64`; otherwise a uniform other value is
    # reported.

    has_two_likelihoods = True
    threshold: int

    def hash(self, functions, codes):
        """Return the hash value of each code under each function. `functions` and `codes`
        broadcast."""
        raise NotImplementedError

    def with_functions(self, codes, functions, coins):
        """Randomize codes to reports that contain the given hash functions, instead of random
        functions."""
        reports = np.empty((len(codes), 2), dtype=np.int64)
        reports[:, 0] = functions
        values = self.hash(reports[:, 0], codes)
        hash_range = self.report_fields[1].n_values
        reports[:, 1] = randomised_response(values, hash_range, self.threshold, coins)
        return reports

    @property
    def own_support(self):
        """Probability that the reported value is the hash of the user's own code."""
        return Fraction(self.threshold, PROBABILITY_UNIT)

    def supports(self, reports, codes):
        """Return whether each report (row) contains the hash value of each code (column), as
        booleans."""
        return self.hash(reports[:, :1], codes) == reports[:, 1:]

    def check_reports(self, reports):
        n_functions, hash_range = n_values = [field.n_values for field in self.report_fields]
        is_pair = reports.ndim == 2 and reports.shape[1] == 2
        form = f"an array of shape (n, 2) of integers, the first in [0, {n_functions - 1}], the "
        form += f"second in [0, {hash_range - 1}]"
        require_reports(is_pair and all(map(are_below, reports.T, n_values)), form, reports)
        return reports.astype(np.int64, copy=False)
