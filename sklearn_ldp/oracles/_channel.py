"""The integer mechanism inside an oracle: category codes in, integer reports out.

A channel knows neither scikit-learn nor what the categories are called. It is immutable once
built, so that clients, servers and threads can share it, and its probabilities are the rationals
over 2**64 that its coins realise, so that its epsilon can be proved by enumeration.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .._estimate import NoiseModel, ReportLaw
from ._sampling import Coins


class ReportField(NamedTuple):
    """A column of reports in files.

    Parameters
    ----------
    name : str
        Its name.
    n_values : int
        How many values an integer of it takes.
    width : int, default=None
        How many integers a report has there; None is one, as an array of shape (n,) holds it.
    """

    name: str
    n_values: int
    width: int | None = None


class Channel(ABC):
    """Base of all channels over ``d = n_categories`` codes.

    Subclasses set the exact probabilities `p` and `q` that a report supports the user's own
    category and a given other one, and write the abstract methods.

    Parameters
    ----------
    n_categories : int
        Size d of the domain.
    p, q : Fraction
        Support probabilities.
    """

    #: About how many bytes of memory one report takes while it is worked on.
    report_bytes = 64

    def __init__(self, n_categories: int, p: Fraction, q: Fraction):
        self.n_categories = n_categories
        self.p = p
        self.q = q

    @property
    def configuration(self) -> dict[str, Any]:
        """What two parties must agree on beside epsilon and the domain."""
        return {}

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """The columns that reports are kept in; none: as they come, in 64 bits."""
        return ()

    @property
    @abstractmethod
    def report_bits(self) -> int:
        """Bits that a report takes."""

    @abstractmethod
    def decode_operations(self, n_samples: int) -> int:
        """Order of the operations from reports to support counts.

        Parameters
        ----------
        n_samples : int
            Number of reports.

        Returns
        -------
        int
            To compare oracles by.
        """

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

    @property
    def tally_size(self) -> int:
        """Number of counts in a tally."""
        return self.n_categories

    def is_like(self, other: Channel) -> bool:
        """Tell whether reports of the two add up.

        Parameters
        ----------
        other : Channel
            Another one.

        Returns
        -------
        bool
            Whether domain, probabilities and configuration are the same.
        """
        return (type(self), self.n_categories, self.p, self.q, self.configuration) == (
            type(other),
            other.n_categories,
            other.p,
            other.q,
            other.configuration,
        )

    def noise(self, n_samples: Any) -> NoiseModel:
        """Tell the noise of estimates of so many users.

        Parameters
        ----------
        n_samples : int or array-like of shape (n_estimates,)
            Number of users.

        Returns
        -------
        NoiseModel
            With this channel's p and q.
        """
        return NoiseModel(float(self.p), float(self.q), n_samples)

    def total_variance(self, frequencies: Any = None) -> float:
        """Sum the variances of all categories, times the number of users.

        Parameters
        ----------
        frequencies : array-like of shape (n_categories,), default=None
            True frequencies; None is the uniform distribution.

        Returns
        -------
        float
            Infinite where reports tell nothing.
        """
        if not self.q < self.p:
            return math.inf
        if frequencies is None:
            frequencies = np.full(self.n_categories, 1 / self.n_categories)
        return float(self.noise(1).variance(frequencies).sum())

    @property
    def report_law(self) -> ReportLaw | None:
        """The law of the kinds of reports that a tally counts; None if it counts others."""
        return None

    @abstractmethod
    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Randomise one code a user: the only place where values are read.

        Which coins are drawn must not depend on the codes, so that in a seeded run the coins of a
        user do not depend on the others' values.

        Parameters
        ----------
        codes : ndarray of shape (n,)
            Categories in ``range(n_categories)``.
        coins : Coins
            The only source of randomness.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            Integer reports.
        """

    @abstractmethod
    def check_reports(self, reports: np.ndarray) -> np.ndarray:
        """Refuse what is no report, and bring the rest into canonical form.

        Parameters
        ----------
        reports : ndarray
            Integers of any shape.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            As `privatize` makes them.

        Raises
        ------
        ValueError
            With what was expected, see :func:`expect`.
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

    @abstractmethod
    def simulate(self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        """Draw support counts by their joint law, given the true counts.

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
        ndarray of shape (n_repeats, n_categories)
            int64.
        """

    def tally(self, reports: np.ndarray) -> np.ndarray:
        """Count what is added up of reports.

        The support counts; a channel with few kinds of reports counts those instead, which is
        quicker and loses nothing, and overrides `decode` and `tally_size` too.

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

    def decode(self, tallies: np.ndarray) -> np.ndarray:
        """Turn tallies into support counts.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Sums of what `tally` returned.

        Returns
        -------
        ndarray of shape (m, n_categories)
            Of the same type.
        """
        return tallies


