"""Repeated collection from the same users: a user sends in each round a permanent or a uniform
report."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from .coins import PROBABILITY_UNIT, Coins, exp_lower_bound

_MOST_TRIES = 1 << 12  # the number of reports drawn in one step


class Chain:
    """Draws the two kinds of reports that the client of a user sends in repeated collection.

    A permanent report depends on the user's value. It is drawn once for each value, and sent in
    many rounds. A uniform report does not depend on the value, and is drawn again in each round. In
    each round the client chooses one of the two kinds at random. The probabilities are chosen such
    that the report of a single round has the same distribution as a report of the mechanism.
    """

    # Each report y of the mechanism has one of two likelihoods: E c(y) if it supports the
    # user's value, otherwise c(y), where E = exp(epsilon). A *permanent* report has
    # exp(epsilon_forever) in place of E, and a *uniform* report has 1. Rejection sampling draws
    # both from the mechanism's own reports. Let s be the share of c that supports a value, and p
    # the probability that a report supports the user's value. Let a report be permanent with the
    # probability
    # .. math:: a = \frac{p - s}{p_\infty - s}, \qquad s = \frac{p}{p + E (1 - p)}, \qquad
    #           p_\infty = \frac{E_\infty s}{E_\infty s + 1 - s}
    # and otherwise uniform. Then it has the distribution of the mechanism's report. Uniform reports
    # do not depend on the value, so any number of reports reveals at most the permanent report.
    # All probabilities are integers over 2**64, rounded so that neither epsilon is exceeded.
    # `share` is a. The permanent report keeps a report that does not support the value with the
    # probability `keep_against`. A uniform report keeps a report that supports a fixed value with
    # the probability `keep_for`.

    def __init__(self, mechanism: Any, epsilon: float, epsilon_forever: float) -> None:
        is_sided = hasattr(mechanism, "sided")  # the support does not determine the likelihood
        if not is_sided and not getattr(mechanism, "has_two_likelihoods", False):
            raise TypeError(
                f"Repeated collection does not support the mechanism {type(mechanism).__name__}. "
                "Use a frequency oracle such as OLH or GRR, or a survey that asks each user about "
                "one column with such an oracle."
            )
        is_budget = isinstance(epsilon_forever, Real) and epsilon <= epsilon_forever < math.inf
        if not is_budget:
            raise ValueError(
                f"Argument epsilon_forever must be finite and at least {epsilon:g}, the epsilon of "
                f"one report; got {epsilon_forever!r}. Pass a larger number, or use an oracle with "
                "a smaller epsilon."
            )
        ratio = exp_lower_bound(epsilon)
        forever = exp_lower_bound(epsilon_forever)
        self.mechanism = mechanism
        self.keep_against = math.ceil(PROBABILITY_UNIT * ratio / forever)
        self.keep_for = math.ceil(PROBABILITY_UNIT / ratio)
        self.share = (
            self._share(ratio) if self.keep_against < PROBABILITY_UNIT else PROBABILITY_UNIT
        )

    def _share(self, ratio: Fraction) -> int:
        """Return the probability with which a round sends the permanent report, times 2**64.

        It is the largest probability that satisfies the budget of one round: for any two values of
        the user, the probabilities of the report of this round differ at most by the factor
        `ratio`.
        """
        # The worst case is a mechanism that reaches the ratio, and a report with the smallest
        # uniform likelihood: `least` times the permanent likelihood of a report against the value.
        # The ratio of a single report, (a ratio / against + (1 - a) least) / (a + (1 - a) least),
        # grows with a.
        p = self.mechanism.own_support
        against = Fraction(self.keep_against, PROBABILITY_UNIT)
        kept = Fraction(self.keep_for, PROBABILITY_UNIT)
        least = (p + (1 - p) * against) / (against * (p * kept + 1 - p))
        gain = (ratio - 1) * least
        return max(int(PROBABILITY_UNIT * gain / (ratio / against - ratio + gain)), 0)

    @property
    def has_quick_uniforms(self) -> bool:
        """Whether uniform reports can be drawn fast enough to draw one in every round.

        They are drawn by rejection sampling.
        """
        # The number of tries is up to exp(epsilon). So above an epsilon of 11, a uniform report is
        # drawn only if it is sent. If the permanent report is certain, none is drawn.
        return self.share < PROBABILITY_UNIT and self.keep_for >= PROBABILITY_UNIT >> 16

    # -- drawing: a code has shape (1,), a function is the number of a hash; None draws the hash --
    def permanent(
        self, code: np.ndarray, coins: Coins, function: int | None = None, n: int = 1
    ) -> np.ndarray:
        """Draw n permanent reports of one code, each with the privacy budget `epsilon_forever`.

        The code is the integer that stands for the user's value. If `function` is not None, all
        reports contain the hash function with this number.
        """
        return self._kept(code, n, coins, function, PROBABILITY_UNIT, self.keep_against)

    def uniform(
        self, like: np.ndarray, coins: Coins, function: int | None = None, n: int = 1
    ) -> np.ndarray:
        """Draw n reports that do not depend on any value.

        `like` is an array with the shape and the dtype of a code; its content is not used. If
        `function` is not None, all reports contain the hash function with this number.
        """
        return self._kept(np.zeros_like(like), n, coins, function, self.keep_for, PROBABILITY_UNIT)

    def are_permanent(self, n: int, coins: Coins) -> np.ndarray:
        """Draw, for each of n rounds, whether the client sends the permanent report."""
        return _bernoulli(self.share, n, coins)

    def _kept(self, code, n, coins, *way):
        kept_reports = []
        missing = n
        n_tries = 2 * n + 2
        # Ends: with probability 1, because each report is kept with a positive probability.
        while missing:
            reports, is_kept = self.tries(code, n_tries, coins, *way)
            kept_reports.append(reports[is_kept][:missing])
            missing -= len(kept_reports[-1])
            n_tries = min(2 * n_tries, max(_MOST_TRIES, n))
        return np.concatenate(kept_reports)

    def tries(self, code, n, coins, function, keep_for, keep_against):
        """Draw n reports of a code as candidates of rejection sampling, and whether each is kept.

        A report that counts in favor of the code is kept with probability keep_for / 2**64, and any
        other report with probability keep_against / 2**64.
        """
        codes = np.repeat(code, n, axis=0)
        if hasattr(self.mechanism, "sided"):
            reports, is_for = self.mechanism.sided(codes, coins)
        else:
            if function is None:
                reports = self.mechanism.privatize(codes, coins)
            else:
                reports = self.mechanism.public_part.privatize(codes, np.full(n, function), coins)
            is_for = self.mechanism.supports(reports, code)[:, 0]
        kept = _bernoulli(keep_for, n, coins), _bernoulli(keep_against, n, coins)
        return reports, np.where(is_for, *kept)

    @property
    def has_functions(self) -> bool:
        """Whether a report contains a hash function, so that a client may use one function for all
        reports."""
        return getattr(self.mechanism.public_part, "privatize", None) is not None

    def image(self, code: np.ndarray, function: int) -> int:
        """Return the hash value of a code under the hash function with the given number.

        If the function is fixed, the distribution of reports depends on the code only through this
        value.
        """
        values = np.arange(self.mechanism.report_fields[1].n_values)
        reports = np.column_stack([np.full_like(values, function), values])
        return int(self.mechanism.supports(reports, code)[:, 0].argmax())


def _bernoulli(threshold: int, n: int, coins: Coins) -> np.ndarray:
    """Draw n booleans, each True with probability threshold / 2**64.

    Unlike for `Coins.bernoulli`, the threshold may be 2**64 (probability 1).
    """
    return (
        np.ones(n, dtype=bool) if threshold == PROBABILITY_UNIT else coins.bernoulli(threshold, n)
    )
