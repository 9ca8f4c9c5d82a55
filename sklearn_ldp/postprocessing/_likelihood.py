"""Maximum likelihood estimates of frequencies that are not negative and sum to 1.

MLEApx approximates the noise as normal. ExactMLE uses the exact distribution of the reports.
"""

from __future__ import annotations

import math
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from .._core.estimates import FrequencyEstimate
from .._core.noise import Noise
from .._core.numerics.simplex import norm_sub
from ..oracles.channels import ReportLaw
from ._base import NOISE_CONSTRAINT, BasePostProcessor, resolve_noise


def mle_apx(F: ArrayLike, null_variance: float, slope: float) -> np.ndarray:
    """Return the most likely frequencies that sum to 1, with the noise approximated as normal.

    Let f~_v be the raw estimate of category v, and f'_v the result for this category. Let p be the
    probability that a report supports the user's own category, and q the probability that it
    supports a certain other category. Let a be `null_variance` and b be `slope`. The result
    minimizes ``sum_v (f'_v - f~_v)**2 / (a + b f'_v)`` (Eq. 13 of Wang et al., "Consistent and
    accurate frequency oracles under local differential privacy", 2019). Let D1 be the set of the
    categories with a positive result, which have the largest raw estimates. For these categories,

    .. math:: f'_v = \\frac{\\tilde f_v + a x}{1 - b x}, \\qquad
              x = \\frac{1 - \\sum_{D_1} \\tilde f_v}{|D_1| a + b},

    This is Eq. 12 of Wang et al., "Locally differentially private frequency estimation with
    consistency", NDSS 2020. The formula for x in that paper has a sign error: with it, the result
    does not sum to 1.

    Parameters
    ----------
    F : array-like of shape (..., d)
        Raw estimates of frequencies.
    null_variance : float
        The number a: n times the variance of an estimate whose true frequency is 0, which is
        ``q (1 - q) / (p - q)**2``. Here n is the number of users.
    slope : float
        The number b: n times the variance is ``a + b f`` at frequency f, with
        ``b = (1 - p - q) / (p - q)``.

    Returns
    -------
    ndarray of shape (..., d)
        Rows of non-negative frequencies that sum to 1.
    """
    rows = np.asarray(F, dtype=np.float64)
    # If there is no noise at frequency 1 (a huge epsilon), a tiny one is assumed.
    a = null_variance
    b = max(slope, -null_variance * (1 - 1e-9))
    # Estimates with a negative variance are clipped; a raw estimate has none.
    if b:
        edge = -a / b * (1 - 1e-9)
        rows = np.maximum(rows, edge) if b > 0 else np.minimum(rows, edge)
    falling = -np.sort(-rows, axis=-1)
    size = np.arange(1, rows.shape[-1] + 1)
    x = (1.0 - np.cumsum(falling, axis=-1)) / (size * a + b)
    n_support = np.count_nonzero(falling + a * x > 0, axis=-1, keepdims=True)
    x = np.take_along_axis(x, n_support - 1, axis=-1)
    result = np.maximum((rows + a * x) / (1.0 - b * x), 0.0)
    # The sum is 1 up to rounding errors, which clipped estimates magnify.
    return result / result.sum(axis=-1, keepdims=True)


class MLEApx(BasePostProcessor):
    """Maximum likelihood estimate for normal noise, with frequencies that sum to 1.

    The result is not negative and sums to 1. The true distribution of the noise is approximated by
    a normal distribution. Unlike Norm-Sub, this method accounts for the dependence of the variance
    on the frequency. With a constant variance, both methods would have the same result. In
    practice, the results are similar.

    Parameters
    ----------
    %(noise_model)s

    Attributes
    ----------
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    NormSub : Assumes a constant variance.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-D and Appendix B,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import MLEApx, NoiseModel
    >>> noise = NoiseModel(p=0.5, q=0.25, n_samples=100)
    >>> MLEApx(noise=noise).fit([[0.75, 0.5, -0.125]]).frequencies_.round(3)
    array([0.621, 0.379, 0.   ])
    """

    _parameter_constraints: dict = {"noise": NOISE_CONSTRAINT}
    needs: str | None = "null_variance"

    def __init__(self, *, noise: float | Noise | None = None) -> None:
        self.noise = noise

    def _process(self, estimate):
        noise: Any = resolve_noise(estimate, self.noise, "MLEApx", "null_variance")
        values = mle_apx(estimate.values, noise.null_variance, noise.slope)
        return estimate.with_values(values, by="MLEApx")


