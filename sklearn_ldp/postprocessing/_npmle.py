"""The post-processor NPMLE, whose prior has a few atoms."""

from __future__ import annotations

from . import _deconvolution
from ._learnt_prior import LearntPrior


class NPMLE(LearntPrior):
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

    def _fit_prior(self, sample):
        return _deconvolution.fit_npmle(sample)
