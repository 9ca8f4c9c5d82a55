"""The mechanism of a collection: what a client does to a code, and a server to a report.

A mechanism knows neither scikit-learn nor what the values are called. It is immutable once built,
so that clients, servers and threads can share it, and its probabilities are the rationals over
2**64 that its coins realise, so that its epsilon can be proved by enumeration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ._coins import Coins
from ._reports import bits_for, expect


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


class Mechanism(ABC):
    """Base of all mechanisms: codes in, reports out, and what is added up of them.

    It is all that collecting reports needs: files, ledgers, checkpoints, groups and clusters ask a
    mechanism and nothing else. What an estimate is made of the sums is the business of its
    subclasses: of a :class:`Channel` for frequencies, and of others for other things.
    """

    #: About how many bytes of memory one report takes while it is worked on. It is part of what a
    #: seed means, as it determines how many users share a stream of coins.
    report_bytes = 64

    # -- what two parties must agree on -------------------------------------------------------
    @property
    def configuration(self) -> dict[str, Any]:
        """What two parties must agree on beside epsilon and the domain: plain numbers and texts."""
        return {}

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """The columns that reports are kept in; none keeps them as they come, in 64 bits."""
        return ()

    @property
    def is_informative(self) -> bool:
        """Whether reports depend on the values at all, at a resolution of 2**-64."""
        return True

    @property
    def report_bits(self) -> int:
        """Number of bits that a report takes."""
        if not self.report_fields:
            return 64
        return sum(bits_for(field.n_values) * (field.width or 1) for field in self.report_fields)

    # -- on the client ------------------------------------------------------------------------
    @abstractmethod
    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Randomise one code per user: the only place where values are read.

        Which coins are drawn must not depend on the codes, so that in a seeded run the coins of a
        user do not depend on the others' values.

        Parameters
        ----------
        codes : ndarray whose first axis is the users
            As the domain encodes values: category codes of shape (n,), unless it says otherwise.
        coins : Coins
            The only source of randomness.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            Integer reports.
        """

    # -- on the server ------------------------------------------------------------------------
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
    def tally(self, reports: np.ndarray) -> np.ndarray:
        """Count what is added up of reports.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Checked reports.

        Returns
        -------
        ndarray of shape (tally_size,)
            int64. Tallies of two batches add up to that of both.
        """

    @property
    @abstractmethod
    def tally_size(self) -> int:
        """Number of counts in a tally."""

    def decode(self, tallies: np.ndarray) -> np.ndarray:
        """Turn tallies into what estimates are made of.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Sums of what `tally` returned.

        Returns
        -------
        ndarray of shape (m, any)
            The tallies themselves, unless a mechanism counts something else.
        """
        return tallies

    def as_reports(self, reports: Any) -> np.ndarray:
        """Return reports from any array of integers in canonical form.

        Parameters
        ----------
        reports : array-like whose first axis is the users
            Integers, or whole numbers from a container that knows no integers.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            As `privatize` makes them.

        Raises
        ------
        ValueError
            If a report cannot come from this mechanism, with what was expected.
        """
        array = np.asarray(reports)
        if array.dtype.kind == "b":
            array = array.view(np.uint8)
        if array.dtype.kind == "f" and np.all(array == np.floor(array)):
            # Whole floats come from containers that know no integers; NaN is not whole.
            array = array.astype(np.int64) if np.all(np.abs(array) < 2**53) else array
        expect(array.dtype.kind in "iu", "integers", array)
        expect(array.size, "at least one report", array)
        return self.check_reports(array)

    # -- as a value ---------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        """Whether reports of the two add up."""
        return isinstance(other, Mechanism) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self.report_fields))

    def _identity(self) -> tuple:
        """What makes two mechanisms the same one."""
        return type(self), self.configuration, self.report_fields

    def __getstate__(self) -> dict[str, Any]:
        # Without what is computed on demand: reading it must not change a hash of an estimate.
        cached = {
            name
            for cls in type(self).__mro__
            for name, value in vars(cls).items()
            if isinstance(value, cached_property)
        }
        return {name: value for name, value in vars(self).items() if name not in cached}
