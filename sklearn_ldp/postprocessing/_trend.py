"""Rows that follow each other in time: the local-level model, and the post-processor Trend."""

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

_JUMP = 0.01  # probability that any category of a series without jumps is taken for one
_ANYWHERE = 1e6  # variance of a step to an unknown level: that of any frequency is below 1
_PASSES = 2  # over the variances, which grow with the frequencies
# How much drifts differ: of 0, .35, .7 and 1.4 it covered best at small errors, on the made-up
# series of benchmarks.accuracy.weeks and nine real ones (2026-11-25, doc/notes/postprocessors.md).
_OWN = 0.35
_N_DRIFTS = 51  # in five decades around the noise
_PLAUSIBLE = 1e-4  # probability below which a typical drift is left out
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-[0-3]\d")  # a day, in the form of ISO 8601
_CELLS = 1 << 20  # numbers worked on at a time


class LocalLevel(NamedTuple):
    """The levels of a local-level model, estimated from its rows, of shape (n_rows, ..., d).

    Parameters
    ----------
    filtered, filtered_variance : ndarray
        The levels, from each row and those before it, and their variances.
    smoothed, smoothed_variance : ndarray
        The levels, from all rows, and their variances.
    shifts : ndarray
        What all rows say of an additional step to each row: standard normal if there is none. At
        the last row it is the innovation, in standard deviations.
    log_likelihood : ndarray of shape (..., d)
        Of all rows but the first one, without its constant.
    """

    filtered: np.ndarray
    filtered_variance: np.ndarray
    smoothed: np.ndarray
    smoothed_variance: np.ndarray
    shifts: np.ndarray
    log_likelihood: np.ndarray


def local_level(F: ArrayLike, variance: ArrayLike, drift: ArrayLike) -> LocalLevel:
    """Estimate levels that drift, by the Kalman filter and its fixed-interval smoother.

    The model of each category is ``F_t = f_t + N(0, variance_t)`` and
    ``f_t = f_(t-1) + N(0, drift_t)`` [1]_. Nothing is known of the first level.

    Parameters
    ----------
    F : array-like of shape (n_rows, ..., d)
        What was observed, in the order of time.
    variance : array-like of shape (n_rows, ..., d)
        Variances of what was observed.
    drift : array-like of shape (n_rows, ..., d)
        Variance of the step to each row from the one before it; that of the first row is not used.

    Returns
    -------
    LocalLevel
        The levels.

    References
    ----------
    .. [1] J. Durbin, S. J. Koopman, "Time series analysis by state space methods", second edition,
       Oxford University Press, 2012, sections 2.2 to 2.5,
       :doi:`10.1093/acprof:oso/9780199641178.001.0001`.
    """
    F, variance, drift = np.broadcast_arrays(*map(np.asarray, (F, variance, drift)))
    level, spread, errors, z, smoothed, rest, shifts = (np.zeros(F.shape) for _ in range(7))
    level[0], spread[0], errors[0] = F[0], variance[0], 1.0
    for t in range(1, len(F)):
        prior = spread[t - 1] + drift[t]
        errors[t] = prior + variance[t]
        innovation, gain = F[t] - level[t - 1], prior / errors[t]
        level[t], spread[t] = level[t - 1] + gain * innovation, gain * variance[t]
        z[t] = innovation / np.sqrt(errors[t])
    # The score of a step, and its information, from the rows after each one.
    score = information = np.zeros(F.shape[1:])
    for t in range(len(F) - 1, -1, -1):
        smoothed[t] = level[t] + spread[t] * score
        rest[t] = spread[t] - spread[t] ** 2 * information
        kept = variance[t] / errors[t]
        score = z[t] / np.sqrt(errors[t]) + kept * score
        information = 1 / errors[t] + kept**2 * information
        shifts[t] = score / np.sqrt(information)
    shifts[0] = 0.0  # the first level is any
    likelihood = -0.5 * np.sum(np.log(errors) + z**2, axis=0)
    return LocalLevel(level, spread, smoothed, rest, shifts, likelihood)


