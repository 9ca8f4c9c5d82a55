"""Statistical tests that detect reports of fake users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from .._core.aggregation.containers import as_chunks
from .._core.common.typing import Column
from .._core.mechanisms import OracleOrProtocol, Protocol, as_protocol
from .._core.mechanisms.coins import SeededCoins
from ..oracles.channels import Channel, JointSupport, PublicPart, ReportLaw
from ..surveys import BaseColumnSurvey

_LEAST_EXPECTED = 10  # reports in a class: with fewer, chi-square is a poor approximation
_MAX_COUNTED = 1 << 22  # hash functions that are counted one by one
_FEWEST_DRAWS, _MOST_DRAWS = 1 << 14, 1 << 18  # simulated reports, if no distribution is known
_CELLS = 1 << 22  # reports times categories that are processed at a time
_MAX_PAIRED = 2048  # maximum number of categories for counts of pairs: about 250 MiB
_N_EXAMINED = 1024  # p-values are computed for this number of pairs with the largest z-scores


@dataclass(frozen=True, eq=False)
class ReportTest:
    """Result of a test whose null hypothesis is that all reports come from honest users.

    Parameters
    ----------
    statistic : float
        The test statistic. For most tests, it approximately has a chi-square distribution if all
        users are honest. In some cases of :func:`hash_function_test`, it is the number of pairs of
        reports with the same hash function. For :func:`joint_support_test`, it is the largest
        z-score.
    degrees_of_freedom : int
        Degrees of freedom of the chi-square distribution. For a number of pairs of reports, it is
        1. For :func:`joint_support_test`, it is the number of z-scores. It is 0 if there is nothing
        to test, because fake reports cannot change the statistic.
    p_value : float
        Probability of a statistic at least this large if all users are honest.
    n_samples : int
        Number of reports.
    is_drawn : bool, default=False
        Whether the reports were compared with simulated honest reports, because the distribution of
        honest reports is not known.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    n_samples: int
    is_drawn: bool = False

    @property
    def has_power(self) -> bool:
        """Return whether fake reports can change the test statistic.

        If not, there is nothing to test.
        """
        return self.degrees_of_freedom > 0


