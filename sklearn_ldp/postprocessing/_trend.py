"""Smoothing of estimates over time: the local-level model, and the post-processor Trend."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, logsumexp, ndtri, softmax

from .._core.common.text import order_by_number
from .._core.noise import Noise
from .._core.numerics.simplex import norm_sub
from ._base import NOISE_CONSTRAINT, BasePostProcessor, resolve_noise

_JUMP = 0.01  # probability of a false jump in a series without jumps
_ANYWHERE = 1e6  # variance of a step to an unknown level; the variance of any frequency is below 1
_PASSES = 2  # over the variances, which grow with the frequencies
# Standard deviation of the log-drifts of categories. Among 0, .35, .7 and 1.4 it had the best
# coverage with small errors, on the synthetic series of benchmarks.accuracy.weeks and nine real
# series (2026-11-25, doc/notes/postprocessors.md).
_DRIFT_SPREAD = 0.35
_N_DRIFTS = 51  # in five decades around the noise
_PLAUSIBLE = 1e-4  # probability below which a typical drift is ignored
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-[0-3]\d")  # a day, in the form of ISO 8601
_CELLS = 1 << 20  # numbers in a block of computations


class LocalLevel(NamedTuple):
    """Estimates of the true values of noisy series. The true values are called levels.

    Each row is one time. The arrays have the shape (n_rows, ..., d) unless stated otherwise.

    Parameters
    ----------
    filtered, filtered_variance : ndarray
        The estimated level at each row, and its variance. Only this row and all earlier rows are
        used.
    smoothed, smoothed_variance : ndarray
        The estimated level at each row, and its variance. All rows are used.
    shifts : ndarray
        For each row, a test statistic for the hypothesis that the level does not jump between the
        previous row and this row. The statistic is computed from all rows. It is standard normal if
        the hypothesis is true. At the last row, it is the error of the prediction from the earlier
        rows, divided by the standard deviation of this error.
    log_likelihood : ndarray of shape (..., d)
        The log-likelihood of all rows except the first row, up to a constant.
    """

    filtered: np.ndarray
    filtered_variance: np.ndarray
    smoothed: np.ndarray
    smoothed_variance: np.ndarray
    shifts: np.ndarray
    log_likelihood: np.ndarray


def local_level(F: ArrayLike, variance: ArrayLike, drift: ArrayLike) -> LocalLevel:
    """Estimate the slowly changing true values of noisy series, by a Kalman filter and smoother.

    Each row is one time. In the model of each category, F_t is the observation and f_t the true
    value (level) at row t: ``F_t = f_t + N(0, variance_t)`` and ``f_t = f_(t-1) + N(0, drift_t)``
    [1]_. The level at the first row has a flat prior.

    Parameters
    ----------
    F : array-like of shape (n_rows, ..., d)
        Observed rows, in the order of time.
    variance : array-like of shape (n_rows, ..., d)
        Variances of the observations.
    drift : array-like of shape (n_rows, ..., d)
        Variance of the change of the level between the previous row and each row. The first row of
        `drift` is not used.

    Returns
    -------
    LocalLevel
        The estimated levels and their variances.

    References
    ----------
    .. [1] J. Durbin, S. J. Koopman, "Time series analysis by state space methods", second edition,
       Oxford University Press, 2012, sections 2.2 to 2.5,
       :doi:`10.1093/acprof:oso/9780199641178.001.0001`.
    """
    F, variance, drift = np.broadcast_arrays(*map(np.asarray, (F, variance, drift)))
    level, spread, errors, z, smoothed, rest, shifts = (np.zeros(F.shape) for _ in range(7))
    level[0] = F[0]
    spread[0] = variance[0]
    errors[0] = 1.0
    for t in range(1, len(F)):
        prior = spread[t - 1] + drift[t]
        errors[t] = prior + variance[t]
        innovation = F[t] - level[t - 1]
        gain = prior / errors[t]
        level[t] = level[t - 1] + gain * innovation
        spread[t] = gain * variance[t]
        z[t] = innovation / np.sqrt(errors[t])
    # The score of a step, and its information, from the rows after each row.
    score = information = np.zeros(F.shape[1:])
    for t in range(len(F) - 1, -1, -1):
        smoothed[t] = level[t] + spread[t] * score
        rest[t] = spread[t] - spread[t] ** 2 * information
        kept = variance[t] / errors[t]
        score = z[t] / np.sqrt(errors[t]) + kept * score
        information = 1 / errors[t] + kept**2 * information
        shifts[t] = score / np.sqrt(information)
    shifts[0] = 0.0  # there is no step to the first row
    likelihood = -0.5 * np.sum(np.log(errors) + z**2, axis=0)
    return LocalLevel(level, spread, smoothed, rest, shifts, likelihood)


class _Fit(NamedTuple):
    """The estimated true frequencies (levels) of all categories at all rows.

    The drift of a category is the typical size of the changes of its level. The levels are averages
    over the possible drifts of each category, weighted by their posterior probabilities.
    """

    values: np.ndarray  # (n_rows, d)
    variance: np.ndarray  # given the typical drift
    total_variance: np.ndarray  # including the uncertainty of the typical drift
    shifts: np.ndarray  # under the typical drift
    spikes: np.ndarray  # distances of rows from all others, in standard deviations, also under it
    drift: float  # the typical drift of a category with the frequency 1


def _fitted(F: np.ndarray, noise: Noise, steps: np.ndarray) -> tuple[_Fit, np.ndarray]:
    """Return the fitted model, and a boolean array of shape (n_rows, d) with the detected jumps.

    An entry of the array is True if the frequency of the category jumps between the previous row
    and this row. steps: the time between the previous row and each row, of shape (n_rows,).
    """
    n_rows, d = F.shape
    # A bound for the largest of standard normal statistics, by Bonferroni's inequality.
    critical = -ndtri(_JUMP / 4 / max((n_rows - 1) * d, 1))
    precision = np.broadcast_to(np.asarray(noise.std) ** -2.0, n_rows)
    f = np.broadcast_to(norm_sub(np.average(F, axis=0, weights=precision)), F.shape)
    for _ in range(_PASSES):
        variance = np.broadcast_to(noise.variance(f), F.shape)
        unit = steps[:, None] * f.mean(axis=0)
        jumps = np.zeros(F.shape)
        # Ends: each pass adds at least one jump, and a place has at most one.
        while True:
            fit = _at_likely_drifts(F, variance, unit, jumps)
            # There is no step to the first row, and no step back after the last row.
            is_done = np.vstack([np.ones(d, dtype=bool), jumps[1:] > 0, np.ones(d, dtype=bool)])
            shifts = np.where(is_done[:-1], 0.0, fit.shifts)
            spikes = np.where(is_done[:-1] & is_done[1:], 0.0, fit.spikes)
            sizes = np.abs([shifts, spikes]).reshape(2 * n_rows, d)
            columns = np.flatnonzero(sizes.max(axis=0) > critical)
            if not columns.size:
                break
            rows = sizes.argmax(axis=0)[columns]
            jumps[rows % n_rows, columns] = _ANYWHERE
            is_back = (rows >= n_rows) & (rows < 2 * n_rows - 1)  # a spike is a jump and one back
            jumps[rows[is_back] - n_rows + 1, columns[is_back]] = _ANYWHERE
            jumps[0] = 0.0  # there is no step to the first row
        if jumps.any():
            compensation = _compensation(fit.values, f.mean(axis=0), jumps > 0)
            fit = _at_likely_drifts(F, variance, unit, jumps + compensation)
        f = norm_sub(fit.values)
    # Frequencies without a trend are not smoothed, because the rows alone may be better.
    if _risk(F, F, variance, variance) < _risk(fit.values, F, fit.variance, variance):
        alone = np.broadcast_to(noise.variance(norm_sub(F)), F.shape)
        fit = _Fit(F, alone, alone, jumps * 0, jumps * 0, np.inf)
        jumps = np.zeros(F.shape)
    return fit, jumps > 0


def _compensation(values: np.ndarray, shares: np.ndarray, jumps: np.ndarray) -> np.ndarray:
    """Return additional variances for the changes of the categories that do not jump.

    If some categories jump at a row, the frequencies of all other categories must change in the
    opposite direction, because the frequencies sum to 1. The result is 0 for rows without a jump.
    Shapes: values (n_rows, d), shares (d,), jumps (n_rows, d) -> (n_rows, d).
    shares: mean frequency of each category. jumps: whether a category jumps at a row.
    """
    # Frequencies sum to 1, so the other categories lose the gain of the categories that jump,
    # without other information in proportion to their frequencies. With twice this loss as the
    # standard deviation of a step, its bias is at most half a standard error.
    gains = np.sum(np.diff(values, axis=0, prepend=values[:1]) * jumps, axis=1, keepdims=True)
    rest = np.maximum(shares, 0) * ~jumps
    return (2 * gains * rest / np.maximum(rest.sum(axis=1, keepdims=True), 1e-300)) ** 2


def _risk(values: np.ndarray, F: np.ndarray, spread: np.ndarray, variance: np.ndarray) -> float:
    """Return an unbiased estimate of the squared error that the values have after NormSub.

    F: the raw rows. variance: the variances of the raw rows. spread: the variances of the values.
    Each value is a weighted mean of raw rows, in which the row of the value itself has the weight
    spread / variance. All arrays have the shape (n_rows, d).
    """
    # A smoothed value has the weight spread / variance on its own row (see `smooth_risk`).
    result = norm_sub(values)
    support = result > 0
    freedom = np.sum(spread * support, axis=1) * (1 - 1 / support.sum(axis=1))
    return float(np.sum((result - F) ** 2 - variance) + 2 * freedom.sum())


def _at_likely_drifts(
    F: np.ndarray, variance: np.ndarray, unit: np.ndarray, jumps: np.ndarray
) -> _Fit:
    """Estimate the levels for given jumps, averaged over the possible drifts of each category.

    The typical drift w of all categories is fitted by maximum likelihood.
    variance: variances of the rows F. unit: variances of the changes if w is 1. jumps: additional
    variances of the changes at jumps. All arrays have the shape (n_rows, d).
    """
    # The logarithm of each category's drift is normal, around the logarithm of w. The typical drift
    # w has the largest likelihood. Shapes: logs and weights (n_drifts, d).
    typical = np.median(unit[1:].sum(axis=1)) if len(F) > 1 else 1.0
    relative = np.logspace(-3, 2, _N_DRIFTS)
    drifts = np.sqrt(variance.mean() / typical) * relative

    def levels(block: Any) -> LocalLevel:
        steps = drifts[:, None] ** 2 * unit[block][:, None] + jumps[block][:, None]
        return local_level(F[block][:, None], variance[block][:, None], steps)

    width = max(_CELLS // (len(F) * _N_DRIFTS), 1)
    blocks = [np.s_[:, i : i + width] for i in range(0, F.shape[1], width)]
    logs = np.concatenate([levels(block).log_likelihood for block in blocks], axis=1)
    apart = np.log(drifts / drifts[:, None]) / _DRIFT_SPREAD
    prior = log_softmax(-(apart**2) / 2, axis=1)[:, :, None]
    likelihoods = np.array([logsumexp(logs + row, axis=0).sum() for row in prior])
    w = int(np.argmax(likelihoods))
    weights = softmax(logs + prior[w], axis=0)
    # Variances include the uncertainty of the typical drift, with a half-Cauchy prior at the noise.
    plausible = softmax(likelihoods + np.log(relative / (1 + relative**2)))
    used = np.flatnonzero(plausible > _PLAUSIBLE)
    all_weights = sum(plausible[i] * softmax(logs + prior[i], axis=0) for i in used)
    all_weights /= plausible[used].sum()
    parts = []
    for block in blocks:
        model = levels(block)
        typical_weights = weights[block]
        mean = (typical_weights * model.smoothed).sum(axis=1)
        spread = model.smoothed_variance + (model.smoothed - mean[:, None]) ** 2
        typical_variance = (typical_weights * spread).sum(axis=1)
        whole_variance = (all_weights[block] * spread).sum(axis=1)
        alone = np.maximum(variance[block] - model.smoothed_variance[:, w], 1e-300)
        is_smoothed = alone > 1e-6 * variance[block]  # a row may be its own estimate
        spikes = (F[block] - model.smoothed[:, w]) / np.sqrt(alone) * is_smoothed
        parts.append((mean, typical_variance, whole_variance, model.shifts[:, w], spikes))
    values, variance, total_variance, shifts, spikes = np.concatenate(parts, axis=-1)
    return _Fit(values, variance, total_variance, shifts, spikes, float(drifts[w]))


class Trend(BasePostProcessor):
    """Smooth estimates over time, such as one estimate for each week.

    Each row of the estimate is one time. If frequencies change slowly, the rows before and after a
    row also contain information about the frequencies at this row. The method estimates from the
    rows how much the frequencies change. In the model, the true frequency of each category is a
    random walk, and the noise of the estimates is known (a local-level model [1]_):

    .. math:: \\tilde f_t = f_t + N(0, V_t), \\qquad f_t = f_{t-1} + N(0, w^2 \\bar f \\Delta_t)

    Here F~_t is the raw estimate of a category at row t, V_t is the variance of its noise, f_t is
    the true frequency, f-bar is the mean of f_t over time, and Delta_t is the time between the
    previous row and row t. The parameter w is the drift: the typical size of changes. It is fitted
    by maximum likelihood to all categories together. Then each category gets its own drift. The
    logarithm of this drift has a normal prior, with the logarithm of w as its mean and a standard
    deviation of 0.35. The result is the average over the possible drifts of each category, weighted
    by their posterior probabilities.

    The rows must come from different users, and the users of each row must be a sample of the
    population at this time. If the same users answer with memoization
    (:class:`~sklearn_ldp.collection.RepeatedClient`), the errors of the rows are correlated, but
    the estimate does not contain this correlation. Smoothing then removes less noise than the
    standard errors indicate, and only the intervals of the raw rows are valid.

    Parameters
    ----------
    filtered : bool, default=False
        If True, each row is estimated only from this row and the rows before it, so that later rows
        do not change published results. The computing time then grows with the square of the
        number of rows. If False, each row is estimated from all rows.
    times : array-like of shape (n_estimates,), default=None
        The times of the rows, as increasing numbers or dates (such as "2026-05-04"). If None, the
        names of the rows are the times if they are dates. Otherwise the rows are assumed to be
        equally spaced in time. If the names are numbers with unequal differences, `times` must be
        passed: a year that is missing in a list of years cannot be distinguished from the step
        between the week numbers 202452 and 202501.
    %(noise)s

    Attributes
    ----------
    drift_ : float
        The drift w, with a precision of 12 %. The true frequency of a category with the mean
        frequency f typically changes by ``w * sqrt(f)`` in one unit of time. The unit is one day if
        the times are dates, and the step from row to row if no times are known.
    jumps_ : ndarray of bool of shape (n_estimates, d)
        True if the frequency of a category jumps between the previous row and this row. In this
        category, the rows before a jump are then not used for the rows after the jump. In 99 % of
        the series without jumps, no jump is detected. With ``filtered=True``, only the rows up to
        this row are used to detect the jump.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The smoothed frequencies. They may be negative and need not sum to 1. Apply
        :class:`NormSub` to the result if you need non-negative frequencies that sum to 1.
    %(fitted)s

    See Also
    --------
    sklearn_ldp.oracles.estimate_by_group : Returns an estimate with one row for each week.
    sklearn_ldp.inspection.TrendDisplay : Draws the result.

    Notes
    -----
    The result contains `standard_errors`, so `confidence_interval` works. The standard errors
    include the uncertainty of the drift, under a half-Cauchy prior whose scale is the noise level
    [2]_. The coverages below are averages over rows and categories, for intervals of 95 %. For 3 to
    8 rows of two categories that follow random walks, the coverage was at least 0.90 (without the
    uncertainty of the drift: 0.87). If one category jumps and the jump is detected, the coverage
    was at least 0.93, also in the last row, and also if the frequency jumped for one row only.
    Around jumps that are too small to be detected, the intervals are too short. With 12 rows, ten
    categories, OUE at epsilon 1 and 5,000 users per row, a category changed from 0.10 to 0.15, and
    its interval at the row of the change had a coverage of 0.50. For a category whose frequency
    fell by 0.09 in the last row, the coverage was 0.12. With 500 users per row, a category changed
    from 0.10 to 0.35, and the coverage at the rows around the change was 0.39 to 0.50. The interval
    of a sum of categories uses the sum of their standard errors, so it is never too short.

    Smoothing helps most if frequencies change little. An unbiased estimate of the error after
    :class:`NormSub` decides whether the rows are smoothed at all. If the raw rows have the smaller
    error, they do not change and `drift_` is infinite. This occurs, for example, if the frequencies
    at each row are drawn independently.

    In this model, the variance of a change is proportional to the mean frequency of the category.
    This part of the model is unpublished. If all categories had the same variance of changes, the
    intervals of the largest two categories would have a lower coverage, and errors would be up to
    three times as large.

    References
    ----------
    .. [1] J. Durbin, S. J. Koopman, "Time series analysis by state space methods", second edition,
       Oxford University Press, 2012, :doi:`10.1093/acprof:oso/9780199641178.001.0001`.
    .. [2] A. Gelman, "Prior distributions for variance parameters in hierarchical models",
       Bayesian Analysis 1, 2006, :doi:`10.1214/06-BA117A`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OLH, Trend
    >>> from sklearn_ldp.oracles import estimate_by_group
    >>> week = np.repeat(np.arange(20), 5000)
    >>> answers = np.where(np.random.default_rng(0).random(100_000) < 0.3 + week / 200, "yes", "no")
    >>> oracle = OLH(epsilon=1.0, categories=["no", "yes"], random_state=0)
    >>> weekly = estimate_by_group(oracle, answers, by=week)
    >>> trend = Trend().fit_transform(weekly)
    >>> for estimate in (weekly, trend):
    ...     print(
    ...         f"{np.sqrt(np.mean((estimate.values[:, 1] - 0.3 - np.arange(20) / 200) ** 2)):.3f}"
    ...     )
    0.029
    0.008
    """

    drift_: float
    jumps_: np.ndarray

    _parameter_constraints: dict = {
        "filtered": ["boolean"],
        "times": [None, "array-like"],
        "noise": NOISE_CONSTRAINT,
    }

    _expected_failed_checks = dict.fromkeys(
        (
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_order_is_preserved",
            "check_rows_are_independent",
        ),
        "Trend combines rows: each row is improved by the rows before and after this row",
    )

    def __init__(
        self,
        *,
        filtered: bool = False,
        times: Sequence[Any] | np.ndarray | None = None,
        noise: float | Noise | None = None,
    ) -> None:
        self.filtered = filtered
        self.times = times
        self.noise = noise

    def _process(self, estimate):
        F = estimate.values
        noise = resolve_noise(estimate, self.noise, "Trend")
        steps = _steps(estimate, self.times)
        noise = noise if noise.n_users is None else noise.of_population()
        stops = range(1 if self.filtered else len(F), len(F) + 1)
        fits = [_fitted(F[:t], noise.of_rows(slice(t)), steps[:t]) for t in stops]
        (values, _, variance, *_, self.drift_), self.jumps_ = fits[-1]
        if self.filtered:  # the last row of a smoother is the last row of the filter
            values = np.array([fit.values[-1] for fit, _ in fits])
            variance = np.array([fit.total_variance[-1] for fit, _ in fits])
            self.jumps_ = np.array([jumps[-1] for _, jumps in fits])
        return estimate.with_values(values, by="Trend", standard_errors=np.sqrt(variance))


def _steps(estimate: Any, times: Any) -> np.ndarray:
    """Return the time between the previous row and each row, of shape (n_rows,).

    The first entry is 0. times: the parameter `times` of Trend, or None to use the row names.
    """
    n_rows = len(estimate)
    values = np.asarray(estimate.row_names if times is None else times)
    shown = values.tolist()
    is_date = (isinstance(time, date) or _DATE.fullmatch(str(time)) for time in values.flat)
    if values.dtype.kind in "OU" and all(is_date):
        with suppress(ValueError):  # texts such as February 30 remain names
            values = values.astype("M8[us]")
    if values.dtype.kind == "M":
        values = (values - values[:1]) / np.timedelta64(1, "D")
    elif times is None:
        is_even = values.dtype.kind not in "iuf" or len(set(np.diff(values).tolist())) < 2
        if not is_even and n_rows > 2:
            raise ValueError(
                f"Trend: the row names are unequally spaced numbers, got {shown}. If these numbers "
                "are times, pass times=estimate.row_names. If the rows are in fact equally spaced "
                "in time, pass times=range(len(estimate))."
            )
        _warn_of_text_order(estimate)
        values = np.arange(n_rows)
    try:
        steps = np.diff(values.astype(float))
    except (TypeError, ValueError):
        raise ValueError(
            f"Trend: times must be numbers or dates, got {times!r}. Pass times= with a number or "
            "a date for each row."
        ) from None
    if values.shape != (n_rows,) or not np.all((steps > 0) & np.isfinite(steps)):
        raise ValueError(
            f"Trend needs {n_rows} finite, increasing times, one for each row, got {shown}. Sort "
            "the rows by time, and pass one time per row as times=."
        )
    return np.append(0.0, steps)


def _warn_of_text_order(estimate: Any) -> None:
    """Warn if the rows are sorted as text: week 1, week 10, week 2."""
    names = [] if estimate.row_names is None else estimate.row_names.tolist()
    by_number = order_by_number(names)
    if by_number is not None:
        texts = [", ".join(order[:4]) for order in (names, by_number)]
        warnings.warn(
            f"Trend got rows in the order of text, {texts[0]}, ..; the order by number is "
            f"{texts[1]}, ... Name the rows by numbers or dates (2026-01-05), or pass an ordered "
            "pandas Categorical as by= of estimate_by_group. If the rows are in the order of time, "
            "pass times=range(len(estimate)).",
            UserWarning,
            stacklevel=2,
        )
