"""Measures of the error of estimates, from true frequencies or from held-out reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from numbers import Integral
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from ..common.typing import Frequencies, Metric
from ..domains.values import as_true_frequencies
from ..noise import Noise
from ..queries import Queries, as_query_set, query_matrix
from ._estimate import FrequencyEstimate
from ._set import EstimateSet

METRICS = ("mse", "mae")

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Metric(Protocol[_P, _T]):
    """The type of a metric that accepts one estimate, or an EstimateSet."""

    @overload
    def __call__(
        self,
        frequencies: Frequencies,
        estimate: FrequencyEstimate | ArrayLike,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T: ...
    @overload
    def __call__(
        self,
        frequencies: Mapping[Any, Frequencies],
        estimate: EstimateSet,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> dict[Any, _T]: ...


def for_each_estimate(
    function: Callable[Concatenate[Frequencies, FrequencyEstimate | ArrayLike, _P], _T],
) -> _Metric[_P, _T]:
    """Decorate a metric for one estimate so that it also accepts an EstimateSet.

    For a set, the metric returns a dict with one result per part.
    """

    @wraps(function)
    def metric(frequencies: Any, estimate: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(estimate, EstimateSet):
            return function(frequencies, estimate, *args, **kwargs)
        nonempty = {name: part for name, part in estimate.items() if len(part)}
        if not isinstance(frequencies, Mapping) or not nonempty.keys() <= frequencies.keys():
            raise ValueError(
                f"{function.__name__} needs the true frequencies of each part of a set of "
                f"estimates, got {frequencies!r:.80}. Pass a mapping of the part names "
                f"{', '.join(map(repr, nonempty))} to true frequencies."
            )
        return {
            name: function(frequencies[name], part, *args, **kwargs)
            for name, part in nonempty.items()
        }

    return cast("_Metric[_P, _T]", metric)


@for_each_estimate
def query_errors(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
    metric: Metric = "mse",
) -> np.ndarray:
    """Return the error of each row of an estimate, averaged over the queries.

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of names to such arrays
        True frequencies, in the order of the estimate's categories. For a set of estimates, a
        mapping from the name of each part to its true frequencies.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to evaluate. If it is the result of PostPos, its answers to queries are clipped
        at 0. Parts of a set without users are omitted.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, every category is a query.
    metric : {"mse", "mae"} or callable, default="mse"
        Mean squared or mean absolute error of the answers. Or a function of two arrays of shape
        (n_queries,), the true and the estimated answers, such as a metric of
        :mod:`sklearn.metrics`.

    Returns
    -------
    ndarray of shape (n_estimates,), or dict of such arrays
        One error per row of the estimate. For a set, a dict with one such array for each part.

    Raises
    ------
    ValueError
        If the numbers of categories differ, or the metric is unknown.

    Examples
    --------
    >>> from sklearn_ldp.metrics import query_errors
    >>> from sklearn_ldp.queries import groups
    >>> query_errors([0.5, 0.25, 0.25], [[0.5, 0.5, 0.0]], queries=groups([0, 1, 1]))
    array([0.])
    """
    if metric not in METRICS and not callable(metric):
        raise ValueError(
            f"Argument metric must be one of {METRICS} or a function, got {metric!r}. A function "
            "needs two parameters, the true and the estimated answers."
        )
    return errors_at(*as_truth_and_estimate(frequencies, estimate), queries, metric)


def errors_at(
    truth: np.ndarray, estimate: FrequencyEstimate, queries: Queries | None, metric: Any = "mse"
) -> np.ndarray:
    """Return the error of each row of an estimate, as `query_errors` does after its checks.

    truth: the true frequencies, or an unbiased estimate of them, which may be larger than 1.

    Shapes: truth (d,) -> (n_estimates,).
    """
    query_set = as_query_set(queries).aligned(estimate.categories, estimate.domain)
    if metric == "mse" and not estimate.clip_answers:
        errors = query_set.expected_squared_error(estimate.values - truth)
        if errors is not None:
            return errors
    matrix = query_set.matrix(len(truth), truth)
    expected = matrix @ truth
    answers = estimate.answer(matrix)
    if callable(metric):
        return np.array([float(metric(expected, row)) for row in answers])
    errors = answers - expected
    return np.mean(errors**2 if metric == "mse" else np.abs(errors), axis=1)


def as_truth_and_estimate(
    frequencies: Frequencies, estimate: FrequencyEstimate | ArrayLike
) -> tuple[np.ndarray, FrequencyEstimate]:
    """Return the true frequencies as an array, and the estimate as a FrequencyEstimate.

    Shapes: frequencies (d,), estimate (n_estimates, d) -> (d,).
    """
    if not isinstance(estimate, FrequencyEstimate):
        estimate = as_estimate(estimate)
        if not isinstance(frequencies, Mapping):  # an array has no names that an index could have
            frequencies = np.asarray(frequencies)
    name = "The array of true frequencies"
    return as_true_frequencies(frequencies, estimate.categories, name), estimate


def as_estimate(values: ArrayLike) -> FrequencyEstimate:
    """Return the values, of shape (n_estimates, d), as an estimate of the categories 0 to d - 1."""
    if isinstance(values, FrequencyEstimate):
        return values
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return FrequencyEstimate(rows, np.arange(rows.shape[-1]))


@for_each_estimate
def frequency_mse(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
) -> float:
    """Return the mean squared error of an estimate, over its rows and over the queries.

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of names to such arrays
        True frequencies, in the order of the estimate's categories. For a set of estimates, a
        mapping from the name of each part to its true frequencies.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to evaluate. If it is the result of PostPos, its answers to queries are clipped
        at 0. Parts of a set without users are omitted.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, every category is a query.
        For ``random_sets``, the error is the exact mean over all sets of that size.

    Returns
    -------
    float, or dict of float
        The error (Wang et al., NDSS 2020, section V-A). For a set, a dict with one error per part.

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