# -- exact ------------------------------------------------------------------------------------
def tally_of(estimate: FrequencyEstimate, name: str, remedy: str) -> tuple[np.ndarray, ReportLaw]:
    """Return two results: the numbers of the distinct reports, and the distribution of the reports.

    name, remedy: class name of the caller and additional advice, for the error message.
    Returns: how often each possible report was received, of shape (n_estimates, n_kinds), and the
    ReportLaw, which contains the probability of each possible report for each category.
    """
    shards = estimate.shards
    if shards is not None and shards.law is not None and estimate.is_raw:
        return shards.of.by_group[0], shards.law
    changed = " and ".join(estimate.postprocessors)
    got = f", got an estimate after {changed}" if changed else ""
    raise ValueError(
        f"{name} needs the raw estimate of an oracle that counts each distinct report (GRR, "
        "MatrixOracle, HadamardResponse, ProjectiveGeometryResponse, or OLH and BLH on few "
        f"categories) and has n_shards > 1{got}. Pass oracle.estimate_ itself, or {remedy}."
    )


def direct_mle(F: ArrayLike, ratio: float) -> np.ndarray:
    """Return the maximum likelihood estimate of the frequencies for GRR.

    Each report of GRR names one category. It names the user's own category with probability p, and
    each other category with probability q. Let f~_v be the raw estimate of category v, and phi_v
    the fraction of the reports that name v. The result f' maximizes
    ``sum_v phi_v log(q + (p - q) f'_v)`` among the frequencies that are not negative and sum to 1.
    With ``a = q / (p - q)``, phi_v is proportional to ``f~_v + a``, and

    .. math:: f'_v = \\max\\Big\\{0, \\frac{\\tilde f_v + a}{\\mu} - a\\Big\\}, \\qquad
              \\mu = \\frac{\\sum_{D_1} (\\tilde f_v + a)}{1 + |D_1| a},

    Here D1 is the set of categories with a positive result, which have the largest raw estimates.
    If epsilon tends to 0, a tends to infinity, and the result tends to the result of Norm-Sub.

    Parameters
    ----------
    F : array-like of shape (..., d)
        Raw estimates of frequencies. Estimates below -a are impossible and are replaced by -a.
    ratio : float
        The number ``a = q / (p - q)``. For GRR it is ``1 / (exp(epsilon) - 1)``.

    Returns
    -------
    ndarray of shape (..., d)
        Rows of non-negative frequencies that sum to 1.
    """
    a = ratio
    F = np.asarray(F, dtype=np.float64)
    # Without any report the row becomes uniform.
    F = np.where((-a < F).any(axis=-1, keepdims=True), np.maximum(F, -a), 0.0)
    falling = -np.sort(-F, axis=-1)
    size = np.arange(1, F.shape[-1] + 1)
    # The numerator of f' has no cancellation if a is large; the denominator is its sum.
    missing = a * (1.0 - np.cumsum(falling, axis=-1))
    n_support = np.count_nonzero(falling * (1 + size * a) + missing > 0, axis=-1, keepdims=True)
    n_support = np.maximum(n_support, 1)
    missing = np.take_along_axis(missing, n_support - 1, axis=-1)
    result = np.maximum(F * (1 + n_support * a) + missing, 0.0)
    # If all entries are rounded to 0, the largest estimate is just above -a and becomes 1.
    is_largest = falling[..., :1] <= F
    result = np.where(result.any(axis=-1, keepdims=True), result, is_largest)
    return result / result.sum(axis=-1, keepdims=True)