def randomised_response(
    values: np.ndarray, n_values: int, threshold: int, coins: Coins
) -> np.ndarray:
    """Keep each value with probability ``threshold / 2**64``, else move to a uniform other one.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Integers in ``range(n_values)``.
    n_values : int
        Number of possible values.
    threshold : int
        As of :func:`direct_threshold`.
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


def check_hash_reports(reports: np.ndarray, n_functions: int, hash_range: int) -> np.ndarray:
    """Return reports of a hash function and a hash value as int64, or raise ValueError."""
    expect(
        reports.ndim == 2
        and reports.shape[1] == 2
        and (
            len(reports) == 0
            or (
                reports.min() >= 0
                and int(reports[:, 0].max()) < n_functions
                and reports[:, 1].max() < hash_range
            )
        ),
        f"an array of shape (n, 2) of integers, the first in [0, {n_functions - 1}], the second "
        f"in [0, {hash_range - 1}]",
        reports,
    )
    return reports.astype(np.int64, copy=False)


def bits_for(n_values: int) -> int:
    """Count the bits that tell so many values apart.

    Parameters
    ----------
    n_values : int
        Number of possible values.

    Returns
    -------
    int
        Its binary logarithm, rounded up.
    """
    return (n_values - 1).bit_length()


def check_indices(reports: np.ndarray, n_values: int) -> np.ndarray:
    """Return reports that are one integer below `n_values` each, or raise ValueError."""
    expect(
        reports.ndim == 1 and (reports.size == 0 or 0 <= reports.min() <= reports.max() < n_values),
        f"an array of shape (n,) of integers in [0, {n_values - 1}]",
        reports,
    )
    return reports


def expect(condition: Any, expectation: str, reports: np.ndarray) -> None:
    """Raise ValueError with what was expected of reports and what came.

    Parameters
    ----------
    condition : bool
        Whether reports are as expected.
    expectation : str
        What was expected, to follow "expected".
    reports : ndarray
        What came.

    Raises
    ------
    ValueError
        Unless the condition holds.
    """
    if not condition:
        came = f"an array of dtype {reports.dtype} and shape {reports.shape}"
        if reports.size and reports.dtype.kind in "iuf":
            came += f" with values from {reports.min()} to {reports.max()}"
        raise ValueError(f"expected {expectation}, got {came}")


def independent_support(
    p: Fraction, q: Fraction, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw support counts that are independent across categories: Bin(m, p) + Bin(n - m, q).

    Parameters
    ----------
    p, q : Fraction
        Support probabilities.
    counts : ndarray of shape (n_categories,)
        True number m of users of each category; n is their sum.
    n_repeats : int
        Number of collections.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_repeats, n_categories)
        int64.
    """
    shape = (n_repeats, len(counts))
    others = counts.sum() - counts
    return rng.binomial(counts, float(p), shape) + rng.binomial(others, float(q), shape)


def simulate_members(
    counts: np.ndarray,
    n_repeats: int,
    rng: np.random.Generator,
    share: float,
    n_reports: int,
    n_members: int,
    member: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Counts of reports that are uniform, or, with probability `share`, uniform in a set.

    Exact, and O(min(n, d n_members)): users of rare categories are drawn one by one, those of
    frequent ones all at once.

    Parameters
    ----------
    counts : ndarray of shape (d,)
        True number of users of each category.
    n_repeats : int
        Number of collections.
    rng : Generator
        Source of randomness.
    share : float
        Probability of a report from the set of the user's category.
    n_reports : int
        Number of different reports.
    n_members : int
        Number of members of each set (all repeated equally often, if they are repeated).
    member : callable
        ``member(codes, index)`` is the index-th member of the sets of categories.

    Returns
    -------
    ndarray of shape (n_repeats, n_reports)
        int64.
    """
    uniform, inside = np.full(n_reports, 1 / n_reports), np.full(n_members, 1 / n_members)
    everywhere = np.arange(n_members)
    result = np.empty((n_repeats, n_reports), dtype=np.int64)
    for total in result:
        structured = rng.binomial(counts, share)
        total[:] = rng.multinomial(counts.sum() - structured.sum(), uniform)
        is_frequent = structured > n_members
        codes = np.repeat(np.arange(len(counts)), np.where(is_frequent, 0, structured))
        index = rng.integers(n_members, size=len(codes))
        total += np.bincount(member(codes, index), minlength=n_reports)
        for code in np.flatnonzero(is_frequent):
            np.add.at(
                total,
                member(np.full(n_members, code), everywhere),
                rng.multinomial(structured[code], inside),
            )
    return result