class _Fit(NamedTuple):
    """The levels of a local-level model, over drifts that differ a little."""

    values: np.ndarray  # (n_rows, d)
    variance: np.ndarray  # under drifts near the typical one
    total_variance: np.ndarray  # as that one is not known
    shifts: np.ndarray  # under the typical drift
    spikes: np.ndarray  # how far rows are from all others, in standard deviations, under it
    drift: float  # the typical one, for a category that everybody has


def _fitted(F: np.ndarray, noise: Noise, steps: np.ndarray) -> tuple[_Fit, np.ndarray]:
    """Return the most likely model, and where categories jump, of shape (n_rows, d)."""
    n_rows, d = F.shape
    # The largest of standard normal statistics, by Bonferroni's inequality.
    critical = -ndtri(_JUMP / 4 / max((n_rows - 1) * d, 1))
    precision = np.broadcast_to(np.asarray(noise.std) ** -2.0, n_rows)
    f = np.broadcast_to(norm_sub(np.average(F, axis=0, weights=precision)), F.shape)
    for _ in range(_PASSES):
        variance = np.broadcast_to(noise.variance(f), F.shape)
        unit, jumps = steps[:, None] * f.mean(axis=0), np.zeros(F.shape)
        # Ends: each pass adds at least one jump, and a place has one at most.
        while True:
            fit = _at_likely_drifts(F, variance, unit, jumps)
            # The first row has no step to it, and after the last row nothing goes back.
            is_done = np.vstack([np.ones(d, dtype=bool), jumps[1:] > 0, np.ones(d, dtype=bool)])
            shifts = np.where(is_done[:-1], 0.0, fit.shifts)
            spikes = np.where(is_done[:-1] & is_done[1:], 0.0, fit.spikes)
            sizes = np.abs([shifts, spikes]).reshape(2 * n_rows, d)
            found = np.flatnonzero(sizes.max(axis=0) > critical)
            if not found.size:
                break
            rows = sizes.argmax(axis=0)[found]
            jumps[rows % n_rows, found] = _ANYWHERE
            is_back = (rows >= n_rows) & (rows < 2 * n_rows - 1)  # a spike is a jump and one back
            jumps[rows[is_back] - n_rows + 1, found[is_back]] = _ANYWHERE
            jumps[0] = 0.0  # the first level is any
        if jumps.any():
            steps_of_rest = _compensation(fit.values, f.mean(axis=0), jumps > 0)
            fit = _at_likely_drifts(F, variance, unit, jumps + steps_of_rest)
        f = norm_sub(fit.values)
    # Frequencies without a trend are not smoothed: the rows alone may be better.
    if _risk(F, F, variance, variance) < _risk(fit.values, F, fit.variance, variance):
        alone = np.broadcast_to(noise.variance(norm_sub(F)), F.shape)
        fit, jumps = _Fit(F, alone, alone, jumps * 0, jumps * 0, np.inf), np.zeros(F.shape)
    return fit, jumps > 0


def _compensation(values: np.ndarray, shares: np.ndarray, jumps: np.ndarray) -> np.ndarray:
    """Return variances of the steps of the other categories where some categories jump.

    Shapes: values (n_rows, d), shares (d,), jumps (n_rows, d) -> (n_rows, d).
    """
    # Shares sum to 1, so the others lose what those that jump gain, in proportion if nothing else
    # is known. With twice this loss as the standard deviation of a step, its bias is at most half
    # a standard error.
    gains = np.sum(np.diff(values, axis=0, prepend=values[:1]) * jumps, axis=1, keepdims=True)
    rest = np.maximum(shares, 0) * ~jumps
    return (2 * gains * rest / np.maximum(rest.sum(axis=1, keepdims=True), 1e-300)) ** 2


def _risk(values: np.ndarray, F: np.ndarray, spread: np.ndarray, variance: np.ndarray) -> float:
    """Estimate the squared error of smoothed rows after NormSub (Stein; see `smooth_risk`)."""
    # A smoothed value weighs its own row by spread / variance.
    result = norm_sub(values)
    support = result > 0
    freedom = np.sum(spread * support, axis=1) * (1 - 1 / support.sum(axis=1))
    return float(np.sum((result - F) ** 2 - variance) + 2 * freedom.sum())


