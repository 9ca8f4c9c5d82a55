"""A test for fake users who promote several categories at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from .._typing import Column, OracleOrProtocol
from ..mechanisms._laws import JointSupport, PublicPart
from ..oracles.channels import Channel
from ..protocols import Protocol
from ._of_column import of_column
from ._report_tests import ReportTest, checked_chunks

_MAX_PAIRED = 2048  # categories whose pairs are counted at a time: about 250 MiB
_N_EXAMINED = 1024  # pairs of the largest z-scores, whose p-values are computed
_CELLS = 1 << 22  # reports times categories that are multiplied at a time


def joint_support_test(
    reports: Any, oracle: OracleOrProtocol, *, among: Column | None = None, column: Any = None
) -> ReportTest:
    """Test whether reports support pairs of categories together more often than honest users' do.

    Fake users who promote several categories gain most from reports that support all of them. If
    the joint law of the support :math:`x_v, x_w` of two categories is known (`own`, where the user
    has one of the two, otherwise `other`), then

    .. math:: \\sum_i \\left( x_{iv} x_{iw} - \\mathrm{other} - \\frac{\\mathrm{own} -
              \\mathrm{other}}{p - q} (x_{iv} + x_{iw} - 2 q) \\right)

    has mean 0 whatever the values of the users are. With unary encoding and mixing hashes, it is
    the sum of :math:`(x_{iv} - q) (x_{iw} - q)`. The largest z-score of all pairs is tested, with
    a correction for skewness. With linear hashing the functions that map two categories to one
    value are counted for each difference of categories, and the largest count is tested: it is
    binomial with probability 1/g.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of those
        Reports as returned by the oracle's `privatize`, of at least some thousands of users.
    oracle : oracle or Protocol
        Unfitted, with declared categories.
    among : array-like of categories, default=None
        Categories whose pairs are tested, for example those whose rank matters. None means all of
        them, up to 2,048. Linear hashing ignores it.
    column : object, default=None
        For reports of a survey, the column whose reports are tested, by the law of its own oracle.

    Returns
    -------
    ReportTest
        The result; `statistic` is the largest z-score, and `degrees_of_freedom` the number of
        pairs or differences. The p-value is Bonferroni's for that number, so it tends to be large.
        Where a report supports one category only (:class:`~sklearn_ldp.GRR`), there is nothing to
        test: `has_power` is False and the p-value is 1.

    Raises
    ------
    ValueError
        If a report cannot come from the oracle, or there are too many categories.
    TypeError
        If the oracle's reports have no known joint law.

    See Also
    --------
    support_size_test : A test of the number of categories that a report supports.
    hash_function_test : A test of all functions together.

    Notes
    -----
    The time is :math:`O(n d^2)` in matrix products, for linear hashing :math:`O(n + g^k)`. The test
    does not detect fake users who promote a single category, nor those who follow the protocol and
    lie about their values.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.collection import joint_support_test
    >>> oracle = OUE(1.0, categories=64, random_state=0)
    >>> honest = oracle.privatize(np.zeros(20_000, dtype=int))
    >>> joint_support_test(honest, oracle).p_value > 0.01
    True
    >>> fake = honest[:400].copy()  # two percent look like honest reports, but for three bits
    >>> fake[:, [7, 8, 9]] = 1
    >>> joint_support_test(np.concatenate([honest, fake]), oracle).p_value < 1e-6
    True
    """
    reports, protocol = of_column(reports, oracle, column)
    channel: Any = protocol.mechanism
    if isinstance(channel, Channel):
        part, joint = channel.public_part, channel.joint_support
        if part is not None and part.collisions is not None:
            return _of_functions(reports, protocol, part)
        if joint is not None:
            return _of_pairs(reports, protocol, joint, _paired(among, protocol))
    raise TypeError(
        f"joint_support_test is for mechanisms whose reports have a known joint law for two "
        f"categories; those of {protocol.name} have none. Use support_size_test; of a survey, "
        "name one of its columns: column=..."
    )


def _of_functions(reports: Any, protocol: Protocol, part: PublicPart) -> ReportTest:
    counts = np.zeros(part.n_values, dtype=np.int64)
    for chunk in checked_chunks(reports, protocol):
        counts += np.bincount(part.of_reports(chunk), minlength=part.n_values)
    assert part.collisions is not None
    found, q = part.collisions(counts)
    n, most = int(counts.sum()), int(found.max())
    p_value = float(stats.binom.sf(most - 1, n, q))
    z = (most - n * q) / np.sqrt(max(n, 1) * q * (1 - q))
    return ReportTest(float(z), len(found), min(len(found) * p_value, 1.0), n)


def _paired(among: Column | None, protocol: Protocol) -> np.ndarray:
    """Return the codes of the categories to pair."""
    domain = protocol.domain
    codes = np.arange(domain.size) if among is None else domain.encode(among, "joint_support_test")
    codes = np.unique(codes)
    if len(codes) > _MAX_PAIRED:
        raise ValueError(
            f"joint_support_test counts the pairs of at most {_MAX_PAIRED} categories, got "
            f"{len(codes)}: name fewer in among=, for example those of the highest estimates."
        )
    return codes


def _of_pairs(
    reports: Any, protocol: Protocol, joint: JointSupport, codes: np.ndarray
) -> ReportTest:
    channel: Any = protocol.mechanism
    both, n = np.zeros((len(codes), len(codes)), dtype=np.int64), 0
    for chunk in checked_chunks(reports, protocol):
        both += pair_counts(chunk, channel, codes)
        n += len(chunk)
    return largest_pair(both, n, channel, joint)


def pair_counts(reports: np.ndarray, channel: Channel, codes: np.ndarray) -> np.ndarray:
    """Count the reports that support both of two categories.

    Parameters
    ----------
    reports : ndarray whose first axis is the users
        Checked reports.
    channel : Channel
        Their mechanism.
    codes : ndarray of shape (m,)
        The categories to pair.

    Returns
    -------
    ndarray of shape (m, m)
        int64; on the diagonal, the support of each category.
    """
    both = np.zeros((len(codes), len(codes)), dtype=np.int64)
    size = max(_CELLS // max(len(codes), 1), 1)
    for start in range(0, len(reports), size):
        # Sums of so few reports are exact in 32 bits, and much faster than integers.
        x = channel.supports(reports[start : start + size], codes).astype(np.float32)
        both += np.rint(x.T @ x).astype(np.int64)
    return both


def largest_pair(both: np.ndarray, n: int, channel: Channel, joint: JointSupport) -> ReportTest:
    """Test the pair of categories that are supported together most, for what is expected.

    Parameters
    ----------
    both : ndarray of shape (m, m)
        As returned by `pair_counts`.
    n : int
        Number of reports.
    channel : Channel
        Their mechanism.
    joint : JointSupport
        Its joint law.

    Returns
    -------
    ReportTest
        The result.
    """
    v, w = np.triu_indices(len(both), 1)
    single, p, q = np.diag(both), float(channel.p), float(channel.q)
    gain = (joint.own - joint.other) / (p - q)
    total = single[v] + single[w]
    expected = n * joint.other + gain * (total - 2 * n * q)
    # A report's summand takes three values: where it supports both, one or none of the pair.
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
