"""Post-processors that change the sum of the frequencies to 1, or to at most 1.

They are Norm, NormMul, NormSub, NormCut, NormHyb and CLS.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._core.numerics.simplex import norm_shift, norm_sub, project
from ._base import BasePostProcessor
from ._baseline import BaseThreshold, base_cut, base_pos


def norm_mul(F: ArrayLike) -> np.ndarray:
    """Set negative estimates to 0 and divide the others by their sum (Norm-Mul).

    This is a method of Wang et al., "Locally differentially private frequency estimation with
    consistency", NDSS 2020.

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
    """Divide each row of non-negative numbers by its sum.

    Return the rows, which sum to 1, and the factor by which each row was multiplied.
    """
    total = positive.sum(axis=-1, keepdims=True)
    # Scaling to the largest first keeps the smallest numbers from overflowing.
    with np.errstate(divide="ignore", over="ignore"):
        factor = np.where(total > 0, 1.0 / total, np.inf)
    peak = positive.max(axis=-1, keepdims=True)
    relative = np.where(peak > 0, positive / np.where(peak > 0, peak, 1.0), 1.0)
    return relative / relative.sum(axis=-1, keepdims=True), factor


def norm_cut(F: ArrayLike, *, rescale: bool = False) -> np.ndarray:
    """Keep the largest positive estimates whose sum is at most 1; set all others to 0 (Norm-Cut).

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.
    rescale : bool, default=False
        If True, the next largest estimate is kept as well, although the sum then exceeds 1.
        Afterwards the kept estimates are divided by their sum.

    Returns
    -------
    ndarray of shape (..., d)
        The kept estimates, and 0 for all other categories.
    """
    F = np.asarray(F, dtype=np.float64)
    return _cut(F, rescale)[0]


def _cut(F, rescale):
    """Return the result of `norm_cut`, and the smallest estimate that is kept in each row."""
    threshold = crossing_threshold(F) if rescale else norm_cut_threshold(F)
    kept = base_cut(F, threshold)
    return norm_mul(kept) if rescale else kept, threshold


def crossing_threshold(F):
    """Add the estimates of each row from the largest to the smallest, until the sum exceeds 1.

    Return the last estimate that was added, or 0 if the sum of all positive estimates is at most 1.
    Shapes: F (..., d) -> (..., 1).
    """
    falling = -np.sort(-np.maximum(F, 0.0), axis=-1)
    n_below = np.count_nonzero(np.cumsum(falling, axis=-1) <= 1.0 + 1e-12, axis=-1, keepdims=True)
    last = np.take_along_axis(falling, np.minimum(n_below, F.shape[-1] - 1), axis=-1)
    return np.where(n_below < F.shape[-1], last, 0.0)