def _at_likely_drifts(
    F: np.ndarray, variance: np.ndarray, unit: np.ndarray, jumps: np.ndarray
) -> _Fit:
    """Fit the typical drift w, and return means over the drifts that each category may have."""
    # The logarithm of each category's drift is normal, around that of w, and w has the largest
    # likelihood. Shapes: logs and weights (n_drifts, d).
    typical = np.median(unit[1:].sum(axis=1)) if len(F) > 1 else 1.0
    relative = np.logspace(-3, 2, _N_DRIFTS)
    drifts = np.sqrt(variance.mean() / typical) * relative

    def levels(block: Any) -> LocalLevel:
        steps = drifts[:, None] ** 2 * unit[block][:, None] + jumps[block][:, None]
        return local_level(F[block][:, None], variance[block][:, None], steps)

    width = max(_CELLS // (len(F) * _N_DRIFTS), 1)
    blocks = [np.s_[:, i : i + width] for i in range(0, F.shape[1], width)]
    logs = np.concatenate([levels(block).log_likelihood for block in blocks], axis=1)
    apart = np.log(drifts / drifts[:, None]) / _OWN
    prior = log_softmax(-(apart**2) / 2, axis=1)[:, :, None]
    likelihoods = np.array([logsumexp(logs + one, axis=0).sum() for one in prior])
    w = int(np.argmax(likelihoods))
    weights = softmax(logs + prior[w], axis=0)
    # Errors allow for each typical drift, by the rows and a half-Cauchy prior at the noise.
    plausible = softmax(likelihoods + np.log(relative / (1 + relative**2)))
    told = np.flatnonzero(plausible > _PLAUSIBLE)
    all_weights = sum(plausible[i] * softmax(logs + prior[i], axis=0) for i in told)
    all_weights /= plausible[told].sum()
    parts = []
    for block in blocks:
        of_block, share, whole = levels(block), weights[block], all_weights[block]
        mean = (share * of_block.smoothed).sum(axis=1)
        spread = of_block.smoothed_variance + (of_block.smoothed - mean[:, None]) ** 2
        variances = (share * spread).sum(axis=1), (whole * spread).sum(axis=1)
        alone = np.maximum(variance[block] - of_block.smoothed_variance[:, w], 1e-300)
        is_told = alone > 1e-6 * variance[block]  # not of a row that is its own estimate
        spikes = (F[block] - of_block.smoothed[:, w]) / np.sqrt(alone) * is_told
        parts.append((mean, *variances, of_block.shifts[:, w], spikes))
    values, variance, total_variance, shifts, spikes = np.concatenate(parts, axis=-1)
    return _Fit(values, variance, total_variance, shifts, spikes, float(drifts[w]))


class Trend(BasePostProcessor):
    """Smooth rows that follow each other in time, such as an estimate for each week.

    A week alone is as noisy as its number of users makes it. The weeks around it tell the more of
    it, the less the frequencies change; how much they change is learnt from the rows themselves.
    Each category is a random walk that is seen through the known noise (a local-level model [1]_):

    .. math:: \\tilde f_t = f_t + N(0, V_t), \\qquad f_t = f_{t-1} + N(0, w^2 \\bar f \\Delta_t)

    The variance of a step is in proportion to the mean share of the category and to the time. The
    one parameter, the drift w, has the largest likelihood over all categories. A single category
    has a drift near it (its logarithm is normal, with the standard deviation 0.35), and its result
    is the mean over these.

    The rows must be of different users, each a sample of the population of its time. If the same
    users answer by a memo (:class:`~sklearn_ldp.collection.RepeatedClient`), their rows share
    errors, which the reports do not tell: then smoothing removes less than it says, and only the
    intervals of the raw rows hold.

    Parameters
    ----------
    filtered : bool, default=False
        Whether each row is estimated from itself and the rows before it alone, the drift included,
        so that later rows change nothing that was published. The time grows with the square of the
        number of rows.
    times : array-like of shape (n_estimates,), default=None
        When the rows were collected, as rising numbers or dates ("2026-05-04" is one). None takes
        the names of the rows if these are dates, and equal steps otherwise; names that are numbers
        with unequal steps are refused, as years with a gap and codes such as 202452 look alike.
    %(noise)s

    Attributes
    ----------
    drift_ : float
        w, within 12 %. A category of mean share f moves by ``w * sqrt(f)`` in a unit of `times`: a
        day if these are dates, from row to row if there are none.
    jumps_ : ndarray of bool of shape (n_estimates, d)
        Where a category has jumped, so that no row before tells anything of it: it moved further
        than by chance in 99 % of the series that follow the model. With `filtered` that is said of
        the rows up to each one.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The levels. They may be negative, and need not sum to 1: put :class:`NormSub` after it.
    %(fitted)s

    See Also
    --------
    sklearn_ldp.oracles.estimate_by_group : An estimate with a row for each week.
    sklearn_ldp.inspection.TrendDisplay : Draws the result.

    Notes
    -----
    The result knows its `standard_errors`, so `confidence_interval` works. They allow for what is
    not known of the drift, under a half-Cauchy prior at the noise [2]_. The level holds on average
    over rows and categories; of 3 to 8 rows of two categories that walk at random those of 95 %
    held in .90 at worst (with the likeliest drift taken for the true one: .87). Where one category
    jumps and is found, intervals of 95 % covered .93 and more, also in the last row and in a spike
    of one row. Around jumps that are too small to be found they are too short: of a category that
    moved from .10 to .15 they covered .50 in the row of the move (12 rows, ten categories, OUE at
    epsilon 1, 5,000 users each), and of one that gave .09 to another in the last row .12;
    of one that moved from .10 to .35, with 500 users each, .39 to .50 in the rows around the move.
    The interval of a sum of categories takes the sum of their standard errors, which is never too
    small.

    It helps most where little changes. Whether it helps at all is judged by an unbiased estimate of
    the error after :class:`NormSub`. If the rows alone are better, they stay as they are and
    `drift_` is infinite: so it is with frequencies that are drawn anew each time.

    That steps are in proportion to shares is unpublished; with one drift for all, the largest two
    categories were covered less often, and errors were up to three times as large.

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
        "it joins rows: each is improved by those before and after it",
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
        F, noise = estimate.values, resolve_noise(estimate, self.noise, "Trend")
        steps = _steps(estimate, self.times)
        noise = noise if noise.n_users is None else noise.of_population()
        stops = range(1 if self.filtered else len(F), len(F) + 1)
        fits = [_fitted(F[:t], noise.of_rows(slice(t)), steps[:t]) for t in stops]
        (values, _, variance, *_, self.drift_), self.jumps_ = fits[-1]
        if self.filtered:  # the last row of a smoother is that of the filter
            values = np.array([fit.values[-1] for fit, _ in fits])
            variance = np.array([fit.total_variance[-1] for fit, _ in fits])
            self.jumps_ = np.array([jumps[-1] for _, jumps in fits])
        return estimate.with_values(values, by="Trend", standard_errors=np.sqrt(variance))


def _steps(estimate: Any, times: Any) -> np.ndarray:
    """Return the time since the row before each one, of shape (n_rows,); 0 of the first."""
    n_rows = len(estimate)
    given = np.asarray(estimate.row_names if times is None else times)
    shown = given.tolist()
    is_date = (isinstance(one, date) or _DATE.fullmatch(str(one)) for one in given.flat)
    if given.dtype.kind in "OU" and all(is_date):
        with suppress(ValueError):  # no day is the 30th of February: a name like others
            given = given.astype("M8[us]")
    if given.dtype.kind == "M":
        given = (given - given[:1]) / np.timedelta64(1, "D")
    elif times is None:
        is_even = given.dtype.kind not in "iuf" or len(set(np.diff(given).tolist())) < 2
        if not is_even and n_rows > 2:
            raise ValueError(
                "Trend got rows named by numbers with unequal steps: say by times= when they were "
                "collected, as in times=estimate.row_names, or times=range(len(estimate)) if the "
                "steps are equal."
            )
        given = np.arange(n_rows)
    try:
        steps = np.diff(given.astype(float))
    except (TypeError, ValueError):
        raise ValueError(f"Trend needs times that are numbers or dates, got {times!r}.") from None
    if given.shape != (n_rows,) or not np.all((steps > 0) & np.isfinite(steps)):
        raise ValueError(
            f"Trend needs a rising time for each of the {n_rows} rows, got {shown}: put "
            "the rows into the order of time."
        )
    return np.append(0.0, steps)
