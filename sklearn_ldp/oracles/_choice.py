"""The cost and the accuracy of oracles over a domain, and the choice of the best oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from .._core.domains import Categories, Domain
from ._base import BaseOracle
from ._direct import GRR
from ._hadamard import HadamardResponse
from ._local_hashing import BLH, OLH
from ._projective import ProjectiveGeometryResponse
from ._subset import SubsetSelection, best_subset_channel
from ._unary import OUE, SUE

# For larger domains `best_oracle` limits the size of reports, because the most accurate oracle
# reports a large set of categories.
_SMALL_DOMAIN = 1 << 12
_SMALL_REPORT = 64


def _every_oracle() -> list[BaseOracle]:
    hadamard = [HadamardResponse(), HadamardResponse(n_blocks="auto")]
    sets = [ProjectiveGeometryResponse(), SubsetSelection()]
    return [GRR(), SUE(), OUE(), BLH(), OLH(), *hadamard, *sets]


@lru_cache(maxsize=8)
def _prepared(epsilon: float) -> list[BaseOracle]:
    """Return the oracles from which `best_oracle` chooses, with this epsilon and no categories.

    The list is cached, so callers must not change these oracles.
    """
    return [oracle.set_params(epsilon=epsilon) for oracle in _every_oracle()]


@dataclass(frozen=True)
class OracleProfile:
    """The cost and the accuracy of an oracle.

    Parameters
    ----------
    total_variance : float
        The sum, over the categories, of the variance of the estimated frequency, times the number
        of users n. This product does not depend on n.
    minimax_bound : float
        The minimum total variance of any oracle for this epsilon and this number of categories.
    report_bits : int
        Size of a report, in bits.
    decode_operations : int
        Approximate number of operations (its order of magnitude) with which the server computes the
        estimate from n reports.

    Attributes
    ----------
    excess : float
        `total_variance` divided by `minimax_bound`, minus 1. For example, 0.01 means that the
        variance is 1 % above the minimum.
    """

    total_variance: float
    minimax_bound: float
    report_bits: int
    decode_operations: int

    @property
    def excess(self) -> float:
        """`total_variance` divided by `minimax_bound`, minus 1."""
        return self.total_variance / self.minimax_bound - 1


def minimax_bound(epsilon: float, n_categories: int) -> float:
    """Return the minimum total variance of any oracle. :class:`SubsetSelection` attains it.

    Parameters
    ----------
    epsilon : float
        Privacy budget of one report.
    n_categories : int
        Size d of the domain.

    Returns
    -------
    float
        The sum, over the categories, of the variance of the estimated frequency, times the number
        of users n. For this oracle the sum does not depend on the true frequencies.

    References
    ----------
    .. [1] M. Ye, A. Barg, "Optimal schemes for discrete distribution estimation under locally
       differential privacy", IEEE Transactions on Information Theory 64(8), 2018,
       :doi:`10.1109/TIT.2018.2809790`.

    Examples
    --------
    >>> from sklearn_ldp.oracles import minimax_bound
    >>> round(minimax_bound(1.0, 1024), 1)
    3762.7
    """
    return best_subset_channel(n_categories, epsilon).total_variance()


def profile_oracle(
    oracle: BaseOracle,
    n_categories: Categories,
    *,
    frequencies: ArrayLike | None = None,
    n_samples: int = 1_000_000,
) -> OracleProfile:
    """Return the cost and the accuracy of an oracle over a domain, before any data is collected.

    Parameters
    ----------
    oracle : oracle
        The oracle. All its parameters are used except `categories`.
    n_categories : int or Domain
        Size d of the domain, or the domain itself.
    frequencies : array-like of shape (d,), default=None
        True frequencies, for which to compute the variance. For most oracles the total variance
        does not depend on them; an exception is :class:`HadamardResponse` with ``n_blocks > 1``. If
        None, use equal frequencies.
    n_samples : int, default=1_000_000
        Number n of reports, for which to compute `decode_operations`.

    Returns
    -------
    OracleProfile
        The total variance, the size of a report, and the number of operations of the server.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.oracles import profile_oracle
    >>> profile = profile_oracle(OLH(epsilon=1.0), 1024)
    >>> round(profile.total_variance, 1), profile.report_bits, round(profile.excess, 3)
    (3781.5, 13, 0.005)
    """
    channel = oracle.channel(n_categories)
    total = channel.total_variance(frequencies)
    bound = minimax_bound(oracle.epsilon, channel.n_categories)
    return OracleProfile(total, bound, channel.report_bits, channel.decode_operations(n_samples))


def best_oracle(
    epsilon: float,
    categories: Categories,
    *,
    max_report_bits: float | None = None,
    max_decode_operations: float = math.inf,
    n_samples: int = 1_000_000,
    candidates: Sequence[BaseOracle] | None = None,
) -> BaseOracle:
    """Choose the most accurate oracle whose reports are of a reasonable size.

    The package recommends this oracle, and classes that need a default oracle use it. The function
    chooses the oracle with the minimum total variance: the sum of the variances of the estimated
    frequencies. For few categories (up to 5 at epsilon 1, and up to 29 at epsilon 3) this is
    :class:`~sklearn_ldp.GRR`. For more categories it is :class:`~sklearn_ldp.SubsetSelection`, with
    reports of at most one bit per category. For more than 4,096 categories, reports are limited to
    64 bits. The choice is then :class:`~sklearn_ldp.ProjectiveGeometryResponse` or
    :class:`~sklearn_ldp.OLH`; up to epsilon 4 their variance is less than 1 % above the minimum. If
    several oracles are within 0.01 % of the minimum variance, the function chooses the oracle with
    the smallest reports.

    The client for web browsers (:func:`~sklearn_ldp.collection.client_module`) supports all of
    these oracles except :class:`~sklearn_ldp.ProjectiveGeometryResponse`. In a browser, use
    :class:`~sklearn_ldp.OLH` instead.

    Parameters
    ----------
    epsilon : float
        Privacy budget of one report.
    categories : int or array-like of shape (d,)
        The public domain. An int d means the categories ``0 .. d-1``.
    max_report_bits : float, default=None
        Maximum number of bits of a report. If None, there is no limit for up to 4,096 categories,
        and a limit of 64 bits for more categories. Specify 64 if reports must be small.
    max_decode_operations : float, default=inf
        Maximum number of operations (in order of magnitude) with which the server computes the
        estimate from `n_samples` reports.
    n_samples : int, default=1_000_000
        Number of reports that the server expects.
    candidates : list of oracles, default=None
        The oracles to choose from. The function copies them, and sets `epsilon` and `categories` of
        the copies. If None, choose from all oracles of this kind in the package: GRR, SUE, OUE,
        BLH, OLH, HadamardResponse, ProjectiveGeometryResponse and SubsetSelection.

    Returns
    -------
    oracle
        The chosen oracle. It is unfitted, and has this epsilon and these categories.

    Raises
    ------
    TypeError
        If `epsilon` is not a number, or if `categories` is a number that is not an integer.
    ValueError
        If each oracle exceeds `max_report_bits` or `max_decode_operations`.

    Examples
    --------
    >>> from sklearn_ldp import best_oracle
    >>> best_oracle(4.0, 16)
    GRR(categories=16, epsilon=4.0)
    >>> best_oracle(1.0, 51)
    SubsetSelection(categories=51)
    >>> best_oracle(1.0, 1024, max_report_bits=64)
    ProjectiveGeometryResponse(categories=1024)
    """
    are_swapped = isinstance(categories, Real) and not isinstance(categories, Integral)
    if are_swapped or isinstance(epsilon, bool) or not isinstance(epsilon, Real):
        raise TypeError(
            "best_oracle expects two arguments: first epsilon (a number), then the categories (an "
            f"integer or a list). It got {epsilon!r} and {categories!r}. For example, call "
            "best_oracle(1.0, categories)."
        )
    domain = Domain.of(categories, "best_oracle")
    if max_report_bits is None:
        max_report_bits = _SMALL_REPORT if domain.size > _SMALL_DOMAIN else math.inf
    if candidates is None:
        candidates = _prepared(epsilon)
        channels = [candidates[0].channel(domain)]  # checks epsilon and the domain for all
        channels += [oracle._make_mechanism(domain) for oracle in candidates[1:]]
    else:
        # An oracle with input="reports" refuses another epsilon in its own `set_params`.
        candidates = [BaseEstimator.set_params(clone(c), epsilon=epsilon) for c in candidates]
        channels = [oracle.channel(domain) for oracle in candidates]
    bits = [channel.report_bits for channel in channels]
    operations = [channel.decode_operations(n_samples) for channel in channels]
    small = [i for i, n_bits in enumerate(bits) if n_bits <= max_report_bits]
    affordable = [i for i in small if operations[i] <= max_decode_operations]
    if not affordable:
        raise ValueError(
            f"best_oracle: no oracle has at most max_report_bits={max_report_bits} bits per report "
            f"and needs at most max_decode_operations={max_decode_operations:.3g} operations. Pass "
            f"larger limits: the smallest report has {min(bits)} bits, and the fastest decoding "
            f"needs {min(operations):.3g} operations."
        )
    variances = {i: channels[i].total_variance() for i in affordable}
    max_variance = min(variances.values()) * 1.0001
    best = min((i for i in affordable if variances[i] <= max_variance), key=lambda i: (bits[i], i))
    return clone(candidates[best]).set_params(categories=categories)


def compare_oracles(
    epsilon: float, n_categories: int, *, candidates: Sequence[BaseOracle] | None = None
) -> dict[str, np.ndarray]:
    """Compare the accuracy and the cost of several oracles.

    Parameters
    ----------
    epsilon : float
        Privacy budget of one report.
    n_categories : int
        Size d of the domain.
    candidates : list of oracles, default=None
        The oracles to compare. The function copies them, and sets `epsilon` of the copies. If None,
        compare all oracles from which :func:`~sklearn_ldp.best_oracle` chooses.

    Returns
    -------
    dict of ndarray
        A table as a dictionary of columns, with one row per oracle. The columns are "oracle" (its
        repr) and the fields of :class:`~sklearn_ldp.oracles.OracleProfile`: "total_variance",
        "excess", "report_bits", and "decode_operations" for a million reports.

    Examples
    --------
    >>> from sklearn_ldp.oracles import compare_oracles
    >>> table = compare_oracles(1.0, 1024)
    >>> str(table["oracle"][table["excess"].argmin()])
    'SubsetSelection()'
    """
    candidates = _every_oracle() if candidates is None else candidates
    planned = [BaseEstimator.set_params(clone(c), epsilon=epsilon) for c in candidates]
    profiles = [profile_oracle(oracle, n_categories) for oracle in planned]
    columns = {"oracle": np.array([repr(candidate) for candidate in candidates])}
    for name in ("total_variance", "excess", "report_bits", "decode_operations"):
        columns[name] = np.array([getattr(profile, name) for profile in profiles])
    return columns
