"""Privacy after a shuffle: what one report reveals among all reports, in an order that is lost."""

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
_MOST_USERS = 1e10  # as more of them hide a user no worse
_SPARE = 1e-3  # share of delta for what is beyond the lattice
_PRECISION = 1e-4  # of epsilon
_RATES = np.geomspace(1e-10, 100, 361)  # of Chernoff's bounds
_ROUNDING = 16 * np.finfo(float).eps  # of a power and its arguments, for each factor
_NEGLIGIBLE = 90.0  # minus the logarithm of a coefficient that is far below rounding errors


def shuffled_epsilon(oracle: OracleOrProtocol, n_samples: int, delta: float) -> Any:
    """Return the epsilon that a user's report spends if all reports are shuffled together.

    A party that neither server nor users can see into mixes the reports of `n_samples` users. The
    mixture is (epsilon', delta)-differentially private for each of them, with the epsilon' that is
    returned, if nobody can link reports to them. A permanent report that is sent again links
    rounds, and what they spend adds up.

    Privacy: costs none.

    Parameters
    ----------
    oracle : oracle, survey or Protocol
        What makes the reports; its categories must be declared.
    n_samples : int
        Number n of honest users whose reports are shuffled together: those of a batch, if batches
        are shuffled, without any who lie or work with the server. At most 10**10 count.
    delta : float
        Probability with which epsilon' may be exceeded, in (0, 1); well below 1 / n.

    Returns
    -------
    float, or dict of float
        An upper bound of epsilon', at most the oracle's epsilon. It is about replacement: another
        value of the user, and not their absence. For a survey that asks each user one question it
        is that of the question a user was asked, by its name, even if everybody knows who was asked
        what.

    Raises
    ------
    ValueError
        If an argument is out of range, or the domain is not known.

    See Also
    --------
    local_epsilon : The epsilon of the oracle that a shuffle makes into a given one.

    Notes
    -----
    A report y has the likelihood E c(y) for the categories that it supports, and c(y) for others,
    with E = exp(epsilon). So with a probability of c(y), at least, a user reports y whatever their
    value is, and such reports hide a user's own [1]_. With X = (P(y | v) - exp(epsilon') P(y | w))
    / c(y) with the probability c(y), and otherwise (or if they are asked another question) X = 0,

    .. math:: \\delta(\\epsilon') \\le \\frac 1n \\mathrm{E} \\Big(\\sum_{i=1}^n X_i\\Big)_+ .

    X takes four values, whose probabilities follow from the p and q of the two values that are most
    easily told apart; where q assumes an ideal hash, these never share a hash value. No other c
    makes less of it [2]_. It is computed by the fast Fourier transform on a lattice: a value is
    split between the two points beside it, which keeps the mean and can only raise a convex
    function. Bounds on what is off the lattice, and on rounding errors, are added.

    Mechanisms that do not state `has_two_likelihoods`, and reports on several questions, take the
    general clones of [3]_: c of 1 / (E + 1) on reports for v, and as much for w.

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
    >>> from sklearn_ldp.metrics import shuffled_epsilon
    >>> round(shuffled_epsilon(OLH(1.0, categories=1024), n_samples=10**6, delta=1e-8), 4)
    0.0034
    """
    n, delta = _checked(n_samples, delta)
    spent = {name: _least(*one, n, delta) for name, one in _laws(oracle).items()}
    return spent[None] if list(spent) == [None] else spent


def local_epsilon(oracle: Any, shuffled_epsilon: float, n_samples: int, delta: float) -> float:
    """Return the epsilon that an oracle may have if its shuffled reports are to spend a given one.

    Parameters
    ----------
    oracle : oracle or survey
        What makes the reports; its own `epsilon` does not matter.
    shuffled_epsilon : float
        What a report may spend after the shuffle; of a survey, that on any question.
    n_samples, delta : int, float
        As for :func:`shuffled_epsilon`.

    Returns
    -------
    float
        The epsilon to collect with, at most 200, to within a thousandth. Where the structure of
        reports changes with epsilon, as the hash range of OLH, a larger one may do as well.

    Raises
    ------
    ValueError
        If an argument is out of range, or the domain is not known.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.metrics import local_epsilon
    >>> round(local_epsilon(OLH(categories=1024), 0.1, n_samples=10**6, delta=1e-8), 2)
    6.17
    """
    n, delta = _checked(n_samples, delta)
    if not (isinstance(shuffled_epsilon, Real) and 0 < float(shuffled_epsilon) < math.inf):
        raise ValueError(
            f"Argument shuffled_epsilon must be a finite number > 0, got {shuffled_epsilon!r}."
        )

    def is_allowed(epsilon: float) -> bool:
        laws = _laws(clone(oracle).set_params(epsilon=epsilon, input="values")).values()
        return all(_delta(*one, n, float(shuffled_epsilon), delta) <= delta for one in laws)

    low = high = min(float(shuffled_epsilon), _MOST)  # a shuffle never makes it more
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
        raise ValueError(f"Argument n_samples must be an integer >= 1, got {n_samples!r}.")
    if not (isinstance(delta, Real) and 0 < float(delta) < 1):
        raise ValueError(f"Argument delta must fulfil 0 < delta < 1, got {delta!r}.")
    return min(float(n_samples), _MOST_USERS), float(delta)