def exact_mle(
    tally: np.ndarray, law: ReportLaw, start: np.ndarray, tol: float = 1e-9, max_iter: int = 1000
) -> tuple[np.ndarray, float, int]:
    """Return the frequencies with the largest likelihood, given the numbers of distinct reports.

    Let t_y be the number of times that the report y was received, and A the matrix with the
    probability of each report (rows) for each category (columns). The log-likelihood of frequencies
    f is ``sum_y t_y log (A f)_y``, which is concave. It is maximized by the spectral projected
    gradient method [1]_, which uses only products of A or its transpose A' with vectors. Each step
    has a line search, which needs no further product because A f is linear in f.
    Expectation-maximization (the iterative Bayesian update) also converges, but slowly if some
    frequencies tend to 0.

    Let g be the gradient of the log-likelihood, divided by the number n of reports. Because
    ``sum_v f_v g_v = 1``, the log-likelihood is at most ``n (max_v g_v - 1)`` below its maximum.
    This bound is 0 only at the maximum. The method stops if ``max_v g_v - 1 <= tol``.

    Parameters
    ----------
    tally : ndarray of shape (n_kinds,)
        Number of times that each possible report was received.
    law : ReportLaw
        The matrix A of the probabilities of the reports.
    start : ndarray of shape (d,)
        Frequencies with which the iteration begins. They sum to 1.
    tol : float, default=1e-9
        Tolerance: the iteration stops if the log-likelihood, divided by the number of reports, is
        at most `tol` below its maximum.
    max_iter : int, default=1000
        Maximum number of steps.

    Returns
    -------
    frequencies : ndarray of shape (d,)
        The maximum likelihood estimate. The frequencies sum to 1.
    gap : float
        ``max_v g_v - 1``: the log-likelihood, divided by the number of reports, is at most this
        much below its maximum.
    n_iter : int
        Number of steps.

    References
    ----------
    .. [1] E. G. Birgin, J. M. Martinez, M. Raydan, "Nonmonotone spectral projected gradient methods
       on convex sets", SIAM Journal on Optimization 10(4), 2000,
       :doi:`10.1137/S1052623497330963`.
    """
    share = tally / tally.sum()
    seen = np.flatnonzero(share)
    share = share[seen]
    f = start
    chance = law.probabilities(f)[seen]

    def gradient():
        weight = np.zeros(len(tally))
        weight[seen] = share / chance
        return law.likelihoods(weight)

    g = gradient()
    step = None
    for n_iter in range(max_iter + 1):
        gap = float(g.max() - f @ g)
        if gap <= tol or n_iter == max_iter:
            break
        if step is None:  # inverse curvature along the gradient, on the plane of the same sum
            direction = g - g.mean()
            relative = law.probabilities(direction)[seen] / chance
            step = (direction @ direction) / max(share @ relative**2, np.finfo(float).tiny)
        # Only differences of g matter, so the mean 1 is subtracted to keep their digits. The
        # rounding error of the sum is distributed over f, because it would exceed the last steps.
        move = norm_sub(f + step * (g - 1.0)) - f
        move -= move.sum() * f
        change = law.probabilities(move)[seen]
        length = _line_search(share, chance, change)
        f = np.maximum(f + length * move, 0.0)
        chance = chance + length * change
        previous = g
        g = gradient()
        bend = length * (move @ (previous - g))
        # The spectral step: the inverse curvature along the last move.
        step = length**2 * (move @ move) / bend if bend > 0 else None
    return f / f.sum(), gap, n_iter


def _line_search(share, chance, change, n_steps=20):
    """Return the step length in [0, 1] that maximizes the likelihood, by Newton's method."""
    # Along a line the log-likelihood is concave. So its slope decreases, and its root can be
    # bracketed.
    relative = change / chance
    low, high, length = 0.0, 1.0, 1.0
    for _ in range(n_steps):
        term = relative / (1 + length * relative)
        slope = share @ term
        if slope >= 0 and length == 1.0:
            return 1.0
        low, high = (length, high) if slope > 0 else (low, length)
        newton = length + slope / (share @ term**2)
        last = length
        length = newton if low < newton < high else (low + high) / 2
        if abs(length - last) <= 1e-3 * length:
            break
    return length


