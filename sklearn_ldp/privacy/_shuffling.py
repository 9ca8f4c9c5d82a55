"""Privacy after a shuffle: upper bounds of epsilon for reports in random order."""

from __future__ import annotations

import math
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from sklearn.base import clone

from .._core.mechanisms import OracleOrProtocol, as_protocol

_MOST = 200.0  # no mechanism exceeds this epsilon at a resolution of 2**-64
_POINTS, _MOST_POINTS = 1 << 15, 1 << 21  # of the lattice
_MOST_USERS = 1e10  # because a user among more users is hidden at least as well
_SPARE = 1e-3  # share of delta for the probability beyond the lattice
_PRECISION = 1e-4  # of epsilon
_RATES = np.geomspace(1e-10, 100, 361)  # of Chernoff's bounds
_ROUNDING = 16 * np.finfo(float).eps  # rounding error of a power and its arguments, for each factor
_NEGLIGIBLE = 90.0  # minus the logarithm of a coefficient that is far below rounding errors


def shuffled_epsilon(oracle: OracleOrProtocol, n_samples: int, delta: float) -> Any:
    """Return the epsilon that a user's report spends if all reports are shuffled together.

    A trusted shuffler, which neither the server nor the users can observe, puts the reports of
    `n_samples` users in random order. If the shuffled reports cannot be linked to users, they are
    (epsilon', delta)-differentially private for each user, and the function returns epsilon'. If
    the same users report in several rounds, the epsilon' of all rounds add up, for example with a
    client that sends a permanent report again.

    Privacy: costs none.

    Parameters
    ----------
    oracle : oracle, survey or Protocol
        The oracle or survey that randomizes the reports. Its categories must be declared.
    n_samples : int
        Number n of honest users whose reports are shuffled together. If each batch is shuffled
        separately, it is the number of users in a batch. Do not count malicious users or users who
        cooperate with the server. Numbers above 10**10 count as 10**10.
    delta : float
        The delta of the guarantee: the probability with which epsilon' may be exceeded, in (0, 1).
        Choose it well below 1 / n.

    Returns
    -------
    float, or dict of float
        An upper bound of epsilon', at most the oracle's epsilon. Neighboring data sets differ in
        the value of one user, and have the same users. For a survey that asks each user one
        question, the result maps the name of each question to the epsilon' of the users who are
        asked it. It is valid even if the question of each user is public.

    Raises
    ------
    ValueError
        If an argument is out of range, or the categories are not declared.

    See Also
    --------
    local_epsilon : The largest epsilon of an oracle for a specified epsilon after the shuffle.

    Notes
    -----
    Let E = exp(epsilon). The likelihood of a report y is E c(y) for the categories that y supports,
    and c(y) for all other categories. So each user reports y with a probability of at least c(y),
    whatever the user's value is, and such reports hide another user's report [1]_. Let v and w be
    two values. Let the random variable X be (P(y | v) - exp(epsilon') P(y | w)) / c(y) with
    probability c(y) for each y, and 0 with the remaining probability, or if the user has another
    question. Then

    .. math:: \\delta(\\epsilon') \\le \\frac 1n \\mathrm{E} \\Big(\\sum_{i=1}^n X_i\\Big)_+ .

    for independent copies X_i of X. X has four possible values. Their probabilities follow from p
    and q, the probabilities that a report supports the user's own value or another value. The
    function uses the two values v and w that are easiest to distinguish. If q is computed for ideal
    hash functions, the function assumes that v and w never have the same hash value. No other c
    gives a smaller bound [2]_. The expectation is computed by the fast Fourier transform on a
    lattice. Each value of X is split between the two nearest lattice points, which preserves the
    mean and can only increase the expectation of a convex function. Bounds on the probability
    outside of the lattice and on rounding errors are added.

    If the likelihood of a report takes more than two values, or if reports answer several
    questions, the function uses the bound for general mechanisms of [3]_. It replaces the mechanism
    by one with two reports, one for v and one for w, which both have c = 1 / (E + 1).

    References
    ----------
    .. [1] B. Balle, J. Bell, A. Gascón, K. Nissim, "The privacy blanket of the shuffle model",
       CRYPTO 2019, :doi:`10.1007/978-3-030-26951-7_22`.
    .. [2] S. Su, Y. Cheng, S. Wang, "Decomposition-based optimal bounds for privacy amplification
       via shuffling", 2025, https://arxiv.org/abs/2504.07414
    .. [3] V. Feldman, A. McMillan, K. Talwar, "Stronger privacy amplification by shuffling for
       Rényi and approximate differential privacy", SODA 2023,
       :doi:`10.1137/1.9781611977554.ch181`.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.privacy import shuffled_epsilon
    >>> round(shuffled_epsilon(OLH(1.0, categories=1024), n_samples=10**6, delta=1e-8), 4)
    0.0034
    """
    n, delta = _checked(n_samples, delta)
    spent = {
        name: _smallest_epsilon(blanket, share, n, delta)
        for name, (blanket, share) in _blankets(oracle).items()
    }
    return spent[None] if list(spent) == [None] else spent


