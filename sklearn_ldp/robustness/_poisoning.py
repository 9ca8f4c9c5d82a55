"""The amount by which fake users can change raw estimates (data poisoning), as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone

from .._core.fitting import BaseCollector
from ..oracles import BaseOracle, LocalMean, StringOracle
from ..surveys import BaseColumnSurvey

ATTACKS = ("maximal", "input", "assigned")


def poisoning_gain(
    oracle: BaseCollector[Any] | Sequence[BaseCollector[Any]],
    share: float,
    n_targets: int,
    *,
    target_frequency: float = 0.0,
    n_categories: int | None = None,
    epsilon: float | None = None,
    attack: str = "maximal",
) -> Any:
    """Return how much fake users can increase raw estimates (data poisoning attack).

    A share :math:`\\beta` of all users is fake. Fake users know the protocol, may send any report,
    and promote r categories, the targets. Let p and q be the probabilities that an honest report
    supports its user's category and another category. If a fake report supports M of the r targets,
    then the sum of the targets' estimated frequencies grows in expectation by ([1]_, section 4)

    .. math:: G = \\beta \\left( \\frac{M - r q}{p - q} - f_T \\right),

    where :math:`f_T` is the sum of the targets' frequencies among the genuine users. The "maximal"
    attack sends a report with the largest M. M is 1 with :class:`~sklearn_ldp.GRR`, r with unary
    encoding and local hashing, and otherwise the maximum number of categories that a report
    supports, but at most r. In the "input" attack, fake users follow the protocol and only lie
    about their value. No collector can distinguish this attack from true changes of the values, and
    :math:`G = \\beta (1 - f_T)`.

    If a collector assigns the hash functions of local hashing
    (:func:`~sklearn_ldp.robustness.assigned_parts`), the strongest remaining attack is "assigned":
    each fake user reports the hash value to which the user's function maps the largest number of
    targets. M is the expectation of this number. It equals the mean number of balls in the fullest
    of g boxes if r balls are thrown into the boxes at random. (It is 1 for r = 1, and :math:`1 + 1
    / g` for r = 2.)

    Users of a survey state publicly which question they answer. If a genuine user answers a
    question with probability :math:`\\pi`, and all fake users claim this question, fake users are a
    share of :math:`\\beta / (\\beta + (1 - \\beta) \\pi)` of its reports, which replaces
    :math:`\\beta`. For example, with eight columns, 1 % of all users are 7.5 % of the users who
    report on the claimed column. If the collector assigns the questions, the remaining attack is
    "assigned", with the share :math:`\\beta` again.

    Reports of :class:`~sklearn_ldp.LocalMean` stand for numbers v, and the estimated mean increases
    by :math:`\\beta (\\max v - m)`, where :math:`m` is the genuine users' mean. With
    :class:`~sklearn_ldp.RangeOracle` (up to 256 bins) and :class:`~sklearn_ldp.MatrixOracle`, a
    report y adds :math:`B_{cy}` to the estimate of category c, where B is the matrix that decodes
    the reports. For the worst targets T, :math:`G = \\beta (\\max_y \\sum_{c \\in T} B_{cy} -
    f_T)`.

    A :class:`~sklearn_ldp.StringOracle` searches strings with the reports of some users, and
    estimates the frequencies of these strings from the reports of other users (held-out users).
    There are two cases. If genuine users have the promoted string, the search finds it anyway, and
    all fake users can claim to be held-out users. If no genuine user has the string, some fake
    users must take part in the search, so that it finds the string. The function returns the gain
    in the first case. The gain in the second case is smaller (half as large in our measurements).

    A smaller epsilon gives a single report more influence on the estimate, so the gain of fake
    users is larger. Privacy and robustness are therefore in conflict.

    Parameters
    ----------
    oracle : oracle, survey or list of oracles
        An oracle or a list of oracles, which need not be fitted; or a survey of several columns; or
        a :class:`~sklearn_ldp.LocalMean` or :class:`~sklearn_ldp.StringOracle`.
    share : float
        Number of fake users divided by the number of all users, in [0, 1].
    n_targets : int
        Number r of categories or strings that the fake users promote. The gain is the maximum over
        all choices of r targets.
        If a question of a survey has fewer categories, all of its categories are targets. Use 1
        with :class:`~sklearn_ldp.LocalMean`.
    target_frequency : float, default=0.0
        Sum :math:`f_T` of the targets' frequencies among the genuine users. With
        :class:`~sklearn_ldp.LocalMean`, the position of their mean between the bounds: 0 is the
        lower bound, 0.5 the midpoint.
    n_categories : int, default=None
        Size d of the domain, only for oracles with categories. If None, the number of categories
        that the oracle declares.
    epsilon : float, default=None
        Privacy budget of one report. If None, the epsilon of the oracle.
    attack : {"maximal", "input", "assigned"}, default="maximal"
        The strategy of the fake users.

    Returns
    -------
    float or ndarray of shape (n_oracles,) or (n_questions,)
        The gain: the amount by which the sum of the targets' estimated frequencies increases, or
        the amount by which the mean increases, in the units of the bounds. For a list, an array
        with one gain per oracle. For a survey, an array with one gain per question; each gain
        assumes that all fake users report on this question.

    Raises
    ------
    ValueError
        If an argument is out of its range, if the categories are not declared, or if the attack is
        "assigned" and users of the oracle draw no hash function.

    See Also
    --------
    joint_support_test : A test for fake users who promote several categories.
    assigned_parts : Hash functions that no client can choose.

    Notes
    -----
    With hash functions that are drawn at random (``hash_family="mixing"``) M = r is a bound, which
    attackers reach if they find a function that maps all targets to the same hash value. With
    linear hashing the mean of the "assigned" attack is exact for r = 2 and for targets in general
    position; targets on a line in the space of the functions share a hash value less often.
    Post-processing changes the gain; after :class:`~sklearn_ldp.NormSub` it is usually smaller.

    References
    ----------
    .. [1] X. Cao, J. Jia, N. Z. Gong, "Data poisoning attacks to local differential privacy
       protocols", USENIX Security 2021.
       https://www.usenix.org/conference/usenixsecurity21/presentation/cao-xiaoyu

    Examples
    --------
    One percent of all users is fake and promotes one category out of a thousand:

    >>> from sklearn_ldp import GRR, OLH, OUE
    >>> from sklearn_ldp.robustness import poisoning_gain
    >>> poisoning_gain([GRR(), OUE(), OLH()], 0.01, 1, n_categories=1000, epsilon=1.0).round(3)
    array([5.824, 0.032, 0.033])
    >>> poisoning_gain(OUE(), 0.01, 1, n_categories=1000, epsilon=1.0, attack="input")
    0.01

    Two categories, with hash functions that the attackers choose, or that the collector assigns:

    >>> round(poisoning_gain(OLH(), 0.01, 2, n_categories=1000, epsilon=1.0), 3)
    0.067
    >>> options = {"n_categories": 1000, "epsilon": 1.0, "attack": "assigned"}
    >>> round(poisoning_gain(OLH(), 0.01, 2, **options), 3)
    0.033

    One of eight columns, which the fake users claim or which the collector assigns to them:

    >>> from sklearn_ldp import ColumnOracle
    >>> survey = ColumnOracle(1.0, domains=dict.fromkeys("abcdefgh", 10))
    >>> round(float(poisoning_gain(survey, 0.01, 1)[0]), 3)
    0.2
    >>> round(float(poisoning_gain(survey, 0.01, 1, attack="assigned")[0]), 3)
    0.027

    A mean of ages, if the mean age of the genuine users is 36:

    >>> from sklearn_ldp import LocalMean
    >>> round(poisoning_gain(LocalMean(1.0, bounds=(0, 100)), 0.01, 1, target_frequency=0.36), 2)
    1.59
    """
    if isinstance(oracle, (list, tuple)):
        options: dict[str, Any] = {
            "target_frequency": target_frequency,
            "n_categories": n_categories,
            "epsilon": epsilon,
            "attack": attack,
        }
        return np.array([poisoning_gain(member, share, n_targets, **options) for member in oracle])
    for name, value in (("share", share), ("target_frequency", target_frequency)):
        if not (isinstance(value, Real) and 0 <= float(value) <= 1):
            raise ValueError(
                f"Argument {name} must be a number from 0 to 1, got {value!r}. Pass a proportion, "
                "such as 0.01 for 1 %."
            )
    if attack not in ATTACKS:
        raise ValueError(f"Argument attack must be one of {ATTACKS}, got {attack!r}.")
    if not isinstance(oracle, BaseCollector):
        raise TypeError(
            f"poisoning_gain needs an oracle or a survey, got {type(oracle).__name__}. Pass an "
            "oracle such as OLH(), or a survey such as ColumnOracle(domains=domains)."
        )
    planned: Any = clone(oracle).set_params(input="values")
    planned.set_params(epsilon=planned.epsilon if epsilon is None else epsilon)
    r = n_targets
    name = type(oracle).__name__
    has_mean = isinstance(oracle, LocalMean)
    if n_categories is not None and not isinstance(planned, BaseOracle):
        raise ValueError(
            f"Argument n_categories is only for oracles with a list of categories, got {name}, "
            "which declares its own domain. Leave out n_categories."
        )
    if isinstance(planned, (BaseColumnSurvey, StringOracle)):
        gains = _gains_of_survey(planned, float(share), r, target_frequency, attack)
        return gains if isinstance(planned, BaseColumnSurvey) else float(gains[-1])
    channel: Any = planned.protocol().mechanism if has_mean else planned.channel(n_categories)
    d = 1 if has_mean else channel.n_categories
    if not (isinstance(r, Integral) and 1 <= r <= d):
        raise ValueError(
            f"Argument n_targets must be an integer from 1 to {d}, got {r!r}. Pass the number of "
            "categories that fake users promote."
        )
    unit = float(np.ptp(planned.protocol().domain.bounds)) if has_mean else 1.0
    # A fake user who only lies about the value promotes one target, or as many targets as a set of
    # items may have.
    weight = float(min(r, getattr(channel, "max_items", 1)))
    weight = weight if attack == "input" else _largest_weight(channel, r, name)
    if attack == "assigned":
        part = channel.public_part
        if part is None or part.privatize is None:
            raise ValueError(
                f'The attack "assigned" needs an oracle with hash functions, such as OLH or BLH, '
                f"but users of {name} draw none. Use OLH or BLH."
            )
        weight = channel.weight(r, _fullest_box(int(r), round(1 / channel.q)))
    return float(share * (weight - target_frequency)) * unit


def _largest_weight(mechanism: Any, n_targets: int, name: str) -> float:
    """Return the maximum amount that one report can add to the sum of the targets' estimates.

    The amount is multiplied by the number of reports, so it does not depend on this number. `name`
    is the oracle for the error.
    """
    if not hasattr(mechanism, "largest_weight"):
        raise TypeError(
            f"poisoning_gain cannot compute the strongest attack on {name}, because its reports "
            "neither support categories nor come from a channel matrix. Pass "
            'attack="input".'
        )
    return mechanism.largest_weight(n_targets)


def _gains_of_survey(
    survey: Any, share: float, n_targets: Any, target_frequency: float, attack: str
) -> np.ndarray:
    mechanism = survey.protocol().mechanism
    largest = max(channel.n_categories for channel in mechanism.mechanisms)
    if not (isinstance(n_targets, Integral) and 1 <= int(n_targets) <= largest):
        raise ValueError(
            f"Argument n_targets must be an integer from 1 to {largest}, got {n_targets!r}. Pass "
            "the number of categories that fake users promote."
        )
    part = mechanism.public_part
    if attack == "assigned" and (part is None or part.privatize is None):
        raise ValueError(
            'The attack "assigned" needs a survey in which users draw a question, but all users of '
            f'{survey!r} answer the same questions. Use attack="maximal" or attack="input".'
        )
    weights = np.ones(len(mechanism.mechanisms))
    if attack != "input":
        for j, channel in enumerate(mechanism.mechanisms):
            r = min(n_targets, channel.n_categories)
            weights[j] = _largest_weight(channel, r, repr(survey))
    shares = np.full(len(weights), share)
    if attack == "maximal" and share:
        shares = share / (share + (1 - share) * mechanism.probabilities)
    return shares * (weights - target_frequency)


def _fullest_box(n_balls: int, n_boxes: int) -> float:
    """Return the mean number of balls in the fullest box if balls fall into boxes at random."""
    # The numbers of balls in the boxes are distributed like independent Poisson variables, given
    # their sum. So the probability that none of them exceeds a maximum is a coefficient of a
    # power of the Poisson probabilities, truncated at the maximum.
    probabilities = stats.poisson.pmf(np.arange(n_balls + 1), n_balls / n_boxes)
    sum_probability = stats.poisson.pmf(n_balls, n_balls)
    mean = 0.0
    for maximum in range(n_balls):
        truncated = np.where(np.arange(n_balls + 1) <= maximum, probabilities, 0.0)
        not_exceeded = _power(truncated, n_boxes)[n_balls] / sum_probability
        mean += 1 - not_exceeded
        if 1 - not_exceeded < 1e-12:
            break
    return mean


def _power(series: np.ndarray, exponent: int) -> np.ndarray:
    """Return a power of a power series, as an array with the same number of coefficients."""
    n = len(series)
    result = np.eye(1, len(series))[0]
    # Ends: each pass halves the exponent.
    while exponent:
        if exponent & 1:
            result = np.convolve(result, series)[:n]
        series = np.convolve(series, series)[:n]
        exponent = exponent >> 1
    return result
