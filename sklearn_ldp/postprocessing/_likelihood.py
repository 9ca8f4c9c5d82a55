"""Maximum likelihood with a normal approximation: MLE-Apx."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._noise import Noise
from ._base import BasePostProcessor
from ._known_noise import NOISE_CONSTRAINT, resolve_noise


def mle_apx(F: ArrayLike, null_variance: float, slope: float) -> np.ndarray:
    """Maximise the normal approximation of the likelihood on the simplex (2019 paper, Eq. 13).

    Minimises ``sum_v (f'_v - f~_v)**2 / (null_variance + slope f'_v)``. On the support D1,

    .. math:: f'_v = \\frac{\\tilde f_v + a x}{1 - b x}, \\qquad
              x = \\frac{1 - \\sum_{D_1} \\tilde f_v}{|D_1| a + b},

    with a the null variance and b the slope (2020 paper, Eq. 12; the printed x has a slip of sign,
    with which the result does not sum to 1). The support is a prefix of the sorted estimates.

    Parameters
    ----------
    F : array-like of shape (..., d)
        Raw estimates of frequencies.
    null_variance : float
        n times the variance of a category of frequency 0: ``q (1 - q) / (p - q)**2``.
    slope : float
        Growth of n times the variance with the frequency: ``(1 - p - q) / (p - q)``.

    Returns
    -------
    ndarray of shape (..., d)
        Rows on the simplex.
    """
    rows = np.asarray(F, dtype=np.float64)
    # If there is no noise at frequency 1 (a huge epsilon), a tiny one is assumed.
    a, b = null_variance, max(slope, -null_variance * (1 - 1e-9))
    # No raw estimate is so far out that its own variance would be negative; others are clipped.
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
    """Maximum likelihood on the simplex, with the noise approximated as normal.

    Unlike Norm-Sub it takes into account that the variance depends on the frequency. With the
    constant variance of Eq. 7 it would be Norm-Sub, and the two are close in practice.

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

    def __init__(self, *, noise: float | Noise | None = None) -> None:
        self.noise = noise

    def _process(self, estimate):
        noise: Any = resolve_noise(estimate, self.noise, "MLEApx", needs="null_variance")
        values = mle_apx(estimate.values, noise.null_variance, noise.slope)
        return estimate.with_values(values, by="MLEApx")
