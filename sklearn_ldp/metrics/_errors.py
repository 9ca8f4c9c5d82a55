"""Errors of answers to queries, and the numbers of users that they are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from .._noise import Noise
from .._typing import Frequencies, Metric, Queries
from ..domains._alignment import in_order
from ..queries import as_query_set

METRICS = ("mse", "mae")


@overload
def query_errors(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
    metric: Metric = "mse",
) -> np.ndarray: ...
@overload
def query_errors(
    frequencies: Mapping[Any, Frequencies],
    estimate: EstimateSet,
    *,
    queries: Queries | None = None,
    metric: Metric = "mse",
) -> dict[Any, np.ndarray]: ...
def query_errors(
    frequencies: Any,
    estimate: FrequencyEstimate | EstimateSet | ArrayLike,
    *,
    queries: Queries | None = None,
    metric: Metric = "mse",
) -> np.ndarray | dict[Any, np.ndarray]:
    """Return the error of each estimate, averaged over the queries.

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of these
        True frequencies, in the order of the estimate's categories; by name for a set.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to judge; its answers are clipped if a PostPos made it. Parts of a set that
        have no users are left out.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
    metric : {"mse", "mae"} or callable, default="mse"
        Mean squared or mean absolute error of the answers, or a function of the true and the
        estimated answers of one estimate, each of shape (n_queries,), such as those of
        :mod:`sklearn.metrics`.

    Returns
    -------
    ndarray of shape (n_estimates,), or dict of these
        One error per row of the estimate; by name for a set.

    Raises
    ------
    ValueError
        If the numbers of categories differ, or the metric is not known.

    Examples
    --------
    >>> from sklearn_ldp.metrics import query_errors
    >>> from sklearn_ldp.queries import groups
    >>> query_errors([0.5, 0.25, 0.25], [[0.5, 0.5, 0.0]], queries=groups([0, 1, 1]))
    array([0.])
    """
    if isinstance(estimate, EstimateSet):
        return of_each_part(query_errors, frequencies, estimate, queries=queries, metric=metric)
    if metric not in METRICS and not callable(metric):
        raise ValueError(
            f"Argument metric must be one of {METRICS}, or a function, got {metric!r}."
        )
    truth, estimate = as_truth_and_estimate(frequencies, estimate)
    query_set = as_query_set(queries).aligned(estimate.categories)
    if metric == "mse" and not estimate.clip_answers:
        errors = query_set.expected_squared_error(estimate.values - truth)
        if errors is not None:
            return errors
    matrix = query_set.matrix(len(truth), truth)
    expected, answers = matrix @ truth, estimate.answer(matrix)
    if callable(metric):
        return np.array([float(metric(expected, row)) for row in answers])
    errors = answers - expected
    return np.mean(errors**2 if metric == "mse" else np.abs(errors), axis=1)


def of_each_part(
    function: Callable, frequencies: Any, estimates: EstimateSet, **options: Any
) -> dict[Any, Any]:
    """Return a function of the truth and an estimate, for each part of a set that has users.

    Parameters
    ----------
    function : callable
        Takes true frequencies, an estimate, and the options.
    frequencies : mapping of array-like of shape (d,)
        True frequencies, by name.
    estimates : EstimateSet
        The estimates.
    **options : dict
        Passed on.

    Returns
    -------
    dict
        What the function returns, by name.

    Raises
    ------
    ValueError
        If there is no truth for one of the parts.
    """
    asked = {name: part for name, part in estimates.items() if len(part)}
    if not isinstance(frequencies, Mapping) or any(name not in frequencies for name in asked):
        raise ValueError(
            "A set of estimates is compared with the truth of each part, by name: pass a mapping "
            f"with the keys {', '.join(map(repr, asked))}."
        )
    return {name: function(frequencies[name], part, **options) for name, part in asked.items()}


def as_truth_and_estimate(
    frequencies: Frequencies, estimate: FrequencyEstimate | ArrayLike
) -> tuple[np.ndarray, FrequencyEstimate]:
    """Return true frequencies as an array, and what is judged as an estimate.

    Parameters
    ----------
    frequencies : array-like of shape (d,)
        True frequencies.
    estimate : FrequencyEstimate or array-like of shape (n_estimates, d)
        The estimate to judge.

    Returns
    -------
    (ndarray of shape (d,), FrequencyEstimate)
        Both for the same number of categories.

    Raises
    ------
    ValueError
        If the numbers of categories differ, or the truth is not finite.
    """
    if isinstance(estimate, FrequencyEstimate):
        what = "The array of true frequencies"
        frequencies = in_order(frequencies, estimate.categories, what)
    else:
        values = np.atleast_2d(np.asarray(estimate, dtype=np.float64))
        estimate = FrequencyEstimate(values, np.arange(values.shape[-1]))
    truth = np.asarray(frequencies, dtype=np.float64)
    if truth.shape != (estimate.shape[1],):
        raise ValueError(
            f"The true frequencies must have shape ({estimate.shape[1]},), one for each category "
            f"of the estimate, got {truth.shape}."
        )
    if not np.all(np.isfinite(truth)):
        raise ValueError("The true frequencies must be finite, got NaN or infinity.")
    return truth, estimate


@overload
def frequency_mse(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
) -> float: ...
@overload
def frequency_mse(
    frequencies: Mapping[Any, Frequencies],
    estimate: EstimateSet,
    *,
    queries: Queries | None = None,
) -> dict[Any, float]: ...
def frequency_mse(
    frequencies: Any,
    estimate: FrequencyEstimate | EstimateSet | ArrayLike,
    *,
    queries: Queries | None = None,
) -> float | dict[Any, float]:
    """Return the mean squared error of an estimate, over its rows and over the queries.

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of these
        True frequencies, in the order of the estimate's categories; by name for a set.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to judge; its answers are clipped if a PostPos made it. Parts of a set that
        have no users are left out.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category. For
        random sets the mean is over all sets of their size, in closed form.

    Returns
    -------
    float, or dict of float
        The error (2020 paper, section V-A); by name for a set.

    See Also
    --------
    query_errors : The error of each row.

    Examples
    --------
    >>> from sklearn_ldp.metrics import frequency_mse
    >>> frequency_mse([0.5, 0.5], [[0.75, 0.25]])
    0.0625
    """
    if isinstance(estimate, EstimateSet):
        return of_each_part(frequency_mse, frequencies, estimate, queries=queries)
    return float(np.mean(query_errors(frequencies, estimate, queries=queries, metric="mse")))


@overload
def frequency_mae(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
) -> float: ...
@overload
def frequency_mae(
    frequencies: Mapping[Any, Frequencies],
    estimate: EstimateSet,
    *,
    queries: Queries | None = None,
) -> dict[Any, float]: ...
def frequency_mae(
    frequencies: Any,
    estimate: FrequencyEstimate | EstimateSet | ArrayLike,
    *,
    queries: Queries | None = None,
) -> float | dict[Any, float]:
    """Return the mean absolute error of an estimate, over its rows and over the queries.

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of these
        True frequencies, in the order of the estimate's categories; by name for a set.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to judge; its answers are clipped if a PostPos made it. Parts of a set that
        have no users are left out.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category. Random
        sets are drawn, because there is no closed form.

    Returns
    -------
    float, or dict of float
        The error; by name for a set.

    See Also
    --------
    query_errors : The error of each row.

    Examples
    --------
    >>> from sklearn_ldp.metrics import frequency_mae
    >>> frequency_mae([0.5, 0.5], [[0.75, 0.25]])
    0.25
    """
    if isinstance(estimate, EstimateSet):
        return of_each_part(frequency_mae, frequencies, estimate, queries=queries)
    return float(np.mean(query_errors(frequencies, estimate, queries=queries, metric="mae")))


@overload
def equivalent_n_samples(
    noise: Noise | FrequencyEstimate | None,
    mse: float | np.number[Any],
    n_categories: int | None = None,
) -> float: ...
@overload
def equivalent_n_samples(
    noise: Noise | FrequencyEstimate | None, mse: ArrayLike, n_categories: int | None = None
) -> np.ndarray: ...
def equivalent_n_samples(
    noise: Noise | FrequencyEstimate | None, mse: ArrayLike, n_categories: int | None = None
) -> float | np.ndarray:
    """Return the number of users n' whose raw estimate would have this mean squared error.

    A post-processor that reaches an error with n users is worth ``n' / n`` times as many users
    (2020 paper, section V-C):

    .. math:: n' = \\frac{1}{\\mathrm{MSE}} \\left( \\frac{q (1 - q)}{(p - q)^2}
              + \\frac{1 - p - q}{d (p - q)} \\right).

    Parameters
    ----------
    noise : NoiseModel or FrequencyEstimate
        The noise of the oracle; the number of users in it does not matter.
    mse : float or array-like
        Mean squared errors over the full domain, such as :func:`query_errors` returns.
    n_categories : int, default=None
        Size d of the domain; it is not needed with an estimate.

    Returns
    -------
    float or ndarray of the shape of `mse`
        The numbers of users; infinity for an error of 0.

    Raises
    ------
    ValueError
        If the noise or the domain is not known, or an error is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE, NormSub
    >>> from sklearn_ldp.metrics import equivalent_n_samples, frequency_mse
    >>> counts = np.repeat([5000, 0], [2, 98])
    >>> raw = OUE(epsilon=1.0, random_state=0).simulate(counts, n_repeats=100)
    >>> mse = frequency_mse(counts / 10_000, NormSub().fit_transform(raw))
    >>> bool(equivalent_n_samples(raw, mse) > 50_000)
    True
    """
    if isinstance(noise, FrequencyEstimate):
        n_categories = noise.shape[1] if n_categories is None else n_categories
        noise = noise.noise
    if noise is None or n_categories is None:
        raise ValueError(
            "equivalent_n_samples needs a noise model and the number of categories; give an "
            "estimate that has a noise model, or NoiseModel(p, q, n_samples) and n_categories."
        )
    mse = np.asarray(mse, dtype=np.float64)
    if not np.all(mse >= 0):
        raise ValueError(f"Argument mse must be >= 0, got {mse}.")
    # The sum of the variances does not depend on the frequencies, so take uniform ones.
    variance = noise.variance(np.full(n_categories, 1 / n_categories))
    of_one_user = float(np.ravel(np.mean(variance, axis=-1) * noise.n_samples)[0])
    with np.errstate(divide="ignore"):
        n_samples = of_one_user / mse
    return n_samples if n_samples.ndim else float(n_samples)
