"""The integer mechanism inside an oracle: category codes in, integer reports out.

A channel knows neither scikit-learn nor what the categories are called. It is immutable once
built, so that clients, servers and threads can share it, and its probabilities are the rationals
over 2**64 that its coins realise, so that its epsilon can be proved by enumeration.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .._noise import NoiseModel, ReportLaw
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
