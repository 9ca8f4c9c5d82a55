"""Post-processors that learn the prior of the frequencies: EmpiricalBayes and NPMLE."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._noise import NoiseModel
from . import _deconvolution
from ._base import BasePostProcessor, noise_level
from ._normalization import norm_sub

_TINIEST = 1e-12  # noise below it is none, beside frequencies of 1
_FARTHEST = 40.0  # standard deviations by which noise can have carried an estimate out of [0, 1]


def g_model_prior(f: Any, std: float, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Learn a smooth prior of frequencies by g-modelling (Efron 2016).

    The log density of the prior is a cubic spline of 5 columns in asinh(frequency / std) with an
    atom at 0; its coefficients alpha maximise the log marginal likelihood less their norm.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    slope : float, default=0.0
        Growth of the variance with the frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies, rising.
    weights : ndarray of shape (n_support,)
        Their probabilities.

    References
    ----------
    .. [1] B. Efron, "Empirical Bayes deconvolution estimates", Biometrika 103 (2016),
       :doi:`10.1093/biomet/asv068`.
    """
    return _learn(f, std, slope, _g_model)


def npmle_prior(f: Any, std: float, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Learn the prior of greatest likelihood among all priors (Kiefer and Wolfowitz 1956).

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    slope : float, default=0.0
        Growth of the variance with the frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies, rising: a few atoms.
    weights : ndarray of shape (n_support,)
        Their probabilities.

    References
    ----------
    .. [1] J. Kiefer, J. Wolfowitz, "Consistency of the maximum likelihood estimator in the presence
       of infinitely many incidental parameters", Annals of Mathematical Statistics 27 (1956),
       :doi:`10.1214/aoms/1177728066`.
    .. [2] Y. Wang, "On fast computation of the non-parametric maximum likelihood estimate of a
       mixing distribution", JRSS B 69 (2007), :doi:`10.1111/j.1467-9868.2007.00583.x`.
    """
    return _learn(f, std, slope, _deconvolution.fit_npmle)


def average_prior(f: Any, std: float, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Learn a prior that is smooth or a few atoms, as the estimates have it (unpublished).

    Four smooth priors, log-polynomials in asinh(frequency / std) of degree 2 and 3 with and without
    an atom at 0, and the NPMLE are averaged with Akaike weights, ``exp(-AICc / 2)``; an atom of the
    NPMLE counts as two parameters. The smooth ones know that the frequencies sum to 1.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    slope : float, default=0.0
        Growth of the variance with the frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies, rising.
    weights : ndarray of shape (n_support,)
        Their probabilities.
    """
    return _learn(f, std, slope, _deconvolution.fit_average)


def _g_model(sample):
    basis = _deconvolution.with_atom(_deconvolution.spline_basis(sample.theta, 5))
    return _deconvolution.fit_g_model(sample, basis, sum_known=False)


def _learn(f, std, slope, fit):
    std = max(float(std), _TINIEST)
    sample = _deconvolution.Sample(np.sort(_scaled(f, std, slope)), slope / std, 1 / std)
    support, weights = sample.prior(fit(sample))
    return support * std, weights


def posterior_mean(
    f: Any, std: float, support: Any, weights: Any, slope: float = 0.0
) -> np.ndarray:
    """Expectation of each true frequency, given its estimate and a discrete prior.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    support : array-like of shape (n_support,)
        Frequencies, rising.
    weights : array-like of shape (n_support,)
        Their prior probabilities.
    slope : float, default=0.0
        Growth of the variance with the frequency.

    Returns
    -------
    ndarray of shape (d,)
        Estimates between the ends of the support, in the order of f.
    """
    std = max(float(std), _TINIEST)
    z, back = np.unique(_scaled(f, std, slope), return_inverse=True)
    return (
        std
        * _deconvolution.posterior_mean(
            z, np.asarray(support) / std, np.asarray(weights), slope / std
        )[back]
    )


def _scaled(f, std, slope):
    """Estimates in units of the noise, drawn in to where noise can have carried them."""
    low, high = -_FARTHEST * std, 1 + _FARTHEST * std
    # Beyond this edge, which no raw estimate passes, the posterior mean would fall with z.
    if slope > 0:
        low = max(low, -(std**2) / slope)
    elif slope < 0:
        high = min(high, -(std**2) / slope)
    return np.clip(np.asarray(f, dtype=np.float64), low, high) / std


class _LearntPrior(BasePostProcessor):
    """Base of both: a hook learns the prior of each row, the rest is the posterior mean."""

    _parameter_constraints: dict = {
        "simplex": ["boolean"],
        "std": [None, Real, "array-like"],
        "p": [None, Interval(Real, 0, 1, closed="right")],
        "q": [None, Interval(Real, 0, 1, closed="left")],
        "n_samples": [None, Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        simplex: bool = True,
        std: Any = None,
        p: float | None = None,
        q: float | None = None,
        n_samples: Any = None,
    ) -> None:
        self.simplex = simplex
        self.std = std
        self.p = p
        self.q = q
        self.n_samples = n_samples

    def _process(self, estimate):
        values = np.empty_like(estimate.values)
        supports, weights = [], []
        for i, (row, noise) in enumerate(zip(estimate.values, self._noise(estimate), strict=True)):
            support, weight = self._prior_of(row, *noise)
            values[i] = posterior_mean(row, noise[0], support, weight, noise[1])
            supports.append(support)
            weights.append(weight)
        values = norm_sub(values) if self.simplex else values
        learnt = {"prior_support": supports, "prior_weights": weights}
        return estimate.with_values(values, by=type(self).__name__), learnt

    def _noise(self, estimate):
        """Noise level and slope of the variance of each row."""
        name = type(self).__name__
        model = [self.p, self.q, self.n_samples]
        if self.std is not None:
            noise, std = None, self.std
        elif all(value is None for value in model):
            noise, std = estimate.noise, None
        elif all(value is not None for value in model):
            noise = NoiseModel(*model)
            std = noise.std
        else:
            raise ValueError(
                f"{name} needs p=, q= and n_samples= together, got p={self.p}, q={self.q}, "
                f"n_samples={self.n_samples}; for a constant variance give std= alone."
            )
        std = noise_level(estimate, std, name)[:, 0]
        slope = 0.0 if noise is None else noise.slope / np.asarray(noise.n_samples, dtype=float)
        shape = len(estimate)
        return list(zip(np.broadcast_to(std, shape), np.broadcast_to(slope, shape), strict=True))


class EmpiricalBayes(_LearntPrior):
    """Posterior mean under a prior that is learnt from the estimates themselves.

    Like Power, but no family of priors is assumed: of many categories the estimates tell how the
    frequencies are distributed, and each category's expectation under that distribution, given its
    own estimate, is the least expected square error. Norm-Sub then makes the sum 1.

    ``prior="g-model"`` is Efron's: a log-spline with an atom at 0 [1]_. ``prior="average"`` is
    unpublished: four log-polynomial priors that know the sum of the frequencies, and the NPMLE,
    with Akaike weights (:func:`~sklearn_ldp.postprocessing.average_prior`).

    Parameters
    ----------
    simplex : bool, default=True
        Whether Norm-Sub follows, so that the estimates sum to 1.
    prior : {"average", "g-model"}, default="average"
        What is learnt.
    std : float or array-like of shape (n_estimates,), default=None
        Noise level, taken as the same for all frequencies; None takes the noise of the estimate.
    p, q : float, default=None
        Probabilities that a report supports the user's own category and a given other one.
    n_samples : int, default=None
        Number of users, with `p` and `q`.

    Attributes
    ----------
    prior_support_ : list of ndarray of shape (n_support,)
        For each row the frequencies that its prior gives mass to, rising.
    prior_weights_ : list of ndarray of shape (n_support,)
        Their probabilities.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1, if `simplex`.
    %(fitted)s

    See Also
    --------
    PowerNS : The same with a power-law prior.
    NPMLE : The same with a prior of a few atoms.

    Notes
    -----
    Full-domain error over that of Bayes with the true prior, 100 collections through OLH at epsilon
    1. The average was set on other distributions than these (``python -m
    benchmarks.seven_distributions`` has all of them); the last four are real histograms.

    ================================  =======  =======  =====
    frequencies                       average  g-model  NPMLE
    ================================  =======  =======  =====
    zipf 1.5 (n 1e6, d 1,024)            1.10     1.10   1.18
    zipf 1.1                             1.05     1.05   1.11
    geometric .99                        1.03     1.03   1.03
    geometric .9                         1.05     1.05   1.25
    100 equal ones, zeros                1.07     1.89   1.07
    beta(50, 2) (n 1e5, d 400)           1.09     1.07   1.12
    emoji (n 884,427, d 845)             1.02     1.03   1.08
    cities (n 612,404, d 915)            1.06     1.07   1.10
    Retail (n 88,162, d 16,470)          1.11     1.08   1.15
    Kosarak (n 36,682, d 17,034)         1.13     1.10   1.24
    ================================  =======  =======  =====

    With equal frequencies throughout the errors are 1.1e-8, 2.0e-8 and 0.9e-8 (PowerNS: 9.8e-8). A
    handful of categories tell little of a prior. The noise is taken as normal, and independent
    between categories. What the posterior is spread over is no confidence interval.

    References
    ----------
    .. [1] B. Efron, "Empirical Bayes deconvolution estimates", Biometrika 103 (2016),
       :doi:`10.1093/biomet/asv068`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OLH, EmpiricalBayes
    >>> counts = np.repeat([20_000, 1_000, 0], [4, 20, 76])
    >>> estimate = OLH(1.0, categories=100, random_state=0).simulate(counts, 1)
    >>> bayes = EmpiricalBayes().fit(estimate)
    >>> bayes.frequencies_[[0, 1, 98, 99]].round(3)
    array([0.212, 0.203, 0.001, 0.001])
    """

    _parameter_constraints: dict = {
        **_LearntPrior._parameter_constraints,
        "prior": [StrOptions({"average", "g-model"})],
    }

    def __init__(
        self,
        *,
        simplex: bool = True,
        prior: Any = "average",
        std: Any = None,
        p: float | None = None,
        q: float | None = None,
        n_samples: Any = None,
    ) -> None:
        super().__init__(simplex=simplex, std=std, p=p, q=q, n_samples=n_samples)
        self.prior = prior

    def _prior_of(self, row, std, slope):
        learn = average_prior if self.prior == "average" else g_model_prior
        return learn(row, std, slope)


class NPMLE(_LearntPrior):
    """Posterior mean under the prior of greatest likelihood among all priors.

    The Kiefer-Wolfowitz non-parametric maximum likelihood estimate of the prior has a few atoms, so
    it serves frequencies that take few values, such as many equal ones beside zeros; smooth priors
    are served better by EmpiricalBayes, which takes this one where it fits. Norm-Sub then makes the
    sum 1.

    Parameters
    ----------
    simplex : bool, default=True
        Whether Norm-Sub follows, so that the estimates sum to 1.
    std : float or array-like of shape (n_estimates,), default=None
        Noise level, taken as the same for all frequencies; None takes the noise of the estimate.
    p, q : float, default=None
        Probabilities that a report supports the user's own category and a given other one.
    n_samples : int, default=None
        Number of users, with `p` and `q`.

    Attributes
    ----------
    prior_support_ : list of ndarray of shape (n_support,)
        For each row the frequencies that its prior gives mass to, rising. They lie on a grid of at
        most a sixth of the noise level, or where a large estimate is.
    prior_weights_ : list of ndarray of shape (n_support,)
        Their probabilities.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1, if `simplex`.
    %(fitted)s

    See Also
    --------
    EmpiricalBayes : With smooth priors as well.

    References
    ----------
    .. [1] W. Jiang, C.-H. Zhang, "General maximum likelihood empirical Bayes estimation of normal
       means", Annals of Statistics 37 (2009), :doi:`10.1214/08-AOS638`.
    .. [2] Y. Wang, "On fast computation of the non-parametric maximum likelihood estimate of a
       mixing distribution", JRSS B 69 (2007), :doi:`10.1111/j.1467-9868.2007.00583.x`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import NPMLE, OLH
    >>> counts = np.repeat([4_000, 0], [25, 75])
    >>> estimate = OLH(1.0, categories=100, random_state=0).simulate(counts, 1)
    >>> npmle = NPMLE().fit(estimate)
    >>> npmle.frequencies_[[0, 1, 98, 99]].round(3)
    array([0.038, 0.038, 0.   , 0.   ])
    """

    def _prior_of(self, row, std, slope):
        return npmle_prior(row, std, slope)
