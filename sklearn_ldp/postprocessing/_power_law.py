"""The power law as a prior: Power, and PowerNS, which makes it consistent."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from .._noise import Noise
from ._calibrate import BaseCalibrate, fit_row, posterior_means
from ._known_noise import NOISE_CONSTRAINT
from ._normalization import norm_sub
from ._priors import FAMILIES


def power(F: ArrayLike, std: float, n_samples: int, exponent: float) -> np.ndarray:
    """Posterior mean under a power law: the least expected square error (2020 paper, Eq. 13).

    The prior probability of a true count k is proportional to ``k**-exponent`` for k = 1 .. n, and
    the error of its estimate is normal. Each estimate becomes the posterior mean of k, over n.

    Parameters
    ----------
    F : array-like of shape (..., d)
        Raw estimates of frequencies.
    std : float
        Noise level of the estimates.
    n_samples : int
        Number n of users.
    exponent : float
        Exponent of the power law, >= 0.

    Returns
    -------
    ndarray of shape (..., d)
        Estimates between 1 / n and 1, in the order of F.
    """
    return posterior_means(F, std, n_samples, FAMILIES["power-law"], [exponent])


def power_law_likelihood(F: ArrayLike, std: float, n_samples: int) -> float:
    """Exponent that maximises the marginal likelihood of the estimates (Calibrate paper, Eq. 16).

    Parameters
    ----------
    F : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Noise level of the estimates.
    n_samples : int
        Number n of users.

    Returns
    -------
    float
        The exponent of the power law.
    """
    return float(fit_row(FAMILIES["power-law"], F, std, n_samples, "mle", "Power")[0])


class Power(BaseCalibrate):
    """Posterior mean under a power-law prior: Calibrate for data with a long tail.

    Each estimate becomes the expected value of the true count, given the estimate, a power law for
    the counts and normal noise. It has the least expected square error if the prior is right
    (Calibrate paper, Theorem 2; 2020 paper, section IV-E). Small estimates shrink towards 0, and
    large ones hardly change.

    The exponent is fitted for each row. "mean-variance" equates the mean of the prior with the mean
    count n / d, which is known exactly because the frequencies sum to 1; "mle" maximises the
    marginal likelihood of the estimates, which takes their spread into account as well.

    Parameters
    ----------
    fit_method : {"mean-variance", "mle"}, default="mean-variance"
        How the exponent is fitted. The default is what the 2020 paper calls Power; that of
        :class:`Calibrate`, the same prior, is "mle", which reproduces the Calibrate paper.
    exponent : float, default=None
        The exponent, if it is known. None fits it.
    %(noise_model)s

    Attributes
    ----------
    exponent_ : ndarray of shape (n_estimates,)
        Exponent of each row's prior.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Positive estimates. Their sum is not adjusted.
    %(fitted)s

    Warns
    -----
    UserWarning
        If the mean-variance equation has no solution, because there are no more users than
        categories. The steepest prior is used then, which shrinks estimates near 0 to almost 0.

    See Also
    --------
    PowerNS : Applies Norm-Sub to the result, so that it is consistent.
    Calibrate : The same posterior means under any prior.

    References
    ----------
    .. [1] J. Jia, N. Z. Gong, "Calibrate: frequency estimation and heavy hitter identification
       with local differential privacy via incorporating prior knowledge", INFOCOM 2019,
       :doi:`10.1109/INFOCOM.2019.8737527`.
    .. [2] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-E,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import NoiseModel, Power
    >>> noise = NoiseModel(p=0.6, q=0.5, n_samples=10_000)
    >>> power = Power(noise=noise).fit([[0.75, 0.25, 0.05, -0.05]])
    >>> power.frequencies_.round(3)
    array([0.748, 0.243, 0.036, 0.011])
    """

    exponent_: np.ndarray

    _parameter_constraints: dict = {
        "fit_method": [StrOptions({"mean-variance", "mle"})],
        "exponent": [None, Interval(Real, 0, None, closed="left")],
        "noise": NOISE_CONSTRAINT,
    }

    def __init__(
        self,
        *,
        fit_method: str = "mean-variance",
        exponent: float | None = None,
        noise: float | Noise | None = None,
    ) -> None:
        self.fit_method = fit_method
        self.exponent = exponent
        self.noise = noise

    def _process(self, estimate):
        known = None if self.exponent is None else [float(self.exponent)]
        values, theta, _ = self._posterior_of_rows(estimate, FAMILIES["power-law"], known)
        self.exponent_ = theta[:, 0]
        return estimate.with_values(values, by="Power")


class PowerNS(Power):
    """Power, then Norm-Sub: consistent estimates for data with a long tail.

    The papers recommend it for the frequencies of sets.

    Parameters
    ----------
    fit_method : {"mean-variance", "mle"}, default="mean-variance"
        How the exponent is fitted; see :class:`Power`.
    exponent : float, default=None
        The exponent, if it is known. None fits it.
    %(noise_model)s

    Attributes
    ----------
    exponent_ : ndarray of shape (n_estimates,)
        Exponent of each row's prior.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1.
    %(fitted)s

    Warns
    -----
    UserWarning
        In the same case as :class:`Power`.

    See Also
    --------
    Power : The first of the two steps.
    NormSub : The second of the two steps.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-E,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import NoiseModel, PowerNS
    >>> noise = NoiseModel(p=0.6, q=0.5, n_samples=10_000)
    >>> power = PowerNS(noise=noise).fit([[0.75, 0.25, 0.05, -0.05]])
    >>> power.frequencies_.round(3)
    array([0.738, 0.233, 0.027, 0.002])
    """

    def _process(self, estimate):
        values = super()._process(estimate).values
        return estimate.with_values(norm_sub(values), by="PowerNS")
