"""Post-processors that do not make frequencies sum to 1: Base, Base-Pos, Post-Pos, Base-Cut."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.utils._param_validation import Interval

from .._core.noise import Noise
from ._base import NOISE_CONSTRAINT, BasePostProcessor, per_row, resolve_noise

_Level = TypeVar("_Level", float, np.ndarray)


def base_pos(F: ArrayLike) -> np.ndarray:
    """Set negative estimates to 0 (Base-Pos).

    This is a method of Wang et al., "Locally differentially private frequency estimation with
    consistency", NDSS 2020.

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.

    Returns
    -------
    ndarray of shape (..., d)
        ``max(F, 0)``.
    """
    return np.maximum(F, 0.0)


def base_cut(F: ArrayLike, threshold: ArrayLike) -> np.ndarray:
    """Set estimates below a threshold to 0 (Base-Cut).

    This is a method of Wang et al., "Locally differentially private frequency estimation with
    consistency", NDSS 2020.

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.
    threshold : float or array-like of shape (..., 1)
        Estimates below the threshold become 0.

    Returns
    -------
    ndarray of shape (..., d)
        The estimates that are at least the threshold, and 0 for all other categories.
    """
    F = np.asarray(F, dtype=np.float64)
    return np.where(np.asarray(threshold) <= F, F, 0.0)


def significance_threshold(std: _Level, n_categories: int, alpha: float) -> _Level:
    """Return the threshold that the estimates of about `alpha` categories exceed by chance.

    The number `alpha` is expected if no category has users. This is Eq. 9 of Wang et al., "Locally
    differentially private frequency estimation with consistency", NDSS 2020.

    Parameters
    ----------
    std : float or ndarray
        Noise level of the estimates.
    n_categories : int
        Size d of the domain.
    alpha : float
        Expected number of categories without users whose estimates exceed the threshold.

    Returns
    -------
    float or ndarray
        ``max(0, ndtri(1 - alpha / d)) * std``. The threshold is 0 if ``alpha >= d / 2``.
    """
    # ndtri is odd: the lower tail keeps its digits where alpha / d is tiny.
    quantile = -ndtri(min(alpha / n_categories, 0.5))
    return max(0.0, quantile) * std


class BaseThreshold(BasePostProcessor):
    """Base class of BaseCut and NormHyb.

    `_process` computes one threshold for each row, and passes the rows and thresholds to `_cut`.
    """

    #: A function that applies the thresholds of the rows to the estimates.
    _cut: Callable[[np.ndarray, np.ndarray], np.ndarray]

    _parameter_constraints: dict = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "n_kept": [None, Interval(Integral, 1, None, closed="left")],
        "noise": NOISE_CONSTRAINT,
    }

    def __init__(
        self, alpha: float = 2.0, *, n_kept: int | None = None, noise: float | Noise | None = None
    ) -> None:
        self.alpha = alpha
        self.n_kept = n_kept
        self.noise = noise

    def _process(self, estimate):
        F = estimate.values
        d = estimate.shape[1]
        if self.n_kept is not None:
            k = min(self.n_kept, d)
            threshold = np.maximum(np.partition(F, d - k, axis=1)[:, d - k, None], 0.0)
        else:
            noise = resolve_noise(estimate, self.noise, type(self).__name__)
            std = per_row(noise.std, len(F))[:, None]
            threshold = significance_threshold(std, d, self.alpha)
        self.threshold_: np.ndarray = threshold[:, 0]
        return estimate.with_values(self._cut(F, threshold), by=type(self).__name__)


class Base(BasePostProcessor):
    """No post-processing: the raw estimate of the oracle.

    The raw estimate is unbiased. Estimates may be negative and need not sum to 1. Other
    post-processors accept the result as a raw estimate.

    Attributes
    ----------
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The estimates, unchanged.
    %(fitted)s

    See Also
    --------
    PostPos : Leaves the estimate unchanged, but sets negative answers to queries to 0.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import Base
    >>> Base().fit([[0.75, 0.5, -0.125]]).frequencies_
    array([ 0.75 ,  0.5  , -0.125])
    """

    sums_to_one = False

    def _process(self, estimate):
        return estimate


class BasePos(BasePostProcessor):
    """Set negative estimates to 0.

    For every category, the result is at least as close to the truth as the raw estimate. But the
    estimate of every category gets a positive bias ([1]_, Lemma 1). In the sum over several
    categories, these biases add up.

    Attributes
    ----------
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates; their sum is usually above 1.
    %(fitted)s

    See Also
    --------
    NormSub : Non-negative estimates that sum to 1.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-A,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import BasePos
    >>> BasePos().fit([[0.75, 0.5, -0.125]]).frequencies_
    array([0.75, 0.5 , 0.  ])
    """

    sums_to_one = False

    def _process(self, estimate):
        return estimate.with_values(base_pos(estimate.values), by="BasePos")


class PostPos(BasePostProcessor):
    """Leave the estimate unchanged, and set negative *answers* to queries to 0.

    If a query asks for one category, the answer equals the answer of :class:`BasePos`. If a query
    asks for the total of several categories, the answer is close to the answer of :class:`Base`.
    Answers may contradict each other: the answer for a union of two disjoint groups of categories
    may differ from the sum of the answers for the two groups.

    Attributes
    ----------
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The unchanged estimates. Only ``estimate_.answer`` sets negative answers to 0.
    %(fitted)s

    See Also
    --------
    BasePos : Clips the estimates instead of the answers.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-A,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate, PostPos
    >>> estimate = FrequencyEstimate([[0.75, 0.5, -0.125]], ["a", "b", "c"])
    >>> PostPos().fit_transform(estimate).answer([[1, 1, 0], [0, 0, 1]])
    array([[1.25, 0.  ]])
    """

    sums_to_one = False

    def _process(self, estimate):
        return estimate.with_values(estimate.values, by="PostPos", clip_answers=True)


class BaseCut(BaseThreshold):
    """Set estimates below a significance threshold to 0.

    .. math:: T = \\max\\{0, \\Phi^{-1}(1 - \\alpha / d)\\} \\, \\sigma

    Here d is the number of categories and sigma the noise level ([1]_, Eq. 9). If no category had
    users, `alpha` estimates would be expected above T by chance. Wang et al. [1]_ use an `alpha` of
    2, and recommend this method if each query asks for a single category. With an `alpha` of 0.05,
    T is the threshold of the oracle RAPPOR. Jia and Gong ("Calibrate", INFOCOM 2019) call the
    method with this `alpha` OUE-Zero. Estimates equal to T are not changed.

    Parameters
    ----------
    alpha : float, default=2.0
        Expected number of categories without users whose estimates are not set to 0. It must be
        positive. If `alpha` is at least d/2, T is 0.
    n_kept : int, default=None
        Number of largest estimates that are not set to 0. If `n_kept` is set, `alpha` and the noise
        are not used: T is the n_kept-th largest estimate, or 0 if that estimate is negative.
        Further estimates that equal T are not changed either. If None, T is computed from `alpha`.
    %(noise)s

    Attributes
    ----------
    threshold_ : ndarray of shape (n_estimates,)
        The threshold T of each row.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Estimates that are 0, or at least T. Their sum is not adjusted.
    %(fitted)s

    See Also
    --------
    NormCut : Chooses the threshold such that the sum is at most 1.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-A,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import BaseCut
    >>> cut = BaseCut(alpha=0.05, noise=0.1).fit([[0.75, 0.125, -0.125]])
    >>> cut.frequencies_
    array([0.75, 0.  , 0.  ])
    >>> cut.threshold_.round(3)
    array([0.213])
    """

    sums_to_one = False

    _cut = staticmethod(base_cut)
