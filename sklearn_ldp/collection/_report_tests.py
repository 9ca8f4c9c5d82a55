"""Users who lie: what a collector can see of them in the reports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from .._noise import ReportLaw
from ..oracles import BaseOracle
from ..oracles._channel import Channel
from ..oracles._direct import DirectChannel
from ..oracles._hadamard import HadamardChannel
from ..oracles._linear_hashing import LinearHashChannel
from ..oracles._mixing import MixingHashChannel
from ..oracles._subset import SubsetChannel
from ..oracles._unary import UnaryChannel
from ._convert import as_chunks
from ._protocol import Protocol, make_protocol

_LEAST_EXPECTED = 10  # reports in a class: below, chi-square is no good law
_MAX_KINDS = 1 << 22
_CELLS = 1 << 22  # reports times categories worked on at a time


@dataclass(frozen=True, eq=False)
class ReportTest:
    """How well reports fit the law that honest users' reports have.

    Parameters
    ----------
    statistic : float
        About chi-square distributed if all users are honest; or a number of equal pairs, see
        :func:`hash_function_test`.
    degrees_of_freedom : int
        Of that distribution, 1 for pairs; 0 if there is nothing to test.
    p_value : float
        Probability of so large a statistic if all users are honest.
    n_samples : int
        Number of reports.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    n_samples: int

    @property
    def has_power(self) -> bool:
        """Whether any report could make a difference."""
        return self.degrees_of_freedom > 0


def support_size_test(reports: Any, oracle: BaseOracle) -> ReportTest:
    """Test whether reports support as many categories as those of honest users do.

    The number of categories that a report supports has a known law. With unary encoding, and with
    mixing hashes, it does not depend on the user's value,

    .. math:: \\mathrm{Bernoulli}(p) + \\mathrm{Binomial}(d - 1, q),

    and the test is Pearson's. With linear hashing, Hadamard response and projective geometry
    response it does depend on it, somewhat: there the number of reports of each size is compared
    with what the unbiased estimate of these very reports leads one to expect; the difference is a
    sum over reports that has mean 0 whatever the values are, and is held against its own
    covariance (a Wald test).

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of those
        As the oracle's `privatize` returns them; of thousands of users at least.
    oracle : oracle
        Unfitted, with declared categories.

    Returns
    -------
    ReportTest
        Where all reports are of one size (:class:`~sklearn_ldp.GRR`,
        :class:`~sklearn_ldp.SubsetSelection`) there is nothing to test: `has_power` is False and
        the p-value 1.

    Raises
    ------
    ValueError
        If a report cannot come from the oracle, or its law is not known.

    See Also
    --------
    hash_function_test : Sees more where users choose a hash function.
    poisoning_gain : What the fake users could gain.

    Notes
    -----
    It sees fake reports that support too many categories, too few, or too regularly many: the
    maximal gain attack on unary encoding, also where it pads its reports to the mean size [1]_. It
    does not see fake users who draw the size of their reports from the honest law, nor any who keep
    to the protocol and lie about their values. A small p-value says that some reports are not
    honest, or that clients have a bug; it does not say which.

    References
    ----------
    .. [1] X. Cao, J. Jia, N. Z. Gong, "Data poisoning attacks to local differential privacy
       protocols", USENIX Security 2021.
       https://www.usenix.org/conference/usenixsecurity21/presentation/cao-xiaoyu

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.collection import support_size_test
    >>> oracle = OUE(1.0, categories=64, random_state=0)
    >>> honest = oracle.privatize(np.zeros(9_500, dtype=int))
    >>> support_size_test(honest, oracle).p_value > 0.001
    True
    >>> fake = np.tile(np.arange(64) < 18, (500, 1))  # 18 bits, as honest reports have on average
    >>> support_size_test(np.concatenate([honest, fake]), oracle).p_value < 1e-9
    True
    """
    protocol = make_protocol(oracle, "")
    channel = protocol.channel
    if isinstance(channel, (DirectChannel, SubsetChannel)):
        n = sum(len(chunk) for chunk in _checked(reports, protocol))
        return ReportTest(0.0, 0, 1.0, n)
    if isinstance(channel, (UnaryChannel, MixingHashChannel)):
        return _pearson(_size_counts(reports, protocol), _size_law(channel))
    return _wald(_kind_counts(reports, protocol), channel)


