"""The power law as a prior: Power, and PowerNS, which makes it consistent."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ._calibrate import BaseCalibrate, fit_row, posterior_means
from ._normalization import norm_sub
from ._priors import FAMILIES


def power(F: Any, std: Any, n_samples: Any, exponent: Any) -> np.ndarray:
    """Posterior mean under a power law: the least expected square error (2020 paper, Eq. 13).

    A true count k has the prior probability proportional to ``k**-exponent`` for k = 1 .. n, and
    its estimate a normal error; each estimate becomes the posterior mean of k, over n.

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


def power_law_likelihood(F: Any, std: Any, n_samples: Any) -> float:
    """Exponent of the greatest marginal likelihood of the estimates (Calibrate paper, Eq. 16).

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
        The exponent.
    """
    return float(fit_row(FAMILIES["power-law"], F, std, n_samples, "mle", "Power")[0])


class Power(BaseCalibrate):
    """Posterior mean under a power-law prior: Calibrate for data with a long tail.

    Each estimate becomes the expectation of the true count, given the estimate, a power law for
    the counts and normal noise: the least expected square error if the prior is right (Calibrate
    paper, Theorem 2; 2020 paper, section IV-E). Small estimates shrink towards 0, large ones stay.

    The exponent is fitted row by row. "mean-variance" equates the mean of the prior with the mean
    count n / d, which is known exactly because the frequencies sum to 1; "mle" maximises the
    marginal likelihood of the estimates, which minds their spread as well.

    Parameters
    ----------
    fit_method : {"mean-variance", "mle"}, default="mean-variance"
        How the exponent is found.
    exponent : float, default=None
        The exponent, if it is known; None fits it.
    std : float or array-like of shape (n_estimates,), default=None
        Noise level; None takes it from the estimate.
    n_samples : int, default=None
        Number of users; None takes it from the estimate.

    Attributes
    ----------
    exponent_ : ndarray of shape (n_estimates,)
        Exponent of each row's prior.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Positive estimates; their sum is whatever it is.
    %(fitted)s

    Warns
    -----
    UserWarning
        If the mean-variance equation has no solution, there being no more users than categories;
        the steepest prior is taken then, which leaves next to nothing of any estimate near 0.

    See Also
    --------
    PowerNS : The same, made consistent.

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
    >>> from sklearn_ldp import Power
    >>> power = Power(std=0.05, n_samples=10_000).fit([[0.75, 0.25, 0.05, -0.05]])
    >>> power.frequencies_.round(3)
    array([0.748, 0.243, 0.036, 0.011])
    """

    _parameter_constraints: dict = {
        "fit_method": [StrOptions({"mean-variance", "mle"})],
        "exponent": [None, Interval(Real, 0, None, closed="left")],
        "std": [None, Real, "array-like"],
        "n_samples": [None, Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        fit_method: str = "mean-variance",
        exponent: float | None = None,
        std: Any = None,
        n_samples: Any = None,
    ) -> None:
        self.fit_method = fit_method
        self.exponent = exponent
        self.std = std
        self.n_samples = n_samples

    def _process(self, estimate):
        values, exponents = self._power(estimate)
        return estimate.with_values(values, by="Power"), {"exponent": exponents}

    def _power(self, estimate):
        known = None if self.exponent is None else [float(self.exponent)]
        values, theta, _ = self._posterior_of_rows(estimate, FAMILIES["power-law"], known)
        return values, theta[:, 0]


class PowerNS(Power):
    """Power, then Norm-Sub: consistent estimates for data with a long tail.

    The papers recommend it for the frequencies of sets.

    Parameters
    ----------
    fit_method : {"mean-variance", "mle"}, default="mean-variance"
        How the exponent is found, see :class:`Power`.
    exponent : float, default=None
        The exponent, if it is known; None fits it.
    std : float or array-like of shape (n_estimates,), default=None
        Noise level; None takes it from the estimate.
    n_samples : int, default=None
        Number of users; None takes it from the estimate.

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
        As :class:`Power`.

    See Also
    --------
    Power : Without the last step.
    NormSub : The last step.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section IV-E,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import PowerNS
    >>> power = PowerNS(std=0.05, n_samples=10_000).fit([[0.75, 0.25, 0.05, -0.05]])
    >>> power.frequencies_.round(3)
    array([0.738, 0.233, 0.027, 0.002])
    """

    def _process(self, estimate):
        values, exponents = self._power(estimate)
        return estimate.with_values(norm_sub(values), by="PowerNS"), {"exponent": exponents}
