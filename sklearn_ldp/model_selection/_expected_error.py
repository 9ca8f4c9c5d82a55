"""The expected error of a post-processed estimate, computed from noisy copies of the raw estimate.

A noisy copy is the raw estimate plus additional simulated noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, stats
from sklearn.base import clone

from .._core.estimates import FrequencyEstimate
from .._core.noise import Noise, variances_after_norm
from .._core.numerics.simplex import apportion
from .._core.queries import QuerySet
from ._drawn_noise import (
    consistent_values,
    correlated,
    plausible_frequencies,
    scaled_answers,
    variances_of_each,
)

_SHARE = 0.05  # variance of the noise that is added, relative to the noise of the estimate
_MOST_COPIES = 12
_LEAST_COPIES = 4
_ENOUGH_VALUES = 2_000  # of all copies together, between these numbers of copies
_N_DRAWS = 16  # of noise alone, which cost less than copies
# The prior of the bias and the width of the range were chosen among 48 variants on 28 November
# 2026, on 300 settings of `python -m benchmarks.accuracy.expected_errors --seed 2`; the notes on
# choosing report the results on other settings.
_UNDETECTED = 0.1  # share of an undetectable error in the prior variance of the bias
_INFLATION = 2.0  # of the variance of the risk estimate, because noise is not quite normal
_TAIL = 0.05  # of the posterior on each side of the stated 80 % range
_BIASES = np.logspace(-2, 2.5, 80)
_PRIOR = stats.t(2).pdf(_BIASES) * _BIASES  # on a grid of logarithms
_QUANTILES = (np.arange(9) + 0.5) / 9


class ExpectedError(NamedTuple):
    """The expected root mean squared error of the answers to queries after post-processing.

    Parameters
    ----------
    value : float
        The expected error of the answers from the post-processed estimate.
    low, high : float
        The ends of a range that contains the true error in about 80 % of settings.
    raw : float
        The expected error of the answers from the raw estimate.

    Notes
    -----
    Let x be the raw answers, C their covariance matrix, and g(x) the post-processed answers. An
    unbiased estimate of the squared error of g is ``|g - x|**2 - tr(C) + 2 tr(J C)`` [1]_, where J
    is the derivative of g. The derivative is computed from differences between post-processed noisy
    copies [2]_. If noise dominates, the standard deviation of this estimate is larger than the
    squared error. Therefore the estimate only determines the likelihood in Bayes' rule. The unknown
    quantity is the squared error, which is the sum of the variance ``tr(J C J')`` and the squared
    bias of g. The variance is known. The prior of the bias is Student's t distribution with 2
    degrees of freedom. The square of its scale is a sum of two terms. The first term is ``tr(J C) -
    tr(J C J')``: if g were a posterior mean, this would be its expected squared bias. The second
    term is a fraction of the largest squared bias that the data could not reveal. The method is
    unpublished. For the query `top_k`, the result is computed from the prior only, because the same
    reports determine which categories the query asks for.

    References
    ----------
    .. [1] C. M. Stein, "Estimation of the mean of a multivariate normal distribution", Annals of
       Statistics 9(6), 1981, :doi:`10.1214/aos/1176345632`.
    .. [2] N. L. Oliveira, J. Lei, R. J. Tibshirani, "Unbiased risk estimation in the normal means
       problem via coupled bootstrap techniques" (2021), :doi:`10.48550/arXiv.2111.09447`.

    Examples
    --------
    >>> from sklearn_ldp import OUE, SyntheticSearch
    >>> estimate = OUE(categories=4, random_state=0).simulate([500, 300, 150, 50])
    >>> search = SyntheticSearch(random_state=0).fit(estimate)
    >>> print(search.expected_error_)
    5 percentage points (1.6 to 8.7 with 80 % probability); raw estimate: 6.3
    """

    value: float
    low: float
    high: float
    raw: float

    def __str__(self) -> str:
        value, low, high, raw = (f"{100 * error:.2g}" for error in self)
        error = f"{value} percentage points ({low} to {high} with 80 % probability)"
        return f"{error}; raw estimate: {raw}"


class _Moments(NamedTuple):
    """The variances and mean squares from which the expected error of one row is computed.

    All numbers are means over the queries.
    """

    risk: float  # unbiased for the squared error, by Stein's identity
    spread: float  # variance of the result
    divergence: float  # the squared error that a Bayesian method itself expects
    raw: float  # variance of the raw answers after Norm, because their sum is known
    raw_error: float  # variance of the raw answers
    spread_variance: float  # variance of the squared deviation of the result from its mean
    noise_variance: float  # variance of the squared error of the raw estimate
    natural: float  # variance of the answers of a uniformly drawn distribution


def expected_error(
    process: Callable[[FrequencyEstimate], FrequencyEstimate],
    estimate: FrequencyEstimate,
    queries: QuerySet,
) -> ExpectedError:
    """Return the expected error of the answers after post-processing.

    Parameters
    ----------
    process : callable
        A function that post-processes an estimate, each row separately.
    estimate : FrequencyEstimate
        The raw estimate, with its noise.
    queries : QuerySet
        The queries, aligned with the categories of the estimate.

    Returns
    -------
    ExpectedError
        The expected root mean squared error over all rows and queries.
    """
    rng = np.random.default_rng(0)
    rows = [_moments(process, estimate[i], queries, rng) for i in range(len(estimate))]
    means = _Moments(*np.mean(rows, axis=0))
    # The mean error over rows varies less than the error of a row.
    means = means._replace(
        spread_variance=means.spread_variance / len(rows),
        noise_variance=means.noise_variance / len(rows),
    )
    # If the estimate itself determines the queries, the estimate of the risk is too large.
    return _posterior(means, has_likelihood=not queries.depends_on_truth)


def _moments(
    process: Callable[[FrequencyEstimate], FrequencyEstimate],
    row: FrequencyEstimate,
    queries: QuerySet,
    rng: np.random.Generator,
) -> _Moments:
    noise = row.noise
    assert noise is not None  # a search needs it
    values = row.values[0]
    d = len(values)
    is_distribution = row.sums_to_one
    plausible = plausible_frequencies(row, values)
    result = process(row).values[0]
    n_copies = int(np.clip(_ENOUGH_VALUES // d, _LEAST_COPIES, _MOST_COPIES))
    draws = np.array(
        [correlated(noise, plausible, rng.standard_normal(d)) for _ in range(_N_DRAWS)]
    )
    try:
        processed, changes = _noisy_copies(process, row, draws[:n_copies])
    except ValueError:  # the method needs counts of reports, which noisy copies do not have
        if row.oracle is None:
            raise
        processed = result[None]
        draws[:n_copies], changes = _simulated_copies(process, row, result, n_copies, rng)
    # The result has no error in the known sum, and the noise of the sum would hide its errors.
    errors = draws - draws.mean(axis=1, keepdims=True) if is_distribution else draws
    response = consistent_values(row, values)
    residuals = scaled_answers(queries, processed - response, result)
    changes = scaled_answers(queries, changes, result)
    noises = scaled_answers(queries, errors, result)

    raw = _raw_variance(queries, noise, plausible, result, is_distribution)
    product = np.sum(noises[:n_copies] * changes)
    square = np.sum(noises[:n_copies] ** 2)
    # By the ratio, the divergence is exact for a result that is linear in the estimate.
    divergence = max(raw * product / square, 0.0) if square > 0 else 0.0
    return _Moments(
        risk=np.mean(np.sum(residuals**2, axis=1)) + 2 * divergence - raw,
        spread=np.mean(np.sum(changes**2, axis=1)),
        divergence=divergence,
        raw=raw,
        raw_error=_raw_error(queries, noise, plausible, raw),
        spread_variance=2 * _mean_of_pairs((changes @ changes.T) ** 2),
        noise_variance=2 * _mean_of_pairs((noises @ noises.T) ** 2),
        natural=_natural_variance(queries, d, result) if is_distribution else np.inf,
    )


def _noisy_copies(
    process: Callable[[FrequencyEstimate], FrequencyEstimate],
    row: FrequencyEstimate,
    draws: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Add and subtract each draw of noise, and post-process the resulting copies of a row.

    Returns: the post-processed copies, and for each draw the change of the result that the draw
    causes, which is half the difference of its two copies, divided by the scale of the noise.
    Shapes: draws (n, d) -> (2 n, d), (n, d).
    """
    shifts = np.sqrt(_SHARE) * draws
    values = row.values + np.vstack([shifts, -shifts])
    processed = process(row.with_values(values, row_names=None, shards=None)).values
    more, less = np.split(processed, 2)
    return processed, (more - less) / (2 * np.sqrt(_SHARE))


def _simulated_copies(
    process: Callable[[FrequencyEstimate], FrequencyEstimate],
    row: FrequencyEstimate,
    result: np.ndarray,
    n: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate n collections from users with the frequencies `result`, and post-process them.

    Returns: the errors of the simulated raw estimates, and the deviations of the post-processed
    estimates from their mean.
    Shapes: result (d,) -> (n, d), (n, d).
    """
    noise: Any = row.noise
    counts = apportion(result, int(np.max(noise.n_users)))
    simulated = clone(row.oracle).set_params(random_state=rng).simulate(counts, n)
    processed = process(simulated).values
    return simulated.values - counts / counts.sum(), processed - processed.mean(axis=0)


def _raw_variance(
    queries: QuerySet,
    noise: Noise,
    frequencies: np.ndarray,
    result: np.ndarray,
    is_distribution: bool,
) -> float:
    """Return the variance of the raw answers, as the mean over the queries.

    If the frequencies sum to 1 (`is_distribution`), Norm is applied to the raw estimate first.
    frequencies: the frequencies for which the variance is computed. result: the post-processed
    estimate, which determines queries that depend on the truth.
    """
    d = len(frequencies)
    weights = queries.square_weights(d)
    rows = sparse.eye_array(d, format="csr") if weights else queries.matrix(d, result)
    variances_of = variances_after_norm if is_distribution else variances_of_each
    variances = variances_of(noise, rows, frequencies)
    return float(
        variances.mean() if weights is None else (weights[0] - weights[1]) * variances.sum()
    )


def _raw_error(queries: QuerySet, noise: Noise, frequencies: np.ndarray, known: float) -> float:
    """Return the mean squared error of the raw answers, without Norm.

    If the noise contains no covariances, return `known` instead.
    """
    try:
        return queries.mean_variance(noise, frequencies)
    except ValueError:
        return known


def _natural_variance(queries: QuerySet, d: int, result: np.ndarray) -> float:
    """Return the variance of the true answers if the true distribution is drawn uniformly.

    The distribution is drawn from all distributions over d categories. The result is the mean over
    the queries. result: the post-processed estimate, for queries that depend on the truth.
    """
    weights = queries.square_weights(d)
    if weights is not None:
        return (weights[0] - weights[1]) * (1 - 1 / d) / (d + 1)
    matrix = queries.matrix(d, result)
    squares = matrix.power(2).sum(axis=1) / d - (matrix.sum(axis=1) / d) ** 2
    return float(np.mean(squares)) / (d + 1)


def _mean_of_pairs(products: np.ndarray) -> float:
    """Return the mean of the off-diagonal elements of a square array.

    Each element belongs to a pair of draws. The diagonal elements are left out.
    """
    n = len(products)
    return float((products.sum() - np.trace(products)) / (n * (n - 1)))


def _posterior(moments: _Moments, *, has_likelihood: bool) -> ExpectedError:
    """Return the mean and the 80 % range of the posterior distribution of the error.

    has_likelihood: Whether the data are used. If False, only the prior is used.
    """
    undetected = 1 / (1 / np.sqrt(moments.noise_variance) + 1 / moments.natural)
    own_bias = max(moments.divergence - moments.spread, 0.0)
    biases = _BIASES**2 * (own_bias + _UNDETECTED * undetected)
    means = moments.spread + biases
    variances = moments.spread_variance * (
        1 + 2 * biases / moments.spread if moments.spread > 0 else np.ones_like(biases)
    )
    shapes = means**2 / np.maximum(variances, 1e-6 * means**2)
    errors = stats.gamma.ppf(_QUANTILES, shapes[:, None]) * (means / shapes)[:, None]
    weights = np.repeat(_PRIOR[:, None], len(_QUANTILES), axis=1)
    if has_likelihood:
        excess = np.maximum(errors - moments.spread, 0)
        # The risk varies as the squared error of the raw estimate, and more with a bias.
        variance = moments.noise_variance * (_INFLATION + 2 * excess / moments.raw)
        log_likelihood = -0.5 * ((moments.risk - errors) ** 2 / variance + np.log(variance))
        weights = weights * np.exp(log_likelihood - log_likelihood.max())
    roots = np.sqrt(errors).ravel()
    order = np.argsort(roots)
    shares = weights.ravel()[order] / weights.sum()
    low, high = np.interp([_TAIL, 1 - _TAIL], np.cumsum(shares), roots[order])
    value = shares @ roots[order]
    return ExpectedError(float(value), float(low), float(high), float(np.sqrt(moments.raw_error)))
