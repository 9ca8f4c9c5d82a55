"""Any small channel: a matrix of probabilities, whose reports are its outputs."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._utils.typing import Matrix
from ..noise import MatrixNoise, as_rows
from ..numerics.strategies import decoding_matrix
from .channel import LinearMechanism
from .coins import TWO_64, Coins, exp_lower_bound
from .laws import ReportLaw
from .mechanism import NumberReports


class MatrixChannel(NumberReports, LinearMechanism):
    """Report output y with the probability ``integers[y, x] / 2**64``, where x is the user's code.

    A report supports no set of categories, and there are no p and q. A tally counts the outputs;
    the estimate is their least-squares decoding, and its noise is exact.

    Parameters
    ----------
    integers : ndarray of shape (m, n_categories)
        Positive integers below 2**64 whose columns add up to 2**64, uint64. They are what clients
        and servers must have in common; :func:`integer_channel` makes them from probabilities.
    """

    def __init__(self, integers: np.ndarray) -> None:
        self.integers = np.ascontiguousarray(integers, dtype="<u8")
        self.integers.setflags(write=False)
        self.n_reports, self.n_categories = self.integers.shape

    # -- what two parties must agree on -------------------------------------------------------
    @property
    def configuration(self) -> dict[str, Any]:
        return {"n_reports": self.n_reports, "channel_sha256": self._digest}

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self.integers.tobytes()).hexdigest()

    @property
    def is_informative(self) -> bool:
        return self._decoding is not None

    def report_entropy(self, order: int = 1) -> float:
        chances = self.probabilities
        if order == 1:
            return float(-np.sum(chances * np.log2(chances), axis=0).max())
        return float(-np.log2(np.sum(chances**2, axis=0).max()))

    @cached_property
    def probabilities(self) -> np.ndarray:
        """The probability of each output given each code, of shape (m, n_categories)."""
        return self.integers / float(TWO_64)

    # -- reports ------------------------------------------------------------------------------
    @cached_property
    def _ends(self) -> np.ndarray:
        """Where the share of each output of each code ends, but for the last output's."""
        return np.cumsum(self.integers[:-1], axis=0, dtype=np.uint64).T.copy()

    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        return coins.choices(self._ends, codes)

    def simulate(self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        tallies = np.zeros((n_repeats, self.n_reports), dtype=np.int64)
        laws = self.probabilities / self.probabilities.sum(axis=0)
        for code in np.flatnonzero(counts):
            tallies += rng.multinomial(counts[code], laws[:, code], size=n_repeats)
        return tallies

    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Tell under which categories a report is likelier than on average, for an audit.

        Parameters
        ----------
        reports : ndarray of shape (n,)
            Reports.
        codes : ndarray of shape (n_codes,)
            Categories.

        Returns
        -------
        ndarray of shape (n, n_codes)
            Booleans.
        """
        chances = self.probabilities
        is_likelier = chances[:, codes] > chances.mean(axis=1, keepdims=True)
        return is_likelier[reports]

    @property
    def report_law(self) -> ReportLaw:
        """The law of the outputs, by two products with the matrix."""
        chances = self.probabilities
        return ReportLaw(
            1.0, 0.0, lambda f: chances @ f, lambda weights: chances.T @ weights, matrix=chances
        )

    def decode_operations(self, n_samples: int) -> int:
        return n_samples + self.integers.size

    # -- estimates and their noise ------------------------------------------------------------
    @cached_property
    def _decoding(self) -> np.ndarray | None:
        try:
            return decoding_matrix(self.probabilities)
        except np.linalg.LinAlgError:
            return None

    @property
    def decoding(self) -> np.ndarray:
        """The left inverse of the matrix by which outputs are decoded: shape (n_categories, m)."""
        if self._decoding is None:
            raise ValueError("The outputs of this channel do not tell all categories apart.")
        return self._decoding

    def estimate_decoded(
        self, tallies: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, MatrixNoise]:
        noise = self.noise(sizes if len(sizes) > 1 else int(sizes[0]))
        shares = tallies / np.reshape(sizes, (-1, 1))
        # One product for each row, so that its digits do not depend on the others.
        return np.stack([self.decoding @ share for share in shares]), noise

    @cached_property
    def _of_pairs(self) -> np.ndarray:
        """n times the variance of each category's estimate, if all users have a given category."""
        return self.decoding**2 @ self.probabilities - np.eye(self.n_categories)

    @property
    def null_variance(self) -> float:
        d = self.n_categories
        return float(self._of_pairs.sum() / d - np.trace(self._of_pairs) / d) / (d - 1)

    @property
    def slope(self) -> float:
        return float(np.trace(self._of_pairs) / self.n_categories - self.null_variance)

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        return frequencies @ self._of_pairs.T

    def answer_variances(self, matrix: Matrix, frequencies: np.ndarray) -> np.ndarray:
        rows, weights = self._weights(matrix)
        return weights**2 @ (self.probabilities @ frequencies) - rows.power(2) @ frequencies

    def answer_covariance(self, matrix: Matrix, frequencies: np.ndarray) -> np.ndarray:
        # A report y adds ``b_y`` to n times an answer a'f, where b = B'a. For a user of category x
        # its mean is ``a_x``, as B is a left inverse of the channel Q. So the covariance of two
        # answers is ``sum_y b_y c_y (Q f)_y - sum_x f_x a_x c_x``, for fixed users.
        rows, weights = self._weights(matrix)
        of_reports = (weights * (self.probabilities @ frequencies)) @ weights.T
        return of_reports - (rows.multiply(frequencies) @ rows.T).toarray()

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        weights = (self.probabilities @ frequencies) * (vector @ self.decoding)
        return self.decoding @ weights - frequencies * vector

    def _weights(self, matrix: Matrix) -> tuple[sparse.csr_array, np.ndarray]:
        """The queries, and what each output adds to n times their answers: (n_queries, m)."""
        rows = as_rows(matrix, self.n_categories)
        return rows, rows @ self.decoding


def integer_channel(probabilities: np.ndarray, epsilon: float) -> np.ndarray:
    """Round a channel to integers over 2**64 that keep epsilon exactly.

    The least entry of a row is rounded down, and no other one may exceed exp(epsilon) times it.
    What a column then lacks (or has too much) is added to entries that have room, first of all to
    those at neither bound.

    Parameters
    ----------
    probabilities : ndarray of shape (m, d)
        Probability of each output given each input; columns sum to 1.
    epsilon : float
        Privacy budget, which the rows keep up to rounding errors.

    Returns
    -------
    ndarray of shape (m, d)
        Positive integers, uint64, whose columns sum to 2**64.

    Raises
    ------
    ValueError
        If no such integers are near.
    """
    bound = exp_lower_bound(epsilon)
    low = [max(int(x * TWO_64), 1) for x in probabilities.min(axis=1).tolist()]
    high = [min(math.floor(bound * x), TWO_64 - 1) for x in low]
    result = np.empty(probabilities.shape, dtype=np.uint64)
    for place, column in enumerate(probabilities.T.tolist()):
        entries = [
            min(max(int(x * TWO_64), least), most)
            for x, least, most in zip(column, low, high, strict=True)
        ]
        result[:, place] = _with_sum(entries, low, high)
    return result


def _with_sum(entries: list[int], low: list[int], high: list[int]) -> list[int]:
    """Change entries, between their bounds, so that they add up to 2**64."""
    lacking = TWO_64 - sum(entries)
    ends = high if lacking > 0 else low
    rooms = [end - x for end, x in zip(ends, entries, strict=True)]
    # Those at a bound come last, as they may be what uses the budget up.
    is_bound = [x in ends for x, *ends in zip(entries, low, high, strict=True)]
    for place in sorted(range(len(rooms)), key=lambda i: (is_bound[i], -abs(rooms[i]))):
        change = min(lacking, rooms[place], key=abs)
        entries[place] += change
        lacking -= change
        if not lacking:
            return entries
    raise ValueError("no integers over 2**64 that keep epsilon are near this channel")


def check_channel(array: ArrayLike, n_categories: int, epsilon: float) -> np.ndarray:
    """Return the integers of a channel that somebody gives, or say why it is none.

    Parameters
    ----------
    array : array-like of shape (m, n_categories)
        Probabilities, or integers over 2**64.
    n_categories : int
        Number of inputs.
    epsilon : float
        Privacy budget of one report.

    Returns
    -------
    ndarray of shape (m, n_categories)
        uint64: the integers as they are, or the probabilities rounded.

    Raises
    ------
    ValueError
        If it is no channel over so many categories at this epsilon. The message says why.
    """
    given = np.asarray(array)
    if given.ndim != 2 or given.shape[1] != n_categories or len(given) < 2:
        raise ValueError(f"expected an array of shape (m, {n_categories}), got {given.shape}")
    if given.dtype.kind not in "iuf" and not all(isinstance(x, int) for x in given.flat):
        raise ValueError(f"expected numbers, got an array of dtype {given.dtype}")
    is_whole = given.dtype.kind != "f"
    exact, unit, slack = (given.astype(object), TWO_64, 0) if is_whole else (given, 1, 1e-9)
    if not np.all((exact > 0) & (exact <= unit)):
        what = "integers from 1 to 2**64 - 1" if is_whole else "probabilities above 0"
        raise ValueError(f"expected {what}, got values from {given.min()} to {given.max()}")
    sums = exact.sum(axis=0)
    far = np.flatnonzero(np.abs(sums - unit) > slack)
    if far.size:
        raise ValueError(
            f"column {far[0]} sums to {sums[far[0]]}, expected {'2**64' if is_whole else 1}"
        )
    bound = exp_lower_bound(epsilon) * (1 + Fraction(slack))
    least, most = exact.min(axis=1).tolist(), exact.max(axis=1).tolist()
    for row, (x, y) in enumerate(zip(least, most, strict=True)):
        if Fraction(y) > bound * Fraction(x):
            raise ValueError(
                f"output {row} is {float(y) / float(x):.6g} times as likely under one category as "
                f"under another, more than exp(epsilon) = {float(bound):.6g}"
            )
    return given.astype(np.uint64) if is_whole else integer_channel(given, epsilon)
