"""Errors of answers to queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._estimate import FrequencyEstimate
from .._typing import Frequencies, Metric, Queries
from ..domains._alignment import in_order
from ..queries import as_query_set

METRICS = ("mse", "mae")


def query_errors(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
    metric: Metric = "mse",
) -> np.ndarray:
    """Return the error of each estimate, averaged over the queries.

    Parameters
    ----------
    frequencies : array-like of shape (d,)
        True frequencies, in the order of the estimate's categories.
    estimate : FrequencyEstimate or array-like of shape (n_estimates, d)
        The estimate to judge; its answers are clipped if a PostPos made it.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
    metric : {"mse", "mae"} or callable, default="mse"
        Mean squared or mean absolute error of the answers, or a function of the true and the
        estimated answers of one estimate, each of shape (n_queries,), such as those of
        :mod:`sklearn.metrics`.

    Returns
    -------
    ndarray of shape (n_estimates,)
        One error per row of the estimate.

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


def frequency_mse(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
) -> float:
    """Return the mean squared error of an estimate, over its rows and over the queries.

    Parameters
    ----------
    frequencies : array-like of shape (d,)
        True frequencies, in the order of the estimate's categories.
    estimate : FrequencyEstimate or array-like of shape (n_estimates, d)
        The estimate to judge; its answers are clipped if a PostPos made it.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category. For
        random sets the mean is over all sets of their size, in closed form.

    Returns
    -------
    float
        The error (2020 paper, section V-A).

    See Also
    --------
    query_errors : The error of each row.

    Examples
    --------
    >>> from sklearn_ldp.metrics import frequency_mse
    >>> frequency_mse([0.5, 0.5], [[0.75, 0.25]])
    0.0625
    """
    return float(np.mean(query_errors(frequencies, estimate, queries=queries, metric="mse")))


def frequency_mae(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
) -> float:
    """Return the mean absolute error of an estimate, over its rows and over the queries.

    Parameters
    ----------
    frequencies : array-like of shape (d,)
        True frequencies, in the order of the estimate's categories.
    estimate : FrequencyEstimate or array-like of shape (n_estimates, d)
        The estimate to judge; its answers are clipped if a PostPos made it.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category. Random
        sets are drawn, because there is no closed form.

    Returns
    -------
    float
        The error.

    See Also
    --------
    query_errors : The error of each row.

    Examples
    --------
    >>> from sklearn_ldp.metrics import frequency_mae
    >>> frequency_mae([0.5, 0.5], [[0.75, 0.25]])
    0.25
    """
    return float(np.mean(query_errors(frequencies, estimate, queries=queries, metric="mae")))
