"""Post-processors that learn the prior of the frequencies: EmpiricalBayes and NPMLE."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from .._estimate import FrequencyEstimate
from .._noise import Noise, variances_after_norm
from .._typing import DataFrame, Grouping
from ..queries import QuerySet
from . import _deconvolution
from ._base import BasePostProcessor
from ._group_priors import Estimates, GroupFit, fit_groups
from ._group_totals import shrunken_totals, with_totals
from ._known_noise import NOISE_CONSTRAINT, per_row, resolve_noise
from ._normalization import norm, norm_sub
from ._partitions import Partition, as_partitions

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
    sample, weights = _learn(f, std, slope, _g_model)
    return _prior(sample, weights, std)


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
    sample, weights = _learn(f, std, slope, _deconvolution.fit_npmle)
    return _prior(sample, weights, std)


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
    sample, weights = _learn(f, std, slope, _deconvolution.fit_average)
    return _prior(sample, weights, std)


def _g_model(sample):
    basis = _deconvolution.with_atom(_deconvolution.spline_basis(sample.theta, 5))
    return _deconvolution.fit_g_model(sample, basis, sum_known=False)


def _learn(f, std, slope, fit):
    """The sample of a row, and the weights of the prior on its grid."""
    std = max(float(std), _TINIEST)
    sample = _deconvolution.Sample(np.sort(_scaled(f, std, slope)), slope / std, 1 / std)
    return sample, fit(sample)


def _prior(sample, weights, std):
    support, weights = sample.prior(weights)
    return support * max(float(std), _TINIEST), weights


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
    def _fit_prior(self, sample):
        """Return the weights of the prior on the grid of one row's sample."""

    def _process(self, estimate):
        rows = self._learn(estimate)
        values = np.array([norm_sub(row.means) if self.simplex else row.means for row in rows])
        return estimate.with_values(values.reshape(estimate.shape), by=type(self).__name__)

    def _learn(self, estimate: FrequencyEstimate) -> Iterator[_Row]:
        """Learn and keep the prior of one row after the other, with one sample in memory."""
        name, n_rows = type(self).__name__, len(estimate)
        noise = resolve_noise(estimate, self.noise, name)
        levels, slopes = per_row(noise.std, n_rows), per_row(noise.growth, n_rows)
        self.prior_support_, self.prior_weights_ = [], []
        for i, values in enumerate(estimate.values):
            row = _learnt_row(values, noise.of_rows(i), levels[i], slopes[i], self._fit_prior)
            self.prior_support_.append(row.support)
            self.prior_weights_.append(row.prior)
            yield row


@dataclass(frozen=True, eq=False)
class _Row:
    """One raw estimate, the prior learnt from it, and the posterior means."""

    raw: np.ndarray
    noise: Noise
    std: float
    slope: float
    sample: _deconvolution.Sample
    weights: np.ndarray
    support: np.ndarray
    prior: np.ndarray
    means: np.ndarray


def _learnt_row(raw, noise, std, slope, fit_prior):
    sample, weights = _learn(raw, std, slope, fit_prior)
    support, prior = _prior(sample, weights, std)
    means = posterior_mean(raw, std, support, prior, slope)
    return _Row(raw, noise, max(std, _TINIEST), slope, sample, weights, support, prior, means)


