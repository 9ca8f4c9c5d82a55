"""Base class of mechanisms: a client randomizes codes to reports, and a server adds up reports.

A mechanism is independent of scikit-learn and of the names of the values. It is immutable, so
clients, servers and threads can share it. Its probabilities are the rationals over 2**64 that its
random bits realize, so its epsilon can be proved by enumeration.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..common.docs import inherit_docstrings
from ..common.state import Uncached
from .coins import Coins, CoinStreams, rows_by_group


def are_below(reports: np.ndarray, n_values: int) -> bool:
    """Return whether all integers in an array of reports are in ``range(n_values)``."""
    if reports.dtype == np.uint8 and n_values >= 256:
        return True
    return not reports.size or 0 <= int(reports.min()) <= int(reports.max()) < n_values


def bit_width(n_values: int) -> int:
    """Return the number of bits that an integer in ``range(n_values)`` needs.

    Parameters
    ----------
    n_values : int
        Number of possible values.

    Returns
    -------
    int
        The binary logarithm of `n_values`, rounded up.
    """
    return (n_values - 1).bit_length()


def require_reports(condition: object, expectation: str, reports: np.ndarray) -> None:
    """Raise ValueError, with the expected and the received form of reports, if a check fails.

    Parameters
    ----------
    condition : bool
        Whether the reports are as expected.
    expectation : str
        The expected form of the reports; it follows the word "expected" in the message.
    reports : ndarray
        The reports that were received.

    Raises
    ------
    ValueError
        If the condition is false.
    """
    if not condition:
        # The text shows no value, because a client may have sent an answer instead of a report, and
        # errors are logged.
        form = f"an array of dtype {reports.dtype} and shape {reports.shape}"
        raise ValueError(f"expected {expectation}, got {form}")


def counted_by_group(
    codes: np.ndarray, groups: np.ndarray, n_codes: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each group that occurs, with the number of its users for each code.

    Shapes: codes (n,), groups (n,) -> (n_codes,).
    """
    if not groups.size:
        return
    first = int(groups.min())
    n_groups = int(np.ptp(groups)) + 1
    counts = np.bincount((groups - first) * n_codes + codes, minlength=n_groups * n_codes)
    by_group = counts.astype(np.int64, copy=False).reshape(n_groups, n_codes)
    present = np.flatnonzero(by_group.any(axis=1))
    yield from zip((first + present).tolist(), by_group[present], strict=True)


class ReportField(NamedTuple):
    """Description of a column in which files store reports, or a part of each report.

    Parameters
    ----------
    name : str
        Name of the column.
    n_values : int
        Number of values that an integer in this column can have.
    width : int, default=None
        Number of integers that a report has in this column. If None, there is one, and reports have
        shape (n,). Files pack several bits, and store several bytes (of 256 values) unchanged.
    """

    name: str
    n_values: int
    width: int | None = None


class PublicPart(NamedTuple):
    """The part of reports that is independent of the user's value, such as a hash function.

    Parameters
    ----------
    of_reports : callable
        Returns the part of each report, as integers of shape (n,).
    n_values : int
        Number of values of the part.
    shares : ndarray of shape (n_values,) or None
        Probabilities of the values of the part. If None, all are equally likely.
    n_draws : int or None
        The part is computed from a uniform integer in ``range(n_draws)``. If None, use `n_values`.
    of_draws : callable or None
        Maps such integers, of shape (n,), to parts. If None, the integers are the parts.
    privatize : callable or None
        Makes reports from codes of shape (n,), parts of shape (n,) and random bits. It must satisfy
        epsilon for every part. If None, a collector cannot assign parts to clients.
    collisions : callable or None
        Accepts the number of reports of each part, of shape (n_values,). For some classes of pairs
        of categories, it returns the number of reports that support both or neither of a pair for
        any answer, and the probability of this number. None if this is unknown.
    """

    of_reports: Callable[[np.ndarray], np.ndarray]
    n_values: int
    shares: np.ndarray | None = None
    n_draws: int | None = None
    of_draws: Callable[[np.ndarray], np.ndarray] | None = None
    privatize: Callable[[np.ndarray, np.ndarray, Coins], np.ndarray] | None = None
    collisions: Callable[[np.ndarray], tuple[np.ndarray, float]] | None = None

    def draw(self, uniform: Callable[[int], np.ndarray]) -> np.ndarray:
        """Draw the public parts of n reports.

        Parameters
        ----------
        uniform : callable
            Maps an integer m to n uniform integers in ``range(m)``.

        Returns
        -------
        ndarray of shape (n,)
            int64.
        """
        draws = uniform(self.n_values if self.n_draws is None else self.n_draws)
        return draws if self.of_draws is None else self.of_draws(draws)


