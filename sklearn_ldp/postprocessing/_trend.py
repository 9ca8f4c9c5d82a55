"""Smoothing of rows in the order of time: the local-level model, and Trend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, logsumexp, ndtri, softmax

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
    """The true values (levels) of a series, estimated from noisy rows, of shape (n_rows, ..., d).

    Parameters
    ----------
    filtered, filtered_variance : ndarray
        The level at each row, estimated from this row and all earlier rows, and its variance.
    smoothed, smoothed_variance : ndarray
        The level at each row, estimated from all rows, and its variance.
    shifts : ndarray
        For each row, a test statistic of an additional jump of the level between the previous row
        and this row. It is computed from all rows, and standard normal if there is no jump. At the
        last row, it is the prediction error of this row, in standard deviations.
    log_likelihood : ndarray of shape (..., d)
        The log-likelihood of all rows except the first one, up to a constant.
    """

    filtered: np.ndarray
    filtered_variance: np.ndarray
    smoothed: np.ndarray
    smoothed_variance: np.ndarray
    shifts: np.ndarray
    log_likelihood: np.ndarray


def local_level(F: ArrayLike, variance: ArrayLike, drift: ArrayLike) -> LocalLevel:
    """Estimate the slowly changing true values of noisy series, by a Kalman filter and smoother.

    In the model of each category, F_t is the observation and f_t the true value (level) at row t:
    ``F_t = f_t + N(0, variance_t)`` and ``f_t = f_(t-1) + N(0, drift_t)`` [1]_. The first level
    has a flat prior.

    Parameters
    ----------
    F : array-like of shape (n_rows, ..., d)
        Observed rows, in the order of time.
    variance : array-like of shape (n_rows, ..., d)
        Variances of the observations.
    drift : array-like of shape (n_rows, ..., d)
        Variance of the step to each row from the row before it; the first entry is not used.

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
    """Estimated levels, averaged over the possible speeds (drifts) of each category."""

    values: np.ndarray  # (n_rows, d)
    variance: np.ndarray  # given the typical drift
    total_variance: np.ndarray  # including the uncertainty of the typical drift
    shifts: np.ndarray  # under the typical drift
    spikes: np.ndarray  # distances of rows from all others, in standard deviations, also under it
    drift: float  # the typical drift of a category with the frequency 1


def _fitted(F: np.ndarray, noise: Noise, steps: np.ndarray) -> tuple[_Fit, np.ndarray]:
    """Return the most likely model, and a mask (n_rows, d) of the rows where categories jump."""
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
    """Return, for the categories that do not jump, the variance of their step at each jump.

    Shapes: values (n_rows, d), shares (d,), jumps (n_rows, d) -> (n_rows, d).
    """
    # Frequencies sum to 1, so the other categories lose the gain of the categories that jump,
    # without other information in proportion to their frequencies. With twice this loss as the
    # standard deviation of a step, its bias is at most half a standard error.
    gains = np.sum(np.diff(values, axis=0, prepend=values[:1]) * jumps, axis=1, keepdims=True)
    rest = np.maximum(shares, 0) * ~jumps
    return (2 * gains * rest / np.maximum(rest.sum(axis=1, keepdims=True), 1e-300)) ** 2


def _risk(values: np.ndarray, F: np.ndarray, spread: np.ndarray, variance: np.ndarray) -> float:
    """Return an unbiased estimate of the squared error of values after NormSub."""
    # A smoothed value has the weight spread / variance on its own row (see `smooth_risk`).
    result = norm_sub(values)
    support = result > 0
    freedom = np.sum(spread * support, axis=1) * (1 - 1 / support.sum(axis=1))
    return float(np.sum((result - F) ** 2 - variance) + 2 * freedom.sum())