# -- the bound ------------------------------------------------------------------------------------
class _Law(NamedTuple):
    """The sums of c(y) over reports y that support two values, a given one only, or neither."""

    epsilon: float
    both: float
    one: float
    neither: float


def _law(mechanism: Any, epsilon: float) -> _Law:
    """Return the law of the two values that are most easily told apart."""
    # From p = E (both + one), q = E both + one, and 1 - p = one + neither. The real ratio of
    # likelihoods may be below E, as probabilities are rounded: X with E and the exact p and q
    # is then larger in convex order.
    epsilon = min(float(epsilon), _MOST)
    ratio, gain = math.exp(epsilon), math.expm1(epsilon)
    if not getattr(mechanism, "has_two_likelihoods", False):
        return _Law(epsilon, 0.0, 1 / (ratio + 1), 0.0)
    p, q = mechanism.own_support, mechanism.least_other_support
    supported, unsupported = float(p) / ratio, float(1 - p)
    one = min(float(p - q) / gain, supported, unsupported)
    return _Law(epsilon, supported - one, one, unsupported - one)


def _laws(oracle: Any) -> dict[Any, tuple[_Law, float]]:
    """Return the law of each question, and the probability of being asked it."""
    # The law of an oracle, and of all answers together if a report has several, is called None.
    protocol = as_protocol(oracle)
    mechanism: Any = protocol.mechanism
    if not hasattr(oracle, "questions") or mechanism.n_drawn > 1:
        return {None: (_law(mechanism, protocol.epsilon), 1.0)}
    questions = zip(oracle.questions().items(), mechanism.probabilities.tolist(), strict=True)
    return {name: (_law(one.mechanism, one.epsilon), share) for (name, one), share in questions}


@lru_cache(maxsize=1 << 10)  # the questions of a survey have few laws
def _least(law: _Law, share: float, n: float, delta: float) -> float:
    """Return the least epsilon' at which the bound is at most delta, and no more than epsilon."""

    def excess(epsilon: float) -> float:
        # The least delta at which a ratio is finite; below it the end of the range is the root.
        return math.log(max(_delta(law, share, n, epsilon, delta), min(delta, 1e-308)) / delta)

    if excess(0.0) <= 0:
        return 0.0
    outside = law.epsilon / 4
    # Ends: `excess` is positive at 0, which `outside` reaches by underflow at the latest.
    while excess(outside) <= 0:
        outside /= 4
    root = brentq(excess, outside, 4 * outside, xtol=1e-300, rtol=_PRECISION / 4)
    return min(root * (1 + _PRECISION / 2), law.epsilon)


def _delta(law: _Law, share: float, n: float, epsilon: float, delta: float) -> float:
    """Return an upper bound of delta(epsilon) for those of n users who are asked, by a share."""
    # The given delta says what is negligible: the lattice and its ends add about a thousandth
    # of it.
    ratio, gain, lost = math.exp(law.epsilon), math.expm1(law.epsilon), math.expm1(epsilon)
    values = np.array([gain - lost, -gain - ratio * lost, -ratio * lost, -lost])
    chances = share * np.array([law.one, law.one, law.both, law.neither])
    largest = values[0]
    if largest <= 0:
        return 0.0
    beyond = math.log(largest) - math.log(_SPARE * share) - math.log(delta)
    bottom, top = _range(values, chances, n, beyond)
    # A sum with a term that is so far below 0 is hardly above it, and raising it keeps the bound.
    values = np.maximum(values, -2 * max(top, largest))
    bottom, top = _range(values, chances, n, beyond)
    # The largest value is a whole number of steps if there is room for it.
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
    """Return two ends that sums of n terms are beyond with a probability of exp(-beyond) each."""
    # Chernoff's bound holds for any rate, so the best of some is taken. It makes the mean of
    # what is beyond the upper end, with 0 for the rest, at most that end times the same.
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
    """Return the mean of the positive part of a sum of n terms, and a bound on rounding errors."""
    # A term has these values, at places of a circle of `size` points, and is otherwise 0. The
    # largest sum is `top`.
    rough = np.zeros(size)
    rough[0] = 1 - chances.sum()
    np.add.at(rough, places % size, chances)
    with np.errstate(divide="ignore"):
        # Other frequencies hardly occur in the law of the sum.
        kept = np.flatnonzero(n * np.log(np.abs(np.fft.rfft(rough))) > -_NEGLIGIBLE)
    turns = kept[:, None] * (places % size) % size
    means = 1 + (np.exp(-2j * np.pi / size * turns) - 1) @ chances
    sizes, spectrum = np.abs(means), np.zeros(size // 2 + 1, dtype=complex)
    spectrum[kept] = sizes**n * np.exp(1j * n * np.angle(means))
    laws, sums = np.fft.irfft(spectrum, size), np.arange(1, top + 1)
    of_powers = n * 2 / size * float(np.sum(sizes ** (n - 1))) * float(sums.sum())
    of_transform = math.log2(size) * float(np.linalg.norm(laws) * np.linalg.norm(sums))
    return float(sums @ laws[1 : top + 1]), _ROUNDING * (of_powers + of_transform)
