"""Metrics beyond the error: bias and variance, and how well heavy hitters are found."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from .._typing import Frequencies
from ..queries import Queries, as_query_set
from ._errors import as_truth_and_estimate, of_each_part


class BiasVariance(NamedTuple):
    """Bias and variance of answers over many estimates, each an ndarray of shape (n_queries,).

    Parameters
    ----------
    mean : ndarray of shape (n_queries,)
        Mean answers.
    bias : ndarray of shape (n_queries,)
        Mean answers minus true answers.
    variance : ndarray of shape (n_queries,)
        Unbiased sample variances of the answers.
    bias_error, variance_error : ndarray of shape (n_queries,)
        Standard errors of the bias and of the variance.
    """

    mean: np.ndarray
    bias: np.ndarray
    variance: np.ndarray
    bias_error: np.ndarray
    variance_error: np.ndarray


@overload
def bias_variance(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
) -> BiasVariance: ...
@overload
def bias_variance(
    frequencies: Mapping[Any, Frequencies],
    estimate: EstimateSet,
    *,
    queries: Queries | None = None,
) -> dict[Any, BiasVariance]: ...
def bias_variance(
    frequencies: Any,
    estimate: FrequencyEstimate | EstimateSet | ArrayLike,
    *,
    queries: Queries | None = None,
) -> BiasVariance | dict[Any, BiasVariance]:
    """Measure the bias and variance of each category, or query, over the rows of an estimate.

    The mean squared error is ``bias**2 + variance``. The sum of the biases is
    ``result.bias.sum()``; for counts instead of frequencies it is n times that (2020 paper,
    Figure 2).

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of these
        True frequencies, in the order of the estimate's categories; by name for a set.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        At least 2 independent estimates of them; answers are clipped if a PostPos made them.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category. For
        the sum of the biases of a set of categories, with its standard error, query that set.

    Returns
    -------
    BiasVariance, or dict of these
        Arrays with one entry per query; by name for a set.

    Raises
    ------
    ValueError
        If the numbers of categories differ, or there are fewer than 2 estimates.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE, BasePos
    >>> from sklearn_ldp.metrics import bias_variance
    >>> counts = np.array([8000, 2000, 0, 0])
    >>> raw = OUE(epsilon=1.0, random_state=0).simulate(counts, n_repeats=1000)
    >>> result = bias_variance(counts / 10_000, BasePos().fit_transform(raw))
    >>> bool(result.bias.sum() > 0.01)
    True
    """
    if isinstance(estimate, EstimateSet):
        return of_each_part(bias_variance, frequencies, estimate, queries=queries)
    truth, estimate = as_truth_and_estimate(frequencies, estimate)
    n = len(estimate)
    if n < 2:
        raise ValueError(f"bias_variance needs at least 2 estimates (rows), got {n}.")
    matrix = as_query_set(queries).aligned(estimate.categories).matrix(len(truth), truth)
    answers = estimate.answer(matrix)
    mean, variance = answers.mean(axis=0), answers.var(axis=0, ddof=1)
    # Var(s**2) = (m4 - (n - 3) / (n - 1) s**4) / n, where m4 is the sample's fourth moment.
    fourth = np.mean((answers - mean) ** 4, axis=0)
    of_variance = np.maximum(fourth - (n - 3) / (n - 1) * variance**2, 0) / n
    return BiasVariance(
        mean, mean - matrix @ truth, variance, np.sqrt(variance / n), np.sqrt(of_variance)
    )


class HeavyHitterScores(NamedTuple):
    """How well estimates find the frequent categories, each an ndarray of shape (n_estimates,).

    Parameters
    ----------
    precision : ndarray of shape (n_estimates,)
        Share of frequent categories among those that were found.
    recall : ndarray of shape (n_estimates,)
        Share of the frequent categories that are found.
    f_score : ndarray of shape (n_estimates,)
        Harmonic mean of precision and recall.
    """

    precision: np.ndarray
    recall: np.ndarray
    f_score: np.ndarray


@overload
def heavy_hitter_scores(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    threshold: float | None = None,
    k: int | None = None,
    zero_division: float = 0.0,
) -> HeavyHitterScores: ...
@overload
def heavy_hitter_scores(
    frequencies: Mapping[Any, Frequencies],
    estimate: EstimateSet,
    *,
    threshold: float | None = None,
    k: int | None = None,
    zero_division: float = 0.0,
) -> dict[Any, HeavyHitterScores]: ...
def heavy_hitter_scores(
    frequencies: Any,
    estimate: FrequencyEstimate | EstimateSet | ArrayLike,
    *,
    threshold: float | None = None,
    k: int | None = None,
    zero_division: float = 0.0,
) -> HeavyHitterScores | dict[Any, HeavyHitterScores]:
    """Return precision, recall and F-score of the categories that an estimate finds frequent.

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of these
        True frequencies, in the order of the estimate's categories; by name for a set.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to judge.
    threshold : float, default=None
        A category is a heavy hitter if its frequency is at least this, in the truth and in the
        estimate.
    k : int, default=None
        The k most frequent categories are the heavy hitters, in the truth and in the estimate; if
        several are equal, the first ones are taken. All three scores are then the same. Give
        either `threshold` or `k`.
    zero_division : float, default=0.0
        The precision if nothing is found, the recall if nothing is frequent, and the F-score if
        both; as in scikit-learn, 0.0, 1.0 or NaN. If only one of the two is empty, the F-score
        is 0.

    Returns
    -------
    HeavyHitterScores, or dict of these
        Arrays with one entry per row of the estimate; by name for a set.

    Raises
    ------
    ValueError
        Unless exactly one of `threshold` and `k` is given and the numbers of categories agree.

    Examples
    --------
    >>> from sklearn_ldp.metrics import heavy_hitter_scores
    >>> heavy_hitter_scores([0.5, 0.3, 0.2], [[0.6, 0.1, 0.3]], threshold=0.3)
    HeavyHitterScores(precision=array([0.5]), recall=array([0.5]), f_score=array([0.5]))
    """
    if isinstance(estimate, EstimateSet):
        options = {"threshold": threshold, "k": k, "zero_division": zero_division}
        return of_each_part(heavy_hitter_scores, frequencies, estimate, **options)
    truth, estimate = as_truth_and_estimate(frequencies, estimate)
    if (threshold is None) == (k is None):
        raise ValueError(
            "heavy_hitter_scores needs either a threshold, a frequency, or k, a number of "
            f"categories; got threshold={threshold!r} and k={k!r}."
        )
    if k is None:
        is_true, is_found = truth >= threshold, estimate.values >= threshold
    else:
        is_integer = isinstance(k, Integral) and not isinstance(k, bool)
        if not (is_integer and 1 <= k <= len(truth)):
            raise ValueError(f"Argument k must be an integer in [1, {len(truth)}], got {k!r}.")
        is_true, is_found = _largest(truth[None], k)[0], _largest(estimate.values, k)
    hits = np.count_nonzero(is_found & is_true, axis=1)
    n_true, n_found = np.count_nonzero(is_true), np.count_nonzero(is_found, axis=1)

    def share(part, whole):
        safe = np.where(whole == 0, 1, whole)
        return np.where(whole == 0, zero_division, part / safe)

    return HeavyHitterScores(
        share(hits, n_found),
        share(hits, np.full_like(hits, n_true)),
        share(2 * hits, n_true + n_found),
    )


def _largest(values: np.ndarray, k: int) -> np.ndarray:
    """Return whether each value is among the k largest of its row."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    result = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(result, order, True, axis=1)
    return result
