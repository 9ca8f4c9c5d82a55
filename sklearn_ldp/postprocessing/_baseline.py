"""Post-processors that leave the sum alone: Base, Base-Pos, Post-Pos, Base-Cut."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils._param_validation import Interval

from ._base import BasePostProcessor, noise_level


def base_pos(F: Any) -> np.ndarray:
    """Turn negative estimates to 0 (2020 paper, Base-Pos).

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


def base_cut(F: Any, threshold: Any) -> np.ndarray:
    """Turn estimates below a threshold to 0 (2020 paper, Base-Cut).

    Parameters
    ----------
    F : array-like of shape (..., d)
        Estimated frequencies.
    threshold : float or array-like of shape (..., 1)
        What is kept: estimates at or above it.

    Returns
    -------
    ndarray of shape (..., d)
        The estimates that are kept, and zeros.
    """
    F = np.asarray(F, dtype=np.float64)
    return np.where(threshold <= F, F, 0.0)


def significance_threshold(std: Any, n_categories: int, alpha: float) -> Any:
    """Threshold that `alpha` categories of frequency 0 are expected to pass (2020 paper, Eq. 9).

    Parameters
    ----------
    std : float or ndarray
        Noise level of the estimates.
    n_categories : int
        Size d of the domain.
    alpha : float
        Expected number of false positives if nobody had any category.

    Returns
    -------
    float or ndarray
        ``max(0, ndtri(1 - alpha / d)) * std``; 0 from ``alpha = d / 2`` on.
    """
    # ndtri is odd: the lower tail keeps its digits where alpha / d is tiny.
    quantile = -ndtri(min(alpha / n_categories, 0.5))
    return max(0.0, quantile) * std


def cut_threshold(postprocessor, estimate):
    """Threshold of each row from the parameters `alpha`, `n_kept` and `std` of a post-processor.

    Parameters
    ----------
    postprocessor : BaseCut or NormHyb
        Whose parameters count.
    estimate : FrequencyEstimate
        The rows.

    Returns
    -------
    ndarray of shape (n_estimates, 1)
        The significance threshold, or the n_kept-th largest estimate if that is positive.
    """
    F, d = estimate.values, estimate.shape[1]
    if postprocessor.n_kept is not None:
        k = min(postprocessor.n_kept, d)
        return np.maximum(np.partition(F, d - k, axis=1)[:, d - k, None], 0.0)
    std = noise_level(estimate, postprocessor.std, type(postprocessor).__name__)
    threshold = significance_threshold(std, d, postprocessor.alpha)
    return np.broadcast_to(threshold, (len(F), 1))


class Base(BasePostProcessor):
    """No post-processing: the raw estimate of the oracle.

    Unbiased, with the variance of the oracle; estimates may be negative, and need not sum to 1.

    Attributes
    ----------
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The estimates as they came.
    estimate_ : FrequencyEstimate
        The same with its noise level.
    n_features_in_ : int
        Number of categories.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they have any.

    See Also
    --------
    PostPos : Leaves the estimate too, and clips the answers.

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

    def _process(self, estimate):
        return estimate, {}


class BasePos(BasePostProcessor):
    """Turn negative estimates to 0.

    Never further from the truth than the raw estimate, category by category; but every category
    gets a positive bias (2020 paper, Lemma 1), which adds up over sets.

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

    def _process(self, estimate):
        return estimate.with_values(base_pos(estimate.values), by="BasePos"), {}


class PostPos(BasePostProcessor):
    """Leave the estimate, and turn negative *answers* to queries to 0.

    Equal to Base-Pos on single categories, and close to Base on sets. Answers may contradict each
    other: that on a union of disjoint sets need not be the sum of theirs.

    Attributes
    ----------
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The estimates as they came.
    estimate_ : FrequencyEstimate
        The same; its `answer` clips at 0.
    n_features_in_ : int
        Number of categories.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they have any.

    See Also
    --------
    BasePos : Clips the estimates rather than the answers.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-A,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate, PostPos
    >>> from sklearn_ldp.queries import groups
    >>> estimate = FrequencyEstimate([[0.75, 0.5, -0.125]], ["a", "b", "c"])
    >>> PostPos().fit_transform(estimate).answer(groups([1, 1, 2]))
    array([[1.25, 0.  ]])
    """

    def _process(self, estimate):
        return estimate.with_values(estimate.values, by="PostPos", clip_answers=True), {}


class BaseCut(BasePostProcessor):
    """Turn estimates below a significance threshold to 0.

    .. math:: T = \\max\\{0, \\Phi^{-1}(1 - \\alpha / d)\\} \\, \\sigma

    (2020 paper, Eq. 9), so that about `alpha` of the categories that nobody has pass. The papers
    take 2, and recommend it for queries of single categories; 0.05 is the threshold of RAPPOR
    (OUE-Zero in the Calibrate paper). Estimates at the threshold stay.

    Parameters
    ----------
    alpha : float, default=2.0
        Expected number of false positives, > 0; from d/2 on, T is 0.
    n_kept : int, default=None
        Keep this many of the largest estimates instead: T is the n_kept-th largest estimate, or 0
        if that is negative. Estimates tied with it stay.
    std : float or array-like of shape (n_estimates,), default=None
        Noise level; None takes it from the estimate.

    Attributes
    ----------
    threshold_ : ndarray of shape (n_estimates,)
        The threshold T of each row.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Estimates that are 0, or at least T; their sum is whatever it is.
    %(fitted)s

    See Also
    --------
    NormCut : The threshold that makes the sum at most 1.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-A,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import BaseCut
    >>> cut = BaseCut(alpha=0.05, std=0.1).fit([[0.75, 0.125, -0.125]])
    >>> cut.frequencies_
    array([0.75, 0.  , 0.  ])
    >>> cut.threshold_.round(3)
    array([0.213])
    """

    _parameter_constraints: dict = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "n_kept": [None, Interval(Integral, 1, None, closed="left")],
        "std": [None, Real, "array-like"],
    }

    def __init__(self, alpha: float = 2.0, *, n_kept: int | None = None, std: Any = None) -> None:
        self.alpha = alpha
        self.n_kept = n_kept
        self.std = std

    def _process(self, estimate):
        threshold = cut_threshold(self, estimate)
        kept = estimate.with_values(base_cut(estimate.values, threshold), by="BaseCut")
        return kept, {"threshold": threshold[:, 0].copy()}
