"""Mechanisms for frequencies; in a pure mechanism, each report supports a set of categories."""

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
        """Half the change of n times an estimate by a report (continuity correction), or 0."""
        return 0.0

    @property
    @abstractmethod
    def null_variance(self) -> float:
        """The variance of an estimate of a frequency 0, times n, if all others are equal."""

    @property
    @abstractmethod
    def slope(self) -> float:
        """Increase of n times the variance of an estimate per unit of the category's frequency."""

    @abstractmethod
    def estimate_decoded(self, tallies: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, Noise]:
        """Return unbiased frequency estimates and their noise, from the results of `decode`.

        Parameters
        ----------
        tallies : ndarray of shape (m, any)
            One row per collection, as `decode` returns it. For a pure mechanism, these are the
            numbers of reports that support each category.
        sizes : ndarray of shape (m,)
            Number of reports of each collection.

        Returns
        -------
        (ndarray of shape (m, n_categories), Noise)
            The frequencies, one row per collection, and their noise.
        """

    @abstractmethod
    def simulate(self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        """Simulate collections with given true counts, and return results of `decode`.

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
            int64, in the form that `decode` returns.
        """

    def simulate_tallies(
        self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
    ) -> np.ndarray | None:
        """Simulate collections: draw the number of reports of each kind, if a tally counts kinds.

        Parameters
        ----------
        counts : ndarray of shape (n_categories,)
            True number of users of each category.
        n_repeats : int
            Number of simulated collections.
        rng : Generator
            Source of randomness. `simulate` makes the same draws, and decodes them.

        Returns
        -------
        ndarray of shape (n_repeats, tally_size) or None
            int64. None if the tally does not count kinds of reports (see `report_law`).
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
            The noise, which can compute all covariances.
        """
        return Noise.of(self, n_samples)

    def frequencies_behind(self, values: np.ndarray) -> np.ndarray:
        """Return the frequencies at which to evaluate the covariances of a raw estimate.

        Parameters
        ----------
        values : ndarray of shape (n_categories,)
            The raw estimate.

        Returns
        -------
        ndarray of shape (n_categories,)
            By default, the frequencies nearest to the estimate that are >= 0 and sum to 1.
        """
        return norm_sub(values)

    @property
    def has_exact_covariance(self) -> bool:
        """Whether covariances are exact; otherwise they are means over drawn reports."""
        return True

    @abstractmethod
    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        """Return n times the variance of each category's raw estimate from n users.

        Parameters
        ----------
        frequencies : ndarray of shape (..., n_categories)
            True frequencies.

        Returns
        -------
        ndarray of the same shape
            n times the variances, for any n (Wang et al., NDSS 2020, Eq. 5).
        """

    def total_variance(self, frequencies: ArrayLike | None = None) -> float:
        """Return n times the sum of the variances of all categories' raw estimates from n users.

        Parameters
        ----------
        frequencies : array-like of shape (n_categories,), default=None
            True frequencies. If None, use the uniform distribution.

        Returns
        -------
        float
            n times the sum; infinity if reports do not depend on the values.
        """
        if not self.is_informative:
            return math.inf
        if frequencies is None:
            frequencies = np.full(self.n_categories, 1 / self.n_categories)
        return float(self.variances(np.asarray(frequencies, dtype=np.float64)).sum())

    @abstractmethod
    def covariance(self, frequencies: np.ndarray) -> Covariance | Covariances:
        """Return n times the covariance of linear answers to the raw estimate from n users.

        It is linear in the frequencies (which sum to 1), so unbiased estimates of the frequencies
        give unbiased estimates of the variances.

        Parameters
        ----------
        frequencies : ndarray of shape (n_categories,)
            True frequencies of the categories.

        Returns
        -------
        Covariance or Covariances
            An operator: ``variances(rows)``, ``matrix(rows)`` and ``product(vector)``.
        """

    @property
    def report_law(self) -> ReportLaw | None:
        """The distribution of the kinds of reports, if a tally counts kinds; otherwise None."""
        return None


class Channel(LinearMechanism):
    """Base class of pure mechanisms for ``d = n_categories`` categories (codes 0 .. d-1).

    Every report supports a set of categories. The set contains the user's own category with
    probability `p`, and each other category with probability `q`. Subclasses pass these
    probabilities as exact fractions and implement the abstract methods. Estimates, their noise and
    plans are computed from these.

    A subclass can also define further properties of its reports: `joint_support`,
    `largest_support`, `support_sizes`, `law_of_reports`, `public_part`. Without them, covariances
    are estimated from 2**14 drawn reports (`has_exact_covariance` is then False), and tests of
    reports compare the reports with drawn reports.

    Parameters
    ----------
    n_categories : int
        Size d of the domain.
    p, q : Fraction
        Support probabilities.
    """

    #: Whether each report has two likelihoods: exp(epsilon) times c for the categories that it
    #: supports, and c for the others. See :func:`~sklearn_ldp.privacy.shuffled_epsilon`.
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
            raise ValueError(f"{self.n_categories!r:.80} categories do not match its p or q")

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
        """Whether a report supports the user's own category more often than another category."""
        return self.q < self.p

    @property
    def own_support(self) -> Fraction:
        """Probability that `supports` is True for a report and its user's own category."""
        return self.p

    # -- the support of reports ---------------------------------------------------------------
    @abstractmethod
    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return, for each report and each category, whether the report supports the category.

        Parameters
        ----------
        reports : ndarray of shape (n_reports,) or (n_reports, width)
            Integer reports.
        codes : ndarray of shape (n_codes,)
            Categories.

        Returns
        -------
        ndarray of shape (n_reports, n_codes)
            Booleans.
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
            int64.
        """

    def tally(self, reports: np.ndarray) -> np.ndarray:
        """Return counts of reports; by default, the number of reports that support each category.

        A subclass with few different reports may count each kind of report instead, which is faster
        and loses no information. It then also overrides `decode` and `tally_size`.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned.

        Returns
        -------
        ndarray of shape (tally_size,)
            int64.
        """
        return self.count_support(reports)

    @property
    def tally_size(self) -> int:
        """Number of counts in a tally."""
        return self.n_categories

    def report_entropy(self, order: int = 1) -> float:
        """Return a lower bound on the random bits in a report, for any value.

        Parameters
        ----------
        order : {1, 2}, default=1
            1 is Shannon's entropy, 2 the collision entropy, see :class:`Mechanism`.

        Returns
        -------
        float
            Unless a subclass overrides the method, the entropy of one binary event: whether the
            report supports the user's own category.
        """
        return choice_entropy(self.p, 1, 1, order)

    def check_tallies(self, tallies: np.ndarray, sizes: np.ndarray) -> None:
        """Raise ValueError if sums of tallies cannot come from these numbers of reports.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Sums of results of `tally`, int64.
        sizes : ndarray of shape (m,)
            Number of reports in each sum, int64.

        Raises
        ------
        ValueError
            If the check of :class:`Mechanism` fails, or if a count exceeds the number of reports.
            (A report counts at most once for each category or kind.)
        """
        largest = tallies.max(axis=1, initial=0)
        if np.any(largest > sizes):
            raise ValueError(
                f"one of its counts is {largest.max()}, expected at most the number of reports"
            )
        super().check_tallies(tallies, sizes)

    def decode(self, tallies: np.ndarray) -> np.ndarray:
        """Convert tallies to support counts: the numbers of reports that support each category.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Sums of results of `tally`.

        Returns
        -------
        ndarray of shape (m, n_categories)
            The support counts, of the same type.
        """
        return tallies

    def decode_operations(self, n_samples: int) -> int:
        """Return about how many operations convert reports to support counts, to compare oracles.

        Parameters
        ----------
        n_samples : int
            Number of reports.

        Returns
        -------
        int
            By default one operation per report and category.
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
        """Return each report's number of supported categories; empty if uninformative."""
        # Also return, for any value, the largest variance, and the largest distance from the mean,
        # of the independent summands of the total.
        kinds, sizes, *bounds = self._law_of_sizes
        own_sizes = sizes if not len(sizes) else sizes[reports if kinds is None else kinds(reports)]
        return own_sizes, *bounds

    @cached_property
    def _law_of_sizes(self) -> Any:
        """Return a function from reports to kinds, and the supported categories of kinds."""
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
        """Probability that a report supports both of two given categories; None if unknown.

        A subclass can define it only if it depends only on whether the user has one of the two
        categories.
        """
        return None

    @property
    def least_other_support(self) -> Fraction:
        """Minimum probability to support a category that is not the user's, or a bound."""
        return self.q if self.has_exact_support else Fraction(0)

    @property
    def largest_support(self) -> int:
        """Maximum number of categories that one report supports, or an upper bound."""
        return self.n_categories

    def weight(self, n_targets: int, supported: float) -> float:
        """Return the amount that one report adds to n * (sum of the estimates of some categories).

        Parameters
        ----------
        n_targets : int
            Number of categories in the sum.
        supported : float
            Number of those categories that the report supports.

        Returns
        -------
        float
            The amount, which is negative if the report supports fewer of the categories than
            expected by chance.
        """
        return float((supported - n_targets * self.q) / (self.p - self.q))

    def largest_weight(self, n_targets: int) -> float:
        """Return the most that one report can add to n * (sum of the estimates of some categories).

        Parameters
        ----------
        n_targets : int
            Number of categories in the sum; the worst choice of categories is assumed.

        Returns
        -------
        float
            The largest `weight` of a report, or an upper bound.
        """
        return self.weight(n_targets, min(n_targets, self.largest_support))

    @property
    def support_sizes(self) -> np.ndarray | None:
        """Probability that a report supports exactly 0, 1, .. d categories: shape (d + 1,).

        None if these probabilities depend on the user's value, or are unknown.
        """
        return None

    @property
    def law_of_reports(self) -> ReportLaw | None:
        """Probabilities of all kinds of reports; None if there are too many kinds to list."""
        return self.report_law

    def log_base(self, reports: np.ndarray) -> np.ndarray | None:
        """Return log c(y) of each report y, where its likelihoods are c(y) and exp(epsilon) c(y).

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned.

        Returns
        -------
        ndarray of shape (n,) or None
            None if c is the same for all reports. The sum of c over all reports is 1.
        """
        return None

    def contributions(self, law: ReportLaw, weights: np.ndarray) -> np.ndarray:
        """Return the amount that a report of each kind adds to n times a linear answer.

        Parameters
        ----------
        law : ReportLaw
            The distribution of the reports, `law_of_reports`.
        weights : ndarray of shape (..., n_categories)
            One or several queries.

        Returns
        -------
        ndarray of shape (..., n_kinds)
            For each kind, the answer of the raw estimate from a single report of this kind.
        """
        return self._unbiased(law.spread_each(weights), weights.sum(axis=-1, keepdims=True))

    def decode_each(self, reports: np.ndarray) -> np.ndarray:
        """Return, for each report, the estimate from this report alone.

        Parameters
        ----------
        reports : ndarray with the n users as first axis
            Reports.

        Returns
        -------
        ndarray of shape (n, n_categories)
            Each row is an unbiased estimate of the indicator (0 or 1) of the user's category.
        """
        return self._unbiased(self.supports(reports, np.arange(self.n_categories)), 1)

    def gathered_contributions(self, law: ReportLaw, weights: np.ndarray) -> np.ndarray:
        """Multiply the transpose of the linear map `contributions` by a vector.

        Parameters
        ----------
        law : ReportLaw
            The distribution of the reports, `law_of_reports`.
        weights : ndarray of shape (n_kinds,)
            One weight per kind of report.

        Returns
        -------
        ndarray of shape (n_categories,)
            For each category: the sum over the kinds of reports of the kind's weight times the
            amount that a report of the kind adds to n times the category's estimate.
        """
        return self._unbiased(law.gather(weights), weights.sum())

    def _unbiased(self, support: np.ndarray, n_reports: Any) -> np.ndarray:
        """Return n times the unbiased estimates, from the support counts of n reports."""
        p, q = float(self.p), float(self.q)
        return (support - q * n_reports) / (p - q)


class IndependentChannel(Channel):
    """Base class of channels whose reports support the categories independently of each other."""

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
    """Base class of channels whose report is a number, which supports a set of categories."""

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
        """Return, for each code, the index-th number in its set."""

    @abstractmethod
    def _outside(self, codes: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return, for each code, the index-th number that is not in its set."""

    @abstractmethod
    def _spread(self, weights: np.ndarray) -> np.ndarray:
        """Return, for each number, the total weight of the categories whose sets contain it."""

    @abstractmethod
    def _gather(self, weights: np.ndarray) -> np.ndarray:
        """Return, for each category, the sum of the weights of the numbers in its set."""

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
    """Keep each value with probability ``threshold / 2**64``, else replace it by another at random.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Integers in ``range(n_values)``.
    n_values : int
        Number of possible values.
    threshold : int
        The result of :func:`direct_threshold`.
    coins : Coins
        Source of randomness.

    Returns
    -------
    ndarray of shape (n,)
        int64.
    """
    result = values.astype(np.int64)
    moved = np.flatnonzero(~coins.bernoulli(threshold, len(values)))
    # Clients who keep their value draw equally much, so that timing does not reveal who keeps it.
    other = coins.integers(n_values - 1, max(moved.size, coins.n_least))[: moved.size]
    result[moved] = other + (other >= result[moved])
    return result


class HashReports(Mechanism):
    """Base class: reports are a random hash function and its randomized value at the code."""

    # The value is kept with the probability `threshold / 2**64`; otherwise a uniform other value is
    # reported.

    has_two_likelihoods = True
    threshold: int

    def hash(self, functions, codes):
        """Return the hash value of each code under each function (shapes are broadcast)."""
        raise NotImplementedError

    def with_functions(self, codes, functions, coins):
        """Return reports for codes, with given instead of random hash functions."""
        reports = np.empty((len(codes), 2), dtype=np.int64)
        reports[:, 0] = functions
        values = self.hash(reports[:, 0], codes)
        hash_range = self.report_fields[1].n_values
        reports[:, 1] = randomised_response(values, hash_range, self.threshold, coins)
        return reports

    @property
    def own_support(self):
        """Probability that a report supports the user's own code."""
        return Fraction(self.threshold, PROBABILITY_UNIT)

    def supports(self, reports, codes):
        """Return whether each report (row) supports each code (column), as booleans."""
        return self.hash(reports[:, :1], codes) == reports[:, 1:]

    def check_reports(self, reports):
        n_functions, hash_range = n_values = [field.n_values for field in self.report_fields]
        is_pair = reports.ndim == 2 and reports.shape[1] == 2
        form = f"an array of shape (n, 2) of integers, the first in [0, {n_functions - 1}], the "
        form += f"second in [0, {hash_range - 1}]"
        require_reports(is_pair and all(map(are_below, reports.T, n_values)), form, reports)
        return reports.astype(np.int64, copy=False)
