"""Post-processors that learn the prior of the frequencies: EmpiricalBayes and NPMLE."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from .._noise import Noise
from . import _deconvolution
from ._base import BasePostProcessor
from ._known_noise import NOISE_CONSTRAINT, per_row, resolve_noise
from ._normalization import norm_sub

_TINIEST = 1e-12  # a lower noise level does not matter beside frequencies of 1
_FARTHEST = 40.0  # standard deviations by which noise can have carried an estimate out of [0, 1]


def g_model_prior(f: ArrayLike, std: float, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Learn a smooth prior of the frequencies by g-modelling (Efron 2016).

    The log density of the prior is a cubic spline of 5 columns in asinh(frequency / std), and there
    is an atom at 0. The coefficients alpha maximise the log marginal likelihood less their norm.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    slope : float, default=0.0
        How much the variance grows with the frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies in increasing order.
    weights : ndarray of shape (n_support,)
        Their probabilities.

    References
    ----------
    .. [1] B. Efron, "Empirical Bayes deconvolution estimates", Biometrika 103 (2016),
       :doi:`10.1093/biomet/asv068`.
    """
    return _learn(f, std, slope, _g_model)


def npmle_prior(f: ArrayLike, std: float, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Learn the prior that maximises the likelihood among all priors (Kiefer and Wolfowitz 1956).

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    slope : float, default=0.0
        How much the variance grows with the frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies in increasing order: a few atoms.
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


def average_prior(f: ArrayLike, std: float, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Learn a prior that is smooth or has a few atoms, whichever fits better (unpublished).

    Five priors are averaged with Akaike weights, ``exp(-AICc / 2)``: four smooth ones, which are
    log-polynomials in asinh(frequency / std) of degree 2 and 3 with and without an atom at 0, and
    the NPMLE. Each atom of the NPMLE counts as two parameters. The fits of the smooth priors use
    that the frequencies sum to 1.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    slope : float, default=0.0
        How much the variance grows with the frequency.

    Returns
    -------
    support : ndarray of shape (n_support,)
        Frequencies in increasing order.
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
    f: ArrayLike, std: float, support: ArrayLike, weights: ArrayLike, slope: float = 0.0
) -> np.ndarray:
    """Return the expected value of each true frequency, given its estimate and a discrete prior.

    Parameters
    ----------
    f : array-like of shape (d,)
        Raw estimates of frequencies.
    std : float
        Their noise level at frequency 0.
    support : array-like of shape (n_support,)
        Frequencies in increasing order.
    weights : array-like of shape (n_support,)
        Their prior probabilities.
    slope : float, default=0.0
        How much the variance grows with the frequency.

    Returns
    -------
    ndarray of shape (d,)
        Estimates between the ends of the support; their order is that of f.
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
    """Estimates in units of the noise level, clipped to where noise can have moved them."""
    low, high = -_FARTHEST * std, 1 + _FARTHEST * std
    # Beyond this edge, which no raw estimate passes, the posterior mean would decrease with z.
    if slope > 0:
        low = max(low, -(std**2) / slope)
    elif slope < 0:
        high = min(high, -(std**2) / slope)
    return np.clip(np.asarray(f, dtype=np.float64), low, high) / std


class _LearntPrior(BasePostProcessor):
    """Base of both classes: a hook learns the prior of a row, and the posterior mean follows."""

    prior_support_: list[np.ndarray]
    prior_weights_: list[np.ndarray]

    _parameter_constraints: dict = {"simplex": ["boolean"], "noise": NOISE_CONSTRAINT}

    def __init__(self, *, simplex: bool = True, noise: float | Noise | None = None) -> None:
        self.simplex = simplex
        self.noise = noise

    @abstractmethod
    def _prior_of(self, row, std, slope):
        """Return the support and the weights of the prior of one row."""

    def _process(self, estimate):
        name, n_rows = type(self).__name__, len(estimate)
        noise = resolve_noise(estimate, self.noise, name)
        levels, slopes = per_row(noise.std, n_rows), per_row(noise.growth, n_rows)
        rows = list(zip(estimate.values, levels, slopes, strict=True))
        priors = [self._prior_of(*row) for row in rows]
        means = [
            posterior_mean(row, std, support, weights, slope)
            for (row, std, slope), (support, weights) in zip(rows, priors, strict=True)
        ]
        values = np.reshape(means, estimate.shape)
        self.prior_support_ = [support for support, _ in priors]
        self.prior_weights_ = [weights for _, weights in priors]
        return estimate.with_values(norm_sub(values) if self.simplex else values, by=name)


class EmpiricalBayes(_LearntPrior):
    """Posterior mean under a prior that is learnt from the estimates themselves.

    This is like Power, but no family of priors is assumed. If there are many categories, their
    estimates show how the frequencies are distributed. The expected value of a category's frequency
    under that distribution, given its own estimate, has the least expected square error. Norm-Sub
    then makes the sum 1.

    ``prior="g-model"`` is Efron's: a log-spline with an atom at 0 [1]_. ``prior="average"`` is
    unpublished: four log-polynomial priors, whose fits use that the frequencies sum to 1, and the
    NPMLE, averaged with Akaike weights (:func:`~sklearn_ldp.postprocessing.average_prior`).

    Parameters
    ----------
    simplex : bool, default=True
        Whether Norm-Sub follows, so that the estimates sum to 1.
    prior : {"average", "g-model"}, default="average"
        Which kind of prior is learnt.
    %(noise)s

    Attributes
    ----------
    prior_support_ : list of ndarray of shape (n_support,)
        For each row, the frequencies that have a positive probability under its prior, in
        increasing order.
    prior_weights_ : list of ndarray of shape (n_support,)
        For each row, the probabilities of these frequencies.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1, if `simplex`.
    %(fitted)s

    See Also
    --------
    PowerNS : The same with a power-law prior.
    NPMLE : The same with a prior of a few atoms.

    Notes
    -----
    The table shows the full-domain error divided by that of Bayes with the true prior, in 100
    collections through OLH at epsilon 1. The average was designed on other distributions than these
    (``python -m benchmarks.seven_distributions`` has all of them). The last four are real
    histograms.

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

    If all frequencies are equal, the errors are 1.1e-8, 2.0e-8 and 0.9e-8 (PowerNS: 9.8e-8). Little
    can be learnt about a prior from a handful of categories. The noise is assumed to be normal, and
    independent between categories. The spread of the posterior is not a confidence interval.

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
        prior: str = "average",
        noise: float | Noise | None = None,
    ) -> None:
        super().__init__(simplex=simplex, noise=noise)
        self.prior = prior

    def _prior_of(self, row, std, slope):
        learn = average_prior if self.prior == "average" else g_model_prior
        return learn(row, std, slope)


class NPMLE(_LearntPrior):
    """Posterior mean under the prior that maximises the likelihood among all priors.

    The Kiefer-Wolfowitz non-parametric maximum likelihood estimate of the prior has a few atoms. So
    it suits frequencies that take few values, such as many equal ones beside zeros. For frequencies
    that vary smoothly EmpiricalBayes is better, and it uses this prior where that fits. Norm-Sub
    then makes the sum 1.

    Parameters
    ----------
    simplex : bool, default=True
        Whether Norm-Sub follows, so that the estimates sum to 1.
    %(noise)s

    Attributes
    ----------
    prior_support_ : list of ndarray of shape (n_support,)
        For each row, the frequencies that have a positive probability under its prior, in
        increasing order. They lie on a grid with steps of at most a sixth of the noise level, or at
        large estimates.
    prior_weights_ : list of ndarray of shape (n_support,)
        For each row, the probabilities of these frequencies.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1, if `simplex`.
    %(fitted)s

    See Also
    --------
    EmpiricalBayes : Considers smooth priors as well.

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
