"""Mechanisms that are defined by a matrix: the probability of each report for each category."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.locks import cached_property
from ..noise import Covariance, Factors, Noise, of_columns
from ..numerics.strategies import decoding_matrix
from .channel import LinearMechanism
from .coins import PROBABILITY_UNIT, Coins, exp_lower_bound
from .laws import ReportLaw
from .mechanism import NumberReports

_NONE_NEAR = "no integers over 2**64 near this channel satisfy epsilon; choose an epsilon up to 40"
_KEPT: dict[bytes, MatrixChannel] = {}  # slow-to-compute channels, cached for this process
_MOST_KEPT = 32  # a bound on memory


class MatrixChannel(NumberReports, LinearMechanism, tag="matrix-channel"):
    """Mechanism that is defined by a matrix of probabilities of reports (called channel).

    The possible reports are called outputs. A user whose category has the code x (its position in
    the domain) reports the output y with probability ``integers[y, x] / 2**64``. The server counts
    the reports of each output, and computes the estimated frequencies from these counts by least
    squares. The covariance of the noise is exact. A report does not count in favor of a set of
    categories, so the two probabilities p and q of other mechanisms are undefined.

    Parameters
    ----------
    integers : ndarray of shape (m, n_categories)
        Positive integers below 2**64, uint64; each column sums to 2**64. Clients and servers must
        use the same integers. :func:`integer_channel` computes them from probabilities.
    """

    _key: bytes | None = None  # the key of the channel in the cache

    def __init__(self, integers: np.ndarray) -> None:
        self.integers: np.ndarray = np.ascontiguousarray(integers, dtype="<u8")
        self.integers.setflags(write=False)
        self.n_reports: int = self.integers.shape[0]
        self.n_categories: int = self.integers.shape[1]

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._key is not None:  # do not recompute a channel that another process computed
            _keep(self._key, self)

    def __check_state__(self) -> None:
        integers = self.integers
        is_matrix = integers.dtype == np.uint64 and integers.ndim == 2 and min(integers.shape) >= 2
        # The sum 2**64 of a column wraps to 0.
        if not is_matrix or not integers.all() or np.any(integers.sum(axis=0, dtype=np.uint64)):
            raise ValueError(
                "The integers of a MatrixChannel must be a matrix of positive uint64 numbers, and "
                "each column must sum to 2**64. Save the estimate again."
            )
        vars(self).pop("_key", None)  # otherwise the process could reuse this channel for an oracle
        MatrixChannel.__init__(self, integers)

    def settle(self, oracle: Any, domain: Any) -> bool:
        # Other versions of NumPy make another channel of the same epsilon.
        return oracle.epsilon > 40 or abs(self._epsilon / oracle.epsilon - 1) < 0.01

    @cached_property
    def _epsilon(self) -> float:
        """The maximum of the log ratio of an output's probabilities, over all outputs and pairs of
        categories."""
        ratios = self.integers.max(axis=1) / self.integers.min(axis=1)
        return float(np.log(ratios.max()))

    # -- the configuration of clients and servers ---------------------------------------------
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
        """The probability of each output (row) for each category (column), of shape (m,
        n_categories)."""
        return self.integers / float(PROBABILITY_UNIT)

    # -- reports ------------------------------------------------------------------------------
    @cached_property
    def _ends(self) -> np.ndarray:
        """For each category (row), the cumulative sums of the outputs' probabilities, without the
        last sum."""
        return np.cumsum(self.integers[:-1], axis=0, dtype=np.uint64).T.copy()

    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        return coins.choices(self._ends, codes)

    def simulate(self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        tallies = np.zeros((n_repeats, self.n_reports), dtype=np.int64)
        laws = self.probabilities / self.probabilities.sum(axis=0)
        for code in np.flatnonzero(counts):
            tallies += rng.multinomial(counts[code], laws[:, code], size=n_repeats)
        return tallies

    simulate_tallies = simulate

    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return, for each report and each category, whether the report is likely for the category.

        Likely means that the report's probability exceeds the average over all categories. Audits
        of epsilon use this method.

        Parameters
        ----------
        reports : ndarray of shape (n,)
            Reports.
        codes : ndarray of shape (n_codes,)
            Codes of the categories.

        Returns
        -------
        ndarray of shape (n, n_codes)
            One boolean for each report (row) and each category (column).
        """
        chances = self.probabilities
        is_likelier = chances[:, codes] > chances.mean(axis=1, keepdims=True)
        return is_likelier[reports]

    @property
    def report_law(self) -> ReportLaw:
        """The distribution of a report given each category, as functions that multiply by a matrix.

        The matrix contains the probability of each report given each category.
        """
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
        """The matrix that converts the proportions of the outputs to estimated frequencies.

        Its shape is (n_categories, m).
        """
        if self._decoding is None:
            raise ValueError(
                "Frequencies cannot be estimated with this channel, because different frequencies "
                "can cause the same distribution of outputs. Use a channel with linearly "
                "independent columns."
            )
        return self._decoding

    @cached_property
    def support_of_each(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The probabilities p and q of each category, if each row of `decoding` has only two
        values; else None.

        An output then counts in favor of a category if it has the larger of the two values. p is
        the probability of such an output for the users with this category, and q for all other
        users.
        """
        low, high = (pick(self.decoding, axis=1)[:, None] for pick in (np.min, np.max))
        is_high = self.decoding > (low + high) / 2
        if not np.allclose(self.decoding, np.where(is_high, high, low), rtol=1e-9, atol=1e-9):
            return None
        chances = ((1 - low) / (high - low), -low / (high - low))
        p, q = (np.clip(chance[:, 0], 0, 1) for chance in chances)
        return p, q

    def estimate_decoded(self, tallies: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, Noise]:
        noise = self.noise(sizes if len(sizes) > 1 else int(sizes[0]))
        shares = tallies / np.reshape(sizes, (-1, 1))
        # Each row is a separate product, so that its digits do not depend on the other rows.
        return np.stack([self.decoding @ share for share in shares]), noise

    def decode_each(self, reports: np.ndarray) -> np.ndarray:
        """Return, for each report, the frequencies that are estimated from this single report.

        Parameters
        ----------
        reports : ndarray of shape (n,)
            Reports.

        Returns
        -------
        ndarray of shape (n, n_categories)
            The estimated frequencies, one row per report. Each row is an unbiased estimate of the
            vector with a 1 for the user's category and 0 for the other categories.
        """
        return self.decoding.T[reports]

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
            The maximum, which is the largest sum of `n_targets` entries of a column of `decoding`.
        """
        return float(np.sort(self.decoding, axis=0)[-n_targets:].sum(axis=0).max())

    @cached_property
    def _pair_moments(self) -> np.ndarray:
        """n times the variance of each category's estimate (row) if all users have one category
        (column)."""
        return self.decoding**2 @ self.probabilities - np.eye(self.n_categories)

    @property
    def null_variance(self) -> float:
        d = self.n_categories
        return float(self._pair_moments.sum() / d - np.trace(self._pair_moments) / d) / (d - 1)

    @property
    def half_count(self) -> float:
        gaps = np.diff(np.sort(self.decoding, axis=1), axis=1)
        least = np.where(gaps > 1e-9, gaps, np.inf).min(axis=1, initial=np.inf)
        return float(least[np.isfinite(least)].max(initial=0)) / 2

    @property
    def slope(self) -> float:
        return float(np.trace(self._pair_moments) / self.n_categories - self.null_variance)

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        return frequencies @ self._pair_moments.T

    def frequencies_behind(self, values: np.ndarray) -> np.ndarray:
        # Ten steps of the EM algorithm find a distribution under which the outputs are likely.
        # Every category's variance depends on all frequencies. If the raw estimate is very noisy,
        # the nearest distribution would put all users into a few categories chosen by the noise.
        law = self.report_law
        frequencies = np.full(len(values), 1 / len(values))
        outputs = np.maximum(law.probabilities(values), 0)
        for _ in range(10):
            likely = np.maximum(law.probabilities(frequencies), np.finfo(float).tiny)
            frequencies = frequencies * law.likelihoods(outputs / likely)
        return frequencies / frequencies.sum()

    def covariance(self, frequencies: np.ndarray) -> Covariance:
        return Covariance(self, frequencies, self._factors)

    def _factors(self, f: np.ndarray) -> Factors:
        # A report with output y adds `decoding[:, y]` to n times the estimates.
        return of_columns(-f, self.decoding, self.probabilities @ f)


def kept_channel(key: bytes, integers: Callable[[], np.ndarray]) -> MatrixChannel:
    """Return the channel from the cache. If the key is new, make the channel from `integers()`."""
    if key not in _KEPT:
        channel = MatrixChannel(integers())
        channel._key = key
        _keep(key, channel)
    return _KEPT[key]


def _keep(key: bytes, channel: MatrixChannel) -> None:
    while len(_KEPT) >= _MOST_KEPT:
        _KEPT.pop(next(iter(_KEPT)))
    _KEPT[key] = channel


def integer_channel(probabilities: np.ndarray, epsilon: float) -> np.ndarray:
    """Round probabilities to integers over 2**64, such that epsilon is satisfied exactly.

    In each row, the smallest entry is rounded down, and all other entries are limited to
    exp(epsilon) times this entry. If a column then does not sum to 2**64, its entries are changed
    within their limits. Entries that are at neither limit are changed first.

    Parameters
    ----------
    probabilities : ndarray of shape (m, d)
        Probability of each output given each input; columns sum to 1.
    epsilon : float
        Privacy budget. The log ratio of two probabilities in a row may exceed it by 1e-9, because
        of rounding errors.

    Returns
    -------
    ndarray of shape (m, d)
        Positive integers, uint64; each column sums to 2**64.

    Raises
    ------
    ValueError
        If a column does not contain positive probabilities with sum 1, if the matrix needs a larger
        epsilon, or if every matrix of such integers differs from `probabilities` by more than 0.01.
        The latter may happen near ``epsilon=44``, because some outputs are then so rare that their
        probabilities are far below 2**-64.
    """
    _refuse_none(probabilities, 1, 1e-9, epsilon)
    bound = exp_lower_bound(epsilon)
    low = [max(int(x * PROBABILITY_UNIT), 1) for x in probabilities.min(axis=1).tolist()]
    high = [min(math.floor(bound * x), PROBABILITY_UNIT - 1) for x in low]
    result = np.empty(probabilities.shape, dtype=np.uint64)
    for place, column in enumerate(probabilities.T.tolist()):
        entries = [
            min(max(int(x * PROBABILITY_UNIT), least), most)
            for x, least, most in zip(column, low, high, strict=True)
        ]
        result[:, place] = _with_sum(entries, low, high)
    if np.abs(result / PROBABILITY_UNIT - probabilities).max() > 0.01:
        raise ValueError(_NONE_NEAR)
    return result


def _with_sum(entries: list[int], low: list[int], high: list[int]) -> list[int]:
    """Change integers such that their sum is 2**64. Each integer stays between its `low` and its
    `high`."""
    lacking = PROBABILITY_UNIT - sum(entries)
    ends = high if lacking > 0 else low
    rooms = [end - x for end, x in zip(ends, entries, strict=True)]
    # Entries at a bound come last, because they may be the entries that use up the budget.
    is_bound = [x in ends for x, *ends in zip(entries, low, high, strict=True)]
    for place in sorted(range(len(rooms)), key=lambda i: (is_bound[i], -abs(rooms[i]))):
        change = min(lacking, rooms[place], key=abs)
        entries[place] += change
        lacking -= change
        if not lacking:
            return entries
    raise ValueError(_NONE_NEAR)


def check_channel(array: ArrayLike, n_categories: int, epsilon: float) -> np.ndarray:
    """Check a matrix of probabilities that a user has passed, and return it as integers over 2**64.

    Shapes: array (m, n_categories) -> (m, n_categories).
    array: probabilities, or integers over 2**64.
    """
    matrix = np.asarray(array)
    if matrix.ndim != 2 or matrix.shape[1] != n_categories or len(matrix) < 2:
        raise ValueError(f"expected an array of shape (m, {n_categories}), got {matrix.shape}")
    if matrix.dtype.kind not in "iuf" and not all(isinstance(x, int) for x in matrix.flat):
        raise ValueError(f"expected numbers, got an array of dtype {matrix.dtype}")
    if matrix.dtype.kind == "f":
        return integer_channel(matrix, epsilon)
    _refuse_none(matrix.astype(object), PROBABILITY_UNIT, 0, epsilon)
    return matrix.astype(np.uint64)


def _refuse_none(law: np.ndarray, unit: int, slack: float, epsilon: float) -> None:
    """Raise ValueError unless each column sums to 1 and the matrix satisfies epsilon.

    `law` contains the probabilities in units of 1 / `unit`. `slack` is the tolerance for rounding
    errors.
    """
    if not np.all((law > 0) & (law <= unit)):
        expectation = "probabilities above 0" if unit == 1 else "integers from 1 to 2**64 - 1"
        raise ValueError(f"expected {expectation}, got values from {law.min()} to {law.max()}")
    sums = law.sum(axis=0)
    far = np.flatnonzero(np.abs(sums - unit) > slack)
    if far.size:
        expectation = "1" if unit == 1 else "2**64"
        raise ValueError(f"column {far[0]} sums to {sums[far[0]]}, expected {expectation}")
    bound = exp_lower_bound(epsilon) * (1 + Fraction(slack))
    ends = zip(law.min(axis=1).tolist(), law.max(axis=1).tolist(), strict=True)
    ratio, row = max((Fraction(y) / Fraction(x), row) for row, (x, y) in enumerate(ends))
    if ratio > bound:
        lowest = math.log(ratio.numerator) - math.log(ratio.denominator)
        raise ValueError(
            f"the matrix has an epsilon of {lowest:.10g}, more than {epsilon:g}, because of the "
            f"largest and the smallest probability of output {row}"
        )
