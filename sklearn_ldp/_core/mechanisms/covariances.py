"""Covariances of raw estimates from n users, times n. They come from formulas or simulated reports.

The formulas are derived in `sklearn_ldp._core.noise.Covariance`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from ..noise import Covariance, Factors, of_columns
from .coins import SeededCoins

_N_DRAWS = 1 << 14  # the number of reports drawn if there is no formula
_CELLS = 1 << 21  # numbers processed together


def channel_covariance(channel: Any, frequencies: np.ndarray) -> Covariance:
    """Return the covariance of the estimates of a mechanism with p and q (a `Channel`), times n.

    It is exact if the mechanism defines the distribution of its reports, or the probability that a
    report supports two categories. Otherwise it is estimated from simulated reports. Shapes:
    frequencies (d,), the true frequencies.
    """
    if not channel.has_exact_covariance:
        return _DrawnCovariance(channel, frequencies)
    return Covariance(channel, frequencies, lambda f: _factors(channel, f))


def _factors(channel: Any, f: np.ndarray) -> Factors:
    joint = channel.joint_support
    p = float(channel.p)
    q = float(channel.q)
    if joint is None:
        law = channel.law_of_reports

        def answers(rows: Any) -> np.ndarray:
            return channel.contributions(law, rows.toarray() if sparse.issparse(rows) else rows)

        return -f, answers, partial(channel.gathered_contributions, law), law.probabilities(f)
    alpha, beta = joint.other - q * q, joint.own - joint.other - q * (p - q)
    weights = np.array([[alpha, beta], [beta, 0.0]]) / (p - q) ** 2
    diagonal = channel.variances(f) - (alpha + 2 * beta * f) / (p - q) ** 2
    return of_columns(diagonal, np.column_stack([np.ones_like(f), f]), weights)


class _DrawnCovariance(Covariance):
    """A covariance that is computed as a mean over 2**14 simulated reports.

    The seed is fixed, so each call simulates the same reports.
    """

    # The variance of a single category is nevertheless exact.

    def __init__(self, channel: Any, frequencies: np.ndarray) -> None:
        super().__init__(channel, frequencies, _refuse_pairs)
        rng = np.random.default_rng(0)
        size = np.abs(frequencies).sum()  # raw estimates may be negative
        self._codes = rng.choice(channel.n_categories, _N_DRAWS, p=np.abs(frequencies) / size)
        self._reports = channel.privatize(self._codes, SeededCoins(rng))
        gain = float(channel.p) - float(channel.q)
        self._weights = np.sign(frequencies[self._codes]) * (size / gain**2 / _N_DRAWS)

    def _sums(self, rows: Any) -> np.ndarray:
        each = (self._residuals(rows[[i]])[:, 0] for i in range(rows.shape[0]))
        return np.array([self._weights @ residual**2 for residual in each])

    def matrix(self, rows: Any) -> np.ndarray:
        residuals = self._residuals(rows)
        result = (residuals.T * self._weights) @ residuals
        np.fill_diagonal(result, self.variances(rows))
        return result

    def _residuals(self, rows: Any) -> np.ndarray:
        """Return, for each simulated report and each query, the answer minus its expected value.

        The answer is computed from the single report.
        Shapes: rows (n_queries, d) -> (n_reports, n_queries).
        """
        rows = sparse.csr_array(rows)
        channel = self.law
        p = float(channel.p)
        q = float(channel.q)
        categories = np.unique(rows.indices)
        weights = rows[:, categories].toarray().T
        height = max(1, _CELLS // max(len(categories), 1))
        pieces = np.split(self._reports, range(height, _N_DRAWS, height))
        answers = np.concatenate(
            [channel.supports(piece, categories) @ weights for piece in pieces]
        )
        return answers - q * weights.sum(axis=0) - (p - q) * rows.toarray()[:, self._codes].T


def _refuse_pairs(frequencies: np.ndarray) -> Factors:
    raise ValueError(
        "The covariance of each pair of categories is unknown for this oracle, because its "
        "mechanism defines neither joint_support nor law_of_reports. Use covariance(..) "
        "with only the queries that you need, or use another oracle."
    )