def _checked(reports: Any, protocol: Protocol) -> Iterator[np.ndarray]:
    """Reports in canonical form, few enough at a time to look at all their categories."""
    size = max(_CELLS // protocol.channel.n_categories, 1)
    for chunk in as_chunks(reports, protocol):
        for start in range(0, len(chunk), size):
            yield protocol.check(chunk[start : start + size])


def _size_law(channel: Channel) -> np.ndarray:
    """Probability of a report of each size 0 .. d, whatever the user's value."""
    p, d = float(channel.p), channel.n_categories
    others = stats.binom.pmf(np.arange(d), d - 1, float(channel.q))
    return np.convolve(others, [1 - p, p])


def _size_counts(reports: Any, protocol: Protocol) -> np.ndarray:
    channel = protocol.channel
    codes = np.arange(channel.n_categories)
    counts = np.zeros(len(codes) + 1, dtype=np.int64)
    for chunk in _checked(reports, protocol):
        sizes = np.count_nonzero(channel.supports(chunk, codes), axis=1)
        counts += np.bincount(sizes, minlength=len(counts))
    return counts


def _pearson(observed: np.ndarray, law: np.ndarray) -> ReportTest:
    n = int(observed.sum())
    classes = _classes(law, n)
    expected = n * np.bincount(classes, law)
    statistic = float(np.sum((np.bincount(classes, observed) - expected) ** 2 / expected))
    return _result(statistic, len(expected) - 1, n)


def _classes(law: np.ndarray, n: int) -> np.ndarray:
    """A class for each size, in order: fine at both ends, where fake reports may be, and none
    with too few expected reports."""
    least = min(_LEAST_EXPECTED / max(n, 1), 1.0)
    ends = least * 4.0 ** np.arange(40)
    ends = ends[ends < 1 / 8]
    levels = np.sort(np.concatenate([ends, np.arange(1, 8) / 8, 1 - ends]))
    middle = np.cumsum(law) - law / 2
    wished = np.searchsorted(levels, middle)
    classes = np.zeros(len(law), dtype=np.int64)
    mass = 0.0
    for size in range(1, len(law)):
        mass += law[size - 1]
        is_new = wished[size] != wished[size - 1] and mass >= least
        left = law[size:].sum()
        classes[size] = classes[size - 1] + (is_new and left >= least)
        mass = 0.0 if classes[size] > classes[size - 1] else mass
    return classes


def _wald(counts: np.ndarray, channel: Channel) -> ReportTest:
    """Of counts of all kinds of reports, under a law that depends on the users' values."""
    n, law = int(counts.sum()), _report_law(channel)
    d = channel.n_categories
    sizes = np.rint(law.spread(np.ones(d))).astype(np.int64)
    of_sizes = np.bincount(sizes, law.probabilities(np.full(d, 1 / d)), minlength=d + 1)
    classes = _classes(of_sizes, n)[sizes]
    seen = np.flatnonzero(counts)
    weights = np.empty((len(seen), classes.max() + 1))
    for i, column in enumerate(weights.T):
        member = (classes == i).astype(float)
        # Less what the kind adds to the expected number of reports of the class.
        column[:] = (member - _unbiased(channel, law, law.likelihoods(member)))[seen]
    difference = counts[seen] @ weights
    values, vectors = np.linalg.eigh((weights * counts[seen, None]).T @ weights)
    is_certain = values > 1e-9 * max(values.max(), n)
    z = (difference @ vectors)[is_certain] / np.sqrt(values[is_certain])
    if weights.shape[1] == 1:  # one class, so one size
        return ReportTest(0.0, 0, 1.0, n)
    return _result(float(z @ z), len(z), n)


def _report_law(channel: Channel) -> ReportLaw:
    """The law of all kinds of reports, where they can be enumerated."""
    if isinstance(channel, LinearHashChannel):
        if channel.n_functions * channel.field.order <= _MAX_KINDS:
            return channel.law_of_reports
        law = None
    else:
        law = channel.report_law
    if law is None:
        raise ValueError(
            f"The size of the reports of a {type(channel).__name__} over {channel.n_categories} "
            "categories has no known law here; hash_function_test may be of use."
        )
    return law


def _kind_counts(reports: Any, protocol: Protocol) -> np.ndarray:
    channel: Any = protocol.channel
    law = _report_law(channel)
    counts = np.zeros(len(law.spread(np.zeros(channel.n_categories))), dtype=np.int64)
    for chunk in _checked(reports, protocol):
        kinds = chunk if chunk.ndim == 1 else chunk[:, 0] * channel.field.order + chunk[:, 1]
        counts += np.bincount(kinds, minlength=len(counts))
    return counts


def _unbiased(channel: Channel, law: ReportLaw, weights: np.ndarray) -> np.ndarray:
    """Of each kind of report: what it adds to n times the estimate of the weights' mean."""
    p, q = float(channel.p), float(channel.q)
    support = law.spread(weights)
    if isinstance(channel, HadamardChannel) and channel.n_blocks > 1:
        # Signed: a column counts against the categories of its block that it does not support.
        blocks = np.arange(channel.n_categories) % channel.n_blocks
        totals = np.bincount(blocks, weights, minlength=channel.n_blocks)
        return (2 * support - np.repeat(totals, channel.order)) / p
    return (support - q * weights.sum()) / (p - q)


def hash_function_test(reports: Any, oracle: BaseOracle) -> ReportTest:
    """Test whether the reports' hash functions are as random as honest users'.

    A client draws its hash function uniformly and without regard to its value, so the law of the
    functions is known exactly; attackers choose functions that map their targets to one value. With
    linear hashing the functions are counted (Pearson's statistic, its law matched in mean and
    variance); with mixing, where none of :math:`2^{63}` seeds should ever come twice, or where
    functions are many more than reports, pairs of equal ones are.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of those
        As the oracle's `privatize` returns them.
    oracle : OLH or BLH
        Unfitted, with declared categories.

    Returns
    -------
    ReportTest
        Of the functions alone.

    Raises
    ------
    ValueError
        If a report cannot come from the oracle.
    TypeError
        If the oracle's users choose no hash function.

    See Also
    --------
    support_size_test : For other oracles.

    Notes
    -----
    It does not see fake users who draw functions honestly and lie about the value; those gain less:
    they support all targets with one function of :math:`g^{r - 1}`. Nor does it see a few of them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.collection import hash_function_test
    >>> oracle = OLH(1.0, categories=64, random_state=0)
    >>> honest = oracle.privatize(np.zeros(50_000, dtype=int))
    >>> hash_function_test(honest, oracle).p_value > 0.001
    True
    >>> fake = np.tile(honest[0], (500, 1))  # one percent sends the same report
    >>> hash_function_test(np.concatenate([honest, fake]), oracle).p_value < 1e-9
    True
    """
    protocol = make_protocol(oracle, "")
    channel = protocol.channel
    if not isinstance(channel, (LinearHashChannel, MixingHashChannel)):
        raise TypeError(
            f"hash_function_test is for OLH and BLH, whose users choose a hash function; those of "
            f"{type(oracle).__name__} choose none. Use support_size_test."
        )
    functions = np.concatenate([chunk[:, 0] for chunk in _checked(reports, protocol)])
    n = len(functions)
    if isinstance(channel, MixingHashChannel):
        return _pairs_test(functions, 1 / channel.n_seeds)
    # Only the function 0 has no multiples, which share a number.
    share, of_zero = (channel.field.order - 1) / channel.n_vectors, 1 / channel.n_vectors
    size = channel.n_functions
    if n < 0.1 * size:
        return _pairs_test(functions, (size - 1) * share**2 + of_zero**2)
    shares = np.full(size, share)
    shares[0] = of_zero
    observed = np.bincount(functions, minlength=size)
    statistic = float(np.sum((observed - n * shares) ** 2 / (n * shares)))
    # Exact moments of Pearson's statistic: few reports a function are no trouble.
    mean = size - 1
    variance = 2 * mean + (np.sum(1 / shares) - size**2 - 2 * size + 2) / n
    scale = variance / (2 * mean)
    return _result(float(statistic / scale), max(round(mean / scale), 1), n)


def _pairs_test(functions: np.ndarray, probability: float) -> ReportTest:
    """Of the number of equal pairs, which is a Poisson variable where they are rare."""
    n = len(functions)
    _, counts = np.unique(functions, return_counts=True)
    pairs = int(np.sum(counts * (counts - 1) // 2))
    expected = probability * n * (n - 1) / 2
    return ReportTest(float(pairs), 1, float(stats.poisson.sf(pairs - 1, expected)), n)


def _result(statistic: float, degrees: int, n: int) -> ReportTest:
    p_value = float(stats.chi2.sf(statistic, degrees)) if degrees else 1.0
    return ReportTest(statistic, degrees, min(p_value, 1.0) if math.isfinite(statistic) else 0.0, n)