def norm_cut_threshold(F):
    """Return the smallest estimate that `norm_cut` keeps in each row.

    Shapes: F (..., d) -> (..., 1).
    The result is 0 if all positive estimates are kept, and inf if no estimate is kept because the
    largest estimate exceeds 1.
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
    """Keep the estimates above a threshold and apply Norm-Sub to all others (Norm-Hyb).

    The sum of each row is 1. The method is described in :class:`NormHyb`.

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.
    threshold : float or array-like of shape (..., 1)
        Positive estimates that are at least the threshold are kept. If their sum exceeds 1, only
        the largest of them are kept, such that the sum is at most 1.

    Returns
    -------
    ndarray of shape (..., d)
        Rows of non-negative frequencies that sum to 1. In two cases the whole row is the result of
        Norm-Sub: if an estimate that is not kept would become larger than a kept estimate, or if
        all estimates are kept.
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

    The result is unbiased ([1]_, Lemma 3) and has a slightly smaller variance than the raw
    estimate. Estimates may be negative. Wang et al. [1]_ recommend this method for the frequencies
    of frequent categories. Estimates of :class:`GRR` do not change, because they already sum to 1.

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
    """Set negative estimates to 0 and divide the positive estimates by their sum.

    The larger a frequency is, the more this method underestimates it. In the experiments of Wang et
    al. [1]_ this is the worst method on skewed data. If no estimate is positive, all frequencies of
    the result are equal.

    Attributes
    ----------
    factor_ : ndarray of shape (n_estimates,)
        The factor by which the positive estimates of each row were multiplied. It is inf if a row
        has no positive estimate.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    NormSub : Subtracts the same amount from all positive estimates instead of dividing them.

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
    """Add the same amount to all estimates, and set negative results to 0, so that the sum is 1.

    Among all rows of non-negative frequencies that sum to 1, the result has the smallest Euclidean
    distance from the estimate ([1]_, section IV-C). It also maximizes the likelihood if the noise
    is normal and its variance does not depend on the frequency. This method is a good default.

    Attributes
    ----------
    shift_ : ndarray of shape (n_estimates,)
        The amount that was added to each positive estimate of a row.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    Norm : Adds an amount without setting negative results to 0.
    NormMul : Divides the positive estimates by their sum instead of adding an amount.

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
    """Keep the largest positive estimates whose sum is at most 1, and set all others to 0.

    Frequent categories keep their unbiased estimates. The sum of the result is usually somewhat
    below 1. If the positive estimates sum to at most 1, the result is the result of
    :class:`BasePos`. Equal estimates are either all kept or all set to 0. All estimates become 0 if
    the largest estimate exceeds 1, or if several estimates are equally large and their sum exceeds
    1.

    The published code of Wang et al. contains another method, which ``rescale=True`` selects. It
    keeps one more estimate, with which the sum exceeds 1, and divides the kept estimates by their
    sum. The result then sums to 1, and the estimates of frequent categories are biased. Figure 2
    of [1]_ shows for Norm-Cut that the biases of all categories sum to 0. This is only true for the
    method of the code.

    Parameters
    ----------
    rescale : bool, default=False
        If True, the next largest estimate is kept as well, although the sum then exceeds 1, and the
        kept estimates are divided by their sum, so that the result always sums to 1. In a row
        without a positive estimate, all frequencies become equal. If several estimates equal the
        next largest estimate (in 4 of 60 simulated collections), this class keeps all of them,
        while the authors' code keeps only the first of them.

    Attributes
    ----------
    threshold_ : ndarray of shape (n_estimates,)
        The smallest estimate that is kept in each row, before the division. It is 0 if all positive
        estimates are kept, and inf if no estimate is kept.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to at most 1, or to exactly 1 with ``rescale=True``.
    %(fitted)s

    See Also
    --------
    BaseCut : Computes the threshold from the noise level.

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
    """Keep the estimates above a threshold, and apply Norm-Sub to all other estimates.

    Frequent categories keep their unbiased estimates, and the result is still non-negative and sums
    to 1. The threshold is the threshold of :class:`BaseCut`. If the estimates above the threshold
    sum to more than 1, only the largest of them are kept, such that their sum is at most 1. Equal
    estimates are either all kept or all not kept.

    If an estimate that is not kept would become larger than a kept estimate, the whole row is the
    result of Norm-Sub. Therefore the order of the estimates is always preserved, as the paper [1]_
    promises. The whole row is also the result of Norm-Sub if all estimates are kept.

    Parameters
    ----------
    alpha : float, default=2.0
        Expected number of categories without users whose estimates exceed the threshold. It must be
        positive. See :class:`BaseCut`.
    n_kept : int, default=None
        Number of largest estimates to keep. If `n_kept` is set, `alpha` and the noise are not used.
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
    NormSub : Changes the large estimates as well.
    BaseCut : Sets all estimates below the threshold to 0.

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
    """Constrained least squares: the distribution with the smallest Euclidean distance.

    Among all rows of non-negative frequencies that sum to 1, the result is closest to the estimate.
    This is the result of :class:`NormSub` ([1]_, section IV-C and Appendix A). The class exists
    because the literature uses the name CLS.

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