def local_epsilon(oracle: Any, shuffled_epsilon: float, n_samples: int, delta: float) -> float:
    """Return the largest epsilon of an oracle for a specified epsilon after the shuffle.

    Parameters
    ----------
    oracle : oracle or survey
        The oracle or survey that randomizes the reports. Its own `epsilon` is ignored.
    shuffled_epsilon : float
        The epsilon that a report may spend after the shuffle. For a survey, it applies to the
        reports on every question.
    n_samples, delta : int, float
        As for :func:`shuffled_epsilon`.

    Returns
    -------
    float
        The largest epsilon that the search has found, at most 200, with a relative precision of
        0.001. If the form of the reports depends on epsilon, for example the hash range of OLH, an
        even larger epsilon may also be possible.

    Raises
    ------
    ValueError
        If an argument is out of range, or the categories are not declared.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.privacy import local_epsilon
    >>> round(local_epsilon(OLH(categories=1024), 0.1, n_samples=10**6, delta=1e-8), 2)
    6.17
    """
    n, delta = _checked(n_samples, delta)
    if not (isinstance(shuffled_epsilon, Real) and 0 < float(shuffled_epsilon) < math.inf):
        raise ValueError(
            f"Argument shuffled_epsilon must be a finite number > 0, got {shuffled_epsilon!r}. "
            "Pass for example 0.1."
        )

    def is_allowed(epsilon: float) -> bool:
        blankets = _blankets(clone(oracle).set_params(epsilon=epsilon, input="values"))
        return all(
            _delta(blanket, share, n, float(shuffled_epsilon), delta) <= delta
            for blanket, share in blankets.values()
        )

    low = high = min(float(shuffled_epsilon), _MOST)  # a shuffle never increases epsilon
    # Ends: `high` doubles up to `_MOST`.
    while high < _MOST and is_allowed(high := min(2 * high, _MOST)):
        low = high
    # Ends: each pass halves the interval, and `low` is above 0.
    while high - low > 1e-3 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if is_allowed(middle) else (low, middle)
    return low


def _checked(n_samples: Any, delta: Any) -> tuple[float, float]:
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(
            f"Argument n_samples must be an integer >= 1, got {n_samples!r}. Pass the number of "
            "users whose reports are shuffled together."
        )
    if not (isinstance(delta, Real) and 0 < float(delta) < 1):
        raise ValueError(
            f"Argument delta must satisfy 0 < delta < 1, got {delta!r}. Pass a number well below "
            "1 / n_samples, such as 1e-8."
        )
    return min(float(n_samples), _MOST_USERS), float(delta)


# -- the bound ------------------------------------------------------------------------------------
class _Blanket(NamedTuple):
    """Probabilities that determine the bound for two values, see the notes of `shuffled_epsilon`.

    `epsilon` is the epsilon of one report. The other fields are sums of c(y) over the reports y
    that support both values, only the first value (or, equally, only the second), or neither value.
    """

    epsilon: float
    both: float
    single: float
    neither: float


def _blanket(mechanism: Any, epsilon: float) -> _Blanket:
    """Return the `_Blanket` of the two values that are easiest to distinguish."""
    # The sums follow from three equations: p = E (both + single), q = E both + single, and
    # 1 - p = single + neither. The real ratio of likelihoods may be below E because probabilities
    # are rounded. X with E and the exact p and q is then larger in convex order, so the bound is
    # still valid.
    epsilon = min(float(epsilon), _MOST)
    ratio, gain = math.exp(epsilon), math.expm1(epsilon)
    if not getattr(mechanism, "has_two_likelihoods", False):
        return _Blanket(epsilon, 0.0, 1 / (ratio + 1), 0.0)
    p, q = mechanism.own_support, mechanism.least_other_support
    supported, unsupported = float(p) / ratio, float(1 - p)
    single = min(float(p - q) / gain, supported, unsupported)
    return _Blanket(epsilon, supported - single, single, unsupported - single)


def _blankets(oracle: Any) -> dict[Any, tuple[_Blanket, float]]:
    """Return, for each question, its `_Blanket` and the probability that a user is asked it.

    The key is None for an oracle, and for a survey in which each user answers several questions.
    """
    protocol = as_protocol(oracle)
    mechanism: Any = protocol.mechanism
    if not hasattr(oracle, "questions") or mechanism.n_drawn > 1:
        return {None: (_blanket(mechanism, protocol.epsilon), 1.0)}
    questions = zip(oracle.questions().items(), mechanism.probabilities.tolist(), strict=True)
    return {
        name: (_blanket(question.mechanism, question.epsilon), share)
        for (name, question), share in questions
    }