@for_each_estimate
def frequency_mae(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
) -> float:
    """Return the mean absolute error of an estimate, over its rows and over the queries.

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of names to such arrays
        True frequencies, in the order of the estimate's categories. For a set of estimates, a
        mapping from the name of each part to its true frequencies.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to evaluate. If it is the result of PostPos, its answers to queries are clipped
        at 0. Parts of a set without users are omitted.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, every category is a query.
        For ``random_sets``, the error is the mean over drawn sets, because the exact mean has no
        formula.

    Returns
    -------
    float, or dict of float
        The error. For a set, a dict with one error per part.

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


class BiasVariance(NamedTuple):
    """Bias and variance of the answers to each query, measured over many estimates.

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


@for_each_estimate
def bias_variance(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    queries: Queries | None = None,
) -> BiasVariance:
    """Measure the bias and variance of the answers to each query over the rows of an estimate.

    Each row is an independent estimate of the same frequencies. The mean squared error is ``bias**2
    + variance``. The sum of the biases is ``result.bias.sum()``; for counts instead of frequencies,
    multiply this sum by the number of users (Wang et al., NDSS 2020, Figure 2).

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of names to such arrays
        True frequencies, in the order of the estimate's categories. For a set of estimates, a
        mapping from the name of each part to its true frequencies.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        At least 2 independent estimates. Answers are clipped if the estimate is the result of a
        PostPos.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, every category is a query.
        For the bias of the total of a set of categories, with its standard error, pass this set as
        a query.

    Returns
    -------
    BiasVariance, or dict of BiasVariance
        Arrays with one entry per query. For a set, a dict with one result for each part.

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
    truth, estimate = as_truth_and_estimate(frequencies, estimate)
    n = len(estimate)
    if n < 2:
        raise ValueError(
            f"bias_variance needs at least 2 estimates (rows), got {n}. Simulate with n_repeats=2 "
            "or more."
        )
    query_set = as_query_set(queries).aligned(estimate.categories, estimate.domain)
    matrix = query_set.matrix(len(truth), truth)
    answers = estimate.answer(matrix)
    mean = answers.mean(axis=0)
    variance = answers.var(axis=0, ddof=1)
    # Var(s**2) = (m4 - (n - 3) / (n - 1) s**4) / n, where m4 is the sample's fourth moment.
    fourth_moment = np.mean((answers - mean) ** 4, axis=0)
    variance_of_variance = np.maximum(fourth_moment - (n - 3) / (n - 1) * variance**2, 0) / n
    return BiasVariance(
        mean=mean,
        bias=mean - matrix @ truth,
        variance=variance,
        bias_error=np.sqrt(variance / n),
        variance_error=np.sqrt(variance_of_variance),
    )


class HeavyHitterScores(NamedTuple):
    """Scores of an estimate as a classification of the categories into frequent and not frequent.

    Parameters
    ----------
    precision : ndarray of shape (n_estimates,)
        Among the categories that the estimate classifies as frequent, the proportion of truly
        frequent categories.
    recall : ndarray of shape (n_estimates,)
        Among the truly frequent categories, the proportion that the estimate classifies as
        frequent.
    f_score : ndarray of shape (n_estimates,)
        Harmonic mean of precision and recall.
    """

    precision: np.ndarray
    recall: np.ndarray
    f_score: np.ndarray


@for_each_estimate
def heavy_hitter_scores(
    frequencies: Frequencies,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    threshold: float | None = None,
    k: int | None = None,
    zero_division: float = 0.0,
) -> HeavyHitterScores:
    """Return how well estimates find the frequent categories: precision, recall and F-score.

    Parameters
    ----------
    frequencies : array-like of shape (d,), or mapping of names to such arrays
        True frequencies, in the order of the estimate's categories. For a set of estimates, a
        mapping from the name of each part to its true frequencies.
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to evaluate.
    threshold : float, default=None
        A category is a heavy hitter if its frequency is at least this number. The threshold applies
        to the true and to the estimated frequencies.
    k : int, default=None
        Instead of `threshold`: the k most frequent categories are the heavy hitters, both for the
        true and for the estimated frequencies. Among equal frequencies the first categories are
        chosen. All three scores are then the same.
    zero_division : float, default=0.0
        The value (0.0, 1.0 or NaN, as in scikit-learn) of the precision if the estimate has no
        heavy hitters, of the recall if the truth has none, and of the F-score if both have none. If
        only one of them has none, the F-score is 0.

    Returns
    -------
    HeavyHitterScores, or dict of HeavyHitterScores
        Arrays with one entry per row of the estimate. For a set, a dict with one result for each
        part.

    Raises
    ------
    ValueError
        If both or neither of `threshold` and `k` are passed, or if the numbers of categories
        differ.

    Examples
    --------
    >>> from sklearn_ldp.metrics import heavy_hitter_scores
    >>> heavy_hitter_scores([0.5, 0.3, 0.2], [[0.6, 0.1, 0.3]], threshold=0.3)
    HeavyHitterScores(precision=array([0.5]), recall=array([0.5]), f_score=array([0.5]))
    """
    truth, estimate = as_truth_and_estimate(frequencies, estimate)
    if (threshold is None) == (k is None):
        raise ValueError(
            "heavy_hitter_scores needs exactly one of threshold= and k=, got "
            f"threshold={threshold!r} and k={k!r}. Pass either a frequency as threshold=, or a "
            "number of categories as k=."
        )
    if k is None:
        is_true = truth >= threshold
        is_found = estimate.values >= threshold
    else:
        is_integer = isinstance(k, Integral) and not isinstance(k, bool)
        if not (is_integer and 1 <= k <= len(truth)):
            raise ValueError(
                f"Argument k must be an integer in [1, {len(truth)}], got {k!r}. Pass the number "
                "of most frequent categories."
            )
        is_true = _largest(truth[None], k)[0]
        is_found = _largest(estimate.values, k)
    n_hits = np.count_nonzero(is_found & is_true, axis=1)
    n_true = np.count_nonzero(is_true)
    n_found = np.count_nonzero(is_found, axis=1)

    def ratio(numerator: np.ndarray, denominator: Any) -> np.ndarray:
        result = np.full(len(n_hits), zero_division, dtype=float)
        return np.divide(numerator, denominator, out=result, where=denominator != 0)

    return HeavyHitterScores(
        precision=ratio(n_hits, n_found),
        recall=ratio(n_hits, n_true),
        f_score=ratio(2 * n_hits, n_true + n_found),
    )


def _largest(values: np.ndarray, k: int) -> np.ndarray:
    """Return a Boolean array that is True for the k largest values of each row."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    result = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(result, order, True, axis=1)
    return result


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
    """Return the effective sample size: the number of users whose raw estimate has a given error.

    Let n' be this number. If a post-processed estimate from n users has the error, then
    post-processing has the same effect as ``n' / n`` times as many users (Wang et al., NDSS 2020,
    section V-C):

    .. math:: n' = \\frac{1}{\\mathrm{MSE}} \\left( \\frac{q (1 - q)}{(p - q)^2}
              + \\frac{1 - p - q}{d (p - q)} \\right).

    Parameters
    ----------
    noise : NoiseModel or FrequencyEstimate
        The noise of the oracle, or an estimate by the oracle. The number of users in it is ignored.
    mse : float or array-like
        Mean squared errors over the full domain, such as :func:`query_errors` returns.
    n_categories : int, default=None
        Number d of categories; needed only if `noise` is not an estimate.

    Returns
    -------
    float or ndarray of the shape of `mse`
        The effective sample sizes; infinity for an error of 0.

    Raises
    ------
    ValueError
        If the noise or the domain is unknown, or an error is negative.

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
            "equivalent_n_samples needs a noise model and a number of categories, got "
            f"noise={noise!r} and n_categories={n_categories!r}. Pass an estimate with a noise "
            "model, or pass both NoiseModel(p, q, n_samples) and n_categories=."
        )
    mse = np.asarray(mse, dtype=np.float64)
    if not np.all(mse >= 0):
        raise ValueError(
            f"Argument mse must be >= 0, got {mse}. Pass mean squared errors, not negative scores."
        )
    # The sum of the variances does not depend on the frequencies, so uniform frequencies are used.
    variance = noise.variance(np.full(n_categories, 1 / n_categories))
    variance_of_one_user = float(np.ravel(np.mean(variance, axis=-1) * noise.n_samples)[0])
    with np.errstate(divide="ignore"):
        n_samples = variance_of_one_user / mse
    return n_samples if n_samples.ndim else float(n_samples)


# -- without the truth -----------------------------------------------------------------------------
@overload
def held_out_score(
    estimate: FrequencyEstimate | ArrayLike,
    held_out: FrequencyEstimate,
    *,
    queries: Queries | None = None,
) -> float: ...
@overload
def held_out_score(
    estimate: EstimateSet, held_out: EstimateSet, *, queries: Queries | None = None
) -> dict[Any, float]: ...
def held_out_score(
    estimate: FrequencyEstimate | EstimateSet | ArrayLike,
    held_out: FrequencyEstimate | EstimateSet,
    *,
    queries: Queries | None = None,
) -> float | dict[Any, float]:
    """Score an estimate by the reports of other users, without true frequencies.

    The score estimates the negative mean squared error with respect to the frequencies of these
    users. It compares the estimate with the held-out estimate, a raw estimate from their reports.
    The expected squared distance of both estimates is the squared error plus the variance of the
    held-out estimate. The variance is linear in the frequencies, so the held-out estimate also
    yields an unbiased estimate of its own variance, which is subtracted. The score is unbiased
    but noisy: with few held-out users, it may be above 0.

    Privacy: no cost, because both estimates are made from reports.

    Parameters
    ----------
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to evaluate; it must be independent of the held-out reports.
    held_out : FrequencyEstimate of shape (1, d), or EstimateSet
        The raw estimate of an oracle from reports that were not used for `estimate`. If `estimate`
        is a set, a set with the same parts.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, every category is a query.
        ``top_k`` raises an error, because it depends on the truth.

    Returns
    -------
    float, or dict of float
        Minus the estimated mean squared error, averaged over the rows of `estimate`; greater is
        better. For a set, a dict with one score per part that has users.

    Raises
    ------
    ValueError
        If the held-out estimate is not raw, has several rows, or has no noise model.

    See Also
    --------
    make_held_out_scorer : The same score for GridSearchCV and similar tools.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE, NormSub
    >>> from sklearn_ldp.metrics import held_out_score
    >>> oracle = OUE(epsilon=1.0, random_state=np.random.default_rng(0))
    >>> counts = np.repeat([5000, 0], [2, 98])
    >>> ours, theirs = oracle.simulate(counts), oracle.simulate(counts)
    >>> held_out_score(NormSub().fit_transform(ours), theirs) > held_out_score(ours, theirs)
    True
    """
    if isinstance(held_out, EstimateSet) or isinstance(estimate, EstimateSet):
        return _scores_by_part(estimate, held_out, queries)
    if not (isinstance(held_out, FrequencyEstimate) and held_out.is_raw and len(held_out) == 1):
        raise ValueError(
            f"held_out_score needs one raw estimate of held-out reports, got {held_out!r}. Pass "
            "oracle.estimate_ of an oracle that has read these reports."
        )
    if held_out.noise is None:
        raise ValueError(
            "held_out_score needs a held-out estimate with a noise model, from which it computes "
            "the variance, but this estimate has none. Pass oracle.estimate_ itself, or "
            "FrequencyEstimate(..., noise=oracle.noise_)."
        )
    query_set = as_query_set(queries).aligned(held_out.categories, held_out.domain)
    if query_set.depends_on_truth:
        raise ValueError(
            f"held_out_score cannot evaluate {query_set!r}, because it depends on the truth. "
            "Choose the categories without the held-out reports and pass their query_matrix."
        )
    categories = getattr(estimate, "categories", held_out.categories)
    if not np.array_equal(categories, held_out.categories):
        raise ValueError(
            "held_out_score needs two estimates of the same categories in the same order, got "
            "different categories. Pass the same list as categories= to both oracles. Two "
            "collections of strings usually find different strings: estimate the frequencies of "
            "the strings of the first collection also from the reports of the second."
        )
    truth = held_out.values[0]  # some estimates may be larger than 1
    estimate = as_estimate(estimate)
    if estimate.shape[1] != len(truth):
        raise ValueError(
            f"held_out_score needs an estimate of shape (n_estimates, {len(truth)}), got "
            f"{estimate.shape}. Pass two estimates of the same categories."
        )
    if estimate.clip_answers:
        # Clipped answers have no closed form, so the error and the variance use the same drawn
        # sets.
        query_set = query_matrix(query_set.matrix(len(truth)))
    errors = errors_at(truth, estimate, query_set)
    variance = query_set.mean_variance(held_out.noise.of_rows(0), truth)
    return float(variance - errors.mean())


def _scores_by_part(estimate: Any, held_out: Any, queries: Queries | None) -> dict[Any, float]:
    arguments = (estimate, held_out)
    first, second = (x.names if isinstance(x, EstimateSet) else type(x).__name__ for x in arguments)
    if first != second:
        raise ValueError(
            f"held_out_score cannot compare {first} with {second}. Pass two single estimates, or "
            "two sets whose parts have the same names in the same order."
        )
    names = [name for name in estimate if len(estimate[name]) and len(held_out[name])]
    return {name: held_out_score(estimate[name], held_out[name], queries=queries) for name in names}


def mean_of_parts(results: Any, weights: Mapping[Any, float]) -> float:
    """Return the mean of an array of results, or the weighted mean of a dict of results.

    The keys of the dict are the parts of an EstimateSet. A part without an entry in `weights` has
    the weight 1.
    """
    if not isinstance(results, Mapping):
        return float(np.mean(results))
    means = [float(np.mean(numbers)) for numbers in results.values()]
    return float(np.average(means, weights=[weights.get(name, 1.0) for name in results]))