def support_size_test(reports: Any, oracle: OracleOrProtocol, *, column: Any = None) -> ReportTest:
    """Test whether reports support as many categories as reports of honest users do.

    The number of categories that a report supports (its size) has a known distribution. With unary
    encoding, and with mixing hashes, the size does not depend on the user's value: its distribution
    is

    .. math:: \\mathrm{Bernoulli}(p) + \\mathrm{Binomial}(d - 1, q),

    and the test is Pearson's chi-square test. With linear hashing, Hadamard response and projective
    geometry response, the size depends slightly on the value. For these, the test compares the
    number of reports of each size with the number that is expected under the unbiased estimate from
    the same reports. The difference is a sum over reports with mean 0 for any values, and the test
    compares it with its own covariance (a Wald test).

    If a mechanism does not specify the distribution of its reports (a third-party oracle, or linear
    hashing in very large spaces), the test is an approximation. It simulates honest reports for the
    frequencies that are estimated from the same reports. The number of simulated reports equals the
    number of reports, but is at least 2**14 and at most 2**18. The test then compares the two
    samples, and `is_drawn` is True. If the size does not depend on the value, the test is exact up
    to the randomness of the simulation.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of such chunks
        Reports from the oracle's `privatize`, of at least several thousand users.
    oracle : oracle or Protocol
        The unfitted oracle, with declared categories.
    column : object, default=None
        For reports of a survey, the column to test. The reports on this column are compared with
        the distribution of its oracle.

    Returns
    -------
    ReportTest
        The result. If all reports have the same size (:class:`~sklearn_ldp.GRR`,
        :class:`~sklearn_ldp.SubsetSelection`), there is nothing to test: `has_power` is False and
        the p-value is 1.

    Raises
    ------
    ValueError
        If a report cannot come from the oracle.

    See Also
    --------
    joint_support_test : A test for fake users who promote several categories.
    hash_function_test : A test of the hash functions, for users who choose one.
    poisoning_gain : The possible gain of fake users.

    Notes
    -----
    The test detects fake reports if they support too many or too few categories, or if the number
    of supported categories varies too little. For example, it detects the maximal gain attack on
    unary encoding, even if attackers pad their reports to the mean size [1]_. It does not detect
    fake users who draw the size of their reports from the honest distribution
    (:func:`joint_support_test` detects them if they promote several categories), and it does not
    detect users who follow the protocol and lie about their values. A small p-value means that some
    reports are not honest, or that clients have a bug; it does not identify the reports.

    References
    ----------
    .. [1] X. Cao, J. Jia, N. Z. Gong, "Data poisoning attacks to local differential privacy
       protocols", USENIX Security 2021.
       https://www.usenix.org/conference/usenixsecurity21/presentation/cao-xiaoyu

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.robustness import support_size_test
    >>> oracle = OUE(1.0, categories=64, random_state=0)
    >>> honest = oracle.privatize(np.zeros(9_500, dtype=int))
    >>> support_size_test(honest, oracle).p_value > 0.001
    True
    >>> fake = np.tile(np.arange(64) < 18, (500, 1))  # 18 bits, as honest reports have on average
    >>> support_size_test(np.concatenate([honest, fake]), oracle).p_value < 1e-9
    True
    """
    reports, protocol = _on_column(reports, oracle, column)
    channel: Any = protocol.mechanism
    if not isinstance(channel, Channel):
        raise TypeError(
            "support_size_test needs reports that support categories, but reports of "
            f"{protocol.name} do not. For a survey, pass the name of one of its columns: column=..."
        )
    if protocol.domain.shares_overlap:
        raise TypeError(
            f"support_size_test does not support {protocol.name}, because the number of categories "
            "that a report supports depends on the number of the user's items. Use "
            "support_size_test with an oracle for one category per user, such as OUE."
        )
    sizes = channel.support_sizes
    law = channel.law_of_reports
    d = channel.n_categories
    chunks = _checked_chunks(reports, protocol)
    if sizes is not None and np.count_nonzero(sizes) == 1:
        return ReportTest(0.0, 0, 1.0, sum(map(len, chunks)))
    if sizes is not None:
        observed = sum((_sizes(channel, chunk) for chunk in chunks), np.zeros(d + 1, np.int64))
        return _pearson(observed, sizes)
    if law is not None:
        return _wald(sum(law.count(chunk, d) for chunk in chunks), channel, law)
    return _drawn(chunks, channel)


def _sizes(channel: Channel, reports: np.ndarray) -> np.ndarray:
    """Return, for each k from 0 to d, the number of reports that support exactly k categories."""
    d = channel.n_categories
    supported = np.count_nonzero(channel.supports(reports, np.arange(d)), axis=1)
    return np.bincount(supported, minlength=d + 1)


