"""Poisoning: what a share of fake users could gain."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._typing import BaseOracle
from ..metrics._planning_of import planned_protocol


def poisoning_gain(
    oracle: BaseOracle | Sequence[BaseOracle],
    share: float,
    n_targets: int,
    *,
    target_frequency: float = 0.0,
    n_categories: int | None = None,
    epsilon: float | None = None,
    attack: str = "maximal",
) -> Any:
    """Return how much fake users can add to the raw estimates of categories they promote.

    A share :math:`\\beta` of all users is fake: they know the protocol and send any report they
    like. If a fake report supports M of the r targets, then the sum of the targets' estimated
    frequencies grows in expectation by ([1]_, section 4)

    .. math:: G = \\beta \\left( \\frac{M - r q}{p - q} - f_T \\right),

    where :math:`f_T` is the sum of the targets' frequencies among the genuine users. The "maximal"
    attack sends a report with the largest M: 1 with :class:`~sklearn_ldp.GRR`, r with unary
    encoding and local hashing, elsewhere the size of the largest report, but at most r. The
    "input" attack follows the protocol and only lies about the value, which no collector can tell
    from a change of opinion: then :math:`G = \\beta (1 - f_T)`.

    The smaller epsilon is, the more one report weighs and the larger the gain is: privacy and
    robustness are in conflict.

    Parameters
    ----------
    oracle : oracle or list of oracles
        One or several oracles, which need not be fitted.
    share : float
        Fake users as a share of all users, in [0, 1].
    n_targets : int
        Number r of categories that the fake users promote; the worst choice is assumed.
    target_frequency : float, default=0.0
        Sum :math:`f_T` of the targets' frequencies among the genuine users.
    n_categories : int, default=None
        Size d of the domain; None takes that of the oracle's declared categories.
    epsilon : float, default=None
        Privacy budget of one report; None takes the oracle's.
    attack : {"maximal", "input"}, default="maximal"
        What the fake users do.

    Returns
    -------
    float or ndarray of shape (n_oracles,)
        The gain, which is a sum of frequencies; for a list, an array with one gain per oracle.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the domain is not known.

    Notes
    -----
    With hash functions that are drawn at random (``hash_family="mixing"``) M = r is a bound, which
    attackers reach if they find a function that maps all targets to one value. Post-processing
    changes the gain; after :class:`~sklearn_ldp.NormSub` it is usually smaller.

    References
    ----------
    .. [1] X. Cao, J. Jia, N. Z. Gong, "Data poisoning attacks to local differential privacy
       protocols", USENIX Security 2021.
       https://www.usenix.org/conference/usenixsecurity21/presentation/cao-xiaoyu

    Examples
    --------
    One percent of all users is fake and promotes one category out of a thousand:

    >>> from sklearn_ldp import GRR, OLH, OUE
    >>> from sklearn_ldp.collection import poisoning_gain
    >>> poisoning_gain([GRR(), OUE(), OLH()], 0.01, 1, n_categories=1000, epsilon=1.0).round(3)
    array([5.824, 0.032, 0.033])
    >>> poisoning_gain(OUE(), 0.01, 1, n_categories=1000, epsilon=1.0, attack="input")
    0.01
    """
    if isinstance(oracle, (list, tuple)):
        options: dict[str, Any] = {
            "target_frequency": target_frequency,
            "n_categories": n_categories,
            "epsilon": epsilon,
            "attack": attack,
        }
        return np.array([poisoning_gain(one, share, n_targets, **options) for one in oracle])
    for name, value in (("share", share), ("target_frequency", target_frequency)):
        if not (isinstance(value, Real) and 0 <= float(value) <= 1):
            raise ValueError(f"Argument {name} must be a number from 0 to 1, got {value!r}.")
    if attack not in ("maximal", "input"):
        raise ValueError(f'Argument attack must be "maximal" or "input", got {attack!r}.')
    need = "poisoning_gain needs an oracle such as OLH()"
    channel: Any = planned_protocol(oracle, n_categories, epsilon, need).mechanism
    r, d = n_targets, channel.n_categories
    if not (isinstance(r, Integral) and 1 <= r <= d):
        raise ValueError(f"Argument n_targets must be an integer from 1 to {d}, got {r!r}.")
    if attack == "input":
        return float(share * (1 - target_frequency))
    p, q = float(channel.p), float(channel.q)
    weight = (min(r, channel.largest_support) - r * q) / (p - q)
    return float(share * (weight - target_frequency))
