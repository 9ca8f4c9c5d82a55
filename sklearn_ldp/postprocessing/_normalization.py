"""Post-processors that adjust the sum to 1: Norm, Norm-Mul, Norm-Sub, Norm-Cut and others."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._core.numerics.simplex import norm_shift, norm_sub, project
from ._base import BasePostProcessor
from ._baseline import BaseThreshold, base_cut, base_pos


def norm_mul(F: ArrayLike) -> np.ndarray:
    """Set negative estimates to 0 and scale the rest to sum to 1 (Norm-Mul; NDSS 2020).

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.

    Returns
    -------
    ndarray of shape (..., d)
        Rows of non-negative frequencies that sum to 1. A row without any positive estimate becomes
        uniform.
    """
    return _scaled(np.maximum(F, 0.0))[0]


def _scaled(positive):
    """Return non-negative rows scaled to sum to 1, and the factor of each row."""
    total = positive.sum(axis=-1, keepdims=True)
    # Scaling to the largest first keeps the smallest numbers from overflowing.
    with np.errstate(divide="ignore", over="ignore"):
        factor = np.where(total > 0, 1.0 / total, np.inf)
    peak = positive.max(axis=-1, keepdims=True)
    relative = np.where(peak > 0, positive / np.where(peak > 0, peak, 1.0), 1.0)
    return relative / relative.sum(axis=-1, keepdims=True), factor


def norm_cut(F: ArrayLike, *, rescale: bool = False) -> np.ndarray:
    """Set negative and small estimates to 0 so that the rest sums to at most 1 (Norm-Cut).

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.
    rescale : bool, default=False
        Whether to keep also the estimate with which the sum of the largest estimates exceeds 1, and
        then to divide the kept estimates by their sum.

    Returns
    -------
    ndarray of shape (..., d)
        The kept estimates, and 0 for all others.
    """
    F = np.asarray(F, dtype=np.float64)
    return _cut(F, rescale)[0]


def _cut(F, rescale):
    """Return the result of `norm_cut`, and the threshold of each row."""
    threshold = crossing_threshold(F) if rescale else norm_cut_threshold(F)
    kept = base_cut(F, threshold)
    return norm_mul(kept) if rescale else kept, threshold


def crossing_threshold(F):
    """Return the largest estimate at which the sum of this and all larger estimates exceeds 1.

    Shapes: F (..., d) -> (..., 1).
    """
    falling = -np.sort(-np.maximum(F, 0.0), axis=-1)
    n_below = np.count_nonzero(np.cumsum(falling, axis=-1) <= 1.0 + 1e-12, axis=-1, keepdims=True)
    last = np.take_along_axis(falling, np.minimum(n_below, F.shape[-1] - 1), axis=-1)
    return np.where(n_below < F.shape[-1], last, 0.0)


def norm_cut_threshold(F):
    """Return the smallest estimate that `norm_cut` keeps in each row.

    Shapes: F (..., d) -> (..., 1).
    Returns: 0 if all positive estimates are kept, inf if not even the largest can be kept.
    """
    # Counts are integers, so ties are common: tied estimates are kept or cut together.
    falling = -np.sort(-np.maximum(F, 0.0), axis=-1)
    total = np.cumsum(falling, axis=-1)
    follower = np.concatenate([falling[..., 1:], np.full_like(falling[..., :1], -1.0)], axis=-1)
    # A sum of exactly 1 must pass in spite of rounding; zeros never cost anything.
    can_end = (total <= 1.0 + 1e-12) & (falling > follower)
    n_kept = np.where(can_end, np.arange(1, F.shape[-1] + 1), 0).max(axis=-1, keepdims=True)
    last = np.take_along_axis(falling, np.maximum(n_kept - 1, 0), axis=-1)
    last = np.where(n_kept == F.shape[-1], 0.0, last)
    return np.where(n_kept > 0, last, np.inf)


def norm_hyb(F: ArrayLike, threshold: ArrayLike) -> np.ndarray:
    """Keep estimates above a threshold and apply Norm-Sub to the others (Norm-Hyb).

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.
    threshold : float or array-like of shape (..., 1)
        Positive estimates that are at least the threshold are kept, from the largest down, as long
        as their sum is at most 1.

    Returns
    -------
    ndarray of shape (..., d)
        Rows of non-negative frequencies that sum to 1. If the others would have to be raised above
        a kept estimate, or if there are no others for the rest of the sum, the row is the result of
        Norm-Sub.
    """
    F = np.asarray(F, dtype=np.float64)
    kept = (np.asarray(threshold) <= F) & (F > 0)
    kept &= norm_cut_threshold(np.where(kept, F, 0.0)) <= F
    kept_sum = np.where(kept, F, 0.0).sum(axis=-1, keepdims=True)
    # A row without others has no largest other estimate; it is replaced below.
    others = ~kept | kept.all(axis=-1, keepdims=True)
    rest, _ = project(F, np.maximum(1.0 - kept_sum, 0.0), others)
    lowest_kept = np.where(kept, F, np.inf).min(axis=-1, keepdims=True)
    highest_other = np.where(kept, 0.0, rest).max(axis=-1, keepdims=True)
    is_hybrid = ~kept.all(axis=-1, keepdims=True) & (highest_other <= lowest_kept)
    return np.where(is_hybrid, np.where(kept, F, rest), norm_sub(F))


class Norm(BasePostProcessor):
    """Add the same amount to every estimate so that they sum to 1.

    The result is unbiased ([1]_, Lemma 3) and has slightly less variance than the raw estimate.
    Estimates may stay negative. Wang et al. [1]_ recommend this method for the frequencies of
    frequent categories. Estimates of :class:`GRR` do not change, because they sum to 1 anyway.

    Attributes
    ----------
    shift_ : ndarray of shape (n_estimates,)
        The amount that was added to each estimate of a row.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    NormSub : Makes the estimates non-negative as well.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-B,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import Norm
    >>> Norm().fit([[0.75, 0.5, -0.625]]).frequencies_
    array([ 0.875,  0.625, -0.5  ])
    """

    def _process(self, estimate):
        shift = norm_shift(estimate.values)
        self.shift_: np.ndarray = shift[:, 0]
        return estimate.with_values(estimate.values + shift, by="Norm")


class NormMul(BasePostProcessor):
    """Set negative estimates to 0 and scale the rest so that they sum to 1.

    The larger a frequency, the more it is underestimated: in the experiments of Wang et al. [1]_
    this is the worst method on skewed data. If no estimate is positive, the result is uniform.

    Attributes
    ----------
    factor_ : ndarray of shape (n_estimates,)
        The factor by which the positive estimates of a row were multiplied; inf if there are none.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    NormSub : Shifts instead of scaling.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-B,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import NormMul
    >>> NormMul().fit([[0.75, 0.5, -0.125]]).frequencies_
    array([0.6, 0.4, 0. ])
    """

    def _process(self, estimate):
        values, factor = _scaled(base_pos(estimate.values))
        self.factor_: np.ndarray = factor[:, 0]
        return estimate.with_values(values, by="NormMul")


class NormSub(BasePostProcessor):
    """Project the estimates on the simplex: shift them, and set negative ones to 0.

    The result is the nearest distribution in Euclidean distance ([1]_, section IV-C), and
    maximizes the likelihood if the noise does not depend on the frequency. It is a sound default.

    Attributes
    ----------
    shift_ : ndarray of shape (n_estimates,)
        The amount that was added to each positive estimate of a row.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    Norm : Only shifts, so that estimates may be negative.
    NormMul : Scales instead of shifting.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, sections IV-B and IV-C,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import NormSub
    >>> NormSub().fit([[0.75, 0.5, -0.125]]).frequencies_
    array([0.625, 0.375, 0.   ])
    """

    def _process(self, estimate):
        values, shift = project(estimate.values)
        self.shift_: np.ndarray = shift[:, 0]
        return estimate.with_values(values, by=type(self).__name__)


class NormCut(BasePostProcessor):
    """Set negative and small estimates to 0 so that the rest sums to at most 1.

    Frequent categories keep their unbiased estimates. An estimate is either kept or set to 0, so
    the sum usually stays somewhat below 1. If the positive estimates sum to 1 or less, this is
    Base-Pos. If the largest estimate (or the sum of the largest estimates, if they are equal) is
    above 1, all estimates become 0.

    The published code of Wang et al. uses another method, which ``rescale=True`` selects. It also
    keeps the estimate with which the sum exceeds 1, and divides the kept estimates by their sum.
    The result sums to 1, and the frequent categories are no longer unbiased. Figure 2 of [1]_ shows
    a sum of biases of 0 for Norm-Cut, which only the method of the code has.

    Parameters
    ----------
    rescale : bool, default=False
        Whether to keep also the estimate with which the sum exceeds 1 (and estimates equal to it),
        and to divide by the sum, so that the result always sums to 1. A row without any positive
        estimate then becomes uniform. If the sum exceeds 1 within several equal estimates (in 4 of
        60 collections), the authors' code keeps some of them, by their order; this class treats
        them equally.

    Attributes
    ----------
    threshold_ : ndarray of shape (n_estimates,)
        The smallest estimate that is kept in a row, before the division; 0 if all positive
        estimates are kept, inf if no estimate is kept.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to at most 1, or to exactly 1 with ``rescale=True``.
    %(fitted)s

    See Also
    --------
    BaseCut : Derives the threshold from the noise level.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-B,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import NormCut
    >>> NormCut().fit([[0.5, 0.375, 0.25, -0.125]]).frequencies_
    array([0.5  , 0.375, 0.   , 0.   ])
    >>> NormCut(rescale=True).fit([[0.5, 0.375, 0.25, -0.125]]).frequencies_.round(3)
    array([0.444, 0.333, 0.222, 0.   ])
    """

    _parameter_constraints: dict = {"rescale": ["boolean"]}

    def __init__(self, *, rescale: bool = False) -> None:
        self.rescale = rescale

    def _process(self, estimate):
        values, threshold = _cut(estimate.values, self.rescale)
        self.threshold_: np.ndarray = threshold[:, 0]
        return estimate.with_values(values, by="NormCut")


class NormHyb(BaseThreshold):
    """Keep the estimates above a threshold, and apply Norm-Sub to the others.

    Frequent categories keep their unbiased estimates, and the result is non-negative and sums to 1
    nevertheless. The threshold is the threshold of :class:`BaseCut`. If the estimates above it sum
    to more than 1, only the largest of them are kept, as long as their sum is at most 1. Equal
    estimates are kept or not kept together.

    If the other estimates would have to be raised above a kept estimate, the row is the result of
    Norm-Sub. So the order of the estimates is always preserved, as the paper [1]_ promises.

    Parameters
    ----------
    alpha : float, default=2.0
        Expected number of categories without users above the threshold, > 0; see
        :class:`BaseCut`.
    n_kept : int, default=None
        Number of largest estimates to keep. `alpha` and the noise are then not used.
    %(noise)s

    Attributes
    ----------
    threshold_ : ndarray of shape (n_estimates,)
        The threshold of each row.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    NormSub : Shifts the large estimates too.
    BaseCut : Sets the small estimates to 0.

    References
    ----------
    .. [1] T. Wang, Z. Li, N. Li, M. Lopuhaä-Zwakenberg, B. Skoric, "Consistent and accurate
       frequency oracles under local differential privacy", 2019, section 3.3,
       https://arxiv.org/abs/1905.08320

    Examples
    --------
    >>> from sklearn_ldp import NormHyb
    >>> NormHyb(n_kept=1).fit([[0.5, 0.375, 0.25, -0.125]]).frequencies_
    array([0.5   , 0.3125, 0.1875, 0.    ])
    """

    _cut = staticmethod(norm_hyb)


class CLS(NormSub):
    """Constrained least squares: the nearest distribution in Euclidean distance.

    The solution is the result of :class:`NormSub` ([1]_, section IV-C and Appendix A). This class
    exists because the literature uses this name.

    Attributes
    ----------
    shift_ : ndarray of shape (n_estimates,)
        The amount that was added to each positive estimate of a row.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    %(fitted)s

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-C,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import CLS
    >>> CLS().fit([[0.75, 0.5, -0.125]]).frequencies_
    array([0.625, 0.375, 0.   ])
    """