class Mechanism(Uncached, ABC):
    """Base class of mechanisms, which randomize codes to reports and add up reports to tallies.

    A code is the number of a user's value in the domain. A tally is a vector of counts. All
    functions that collect or store reports use only this interface. Subclasses compute an estimate
    from the tallies: :class:`Channel` estimates frequencies, and other mechanisms may estimate
    other quantities.
    """

    #: The approximate number of bytes of memory for processing one report. It determines how many
    #: users share a stream of random bits, so changing it also changes the results of a seed.
    report_bytes: int = 64

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_docstrings(cls)

    # -- the configuration of clients and servers ---------------------------------------------
    @property
    def configuration(self) -> dict[str, Any]:
        """The numbers and texts that clients and servers must share, in addition to the domain."""
        return {}

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """The columns of files that store reports; if empty, they store 64-bit integers."""
        return ()

    @property
    def client_parameters(self) -> dict[str, Any] | None:
        """The parameters for clients in other languages; None if these have no such mechanism.

        They are numbers and texts: the `kind` of mechanism, and the parameters that the
        documentation of the client format lists for this kind. Probabilities are integers over
        2**64.
        """
        return None

    @property
    def older_fields(self) -> tuple[ReportField, ...]:
        """The columns of an older form of these reports in files; empty if there is none.

        `check_reports` converts that form to the form of `report_fields`. The two forms must have
        different numbers of integers, so that the number identifies the form. The configuration
        that clients and servers share describes the older form.
        """
        return ()

    @property
    def is_informative(self) -> bool:
        """Whether reports depend on users' values; False if epsilon is extremely small."""
        return True

    @property
    def report_bits(self) -> int:
        """Number of bits of a report."""
        if not self.report_fields:
            return 64
        return sum(bit_width(field.n_values) * (field.width or 1) for field in self.report_fields)

    @abstractmethod
    def report_entropy(self, order: int = 1) -> float:
        """Return a lower bound on the entropy of a report in bits, for any value of the user.

        No format stores honest reports in fewer bits than their entropy. So a reader can refuse a
        file that claims too many reports before it counts any. Two honest reports are equal with a
        probability of at most 2 to the minus collision entropy, for any two values. So a server can
        distinguish a copy of a batch from a batch that is equal by chance.

        Parameters
        ----------
        order : {1, 2}, default=1
            The order of Rényi's entropy: 1 is Shannon's entropy, 2 is the collision entropy.

        Returns
        -------
        float
            The entropy or a lower bound. With 0, readers cannot refuse files with impossible
            numbers of reports, and copies of batches are not detected.
        """

    # -- on the client ------------------------------------------------------------------------
    @abstractmethod
    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Randomize the code of each user; no other method uses users' values.

        The random bits that are drawn must not depend on the codes, so that in a seeded run the
        random bits of a user do not depend on the other users' values.

        Parameters
        ----------
        codes : ndarray with the users as first axis
            Values in the encoding of the domain: usually category codes of shape (n,).
        coins : Coins
            The only source of randomness.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            Integer reports.
        """

    def draw(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Randomize codes in any form that `tally` accepts, which may differ from reports.

        If it is faster for a mechanism, `draw` returns an array of booleans, one row per user,
        instead of reports. This form never leaves the process.

        Parameters
        ----------
        codes : ndarray with the users as first axis
            As for `privatize`.
        coins : Coins
            As for `privatize`, which draws the same random bits.

        Returns
        -------
        ndarray with the users as first axis
            By default, the reports.
        """
        return self.privatize(codes, coins)

    @property
    def public_part(self) -> PublicPart | None:
        """The part of reports that does not depend on values, such as a hash function."""
        return None

    # -- on the server ------------------------------------------------------------------------
    @abstractmethod
    def check_reports(self, reports: np.ndarray) -> np.ndarray:
        """Raise ValueError for invalid reports, and convert valid reports to the usual form.

        Parameters
        ----------
        reports : ndarray
            Integers of any shape.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            Reports in the form that `privatize` returns.

        Raises
        ------
        ValueError
            If a report is not valid. The message states the expected form, see :func:`expect`.
        """

    @abstractmethod
    def tally(self, reports: np.ndarray) -> np.ndarray:
        """Add up reports to a tally, a vector of counts.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned.

        Returns
        -------
        ndarray of shape (tally_size,)
            int64. The sum of the tallies of two batches is the tally of all their reports.
        """

    def tally_each(
        self, reports: np.ndarray, groups: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Add up the reports of each of several groups.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned.
        groups : ndarray of int of shape (n,)
            The group of each report.

        Yields
        ------
        (int, ndarray of shape (tally_size,))
            Each group that has reports, with its tally.
        """
        for group, rows in rows_by_group(groups):
            yield group, self.tally(reports[rows])

    @property
    @abstractmethod
    def tally_size(self) -> int:
        """Number of counts in a tally."""

    @property
    def tally_sum(self) -> int | None:
        """Sum of the counts in the tally of one report, if all reports have the same; else None."""
        return None

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
            If a row cannot be a sum of the tallies of so many reports. The message states the
            reason. By default, counts must not be negative, must be 0 if there are no reports, and
            must add up to `tally_sum` per report.
        """
        if tallies.min(initial=0) < 0:
            raise ValueError(f"one of its counts is {tallies.min()}, expected no negative count")
        if tallies[sizes == 0].any():
            raise ValueError("it has counts without reports")
        if self.tally_sum is None:
            return
        expected = self.tally_sum * sizes
        # Sums of integers may wrap around, while sums of floats only lose digits.
        about = tallies.sum(axis=1, dtype=float)
        if np.any(np.abs(about - expected) > 2**60) or np.any(tallies.sum(axis=1) != expected):
            raise ValueError(
                f"its counts add up to {about.sum():.0f}, expected {expected.sum()}, because the "
                f"counts of each of its {sizes.sum()} reports add up to {self.tally_sum}"
            )

    def decode_operations(self, n_samples: int) -> int:
        """Return about how many operations are needed to compute estimates from reports.

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
        """Convert tallies to the counts from which estimates are computed.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Sums of results of `tally`.

        Returns
        -------
        ndarray of shape (m, any)
            By default, the tallies themselves.
        """
        return tallies

    def as_reports(self, reports: ArrayLike) -> np.ndarray:
        """Check reports in any container, and return them in the form that `privatize` returns.

        Parameters
        ----------
        reports : array-like with the users as first axis
            Integers, or whole numbers from a container without integers.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            Reports in the form that `privatize` returns.

        Raises
        ------
        ValueError
            If a report cannot come from this mechanism. The message states the expected form.
        """
        array = np.asarray(reports)
        if array.dtype.kind == "b":
            array = array.view(np.uint8)
        if array.dtype.kind == "f" and np.all(array == np.floor(array)):
            # Containers without integers return whole numbers as floats; NaN is not whole.
            array = array.astype(np.int64) if np.all(np.abs(array) < 2**53) else array
        require_reports(array.dtype.kind in "iu", "integers", array)
        require_reports(array.size, "at least one report", array)
        return self.check_reports(array)

    def unlikely_total(self, reports: np.ndarray, rate: float) -> tuple[str, float]:
        """Test statistically whether reports come from another mechanism, such as another epsilon.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Checked reports, each from a different user.
        rate : float
            The maximum probability that honest reports fail the test, for any values.

        Returns
        -------
        (str, float)
            A text that describes the expected reports if the test fails, and "" if it passes (the
            default). Then the minimum share of fake reports that would explain the difference.
        """
        return "", 0.0

    def settle(self, oracle: Any, domain: Any) -> bool:
        """Check that a mechanism from a file belongs to an oracle, and complete its attributes.

        Parameters
        ----------
        oracle : estimator
            The oracle.
        domain : Domain or ndarray
            The oracle's categories.

        Returns
        -------
        bool
            Whether the mechanism belongs to the oracle; by default True. A subclass that can
            construct the oracle's mechanism fast compares the two, and copies its attributes if
            they are equal.
        """
        return True

    def for_enumeration(self) -> Mechanism:
        """Return a mechanism whose outcomes a test can enumerate, with the same use of random bits.

        Returns
        -------
        Mechanism
            The mechanism itself, unless it draws from a space that is too large to be listed.
        """
        return self

    # -- as a value ---------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        """Return whether reports of the two mechanisms can be added up."""
        return isinstance(other, Mechanism) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self.report_fields))

    def _identity(self) -> tuple:
        """Return a key that is equal for two mechanisms if and only if they are the same."""
        return type(self), self.configuration, self.report_fields


class NumberReports(Mechanism):
    """Base class of mechanisms whose report is one number; a tally counts each number."""

    #: Number of different reports.
    n_reports: int
    #: The name of the column in files.
    report_name = "report"

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        return (ReportField(self.report_name, self.n_reports),)

    def check_reports(self, reports: np.ndarray) -> np.ndarray:
        is_fine = reports.ndim == 1 and are_below(reports, self.n_reports)
        require_reports(
            is_fine, f"an array of shape (n,) of integers in [0, {self.n_reports - 1}]", reports
        )
        # The bincount of older versions of NumPy accepts no unsigned integers of 64 bits.
        return reports.astype(np.int64) if reports.dtype == np.uint64 else reports

    @property
    def tally_size(self) -> int:
        return self.n_reports

    @property
    def tally_sum(self) -> int:
        return 1

    def tally(self, reports: np.ndarray) -> np.ndarray:
        return np.bincount(reports, minlength=self.n_reports)

    def tally_each(
        self, reports: np.ndarray, groups: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray]]:
        yield from counted_by_group(reports, groups, self.n_reports)


_CHUNK_BYTES = 1 << 25  # the maximum memory for a chunk of reports


def privatize(
    mechanism: Mechanism,
    codes: np.ndarray,
    first: int,
    streams: CoinStreams,
    *,
    for_sums: bool = False,
    parts: np.ndarray | None = None,
) -> np.ndarray:
    """Randomize the codes of users, whose positions in the collection are first, first + 1, ..

    Shapes: parts (n,).
    for_sums: whether the reports are only passed to `tally`, see `Mechanism.draw`.
    parts: the public part of each report, if the collector assigns it.
    """
    # In a seeded run the users of a block share a stream, and each block is drawn whole. So the
    # random bits of a user depend only on the seed and on the user's position.
    randomise: Callable = mechanism.draw if for_sums else mechanism.privatize
    inputs = [codes]
    if parts is not None:
        part: Any = mechanism.public_part
        randomise = part.privatize
        inputs = [codes, parts]
    pieces: Iterator[np.ndarray]
    if streams.is_secure:
        coins = streams.block(0)
        size = chunk_users(mechanism)
        spans = range(0, max(len(codes), 1), size)
        pieces = (randomise(*(x[start : start + size] for x in inputs), coins) for start in spans)
    else:
        pieces = _seeded(randomise, inputs, first, streams, block_users(mechanism))
    return _concatenated(pieces, len(codes))


def _seeded(
    randomise: Callable, inputs: list[np.ndarray], first: int, streams: CoinStreams, size: int
) -> Iterator[np.ndarray]:
    end = first + len(inputs[0])
    for block in range(first // size, -(-end // size)):
        start, stop = max(first, block * size), min(end, (block + 1) * size)
        inside = slice(start - block * size, stop - block * size)
        padded = [np.zeros((size, *x.shape[1:]), dtype=x.dtype) for x in inputs]
        for whole, x in zip(padded, inputs, strict=True):
            whole[inside] = x[start - first : stop - first]
        yield randomise(*padded, streams.block(block))[inside]


def _concatenated(pieces: Iterator[np.ndarray], n: int) -> np.ndarray:
    """Concatenate pieces with n rows in total, and free each piece after it was copied."""
    first = next(pieces)
    if len(first) == n:
        return first
    result = np.empty((n, *first.shape[1:]), dtype=first.dtype)
    stop = 0
    for piece in chain([first], pieces):
        start, stop = stop, stop + len(piece)
        result[start:stop] = piece
    return result


def block_users(mechanism: Mechanism) -> int:
    """Return how many users share a random stream; the results of a seed depend on it."""
    return 1 << int(min(max(22 - math.log2(mechanism.report_bytes), 6), 15))


def chunk_users(mechanism: Mechanism) -> int:
    """Return how many users are randomized together, which limits the memory."""
    block = block_users(mechanism)
    return block * max(1, min(_CHUNK_BYTES // mechanism.report_bytes // block, 8))
