"""Base class of mechanisms: a client randomizes a code to a report, and a server counts reports.

A code is an integer that stands for a user's value. A mechanism is independent of scikit-learn and
of the names of the values. It is immutable, so clients, servers and threads can share it. Its
probabilities are integers over 2**64, and its random bits realize them exactly, so its epsilon can
be proved by enumeration.
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
    """Return the number of bits that are needed to write an integer in ``range(n_values)``.

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
    """Raise ValueError if a condition is false. The message states the expected and received form.

    Parameters
    ----------
    condition : bool
        Whether the reports are as expected.
    expectation : str
        The expected form of the reports. In the message it follows the word "expected".
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
    """Yield each group that occurs, with the number of occurrences of each code in this group.

    `groups` contains the group of each code.
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
    """Description of a column of a file, in which reports or parts of reports are stored.

    Parameters
    ----------
    name : str
        Name of the column.
    n_values : int
        Number of possible values of an integer in this column: it is in ``range(n_values)``.
    width : int, default=None
        Number of integers that a report has in this column. If None, there is one, and an array of
        reports has shape (n,). If `n_values` is 2, files pack eight integers into a byte. If it is
        256, files store each integer as a byte.
    """

    name: str
    n_values: int
    width: int | None = None


class PublicPart(NamedTuple):
    """The part of a report that is independent of the user's value, such as a hash function.

    Parameters
    ----------
    of_reports : callable
        ``of_reports(reports)`` returns the public part of each report, as integers of shape (n,).
    n_values : int
        Number of possible values of the public part: it is in ``range(n_values)``.
    shares : ndarray of shape (n_values,) or None
        Probability of each value of the public part. If None, all values are equally likely.
    n_draws : int or None
        The public part is computed from a uniform integer in ``range(n_draws)``. If None,
        ``range(n_values)`` is used.
    of_draws : callable or None
        ``of_draws(integers)`` converts such uniform integers, of shape (n,), to public parts. If
        None, the integers are the public parts.
    privatize : callable or None
        ``privatize(codes, parts, coins)`` randomizes codes of shape (n,) to reports that have the
        given public parts of shape (n,). It must satisfy epsilon for every public part. If None, a
        collector cannot assign public parts to clients.
    collisions : callable or None
        ``collisions(counts)`` accepts the number of reports with each public part, of shape
        (n_values,). It returns two values for some pairs of categories. The first is the number of
        reports whose public part cannot distinguish the two categories (such as a hash function
        that maps both to the same value). The second is the probability of such a public part. None
        if this is unknown.
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
            ``uniform(m)`` draws n uniform integers in ``range(m)``.

        Returns
        -------
        ndarray of shape (n,)
            The public parts, int64.
        """
        draws = uniform(self.n_values if self.n_draws is None else self.n_draws)
        return draws if self.of_draws is None else self.of_draws(draws)


