"""The mechanism of a collection: what a client does with a code, and a server with a report.

A mechanism knows neither scikit-learn nor what the values are called. It is immutable once built,
so that clients, servers and threads can share it, and its probabilities are the rationals over
2**64 that its coins realise, so that its epsilon can be proved by enumeration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._coins import Coins
from ._laws import PublicPart
from ._reports import bits_for, expect, sorted_parts


class ReportField(NamedTuple):
    """A column of reports in files.

    Parameters
    ----------
    name : str
        Name of the column.
    n_values : int
        Number of values that an integer in this column can take.
    width : int, default=None
        Number of integers that a report has in this column. None means one, for reports of shape
        (n,).
    """

    name: str
    n_values: int
    width: int | None = None


class Mechanism(ABC):
    """Base of all mechanisms: codes go in, reports come out, and reports are added up to tallies.

    This is all that collecting reports needs: files, ledgers, checkpoints, groups and clusters use
    a mechanism and nothing else. Subclasses make an estimate from the tallies: :class:`Channel`
    estimates frequencies, others may estimate other things.
    """

    #: About how many bytes of memory one report takes while it is worked on. It determines how many
    #: users share a stream of coins, so a change of it also changes what a seed draws.
    report_bytes = 64

    # -- what two parties must agree on -------------------------------------------------------
    @property
    def configuration(self) -> dict[str, Any]:
        """What two parties must agree on besides epsilon and the domain: numbers and texts."""
        return {}

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """The columns to store reports in; if empty, reports are stored as they are, in 64 bits."""
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

    def report_entropy(self, order: int = 1) -> float:
        """Return the bits of randomness in a report, at least, whatever the value.

        No format stores honest reports in fewer bits than their entropy, so a reader can tell a
        file that promises too many of them before it counts any. Two honest reports are equal with
        a probability of at most 2 to the minus collision entropy, whatever the two values are, so
        a server can tell a copy of a batch from one that agrees with it by chance.

        Parameters
        ----------
        order : {1, 2}, default=1
            That of Rényi's entropy: 1 is Shannon's, 2 is the collision entropy.

        Returns
        -------
        float
            The entropy or a lower bound of it; by default 0, from which nobody can conclude
            anything.
        """
        return 0.0

    # -- on the client ------------------------------------------------------------------------
    @abstractmethod
    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Randomise one code per user: the only place where values are read.

        Which coins are drawn must not depend on the codes, so that in a seeded run the coins of a
        user do not depend on the others' values.

        Parameters
        ----------
        codes : ndarray whose first axis is the users
            Values as the domain encodes them: category codes of shape (n,), unless it says
            otherwise.
        coins : Coins
            The only source of randomness.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            Integer reports.
        """

    def draw(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Randomise codes for a sum only: what `tally` counts as it counts the reports.

        A mechanism whose reports take longer to write down than to add up may return them in
        another form, which never leaves the process: an array of booleans, one row per user.

        Parameters
        ----------
        codes : ndarray whose first axis is the users
            As for `privatize`.
        coins : Coins
            As for `privatize`, of which it draws the same.

        Returns
        -------
        ndarray whose first axis is the users
            By default, the reports.
        """
        return self.privatize(codes, coins)

    @property
    def public_part(self) -> PublicPart | None:
        """What a client draws without looking at its value, such as a hash function; or None."""
        return None

    # -- on the server ------------------------------------------------------------------------
    @abstractmethod
    def check_reports(self, reports: np.ndarray) -> np.ndarray:
        """Refuse invalid reports, and bring valid ones into canonical form.

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
            If a report is not valid. The message says what was expected, see :func:`expect`.
        """

    @abstractmethod
    def tally(self, reports: np.ndarray) -> np.ndarray:
        """Count reports into a tally.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Checked reports.

        Returns
        -------
        ndarray of shape (tally_size,)
            int64. The tallies of two batches add up to the tally of both.
        """

    def tally_each(
        self, reports: np.ndarray, parts: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Count the reports of several collections at once, in which this mechanism was used.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Checked reports.
        parts : ndarray of int of shape (n,)
            The number of the collection of each report.

        Yields
        ------
        (int, ndarray of shape (tally_size,))
            Each collection that has reports, with its tally.
        """
        for part, rows in sorted_parts(parts):
            yield part, self.tally(reports[rows])

    @property
    @abstractmethod
    def tally_size(self) -> int:
        """Number of counts in a tally."""

    @property
    def tally_sum(self) -> int | None:
        """Sum of the tally of a report, if it is the same for all reports; otherwise None."""
        return None

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
            If they cannot be sums of so many reports' tallies. The message says what is wrong. By
            default counts must not be negative, must be 0 if there are no reports, and must add up
            to `tally_sum` per report.
        """
        if tallies.min(initial=0) < 0:
            raise ValueError(f"one of its counts is {tallies.min()}, expected none below 0")
        if tallies[sizes == 0].any():
            raise ValueError("it has counts without reports")
        if self.tally_sum is None:
            return
        expected = self.tally_sum * sizes
        # Integers may wrap where floats only lose digits.
        about = tallies.sum(axis=1, dtype=float)
        if np.any(np.abs(about - expected) > 2**60) or np.any(tallies.sum(axis=1) != expected):
            raise ValueError(
                f"its counts add up to {about.sum():.0f}, expected {expected.sum()}: the counts of "
                f"each of its {sizes.sum()} reports add up to {self.tally_sum}"
            )

    def decode_operations(self, n_samples: int) -> int:
        """Return the order of the number of operations from reports to what estimates need.

        Parameters
        ----------
        n_samples : int
            Number of reports.

        Returns
        -------
        int
            By default, one operation for each report.
        """
        return n_samples

    def decode(self, tallies: np.ndarray) -> np.ndarray:
        """Turn tallies into the counts that estimates are made from.

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

    def as_reports(self, reports: ArrayLike) -> np.ndarray:
        """Return the reports in any array of integers, in canonical form.

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
            If a report cannot come from this mechanism. The message says what was expected.
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
        """Return whether reports of the two mechanisms can be added up."""
        return isinstance(other, Mechanism) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self.report_fields))

    def _identity(self) -> tuple:
        """Return what is equal if and only if two mechanisms are the same."""
        return type(self), self.configuration, self.report_fields

    def __getstate__(self) -> dict[str, Any]:
        # Leave out what is computed on demand: reading it must not change an estimate's hash.
        cached = {
            name
            for cls in type(self).__mro__
            for name, value in vars(cls).items()
            if isinstance(value, cached_property)
        }
        return {name: value for name, value in vars(self).items() if name not in cached}
