"""Pure mechanisms for frequencies: each report supports a set of categories."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._utils.typing import Matrix
from ..noise import ChannelNoise, MatrixNoise, Noise, NoiseModel, as_rows
from .coins import TWO_64, Coins
from .covariances import drawn_covariances, joint_covariances, joint_product, weighted_inner
from .laws import (
    JointSupport,
    ReportLaw,
    choice_entropy,
    independent_sizes,
    independent_support,
)
from .mechanism import Mechanism, NumberReports


class LinearMechanism(Mechanism):
    """Base of all mechanisms for frequencies, whose estimate is a linear function of the counts.

    Variances and covariances are those of one user; the noise of n users has them n times smaller.
    """

    #: Size d of the domain.
    n_categories: int
    #: Whether the estimate is exactly unbiased. It is False for a mechanism whose q assumes an
    #: ideal hash; the epsilon of such a mechanism is exact nevertheless.
    has_exact_support = True

    @property
    def half_count(self) -> float:
        """Half of what a report adds to an estimate of one user; 0 if it is not known."""
        return 0.0

    @property
    @abstractmethod
    def null_variance(self) -> float:
        """Variance of a typical category that nobody has, for one user; others are as frequent."""

    @property
    @abstractmethod
    def slope(self) -> float:
        """Growth of that variance with the frequency of the category, for one user."""

    @abstractmethod
    def estimate_decoded(self, tallies: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, Noise]:
        """Return unbiased frequencies and their noise, from tallies that are already decoded.

        Parameters
        ----------
        tallies : ndarray of shape (m, any)
            As `decode` returns them: the support counts of a pure mechanism.
        sizes : ndarray of shape (m,)
            Number of reports of each collection.

        Returns
        -------
        (ndarray of shape (m, n_categories), Noise)
            The frequencies, one row per collection, and their noise.
        """

    @abstractmethod
    def simulate(self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        """Draw decoded tallies from their joint law, given the true counts.

        Parameters
        ----------
        counts : ndarray of shape (n_categories,)
            True number of users of each category.
        n_repeats : int
            Number of collections.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_repeats, any)
            int64, as `decode` returns them.
        """

    def noise(self, n_samples: ArrayLike) -> Any:
        """Return the noise of estimates from a given number of users.

        Parameters
        ----------
        n_samples : int or array-like of shape (n_estimates,)
            Number of users.

        Returns
        -------
        Noise
            The noise, which knows all covariances.
        """
        return MatrixNoise(self, n_samples)

    @property
    def has_exact_covariance(self) -> bool:
        """Whether covariances are exact, and not a mean over drawn reports."""
        return True

    @abstractmethod
    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        """Return the variance of each category's raw estimate, for one user (2020 paper, Eq. 5).

        Parameters
        ----------
        frequencies : ndarray of shape (..., n_categories)
            True frequencies.

        Returns
        -------
        ndarray of the same shape
            n times the variances.
        """

    def total_variance(self, frequencies: ArrayLike | None = None) -> float:
        """Return the sum of the variances of all categories, times the number of users.

        Parameters
        ----------
        frequencies : array-like of shape (n_categories,), default=None
            True frequencies; None means the uniform distribution.

        Returns
        -------
        float
            n times the total variance; infinite if reports carry no information.
        """
        if not self.is_informative:
            return math.inf
        if frequencies is None:
            frequencies = np.full(self.n_categories, 1 / self.n_categories)
        return float(self.variances(np.asarray(frequencies, dtype=np.float64)).sum())

    @abstractmethod
    def answer_variances(self, matrix: Matrix, frequencies: np.ndarray) -> np.ndarray:
        """Return the variances of answers to linear queries of the raw estimate, for one user.

        They are linear in the frequencies (which sum to 1), so that unbiased estimates of the
        frequencies give unbiased estimates of the variances.

        Parameters
        ----------
        matrix : (sparse) matrix of shape (n_queries, n_categories)
            One row per query.
        frequencies : ndarray of shape (n_categories,)
            Frequencies among the users.

        Returns
        -------
        ndarray of shape (n_queries,)
            n times the variances.
        """

    @abstractmethod
    def answer_covariance(self, matrix: Matrix, frequencies: np.ndarray) -> np.ndarray:
        """Return the covariances of answers to linear queries of the raw estimate, for one user.

        Parameters
        ----------
        matrix : (sparse) matrix of shape (n_queries, n_categories)
            One row per query.
        frequencies : ndarray of shape (n_categories,)
            Frequencies among the users.

        Returns
        -------
        ndarray of shape (n_queries, n_queries)
            n times the covariances.
        """

    @abstractmethod
    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        """Return the covariance matrix of the raw estimate times a vector, for one user.

        Parameters
        ----------
        vector : ndarray of shape (n_categories,)
            The vector y.
        frequencies : ndarray of shape (n_categories,)
            Frequencies f among the users.

        Returns
        -------
        ndarray of shape (n_categories,)
            n Sigma y. The matrix is not built.

        Raises
        ------
        ValueError
            If the covariances are not known.
        """

    @property
    def report_law(self) -> ReportLaw | None:
        """The law of the kinds of reports that a tally counts; None if it counts something else."""
        return None


class Channel(LinearMechanism):
    """Base of all pure mechanisms over ``d = n_categories`` codes.

    Every report supports a set of categories: the user's own one with probability `p`, a given
    other one with probability `q`. Subclasses set these exactly and implement the abstract methods;
    the estimate, its noise and all planning follow.

    A channel also owns what is known about its reports beyond p and q: `joint_support` (or
    `covariances`), `largest_support`, `support_sizes`, `law_of_reports`, `public_part`. All of
    these are optional. Without them covariances are estimated from 2**14 drawn reports
    (`has_exact_covariance` is then False), and tests of reports compare with drawn reports.

    Parameters
    ----------
    n_categories : int
        Size d of the domain.
    p, q : Fraction
        Support probabilities.
    """

    #: Whether each report has two likelihoods, of which that of the categories that it supports is
    #: exp(epsilon) times the other: see :func:`~sklearn_ldp.metrics.shuffled_epsilon`.
    has_two_likelihoods = False

    def __init__(self, n_categories: int, p: Fraction, q: Fraction):
        self.n_categories = n_categories
        self.p = p
        self.q = q

    def __hash__(self) -> int:
        # Plans of surveys look for equal ones among thousands, many with the same fields.
        return hash((super().__hash__(), self.n_categories))

    def _identity(self):
        return *super()._identity(), self.n_categories, self.p, self.q

    @property
    def is_informative(self) -> bool:
        """Whether a report supports the user's own category more often than another one."""
        return self.q < self.p

    @property
    def own_support(self) -> Fraction:
        """Probability that `supports` holds of a report and the user's own category."""
        return self.p

    # -- what a report supports ---------------------------------------------------------------
    @abstractmethod
    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Tell which of the categories each report supports.

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
        """Count the reports that support each category.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Checked reports.

        Returns
        -------
        ndarray of shape (n_categories,)
            int64.
        """

    def tally(self, reports: np.ndarray) -> np.ndarray:
        """Count reports into a tally: by default, the support of each category.

        A channel with few kinds of reports may count these instead, which is faster and loses
        nothing; it then overrides `decode` and `tally_size` as well.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Checked reports.

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
        """Return the bits of randomness in a report, at least, whatever the value.

        Parameters
        ----------
        order : {1, 2}, default=1
            1 is Shannon's entropy, 2 the collision entropy, see :class:`Mechanism`.

        Returns
        -------
        float
            By default that of a single bit, whether the report supports the user's own category.
        """
        return choice_entropy(self.p, 1, 1, order)

    def check_tallies(self, tallies: np.ndarray, sizes: np.ndarray) -> None:
        """Refuse sums that are not those of so many reports.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Sums of what `tally` returned, int64.
        sizes : ndarray of shape (m,)
            Number of reports in each of them, int64.

        Raises
        ------
        ValueError
            As for any mechanism; and if a count exceeds the number of reports, because a report
            counts at most once for a category or a kind of reports.
        """
        largest = tallies.max(axis=1, initial=0)
        if np.any(largest > sizes):
            raise ValueError(
                f"one of its counts is {largest.max()}, expected at most the number of reports"
            )
        super().check_tallies(tallies, sizes)

    def decode(self, tallies: np.ndarray) -> np.ndarray:
        """Turn tallies into support counts.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Sums of what `tally` returned.

        Returns
        -------
        ndarray of shape (m, n_categories)
            The support counts, of the same type.
        """
        return tallies

    @abstractmethod
    def decode_operations(self, n_samples: int) -> int:
        """Return the order of the number of operations from reports to support counts.

        Parameters
        ----------
        n_samples : int
            Number of reports.

        Returns
        -------
        int
            A number to compare oracles by.
        """

    # -- estimates and their noise ------------------------------------------------------------
    def estimate_decoded(self, tallies: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, Noise]:
        noise = self.noise(sizes if len(sizes) > 1 else int(sizes[0]))
        return noise.debias(tallies), noise

    def noise(self, n_samples: ArrayLike) -> NoiseModel:
        return ChannelNoise(float(self.p), float(self.q), n_samples, self)

    @property
    def null_variance(self) -> float:
        return NoiseModel(float(self.p), float(self.q), 1).null_variance

    @property
    def slope(self) -> float:
        return NoiseModel(float(self.p), float(self.q), 1).slope

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        return self.null_variance + frequencies * self.slope

    def answer_variances(self, matrix: Matrix, frequencies: np.ndarray) -> np.ndarray:
        rows = as_rows(matrix, self.n_categories)
        variances = rows.power(2) @ self.variances(frequencies)
        several = np.flatnonzero(np.diff(rows.indptr) > 1)
        if several.size:
            variances[several] = self.covariances(rows[several], frequencies, diagonal=True)
        return variances

    def answer_covariance(self, matrix: Matrix, frequencies: np.ndarray) -> np.ndarray:
        rows = as_rows(matrix, self.n_categories)
        result = self.covariances(rows, frequencies, diagonal=False)
        if not self.has_exact_covariance:
            # The variance of a single category is exact even where covariances are drawn.
            np.fill_diagonal(result, self.answer_variances(rows, frequencies))
        return result

    def covariances(
        self, rows: sparse.csr_array, frequencies: np.ndarray, *, diagonal: bool
    ) -> np.ndarray:
        """Return the covariances of sums of categories, for one user; a channel may override it.

        Parameters
        ----------
        rows : csr_array of shape (n_queries, n_categories)
            One row per query.
        frequencies : ndarray of shape (n_categories,)
            Frequencies among the users.
        diagonal : bool
            Whether only the variances are asked for.

        Returns
        -------
        ndarray of shape (n_queries,) or (n_queries, n_queries)
            The covariances, exact where `joint_support` is known; otherwise from 2**14 drawn
            reports.
        """
        joint = self.joint_support
        if joint is None:
            return drawn_covariances(self, rows, frequencies, diagonal)
        p, q = float(self.p), float(self.q)
        of_pairs = joint_covariances(joint, p, q, rows, frequencies, diagonal)
        return weighted_inner(rows, self.variances(frequencies), diagonal) + of_pairs

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        # O(d) operations where the joint support is known, else two products with the law.
        joint, law = self.joint_support, self.law_of_reports
        if joint is not None:
            return joint_product(self, joint, vector, frequencies)
        if law is None:
            raise ValueError(
                "The covariances of all pairs of categories are not known for this mechanism, "
                "which lists neither its joint support nor its reports. Ask for some answers "
                "(covariance), or choose another oracle."
            )
        # A report of kind r adds c_r to n times an answer, and the mean of c_r is the true answer.
        weights = law.probabilities(frequencies) * self.contributions(law, vector)
        return self.gathered_contributions(law, weights) - frequencies * vector

    @property
    def has_exact_covariance(self) -> bool:
        return self.joint_support is not None

    # -- what else is known about the reports -------------------------------------------------
    @property
    def joint_support(self) -> JointSupport | None:
        """Probability that a report supports two given categories, or None if it is not known.

        A channel can give it if it depends only on whether the user has one of the two.
        """
        return None

    @property
    def least_other_support(self) -> Fraction:
        """The least probability that a report supports a given other category, or a lower bound."""
        return self.q if self.has_exact_support else Fraction(0)

    @property
    def largest_support(self) -> int:
        """The most categories that one report supports; an upper bound where it is not known."""
        return self.n_categories

    @property
    def support_sizes(self) -> np.ndarray | None:
        """Probability that a report supports 0 .. d categories: shape (n_categories + 1,).

        None where it depends on the user's value, or is not known.
        """
        return None

    @property
    def law_of_reports(self) -> ReportLaw | None:
        """The law of all kinds of reports if these are few enough to be listed, otherwise None."""
        return self.report_law

    def log_base(self, reports: np.ndarray) -> np.ndarray | None:
        """Return the logarithm of c(y) for each report y, whose likelihood is c(y) or E c(y).

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Checked reports.

        Returns
        -------
        ndarray of shape (n,) or None
            None if c is the same for all reports. The sum of c over all reports is 1.
        """
        return None

    def contributions(self, law: ReportLaw, weights: np.ndarray) -> np.ndarray:
        """Return what each kind of report adds to n times a linear answer.

        Parameters
        ----------
        law : ReportLaw
            The law of the reports, `law_of_reports`.
        weights : ndarray of shape (n_categories,)
            The query.

        Returns
        -------
        ndarray of shape (n_kinds,)
            The answer of the raw estimate of one report, for each kind.
        """
        p, q = float(self.p), float(self.q)
        return (law.spread(weights) - q * weights.sum()) / (p - q)

    def gathered_contributions(self, law: ReportLaw, weights: np.ndarray) -> np.ndarray:
        """Return the transpose of `contributions`, as a linear map, times a vector.

        Parameters
        ----------
        law : ReportLaw
            The law of the reports, `law_of_reports`.
        weights : ndarray of shape (n_kinds,)
            One weight per kind of report.

        Returns
        -------
        ndarray of shape (n_categories,)
            For each category, the weighted sum of what reports of all kinds add to n times its
            estimate.
        """
        p, q = float(self.p), float(self.q)
        return (law.gather(weights) - q * weights.sum()) / (p - q)


class IndependentChannel(Channel):
    """Base of channels whose reports support each category independently of the others."""

    @property
    def joint_support(self):
        return JointSupport(float(self.p) * float(self.q), float(self.q) ** 2)

    @property
    def support_sizes(self):
        return independent_sizes(self.p, self.q, self.n_categories)

    def simulate(self, counts, n_repeats, rng):
        return independent_support(self.p, self.q, counts, n_repeats, rng)


class IndexChannel(NumberReports, Channel):
    """Base of channels whose report is one number, with a set of numbers for each category.

    With probability ``threshold / 2**64`` the number is uniform in the set of the user's category,
    otherwise uniform among all others. A tally counts each number. Subclasses say which numbers the
    sets have (`_inside`, `_outside`), and how counts become supports (`decode`, `_spread`,
    `_gather`).

    Parameters
    ----------
    n_categories : int
        Size d of the domain.
    p, q : Fraction
        Support probabilities.
    threshold : int
        Probability of a number from the set, over 2**64.
    n_reports, n_inside : int
        Number of numbers in all, and in the set of a category.
    """

    has_two_likelihoods = True

    def __init__(
        self,
        n_categories: int,
        p: Fraction,
        q: Fraction,
        threshold: int,
        n_reports: int,
        n_inside: int,
    ) -> None:
        super().__init__(n_categories, p, q)
        self.threshold, self.n_reports, self.n_inside = threshold, n_reports, n_inside
        # Probabilities of the set, and of as many other numbers.
        self.inside = Fraction(threshold, TWO_64)
        self.against = (1 - self.inside) * n_inside / (n_reports - n_inside)

    @abstractmethod
    def _inside(self, codes: np.ndarray, index: np.ndarray) -> np.ndarray:
        """The index-th number in the set of each category."""

    @abstractmethod
    def _outside(self, codes: np.ndarray, index: np.ndarray) -> np.ndarray:
        """The index-th number that is not in the set of each category."""

    @abstractmethod
    def _spread(self, weights: np.ndarray) -> np.ndarray:
        """For each number, the sum of the weights of the categories whose sets have it."""

    @abstractmethod
    def _gather(self, weights: np.ndarray) -> np.ndarray:
        """For each category, the sum of the weights of the numbers in its set."""

    def report_entropy(self, order=1):
        return choice_entropy(self.inside, self.n_inside, self.n_reports - self.n_inside, order)

    @property
    def report_law(self):
        inside = self.inside / self.n_inside
        outside = (1 - self.inside) / (self.n_reports - self.n_inside)
        return ReportLaw(float(inside), float(outside), self._spread, self._gather)

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
        # A user either ignores her category and draws any number, or draws one from its set.
        share, n_inside = float(self.inside - self.against), self.n_inside
        uniform, inside = (np.full(n, 1 / n) for n in (self.n_reports, n_inside))
        numbers = np.empty((n_repeats, self.n_reports), dtype=np.int64)
        for total in numbers:
            structured = rng.binomial(counts, share)
            total[:] = rng.multinomial(counts.sum() - structured.sum(), uniform)
            # A frequent category costs as much as its set, a rare one as much as its users.
            is_frequent = structured > n_inside
            codes = np.repeat(np.arange(len(counts)), np.where(is_frequent, 0, structured))
            index = rng.integers(n_inside, size=len(codes))
            total += np.bincount(self._inside(codes, index), minlength=self.n_reports)
            for code in np.flatnonzero(is_frequent):
                whole_set = self._inside(np.full(n_inside, code), np.arange(n_inside))
                np.add.at(total, whole_set, rng.multinomial(structured[code], inside))
        return self.decode(numbers)


def randomised_response(
    values: np.ndarray, n_values: int, threshold: int, coins: Coins
) -> np.ndarray:
    """Keep each value with probability ``threshold / 2**64``, otherwise draw a uniform other one.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Integers in ``range(n_values)``.
    n_values : int
        Number of possible values.
    threshold : int
        As returned by :func:`direct_threshold`.
    coins : Coins
        Source of randomness.

    Returns
    -------
    ndarray of shape (n,)
        int64.
    """
    result = values.astype(np.int64)
    moved = np.flatnonzero(~coins.bernoulli(threshold, len(values)))
    other = coins.integers(n_values - 1, moved.size)
    result[moved] = other + (other >= result[moved])
    return result