class ExactMLE(BasePostProcessor):
    """Maximum likelihood estimate for the exact distribution of the reports.

    The result is not negative and sums to 1. For :class:`GRR` it has a closed form. There are only
    few distinct reports for :class:`MatrixOracle`, :class:`HadamardResponse` and
    :class:`ProjectiveGeometryResponse`, and for :class:`OLH` and :class:`BLH` over domains of
    moderate size. The result then depends only on how often each distinct report was received.
    Oracles with ``n_shards > 1`` store these numbers in the `shards` of their estimate. For
    :class:`SUE`, :class:`OUE` and :class:`SubsetSelection` the method would need every single
    report, and would be at most 5 % more accurate than :class:`NormSub`
    (doc/notes/papers_mentioned.md).

    The support count of a category is the number of reports that support the category. If there
    are more distinct reports than categories, the likelihood uses more information than the support
    counts contain. With many categories, however, this method also overfits the noise of the
    reports. On Zipf data (exponent 1.5, 100,000 users, 1,000 categories, epsilon 1) with projective
    geometry response, the mean squared error of this method is 3.8e-6, and the error of Norm-Sub
    is 3.1e-6. This class is not among the default candidates of any search.

    Parameters
    ----------
    epsilon : float, default=None
        Pass this only for plain arrays with estimates of :class:`GRR`. It is the privacy budget of
        the GRR. If None, the estimate must be a FrequencyEstimate that was not post-processed.
    tol : float, default=1e-9
        Tolerance: the iteration stops if the log-likelihood, divided by the number of reports, is
        at most `tol` below its maximum.
    max_iter : int, default=1000
        Maximum number of steps of the iteration.

    Attributes
    ----------
    n_iter_ : int
        The largest number of steps that a row needed. With the closed form it is 1.
    gap_ : float
        For every row, the log-likelihood, divided by the number of reports, is at most `gap_` below
        its maximum. With the closed form it is 0.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    MLEApx : Approximates the noise as normal, and works for any oracle with p and q.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-D,
       :doi:`10.14722/ndss.2020.24157`.
    .. [2] P. Kairouz, K. Bonawitz, D. Ramage, "Discrete distribution estimation under local
       privacy", ICML 2016. https://proceedings.mlr.press/v48/kairouz16.html

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import ExactMLE, HadamardResponse
    >>> ExactMLE(epsilon=1.0).fit([[0.75, 0.5, -0.25]]).frequencies_.round(3)
    array([0.612, 0.388, 0.   ])
    >>> oracle = HadamardResponse(2.0, categories=list("abcd"), random_state=0)
    >>> estimate = oracle.fit_transform(np.repeat(list("ab"), [3000, 1000]))
    >>> ExactMLE().fit(estimate).frequencies_.round(2)
    array([0.75, 0.25, 0.  , 0.  ])
    """

    gap_: float
    n_iter_: int

    _parameter_constraints: dict = {
        "epsilon": [None, Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self, epsilon: float | None = None, *, tol: float = 1e-9, max_iter: int = 1000
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.max_iter = max_iter

    def _process(self, estimate):
        ratio = self._direct_ratio(estimate)
        if ratio is not None:
            values = direct_mle(estimate.values, ratio)
            self.gap_ = 0.0
            self.n_iter_ = 1
            return estimate.with_values(values, by="ExactMLE")
        otherwise = "pass epsilon= for plain estimates of GRR, or use MLEApx for other oracles"
        tallies, law = tally_of(estimate, "ExactMLE", otherwise)
        rows = zip(tallies, norm_sub(estimate.values), strict=True)
        fits = [exact_mle(tally, law, start, self.tol, self.max_iter) for tally, start in rows]
        values, gaps, steps = zip(*fits, strict=True)
        self.gap_ = max(gaps)
        self.n_iter_ = max(steps)
        if self.gap_ > self.tol:
            warnings.warn(
                f"ExactMLE has not converged after max_iter={self.max_iter} steps: the "
                f"log-likelihood may be {self.gap_:.1e} per report below its maximum, more than "
                f"tol={self.tol:g}. Increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=1,
            )
        return estimate.with_values(np.array(values), by="ExactMLE")

    def _direct_ratio(self, estimate):
        """Return q / (p - q) if every report names exactly one category, otherwise None.

        p is the probability that a report names the user's own category, and q the probability that
        it names a certain other category.
        """
        if self.epsilon is not None:
            return 1 / math.expm1(self.epsilon) if self.epsilon < 700 else 0.0
        noise = estimate.noise
        d = estimate.shape[1]
        law = None if noise is None else noise.support_law
        if law is None or not estimate.is_raw:
            return None
        # Every report names one category if p + (d - 1) q = 1; then the raw estimates sum to 1.
        one_each = math.isclose(law.p + (d - 1) * law.q, 1, rel_tol=1e-9)
        if one_each and np.allclose(estimate.values.sum(axis=1), 1, rtol=0, atol=1e-6):
            return law.q / (law.p - law.q)
        return None