@dataclass(frozen=True, eq=False)
class GroupTotals:
    """What :class:`~sklearn_ldp.EmpiricalBayes` learnt about groups of categories.

    Parameters
    ----------
    names : list of length n_groups
        The groups.
    raw : ndarray of shape (n_estimates, n_groups)
        Totals of the raw estimate, after Norm.
    common : ndarray of shape (n_estimates, n_groups)
        Totals of the estimate under the prior that all categories have in common.
    totals : ndarray of shape (n_estimates, n_groups)
        Totals of the result.
    log_evidence : ndarray of shape (n_estimates,)
        Logarithm of how much more likely the estimates are if the groups of any grouping differ
        than if none do.
    share : ndarray of shape (n_estimates,)
        Share of the estimate under priors of groups, beside that under the common prior.
    probability : ndarray of shape (n_estimates,)
        Probability of this grouping among several ones, given that groups differ.
    raw_weights : ndarray of shape (n_estimates, n_groups)
        Weight of the raw totals in the result, beside those of the processed estimate.
    """

    names: list
    raw: np.ndarray
    common: np.ndarray
    totals: np.ndarray
    log_evidence: np.ndarray
    share: np.ndarray
    probability: np.ndarray
    raw_weights: np.ndarray

    def to_frame(self, row: int = 0) -> DataFrame:
        """Return the totals of one estimate as a pandas DataFrame.

        Parameters
        ----------
        row : int, default=0
            The estimate.

        Returns
        -------
        pandas.DataFrame
            One row per group, with the columns raw, common, totals and raw_weight.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        import pandas as pd

        columns = {
            "raw": self.raw[row],
            "common": self.common[row],
            "totals": self.totals[row],
            "raw_weight": self.raw_weights[row],
        }
        return pd.DataFrame(columns, index=pd.Index(self.names, name="group", tupleize_cols=False))


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
    groups : array-like of shape (d,), mapping, query set or list of those, default=None
        The group of each category, such as the state of each city, if frequencies may differ from
        group to group; or several groupings. Labels with an index of their own, and mappings, may
        be in any order. None takes all categories alike.
    %(noise)s

    Attributes
    ----------
    group_totals_ : list of GroupTotals
        If there are groups: for each grouping, the totals of its groups and what was learnt about
        them, see :class:`~sklearn_ldp.postprocessing.GroupTotals`.
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
        "groups": ["array-like", Mapping, QuerySet, None],
    }

    group_totals_: list[GroupTotals]

    def __init__(
        self,
        *,
        simplex: bool = True,
        prior: str = "average",
        groups: Grouping | None = None,
        noise: float | Noise | None = None,
    ) -> None:
        super().__init__(simplex=simplex, noise=noise)
        self.prior = prior
        self.groups = groups

    def _fit_prior(self, sample):
        fit = _deconvolution.fit_average if self.prior == "average" else _g_model
        return fit(sample)

    def _process(self, estimate):
        if self.groups is None:
            if hasattr(self, "group_totals_"):  # of an earlier fit
                del self.group_totals_
            return super()._process(estimate)
        name = type(self).__name__
        partitions = as_partitions(self.groups, estimate.categories, name)
        rows = [_grouped(row, partitions, self.simplex) for row in self._learn(estimate)]
        self.group_totals_ = [_group_totals(p, i, rows) for i, p in enumerate(partitions)]
        values = np.array([row.values for row in rows])
        return estimate.with_values(values.reshape(estimate.shape), by=name)


@dataclass(frozen=True, eq=False)
class _Grouped:
    """What was learnt about the groups of one row, and the result."""

    raw: np.ndarray
    common: np.ndarray
    values: np.ndarray
    fit: GroupFit
    raw_weights: list[np.ndarray]


def _grouped(row: _Row, partitions: list[Partition], simplex: bool) -> _Grouped:
    """Return what groups make of a row."""
    theta, prior = row.sample.whole_prior(row.weights)
    z, growth = _scaled(row.raw, row.std, row.slope), row.slope / row.std
    fit = fit_groups(Estimates(z, theta, prior, growth, row.means / row.std), partitions)
    raw, common, values = norm(row.raw), row.means, row.std * fit.means
    weights = [np.zeros(len(p.names)) for p in partitions]
    if simplex:
        common, values = norm_sub(common), norm_sub(values)
        variances = [variances_after_norm(row.noise, p.rows(), values) for p in partitions]
        # The coarsest grouping comes last: its totals hold exactly.
        for i in sorted(range(len(partitions)), key=lambda i: -len(partitions[i].names)):
            totals, weights[i] = shrunken_totals(
                raw, values, partitions[i], variances[i], row.std**2 * fit.variances[i]
            )
            values = with_totals(values, partitions[i], totals)
    return _Grouped(raw, common, values, fit, weights)


def _group_totals(partition: Partition, place: int, rows: list[_Grouped]) -> GroupTotals:
    return GroupTotals(
        partition.names,
        np.array([partition.sums(row.raw) for row in rows]),
        np.array([partition.sums(row.common) for row in rows]),
        np.array([partition.sums(row.values) for row in rows]),
        np.array([row.fit.log_evidence for row in rows]),
        np.array([row.fit.share for row in rows]),
        np.array([row.fit.weights[place] for row in rows]),
        np.array([row.raw_weights[place] for row in rows]),
    )


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

    def _fit_prior(self, sample):
        return _deconvolution.fit_npmle(sample)