def _at_likely_drifts(
    F: np.ndarray, variance: np.ndarray, unit: np.ndarray, jumps: np.ndarray
) -> _Fit:
    """Fit the typical drift w; average the levels over the possible drifts of each category."""
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
    """Smooth rows in the order of time, such as an estimate for each week.

    The noise of a single week depends on its number of users. The fewer changes there are, the more
    the neighboring weeks help, and the rows themselves show how much frequencies change. Each
    category is a random walk, observed with the known noise (a local-level model
    [1]_):

    .. math:: \\tilde f_t = f_t + N(0, V_t), \\qquad f_t = f_{t-1} + N(0, w^2 \\bar f \\Delta_t)

    Here F~_t is the estimate at row t with the noise variance V_t, f_t is the true frequency, f-bar
    its mean over time, and Delta_t the time since the previous row. The single parameter, the drift
    w, is fitted by maximum likelihood to all categories together. Each category has a drift of its
    own near w (its logarithm is normal around the logarithm of w, with the standard deviation
    0.35), and the result is the mean over these drifts.

    The rows must come from different users, and each row must be a sample of the population of its
    time. If the same users answer with memoization
    (:class:`~sklearn_ldp.collection.RepeatedClient`), the errors of their rows are correlated,
    which the reports do not show. Then smoothing removes less noise than the standard errors
    indicate, and only the intervals of the raw rows are valid.

    Parameters
    ----------
    filtered : bool, default=False
        Whether each row is estimated only from this row and the rows before it, so that later rows
        do not change published results. The computing time grows with the square of
        the number of rows.
    times : array-like of shape (n_estimates,), default=None
        The times of the rows, as increasing numbers or dates (such as "2026-05-04"). If None, use
        the names of the rows if these are dates, otherwise equal steps. Names that are numbers with
        unequal steps are refused, because years with a gap cannot be distinguished from codes such
        as 202452.
    %(noise)s

    Attributes
    ----------
    drift_ : float
        The drift w, with a precision of 12 %. A category of mean frequency f typically moves by
        ``w * sqrt(f)`` in one unit of time: a day if the times are dates, a row if there are no
        times.
    jumps_ : ndarray of bool of shape (n_estimates, d)
        True where a category has jumped since the previous row. The rows before a jump are then not
        used for the rows after it. In 99 % of the series without jumps, no jump is found. With
        ``filtered=True``, only the rows up to each row are used to find its jumps.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The smoothed frequencies. They may be negative, and may not sum to 1; use :class:`NormSub`
        afterwards.
    %(fitted)s

    See Also
    --------
    sklearn_ldp.oracles.estimate_by_group : An estimate with a row for each week.
    sklearn_ldp.inspection.TrendDisplay : Draws the result.

    Notes
    -----
    The result contains `standard_errors`, so `confidence_interval` works. They include the
    uncertainty of the drift, under a half-Cauchy prior at the noise [2]_. The coverage of intervals
    is an average over rows and categories. For 3 to 8 rows of two categories that follow random
    walks, intervals of 95 % covered at least .90 (without the uncertainty of the drift: .87). If
    one category jumps and the jump is detected, intervals of 95 % covered .93 and more, also in
    the last row and in a spike of one row. Around jumps that are too small to be detected, the
    intervals are too short. For a category that moved from .10 to .15 they covered .50 in the row
    of the move (12 rows, ten categories, OUE at epsilon 1, 5,000 users each), and for a category
    that lost .09 to another in the last row .12. For a category that moved from .10 to .35, with
    500 users each, they covered .39 to .50 in the rows around the move. The interval of a sum of
    categories uses the sum of their standard errors, which is never too small.

    The gain is largest if little changes. An unbiased estimate of the error after :class:`NormSub`
    decides whether to smooth at all. If the rows alone are better, they do not change, and `drift_`
    is infinite, for example for frequencies that are drawn independently for each row.

    Steps in proportion to frequencies are unpublished. With a common drift for all categories, the
    intervals of the largest two categories had a lower coverage, and errors were up to three times
    as large.

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
        "Trend joins rows: each row is improved by the rows before and after it",
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
    """Return, for each row, the time since the previous row (0 for the first row)."""
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
                "Trend: the row names are unequally spaced numbers. If they are times, pass "
                "times=estimate.row_names. If the rows are in fact equally spaced in time, pass "
                "times=range(len(estimate))."
            )
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
            f"Trend needs {n_rows} increasing times, one for each row, got {shown}. Sort the rows "
            "by time, and pass one time per row as times=."
        )
    return np.append(0.0, steps)
