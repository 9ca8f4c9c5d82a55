"""`reconcile`: one consistent estimate from noisy counts and noisy totals of the same users."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..domains.values import as_numbers
from ..noise import AddedNoise, Noise, every_category
from ..queries import Queries
from ._covariances import Estimate, covariances_of_rows
from ._intervals import query_rows


def reconcile(estimate: Estimate, queries: Queries, counts: ArrayLike, std: ArrayLike) -> Any:
    """Return the least squares estimate from noisy counts and noisy totals of the same users.

    Statistical releases often contain the count of each category and totals of several categories.
    All numbers have independent noise, so the counts do not add up to the totals. The result is the
    linear unbiased estimate of the frequencies with the smallest variances (generalized least
    squares). A query about a total and the sum over its categories then have the same answer.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (1, d)
        The noisy counts of the categories, as ``FrequencyEstimate.from_counts(.., noise=..)``
        returns them.
    queries : query set or (sparse) matrix of shape (n_queries, d)
        The totals, such as ``groups({"north": ["a", "b"], "all": ["a", "b", "c"]})``.
    counts : array-like of shape (n_queries,)
        The noisy totals, in numbers of users, with noise that is independent of the noise of the
        categories.
    std : float or array-like of shape (n_queries,)
        Standard deviation of the noise of each total; 0 for a total that is known exactly.

    Returns
    -------
    FrequencyEstimate of shape (1, d)
        A raw estimate with the covariance matrix of its errors. Its intervals assume normal
        errors, because each error is a sum of several errors.

    Raises
    ------
    ValueError
        If the estimate has several rows or was not made from counts with noise of a known
        distribution, if a total is not a finite number, or if a standard deviation is negative.

    See Also
    --------
    combine : One estimate from the estimates of different users.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate
    >>> from sklearn_ldp.inference import reconcile
    >>> from sklearn_ldp.queries import groups
    >>> release = {"a": 312.0, "b": 205.0, "c": 489.0}
    >>> parts = FrequencyEstimate.from_counts(release, noise="laplace", std=10, n_samples=1000)
    >>> totals = groups({"a or b": ["a", "b"], "all": ["a", "b", "c"]})
    >>> result = reconcile(parts, totals, [508.0, 1000.0], std=[10.0, 0.0])
    >>> (1000 * result.values).round(1)
    array([[309., 202., 489.]])
    >>> float(result.answer({"all": ["a", "b", "c"]})[0, 0].round(9))
    1.0
    """
    noise = estimate.noise
    laws = [] if noise is None else [term.law for term in noise.terms]
    if len(estimate) != 1 or len(laws) != 1 or not isinstance(laws[0], AddedNoise):
        raise ValueError(
            "reconcile needs an estimate with one row, made from counts with noise of a known "
            f"distribution, got {len(estimate)} rows and noise {noise!r:.80}. Pass the result of "
            "FrequencyEstimate.from_counts(counts, noise=..)."
        )
    assert noise is not None
    ((values, covariances),) = covariances_of_rows(estimate, "users", "reconciled estimate")
    rows, n_queries, _ = query_rows(queries, estimate)
    n_users = covariances.n_samples
    totals = as_numbers(counts, kinds="iuf")
    deviations = as_numbers(std, kinds="iuf")
    if totals.shape != (n_queries,) or not np.all(np.isfinite(totals)):
        raise ValueError(
            f"Argument counts must contain a finite number for each of the {n_queries} queries, "
            f"got {counts!r:.80}. Pass one total for each query."
        )
    if deviations.shape not in ((), (n_queries,)) or not np.all(
        (deviations >= 0) & np.isfinite(deviations)
    ):
        raise ValueError(
            f"Argument std must contain finite standard deviations >= 0, got {std!r:.80}. Pass one "
            f"number for all totals, or one for each of the {n_queries} totals."
        )
    # With the covariance matrix S of the categories, queries W and the covariance matrix R of the
    # totals, the gain is K = S W' (W S W' + R)^-1, and the result has the covariance S - K W S.
    whole = covariances.covariance(every_category(len(values)))
    with_totals = rows @ whole
    total_covariance = (rows @ with_totals.T).T + np.diag(
        np.full(n_queries, (deviations / n_users) ** 2)
    )
    gain = np.linalg.lstsq(total_covariance, with_totals, rcond=None)[0].T
    result = values + gain @ (totals / n_users - rows @ values)
    covariance = whole - gain @ with_totals
    covariance = (covariance + covariance.T) / 2
    variances = np.maximum(np.diag(covariance), 0)
    np.fill_diagonal(covariance, variances)
    law = AddedNoise("normal", np.sqrt(variances) * n_users, covariance * n_users**2)
    made: Any = estimate
    return made.with_values(
        result[None], noise=Noise.added(law, noise.n_samples), oracle=None, shards=None
    )
