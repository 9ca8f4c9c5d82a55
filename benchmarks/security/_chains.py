"""The laws of permanent, uniform and single reports, enumerated as rational numbers.

Drawing by rejection ends with the law of one try, given that it is kept, so one try is run on every
fall of its coins.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations_with_replacement
from math import log
from typing import Any

import numpy as np

from sklearn_ldp._core.mechanisms.chain import Chain
from sklearn_ldp._core.mechanisms.coins import PROBABILITY_UNIT
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

Law = dict[tuple[int, ...], Fraction]


class _Try:
    """One try of a draw by rejection, as a mechanism whose report ends with whether it is kept."""

    def __init__(self, chain: Chain, part: int | None, *thresholds: int) -> None:
        self.chain, self.part, self.thresholds = chain, part, thresholds

    def privatize(self, codes: np.ndarray, coins: Any) -> np.ndarray:
        reports, is_kept = self.chain.tries(codes, 1, coins, self.part, *self.thresholds)
        return np.append(np.ravel(reports), is_kept)


def _law_of_kept(chain: Chain, code: int, part: int | None, *thresholds: int) -> Law:
    one_try: Any = _Try(chain, part, *thresholds)
    law = exact_report_distribution(one_try, code)
    kept = {report[:-1]: chance for report, chance in law.items() if report[-1]}
    return {report: chance / sum(kept.values()) for report, chance in kept.items()}


def permanent_laws(chain: Chain, d: int, part: int | None = None) -> list[Law]:
    """Return the law of the permanent report of each value."""
    return [
        _law_of_kept(chain, code, part, PROBABILITY_UNIT, chain.keep_against) for code in range(d)
    ]


def uniform_law(chain: Chain, part: int | None = None) -> Law:
    """Return the law of a report that depends on no value."""
    return _law_of_kept(chain, 0, part, chain.keep_for, PROBABILITY_UNIT)


def single_laws(chain: Chain, d: int, part: int | None = None) -> list[Law]:
    """Return the law of a single report of each value."""
    a, uniform = Fraction(chain.share, PROBABILITY_UNIT), uniform_law(chain, part)
    return [
        {y: a * chance + (1 - a) * uniform[y] for y, chance in law.items()}
        for law in permanent_laws(chain, d, part)
    ]


def ratio(laws: list[Law]) -> Fraction:
    """Return the largest ratio of two values' likelihoods."""
    return max(max(law[y] for law in laws) / min(law[y] for law in laws) for y in laws[0])


def leaks(chain: Chain, d: int, counts: Iterable[int]) -> list[float]:
    """Return the logarithm of the largest ratio over given numbers of reports, by enumeration."""
    permanent, uniform = permanent_laws(chain, d), uniform_law(chain)
    kinds, a = sorted(uniform), chain.share / PROBABILITY_UNIT
    fresh = np.array([(1 - a) * float(uniform[y]) for y in kinds])
    of_kind = np.array([[float(law[y]) for y in kinds] for law in permanent])
    found = []
    for n in counts:
        worst = 1.0
        for reports in combinations_with_replacement(range(len(kinds)), n):
            times = np.bincount(reports, minlength=len(kinds))
            chances = of_kind @ ((fresh + a) / fresh) ** times  # but for a factor
            worst = max(worst, chances.max() / chances.min())
        found.append(log(worst))
    return found
