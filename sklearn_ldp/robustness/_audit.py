"""Audits, which estimate a lower bound of the epsilon that a mechanism really spends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta
from sklearn.base import clone

from .._core.common.random import RandomState, as_generator
from ..oracles import BaseOracle

_BATCH = 1 << 16


@dataclass(frozen=True)
class AuditResult:
    """The result of `audit_epsilon`.

    Parameters
    ----------
    epsilon : float
        The budget that the mechanism claims to spend.
    lower_bound : float
        Lower confidence limit of the epsilon that the mechanism really spends.
    confidence : float
        Confidence level: the probability that an audit finds a lower limit that is valid.
    n_trials : int
        Number of reports drawn for each of the two values.
    pair : tuple
        The two values whose reports the audit compared.

    Attributes
    ----------
    is_violated : bool
        Whether the lower limit exceeds the claimed epsilon. If so, the claim is false, at this
        confidence level.
    """

    epsilon: float
    lower_bound: float
    confidence: float
    n_trials: int
    pair: tuple[Any, ...]

    @property
    def is_violated(self) -> bool:
        """Return whether the lower limit exceeds the claimed epsilon."""
        return self.lower_bound > self.epsilon


def audit_epsilon(
    oracle: BaseOracle,
    *,
    n_trials: int = 1_000_000,
    confidence: float = 0.99,
    pair: tuple[Any, Any] | None = None,
    mechanism: Callable[[np.ndarray], ArrayLike] | None = None,
    random_state: RandomState = None,
) -> AuditResult:
    """Estimate a lower bound of the epsilon that a mechanism spends, from simulated reports.

    The audit draws reports of users with two values. For each of the two values, it counts how
    often a report supports the first value and not the second. This event has two probabilities,
    one for each value of the user. In all oracles of this package, their ratio is the largest
    possible ratio, exp(epsilon). The bound is the logarithm of a ratio of confidence limits
    (Clopper-Pearson): the lower limit of the first probability, divided by the upper limit of the
    second.

    An audit can refute a claimed epsilon, or show that the mechanism uses nearly all of it. It
    cannot prove that the mechanism spends at most epsilon. The enumeration in
    :mod:`sklearn_ldp.utils.estimator_checks` proves that.

    Parameters
    ----------
    oracle : oracle
        The oracle that claims to spend epsilon. Its categories must be declared.
    n_trials : int, default=1_000_000
        Number of reports that are drawn for each of the two values.
    confidence : float, default=0.99
        Confidence level: the probability that the lower bound is valid.
    pair : tuple of two categories, default=None
        The two values. If None, use the first and the last category.
    mechanism : callable, default=None
        The function to audit, ``mechanism(values) -> reports``. Its reports have the format of the
        oracle's reports. If None, audit ``oracle.privatize``.
    random_state : int, RandomState, Generator or None, default=None
        Seed for ``oracle.privatize``. If None, it uses secure randomness.

    Returns
    -------
    AuditResult
        The lower bound and the claimed epsilon.

    Raises
    ------
    ValueError
        If the categories are not declared, a value of `pair` is not a category, or a report has
        another format than the oracle's reports.

    References
    ----------
    .. [1] H. H. Arcolezi, S. Gambs, "Revealing the true cost of locally differentially private
       protocols: an auditing perspective", PoPETs 2024(4),
       :doi:`10.56553/popets-2024-0110`.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.robustness import audit_epsilon
    >>> result = audit_epsilon(GRR(epsilon=1.0, categories=4), n_trials=100_000, random_state=0)
    >>> 0.95 < result.lower_bound < 1.0, result.is_violated
    (True, False)
    """
    if not 0 < confidence < 1:
        raise ValueError(
            f"Argument confidence must be between 0 and 1, got {confidence}. Pass 0.99, for "
            "example."
        )
    oracle = clone(oracle)
    if random_state is not None:
        oracle.set_params(random_state=as_generator(random_state))
    protocol = oracle.protocol()
    domain = protocol.domain
    channel: Any = protocol.mechanism
    if not hasattr(channel, "supports"):
        raise TypeError(
            f"audit_epsilon needs reports that support categories, got {protocol.name}. Enumerate "
            "its reports with sklearn_ldp.utils.estimator_checks."
        )
    pair = tuple(domain.categories[[0, -1]].tolist()) if pair is None else pair
    codes = domain.encode(list(pair), protocol.name).astype(np.int64)
    mechanism = oracle.privatize if mechanism is None else mechanism
    hits = [0, 0]
    for i, value in enumerate(pair):
        for start in range(0, n_trials, _BATCH):
            n = min(_BATCH, n_trials - start)
            # A list of tuples is split into columns, and an array of tuples is not.
            values: Any = [value] * n
            if not isinstance(value, tuple):
                values = np.full(n, value, dtype=domain.categories.dtype)
            # The protocol checks plain arrays: a type attached to the reports is not trusted.
            reports = protocol.check(np.asarray(mechanism(values)))
            supported = channel.supports(reports, codes)
            hits[i] += int(np.count_nonzero(supported[:, 0] & ~supported[:, 1]))
    # Each of the two limits may fail with half of the error probability.
    error = (1 - confidence) / 2
    low = beta.ppf(error, hits[0], n_trials - hits[0] + 1) if hits[0] else 0.0
    high = beta.isf(error, hits[1] + 1, n_trials - hits[1]) if hits[1] < n_trials else 1.0
    bound = math.log(low / high) if low > 0 else 0.0
    return AuditResult(oracle.epsilon, max(bound, 0.0), confidence, n_trials, tuple(pair))