class Mechanism(Uncached, ABC):
    """Base class of mechanisms, which randomize codes to reports and count reports.

    A code is the integer that stands for a user's value (its position in the domain). The server
    summarizes reports in a tally, a vector of counts; the tallies of two batches can be added. All
    functions that collect or store reports use only the methods of this class. Subclasses compute
    an estimate from the tallies: :class:`Channel` estimates frequencies, and other mechanisms may
    estimate other quantities.
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
        """Numbers and texts, in addition to the domain, on which clients and servers must agree."""
        return {}

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """Descriptions of the columns in which files store reports.

        If there are none, reports are stored in a column of 64-bit integers.
        """
        return ()

    @property
    def client_parameters(self) -> dict[str, Any] | None:
        """Parameters for clients in other programming languages, as a dict of numbers and texts.

        The dict contains the `kind` of the mechanism, and the parameters that the documentation of
        the client format lists for this kind. Probabilities are integers over 2**64. None if
        clients in other languages do not support this mechanism.
        """
        return None

    @property
    def older_fields(self) -> tuple[ReportField, ...]:
        """Descriptions of the columns of an older form of the reports, if there is one.

        `check_reports` converts the older form to the form of `report_fields`. The two forms must
        have different numbers of integers per report, so that this number identifies the form. The
        configuration that clients and servers share describes the older form.
        """
        return ()

    @property
    def is_informative(self) -> bool:
        """Whether reports depend on users' values. It is False if epsilon is extremely small."""
        return True

    @property
    def report_bits(self) -> int:
        """Number of bits that are needed to write a report."""
        if not self.report_fields:
            return 64
        return sum(bit_width(field.n_values) * (field.width or 1) for field in self.report_fields)

    @abstractmethod
    def report_entropy(self, order: int = 1) -> float:
        """Return a lower bound, in bits, on the entropy of a report, for any value of the user.

        Shannon's entropy is the minimum number of bits that a file needs per report. So a server
        can refuse a file that claims to contain more reports than fit in its size. If the collision
        entropy is H, two reports are equal with probability at most 2**-H, for any two values. So a
        server can distinguish a copy of a batch from a batch that is equal by chance.

        Parameters
        ----------
        order : {1, 2}, default=1
            The order of Rényi's entropy: 1 is Shannon's entropy, 2 is the collision entropy.

        Returns
        -------
        float
            The entropy or a lower bound. If it is 0, servers neither refuse files with impossible
            numbers of reports nor detect copies of batches.
        """

    # -- on the client ------------------------------------------------------------------------
    @abstractmethod
    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Randomize the code of each user to a report. No other method uses users' values.

        The number of random bits that are drawn must not depend on the codes. So in a simulation
        with a seed, the random bits of a user do not depend on the other users' values.

        Parameters
        ----------
        codes : ndarray with the users as first axis
            The users' values as the domain encodes them: usually the positions of categories in the
            domain, of shape (n,).
        coins : Coins
            The only source of randomness.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            The reports, which are integers or rows of integers.
        """

    def draw(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        """Randomize codes like `privatize`, for the server in a simulation.

        The result need not be reports, but must be an array that `tally` accepts. A mechanism may
        return another form than reports (such as booleans, one row per user) if this is faster.
        This form is never stored or sent.

        Parameters
        ----------
        codes : ndarray with the users as first axis
            The users' values, as for `privatize`.
        coins : Coins
            The only source of randomness. `draw` and `privatize` draw the same random bits.

        Returns
        -------
        ndarray with the users as first axis
            By default, the reports.
        """
        return self.privatize(codes, coins)

    @property
    def public_part(self) -> PublicPart | None:
        """The part of a report that does not depend on the user's value, such as a hash function.

        None if there is no such part.
        """
        return None

    # -- on the server ------------------------------------------------------------------------
    @abstractmethod
    def check_reports(self, reports: np.ndarray) -> np.ndarray:
        """Raise ValueError if a report is not valid; otherwise return the reports in usual form.

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
            If a report is not valid. The message states the expected form, as the function
            `require_reports` does.
        """

    @abstractmethod
    def tally(self, reports: np.ndarray) -> np.ndarray:
        """Count reports, and return the vector of counts, which is called tally.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned.

        Returns
        -------
        ndarray of shape (tally_size,)
            The tally, int64. The tallies of two batches can be added: the sum is the tally of all
            their reports.
        """

    def tally_each(
        self, reports: np.ndarray, groups: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Count the reports of each group, and yield the groups with their tallies.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned.
        groups : ndarray of int of shape (n,)
            The group of each report.

        Yields
        ------
        (int, ndarray of shape (tally_size,))
            A group that has reports, and the tally of its reports.
        """
        for group, rows in rows_by_group(groups):
            yield group, self.tally(reports[rows])

    @property
    @abstractmethod
    def tally_size(self) -> int:
        """Number of counts in a tally, the vector that `tally` returns."""

    @property
    def tally_sum(self) -> int | None:
        """Sum of the counts in the tally of a single report. None if reports differ in it."""
        return None

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
            By default, if a count is negative, if a row without reports has a count above 0, or if
            the counts of a row do not add up to `tally_sum` times its number of reports. Subclasses
            may check more. The message states the reason.
        """
        if tallies.min(initial=0) < 0:
            raise ValueError(f"a count of reports is {tallies.min()}, expected no negative count")
        if tallies[sizes == 0].any():
            raise ValueError("a count of reports is above 0, but the number of reports is 0")
        if self.tally_sum is None:
            return
        expected = self.tally_sum * sizes
        # Sums of integers may wrap around, while sums of floats only lose digits.
        about = tallies.sum(axis=1, dtype=float)
        if np.any(np.abs(about - expected) > 2**60) or np.any(tallies.sum(axis=1) != expected):
            raise ValueError(
                f"the counts of reports add up to {about.sum():.0f} instead of {expected.sum()}: "
                f"each of the {sizes.sum()} reports adds {self.tally_sum} to the sum of all counts"
            )

    def decode_operations(self, n_samples: int) -> int:
        """Return approximately how many operations compute the estimate from reports.

        Parameters
        ----------
        n_samples : int
            Number of reports.

        Returns
        -------
        int
            By default, the number of reports.
        """
        return n_samples

    def decode(self, tallies: np.ndarray) -> np.ndarray:
        """Convert tallies to the counts from which estimates are computed.

        Parameters
        ----------
        tallies : ndarray of shape (m, tally_size)
            Each row is the result of `tally` for one group of reports, or a sum of such results.

        Returns
        -------
        ndarray of shape (m, any)
            The counts of each group. By default, the tallies themselves.
        """
        return tallies

    def as_reports(self, reports: ArrayLike) -> np.ndarray:
        """Check reports, and convert them to the form that `privatize` returns.

        Parameters
        ----------
        reports : array-like with the users as first axis
            The reports as a list, an array or a data frame. The numbers must be integers, or floats
            without a fractional part.

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
        """Test statistically whether reports come from a mechanism with another epsilon.

        Parameters
        ----------
        reports : ndarray of shape (n,) or (n, width)
            Reports that `check_reports` has returned, each from a different user.
        rate : float
            Maximum probability that the test fails although all reports come from this mechanism,
            for any values of the users.

        Returns
        -------
        (str, float)
            If the test fails, a text that describes the expected reports, and the minimum
            proportion of fake reports that can explain the difference. If it passes, "" and 0. By
            default, the test always passes.
        """
        return "", 0.0

    def settle(self, oracle: Any, domain: Any) -> bool:
        """Return whether this mechanism, which was read from a file, belongs to an oracle.

        If it does, the attributes that the file does not contain are added.

        Parameters
        ----------
        oracle : estimator
            The oracle.
        domain : Domain or ndarray
            The oracle's categories.

        Returns
        -------
        bool
            Whether the mechanism belongs to the oracle; by default True. A subclass may construct
            the oracle's mechanism, compare it with this one, and copy its attributes.
        """
        return True

    def for_enumeration(self) -> Mechanism:
        """Return a similar mechanism with few outcomes, so that a test can enumerate all of them.

        It uses random bits in the same way.

        Returns
        -------
        Mechanism
            The mechanism itself, unless it draws from too many possible numbers.
        """
        return self

    # -- as a value ---------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        """Return whether the two mechanisms are equal, so that their reports can be counted
        together."""
        return isinstance(other, Mechanism) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self.report_fields))

    def _identity(self) -> tuple:
        """Return a tuple that is equal for two mechanisms if and only if they are equal."""
        return type(self), self.configuration, self.report_fields


class NumberReports(Mechanism):
    """Base class of mechanisms whose report is one integer. A tally counts the reports of each
    integer."""

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
    """Randomize the codes of users to reports.

    The users have the positions first, first + 1, .. in the collection; with a seed, the random
    bits of a user depend on the position. If `for_sums` is True, the result is only for `tally`,
    see `Mechanism.draw`. `parts`, of shape (n,), contains the public part of each report (such as a
    hash function), if the collector assigns it.
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
    """Concatenate arrays with n rows in total. The memory of each array is freed after it was
    copied."""
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
    """Return the number of users in a block. Each block has its own stream of random bits.

    With a seed, the reports depend on this number.
    """
    return 1 << int(min(max(22 - math.log2(mechanism.report_bytes), 6), 15))


def chunk_users(mechanism: Mechanism) -> int:
    """Return how many users are randomized together. A larger number would need more memory."""
    block = block_users(mechanism)
    return block * max(1, min(_CHUNK_BYTES // mechanism.report_bytes // block, 8))