@lru_cache(maxsize=1 << 10)  # the questions of a survey have few distinct blankets
def _smallest_epsilon(blanket: _Blanket, share: float, n: float, delta: float) -> float:
    """Return the smallest epsilon' for which the bound on delta is at most `delta`.

    The result is at most the epsilon of one report. `share` is the probability that a user is asked
    the question.
    """

    def excess(epsilon: float) -> float:
        # A minimum keeps the ratio finite; for smaller delta, the end of the range is the root.
        return math.log(max(_delta(blanket, share, n, epsilon, delta), min(delta, 1e-308)) / delta)

    if excess(0.0) <= 0:
        return 0.0
    outside = blanket.epsilon / 4
    # Ends: `excess` is positive at 0, which `outside` reaches by underflow at the latest.
    while excess(outside) <= 0:
        outside /= 4
    root = brentq(excess, outside, 4 * outside, xtol=1e-300, rtol=_PRECISION / 4)
    return min(root * (1 + _PRECISION / 2), blanket.epsilon)


def _delta(blanket: _Blanket, share: float, n: float, epsilon: float, delta: float) -> float:
    """Return an upper bound of delta(epsilon) after the shuffle.

    `share` is the probability that a user is asked the question. `delta` determines the precision
    of the computation.
    """
    # The argument delta defines the precision: the lattice and its ends add about a thousandth
    # of delta.
    ratio, gain, lost = math.exp(blanket.epsilon), math.expm1(blanket.epsilon), math.expm1(epsilon)
    values = np.array([gain - lost, -gain - ratio * lost, -ratio * lost, -lost])
    chances = share * np.array([blanket.single, blanket.single, blanket.both, blanket.neither])
    largest = values[0]
    if largest <= 0:
        return 0.0
    beyond = math.log(largest) - math.log(_SPARE * share) - math.log(delta)
    bottom, top = _range(values, chances, n, beyond)
    # A sum with a term far below 0 is hardly ever positive. Raising the term keeps the bound valid.
    values = np.maximum(values, -2 * max(top, largest))
    bottom, top = _range(values, chances, n, beyond)
    # If the lattice is large enough, the largest value is a whole number of steps.
    step = largest / max(int(_POINTS * largest / (top - bottom)), 1)
    step = max(step, (top - bottom) / _MOST_POINTS)
    places = np.floor(values / step)
    above = values / step - places
    places, chances = np.r_[places, places + 1], np.r_[chances * (1 - above), chances * above]
    bottom, top = _range(places, chances, n, beyond)
    above_zero = math.ceil(top)
    size = 1 << (above_zero + math.ceil(-bottom) + 2).bit_length()
    sums, error = _positive_sums(places.astype(np.int64), chances, n, above_zero, size)
    outside = top * math.exp(-beyond)
    return float(step * (sums + error + outside) / (n * share))


def _range(values: np.ndarray, chances: np.ndarray, n: float, beyond: float) -> tuple[float, float]:
    """Return a lower and an upper limit for a sum of n random terms.

    A term has the values `values` with the probabilities `chances`, and is 0 otherwise. The sum is
    below the lower limit with a probability of at most exp(-beyond), and above the upper limit with
    the same maximum probability.
    """
    # Chernoff's bound is valid for any rate, so the best of several rates is used. The bound
    # also limits the mean of the part of the sum beyond the upper end: it is at most the upper
    # end times exp(-beyond).
    ends = []
    for sign, farthest in ((-1, values.min()), (1, values.max())):
        rates = _RATES / abs(farthest)
        growth = n * np.log1p(np.expm1(sign * rates[:, None] * values) @ chances)
        end = float(np.min(np.maximum(growth + beyond, 1) / rates))
        ends.append(sign * min(end, n * abs(float(farthest))))
    return ends[0], ends[1]


def _positive_sums(
    places: np.ndarray, chances: np.ndarray, n: float, top: int, size: int
) -> tuple[float, float]:
    """Return the mean of max(sum, 0) for a sum of n random terms, and its maximum rounding error.

    A term has the values `places` with the probabilities `chances`, and is 0 otherwise. `size` is
    the number of points of the Fourier transform, and `top` is the largest sum.
    """
    # The values are positions on a circle of `size` points.
    rough = np.zeros(size)
    rough[0] = 1 - chances.sum()
    np.add.at(rough, places % size, chances)
    with np.errstate(divide="ignore"):
        # Other Fourier coefficients of the distribution of the sum are negligible.
        kept = np.flatnonzero(n * np.log(np.abs(np.fft.rfft(rough))) > -_NEGLIGIBLE)
    turns = kept[:, None] * (places % size) % size
    means = 1 + (np.exp(-2j * np.pi / size * turns) - 1) @ chances
    sizes = np.abs(means)
    spectrum = np.zeros(size // 2 + 1, dtype=complex)
    spectrum[kept] = sizes**n * np.exp(1j * n * np.angle(means))
    probabilities = np.fft.irfft(spectrum, size)
    sums = np.arange(1, top + 1)
    power_error = n * 2 / size * float(np.sum(sizes ** (n - 1))) * float(sums.sum())
    transform_error = math.log2(size) * float(np.linalg.norm(probabilities) * np.linalg.norm(sums))
    mean = float(sums @ probabilities[1 : top + 1])
    return mean, _ROUNDING * (power_error + transform_error)