def _drawn(chunks: Iterable[np.ndarray], channel: Any) -> ReportTest:
    """Compare the reports with simulated honest reports.

    The users' values in the simulation have the frequencies that are estimated from the reports.
    """
    d = channel.n_categories
    observed = np.zeros(d + 1, dtype=np.int64)
    support = np.zeros(d, dtype=np.int64)
    for chunk in chunks:
        observed += _sizes(channel, chunk)
        support += channel.count_support(chunk)
    n = int(observed.sum())
    frequencies = np.maximum(channel.noise(max(n, 1)).debias(support), 0) + 1e-12
    rng = np.random.default_rng(0)
    m = min(max(n, _FEWEST_DRAWS), _MOST_DRAWS)
    codes = rng.choice(d, m, p=frequencies / frequencies.sum())
    honest = np.zeros(d + 1, dtype=np.int64)
    step = max(_CELLS // d, 1)
    for start in range(0, m, step):
        honest += _sizes(channel, channel.privatize(codes[start : start + step], SeededCoins(rng)))
    together = observed + honest
    classes = _classes(together / together.sum(), min(n, m))
    a, b = (np.bincount(classes, counts) for counts in (observed, honest))
    statistic = float(np.sum((np.sqrt(m / n) * a - np.sqrt(n / m) * b) ** 2 / (a + b)))
    return replace(_result(statistic, len(a) - 1, n), is_drawn=True)


def _pearson(observed: np.ndarray, law: np.ndarray) -> ReportTest:
    n = int(observed.sum())
    classes = _classes(law, n)
    expected = n * np.bincount(classes, law)
    statistic = float(np.sum((np.bincount(classes, observed) - expected) ** 2 / expected))
    return _result(statistic, len(expected) - 1, n)


def _classes(law: np.ndarray, n: int) -> np.ndarray:
    """Group neighboring sizes of reports into classes for a chi-square test.

    The size of a report is the number of categories that it supports, and `law` contains the
    probability of each size. Return the index of the class of each size.
    """
    # Classes are narrow at both ends of the distribution, because fake reports may be there. No
    # class has too few expected reports.
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
        is_full = mass >= least and law[size:].sum() >= least
        is_new = is_full and wished[size] != wished[size - 1]
        classes[size] = classes[size - 1] + is_new
        mass = 0.0 if is_new else mass
    return classes


def _wald(counts: Any, channel: Channel, law: ReportLaw) -> ReportTest:
    """Test the sizes of reports if the distribution of the sizes depends on users' values.

    The size of a report is the number of categories that it supports. `counts` contains the number
    of reports of each possible value.
    """
    n = int(counts.sum())
    d = channel.n_categories
    sizes = np.rint(law.spread(np.ones(d))).astype(np.int64)
    size_probabilities = np.bincount(sizes, law.probabilities(np.full(d, 1 / d)), minlength=d + 1)
    classes = _classes(size_probabilities, n)[sizes]
    seen = np.flatnonzero(counts)
    weights = np.empty((len(seen), classes.max() + 1))
    for i, column in enumerate(weights.T):
        member = (classes == i).astype(float)
        # Subtract the contribution of each distinct report to the expected number in the class.
        column[:] = (member - channel.contributions(law, law.likelihoods(member)))[seen]
    difference = counts[seen] @ weights
    values, vectors = np.linalg.eigh((weights * counts[seen, None]).T @ weights)
    is_certain = values > 1e-9 * max(values.max(), n)
    z = (difference @ vectors)[is_certain] / np.sqrt(values[is_certain])
    if weights.shape[1] == 1:  # one class, so all reports have the same size
        return ReportTest(0.0, 0, 1.0, n)
    return _result(float(z @ z), len(z), n)


def hash_function_test(reports: Any, oracle: OracleOrProtocol, *, column: Any = None) -> ReportTest:
    """Test whether the hash functions in reports were drawn at random, as honest users draw them.

    A client draws its hash function uniformly and independently of its value, so the distribution
    of the functions is known exactly. Attackers choose functions that map their targets to the same
    hash value. With linear hashing, the test counts how often each function occurs. It uses
    Pearson's statistic, and a scaled chi-square distribution with the exact mean and variance of
    this statistic. With mixing hashes, a function is one of :math:`2^{63}` seeds, of which none
    should occur twice. With mixing hashes, and with linear hashing if there are many more functions
    than reports, the test counts pairs of reports with the same function.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of such chunks
        Reports from the oracle's `privatize`.
    oracle : OLH, BLH or ColumnOracle
        The unfitted oracle, with declared categories. For a survey without `column`, the test
        checks how often users report on each column, because clients draw their column at random as
        well. With `column`, it checks the hash functions of the reports on that column.
    column : object, default=None
        For reports of a survey, the column to test. The reports on this column are compared with
        the distribution of its oracle.

    Returns
    -------
    ReportTest
        The result. It depends only on the hash functions in the reports, and not on the hash
        values.

    Raises
    ------
    ValueError
        If a report cannot come from the oracle.
    TypeError
        If users of the oracle draw no hash function.

    See Also
    --------
    joint_support_test : A test that detects chosen functions, of linear and mixing hashes.
    assigned_parts : Functions that no client can choose.

    Notes
    -----
    The test detects functions that occur too often. With linear hashing, it detects a few percent
    of fake users. With mixing hashes, it detects only users who send the same function as other
    users. Attackers can find any number of different mixing functions that map their targets to the
    same hash value, and this test does not detect them. With linear hashing, the test does not
    detect one percent of users who choose their function. The page on operating a collection states
    which percentages the test detects. The test does not detect fake users who draw functions
    honestly and lie about the value. They gain less, because only one function in :math:`g^{r - 1}`
    supports all of their targets.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.robustness import hash_function_test
    >>> oracle = OLH(1.0, categories=64, random_state=0)
    >>> honest = oracle.privatize(np.zeros(50_000, dtype=int))
    >>> hash_function_test(honest, oracle).p_value > 0.001
    True
    >>> fake = np.tile(honest[0], (500, 1))  # one percent sends the same report
    >>> hash_function_test(np.concatenate([honest, fake]), oracle).p_value < 1e-9
    True
    """
    reports, protocol = _on_column(reports, oracle, column)
    part = getattr(protocol.mechanism, "public_part", None)
    if part is None:
        raise TypeError(
            "hash_function_test needs an oracle with hash functions, such as OLH or BLH, but "
            f"users of {protocol.name} draw none. Use support_size_test."
        )
    drawn = np.concatenate([part.of_reports(chunk) for chunk in _checked_chunks(reports, protocol)])
    n = len(drawn)
    size = part.n_values
    shares = part.shares
    if size > _MAX_COUNTED or n < 0.1 * size:
        # The number of equal pairs is a Poisson variable if such pairs are rare.
        probability = 1 / size if shares is None else float(np.sum(shares**2))
        _, counts = np.unique(drawn, return_counts=True)
        pairs = int(np.sum(counts * (counts - 1) // 2))
        p_value = float(stats.poisson.sf(pairs - 1, probability * n * (n - 1) / 2))
        return ReportTest(float(pairs), 1, p_value, n)
    shares = np.full(size, 1 / size) if shares is None else shares
    observed = np.bincount(drawn, minlength=size)
    statistic = float(np.sum((observed - n * shares) ** 2 / (n * shares)))
    # These moments of Pearson's statistic are exact, even with few reports per function.
    mean = size - 1
    variance = 2 * mean + (np.sum(1 / shares) - size**2 - 2 * size + 2) / n
    scale = variance / (2 * mean)
    return _result(float(statistic / scale), max(round(mean / scale), 1), n)


def _result(statistic: float, degrees: int, n: int) -> ReportTest:
    p_value = float(stats.chi2.sf(statistic, degrees)) if degrees else 1.0
    return ReportTest(statistic, degrees, min(p_value, 1.0) if math.isfinite(statistic) else 0.0, n)


def joint_support_test(
    reports: Any, oracle: OracleOrProtocol, *, among: Column | None = None, column: Any = None
) -> ReportTest:
    """Test whether reports support both categories of a pair more often than honest reports do.

    Fake users who promote several categories gain most from reports that support all of them. Let
    :math:`x_v` be 1 if a report supports category v, and 0 otherwise. Let p be the probability that
    a report supports the user's own category, and q the probability that it supports another
    category. Let "own" be the probability that a report supports both v and w if the user has one
    of them, and "other" the same probability if the user has neither. If "own" and "other" are
    known, then the sum over all reports i

    .. math:: \\sum_i \\left( x_{iv} x_{iw} - \\mathrm{other} - \\frac{\\mathrm{own} -
              \\mathrm{other}}{p - q} (x_{iv} + x_{iw} - 2 q) \\right)

    has mean 0 for any values of the users. With unary encoding and mixing hashes, it is the sum of
    :math:`(x_{iv} - q) (x_{iw} - q)`. The test uses the largest z-score of all pairs, with a
    correction for skewness. With linear hashing, a function maps either all pairs of categories
    with a given difference to equal hash values, or none of these pairs. For each difference,
    the test counts the reports whose function maps the pairs to equal hash values. Each count
    has a binomial distribution with probability 1/g, where g is the number of hash values, and
    the test uses the largest count.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of such chunks
        Reports from the oracle's `privatize`, of at least several thousand users.
    oracle : oracle or Protocol
        The unfitted oracle, with declared categories.
    among : array-like of categories, default=None
        The categories whose pairs are tested, for example the categories with the largest
        estimates. If None, use all categories, of which there may be at most 2,048. With linear
        hashing, this parameter is ignored.
    column : object, default=None
        For reports of a survey, the column to test. The reports on this column are compared with
        the distribution of its oracle.

    Returns
    -------
    ReportTest
        The result. `statistic` is the largest z-score, and `degrees_of_freedom` is the number of
        pairs (or differences) that were tested. The p-value has a Bonferroni correction for this
        number, so it is conservative. If a report supports only one category
        (:class:`~sklearn_ldp.GRR`), there is nothing to test: `has_power` is False and the p-value
        is 1.

    Raises
    ------
    ValueError
        If a report cannot come from the oracle, or there are too many categories.
    TypeError
        If the probability that a report supports both of two categories is not known.

    See Also
    --------
    support_size_test : A test of the number of categories that a report supports.
    hash_function_test : A test of all functions together.

    Notes
    -----
    The time is :math:`O(n d^2)` in matrix products, and :math:`O(n + g^k)` for linear hashing. The
    test does not detect fake users who promote a single category, or users who follow the protocol
    and lie about their values.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.robustness import joint_support_test
    >>> oracle = OUE(1.0, categories=64, random_state=0)
    >>> honest = oracle.privatize(np.zeros(20_000, dtype=int))
    >>> joint_support_test(honest, oracle).p_value > 0.01
    True
    >>> fake = honest[:400].copy()  # two percent look like honest reports, except for three bits
    >>> fake[:, [7, 8, 9]] = 1
    >>> joint_support_test(np.concatenate([honest, fake]), oracle).p_value < 1e-6
    True
    """
    reports, protocol = _on_column(reports, oracle, column)
    channel: Any = protocol.mechanism
    if isinstance(channel, Channel):
        part = channel.public_part
        joint = channel.joint_support
        chunks = _checked_chunks(reports, protocol)
        if part is not None and part.collisions is not None:
            return _test_collisions(chunks, part)
        if joint is not None:
            codes = np.arange(protocol.domain.size)
            if among is not None:
                codes = np.unique(protocol.domain.encode(among, "joint_support_test"))
            if len(codes) > _MAX_PAIRED:
                raise ValueError(
                    f"joint_support_test supports at most {_MAX_PAIRED} categories, got "
                    f"{len(codes)} categories. Pass fewer categories as among=, for example the "
                    "categories with the highest estimates."
                )
            both = np.zeros((len(codes), len(codes)), dtype=np.int64)
            n = 0
            for chunk in chunks:
                both += pair_counts(chunk, channel, codes)
                n += len(chunk)
            return largest_pair(both, n, channel, joint)
    raise TypeError(
        f"joint_support_test does not support {protocol.name}, because the probability that a "
        "report supports both of two categories is not known. Use support_size_test; for a survey, "
        "pass the name of one of its columns: column=..."
    )


def _test_collisions(chunks: Iterable[np.ndarray], part: PublicPart) -> ReportTest:
    counted = (np.bincount(part.of_reports(chunk), minlength=part.n_values) for chunk in chunks)
    counts = sum(counted, np.zeros(part.n_values, dtype=np.int64))
    assert part.collisions is not None
    collisions, q = part.collisions(counts)
    n = int(counts.sum())
    maximum = int(collisions.max())
    p_value = float(stats.binom.sf(maximum - 1, n, q))
    z = (maximum - n * q) / np.sqrt(max(n, 1) * q * (1 - q))
    return ReportTest(float(z), len(collisions), min(len(collisions) * p_value, 1.0), n)


def pair_counts(reports: np.ndarray, channel: Channel, codes: np.ndarray) -> np.ndarray:
    """Return, for each pair of categories, the number of reports that support both categories.

    codes: the positions of the categories.

    Shapes: codes (m,) -> (m, m), int64. The diagonal contains the number of reports that support
    each category.
    """
    # Sums of fewer than 2**24 reports are exact in 32 bits, and much faster than integers.
    x = channel.supports(reports, codes).astype(np.float32)
    return np.rint(x.T @ x).astype(np.int64)


def largest_pair(both: np.ndarray, n: int, channel: Channel, joint: JointSupport) -> ReportTest:
    """Return the test of the pair of categories with the largest z-score.

    both: the numbers of reports that support each pair of categories, from `pair_counts`.

    Shapes: both (m, m).
    """
    v, w = np.triu_indices(len(both), 1)
    single = np.diag(both)
    p = float(channel.p)
    q = float(channel.q)
    gain = (joint.own - joint.other) / (p - q)
    total = single[v] + single[w]
    expected = n * joint.other + gain * (total - 2 * n * q)
    # The summand of a report has three possible values: the report supports both, one or none.
    values = [(k == 2) - joint.other - gain * (k - 2 * q) for k in (2, 1, 0)]
    twice = np.clip(expected, 0, np.minimum(single[v], single[w]))
    reports_of = [twice, total - 2 * twice, n - total + twice]
    terms = list(zip(reports_of, values, strict=True))
    variance = np.sum([m * value**2 for m, value in terms], axis=0)
    third = np.sum([m * value**3 for m, value in terms], axis=0)
    is_random = variance > 1e-9 * max(n, 1)
    if not np.any(is_random):
        return ReportTest(0.0, 0, 1.0, n)
    spread = np.sqrt(variance[is_random])
    z, skew = (both[v, w] - expected)[is_random] / spread, third[is_random] / spread**3
    examined = np.argpartition(z, max(len(z) - _N_EXAMINED, 0))[-_N_EXAMINED:]
    p_value = float(np.min(stats.pearson3.sf(z[examined], skew[examined])))
    return ReportTest(float(z.max()), len(z), min(len(z) * p_value, 1.0), n)


# -- the reports to test -----------------------------------------------------------------------
def _on_column(reports: Any, oracle: OracleOrProtocol, column: Any) -> tuple[Any, Protocol]:
    """Return the reports to test, and the protocol of these reports.

    For a survey with `column`, they are the reports on this column, with the protocol of its
    oracle.
    """
    protocol = as_protocol(oracle)
    if column is None:
        return reports, protocol
    if not isinstance(oracle, BaseColumnSurvey):
        raise TypeError(
            f"Argument column is only for surveys such as ColumnOracle, got {oracle!r}. Leave out "
            "column=."
        )
    survey: Any = protocol.mechanism
    questions = oracle.questions()
    if column not in questions:
        raise ValueError(
            f"{protocol.name} has no column {column!r}. Choose one of "
            f"{', '.join(map(repr, questions))}."
        )
    if survey.n_drawn != 1:
        raise ValueError(
            f"Argument column needs reports on a single column, but users of {protocol.name} "
            "report on several columns, so these reports cannot be tested by column. To test a "
            "column, collect again with n_sampled=1."
        )
    j = list(questions).index(column)
    chunks = (protocol.check(chunk) for chunk in as_chunks(reports, protocol))
    reports_on_question = [survey.reports_on(chunk, j) for chunk in chunks]
    return np.concatenate(reports_on_question), questions[column]


def _checked_chunks(reports: Any, protocol: Protocol) -> Iterator[np.ndarray]:
    """Check the reports, and yield them in chunks.

    A chunk is so small that a matrix of its reports and all categories fits into memory.
    """
    size = max(_CELLS // protocol.domain.size, 1)
    for chunk in as_chunks(reports, protocol):
        for start in range(0, len(chunk), size):
            yield protocol.check(chunk[start : start + size])
